/* SPDX-License-Identifier: Apache-2.0 */
/* The scale search with AVX2 and AVX-512: one lane per scale, so that there are no horizontal additions. The 16 partial
 * sums of each scale and their pairwise reduction are those of tv_quantize_error.
 *
 * An error is a sum of squares and rounding is monotonic, so it is not below the term of any single value. A scale
 * whose term for the absmax exceeds the smallest error is therefore skipped. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>

#include "kernels/clones.h"
#include "kernels/variants.h"

#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

enum { SUMS = 16, NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

/* ---- AVX2 ---- */

typedef struct scales8 {
    __m256 scale, inverse, low, high;
} scales8;

TARGET_AVX2 TV_INLINE scales8 load8(const float *scales, int low, int high)
{
    __m256 scale = _mm256_loadu_ps(scales);
    return (scales8){scale, _mm256_div_ps(_mm256_set1_ps(1), scale), _mm256_set1_ps((float)low),
                     _mm256_set1_ps((float)high)};
}

/* The operand order matches the C code for NaN: minimum and maximum return their second operand. */
TARGET_AVX2 TV_INLINE __m256 squared_error8(float value, const scales8 *s)
{
    __m256 x = _mm256_set1_ps(value), q = _mm256_max_ps(s->low, _mm256_min_ps(s->high, _mm256_mul_ps(x, s->inverse)));
    __m256 d = _mm256_sub_ps(x, _mm256_mul_ps(s->scale, _mm256_round_ps(q, NEAREST)));
    return _mm256_mul_ps(d, d);
}

TARGET_AVX2 TV_INLINE __m256 errors8(const float *x, size_t n, const scales8 *s)
{
    __m256 sum[SUMS];
    size_t i = 0;
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < SUMS; lane++)
        sum[lane] = _mm256_setzero_ps();
    for (; i + SUMS <= n; i += SUMS)
#pragma GCC unroll 16
        for (unsigned lane = 0; lane < SUMS; lane++)
            sum[lane] = _mm256_add_ps(sum[lane], squared_error8(x[i + lane], s));
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < SUMS; lane++)
        if (i + lane < n)
            sum[lane] = _mm256_add_ps(sum[lane], squared_error8(x[i + lane], s));
#pragma GCC unroll 4
    for (unsigned half = SUMS / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (unsigned lane = 0; lane < half; lane++)
            sum[lane] = _mm256_add_ps(sum[lane], sum[lane + half]);
    return sum[0];
}

/* Eight scales at a time. The last vector repeats a scale as padding, which does not change the result. */
TARGET_AVX2 unsigned tv_scale_search_avx2(const float *x, size_t n, float absmax, const float *scales, unsigned count,
                                          int low, int high)
{
    enum { LANES = 8 };
    float min_error = INFINITY, errors[LANES], padded[LANES];
    unsigned search_result = count;
    for (unsigned at = 0; at < count; at += LANES) {
        for (unsigned i = 0; i < LANES && at + LANES > count; i++)
            padded[i] = scales[at + i < count ? at + i : at];
        scales8 s = load8(at + LANES > count ? padded : scales + at, low, high);
        if (_mm256_movemask_ps(_mm256_cmp_ps(squared_error8(absmax, &s), _mm256_set1_ps(min_error), _CMP_LT_OQ)) == 0)
            continue;
        _mm256_storeu_ps(errors, errors8(x, n, &s));
        for (unsigned i = 0; i < LANES && at + i < count; i++)
            if (errors[i] < min_error) {
                min_error = errors[i];
                search_result = at + i;
            }
    }
    return search_result;
}

/* ---- AVX-512 ---- */

enum { LANES = 16 };

typedef struct scales16 {
    __m512 scale, inverse, low, high;
} scales16;

TARGET_AVX512 TV_INLINE scales16 load16(__m512 scale, int low, int high)
{
    return (scales16){scale, _mm512_div_ps(_mm512_set1_ps(1), scale), _mm512_set1_ps((float)low),
                      _mm512_set1_ps((float)high)};
}

TARGET_AVX512 TV_INLINE __m512 squared_error16(float value, const scales16 *s)
{
    __m512 x = _mm512_set1_ps(value), q = _mm512_max_ps(s->low, _mm512_min_ps(s->high, _mm512_mul_ps(x, s->inverse)));
    __m512 d = _mm512_sub_ps(x, _mm512_mul_ps(s->scale, _mm512_roundscale_ps(q, NEAREST)));
    return _mm512_mul_ps(d, d);
}

TARGET_AVX512 TV_INLINE __m512 errors16(const float *x, size_t n, const scales16 *s)
{
    __m512 sum[SUMS];
    size_t i = 0;
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < SUMS; lane++)
        sum[lane] = _mm512_setzero_ps();
    for (; i + SUMS <= n; i += SUMS)
#pragma GCC unroll 16
        for (unsigned lane = 0; lane < SUMS; lane++)
            sum[lane] = _mm512_add_ps(sum[lane], squared_error16(x[i + lane], s));
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < SUMS; lane++)
        if (i + lane < n)
            sum[lane] = _mm512_add_ps(sum[lane], squared_error16(x[i + lane], s));
#pragma GCC unroll 4
    for (unsigned half = SUMS / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (unsigned lane = 0; lane < half; lane++)
            sum[lane] = _mm512_add_ps(sum[lane], sum[lane + half]);
    return sum[0];
}

typedef struct search_result {
    float error;
    unsigned index;
} search_result;

/* Updates the result with the errors of the scales of `mask`, in ascending order of index. NaN compares false. */
TARGET_AVX512 TV_INLINE void update_result(__m512 e, __m512i indices, __mmask16 mask, search_result *b)
{
    mask &= _mm512_cmp_ps_mask(e, _mm512_set1_ps(b->error), _CMP_LT_OQ);
    if (mask == 0)
        return;
    b->error = _mm512_mask_reduce_min_ps(mask, e);
    mask &= _mm512_cmp_ps_mask(e, _mm512_set1_ps(b->error), _CMP_EQ_OQ);
    b->index = (unsigned)_mm_cvtsi128_si32(_mm512_castsi512_si128(_mm512_maskz_compress_epi32(mask, indices)));
}

enum { NARROW = 8 };

/* Evaluates up to 16 candidates; up to 8 use narrower vectors. */
TARGET_AVX512 TV_INLINE void evaluate_scales(const float *x, size_t n, const float *scales,
                                             const uint32_t *candidate_indices, unsigned count, int low, int high,
                                             search_result *b)
{
    __m512i indices = _mm512_loadu_si512(candidate_indices);
    if (count <= NARROW) {
        const scales8 s = load8(scales, low, high);
        update_result(_mm512_castps256_ps512(errors8(x, n, &s)), indices, (__mmask16)((1u << count) - 1), b);
    } else {
        const scales16 s = load16(_mm512_loadu_ps(scales), low, high);
        update_result(errors16(x, n, &s), indices, (__mmask16)((1u << (count < LANES ? count : LANES)) - 1), b);
    }
}

/* Evaluates the first sixteen scales, then those whose term for the absmax is below the smallest error. Vectors are
 * padded with the scale 1. */
TARGET_AVX512 unsigned tv_scale_search_avx512(const float *x, size_t n, float absmax, const float *scales,
                                              unsigned count, int low, int high)
{
    const __m512i lane_indices = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    float candidates[TV_SCALES_MAX];
    uint32_t candidate_indices[TV_SCALES_MAX];
    unsigned pending = 0;
    search_result b = {INFINITY, count};
    const __m512 ones = _mm512_set1_ps(1);
    __mmask16 mask = count < LANES ? (__mmask16)((1u << count) - 1) : 0xFFFF;
    const scales16 first = load16(_mm512_mask_loadu_ps(ones, mask, scales), low, high);
    update_result(errors16(x, n, &first), lane_indices, mask, &b);
    for (unsigned at = LANES; at < count; at += LANES) {
        mask = count - at < LANES ? (__mmask16)((1u << (count - at)) - 1) : 0xFFFF;
        const scales16 s = load16(_mm512_mask_loadu_ps(ones, mask, scales + at), low, high);
        mask &= _mm512_cmp_ps_mask(squared_error16(absmax, &s), _mm512_set1_ps(b.error), _CMP_LT_OQ);
        _mm512_storeu_ps(candidates + pending, _mm512_mask_compress_ps(ones, mask, s.scale));
        _mm512_storeu_si512(
            candidate_indices + pending,
            _mm512_maskz_compress_epi32(mask, _mm512_add_epi32(lane_indices, _mm512_set1_epi32((int)at))));
        pending += (unsigned)__builtin_popcount(mask);
    }
    for (unsigned at = 0; at < pending; at += LANES)
        evaluate_scales(x, n, candidates + at, candidate_indices + at, pending - at, low, high, &b);
    return b.index;
}
#else
typedef int tv_no_x86; /* ISO C wants a declaration */
#endif
