/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on CMDQ: each operator, and small networks, against the host in binary32, on machines of several sizes; a
 * convolution and a pool against integers computed here. */
#include "graph/resize.h"
#include "network_models.h"
#include "trivet/config.h"

extern const tv_network_backend tv_network_cmdq;

static uint32_t channels(maker *m, float offset) { return constant(m, 3, (int64_t[]){16, 1, 1}, 0.5F, offset); }
static uint32_t row(maker *m, float offset) { return constant(m, 1, (int64_t[]){24}, 0.5F, offset); }

/* ---- Networks ---- */

static uint32_t perceptron_with_residual(maker *m)
{
    uint32_t h = linear(m, m->x, 40, 24, TV_ACTIVATION_RELU, TV_NO_VALUE);
    return linear(m, linear(m, h, 40, 40, NO, h), 10, 40, NO, TV_NO_VALUE);
}
static uint32_t wide_linear(maker *m)
{
    uint32_t h = linear(m, m->x, 500, 24, TV_ACTIVATION_GELU, TV_NO_VALUE);
    return linear(m, linear(m, h, 300, 500, TV_ACTIVATION_CLIP, TV_NO_VALUE), 24, 300, NO, m->y);
}
static uint32_t dilated_swish(maker *m)
{
    return conv(m, m->x, (conv_size){8, 16, 1, {3, 1, 2, 2}}, TV_NO_VALUE, TV_ACTIVATION_SWISH);
}
static uint32_t depthwise_twice(maker *m)
{
    uint32_t y = conv(m, m->x, (conv_size){16, 16, 16, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_CLIP);
    return conv(m, y, (conv_size){16, 16, 16, {3, 2, 1, 1}}, TV_NO_VALUE, NO);
}
static uint32_t wide_conv(maker *m)
{
    uint32_t y = conv(m, m->x, (conv_size){96, 16, 1, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    return conv(m, y, (conv_size){64, 96, 1, {3, 1, 1, 1}}, TV_NO_VALUE, NO);
}
/* To a size in both axes, by factors of the input's. */
static uint32_t resize(maker *m, uint32_t x, tv_graph_shape shape, tv_resize mode)
{
    tv_graph_lists lists = {.scale = {1, 1, (double)shape.dims[2] / 10, (double)shape.dims[3] / 8}};
    return tv_graph_add(&m->b, TV_OP_RESIZE, "v", &x, 1,
                        &(tv_graph_attrs){.lists = &lists, .shape = shape, .mode = tv_resize_pack(mode)});
}
static uint32_t nearest_twice(maker *m)
{
    tv_resize mode = {TV_RESIZE_NEAREST, TV_RESIZE_ASYMMETRIC, TV_RESIZE_FLOOR, false, false};
    uint32_t y = resize(m, op1(m, TV_OP_RELU, m->x), (tv_graph_shape){4, {1, 16, 30, 16}}, mode);
    return conv(m, y, (conv_size){8, 16, 1, {3, 1, 1, 1}}, TV_NO_VALUE, NO);
}
static uint32_t nearest_rounded(maker *m)
{
    tv_resize mode = {TV_RESIZE_NEAREST, TV_RESIZE_HALF_PIXEL, TV_RESIZE_PREFER_CEIL, false, false};
    uint32_t y = resize(m, m->x, (tv_graph_shape){4, {1, 16, 15, 20}}, mode);
    return conv(m, y, (conv_size){8, 16, 1, {1, 1, 0, 1}}, TV_NO_VALUE, NO);
}
static uint32_t linear_twice(maker *m)
{
    tv_resize mode = {TV_RESIZE_LINEAR, TV_RESIZE_HALF_PIXEL, TV_RESIZE_PREFER_FLOOR, false, false};
    uint32_t y = resize(m, m->x, (tv_graph_shape){4, {1, 16, 20, 16}}, mode);
    return conv(m, y, (conv_size){8, 16, 1, {1, 1, 0, 1}}, TV_NO_VALUE, NO);
}
/* A mean of more than a tile, whose rows are divided. */
static uint32_t global_mean(maker *m)
{
    uint32_t y = op2(m, TV_OP_ADD, op1(m, TV_OP_RELU, m->x), m->y);
    return tv_graph_add(
        &m->b, TV_OP_AVERAGE_POOL, "v", &y, 1,
        &(tv_graph_attrs){.lists = &(tv_graph_lists){.kernel = {90, 64}, .stride = {1, 1}, .dilation = {1, 1}}});
}
/* Rows that become an image, whose channels are last anyway, and rows again. */
static uint32_t image_of_rows(maker *m)
{
    static const uint32_t to_image[] = {0, 3, 1, 2}, to_rows[] = {0, 2, 3, 1};
    uint32_t y = linear(m, m->x, 24, 24, TV_ACTIVATION_RELU, TV_NO_VALUE);
    y = transpose(m, reshape(m, y, (tv_graph_shape){4, {1, 11, 1, 24}}), to_image, 4);
    y = conv(m, y, (conv_size){16, 24, 1, {1, 1, 0, 1}}, TV_NO_VALUE, NO);
    return linear(m, reshape(m, transpose(m, y, to_rows, 4), (tv_graph_shape){2, {11, 16}}), 24, 16, NO, TV_NO_VALUE);
}
static uint32_t small_lenet(maker *m)
{
    uint32_t y = conv(m, m->x, (conv_size){20, 16, 1, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = pool(m, TV_OP_MAX_POOL, y, (window){2, 2, 0, 1});
    y = conv(m, y, (conv_size){24, 20, 1, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = tv_graph_add(
        &m->b, TV_OP_AVERAGE_POOL, "v", &y, 1,
        &(tv_graph_attrs){.lists = &(tv_graph_lists){.kernel = {5, 4}, .stride = {1, 1}, .dilation = {1, 1}}});
    return linear(m, reshape(m, y, (tv_graph_shape){2, {1, 24}}), 10, 24, NO, TV_NO_VALUE);
}
static uint32_t joined_functions(maker *m)
{
    uint32_t y =
        tv_graph_add(&m->b, TV_OP_CONCAT, "v",
                     (uint32_t[]){op1(m, TV_OP_RELU, m->x), pool(m, TV_OP_MAX_POOL, m->y, (window){3, 1, 1, 1})}, 2,
                     &(tv_graph_attrs){.axis_from_end = 2});
    return conv(m, y, (conv_size){8, 32, 1, {1, 1, 0, 1}}, TV_NO_VALUE, NO);
}
static uint32_t extremes(maker *m) { return op2(m, TV_OP_MAX, op2(m, TV_OP_MIN, m->x, m->y), scalar(m, -0.5F)); }
static uint32_t scalar_operands(maker *m)
{
    return op2(m, TV_OP_SUB, scalar(m, 1), op2(m, TV_OP_MUL, m->x, scalar(m, 0.75F)));
}
static uint32_t row_operands(maker *m)
{
    uint32_t v = op2(m, TV_OP_SUB, op2(m, TV_OP_MUL, m->x, row(m, 1)), row(m, 1));
    return op2(m, TV_OP_DIV, v, row(m, 1));
}
static uint32_t column_operands(maker *m) { return op2(m, TV_OP_SUB, m->x, op1(m, TV_OP_REDUCE_MEAN, m->x)); }
static uint32_t channel_operands(maker *m)
{
    uint32_t v = op2(m, TV_OP_MUL, pool(m, TV_OP_AVERAGE_POOL, m->x, (window){1, 1, 0, 1}), channels(m, 1));
    return op2(m, TV_OP_ADD, channels(m, 1), v);
}
static uint32_t functions(maker *m)
{
    uint32_t v = op1(m, TV_OP_GELU, m->x);
    v = op2(m, TV_OP_ADD, v, op1(m, TV_OP_SIGMOID, m->x));
    v = op2(m, TV_OP_ADD, v, op1(m, TV_OP_ABS, m->x));
    v = op2(m, TV_OP_ADD, v, op1(m, TV_OP_SWISH, m->y));
    v = op2(m, TV_OP_SUB, v, op1(m, TV_OP_NEG, m->y));
    v = op2(m, TV_OP_SUB, v, op1(m, TV_OP_TANH, m->y));
    return op2(m, TV_OP_SUB, v, op1(m, TV_OP_HARD_SWISH, m->x));
}
static uint32_t shifted_norm(maker *m)
{
    return tv_graph_add(&m->b, TV_OP_NORM, "v",
                        (uint32_t[]){op2(m, TV_OP_ADD, m->x, scalar(m, 0.5F)), row(m, 1), row(m, 0)}, 3,
                        &(tv_graph_attrs){.groups = 1, .subtract_mean = true, .epsilon = 1e-5F});
}
static uint32_t attention_with_residual(maker *m)
{
    static const uint32_t heads[] = {0, 2, 1, 3}, last[] = {0, 1, 3, 2};
    tv_graph_shape split = {4, {1, 11, 3, 8}};
    uint32_t q = transpose(m, reshape(m, linear(m, m->x, 24, 24, NO, TV_NO_VALUE), split), heads, 4),
             k = transpose(m, reshape(m, linear(m, m->x, 24, 24, NO, TV_NO_VALUE), split), heads, 4),
             v = transpose(m, reshape(m, linear(m, m->y, 24, 24, NO, TV_NO_VALUE), split), heads, 4),
             scores = op2(m, TV_OP_MATMUL, q, transpose(m, k, last, 4));
    uint32_t y = op2(m, TV_OP_MATMUL, op1(m, TV_OP_SOFTMAX, scores), v);
    return linear(m, reshape(m, transpose(m, y, heads, 4), (tv_graph_shape){2, {11, 24}}), 24, 24, NO, m->x);
}

/* Heads of 8 of x, [1][3][11][8]. */
static uint32_t heads_of(maker *m, uint32_t x)
{
    static const uint32_t perm[] = {0, 2, 1, 3};
    return transpose(m, reshape(m, linear(m, x, 24, 24, NO, TV_NO_VALUE), (tv_graph_shape){4, {1, 11, 3, 8}}), perm, 4);
}
static uint32_t join_heads(maker *m, uint32_t x)
{
    static const uint32_t perm[] = {0, 2, 1, 3};
    return reshape(m, transpose(m, x, perm, 4), (tv_graph_shape){2, {11, 24}});
}
/* A factor, and a mask with a row for all rows, or one for each, with a large negative number. */
static uint32_t masked_attention(maker *m)
{
    static const uint32_t last[] = {0, 1, 3, 2};
    uint32_t y = m->x;
    for (int64_t i = 0; i < 2; i++) {
        uint32_t mask = i ? constant(m, 2, (int64_t[]){11, 11}, 3, -3) : constant(m, 4, (int64_t[]){1, 1, 1, 11}, 2, 0),
                 q = heads_of(m, y), k = heads_of(m, y), v = heads_of(m, m->y),
                 scores = op2(m, TV_OP_MATMUL, q, transpose(m, k, last, 4));
        scores = i ? op2(m, TV_OP_DIV, scores, scalar(m, 2)) : op2(m, TV_OP_MUL, scores, scalar(m, 0.7F));
        scores = op2(m, TV_OP_ADD, scores, mask);
        y = linear(m, join_heads(m, op2(m, TV_OP_MATMUL, op1(m, TV_OP_SOFTMAX, scores), v)), 24, 24, NO, y);
    }
    return y;
}
static uint32_t gather(maker *m, uint32_t x, int64_t index)
{
    tv_tensor t = {.element = TV_ELEMENT_I64, .data = &index};
    return tv_graph_add(&m->b, TV_OP_GATHER, "v", (uint32_t[]){x, tv_graph_tensor(&m->b, "i", &t, false)}, 2,
                        &(tv_graph_attrs){.axis = 0});
}
/* Query, key and value from one product, [3][heads][rows][8]. */
static uint32_t joint_attention(maker *m)
{
    static const uint32_t last[] = {0, 2, 1}, joined[] = {1, 0, 2};
    tv_graph_lists lists = {.perm = {1, 2, 0, 3}};
    uint32_t all = reshape(m, linear(m, m->x, 72, 24, NO, TV_NO_VALUE), (tv_graph_shape){4, {11, 3, 3, 8}}),
             operands[3];
    all = tv_graph_add(&m->b, TV_OP_TRANSPOSE, "v", &all, 1, &(tv_graph_attrs){.lists = &lists});
    for (int64_t i = 0; i < 3; i++)
        operands[i] = gather(m, all, i - (i == 2 ? 3 : 0));
    uint32_t scores =
        op2(m, TV_OP_MATMUL, operands[0], transpose(m, operands[1], (const uint32_t[4]){last[0], last[1], last[2]}, 4));
    uint32_t y = op2(m, TV_OP_MATMUL, op1(m, TV_OP_SOFTMAX, scores), operands[2]);
    y = transpose(m, y, (const uint32_t[4]){joined[0], joined[1], joined[2]}, 4);
    return linear(m, reshape(m, y, (tv_graph_shape){2, {11, 24}}), 24, 24, NO, TV_NO_VALUE);
}
/* Scores that are also read by another node, and heads that a function reads. */
static uint32_t open_attention(maker *m)
{
    static const uint32_t last[] = {0, 1, 3, 2};
    uint32_t q = heads_of(m, m->x), k = heads_of(m, m->y), scores = op2(m, TV_OP_MATMUL, q, transpose(m, k, last, 4)),
             weights = op1(m, TV_OP_SOFTMAX, scores);
    uint32_t y = join_heads(m, op2(m, TV_OP_MATMUL, op2(m, TV_OP_ADD, weights, scores), op1(m, TV_OP_RELU, k)));
    return op2(m, TV_OP_ADD, y, join_heads(m, op1(m, TV_OP_SIGMOID, q)));
}

/* clang-format off */
#define IMAGE {4, {1, 16, 10, 8}}
/* clang-format on */
static const network networks[] = {
    {"perceptron", perceptron_with_residual, ROWS, false},
    {"wide products", wide_linear, ROWS, true},
    {"convolution", convolution, IMAGE, false},
    {"stride 2", strided, IMAGE, false},
    {"kernel 7, stride 2", strided7, IMAGE, false},
    {"kernel 1, stride 2", strided1, IMAGE, false},
    {"dilation", dilated_swish, IMAGE, false},
    {"depthwise", depthwise_twice, IMAGE, false},
    {"groups", grouped, IMAGE, false},
    {"residual convolutions", residual_conv, IMAGE, true},
    {"wide convolutions", wide_conv, IMAGE, false},
    {"max pool", max_pool, IMAGE, false},
    {"mean pool", mean_pool, IMAGE, false},
    {"nearest pixels, repeated", nearest_twice, IMAGE, false},
    {"nearest pixels, rounded", nearest_rounded, IMAGE, false},
    {"linear resizing", linear_twice, IMAGE, false},
    {"mean of a large image", global_mean, {4, {1, 16, 90, 64}}, true},
    {"image of rows", image_of_rows, ROWS, false},
    {"convolutional network", small_lenet, IMAGE, false},
    {"concatenated channels", joined_functions, IMAGE, true},
    {"sum", sum, ROWS, true},
    {"difference of images", difference, IMAGE, true},
    {"product", product, ROWS, true},
    {"minimum and maximum", extremes, ROWS, true},
    {"quotient", quotient, ROWS, true},
    {"scalar operands", scalar_operands, ROWS, false},
    {"operands of a row", row_operands, ROWS, false},
    {"operands of a column", column_operands, ROWS, false},
    {"operands of channels", channel_operands, IMAGE, false},
    {"functions", functions, ROWS, true},
    {"softmax", softmax, ROWS, false},
    {"layer norm", shifted_norm, ROWS, false},
    {"attention", attention_with_residual, ROWS, true},
    {"attention with masks", masked_attention, ROWS, true},
    {"attention of one product", joint_attention, ROWS, false},
    {"attention whose scores are read", open_attention, ROWS, true},
};

/* ---- Runs ---- */

/* A machine: pairs of key and value. */
static const char *const machines[][8] = {
    {NULL},
    {"dma.count", "2", "npu.te", "1", "spm.bank_bytes", "32768", NULL},
    {"npu.te", "3", "npu.ve", "1", "spm.bank_bytes", "16384", NULL},
};

static tv_config *make_config(const char *const *settings)
{
    tv_config *config;
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    for (; *settings; settings += 2)
        assert_int_equal(tv_config_set(config, settings[0], settings[1], NULL), TV_OK);
    return config;
}

/* Cycles of a run; *cosine, if it is not NULL, receives the similarity of the output. */
static uint64_t run_with_bits(const reference *r, const char *const *machine, unsigned bits, bool keep_values,
                              double *cosine)
{
    tv_network_options options = {.threads = 1, .weight_bits = bits, .mode = cosine ? TV_MODE_FULL : TV_MODE_TIMING};
    tv_check_counts hazards = {0};
    tv_config *config = make_config(machine);
    void *state;
    options.config = config;
    options.ranges = cosine ? r->ranges : NULL;
    options.keep_values = keep_values;
    if (cosine)
        *cosine = 0;
    if (tv_network_cmdq.create(r->graph, &options, &print_sink, &state) != TV_OK) {
        tv_config_free(config);
        return 0;
    }
    assert_int_equal(tv_network_cmdq.run(state, cosine ? r->inputs : NULL, &print_sink), TV_OK);
    uint64_t cycles = tv_machine_clock(tv_network_cmdq.machine(state));
    assert_int_equal(tv_machine_hazards(tv_network_cmdq.machine(state), TV_WARNING, &print_sink, &hazards), TV_OK);
    assert_int_equal(hazards.errors + hazards.warnings, 0);
    if (cosine)
        *cosine = similarity(r->output, tv_network_cmdq.tensor(state, r->graph->outputs.data[0].value));
    tv_network_cmdq.destroy(state);
    tv_config_free(config);
    return cycles;
}

static uint64_t run_network(const reference *r, const char *const *machine, bool keep_values, double *cosine)
{
    return run_with_bits(r, machine, 8, keep_values, cosine);
}

/* ---- Tests ---- */

/* Rows of 96 and of 64 weights in INT4, whose outliers harm their group of 32 alone. */
static uint32_t outliers(maker *m)
{
    uint32_t h = linear(m, m->x, 96, 24, TV_ACTIVATION_RELU, TV_NO_VALUE);
    tv_tensor t;
    assert_int_equal(tv_tensor_init(&t, TV_ELEMENT_F32, 2, (int64_t[]){64, 96}, NULL), TV_OK);
    for (uint64_t i = 0; i < 64 * 96; i++)
        ((float *)t.data)[i] = next_number(&m->rng) / (i % 96 < 64 ? 40 : 1);
    uint32_t w = tv_graph_tensor(&m->b, "w", &t, false);
    tv_tensor_fini(&t);
    h = tv_graph_add(&m->b, TV_OP_LINEAR, "v", (uint32_t[]){h, w, TV_NO_VALUE, TV_NO_VALUE}, 2, &(tv_graph_attrs){0});
    return linear(m, h, 24, 64, NO, TV_NO_VALUE);
}

static void weights_of_4_bits_have_a_scale_for_each_group(void **unused)
{
    static const network cases[] = {{"outliers", outliers, ROWS, false},
                                    {"wide products", wide_linear, ROWS, true},
                                    {"wide convolutions", wide_conv, IMAGE, false}};
    (void)unused;
    for (size_t i = 0; i < TV_COUNTOF(cases); i++)
        for (size_t k = 0; k < TV_COUNTOF(machines); k++) {
            reference r;
            double cosine;
            run_reference(&r, make_graph(&cases[i]));
            uint64_t cycles = run_with_bits(&r, machines[k], 4, false, &cosine);
            if (cosine < 0.99 || run_with_bits(&r, machines[k], 4, false, NULL) != cycles)
                fail_msg("%s on machine %zu: similarity %.6f", cases[i].name, k, cosine);
            free_reference(&r);
        }
}

static void results_are_those_of_the_host(void **unused)
{
    bool good = true;
    (void)unused;
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        reference r;
        run_reference(&r, make_graph(&networks[i]));
        for (size_t k = 0; k < sizeof machines / sizeof machines[0]; k++) {
            double cosine, kept;
            uint64_t cycles = run_network(&r, machines[k], false, &cosine);
            run_network(&r, machines[k], true, &kept);
            bool timed = run_network(&r, machines[k], false, NULL) == cycles;
            if (cosine >= 0.999 && kept >= 0.999 && timed)
                continue;
            print_message("%s on machine %zu: similarity %.6f, %.6f with all values kept; timing alone %s\n",
                          networks[i].name, k, cosine, kept, timed ? "equal" : "differs");
            good = false;
        }
        free_reference(&r);
    }
    assert_true(good);
}

/* Integers whose scale is 1: x[5][9][7] from -2 to 2, its last channel 0, where the weights have 127. */
enum { IN = 5, HEIGHT = 9, WIDTH = 7, OUT = 6, KERNEL = 3, OUT_HEIGHT = 5, OUT_WIDTH = 4, RANGE = 127 };

typedef struct integers {
    float x[IN][HEIGHT][WIDTH], w[OUT][IN][KERNEL][KERNEL], bias[OUT];
} integers;

static void fill_integers(integers *n)
{
    unit_rng rng = {11};
    for (int c = 0; c < IN; c++)
        for (int i = 0; i < HEIGHT * WIDTH; i++)
            n->x[c][i / WIDTH][i % WIDTH] = c == IN - 1 ? 0 : (float)unit_below(&rng, 5) - 2;
    for (int o = 0; o < OUT; o++) {
        n->bias[o] = (float)unit_below(&rng, 9) - 4;
        for (int i = 0; i < IN * KERNEL * KERNEL; i++)
            n->w[o][i / 9][i / 3 % 3][i % 3] = i / 9 == IN - 1 ? RANGE : (float)unit_below(&rng, 3) - 1;
    }
}

/* Stride 2 and padding 1. */
static float expected_sum(const integers *n, int o, int y, int x)
{
    float sum = n->bias[o];
    for (int c = 0; c < IN; c++)
        for (int i = 0; i < KERNEL; i++)
            for (int k = 0; k < KERNEL; k++) {
                int row_at = 2 * y + i - 1, column = 2 * x + k - 1;
                if (row_at >= 0 && row_at < HEIGHT && column >= 0 && column < WIDTH)
                    sum += n->x[c][row_at][column] * n->w[o][c][i][k];
            }
    return sum > 0 ? sum : 0;
}

/* Relu of a convolution, then the maximum of windows of 2 by 2 in steps of 1. */
static tv_graph *integer_graph(integers *n)
{
    tv_graph_builder b;
    tv_graph *graph;
    tv_graph_shape shape = {4, {1, IN, HEIGHT, WIDTH}};
    tv_tensor w = {.element = TV_ELEMENT_F32, .rank = 4, .dims = {OUT, IN, KERNEL, KERNEL}, .data = n->w},
              bias = {.element = TV_ELEMENT_F32, .rank = 1, .dims = {OUT}, .data = n->bias};
    tv_graph_lists strides = lists_of((window){KERNEL, 2, 1, 1}), windows = lists_of((window){2, 1, 0, 1});
    tv_graph_begin(&b, 0, 0, NULL);
    b.block = TV_BLOCK_NONE;
    uint32_t in[] = {tv_graph_input(&b, "x", TV_ELEMENT_F32, &shape), tv_graph_tensor(&b, "w", &w, false),
                     tv_graph_tensor(&b, "b", &bias, false)};
    uint32_t y = tv_graph_add(&b, TV_OP_CONV, "conv", in, 3,
                              &(tv_graph_attrs){.lists = &strides, .groups = 1, .activation = TV_ACTIVATION_RELU});
    tv_graph_add_output(&b, "conv", y);
    tv_graph_add_output(&b, "pool",
                        tv_graph_add(&b, TV_OP_MAX_POOL, "pool", &y, 1, &(tv_graph_attrs){.lists = &windows}));
    assert_int_equal(tv_graph_finish(&b, TV_NO_VALUE, &graph), TV_OK);
    return graph;
}

static void convolution_and_pool_of_integers_are_exact(void **unused)
{
    integers n;
    (void)unused;
    fill_integers(&n);
    tv_graph *graph = integer_graph(&n);
    float ranges[16];
    assert_true(graph->values.count <= sizeof ranges / sizeof ranges[0]);
    for (size_t v = 0; v < graph->values.count; v++)
        ranges[v] = RANGE;
    tv_tensor x = {.element = TV_ELEMENT_F32, .rank = 4, .dims = {1, IN, HEIGHT, WIDTH}, .data = n.x};
    const tv_tensor *input = &x;
    tv_config *config = make_config(machines[0]);
    void *state;
    assert_int_equal(
        tv_network_cmdq.create(graph, &(tv_network_options){.config = config, .mode = TV_MODE_FULL, .ranges = ranges},
                               &print_sink, &state),
        TV_OK);
    assert_int_equal(tv_network_cmdq.run(state, &input, &print_sink), TV_OK);
    const tv_tensor *sums = tv_network_cmdq.tensor(state, graph->outputs.data[0].value),
                    *maxima = tv_network_cmdq.tensor(state, graph->outputs.data[1].value);
    for (int i = 0; i < OUT * OUT_HEIGHT * OUT_WIDTH; i++) {
        int o = i / (OUT_HEIGHT * OUT_WIDTH), y = i / OUT_WIDTH % OUT_HEIGHT, column = i % OUT_WIDTH;
        float expected = expected_sum(&n, o, y, column);
        assert_true(expected <= RANGE);
        assert_float_equal(tv_tensor_real(sums, (uint64_t)i), expected, 0);
    }
    for (int i = 0; i < OUT * (OUT_HEIGHT - 1) * (OUT_WIDTH - 1); i++) {
        int o = i / (OUT_HEIGHT - 1) / (OUT_WIDTH - 1), y = i / (OUT_WIDTH - 1) % (OUT_HEIGHT - 1),
            column = i % (OUT_WIDTH - 1);
        float expected = fmaxf(fmaxf(expected_sum(&n, o, y, column), expected_sum(&n, o, y, column + 1)),
                               fmaxf(expected_sum(&n, o, y + 1, column), expected_sum(&n, o, y + 1, column + 1)));
        assert_float_equal(tv_tensor_real(maxima, (uint64_t)i), expected, 0);
    }
    tv_network_cmdq.destroy(state);
    tv_config_free(config);
    tv_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_and_pool_of_integers_are_exact),
        cmocka_unit_test(results_are_those_of_the_host),
        cmocka_unit_test(weights_of_4_bits_have_a_scale_for_each_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
