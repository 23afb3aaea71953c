/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of products, convolutions and other windows. */
#include <math.h>

#include "graph/infer.h"
#include "graph/resize.h"
#include "graph/window.h"

/* ---- Matrices ---- */

bool tv_rule_gemm(tv_rule *r)
{
    if (!tv_rule_needs_rows(r, 0))
        return false;
    if (!r->shape->rank || !tv_rule_is_matrix(r, 1) || tv_last_dim(tv_rule_shape(r, 1)) != tv_last_dim(r->shape))
        return tv_rule_reject(r, "the columns of the matrix are not those of the input");
    uint32_t rows = tv_graph_matrix(r->graph, r->node->inputs[1])->rows;
    if (tv_rule_has(r, 2) && !tv_rule_is_vector(r, 2, rows))
        return tv_rule_reject(r, "the bias has not one value for each row of the matrix");
    r->shape->dims[r->shape->rank - 1] = rows;
    return true;
}

bool tv_rule_linear(tv_rule *r)
{
    if (!tv_rule_gemm(r))
        return false;
    bool fits = !tv_rule_has(r, 3) || tv_same_dims(tv_rule_shape(r, 3), r->shape);
    return fits ? true : tv_rule_reject(r, "the residual has another shape");
}

bool tv_rule_glu(tv_rule *r)
{
    if (!tv_rule_is_matrix(r, 2) || !tv_same_dims(tv_rule_shape(r, 1), tv_rule_shape(r, 2)))
        return tv_rule_reject(r, "the two matrices differ in shape");
    tv_graph_node node = *r->node;
    node.inputs[2] = TV_NO_VALUE; /* the second matrix is no bias */
    tv_rule gate = *r;
    gate.node = &node;
    bool ok = tv_rule_gemm(&gate);
    r->problem = gate.problem;
    return ok;
}

bool tv_rule_matmul(tv_rule *r)
{
    const tv_graph_shape a = *r->shape, *b = tv_rule_shape(r, 1);
    tv_graph_shape *out = r->shape;
    bool ok = a.rank >= 2 && b->rank >= 2 && tv_last_dim(&a) == b->dims[b->rank - 2] && tv_last_dim(&a) >= 0 &&
              tv_rule_input(r, 1)->element == r->element;
    out->rank = a.rank > b->rank ? a.rank : b->rank;
    for (uint32_t i = 2; i < out->rank && ok; i++) { /* from the last axis */
        int64_t x = i < a.rank ? a.dims[a.rank - 1 - i] : 1, y = i < b->rank ? b->dims[b->rank - 1 - i] : 1;
        ok = x == y || x == 1 || y == 1;
        out->dims[out->rank - 1 - i] = x == 1 ? y : x;
    }
    if (!ok)
        return tv_rule_reject(r, "the shapes of the matrices do not fit each other");
    out->dims[out->rank - 2] = a.dims[a.rank - 2];
    out->dims[out->rank - 1] = tv_last_dim(b);
    if (tv_is_integer_element(r->element))
        r->element = TV_ELEMENT_I32;
    return true;
}

/* ---- Windows ---- */

/* Batch, channels, and as many spatial axes as lists have. */
static bool is_spatial(const tv_graph_shape *s)
{
    bool ok = s->rank >= 3 && s->rank <= 2 + TV_GRAPH_SPATIAL_MAX;
    for (uint32_t i = 0; i < s->rank && ok; i++)
        ok = s->dims[i] >= 0 && s->dims[i] < INT32_MAX;
    return ok;
}

static bool lists_are_valid(const tv_graph_lists *l, uint32_t spatial)
{
    bool ok = l != NULL;
    for (uint32_t i = 0; i < spatial && ok; i++)
        ok = l->kernel[i] >= 1 && l->kernel[i] < INT32_MAX && l->stride[i] >= 1 && l->stride[i] < INT32_MAX &&
             l->dilation[i] >= 1 && l->dilation[i] < INT32_MAX && l->pad_begin[i] >= 0 && l->pad_begin[i] < INT32_MAX &&
             l->pad_end[i] >= 0 && l->pad_end[i] < INT32_MAX && l->output_padding[i] >= 0 &&
             l->output_padding[i] < INT32_MAX;
    return ok;
}

static bool needs_windows(tv_rule *r)
{
    if (!is_spatial(r->shape))
        return tv_rule_reject(r, "the input has not one to three axes after batch and channels");
    return lists_are_valid(r->node->attrs.lists, r->shape->rank - 2) ? true
                                                                     : tv_rule_reject(r, "the window is not valid");
}

static bool pool_axes(tv_rule *r, bool partial)
{
    for (uint32_t i = 0; i < r->shape->rank - 2; i++) {
        int64_t extent = tv_window_extent(r->node->attrs.lists, i, r->shape->dims[2 + i], partial);
        if (extent < 1)
            return tv_rule_reject(r, "the window is larger than the input");
        r->shape->dims[2 + i] = extent;
    }
    return true;
}

/* Padding is smaller than the window, which bounds the output, too. */
bool tv_rule_pool(tv_rule *r)
{
    const tv_graph_lists *l = r->node->attrs.lists;
    if (!needs_windows(r))
        return false;
    for (uint32_t i = 0; i < r->shape->rank - 2; i++) {
        int64_t reach = (l->kernel[i] - 1) * l->dilation[i] + 1;
        if (l->pad_begin[i] >= reach || l->pad_end[i] >= reach)
            return tv_rule_reject(r, "the padding is not smaller than the window");
    }
    return pool_axes(r, r->node->attrs.mode >> 1 & 1);
}

bool tv_rule_pool_indices(tv_rule *r)
{
    bool ok = tv_rule_pool(r);
    r->element = TV_ELEMENT_I64;
    return ok;
}

/* The weights are of x's rank and have the kernel's extents. */
static bool weights_fit(tv_rule *r)
{
    const tv_graph_shape *w = tv_rule_shape(r, 1);
    bool ok = w->rank == r->shape->rank && tv_rule_input(r, 1)->element == r->element && r->node->attrs.groups >= 1;
    for (uint32_t i = 2; i < w->rank && ok; i++)
        ok = w->dims[i] == r->node->attrs.lists->kernel[i - 2];
    return ok ? true : tv_rule_reject(r, "the weights do not fit the input");
}

static bool bias_fits(tv_rule *r, int64_t channels)
{
    bool ok = !tv_rule_has(r, 2) || (tv_rule_shape(r, 2)->rank == 1 && tv_rule_shape(r, 2)->dims[0] == channels);
    return ok ? true : tv_rule_reject(r, "the bias has not one value for each channel");
}

bool tv_rule_conv(tv_rule *r)
{
    if (!needs_windows(r) || !weights_fit(r))
        return false;
    const tv_graph_shape *w = tv_rule_shape(r, 1);
    int64_t groups = r->node->attrs.groups;
    if (w->dims[1] * groups != r->shape->dims[1] || w->dims[0] % groups)
        return tv_rule_reject(r, "the channels are not those of the weights and groups");
    if (!bias_fits(r, w->dims[0]) || !pool_axes(r, false))
        return false;
    r->shape->dims[1] = w->dims[0];
    if (tv_is_integer_element(r->element))
        r->element = TV_ELEMENT_I32;
    bool fits = !tv_rule_has(r, 3) || tv_same_dims(tv_rule_shape(r, 3), r->shape);
    return fits ? true : tv_rule_reject(r, "the residual has another shape");
}

bool tv_rule_conv_transpose(tv_rule *r)
{
    if (!needs_windows(r) || !weights_fit(r))
        return false;
    const tv_graph_shape *w = tv_rule_shape(r, 1);
    const tv_graph_lists *l = r->node->attrs.lists;
    int64_t groups = r->node->attrs.groups, channels = w->dims[1] * groups;
    if (w->dims[0] != r->shape->dims[1] || w->dims[0] % groups)
        return tv_rule_reject(r, "the channels are not those of the weights and groups");
    for (uint32_t i = 0; i < r->shape->rank - 2; i++) {
        int64_t extent = (r->shape->dims[2 + i] - 1) * l->stride[i] + l->output_padding[i] +
                         (l->kernel[i] - 1) * l->dilation[i] + 1 - l->pad_begin[i] - l->pad_end[i];
        if (extent < 1)
            return tv_rule_reject(r, "the padding removes the whole output");
        r->shape->dims[2 + i] = extent;
    }
    r->shape->dims[1] = channels;
    return bias_fits(r, channels);
}

/* The scale of an axis is finite, and that of its extents but for what an importer rounds; crops have any. */
static bool scale_fits(const tv_graph_lists *l, tv_resize m, uint32_t axis, int64_t in, int64_t out)
{
    double scale = l->scale[axis], exact = scale * (double)in;
    if (m.coordinates == TV_RESIZE_CROP)
        return !m.antialias && isfinite(l->crop_begin[axis]) && isfinite(l->crop_end[axis]);
    return scale > 0 && isfinite(exact) && exact >= 0.5 && fabs((double)out - exact) <= 1 + exact * 1e-6;
}

bool tv_rule_resize(tv_rule *r)
{
    const tv_graph_attrs *a = &r->node->attrs;
    tv_resize m = tv_resize_unpack(a->mode);
    if (m.method >= TV_RESIZE_METHODS || m.coordinates >= TV_RESIZE_COORDINATES || m.rounding >= TV_RESIZE_ROUNDINGS ||
        !a->lists)
        return tv_rule_reject(r, "the mode is not valid");
    if (a->shape.rank != r->shape->rank || tv_has_symbol(r->shape))
        return tv_rule_reject(r, "the ranks of input and output differ");
    for (uint32_t i = 0; i < r->shape->rank; i++) {
        int64_t in = r->shape->dims[i], out = a->shape.dims[i];
        if (out < 0 || in >= INT32_MAX || out >= INT32_MAX || (out > 0 && in == 0) ||
            (out > 0 && !scale_fits(a->lists, m, i, in, out)))
            return tv_rule_reject(r, "the scale of an axis does not fit its extents");
    }
    *r->shape = a->shape;
    return true;
}
