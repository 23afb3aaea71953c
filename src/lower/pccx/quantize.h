/* SPDX-License-Identifier: Apache-2.0 */
/* INT4 as pccx takes it: beats of 32 nibbles with a BF16 scale for each row. */
#ifndef TV_LOWER_PCCX_QUANTIZE_H
#define TV_LOWER_PCCX_QUANTIZE_H

#include "kernels/scales.h"

enum { PCCX_BEAT = 16, PCCX_BEAT_WEIGHTS = 32 };

/* A scale for `n` values, of some around the largest magnitude over 7 or 8 and of either sign: the one whose squared
 * error is least when they are rounded to -8 ... 7 times it; `extreme` is their tv_signed_absmax (kernels/quantize.h).
 * Of zeros, or of what is not finite, 0. `search` is the host's version of that kernel. */
float pccx_choose_scale(tv_scale_search_fn *search, const float *values, uint32_t n, float extreme);

/* Rounds `n` values to -8 ... 7 times a scale; 0: they become zeros. `values` has zeros up to whole beats of 32;
 * `beats` gets those beats. `left`, which may be `values` or NULL, gets what is left: value less scale times weight, so
 * that a second plane may take it. Returns the scale's BF16 bits; of 0, 1. */
uint16_t pccx_round(const float *values, uint32_t n, float scale, uint8_t *beats, float *left);

/* Puts values `from` to `to`, within one beat, beside those that stand in it. */
void pccx_round_more(const float *values, uint32_t from, uint32_t to, float scale, uint8_t *beat);

/* As pccx_round with the scale that is chosen for these values, which get what is left. */
uint16_t pccx_quantize(tv_scale_search_fn *search, float *values, uint32_t n, uint8_t *beats);

#endif
