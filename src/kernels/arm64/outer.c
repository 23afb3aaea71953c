/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of outer products with NEON: rows of ACC stay in registers while all are added. */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "kernels/clones.h"
#include "kernels/variants.h"

enum { ROWS = TV_OUTER_ROWS, LANES = 4 };

/* Four rows of ACC by 4 or 8 columns. */
TV_INLINE void tile_neon(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count, unsigned vectors)
{
    int32x4_t sum[ROWS][2];
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned v = 0; v < vectors; v++)
            sum[r][v] = vld1q_s32(acc + (size_t)r * k + (size_t)v * LANES);
    for (unsigned p = 0; p < count; p++) {
        int16x4_t y[2];
        if (vectors == 2) {
            int16x8_t both = vmovl_s8(vld1_s8(b + (size_t)p * k));
            y[0] = vget_low_s16(both);
            y[1] = vget_high_s16(both);
        } else {
            int8_t four[8] = {0};
            memcpy(four, b + (size_t)p * k, LANES);
            y[0] = vget_low_s16(vmovl_s8(vld1_s8(four)));
        }
        for (unsigned r = 0; r < ROWS; r++)
            for (unsigned v = 0; v < vectors; v++)
                sum[r][v] = vmlal_n_s16(sum[r][v], y[v], a[(size_t)p * k + r]);
    }
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned v = 0; v < vectors; v++)
            vst1q_s32(acc + (size_t)r * k + (size_t)v * LANES, sum[r][v]);
}

void tv_outer_s8_neon(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count, uint32_t first,
                      uint32_t end)
{
    for (uint32_t i = first; i < end; i += ROWS) {
        int32_t *at = acc + (size_t)i * k;
        if (k == LANES)
            tile_neon(at, k, a + i, b, count, 1);
        for (uint32_t j = 0; j + 2 * LANES <= k; j += 2 * LANES)
            tile_neon(at + j, k, a + i, b + j, count, 2);
    }
}
#else
typedef int tv_no_arm64; /* ISO C wants a declaration */
#endif
