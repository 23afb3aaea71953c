/* SPDX-License-Identifier: Apache-2.0 */
/* Products by panels with AVX-512 and VNNI.
 *
 * A panel holds sixteen rows of weights by words of four bytes: a vector has a word of each row, four elements, or
 * eight of INT4, whose halves are taken apart where they are multiplied. Weights count from their least number, as the
 * host multiplies unsigned by signed bytes; that times the sum of the activations is taken off at the end. Panels are
 * made of at most BLOCK bytes of their rows, so that they stay in the first cache. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"
#include "kernels/variants.h"
#include "num/float_x86.h"

enum {
    ROWS = 16,
    PAIR = TV_PANEL_PAIR,
    TILE = TV_PANEL_TILE,
    STEP = 4,
    BLOCK = 512,
    VECTOR = 64,
    WORDS = 16 /* of a vector */,
    GROUP = 32,
    PARTIALS = 8,
    FLIP = 0x80,
    FLIP_NIBBLES = 0x88,
    NIBBLE = 15
};

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

/* ---- Panels ---- */

/* Sixteen vectors of sixteen words: word j of vector i becomes word i of vector j. */
TARGET TV_INLINE void transpose(__m512i v[ROWS])
{
    __m512i t[ROWS];
    for (unsigned i = 0; i < ROWS; i += 2) {
        t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (unsigned i = 0; i < ROWS; i += 4) /* v[i + c]: word c of each quarter, of rows i to i + 3 */
        for (unsigned c = 0; c < 2; c++) {
            v[i + 2 * c] = _mm512_unpacklo_epi64(t[i + c], t[i + 2 + c]);
            v[i + 2 * c + 1] = _mm512_unpackhi_epi64(t[i + c], t[i + 2 + c]);
        }
    for (unsigned c = 0; c < 4; c++) { /* quarters of four vectors are to change places */
        __m512i low0 = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x44), high0 = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xEE);
        __m512i low1 = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x44),
                high1 = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xEE);
        t[c] = _mm512_shuffle_i32x4(low0, low1, 0x88);
        t[4 + c] = _mm512_shuffle_i32x4(low0, low1, 0xDD);
        t[8 + c] = _mm512_shuffle_i32x4(high0, high1, 0x88);
        t[12 + c] = _mm512_shuffle_i32x4(high0, high1, 0xDD);
    }
    for (unsigned i = 0; i < ROWS; i++)
        v[i] = t[i];
}

/* The lowest `count` bits, at most 32. */
static inline uint32_t first_bits(size_t count) { return count ? UINT32_MAX >> (32 - count) : 0; }

/* Where a row is, or would be: of one that is not there nothing is read. */
static inline const void *row_at(const void *rows, size_t stride, size_t r)
{
    return (const void *)((uintptr_t)rows + r * stride);
}

/* Half a vector of each of 32 rows, of which `count` are there and have `bytes` bytes: word s of the first sixteen rows
 * goes to first + s * step, that of the others to second + s * step. `flip` changes bits on the way; what is missing
 * are zeros. */
TARGET TV_INLINE void turn_rows(const void *rows, size_t stride, size_t count, size_t bytes, __m512i flip, void *first,
                                void *second, size_t step)
{
    __mmask32 mask = first_bits(bytes);
    __m512i v[ROWS];
    for (size_t r = 0; r < ROWS; r++) {
        const uint8_t *low = row_at(rows, stride, r), *high = row_at(rows, stride, r + ROWS);
        __m256i a = _mm256_maskz_loadu_epi8(r < count ? mask : 0, low),
                b = _mm256_maskz_loadu_epi8(r + ROWS < count ? mask : 0, high);
        v[r] = _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1), flip);
    }
    transpose(v);
    for (size_t s = 0; s < WORDS / 2; s++) {
        _mm512_store_si512((uint8_t *)first + s * step, v[s]);
        _mm512_store_si512((uint8_t *)second + s * step, v[WORDS / 2 + s]);
    }
}

/* Bytes `from` to from + length of `count` rows from row `row` on. What stands behind the length in the last words does
 * not matter, as activations are zeros there. */
TARGET static void pack_pair(const tv_gemm_panel_weights *w, size_t row, size_t count, size_t from, size_t length,
                             uint8_t panels[2][ROWS * BLOCK])
{
    const __m512i flip = _mm512_set1_epi8((char)(w->bits == 4 ? FLIP_NIBBLES : FLIP));
    for (size_t at = 0; at < length; at += VECTOR / 2)
        turn_rows(w->rows + row * w->stride + from + at, w->stride, count,
                  length - at < VECTOR / 2 ? length - at : VECTOR / 2, flip, panels[0] + at * ROWS,
                  panels[1] + at * ROWS, VECTOR);
}

/* ---- Activations ---- */

/* Of each eight bytes those of even index, then those of odd. */
TARGET TV_INLINE __m512i even_odd(__m512i x)
{
    return _mm512_shuffle_epi8(
        x, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)));
}

/* The 128 elements of a tile of eight rows from element `at` on: two vectors of each row, then sixteen of words of
 * each. */
TARGET TV_INLINE void turn_tile(const int8_t *a, size_t rows, size_t k, size_t at, unsigned bits, __m512i v[2 * TILE])
{
    for (size_t i = 0; i < 2 * TILE; i++) {
        size_t begin = at + i / TILE * VECTOR, left = begin < k && i % TILE < rows ? k - begin : 0;
        __mmask64 mask = left >= VECTOR ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
        v[i] = _mm512_maskz_loadu_epi8(mask, a + i % TILE * k + begin);
        v[i] = bits == 4 ? even_odd(v[i]) : v[i];
    }
    transpose(v);
}

/* Sums of the words of a group, each eight of which are 32 elements of each row: of the first half of the 128 elements
 * in the low lanes, of the second in the high ones. */
TARGET TV_INLINE __m512i sum_words(const __m512i v[TILE])
{
    __m512i sum = _mm512_setzero_si512();
    for (size_t s = 0; s < TILE; s++)
        sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), v[s]);
    return sum;
}

TARGET TV_INLINE void put_offsets(__m256i sums, unsigned bits, int32_t *offsets)
{
    __m256i times =
        bits == 4 ? _mm256_slli_epi32(sums, 3) : _mm256_slli_epi32(sums, 7); /* 8 and 128: from the least number to 0 */
    _mm256_storeu_si256((__m256i *)(void *)offsets, _mm256_sub_epi32(_mm256_setzero_si256(), times));
}

TARGET TV_INLINE __m256i half_of(__m512i v, size_t half)
{
    return half ? _mm512_extracti64x4_epi64(v, 1) : _mm512_castsi512_si256(v);
}

TARGET static void ready_tile(const int8_t *a, size_t rows, size_t k, unsigned bits, bool grouped, int8_t *ready,
                              int32_t *offsets)
{
    enum { TOGETHER = 2 * VECTOR };
    __m512i all = _mm512_setzero_si512();
    for (size_t at = 0; at < k; at += TOGETHER) {
        size_t words = tv_ceil_div(k - at < TOGETHER ? k - at : TOGETHER, 2 * STEP) * 2;
        __m512i v[2 * TILE];
        turn_tile(a, rows, k, at, bits, v);
        for (size_t s = 0; s < words; s++, ready += TILE * STEP)
            _mm256_storeu_si256((__m256i *)(void *)ready, half_of(v[s % WORDS], s / WORDS));
        const __m512i sums[2] = {sum_words(v), sum_words(v + TILE)};
        all = _mm512_add_epi32(all, _mm512_add_epi32(sums[0], sums[1]));
        for (size_t g = 0; g < TOGETHER / GROUP && at + g * GROUP < k && grouped; g++, offsets += TILE)
            put_offsets(half_of(sums[g % 2], g / 2), bits, offsets);
    }
    if (!grouped)
        put_offsets(_mm256_add_epi32(half_of(all, 0), half_of(all, 1)), bits, offsets);
}

TARGET static void make_ready(const int8_t *a, size_t m, size_t k, unsigned bits, bool grouped, int8_t *ready,
                              int32_t *offsets)
{
    for (size_t i = 0; i < m; i += TILE)
        ready_tile(a + i * k, m - i < TILE ? m - i : TILE, k, bits, grouped, ready + tv_gemm_panel_packed_bytes(i, k),
                   offsets + tv_gemm_panel_offset_count(i, k, grouped ? GROUP : k));
}

/* ---- Products ---- */

TARGET TV_INLINE __m512i broadcast(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

TARGET TV_INLINE __m512i low_halves(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi8(NIBBLE)); }

/* Adds the products of four elements of each row of a panel and of each row of a tile. */
TARGET TV_INLINE void add_step(__m512i w, const int8_t *ready, __m512i sums[TILE])
{
#pragma GCC unroll 8
    for (unsigned i = 0; i < TILE; i++)
        sums[i] = _mm512_dpbusd_epi32(sums[i], w, broadcast(ready + i * STEP));
}

/* The same of `length` elements. */
TARGET TV_INLINE void add_steps(unsigned bits, const uint8_t *panel, size_t length, const int8_t *ready,
                                __m512i sums[TILE])
{
    for (size_t s = 0; s < length; s += VECTOR / ROWS * 8 / bits, panel += VECTOR) {
        __m512i w = _mm512_load_si512(panel);
        add_step(bits == 4 ? low_halves(w) : w, ready + s * TILE, sums);
        if (bits == 4)
            add_step(low_halves(_mm512_srli_epi16(w, 4)), ready + (s + STEP) * TILE, sums);
    }
}

/* ---- One sum of each row ---- */

/* Adds the products of a panel and a tile of activations to `out`, [TILE][PAIR]. */
TARGET TV_INLINE void multiply(unsigned bits, const uint8_t *panel, size_t length, const int8_t *ready, int32_t *out)
{
    __m512i sums[TILE];
    for (unsigned i = 0; i < TILE; i++)
        sums[i] = _mm512_loadu_si512(out + i * PAIR);
    add_steps(bits, panel, length, ready, sums);
    for (unsigned i = 0; i < TILE; i++)
        _mm512_storeu_si512(out + i * PAIR, sums[i]);
}

/* The same of all tiles and both panels. */
TARGET TV_INLINE void multiply_pair(unsigned bits, uint8_t panels[2][ROWS * BLOCK], size_t length, const int8_t *ready,
                                    size_t step, size_t tiles, int32_t *out)
{
    for (size_t t = 0; t < tiles; t++, ready += step, out += TILE * PAIR)
        for (unsigned half = 0; half < 2; half++)
            multiply(bits, panels[half], length, ready, out + half * ROWS);
}

TARGET static void exact(const tv_gemm_panel_weights *w, size_t from, size_t count, const int8_t *ready,
                         const int32_t *offsets, size_t m, int32_t *out)
{
    _Alignas(64) uint8_t panels[2][ROWS * BLOCK];
    int32_t tile[TV_PANEL_M_MAX * PAIR];
    size_t bytes = w->k * w->bits / 8, tiles = tv_ceil_div(m, TILE), step = tv_gemm_panel_packed_bytes(TILE, w->k);
    for (size_t i = 0; i < tiles * TILE; i++)
        for (size_t r = 0; r < PAIR; r += ROWS)
            _mm512_storeu_si512(tile + i * PAIR + r, _mm512_set1_epi32(offsets[i]));
    for (size_t at = 0; at < bytes; at += BLOCK) {
        size_t length = bytes - at < BLOCK ? bytes - at : BLOCK, elements = length * 8 / w->bits;
        const int8_t *here = ready + at * 8 / w->bits * TILE;
        pack_pair(w, from, count, at, length, panels);
        if (w->bits == 4)
            multiply_pair(4, panels, elements, here, step, tiles, tile);
        else
            multiply_pair(8, panels, elements, here, step, tiles, tile);
    }
    memcpy(out, tile, m * PAIR * sizeof *out);
}

/* ---- A sum of each group ---- */

/* Partial sums of the rows of a panel, for a tile of activations. */
typedef struct partial_sums {
    __m512 of[PARTIALS][TILE];
} partial_sums;

/* What a tile's groups of a block need. */
typedef struct block_groups {
    const uint8_t *panel;
    const int8_t *ready;
    const int32_t *offsets;
    const float *scales; /* [group][PAIR], from the panel's first row on */
    size_t begin, count; /* of the row's groups */
    size_t used;         /* partial sums that the row has */
} block_groups;

/* Adds the products of group `g` of the block, scaled, to a partial sum. `whole`: the factor is 1, and changes nothing.
 */
TARGET TV_INLINE void add_group(const block_groups *b, size_t g, unsigned bits, bool whole, __m512 factor,
                                __m512 sums[TILE])
{
    __m512i exact_sums[TILE];
    for (unsigned i = 0; i < TILE; i++)
        exact_sums[i] = _mm512_set1_epi32(b->offsets[g * TILE + i]);
    add_steps(bits, b->panel + g * (GROUP * ROWS * bits / 8), GROUP, b->ready + g * GROUP * TILE, exact_sums);
    __m512 scale = _mm512_load_ps(b->scales + g * PAIR);
#pragma GCC unroll 8
    for (unsigned i = 0; i < TILE; i++) {
        __m512 x = _mm512_cvtepi32_ps(exact_sums[i]);
        if (!whole)
            x = _mm512_mul_ps(x, factor);
        sums[i] = _mm512_add_ps(sums[i], _mm512_mul_ps(x, scale));
    }
}

/* One partial sum after the other stays in registers. In the row's first block they are 0, whatever stands there; 0 is
 * added all the same, since it makes +0 of -0. */
TARGET TV_INLINE void add_groups(const block_groups *b, unsigned bits, bool whole, float factor, partial_sums *p)
{
    const __m512 times = _mm512_set1_ps(factor);
    for (size_t u = 0; u < b->used; u++) {
        __m512 sums[TILE];
        for (unsigned i = 0; i < TILE; i++)
            sums[i] = b->begin ? p->of[u][i] : _mm512_setzero_ps();
        for (size_t g = u; g < b->count; g += PARTIALS)
            add_group(b, g, bits, whole, times, sums);
        for (unsigned i = 0; i < TILE; i++)
            p->of[u][i] = sums[i];
    }
}

TARGET static void add_block(const block_groups *b, unsigned bits, float factor, partial_sums *p)
{
    if (bits == 4 && factor == 1)
        add_groups(b, 4, true, factor, p);
    else if (bits == 4)
        add_groups(b, 4, false, factor, p);
    else if (factor == 1)
        add_groups(b, 8, true, factor, p);
    else
        add_groups(b, 8, false, factor, p);
}

/* Scales of a block's groups by group: [group][PAIR]. `scales` are of the first of `count` rows. */
TARGET static void pack_scales(const float *scales, size_t step, size_t count, size_t length, float *out)
{
    enum { TOGETHER = WORDS / 2 };
    for (size_t at = 0; at < length; at += TOGETHER) {
        size_t bytes = (length - at < TOGETHER ? length - at : TOGETHER) * sizeof *scales;
        turn_rows(scales + at, step * sizeof *scales, count, bytes, _mm512_setzero_si512(), out + at * PAIR,
                  out + at * PAIR + ROWS, PAIR * sizeof *out);
    }
}

/* Totals of `count` rows of a panel and `m` rows of a tile: ((p0+p4)+(p2+p6))+((p1+p5)+(p3+p7)), those from `used` on
 * 0. */
TARGET static void put_totals(const partial_sums *p, size_t used, size_t count, size_t m, const float *old, float *out,
                              size_t step)
{
    __mmask16 mask = (__mmask16)((1u << count) - 1);
    for (size_t i = 0; i < m; i++) {
        __m512 v[PARTIALS];
        for (size_t u = 0; u < PARTIALS; u++)
            v[u] = u < used ? p->of[u][i] : _mm512_setzero_ps();
        __m512 even = _mm512_add_ps(_mm512_add_ps(v[0], v[4]), _mm512_add_ps(v[2], v[6]));
        __m512 odd = _mm512_add_ps(_mm512_add_ps(v[1], v[5]), _mm512_add_ps(v[3], v[7]));
        __m512 y = _mm512_add_ps(even, odd);
        if (old)
            y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, old + i * step));
        _mm512_mask_storeu_ps(out + i * step, mask, tv_f32_canonical_x16(y));
    }
}

enum { TILES = TV_PANEL_GROUPED_M_MAX / TILE };

typedef struct pair_of_panels {
    _Alignas(64) uint8_t panels[2][ROWS * BLOCK];
    _Alignas(64) float scales[BLOCK * 2 / GROUP * PAIR];
    partial_sums sums[TILES][2]; /* of rows that have one block the first is all that is used */
} pair_of_panels;

/* Asks for `part` of `parts` of the bytes from byte `from` on of 32 rows, that come next: all at once would stand in
 * the way of what is wanted now. Beyond the end of memory it does nothing. */
static inline void ask_for(const void *rows, size_t from, size_t stride, size_t bytes, size_t part, size_t parts)
{
    for (size_t r = part * PAIR / parts; r < (part + 1) * PAIR / parts; r++)
        for (size_t at = 0; at < bytes; at += VECTOR)
            __builtin_prefetch(row_at(rows, 1, r * stride + from + at));
}

TARGET static void groups(const tv_gemm_panel_weights *w, size_t from, size_t count, const int8_t *ready,
                          const int32_t *offsets, size_t m, const float *scales, size_t scale_step, float factor,
                          const float *old, float *out, size_t step)
{
    pair_of_panels pair;
    const size_t all = w->k / GROUP, most = (size_t)BLOCK * 8 / w->bits / GROUP, used = all < PARTIALS ? all : PARTIALS,
                 group_bytes = GROUP * w->bits / 8;
    const size_t counts[2] = {count < ROWS ? count : ROWS, count < ROWS ? 0 : count - ROWS},
                 tiles = tv_ceil_div(m, TILE);
    for (size_t begin = 0; begin < all; begin += most) {
        size_t here = all - begin < most ? all - begin : most, next = begin + here == all ? 0 : begin + here,
               next_row = next ? from : from + PAIR;
        pack_pair(w, from, count, begin * group_bytes, here * group_bytes, pair.panels);
        pack_scales(scales + from * scale_step + begin, scale_step, count, here, pair.scales);
        for (size_t q = 0; q < 2 * tiles; q++) {
            size_t tile = q / 2, half = q % 2, i = tile * TILE;
            partial_sums *p = all > most ? &pair.sums[tile][half] : pair.sums[0];
            const block_groups b = {pair.panels[half],
                                    ready + tv_gemm_panel_packed_bytes(i, w->k) + begin * GROUP * TILE,
                                    offsets + i * all + begin * TILE,
                                    pair.scales + half * ROWS,
                                    begin,
                                    here,
                                    used};
            ask_for(row_at(w->rows, w->stride, next_row), next * group_bytes, w->stride, here * group_bytes, q,
                    2 * tiles);
            ask_for(row_at(scales, scale_step * sizeof *scales, next_row), next * sizeof *scales,
                    scale_step * sizeof *scales, here * sizeof *scales, q, 2 * tiles);
            if (counts[half])
                add_block(&b, w->bits, factor, p);
            if (counts[half] && begin + here == all)
                put_totals(p, used, counts[half], m - i < TILE ? m - i : TILE,
                           old ? old + i * step + half * ROWS : NULL, out + i * step + half * ROWS, step);
        }
    }
}

const tv_gemm_panel_set tv_gemm_panel_avx512 = {make_ready, exact, groups};
#else
typedef int tv_no_panel_x86; /* ISO C wants a declaration */
#endif
