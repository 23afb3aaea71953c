/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/depthwise.h"

#include <string.h>

#include "kernels/clones.h"

enum { LANES = 64 };

/* LANES channels; their sums stay in registers. */
TV_INLINE void sum_lanes(const int8_t *const *taps, const int8_t *weights, uint64_t stride, uint64_t count, uint64_t at,
                         int32_t *out)
{
    int32_t sums[LANES] = {0};
    for (uint64_t t = 0; t < count; t++) {
        if (!taps[t])
            continue;
        const int8_t *x = taps[t] + at, *w = weights + t * stride + at;
        for (int i = 0; i < LANES; i++)
            sums[i] += (int16_t)(x[i] * w[i]);
    }
    memcpy(out + at, sums, sizeof sums);
}

TV_CLONES void tv_depthwise_s8(const int8_t *const *taps, const int8_t *weights, uint64_t stride, uint64_t count,
                               uint64_t channels, int32_t *out)
{
    uint64_t at = 0;
    for (; at + LANES <= channels; at += LANES)
        sum_lanes(taps, weights, stride, count, at, out);
    for (uint64_t c = at; c < channels; c++)
        out[c] = 0;
    for (uint64_t t = 0; t < count; t++)
        for (uint64_t c = at; taps[t] && c < channels; c++)
            out[c] += taps[t][c] * weights[t * stride + c];
}
