/* SPDX-License-Identifier: Apache-2.0 */
/* The lowering to CMDQ of graphs that are no language models: each operator, with operands that are repeated in each
 * way, for single tokens and for several at once, against the host; and nodes that only the host can compute. */
#include <math.h>
#include <stdbool.h>
#include <unistd.h>

#include "graph/passes.h"
#include "lower/cmdq/state.h"
#include "queue/queue.h"
#include "trivet/energy.h"
#include "unit.h"

enum { VOCABULARY = 40, TOKENS = 11, COLUMNS = 24, VALUES = 1 << 15 };

extern const tv_backend tv_backend_cmdq;

static float values[VALUES];

static void fill_values(void)
{
    unit_rng rng = {5};
    for (size_t i = 0; i < VALUES; i++)
        values[i] = ((float)unit_below(&rng, 20001) - 10000) * 1e-4f;
}

/* ---- Pieces of graphs ---- */

static uint32_t constant(tv_graph_builder *b, const char *name, uint32_t rows, uint32_t columns)
{
    size_t from = (size_t)(rows * 31 + columns * 7) % 256;
    return tv_graph_constant(b, name,
                             &(tv_matrix){.values = values + from, .rows = rows, .columns = columns, .count = 1});
}

/* Different values for each token: [tokens][columns]. */
static uint32_t input(tv_graph_builder *b, const char *name, uint32_t columns)
{
    char table[32];
    uint32_t tokens = tv_graph_tokens(b), block = b->block;
    snprintf(table, sizeof table, "%s_table", name);
    b->block = TV_BLOCK_INPUT;
    uint32_t x = tv_graph_add2(b, TV_OP_GATHER, name, constant(b, table, VOCABULARY, columns), tokens);
    b->block = block;
    return x;
}

static uint32_t add2(tv_graph_builder *b, tv_graph_op op, uint32_t x, uint32_t y)
{
    char name[32];
    snprintf(name, sizeof name, "v%zu", b->graph->values.count);
    return tv_graph_add2(b, op, name, x, y);
}

static uint32_t add1(tv_graph_builder *b, tv_graph_op op, uint32_t x, const tv_graph_attrs *attrs)
{
    char name[32];
    snprintf(name, sizeof name, "v%zu", b->graph->values.count);
    return tv_graph_add(b, op, name, &x, 1, attrs);
}

static uint32_t scalar(tv_graph_builder *b, float value)
{
    char name[32];
    snprintf(name, sizeof name, "c%zu", b->graph->values.count);
    return tv_graph_scalar(b, name, value);
}

static uint32_t reshape(tv_graph_builder *b, uint32_t x, uint32_t rows, uint32_t columns)
{
    tv_graph_shape shape = {2, {TV_DIM_TOKENS, columns}};
    if (rows > 1)
        shape = (tv_graph_shape){3, {TV_DIM_TOKENS, rows, columns}};
    return add1(b, TV_OP_RESHAPE, x, &(tv_graph_attrs){.shape = shape});
}

static uint32_t slice(tv_graph_builder *b, uint32_t x, uint32_t start, uint32_t end)
{
    return add1(b, TV_OP_SLICE, x, &(tv_graph_attrs){.start = start, .end = end});
}

/* ---- Graphs whose results are those of the host but for rounding ---- */

static uint32_t equal_operands(tv_graph_builder *b)
{
    uint32_t x = input(b, "x", COLUMNS), y = input(b, "y", COLUMNS);
    uint32_t sum = add2(b, TV_OP_ADD, x, y), difference = add2(b, TV_OP_SUB, x, y), square = add2(b, TV_OP_MUL, y, y);
    uint32_t quotient = add2(b, TV_OP_DIV, sum, add2(b, TV_OP_ADD, scalar(b, 1), square));
    return add2(b, TV_OP_MUL, quotient, add2(b, TV_OP_SUB, difference, square));
}

static uint32_t constants(tv_graph_builder *b)
{
    uint32_t x = input(b, "x", COLUMNS), row = constant(b, "row", 1, COLUMNS);
    uint32_t e = add1(b, TV_OP_EXP, add2(b, TV_OP_MUL, x, scalar(b, -1.5f)), NULL);
    uint32_t a = add2(b, TV_OP_DIV, scalar(b, 3), e), c = add2(b, TV_OP_DIV, row, e);
    uint32_t d = add2(b, TV_OP_SUB, row, add2(b, TV_OP_DIV, a, scalar(b, 7)));
    uint32_t zero = add2(b, TV_OP_MUL, x, scalar(b, 0));
    return add2(b, TV_OP_ADD, zero,
                add2(b, TV_OP_ADD, add2(b, TV_OP_MUL, c, row), add2(b, TV_OP_SUB, d, scalar(b, 2))));
}

static uint32_t functions(tv_graph_builder *b)
{
    static const tv_graph_op list[] = {TV_OP_RELU, TV_OP_SIGMOID, TV_OP_TANH, TV_OP_SWISH, TV_OP_EXP};
    uint32_t x = input(b, "x", COLUMNS), sum = add1(b, TV_OP_SQRT, add2(b, TV_OP_MUL, x, x), NULL);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        sum = add2(b, TV_OP_ADD, sum, add1(b, list[i], x, NULL));
    for (unsigned i = 0; i < 2; i++)
        sum = add2(b, TV_OP_ADD, sum, add1(b, TV_OP_GELU, x, &(tv_graph_attrs){.approximate = i > 0}));
    return sum;
}

/* One element for each token, on either side. */
static uint32_t columns(tv_graph_builder *b)
{
    uint32_t x = input(b, "x", COLUMNS), y = input(b, "y", COLUMNS);
    uint32_t mean = add1(b, TV_OP_REDUCE_MEAN, x, NULL),
             sum = add1(b, TV_OP_REDUCE_SUM, add2(b, TV_OP_MUL, x, x), NULL);
    uint32_t z = add2(b, TV_OP_MUL, add2(b, TV_OP_SUB, mean, y), sum);
    return add2(b, TV_OP_ADD, add2(b, TV_OP_DIV, z, add1(b, TV_OP_SQRT, sum, NULL)),
                add2(b, TV_OP_DIV, mean, add1(b, TV_OP_EXP, y, NULL)));
}

/* Elements of a value that scale vectors, as streams of a network do. */
static uint32_t elements(tv_graph_builder *b)
{
    uint32_t x = input(b, "x", COLUMNS), c = input(b, "c", 4), sum = x;
    for (uint32_t i = 0; i < 4; i++)
        sum = add2(b, TV_OP_ADD, sum, add2(b, TV_OP_MUL, x, slice(b, c, i, i + 1)));
    return sum;
}

/* Vectors of 8 elements, three for each token. */
static uint32_t vectors(tv_graph_builder *b)
{
    uint32_t x = reshape(b, input(b, "x", COLUMNS), 3, 8), probs = add1(b, TV_OP_SOFTMAX, x, NULL);
    uint32_t sum = add1(b, TV_OP_REDUCE_SUM, add2(b, TV_OP_MUL, probs, x), NULL);
    uint32_t y = add2(b, TV_OP_SUB, add2(b, TV_OP_MUL, x, sum), constant(b, "row", 1, 8));
    return reshape(b, y, 1, COLUMNS);
}

static uint32_t norms(tv_graph_builder *b)
{
    uint32_t x = reshape(b, input(b, "x", COLUMNS), 3, 8), gains = constant(b, "gains", 1, 8);
    uint32_t bias = constant(b, "bias", 1, COLUMNS), whole = constant(b, "whole", 1, COLUMNS);
    uint32_t y =
        tv_graph_add(b, TV_OP_RMS_NORMALIZATION, "rms", (uint32_t[]){x, gains}, 2, &(tv_graph_attrs){.epsilon = 1e-5f});
    uint32_t z = input(b, "z", COLUMNS);
    z = tv_graph_add(b, TV_OP_LAYER_NORMALIZATION, "layer", (uint32_t[]){z, whole, bias}, 3,
                     &(tv_graph_attrs){.epsilon = 1e-5f});
    return tv_graph_add2(b, TV_OP_CONCAT, "norms", reshape(b, y, 1, COLUMNS), z);
}

static uint32_t slices(tv_graph_builder *b)
{
    uint32_t x = input(b, "x", COLUMNS), y = input(b, "y", 16);
    return tv_graph_add(b, TV_OP_CONCAT, "slices",
                        (uint32_t[]){slice(b, x, 8, 24), y, slice(b, x, 0, 8), slice(b, y, 8, 16)}, 4, NULL);
}

/* Parts of each of several vectors. */
static uint32_t inner_slices(tv_graph_builder *b)
{
    uint32_t x = reshape(b, input(b, "x", COLUMNS), 3, 8), y = slice(b, x, 2, 6), z = slice(b, x, 4, 8);
    return reshape(b, tv_graph_add2(b, TV_OP_CONCAT, "inner", y, add2(b, TV_OP_MUL, z, z)), 1, COLUMNS);
}

static uint32_t products_of_values(tv_graph_builder *b)
{
    uint32_t x = reshape(b, input(b, "x", COLUMNS), 3, 8), y = reshape(b, input(b, "y", 32), 8, 4);
    return reshape(b, tv_graph_add2(b, TV_OP_MATMUL, "product", x, y), 1, 12);
}

static uint32_t rotations(tv_graph_builder *b)
{
    tv_graph_attrs attrs = {.heads = 3, .theta = 100, .frequency_scale = 0.5f, .rotary_dim = 4};
    uint32_t x =
        tv_graph_add(b, TV_OP_ROTARY_EMBEDDING, "half", (uint32_t[]){input(b, "x", COLUMNS), TV_NO_VALUE}, 2, &attrs);
    attrs.interleaved = true;
    attrs.rotary_dim = 8;
    uint32_t exponents = constant(b, "factors", 1, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_true(tv_graph_matrix(b->graph, exponents)->values[i] != 0);
    return tv_graph_add(b, TV_OP_ROTARY_EMBEDDING, "whole", (uint32_t[]){x, exponents}, 2, &attrs);
}

static uint32_t transposed(tv_graph_builder *b)
{
    uint32_t x = reshape(b, input(b, "x", COLUMNS), 3, 8), y = add1(b, TV_OP_TRANSPOSE, x, NULL);
    uint32_t z = add1(b, TV_OP_TRANSPOSE, add1(b, TV_OP_TANH, y, NULL), NULL);
    return add2(b, TV_OP_ADD, reshape(b, add2(b, TV_OP_MUL, x, z), 1, COLUMNS), reshape(b, y, 1, COLUMNS));
}

/* Only the host adds constants of several rows: twice, with an operation of the machine between. */
static uint32_t on_host(tv_graph_builder *b)
{
    uint32_t x = reshape(b, input(b, "x", COLUMNS), 3, 8), rows = constant(b, "rows", 3, 8);
    uint32_t y = add1(b, TV_OP_TANH, add2(b, TV_OP_ADD, x, rows), NULL);
    return reshape(b, add2(b, TV_OP_MUL, add2(b, TV_OP_ADD, y, rows), x), 1, COLUMNS);
}

/* ---- Graphs with products, which are rounded ---- */

static uint32_t linear(tv_graph_builder *b, const char *name, uint32_t x, uint32_t rows, bool bias)
{
    char bias_name[32];
    snprintf(bias_name, sizeof bias_name, "%s_bias", name);
    char weight_name[32];
    snprintf(weight_name, sizeof weight_name, "%s_weight", name);
    uint32_t w = constant(b, weight_name, rows, tv_graph_columns(b->graph, x));
    return tv_graph_add(b, TV_OP_GEMM, name, (uint32_t[]){x, w, bias ? constant(b, bias_name, 1, rows) : TV_NO_VALUE},
                        3, NULL);
}

/* A value that products and others read; each activation of a product. */
static uint32_t products(tv_graph_builder *b)
{
    static const tv_graph_op list[] = {TV_OP_RELU, TV_OP_SIGMOID, TV_OP_TANH, TV_OP_SWISH, TV_OP_GELU};
    uint32_t x = input(b, "x", 32), sum = x;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%zu", i);
        sum = add2(b, TV_OP_ADD, sum, add1(b, list[i], linear(b, name, x, 32, i % 2), NULL));
    }
    return sum;
}

/* Vectors that are multiplied one by one. */
static uint32_t products_of_vectors(tv_graph_builder *b)
{
    uint32_t x = reshape(b, input(b, "x", 32), 4, 8);
    return reshape(b, add2(b, TV_OP_ADD, linear(b, "each", x, 8, true), x), 1, 32);
}

/* An output of one tile, which is wider than a block of weights where banks are small. */
static uint32_t wide_products(tv_graph_builder *b)
{
    uint32_t y = linear(b, "wide", input(b, "x", 64), 256, true);
    return add2(b, TV_OP_SUB, y, add1(b, TV_OP_REDUCE_MEAN, y, NULL));
}

/* A streamed classifier: what follows it is applied tile by tile. */
static uint32_t classifier(tv_graph_builder *b)
{
    uint32_t x = input(b, "x", 32);
    b->block = TV_BLOCK_OUTPUT;
    uint32_t y = add2(b, TV_OP_MUL, linear(b, "classifier", x, 2 * COLUMNS, true), scalar(b, 0.3f));
    y = add1(b, TV_OP_TANH, add2(b, TV_OP_ADD, y, constant(b, "row", 1, 2 * COLUMNS)), NULL);
    return add2(b, TV_OP_DIV, add2(b, TV_OP_SUB, scalar(b, 1), y), scalar(b, 0.25f));
}

/* ---- Comparison ---- */

typedef struct graph_case {
    const char *name;
    uint32_t (*build)(tv_graph_builder *b);
    float tolerance; /* of the largest result */
    bool batches;    /* several tokens at once */
    bool needs_host;
} graph_case;

static const graph_case cases[] = {
    {"equal operands", equal_operands, 1e-5f, true, false},
    {"constants", constants, 1e-5f, true, false},
    {"functions", functions, 1e-5f, true, false},
    {"columns", columns, 1e-5f, true, false},
    {"elements", elements, 1e-5f, true, false},
    {"vectors", vectors, 1e-5f, true, false},
    {"norms", norms, 1e-5f, false, false},
    {"slices", slices, 1e-5f, true, false},
    {"inner slices", inner_slices, 1e-5f, true, false},
    {"products of values", products_of_values, 1e-5f, false, false},
    {"rotations", rotations, 1e-5f, true, false},
    {"transposed", transposed, 1e-5f, true, false},
    {"on the host", on_host, 1e-5f, true, true},
    {"products", products, 0.03f, true, false},
    {"products of vectors", products_of_vectors, 0.03f, true, false},
    {"wide products", wide_products, 0.03f, true, false},
    {"classifier", classifier, 0.03f, true, false},
};

static tv_graph *build_graph(const graph_case *c, bool output_block)
{
    tv_graph_builder b;
    tv_graph *graph;
    tv_graph_begin(&b, 0, TOKENS, NULL);
    b.block = output_block ? TV_BLOCK_OUTPUT : TV_BLOCK_INPUT;
    uint32_t result = c->build(&b);
    if (tv_graph_finish(&b, result, &graph) != TV_OK || tv_graph_fuse(graph, NULL) != TV_OK)
        fail_msg("%s: no graph", c->name);
    return graph;
}

static const int32_t sample[TOKENS] = {3, 17, 39, 0, 5, 21, 8, 33, 12, 1, 28};

static tv_backend_options options_of(const tv_config *config, bool host_ops)
{
    return (tv_backend_options){.config = config,
                                .context = TOKENS,
                                .threads = 1,
                                .mode = TV_MODE_FULL,
                                .allow_host_ops = host_ops,
                                .weight_bits = 8,
                                .sample = sample,
                                .sample_count = TOKENS};
}

static void compare(const graph_case *c, const float *expected, const float *got, size_t count, const char *what)
{
    float max = 0;
    for (size_t i = 0; i < count; i++)
        max = fmaxf(max, fabsf(expected[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(expected[i] - got[i]) <= c->tolerance * max))
            fail_msg("%s, %s: element %zu is %g, expected %g", c->name, what, i, (double)got[i], (double)expected[i]);
}

static void check_hazards(const graph_case *c, void *state)
{
    tv_check_counts counts = {0};
    unit_log log = {0};
    const tv_diag_sink sink = unit_sink(&log);
    assert_int_equal(tv_machine_hazards(tv_backend_cmdq.machine(state), TV_ERROR, &sink, &counts), TV_OK);
    if (counts.errors)
        fail_msg("%s: %s", c->name, log.at[0].message);
}

/* All tokens in one step, of each token the logits or of the last one; then token by token. */
static void run_case(const graph_case *c, const tv_config *config, bool output_block)
{
    tv_graph *graph = build_graph(c, output_block);
    size_t width = tv_graph_vocabulary(graph);
    float *expected = calloc(TOKENS * width, sizeof *expected), *got = calloc(TOKENS * width, sizeof *got);
    void *host, *state;
    tv_backend_options options = options_of(config, true);
    const tv_host_op *list;
    assert_true(expected && got);
    assert_int_equal(tv_backend_host.create(graph, &(tv_backend_options){.context = TOKENS, .threads = 1}, NULL, &host),
                     TV_OK);
    assert_int_equal(tv_backend_host.step(host, sample, TOKENS, 0, false, expected, NULL), TV_OK);
    if (tv_backend_cmdq.create(graph, &options, NULL, &state) != TV_OK)
        fail_msg("%s: not lowered", c->name);
    if (!output_block && (((cmdq_lowering *)state)->plans[1].rows > 1) != c->batches)
        fail_msg("%s: steps of %u tokens", c->name, ((cmdq_lowering *)state)->plans[1].rows);
    assert_int_equal(tv_backend_cmdq.step(state, sample, TOKENS, 0, false, got, NULL), TV_OK);
    compare(c, expected, got, TOKENS * width, "all tokens");
    check_hazards(c, state);
    assert_int_equal(tv_backend_cmdq.step(state, sample, TOKENS, 0, true, got, NULL), TV_OK);
    compare(c, expected + (TOKENS - 1) * width, got, width, "the last token");
    for (uint32_t i = 0; i < TOKENS; i++)
        assert_int_equal(tv_backend_cmdq.step(state, sample + i, 1, i, false, got + i * width, NULL), TV_OK);
    compare(c, expected, got, TOKENS * width, "single tokens");
    check_hazards(c, state);
    unsigned host_ops = tv_backend_cmdq.host_ops(state, &list);
    assert_int_equal(host_ops, c->needs_host);
    if (c->needs_host)
        assert_string_equal(list[0].name, "Add");
    tv_backend_cmdq.destroy(state);
    tv_backend_host.destroy(host);
    tv_graph_free(graph);
    free(expected);
    free(got);
}

static void graphs_give_the_results_of_the_host(void **state)
{
    (void)state;
    tv_config *config;
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    for (unsigned small = 0; small < 2; small++) {
        if (small)
            assert_int_equal(tv_config_set(config, "spm.bank_bytes", "16Ki", NULL), TV_OK);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            for (unsigned output = 0; output < 2; output++)
                run_case(&cases[i], config, output);
    }
    tv_config_free(config);
}

/* ---- Written queues ---- */

/* Loads, checks and runs the queue of a step; deletes its file. Returns the queue, which the machine uses. */
static tv_program *run_written(const char *folder, uint32_t step, const tv_config *config, tv_machine *machine)
{
    char path[128];
    tv_program *program;
    tv_check_counts counts = {0};
    unit_log log;
    const tv_diag_sink sink = unit_sink(&log);
    snprintf(path, sizeof path, "%s/step_%06u.json", folder, step);
    assert_int_equal(tv_program_open(path, NULL, NULL, &program), TV_OK);
    assert_int_equal(tv_program_check(program, config, &sink, &counts), TV_OK);
    if (counts.errors || counts.warnings)
        fail_msg("step %u: %s", step, log.at[0].message);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    remove(path);
    return program;
}

/* What the host computes between two queues is in the initial contents of the second. */
static void written_queues_have_the_results_of_the_host(void **state)
{
    (void)state;
    char folder[] = "/tmp/trivet-steps-XXXXXX", path[128];
    const graph_case c = {"on the host", on_host, 1e-5f, true, true};
    tv_graph *graph = build_graph(&c, false);
    tv_config *config;
    tv_machine *machine;
    void *lowering;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_backend_options options = options_of(config, true);
    static float expected[TOKENS * COLUMNS], got[TOKENS * COLUMNS];
    options.emit = folder;
    assert_int_equal(tv_backend_cmdq.create(graph, &options, NULL, &lowering), TV_OK);
    assert_int_equal(tv_backend_cmdq.step(lowering, sample, TOKENS, 0, false, expected, NULL), TV_OK);
    tv_program *last = NULL;
    assert_int_equal(((cmdq_lowering *)lowering)->steps, 3);
    for (uint32_t i = 0; i < 3; i++) {
        tv_program *program = run_written(folder, i, config, machine);
        tv_program_free(last);
        last = program;
    }
    uint64_t at = ((cmdq_lowering *)lowering)->logits_addr;
    assert_int_equal(tv_machine_read(machine, "dram", at, got, sizeof got, NULL), TV_OK);
    assert_memory_equal(got, expected, sizeof got);
    snprintf(path, sizeof path, "%s/weights.bin", folder);
    remove(path);
    rmdir(folder);
    tv_machine_free(machine);
    tv_program_free(last);
    tv_backend_cmdq.destroy(lowering);
    tv_config_free(config);
    tv_graph_free(graph);
}

/* ---- Attention ---- */

enum { CONTEXT = 512, HEAD = 128, STEPS = 8 };

/* Two heads of queries for one of keys and values, which are those of the token. */
static tv_graph *build_attention(uint32_t window, float soft_cap)
{
    tv_graph_builder b;
    tv_graph *graph;
    tv_graph_begin(&b, 0, CONTEXT, NULL);
    b.block = TV_BLOCK_INPUT;
    uint32_t q = input(&b, "q", 2 * HEAD), k = input(&b, "k", HEAD), v = input(&b, "v", HEAD);
    uint32_t cache = tv_graph_add_cache(&b, (tv_graph_cache){1, HEAD, HEAD, window});
    tv_graph_attrs attrs = {.heads = 2, .scale = 0.5f, .soft_cap = soft_cap, .window = window, .cache = cache};
    uint32_t out = tv_graph_add(&b, TV_OP_ATTENTION, "out", (uint32_t[]){q, k, v}, 3, &attrs);
    assert_int_equal(tv_graph_finish(&b, out, &graph), TV_OK);
    return graph;
}

/* Steps of all tokens of the sample, then of single tokens. */
static void run_attention(const tv_config *config, uint32_t window, float soft_cap, bool blocked)
{
    const graph_case c = {"attention", NULL, 0.03f, true, false};
    tv_graph *graph = build_attention(window, soft_cap);
    tv_backend_options options = options_of(config, false);
    static float expected[TOKENS * 2 * HEAD], got[TOKENS * 2 * HEAD];
    void *host, *state;
    options.context = CONTEXT;
    assert_int_equal(tv_backend_host.create(graph, &options, NULL, &host), TV_OK);
    assert_int_equal(tv_backend_cmdq.create(graph, &options, NULL, &state), TV_OK);
    assert_int_equal(((cmdq_lowering *)state)->plans[0].blocked, blocked);
    assert_true(((cmdq_lowering *)state)->plans[1].rows > 1);
    for (uint32_t i = 0; i < STEPS + TOKENS; i++) {
        bool all = i < STEPS;
        uint32_t count = all ? TOKENS : 1, position = all ? i * TOKENS : STEPS * TOKENS + i - STEPS;
        const int32_t *tokens = all ? sample : sample + (i - STEPS);
        assert_int_equal(tv_backend_host.step(host, tokens, count, position, false, expected, NULL), TV_OK);
        assert_int_equal(tv_backend_cmdq.step(state, tokens, count, position, false, got, NULL), TV_OK);
        compare(&c, expected, got, (size_t)count * 2 * HEAD, count > 1 ? "all tokens" : "a token");
        check_hazards(&c, state);
    }
    tv_backend_cmdq.destroy(state);
    tv_backend_host.destroy(host);
    tv_graph_free(graph);
}

/* Small banks have the keys of 32 positions. */
static void attention_is_that_of_the_host_with_banks_of_any_size(void **state)
{
    (void)state;
    tv_config *config;
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    for (unsigned small = 0; small < 2; small++) {
        if (small)
            assert_int_equal(tv_config_set(config, "spm.bank_bytes", "16Ki", NULL), TV_OK);
        run_attention(config, 0, 0, small);
        run_attention(config, 0, 0.7f, small);
        run_attention(config, 20, 0, false);
    }
    assert_int_equal(tv_config_set(config, "spm.bank_bytes", "8Ki", NULL), TV_OK);
    run_attention(config, 100, 0, true);
    tv_config_free(config);
}

/* ---- The queues of single tokens ---- */

/* Two layers of attention with different windows, whose queries and keys are rotated. */
static tv_graph *build_layers(const uint32_t windows[2])
{
    tv_graph_builder b;
    tv_graph *graph;
    tv_graph_begin(&b, 0, CONTEXT, NULL);
    b.block = TV_BLOCK_INPUT;
    uint32_t q = input(&b, "q", 2 * HEAD), k = input(&b, "k", HEAD), v = input(&b, "v", HEAD);
    for (unsigned i = 0; i < 2; i++) {
        uint32_t cache = tv_graph_add_cache(&b, (tv_graph_cache){1, HEAD, HEAD, windows[i]});
        tv_graph_attrs attrs = {.heads = 2, .theta = 1e4, .frequency_scale = 1, .rotary_dim = HEAD};
        uint32_t rotated = tv_graph_add(&b, TV_OP_ROTARY_EMBEDDING, i ? "q1" : "q0", &q, 1, &attrs);
        attrs = (tv_graph_attrs){.heads = 2, .scale = 0.5f, .window = windows[i], .cache = cache};
        q = tv_graph_add(&b, TV_OP_ATTENTION, i ? "out" : "a0", (uint32_t[]){rotated, k, v}, 3, &attrs);
    }
    assert_int_equal(tv_graph_finish(&b, q, &graph), TV_OK);
    return graph;
}

static void ignore_event(void *user, const tv_event *event)
{
    (void)user;
    (void)event;
}

static void check_same_queue(const tv_program *a, const tv_program *b)
{
    const cmdq_queue *p = cmdq_queue_of(a), *q = cmdq_queue_of(b);
    assert_int_equal(p->entries.count, q->entries.count);
    assert_int_equal(p->values.count, q->values.count);
    assert_memory_equal(p->values.data, q->values.data, p->values.count * sizeof *p->values.data);
    assert_int_equal(p->lists.count, q->lists.count);
    assert_memory_equal(p->lists.data, q->lists.data, p->lists.count * sizeof *p->lists.data);
    for (size_t i = 0; i < p->entries.count; i++) {
        assert_int_equal(p->entries.data[i].opcode, q->entries.data[i].opcode);
        assert_int_equal(p->entries.data[i].present, q->entries.data[i].present);
    }
}

static void check_same_totals(tv_machine *a, tv_machine *b)
{
    tv_energy_stats energy[2] = {{.size = sizeof energy[0]}, {.size = sizeof energy[0]}};
    tv_stats stats[2] = {{.size = sizeof stats[0]}, {.size = sizeof stats[0]}};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(tv_machine_energy(i ? b : a, &energy[i]), TV_OK);
        assert_int_equal(tv_machine_stats(i ? b : a, &stats[i]), TV_OK);
    }
    assert_memory_equal(energy[0].counts, energy[1].counts, sizeof energy[0].counts);
    assert_memory_equal(&energy[0].total, &energy[1].total, sizeof energy[0].total);
    assert_int_equal(stats[0].cycles, stats[1].cycles);
    assert_int_equal(stats[0].instructions, stats[1].instructions);
    assert_int_equal(stats[0].macs, stats[1].macs);
    for (unsigned e = 0; e < stats[0].engine_count; e++) {
        assert_int_equal(stats[0].engines[e].busy, stats[1].engines[e].busy);
        assert_memory_equal(stats[0].engines[e].stalled, stats[1].engines[e].stalled,
                            sizeof stats[0].engines[e].stalled);
    }
    for (unsigned i = 0; i < stats[0].path_count; i++)
        assert_int_equal(stats[0].paths[i].bytes, stats[1].paths[i].bytes);
}

/* Returns the number of queues that were built for `steps` single tokens after a prompt of two. */
static uint32_t run_single_tokens(const tv_config *config, const uint32_t windows[2], uint32_t steps)
{
    tv_graph *graph = build_layers(windows);
    tv_backend_options options = options_of(config, false);
    static float expected[2 * 2 * HEAD], got[2 * 2 * HEAD];
    void *built, *state;
    uint32_t queues = 0;
    options.context = CONTEXT;
    assert_int_equal(tv_backend_cmdq.create(graph, &options, NULL, &built), TV_OK);
    assert_int_equal(tv_backend_cmdq.create(graph, &options, NULL, &state), TV_OK);
    cmdq_lowering *l = state, *reference = built;
    tv_machine_trace(reference->machine, &(tv_trace_sink){ignore_event, NULL}); /* then each queue is built */
    for (uint32_t i = 0; i <= steps; i++) {
        const tv_program *last = l->loaded_program;
        uint32_t count = i ? 1 : 2, position = i ? i + 1 : 0;
        const int32_t *tokens = sample + i % (TOKENS - 1);
        assert_int_equal(tv_backend_cmdq.step(built, tokens, count, position, true, expected, NULL), TV_OK);
        assert_int_equal(tv_backend_cmdq.step(state, tokens, count, position, true, got, NULL), TV_OK);
        assert_memory_equal(got, expected, 2 * HEAD * sizeof *got);
        check_same_queue(l->loaded_program, reference->loaded_program);
        check_same_totals(l->machine, reference->machine);
        queues += i && l->loaded_program != last;
    }
    tv_backend_cmdq.destroy(state);
    tv_backend_cmdq.destroy(built);
    tv_graph_free(graph);
    return queues;
}

/* A queue is built again where a window starts to move, and where a block of positions is full. */
static void queues_of_single_tokens_are_changed_to_those_that_would_be_built(void **state)
{
    (void)state;
    tv_config *config;
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    assert_int_equal(run_single_tokens(config, (const uint32_t[]){0, 0}, 60), 1);
    assert_int_equal(run_single_tokens(config, (const uint32_t[]){0, 20}, 60), 2);
    assert_int_equal(run_single_tokens(config, (const uint32_t[]){33, 20}, 60), 3);
    assert_int_equal(tv_config_set(config, "spm.bank_bytes", "16Ki", NULL), TV_OK);
    uint32_t queues = run_single_tokens(config, (const uint32_t[]){0, 0}, 100);
    assert_in_range(queues, 2, 20);
    assert_int_equal(tv_config_set(config, "spm.bank_bytes", "8Ki", NULL), TV_OK);
    queues = run_single_tokens(config, (const uint32_t[]){100, 0}, 130);
    assert_in_range(queues, 30, 60); /* from position 100 on each one is another */
    tv_config_free(config);
}

static void nodes_for_the_host_are_rejected_unless_it_is_allowed(void **state)
{
    (void)state;
    tv_config *config;
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_graph *graph = build_graph(&cases[i], false);
        tv_backend_options options = options_of(config, false);
        void *lowering = NULL;
        tv_status status = tv_backend_cmdq.create(graph, &options, NULL, &lowering);
        assert_int_equal(status, cases[i].needs_host ? TV_ERR_INPUT : TV_OK);
        if (status == TV_OK)
            tv_backend_cmdq.destroy(lowering);
        tv_graph_free(graph);
    }
    tv_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_give_the_results_of_the_host),
        cmocka_unit_test(written_queues_have_the_results_of_the_host),
        cmocka_unit_test(attention_is_that_of_the_host_with_banks_of_any_size),
        cmocka_unit_test(queues_of_single_tokens_are_changed_to_those_that_would_be_built),
        cmocka_unit_test(nodes_for_the_host_are_rejected_unless_it_is_allowed),
    };
    fill_values();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
