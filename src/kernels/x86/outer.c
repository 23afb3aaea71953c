/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of outer products with AVX2, two at a time, and AVX-512 VNNI, four at a time: a 32-bit lane holds the factors
 * of all of them, one multiply-add multiplies and adds them, and rows of ACC stay in registers. Factors that are zero
 * in a few rows are skipped: a program that multiplies a matrix by a vector has the vector in few rows. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "kernels/variants.h"

enum { PAIRS_MAX = TV_OUTER_COUNT_MAX / 2, AVX2_LANES = 8, AVX2_ROWS = 4 /* words of 128 bits */ };

typedef int32_t pairs[PAIRS_MAX][TV_OUTER_K_MAX];

/* out[p][j] = x[2p][j] in the low half and x[2p + 1][j] in the high half; rows past `count` are zero. Returns the
 * number of pairs. */
static unsigned pack_pairs(pairs out, uint32_t k, const int8_t *x, unsigned count)
{
    unsigned n = (count + 1) / 2;
    for (unsigned p = 0; p < n; p++) {
        const int8_t *low = x + (size_t)2 * p * k, *high = low + k;
        if (2 * p + 1 < count)
            for (uint32_t j = 0; j < k; j++)
                out[p][j] = (int32_t)((uint32_t)(uint16_t)low[j] | (uint32_t)high[j] << 16);
        else
            for (uint32_t j = 0; j < k; j++)
                out[p][j] = (uint16_t)low[j];
    }
    return n;
}

static_assert(PAIRS_MAX <= 256, "the number of a pair is a byte");

/* Lists the pairs of which one of AVX2_ROWS words from word i on is not zero; returns their number. */
__attribute__((target("avx2"))) static unsigned list_pairs(pairs x, unsigned n, uint32_t i, uint8_t list[PAIRS_MAX])
{
    unsigned count = 0;
    for (unsigned p = 0; p < n; p++) {
        __m128i words = _mm_loadu_si128((const __m128i *)(const void *)&x[p][i]);
        list[count] = (uint8_t)p;
        count += !_mm_testz_si128(words, words);
    }
    return count;
}

/* Adds the products of `count` pairs, the listed ones or, without a list, all, to four rows of ACC from row i on. */
__attribute__((target("avx2"), always_inline)) static inline void add_pairs(int32_t *acc, uint32_t k, pairs x, pairs y,
                                                                            uint32_t i, const uint8_t *list,
                                                                            unsigned count)
{
    for (uint32_t j = 0; j < k; j += AVX2_LANES) {
        int32_t *at = acc + (size_t)i * k + j;
        __m256i sum[AVX2_ROWS];
        for (unsigned r = 0; r < AVX2_ROWS; r++)
            sum[r] = _mm256_loadu_si256((const __m256i *)(const void *)(at + (size_t)r * k));
        for (unsigned l = 0; l < count; l++) {
            unsigned p = list ? list[l] : l;
            __m256i factors = _mm256_loadu_si256((const __m256i *)(const void *)&y[p][j]);
            for (unsigned r = 0; r < AVX2_ROWS; r++)
                sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(_mm256_set1_epi32(x[p][i + r]), factors));
        }
        for (unsigned r = 0; r < AVX2_ROWS; r++)
            _mm256_storeu_si256((__m256i *)(void *)(at + (size_t)r * k), sum[r]);
    }
}

__attribute__((target("avx2"))) void tv_outer_s8_avx2(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b,
                                                      unsigned count)
{
    if (k < AVX2_LANES) {
        tv_outer_s8_scalar(acc, k, a, b, count);
        return;
    }
    pairs x, y;
    uint8_t list[PAIRS_MAX];
    unsigned n = pack_pairs(x, k, a, count);
    pack_pairs(y, k, b, count);
    for (uint32_t i = 0; i < k; i += AVX2_ROWS) {
        unsigned listed = list_pairs(x, n, i, list);
        if (listed == n)
            add_pairs(acc, k, x, y, i, NULL, n);
        else if (listed)
            add_pairs(acc, k, x, y, i, list, listed);
    }
}

#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

enum { QUADS_MAX = TV_OUTER_COUNT_MAX / 4, K_MAX = TV_OUTER_K_MAX, LANES = 16, VECTORS = 4, ROWS = 4 };

/* out[p][j] = x[4p .. 4p + 3][j] from the low byte up, exclusive-ored with `flip`; rows past `count` are zero. Returns
 * the number of quads. */
TARGET_AVX512 static unsigned pack_quads(uint32_t out[QUADS_MAX][K_MAX], const int8_t *x, unsigned count, uint32_t flip)
{
    const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                  flips = _mm512_set1_epi32((int32_t)flip);
    unsigned n = (count + 3) / 4;
    for (unsigned p = 0; p < n; p++) {
        __m512i r[4]; /* word 4 i + j at 4 j + i, so that unpacking leaves the lanes in order */
        for (unsigned i = 0; i < 4; i++)
            r[i] = 4 * p + i < count
                       ? _mm512_permutexvar_epi32(words, _mm512_loadu_si512(x + (size_t)(4 * p + i) * K_MAX))
                       : _mm512_setzero_si512();
        __m512i low01 = _mm512_unpacklo_epi8(r[0], r[1]), low23 = _mm512_unpacklo_epi8(r[2], r[3]);
        __m512i high01 = _mm512_unpackhi_epi8(r[0], r[1]), high23 = _mm512_unpackhi_epi8(r[2], r[3]);
        _mm512_storeu_si512(&out[p][0], _mm512_xor_si512(flips, _mm512_unpacklo_epi16(low01, low23)));
        _mm512_storeu_si512(&out[p][16], _mm512_xor_si512(flips, _mm512_unpackhi_epi16(low01, low23)));
        _mm512_storeu_si512(&out[p][32], _mm512_xor_si512(flips, _mm512_unpacklo_epi16(high01, high23)));
        _mm512_storeu_si512(&out[p][48], _mm512_xor_si512(flips, _mm512_unpackhi_epi16(high01, high23)));
    }
    return n;
}

static_assert(VECTORS == 4 && QUADS_MAX == 32 && QUADS_MAX == 2 * LANES,
              "a bit for each quad, in two vectors of words");

/* The quads, a bit each, of which one of the ROWS words from word i on is not zero. */
TARGET_AVX512 static uint32_t find_quads(uint32_t set[2][QUADS_MAX], unsigned i)
{
    const __m512i words = _mm512_set1_epi32((int32_t)(((UINT32_C(1) << ROWS) - 1) << i % 32));
    const uint32_t *at = set[i / 32];
    return (uint32_t)_mm512_test_epi32_mask(_mm512_load_si512(at), words) |
           (uint32_t)_mm512_test_epi32_mask(_mm512_load_si512(at + LANES), words) << LANES;
}

/* Bit i: find_quads finds any for the ROWS words from word ROWS * i on. */
TARGET_AVX512 static uint32_t find_row_groups(uint32_t set[2][QUADS_MAX])
{
    uint32_t groups = 0;
    for (unsigned i = 0; i < K_MAX / ROWS; i++)
        groups |= (uint32_t)(find_quads(set, ROWS * i) != 0) << i;
    return groups;
}

TARGET_AVX512 static inline uint32_t find_set_lanes(__m512i low, __m512i high)
{
    return (uint32_t)_mm512_test_epi32_mask(low, low) | (uint32_t)_mm512_test_epi32_mask(high, high) << LANES;
}

/* Bit j % 32 of set[j / 32][p]: x[p][j] is not zero; quads from n on have no bits. offsets[j] = -128 times the sum of
 * the bytes of x[p][j] over all p. */
TARGET_AVX512 static void scan_quads(uint32_t x[QUADS_MAX][K_MAX], unsigned n, uint32_t set[2][QUADS_MAX],
                                     int32_t offsets[K_MAX])
{
    const __m512i bias = _mm512_set1_epi8((char)128);
    __m512i sum[VECTORS];
    for (unsigned v = 0; v < VECTORS; v++)
        sum[v] = _mm512_setzero_si512();
    memset(set, 0, 2 * sizeof *set);
    for (unsigned p = 0; p < n; p++) {
        __m512i words[VECTORS];
        for (unsigned v = 0; v < VECTORS; v++) {
            words[v] = _mm512_loadu_si512(&x[p][LANES * v]);
            sum[v] = _mm512_dpbusd_epi32(sum[v], bias, words[v]);
        }
        set[0][p] = find_set_lanes(words[0], words[1]);
        set[1][p] = find_set_lanes(words[2], words[3]);
    }
    for (unsigned v = 0; v < VECTORS; v++)
        _mm512_storeu_si512(offsets + (size_t)LANES * v, _mm512_sub_epi32(_mm512_setzero_si512(), sum[v]));
}

/* VNNI multiplies unsigned by signed bytes: b is biased by 128, and 128 times the sum of a is subtracted first. */
TARGET_AVX512 void tv_outer_s8_avx512(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count)
{
    if (k != K_MAX) {
        tv_outer_s8_avx2(acc, k, a, b, count);
        return;
    }
    _Alignas(64) uint32_t x[QUADS_MAX][K_MAX], y[QUADS_MAX][K_MAX];
    _Alignas(64) uint32_t set[2][QUADS_MAX];
    int32_t offsets[K_MAX];
    unsigned n = pack_quads(x, a, count, 0);
    pack_quads(y, b, count, UINT32_C(0x80808080));
    scan_quads(x, n, set, offsets);
    for (uint32_t groups = find_row_groups(set); groups; groups &= groups - 1) { /* the offsets of others are zero */
        const unsigned i = ROWS * (unsigned)__builtin_ctz(groups);
        uint32_t quads = find_quads(set, i);
        int32_t *at = acc + (size_t)i * K_MAX;
        __m512i sum[ROWS][VECTORS];
        for (unsigned r = 0; r < ROWS; r++)
            for (unsigned v = 0; v < VECTORS; v++)
                sum[r][v] = _mm512_add_epi32(_mm512_loadu_si512(at + (size_t)r * K_MAX + (size_t)LANES * v),
                                             _mm512_set1_epi32(offsets[i + r]));
        for (; quads; quads &= quads - 1) {
            unsigned p = (unsigned)__builtin_ctz(quads);
            for (unsigned r = 0; r < ROWS; r++) {
                __m512i factor = _mm512_set1_epi32((int32_t)x[p][i + r]);
                for (unsigned v = 0; v < VECTORS; v++)
                    sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], _mm512_loadu_si512(&y[p][LANES * v]), factor);
            }
        }
        for (unsigned r = 0; r < ROWS; r++)
            for (unsigned v = 0; v < VECTORS; v++)
                _mm512_storeu_si512(at + (size_t)r * K_MAX + (size_t)LANES * v, sum[r][v]);
    }
}
#else
typedef int tv_no_outer_x86; /* ISO C wants a declaration */
#endif
