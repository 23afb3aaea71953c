/* SPDX-License-Identifier: Apache-2.0 */
/* BF16, FP16 and FP32 as bits, and conversions, rounded to nearest, ties to even.
 *
 * Values are carried as their bits (uint16_t). Widening is exact. Narrowing rounds once, with gradual underflow and
 * overflow to infinity; NaN becomes the canonical quiet NaN. The functions named "flushed" are for a machine without
 * subnormal results: a number that rounds to less than the smallest normal number with 8 significant bits and an
 * unbounded exponent becomes the zero of its sign. Flushing a rounded BF16 instead would keep the numbers that reach
 * the smallest normal number only because subnormals have fewer bits. */
#ifndef TV_NUM_FLOAT_H
#define TV_NUM_FLOAT_H

#include <math.h>

#include "base/base.h"

#define TV_BF16_NAN 0x7FC0u
#define TV_BF16_INF 0x7F80u
#define TV_BF16_ONE 0x3F80u
#define TV_BF16_SIGN 0x8000u
#define TV_BF16_MAX 0x7F7Fu /* finite */
#define TV_BF16_TIE 0x7FFFu /* rounding constant: bits + TIE + (bit 16), then truncation to the high 16 bits */
/* binary32 bits of 2^-126 (1 - 2^-9), the smallest magnitude that rounds to a normal BF16 number */
#define TV_BF16_NORMAL_FROM UINT32_C(0x007FC000)
#define TV_F32_NAN UINT32_C(0x7FC00000)
#define TV_F32_SIGN UINT32_C(0x80000000)
#define TV_F32_INF UINT32_C(0x7F800000) /* also the mask of the exponent */
#define TV_F32_MAX UINT32_C(0x7F7FFFFF) /* finite */
#define TV_F32_FRACTION UINT32_C(0x007FFFFF)
#define TV_F32_HIDDEN UINT32_C(0x00800000) /* the implicit leading bit of a normal number */
#define TV_F32_FRACTION_BITS 23
#define TV_F32_BIAS 127

static inline uint32_t tv_f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float tv_f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t tv_f64_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double tv_f64_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The bits of x; the canonical NaN if x is NaN. */
static inline uint32_t tv_f32_canonical(float x) { return x != x ? TV_F32_NAN : tv_f32_bits(x); }

/* Negation and absolute value of bits, including those of a NaN. */
static inline uint32_t tv_f32_negate(uint32_t x) { return x ^ TV_F32_SIGN; }
static inline uint32_t tv_f32_abs(uint32_t x) { return x & ~TV_F32_SIGN; }

/* Maps bits to integers with the order of the numbers, and back: inverts all bits but the sign of negative numbers. */
static inline int32_t tv_f32_order(int32_t x) { return x ^ (int32_t)((uint32_t)(x >> 31) >> 1); }

/* Whether x is a positive normal power of two. */
static inline bool tv_f32_is_power_of_two(float x)
{
    uint32_t bits = tv_f32_bits(x);
    return (bits & (TV_F32_SIGN | TV_F32_FRACTION)) == 0 && bits != 0 && bits != TV_F32_INF;
}

/* 2^k if that is a normal number. Only the low bits of `k` matter, so it may be the bits of x + 0x1.8p52, whose low
 * bits are the integer that x rounds to. */
static inline double tv_f64_power_of_two(uint64_t k) { return tv_f64_of_bits((k + 1023) << 52); }

/* The same in binary32, for the bits of x + 0x1.8p23. */
static inline float tv_f32_power_of_two(uint32_t k) { return tv_f32_of_bits((k + 127) << 23); }

static inline float tv_bf16_to_f32(uint16_t x) { return tv_f32_of_bits((uint32_t)x << 16); }

static inline uint16_t tv_bf16_from_f32(float x)
{
    uint32_t bits = tv_f32_bits(x);
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return TV_BF16_NAN;
    return (uint16_t)((bits + TV_BF16_TIE + (bits >> 16 & 1)) >> 16);
}

/* Without branches on the value, so that the compiler can vectorize loops over it. */
static inline uint16_t tv_bf16_flushed_from_f32(float x)
{
    bool tiny = (tv_f32_bits(x) & ~TV_F32_SIGN) < TV_BF16_NORMAL_FROM;
    return (uint16_t)(tv_bf16_from_f32(x) & (tiny ? TV_BF16_SIGN : 0xFFFF));
}

static inline bool tv_bf16_is_nan(uint16_t x) { return (x & 0x7FFF) > TV_BF16_INF; }
static inline bool tv_bf16_is_finite(uint16_t x) { return (x & 0x7F80) != 0x7F80; }
static inline bool tv_bf16_is_subnormal(uint16_t x) { return (x & 0x7F80) == 0 && (x & 0x7F) != 0; }

static inline uint16_t tv_bf16_abs(uint16_t x) { return x & 0x7FFF; }
static inline bool tv_bf16_is_zero(uint16_t x) { return (x & 0x7FFF) == 0; }
static inline bool tv_bf16_is_negative(uint16_t x) { return x >> 15; } /* the sign bit, also of zero and NaN */

/* The exponent field (0 for zero and subnormals); and 2^(exponent - 127), for exponents from -22 to 254. */
static inline unsigned tv_bf16_exponent(uint16_t x) { return x >> 7 & 0xFF; }
static inline float tv_bf16_power_of_two(int exponent)
{
    return tv_f32_of_bits(exponent > 0 ? (uint32_t)exponent << TV_F32_FRACTION_BITS
                                       : UINT32_C(1) << (TV_F32_FRACTION_BITS - 1 + exponent));
}

/* Flushes a subnormal to the zero of its sign. */
static inline uint16_t tv_bf16_flush(uint16_t x) { return (x & 0x7F80) == 0 ? x & 0x8000 : x; }

/* `x`, with a subnormal number replaced by the zero of its sign. */
static inline float tv_f32_flush(float x)
{
    uint32_t bits = tv_f32_bits(x);
    return bits & TV_F32_INF ? x : tv_f32_of_bits(bits & TV_F32_SIGN);
}

/* Rounded once from binary64, without double rounding. */
uint16_t tv_bf16_from_f64(double x);
uint16_t tv_bf16_flushed_from_f64(double x);
uint16_t tv_f16_from_f64(double x);

/* The integer rounded to odd: rounding the result to a format of up to 51 bits equals rounding the integer once. */
double tv_f64_odd_from_i64(int64_t x);

#define TV_F16_NAN 0x7E00u
#define TV_F16_INF 0x7C00u

static inline bool tv_f16_is_finite(uint16_t x) { return (x & TV_F16_INF) != TV_F16_INF; }

/* The next two functions have no branches, so that the compiler can vectorize them. */
static inline float tv_f16_to_f32(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, magnitude = (uint32_t)(x & 0x7FFF) << 13;
    uint32_t finite = tv_f32_bits(tv_f32_of_bits(magnitude) *
                                  0x1p112f); /* the difference of the exponent biases; exact, also for subnormals */
    return tv_f32_of_bits(sign | (magnitude >= TV_F16_INF << 13 ? magnitude | TV_F32_INF : finite));
}

static inline uint16_t tv_f16_from_f32(float x)
{
    uint32_t bits = tv_f32_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & ~TV_F32_SIGN;
    uint32_t normal = (magnitude - (UINT32_C(112) << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    uint32_t subnormal = tv_f32_bits(tv_f32_of_bits(magnitude) + 0.5f) -
                         tv_f32_bits(0.5f); /* the addition rounds to the unit of FP16 subnormals */
    uint32_t finite = magnitude < tv_f32_bits(0x1p-14f) ? subnormal : normal;
    uint32_t number =
        sign |
        (magnitude >= tv_f32_bits(65520.0f) ? TV_F16_INF : finite); /* from half a unit above the largest number */
    return (uint16_t)(magnitude > TV_F32_INF ? TV_F16_NAN : number);
}

#endif
