/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the elements of values. Images, [n][c][h][w] or [n][c][h], have their channels last where convolutions
 * and pools write or read them; other operators read and write rows. Where a node reads a value in the other order,
 * network_legalize.c puts a Reshape between them. */
#include "lower/cmdq/network.h"

static const tv_graph_shape *dims_of(const tv_graph *g, uint32_t value) { return &tv_graph_value_at(g, value)->shape; }

static bool can_be_image(const tv_graph *g, uint32_t value)
{
    uint32_t rank = dims_of(g, value)->rank;
    return rank == 3 || rank == 4;
}

static bool is_spatial(const tv_graph *g, const tv_graph_node *n)
{
    return can_be_image(g, n->output) &&
           (n->op == TV_OP_CONV || n->op == TV_OP_CONV_TRANSPOSE || tv_graph_op_infos[n->op].class == TV_CLASS_WINDOW);
}

/* Operators whose output has the order of their inputs. */
static bool follows_order(tv_graph_op op)
{
    tv_graph_class class = tv_graph_op_infos[op].class;
    return class == TV_CLASS_UNARY || class == TV_CLASS_BINARY || op == TV_OP_CONCAT || op == TV_OP_SLICE;
}

static bool has_permutation(const tv_graph *g, const tv_graph_node *n, const uint32_t perm[4])
{
    static const uint32_t exchange[3] = {0, 2, 1};
    if (n->op != TV_OP_TRANSPOSE || !n->attrs.lists)
        return false;
    uint32_t rank = dims_of(g, n->output)->rank;
    return (rank == 4 && memcmp(n->attrs.lists->perm, perm, 4 * sizeof *perm) == 0) ||
           (rank == 3 && memcmp(n->attrs.lists->perm, exchange, sizeof exchange) == 0);
}

bool cmdq_net_is_to_image(const tv_graph *g, const tv_graph_node *n)
{
    return has_permutation(g, n, (const uint32_t[]){0, 3, 1, 2});
}

bool cmdq_net_is_from_image(const tv_graph *g, const tv_graph_node *n)
{
    return has_permutation(g, n, (const uint32_t[]){0, 2, 3, 1});
}

cmdq_net_order cmdq_net_order_of_input(const tv_graph *g, const tv_graph_node *n, unsigned k, const bool *last)
{
    const tv_graph_shape *s = dims_of(g, n->inputs[k]);
    if (can_be_image(g, n->inputs[k])) {
        cmdq_net_image image = cmdq_net_image_of(s);
        if (image.channels == 1 || image.h * image.w == 1)
            return CMDQ_NET_ORDER_ANY;
    }
    if (is_spatial(g, n))
        return k == 0 || k == 3 ? CMDQ_NET_ORDER_IMAGE : CMDQ_NET_ORDER_ANY; /* weights are no images */
    if (follows_order(n->op))
        return last[n->output] && s->rank == dims_of(g, n->output)->rank ? CMDQ_NET_ORDER_IMAGE : CMDQ_NET_ORDER_ROWS;
    if (n->op == TV_OP_RESHAPE)
        return last[n->output] ? CMDQ_NET_ORDER_ROWS : CMDQ_NET_ORDER_ANY;
    if (cmdq_net_is_from_image(g, n) && !last[n->output])
        return CMDQ_NET_ORDER_ANY;
    return CMDQ_NET_ORDER_ROWS;
}

static bool is_constant(const tv_graph *g, uint32_t value)
{
    return tv_graph_value_at(g, value)->source == TV_VALUE_CONSTANT;
}

static unsigned first_computed(const tv_graph *g, const tv_graph_node *n)
{
    unsigned k = 0;
    while (k + 1 < tv_graph_input_count(n) && is_constant(g, n->inputs[k]))
        k++;
    return k;
}

/* Marks what leads to images: inputs of the network, and Reshapes and Transposes of rows. True: something is new. */
static bool mark_inputs(const tv_graph *g, bool *last)
{
    bool changed = false;
    for (size_t i = g->nodes.count; i-- > 0;) {
        const tv_graph_node *n = &g->nodes.data[i];
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
            uint32_t v = n->inputs[k];
            if (v == TV_NO_VALUE || last[v] || (!is_spatial(g, n) && !follows_order(n->op)) ||
                cmdq_net_order_of_input(g, n, k, last) != CMDQ_NET_ORDER_IMAGE)
                continue;
            const tv_graph_value *value = tv_graph_value_at(g, v);
            const tv_graph_node *from =
                value->source == TV_VALUE_COMPUTED ? tv_graph_node_at(g, value->producer) : NULL;
            last[v] = !from || ((from->op == TV_OP_RESHAPE || cmdq_net_is_to_image(g, from)) && !last[from->inputs[0]]);
            changed = changed || last[v];
        }
    }
    return changed;
}

/* Values follow their first computed input. */
static bool mark_outputs(const tv_graph *g, bool *last)
{
    bool changed = false;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        uint32_t input = n->inputs[first_computed(g, n)];
        bool follows = follows_order(n->op) && can_be_image(g, n->output) && last[input] &&
                       dims_of(g, input)->rank == dims_of(g, n->output)->rank;
        if (last[n->output] || !(is_spatial(g, n) || follows))
            continue;
        last[n->output] = changed = true;
    }
    return changed;
}

/* Inputs of the network that only lead to images by operators that follow: these are images, too. */
static void mark_leading_inputs(const tv_graph *g, bool *last)
{
    for (size_t i = g->nodes.count; i-- > 0;) {
        const tv_graph_node *n = &g->nodes.data[i];
        bool image = is_spatial(g, n) || (follows_order(n->op) && last[n->output]);
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && image; k++)
            if (n->inputs[k] != TV_NO_VALUE && cmdq_net_order_of_input(g, n, k, last) == CMDQ_NET_ORDER_IMAGE)
                last[n->inputs[k]] = true;
    }
    for (size_t i = 0; i < g->nodes.count; i++) { /* only if all of them follow an input of the network */
        const tv_graph_node *n = &g->nodes.data[i];
        const tv_graph_value *from = tv_graph_value_at(g, n->inputs[first_computed(g, n)]);
        bool follows = follows_order(n->op) && last[n->inputs[first_computed(g, n)]] &&
                       from->shape.rank == dims_of(g, n->output)->rank;
        last[n->output] = is_spatial(g, n) || follows;
    }
}

void cmdq_net_choose_orders(const tv_graph *g, bool *last)
{
    enum { ROUNDS_MAX = 64 }; /* each one marks more values; what is left is reordered */
    bool changed = true;
    mark_leading_inputs(g, last);
    for (unsigned i = 0; i < ROUNDS_MAX && changed; i++) {
        changed = mark_outputs(g, last);
        changed = mark_inputs(g, last) || changed;
    }
}

bool cmdq_net_reads_order(const tv_graph *g, const tv_graph_node *n, const bool *last)
{
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        if (n->inputs[k] == TV_NO_VALUE)
            continue;
        cmdq_net_order want = cmdq_net_order_of_input(g, n, k, last);
        if (want != CMDQ_NET_ORDER_ANY && last[n->inputs[k]] != (want == CMDQ_NET_ORDER_IMAGE))
            return false;
    }
    return true;
}
