/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of the next token from logits.
 *
 * Runs on the host in binary64 with a generator of its own, so that a seed gives the same text on every host and with
 * any number of threads. */
#ifndef TV_LLM_SAMPLE_H
#define TV_LLM_SAMPLE_H

#include "llm/state.h"

/* Index of the largest of n logits, the first one on ties. */
int32_t tv_argmax(const float *logits, uint32_t n);

/* Chooses from the n logits: the largest at temperature 0, otherwise by nucleus (top-p) sampling, which advances the
 * state `random`. TV_ERR_MEMORY. */
tv_status tv_sample_token(const float *logits, uint32_t n, const tv_llm_sampling *sampling, uint64_t *random,
                          int32_t *token, const tv_diag_sink *sink);

#endif
