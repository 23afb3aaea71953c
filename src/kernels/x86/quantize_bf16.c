/* SPDX-License-Identifier: Apache-2.0 */
/* The quantization of a vector of BF16 with AVX2 and AVX-512, by beats of 32 elements, or whole rows of 64. Those of
 * even and of odd index, which are packed apart, are the halves of lanes of 32 bits. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/bf16.h"
#include "kernels/clones.h"
#include "kernels/variants.h"
#include "num/float_x86.h"

#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

enum {
    HALF = TV_S4_BLOCK / 2,
    BEATS_PER_BLOCK = TV_S4_BLOCK / TV_S4_BEAT,
    QUOTIENT_MAX = 127,
    SHORT_ROW = 2 * TV_S4_BEAT /* elements */
};

/* A scale, of which a power of two is multiplied by its inverse: the same quotients, without division. */
typedef struct divisor {
    float factor;
    bool divides;
} divisor;

static divisor divisor_of(float scale)
{
    float inverse = 1 / scale;
    bool divides = !tv_f32_is_power_of_two(scale) || !tv_f32_is_power_of_two(inverse);
    return (divisor){divides ? scale : inverse, divides};
}

/* The bytes of the elements of even and of odd index. */
typedef struct beat_bytes {
    __m128i even, odd;
} beat_bytes;

TV_INLINE void store_bytes(int8_t *to, __m128i bytes) { _mm_storeu_si128((__m128i *)(void *)to, bytes); }

TV_INLINE void store_beat(int8_t *q, size_t beat, bool pack, beat_bytes bytes)
{
    if (pack) {
        int8_t *to = q + beat / BEATS_PER_BLOCK * TV_S4_BLOCK + beat % BEATS_PER_BLOCK * (TV_S4_BEAT / 2);
        store_bytes(to, bytes.even);
        store_bytes(to + HALF, bytes.odd);
    } else {
        store_bytes(q + beat * TV_S4_BEAT, _mm_unpacklo_epi8(bytes.even, bytes.odd));
        store_bytes(q + beat * TV_S4_BEAT + TV_S4_BEAT / 2, _mm_unpackhi_epi8(bytes.even, bytes.odd));
    }
}

static void clear_last_block(int8_t *q, size_t beats)
{
    if (beats % BEATS_PER_BLOCK)
        memset(q + beats / BEATS_PER_BLOCK * TV_S4_BLOCK, 0, TV_S4_BLOCK);
}

/* The maximum of 8 unsigned numbers of 16 bits. */
__attribute__((target("sse4.1"), always_inline)) static inline uint16_t max_u16(__m128i x)
{
    return (uint16_t)~_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(x, _mm_set1_epi16(-1))));
}

/* ---- AVX2: the halves of a beat are two vectors ---- */

typedef struct beat_avx2 {
    __m256i first, second;
} beat_avx2;

TARGET_AVX2 TV_INLINE __m256i load_avx2(const uint8_t *x)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)x);
}

/* The numbers of a beat, with zeros after the end of the vector. */
TARGET_AVX2 TV_INLINE beat_avx2 load_beat_avx2(const uint8_t *x, size_t n, size_t at)
{
    enum { BYTES = 2 * TV_S4_BEAT };
    if (n - at >= TV_S4_BEAT)
        return (beat_avx2){load_avx2(x + 2 * at), load_avx2(x + 2 * at + BYTES / 2)};
    uint8_t rest[BYTES] = {0};
    memcpy(rest, x + 2 * at, 2 * (n - at));
    return (beat_avx2){load_avx2(rest), load_avx2(rest + BYTES / 2)};
}

/* x / scale as integers, subnormals as zeros. */
TARGET_AVX2 TV_INLINE __m256i quantize_avx2(__m256 x, divisor d)
{
    const __m256 factor = _mm256_set1_ps(d.factor), max = _mm256_set1_ps(QUOTIENT_MAX),
                 min = _mm256_set1_ps(-QUOTIENT_MAX), flushed = tv_f32_flush_x8(x),
                 quotient = d.divides ? _mm256_div_ps(flushed, factor) : _mm256_mul_ps(flushed, factor);
    return _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(quotient, max), min));
}

/* 16 lanes, which fit, as bytes. */
TARGET_AVX2 TV_INLINE __m128i low_bytes_avx2(__m256i first, __m256i second)
{
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), _MM_SHUFFLE(3, 1, 2, 0));
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

TARGET_AVX2 TV_INLINE __m256i max_abs_avx2(__m256i x, __m256i y)
{
    return _mm256_max_epu16(tv_bf16_abs_x16(x), tv_bf16_abs_x16(y));
}

TARGET_AVX2 TV_INLINE uint16_t reduce_max_avx2(__m256i max)
{
    return max_u16(_mm_max_epu16(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1)));
}

TARGET_AVX2 TV_INLINE int32_t reduce_sum_avx2(__m256i sum)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)),
            two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    return _mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 1);
}

/* The numbers of even, or of odd, index of a short row, times a power of two that makes their magnitudes at most 127.5:
 * bytes in their order. */
TARGET_AVX2 TV_INLINE __m256i short_bytes_avx2(const __m256i x[SHORT_ROW / 16], bool odd, float inverse)
{
    const __m256 factor = _mm256_set1_ps(inverse);
    __m256i lanes[SHORT_ROW / 16];
    for (unsigned i = 0; i < SHORT_ROW / 16; i++)
        lanes[i] =
            _mm256_cvtps_epi32(_mm256_mul_ps(odd ? tv_bf16_odd_to_f32_x8(x[i]) : tv_bf16_even_to_f32_x8(x[i]), factor));
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(lanes[0], lanes[1]), _mm256_packs_epi32(lanes[2], lanes[3])),
            ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return _mm256_max_epi8(ordered, _mm256_set1_epi8((char)-QUOTIENT_MAX));
}

TARGET_AVX2 TV_INLINE void store_avx2(int8_t *to, __m256i bytes) { _mm256_storeu_si256((__m256i *)(void *)to, bytes); }

/* A row of SHORT_ROW elements, or of a beat, with a dynamic scale, as most have. Magnitudes of quotients are at most
 * 127.5, so saturation to bytes and a maximum with -127 clamp them, and subnormals are rounded to 0 unless the scale is
 * too small: then false, and q is unchanged. */
TARGET_AVX2 TV_INLINE bool quantize_short_avx2(const uint8_t *x, size_t n, bool pack, int8_t *q, tv_quantized_row *row)
{
    const float subnormals_vanish_from = 0x1p-125f;
    const bool whole = n == SHORT_ROW;
    const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi8(1),
                  all[SHORT_ROW / 16] = {load_avx2(x), load_avx2(x + 32), whole ? load_avx2(x + 64) : zero,
                                         whole ? load_avx2(x + 96) : zero};
    row->absmax = reduce_max_avx2(_mm256_max_epu16(max_abs_avx2(all[0], all[1]), max_abs_avx2(all[2], all[3])));
    row->scale = tv_bf16_row_scale(row->absmax, 0);
    if (row->scale < subnormals_vanish_from)
        return false;
    const __m256i even = short_bytes_avx2(all, false, 1 / row->scale),
                  odd = short_bytes_avx2(all, true, 1 / row->scale),
                  pairs = _mm256_add_epi16(_mm256_maddubs_epi16(ones, even), _mm256_maddubs_epi16(ones, odd));
    if (pack) {
        store_avx2(q, even);
        store_avx2(q + SHORT_ROW / 2, zero);
        store_avx2(q + HALF, odd);
        store_avx2(q + HALF + SHORT_ROW / 2, zero);
    } else {
        __m256i low = _mm256_unpacklo_epi8(even, odd), high = _mm256_unpackhi_epi8(even, odd);
        store_avx2(q, _mm256_permute2x128_si256(low, high, 0x20));
        if (whole)
            store_avx2(q + TV_S4_BEAT, _mm256_permute2x128_si256(low, high, 0x31));
    }
    row->sum = reduce_sum_avx2(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    return true;
}

TARGET_AVX2 void tv_quantize_bf16_avx2(const uint8_t *x, size_t n, uint16_t act_scale, bool pack, int8_t *q,
                                       tv_quantized_row *row)
{
    __m256i max = _mm256_setzero_si256(), sum = max;
    if (!act_scale && ((n == SHORT_ROW && quantize_short_avx2(x, SHORT_ROW, pack, q, row)) ||
                       (n == TV_S4_BEAT && quantize_short_avx2(x, TV_S4_BEAT, pack, q, row))))
        return;
    for (size_t at = 0; at < n; at += TV_S4_BEAT) {
        const beat_avx2 b = load_beat_avx2(x, n, at);
        max = _mm256_max_epu16(max, max_abs_avx2(b.first, b.second));
    }
    row->absmax = reduce_max_avx2(max);
    row->scale = tv_bf16_row_scale(row->absmax, act_scale);
    if (!tv_bf16_is_finite(row->absmax))
        return;
    const divisor d = divisor_of(row->scale);
    const size_t beats = (n + TV_S4_BEAT - 1) / TV_S4_BEAT;
    if (pack)
        clear_last_block(q, beats);
    for (size_t i = 0; i < beats; i++) {
        const beat_avx2 b = load_beat_avx2(x, n, i * TV_S4_BEAT);
        const __m256i even[2] = {quantize_avx2(tv_bf16_even_to_f32_x8(b.first), d),
                                 quantize_avx2(tv_bf16_even_to_f32_x8(b.second), d)},
                      odd[2] = {quantize_avx2(tv_bf16_odd_to_f32_x8(b.first), d),
                                quantize_avx2(tv_bf16_odd_to_f32_x8(b.second), d)};
        store_beat(q, i, pack, (beat_bytes){low_bytes_avx2(even[0], even[1]), low_bytes_avx2(odd[0], odd[1])});
        sum = _mm256_add_epi32(sum,
                               _mm256_add_epi32(_mm256_add_epi32(even[0], even[1]), _mm256_add_epi32(odd[0], odd[1])));
    }
    row->sum = reduce_sum_avx2(sum);
}

/* ---- AVX-512: a vector is a beat ---- */

/* The numbers of a beat, with zeros after the end of the vector. */
TARGET_AVX512 TV_INLINE __m512i load_beat_avx512(const uint8_t *x, size_t n, size_t at)
{
    __mmask32 mask = n - at < TV_S4_BEAT ? (__mmask32)((1u << (n - at)) - 1) : UINT32_MAX;
    return _mm512_maskz_loadu_epi16(mask, x + 2 * at);
}

/* x / scale as integers, subnormals as zeros. */
TARGET_AVX512 TV_INLINE __m512i quantize_avx512(__m512 x, divisor d)
{
    const __m512 factor = _mm512_set1_ps(d.factor), max = _mm512_set1_ps(QUOTIENT_MAX),
                 min = _mm512_set1_ps(-QUOTIENT_MAX), flushed = tv_f32_flush_x16(x),
                 quotient = d.divides ? _mm512_div_ps(flushed, factor) : _mm512_mul_ps(flushed, factor);
    return _mm512_cvtps_epi32(_mm512_max_ps(_mm512_min_ps(quotient, max), min));
}

TARGET_AVX512 void tv_quantize_bf16_avx512(const uint8_t *x, size_t n, uint16_t act_scale, bool pack, int8_t *q,
                                           tv_quantized_row *row)
{
    __m512i max = _mm512_setzero_si512(), sum = max;
    for (size_t at = 0; at < n; at += TV_S4_BEAT)
        max = _mm512_max_epu16(max, tv_bf16_abs_x32(load_beat_avx512(x, n, at)));
    __m256i of_16 = _mm256_max_epu16(_mm512_castsi512_si256(max), _mm512_extracti64x4_epi64(max, 1));
    row->absmax = max_u16(_mm_max_epu16(_mm256_castsi256_si128(of_16), _mm256_extracti128_si256(of_16, 1)));
    row->scale = tv_bf16_row_scale(row->absmax, act_scale);
    if (!tv_bf16_is_finite(row->absmax))
        return;
    const divisor d = divisor_of(row->scale);
    const size_t beats = (n + TV_S4_BEAT - 1) / TV_S4_BEAT;
    if (pack)
        clear_last_block(q, beats);
    for (size_t i = 0; i < beats; i++) {
        __m512i beat = load_beat_avx512(x, n, i * TV_S4_BEAT), even = quantize_avx512(tv_bf16_even_to_f32_x16(beat), d),
                odd = quantize_avx512(tv_bf16_odd_to_f32_x16(beat), d);
        store_beat(q, i, pack, (beat_bytes){_mm512_cvtepi32_epi8(even), _mm512_cvtepi32_epi8(odd)});
        sum = _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
    }
    row->sum = _mm512_reduce_add_epi32(sum);
}
#else
typedef int tv_no_x86; /* ISO C wants a declaration */
#endif
