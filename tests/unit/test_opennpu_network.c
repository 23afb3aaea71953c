/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on OpenNPU: each operator, and small networks, against the host in binary32. */
#include "graph/passes.h"
#include "graph/resize.h"
#include "network_models.h"
#include "trivet/config.h"

extern const tv_network_backend tv_network_opennpu;

/* ---- Networks ---- */

/* A residual block of ResNet. */
static uint32_t block(maker *m)
{
    uint32_t x =
        pool(m, TV_OP_MAX_POOL, conv(m, m->x, (conv_size){64, 3, 1, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU),
             (window){3, 2, 1, 1});
    uint32_t y = conv(m, x, (conv_size){64, 64, 1, {1, 1, 0, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = conv(m, y, (conv_size){64, 64, 1, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    x = conv(m, x, (conv_size){128, 64, 1, {1, 1, 0, 1}}, TV_NO_VALUE, NO);
    return conv(m, y, (conv_size){128, 64, 1, {1, 1, 0, 1}}, x, TV_ACTIVATION_RELU);
}
/* ---- Moves of elements ---- */

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
static uint32_t strided3(maker *m) { return conv(m, m->x, (conv_size){8, 16, 1, {3, 3, 1, 1}}, TV_NO_VALUE, NO); }
static uint32_t swish_conv(maker *m)
{
    return conv(m, m->x, (conv_size){16, 16, 1, {3, 1, 1, 1}}, m->y, TV_ACTIVATION_SWISH);
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
static uint32_t masked_softmax(maker *m)
{
    return op1(m, TV_OP_SOFTMAX, op2(m, TV_OP_ADD, m->x, constant(m, 1, (int64_t[]){24}, 5000, -8000)));
}
static uint32_t sums(maker *m) { return op2(m, TV_OP_MUL, m->x, op1(m, TV_OP_REDUCE_SUM, m->x)); }
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

static const network networks_of_products[] = {
    {"perceptron", perceptron, ROWS, false},
    {"one row", one_row, {2, {1, 130}}, false},
    {"linear with residual", residual_linear, ROWS, true},
    {"linear with clip", clipped_linear, ROWS, false},
    {"many rows", many_rows, {3, {3, 50, 70}}, false},
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
    {"mean of a corner", mean_pool, {4, {1, 16, 3, 3}}, false},
    {"convolutional network", lenet, IMAGES, false},
    {"stride 3", strided3, IMAGES, false},
    {"convolution with Swish", swish_conv, IMAGES, true},
    {"one spatial axis", one_axis, IMAGES, false},
    {"residual block", block, {4, {1, 3, 40, 40}}, false},
    {"values of different sizes", pyramid, {4, {1, 16, 20, 20}}, false},
    {"attention", attention, ROWS, true},
    {"concatenated channels", concatenation, IMAGES, true},
    {"concatenated rows", concatenated_rows, ROWS, false},
    {"rows of an image", flattened_image, IMAGES, false},
    {"enlarged", enlarged, IMAGES, false},
    {"products of values", products_of_values, ROWS, true},
    {"repeated matrices", repeated_matrices, IMAGES, true},
};

/* Everything is FP32. */
static const network networks_without_products[] = {
    {"max pool", max_pool, IMAGES, false},
    {"mean pool", mean_pool, IMAGES, false},
    {"uneven maximum", uneven_max, IMAGES, false},
    {"partial maximum", partial_max, IMAGES, false},
    {"mean inside", mean_inside, IMAGES, false},
    {"mean with padding", mean_padded, IMAGES, false},
    {"dilated maximum", dilated_max, IMAGES, false},
    {"maximum of the image", whole_max, IMAGES, false},
    {"crossed rows", crossed, ROWS, true},
    {"joined parts of rows", joined, ROWS, true},
    {"padded rows", padded, ROWS, false},
    {"rows of another length", flattened, ROWS, false},
    {"slices", slices, ROWS, false},
    {"expanded", expanded, ROWS, false},
    {"padded", padded_by_modes, ROWS, false},
    {"transposed rows", transposed_rows, ROWS, false},
    {"gathered rows", gathered, ROWS, false},
    {"sum", sum, ROWS, true},
    {"difference", difference, ROWS, true},
    {"product", product, ROWS, true},
    {"maximum", maximum, ROWS, true},
    {"minimum", minimum, ROWS, true},
    {"quotient", quotient, ROWS, true},
    {"operands of a row", row_operands, ROWS, false},
    {"operands of channels", channel_operands, IMAGES, false},
    {"functions", functions, ROWS, true},
    {"more functions", more_functions, ROWS, false},
    {"powers", powers, ROWS, false},
    {"comparisons", comparisons, ROWS, true},
    {"integers", integers, ROWS, true},
    {"log softmax", log_softmax, ROWS, false},
    {"prelu", prelu, ROWS, false},
    {"indices", indices, ROWS, false},
    {"softmax with an infinite mask", infinite_mask, ROWS, false},
    {"softmax", softmax, ROWS, false},
    {"softmax with a mask", masked_softmax, ROWS, false},
    {"means of rows", means, ROWS, false},
    {"sums of rows", sums, ROWS, false},
    {"layer norm", layer_norm, ROWS, false},
    {"group norm", group_norm, ROWS, false},
};

static tv_config *opennpu_config(const char *k)
{
    tv_config *config;
    assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
    assert_int_equal(tv_config_set(config, "vector.k", k, NULL), TV_OK);
    return config;
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

/* The largest error of a value of a network. */
static double compare(const network *n, const char *k, bool fused)
{
    tv_graph *graph = make_graph(n);
    reference r;
    void *state;
    tv_config *config = opennpu_config(k);
    if (fused)
        assert_int_equal(tv_graph_fuse(graph, NULL), TV_OK);
    run_reference(&r, graph);
    tv_network_options options = {
        .config = config, .threads = 1, .mode = TV_MODE_FULL, .keep_values = true, .ranges = r.ranges};
    if (tv_network_opennpu.create(graph, &options, &print_sink, &state) != TV_OK)
        fail_msg("%s: not created", n->name);
    double worst = 0;
    for (unsigned run = 0; run < 2; run++) {
        if (tv_network_opennpu.run(state, r.inputs, &print_sink) != TV_OK)
            fail_msg("%s: not run", n->name);
        for (size_t i = 0; i < graph->nodes.count; i++) {
            uint32_t v = graph->nodes.data[i].output;
            worst = fmax(worst, error_of(tv_network_host.tensor(r.host, v), tv_network_opennpu.tensor(state, v)));
        }
    }
    tv_network_opennpu.destroy(state);
    tv_config_free(config);
    free_reference(&r);
    return worst;
}

static bool errors_are_below(const network *networks, size_t count, double limit)
{
    static const char *const sizes[] = {"8", "64"};
    bool good = true;
    for (size_t i = 0; i < count; i++)
        for (unsigned j = 0; j < 2; j++) {
            double error = compare(&networks[i], sizes[j], j == 1);
            if (!(error <= limit))
                print_message("%s, K %s: error %.6f\n", networks[i].name, sizes[j], error);
            good = good && error <= limit;
        }
    return good;
}

/* Operands of products are rounded to 127 steps of their largest magnitude: at most half a step, 0.4 %, of each factor,
 * which averages out in the sum. With few terms and a few products in succession the error of an element stays below
 * 4 % of the largest one. Everything else is FP32, with functions that are accurate to 1e-6 of their argument; sums of
 * lanes are rounded to 2^-23 of the largest one. */
static void values_are_those_of_the_host(void **unused)
{
    (void)unused;
    bool good = errors_are_below(networks_of_products, TV_COUNTOF(networks_of_products), 0.04);
    assert_true(errors_are_below(networks_without_products, TV_COUNTOF(networks_without_products), 2e-5) && good);
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
    {{"", tangent, ROWS, false}, "opennpu cannot execute v (Tan): it has no such instructions"},
    {{"", unknown_power, ROWS, true}, "opennpu cannot execute v (Pow): it has no powers"},
    {{"", computed_kernel, ROWS, true}, "opennpu cannot execute v (Conv): it has no convolutions with weights"},
    {{"", deep_pool, ROWS, false}, "opennpu cannot execute v (MaxPool): it has no images of three"},
    {{"", wide_strides, ROWS, false}, "opennpu cannot execute v (ConvTranspose): it has no windows of such a size"},
    {{"", smooth, ROWS, false}, "opennpu cannot execute v (Resize): it has no interpolations"},
    {{"", small_integers, ROWS, false}, "opennpu cannot execute v (Cast): it has no integers but"},
    {{"", integer_quotient, ROWS, false}, "opennpu cannot execute v (Div): it has no quotients of integers"},
    {{"", half_precision, ROWS, false}, "opennpu cannot execute v (Cast): it has no rounding to 16 bits"},
    {{"", sum, {2, {0, 4}}, true}, "opennpu cannot execute v (Add): it has no empty values"},
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
    const network n = {"", many_rows, {3, {3, 50, 70}}, false};
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
    const network n = {"", tangent, ROWS, false};
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
