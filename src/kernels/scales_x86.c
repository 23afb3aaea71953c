/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of scales with AVX2 and AVX-512: a vector of values meets all scales of a batch while it is in a register. The 16 sums of
 * each scale and the tree that adds them up are those of quantize.c. */
#include "kernels/scales_x86.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"

#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

enum { LANES = 16, NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

/* ---- AVX2 ---- */

/* Where a value is NaN the second operand of a minimum or maximum stays, as it does in C. */
TARGET_AVX2 TV_INLINE __m256 square256(__m256 x, __m256 scale, __m256 inverse, __m256 low, __m256 high)
{
    __m256 q = _mm256_max_ps(low, _mm256_min_ps(high, _mm256_mul_ps(x, inverse)));
    __m256 d = _mm256_sub_ps(x, _mm256_mul_ps(scale, _mm256_round_ps(q, NEAREST)));
    return _mm256_mul_ps(d, d);
}

/* Lanes of the last, incomplete vector: all bits, or none. */
TARGET_AVX2 TV_INLINE __m256i lanes_below(size_t n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }

TARGET_AVX2 TV_INLINE float total256(__m256 a, __m256 b)
{
    __m256 s = _mm256_add_ps(a, b);
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

/* Half a batch. */
TARGET_AVX2 TV_INLINE void four_errors(const float *x, size_t n, const float *scales, __m256 low, __m256 high, float *errors)
{
    enum { HALF = 4 };
    __m256 sum[HALF][2], scale[HALF], inverse[HALF];
    for (unsigned c = 0; c < HALF; c++) {
        sum[c][0] = sum[c][1] = _mm256_setzero_ps();
        scale[c] = _mm256_set1_ps(scales[c]);
        inverse[c] = _mm256_set1_ps(1 / scales[c]);
    }
    for (size_t i = 0; i < n; i += LANES)
        for (unsigned h = 0; h < 2 && i + 8 * h < n; h++) {
            size_t left = n - i - 8 * h;
            __m256i mask = lanes_below(left < 8 ? left : 8);
            __m256 v = _mm256_maskload_ps(x + i + 8 * h, mask);
            for (unsigned c = 0; c < HALF; c++)
                sum[c][h] = _mm256_add_ps(sum[c][h], _mm256_and_ps(_mm256_castsi256_ps(mask), square256(v, scale[c], inverse[c], low, high)));
        }
    for (unsigned c = 0; c < HALF; c++)
        errors[c] = total256(sum[c][0], sum[c][1]);
}

TARGET_AVX2 void tv_scale_errors_avx2(const float *x, size_t n, const float scales[TV_SCALES_BATCH], int low, int high, float errors[TV_SCALES_BATCH])
{
    __m256 least = _mm256_set1_ps((float)low), most = _mm256_set1_ps((float)high);
    for (unsigned c = 0; c < TV_SCALES_BATCH; c += 4)
        four_errors(x, n, scales + c, least, most, errors + c);
}

/* ---- AVX-512 ---- */

TARGET_AVX512 TV_INLINE __m512 square512(__m512 x, float scale, float inverse, __m512 low, __m512 high)
{
    __m512 q = _mm512_max_ps(low, _mm512_min_ps(high, _mm512_mul_ps(x, _mm512_set1_ps(inverse))));
    __m512 d = _mm512_sub_ps(x, _mm512_mul_ps(_mm512_set1_ps(scale), _mm512_roundscale_ps(q, NEAREST)));
    return _mm512_mul_ps(d, d);
}

/* The upper half of two vectors added to the lower: a's in the low half, b's in the high one. */
TARGET_AVX512 TV_INLINE __m512 fold16(__m512 a, __m512 b) { return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE)); }

/* The same of halves, whose order becomes that of a and b. */
TARGET_AVX512 TV_INLINE __m512 fold8(__m512 a, __m512 b) { return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD)); }

TARGET_AVX512 TV_INLINE void store_totals(const __m512 s[TV_SCALES_BATCH], float *errors)
{
    __m512 first = fold8(fold16(s[0], s[1]), fold16(s[2], s[3])), second = fold8(fold16(s[4], s[5]), fold16(s[6], s[7]));
    __m512 two = _mm512_add_ps(_mm512_shuffle_ps(first, second, 0x44), _mm512_shuffle_ps(first, second, 0xEE));
    __m512 one = _mm512_add_ps(_mm512_shuffle_ps(two, two, 0x88), _mm512_shuffle_ps(two, two, 0xDD)); /* lane 4i: total i, 4i + 1: i + 4 */
    const __m512i order = _mm512_castsi256_si512(_mm256_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13));
    _mm256_storeu_ps(errors, _mm512_castps512_ps256(_mm512_permutexvar_ps(order, one)));
}

TARGET_AVX512 void tv_scale_errors_avx512(const float *x, size_t n, const float scales[TV_SCALES_BATCH], int low, int high, float errors[TV_SCALES_BATCH])
{
    const __m512 least = _mm512_set1_ps((float)low), most = _mm512_set1_ps((float)high);
    __m512 sum[TV_SCALES_BATCH];
    float inverse[TV_SCALES_BATCH];
    size_t i = 0;
    _mm256_storeu_ps(inverse, _mm256_div_ps(_mm256_set1_ps(1), _mm256_loadu_ps(scales)));
    for (unsigned c = 0; c < TV_SCALES_BATCH; c++)
        sum[c] = _mm512_setzero_ps();
    for (; i + LANES <= n; i += LANES) {
        __m512 v = _mm512_loadu_ps(x + i);
        for (unsigned c = 0; c < TV_SCALES_BATCH; c++)
            sum[c] = _mm512_add_ps(sum[c], square512(v, scales[c], inverse[c], least, most));
    }
    if (i < n) {
        __mmask16 mask = (__mmask16)((1u << (n - i)) - 1);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        for (unsigned c = 0; c < TV_SCALES_BATCH; c++)
            sum[c] = _mm512_mask_add_ps(sum[c], mask, sum[c], square512(v, scales[c], inverse[c], least, most));
    }
    store_totals(sum, errors);
}
#else
typedef int tv_no_x86; /* ISO C wants a declaration */
#endif
