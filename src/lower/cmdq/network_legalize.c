/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites a graph so that the machine has instructions for its nodes, and each node reads values in the order that
 * they have. */
#include <stdlib.h>

#include "graph/rewrite.h"
#include "lower/cmdq/network.h"

static const tv_graph_shape *dims_of(const tv_graph_builder *b, uint32_t value)
{
    return &tv_graph_value_at(b->graph, value)->shape;
}

static bool is_constant(const tv_graph_builder *b, uint32_t value)
{
    return tv_graph_value_at(b->graph, value)->source == TV_VALUE_CONSTANT;
}

typedef struct legalizer {
    bool *last;
    uint32_t *reordered; /* of each value: the same in the other order, or TV_NO_VALUE */
} legalizer;

/* Lets an operand that is repeated along inner axes have all elements; of images only constants, whose order does not
 * matter before they are stored. */
static void repeat_operand(const legalizer *z, tv_graph_builder *b, tv_graph_node *n)
{
    if (tv_graph_op_infos[n->op].class != TV_CLASS_BINARY || b->status != TV_OK)
        return;
    uint32_t value = cmdq_net_unrepeatable(b->graph, z->last, n);
    if (value == TV_NO_VALUE || (z->last[n->output] && !is_constant(b, value)))
        return;
    tv_graph_shape to = *dims_of(b, n->output);
    uint32_t repeated = tv_rewrite_repeat(b, n, value, &to);
    for (unsigned k = 0; k < 2; k++)
        n->inputs[k] = n->inputs[k] == value ? repeated : n->inputs[k];
}

static void reorder_inputs(void *user, tv_graph_builder *b, tv_graph_node *n)
{
    const legalizer *z = user;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        uint32_t v = n->inputs[k];
        cmdq_net_order want = v == TV_NO_VALUE || is_constant(b, v) ? CMDQ_NET_ORDER_ANY
                                                                    : cmdq_net_order_of_input(b->graph, n, k, z->last);
        if (want == CMDQ_NET_ORDER_ANY || z->last[v] == (want == CMDQ_NET_ORDER_IMAGE))
            continue;
        if (z->reordered[v] == TV_NO_VALUE)
            z->reordered[v] = tv_rewrite_add(b, v, z->last[v] ? "rows" : "image", TV_OP_RESHAPE, &v, 1,
                                             &(tv_graph_attrs){.shape = *dims_of(b, v)});
        n->inputs[k] = z->reordered[v];
    }
    repeat_operand(z, b, n);
}

static bool is_no_transpose(const void *user, const tv_graph *g, const tv_graph_node *n)
{
    (void)user;
    (void)g;
    return n->op != TV_OP_TRANSPOSE;
}

/* A Transpose to an image moves nothing. */
static bool moves_elements(const void *user, const tv_graph *g, const tv_graph_node *n)
{
    const legalizer *z = user;
    return n->op == TV_OP_TRANSPOSE && !(cmdq_net_is_to_image(g, n) && z->last[n->output]);
}

/* Chooses orders for the graph as it is. TV_ERR_MEMORY. */
static tv_status begin_pass(legalizer *z, const tv_graph *graph, const tv_diag_sink *sink)
{
    size_t count = graph->values.count;
    free(z->last);
    free(z->reordered);
    z->last = calloc(count + 1, sizeof *z->last);
    z->reordered = malloc((count + 1) * sizeof *z->reordered);
    if (!z->last || !z->reordered)
        return tv_fail_memory(sink);
    for (size_t v = 0; v < count; v++)
        z->reordered[v] = TV_NO_VALUE;
    cmdq_net_choose_orders(graph, z->last);
    return TV_OK;
}

tv_status cmdq_net_legalize(tv_graph *graph, const tv_diag_sink *sink)
{
    legalizer z = {NULL, NULL};
    tv_status status = tv_graph_expand(graph, is_no_transpose, NULL, sink);
    if (status == TV_OK)
        status = begin_pass(&z, graph, sink);
    if (status == TV_OK)
        status = tv_graph_expand(graph, moves_elements, &z, sink);
    if (status == TV_OK)
        status = begin_pass(&z, graph, sink);
    if (status == TV_OK)
        status = tv_graph_rewrite(graph, reorder_inputs, &z, sink);
    free(z.last);
    free(z.reordered);
    return status;
}
