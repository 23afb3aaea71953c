/* SPDX-License-Identifier: Apache-2.0 */
/* Products and convolutions. A product with a constant matrix is Gemm with the transposed constant; other products are
 * MatMul. */
#include <inttypes.h>

#include "import/onnx_products.h"
#include "import/onnx_table.h"
#include "import/onnx_windows.h"

/* ---- Matrices ---- */

static bool is_constant_matrix(const tv_onnx_node *n, uint32_t x)
{
    return tv_onnx_is_constant(n, x) && tv_onnx_dims(n, x).rank == 2 && tv_onnx_count(n, x) > 0 &&
           tv_is_real_element(tv_onnx_element(n, x));
}

uint32_t tv_onnx_product(tv_onnx_node *n, uint32_t a, uint32_t b)
{
    tv_graph_shape x = tv_onnx_dims(n, a), y = tv_onnx_dims(n, b);
    if (!tv_onnx_ok(n))
        return TV_NO_VALUE;
    if (!x.rank || !y.rank)
        return tv_onnx_reject(n, TV_ONNX_INVALID, "an operand is a scalar");
    if (is_constant_matrix(n, b) && tv_onnx_count(n, a) > 0 && !tv_onnx_is_constant(n, a))
        return tv_onnx_emit2(n, TV_OP_GEMM, a, tv_onnx_cast(n, tv_onnx_matrix_transpose(n, b), TV_ELEMENT_F32));
    if (x.rank >= 2 && y.rank >= 2)
        return tv_onnx_emit2(n, TV_OP_MATMUL, a, b);
    if (x.rank == 1)
        a = tv_onnx_reshape(n, a, &(tv_graph_shape){2, {1, x.dims[0]}});
    if (y.rank == 1)
        b = tv_onnx_reshape(n, b, &(tv_graph_shape){2, {y.dims[0], 1}});
    uint32_t product = tv_onnx_product(n, a, b);
    tv_graph_shape out = tv_onnx_dims(n, product), to = {0};
    for (uint32_t i = 0; i < out.rank; i++) /* without the axes that were added */
        if (!(i + 2 == out.rank && x.rank == 1) && !(i + 1 == out.rank && y.rank == 1))
            to.dims[to.rank++] = out.dims[i];
    return tv_onnx_reshape(n, product, &to);
}

void tv_onnx_import_matmul(tv_onnx_node *n)
{
    uint32_t a = tv_onnx_input(n, 0), b = tv_onnx_input(n, 1);
    tv_onnx_output(n, 0, tv_onnx_product(n, a, b));
}

static uint32_t scaled(tv_onnx_node *n, uint32_t x, float factor)
{
    if (factor == 1 || !tv_onnx_ok(n))
        return x;
    tv_element element = tv_onnx_element(n, x);
    uint32_t f = tv_is_real_element(element) ? tv_onnx_scalar(n, element, (double)factor)
                                             : tv_onnx_integer_scalar(n, element, (int64_t)factor);
    return tv_onnx_emit2(n, TV_OP_MUL, x, f);
}

static uint32_t exchange_last(tv_onnx_node *n, uint32_t x)
{
    uint32_t perm[TV_GRAPH_RANK_MAX], rank = tv_onnx_dims(n, x).rank;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = rank < 2 || i + 2 < rank ? i : 2 * rank - 3 - i;
    return rank == 2 && tv_onnx_is_constant(n, x) ? tv_onnx_matrix_transpose(n, x) : tv_onnx_transpose(n, x, perm);
}

/* The bias of a Gemm: a constant vector with one element for each column. */
static bool is_bias(const tv_onnx_node *n, uint32_t c, int64_t columns)
{
    tv_graph_shape dims = tv_onnx_dims(n, c);
    return tv_onnx_is_constant(n, c) && dims.rank >= 1 && dims.dims[dims.rank - 1] == columns &&
           tv_onnx_count(n, c) == (uint64_t)columns && columns > 0;
}

void tv_onnx_import_gemm(tv_onnx_node *n)
{
    uint32_t a = tv_onnx_input(n, 0), b = tv_onnx_input(n, 1), y;
    uint32_t c = scaled(n, tv_onnx_input(n, 2), tv_onnx_has(n, 2) ? tv_onnx_float(n, "beta", 1) : 1);
    float alpha = tv_onnx_float(n, "alpha", 1);
    bool rows_first = tv_onnx_int(n, "transB", 0) != 0;
    if (tv_onnx_ok(n) && (tv_onnx_dims(n, a).rank != 2 || tv_onnx_dims(n, b).rank != 2))
        tv_onnx_reject(n, TV_ONNX_INVALID, "an operand is no matrix");
    if (tv_onnx_int(n, "transA", 0))
        a = exchange_last(n, a);
    if (is_constant_matrix(n, b) && tv_onnx_count(n, a) > 0 && !tv_onnx_is_constant(n, a)) {
        b = scaled(n, rows_first ? b : exchange_last(n, b), alpha);
        int64_t columns = tv_onnx_dims(n, b).dims[0];
        bool bias = is_bias(n, c, columns);
        if (bias)
            c = tv_onnx_cast(n, tv_onnx_reshape(n, c, &(tv_graph_shape){1, {columns}}), TV_ELEMENT_F32);
        b = tv_onnx_cast(n, b, TV_ELEMENT_F32);
        y = tv_onnx_emit(n, TV_OP_GEMM, (uint32_t[]){a, b, bias ? c : TV_NO_VALUE}, 3, NULL);
        c = bias ? TV_NO_VALUE : c;
    } else {
        y = tv_onnx_emit2(n, TV_OP_MATMUL, a, rows_first ? exchange_last(n, b) : b);
        y = scaled(n, tv_onnx_cast(n, y, tv_onnx_element(n, a)), alpha);
    }
    tv_onnx_output(n, 0, c == TV_NO_VALUE ? y : tv_onnx_emit2(n, TV_OP_ADD, y, c));
}

void tv_onnx_import_fused_matmul(tv_onnx_node *n)
{
    uint32_t a = tv_onnx_input(n, 0), b = tv_onnx_input(n, 1);
    if (tv_onnx_int(n, "transBatchA", 0) || tv_onnx_int(n, "transBatchB", 0))
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "transposed batches are not supported");
    if (tv_onnx_int(n, "transA", 0))
        a = exchange_last(n, a);
    if (tv_onnx_int(n, "transB", 0))
        b = exchange_last(n, b);
    tv_onnx_output(n, 0, scaled(n, tv_onnx_product(n, a, b), tv_onnx_float(n, "alpha", 1)));
}

/* ---- Convolutions ---- */

static uint32_t groups_of(const tv_onnx_node *n)
{
    int64_t groups = tv_onnx_int(n, "group", 1);
    if (groups < 1 || groups > INT32_MAX)
        tv_onnx_reject(n, TV_ONNX_INVALID, "%" PRId64 " groups are not possible", groups);
    return groups < 1 || groups > INT32_MAX ? 1 : (uint32_t)groups;
}

uint32_t tv_onnx_convolution(tv_onnx_node *n, uint32_t x, uint32_t weights, uint32_t bias)
{
    tv_graph_lists lists;
    uint32_t inputs[] = {x, weights, bias};
    if (!tv_onnx_window(n, x, weights, &lists))
        return TV_NO_VALUE;
    return tv_onnx_emit(n, TV_OP_CONV, inputs, 3, &(tv_graph_attrs){.lists = &lists, .groups = groups_of(n)});
}

void tv_onnx_import_conv(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), weights = tv_onnx_input(n, 1), bias = tv_onnx_input(n, 2);
    tv_onnx_output(n, 0, tv_onnx_convolution(n, x, weights, bias));
}

/* Padding that gives a stated output; where there is none to remove, elements are added after. */
static void fit_output(int64_t extent, int64_t output, uint32_t axis, bool upper, tv_graph_lists *l)
{
    int64_t total = (extent - 1) * l->stride[axis] + l->output_padding[axis] +
                    (l->kernel[axis] - 1) * l->dilation[axis] + 1 - output;
    if (total < 0)
        l->output_padding[axis] -= total;
    total = total < 0 ? 0 : total;
    l->pad_begin[axis] = upper ? total / 2 : total - total / 2;
    l->pad_end[axis] = total - l->pad_begin[axis];
}

void tv_onnx_import_conv_transpose(tv_onnx_node *n)
{
    tv_graph_lists lists;
    uint32_t inputs[] = {tv_onnx_input(n, 0), tv_onnx_input(n, 1), tv_onnx_input(n, 2)};
    tv_graph_shape dims = tv_onnx_dims(n, inputs[0]);
    if (!tv_onnx_window(n, inputs[0], inputs[1], &lists))
        return;
    uint32_t spatial = dims.rank - 2;
    tv_onnx_list output = tv_onnx_ints(n, "output_shape"), added = tv_onnx_ints(n, "output_padding");
    bool upper = tv_onnx_text_is(n, "auto_pad", "NOTSET", "SAME_UPPER"),
         same = upper || tv_onnx_text_is(n, "auto_pad", "NOTSET", "SAME_LOWER");
    if ((output.data && output.count < spatial) || (added.data && added.count != spatial))
        tv_onnx_reject(n, TV_ONNX_INVALID, "output_shape or output_padding has not one number for each spatial axis");
    for (uint32_t i = 0; i < spatial && tv_onnx_ok(n); i++) {
        int64_t extent = dims.dims[2 + i];
        int64_t extent_out = output.data ? output.data[output.count - spatial + i] : extent * lists.stride[i];
        lists.output_padding[i] = added.data ? added.data[i] : 0;
        if (extent_out < 0 || extent_out >= INT32_MAX || lists.output_padding[i] < 0 ||
            lists.output_padding[i] >= INT32_MAX)
            tv_onnx_reject(n, TV_ONNX_INVALID, "output_shape or output_padding is out of range");
        else if (output.data || same)
            fit_output(extent, extent_out, i, upper, &lists);
    }
    tv_graph_attrs attrs = {.lists = &lists, .groups = groups_of(n)};
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_CONV_TRANSPOSE, inputs, 3, &attrs));
}
