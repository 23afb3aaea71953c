/* SPDX-License-Identifier: Apache-2.0 */
/* Work of nodes: operations and bytes of weights for one token. */
#include "graph/graph.h"

static uint64_t elements(const tv_graph *g, const tv_graph_node *n) { return tv_graph_elements(g, n->output); }

/* Adds the product of the input with `used` of the matrices of a constant. */
static void add_product(const tv_graph *g, uint32_t matrix, uint64_t vectors, uint32_t used, unsigned bits,
                        tv_graph_cost *cost)
{
    const tv_matrix *w = tv_graph_matrix(g, matrix);
    uint64_t weights = (uint64_t)w->rows * w->columns * used;
    cost->operations += 2 * weights * vectors;
    cost->weight_bytes += weights * bits / 8;
}

static uint64_t vectors_of(const tv_graph *g, const tv_graph_node *n)
{
    return tv_graph_elements(g, n->inputs[0]) / tv_graph_columns(g, n->inputs[0]);
}

static uint64_t attention_operations(const tv_graph *g, const tv_graph_node *n, uint32_t positions)
{
    const tv_graph_cache *cache = &g->caches.data[n->attrs.cache];
    uint64_t visible = n->attrs.window && n->attrs.window < positions ? n->attrs.window : positions;
    enum { SOFTMAX_OPERATIONS = 5 }; /* a score: scaled, compared, subtracted, exponential, divided */
    return n->attrs.heads * visible * (2 * ((uint64_t)cache->key_dim + cache->value_dim) + SOFTMAX_OPERATIONS);
}

tv_graph_cost tv_graph_node_cost(const tv_graph *graph, const tv_graph_node *node, uint32_t positions, unsigned bits)
{
    tv_graph_cost cost = {0};
    switch (node->op) {
    case TV_OP_RESHAPE:
    case TV_OP_SLICE:
    case TV_OP_CONCAT:
    case TV_OP_TRANSPOSE:
        break;
    case TV_OP_GATHER:
        cost.weight_bytes = elements(graph, node) * bits / 8;
        break;
    case TV_OP_GEMM:
    case TV_OP_LINEAR:
        add_product(graph, node->inputs[1], vectors_of(graph, node), 1, bits, &cost);
        break;
    case TV_OP_GLU:
        add_product(graph, node->inputs[1], vectors_of(graph, node), 1, bits, &cost);
        add_product(graph, node->inputs[2], vectors_of(graph, node), 1, bits, &cost);
        break;
    case TV_OP_MOE:
        for (unsigned i = 2; i < 5; i++)
            add_product(graph, node->inputs[i], 1, node->attrs.experts_used, bits, &cost);
        break;
    case TV_OP_MATMUL:
        cost.operations = 2 * elements(graph, node) * tv_graph_columns(graph, node->inputs[0]);
        break;
    case TV_OP_ATTENTION:
        cost.operations = attention_operations(graph, node, positions);
        break;
    case TV_OP_REDUCE_MEAN:
    case TV_OP_REDUCE_SUM:
        cost.operations = tv_graph_elements(graph, node->inputs[0]);
        break;
    case TV_OP_SOFTMAX:
    case TV_OP_RMS_NORMALIZATION:
    case TV_OP_LAYER_NORMALIZATION:
    case TV_OP_NORM:
    case TV_OP_ROTARY_EMBEDDING:
        cost.operations = 4 * elements(graph, node);
        break;
    case TV_OP_ADD:
    case TV_OP_SUB:
    case TV_OP_MUL:
    case TV_OP_DIV:
    case TV_OP_RELU:
    case TV_OP_SIGMOID:
    case TV_OP_TANH:
    case TV_OP_SWISH:
    case TV_OP_GELU:
    case TV_OP_EXP:
    case TV_OP_SQRT:
        cost.operations = elements(graph, node);
        break;
    case TV_OPS:
        break;
    }
    return cost;
}
