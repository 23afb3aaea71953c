/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of float.h on vectors of 8 with AVX2 and of 16 with AVX-512, with the same results. */
#ifndef TV_NUM_FLOAT_X86_H
#define TV_NUM_FLOAT_X86_H

#include <immintrin.h>

#include "num/float.h"

#define TV_NUM_AVX2 __attribute__((target("avx2"), always_inline)) static inline
#define TV_NUM_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"), always_inline)) static inline

/* ---- 8 numbers ---- */

/* As tv_f32_canonical. */
TV_NUM_AVX2 __m256 tv_f32_canonical_x8(__m256 x)
{
    return _mm256_blendv_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(TV_F32_NAN)), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/* As tv_bf16_to_f32. */
TV_NUM_AVX2 __m256 tv_bf16_to_f32_x8(__m128i bf16)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bf16), 16));
}

/* As tv_bf16_abs, of 16 numbers. */
TV_NUM_AVX2 __m256i tv_bf16_abs_x16(__m256i bf16) { return _mm256_and_si256(bf16, _mm256_set1_epi16(INT16_MAX)); }

/* As tv_f32_flush. */
TV_NUM_AVX2 __m256 tv_f32_flush_x8(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x), exponent = _mm256_and_si256(bits, _mm256_set1_epi32(TV_F32_INF)),
            tiny = _mm256_cmpeq_epi32(exponent, _mm256_setzero_si256());
    return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_srli_epi32(tiny, 1), bits));
}

/* As tv_bf16_to_f32, of the numbers of even or of odd index of 16. */
TV_NUM_AVX2 __m256 tv_bf16_even_to_f32_x8(__m256i bf16) { return _mm256_castsi256_ps(_mm256_slli_epi32(bf16, 16)); }
TV_NUM_AVX2 __m256 tv_bf16_odd_to_f32_x8(__m256i bf16)
{
    return _mm256_castsi256_ps(_mm256_and_si256(bf16, _mm256_set1_epi32((int)0xFFFF0000u)));
}

/* As tv_bf16_from_f32 of numbers that are not NaN, in the high halves of the lanes; the low halves are unspecified. */
TV_NUM_AVX2 __m256i tv_bf16_high_from_f32_x8(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(TV_BF16_TIE)), odd);
}

/* As tv_bf16_flushed_from_f32, in the low halves of the lanes; the high halves are 0. */
TV_NUM_AVX2 __m256i tv_bf16_lanes_from_f32_x8(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x), r = _mm256_srli_epi32(tv_bf16_high_from_f32_x8(x), 16);
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    r = _mm256_blendv_epi8(r, _mm256_set1_epi32(TV_BF16_NAN), is_nan);
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MAX));
    __m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(TV_BF16_NORMAL_FROM), magnitude);
    return _mm256_blendv_epi8(r, _mm256_and_si256(r, _mm256_set1_epi32(TV_BF16_SIGN)), tiny);
}

/* The magnitudes of vectors of numbers, doubled, so that their signs are gone: the minimum and the maximum lane by
 * lane.
 */
typedef struct tv_f32_range_x8 {
    __m256i min, max;
} tv_f32_range_x8;

TV_NUM_AVX2 tv_f32_range_x8 tv_f32_empty_range_x8(void)
{
    return (tv_f32_range_x8){_mm256_set1_epi32(-1), _mm256_setzero_si256()};
}

TV_NUM_AVX2 tv_f32_range_x8 tv_f32_extend_range_x8(tv_f32_range_x8 range, __m256 x)
{
    __m256i bits = _mm256_castps_si256(x), doubled = _mm256_add_epi32(bits, bits);
    return (tv_f32_range_x8){_mm256_min_epu32(range.min, doubled), _mm256_max_epu32(range.max, doubled)};
}

/* Whether no number of the range is NaN, and whether tv_bf16_flushed_from_f32 flushes none and none is 0. */
TV_NUM_AVX2 bool tv_f32_range_has_no_nan_x8(tv_f32_range_x8 range)
{
    const __m256i to = _mm256_set1_epi32((int)(2 * TV_F32_INF));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_min_epu32(range.max, to), range.max)) == -1;
}
TV_NUM_AVX2 bool tv_f32_range_is_normal_bf16_x8(tv_f32_range_x8 range)
{
    const __m256i from = _mm256_set1_epi32((int)(2 * TV_BF16_NORMAL_FROM));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_max_epu32(range.min, from), range.min)) == -1;
}

/* The lanes of 16 rounded numbers that may have to be flushed: from the smallest subnormal number to the smallest
 * normal one. Minus 1, a zero is the largest of all. */
TV_NUM_AVX2 __m256i tv_bf16_may_be_tiny_x16(__m256i bf16)
{
    const __m256i last = _mm256_set1_epi16(TV_BF16_NORMAL_FROM >> 16),
                  below = _mm256_sub_epi16(tv_bf16_abs_x16(bf16), _mm256_set1_epi16(1));
    return _mm256_cmpeq_epi16(_mm256_min_epu16(below, last), below);
}

/* 16 numbers from those of even index, in the low halves of the lanes, and those of odd index, in the high halves. */
TV_NUM_AVX2 __m256i tv_bf16_interleave_2x8(__m256i even, __m256i odd) { return _mm256_blend_epi16(even, odd, 0xAA); }

/* As tv_bf16_from_f32, of 16 numbers that are not NaN: those of even and of odd index. */
TV_NUM_AVX2 __m256i tv_bf16_from_f32_2x8(__m256 even, __m256 odd)
{
    return tv_bf16_interleave_2x8(_mm256_srli_epi32(tv_bf16_high_from_f32_x8(even), 16), tv_bf16_high_from_f32_x8(odd));
}

/* As tv_bf16_flushed_from_f32, of 16 numbers: those of even and of odd index. */
TV_NUM_AVX2 __m256i tv_bf16_flushed_from_f32_2x8(__m256 even, __m256 odd)
{
    return tv_bf16_interleave_2x8(tv_bf16_lanes_from_f32_x8(even),
                                  _mm256_slli_epi32(tv_bf16_lanes_from_f32_x8(odd), 16));
}

/* ---- 16 numbers ---- */

/* As tv_f32_canonical. */
TV_NUM_AVX512 __m512 tv_f32_canonical_x16(__m512 x)
{
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                              _mm512_castsi512_ps(_mm512_set1_epi32(TV_F32_NAN)));
}

/* As tv_bf16_to_f32. */
TV_NUM_AVX512 __m512 tv_bf16_to_f32_x16(__m256i bf16)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

/* As tv_bf16_abs, of 32 numbers. */
TV_NUM_AVX512 __m512i tv_bf16_abs_x32(__m512i bf16) { return _mm512_and_si512(bf16, _mm512_set1_epi16(INT16_MAX)); }

/* As tv_f32_flush. */
TV_NUM_AVX512 __m512 tv_f32_flush_x16(__m512 x)
{
    __m512i bits = _mm512_castps_si512(x);
    __mmask16 tiny = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(TV_F32_INF));
    return _mm512_castsi512_ps(_mm512_mask_and_epi32(bits, tiny, bits, _mm512_set1_epi32((int)TV_F32_SIGN)));
}

/* As tv_bf16_to_f32, of the numbers of even or of odd index of 32. */
TV_NUM_AVX512 __m512 tv_bf16_even_to_f32_x16(__m512i bf16) { return _mm512_castsi512_ps(_mm512_slli_epi32(bf16, 16)); }
TV_NUM_AVX512 __m512 tv_bf16_odd_to_f32_x16(__m512i bf16)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_srli_epi32(bf16, 16), 16));
}

/* As tv_bf16_flushed_from_f32. */
TV_NUM_AVX512 __m256i tv_bf16_flushed_from_f32_x16(__m512 x)
{
    __m512i bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(TV_BF16_TIE)), odd), 16);
    r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_epi32(TV_BF16_NAN));
    __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(INT32_MAX));
    __mmask16 tiny = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(TV_BF16_NORMAL_FROM));
    r = _mm512_mask_and_epi32(r, tiny, r, _mm512_set1_epi32(TV_BF16_SIGN));
    return _mm512_cvtepi32_epi16(r);
}

#endif
