/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of many rows of INT8 activations with INT4 or INT8 weights, by packed panels.
 *
 * A panel interleaves 16 rows of weights, so that each lane of a vector accumulates one output and no horizontal
 * additions are needed. Activations are packed once per product (`pack`), weights during each call. For few rows, and
 * on hosts without these kernels, use gemm.h and gemv_grouped.h. */
#ifndef TV_KERNELS_GEMM_PANEL_H
#define TV_KERNELS_GEMM_PANEL_H

#include "kernels/cpu.h"

enum {
    TV_PANEL_PAIR = 32,         /* rows of weights per call: two panels */
    TV_PANEL_TILE = 8,          /* rows of activations that are packed together */
    TV_PANEL_M_MAX = 128,       /* rows of activations per call of multiply, at most */
    TV_PANEL_GROUPED_M_MAX = 64 /* and of multiply_grouped */
};

/* Weights W[][k] of `bits` 4 or 8 (k even if 4), with rows `stride` bytes apart. */
typedef struct tv_gemm_panel_weights {
    const uint8_t *rows;
    unsigned bits;
    size_t k, stride;
    ptrdiff_t ahead; /* bytes from a row to the one that multiply_scaled prefetches; 0: none */
} tv_gemm_panel_weights;

/* The size of m packed rows of k activations: tiles of TV_PANEL_TILE rows, padded with zeros to multiples of 8
 * elements. For each 8 elements of k, a tile has 4 of each row and then the other 4 of each row: the first 4, or with
 * INT4 weights those that multiply low nibbles. */
static inline size_t tv_gemm_panel_packed_bytes(size_t m, size_t k)
{
    return tv_ceil_div(m, TV_PANEL_TILE) * TV_PANEL_TILE * (tv_ceil_div(k, 8) * 8);
}

/* The products of a set, whose activations are packed for one of them. */
typedef enum tv_panel_product { TV_PANEL_EXACT, TV_PANEL_GROUPED, TV_PANEL_SCALED } tv_panel_product;

/* The number of zero-point corrections: per tile, per group of `group` elements, one per row. The kernels multiply
 * unsigned weights (w - min); an offset is min times the sum of the group of activations, in the form that the kernel
 * of the product adds, 0 for padding rows and where it multiplies signed ones. */
static inline size_t tv_gemm_panel_offset_count(size_t m, size_t k, size_t group)
{
    return tv_ceil_div(m, TV_PANEL_TILE) * TV_PANEL_TILE * tv_ceil_div(k, group);
}

typedef struct tv_gemm_panel_set {
    /* Packs activations A[m][k] for one of the products and computes their offsets: GROUPED for groups of 32, of which
     * k is a multiple, otherwise for groups of k. SCALED: no activation is -128. */
    void (*pack)(const int8_t *a, size_t m, size_t k, unsigned bits, tv_panel_product product, int8_t *packed,
                 int32_t *offsets);

    /* EXACT: out[i * TV_PANEL_PAIR + r] = A[i][k] * W[from + r][k]^T, exact for k up to 2^16, for i < m <=
     * TV_PANEL_M_MAX and r < count <= TV_PANEL_PAIR; `offsets` are for groups of k. */
    void (*multiply)(const tv_gemm_panel_weights *w, size_t from, size_t count, const int8_t *packed,
                     const int32_t *offsets, size_t m, int32_t *out);

    /* GROUPED: out[i * step + r] = old[i * step + r] + sum over groups g of 32 elements, in the canonical order
     * (dot.h), of (A[i][g] * W[from + r][g]^T, exact) * factor * scales[(from + r) * scale_step + g], each operation
     * rounded, for i < m <= TV_PANEL_GROUPED_M_MAX and r < count <= TV_PANEL_PAIR. NaN is canonical. k is a multiple of
     * 32; `offsets` are for groups of 32; `old` may be `out`, or NULL: nothing is added. */
    void (*multiply_grouped)(const tv_gemm_panel_weights *w, size_t from, size_t count, const int8_t *packed,
                             const int32_t *offsets, size_t m, const float *scales, size_t scale_step, float factor,
                             const float *old, float *out, size_t step);

    /* SCALED: the product of `multiply`, scaled to BF16: y[i * step + r] = exact * row_scales[i] * scales[r], and with
     * `add` + y[i * step + r], each operation rounded as by tv_bf16_scale. */
    void (*multiply_scaled)(const tv_gemm_panel_weights *w, size_t from, size_t count, const int8_t *packed,
                            const int32_t *offsets, size_t m, const float *row_scales, const float *scales, bool add,
                            uint16_t *y, size_t step);
} tv_gemm_panel_set;

/* NULL: no level up to `level` has these kernels. */
const tv_gemm_panel_set *tv_gemm_panel(tv_cpu_level level);

#endif
