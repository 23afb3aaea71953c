/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, equalization and bias correction against numbers worked out by hand; sessions on the host and on a machine of
 * the test's own. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/npy.h"
#include "infer/state.h"
#include "unit.h"

static tv_graph_shape dims_of(uint32_t rank, const int64_t *dims)
{
    tv_graph_shape s = {.rank = rank};
    memcpy(s.dims, dims, rank * sizeof *dims);
    return s;
}

static void begin(tv_graph_builder *b)
{
    tv_graph_begin(b, 0, 1, NULL);
    b->block = TV_BLOCK_NONE;
}

static uint32_t input(tv_graph_builder *b, const char *name, uint32_t rank, const int64_t *dims)
{
    tv_graph_shape s = dims_of(rank, dims);
    return tv_graph_input(b, name, TV_ELEMENT_F32, &s);
}

static uint32_t constant(tv_graph_builder *b, uint32_t rank, const int64_t *dims, float *data)
{
    tv_tensor t = {.element = TV_ELEMENT_F32, .rank = rank, .data = data};
    memcpy(t.dims, dims, rank * sizeof *dims);
    return tv_graph_tensor(b, "w", &t, false);
}

static tv_graph *finish(tv_graph_builder *b, uint32_t output)
{
    tv_graph *g;
    tv_graph_add_output(b, "y", output);
    assert_int_equal(tv_graph_finish(b, TV_NO_VALUE, &g), TV_OK);
    return g;
}

/* y = Relu(x) */
static tv_graph *relu_graph(int64_t n)
{
    tv_graph_builder b;
    begin(&b);
    return finish(&b, tv_graph_add1(&b, TV_OP_RELU, "y", input(&b, "x", 1, &n)));
}

/* ---- Ranges ---- */

typedef struct samples {
    tv_tensor tensors[2];
    const tv_tensor *list[1];
} samples;

static tv_status load(void *user, uint32_t sample, const tv_diag_sink *sink, const tv_tensor *const **inputs)
{
    samples *s = user;
    (void)sink;
    s->list[0] = &s->tensors[sample];
    *inputs = s->list;
    return TV_OK;
}

static float range_of(const tv_graph *g, samples *s, uint32_t count, tv_network_ranges method, uint32_t value)
{
    tv_calibration c;
    tv_calibration_options options = {.ranges = method, .percentile = 75, .samples = count, .load = load, .user = s};
    assert_int_equal(tv_calibrate(g, &options, NULL, &c), TV_OK);
    float range = c.ranges[value];
    tv_calibration_fini(&c);
    return range;
}

static void ranges_are_over_all_samples(void **state)
{
    float a[] = {1, -2, 3, -4}, b[] = {0.5F, -8, 2, 1};
    samples s = {.tensors = {{.rank = 1, .dims = {4}, .data = a}, {.rank = 1, .dims = {4}, .data = b}}};
    (void)state;
    tv_graph *g = relu_graph(4);
    uint32_t x = g->inputs.data[0], y = g->outputs.data[0].value;
    assert_true(range_of(g, &s, 2, TV_NETWORK_RANGES_MAX, x) == 8);
    assert_true(range_of(g, &s, 2, TV_NETWORK_RANGES_MAX, y) == 3);
    /* 6 of the 8 magnitudes 0.5 1 1 2 2 3 4 8 are at most 3; of y 0 0 0 0 0.5 1 1 2 2 3, 3 likewise. */
    assert_true(range_of(g, &s, 2, TV_NETWORK_RANGES_PERCENTILE, x) == 3);
    b[1] = -INFINITY;
    assert_true(range_of(g, &s, 2, TV_NETWORK_RANGES_MAX, x) == 4);
    tv_graph_free(g);
}

/* 40,000 elements of 1/254 and one of 1: with the range r the first are off by (r - 1/2) / 127 each, the last by 1 - r.
 * 40000 / 127^2 (r - 1/2)^2 + (1 - r)^2 is the smallest at r = 0.64 of the candidates. */
static void mean_square_error_balances_rounding_and_saturation(void **state)
{
    enum { N = 40001 };
    float *data = malloc(N * sizeof *data);
    samples s = {.tensors = {{.rank = 1, .dims = {N}, .data = data}}};
    (void)state;
    assert_non_null(data);
    for (unsigned i = 0; i < N; i++)
        data[i] = i ? 1.0F / 254 : 1;
    tv_graph *g = relu_graph(N);
    assert_true(fabsf(range_of(g, &s, 1, TV_NETWORK_RANGES_MSE, g->inputs.data[0]) - 0.64F) < 1e-6F);
    tv_graph_free(g);
    free(data);
}

static void integers_of_the_grid_keep_their_range(void **state)
{
    float data[] = {127, -3, 50, 1};
    samples s = {.tensors = {{.rank = 1, .dims = {4}, .data = data}}};
    (void)state;
    tv_graph *g = relu_graph(4);
    assert_true(range_of(g, &s, 1, TV_NETWORK_RANGES_MSE, g->inputs.data[0]) == 127);
    tv_graph_free(g);
}

/* ---- Equalization ---- */

static const float *constant_of(const tv_graph *g, uint32_t node, unsigned k)
{
    return tv_graph_value_at(g, tv_graph_node_at(g, node)->inputs[k])->tensor->data;
}

static void assert_floats(const float *found, const float *expected, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (fabsf(found[i] - expected[i]) > 1e-6F)
            fail_msg("element %u is %g, expected %g", i, (double)found[i], (double)expected[i]);
}

static uint32_t linear(tv_graph_builder *b, uint32_t x, uint32_t w, uint32_t bias, tv_activation activation)
{
    return tv_graph_add(b, TV_OP_LINEAR, "l", (uint32_t[]){x, w, bias}, 3, &(tv_graph_attrs){.activation = activation});
}

static tv_graph *two_linears(tv_activation activation)
{
    tv_graph_builder b;
    float w1[] = {8, 4, 1, 0.5F}, bias[] = {16, 2}, w2[] = {0.5F, 4, 2, 1};
    begin(&b);
    uint32_t x = input(&b, "x", 2, (int64_t[]){3, 2});
    uint32_t h =
        linear(&b, x, constant(&b, 2, (int64_t[]){2, 2}, w1), constant(&b, 1, (int64_t[]){2}, bias), activation);
    return finish(&b, linear(&b, h, constant(&b, 2, (int64_t[]){2, 2}, w2), TV_NO_VALUE, TV_ACTIVATION_NONE));
}

/* Channel 0: rows 8, columns 2, s = 2. Channel 1: rows 1, columns 4, s = 1/2. */
static void linears_get_equal_ranges(void **state)
{
    uint32_t pairs;
    (void)state;
    tv_graph *g = two_linears(TV_ACTIVATION_RELU);
    assert_int_equal(tv_graph_equalize(g, &pairs, NULL), TV_OK);
    assert_int_equal(pairs, 1);
    assert_floats(constant_of(g, 0, 1), (float[]){4, 2, 2, 1}, 4);
    assert_floats(constant_of(g, 0, 2), (float[]){8, 4}, 2);
    assert_floats(constant_of(g, 1, 1), (float[]){1, 2, 4, 0.5F}, 4);
    tv_graph_free(g);
}

static void other_activations_are_not_equalized(void **state)
{
    uint32_t pairs;
    (void)state;
    tv_graph *g = two_linears(TV_ACTIVATION_GELU);
    assert_int_equal(tv_graph_equalize(g, &pairs, NULL), TV_OK);
    assert_int_equal(pairs, 0);
    assert_floats(constant_of(g, 0, 1), (float[]){8, 4, 1, 0.5F}, 4);
    tv_graph_free(g);
}

static uint32_t pointwise(tv_graph_builder *b, uint32_t x, uint32_t w, uint32_t groups)
{
    tv_graph_lists lists = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    return tv_graph_add(b, TV_OP_CONV, "c", (uint32_t[]){x, w}, 2,
                        &(tv_graph_attrs){.lists = &lists, .groups = groups});
}

/* In a depthwise convolution channel c reads the weights of channel c alone. */
static void depthwise_convolutions_are_equalized(void **state)
{
    tv_graph_builder b;
    float w1[] = {4, 1}, w2[] = {1, 4};
    (void)state;
    begin(&b);
    uint32_t x = input(&b, "x", 4, (int64_t[]){1, 1, 2, 2});
    uint32_t h = pointwise(&b, x, constant(&b, 4, (int64_t[]){2, 1, 1, 1}, w1), 1);
    tv_graph *g = finish(&b, pointwise(&b, h, constant(&b, 4, (int64_t[]){2, 1, 1, 1}, w2), 2));
    assert_int_equal(tv_graph_equalize(g, NULL, NULL), TV_OK);
    assert_floats(constant_of(g, 0, 1), (float[]){2, 2}, 2);
    assert_floats(constant_of(g, 1, 1), (float[]){2, 2}, 2);
    tv_graph_free(g);
}

/* Ways in which two products are no pair: constants or values with other readers, constants without data, residuals. */
enum lone_case {
    SHARED_WEIGHTS,
    SHARED_BIAS,
    BIAS_WITHOUT_DATA,
    WEIGHTS_WITHOUT_DATA,
    SECOND_WITHOUT_DATA,
    SECOND_SHARED,
    RESIDUAL,
    READ_TWICE,
    OUTPUT,
    AS_WEIGHTS,
    OTHER_READER,
    LONE_CASES
};

static uint32_t matrix(tv_graph_builder *b, float *data) { return constant(b, 2, (int64_t[]){2, 2}, data); }

static tv_graph *lone_graph(enum lone_case c)
{
    tv_graph_builder b;
    float w1[] = {8, 4, 1, 0.5F}, bias[] = {16, 2}, w2[] = {0.5F, 4, 2, 1};
    begin(&b);
    uint32_t x = input(&b, "x", 2, (int64_t[]){2, 2}), first = matrix(&b, c == WEIGHTS_WITHOUT_DATA ? NULL : w1),
             second = c == SHARED_WEIGHTS ? first : matrix(&b, c == SECOND_WITHOUT_DATA ? NULL : w2),
             added = constant(&b, 1, (int64_t[]){2}, c == BIAS_WITHOUT_DATA ? NULL : bias);
    uint32_t h = tv_graph_add(&b, TV_OP_LINEAR, "h", (uint32_t[]){x, first, added, x}, c == RESIDUAL ? 4 : 3, NULL);
    if (c == OUTPUT)
        tv_graph_add_output(&b, "h", h);
    if (c == READ_TWICE)
        tv_graph_add_output(&b, "r", tv_graph_add1(&b, TV_OP_RELU, "r", h));
    if (c == AS_WEIGHTS)
        return finish(&b, tv_graph_add2(&b, TV_OP_MATMUL, "y", x, h));
    if (c == OTHER_READER)
        return finish(&b, tv_graph_add1(&b, TV_OP_TANH, "y", h));
    uint32_t y = linear(&b, h, second, c == SHARED_BIAS ? added : TV_NO_VALUE, TV_ACTIVATION_NONE);
    if (c == SECOND_SHARED)
        y = linear(&b, y, second, TV_NO_VALUE, TV_ACTIVATION_GELU);
    return finish(&b, y);
}

static void products_that_are_no_pair_are_not_equalized(void **state)
{
    (void)state;
    for (unsigned c = 0; c < LONE_CASES; c++) {
        uint32_t pairs;
        tv_graph *g = lone_graph((enum lone_case)c);
        assert_int_equal(tv_graph_equalize(g, &pairs, NULL), TV_OK);
        if (pairs != 0)
            fail_msg("case %u: %u pairs", c, pairs);
        if (c != WEIGHTS_WITHOUT_DATA)
            assert_floats(constant_of(g, 0, 1), (float[]){8, 4, 1, 0.5F}, 4);
        tv_graph_free(g);
    }
}

/* y = Relu(Relu(x A + a) B) C, whose first output channel has no weights, and whose second one has a range that no
 * factor can balance in binary32. */
static void equalized_products_compute_the_same(void **state)
{
    tv_graph_builder b;
    uint32_t pairs;
    float a[] = {0, 0, 3e38F, 1, 8, 4}, bias[] = {1, 0, 2}, w[] = {1, 1e-38F, 0.25F, 4, 0, 2}, c[] = {1, 3, 2, 0.5F};
    (void)state;
    begin(&b);
    uint32_t x = input(&b, "x", 2, (int64_t[]){1, 2});
    uint32_t h =
        linear(&b, x, constant(&b, 2, (int64_t[]){3, 2}, a), constant(&b, 1, (int64_t[]){3}, bias), TV_ACTIVATION_RELU);
    h = linear(&b, h, constant(&b, 2, (int64_t[]){2, 3}, w), TV_NO_VALUE, TV_ACTIVATION_RELU);
    tv_graph *g = finish(&b, linear(&b, h, constant(&b, 2, (int64_t[]){2, 2}, c), TV_NO_VALUE, TV_ACTIVATION_NONE));
    assert_int_equal(tv_graph_equalize(g, &pairs, NULL), TV_OK);
    assert_int_equal(pairs, 2);
    assert_floats(constant_of(g, 0, 1), (float[]){0, 0, 3e38F, 1}, 4);
    /* x = {0, 1}: the hidden values are {1, 1, 6} and {2.5, 16}. */
    tv_tensor in = {.element = TV_ELEMENT_F32, .rank = 2, .dims = {1, 2}, .data = (float[]){0, 1}};
    void *host;
    assert_int_equal(tv_network_host.create(g, &(tv_network_options){0}, NULL, &host), TV_OK);
    assert_int_equal(tv_network_host.run(host, &(const tv_tensor *){&in}, NULL), TV_OK);
    const float *y = tv_network_host.tensor(host, g->outputs.data[0].value)->data;
    assert_true(fabsf(y[0] - 50.5F) < 1e-4F && fabsf(y[1] - 13) < 1e-4F);
    tv_network_host.destroy(host);
    tv_graph_free(g);
}

/* A Conv and a Linear scale other axes. */
static void products_of_other_kinds_are_not_equalized(void **state)
{
    tv_graph_builder b;
    uint32_t pairs;
    float w1[] = {4, 1}, w2[] = {1, 4};
    (void)state;
    begin(&b);
    uint32_t x = input(&b, "x", 4, (int64_t[]){1, 1, 1, 2});
    uint32_t h = pointwise(&b, x, constant(&b, 4, (int64_t[]){2, 1, 1, 1}, w1), 1);
    tv_graph *g = finish(&b, linear(&b, h, constant(&b, 2, (int64_t[]){1, 2}, w2), TV_NO_VALUE, TV_ACTIVATION_NONE));
    assert_int_equal(tv_graph_equalize(g, &pairs, NULL), TV_OK);
    assert_int_equal(pairs, 0);
    tv_graph_free(g);
}

/* ---- Bias correction ---- */

static bool round_channel(float *channel, uint64_t taps, uint64_t inputs, unsigned bits)
{
    return tv_round_row(channel, taps * inputs, taps * inputs, bits);
}

static bool round_pairs(float *channel, uint64_t taps, uint64_t inputs, unsigned bits)
{
    return tv_round_row(channel, taps * inputs, 2, bits);
}

/* The weights 127 and 0.4 become 127 and 0; the mean of the second input, 5, times -0.4 is missing in the output. */
static void rounded_weights_move_the_bias(void **state)
{
    tv_graph_builder b;
    tv_calibration c;
    tv_bias_list list;
    float w[] = {127, 0.4F}, bias[] = {10}, x[] = {1, 4, 3, 6};
    samples s = {.tensors = {{.rank = 2, .dims = {2, 2}, .data = x}}};
    (void)state;
    begin(&b);
    uint32_t in = input(&b, "x", 2, (int64_t[]){2, 2});
    tv_graph *g = finish(&b, linear(&b, in, constant(&b, 2, (int64_t[]){1, 2}, w),
                                    constant(&b, 1, (int64_t[]){1}, bias), TV_ACTIVATION_NONE));
    tv_calibration_options options = {.means = true, .samples = 1, .load = load, .user = &s};
    assert_int_equal(tv_calibrate(g, &options, NULL, &c), TV_OK);
    assert_true(c.means[0][0] == 2 && c.means[0][1] == 5);
    assert_int_equal(tv_graph_correct_biases(g, c.means, round_channel, 8, NULL, &list), TV_OK);
    assert_true(constant_of(g, 0, 2)[0] == 10);
    tv_bias_list_apply(&list, g, true);
    assert_true(fabsf(constant_of(g, 0, 2)[0] - 12) < 1e-5F);
    tv_bias_list_apply(&list, g, false);
    assert_true(constant_of(g, 0, 2)[0] == 10);
    tv_bias_list_fini(&list);
    tv_calibration_fini(&c);
    tv_graph_free(g);
}

/* Of 4 bits with the scale 1: 0.25 becomes 0, and its share of the mean, 8 * 0.25, is missing. */
static void weights_of_4_bits_move_the_bias(void **state)
{
    tv_graph_builder b;
    tv_bias_list list;
    float w[] = {7, -3, 0.25F};
    double of_inputs[] = {1, 1, 8}, *means[] = {of_inputs};
    (void)state;
    begin(&b);
    uint32_t in = input(&b, "x", 2, (int64_t[]){1, 3});
    tv_graph *g = finish(&b, linear(&b, in, constant(&b, 2, (int64_t[]){1, 3}, w), TV_NO_VALUE, TV_ACTIVATION_NONE));
    assert_int_equal(tv_graph_correct_biases(g, means, round_channel, 4, NULL, &list), TV_OK);
    tv_bias_list_apply(&list, g, true);
    assert_true(fabsf(constant_of(g, 0, 2)[0] - 2) < 1e-5F);
    tv_bias_list_fini(&list);
    tv_graph_free(g);
}

/* Bias of a convolution whose weights are {7, -3} at one tap and {0.07, -0.03} at the other one. */
static float bias_with_group(uint32_t group)
{
    static const tv_graph_lists lists = {.kernel = {1, 2}, .stride = {1, 1}, .dilation = {1, 1}};
    tv_graph_builder b;
    tv_bias_list list;
    float w[] = {7, 0.07F, -3, -0.03F}; /* [1][2][1][2] */
    double of_inputs[] = {100, 200}, *means[] = {of_inputs};
    begin(&b);
    uint32_t in[2] = {input(&b, "x", 4, (int64_t[]){1, 2, 1, 4}), constant(&b, 4, (int64_t[]){1, 2, 1, 2}, w)};
    tv_graph *g = finish(&b, tv_graph_add(&b, TV_OP_CONV, "y", in, 2,
                                          &(tv_graph_attrs){.lists = (tv_graph_lists *)&lists, .groups = 1}));
    assert_int_equal(tv_graph_correct_biases(g, means, group == 2 ? round_pairs : round_channel, 4, NULL, &list),
                     TV_OK);
    tv_bias_list_apply(&list, g, true);
    float bias = constant_of(g, 0, 2)[0];
    tv_bias_list_fini(&list);
    tv_graph_free(g);
    return bias;
}

/* With a scale for the two inputs of a tap all weights are exact. With one scale, 1, those of the second tap are 0, and
 * their share of the mean is missing: 0.07 * 100 - 0.03 * 200. */
static void weights_of_4_bits_have_the_scales_of_the_machine(void **state)
{
    (void)state;
    assert_true(fabsf(bias_with_group(2)) < 1e-4F);
    assert_true(fabsf(bias_with_group(0) - 1) < 1e-4F);
}

/* ---- Sessions ---- */

static tv_network *network_of(tv_graph *g)
{
    tv_network *network;
    assert_int_equal(tv_network_new_of(g, &(tv_network_open_options){0}, NULL, &network), TV_OK);
    return network;
}

static tv_network_session *session_on(tv_network *network, const tv_network_backend *backend, bool verify,
                                      const char *emit)
{
    tv_network_session *s;
    tv_network_session_options options = {.size = sizeof options, .target = "host", .verify = verify, .emit = emit};
    assert_int_equal(tv_network_session_new_on(network, backend, &options, NULL, NULL, &s), TV_OK);
    return s;
}

static void the_host_computes_outputs(void **state)
{
    const float x[] = {1, -2, 3, -4}, expected[] = {1, 0, 3, 0};
    tv_network_tensor t;
    tv_network_layer layer;
    (void)state;
    tv_network *network = network_of(relu_graph(4));
    assert_int_equal(tv_network_set_input(network, "z", x, sizeof x, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_network_set_input(network, "x", x, 12, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_network_set_input(network, "x", x, sizeof x, NULL), TV_OK);
    tv_network_session *s = session_on(network, &tv_network_host, false, NULL);
    assert_int_equal(tv_network_session_run(s, NULL), TV_OK);
    assert_true(tv_network_session_output_at(s, 0, &t));
    assert_string_equal(t.name, "y");
    assert_string_equal(t.type, "float32");
    assert_int_equal(t.bytes, sizeof expected);
    assert_memory_equal(t.data, expected, sizeof expected);
    assert_false(tv_network_session_output_at(s, 1, &t));
    assert_true(tv_network_session_layer_at(s, 0, &layer));
    assert_string_equal(layer.op, "Relu");
    assert_false(tv_network_session_layer_at(s, 1, &layer));
    assert_int_equal(tv_network_session_verify(s, NULL), TV_ERR_INPUT);
    tv_network_session_free(s);
    tv_network_free(network);
}

/* Three rows, 100 indices; and 50 real numbers. */
static tv_graph *gather_graph(void)
{
    tv_graph_builder b;
    float rows[] = {1, 2, 3, 4, 5, 6};
    begin(&b);
    tv_graph_shape indices = dims_of(1, (int64_t[]){100});
    uint32_t i = tv_graph_input(&b, "i", TV_ELEMENT_I64, &indices);
    uint32_t x = input(&b, "x", 1, (int64_t[]){50});
    tv_graph_add_output(&b, "x", x);
    uint32_t table = constant(&b, 2, (int64_t[]){3, 2}, rows);
    return finish(&b, tv_graph_add(&b, TV_OP_GATHER, "g", (uint32_t[]){table, i}, 2, &(tv_graph_attrs){0}));
}

static void random_inputs_are_reproducible_and_in_range(void **state)
{
    int64_t first[100];
    bool selected[3] = {false};
    tv_network_tensor t;
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        tv_network *network = network_of(gather_graph());
        tv_network_session *s = session_on(network, &tv_network_host, false, NULL);
        assert_true(tv_network_input_at(network, 0, &t) && t.is_random);
        const int64_t *i = t.data;
        for (unsigned k = 0; k < 100; k++) {
            assert_in_range(i[k], 0, 2);
            selected[i[k]] = true;
        }
        if (round)
            assert_memory_equal(i, first, sizeof first);
        memcpy(first, i, sizeof first);
        assert_true(tv_network_input_at(network, 1, &t) && t.is_random);
        for (unsigned k = 0; k < 50; k++)
            assert_true(fabsf(((const float *)t.data)[k]) <= 1);
        assert_int_equal(tv_network_session_run(s, NULL), TV_OK);
        tv_network_session_free(s);
        tv_network_free(network);
    }
    assert_true(selected[0] && selected[1] && selected[2]);
}

/* ---- A machine whose results are 10 % too large ---- */

typedef struct fake {
    void *host;
    const tv_graph *graph;
    float ranges[8];
    tv_tensor scaled;
    tv_layer layer;
    tv_machine *machine;
} fake;

static tv_status fake_create(const tv_graph *graph, const tv_network_options *options, const tv_diag_sink *sink,
                             void **state)
{
    fake *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_non_null(options->ranges);
    f->graph = graph;
    memcpy(f->ranges, options->ranges, graph->values.count * sizeof *f->ranges);
    *state = f;
    return tv_network_host.create(graph, options, sink, &f->host);
}

static void fake_destroy(void *state)
{
    fake *f = state;
    tv_network_host.destroy(f->host);
    tv_tensor_fini(&f->scaled);
    tv_machine_free(f->machine);
    free(f);
}

static tv_status fake_run(void *state, const tv_tensor *const *inputs, const tv_diag_sink *sink)
{
    fake *f = state;
    tv_status status = tv_network_host.run(f->host, inputs, sink);
    const tv_tensor *y = tv_network_host.tensor(f->host, f->graph->outputs.data[0].value);
    tv_tensor_fini(&f->scaled);
    assert_int_equal(tv_tensor_init(&f->scaled, y->element, y->rank, y->dims, NULL), TV_OK);
    for (uint64_t i = 0; i < tv_tensor_count(y); i++)
        tv_tensor_set_real(&f->scaled, i, 1.1 * tv_tensor_real(y, i));
    f->layer = (tv_layer){.tiles = 2, .cycles = 30, .macs = 4, .bytes = 50, .bound = "port"};
    return status;
}

static const tv_tensor *fake_tensor(void *state, uint32_t value)
{
    fake *f = state;
    return value == f->graph->outputs.data[0].value ? &f->scaled : NULL;
}

static size_t fake_layers(const void *state, const tv_layer **list)
{
    *list = &((const fake *)state)->layer;
    return 1;
}

static tv_machine *fake_machine(void *state)
{
    (void)state;
    return NULL;
}

static const tv_network_backend fake_backend = {.name = "fake",
                                                .create = fake_create,
                                                .destroy = fake_destroy,
                                                .run = fake_run,
                                                .tensor = fake_tensor,
                                                .layers = fake_layers,
                                                .machine = fake_machine};

static void machines_get_ranges_and_are_compared(void **state)
{
    const float x[] = {1, -2, 3, -4};
    tv_network_layer layer;
    tv_network_summary summary = {.size = sizeof summary};
    (void)state;
    tv_network *network = network_of(relu_graph(4));
    assert_int_equal(tv_network_set_input(network, "x", x, sizeof x, NULL), TV_OK);
    tv_network_session *s = session_on(network, &fake_backend, true, NULL);
    const fake *f = s->state;
    assert_true(f->ranges[network->graph->inputs.data[0]] == 4);
    assert_true(f->ranges[network->graph->outputs.data[0].value] == 3);
    assert_int_equal(tv_network_session_run(s, NULL), TV_OK);
    assert_true(tv_network_session_layer_at(s, 0, &layer) && isnan(layer.cosine));
    assert_int_equal(tv_network_session_verify(s, NULL), TV_OK);
    assert_true(tv_network_session_layer_at(s, 0, &layer));
    assert_true(fabs(layer.cosine - 1) < 1e-9);
    assert_true(fabs(layer.max_error - 0.3) < 1e-6);
    assert_true(fabs(layer.own_noise - 20) < 1e-4); /* 10 % of the signal: a factor of 100 in power */
    assert_int_equal(tv_network_session_summary(s, &summary), TV_OK);
    assert_int_equal(summary.bytes, 50);
    assert_int_equal(summary.macs, 4);
    assert_int_equal(summary.calibration_samples, 1);
    tv_network_session_free(s);
    tv_network_free(network);
}

/* ---- Samples in folders ---- */

static char folder[] = "/tmp/trivet-infer-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void save_sample(const char *name, float value)
{
    float data[] = {value, 0, 0, 0};
    tv_tensor t = {.rank = 1, .dims = {4}, .data = data};
    assert_int_equal(tv_npy_write(&t, in_folder(name), NULL, NULL), TV_OK);
}

/* The first elements of the samples of a folder, in their order. */
static void assert_samples(tv_network *network, const char *name, const float *expected, uint32_t count)
{
    tv_infer_samples found;
    const tv_tensor *const *inputs;
    assert_int_equal(tv_infer_samples_init(&found, network, in_folder(name), NULL), TV_OK);
    assert_int_equal(found.count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(tv_infer_load_sample(&found, i, NULL, &inputs), TV_OK);
        assert_true(((const float *)inputs[0]->data)[0] == expected[i]);
    }
    tv_infer_samples_fini(&found);
}

static void samples_are_files_or_folders(void **state)
{
    tv_infer_samples none;
    static const char *const folders[] = {"files", "folders", "folders/a", "folders/b", "empty", "wrong"};
    (void)state;
    tv_network *network = network_of(relu_graph(4));
    for (size_t i = 0; i < TV_COUNTOF(folders); i++)
        assert_int_equal(mkdir(in_folder(folders[i]), 0700), 0);
    save_sample("files/x-10.npy", 3);
    save_sample("files/x-2.npy", 2);
    save_sample("files/x-1.npy", 1);
    save_sample("files/z-3.npy", 9);
    save_sample("folders/b/x.npy", 5);
    save_sample("folders/a/x.npy", 4);
    assert_samples(network, "files", (float[]){1, 2, 3}, 3);
    assert_samples(network, "folders", (float[]){4, 5}, 2);
    assert_int_equal(tv_infer_samples_init(&none, network, in_folder("empty"), NULL), TV_ERR_INPUT);
    tv_infer_samples_fini(&none);
    assert_int_equal(tv_infer_samples_init(&none, network, in_folder("none"), NULL), TV_ERR_INPUT);
    tv_infer_samples_fini(&none);
    tv_network_free(network);
}

/* ---- Manifests ---- */

static unsigned fake_programs(const void *state, const tv_network_program **list)
{
    static const tv_network_program programs[] = {{"a.s", 0, 1}};
    (void)state;
    *list = programs;
    return 1;
}

static bool fake_port(const void *state, uint32_t value, tv_network_port *out)
{
    (void)state;
    *out = (tv_network_port){"mem", 64 + value, TV_S8, 0.1, 1, {{0, 1, 4, 2}}};
    return true;
}

static tv_status real_create(const tv_graph *graph, const tv_network_options *options, const tv_diag_sink *sink,
                             void **state)
{
    tv_config *config;
    TV_TRY(fake_create(graph, options, sink, state));
    assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &((fake *)*state)->machine), TV_OK);
    tv_config_free(config);
    return TV_OK;
}

static tv_machine *real_machine(void *state) { return ((fake *)state)->machine; }

static void manifests_are_read_as_they_are_written(void **state)
{
    tv_network_backend backend = fake_backend;
    tv_manifest *m;
    tv_graph *g;
    tv_config *config;
    static const tv_infer_services services = {tv_program_open, tv_config_new};
    (void)state;
    backend.programs = fake_programs;
    backend.port = fake_port;
    backend.create = real_create;
    backend.machine = real_machine;
    tv_network *network = network_of(relu_graph(4));
    tv_network_session *s = session_on(network, &backend, false, in_folder("net"));
    assert_int_equal(tv_network_session_run(s, NULL), TV_OK);
    assert_int_equal(tv_network_session_save_manifest(s, NULL), TV_OK);
    assert_int_equal(tv_manifest_open(in_folder("net"), NULL, &m, &g), TV_OK);
    assert_string_equal(m->target, "opennpu");
    assert_int_equal(m->program_count, 1);
    assert_string_equal(m->programs[0].file, "a.s");
    assert_int_equal(m->layer_count, 1);
    assert_int_equal(m->layers[0].cycles, 30);
    assert_string_equal(m->layers[0].bound, "port");
    assert_null(m->layers[0].activation);
    assert_int_equal(m->input_count, 1);
    assert_true(m->inputs[0].scale == 0.1 && m->inputs[0].type == TV_S8 && m->inputs[0].terms[0].stride == 2);
    assert_int_equal(m->outputs[0].address, 64 + network->graph->outputs.data[0].value);
    assert_int_equal(g->inputs.count, 1);
    assert_string_equal(g->outputs.data[0].name, "y");
    assert_int_equal(tv_manifest_config(m, &services, NULL, &config), TV_OK);
    tv_config_free(config);
    tv_manifest_free(m);
    tv_graph_free(g);
    tv_network_session_free(s);
    tv_network_free(network);
}

/* Bytes of a manifest that are changed, left out or repeated: it is rejected, or read. */
static void damaged_manifests_are_rejected_or_read(void **state)
{
    unit_rng rng = {1};
    char text[8192];
    (void)state;
    FILE *file = fopen(in_folder("net/manifest.json"), "rb");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text, file), read = 0;
    fclose(file);
    for (unsigned i = 0; i < 3000; i++) {
        static const char characters[] = "0123456789-{}[],:\"\\ .eEnutrflsax";
        char damaged[8192];
        memcpy(damaged, text, size);
        for (unsigned k = 0; k <= unit_below(&rng, 3); k++)
            damaged[unit_below(&rng, size)] = characters[unit_below(&rng, sizeof characters - 1)];
        remove(in_folder("net/manifest.json")); /* writing over a file waits for the disk */
        file = fopen(in_folder("net/manifest.json"), "wb");
        assert_int_equal(fwrite(damaged, 1, unit_below(&rng, 8) ? size : 1 + unit_below(&rng, size - 1), file) > 0, 1);
        fclose(file);
        tv_network *network;
        if (tv_network_open(in_folder("net"), NULL, NULL, &network) == TV_OK) {
            read++;
            tv_network_free(network);
        }
    }
    assert_in_range(read, 1, 2999);
}

static int remove_folder(void **state)
{
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_over_all_samples),
        cmocka_unit_test(mean_square_error_balances_rounding_and_saturation),
        cmocka_unit_test(integers_of_the_grid_keep_their_range),
        cmocka_unit_test(linears_get_equal_ranges),
        cmocka_unit_test(other_activations_are_not_equalized),
        cmocka_unit_test(depthwise_convolutions_are_equalized),
        cmocka_unit_test(products_that_are_no_pair_are_not_equalized),
        cmocka_unit_test(equalized_products_compute_the_same),
        cmocka_unit_test(products_of_other_kinds_are_not_equalized),
        cmocka_unit_test(rounded_weights_move_the_bias),
        cmocka_unit_test(weights_of_4_bits_move_the_bias),
        cmocka_unit_test(weights_of_4_bits_have_the_scales_of_the_machine),
        cmocka_unit_test(the_host_computes_outputs),
        cmocka_unit_test(random_inputs_are_reproducible_and_in_range),
        cmocka_unit_test(machines_get_ranges_and_are_compared),
        cmocka_unit_test(samples_are_files_or_folders),
        cmocka_unit_test(manifests_are_read_as_they_are_written),
        cmocka_unit_test(damaged_manifests_are_rejected_or_read),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
