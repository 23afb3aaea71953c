/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of elementary functions and of scaled BF16. Results are those of num/func.h and num/float.h, one by one. */
#ifndef TV_KERNELS_FUNCTIONS_H
#define TV_KERNELS_FUNCTIONS_H

#include "num/func.h"

/* y[i] = tv_func_f32(func, x[i]). */
void tv_func_f32_row(tv_func func, const float *x, size_t n, float *y);

/* y[i] = tv_func_bf16(func, x[i]), subnormals as zeros. */
void tv_func_bf16_row(tv_func func, const float *x, size_t n, uint16_t *y);

/* y[i] = x[i] * scalar, or / scalar, rounded once to binary32; divided by zero all is 0. Where all are BF16 numbers,
 * rounding y again to BF16 with subnormals as zeros is one rounding. */
void tv_scale_f32(const float *x, size_t n, float scalar, bool divide, float *y);

#endif
