/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of classifiers, as evaluations of trained networks have them. Classes are along axis 1. */
#include "import/onnx_table.h"

/* Elements of x[n][c][...] where c is target[n][...], and the target is not ignored: booleans. */
static uint32_t chosen_classes(tv_onnx_node *n, uint32_t x, uint32_t target)
{
    tv_graph_shape dims = tv_onnx_dims(n, x), line = {.rank = dims.rank}, to = dims;
    for (uint32_t i = 0; i < dims.rank; i++)
        line.dims[i] = i == 1 ? dims.dims[1] : 1;
    to.dims[1] = 1;
    target = tv_onnx_reshape(n, tv_onnx_cast(n, target, TV_ELEMENT_I64), &to);
    uint32_t classes = tv_onnx_iota(n, TV_ELEMENT_I64, (uint64_t)dims.dims[1], 0, 1);
    uint32_t chosen = tv_onnx_emit2(n, TV_OP_EQUAL, target, tv_onnx_reshape(n, classes, &line));
    if (!tv_onnx_attribute(n, "ignore_index"))
        return chosen;
    uint32_t ignored = tv_onnx_integer_scalar(n, TV_ELEMENT_I64, tv_onnx_int(n, "ignore_index", 0));
    uint32_t counted = tv_onnx_emit1(n, TV_OP_NOT, tv_onnx_emit2(n, TV_OP_EQUAL, target, ignored));
    return tv_onnx_emit2(n, TV_OP_AND, chosen, counted);
}

/* The sum over classes of values where `chosen`. */
static uint32_t sum_chosen(tv_onnx_node *n, uint32_t chosen, uint32_t values)
{
    uint32_t zero = tv_onnx_scalar(n, tv_onnx_element(n, values), 0);
    uint32_t picked = tv_onnx_emit(n, TV_OP_WHERE, (uint32_t[]){chosen, values, zero}, 3, NULL);
    return tv_onnx_reduce(n, picked, 2, false, TV_OP_REDUCE_SUM);
}

static uint32_t sum_all(tv_onnx_node *n, uint32_t x)
{
    return tv_onnx_reduce(n, x, (UINT32_C(1) << tv_onnx_dims(n, x).rank) - 1, false, TV_OP_REDUCE_SUM);
}

/* - weight * x of the target's class; the mean is weighted. */
static void import_loss(tv_onnx_node *n, uint32_t x)
{
    uint32_t target = tv_onnx_input(n, 1), weight = tv_onnx_input(n, 2);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    bool mean = tv_onnx_text_is(n, "reduction", "mean", "mean"), sum = tv_onnx_text_is(n, "reduction", "mean", "sum");
    if (tv_onnx_ok(n) && (dims.rank < 2 || tv_onnx_dims(n, target).rank + 1 != dims.rank))
        tv_onnx_reject(n, TV_ONNX_INVALID, "the targets have not the axes of the scores without classes");
    if (!tv_onnx_ok(n))
        return;
    uint32_t chosen = chosen_classes(n, x, target);
    weight = weight == TV_NO_VALUE ? tv_onnx_scalar(n, tv_onnx_element(n, x), 1)
                                   : tv_onnx_channels(n, weight, dims.rank - 2);
    uint32_t loss = sum_chosen(n, chosen, tv_onnx_emit2(n, TV_OP_MUL, tv_onnx_emit1(n, TV_OP_NEG, x), weight));
    if (mean)
        loss = tv_onnx_emit2(n, TV_OP_DIV, sum_all(n, loss), sum_all(n, sum_chosen(n, chosen, weight)));
    tv_onnx_output(n, 0, sum ? sum_all(n, loss) : loss);
}

void tv_onnx_import_nll_loss(tv_onnx_node *n) { import_loss(n, tv_onnx_input(n, 0)); }

void tv_onnx_import_softmax_loss(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), perm[TV_GRAPH_RANK_MAX] = {0};
    tv_graph_shape dims = tv_onnx_dims(n, x);
    if (tv_onnx_ok(n) && dims.rank < 2)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the scores have no axis of classes");
    uint32_t y = tv_onnx_emit1(n, TV_OP_LOG_SOFTMAX, tv_onnx_axes_last(n, x, 2, perm));
    y = tv_onnx_axes_back(n, y, &dims, perm);
    import_loss(n, y);
    tv_onnx_output(n, 1, y);
}
