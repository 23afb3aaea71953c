/* SPDX-License-Identifier: Apache-2.0 */
/* The quantization of a vector of BF16 with AVX-512. A vector has the 32 elements of a beat; those of even and of odd
 * index, which are packed apart, are the halves of its lanes of 32 bits. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/bf16.h"
#include "kernels/clones.h"
#include "kernels/variants.h"
#include "num/float_x86.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

enum { HALF = TV_S4_BLOCK / 2, BEATS_PER_BLOCK = TV_S4_BLOCK / TV_S4_BEAT };

/* The numbers of a beat, with zeros after the end of the vector. */
TARGET TV_INLINE __m512i load_beat(const uint8_t *x, size_t n, size_t at)
{
    __mmask32 mask = n - at < TV_S4_BEAT ? (__mmask32)((1u << (n - at)) - 1) : UINT32_MAX;
    return _mm512_maskz_loadu_epi16(mask, x + 2 * at);
}

/* The maximum of 32 unsigned numbers of 16 bits. */
TARGET TV_INLINE uint16_t max_u16(__m512i x)
{
    __m256i of_16 = _mm256_max_epu16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    __m128i of_8 = _mm_max_epu16(_mm256_castsi256_si128(of_16), _mm256_extracti128_si256(of_16, 1));
    __m128i min = _mm_minpos_epu16(_mm_xor_si128(of_8, _mm_set1_epi16(-1)));
    return (uint16_t)~_mm_cvtsi128_si32(min);
}

/* A scale, of which a power of two is multiplied by its inverse: the same quotients, without division. */
typedef struct divisor {
    __m512 factor;
    bool divides;
} divisor;

/* x / scale as integers, subnormals as zeros. */
TARGET TV_INLINE __m512i quantize_lanes(__m512 x, divisor d)
{
    const __m512 max = _mm512_set1_ps(127), min = _mm512_set1_ps(-127);
    __m512 flushed = tv_f32_flush_x16(x),
           quotient = d.divides ? _mm512_div_ps(flushed, d.factor) : _mm512_mul_ps(flushed, d.factor);
    return _mm512_cvtps_epi32(_mm512_max_ps(_mm512_min_ps(quotient, max), min));
}

TARGET TV_INLINE void store_bytes(int8_t *to, __m128i bytes) { _mm_storeu_si128((__m128i *)(void *)to, bytes); }

TARGET tv_quantized_row tv_quantize_bf16_avx512(const uint8_t *x, size_t n, uint16_t act_scale, bool pack, int8_t *q)
{
    __m512i max = _mm512_setzero_si512(), sum = max;
    for (size_t at = 0; at < n; at += TV_S4_BEAT)
        max = _mm512_max_epu16(max, tv_bf16_abs_x32(load_beat(x, n, at)));
    tv_quantized_row row = {.absmax = max_u16(max)};
    row.scale = tv_bf16_row_scale(row.absmax, act_scale);
    if (!tv_bf16_is_finite(row.absmax))
        return row;
    float inverse = 1 / row.scale;
    bool divides = !tv_f32_is_power_of_two(row.scale) || !tv_f32_is_power_of_two(inverse);
    divisor d = {_mm512_set1_ps(divides ? row.scale : inverse), divides};
    size_t beats = (n + TV_S4_BEAT - 1) / TV_S4_BEAT;
    if (pack && beats % BEATS_PER_BLOCK) {
        int8_t *last = q + beats / BEATS_PER_BLOCK * TV_S4_BLOCK;
        _mm512_storeu_si512(last, _mm512_setzero_si512());
        _mm512_storeu_si512(last + HALF, _mm512_setzero_si512());
    }
    for (size_t b = 0; b < beats; b++) {
        __m512i beat = load_beat(x, n, b * TV_S4_BEAT), even = quantize_lanes(tv_bf16_even_to_f32_x16(beat), d),
                odd = quantize_lanes(tv_bf16_odd_to_f32_x16(beat), d);
        __m128i even_bytes = _mm512_cvtepi32_epi8(even), odd_bytes = _mm512_cvtepi32_epi8(odd);
        if (pack) {
            int8_t *to = q + b / BEATS_PER_BLOCK * TV_S4_BLOCK + b % BEATS_PER_BLOCK * (TV_S4_BEAT / 2);
            store_bytes(to, even_bytes);
            store_bytes(to + HALF, odd_bytes);
        } else {
            store_bytes(q + b * TV_S4_BEAT, _mm_unpacklo_epi8(even_bytes, odd_bytes));
            store_bytes(q + b * TV_S4_BEAT + TV_S4_BEAT / 2, _mm_unpackhi_epi8(even_bytes, odd_bytes));
        }
        sum = _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
    }
    row.sum = _mm512_reduce_add_epi32(sum);
    return row;
}
#else
typedef int tv_no_x86; /* ISO C wants a declaration */
#endif
