/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on OpenNPU: each operator, and small networks, against the host in binary32. */
#include <math.h>

#include "graph/passes.h"
#include "graph/resize.h"
#include "opennpu_networks.h"
#include "trivet/config.h"

extern const tv_network_backend tv_network_opennpu;

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
/* A residual block of ResNet. */
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

/* Windows that reach past the image in different ways. */
static uint32_t window_pool(maker *m, tv_graph_op op, uint32_t mode, tv_graph_lists lists)
{
    return tv_graph_add(&m->b, op, "v", &m->x, 1, &(tv_graph_attrs){.lists = &lists, .mode = mode});
}
static const tv_graph_lists uneven = {
    .kernel = {3, 2}, .stride = {2, 3}, .dilation = {1, 1}, .pad_begin = {1, 0}, .pad_end = {1, 1}};
static uint32_t uneven_max(maker *m) { return window_pool(m, TV_OP_MAX_POOL, 0, uneven); }
static uint32_t partial_max(maker *m) { return window_pool(m, TV_OP_MAX_POOL, 2, uneven); }
static uint32_t mean_inside(maker *m) { return window_pool(m, TV_OP_AVERAGE_POOL, 0, uneven); }
static uint32_t mean_padded(maker *m) { return window_pool(m, TV_OP_AVERAGE_POOL, 3, uneven); }
static uint32_t dilated_max(maker *m)
{
    return window_pool(m, TV_OP_MAX_POOL, 0,
                       (tv_graph_lists){.kernel = {2, 3}, .stride = {1, 1}, .dilation = {3, 2}, .pad_begin = {1, 1}});
}
static uint32_t whole_max(maker *m)
{
    return window_pool(m, TV_OP_MAX_POOL, 0, (tv_graph_lists){.kernel = {10, 8}, .stride = {1, 1}, .dilation = {1, 1}});
}
static uint32_t strided3(maker *m) { return conv(m, m->x, 8, 16, 1, (window){3, 3, 1, 1}, TV_NO_VALUE, NO); }
static uint32_t swish_conv(maker *m)
{
    return conv(m, m->x, 16, 16, 1, (window){3, 1, 1, 1}, m->y, TV_ACTIVATION_SWISH);
}
static uint32_t one_axis(maker *m)
{
    tv_graph_lists lists = {.kernel = {5}, .stride = {2}, .dilation = {1}, .pad_begin = {2}, .pad_end = {1}};
    uint32_t x = reshape(m, m->x, (tv_graph_shape){3, {2, 16, 80}});
    return tv_graph_add(&m->b, TV_OP_CONV, "v", (uint32_t[]){x, constant(m, 3, (int64_t[]){70, 16, 5}, 0.2F, 0)}, 2,
                        &(tv_graph_attrs){.lists = &lists, .groups = 1});
}
static uint32_t slices(maker *m)
{
    tv_graph_lists lists = {.begin = {1, 22}, .step = {3, -2}};
    tv_graph_attrs cut = {.start = 3, .end = 20}, steps = {.lists = &lists, .shape = {2, {3, 8}}};
    uint32_t a = tv_graph_add(&m->b, TV_OP_SLICE, "v", &m->x, 1, &cut),
             b = tv_graph_add(&m->b, TV_OP_SLICE, "v", &m->x, 1, &steps);
    return op2(m, TV_OP_MUL, reshape(m, a, (tv_graph_shape){3, {11, 17, 1}}),
               reshape(m, b, (tv_graph_shape){3, {1, 1, 24}}));
}
static uint32_t expanded(maker *m)
{
    tv_graph_attrs attrs = {.shape = {3, {2, 11, 24}}};
    uint32_t means_of_rows = op1(m, TV_OP_REDUCE_MAX, m->x), minima = op1(m, TV_OP_REDUCE_MIN, m->x);
    return tv_graph_add(&m->b, TV_OP_EXPAND, "v", (uint32_t[]){op2(m, TV_OP_ADD, means_of_rows, minima)}, 1, &attrs);
}
static uint32_t padded_by_modes(maker *m)
{
    tv_graph_lists lists = {.begin = {1, 2}, .end = {2, 3}};
    tv_graph_attrs constant_pad = {.lists = &lists}, reflected = {.lists = &lists, .mode = TV_PAD_REFLECT};
    uint32_t a = tv_graph_add(&m->b, TV_OP_PAD, "v", (uint32_t[]){m->x, scalar(m, 0.5F)}, 2, &constant_pad),
             b = tv_graph_add(&m->b, TV_OP_PAD, "v", (uint32_t[]){m->x}, 1, &reflected),
             c = tv_graph_add(&m->b, TV_OP_PAD, "v", (uint32_t[]){m->x}, 1, &constant_pad);
    return op2(m, TV_OP_ADD, op2(m, TV_OP_ADD, a, b), c);
}
static uint32_t transposed_rows(maker *m)
{
    const uint32_t perm[] = {1, 0};
    return transpose(m, m->x, perm, 2);
}
static uint32_t gathered(maker *m)
{
    int64_t rows[] = {3, -1, 0, 10};
    tv_tensor t = {.element = TV_ELEMENT_I64, .rank = 1, .dims = {4}, .data = rows};
    return tv_graph_add(&m->b, TV_OP_GATHER, "v", (uint32_t[]){m->x, tv_graph_tensor(&m->b, "i", &t, false)}, 2, NULL);
}

static uint32_t cast(maker *m, uint32_t x, tv_element to)
{
    return tv_graph_add(&m->b, TV_OP_CAST, "v", &x, 1, &(tv_graph_attrs){.to = to});
}
static uint32_t more_functions(maker *m)
{
    static const tv_graph_op ops[] = {TV_OP_ERF,   TV_OP_SIN,  TV_OP_COS,  TV_OP_ROUND,
                                      TV_OP_FLOOR, TV_OP_CEIL, TV_OP_SIGN, TV_OP_SOFTPLUS};
    uint32_t x = op2(m, TV_OP_MUL, m->x, scalar(m, 3)), v = op1(m, TV_OP_SOFTSIGN, x);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        v = op2(m, TV_OP_ADD, v, op1(m, ops[i], x));
    v = op2(m, TV_OP_ADD, v, op1(m, TV_OP_FLOOR, op2(m, TV_OP_MUL, m->x, scalar(m, 1e9F))));
    v = op2(m, TV_OP_ADD, op1(m, TV_OP_LOG, op2(m, TV_OP_ADD, op1(m, TV_OP_ABS, x), scalar(m, 0.01F))),
            op1(m, TV_OP_SIGN, v));
    tv_graph_attrs a = {.alpha = 1.5F, .beta = 1.2F};
    v = op2(m, TV_OP_ADD, v, tv_graph_add(&m->b, TV_OP_ELU, "v", &x, 1, &a));
    v = op2(m, TV_OP_ADD, v, tv_graph_add(&m->b, TV_OP_SELU, "v", &x, 1, &a));
    return op2(m, TV_OP_ADD, v, tv_graph_add(&m->b, TV_OP_THRESHOLDED_RELU, "v", &x, 1, &a));
}
static uint32_t powers(maker *m)
{
    uint32_t x = op2(m, TV_OP_ADD, op1(m, TV_OP_ABS, m->x), scalar(m, 0.5F)), v = x;
    static const float exponents[] = {1, 2, 3, 0.5F, -1, -2};
    for (size_t i = 0; i < sizeof exponents / sizeof exponents[0]; i++)
        v = op2(m, TV_OP_ADD, v, op2(m, TV_OP_POW, x, scalar(m, exponents[i])));
    return v;
}
/* Numbers that are equal, and both zeros. */
static uint32_t comparisons(maker *m)
{
    uint32_t x = op1(m, TV_OP_ROUND, m->x), y = op1(m, TV_OP_ROUND, m->y);
    uint32_t less = op2(m, TV_OP_LESS, x, y), equal = op2(m, TV_OP_EQUAL, x, y),
             not_more = op2(m, TV_OP_LESS_OR_EQUAL, x, y);
    uint32_t v = op2(m, TV_OP_XOR, op2(m, TV_OP_OR, less, equal), op1(m, TV_OP_NOT, not_more));
    v = tv_graph_add(&m->b, TV_OP_WHERE, "v", (uint32_t[]){less, m->x, scalar(m, 3)}, 3, NULL);
    return op2(m, TV_OP_ADD, v, cast(m, op2(m, TV_OP_AND, equal, cast(m, x, TV_ELEMENT_BOOL)), TV_ELEMENT_F32));
}
static uint32_t integers(maker *m)
{
    uint32_t x = cast(m, op2(m, TV_OP_MUL, m->x, scalar(m, 50)), TV_ELEMENT_I32),
             y = cast(m, op2(m, TV_OP_MUL, m->y, scalar(m, 50)), TV_ELEMENT_I32);
    uint32_t v = op2(m, TV_OP_ADD, op2(m, TV_OP_MUL, x, y), op2(m, TV_OP_MAX, x, y));
    v = op2(m, TV_OP_SUB, v, op2(m, TV_OP_MIN, x, y));
    v = tv_graph_add(&m->b, TV_OP_WHERE, "v", (uint32_t[]){op2(m, TV_OP_LESS, x, y), v, x}, 3, NULL);
    return cast(m, v, TV_ELEMENT_F32);
}
static uint32_t log_softmax(maker *m) { return op1(m, TV_OP_LOG_SOFTMAX, op2(m, TV_OP_MUL, m->x, scalar(m, 4))); }
static uint32_t prelu(maker *m) { return op2(m, TV_OP_PRELU, m->x, constant(m, 1, (int64_t[]){24}, 0.5F, 0)); }
static uint32_t index_of(maker *m, tv_graph_op op, uint32_t x, uint32_t mode)
{
    return tv_graph_add(&m->b, op, "v", &x, 1, &(tv_graph_attrs){.mode = mode});
}
/* Rounded numbers have several maxima; rows that the indices select, counted from the end. */
static uint32_t indices(maker *m)
{
    uint32_t x = op1(m, TV_OP_ROUND, m->x), first = index_of(m, TV_OP_ARG_MAX, x, 0);
    uint32_t sum_of_indices = op2(m, TV_OP_ADD, first, index_of(m, TV_OP_ARG_MAX, x, 1));
    sum_of_indices = op2(m, TV_OP_ADD, sum_of_indices, index_of(m, TV_OP_ARG_MIN, x, 0));
    int64_t extent = -24;
    tv_tensor t = {.element = TV_ELEMENT_I64, .data = &extent};
    uint32_t columns = op2(m, TV_OP_ADD, first, tv_graph_tensor(&m->b, "i", &t, false));
    uint32_t table = constant(m, 2, (int64_t[]){24, 700}, 1, 0);
    uint32_t rows = tv_graph_add(&m->b, TV_OP_GATHER, "v", (uint32_t[]){table, columns}, 2, NULL);
    return op2(m, TV_OP_MUL, rows,
               cast(m, reshape(m, sum_of_indices, (tv_graph_shape){3, {11, 1, 1}}), TV_ELEMENT_F32));
}
static uint32_t infinite_mask(maker *m)
{
    float mask[24] = {0};
    mask[3] = mask[20] = -INFINITY;
    tv_tensor t = {.element = TV_ELEMENT_F32, .rank = 1, .dims = {24}, .data = mask};
    return op1(m, TV_OP_SOFTMAX, op2(m, TV_OP_ADD, m->x, tv_graph_tensor(&m->b, "m", &t, false)));
}
static uint32_t many_rows(maker *m)
{
    uint32_t h = linear(m, m->x, 100, 70, TV_ACTIVATION_GELU, TV_NO_VALUE);
    return linear(m, h, 70, 100, NO, m->x);
}
static uint32_t one_row(maker *m)
{
    return linear(m, linear(m, m->x, 200, 130, TV_ACTIVATION_RELU, TV_NO_VALUE), 10, 200, NO, TV_NO_VALUE);
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
    v = op2(m, TV_OP_SUB, v, constant(m, 2, (int64_t[]){11, 1}, 0.5F, 1));
    return op2(m, TV_OP_DIV, v, constant(m, 1, (int64_t[]){24}, 0.5F, 1));
}
static uint32_t channel_operands(maker *m)
{
    uint32_t v = op2(m, TV_OP_MUL, m->x, constant(m, 3, (int64_t[]){16, 1, 1}, 0.5F, 1));
    v = op2(m, TV_OP_SUB, v, constant(m, 4, (int64_t[]){2, 1, 10, 1}, 0.5F, 1));
    return op2(m, TV_OP_ADD, constant(m, 3, (int64_t[]){16, 1, 1}, 0.5F, 1), v);
}
static uint32_t functions(maker *m)
{
    static const tv_graph_op more[] = {TV_OP_ABS,  TV_OP_SWISH, TV_OP_TANH, TV_OP_HARD_SWISH,
                                       TV_OP_RELU, TV_OP_EXP,   TV_OP_NEG,  TV_OP_SIGMOID};
    uint32_t v = op1(m, TV_OP_GELU, m->x);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        v = op2(m, TV_OP_ADD, v, op1(m, more[i], i % 2 ? m->x : m->y));
    v = op2(m, TV_OP_ADD, v, op1(m, TV_OP_RECIPROCAL, op1(m, TV_OP_EXP, m->x)));
    v = op2(m, TV_OP_ADD, v, op1(m, TV_OP_SQRT, op1(m, TV_OP_EXP, m->x)));
    v = op2(m, TV_OP_ADD, v, tv_graph_add(&m->b, TV_OP_LEAKY_RELU, "v", &m->x, 1, &(tv_graph_attrs){.alpha = -0.3F}));
    v = op2(m, TV_OP_ADD, v,
            tv_graph_add(&m->b, TV_OP_HARD_SIGMOID, "v", &m->x, 1, &(tv_graph_attrs){.alpha = 0.4F, .beta = 0.3F}));
    return tv_graph_add(&m->b, TV_OP_CLIP, "v", &v, 1, &(tv_graph_attrs){.alpha = -INFINITY, .beta = 6});
}
static uint32_t softmax(maker *m) { return op1(m, TV_OP_SOFTMAX, op2(m, TV_OP_MUL, m->x, scalar(m, 4))); }
static uint32_t masked_softmax(maker *m)
{
    return op1(m, TV_OP_SOFTMAX, op2(m, TV_OP_ADD, m->x, constant(m, 1, (int64_t[]){24}, 5000, -8000)));
}
static uint32_t means(maker *m) { return op2(m, TV_OP_SUB, m->x, op1(m, TV_OP_REDUCE_MEAN, m->x)); }
static uint32_t sums(maker *m) { return op2(m, TV_OP_MUL, m->x, op1(m, TV_OP_REDUCE_SUM, m->x)); }
static uint32_t layer_norm(maker *m)
{
    uint32_t gain = constant(m, 1, (int64_t[]){24}, 0.5F, 1), bias = constant(m, 1, (int64_t[]){24}, 0.5F, 0);
    return tv_graph_add(&m->b, TV_OP_NORM, "v", (uint32_t[]){op2(m, TV_OP_ADD, m->x, scalar(m, 0.5F)), gain, bias}, 3,
                        &(tv_graph_attrs){.groups = 1, .subtract_mean = true, .epsilon = 1e-5F});
}
static uint32_t group_norm(maker *m)
{
    return tv_graph_add(&m->b, TV_OP_NORM, "v", (uint32_t[]){m->x, constant(m, 1, (int64_t[]){8}, 0.5F, 1)}, 2,
                        &(tv_graph_attrs){.groups = 3, .epsilon = 1e-5F});
}
static uint32_t products_of_values(maker *m)
{
    uint32_t y = reshape(m, m->y, (tv_graph_shape){2, {24, 11}}), square = op2(m, TV_OP_MATMUL, m->x, y);
    return op2(m, TV_OP_MATMUL, square, m->x);
}
static uint32_t repeated_matrices(maker *m)
{
    uint32_t a = reshape(m, m->x, (tv_graph_shape){4, {2, 1, 80, 16}}),
             b = reshape(m, m->y, (tv_graph_shape){3, {10, 16, 16}});
    return op2(m, TV_OP_MATMUL, a, b);
}

typedef struct network {
    const char *name;
    uint32_t (*make)(maker *m);
    tv_graph_shape shape;
    bool two_inputs;
    bool exact; /* no products: everything is FP32 */
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
    {"perceptron", perceptron, ROWS, false, false},
    {"one row", one_row, {2, {1, 130}}, false, false},
    {"linear with residual", residual_linear, ROWS, true, false},
    {"linear with clip", clipped_linear, ROWS, false, false},
    {"many rows", many_rows, {3, {3, 50, 70}}, false, false},
    {"convolution", convolution, IMAGES, false, false},
    {"stride 2", strided, IMAGES, false, false},
    {"kernel 7, stride 2", strided7, IMAGES, false, false},
    {"kernel 1, stride 2", strided1, IMAGES, false, false},
    {"kernel 4, stride 4", patches, {4, {2, 16, 8, 8}}, false, false},
    {"transposed, kernel 2, stride 2", upsample, IMAGES, false, false},
    {"transposed, overlapping", overlapped, IMAGES, false, false},
    {"transposed, dilation", transposed_dilated, IMAGES, false, false},
    {"transposed, groups", transposed_groups, IMAGES, false, false},
    {"transposed, depthwise", transposed_depthwise, {4, {1, 128, 5, 6}}, false, false},
    {"transposed, gaps", gaps, IMAGES, false, false},
    {"transposed, stride 1", transposed1, IMAGES, false, false},
    {"few channels", few_channels, {4, {1, 3, 29, 37}}, false, false},
    {"dilation", dilated, IMAGES, false, false},
    {"no padding", unpadded, IMAGES, false, false},
    {"depthwise", depthwise, IMAGES, false, false},
    {"depthwise, stride 2", depthwise_strided, IMAGES, false, false},
    {"groups", grouped, IMAGES, false, false},
    {"residual convolutions", residual_conv, IMAGES, true, false},
    {"max pool", max_pool, IMAGES, false, true},
    {"mean pool", mean_pool, IMAGES, false, true},
    {"mean of a corner", mean_pool, {4, {1, 16, 3, 3}}, false, false},
    {"convolutional network", lenet, IMAGES, false, false},
    {"uneven maximum", uneven_max, IMAGES, false, true},
    {"partial maximum", partial_max, IMAGES, false, true},
    {"mean inside", mean_inside, IMAGES, false, true},
    {"mean with padding", mean_padded, IMAGES, false, true},
    {"dilated maximum", dilated_max, IMAGES, false, true},
    {"maximum of the image", whole_max, IMAGES, false, true},
    {"stride 3", strided3, IMAGES, false, false},
    {"convolution with Swish", swish_conv, IMAGES, true, false},
    {"one spatial axis", one_axis, IMAGES, false, false},
    {"residual block", block, {4, {1, 3, 40, 40}}, false, false},
    {"values of different sizes", pyramid, {4, {1, 16, 20, 20}}, false, false},
    {"attention", attention, ROWS, true, false},
    {"concatenated channels", concatenation, IMAGES, true, false},
    {"concatenated rows", concatenated_rows, ROWS, false, false},
    {"crossed rows", crossed, ROWS, true, true},
    {"joined parts of rows", joined, ROWS, true, true},
    {"padded rows", padded, ROWS, false, true},
    {"rows of another length", flattened, ROWS, false, true},
    {"rows of an image", flattened_image, IMAGES, false, false},
    {"slices", slices, ROWS, false, true},
    {"expanded", expanded, ROWS, false, true},
    {"padded", padded_by_modes, ROWS, false, true},
    {"transposed rows", transposed_rows, ROWS, false, true},
    {"enlarged", enlarged, IMAGES, false, false},
    {"gathered rows", gathered, ROWS, false, true},
    {"sum", sum, ROWS, true, true},
    {"difference", difference, ROWS, true, true},
    {"product", product, ROWS, true, true},
    {"maximum", maximum, ROWS, true, true},
    {"minimum", minimum, ROWS, true, true},
    {"quotient", quotient, ROWS, true, true},
    {"operands of a row", row_operands, ROWS, false, true},
    {"operands of channels", channel_operands, IMAGES, false, true},
    {"functions", functions, ROWS, true, true},
    {"more functions", more_functions, ROWS, false, true},
    {"powers", powers, ROWS, false, true},
    {"comparisons", comparisons, ROWS, true, true},
    {"integers", integers, ROWS, true, true},
    {"log softmax", log_softmax, ROWS, false, true},
    {"prelu", prelu, ROWS, false, true},
    {"indices", indices, ROWS, false, true},
    {"softmax with an infinite mask", infinite_mask, ROWS, false, true},
    {"softmax", softmax, ROWS, false, true},
    {"softmax with a mask", masked_softmax, ROWS, false, true},
    {"means of rows", means, ROWS, false, true},
    {"sums of rows", sums, ROWS, false, true},
    {"layer norm", layer_norm, ROWS, false, true},
    {"group norm", group_norm, ROWS, false, true},
    {"products of values", products_of_values, ROWS, true, false},
    {"repeated matrices", repeated_matrices, IMAGES, true, false},
};

static tv_graph *make_graph(const network *n)
{
    maker m = {.rng = {7}};
    tv_graph *graph;
    tv_graph_begin(&m.b, 0, 0, NULL);
    m.b.block = TV_BLOCK_NONE;
    m.x = tv_graph_input(&m.b, "x", TV_ELEMENT_F32, &n->shape);
    if (n->two_inputs)
        m.y = tv_graph_input(&m.b, "y", TV_ELEMENT_F32, &n->shape);
    tv_graph_add_output(&m.b, "out", n->make(&m));
    assert_int_equal(tv_graph_finish(&m.b, TV_NO_VALUE, &graph), TV_OK);
    return graph;
}

static void print_diagnostic(void *user, const tv_diag *d)
{
    (void)user;
    print_message("%s\n", d->message);
}

static tv_config *opennpu_config(const char *k)
{
    tv_config *config;
    assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
    assert_int_equal(tv_config_set(config, "vector.k", k, NULL), TV_OK);
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

/* The error of a result, as a share of the largest magnitude. */
static double error_of(const tv_tensor *expected, const tv_tensor *found)
{
    double max = 0, error = 0;
    assert_non_null(expected);
    assert_non_null(found);
    for (uint64_t i = 0; i < tv_tensor_count(expected); i++) {
        if (isinf(tv_tensor_real(expected, i))) /* the machine has the largest number instead */
            continue;
        max = fmax(max, fabs(tv_tensor_real(expected, i)));
        error = fmax(error, fabs(tv_tensor_real(expected, i) - tv_tensor_real(found, i)));
    }
    return error / max;
}

/* The error of each value of a network, and the largest one. */
static double compare(const network *n, const char *k, bool fused)
{
    const tv_diag_sink sink = {print_diagnostic, NULL};
    tv_graph *graph = make_graph(n);
    if (fused)
        assert_int_equal(tv_graph_fuse(graph, NULL), TV_OK);
    tv_tensor x[2] = {{0}};
    unit_rng rng = {3};
    void *host, *state;
    tv_config *config = opennpu_config(k);
    for (size_t i = 0; i < graph->inputs.count; i++) {
        tv_tensor type = tv_graph_tensor_of(graph, graph->inputs.data[i]);
        assert_int_equal(tv_tensor_init(&x[i], type.element, type.rank, type.dims, NULL), TV_OK);
        for (uint64_t j = 0; j < tv_tensor_count(&x[i]); j++)
            ((float *)x[i].data)[j] = 2 * next_number(&rng);
    }
    const tv_tensor *inputs[2] = {&x[0], &x[1]};
    tv_network_options options = {.config = config, .threads = 1, .mode = TV_MODE_FULL, .keep_values = true};
    assert_int_equal(tv_network_host.create(graph, &(tv_network_options){.keep_values = true}, NULL, &host), TV_OK);
    assert_int_equal(tv_network_host.run(host, inputs, NULL), TV_OK);
    float *ranges = find_ranges(graph, host);
    options.ranges = ranges;
    if (tv_network_opennpu.create(graph, &options, &sink, &state) != TV_OK)
        fail_msg("%s: not created", n->name);
    free(ranges);
    double worst = 0;
    for (unsigned run = 0; run < 2; run++) {
        if (tv_network_opennpu.run(state, inputs, &sink) != TV_OK)
            fail_msg("%s: not run", n->name);
        for (size_t i = 0; i < graph->nodes.count; i++) {
            uint32_t v = graph->nodes.data[i].output;
            worst = fmax(worst, error_of(tv_network_host.tensor(host, v), tv_network_opennpu.tensor(state, v)));
        }
    }
    for (size_t i = 0; i < graph->inputs.count; i++)
        tv_tensor_fini(&x[i]);
    tv_network_host.destroy(host);
    tv_network_opennpu.destroy(state);
    tv_config_free(config);
    tv_graph_free(graph);
    return worst;
}

/* Operands of products are rounded to 127 steps of their largest magnitude: at most half a step, 0.4 %, of each factor,
 * which averages out in the sum. With few terms and a few products in succession the error of an element stays below
 * 4 % of the largest one. Everything else is FP32, with functions that are accurate to 1e-6 of their argument; sums of
 * lanes are rounded to 2^-23 of the largest one. */
static void values_are_those_of_the_host(void **unused)
{
    static const char *const sizes[] = {"8", "64"};
    bool good = true;
    (void)unused;
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        for (unsigned j = 0; j < 2; j++) {
            double error = compare(&networks[i], sizes[j], j == 1), limit = networks[i].exact ? 2e-5 : 0.04;
            if (!(error <= limit))
                print_message("%s, K %s: error %.6f\n", networks[i].name, sizes[j], error);
            good = good && error <= limit;
        }
    assert_true(good);
}

/* ---- What is rejected ---- */

static void keep_message(void *user, const tv_diag *d)
{
    if (((char *)user)[0] == 0)
        snprintf(user, 256, "%s", d->message);
}

static uint32_t tangent(maker *m) { return op2(m, TV_OP_ADD, op1(m, TV_OP_TAN, m->x), m->x); }
static uint32_t unknown_power(maker *m) { return op2(m, TV_OP_POW, m->x, m->y); }
static uint32_t computed_kernel(maker *m)
{
    tv_graph_lists lists = lists_of((window){1, 1, 0, 1});
    uint32_t x = reshape(m, m->x, (tv_graph_shape){4, {1, 1, 11, 24}}),
             w = reshape(m, m->y, (tv_graph_shape){4, {264, 1, 1, 1}});
    return tv_graph_add(&m->b, TV_OP_CONV, "v", (uint32_t[]){x, w}, 2, &(tv_graph_attrs){.lists = &lists, .groups = 1});
}
static uint32_t deep_pool(maker *m)
{
    tv_graph_lists lists = {.kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
    uint32_t x = reshape(m, m->x, (tv_graph_shape){5, {1, 1, 1, 11, 24}});
    return tv_graph_add(&m->b, TV_OP_MAX_POOL, "v", &x, 1, &(tv_graph_attrs){.lists = &lists});
}
static uint32_t wide_strides(maker *m)
{
    tv_graph_lists lists = lists_of((window){1, 300, 0, 1});
    uint32_t x = reshape(m, m->x, (tv_graph_shape){4, {1, 264, 1, 1}});
    return tv_graph_add(&m->b, TV_OP_CONV_TRANSPOSE, "v",
                        (uint32_t[]){x, constant(m, 4, (int64_t[]){264, 1, 1, 1}, 1, 0)}, 2,
                        &(tv_graph_attrs){.lists = &lists, .groups = 1});
}
static uint32_t smooth(maker *m)
{
    tv_graph_lists lists = {.scale = {1, 2}};
    tv_resize linear_resize = {.method = TV_RESIZE_LINEAR};
    return tv_graph_add(
        &m->b, TV_OP_RESIZE, "v", &m->x, 1,
        &(tv_graph_attrs){.lists = &lists, .shape = {2, {11, 48}}, .mode = tv_resize_pack(linear_resize)});
}
static uint32_t small_integers(maker *m) { return cast(m, m->x, TV_ELEMENT_I8); }
static uint32_t integer_quotient(maker *m)
{
    uint32_t x = cast(m, m->x, TV_ELEMENT_I64);
    return op2(m, TV_OP_DIV, x, x);
}
static uint32_t half_precision(maker *m) { return cast(m, m->x, TV_ELEMENT_F16); }

static const struct {
    network network;
    const char *message;
} rejected[] = {
    {{"", tangent, ROWS, false, false}, "opennpu cannot execute v (Tan): it has no such instructions"},
    {{"", unknown_power, ROWS, true, false}, "opennpu cannot execute v (Pow): it has no powers"},
    {{"", computed_kernel, ROWS, true, false}, "opennpu cannot execute v (Conv): it has no convolutions with weights"},
    {{"", deep_pool, ROWS, false, false}, "opennpu cannot execute v (MaxPool): it has no images of three"},
    {{"", wide_strides, ROWS, false, false},
     "opennpu cannot execute v (ConvTranspose): it has no windows of such a size"},
    {{"", smooth, ROWS, false, false}, "opennpu cannot execute v (Resize): it has no interpolations"},
    {{"", small_integers, ROWS, false, false}, "opennpu cannot execute v (Cast): it has no integers but"},
    {{"", integer_quotient, ROWS, false, false}, "opennpu cannot execute v (Div): it has no quotients of integers"},
    {{"", half_precision, ROWS, false, false}, "opennpu cannot execute v (Cast): it has no rounding to 16 bits"},
    {{"", sum, {2, {0, 4}}, true, false}, "opennpu cannot execute v (Add): it has no empty values"},
};

static void nodes_without_instructions_are_rejected_by_name(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof rejected / sizeof rejected[0]; i++) {
        char message[256] = "";
        void *state = NULL;
        tv_graph *graph = make_graph(&rejected[i].network);
        tv_config *config = opennpu_config("8");
        assert_int_equal(tv_network_opennpu.create(graph,
                                                   &(tv_network_options){.config = config, .mode = TV_MODE_TIMING},
                                                   &(tv_diag_sink){keep_message, message}, &state),
                         TV_ERR_INPUT);
        if (strncmp(message, rejected[i].message, strlen(rejected[i].message)) != 0)
            fail_msg("%s", message);
        tv_config_free(config);
        tv_graph_free(graph);
    }
}

static void networks_that_do_not_fit_are_rejected(void **unused)
{
    static const struct {
        const char *key, *value, *message;
    } cases[] = {{"mem.bytes", "4Ki", "the network does not fit data memory of 4096 bytes"},
                 {"mem.bytes", "12Ki", "the network does not fit data memory of 12288 bytes"},
                 {"vector.l", "16", "the lowering requires vector.l = 32"}};
    const network n = {"", many_rows, {3, {3, 50, 70}}, false, false};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char message[256] = "";
        void *state = NULL;
        tv_graph *graph = make_graph(&n);
        tv_config *config = opennpu_config("8");
        assert_int_equal(tv_config_set(config, cases[i].key, cases[i].value, NULL), TV_OK);
        assert_int_equal(tv_network_opennpu.create(graph,
                                                   &(tv_network_options){.config = config, .mode = TV_MODE_TIMING},
                                                   &(tv_diag_sink){keep_message, message}, &state),
                         TV_ERR_INPUT);
        if (strncmp(message, cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("%s", message);
        tv_config_free(config);
        tv_graph_free(graph);
    }
}

/* The host's work is counted; its result is that of the host. Timing takes the cycles of a run with data. */
static void the_host_computes_nodes_on_request(void **unused)
{
    const network n = {"", tangent, ROWS, false, false};
    tv_graph *graph = make_graph(&n);
    tv_config *config = opennpu_config("64");
    tv_tensor x;
    uint64_t cycles[2];
    (void)unused;
    assert_int_equal(tv_tensor_init(&x, TV_ELEMENT_F32, 2, (int64_t[]){11, 24}, NULL), TV_OK);
    ((float *)x.data)[100] = 1;
    for (unsigned timing = 0; timing < 2; timing++) {
        const tv_tensor *inputs[] = {&x};
        const tv_host_op *ops;
        const tv_layer *layers;
        void *state;
        tv_network_options options = {
            .config = config, .threads = 1, .mode = timing ? TV_MODE_TIMING : TV_MODE_FULL, .allow_host_ops = true};
        assert_int_equal(tv_network_opennpu.create(graph, &options, NULL, &state), TV_OK);
        assert_int_equal(tv_network_opennpu.run(state, timing ? NULL : inputs, NULL), TV_OK);
        assert_int_equal(tv_network_opennpu.host_ops(state, &ops), 1);
        assert_string_equal(ops[0].name, "Tan");
        assert_int_equal(ops[0].count, 1);
        assert_int_equal(ops[0].elements, 264);
        const tv_tensor *y = tv_network_opennpu.tensor(state, graph->outputs.data[0].value);
        if (timing)
            assert_null(y);
        else
            assert_true(fabs(tv_tensor_real(y, 100) - 1 - tan(1)) < 1e-6);
        assert_int_equal(tv_network_opennpu.layers(state, &layers), 2);
        cycles[timing] = layers[0].cycles + layers[1].cycles;
        tv_network_opennpu.destroy(state);
    }
    assert_int_equal(cycles[0], cycles[1]);
    tv_tensor_fini(&x);
    tv_config_free(config);
    tv_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_host),
        cmocka_unit_test(nodes_without_instructions_are_rejected_by_name),
        cmocka_unit_test(networks_that_do_not_fit_are_rejected),
        cmocka_unit_test(the_host_computes_nodes_on_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
