/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of BF16, stored as bits. Formats and rounding are those of num/float.h. */
#ifndef TV_KERNELS_BF16_H
#define TV_KERNELS_BF16_H

#include "base/base.h"

/* max |x[i]|, as bits without the sign; TV_BF16_INF or above: an element is not finite. */
uint16_t tv_bf16_absmax(const uint16_t *x, size_t n);

/* The scale by which a row with this absmax is quantized to INT8: `act_scale` if that is not 0, otherwise 2^(E-6) with
 * E the exponent of `absmax`, and 1 if `absmax` is zero or subnormal. */
float tv_bf16_row_scale(uint16_t absmax, uint16_t act_scale);

/* out[i] = x[i] as binary32; subnormals are flushed to zero. */
void tv_bf16_widen(const uint16_t *x, size_t n, float *out);

/* out[i] = tv_bf16_flushed_from_f32(x[i]). */
void tv_bf16_narrow(const float *x, size_t n, uint16_t *out);

/* x[i] += addend[i], rounded; subnormals of the addend are flushed to zero. */
void tv_bf16_add(float *x, size_t n, const uint16_t *addend);

/* out[i] = acc[i * step] * row_scale * scale[i] + addend[i], each operation rounded, the result by
 * tv_bf16_flushed_from_f32. `addend` may be `out`; NULL: nothing is added. */
void tv_bf16_scale(const int32_t *acc, size_t step, float row_scale, const float *scale, const uint16_t *addend,
                   size_t n, uint16_t *out);

#endif
