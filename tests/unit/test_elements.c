/* SPDX-License-Identifier: Apache-2.0 */
/* Array loops give the results of single values: conversions, functions, sums in the canonical order. */
#include <math.h>

#include "kernels/dot.h"
#include "kernels/elements.h"
#include "kernels/functions.h"
#include "kernels/weighted_sum.h"
#include "num/float.h"
#include "unit.h"

enum { COUNT = 4099 }; /* no multiple of any vector's length */

static uint32_t random_bits(unit_rng *rng)
{
    static const uint32_t corners[] = {0,          0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 1,
                                       0x007FFFFF, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x387FFFFF};
    return unit_below(rng, 8) ? (uint32_t)unit_next(rng) : corners[unit_below(rng, TV_COUNTOF(corners))];
}

/* Numbers within and outside the range of small formats. */
static void random_floats(unit_rng *rng, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = i % 2 ? tv_f32_of_bits(random_bits(rng)) : ((float)unit_below(rng, 1 << 16) - (1 << 15)) / 128;
}

static void every_binary16_becomes_the_binary32_of_its_value(void **state)
{
    (void)state;
    static uint8_t elements[2 << 16];
    static float out[1 << 16];
    for (uint32_t i = 0; i < 1 << 16; i++)
        tv_store_le(elements + 2 * i, i, 2);
    tv_elements_from_f16(elements, 1 << 16, out);
    for (uint32_t i = 0; i < 1 << 16; i++) {
        unsigned exponent = i >> 10 & 31, fraction = i & 0x3FF;
        double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                           : exponent     ? ldexp(1024 + fraction, (int)exponent - 25)
                                          : ldexp(fraction, -24);
        if (isnan(magnitude))
            assert_true(isnan(out[i]));
        else
            assert_true((double)out[i] == (i >> 15 ? -magnitude : magnitude) && !!signbit(out[i]) == i >> 15);
    }
}

static void elements_are_rounded_as_single_values_are(void **state)
{
    (void)state;
    unit_rng rng = {21};
    static float x[COUNT];
    static uint8_t f32[4 * COUNT], f16[2 * COUNT + 1];
    static int8_t s8[COUNT];
    for (unsigned round = 0; round < 20; round++) {
        random_floats(&rng, x, COUNT);
        tv_elements_to_f32(x, COUNT, f32);
        tv_elements_to_f16(x, COUNT, f16 + 1); /* elements need not be aligned */
        tv_elements_to_s8(x, COUNT, s8);
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(tv_load_le32(f32 + 4 * i), x[i] != x[i] ? 0x7FC00000 : tv_f32_bits(x[i]));
            assert_int_equal(tv_load_le16(f16 + 1 + 2 * i),
                             tv_f16_from_f64((double)x[i])); /* which test_float holds against MPFR */
            double nearest = x[i] != x[i] ? 0 : nearbyint((double)x[i]);
            assert_int_equal(s8[i], (int)(nearest > 127 ? 127 : nearest < -128 ? -128 : nearest));
        }
        float back[COUNT];
        tv_elements_from_s8(s8, COUNT, back);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(back[i] == (float)s8[i]);
    }
}

static void assert_same(float got, float want) { assert_int_equal(tv_f32_canonical(got), tv_f32_canonical(want)); }

static void results_are_rounded_after_each_operation(void **state)
{
    (void)state;
    unit_rng rng = {22};
    static float y[COUNT], bias[COUNT], old[COUNT], out[COUNT];
    static int32_t exact[COUNT];
    for (unsigned round = 0; round < 32; round++) {
        volatile float scale = round % 4 ? 0.3f : 1;
        random_floats(&rng, y, COUNT);
        random_floats(&rng, bias, COUNT);
        random_floats(&rng, old, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            exact[i] = (int32_t)(uint32_t)unit_next(&rng);
        tv_elements_epilogue(y, COUNT, round & 8 ? bias : NULL, round & 16 ? old : NULL, scale, out);
        for (size_t i = 0; i < COUNT; i++) {
            volatile float want = y[i], times = old[i] * scale;
            if (round & 8)
                want = want + bias[i];
            if (round & 16)
                want = want + times;
            assert_same(out[i], want / scale);
        }
        tv_elements_dequantize(exact, COUNT, 0.7f, round % 2 ? bias : NULL, scale, out);
        for (size_t i = 0; i < COUNT; i++) {
            volatile float want = (float)exact[i];
            want = want * 0.7f;
            assert_same(out[i], want * (round % 2 ? bias[i] : scale));
        }
    }
}

static void operations_are_those_of_single_values(void **state)
{
    (void)state;
    unit_rng rng = {26};
    static float a[COUNT], b[COUNT], sum[COUNT], product[COUNT], times[COUNT], over[COUNT];
    for (unsigned round = 0; round < 8; round++) {
        random_floats(&rng, a, COUNT);
        random_floats(&rng, b, COUNT);
        memcpy(times, a, sizeof a);
        memcpy(over, a, sizeof a);
        tv_elements_add(a, b, COUNT, sum);
        tv_elements_mul(a, b, COUNT, product);
        tv_elements_mul_scalar(times, COUNT, 0.3f);
        tv_elements_div_scalar(over, COUNT, 0.3f);
        for (size_t i = 0; i < COUNT; i++) { /* in binary64 a product of two numbers is exact, and rounding a sum or
                                                quotient of them twice is harmless */
            assert_same(sum[i], (float)((double)a[i] + (double)b[i]));
            assert_same(product[i], (float)((double)a[i] * (double)b[i]));
            assert_same(times[i], (float)((double)a[i] * (double)0.3f));
            assert_same(over[i], (float)((double)a[i] / (double)0.3f));
        }
    }
}

static void the_maximum_is_found_and_subtracted(void **state)
{
    (void)state;
    unit_rng rng = {28};
    float x[60] = {0}, out[60];
    assert_true(tv_elements_max(x, 0) == -INFINITY);
    for (unsigned round = 0; round < 300; round++) {
        size_t n = 1 + unit_below(&rng, TV_COUNTOF(x));
        float scale = round % 2 ? 1 : 0.37f, max = -INFINITY;
        for (size_t i = 0; i < n; i++) {
            x[i] = round % 7 ? (float)unit_below(&rng, 2000) - 1900 : -INFINITY;
            max = fmaxf(max, x[i]);
        }
        assert_true(tv_elements_max(x, n) == max);
        tv_elements_sub_div(x, n, max, scale, out);
        for (size_t i = 0; i < n; i++) {
            volatile float difference = x[i] - max;
            assert_same(out[i], difference / scale);
        }
        x[unit_below(&rng, n)] = NAN;
        assert_true(isnan(tv_elements_max(x, n)));
    }
}

static void pairs_are_rotated(void **state)
{
    (void)state;
    unit_rng rng = {27};
    enum { HALF = 37 };
    float x[2 * HALF], c[HALF], s[HALF], out[2 * HALF];
    for (unsigned round = 0; round < 40; round++) {
        bool apart = round % 2;
        random_floats(&rng, x, 2 * HALF);
        random_floats(&rng, c, HALF);
        random_floats(&rng, s, HALF);
        tv_elements_rotate(x, c, s, HALF, apart, out);
        for (unsigned i = 0; i < HALF; i++) {
            unsigned first = apart ? i : 2 * i, second = apart ? HALF + i : 2 * i + 1;
            volatile float ac = x[first] * c[i], bs = x[second] * s[i], as = x[first] * s[i], bc = x[second] * c[i];
            assert_same(out[first], ac - bs);
            assert_same(out[second], as + bc);
        }
    }
}

static void rows_of_functions_are_what_single_values_are(void **state)
{
    (void)state;
    static const tv_func functions[] = {TV_FUNC_EXP, TV_FUNC_SILU, TV_FUNC_RECIP, TV_FUNC_GELU};
    unit_rng rng = {23};
    static float x[COUNT], y[COUNT];
    for (unsigned round = 0; round < 40; round++) {
        random_floats(&rng, x, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            if (i % 3 == 0) /* where they bend */
                x[i] = tv_f32_of_bits((tv_f32_bits(x[i]) & 0x807FFFFF) | (uint32_t)(127 - 32 + unit_below(&rng, 40))
                                                                             << 23);
        tv_func_f32_row(functions[round % 4], x, COUNT, y);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(
                tv_f32_bits(y[i]),
                tv_f32_bits(tv_func_f32(functions[round % 4], x[i]))); /* which test_func holds against MPFR */
    }
}

static void expect_bf16_row(tv_func func, const float *x, size_t n)
{
    uint16_t y[COUNT];
    tv_func_bf16_row(func, x, n, y);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(y[i], tv_func_bf16(func, x[i])); /* which test_func holds against MPFR */
}

static void rows_of_bf16_functions_are_what_single_values_are(void **state)
{
    (void)state;
    unit_rng rng = {28};
    static float x[COUNT];
    for (unsigned round = 0; round < 30; round++) {
        random_floats(&rng, x, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            if (i % 1024 < 700) /* chunks without special values */
                x[i] = (float)unit_below(&rng, 1u << 30) * (i % 2 ? 0x1p-24f : -0x1p-24f);
        expect_bf16_row(TV_FUNC_EXP, x, COUNT);
        for (size_t i = 0; i < COUNT; i++) /* others are computed one by one */
            x[i] = tv_bf16_to_f32(tv_bf16_from_f32(x[i]));
        expect_bf16_row(TV_FUNC_RECIP, x, COUNT);
    }
}

/* The arguments whose exponentials are next to the boundary between two BF16 numbers. */
static void exponentials_beside_ties_are_rounded_once(void **state)
{
    (void)state;
    enum { TIES = 128 };
    float x[3 * TIES];
    for (int exponent = -128; exponent < 128; exponent++) {
        for (unsigned i = 0; i < TIES; i++) {
            float nearest = (float)log(ldexp(1 + (i + 0.5) / TIES, exponent));
            x[3 * i] = nearest;
            x[3 * i + 1] = nextafterf(nearest, INFINITY);
            x[3 * i + 2] = nextafterf(nearest, -INFINITY);
        }
        expect_bf16_row(TV_FUNC_EXP, x, 3 * TIES);
    }
}

static void expect_sum_row(tv_func func, const float *x, size_t n, const uint16_t *addends)
{
    uint16_t y[COUNT], overwritten[COUNT];
    memcpy(overwritten, addends, n * sizeof *addends);
    tv_func_sum_row(func, x, n, addends, y);
    tv_func_sum_row(func, x, n, overwritten, overwritten);
    for (size_t i = 0; i < n; i++) {
        volatile float sum = tv_func_f32(func, x[i]) + tv_bf16_to_f32(tv_bf16_flush(addends[i]));
        assert_int_equal(y[i], tv_bf16_flushed_from_f32(sum));
        assert_int_equal(overwritten[i], y[i]);
    }
}

static void sums_with_functions_are_those_of_single_values(void **state)
{
    (void)state;
    static const uint16_t addends[] = {0, 0x8000, TV_BF16_ONE, 0xBF80, 1, 0x7F7F, TV_BF16_INF, 0xFF80, 0x7FA1, 0xFFC0};
    unit_rng rng = {29};
    static float x[COUNT];
    static uint16_t y[COUNT];
    for (unsigned round = 0; round < 40; round++) {
        static const tv_func functions[] = {TV_FUNC_EXP, TV_FUNC_EXP, TV_FUNC_RECIP, TV_FUNC_GELU};
        const tv_func func = functions[round % TV_COUNTOF(functions)];
        random_floats(&rng, x, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            if (i % 1024 < 700)
                x[i] = (float)unit_below(&rng, 1u << 30) * (i % 2 ? 0x1p-24f : -0x1p-24f);
            y[i] = unit_below(&rng, 2) ? addends[unit_below(&rng, i % 1024 < 700 ? 4 : TV_COUNTOF(addends))]
                                       : (uint16_t)unit_below(&rng, 1 << 16);
            if (unit_below(&rng, 4) == 0) /* digits are lost, or all of them */
                y[i] = tv_func_bf16(func, x[i]) ^ 0x8000;
        }
        expect_sum_row(func, x, COUNT, y);
    }
}

/* As for SiLU: exp x + 1 next to the boundary between two BF16 numbers. */
static void sums_beside_ties_are_those_of_single_values(void **state)
{
    (void)state;
    enum { TIES = 128 };
    float x[3 * TIES];
    uint16_t y[3 * TIES];
    for (int exponent = 0; exponent < 120; exponent++) {
        for (unsigned i = 0; i < TIES; i++) {
            float nearest = (float)log(ldexp(1 + (i + 0.5) / TIES, exponent) - 1);
            x[3 * i] = nearest;
            x[3 * i + 1] = nextafterf(nearest, INFINITY);
            x[3 * i + 2] = nextafterf(nearest, -INFINITY);
        }
        for (unsigned i = 0; i < 3 * TIES; i++)
            y[i] = TV_BF16_ONE;
        expect_sum_row(TV_FUNC_EXP, x, 3 * TIES, y);
    }
}

static void batches_of_dot_products_have_the_canonical_order(void **state)
{
    (void)state;
    enum { LONGEST = 70, MAX = 21 };
    unit_rng rng = {25};
    float a[LONGEST * MAX], b[LONGEST], out[MAX];
    for (unsigned round = 0; round < 300; round++) {
        size_t n = 1 + unit_below(&rng, LONGEST), count = 1 + unit_below(&rng, MAX);
        for (size_t i = 0; i < n * count; i++)
            a[i] = ((float)unit_below(&rng, 20000) - 10000) * 1e-4f;
        for (size_t i = 0; i < n; i++)
            b[i] = ((float)unit_below(&rng, 20000) - 10000) * 1e-3f;
        tv_dots_f32(a, n, b, n, count, out);
        for (size_t u = 0; u < count; u++) {
            float p[8] = {0};
            for (size_t i = 0; i < n; i++) {
                volatile float product = a[u * n + i] * b[i];
                p[i % 8] += product;
            }
            assert_same(out[u], ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7])));
            assert_same(tv_dot_f32(a + u * n, b, n), out[u]);
        }
    }
}

static void batches_of_integer_products_wrap(void **state)
{
    (void)state;
    enum { LONGEST = 70, MAX = 21 };
    unit_rng rng = {27};
    uint32_t a[LONGEST * MAX], b[LONGEST], out[MAX];
    for (unsigned round = 0; round < 300; round++) {
        size_t n = unit_below(&rng, LONGEST), count = 1 + unit_below(&rng, MAX);
        for (size_t i = 0; i < LONGEST * MAX; i++)
            a[i] = (uint32_t)unit_sized(&rng, 32);
        for (size_t i = 0; i < LONGEST; i++)
            b[i] = (uint32_t)unit_sized(&rng, 32);
        tv_dots_u32(a, n, b, n, count, out);
        for (size_t u = 0; u < count; u++) {
            uint64_t sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += (uint64_t)a[u * n + i] * b[i];
            assert_int_equal(out[u], (uint32_t)sum);
        }
    }
}

static void sums_over_windows_have_the_canonical_order(void **state)
{
    (void)state;
    enum { TAPS = 40, MAX = 50, REACH = 100 };
    unit_rng rng = {26};
    float x[3 * MAX + REACH], w[TAPS], out[MAX];
    size_t at[TAPS];
    for (unsigned round = 0; round < 300; round++) {
        size_t taps = unit_below(&rng, TAPS), count = unit_below(&rng, MAX), stride = 1 + round % 3;
        for (size_t i = 0; i < 3 * MAX + REACH; i++)
            x[i] = ((float)unit_below(&rng, 20000) - 10000) * 1e-4f;
        for (size_t t = 0; t < taps; t++) {
            w[t] = ((float)unit_below(&rng, 20000) - 10000) * 1e-3f;
            at[t] = unit_below(&rng, REACH);
        }
        tv_window_dots_f32(x, stride, at, w, taps, count, out);
        for (size_t u = 0; u < count; u++) {
            float p[8] = {0};
            for (size_t t = 0; t < taps; t++) {
                volatile float product = x[u * stride + at[t]] * w[t];
                p[t % 8] += product;
            }
            assert_same(out[u], ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7])));
        }
    }
}

/* The canonical sum of element `i` of the result, term by term. */
static float weighted_sum(const float *a, const float *v, size_t k, size_t step, size_t count, size_t i)
{
    float p[8] = {0};
    for (size_t t = 0; t < k; t++) {
        volatile float product = a[i / count * k + t] * v[t * step + i % count];
        p[t % 8] += product;
    }
    return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
}

/* In some rounds one of 16 numbers is a special one. */
static float any_number(unit_rng *rng, bool special, float ordinary)
{
    static const float specials[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 0x1p127f, -0x1p127f, 0x1p-140f};
    return special && unit_below(rng, 16) == 0 ? specials[unit_below(rng, TV_COUNTOF(specials))] : ordinary;
}

static void weighted_sums_have_the_canonical_order(void **state)
{
    (void)state;
    enum { LONGEST = 70, WIDEST = 100, ROWS = 15 };
    unit_rng rng = {24};
    float a[ROWS * LONGEST], out[ROWS * WIDEST];
    for (unsigned round = 0; round < 300; round++) {
        size_t k = 1 + unit_below(&rng, LONGEST), count = 1 + unit_below(&rng, WIDEST - 1),
               step = count + unit_below(&rng, WIDEST - count), rows = 1 + unit_below(&rng, ROWS);
        for (size_t t = 0; t < rows * k; t++)
            a[t] = any_number(&rng, round % 4 == 1, ((float)unit_below(&rng, 20000) - 10000) * 1e-4f);
        const size_t size = (k - 1) * step + count; /* exactly, so that a sanitizer detects an overrun */
        int8_t *bytes = malloc(size);
        float *v = malloc(size * sizeof *v), *wide = malloc(size * sizeof *wide);
        assert_true(bytes && v && wide);
        for (size_t i = 0; i < size; i++) {
            wide[i] = bytes[i] = (int8_t)((int)unit_below(&rng, 256) - 128);
            v[i] = any_number(&rng, round % 4 == 3, wide[i] * 0x1.3p-7f);
        }
        for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++) {
            memset(out, 0xFF, sizeof out);
            tv_weighted_sum_f32((tv_cpu_level)level)(a, rows, k, v, step, count, out);
            for (size_t i = 0; i < rows * count; i++)
                assert_same(out[i], weighted_sum(a, v, k, step, count, i));
            memset(out, 0xFF, sizeof out);
            tv_weighted_sum_s8((tv_cpu_level)level)(a, rows, k, bytes, step, count, out);
            for (size_t i = 0; i < rows * count; i++)
                assert_same(out[i], weighted_sum(a, wide, k, step, count, i));
        }
        free(wide);
        free(v);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_binary16_becomes_the_binary32_of_its_value),
        cmocka_unit_test(elements_are_rounded_as_single_values_are),
        cmocka_unit_test(results_are_rounded_after_each_operation),
        cmocka_unit_test(operations_are_those_of_single_values),
        cmocka_unit_test(the_maximum_is_found_and_subtracted),
        cmocka_unit_test(pairs_are_rotated),
        cmocka_unit_test(rows_of_functions_are_what_single_values_are),
        cmocka_unit_test(rows_of_bf16_functions_are_what_single_values_are),
        cmocka_unit_test(exponentials_beside_ties_are_rounded_once),
        cmocka_unit_test(sums_with_functions_are_those_of_single_values),
        cmocka_unit_test(sums_beside_ties_are_those_of_single_values),
        cmocka_unit_test(batches_of_dot_products_have_the_canonical_order),
        cmocka_unit_test(batches_of_integer_products_wrap),
        cmocka_unit_test(sums_over_windows_have_the_canonical_order),
        cmocka_unit_test(weighted_sums_have_the_canonical_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
