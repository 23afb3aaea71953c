/* SPDX-License-Identifier: Apache-2.0 */
/* Compares Tier 2 arithmetic with exact rationals (GMP). Each result is computed exactly and rounded to the precision
 * of the format in all four modes, with unbounded exponent; only then numbers below the smallest normal one become zero
 * and overflow the largest finite number. */
#include "unit.h"

#include <gmp.h>

#include "num/tier2.h"

enum { RANDOM_CASES = 120000, MODES = 4 };

/* ---- The oracle ---- */

typedef struct target {
    int man, emin;
    uint32_t max_code;
    unsigned sign_bit;
} target;

static const target F32 = {23, -126, 0x7F7FFFFF, 31}, BF16 = {7, -126, 0x7F7F, 15},
                    BF8[2] = {{3, -6, 0x7E, 7}, {2, -14, 0x7B, 7}};
static const char *const mode_names[MODES] = {"nearest", "zero", "floor", "ceil"};

static mpz_t num, den, quotient, rest;
static mpq_t exact, term, addend;

static int setup(void **state)
{
    (void)state;
    mpz_inits(num, den, quotient, rest, NULL);
    mpq_inits(exact, term, addend, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mpz_clears(num, den, quotient, rest, NULL);
    mpq_clears(exact, term, addend, NULL);
    return 0;
}

/* quotient = |x| / 2^shift, truncated. Returns whether rounding adds one to it. */
static bool divide_rounded(const mpq_t x, long shift, unsigned mode)
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

/* The code of x, which is not zero, in the format. */
static uint32_t round_to_format(const mpq_t x, const target *t, unsigned mode)
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
    bool up = divide_rounded(x, e - t->man, mode);
    uint64_t kept = mpz_get_ui(quotient) + up;
    if (kept >> (t->man + 1)) {
        kept >>= 1;
        e++;
    }
    uint64_t code = e < t->emin ? 0 : ((uint64_t)(e - t->emin) << t->man) + kept;
    if (code > t->max_code)
        code = t->max_code;
    return (uint32_t)code | (mpq_sgn(x) < 0 ? UINT32_C(1) << t->sign_bit : 0);
}

/* Subnormals, infinities and NaNs become the zero of their sign. */
static uint32_t flush(uint32_t a)
{
    uint32_t exponent = a >> 23 & 0xFF;
    return exponent == 0 || exponent == 0xFF ? a & 0x80000000 : a;
}

static bool is_zero(uint32_t a) { return flush(a) << 1 == 0; }

static void set_exact(mpq_t x, uint32_t a)
{
    float f;
    a = flush(a);
    memcpy(&f, &a, sizeof f);
    mpq_set_d(x, (double)f);
}

static uint32_t float_bits(double x)
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

static uint32_t corner_float(uint64_t i) { return corners[i / 2] | (i & 1 ? 0x80000000 : 0); }

static uint32_t random_float(unit_rng *rng, int exponent)
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

static int random_near(unit_rng *rng, int centre, unsigned width)
{
    return centre + (int)unit_below(rng, 2 * width + 1) - (int)width;
}

/* Addends: random, close, apart by about the precision, canceling, or at either end of the exponent range. */
static void generate_sum(unit_rng *rng, uint32_t *a, uint32_t *b)
{
    int e = (int)unit_below(rng, 256);
    switch (unit_below(rng, 8)) {
    case 0:
        *a = (uint32_t)unit_next(rng), *b = (uint32_t)unit_next(rng);
        break;
    case 1:
        *a = random_float(rng, e), *b = random_float(rng, random_near(rng, e, 3));
        break;
    case 2:
        *a = random_float(rng, e), *b = random_float(rng, random_near(rng, e - 24, 3));
        break;
    case 3:
        *a = random_float(rng, e), *b = (*a ^ 0x80000000) + (uint32_t)unit_below(rng, 5) - 2;
        break;
    case 4:
        *a = random_float(rng, random_near(rng, 253, 2)), *b = random_float(rng, random_near(rng, 253, 2));
        break;
    case 5:
        *a = random_float(rng, random_near(rng, 3, 3)), *b = random_float(rng, random_near(rng, 3, 3));
        break;
    case 6:
        *a = random_float(rng, random_near(rng, 253, 1)), *b = random_float(rng, random_near(rng, 229, 2));
        break;
    default:
        *a = corner_float(unit_below(rng, CORNERS)),
        *b = random_float(rng, random_near(rng, (int)(*a >> 23 & 0xFF), 25));
        break;
    }
}

static void generate_product(unit_rng *rng, uint32_t *a, uint32_t *b)
{
    int e = (int)unit_below(rng, 256);
    *a = random_float(rng, e);
    switch (unit_below(rng, 6)) {
    case 0:
        *b = (uint32_t)unit_next(rng);
        break;
    case 1:
        *b = random_float(rng, random_near(rng, 127 + 254 - e, 2));
        break; /* overflow */
    case 2:
        *b = random_float(rng, random_near(rng, 127 + 1 - e, 2));
        break; /* near the smallest normal number */
    case 3:
        *b = random_float(rng, random_near(rng, 127 - 12 - e, 14));
        break; /* in the subnormal range */
    case 4:
        *b = random_float(rng, random_near(rng, 127, 20));
        break;
    default:
        *b = corner_float(unit_below(rng, CORNERS));
        break;
    }
}

static void generate_fma(unit_rng *rng, uint32_t *a, uint32_t *b, uint32_t *c)
{
    if (unit_below(rng, 4) == 0) {
        generate_sum(rng, b, c);
        *a = unit_below(rng, 2) ? 0x3F800000 : random_float(rng, random_near(rng, 127, 2));
        return;
    }
    generate_product(rng, a, b);
    int e = (int)(*a >> 23 & 0xFF) + (int)(*b >> 23 & 0xFF) - 127;
    switch (unit_below(rng, 6)) {
    case 0:
        *c = (uint32_t)unit_next(rng);
        break;
    case 1:
        *c = random_float(rng, random_near(rng, e, 3));
        break;
    case 2:
        *c = random_float(rng, random_near(rng, e + 24, 4));
        break;
    case 3:
        *c = random_float(rng, random_near(rng, e - 24, 26));
        break;
    case 4: /* the rounding error of the product */
        set_exact(exact, *a);
        set_exact(term, *b);
        mpq_mul(exact, exact, term);
        *c =
            mpq_sgn(exact) == 0 ? 0 : (round_to_format(exact, &F32, 0) ^ 0x80000000) + (uint32_t)unit_below(rng, 3) - 1;
        break;
    default:
        *c = corner_float(unit_below(rng, CORNERS));
        break;
    }
}

/* ---- Add, multiply, fused multiply-add ---- */

/* The rounded sum in `exact`; `zeros_alike`: it is the sum of two zeros of the sign `negative`. */
static uint32_t expected_sum(bool zeros_alike, bool negative, unsigned mode)
{
    if (mpq_sgn(exact) != 0)
        return round_to_format(exact, &F32, mode);
    bool minus = zeros_alike ? negative : mode == TV_ROUND_FLOOR;
    return minus ? 0x80000000 : 0;
}

static void check_add(uint32_t a, uint32_t b)
{
    set_exact(exact, a);
    set_exact(term, b);
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
    set_exact(exact, a);
    set_exact(term, b);
    mpq_mul(exact, exact, term);
    for (unsigned mode = 0; mode < MODES; mode++) {
        uint32_t want = mpq_sgn(exact) ? round_to_format(exact, &F32, mode) : (a ^ b) & 0x80000000;
        uint32_t got = tv_tier2_mul(a, b, (tv_round)mode);
        if (got != want)
            fail_msg("%08x * %08x (%s) = %08x, not %08x", a, b, mode_names[mode], want, got);
    }
}

static void check_fma(uint32_t a, uint32_t b, uint32_t c)
{
    set_exact(exact, a);
    set_exact(term, b);
    set_exact(addend, c);
    mpq_mul(exact, exact, term);
    bool alike = mpq_sgn(exact) == 0 && is_zero(c) && !((a ^ b ^ c) >> 31);
    mpq_add(exact, exact, addend);
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
        check_add(corner_float(i % CORNERS), corner_float(i / CORNERS));
    for (unsigned n = 0; n < RANDOM_CASES; n++) {
        uint32_t a, b;
        generate_sum(&rng, &a, &b);
        check_add(a, b);
    }
}

/* Results that only the grid of subnormals would round up to the smallest normal number are zero; by hand. */
static void tiny_results_are_zero(void **state)
{
    (void)state;
    enum { MIN = 0x00800000 };
    /* (1 - 2^-24) * 2^-126 has 24 significant bits, so no mode rounds it. */
    for (unsigned mode = 0; mode < MODES; mode++) {
        assert_int_equal(tv_tier2_mul(0x3F7FFFFF, MIN, (tv_round)mode), 0);
        assert_int_equal(tv_tier2_mul(0xBF7FFFFF, MIN, (tv_round)mode), 0x80000000);
        assert_int_equal(tv_tier2_fma(0x3F7FFFFF, MIN, 0, (tv_round)mode), 0);
    }
    /* (1 + 2^-23) * (1 - 2^-23) * 2^-126 = (1 - 2^-46) * 2^-126 rounds to 2^-126 with 24 bits, too. */
    assert_int_equal(tv_tier2_mul(0x00800001, 0x3F7FFFFE, TV_ROUND_NEAREST), MIN);
    assert_int_equal(tv_tier2_mul(0x00800001, 0x3F7FFFFE, TV_ROUND_CEIL), MIN);
    assert_int_equal(tv_tier2_mul(0x00800001, 0x3F7FFFFE, TV_ROUND_ZERO), 0);
    /* E4M3: 15/16 of 2^-6 has four significant bits; 31/32 is a tie, of which 1 is even. E5M2: likewise 7/8 of 2^-14.
     */
    for (unsigned mode = 0; mode < MODES; mode++) {
        assert_int_equal(tv_tier2_to_bf8(0x3C700000, false, (tv_round)mode), 0);
        assert_int_equal(tv_tier2_to_bf8(0x38600000, true, (tv_round)mode), 0);
    }
    assert_int_equal(tv_tier2_to_bf8(0x3C780000, false, TV_ROUND_NEAREST), 0x08);
    assert_int_equal(tv_tier2_to_bf8(0x3C780000, false, TV_ROUND_FLOOR), 0);
    assert_int_equal(tv_tier2_to_bf8(0x3C740000, false, TV_ROUND_NEAREST), 0);
    assert_int_equal(tv_tier2_to_bf8(0x3C740000, false, TV_ROUND_CEIL), 0x08);
    /* BF16 has FP32's smallest normal number: nothing that is read as a number is below it. */
    assert_int_equal(tv_tier2_to_bf16(0x00800000, TV_ROUND_NEAREST), 0x0080);
    assert_int_equal(tv_tier2_to_bf16(0x007FFFFF, TV_ROUND_CEIL), 0);
}

static void products_are_exact_products_rounded(void **state)
{
    (void)state;
    unit_rng rng = {102};
    for (unsigned i = 0; i < CORNERS * CORNERS; i++)
        check_mul(corner_float(i % CORNERS), corner_float(i / CORNERS));
    for (unsigned n = 0; n < RANDOM_CASES; n++) {
        uint32_t a, b;
        generate_product(&rng, &a, &b);
        check_mul(a, b);
    }
}

static void fused_sums_are_rounded_once(void **state)
{
    (void)state;
    unit_rng rng = {103};
    for (unsigned i = 0; i < CORNERS * CORNERS * CORNERS; i++)
        check_fma(corner_float(i % CORNERS), corner_float(i / CORNERS % CORNERS), corner_float(i / CORNERS / CORNERS));
    for (unsigned n = 0; n < RANDOM_CASES; n++) {
        uint32_t a, b, c;
        generate_fma(&rng, &a, &b, &c);
        check_fma(a, b, c);
    }
}

/* ---- Maximum and minimum ---- */

static void check_max_min(uint32_t a, uint32_t b)
{
    set_exact(exact, a);
    set_exact(term, b);
    int order = mpq_cmp(exact, term);
    if (order == 0) /* +0 above -0 */
        order = (int)(b >> 31) - (int)(a >> 31);
    uint32_t larger = flush(order >= 0 ? a : b), smaller = flush(order >= 0 ? b : a);
    if (tv_tier2_max(a, b) != larger || tv_tier2_min(a, b) != smaller)
        fail_msg("max, min of %08x, %08x: %08x, %08x, not %08x, %08x", a, b, larger, smaller, tv_tier2_max(a, b),
                 tv_tier2_min(a, b));
}

static void max_and_min_compare_by_value_and_sign_of_zero(void **state)
{
    (void)state;
    unit_rng rng = {104};
    for (unsigned i = 0; i < CORNERS * CORNERS; i++)
        check_max_min(corner_float(i % CORNERS), corner_float(i / CORNERS));
    for (unsigned n = 0; n < RANDOM_CASES; n++) {
        uint32_t a, b;
        generate_sum(&rng, &a, &b);
        check_max_min(a, n & 1 ? b : b ^ 0x80000000);
    }
}

/* ---- Integers ---- */

static void check_from_s32(int32_t x)
{
    mpq_set_si(exact, x, 1);
    for (unsigned mode = 0; mode < MODES; mode++) {
        uint32_t want = x ? round_to_format(exact, &F32, mode) : 0, got = tv_tier2_from_s32(x, (tv_round)mode);
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
    set_exact(exact, a);
    for (unsigned mode = 0; mode < MODES; mode++) {
        bool up = divide_rounded(exact, 0, mode);
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
        check_to_int(corner_float(i));
    for (int quarter = -4 * 600; quarter <= 4 * 600; quarter++) { /* every tie and both ends of s8 */
        uint32_t a = float_bits(quarter / 4.0);
        check_to_int(a);
        check_to_int(a + 1);
        if (a << 1)
            check_to_int(a - 1);
    }
    static const double ends[] = {32767,      32767.5,    32768,      32768.5,   2147483520,
                                  2147483648, 4294967040, 4294967296, 8388607.5, 8388608};
    for (size_t i = 0; i < TV_COUNTOF(ends); i++)
        for (uint32_t d = 0; d < 7; d++) {
            check_to_int(float_bits(ends[i]) + d - 3);
            check_to_int(float_bits(-ends[i]) + d - 3);
        }
    for (unsigned n = 0; n < RANDOM_CASES / 2; n++)
        check_to_int(n & 7 ? random_float(&rng, random_near(&rng, 142, 22)) : (uint32_t)unit_next(&rng));
}

/* ---- Narrow formats ---- */

static void every_bf16_widens(void **state)
{
    (void)state;
    for (uint32_t x = 0; x < 65536; x++)
        if (tv_tier2_from_bf16((uint16_t)x) != flush(x << 16))
            fail_msg("bf16 %04x is %08x, not %08x", x, flush(x << 16), tv_tier2_from_bf16((uint16_t)x));
}

static void check_narrow(uint32_t a, const target *t, unsigned which)
{
    set_exact(exact, a);
    for (unsigned mode = 0; mode < MODES; mode++) {
        uint32_t want = mpq_sgn(exact) ? round_to_format(exact, t, mode) : a >> 31 << t->sign_bit;
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
            bool zero = m >> BF8[e5m2].man == 0 || m > BF8[e5m2].max_code;
            uint32_t want = (zero ? 0 : float_bits(bf8_value(m, e5m2))) | (x & 0x80) << 24;
            uint32_t got = tv_tier2_from_bf8((uint8_t)x, e5m2);
            if (got != want)
                fail_msg("bf8 %02x (e5m2 %u) is %08x, not %08x", x, e5m2, want, got);
        }
    assert_int_equal(tv_tier2_from_bf8(0x7E, false), float_bits(448));
    assert_int_equal(tv_tier2_from_bf8(0x7B, true), float_bits(57344));
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
                    check_narrow(float_bits(at[i]) + d - 2, &BF8[e5m2], e5m2);
                    check_narrow((float_bits(at[i]) + d - 2) ^ 0x80000000, &BF8[e5m2], e5m2);
                }
        }
        for (unsigned i = 0; i < CORNERS; i++)
            check_narrow(corner_float(i), &BF8[e5m2], e5m2);
        for (unsigned n = 0; n < RANDOM_CASES / 4; n++)
            check_narrow(n & 3 ? random_float(&rng, random_near(&rng, 127, 20)) : (uint32_t)unit_next(&rng), &BF8[e5m2],
                         e5m2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact_sums_rounded),
        cmocka_unit_test(tiny_results_are_zero),
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
