/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of integer products on arm64, for one level. The including file defines TARGET and two primitives that
 * accumulate products in any lanes of a sum:
 *   add_products(sum, a, b)
 *   add_nibble_products(sum, low, high, even, odd): low * even and high * odd; low and high are within -8 to 7
 * Both multiply signed bytes, so that no correction by sums of activations is needed. */
#ifndef TV_KERNELS_ARM64_GEMM_LOOPS_H
#define TV_KERNELS_ARM64_GEMM_LOOPS_H

#include <arm_neon.h>

#include "kernels/clones.h"
#include "kernels/dot.h"
#include "kernels/gemm.h"
#include "kernels/gemv_grouped.h"
#include "kernels/gemv_scaled.h"

enum { HALF = TV_S4_BLOCK / 2, TILE = 4, VECTOR = 16 };

/* A register tile of INT4 weights: `rows` rows of weights times `m` rows of activations, compile-time constants up to
 * TILE. */
TARGET TV_INLINE void tile_s4(const uint8_t *w, size_t bytes, unsigned rows, const int8_t *packed, size_t stride,
                              unsigned m, int32_t *out, size_t out_step)
{
    int32x4_t sum[TILE][TILE];
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < m; i++)
            sum[r][i] = vdupq_n_s32(0);
    for (size_t at = 0; at < bytes; at += VECTOR) {
        const int8_t *x = packed + at / HALF * TV_S4_BLOCK + at % HALF;
        int8x16_t even[TILE], odd[TILE];
        for (unsigned i = 0; i < m; i++) {
            even[i] = vld1q_s8(x + i * stride);
            odd[i] = vld1q_s8(x + i * stride + HALF);
        }
        for (unsigned r = 0; r < rows; r++) {
            int8x16_t both = vreinterpretq_s8_u8(vld1q_u8(w + r * bytes + at));
            int8x16_t low = vshrq_n_s8(vshlq_n_s8(both, 4), 4), high = vshrq_n_s8(both, 4);
            for (unsigned i = 0; i < m; i++)
                sum[r][i] = add_nibble_products(sum[r][i], low, high, even[i], odd[i]);
        }
    }
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < m; i++)
            out[r * out_step + i] = vaddvq_s32(sum[r][i]);
}

TARGET TV_INLINE void multiply_s4(const uint8_t *w, size_t beats, size_t rows, const int8_t *packed, size_t stride,
                                  size_t m, int32_t *out)
{
    size_t row_bytes = beats * TV_S4_BEAT / 2, r = 0;
    for (; r + TILE <= rows; r += TILE) {
        size_t i = 0;
        for (; i + TILE <= m; i += TILE)
            tile_s4(w + r * row_bytes, row_bytes, TILE, packed + i * stride, stride, TILE, out + r * m + i, m);
        for (; i < m; i++)
            tile_s4(w + r * row_bytes, row_bytes, TILE, packed + i * stride, stride, 1, out + r * m + i, m);
    }
    for (; r < rows; r++)
        for (size_t i = 0; i < m; i++)
            tile_s4(w + r * row_bytes, row_bytes, 1, packed + i * stride, stride, 1, out + r * m + i, m);
}

/* The same for INT8 weights. */
TARGET TV_INLINE void tile_s8(const int8_t *w, size_t n, unsigned rows, const int8_t *a, unsigned m, int32_t *out,
                              size_t out_step)
{
    int32x4_t sum[TILE][TILE];
    size_t k = 0;
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < m; i++)
            sum[r][i] = vdupq_n_s32(0);
    for (; k + VECTOR <= n; k += VECTOR) {
        int8x16_t x[TILE];
        for (unsigned i = 0; i < m; i++)
            x[i] = vld1q_s8(a + i * n + k);
        for (unsigned r = 0; r < rows; r++) {
            int8x16_t y = vld1q_s8(w + r * n + k);
            for (unsigned i = 0; i < m; i++)
                sum[r][i] = add_products(sum[r][i], x[i], y);
        }
    }
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < m; i++) {
            int32_t total = vaddvq_s32(sum[r][i]);
            for (size_t rest = k; rest < n; rest++)
                total += a[i * n + rest] * w[r * n + rest];
            out[r * out_step + i] = total;
        }
}

TARGET TV_INLINE void multiply_s8(const int8_t *w, size_t n, size_t rows, const int8_t *a, size_t m, int32_t *out)
{
    size_t r = 0;
    for (; r + TILE <= rows; r += TILE) {
        size_t i = 0;
        for (; i + TILE <= m; i += TILE)
            tile_s8(w + r * n, n, TILE, a + i * n, TILE, out + r * m + i, m);
        for (; i < m; i++)
            tile_s8(w + r * n, n, TILE, a + i * n, 1, out + r * m + i, m);
    }
    for (; r < rows; r++)
        for (size_t i = 0; i < m; i++)
            tile_s8(w + r * n, n, 1, a + i * n, 1, out + r * m + i, m);
}

TARGET TV_INLINE void dot_rows_s8(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n,
                                  size_t count, int32_t *out)
{
    for (size_t u = 0; u < count; u++)
        tile_s8(w + u * w_step, n, 1, a + u * a_step, 1, out + u, 1);
}

/* ---- Groups of 32 with scales, see groups.h ---- */

/* The products of group g of a row, in four lanes. */
TARGET TV_INLINE int32x4_t multiply_group(unsigned bits, const uint8_t *w, const int8_t *packed, size_t g)
{
    if (bits == 4) {
        const int8_t *x =
            packed + g * TV_GROUP_SIZE / TV_S4_BLOCK * TV_S4_BLOCK + g % (TV_S4_BLOCK / TV_GROUP_SIZE) * VECTOR;
        int8x16_t both = vreinterpretq_s8_u8(vld1q_u8(w + g * VECTOR));
        return add_nibble_products(vdupq_n_s32(0), vshrq_n_s8(vshlq_n_s8(both, 4), 4), vshrq_n_s8(both, 4), vld1q_s8(x),
                                   vld1q_s8(x + HALF));
    }
    const int8_t *x = packed + g * TV_GROUP_SIZE, *y = (const int8_t *)w + g * TV_GROUP_SIZE;
    return add_products(add_products(vdupq_n_s32(0), vld1q_s8(x), vld1q_s8(y)), vld1q_s8(x + VECTOR),
                        vld1q_s8(y + VECTOR));
}

/* The scaled sums of groups g to g + 3. */
TARGET TV_INLINE float32x4_t sum_four_groups(unsigned bits, const uint8_t *w, const int8_t *packed, size_t g,
                                             float factor, const float *scales)
{
    int32x4_t a = vpaddq_s32(multiply_group(bits, w, packed, g), multiply_group(bits, w, packed, g + 1));
    int32x4_t b = vpaddq_s32(multiply_group(bits, w, packed, g + 2), multiply_group(bits, w, packed, g + 3));
    return vmulq_f32(vmulq_n_f32(vcvtq_f32_s32(vpaddq_s32(a, b)), factor), vld1q_f32(scales + g));
}

TARGET TV_INLINE void multiply_grouped(unsigned bits, const void *weights, size_t k, size_t rows, const int8_t *packed,
                                       float factor, const float *scales, float *out)
{
    const uint8_t *w = weights;
    size_t groups = k / TV_GROUP_SIZE;
    for (size_t r = 0; r < rows; r++, w += k * bits / 8, scales += groups) {
        float32x4_t low = vdupq_n_f32(0), high = low; /* partial sums 0 to 3 and 4 to 7 */
        tv_sum8 sum;
        size_t g = 0;
        for (; g + TV_GROUPS_PER_VECTOR <= groups; g += TV_GROUPS_PER_VECTOR) {
            low = vaddq_f32(low, sum_four_groups(bits, w, packed, g, factor, scales));
            high = vaddq_f32(high, sum_four_groups(bits, w, packed, g + 4, factor, scales));
        }
        vst1q_f32(sum.partial, low);
        vst1q_f32(sum.partial + 4, high);
        for (; g < groups; g++)
            tv_sum8_add(&sum, g, (float)vaddvq_s32(multiply_group(bits, w, packed, g)) * factor * scales[g]);
        out[r] = tv_sum8_total(&sum);
    }
}

#endif
