/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to INT4. */
#include "lower/pccx/quantize.h"

#include <math.h>

#include "kernels/clones.h"
#include "kernels/quantize.h"
#include "num/float.h"
#include "num/int.h"

enum { WEIGHT_BITS = 4, Q_MIN = -8, Q_MAX = 7, STEPS = 20, CANDIDATES = 2 * STEPS };

/* Candidates that map the absmax to -8 with and without clipping, or to 7: both signs are tried, since -8 has no
 * counterpart. */
TV_CLONES static void make_candidates(float absmax, float scales[CANDIDATES])
{
#define FACTOR(i) -(1.15f - 0.03f * (i)), 1.15f - 0.03f * (i)
    static const float factors[CANDIDATES] = {FACTOR(0),  FACTOR(1),  FACTOR(2),  FACTOR(3),  FACTOR(4),
                                              FACTOR(5),  FACTOR(6),  FACTOR(7),  FACTOR(8),  FACTOR(9),
                                              FACTOR(10), FACTOR(11), FACTOR(12), FACTOR(13), FACTOR(14),
                                              FACTOR(15), FACTOR(16), FACTOR(17), FACTOR(18), FACTOR(19)};
#undef FACTOR
    float eighth = absmax / 8;
    for (unsigned i = 0; i < CANDIDATES; i++)
        scales[i] = tv_bf16_to_f32(tv_bf16_flushed_from_f32(eighth * factors[i]));
}

float pccx_lower_choose_scale(tv_scale_search_fn *search, const float *values, uint32_t n, float absmax)
{
    float scales[CANDIDATES];
    unsigned count = CANDIDATES;
    if (!isfinite(absmax) || absmax == 0)
        return 0;
    make_candidates(absmax, scales);
    while (count > 0 && scales[count - 1] == 0) /* the smallest are last */
        count--;
    unsigned best = count ? search(values, n, absmax, scales, count, Q_MIN, Q_MAX) : 0;
    return best < count ? scales[best] : 1;
}

TV_CLONES static void subtract_quantized(const float *values, const int8_t *q, uint32_t n, float scale, float *residual)
{
    TV_IVDEP
    for (uint32_t i = 0; i < n; i++)
        residual[i] = values[i] - scale * (float)q[i];
}

uint16_t pccx_lower_round(const float *values, uint32_t n, float scale, uint8_t *beats, float *residual)
{
    enum { CHUNK = 256 };
    int8_t q[CHUNK] = {0};
    uint32_t padded = (uint32_t)tv_ceil_div(n, PCCX_LOWER_BEAT_WEIGHTS) * PCCX_LOWER_BEAT_WEIGHTS;
    for (uint32_t i = 0, count; i < padded; i += count) {
        count = padded - i < CHUNK ? padded - i : CHUNK;
        if (scale != 0)
            tv_quantize_s8(values + i, count, scale, Q_MIN, Q_MAX, q);
        tv_pack_s4(q, count, beats + i / 2);
        if (residual)
            subtract_quantized(values + i, q, count, scale, residual + i);
    }
    return scale == 0 ? TV_BF16_ONE : tv_bf16_from_f32(scale);
}

TV_CLONES static void round_values(const float *values, const float *scales, uint32_t n, int8_t *q)
{
    for (uint32_t i = 0; i < n; i++)
        q[i] = (int8_t)(scales[i] == 0 ? 0 : tv_int_saturate(values[i] / scales[i], WEIGHT_BITS));
}

void pccx_lower_round_next(const float *values, const float *scales, uint32_t rows, uint32_t at, uint8_t *beats)
{
    enum { CHUNK = 64 };
    int8_t q[CHUNK];
    for (uint32_t i = 0; i < rows; i++, beats += PCCX_LOWER_BEAT_BYTES) {
        if (i % CHUNK == 0)
            round_values(values + i, scales + i, rows - i < CHUNK ? rows - i : CHUNK, q);
        tv_int4_set(beats, at, q[i % CHUNK]);
    }
}

uint16_t pccx_lower_quantize(tv_scale_search_fn *search, float *values, uint32_t n, uint8_t *beats)
{
    bool finite;
    float absmax = tv_signed_absmax(values, n, &finite);
    return pccx_lower_round(values, n, pccx_lower_choose_scale(search, values, n, finite ? absmax : INFINITY), beats,
                            values);
}
