/* SPDX-License-Identifier: Apache-2.0 */
/* Every variant of a kernel gives the bits of sums computed here in 64 bits. */
#include <math.h>

#include "kernels/bf16.h"
#include "kernels/gemm.h"
#include "kernels/outer.h"
#include "kernels/quantize.h"
#include "num/float.h"
#include "num/int.h"
#include "unit.h"

enum { ROUNDS = 300 };

/* Often minimum values, whose products are the maximum. */
static int8_t random_byte(unit_rng *rng)
{
    static const int8_t corners[] = {-128, 127, -127, 0, 1, -1};
    return unit_below(rng, 3) ? (int8_t)unit_below(rng, 256) : corners[unit_below(rng, TV_COUNTOF(corners))];
}

/* Of `a` one element in `one_in` may be other than zero, since factors of zero are skipped. */
static void compare_outer(unit_rng *rng, tv_cpu_level level, uint32_t k, unsigned count, unsigned one_in)
{
    static int8_t a[TV_OUTER_COUNT_MAX * TV_OUTER_K_MAX], b[TV_OUTER_COUNT_MAX * TV_OUTER_K_MAX];
    static int32_t acc[TV_OUTER_K_MAX * TV_OUTER_K_MAX], want[TV_OUTER_K_MAX * TV_OUTER_K_MAX];
    uint32_t groups = k / TV_OUTER_ROWS, first = 0, end = k;
    if (unit_below(rng, 2)) {
        first = (uint32_t)unit_below(rng, groups) * TV_OUTER_ROWS;
        end = first + (1 + (uint32_t)unit_below(rng, groups - first / TV_OUTER_ROWS)) * TV_OUTER_ROWS;
    }
    for (uint32_t i = 0; i < k * count; i++) {
        a[i] = unit_below(rng, one_in) ? 0 : random_byte(rng);
        b[i] = random_byte(rng);
    }
    for (uint32_t i = 0; i < k * k; i++) {
        acc[i] = unit_below(rng, 2) ? (int32_t)(uint32_t)unit_next(rng) : INT32_MAX; /* sums wrap */
        int64_t sum = acc[i];
        for (unsigned p = 0; p < count && first <= i / k && i / k < end; p++)
            sum += (int64_t)a[p * k + i / k] * b[p * k + i % k];
        want[i] = (int32_t)(uint32_t)(uint64_t)sum;
    }
    tv_outer_s8(level)(acc, k, a, b, count, first, end);
    assert_memory_equal(acc, want, k * k * sizeof *acc);
}

static void outer_products_of_every_level_equal_sums_in_64_bits(void **state)
{
    (void)state;
    static const unsigned one_in[] = {1, 8, 64, 1024};
    unit_rng rng = {1};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
        for (uint32_t k = 4; k <= TV_OUTER_K_MAX; k *= 2)
            for (unsigned round = 0; round < ROUNDS; round++)
                compare_outer(&rng, (tv_cpu_level)level, k, 1 + round % TV_OUTER_COUNT_MAX,
                              one_in[unit_below(&rng, TV_COUNTOF(one_in))]);
}

/* ---- Matrix products ---- */

enum { ROWS = 9, WIDEST = 1100 };

static void compare_s4s8(unit_rng *rng, tv_cpu_level level, size_t beats, size_t rows, size_t m)
{
    static uint8_t weights[ROWS * WIDEST];
    static int8_t q[ROWS][WIDEST], packed[ROWS * (WIDEST + TV_S4_BLOCK)];
    int32_t sums[ROWS], out[ROWS * ROWS];
    size_t n = beats * TV_S4_BEAT, stride = tv_gemm_s4s8_packed_bytes(beats);
    for (size_t i = 0; i < rows * n / 2; i++)
        weights[i] = unit_below(rng, 4) ? (uint8_t)unit_below(rng, 256) : 0x88;
    for (size_t i = 0; i < m; i++) {
        for (size_t k = 0; k < n; k++)
            q[i][k] = random_byte(rng);
        tv_gemm_s4s8_pack(q[i], beats, packed + i * stride, &sums[i]);
    }
    tv_gemm_s4s8(level)(weights, beats, rows, packed, stride, sums, m, out);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < m; i++) {
            int64_t sum = 0;
            for (size_t k = 0; k < n; k++) {
                int nibble = weights[(r * n + k) / 2] >> (k % 2 * 4) & 15;
                sum += (int64_t)(nibble < 8 ? nibble : nibble - 16) * q[i][k];
            }
            assert_int_equal(out[r * m + i], sum);
        }
}

static void int4_products_of_every_level_equal_sums_in_64_bits(void **state)
{
    (void)state;
    unit_rng rng = {2};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
        for (unsigned round = 0; round < ROUNDS; round++)
            compare_s4s8(&rng, (tv_cpu_level)level, 1 + unit_below(&rng, WIDEST / TV_S4_BEAT),
                         1 + unit_below(&rng, ROWS), 1 + unit_below(&rng, ROWS));
}

enum { DOTS = 21, TERMS = 200 };

static void byte_products_of_every_level_equal_sums_in_64_bits(void **state)
{
    (void)state;
    unit_rng rng = {3};
    static int8_t a[DOTS * TERMS], w[DOTS * TERMS];
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
        for (unsigned round = 0; round < ROUNDS; round++) {
            size_t n = round % 3 ? 1 + unit_below(&rng, TERMS) : 32, count = 1 + unit_below(&rng, DOTS),
                   a_step = round % 2 ? n : 0;
            int32_t out[DOTS];
            for (size_t i = 0; i < count * n; i++) {
                a[i] = random_byte(&rng);
                w[i] = random_byte(&rng);
            }
            size_t m = 1 + unit_below(&rng, (uint32_t)count);
            int32_t sums[DOTS], tile[DOTS * DOTS];
            for (size_t i = 0; i < m; i++)
                sums[i] = tv_sum_s8(a + i * n, n);
            tv_gemm_s8s8((tv_cpu_level)level)(w, n, count, a, sums, m, tile);
            for (size_t u = 0; u < count * m; u++) {
                int64_t sum = 0;
                for (size_t i = 0; i < n; i++)
                    sum += (int64_t)a[u % m * n + i] * w[u / m * n + i];
                assert_int_equal(tile[u], sum);
            }
            tv_dots_s8((tv_cpu_level)level)(a, a_step, w, n, n, count, out);
            for (size_t u = 0; u < count; u++) {
                int64_t sum = 0;
                for (size_t i = 0; i < n; i++)
                    sum += (int64_t)a[u * a_step + i] * w[u * n + i];
                assert_int_equal(out[u], sum);
            }
        }
}

/* Section 6 of the CMDQ specification, term by term. */
static float canonical(const float *a, const int8_t *w, size_t n)
{
    volatile float p[8] = {0}; /* no contraction, no wider registers */
    for (size_t i = 0; i < n; i++) {
        volatile float product = a[i] * (float)w[i];
        p[i % 8] = p[i % 8] + product;
    }
    volatile float even = p[0] + p[4], even2 = p[2] + p[6], odd = p[1] + p[5], odd2 = p[3] + p[7];
    volatile float x = even + even2, y = odd + odd2;
    return x + y;
}

static void float_products_have_the_canonical_order(void **state)
{
    (void)state;
    unit_rng rng = {4};
    static float a[DOTS * TERMS];
    static int8_t w[DOTS * TERMS];
    for (unsigned round = 0, levels = (unsigned)tv_cpu_host() + 1; round < ROUNDS * levels; round++) {
        size_t n = round % 5 ? 1 + unit_below(&rng, TERMS) : 32, count = 1 + unit_below(&rng, DOTS),
               a_step = round % 7 % 2 ? n : 0;
        float out[DOTS], factors[DOTS], partial[8] = {0}, again[8] = {0};
        for (size_t i = 0; i < count * n; i++) {
            a[i] = ldexpf((float)((int)unit_below(&rng, 1 << 20) - (1 << 19)), (int)unit_below(&rng, 40) - 40);
            w[i] = random_byte(&rng);
        }
        tv_dots_f32_s8((tv_cpu_level)(round % levels))(a, a_step, w, n, n, count, out);
        for (size_t u = 0; u < count; u++) {
            assert_true(out[u] == canonical(a + u * a_step, w + u * n, n));
            factors[u] = 1 + (float)unit_below(&rng, 1000) / 977;
        }
        tv_add_scaled(partial, out, 0.3f, factors, count);
        for (size_t u = 0; u < count; u++) {
            volatile float x = out[u] * 0.3f;
            x = x * factors[u];
            again[u % 8] = again[u % 8] + x;
        }
        assert_memory_equal(partial, again, sizeof again);
    }
}

/* ---- BF16 and quantizers ---- */

static void bf16_rows_are_what_single_values_are(void **state)
{
    (void)state;
    static uint16_t x[1 << 16];
    static float wide[1 << 16];
    for (uint32_t i = 0; i < 1 << 16; i++)
        x[i] = (uint16_t)i;
    tv_bf16_widen(x, 1 << 16, wide);
    for (uint32_t i = 0; i < 1 << 16;
         i++) { /* section 1 of the pccx specification: subnormals are zeros of their sign */
        bool subnormal = (i & 0x7F80) == 0;
        uint32_t bits;
        memcpy(&bits, &wide[i], 4);
        assert_int_equal(bits, (subnormal ? i & 0x8000 : i) << 16);
    }
    for (uint32_t n = 1; n < 100; n++)
        assert_int_equal(tv_bf16_absmax(x + 40000, n), 40000 % 32768 + n - 1);
}

static void scaled_outputs_are_rounded_after_each_operation(void **state)
{
    (void)state;
    enum { N = 37 };
    unit_rng rng = {5};
    for (unsigned round = 0; round < ROUNDS; round++) {
        int32_t acc[3 * N];
        float scale[N], row_scale = ldexpf((float)(128 + unit_below(&rng, 128)), (int)unit_below(&rng, 20) - 20);
        uint16_t standing[N], out[N];
        size_t step = 1 + round % 3;
        for (size_t i = 0; i < 3 * N; i++)
            acc[i] = (int32_t)unit_below(&rng, 1 << 24) - (1 << 23);
        for (size_t i = 0; i < N; i++) {
            scale[i] = ldexpf((float)(128 + unit_below(&rng, 128)), (int)unit_below(&rng, 120) - 130);
            standing[i] = (uint16_t)(unit_below(&rng, 0x7F80) | unit_below(&rng, 2) << 15);
        }
        tv_bf16_scale(acc, step, row_scale, scale, round % 2 ? standing : NULL, N, out);
        for (size_t i = 0; i < N; i++) {
            volatile float r = (float)acc[i * step];
            r = r * row_scale;
            r = r * scale[i];
            if (round % 2)
                r = r + ldexpf(1, 0) * tv_bf16_to_f32(standing[i]);
            assert_int_equal(out[i], tv_bf16_flushed_from_f64((double)r));
        }
    }
}

static void scales_of_rows_are_powers_of_two_of_the_absmax(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x7F80; bits++) {
        double x = (double)tv_bf16_to_f32((uint16_t)bits), want = bits < 0x80 ? 1 : exp2(floor(log2(x)) - 6);
        assert_true((double)tv_bf16_row_scale((uint16_t)bits, 0) == want);
        if (bits)
            assert_true(tv_bf16_row_scale(0x4000, (uint16_t)bits) == tv_bf16_to_f32((uint16_t)bits));
    }
}

/* The inverses of the first two are subnormal or not a number of binary32. */
static void scales_at_the_limits_of_binary32_divide(void **state)
{
    (void)state;
    static const int exponents[] = {127, -127, 126, -126};
    for (unsigned i = 0; i < TV_COUNTOF(exponents); i++) {
        float scale = ldexpf(1, exponents[i]), x[] = {scale, -scale, scale / 2, -scale / 2, 1.5f * scale, 0, 1, -1};
        int8_t q[TV_COUNTOF(x)];
        tv_quantize_s8(x, TV_COUNTOF(x), scale, -127, 127, q);
        for (size_t k = 0; k < TV_COUNTOF(x); k++) {
            double want = rint((double)x[k] / (double)scale);
            assert_int_equal(q[k], (int)(want < -127 ? -127 : want > 127 ? 127 : want));
        }
    }
}

static void quantizers_round_to_the_nearest_even_integer(void **state)
{
    (void)state;
    enum { N = 43 };
    unit_rng rng = {6};
    /* at the ends of the range in which a scale and its inverse are powers of two */
    static const int extremes[] = {-127, -126, -125, 119, 118, 0};
    for (unsigned round = 0; round < ROUNDS; round++) {
        int exponent = round % 5 ? (int)unit_below(&rng, 30) - 15 : extremes[round / 5 % TV_COUNTOF(extremes)];
        float x[N], scale = ldexpf(1 + (float)unit_below(&rng, 4) / 4, exponent), max = 0;
        int8_t q[N];
        uint8_t packed[(N + 1) / 2];
        bool finite, four = round % 2;
        int low = four ? -8 : -127, high = four ? 7 : 127;
        double error = 0;
        for (size_t i = 0; i < N; i++) {
            x[i] = scale * ((float)((int)unit_below(&rng, 1200) - 600) / 4); /* ties often, some past the ends */
            max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
        }
        tv_quantize_s8(x, N, scale, low, high, q);
        for (size_t i = 0; i < N; i++) {
            double want = rint((double)x[i] / (double)scale);
            want = want < low ? low : want > high ? high : want;
            assert_int_equal(q[i], (int)want);
            error += ((double)x[i] - (double)scale * want) * ((double)x[i] - (double)scale * want);
        }
        if (round % 5) /* squares of the others are not in the range of binary32 */
            assert_true(fabs((double)tv_quantize_error(x, N, scale, low, high) - error) <= 1e-5 * error);
        assert_true(tv_absmax(x, N, &finite) == max && finite);
        x[round % N] = round % 3 ? INFINITY : NAN;
        tv_absmax(x, N, &finite);
        assert_false(finite);
        if (!four)
            continue;
        tv_pack_s4(q, N, packed);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(tv_int4_get(packed, i), q[i]);
    }
}

static void packed_int4_unpack_low_nibble_first(void **state)
{
    (void)state;
    uint8_t packed[40];
    int8_t out[80];
    for (size_t i = 0; i < sizeof packed; i++)
        packed[i] = (uint8_t)(i * 37);
    for (size_t count = 0; count <= sizeof out; count++) {
        memset(out, 77, sizeof out);
        tv_unpack_s4(packed, count, out);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(out[i], tv_int4_get(packed, i));
        assert_true(count == sizeof out || out[count] == 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int4_products_of_every_level_equal_sums_in_64_bits),
        cmocka_unit_test(byte_products_of_every_level_equal_sums_in_64_bits),
        cmocka_unit_test(float_products_have_the_canonical_order),
        cmocka_unit_test(bf16_rows_are_what_single_values_are),
        cmocka_unit_test(scaled_outputs_are_rounded_after_each_operation),
        cmocka_unit_test(scales_of_rows_are_powers_of_two_of_the_absmax),
        cmocka_unit_test(scales_at_the_limits_of_binary32_divide),
        cmocka_unit_test(quantizers_round_to_the_nearest_even_integer),
        cmocka_unit_test(packed_int4_unpack_low_nibble_first),
        cmocka_unit_test(outer_products_of_every_level_equal_sums_in_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
