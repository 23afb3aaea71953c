/* SPDX-License-Identifier: Apache-2.0 */
/* The lowering to pccx, operator by operator: graphs of one operator or two, whose results are those of the host within
 * the precision of BF16 values and 8-bit activations. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "graph/backend.h"
#include "graph/passes.h"
#include "trivet/config.h"

extern const tv_backend tv_backend_pccx;

enum { TOKENS = 6, WORDS = 8, COLUMNS = 48, LOGITS_MAX = 256 };

/* Of the absmax: activations are rounded to 8 bits whose scale is a power of two, and then to BF16. */
#define TOLERANCE 0.02f

static unit_log logged;
static tv_diag_sink sink;
static float table[WORDS * COLUMNS], gains[COLUMNS], identity[LOGITS_MAX * LOGITS_MAX];
static const int32_t tokens[TOKENS] = {3, 0, 7, 1, 5, 2};

/* Numbers in -2.5 to 2.5, none of them near 0. */
static void fill(float *to, unsigned count, unsigned seed)
{
    for (unsigned i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        float x = (float)(seed >> 16 & 1023) / 256 - 2;
        to[i] = x < 0 ? x - 0.5f : x + 0.25f;
    }
}

static uint32_t constant(tv_graph_builder *b, const char *name, const float *values, uint32_t rows, uint32_t columns)
{
    return tv_graph_constant(
        b, name, &(tv_matrix){.name = name, .values = values, .rows = rows, .columns = columns, .count = 1});
}

/* ---- Graphs ----
 *
 * Each function takes x [tokens x COLUMNS] and returns the value under test. */

static uint32_t reshape(tv_graph_builder *b, const char *name, uint32_t x, uint32_t rows, uint32_t columns)
{
    tv_graph_shape shape =
        rows > 1 ? (tv_graph_shape){3, {TV_DIM_TOKENS, rows, columns}} : (tv_graph_shape){2, {TV_DIM_TOKENS, columns}};
    return tv_graph_add(b, TV_OP_RESHAPE, name, &x, 1, &(tv_graph_attrs){.shape = shape});
}

static uint32_t slice(tv_graph_builder *b, const char *name, uint32_t x, uint32_t start, uint32_t end)
{
    return tv_graph_add(b, TV_OP_SLICE, name, &x, 1, &(tv_graph_attrs){.start = start, .end = end});
}

static uint32_t mean(tv_graph_builder *b, uint32_t x) { return tv_graph_add1(b, TV_OP_REDUCE_MEAN, "mean", x); }

/* Another value of the same shape: x in another order. */
static uint32_t other(tv_graph_builder *b, uint32_t x)
{
    uint32_t halves[] = {slice(b, "right", x, COLUMNS / 2, COLUMNS), slice(b, "left", x, 0, COLUMNS / 2)};
    return tv_graph_add(b, TV_OP_CONCAT, "other", halves, 2, NULL);
}

static uint32_t vector(tv_graph_builder *b) { return constant(b, "gains", gains, 1, COLUMNS); }

#define UNARY(name, op)                                                                                                \
    static uint32_t build_##name(tv_graph_builder *b, uint32_t x) { return tv_graph_add1(b, op, "y", x); }
#define BINARY(name, op, first, second)                                                                                \
    static uint32_t build_##name(tv_graph_builder *b, uint32_t x)                                                      \
    {                                                                                                                  \
        uint32_t first_value = first, second_value = second;                                                           \
        return tv_graph_add2(b, op, "y", first_value, second_value);                                                   \
    }

UNARY(relu, TV_OP_RELU)
UNARY(sigmoid, TV_OP_SIGMOID)
UNARY(tanh, TV_OP_TANH)
UNARY(swish, TV_OP_SWISH)
UNARY(gelu, TV_OP_GELU)
UNARY(exp, TV_OP_EXP)
UNARY(sum_of_row, TV_OP_REDUCE_SUM)
BINARY(add, TV_OP_ADD, x, other(b, x))
BINARY(add_vector, TV_OP_ADD, x, vector(b))
BINARY(add_to_vector, TV_OP_ADD, vector(b), x)
BINARY(add_scalar, TV_OP_ADD, x, tv_graph_scalar(b, "c", 1.5f))
BINARY(add_token, TV_OP_ADD, x, mean(b, x))
BINARY(add_itself, TV_OP_ADD, x, x)
BINARY(sub, TV_OP_SUB, x, other(b, x))
BINARY(sub_vector, TV_OP_SUB, x, vector(b))
BINARY(sub_from_vector, TV_OP_SUB, vector(b), x)
BINARY(sub_scalar, TV_OP_SUB, x, tv_graph_scalar(b, "c", 1.5f))
BINARY(sub_from_scalar, TV_OP_SUB, tv_graph_scalar(b, "c", 1.5f), x)
BINARY(sub_token, TV_OP_SUB, x, mean(b, x))
BINARY(sub_from_token, TV_OP_SUB, mean(b, x), x)
BINARY(mul, TV_OP_MUL, x, other(b, x))
BINARY(mul_itself, TV_OP_MUL, x, x)
BINARY(mul_vector, TV_OP_MUL, x, vector(b))
BINARY(mul_by_vector, TV_OP_MUL, vector(b), x)
BINARY(mul_scalar, TV_OP_MUL, x, tv_graph_scalar(b, "c", -0.75f))
BINARY(mul_token, TV_OP_MUL, mean(b, x), x)
BINARY(mul_tokens, TV_OP_MUL, mean(b, x), slice(b, "element", x, 13, 14))
BINARY(div, TV_OP_DIV, x, other(b, x))
BINARY(div_vector, TV_OP_DIV, x, vector(b))
BINARY(div_into_vector, TV_OP_DIV, vector(b), x)
BINARY(div_scalar, TV_OP_DIV, x, tv_graph_scalar(b, "c", 3))
BINARY(div_into_scalar, TV_OP_DIV, tv_graph_scalar(b, "c", 3), x)
BINARY(div_token, TV_OP_DIV, x, slice(b, "element", x, 9, 10))
BINARY(div_into_token, TV_OP_DIV, slice(b, "element", x, 9, 10), x)

static uint32_t build_sqrt(tv_graph_builder *b, uint32_t x)
{
    return tv_graph_add1(b, TV_OP_SQRT, "y", tv_graph_add2(b, TV_OP_MUL, "square", x, x));
}

/* Elements that move between lanes: [5, 40) of a row; then 3, 35 and 7 elements side by side. */
static uint32_t build_odd_slice(tv_graph_builder *b, uint32_t x) { return slice(b, "y", x, 5, 40); }

static uint32_t build_odd_concat(tv_graph_builder *b, uint32_t x)
{
    uint32_t slices[] = {slice(b, "a", x, 1, 4), slice(b, "b", x, 5, 40), slice(b, "c", x, 41, 48)};
    return tv_graph_add(b, TV_OP_CONCAT, "y", slices, 3, NULL);
}

/* Of rows of rows. */
static uint32_t build_inner_slice(tv_graph_builder *b, uint32_t x)
{
    return reshape(b, "y", slice(b, "columns", reshape(b, "rows", x, 4, 12), 3, 10), 1, 28);
}

static uint32_t build_inner_concat(tv_graph_builder *b, uint32_t x)
{
    uint32_t slices[] = {reshape(b, "a", x, 4, 12), reshape(b, "b", slice(b, "c", x, 8, 28), 4, 5)};
    return reshape(b, "y", tv_graph_add(b, TV_OP_CONCAT, "rows", slices, 2, NULL), 1, 68);
}

/* Rows that are no whole words. */
static uint32_t build_odd_function(tv_graph_builder *b, uint32_t x)
{
    return tv_graph_add1(b, TV_OP_EXP, "y", tv_graph_add1(b, TV_OP_TANH, "z", slice(b, "x", x, 2, 23)));
}

/* On the host. */
static uint32_t build_transpose(tv_graph_builder *b, uint32_t x)
{
    return reshape(b, "y", tv_graph_add1(b, TV_OP_TRANSPOSE, "z", reshape(b, "rows", x, 6, 8)), 1, COLUMNS);
}

static uint32_t build_matmul(tv_graph_builder *b, uint32_t x)
{
    uint32_t rows = reshape(b, "rows", x, 6, 8), transposed = tv_graph_add1(b, TV_OP_TRANSPOSE, "z", rows);
    return reshape(b, "y", tv_graph_add2(b, TV_OP_MATMUL, "products", rows, transposed), 1, 36);
}

static uint32_t build_softmax(tv_graph_builder *b, uint32_t x) { return tv_graph_add1(b, TV_OP_SOFTMAX, "y", x); }

typedef struct graph_case {
    const char *name;
    uint32_t (*build)(tv_graph_builder *b, uint32_t x);
    const char *host_op; /* operator that only the host has, or NULL */
} graph_case;

#define CASE(name)                                                                                                     \
    {                                                                                                                  \
#name, build_##name, NULL                                                                                      \
    }
static const graph_case cases[] = {
    CASE(relu),
    CASE(sigmoid),
    CASE(tanh),
    CASE(swish),
    CASE(gelu),
    CASE(exp),
    CASE(sqrt),
    CASE(sum_of_row),
    CASE(add),
    CASE(add_vector),
    CASE(add_to_vector),
    CASE(add_scalar),
    CASE(add_token),
    CASE(add_itself),
    CASE(sub),
    CASE(sub_vector),
    CASE(sub_from_vector),
    CASE(sub_scalar),
    CASE(sub_from_scalar),
    CASE(sub_token),
    CASE(sub_from_token),
    CASE(mul),
    CASE(mul_itself),
    CASE(mul_vector),
    CASE(mul_by_vector),
    CASE(mul_scalar),
    CASE(mul_token),
    CASE(mul_tokens),
    CASE(div),
    CASE(div_vector),
    CASE(div_into_vector),
    CASE(div_scalar),
    CASE(div_into_scalar),
    CASE(div_token),
    CASE(div_into_token),
    CASE(odd_slice),
    CASE(odd_concat),
    CASE(inner_slice),
    CASE(inner_concat),
    CASE(odd_function),
    {"transpose", build_transpose, "Transpose"},
    {"matmul", build_matmul, "Transpose"},
    {"softmax", build_softmax, "Softmax"},
};

/* The value under test, times the identity. */
static tv_graph *build_graph(const graph_case *c)
{
    tv_graph_builder b;
    tv_graph *graph = NULL;
    tv_graph_begin(&b, 1, TOKENS, &sink);
    uint32_t words = tv_graph_tokens(&b),
             x = tv_graph_add2(&b, TV_OP_GATHER, "x", constant(&b, "table", table, WORDS, COLUMNS), words);
    b.block = 0;
    uint32_t y = c->build(&b, x), columns = tv_graph_columns(b.graph, y);
    tv_graph_end_layer(&b, y);
    b.block = TV_BLOCK_OUTPUT;
    for (uint32_t i = 0; i < columns * columns; i++)
        identity[i] = i % (columns + 1) == 0;
    uint32_t logits = tv_graph_add2(&b, TV_OP_GEMM, "logits", y, constant(&b, "identity", identity, columns, columns));
    assert_int_equal(tv_graph_finish(&b, logits, &graph), TV_OK);
    assert_int_equal(tv_graph_fuse(graph, &sink), TV_OK);
    return graph;
}

static tv_status open_backend(const tv_backend *backend, const tv_graph *graph, bool allow_host_ops, tv_mode mode,
                              void **state)
{
    tv_config *config = NULL;
    assert_int_equal(tv_config_new("pccx", &sink, &config), TV_OK);
    tv_backend_options options = {.config = config,
                                  .context = TOKENS,
                                  .threads = 1,
                                  .mode = mode,
                                  .weight_bits = 8,
                                  .allow_host_ops = allow_host_ops};
    tv_status status = backend->create(graph, &options, &sink, state);
    tv_config_free(config);
    return status;
}

/* Several tokens in one step, the last one in a step of its own. */
static void run_backend(const tv_backend *backend, const tv_graph *graph, float *logits)
{
    void *state;
    size_t columns = tv_graph_vocabulary(graph);
    assert_int_equal(open_backend(backend, graph, true, TV_MODE_FULL, &state), TV_OK);
    assert_int_equal(backend->step(state, tokens, TOKENS - 1, 0, false, logits, &sink), TV_OK);
    assert_int_equal(
        backend->step(state, tokens + TOKENS - 1, 1, TOKENS - 1, true, logits + (TOKENS - 1) * columns, &sink), TV_OK);
    backend->destroy(state);
}

static void check_case(const graph_case *c)
{
    static float expected[TOKENS * LOGITS_MAX], got[TOKENS * LOGITS_MAX];
    tv_graph *graph = build_graph(c);
    size_t count = TOKENS * (size_t)tv_graph_vocabulary(graph);
    float absmax = 0;
    run_backend(&tv_backend_host, graph, expected);
    run_backend(&tv_backend_pccx, graph, got);
    for (size_t i = 0; i < count; i++)
        absmax = fabsf(expected[i]) > absmax ? fabsf(expected[i]) : absmax;
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - expected[i]) <= TOLERANCE * absmax))
            fail_msg("%s: element %zu is %g, not %g", c->name, i, (double)got[i], (double)expected[i]);
    tv_graph_free(graph);
    assert_int_equal(logged.count, 0);
}

static void each_operator_computes_what_the_host_computes(void **state)
{
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(cases); i++)
        check_case(&cases[i]);
}

static void nodes_of_the_host_are_rejected_unless_allowed(void **state)
{
    for (size_t i = 0; i < TV_COUNTOF(cases); i++) {
        if (!cases[i].host_op)
            continue;
        tv_graph *graph = build_graph(&cases[i]);
        assert_int_equal(open_backend(&tv_backend_pccx, graph, false, TV_MODE_FULL, state), TV_ERR_INPUT);
        assert_string_equal(logged.at[0].code, "TV-L044");
        assert_non_null(strstr(logged.at[0].hint, "--allow-host-ops"));
        sink = unit_sink(&logged);
        tv_graph_free(graph);
    }
}

/* With data and without. A step of five tokens: 48 elements each. */
static void nodes_of_the_host_are_listed(void **unused)
{
    static float logits[TOKENS * LOGITS_MAX];
    static const tv_mode modes[] = {TV_MODE_FULL, TV_MODE_TIMING};
    (void)unused;
    for (size_t i = 0; i < TV_COUNTOF(modes); i++) {
        const graph_case c = {"softmax", build_softmax, "Softmax"};
        const tv_host_op *list;
        tv_graph *graph = build_graph(&c);
        void *state;
        assert_int_equal(open_backend(&tv_backend_pccx, graph, true, modes[i], &state), TV_OK);
        assert_int_equal(tv_backend_pccx.step(state, tokens, 5, 0, false, logits, &sink), TV_OK);
        unsigned count = tv_backend_pccx.host_ops(state, &list);
        assert_string_equal(list[count - 1].name, "Softmax");
        assert_int_equal(list[count - 1].count, 1);
        assert_int_equal(list[count - 1].elements, 5 * COLUMNS);
        tv_backend_pccx.destroy(state);
        tv_graph_free(graph);
    }
}

/* ---- Host memory ---- */

/* A table of 2,048 rows of 300 columns: 1.2 MB as BF16, 0.6 MB in one plane of INT4. A row has 16 beats; its elements
 * are multiples of 1/8, of which each beat has -1, so that packing changes none of them. */
enum { TABLE_ROWS = 2048, TABLE_COLUMNS = 300 };

static tv_graph *build_table_graph(float *values, float *selection)
{
    tv_graph_builder b;
    tv_graph *graph = NULL;
    for (uint32_t row = 0; row < TABLE_ROWS; row++)
        for (uint32_t i = 0; i < TABLE_COLUMNS; i++)
            values[row * TABLE_COLUMNS + i] = i / 16 == row % 18 ? -1 : (float)((row * 5 + i * 3) % 16) / 8 - 1;
    for (uint32_t i = 0; i < 32; i++)
        selection[i * TABLE_COLUMNS + i * 9] = 1;
    tv_graph_begin(&b, 1, TOKENS, &sink);
    uint32_t words = tv_graph_tokens(&b), w = constant(&b, "table", values, TABLE_ROWS, TABLE_COLUMNS);
    uint32_t x = tv_graph_add2(&b, TV_OP_GATHER, "x", w, words);
    b.block = 0;
    uint32_t y = tv_graph_add2(&b, TV_OP_ADD, "y", x, x);
    tv_graph_end_layer(&b, y);
    b.block = TV_BLOCK_OUTPUT;
    uint32_t logits =
        tv_graph_add2(&b, TV_OP_GEMM, "logits", y, constant(&b, "selection", selection, 32, TABLE_COLUMNS));
    assert_int_equal(tv_graph_finish(&b, logits, &graph), TV_OK);
    assert_int_equal(tv_graph_fuse(graph, &sink), TV_OK);
    return graph;
}

/* The logits of a session on a machine of so much host memory. */
static void run_with_memory(const tv_graph *graph, const char *bytes, unsigned weight_bits, float *logits)
{
    static const int32_t rows[TOKENS] = {3, 2047, 1024, 0, 77, 1500};
    tv_config *config = NULL;
    void *state;
    assert_int_equal(tv_config_new("pccx", &sink, &config), TV_OK);
    assert_int_equal(tv_config_set(config, "host.bytes", bytes, &sink), TV_OK);
    tv_backend_options options = {.config = config, .context = TOKENS, .threads = 1, .weight_bits = weight_bits};
    assert_int_equal(tv_backend_pccx.create(graph, &options, &sink, &state), TV_OK);
    assert_int_equal(tv_backend_pccx.step(state, rows, TOKENS, 0, false, logits, &sink), TV_OK);
    tv_backend_pccx.destroy(state);
    tv_config_free(config);
}

static void tables_are_packed_where_memory_is_short(void **state)
{
    (void)state;
    float *values = calloc(TABLE_ROWS * TABLE_COLUMNS, sizeof *values),
          *selection = calloc(32 * TABLE_COLUMNS, sizeof *selection);
    tv_graph *graph = build_table_graph(values, selection);
    for (unsigned bits = 4; bits <= 8; bits += 4) {
        float whole[TOKENS * 32], packed[TOKENS * 32];
        run_with_memory(graph, "4Mi", bits, whole);
        run_with_memory(graph, bits == 4 ? "700Ki" : "1220Ki", bits, packed);
        assert_memory_equal(whole, packed, sizeof whole);
    }
    tv_graph_free(graph);
    free(values);
    free(selection);
}

/* The gain of a norm is a factor of the weights after it. */
static void products_of_gains_and_weights_must_be_finite(void **unused)
{
    static float large[COLUMNS], weights[COLUMNS * COLUMNS];
    tv_graph_builder b;
    tv_graph *graph = NULL;
    void *state = NULL;
    (void)unused;
    large[5] = 100;
    weights[3 * COLUMNS + 5] = -1e37f;
    tv_graph_begin(&b, 1, TOKENS, &sink);
    uint32_t words = tv_graph_tokens(&b),
             x = tv_graph_add2(&b, TV_OP_GATHER, "x", constant(&b, "table", table, WORDS, COLUMNS), words);
    b.block = 0;
    x = tv_graph_add(&b, TV_OP_RMS_NORMALIZATION, "xn", (uint32_t[]){x, constant(&b, "gains", large, 1, COLUMNS)}, 2,
                     &(tv_graph_attrs){.epsilon = 1e-5f});
    x = tv_graph_add2(&b, TV_OP_GEMM, "y", x, constant(&b, "weights", weights, COLUMNS, COLUMNS));
    tv_graph_end_layer(&b, x);
    b.block = TV_BLOCK_OUTPUT;
    x = tv_graph_add2(&b, TV_OP_GEMM, "logits", x, constant(&b, "output", table, WORDS, COLUMNS));
    assert_int_equal(tv_graph_finish(&b, x, &graph), TV_OK);
    assert_int_equal(tv_graph_fuse(graph, &sink), TV_OK);
    assert_int_equal(open_backend(&tv_backend_pccx, graph, false, TV_MODE_FULL, &state), TV_ERR_INPUT);
    assert_string_equal(logged.at[0].code, "TV-L045");
    assert_non_null(strstr(logged.at[0].message, "'weights', row 3"));
    sink = unit_sink(&logged);
    tv_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operator_computes_what_the_host_computes),
        cmocka_unit_test(nodes_of_the_host_are_rejected_unless_allowed),
        cmocka_unit_test(nodes_of_the_host_are_listed),
        cmocka_unit_test(tables_are_packed_where_memory_is_short),
        cmocka_unit_test(products_of_gains_and_weights_must_be_finite),
    };
    sink = unit_sink(&logged);
    fill(table, TV_COUNTOF(table), 1);
    fill(gains, TV_COUNTOF(gains), 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
