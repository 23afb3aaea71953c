/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled matrix-vector products with AVX2 and AVX-512: 16 rows of one, two or four beats at a time. A tree of
 * additions leaves the sum of each row in its lane, and the sums stay in registers until they are BF16. Other row
 * lengths use the general product kernel. Weights are made unsigned (w + 8) for the multiply instructions; 8 times the
 * sum of the activations is subtracted. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"
#include "kernels/variants.h"
#include "kernels/x86/nibbles.h"
#include "num/float_x86.h"

#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

enum {
    ROWS = 16,
    HALF = TV_S4_BLOCK / 2,
    FLIP_NIBBLES = 0x88,
    NIBBLE = 15,
    BEAT_BYTES = TV_S4_BEAT / 2,
    LINE = 64 /* bytes of a cache line */
};

/* ---- AVX2 ---- */

/* The activations of even and of odd index, by vectors of weights; a single beat is repeated for two rows. */
typedef struct packed_input_avx2 {
    __m256i even[2], odd[2];
    ptrdiff_t ahead; /* see tv_gemv_scaled_args */
} packed_input_avx2;

TARGET_AVX2 TV_INLINE __m256i load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

TARGET_AVX2 TV_INLINE __m256i load_beat_twice(const int8_t *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
}

TARGET_AVX2 TV_INLINE packed_input_avx2 load_input_avx2(const tv_gemv_scaled_args *r, unsigned beats)
{
    packed_input_avx2 o;
    o.ahead = r->ahead;
    const int8_t *even = r->packed, *odd = r->packed + HALF;
    o.even[0] = beats == 1 ? load_beat_twice(even) : load256(even);
    o.odd[0] = beats == 1 ? load_beat_twice(odd) : load256(odd);
    o.even[1] = beats == 4 ? load256(even + 32) : _mm256_setzero_si256();
    o.odd[1] = beats == 4 ? load256(odd + 32) : _mm256_setzero_si256();
    return o;
}

/* Sums of four products in 16 bits, with the activations of vector `v`: at most 4 * 15 * 128, a quarter of what 16 bits
 * hold. */
TARGET_AVX2 TV_INLINE __m256i multiply_vector_avx2(const uint8_t *w, const packed_input_avx2 *o, unsigned v)
{
    const __m256i nibble = _mm256_set1_epi8(NIBBLE);
    __m256i both = _mm256_xor_si256(load256(w), _mm256_set1_epi8((char)FLIP_NIBBLES));
    __m256i low = _mm256_and_si256(both, nibble), high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
    return _mm256_add_epi16(_mm256_maddubs_epi16(low, o->even[v]), _mm256_maddubs_epi16(high, o->odd[v]));
}

/* The same for a row of two or four beats, or for two rows of one beat. */
TARGET_AVX2 TV_INLINE __m256i multiply_row_avx2(const uint8_t *w, unsigned beats, const packed_input_avx2 *o)
{
    __m256i products = multiply_vector_avx2(w, o, 0);
    return beats == 4 ? _mm256_add_epi16(products, multiply_vector_avx2(w + 32, o, 1)) : products;
}

/* Adds neighbors: two totals of `a` and two of `b` in the lanes of each half. */
TARGET_AVX2 TV_INLINE __m256i sum_pairs_avx2(__m256i a, __m256i b)
{
    __m256i sums = _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
}

/* Four totals in the lanes of each half. */
TARGET_AVX2 TV_INLINE __m256i sum_quads_avx2(const __m256i pairs[2])
{
    return _mm256_add_epi32(_mm256_unpacklo_epi64(pairs[0], pairs[1]), _mm256_unpackhi_epi64(pairs[0], pairs[1]));
}

/* Sums of even and of odd index: first of eight vectors, later of 16 rows, as rounding to BF16 needs them. */
typedef struct sums_avx2 {
    __m256i even, odd;
} sums_avx2;

/* Eight vectors of products, `step` bytes of weights apart. Prefetches the weights that follow. */
TARGET_AVX2 TV_INLINE sums_avx2 sum_eight_avx2(const uint8_t *w, size_t step, unsigned beats,
                                               const packed_input_avx2 *o)
{
    __m256i even[2], odd[2];
    for (unsigned i = 0; i < 2; i++, w += 4 * step) {
        __m256i v[4];
        for (size_t next = 0; next < 4 * step; next += LINE)
            _mm_prefetch((const char *)w + o->ahead + next, _MM_HINT_T1);
        for (unsigned k = 0; k < 4; k++)
            v[k] = multiply_row_avx2(w + k * step, beats, o);
        even[i] = sum_pairs_avx2(v[0], v[2]);
        odd[i] = sum_pairs_avx2(v[1], v[3]);
    }
    return (sums_avx2){sum_quads_avx2(even), sum_quads_avx2(odd)};
}

/* The low half of both, then the high half of both. */
TARGET_AVX2 TV_INLINE sums_avx2 exchange_halves_avx2(__m256i a, __m256i b)
{
    return (sums_avx2){_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)};
}

TARGET_AVX2 TV_INLINE __m256i add_halves_avx2(__m256i a, __m256i b)
{
    sums_avx2 halves = exchange_halves_avx2(a, b);
    return _mm256_add_epi32(halves.even, halves.odd);
}

/* The sums of 16 rows. */
TARGET_AVX2 TV_INLINE sums_avx2 sum_rows_avx2(const uint8_t *w, unsigned beats, const packed_input_avx2 *o)
{
    const size_t bytes = beats * BEAT_BYTES;
    if (beats == 1) { /* vector k has row 2k in its low half and row 2k + 1 in its high half */
        sums_avx2 s = sum_eight_avx2(w, 2 * bytes, 1, o);
        return exchange_halves_avx2(_mm256_unpacklo_epi32(s.even, s.odd), _mm256_unpackhi_epi32(s.even, s.odd));
    }
    sums_avx2 first = sum_eight_avx2(w, bytes, beats, o), second = sum_eight_avx2(w + 8 * bytes, bytes, beats, o);
    return (sums_avx2){add_halves_avx2(first.even, second.even), add_halves_avx2(first.odd, second.odd)};
}

/* Not inlined, because it is rare and needs registers. */
TARGET_AVX2 __attribute__((noinline)) static __m256i round_any_avx2(__m256 even, __m256 odd)
{
    return tv_bf16_flushed_from_f32_2x8(even, odd);
}

/* As tv_bf16_flushed_from_f32, of 16 numbers. */
TARGET_AVX2 TV_INLINE __m256i round_rows_avx2(__m256 even, __m256 odd)
{
    __m256i rounded = tv_bf16_from_f32_2x8(even, odd);
    __m256i any =
        _mm256_or_si256(tv_bf16_may_be_tiny_x16(rounded), _mm256_castps_si256(_mm256_cmp_ps(even, odd, _CMP_UNORD_Q)));
    return _mm256_movemask_epi8(any) == 0 ? rounded : round_any_avx2(even, odd);
}

TARGET_AVX2 TV_INLINE __m256 scale_sums_avx2(const tv_gemv_scaled_args *r, __m256i sums)
{
    __m256i exact = _mm256_sub_epi32(sums, _mm256_set1_epi32(8 * r->sum));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(exact), _mm256_set1_ps(r->vector_scale));
}

/* Scales 16 rows, accumulates and stores them; `scales` may be NULL. */
TARGET_AVX2 TV_INLINE void store_rows_avx2(const tv_gemv_scaled_args *r, sums_avx2 sums, const uint8_t *scales,
                                           uint8_t *out)
{
    __m256 even = scale_sums_avx2(r, sums.even), odd = scale_sums_avx2(r, sums.odd);
    if (scales) {
        __m256i factors = load256(scales);
        even = _mm256_mul_ps(even, tv_bf16_even_to_f32_x8(factors));
        odd = _mm256_mul_ps(odd, tv_bf16_odd_to_f32_x8(factors));
    }
    if (r->add) {
        __m256i old = load256(out);
        even = _mm256_add_ps(even, tv_bf16_even_to_f32_x8(old));
        odd = _mm256_add_ps(odd, tv_bf16_odd_to_f32_x8(old));
    }
    _mm256_storeu_si256((__m256i *)(void *)out, round_rows_avx2(even, odd));
}

TARGET_AVX2 TV_INLINE void multiply_short_rows_avx2(const tv_gemv_scaled_args *r, unsigned beats)
{
    const packed_input_avx2 o = load_input_avx2(r, beats);
    const size_t bytes = beats * BEAT_BYTES;
    size_t at = 0;
    for (; at + ROWS <= r->rows; at += ROWS) {
        const uint8_t *w = r->weights + at * bytes;
        store_rows_avx2(r, sum_rows_avx2(w, beats, &o), r->scales ? r->scales + 2 * at : NULL, r->out + 2 * at);
    }
    if (at < r->rows) {
        size_t left = r->rows - at;
        uint8_t rest[ROWS * HALF] = {0}, scales[2 * ROWS] = {0}, out[2 * ROWS] = {0};
        memcpy(rest, r->weights + at * bytes, left * bytes);
        memcpy(out, r->out + 2 * at, 2 * left);
        if (r->scales)
            memcpy(scales, r->scales + 2 * at, 2 * left);
        store_rows_avx2(r, sum_rows_avx2(rest, beats, &o), r->scales ? scales : NULL, out);
        memcpy(r->out + 2 * at, out, 2 * left);
    }
}

TARGET_AVX2 void tv_gemv_scaled_avx2(const tv_gemv_scaled_args *r)
{
    switch (r->beats) {
    case 1:
        multiply_short_rows_avx2(r, 1);
        break;
    case 2:
        multiply_short_rows_avx2(r, 2);
        break;
    case 4:
        multiply_short_rows_avx2(r, 4);
        break;
    default:
        tv_gemv_scaled_with(tv_gemm_s4s8_avx2, r);
        break;
    }
}

/* ---- AVX-512 with VNNI ---- */

/* The activations of even and of odd index, repeated for each row in a vector, and the initial value of the
 * accumulator: -8 times the sum of the activations in the first lane of each row, because weights are made unsigned (w
 * + 8). */
typedef struct packed_input {
    __m512i even, odd, begin;
    ptrdiff_t ahead; /* see tv_gemv_scaled_args */
} packed_input;

TARGET_AVX512 TV_INLINE packed_input load_input(const tv_gemv_scaled_args *r, unsigned beats)
{
    packed_input o;
    const int8_t *even = r->packed, *odd = r->packed + HALF;
    __m512i begin = _mm512_set1_epi32(-8 * r->sum);
    o.ahead = r->ahead;
    if (beats == 1) {
        o.even = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)even));
        o.odd = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)odd));
        o.begin = _mm512_maskz_mov_epi32(0x1111, begin);
    } else if (beats == 2) {
        o.even = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)even));
        o.odd = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)odd));
        o.begin = _mm512_maskz_mov_epi32(0x0101, begin);
    } else {
        o.even = _mm512_loadu_si512(even);
        o.odd = _mm512_loadu_si512(odd);
        o.begin = _mm512_maskz_mov_epi32(0x0001, begin);
    }
    return o;
}

/* The products of a vector of weights with the activations. Prefetches the weights that follow. */
TARGET_AVX512 TV_INLINE __m512i multiply_input(const uint8_t *w, const packed_input *o)
{
    _mm_prefetch((const char *)w + o->ahead, _MM_HINT_T1);
    __m512i both = _mm512_loadu_si512(w), low = _mm512_dpbusd_epi32(o->begin, tv_low_weights_avx512(both), o->even);
    return _mm512_dpbusd_epi32(low, tv_high_weights_avx512(both), o->odd);
}

/* The sums of four rows in four lanes each. */
TARGET_AVX512 TV_INLINE __m512i four_rows(const uint8_t *w, unsigned beats, const packed_input *o)
{
    if (beats == 1)
        return multiply_input(w, o);
    __m512i two[2];
    for (unsigned i = 0; i < 2; i++) { /* two rows in eight lanes each */
        const uint8_t *at = w + i * 2 * beats * BEAT_BYTES;
        if (beats == 2) {
            two[i] = multiply_input(at, o);
        } else {
            __m512i a = multiply_input(at, o), b = multiply_input(at + beats * BEAT_BYTES, o);
            two[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xEE));
        }
    }
    return _mm512_add_epi32(_mm512_shuffle_i32x4(two[0], two[1], 0x88), _mm512_shuffle_i32x4(two[0], two[1], 0xDD));
}

/* The sums of 16 rows, one lane each. */
TARGET_AVX512 TV_INLINE __m512i sum_rows(const uint8_t *w, unsigned beats, const packed_input *o)
{
    __m512i v[4], pair[2];
    for (unsigned i = 0; i < 4; i++)
        v[i] = four_rows(w + i * 4 * beats * BEAT_BYTES, beats, o);
    for (unsigned i = 0; i < 2; i++)
        pair[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                   _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(pair[0], pair[1]), _mm512_unpackhi_epi64(pair[0], pair[1]));
    const __m512i order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); /* lane 4i + j has row i + 4j */
    return _mm512_permutexvar_epi32(order, all);
}

/* Scales, accumulates and stores the rows of `mask` from row `at` on. */
TARGET_AVX512 TV_INLINE void store_rows(const tv_gemv_scaled_args *r, size_t at, __mmask16 mask, __m512i sums)
{
    uint8_t *out = r->out + 2 * at;
    __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_set1_ps(r->vector_scale));
    if (r->scales)
        y = _mm512_mul_ps(y, tv_bf16_to_f32_x16(_mm256_maskz_loadu_epi16(mask, r->scales + 2 * at)));
    if (r->add)
        y = _mm512_add_ps(y, tv_bf16_to_f32_x16(_mm256_maskz_loadu_epi16(mask, out)));
    _mm256_mask_storeu_epi16(out, mask, tv_bf16_flushed_from_f32_x16(y));
}

TARGET_AVX512 TV_INLINE void multiply_short_rows(const tv_gemv_scaled_args *r, unsigned beats)
{
    const packed_input o = load_input(r, beats);
    size_t bytes = beats * BEAT_BYTES, at = 0;
    for (; at + ROWS <= r->rows; at += ROWS)
        store_rows(r, at, 0xFFFF, sum_rows(r->weights + at * bytes, beats, &o));
    if (at < r->rows) {
        uint8_t rest[ROWS * HALF] = {0};
        memcpy(rest, r->weights + at * bytes, (r->rows - at) * bytes);
        store_rows(r, at, (__mmask16)((1u << (r->rows - at)) - 1), sum_rows(rest, beats, &o));
    }
}

TARGET_AVX512 void tv_gemv_scaled_avx512(const tv_gemv_scaled_args *r)
{
    switch (r->beats) {
    case 1:
        multiply_short_rows(r, 1);
        break;
    case 2:
        multiply_short_rows(r, 2);
        break;
    case 4:
        multiply_short_rows(r, 4);
        break;
    default:
        tv_gemv_scaled_with(tv_gemm_s4s8_avx512, r);
        break;
    }
}
#else
typedef int tv_no_x86; /* ISO C wants a declaration */
#endif
