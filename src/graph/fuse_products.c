/* SPDX-License-Identifier: Apache-2.0 */
/* Fusion into products of networks. A constant for each channel that follows a product is folded: with y = s (W x + b)
 * + t the weights become s W and the bias s b + t, of binary32, rounded once each. Constants without data, for timing,
 * stay without. */
#include <stdlib.h>

#include "graph/fusion.h"

static bool is_product(const tv_graph_node *n)
{
    return n && (n->op == TV_OP_CONV || n->op == TV_OP_CONV_TRANSPOSE || n->op == TV_OP_LINEAR);
}

/* The axis of the output that the rows of the weights make. */
static uint32_t channel_axis(const tv_fusion *f, const tv_graph_node *n)
{
    return n->op == TV_OP_LINEAR ? tv_graph_value_at(f->graph, n->output)->shape.rank - 1 : 1;
}

/* A constant tensor of binary32 with one element, or with one for each channel of the output. */
static const tv_tensor *channel_constant(const tv_fusion *f, const tv_graph_node *product, uint32_t value)
{
    const tv_tensor *t = tv_graph_value_at(f->graph, value)->tensor;
    const tv_graph_shape *s = &tv_graph_value_at(f->graph, product->output)->shape;
    uint32_t from_end = s->rank - 1 - channel_axis(f, product);
    if (!t || t->element != TV_ELEMENT_F32 || t->rank > s->rank)
        return NULL;
    for (uint32_t i = 0; i < t->rank; i++) { /* from the last axis */
        int64_t extent = t->dims[t->rank - 1 - i];
        if (extent != 1 && (i != from_end || extent != s->dims[s->rank - 1 - i]))
            return NULL;
    }
    return t;
}

static const tv_tensor *constant_tensor(const tv_fusion *f, uint32_t value)
{
    const tv_tensor *t = value == TV_NO_VALUE ? NULL : tv_graph_value_at(f->graph, value)->tensor;
    return t && t->element == TV_ELEMENT_F32 ? t : NULL;
}

/* Scale and shift of the channels; a missing one is 1 or 0. */
typedef struct affine {
    const tv_tensor *scale, *shift;
    bool divide, negate; /* by the scale; the shift */
} affine;

static float element_of(const tv_tensor *t, int64_t channel)
{
    const float *data = t->data;
    return data[tv_tensor_count(t) == 1 ? 0 : channel];
}

static float scaled(const affine *a, int64_t channel, float x)
{
    if (!a->scale)
        return x;
    return a->divide ? x / element_of(a->scale, channel) : x * element_of(a->scale, channel);
}

static float shifted(const affine *a, int64_t channel, float x)
{
    if (!a->shift)
        return x;
    return a->negate ? x - element_of(a->shift, channel) : x + element_of(a->shift, channel);
}

static bool has_data(const affine *a, const tv_tensor *t)
{
    return t->data && (!a->scale || a->scale->data) && (!a->shift || a->shift->data);
}

/* Adds a constant to the graph. The tensor is copied; TV_NO_VALUE: f->status says why. */
static uint32_t add_constant(tv_fusion *f, const char *name, const tv_tensor *t)
{
    tv_graph_builder b = {.graph = f->graph, .sink = f->sink, .block = TV_BLOCK_NONE};
    uint32_t value = tv_graph_tensor(&b, name, t, false);
    f->status = b.status;
    if (value != TV_NO_VALUE)
        f->uses[value] = 1;
    return value;
}

/* Output channel of element i of the weights: rows of W, or [c][o / groups] of a transposed convolution. */
static int64_t channel_of(const tv_graph_node *n, const tv_tensor *w, uint64_t i)
{
    uint64_t rows = (uint64_t)w->dims[0], row = i / (tv_tensor_count(w) / rows);
    if (n->op != TV_OP_CONV_TRANSPOSE)
        return (int64_t)row;
    uint64_t out = (uint64_t)w->dims[1], group = row / (rows / n->attrs.groups),
             inner = tv_tensor_count(w) / rows / out;
    return (int64_t)(group * out + i / inner % out);
}

static uint32_t scale_weights(tv_fusion *f, const tv_graph_node *n, const affine *a)
{
    const tv_tensor *w = constant_tensor(f, n->inputs[1]);
    const char *name = tv_graph_value_at(f->graph, n->inputs[1])->name;
    tv_tensor out = *w;
    if (!a->scale)
        return n->inputs[1];
    if (!has_data(a, w)) {
        out.data = NULL;
        return add_constant(f, name, &out);
    }
    f->status = tv_tensor_init(&out, w->element, w->rank, w->dims, f->sink);
    if (f->status != TV_OK)
        return TV_NO_VALUE;
    for (uint64_t i = 0, count = tv_tensor_count(w); i < count; i++)
        ((float *)out.data)[i] = scaled(a, channel_of(n, w, i), ((const float *)w->data)[i]);
    uint32_t value = add_constant(f, name, &out);
    tv_tensor_fini(&out);
    return value;
}

static uint32_t shift_bias(tv_fusion *f, const tv_graph_node *n, const affine *a)
{
    const tv_tensor *b = constant_tensor(f, n->inputs[2]);
    const tv_graph_shape *s = &tv_graph_value_at(f->graph, n->output)->shape;
    int64_t channels = s->dims[channel_axis(f, n)];
    tv_tensor out = {.element = TV_ELEMENT_F32, .rank = 1, .dims = {channels}};
    const char *name = tv_graph_value_at(f->graph, b ? n->inputs[2] : n->output)->name;
    bool data = b ? has_data(a, b) : (!a->scale || a->scale->data) && (!a->shift || a->shift->data);
    if (!b && !a->shift)
        return TV_NO_VALUE;
    if (!data)
        return add_constant(f, name, &out);
    f->status = tv_tensor_init(&out, TV_ELEMENT_F32, 1, &channels, f->sink);
    if (f->status != TV_OK)
        return TV_NO_VALUE;
    for (int64_t i = 0; i < channels; i++)
        ((float *)out.data)[i] = shifted(a, i, b ? scaled(a, i, ((const float *)b->data)[i]) : 0);
    uint32_t value = add_constant(f, name, &out);
    tv_tensor_fini(&out);
    return value;
}

static bool reads_bare_product(const tv_fusion *f, const tv_graph_node *product)
{
    bool residual = product->op != TV_OP_CONV_TRANSPOSE && product->inputs[3] != TV_NO_VALUE;
    return !residual && !product->attrs.activation && constant_tensor(f, product->inputs[1]) &&
           (product->inputs[2] == TV_NO_VALUE || constant_tensor(f, product->inputs[2]));
}

/* The scale or the shift that a node applies to a product, whose input is `k`. */
static bool affine_of(const tv_graph_node *n, unsigned k, const tv_tensor *constant, affine *out)
{
    bool shift = n->op == TV_OP_ADD || (n->op == TV_OP_SUB && k == 0),
         scale = n->op == TV_OP_MUL || (n->op == TV_OP_DIV && k == 0);
    *out = (affine){.divide = n->op == TV_OP_DIV, .negate = n->op == TV_OP_SUB};
    if (shift)
        out->shift = constant;
    else
        out->scale = constant;
    return shift || scale;
}

void tv_fuse_affine(tv_fusion *f, tv_graph_node *n)
{
    for (unsigned k = 0; k < 2 && tv_graph_op_infos[n->op].class == TV_CLASS_BINARY; k++) {
        tv_graph_node *product = tv_fusion_sole_producer(f, n->inputs[k]);
        if (!is_product(product) || !reads_bare_product(f, product))
            continue;
        const tv_tensor *constant = channel_constant(f, product, n->inputs[1 - k]);
        affine a;
        if (!constant || !affine_of(n, k, constant, &a))
            continue;
        uint32_t weights = scale_weights(f, product, &a), bias = f->status == TV_OK ? shift_bias(f, product, &a) : 0;
        if (f->status != TV_OK)
            return;
        tv_graph_attrs attrs = product->attrs;
        tv_graph_op op = product->op;
        uint32_t x = product->inputs[0];
        tv_fusion_remove(product);
        tv_fusion_replace(n, op, (uint32_t[]){x, weights, bias, TV_NO_VALUE}, &attrs);
        return;
    }
}

static bool same_dims(const tv_graph *g, uint32_t a, uint32_t b)
{
    const tv_graph_shape *x = &tv_graph_value_at(g, a)->shape, *y = &tv_graph_value_at(g, b)->shape;
    return x->rank == y->rank && memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) == 0;
}

/* residual + Conv; the residual is computed before. */
void tv_fuse_residual_conv(tv_fusion *f, tv_graph_node *n)
{
    for (unsigned k = 0; k < 2 && n->op == TV_OP_ADD; k++) {
        tv_graph_node *conv = tv_fusion_sole(f, n->inputs[k], TV_OP_CONV);
        uint32_t residual = n->inputs[1 - k];
        if (!conv || conv->inputs[3] != TV_NO_VALUE || conv->attrs.activation ||
            tv_graph_value_at(f->graph, residual)->source == TV_VALUE_CONSTANT ||
            !same_dims(f->graph, residual, n->output))
            continue;
        tv_graph_attrs attrs = conv->attrs;
        tv_fusion_replace(n, TV_OP_CONV, (uint32_t[]){conv->inputs[0], conv->inputs[1], conv->inputs[2], residual},
                          &attrs);
        tv_fusion_remove(conv);
        return;
    }
}
