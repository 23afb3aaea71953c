/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted sums of rows: probabilities times cached values in attention. */
#ifndef TV_KERNELS_WEIGHTED_SUM_H
#define TV_KERNELS_WEIGHTED_SUM_H

#include "kernels/cpu.h"

/* out[i][c] = A[i][k] * V[k][c], for i < rows, c < count: out[i * count + c] = sum over t < k of
 * a[i * k + t] * v[t * step + c], each product rounded, in the canonical order (dot.h). */
typedef void tv_weighted_sum_f32_fn(const float *a, size_t rows, size_t k, const float *v, size_t step, size_t count,
                                    float *out);
tv_weighted_sum_f32_fn *tv_weighted_sum_f32(tv_cpu_level level);

/* The same of values that are INT8. */
typedef void tv_weighted_sum_s8_fn(const float *a, size_t rows, size_t k, const int8_t *v, size_t step, size_t count,
                                   float *out);
tv_weighted_sum_s8_fn *tv_weighted_sum_s8(tv_cpu_level level);

#endif
