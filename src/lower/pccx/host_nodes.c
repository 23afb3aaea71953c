/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that the host computes, with allow_host_ops: a program stores their inputs to host memory, and the next one
 * begins with the output there. */
#include "graph/host_node.h"

#include <stdlib.h>

#include "lower/pccx/state.h"
#include "num/float.h"

static bool is_computed(const pccx_lowering *l, uint32_t value)
{
    return value != TV_NO_VALUE && tv_graph_value_at(l->graph, value)->source == TV_VALUE_COMPUTED;
}

static uint64_t row_bytes(const pccx_lowering *l, uint32_t value)
{
    return (uint64_t)pccx_lower_l2_size(pccx_lower_columns(l, value)) * PCCX_LOWER_WORD_BYTES;
}

uint64_t pccx_lower_host_node_bytes(const pccx_lowering *l, const tv_graph_node *n)
{
    uint64_t bytes = row_bytes(l, n->output);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        if (is_computed(l, n->inputs[k]))
            bytes += row_bytes(l, n->inputs[k]);
    return bytes;
}

/* Stores the inputs of the current rows, each input after the one before; returns the address after them. */
static uint64_t store_inputs(pccx_lowering *l, const tv_graph_node *n)
{
    uint64_t at = l->map.host_nodes;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        for (uint32_t r = l->row_first; r < l->row_end && is_computed(l, n->inputs[k]); r++) {
            pccx_lower_store(l, at, pccx_lower_row_addr(l, n->inputs[k], r), pccx_lower_columns(l, n->inputs[k]));
            at += row_bytes(l, n->inputs[k]);
        }
    return at;
}

/* Reads what store_inputs stored of a row into `memory`, which has room for it. */
static tv_status read_inputs(pccx_lowering *l, const tv_graph_node *n, uint32_t row, float *memory,
                             const float *inputs[TV_GRAPH_INPUTS_MAX], const tv_diag_sink *sink)
{
    uint64_t at = l->map.host_nodes;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        if (!is_computed(l, n->inputs[k]))
            continue;
        uint32_t elements = pccx_lower_columns(l, n->inputs[k]);
        TV_TRY(pccx_lower_read_bf16(l, at + (row - l->row_first) * row_bytes(l, n->inputs[k]), elements, memory, sink));
        inputs[k] = memory;
        memory += elements;
        at += (l->row_end - l->row_first) * row_bytes(l, n->inputs[k]);
    }
    return TV_OK;
}

/* Computes a row and adds it to the next program, at `to`. */
static tv_status compute_row(pccx_lowering *l, const tv_graph_node *n, uint32_t row, uint64_t to,
                             const tv_diag_sink *sink)
{
    const float *inputs[TV_GRAPH_INPUTS_MAX] = {NULL};
    size_t bytes = pccx_lower_host_node_bytes(l, n), elements = pccx_lower_columns(l, n->output);
    float *memory = malloc(bytes / 2 * sizeof *memory); /* the inputs, then the output */
    uint8_t *packed = calloc(1, row_bytes(l, n->output));
    tv_status status =
        memory && packed ? read_inputs(l, n, row, memory + elements, inputs, sink) : tv_fail_memory(sink);
    if (status == TV_OK)
        status = tv_host_node_compute(l->host_nodes[n - l->graph->nodes.data], inputs, l->position + row, memory, sink);
    for (size_t i = 0; i < elements && status == TV_OK; i++)
        tv_store_le(packed + 2 * i, tv_bf16_flushed_from_f32(memory[i]), 2);
    if (status == TV_OK)
        pccx_lower_add_data(l, to, packed, row_bytes(l, n->output));
    free(memory);
    free(packed);
    return status;
}

tv_status pccx_lower_host_node(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t node = (uint32_t)(n - l->graph->nodes.data), columns = pccx_lower_columns(l, n->output);
    uint64_t outputs = store_inputs(l, n);
    TV_TRY(pccx_lower_end_program(l, l->host_op_of[n->op], (uint64_t)(l->row_end - l->row_first) * columns, sink));
    if (!l->timing && !l->host_nodes[node])
        TV_TRY(tv_host_node_new(l->graph, n, sink, &l->host_nodes[node]));
    for (uint32_t r = l->row_first; r < l->row_end; r++) {
        uint64_t at = outputs + (r - l->row_first) * row_bytes(l, n->output);
        if (!l->timing)
            TV_TRY(compute_row(l, n, r, at, sink));
        pccx_lower_load(l, pccx_lower_row_addr(l, n->output, r), at, columns);
    }
    return TV_OK;
}
