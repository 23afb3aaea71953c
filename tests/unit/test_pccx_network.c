/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on pccx: each operator, and small networks, against the host in binary32. */
#include <math.h>

#include "graph/network.h"
#include "graph/passes.h"
#include "graph/resize.h"
#include "trivet/config.h"
#include "unit.h"

extern const tv_network_backend tv_network_pccx;

typedef struct maker {
    tv_graph_builder b;
    unit_rng rng;
    uint32_t x, y; /* inputs; y has the shape of x */
} maker;

static float next_number(unit_rng *rng) { return (float)unit_below(rng, 2001) / 1000 - 1; }

static uint32_t constant(maker *m, uint32_t rank, const int64_t *dims, float scale, float offset)
{
    tv_tensor t;
    assert_int_equal(tv_tensor_init(&t, TV_ELEMENT_F32, rank, dims, NULL), TV_OK);
    for (uint64_t i = 0; i < tv_tensor_count(&t); i++)
        ((float *)t.data)[i] = offset + scale * next_number(&m->rng);
    uint32_t value = tv_graph_tensor(&m->b, "c", &t, false);
    tv_tensor_fini(&t);
    return value;
}

static uint32_t scalar(maker *m, float value)
{
    tv_tensor t = {.element = TV_ELEMENT_F32, .data = &value};
    return tv_graph_tensor(&m->b, "s", &t, false);
}

static uint32_t op1(maker *m, tv_graph_op op, uint32_t x) { return tv_graph_add1(&m->b, op, "v", x); }
static uint32_t op2(maker *m, tv_graph_op op, uint32_t a, uint32_t b) { return tv_graph_add2(&m->b, op, "v", a, b); }

static uint32_t linear(maker *m, uint32_t x, int64_t rows, int64_t columns, tv_activation activation, uint32_t residual)
{
    uint32_t w = constant(m, 2, (int64_t[]){rows, columns}, 1 / sqrtf((float)columns), 0);
    uint32_t bias = constant(m, 1, &rows, 0.2F, 0);
    return tv_graph_add(&m->b, TV_OP_LINEAR, "v", (uint32_t[]){x, w, bias, residual}, residual == TV_NO_VALUE ? 3 : 4,
                        &(tv_graph_attrs){.activation = activation, .alpha = 0, .beta = 0.5F});
}

/* {kernel, stride, pad, dilation} of both axes */
typedef struct window {
    int64_t kernel, stride, pad, dilation;
} window;

static tv_graph_lists lists_of(window g)
{
    return (tv_graph_lists){.kernel = {g.kernel, g.kernel},
                            .stride = {g.stride, g.stride},
                            .dilation = {g.dilation, g.dilation},
                            .pad_begin = {g.pad, g.pad},
                            .pad_end = {g.pad, g.pad}};
}

static uint32_t conv(maker *m, uint32_t x, int64_t out, int64_t in, uint32_t groups, window g, uint32_t residual,
                     tv_activation activation)
{
    tv_graph_lists lists = lists_of(g);
    int64_t per_group = in / groups;
    float scale = 1.7F / sqrtf((float)(per_group * g.kernel * g.kernel));
    uint32_t w = constant(m, 4, (int64_t[]){out, per_group, g.kernel, g.kernel}, scale, 0);
    uint32_t bias = constant(m, 1, &out, 0.2F, 0);
    return tv_graph_add(
        &m->b, TV_OP_CONV, "v", (uint32_t[]){x, w, bias, residual}, residual == TV_NO_VALUE ? 3 : 4,
        &(tv_graph_attrs){.lists = &lists, .groups = groups, .activation = activation, .alpha = 0, .beta = 0.5F});
}

static uint32_t pool(maker *m, tv_graph_op op, uint32_t x, window g)
{
    tv_graph_lists lists = lists_of(g);
    return tv_graph_add(&m->b, op, "v", &x, 1, &(tv_graph_attrs){.lists = &lists});
}

static uint32_t reshape(maker *m, uint32_t x, tv_graph_shape shape)
{
    return tv_graph_add(&m->b, TV_OP_RESHAPE, "v", &x, 1, &(tv_graph_attrs){.shape = shape});
}

static uint32_t transpose(maker *m, uint32_t x, const uint32_t *perm, uint32_t rank)
{
    tv_graph_lists lists = {.perm = {0}};
    memcpy(lists.perm, perm, rank * sizeof *perm);
    return tv_graph_add(&m->b, TV_OP_TRANSPOSE, "v", &x, 1, &(tv_graph_attrs){.lists = &lists});
}

/* ---- Networks ---- */

#define NO TV_ACTIVATION_NONE

static uint32_t perceptron(maker *m)
{
    uint32_t h = linear(m, m->x, 40, 24, TV_ACTIVATION_RELU, TV_NO_VALUE);
    return linear(m, linear(m, h, 40, 40, TV_ACTIVATION_TANH, h), 10, 40, NO, TV_NO_VALUE);
}
static uint32_t residual_linear(maker *m) { return linear(m, m->x, 24, 24, NO, m->y); }
static uint32_t clipped_linear(maker *m) { return linear(m, m->x, 24, 24, TV_ACTIVATION_CLIP, TV_NO_VALUE); }
static uint32_t convolution(maker *m)
{
    return conv(m, m->x, 12, 16, 1, (window){3, 1, 1, 1}, TV_NO_VALUE, TV_ACTIVATION_RELU);
}
static uint32_t strided(maker *m) { return conv(m, m->x, 8, 16, 1, (window){3, 2, 1, 1}, TV_NO_VALUE, NO); }
static uint32_t strided7(maker *m) { return conv(m, m->x, 8, 16, 1, (window){7, 2, 3, 1}, TV_NO_VALUE, NO); }
static uint32_t strided1(maker *m) { return conv(m, m->x, 8, 16, 1, (window){1, 2, 0, 1}, TV_NO_VALUE, NO); }
static uint32_t patches(maker *m) { return conv(m, m->x, 8, 16, 1, (window){4, 4, 0, 1}, TV_NO_VALUE, NO); }
static uint32_t dilated(maker *m) { return conv(m, m->x, 8, 16, 1, (window){3, 1, 2, 2}, TV_NO_VALUE, NO); }
static uint32_t unpadded(maker *m) { return conv(m, m->x, 5, 16, 1, (window){3, 1, 0, 1}, TV_NO_VALUE, NO); }
static uint32_t depthwise(maker *m)
{
    return conv(m, m->x, 16, 16, 16, (window){3, 1, 1, 1}, TV_NO_VALUE, TV_ACTIVATION_CLIP);
}
static uint32_t depthwise_strided(maker *m) { return conv(m, m->x, 16, 16, 16, (window){3, 2, 1, 1}, TV_NO_VALUE, NO); }
static uint32_t grouped(maker *m) { return conv(m, m->x, 32, 16, 2, (window){3, 1, 1, 1}, TV_NO_VALUE, NO); }
static uint32_t residual_conv(maker *m)
{
    uint32_t y = conv(m, m->x, 16, 16, 1, (window){3, 1, 1, 1}, m->y, TV_ACTIVATION_RELU);
    return conv(m, y, 16, 16, 1, (window){1, 1, 0, 1}, y, TV_ACTIVATION_RELU);
}
/* {kernel, stride, pad, dilation}, elements added after, and groups. */
static uint32_t transposed(maker *m, int64_t in, int64_t out, window g, int64_t added, uint32_t groups)
{
    tv_graph_lists lists = lists_of(g);
    lists.output_padding[0] = lists.output_padding[1] = added;
    uint32_t w = constant(m, 4, (int64_t[]){in, out / groups, g.kernel, g.kernel}, 1 / sqrtf((float)(in / groups)), 0);
    uint32_t bias = constant(m, 1, &out, 0.5F, 0);
    return tv_graph_add(&m->b, TV_OP_CONV_TRANSPOSE, "v", (uint32_t[]){m->x, w, bias}, 3,
                        &(tv_graph_attrs){.lists = &lists, .groups = groups});
}
static uint32_t upsample(maker *m) { return transposed(m, 16, 12, (window){2, 2, 0, 1}, 0, 1); }
static uint32_t overlapped(maker *m) { return op1(m, TV_OP_RELU, transposed(m, 16, 8, (window){4, 2, 1, 1}, 1, 1)); }
static uint32_t transposed_dilated(maker *m) { return transposed(m, 16, 8, (window){3, 3, 2, 2}, 0, 1); }
static uint32_t transposed_groups(maker *m) { return transposed(m, 16, 32, (window){3, 2, 1, 1}, 0, 4); }
static uint32_t transposed_depthwise(maker *m) { return transposed(m, 128, 128, (window){3, 2, 0, 1}, 0, 128); }
static uint32_t gaps(maker *m) { return transposed(m, 16, 8, (window){1, 2, 0, 1}, 0, 1); }
static uint32_t transposed1(maker *m) { return transposed(m, 16, 8, (window){3, 1, 1, 1}, 0, 1); }
static uint32_t few_channels(maker *m)
{
    uint32_t y = conv(m, m->x, 8, 3, 1, (window){7, 2, 3, 1}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    return conv(m, y, 5, 8, 1, (window){3, 1, 1, 2}, TV_NO_VALUE, NO);
}
static uint32_t max_pool(maker *m) { return pool(m, TV_OP_MAX_POOL, m->x, (window){3, 2, 1, 1}); }
static uint32_t mean_pool(maker *m) { return pool(m, TV_OP_AVERAGE_POOL, m->x, (window){2, 2, 0, 1}); }
static uint32_t lenet(maker *m)
{
    uint32_t y = conv(m, m->x, 20, 16, 1, (window){3, 1, 1, 1}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = pool(m, TV_OP_MAX_POOL, y, (window){2, 2, 0, 1});
    y = conv(m, y, 24, 20, 1, (window){3, 1, 1, 1}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = tv_graph_add(
        &m->b, TV_OP_AVERAGE_POOL, "v", &y, 1,
        &(tv_graph_attrs){.lists = &(tv_graph_lists){.kernel = {5, 4}, .stride = {1, 1}, .dilation = {1, 1}}});
    return linear(m, reshape(m, y, (tv_graph_shape){2, {2, 24}}), 10, 24, NO, TV_NO_VALUE);
}
/* A residual block of ResNet, whose values are as large as a third of L2. */
static uint32_t block(maker *m)
{
    uint32_t x = pool(m, TV_OP_MAX_POOL, conv(m, m->x, 64, 3, 1, (window){3, 1, 1, 1}, TV_NO_VALUE, TV_ACTIVATION_RELU),
                      (window){3, 2, 1, 1});
    uint32_t y = conv(m, x, 64, 64, 1, (window){1, 1, 0, 1}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = conv(m, y, 64, 64, 1, (window){3, 1, 1, 1}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    x = conv(m, x, 128, 64, 1, (window){1, 1, 0, 1}, TV_NO_VALUE, NO);
    return conv(m, y, 128, 64, 1, (window){1, 1, 0, 1}, x, TV_ACTIVATION_RELU);
}
/* Values of different sizes with long lives, of which L2 has room for some only. */
static uint32_t pyramid(maker *m)
{
    uint32_t x = m->x, kept[6] = {TV_NO_VALUE};
    for (unsigned i = 0; i < 24; i++) {
        uint32_t channels = 16U << i % 3, from = i ? 16U << (i - 1) % 3 : 16;
        x = conv(m, x, channels, from, 1, (window){1, 1, 0, 1}, i >= 6 ? kept[i % 6] : TV_NO_VALUE,
                 i % 2 ? TV_ACTIVATION_RELU : NO);
        kept[i % 6] = x;
    }
    return x;
}
/* What fusion makes one node of, several times. */
static uint32_t spelled_out(maker *m)
{
    uint32_t x = m->x;
    for (unsigned i = 0; i < 4; i++) {
        x = conv(m, x, 16, 16, 1, (window){1, 1, 0, 1}, TV_NO_VALUE, NO);
        x = op2(m, TV_OP_MUL, x, constant(m, 3, (int64_t[]){16, 1, 1}, 0.5F, 1));
        x = op2(m, TV_OP_ADD, x, constant(m, 3, (int64_t[]){16, 1, 1}, 0.5F, 0));
        x = op1(m, TV_OP_RELU, x);
    }
    return x;
}
/* Intervals around and beside 0, of a product and of an input; maxima of clipped numbers. */
static uint32_t clips(maker *m)
{
    tv_graph_attrs around = {.alpha = -0.5F, .beta = 0.75F}, beside = {.alpha = 0.25F, .beta = 1.5F};
    uint32_t y = tv_graph_add(&m->b, TV_OP_CLIP, "v", &m->x, 1, &around);
    y = conv(m, y, 16, 16, 1, (window){1, 1, 0, 1}, TV_NO_VALUE, NO);
    y = tv_graph_add(&m->b, TV_OP_CLIP, "v", &y, 1, &beside);
    y = conv(m, y, 12, 16, 1, (window){3, 1, 1, 1}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    return pool(m, TV_OP_MAX_POOL, pool(m, TV_OP_MAX_POOL, y, (window){3, 1, 1, 1}), (window){2, 2, 0, 1});
}
static uint32_t sum(maker *m) { return op2(m, TV_OP_ADD, m->x, m->y); }
static uint32_t difference(maker *m) { return op2(m, TV_OP_SUB, m->x, m->y); }
static uint32_t product(maker *m) { return op2(m, TV_OP_MUL, m->x, m->y); }
static uint32_t maximum(maker *m) { return op2(m, TV_OP_MAX, m->x, m->y); }
static uint32_t minimum(maker *m) { return op2(m, TV_OP_MIN, m->x, m->y); }
static uint32_t quotient(maker *m)
{
    return op2(m, TV_OP_DIV, m->x, op2(m, TV_OP_ADD, op1(m, TV_OP_EXP, m->y), scalar(m, 0.5F)));
}
static uint32_t row_operands(maker *m)
{
    uint32_t v = op2(m, TV_OP_MUL, m->x, constant(m, 1, (int64_t[]){24}, 0.5F, 1));
    v = op2(m, TV_OP_SUB, v, constant(m, 1, (int64_t[]){24}, 0.5F, 1));
    return op2(m, TV_OP_DIV, v, constant(m, 1, (int64_t[]){24}, 0.5F, 1));
}
static uint32_t channel_operands(maker *m)
{
    uint32_t v = op2(m, TV_OP_MUL, pool(m, TV_OP_AVERAGE_POOL, m->x, (window){1, 1, 0, 1}),
                     constant(m, 3, (int64_t[]){16, 1, 1}, 0.5F, 1));
    return op2(m, TV_OP_ADD, constant(m, 3, (int64_t[]){16, 1, 1}, 0.5F, 1), v);
}
static uint32_t functions(maker *m)
{
    uint32_t v = op1(m, TV_OP_GELU, m->x);
    v = op2(m, TV_OP_ADD, v, op1(m, TV_OP_SIGMOID, m->x));
    v = op2(m, TV_OP_ADD, v, op1(m, TV_OP_ABS, m->x));
    v = op2(m, TV_OP_ADD, v, op1(m, TV_OP_SWISH, m->y));
    v = op2(m, TV_OP_SUB, v, op1(m, TV_OP_NEG, m->y));
    return op2(m, TV_OP_SUB, v, op1(m, TV_OP_HARD_SWISH, m->x));
}
static uint32_t softmax(maker *m) { return op1(m, TV_OP_SOFTMAX, op2(m, TV_OP_MUL, m->x, scalar(m, 4))); }
/* The mask is different for each element, and the largest sum of a row is far from 0. */
static uint32_t masked_softmax(maker *m)
{
    return op1(m, TV_OP_SOFTMAX, op2(m, TV_OP_ADD, m->x, constant(m, 1, (int64_t[]){24}, 5000, -8000)));
}
static uint32_t means(maker *m) { return op2(m, TV_OP_SUB, m->x, op1(m, TV_OP_REDUCE_MEAN, m->x)); }
static uint32_t layer_norm(maker *m)
{
    uint32_t gain = constant(m, 1, (int64_t[]){24}, 0.5F, 1), bias = constant(m, 1, (int64_t[]){24}, 0.5F, 0);
    return tv_graph_add(&m->b, TV_OP_NORM, "v", (uint32_t[]){op2(m, TV_OP_ADD, m->x, scalar(m, 0.5F)), gain, bias}, 3,
                        &(tv_graph_attrs){.groups = 1, .subtract_mean = true, .epsilon = 1e-5F});
}
static uint32_t attention(maker *m)
{
    const uint32_t heads[] = {0, 2, 1, 3}, last[] = {0, 1, 3, 2};
    tv_graph_shape split = {4, {1, 11, 3, 8}};
    uint32_t q = transpose(m, reshape(m, linear(m, m->x, 24, 24, NO, TV_NO_VALUE), split), heads, 4),
             k = transpose(m, reshape(m, linear(m, m->x, 24, 24, NO, TV_NO_VALUE), split), heads, 4),
             v = transpose(m, reshape(m, linear(m, m->y, 24, 24, NO, TV_NO_VALUE), split), heads, 4),
             scores = op2(m, TV_OP_MATMUL, q, transpose(m, k, last, 4));
    uint32_t y = op2(m, TV_OP_MATMUL, op1(m, TV_OP_SOFTMAX, scores), v);
    return linear(m, reshape(m, transpose(m, y, heads, 4), (tv_graph_shape){2, {11, 24}}), 24, 24, NO, TV_NO_VALUE);
}
static uint32_t concatenation(maker *m)
{
    tv_graph_attrs attrs = {.axis_from_end = 2};
    uint32_t y = tv_graph_add(&m->b, TV_OP_CONCAT, "v", (uint32_t[]){m->x, m->y}, 2, &attrs);
    return conv(m, y, 8, 32, 1, (window){1, 1, 0, 1}, TV_NO_VALUE, NO);
}
/* A constant, as a class token is, before a value in L2, and the other way round. */
static uint32_t concatenated_rows(maker *m)
{
    tv_graph_attrs attrs = {.axis_from_end = 1};
    uint32_t token = constant(m, 2, (int64_t[]){1, 24}, 1, 0), y = op1(m, TV_OP_RELU, m->x);
    y = tv_graph_add(&m->b, TV_OP_CONCAT, "v", (uint32_t[]){token, y, token}, 3, &attrs);
    return linear(m, y, 24, 24, NO, TV_NO_VALUE);
}

static uint32_t joined_channels(maker *m)
{
    uint32_t a = conv(m, m->x, 8, 16, 1, (window){1, 1, 0, 1}, TV_NO_VALUE, NO), b = op1(m, TV_OP_NEG, a);
    uint32_t y =
        tv_graph_add(&m->b, TV_OP_CONCAT, "v", (uint32_t[]){a, b, pool(m, TV_OP_MAX_POOL, a, (window){3, 1, 1, 1})}, 3,
                     &(tv_graph_attrs){.axis_from_end = 2});
    y = conv(m, y, 16, 24, 1, (window){3, 1, 1, 1}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = tv_graph_add(&m->b, TV_OP_CONCAT, "v", (uint32_t[]){y, m->y}, 2, &(tv_graph_attrs){.axis_from_end = 2});
    return op2(m, TV_OP_ADD, conv(m, y, 12, 32, 1, (window){3, 1, 0, 1}, TV_NO_VALUE, NO),
               conv(m, y, 12, 32, 1, (window){3, 1, 1, 2}, TV_NO_VALUE, NO));
}

/* ---- Moves of elements ---- */

static uint32_t crossed(maker *m)
{
    const uint32_t perm[] = {1, 0};
    return op2(m, TV_OP_ADD, transpose(m, m->x, perm, 2), transpose(m, m->y, perm, 2));
}
static uint32_t joined(maker *m)
{
    uint32_t slice = tv_graph_add(&m->b, TV_OP_SLICE, "v", &m->x, 1, &(tv_graph_attrs){.start = 3, .end = 20});
    return tv_graph_add(&m->b, TV_OP_CONCAT, "v", (uint32_t[]){slice, m->y, slice}, 3,
                        &(tv_graph_attrs){.axis_from_end = 0});
}
static uint32_t padded(maker *m)
{
    tv_graph_lists lists = {.begin = {1, 5}, .end = {2, 1}};
    return tv_graph_add(&m->b, TV_OP_PAD, "v", &m->x, 1, &(tv_graph_attrs){.lists = &lists, .mode = TV_PAD_CONSTANT});
}
static uint32_t flattened(maker *m) { return reshape(m, m->x, (tv_graph_shape){2, {24, 11}}); }
/* Of images to rows of pixels. */
static uint32_t flattened_image(maker *m)
{
    uint32_t y = conv(m, m->x, 12, 16, 1, (window){3, 1, 1, 1}, TV_NO_VALUE, NO);
    return reshape(m, y, (tv_graph_shape){2, {2, 960}});
}
static uint32_t enlarged(maker *m)
{
    tv_graph_lists lists = {.scale = {1, 1, 2, 1.5}};
    tv_resize nearest = {.method = TV_RESIZE_NEAREST, .coordinates = TV_RESIZE_ASYMMETRIC, .rounding = TV_RESIZE_FLOOR};
    uint32_t y = conv(m, m->x, 12, 16, 1, (window){1, 1, 0, 1}, TV_NO_VALUE, NO);
    return tv_graph_add(
        &m->b, TV_OP_RESIZE, "v", &y, 1,
        &(tv_graph_attrs){.lists = &lists, .shape = {4, {2, 12, 20, 12}}, .mode = tv_resize_pack(nearest)});
}

typedef struct network {
    const char *name;
    uint32_t (*make)(maker *m);
    tv_graph_shape shape;
    bool two_inputs;
} network;

#define ROWS                                                                                                           \
    {                                                                                                                  \
        2, { 11, 24 }                                                                                                  \
    }
#define IMAGES                                                                                                         \
    {                                                                                                                  \
        4, { 2, 16, 10, 8 }                                                                                            \
    }
static const network networks[] = {
    {"perceptron", perceptron, ROWS, false},
    {"linear with residual", residual_linear, ROWS, true},
    {"linear with clip", clipped_linear, ROWS, false},
    {"convolution", convolution, IMAGES, false},
    {"stride 2", strided, IMAGES, false},
    {"kernel 7, stride 2", strided7, IMAGES, false},
    {"kernel 1, stride 2", strided1, IMAGES, false},
    {"kernel 4, stride 4", patches, {4, {2, 16, 8, 8}}, false},
    {"transposed, kernel 2, stride 2", upsample, IMAGES, false},
    {"transposed, overlapping", overlapped, IMAGES, false},
    {"transposed, dilation", transposed_dilated, IMAGES, false},
    {"transposed, groups", transposed_groups, IMAGES, false},
    {"transposed, depthwise", transposed_depthwise, {4, {1, 128, 5, 6}}, false},
    {"transposed, gaps", gaps, IMAGES, false},
    {"transposed, stride 1", transposed1, IMAGES, false},
    {"few channels", few_channels, {4, {1, 3, 29, 37}}, false},
    {"dilation", dilated, IMAGES, false},
    {"no padding", unpadded, IMAGES, false},
    {"depthwise", depthwise, IMAGES, false},
    {"depthwise, stride 2", depthwise_strided, IMAGES, false},
    {"groups", grouped, IMAGES, false},
    {"residual convolutions", residual_conv, IMAGES, true},
    {"max pool", max_pool, IMAGES, false},
    {"mean pool", mean_pool, IMAGES, false},
    {"mean of a corner", mean_pool, {4, {1, 16, 3, 3}}, false},
    {"convolutional network", lenet, IMAGES, false},
    {"residual block", block, {4, {1, 3, 96, 96}}, false},
    {"values of different sizes", pyramid, {4, {1, 16, 40, 40}}, false},
    {"fused convolutions", spelled_out, IMAGES, false},
    {"clipped numbers", clips, IMAGES, false},
    {"sum", sum, ROWS, true},
    {"difference", difference, ROWS, true},
    {"product", product, ROWS, true},
    {"maximum", maximum, ROWS, true},
    {"minimum", minimum, ROWS, true},
    {"quotient", quotient, ROWS, true},
    {"operands of a row", row_operands, ROWS, false},
    {"operands of channels", channel_operands, IMAGES, false},
    {"functions", functions, ROWS, true},
    {"softmax", softmax, ROWS, false},
    {"softmax with a mask", masked_softmax, ROWS, false},
    {"means of rows", means, ROWS, false},
    {"layer norm", layer_norm, ROWS, false},
    {"attention", attention, ROWS, true},
    {"concatenated channels", concatenation, IMAGES, true},
    {"concatenated rows", concatenated_rows, ROWS, false},
    {"convolution of concatenated channels", joined_channels, IMAGES, true},
    {"transposed elements", crossed, ROWS, true},
    {"joined parts of rows", joined, ROWS, true},
    {"padded rows", padded, ROWS, false},
    {"rows of another length", flattened, ROWS, false},
    {"rows of an image", flattened_image, IMAGES, false},
    {"enlarged image", enlarged, IMAGES, false},
};

static void print_diagnostic(void *user, const tv_diag *d)
{
    (void)user;
    print_message("%s\n", d->message);
}

static tv_graph *make_graph(const network *n)
{
    maker m = {.rng = {7}};
    tv_graph *graph;
    tv_graph_begin(&m.b, 0, 0, &(tv_diag_sink){print_diagnostic, NULL});
    m.b.block = TV_BLOCK_NONE;
    m.x = tv_graph_input(&m.b, "x", TV_ELEMENT_F32, &n->shape);
    if (n->two_inputs)
        m.y = tv_graph_input(&m.b, "y", TV_ELEMENT_F32, &n->shape);
    tv_graph_add_output(&m.b, "out", n->make(&m));
    assert_int_equal(tv_graph_finish(&m.b, TV_NO_VALUE, &graph), TV_OK);
    return graph;
}

static tv_config *pccx_config(const char *l2_words)
{
    tv_config *config;
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    if (l2_words)
        assert_int_equal(tv_config_set(config, "l2.words", l2_words, NULL), TV_OK);
    return config;
}

/* The largest magnitude of each value of a run. The caller frees them. */
static float *find_ranges(const tv_graph *graph, void *host)
{
    float *ranges = calloc(graph->values.count, sizeof *ranges);
    assert_non_null(ranges);
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const tv_tensor *t = tv_network_host.tensor(host, v);
        for (uint64_t i = 0; t && i < tv_tensor_count(t); i++)
            ranges[v] = fmaxf(ranges[v], (float)fabs(tv_tensor_real(t, i)));
    }
    return ranges;
}

/* Similarity of the first output with that of the host; and, if not NULL, the cycles. */
static double compare(const network *n, unsigned bits, const char *l2_words, bool calibrated, uint64_t *cycles)
{
    const tv_diag_sink sink = {print_diagnostic, NULL};
    tv_graph *graph = make_graph(n);
    if (bits == 4)
        assert_int_equal(tv_graph_fuse(graph, NULL), TV_OK);
    tv_tensor x[2] = {{0}};
    unit_rng rng = {3};
    void *host, *state;
    tv_config *config = pccx_config(l2_words);
    for (size_t k = 0; k < graph->inputs.count; k++) {
        tv_tensor type = tv_graph_tensor_of(graph, graph->inputs.data[k]);
        assert_int_equal(tv_tensor_init(&x[k], type.element, type.rank, type.dims, NULL), TV_OK);
        for (uint64_t i = 0; i < tv_tensor_count(&x[k]); i++)
            ((float *)x[k].data)[i] = 2 * next_number(&rng);
    }
    const tv_tensor *inputs[2] = {&x[0], &x[1]};
    tv_network_options options = {.config = config, .threads = 1, .mode = TV_MODE_FULL, .weight_bits = bits};
    assert_int_equal(tv_network_host.create(graph, &(tv_network_options){.keep_values = true}, NULL, &host), TV_OK);
    assert_int_equal(tv_network_host.run(host, inputs, NULL), TV_OK);
    float *ranges = calibrated ? find_ranges(graph, host) : NULL;
    options.ranges = ranges;
    if (tv_network_pccx.create(graph, &options, &sink, &state) != TV_OK)
        fail_msg("%s: not created", n->name);
    free(ranges);
    if (tv_network_pccx.run(state, inputs, &sink) != TV_OK)
        fail_msg("%s: not run", n->name);
    const tv_tensor *a = tv_network_host.tensor(host, graph->outputs.data[0].value),
                    *b = tv_network_pccx.tensor(state, graph->outputs.data[0].value);
    assert_non_null(a);
    assert_non_null(b);
    double ab = 0, aa = 0, bb = 0;
    for (uint64_t i = 0; i < tv_tensor_count(a); i++) {
        ab += tv_tensor_real(a, i) * tv_tensor_real(b, i);
        aa += tv_tensor_real(a, i) * tv_tensor_real(a, i);
        bb += tv_tensor_real(b, i) * tv_tensor_real(b, i);
    }
    if (cycles)
        *cycles = tv_machine_clock(tv_network_pccx.machine(state));
    for (size_t k = 0; k < graph->inputs.count; k++)
        tv_tensor_fini(&x[k]);
    tv_network_host.destroy(host);
    tv_network_pccx.destroy(state);
    tv_config_free(config);
    tv_graph_free(graph);
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

static void results_are_those_of_the_host(void **unused)
{
    bool good = true;
    (void)unused;
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        double eight = compare(&networks[i], 8, NULL, false, NULL),
               four = compare(&networks[i], 4, "24000", false, NULL),
               clipped = compare(&networks[i], 8, NULL, true, NULL);
        if (!(eight >= 0.999) || !(four >= 0.98) || !(clipped >= 0.999)) {
            print_message("%s: similarity %.6f with 8 bits, %.6f with 4, %.6f with 8 and ranges\n", networks[i].name,
                          eight, four, clipped);
            good = false;
        }
    }
    assert_true(good);
}

/* ---- Nodes that the machine cannot execute ---- */

static uint32_t error_function(maker *m) { return op1(m, TV_OP_EXP, op1(m, TV_OP_ERF, m->x)); }

static void keep_message(void *user, const tv_diag *d) { snprintf(user, 200, "%s", d->message); }

static void nodes_without_instructions_are_rejected_by_name_or_left_to_the_host(void **unused)
{
    static const network n = {"error function", error_function, ROWS, false};
    char message[200] = "";
    const tv_diag_sink sink = {keep_message, message};
    tv_graph *graph = make_graph(&n);
    tv_config *config = pccx_config(NULL);
    const tv_host_op *list;
    void *state;
    tv_network_options options = {.config = config, .threads = 1, .mode = TV_MODE_TIMING};
    (void)unused;
    assert_int_equal(tv_network_pccx.create(graph, &options, &sink, &state), TV_ERR_INPUT);
    assert_string_equal(message, "pccx cannot execute v (Erf): it has no such instructions");
    options.allow_host_ops = true;
    assert_int_equal(tv_network_pccx.create(graph, &options, &sink, &state), TV_OK);
    assert_int_equal(tv_network_pccx.run(state, NULL, &sink), TV_OK);
    unsigned count = tv_network_pccx.host_ops(state, &list), found = 0;
    for (unsigned i = 0; i < count; i++)
        if (strcmp(list[i].name, "Erf") == 0 && list[i].count == 1 && list[i].elements == 11 * 24)
            found++;
    assert_int_equal(found, 1);
    tv_network_pccx.destroy(state);
    tv_config_free(config);
    tv_graph_free(graph);
}

/* ---- Cycles ---- */

/* A product of the size of a layer of BERT-base or ResNet-50: of rows, or a convolution of square images. */
typedef struct layer_size {
    int64_t rows, columns, outputs; /* of images: their extent, channels */
    window g;                       /* kernel 0: of rows */
} layer_size;

static const layer_size layer_sizes[] = {
    {128, 768, 768, {0}},         {128, 768, 3072, {0}},         {128, 3072, 768, {0}},
    {1, 2048, 1000, {0}},         {56, 64, 64, {1, 1, 0, 1}},    {56, 64, 64, {3, 1, 1, 1}},
    {56, 64, 256, {1, 1, 0, 1}},  {56, 256, 64, {1, 1, 0, 1}},   {56, 256, 128, {1, 1, 0, 1}},
    {56, 128, 128, {3, 2, 1, 1}}, {28, 128, 512, {1, 1, 0, 1}},  {56, 256, 512, {1, 2, 0, 1}},
    {28, 512, 128, {1, 1, 0, 1}}, {28, 128, 128, {3, 1, 1, 1}},  {28, 512, 256, {1, 1, 0, 1}},
    {28, 256, 256, {3, 2, 1, 1}}, {14, 256, 1024, {1, 1, 0, 1}}, {14, 1024, 256, {1, 1, 0, 1}},
    {14, 256, 256, {3, 1, 1, 1}}, {14, 512, 512, {3, 2, 1, 1}},  {7, 512, 2048, {1, 1, 0, 1}},
    {7, 2048, 512, {1, 1, 0, 1}}, {7, 512, 512, {3, 1, 1, 1}},   {224, 3, 64, {7, 2, 3, 1}},
};

/* A copy of the input, then the product without bias, whose constants have no data. */
static tv_graph *layer_graph(const layer_size *s)
{
    tv_graph_builder b;
    tv_graph *graph;
    bool rows = s->g.kernel == 0;
    tv_graph_shape x =
        rows ? (tv_graph_shape){2, {s->rows, s->columns}} : (tv_graph_shape){4, {1, s->columns, s->rows, s->rows}};
    tv_tensor w = {
        .element = TV_ELEMENT_F32, .rank = rows ? 2 : 4, .dims = {s->outputs, s->columns, s->g.kernel, s->g.kernel}};
    tv_graph_lists lists = lists_of(s->g);
    tv_graph_begin(&b, 0, 0, NULL);
    b.block = TV_BLOCK_NONE;
    uint32_t input = tv_graph_input(&b, "x", TV_ELEMENT_F32, &x),
             in[2] = {tv_graph_add(&b, TV_OP_RESHAPE, "copy", &input, 1, &(tv_graph_attrs){.shape = x}),
                      tv_graph_tensor(&b, "w", &w, false)};
    uint32_t y =
        tv_graph_add(&b, rows ? TV_OP_LINEAR : TV_OP_CONV, "y", in, 2, &(tv_graph_attrs){.lists = &lists, .groups = 1});
    tv_graph_add_output(&b, "y", y);
    assert_int_equal(tv_graph_finish(&b, TV_NO_VALUE, &graph), TV_OK);
    return graph;
}

/* Bytes of a value through the port to host memory: none if it fits in a third of L2. */
static double copied_bytes(double elements) { return elements > 131072 / 3 * 8 ? 2 * elements : 0; }

/* Cycles that no program can be faster than: multiply-adds at the peak rate, weights through their stream once, and
 * what is not in L2 through the port to host memory once. */
static double bound_of(const layer_size *s, uint64_t macs, unsigned planes)
{
    double taps = s->g.kernel ? (double)(s->g.kernel * s->g.kernel) : 1, out = (double)s->rows, in = (double)s->rows;
    if (s->g.kernel) {
        int64_t extent = (s->rows + 2 * s->g.pad - s->g.kernel) / s->g.stride + 1;
        out = (double)(extent * extent);
        in *= in;
    }
    double weights = taps * (double)(s->columns * s->outputs) / 2 * planes / 20, peak = (double)macs / 2048,
           copies = (copied_bytes(in * (double)s->columns) + copied_bytes(out * (double)s->outputs)) / 10;
    double max = weights > peak ? weights : peak;
    return max > copies ? max : copies;
}

static void products_of_known_networks_reach_their_share_of_the_bound(void **unused)
{
    bool good = true;
    (void)unused;
    for (size_t i = 0; i < sizeof layer_sizes / sizeof layer_sizes[0]; i++)
        for (unsigned planes = 1; planes <= 2; planes++) {
            const layer_size *s = &layer_sizes[i];
            tv_graph *graph = layer_graph(s);
            tv_config *config = pccx_config(NULL);
            const tv_layer *layers;
            void *state;
            tv_network_options options = {.config = config,
                                          .threads = 1,
                                          .mode = TV_MODE_TIMING,
                                          .weight_bits = planes == 2 ? 8 : 4,
                                          .explain = true};
            assert_int_equal(tv_network_pccx.create(graph, &options, NULL, &state), TV_OK);
            for (unsigned run = 0; run < 2; run++) /* the first one loads constants */
                assert_int_equal(tv_network_pccx.run(state, NULL, NULL), TV_OK);
            assert_int_equal(tv_network_pccx.layers(state, &layers), 2);
            double share = bound_of(s, layers[1].macs, planes) / (double)layers[1].cycles;
            double limit = s->rows == 56 && s->g.kernel == 3 && s->g.stride == 2 && planes == 1 ? 0.7 : 0.8;
            if (share < limit)
                print_message("%lld x %lld to %lld, kernel %lld, stride %lld, %u planes: %.1f %% of the bound, %llu "
                              "cycles, bound by %s; %s\n",
                              (long long)s->rows, (long long)s->columns, (long long)s->outputs, (long long)s->g.kernel,
                              (long long)s->g.stride, planes, 100 * share, (unsigned long long)layers[1].cycles,
                              layers[1].bound, layers[1].plan);
            good = good && share >= limit;
            tv_network_pccx.destroy(state);
            tv_config_free(config);
            tv_graph_free(graph);
        }
    assert_true(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_host),
        cmocka_unit_test(nodes_without_instructions_are_rejected_by_name_or_left_to_the_host),
        cmocka_unit_test(products_of_known_networks_reach_their_share_of_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
