/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers the operators of the graph to pccx: one emitter for each. This file has products, and the table.
 *
 * Projections are GEMVs of INT4 rows, one group of columns after the other, or GEMMs with several tokens. The
 * instruction set has no elementwise product, square or rotation. But the row scales of a GEMV are BF16 numbers in host
 * memory, so a GEMV of the identity with a vector as its scales is the elementwise product with that vector. Squares,
 * rope and the gate are built from it.
 *
 * A weight stream is prefetched and has no hazard checks: what a program computes can only be streamed by the next
 * program. Where a program ends for that reason the host has no work; the list of host operations counts these
 * handovers. */
#include "lower/pccx/state.h"

/* ---- Products ---- */

/* Adds the row at host address `row` to all current rows at `out`, or starts them with it. */
static void emit_bias(pccx_lowering *l, uint32_t out, uint64_t row, uint32_t columns, bool add)
{
    for (uint32_t r = 0; r < l->row_end - l->row_first; r++) {
        uint32_t to = out + r * pccx_lower_l2_size(columns);
        if (add) /* ones times the bias */
            pccx_lower_multiply(l, to, l->plan.ones, row, l->map.identity, columns, false, true);
        else
            pccx_lower_load(l, to, row, columns);
    }
}

static tv_status emit_linear(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    uint32_t columns = pccx_lower_columns(l, n->output), rows = l->row_end - l->row_first,
             out = pccx_lower_row_addr(l, n->output, l->row_first), in = pccx_lower_product_input(l, n->inputs[0]);
    bool residual = pccx_lower_has_input(n, 3);
    if (n->attrs.activation)
        out = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_GATE);
    if (residual && pccx_lower_row_addr(l, n->inputs[3], l->row_first) != out)
        pccx_lower_move(l, out, pccx_lower_row_addr(l, n->inputs[3], l->row_first), rows * pccx_lower_padded(columns));
    if (c->bias)
        emit_bias(l, out, c->bias, pccx_lower_padded(columns), residual);
    pccx_lower_project(l, &c->matrices[0], rows, in, out, 0, pccx_lower_group_count(l, &c->matrices[0]),
                       residual || c->bias);
    return n->attrs.activation ? pccx_lower_activated(l, n, sink) : TV_OK;
}

/* ---- The table ---- */

pccx_lower_emitter *const pccx_lower_emitters[TV_OPS] = {
    [TV_OP_GATHER] = pccx_lower_gather,
    [TV_OP_RESHAPE] = pccx_lower_reshape,
    [TV_OP_SLICE] = pccx_lower_slice,
    [TV_OP_CONCAT] = pccx_lower_concat,
    [TV_OP_ADD] = pccx_lower_sum,
    [TV_OP_SUB] = pccx_lower_sum,
    [TV_OP_MUL] = pccx_lower_product,
    [TV_OP_DIV] = pccx_lower_quotient,
    [TV_OP_RELU] = pccx_lower_unary,
    [TV_OP_SIGMOID] = pccx_lower_unary,
    [TV_OP_TANH] = pccx_lower_unary,
    [TV_OP_SWISH] = pccx_lower_swish,
    [TV_OP_GELU] = pccx_lower_unary,
    [TV_OP_EXP] = pccx_lower_unary,
    [TV_OP_SQRT] = pccx_lower_unary,
    [TV_OP_REDUCE_MEAN] = pccx_lower_reduce,
    [TV_OP_REDUCE_SUM] = pccx_lower_reduce,
    [TV_OP_ROTARY_EMBEDDING] = pccx_lower_rope,
    [TV_OP_ATTENTION] = pccx_lower_attention,
    [TV_OP_MOE] = pccx_lower_experts,
    [TV_OP_LINEAR] = emit_linear,
    [TV_OP_GLU] = pccx_lower_glu,
    [TV_OP_NORM] = pccx_lower_norm,
};
