/* SPDX-License-Identifier: Apache-2.0 */
/* Integer matrix products with AVX2 and AVX-512.
 *
 * The multiply instructions take unsigned times signed bytes, so weights are made unsigned by flipping their sign bit:
 * w + 8 for INT4, w + 128 for INT8. The excess, 8 or 128 times the sum of the activations, is subtracted at the end. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"
#include "kernels/variants.h"
#include "kernels/x86/nibbles.h"
#include "kernels/x86/totals.h"

enum {
    HALF = TV_S4_BLOCK / 2,
    LINE = 64,
    TILE = 4,
    FLIP_NIBBLES = 0x88,
    NIBBLE = 15,
    PREFETCH_BYTES = 32768 /* as gemv_grouped.c */
};

#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

/* ---- AVX2 ---- */

TARGET_AVX2 TV_INLINE __m256i load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

TARGET_AVX2 TV_INLINE int32_t reduce_add(__m256i x)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
    return _mm_cvtsi128_si32(s);
}

/* 16-bit accumulation does not overflow for four vectors of weights: a product is at most 15 * 128, and eight pairs
 * fit.
 */
enum { PAIRS_BEFORE_WIDENING = 4 };

TARGET_AVX2 TV_INLINE void dot_row_s4_avx2(const uint8_t *w, size_t bytes, const int8_t *packed, size_t stride,
                                           const int32_t *sums, unsigned m, int32_t *out)
{
    const __m256i nibble = _mm256_set1_epi8(NIBBLE), flip = _mm256_set1_epi8((char)FLIP_NIBBLES),
                  ones = _mm256_set1_epi16(1);
    __m256i sum[TILE], narrow[TILE];
    uint8_t tail[32] = {0};
    unsigned pending = 0;
    for (unsigned i = 0; i < m; i++)
        sum[i] = narrow[i] = _mm256_setzero_si256();
    for (size_t at = 0; at < bytes; at += 32) {
        const uint8_t *p = w + at;
        if (m == 1 && at % LINE == 0) /* others read weights that are in a cache, or multiply longer than they read */
            _mm_prefetch((const char *)p + PREFETCH_BYTES, _MM_HINT_T1);
        if (bytes - at < 32)
            p = memcpy(tail, p, bytes - at);
        __m256i both = _mm256_xor_si256(load256(p), flip), low = _mm256_and_si256(both, nibble),
                high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
        const int8_t *x = packed + at / HALF * TV_S4_BLOCK + at % HALF;
        for (unsigned i = 0; i < m; i++) {
            __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(low, load256(x + i * stride)),
                                             _mm256_maddubs_epi16(high, load256(x + i * stride + HALF)));
            narrow[i] = _mm256_add_epi16(narrow[i], pairs);
        }
        if (++pending < PAIRS_BEFORE_WIDENING && at + 32 < bytes)
            continue;
        for (unsigned i = 0; i < m; i++) {
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(narrow[i], ones));
            narrow[i] = _mm256_setzero_si256();
        }
        pending = 0;
    }
    for (unsigned i = 0; i < m; i++)
        out[i] = reduce_add(sum[i]) - 8 * sums[i];
}

TARGET_AVX2 void tv_gemm_s4s8_avx2(const uint8_t *weights, size_t beats, size_t rows, const int8_t *packed,
                                   size_t stride, const int32_t *sums, size_t m, int32_t *out)
{
    size_t bytes = beats * TV_S4_BEAT / 2;
    for (size_t i = 0; i < m; i += TILE)
        for (size_t r = 0; r < rows; r++) {
            const int8_t *x = packed + i * stride;
            const uint8_t *w = weights + r * bytes;
            int32_t *y = out + r * m + i;
            if (m - i >= TILE)
                dot_row_s4_avx2(w, bytes, x, stride, sums + i, TILE, y);
            else
                for (size_t k = 0; k < m - i; k++)
                    dot_row_s4_avx2(w, bytes, x + k * stride, stride, sums + i + k, 1, y + k);
        }
}

TARGET_AVX2 void tv_dots_s8_avx2(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                                 int32_t *out)
{
    for (size_t u = 0; u < count; u++, a += a_step, w += w_step) {
        __m256i sum = _mm256_setzero_si256();
        size_t i = 0;
        for (; i + 16 <= n; i += 16) {
            __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(a + i)));
            __m256i y = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(w + i)));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, y));
        }
        out[u] = reduce_add(sum);
        for (; i < n; i++)
            out[u] += a[i] * w[i];
    }
}

/* One row of weights, widened once for `m` rows of activations. */
TARGET_AVX2 TV_INLINE void dot_row_s8_avx2(const int8_t *w, size_t n, const int8_t *a, unsigned m, int32_t *out)
{
    __m256i sum[TILE];
    size_t k = 0;
    for (unsigned i = 0; i < m; i++)
        sum[i] = _mm256_setzero_si256();
    for (; k + 16 <= n; k += 16) {
        __m256i y = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(w + k)));
        for (unsigned i = 0; i < m; i++)
            sum[i] = _mm256_add_epi32(
                sum[i], _mm256_madd_epi16(
                            _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(a + i * n + k))), y));
    }
    for (unsigned i = 0; i < m; i++) {
        out[i] = reduce_add(sum[i]);
        for (size_t rest = k; rest < n; rest++)
            out[i] += a[i * n + rest] * w[rest];
    }
}

TARGET_AVX2 void tv_gemm_s8s8_avx2(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums,
                                   size_t m, int32_t *out)
{
    (void)sums;
    for (size_t i = 0; i < m; i += TILE)
        for (size_t r = 0; r < rows; r++) {
            if (m - i >= TILE)
                dot_row_s8_avx2(w + r * n, n, a + i * n, TILE, out + r * m + i);
            else
                for (size_t k = i; k < m; k++)
                    dot_row_s8_avx2(w + r * n, n, a + k * n, 1, out + r * m + k);
        }
}

/* The eight partial sums of the canonical order are the lanes of a vector. Eight dot products at a time are independent
 * chains of additions. The last vector is padded with +0, which changes no partial sum because none is -0: all start at
 * +0. */
enum { SUMS = 8 };

TARGET_AVX2 TV_INLINE __m256 load_as_f32(const int8_t *w)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)w)));
}

TARGET_AVX2 TV_INLINE __m256 add_tail(__m256 p, const float *a, const int8_t *w, size_t n)
{
    float x[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        p = _mm256_add_ps(p, _mm256_mul_ps(_mm256_loadu_ps(a + i), load_as_f32(w + i)));
    if (i == n)
        return p;
    for (size_t r = 0; i + r < n; r++)
        x[r] = a[i + r] * (float)w[i + r];
    return _mm256_add_ps(p, _mm256_loadu_ps(x));
}

TARGET_AVX2 void tv_dots_f32_s8_avx2(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n,
                                     size_t count, float *out)
{
    for (size_t u = 0; u < count; u += SUMS) {
        __m256 p[SUMS];
        size_t here = count - u < SUMS ? count - u : SUMS;
        for (size_t v = 0; v < SUMS; v++)
            p[v] = v < here ? add_tail(_mm256_setzero_ps(), a + (u + v) * a_step, w + (u + v) * w_step, n)
                            : _mm256_setzero_ps();
        float all[SUMS];
        _mm256_storeu_ps(all, tv_sums_avx2(p));
        memcpy(out + u, all, here * sizeof *out);
    }
}

/* ---- AVX-512 with VNNI ---- */

TARGET_AVX512 TV_INLINE __m512 multiply16(const float *a, const int8_t *w)
{
    return _mm512_mul_ps(_mm512_loadu_ps(a),
                         _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)w))));
}

/* Two dot products in the halves of a vector, over n terms, a multiple of 16. */
TARGET_AVX512 TV_INLINE __m512 dot_pair(const float *a0, const float *a1, const int8_t *w0, const int8_t *w1, size_t n)
{
    __m512 p = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        __m512 x = multiply16(a0 + i, w0 + i), y = multiply16(a1 + i, w1 + i);
        p = _mm512_add_ps(p, _mm512_shuffle_f32x4(x, y, 0x44));
        p = _mm512_add_ps(p, _mm512_shuffle_f32x4(x, y, 0xEE));
    }
    return p;
}

TARGET_AVX512 TV_INLINE void dot_eight(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n,
                                       size_t rest, float *out)
{
    __m256 p[SUMS];
    for (size_t v = 0; v < SUMS; v += 2) {
        __m512 two = dot_pair(a + v * a_step, a + (v + 1) * a_step, w + v * w_step, w + (v + 1) * w_step, n);
        p[v] = _mm512_castps512_ps256(two);
        p[v + 1] = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(two), 1));
    }
    for (size_t v = 0; v < SUMS && rest; v++)
        p[v] = add_tail(p[v], a + v * a_step + n, w + v * w_step + n, rest);
    _mm256_storeu_ps(out, tv_sums_avx2(p));
}

TARGET_AVX512 void tv_dots_f32_s8_avx512(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n,
                                         size_t count, float *out)
{
    size_t u = 0;
    for (; u + SUMS <= count; u += SUMS) {
        if (n == 32) /* unrolled; all in registers */
            dot_eight(a + u * a_step, a_step, w + u * w_step, w_step, 32, 0, out + u);
        else
            dot_eight(a + u * a_step, a_step, w + u * w_step, w_step, n / 16 * 16, n % 16, out + u);
    }
    tv_dots_f32_s8_avx2(a + u * a_step, a_step, w + u * w_step, w_step, n, count - u, out + u);
}

/* A register tile: `rows` rows of weights times `m` rows of activations, compile-time constants up to TILE. */
TARGET_AVX512 TV_INLINE void tile_s4_avx512(const uint8_t *w, size_t bytes, unsigned rows, const int8_t *packed,
                                            size_t stride, const int32_t *sums, unsigned m, int32_t *out,
                                            size_t out_step)
{
    __m512i sum[TILE][TILE];
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < m; i++)
            sum[r][i] = _mm512_setzero_si512();
    for (size_t at = 0; at < bytes; at += HALF) {
        __mmask64 mask = bytes - at >= HALF ? ~(__mmask64)0 : ((__mmask64)1 << (bytes - at)) - 1;
        const int8_t *x = packed + at * 2;
        __m512i even[TILE], odd[TILE];
        for (unsigned i = 0; i < m; i++) {
            even[i] = _mm512_loadu_si512(x + i * stride);
            odd[i] = _mm512_loadu_si512(x + i * stride + HALF);
        }
        for (unsigned r = 0; r < rows; r++) {
            __m512i both = _mm512_maskz_loadu_epi8(mask, w + r * bytes + at);
            __m512i low = tv_low_weights_avx512(both), high = tv_high_weights_avx512(both);
            for (unsigned i = 0; i < m; i++)
                sum[r][i] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum[r][i], low, even[i]), high, odd[i]);
        }
    }
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < m; i++)
            out[r * out_step + i] = _mm512_reduce_add_epi32(sum[r][i]) - 8 * sums[i];
}

/* One row of activations: streams the weights in memory order, with four accumulators to hide the latency of a
 * multiply-add. */
TARGET_AVX512 static void gemv_s4_avx512(const uint8_t *w, size_t bytes, size_t rows, const int8_t *packed,
                                         int32_t sum_of_q, int32_t *out)
{
    for (size_t r = 0; r < rows; r++, w += bytes) {
        __m512i low[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()}, high[2] = {low[0], low[0]};
        size_t at = 0;
        for (; at + 2 * HALF <= bytes; at += 2 * HALF)
            for (unsigned i = 0; i < 2; i++) {
                __m512i both = _mm512_loadu_si512(w + at + i * HALF);
                const int8_t *x = packed + (at + i * HALF) * 2;
                _mm_prefetch((const char *)w + at + i * HALF + PREFETCH_BYTES, _MM_HINT_T1);
                low[i] = _mm512_dpbusd_epi32(low[i], tv_low_weights_avx512(both), _mm512_loadu_si512(x));
                high[i] = _mm512_dpbusd_epi32(high[i], tv_high_weights_avx512(both), _mm512_loadu_si512(x + HALF));
            }
        for (; at < bytes; at += HALF) {
            __mmask64 mask = bytes - at >= HALF ? ~(__mmask64)0 : ((__mmask64)1 << (bytes - at)) - 1;
            __m512i both = _mm512_maskz_loadu_epi8(mask, w + at);
            low[0] = _mm512_dpbusd_epi32(low[0], tv_low_weights_avx512(both), _mm512_loadu_si512(packed + at * 2));
            high[0] =
                _mm512_dpbusd_epi32(high[0], tv_high_weights_avx512(both), _mm512_loadu_si512(packed + at * 2 + HALF));
        }
        out[r] = _mm512_reduce_add_epi32(
                     _mm512_add_epi32(_mm512_add_epi32(low[0], low[1]), _mm512_add_epi32(high[0], high[1]))) -
                 8 * sum_of_q;
    }
}

TARGET_AVX512 static void tiles_s4_avx512(const uint8_t *w, size_t bytes, size_t rows, const int8_t *packed,
                                          size_t stride, const int32_t *sums, size_t m, int32_t *out)
{
    for (size_t i = 0; i < m;) {
        if (rows == TILE && m - i >= TILE) {
            tile_s4_avx512(w, bytes, TILE, packed + i * stride, stride, sums + i, TILE, out + i, m);
            i += TILE;
        } else if (rows == TILE) {
            tile_s4_avx512(w, bytes, TILE, packed + i * stride, stride, sums + i, 1, out + i, m);
            i++;
        } else {
            for (size_t r = 0; r < rows; r++)
                tile_s4_avx512(w + r * bytes, bytes, 1, packed + i * stride, stride, sums + i, 1, out + r * m + i, m);
            i++;
        }
    }
}

TARGET_AVX512 void tv_gemm_s4s8_avx512(const uint8_t *weights, size_t beats, size_t rows, const int8_t *packed,
                                       size_t stride, const int32_t *sums, size_t m, int32_t *out)
{
    size_t bytes = beats * TV_S4_BEAT / 2;
    if (m == 1) {
        gemv_s4_avx512(weights, bytes, rows, packed, sums[0], out);
        return;
    }
    for (size_t r = 0; r < rows; r += TILE)
        tiles_s4_avx512(weights + r * bytes, bytes, rows - r < TILE ? rows - r : TILE, packed, stride, sums, m,
                        out + r * m);
}

TARGET_AVX512 TV_INLINE __m512i load_partial(const int8_t *p, size_t left)
{
    return left >= 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(((__mmask64)1 << left) - 1, p);
}

TARGET_AVX512 TV_INLINE void tile_s8_avx512(const int8_t *w, size_t n, unsigned rows, const int8_t *a,
                                            const int32_t *sums, unsigned m, int32_t *out, size_t out_step)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    __m512i sum[TILE][TILE];
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < m; i++)
            sum[r][i] = _mm512_setzero_si512();
    size_t k = 0;
    for (; k + 64 <= n; k += 64) {
        __m512i x[TILE];
        for (unsigned i = 0; i < m; i++)
            x[i] = _mm512_loadu_si512(a + i * n + k);
        for (unsigned r = 0; r < rows; r++) {
            __m512i y = _mm512_xor_si512(_mm512_loadu_si512(w + r * n + k), flip);
            for (unsigned i = 0; i < m; i++)
                sum[r][i] = _mm512_dpbusd_epi32(sum[r][i], y, x[i]);
        }
    }
    for (unsigned r = 0; r < rows && k < n; r++) {
        __m512i y = _mm512_xor_si512(load_partial(w + r * n + k, n - k), flip);
        for (unsigned i = 0; i < m; i++)
            sum[r][i] = _mm512_dpbusd_epi32(sum[r][i], y, load_partial(a + i * n + k, n - k));
    }
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < m; i++)
            out[r * out_step + i] = _mm512_reduce_add_epi32(sum[r][i]) - 128 * sums[i];
}

TARGET_AVX512 void tv_gemm_s8s8_avx512(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums,
                                       size_t m, int32_t *out)
{
    size_t r = 0;
    for (; r + TILE <= rows; r += TILE) {
        size_t i = 0;
        for (; i + TILE <= m; i += TILE)
            tile_s8_avx512(w + r * n, n, TILE, a + i * n, sums + i, TILE, out + r * m + i, m);
        for (; i < m; i++)
            tile_s8_avx512(w + r * n, n, TILE, a + i * n, sums + i, 1, out + r * m + i, m);
    }
    for (; r < rows; r++)
        for (size_t i = 0; i < m; i++)
            tile_s8_avx512(w + r * n, n, 1, a + i * n, sums + i, 1, out + r * m + i, m);
}

/* Contiguous groups of 32, two per vector. Returns how many are done, a multiple of 8. */
TARGET_AVX512 static size_t dot_groups_avx512(const int8_t *a, const int8_t *w, size_t count, int32_t *out)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    size_t u = 0;
    for (; u + 8 <= count; u += 8) {
        __m256i products[8];
        for (unsigned v = 0; v < 4; v++) {
            __m512i x = _mm512_loadu_si512(a + (u + 2 * v) * 32),
                    y = _mm512_xor_si512(_mm512_loadu_si512(w + (u + 2 * v) * 32), flip);
            __m512i s = _mm512_dpbusd_epi32(_mm512_setzero_si512(), y, x);
            s = _mm512_sub_epi32(s, _mm512_dpbusd_epi32(_mm512_setzero_si512(), flip, x));
            products[2 * v] = _mm512_castsi512_si256(s);
            products[2 * v + 1] = _mm512_extracti64x4_epi64(s, 1);
        }
        __m256i h[4], q[2];
        for (unsigned i = 0; i < 4; i++)
            h[i] = _mm256_hadd_epi32(products[2 * i], products[2 * i + 1]);
        for (unsigned i = 0; i < 2; i++)
            q[i] = _mm256_hadd_epi32(h[2 * i], h[2 * i + 1]);
        __m256i low = _mm256_permute2x128_si256(q[0], q[1], 0x20), high = _mm256_permute2x128_si256(q[0], q[1], 0x31);
        _mm256_storeu_si256((__m256i *)(void *)(out + u), _mm256_add_epi32(low, high));
    }
    return u;
}

TARGET_AVX512 void tv_dots_s8_avx512(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n,
                                     size_t count, int32_t *out)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    size_t u = n == 32 && a_step == 32 && w_step == 32 ? dot_groups_avx512(a, w, count, out) : 0;
    for (; u < count; u++) {
        const int8_t *x = a + u * a_step, *y = w + u * w_step;
        __m512i sum = _mm512_setzero_si512(), offset = sum;
        for (size_t i = 0; i < n; i += 64) {
            __m512i left = load_partial(x + i, n - i);
            sum = _mm512_dpbusd_epi32(sum, _mm512_xor_si512(load_partial(y + i, n - i), flip), left);
            offset = _mm512_dpbusd_epi32(offset, flip, left);
        }
        out[u] = _mm512_reduce_add_epi32(_mm512_sub_epi32(sum, offset));
    }
}
#else
typedef int tv_no_x86; /* ISO C wants a declaration */
#endif
