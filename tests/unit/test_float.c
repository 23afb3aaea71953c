/* SPDX-License-Identifier: Apache-2.0 */
/* BF16 and FP16 conversions against MPFR, packed INT4, and the rounding of real values to integers. */
#include "unit.h"

#include "num/float.h"
#include "num/int.h"
#include "oracle.h"

static mpfr_t scratch;

static void check_f32(uint32_t bits)
{
    double x = oracle_value(bits, &FORMAT_F32);
    float f;
    memcpy(&f, &bits, sizeof f);
    uint32_t bf16 = oracle_narrow(x, &FORMAT_BF16, scratch), f16 = oracle_narrow(x, &FORMAT_F16, scratch);
    if (tv_bf16_from_f32(f) != bf16)
        fail_msg("bf16 of f32 %08x: expected %04x, got %04x", bits, bf16, tv_bf16_from_f32(f));
    if (tv_bf16_from_f64(x) != bf16)
        fail_msg("bf16 of f64 %a: expected %04x, got %04x", x, bf16, tv_bf16_from_f64(x));
    if (tv_f16_from_f32(f) != f16)
        fail_msg("f16 of f32 %08x: expected %04x, got %04x", bits, f16, tv_f16_from_f32(f));
}

static void check_f64(double x)
{
    uint32_t bf16 = oracle_narrow(x, &FORMAT_BF16, scratch), f16 = oracle_narrow(x, &FORMAT_F16, scratch);
    if (tv_bf16_from_f64(x) != bf16)
        fail_msg("bf16 of f64 %a: expected %04x, got %04x", x, bf16, tv_bf16_from_f64(x));
    if (tv_f16_from_f64(x) != f16)
        fail_msg("f16 of f64 %a: expected %04x, got %04x", x, f16, tv_f16_from_f64(x));
}

static bool is_nan_code(uint32_t bits, const format *f) { return oracle_value(bits, f) != oracle_value(bits, f); }

static void every_bf16_value_widens_exactly_and_narrows_back(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float wide = tv_bf16_to_f32((uint16_t)i);
        bool nan = is_nan_code(i, &FORMAT_BF16);
        if (!nan && ((double)wide != oracle_value(i, &FORMAT_BF16) || (signbit(wide) != 0) != (i >> 15 != 0)))
            fail_msg("bf16 %04x widens to %a", i, (double)wide);
        uint16_t back = nan ? TV_BF16_NAN : (uint16_t)i;
        assert_int_equal(tv_bf16_from_f32(wide), back);
        assert_int_equal(tv_bf16_from_f64((double)wide), back);
        assert_int_equal(tv_bf16_is_nan((uint16_t)i), nan);
        assert_int_equal(tv_bf16_is_finite((uint16_t)i), isfinite(oracle_value(i, &FORMAT_BF16)) != 0);
    }
}

static void every_f16_value_widens_exactly_and_narrows_back(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float wide = tv_f16_to_f32((uint16_t)i);
        bool nan = is_nan_code(i, &FORMAT_F16);
        if (nan ? wide == wide : (double)wide != oracle_value(i, &FORMAT_F16) || (signbit(wide) != 0) != (i >> 15 != 0))
            fail_msg("f16 %04x widens to %a", i, (double)wide);
        assert_int_equal(tv_f16_from_f32(wide), nan ? 0x7E00 : (uint16_t)i);
        assert_int_equal(tv_f16_from_f64((double)wide), nan ? 0x7E00 : (uint16_t)i);
    }
}

static void bf16_flush_zeroes_subnormals_and_keeps_the_sign(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        double x = fabs(oracle_value(i, &FORMAT_BF16));
        bool subnormal = x > 0 && x < 0x1p-126;
        assert_int_equal(tv_bf16_is_subnormal((uint16_t)i), subnormal);
        assert_int_equal(tv_bf16_flush((uint16_t)i), subnormal ? i & 0x8000 : i);
    }
}

static void check_flushed(double x)
{
    uint32_t expected = oracle_narrow(x, &FORMAT_BF16_FLUSHED, scratch);
    if (tv_bf16_flushed_from_f64(x) != expected)
        fail_msg("flushed bf16 of f64 %a: expected %04x, got %04x", x, expected, tv_bf16_flushed_from_f64(x));
    if (((double)(float)x == x || x != x) && tv_bf16_flushed_from_f32((float)x) != expected)
        fail_msg("flushed bf16 of f32 %a: expected %04x, got %04x", x, expected, tv_bf16_flushed_from_f32((float)x));
}

/* All binary32 numbers from half of the smallest normal number to its double, and the binary64 numbers next to the
 * smallest one that is not flushed, 2^-126 (1 - 2^-9). */
static void numbers_that_round_below_the_normal_ones_are_flushed(void **state)
{
    (void)state;
    for (uint32_t bits = 0x00400000; bits < 0x01000000; bits += unit_sample() | 1) {
        check_flushed((double)tv_f32_of_bits(bits));
        if (bits % 64 == 0)
            check_flushed(-(double)tv_f32_of_bits(bits));
    }
    const double first = 0x1.FFp-127;
    check_flushed(first);
    check_flushed(nextafter(first, 0));
    check_flushed(-nextafter(first, 0));
    check_flushed(nextafter(first, INFINITY));
    assert_int_equal(tv_bf16_flushed_from_f64(first), 0x0080);
    assert_int_equal(tv_bf16_flushed_from_f64(nextafter(first, 0)), 0);
    assert_int_equal(tv_bf16_from_f64(nextafter(first, 0)), 0x0080);
    unit_rng rng = {9};
    for (unsigned i = 0; i < 1000000 / unit_sample(); i++) {
        check_flushed((double)tv_f32_of_bits((uint32_t)unit_next(&rng)));
        check_flushed(ldexp((double)unit_next(&rng), -64 - 120 - (int)unit_below(&rng, 20)));
    }
}

static void midpoints_of_bf16_and_their_f32_neighbours_round_as_mpfr(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++)
        for (uint32_t step = 0; step < 5; step++)
            check_f32((i << 16 | 0x8000) + step - 2);
}

/* The halves between neighbours of `f`, as binary64, and the binary64 numbers beside them. */
static void check_f64_midpoints(const format *f)
{
    uint32_t infinity = (1u << (f->bits - 1)) - (1u << f->man);
    for (uint32_t i = 0; i < infinity; i++) {
        double ulp = i == 0 ? oracle_value(1, f) : oracle_value(i, f) - oracle_value(i - 1, f);
        if ((i & ((1u << f->man) - 1)) == 0 && i >> f->man > 1)
            ulp *= 2; /* the step above a power of two is twice the one below */
        double middle = oracle_value(i, f) + ulp / 2;
        double around[] = {middle, nextafter(middle, 0), nextafter(middle, INFINITY)};
        for (size_t k = 0; k < TV_COUNTOF(around); k++) {
            check_f64(around[k]);
            check_f64(-around[k]);
        }
    }
}

static void f64_midpoints_of_both_formats_round_once_to_even(void **state)
{
    (void)state;
    check_f64_midpoints(&FORMAT_BF16);
    check_f64_midpoints(&FORMAT_F16);
}

static void random_f32_bit_patterns_round_as_mpfr(void **state)
{
    (void)state;
    unit_rng rng = {1};
    for (unsigned i = 0; i < 3000000 / unit_sample(); i++)
        check_f32((uint32_t)unit_next(&rng));
}

static void random_f64_values_round_as_mpfr(void **state)
{
    (void)state;
    unit_rng rng = {2};
    for (unsigned i = 0; i < 1500000 / unit_sample(); i++) {
        uint64_t bits = unit_next(&rng);
        if (i % 2) { /* exponents where the narrow formats live, and tails that are almost ties */
            uint64_t exponent = 1023 - 170 + unit_below(&rng, 310);
            bits = (bits & UINT64_C(0x800FFFFFFFFFFFFF)) | exponent << 52;
            if (i % 4 == 1)
                bits = (bits & ~(uint64_t)0xFFFFFFFFFF) | unit_below(&rng, 3);
        }
        double x;
        memcpy(&x, &bits, sizeof x);
        check_f64(x);
    }
}

static void overflow_infinity_and_nan_have_their_codes(void **state)
{
    (void)state;
    const float max = 0x1.FEp127f, half_above = 0x1.FFp127f; /* BF16's largest and the tie towards infinity */
    assert_int_equal(tv_bf16_from_f32(max), 0x7F7F);
    assert_int_equal(tv_bf16_from_f32(nextafterf(half_above, 0.0f)), 0x7F7F);
    assert_int_equal(tv_bf16_from_f32(half_above), 0x7F80);
    assert_int_equal(tv_bf16_from_f32(-half_above), 0xFF80);
    assert_int_equal(tv_bf16_from_f64(1e300), 0x7F80);
    assert_int_equal(tv_bf16_from_f64(-1e300), 0xFF80);
    assert_int_equal(tv_f16_from_f64(65519.999), 0x7BFF);
    assert_int_equal(tv_f16_from_f64(65520.0), 0x7C00);
    const uint32_t nans[] = {0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC12345, 0xFFFFFFFF};
    for (size_t i = 0; i < TV_COUNTOF(nans); i++) {
        assert_int_equal(tv_bf16_from_f32(tv_f32_of_bits(nans[i])), 0x7FC0);
        assert_int_equal(tv_f16_from_f32(tv_f32_of_bits(nans[i])), 0x7E00);
    }
    assert_int_equal(tv_bf16_from_f64(-(double)NAN), 0x7FC0);
}

static void int4_elements_pack_low_nibble_first_and_independently(void **state)
{
    (void)state;
    for (unsigned before = 0; before < 256; before++)
        for (size_t i = 0; i < 2; i++)
            for (int value = -8; value < 8; value++) {
                uint8_t packed[3] = {0xA5, (uint8_t)before, 0x5A};
                tv_int4_set(packed, 2 + i, value);
                unsigned nibble = (unsigned)(value + 16) % 16;
                unsigned expected = i == 0 ? (before & 0xF0) | nibble : (before & 0x0F) | nibble << 4;
                assert_int_equal(packed[0], 0xA5);
                assert_int_equal(packed[1], expected);
                assert_int_equal(packed[2], 0x5A);
                assert_int_equal(tv_int4_get(packed, 2 + i), value);
                int other = (int)(i == 0 ? before >> 4 : before & 15);
                assert_int_equal(tv_int4_get(packed, 3 - i), other > 7 ? other - 16 : other);
            }
}

static void round_clamp_takes_ties_to_even_and_stops_at_the_bounds(void **state)
{
    (void)state;
    for (int i = -300; i <= 300; i++) {
        int even = i % 2 == 0 ? i : i + 1; /* i + 1/2 lies between i and i + 1 */
        int expected = even < -127 ? -127 : even > 127 ? 127 : even;
        assert_int_equal(tv_int_round_clamp(i + 0.5, -127, 127), expected);
        int exact = i < -127 ? -127 : i > 127 ? 127 : i;
        assert_int_equal(tv_int_round_clamp(i, -127, 127), exact);
        assert_int_equal(tv_int_round_clamp(nextafter(i + 0.5, -1e9), -127, 127), exact);
    }
    assert_int_equal(tv_int_round_clamp(1e300, -127, 127), 127);
    assert_int_equal(tv_int_round_clamp(-(double)INFINITY, -127, 127), -127);
    assert_int_equal(tv_int_round_clamp(2147483647.4, INT32_MIN, INT32_MAX), INT32_MAX);
    assert_int_equal(tv_int_round_clamp(-1e20, INT32_MIN, INT32_MAX), INT32_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bf16_value_widens_exactly_and_narrows_back),
        cmocka_unit_test(every_f16_value_widens_exactly_and_narrows_back),
        cmocka_unit_test(bf16_flush_zeroes_subnormals_and_keeps_the_sign),
        cmocka_unit_test(numbers_that_round_below_the_normal_ones_are_flushed),
        cmocka_unit_test(midpoints_of_bf16_and_their_f32_neighbours_round_as_mpfr),
        cmocka_unit_test(f64_midpoints_of_both_formats_round_once_to_even),
        cmocka_unit_test(random_f32_bit_patterns_round_as_mpfr),
        cmocka_unit_test(random_f64_values_round_as_mpfr),
        cmocka_unit_test(overflow_infinity_and_nan_have_their_codes),
        cmocka_unit_test(int4_elements_pack_low_nibble_first_and_independently),
        cmocka_unit_test(round_clamp_takes_ties_to_even_and_stops_at_the_bounds),
    };
    mpfr_init2(scratch, 8);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mpfr_clear(scratch);
    mpfr_free_cache();
    return failed;
}
