/* SPDX-License-Identifier: Apache-2.0 */
/* Quantizers: loops that a compiler turns into vectors of what the host has. Sums are kept in 16 lanes, so that it may. */
#include "kernels/quantize.h"

#include <math.h>

#include "kernels/clones.h"
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

TV_CLONES float tv_largest(const float *x, size_t n, bool *finite)
{
    float most[LANES] = {0}, wrong[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            float a = fabsf(x[i + lane]);
            most[lane] = a > most[lane] ? a : most[lane];
            wrong[lane] += a - a; /* 0, or NaN for ever */
        }
    for (size_t lane = 0; i < n; i++, lane++) {
        float a = fabsf(x[i]);
        most[lane] = a > most[lane] ? a : most[lane];
        wrong[lane] += a - a;
    }
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; lane++) {
            most[lane] = most[lane] > most[lane + half] ? most[lane] : most[lane + half];
            wrong[lane] += wrong[lane + half];
        }
    *finite = wrong[0] == 0;
    return most[0];
}

TV_CLONES float tv_extreme(const float *x, size_t n, bool *finite)
{
    float most[LANES] = {0}, least[LANES] = {0}, wrong[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            float v = x[i + lane];
            most[lane] = v > most[lane] ? v : most[lane];
            least[lane] = v < least[lane] ? v : least[lane];
            wrong[lane] += v - v;
        }
    for (size_t lane = 0; i < n; i++, lane++) {
        most[lane] = x[i] > most[lane] ? x[i] : most[lane];
        least[lane] = x[i] < least[lane] ? x[i] : least[lane];
        wrong[lane] += x[i] - x[i];
    }
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; lane++) {
            most[lane] = most[lane] > most[lane + half] ? most[lane] : most[lane + half];
            least[lane] = least[lane] < least[lane + half] ? least[lane] : least[lane + half];
            wrong[lane] += wrong[lane + half];
        }
    *finite = wrong[0] == 0;
    if (most[0] != -least[0] || !*finite || n == 0)
        return most[0] > -least[0] ? most[0] : least[0];
    for (i = 0; fabsf(x[i]) < most[0]; i++) /* of both signs: the first */
        continue;
    return x[i];
}

TV_CLONES void tv_pack_s4(const int8_t *q, size_t n, uint8_t *packed)
{
    for (size_t i = 0; i < n / 2; i++)
        packed[i] = (uint8_t)((q[2 * i] & 15) | (q[2 * i + 1] & 15) << 4);
    if (n % 2)
        packed[n / 2] = (uint8_t)(q[n - 1] & 15);
}
