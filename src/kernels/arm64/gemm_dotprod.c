/* SPDX-License-Identifier: Apache-2.0 */
/* Integer products with SDOT (dot products of four bytes): the loops of gemm_loops.h, and outer products four at a
 * time.
 */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "kernels/clones.h"
#include "kernels/variants.h"

#if defined(__clang__)
#define TARGET __attribute__((target("dotprod")))
#else
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#endif

/* Lane i: sum + products of bytes 4i to 4i + 3. In assembly, because not every compiler declares the intrinsic for a
 * function with its own target. */
TARGET TV_INLINE int32x4_t add_products(int32x4_t sum, int8x16_t a, int8x16_t b)
{
    __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
}

TARGET TV_INLINE int32x4_t add_nibble_products(int32x4_t sum, int8x16_t low, int8x16_t high, int8x16_t even,
                                               int8x16_t odd)
{
    return add_products(add_products(sum, low, even), high, odd);
}

#include "kernels/arm64/gemm_loops.h"

TARGET void tv_gemm_s4s8_dotprod(const uint8_t *weights, size_t beats, size_t rows, const int8_t *packed, size_t stride,
                                 const int32_t *sums, size_t m, int32_t *out)
{
    (void)sums;
    multiply_s4(weights, beats, rows, packed, stride, m, out);
}

TARGET void tv_gemm_s8s8_dotprod(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums, size_t m,
                                 int32_t *out)
{
    (void)sums;
    multiply_s8(w, n, rows, a, m, out);
}

TARGET void tv_dots_s8_dotprod(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                               int32_t *out)
{
    dot_rows_s8(a, a_step, w, w_step, n, count, out);
}

TARGET void tv_gemv_grouped_s4_dotprod(const void *weights, size_t k, size_t rows, const int8_t *packed,
                                       const int32_t *offsets, float factor, const float *scales, float *out)
{
    (void)offsets;
    multiply_grouped(4, weights, k, rows, packed, factor, scales, out);
}

TARGET void tv_gemv_grouped_s8_dotprod(const void *weights, size_t k, size_t rows, const int8_t *packed,
                                       const int32_t *offsets, float factor, const float *scales, float *out)
{
    (void)offsets;
    multiply_grouped(8, weights, k, rows, packed, factor, scales, out);
}

void tv_gemv_scaled_dotprod(const tv_gemv_scaled_args *r) { tv_gemv_scaled_with(tv_gemm_s4s8_dotprod, r); }

/* ---- Outer products ---- */

enum { QUADS_MAX = TV_OUTER_COUNT_MAX / 4, K_MAX = TV_OUTER_K_MAX, ROWS = TV_OUTER_ROWS, LANES = 4 };

/* Lane j of quad p: x[4p .. 4p + 3][j] from the low byte up, zero past the last. k is a multiple of 16. */
TARGET static unsigned pack_quads(int32_t out[QUADS_MAX][K_MAX], uint32_t k, const int8_t *x, unsigned count)
{
    unsigned n = (count + 3) / 4;
    for (unsigned p = 0; p < n; p++)
        for (uint32_t j = 0; j < k; j += VECTOR) {
            int8x16_t r[4];
            for (unsigned i = 0; i < 4; i++)
                r[i] = 4 * p + i < count ? vld1q_s8(x + (size_t)(4 * p + i) * k + j) : vdupq_n_s8(0);
            int16x8_t low01 = vreinterpretq_s16_s8(vzip1q_s8(r[0], r[1])),
                      low23 = vreinterpretq_s16_s8(vzip1q_s8(r[2], r[3]));
            int16x8_t high01 = vreinterpretq_s16_s8(vzip2q_s8(r[0], r[1])),
                      high23 = vreinterpretq_s16_s8(vzip2q_s8(r[2], r[3]));
            vst1q_s32(&out[p][j], vreinterpretq_s32_s16(vzip1q_s16(low01, low23)));
            vst1q_s32(&out[p][j + 4], vreinterpretq_s32_s16(vzip2q_s16(low01, low23)));
            vst1q_s32(&out[p][j + 8], vreinterpretq_s32_s16(vzip1q_s16(high01, high23)));
            vst1q_s32(&out[p][j + 12], vreinterpretq_s32_s16(vzip2q_s16(high01, high23)));
        }
    return n;
}

TARGET void tv_outer_s8_dotprod(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count,
                                uint32_t first, uint32_t end)
{
    enum { VECTORS = VECTOR / LANES };
    int32_t x[QUADS_MAX][K_MAX], y[QUADS_MAX][K_MAX];
    if (k < VECTOR) {
        tv_outer_s8_neon(acc, k, a, b, count, first, end);
        return;
    }
    unsigned n = pack_quads(x, k, a, count);
    pack_quads(y, k, b, count);
    for (uint32_t i = first; i < end; i += ROWS)
        for (uint32_t j = 0; j < k; j += VECTOR) {
            int32_t *at = acc + (size_t)i * k + j;
            int32x4_t sum[ROWS][VECTORS];
            for (unsigned r = 0; r < ROWS; r++)
                for (unsigned v = 0; v < VECTORS; v++)
                    sum[r][v] = vld1q_s32(at + (size_t)r * k + (size_t)v * LANES);
            for (unsigned p = 0; p < n; p++)
                for (unsigned r = 0; r < ROWS; r++) {
                    int8x16_t factor = vreinterpretq_s8_s32(vdupq_n_s32(x[p][i + r]));
                    for (unsigned v = 0; v < VECTORS; v++)
                        sum[r][v] =
                            add_products(sum[r][v], factor, vreinterpretq_s8_s32(vld1q_s32(&y[p][j + v * LANES])));
                }
            for (unsigned r = 0; r < ROWS; r++)
                for (unsigned v = 0; v < VECTORS; v++)
                    vst1q_s32(at + (size_t)r * k + (size_t)v * LANES, sum[r][v]);
        }
}
#else
typedef int tv_no_arm64; /* ISO C wants a declaration */
#endif
