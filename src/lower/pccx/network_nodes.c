/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of networks that pccx has, nodes that the host computes, and selections of rows of tables. */
#include <stdlib.h>

#include "lower/pccx/network_state.h"

static tv_status compute_on_host(pccx_network *w, const tv_graph_node *n, const tv_diag_sink *sink)
{
    pccx_net_value *v = pccx_net_value_at(w, n->output);
    const tv_tensor *inputs[TV_GRAPH_INPUTS_MAX] = {NULL};
    tv_tensor type = tv_graph_tensor_of(w->graph, n->output);
    for (unsigned k = 0; k < tv_graph_input_count(n); k++)
        if (n->inputs[k] != TV_NO_VALUE)
            inputs[k] = pccx_net_tensor(w, n->inputs[k]);
    if (v->owned)
        tv_tensor_fini(&v->tensor);
    v->owned = false;
    TV_TRY(tv_tensor_init(&v->tensor, type.element, type.rank, type.dims, sink));
    v->owned = true;
    return tv_node_compute(w->graph, n, inputs, &v->tensor, sink);
}

tv_status pccx_net_host_node(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    for (unsigned k = 0; k < tv_graph_input_count(n); k++)
        if (n->inputs[k] != TV_NO_VALUE && !pccx_net_is_constant(w, n->inputs[k]))
            TV_TRY(pccx_net_to_host(w, n->inputs[k], sink));
    pccx_net_count_host(w, w->values[n->output].on_host ? "arrange a matrix" : tv_graph_op_infos[n->op].name,
                        tv_graph_elements(w->graph, n->output));
    if (!w->l.timing)
        TV_TRY(compute_on_host(w, n, sink));
    w->values[n->output].read = true;
    return w->values[n->output].on_machine ? pccx_net_from_host(w, n->output, sink) : TV_OK;
}

/* The host copies the rows of a table that the indices select, in host memory. */
static tv_status copy_rows(pccx_network *w, const tv_graph_node *n, uint64_t table_addr, const tv_diag_sink *sink)
{
    const pccx_net_value *table = pccx_net_value_at(w, n->inputs[0]), *v = pccx_net_value_at(w, n->output);
    const tv_tensor *indices = pccx_net_tensor(w, n->inputs[1]);
    uint64_t bytes = (uint64_t)v->words * PCCX_LOWER_WORD_BYTES;
    uint8_t *rows = malloc(v->rows * bytes + 1);
    tv_status status = rows ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < v->rows && status == TV_OK; r++) {
        int64_t i = tv_tensor_integer(indices, r);
        i = i < 0 ? i + table->rows : i;
        i = i < 0 || i >= (int64_t)table->rows ? 0 : i;
        status = tv_machine_read(w->l.machine, "host", table_addr + (uint64_t)i * bytes, rows + r * bytes, bytes, sink);
    }
    if (status == TV_OK)
        pccx_lower_add_data(&w->l, v->home, rows, v->rows * bytes);
    free(rows);
    return status;
}

/* Rows of a table: the next program begins with them. */
static tv_status gather(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    pccx_net_value *v = pccx_net_value_at(w, n->output);
    uint64_t table = w->nodes[node].operands[0];
    if (!pccx_net_is_constant(w, n->inputs[1]))
        TV_TRY(pccx_net_to_host(w, n->inputs[1], sink));
    if (!w->l.timing)
        TV_TRY(copy_rows(w, n, table, sink));
    TV_TRY(pccx_net_note_selection(w, node, table, sink));
    pccx_net_begin_tile(w, node, 0, 1);
    v->stored = true;
    if (v->l2 != PCCX_LOWER_NO_BUFFER)
        pccx_net_load(w, v->l2, v->home, pccx_net_words(v));
    return TV_OK;
}

/* ---- The table ---- */

pccx_net_emitter *const pccx_net_emitters[TV_OPS] = {
    [TV_OP_GATHER] = gather,
    [TV_OP_GEMM] = pccx_net_linear,
    [TV_OP_LINEAR] = pccx_net_linear,
    [TV_OP_MATMUL] = pccx_net_matmul,
    [TV_OP_CONV] = pccx_net_conv,
    [TV_OP_CONV_TRANSPOSE] = pccx_net_conv,
    [TV_OP_MAX_POOL] = pccx_net_max_pool,
    [TV_OP_AVERAGE_POOL] = pccx_net_average_pool,
    [TV_OP_ADD] = pccx_net_binary,
    [TV_OP_SUB] = pccx_net_binary,
    [TV_OP_MUL] = pccx_net_binary,
    [TV_OP_DIV] = pccx_net_binary,
    [TV_OP_MIN] = pccx_net_binary,
    [TV_OP_MAX] = pccx_net_binary,
    [TV_OP_RELU] = pccx_net_unary,
    [TV_OP_SIGMOID] = pccx_net_unary,
    [TV_OP_TANH] = pccx_net_unary,
    [TV_OP_SWISH] = pccx_net_unary,
    [TV_OP_GELU] = pccx_net_unary,
    [TV_OP_EXP] = pccx_net_unary,
    [TV_OP_SQRT] = pccx_net_unary,
    [TV_OP_CLIP] = pccx_net_unary,
    [TV_OP_LEAKY_RELU] = pccx_net_unary,
    [TV_OP_HARD_SIGMOID] = pccx_net_unary,
    [TV_OP_HARD_SWISH] = pccx_net_unary,
    [TV_OP_ABS] = pccx_net_unary,
    [TV_OP_NEG] = pccx_net_unary,
    [TV_OP_RECIPROCAL] = pccx_net_unary,
    [TV_OP_SIN] = pccx_net_unary,
    [TV_OP_COS] = pccx_net_unary,
    [TV_OP_REDUCE_MEAN] = pccx_net_reduce,
    [TV_OP_REDUCE_SUM] = pccx_net_reduce,
    [TV_OP_SOFTMAX] = pccx_net_softmax,
    [TV_OP_NORM] = pccx_net_norm,
    [TV_OP_RMS_NORMALIZATION] = pccx_net_norm,
    [TV_OP_LAYER_NORMALIZATION] = pccx_net_norm,
};
