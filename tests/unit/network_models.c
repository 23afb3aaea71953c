/* SPDX-License-Identifier: Apache-2.0 */
#include "network_models.h"

#include "graph/resize.h"

uint32_t perceptron(maker *m)
{
    uint32_t h = linear(m, m->x, 40, 24, TV_ACTIVATION_RELU, TV_NO_VALUE);
    return linear(m, linear(m, h, 40, 40, TV_ACTIVATION_TANH, h), 10, 40, NO, TV_NO_VALUE);
}
uint32_t residual_linear(maker *m) { return linear(m, m->x, 24, 24, NO, m->y); }
uint32_t clipped_linear(maker *m) { return linear(m, m->x, 24, 24, TV_ACTIVATION_CLIP, TV_NO_VALUE); }
uint32_t convolution(maker *m)
{
    return conv(m, m->x, (conv_size){12, 16, 1, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
}
uint32_t strided(maker *m) { return conv(m, m->x, (conv_size){8, 16, 1, {3, 2, 1, 1}}, TV_NO_VALUE, NO); }
uint32_t strided7(maker *m) { return conv(m, m->x, (conv_size){8, 16, 1, {7, 2, 3, 1}}, TV_NO_VALUE, NO); }
uint32_t strided1(maker *m) { return conv(m, m->x, (conv_size){8, 16, 1, {1, 2, 0, 1}}, TV_NO_VALUE, NO); }
uint32_t patches(maker *m) { return conv(m, m->x, (conv_size){8, 16, 1, {4, 4, 0, 1}}, TV_NO_VALUE, NO); }
uint32_t dilated(maker *m) { return conv(m, m->x, (conv_size){8, 16, 1, {3, 1, 2, 2}}, TV_NO_VALUE, NO); }
uint32_t unpadded(maker *m) { return conv(m, m->x, (conv_size){5, 16, 1, {3, 1, 0, 1}}, TV_NO_VALUE, NO); }
uint32_t depthwise(maker *m)
{
    return conv(m, m->x, (conv_size){16, 16, 16, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_CLIP);
}
uint32_t depthwise_strided(maker *m) { return conv(m, m->x, (conv_size){16, 16, 16, {3, 2, 1, 1}}, TV_NO_VALUE, NO); }
uint32_t grouped(maker *m) { return conv(m, m->x, (conv_size){32, 16, 2, {3, 1, 1, 1}}, TV_NO_VALUE, NO); }
uint32_t residual_conv(maker *m)
{
    uint32_t y = conv(m, m->x, (conv_size){16, 16, 1, {3, 1, 1, 1}}, m->y, TV_ACTIVATION_RELU);
    return conv(m, y, (conv_size){16, 16, 1, {1, 1, 0, 1}}, y, TV_ACTIVATION_RELU);
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
uint32_t upsample(maker *m) { return transposed(m, 16, 12, (window){2, 2, 0, 1}, 0, 1); }
uint32_t overlapped(maker *m) { return op1(m, TV_OP_RELU, transposed(m, 16, 8, (window){4, 2, 1, 1}, 1, 1)); }
uint32_t transposed_dilated(maker *m) { return transposed(m, 16, 8, (window){3, 3, 2, 2}, 0, 1); }
uint32_t transposed_groups(maker *m) { return transposed(m, 16, 32, (window){3, 2, 1, 1}, 0, 4); }
uint32_t transposed_depthwise(maker *m) { return transposed(m, 128, 128, (window){3, 2, 0, 1}, 0, 128); }
uint32_t gaps(maker *m) { return transposed(m, 16, 8, (window){1, 2, 0, 1}, 0, 1); }
uint32_t transposed1(maker *m) { return transposed(m, 16, 8, (window){3, 1, 1, 1}, 0, 1); }
uint32_t few_channels(maker *m)
{
    uint32_t y = conv(m, m->x, (conv_size){8, 3, 1, {7, 2, 3, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    return conv(m, y, (conv_size){5, 8, 1, {3, 1, 1, 2}}, TV_NO_VALUE, NO);
}
uint32_t max_pool(maker *m) { return pool(m, TV_OP_MAX_POOL, m->x, (window){3, 2, 1, 1}); }
uint32_t mean_pool(maker *m) { return pool(m, TV_OP_AVERAGE_POOL, m->x, (window){2, 2, 0, 1}); }
uint32_t lenet(maker *m)
{
    uint32_t y = conv(m, m->x, (conv_size){20, 16, 1, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = pool(m, TV_OP_MAX_POOL, y, (window){2, 2, 0, 1});
    y = conv(m, y, (conv_size){24, 20, 1, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = tv_graph_add(
        &m->b, TV_OP_AVERAGE_POOL, "v", &y, 1,
        &(tv_graph_attrs){.lists = &(tv_graph_lists){.kernel = {5, 4}, .stride = {1, 1}, .dilation = {1, 1}}});
    return linear(m, reshape(m, y, (tv_graph_shape){2, {2, 24}}), 10, 24, NO, TV_NO_VALUE);
}
/* Values of different sizes with long lives, of which L2 has room for some only. */
uint32_t pyramid(maker *m)
{
    uint32_t x = m->x, kept[6] = {TV_NO_VALUE};
    for (unsigned i = 0; i < 24; i++) {
        uint32_t channels = 16U << i % 3, from = i ? 16U << (i - 1) % 3 : 16;
        x = conv(m, x, (conv_size){channels, from, 1, {1, 1, 0, 1}}, i >= 6 ? kept[i % 6] : TV_NO_VALUE,
                 i % 2 ? TV_ACTIVATION_RELU : NO);
        kept[i % 6] = x;
    }
    return x;
}
uint32_t sum(maker *m) { return op2(m, TV_OP_ADD, m->x, m->y); }
uint32_t difference(maker *m) { return op2(m, TV_OP_SUB, m->x, m->y); }
uint32_t product(maker *m) { return op2(m, TV_OP_MUL, m->x, m->y); }
uint32_t maximum(maker *m) { return op2(m, TV_OP_MAX, m->x, m->y); }
uint32_t minimum(maker *m) { return op2(m, TV_OP_MIN, m->x, m->y); }
uint32_t quotient(maker *m)
{
    return op2(m, TV_OP_DIV, m->x, op2(m, TV_OP_ADD, op1(m, TV_OP_EXP, m->y), scalar(m, 0.5F)));
}
uint32_t softmax(maker *m) { return op1(m, TV_OP_SOFTMAX, op2(m, TV_OP_MUL, m->x, scalar(m, 4))); }
uint32_t means(maker *m) { return op2(m, TV_OP_SUB, m->x, op1(m, TV_OP_REDUCE_MEAN, m->x)); }
uint32_t layer_norm(maker *m)
{
    uint32_t gain = constant(m, 1, (int64_t[]){24}, 0.5F, 1), bias = constant(m, 1, (int64_t[]){24}, 0.5F, 0);
    return tv_graph_add(&m->b, TV_OP_NORM, "v", (uint32_t[]){op2(m, TV_OP_ADD, m->x, scalar(m, 0.5F)), gain, bias}, 3,
                        &(tv_graph_attrs){.groups = 1, .subtract_mean = true, .epsilon = 1e-5F});
}
uint32_t attention(maker *m)
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
uint32_t concatenation(maker *m)
{
    tv_graph_attrs attrs = {.axis_from_end = 2};
    uint32_t y = tv_graph_add(&m->b, TV_OP_CONCAT, "v", (uint32_t[]){m->x, m->y}, 2, &attrs);
    return conv(m, y, (conv_size){8, 32, 1, {1, 1, 0, 1}}, TV_NO_VALUE, NO);
}
/* A constant, as a class token is, before a value in L2, and the other way round. */
uint32_t concatenated_rows(maker *m)
{
    tv_graph_attrs attrs = {.axis_from_end = 1};
    uint32_t token = constant(m, 2, (int64_t[]){1, 24}, 1, 0), y = op1(m, TV_OP_RELU, m->x);
    y = tv_graph_add(&m->b, TV_OP_CONCAT, "v", (uint32_t[]){token, y, token}, 3, &attrs);
    return linear(m, y, 24, 24, NO, TV_NO_VALUE);
}
uint32_t crossed(maker *m)
{
    const uint32_t perm[] = {1, 0};
    return op2(m, TV_OP_ADD, transpose(m, m->x, perm, 2), transpose(m, m->y, perm, 2));
}
uint32_t joined(maker *m)
{
    uint32_t slice = tv_graph_add(&m->b, TV_OP_SLICE, "v", &m->x, 1, &(tv_graph_attrs){.start = 3, .end = 20});
    return tv_graph_add(&m->b, TV_OP_CONCAT, "v", (uint32_t[]){slice, m->y, slice}, 3,
                        &(tv_graph_attrs){.axis_from_end = 0});
}
uint32_t padded(maker *m)
{
    tv_graph_lists lists = {.begin = {1, 5}, .end = {2, 1}};
    return tv_graph_add(&m->b, TV_OP_PAD, "v", &m->x, 1, &(tv_graph_attrs){.lists = &lists, .mode = TV_PAD_CONSTANT});
}
uint32_t flattened(maker *m) { return reshape(m, m->x, (tv_graph_shape){2, {24, 11}}); }
/* Of images to rows of pixels. */
uint32_t flattened_image(maker *m)
{
    uint32_t y = conv(m, m->x, (conv_size){12, 16, 1, {3, 1, 1, 1}}, TV_NO_VALUE, NO);
    return reshape(m, y, (tv_graph_shape){2, {2, 960}});
}
uint32_t enlarged(maker *m)
{
    tv_graph_lists lists = {.scale = {1, 1, 2, 1.5}};
    tv_resize nearest = {.method = TV_RESIZE_NEAREST, .coordinates = TV_RESIZE_ASYMMETRIC, .rounding = TV_RESIZE_FLOOR};
    uint32_t y = conv(m, m->x, (conv_size){12, 16, 1, {1, 1, 0, 1}}, TV_NO_VALUE, NO);
    return tv_graph_add(
        &m->b, TV_OP_RESIZE, "v", &y, 1,
        &(tv_graph_attrs){.lists = &lists, .shape = {4, {2, 12, 20, 12}}, .mode = tv_resize_pack(nearest)});
}
