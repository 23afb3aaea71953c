/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operations on arrays of binary32, and conversions of other element types. Formats and rounding are those
 * of num. */
#ifndef TV_KERNELS_ELEMENTS_H
#define TV_KERNELS_ELEMENTS_H

#include "base/base.h"

/* out[i] = elements[i]. Elements are little endian and need not be aligned. */
void tv_elements_from_f16(const uint8_t *elements, size_t count, float *out);
void tv_elements_from_s8(const int8_t *elements, size_t count, float *out);

/* elements[i] = x[i], rounded to nearest, ties to even. Integers saturate and are 0 for NaN; NaN becomes canonical. */
void tv_elements_to_f32(const float *x, size_t count, uint8_t *elements);
void tv_elements_to_f16(const float *x, size_t count, uint8_t *elements);
void tv_elements_to_s8(const float *x, size_t count, int8_t *elements);

/* The same by width: binary32, binary16, and integers of 8, 4 or 2 bits, packed from the low bits of a byte on; the
 * bits after the last element become 0. */
void tv_elements_pack(const float *x, size_t count, unsigned bits, uint8_t *packed);

/* x[i] *= scale; x[i] /= scale. */
void tv_elements_mul_scalar(float *x, size_t count, float scale);
void tv_elements_div_scalar(float *x, size_t count, float scale);

/* out[i] = a[i] + b[i]; out[i] = a[i] * b[i]. */
void tv_elements_add(const float *a, const float *b, size_t count, float *out);
void tv_elements_mul(const float *a, const float *b, size_t count, float *out);

/* Rotary embedding of 2 * half elements: each pair (a, b) becomes (a c[i] - b s[i], a s[i] + b c[i]), each operation
 * rounded. Pair i is the elements 2i and 2i + 1, or i and half + i if `split_half`. */
void tv_elements_rotate(const float *x, const float *c, const float *s, size_t half, bool split_half, float *out);

/* The epilogue of a matrix product: out[i] = (y[i] + bias[i] + old[i] * scale) / scale, each operation rounded. `bias`
 * and `old` may be NULL: their term is omitted. */
void tv_elements_epilogue(const float *y, size_t count, const float *bias, const float *old, float scale, float *out);

/* y[i] = (float)acc[i] * factor * scales[i], each operation rounded; `scales` NULL: `scale` for all. */
void tv_elements_dequantize(const int32_t *acc, size_t count, float factor, const float *scales, float scale, float *y);

/* max x[i]; NaN if an element is NaN, -INFINITY if count is 0. */
float tv_elements_max(const float *x, size_t count);

/* out[i] = (x[i] - offset) / scale; `out` may be `x`. */
void tv_elements_sub_div(const float *x, size_t count, float offset, float scale, float *out);

#endif
