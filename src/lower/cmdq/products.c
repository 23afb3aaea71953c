/* SPDX-License-Identifier: Apache-2.0 */
/* Products with weights. They pass alternately through two banks. With one token blocks of weights are as large as a
 * bank; with several, a block is one tile of the output where that fits. */
#include "lower/cmdq/emit.h"

static uint32_t tile_columns(uint32_t tile, uint32_t column, uint32_t columns)
{
    return columns - column < tile ? columns - column : tile;
}

/* A product of m vectors for each token, and where its operands are. */
typedef struct product {
    const tv_graph_node *node;
    const cmdq_lower_matrix *w;
    uint32_t m, in_tile; /* the width of the input with one token */
} product;

static product product_of(const cmdq_lowering *l, const tv_graph_node *n, unsigned matrix)
{
    product p = {n, cmdq_lower_matrix_of(l, n, matrix), cmdq_lower_rows(l, n->output), 0};
    p.in_tile = l->rows == 1 ? p.w->columns : cmdq_lower_tile_of(l, n->inputs[0]);
    return p;
}

/* Rows of W that are more than fit a bank: blocks of them, token by token, because the outputs of a block for several
 * tokens do not follow each other. */
static void emit_small_blocks(cmdq_lowering *l, const product *p, cmdq_lower_operand out, cmdq_lower_slice all,
                              uint32_t fit)
{
    for (uint32_t row = 0; row < all.rows; row += fit) {
        cmdq_lower_slice slice = all;
        slice.row += row;
        slice.rows = tile_columns(fit, row, all.rows);
        for (uint32_t column = 0; column < p->w->columns; column += p->in_tile) {
            cmdq_lower_operand in = cmdq_lower_factor(l, p->node, 0, column);
            slice.column = column;
            slice.columns = tile_columns(p->in_tile, column, p->w->columns);
            in.scale = 1;
            unsigned slot = cmdq_lower_load_weights(l, p->w, slice);
            for (uint32_t i = 0; i < p->m; i++)
                cmdq_lower_multiply(l, p->w, slot, cmdq_lower_skip(in, (uint64_t)i * slice.columns),
                                    cmdq_lower_skip(out, (uint64_t)i * all.rows + row), slice, 1);
            slice.accumulate = true;
            slice.bias = CMDQ_LOWER_NONE;
        }
    }
}

/* One block of rows of W: the whole input at once, or the sum over its tiles. */
static void emit_block(cmdq_lowering *l, const product *p, cmdq_lower_operand out, cmdq_lower_slice slice)
{
    uint32_t fit = cmdq_lower_tile_rows(l->plan, p->in_tile, p->w->group, p->w->bits);
    if (slice.rows > fit) {
        emit_small_blocks(l, p, out, slice, fit);
        return;
    }
    for (uint32_t column = 0; column < p->w->columns; column += p->in_tile) {
        cmdq_lower_operand in = cmdq_lower_factor(l, p->node, 0, column);
        slice.column = column;
        slice.columns = tile_columns(p->in_tile, column, p->w->columns);
        in.scale = 1;
        cmdq_lower_multiply(l, p->w, cmdq_lower_load_weights(l, p->w, slice), in, out, slice, p->m);
        slice.accumulate = true;
        slice.bias = CMDQ_LOWER_NONE;
    }
}

/* out (+)= in * W^T + bias. With one token tiles are as large as a bank. */
static void emit_products(cmdq_lowering *l, const product *p, cmdq_lower_operand out, uint32_t out_tile,
                          cmdq_lower_slice slice)
{
    uint32_t fit = cmdq_lower_tile_rows(l->plan, p->in_tile, p->w->group, p->w->bits),
             step = l->rows == 1 ? fit : out_tile;
    for (uint32_t row = 0; row < p->w->rows; row += step) {
        slice.row = row;
        slice.rows = tile_columns(step, row, p->w->rows);
        emit_block(l, p, cmdq_lower_skip(out, (uint64_t)row * p->m), slice);
    }
}

/* Products of rows [row, row + slice.rows) of W, then the activation, tile by tile. */
static void emit_activated(cmdq_lowering *l, const product *p, cmdq_lower_slice slice)
{
    const tv_graph_node *n = p->node;
    uint32_t step = l->rows == 1 ? p->w->rows : cmdq_lower_tile_of(l, n->output);
    for (uint32_t row = 0; row < p->w->rows; row += step) {
        unsigned slot = row / step % CMDQ_LOWER_SLOTS;
        cmdq_lower_operand sums = cmdq_lower_f32(cmdq_lower_scratch(l, n, CMDQ_SCRATCH_GATE + slot));
        slice.row = row;
        slice.rows = tile_columns(step, row, p->w->rows);
        if (l->rows == 1)
            emit_products(l, p, sums, step, slice);
        else
            emit_block(l, p, sums, slice);
        cmdq_lower_emit_activation(l, n->attrs.activation, sums, cmdq_lower_value(l, n->output, row),
                                   (uint64_t)p->m * slice.rows);
    }
}

/* Several vectors for each token: each is multiplied while a block of weights is loaded. */
static void emit_vectors(cmdq_lowering *l, const product *p, cmdq_lower_operand out, cmdq_lower_slice slice)
{
    uint32_t fit = cmdq_lower_tile_rows(l->plan, p->w->columns, p->w->group, p->w->bits);
    uint64_t vectors = p->m * cmdq_lower_vectors(l, p->node->output);
    cmdq_lower_operand in = cmdq_lower_factor(l, p->node, 0, 0);
    in.scale = 1;
    slice.columns = p->w->columns;
    for (uint32_t row = 0; row < p->w->rows; row += slice.rows) {
        slice.row = row;
        slice.rows = tile_columns(fit, row, p->w->rows);
        unsigned slot = cmdq_lower_load_weights(l, p->w, slice);
        for (uint64_t v = 0; v < vectors; v++)
            cmdq_lower_multiply(l, p->w, slot, cmdq_lower_skip(in, v * p->w->columns),
                                cmdq_lower_skip(out, v * p->w->rows + row), slice, 1);
    }
    if (p->node->attrs.activation)
        cmdq_lower_emit_activation(l, p->node->attrs.activation, out, out, vectors * p->w->rows);
}

/* ---- Streamed values ---- */

/* The node that reads a streamed value on the machine, or NULL. */
static const tv_graph_node *find_streamed_reader(const cmdq_lowering *l, const tv_graph_node *n)
{
    for (uint32_t i = cmdq_lower_node_index(l, n) + 1; i < l->graph->nodes.count; i++) {
        const tv_graph_node *next = tv_graph_node_at(l->graph, i);
        if (next->inputs[0] == n->output || next->inputs[1] == n->output)
            return l->on_host[i] ? NULL : next;
    }
    return NULL;
}

/* Applies the nodes that follow `n` to a tile of its output, and stores it. */
static void finish_streamed(cmdq_lowering *l, const tv_graph_node *n, uint32_t rows, uint32_t columns, uint32_t column)
{
    cmdq_lower_operand tile = cmdq_lower_f32(l->plan->stream);
    uint64_t width = tv_graph_elements(l->graph, n->output);
    while ((n = find_streamed_reader(l, n)) != NULL)
        cmdq_lower_apply(l, n, tile, tile, rows, columns, column);
    cmdq_lower_store(l, tile, l->logits_addr + (uint64_t)column * 4, rows, columns, width * 4);
}

static uint32_t stream_columns(const cmdq_lowering *l, uint32_t rows)
{
    return (uint32_t)(l->plan->buffers.data[l->plan->stream].bytes / 4 / rows);
}

/* The product for the tokens that need logits. */
static void emit_classifier(cmdq_lowering *l, const product *p, cmdq_lower_slice slice)
{
    const tv_graph_node *n = p->node;
    cmdq_lower_operand in = cmdq_lower_factor(l, n, 0, 0), tile = cmdq_lower_f32(l->plan->stream);
    uint32_t step =
        cmdq_lower_min(cmdq_lower_tile_rows(l->plan, p->w->columns, p->w->group, p->w->bits), stream_columns(l, p->m));
    in.scale = 1;
    for (uint32_t row = 0; row < p->w->rows; row += step) {
        slice.row = row;
        slice.rows = tile_columns(step, row, p->w->rows);
        slice.columns = p->w->columns;
        cmdq_lower_multiply(l, p->w, cmdq_lower_load_weights(l, p->w, slice), in, tile, slice, p->m);
        if (n->attrs.activation)
            cmdq_lower_emit_activation(l, n->attrs.activation, tile, tile, (uint64_t)p->m * slice.rows);
        finish_streamed(l, n, p->m, slice.rows, row);
    }
}

void cmdq_lower_emit_streamed(cmdq_lowering *l, const tv_graph_node *n)
{
    uint32_t input = n->inputs[cmdq_lower_is_computed(l, n->inputs[0]) ? 0 : 1],
             width = (uint32_t)tv_graph_elements(l->graph, n->output), rows = cmdq_lower_rows(l, n->output),
             step = stream_columns(l, rows);
    cmdq_lower_operand tile = cmdq_lower_f32(l->plan->stream);
    if (!l->on_host[tv_graph_value_at(l->graph, input)->producer])
        return;
    for (uint32_t column = 0; column < width; column += step) {
        uint32_t columns = tile_columns(step, column, width);
        cmdq_lower_load(l, tile, "activation", l->logits_addr + (uint64_t)column * 4, rows, columns,
                        (uint64_t)width * 4);
        cmdq_lower_apply(l, n, tile, tile, rows, columns, column);
        finish_streamed(l, n, rows, columns, column);
    }
}

/* ---- Linear ---- */

/* Copies the residual to the output, unless it is there already. */
static void copy_residual(cmdq_lowering *l, const tv_graph_node *n)
{
    cmdq_lower_operand from = cmdq_lower_input(l, n, 3, 0), to = cmdq_lower_value(l, n->output, 0);
    if (from.buffer != to.buffer || from.offset != to.offset)
        cmdq_lower_elementwise(l, CMDQ_VE_CAST_TILE, from, NULL, to,
                               cmdq_lower_rows(l, n->output) * tv_graph_elements(l->graph, n->output));
}

void cmdq_lower_emit_linear(cmdq_lowering *l, const tv_graph_node *n)
{
    product p = product_of(l, n, 1);
    cmdq_lower_slice slice = {.bias = CMDQ_LOWER_NONE, .accumulate = cmdq_lower_has_input(n, 3)};
    if (cmdq_lower_has_input(n, 2)) {
        slice.bias = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_BIAS);
        cmdq_lower_load_vector(l, n, 2, slice.bias);
    }
    if (cmdq_lower_has_input(n, 3))
        copy_residual(l, n);
    if (l->streamed[n->output])
        emit_classifier(l, &p, slice);
    else if (cmdq_lower_vectors(l, n->output) > 1)
        emit_vectors(l, &p, cmdq_lower_value(l, n->output, 0), slice);
    else if (n->attrs.activation)
        emit_activated(l, &p, slice);
    else
        emit_products(l, &p, cmdq_lower_value(l, n->output, 0), cmdq_lower_tile_of(l, n->output), slice);
}

/* ---- GatedLinear ---- */

/* Columns [column, last) of one of the two products. */
static void emit_half(cmdq_lowering *l, const product *p, cmdq_lower_operand out, uint32_t column, uint32_t last)
{
    uint32_t step = l->rows == 1 ? cmdq_lower_tile_rows(l->plan, p->in_tile, p->w->group, p->w->bits) : last - column;
    for (uint32_t row = column; row < last; row += step) {
        cmdq_lower_slice slice = {row, tile_columns(step, row, last), 0, 0, false, CMDQ_LOWER_NONE};
        emit_block(l, p, cmdq_lower_skip(out, (uint64_t)(row - column) * p->m), slice);
    }
}

/* One tile of hidden columns after the other, so that only two need space. */
void cmdq_lower_emit_glu(cmdq_lowering *l, const tv_graph_node *n)
{
    product gate = product_of(l, n, 1), up = product_of(l, n, 2);
    uint32_t tile = cmdq_lower_tile_of(l, n->output);
    for (uint32_t column = 0; column < gate.w->rows; column += tile) {
        unsigned slot = column / tile % CMDQ_LOWER_SLOTS;
        uint32_t columns = tile_columns(tile, column, gate.w->rows);
        uint64_t count = (uint64_t)gate.m * columns;
        cmdq_lower_operand g = cmdq_lower_f32(cmdq_lower_scratch(l, n, CMDQ_SCRATCH_GATE + slot)),
                           u = cmdq_lower_f32(cmdq_lower_scratch(l, n, CMDQ_SCRATCH_UP + slot));
        emit_half(l, &gate, g, column, column + columns);
        emit_half(l, &up, u, column, column + columns);
        cmdq_lower_emit_activation(l, n->attrs.activation, g, g, count);
        cmdq_lower_elementwise(l, CMDQ_VE_MUL_TILE, g, &u, cmdq_lower_value(l, n->output, column), count);
    }
}
