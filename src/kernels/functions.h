/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions and scaling of arrays. The results are those of num/func.h and num/float.h. */
#ifndef TV_KERNELS_FUNCTIONS_H
#define TV_KERNELS_FUNCTIONS_H

#include "num/func.h"

/* y[i] = tv_func_f32(func, x[i]). */
void tv_func_f32_row(tv_func func, const float *x, size_t n, float *y);

/* y[i] = tv_func_bf16(func, x[i]). */
void tv_func_bf16_row(tv_func func, const float *x, size_t n, uint16_t *y);

/* y[i] = tv_func_f32(func, x[i]) + addend[i] with subnormal addends as zeros, rounded to binary32 and then as by
 * tv_bf16_flushed_from_f32. `addend` may be `y`. */
void tv_func_sum_row(tv_func func, const float *x, size_t n, const uint16_t *addend, uint16_t *y);

/* y[i] = x[i] * scalar, or x[i] / scalar if `divide`, rounded to binary32; division by zero gives 0. If all operands
 * are BF16 numbers, tv_bf16_flushed_from_f32 of y is equivalent to a single rounding. */
void tv_scale_f32(const float *x, size_t n, float scalar, bool divide, float *y);

#endif
