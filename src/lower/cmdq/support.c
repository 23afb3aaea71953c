/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine can execute. A node that it cannot execute is an error, or left to the host if that is allowed.
 *
 * The products of a classifier are as wide as the vocabulary and need not fit SPM: the classifier and the elementwise
 * nodes that follow it are streamed, that is, computed tile by tile on the way to DRAM. */
#include <math.h>

#include "lower/cmdq/layout.h"

/* ---- Operands ---- */

float cmdq_lower_scalar(const cmdq_lowering *l, uint32_t value)
{
    const tv_matrix *m = tv_graph_matrix(l->graph, value);
    float x = 1;
    if (tv_matrix_has_data(m) && m->columns == 1 && tv_matrix_row_f32(m, 0, &x) != TV_OK)
        return 0;
    return x;
}

cmdq_lower_repeat cmdq_lower_repeat_of(const cmdq_lowering *l, const tv_graph_node *n, unsigned input)
{
    uint32_t value = n->inputs[input];
    uint64_t all = tv_graph_elements(l->graph, n->output), own = tv_graph_elements(l->graph, value);
    const tv_graph_shape *out = &tv_graph_value_at(l->graph, n->output)->shape,
                         *in = &tv_graph_value_at(l->graph, value)->shape;
    bool constant = cmdq_lower_is_constant(l, value);
    if (own == all && !constant)
        return CMDQ_REPEAT_NONE;
    if (own == 1 && constant)
        return CMDQ_REPEAT_SCALAR;
    if (!constant && (own == 1 || (in->rank == out->rank && in->dims[in->rank - 1] == 1)))
        return CMDQ_REPEAT_COLUMN;
    return CMDQ_REPEAT_ROW;
}

bool cmdq_lower_is_factor(const cmdq_lowering *l, const tv_graph_node *n, unsigned input)
{
    if ((n->op != TV_OP_MUL && n->op != TV_OP_DIV) || cmdq_lower_repeat_of(l, n, input) != CMDQ_REPEAT_SCALAR)
        return false;
    float x = cmdq_lower_scalar(l, n->inputs[input]);
    return isnormal(x) && isnormal(1 / x);
}

bool cmdq_lower_is_pointwise(tv_graph_op op)
{
    switch (op) {
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
        return true;
    default: /* reads other elements too */
        return false;
    }
}

/* ---- Streamed values ---- */

/* True for a node that can compute its output from a tile of a streamed value. */
static bool continues_stream(const cmdq_lowering *l, const tv_graph_node *n)
{
    unsigned streamed = 0, computed = 0;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        streamed += n->inputs[k] != TV_NO_VALUE && l->streamed[n->inputs[k]];
        computed += cmdq_lower_is_computed(l, n->inputs[k]);
    }
    return streamed == 1 && computed == 1 && cmdq_lower_is_pointwise(n->op) &&
           tv_graph_elements(l->graph, n->output) == tv_graph_vocabulary(l->graph);
}

/* The classifier, and what is computed from it alone, up to the result. */
static void find_streamed(cmdq_lowering *l)
{
    const tv_graph *g = l->graph;
    uint32_t value = g->logits, classifier = TV_NO_VALUE;
    while (cmdq_lower_is_computed(l, value) && classifier == TV_NO_VALUE) {
        const tv_graph_node *n = tv_graph_node_at(g, tv_graph_value_at(g, value)->producer);
        if (n->block != TV_BLOCK_OUTPUT || tv_graph_elements(g, value) != tv_graph_columns(g, g->logits) ||
            tv_graph_uses(g, value) != 1)
            return;
        if (n->op == TV_OP_LINEAR && n->inputs[3] == TV_NO_VALUE)
            classifier = value;
        else if (!cmdq_lower_is_pointwise(n->op))
            return;
        else
            value = n->inputs[cmdq_lower_is_constant(l, n->inputs[0]) ? 1 : 0];
    }
    if (classifier == TV_NO_VALUE)
        return;
    l->streamed[classifier] = true;
    for (size_t i = tv_graph_value_at(g, classifier)->producer; i < g->nodes.count; i++)
        if (continues_stream(l, &g->nodes.data[i]))
            l->streamed[g->nodes.data[i].output] = true;
}

/* ---- Operators ---- */

static bool has_matrix(const cmdq_lowering *l, const tv_graph_node *n, unsigned input)
{
    return cmdq_lower_is_constant(l, n->inputs[input]);
}

/* Constants but those of products must fit a part of a bank. */
static const char *find_binary_problem(const cmdq_lowering *l, const tv_graph_node *n)
{
    for (unsigned k = 0; k < 2; k++) {
        bool constant = cmdq_lower_is_constant(l, n->inputs[k]);
        if (constant && cmdq_lower_is_constant(l, n->inputs[1 - k]))
            return "operation on constants alone";
        if (constant && tv_graph_elements(l->graph, n->inputs[k]) != tv_graph_matrix(l->graph, n->inputs[k])->columns)
            return "constants of several rows";
        if (constant && l->bank_bytes / 4 < (uint64_t)tv_graph_matrix(l->graph, n->inputs[k])->columns * 4 &&
            !l->streamed[n->output])
            return "constants of this size";
    }
    if (cmdq_lower_repeat_of(l, n, 0) != CMDQ_REPEAT_NONE && cmdq_lower_repeat_of(l, n, 1) != CMDQ_REPEAT_NONE)
        return "operation that repeats both operands";
    return NULL;
}

static const char *find_rope_problem(const cmdq_lowering *l, const tv_graph_node *n)
{
    uint64_t size = tv_graph_elements(l->graph, n->output) / n->attrs.heads;
    return size % 2 ? "rotation of heads of an odd size" : NULL;
}

/* What the machine lacks for a node; NULL: it can execute the node. */
static const char *find_problem(const cmdq_lowering *l, const tv_graph_node *n)
{
    if (!l->emitters[n->op])
        return "such instructions";
    if (cmdq_lower_is_computed(l, n->inputs[0]) && l->streamed[n->inputs[0]] && !l->streamed[n->output])
        return "such an operation on values as wide as the vocabulary";
    switch (n->op) {
    case TV_OP_ADD:
    case TV_OP_SUB:
    case TV_OP_MUL:
    case TV_OP_DIV:
        return find_binary_problem(l, n);
    case TV_OP_ROTARY_EMBEDDING:
        return find_rope_problem(l, n);
    case TV_OP_MATMUL:
        return has_matrix(l, n, 0) || has_matrix(l, n, 1) ? "product with a constant in this order" : NULL;
    case TV_OP_LINEAR:
        return tv_graph_columns(l->graph, n->inputs[0]) % 2 ? "products of an odd number of columns" : NULL;
    case TV_OP_ATTENTION:
        if (l->graph->caches.data[n->attrs.cache].key_dim != l->graph->caches.data[n->attrs.cache].value_dim)
            return "keys and values of different sizes";
        return NULL;
    default: /* in all forms */
        return NULL;
    }
}

/* The routing of experts is control, and Attention has the cache: neither can be left to the host. */
static bool is_host_node(const tv_graph_node *n)
{
    return n->op != TV_OP_ATTENTION && n->op != TV_OP_MOE && n->op != TV_OP_GATHER;
}

static tv_status find_windows(cmdq_lowering *l, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        uint32_t k = 0;
        if (n->op != TV_OP_ATTENTION)
            continue;
        while (k < l->window_count && l->windows[k] != n->attrs.window)
            k++;
        if (k == CMDQ_LOWER_MASKS_MAX)
            return tv_backend_reject(l->graph, n, "cmdq", "more than four different windows of attention", sink);
        if (k == l->window_count)
            l->windows[l->window_count++] = n->attrs.window;
    }
    return TV_OK;
}

tv_status cmdq_lower_check(cmdq_lowering *l, const tv_diag_sink *sink)
{
    find_streamed(l);
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        const char *problem = find_problem(l, n);
        l->on_host[i] = problem && l->allow_host_ops && is_host_node(n);
        if (problem && !l->on_host[i])
            return tv_backend_reject(l->graph, n, "cmdq", problem, sink);
    }
    return find_windows(l, sink);
}
