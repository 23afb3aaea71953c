/* SPDX-License-Identifier: Apache-2.0 */
/* The quantization of a vector of BF16 with AVX2 and AVX-512, by beats of 32 elements. Those of even and of odd index,
 * which are packed apart, are the halves of lanes of 32 bits. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/bf16.h"
#include "kernels/clones.h"
#include "kernels/variants.h"
#include "num/float_x86.h"

#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

enum { HALF = TV_S4_BLOCK / 2, BEATS_PER_BLOCK = TV_S4_BLOCK / TV_S4_BEAT, QUOTIENT_MAX = 127 };

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

TARGET_AVX2 tv_quantized_row tv_quantize_bf16_avx2(const uint8_t *x, size_t n, uint16_t act_scale, bool pack, int8_t *q)
{
    __m256i max = _mm256_setzero_si256(), sum = max;
    for (size_t at = 0; at < n; at += TV_S4_BEAT) {
        const beat_avx2 b = load_beat_avx2(x, n, at);
        max = _mm256_max_epu16(max, _mm256_max_epu16(tv_bf16_abs_x16(b.first), tv_bf16_abs_x16(b.second)));
    }
    tv_quantized_row row = {.absmax =
                                max_u16(_mm_max_epu16(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1)))};
    row.scale = tv_bf16_row_scale(row.absmax, act_scale);
    if (!tv_bf16_is_finite(row.absmax))
        return row;
    const divisor d = divisor_of(row.scale);
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
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)),
            two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    row.sum = _mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 1);
    return row;
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

TARGET_AVX512 tv_quantized_row tv_quantize_bf16_avx512(const uint8_t *x, size_t n, uint16_t act_scale, bool pack,
                                                       int8_t *q)
{
    __m512i max = _mm512_setzero_si512(), sum = max;
    for (size_t at = 0; at < n; at += TV_S4_BEAT)
        max = _mm512_max_epu16(max, tv_bf16_abs_x32(load_beat_avx512(x, n, at)));
    __m256i of_16 = _mm256_max_epu16(_mm512_castsi512_si256(max), _mm512_extracti64x4_epi64(max, 1));
    tv_quantized_row row = {
        .absmax = max_u16(_mm_max_epu16(_mm256_castsi256_si128(of_16), _mm256_extracti128_si256(of_16, 1)))};
    row.scale = tv_bf16_row_scale(row.absmax, act_scale);
    if (!tv_bf16_is_finite(row.absmax))
        return row;
    const divisor d = divisor_of(row.scale);
    const size_t beats = (n + TV_S4_BEAT - 1) / TV_S4_BEAT;
    if (pack)
        clear_last_block(q, beats);
    for (size_t i = 0; i < beats; i++) {
        __m512i beat = load_beat_avx512(x, n, i * TV_S4_BEAT), even = quantize_avx512(tv_bf16_even_to_f32_x16(beat), d),
                odd = quantize_avx512(tv_bf16_odd_to_f32_x16(beat), d);
        store_beat(q, i, pack, (beat_bytes){_mm512_cvtepi32_epi8(even), _mm512_cvtepi32_epi8(odd)});
        sum = _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
    }
    row.sum = _mm512_reduce_add_epi32(sum);
    return row;
}
#else
typedef int tv_no_x86; /* ISO C wants a declaration */
#endif
