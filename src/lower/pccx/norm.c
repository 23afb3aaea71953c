/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers Norm: the squares are products with the identity, or of an extension; the SFU adds them up, takes the root and
 * divides. */
#include <stdlib.h>

#include "lower/pccx/state.h"

/* The rows and groups of a norm are its items. `item` i is at `input` + i words of its size. */
typedef struct norm_items {
    uint32_t size, words, first, count; /* elements; words; items */
    uint32_t input;                     /* address */
} norm_items;

/* With several rows GEMV squares one while the SFU normalizes another, which is faster than products on the SFU. */
static bool squares_on_sfu(const pccx_lowering *l) { return l->has_product && l->rows == 1; }

/* Elements of the sums of squares of an item, or, with products of an extension, of the squares themselves. */
static uint32_t square_count(const pccx_lowering *l, const norm_items *t)
{
    return squares_on_sfu(l) ? t->size : PCCX_LOWER_BLOCK;
}

static void emit_squares(pccx_lowering *l, const tv_graph_node *n, const norm_items *t, uint32_t i)
{
    uint32_t x = t->input + i * t->words, constant = l->plan.constants + pccx_lower_constants_of(l, n)->constant;
    pccx_lower_move(l, pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_SUM) + i, constant, 1);
    pccx_lower_move(l, pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_NORM_INPUT) + i * (t->words + 1) + 1, x, t->size);
    uint32_t squares = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_SQUARES) + i * pccx_lower_l2_size(square_count(l, t));
    if (squares_on_sfu(l))
        pccx_lower_product_of_rows(l, squares, x, x, t->size);
    else
        pccx_lower_multiply(l, squares, x, l->map.vector + (uint64_t)i * t->size * 2, l->map.identity, t->size, true,
                            false);
}

/* x / sqrt(sum of squares + size * epsilon), then the gains if they are not part of the next weights. */
static void emit_normalize(pccx_lowering *l, const tv_graph_node *n, const norm_items *t, uint32_t i)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    uint32_t sum = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_SUM) + i,
             root = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_NORM_INPUT) + i * (t->words + 1),
             out = pccx_lower_row_addr(l, n->output, 0) + i * t->words;
    bool gains = !pccx_lower_fold_of(l, n)->gains;
    uint32_t squares = square_count(l, t);
    pccx_lower_cvo(l, PCCX_CVO_REDUCE_SUM, sum,
                   pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_SQUARES) + i * pccx_lower_l2_size(squares),
                   t->size < squares ? t->size : squares, PCCX_LOWER_ACCM);
    pccx_lower_cvo(l, PCCX_CVO_SQRT, root, sum, 1, 0);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, gains ? root + 1 : out, root, t->size, PCCX_LOWER_RECIP_SCALE);
    if (!gains)
        return;
    if (c->bias)
        pccx_lower_load(l, out, c->bias, t->size);
    pccx_lower_multiply(l, out, root + 1, c->gains, l->map.identity, t->size, false, c->bias != 0);
}

/* Keeps the input of a norm, which was just stored to host memory. */
static tv_status keep_value(pccx_lowering *l, uint32_t value, const tv_diag_sink *sink)
{
    uint32_t columns = pccx_lower_columns(l, value);
    if (!l->kept_values[value] && !(l->kept_values[value] = malloc((size_t)l->rows_max * columns * sizeof(float))))
        return tv_fail_memory(sink);
    return pccx_lower_read_bf16(l, l->map.vector, (size_t)l->rows * columns, l->kept_values[value], sink);
}

/* centered = x - mean: the mean fills a row, which is subtracted. */
static void emit_center(pccx_lowering *l, const tv_graph_node *n, const norm_items *t, uint32_t i)
{
    uint32_t x = pccx_lower_row_addr(l, n->inputs[0], 0) + i * t->words,
             sum = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_SUM) + i,
             means = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_NORM_INPUT) + i * (t->words + 1),
             to = t->input + i * t->words;
    pccx_lower_cvo(l, PCCX_CVO_REDUCE_SUM, sum, x, t->size, 0);
    pccx_lower_multiply(l, means, sum, pccx_lower_constants_of(l, n)->inverse, l->map.identity, PCCX_LOWER_LANES, false,
                        false);
    pccx_lower_move(l, means + 1, l->plan.ones, t->size);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, means + 1, means, t->size, 0);
    pccx_lower_move(l, to, x, t->size);
    pccx_lower_multiply(l, to, means + 1, l->map.minus_ones, l->map.identity, t->size, false, true);
}

/* GEMV is one item ahead of the SFU. */
tv_status pccx_lower_norm(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t columns = pccx_lower_columns(l, n->output), size = pccx_lower_norm_size(l, n), groups = columns / size;
    norm_items t = {.size = size,
                    .words = pccx_lower_l2_size(size),
                    .first = l->row_first * groups,
                    .count = l->row_end * groups,
                    .input = pccx_lower_row_addr(l, n->inputs[0], 0)};
    if (n->attrs.subtract_mean) {
        t.input = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_CENTERED);
        for (uint32_t i = t.first; i < t.count; i++)
            emit_center(l, n, &t, i);
    }
    if (!squares_on_sfu(l) || l->keep_values) {
        pccx_lower_store(l, l->map.vector, t.input, l->rows * pccx_lower_padded(columns));
        TV_TRY(pccx_lower_end_program(l, PCCX_LOWER_HANDOVER, (uint64_t)l->rows * columns, sink));
    }
    if (l->keep_values && !n->attrs.subtract_mean && groups == 1)
        TV_TRY(keep_value(l, n->inputs[0], sink));
    for (uint32_t i = t.first; i <= t.count; i++) {
        if (i < t.count)
            emit_squares(l, n, &t, i);
        if (i > t.first)
            emit_normalize(l, n, &t, i - 1);
    }
    return TV_OK;
}
