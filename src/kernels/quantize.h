/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization of binary32 to small integers. */
#ifndef TV_KERNELS_QUANTIZE_H
#define TV_KERNELS_QUANTIZE_H

#include "base/base.h"

/* q[i] = x[i] / scale, rounded to the nearest integer, ties to even, and clamped to [low, high], a range within int8.
 * No operand is NaN; scale is not 0. */
void tv_quantize_s8(const float *x, size_t n, float scale, int low, int high, int8_t *q);

/* The squared quantization error, sum of (x[i] - scale * q)^2, with q as above but of x[i] * (1 / scale). Evaluated in
 * binary32 in a fixed order, for comparing scales. */
float tv_quantize_error(const float *x, size_t n, float scale, int low, int high);

/* max |x[i]|; meaningful only if *finite, which is set to whether all values are finite. */
float tv_absmax(const float *x, size_t n, bool *finite);

/* Signed value of largest magnitude, the first one on ties; *finite as above. `n` is 1 to 2^31. */
float tv_signed_absmax(const float *x, size_t n, bool *finite);

/* Packs bytes of -8 to 7 as INT4, low nibble first; the last high nibble is 0 for odd `n`. */
void tv_pack_s4(const int8_t *q, size_t n, uint8_t *packed);

#endif
