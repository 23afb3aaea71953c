/* SPDX-License-Identifier: Apache-2.0 */
/* The table of this floor's codes. */
#include "graph/codes.h"

#include "isa/isa.h"

const tv_code tv_llm_codes[TV_LLM_CODE_COUNT] = {
#define TV_CODE_ROW(id, code_, name_, text_) {.code = (code_), .name = (name_), .text = (text_)},
#include "graph/codes.def"
#undef TV_CODE_ROW
};

/* The list of all codes ends with this floor's. */
int tv_code_at(unsigned i, tv_code_info *out)
{
    const tv_code *code = tv_isa_code_at(&i);
    if (!code && i >= TV_LLM_CODE_COUNT)
        return 0;
    *out = code ? *code : tv_llm_codes[i];
    return 1;
}
