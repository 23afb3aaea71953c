/* SPDX-License-Identifier: Apache-2.0 */
/* Quantizers: loops that a compiler turns into vectors of what the host has. Sums are kept in 16 lanes, so that it may.
 */
#include "kernels/quantize.h"

#include "kernels/clones.h"
#include "num/float.h"
#include "num/int.h"

enum { LANES = 16 };

TV_INLINE float limit(float x, float low, float high) { return x > high ? high : x < low ? low : x; }

TV_CLONES void tv_quantize_s8(const float *x, size_t n, float scale, int low, int high, int8_t *q)
{
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)tv_round_small(limit(x[i] / scale, (float)low, (float)high));
}

TV_INLINE float squared_error(float x, float scale, float inverse, float low, float high)
{
    float d = x - scale * tv_round_small(limit(x * inverse, low, high));
    return d * d;
}

TV_CLONES float tv_quantize_error(const float *x, size_t n, float scale, int low, int high)
{
    float sums[LANES] = {0}, inverse = 1 / scale;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += squared_error(x[i + lane], scale, inverse, (float)low, (float)high);
    for (size_t lane = 0; i < n; i++, lane++)
        sums[lane] += squared_error(x[i], scale, inverse, (float)low, (float)high);
    for (size_t half = LANES / 2; half > 0; half /= 2) /* no long chain of additions */
        for (size_t lane = 0; lane < half; lane++)
            sums[lane] += sums[lane + half];
    return sums[0];
}

/* Bits without the sign are in the order of magnitudes, those of what is not finite last. */
TV_INLINE int32_t magnitude(float x) { return (int32_t)tv_f32_abs(tv_f32_bits(x)); }

TV_INLINE int32_t most_of(const float *x, size_t n)
{
    int32_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = magnitude(x[i]) > most ? magnitude(x[i]) : most;
    return most;
}

TV_CLONES float tv_absmax(const float *x, size_t n, bool *finite)
{
    int32_t most = most_of(x, n);
    *finite = most < (int32_t)TV_F32_INF;
    return tv_f32_of_bits((uint32_t)most);
}

TV_CLONES float tv_signed_absmax(const float *x, size_t n, bool *finite)
{
    int32_t most = most_of(x, n);
    uint32_t first = (uint32_t)n - 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t here = magnitude(x[i]) == most ? i : (uint32_t)n - 1;
        first = here < first ? here : first;
    }
    *finite = most < (int32_t)TV_F32_INF;
    return x[first];
}

TV_CLONES void tv_pack_s4(const int8_t *q, size_t n, uint8_t *packed)
{
    for (size_t i = 0; i < n / 2; i++)
        packed[i] = (uint8_t)((q[2 * i] & 15) | (q[2 * i + 1] & 15) << 4);
    if (n % 2)
        packed[n / 2] = (uint8_t)(q[n - 1] & 15);
}
