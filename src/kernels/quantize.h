/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding rows of binary32 to small integers. */
#ifndef TV_KERNELS_QUANTIZE_H
#define TV_KERNELS_QUANTIZE_H

#include "base/base.h"

/* q[i] = x[i] / scale, rounded to the nearest integer, ties to even, and clamped to [low, high], which are within a
 * byte. Neither x nor scale is NaN, scale is not 0. */
void tv_quantize_s8(const float *x, size_t n, float scale, int low, int high, int8_t *q);

/* Sum of (x[i] - scale * q)^2 with such q, but of x[i] * (1 / scale): a measure for comparing scales, in binary32. */
float tv_quantize_error(const float *x, size_t n, float scale, int low, int high);

/* The largest magnitude, and whether all values are finite; if not, the magnitude means nothing. */
float tv_absmax(const float *x, size_t n, bool *finite);

/* The value of largest magnitude, with its sign, of several the first; meant as above. `n` is 1 to 2^31. */
float tv_signed_absmax(const float *x, size_t n, bool *finite);

/* Bytes of -8 to 7 as packed INT4, low nibble first; of an odd `n` the last high nibble is 0. */
void tv_pack_s4(const int8_t *q, size_t n, uint8_t *packed);

#endif
