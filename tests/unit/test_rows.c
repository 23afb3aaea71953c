/* SPDX-License-Identifier: Apache-2.0 */
/* Array kernels give the results of 64-bit sums, single operations and the functions of src/num. */
#include <math.h>

#include "kernels/bf16.h"
#include "kernels/functions.h"
#include "kernels/gemm.h"
#include "kernels/gemv_scaled.h"
#include "kernels/quantize.h"
#include "kernels/quantize_bf16.h"
#include "kernels/scale_search.h"
#include "num/float.h"
#include "num/int.h"
#include "unit.h"

enum { ROUNDS = 200 };

/* Also infinities, NaN and subnormals. */
static uint16_t any_bf16(unit_rng *rng)
{
    static const uint16_t corners[] = {0,      0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF,
                                       0x0001, 0x807F, 0x0080, 0x7F7F, 0x3F80};
    return unit_below(rng, 20) ? (uint16_t)(0x3C00 + unit_below(rng, 0x600) + (unit_below(rng, 2) << 15))
                               : corners[unit_below(rng, TV_COUNTOF(corners))];
}

/* ---- INT4 weights with a scale per row ---- */

enum { ROWS_MAX = 70, BEATS_MAX = 9 };

typedef struct rows_case {
    uint8_t weights[ROWS_MAX * BEATS_MAX * TV_S4_BEAT / 2], scales[2 * ROWS_MAX], out[2 * ROWS_MAX + 8],
        before[2 * ROWS_MAX + 8];
    int8_t q[BEATS_MAX * TV_S4_BEAT], packed[BEATS_MAX * TV_S4_BEAT + TV_S4_BLOCK];
} rows_case;

static uint16_t expected_row(const rows_case *c, const tv_gemv_scaled_args *r, size_t row)
{
    int64_t sum = 0;
    for (size_t i = 0; i < r->beats * TV_S4_BEAT; i++)
        sum += c->q[i] * tv_int4_get(r->weights + row * r->beats * TV_S4_BEAT / 2, i);
    volatile float y = (float)sum;
    y = y * r->vector_scale;
    if (r->scales)
        y = y * tv_bf16_to_f32(tv_load_le16(c->scales + 2 * row));
    if (r->add)
        y = y + tv_bf16_to_f32(tv_load_le16(c->before + 2 * row));
    return tv_bf16_flushed_from_f64((double)y); /* test_float.c compares it with MPFR */
}

/* `kind`: 1 with scales, 2 added to the destination, 4 results around the smallest normal BF16 number. */
static void check_rows(unit_rng *rng, tv_cpu_level level, size_t beats, size_t rows, unsigned kind)
{
    static rows_case c;
    bool at_limits = unit_below(rng, 4) == 0; /* all at their limits: the sums of the largest magnitude */
    uint8_t weight = unit_below(rng, 2) ? 0x77 : 0x88;
    int8_t input = unit_below(rng, 2) ? 127 : -128;
    for (size_t i = 0; i < sizeof c.weights; i++)
        c.weights[i] = !at_limits && unit_below(rng, 4) ? (uint8_t)unit_next(rng) : weight;
    for (size_t i = 0; i < beats * TV_S4_BEAT; i++)
        c.q[i] = !at_limits && unit_below(rng, 4) ? (int8_t)unit_below(rng, 256) : input;
    for (size_t i = 0; i < ROWS_MAX + 4; i++)
        tv_store_le(c.out + 2 * i, any_bf16(rng), 2);
    for (size_t i = 0; i < ROWS_MAX; i++)
        tv_store_le(c.scales + 2 * i, any_bf16(rng), 2);
    for (size_t i = 0; kind & 4 && i < ROWS_MAX + 4; i++)
        tv_store_le(c.out + 2 * i, 0x0080 | unit_below(rng, 2) << 15, 2);
    memcpy(c.before, c.out, sizeof c.out);
    tv_gemv_scaled_args r = {.weights = c.weights,
                             .beats = beats,
                             .rows = rows,
                             .packed = c.packed,
                             .vector_scale = ldexpf(1, (int)unit_below(rng, 40) - (kind & 4 ? 149 : 30)),
                             .scales = kind & 1 ? c.scales : NULL,
                             .add = kind >> 1 & 1,
                             .ahead = (ptrdiff_t)unit_below(rng, 100000),
                             .out = c.out};
    tv_gemm_s4s8_pack(c.q, beats, c.packed, &r.sum);
    tv_gemv_scaled(level)(&r);
    for (size_t i = 0; i < rows; i++)
        assert_int_equal(tv_load_le16(c.out + 2 * i), expected_row(&c, &r, i));
    assert_memory_equal(c.out + 2 * rows, c.before + 2 * rows, sizeof c.out - 2 * rows);
}

static void scaled_rows_of_every_level_are_sums_rounded_after_each_operation(void **state)
{
    (void)state;
    unit_rng rng = {1};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
        for (unsigned round = 0; round < ROUNDS; round++)
            for (size_t beats = 1; beats <= BEATS_MAX; beats++)
                check_rows(&rng, (tv_cpu_level)level, beats, 1 + unit_below(&rng, ROWS_MAX), round % 8);
}

/* ---- Quantized activations ---- */

enum { ACTIVATIONS_MAX = 700 };

/* The quotient of two BF16 numbers in binary64 is rounded to an integer as the exact one. */
static int expected_activation(uint16_t x, double scale)
{
    double q = rint((double)tv_bf16_to_f32((x & 0x7F80) ? x : 0) / scale);
    return q > 127 ? 127 : q < -127 ? -127 : (int)q;
}

static void check_activations(tv_cpu_level level, const uint16_t *x, size_t n, uint16_t act_scale, bool pack)
{
    enum { BYTES = ACTIVATIONS_MAX / TV_S4_BLOCK * TV_S4_BLOCK + 2 * TV_S4_BLOCK };
    uint8_t bytes[2 * ACTIVATIONS_MAX];
    int8_t q[BYTES];
    uint16_t absmax = 0;
    int64_t sum = 0;
    memset(q, 99, sizeof q);
    for (size_t i = 0; i < n; i++) {
        tv_store_le(bytes + 2 * i, x[i], 2);
        absmax = (x[i] & 0x7FFF) > absmax ? x[i] & 0x7FFF : absmax;
    }
    tv_quantized_row row;
    tv_quantize_bf16(level)(bytes, n, act_scale, pack, q, &row);
    assert_int_equal(row.absmax, absmax);
    if (absmax >= 0x7F80)
        return;
    double scale = act_scale         ? (double)tv_bf16_to_f32(act_scale)
                   : absmax < 0x0080 ? 1
                                     : ldexp(1, ilogbf(tv_bf16_to_f32(absmax)) - 6);
    size_t end =
        pack ? (n + TV_S4_BLOCK - 1) / TV_S4_BLOCK * TV_S4_BLOCK : (n + TV_S4_BEAT - 1) / TV_S4_BEAT * TV_S4_BEAT;
    assert_true((double)row.scale == scale);
    for (size_t i = 0; i < end; i++) {
        int want = i < n ? expected_activation(x[i], scale) : 0;
        size_t block = i / TV_S4_BLOCK * TV_S4_BLOCK, at = i % TV_S4_BLOCK;
        int found = q[pack ? block + at / 2 + at % 2 * (TV_S4_BLOCK / 2) : i];
        sum += want;
        if (found != want)
            fail_msg("activation %zu of %zu, 0x%04x, with scale %g: %d, not %d", i, n, x[i], scale, found, want);
    }
    assert_int_equal(q[end], 99);
    assert_int_equal(row.sum, sum);
}

/* Every number in a row of 32 and of 64: among zeros, and beside a number whose exponent is up to 7 larger, with which
 * its quotient has fewer digits. */
static void check_short_rows(tv_cpu_level level)
{
    uint16_t x[64] = {0};
    for (uint32_t i = 0; i < 1 << 16; i++)
        for (size_t n = 32; n <= 64; n += 32) {
            const size_t at = i % n, other = (at + 1) % n;
            x[at] = (uint16_t)i;
            check_activations(level, x, n, 0, i % 2);
            x[other] = (uint16_t)((i & 0x7F80) + (i % 8 << 7)) & 0x7FFF;
            check_activations(level, x, n, 0, i / 8 % 2);
            x[at] = x[other] = 0;
        }
}

static void activations_are_quantized_as_the_exact_quotients_at_every_level(void **state)
{
    (void)state;
    unit_rng rng = {9};
    static const uint16_t scales[] = {0, 0, 0x3F80, 0x3D00, 0x3DCD, 0x4049, 0x0001, 0x0080, 0x7F7F};
    uint16_t x[ACTIVATIONS_MAX];
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++) {
        for (uint32_t i = 0; i < 1 << 16; i++) {
            x[0] = (uint16_t)i;
            check_activations((tv_cpu_level)level, x, 1, scales[i % TV_COUNTOF(scales)], i % 2);
        }
        check_short_rows((tv_cpu_level)level);
        for (unsigned round = 0; round < 20 * ROUNDS; round++) {
            size_t n = unit_below(&rng, 3) ? 1 + unit_below(&rng, round % 8 ? 130 : ACTIVATIONS_MAX)
                                           : 32 + 32 * unit_below(&rng, 2);
            const unsigned tiny = 0x80 * (1 + (unsigned)unit_below(&rng, 12)); /* from subnormals on */
            for (size_t i = 0; i < n; i++)
                x[i] = round % 16 == 0   ? any_bf16(&rng)
                       : round % 16 == 1 ? (uint16_t)(unit_below(&rng, tiny) + (unit_below(&rng, 2) << 15))
                                         : (uint16_t)(0x3C00 + unit_below(&rng, 0x600) + (unit_below(&rng, 2) << 15));
            check_activations((tv_cpu_level)level, x, n, scales[round % TV_COUNTOF(scales)], unit_below(&rng, 2));
        }
    }
}

/* ---- Scales ---- */

/* tv_quantize_error term by term, with its 16 partial sums and pairwise reduction. */
static float expected_error(const float *x, size_t n, float scale, int low, int high)
{
    enum { LANES = 16 };
    volatile float sum[LANES] = {0}, inverse = 1 / scale;
    for (size_t i = 0; i < n; i++) {
        volatile float q = x[i] * inverse, d;
        q = q > (float)high ? (float)high : q < (float)low ? (float)low : q;
        d = scale * rintf(q);
        d = x[i] - d;
        d = d * d;
        sum[i % LANES] = sum[i % LANES] + d;
    }
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; lane++)
            sum[lane] = sum[lane] + sum[lane + half];
    return sum[0];
}

static unsigned expected_scale(const float *x, size_t n, const float *scales, unsigned count, int low, int high)
{
    unsigned best = count;
    float min = INFINITY;
    for (unsigned c = 0; c < count; c++) {
        float error = expected_error(x, n, scales[c], low, high);
        if (error < min) {
            min = error;
            best = c;
        }
    }
    return best;
}

/* Few values and few scales make ties; magnitudes range from errors that underflow to errors that overflow. */
static void the_scale_of_smallest_error_is_the_first_on_ties_at_every_level(void **state)
{
    (void)state;
    enum { N = 100 };
    static const int exponents[] = {0, 0, 0, -70, -126, -140, 60, 70, 120};
    unit_rng rng = {2};
    for (unsigned round = 0; round < 20 * ROUNDS; round++) {
        float x[N], scales[TV_SCALES_MAX];
        bool finite, few = unit_below(&rng, 3) == 0;
        int low = round % 2 ? -8 : -7, high = 7, exponent = exponents[unit_below(&rng, TV_COUNTOF(exponents))];
        size_t n = 1 + unit_below(&rng, N);
        unsigned count = 1 + (unsigned)unit_below(&rng, TV_SCALES_MAX);
        for (size_t i = 0; i < n; i++)
            x[i] = ldexpf((float)((int)unit_below(&rng, few ? 5 : 2001) - (few ? 2 : 1000)), exponent);
        float max = tv_signed_absmax(x, n, &finite);
        for (unsigned c = 0; c < count; c++) {
            scales[c] = max / (few ? 4 : 8) *
                        (few ? (float)(1 + unit_below(&rng, 3)) : 0.5f + (float)unit_below(&rng, 1000) / 1000) *
                        (unit_below(&rng, 2) ? 1 : -1);
            scales[c] = scales[c] == 0 || !isfinite(scales[c]) ? 1 : scales[c];
        }
        unsigned want = expected_scale(x, n, scales, count, low, high);
        for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
            assert_int_equal(tv_scale_search((tv_cpu_level)level)(x, n, max, scales, count, low, high), want);
    }
}

/* Scales a few last places apart, so that it matters where a half is rounded to; zeros; sizes at the ends, and what is
 * no number, of which no error is less than another. */
static void ties_and_edge_values_choose_the_same_scale_at_every_level(void **state)
{
    (void)state;
    enum { N = 40 };
    enum { HALVES, ZEROS, ONE_CORNER, CORNERS, KINDS };
    static const float corners[] = {0,        -0.0f,     0x1p-149f, -0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f,
                                    INFINITY, -INFINITY, NAN,       1,          -8.5f,           7.5f};
    unit_rng rng = {4};
    for (unsigned round = 0; round < 20 * ROUNDS; round++) {
        float x[N], scales[TV_SCALES_MAX],
            base = ldexpf(1 + (float)unit_below(&rng, 1000) / 1000, (int)unit_below(&rng, 40) - 20);
        unsigned kind = round % KINDS, count = 1 + (unsigned)unit_below(&rng, TV_SCALES_MAX);
        size_t n = 1 + unit_below(&rng, round % 8 < 4 ? 3 : N);
        for (size_t i = 0; i < n; i++)
            x[i] = kind == CORNERS ? corners[unit_below(&rng, TV_COUNTOF(corners))]
                   : kind == ZEROS ? 0
                                   : ((float)((int)unit_below(&rng, 16) - 8) + 0.5f) * base;
        if (kind == ONE_CORNER)
            x[unit_below(&rng, n)] = corners[unit_below(&rng, TV_COUNTOF(corners))];
        for (unsigned c = 0; c < count; c++) {
            scales[c] = kind == CORNERS ? corners[unit_below(&rng, TV_COUNTOF(corners))]
                                        : tv_f32_of_bits(tv_f32_bits(base) + (uint32_t)unit_below(&rng, 9) - 4);
            scales[c] = scales[c] == 0 ? base : scales[c];
        }
        unsigned want = expected_scale(x, n, scales, count, -8, 7);
        float absmax = x[unit_below(&rng, n)];
        for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
            assert_int_equal(tv_scale_search((tv_cpu_level)level)(x, n, absmax, scales, count, -8, 7), want);
    }
}

static void the_signed_absmax_is_the_first_value_of_maximum_magnitude(void **state)
{
    (void)state;
    enum { N = 70 };
    unit_rng rng = {3};
    for (unsigned round = 0; round < 20 * ROUNDS; round++) {
        float x[N], want;
        bool finite;
        size_t n = 1 + unit_below(&rng, N);
        for (size_t i = 0; i < n; i++)
            x[i] = (float)((int)unit_below(&rng, 41) - 20);
        want = x[0];
        for (size_t i = 1; i < n; i++)
            want = fabsf(x[i]) > fabsf(want) ? x[i] : want;
        assert_true(tv_signed_absmax(x, n, &finite) == want && finite);
        x[unit_below(&rng, n)] = round % 2 ? -INFINITY : NAN;
        tv_signed_absmax(x, n, &finite);
        assert_false(finite);
    }
}

/* ---- Functions ---- */

static const tv_func functions[] = {TV_FUNC_EXP, TV_FUNC_SQRT, TV_FUNC_GELU, TV_FUNC_SIN, TV_FUNC_COS, TV_FUNC_RECIP};

static uint16_t flushed(uint16_t x) { return (x & 0x7F80) == 0 ? x & 0x8000 : x; }

static void check_functions(const float *x, size_t n)
{
    static float wide[1 << 16];
    static uint16_t narrow[1 << 16];
    for (unsigned f = 0; f < TV_COUNTOF(functions); f++) {
        tv_func_f32_row(functions[f], x, n, wide);
        tv_func_bf16_row(functions[f], x, n, narrow);
        for (size_t i = 0; i < n; i++) {
            float want = tv_func_f32(functions[f], x[i]);
            if (narrow[i] != tv_func_bf16(functions[f], x[i]) || tv_f32_canonical(wide[i]) != tv_f32_canonical(want))
                fail_msg("function %u of %a is %a and 0x%04x", f, (double)x[i], (double)wide[i], narrow[i]);
        }
    }
}

static void functions_of_rows_are_those_of_single_values(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    static float x[N];
    unit_rng rng = {4};
    for (uint32_t i = 0; i < N; i++)
        x[i] = tv_bf16_to_f32(tv_bf16_flush((uint16_t)i)); /* all of BF16 */
    check_functions(x, N);
    for (unsigned round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < N; i++) /* anything, and what an exponential takes */
            x[i] = round % 2 ? tv_f32_of_bits((uint32_t)unit_next(&rng))
                             : ((float)unit_below(&rng, 1 << 24) / (1 << 23) - 1) * (round ? 110 : 1);
        check_functions(x, round == 3 ? 1000 : N);
    }
}

static void scaled_bf16_is_rounded_as_from_the_exact_value(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    static float x[N], y[N];
    static uint16_t narrow[N];
    unit_rng rng = {5};
    for (uint32_t i = 0; i < N; i++)
        x[i] = tv_bf16_to_f32(tv_bf16_flush((uint16_t)i));
    for (unsigned round = 0; round < 60; round++) {
        float scalar = tv_bf16_to_f32(tv_bf16_flush(round % 3 ? (uint16_t)unit_next(&rng) : any_bf16(&rng)));
        bool divide = round % 2;
        tv_scale_f32(x, N, scalar, divide, y);
        tv_bf16_narrow(y, N, narrow);
        for (uint32_t i = 0; i < N; i++) { /* binary64 has more than twice the bits of a quotient's operands */
            double r = !divide ? (double)x[i] * (double)scalar : scalar == 0 ? 0 : (double)x[i] / (double)scalar;
            if (narrow[i] != tv_bf16_flushed_from_f64(r) || tv_f32_canonical(y[i]) != tv_f32_canonical((float)r))
                fail_msg("%a by %a is %a and 0x%04x", (double)x[i], (double)scalar, (double)y[i], narrow[i]);
        }
    }
}

static void addends_are_added_with_subnormals_as_zeros(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    static float x[N];
    static uint16_t standing[N];
    for (uint32_t i = 0; i < N; i++) {
        x[i] = (float)i / 7;
        standing[i] = (uint16_t)i;
    }
    tv_bf16_add(x, N, standing);
    for (uint32_t i = 0; i < N; i++) {
        volatile float want = (float)i / 7;
        want = want + tv_bf16_to_f32(flushed((uint16_t)i));
        assert_int_equal(tv_f32_canonical(x[i]), tv_f32_canonical(want));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scaled_rows_of_every_level_are_sums_rounded_after_each_operation),
        cmocka_unit_test(activations_are_quantized_as_the_exact_quotients_at_every_level),
        cmocka_unit_test(the_scale_of_smallest_error_is_the_first_on_ties_at_every_level),
        cmocka_unit_test(ties_and_edge_values_choose_the_same_scale_at_every_level),
        cmocka_unit_test(the_signed_absmax_is_the_first_value_of_maximum_magnitude),
        cmocka_unit_test(functions_of_rows_are_those_of_single_values),
        cmocka_unit_test(scaled_bf16_is_rounded_as_from_the_exact_value),
        cmocka_unit_test(addends_are_added_with_subnormals_as_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
