/* SPDX-License-Identifier: Apache-2.0 */
/* Tier 2 arithmetic in binary64. A product of two FP32 numbers is exact. A sum is rounded to odd: a number rounded to
 * odd at 53 bits rounds to 24 or fewer bits as the exact number would. */
#include "num/tier2.h"

#include <math.h>

#include "num/float.h"

/* A number format: fraction bits, exponent bias, and the bits of the maximum finite magnitude. */
typedef struct format {
    unsigned fraction;
    int bias;
    uint32_t max;
} format;

static const format f32 = {23, 127, 0x7F7FFFFF}, bf16 = {7, 127, 0x7F7F}, e4m3 = {3, 7, 0x7E}, e5m2 = {2, 15, 0x7B};

static double read_f32(uint32_t bits)
{
    uint32_t exponent = bits >> 23 & 0xFF;
    if (exponent == 0 || exponent == 0xFF)
        bits &= 0x80000000;
    return (double)tv_f32_of_bits(bits);
}

/* a + b rounded to odd: the sign of the error of the rounded sum (TwoSum) gives the side of the exact
 * one. */
static double add_odd(double a, double b)
{
    double sum = a + b;
    double from_b = sum - a;
    double error = (a - (sum - from_b)) + (b - from_b);
    if (error != 0 && (tv_f64_bits(sum) & 1) == 0)
        sum = tv_f64_of_bits(tv_f64_bits(sum) + ((error > 0) == (sum > 0) ? 1 : UINT64_MAX));
    return sum;
}

/* True when the magnitude is rounded up; `rest` / `unit` is the discarded fraction. */
static bool rounds_up(uint64_t kept, uint64_t rest, uint64_t unit, bool negative, tv_round round)
{
    switch (round) {
    case TV_ROUND_NEAREST:
        return 2 * rest > unit || (2 * rest == unit && (kept & 1));
    case TV_ROUND_FLOOR:
        return negative && rest;
    case TV_ROUND_CEIL:
        return !negative && rest;
    default:
        return false;
    }
}

/* The magnitude of finite x in a format, without the sign bit: x rounded to the format's precision with unbounded
 * exponent, then 0 below the smallest normal number and the maximum above the maximum. */
static uint32_t round_magnitude(double x, const format *f, tv_round round)
{
    uint64_t bits = tv_f64_bits(x) & INT64_MAX;
    bool negative = tv_f64_bits(x) >> 63;
    int exponent = (int)(bits >> 52) - 1023 + f->bias;
    uint64_t fraction = (bits & tv_mask(52)) | (bits >> 52 ? UINT64_C(1) << 52 : 0);
    unsigned drop = 52 - f->fraction;
    if (exponent < 0 || fraction == 0) /* rounding adds at most one to the exponent, which leaves it below 1 */
        return 0;
    if (exponent > 512)
        return f->max;
    uint64_t kept = fraction >> drop, unit = UINT64_C(1) << drop;
    kept += rounds_up(kept, fraction & (unit - 1), unit, negative, round);
    uint64_t result = ((uint64_t)exponent << f->fraction) + kept - (UINT64_C(1) << f->fraction);
    if (result >> f->fraction == 0) /* below the smallest normal number */
        return 0;
    return result > f->max ? f->max : (uint32_t)result;
}

static uint32_t round_f32(double x, tv_round round)
{
    return round_magnitude(x, &f32, round) | (uint32_t)(tv_f64_bits(x) >> 32 & 0x80000000);
}

/* a + b, rounded. An exact zero has the sign of both terms if they agree, otherwise that of the rounding mode. */
static uint32_t round_sum(double a, double b, tv_round round)
{
    double x = add_odd(a, b);
    if (x == 0) {
        bool both = signbit(a) && signbit(b), unlike = !signbit(a) != !signbit(b) || a != 0;
        return both && a == 0 && b == 0 ? 0x80000000 : unlike && round == TV_ROUND_FLOOR ? 0x80000000 : 0;
    }
    return round_f32(x, round);
}

uint32_t tv_tier2_add(uint32_t a, uint32_t b, tv_round round) { return round_sum(read_f32(a), read_f32(b), round); }

uint32_t tv_tier2_mul(uint32_t a, uint32_t b, tv_round round) { return round_f32(read_f32(a) * read_f32(b), round); }

uint32_t tv_tier2_fma(uint32_t a, uint32_t b, uint32_t c, tv_round round)
{
    return round_sum(read_f32(a) * read_f32(b), read_f32(c), round);
}

uint32_t tv_tier2_max(uint32_t a, uint32_t b)
{
    double x = read_f32(a), y = read_f32(b);
    return tv_f32_bits((float)(x > y || (x == y && !signbit(x)) ? x : y));
}

uint32_t tv_tier2_min(uint32_t a, uint32_t b)
{
    double x = read_f32(a), y = read_f32(b);
    return tv_f32_bits((float)(x < y || (x == y && signbit(x)) ? x : y));
}

uint32_t tv_tier2_from_s32(int32_t x, tv_round round) { return x == 0 ? 0 : round_f32((double)x, round); }

static double round_to_integer(double x, tv_round round)
{
    switch (round) {
    case TV_ROUND_NEAREST:
        return rint(x);
    case TV_ROUND_ZERO:
        return trunc(x);
    case TV_ROUND_FLOOR:
        return floor(x);
    default:
        return ceil(x);
    }
}

int32_t tv_tier2_to_int(uint32_t a, unsigned bits, bool saturate, tv_round round)
{
    double x = round_to_integer(read_f32(a), round), limit = ldexp(1.0, (int)bits - 1);
    if (saturate)
        x = x < -limit ? -limit : x > limit - 1 ? limit - 1 : x;
    /* The low 32 bits of an FP32 number of 2^56 or more are zero. */
    uint64_t low = fabs(x) < 0x1p62 ? (uint64_t)(int64_t)x : 0;
    uint64_t sign = UINT64_C(1) << (bits - 1);
    low &= tv_mask(bits);
    return (int32_t)(int64_t)((low ^ sign) - sign);
}

uint32_t tv_tier2_from_bf16(uint16_t x) { return tv_f32_bits((float)read_f32((uint32_t)x << 16)); }

uint16_t tv_tier2_to_bf16(uint32_t a, tv_round round)
{
    return (uint16_t)(round_magnitude(read_f32(a), &bf16, round) | (a >> 16 & 0x8000));
}

uint32_t tv_tier2_from_bf8(uint8_t x, bool is_e5m2)
{
    const format *f = is_e5m2 ? &e5m2 : &e4m3;
    uint32_t m = x & 0x7F, sign = (uint32_t)(x & 0x80) << 24;
    if (m >> f->fraction == 0 || m > f->max)
        return sign;
    return sign | ((m >> f->fraction) + 127 - (uint32_t)f->bias) << 23 |
           (m & (uint32_t)tv_mask(f->fraction)) << (23 - f->fraction);
}

uint8_t tv_tier2_to_bf8(uint32_t a, bool is_e5m2, tv_round round)
{
    return (uint8_t)(round_magnitude(read_f32(a), is_e5m2 ? &e5m2 : &e4m3, round) | (a >> 24 & 0x80));
}
