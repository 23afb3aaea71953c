/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that compute each element from those at its position. */
#include <math.h>

#include "import/onnx_table.h"

/* ---- One operand ---- */

void tv_onnx_import_unary(tv_onnx_node *n) { tv_onnx_output(n, 0, tv_onnx_emit1(n, n->row->op, tv_onnx_input(n, 0))); }

/* Names and defaults of the attributes alpha and beta of operators. */
static const struct {
    tv_graph_op op;
    const char *alpha, *beta;
    float missing_alpha, missing_beta;
} attributes[] = {
    {TV_OP_LEAKY_RELU, "alpha", NULL, 0.01F, 0},
    {TV_OP_HARD_SIGMOID, "alpha", "beta", 0.2F, 0.5F},
    {TV_OP_ELU, "alpha", NULL, 1, 1},
    {TV_OP_SELU, "alpha", "gamma", 1.67326319217681884765625F, 1.05070102214813232421875F},
    {TV_OP_THRESHOLDED_RELU, "alpha", NULL, 1, 0},
    {TV_OP_SHRINK, "bias", "lambd", 0, 0.5F},
};

void tv_onnx_import_parameters(tv_onnx_node *n)
{
    tv_graph_attrs attrs = {0};
    uint32_t x = tv_onnx_input(n, 0);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].op == n->row->op) {
            attrs.alpha = tv_onnx_float(n, attributes[i].alpha, attributes[i].missing_alpha);
            attrs.beta = attributes[i].beta ? tv_onnx_float(n, attributes[i].beta, attributes[i].missing_beta)
                                            : attributes[i].missing_beta;
        }
    tv_onnx_output(n, 0, tv_onnx_emit(n, n->row->op, &x, 1, &attrs));
}

void tv_onnx_import_celu(tv_onnx_node *n)
{
    float alpha = tv_onnx_float(n, "alpha", 1);
    uint32_t x = tv_onnx_input(n, 0);
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_ELU, &x, 1, &(tv_graph_attrs){.alpha = alpha, .beta = alpha}));
}

void tv_onnx_import_gelu(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    bool approximate = tv_onnx_text_is(n, "approximate", "none", "tanh");
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_GELU, &x, 1, &(tv_graph_attrs){.approximate = approximate}));
}

/* x tanh(softplus(x)) */
void tv_onnx_import_mish(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), y = tv_onnx_emit1(n, TV_OP_TANH, tv_onnx_emit1(n, TV_OP_SOFTPLUS, x));
    tv_onnx_output(n, 0, tv_onnx_emit2(n, TV_OP_MUL, x, y));
}

void tv_onnx_import_is_inf(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_attrs attrs = {.alpha = (float)(tv_onnx_int(n, "detect_negative", 1) != 0),
                            .beta = (float)(tv_onnx_int(n, "detect_positive", 1) != 0)};
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_IS_INF, &x, 1, &attrs));
}

void tv_onnx_import_identity(tv_onnx_node *n) { tv_onnx_output(n, 0, tv_onnx_input(n, 0)); }

/* At inference the input, and a mask of what is kept: all. */
void tv_onnx_import_dropout(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    bool training = n->opset >= 12 ? tv_onnx_integer(n, 2, 0) != 0 : n->opset < 7 && !tv_onnx_int(n, "is_test", 0);
    double ratio = n->opset >= 12 && training ? tv_onnx_real(n, 1, 0.5) : 1;
    if (training && ratio != 0)
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "training is not supported");
    tv_onnx_output(n, 0, x);
    if (!tv_onnx_has_output(n, 1))
        return;
    tv_graph_shape dims = tv_onnx_dims(n, x);
    tv_element element = n->opset < 10 ? tv_onnx_element(n, x) : TV_ELEMENT_BOOL;
    tv_onnx_output(n, 1, tv_onnx_expand(n, tv_onnx_integer_scalar(n, element, 1), &dims));
}

static tv_element attribute_element(const tv_onnx_node *n, const char *name, int64_t missing)
{
    tv_element to = TV_ELEMENT_F32;
    int64_t number = tv_onnx_int(n, name, missing);
    if (number != (int32_t)number || !tv_element_of_onnx((int32_t)number, &to))
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the element type %d of ONNX is not supported", (int)number);
    return to;
}

void tv_onnx_import_cast(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_onnx_output(n, 0, tv_onnx_cast(n, x, attribute_element(n, "to", 0)));
}

void tv_onnx_import_cast_like(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_onnx_output(n, 0, tv_onnx_cast(n, x, tv_onnx_element(n, tv_onnx_input(n, 1))));
}

/* ---- Clip ---- */

/* Bounds that are not known, or of integers, by Max and Min. */
static uint32_t clip_values(tv_onnx_node *n, uint32_t x)
{
    if (tv_onnx_has(n, 1))
        x = tv_onnx_emit2(n, TV_OP_MAX, x, tv_onnx_input(n, 1));
    return tv_onnx_has(n, 2) ? tv_onnx_emit2(n, TV_OP_MIN, x, tv_onnx_input(n, 2)) : x;
}

void tv_onnx_import_clip(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    bool known = (!tv_onnx_has(n, 1) || tv_onnx_data(n, tv_onnx_input(n, 1))) &&
                 (!tv_onnx_has(n, 2) || tv_onnx_data(n, tv_onnx_input(n, 2)));
    if (!known || !tv_is_real_element(tv_onnx_element(n, x))) {
        tv_onnx_output(n, 0, clip_values(n, x));
        return;
    }
    tv_graph_attrs attrs = {.alpha = (float)tv_onnx_real(n, 1, -INFINITY), .beta = (float)tv_onnx_real(n, 2, INFINITY)};
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_CLIP, &x, 1, &attrs));
}

void tv_onnx_import_clip_6(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_attrs attrs = {.alpha = tv_onnx_float(n, "min", -INFINITY), .beta = tv_onnx_float(n, "max", INFINITY)};
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_CLIP, &x, 1, &attrs));
}

/* ---- Several operands ---- */

void tv_onnx_import_binary(tv_onnx_node *n)
{
    uint32_t a = tv_onnx_input(n, 0), b = tv_onnx_input(n, 1);
    tv_onnx_output(n, 0, tv_onnx_emit2(n, n->row->op, a, b));
}

void tv_onnx_import_swapped(tv_onnx_node *n)
{
    uint32_t a = tv_onnx_input(n, 0), b = tv_onnx_input(n, 1);
    tv_onnx_output(n, 0, tv_onnx_emit2(n, n->row->op, b, a));
}

/* Up to opset 6 the second operand begins at an axis of the first one. */
void tv_onnx_import_binary_6(tv_onnx_node *n)
{
    uint32_t a = tv_onnx_input(n, 0), b = tv_onnx_input(n, 1);
    tv_graph_shape x = tv_onnx_dims(n, a), y = tv_onnx_dims(n, b);
    if (tv_onnx_int(n, "broadcast", 0) && tv_onnx_attribute(n, "axis")) {
        uint32_t axis = tv_onnx_axis(n, tv_onnx_int(n, "axis", 0), x.rank);
        while (tv_onnx_ok(n) && y.rank + axis < x.rank)
            y.dims[y.rank++] = 1;
        b = tv_onnx_reshape(n, b, &y);
    }
    tv_onnx_output(n, 0, tv_onnx_emit2(n, n->row->op, a, b));
}

/* The slopes of channels, up to opset 6, are a vector. */
void tv_onnx_import_prelu(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), slopes = tv_onnx_input(n, 1);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    if (n->opset < 7 && dims.rank > 2 && tv_onnx_count(n, slopes) > 1)
        slopes = tv_onnx_channels(n, slopes, dims.rank - 2);
    tv_onnx_output(n, 0, tv_onnx_emit2(n, TV_OP_PRELU, x, slopes));
}

void tv_onnx_import_variadic(tv_onnx_node *n)
{
    uint32_t y = tv_onnx_input(n, 0);
    for (size_t i = 1; i < n->proto->n_input && tv_onnx_ok(n); i++)
        y = tv_onnx_emit2(n, n->row->op, y, tv_onnx_input(n, i));
    tv_onnx_output(n, 0, y);
}

void tv_onnx_import_mean(tv_onnx_node *n)
{
    uint32_t y = tv_onnx_input(n, 0);
    for (size_t i = 1; i < n->proto->n_input && tv_onnx_ok(n); i++)
        y = tv_onnx_emit2(n, TV_OP_ADD, y, tv_onnx_input(n, i));
    uint32_t count = tv_onnx_scalar(n, tv_onnx_element(n, y), (double)n->proto->n_input);
    tv_onnx_output(n, 0, tv_onnx_emit2(n, TV_OP_DIV, y, count));
}

void tv_onnx_import_mod(tv_onnx_node *n)
{
    uint32_t inputs[] = {tv_onnx_input(n, 0), tv_onnx_input(n, 1)};
    tv_graph_attrs attrs = {.mode = tv_onnx_int(n, "fmod", 0) != 0};
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_MOD, inputs, 2, &attrs));
}

void tv_onnx_import_bit_shift(tv_onnx_node *n)
{
    uint32_t inputs[] = {tv_onnx_input(n, 0), tv_onnx_input(n, 1)};
    tv_graph_attrs attrs = {.mode = tv_onnx_text_is(n, "direction", "", "RIGHT")};
    if (!attrs.mode && !tv_onnx_text_is(n, "direction", "", "LEFT"))
        tv_onnx_reject(n, TV_ONNX_INVALID, "the direction is neither LEFT nor RIGHT");
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_SHIFT, inputs, 2, &attrs));
}

void tv_onnx_import_where(tv_onnx_node *n)
{
    uint32_t inputs[] = {tv_onnx_input(n, 0), tv_onnx_input(n, 1), tv_onnx_input(n, 2)};
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_WHERE, inputs, 3, NULL));
}
