/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a scale with AVX2 and AVX-512: a lane for each scale, so that nothing is added across lanes. The 16
 * sums of each scale and the tree that adds them up are those of tv_quantize_error.
 *
 * An error is a sum of squares, and rounding keeps order: it is never below the term of the extreme value, nor of any
 * other. */
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

/* Where a value is NaN the second operand of a minimum or maximum stays, as it does in C. */
TARGET_AVX2 TV_INLINE __m256 square8(float value, const scales8 *s)
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
            sum[lane] = _mm256_add_ps(sum[lane], square8(x[i + lane], s));
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < SUMS; lane++)
        if (i + lane < n)
            sum[lane] = _mm256_add_ps(sum[lane], square8(x[i + lane], s));
#pragma GCC unroll 4
    for (unsigned half = SUMS / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (unsigned lane = 0; lane < half; lane++)
            sum[lane] = _mm256_add_ps(sum[lane], sum[lane + half]);
    return sum[0];
}

/* Eight at a time; the last ones may be scales of before once more, which changes nothing. */
TARGET_AVX2 unsigned tv_scale_search_avx2(const float *x, size_t n, float extreme, const float *scales, unsigned count,
                                          int low, int high)
{
    enum { LANES = 8 };
    float least = INFINITY, errors[LANES], few[LANES];
    unsigned best = count;
    for (unsigned at = 0; at < count; at += LANES) {
        for (unsigned i = 0; i < LANES && at + LANES > count; i++)
            few[i] = scales[at + i < count ? at + i : at];
        scales8 s = load8(at + LANES > count ? few : scales + at, low, high);
        if (_mm256_movemask_ps(_mm256_cmp_ps(square8(extreme, &s), _mm256_set1_ps(least), _CMP_LT_OQ)) == 0)
            continue;
        _mm256_storeu_ps(errors, errors8(x, n, &s));
        for (unsigned i = 0; i < LANES && at + i < count; i++)
            if (errors[i] < least) {
                least = errors[i];
                best = at + i;
            }
    }
    return best;
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

TARGET_AVX512 TV_INLINE __m512 square16(float value, const scales16 *s)
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
            sum[lane] = _mm512_add_ps(sum[lane], square16(x[i + lane], s));
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < SUMS; lane++)
        if (i + lane < n)
            sum[lane] = _mm512_add_ps(sum[lane], square16(x[i + lane], s));
#pragma GCC unroll 4
    for (unsigned half = SUMS / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (unsigned lane = 0; lane < half; lane++)
            sum[lane] = _mm512_add_ps(sum[lane], sum[lane + half]);
    return sum[0];
}

typedef struct best {
    float error;
    unsigned index;
} best;

/* Errors of the scales of `mask`, whose indices ascend, behind those of before; no NaN is below anything. */
TARGET_AVX512 TV_INLINE void take_best(__m512 e, __m512i indices, __mmask16 mask, best *b)
{
    mask &= _mm512_cmp_ps_mask(e, _mm512_set1_ps(b->error), _CMP_LT_OQ);
    if (mask == 0)
        return;
    b->error = _mm512_mask_reduce_min_ps(mask, e);
    mask &= _mm512_cmp_ps_mask(e, _mm512_set1_ps(b->error), _CMP_EQ_OQ);
    b->index = (unsigned)_mm_cvtsi128_si32(_mm512_castsi512_si128(_mm512_maskz_compress_epi32(mask, indices)));
}

enum { FEW = 8 };

/* As many at once as are there. */
TARGET_AVX512 TV_INLINE void try_scales(const float *x, size_t n, const float *scales, const uint32_t *which,
                                        unsigned count, int low, int high, best *b)
{
    __m512i indices = _mm512_loadu_si512(which);
    if (count <= FEW) {
        const scales8 s = load8(scales, low, high);
        take_best(_mm512_castps256_ps512(errors8(x, n, &s)), indices, (__mmask16)((1u << count) - 1), b);
    } else {
        const scales16 s = load16(_mm512_loadu_ps(scales), low, high);
        take_best(errors16(x, n, &s), indices, (__mmask16)((1u << (count < LANES ? count : LANES)) - 1), b);
    }
}

/* The first sixteen are tried, then what has a chance beside the best of these. Ones fill up. */
TARGET_AVX512 unsigned tv_scale_search_avx512(const float *x, size_t n, float extreme, const float *scales,
                                              unsigned count, int low, int high)
{
    const __m512i step = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    float left[TV_SCALES_MAX];
    uint32_t which[TV_SCALES_MAX];
    unsigned waiting = 0;
    best b = {INFINITY, count};
    const __m512 ones = _mm512_set1_ps(1);
    __mmask16 mask = count < LANES ? (__mmask16)((1u << count) - 1) : 0xFFFF;
    const scales16 first = load16(_mm512_mask_loadu_ps(ones, mask, scales), low, high);
    take_best(errors16(x, n, &first), step, mask, &b);
    for (unsigned at = LANES; at < count; at += LANES) {
        mask = count - at < LANES ? (__mmask16)((1u << (count - at)) - 1) : 0xFFFF;
        const scales16 s = load16(_mm512_mask_loadu_ps(ones, mask, scales + at), low, high);
        mask &= _mm512_cmp_ps_mask(square16(extreme, &s), _mm512_set1_ps(b.error), _CMP_LT_OQ);
        _mm512_storeu_ps(left + waiting, _mm512_mask_compress_ps(ones, mask, s.scale));
        _mm512_storeu_si512(which + waiting,
                            _mm512_maskz_compress_epi32(mask, _mm512_add_epi32(step, _mm512_set1_epi32((int)at))));
        waiting += (unsigned)__builtin_popcount(mask);
    }
    for (unsigned at = 0; at < waiting; at += LANES)
        try_scales(x, n, left + at, which + at, waiting - at, low, high, &b);
    return b.index;
}
#else
typedef int tv_no_x86; /* ISO C wants a declaration */
#endif
