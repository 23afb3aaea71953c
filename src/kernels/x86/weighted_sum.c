/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted sums with AVX2 and AVX-512; INT8 values are widened in registers. A vector has neighbouring columns, and
 * each column the eight partial sums of the canonical order, which are chains of additions. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"
#include "kernels/variants.h"

#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f")))

enum { PARTIALS = 8, COLUMNS_AVX2 = 8, COLUMNS_AVX512 = 16, PAIR = 2 };

/* Values from `v` on, in rows of `step`. */
typedef struct matrix {
    const void *v;
    size_t step;
    bool bytes; /* INT8, otherwise binary32; a constant for the compiler */
} matrix;

TV_INLINE const int8_t *byte_at(matrix v, size_t row, size_t column)
{
    return (const int8_t *)v.v + row * v.step + column;
}
TV_INLINE const float *float_at(matrix v, size_t row, size_t column)
{
    return (const float *)v.v + row * v.step + column;
}

/* Columns from c to count of one row. */
static void sum_rest(const float *a, size_t k, matrix v, size_t c, size_t count, float *out)
{
    if (v.bytes)
        tv_weighted_sum_s8_scalar(a, 1, k, byte_at(v, 0, c), v.step, count - c, out + c);
    else
        tv_weighted_sum_f32_scalar(a, 1, k, float_at(v, 0, c), v.step, count - c, out + c);
}

/* ---- AVX2: eight sums in registers, of one row the partial sums of a vector, of two, four or eight rows one partial
 * sum of several vectors, which share the values ---- */

enum { CHAINS = 8 };

TARGET_AVX2 TV_INLINE __m256 load_avx2(matrix v, size_t row, size_t column)
{
    return v.bytes ? _mm256_cvtepi32_ps(
                         _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)byte_at(v, row, column))))
                   : _mm256_loadu_ps(float_at(v, row, column));
}

TARGET_AVX2 TV_INLINE __m256 multiply_add_avx2(__m256 sum, float a, __m256 x)
{
    return _mm256_add_ps(sum, _mm256_mul_ps(_mm256_set1_ps(a), x));
}

TARGET_AVX2 TV_INLINE __m256 total_avx2(const __m256 p[PARTIALS])
{
    return _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(p[0], p[4]), _mm256_add_ps(p[2], p[6])),
                         _mm256_add_ps(_mm256_add_ps(p[1], p[5]), _mm256_add_ps(p[3], p[7])));
}

TARGET_AVX2 TV_INLINE void sum_row_avx2(const float *a, size_t k, matrix v, size_t c, float *out)
{
    __m256 p[PARTIALS];
    size_t t = 0;
    TV_UNROLL
    for (size_t i = 0; i < PARTIALS; i++)
        p[i] = _mm256_setzero_ps();
    for (; t + PARTIALS <= k; t += PARTIALS) {
        TV_UNROLL
        for (size_t i = 0; i < PARTIALS; i++)
            p[i] = multiply_add_avx2(p[i], a[t + i], load_avx2(v, t + i, c));
    }
    TV_UNROLL
    for (size_t i = 0; i < PARTIALS - 1; i++)
        if (t + i < k)
            p[i] = multiply_add_avx2(p[i], a[t + i], load_avx2(v, t + i, c));
    _mm256_storeu_ps(out + c, total_avx2(p));
}

/* Partial sum `u` of `vectors` vectors of columns of `rows` rows. */
TARGET_AVX2 TV_INLINE void sum_partial_avx2(unsigned rows, unsigned vectors, const float *a, size_t k, matrix v,
                                            size_t c, size_t u, __m256 partial[CHAINS])
{
    __m256 sums[CHAINS];
    TV_UNROLL
    for (unsigned i = 0; i < rows * vectors; i++)
        sums[i] = _mm256_setzero_ps();
    for (size_t t = u; t < k; t += PARTIALS) {
        __m256 x[CHAINS];
        TV_UNROLL
        for (unsigned i = 0; i < vectors; i++)
            x[i] = load_avx2(v, t, c + i * COLUMNS_AVX2);
        TV_UNROLL
        for (unsigned i = 0; i < rows * vectors; i++)
            sums[i] = multiply_add_avx2(sums[i], a[i / vectors * k + t], x[i % vectors]);
    }
    TV_UNROLL
    for (unsigned i = 0; i < rows * vectors; i++)
        partial[i] = sums[i];
}

TARGET_AVX2 TV_INLINE void sum_block_avx2(unsigned rows, unsigned vectors, const float *a, size_t k, matrix v, size_t c,
                                          size_t count, float *out)
{
    __m256 p[PARTIALS][CHAINS];
    for (size_t u = 0; u < PARTIALS; u++)
        sum_partial_avx2(rows, vectors, a, k, v, c, u, p[u]);
    for (unsigned i = 0; i < rows * vectors; i++) {
        const __m256 own[PARTIALS] = {p[0][i], p[1][i], p[2][i], p[3][i], p[4][i], p[5][i], p[6][i], p[7][i]};
        _mm256_storeu_ps(out + i / vectors * count + c + i % vectors * COLUMNS_AVX2, total_avx2(own));
    }
}

/* Of `rows` rows, one, two, four or eight. */
TARGET_AVX2 TV_INLINE void sum_some_rows_avx2(unsigned rows, const float *a, size_t k, matrix v, size_t count,
                                              float *out)
{
    const unsigned vectors = CHAINS / rows;
    size_t c = 0;
    for (; rows > 1 && c + vectors * COLUMNS_AVX2 <= count; c += vectors * COLUMNS_AVX2)
        sum_block_avx2(rows, vectors, a, k, v, c, count, out);
    for (unsigned i = 0; i < rows; i++, a += k, out += count) {
        size_t at = c;
        for (; at + COLUMNS_AVX2 <= count; at += COLUMNS_AVX2)
            sum_row_avx2(a, k, v, at, out);
        if (at < count)
            sum_rest(a, k, v, at, count, out);
    }
}

TARGET_AVX2 TV_INLINE void sum_rows_avx2(const float *a, size_t rows, size_t k, matrix v, size_t count, float *out)
{
    size_t i = 0;
    for (; i + 8 <= rows; i += 8)
        sum_some_rows_avx2(8, a + i * k, k, v, count, out + i * count);
    for (; i + 4 <= rows; i += 4)
        sum_some_rows_avx2(4, a + i * k, k, v, count, out + i * count);
    for (; i + 2 <= rows; i += 2)
        sum_some_rows_avx2(2, a + i * k, k, v, count, out + i * count);
    if (i < rows)
        sum_some_rows_avx2(1, a + i * k, k, v, count, out + i * count);
}

TARGET_AVX2 void tv_weighted_sum_f32_avx2(const float *a, size_t rows, size_t k, const float *v, size_t step,
                                          size_t count, float *out)
{
    sum_rows_avx2(a, rows, k, (matrix){v, step, false}, count, out);
}

TARGET_AVX2 void tv_weighted_sum_s8_avx2(const float *a, size_t rows, size_t k, const int8_t *v, size_t step,
                                         size_t count, float *out)
{
    sum_rows_avx2(a, rows, k, (matrix){v, step, true}, count, out);
}

/* ---- AVX-512: four or eight rows as above; two rows have all partial sums of a vector in registers, one row those of
 * two vectors ---- */

TARGET_AVX512 TV_INLINE __m512 load_avx512(matrix v, size_t row, size_t column)
{
    return v.bytes ? _mm512_cvtepi32_ps(
                         _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)byte_at(v, row, column))))
                   : _mm512_loadu_ps(float_at(v, row, column));
}

TARGET_AVX512 TV_INLINE __m512 multiply_add(__m512 sum, float a, __m512 x)
{
    return _mm512_add_ps(sum, _mm512_mul_ps(_mm512_set1_ps(a), x));
}

TARGET_AVX512 TV_INLINE void add_pair(unsigned rows, const float *a, size_t k, matrix v, size_t t, size_t c,
                                      __m512 *first, __m512 *second)
{
    __m512 x = load_avx512(v, t, c);
    *first = multiply_add(*first, a[t], x);
    *second = rows == PAIR ? multiply_add(*second, a[k + t], x)
                           : multiply_add(*second, a[t], load_avx512(v, t, c + COLUMNS_AVX512));
}

TARGET_AVX512 TV_INLINE __m512 total_avx512(const __m512 p[PARTIALS])
{
    return _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(p[0], p[4]), _mm512_add_ps(p[2], p[6])),
                         _mm512_add_ps(_mm512_add_ps(p[1], p[5]), _mm512_add_ps(p[3], p[7])));
}

/* The second vector of results goes to `second`. */
TARGET_AVX512 TV_INLINE void sum_pair(unsigned rows, const float *a, size_t k, matrix v, size_t c, float *out,
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
            add_pair(rows, a, k, v, t + i, c, &p[i], &q[i]);
    }
    TV_UNROLL
    for (size_t i = 0; i < PARTIALS - 1; i++)
        if (t + i < k)
            add_pair(rows, a, k, v, t + i, c, &p[i], &q[i]);
    _mm512_storeu_ps(out, total_avx512(p));
    _mm512_storeu_ps(second, total_avx512(q));
}

/* Partial sum `u` of `vectors` vectors of columns of `rows` rows. */
TARGET_AVX512 TV_INLINE void sum_partial_avx512(unsigned rows, unsigned vectors, const float *a, size_t k, matrix v,
                                                size_t c, size_t u, __m512 partial[CHAINS])
{
    __m512 sums[CHAINS];
    TV_UNROLL
    for (unsigned i = 0; i < rows * vectors; i++)
        sums[i] = _mm512_setzero_ps();
    for (size_t t = u; t < k; t += PARTIALS) {
        __m512 x[CHAINS];
        TV_UNROLL
        for (unsigned i = 0; i < vectors; i++)
            x[i] = load_avx512(v, t, c + i * COLUMNS_AVX512);
        TV_UNROLL
        for (unsigned i = 0; i < rows * vectors; i++)
            sums[i] = multiply_add(sums[i], a[i / vectors * k + t], x[i % vectors]);
    }
    TV_UNROLL
    for (unsigned i = 0; i < rows * vectors; i++)
        partial[i] = sums[i];
}

TARGET_AVX512 TV_INLINE void sum_block_avx512(unsigned rows, unsigned vectors, const float *a, size_t k, matrix v,
                                              size_t c, size_t count, float *out)
{
    __m512 p[PARTIALS][CHAINS];
    for (size_t u = 0; u < PARTIALS; u++)
        sum_partial_avx512(rows, vectors, a, k, v, c, u, p[u]);
    for (unsigned i = 0; i < rows * vectors; i++) {
        const __m512 own[PARTIALS] = {p[0][i], p[1][i], p[2][i], p[3][i], p[4][i], p[5][i], p[6][i], p[7][i]};
        _mm512_storeu_ps(out + i / vectors * count + c + i % vectors * COLUMNS_AVX512, total_avx512(own));
    }
}

/* Columns from c on of two rows. */
TARGET_AVX512 TV_INLINE void sum_two_rows(const float *a, size_t k, matrix v, size_t c, size_t count, float *out)
{
    for (; c + COLUMNS_AVX512 <= count; c += COLUMNS_AVX512)
        sum_pair(PAIR, a, k, v, c, out + c, out + count + c);
    for (size_t i = 0; i < PAIR && c < count; i++)
        sum_rest(a + i * k, k, v, c, count, out + i * count);
}

TARGET_AVX512 TV_INLINE void sum_row(const float *a, size_t k, matrix v, size_t count, float *out)
{
    size_t c = 0;
    for (; c + PAIR * COLUMNS_AVX512 <= count; c += PAIR * COLUMNS_AVX512)
        sum_pair(1, a, k, v, c, out + c, out + c + COLUMNS_AVX512);
    if (c < count)
        sum_rest(a, k, v, c, count, out);
}

/* Four or eight rows. */
TARGET_AVX512 TV_INLINE void sum_row_block(unsigned rows, const float *a, size_t k, matrix v, size_t count, float *out)
{
    const unsigned vectors = CHAINS / rows;
    size_t c = 0;
    for (; c + vectors * COLUMNS_AVX512 <= count; c += vectors * COLUMNS_AVX512)
        sum_block_avx512(rows, vectors, a, k, v, c, count, out);
    for (unsigned i = 0; i < rows && c < count; i += PAIR)
        sum_two_rows(a + i * k, k, v, c, count, out + i * count);
}

TARGET_AVX512 TV_INLINE void sum_rows_avx512(const float *a, size_t rows, size_t k, matrix v, size_t count, float *out)
{
    size_t i = 0;
    for (; i + 8 <= rows; i += 8)
        sum_row_block(8, a + i * k, k, v, count, out + i * count);
    for (; i + 4 <= rows; i += 4)
        sum_row_block(4, a + i * k, k, v, count, out + i * count);
    for (; i + PAIR <= rows; i += PAIR)
        sum_two_rows(a + i * k, k, v, 0, count, out + i * count);
    if (i < rows)
        sum_row(a + i * k, k, v, count, out + i * count);
}

TARGET_AVX512 void tv_weighted_sum_f32_avx512(const float *a, size_t rows, size_t k, const float *v, size_t step,
                                              size_t count, float *out)
{
    sum_rows_avx512(a, rows, k, (matrix){v, step, false}, count, out);
}

TARGET_AVX512 void tv_weighted_sum_s8_avx512(const float *a, size_t rows, size_t k, const int8_t *v, size_t step,
                                             size_t count, float *out)
{
    sum_rows_avx512(a, rows, k, (matrix){v, step, true}, count, out);
}
#else
typedef int tv_no_weighted_sum_x86; /* ISO C wants a declaration */
#endif
