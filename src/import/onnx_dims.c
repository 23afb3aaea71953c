/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that give the same elements another shape, and Shape itself, which is a constant here. */
#include <inttypes.h>

#include "import/onnx_table.h"

static uint32_t integers(tv_onnx_node *n, const int64_t *values, uint32_t count)
{
    tv_tensor t;
    if (!tv_onnx_tensor_init(n, TV_ELEMENT_I64, &(tv_graph_shape){1, {count}}, &t))
        return TV_NO_VALUE;
    for (uint32_t i = 0; i < count; i++)
        tv_tensor_set_integer(&t, i, values[i]);
    return tv_onnx_tensor(n, &t);
}

static uint32_t clamp_axis(int64_t axis, uint32_t rank)
{
    axis += axis < 0 ? (int64_t)rank : 0;
    return axis < 0 ? 0 : axis > (int64_t)rank ? rank : (uint32_t)axis;
}

void tv_onnx_import_shape(tv_onnx_node *n)
{
    tv_graph_shape dims = tv_onnx_dims(n, tv_onnx_input(n, 0));
    uint32_t start = clamp_axis(tv_onnx_int(n, "start", 0), dims.rank),
             end = clamp_axis(tv_onnx_int(n, "end", dims.rank), dims.rank);
    tv_onnx_output(n, 0, integers(n, dims.dims + start, end > start ? end - start : 0));
}

void tv_onnx_import_size(tv_onnx_node *n)
{
    uint64_t count = tv_onnx_count(n, tv_onnx_input(n, 0));
    tv_onnx_output(n, 0, tv_onnx_integer_scalar(n, TV_ELEMENT_I64, (int64_t)count));
}

/* Checks extents of a file and makes a shape of them. */
static tv_graph_shape checked(const tv_onnx_node *n, const int64_t *dims, size_t count)
{
    tv_graph_shape to = {0};
    if (count > TV_GRAPH_RANK_MAX) {
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the output has more than 8 axes");
        return to;
    }
    for (size_t i = 0; i < count; i++) {
        if (dims[i] < 0)
            tv_onnx_reject(n, TV_ONNX_INVALID, "the extent %" PRId64 " is negative", dims[i]);
        to.dims[to.rank++] = dims[i] < 0 ? 0 : dims[i];
    }
    return to;
}

/* Replaces the extents 0 (the input's, unless they are allowed) and -1 (what is left). */
static void complete_dims(const tv_onnx_node *n, const tv_graph_shape *from, int64_t *dims, size_t count)
{
    bool zeros = tv_onnx_int(n, "allowzero", 0) != 0;
    int64_t *rest = NULL;
    double known = 1, elements = 1;
    for (size_t i = 0; i < count; i++) {
        if (dims[i] == 0 && !zeros) {
            if (i >= from->rank)
                tv_onnx_reject(n, TV_ONNX_INVALID, "extent %zu is 0, but the input has no such axis", i);
            dims[i] = i < from->rank ? from->dims[i] : 0;
        }
        if (dims[i] == -1 && rest)
            tv_onnx_reject(n, TV_ONNX_INVALID, "more than one extent is -1");
        if (dims[i] == -1)
            rest = &dims[i];
        else
            known *= (double)dims[i];
    }
    for (uint32_t i = 0; i < from->rank; i++)
        elements *= (double)from->dims[i];
    if (rest)
        *rest = known > 0 ? (int64_t)(elements / known) : 0; /* RESHAPE checks the number of elements */
}

void tv_onnx_import_reshape(tv_onnx_node *n)
{
    int64_t dims[TV_ONNX_INTEGERS_MAX] = {0};
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape from = tv_onnx_dims(n, x);
    tv_onnx_list given = tv_onnx_ints_or_input(n, "shape", n->opset >= 5 ? 1 : 0, dims);
    if (given.count > TV_ONNX_INTEGERS_MAX)
        tv_onnx_reject(n, TV_ONNX_INVALID, "there are too many extents");
    else if (given.count && given.data != dims)
        memcpy(dims, given.data, given.count * sizeof *dims);
    if (!tv_onnx_ok(n))
        return;
    complete_dims(n, &from, dims, given.count);
    tv_graph_shape to = checked(n, dims, given.count);
    tv_onnx_output(n, 0, tv_onnx_reshape(n, x, &to));
}

static int64_t product(const tv_graph_shape *dims, uint32_t from, uint32_t to)
{
    int64_t elements = 1;
    for (uint32_t i = from; i < to; i++)
        elements *= dims->dims[i];
    return elements;
}

void tv_onnx_import_flatten(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    int64_t given = tv_onnx_int(n, "axis", 1);
    uint32_t axis = given == (int64_t)dims.rank ? dims.rank : tv_onnx_axis(n, given, dims.rank);
    tv_graph_shape to = {2, {product(&dims, 0, axis), product(&dims, axis, dims.rank)}};
    tv_onnx_output(n, 0, tv_onnx_reshape(n, x, &to));
}

void tv_onnx_import_squeeze(tv_onnx_node *n)
{
    int64_t buffer[TV_ONNX_INTEGERS_MAX];
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape dims = tv_onnx_dims(n, x), to = {0};
    tv_onnx_list list = tv_onnx_ints_or_input(n, "axes", n->opset >= 13 ? 1 : 0, buffer);
    uint32_t axes = tv_onnx_axes(n, list, dims.rank);
    for (uint32_t i = 0; i < dims.rank; i++) {
        bool removed = list.data ? axes >> i & 1 : dims.dims[i] == 1;
        if (removed && dims.dims[i] != 1)
            tv_onnx_reject(n, TV_ONNX_INVALID, "axis %" PRIu32 " has %" PRId64 " elements and cannot be removed", i,
                           dims.dims[i]);
        if (!removed)
            to.dims[to.rank++] = dims.dims[i];
    }
    tv_onnx_output(n, 0, tv_onnx_reshape(n, x, &to));
}

void tv_onnx_import_unsqueeze(tv_onnx_node *n)
{
    int64_t buffer[TV_ONNX_INTEGERS_MAX];
    uint32_t x = tv_onnx_input(n, 0), from = 0;
    tv_graph_shape dims = tv_onnx_dims(n, x), to = {0};
    tv_onnx_list list = tv_onnx_ints_or_input(n, "axes", n->opset >= 13 ? 1 : 0, buffer);
    if (dims.rank + list.count > TV_GRAPH_RANK_MAX)
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the output has more than 8 axes");
    if (!tv_onnx_ok(n))
        return;
    to.rank = dims.rank + (uint32_t)list.count;
    uint32_t axes = tv_onnx_axes(n, list, to.rank), added = 0;
    for (uint32_t i = 0; i < to.rank; i++)
        added += axes >> i & 1;
    if (added != list.count)
        tv_onnx_reject(n, TV_ONNX_INVALID, "an axis is added twice");
    for (uint32_t i = 0; i < to.rank && tv_onnx_ok(n); i++)
        to.dims[i] = axes >> i & 1 ? 1 : dims.dims[from++];
    tv_onnx_output(n, 0, tv_onnx_reshape(n, x, &to));
}

void tv_onnx_import_expand(tv_onnx_node *n)
{
    int64_t dims[TV_ONNX_INTEGERS_MAX];
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape from = tv_onnx_dims(n, x), to = checked(n, dims, tv_onnx_integers(n, 1, dims));
    while (tv_onnx_ok(n) && to.rank < from.rank) { /* missing leading axes */
        memmove(to.dims + 1, to.dims, to.rank * sizeof *to.dims);
        to.dims[0] = 1;
        to.rank++;
    }
    for (uint32_t i = 0; i < from.rank && tv_onnx_ok(n); i++) {
        int64_t *extent = &to.dims[to.rank - from.rank + i];
        *extent = *extent == 1 ? from.dims[i] : *extent;
    }
    tv_onnx_output(n, 0, tv_onnx_expand(n, x, &to));
}

void tv_onnx_import_transpose(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), perm[TV_GRAPH_RANK_MAX], set = 0;
    uint32_t rank = tv_onnx_dims(n, x).rank;
    tv_onnx_list list = tv_onnx_ints(n, "perm");
    if (list.data && list.count != rank)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the permutation has %zu axes, the input %" PRIu32, list.count, rank);
    for (uint32_t i = 0; i < rank && tv_onnx_ok(n); i++) {
        perm[i] = list.data ? tv_onnx_axis(n, list.data[i], rank) : rank - 1 - i;
        set |= UINT32_C(1) << perm[i];
    }
    if (tv_onnx_ok(n) && set != (UINT32_C(1) << rank) - 1)
        tv_onnx_reject(n, TV_ONNX_INVALID, "an axis is twice in the permutation");
    bool matrix = rank == 2 && tv_onnx_is_constant(n, x) && tv_onnx_ok(n) && perm[0] == 1;
    tv_onnx_output(n, 0, matrix ? tv_onnx_matrix_transpose(n, x) : tv_onnx_transpose(n, x, perm));
}

/* ---- Depth and space ---- */

void tv_onnx_import_depth_to_space(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape d = tv_onnx_dims(n, x);
    int64_t b = tv_onnx_int(n, "blocksize", 0);
    bool crd = tv_onnx_text_is(n, "mode", "DCR", "CRD");
    if (d.rank != 4 || b < 1 || b > INT32_MAX || d.dims[1] % (b * b)) {
        tv_onnx_reject(n, TV_ONNX_INVALID, "the channels of the input are no multiple of the block");
        return;
    }
    int64_t c = d.dims[1] / (b * b);
    tv_graph_shape dcr_split = {6, {d.dims[0], b, b, c, d.dims[2], d.dims[3]}},
                   crd_split = {6, {d.dims[0], c, b, b, d.dims[2], d.dims[3]}},
                   to = {4, {d.dims[0], c, d.dims[2] * b, d.dims[3] * b}};
    static const uint32_t dcr_perm[] = {0, 3, 4, 1, 5, 2}, crd_perm[] = {0, 1, 4, 2, 5, 3};
    uint32_t y = tv_onnx_reshape(n, x, crd ? &crd_split : &dcr_split);
    tv_onnx_output(n, 0, tv_onnx_reshape(n, tv_onnx_transpose(n, y, crd ? crd_perm : dcr_perm), &to));
}

void tv_onnx_import_space_to_depth(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape d = tv_onnx_dims(n, x);
    int64_t b = tv_onnx_int(n, "blocksize", 0);
    if (d.rank != 4 || b < 1 || b > INT32_MAX || d.dims[2] % b || d.dims[3] % b) {
        tv_onnx_reject(n, TV_ONNX_INVALID, "the planes of the input are no multiple of the block");
        return;
    }
    tv_graph_shape split = {6, {d.dims[0], d.dims[1], d.dims[2] / b, b, d.dims[3] / b, b}},
                   to = {4, {d.dims[0], d.dims[1] * b * b, d.dims[2] / b, d.dims[3] / b}};
    uint32_t y = tv_onnx_transpose(n, tv_onnx_reshape(n, x, &split), (uint32_t[]){0, 3, 5, 1, 2, 4});
    tv_onnx_output(n, 0, tv_onnx_reshape(n, y, &to));
}
