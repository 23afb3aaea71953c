/* SPDX-License-Identifier: Apache-2.0 */
/* Random small graphs on the host: against an evaluation in binary64, and fused against unfused, which must give the
 * same bits. */
#include "graph_values.h"

#include <math.h>

#include "graph/host_node.h"
#include "graph/passes.h"

enum { WORDS = 5, TOKENS = 5, POOL = 64, TENSORS = 128, VOCABULARY = 7 };

/* A random graph in the making. `pool` are values of the shape [tokens x n] that later nodes may read. */
typedef struct maker {
    tv_graph_builder b;
    unit_rng rng;
    weights w;
    encoded_tensor tensors[TENSORS];
    unsigned tensor_count, names;
    uint32_t pool[POOL];
    unsigned count;
} maker;

static uint32_t columns(const maker *m, uint32_t value) { return tv_graph_columns(m->b.graph, value); }

static bool chance(maker *m, unsigned percent) { return unit_below(&m->rng, 100) < percent; }

static uint32_t add(maker *m, tv_graph_op op, const uint32_t *inputs, uint32_t count, const tv_graph_attrs *attrs)
{
    char name[16];
    snprintf(name, sizeof name, "v%u", m->names++);
    uint32_t out = tv_graph_add(&m->b, op, name, inputs, count, attrs);
    if (out == TV_NO_VALUE)
        fail_msg("%s is rejected", tv_graph_op_infos[op].name);
    return out;
}

static uint32_t add1(maker *m, tv_graph_op op, uint32_t x) { return add(m, op, &x, 1, NULL); }

static uint32_t add2(maker *m, tv_graph_op op, uint32_t x, uint32_t y)
{
    return add(m, op, (uint32_t[]){x, y}, 2, NULL);
}

static uint32_t constant(maker *m, uint32_t count, uint32_t rows, uint32_t width)
{
    return add_weights(&m->b, &m->w, &m->tensors[m->tensor_count++], (uint32_t[]){count, rows, width});
}

/* A later node's input: the latest values are likelier. */
static uint32_t pick(maker *m)
{
    unsigned back = 0;
    while (back + 1 < m->count && chance(m, 40))
        back++;
    return m->pool[m->count - 1 - back];
}

static uint32_t gemm(maker *m, uint32_t x, uint32_t rows, bool bias)
{
    uint32_t inputs[3] = {x, constant(m, 1, rows, columns(m, x)), TV_NO_VALUE};
    if (bias)
        inputs[2] = constant(m, 1, 1, rows);
    return add(m, TV_OP_GEMM, inputs, 3, NULL);
}

static uint32_t even_size(maker *m) { return 2 * (1 + (uint32_t)unit_below(&m->rng, 4)); }

static uint32_t activate(maker *m, uint32_t x)
{
    static const tv_graph_op ops[] = {TV_OP_RELU, TV_OP_SWISH, TV_OP_GELU, TV_OP_SIGMOID, TV_OP_TANH};
    tv_graph_op op = ops[unit_below(&m->rng, 5)];
    return add(m, op, &x, 1, &(tv_graph_attrs){.approximate = op == TV_OP_GELU && chance(m, 50)});
}

/* A value of `x`'s shape, or one that is repeated to it. */
static uint32_t partner(maker *m, uint32_t x)
{
    for (unsigned i = 0; i < 4; i++) {
        uint32_t y = pick(m);
        if (y != x && columns(m, y) == columns(m, x))
            return y;
    }
    switch (unit_below(&m->rng, 4)) {
    case 0:
        return constant(m, 1, 1, columns(m, x));
    case 1:
        return tv_graph_scalar(&m->b, "half", 0.5F);
    case 2:
        return add1(m, TV_OP_REDUCE_MEAN, x);
    default:
        return gemm(m, x, columns(m, x), chance(m, 50));
    }
}

static uint32_t binary(maker *m, uint32_t x)
{
    static const tv_graph_op ops[] = {TV_OP_ADD, TV_OP_ADD, TV_OP_SUB, TV_OP_MUL};
    if (chance(m, 50)) /* read once, so that it may be fused */
        x = gemm(m, x, even_size(m), chance(m, 50));
    if (chance(m, 30))
        x = activate(m, x);
    uint32_t y = partner(m, x);
    return chance(m, 50) ? add2(m, ops[unit_below(&m->rng, 4)], x, y) : add2(m, ops[unit_below(&m->rng, 4)], y, x);
}

static uint32_t normalize(maker *m, uint32_t x, uint32_t length)
{
    bool centered = chance(m, 50), gains = centered || chance(m, 70);
    uint32_t inputs[3] = {x, gains ? constant(m, 1, 1, length) : TV_NO_VALUE, TV_NO_VALUE};
    if (centered && chance(m, 50))
        inputs[2] = constant(m, 1, 1, length);
    return add(m, centered ? TV_OP_LAYER_NORMALIZATION : TV_OP_RMS_NORMALIZATION, inputs, 3,
               &(tv_graph_attrs){.epsilon = 0.0625F});
}

static uint32_t reshape(maker *m, uint32_t x, uint32_t heads, uint32_t size)
{
    tv_graph_attrs attrs = {.shape = {3, {TV_DIM_TOKENS, heads, size}}};
    if (!heads)
        attrs.shape = (tv_graph_shape){2, {TV_DIM_TOKENS, size}};
    return add(m, TV_OP_RESHAPE, &x, 1, &attrs);
}

/* The norm of each head, usually of the shape that the pass fuses. */
static uint32_t normalize_heads(maker *m, uint32_t x)
{
    uint32_t size = columns(m, x) / 2;
    if (chance(m, 20)) /* the norm is of more than the last axis of what is reshaped */
        return reshape(m, reshape(m, normalize(m, reshape(m, reshape(m, x, 2, size), 0, 2 * size), 2 * size), 2, size),
                       0, 2 * size);
    uint32_t y = normalize(m, reshape(m, x, 2, size), size);
    if (chance(m, 20)) /* not back to the shape before */
        return reshape(m, reshape(m, y, 1, 2 * size), 0, 2 * size);
    if (chance(m, 20))
        m->pool[m->count++] = reshape(m, y, 0, 2 * size);
    return reshape(m, y, 0, 2 * size);
}

static uint32_t gate(maker *m, uint32_t x)
{
    uint32_t rows = even_size(m), other = chance(m, 90) ? x : pick(m);
    uint32_t a = gemm(m, x, rows, chance(m, 10)), b = gemm(m, other, rows, chance(m, 10));
    if (chance(m, 10))
        m->pool[m->count++] = a;
    a = chance(m, 90) ? activate(m, a) : a;
    b = chance(m, 10) ? activate(m, b) : b;
    return chance(m, 50) ? add2(m, TV_OP_MUL, a, b) : add2(m, TV_OP_MUL, b, a);
}

static uint32_t add_residual(maker *m, uint32_t x)
{
    uint32_t y = gemm(m, pick(m), columns(m, x), chance(m, 50));
    return chance(m, 50) ? add2(m, TV_OP_ADD, x, y) : add2(m, TV_OP_ADD, y, x);
}

static uint32_t multiply(maker *m, uint32_t x)
{
    uint32_t half = columns(m, x) / 2, a = reshape(m, x, 2, half), b = add1(m, TV_OP_TRANSPOSE, a);
    return reshape(m, add2(m, TV_OP_MATMUL, a, b), 0, 4);
}

static uint32_t attend(maker *m, uint32_t x)
{
    uint32_t size = 1 + (uint32_t)unit_below(&m->rng, 3), value_size = 1 + (uint32_t)unit_below(&m->rng, 3);
    uint32_t cache = tv_graph_add_cache(&m->b, (tv_graph_cache){.heads = 2, .key_dim = size, .value_dim = value_size});
    tv_graph_attrs attrs = {.heads = 4, .scale = 0.5F, .cache = cache};
    attrs.window = chance(m, 50) ? 2 : 0;
    attrs.soft_cap = chance(m, 50) ? 2 : 0;
    uint32_t q = gemm(m, x, 4 * size, false), k = gemm(m, x, 2 * size, false), v = gemm(m, x, 2 * value_size, true);
    uint32_t y = add(m, TV_OP_ATTENTION, (uint32_t[]){q, k, v}, 3, &attrs);
    if (chance(m, 30)) /* reads the same cache */
        y = add2(m, TV_OP_ADD, y, add1(m, TV_OP_RELU, add(m, TV_OP_ATTENTION, &q, 1, &attrs)));
    return y;
}

static uint32_t rotate(maker *m, uint32_t x)
{
    tv_graph_attrs attrs = {.heads = 1, .theta = 100, .frequency_scale = chance(m, 50) ? 1 : 0.5F};
    attrs.rotary_dim = 2 * (1 + (uint32_t)unit_below(&m->rng, columns(m, x) / 2));
    attrs.interleaved = chance(m, 50);
    uint32_t factors = TV_NO_VALUE;
    if (chance(m, 30)) { /* positive ones */
        static const float pairs[] = {1, 2, 4, 8, 16, 32};
        factors = tv_graph_constant(
            &m->b, "factors", &(tv_matrix){.values = pairs, .rows = 1, .columns = attrs.rotary_dim / 2, .count = 1});
    }
    return add(m, TV_OP_ROTARY_EMBEDDING, (uint32_t[]){x, factors}, 2, &attrs);
}

static uint32_t route(maker *m, uint32_t x)
{
    uint32_t experts = 3, n = columns(m, x), hidden = even_size(m),
             inputs[] = {x, gemm(m, x, experts, false), constant(m, experts, hidden, n),
                         constant(m, experts, hidden, n), constant(m, experts, n, hidden)};
    return add(m, TV_OP_MOE, inputs, 5,
               &(tv_graph_attrs){.experts_used = 2, .normalize = chance(m, 50), .activation = TV_ACTIVATION_SWISH});
}

static uint32_t slice(maker *m, uint32_t x)
{
    uint32_t half = columns(m, x) / 2, start = chance(m, 50) ? half : 0;
    uint32_t y = add(m, TV_OP_SLICE, &x, 1, &(tv_graph_attrs){.start = start, .end = start + half});
    return add(m, TV_OP_CONCAT, (uint32_t[]){y, x, y}, chance(m, 50) ? 3 : 2, NULL);
}

static uint32_t map(maker *m, uint32_t x)
{
    switch (unit_below(&m->rng, 4)) {
    case 0:
        return add1(m, TV_OP_EXP, add1(m, TV_OP_TANH, x));
    case 1:
        return add1(m, TV_OP_SQRT, add1(m, TV_OP_SIGMOID, x));
    case 2:
        return add1(m, TV_OP_SOFTMAX, x);
    default: /* never 0 */
        return add2(m, TV_OP_DIV, add1(m, TV_OP_REDUCE_SUM, x), add1(m, TV_OP_EXP, add1(m, TV_OP_TANH, x)));
    }
}

static uint32_t add_step(maker *m)
{
    uint32_t x = pick(m);
    if (columns(m, x) % 2 || columns(m, x) > 12) /* the others need halves */
        return gemm(m, x, even_size(m), chance(m, 50));
    switch (unit_below(&m->rng, 14)) {
    case 0:
        return gemm(m, x, even_size(m), chance(m, 50));
    case 1:
        x = activate(m, gemm(m, x, even_size(m), chance(m, 50)));
        return chance(m, 20) ? activate(m, x) : x;
    case 2:
        return binary(m, x);
    case 3:
        return normalize(m, x, columns(m, x));
    case 4:
        return normalize_heads(m, x);
    case 5:
    case 6:
        return gate(m, x);
    case 7:
    case 8:
        return add_residual(m, x);
    case 9:
        return multiply(m, x);
    case 10:
        return attend(m, x);
    case 11:
        return rotate(m, x);
    case 12:
        return chance(m, 50) ? route(m, x) : slice(m, x);
    default:
        return map(m, x);
    }
}

/* The same graph for the same seed. */
static tv_graph *make_graph(maker *m, uint64_t seed)
{
    enum { STEPS = 8 };
    tv_graph *graph;
    memset(m, 0, sizeof *m);
    m->rng.state = m->w.rng.state = seed;
    m->w.encoded = seed % 2;
    tv_graph_begin(&m->b, 1, TOKENS, NULL);
    uint32_t tokens = seed % 3 ? tv_graph_tokens(&m->b) : tv_graph_positions(&m->b);
    m->pool[m->count++] = add2(m, TV_OP_GATHER, constant(m, 1, WORDS, even_size(m)), tokens);
    m->b.block = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        uint32_t y = add_step(m);
        m->pool[m->count++] = normalize(m, y, columns(m, y)); /* keeps the values small */
        if (chance(m, 30))
            m->pool[m->count++] = y;
    }
    tv_graph_end_layer(&m->b, pick(m));
    m->b.block = TV_BLOCK_OUTPUT;
    uint32_t logits = gemm(m, pick(m), VOCABULARY, false);
    assert_int_equal(tv_graph_finish(&m->b, logits, &graph), TV_OK);
    return graph;
}

/* Runs two steps, of several tokens and of one. `logits` receives those of all tokens; values are those of the last. */
static void *run_host(const tv_graph *graph, const int32_t *tokens, float logits[TOKENS][VOCABULARY], unsigned threads)
{
    void *host;
    tv_backend_options options = {.context = TOKENS, .threads = threads};
    assert_int_equal(tv_backend_host.create(graph, &options, NULL, &host), TV_OK);
    assert_int_equal(tv_backend_host.step(host, tokens, TOKENS - 1, 0, false, logits[0], NULL), TV_OK);
    assert_int_equal(tv_backend_host.step(host, tokens + TOKENS - 1, 1, TOKENS - 1, true, logits[TOKENS - 1], NULL),
                     TV_OK);
    return host;
}

static void compare_with_evaluation(const tv_graph *graph, const int32_t *tokens, void *host,
                                    float logits[TOKENS][VOCABULARY], uint64_t seed)
{
    evaluation *e = evaluate(graph, tokens, TOKENS);
    for (size_t i = 0; i < graph->nodes.count; i++) {
        uint32_t value = graph->nodes.data[i].output;
        const float *mine = tv_backend_host.value(host, value);
        const double *expected = evaluated(e, value, TOKENS - 1);
        for (size_t k = 0; k < e->size[value]; k++)
            if (!(fabs((double)mine[k] - expected[k]) <= 1e-3 * (1 + fabs(expected[k]))))
                fail_msg("seed %u: node %zu (%s), element %zu: %g, expected %g", (unsigned)seed, i,
                         tv_graph_op_infos[graph->nodes.data[i].op].name, k, (double)mine[k], expected[k]);
    }
    for (uint32_t t = 0; t < TOKENS; t++)
        for (size_t k = 0; k < VOCABULARY; k++) {
            double expected = evaluated(e, graph->logits, t)[k];
            if (!(fabs((double)logits[t][k] - expected) <= 1e-3 * (1 + fabs(expected))))
                fail_msg("seed %u: logit %zu of token %u: %g, expected %g", (unsigned)seed, k, (unsigned)t,
                         (double)logits[t][k], expected);
        }
    free_evaluation(e);
}

/* Each node alone gives what it gave in the run. */
static void compare_single_nodes(const tv_graph *graph, void *host, uint64_t seed)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const tv_graph_node *n = &graph->nodes.data[i];
        const float *inputs[TV_GRAPH_INPUTS_MAX] = {NULL};
        float out[256];
        tv_host_node *node;
        if (!tv_host_node_possible(n))
            continue;
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (n->inputs[k] != TV_NO_VALUE)
                inputs[k] = tv_backend_host.value(host, n->inputs[k]);
        assert_int_equal(tv_host_node_new(graph, n, NULL, &node), TV_OK);
        assert_int_equal(tv_host_node_compute(node, inputs, TOKENS - 1, out, NULL), TV_OK);
        if (memcmp(out, tv_backend_host.value(host, n->output), tv_graph_elements(graph, n->output) * sizeof *out) != 0)
            fail_msg("seed %u: node %zu (%s) differs alone", (unsigned)seed, i, tv_graph_op_infos[n->op].name);
        tv_host_node_free(node);
    }
}

static void a_graph_computes_its_operators_and_the_fused_graph_the_same_bits(void **state)
{
    enum { GRAPHS = 1500 };
    static maker unfused, fused;
    unsigned unfused_ops[TV_OPS] = {0}, fused_ops[TV_OPS] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        float logits[TOKENS][VOCABULARY], again[TOKENS][VOCABULARY];
        int32_t tokens[TOKENS];
        tv_graph *a = make_graph(&unfused, seed), *b = make_graph(&fused, seed);
        for (unsigned t = 0; t < TOKENS; t++)
            tokens[t] = (int32_t)unit_below(&unfused.rng, WORDS);
        assert_int_equal(tv_graph_fuse(b, NULL), TV_OK);
        if (seed % 4 == 0) { /* fused graphs are valid inputs, too */
            size_t nodes = b->nodes.count;
            assert_int_equal(tv_graph_fuse(b, NULL), TV_OK);
            assert_in_range(b->nodes.count, 1, nodes);
        }
        void *host_a = run_host(a, tokens, logits, 1), *host_b = run_host(b, tokens, again, 1 + seed % 2);
        compare_with_evaluation(a, tokens, host_a, logits, seed);
        if (memcmp(logits, again, sizeof logits) != 0)
            fail_msg("seed %u: the logits of the fused graph differ", (unsigned)seed);
        for (size_t i = 0; i < a->nodes.count; i++)
            unfused_ops[a->nodes.data[i].op]++;
        for (size_t i = 0; i < b->nodes.count; i++) {
            uint32_t value = b->nodes.data[i].output;
            fused_ops[b->nodes.data[i].op]++;
            if (memcmp(tv_backend_host.value(host_a, value), tv_backend_host.value(host_b, value),
                       tv_graph_elements(b, value) * sizeof(float)) != 0)
                fail_msg("seed %u: node %zu (%s) of the fused graph differs", (unsigned)seed, i,
                         tv_graph_op_infos[b->nodes.data[i].op].name);
        }
        if (seed % 4 == 1) {
            compare_single_nodes(a, host_a, seed);
            compare_single_nodes(b, host_b, seed);
        }
        tv_backend_host.destroy(host_a);
        tv_backend_host.destroy(host_b);
        tv_graph_free(a);
        tv_graph_free(b);
    }
    for (unsigned op = 0; op < TV_OPS; op++) {
        bool replaced = op == TV_OP_GEMM || op == TV_OP_RMS_NORMALIZATION || op == TV_OP_LAYER_NORMALIZATION,
             made = op == TV_OP_LINEAR || op == TV_OP_GLU || op == TV_OP_NORM;
        if ((fused_ops[op] > 0) != ((unfused_ops[op] > 0 && !replaced) || made))
            fail_msg("%s: %u nodes of fused graphs", tv_graph_op_infos[op].name, fused_ops[op]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_computes_its_operators_and_the_fused_graph_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
