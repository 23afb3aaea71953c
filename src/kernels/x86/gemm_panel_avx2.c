/* SPDX-License-Identifier: Apache-2.0 */
/* Products by packed panels (panel_blocks.h) with AVX2.
 *
 * Weights are unpacked when panels are packed: those of a word of a row become two words, in two vectors of eight rows.
 * INT4: four nibbles each. Products of a nibble and an activation are added in pairs to 16 bits, and the sums of a
 * group of 32 elements, half of its products in each, never overflow; they are widened once for each group. Scaled rows
 * of up to 64 elements are widened once: their offsets are added before, modulo 2^16, and the sums of signed weights
 * fit 16 bits. INT8: two weights of 16 bits each, which multiply activations of 16 bits, because 16 bits do not hold a
 * pair of products of bytes. Both keep their signs, so offsets are 0.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/clones.h"
#include "kernels/variants.h"
#include "kernels/x86/panel_blocks.h"
#include "num/float_x86.h"

enum {
    ROWS = TV_PANEL_ROWS,
    PAIR = TV_PANEL_PAIR,
    TILE = TV_PANEL_TILE,
    STEP = TV_PANEL_STEP,
    GROUP = TV_PANEL_GROUP,
    PARTIALS = TV_PANEL_PARTIALS,
    VECTOR = 32,
    WORDS = 8 /* of a vector */,
    VECTORS = ROWS / WORDS,
    HALF = ROWS * STEP /* bytes of a panel for half of a word of each row */,
    ROW_BYTES = TV_PANEL_ROW_MAX,
    TILE_STEP = 4 /* rows of a tile at a time: their sums are in registers */,
    WIDE = 2 * TILE * TV_PANEL_BLOCK /* bytes of a tile with 16 bits, for a block of INT8 */,
    SHORT_ROW = 2 * GROUP /* elements of a scaled row of INT4 whose sums fit 16 bits */,
    FLIP_NIBBLES = 0x88,
    NIBBLE = 15
};

/* Half of the products of a group, or of a short row, are added to each 16 bits. */
_Static_assert(NIBBLE * 128 * GROUP / 2 <= INT16_MAX, "sums of groups of unsigned weights fit 16 bits");
_Static_assert(8 * 127 * SHORT_ROW / 2 <= INT16_MAX, "sums of short rows of signed weights without -128 fit 16 bits");

#define TARGET __attribute__((target("avx2")))

/* ---- Panels ---- */

TARGET TV_INLINE __m256i load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
TARGET TV_INLINE void store256(void *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }

/* The first `size` bytes, at most 32; the rest is zeros. */
TARGET TV_INLINE __m256i load_partial(const void *p, size_t size)
{
    if (size >= VECTOR)
        return load256(p);
    uint8_t bytes[VECTOR] = {0};
    if (size)
        memcpy(bytes, p, size);
    return load256(bytes);
}

/* Transposes 8 x 8 words: word j of vector i becomes word i of vector j. */
TARGET TV_INLINE void transpose(__m256i v[WORDS])
{
    __m256i t[WORDS];
    for (unsigned i = 0; i < WORDS; i += 2) {
        t[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (unsigned i = 0; i < WORDS; i += 4) /* v[i + c]: word c of each half of rows i to i + 3 */
        for (unsigned c = 0; c < 2; c++) {
            v[i + 2 * c] = _mm256_unpacklo_epi64(t[i + c], t[i + 2 + c]);
            v[i + 2 * c + 1] = _mm256_unpackhi_epi64(t[i + c], t[i + 2 + c]);
        }
    for (unsigned c = 0; c < 4; c++) {
        t[c] = _mm256_permute2x128_si256(v[c], v[4 + c], 0x20);
        t[4 + c] = _mm256_permute2x128_si256(v[c], v[4 + c], 0x31);
    }
    for (unsigned i = 0; i < WORDS; i++)
        v[i] = t[i];
}

/* v[s] = word s of 8 rows from row `row` on, `row_step` apart, of which those below `count` exist and have `bytes`
 * bytes, up to 32; the rest is zeros. */
TARGET TV_INLINE void load_words(const void *rows, size_t stride, size_t row, size_t row_step, size_t count,
                                 size_t bytes, __m256i v[WORDS])
{
    for (size_t i = 0, r = row; i < WORDS; i++, r += row_step)
        v[i] = load_partial(tv_panel_row(rows, stride, r), r < count ? bytes : 0);
    transpose(v);
}

TARGET TV_INLINE __m256i low_nibbles(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi8(NIBBLE)); }

/* Two of four bytes of each word, those of even or odd index, with 16 bits. */
TARGET TV_INLINE __m256i even_bytes(__m256i x) { return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8); }
TARGET TV_INLINE __m256i odd_bytes(__m256i x) { return _mm256_srai_epi16(x, 8); }

TARGET TV_INLINE void store_halves(unsigned bits, __m256i words, uint8_t *panel)
{
    if (bits == 4) {
        __m256i both = _mm256_xor_si256(words, _mm256_set1_epi8((char)FLIP_NIBBLES));
        store256(panel, low_nibbles(both));
        store256(panel + HALF, low_nibbles(_mm256_srli_epi16(both, 4)));
    } else {
        store256(panel, even_bytes(words));
        store256(panel + HALF, odd_bytes(words));
    }
}

/* `interleaved`: the vectors of a panel have its rows of even and of odd index, otherwise its first and last ones. */
TARGET TV_INLINE void pack_panels(const tv_gemm_panel_weights *w, size_t row, size_t count, size_t from, size_t length,
                                  bool interleaved, uint8_t *panels)
{
    for (size_t r = 0; r < PAIR; r += WORDS) {
        uint8_t *to = panels + r / ROWS * ROWS * ROW_BYTES + r % ROWS * STEP;
        const size_t first = interleaved ? r / ROWS * ROWS + r % ROWS / WORDS : r, row_step = interleaved ? VECTORS : 1;
        for (size_t at = 0; at < length; at += VECTOR) {
            __m256i v[WORDS];
            load_words(w->rows + row * w->stride + from + at, w->stride, first, row_step, count,
                       length - at < VECTOR ? length - at : VECTOR, v);
            for (size_t s = 0; s < WORDS; s++, to += 2 * HALF)
                store_halves(w->bits, v[s], to);
        }
    }
}

TARGET static void pack_weights(const tv_gemm_panel_weights *w, size_t row, size_t count, size_t from, size_t length,
                                uint8_t *panels)
{
    pack_panels(w, row, count, from, length, false, panels);
}

TARGET static void pack_scales(const float *scales, size_t step, size_t count, size_t length, float *out)
{
    for (size_t r = 0; r < PAIR; r += WORDS)
        for (size_t at = 0; at < length; at += WORDS) {
            __m256i v[WORDS];
            load_words(scales + at, step * sizeof *scales, r, 1, count,
                       (length - at < WORDS ? length - at : WORDS) * sizeof *scales, v);
            for (size_t s = 0; s < WORDS; s++)
                store256(out + (at + s) * PAIR + r, v[s]);
        }
}

/* ---- Activations ---- */

/* Deinterleaves each eight bytes: those of even index, then those of odd index. */
TARGET TV_INLINE __m256i even_odd(__m256i x)
{
    return _mm256_shuffle_epi8(
        x, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)));
}

/* The sum of the elements of each row of a transposed tile, in two halves of 16 bits: of each four the first two, and
 * the other two, as products are added. */
TARGET TV_INLINE __m256i sum_halves(const __m256i v[WORDS])
{
    __m256i sum = _mm256_setzero_si256();
    for (size_t s = 0; s < WORDS; s++)
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_set1_epi8(1), v[s]));
    return sum;
}

/* The sums of two halves. */
TARGET TV_INLINE __m256i widen(__m256i halves) { return _mm256_madd_epi16(halves, _mm256_set1_epi16(1)); }

/* Whether scaled rows are added in 16 bits: their offsets are two halves modulo 2^16, which are added before widening.
 * Otherwise an offset has 32 bits. */
TV_INLINE bool is_short_row(unsigned bits, size_t length) { return bits == 4 && length <= SHORT_ROW; }

/* The minimum INT4 weight, -8, times the sums, which are 0 for INT8. `halves`: of 16 bits each. */
TARGET TV_INLINE void store_offsets(bool halves, __m256i sums, int32_t *offsets)
{
    const __m256i zero = _mm256_setzero_si256();
    store256(offsets, halves ? _mm256_sub_epi16(zero, _mm256_slli_epi16(sums, 3))
                             : _mm256_sub_epi32(zero, _mm256_slli_epi32(sums, 3)));
}

TARGET static void pack_tile(const int8_t *a, size_t rows, size_t k, unsigned bits, tv_panel_product product,
                             int8_t *packed, int32_t *offsets)
{
    const bool grouped = product == TV_PANEL_GROUPED, halves = product == TV_PANEL_SCALED && is_short_row(bits, k);
    __m256i all = _mm256_setzero_si256();
    for (size_t at = 0; at < k; at += VECTOR) {
        size_t bytes = k - at < VECTOR ? k - at : VECTOR, words = tv_ceil_div(bytes, 2 * STEP) * 2;
        __m256i v[WORDS];
        for (size_t i = 0; i < TILE; i++) {
            v[i] = load_partial(tv_panel_row(a + at, k, i), i < rows ? bytes : 0);
            v[i] = bits == 4 ? even_odd(v[i]) : v[i];
        }
        transpose(v);
        for (size_t s = 0; s < words; s++, packed += VECTOR)
            store256(packed, v[s]);
        __m256i sums = bits == 8 ? _mm256_setzero_si256() : halves ? sum_halves(v) : widen(sum_halves(v));
        all = halves ? _mm256_add_epi16(all, sums) : _mm256_add_epi32(all, sums);
        if (grouped)
            store_offsets(false, sums, offsets + at / GROUP * TILE);
    }
    if (!grouped)
        store_offsets(halves, all, offsets);
}

TARGET static void pack_activations(const int8_t *a, size_t m, size_t k, unsigned bits, tv_panel_product product,
                                    int8_t *packed, int32_t *offsets)
{
    for (size_t i = 0; i < m; i += TILE)
        pack_tile(a + i * k, m - i < TILE ? m - i : TILE, k, bits, product, packed + tv_gemm_panel_packed_bytes(i, k),
                  offsets + tv_gemm_panel_offset_count(i, k, product == TV_PANEL_GROUPED ? GROUP : k));
}

/* ---- Products ---- */

/* Packed rows end with zeros up to a multiple of 8 elements. */
TV_INLINE size_t padded_length(size_t length) { return tv_ceil_div(length, 2 * STEP) * 2 * STEP; }

/* Bytes of a panel for `length` elements. */
TV_INLINE size_t panel_bytes(unsigned bits, size_t length) { return length * ROWS * bits / 4; }

/* Those of a tile of activations, which have 16 bits for INT8. */
TV_INLINE size_t tile_bytes(unsigned bits, size_t length) { return length * TILE * bits / 4; }

/* A tile with 16 bits: for each word of the rows even elements, then odd ones, as those of panels. Packed activations
 * have 8 bits, because those of all of k share the second-level cache with weights. */
TARGET TV_INLINE const int8_t *widen_tile(const int8_t *packed, size_t length, int8_t wide[WIDE])
{
    int8_t *to = wide;
    for (size_t s = 0; s < padded_length(length); s += STEP, packed += VECTOR, to += 2 * VECTOR) {
        __m256i words = load256(packed);
        store256(to, even_bytes(words));
        store256(to + VECTOR, odd_bytes(words));
    }
    return wide;
}

TARGET TV_INLINE __m256i broadcast4(const void *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

/* The barriers keep GCC from computing all products of a group before it adds them, for which there are too few
 * registers. */
#define KEEP(x) __asm__("" : "+x"(x))

/* sum + four nibbles of each row times four activations. */
TARGET TV_INLINE __m256i add_nibbles(__m256i sum, __m256i w, __m256i x)
{
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x));
    KEEP(sum);
    return sum;
}

/* sum + two weights of each row times two activations, with 16 bits. */
TARGET TV_INLINE __m256i add_pairs(__m256i sum, __m256i w, __m256i x)
{
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(w, x));
    KEEP(sum);
    return sum;
}

TARGET TV_INLINE void clear(__m256i sums[TILE_STEP][VECTORS])
{
    for (unsigned i = 0; i < TILE_STEP; i++)
        for (unsigned v = 0; v < VECTORS; v++)
            sums[i][v] = _mm256_setzero_si256();
}

/* sums[i] += `length` elements of each row of a panel times those of row i of four rows of a tile, which have 16 bits
 * for INT8. INT4: in halves of 16 bits. `length` is a multiple of 8. */
TARGET TV_INLINE void add_rows(unsigned bits, const uint8_t *panel, size_t length, const int8_t *tile,
                               __m256i sums[TILE_STEP][VECTORS])
{
    TV_UNROLL
    for (size_t at = 0; at < panel_bytes(bits, length); at += HALF, tile += VECTOR) {
        const __m256i w[VECTORS] = {load256(panel + at), load256(panel + at + VECTOR)};
        for (unsigned i = 0; i < TILE_STEP; i++) {
            __m256i x = broadcast4(tile + i * STEP);
            for (unsigned v = 0; v < VECTORS; v++)
                sums[i][v] = bits == 4 ? add_nibbles(sums[i][v], w[v], x) : add_pairs(sums[i][v], w[v], x);
        }
    }
}

/* sums[i] = the products without offsets. INT4: at most GROUP elements. */
TARGET TV_INLINE void multiply_rows(unsigned bits, const uint8_t *panel, size_t length, const int8_t *tile,
                                    __m256i sums[TILE_STEP][VECTORS])
{
    clear(sums);
    add_rows(bits, panel, length, tile, sums);
    for (unsigned i = 0; i < TILE_STEP; i++)
        for (unsigned v = 0; v < VECTORS; v++)
            sums[i][v] = bits == 4 ? widen(sums[i][v]) : sums[i][v];
}

/* The same of short rows, with their offsets. */
TARGET TV_INLINE void multiply_short_rows(const uint8_t *panel, size_t length, const int8_t *tile,
                                          const int32_t *offsets, __m256i sums[TILE_STEP][VECTORS])
{
    clear(sums);
    if (length == SHORT_ROW) { /* constant lengths, so that loops are unrolled */
        add_rows(4, panel, GROUP, tile, sums);
        add_rows(4, panel + panel_bytes(4, GROUP), GROUP, tile + tile_bytes(4, GROUP), sums);
    } else if (length == GROUP) {
        add_rows(4, panel, GROUP, tile, sums);
    } else {
        add_rows(4, panel, padded_length(length), tile, sums);
    }
    for (unsigned i = 0; i < TILE_STEP; i++)
        for (unsigned v = 0; v < VECTORS; v++)
            sums[i][v] = widen(_mm256_add_epi16(sums[i][v], broadcast4(offsets + i)));
}

/* ---- One sum of each row ---- */

/* out[rows][PAIR] += `length` elements of a panel times `rows` rows of a tile, and perhaps others. */
TARGET TV_INLINE void add_exact(unsigned bits, const uint8_t *panel, size_t length, const int8_t *tile, size_t rows,
                                int32_t *out)
{
#pragma GCC unroll 1
    for (size_t first = 0; first < rows; first += TILE_STEP) {
        __m256i sums[TILE_STEP][VECTORS];
        multiply_rows(bits, panel, length, tile + first * STEP, sums);
        for (unsigned i = 0; i < TILE_STEP; i++)
            for (unsigned v = 0; v < VECTORS; v++) {
                int32_t *to = out + (first + i) * PAIR + v * WORDS;
                store256(to, _mm256_add_epi32(load256(to), sums[i][v]));
            }
    }
}

/* The activations after the last element are zeros up to a multiple of 8. */
TARGET TV_INLINE void multiply_tile(unsigned bits, const uint8_t *panel, size_t length, const int8_t *tile, size_t rows,
                                    int32_t *out)
{
    size_t at = 0;
    for (; bits == 4 && at + GROUP <= length; at += GROUP) /* sums of INT8 have 32 bits and need not be widened */
        add_exact(bits, panel + panel_bytes(bits, at), GROUP, tile + tile_bytes(bits, at), rows, out);
    if (at < length)
        add_exact(bits, panel + panel_bytes(bits, at), padded_length(length - at), tile + tile_bytes(bits, at), rows,
                  out);
}

/* The same for all tiles and both panels. */
TARGET TV_INLINE void multiply_all(unsigned bits, const uint8_t *panels, size_t length, const int8_t *packed,
                                   size_t step, size_t m, int32_t *out)
{
    for (size_t i = 0; i < m; i += TILE, packed += step, out += TILE * PAIR) {
        _Alignas(VECTOR) int8_t wide[WIDE];
        const int8_t *tile = bits == 4 ? packed : widen_tile(packed, length, wide);
        for (size_t r = 0; r < PAIR; r += ROWS)
            multiply_tile(bits, panels + r * ROW_BYTES, length, tile, m - i < TILE ? m - i : TILE, out + r);
    }
}

TARGET static void multiply_tiles(unsigned bits, const uint8_t *panels, size_t length, const int8_t *packed,
                                  size_t step, size_t m, int32_t *out)
{
    if (bits == 4)
        multiply_all(4, panels, length, packed, step, m, out);
    else
        multiply_all(8, panels, length, packed, step, m, out);
}

/* ---- A sum of each group ---- */

/* Adds a group of a panel and `rows` rows of a tile, scaled, to p[rows][ROWS]; `first`: to 0, which turns -0 into +0.
 * `unit_factor`: the factor is 1 and is not multiplied. */
TARGET TV_INLINE void add_group(unsigned bits, const uint8_t *panel, const int8_t *tile, const int32_t *offsets,
                                bool unit_factor, __m256 factor, const __m256 scales[VECTORS], size_t rows, bool first,
                                float *p)
{
#pragma GCC unroll 1
    for (size_t row = 0; row < rows; row += TILE_STEP) {
        __m256i exact[TILE_STEP][VECTORS];
        multiply_rows(bits, panel, GROUP, tile + row * STEP, exact);
        for (unsigned i = 0; i < TILE_STEP; i++) {
            __m256i offset = _mm256_set1_epi32(offsets[row + i]);
            for (unsigned v = 0; v < VECTORS; v++) {
                float *at = p + (row + i) * ROWS + v * WORDS;
                __m256 x = _mm256_cvtepi32_ps(bits == 4 ? _mm256_add_epi32(exact[i][v], offset) : exact[i][v]);
                if (!unit_factor)
                    x = _mm256_mul_ps(x, factor);
                __m256 sum = first ? _mm256_setzero_ps() : _mm256_load_ps(at);
                _mm256_store_ps(at, _mm256_add_ps(sum, _mm256_mul_ps(x, scales[v])));
            }
        }
    }
}

/* The same for groups `from` to `to` of a block. The partial sums are in memory: the registers hold those of a group.
 */
TARGET TV_INLINE void add_range(const tv_panel_groups *b, const int8_t *tile, size_t from, size_t to, unsigned bits,
                                bool unit_factor, __m256 factor, bool first, float *p)
{
    const tv_panel_groups in = *b; /* a copy, so that stores of sums cannot change it */
    for (size_t g = from; g < to; g++) {
        const float *scales = in.scales + g * PAIR;
        const __m256 scale[VECTORS] = {_mm256_load_ps(scales), _mm256_load_ps(scales + WORDS)};
        add_group(bits, in.panel + g * panel_bytes(bits, GROUP), tile + g * tile_bytes(bits, GROUP),
                  in.offsets + g * TILE, unit_factor, factor, scale, in.rows, first,
                  p + (in.begin + g) % PARTIALS * (TILE * ROWS));
    }
}

TARGET TV_INLINE void add_all(const tv_panel_groups *b, unsigned bits, bool unit_factor, float factor, float *p)
{
    const __m256 factors = _mm256_set1_ps(factor);
    size_t first = b->begin == 0 ? b->used : 0;
    tv_panel_groups one = *b;
    _Alignas(VECTOR) int8_t wide[WIDE];
    const int8_t *tile = bits == 4 ? b->packed : widen_tile(b->packed, b->count * GROUP, wide);
    for (size_t i = 0; i < b->panels; i++, p += TV_PANEL_SUMS, one.panel += ROWS * ROW_BYTES, one.scales += ROWS) {
        add_range(&one, tile, 0, first, bits, unit_factor, factors, true, p);
        add_range(&one, tile, first, b->count, bits, unit_factor, factors, false, p);
    }
}

TARGET static void add_groups(const tv_panel_groups *b, unsigned bits, float factor, float *p)
{
    if (bits == 4 && factor == 1)
        add_all(b, 4, true, factor, p);
    else if (bits == 4)
        add_all(b, 4, false, factor, p);
    else if (factor == 1)
        add_all(b, 8, true, factor, p);
    else
        add_all(b, 8, false, factor, p);
}

/* The reduced partial sums p[PARTIALS][..] of eight rows, whose vectors are TILE * ROWS apart. */
TARGET TV_INLINE __m256 reduce_partials(const float *p, size_t used)
{
    __m256 v[PARTIALS];
    for (size_t u = 0; u < PARTIALS; u++)
        v[u] = u < used ? _mm256_load_ps(p + u * (TILE * ROWS)) : _mm256_setzero_ps();
    __m256 even = _mm256_add_ps(_mm256_add_ps(v[0], v[4]), _mm256_add_ps(v[2], v[6]));
    __m256 odd = _mm256_add_ps(_mm256_add_ps(v[1], v[5]), _mm256_add_ps(v[3], v[7]));
    return _mm256_add_ps(even, odd);
}

TARGET TV_INLINE void store_rows(const float *p, size_t used, size_t count, size_t m, const float *old, float *out,
                                 size_t step)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (size_t i = 0; i < m; i++)
        for (size_t r = 0; r < count; r += WORDS) {
            size_t at = i * step + r;
            bool whole = count - r >= WORDS; /* masked stores are slow on some processors */
            __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(count - r)), lanes);
            __m256 y = reduce_partials(p + i * ROWS + r, used);
            if (old)
                y = _mm256_add_ps(y, whole ? _mm256_loadu_ps(old + at) : _mm256_maskload_ps(old + at, mask));
            y = tv_f32_canonical_x8(y);
            if (whole)
                _mm256_storeu_ps(out + at, y);
            else
                _mm256_maskstore_ps(out + at, mask, y);
        }
}

TARGET static void store_totals(const float *p, size_t used, size_t count, size_t m, const float *old, float *out,
                                size_t step)
{
    /* mostly constants for the compiler: long rows, and those of attention, of heads of 64 elements */
    if (used == PARTIALS && count == ROWS)
        store_rows(p, PARTIALS, ROWS, m, old, out, step);
    else if (used == 2 && count == ROWS)
        store_rows(p, 2, ROWS, m, old, out, step);
    else
        store_rows(p, used, count, m, old, out, step);
}

/* ---- One sum of each row, scaled to BF16 ---- */

/* sums * row_scale * scales, with `add` + old, of eight rows. */
TARGET TV_INLINE __m256 scale_words(__m256i sums, __m256 row_scale, __m256 scales, bool add, __m256 old)
{
    __m256 x = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums), row_scale), scales);
    return add ? _mm256_add_ps(x, old) : x;
}

/* The same of the rows of a panel: x[v] has those of even or of odd index. */
TARGET TV_INLINE void scale_row(const __m256i sums[VECTORS], float row_scale, const __m256 scales[VECTORS], bool add,
                                const uint16_t *y, __m256 x[VECTORS])
{
    const __m256 factor = _mm256_set1_ps(row_scale);
    const __m256i old = add ? load256(y) : _mm256_setzero_si256();
    x[0] = scale_words(sums[0], factor, scales[0], add, tv_bf16_even_to_f32_x8(old));
    x[1] = scale_words(sums[1], factor, scales[1], add, tv_bf16_odd_to_f32_x8(old));
}

/* sums[i] = four rows of a tile times each row of a panel, with their offsets. */
TARGET TV_INLINE void multiply_panel(unsigned bits, const uint8_t *panel, size_t length, const int8_t *tile,
                                     const int32_t *offsets, __m256i sums[TILE_STEP][VECTORS])
{
    if (is_short_row(bits, length)) {
        multiply_short_rows(panel, length, tile, offsets, sums);
        return;
    }
    for (unsigned i = 0; i < TILE_STEP; i++)
        for (unsigned v = 0; v < VECTORS; v++)
            sums[i][v] = _mm256_set1_epi32(offsets[i]);
    for (size_t at = 0; at < length; at += GROUP) {
        __m256i group[TILE_STEP][VECTORS];
        if (length - at >= GROUP)
            multiply_rows(bits, panel + panel_bytes(bits, at), GROUP, tile + tile_bytes(bits, at), group);
        else
            multiply_rows(bits, panel + panel_bytes(bits, at), padded_length(length - at), tile + tile_bytes(bits, at),
                          group);
        for (unsigned i = 0; i < TILE_STEP; i++)
            for (unsigned v = 0; v < VECTORS; v++)
                sums[i][v] = _mm256_add_epi32(sums[i][v], group[i][v]);
    }
}

/* Not inlined, because it is rare and needs registers. */
TARGET __attribute__((noinline)) static bool may_be_tiny(const __m256i rounded[TILE_STEP])
{
    __m256i tiny = _mm256_setzero_si256();
    for (unsigned i = 0; i < TILE_STEP; i++)
        tiny = _mm256_or_si256(tiny, tv_bf16_may_be_tiny_x16(rounded[i]));
    return _mm256_movemask_epi8(tiny) != 0;
}

/* Scales four rows and stores them in y. False, and nothing is stored, if a result is NaN or is flushed: rounding these
 * too would take twice as many instructions. */
TARGET TV_INLINE bool store_ordinary(__m256i sums[TILE_STEP][VECTORS], const float *row_scales,
                                     const __m256 scales[VECTORS], bool add, uint16_t *y, size_t step)
{
    __m256i out[TILE_STEP];
    tv_f32_range_x8 range = tv_f32_empty_range_x8();
    for (unsigned i = 0; i < TILE_STEP; i++) {
        __m256 x[VECTORS];
        scale_row(sums[i], row_scales[i], scales, add, y + i * step, x);
        for (unsigned v = 0; v < VECTORS; v++)
            range = tv_f32_extend_range_x8(range, x[v]);
        out[i] = tv_bf16_from_f32_2x8(x[0], x[1]);
    }
    if (!tv_f32_range_has_no_nan_x8(range) || (!tv_f32_range_is_normal_bf16_x8(range) && may_be_tiny(out)))
        return false;
    for (unsigned i = 0; i < TILE_STEP; i++)
        store256(y + i * step, out[i]);
    return true;
}

/* Row `first` of the activations and up to three others, in `tile`, times a panel, the rows of weights from `row` on.
 * The slow path, for any number of rows and any results; a function of its own, because its code is long. */
TARGET __attribute__((noinline)) static void scale_any_rows(unsigned bits, bool add, const uint8_t *panel,
                                                            size_t length, const int8_t *tile, size_t first,
                                                            const tv_panel_scaled *p, size_t row,
                                                            const __m256 scales[VECTORS])
{
    const size_t count = p->count - row < ROWS ? p->count - row : ROWS;
    __m256i sums[TILE_STEP][VECTORS];
    if (bits == 4)
        multiply_panel(4, panel, length, tile, p->offsets + first, sums);
    else
        multiply_panel(8, panel, length, tile, p->offsets + first, sums);
    for (size_t i = 0; i < TILE_STEP && first + i < p->m; i++) {
        uint16_t *y = p->y + (first + i) * p->step + row, whole[ROWS] = {0};
        __m256 x[VECTORS];
        if (add)
            memcpy(whole, y, count * sizeof *y);
        scale_row(sums[i], p->row_scales[first + i], scales, add, whole, x);
        store256(whole, tv_bf16_flushed_from_f32_2x8(x[0], x[1]));
        memcpy(y, whole, count * sizeof *y);
    }
}

/* The same, with the fast path for four rows and a whole panel. */
TARGET TV_INLINE void scale_rows(unsigned bits, bool add, const uint8_t *panel, size_t length, const int8_t *tile,
                                 size_t first, const tv_panel_scaled *p, size_t row, const __m256 scales[VECTORS])
{
    if (first + TILE_STEP <= p->m && p->count - row >= ROWS) {
        __m256i sums[TILE_STEP][VECTORS];
        multiply_panel(bits, panel, length, tile, p->offsets + first, sums);
        if (store_ordinary(sums, p->row_scales + first, scales, add, p->y + first * p->step + row, p->step))
            return;
    }
    scale_any_rows(bits, add, panel, length, tile, first, p, row, scales);
}

/* The same of all rows of activations. */
TARGET TV_INLINE void scale_panel(unsigned bits, bool add, const uint8_t *panel, size_t length,
                                  const tv_panel_scaled *p, size_t row, const __m256 scales[VECTORS])
{
    for (size_t first = 0; first < p->m; first += TILE) {
        _Alignas(VECTOR) int8_t wide[WIDE];
        const int8_t *packed = p->packed + tv_gemm_panel_packed_bytes(first, length),
                     *tile = bits == 4 ? packed : widen_tile(packed, length, wide);
        for (size_t i = 0; i < TILE && first + i < p->m; i += TILE_STEP)
            scale_rows(bits, add, panel, length, tile + i * STEP, first + i, p, row, scales);
    }
}

/* The scales of the rows of even and of odd index of up to 16; the rest is zeros. */
TARGET TV_INLINE void load_scales(const float *scales, size_t count, __m256 out[VECTORS])
{
    const size_t more = count > WORDS ? count - WORDS : 0;
    __m256 first = _mm256_castsi256_ps(load_partial(scales, count * sizeof *scales)),
           last = _mm256_castsi256_ps(load_partial(scales + (more ? WORDS : 0), more * sizeof *scales));
    const __m256 even = _mm256_shuffle_ps(first, last, _MM_SHUFFLE(2, 0, 2, 0)),
                 odd = _mm256_shuffle_ps(first, last, _MM_SHUFFLE(3, 1, 3, 1));
    out[0] = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), _MM_SHUFFLE(3, 1, 2, 0)));
    out[1] = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(odd), _MM_SHUFFLE(3, 1, 2, 0)));
}

TARGET TV_INLINE void scale_all(unsigned bits, bool add, const uint8_t *panels, size_t length, const tv_panel_scaled *p)
{
    for (size_t row = 0; row < p->count; row += ROWS) {
        __m256 scales[VECTORS];
        load_scales(p->scales + row, p->count - row, scales);
        scale_panel(bits, add, panels + row * ROW_BYTES, length, p, row, scales);
    }
}

TARGET static void multiply_scaled_rows(const tv_gemm_panel_weights *w, size_t from, const tv_panel_scaled *p)
{
    _Alignas(64) uint8_t panels[PAIR * ROW_BYTES];
    pack_panels(w, from, p->count, 0, w->k * w->bits / 8, true, panels);
    if (w->bits == 4 && p->add)
        scale_all(4, true, panels, w->k, p);
    else if (w->bits == 4)
        scale_all(4, false, panels, w->k, p);
    else
        scale_all(8, p->add, panels, w->k, p);
}

static const tv_panel_steps steps = {pack_weights, pack_scales,  multiply_tiles,
                                     add_groups,   store_totals, multiply_scaled_rows};

static void multiply(const tv_gemm_panel_weights *w, size_t from, size_t count, const int8_t *packed,
                     const int32_t *offsets, size_t m, int32_t *out)
{
    tv_panels_multiply(&steps, w, from, count, packed, offsets, m, out);
}

static void multiply_grouped(const tv_gemm_panel_weights *w, size_t from, size_t count, const int8_t *packed,
                             const int32_t *offsets, size_t m, const float *scales, size_t scale_step, float factor,
                             const float *old, float *out, size_t step)
{
    tv_panels_multiply_grouped(&steps, w, from, count, packed, offsets, m, scales, scale_step, factor, old, out, step);
}

static void multiply_scaled(const tv_gemm_panel_weights *w, size_t from, size_t count, const int8_t *packed,
                            const int32_t *offsets, size_t m, const float *row_scales, const float *scales, bool add,
                            uint16_t *y, size_t step)
{
    tv_panels_multiply_scaled(&steps, w, from,
                              &(tv_panel_scaled){count, packed, offsets, m, row_scales, scales, add, y, step});
}

const tv_gemm_panel_set tv_gemm_panel_avx2 = {pack_activations, multiply, multiply_grouped, multiply_scaled};
#else
typedef int tv_no_panel_avx2; /* ISO C wants a declaration */
#endif
