/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers operators on the elements of rows: arithmetic, functions, selections, reductions.
 *
 * CVO multiplies and divides by one scalar, and adds to its destination: that covers sums, and products with constants
 * or with one element for each token. A product of two computed rows streams one of them as the scales of the identity
 * (nodes.c), in the next program, unless an extension has an instruction for it. */
#include "lower/pccx/state.h"

pccx_lower_operand pccx_lower_operand_of(const pccx_lowering *l, const tv_graph_node *n, unsigned input)
{
    const tv_graph_value *v = tv_graph_value_at(l->graph, n->inputs[input]);
    uint64_t own = tv_graph_elements(l->graph, n->inputs[input]), all = tv_graph_elements(l->graph, n->output);
    if (v->source == TV_VALUE_CONSTANT)
        return own == 1 ? PCCX_OPERAND_SCALAR : own <= all && all % own == 0 ? PCCX_OPERAND_VECTOR : PCCX_OPERAND_OTHER;
    if (v->source != TV_VALUE_COMPUTED)
        return PCCX_OPERAND_OTHER;
    if (own == all && (input == 0 || own > 1))
        return PCCX_OPERAND_FULL;
    return own == 1 ? PCCX_OPERAND_TOKEN : PCCX_OPERAND_OTHER;
}

/* Pieces of one row where an operand differs from row to row, or is repeated in each. */
static bool works_by_row(const pccx_lowering *l, const tv_graph_node *n)
{
    for (unsigned k = 0; k < 2; k++) {
        pccx_lower_operand o = pccx_lower_operand_of(l, n, k);
        if (o == PCCX_OPERAND_TOKEN || o == PCCX_OPERAND_VECTOR)
            return true;
    }
    return false;
}

/* Address of a piece of a value. */
static uint32_t piece_addr(const pccx_lowering *l, uint32_t value, const pccx_lower_piece *p)
{
    return pccx_lower_row_addr(l, value, l->row_first) + p->word;
}

/* Address of the scalar that an operand is: of the token of the piece, or a constant. */
static uint32_t operand_scalar(const pccx_lowering *l, const tv_graph_node *n, unsigned input,
                               const pccx_lower_piece *p)
{
    return pccx_lower_operand_of(l, n, input) == PCCX_OPERAND_TOKEN ? pccx_lower_row_addr(l, n->inputs[input], p->row)
                                                                    : pccx_lower_scalar(l, n, 0);
}

/* The engine rounds `in` to 8 bits: a second product adds what was lost. */
void pccx_lower_multiply_precisely(pccx_lowering *l, uint32_t out, uint32_t in, uint64_t vector, uint32_t length)
{
    uint32_t rest = pccx_lower_work_buffer(l);
    pccx_lower_move(l, rest, in, length);
    pccx_lower_multiply(l, rest, in, l->map.minus_ones, l->map.identity, length, false, true);
    pccx_lower_multiply(l, out, in, vector, l->map.identity, length, false, false);
    pccx_lower_multiply(l, out, rest, vector, l->map.identity, length, false, true);
}

/* Product of the current rows with a vector in host memory that each of them uses. */
static void multiply_rows(pccx_lowering *l, uint32_t out, uint32_t in, uint64_t vector, uint32_t columns)
{
    uint32_t padded = pccx_lower_padded(columns), words = pccx_lower_l2_size(columns);
    for (uint32_t r = 0; r < l->row_end - l->row_first; r++)
        for (uint32_t i = 0; i < padded; i += l->piece)
            pccx_lower_multiply_precisely(l, out + r * words + pccx_lower_l2_size(i),
                                          in + r * words + pccx_lower_l2_size(i), vector + 2 * (uint64_t)i,
                                          padded - i < l->piece ? padded - i : l->piece);
}

/* out = in * factors, both computed, of the current rows: the factors are streamed by the next program, unless an
 * extension multiplies. */
static tv_status multiply_values(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t factors, uint32_t columns,
                                 const tv_diag_sink *sink)
{
    uint32_t count = (l->row_end - l->row_first) * pccx_lower_padded(columns);
    if (l->has_product) {
        pccx_lower_product_of_rows(l, out, in, factors, count);
        return TV_OK;
    }
    pccx_lower_store(l, l->map.vector, factors, count);
    TV_TRY(pccx_lower_end_program(l, PCCX_LOWER_HANDOVER, count, sink));
    for (uint32_t i = 0; i < count; i += l->piece)
        pccx_lower_multiply_precisely(l, out + pccx_lower_l2_size(i), in + pccx_lower_l2_size(i),
                                      l->map.vector + 2 * (uint64_t)i, count - i < l->piece ? count - i : l->piece);
    return TV_OK;
}

/* ---- Sums and differences ---- */

/* out = operand 0 */
static void start_sum(pccx_lowering *l, const tv_graph_node *n, const pccx_lower_piece *p, uint32_t out)
{
    pccx_lower_operand kind = pccx_lower_operand_of(l, n, 0);
    if (kind == PCCX_OPERAND_VECTOR)
        pccx_lower_load(l, out, pccx_lower_constants_of(l, n)->gains + 2 * (uint64_t)p->column, p->length);
    else if (kind != PCCX_OPERAND_FULL)
        pccx_lower_scale(l, out, l->plan.ones, operand_scalar(l, n, 0, p), p->length, 0);
    else if (piece_addr(l, n->inputs[0], p) != out)
        pccx_lower_move(l, out, piece_addr(l, n->inputs[0], p), p->length);
}

/* out += or -= operand 1; constants have their sign already. */
static void finish_sum(pccx_lowering *l, const tv_graph_node *n, const pccx_lower_piece *p, uint32_t out)
{
    uint32_t sign = pccx_lower_common_scalar(l, n->op == TV_OP_SUB ? PCCX_COMMON_MINUS_ONE : PCCX_COMMON_ONE),
             temporary = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_FACTORS);
    switch (pccx_lower_operand_of(l, n, 1)) {
    case PCCX_OPERAND_FULL:
        pccx_lower_scale(l, out, piece_addr(l, n->inputs[1], p), sign, p->length, PCCX_LOWER_ACCM);
        return;
    case PCCX_OPERAND_TOKEN:
        pccx_lower_scale(l, temporary, pccx_lower_row_addr(l, n->inputs[1], p->row), sign, 1, 0);
        pccx_lower_scale(l, out, l->plan.ones, temporary, p->length, PCCX_LOWER_ACCM);
        return;
    case PCCX_OPERAND_SCALAR:
        pccx_lower_scale(l, out, l->plan.ones, pccx_lower_scalar(l, n, 0), p->length, PCCX_LOWER_ACCM);
        return;
    case PCCX_OPERAND_VECTOR:
        pccx_lower_load(l, temporary, pccx_lower_constants_of(l, n)->gains + 2 * (uint64_t)p->column, p->length);
        pccx_lower_scale(l, out, temporary, pccx_lower_common_scalar(l, PCCX_COMMON_ONE), p->length, PCCX_LOWER_ACCM);
        return;
    case PCCX_OPERAND_OTHER:
        return;
    }
}

tv_status pccx_lower_sum(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    uint32_t columns = pccx_lower_columns(l, n->output);
    pccx_lower_piece p = {0};
    while (pccx_lower_next_piece(l, columns, works_by_row(l, n), &p)) {
        uint32_t out = piece_addr(l, n->output, &p);
        start_sum(l, n, &p, out);
        finish_sum(l, n, &p, out);
    }
    return TV_OK;
}

/* ---- Products and quotients ---- */

/* out = value `input` times (or divided by) the scalar that operand `other` is. */
static void scale_rows(pccx_lowering *l, const tv_graph_node *n, uint32_t in, unsigned other, unsigned flags)
{
    pccx_lower_piece p = {0};
    while (pccx_lower_next_piece(l, pccx_lower_columns(l, n->output), works_by_row(l, n), &p))
        pccx_lower_scale(l, piece_addr(l, n->output, &p), in + p.word, operand_scalar(l, n, other, &p), p.length,
                         flags);
}

tv_status pccx_lower_product(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    unsigned full = pccx_lower_operand_of(l, n, 0) == PCCX_OPERAND_FULL ? 0 : 1, other = 1 - full;
    uint32_t columns = pccx_lower_columns(l, n->output), in = pccx_lower_row_addr(l, n->inputs[full], l->row_first),
             out = pccx_lower_row_addr(l, n->output, l->row_first);
    switch (pccx_lower_operand_of(l, n, other)) {
    case PCCX_OPERAND_FULL:
        return multiply_values(l, out, in, pccx_lower_row_addr(l, n->inputs[other], l->row_first), columns, sink);
    case PCCX_OPERAND_VECTOR:
        multiply_rows(l, out, in, pccx_lower_constants_of(l, n)->gains, columns);
        return TV_OK;
    case PCCX_OPERAND_TOKEN:
    case PCCX_OPERAND_SCALAR:
        scale_rows(l, n, in, other, 0);
        return TV_OK;
    case PCCX_OPERAND_OTHER:
        break;
    }
    return TV_OK;
}

/* Reciprocals of the current rows of operand 1. */
static void emit_reciprocals(pccx_lowering *l, const tv_graph_node *n, uint32_t out)
{
    pccx_lower_piece p = {0};
    while (pccx_lower_next_piece(l, pccx_lower_columns(l, n->output), false, &p))
        pccx_lower_cvo(l, PCCX_CVO_RECIP, out + p.word, piece_addr(l, n->inputs[1], &p), p.length, 0);
}

tv_status pccx_lower_quotient(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t columns = pccx_lower_columns(l, n->output), out = pccx_lower_row_addr(l, n->output, l->row_first),
             factors = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_FACTORS);
    pccx_lower_operand dividend = pccx_lower_operand_of(l, n, 0), divisor = pccx_lower_operand_of(l, n, 1);
    uint64_t vector = pccx_lower_constants_of(l, n)->gains;
    if (dividend == PCCX_OPERAND_FULL) {
        uint32_t in = pccx_lower_row_addr(l, n->inputs[0], l->row_first);
        if (divisor == PCCX_OPERAND_FULL) {
            emit_reciprocals(l, n, factors);
            return multiply_values(l, out, in, factors, columns, sink);
        }
        if (divisor == PCCX_OPERAND_VECTOR)
            multiply_rows(l, out, in, vector, columns); /* its reciprocals */
        else
            scale_rows(l, n, in, 1, PCCX_LOWER_RECIP_SCALE);
        return TV_OK;
    }
    emit_reciprocals(l, n, out);
    if (dividend == PCCX_OPERAND_VECTOR)
        multiply_rows(l, out, out, vector, columns);
    else
        scale_rows(l, n, out, 0, 0);
    return TV_OK;
}

/* ---- Functions ---- */

tv_status pccx_lower_unary(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    static const tv_activation functions[TV_OPS] = {[TV_OP_RELU] = TV_ACTIVATION_RELU,
                                                    [TV_OP_SIGMOID] = TV_ACTIVATION_SIGMOID,
                                                    [TV_OP_TANH] = TV_ACTIVATION_TANH,
                                                    [TV_OP_GELU] = TV_ACTIVATION_GELU};
    (void)sink;
    pccx_lower_piece p = {0};
    while (pccx_lower_next_piece(l, pccx_lower_columns(l, n->output), false, &p)) {
        uint32_t out = piece_addr(l, n->output, &p), in = piece_addr(l, n->inputs[0], &p);
        if (functions[n->op])
            pccx_lower_function(l, functions[n->op], out, in, p.length);
        else
            pccx_lower_cvo(l, n->op == TV_OP_EXP ? PCCX_CVO_EXP : PCCX_CVO_SQRT, out, in, p.length, 0);
    }
    return TV_OK;
}

/* x * sigmoid(x) */
tv_status pccx_lower_swish(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t columns = pccx_lower_columns(l, n->output), factors = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_FACTORS);
    pccx_lower_piece p = {0};
    while (pccx_lower_next_piece(l, columns, false, &p))
        pccx_lower_function(l, TV_ACTIVATION_SIGMOID, factors + p.word, piece_addr(l, n->inputs[0], &p), p.length);
    return multiply_values(l, pccx_lower_row_addr(l, n->output, l->row_first),
                           pccx_lower_row_addr(l, n->inputs[0], l->row_first), factors, columns, sink);
}

/* ---- Selections ---- */

tv_status pccx_lower_reshape(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    pccx_lower_move(l, pccx_lower_row_addr(l, n->output, l->row_first),
                    pccx_lower_row_addr(l, n->inputs[0], l->row_first),
                    (l->row_end - l->row_first) * pccx_lower_padded(pccx_lower_columns(l, n->output)));
    return TV_OK;
}

/* Each row of the last axis. */
tv_status pccx_lower_slice(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    uint32_t from = tv_graph_columns(l->graph, n->inputs[0]), to = tv_graph_columns(l->graph, n->output),
             count = pccx_lower_columns(l, n->output) / to;
    for (uint32_t r = l->row_first; r < l->row_end; r++)
        for (uint32_t i = 0; i < count; i++)
            pccx_lower_copy_elements(l, pccx_lower_row_addr(l, n->output, r), i * to,
                                     pccx_lower_row_addr(l, n->inputs[0], r), i * from + n->attrs.start, to);
    return TV_OK;
}

tv_status pccx_lower_concat(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    uint32_t to = tv_graph_columns(l->graph, n->output), count = pccx_lower_columns(l, n->output) / to;
    for (uint32_t r = l->row_first; r < l->row_end; r++)
        for (uint32_t i = 0, at = 0; i < count; i++)
            for (unsigned k = 0; k < tv_graph_input_count(n); k++) {
                uint32_t from = tv_graph_columns(l->graph, n->inputs[k]);
                pccx_lower_copy_elements(l, pccx_lower_row_addr(l, n->output, r), at,
                                         pccx_lower_row_addr(l, n->inputs[k], r), i * from, from);
                at += from;
            }
    return TV_OK;
}

/* ---- Reductions ---- */

tv_status pccx_lower_reduce(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    uint32_t columns = pccx_lower_columns(l, n->inputs[0]);
    for (uint32_t r = l->row_first; r < l->row_end; r++) {
        uint32_t out = pccx_lower_row_addr(l, n->output, r);
        pccx_lower_cvo(l, PCCX_CVO_REDUCE_SUM, out, pccx_lower_row_addr(l, n->inputs[0], r), columns, 0);
        if (n->op == TV_OP_REDUCE_MEAN)
            pccx_lower_scale(l, out, out, pccx_lower_scalar(l, n, 0), 1, 0);
    }
    return TV_OK;
}
