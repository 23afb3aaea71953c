/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted sums of INT8 with AVX2 and AVX-512: values are widened in registers. A vector has neighbouring columns; the
 * eight partial sums of the canonical order are independent chains of additions, each in a register. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"
#include "kernels/variants.h"

#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f")))

enum { PARTIALS = 8, COLUMNS_AVX2 = 8, COLUMNS_AVX512 = 16, PAIR = 2 };

/* ---- AVX2: one row, eight columns ---- */

TARGET_AVX2 TV_INLINE void add_avx2(float a, const int8_t *v, __m256 *sum)
{
    __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)v)));
    *sum = _mm256_add_ps(*sum, _mm256_mul_ps(_mm256_set1_ps(a), x));
}

TARGET_AVX2 TV_INLINE void sum_columns_avx2(const float *a, size_t k, const int8_t *v, size_t step, float *out)
{
    __m256 p[PARTIALS];
    size_t t = 0;
    TV_UNROLL
    for (size_t i = 0; i < PARTIALS; i++)
        p[i] = _mm256_setzero_ps();
    for (; t + PARTIALS <= k; t += PARTIALS) {
        TV_UNROLL
        for (size_t i = 0; i < PARTIALS; i++)
            add_avx2(a[t + i], v + (t + i) * step, &p[i]);
    }
    TV_UNROLL
    for (size_t i = 0; i < PARTIALS - 1; i++)
        if (t + i < k)
            add_avx2(a[t + i], v + (t + i) * step, &p[i]);
    __m256 even = _mm256_add_ps(_mm256_add_ps(p[0], p[4]), _mm256_add_ps(p[2], p[6])),
           odd = _mm256_add_ps(_mm256_add_ps(p[1], p[5]), _mm256_add_ps(p[3], p[7]));
    _mm256_storeu_ps(out, _mm256_add_ps(even, odd));
}

TARGET_AVX2 void tv_weighted_sum_s8_avx2(const float *a, size_t rows, size_t k, const int8_t *v, size_t step,
                                         size_t count, float *out)
{
    for (size_t i = 0; i < rows; i++, a += k, out += count) {
        size_t c = 0;
        for (; c + COLUMNS_AVX2 <= count; c += COLUMNS_AVX2)
            sum_columns_avx2(a, k, v + c, step, out + c);
        tv_weighted_sum_s8_scalar(a, 1, k, v + c, step, count - c, out + c);
    }
}

/* ---- AVX-512: two vectors of columns of a row, or one of two rows, which share the widened values ---- */

TARGET_AVX512 TV_INLINE __m512 load_avx512(const int8_t *v)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)v)));
}

TARGET_AVX512 TV_INLINE __m512 multiply_add(__m512 sum, float a, __m512 x)
{
    return _mm512_add_ps(sum, _mm512_mul_ps(_mm512_set1_ps(a), x));
}

TARGET_AVX512 TV_INLINE void add_pair(unsigned rows, const float *a, size_t k, const int8_t *v, __m512 *first,
                                      __m512 *second)
{
    __m512 x = load_avx512(v);
    *first = multiply_add(*first, a[0], x);
    *second =
        rows == PAIR ? multiply_add(*second, a[k], x) : multiply_add(*second, a[0], load_avx512(v + COLUMNS_AVX512));
}

TARGET_AVX512 TV_INLINE __m512 total_avx512(const __m512 p[PARTIALS])
{
    return _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(p[0], p[4]), _mm512_add_ps(p[2], p[6])),
                         _mm512_add_ps(_mm512_add_ps(p[1], p[5]), _mm512_add_ps(p[3], p[7])));
}

/* The second vector of results goes to `second`. */
TARGET_AVX512 TV_INLINE void sum_pair(unsigned rows, const float *a, size_t k, const int8_t *v, size_t step, float *out,
                                      float *second)
{
    __m512 p[PARTIALS], q[PARTIALS];
    size_t t = 0;
    TV_UNROLL
    for (size_t i = 0; i < PARTIALS; i++)
        p[i] = q[i] = _mm512_setzero_ps();
    for (; t + PARTIALS <= k; t += PARTIALS) {
        TV_UNROLL
        for (size_t i = 0; i < PARTIALS; i++)
            add_pair(rows, a + t + i, k, v + (t + i) * step, &p[i], &q[i]);
    }
    TV_UNROLL
    for (size_t i = 0; i < PARTIALS - 1; i++)
        if (t + i < k)
            add_pair(rows, a + t + i, k, v + (t + i) * step, &p[i], &q[i]);
    _mm512_storeu_ps(out, total_avx512(p));
    _mm512_storeu_ps(second, total_avx512(q));
}

TARGET_AVX512 static void sum_two_rows(const float *a, size_t k, const int8_t *v, size_t step, size_t count, float *out)
{
    size_t c = 0;
    for (; c + COLUMNS_AVX512 <= count; c += COLUMNS_AVX512)
        sum_pair(PAIR, a, k, v + c, step, out + c, out + count + c);
    for (size_t i = 0; i < PAIR; i++)
        tv_weighted_sum_s8_scalar(a + i * k, 1, k, v + c, step, count - c, out + i * count + c);
}

TARGET_AVX512 static void sum_row(const float *a, size_t k, const int8_t *v, size_t step, size_t count, float *out)
{
    size_t c = 0;
    for (; c + PAIR * COLUMNS_AVX512 <= count; c += PAIR * COLUMNS_AVX512)
        sum_pair(1, a, k, v + c, step, out + c, out + c + COLUMNS_AVX512);
    tv_weighted_sum_s8_scalar(a, 1, k, v + c, step, count - c, out + c);
}

TARGET_AVX512 void tv_weighted_sum_s8_avx512(const float *a, size_t rows, size_t k, const int8_t *v, size_t step,
                                             size_t count, float *out)
{
    size_t i = 0;
    for (; i + PAIR <= rows; i += PAIR)
        sum_two_rows(a + i * k, k, v, step, count, out + i * count);
    if (i < rows)
        sum_row(a + i * k, k, v, step, count, out + i * count);
}
#else
typedef int tv_no_weighted_sum_x86; /* ISO C wants a declaration */
#endif
