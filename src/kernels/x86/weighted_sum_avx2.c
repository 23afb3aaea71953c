/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted sums with AVX2, eight sums in registers: of one row the partial sums of a vector, of more rows one partial
 * sum of several vectors. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"

#define TARGET __attribute__((target("avx2")))

typedef __m256 vector;
enum { COLUMNS = 8 };

TARGET TV_INLINE vector load_floats(const float *from) { return _mm256_loadu_ps(from); }

TARGET TV_INLINE vector widen_bytes(const int8_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from)));
}

#include "kernels/x86/weighted_sum_loops.h"

TARGET TV_INLINE void sum_row(const float *a, size_t k, matrix v, size_t c, float *out)
{
    vector p[PARTIALS];
    size_t t = 0;
    TV_UNROLL
    for (size_t i = 0; i < PARTIALS; i++)
        p[i] = _mm256_setzero_ps();
    for (; t + PARTIALS <= k; t += PARTIALS) {
        TV_UNROLL
        for (size_t i = 0; i < PARTIALS; i++)
            p[i] += a[t + i] * load(v, t + i, c);
    }
    TV_UNROLL
    for (size_t i = 0; i < PARTIALS - 1; i++)
        if (t + i < k)
            p[i] += a[t + i] * load(v, t + i, c);
    store_total(p, out + c);
}

/* One, two, four or eight rows. */
TARGET TV_INLINE void sum_some_rows(unsigned rows, const float *a, size_t k, matrix v, size_t count, float *out)
{
    const size_t c = rows > 1 ? sum_blocks(rows, a, k, v, count, out) : 0;
    for (unsigned i = 0; i < rows; i++, a += k, out += count) {
        size_t at = c;
        for (; at + COLUMNS <= count; at += COLUMNS)
            sum_row(a, k, v, at, out);
        if (at < count)
            sum_rest(a, k, v, at, count, out);
    }
}

TARGET TV_INLINE void sum_rows(const float *a, size_t rows, size_t k, matrix v, size_t count, float *out)
{
    size_t i = 0;
    for (; i + 8 <= rows; i += 8)
        sum_some_rows(8, a + i * k, k, v, count, out + i * count);
    for (; i + 4 <= rows; i += 4)
        sum_some_rows(4, a + i * k, k, v, count, out + i * count);
    for (; i + 2 <= rows; i += 2)
        sum_some_rows(2, a + i * k, k, v, count, out + i * count);
    if (i < rows)
        sum_some_rows(1, a + i * k, k, v, count, out + i * count);
}

TARGET void tv_weighted_sum_f32_avx2(const float *a, size_t rows, size_t k, const float *v, size_t step, size_t count,
                                     float *out)
{
    sum_rows(a, rows, k, (matrix){v, step, false}, count, out);
}

TARGET void tv_weighted_sum_s8_avx2(const float *a, size_t rows, size_t k, const int8_t *v, size_t step, size_t count,
                                    float *out)
{
    sum_rows(a, rows, k, (matrix){v, step, true}, count, out);
}
#else
typedef int tv_no_weighted_sum_avx2; /* ISO C wants a declaration */
#endif
