/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of BF16, carried as their bits. The formats and their rounding are those of num/float.h. */
#ifndef TV_KERNELS_BF16_H
#define TV_KERNELS_BF16_H

#include "base/base.h"

/* The largest magnitude, as bits without the sign; TV_BF16_INF and above: something is not finite. */
uint16_t tv_bf16_absmax(const uint16_t *x, size_t n);

/* As binary32; subnormals become zeros. */
void tv_bf16_widen(const uint16_t *x, size_t n, float *out);

/* As BF16; subnormals become zeros. */
void tv_bf16_narrow(const float *x, size_t n, uint16_t *out);

/* x[i] += standing[i], whose subnormals are zeros; rounded. */
void tv_bf16_add(float *x, size_t n, const uint16_t *standing);

/* out[i] = BF16 of acc[i * step] * row_scale * scale[i] (+ standing[i], unless NULL), each operation rounded, the last
 * to BF16 with subnormals as zeros. `standing` may be `out`. */
void tv_bf16_scale(const int32_t *acc, size_t step, float row_scale, const float *scale, const uint16_t *standing,
                   size_t n, uint16_t *out);

#endif
