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
    uint32_t columns = tv_graph_columns(g, n->inputs[0]);
    return columns ? tv_graph_elements(g, n->inputs[0]) / columns : 0;
}

static uint64_t attention_operations(const tv_graph *g, const tv_graph_node *n, uint32_t positions)
{
    const tv_graph_cache *cache = &g->caches.data[n->attrs.cache];
    uint64_t visible = n->attrs.window && n->attrs.window < positions ? n->attrs.window : positions;
    enum { SOFTMAX_OPERATIONS = 5 }; /* a score: scaled, compared, subtracted, exponential, divided */
    return n->attrs.heads * visible * (2 * ((uint64_t)cache->key_dim + cache->value_dim) + SOFTMAX_OPERATIONS);
}

/* Each weight is used at each position of the output, or of the input of a transposed convolution, of each image. */
static void add_convolution(const tv_graph *g, const tv_graph_node *n, unsigned bits, tv_graph_cost *cost)
{
    uint32_t positions_of = n->op == TV_OP_CONV ? n->output : n->inputs[0];
    const tv_graph_shape *s = &tv_graph_value_at(g, positions_of)->shape;
    uint64_t weights = tv_graph_elements(g, n->inputs[1]);
    uint64_t positions = s->dims[1] ? tv_graph_elements(g, positions_of) / (uint64_t)s->dims[1] : 0;
    cost->operations += 2 * weights * positions;
    cost->weight_bytes += weights * bits / 8;
}

static uint64_t class_operations(const tv_graph *g, const tv_graph_node *n)
{
    enum { NORM_OPERATIONS = 4 };
    uint64_t window = 1;
    switch (tv_graph_op_infos[n->op].class) {
    case TV_CLASS_MOVE:
    case TV_CLASS_PRODUCT:
    case TV_CLASS_MODEL:
        return 0;
    case TV_CLASS_UNARY:
    case TV_CLASS_BINARY:
        return elements(g, n);
    case TV_CLASS_REDUCE:
        return tv_graph_elements(g, n->inputs[0]);
    case TV_CLASS_NORM:
        return NORM_OPERATIONS * elements(g, n);
    case TV_CLASS_WINDOW:
        for (unsigned i = 0; i < TV_GRAPH_SPATIAL_MAX && n->attrs.lists; i++)
            window *= n->attrs.lists->kernel[i] ? (uint64_t)n->attrs.lists->kernel[i] : 1;
        return elements(g, n) * window;
    }
    return 0;
}

tv_graph_cost tv_graph_node_cost(const tv_graph *graph, const tv_graph_node *node, uint32_t positions, unsigned bits)
{
    tv_graph_cost cost = {0};
    switch (node->op) {
    case TV_OP_GATHER:
        cost.weight_bytes = elements(graph, node) * bits / 8;
        return cost;
    case TV_OP_GEMM:
    case TV_OP_LINEAR:
        add_product(graph, node->inputs[1], vectors_of(graph, node), 1, bits, &cost);
        return cost;
    case TV_OP_GLU:
        add_product(graph, node->inputs[1], vectors_of(graph, node), 1, bits, &cost);
        add_product(graph, node->inputs[2], vectors_of(graph, node), 1, bits, &cost);
        return cost;
    case TV_OP_MOE:
        for (unsigned i = 2; i < 5; i++)
            add_product(graph, node->inputs[i], 1, node->attrs.experts_used, bits, &cost);
        return cost;
    case TV_OP_CONV:
    case TV_OP_CONV_TRANSPOSE:
        add_convolution(graph, node, bits, &cost);
        return cost;
    case TV_OP_MATMUL:
        cost.operations = 2 * elements(graph, node) * tv_graph_columns(graph, node->inputs[0]);
        return cost;
    case TV_OP_ATTENTION:
        cost.operations = attention_operations(graph, node, positions);
        return cost;
    case TV_OP_ROTARY_EMBEDDING:
        cost.operations = 4 * elements(graph, node);
        return cost;
    default: /* by class */
        cost.operations = class_operations(graph, node);
        return cost;
    }
}
