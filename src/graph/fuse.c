/* SPDX-License-Identifier: Apache-2.0 */
/* The fusion pass, and the patterns of language models. */
#include <stdlib.h>

#include "graph/fusion.h"
#include "graph/passes.h"

static void count_uses(const tv_fusion *f)
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
    case TV_OP_CLIP:
        return TV_ACTIVATION_CLIP;
    default: /* not an activation */
        return TV_ACTIVATION_NONE;
    }
}

/* The attributes of a product with the activation of n. */
static tv_graph_attrs activated(const tv_graph_node *product, const tv_graph_node *n)
{
    tv_graph_attrs attrs = product->attrs;
    attrs.activation = activation_of(n);
    attrs.alpha = n->attrs.alpha;
    attrs.beta = n->attrs.beta;
    return attrs;
}

/* Gemm, without further conditions. */
static void fuse_gemm(tv_fusion *f, tv_graph_node *n)
{
    (void)f;
    if (n->op == TV_OP_GEMM)
        tv_fusion_replace(n, TV_OP_LINEAR, (uint32_t[]){n->inputs[0], n->inputs[1], n->inputs[2], TV_NO_VALUE},
                          &(tv_graph_attrs){0});
}

/* activation(Linear) */
static void fuse_activation(tv_fusion *f, tv_graph_node *n)
{
    tv_activation activation = n->op < TV_OPS ? activation_of(n) : TV_ACTIVATION_NONE;
    if (activation == TV_ACTIVATION_NONE)
        return;
    tv_graph_node *linear = tv_fusion_sole_producer(f, n->inputs[0]);
    if (!linear || linear->op != TV_OP_LINEAR || linear->attrs.activation || linear->inputs[3] != TV_NO_VALUE)
        return;
    tv_graph_attrs attrs = activated(linear, n);
    tv_fusion_replace(n, TV_OP_LINEAR, linear->inputs, &attrs);
    tv_fusion_remove(linear);
}

static bool is_bare_linear(const tv_graph_node *n)
{
    return n && n->op == TV_OP_LINEAR && n->inputs[2] == TV_NO_VALUE && n->inputs[3] == TV_NO_VALUE;
}

/* activation(Conv) */
static void fuse_activation_conv(tv_fusion *f, tv_graph_node *n)
{
    if (activation_of(n) == TV_ACTIVATION_NONE)
        return;
    tv_graph_node *conv = tv_fusion_sole(f, n->inputs[0], TV_OP_CONV);
    if (!conv || conv->attrs.activation)
        return;
    tv_graph_attrs attrs = activated(conv, n);
    tv_fusion_replace(n, TV_OP_CONV, conv->inputs, &attrs);
    tv_fusion_remove(conv);
}

/* Linear with an activation * Linear without one, of the same input. */
static void fuse_glu(tv_fusion *f, tv_graph_node *n)
{
    if (n->op != TV_OP_MUL)
        return;
    tv_graph_node *gate = tv_fusion_sole_producer(f, n->inputs[0]), *up = tv_fusion_sole_producer(f, n->inputs[1]);
    if (!is_bare_linear(gate) || !is_bare_linear(up) || gate->inputs[0] != up->inputs[0])
        return;
    if (!gate->attrs.activation) {
        tv_graph_node *other = gate;
        gate = up;
        up = other;
    }
    const tv_matrix *g = tv_graph_matrix(f->graph, gate->inputs[1]), *u = tv_graph_matrix(f->graph, up->inputs[1]);
    if (!gate->attrs.activation || gate->attrs.activation == TV_ACTIVATION_CLIP || up->attrs.activation ||
        g->rows != u->rows)
        return;
    tv_fusion_replace(n, TV_OP_GLU, (uint32_t[]){gate->inputs[0], gate->inputs[1], up->inputs[1], TV_NO_VALUE},
                      &(tv_graph_attrs){.activation = gate->attrs.activation});
    tv_fusion_remove(gate);
    tv_fusion_remove(up);
}

/* residual + Linear; the residual is computed before. */
static void fuse_residual(tv_fusion *f, tv_graph_node *n)
{
    for (unsigned k = 0; k < 2 && n->op == TV_OP_ADD; k++) {
        tv_graph_node *linear = tv_fusion_sole_producer(f, n->inputs[k]);
        uint32_t residual = n->inputs[1 - k];
        const tv_graph_value *r = tv_graph_value_at(f->graph, residual), *out = tv_graph_value_at(f->graph, n->output);
        if (!linear || linear->op != TV_OP_LINEAR || linear->inputs[3] != TV_NO_VALUE || linear->attrs.activation ||
            r->source != TV_VALUE_COMPUTED || r->shape.rank != out->shape.rank ||
            memcmp(r->shape.dims, out->shape.dims, out->shape.rank * sizeof *out->shape.dims) != 0)
            continue;
        tv_fusion_replace(n, TV_OP_LINEAR,
                          (uint32_t[]){linear->inputs[0], linear->inputs[1], linear->inputs[2], residual},
                          &linear->attrs);
        tv_fusion_remove(linear);
    }
}

static void fuse_norm(tv_fusion *f, tv_graph_node *n)
{
    (void)f;
    if (n->op == TV_OP_RMS_NORMALIZATION || n->op == TV_OP_LAYER_NORMALIZATION) {
        tv_graph_attrs attrs = {
            .epsilon = n->attrs.epsilon, .groups = 1, .subtract_mean = n->op == TV_OP_LAYER_NORMALIZATION};
        tv_fusion_replace(n, TV_OP_NORM, (uint32_t[]){n->inputs[0], n->inputs[1], n->inputs[2], TV_NO_VALUE}, &attrs);
    }
}

/* Reshape(Norm(Reshape(x))) back to the shape of x: the groups of x's last axis. */
static void fuse_groups(tv_fusion *f, tv_graph_node *n)
{
    if (n->op != TV_OP_RESHAPE)
        return;
    tv_graph_node *norm = tv_fusion_sole_producer(f, n->inputs[0]);
    tv_graph_node *split = norm && norm->op == TV_OP_NORM ? tv_fusion_sole_producer(f, norm->inputs[0]) : NULL;
    if (!split || split->op != TV_OP_RESHAPE || norm->attrs.groups != 1)
        return;
    const tv_graph_shape *from = &tv_graph_value_at(f->graph, split->inputs[0])->shape,
                         *to = &tv_graph_value_at(f->graph, n->output)->shape;
    uint32_t inner = tv_graph_columns(f->graph, norm->output), outer = tv_graph_columns(f->graph, n->output);
    if (from->rank != to->rank || memcmp(from->dims, to->dims, to->rank * sizeof *to->dims) != 0 || outer % inner)
        return;
    tv_graph_attrs attrs = norm->attrs;
    attrs.groups = outer / inner;
    tv_fusion_replace(n, TV_OP_NORM, (uint32_t[]){split->inputs[0], norm->inputs[1], norm->inputs[2], TV_NO_VALUE},
                      &attrs);
    tv_fusion_remove(norm);
    tv_fusion_remove(split);
}

/* ---- The pass ---- */

/* Nodes whose outputs nothing reads; Attention is kept because later steps read its cache. */
static void remove_unused(const tv_fusion *f)
{
    for (size_t i = f->graph->nodes.count; i-- > 0;) {
        tv_graph_node *n = &f->graph->nodes.data[i];
        if (n->op == TV_OPS || n->op == TV_OP_ATTENTION || f->uses[n->output])
            continue;
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (n->inputs[k] != TV_NO_VALUE)
                f->uses[n->inputs[k]]--;
        tv_fusion_remove(n);
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
    static tv_fusion_pattern *const patterns[] = {
        tv_fuse_layer_norm, tv_fuse_rms_norm, tv_fuse_gelu,   tv_fuse_swish,         fuse_norm,
        tv_fuse_gains,      fuse_gemm,        tv_fuse_affine, tv_fuse_residual_conv, fuse_activation_conv,
        fuse_activation,    fuse_glu,         fuse_residual,  fuse_groups,
    };
    /* Folding a node into a product adds two constants at most. */
    tv_fusion f = {graph, malloc((graph->values.count + 2 * graph->nodes.count + 1) * sizeof *f.uses), sink, TV_OK};
    if (!f.uses)
        return tv_fail_memory(sink);
    for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        count_uses(&f);
        for (size_t i = 0; i < graph->nodes.count && f.status == TV_OK; i++)
            if (graph->nodes.data[i].op < TV_OPS)
                patterns[p](&f, &graph->nodes.data[i]);
    }
    count_uses(&f);
    remove_unused(&f);
    free(f.uses);
    compact(graph);
    return f.status == TV_OK ? tv_graph_verify(graph, sink) : f.status;
}
