/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that compute each element from those at the same position. Factors and negations are scales of operands;
 * other constants, and values with one element for each vector, are broadcast. */
#include "lower/cmdq/emit.h"

/* ---- Functions of one operand ---- */

static const char *const unary_names[TV_OPS] = {[TV_OP_RELU] = "relu",
                                                [TV_OP_SIGMOID] = "sigmoid",
                                                [TV_OP_TANH] = "tanh",
                                                [TV_OP_EXP] = "exp",
                                                [TV_OP_SQRT] = "sqrt"};

static void emit_function(cmdq_lowering *l, const char *name, cmdq_lower_operand in, cmdq_lower_operand out,
                          uint64_t count)
{
    cmdq_lower_begin_vector(l, CMDQ_VE_UNARY_TILE, in, out, 1, count);
    tv_queue_builder_text(l->builder, CMDQ_F_unary_function, name);
    cmdq_lower_finish_entry(l);
}

void cmdq_lower_emit_activation(cmdq_lowering *l, tv_activation activation, cmdq_lower_operand in,
                                cmdq_lower_operand out, uint64_t count)
{
    switch (activation) {
    case TV_ACTIVATION_RELU:
        emit_function(l, "relu", in, out, count);
        return;
    case TV_ACTIVATION_SIGMOID:
        emit_function(l, "sigmoid", in, out, count);
        return;
    case TV_ACTIVATION_TANH:
        emit_function(l, "tanh", in, out, count);
        return;
    case TV_ACTIVATION_SWISH:
    case TV_ACTIVATION_GELU:
    case TV_ACTIVATION_GELU_TANH:
    case TV_ACTIVATION_NONE:
    case TV_ACTIVATION_CLIP: /* not fused into products of language models */
    case TV_ACTIVATIONS:
        break;
    }
    cmdq_lower_begin_vector(l, activation == TV_ACTIVATION_SWISH ? CMDQ_VE_SILU_TILE : CMDQ_VE_GELU_TILE, in, out, 1,
                            count);
    if (activation == TV_ACTIVATION_GELU_TANH)
        tv_queue_builder_text(l->builder, CMDQ_F_approximation, "tanh");
    cmdq_lower_finish_entry(l);
}

static void emit_unary(cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_operand in, cmdq_lower_operand out,
                       uint64_t count)
{
    if (n->op == TV_OP_SWISH)
        cmdq_lower_emit_activation(l, TV_ACTIVATION_SWISH, in, out, count);
    else if (n->op == TV_OP_GELU)
        cmdq_lower_emit_activation(l, n->attrs.approximate ? TV_ACTIVATION_GELU_TANH : TV_ACTIVATION_GELU, in, out,
                                   count);
    else
        emit_function(l, unary_names[n->op], in, out, count);
}

/* ---- Functions of two operands ---- */

/* Two operands of `rows` vectors of `length` elements. */
typedef struct operands {
    cmdq_lower_operand a, b, out;
    uint32_t rows, length;
    const char *broadcast; /* of b; NULL: none */
} operands;

static void emit_entry(cmdq_lowering *l, cmdq_opcode opcode, const operands *o)
{
    bool flat = !o->broadcast;
    cmdq_lower_begin_vector(l, opcode, o->a, o->out, flat ? 1 : o->rows,
                            flat ? (uint64_t)o->rows * o->length : o->length);
    cmdq_lower_set_address(l, CMDQ_F_in2_bank, o->b.buffer, o->b.offset);
    cmdq_lower_set_scale(l, CMDQ_F_scale_in2, o->b.scale);
    if (o->b.qbits != o->a.qbits)
        cmdq_lower_set_integer(l, CMDQ_F_qbits_in2, o->b.qbits);
    if (o->broadcast)
        tv_queue_builder_text(l->builder, CMDQ_F_broadcast, o->broadcast);
    if (opcode == CMDQ_VE_BINARY_TILE)
        tv_queue_builder_text(l->builder, CMDQ_F_binary_function, "div");
    cmdq_lower_add_read(l, o->b.buffer);
    cmdq_lower_finish_entry(l);
}

/* out = a op b; with `swapped`, out = b op a. Differences are sums, and quotients products where b is broadcast. */
static void emit_operation(cmdq_lowering *l, tv_graph_op op, operands o, bool swapped)
{
    switch (op) {
    case TV_OP_SUB:
        (swapped ? &o.a : &o.b)->scale *= -1;
        emit_entry(l, CMDQ_VE_ADD_TILE, &o);
        return;
    case TV_OP_DIV:
        if (!swapped) {
            emit_entry(l, CMDQ_VE_BINARY_TILE, &o);
            return;
        }
        emit_function(l, "recip", o.a, o.out, (uint64_t)o.rows * o.length);
        o.a = o.out;
        emit_entry(l, CMDQ_VE_MUL_TILE, &o);
        return;
    default:
        emit_entry(l, op == TV_OP_ADD ? CMDQ_VE_ADD_TILE : CMDQ_VE_MUL_TILE, &o);
        return;
    }
}

/* x times a factor, x / factor or factor / x, as a scale of x. */
static void emit_scaled(cmdq_lowering *l, const tv_graph_node *n, unsigned constant, cmdq_lower_operand x,
                        cmdq_lower_operand out, uint64_t count)
{
    float factor = cmdq_lower_scalar(l, n->inputs[constant]);
    if (n->op == TV_OP_DIV && constant == 0) {
        emit_function(l, "recip", x, out, count);
        x = out;
    }
    x.scale *= n->op == TV_OP_DIV && constant == 1 ? 1 / factor : factor;
    cmdq_lower_elementwise(l, CMDQ_VE_CAST_TILE, x, NULL, out, count);
}

/* The input that is combined with the other one by broadcasting; 2: neither. */
static unsigned repeated_input(const cmdq_lowering *l, const tv_graph_node *n)
{
    for (unsigned k = 2; k-- > 0;)
        if (cmdq_lower_repeat_of(l, n, k) != CMDQ_REPEAT_NONE)
            return k;
    return 2;
}

/* ---- Tiles ---- */

void cmdq_lower_apply(cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_operand in, cmdq_lower_operand out,
                      uint32_t rows, uint32_t columns, uint32_t column)
{
    uint64_t count = (uint64_t)rows * columns;
    if (n->inputs[1] == TV_NO_VALUE) {
        emit_unary(l, n, in, out, count);
        return;
    }
    unsigned constant = repeated_input(l, n);
    if (cmdq_lower_is_factor(l, n, constant)) {
        emit_scaled(l, n, constant, in, out, count);
        return;
    }
    uint32_t buffer = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_VECTOR);
    const cmdq_lower_matrix *m = cmdq_lower_matrix_of(l, n, constant);
    bool scalar = m->columns == 1;
    operands o = {in, cmdq_lower_f32(buffer), out, rows, columns, scalar ? "scalar" : "row"};
    cmdq_lower_load(l, o.b, "weight", m->data + (scalar ? 0 : (uint64_t)column * 4), 1, scalar ? 1 : columns, 0);
    emit_operation(l, n->op, o, constant == 0);
}

/* Operands of equal shapes, as a single vector. */
static void emit_whole(cmdq_lowering *l, const tv_graph_node *n)
{
    uint32_t width = (uint32_t)tv_graph_elements(l->graph, n->output);
    operands o = {cmdq_lower_input(l, n, 0, 0),
                  cmdq_lower_input(l, n, 1, 0),
                  cmdq_lower_value(l, n->output, 0),
                  cmdq_lower_rows(l, n->output),
                  width,
                  NULL};
    emit_operation(l, n->op, o, false);
}

/* The vectors of a tile of columns; with one token, of the whole value. `period` elements are combined with a row of
 * the other operand, or with one element. */
static void emit_broadcast(cmdq_lowering *l, const tv_graph_node *n, unsigned repeated, cmdq_lower_operand second)
{
    uint64_t width = tv_graph_elements(l->graph, n->output), own = tv_graph_elements(l->graph, n->inputs[repeated]);
    bool column = cmdq_lower_repeat_of(l, n, repeated) == CMDQ_REPEAT_COLUMN;
    uint32_t m = cmdq_lower_rows(l, n->output), period = (uint32_t)(column ? width / own : own),
             tile = m == 1 ? (uint32_t)width : cmdq_lower_tile_of(l, n->output);
    bool scalar = own == 1 && !column;
    for (uint32_t at = 0; at < width; at += tile) {
        uint32_t columns = cmdq_lower_min(tile, (uint32_t)width - at),
                 length = scalar || period > columns ? columns : period;
        operands o = {cmdq_lower_input(l, n, 1 - repeated, at),
                      second,
                      cmdq_lower_value(l, n->output, at),
                      m * (columns / length),
                      length,
                      scalar   ? "scalar"
                      : column ? "column"
                               : "row"};
        if (column && own > 1)
            o.b = cmdq_lower_skip(second, (uint64_t)at / period * m);
        else if (!column && !scalar)
            o.b = cmdq_lower_skip(second, at % own);
        emit_operation(l, n->op, o, repeated == 0);
    }
}

static void emit_binary(cmdq_lowering *l, const tv_graph_node *n)
{
    unsigned repeated = repeated_input(l, n);
    uint64_t count = cmdq_lower_rows(l, n->output) * tv_graph_elements(l->graph, n->output);
    if (repeated == 2) {
        emit_whole(l, n);
        return;
    }
    if (cmdq_lower_is_factor(l, n, repeated)) {
        emit_scaled(l, n, repeated, cmdq_lower_input(l, n, 1 - repeated, 0), cmdq_lower_value(l, n->output, 0), count);
    } else if (cmdq_lower_is_constant(l, n->inputs[repeated])) {
        uint32_t buffer = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_VECTOR);
        cmdq_lower_load_vector(l, n, repeated, buffer);
        emit_broadcast(l, n, repeated, cmdq_lower_f32(buffer));
    } else {
        emit_broadcast(l, n, repeated, cmdq_lower_input(l, n, repeated, 0));
    }
}

void cmdq_lower_emit_pointwise(cmdq_lowering *l, const tv_graph_node *n)
{
    if (n->inputs[1] != TV_NO_VALUE)
        emit_binary(l, n);
    else
        emit_unary(l, n, cmdq_lower_input(l, n, 0, 0), cmdq_lower_value(l, n->output, 0),
                   cmdq_lower_rows(l, n->output) * tv_graph_elements(l->graph, n->output));
}
