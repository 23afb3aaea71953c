/* SPDX-License-Identifier: Apache-2.0 */
/* Correct rounding by Ziv's strategy: evaluate in binary64 and test whether the error bound could change the rounding;
 * only then evaluate in the host's wider long double (64-bit significand on x86-64, 113-bit on arm64). func.def has a
 * row per function, from which the switches below are expanded.
 *
 * Bounds assumed of the host library: 2^-50 relative in binary64. Where the exact result is so near to a representable
 * number that no precision would show on which side, the side is known from the function's series, and `nudged` gives
 * a binary64 number on that side: inputs have 24 significant bits, so every rounding boundary other than the nearby
 * number itself is at least 2^-25 away, and only the side matters. */
#include "num/func.h"

#include <math.h>

#include "num/float.h"

static const double BOUND = 0x1p-49, UNDECIDED = -0x1p+1023; /* no function has such a value */

/* One binary64 step from y towards `to`. */
static double nudged(double y, double to) { return nextafter(y, to); }

/* x * Phi(x) as x/2 * erfc(-x / sqrt 2). The argument's rounding error would be magnified by 2z^2, so that erfc is
 * corrected by its derivative. */
static double gelu_f64(double x)
{
    const double r_hi = 0x1.6a09e667f3bcdp-1, r_lo = -0x1.bdd3413b26456p-55; /* 1 / sqrt 2 */
    double z = -x * r_hi;
    double z_lo = fma(-x, r_hi, -z) - x * r_lo;
    double slope = -0x1.20dd750429b6dp+0 * exp(-z * z); /* -2 / sqrt pi * exp(-z^2) */
    return 0.5 * x * (erfc(z) + slope * z_lo);
}

static long double gelu_wide(long double x)
{
    const long double r_hi = 0x1.6a09e667f3bcc908p-1L, r_lo = 0x1.65fa7590de7ef5e3p-67L;
    long double z = -x * r_hi;
    long double z_lo = fmal(-x, r_hi, -z) - x * r_lo;
    long double slope = -1.12837916709551257389615890312154517L * expl(-z * z);
    return 0.5L * x * (erfcl(z) + slope * z_lo);
}

/* sqrt(8 / pi) (x + 0.044715 x^3): twice the argument of tanh, since (1 + tanh u) / 2 = 1 / (1 + exp(-2u)). */
static double tanh_argument(double x) { return 0x1.9884533d43651p+0 * (x + 0.044715 * x * x * x); }

static long double tanh_argument_wide(long double x)
{
    return 1.59576912160573071175978423973752747390343452465567L * (x + 0.044715L * x * x * x);
}

/* x * gate(x) with gate from 0 to 1: x/2 + c x^2, c > 0, about 0; from `high` on x (1 - 2^-28) or nearer to x; below
 * `low` smaller than every format's smallest number. */
static double known_gated(double x, double low, double high)
{
    if (x == 0)
        return x;
    if (isinf(x))
        return x > 0 ? x : -0.0;
    if (fabs(x) < 0x1p-28)
        return nudged(0.5 * x, INFINITY);
    if (x < low)
        return -0x1p-1000;
    return x >= high ? nudged(x, 0.0) : UNDECIDED;
}

/* ---- The table ---- */

static double eval(tv_func func, double x)
{
    switch (func) {
#define TV_FUNC(id, value, wide, known, bound, mpfr)                                                                   \
    case TV_FUNC_##id:                                                                                                 \
        return value;
#include "num/func.def"
#undef TV_FUNC
    case TV_FUNCS:
        break;
    }
    return NAN;
}

static long double eval_long(tv_func func, long double x)
{
    switch (func) {
#define TV_FUNC(id, value, wide, known, bound, mpfr)                                                                   \
    case TV_FUNC_##id:                                                                                                 \
        return wide;
#include "num/func.def"
#undef TV_FUNC
    case TV_FUNCS:
        break;
    }
    return (long double)NAN;
}

/* A value that needs no error bound, or UNDECIDED; that of a NaN is the NaN. */
static double find_known(tv_func func, double x)
{
    if (isnan(x))
        return x;
    switch (func) {
#define TV_FUNC(id, value, wide, known, bound, mpfr)                                                                   \
    case TV_FUNC_##id:                                                                                                 \
        return known;
#include "num/func.def"
#undef TV_FUNC
    case TV_FUNCS:
        break;
    }
    return UNDECIDED;
}

static double bound_of(tv_func func)
{
    switch (func) {
#define TV_FUNC(id, value, wide, known, bound, mpfr)                                                                   \
    case TV_FUNC_##id:                                                                                                 \
        return bound;
#include "num/func.def"
#undef TV_FUNC
    case TV_FUNCS:
        break;
    }
    return BOUND;
}

/* A wide number rounded to odd into binary64: narrowing that again is one rounding. */
static double round_to_odd(long double y)
{
    double d = (double)y;
    if ((long double)d != y && (tv_f64_bits(d) & 1) == 0)
        d = nextafter(d, (long double)d < y ? INFINITY : -INFINITY);
    return d;
}

static double eval_wide(tv_func func, double x) { return round_to_odd(eval_long(func, x)); }

uint16_t tv_func_bf16(tv_func func, float x)
{
    double y = find_known(func, (double)x);
    if (y != UNDECIDED)
        return tv_bf16_flushed_from_f64(y);
    y = eval(func, (double)x);
    double bound = bound_of(func);
    uint16_t low = tv_bf16_flushed_from_f64(y - y * bound), high = tv_bf16_flushed_from_f64(y + y * bound);
    return low == high ? low : tv_bf16_flushed_from_f64(eval_wide(func, (double)x));
}

float tv_func_f32(tv_func func, float x)
{
    double y = find_known(func, (double)x);
    if (y != UNDECIDED)
        return tv_f32_of_bits(tv_f32_canonical((float)y)); /* hosts differ in the sign of the NaN they make */
    y = eval(func, (double)x);
    double bound = bound_of(func);
    float low = (float)(y - y * bound), high = (float)(y + y * bound);
    /* y itself: beside a zero, the bounds have lost its sign */
    return low == high ? (float)y : (float)eval_wide(func, (double)x);
}

float tv_func_f32_of_angle(tv_func func, double angle)
{
    /* x - x^3/6 is between x and the number before it; of these the odd one is no rounding boundary of binary32 */
    if (func == TV_FUNC_SIN && fabs(angle) < 0x1p-26)
        return (float)(tv_f64_bits(angle) & 1 || angle == 0 ? angle : nudged(angle, 0.0));
    double y = eval(func, angle);
    float low = (float)(y - y * BOUND), high = (float)(y + y * BOUND);
    return low == high ? (float)y : (float)eval_wide(func, angle);
}

float tv_func_pow_f32(float x, float y)
{
    double p = pow((double)x, (double)y), error = fabs(p) * BOUND;
    if (isnan(p))
        return tv_f32_of_bits(tv_f32_canonical((float)p));
    if (x == 1 || y == 0 || isinf(p) || fabs(p) < 0x1p-160)
        return (float)p;
    float low = (float)(p - error), high = (float)(p + error);
    return low == high ? (float)p : (float)round_to_odd(powl((long double)x, (long double)y));
}
