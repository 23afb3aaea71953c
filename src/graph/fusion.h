/* SPDX-License-Identifier: Apache-2.0 */
/* What the fusion patterns share. A pattern is matched from its last node backwards; inner values must have no other
 * reader. The fused node takes the place of the last node and writes its value, so numbers of values stay valid. */
#ifndef TV_GRAPH_FUSION_H
#define TV_GRAPH_FUSION_H

#include <math.h>

#include "graph/graph.h"

typedef struct tv_fusion {
    tv_graph *graph;
    uint32_t *uses; /* of each value, those that patterns add included */
    const tv_diag_sink *sink;
    tv_status status;
} tv_fusion;

/* Replaces the pattern that ends with node n, if there is one. */
typedef void tv_fusion_pattern(tv_fusion *f, tv_graph_node *n);

/* Constants that are multiplied with or added to the channels of a product become part of its weights and its bias.
 * A residual becomes part of a convolution. fuse_products.c */
tv_fusion_pattern tv_fuse_affine, tv_fuse_residual_conv;

/* Functions that exporters write as several operators. fuse_functions.c */
tv_fusion_pattern tv_fuse_layer_norm, tv_fuse_rms_norm, tv_fuse_gains, tv_fuse_gelu, tv_fuse_swish;

/* The node that computes a value, or NULL. */
static inline tv_graph_node *tv_fusion_producer(const tv_fusion *f, uint32_t value)
{
    if (value == TV_NO_VALUE)
        return NULL;
    const tv_graph_value *v = tv_graph_value_at(f->graph, value);
    return v->source == TV_VALUE_COMPUTED && v->producer != TV_NO_VALUE ? &f->graph->nodes.data[v->producer] : NULL;
}

/* The node that computes a value which nothing else reads, or NULL. */
static inline tv_graph_node *tv_fusion_sole_producer(const tv_fusion *f, uint32_t value)
{
    return value != TV_NO_VALUE && f->uses[value] == 1 ? tv_fusion_producer(f, value) : NULL;
}

/* That node if it has the operator, or NULL. */
static inline tv_graph_node *tv_fusion_sole(const tv_fusion *f, uint32_t value, tv_graph_op op)
{
    tv_graph_node *n = tv_fusion_sole_producer(f, value);
    return n && n->op == op ? n : NULL;
}

/* A removed node has the operator TV_OPS until it is dropped. */
static inline void tv_fusion_remove(tv_graph_node *n) { n->op = TV_OPS; }

static inline void tv_fusion_replace(tv_graph_node *n, tv_graph_op op, const uint32_t inputs[4],
                                     const tv_graph_attrs *attrs)
{
    n->op = op;
    n->attrs = *attrs;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        n->inputs[k] = k < 4 ? inputs[k] : TV_NO_VALUE;
}

/* True for a constant of one element that is `expected` but for rounding. */
static inline bool tv_fusion_is_scalar(const tv_fusion *f, uint32_t value, double expected)
{
    if (value == TV_NO_VALUE)
        return false;
    const tv_tensor *t = tv_graph_value_at(f->graph, value)->tensor;
    return t && t->data && tv_tensor_count(t) == 1 && fabs(tv_tensor_real(t, 0) - expected) <= 1e-6 * fabs(expected);
}

#endif
