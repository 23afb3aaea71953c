/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on OpenNPU: each operator, and small networks, against the host in binary32. */
#include <math.h>

#include "graph/network.h"
#include "graph/passes.h"
#include "trivet/config.h"
#include "unit.h"

extern const tv_network_backend tv_network_opennpu;

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

static uint32_t reshape(maker *m, uint32_t x, tv_graph_shape shape)
{
    return tv_graph_add(&m->b, TV_OP_RESHAPE, "v", &x, 1, &(tv_graph_attrs){.shape = shape});
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
    {"sum", sum, ROWS, true, true},
    {"difference", difference, ROWS, true, true},
    {"product", product, ROWS, true, true},
    {"maximum", maximum, ROWS, true, true},
    {"minimum", minimum, ROWS, true, true},
    {"quotient", quotient, ROWS, true, true},
    {"operands of a row", row_operands, ROWS, false, true},
    {"operands of channels", channel_operands, IMAGES, false, true},
    {"functions", functions, ROWS, true, true},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
