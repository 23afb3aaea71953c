/* SPDX-License-Identifier: Apache-2.0 */
/* Building, checking, printing and measuring graphs; the patterns of the fusion pass. Expected values are by hand. */
#include "graph_values.h"

#include <math.h>

#include "graph/passes.h"

static const float numbers[512] = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12};

static unit_log logged;
static tv_diag_sink sink;

/* A builder in layer 0 of one, with token numbers as value 0 and their embeddings [tokens x 4] as value 2. */
enum { TOKENS, EMBEDDING, X };

static tv_graph_builder begin(void)
{
    tv_graph_builder b;
    sink = unit_sink(&logged);
    tv_graph_begin(&b, 1, 16, &sink);
    assert_int_equal(tv_graph_tokens(&b), TOKENS);
    tv_matrix embedding = {.name = "token_embd", .values = numbers, .rows = 3, .columns = 4, .count = 1};
    assert_int_equal(tv_graph_constant(&b, "embedding", &embedding), EMBEDDING);
    assert_int_equal(tv_graph_add2(&b, TV_OP_GATHER, "x", EMBEDDING, TOKENS), X);
    b.block = 0;
    return b;
}

static uint32_t constant(tv_graph_builder *b, const char *name, uint32_t count, uint32_t rows, uint32_t columns)
{
    return tv_graph_constant(b, name,
                             &(tv_matrix){.values = numbers, .rows = rows, .columns = columns, .count = count});
}

static uint32_t vector(tv_graph_builder *b, uint32_t length) { return constant(b, "v", 1, 1, length); }

static uint32_t reshape(tv_graph_builder *b, const char *name, uint32_t x, tv_graph_shape shape)
{
    return tv_graph_add(b, TV_OP_RESHAPE, name, &x, 1, &(tv_graph_attrs){.shape = shape});
}

/* Ends the layer with `value`, and the graph with a Gemm to 3 logits. */
static tv_graph *finish(tv_graph_builder *b, uint32_t value)
{
    tv_graph *graph = NULL;
    tv_graph_end_layer(b, value);
    b->block = TV_BLOCK_OUTPUT;
    uint32_t w = constant(b, "output", 1, 3, tv_graph_columns(b->graph, value));
    assert_int_equal(tv_graph_finish(b, tv_graph_add2(b, TV_OP_GEMM, "logits", value, w), &graph), TV_OK);
    assert_int_equal(logged.count, 0);
    return graph;
}

/* The text of a graph, for which the caller has no buffer; valid until the next call. */
static const char *print(const tv_graph *graph)
{
    static tv_buf text;
    tv_buf_fini(&text);
    tv_graph_print(graph, &text);
    return tv_buf_cstr(&text);
}

/* ---- Rejected nodes ---- */

/* `add` builds a node that is rejected with `problem`. */
typedef struct rejection {
    const char *problem;
    tv_graph_op op;
    uint32_t inputs[TV_GRAPH_INPUTS_MAX]; /* of which `count` are given */
    uint32_t count;
    tv_graph_attrs attrs;
} rejection;

/* Values beside X for the inputs of rejected nodes. */
enum { MATRIX = 3, V3, V4, SPLIT, MATRICES, X3, X6, LOGITS, W2, LONG, CUBE, VALUES };

static tv_graph_builder begin_rejected(void)
{
    tv_graph_builder b = begin();
    assert_int_equal(constant(&b, "w", 1, 3, 4), MATRIX);
    assert_int_equal(vector(&b, 3), V3);
    assert_int_equal(vector(&b, 4), V4);
    assert_int_equal(reshape(&b, "split", X, (tv_graph_shape){3, {TV_DIM_TOKENS, 2, 2}}), SPLIT);
    assert_int_equal(constant(&b, "experts", 2, 6, 4), MATRICES);
    assert_int_equal(tv_graph_add2(&b, TV_OP_GEMM, "x3", X, MATRIX), X3);
    assert_int_equal(tv_graph_add2(&b, TV_OP_CONCAT, "x6", X3, X3), X6);
    assert_int_equal(tv_graph_add(&b, TV_OP_SLICE, "logits", (uint32_t[]){X}, 1, &(tv_graph_attrs){.end = 2}), LOGITS);
    assert_int_equal(constant(&b, "w2", 1, 5, 4), W2);
    assert_int_equal(constant(&b, "down", 2, 4, 6), LONG);
    assert_int_equal(reshape(&b, "cube", X, (tv_graph_shape){3, {TV_DIM_TOKENS, 4, 1}}), CUBE);
    assert_int_equal(tv_graph_add_cache(&b, (tv_graph_cache){.heads = 2, .key_dim = 2, .value_dim = 2}), 0);
    return b;
}

#define NOTHING                                                                                                        \
    {                                                                                                                  \
        .start = 0                                                                                                     \
    }
#define TO_DIMS(...)                                                                                                   \
    {                                                                                                                  \
        .shape = __VA_ARGS__                                                                                           \
    }
#define ROTARY(h, dim, base, factor)                                                                                   \
    {                                                                                                                  \
        .heads = (h), .rotary_dim = (dim), .theta = (base), .frequency_scale = (factor)                                \
    }

static const tv_graph_lists windows = {.kernel = {1}, .stride = {1}, .dilation = {1}, .step = {1, 1}, .scale = {1, 1}};

static const rejection rejections[] = {
    /* Axes of tokens have no number. */
    {"the shape is no repetition of the input's", TV_OP_EXPAND, {X}, 1, TO_DIMS({2, {3, 4}})},
    {"the padding is not given", TV_OP_PAD, {X}, 1, {.lists = &windows}},
    {"the ranks of input and output differ", TV_OP_SLICE, {X}, 1, {.lists = &windows, .shape = {2, {3, 4}}}},
    {"the ranks of input and output differ", TV_OP_RESIZE, {X}, 1, {.lists = &windows, .shape = {2, {3, 4}}}},
    {"the last axis has not that many elements", TV_OP_TOP_K, {X}, 1, {.end = 1}},
    {"the scale is neither one number nor one for each index or block of the axis",
     TV_OP_QUANTIZE_LINEAR,
     {X, V3},
     2,
     {.to = TV_ELEMENT_I8}},
    {"the input has not one to three axes after batch and channels", TV_OP_MAX_POOL, {SPLIT}, 1, {.lists = &windows}},
    {"the inputs differ in another axis", TV_OP_CONCAT, {X, X}, 2, {.axis_from_end = 1}},
    {"the axes of time and batch are not two of the input's", TV_OP_REVERSE_SEQUENCE, {X, V4}, 2, {.mode = 1}},
    {"the shapes differ in the number of elements or in the first axis", TV_OP_RESHAPE, {X}, 1, TO_DIMS({9, {-1, 4}})},
    {"an input is missing", TV_OP_ADD, {X}, 1, NOTHING},
    {"an input is missing", TV_OP_ADD, {TV_NO_VALUE, X}, 2, NOTHING},
    {"there are too many inputs", TV_OP_RELU, {X, X}, 2, NOTHING},
    {"an input does not exist", TV_OP_RELU, {VALUES}, 1, NOTHING},
    {"only Gather reads token numbers or positions", TV_OP_RELU, {TOKENS}, 1, NOTHING},
    {"the inputs are not a matrix and indices", TV_OP_GATHER, {X, TOKENS}, 2, NOTHING},
    {"the inputs are not a matrix and indices", TV_OP_GATHER, {MATRICES, TOKENS}, 2, NOTHING},
    {"the inputs are not a matrix and indices", TV_OP_GATHER, {MATRIX, X}, 2, NOTHING},
    {"the shapes differ in the number of elements or in the first axis", TV_OP_RESHAPE, {X}, 1, NOTHING},
    {"the shapes differ in the number of elements or in the first axis", TV_OP_RESHAPE, {X}, 1, TO_DIMS({7, {-1}})},
    {"the shapes differ in the number of elements or in the first axis", TV_OP_RESHAPE, {X}, 1, TO_DIMS({2, {-1, 3}})},
    {"the shapes differ in the number of elements or in the first axis", TV_OP_RESHAPE, {X}, 1, TO_DIMS({2, {4, 1}})},
    {"the shapes differ in the number of elements or in the first axis",
     TV_OP_RESHAPE,
     {X},
     1,
     TO_DIMS({3, {-1, -1, 4}})},
    {"the range is not inside of the last axis", TV_OP_SLICE, {X}, 1, {.start = 2, .end = 2}},
    {"the range is not inside of the last axis", TV_OP_SLICE, {X}, 1, {.start = 2, .end = 5}},
    {"the ranks of the inputs differ", TV_OP_CONCAT, {X, SPLIT}, 2, NOTHING},
    {"the inputs differ in another axis than the last", TV_OP_CONCAT, {SPLIT, CUBE}, 2, NOTHING},
    {"the input has no two axes for each token", TV_OP_TRANSPOSE, {X}, 1, NOTHING},
    {"the input has no two axes for each token", TV_OP_TRANSPOSE, {MATRICES}, 1, NOTHING},
    {"an input has no row for each token", TV_OP_GEMM, {V4, MATRIX}, 2, NOTHING},
    {"an input has no row for each token", TV_OP_GEMM, {MATRIX, W2}, 2, NOTHING},
    {"the columns of the matrix are not those of the input", TV_OP_GEMM, {X3, MATRIX}, 2, NOTHING},
    {"the columns of the matrix are not those of the input", TV_OP_GEMM, {X, X}, 2, NOTHING},
    {"the columns of the matrix are not those of the input", TV_OP_GEMM, {X, MATRICES}, 2, NOTHING},
    {"the bias has not one value for each row of the matrix", TV_OP_GEMM, {X, MATRIX, V4}, 3, NOTHING},
    {"the bias has not one value for each row of the matrix", TV_OP_GEMM, {X, MATRIX, MATRIX}, 3, NOTHING},
    {"the bias has not one value for each row of the matrix", TV_OP_GEMM, {X, MATRIX, X3}, 3, NOTHING},
    {"the residual has another shape", TV_OP_LINEAR, {X, MATRIX, V3, X}, 4, NOTHING},
    {"the columns of the matrix are not those of the input", TV_OP_LINEAR, {X3, MATRIX}, 2, NOTHING},
    {"the two matrices differ in shape", TV_OP_GLU, {X, MATRIX, W2}, 3, NOTHING},
    {"the two matrices differ in shape", TV_OP_GLU, {X, MATRIX, X3}, 3, NOTHING},
    {"the columns of the matrix are not those of the input", TV_OP_GLU, {X3, MATRIX, MATRIX}, 3, NOTHING},
    {"the shapes of the matrices do not fit each other", TV_OP_MATMUL, {X, X}, 2, NOTHING},
    {"the shapes of the matrices do not fit each other", TV_OP_MATMUL, {SPLIT, X}, 2, NOTHING},
    {"the shapes of the matrices do not fit each other", TV_OP_MATMUL, {SPLIT, CUBE}, 2, NOTHING},
    {"the shapes of the matrices do not fit each other", TV_OP_MATMUL, {SPLIT, MATRICES}, 2, NOTHING},
    {"the shapes do not fit each other", TV_OP_ADD, {X, X3}, 2, NOTHING},
    {"the shapes do not fit each other", TV_OP_MUL, {X, V3}, 2, NOTHING},
    {"the gains or the bias have not the length of the last axis", TV_OP_RMS_NORMALIZATION, {X, V3}, 2, NOTHING},
    {"the gains or the bias have not the length of the last axis", TV_OP_LAYER_NORMALIZATION, {X, V4, V3}, 3, NOTHING},
    {"the last axis is no multiple of the groups", TV_OP_NORM, {X}, 1, NOTHING},
    {"the last axis is no multiple of the groups", TV_OP_NORM, {X}, 1, {.groups = 3}},
    {"the gains or the bias have not the length of a group", TV_OP_NORM, {X6, V4}, 2, {.groups = 2}},
    {"an input has no row for each token", TV_OP_ROTARY_EMBEDDING, {V4}, 1, ROTARY(1, 4, 1, 1)},
    {"the rotated part is no even part of a head", TV_OP_ROTARY_EMBEDDING, {X}, 1, ROTARY(0, 2, 1, 1)},
    {"the rotated part is no even part of a head", TV_OP_ROTARY_EMBEDDING, {X}, 1, ROTARY(3, 2, 1, 1)},
    {"the rotated part is no even part of a head", TV_OP_ROTARY_EMBEDDING, {X}, 1, ROTARY(2, 0, 1, 1)},
    {"the rotated part is no even part of a head", TV_OP_ROTARY_EMBEDDING, {X}, 1, ROTARY(2, 1, 1, 1)},
    {"the rotated part is no even part of a head", TV_OP_ROTARY_EMBEDDING, {X}, 1, ROTARY(2, 4, 1, 1)},
    {"the base of the frequencies or their scale is not positive", TV_OP_ROTARY_EMBEDDING, {X}, 1, ROTARY(1, 4, 0, 1)},
    {"the base of the frequencies or their scale is not positive", TV_OP_ROTARY_EMBEDDING, {X}, 1, ROTARY(1, 4, 1, -1)},
    {"there is not one factor for each pair", TV_OP_ROTARY_EMBEDDING, {X, V4}, 2, ROTARY(1, 4, 1, 1)},
    {"an input has no row for each token", TV_OP_ATTENTION, {V4, X, X}, 3, {.heads = 2}},
    {"there is no such cache", TV_OP_ATTENTION, {X, X, X}, 3, {.heads = 2, .cache = 1}},
    {"keys and values are given together or not at all", TV_OP_ATTENTION, {X, X}, 2, {.heads = 2}},
    {"keys and values are given together or not at all", TV_OP_ATTENTION, {X, TV_NO_VALUE, X}, 3, {.heads = 2}},
    {"queries, keys or values do not fit the heads of the cache", TV_OP_ATTENTION, {X, X, X}, 3, NOTHING},
    {"queries, keys or values do not fit the heads of the cache", TV_OP_ATTENTION, {X6, X, X}, 3, {.heads = 3}},
    {"queries, keys or values do not fit the heads of the cache", TV_OP_ATTENTION, {X3, X, X}, 3, {.heads = 2}},
    {"queries, keys or values do not fit the heads of the cache", TV_OP_ATTENTION, {X, X3, X}, 3, {.heads = 2}},
    {"queries, keys or values do not fit the heads of the cache", TV_OP_ATTENTION, {X, X, X3}, 3, {.heads = 2}},
    {"an input has no row for each token", TV_OP_MOE, {V4, LOGITS, MATRICES, MATRICES, LONG}, 5, {.experts_used = 1}},
    {"an input has no row for each token", TV_OP_MOE, {X, V3, MATRICES, MATRICES, LONG}, 5, {.experts_used = 1}},
    {"there is not one matrix for each expert", TV_OP_MOE, {X, X3, MATRICES, MATRICES, LONG}, 5, {.experts_used = 1}},
    {"there is not one matrix for each expert", TV_OP_MOE, {X, LOGITS, X, MATRICES, LONG}, 5, {.experts_used = 1}},
    {"there is not one matrix for each expert", TV_OP_MOE, {X, LOGITS, MATRICES, MATRIX, LONG}, 5, {.experts_used = 1}},
    {"the matrices of the experts do not fit each other",
     TV_OP_MOE,
     {X, LOGITS, LONG, LONG, MATRICES},
     5,
     {.experts_used = 1}},
    {"the matrices of the experts do not fit each other",
     TV_OP_MOE,
     {X, LOGITS, MATRICES, LONG, LONG},
     5,
     {.experts_used = 1}},
    {"the matrices of the experts do not fit each other",
     TV_OP_MOE,
     {X, LOGITS, MATRICES, MATRICES, MATRICES},
     5,
     {.experts_used = 1}},
    {"the number of experts used is out of range", TV_OP_MOE, {X, LOGITS, MATRICES, MATRICES, LONG}, 5, NOTHING},
    {"the number of experts used is out of range",
     TV_OP_MOE,
     {X, LOGITS, MATRICES, MATRICES, LONG},
     5,
     {.experts_used = 3}},
};

static void a_node_whose_inputs_do_not_fit_is_rejected_with_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rejections / sizeof rejections[0]; i++) {
        const rejection *r = &rejections[i];
        tv_graph_builder b = begin_rejected();
        char expected[200];
        tv_graph *graph = NULL;
        snprintf(expected, sizeof expected, "node blk.0.bad (%s): %s", tv_graph_op_infos[r->op].name, r->problem);
        uint32_t bad = tv_graph_add(&b, r->op, "bad", r->inputs, r->count, &r->attrs);
        if (bad != TV_NO_VALUE)
            fail_msg("rejection %zu (%s) is accepted", i, expected);
        assert_string_equal(logged.at[0].message, expected);
        assert_string_equal(logged.at[0].code, "TV-L043");
        /* The error is sticky, and is reported once. */
        assert_int_equal(tv_graph_add1(&b, TV_OP_RELU, "y", X), TV_NO_VALUE);
        assert_int_equal(tv_graph_tokens(&b), TV_NO_VALUE);
        assert_int_equal(vector(&b, 1), TV_NO_VALUE);
        assert_int_equal(tv_graph_scalar(&b, "one", 1), TV_NO_VALUE);
        assert_int_equal(tv_graph_add_cache(&b, (tv_graph_cache){.heads = 1}), TV_NO_VALUE);
        tv_graph_end_layer(&b, X);
        assert_int_equal(tv_graph_finish(&b, X, &graph), TV_ERR_INPUT);
        assert_null(graph);
        assert_int_equal(logged.count, 1);
    }
}

/* ---- Graphs that are changed ---- */

static void breaks_order(tv_graph *g) { g->nodes.data[1].inputs[0] = g->logits; }
static void has_unknown_operator(tv_graph *g) { g->nodes.data[1].op = TV_OPS; }
static void has_no_such_layer(tv_graph *g) { g->nodes.data[1].block = 1; }
static void has_no_output(tv_graph *g) { g->nodes.data[1].output = 99; }
static void writes_twice(tv_graph *g) { g->nodes.data[1].output = X; }
static void has_other_rank(tv_graph *g) { g->values.data[g->nodes.data[1].output].shape.rank = 3; }
static void has_other_shape(tv_graph *g) { g->values.data[g->nodes.data[1].output].shape.dims[1] = 5; }
static void has_other_producer(tv_graph *g) { g->values.data[g->nodes.data[1].output].producer = 0; }
static void has_bad_inputs(tv_graph *g) { g->nodes.data[1].inputs[1] = X; }
static void has_no_logits(tv_graph *g) { g->logits = 99; }
static void has_logits_of_nothing(tv_graph *g) { g->nodes.count--; }
static void has_no_layer_output(tv_graph *g) { g->layer_outputs[0] = TV_NO_VALUE; }

static void a_changed_graph_is_rejected(void **state)
{
    static const struct {
        void (*change)(tv_graph *g);
        const char *message;
    } cases[] = {
        {breaks_order, "node blk.0.y (Relu): an input is read before it is written"},
        {has_unknown_operator, "node blk.0.y (?): unknown operator"},
        {has_no_such_layer, "node blk.1.y (Relu): no such layer"},
        {has_no_output, "node blk.0.? (Relu): the output is missing, or written twice"},
        {writes_twice, "node blk.0.x (Relu): the output is missing, or written twice"},
        {has_other_rank, "node blk.0.y (Relu): the output has not the shape that follows from the inputs"},
        {has_other_shape, "node blk.0.y (Relu): the output has not the shape that follows from the inputs"},
        {has_other_producer, "node blk.0.y (Relu): the output has not the shape that follows from the inputs"},
        {has_bad_inputs, "node blk.0.y (Relu): there are too many inputs"},
        {has_no_logits, "no node computes the logits"},
        {has_logits_of_nothing, "no node computes the logits"},
        {has_no_layer_output, "layer 0 has no output"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_graph_builder b = begin();
        tv_graph *graph = finish(&b, tv_graph_add1(&b, TV_OP_RELU, "y", X));
        cases[i].change(graph);
        assert_int_equal(tv_graph_verify(graph, &sink), TV_ERR_INPUT);
        assert_string_equal(logged.at[0].message, cases[i].message);
        tv_graph_free(graph);
    }
}

static void a_layer_without_an_output_is_rejected(void **state)
{
    tv_graph_builder b = begin();
    tv_graph *graph;
    (void)state;
    assert_int_equal(tv_graph_finish(&b, X, &graph), TV_ERR_INPUT);
    assert_string_equal(logged.at[0].message, "layer 0 has no output");
    b = begin();
    tv_graph_abandon(&b);
    tv_graph_free(NULL);
}

/* ---- Texts and numbers ---- */

static void a_graph_is_printed_with_its_attributes(void **state)
{
    tv_graph_builder b = begin();
    uint32_t s = reshape(&b, "s", X, (tv_graph_shape){3, {TV_DIM_TOKENS, 2, 2}});
    uint32_t n = tv_graph_add(&b, TV_OP_NORM, "n", (uint32_t[]){X, TV_NO_VALUE, vector(&b, 2)}, 3,
                              &(tv_graph_attrs){.groups = 2, .subtract_mean = true, .epsilon = 0.5F});
    uint32_t r = tv_graph_add(
        &b, TV_OP_ROTARY_EMBEDDING, "r", &n, 1,
        &(tv_graph_attrs){.heads = 2, .rotary_dim = 2, .theta = 100, .frequency_scale = 0.5F, .interleaved = true});
    tv_graph_add_cache(&b, (tv_graph_cache){.heads = 2, .key_dim = 2, .value_dim = 2});
    uint32_t a = tv_graph_add(&b, TV_OP_ATTENTION, "a", (uint32_t[]){r, X, X}, 3,
                              &(tv_graph_attrs){.heads = 2, .scale = 0.25F, .soft_cap = 30, .window = 8});
    uint32_t g = tv_graph_add(&b, TV_OP_GELU, "g", &a, 1, &(tv_graph_attrs){.approximate = true});
    uint32_t l = tv_graph_add(&b, TV_OP_SLICE, "l", &g, 1, &(tv_graph_attrs){.start = 1, .end = 3});
    uint32_t m[] = {X, l, constant(&b, "up", 2, 6, 4), constant(&b, "gate", 2, 6, 4), constant(&b, "down", 2, 4, 6)};
    uint32_t e =
        tv_graph_add(&b, TV_OP_MOE, "e", m, 5,
                     &(tv_graph_attrs){.activation = TV_ACTIVATION_SWISH, .experts_used = 2, .normalize = true});
    tv_graph_add(&b, TV_OP_MOE, "f", m, 5, &(tv_graph_attrs){.experts_used = 1});
    (void)state;
    (void)s;
    tv_graph *graph = finish(&b, e);
    assert_string_equal(
        print(graph),
        "%token_embd.x = Gather(token_embd, token_embd.tokens)  [tokens x 4]\n"
        "%blk.0.s = Reshape(%token_embd.x)  [tokens x 2 x 2]\n"
        "%blk.0.n = Norm(%token_embd.x, -, v, groups=2, subtract_mean, epsilon=0.5)  [tokens x 4]\n"
        "%blk.0.r = RotaryEmbedding(%blk.0.n, heads=2, rotary_dim=2, theta=100, interleaved, frequency_scale=0.5)  "
        "[tokens x 4]\n"
        "%blk.0.a = Attention(%blk.0.r, %token_embd.x, %token_embd.x, heads=2, scale=0.25, cache=0, soft_cap=30, "
        "window=8)  [tokens x 4]\n"
        "%blk.0.g = Gelu(%blk.0.a, approximate=tanh)  [tokens x 4]\n"
        "%blk.0.l = Slice(%blk.0.g, start=1, end=3)  [tokens x 2]\n"
        "%blk.0.e = MoE(%token_embd.x, %blk.0.l, up, gate, down, activation=Swish, experts_used=2, normalize)  "
        "[tokens x 4]\n"
        "%blk.0.f = MoE(%token_embd.x, %blk.0.l, up, gate, down, experts_used=1)  [tokens x 4]\n"
        "%output.logits = Gemm(%blk.0.e, output)  [tokens x 3]\n");
    tv_graph_free(graph);
}

/* Operations and bytes of weights of 8 bits, with 10 positions. */
static void work_is_counted_per_token(void **state)
{
    tv_graph_builder b = begin();
    uint32_t w = constant(&b, "w", 1, 3, 4), w2 = constant(&b, "w2", 1, 5, 2);
    uint32_t s = reshape(&b, "s", X, (tv_graph_shape){3, {TV_DIM_TOKENS, 2, 2}});
    tv_graph_cost expected[40] = {{0, 4}, {0, 0}}; /* the embedding's row; Reshape moves nothing */
    unsigned n = 2;
    tv_graph_add2(&b, TV_OP_GEMM, "gemm", X, w);
    expected[n++] = (tv_graph_cost){2 * 3 * 4, 3 * 4};
    tv_graph_add2(&b, TV_OP_GEMM, "heads", s, w2); /* two vectors of 2 */
    expected[n++] = (tv_graph_cost){2 * 2 * 5 * 2, 5 * 2};
    tv_graph_add(&b, TV_OP_GLU, "glu", (uint32_t[]){X, w, w}, 3, NULL);
    expected[n++] = (tv_graph_cost){2 * 2 * 3 * 4, 2 * 3 * 4};
    tv_graph_add2(&b, TV_OP_MATMUL, "matmul", s, s);
    expected[n++] = (tv_graph_cost){2 * 4 * 2, 0};
    tv_graph_add_cache(&b, (tv_graph_cache){.heads = 1, .key_dim = 2, .value_dim = 3});
    tv_graph_add(&b, TV_OP_ATTENTION, "attention", (uint32_t[]){X}, 1, &(tv_graph_attrs){.heads = 2});
    expected[n++] = (tv_graph_cost){2 * 10 * (2 * (2 + 3) + 5), 0};
    tv_graph_add(&b, TV_OP_ATTENTION, "window", (uint32_t[]){X}, 1, &(tv_graph_attrs){.heads = 2, .window = 4});
    expected[n++] = (tv_graph_cost){2 * 4 * (2 * (2 + 3) + 5), 0};
    tv_graph_add(&b, TV_OP_ATTENTION, "wide", (uint32_t[]){X}, 1, &(tv_graph_attrs){.heads = 2, .window = 40});
    expected[n++] = (tv_graph_cost){2 * 10 * (2 * (2 + 3) + 5), 0};
    uint32_t two = tv_graph_add(&b, TV_OP_SLICE, "two", (uint32_t[]){X}, 1, &(tv_graph_attrs){.end = 2});
    expected[n++] = (tv_graph_cost){0, 0};
    tv_graph_add(
        &b, TV_OP_MOE, "moe",
        (uint32_t[]){X, two, constant(&b, "g", 2, 6, 4), constant(&b, "u", 2, 6, 4), constant(&b, "d", 2, 4, 6)}, 5,
        &(tv_graph_attrs){.experts_used = 1});
    expected[n++] = (tv_graph_cost){3 * 2 * 6 * 4, 3 * 6 * 4};
    tv_graph_add1(&b, TV_OP_REDUCE_SUM, "sum", X);
    expected[n++] = (tv_graph_cost){4, 0};
    tv_graph_add1(&b, TV_OP_SOFTMAX, "softmax", X);
    expected[n++] = (tv_graph_cost){16, 0};
    static const tv_graph_op maps[] = {TV_OP_RELU, TV_OP_SIGMOID, TV_OP_TANH, TV_OP_SWISH,
                                       TV_OP_GELU, TV_OP_SQRT,    TV_OP_EXP};
    uint32_t y = X;
    for (unsigned i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        y = tv_graph_add1(&b, maps[i], "map", X);
        expected[n++] = (tv_graph_cost){4, 0};
    }
    for (tv_graph_op op = TV_OP_ADD; op <= TV_OP_DIV; op++) {
        tv_graph_add2(&b, op, "binary", X, X);
        expected[n++] = (tv_graph_cost){4, 0};
    }
    tv_graph_add1(&b, TV_OP_REDUCE_MEAN, "mean", X);
    expected[n++] = (tv_graph_cost){4, 0};
    uint32_t gains = vector(&b, 4);
    tv_graph_add2(&b, TV_OP_RMS_NORMALIZATION, "rms", X, gains);
    tv_graph_add2(&b, TV_OP_LAYER_NORMALIZATION, "layer", X, gains);
    tv_graph_add(&b, TV_OP_NORM, "norm", (uint32_t[]){X}, 1, &(tv_graph_attrs){.groups = 1});
    tv_graph_add(&b, TV_OP_ROTARY_EMBEDDING, "rope", (uint32_t[]){X}, 1,
                 &(tv_graph_attrs){.heads = 1, .rotary_dim = 4, .theta = 1, .frequency_scale = 1});
    for (unsigned i = 0; i < 4; i++)
        expected[n++] = (tv_graph_cost){16, 0};
    tv_graph_add2(&b, TV_OP_CONCAT, "concat", X, X);
    tv_graph_add1(&b, TV_OP_TRANSPOSE, "transpose", s);
    n += 2; /* nothing is computed */
    tv_graph_add(&b, TV_OP_LINEAR, "linear", (uint32_t[]){X, w}, 2, NULL);
    expected[n++] = (tv_graph_cost){2 * 3 * 4, 3 * 4};
    (void)state;
    tv_graph *graph = finish(&b, y);
    for (unsigned i = 0; i < n; i++) {
        tv_graph_cost cost = tv_graph_node_cost(graph, tv_graph_node_at(graph, i), 10, 8);
        assert_int_equal(cost.operations, expected[i].operations);
        assert_int_equal(cost.weight_bytes, expected[i].weight_bytes);
    }
    assert_int_equal(tv_graph_node_cost(graph, tv_graph_node_at(graph, 2), 10, 4).weight_bytes, 3 * 4 / 2);
    tv_graph_free(graph);
}

static void values_state_what_reads_them(void **state)
{
    tv_graph_builder b = begin();
    uint32_t y = tv_graph_add2(&b, TV_OP_ADD, "y", X, X), w = constant(&b, "w", 2, 3, 4);
    (void)state;
    tv_graph *graph = finish(&b, y);
    assert_int_equal(tv_graph_uses(graph, X), 2);
    assert_int_equal(tv_graph_uses(graph, graph->logits), 1);
    assert_true(tv_graph_per_token(graph, X));
    assert_false(tv_graph_per_token(graph, w));
    assert_int_equal(tv_graph_elements(graph, w), 2 * 3 * 4);
    assert_int_equal(tv_graph_columns(graph, TOKENS), 1);
    assert_int_equal(tv_graph_vocabulary(graph), 3);
    uint32_t *last = tv_graph_last_uses(graph, false);
    assert_int_equal(last[X], 1); /* the second node */
    assert_int_equal(last[y], 2);
    assert_int_equal(last[w], 0);
    assert_int_equal(last[graph->logits], UINT32_MAX);
    free(last);
    last = tv_graph_last_uses(graph, true);
    assert_int_equal(last[y], UINT32_MAX); /* ends the layer */
    free(last);
    tv_graph_free(graph);
}

/* A tensor of a file that is used twice outside of layers counts once, one inside each time, stated values never. */
static void parameters_of_a_file_are_counted_once(void **state)
{
    tv_graph_builder b = begin();
    const struct tv_gguf_tensor *tensor = (const void *)numbers;
    tv_matrix m = {.name = "shared", .tensor = tensor, .rows = 3, .columns = 4, .count = 1}, other = m, rest = m;
    (void)state;
    other.name = "other";
    rest.first = 3;
    tv_graph_constant(&b, "layer", &m);
    tv_graph_constant(&b, "layer_again", &m);
    b.block = TV_BLOCK_OUTPUT;
    tv_graph_constant(&b, "a", &m);
    tv_graph_constant(&b, "b", &m);
    tv_graph_constant(&b, "c", &other);
    tv_graph_constant(&b, "d", &rest);
    b.block = 0;
    tv_graph *graph = finish(&b, X);
    assert_int_equal(tv_graph_parameters(graph), 5 * 12);
    tv_graph_free(graph);
}

/* ---- Memory ---- */

static void buffers_with_common_lifetimes_do_not_overlap(void **state)
{
    enum { COUNT = 60 };
    unit_rng rng = {7};
    (void)state;
    /* The second fits after the first; the third reuses the first, which has ended; the fourth is empty. */
    tv_buffer_life four[] = {{.bytes = 10, .first = 0, .last = 2},
                             {.bytes = 3, .first = 1, .last = 9},
                             {.bytes = 8, .first = 3, .last = 9},
                             {.bytes = 0, .first = 4, .last = 9}};
    assert_int_equal(tv_buffers_allocate(four, 4, 4), 15);
    assert_int_equal(four[0].offset, 0);
    assert_int_equal(four[1].offset, 12);
    assert_int_equal(four[2].offset, 0);
    for (unsigned round = 0; round < 200; round++) {
        tv_buffer_life b[COUNT];
        uint64_t end = 0, alignment = UINT64_C(1) << unit_below(&rng, 6);
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t first = i + (uint32_t)unit_below(&rng, 16);
            b[i] = (tv_buffer_life){.bytes = unit_below(&rng, 4) * unit_below(&rng, 100), .first = first};
            b[i].last = first + (uint32_t)unit_below(&rng, 30);
        }
        uint64_t total = tv_buffers_allocate(b, COUNT, alignment);
        for (unsigned i = 0; i < COUNT; i++) {
            assert_int_equal(b[i].offset % alignment, 0);
            end = b[i].offset + b[i].bytes > end ? b[i].offset + b[i].bytes : end;
            for (unsigned k = 0; k < i; k++)
                if (b[i].first <= b[k].last && b[k].first <= b[i].last && b[i].offset < b[k].offset + b[k].bytes &&
                    b[k].offset < b[i].offset + b[i].bytes)
                    fail_msg("round %u: buffers %u and %u overlap", round, k, i);
        }
        assert_int_equal(total, end);
    }
}

/* ---- Values that are not finite ---- */

static tv_status read_nan(const struct tv_gguf_tensor *tensor, uint64_t row, float *out)
{
    const float *values = (const void *)tensor;
    for (unsigned i = 0; i < 4; i++)
        out[i] = row == 2 && i == 1 ? values[0] : 1;
    return TV_OK;
}

static tv_status read_nothing(const struct tv_gguf_tensor *tensor, uint64_t row, float *out)
{
    (void)tensor, (void)row, (void)out;
    return TV_ERR_INPUT;
}

/* The status of a session with a matrix as one input of a node. */
static tv_status run_with(const tv_matrix *matrix, tv_graph_op op, uint32_t rows, uint32_t context)
{
    static const int32_t tokens[] = {0, 1, 2, 0, 1};
    tv_graph_builder b = begin();
    tv_matrix m = *matrix;
    float logits[3];
    void *host = NULL;
    m.name = "blk.0.weight";
    m.drop_rows = drop_nothing;
    m.rows = op == TV_OP_MOE ? 4 : 3;
    m.columns = 4;
    m.count = op == TV_OP_MOE ? 2 : 1;
    uint32_t w = tv_graph_constant(&b, "w", &m), inputs[] = {X, w, w, w, w}, y;
    if (op == TV_OP_GATHER)
        y = tv_graph_add2(&b, op, "y", w, TOKENS);
    else if (op == TV_OP_MOE) {
        inputs[1] = tv_graph_add(&b, TV_OP_SLICE, "router", (uint32_t[]){X}, 1, &(tv_graph_attrs){.end = 2});
        y = tv_graph_add(&b, op, "y", inputs, 5, &(tv_graph_attrs){.experts_used = 2});
    } else
        y = tv_graph_add(&b, op, "y", inputs, op == TV_OP_GLU ? 3 : 2, NULL);
    tv_graph *graph = finish(&b, y);
    tv_status status =
        tv_backend_host.create(graph, &(tv_backend_options){.context = context, .threads = 1}, &sink, &host);
    if (status == TV_OK)
        status = tv_backend_host.step(host, tokens, rows, 0, true, logits, &sink);
    tv_backend_host.destroy(host);
    tv_graph_free(graph);
    return status;
}

static void a_weight_that_is_not_finite_is_reported_with_its_row(void **state)
{
    static const tv_graph_op ops[] = {TV_OP_GATHER, TV_OP_GEMM, TV_OP_GLU, TV_OP_MOE};
    static const float special[] = {INFINITY, -INFINITY, NAN};
    (void)state;
    for (unsigned i = 0; i < 4 * 3; i++) {
        tv_matrix m = {.tensor = (const void *)&special[i % 3], .read_row = read_nan};
        for (uint32_t rows = 1; rows <= 5; rows += 4)
            for (uint32_t context = 8; context <= 128; context += 120) {
                assert_int_equal(run_with(&m, ops[i / 3], rows == 1 && i / 3 == 0 ? 3 : rows, context), TV_ERR_INPUT);
                assert_int_equal(logged.count, 1);
                assert_string_equal(logged.at[0].code, "TV-L014");
                assert_string_equal(logged.at[0].message,
                                    "tensor 'blk.0.weight', row 2: a value is infinite or not a number");
            }
    }
    assert_int_equal(
        run_with(&(tv_matrix){.tensor = (const void *)special, .read_row = read_nothing}, TV_OP_GEMM, 1, 8),
        TV_ERR_INPUT);
    assert_string_equal(logged.at[0].message, "tensor 'blk.0.weight', row 0: a value is infinite or not a number");
    tv_backend_host.destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_whose_inputs_do_not_fit_is_rejected_with_its_name),
        cmocka_unit_test(a_changed_graph_is_rejected),
        cmocka_unit_test(a_layer_without_an_output_is_rejected),
        cmocka_unit_test(a_graph_is_printed_with_its_attributes),
        cmocka_unit_test(work_is_counted_per_token),
        cmocka_unit_test(values_state_what_reads_them),
        cmocka_unit_test(parameters_of_a_file_are_counted_once),
        cmocka_unit_test(buffers_with_common_lifetimes_do_not_overlap),
        cmocka_unit_test(a_weight_that_is_not_finite_is_reported_with_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
