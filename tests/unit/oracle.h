/* SPDX-License-Identifier: Apache-2.0 */
/* Narrow IEEE-like formats by MPFR: a number is computed with the format's precision and MPFR's ternary value, then
 * fitted to the exponent range, and only then, if it is small, rounded again as a subnormal (MPFR manual,
 * "Exceptions"). */
#ifndef TV_TESTS_ORACLE_H
#define TV_TESTS_ORACLE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <mpfr.h>

typedef struct format {
    mpfr_prec_t precision;
    mpfr_exp_t emin, emax; /* MPFR's significands are in [1/2, 1): emin is that of the smallest subnormal */
    unsigned bits, man;    /* of the encoding */
    bool flushed;          /* what is below the smallest normal number after rounding to `precision` bits is zero */
} format;

static const format FORMAT_BF16 = {8, -132, 128, 16, 7, false};
static const format FORMAT_BF16_FLUSHED = {8, -132, 128, 16, 7, true};
static const format FORMAT_F16 = {11, -23, 16, 16, 10, false};
static const format FORMAT_F32 = {24, -148, 128, 32, 23, false};

/* Fits `y`, of the format's precision and rounded to nearest with `ternary`, to the format's exponents. */
static inline void oracle_fit(mpfr_t y, int ternary, const format *f)
{
    mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
    if (f->flushed && mpfr_regular_p(y) && mpfr_get_exp(y) < f->emin + f->precision - 1)
        mpfr_set_zero(y, mpfr_signbit(y) ? -1 : 1);
    mpfr_set_emin(f->emin);
    mpfr_set_emax(f->emax);
    ternary = mpfr_check_range(y, ternary, MPFR_RNDN);
    mpfr_subnormalize(y, ternary, MPFR_RNDN);
    mpfr_set_emin(emin);
    mpfr_set_emax(emax);
}

/* The encoding of a `y` that the format holds exactly; the canonical quiet NaN. */
static inline uint32_t oracle_encode(const mpfr_t y, const format *f)
{
    uint32_t max_exponent = (1u << (f->bits - 1 - f->man)) - 1;
    uint32_t sign = mpfr_signbit(y) ? 1u << (f->bits - 1) : 0;
    if (mpfr_nan_p(y))
        return max_exponent << f->man | 1u << (f->man - 1);
    if (mpfr_inf_p(y))
        return sign | max_exponent << f->man;
    if (mpfr_zero_p(y))
        return sign;
    double magnitude = fabs(mpfr_get_d(y, MPFR_RNDN)); /* exact: binary64 holds every narrower format */
    int bias = (int)(max_exponent >> 1), exponent;
    double significand = frexp(magnitude, &exponent) * 2; /* in [1, 2) */
    exponent += bias - 1;
    if (exponent <= 0)
        return sign | (uint32_t)ldexp(magnitude, bias - 1 + (int)f->man);
    return sign | (uint32_t)exponent << f->man | (uint32_t)ldexp(significand - 1, (int)f->man);
}

/* binary64 `x` rounded once. `scratch` is initialised; its precision is changed. */
static inline uint32_t oracle_narrow(double x, const format *f, mpfr_t scratch)
{
    mpfr_set_prec(scratch, f->precision);
    oracle_fit(scratch, mpfr_set_d(scratch, x, MPFR_RNDN), f);
    return oracle_encode(scratch, f);
}

/* The value that an encoding stands for, by the definition of the format. */
static inline double oracle_value(uint32_t bits, const format *f)
{
    uint32_t max_exponent = (1u << (f->bits - 1 - f->man)) - 1;
    uint32_t exponent = bits >> f->man & max_exponent, fraction = bits & ((1u << f->man) - 1);
    int bias = (int)(max_exponent >> 1);
    double magnitude = exponent == max_exponent ? (fraction ? (double)NAN : (double)INFINITY)
                       : exponent == 0          ? ldexp(fraction, 1 - bias - (int)f->man)
                                       : ldexp(fraction + ldexp(1, (int)f->man), (int)exponent - bias - (int)f->man);
    return bits >> (f->bits - 1) & 1 ? -magnitude : magnitude;
}

#endif
