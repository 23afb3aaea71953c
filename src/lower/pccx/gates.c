/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers products with an activation: Linear with one, and GatedLinear. */
#include "lower/pccx/state.h"

enum { CHUNK_ROWS = 8 };

/* ---- Activations ---- */

/* silu(g) = g * sigmoid(g), sigmoid(g) = 1 / (1 + exp(-g)). Weights of the gate are negated, so the product is -g, and
 * the SFU accumulates its exponentials to ones; the sign is corrected in the weights of `up`. Rows are processed in
 * chunks: while the SFU has one, GEMV multiplies the previous one, in the next program. */
typedef struct chunk {
    uint32_t first, rows;
} chunk;

static chunk chunk_of(uint32_t rows, uint32_t i)
{
    uint32_t first = i * CHUNK_ROWS;
    return (chunk){first, first >= rows ? 0 : rows - first < CHUNK_ROWS ? rows - first : CHUNK_ROWS};
}

/* A CVO function over consecutive rows. */
static void emit_function(pccx_lowering *l, const pccx_lower_gates *a, pccx_insn function, uint32_t to, uint32_t from,
                          chunk c, unsigned flags)
{
    uint32_t offset = c.first * pccx_lower_l2_size(a->columns);
    pccx_lower_cvo_row(l, function, to + offset, from + offset, c.rows * a->columns, flags);
}

static void store_chunk(pccx_lowering *l, const pccx_lower_gates *a, uint64_t to, uint32_t from, chunk c)
{
    if (c.rows)
        pccx_lower_store(l, to + (uint64_t)c.first * a->columns * 2, from + c.first * pccx_lower_l2_size(a->columns),
                         c.rows * a->columns);
}

/* The first part of the SFU's work on a chunk: of Swish, ones plus exponentials. */
static void begin_activation(pccx_lowering *l, const pccx_lower_gates *a, chunk c)
{
    if (a->activation != TV_ACTIVATION_SWISH)
        return;
    for (uint32_t r = c.first; r < c.first + c.rows; r++)
        pccx_lower_move(l, a->sigmoid + r * pccx_lower_l2_size(a->columns), l->plan.ones, a->columns);
    emit_function(l, a, PCCX_CVO_EXP, a->sigmoid, a->gate, c, PCCX_LOWER_ACCM);
}

/* The second part; the result goes to host memory, where the next program streams it, unless an extension multiplies.
 */
static void end_activation(pccx_lowering *l, const pccx_lower_gates *a, chunk c)
{
    uint32_t offset = c.first * pccx_lower_l2_size(a->columns);
    if (a->activation == TV_ACTIVATION_SWISH)
        emit_function(l, a, PCCX_CVO_RECIP, a->sigmoid, a->sigmoid, c, 0);
    else
        pccx_lower_function(l, a->activation, a->sigmoid + offset, a->gate + offset, c.rows * a->columns);
    if (!l->has_product)
        store_chunk(l, a, l->map.vector, a->sigmoid, c);
}

/* ---- Linear and gates ---- */

/* activation(gate), where gate[rows][columns] is the product: Swish is multiplied by its argument, in the next
 * program. */
tv_status pccx_lower_activated(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    pccx_lower_gates a = {.activation = n->attrs.activation,
                          .rows = l->row_end - l->row_first,
                          .columns = pccx_lower_padded(pccx_lower_columns(l, n->output)),
                          .gate = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_GATE),
                          .sigmoid = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_SIGMOID),
                          .out = pccx_lower_row_addr(l, n->output, l->row_first)};
    chunk all = {0, a.rows};
    if (a.activation != TV_ACTIVATION_SWISH) {
        pccx_lower_function(l, a.activation, a.out, a.gate, a.rows * a.columns);
        return TV_OK;
    }
    begin_activation(l, &a, all);
    end_activation(l, &a, all);
    if (l->has_product) { /* -silu(g), which minus ones correct */
        uint32_t count = a.rows * a.columns;
        pccx_lower_product_of_rows(l, a.sigmoid, a.sigmoid, a.gate, count);
        for (uint32_t r = 0; r < a.rows; r++)
            pccx_lower_scale(l, a.out + r * pccx_lower_l2_size(a.columns),
                             a.sigmoid + r * pccx_lower_l2_size(a.columns),
                             pccx_lower_common_scalar(l, PCCX_COMMON_MINUS_ONE), a.columns, 0);
        return TV_OK;
    }
    TV_TRY(pccx_lower_end_program(l, PCCX_LOWER_HANDOVER, (uint64_t)a.rows * a.columns, sink));
    for (uint32_t r = 0; r < a.rows; r++) { /* the gate is negated */
        uint32_t row = r * pccx_lower_l2_size(a.columns);
        pccx_lower_multiply(l, a.sigmoid + row, a.gate + row, l->map.vector + (uint64_t)r * a.columns * 2,
                            l->map.identity, a.columns, false, false);
        pccx_lower_multiply(l, a.out + row, a.sigmoid + row, l->map.minus_ones, l->map.identity, a.columns, false,
                            false);
    }
    return TV_OK;
}

/* ---- Gates ---- */

pccx_lower_gates pccx_lower_gates_of(const pccx_lowering *l, const tv_graph_node *n, uint32_t rows, uint32_t columns)
{
    return (pccx_lower_gates){.activation = n->attrs.activation,
                              .rows = rows,
                              .columns = columns,
                              .gate = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_GATE),
                              .sigmoid = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_SIGMOID),
                              .up = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_UP),
                              .act = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_ACT)};
}

/* Products of the gate's function with `up`, and with the gate itself where the function is a factor of it, of rows
 * [from, to). */
static void emit_gate_product(pccx_lowering *l, const pccx_lower_gates *a, uint32_t from, uint32_t to)
{
    for (uint32_t r = from; r < to; r++) {
        uint64_t offset = (uint64_t)r * a->columns * 2;
        uint32_t row = r * pccx_lower_l2_size(a->columns);
        if (a->activation == TV_ACTIVATION_SWISH) {
            pccx_lower_multiply(l, a->act + row, a->gate + row, l->map.vector + offset, l->map.identity, a->columns,
                                false, false);
            pccx_lower_multiply(l, a->out + row, a->act + row, l->map.vector2 + offset, l->map.identity, a->columns,
                                false, false);
        } else {
            pccx_lower_multiply(l, a->out + row, a->up + row, l->map.vector + offset, l->map.identity, a->columns,
                                false, false);
        }
    }
}

void pccx_lower_begin_gates(pccx_lowering *l, const pccx_lower_gates *a)
{
    begin_activation(l, a, chunk_of(a->rows, 0));
}

void pccx_lower_continue_gates(pccx_lowering *l, const pccx_lower_gates *a)
{
    end_activation(l, a, chunk_of(a->rows, 0));
}

/* With products of an extension: out = up * activation(gate), chunk by chunk. */
static void finish_with_products(pccx_lowering *l, const pccx_lower_gates *a)
{
    for (uint32_t i = 0; chunk_of(a->rows, i).rows; i++) {
        chunk now = chunk_of(a->rows, i);
        uint32_t offset = now.first * pccx_lower_l2_size(a->columns), count = now.rows * a->columns;
        if (i) {
            begin_activation(l, a, now);
            end_activation(l, a, now);
        }
        pccx_lower_product_of_rows(l, a->out + offset, a->up + offset, a->sigmoid + offset, count);
        if (a->activation == TV_ACTIVATION_SWISH)
            pccx_lower_product_of_rows(l, a->out + offset, a->out + offset, a->gate + offset, count);
    }
}

/* The second part of the activation of the next chunk is issued when its first part is about done. */
tv_status pccx_lower_finish_gates(pccx_lowering *l, const pccx_lower_gates *a, const tv_diag_sink *sink)
{
    if (l->has_product) {
        finish_with_products(l, a);
        return TV_OK;
    }
    if (a->activation == TV_ACTIVATION_SWISH)
        pccx_lower_store(l, l->map.vector2, a->up, a->rows * a->columns);
    for (uint32_t i = 0; chunk_of(a->rows, i).rows; i++) {
        chunk now = chunk_of(a->rows, i), next = chunk_of(a->rows, i + 1);
        TV_TRY(pccx_lower_end_program(l, PCCX_LOWER_HANDOVER, ((uint64_t)now.rows + (i ? 0 : a->rows)) * a->columns,
                                      sink));
        begin_activation(l, a, next);
        emit_gate_product(l, a, now.first, now.first + now.rows / 2);
        if (next.rows)
            end_activation(l, a, next);
        emit_gate_product(l, a, now.first + now.rows / 2, now.first + now.rows);
    }
    return TV_OK;
}

/* The second part of the activation is issued in the middle of `up`, so that neither waits for the other. */
tv_status pccx_lower_glu(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    const pccx_lower_matrix *gate = &c->matrices[0], *up = &c->matrices[1];
    uint32_t in = pccx_lower_product_input(l, n->inputs[0]), groups = pccx_lower_group_count(l, gate);
    pccx_lower_gates a = pccx_lower_gates_of(l, n, l->row_end - l->row_first, gate->rows);
    a.out = pccx_lower_row_addr(l, n->output, l->row_first);
    pccx_lower_project(l, gate, a.rows, in, a.gate, 0, groups, false);
    pccx_lower_begin_gates(l, &a);
    pccx_lower_project(l, up, a.rows, in, a.up, 0, groups / 2, false);
    pccx_lower_continue_gates(l, &a);
    pccx_lower_project(l, up, a.rows, in, a.up, groups / 2, groups, false);
    return pccx_lower_finish_gates(l, &a, sink);
}
