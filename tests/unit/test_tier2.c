/* SPDX-License-Identifier: Apache-2.0 */
/* Tier 2 arithmetic against exact rationals (GMP): every result is computed without error and rounded here, to the
 * format's quantum (gradually below the least normal number); only then a subnormal becomes zero and an overflow the
 * largest.
 *
 * Each exact result is rounded in all four modes. */
#include "unit.h"

#include <gmp.h>

#include "num/tier2.h"

enum { RANDOM_CASES = 120000, MODES = 4 };

/* ---- The oracle ---- */

typedef struct target {
    int man, emin;
    uint32_t largest;
    unsigned sign_bit;
} target;

static const target F32 = {23, -126, 0x7F7FFFFF, 31}, BF16 = {7, -126, 0x7F7F, 15},
                    BF8[2] = {{3, -6, 0x7E, 7}, {2, -14, 0x7B, 7}};
static const char *const mode_names[MODES] = {"nearest", "zero", "floor", "ceil"};

static mpz_t num, den, quotient, rest;
static mpq_t exact, term, third;

static int setup(void **state)
{
    (void)state;
    mpz_inits(num, den, quotient, rest, NULL);
    mpq_inits(exact, term, third, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mpz_clears(num, den, quotient, rest, NULL);
    mpq_clears(exact, term, third, NULL);
    return 0;
}

/* quotient, and whether to add one to it: |x| / 2^shift, cut and rounded. */
static bool divide(const mpq_t x, long shift, unsigned mode)
{
    bool negative = mpq_sgn(x) < 0;
    mpz_abs(num, mpq_numref(x));
    mpz_set(den, mpq_denref(x));
    if (shift >= 0)
        mpz_mul_2exp(den, den, (mp_bitcnt_t)shift);
    else
        mpz_mul_2exp(num, num, (mp_bitcnt_t)-shift);
    mpz_fdiv_qr(quotient, rest, num, den);
    if (mpz_sgn(rest) == 0)
        return false;
    switch (mode) {
    case TV_ROUND_ZERO:
        return false;
    case TV_ROUND_FLOOR:
        return negative;
    case TV_ROUND_CEIL:
        return !negative;
    default:
        break;
    }
    mpz_mul_2exp(rest, rest, 1);
    int half = mpz_cmp(rest, den);
    return half > 0 || (half == 0 && mpz_odd_p(quotient));
}

/* Nonzero x. */
static uint32_t to_format(const mpq_t x, const target *t, unsigned mode)
{
    mpz_abs(num, mpq_numref(x));
    long e = (long)mpz_sizeinbase(num, 2) - (long)mpz_sizeinbase(mpq_denref(x), 2);
    mpz_set(den, mpq_denref(x));
    if (e >= 0)
        mpz_mul_2exp(den, den, (mp_bitcnt_t)e);
    else
        mpz_mul_2exp(num, num, (mp_bitcnt_t)-e);
    if (mpz_cmp(num, den) < 0)
        e--;
    if (e < t->emin)
        e = t->emin;
    bool up = divide(x, e - t->man, mode);
    uint64_t kept = mpz_get_ui(quotient) + up;
    uint64_t code = ((uint64_t)(e - t->emin) << t->man) + kept;
    if (code >> t->man == 0)
        code = 0;
    if (code > t->largest)
        code = t->largest;
    return (uint32_t)code | (mpq_sgn(x) < 0 ? UINT32_C(1) << t->sign_bit : 0);
}

/* What counts as zero keeps its sign. */
static uint32_t flushed(uint32_t a)
{
    uint32_t exponent = a >> 23 & 0xFF;
    return exponent == 0 || exponent == 0xFF ? a & 0x80000000 : a;
}

static bool is_zero(uint32_t a) { return flushed(a) << 1 == 0; }

static void set_value(mpq_t x, uint32_t a)
{
    float f;
    a = flushed(a);
    memcpy(&f, &a, sizeof f);
    mpq_set_d(x, (double)f);
}

static uint32_t bits_of(double x)
{
    float f = (float)x;
    uint32_t a;
    memcpy(&a, &f, sizeof a);
    return a;
}

/* ---- Inputs ---- */

static const uint32_t corners[] = {
    0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000, 0x0C000000,
    0x20000000, 0x1FFFFFFF, 0x33800000, 0x34000000, 0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001,
    0x3FC00000, 0x40000000, 0x4B000001, 0x4B800000, 0x5F7FFFFF, 0x5F800000, 0x73000000, 0x7F000000,
    0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF,
};
enum { CORNERS = 2 * TV_COUNTOF(corners) };

static uint32_t corner(uint64_t i) { return corners[i / 2] | (i & 1 ? 0x80000000 : 0); }

static uint32_t make(unit_rng *rng, int exponent)
{
    uint64_t r = unit_next(rng);
    uint32_t man = (uint32_t)(r >> 8 & 0x7FFFFF);
    if (r & 1) /* few significant bits: ties */
        man &= (uint32_t)(UINT32_C(0x7FFFFF) << (r >> 40) % 24);
    if ((r & 14) == 2)
        man = 0x7FFFFF - (uint32_t)(r >> 50 & 3);
    exponent = exponent < 0 ? 0 : exponent > 255 ? 255 : exponent;
    return (uint32_t)(r >> 32 & 0x80000000) | (uint32_t)exponent << 23 | man;
}

static int near(unit_rng *rng, int centre, unsigned width)
{
    return centre + (int)unit_below(rng, 2 * width + 1) - (int)width;
}

/* a, b for a sum: any, close, far by about a significand, cancelling, at either end of the exponents. */
static void sum_case(unit_rng *rng, uint32_t *a, uint32_t *b)
{
    int e = (int)unit_below(rng, 256);
    switch (unit_below(rng, 8)) {
    case 0:
        *a = (uint32_t)unit_next(rng), *b = (uint32_t)unit_next(rng);
        break;
    case 1:
        *a = make(rng, e), *b = make(rng, near(rng, e, 3));
        break;
    case 2:
        *a = make(rng, e), *b = make(rng, near(rng, e - 24, 3));
        break;
    case 3:
        *a = make(rng, e), *b = (*a ^ 0x80000000) + (uint32_t)unit_below(rng, 5) - 2;
        break;
    case 4:
        *a = make(rng, near(rng, 253, 2)), *b = make(rng, near(rng, 253, 2));
        break;
    case 5:
        *a = make(rng, near(rng, 3, 3)), *b = make(rng, near(rng, 3, 3));
        break;
    case 6:
        *a = make(rng, near(rng, 253, 1)), *b = make(rng, near(rng, 229, 2));
        break;
    default:
        *a = corner(unit_below(rng, CORNERS)), *b = make(rng, near(rng, (int)(*a >> 23 & 0xFF), 25));
        break;
    }
}

static void product_case(unit_rng *rng, uint32_t *a, uint32_t *b)
{
    int e = (int)unit_below(rng, 256);
    *a = make(rng, e);
    switch (unit_below(rng, 6)) {
    case 0:
        *b = (uint32_t)unit_next(rng);
        break;
    case 1:
        *b = make(rng, near(rng, 127 + 254 - e, 2));
        break; /* overflow */
    case 2:
        *b = make(rng, near(rng, 127 + 1 - e, 2));
        break; /* the least normal number */
    case 3:
        *b = make(rng, near(rng, 127 - 12 - e, 14));
        break; /* where subnormals would be */
    case 4:
        *b = make(rng, near(rng, 127, 20));
        break;
    default:
        *b = corner(unit_below(rng, CORNERS));
        break;
    }
}

static void fma_case(unit_rng *rng, uint32_t *a, uint32_t *b, uint32_t *c)
{
    if (unit_below(rng, 4) == 0) {
        sum_case(rng, b, c);
        *a = unit_below(rng, 2) ? 0x3F800000 : make(rng, near(rng, 127, 2));
        return;
    }
    product_case(rng, a, b);
    int e = (int)(*a >> 23 & 0xFF) + (int)(*b >> 23 & 0xFF) - 127;
    switch (unit_below(rng, 6)) {
    case 0:
        *c = (uint32_t)unit_next(rng);
        break;
    case 1:
        *c = make(rng, near(rng, e, 3));
        break;
    case 2:
        *c = make(rng, near(rng, e + 24, 4));
        break;
    case 3:
        *c = make(rng, near(rng, e - 24, 26));
        break;
    case 4: /* what remains of a product when its rounded self is taken away */
        set_value(exact, *a);
        set_value(term, *b);
        mpq_mul(exact, exact, term);
        *c = mpq_sgn(exact) == 0 ? 0 : (to_format(exact, &F32, 0) ^ 0x80000000) + (uint32_t)unit_below(rng, 3) - 1;
        break;
    default:
        *c = corner(unit_below(rng, CORNERS));
        break;
    }
}

/* ---- Add, multiply, fused multiply-add ---- */

/* `exact` is a sum; `alike`: of two zeros of the sign `negative`. */
static uint32_t expected_sum(bool zeros_alike, bool negative, unsigned mode)
{
    if (mpq_sgn(exact) != 0)
        return to_format(exact, &F32, mode);
    bool minus = zeros_alike ? negative : mode == TV_ROUND_FLOOR;
    return minus ? 0x80000000 : 0;
}

static void check_add(uint32_t a, uint32_t b)
{
    set_value(exact, a);
    set_value(term, b);
    mpq_add(exact, exact, term);
    bool alike = is_zero(a) && is_zero(b) && !((a ^ b) >> 31);
    for (unsigned mode = 0; mode < MODES; mode++) {
        uint32_t want = expected_sum(alike, a >> 31, mode), got = tv_tier2_add(a, b, (tv_round)mode);
        if (got != want)
            fail_msg("%08x + %08x (%s) = %08x, not %08x", a, b, mode_names[mode], want, got);
    }
}

static void check_mul(uint32_t a, uint32_t b)
{
    set_value(exact, a);
    set_value(term, b);
    mpq_mul(exact, exact, term);
    for (unsigned mode = 0; mode < MODES; mode++) {
        uint32_t want = mpq_sgn(exact) ? to_format(exact, &F32, mode) : (a ^ b) & 0x80000000;
        uint32_t got = tv_tier2_mul(a, b, (tv_round)mode);
        if (got != want)
            fail_msg("%08x * %08x (%s) = %08x, not %08x", a, b, mode_names[mode], want, got);
    }
}

static void check_fma(uint32_t a, uint32_t b, uint32_t c)
{
    set_value(exact, a);
    set_value(term, b);
    set_value(third, c);
    mpq_mul(exact, exact, term);
    bool alike = mpq_sgn(exact) == 0 && is_zero(c) && !((a ^ b ^ c) >> 31);
    mpq_add(exact, exact, third);
    for (unsigned mode = 0; mode < MODES; mode++) {
        uint32_t want = expected_sum(alike, c >> 31, mode), got = tv_tier2_fma(a, b, c, (tv_round)mode);
        if (got != want)
            fail_msg("%08x * %08x + %08x (%s) = %08x, not %08x", a, b, c, mode_names[mode], want, got);
    }
}

static void sums_are_exact_sums_rounded(void **state)
{
    (void)state;
    unit_rng rng = {101};
    for (unsigned i = 0; i < CORNERS * CORNERS; i++)
        check_add(corner(i % CORNERS), corner(i / CORNERS));
    for (unsigned n = 0; n < RANDOM_CASES; n++) {
        uint32_t a, b;
        sum_case(&rng, &a, &b);
        check_add(a, b);
    }
}

static void products_are_exact_products_rounded(void **state)
{
    (void)state;
    unit_rng rng = {102};
    for (unsigned i = 0; i < CORNERS * CORNERS; i++)
        check_mul(corner(i % CORNERS), corner(i / CORNERS));
    for (unsigned n = 0; n < RANDOM_CASES; n++) {
        uint32_t a, b;
        product_case(&rng, &a, &b);
        check_mul(a, b);
    }
}

static void fused_sums_are_rounded_once(void **state)
{
    (void)state;
    unit_rng rng = {103};
    for (unsigned i = 0; i < CORNERS * CORNERS * CORNERS; i++)
        check_fma(corner(i % CORNERS), corner(i / CORNERS % CORNERS), corner(i / CORNERS / CORNERS));
    for (unsigned n = 0; n < RANDOM_CASES; n++) {
        uint32_t a, b, c;
        fma_case(&rng, &a, &b, &c);
        check_fma(a, b, c);
    }
}

/* ---- Maximum and minimum ---- */

static void check_max_min(uint32_t a, uint32_t b)
{
    set_value(exact, a);
    set_value(term, b);
    int order = mpq_cmp(exact, term);
    if (order == 0) /* +0 above -0 */
        order = (int)(b >> 31) - (int)(a >> 31);
    uint32_t larger = flushed(order >= 0 ? a : b), smaller = flushed(order >= 0 ? b : a);
    if (tv_tier2_max(a, b) != larger || tv_tier2_min(a, b) != smaller)
        fail_msg("max, min of %08x, %08x: %08x, %08x, not %08x, %08x", a, b, larger, smaller, tv_tier2_max(a, b),
                 tv_tier2_min(a, b));
}

static void max_and_min_compare_by_value_and_sign_of_zero(void **state)
{
    (void)state;
    unit_rng rng = {104};
    for (unsigned i = 0; i < CORNERS * CORNERS; i++)
        check_max_min(corner(i % CORNERS), corner(i / CORNERS));
    for (unsigned n = 0; n < RANDOM_CASES; n++) {
        uint32_t a, b;
        sum_case(&rng, &a, &b);
        check_max_min(a, n & 1 ? b : b ^ 0x80000000);
    }
}

/* ---- Integers ---- */

static void check_from_s32(int32_t x)
{
    mpq_set_si(exact, x, 1);
    for (unsigned mode = 0; mode < MODES; mode++) {
        uint32_t want = x ? to_format(exact, &F32, mode) : 0, got = tv_tier2_from_s32(x, (tv_round)mode);
        if (got != want)
            fail_msg("%d (%s) is %08x, not %08x", x, mode_names[mode], want, got);
    }
}

static void integers_round_to_f32(void **state)
{
    (void)state;
    unit_rng rng = {105};
    for (unsigned shift = 0; shift < 32; shift++)
        for (int64_t d = -300; d <= 300; d++) {
            check_from_s32((int32_t)(uint32_t)((INT64_C(1) << shift) + d));
            check_from_s32((int32_t)(uint32_t)(-(INT64_C(1) << shift) + d));
        }
    for (unsigned n = 0; n < RANDOM_CASES; n++) {
        uint32_t x = (uint32_t)unit_sized(&rng, 32);
        if (n & 1)
            x &= UINT32_MAX << unit_below(&rng, 32);
        check_from_s32((int32_t)(n & 2 ? 0 - x : x));
    }
}

static void check_to_int(uint32_t a)
{
    static const unsigned widths[] = {8, 16, 32};
    set_value(exact, a);
    for (unsigned mode = 0; mode < MODES; mode++) {
        bool up = divide(exact, 0, mode);
        mpz_add_ui(quotient, quotient, up);
        if (mpq_sgn(exact) < 0)
            mpz_neg(quotient, quotient);
        for (size_t w = 0; w < TV_COUNTOF(widths); w++) {
            int64_t high = (INT64_C(1) << (widths[w] - 1)) - 1, low = -high - 1;
            mpz_fdiv_r_2exp(rest, quotient, widths[w]);
            int64_t wrapped = (int64_t)mpz_get_ui(rest);
            if (wrapped > high)
                wrapped -= 2 * (high + 1);
            int64_t clamped = mpz_cmp_si(quotient, high) > 0  ? high
                              : mpz_cmp_si(quotient, low) < 0 ? low
                                                              : mpz_get_si(quotient);
            for (unsigned sat = 0; sat < 2; sat++) {
                int64_t want = sat ? clamped : wrapped, got = tv_tier2_to_int(a, widths[w], sat, (tv_round)mode);
                if (got != want)
                    fail_msg("%08x to s%u (%s, saturate %u) is %lld, not %lld", a, widths[w], mode_names[mode], sat,
                             (long long)want, (long long)got);
            }
        }
    }
}

static void f32_rounds_to_integers(void **state)
{
    (void)state;
    unit_rng rng = {106};
    for (unsigned i = 0; i < CORNERS; i++)
        check_to_int(corner(i));
    for (int quarter = -4 * 600; quarter <= 4 * 600; quarter++) { /* every tie and both ends of s8 */
        uint32_t a = bits_of(quarter / 4.0);
        check_to_int(a);
        check_to_int(a + 1);
        if (a << 1)
            check_to_int(a - 1);
    }
    static const double ends[] = {32767,      32767.5,    32768,      32768.5,   2147483520,
                                  2147483648, 4294967040, 4294967296, 8388607.5, 8388608};
    for (size_t i = 0; i < TV_COUNTOF(ends); i++)
        for (uint32_t d = 0; d < 7; d++) {
            check_to_int(bits_of(ends[i]) + d - 3);
            check_to_int(bits_of(-ends[i]) + d - 3);
        }
    for (unsigned n = 0; n < RANDOM_CASES / 2; n++)
        check_to_int(n & 7 ? make(&rng, near(&rng, 142, 22)) : (uint32_t)unit_next(&rng));
}

/* ---- Narrow formats ---- */

static void every_bf16_widens(void **state)
{
    (void)state;
    for (uint32_t x = 0; x < 65536; x++)
        if (tv_tier2_from_bf16((uint16_t)x) != flushed(x << 16))
            fail_msg("bf16 %04x is %08x, not %08x", x, flushed(x << 16), tv_tier2_from_bf16((uint16_t)x));
}

static void check_narrow(uint32_t a, const target *t, unsigned which)
{
    set_value(exact, a);
    for (unsigned mode = 0; mode < MODES; mode++) {
        uint32_t want = mpq_sgn(exact) ? to_format(exact, t, mode) : a >> 31 << t->sign_bit;
        uint32_t got =
            which == 2 ? tv_tier2_to_bf16(a, (tv_round)mode) : tv_tier2_to_bf8(a, which == 1, (tv_round)mode);
        if (got != want)
            fail_msg("%08x to %s (%s) is %x, not %x", a,
                     which == 2 ? "bf16"
                     : which    ? "e5m2"
                                : "e4m3",
                     mode_names[mode], want, got);
    }
}

static void f32_rounds_to_bf16_at_every_boundary(void **state)
{
    (void)state;
    for (uint32_t x = 0; x < 65536; x++)
        for (uint32_t d = 0; d < 3; d++) {
            check_narrow((x << 16) + d - 1, &BF16, 2);
            check_narrow((x << 16 | 0x8000) + d - 1, &BF16, 2);
        }
}

/* The value of a BF8 code by the OCP definition, gradual subnormals included; the format's special codes are read as
 * numbers, which gives the boundaries above the largest. */
static double bf8_value(uint32_t magnitude, unsigned e5m2)
{
    int man = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7;
    int exponent = (int)(magnitude >> man), fraction = (int)(magnitude & ((1u << man) - 1));
    double value = exponent ? fraction + (1 << man) : fraction;
    int scale = (exponent ? exponent : 1) - bias - man;
    for (; scale > 0; scale--)
        value *= 2;
    for (; scale < 0; scale++)
        value /= 2;
    return value;
}

static void every_bf8_widens(void **state)
{
    (void)state;
    for (unsigned e5m2 = 0; e5m2 < 2; e5m2++)
        for (uint32_t x = 0; x < 256; x++) {
            uint32_t m = x & 0x7F;
            bool zero = m >> BF8[e5m2].man == 0 || m > BF8[e5m2].largest;
            uint32_t want = (zero ? 0 : bits_of(bf8_value(m, e5m2))) | (x & 0x80) << 24;
            uint32_t got = tv_tier2_from_bf8((uint8_t)x, e5m2);
            if (got != want)
                fail_msg("bf8 %02x (e5m2 %u) is %08x, not %08x", x, e5m2, want, got);
        }
    assert_int_equal(tv_tier2_from_bf8(0x7E, false), bits_of(448));
    assert_int_equal(tv_tier2_from_bf8(0x7B, true), bits_of(57344));
}

static void f32_rounds_to_bf8_at_every_boundary(void **state)
{
    (void)state;
    unit_rng rng = {107};
    for (unsigned e5m2 = 0; e5m2 < 2; e5m2++) {
        for (uint32_t m = 0; m < 127; m++) {
            double low = bf8_value(m, e5m2), high = bf8_value(m + 1, e5m2);
            const double at[] = {low, (low + high) / 2, high, (3 * low + high) / 4};
            for (size_t i = 0; i < TV_COUNTOF(at); i++)
                for (uint32_t d = 0; d < 5; d++) {
                    check_narrow(bits_of(at[i]) + d - 2, &BF8[e5m2], e5m2);
                    check_narrow((bits_of(at[i]) + d - 2) ^ 0x80000000, &BF8[e5m2], e5m2);
                }
        }
        for (unsigned i = 0; i < CORNERS; i++)
            check_narrow(corner(i), &BF8[e5m2], e5m2);
        for (unsigned n = 0; n < RANDOM_CASES / 4; n++)
            check_narrow(n & 3 ? make(&rng, near(&rng, 127, 20)) : (uint32_t)unit_next(&rng), &BF8[e5m2], e5m2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact_sums_rounded),
        cmocka_unit_test(products_are_exact_products_rounded),
        cmocka_unit_test(fused_sums_are_rounded_once),
        cmocka_unit_test(max_and_min_compare_by_value_and_sign_of_zero),
        cmocka_unit_test(integers_round_to_f32),
        cmocka_unit_test(f32_rounds_to_integers),
        cmocka_unit_test(every_bf16_widens),
        cmocka_unit_test(f32_rounds_to_bf16_at_every_boundary),
        cmocka_unit_test(every_bf8_widens),
        cmocka_unit_test(f32_rounds_to_bf8_at_every_boundary),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
