/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of outer products with AVX2, two at a time, and AVX-512 VNNI, four at a time: a 32-bit lane holds the factors
 * of all of them, one multiply-add multiplies and adds them, and rows of ACC stay in registers. Factors that are zero
 * in a few rows are skipped: a program that multiplies a matrix by a vector has the vector in few rows. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "kernels/clones.h"
#include "kernels/variants.h"

enum { ROWS = TV_OUTER_ROWS, PAIRS_MAX = TV_OUTER_COUNT_MAX / 2, AVX2_LANES = 8 };

typedef int32_t pairs[PAIRS_MAX][TV_OUTER_K_MAX];

#define TARGET_AVX2 __attribute__((target("avx2")))

/* Eight pairs of bytes as pairs of words. */
TARGET_AVX2 static inline void store_pairs(int32_t *p, __m128i bytes)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_cvtepi8_epi16(bytes));
}

/* out[p][j] = x[2p][j] in the low half and x[2p + 1][j] in the high half, for first <= j < end, both multiples of
 * AVX2_LANES; rows past `count` are zero. Returns the number of pairs. */
TARGET_AVX2 static unsigned pack_pairs(pairs out, uint32_t k, const int8_t *x, unsigned count, uint32_t first,
                                       uint32_t end)
{
    static const int8_t zeros[TV_OUTER_K_MAX];
    unsigned n = (count + 1) / 2;
    for (unsigned p = 0; p < n; p++) {
        const int8_t *low = x + (size_t)2 * p * k, *high = 2 * p + 1 < count ? low + k : zeros;
        uint32_t j = first;
        for (; j + 2 * AVX2_LANES <= end; j += 2 * AVX2_LANES) {
            __m128i l = _mm_loadu_si128((const __m128i *)(const void *)(low + j)),
                    h = _mm_loadu_si128((const __m128i *)(const void *)(high + j));
            store_pairs(&out[p][j], _mm_unpacklo_epi8(l, h));
            store_pairs(&out[p][j + AVX2_LANES], _mm_unpackhi_epi8(l, h));
        }
        if (j < end)
            store_pairs(&out[p][j], _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(const void *)(low + j)),
                                                      _mm_loadl_epi64((const __m128i *)(const void *)(high + j))));
    }
    return n;
}

static_assert(PAIRS_MAX <= 256 && ROWS == 4, "the number of a pair is a byte, and rows are words of 128 bits");

/* Lists the pairs of which one of ROWS words from word i on is not zero; returns their number. */
TARGET_AVX2 static unsigned list_pairs(pairs x, unsigned n, uint32_t i, uint8_t list[PAIRS_MAX])
{
    unsigned count = 0;
    for (unsigned p = 0; p < n; p++) {
        __m128i words = _mm_loadu_si128((const __m128i *)(const void *)&x[p][i]);
        list[count] = (uint8_t)p;
        count += !_mm_testz_si128(words, words);
    }
    return count;
}

/* Adds the products of `count` pairs, the listed ones or, without a list, all, to `vectors` vectors of
 * four rows of ACC from row i and column j on. */
TARGET_AVX2 TV_INLINE void add_pairs(int32_t *acc, uint32_t k, pairs x, pairs y, uint32_t i, uint32_t j,
                                     unsigned vectors, const uint8_t *list, unsigned count)
{
    enum { VECTORS_MAX = 2 };
    int32_t *at = acc + (size_t)i * k + j;
    __m256i sum[ROWS][VECTORS_MAX];
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned v = 0; v < vectors; v++)
            sum[r][v] =
                _mm256_loadu_si256((const __m256i *)(const void *)(at + (size_t)r * k + (size_t)AVX2_LANES * v));
    for (unsigned l = 0; l < count; l++) {
        unsigned p = list ? list[l] : l;
        __m256i factors[VECTORS_MAX];
        for (unsigned v = 0; v < vectors; v++)
            factors[v] = _mm256_loadu_si256((const __m256i *)(const void *)&y[p][j + AVX2_LANES * v]);
        for (unsigned r = 0; r < ROWS; r++) {
            __m256i factor = _mm256_set1_epi32(x[p][i + r]);
            for (unsigned v = 0; v < vectors; v++) {
                sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(factor, factors[v]));
                __asm__("" : "+x"(sum[r][v])); /* or GCC copies all sums in each turn */
            }
        }
    }
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned v = 0; v < vectors; v++)
            _mm256_storeu_si256((__m256i *)(void *)(at + (size_t)r * k + (size_t)AVX2_LANES * v), sum[r][v]);
}

/* The same to all columns of four rows from row i on. */
TARGET_AVX2 TV_INLINE void add_pairs_to_rows(int32_t *acc, uint32_t k, pairs x, pairs y, uint32_t i,
                                             const uint8_t *list, unsigned count)
{
    if (k == AVX2_LANES)
        add_pairs(acc, k, x, y, i, 0, 1, list, count);
    else
        for (uint32_t j = 0; j < k; j += 2 * AVX2_LANES)
            add_pairs(acc, k, x, y, i, j, 2, list, count);
}

TARGET_AVX2 void tv_outer_s8_avx2(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count,
                                  uint32_t first, uint32_t end)
{
    if (k < AVX2_LANES) {
        tv_outer_s8_scalar(acc, k, a, b, count, first, end);
        return;
    }
    pairs x, y;
    uint8_t list[PAIRS_MAX];
    unsigned n =
        pack_pairs(x, k, a, count, first / AVX2_LANES * AVX2_LANES, (end + AVX2_LANES - 1) / AVX2_LANES * AVX2_LANES);
    pack_pairs(y, k, b, count, 0, k);
    for (uint32_t i = first; i < end; i += ROWS) {
        unsigned listed = list_pairs(x, n, i, list);
        if (listed == n)
            add_pairs_to_rows(acc, k, x, y, i, NULL, n);
        else if (listed)
            add_pairs_to_rows(acc, k, x, y, i, list, listed);
    }
}

#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

enum { QUADS_MAX = TV_OUTER_COUNT_MAX / 4, K_MAX = TV_OUTER_K_MAX, LANES = 16, VECTORS = 4 };

typedef uint32_t quads[QUADS_MAX][K_MAX];

/* out[p][j] = x[4p .. 4p + 3][j] from the low byte up, exclusive-ored with `flip`; rows past `count` are zero. */
TARGET_AVX512 static void pack_quads(quads out, const int8_t *x, unsigned count, uint32_t flip)
{
    const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                  flips = _mm512_set1_epi32((int32_t)flip);
    for (unsigned p = 0; p < (count + 3) / 4; p++) {
        __m512i r[4]; /* word 4 i + j at 4 j + i, so that unpacking leaves the lanes in order */
        for (unsigned i = 0; i < 4; i++)
            r[i] = 4 * p + i < count
                       ? _mm512_permutexvar_epi32(words, _mm512_loadu_si512(x + (size_t)(4 * p + i) * K_MAX))
                       : _mm512_setzero_si512();
        __m512i low01 = _mm512_unpacklo_epi8(r[0], r[1]), low23 = _mm512_unpacklo_epi8(r[2], r[3]);
        __m512i high01 = _mm512_unpackhi_epi8(r[0], r[1]), high23 = _mm512_unpackhi_epi8(r[2], r[3]);
        _mm512_store_si512(&out[p][0], _mm512_xor_si512(flips, _mm512_unpacklo_epi16(low01, low23)));
        _mm512_store_si512(&out[p][16], _mm512_xor_si512(flips, _mm512_unpackhi_epi16(low01, low23)));
        _mm512_store_si512(&out[p][32], _mm512_xor_si512(flips, _mm512_unpacklo_epi16(high01, high23)));
        _mm512_store_si512(&out[p][48], _mm512_xor_si512(flips, _mm512_unpackhi_epi16(high01, high23)));
    }
}

/* The same, without `flip`, for the LANES words from word j on. */
TARGET_AVX512 static void pack_vectors(quads out, unsigned j, const int8_t *x, unsigned count)
{
    const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                  bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    for (unsigned p = 0; p < (count + 3) / 4; p++) {
        __m128i r[4];
        for (unsigned i = 0; i < 4; i++)
            r[i] = 4 * p + i < count
                       ? _mm_loadu_si128((const __m128i *)(const void *)(x + (size_t)(4 * p + i) * K_MAX + j))
                       : _mm_setzero_si128();
        __m512i four = _mm512_inserti32x4(_mm512_castsi128_si512(r[0]), r[1], 1); /* row i at words 4 i to 4 i + 3 */
        four = _mm512_inserti32x4(_mm512_inserti32x4(four, r[2], 2), r[3], 3);
        _mm512_store_si512(&out[p][j], _mm512_shuffle_epi8(_mm512_permutexvar_epi32(words, four), bytes));
    }
}

static_assert(LANES == 16 && QUADS_MAX == 32, "a bit for each word of a vector, in a vector of 16-bit words");

/* Bit i of set[p]: x[p][j + i] is not zero; quads from n on have no bits. offsets[i] = -128 times the sum of the bytes
 * of x[p][j + i] over all p. */
TARGET_AVX512 static void scan_quads(quads x, unsigned j, unsigned n, uint16_t set[QUADS_MAX], int32_t offsets[LANES])
{
    const __m512i bias = _mm512_set1_epi8((char)128);
    __m512i sum = _mm512_setzero_si512();
    memset(set, 0, QUADS_MAX * sizeof *set);
    for (unsigned p = 0; p < n; p++) {
        __m512i words = _mm512_load_si512(&x[p][j]);
        sum = _mm512_dpbusd_epi32(sum, bias, words);
        set[p] = _mm512_test_epi32_mask(words, words);
    }
    _mm512_storeu_si512(offsets, _mm512_sub_epi32(_mm512_setzero_si512(), sum));
}

/* The quads, a bit each, of which one of the ROWS words from word i of a vector on is not zero. */
TARGET_AVX512 static uint32_t find_quads(const uint16_t set[QUADS_MAX], unsigned i)
{
    const __m512i words = _mm512_set1_epi16((int16_t)(((1 << ROWS) - 1) << i));
    return _mm512_test_epi16_mask(_mm512_loadu_si512(set), words);
}

/* Adds the listed quads, a bit each, to ROWS rows of ACC from row i on, and to each row its offset. */
TARGET_AVX512 static void add_quads(int32_t *acc, quads x, quads y, unsigned i, uint32_t list,
                                    const int32_t offsets[ROWS])
{
    int32_t *at = acc + (size_t)i * K_MAX;
    __m512i sum[ROWS][VECTORS];
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned v = 0; v < VECTORS; v++)
            sum[r][v] = _mm512_add_epi32(_mm512_loadu_si512(at + (size_t)r * K_MAX + (size_t)LANES * v),
                                         _mm512_set1_epi32(offsets[r]));
    for (; list; list &= list - 1) {
        unsigned p = (unsigned)__builtin_ctz(list);
        for (unsigned v = 0; v < VECTORS; v++) {
            const __m512i factors = _mm512_load_si512(&y[p][LANES * v]);
            for (unsigned r = 0; r < ROWS; r++) {
                sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], factors, _mm512_set1_epi32((int32_t)x[p][i + r]));
                __asm__("" : "+v"(sum[r][v])); /* or GCC copies all sums in each turn */
            }
        }
    }
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned v = 0; v < VECTORS; v++)
            _mm512_storeu_si512(at + (size_t)r * K_MAX + (size_t)LANES * v, sum[r][v]);
}

/* VNNI multiplies unsigned by signed bytes: b is biased by 128, and 128 times the sum of a is subtracted first. */
TARGET_AVX512 void tv_outer_s8_avx512(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count,
                                      uint32_t first, uint32_t end)
{
    if (k != K_MAX) {
        tv_outer_s8_avx2(acc, k, a, b, count, first, end);
        return;
    }
    _Alignas(64) quads x, y;
    uint16_t set[QUADS_MAX];
    int32_t offsets[LANES];
    const uint32_t base = first / LANES * LANES;
    if (end - base <= LANES)
        pack_vectors(x, base, a, count);
    else
        pack_quads(x, a, count, 0);
    pack_quads(y, b, count, UINT32_C(0x80808080));
    for (uint32_t j = base; j < end; j += LANES) {
        scan_quads(x, j, (count + 3) / 4, set, offsets);
        for (uint32_t i = j < first ? first : j; i < j + LANES && i < end; i += ROWS) {
            uint32_t list = find_quads(set, i - j);
            if (list) /* or its offsets are zero */
                add_quads(acc, x, y, i, list, offsets + (i - j));
        }
    }
}
#else
typedef int tv_no_outer_x86; /* ISO C wants a declaration */
#endif
