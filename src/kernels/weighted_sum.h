/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of binary32 times a matrix that lies by rows of its sums: what attention makes of cached values. */
#ifndef TV_KERNELS_WEIGHTED_SUM_H
#define TV_KERNELS_WEIGHTED_SUM_H

#include "base/base.h"

/* out[i * count + c] = the sum over t of a[i * k + t] * v[t * step + c], each product rounded, in the canonical order
 * (dot.h); for `rows` rows, k terms and `count` columns. */
void tv_weighted_sum_f32(const float *a, size_t rows, size_t k, const float *v, size_t step, size_t count, float *out);

#endif
