/* SPDX-License-Identifier: Apache-2.0 */
/* Products by packed panels (panel_blocks.h) with AVX-512 VNNI. A vector has one 32-bit word of each row of a panel:
 * four elements of INT8, or eight of INT4, whose nibbles are separated after loading. The accumulators begin at the
 * offsets. */
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
    HALF_TILE = TILE / 2,
    STEP = TV_PANEL_STEP,
    BLOCK = TV_PANEL_BLOCK,
    GROUP = TV_PANEL_GROUP,
    PARTIALS = TV_PANEL_PARTIALS,
    VECTOR = 64,
    WORDS = 16 /* of a vector */,
    FLIP = 0x80,
    FLIP_NIBBLES = 0x88,
    NIBBLE = 15
};

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

/* ---- Panels ---- */

/* Transposes 16 x 16 words: word j of vector i becomes word i of vector j. */
TARGET TV_INLINE void transpose(__m512i v[ROWS])
{
    __m512i t[ROWS];
    for (unsigned i = 0; i < ROWS; i += 2) {
        t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (unsigned i = 0; i < ROWS; i += 4) /* v[i + c]: word c of each quarter of rows i to i + 3 */
        for (unsigned c = 0; c < 2; c++) {
            v[i + 2 * c] = _mm512_unpacklo_epi64(t[i + c], t[i + 2 + c]);
            v[i + 2 * c + 1] = _mm512_unpackhi_epi64(t[i + c], t[i + 2 + c]);
        }
    for (unsigned c = 0; c < 4; c++) { /* transpose the quarters of four vectors */
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

/* A mask of the low `count` bits, at most 32. */
static inline uint32_t first_bits(size_t count) { return count ? UINT32_MAX >> (32 - count) : 0; }

/* Transposes up to 32 bytes of each of 32 rows, of which `count` exist and have `bytes` bytes; the rest is zeros. Word
 * s of rows 0 to 15 is stored at first + s * step, of rows 16 to 31 at second + s * step. `flip` is xored to each word.
 */
TARGET TV_INLINE void transpose_rows(const void *rows, size_t stride, size_t count, size_t bytes, __m512i flip,
                                     void *first, void *second, size_t step)
{
    __mmask32 mask = first_bits(bytes);
    __m512i v[ROWS];
    for (size_t r = 0; r < ROWS; r++) {
        const uint8_t *low = tv_panel_row(rows, stride, r), *high = tv_panel_row(rows, stride, r + ROWS);
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

TARGET static void pack_weights(const tv_gemm_panel_weights *w, size_t row, size_t count, size_t from, size_t length,
                                uint8_t *panels)
{
    const __m512i flip = _mm512_set1_epi8((char)(w->bits == 4 ? FLIP_NIBBLES : FLIP));
    for (size_t at = 0; at < length; at += VECTOR / 2)
        transpose_rows(w->rows + row * w->stride + from + at, w->stride, count,
                       length - at < VECTOR / 2 ? length - at : VECTOR / 2, flip, panels + at * ROWS,
                       panels + (BLOCK + at) * ROWS, VECTOR);
}

/* ---- Activations ---- */

/* Deinterleaves each eight bytes: those of even index, then those of odd index. */
TARGET TV_INLINE __m512i even_odd(__m512i x)
{
    return _mm512_shuffle_epi8(
        x, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)));
}

/* Loads elements at to at + 128 of a tile of eight rows, transposed by words: v[w] has word w of each row in its low
 * half and word w + 16 in its high half. */
TARGET TV_INLINE void transpose_tile(const int8_t *a, size_t rows, size_t k, size_t at, unsigned bits,
                                     __m512i v[2 * TILE])
{
    for (size_t i = 0; i < 2 * TILE; i++) {
        size_t begin = at + i / TILE * VECTOR, left = begin < k && i % TILE < rows ? k - begin : 0;
        __mmask64 mask = left >= VECTOR ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
        v[i] = _mm512_maskz_loadu_epi8(mask, a + i % TILE * k + begin);
        v[i] = bits == 4 ? even_odd(v[i]) : v[i];
    }
    transpose(v);
}

/* Sums of groups of 32 elements: eight words of each row. The low half has groups of the first 64 of 128 elements, the
 * high half of the other 64. */
TARGET TV_INLINE __m512i sum_words(const __m512i v[TILE])
{
    __m512i sum = _mm512_setzero_si512();
    for (size_t s = 0; s < TILE; s++)
        sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), v[s]);
    return sum;
}

TARGET TV_INLINE void store_offsets(__m256i sums, unsigned bits, int32_t *offsets)
{
    __m256i factors =
        bits == 4 ? _mm256_slli_epi32(sums, 3) : _mm256_slli_epi32(sums, 7); /* minus the minimum weight: 8 or 128 */
    _mm256_storeu_si256((__m256i *)(void *)offsets, _mm256_sub_epi32(_mm256_setzero_si256(), factors));
}

TARGET TV_INLINE __m256i select_half(__m512i v, size_t half)
{
    return half ? _mm512_extracti64x4_epi64(v, 1) : _mm512_castsi512_si256(v);
}

TARGET static void pack_tile(const int8_t *a, size_t rows, size_t k, unsigned bits, bool grouped, int8_t *packed,
                             int32_t *offsets)
{
    enum { SPAN = 2 * VECTOR };
    __m512i all = _mm512_setzero_si512();
    for (size_t at = 0; at < k; at += SPAN) {
        size_t words = tv_ceil_div(k - at < SPAN ? k - at : SPAN, 2 * STEP) * 2;
        __m512i v[2 * TILE];
        transpose_tile(a, rows, k, at, bits, v);
        for (size_t s = 0; s < words; s++, packed += TILE * STEP)
            _mm256_storeu_si256((__m256i *)(void *)packed, select_half(v[s % WORDS], s / WORDS));
        const __m512i sums[2] = {sum_words(v), sum_words(v + TILE)};
        all = _mm512_add_epi32(all, _mm512_add_epi32(sums[0], sums[1]));
        for (size_t g = 0; g < SPAN / GROUP && at + g * GROUP < k && grouped; g++, offsets += TILE)
            store_offsets(select_half(sums[g % 2], g / 2), bits, offsets);
    }
    if (!grouped)
        store_offsets(_mm256_add_epi32(select_half(all, 0), select_half(all, 1)), bits, offsets);
}

TARGET static void pack_activations(const int8_t *a, size_t m, size_t k, unsigned bits, tv_panel_product product,
                                    int8_t *packed, int32_t *offsets)
{
    const bool grouped = product == TV_PANEL_GROUPED;
    for (size_t i = 0; i < m; i += TILE)
        pack_tile(a + i * k, m - i < TILE ? m - i : TILE, k, bits, grouped, packed + tv_gemm_panel_packed_bytes(i, k),
                  offsets + tv_gemm_panel_offset_count(i, k, grouped ? GROUP : k));
}

/* ---- Products ---- */

TARGET TV_INLINE __m512i broadcast4(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

TARGET TV_INLINE __m512i low_nibbles(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi8(NIBBLE)); }

/* sums[panel][i] += four elements of each row of panel `panel` times four of row i of half a tile. These are loaded
 * once for both panels: loads limit the rate as much as multiplications. */
TARGET TV_INLINE void add_step(const __m512i w[2], const int8_t *packed, __m512i sums[2][HALF_TILE])
{
#pragma GCC unroll 4
    for (unsigned i = 0; i < HALF_TILE; i++) {
        __m512i x = broadcast4(packed + i * STEP);
        sums[0][i] = _mm512_dpbusd_epi32(sums[0][i], w[0], x);
        sums[1][i] = _mm512_dpbusd_epi32(sums[1][i], w[1], x);
    }
}

/* The same for `length` elements. The panels are ROWS * BLOCK bytes apart. */
TARGET TV_INLINE void add_steps(unsigned bits, const uint8_t *panels, size_t length, const int8_t *packed,
                                __m512i sums[2][HALF_TILE])
{
    for (size_t s = 0; s < length; s += VECTOR / ROWS * 8 / bits, panels += VECTOR) {
        __m512i w[2] = {_mm512_load_si512(panels), _mm512_load_si512(panels + ROWS * BLOCK)};
        if (bits == 8) {
            add_step(w, packed + s * TILE, sums);
            continue;
        }
        __m512i low[2] = {low_nibbles(w[0]), low_nibbles(w[1])},
                high[2] = {low_nibbles(_mm512_srli_epi16(w[0], 4)), low_nibbles(_mm512_srli_epi16(w[1], 4))};
        add_step(low, packed + s * TILE, sums);
        add_step(high, packed + (s + STEP) * TILE, sums);
    }
}

/* ---- One sum of each row ---- */

/* out[HALF_TILE][PAIR] += both panels times half a tile of activations. */
TARGET TV_INLINE void multiply_rows(unsigned bits, const uint8_t *panels, size_t length, const int8_t *packed,
                                    int32_t *out)
{
    __m512i sums[2][HALF_TILE];
    for (unsigned panel = 0; panel < 2; panel++)
        for (unsigned i = 0; i < HALF_TILE; i++)
            sums[panel][i] = _mm512_loadu_si512(out + i * PAIR + panel * ROWS);
    add_steps(bits, panels, length, packed, sums);
    for (unsigned panel = 0; panel < 2; panel++)
        for (unsigned i = 0; i < HALF_TILE; i++)
            _mm512_storeu_si512(out + i * PAIR + panel * ROWS, sums[panel][i]);
}

/* The same for all tiles. */
TARGET TV_INLINE void multiply_all(unsigned bits, const uint8_t *panels, size_t length, const int8_t *packed,
                                   size_t step, size_t m, int32_t *out)
{
    for (size_t t = 0; t < tv_ceil_div(m, TILE); t++, packed += step, out += TILE * PAIR)
        for (size_t first = 0; first < TILE && t * TILE + first < m; first += HALF_TILE)
            multiply_rows(bits, panels, length, packed + first * STEP, out + first * PAIR);
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

/* Adds group `g` of the block, scaled, to a partial sum of half a tile, from row `first` on, and both panels.
 * `unit_factor`: the factor is 1 and is not multiplied. */
TARGET TV_INLINE void add_group(const tv_panel_groups *b, size_t g, size_t first, unsigned bits, bool unit_factor,
                                __m512 factor, __m512 sums[2][HALF_TILE])
{
    const uint8_t *panels = b->panel + g * (GROUP * ROWS * bits / 8);
    const int8_t *packed = b->packed + g * GROUP * TILE + first * STEP;
    __m512i exact[2][HALF_TILE];
    for (unsigned i = 0; i < HALF_TILE; i++)
        exact[0][i] = exact[1][i] = _mm512_set1_epi32(b->offsets[g * TILE + first + i]);
    add_steps(bits, panels, GROUP, packed, exact);
#pragma GCC unroll 2
    for (unsigned panel = 0; panel < 2; panel++) {
        __m512 scale = _mm512_load_ps(b->scales + g * PAIR + panel * ROWS);
#pragma GCC unroll 4
        for (unsigned i = 0; i < HALF_TILE; i++) {
            __m512 x = _mm512_cvtepi32_ps(exact[panel][i]);
            if (!unit_factor)
                x = _mm512_mul_ps(x, factor);
            sums[panel][i] = _mm512_add_ps(sums[panel][i], _mm512_mul_ps(x, scale));
        }
    }
}

/* Accumulates one partial sum of half a tile at a time in registers. In the first block of a row they start at 0, and 0
 * is added explicitly because it turns -0 into +0. A second panel that does not exist is computed, too. */
TARGET TV_INLINE void add_all(const tv_panel_groups *b, unsigned bits, bool unit_factor, float factor, float *p)
{
    const __m512 factors = _mm512_set1_ps(factor);
    for (size_t u = 0; u < b->used; u++)
        for (size_t first = 0; first < b->rows; first += HALF_TILE) {
            float *own = p + (u * TILE + first) * ROWS;
            __m512 sums[2][HALF_TILE];
            for (unsigned panel = 0; panel < 2; panel++)
                for (unsigned i = 0; i < HALF_TILE; i++)
                    sums[panel][i] =
                        b->begin ? _mm512_load_ps(own + panel * TV_PANEL_SUMS + i * ROWS) : _mm512_setzero_ps();
            for (size_t g = u; g < b->count; g += PARTIALS)
                add_group(b, g, first, bits, unit_factor, factors, sums);
            for (unsigned panel = 0; panel < 2; panel++)
                for (unsigned i = 0; i < HALF_TILE; i++)
                    _mm512_store_ps(own + panel * TV_PANEL_SUMS + i * ROWS, sums[panel][i]);
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

TARGET static void pack_scales(const float *scales, size_t step, size_t count, size_t length, float *out)
{
    enum { GROUPS_PER_STEP = WORDS / 2 };
    for (size_t at = 0; at < length; at += GROUPS_PER_STEP) {
        size_t bytes = (length - at < GROUPS_PER_STEP ? length - at : GROUPS_PER_STEP) * sizeof *scales;
        transpose_rows(scales + at, step * sizeof *scales, count, bytes, _mm512_setzero_si512(), out + at * PAIR,
                       out + at * PAIR + ROWS, PAIR * sizeof *out);
    }
}

TARGET static void store_totals(const float *p, size_t used, size_t count, size_t m, const float *old, float *out,
                                size_t step)
{
    __mmask16 mask = (__mmask16)((1u << count) - 1);
    for (size_t i = 0; i < m; i++) {
        __m512 v[PARTIALS];
        for (size_t u = 0; u < PARTIALS; u++)
            v[u] = u < used ? _mm512_load_ps(p + (u * TILE + i) * ROWS) : _mm512_setzero_ps();
        __m512 even = _mm512_add_ps(_mm512_add_ps(v[0], v[4]), _mm512_add_ps(v[2], v[6]));
        __m512 odd = _mm512_add_ps(_mm512_add_ps(v[1], v[5]), _mm512_add_ps(v[3], v[7]));
        __m512 y = _mm512_add_ps(even, odd);
        if (old)
            y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, old + i * step));
        _mm512_mask_storeu_ps(out + i * step, mask, tv_f32_canonical_x16(y));
    }
}

/* ---- One sum of each row, scaled to BF16 ---- */

/* Half a tile of activations, from row `first` on, times both panels. */
TARGET TV_INLINE void scale_rows(unsigned bits, const uint8_t *panels, size_t length, const tv_panel_scaled *p,
                                 size_t first, const __m512 scales[2])
{
    const int8_t *packed = p->packed + tv_gemm_panel_packed_bytes(first / TILE * TILE, length) + first % TILE * STEP;
    __m512i sums[2][HALF_TILE];
    for (unsigned i = 0; i < HALF_TILE; i++)
        sums[0][i] = sums[1][i] = _mm512_set1_epi32(p->offsets[first + i]);
    add_steps(bits, panels, length, packed, sums);
    const __mmask32 mask = first_bits(p->count);
#pragma GCC unroll 4
    for (unsigned i = 0; i < HALF_TILE; i++) {
        if (first + i == p->m)
            break;
        const __m512 row_scale = _mm512_set1_ps(p->row_scales[first + i]);
        for (unsigned panel = 0; panel * ROWS < p->count; panel++) {
            __mmask16 rows = (__mmask16)(mask >> panel * ROWS);
            uint16_t *y = p->y + (first + i) * p->step + panel * ROWS;
            __m512 x = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums[panel][i]), row_scale), scales[panel]);
            if (p->add)
                x = _mm512_add_ps(x, tv_bf16_to_f32_x16(_mm256_maskz_loadu_epi16(rows, y)));
            _mm256_mask_storeu_epi16(y, rows, tv_bf16_flushed_from_f32_x16(x));
        }
    }
}

TARGET TV_INLINE void scale_all(unsigned bits, const uint8_t *panels, size_t length, const tv_panel_scaled *p)
{
    const __mmask32 mask = first_bits(p->count);
    __m512 scales[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (unsigned panel = 0; panel * ROWS < p->count; panel++)
        scales[panel] = _mm512_maskz_loadu_ps((__mmask16)(mask >> panel * ROWS), p->scales + panel * ROWS);
    for (size_t first = 0; first < p->m; first += HALF_TILE)
        scale_rows(bits, panels, length, p, first, scales);
}

TARGET static void multiply_scaled_rows(const tv_gemm_panel_weights *w, size_t from, const tv_panel_scaled *p)
{
    _Alignas(64) uint8_t panels[PAIR * TV_PANEL_ROW_MAX];
    pack_weights(w, from, p->count, 0, w->k * w->bits / 8, panels);
    if (w->bits == 4)
        scale_all(4, panels, w->k, p);
    else
        scale_all(8, panels, w->k, p);
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

const tv_gemm_panel_set tv_gemm_panel_avx512 = {pack_activations, multiply, multiply_grouped, multiply_scaled};
#else
typedef int tv_no_panel_avx512; /* ISO C wants a declaration */
#endif
