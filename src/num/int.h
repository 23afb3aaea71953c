/* SPDX-License-Identifier: Apache-2.0 */
/* Packed INT4 and the rounding of real values to integers. */
#ifndef TV_NUM_INT_H
#define TV_NUM_INT_H

#include <math.h>

#include "base/base.h"

/* Signed INT4 element `i` of packed bytes: low nibble first. */
static inline int tv_int4_get(const uint8_t *packed, size_t i)
{
    unsigned nibble = packed[i / 2] >> (i % 2 * 4) & 15;
    return (int)(nibble ^ 8) - 8;
}

static inline void tv_int4_set(uint8_t *packed, size_t i, int value)
{
    unsigned shift = (unsigned)(i % 2 * 4);
    packed[i / 2] = (uint8_t)((packed[i / 2] & ~(15u << shift)) | ((unsigned)value & 15) << shift);
}

/* Nearest integer, ties to even, clamped to [low, high]; x must not be NaN. */
static inline int tv_int_round_clamp(double x, int low, int high)
{
    double r = rint(x);
    return r < low ? low : r > high ? high : (int)r;
}

#endif
