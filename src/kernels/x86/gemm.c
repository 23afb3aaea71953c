/* SPDX-License-Identifier: Apache-2.0 */
/* Integer matrix products with AVX2 and AVX-512.
 *
 * The host multiplies unsigned by signed bytes. INT4 weights count from -8 (their bits with the highest flipped), so
 * that eight times the sum of the activations is taken off; bytes count from -128, and 128 times that sum is. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"
#include "kernels/variants.h"
#include "kernels/x86/totals.h"

enum { HALF = TV_S4_BLOCK / 2, TILE = 4, FLIP_NIBBLES = 0x88, NIBBLE = 15 };

#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

/* ---- AVX2 ---- */

TARGET_AVX2 TV_INLINE __m256i load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

TARGET_AVX2 TV_INLINE int32_t total256(__m256i x)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
    return _mm_cvtsi128_si32(s);
}

/* Products of 15 and -128 at most: eight pairs of them fit 16 bits, which are four vectors of weights. */
enum { PAIRS_BEFORE_WIDENING = 4 };

TARGET_AVX2 TV_INLINE void row_avx2(const uint8_t *w, size_t bytes, const int8_t *ready, size_t stride,
                                    const int32_t *sums, unsigned m, int32_t *out)
{
    const __m256i nibble = _mm256_set1_epi8(NIBBLE), flip = _mm256_set1_epi8((char)FLIP_NIBBLES),
                  ones = _mm256_set1_epi16(1);
    __m256i sum[TILE], narrow[TILE];
    uint8_t tail[32] = {0};
    unsigned waiting = 0;
    for (unsigned i = 0; i < m; i++)
        sum[i] = narrow[i] = _mm256_setzero_si256();
    for (size_t at = 0; at < bytes; at += 32) {
        const uint8_t *p = w + at;
        if (bytes - at < 32)
            p = memcpy(tail, p, bytes - at);
        __m256i both = _mm256_xor_si256(load256(p), flip), low = _mm256_and_si256(both, nibble),
                high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
        const int8_t *x = ready + at / HALF * TV_S4_BLOCK + at % HALF;
        for (unsigned i = 0; i < m; i++) {
            __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(low, load256(x + i * stride)),
                                             _mm256_maddubs_epi16(high, load256(x + i * stride + HALF)));
            narrow[i] = _mm256_add_epi16(narrow[i], pairs);
        }
        if (++waiting < PAIRS_BEFORE_WIDENING && at + 32 < bytes)
            continue;
        for (unsigned i = 0; i < m; i++) {
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(narrow[i], ones));
            narrow[i] = _mm256_setzero_si256();
        }
        waiting = 0;
    }
    for (unsigned i = 0; i < m; i++)
        out[i] = total256(sum[i]) - 8 * sums[i];
}

TARGET_AVX2 void tv_gemm_s4s8_avx2(const uint8_t *weights, size_t beats, size_t rows, const int8_t *ready,
                                   size_t stride, const int32_t *sums, size_t m, int32_t *out)
{
    size_t bytes = beats * TV_S4_BEAT / 2;
    for (size_t i = 0; i < m; i += TILE)
        for (size_t r = 0; r < rows; r++) {
            const int8_t *x = ready + i * stride;
            const uint8_t *w = weights + r * bytes;
            int32_t *y = out + r * m + i;
            if (m - i >= TILE)
                row_avx2(w, bytes, x, stride, sums + i, TILE, y);
            else
                for (size_t k = 0; k < m - i; k++)
                    row_avx2(w, bytes, x + k * stride, stride, sums + i + k, 1, y + k);
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
        out[u] = total256(sum);
        for (; i < n; i++)
            out[u] += a[i] * w[i];
    }
}

/* A row of weights, widened once for four rows of activations. */
TARGET_AVX2 TV_INLINE void bytes_avx2(const int8_t *w, size_t n, const int8_t *a, unsigned m, int32_t *out)
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
        out[i] = total256(sum[i]);
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
                bytes_avx2(w + r * n, n, a + i * n, TILE, out + r * m + i);
            else
                for (size_t k = i; k < m; k++)
                    bytes_avx2(w + r * n, n, a + k * n, 1, out + r * m + k);
        }
}

/* The eight partial sums of the canonical order are the lanes of a vector. Eight sums at a time, so that one's
 * additions need not wait for another's. What is missing of the last eight terms is +0, which changes no sum: none is
 * ever -0, as all begin at +0. */
enum { SUMS = 8 };

TARGET_AVX2 TV_INLINE __m256 widened(const int8_t *w)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)w)));
}

TARGET_AVX2 TV_INLINE __m256 add_rest(__m256 p, const float *a, const int8_t *w, size_t n)
{
    float x[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        p = _mm256_add_ps(p, _mm256_mul_ps(_mm256_loadu_ps(a + i), widened(w + i)));
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
            p[v] = v < here ? add_rest(_mm256_setzero_ps(), a + (u + v) * a_step, w + (u + v) * w_step, n)
                            : _mm256_setzero_ps();
        float all[SUMS];
        _mm256_storeu_ps(all, tv_sums_avx2(p));
        memcpy(out + u, all, here * sizeof *out);
    }
}

/* ---- AVX-512 with VNNI ---- */

TARGET_AVX512 TV_INLINE __m512 products16(const float *a, const int8_t *w)
{
    return _mm512_mul_ps(_mm512_loadu_ps(a),
                         _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)w))));
}

/* Two sums in a vector, of their first n terms, a multiple of 16. */
TARGET_AVX512 TV_INLINE __m512 two_sums(const float *a0, const float *a1, const int8_t *w0, const int8_t *w1, size_t n)
{
    __m512 p = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        __m512 x = products16(a0 + i, w0 + i), y = products16(a1 + i, w1 + i);
        p = _mm512_add_ps(p, _mm512_shuffle_f32x4(x, y, 0x44));
        p = _mm512_add_ps(p, _mm512_shuffle_f32x4(x, y, 0xEE));
    }
    return p;
}

TARGET_AVX512 TV_INLINE void eight_sums(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n,
                                        size_t rest, float *out)
{
    __m256 p[SUMS];
    for (size_t v = 0; v < SUMS; v += 2) {
        __m512 two = two_sums(a + v * a_step, a + (v + 1) * a_step, w + v * w_step, w + (v + 1) * w_step, n);
        p[v] = _mm512_castps512_ps256(two);
        p[v + 1] = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(two), 1));
    }
    for (size_t v = 0; v < SUMS && rest; v++)
        p[v] = add_rest(p[v], a + v * a_step + n, w + v * w_step + n, rest);
    _mm256_storeu_ps(out, tv_sums_avx2(p));
}

TARGET_AVX512 void tv_dots_f32_s8_avx512(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n,
                                         size_t count, float *out)
{
    size_t u = 0;
    for (; u + SUMS <= count; u += SUMS) {
        if (n == 32) /* all in registers */
            eight_sums(a + u * a_step, a_step, w + u * w_step, w_step, 32, 0, out + u);
        else
            eight_sums(a + u * a_step, a_step, w + u * w_step, w_step, n / 16 * 16, n % 16, out + u);
    }
    tv_dots_f32_s8_avx2(a + u * a_step, a_step, w + u * w_step, w_step, n, count - u, out + u);
}

/* `rows` rows of weights times `m` of activations, both at most TILE and known to the compiler: all sums stay in
 * registers. */
TARGET_AVX512 TV_INLINE void tile_avx512(const uint8_t *w, size_t bytes, unsigned rows, const int8_t *ready,
                                         size_t stride, const int32_t *sums, unsigned m, int32_t *out, size_t out_step)
{
    const __m512i nibble = _mm512_set1_epi8(NIBBLE), flip = _mm512_set1_epi8((char)FLIP_NIBBLES);
    __m512i sum[TILE][TILE];
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < m; i++)
            sum[r][i] = _mm512_setzero_si512();
    for (size_t at = 0; at < bytes; at += HALF) {
        __mmask64 mask = bytes - at >= HALF ? ~(__mmask64)0 : ((__mmask64)1 << (bytes - at)) - 1;
        const int8_t *x = ready + at * 2;
        __m512i even[TILE], odd[TILE];
        for (unsigned i = 0; i < m; i++) {
            even[i] = _mm512_loadu_si512(x + i * stride);
            odd[i] = _mm512_loadu_si512(x + i * stride + HALF);
        }
        for (unsigned r = 0; r < rows; r++) {
            __m512i both = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, w + r * bytes + at), flip);
            __m512i low = _mm512_and_si512(both, nibble), high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
            for (unsigned i = 0; i < m; i++)
                sum[r][i] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum[r][i], low, even[i]), high, odd[i]);
        }
    }
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < m; i++)
            out[r * out_step + i] = _mm512_reduce_add_epi32(sum[r][i]) - 8 * sums[i];
}

/* One row of activations: rows of weights one after another, as they lie in memory, with sums enough to hide a
 * multiply-add's time. */
TARGET_AVX512 static void vector_avx512(const uint8_t *w, size_t bytes, size_t rows, const int8_t *ready,
                                        int32_t sum_of_q, int32_t *out)
{
    const __m512i nibble = _mm512_set1_epi8(NIBBLE), flip = _mm512_set1_epi8((char)FLIP_NIBBLES);
    for (size_t r = 0; r < rows; r++, w += bytes) {
        __m512i low[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()}, high[2] = {low[0], low[0]};
        size_t at = 0;
        for (; at + 2 * HALF <= bytes; at += 2 * HALF)
            for (unsigned i = 0; i < 2; i++) {
                __m512i both = _mm512_xor_si512(_mm512_loadu_si512(w + at + i * HALF), flip);
                const int8_t *x = ready + (at + i * HALF) * 2;
                low[i] = _mm512_dpbusd_epi32(low[i], _mm512_and_si512(both, nibble), _mm512_loadu_si512(x));
                high[i] = _mm512_dpbusd_epi32(high[i], _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble),
                                              _mm512_loadu_si512(x + HALF));
            }
        for (; at < bytes; at += HALF) {
            __mmask64 mask = bytes - at >= HALF ? ~(__mmask64)0 : ((__mmask64)1 << (bytes - at)) - 1;
            __m512i both = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, w + at), flip);
            low[0] = _mm512_dpbusd_epi32(low[0], _mm512_and_si512(both, nibble), _mm512_loadu_si512(ready + at * 2));
            high[0] = _mm512_dpbusd_epi32(high[0], _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble),
                                          _mm512_loadu_si512(ready + at * 2 + HALF));
        }
        out[r] = _mm512_reduce_add_epi32(
                     _mm512_add_epi32(_mm512_add_epi32(low[0], low[1]), _mm512_add_epi32(high[0], high[1]))) -
                 8 * sum_of_q;
    }
}

TARGET_AVX512 static void tiles_avx512(const uint8_t *w, size_t bytes, size_t rows, const int8_t *ready, size_t stride,
                                       const int32_t *sums, size_t m, int32_t *out)
{
    for (size_t i = 0; i < m;) {
        if (rows == TILE && m - i >= TILE) {
            tile_avx512(w, bytes, TILE, ready + i * stride, stride, sums + i, TILE, out + i, m);
            i += TILE;
        } else if (rows == TILE) {
            tile_avx512(w, bytes, TILE, ready + i * stride, stride, sums + i, 1, out + i, m);
            i++;
        } else {
            for (size_t r = 0; r < rows; r++)
                tile_avx512(w + r * bytes, bytes, 1, ready + i * stride, stride, sums + i, 1, out + r * m + i, m);
            i++;
        }
    }
}

TARGET_AVX512 void tv_gemm_s4s8_avx512(const uint8_t *weights, size_t beats, size_t rows, const int8_t *ready,
                                       size_t stride, const int32_t *sums, size_t m, int32_t *out)
{
    size_t bytes = beats * TV_S4_BEAT / 2;
    if (m == 1) {
        vector_avx512(weights, bytes, rows, ready, sums[0], out);
        return;
    }
    for (size_t r = 0; r < rows; r += TILE)
        tiles_avx512(weights + r * bytes, bytes, rows - r < TILE ? rows - r : TILE, ready, stride, sums, m,
                     out + r * m);
}

TARGET_AVX512 TV_INLINE __m512i load_bytes(const int8_t *p, size_t left)
{
    return left >= 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(((__mmask64)1 << left) - 1, p);
}

TARGET_AVX512 TV_INLINE void bytes_avx512(const int8_t *w, size_t n, unsigned rows, const int8_t *a,
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
        __m512i y = _mm512_xor_si512(load_bytes(w + r * n + k, n - k), flip);
        for (unsigned i = 0; i < m; i++)
            sum[r][i] = _mm512_dpbusd_epi32(sum[r][i], y, load_bytes(a + i * n + k, n - k));
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
            bytes_avx512(w + r * n, n, TILE, a + i * n, sums + i, TILE, out + r * m + i, m);
        for (; i < m; i++)
            bytes_avx512(w + r * n, n, TILE, a + i * n, sums + i, 1, out + r * m + i, m);
    }
    for (; r < rows; r++)
        for (size_t i = 0; i < m; i++)
            bytes_avx512(w + r * n, n, 1, a + i * n, sums + i, 1, out + r * m + i, m);
}

/* Groups of 32 that follow one another: two in a vector. */
TARGET_AVX512 static size_t groups_avx512(const int8_t *a, const int8_t *w, size_t count, int32_t *out)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    size_t u = 0;
    for (; u + 8 <= count; u += 8) {
        __m256i part[8];
        for (unsigned v = 0; v < 4; v++) {
            __m512i x = _mm512_loadu_si512(a + (u + 2 * v) * 32),
                    y = _mm512_xor_si512(_mm512_loadu_si512(w + (u + 2 * v) * 32), flip);
            __m512i s = _mm512_dpbusd_epi32(_mm512_setzero_si512(), y, x);
            s = _mm512_sub_epi32(s, _mm512_dpbusd_epi32(_mm512_setzero_si512(), flip, x));
            part[2 * v] = _mm512_castsi512_si256(s);
            part[2 * v + 1] = _mm512_extracti64x4_epi64(s, 1);
        }
        __m256i h[4], q[2];
        for (unsigned i = 0; i < 4; i++)
            h[i] = _mm256_hadd_epi32(part[2 * i], part[2 * i + 1]);
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
    size_t u = n == 32 && a_step == 32 && w_step == 32 ? groups_avx512(a, w, count, out) : 0;
    for (; u < count; u++) {
        const int8_t *x = a + u * a_step, *y = w + u * w_step;
        __m512i sum = _mm512_setzero_si512(), offset = sum;
        for (size_t i = 0; i < n; i += 64) {
            __m512i left = load_bytes(x + i, n - i);
            sum = _mm512_dpbusd_epi32(sum, _mm512_xor_si512(load_bytes(y + i, n - i), flip), left);
            offset = _mm512_dpbusd_epi32(offset, flip, left);
        }
        out[u] = _mm512_reduce_add_epi32(_mm512_sub_epi32(sum, offset));
    }
}
#else
typedef int tv_no_x86; /* ISO C wants a declaration */
#endif
