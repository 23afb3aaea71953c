/* SPDX-License-Identifier: Apache-2.0 */
/* Passes that replace nodes by several others, on a copy of a graph that a machine has for itself. */
#ifndef TV_GRAPH_REWRITE_H
#define TV_GRAPH_REWRITE_H

#include "graph/graph.h"

/* A graph with the same values and nodes, for one machine. Names, lists and constants are shared: `graph` must outlive
 * it. The caller frees *out with tv_graph_free. TV_ERR_MEMORY. Language models are not copied: their caches and layers
 * have no meaning to such passes. */
tv_status tv_graph_copy(const tv_graph *graph, const tv_diag_sink *sink, tv_graph **out);

/* Called for each node in order. It may add nodes before this one with `b`, and change the operator, the inputs and the
 * attributes of the node, whose output stays. Errors are those of the builder. */
typedef void tv_graph_rewriter(void *user, tv_graph_builder *b, tv_graph_node *node);

/* Applies a rewriter. On failure (TV_ERR_MEMORY, or as the builder says) the graph can only be freed. */
tv_status tv_graph_rewrite(tv_graph *graph, tv_graph_rewriter *rewrite, void *user, const tv_diag_sink *sink);

/* Adds a node whose name is that of `value` and a suffix, such as "y.max". */
uint32_t tv_rewrite_add(tv_graph_builder *b, uint32_t value, const char *suffix, tv_graph_op op, const uint32_t *inputs,
                        uint32_t count, const tv_graph_attrs *attrs);

/* Likewise a constant: its elements are copied. */
uint32_t tv_rewrite_constant(tv_graph_builder *b, uint32_t value, const char *suffix, const tv_tensor *tensor);
uint32_t tv_rewrite_scalar(tv_graph_builder *b, uint32_t value, const char *suffix, float x);

/* A transposition with as few axes as possible: those of extent 1 are left out, and axes that stay side by side are
 * one. Axis i of the output is axis perm[i] of the input. */
typedef struct tv_permutation {
    uint32_t rank;
    int64_t dims[TV_GRAPH_RANK_MAX]; /* of the input */
    uint32_t perm[TV_GRAPH_RANK_MAX];
} tv_permutation;

tv_permutation tv_permutation_of(const tv_graph_shape *input, const uint32_t *perm);

/* `value`, an input of a node, with its axes of extent 1 repeated to a shape. */
uint32_t tv_rewrite_repeat(tv_graph_builder *b, const tv_graph_node *node, uint32_t value, const tv_graph_shape *to);

/* Replaces operators that a machine has no instructions for by others: `expands` says which nodes. LogSoftmax, PRelu,
 * Elu, Selu, Softplus, Softsign; Expand, Pad; Where with a constant condition; Div whose first operand is repeated,
 * operators of two operands that are both repeated; Slice of several axes; Transpose that moves the last axis before
 * the last but one. Other nodes stay. (expand.c) */
typedef bool tv_graph_expands_fn(const void *user, const tv_graph *graph, const tv_graph_node *node);
tv_status tv_graph_expand(tv_graph *graph, tv_graph_expands_fn *expands, const void *user, const tv_diag_sink *sink);

#endif
