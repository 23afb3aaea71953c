/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped matrix-vector products with AVX2 and AVX-512.
 *
 * Eight groups at a time: their sums are the lanes of a vector, and so are the eight partial sums of the canonical
 * order. The last vector is padded with groups of 0 * 0, which changes no partial sum because none is -0: all start at
 * +0. Weights are made unsigned (w - min) for the multiply instructions; `offsets` corrects that. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"
#include "kernels/variants.h"
#include "kernels/x86/nibbles.h"
#include "kernels/x86/totals.h"

enum {
    HALF = TV_S4_BLOCK / 2,
    NIBBLE = 15,
    FLIP_NIBBLES = 0x88,
    GROUPS = TV_GROUPS_PER_VECTOR,
    SPAN = GROUPS * TV_GROUP_SIZE
};

#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

/* Loads up to eight scales; does not read beyond `count`. */
TARGET_AVX2 TV_INLINE __m256 load_scale_tail(const float *scales, size_t count)
{
    float padded[GROUPS] = {0};
    if (count >= GROUPS)
        return _mm256_loadu_ps(scales);
    memcpy(padded, scales, count * sizeof *padded);
    return _mm256_loadu_ps(padded);
}

/* Prefetches into the second-level cache what follows the weights of eight groups by TV_GROUPED_AHEAD: the processor's
 * own prefetching leaves half of the bandwidth of memory unused. The distance keeps memory busy between two products.
 */
TARGET_AVX2 TV_INLINE void prefetch_groups(unsigned bits, const uint8_t *w)
{
    for (unsigned i = 0; i < SPAN * bits / 8; i += 64)
        _mm_prefetch((const char *)((uintptr_t)w + TV_GROUPED_AHEAD + i), _MM_HINT_T1);
}

/* The same for the scales of a row. */
TARGET_AVX2 TV_INLINE void prefetch_scales(unsigned bits, size_t k, const float *scales)
{
    const size_t bytes = TV_GROUPED_AHEAD * 8 / bits / TV_GROUP_SIZE * sizeof *scales;
    for (size_t i = 0; i < k / TV_GROUP_SIZE; i += 64 / sizeof *scales)
        _mm_prefetch((const char *)((uintptr_t)(scales + i) + bytes), _MM_HINT_T1);
}

/* ---- AVX2 ---- */

TARGET_AVX2 TV_INLINE __m256i load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* Sums of eight groups. Each of the four vectors has the products of one group in its low half and of the next in its
 * high half. */
TARGET_AVX2 TV_INLINE __m256i reduce_pairs(const __m256i pairs[4])
{
    __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(pairs[0], pairs[1]), _mm256_hadd_epi32(pairs[2], pairs[3]));
    return _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* The sums of eight groups: 128 bytes of INT4 times 256 activations. */
TARGET_AVX2 TV_INLINE __m256i dot_groups_s4_avx2(const uint8_t *w, const int8_t *packed)
{
    const __m256i nibble = _mm256_set1_epi8(NIBBLE), flip = _mm256_set1_epi8((char)FLIP_NIBBLES),
                  ones = _mm256_set1_epi16(1);
    __m256i pairs[4];
    for (unsigned v = 0; v < 4; v++) {
        __m256i both = _mm256_xor_si256(load256(w + 32 * v), flip);
        const int8_t *x = packed + v / 2 * TV_S4_BLOCK + v % 2 * 32;
        __m256i even = _mm256_maddubs_epi16(_mm256_and_si256(both, nibble), load256(x));
        __m256i odd = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(both, 4), nibble), load256(x + HALF));
        pairs[v] = _mm256_madd_epi16(_mm256_add_epi16(even, odd), ones);
    }
    return reduce_pairs(pairs);
}

TARGET_AVX2 TV_INLINE __m256i widen(const int8_t *p)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* The same for INT8, which needs no offsets: the products are of signed 16-bit numbers. */
TARGET_AVX2 TV_INLINE __m256i dot_groups_s8_avx2(const int8_t *w, const int8_t *packed)
{
    __m256i products[8], pairs[4];
    for (unsigned g = 0; g < 8; g++)
        products[g] = _mm256_add_epi32(_mm256_madd_epi16(widen(w + 32 * g), widen(packed + 32 * g)),
                                       _mm256_madd_epi16(widen(w + 32 * g + 16), widen(packed + 32 * g + 16)));
    for (unsigned v = 0; v < 4; v++)
        pairs[v] = _mm256_add_epi32(_mm256_permute2x128_si256(products[2 * v], products[2 * v + 1], 0x20),
                                    _mm256_permute2x128_si256(products[2 * v], products[2 * v + 1], 0x31));
    return reduce_pairs(pairs);
}

TARGET_AVX2 TV_INLINE __m256 dot_row_avx2(unsigned bits, const uint8_t *w, size_t k, const int8_t *packed,
                                          const int32_t *offsets, __m256 factor, const float *scales)
{
    __m256 p = _mm256_setzero_ps();
    prefetch_scales(bits, k, scales);
    for (size_t at = 0; at < k; at += SPAN) {
        uint8_t tail[SPAN] = {0};
        const uint8_t *from = w + at * bits / 8;
        prefetch_groups(bits, from);
        if (k - at < SPAN) {
            memcpy(tail, from, (k - at) * bits / 8);
            from = tail;
        }
        __m256i sums =
            bits == 4 ? _mm256_sub_epi32(dot_groups_s4_avx2(from, packed + at), load256(offsets + at / TV_GROUP_SIZE))
                      : dot_groups_s8_avx2((const int8_t *)from, packed + at);
        __m256 scaled = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums), factor),
                                      load_scale_tail(scales + at / TV_GROUP_SIZE, (k - at) / TV_GROUP_SIZE));
        p = _mm256_add_ps(p, scaled);
    }
    return p;
}

TARGET_AVX2 TV_INLINE void gemv_avx2(unsigned bits, const uint8_t *w, size_t k, size_t rows, const int8_t *packed,
                                     const int32_t *offsets, float factor, const float *scales, float *out)
{
    __m256 factors = _mm256_set1_ps(factor);
    for (size_t r = 0; r < rows; r += 8) {
        size_t count = rows - r < 8 ? rows - r : 8;
        float all[8];
        __m256 p[8];
        for (size_t i = 0; i < 8; i++)
            p[i] = i < count ? dot_row_avx2(bits, w + (r + i) * k * bits / 8, k, packed, offsets, factors,
                                            scales + (r + i) * (k / TV_GROUP_SIZE))
                             : _mm256_setzero_ps();
        _mm256_storeu_ps(all, tv_sums_avx2(p));
        memcpy(out + r, all, count * sizeof *out);
    }
}

TARGET_AVX2 void tv_gemv_grouped_s4_avx2(const void *weights, size_t k, size_t rows, const int8_t *packed,
                                         const int32_t *offsets, float factor, const float *scales, float *out)
{
    gemv_avx2(4, weights, k, rows, packed, offsets, factor, scales, out);
}

TARGET_AVX2 void tv_gemv_grouped_s8_avx2(const void *weights, size_t k, size_t rows, const int8_t *packed,
                                         const int32_t *offsets, float factor, const float *scales, float *out)
{
    gemv_avx2(8, weights, k, rows, packed, offsets, factor, scales, out);
}

/* ---- AVX-512 with VNNI ---- */

TARGET_AVX512 TV_INLINE __m512i load_partial(const uint8_t *p, size_t left)
{
    return left >= 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(left ? ~(__mmask64)0 >> (64 - left) : 0, p);
}

TARGET_AVX512 TV_INLINE __m512i add_unpacked32(__m512i a, __m512i b)
{
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

TARGET_AVX512 TV_INLINE __m512i add_unpacked64(__m512i a, __m512i b)
{
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* The sums of eight groups of INT4: two vectors of weights, with four lanes per group. */
TARGET_AVX512 TV_INLINE __m256i dot_groups_s4_avx512(const uint8_t *w, size_t bytes, const int8_t *packed)
{
    __m512i sum[2];
    for (unsigned v = 0; v < 2; v++) {
        __m512i both = load_partial(w + 64 * v, bytes < 64 * v ? 0 : bytes - 64 * v);
        const int8_t *x = packed + v * TV_S4_BLOCK;
        sum[v] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), tv_low_weights_avx512(both), _mm512_loadu_si512(x));
        sum[v] = _mm512_dpbusd_epi32(sum[v], tv_high_weights_avx512(both), _mm512_loadu_si512(x + HALF));
    }
    __m512i t = add_unpacked32(sum[0], sum[1]);
    t = _mm512_add_epi32(
        t, _mm512_shuffle_epi32(
               t, (_MM_PERM_ENUM)0x4E)); /* per quarter: lane 0 of the first vector, lane 1 of the second */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, t));
}

/* The same for INT8: four vectors of weights, with eight lanes per group. */
TARGET_AVX512 TV_INLINE __m256i dot_groups_s8_avx512(const uint8_t *w, size_t bytes, const int8_t *packed)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    __m512i sum[4];
    for (unsigned v = 0; v < 4; v++) {
        __m512i shifted = _mm512_xor_si512(load_partial(w + 64 * v, bytes < 64 * v ? 0 : bytes - 64 * v), flip);
        sum[v] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), shifted, _mm512_loadu_si512(packed + 64 * v));
    }
    __m512i t = add_unpacked64(add_unpacked32(sum[0], sum[1]),
                               add_unpacked32(sum[2], sum[3])); /* per quarter: one lane of each of the four vectors */
    t = _mm512_add_epi32(t, _mm512_shuffle_i32x4(t, t, 0xB1));
    const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, t));
}

TARGET_AVX512 TV_INLINE __m256 scaled_groups_avx512(unsigned bits, const uint8_t *w, size_t left, const int8_t *packed,
                                                    const int32_t *offsets, __m256 factor, __m256 scales)
{
    size_t bytes = left * bits / 8;
    prefetch_groups(bits, w);
    __m256i sums = bits == 4 ? dot_groups_s4_avx512(w, bytes, packed) : dot_groups_s8_avx512(w, bytes, packed);
    sums = _mm256_sub_epi32(sums, _mm256_loadu_si256((const __m256i *)(const void *)offsets));
    return _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums), factor), scales);
}

TARGET_AVX512 TV_INLINE __m256 dot_row_avx512(unsigned bits, const uint8_t *w, size_t k, const int8_t *packed,
                                              const int32_t *offsets, __m256 factor, const float *scales)
{
    __m256 p = _mm256_setzero_ps();
    size_t at = 0;
    prefetch_scales(bits, k, scales);
    for (; at + SPAN <= k; at += SPAN)
        p = _mm256_add_ps(p,
                          scaled_groups_avx512(bits, w + at * bits / 8, SPAN, packed + at, offsets + at / TV_GROUP_SIZE,
                                               factor, _mm256_loadu_ps(scales + at / TV_GROUP_SIZE)));
    if (at < k) {
        __m256 rest =
            _mm256_maskz_loadu_ps((__mmask8)((1u << (k - at) / TV_GROUP_SIZE) - 1), scales + at / TV_GROUP_SIZE);
        p = _mm256_add_ps(p, scaled_groups_avx512(bits, w + at * bits / 8, k - at, packed + at,
                                                  offsets + at / TV_GROUP_SIZE, factor, rest));
    }
    return p;
}

TARGET_AVX512 TV_INLINE void gemv_avx512(unsigned bits, const uint8_t *w, size_t k, size_t rows, const int8_t *packed,
                                         const int32_t *offsets, float factor, const float *scales, float *out)
{
    __m256 factors = _mm256_set1_ps(factor);
    for (size_t r = 0; r < rows; r += 8) {
        size_t count = rows - r < 8 ? rows - r : 8;
        __m256 p[8];
        for (size_t i = 0; i < 8; i++)
            p[i] = i < count ? dot_row_avx512(bits, w + (r + i) * k * bits / 8, k, packed, offsets, factors,
                                              scales + (r + i) * (k / TV_GROUP_SIZE))
                             : _mm256_setzero_ps();
        _mm256_mask_storeu_ps(out + r, (__mmask8)((1u << count) - 1), tv_sums_avx2(p));
    }
}

TARGET_AVX512 void tv_gemv_grouped_s4_avx512(const void *weights, size_t k, size_t rows, const int8_t *packed,
                                             const int32_t *offsets, float factor, const float *scales, float *out)
{
    gemv_avx512(4, weights, k, rows, packed, offsets, factor, scales, out);
}

TARGET_AVX512 void tv_gemv_grouped_s8_avx512(const void *weights, size_t k, size_t rows, const int8_t *packed,
                                             const int32_t *offsets, float factor, const float *scales, float *out)
{
    gemv_avx512(8, weights, k, rows, packed, offsets, factor, scales, out);
}
#else
typedef int tv_no_groups_x86; /* ISO C wants a declaration */
#endif
