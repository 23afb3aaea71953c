/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to INT4. */
#include "llm/pccx_quantize.h"

#include <math.h>

#include "kernels/clones.h"
#include "kernels/quantize.h"
#include "num/float.h"

enum { LEAST = -8, MOST = 7 };

/* The value of largest magnitude, with its sign; 0: there is nothing to quantize. */
static float extreme(const float *x, uint32_t n)
{
    bool finite;
    float largest = tv_largest(x, n, &finite);
    uint32_t i = 0;
    if (!finite || largest == 0)
        return 0;
    while (fabsf(x[i]) < largest)
        i++;
    return x[i];
}

enum { STEPS = 20, SCALES = 2 * STEPS };

/* Scales that take the extreme to -8, or have it clipped, or take it to 7: both signs are tried, since -8 has no counterpart. */
TV_CLONES static void make_scales(float most, float scales[SCALES])
{
    for (int i = 0; i < SCALES; i++) {
        float share = 1.15f - 0.03f * (float)(i / 2);
        scales[i] = tv_bf16_to_f32(tv_bf16_flush(tv_bf16_from_f32((i % 2 ? most : -most) / 8 * share)));
    }
}

static uint16_t choose_scale(tv_least_scale_fn search, const float *x, uint32_t n, float most)
{
    float scales[SCALES];
    unsigned count = SCALES;
    if (most == 0)
        return TV_BF16_ONE;
    make_scales(most, scales);
    while (count > 0 && scales[count - 1] == 0) /* the smallest come last */
        count--;
    unsigned best = count ? search(x, n, most, scales, count, LEAST, MOST) : 0;
    return best < count ? tv_bf16_from_f32(scales[best]) : TV_BF16_ONE;
}

uint16_t pccx_quantize(tv_least_scale_fn search, float *values, uint32_t n, uint8_t *beats)
{
    enum { PIECE = 256 };
    int8_t q[PIECE];
    float most = extreme(values, n);
    uint16_t bits = choose_scale(search, values, n, most);
    float scale = tv_bf16_to_f32(bits);
    memset(beats, 0, (size_t)((n + PCCX_BEAT_WEIGHTS - 1) / PCCX_BEAT_WEIGHTS) * PCCX_BEAT);
    for (uint32_t i = 0, count; i < n && most != 0; i += count) {
        count = n - i < PIECE ? n - i : PIECE;
        tv_quantize_s8(values + i, count, scale, LEAST, MOST, q);
        tv_pack_s4(q, count, beats + i / 2);
        for (uint32_t k = 0; k < count; k++)
            values[i + k] -= scale * (float)q[k];
    }
    return bits;
}
