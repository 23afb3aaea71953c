/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled matrix-vector products with AVX-512: 16 rows of one, two or four beats at a time, four, two or one per vector.
 * A tree of additions leaves the sum of each row in its lane, and the sums stay in registers until they are BF16. Other
 * row lengths and AVX2 use the general product kernel. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"
#include "kernels/variants.h"
#include "num/float_x86.h"

#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

enum {
    ROWS = 16,
    HALF = TV_S4_BLOCK / 2,
    FLIP_NIBBLES = 0x88,
    NIBBLE = 15,
    BEAT_BYTES = TV_S4_BEAT / 2,
    PREFETCH_BYTES = 20480
};

void tv_gemv_scaled_avx2(const tv_gemv_scaled_args *r) { tv_gemv_scaled_with(tv_gemm_s4s8_avx2, r); }

/* The activations of even and of odd index, repeated for each row in a vector, and the initial value of the
 * accumulator: -8 times the sum of the activations in the first lane of each row, because weights are made unsigned (w
 * + 8). */
typedef struct packed_input {
    __m512i even, odd, begin;
} packed_input;

TARGET_AVX512 TV_INLINE packed_input load_input(const tv_gemv_scaled_args *r, unsigned beats)
{
    packed_input o;
    const int8_t *even = r->packed, *odd = r->packed + HALF;
    __m512i begin = _mm512_set1_epi32(-8 * r->sum);
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
    _mm_prefetch((const char *)w + PREFETCH_BYTES, _MM_HINT_T1);
    const __m512i nibble = _mm512_set1_epi8(NIBBLE);
    __m512i both = _mm512_xor_si512(_mm512_loadu_si512(w), _mm512_set1_epi8((char)FLIP_NIBBLES));
    __m512i low = _mm512_and_si512(both, nibble), high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(o->begin, low, o->even), high, o->odd);
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
