/* SPDX-License-Identifier: Apache-2.0 */
/* Products of many rows of INT8 activations with rows of INT4 or INT8 weights: sixteen weight rows at a time are put
 * side by side (a panel), so that a vector has one sum of each and nothing needs to be added across it. Hosts without
 * such kernels have those of matrix.h and groups.h. */
#ifndef TV_KERNELS_GEMM_PANEL_H
#define TV_KERNELS_GEMM_PANEL_H

#include "kernels/cpu.h"

enum {
    TV_PANEL_PAIR = 32,         /* rows of weights, in two panels */
    TV_PANEL_TILE = 8,          /* rows of activations that are worked on together */
    TV_PANEL_M_MAX = 128,       /* … at most in one call of `exact` */
    TV_PANEL_GROUPED_M_MAX = 64 /* … of `groups` */
};

/* Rows of weights as they lie, `stride` bytes apart: `bits` 4 or 8, each row k elements, k even where it is 4. */
typedef struct tv_gemm_panel_weights {
    const uint8_t *rows;
    unsigned bits;
    size_t k, stride;
} tv_gemm_panel_weights;

/* Activations made ready for weights of `bits`, by `ready` below: for each tile of rows, eight elements of each of its
 * rows after eight of each, zeros past the ends. Of eight come first four of each row, then four: the first four, or
 * with INT4 those that meet the low halves of bytes. */
static inline size_t tv_gemm_panel_packed_bytes(size_t m, size_t k)
{
    return tv_ceil_div(m, TV_PANEL_TILE) * TV_PANEL_TILE * (tv_ceil_div(k, 8) * 8);
}

/* Offsets: what counting weights of `bits` from their least number adds to the sum of each group of `group` elements,
 * with the other sign: for each tile and group one of each of its rows, 0 past the last. */
static inline size_t tv_gemm_panel_offset_count(size_t m, size_t k, size_t group)
{
    return tv_ceil_div(m, TV_PANEL_TILE) * TV_PANEL_TILE * tv_ceil_div(k, group);
}

typedef struct tv_gemm_panel_set {
    /* m rows of k activations, made ready, and their offsets: of groups of k, or, `grouped`, of 32, whose multiple k is
     * then. */
    void (*pack)(const int8_t *a, size_t m, size_t k, unsigned bits, bool grouped, int8_t *ready, int32_t *offsets);

    /* out[i * TV_PANEL_PAIR + r] = the exact sum over k (at most 2^16) of row i of `ready` times row `from` + r of the
     * weights, for r below `count`, at most TV_PANEL_PAIR, and i below m, at most TV_PANEL_M_MAX; `offsets` are of
     * groups of k. */
    void (*multiply)(const tv_gemm_panel_weights *w, size_t from, size_t count, const int8_t *ready,
                     const int32_t *offsets, size_t m, int32_t *out);

    /* out[i * step + r] = old[i * step + r] (NULL: nothing) added to the sum, in the canonical order (dot.h), over
     * groups g of 32 elements of (their exact sum times `factor`, rounded) times scales[(from + r) * scale_step + g],
     * for r below `count`, at most TV_PANEL_PAIR, and i below m, at most TV_PANEL_GROUPED_M_MAX. NaN is canonical. k is
     * a multiple of 32; `offsets` are of groups of 32; `old` may be `out`. */
    void (*multiply_grouped)(const tv_gemm_panel_weights *w, size_t from, size_t count, const int8_t *ready,
                             const int32_t *offsets, size_t m, const float *scales, size_t scale_step, float factor,
                             const float *old, float *out, size_t step);
} tv_gemm_panel_set;

/* The kernels of the highest level up to `level` that has them; NULL: none has. */
const tv_gemm_panel_set *tv_gemm_panel(tv_cpu_level level);

#endif
