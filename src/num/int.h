/* SPDX-License-Identifier: Apache-2.0 */
/* Packed integers of 2, 4 and 8 bits, and the rounding of real values to integers. */
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

/* Signed element `i` of packed integers of `bits` 2, 4 or 8: the first in the lowest bits. */
static inline int tv_int_get(const uint8_t *packed, unsigned bits, size_t i)
{
    unsigned per = 8 / bits, value = packed[i / per] >> (i % per * bits) & ((1u << bits) - 1), sign = 1u << (bits - 1);
    return (int)(value ^ sign) - (int)sign;
}

static inline void tv_int_set(uint8_t *packed, unsigned bits, size_t i, int value)
{
    unsigned per = 8 / bits, shift = (unsigned)(i % per) * bits, mask = (1u << bits) - 1;
    packed[i / per] = (uint8_t)((packed[i / per] & ~(mask << shift)) | ((unsigned)value & mask) << shift);
}

/* The maximum of a signed integer of `bits` bits; the minimum is -TV_INT_MAX(bits) - 1. */
#define TV_INT_MAX(bits) ((int)(UINT32_C(1) << ((bits)-1)) - 1)

/* The nearest integer, ties to even, of a magnitude up to 2^22. Adds a number whose unit in the last place is 1, which
 * the compiler can vectorize. */
static inline float tv_round_small(float x)
{
    static const float UNITS = 0x1.8p23f;
    return (x + UNITS) - UNITS;
}

/* Nearest integer of `bits` up to 8, ties to even, saturating; NaN: 0. */
static inline int tv_int_saturate(float x, unsigned bits)
{
    float max = (float)TV_INT_MAX(bits), clamped = x < max ? x : max;
    int nearest = (int)tv_round_small(
        clamped > -max - 1 ? clamped : -max - 1); /* no branches, so that the compiler can vectorize it */
    return x == x ? nearest : 0;
}

/* Nearest integer, ties to even, clamped to [low, high]; x must not be NaN. */
static inline int tv_int_round_clamp(double x, int low, int high)
{
    double r = rint(x);
    return r < low ? low : r > high ? high : (int)r;
}

#endif
