/* SPDX-License-Identifier: Apache-2.0 */
/* Products by packed panels, cut into blocks: what the variants of gemm_panel.h have in common.
 *
 * A panel has 16 rows of weights, interleaved so that a vector has one word of each row (AVX2: of half of the rows).
 * The instructions that multiply bytes take unsigned times signed ones, so weights are made unsigned by flipping their
 * sign bits; the offsets, minus 128 (INT4: 8) times the sum of the activations, are added. INT8 with AVX2 is multiplied
 * with 16 bits and signs, and has offsets 0. Panels are packed for at most TV_PANEL_BLOCK bytes of k, so that they stay
 * in the L1 or L2 cache. */
#ifndef TV_KERNELS_X86_PANEL_BLOCKS_H
#define TV_KERNELS_X86_PANEL_BLOCKS_H

#include "kernels/gemm_panel.h"

enum {
    TV_PANEL_ROWS = 16,
    TV_PANEL_STEP = 4,                     /* activations of a 32-bit word */
    TV_PANEL_BLOCK = 512,                  /* bytes of a row of weights */
    TV_PANEL_ROW_MAX = 2 * TV_PANEL_BLOCK, /* bytes of a row of a panel */
    TV_PANEL_GROUP = 32,
    TV_PANEL_PARTIALS = 8,                                            /* partial sums of the canonical order */
    TV_PANEL_SUMS = TV_PANEL_PARTIALS * TV_PANEL_TILE * TV_PANEL_ROWS /* those of a tile and a panel */
};

/* The operands of a tile and one or two panels for the groups of one block. */
typedef struct tv_panel_groups {
    const uint8_t *panel; /* the first one; the second follows where pack_weights puts it */
    size_t panels;
    const int8_t *packed;
    const int32_t *offsets;
    const float *scales; /* [group][TV_PANEL_PAIR] */
    size_t rows;         /* rows of the tile that exist */
    size_t begin, count; /* groups of the row */
    size_t used;         /* number of partial sums that have groups */
} tv_panel_groups;

/* The operands of tv_gemm_panel_set.multiply_scaled, without the weights. */
typedef struct tv_panel_scaled {
    size_t count;
    const int8_t *packed;
    const int32_t *offsets;
    size_t m;
    const float *row_scales, *scales;
    bool add;
    uint16_t *y;
    size_t step;
} tv_panel_scaled;

/* The steps of a variant. Arrays that they read and write as vectors are aligned to 64 bytes. */
typedef struct tv_panel_steps {
    /* Packs bytes `from` to from + length of `count` rows from row `row` on into two panels. Words past `length` are
     * unspecified: they are multiplied by activations that are 0. */
    void (*pack_weights)(const tv_gemm_panel_weights *w, size_t row, size_t count, size_t from, size_t length,
                         uint8_t *panels);

    /* Transposes `length` scales of each of `count` rows to [group][TV_PANEL_PAIR]. */
    void (*pack_scales)(const float *scales, size_t step, size_t count, size_t length, float *out);

    /* out[m][TV_PANEL_PAIR] += both panels times `length` elements of m rows of activations, whose tiles are `step`
     * bytes apart. Rows of `out` up to a multiple of TV_PANEL_TILE are unspecified. */
    void (*multiply_tiles)(unsigned bits, const uint8_t *panels, size_t length, const int8_t *packed, size_t step,
                           size_t m, int32_t *out);

    /* Adds the scaled groups of a block to partial sums p[2][TV_PANEL_PARTIALS][TV_PANEL_TILE][TV_PANEL_ROWS], which
     * begin at +0 in the first block. Those from b->used on, of rows from b->rows on and of panels from b->panels on
     * are unspecified. */
    void (*add_groups)(const tv_panel_groups *b, unsigned bits, float factor, float *p);

    /* Reduces the partial sums of `count` rows of a panel and `m` rows of a tile, adds `old` (may be NULL) and stores
     * them in rows `step` apart. Partial sums from `used` on are 0. */
    void (*store_totals)(const float *p, size_t used, size_t count, size_t m, const float *old, float *out,
                         size_t step);

    /* As tv_gemm_panel_set.multiply_scaled, of rows of up to TV_PANEL_BLOCK bytes, which it packs in any order. Exact
     * sums of longer rows, of several blocks, are scaled afterwards. */
    void (*multiply_scaled)(const tv_gemm_panel_weights *w, size_t from, const tv_panel_scaled *p);
} tv_panel_steps;

/* tv_gemm_panel_set.multiply, .multiply_grouped and .multiply_scaled with the steps of a variant. */
void tv_panels_multiply(const tv_panel_steps *v, const tv_gemm_panel_weights *w, size_t from, size_t count,
                        const int8_t *packed, const int32_t *offsets, size_t m, int32_t *out);
void tv_panels_multiply_grouped(const tv_panel_steps *v, const tv_gemm_panel_weights *w, size_t from, size_t count,
                                const int8_t *packed, const int32_t *offsets, size_t m, const float *scales,
                                size_t scale_step, float factor, const float *old, float *out, size_t step);
void tv_panels_multiply_scaled(const tv_panel_steps *v, const tv_gemm_panel_weights *w, size_t from,
                               const tv_panel_scaled *p);

/* The address of a row, which may be past the last one; it is then not read. */
static inline const void *tv_panel_row(const void *rows, size_t stride, size_t r)
{
    return (const void *)((uintptr_t)rows + r * stride);
}

#endif
