/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostic codes of models and graphs: codes.def as a table. */
#ifndef TV_GRAPH_CODES_H
#define TV_GRAPH_CODES_H

#include "base/diag.h"

typedef enum tv_llm_code_id {
#define TV_CODE_ROW(id, code, name, text) TV_LLM_CODE_##id,
#include "graph/codes.def"
#undef TV_CODE_ROW
    TV_LLM_CODE_COUNT
} tv_llm_code_id;

extern const tv_code tv_llm_codes[TV_LLM_CODE_COUNT];

#define TV_LLM_CODE(id) (&tv_llm_codes[TV_LLM_CODE_##id])

#endif
