/* SPDX-License-Identifier: Apache-2.0 */
/* One node of a graph on the host. */
#include "graph/host_node.h"

#include <stdlib.h>

#include "graph/operators.h"

struct tv_host_node {
    const tv_graph *graph;
    const tv_graph_node *node;
    float *constants[TV_GRAPH_INPUTS_MAX]; /* NULL: not a constant, or decoded row by row */
};

bool tv_host_node_possible(const tv_graph_node *node)
{
    return node->op != TV_OP_GATHER && node->op != TV_OP_ATTENTION && node->op != TV_OP_MOE;
}

/* Matrices that their operators decode themselves. */
static bool is_decoded_by_rows(const tv_graph_node *n, unsigned input)
{
    switch (n->op) {
    case TV_OP_GEMM:
    case TV_OP_LINEAR:
        return input == 1;
    case TV_OP_GLU:
        return input == 1 || input == 2;
    default: /* all inputs are read at once */
        return false;
    }
}

static tv_status convert_constant(const tv_matrix *m, float **out, const tv_diag_sink *sink)
{
    uint64_t rows = (uint64_t)m->count * m->rows;
    *out = malloc((size_t)rows * m->columns * sizeof **out);
    if (!*out)
        return tv_fail_memory(sink);
    for (uint64_t r = 0; r < rows; r++)
        if (tv_matrix_row_f32(m, r, *out + r * m->columns) != TV_OK)
            return tv_matrix_fail(m, sink);
    return TV_OK;
}

tv_status tv_host_node_new(const tv_graph *graph, const tv_graph_node *node, const tv_diag_sink *sink,
                           tv_host_node **out)
{
    tv_status status = TV_OK;
    tv_host_node *h = calloc(1, sizeof *h);
    if (!h)
        return tv_fail_memory(sink);
    h->graph = graph;
    h->node = node;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && status == TV_OK; k++)
        if (node->inputs[k] != TV_NO_VALUE && tv_graph_value_at(graph, node->inputs[k])->source == TV_VALUE_CONSTANT &&
            !is_decoded_by_rows(node, k))
            status = convert_constant(tv_graph_matrix(graph, node->inputs[k]), &h->constants[k], sink);
    if (status != TV_OK) {
        tv_host_node_free(h);
        return status;
    }
    *out = h;
    return TV_OK;
}

void tv_host_node_free(tv_host_node *h)
{
    for (unsigned k = 0; h && k < TV_GRAPH_INPUTS_MAX; k++)
        free(h->constants[k]);
    free(h);
}

tv_status tv_host_node_compute(const tv_host_node *h, const float *const *inputs, uint32_t position, float *output,
                               const tv_diag_sink *sink)
{
    const tv_graph_node *n = h->node;
    tv_operator_row row = {.graph = h->graph, .node = n, .output = output, .position = position};
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        bool computed =
            n->inputs[k] != TV_NO_VALUE && tv_graph_value_at(h->graph, n->inputs[k])->source == TV_VALUE_COMPUTED;
        row.inputs[k] = computed ? inputs[k] : h->constants[k];
    }
    if (tv_operator_compute(&row))
        return TV_OK;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        if (n->inputs[k] != TV_NO_VALUE && is_decoded_by_rows(n, k))
            return tv_matrix_fail(tv_graph_matrix(h->graph, n->inputs[k]), sink);
    return tv_fail_memory(sink);
}
