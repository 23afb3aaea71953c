/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of elements as binary32 and back, several at a time. Formats and rounding are those of num. */
#ifndef TV_KERNELS_ELEMENTS_H
#define TV_KERNELS_ELEMENTS_H

#include "base/base.h"

/* Elements need not be aligned; they are little endian. */
void tv_elements_from_f16(const uint8_t *elements, size_t count, float *out);
void tv_elements_from_s8(const int8_t *elements, size_t count, float *out);

/* Rounded to nearest, ties to even; integers clamped, of a NaN 0; NaNs of floating formats canonical. */
void tv_elements_to_f32(const float *x, size_t count, uint8_t *elements);
void tv_elements_to_f16(const float *x, size_t count, uint8_t *elements);
void tv_elements_to_s8(const float *x, size_t count, int8_t *elements);

/* x[i] *= scale, x[i] /= scale: rounded. */
void tv_elements_mul_scalar(float *x, size_t count, float scale);
void tv_elements_div_scalar(float *x, size_t count, float scale);

/* out[i] = a[i] + b[i], a[i] * b[i]: rounded. */
void tv_elements_add(const float *a, const float *b, size_t count, float *out);
void tv_elements_mul(const float *a, const float *b, size_t count, float *out);

/* Pairs (a, b) of 2 * half elements become (a c[i] - b s[i], a s[i] + b c[i]), each operation rounded; a pair is
 * elements 2i and 2i + 1, or, `apart`, i and half + i. */
void tv_elements_rotate(const float *x, const float *c, const float *s, size_t half, bool apart, float *out);

/* What becomes of products whose scales are in them: (y[i] + bias[i] + old[i] * scale) / scale, each operation rounded;
 * bias, old: NULL: without. */
void tv_elements_epilogue(const float *y, size_t count, const float *bias, const float *old, float scale, float *out);

/* y[i] = (float)exact[i] * factor * scales[i], each operation rounded; scales NULL: `scale` instead. */
void tv_elements_dequantize(const int32_t *exact, size_t count, float factor, const float *scales, float scale,
                            float *y);

/* The largest of some numbers; NaN if one is. -INFINITY: there are none. */
float tv_elements_max(const float *x, size_t count);

/* out[i] = (x[i] - least) / scale; `out` may be `x`. */
void tv_elements_sub_div(const float *x, size_t count, float least, float scale, float *out);

#endif
