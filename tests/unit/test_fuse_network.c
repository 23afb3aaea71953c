/* SPDX-License-Identifier: Apache-2.0 */
/* Fusion in networks that are no language models: which nodes are left, and that the fused graph computes the same, up
 * to rounding. Expected values come from the graph without fusion. */
#include "graph/passes.h"
#include "network_maker.h"

static uint32_t random_constant(maker *m, uint32_t rank, const int64_t *dims, float offset, bool data)
{
    tv_tensor t;
    assert_int_equal(tv_tensor_init(&t, TV_ELEMENT_F32, rank, dims, NULL), TV_OK);
    for (uint64_t i = 0; i < tv_tensor_count(&t); i++)
        ((float *)t.data)[i] = offset + next_number(&m->rng);
    tv_tensor copy = t;
    if (!data)
        copy.data = NULL;
    uint32_t value = tv_graph_tensor(&m->b, "c", &copy, false);
    tv_tensor_fini(&t);
    return value;
}

static uint32_t vector(maker *m, int64_t n) { return random_constant(m, 1, &n, 2, true); }

static uint32_t per_channel(maker *m, int64_t channels)
{
    return random_constant(m, 3, (int64_t[]){channels, 1, 1}, 2, true);
}

static uint32_t conv3(maker *m, uint32_t x, int64_t out, int64_t in, uint32_t groups)
{
    tv_graph_lists lists = {
        .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .pad_begin = {1, 1}, .pad_end = {1, 1}};
    uint32_t w = random_constant(m, 4, (int64_t[]){out, in / groups, 3, 3}, 0, true);
    return tv_graph_add(&m->b, TV_OP_CONV, "conv", (uint32_t[]){x, w}, 2,
                        &(tv_graph_attrs){.lists = &lists, .groups = groups});
}

static uint32_t conv_transpose(maker *m, uint32_t x, int64_t in, int64_t out, uint32_t groups)
{
    tv_graph_lists lists = {.kernel = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    uint32_t w = random_constant(m, 4, (int64_t[]){in, out / groups, 2, 2}, 0, true);
    return tv_graph_add(&m->b, TV_OP_CONV_TRANSPOSE, "up", (uint32_t[]){x, w}, 2,
                        &(tv_graph_attrs){.lists = &lists, .groups = groups});
}

static uint32_t gemm(maker *m, uint32_t x, int64_t rows, int64_t columns)
{
    return op2(m, TV_OP_GEMM, x, random_constant(m, 2, (int64_t[]){rows, columns}, 0, true));
}

/* ---- Networks: x is [1][6][5][4] or, of `rows`, [3][8] ---- */

static uint32_t conv_batch_norm_relu(maker *m)
{
    uint32_t y = op2(m, TV_OP_MUL, conv3(m, m->x, 4, 6, 2), per_channel(m, 4));
    return op1(m, TV_OP_RELU, op2(m, TV_OP_ADD, per_channel(m, 4), y));
}

static uint32_t conv_affine_backwards(maker *m)
{
    uint32_t y = op2(m, TV_OP_DIV, conv3(m, m->x, 4, 6, 1), per_channel(m, 4));
    return op2(m, TV_OP_SUB, op2(m, TV_OP_ADD, y, scalar(m, 1.5F)), per_channel(m, 4));
}

static uint32_t conv_residual_clip(maker *m)
{
    uint32_t y = op2(m, TV_OP_ADD, conv3(m, m->x, 6, 6, 6), m->x);
    return tv_graph_add(&m->b, TV_OP_CLIP, "y", &y, 1, &(tv_graph_attrs){.alpha = -1, .beta = 2});
}

/* The product is read twice, so neither reader is folded. */
static uint32_t conv_read_twice(maker *m)
{
    uint32_t y = conv3(m, m->x, 6, 6, 1);
    return op2(m, TV_OP_ADD, op2(m, TV_OP_MUL, y, per_channel(m, 6)), y);
}

/* c - y and c / y are no scale and shift of a product. */
static uint32_t conv_as_second_operand(maker *m)
{
    uint32_t y = op2(m, TV_OP_SUB, per_channel(m, 4), conv3(m, m->x, 4, 6, 1));
    return op2(m, TV_OP_DIV, scalar(m, 3), op1(m, TV_OP_EXP, y));
}

/* Along another axis than the channels. */
static uint32_t conv_other_axis(maker *m)
{
    return op2(m, TV_OP_MUL, conv3(m, m->x, 4, 6, 1), random_constant(m, 2, (int64_t[]){5, 1}, 2, true));
}

static uint32_t up_batch_norm(maker *m)
{
    uint32_t y = op2(m, TV_OP_MUL, conv_transpose(m, m->x, 6, 4, 2), per_channel(m, 4));
    return op2(m, TV_OP_ADD, y, per_channel(m, 4));
}

static uint32_t linear_bias_relu(maker *m)
{
    return op1(m, TV_OP_RELU, op2(m, TV_OP_ADD, vector(m, 5), gemm(m, m->x, 5, 8)));
}

static uint32_t linear_bias_residual(maker *m)
{
    return op2(m, TV_OP_ADD, m->x, op2(m, TV_OP_ADD, gemm(m, m->x, 8, 8), vector(m, 8)));
}

static uint32_t layer_norm(maker *m, bool power)
{
    uint32_t d = op2(m, TV_OP_SUB, m->x, op1(m, TV_OP_REDUCE_MEAN, m->x));
    uint32_t square = power ? op2(m, TV_OP_POW, d, scalar(m, 2)) : op2(m, TV_OP_MUL, d, d);
    uint32_t variance = op1(m, TV_OP_REDUCE_MEAN, square);
    uint32_t y = op2(m, TV_OP_DIV, d, op1(m, TV_OP_SQRT, op2(m, TV_OP_ADD, variance, scalar(m, 1e-5F))));
    return op2(m, TV_OP_ADD, op2(m, TV_OP_MUL, vector(m, 8), y), vector(m, 8));
}

static uint32_t layer_norm_by_mul(maker *m) { return layer_norm(m, false); }
static uint32_t layer_norm_by_pow(maker *m) { return layer_norm(m, true); }

static uint32_t mean_square(maker *m)
{
    uint32_t mean = op1(m, TV_OP_REDUCE_MEAN, op2(m, TV_OP_MUL, m->x, m->x));
    return op1(m, TV_OP_SQRT, op2(m, TV_OP_ADD, scalar(m, 1e-6F), mean));
}

static uint32_t rms_norm_by_div(maker *m) { return op2(m, TV_OP_DIV, m->x, mean_square(m)); }

static uint32_t rms_norm_by_reciprocal(maker *m)
{
    uint32_t y = op2(m, TV_OP_MUL, m->x, op1(m, TV_OP_RECIPROCAL, mean_square(m)));
    return op2(m, TV_OP_MUL, y, vector(m, 8));
}

static uint32_t rms_norm_by_quotient(maker *m)
{
    return op2(m, TV_OP_MUL, op2(m, TV_OP_DIV, scalar(m, 1), mean_square(m)), m->x);
}

static uint32_t erf_plus_one(maker *m)
{
    uint32_t erf = op1(m, TV_OP_ERF, op2(m, TV_OP_DIV, m->x, scalar(m, 1.41421356F)));
    return op2(m, TV_OP_ADD, erf, scalar(m, 1));
}

static uint32_t gelu_half_last(maker *m)
{
    return op2(m, TV_OP_MUL, op2(m, TV_OP_MUL, m->x, erf_plus_one(m)), scalar(m, 0.5F));
}

static uint32_t gelu_half_first(maker *m)
{
    return op2(m, TV_OP_MUL, op2(m, TV_OP_MUL, scalar(m, 0.5F), m->x), erf_plus_one(m));
}

static uint32_t gelu_by_factor(maker *m)
{
    uint32_t erf = op1(m, TV_OP_ERF, op2(m, TV_OP_MUL, scalar(m, 0.70710678F), m->x));
    uint32_t y = op2(m, TV_OP_MUL, op2(m, TV_OP_ADD, scalar(m, 1), erf), scalar(m, 0.5F));
    return op2(m, TV_OP_MUL, m->x, y);
}

/* Of another value: no Gelu. */
static uint32_t erf_of_other(maker *m)
{
    uint32_t e = op1(m, TV_OP_EXP, m->x), y = op2(m, TV_OP_MUL, e, erf_plus_one(m));
    return op2(m, TV_OP_MUL, y, scalar(m, 0.5F));
}

static uint32_t swish(maker *m) { return op2(m, TV_OP_MUL, op1(m, TV_OP_SIGMOID, m->x), m->x); }

static uint32_t hard_swish(maker *m)
{
    tv_graph_attrs attrs = {.alpha = 1.0F / 6, .beta = 0.5F};
    return op2(m, TV_OP_MUL, m->x, tv_graph_add(&m->b, TV_OP_HARD_SIGMOID, "h", &m->x, 1, &attrs));
}

/* ---- Almost the same: not recognized ---- */

/* x / sqrt(mean(y) + epsilon) with a mean of some product y. */
static uint32_t deviation_of(maker *m, uint32_t square, uint32_t epsilon)
{
    return op1(m, TV_OP_SQRT, op2(m, TV_OP_ADD, op1(m, TV_OP_REDUCE_MEAN, square), epsilon));
}

static uint32_t square(maker *m, uint32_t x) { return op2(m, TV_OP_MUL, x, x); }

static uint32_t mean_of_another_product(maker *m)
{
    uint32_t e = op1(m, TV_OP_EXP, m->x);
    return op2(m, TV_OP_DIV, m->x, deviation_of(m, op2(m, TV_OP_MUL, m->x, e), scalar(m, 1e-5F)));
}

static uint32_t mean_of_cubes(maker *m)
{
    uint32_t cube = op1(m, TV_OP_ABS, op2(m, TV_OP_POW, m->x, scalar(m, 3)));
    return op2(m, TV_OP_DIV, m->x, deviation_of(m, cube, scalar(m, 1)));
}

static uint32_t epsilon_for_each_column(maker *m)
{
    return op2(m, TV_OP_DIV, m->x, deviation_of(m, square(m, m->x), vector(m, 8)));
}

static uint32_t deviation_of_another_value(maker *m)
{
    uint32_t e = op1(m, TV_OP_EXP, m->x);
    return op2(m, TV_OP_DIV, e, deviation_of(m, square(m, m->x), scalar(m, 1)));
}

static uint32_t root_of_no_sum(maker *m)
{
    return op2(m, TV_OP_DIV, m->x, op1(m, TV_OP_SQRT, op1(m, TV_OP_REDUCE_MEAN, square(m, op1(m, TV_OP_EXP, m->x)))));
}

static uint32_t two_over_the_deviation(maker *m)
{
    uint32_t inverse = op2(m, TV_OP_DIV, scalar(m, 2), deviation_of(m, square(m, m->x), scalar(m, 1)));
    return op2(m, TV_OP_MUL, m->x, inverse);
}

/* d is read once more, so LayerNormalization cannot replace it; d / sqrt(mean(d^2)) is still RMSNormalization. */
static uint32_t centered_read_again(maker *m)
{
    uint32_t d = op2(m, TV_OP_SUB, m->x, op1(m, TV_OP_REDUCE_MEAN, m->x));
    uint32_t y = op2(m, TV_OP_DIV, d, deviation_of(m, square(m, d), scalar(m, 1)));
    return op2(m, TV_OP_ADD, y, d);
}

static uint32_t mean_of_another_value(maker *m)
{
    uint32_t e = op1(m, TV_OP_EXP, m->x), d = op2(m, TV_OP_SUB, m->x, op1(m, TV_OP_REDUCE_MEAN, e));
    return op2(m, TV_OP_DIV, d, deviation_of(m, square(m, d), scalar(m, 1)));
}

static uint32_t norm(maker *m) { return op2(m, TV_OP_DIV, m->x, deviation_of(m, square(m, m->x), scalar(m, 1))); }

static uint32_t gain_after_bias(maker *m)
{
    return op2(m, TV_OP_MUL, op2(m, TV_OP_ADD, norm(m), vector(m, 8)), vector(m, 8));
}

static uint32_t two_gains(maker *m)
{
    return op2(m, TV_OP_MUL, op2(m, TV_OP_MUL, norm(m), vector(m, 8)), vector(m, 8));
}

static uint32_t gain_of_one_element(maker *m) { return op2(m, TV_OP_MUL, norm(m), scalar(m, 3)); }

static uint32_t gelu_without_half(maker *m)
{
    return op2(m, TV_OP_MUL, op2(m, TV_OP_MUL, m->x, erf_plus_one(m)), scalar(m, 0.25F));
}

static uint32_t erf_plus_two(maker *m)
{
    uint32_t erf = op1(m, TV_OP_ERF, op2(m, TV_OP_DIV, m->x, scalar(m, 1.41421356F)));
    uint32_t y = op2(m, TV_OP_MUL, m->x, op2(m, TV_OP_ADD, erf, scalar(m, 2)));
    return op2(m, TV_OP_MUL, y, scalar(m, 0.5F));
}

static uint32_t erf_of_half(maker *m)
{
    uint32_t erf = op1(m, TV_OP_ERF, op2(m, TV_OP_MUL, m->x, scalar(m, 0.5F)));
    uint32_t y = op2(m, TV_OP_MUL, m->x, op2(m, TV_OP_ADD, erf, scalar(m, 1)));
    return op2(m, TV_OP_MUL, scalar(m, 0.5F), y);
}

static uint32_t erf_of_the_value(maker *m)
{
    uint32_t y = op2(m, TV_OP_MUL, m->x, op2(m, TV_OP_ADD, op1(m, TV_OP_ERF, m->x), scalar(m, 1)));
    return op2(m, TV_OP_MUL, scalar(m, 0.5F), y);
}

static uint32_t sigmoid_of_another_value(maker *m)
{
    return op2(m, TV_OP_MUL, m->x, op1(m, TV_OP_SIGMOID, op1(m, TV_OP_EXP, m->x)));
}

static uint32_t another_slope(maker *m)
{
    tv_graph_attrs attrs = {.alpha = 0.2F, .beta = 0.5F};
    return op2(m, TV_OP_MUL, m->x, tv_graph_add(&m->b, TV_OP_HARD_SIGMOID, "h", &m->x, 1, &attrs));
}

/* A residual of another shape, a residual after the activation, and an activation that is no part of Conv. */
static uint32_t conv_row_added(maker *m)
{
    uint32_t row = tv_graph_add(&m->b, TV_OP_REDUCE_MAX, "row", &m->x, 1, NULL);
    return op2(m, TV_OP_ADD, conv3(m, m->x, 6, 6, 1), row);
}

static uint32_t conv_residual_after_relu(maker *m)
{
    return op2(m, TV_OP_ADD, op1(m, TV_OP_RELU, conv3(m, m->x, 6, 6, 1)), m->x);
}

static uint32_t conv_two_activations(maker *m)
{
    return op1(m, TV_OP_TANH, op1(m, TV_OP_RELU, conv3(m, m->x, 6, 6, 1)));
}

static uint32_t conv_constant_residual(maker *m)
{
    return op2(m, TV_OP_ADD, conv3(m, m->x, 4, 6, 1), random_constant(m, 4, (int64_t[]){1, 4, 5, 4}, 0, true));
}

static uint32_t conv_two_residuals(maker *m)
{
    uint32_t e = op1(m, TV_OP_EXP, m->x);
    return op2(m, TV_OP_ADD, op2(m, TV_OP_ADD, conv3(m, m->x, 6, 6, 1), m->x), e);
}

static uint32_t linear_gate(maker *m) { return gemm(m, m->x, 8, 8); }

static uint32_t conv_divided_by(maker *m)
{
    return op2(m, TV_OP_DIV, scalar(m, 3), op1(m, TV_OP_EXP, conv3(m, m->x, 4, 6, 1)));
}

static uint32_t conv_power(maker *m) { return op2(m, TV_OP_MAX, conv3(m, m->x, 4, 6, 1), scalar(m, 0.5F)); }

static uint32_t linear_columns_added(maker *m)
{
    uint32_t row = op1(m, TV_OP_REDUCE_MAX, m->x);
    return op2(m, TV_OP_ADD, gemm(m, m->x, 8, 8), row);
}

static uint32_t linear_constant_rows_added(maker *m)
{
    return op2(m, TV_OP_ADD, gemm(m, m->x, 5, 8), random_constant(m, 2, (int64_t[]){3, 5}, 0, true));
}

static uint32_t linear_two_residuals(maker *m)
{
    uint32_t e = op1(m, TV_OP_EXP, m->x);
    return op2(m, TV_OP_ADD, op2(m, TV_OP_ADD, gemm(m, m->x, 8, 8), m->x), e);
}

static uint32_t gates_of_other_sizes(maker *m)
{
    uint32_t gate = op1(m, TV_OP_SIGMOID, gemm(m, m->x, 1, 8)), up = gemm(m, m->x, 4, 8);
    return op2(m, TV_OP_MUL, gate, up);
}

static uint32_t clipped_gate(maker *m)
{
    uint32_t gate = linear_gate(m), up = gemm(m, m->x, 8, 8);
    return op2(m, TV_OP_MUL, tv_graph_add(&m->b, TV_OP_CLIP, "y", &gate, 1, &(tv_graph_attrs){.alpha = -1, .beta = 1}),
               up);
}

static uint32_t linear_clip(maker *m)
{
    uint32_t y = gemm(m, m->x, 8, 8);
    return tv_graph_add(&m->b, TV_OP_CLIP, "y", &y, 1, &(tv_graph_attrs){.alpha = -1, .beta = 1});
}

typedef struct fusion {
    const char *name;
    uint32_t (*make)(maker *m);
    bool rows;
    tv_graph_op nodes[4]; /* of the fused graph, then TV_OPS */
} fusion;

static const fusion fusions[] = {
    {"conv, batch norm, relu", conv_batch_norm_relu, false, {TV_OP_CONV, TV_OPS}},
    {"conv, scale and shift in other forms", conv_affine_backwards, false, {TV_OP_CONV, TV_OPS}},
    {"conv, residual, clip", conv_residual_clip, false, {TV_OP_CONV, TV_OPS}},
    {"conv read twice", conv_read_twice, false, {TV_OP_CONV, TV_OP_MUL, TV_OP_ADD, TV_OPS}},
    {"conv as the second operand", conv_as_second_operand, false, {TV_OP_CONV, TV_OP_SUB, TV_OP_EXP, TV_OP_DIV}},
    {"conv times another axis", conv_other_axis, false, {TV_OP_CONV, TV_OP_MUL, TV_OPS}},
    {"transposed conv, batch norm", up_batch_norm, false, {TV_OP_CONV_TRANSPOSE, TV_OPS}},
    {"linear, bias, relu", linear_bias_relu, true, {TV_OP_LINEAR, TV_OPS}},
    {"linear, bias, residual", linear_bias_residual, true, {TV_OP_LINEAR, TV_OPS}},
    {"layer norm by products", layer_norm_by_mul, true, {TV_OP_NORM, TV_OPS}},
    {"layer norm by powers", layer_norm_by_pow, true, {TV_OP_NORM, TV_OPS}},
    {"rms norm by a division", rms_norm_by_div, true, {TV_OP_NORM, TV_OPS}},
    {"rms norm by a reciprocal", rms_norm_by_reciprocal, true, {TV_OP_NORM, TV_OPS}},
    {"rms norm by a quotient", rms_norm_by_quotient, true, {TV_OP_NORM, TV_OPS}},
    {"gelu, the half last", gelu_half_last, true, {TV_OP_GELU, TV_OPS}},
    {"gelu, the half first", gelu_half_first, true, {TV_OP_GELU, TV_OPS}},
    {"gelu by a factor", gelu_by_factor, true, {TV_OP_GELU, TV_OPS}},
    {"erf of another value", erf_of_other, true, {TV_OP_EXP, TV_OP_DIV, TV_OP_ERF, TV_OP_ADD}},
    {"swish", swish, true, {TV_OP_SWISH, TV_OPS}},
    {"hard swish", hard_swish, true, {TV_OP_HARD_SWISH, TV_OPS}},
    {"mean of another product", mean_of_another_product, true, {TV_OP_EXP, TV_OP_MUL, TV_OP_REDUCE_MEAN, TV_OP_ADD}},
    {"mean of cubes", mean_of_cubes, true, {TV_OP_POW, TV_OP_ABS, TV_OP_REDUCE_MEAN, TV_OP_ADD}},
    {"epsilon for each column", epsilon_for_each_column, true, {TV_OP_MUL, TV_OP_REDUCE_MEAN, TV_OP_ADD, TV_OP_SQRT}},
    {"deviation of another value",
     deviation_of_another_value,
     true,
     {TV_OP_EXP, TV_OP_MUL, TV_OP_REDUCE_MEAN, TV_OP_ADD}},
    {"root of no sum", root_of_no_sum, true, {TV_OP_EXP, TV_OP_MUL, TV_OP_REDUCE_MEAN, TV_OP_SQRT}},
    {"two over the deviation", two_over_the_deviation, true, {TV_OP_MUL, TV_OP_REDUCE_MEAN, TV_OP_ADD, TV_OP_SQRT}},
    {"centered value read again", centered_read_again, true, {TV_OP_REDUCE_MEAN, TV_OP_SUB, TV_OP_NORM, TV_OP_ADD}},
    {"mean of another value", mean_of_another_value, true, {TV_OP_EXP, TV_OP_REDUCE_MEAN, TV_OP_SUB, TV_OP_NORM}},
    {"gain after bias", gain_after_bias, true, {TV_OP_NORM, TV_OP_MUL, TV_OPS}},
    {"two gains", two_gains, true, {TV_OP_NORM, TV_OP_MUL, TV_OPS}},
    {"gain of one element", gain_of_one_element, true, {TV_OP_NORM, TV_OP_MUL, TV_OPS}},
    {"gelu without half", gelu_without_half, true, {TV_OP_DIV, TV_OP_ERF, TV_OP_ADD, TV_OP_MUL}},
    {"erf plus two", erf_plus_two, true, {TV_OP_DIV, TV_OP_ERF, TV_OP_ADD, TV_OP_MUL}},
    {"erf of half", erf_of_half, true, {TV_OP_MUL, TV_OP_ERF, TV_OP_ADD, TV_OP_MUL}},
    {"erf of the value", erf_of_the_value, true, {TV_OP_ERF, TV_OP_ADD, TV_OP_MUL, TV_OP_MUL}},
    {"sigmoid of another value", sigmoid_of_another_value, true, {TV_OP_EXP, TV_OP_SIGMOID, TV_OP_MUL, TV_OPS}},
    {"another slope", another_slope, true, {TV_OP_HARD_SIGMOID, TV_OP_MUL, TV_OPS}},
    {"conv, a column added", conv_row_added, false, {TV_OP_REDUCE_MAX, TV_OP_CONV, TV_OP_ADD, TV_OPS}},
    {"conv, relu, residual", conv_residual_after_relu, false, {TV_OP_CONV, TV_OP_ADD, TV_OPS}},
    {"conv, relu, tanh", conv_two_activations, false, {TV_OP_CONV, TV_OP_TANH, TV_OPS}},
    {"conv, constant image added", conv_constant_residual, false, {TV_OP_CONV, TV_OP_ADD, TV_OPS}},
    {"conv, two residuals", conv_two_residuals, false, {TV_OP_EXP, TV_OP_CONV, TV_OP_ADD, TV_OPS}},
    {"number over conv", conv_divided_by, false, {TV_OP_CONV, TV_OP_EXP, TV_OP_DIV, TV_OPS}},
    {"conv, another function of two", conv_power, false, {TV_OP_CONV, TV_OP_MAX, TV_OPS}},
    {"linear, columns added", linear_columns_added, true, {TV_OP_REDUCE_MAX, TV_OP_LINEAR, TV_OP_ADD, TV_OPS}},
    {"linear, constant rows added", linear_constant_rows_added, true, {TV_OP_LINEAR, TV_OP_ADD, TV_OPS}},
    {"gates of other sizes", gates_of_other_sizes, true, {TV_OP_LINEAR, TV_OP_LINEAR, TV_OP_MUL, TV_OPS}},
    {"a clipped gate", clipped_gate, true, {TV_OP_LINEAR, TV_OP_LINEAR, TV_OP_MUL, TV_OPS}},
    {"linear, two residuals", linear_two_residuals, true, {TV_OP_EXP, TV_OP_LINEAR, TV_OP_ADD, TV_OPS}},
    {"linear, clip", linear_clip, true, {TV_OP_LINEAR, TV_OPS}},
};

static tv_graph *fusion_graph(const fusion *n)
{
    maker m;
    tv_graph_shape plane = {4, {1, 6, 5, 4}}, rows = {2, {3, 8}};
    begin_graph(&m, 7, n->rows ? &rows : &plane, false);
    tv_graph_add_output(&m.b, "y", n->make(&m));
    return finish_graph(&m);
}

static void *run_graph(const tv_graph *graph, const tv_tensor **out)
{
    void *state;
    tv_tensor type = tv_graph_tensor_of(graph, graph->inputs.data[0]), x;
    unit_rng rng = {3};
    assert_int_equal(tv_tensor_init(&x, type.element, type.rank, type.dims, NULL), TV_OK);
    for (uint64_t i = 0; i < tv_tensor_count(&x); i++)
        ((float *)x.data)[i] = (float)unit_below(&rng, 4001) / 1000 - 2;
    assert_int_equal(tv_network_host.create(graph, &(tv_network_options){0}, NULL, &state), TV_OK);
    assert_int_equal(tv_network_host.run(state, &(const tv_tensor *){&x}, NULL), TV_OK);
    *out = tv_network_host.tensor(state, graph->outputs.data[0].value);
    assert_non_null(*out);
    tv_tensor_fini(&x);
    return state;
}

static void fusion_keeps_the_function_and_leaves_the_expected_nodes(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof fusions / sizeof fusions[0]; i++) {
        const fusion *n = &fusions[i];
        tv_graph *unfused = fusion_graph(n), *fused = fusion_graph(n);
        assert_int_equal(tv_graph_fuse(fused, NULL), TV_OK);
        for (unsigned k = 0; k < 4 && n->nodes[k] != TV_OPS; k++)
            if (k >= fused->nodes.count || fused->nodes.data[k].op != n->nodes[k])
                fail_msg("%s: node %u is not %s", n->name, k, tv_graph_op_infos[n->nodes[k]].name);
        const tv_tensor *a, *b;
        void *state_a = run_graph(unfused, &a), *state_b = run_graph(fused, &b);
        assert_int_equal(tv_tensor_count(a), tv_tensor_count(b));
        for (uint64_t k = 0; k < tv_tensor_count(a); k++) {
            double x = tv_tensor_real(a, k), y = tv_tensor_real(b, k);
            if (!(fabs(x - y) <= 1e-5 * (1 + fabs(x))))
                fail_msg("%s: element %u is %g instead of %g", n->name, (unsigned)k, y, x);
        }
        tv_network_host.destroy(state_a);
        tv_network_host.destroy(state_b);
        tv_graph_free(unfused);
        tv_graph_free(fused);
    }
}

/* For timing: weights or factors without data give products without data. */
static void constants_without_data_are_folded_too(void **unused)
{
    (void)unused;
    for (unsigned i = 0; i < 4; i++) {
        maker m;
        begin_graph(&m, 1, &(tv_graph_shape){2, {3, 8}}, false);
        uint32_t y = op2(&m, TV_OP_GEMM, m.x, random_constant(&m, 2, (int64_t[]){5, 8}, 0, i & 1));
        y = op2(&m, TV_OP_MUL, y, random_constant(&m, 1, (int64_t[]){5}, 0, i & 2));
        y = op2(&m, TV_OP_ADD, y, random_constant(&m, 1, (int64_t[]){5}, 0, i & 1));
        tv_graph_add_output(&m.b, "y", y);
        tv_graph *graph = finish_graph(&m);
        assert_int_equal(tv_graph_fuse(graph, NULL), TV_OK);
        assert_int_equal(graph->nodes.count, 1);
        const tv_graph_node *n = &graph->nodes.data[0];
        assert_int_equal(n->op, TV_OP_LINEAR);
        assert_true((tv_graph_value_at(graph, n->inputs[1])->tensor->data != NULL) == (i == 3));
        assert_true((tv_graph_value_at(graph, n->inputs[2])->tensor->data != NULL) == (i == 1 || i == 3));
        tv_graph_free(graph);
    }
}

/* ---- Pairs of QuantizeLinear and DequantizeLinear ---- */

static uint32_t zero_point(maker *m, tv_element element, int value)
{
    int8_t data = (int8_t)value;
    tv_tensor t = {.element = element, .data = &data};
    return tv_graph_tensor(&m->b, "z", &t, false);
}

static uint32_t quantize(maker *m, uint32_t x, uint32_t scale, uint32_t zero)
{
    return tv_graph_add(&m->b, TV_OP_QUANTIZE_LINEAR, "q", (uint32_t[]){x, scale, zero}, 3,
                        &(tv_graph_attrs){.to = tv_graph_value_at(m->b.graph, zero)->element});
}

static uint32_t dequantize(maker *m, uint32_t q, uint32_t scale, uint32_t zero)
{
    return tv_graph_add(&m->b, TV_OP_DEQUANTIZE_LINEAR, "d", (uint32_t[]){q, scale, zero}, 3, NULL);
}

/* Relu(pair of int8(Relu(pair of uint8(x)))), and a pair whose zero points differ. */
static void pairs_become_ranges(void **unused)
{
    (void)unused;
    maker m;
    float *ranges;
    begin_graph(&m, 1, &(tv_graph_shape){2, {3, 8}}, false);
    uint32_t s = scalar(&m, 0.5F), u8 = zero_point(&m, TV_ELEMENT_U8, 28), i8 = zero_point(&m, TV_ELEMENT_I8, -3);
    uint32_t y = op1(&m, TV_OP_RELU, dequantize(&m, quantize(&m, m.x, s, u8), s, u8));
    uint32_t same_scale = scalar(&m, 0.5F), same_zero = zero_point(&m, TV_ELEMENT_I8, -3);
    uint32_t z = op1(&m, TV_OP_ABS, dequantize(&m, quantize(&m, y, s, i8), same_scale, same_zero));
    uint32_t other = zero_point(&m, TV_ELEMENT_I8, 1);
    tv_graph_add_output(&m.b, "a", dequantize(&m, quantize(&m, z, s, i8), s, i8));
    tv_graph_add_output(&m.b, "b", dequantize(&m, quantize(&m, z, s, i8), s, other));
    tv_graph *graph = finish_graph(&m);
    assert_int_equal(tv_graph_remove_pairs(graph, NULL, &ranges), TV_OK);
    assert_int_equal(tv_graph_fuse(graph, NULL), TV_OK);
    assert_int_equal(graph->nodes.count, 4); /* Relu, Abs, and the pair that is none */
    assert_int_equal(graph->outputs.data[0].value, z);
    assert_true(ranges[m.x] == 0.5F * 227); /* 255 - 28 */
    assert_true(ranges[y] == 0.5F * 130);   /* 127 + 3 */
    assert_true(ranges[z] == 0.5F * 130);
    free(ranges);
    tv_graph_free(graph);
}

/* A pair, or almost one: what QuantizeLinear and DequantizeLinear have. */
typedef struct pair_case {
    const char *name;
    tv_element element;   /* of the zero points */
    int zero, other_zero; /* of both nodes; NO_ZERO: left out */
    float scale, other_scale;
    int scales;    /* elements of both scales; along axis 1 if there are several */
    unsigned axis; /* of DequantizeLinear */
    bool computed; /* the scale of QuantizeLinear is computed */
    double range;  /* worked by hand; 0: it is no pair */
} pair_case;

enum { NO_ZERO = 1000 };

static const pair_case pair_cases[] = {
    {"uint8 without zero points", TV_ELEMENT_U8, NO_ZERO, NO_ZERO, 0.5F, 0.5F, 1, 1, false, 127.5},
    {"int8 at 0", TV_ELEMENT_I8, 0, 0, 0.25F, 0.25F, 1, 1, false, 32},
    {"uint4 at 3", TV_ELEMENT_U4, 3, 3, 1, 1, 1, 1, false, 12},
    {"int4 at 2", TV_ELEMENT_I4, 2, 2, 1, 1, 1, 1, false, 10},
    {"scales of channels", TV_ELEMENT_I8, NO_ZERO, NO_ZERO, 0.5F, 0.5F, 8, 1, false, -1},
    {"other scales", TV_ELEMENT_I8, 0, 0, 0.25F, 0.5F, 1, 1, false, 0},
    {"other zero points", TV_ELEMENT_I8, 0, 1, 0.25F, 0.25F, 1, 1, false, 0},
    {"one zero point alone", TV_ELEMENT_U8, NO_ZERO, 0, 0.25F, 0.25F, 1, 1, false, 0},
    {"another axis", TV_ELEMENT_I8, 0, 0, 0.25F, 0.25F, 1, 0, false, 0},
    {"a computed scale", TV_ELEMENT_I8, 0, 0, 0.25F, 0.25F, 1, 1, true, 0},
};

static uint32_t scale_of(maker *m, const pair_case *c, float value)
{
    float data[8];
    tv_tensor t = {.element = TV_ELEMENT_F32, .data = data};
    for (int i = 0; i < 8; i++)
        data[i] = value * (float)(i + 1) / 8;
    if (c->scales == 1)
        return scalar(m, value);
    t.rank = 1;
    t.dims[0] = 8;
    return tv_graph_tensor(&m->b, "scales", &t, false);
}

static uint32_t pair_node(maker *m, const pair_case *c, tv_graph_op op, uint32_t x, uint32_t scale, int zero)
{
    bool quantizes = op == TV_OP_QUANTIZE_LINEAR;
    tv_graph_attrs attrs = {.axis = quantizes ? 1 : c->axis, .to = c->element};
    uint32_t inputs[3] = {x, scale, zero == NO_ZERO ? TV_NO_VALUE : zero_point(m, c->element, zero)};
    return tv_graph_add(&m->b, op, quantizes ? "q" : "d", inputs, 3, &attrs);
}

static void only_equal_pairs_become_ranges(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof pair_cases / sizeof pair_cases[0]; i++) {
        const pair_case *c = &pair_cases[i];
        maker m;
        float *ranges;
        begin_graph(&m, 1, &(tv_graph_shape){2, {3, 8}}, false);
        uint32_t scale = scale_of(&m, c, c->scale), other = scale_of(&m, c, c->other_scale);
        if (c->computed) {
            uint32_t row = tv_graph_add(&m.b, TV_OP_RESHAPE, "r", &m.x, 1, &(tv_graph_attrs){.shape = {1, {24}}});
            row = op1(&m, TV_OP_REDUCE_MAX, row);
            scale = other = tv_graph_add(&m.b, TV_OP_RESHAPE, "s", &row, 1, &(tv_graph_attrs){.shape = {0}});
        }
        uint32_t q = pair_node(&m, c, TV_OP_QUANTIZE_LINEAR, m.x, scale, c->zero);
        tv_graph_add_output(&m.b, "y",
                            op1(&m, TV_OP_RELU, pair_node(&m, c, TV_OP_DEQUANTIZE_LINEAR, q, other, c->other_zero)));
        tv_graph *graph = finish_graph(&m);
        assert_int_equal(tv_graph_remove_pairs(graph, NULL, &ranges), TV_OK);
        double expected = c->range < 0 ? 64 : c->range; /* of channels: the largest scale, 0.5 * 128 */
        if (fabs((double)ranges[m.x] - expected) > 1e-6)
            fail_msg("%s: the range is %g instead of %g", c->name, (double)ranges[m.x], expected);
        assert_int_equal(tv_graph_fuse(graph, NULL), TV_OK);
        assert_true((graph->nodes.count == 1) == (c->range != 0));
        free(ranges);
        tv_graph_free(graph);
    }
}

/* DequantizeLinear of an input, and of integers that were computed otherwise. */
static void integers_of_other_nodes_are_no_pairs(void **unused)
{
    (void)unused;
    maker m = {.rng = {1}};
    float *ranges;
    tv_graph_begin(&m.b, 0, 0, NULL);
    m.b.block = TV_BLOCK_NONE;
    m.x = tv_graph_input(&m.b, "x", TV_ELEMENT_I8, &(tv_graph_shape){2, {3, 8}});
    uint32_t s = scalar(&m, 0.5F), zero = zero_point(&m, TV_ELEMENT_I8, 0);
    tv_graph_add_output(&m.b, "a", dequantize(&m, m.x, s, zero));
    tv_graph_add_output(&m.b, "b", dequantize(&m, op1(&m, TV_OP_ABS, m.x), s, zero));
    tv_graph *graph = finish_graph(&m);
    assert_int_equal(tv_graph_remove_pairs(graph, NULL, &ranges), TV_OK);
    assert_int_equal(tv_graph_fuse(graph, NULL), TV_OK);
    assert_int_equal(graph->nodes.count, 3);
    free(ranges);
    tv_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fusion_keeps_the_function_and_leaves_the_expected_nodes),
        cmocka_unit_test(constants_without_data_are_folded_too),
        cmocka_unit_test(pairs_become_ranges),
        cmocka_unit_test(only_equal_pairs_become_ranges),
        cmocka_unit_test(integers_of_other_nodes_are_no_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
