/* SPDX-License-Identifier: Apache-2.0 */
/* INT4 in the format of pccx: beats of 32 nibbles, with a BF16 scale for each row. */
#ifndef TV_LOWER_PCCX_QUANTIZE_H
#define TV_LOWER_PCCX_QUANTIZE_H

#include "kernels/scale_search.h"

enum { PCCX_LOWER_BEAT_BYTES = 16, PCCX_LOWER_BEAT_WEIGHTS = 32 };

/* Scale of values[n] with the smallest squared error after rounding to -8 ... 7: a candidate near absmax / 7 or absmax
 * / 8, of either sign. `absmax` is tv_signed_absmax of the values (kernels/quantize.h). Returns 0 for zeros and
 * non-finite values. `search` is the host's variant of that kernel. */
float pccx_lower_choose_scale(tv_scale_search_fn *search, const float *values, uint32_t n, float absmax);

/* Rounds values[n] to -8 ... 7 times `scale` into `beats`; with scale 0 to zeros. `values` must be padded with zeros to
 * whole beats of 32. `residual` gets value - scale * q for a second plane; it may be `values` or NULL. Returns the
 * scale as BF16 bits; for 0, those of 1. */
uint16_t pccx_lower_round(const float *values, uint32_t n, float scale, uint8_t *beats, float *residual);

/* Adds a value to each of `rows` rows, which are beats one after another: values[i], rounded with scales[i] as by
 * pccx_lower_round, becomes element `at` of beat i. */
void pccx_lower_round_next(const float *values, const float *scales, uint32_t rows, uint32_t at, uint8_t *beats);

/* Like pccx_lower_round with the scale chosen for these values, which become the residuals. */
uint16_t pccx_lower_quantize(tv_scale_search_fn *search, float *values, uint32_t n, uint8_t *beats);

#endif
