/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a scale with NEON: a lane for each scale, as in scales_x86.c. All sixteen sums stand in registers. */
#include "kernels/arm64.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>

#include "kernels/clones.h"

enum { SUMS = 16, LANES = 4 };

typedef struct scales4 {
    float32x4_t scale, inverse, low, high;
} scales4;

/* What is NaN stays so, as it does in C. */
TV_INLINE float32x4_t square4(const float *value, const scales4 *s)
{
    float32x4_t x = vld1q_dup_f32(value), q = vmaxq_f32(s->low, vminq_f32(s->high, vmulq_f32(x, s->inverse)));
    float32x4_t d = vsubq_f32(x, vmulq_f32(s->scale, vrndnq_f32(q)));
    return vmulq_f32(d, d);
}

TV_INLINE float32x4_t errors4(const float *x, size_t n, const scales4 *s)
{
    float32x4_t sum[SUMS];
    size_t i = 0;
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < SUMS; lane++)
        sum[lane] = vdupq_n_f32(0);
    for (; i + SUMS <= n; i += SUMS)
#pragma GCC unroll 16
        for (unsigned lane = 0; lane < SUMS; lane++)
            sum[lane] = vaddq_f32(sum[lane], square4(x + i + lane, s));
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < SUMS; lane++)
        if (i + lane < n)
            sum[lane] = vaddq_f32(sum[lane], square4(x + i + lane, s));
#pragma GCC unroll 4
    for (unsigned half = SUMS / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (unsigned lane = 0; lane < half; lane++)
            sum[lane] = vaddq_f32(sum[lane], sum[lane + half]);
    return sum[0];
}

/* Four at a time; the last ones may be one of before once more, which changes nothing. */
unsigned tv_least_scale_neon(const float *x, size_t n, float extreme, const float *scales, unsigned count, int low, int high)
{
    float least = INFINITY, errors[LANES], few[LANES];
    unsigned best = count;
    for (unsigned at = 0; at < count; at += LANES) {
        for (unsigned i = 0; i < LANES && at + LANES > count; i++)
            few[i] = scales[at + i < count ? at + i : at];
        float32x4_t scale = vld1q_f32(at + LANES > count ? few : scales + at);
        const scales4 s = {scale, vdivq_f32(vdupq_n_f32(1), scale), vdupq_n_f32((float)low), vdupq_n_f32((float)high)};
        if (vmaxvq_u32(vcltq_f32(square4(&extreme, &s), vdupq_n_f32(least))) == 0)
            continue;
        vst1q_f32(errors, errors4(x, n, &s));
        for (unsigned i = 0; i < LANES && at + i < count; i++)
            if (errors[i] < least) {
                least = errors[i];
                best = at + i;
            }
    }
    return best;
}
#else
typedef int tv_no_arm64; /* ISO C wants a declaration */
#endif
