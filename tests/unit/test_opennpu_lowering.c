/* SPDX-License-Identifier: Apache-2.0 */
/* The lowering to OpenNPU, operator by operator: graphs of a few operators between an embedding and a classifier, for a
 * batch of tokens and token by token, give the results of the host; with nodes that only the host can compute. And
 * instructions that are repeated from token to token. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "graph/backend.h"
#include "graph/passes.h"
#include "lower/opennpu/emit.h"
#include "trivet/config.h"

extern const tv_backend tv_backend_opennpu;

/* A batch needs more than an eighth of the 64 lanes; 40 elements are no whole vector. */
enum { TOKENS = 12, WORDS = 16, COLUMNS = 40, LOGITS = 24, NUMBERS = 1 << 14 };

static unit_log logged;
static tv_diag_sink sink;
static float numbers[NUMBERS];
static const int32_t tokens[TOKENS] = {3, 0, 7, 1, 5, 2, 15, 9, 4, 11, 6, 13};

/* Multiples of 1/127 up to 1, of which every long row has one: weights are quantized without an error. */
static void fill_numbers(void)
{
    static const float magnitudes[] = {127, 101, 64, 23};
    unit_rng rng = {11};
    for (unsigned i = 0; i < NUMBERS; i++) {
        float x = magnitudes[unit_below(&rng, TV_COUNTOF(magnitudes))] / 127;
        numbers[i] = unit_below(&rng, 2) ? x : -x;
    }
}

/* ---- Pieces of graphs ---- */

static uint32_t constant(tv_graph_builder *b, const char *name, uint32_t rows, uint32_t columns)
{
    size_t from = (size_t)(rows * 37 + columns * 11) % 512;
    return tv_graph_constant(
        b, name, &(tv_matrix){.name = name, .values = numbers + from, .rows = rows, .columns = columns, .count = 1});
}

static const char *next_name(const tv_graph_builder *b)
{
    static char name[32];
    snprintf(name, sizeof name, "v%zu", b->graph->values.count);
    return name;
}

static uint32_t op1(tv_graph_builder *b, tv_graph_op op, uint32_t x) { return tv_graph_add1(b, op, next_name(b), x); }

static uint32_t op2(tv_graph_builder *b, tv_graph_op op, uint32_t x, uint32_t y)
{
    return tv_graph_add2(b, op, next_name(b), x, y);
}

static uint32_t number(tv_graph_builder *b, float value) { return tv_graph_scalar(b, next_name(b), value); }

static uint32_t slice(tv_graph_builder *b, uint32_t x, uint32_t start, uint32_t end)
{
    return tv_graph_add(b, TV_OP_SLICE, next_name(b), &x, 1, &(tv_graph_attrs){.start = start, .end = end});
}

static uint32_t reshape(tv_graph_builder *b, uint32_t x, uint32_t rows, uint32_t columns)
{
    tv_graph_shape shape =
        rows > 1 ? (tv_graph_shape){3, {TV_DIM_TOKENS, rows, columns}} : (tv_graph_shape){2, {TV_DIM_TOKENS, columns}};
    return tv_graph_add(b, TV_OP_RESHAPE, next_name(b), &x, 1, &(tv_graph_attrs){.shape = shape});
}

static uint32_t norm(tv_graph_builder *b, tv_graph_op op, uint32_t x)
{
    uint32_t columns = tv_graph_columns(b->graph, x);
    uint32_t inputs[] = {x, constant(b, "gains", 1, columns),
                         op == TV_OP_LAYER_NORMALIZATION ? constant(b, "bias", 1, columns) : TV_NO_VALUE};
    return tv_graph_add(b, op, next_name(b), inputs, op == TV_OP_LAYER_NORMALIZATION ? 3 : 2,
                        &(tv_graph_attrs){.epsilon = 1e-5F});
}

/* ---- Graphs: from x [tokens][COLUMNS] to the input of the classifier ---- */

static uint32_t build_functions(tv_graph_builder *b, uint32_t x)
{
    static const tv_graph_op list[] = {TV_OP_RELU, TV_OP_SIGMOID, TV_OP_TANH, TV_OP_SWISH, TV_OP_EXP};
    uint32_t wide = op2(b, TV_OP_MUL, x, number(b, 3)), sum = op1(b, TV_OP_SQRT, op2(b, TV_OP_MUL, x, x));
    for (size_t i = 0; i < TV_COUNTOF(list); i++)
        sum = op2(b, TV_OP_ADD, sum, op1(b, list[i], wide));
    for (unsigned i = 0; i < 2; i++)
        sum = op2(b, TV_OP_SUB, sum,
                  tv_graph_add(b, TV_OP_GELU, next_name(b), &wide, 1, &(tv_graph_attrs){.approximate = i > 0}));
    return sum;
}

static uint32_t build_operands(tv_graph_builder *b, uint32_t x)
{
    uint32_t row = constant(b, "row", 1, COLUMNS), mean = op1(b, TV_OP_REDUCE_MEAN, x),
             sum = op1(b, TV_OP_REDUCE_SUM, op2(b, TV_OP_MUL, x, x));
    uint32_t y = op2(b, TV_OP_SUB, op2(b, TV_OP_MUL, row, x), op2(b, TV_OP_DIV, number(b, 1), sum));
    uint32_t z = op2(b, TV_OP_DIV, op2(b, TV_OP_SUB, mean, x), row);
    uint32_t q = op2(b, TV_OP_DIV, y, op2(b, TV_OP_ADD, op2(b, TV_OP_MUL, z, z), number(b, 1)));
    return op2(b, TV_OP_ADD, q, op2(b, TV_OP_MUL, op2(b, TV_OP_DIV, x, sum), op2(b, TV_OP_SUB, number(b, 2), mean)));
}

/* Operands that are repeated for each vector, and for each element of a vector. */
static uint32_t build_vectors(tv_graph_builder *b, uint32_t x)
{
    uint32_t rows = reshape(b, x, 5, 8), sums = op1(b, TV_OP_REDUCE_SUM, rows),
             y = op2(b, TV_OP_ADD, op2(b, TV_OP_MUL, rows, sums), constant(b, "row", 1, 8));
    uint32_t transposed = op1(b, TV_OP_TRANSPOSE, op2(b, TV_OP_SUB, y, op1(b, TV_OP_REDUCE_MEAN, rows)));
    return op2(b, TV_OP_ADD, reshape(b, transposed, 1, COLUMNS), reshape(b, y, 1, COLUMNS));
}

static uint32_t build_slices(tv_graph_builder *b, uint32_t x)
{
    uint32_t pieces[] = {slice(b, x, 33, 40), slice(b, x, 5, 29), slice(b, x, 0, 9)};
    uint32_t inner = reshape(b, slice(b, reshape(b, x, 5, 8), 1, 4), 1, 15);
    return op2(b, TV_OP_CONCAT, tv_graph_add(b, TV_OP_CONCAT, next_name(b), pieces, 3, NULL), inner);
}

static uint32_t build_norms(tv_graph_builder *b, uint32_t x)
{
    uint32_t y = norm(b, TV_OP_LAYER_NORMALIZATION, x);
    uint32_t groups = reshape(b, norm(b, TV_OP_RMS_NORMALIZATION, reshape(b, y, 4, 10)), 1, COLUMNS);
    uint32_t rows = norm(b, TV_OP_LAYER_NORMALIZATION, op1(b, TV_OP_EXP, reshape(b, x, 5, 8)));
    return op2(b, TV_OP_ADD, op2(b, TV_OP_SUB, groups, reshape(b, rows, 1, COLUMNS)),
               norm(b, TV_OP_RMS_NORMALIZATION, op2(b, TV_OP_MUL, x, number(b, 5))));
}

static uint32_t linear(tv_graph_builder *b, const char *name, uint32_t x, uint32_t rows)
{
    return tv_graph_add(
        b, TV_OP_GEMM, next_name(b),
        (uint32_t[]){x, constant(b, name, rows, tv_graph_columns(b->graph, x)), constant(b, "b", 1, rows)}, 3, NULL);
}

/* Activations of products, before a residual. */
static uint32_t build_products(tv_graph_builder *b, uint32_t x)
{
    static const tv_graph_op list[] = {TV_OP_RELU, TV_OP_SIGMOID, TV_OP_TANH, TV_OP_SWISH, TV_OP_GELU};
    uint32_t sum = x;
    for (size_t i = 0; i < TV_COUNTOF(list); i++)
        sum = op2(b, TV_OP_ADD, sum, op1(b, list[i], linear(b, "w", x, COLUMNS)));
    return sum;
}

static uint32_t build_softmax(tv_graph_builder *b, uint32_t x)
{
    uint32_t whole = op1(b, TV_OP_SOFTMAX, op2(b, TV_OP_MUL, x, number(b, 2))),
             rows = op1(b, TV_OP_SOFTMAX, op2(b, TV_OP_SUB, reshape(b, x, 5, 8), number(b, 30)));
    return op2(b, TV_OP_ADD, whole, reshape(b, rows, 1, COLUMNS));
}

static uint32_t build_matmul(tv_graph_builder *b, uint32_t x)
{
    uint32_t rows = reshape(b, x, 5, 8);
    return reshape(b, op2(b, TV_OP_MATMUL, rows, op1(b, TV_OP_TRANSPOSE, rows)), 1, 25);
}

/* Only the host can. */
static uint32_t build_products_of_vectors(tv_graph_builder *b, uint32_t x)
{
    uint32_t rows = reshape(b, x, 5, 8);
    return reshape(b, op2(b, TV_OP_GEMM, rows, constant(b, "w", 6, 8)), 1, 30);
}

static uint32_t build_rotation(tv_graph_builder *b, uint32_t x)
{
    tv_graph_attrs attrs = {.heads = 2, .theta = 100, .frequency_scale = 1, .rotary_dim = 20};
    return tv_graph_add(b, TV_OP_ROTARY_EMBEDDING, next_name(b), (uint32_t[]){x, TV_NO_VALUE}, 2, &attrs);
}

static uint32_t build_attention(tv_graph_builder *b, uint32_t x)
{
    uint32_t normed = norm(b, TV_OP_RMS_NORMALIZATION, x), q = linear(b, "wq", normed, COLUMNS),
             k = linear(b, "wk", normed, COLUMNS), v = linear(b, "wv", normed, COLUMNS);
    uint32_t inputs[] = {build_rotation(b, q), build_rotation(b, k), v};
    tv_graph_add_cache(b, (tv_graph_cache){.heads = 2, .key_dim = COLUMNS / 2, .value_dim = COLUMNS / 2});
    uint32_t y =
        tv_graph_add(b, TV_OP_ATTENTION, next_name(b), inputs, 3, &(tv_graph_attrs){.heads = 2, .scale = 0.2F});
    return op2(b, TV_OP_ADD, x, linear(b, "wo", y, COLUMNS));
}

typedef struct graph_case {
    const char *name;
    uint32_t (*build)(tv_graph_builder *b, uint32_t x);
    const char *host_op; /* operator that only the host has, or NULL */
} graph_case;

static const graph_case cases[] = {
    {"functions", build_functions, NULL},
    {"operands", build_operands, NULL},
    {"vectors", build_vectors, NULL},
    {"slices", build_slices, NULL},
    {"norms", build_norms, NULL},
    {"products", build_products, NULL},
    {"softmax", build_softmax, NULL},
    {"matmul", build_matmul, NULL},
    {"products of vectors", build_products_of_vectors, "Linear"},
    {"rotation", build_rotation, "RotaryEmbedding"},
};

/* The logits have a soft cap. */
static tv_graph *build_graph(const graph_case *c)
{
    tv_graph_builder b;
    tv_graph *graph = NULL;
    tv_graph_begin(&b, 1, TOKENS, &sink);
    uint32_t words = tv_graph_tokens(&b), x = op2(&b, TV_OP_GATHER, constant(&b, "table", WORDS, COLUMNS), words);
    b.block = 0;
    uint32_t y = c->build(&b, x);
    tv_graph_end_layer(&b, y);
    b.block = TV_BLOCK_OUTPUT;
    uint32_t logits = linear(&b, "classifier", y, LOGITS), cap = number(&b, 4);
    logits = op2(&b, TV_OP_MUL, op1(&b, TV_OP_TANH, op2(&b, TV_OP_DIV, logits, cap)), cap);
    if (tv_graph_finish(&b, logits, &graph) != TV_OK)
        fail_msg("%s: %s", c->name, logged.at[0].message);
    assert_int_equal(tv_graph_fuse(graph, &sink), TV_OK);
    return graph;
}

static tv_status open_backend(const tv_backend *backend, const tv_graph *graph, bool allow_host_ops, tv_mode mode,
                              void **state)
{
    tv_config *config = NULL;
    assert_int_equal(tv_config_new("opennpu", &sink, &config), TV_OK);
    tv_backend_options options = {.config = config,
                                  .context = TOKENS,
                                  .threads = 1,
                                  .mode = mode,
                                  .sample = tokens,
                                  .sample_count = TOKENS,
                                  .allow_host_ops = allow_host_ops};
    tv_status status = backend->create(graph, &options, &sink, state);
    tv_config_free(config);
    return status;
}

/* Runs the tokens in steps of `each`. */
static void run_backend(const tv_backend *backend, const tv_graph *graph, uint32_t each, float *logits)
{
    void *state;
    assert_int_equal(open_backend(backend, graph, true, TV_MODE_FULL, &state), TV_OK);
    for (uint32_t at = 0; at < TOKENS; at += each)
        assert_int_equal(backend->step(state, tokens + at, each, at, false, logits + at * LOGITS, &sink), TV_OK);
    backend->destroy(state);
}

static void each_operator_computes_what_the_host_computes(void **unused)
{
    static float expected[TOKENS * LOGITS], got[TOKENS * LOGITS];
    static const uint32_t steps[] = {TOKENS, 1};
    (void)unused;
    for (size_t i = 0; i < TV_COUNTOF(cases); i++) {
        tv_graph *graph = build_graph(&cases[i]);
        run_backend(&tv_backend_host, graph, TOKENS, expected);
        for (size_t s = 0; s < TV_COUNTOF(steps); s++) {
            run_backend(&tv_backend_opennpu, graph, steps[s], got);
            for (size_t k = 0; k < TV_COUNTOF(got); k++) /* logits up to 4; activations of 16 bits */
                if (!(fabsf(got[k] - expected[k]) <= 0.01F))
                    fail_msg("%s, steps of %u: element %zu is %g, not %g", cases[i].name, steps[s], k, (double)got[k],
                             (double)expected[k]);
        }
        tv_graph_free(graph);
    }
    assert_int_equal(logged.count, 0);
}

static void nodes_of_the_host_are_rejected_unless_allowed(void **state)
{
    for (size_t i = 0; i < TV_COUNTOF(cases); i++) {
        if (!cases[i].host_op)
            continue;
        tv_graph *graph = build_graph(&cases[i]);
        assert_int_equal(open_backend(&tv_backend_opennpu, graph, false, TV_MODE_FULL, state), TV_ERR_INPUT);
        assert_string_equal(logged.at[0].code, "TV-L044");
        assert_non_null(strstr(logged.at[0].message, cases[i].host_op));
        assert_non_null(strstr(logged.at[0].hint, "--allow-host-ops"));
        sink = unit_sink(&logged);
        tv_graph_free(graph);
    }
}

/* With data and without: a step of all tokens. */
static void nodes_of_the_host_are_listed(void **unused)
{
    static float logits[TOKENS * LOGITS];
    static const tv_mode modes[] = {TV_MODE_FULL, TV_MODE_TIMING};
    (void)unused;
    for (size_t i = 0; i < TV_COUNTOF(modes); i++) {
        const tv_host_op *list;
        tv_graph *graph = build_graph(&(graph_case){"rotation", build_rotation, "RotaryEmbedding"});
        void *state;
        assert_int_equal(open_backend(&tv_backend_opennpu, graph, true, modes[i], &state), TV_OK);
        assert_int_equal(tv_backend_opennpu.step(state, tokens, TOKENS, 0, false, logits, &sink), TV_OK);
        assert_int_equal(tv_backend_opennpu.host_ops(state, &list), 1);
        assert_string_equal(list[0].name, "RotaryEmbedding");
        assert_int_equal(list[0].count, 1);
        assert_int_equal(list[0].elements, TOKENS * COLUMNS);
        tv_backend_opennpu.destroy(state);
        tv_graph_free(graph);
    }
}

/* ---- Instructions that are repeated ---- */

static void append_words(void *user, const tv_event *e)
{
    for (uint64_t i = 0; e->kind == TV_EVENT_LOAD && i < tv_program_instruction_count(e->program); i++)
        tv_buf_le(user, tv_program_word(e->program, i), 4);
}

/* Appends the instructions of a step. */
static void record_step(void *state, uint32_t count, uint32_t position, tv_buf *words)
{
    static float logits[LOGITS];
    tv_machine *machine = tv_backend_opennpu.machine(state);
    tv_machine_trace(machine, &(tv_trace_sink){append_words, words});
    assert_int_equal(tv_backend_opennpu.step(state, tokens + position, count, position, true, logits, &sink), TV_OK);
    tv_machine_trace(machine, NULL);
}

static void repeated_instructions_are_those_that_would_be_emitted(void **unused)
{
    static const uint32_t steps[] = {1, 1, 3, 1, 2, 1, 1, 2};
    static const graph_case list[] = {{"attention", build_attention, NULL}, {"norms", build_norms, NULL}};
    (void)unused;
    for (size_t i = 0; i < TV_COUNTOF(list); i++) {
        tv_graph *graph = build_graph(&list[i]);
        void *state;
        uint32_t position = 0;
        assert_int_equal(open_backend(&tv_backend_opennpu, graph, false, TV_MODE_TIMING, &state), TV_OK);
        for (size_t s = 0; s < TV_COUNTOF(steps); position += steps[s++]) {
            tv_buf words = {0}, expected = {0};
            void *fresh; /* has nothing to repeat at its first token; without data it does not need the positions before
                          */
            assert_int_equal(open_backend(&tv_backend_opennpu, graph, false, TV_MODE_TIMING, &fresh), TV_OK);
            record_step(state, steps[s], position, &words);
            record_step(fresh, steps[s], position, &expected);
            tv_backend_opennpu.destroy(fresh);
            assert_true(words.len > 0);
            assert_int_equal(words.len, expected.len);
            assert_memory_equal(words.data, expected.data, words.len);
            tv_buf_fini(&words);
            tv_buf_fini(&expected);
        }
        tv_backend_opennpu.destroy(state);
        tv_graph_free(graph);
    }
}

/* ---- Fragments and segments ---- */

enum { FRAGMENT = 40 };

/* Appends the segment to the words of all, and its length to the list. */
typedef struct segment_log {
    opennpu_lower_emitter *e;
    tv_buf words, lengths;
} segment_log;

static tv_status log_segment(void *user)
{
    segment_log *log = user;
    tv_buf_append(&log->words, log->e->program.words.data, log->e->program.words.len);
    tv_buf_le(&log->lengths, log->e->program.words.len, 4);
    return TV_OK;
}

/* A node: instructions, a place where a segment can end, and instructions. */
static void emit_fragment(opennpu_lower_emitter *e)
{
    for (unsigned i = 0; i < FRAGMENT / 2; i++)
        opennpu_lower_emit_vr(e, OPENNPU_VADD, i % 4, 1, 2);
    opennpu_lower_run_full_segment(e);
    opennpu_lower_set(e, 6, 0x01010101);
    for (unsigned i = 4; i < FRAGMENT / 2; i++)
        opennpu_lower_emit_vr(e, OPENNPU_VXOR, i % 4, 1, 2);
}

/* Emits `before` instructions and the node, which is repeated if it can be. Returns whether it was. */
static bool emit_after(size_t before, const opennpu_lower_fragment *fragment, segment_log *log)
{
    opennpu_lower_emitter e;
    bool repeated = false;
    assert_int_equal(opennpu_lower_emitter_init(&e, 64, &sink), TV_OK);
    log->e = &e;
    opennpu_lower_begin_program(&e, log_segment, log);
    for (size_t i = 0; i < before; i++)
        opennpu_lower_emit_vr(&e, OPENNPU_VMUL, 7, 7, 7);
    if (fragment)
        repeated = opennpu_lower_repeat(&e, fragment);
    if (!repeated)
        emit_fragment(&e);
    opennpu_lower_set(&e, 6, 0x01010102); /* one instruction, if the other bytes are known */
    assert_int_equal(log_segment(log), TV_OK);
    opennpu_lower_emitter_fini(&e);
    return repeated;
}

static void segments_end_where_they_would_without_fragments(void **unused)
{
    opennpu_lower_emitter e;
    opennpu_lower_fragment fragment = {0};
    (void)unused;
    assert_int_equal(opennpu_lower_emitter_init(&e, 64, &sink), TV_OK);
    opennpu_lower_begin_program(&e, NULL, NULL);
    opennpu_lower_begin_fragment(&e, &fragment);
    emit_fragment(&e);
    opennpu_lower_end_fragment(&e, &fragment);
    assert_int_equal(fragment.words.len, 4 * FRAGMENT);
    for (size_t before = OPENNPU_LOWER_SEGMENT - 2 * FRAGMENT; before <= OPENNPU_LOWER_SEGMENT + 1; before++) {
        segment_log got = {0}, expected = {0};
        bool repeated = emit_after(before, &fragment, &got);
        (void)emit_after(before, NULL, &expected);
        assert_int_equal(repeated, before + FRAGMENT < OPENNPU_LOWER_SEGMENT);
        assert_int_equal(got.lengths.len, expected.lengths.len);
        assert_memory_equal(got.lengths.data, expected.lengths.data, got.lengths.len);
        assert_memory_equal(got.words.data, expected.words.data, expected.words.len);
        tv_buf_fini(&got.words);
        tv_buf_fini(&got.lengths);
        tv_buf_fini(&expected.words);
        tv_buf_fini(&expected.lengths);
    }
    tv_buf_fini(&fragment.words);
    opennpu_lower_emitter_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operator_computes_what_the_host_computes),
        cmocka_unit_test(nodes_of_the_host_are_rejected_unless_allowed),
        cmocka_unit_test(nodes_of_the_host_are_listed),
        cmocka_unit_test(repeated_instructions_are_those_that_would_be_emitted),
        cmocka_unit_test(segments_end_where_they_would_without_fragments),
    };
    sink = unit_sink(&logged);
    fill_numbers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
