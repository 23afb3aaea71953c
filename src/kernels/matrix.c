/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: the plain versions, and those in vectors that a compiler maps to whatever the host has. A vector of 8
 * floats holds the eight partial sums of the canonical order, so that vectors change no bit. */
#include "kernels/matrix.h"

#include "kernels/clones.h"
#include "kernels/matrix_x86.h"

void tv_s4s8_ready(const int8_t *q, size_t beats, int8_t *ready, int32_t *sum)
{
    enum { HALF = TV_S4_BLOCK / 2 };
    size_t n = beats * TV_S4_BEAT, bytes = tv_s4s8_ready_bytes(beats);
    *sum = 0;
    memset(ready, 0, bytes);
    for (size_t i = 0; i < n; i++) {
        ready[i / TV_S4_BLOCK * TV_S4_BLOCK + i % 2 * HALF + i % TV_S4_BLOCK / 2] = q[i];
        *sum += q[i];
    }
}

/* Weights as they are meant: -8 to 7. */
static void s4s8_scalar(const uint8_t *weights, size_t beats, size_t rows, const int8_t *ready, size_t stride, const int32_t *sums, size_t m, int32_t *out)
{
    enum { HALF = TV_S4_BLOCK / 2 };
    size_t bytes = beats * TV_S4_BEAT / 2;
    (void)sums;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < m; i++) {
            const uint8_t *w = weights + r * bytes;
            int32_t sum = 0;
            for (size_t b = 0; b < bytes; b++) {
                const int8_t *x = ready + i * stride + b / HALF * TV_S4_BLOCK + b % HALF;
                sum += ((int)((w[b] & 15u) ^ 8u) - 8) * x[0] + ((int)((unsigned)(w[b] >> 4) ^ 8u) - 8) * x[HALF];
            }
            out[r * m + i] = sum;
        }
}

tv_s4s8_fn tv_s4s8(tv_cpu_level level)
{
#if defined(__x86_64__)
    static const tv_s4s8_fn versions[TV_CPU_LEVELS] = {s4s8_scalar, tv_s4s8_avx2, tv_s4s8_avx512};
    return versions[level];
#else
    (void)level;
    return s4s8_scalar;
#endif
}

static void dots_s8_scalar(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count, int32_t *out)
{
    for (size_t u = 0; u < count; u++) {
        int32_t sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += a[u * a_step + i] * w[u * w_step + i];
        out[u] = sum;
    }
}

tv_dots_s8_fn tv_dots_s8(tv_cpu_level level)
{
#if defined(__x86_64__)
    static const tv_dots_s8_fn versions[TV_CPU_LEVELS] = {dots_s8_scalar, tv_dots_s8_avx2, tv_dots_s8_avx512};
    return versions[level];
#else
    (void)level;
    return dots_s8_scalar;
#endif
}

/* ---- Binary32 in the canonical order ---- */

enum { PARTIALS = 8, TOGETHER = 8 };

typedef float f32x8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float f32x16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int8_t s8x8 __attribute__((vector_size(8), aligned(1), may_alias));
typedef int8_t s8x16 __attribute__((vector_size(16), aligned(1), may_alias));

#define LOAD(type, p) (*(const type *)(const void *)(p))

/* Adds the products of n terms to the partial sums, whose next term is of partial 0. What is missing of the last eight is +0, which
 * changes no sum: none is ever -0, since all begin at +0. */
TV_INLINE void add_terms(f32x8 *p, const float *a, const int8_t *w, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        f32x16 x = LOAD(f32x16, a + i) * __builtin_convertvector(LOAD(s8x16, w + i), f32x16);
        *p += __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
        *p += __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
    }
    if (i + 8 <= n) {
        *p += LOAD(f32x8, a + i) * __builtin_convertvector(LOAD(s8x8, w + i), f32x8);
        i += 8;
    }
    if (i < n) {
        f32x8 last = {0};
        for (size_t r = 0; i + r < n; r++)
            last[r] = a[i + r] * (float)w[i + r];
        *p += last;
    }
}

/* out[u] = the total of p[u], ((p0+p4)+(p2+p6))+((p1+p5)+(p3+p7)). */
TV_INLINE void totals(const f32x8 p[TOGETHER], f32x8 *out)
{
    f32x8 h[4], q[2];
    for (unsigned i = 0; i < 4; i++) /* halves: of p[i] in the low lanes, of p[i + 4] in the high ones */
        h[i] = __builtin_shufflevector(p[i], p[i + 4], 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(p[i], p[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    for (unsigned i = 0; i < 2; i++) /* lanes 0 and 1 of h[i], then of h[i + 2] */
        q[i] = __builtin_shufflevector(h[i], h[i + 2], 0, 1, 8, 9, 4, 5, 12, 13) + __builtin_shufflevector(h[i], h[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    *out = __builtin_shufflevector(q[0], q[1], 0, 8, 2, 10, 4, 12, 6, 14) + __builtin_shufflevector(q[0], q[1], 1, 9, 3, 11, 5, 13, 7, 15);
}

/* Eight at a time, so that one sum's additions need not wait for another's. */
TV_INLINE void dots(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count, float *out)
{
    for (size_t u = 0; u < count; u += TOGETHER) {
        f32x8 p[TOGETHER] = {{0}}, t;
        size_t here = count - u < TOGETHER ? count - u : TOGETHER;
        if (here == TOGETHER && n == 32) { /* all in registers */
            for (unsigned v = 0; v < TOGETHER; v++)
                add_terms(&p[v], a + (u + v) * a_step, w + (u + v) * w_step, 32);
        } else {
            for (size_t v = 0; v < here; v++)
                add_terms(&p[v], a + (u + v) * a_step, w + (u + v) * w_step, n);
        }
        totals(p, &t);
        memcpy(out + u, &t, here * sizeof *out);
    }
}

TV_CLONES void tv_dots_f32_s8(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count, float *out)
{
    dots(a, a_step, w, w_step, n, count, out);
}

TV_CLONES void tv_add_scaled(float partial[8], const float *x, float factor, const float *factors, size_t count)
{
    f32x8 p = LOAD(f32x8, partial);
    size_t u = 0;
    for (; u + PARTIALS <= count; u += PARTIALS)
        p += LOAD(f32x8, x + u) * factor * LOAD(f32x8, factors + u);
    memcpy(partial, &p, sizeof p);
    for (; u < count; u++)
        partial[u % PARTIALS] += x[u] * factor * factors[u];
}

typedef uint8_t u8x16 __attribute__((vector_size(16), aligned(1), may_alias));

TV_CLONES void tv_unpack_s4(const uint8_t *packed, size_t count, int8_t *out)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        u8x16 both = LOAD(u8x16, packed + i / 2) ^ 0x88, low = (both & 15) - 8, high = (both >> 4) - 8;
        u8x16 first = __builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        u8x16 second = __builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        memcpy(out + i, &first, sizeof first);
        memcpy(out + i + 16, &second, sizeof second);
    }
    for (; i < count; i++)
        out[i] = (int8_t)((int)((packed[i / 2] >> i % 2 * 4 & 15u) ^ 8u) - 8);
}
