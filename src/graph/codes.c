/* SPDX-License-Identifier: Apache-2.0 */
/* The table of model and graph diagnostics. */
#include "graph/codes.h"

const tv_code tv_llm_codes[TV_LLM_CODE_COUNT] = {
#define TV_CODE_ROW(id, code_, name_, text_) {.code = (code_), .name = (name_), .text = (text_)},
#include "graph/codes.def"
#undef TV_CODE_ROW
};
