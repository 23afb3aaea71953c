/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that copy elements, of every rank. Expected values come from index arithmetic of this file, element by
 * element, or are worked by hand. */
#include <math.h>

#include "operator_case.h"

enum { ELEMENTS_MAX = 1 << 14, RANK_MAX = TV_GRAPH_RANK_MAX };

static const tv_element types[] = {TV_ELEMENT_F32, TV_ELEMENT_I64, TV_ELEMENT_U8, TV_ELEMENT_F16, TV_ELEMENT_F64};
enum { TYPES = sizeof types / sizeof types[0] };

static int64_t span(unit_rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)unit_below(rng, (uint64_t)(high - low + 1));
}

static size_t count_of(const operand *o)
{
    size_t n = 1;
    for (uint32_t i = 0; i < o->rank; i++)
        n *= (size_t)o->dims[i];
    return n;
}

/* An operand of random extents whose elements are all different up to 200. */
static operand draw(unit_rng *rng, unsigned n, int64_t low)
{
    static double values[ELEMENTS_MAX];
    operand o = {.element = types[n % TYPES], .rank = n % (RANK_MAX + 1), .values = values};
    for (uint32_t i = 0; i < o.rank; i++)
        o.dims[i] = span(rng, low, o.rank > 5 ? 2 : 4);
    o.count = count_of(&o);
    for (size_t i = 0; i < ELEMENTS_MAX; i++)
        values[i] = (double)(i % 200);
    return o;
}

static void split(const operand *o, size_t i, int64_t *index)
{
    for (uint32_t k = o->rank; k-- > 0; i /= (size_t)o->dims[k])
        index[k] = (int64_t)(i % (size_t)o->dims[k]);
}

static double at(const operand *o, const int64_t *index)
{
    size_t i = 0;
    for (uint32_t k = 0; k < o->rank; k++) {
        assert_true(index[k] >= 0 && index[k] < o->dims[k]);
        i = i * (size_t)o->dims[k] + (size_t)index[k];
    }
    return o->values[i];
}

static tv_graph_shape dims_of(const operand *o)
{
    tv_graph_shape s = {.rank = o->rank};
    memcpy(s.dims, o->dims, sizeof s.dims);
    return s;
}

static operand result_of(const operand *x, double *values)
{
    operand y = *x;
    y.values = values;
    return y;
}

static void transposing_permutes_axes(void **state)
{
    static double values[ELEMENTS_MAX];
    unit_rng rng = {1};
    (void)state;
    for (unsigned n = 0; n < 300; n++) {
        operand x = draw(&rng, n, 0), y = result_of(&x, values);
        tv_graph_lists lists = {{0}};
        for (uint32_t i = 0; i < x.rank; i++) { /* inserts axis i somewhere */
            uint32_t to = (uint32_t)span(&rng, 0, i);
            memmove(lists.perm + to + 1, lists.perm + to, (i - to) * sizeof *lists.perm);
            lists.perm[to] = i;
        }
        for (uint32_t i = 0; i < x.rank; i++)
            y.dims[i] = x.dims[lists.perm[i]];
        for (size_t i = 0; i < y.count; i++) {
            int64_t to[RANK_MAX], from[RANK_MAX];
            split(&y, i, to);
            for (uint32_t k = 0; k < x.rank; k++)
                from[lists.perm[k]] = to[k];
            values[i] = at(&x, from);
        }
        expect(TV_OP_TRANSPOSE, INPUTS(x), &(tv_graph_attrs){.lists = &lists}, y, 0);
    }
}

static void slices_have_steps_of_both_signs(void **state)
{
    static double values[ELEMENTS_MAX];
    unit_rng rng = {2};
    (void)state;
    for (unsigned n = 0; n < 300; n++) {
        operand x = draw(&rng, n, 1), y = result_of(&x, values);
        tv_graph_lists lists = {{0}};
        for (uint32_t i = 0; i < x.rank; i++) {
            lists.begin[i] = span(&rng, 0, x.dims[i] - 1);
            lists.step[i] = span(&rng, 1, 3) * (unit_below(&rng, 2) ? 1 : -1);
            int64_t room = lists.step[i] > 0 ? x.dims[i] - 1 - lists.begin[i] : lists.begin[i];
            y.dims[i] = span(&rng, unit_below(&rng, 8) ? 1 : 0, room / llabs(lists.step[i]) + 1);
        }
        y.count = count_of(&y);
        for (size_t i = 0; i < y.count; i++) {
            int64_t index[RANK_MAX];
            split(&y, i, index);
            for (uint32_t k = 0; k < x.rank; k++)
                index[k] = lists.begin[k] + index[k] * lists.step[k];
            values[i] = at(&x, index);
        }
        expect(TV_OP_SLICE, INPUTS(x), &(tv_graph_attrs){.lists = &lists, .shape = dims_of(&y)}, y, 0);
    }
    expect(TV_OP_SLICE, INPUTS(TENSOR(F32, DIMS(2, 3), 1, 2, 3, 4, 5, 6)), &(tv_graph_attrs){.start = 1, .end = 3},
           TENSOR(F32, DIMS(2, 2), 2, 3, 5, 6), 0);
}

/* Walks from the first element in steps of one, and turns around at the ends by the rules of a mode. */
static int64_t padded_index(uint32_t mode, int64_t to, int64_t extent)
{
    if (to >= 0 && to < extent)
        return to;
    if (extent == 0)
        return -1;
    switch (mode) {
    case TV_PAD_EDGE:
        return to < 0 ? 0 : extent - 1;
    case TV_PAD_WRAP:
        while (to < 0)
            to += extent;
        return to % extent;
    case TV_PAD_REFLECT:
        while (extent > 1 && (to < 0 || to >= extent))
            to = to < 0 ? -to : 2 * (extent - 1) - to;
        return extent > 1 ? to : 0;
    default:
        return -1;
    }
}

static void padding_of_all_modes(void **state)
{
    static double values[ELEMENTS_MAX];
    unit_rng rng = {3};
    (void)state;
    for (unsigned n = 0; n < 600; n++) {
        operand x = draw(&rng, n % 5 * 9 + n % 5, 1), y = result_of(&x, values);
        uint32_t mode = n / 5 % TV_PAD_MODES;
        bool given = n & 1;
        tv_graph_lists lists = {{0}};
        for (uint32_t i = 0; i < x.rank; i++) {
            lists.begin[i] = span(&rng, -1, 3);
            lists.end[i] = span(&rng, lists.begin[i] < 0 ? 0 : -1, 3);
            y.dims[i] = x.dims[i] + lists.begin[i] + lists.end[i];
        }
        y.count = count_of(&y);
        for (size_t i = 0; i < y.count; i++) {
            int64_t index[RANK_MAX];
            bool added = false;
            split(&y, i, index);
            for (uint32_t k = 0; k < x.rank; k++) {
                /* What is removed is not repeated. */
                int64_t first = lists.begin[k] < 0, left = x.dims[k] - first - (lists.end[k] < 0);
                int64_t from = padded_index(mode, index[k] - lists.begin[k] - first, left);
                index[k] = first + from;
                added |= from < 0;
            }
            values[i] = added ? (given ? 7 : 0) : at(&x, index);
        }
        operand scalar = {x.element, 0, {0}, (const double[]){7}, 1, false, !given};
        expect(TV_OP_PAD, INPUTS(x, scalar), &(tv_graph_attrs){.lists = &lists, .mode = mode}, y, 0);
    }
}

static void gathering_takes_indices_from_both_ends(void **state)
{
    static double values[ELEMENTS_MAX], numbers[16];
    unit_rng rng = {4};
    (void)state;
    for (unsigned n = 0; n < 300; n++) {
        operand x = draw(&rng, 1 + n % 5, 1), y;
        uint32_t axis = (uint32_t)span(&rng, 0, x.rank - 1), rank = (uint32_t)span(&rng, 0, 2);
        operand i = {n % 2 ? TV_ELEMENT_I32 : TV_ELEMENT_I64,
                     rank,
                     {span(&rng, 0, 3), span(&rng, 1, 3)},
                     numbers,
                     0,
                     false,
                     false};
        i.count = count_of(&i);
        for (size_t k = 0; k < i.count; k++)
            numbers[k] = (double)span(&rng, -x.dims[axis], x.dims[axis] - 1);
        y = result_of(&x, values);
        y.rank = x.rank - 1 + rank;
        memcpy(y.dims + axis, i.dims, rank * sizeof *y.dims);
        memcpy(y.dims + axis + rank, x.dims + axis + 1, (x.rank - axis - 1) * sizeof *y.dims);
        y.count = count_of(&y);
        for (size_t k = 0; k < y.count; k++) {
            int64_t to[RANK_MAX], from[RANK_MAX];
            split(&y, k, to);
            double number = at(&i, to + axis);
            memcpy(from, to, axis * sizeof *from);
            memcpy(from + axis + 1, to + axis + rank, (x.rank - axis - 1) * sizeof *from);
            from[axis] = (int64_t)number + (number < 0 ? x.dims[axis] : 0);
            values[k] = at(&x, from);
        }
        expect(TV_OP_GATHER, INPUTS(x, i), &(tv_graph_attrs){.axis = axis}, y, 0);
    }
    expect(TV_OP_GATHER, INPUTS(TENSOR(F32, DIMS(2), 1, 2), TENSOR(I64, DIMS(3), 2, -3, 1)), NULL,
           TENSOR(F32, DIMS(3), 0, 0, 2), 0);
}

static void elements_are_repeated_and_joined(void **state)
{
    (void)state;
    const operand x = TENSOR(I8, DIMS(2, 1), 1, 2), wide = TENSOR(I8, DIMS(2, 2), 3, 4, 5, 6);
    tv_graph_attrs attrs = {.shape = {3, {2, 2, 3}}};
    expect(TV_OP_EXPAND, INPUTS(x), &attrs, TENSOR(I8, DIMS(2, 2, 3), 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2), 0);
    attrs.shape = (tv_graph_shape){2, {2, 0}};
    expect(TV_OP_EXPAND, INPUTS(x), &attrs, ZEROS(I8, DIMS(2, 0)), 0);
    attrs.shape = (tv_graph_shape){1, {3}};
    expect(TV_OP_EXPAND, INPUTS(TENSOR(BOOL, SCALAR, 1)), &attrs, TENSOR(BOOL, DIMS(3), 1, 1, 1), 0);
    expect(TV_OP_CONCAT, INPUTS(x, wide, ZEROS(I8, DIMS(2, 0)), x), NULL,
           TENSOR(I8, DIMS(2, 4), 1, 3, 4, 1, 2, 5, 6, 2), 0);
    expect(TV_OP_CONCAT, INPUTS(wide, ZEROS(I8, DIMS(0, 2)), TENSOR(I8, DIMS(1, 2), 7, 8)),
           &(tv_graph_attrs){.axis_from_end = 1}, TENSOR(I8, DIMS(3, 2), 3, 4, 5, 6, 7, 8), 0);
    attrs.shape = (tv_graph_shape){3, {1, 4, 1}};
    expect(TV_OP_RESHAPE, INPUTS(wide), &attrs, TENSOR(I8, DIMS(1, 4, 1), 3, 4, 5, 6), 0);
    expect(TV_OP_RESHAPE, INPUTS(ZEROS(I8, DIMS(0, 2))), &(tv_graph_attrs){.shape = {1, {0}}}, ZEROS(I8, DIMS(0)), 0);
    attrs.shape = (tv_graph_shape){0};
    expect(TV_OP_RESHAPE, INPUTS(TENSOR(F64, DIMS(1, 1), 3)), &attrs, TENSOR(F64, SCALAR, 3), 0);
}

static void conditions_choose_from_repeated_operands(void **state)
{
    (void)state;
    const operand c = TENSOR(BOOL, DIMS(2, 1), 1, 0), a = TENSOR(I64, DIMS(3), 1, 2, 3), b = TENSOR(I64, SCALAR, 9);
    expect(TV_OP_WHERE, INPUTS(c, a, b), NULL, TENSOR(I64, DIMS(2, 3), 1, 2, 3, 9, 9, 9), 0);
    expect(TV_OP_WHERE, INPUTS(TENSOR(BOOL, SCALAR, 1), b, a), NULL, TENSOR(I64, DIMS(3), 9, 9, 9), 0);
    expect(TV_OP_WHERE, INPUTS(ZEROS(BOOL, DIMS(0, 1)), a, b), NULL, ZEROS(I64, DIMS(0, 3)), 0);
}

static void moves_that_do_not_fit_are_rejected(void **state)
{
    (void)state;
    static const char expand[] = "the shape is no repetition of the input's",
                      range[] = "the range is not inside of an axis",
                      indices[] = "the inputs are not a matrix and indices", pad[] = "the padding is not given",
                      scalar[] = "the element to add is no scalar of the type of the input";
    const operand x = ZEROS(F32, DIMS(2, 3)), i = ZEROS(I64, DIMS(2)), flag = ZEROS(BOOL, DIMS(2, 3));
    tv_graph_lists lists = {.begin = {0, 0}, .step = {1, 1}};
    tv_graph_attrs attrs = {.lists = &lists, .shape = {2, {2, 3}}};
    expect_rejection(TV_OP_EXPAND, INPUTS(x), &(tv_graph_attrs){.shape = {2, {2, 4}}}, expand);
    expect_rejection(TV_OP_EXPAND, INPUTS(x), &(tv_graph_attrs){.shape = {1, {3}}}, expand);
    expect_rejection(TV_OP_EXPAND, INPUTS(x), &(tv_graph_attrs){.shape = {2, {2, -1}}}, expand);
    expect_rejection(TV_OP_EXPAND, INPUTS(x), &(tv_graph_attrs){.shape = {9, {1}}}, expand);
    expect_rejection(TV_OP_CONCAT, INPUTS(x, i), NULL, "the ranks of the inputs differ");
    expect_rejection(TV_OP_CONCAT, INPUTS(x, flag), NULL, "the inputs have different element types");
    expect_rejection(TV_OP_CONCAT, INPUTS(x, x), &(tv_graph_attrs){.axis_from_end = 2}, "there is no such axis");
    expect_rejection(TV_OP_CONCAT, INPUTS(x, ZEROS(F32, DIMS(2, 2))), &(tv_graph_attrs){.axis_from_end = 1},
                     "the inputs differ in another axis");
    lists.perm[0] = lists.perm[1] = 1;
    expect_rejection(TV_OP_TRANSPOSE, INPUTS(x), &attrs, "the axes are no permutation");
    lists.perm[0] = 2;
    expect_rejection(TV_OP_TRANSPOSE, INPUTS(x), &attrs, "the axes are no permutation");
    lists.step[1] = 2;
    expect_rejection(TV_OP_SLICE, INPUTS(x), &attrs, range);
    lists.step[1] = 0;
    expect_rejection(TV_OP_SLICE, INPUTS(x), &attrs, range);
    lists.step[1] = INT64_MIN;
    expect_rejection(TV_OP_SLICE, INPUTS(x), &attrs, range);
    lists.step[1] = 1;
    lists.begin[1] = 3;
    expect_rejection(TV_OP_SLICE, INPUTS(x), &attrs, range);
    lists.begin[1] = -1;
    expect_rejection(TV_OP_SLICE, INPUTS(x), &attrs, range);
    attrs.shape.dims[1] = -1;
    expect_rejection(TV_OP_SLICE, INPUTS(x), &attrs, range);
    attrs.shape.rank = 1;
    expect_rejection(TV_OP_SLICE, INPUTS(x), &attrs, "the ranks of input and output differ");
    expect_rejection(TV_OP_GATHER, INPUTS(x, x), NULL, indices);
    expect_rejection(TV_OP_GATHER, INPUTS(x, i), &(tv_graph_attrs){.axis = 2}, indices);
    expect_rejection(TV_OP_GATHER, INPUTS(TENSOR(F32, SCALAR, 1), i), NULL, indices);
    expect_rejection(TV_OP_GATHER, INPUTS(x, ZEROS(I64, DIMS(1, 1, 1, 1, 1, 1, 1, 1))), NULL, indices);
    expect_rejection(TV_OP_PAD, INPUTS(x), NULL, pad);
    expect_rejection(TV_OP_PAD, INPUTS(x), &(tv_graph_attrs){.lists = &lists, .mode = TV_PAD_MODES}, pad);
    expect_rejection(TV_OP_PAD, INPUTS(x, i), &attrs, scalar);
    expect_rejection(TV_OP_PAD, INPUTS(x, TENSOR(F16, SCALAR, 1)), &attrs, scalar);
    lists.begin[0] = -3;
    expect_rejection(TV_OP_PAD, INPUTS(x), &attrs, "more elements are removed than there are");
    lists.end[0] = 3;
    expect_rejection(TV_OP_PAD, INPUTS(x), &attrs, "more elements are removed than there are");
    lists.begin[0] = INT64_MAX;
    expect_rejection(TV_OP_PAD, INPUTS(x), &attrs, "more elements are added than can be counted");
    lists.end[0] = 0;
    lists.begin[0] = INT64_MAX - 2;
    lists.begin[1] = 0;
    expect_rejection(TV_OP_PAD, INPUTS(x), &attrs, "the output has more elements than memory can have");
    expect_rejection(TV_OP_WHERE, INPUTS(x, x, x), NULL, "the condition is not of booleans");
    expect_rejection(TV_OP_WHERE, INPUTS(flag, x, flag), NULL, "the inputs have different element types");
    expect_rejection(TV_OP_WHERE, INPUTS(flag, x, ZEROS(F32, DIMS(2))), NULL, "the shapes do not fit each other");
    expect_rejection(TV_OP_RESHAPE, INPUTS(x), &(tv_graph_attrs){.shape = {1, {5}}},
                     "the shapes differ in the number of elements or in the first axis");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposing_permutes_axes),
        cmocka_unit_test(slices_have_steps_of_both_signs),
        cmocka_unit_test(padding_of_all_modes),
        cmocka_unit_test(gathering_takes_indices_from_both_ends),
        cmocka_unit_test(elements_are_repeated_and_joined),
        cmocka_unit_test(conditions_choose_from_repeated_operands),
        cmocka_unit_test(moves_that_do_not_fit_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
