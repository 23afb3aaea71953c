/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization loops that the compiler vectorizes. Sums have 16 partial sums, so that vectors do not change their
 * order.
 */
#include "kernels/quantize.h"

#include "kernels/clones.h"
#include "num/float.h"
#include "num/int.h"

enum { LANES = 16 };

TV_INLINE float clamp(float x, float low, float high) { return x > high ? high : x < low ? low : x; }

TV_CLONES void tv_quantize_s8(const float *x, size_t n, float scale, int low, int high, int8_t *q)
{
    float inverse = 1 / scale;
    if (tv_f32_is_power_of_two(scale) && tv_f32_is_power_of_two(inverse)) { /* the same quotients, without division */
        for (size_t i = 0; i < n; i++)
            q[i] = (int8_t)tv_round_small(clamp(x[i] * inverse, (float)low, (float)high));
        return;
    }
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)tv_round_small(clamp(x[i] / scale, (float)low, (float)high));
}

TV_INLINE float squared_error(float x, float scale, float inverse, float low, float high)
{
    float d = x - scale * tv_round_small(clamp(x * inverse, low, high));
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
    for (size_t half = LANES / 2; half > 0; half /= 2) /* pairwise */
        for (size_t lane = 0; lane < half; lane++)
            sums[lane] += sums[lane + half];
    return sums[0];
}

/* Bits without the sign have the order of the magnitudes; those of numbers that are not finite are the highest. */
TV_INLINE int32_t magnitude(float x) { return (int32_t)tv_f32_abs(tv_f32_bits(x)); }

TV_INLINE int32_t max_magnitude(const float *x, size_t n)
{
    int32_t max = 0;
    for (size_t i = 0; i < n; i++)
        max = magnitude(x[i]) > max ? magnitude(x[i]) : max;
    return max;
}

TV_CLONES float tv_absmax(const float *x, size_t n, bool *finite)
{
    int32_t max = max_magnitude(x, n);
    *finite = max < (int32_t)TV_F32_INF;
    return tv_f32_of_bits((uint32_t)max);
}

TV_CLONES float tv_signed_absmax(const float *x, size_t n, bool *finite)
{
    int32_t max = max_magnitude(x, n);
    uint32_t first = (uint32_t)n - 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t index = magnitude(x[i]) == max ? i : (uint32_t)n - 1;
        first = index < first ? index : first;
    }
    *finite = max < (int32_t)TV_F32_INF;
    return x[first];
}

TV_CLONES void tv_pack_s4(const int8_t *q, size_t n, uint8_t *packed)
{
    for (size_t i = 0; i < n / 2; i++)
        packed[i] = (uint8_t)((q[2 * i] & 15) | (q[2 * i + 1] & 15) << 4);
    if (n % 2)
        packed[n / 2] = (uint8_t)(q[n - 1] & 15);
}
