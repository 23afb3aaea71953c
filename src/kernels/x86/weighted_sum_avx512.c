/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted sums with AVX-512, eight or sixteen sums in registers: of four or eight rows one partial sum of several
 * vectors, of two rows all partial sums of a vector, of one row those of two vectors. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"

#define TARGET __attribute__((target("avx512f")))

typedef __m512 vector;
enum { COLUMNS = 16 };

TARGET TV_INLINE vector load_floats(const float *from) { return _mm512_loadu_ps(from); }

TARGET TV_INLINE vector widen_bytes(const int8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)));
}

#include "kernels/x86/weighted_sum_loops.h"

enum { PAIR = 2 };

TARGET TV_INLINE void add_pair(unsigned rows, const float *a, size_t k, matrix v, size_t t, size_t c, vector *first,
                               vector *second)
{
    const vector x = load(v, t, c);
    *first += a[t] * x;
    *second += rows == PAIR ? a[k + t] * x : a[t] * load(v, t, c + COLUMNS);
}

/* The second vector of results goes to `second`. */
TARGET TV_INLINE void sum_pair(unsigned rows, const float *a, size_t k, matrix v, size_t c, float *out, float *second)
{
    vector p[PARTIALS], q[PARTIALS];
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
    store_total(p, out);
    store_total(q, second);
}

/* Columns from c on of two rows. */
TARGET TV_INLINE void sum_two_rows(const float *a, size_t k, matrix v, size_t c, size_t count, float *out)
{
    for (; c + COLUMNS <= count; c += COLUMNS)
        sum_pair(PAIR, a, k, v, c, out + c, out + count + c);
    for (size_t i = 0; i < PAIR && c < count; i++)
        sum_rest(a + i * k, k, v, c, count, out + i * count);
}

TARGET TV_INLINE void sum_row(const float *a, size_t k, matrix v, size_t count, float *out)
{
    size_t c = 0;
    for (; c + PAIR * COLUMNS <= count; c += PAIR * COLUMNS)
        sum_pair(1, a, k, v, c, out + c, out + c + COLUMNS);
    if (c < count)
        sum_rest(a, k, v, c, count, out);
}

/* Four or eight rows. */
TARGET TV_INLINE void sum_more_rows(unsigned rows, const float *a, size_t k, matrix v, size_t count, float *out)
{
    const size_t c = sum_blocks(rows, a, k, v, count, out);
    for (unsigned i = 0; i < rows && c < count; i += PAIR)
        sum_two_rows(a + i * k, k, v, c, count, out + i * count);
}

TARGET TV_INLINE void sum_rows(const float *a, size_t rows, size_t k, matrix v, size_t count, float *out)
{
    size_t i = 0;
    for (; i + 8 <= rows; i += 8)
        sum_more_rows(8, a + i * k, k, v, count, out + i * count);
    for (; i + 4 <= rows; i += 4)
        sum_more_rows(4, a + i * k, k, v, count, out + i * count);
    for (; i + PAIR <= rows; i += PAIR)
        sum_two_rows(a + i * k, k, v, 0, count, out + i * count);
    if (i < rows)
        sum_row(a + i * k, k, v, count, out + i * count);
}

TARGET void tv_weighted_sum_f32_avx512(const float *a, size_t rows, size_t k, const float *v, size_t step, size_t count,
                                       float *out)
{
    sum_rows(a, rows, k, (matrix){v, step, false}, count, out);
}

TARGET void tv_weighted_sum_s8_avx512(const float *a, size_t rows, size_t k, const int8_t *v, size_t step, size_t count,
                                      float *out)
{
    sum_rows(a, rows, k, (matrix){v, step, true}, count, out);
}
#else
typedef int tv_no_weighted_sum_avx512; /* ISO C wants a declaration */
#endif
