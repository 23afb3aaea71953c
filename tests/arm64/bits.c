/* SPDX-License-Identifier: Apache-2.0 */
/* Prints hashes of the results of src/num and src/kernels for many numbers; every host must print the same ones.
 * tests/unit checks that the results are correct; this test finds results that depend on the host: NaN and its sign,
 * conversions out of range, contracted multiply-adds, the sign of char. All variants of a kernel must also agree on one
 * host. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/bf16.h"
#include "kernels/block_formats.h"
#include "kernels/dot.h"
#include "kernels/elements.h"
#include "kernels/functions.h"
#include "kernels/gemm.h"
#include "kernels/gemv_grouped.h"
#include "kernels/gemv_scaled.h"
#include "kernels/outer.h"
#include "kernels/quantize.h"
#include "kernels/scale_search.h"
#include "num/float.h"
#include "num/func.h"
#include "num/int.h"
#include "num/tier2.h"

enum { ROUNDS = 20000, N = 200, COUNT = 9 };

static uint64_t next(uint64_t *rng)
{
    uint64_t z = *rng += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* Bits of any binary32, often edge cases. */
static uint32_t any_bits(uint64_t *rng)
{
    static const uint32_t corners[] = {0,          1,          0x7FFFFF,   0x800000,   0x7F7FFFFF, 0x7F800000,
                                       0x7FC00000, 0x7FA00001, 0x3F800000, 0x4B000000, 0x4F000000};
    uint64_t x = next(rng);
    if (x >> 60)
        return (uint32_t)x;
    return corners[(x >> 8) % TV_COUNTOF(corners)] | (uint32_t)(x & 1) << 31;
}

/* Values with exponents around zero, which do not vanish in sums. */
static float values(uint64_t *rng)
{
    uint64_t x = next(rng);
    return tv_f32_of_bits((uint32_t)(x & 0x807FFFFF) | (uint32_t)(100 + (x >> 40) % 40) << 23);
}

typedef uint64_t hash;

static void hash_bytes(hash *h, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++)
        *h = (*h ^ p[i]) * UINT64_C(0x100000001B3);
}

static void hash_number(hash *h, uint64_t x) { hash_bytes(h, &x, sizeof x); }

static void hash_f32(hash *h, float x) { hash_number(h, tv_f32_bits(x)); }

static void print_hash(const char *name, hash h) { printf("%-16s %016llx\n", name, (unsigned long long)h); }

static void conversions(void)
{
    uint64_t rng = 1;
    hash narrow = 0, wide = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        float x = tv_f32_of_bits(any_bits(&rng));
        uint64_t bits = next(&rng);
        double d = i % 2 ? (double)x
                         : tv_f64_of_bits((bits & UINT64_C(0x800FFFFFFFFFFFFF)) | (850 + (bits >> 52) % 360) << 52);
        hash_number(&narrow, tv_bf16_from_f32(x));
        hash_number(&narrow, tv_f16_from_f32(x));
        hash_number(&narrow, tv_bf16_from_f64(d));
        hash_number(&narrow, tv_f16_from_f64(d));
        hash_number(&narrow, tv_f64_bits(tv_f64_odd_from_i64((int64_t)(bits >> (bits % 64)))));
    }
    for (uint32_t i = 0; i < 1 << 16; i++)
        hash_f32(&wide, tv_f16_to_f32((uint16_t)i));
    print_hash("narrowing", narrow);
    print_hash("widening", wide);
}

static void tier2(void)
{
    uint64_t rng = 2;
    hash h = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t a = any_bits(&rng), b = i % 3 ? any_bits(&rng) : a ^ (uint32_t)(next(&rng) & 0x80000003),
                 c = any_bits(&rng);
        tv_round round = i % 4;
        hash_number(&h, tv_tier2_add(a, b, round));
        hash_number(&h, tv_tier2_mul(a, b, round));
        hash_number(&h, tv_tier2_fma(a, b, c, round));
        hash_number(&h, tv_tier2_max(a, b));
        hash_number(&h, tv_tier2_min(a, b));
        hash_number(&h, tv_tier2_from_s32((int32_t)c, round));
        hash_number(&h, (uint32_t)tv_tier2_to_int(a, 8u << i % 3, i & 8, round));
        hash_number(&h, tv_tier2_to_bf16(a, round));
        hash_number(&h, tv_tier2_to_bf8(a, i & 16, round));
        hash_number(&h, tv_tier2_from_bf16((uint16_t)b));
        hash_number(&h, tv_tier2_from_bf8((uint8_t)b, i & 16));
    }
    print_hash("tier2", h);
}

static void elements(void)
{
    uint64_t rng = 6;
    hash h = 0;
    for (unsigned round = 0; round < ROUNDS / N; round++) {
        float x[N], y[N], z[N];
        uint8_t bytes[4 * N];
        uint16_t bf16[N];
        for (unsigned i = 0; i < N; i++) {
            x[i] = tv_f32_of_bits(any_bits(&rng));
            y[i] = values(&rng);
        }
        tv_elements_to_f32(x, N, bytes);
        hash_bytes(&h, bytes, 4 * N);
        tv_elements_to_s8(x, N, (int8_t *)bytes);
        hash_bytes(&h, bytes, N);
        tv_elements_to_f16(x, N, bytes);
        hash_bytes(&h, bytes, 2 * N);
        tv_elements_from_f16(bytes, N, z); /* NaN becomes canonical */
        hash_bytes(&h, z, sizeof z);
        tv_elements_epilogue(y, N - 1, round % 2 ? y + 1 : NULL, NULL, 0.7f, z);
        hash_bytes(&h, z, (N - 1) * sizeof *z);
        tv_scale_f32(y, N, 0.3f, round % 2, z);
        hash_bytes(&h, z, sizeof z);
        for (unsigned f = 0; f < TV_FUNCS && round < 20; f++) {
            tv_func_f32_row((tv_func)f, round % 2 ? x : y, N, z);
            hash_bytes(&h, z, sizeof z);
            tv_func_bf16_row((tv_func)f, round % 2 ? x : y, N, bf16);
            hash_bytes(&h, bf16, sizeof bf16);
            tv_func_sum_row((tv_func)f, round % 2 ? x : y, N, bf16, bf16);
            hash_bytes(&h, bf16, sizeof bf16);
        }
    }
    print_hash("elements", h);
}

static void functions(void)
{
    uint64_t rng = 3;
    hash bf16 = 0, f32 = 0, angles = 0;
    for (unsigned f = 0; f < TV_FUNCS; f++) {
        for (uint32_t i = 0; i < 1 << 16; i += 37)
            hash_number(&bf16, tv_func_bf16((tv_func)f, tv_bf16_to_f32((uint16_t)i)));
        for (unsigned i = 0; i < ROUNDS / 10; i++)
            hash_f32(&f32, tv_func_f32((tv_func)f, i % 2 ? values(&rng) : tv_f32_of_bits(any_bits(&rng))));
    }
    for (unsigned i = 0; i < ROUNDS / 10; i++)
        hash_f32(&angles, tv_func_f32_of_angle(i % 2 ? TV_FUNC_SIN : TV_FUNC_COS, (double)values(&rng) * 1000));
    print_hash("functions bf16", bf16);
    print_hash("functions f32", f32);
    print_hash("angles", angles);
}

static void rows(void)
{
    uint64_t rng = 4;
    hash bf16 = 0, quantized = 0, sums = 0;
    for (unsigned round = 0; round < ROUNDS / N; round++) {
        uint16_t x[N], out[N];
        int32_t acc[N];
        float wide[N], scale[N], windows[20];
        size_t at[9];
        uint32_t words[9];
        int8_t q[N], r[N];
        uint8_t packed[N / 2];
        bool finite;
        for (unsigned i = 0; i < N; i++) {
            x[i] = (uint16_t)any_bits(&rng);
            acc[i] = (int32_t)next(&rng);
            scale[i] = values(&rng);
        }
        tv_bf16_widen(x, N, wide);
        hash_bytes(&bf16, wide, sizeof wide);
        hash_number(&bf16, tv_bf16_absmax(x, round));
        tv_bf16_scale(acc, 1 + round % 2, 0x1.8p-20f, scale, round % 3 ? x : NULL, N / 2, out);
        hash_bytes(&bf16, out, N / 2 * sizeof *out);
        for (unsigned i = 0; i < N; i++)
            wide[i] = values(&rng);
        hash_f32(&quantized, tv_absmax(wide, N, &finite));
        hash_f32(&quantized, tv_quantize_error(wide, N, 0x1.9p-3f, -8, 7));
        tv_quantize_s8(wide, N, 0x1.9p-3f, -127, 127, q);
        hash_bytes(&quantized, q, sizeof q);
        tv_quantize_s8(wide, N, 0x1p-3f, -127, 127, q);
        hash_bytes(&quantized, q, sizeof q);
        tv_pack_s4(q, N, packed);
        hash_bytes(&quantized, packed, sizeof packed);
        tv_unpack_s4(packed, N, r);
        hash_bytes(&quantized, r, sizeof r);
        hash_number(&sums, (uint64_t)tv_dot_s8(q, r, N));
        hash_f32(&sums, tv_sum_f32(wide, N - round % 8));
        hash_f32(&sums, tv_dot_f32(wide, scale, N - round % 8));
        for (unsigned i = 0; i < 9; i++)
            at[i] = i / 3 * 20 + i % 3;
        tv_window_dots_f32(wide, 1 + round % 3, at, scale, 9, 20, windows);
        hash_bytes(&sums, windows, sizeof windows);
        tv_dots_u32((const uint32_t *)acc, 11, (const uint32_t *)acc + N / 2, N / 2 - 1, 9, words);
        hash_bytes(&sums, words, sizeof words);
        tv_add_scaled(wide, scale, 0.3f, scale + 7, N - 7);
        hash_bytes(&sums, wide, sizeof wide);
    }
    print_hash("bf16 rows", bf16);
    print_hash("quantizers", quantized);
    print_hash("sums", sums);
}

static hash products_at(tv_cpu_level level)
{
    static uint8_t weights[COUNT * N];
    static int8_t a[COUNT * N], w[COUNT * N], packed[TV_S4_BLOCK * 2];
    static float x[COUNT * N], scales[N];
    static int32_t acc[TV_OUTER_K_MAX * TV_OUTER_K_MAX];
    uint64_t rng = 5;
    hash h = 0;
    memset(acc, 0, sizeof acc);
    for (unsigned round = 0; round < 60; round++) {
        int32_t out[COUNT * COUNT], sums[COUNT];
        float floats[COUNT];
        size_t n = 1 + next(&rng) % N, beats = 1 + round % 7;
        for (size_t i = 0; i < COUNT * N; i++) {
            weights[i] = (uint8_t)next(&rng);
            a[i] = (int8_t)next(&rng);
            w[i] = (int8_t)next(&rng);
            x[i] = round % 5 ? values(&rng)
                             : tv_f32_of_bits(any_bits(&rng) & 0xBFFFFFFF); /* with subnormals, without infinities */
        }
        for (size_t i = 0; i < N; i++)
            scales[i] = values(&rng);
        tv_dots_f32_s8(level)(x, n, w, n, n, COUNT, floats);
        hash_bytes(&h, floats, sizeof floats);
        tv_gemm_s4s8_pack(a, beats, packed, sums);
        tv_gemm_s4s8(level)(weights, beats, COUNT, packed, 0, sums, 1, out);
        hash_bytes(&h, out, COUNT * sizeof *out);
        tv_dots_s8(level)(a, n, w, n, n, COUNT, out);
        hash_bytes(&h, out, COUNT * sizeof *out);
        for (size_t i = 0; i < COUNT; i++)
            sums[i] = tv_sum_s8(a + i * n, n);
        tv_gemm_s8s8(level)(w, n, COUNT, a, sums, COUNT, out);
        hash_bytes(&h, out, sizeof out);
        for (unsigned bits = 4; bits <= 8; bits += 4) {
            size_t groups = 1 + round % (N / TV_GROUP_SIZE);
            int8_t grouped[TV_GROUPS_PER_VECTOR * TV_GROUP_SIZE];
            int32_t offsets[TV_GROUPS_PER_VECTOR];
            tv_gemv_grouped_pack(a, groups * TV_GROUP_SIZE, bits, grouped, offsets);
            tv_gemv_grouped(level, bits)(weights, groups * TV_GROUP_SIZE, COUNT, grouped, offsets, 0.3f, x, floats);
            hash_bytes(&h, floats, sizeof floats);
        }
        uint8_t short_rows[2 * COUNT];
        for (size_t i = 0; i < COUNT; i++)
            tv_store_le(short_rows + 2 * i, tv_bf16_from_f32(x[i]), 2);
        int32_t sum;
        tv_gemm_s4s8_pack(a, beats, packed, &sum);
        tv_gemv_scaled(level)(&(tv_gemv_scaled_args){weights, beats, COUNT, packed, sum, 0x1.3p-9f,
                                                     round % 3 ? (const uint8_t *)scales : NULL, round % 2,
                                                     short_rows});
        hash_bytes(&h, short_rows, sizeof short_rows);
        for (size_t i = 0; i < COUNT; i++)
            floats[i] = 0.01f + 0.37f * (float)i;
        hash_number(&h, tv_scale_search(level)(scales, n, scales[0], floats, COUNT, -8, 7));
        uint32_t k = 4u << round % 5;
        tv_outer_s8(level)(acc, k, a, w, 1 + round % (COUNT * N / TV_OUTER_K_MAX), 0, k);
        hash_bytes(&h, acc, k * k * sizeof *acc);
    }
    return h;
}

static void block_formats(void)
{
    enum { BLOCKS = 64 };
    uint64_t rng = 9;
    hash h = 0;
    static uint64_t words[BLOCKS * TV_BLOCK_LARGE / sizeof(uint64_t)];
    static float weights[BLOCKS * TV_BLOCK_LARGE];
    for (size_t i = 0; i < TV_COUNTOF(words); i++)
        words[i] = next(&rng);
#define TV_BLOCK_FORMAT(id, name, number, block, bytes)                                                                \
    tv_block_decode_##id((const uint8_t *)words, BLOCKS, weights);                                                     \
    for (size_t i = 0; i < BLOCKS * block; i++)                                                                        \
        hash_number(&h, tv_f32_canonical(weights[i]));
#include "kernels/block_formats.def"
#undef TV_BLOCK_FORMAT
    print_hash("block formats", h);
}

int main(void)
{
    conversions();
    tier2();
    functions();
    elements();
    block_formats();
    rows();
    hash products = products_at(TV_CPU_SCALAR);
    print_hash("products", products);
    for (unsigned level = 1; level <= (unsigned)tv_cpu_host(); level++)
        if (products_at((tv_cpu_level)level) != products) {
            fprintf(stderr, "products: %s differs from the plain version\n", tv_cpu_names[level]);
            return 1;
        }
    return 0;
}
