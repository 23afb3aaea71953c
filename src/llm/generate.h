/* SPDX-License-Identifier: Apache-2.0 */
/* Generation of text from tokens. */
#ifndef TV_LLM_GENERATE_H
#define TV_LLM_GENERATE_H

#include "llm/state.h"

/* Receives `user` and the bytes of a text; a non-zero result ends the generation. NULL: the text is dropped. */
typedef int tv_llm_text_fn(void *user, const char *bytes, size_t size);

typedef struct tv_generation {
    const int32_t *prompt; /* [prompt_count] */
    size_t prompt_count;
    bool echo;      /* the text begins with that of the prompt */
    uint32_t count; /* tokens to generate at most */
    int32_t end;    /* a further token that ends the text; -1: none */
    tv_llm_sampling sampling;
    tv_llm_text_fn *text;
    void *user;
} tv_generation;

/* Runs the prompt after everything that the session has run or generated, then generates. TV_ERR_INPUT: the prompt does
 * not fit the context; otherwise as tv_llm_generate. */
tv_status tv_llm_run_generation(tv_llm_session *s, const tv_generation *g, const tv_diag_sink *sink);

#endif
