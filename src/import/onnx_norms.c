/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizations. Those of the graph are of the last axis. */
#include <inttypes.h>

#include "import/onnx_table.h"

/* Factors and sums for each channel: x * scale + shift. Of constants they are computed here, and a pass makes them part
 * of a convolution before. */
void tv_onnx_import_batch_norm(tv_onnx_node *n)
{
    uint32_t values[5], x = tv_onnx_input(n, 0), rank = tv_onnx_dims(n, x).rank;
    tv_element element = tv_onnx_element(n, x);
    for (size_t i = 1; i < 5; i++)
        values[i] = tv_onnx_input(n, i);
    if (tv_onnx_int(n, "training_mode", 0) || (n->opset < 7 && !tv_onnx_int(n, "is_test", 0)))
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "training is not supported");
    if (tv_onnx_ok(n) && (rank < 2 || !tv_onnx_int(n, "spatial", 1)))
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the input has no channels, or there are statistics for each element");
    uint32_t epsilon = tv_onnx_scalar(n, tv_onnx_element(n, values[4]), (double)tv_onnx_float(n, "epsilon", 1e-5F));
    uint32_t deviation = tv_onnx_emit1(n, TV_OP_SQRT, tv_onnx_emit2(n, TV_OP_ADD, values[4], epsilon));
    uint32_t scale = tv_onnx_emit2(n, TV_OP_DIV, values[1], tv_onnx_cast(n, deviation, tv_onnx_element(n, values[1])));
    uint32_t moved = tv_onnx_cast(n, values[3], tv_onnx_element(n, scale));
    uint32_t shift = tv_onnx_emit2(n, TV_OP_SUB, values[2], tv_onnx_emit2(n, TV_OP_MUL, moved, scale));
    scale = tv_onnx_cast(n, tv_onnx_channels(n, scale, rank - 2), element);
    shift = tv_onnx_cast(n, tv_onnx_channels(n, shift, rank - 2), element);
    tv_onnx_output(n, 0, tv_onnx_emit2(n, TV_OP_ADD, tv_onnx_emit2(n, TV_OP_MUL, x, scale), shift));
}

/* (x - mean) / sqrt(variance + epsilon) of the last axis. */
static uint32_t normalize(tv_onnx_node *n, uint32_t x, float epsilon)
{
    tv_graph_attrs attrs = {.epsilon = epsilon, .groups = 1, .subtract_mean = true};
    return tv_onnx_emit(n, TV_OP_NORM, &x, 1, &attrs);
}

static int64_t product(const tv_graph_shape *dims, uint32_t from)
{
    int64_t elements = 1;
    for (uint32_t i = from; i < dims->rank; i++)
        elements *= dims->dims[i];
    return elements;
}

static uint32_t scale_and_shift(tv_onnx_node *n, uint32_t y, uint32_t scale, uint32_t shift)
{
    return tv_onnx_emit2(n, TV_OP_ADD, tv_onnx_emit2(n, TV_OP_MUL, y, scale), shift);
}

void tv_onnx_import_instance_norm(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), scale = tv_onnx_input(n, 1), shift = tv_onnx_input(n, 2);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    if (tv_onnx_ok(n) && dims.rank < 3)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the input has no planes");
    if (!tv_onnx_ok(n))
        return;
    tv_graph_shape planes = {3, {dims.dims[0], dims.dims[1], product(&dims, 2)}};
    uint32_t y = normalize(n, tv_onnx_reshape(n, x, &planes), tv_onnx_float(n, "epsilon", 1e-5F));
    y = tv_onnx_reshape(n, y, &dims);
    scale = tv_onnx_channels(n, scale, dims.rank - 2);
    tv_onnx_output(n, 0, scale_and_shift(n, y, scale, tv_onnx_channels(n, shift, dims.rank - 2)));
}

/* Up to opset 20 gains and bias are for each group, then for each channel. */
void tv_onnx_import_group_norm(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), scale = tv_onnx_input(n, 1), shift = tv_onnx_input(n, 2);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    int64_t groups = tv_onnx_int(n, "num_groups", 0);
    if (tv_onnx_ok(n) && (dims.rank < 3 || groups < 1 || dims.dims[1] % groups))
        tv_onnx_reject(n, TV_ONNX_INVALID, "the channels are no multiple of the groups");
    if (!tv_onnx_ok(n))
        return;
    tv_graph_shape grouped = {3, {dims.dims[0], groups, product(&dims, 1) / groups}};
    uint32_t y = normalize(n, tv_onnx_reshape(n, x, &grouped), tv_onnx_float(n, "epsilon", 1e-5F));
    if (n->opset < 21) {
        y = scale_and_shift(n, y, tv_onnx_channels(n, scale, 1), tv_onnx_channels(n, shift, 1));
        tv_onnx_output(n, 0, tv_onnx_reshape(n, y, &dims));
        return;
    }
    y = tv_onnx_reshape(n, y, &dims);
    scale = tv_onnx_channels(n, scale, dims.rank - 2);
    tv_onnx_output(n, 0, scale_and_shift(n, y, scale, tv_onnx_channels(n, shift, dims.rank - 2)));
}

/* ---- LayerNormalization ---- */

/* Outputs 1 and 2: the mean and 1 / sqrt(variance + epsilon) of rows, as reductions. */
static void add_statistics(tv_onnx_node *n, uint32_t rows, float epsilon, const tv_graph_shape *out)
{
    if (!tv_onnx_has_output(n, 1) && !tv_onnx_has_output(n, 2))
        return;
    rows = tv_onnx_cast(n, rows, TV_ELEMENT_F32);
    uint32_t mean = tv_onnx_emit1(n, TV_OP_REDUCE_MEAN, rows), centered = tv_onnx_emit2(n, TV_OP_SUB, rows, mean);
    uint32_t variance = tv_onnx_emit1(n, TV_OP_REDUCE_MEAN, tv_onnx_emit2(n, TV_OP_MUL, centered, centered));
    variance = tv_onnx_emit2(n, TV_OP_ADD, variance, tv_onnx_scalar(n, TV_ELEMENT_F32, (double)epsilon));
    uint32_t inverse = tv_onnx_emit1(n, TV_OP_RECIPROCAL, tv_onnx_emit1(n, TV_OP_SQRT, variance));
    tv_onnx_output(n, 1, tv_onnx_reshape(n, mean, out));
    tv_onnx_output(n, 2, tv_onnx_reshape(n, inverse, out));
}

/* A constant with one element for each of `count`, as a vector; otherwise TV_NO_VALUE. */
static uint32_t row_constant(tv_onnx_node *n, uint32_t x, int64_t count)
{
    if (!tv_onnx_is_constant(n, x) || tv_onnx_count(n, x) != (uint64_t)count || count < 1)
        return TV_NO_VALUE;
    return tv_onnx_cast(n, tv_onnx_reshape(n, x, &(tv_graph_shape){1, {count}}), TV_ELEMENT_F32);
}

void tv_onnx_import_layer_norm(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), scale = tv_onnx_input(n, 1), shift = tv_onnx_input(n, 2), y;
    tv_graph_shape dims = tv_onnx_dims(n, x), rows = {0}, statistics = dims;
    uint32_t axis = tv_onnx_axis(n, tv_onnx_int(n, "axis", -1), dims.rank);
    float epsilon = tv_onnx_float(n, "epsilon", 1e-5F);
    if (!tv_onnx_ok(n))
        return;
    for (uint32_t i = 0; i < axis; i++)
        rows.dims[rows.rank++] = dims.dims[i];
    for (uint32_t i = axis; i < dims.rank; i++)
        statistics.dims[i] = 1;
    rows.dims[rows.rank++] = product(&dims, axis);
    uint32_t flat = tv_onnx_reshape(n, x, &rows);
    add_statistics(n, flat, epsilon, &statistics);
    uint32_t gains = row_constant(n, scale, rows.dims[axis]),
             bias = shift == TV_NO_VALUE ? shift : row_constant(n, shift, rows.dims[axis]);
    if (gains != TV_NO_VALUE && (shift == TV_NO_VALUE || bias != TV_NO_VALUE)) {
        uint32_t inputs[] = {flat, gains, bias};
        y = tv_onnx_emit(n, TV_OP_LAYER_NORMALIZATION, inputs, 3, &(tv_graph_attrs){.epsilon = epsilon});
        tv_onnx_output(n, 0, tv_onnx_reshape(n, y, &dims));
        return;
    }
    y = tv_onnx_reshape(n, normalize(n, flat, epsilon), &dims);
    y = tv_onnx_emit2(n, TV_OP_MUL, y, scale);
    tv_onnx_output(n, 0, shift == TV_NO_VALUE ? y : tv_onnx_emit2(n, TV_OP_ADD, y, shift));
}

void tv_onnx_import_mean_variance_norm(tv_onnx_node *n)
{
    static const int64_t missing[] = {0, 2, 3};
    uint32_t x = tv_onnx_input(n, 0), perm[TV_GRAPH_RANK_MAX] = {0};
    tv_graph_shape dims = tv_onnx_dims(n, x);
    tv_onnx_list list = tv_onnx_ints(n, "axes");
    list = list.data ? list : (tv_onnx_list){missing, 3};
    uint32_t moved = tv_onnx_axes_last(n, x, tv_onnx_axes(n, list, dims.rank), perm);
    tv_onnx_output(n, 0, tv_onnx_axes_back(n, normalize(n, moved, 1e-9F), &dims, perm));
}

/* x / (bias + alpha / size * sum of squares of `size` neighbouring channels)^beta; the sum is an average pool of the
 * channels, in which padding counts, times the size. */
void tv_onnx_import_lrn(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    int64_t size = tv_onnx_int(n, "size", 0);
    if (tv_onnx_ok(n) && (dims.rank < 2 || size < 1 || size > INT32_MAX))
        tv_onnx_reject(n, TV_ONNX_INVALID, "the input has no channels, or the size is not valid");
    if (!tv_onnx_ok(n))
        return;
    tv_graph_shape planes = {4, {dims.dims[0], 1, dims.dims[1], product(&dims, 2)}};
    tv_graph_lists lists = {.kernel = {size, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    lists.pad_begin[0] = (size - 1) / 2;
    lists.pad_end[0] = size - 1 - lists.pad_begin[0];
    tv_element element = tv_onnx_element(n, x);
    uint32_t squares = tv_onnx_reshape(n, tv_onnx_emit2(n, TV_OP_MUL, x, x), &planes);
    uint32_t y = tv_onnx_emit(n, TV_OP_AVERAGE_POOL, &squares, 1, &(tv_graph_attrs){.lists = &lists, .mode = 1});
    y = tv_onnx_emit2(n, TV_OP_MUL, y, tv_onnx_scalar(n, element, (double)tv_onnx_float(n, "alpha", 0.0001F)));
    y = tv_onnx_emit2(n, TV_OP_ADD, y, tv_onnx_scalar(n, element, (double)tv_onnx_float(n, "bias", 1)));
    y = tv_onnx_emit2(n, TV_OP_POW, y, tv_onnx_scalar(n, element, (double)tv_onnx_float(n, "beta", 0.75F)));
    tv_onnx_output(n, 0, tv_onnx_emit2(n, TV_OP_DIV, x, tv_onnx_reshape(n, y, &dims)));
}
