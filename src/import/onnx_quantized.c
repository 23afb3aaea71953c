/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized operators, composed of real and integer ones. Products whose result is quantized are real products of
 * dequantized operands, so that machines see scales only; those whose result is int32 are exact. */
#include <inttypes.h>

#include "import/onnx_products.h"
#include "import/onnx_table.h"

/* ---- QuantizeLinear and DequantizeLinear ---- */

/* The axis of the scales, which matters if there are several, and the length of blocks. */
static tv_graph_attrs scale_attributes(const tv_onnx_node *n, uint32_t x, uint32_t scale, int64_t axis)
{
    tv_graph_attrs attrs = {.to = TV_ELEMENT_U8};
    int64_t block = tv_onnx_int(n, "block_size", 0);
    if (tv_onnx_count(n, scale) > 1 || tv_onnx_dims(n, scale).rank > 0)
        attrs.axis = tv_onnx_count(n, scale) > 1 ? tv_onnx_axis(n, axis, tv_onnx_dims(n, x).rank) : 0;
    if (block < 0 || block > INT32_MAX)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the block size %" PRId64 " is not valid", block);
    attrs.mode = (uint32_t)block;
    return attrs;
}

static uint32_t dequantize(tv_onnx_node *n, uint32_t x, uint32_t scale, uint32_t zero, int64_t axis)
{
    tv_graph_attrs attrs = scale_attributes(n, x, scale, axis);
    return tv_onnx_emit(n, TV_OP_DEQUANTIZE_LINEAR, (uint32_t[]){x, scale, zero}, 3, &attrs);
}

static uint32_t quantize(tv_onnx_node *n, uint32_t x, uint32_t scale, uint32_t zero)
{
    tv_graph_attrs attrs = scale_attributes(n, x, scale, 1);
    return tv_onnx_emit(n, TV_OP_QUANTIZE_LINEAR, (uint32_t[]){x, scale, zero}, 3, &attrs);
}

void tv_onnx_import_quantize_linear(tv_onnx_node *n)
{
    uint32_t inputs[] = {tv_onnx_input(n, 0), tv_onnx_input(n, 1), tv_onnx_input(n, 2)};
    tv_graph_attrs attrs = scale_attributes(n, inputs[0], inputs[1], tv_onnx_int(n, "axis", 1));
    int64_t type = tv_onnx_int(n, "output_dtype", 0);
    if (type && (type != (int32_t)type || !tv_element_of_onnx((int32_t)type, &attrs.to)))
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the element type %" PRId64 " of ONNX is not supported", type);
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_QUANTIZE_LINEAR, inputs, 3, &attrs));
}

void tv_onnx_import_dequantize_linear(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), scale = tv_onnx_input(n, 1), zero = tv_onnx_input(n, 2);
    tv_onnx_output(n, 0, dequantize(n, x, scale, zero, tv_onnx_int(n, "axis", 1)));
}

/* Scale and zero point from the range of the input and 0; they are scalars. */
void tv_onnx_import_dynamic_quantize_linear(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    uint32_t axes = (UINT32_C(1) << tv_onnx_dims(n, x).rank) - 1, zero = tv_onnx_scalar(n, TV_ELEMENT_F32, 0);
    uint32_t max = tv_onnx_emit2(n, TV_OP_MAX, tv_onnx_reduce(n, x, axes, false, TV_OP_REDUCE_MAX), zero),
             min = tv_onnx_emit2(n, TV_OP_MIN, tv_onnx_reduce(n, x, axes, false, TV_OP_REDUCE_MIN), zero);
    uint32_t range = tv_onnx_emit2(n, TV_OP_SUB, max, min);
    uint32_t scale = tv_onnx_emit2(n, TV_OP_DIV, range, tv_onnx_scalar(n, TV_ELEMENT_F32, 255));
    uint32_t point = quantize(n, tv_onnx_emit1(n, TV_OP_NEG, min), scale, TV_NO_VALUE);
    tv_onnx_output(n, 0, quantize(n, x, scale, point));
    tv_onnx_output(n, 1, scale);
    tv_onnx_output(n, 2, point);
}

/* ---- Products with quantized results ---- */

/* The operand of inputs k, k + 1 (scale) and k + 2 (zero point). */
static uint32_t operand(tv_onnx_node *n, size_t k, int64_t axis)
{
    uint32_t x = tv_onnx_input(n, k), scale = tv_onnx_input(n, k + 1), zero = tv_onnx_input(n, k + 2);
    return dequantize(n, x, scale, zero, axis);
}

/* Quantizes a result with the scale of input k and the zero point of k + 1. */
static void quantized_output(tv_onnx_node *n, uint32_t y, size_t k)
{
    uint32_t scale = tv_onnx_input(n, k), zero = tv_onnx_input(n, k + 1);
    tv_onnx_output(n, 0, quantize(n, y, scale, zero));
}

void tv_onnx_import_qlinear_conv(tv_onnx_node *n)
{
    uint32_t x = operand(n, 0, 1), weights = operand(n, 3, 0), bias = TV_NO_VALUE;
    if (tv_onnx_has(n, 8)) {
        uint32_t scale = tv_onnx_emit2(n, TV_OP_MUL, tv_onnx_input(n, 1), tv_onnx_input(n, 4));
        bias = dequantize(n, tv_onnx_input(n, 8), scale, TV_NO_VALUE, 0);
    }
    quantized_output(n, tv_onnx_convolution(n, x, weights, bias), 6);
}

void tv_onnx_import_qlinear_matmul(tv_onnx_node *n)
{
    uint32_t a = operand(n, 0, -2), b = operand(n, 3, -1);
    quantized_output(n, tv_onnx_product(n, a, b), 6);
}

/* QLinearAdd and QLinearMul of com.microsoft. */
void tv_onnx_import_qlinear_binary(tv_onnx_node *n)
{
    uint32_t a = operand(n, 0, 1), b = operand(n, 3, 1);
    quantized_output(n, tv_onnx_emit2(n, n->row->op, a, b), 6);
}

/* ---- Products with int32 results ---- */

/* An operand as int32 without its zero point, which has the extents `dims` where it has several. */
static uint32_t centered(tv_onnx_node *n, size_t input, size_t zero_input, const tv_graph_shape *dims)
{
    uint32_t x = tv_onnx_cast(n, tv_onnx_input(n, input), TV_ELEMENT_I32);
    if (!tv_onnx_has(n, zero_input))
        return x;
    uint32_t zero = tv_onnx_cast(n, tv_onnx_input(n, zero_input), TV_ELEMENT_I32);
    const tv_graph_shape one = {0};
    return tv_onnx_emit2(n, TV_OP_SUB, x, tv_onnx_reshape(n, zero, tv_onnx_count(n, zero) == 1 ? &one : dims));
}

void tv_onnx_import_conv_integer(tv_onnx_node *n)
{
    tv_graph_shape w = tv_onnx_dims(n, tv_onnx_input(n, 1)), channels = {.rank = w.rank, .dims = {w.dims[0]}};
    for (uint32_t i = 1; i < w.rank; i++)
        channels.dims[i] = 1;
    uint32_t x = centered(n, 0, 2, &(tv_graph_shape){0}), weights = centered(n, 1, 3, &channels);
    tv_onnx_output(n, 0, tv_onnx_convolution(n, x, weights, TV_NO_VALUE));
}

void tv_onnx_import_matmul_integer(tv_onnx_node *n)
{
    tv_graph_shape a = tv_onnx_dims(n, tv_onnx_input(n, 0)), b = tv_onnx_dims(n, tv_onnx_input(n, 1));
    tv_graph_shape rows = {2, {a.rank > 1 ? a.dims[a.rank - 2] : 1, 1}},
                   columns = {1, {b.rank ? b.dims[b.rank - 1] : 1}};
    uint32_t x = centered(n, 0, 2, &rows), y = centered(n, 1, 3, &columns);
    tv_onnx_output(n, 0, tv_onnx_product(n, x, y));
}

/* ---- MatMulNBits of com.microsoft ---- */

/* A matrix [rows][columns] of numbers of `bits` bits, in blocks with a scale and a zero point each. */
typedef struct blocks {
    const tv_tensor *packed, *scales, *zeros; /* zeros: packed, of the type of the scales, or NULL */
    uint64_t rows, columns, bits, size, count;
} blocks;

/* Element `at` of row-major packed numbers, whose rows begin with a byte. */
static int64_t unpack(const tv_tensor *t, uint64_t row_bytes, uint64_t row, uint64_t at, uint64_t bits)
{
    uint64_t bit = at * bits;
    int64_t byte = tv_tensor_integer(t, row * row_bytes + bit / 8);
    return byte >> (bit % 8) & ((1 << bits) - 1);
}

static double zero_of(const blocks *b, uint64_t row, uint64_t block)
{
    if (!b->zeros)
        return (double)(1 << (b->bits - 1));
    if (tv_is_real_element(b->zeros->element))
        return tv_tensor_real(b->zeros, row * b->count + block);
    return (double)unpack(b->zeros, (b->count * b->bits + 7) / 8, row, block, b->bits);
}

static bool blocks_fit(const blocks *b)
{
    uint64_t zeros = b->zeros && tv_is_real_element(b->zeros->element) ? b->count : (b->count * b->bits + 7) / 8;
    return tv_tensor_count(b->packed) == b->rows * b->count * (b->size * b->bits / 8) &&
           tv_tensor_count(b->scales) == b->rows * b->count && tv_is_real_element(b->scales->element) &&
           !tv_is_real_element(b->packed->element) && (!b->zeros || tv_tensor_count(b->zeros) == b->rows * zeros);
}

static uint32_t unpack_matrix(tv_onnx_node *n, const blocks *b)
{
    tv_tensor t;
    tv_graph_shape dims = {2, {(int64_t)b->rows, (int64_t)b->columns}};
    if (!tv_onnx_tensor_init(n, TV_ELEMENT_F32, &dims, &t))
        return TV_NO_VALUE;
    for (uint64_t row = 0; row < b->rows; row++)
        for (uint64_t k = 0; k < b->columns; k++) {
            uint64_t block = k / b->size;
            double q = (double)unpack(b->packed, b->count * (b->size * b->bits / 8), row, k, b->bits);
            double scale = tv_tensor_real(b->scales, row * b->count + block);
            tv_tensor_set_real(&t, row * b->columns + k, (q - zero_of(b, row, block)) * scale);
        }
    return tv_onnx_tensor(n, &t);
}

static bool is_power_of_2(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

void tv_onnx_import_matmul_n_bits(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), bias = tv_onnx_input(n, 5);
    int64_t rows = tv_onnx_int(n, "N", 0), columns = tv_onnx_int(n, "K", 0), bits = tv_onnx_int(n, "bits", 4),
            size = tv_onnx_int(n, "block_size", 0);
    blocks b = {tv_onnx_data(n, tv_onnx_input(n, 1)),
                tv_onnx_data(n, tv_onnx_input(n, 2)),
                tv_onnx_data(n, tv_onnx_input(n, 3)),
                (uint64_t)rows,
                (uint64_t)columns,
                (uint64_t)bits,
                (uint64_t)size,
                0};
    if (tv_onnx_has(n, 4))
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the order of groups (g_idx) is not supported");
    if (!b.packed || !b.scales || (tv_onnx_has(n, 3) && !b.zeros))
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the weights, scales and zero points are not all constants");
    if (rows < 1 || rows > INT32_MAX || columns < 1 || columns > INT32_MAX || !(bits == 2 || bits == 4 || bits == 8) ||
        size < 16 || size > INT32_MAX || !is_power_of_2(size))
        tv_onnx_reject(n, TV_ONNX_INVALID, "N, K, bits or block_size is out of range");
    if (!tv_onnx_ok(n))
        return;
    b.count = (b.columns + b.size - 1) / b.size;
    if (!blocks_fit(&b)) {
        tv_onnx_reject(n, TV_ONNX_INVALID, "the weights, scales or zero points have not the size of the matrix");
        return;
    }
    uint32_t y = tv_onnx_emit2(n, TV_OP_GEMM, x, unpack_matrix(n, &b));
    tv_onnx_output(n, 0, bias == TV_NO_VALUE ? y : tv_onnx_emit2(n, TV_OP_ADD, y, bias));
}
