/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on pccx: each operator, and small networks, against the host in binary32. */
#include "graph/passes.h"
#include "network_models.h"
#include "trivet/config.h"

extern const tv_network_backend tv_network_pccx;

/* ---- Networks ---- */

/* A residual block of ResNet, whose values are as large as a third of L2. */
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
/* What fusion makes one node of, several times. */
static uint32_t spelled_out(maker *m)
{
    uint32_t x = m->x;
    for (unsigned i = 0; i < 4; i++) {
        x = conv(m, x, (conv_size){16, 16, 1, {1, 1, 0, 1}}, TV_NO_VALUE, NO);
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
    y = conv(m, y, (conv_size){16, 16, 1, {1, 1, 0, 1}}, TV_NO_VALUE, NO);
    y = tv_graph_add(&m->b, TV_OP_CLIP, "v", &y, 1, &beside);
    y = conv(m, y, (conv_size){12, 16, 1, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    return pool(m, TV_OP_MAX_POOL, pool(m, TV_OP_MAX_POOL, y, (window){3, 1, 1, 1}), (window){2, 2, 0, 1});
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
/* The mask is different for each element, and the largest sum of a row is far from 0. */
static uint32_t masked_softmax(maker *m)
{
    return op1(m, TV_OP_SOFTMAX, op2(m, TV_OP_ADD, m->x, constant(m, 1, (int64_t[]){24}, 5000, -8000)));
}
static uint32_t joined_channels(maker *m)
{
    uint32_t a = conv(m, m->x, (conv_size){8, 16, 1, {1, 1, 0, 1}}, TV_NO_VALUE, NO), b = op1(m, TV_OP_NEG, a);
    uint32_t y =
        tv_graph_add(&m->b, TV_OP_CONCAT, "v", (uint32_t[]){a, b, pool(m, TV_OP_MAX_POOL, a, (window){3, 1, 1, 1})}, 3,
                     &(tv_graph_attrs){.axis_from_end = 2});
    y = conv(m, y, (conv_size){16, 24, 1, {3, 1, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = tv_graph_add(&m->b, TV_OP_CONCAT, "v", (uint32_t[]){y, m->y}, 2, &(tv_graph_attrs){.axis_from_end = 2});
    return op2(m, TV_OP_ADD, conv(m, y, (conv_size){12, 32, 1, {3, 1, 0, 1}}, TV_NO_VALUE, NO),
               conv(m, y, (conv_size){12, 32, 1, {3, 1, 1, 2}}, TV_NO_VALUE, NO));
}

/* Image rows that follow each other without padding, in several tiles, whose outputs are resident or not. */
static uint32_t strided_twice(maker *m)
{
    uint32_t y = conv(m, m->x, (conv_size){64, 16, 1, {3, 2, 1, 1}}, TV_NO_VALUE, TV_ACTIVATION_RELU);
    y = conv(m, y, (conv_size){24, 64, 1, {3, 2, 1, 1}}, TV_NO_VALUE, NO);
    return tv_graph_add(&m->b, TV_OP_CLIP, "v", &y, 1, &(tv_graph_attrs){.alpha = -0.5F, .beta = 0.75F});
}

static const network networks[] = {
    {"perceptron", perceptron, ROWS, false},
    {"linear with residual", residual_linear, ROWS, true},
    {"linear with clip", clipped_linear, ROWS, false},
    {"convolution", convolution, IMAGES, false},
    {"stride 2", strided, IMAGES, false},
    {"stride 2 twice", strided_twice, {4, {1, 16, 96, 64}}, false},
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

static tv_config *pccx_config(const char *l2_words)
{
    tv_config *config;
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    if (l2_words)
        assert_int_equal(tv_config_set(config, "l2.words", l2_words, NULL), TV_OK);
    return config;
}

/* Similarity of the first output with that of the host. */
static double compare(const network *n, unsigned bits, const char *l2_words, bool calibrated)
{
    tv_graph *graph = make_graph(n);
    reference r;
    void *state;
    tv_config *config = pccx_config(l2_words);
    if (bits == 4)
        assert_int_equal(tv_graph_fuse(graph, NULL), TV_OK);
    run_reference(&r, graph);
    tv_network_options options = {.config = config, .threads = 1, .mode = TV_MODE_FULL, .weight_bits = bits};
    options.ranges = calibrated ? r.ranges : NULL;
    if (tv_network_pccx.create(graph, &options, &print_sink, &state) != TV_OK)
        fail_msg("%s: not created", n->name);
    if (tv_network_pccx.run(state, r.inputs, &print_sink) != TV_OK)
        fail_msg("%s: not run", n->name);
    double cosine = similarity(r.output, tv_network_pccx.tensor(state, graph->outputs.data[0].value));
    tv_network_pccx.destroy(state);
    tv_config_free(config);
    free_reference(&r);
    return cosine;
}

static void results_are_those_of_the_host(void **unused)
{
    bool good = true;
    (void)unused;
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        double eight = compare(&networks[i], 8, NULL, false), four = compare(&networks[i], 4, "24000", false),
               clipped = compare(&networks[i], 8, NULL, true);
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
            if (share < 0.8)
                print_message("%lld x %lld to %lld, kernel %lld, stride %lld, %u planes: %.1f %% of the bound, %llu "
                              "cycles, bound by %s; %s\n",
                              (long long)s->rows, (long long)s->columns, (long long)s->outputs, (long long)s->g.kernel,
                              (long long)s->g.stride, planes, 100 * share, (unsigned long long)layers[1].cycles,
                              layers[1].bound, layers[1].plan);
            good = good && share >= 0.8;
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
