/* SPDX-License-Identifier: Apache-2.0 */
/* The scale search with NEON. The sixteen partial sums are four vectors, reduced as in tv_quantize_error. One lane per
 * scale, as on x86, would broadcast each value for every four scales; only the terms of the absmax are computed that
 * way, for all scales first. */
#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>

#include "kernels/clones.h"
#include "kernels/variants.h"

enum { SUMS = 16, LANES = 4, VECTORS = SUMS / LANES };

typedef struct clamp_range {
    float32x4_t low, high;
} clamp_range;

/* NaN propagates as in the C code. */
TV_INLINE float32x4_t squares(float32x4_t x, float32x4_t scale, float32x4_t inverse, clamp_range r)
{
    float32x4_t q = vmaxq_f32(r.low, vminq_f32(r.high, vmulq_f32(x, inverse)));
    float32x4_t d = vsubq_f32(x, vmulq_f32(scale, vrndnq_f32(q)));
    return vmulq_f32(d, d);
}

/* Keeps the first n lanes and clears the others, which may be NaN for some scales. */
TV_INLINE float32x4_t mask_tail(float32x4_t all, size_t n)
{
    static const uint32_t lanes[LANES] = {0, 1, 2, 3};
    return vreinterpretq_f32_u32(
        vandq_u32(vreinterpretq_u32_f32(all), vcltq_u32(vld1q_u32(lanes), vdupq_n_u32((uint32_t)n))));
}

static float squared_error(const float *x, size_t n, float32x4_t scale, float32x4_t inverse, clamp_range r)
{
    float32x4_t sum[VECTORS];
    size_t i = 0;
#pragma GCC unroll 4
    for (unsigned v = 0; v < VECTORS; v++)
        sum[v] = vdupq_n_f32(0);
    for (; i + SUMS <= n; i += SUMS)
#pragma GCC unroll 4
        for (unsigned v = 0; v < VECTORS; v++)
            sum[v] = vaddq_f32(sum[v], squares(vld1q_f32(x + i + (size_t)v * LANES), scale, inverse, r));
    if (i < n) {
        float last[SUMS] = {0};
        for (size_t lane = 0; i + lane < n; lane++)
            last[lane] = x[i + lane];
#pragma GCC unroll 4
        for (unsigned v = 0; v < VECTORS; v++)
            if (i + (size_t)v * LANES < n)
                sum[v] = vaddq_f32(sum[v], mask_tail(squares(vld1q_f32(last + (size_t)v * LANES), scale, inverse, r),
                                                     n - i - (size_t)v * LANES));
    }
    float32x4_t all = vaddq_f32(vaddq_f32(sum[0], sum[2]), vaddq_f32(sum[1], sum[3]));
    return vaddv_f32(vadd_f32(vget_low_f32(all), vget_high_f32(all))); /* (0 + 2) + (1 + 3) */
}

unsigned tv_scale_search_neon(const float *x, size_t n, float absmax, const float *scales, unsigned count, int low,
                              int high)
{
    const clamp_range r = {vdupq_n_f32((float)low), vdupq_n_f32((float)high)};
    float inverses[TV_SCALES_MAX], absmax_errors[TV_SCALES_MAX], min_error = INFINITY;
    unsigned best = count;
    for (unsigned at = 0; at < count; at += LANES) {
        float padded[LANES];
        for (unsigned i = 0; i < LANES && at + LANES > count; i++)
            padded[i] = scales[at + i < count ? at + i : at];
        float32x4_t scale = vld1q_f32(at + LANES > count ? padded : scales + at),
                    inverse = vdivq_f32(vdupq_n_f32(1), scale);
        vst1q_f32(inverses + at, inverse);
        vst1q_f32(absmax_errors + at, squares(vdupq_n_f32(absmax), scale, inverse, r));
    }
    for (unsigned c = 0; c < count; c++) {
        if (!(absmax_errors[c] < min_error))
            continue;
        float error = squared_error(x, n, vdupq_n_f32(scales[c]), vdupq_n_f32(inverses[c]), r);
        if (error < min_error) {
            min_error = error;
            best = c;
        }
    }
    return best;
}
#else
typedef int tv_no_arm64; /* ISO C wants a declaration */
#endif
