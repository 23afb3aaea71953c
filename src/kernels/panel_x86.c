/* SPDX-License-Identifier: Apache-2.0 */
/* Products by panels with AVX-512 and VNNI.
 *
 * A panel holds sixteen rows of weights by steps of four elements: a vector has a step of each row. Weights count from their
 * least number, as the host multiplies unsigned by signed bytes; that times the sum of the activations is taken off at the end.
 * Panels are made of at most BLOCK elements of their rows, so that they stay in the first cache. */
#include "kernels/panel_x86.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"

enum { ROWS = 16, PAIR = TV_PANEL_PAIR, TILE = TV_PANEL_TILE, STEP = 4, STEPS_TOGETHER = 16, SPAN = STEP * STEPS_TOGETHER, BLOCK = 1024, VECTOR = 64, GROUP = 32, PARTIALS = 8 };

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
        __m512i low1 = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x44), high1 = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xEE);
        t[c] = _mm512_shuffle_i32x4(low0, low1, 0x88);
        t[4 + c] = _mm512_shuffle_i32x4(low0, low1, 0xDD);
        t[8 + c] = _mm512_shuffle_i32x4(high0, high1, 0x88);
        t[12 + c] = _mm512_shuffle_i32x4(high0, high1, 0xDD);
    }
    for (unsigned i = 0; i < ROWS; i++)
        v[i] = t[i];
}

TARGET TV_INLINE __mmask64 first_bytes(size_t count) { return count >= 64 ? ~(__mmask64)0 : count ? ~(__mmask64)0 >> (64 - count) : 0; }

/* Elements `at` to at + 63 of a row, as bytes from their least number on; what is past `left` does not matter. */
TARGET TV_INLINE __m512i load_row(const uint8_t *row, unsigned bits, size_t at, size_t left)
{
    if (bits == 8)
        return _mm512_xor_si512(left >= SPAN ? _mm512_loadu_si512(row + at) : _mm512_maskz_loadu_epi8(first_bytes(left), row + at), _mm512_set1_epi8((char)0x80));
    __m256i packed = left >= SPAN ? _mm256_loadu_si256((const __m256i *)(const void *)(row + at / 2)) : _mm256_maskz_loadu_epi8((__mmask32)first_bytes((left + 1) / 2), row + at / 2);
    __m512i wide = _mm512_cvtepu8_epi16(packed);
    __m512i bytes = _mm512_and_si512(_mm512_or_si512(wide, _mm512_slli_epi16(wide, 4)), _mm512_set1_epi8(15));
    return _mm512_xor_si512(bytes, _mm512_set1_epi8(8));
}

/* Elements `from` to from + length of `count` rows from row `row` on. */
TARGET TV_INLINE void pack(const tv_panel_weights *w, unsigned bits, size_t row, size_t count, size_t from, size_t length, uint8_t *panel)
{
    size_t row_bytes = w->k * bits / 8;
    for (size_t at = 0; at < length; at += SPAN, panel += ROWS * SPAN) {
        __m512i v[ROWS];
        for (size_t r = 0; r < ROWS; r++) {
            const uint8_t *of_row = w->rows + (row + r) * row_bytes;
            v[r] = r < count ? load_row(of_row, bits, from + at, length - at) : _mm512_setzero_si512();
            _mm_prefetch((const char *)of_row + PAIR * row_bytes + (from + at) * bits / 8, _MM_HINT_T0); /* comes next; beyond the end it does nothing */
        }
        transpose(v);
        for (unsigned s = 0; s < STEPS_TOGETHER; s++)
            _mm512_store_si512(panel + s * VECTOR, v[s]);
    }
}

TARGET static void pack_panel(const tv_panel_weights *w, size_t row, size_t count, size_t from, size_t length, uint8_t *panel)
{
    if (w->bits == 4)
        pack(w, 4, row, count, from, length, panel);
    else
        pack(w, 8, row, count, from, length, panel);
}

TARGET TV_INLINE __m512i broadcast(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

/* ---- One sum of each row ---- */

/* Adds the products of two panels and a tile of activations to `out`, [TILE][PAIR]. */
TARGET static void multiply_pair(const uint8_t *first, const uint8_t *second, size_t steps, const int8_t *ready, int32_t *out)
{
    __m512i a[TILE], b[TILE];
    for (unsigned i = 0; i < TILE; i++) {
        a[i] = _mm512_loadu_si512(out + i * PAIR);
        b[i] = _mm512_loadu_si512(out + i * PAIR + ROWS);
    }
    for (size_t s = 0; s < steps; s++, ready += TILE * STEP) {
        __m512i w0 = _mm512_load_si512(first + s * VECTOR), w1 = _mm512_load_si512(second + s * VECTOR);
        for (unsigned i = 0; i < TILE; i++) {
            __m512i x = broadcast(ready + i * STEP);
            a[i] = _mm512_dpbusd_epi32(a[i], w0, x);
            b[i] = _mm512_dpbusd_epi32(b[i], w1, x);
        }
    }
    for (unsigned i = 0; i < TILE; i++) {
        _mm512_storeu_si512(out + i * PAIR, a[i]);
        _mm512_storeu_si512(out + i * PAIR + ROWS, b[i]);
    }
}

TARGET static void pack_pair(const tv_panel_weights *w, size_t row, size_t count, size_t from, size_t length, uint8_t panels[2][ROWS * BLOCK])
{
    pack_panel(w, row, count < ROWS ? count : ROWS, from, length, panels[0]);
    pack_panel(w, row + ROWS, count < ROWS ? 0 : count - ROWS, from, length, panels[1]);
}

TARGET static void exact(const tv_panel_weights *w, size_t from, size_t count, const int8_t *ready, const int32_t *offsets, size_t m, int32_t *out)
{
    _Alignas(64) uint8_t panels[2][ROWS * BLOCK];
    int32_t tile[TV_PANEL_INPUTS * PAIR];
    size_t all_steps = tv_ceil_div(w->k, STEP), tiles = tv_ceil_div(m, TILE);
    for (size_t i = 0; i < tiles * TILE; i++)
        for (size_t r = 0; r < PAIR; r += ROWS)
            _mm512_storeu_si512(tile + i * PAIR + r, _mm512_set1_epi32(offsets[i]));
    for (size_t at = 0; at < w->k; at += BLOCK) {
        size_t length = w->k - at < BLOCK ? w->k - at : BLOCK;
        pack_pair(w, from, count, at, length, panels);
        for (size_t t = 0; t < tiles; t++)
            multiply_pair(panels[0], panels[1], tv_ceil_div(length, STEP), ready + (t * all_steps + at / STEP) * TILE * STEP, tile + t * TILE * PAIR);
    }
    memcpy(out, tile, m * PAIR * sizeof *out);
}

/* ---- A sum of each group ---- */

typedef struct partial_sums {
    __m512 of[2][TILE]; /* of each panel */
} partial_sums;

/* Adds a group's products, scaled, to partial sums: those of two panels and a tile of activations. `fresh`: the sums are 0, whatever
 * stands there; 0 is added all the same, since it makes +0 of -0. `whole`: the factor is 1, and changes nothing. */
TARGET TV_INLINE void add_group(const uint8_t *first, const uint8_t *second, const int8_t *ready, const int32_t *offsets, bool fresh, bool whole, __m512 factor,
                                const float *scales, partial_sums *p)
{
    __m512i a[TILE], b[TILE];
    for (unsigned i = 0; i < TILE; i++)
        a[i] = b[i] = _mm512_set1_epi32(offsets[i]);
    for (unsigned s = 0; s < GROUP / STEP; s++, ready += TILE * STEP) {
        __m512i w0 = _mm512_load_si512(first + s * VECTOR), w1 = _mm512_load_si512(second + s * VECTOR);
        for (unsigned i = 0; i < TILE; i++) {
            __m512i x = broadcast(ready + i * STEP);
            a[i] = _mm512_dpbusd_epi32(a[i], w0, x);
            b[i] = _mm512_dpbusd_epi32(b[i], w1, x);
        }
    }
    __m512 scale0 = _mm512_load_ps(scales), scale1 = _mm512_load_ps(scales + ROWS);
    for (unsigned i = 0; i < TILE; i++) {
        __m512 x = _mm512_cvtepi32_ps(a[i]), y = _mm512_cvtepi32_ps(b[i]);
        if (!whole) {
            x = _mm512_mul_ps(x, factor);
            y = _mm512_mul_ps(y, factor);
        }
        p->of[0][i] = _mm512_add_ps(fresh ? _mm512_setzero_ps() : p->of[0][i], _mm512_mul_ps(x, scale0));
        p->of[1][i] = _mm512_add_ps(fresh ? _mm512_setzero_ps() : p->of[1][i], _mm512_mul_ps(y, scale1));
    }
}

/* What a tile's groups of a block need. */
typedef struct block_groups {
    const uint8_t *panels[2];
    const int8_t *ready;
    const int32_t *offsets;
    const float *scales;
    size_t begin, count; /* of the row's groups */
} block_groups;

TARGET TV_INLINE void add_groups(const block_groups *b, size_t from, size_t to, bool fresh, bool whole, __m512 factor, partial_sums p[PARTIALS])
{
    for (size_t g = from; g < to; g++)
        add_group(b->panels[0] + g * GROUP * ROWS, b->panels[1] + g * GROUP * ROWS, b->ready + g * GROUP * TILE, b->offsets + g * TILE, fresh, whole, factor,
                  b->scales + g * PAIR, &p[(b->begin + g) % PARTIALS]);
}

/* The first groups of a row find no sums. */
TARGET static void add_block(const block_groups *b, float factor, partial_sums p[PARTIALS])
{
    __m512 times = _mm512_set1_ps(factor);
    size_t first = b->begin >= PARTIALS ? 0 : PARTIALS - b->begin < b->count ? PARTIALS - b->begin : b->count;
    if (factor == 1) {
        add_groups(b, 0, first, true, true, times, p);
        add_groups(b, first, b->count, false, true, times, p);
    } else {
        add_groups(b, 0, first, true, false, times, p);
        add_groups(b, first, b->count, false, false, times, p);
    }
}

/* Scales of a block's groups by group: [group][PAIR], of which this is one panel's half. */
TARGET static void pack_scales(const float *scales, size_t groups, size_t row, size_t count, size_t from, size_t length, float *out)
{
    for (size_t at = 0; at < length; at += ROWS) {
        size_t here = length - at < ROWS ? length - at : ROWS;
        __m512i v[ROWS];
        for (size_t r = 0; r < ROWS; r++)
            v[r] = r < count ? _mm512_maskz_loadu_epi32((__mmask16)((1u << here) - 1), scales + (row + r) * groups + from + at) : _mm512_setzero_si512();
        transpose(v);
        for (size_t g = 0; g < ROWS; g++)
            _mm512_store_si512(out + (at + g) * PAIR, v[g]);
    }
}

/* ((p0+p4)+(p2+p6))+((p1+p5)+(p3+p7)), of which those from `count` on are 0. */
TARGET TV_INLINE __m512 total(const partial_sums p[PARTIALS], size_t count, size_t panel, size_t i)
{
    __m512 v[PARTIALS];
    for (size_t u = 0; u < PARTIALS; u++)
        v[u] = u < count ? p[u].of[panel][i] : _mm512_setzero_ps();
    __m512 even = _mm512_add_ps(_mm512_add_ps(v[0], v[4]), _mm512_add_ps(v[2], v[6]));
    __m512 odd = _mm512_add_ps(_mm512_add_ps(v[1], v[5]), _mm512_add_ps(v[3], v[7]));
    return _mm512_add_ps(even, odd);
}

TARGET static void groups(const tv_panel_weights *w, size_t from, size_t count, const int8_t *ready, const int32_t *offsets, size_t m, const float *scales, float factor,
                          float *out, size_t step)
{
    enum { GROUPS = BLOCK / GROUP, TILES = TV_PANEL_GROUPED / TILE };
    _Alignas(64) uint8_t panels[2][ROWS * BLOCK];
    _Alignas(64) float scale[GROUPS * PAIR];
    partial_sums p[TILES][PARTIALS];
    size_t all = w->k / GROUP, used = all < PARTIALS ? all : PARTIALS, all_steps = w->k / STEP, tiles = tv_ceil_div(m, TILE), more = count < ROWS ? 0 : count - ROWS;
    for (size_t at = 0; at < w->k; at += BLOCK) {
        size_t length = w->k - at < BLOCK ? w->k - at : BLOCK;
        pack_pair(w, from, count, at, length, panels);
        pack_scales(scales, all, from, count - more, at / GROUP, length / GROUP, scale);
        pack_scales(scales, all, from + ROWS, more, at / GROUP, length / GROUP, scale + ROWS);
        for (size_t t = 0; t < tiles; t++) {
            block_groups b = {{panels[0], panels[1]}, ready + (t * all_steps + at / STEP) * TILE * STEP, offsets + (t * all + at / GROUP) * TILE, scale, at / GROUP, length / GROUP};
            add_block(&b, factor, p[t]);
        }
    }
    __mmask16 low = (__mmask16)((1u << (count - more)) - 1), high = (__mmask16)((1u << more) - 1);
    for (size_t i = 0; i < m; i++) {
        _mm512_mask_storeu_ps(out + i * step, low, total(p[i / TILE], used, 0, i % TILE));
        if (more)
            _mm512_mask_storeu_ps(out + i * step + ROWS, high, total(p[i / TILE], used, 1, i % TILE));
    }
}

const tv_panel_fns tv_panel_avx512 = {exact, groups};
#else
typedef int tv_no_panel_x86; /* ISO C wants a declaration */
#endif
