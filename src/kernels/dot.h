/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and dot products of single vectors. */
#ifndef TV_KERNELS_DOT_H
#define TV_KERNELS_DOT_H

#include "base/base.h"

/* sum of a[i] * b[i] for i < n, exact. */
int64_t tv_dot_s8(const int8_t *a, const int8_t *b, size_t n);

/* out[u] = sum of a[u * step + i] * b[i] for i < n and u < count, modulo 2^32. */
void tv_dots_u32(const uint32_t *a, size_t step, const uint32_t *b, size_t n, size_t count, uint32_t *out);

/* Sums of binary32 in the canonical order of the CMDQ specification, section 6: term i is added to partial sum i mod 8,
 * i ascending, each addition rounded. The partial sums start at +0 and are reduced as
 * ((p0+p4)+(p2+p6))+((p1+p5)+(p3+p7)). The terms are x[i], or a[i] * b[i], rounded. */
float tv_sum_f32(const float *x, size_t n);
float tv_dot_f32(const float *a, const float *b, size_t n);

/* out[u] = tv_dot_f32(a + u * step, b, n) for u < count. */
void tv_dots_f32(const float *a, size_t step, const float *b, size_t n, size_t count, float *out);

/* out[u] = canonical sum over t < taps of x[u * stride + at[t]] * w[t], for u < count. */
void tv_window_dots_f32(const float *x, size_t stride, const size_t *at, const float *w, size_t taps, size_t count,
                        float *out);

/* The canonical sum term by term; `at` is the index of the term. */
typedef struct tv_sum8 {
    float partial[8];
} tv_sum8;

static inline void tv_sum8_add(tv_sum8 *sum, uint64_t at, float term) { sum->partial[at % 8] += term; }

static inline float tv_sum8_total(const tv_sum8 *sum)
{
    const float *p = sum->partial;
    return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
}

#endif
