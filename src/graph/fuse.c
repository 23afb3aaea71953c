/* SPDX-License-Identifier: Apache-2.0 */
/* The fusion pass. A pattern is matched from its last node backwards; inner values must have no other reader. The fused
 * node takes the place of the last node and writes its value, so numbers of values stay valid. */
#include <stdlib.h>

#include "graph/passes.h"

typedef struct fusion {
    tv_graph *graph;
    uint32_t *uses; /* of each value */
} fusion;

static tv_graph_node *node_at(const fusion *f, uint32_t node) { return &f->graph->nodes.data[node]; }

/* The node that computes a value which nothing else reads, or NULL. */
static tv_graph_node *sole_producer(const fusion *f, uint32_t value)
{
    if (value == TV_NO_VALUE || f->uses[value] != 1)
        return NULL;
    const tv_graph_value *v = tv_graph_value_at(f->graph, value);
    return v->source == TV_VALUE_COMPUTED ? node_at(f, v->producer) : NULL;
}

static void count_uses(const fusion *f)
{
    const tv_graph *g = f->graph;
    memset(f->uses, 0, g->values.count * sizeof *f->uses);
    for (size_t i = 0; i < g->nodes.count; i++)
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (g->nodes.data[i].op < TV_OPS && g->nodes.data[i].inputs[k] != TV_NO_VALUE)
                f->uses[g->nodes.data[i].inputs[k]]++;
    if (tv_graph_has_tokens(g))
        f->uses[g->logits]++;
    for (size_t i = 0; i < g->outputs.count; i++)
        f->uses[g->outputs.data[i].value]++;
    for (uint32_t i = 0; i < g->layers; i++)
        f->uses[g->layer_outputs[i]]++;
}

/* A removed node has the operator TV_OPS until it is dropped. */
static void remove_node(const fusion *f, tv_graph_node *n)
{
    (void)f;
    n->op = TV_OPS;
}

static void replace_node(tv_graph_node *n, tv_graph_op op, const uint32_t inputs[4], const tv_graph_attrs *attrs)
{
    n->op = op;
    n->attrs = *attrs;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        n->inputs[k] = k < 4 ? inputs[k] : TV_NO_VALUE;
}

/* ---- Patterns ---- */

static tv_activation activation_of(const tv_graph_node *n)
{
    switch (n->op) {
    case TV_OP_RELU:
        return TV_ACTIVATION_RELU;
    case TV_OP_SWISH:
        return TV_ACTIVATION_SWISH;
    case TV_OP_GELU:
        return n->attrs.approximate ? TV_ACTIVATION_GELU_TANH : TV_ACTIVATION_GELU;
    case TV_OP_SIGMOID:
        return TV_ACTIVATION_SIGMOID;
    case TV_OP_TANH:
        return TV_ACTIVATION_TANH;
    default: /* not an activation */
        return TV_ACTIVATION_NONE;
    }
}

/* Gemm, without further conditions. */
static void fuse_gemm(const fusion *f, tv_graph_node *n)
{
    (void)f;
    if (n->op == TV_OP_GEMM)
        replace_node(n, TV_OP_LINEAR, (uint32_t[]){n->inputs[0], n->inputs[1], n->inputs[2], TV_NO_VALUE},
                     &(tv_graph_attrs){0});
}

/* activation(Linear) */
static void fuse_activation(const fusion *f, tv_graph_node *n)
{
    tv_activation activation = n->op < TV_OPS ? activation_of(n) : TV_ACTIVATION_NONE;
    if (activation == TV_ACTIVATION_NONE)
        return;
    tv_graph_node *linear = sole_producer(f, n->inputs[0]);
    if (!linear || linear->op != TV_OP_LINEAR || linear->attrs.activation || linear->inputs[3] != TV_NO_VALUE)
        return;
    replace_node(n, TV_OP_LINEAR, linear->inputs, &(tv_graph_attrs){.activation = activation});
    remove_node(f, linear);
}

static bool is_bare_linear(const tv_graph_node *n)
{
    return n && n->op == TV_OP_LINEAR && n->inputs[2] == TV_NO_VALUE && n->inputs[3] == TV_NO_VALUE;
}

/* Linear with an activation * Linear without one, of the same input. */
static void fuse_glu(const fusion *f, tv_graph_node *n)
{
    if (n->op != TV_OP_MUL)
        return;
    tv_graph_node *gate = sole_producer(f, n->inputs[0]), *up = sole_producer(f, n->inputs[1]);
    if (!is_bare_linear(gate) || !is_bare_linear(up) || gate->inputs[0] != up->inputs[0])
        return;
    if (!gate->attrs.activation) {
        tv_graph_node *other = gate;
        gate = up;
        up = other;
    }
    const tv_matrix *g = tv_graph_matrix(f->graph, gate->inputs[1]), *u = tv_graph_matrix(f->graph, up->inputs[1]);
    if (!gate->attrs.activation || up->attrs.activation || g->rows != u->rows)
        return;
    replace_node(n, TV_OP_GLU, (uint32_t[]){gate->inputs[0], gate->inputs[1], up->inputs[1], TV_NO_VALUE},
                 &(tv_graph_attrs){.activation = gate->attrs.activation});
    remove_node(f, gate);
    remove_node(f, up);
}

/* residual + Linear; the residual is computed before. */
static void fuse_residual(const fusion *f, tv_graph_node *n)
{
    for (unsigned k = 0; k < 2 && n->op == TV_OP_ADD; k++) {
        tv_graph_node *linear = sole_producer(f, n->inputs[k]);
        uint32_t residual = n->inputs[1 - k];
        const tv_graph_value *r = tv_graph_value_at(f->graph, residual), *out = tv_graph_value_at(f->graph, n->output);
        if (!linear || linear->op != TV_OP_LINEAR || linear->inputs[3] != TV_NO_VALUE || linear->attrs.activation ||
            r->source != TV_VALUE_COMPUTED || r->shape.rank != out->shape.rank ||
            memcmp(r->shape.dims, out->shape.dims, out->shape.rank * sizeof *out->shape.dims) != 0)
            continue;
        replace_node(n, TV_OP_LINEAR, (uint32_t[]){linear->inputs[0], linear->inputs[1], linear->inputs[2], residual},
                     &linear->attrs);
        remove_node(f, linear);
    }
}

static void fuse_norm(const fusion *f, tv_graph_node *n)
{
    (void)f;
    if (n->op == TV_OP_RMS_NORMALIZATION || n->op == TV_OP_LAYER_NORMALIZATION) {
        tv_graph_attrs attrs = {
            .epsilon = n->attrs.epsilon, .groups = 1, .subtract_mean = n->op == TV_OP_LAYER_NORMALIZATION};
        replace_node(n, TV_OP_NORM, (uint32_t[]){n->inputs[0], n->inputs[1], n->inputs[2], TV_NO_VALUE}, &attrs);
    }
}

/* Reshape(Norm(Reshape(x))) back to the shape of x: the groups of x's last axis. */
static void fuse_groups(const fusion *f, tv_graph_node *n)
{
    if (n->op != TV_OP_RESHAPE)
        return;
    tv_graph_node *norm = sole_producer(f, n->inputs[0]);
    tv_graph_node *split = norm && norm->op == TV_OP_NORM ? sole_producer(f, norm->inputs[0]) : NULL;
    if (!split || split->op != TV_OP_RESHAPE || norm->attrs.groups != 1)
        return;
    const tv_graph_shape *from = &tv_graph_value_at(f->graph, split->inputs[0])->shape,
                         *to = &tv_graph_value_at(f->graph, n->output)->shape;
    uint32_t inner = tv_graph_columns(f->graph, norm->output), outer = tv_graph_columns(f->graph, n->output);
    if (from->rank != to->rank || memcmp(from->dims, to->dims, to->rank * sizeof *to->dims) != 0 || outer % inner)
        return;
    tv_graph_attrs attrs = norm->attrs;
    attrs.groups = outer / inner;
    replace_node(n, TV_OP_NORM, (uint32_t[]){split->inputs[0], norm->inputs[1], norm->inputs[2], TV_NO_VALUE}, &attrs);
    remove_node(f, norm);
    remove_node(f, split);
}

/* ---- The pass ---- */

/* Nodes whose outputs nothing reads; Attention is kept because later steps read its cache. */
static void remove_unused(const fusion *f)
{
    for (size_t i = f->graph->nodes.count; i-- > 0;) {
        tv_graph_node *n = &f->graph->nodes.data[i];
        if (n->op == TV_OPS || n->op == TV_OP_ATTENTION || f->uses[n->output])
            continue;
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (n->inputs[k] != TV_NO_VALUE)
                f->uses[n->inputs[k]]--;
        remove_node(f, n);
    }
}

/* Drops removed nodes. Values that they wrote stay, without a producer; nothing reads them. */
static void compact(tv_graph *g)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->values.count; i++)
        if (g->values.data[i].source == TV_VALUE_COMPUTED)
            g->values.data[i].producer = TV_NO_VALUE;
    for (size_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.data[i].op < TV_OPS) {
            g->values.data[g->nodes.data[i].output].producer = (uint32_t)kept;
            g->nodes.data[kept++] = g->nodes.data[i];
        }
    g->nodes.count = kept;
}

tv_status tv_graph_fuse(tv_graph *graph, const tv_diag_sink *sink)
{
    static void (*const patterns[])(const fusion *f, tv_graph_node *n) = {
        fuse_gemm, fuse_activation, fuse_glu, fuse_residual, fuse_norm, fuse_groups,
    };
    fusion f = {graph, malloc((graph->values.count + 1) * sizeof *f.uses)};
    if (!f.uses)
        return tv_fail_memory(sink);
    for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        count_uses(&f);
        for (size_t i = 0; i < graph->nodes.count; i++)
            patterns[p](&f, &graph->nodes.data[i]);
    }
    count_uses(&f);
    remove_unused(&f);
    free(f.uses);
    compact(graph);
    return tv_graph_verify(graph, sink);
}
