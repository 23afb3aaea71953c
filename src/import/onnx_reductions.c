/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that reduce axes, or compute along one. The graph's reduce the last axis. */
#include "import/onnx_table.h"

/* The axes of a reduction, as bits: an attribute, or the second input where the row's opsets have it. */
static uint32_t reduced_axes(const tv_onnx_node *n, uint32_t rank, size_t input)
{
    int64_t buffer[TV_ONNX_INTEGERS_MAX];
    tv_onnx_list list = tv_onnx_ints_or_input(n, "axes", input, buffer);
    if (list.count == 0 && !(input && tv_onnx_int(n, "noop_with_empty_axes", 0)))
        return (UINT32_C(1) << rank) - 1;
    return tv_onnx_axes(n, list, rank);
}

typedef enum before { BEFORE_NOTHING, BEFORE_ABS, BEFORE_SQUARE } before;

/* after(reduce(before(x))) */
static void reduce(tv_onnx_node *n, size_t input, before first, tv_graph_op op, tv_graph_op after)
{
    uint32_t x = tv_onnx_input(n, 0);
    uint32_t axes = reduced_axes(n, tv_onnx_dims(n, x).rank, input);
    if (first == BEFORE_ABS)
        x = tv_onnx_emit1(n, TV_OP_ABS, x);
    else if (first == BEFORE_SQUARE)
        x = tv_onnx_emit2(n, TV_OP_MUL, x, x);
    if (axes || op != TV_OPS)
        x = axes ? tv_onnx_reduce(n, x, axes, tv_onnx_int(n, "keepdims", 1) != 0, op) : x;
    tv_onnx_output(n, 0, after == TV_OPS ? x : tv_onnx_emit1(n, after, x));
}

void tv_onnx_import_reduce(tv_onnx_node *n) { reduce(n, 0, BEFORE_NOTHING, n->row->op, TV_OPS); }
void tv_onnx_import_reduce_by_input(tv_onnx_node *n) { reduce(n, 1, BEFORE_NOTHING, n->row->op, TV_OPS); }

static size_t axes_input(const tv_onnx_node *n) { return n->opset >= 18 ? 1 : 0; }

void tv_onnx_import_reduce_l1(tv_onnx_node *n) { reduce(n, axes_input(n), BEFORE_ABS, TV_OP_REDUCE_SUM, TV_OPS); }
void tv_onnx_import_reduce_l2(tv_onnx_node *n)
{
    reduce(n, axes_input(n), BEFORE_SQUARE, TV_OP_REDUCE_SUM, TV_OP_SQRT);
}
void tv_onnx_import_reduce_sum_square(tv_onnx_node *n)
{
    reduce(n, axes_input(n), BEFORE_SQUARE, TV_OP_REDUCE_SUM, TV_OPS);
}
void tv_onnx_import_reduce_log_sum(tv_onnx_node *n)
{
    reduce(n, axes_input(n), BEFORE_NOTHING, TV_OP_REDUCE_SUM, TV_OP_LOG);
}

/* max + log(sum(exp(x - max))) */
void tv_onnx_import_reduce_log_sum_exp(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape dims = tv_onnx_dims(n, x), out = {0};
    uint32_t axes = reduced_axes(n, dims.rank, axes_input(n));
    bool keep = tv_onnx_int(n, "keepdims", 1) != 0;
    for (uint32_t i = 0; i < dims.rank; i++)
        if (keep || !(axes >> i & 1))
            out.dims[out.rank++] = axes >> i & 1 ? 1 : dims.dims[i];
    uint32_t max = tv_onnx_reduce(n, x, axes, true, TV_OP_REDUCE_MAX);
    uint32_t y = tv_onnx_emit1(n, TV_OP_EXP, tv_onnx_emit2(n, TV_OP_SUB, x, max));
    y = tv_onnx_emit1(n, TV_OP_LOG, tv_onnx_reduce(n, y, axes, true, TV_OP_REDUCE_SUM));
    tv_onnx_output(n, 0, tv_onnx_reshape(n, tv_onnx_emit2(n, TV_OP_ADD, y, max), &out));
}

void tv_onnx_import_reduce_index(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), perm[TV_GRAPH_RANK_MAX] = {0};
    tv_graph_shape dims = tv_onnx_dims(n, x), out = {0};
    uint32_t axis = tv_onnx_axis(n, tv_onnx_int(n, "axis", 0), dims.rank);
    bool keep = tv_onnx_int(n, "keepdims", 1) != 0;
    tv_graph_attrs attrs = {.mode = tv_onnx_int(n, "select_last_index", 0) != 0};
    for (uint32_t i = 0; i < dims.rank; i++)
        if (keep || i != axis)
            out.dims[out.rank++] = i == axis ? 1 : dims.dims[i];
    uint32_t moved = tv_onnx_axes_last(n, x, UINT32_C(1) << axis, perm);
    tv_onnx_output(n, 0, tv_onnx_reshape(n, tv_onnx_emit(n, n->row->op, &moved, 1, &attrs), &out));
}

/* ---- Along an axis ---- */

/* Computes an operator of the last axis along the axes of a set, which are one axis to it. */
static uint32_t along_axes(tv_onnx_node *n, uint32_t x, uint32_t axes, tv_graph_op op, const tv_graph_attrs *attrs)
{
    uint32_t perm[TV_GRAPH_RANK_MAX] = {0};
    tv_graph_shape dims = tv_onnx_dims(n, x);
    uint32_t moved = tv_onnx_axes_last(n, x, axes, perm);
    return tv_onnx_axes_back(n, tv_onnx_emit(n, op, &moved, 1, attrs), &dims, perm);
}

void tv_onnx_import_softmax(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    uint32_t axis = tv_onnx_axis(n, tv_onnx_int(n, "axis", -1), tv_onnx_dims(n, x).rank);
    tv_onnx_output(n, 0, along_axes(n, x, UINT32_C(1) << axis, n->row->op, NULL));
}

/* The axes from `axis` to the last, as bits. */
static uint32_t axes_from(const tv_onnx_node *n, int64_t missing, uint32_t rank)
{
    int64_t axis = tv_onnx_int(n, "axis", missing);
    uint32_t from = axis == (int64_t)rank ? rank : tv_onnx_axis(n, axis, rank);
    return ((UINT32_C(1) << rank) - 1) & ~((UINT32_C(1) << from) - 1);
}

/* Up to opset 12 all axes from `axis` on are one. */
void tv_onnx_import_softmax_12(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    uint32_t axes = axes_from(n, 1, tv_onnx_dims(n, x).rank);
    tv_onnx_output(n, 0, along_axes(n, x, axes, n->row->op, NULL));
}

/* 1 where the first maximum is, otherwise 0. */
void tv_onnx_import_hardmax(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), perm[TV_GRAPH_RANK_MAX] = {0};
    tv_graph_shape dims = tv_onnx_dims(n, x);
    uint32_t axes = n->opset < 13 ? axes_from(n, 1, dims.rank)
                                  : UINT32_C(1) << tv_onnx_axis(n, tv_onnx_int(n, "axis", -1), dims.rank);
    uint32_t moved = tv_onnx_axes_last(n, x, axes, perm);
    tv_graph_shape rows = tv_onnx_dims(n, moved);
    uint64_t count = rows.rank ? (uint64_t)rows.dims[rows.rank - 1] : 1;
    uint32_t numbers = tv_onnx_iota(n, TV_ELEMENT_I64, count, 0, 1);
    uint32_t y = tv_onnx_emit2(n, TV_OP_EQUAL, tv_onnx_emit1(n, TV_OP_ARG_MAX, moved), numbers);
    y = tv_onnx_cast(n, y, tv_onnx_element(n, x));
    tv_onnx_output(n, 0, tv_onnx_axes_back(n, y, &dims, perm));
}

void tv_onnx_import_cum_sum(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    uint32_t axis = tv_onnx_axis(n, tv_onnx_integer(n, 1, 0), tv_onnx_dims(n, x).rank);
    tv_graph_attrs attrs = {.mode =
                                (tv_onnx_int(n, "exclusive", 0) ? 1u : 0) | (tv_onnx_int(n, "reverse", 0) ? 2u : 0)};
    tv_onnx_output(n, 0, along_axes(n, x, UINT32_C(1) << axis, TV_OP_CUM_SUM, &attrs));
}

/* x divided by the sum of magnitudes, or the root of the sum of squares. */
void tv_onnx_import_lp_normalization(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    uint32_t axes = UINT32_C(1) << tv_onnx_axis(n, tv_onnx_int(n, "axis", -1), tv_onnx_dims(n, x).rank);
    bool magnitudes = tv_onnx_int(n, "p", 2) == 1;
    uint32_t y = magnitudes ? tv_onnx_emit1(n, TV_OP_ABS, x) : tv_onnx_emit2(n, TV_OP_MUL, x, x);
    y = tv_onnx_reduce(n, y, axes, true, TV_OP_REDUCE_SUM);
    tv_onnx_output(n, 0, tv_onnx_emit2(n, TV_OP_DIV, x, magnitudes ? y : tv_onnx_emit1(n, TV_OP_SQRT, y)));
}
