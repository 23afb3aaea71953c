/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of directed closure. */
#ifndef TV_COSIM_COVER_CLOSURE_H
#define TV_COSIM_COVER_CLOSURE_H

#include "cosim/coverage.h"
#include "cosim/generator.h"

typedef struct closure {
    tv_cover *cover;
    const tv_config *config;
    const tv_cover_close_options *options;
    const tv_diag_sink *sink;
    tv_generator *g;
    uint64_t executed; /* instructions of all programs */
    uint16_t *misses;  /* of each bin: words for it that did not hit it */
} closure;

static inline uint64_t tv_closure_set(const tv_isa *isa, uint64_t word, uint16_t field, uint64_t value)
{
    return tv_field_set(isa, &isa->fields[field], word, value);
}

/* Executes `word` if it is an instruction that does not fault. */
tv_status tv_closure_try(closure *k, uint64_t word, bool *executed);

/* Executes what the word for bin `at` of a block needs before it, and changes *word so that it uses that. */
tv_status tv_closure_prepare(closure *k, const cover_block *block, uint32_t at, uint64_t *word);

/* cover_queues.c: makes queues for a machine without instruction words. */
tv_status tv_closure_queues(closure *k);

#endif
