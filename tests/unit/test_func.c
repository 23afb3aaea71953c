/* SPDX-License-Identifier: Apache-2.0 */
/* The elementary functions against MPFR: every BF16 input, and FP32 inputs of every exponent.
 *
 * MPFR rounds exp, sqrt, sin, cos and division correctly at any precision; its ternary value and mpfr_subnormalize
 * make the formats' subnormals exact, too. GELU in both forms and SILU are not MPFR functions: they are bracketed, with
 * more precision until both ends of the bracket round to the same number (Ziv). */
#include "unit.h"

#include "num/float.h"
#include "num/func.h"
#include "oracle.h"

enum { RANDOM_INPUTS = 400000, PRINTED = 8 };

static mpfr_t arg, result, low, high;

/* x / 2 * erfc(-x / sqrt 2) with a relative error below 2^(20 - precision) for |x| <= 100: erfc magnifies the error of
 * its argument z by at most 2 z^2 + 2 < 2^14. */
static void gelu_approximate(double x, mpfr_prec_t precision, mpfr_t y)
{
    mpfr_t z;
    mpfr_init2(z, precision);
    mpfr_set_prec(y, precision);
    mpfr_sqrt_ui(z, 2, MPFR_RNDN);
    mpfr_d_div(z, -x, z, MPFR_RNDN);
    mpfr_erfc(y, z, MPFR_RNDN);
    mpfr_mul_d(y, y, x, MPFR_RNDN);
    mpfr_div_2ui(y, y, 1, MPFR_RNDN);
    mpfr_clear(z);
}

/* x / (1 + exp(-x)), its relative error far below 2^(20 - precision) for |x| <= 120. */
static void silu_approximate(double x, mpfr_prec_t precision, mpfr_t y)
{
    mpfr_set_prec(y, precision);
    mpfr_set_d(y, -x, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
    mpfr_d_div(y, x, y, MPFR_RNDN);
}

/* x / (1 + exp(-v)), v = sqrt(8 / pi) (x + 0.044715 x^3). For |x| <= 120 v is below 2^17, by which exp magnifies its
 * relative error of less than 2^(4 - precision). */
static void gelu_tanh_approximate(double x, mpfr_prec_t precision, mpfr_t y)
{
    mpfr_t z;
    mpfr_init2(z, precision);
    mpfr_set_prec(y, precision);
    mpfr_set_d(z, x, MPFR_RNDN);
    mpfr_pow_ui(y, z, 3, MPFR_RNDN);
    mpfr_mul_ui(y, y, 44715, MPFR_RNDN);
    mpfr_div_ui(y, y, 1000000, MPFR_RNDN);
    mpfr_add(y, y, z, MPFR_RNDN);
    mpfr_const_pi(z, MPFR_RNDN);
    mpfr_ui_div(z, 8, z, MPFR_RNDN);
    mpfr_sqrt(z, z, MPFR_RNDN);
    mpfr_mul(y, y, z, MPFR_RNDN);
    mpfr_neg(y, y, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
    mpfr_d_div(y, x, y, MPFR_RNDN);
    mpfr_clear(z);
}

/* A function without one of MPFR: relative error below 2^(24 - precision) where |x| <= `low_end`, from where on
 * downwards it is below half of every least subnormal; above `high_end` it is nearer below x than any rounding
 * boundary. */
typedef struct bracketed {
    void (*approximate)(double x, mpfr_prec_t precision, mpfr_t y);
    double low_end, high_end;
} bracketed;

static uint32_t round_to(const mpfr_t y, const format *f)
{
    mpfr_t r;
    mpfr_init2(r, f->precision);
    oracle_fit(r, mpfr_set(r, y, MPFR_RNDN), f);
    uint32_t bits = oracle_encode(r, f);
    mpfr_clear(r);
    return bits;
}

/* Functions that MPFR does not have. */
static const bracketed brackets[TV_FUNCS] = {
    [TV_FUNC_GELU] = {gelu_approximate, -100, 12}, /* |x| Phi(x) < |x| exp(-5000) */
    [TV_FUNC_SILU] = {silu_approximate, -120, 60},
    [TV_FUNC_GELU_TANH] = {gelu_tanh_approximate, -120, 12},
};

static int mpfr_recip(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) { return mpfr_ui_div(y, 1, x, round); }

/* 1 / (1 + exp -x), from 400 bits. */
static int mpfr_sigmoid(mpfr_t y, const mpfr_t x, mpfr_rnd_t round)
{
    mpfr_t z;
    mpfr_init2(z, 400);
    mpfr_neg(z, x, MPFR_RNDN);
    mpfr_exp(z, z, MPFR_RNDN);
    mpfr_add_ui(z, z, 1, MPFR_RNDN);
    mpfr_ui_div(z, 1, z, MPFR_RNDN);
    int ternary = mpfr_set(y, z, round);
    mpfr_clear(z);
    return ternary;
}

/* The functions of MPFR that func.def names; NULL: see `brackets`. */
typedef int mpfr_function(mpfr_t y, const mpfr_t x, mpfr_rnd_t round);
static mpfr_function *const mpfr_functions[TV_FUNCS] = {
#define NO_MPFR NULL
#define TV_FUNC(id, value, wide, known, bound, mpfr) [TV_FUNC_##id] = (mpfr),
#include "num/func.def"
#undef TV_FUNC
};

static uint32_t bracket(const bracketed *b, double x, const format *f)
{
    uint32_t negative_zero = 1u << (f->bits - 1);
    if (x == 0 || x != x || x == (double)INFINITY)
        return oracle_narrow(x, f, result);
    if (x < b->low_end)
        return negative_zero;
    if (x > b->high_end) { /* of a number with 24 bits only the side counts */
        mpfr_set_prec(low, 100);
        mpfr_set_d(low, x, MPFR_RNDN);
        mpfr_nextbelow(low);
        return round_to(low, f);
    }
    for (mpfr_prec_t precision = 96; precision <= 1600; precision = precision == 96 ? 400 : precision * 2) {
        b->approximate(x, precision, result);
        mpfr_set_prec(low, precision);
        mpfr_set_prec(high, precision);
        mpfr_set_ui_2exp(low, 1, 24 - precision, MPFR_RNDN);
        mpfr_mul(low, low, result, MPFR_RNDA);
        mpfr_add(high, result, low, MPFR_RNDA);
        mpfr_sub(low, result, low, MPFR_RNDZ);
        uint32_t one = round_to(low, f), other = round_to(high, f);
        if (one == other)
            return one;
    }
    fail_msg("the function of %a is a tie at 1600 bits", x);
    return 0;
}

/* The correctly rounded function value in format `f`; `x` is exact. */
static uint32_t oracle(tv_func func, double x, const format *f)
{
    if (!mpfr_functions[func]) {
        assert_non_null(brackets[func].approximate);
        return bracket(&brackets[func], x, f);
    }
    mpfr_set_prec(arg, 53);
    mpfr_set_d(arg, x, MPFR_RNDN);
    mpfr_set_prec(result, f->precision);
    int ternary = mpfr_functions[func](result, arg, MPFR_RNDN);
    if (func == TV_FUNC_RSQRT && mpfr_zero_p(arg)) /* IEEE 754: infinity of the zero's sign; MPFR: always plus */
        mpfr_setsign(result, result, mpfr_signbit(arg), MPFR_RNDN);
    oracle_fit(result, ternary, f);
    return oracle_encode(result, f);
}

static uint16_t flushed(uint32_t bf16) { return (uint16_t)((bf16 & 0x7F80) == 0 ? bf16 & 0x8000 : bf16); }

static const tv_func funcs[TV_FUNCS] = {
#define TV_FUNC(id, value, wide, known, bound, mpfr) [TV_FUNC_##id] = TV_FUNC_##id,
#include "num/func.def"
#undef TV_FUNC
};
static const char *const names[TV_FUNCS] = {
#define TV_FUNC(id, value, wide, known, bound, mpfr) [TV_FUNC_##id] = #id,
#include "num/func.def"
#undef TV_FUNC
};

static void check_every_bf16(void **state)
{
    tv_func func = *(const tv_func *)*state;
    unsigned mismatches = 0;
    for (uint32_t i = 0; i < 65536; i += unit_sample()) {
        double x = oracle_value(flushed(i), &FORMAT_BF16);
        uint32_t expected = oracle(func, x, &FORMAT_BF16_FLUSHED);
        uint16_t actual = tv_func_bf16(func, tv_bf16_to_f32(tv_bf16_flush((uint16_t)i)));
        if (actual != expected && mismatches++ < PRINTED)
            print_error("%s(bf16 %04x): expected %04x, got %04x\n", names[func], i, expected, actual);
    }
    assert_int_equal(mismatches, 0);
}

/* Counts mismatches and prints the first few. */
static void check_f32(tv_func func, uint32_t bits, unsigned *mismatches)
{
    double x = oracle_value(bits, &FORMAT_F32);
    uint32_t expected = oracle(func, x, &FORMAT_F32), bf16 = oracle(func, x, &FORMAT_BF16_FLUSHED);
    uint32_t actual = tv_f32_bits(tv_func_f32(func, tv_f32_of_bits(bits)));
    uint32_t actual_bf16 = tv_func_bf16(func, tv_f32_of_bits(bits));
    bool both_nan = (expected & 0x7FFFFFFF) > 0x7F800000 && (actual & 0x7FFFFFFF) > 0x7F800000;
    bool right = (both_nan || actual == expected) && actual_bf16 == bf16;
    if (!right && (*mismatches)++ < PRINTED)
        print_error("%s(f32 %08x): expected %08x and bf16 %04x, got %08x and %04x\n", names[func], bits, expected, bf16,
                    actual, actual_bf16);
}

static void check_random_f32(void **state)
{
    tv_func func = *(const tv_func *)*state;
    unit_rng rng = {100 + (uint64_t)func};
    unsigned mismatches = 0;
    for (unsigned i = 0; i < RANDOM_INPUTS / unit_sample(); i++) {
        uint32_t bits = (uint32_t)unit_next(&rng);
        if (i % 4 == 1) /* where the functions bend: 2^-32 to 2^8 */
            bits = (bits & 0x807FFFFF) | (uint32_t)(127 - 32 + unit_below(&rng, 40)) << 23;
        else if (i % 4 == 2) /* halfway between two BF16 numbers, and beside it */
            bits = (bits & 0xFFFF0000) + 0x8000 + (uint32_t)unit_below(&rng, 3) - 1;
        else if (i % 4 == 3) /* few significant bits: exact results and ties */
            bits &= 0xFF800000 | (0x7FFFFFu << unit_below(&rng, 23) & 0x7FFFFF);
        check_f32(func, bits, &mismatches);
    }
    assert_int_equal(mismatches, 0);
}

static void check_edges_f32(void **state)
{
    tv_func func = *(const tv_func *)*state;
    unsigned mismatches = 0;
    for (uint32_t exponent = 0; exponent < 256; exponent++)
        for (uint32_t step = 0; step < 16; step++)
            for (uint32_t sign = 0; sign < 2; sign++)
                check_f32(func, (sign << 31 | exponent << 23) + step - 8, &mismatches);
    assert_int_equal(mismatches, 0);
}

/* Arguments whose results are near the smallest normal BF16 number, in steps of one unit: those of GELU, which is about
 * x / 2 there, around 2^-125, of SIN around 2^-126, of RECIP around 2^126. */
static void results_around_the_smallest_normal_bf16_are_flushed_after_rounding(void **state)
{
    (void)state;
    static const struct {
        tv_func func;
        float x;
    } rows[] = {{TV_FUNC_GELU, 0x1p-125f},   {TV_FUNC_GELU_TANH, 0x1p-125f}, {TV_FUNC_SILU, 0x1p-125f},
                {TV_FUNC_SIN, 0x1p-126f},    {TV_FUNC_RECIP, 0x1p126f},      {TV_FUNC_EXP, -87.3365f},
                {TV_FUNC_GELU, -0x1.9ccp+3f}};
    enum { UNITS = 70000 }; /* in the binade below a power of two, 2^15 units are 2^-9 of it */
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        unsigned mismatches = 0;
        for (uint32_t step = 0; step < 2 * UNITS; step += unit_sample() + step % 13)
            for (uint32_t sign = 0; sign < 2; sign++)
                check_f32(rows[i].func, (tv_f32_bits(rows[i].x) ^ sign << 31) + step - UNITS, &mismatches);
        assert_int_equal(mismatches, 0);
    }
}

static void check_underflow(tv_func func, float from, float to)
{
    unsigned mismatches = 0;
    for (float x = from; x > to; x -= 0.03125f) /* through every format's underflow and that of binary64 */
        check_f32(func, tv_f32_bits(x), &mismatches);
    assert_int_equal(mismatches, 0);
}

static void gelu_underflows_to_negative_zero(void **state)
{
    (void)state;
    check_underflow(TV_FUNC_GELU, -13, -110);
    check_underflow(TV_FUNC_GELU_TANH, -5, -110);
}

static void silu_underflows_to_negative_zero(void **state)
{
    (void)state;
    check_underflow(TV_FUNC_SILU, -80, -760);
}

/* ---- Angles in binary64 ---- */

static void check_angle(tv_func func, double angle, unsigned *mismatches)
{
    uint32_t expected, actual = tv_f32_bits(tv_func_f32_of_angle(func, angle));
    expected = oracle(func, angle, &FORMAT_F32);
    if (actual != expected && (*mismatches)++ < PRINTED)
        print_error("%s(%a): expected %08x, got %08x\n", names[func], angle, expected, actual);
}

/* An angle with the given exponent. Some have 24 or 25 significant bits, or are next to such a number: where sin x
 * is nearly x, a number of 25 bits is nearly a tie. */
static double random_angle(unit_rng *rng, int exponent)
{
    uint64_t bits = unit_next(rng) >> 12;
    if (unit_below(rng, 2))
        bits = (bits & ~UINT64_C(0x1FFFFFFF)) + (unit_below(rng, 2) << 28) + unit_below(rng, 3) - 1;
    double x = ldexp(1 + ldexp((double)bits, -52), exponent);
    return unit_below(rng, 2) ? x : -x;
}

static void check_random_angles(void **state)
{
    tv_func func = *(const tv_func *)*state;
    unit_rng rng = {200 + (uint64_t)func};
    unsigned mismatches = 0;
    check_angle(func, 0, &mismatches);
    check_angle(func, -0.0, &mismatches);
    for (unsigned i = 0; i < RANDOM_INPUTS / unit_sample(); i++) {
        int exponent = i % 8 == 0  ? -1074 + (int)unit_below(&rng, 1104)
                       : i % 8 < 4 ? -40 + (int)unit_below(&rng, 40)
                                   : (int)unit_below(&rng, 30);
        check_angle(func, random_angle(&rng, exponent), &mismatches);
    }
    assert_int_equal(mismatches, 0);
}

static void check_tiny_angles(void **state)
{
    tv_func func = *(const tv_func *)*state;
    unit_rng rng = {300 + (uint64_t)func};
    unsigned mismatches = 0;
    for (int exponent = -155; exponent < -10; exponent++)
        for (unsigned i = 0; i < 100; i++)
            check_angle(func, random_angle(&rng, exponent), &mismatches);
    assert_int_equal(mismatches, 0);
}

/* The binary64 numbers next to multiples of pi / 2: the reduced angle is small. */
static void check_multiples_of_half_pi(void **state)
{
    tv_func func = *(const tv_func *)*state;
    unsigned mismatches = 0;
    for (uint64_t n = 1; n < UINT64_C(1) << 30; n += n < 4096 ? 1 : n / 257) {
        double angle = (double)n * 0x1.921fb54442d18p+0;
        check_angle(func, angle, &mismatches);
        check_angle(func, nextafter(angle, 0), &mismatches);
        check_angle(func, -nextafter(angle, INFINITY), &mismatches);
    }
    assert_int_equal(mismatches, 0);
}

static void special_values_are_those_of_the_specification(void **state)
{
    (void)state;
    const struct {
        tv_func func;
        float x;
        uint16_t y;
    } rows[] = {
        {TV_FUNC_EXP, -INFINITY, 0x0000},       {TV_FUNC_EXP, INFINITY, 0x7F80},
        {TV_FUNC_EXP, -0.0f, 0x3F80},           {TV_FUNC_SQRT, -1.0f, 0x7FC0},
        {TV_FUNC_SQRT, -INFINITY, 0x7FC0},      {TV_FUNC_SQRT, -0.0f, 0x8000},
        {TV_FUNC_SQRT, INFINITY, 0x7F80},       {TV_FUNC_GELU, -INFINITY, 0x8000},
        {TV_FUNC_GELU, INFINITY, 0x7F80},       {TV_FUNC_GELU, -0.0f, 0x8000},
        {TV_FUNC_SIN, INFINITY, 0x7FC0},        {TV_FUNC_COS, -INFINITY, 0x7FC0},
        {TV_FUNC_SIN, -0.0f, 0x8000},           {TV_FUNC_COS, 0.0f, 0x3F80},
        {TV_FUNC_RECIP, 0.0f, 0x7F80},          {TV_FUNC_RECIP, -0.0f, 0xFF80},
        {TV_FUNC_RECIP, -INFINITY, 0x8000},     {TV_FUNC_RECIP, 2.0f, 0x3F00},
        {TV_FUNC_RSQRT, 4.0f, 0x3F00},          {TV_FUNC_RSQRT, 0.0f, 0x7F80},
        {TV_FUNC_RSQRT, INFINITY, 0x0000},      {TV_FUNC_RSQRT, -1.0f, 0x7FC0},
        {TV_FUNC_RSQRT, -0.0f, 0xFF80},         {TV_FUNC_RSQRT, -INFINITY, 0x7FC0},
        {TV_FUNC_SILU, -INFINITY, 0x8000},      {TV_FUNC_SILU, INFINITY, 0x7F80},
        {TV_FUNC_SILU, -0.0f, 0x8000},          {TV_FUNC_SILU, 0.0f, 0x0000},
        {TV_FUNC_SILU, -3e38f, 0x8000},         {TV_FUNC_GELU_TANH, -3e38f, 0x8000},
        {TV_FUNC_GELU_TANH, -INFINITY, 0x8000}, {TV_FUNC_GELU_TANH, INFINITY, 0x7F80},
        {TV_FUNC_GELU_TANH, -0.0f, 0x8000},     {TV_FUNC_GELU, 0x1.FEp-126f, 0x0000}, /* 0x00FF: 2^-126 (1 - 2^-8) */
        {TV_FUNC_GELU, -0x1.FEp-126f, 0x8000},  {TV_FUNC_GELU, 0x1p-125f, 0x0080},
        {TV_FUNC_GELU, 0x1.FFp-126f, 0x0080}, /* 2^-126 (1 - 2^-9), slightly above the tie */
    };
    for (size_t i = 0; i < TV_COUNTOF(rows); i++)
        assert_int_equal(tv_func_bf16(rows[i].func, rows[i].x), rows[i].y);
    for (size_t i = 0; i < TV_COUNTOF(funcs); i++)
        assert_int_equal(tv_func_bf16(funcs[i], tv_f32_of_bits(0xFFA00001)), 0x7FC0);
}

/* ---- Powers ---- */

static void check_pow(float x, float y, unsigned *mismatches)
{
    mpfr_t exponent;
    mpfr_init2(exponent, 24);
    mpfr_set_prec(arg, 24);
    mpfr_set_flt(arg, x, MPFR_RNDN);
    mpfr_set_flt(exponent, y, MPFR_RNDN);
    mpfr_set_prec(result, FORMAT_F32.precision);
    oracle_fit(result, mpfr_pow(result, arg, exponent, MPFR_RNDN), &FORMAT_F32);
    uint32_t expected = oracle_encode(result, &FORMAT_F32), actual = tv_f32_bits(tv_func_pow_f32(x, y));
    if (mpfr_nan_p(result))
        expected = 0x7FC00000;
    if (actual != expected && (*mismatches)++ < PRINTED)
        print_error("pow(%a, %a): expected %08x, got %08x\n", (double)x, (double)y, expected, actual);
    mpfr_clear(exponent);
}

static void powers_are_rounded_once(void **state)
{
    (void)state;
    unit_rng rng = {400};
    unsigned mismatches = 0;
    for (unsigned i = 0; i < RANDOM_INPUTS / unit_sample(); i++) {
        uint32_t x = (uint32_t)unit_next(&rng), y = (uint32_t)unit_next(&rng);
        if (i % 4) /* results in range: 2^-16 to 2^16, to powers from 2^-8 to 2^8 */
            x = (x & 0x807FFFFF) | (uint32_t)(127 - 16 + unit_below(&rng, 32)) << 23,
            y = (y & 0x807FFFFF) | (uint32_t)(127 - 8 + unit_below(&rng, 12)) << 23;
        if (i % 4 == 2) /* few significant bits: exact results and ties */
            x &= 0xFF800000 | (0x7FFFFFu << unit_below(&rng, 23) & 0x7FFFFF);
        float exponent = i % 4 < 2 ? tv_f32_of_bits(y) : (float)((int)unit_below(&rng, 65) - 32) / (i % 8 < 4 ? 1 : 4);
        check_pow(tv_f32_of_bits(x), exponent, &mismatches);
    }
    assert_int_equal(mismatches, 0);
}

static void ties_of_powers_go_to_even(void **state)
{
    (void)state;
    unsigned mismatches = 0;
    for (unsigned n = 2; n <= 16; n++) /* odd numbers whose power has 24 to 26 bits */
        for (uint32_t x = 3; x < 1 << 13; x += 2) {
            double power = pow(x, n);
            if (power >= 0x1p23 && power < 0x1p26) {
                check_pow((float)x, (float)n, &mismatches);
                check_pow(-(float)x, (float)n, &mismatches);
            }
        }
    assert_int_equal(mismatches, 0);
}

static void powers_of_special_operands_are_those_of_ieee_754(void **state)
{
    (void)state;
    static const float values[] = {0,     -0.0f, 1,        -1,        2,      -2,        0.5f,
                                   -0.5f, 3,     -3,       1e38f,     1e-38f, 0x1p-149f, -0x1p-149f,
                                   2.5f,  -2.5f, INFINITY, -INFINITY, NAN,    16777215};
    unsigned mismatches = 0;
    for (unsigned i = 0; i < TV_COUNTOF(values); i++)
        for (unsigned k = 0; k < TV_COUNTOF(values); k++)
            check_pow(values[i], values[k], &mismatches);
    assert_int_equal(mismatches, 0);
}

#define CHECK(name, function, id)                                                                                      \
    {                                                                                                                  \
        name "_of_" #id, function, NULL, NULL, (void *)(uintptr_t)&funcs[TV_FUNC_##id]                                 \
    }

#define ANGLE_CHECKS(id)                                                                                               \
    CHECK("random_angles", check_random_angles, id), CHECK("tiny_angles", check_tiny_angles, id),                      \
        CHECK("multiples_of_half_pi", check_multiples_of_half_pi, id)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_values_are_those_of_the_specification),
        cmocka_unit_test(gelu_underflows_to_negative_zero),
        cmocka_unit_test(results_around_the_smallest_normal_bf16_are_flushed_after_rounding),
        cmocka_unit_test(silu_underflows_to_negative_zero),
        cmocka_unit_test(powers_are_rounded_once),
        cmocka_unit_test(ties_of_powers_go_to_even),
        cmocka_unit_test(powers_of_special_operands_are_those_of_ieee_754),
#define TV_FUNC(id, value, wide, known, bound, mpfr)                                                                   \
    CHECK("every_bf16_input", check_every_bf16, id), CHECK("every_exponent", check_edges_f32, id),                     \
        CHECK("random_f32_inputs", check_random_f32, id),
#include "num/func.def"
#undef TV_FUNC
        ANGLE_CHECKS(SIN),
        ANGLE_CHECKS(COS),
    };
    mpfr_inits2(64, arg, result, low, high, (mpfr_ptr)NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mpfr_clears(arg, result, low, high, (mpfr_ptr)NULL);
    mpfr_free_cache();
    return failed;
}
