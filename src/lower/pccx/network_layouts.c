/* SPDX-License-Identifier: Apache-2.0 */
/* Which values are images, whose channels are the words of a pixel, and which are rows. Operators on rows that read or
 * write images do so between Reshapes to matrices, which are never images. */
#include <stdlib.h>

#include "graph/rewrite.h"
#include "lower/pccx/network_state.h"

static const tv_graph_shape *dims_of(const tv_graph *g, uint32_t value) { return &tv_graph_value_at(g, value)->shape; }

static bool is_window(const tv_graph_node *n)
{
    return n->op == TV_OP_CONV || n->op == TV_OP_CONV_TRANSPOSE || tv_graph_op_infos[n->op].class == TV_CLASS_WINDOW;
}

/* Whether an input of a node has the layout of its output: pixels stay pixels. */
static bool has_same_layout(const tv_graph *g, const tv_graph_node *n, unsigned k)
{
    const tv_graph_shape *in = dims_of(g, n->inputs[k]), *out = dims_of(g, n->output);
    tv_graph_class class = tv_graph_op_infos[n->op].class;
    if (in->rank < 3 || out->rank < 3)
        return false;
    if (class == TV_CLASS_UNARY || class == TV_CLASS_BINARY)
        return in->rank == out->rank && in->dims[0] == out->dims[0];
    if (n->op == TV_OP_RESHAPE)
        return in->dims[0] == out->dims[0] && in->dims[1] == out->dims[1];
    if (n->op == TV_OP_CONCAT)
        return out->rank - 1 - n->attrs.axis_from_end == 1;
    return n->op == TV_OP_CONV && k == 3;
}

static bool mark(const tv_graph *g, bool *spatial, uint32_t v)
{
    bool changed = !spatial[v] && dims_of(g, v)->rank >= 3;
    spatial[v] = spatial[v] || changed;
    return changed;
}

static bool mark_node(const tv_graph *g, bool *spatial, const tv_graph_node *n)
{
    bool changed = false;
    if (is_window(n)) {
        changed = mark(g, spatial, n->inputs[0]);
        changed = mark(g, spatial, n->output) || changed;
    }
    for (unsigned k = 0; k < tv_graph_input_count(n); k++) {
        uint32_t v = n->inputs[k];
        if (v == TV_NO_VALUE || !has_same_layout(g, n, k))
            continue;
        if (spatial[v])
            changed = mark(g, spatial, n->output) || changed;
        if (spatial[n->output] && tv_graph_value_at(g, v)->source != TV_VALUE_CONSTANT)
            changed = mark(g, spatial, v) || changed;
    }
    return changed;
}

bool *pccx_net_find_layouts(const tv_graph *graph)
{
    bool *spatial = calloc(graph->values.count + 1, sizeof *spatial);
    for (bool changed = spatial != NULL; changed;) {
        changed = false;
        for (size_t i = 0; i < graph->nodes.count; i++)
            changed = mark_node(graph, spatial, &graph->nodes.data[i]) || changed;
    }
    return spatial;
}

/* ---- Operators on rows ---- */

static bool is_on_rows(tv_graph_op op)
{
    tv_graph_class class = tv_graph_op_infos[op].class;
    return class == TV_CLASS_NORM || class == TV_CLASS_REDUCE || op == TV_OP_LINEAR || op == TV_OP_GEMM ||
           op == TV_OP_MATMUL;
}

bool pccx_net_keeps_layouts(const pccx_network *w, const tv_graph_node *n)
{
    bool image = w->values[n->output].spatial;
    for (unsigned k = 0; k < tv_graph_input_count(n); k++)
        image = image || (n->inputs[k] != TV_NO_VALUE && w->values[n->inputs[k]].spatial);
    return !image || (!is_on_rows(n->op) && (n->op != TV_OP_GATHER || !pccx_net_is_constant(w, n->inputs[0])));
}

/* The shape of a matrix of rows, or of a list of matrices, such that a Reshape to it does not keep the layout. */
static tv_graph_shape rows_of(const tv_graph_shape *s, bool matrices)
{
    uint32_t kept = matrices ? 2 : 1, first = matrices && s->rank == 3;
    tv_graph_shape out = {.rank = first + kept + 1, .dims = {1, 1}};
    for (uint32_t i = 0; i < s->rank; i++)
        if (i + kept < s->rank)
            out.dims[first] *= s->dims[i];
        else
            out.dims[out.rank + i - s->rank] = s->dims[i];
    return out;
}

static void compute_rows(void *user, tv_graph_builder *b, tv_graph_node *n)
{
    const bool *spatial = user;
    bool image = spatial[n->output], matrices = n->op == TV_OP_MATMUL;
    for (unsigned k = 0; k < tv_graph_input_count(n); k++)
        image = image || (n->inputs[k] != TV_NO_VALUE && spatial[n->inputs[k]]);
    if (!image || !is_on_rows(n->op))
        return;
    for (unsigned k = 0; k < tv_graph_input_count(n) && b->status == TV_OK; k++) {
        uint32_t v = n->inputs[k];
        if (v == TV_NO_VALUE || tv_graph_value_at(b->graph, v)->source == TV_VALUE_CONSTANT)
            continue;
        tv_graph_shape rows = rows_of(dims_of(b->graph, v), matrices);
        n->inputs[k] = tv_rewrite_add(b, n->output, "rows", TV_OP_RESHAPE, &v, 1, &(tv_graph_attrs){.shape = rows});
    }
    tv_graph_attrs shape = {.shape = *dims_of(b->graph, n->output)};
    uint32_t result = tv_rewrite_add(b, n->output, "result", n->op, n->inputs, tv_graph_input_count(n), &n->attrs);
    n->op = TV_OP_RESHAPE;
    n->attrs = shape;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        n->inputs[k] = k ? TV_NO_VALUE : result;
}

static bool expands(const void *user, const tv_graph *g, const tv_graph_node *n)
{
    (void)user;
    (void)g;
    return n->op == TV_OP_PRELU || n->op == TV_OP_ELU || n->op == TV_OP_SELU;
}

tv_status pccx_net_legalize(tv_graph *graph, const tv_diag_sink *sink)
{
    TV_TRY(tv_graph_expand(graph, expands, NULL, sink));
    bool *spatial = pccx_net_find_layouts(graph);
    if (!spatial)
        return tv_fail_memory(sink);
    tv_status status = tv_graph_rewrite(graph, compute_rows, spatial, sink);
    free(spatial);
    return status;
}
