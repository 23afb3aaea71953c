/* SPDX-License-Identifier: Apache-2.0 */
/* Operators in terms of others (tv_graph_expand): which operators are left, and that the host computes the same. What
 * moves elements is computed bit for bit, functions up to rounding. Expected values are those of the operators
 * themselves, which the tests of operators compare with numbers worked out by hand and with ONNX's cases. */
#include "graph/rewrite.h"
#include "network_maker.h"

/* ---- Pads: of [4][6] ---- */

static uint32_t pad(maker *m, tv_pad_mode mode, tv_graph_lists lists, uint32_t fill)
{
    return tv_graph_add(&m->b, TV_OP_PAD, "v", (uint32_t[]){m->x, fill}, fill == TV_NO_VALUE ? 1 : 2,
                        &(tv_graph_attrs){.lists = &lists, .mode = mode});
}

static const tv_graph_lists around = {.begin = {2, 3}, .end = {1, 0}}, far = {.begin = {9, 0}, .end = {7, 20}},
                            cut = {.begin = {-1, 2}, .end = {2, -3}}, less = {.begin = {0, -2}, .end = {-2, 0}};

static uint32_t pad_constant(maker *m) { return pad(m, TV_PAD_CONSTANT, around, scalar(m, -2.5F)); }
static uint32_t pad_zeros(maker *m) { return pad(m, TV_PAD_CONSTANT, around, TV_NO_VALUE); }
static uint32_t pad_edge(maker *m) { return pad(m, TV_PAD_EDGE, around, TV_NO_VALUE); }
static uint32_t pad_reflect(maker *m) { return pad(m, TV_PAD_REFLECT, around, TV_NO_VALUE); }
static uint32_t pad_wrap(maker *m) { return pad(m, TV_PAD_WRAP, around, TV_NO_VALUE); }
static uint32_t pad_edge_far(maker *m) { return pad(m, TV_PAD_EDGE, far, TV_NO_VALUE); }
static uint32_t pad_reflect_far(maker *m) { return pad(m, TV_PAD_REFLECT, far, TV_NO_VALUE); }
static uint32_t pad_wrap_far(maker *m) { return pad(m, TV_PAD_WRAP, far, TV_NO_VALUE); }
static uint32_t pad_cut(maker *m) { return pad(m, TV_PAD_CONSTANT, cut, scalar(m, 7)); }
static uint32_t pad_edge_cut(maker *m) { return pad(m, TV_PAD_EDGE, cut, TV_NO_VALUE); }
static uint32_t pad_reflect_cut(maker *m) { return pad(m, TV_PAD_REFLECT, cut, TV_NO_VALUE); }
static uint32_t pad_wrap_cut(maker *m) { return pad(m, TV_PAD_WRAP, cut, TV_NO_VALUE); }
static uint32_t pad_less(maker *m) { return pad(m, TV_PAD_CONSTANT, less, TV_NO_VALUE); }
static uint32_t pad_wrap_removed(maker *m)
{
    return pad(m, TV_PAD_WRAP, (tv_graph_lists){.begin = {-2, 1}, .end = {-2, 1}}, TV_NO_VALUE);
}
static uint32_t pad_nothing(maker *m) { return pad(m, TV_PAD_CONSTANT, (tv_graph_lists){0}, TV_NO_VALUE); }
static uint32_t pad_computed(maker *m)
{
    uint32_t max = op1(m, TV_OP_REDUCE_MAX, op1(m, TV_OP_REDUCE_MAX, reshape(m, m->x, (tv_graph_shape){2, {1, 24}})));
    return pad(m, TV_PAD_CONSTANT, around, max);
}

/* ---- Slices, transpositions, repetitions ---- */

static uint32_t slice(maker *m, tv_graph_lists lists, tv_graph_shape to)
{
    return tv_graph_add(&m->b, TV_OP_SLICE, "v", &m->x, 1, &(tv_graph_attrs){.lists = &lists, .shape = to});
}
static uint32_t slice_both(maker *m)
{
    return slice(m, (tv_graph_lists){.begin = {3, 0}, .step = {-2, 5}}, (tv_graph_shape){2, {2, 2}});
}
static uint32_t slice_reversed(maker *m)
{
    return slice(m, (tv_graph_lists){.begin = {3, 5}, .step = {-1, -1}}, (tv_graph_shape){2, {4, 6}});
}
static uint32_t slice_one(maker *m)
{
    return slice(m, (tv_graph_lists){.begin = {0, 1}, .step = {1, 2}}, (tv_graph_shape){2, {4, 2}});
}
static uint32_t slice_by_numbers(maker *m)
{
    return tv_graph_add(&m->b, TV_OP_SLICE, "v", &m->x, 1, &(tv_graph_attrs){.start = 1, .end = 4});
}

/* Every order of the axes of [2][3][1][4][5], then a function, so that each is a value of its own. */
static uint32_t transposes(maker *m)
{
    uint32_t perm[5] = {0, 1, 2, 3, 4}, y = TV_NO_VALUE;
    for (uint32_t code = 0; code < 3125; code++) {
        uint32_t used = 0;
        for (uint32_t i = 0, rest = code; i < 5; i++, rest /= 5) {
            perm[i] = rest % 5;
            used |= 1U << perm[i];
        }
        if (used != 31)
            continue;
        uint32_t t = reshape(m, transpose(m, m->x, perm, 5), (tv_graph_shape){1, {120}});
        y = y == TV_NO_VALUE ? t : op2(m, TV_OP_ADD, op2(m, TV_OP_MUL, y, scalar(m, 0.75F)), t);
    }
    return y;
}

static uint32_t expand(maker *m, uint32_t x, tv_graph_shape to)
{
    return tv_graph_add(&m->b, TV_OP_EXPAND, "v", &x, 1, &(tv_graph_attrs){.shape = to});
}
static uint32_t expand_rows(maker *m) { return expand(m, m->x, (tv_graph_shape){3, {3, 4, 6}}); }
static uint32_t expand_axes(maker *m)
{
    uint32_t max = op1(m, TV_OP_REDUCE_MAX, m->x); /* [4][1] */
    return expand(m, max, (tv_graph_shape){4, {2, 1, 4, 5}});
}
static uint32_t expand_constant(maker *m)
{
    uint32_t c = expand(m, constant(m, 2, (int64_t[]){4, 1}, 1, 0), (tv_graph_shape){3, {2, 4, 6}});
    return op2(m, TV_OP_MUL, c, m->x);
}

/* ---- Conditions ---- */

static uint32_t condition(maker *m, uint32_t rank, const int64_t *dims)
{
    tv_tensor t;
    assert_int_equal(tv_tensor_init(&t, TV_ELEMENT_BOOL, rank, dims, NULL), TV_OK);
    for (uint64_t i = 0; i < tv_tensor_count(&t); i++)
        ((uint8_t *)t.data)[i] = unit_below(&m->rng, 2) != 0;
    uint32_t value = tv_graph_tensor(&m->b, "k", &t, false);
    tv_tensor_fini(&t);
    return value;
}

static uint32_t where(maker *m, uint32_t c, uint32_t a, uint32_t b)
{
    return tv_graph_add(&m->b, TV_OP_WHERE, "v", (uint32_t[]){c, a, b}, 3, NULL);
}
static uint32_t where_values(maker *m) { return where(m, condition(m, 2, (int64_t[]){4, 6}), m->x, m->y); }
static uint32_t where_row(maker *m) { return where(m, condition(m, 1, (int64_t[]){6}), m->x, m->y); }
static uint32_t where_infinity(maker *m)
{
    return op1(m, TV_OP_SOFTMAX, where(m, condition(m, 2, (int64_t[]){4, 6}), scalar(m, -INFINITY), m->x));
}
static uint32_t where_constant(maker *m)
{
    return where(m, condition(m, 2, (int64_t[]){4, 6}), m->x, constant(m, 2, (int64_t[]){4, 6}, 1, 0));
}
static uint32_t where_repeated(maker *m)
{
    return where(m, condition(m, 2, (int64_t[]){4, 6}), constant(m, 1, (int64_t[]){6}, 1, 0), m->x);
}
static uint32_t where_column(maker *m)
{
    return where(m, condition(m, 2, (int64_t[]){4, 1}), constant(m, 2, (int64_t[]){1, 6}, 1, 0), m->x);
}
static uint32_t where_more_axes(maker *m)
{
    return where(m, condition(m, 2, (int64_t[]){4, 6}), constant(m, 3, (int64_t[]){1, 1, 1}, 1, 0), m->x);
}
static uint32_t where_constants(maker *m)
{
    uint32_t c = where(m, condition(m, 1, (int64_t[]){6}), scalar(m, 2), constant(m, 1, (int64_t[]){6}, 1, 0));
    return op2(m, TV_OP_MUL, c, m->x);
}
static uint32_t where_computed(maker *m) { return where(m, op2(m, TV_OP_LESS, m->x, m->y), m->x, scalar(m, 1)); }

/* ---- Operands that are repeated ---- */

static uint32_t column_of(maker *m, uint32_t x) { return op1(m, TV_OP_REDUCE_MAX, x); }
static uint32_t row_of(maker *m) { return slice(m, (tv_graph_lists){.step = {1, 1}}, (tv_graph_shape){2, {1, 6}}); }
static uint32_t both_repeated(maker *m) { return op2(m, TV_OP_SUB, column_of(m, m->x), row_of(m)); }
static uint32_t both_repeated_power(maker *m)
{
    return op2(m, TV_OP_POW, op1(m, TV_OP_EXP, column_of(m, m->x)), row_of(m));
}
static uint32_t constant_minus_row(maker *m)
{
    return op2(m, TV_OP_SUB, constant(m, 2, (int64_t[]){4, 1}, 1, 0), row_of(m));
}
static uint32_t constant_over_row(maker *m)
{
    return op2(m, TV_OP_DIV, constant(m, 2, (int64_t[]){4, 1}, 1, 0), op1(m, TV_OP_EXP, row_of(m)));
}
static uint32_t constant_to_the_row(maker *m)
{
    return op2(m, TV_OP_POW, constant(m, 2, (int64_t[]){4, 1}, 1, 2), row_of(m));
}
static uint32_t row_over_constant(maker *m)
{
    return op2(m, TV_OP_DIV, row_of(m), constant(m, 2, (int64_t[]){4, 1}, 1, 3));
}
static uint32_t column_over_values(maker *m) { return op2(m, TV_OP_DIV, column_of(m, m->y), op1(m, TV_OP_EXP, m->x)); }
static uint32_t column_to_the_values(maker *m)
{
    return op2(m, TV_OP_POW, op1(m, TV_OP_EXP, column_of(m, m->y)), m->x);
}
static uint32_t one_over_values(maker *m) { return op2(m, TV_OP_DIV, scalar(m, 2), op1(m, TV_OP_EXP, m->x)); }
static uint32_t constant_of_fewer_axes(maker *m)
{
    uint32_t x = reshape(m, m->x, (tv_graph_shape){3, {2, 2, 6}});
    return op2(m, TV_OP_MUL, constant(m, 2, (int64_t[]){2, 6}, 1, 0), x);
}
static uint32_t value_of_fewer_axes(maker *m)
{
    uint32_t x = reshape(m, m->x, (tv_graph_shape){3, {4, 1, 6}});
    return op2(m, TV_OP_MIN, x, m->y); /* [4][4][6] */
}

/* ---- Functions ---- */

static uint32_t with_parameters(maker *m, tv_graph_op op, float alpha, float beta)
{
    return tv_graph_add(&m->b, op, "v", &m->x, 1, &(tv_graph_attrs){.alpha = alpha, .beta = beta});
}
static uint32_t elu(maker *m) { return with_parameters(m, TV_OP_ELU, 1.5F, 1); }
static uint32_t celu(maker *m) { return with_parameters(m, TV_OP_ELU, 0.5F, 0.5F); }
static uint32_t selu(maker *m) { return with_parameters(m, TV_OP_SELU, 1.67F, 1.05F); }
static uint32_t softplus(maker *m) { return op1(m, TV_OP_SOFTPLUS, op2(m, TV_OP_MUL, m->x, scalar(m, 100))); }
static uint32_t softsign(maker *m) { return op1(m, TV_OP_SOFTSIGN, m->x); }
static uint32_t log_softmax(maker *m) { return op1(m, TV_OP_LOG_SOFTMAX, op2(m, TV_OP_MUL, m->x, scalar(m, 100))); }
static uint32_t prelu_row(maker *m) { return op2(m, TV_OP_PRELU, m->x, constant(m, 1, (int64_t[]){6}, 1, 0)); }
static uint32_t prelu_scalar(maker *m) { return op2(m, TV_OP_PRELU, m->x, scalar(m, 0.2F)); }
static uint32_t prelu_one(maker *m) { return op2(m, TV_OP_PRELU, m->x, constant(m, 2, (int64_t[]){1, 1}, 1, 0)); }

static const struct expansion {
    network network;
    tv_graph_op gone; /* not in the expanded graph; TV_OPS: not checked */
} expansions[] = {
#define X                                                                                                              \
    {                                                                                                                  \
        2, { 4, 6 }                                                                                                    \
    }
    {{"constant padding", pad_constant, X, false}, TV_OP_PAD},
    {{"padding of zeros", pad_zeros, X, false}, TV_OP_PAD},
    {{"padding by edges", pad_edge, X, false}, TV_OP_PAD},
    {{"reflected padding", pad_reflect, X, false}, TV_OP_PAD},
    {{"wrapped padding", pad_wrap, X, false}, TV_OP_PAD},
    {{"far padding by edges", pad_edge_far, X, false}, TV_OP_PAD},
    {{"far reflected padding", pad_reflect_far, X, false}, TV_OP_PAD},
    {{"far wrapped padding", pad_wrap_far, X, false}, TV_OP_PAD},
    {{"padding that removes", pad_cut, X, false}, TV_OP_PAD},
    {{"padding by edges that removes", pad_edge_cut, X, false}, TV_OP_PAD},
    {{"reflected padding that removes", pad_reflect_cut, X, false}, TV_OP_PAD},
    {{"wrapped padding that removes", pad_wrap_cut, X, false}, TV_OP_PAD},
    {{"padding that only removes", pad_less, X, false}, TV_OP_PAD},
    {{"padding of nothing", pad_nothing, X, false}, TV_OP_PAD},
    {{"reflected padding of one element", pad_reflect, {2, {1, 1}}, false}, TV_OP_PAD},
    {{"wrapped padding of no rows", pad_wrap_removed, X, false}, TV_OPS},
    {{"wrapped padding of no elements", pad_wrap, {2, {0, 6}}, false}, TV_OPS},
    {{"computed padding", pad_computed, X, false}, TV_OPS},
    {{"slice of both axes", slice_both, X, false}, TV_OPS},
    {{"reversed slice", slice_reversed, X, false}, TV_OPS},
    {{"slice of one axis", slice_one, X, false}, TV_OPS},
    {{"slice of columns", slice_by_numbers, X, false}, TV_OPS},
    {{"transpositions", transposes, {5, {2, 3, 1, 4, 5}}, false}, TV_OPS},
    {{"expanded rows", expand_rows, X, false}, TV_OP_EXPAND},
    {{"expanded axes", expand_axes, X, false}, TV_OP_EXPAND},
    {{"expanded constant", expand_constant, X, false}, TV_OP_EXPAND},
    {{"selection of values", where_values, X, true}, TV_OP_WHERE},
    {{"selection of columns", where_row, X, true}, TV_OP_WHERE},
    {{"selection of infinity", where_infinity, X, false}, TV_OP_WHERE},
    {{"selection of a constant", where_constant, X, false}, TV_OP_WHERE},
    {{"selection of a repeated constant", where_repeated, X, false}, TV_OPS},
    {{"selection of rows", where_column, X, false}, TV_OPS},
    {{"selection of a constant with more axes", where_more_axes, X, false}, TV_OPS},
    {{"selection of constants", where_constants, X, false}, TV_OP_WHERE},
    {{"computed selection", where_computed, X, true}, TV_OPS},
    {{"two repeated operands", both_repeated, X, false}, TV_OPS},
    {{"power of repeated operands", both_repeated_power, X, false}, TV_OPS},
    {{"constant column minus row", constant_minus_row, X, false}, TV_OPS},
    {{"constant column over row", constant_over_row, X, false}, TV_OPS},
    {{"constant column to the row", constant_to_the_row, X, false}, TV_OPS},
    {{"row over constant column", row_over_constant, X, false}, TV_OPS},
    {{"column over values", column_over_values, X, true}, TV_OP_DIV},
    {{"column to the values", column_to_the_values, X, true}, TV_OPS},
    {{"constant over values", one_over_values, X, false}, TV_OP_DIV},
    {{"constant with fewer axes", constant_of_fewer_axes, X, false}, TV_OPS},
    {{"value with fewer axes", value_of_fewer_axes, X, true}, TV_OPS},
    {{"Elu", elu, X, false}, TV_OP_ELU},
    {{"Celu", celu, X, false}, TV_OP_ELU},
    {{"Selu", selu, X, false}, TV_OP_SELU},
    {{"Softplus", softplus, X, false}, TV_OP_SOFTPLUS},
    {{"Softsign", softsign, X, false}, TV_OP_SOFTSIGN},
    {{"LogSoftmax", log_softmax, X, false}, TV_OP_LOG_SOFTMAX},
    {{"PRelu of rows", prelu_row, X, false}, TV_OP_PRELU},
    {{"PRelu", prelu_scalar, X, false}, TV_OP_PRELU},
    {{"PRelu of one element", prelu_one, X, false}, TV_OP_PRELU},
};

static bool always(const void *user, const tv_graph *g, const tv_graph_node *n)
{
    (void)user;
    (void)g;
    (void)n;
    return true;
}

static tv_graph *make_expanded(const struct expansion *e)
{
    tv_graph *graph = make_graph(&e->network);
    assert_int_equal(tv_graph_expand(graph, always, NULL, &print_sink), TV_OK);
    if (tv_graph_verify(graph, &print_sink) != TV_OK)
        fail_msg("%s: the graph is invalid", e->network.name);
    return graph;
}

static void assert_equal_outputs(const char *name, const tv_tensor *a, const tv_tensor *b)
{
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dims, b->dims, a->rank * sizeof *a->dims);
    for (uint64_t i = 0; i < tv_tensor_count(a); i++) {
        double x = tv_tensor_real(a, i), y = tv_tensor_real(b, i);
        if (x != y && !(fabs(x - y) <= 1e-6 * (1 + fabs(x))))
            fail_msg("%s: element %u is %g instead of %g", name, (unsigned)i, y, x);
    }
}

static void the_host_computes_the_same(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < TV_COUNTOF(expansions); i++) {
        const struct expansion *e = &expansions[i];
        reference whole, expanded;
        run_reference(&whole, make_graph(&e->network));
        run_reference(&expanded, make_expanded(e));
        for (size_t k = 0; k < expanded.graph->nodes.count; k++)
            if (expanded.graph->nodes.data[k].op == e->gone)
                fail_msg("%s: not expanded", e->network.name);
        assert_equal_outputs(e->network.name, whole.output, expanded.output);
        free_reference(&whole);
        free_reference(&expanded);
    }
}

/* For timing: constants without data give graphs of the same nodes. */
static void constants_without_data_are_expanded_too(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < TV_COUNTOF(expansions); i++) {
        const struct expansion *e = &expansions[i];
        if (e->network.make == transposes || e->network.make == prelu_scalar || e->network.make == prelu_one ||
            e->network.make == pad_constant || e->network.make == pad_cut)
            continue; /* whose numbers decide */
        tv_graph *with = make_expanded(e), *without = make_graph(&e->network);
        tv_tensor constants[16];
        unsigned count = 0;
        for (size_t v = 0; v < without->values.count; v++)
            if (without->values.data[v].source == TV_VALUE_CONSTANT &&
                without->values.data[v].element != TV_ELEMENT_I64) {
                assert_true(count < TV_COUNTOF(constants));
                constants[count] = *without->values.data[v].tensor;
                constants[count].data = NULL;
                without->values.data[v].tensor = &constants[count++];
            }
        assert_int_equal(tv_graph_expand(without, always, NULL, &print_sink), TV_OK);
        assert_int_equal(tv_graph_verify(without, &print_sink), TV_OK);
        if (with->nodes.count != without->nodes.count)
            fail_msg("%s: %zu nodes without data", e->network.name, without->nodes.count);
        tv_graph_free(with);
        tv_graph_free(without);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_host_computes_the_same),
                                       cmocka_unit_test(constants_without_data_are_expanded_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
