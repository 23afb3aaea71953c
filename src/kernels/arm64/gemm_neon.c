/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products with NEON, which every arm64 host has. */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "kernels/clones.h"
#include "kernels/variants.h"

#define TARGET

/* The sum of two products of -128 by -128 does not fit 16 bits, so each product is widened at once. */
TV_INLINE int32x4_t add_products(int32x4_t sum, int8x16_t a, int8x16_t b)
{
    sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    return vpadalq_s16(sum, vmull_high_s8(a, b));
}

/* The sum of four products of -8 by -128 fits 16 bits. */
TV_INLINE int32x4_t add_nibble_products(int32x4_t sum, int8x16_t low, int8x16_t high, int8x16_t even, int8x16_t odd)
{
    int16x8_t narrow = vmull_s8(vget_low_s8(low), vget_low_s8(even));
    narrow = vmlal_high_s8(narrow, low, even);
    narrow = vmlal_s8(narrow, vget_low_s8(high), vget_low_s8(odd));
    return vpadalq_s16(sum, vmlal_high_s8(narrow, high, odd));
}

#include "kernels/arm64/gemm_loops.h"

void tv_gemm_s4s8_neon(const uint8_t *weights, size_t beats, size_t rows, const int8_t *packed, size_t stride,
                       const int32_t *sums, size_t m, int32_t *out)
{
    (void)sums;
    multiply_s4(weights, beats, rows, packed, stride, m, out);
}

void tv_gemm_s8s8_neon(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums, size_t m,
                       int32_t *out)
{
    (void)sums;
    multiply_s8(w, n, rows, a, m, out);
}

void tv_dots_s8_neon(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                     int32_t *out)
{
    dot_rows_s8(a, a_step, w, w_step, n, count, out);
}

void tv_gemv_grouped_s4_neon(const void *weights, size_t k, size_t rows, const int8_t *packed, const int32_t *offsets,
                             float factor, const float *scales, float *out)
{
    (void)offsets;
    multiply_grouped(4, weights, k, rows, packed, factor, scales, out);
}

void tv_gemv_grouped_s8_neon(const void *weights, size_t k, size_t rows, const int8_t *packed, const int32_t *offsets,
                             float factor, const float *scales, float *out)
{
    (void)offsets;
    multiply_grouped(8, weights, k, rows, packed, factor, scales, out);
}

void tv_gemv_scaled_neon(const tv_gemv_scaled_args *r) { tv_gemv_scaled_with(tv_gemm_s4s8_neon, r); }

/* ---- Binary32 times INT8, in the canonical order ---- */

/* Vectors of partial sums 0 to 3 and 4 to 7. Four dot products at a time are independent chains of additions. The last
 * vector is padded with +0, which changes no partial sum because none is -0: all start at +0. */
enum { PARTIALS = 8, SUMS = 4 };

TV_INLINE float32x4_t widen_to_f32(int16x4_t w) { return vcvtq_f32_s32(vmovl_s16(w)); }

TV_INLINE void dot_rows_f32(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, unsigned count,
                            float *out)
{
    float32x4_t low[SUMS], high[SUMS];
    size_t i = 0;
    for (unsigned v = 0; v < count; v++)
        low[v] = high[v] = vdupq_n_f32(0);
    for (; i + PARTIALS <= n; i += PARTIALS)
        for (unsigned v = 0; v < count; v++) {
            const float *x = a + v * a_step + i;
            int16x8_t y = vmovl_s8(vld1_s8(w + v * w_step + i));
            low[v] = vaddq_f32(low[v], vmulq_f32(vld1q_f32(x), widen_to_f32(vget_low_s16(y))));
            high[v] = vaddq_f32(high[v], vmulq_f32(vld1q_f32(x + 4), widen_to_f32(vget_high_s16(y))));
        }
    for (unsigned v = 0; v < count; v++) {
        float rest[PARTIALS] = {0};
        for (size_t r = 0; i + r < n; r++)
            rest[r] = a[v * a_step + i + r] * (float)w[v * w_step + i + r];
        float32x4_t halves = vaddq_f32(vaddq_f32(low[v], vld1q_f32(rest)), vaddq_f32(high[v], vld1q_f32(rest + 4)));
        out[v] = vaddv_f32(vadd_f32(vget_low_f32(halves), vget_high_f32(halves))); /* (h0 + h2) + (h1 + h3) */
    }
}

void tv_dots_f32_s8_neon(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                         float *out)
{
    size_t u = 0;
    for (; u + SUMS <= count; u += SUMS)
        dot_rows_f32(a + u * a_step, a_step, w + u * w_step, w_step, n, SUMS, out + u);
    for (; u < count; u++)
        dot_rows_f32(a + u * a_step, a_step, w + u * w_step, w_step, n, 1, out + u);
}
#else
typedef int tv_no_arm64; /* ISO C wants a declaration */
#endif
