/* SPDX-License-Identifier: Apache-2.0 */
/* Views: values whose elements are those of another value in another order, as distances along each axis of that
 * value's storage. MatMul reads the matrices of a view where they are, and writes its results where a Transpose would
 * move them; so the heads of an attention are neither separated nor joined. */
#include <stdlib.h>

#include "lower/cmdq/network.h"

bool cmdq_net_selects_index(const cmdq_network *net, const tv_graph_node *n)
{
    return cmdq_net_selects_elements(net, n) &&
           tv_tensor_count(tv_graph_value_at(net->graph, n->inputs[1])->tensor) == 1;
}

bool cmdq_net_selects_elements(const cmdq_network *net, const tv_graph_node *n)
{
    const tv_tensor *indices = n->op == TV_OP_GATHER ? tv_graph_value_at(net->graph, n->inputs[1])->tensor : NULL;
    return indices && indices->data && tv_graph_value_at(net->graph, n->inputs[0])->source != TV_VALUE_CONSTANT;
}

static bool is_view_op(const cmdq_network *net, const tv_graph_node *n)
{
    return n->op == TV_OP_TRANSPOSE || n->op == TV_OP_RESHAPE || cmdq_net_selects_index(net, n);
}

static void set_row_major(const cmdq_network *net, uint32_t value, uint64_t *strides)
{
    const tv_graph_shape *s = cmdq_net_dims(net, value);
    uint64_t stride = 1;
    for (uint32_t i = s->rank; i-- > 0; stride *= (uint64_t)s->dims[i])
        strides[i] = stride;
}

static bool is_row_major(const cmdq_network *net, uint32_t value)
{
    uint64_t strides[TV_GRAPH_RANK_MAX];
    const tv_graph_shape *s = cmdq_net_dims(net, value);
    const cmdq_net_value *v = &net->values[value];
    set_row_major(net, value, strides);
    for (uint32_t i = 0; i < s->rank; i++)
        if (s->dims[i] > 1 && v->strides[i] != strides[i])
            return false;
    return v->first == 0;
}

/* ---- Distances ---- */

static bool transpose_view(const cmdq_network *net, const tv_graph_node *n)
{
    const cmdq_net_value *in = &net->values[n->inputs[0]];
    cmdq_net_value *out = &net->values[n->output];
    for (uint32_t i = 0; n->attrs.lists && i < cmdq_net_dims(net, n->output)->rank; i++)
        out->strides[i] = in->strides[n->attrs.lists->perm[i]];
    return n->attrs.lists != NULL;
}

/* The axis that the index of a Gather removes, and what is before its elements. */
static bool select_view(const cmdq_network *net, const tv_graph_node *n)
{
    const tv_graph_shape *s = cmdq_net_dims(net, n->inputs[0]), *t = cmdq_net_dims(net, n->output);
    const cmdq_net_value *in = &net->values[n->inputs[0]];
    cmdq_net_value *out = &net->values[n->output];
    const tv_tensor *index = tv_graph_value_at(net->graph, n->inputs[1])->tensor;
    int64_t at = tv_tensor_integer(index, 0);
    uint32_t axis = n->attrs.axis, to = 0;
    at += at < 0 ? s->dims[axis] : 0;
    if (at < 0 || at >= s->dims[axis] || t->rank + 1 < s->rank || t->rank > s->rank)
        return false;
    out->first = in->first + (uint64_t)at * in->strides[axis];
    for (uint32_t i = 0; i < s->rank; i++)
        if (i != axis || t->rank == s->rank)
            out->strides[to++] = in->strides[i];
    return true;
}

/* An axis of the output is part of an axis of the input, or several axes whose elements are evenly apart. */
static bool reshape_view(const cmdq_network *net, const tv_graph_node *n)
{
    const tv_graph_shape *s = cmdq_net_dims(net, n->inputs[0]), *t = cmdq_net_dims(net, n->output);
    const cmdq_net_value *in = &net->values[n->inputs[0]];
    cmdq_net_value *out = &net->values[n->output];
    uint32_t i = s->rank, k = t->rank; /* from the last axes on, in groups of equal extents */
    while (i > 0 || k > 0) {
        uint64_t have = 1, want = 1;
        uint32_t last = i, first_out = k;
        do {
            if (have <= want && i > 0)
                have *= (uint64_t)s->dims[--i];
            else if (k > 0)
                want *= (uint64_t)t->dims[--k];
            else
                return have == want;
        } while (have != want || first_out == k);
        for (uint32_t a = i; a + 1 < last; a++) /* evenly apart */
            if (s->dims[a] > 1 && in->strides[a] != in->strides[a + 1] * (uint64_t)s->dims[a + 1])
                return false;
        uint64_t stride = last > i ? in->strides[last - 1] : 1;
        for (uint32_t a = first_out; a-- > k; stride *= (uint64_t)t->dims[a])
            out->strides[a] = stride;
    }
    return true;
}

/* Sets the root and the distances of the output of a node; where it is no view, it is its own root. */
static void describe(cmdq_network *net, const tv_graph_node *n)
{
    cmdq_net_value *out = &net->values[n->output];
    const cmdq_net_value *in = &net->values[n->inputs[0]];
    bool possible = is_view_op(net, n) && !out->not_view && !net->channels_last[n->inputs[0]] &&
                    !net->channels_last[n->output] &&
                    tv_graph_value_at(net->graph, n->inputs[0])->source != TV_VALUE_CONSTANT;
    out->root = possible ? in->root : n->output;
    out->first = possible ? in->first : 0;
    if (possible)
        possible = n->op == TV_OP_TRANSPOSE ? transpose_view(net, n)
                   : n->op == TV_OP_RESHAPE ? reshape_view(net, n)
                                            : select_view(net, n);
    if (possible)
        return;
    out->root = n->output;
    out->first = 0;
    set_row_major(net, n->output, out->strides);
}

/* ---- Readers ---- */

static bool is_view(const cmdq_network *net, uint32_t value)
{
    return net->values[value].root != value && !is_row_major(net, value);
}

/* Whether a node reads a view as its input `k`. */
static bool reads_view(const cmdq_network *net, const tv_graph_node *n, unsigned k)
{
    const cmdq_net_value *v = &net->values[n->inputs[k]];
    uint32_t rank = cmdq_net_dims(net, n->inputs[k])->rank;
    if (n->op == TV_OP_MATMUL)
        return rank >= 2 && (v->strides[rank - 1] == 1 || (k == 1 && v->strides[rank - 2] == 1));
    return k == 0 && is_view_op(net, n) && net->values[n->output].root == v->root;
}

/* Makes the views that a reader cannot read values of their own. True: there were some. */
static bool drop_views(cmdq_network *net)
{
    const tv_graph *g = net->graph;
    bool dropped = false;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (n->inputs[k] != TV_NO_VALUE && is_view(net, n->inputs[k]) && !reads_view(net, n, k)) {
                net->values[n->inputs[k]].not_view = true;
                dropped = true;
            }
    }
    for (size_t i = 0; i < g->outputs.count; i++)
        if (is_view(net, g->outputs.data[i].value)) {
            net->values[g->outputs.data[i].value].not_view = true;
            dropped = true;
        }
    return dropped;
}

/* A MatMul whose result only a Transpose reads, which keeps the last axis, stores it in the order of that. */
static void write_views(cmdq_network *net)
{
    const tv_graph *g = net->graph;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        const tv_graph_value *x = tv_graph_value_at(g, n->inputs[0]);
        if (n->op != TV_OP_TRANSPOSE || !n->attrs.lists || net->values[n->output].root != n->output ||
            net->channels_last[n->output] || x->source != TV_VALUE_COMPUTED || tv_graph_uses(g, n->inputs[0]) != 1 ||
            tv_graph_node_at(g, x->producer)->op != TV_OP_MATMUL ||
            n->attrs.lists->perm[x->shape.rank - 1] != x->shape.rank - 1)
            continue;
        cmdq_net_value *v = &net->values[n->inputs[0]];
        v->root = n->output;
        for (uint32_t k = 0; k < x->shape.rank; k++)
            v->strides[n->attrs.lists->perm[k]] = net->values[n->output].strides[k];
    }
}

void cmdq_net_choose_views(cmdq_network *net)
{
    const tv_graph *g = net->graph;
    for (uint32_t v = 0; v < g->values.count; v++) {
        net->values[v].root = v;
        set_row_major(net, v, net->values[v].strides);
    }
    do
        for (size_t i = 0; i < g->nodes.count; i++)
            describe(net, &g->nodes.data[i]);
    while (drop_views(net));
    write_views(net);
    for (uint32_t v = 0; v < g->values.count; v++)
        net->values[v].is_view = is_view(net, v);
}

uint64_t cmdq_net_view_index(const cmdq_network *net, uint32_t value, uint64_t i)
{
    const tv_graph_shape *s = cmdq_net_dims(net, value);
    const cmdq_net_value *v = &net->values[value];
    uint64_t at = v->first;
    for (uint32_t k = s->rank; k-- > 0; i /= (uint64_t)s->dims[k])
        at += i % (uint64_t)s->dims[k] * v->strides[k];
    return at;
}
