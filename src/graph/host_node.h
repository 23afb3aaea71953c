/* SPDX-License-Identifier: Apache-2.0 */
/* One node of a graph on the host, for a lowering whose machine has no instructions for it (allow_host_ops). */
#ifndef TV_GRAPH_HOST_NODE_H
#define TV_GRAPH_HOST_NODE_H

#include "graph/graph.h"

typedef struct tv_host_node tv_host_node;

/* True for the nodes that tv_host_node can compute: all but Gather, which reads no values of the machine, Attention,
 * which has a cache, and MoE, whose experts the lowerings choose. */
bool tv_host_node_possible(const tv_graph_node *node);

/* Converts the constants of a node, except matrices of products, which are decoded row by row. `graph` must
 * outlive the result. The caller frees it with tv_host_node_free. TV_ERR_INPUT: a constant is not finite. */
tv_status tv_host_node_new(const tv_graph *graph, const tv_graph_node *node, const tv_diag_sink *sink,
                           tv_host_node **out);
void tv_host_node_free(tv_host_node *node); /* NULL is allowed */

/* Computes the output of one token. inputs[k] is the token's row of input k; of inputs that are not computed nothing is
 * read. */
tv_status tv_host_node_compute(const tv_host_node *node, const float *const *inputs, uint32_t position, float *output,
                               const tv_diag_sink *sink);

#endif
