/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to INT4. */
#include "llm/pccx_quantize.h"

#include <math.h>

#include "num/float.h"
#include "num/int.h"

enum { LEAST = -8, MOST = 7 };

static float rounded(float x, float inverse)
{
    float q = x * inverse;
    return tv_round_small(q > (float)MOST ? MOST : q < (float)LEAST ? LEAST : q);
}

static float squared_error(const float *x, uint32_t n, float scale)
{
    float sum = 0, inverse = 1 / scale;
    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - scale * rounded(x[i], inverse);
        sum += d * d;
    }
    return sum;
}

/* The value of largest magnitude, with its sign; 0: there is nothing to quantize. */
static float extreme(const float *x, uint32_t n)
{
    float most = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (x[i] - x[i] != 0)
            return 0;
        if (fabsf(x[i]) > fabsf(most))
            most = x[i];
    }
    return most;
}

/* The extreme goes to -8, or clipped, or to 7: both signs of the scale are tried, since -8 has no counterpart. */
static uint16_t choose_scale(const float *x, uint32_t n)
{
    enum { STEPS = 20 };
    float most = extreme(x, n), least = INFINITY;
    uint16_t best = TV_BF16_ONE;
    for (int i = 0; i < 2 * STEPS && most != 0; i++) {
        float share = 1.15f - 0.03f * (float)(i / 2);
        uint16_t bits = tv_bf16_flush(tv_bf16_from_f32((i % 2 ? most : -most) / 8 * share));
        if (tv_bf16_is_zero(bits))
            continue;
        float error = squared_error(x, n, tv_bf16_to_f32(bits));
        if (error < least) {
            least = error;
            best = bits;
        }
    }
    return best;
}

uint16_t pccx_quantize(float *values, uint32_t n, uint8_t *beats)
{
    uint16_t bits = choose_scale(values, n);
    float scale = tv_bf16_to_f32(bits), inverse = 1 / scale;
    bool any = extreme(values, n) != 0;
    memset(beats, 0, (size_t)((n + PCCX_BEAT_WEIGHTS - 1) / PCCX_BEAT_WEIGHTS) * PCCX_BEAT);
    for (uint32_t i = 0; i < n && any; i++) {
        float q = rounded(values[i], inverse);
        tv_int4_set(beats, i, (int)q);
        values[i] -= scale * q;
    }
    return bits;
}
