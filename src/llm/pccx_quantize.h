/* SPDX-License-Identifier: Apache-2.0 */
/* INT4 as pccx takes it: beats of 32 nibbles with a BF16 scale for each row. */
#ifndef TV_LLM_PCCX_QUANTIZE_H
#define TV_LLM_PCCX_QUANTIZE_H

#include "kernels/scales.h"

enum { PCCX_BEAT = 16, PCCX_BEAT_WEIGHTS = 32 };

/* Rounds `n` values to -8 ... 7 times a scale: the one, of some around the largest magnitude over 7 or 8 and of either sign,
 * whose squared error is least. `values` has zeros up to whole beats of 32; `beats` gets those beats, `values` what is left: value less scale
 * times weight, so that a second plane may take it. Returns the scale's BF16 bits; of zeros, or of what is not finite, 1. `search`
 * is the host's version of that kernel. */
uint16_t pccx_quantize(tv_least_scale_fn search, float *values, uint32_t n, uint8_t *beats);

/* The same of values whose tv_extreme (kernels/quantize.h) is known. */
uint16_t pccx_quantize_to(tv_least_scale_fn search, float extreme, float *values, uint32_t n, uint8_t *beats);

#endif
