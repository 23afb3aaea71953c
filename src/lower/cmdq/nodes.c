/* SPDX-License-Identifier: Apache-2.0 */
/* The table from operators to emitters, and the operators that select, move, normalize or reduce elements. */
#include "lower/cmdq/emit.h"

/* ---- Inputs ---- */

/* The host writes the rows of the table to DRAM. */
static void emit_gather(cmdq_lowering *l, const tv_graph_node *n)
{
    uint32_t width = (uint32_t)tv_graph_elements(l->graph, n->output), tile = cmdq_lower_tile_of(l, n->output);
    if (l->rows == 1 || tile == width)
        cmdq_lower_load(l, cmdq_lower_value(l, n->output, 0), "embedding", l->inputs[n->output], 1,
                        (uint64_t)l->rows * width, 0);
    for (uint32_t at = 0; at < width && l->rows > 1 && tile < width; at += tile)
        cmdq_lower_load(l, cmdq_lower_value(l, n->output, at), "embedding", l->inputs[n->output] + (uint64_t)at * 4,
                        l->rows, cmdq_lower_min(tile, width - at), (uint64_t)width * 4);
    if (n == l->graph->nodes.data)
        cmdq_lower_load_masks(l);
}

/* ---- Along rows ---- */

/* Groups are rows of their own; with several tokens they are tiles. */
static void emit_norm(cmdq_lowering *l, const tv_graph_node *n)
{
    uint32_t gains = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_VECTOR),
             bias = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_VECTOR2);
    uint64_t length = tv_graph_columns(l->graph, n->output) / n->attrs.groups,
             rows = cmdq_lower_rows(l, n->output) * (tv_graph_elements(l->graph, n->output) / length);
    if (cmdq_lower_has_input(n, 1))
        cmdq_lower_load_vector(l, n, 1, gains);
    if (cmdq_lower_has_input(n, 2))
        cmdq_lower_load_vector(l, n, 2, bias);
    cmdq_lower_begin_vector(l, n->attrs.subtract_mean ? CMDQ_VE_LAYERNORM_TILE : CMDQ_VE_RMSNORM_TILE,
                            cmdq_lower_input(l, n, 0, 0), cmdq_lower_value(l, n->output, 0), rows, length);
    if (cmdq_lower_has_input(n, 1)) {
        cmdq_lower_set_address(l, CMDQ_F_gamma_bank, gains, 0);
        cmdq_lower_add_read(l, gains);
    }
    if (cmdq_lower_has_input(n, 2)) {
        cmdq_lower_set_address(l, CMDQ_F_beta_bank, bias, 0);
        cmdq_lower_add_read(l, bias);
    }
    tv_queue_builder_real(l->builder, CMDQ_F_eps, (double)n->attrs.epsilon);
    cmdq_lower_finish_entry(l);
}

static void emit_softmax(cmdq_lowering *l, const tv_graph_node *n)
{
    uint64_t rows = cmdq_lower_rows(l, n->output) * cmdq_lower_vectors(l, n->output);
    cmdq_lower_begin_vector(l, CMDQ_VE_SOFTMAX_TILE, cmdq_lower_input(l, n, 0, 0), cmdq_lower_value(l, n->output, 0),
                            rows, tv_graph_columns(l->graph, n->output));
    cmdq_lower_finish_entry(l);
}

static void emit_reduce(cmdq_lowering *l, const tv_graph_node *n)
{
    uint64_t rows = cmdq_lower_rows(l, n->output) * tv_graph_elements(l->graph, n->output);
    cmdq_lower_begin_vector(l, CMDQ_VE_REDUCE_TILE, cmdq_lower_input(l, n, 0, 0), cmdq_lower_value(l, n->output, 0),
                            rows, tv_graph_columns(l->graph, n->inputs[0]));
    tv_queue_builder_text(l->builder, CMDQ_F_reduce_function, n->op == TV_OP_REDUCE_SUM ? "sum" : "mean");
    cmdq_lower_finish_entry(l);
}

/* ---- Moving elements ---- */

/* Copies elements of each token; their limits are limits of tiles. */
static void copy_elements(cmdq_lowering *l, const tv_graph_node *n, unsigned input, uint64_t from, uint64_t to,
                          uint64_t count)
{
    cmdq_lower_elementwise(l, CMDQ_VE_CAST_TILE, cmdq_lower_input(l, n, input, from), NULL,
                           cmdq_lower_value(l, n->output, to), cmdq_lower_rows(l, n->output) * count);
}

static bool is_view(const cmdq_lowering *l, const tv_graph_node *n)
{
    return l->plan->formats[n->inputs[0]].buffer == l->plan->formats[n->output].buffer;
}

static void emit_reshape(cmdq_lowering *l, const tv_graph_node *n)
{
    if (!is_view(l, n))
        copy_elements(l, n, 0, 0, 0, tv_graph_elements(l->graph, n->output));
}

static void emit_slice(cmdq_lowering *l, const tv_graph_node *n)
{
    uint64_t from = tv_graph_columns(l->graph, n->inputs[0]), to = tv_graph_columns(l->graph, n->output);
    for (uint64_t i = 0; i < cmdq_lower_vectors(l, n->output) && !is_view(l, n); i++)
        copy_elements(l, n, 0, i * from + n->attrs.start, i * to, to);
}

static void emit_concat(cmdq_lowering *l, const tv_graph_node *n)
{
    uint64_t to = tv_graph_columns(l->graph, n->output), at = 0;
    for (unsigned k = 0; k < tv_graph_input_count(n); k++) {
        uint64_t from = tv_graph_columns(l->graph, n->inputs[k]);
        for (uint64_t i = 0; i < cmdq_lower_vectors(l, n->output); i++)
            copy_elements(l, n, k, i * from, i * to + at, from);
        at += from;
    }
}

/* Each matrix of each token. */
static void emit_transpose(cmdq_lowering *l, const tv_graph_node *n)
{
    uint64_t rows = tv_graph_columns(l->graph, n->output), columns = tv_graph_columns(l->graph, n->inputs[0]),
             matrices = cmdq_lower_rows(l, n->output) * tv_graph_elements(l->graph, n->output) / (rows * columns);
    cmdq_lower_operand in = cmdq_lower_input(l, n, 0, 0), out = cmdq_lower_value(l, n->output, 0);
    for (uint64_t i = 0; i < matrices; i++) {
        cmdq_lower_begin_vector(l, CMDQ_VE_TRANSPOSE_TILE, cmdq_lower_skip(in, i * rows * columns),
                                cmdq_lower_skip(out, i * rows * columns), rows, columns);
        cmdq_lower_finish_entry(l);
    }
}

/* One token: a[m][k] * b[k][n] of each matrix. */
static void emit_matmul(cmdq_lowering *l, const tv_graph_node *n)
{
    uint64_t columns = tv_graph_columns(l->graph, n->output), k = tv_graph_columns(l->graph, n->inputs[0]),
             matrices = tv_graph_elements(l->graph, n->inputs[1]) / (k * columns),
             m = tv_graph_elements(l->graph, n->output) / (columns * matrices);
    cmdq_lower_operand b = cmdq_lower_input(l, n, 1, 0);
    for (uint64_t i = 0; i < matrices; i++) {
        cmdq_lower_operand at = cmdq_lower_skip(b, i * k * columns);
        cmdq_lower_begin_tensor(l, CMDQ_TE_AV_TILE, cmdq_lower_input(l, n, 0, i * m * k), at,
                                cmdq_lower_value(l, n->output, i * m * columns),
                                (cmdq_lower_gemm){m, columns, k, at.qbits});
        cmdq_lower_set_scale(l, CMDQ_F_scale_wgt, at.scale);
        cmdq_lower_finish_entry(l);
    }
}

static void emit_pointwise(cmdq_lowering *l, const tv_graph_node *n)
{
    if (l->streamed[n->output])
        cmdq_lower_emit_streamed(l, n);
    else
        cmdq_lower_emit_pointwise(l, n);
}

/* ---- The table ---- */

cmdq_lower_emitter *const cmdq_lower_emitters[TV_OPS] = {
    [TV_OP_GATHER] = emit_gather,
    [TV_OP_RESHAPE] = emit_reshape,
    [TV_OP_SLICE] = emit_slice,
    [TV_OP_CONCAT] = emit_concat,
    [TV_OP_TRANSPOSE] = emit_transpose,
    [TV_OP_MATMUL] = emit_matmul,
    [TV_OP_ADD] = emit_pointwise,
    [TV_OP_SUB] = emit_pointwise,
    [TV_OP_MUL] = emit_pointwise,
    [TV_OP_DIV] = emit_pointwise,
    [TV_OP_RELU] = emit_pointwise,
    [TV_OP_SIGMOID] = emit_pointwise,
    [TV_OP_TANH] = emit_pointwise,
    [TV_OP_SWISH] = emit_pointwise,
    [TV_OP_GELU] = emit_pointwise,
    [TV_OP_EXP] = emit_pointwise,
    [TV_OP_SQRT] = emit_pointwise,
    [TV_OP_REDUCE_MEAN] = emit_reduce,
    [TV_OP_REDUCE_SUM] = emit_reduce,
    [TV_OP_SOFTMAX] = emit_softmax,
    [TV_OP_ROTARY_EMBEDDING] = cmdq_lower_emit_rope,
    [TV_OP_ATTENTION] = cmdq_lower_emit_attention,
    [TV_OP_MOE] = cmdq_lower_emit_experts,
    [TV_OP_LINEAR] = cmdq_lower_emit_linear,
    [TV_OP_GLU] = cmdq_lower_emit_glu,
    [TV_OP_NORM] = emit_norm,
};
