/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to INT4. */
#include "lower/pccx/quantize.h"

#include <math.h>

#include "kernels/clones.h"
#include "kernels/quantize.h"
#include "num/float.h"

enum { LEAST = -8, MOST = 7, STEPS = 20, SCALES = 2 * STEPS };

/* Scales that take the extreme to -8, or have it clipped, or take it to 7: both signs are tried, since -8 has no
 * counterpart. */
TV_CLONES static void make_scales(float most, float scales[SCALES])
{
#define SHARE(i) -(1.15f - 0.03f * (i)), 1.15f - 0.03f * (i)
    static const float shares[SCALES] = {SHARE(0),  SHARE(1),  SHARE(2),  SHARE(3),  SHARE(4),  SHARE(5),  SHARE(6),
                                         SHARE(7),  SHARE(8),  SHARE(9),  SHARE(10), SHARE(11), SHARE(12), SHARE(13),
                                         SHARE(14), SHARE(15), SHARE(16), SHARE(17), SHARE(18), SHARE(19)};
#undef SHARE
    float eighth = most / 8;
    for (unsigned i = 0; i < SCALES; i++)
        scales[i] = tv_bf16_to_f32(tv_bf16_flush(tv_bf16_from_f32(eighth * shares[i])));
}

float pccx_choose_scale(tv_scale_search_fn *search, const float *values, uint32_t n, float extreme)
{
    float scales[SCALES];
    unsigned count = SCALES;
    if (!isfinite(extreme) || extreme == 0)
        return 0;
    make_scales(extreme, scales);
    while (count > 0 && scales[count - 1] == 0) /* the smallest come last */
        count--;
    unsigned best = count ? search(values, n, extreme, scales, count, LEAST, MOST) : 0;
    return best < count ? scales[best] : 1;
}

TV_CLONES static void take_off(const float *values, const int8_t *q, uint32_t n, float scale, float *left)
{
    TV_NO_CARRY
    for (uint32_t i = 0; i < n; i++)
        left[i] = values[i] - scale * (float)q[i];
}

uint16_t pccx_round(const float *values, uint32_t n, float scale, uint8_t *beats, float *left)
{
    enum { PIECE = 256 };
    int8_t q[PIECE] = {0};
    uint32_t padded = (uint32_t)tv_ceil_div(n, PCCX_BEAT_WEIGHTS) * PCCX_BEAT_WEIGHTS;
    for (uint32_t i = 0, count; i < padded; i += count) {
        count = padded - i < PIECE ? padded - i : PIECE;
        if (scale != 0)
            tv_quantize_s8(values + i, count, scale, LEAST, MOST, q);
        tv_pack_s4(q, count, beats + i / 2);
        if (left)
            take_off(values + i, q, count, scale, left + i);
    }
    return scale == 0 ? TV_BF16_ONE : tv_bf16_from_f32(scale);
}

void pccx_round_more(const float *values, uint32_t from, uint32_t to, float scale, uint8_t *beat)
{
    int8_t q[PCCX_BEAT_WEIGHTS] = {0};
    if (scale != 0)
        tv_quantize_s8(values + from, to - from, scale, LEAST, MOST, q);
    for (uint32_t i = from; i < to; i++)
        beat[i / 2] = (uint8_t)((beat[i / 2] & (i % 2 ? 0x0F : 0xF0)) | (q[i - from] & 15) << i % 2 * 4);
}

uint16_t pccx_quantize(tv_scale_search_fn *search, float *values, uint32_t n, uint8_t *beats)
{
    bool finite;
    float extreme = tv_signed_absmax(values, n, &finite);
    return pccx_round(values, n, pccx_choose_scale(search, values, n, finite ? extreme : INFINITY), beats, values);
}
