/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and dot products of single vectors. */
#include "kernels/dot.h"

#include "kernels/clones.h"

TV_CLONES int64_t tv_dot_s8(const int8_t *a, const int8_t *b, size_t n)
{
    enum { CHUNK = 1 << 16 }; /* products have 15 bits, so that the sum of a chunk fits 31 */
    int64_t total = 0;
    for (size_t from = 0; from < n; from += CHUNK) {
        int32_t sum = 0;
        size_t to = n - from < CHUNK ? n : from + CHUNK;
        for (size_t i = from; i < to; i++)
            sum += a[i] * b[i];
        total += sum;
    }
    return total;
}

enum { PARTIALS = 8 };

typedef uint32_t u32x8 __attribute__((vector_size(PARTIALS * sizeof(uint32_t)), aligned(4), may_alias));

/* `count` (at most PARTIALS) sums at a time; it is a compile-time constant. */
TV_INLINE void dot_words(const uint32_t *a, size_t step, const uint32_t *b, size_t n, size_t count, uint32_t *out)
{
    u32x8 p[PARTIALS] = {{0}};
    size_t i = 0;
    for (; i + PARTIALS <= n; i += PARTIALS) {
        u32x8 y = *(const u32x8 *)(const void *)(b + i);
        for (size_t u = 0; u < count; u++)
            p[u] += *(const u32x8 *)(const void *)(a + u * step + i) * y;
    }
    for (size_t u = 0; u < count; u++) {
        uint32_t sum = 0;
        for (size_t lane = 0; lane < PARTIALS; lane++)
            sum += p[u][lane];
        for (size_t rest = i; rest < n; rest++)
            sum += a[u * step + rest] * b[rest];
        out[u] = sum;
    }
}

TV_CLONES void tv_dots_u32(const uint32_t *a, size_t step, const uint32_t *b, size_t n, size_t count, uint32_t *out)
{
    size_t u = 0;
    for (; u + PARTIALS <= count; u += PARTIALS)
        dot_words(a + u * step, step, b, n, PARTIALS, out + u);
    for (; u < count; u++)
        dot_words(a + u * step, step, b, n, 1, out + u);
}

typedef float partials __attribute__((vector_size(PARTIALS * sizeof(float)), aligned(4), may_alias));

TV_CLONES float tv_sum_f32(const float *x, size_t n)
{
    partials p = {0};
    size_t i = 0;
    for (; i + PARTIALS <= n; i += PARTIALS)
        p += *(const partials *)(const void *)(x + i);
    tv_sum8 sum;
    memcpy(sum.partial, &p, sizeof sum.partial);
    for (; i < n; i++)
        tv_sum8_add(&sum, i, x[i]);
    return tv_sum8_total(&sum);
}

TV_CLONES float tv_dot_f32(const float *a, const float *b, size_t n)
{
    partials p = {0};
    size_t i = 0;
    for (; i + PARTIALS <= n; i += PARTIALS)
        p += *(const partials *)(const void *)(a + i) * *(const partials *)(const void *)(b + i);
    tv_sum8 sum;
    memcpy(sum.partial, &p, sizeof sum.partial);
    for (; i < n; i++)
        tv_sum8_add(&sum, i, a[i] * b[i]);
    return tv_sum8_total(&sum);
}

/* `count` (at most PARTIALS) dot products at a time. It is a compile-time constant: that many independent chains of
 * additions. */
TV_INLINE void dot_rows(const float *a, size_t step, const float *b, size_t n, size_t count, float *out)
{
    partials p[PARTIALS] = {{0}};
    size_t i = 0;
    for (; i + PARTIALS <= n; i += PARTIALS) {
        partials y = *(const partials *)(const void *)(b + i);
        for (size_t u = 0; u < count; u++)
            p[u] += *(const partials *)(const void *)(a + u * step + i) * y;
    }
    for (size_t u = 0; u < count; u++) {
        tv_sum8 sum;
        memcpy(sum.partial, &p[u], sizeof sum.partial);
        for (size_t rest = i; rest < n; rest++)
            tv_sum8_add(&sum, rest, a[u * step + rest] * b[rest]);
        out[u] = tv_sum8_total(&sum);
    }
}

TV_CLONES void tv_dots_f32(const float *a, size_t step, const float *b, size_t n, size_t count, float *out)
{
    size_t u = 0;
    for (; u + PARTIALS <= count; u += PARTIALS)
        dot_rows(a + u * step, step, b, n, PARTIALS, out + u);
    for (; u < count; u++)
        dot_rows(a + u * step, step, b, n, 1, out + u);
}

enum { WINDOWS = 16 };

/* partial[v] += x[v * stride] * w: stride is a compile-time constant where the compiler can use it. */
TV_INLINE void add_tap(float *partial, const float *x, size_t stride, float w)
{
    for (size_t v = 0; v < WINDOWS; v++)
        partial[v] += x[v * stride] * w;
}

TV_CLONES void tv_window_dots_f32(const float *x, size_t stride, const size_t *at, const float *w, size_t taps,
                                  size_t count, float *out)
{
    size_t u = 0;
    for (; u + WINDOWS <= count; u += WINDOWS) {
        float p[PARTIALS][WINDOWS] = {{0}};
        for (size_t t = 0; t < taps; t++) {
            const float *first = x + u * stride + at[t];
            if (stride == 1)
                add_tap(p[t % PARTIALS], first, 1, w[t]);
            else if (stride == 2)
                add_tap(p[t % PARTIALS], first, 2, w[t]);
            else
                add_tap(p[t % PARTIALS], first, stride, w[t]);
        }
        for (size_t v = 0; v < WINDOWS; v++)
            out[u + v] = ((p[0][v] + p[4][v]) + (p[2][v] + p[6][v])) + ((p[1][v] + p[5][v]) + (p[3][v] + p[7][v]));
    }
    for (; u < count; u++) {
        tv_sum8 sum = {{0}};
        for (size_t t = 0; t < taps; t++)
            tv_sum8_add(&sum, t, x[u * stride + at[t]] * w[t]);
        out[u] = tv_sum8_total(&sum);
    }
}
