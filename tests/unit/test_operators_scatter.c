/* SPDX-License-Identifier: Apache-2.0 */
/* Operators whose indices are data, and that order elements. Expected values are worked by hand, or come from loops of
 * this file. */
#include <math.h>

#include "operator_case.h"

static const tv_graph_attrs *with(uint32_t axis, uint32_t mode, uint32_t end)
{
    static tv_graph_attrs attrs;
    attrs = (tv_graph_attrs){.axis = axis, .mode = mode, .end = end};
    return &attrs;
}

static void slices_are_scattered_to_tuples(void **state)
{
    (void)state;
    const tv_graph_op op = TV_OP_SCATTER_ND;
    const operand x = TENSOR(F32, DIMS(4), 1, 2, 3, 4), i = TENSOR(I64, DIMS(3, 1), 1, -1, 1),
                  u = TENSOR(F32, DIMS(3), 10, 20, -30);
    expect(op, INPUTS(x, i, u), with(0, TV_SCATTER_REPLACE, 0), TENSOR(F32, DIMS(4), 1, -30, 3, 20), 0);
    expect(op, INPUTS(x, i, u), with(0, TV_SCATTER_ADD, 0), TENSOR(F32, DIMS(4), 1, -18, 3, 24), 0);
    expect(op, INPUTS(x, i, u), with(0, TV_SCATTER_MUL, 0), TENSOR(F32, DIMS(4), 1, -600, 3, 80), 0);
    expect(op, INPUTS(x, i, u), with(0, TV_SCATTER_MAX, 0), TENSOR(F32, DIMS(4), 1, 10, 3, 20), 0);
    expect(op, INPUTS(x, i, u), with(0, TV_SCATTER_MIN, 0), TENSOR(F32, DIMS(4), 1, -30, 3, 4), 0);
    /* Rows, whole elements, and indices outside. */
    const operand m = TENSOR(I8, DIMS(2, 2), 1, 2, 3, 4);
    expect(op, INPUTS(m, TENSOR(I32, DIMS(1, 1), 1), TENSOR(I8, DIMS(1, 2), 7, 8)), NULL,
           TENSOR(I8, DIMS(2, 2), 1, 2, 7, 8), 0);
    expect(op, INPUTS(m, TENSOR(I64, DIMS(2), 0, 1), TENSOR(I8, SCALAR, 9)), NULL, TENSOR(I8, DIMS(2, 2), 1, 9, 3, 4),
           0);
    expect(op, INPUTS(m, TENSOR(I64, DIMS(2, 2), 0, 2, -3, 0), TENSOR(I8, DIMS(2), 9, 9)), NULL, m, 0);
    expect(op, INPUTS(m, ZEROS(I64, DIMS(0, 2)), ZEROS(I8, DIMS(0))), NULL, m, 0);
    expect(op, INPUTS(ZEROS(I8, DIMS(0, 2)), ZEROS(I64, DIMS(0, 1)), ZEROS(I8, DIMS(0, 2))), NULL,
           ZEROS(I8, DIMS(0, 2)), 0);
}

static void elements_are_scattered_along_an_axis(void **state)
{
    (void)state;
    const tv_graph_op op = TV_OP_SCATTER_ELEMENTS;
    const operand x = TENSOR(I32, DIMS(3, 3), 0, 0, 0, 0, 0, 0, 0, 0, 0),
                  i = TENSOR(I64, DIMS(2, 3), 1, 0, 2, 0, 2, -2), u = TENSOR(I32, DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    expect(op, INPUTS(x, i, u), with(0, 0, 0), TENSOR(I32, DIMS(3, 3), 4, 2, 0, 1, 0, 6, 0, 5, 3), 0);
    expect(op, INPUTS(x, i, u), with(1, 0, 0), TENSOR(I32, DIMS(3, 3), 2, 1, 3, 4, 6, 5, 0, 0, 0), 0);
    const operand row = TENSOR(U64, DIMS(2), 5, 0x1p63), at = TENSOR(I64, DIMS(3), 0, 1, 7),
                  to = TENSOR(U64, DIMS(3), 3, 2, 1);
    expect(op, INPUTS(row, at, to), with(0, TV_SCATTER_ADD, 0), TENSOR(U64, DIMS(2), 8, 0x1p63), 1e-15);
    expect(op, INPUTS(row, at, to), with(0, TV_SCATTER_MUL, 0), TENSOR(U64, DIMS(2), 15, 0), 0);
    expect(op, INPUTS(row, at, to), with(0, TV_SCATTER_MAX, 0), row, 0);
    expect(op, INPUTS(row, at, to), with(0, TV_SCATTER_MIN, 0), TENSOR(U64, DIMS(2), 3, 2), 0);
    expect(op, INPUTS(TENSOR(I8, DIMS(1), -5), TENSOR(I64, DIMS(1), 0), TENSOR(I8, DIMS(1), 5)),
           with(0, TV_SCATTER_MAX, 0), TENSOR(I8, DIMS(1), 5), 0);
    expect(op, INPUTS(TENSOR(F16, DIMS(1), 2), TENSOR(I64, DIMS(2), 0, 0), TENSOR(F16, DIMS(2), 3, 4)),
           with(0, TV_SCATTER_MUL, 0), TENSOR(F16, DIMS(1), 24), 0);
}

static void sequences_are_reversed_by_their_lengths(void **state)
{
    (void)state;
    const tv_graph_op op = TV_OP_REVERSE_SEQUENCE;
    const operand x = TENSOR(U8, DIMS(2, 4), 0, 1, 2, 3, 4, 5, 6, 7);
    expect(op, INPUTS(x, TENSOR(I64, DIMS(2), 2, 3)), with(1, 0, 0), TENSOR(U8, DIMS(2, 4), 1, 0, 2, 3, 6, 5, 4, 7), 0);
    expect(op, INPUTS(x, TENSOR(I64, DIMS(4), 0, 1, 2, 9)), with(0, 1, 0),
           TENSOR(U8, DIMS(2, 4), 0, 1, 6, 7, 4, 5, 2, 3), 0);
    expect(op, INPUTS(TENSOR(F32, DIMS(2, 1, 2), 1, 2, 3, 4), TENSOR(I32, DIMS(1), 2)), with(0, 1, 0),
           TENSOR(F32, DIMS(2, 1, 2), 3, 4, 1, 2), 0);
    expect(op, INPUTS(ZEROS(F32, DIMS(0, 2)), ZEROS(I64, DIMS(2))), with(0, 1, 0), ZEROS(F32, DIMS(0, 2)), 0);
}

/* Selection by repeated search. */
static void first_elements_are_in_order(void **state)
{
    static const tv_element types[] = {TV_ELEMENT_F32, TV_ELEMENT_I64, TV_ELEMENT_U8, TV_ELEMENT_F16, TV_ELEMENT_U64};
    unit_rng rng = {1};
    (void)state;
    for (unsigned n = 0; n < 300; n++) {
        double x[64], values[64], indices[64];
        size_t length = 1 + unit_below(&rng, 20), k = unit_below(&rng, length + 1), rows = unit_below(&rng, 4);
        bool smallest = n & 1;
        for (size_t i = 0; i < 64; i++) /* many equal ones */
            x[i] = (double)unit_below(&rng, 8);
        for (size_t v = 0; v < rows; v++) {
            bool taken[20] = {false};
            for (size_t i = 0; i < k; i++) {
                size_t best = length;
                for (size_t c = 0; c < length; c++) {
                    double value = x[v * length + c];
                    if (!taken[c] &&
                        (best == length || (smallest ? value < x[v * length + best] : value > x[v * length + best])))
                        best = c;
                }
                taken[best] = true;
                values[v * k + i] = x[v * length + best];
                indices[v * k + i] = (double)best;
            }
        }
        operand a = {types[n % 5], 2, {(int64_t)rows, (int64_t)length}, x, rows * length, false, false};
        operand y = {types[n % 5], 2, {(int64_t)rows, (int64_t)k}, values, rows * k, false, false};
        expect(TV_OP_TOP_K, INPUTS(a), with(0, smallest, (uint32_t)k), y, 0);
        y.element = TV_ELEMENT_I64;
        y.values = indices;
        expect(TV_OP_TOP_K_INDICES, INPUTS(a), with(0, smallest, (uint32_t)k), y, 0);
    }
    expect(TV_OP_TOP_K, INPUTS(TENSOR(F32, DIMS(4), NAN, 1, NAN, -INFINITY)), with(0, 0, 4),
           TENSOR(F32, DIMS(4), 1, -INFINITY, NAN, NAN), 0);
    expect(TV_OP_TOP_K_INDICES, INPUTS(TENSOR(F32, DIMS(4), NAN, 1, NAN, -INFINITY)), with(0, 1, 4),
           TENSOR(I64, DIMS(4), 3, 1, 0, 2), 0);
}

static void maxima_of_windows_have_indices_in_the_input(void **state)
{
    (void)state;
    tv_graph_lists lists = {.kernel = {2, 2}, .stride = {1, 2}, .dilation = {1, 1}, .pad_begin = {0, 1}};
    tv_graph_attrs attrs = {.lists = &lists};
    const operand x = TENSOR(I8, DIMS(1, 2, 2, 3), 1, 5, 5, 2, 5, 5, 9, 8, 7, 6, 9, 9);
    expect(TV_OP_MAX_POOL_INDICES, INPUTS(x), &attrs, TENSOR(I64, DIMS(1, 2, 1, 2), 3, 1, 6, 10), 0);
    attrs.mode = 4;
    expect(TV_OP_MAX_POOL_INDICES, INPUTS(x), &attrs, TENSOR(I64, DIMS(1, 2, 1, 2), 1, 2, 6, 9), 0);
    expect(TV_OP_MAX_POOL_INDICES, INPUTS(TENSOR(F32, DIMS(1, 1, 2, 3), 1, -INFINITY, NAN, 2, -INFINITY, NAN)),
           &(tv_graph_attrs){.lists = &lists}, TENSOR(I64, DIMS(1, 1, 1, 2), 3, 2), 0);
    /* -1 where a dilated window has padding only. */
    lists = (tv_graph_lists){.kernel = {2}, .stride = {1}, .dilation = {3}, .pad_begin = {2}, .pad_end = {2}};
    expect(TV_OP_MAX_POOL_INDICES, INPUTS(TENSOR(F32, DIMS(1, 1, 1), 4)), &(tv_graph_attrs){.lists = &lists},
           TENSOR(I64, DIMS(1, 1, 2), -1, -1), 0);
}

static void indices_that_do_not_fit_are_rejected(void **state)
{
    (void)state;
    static const char tuples[] = "the last axis of the indices has not one element for each of some axes",
                      updates[] = "the updates do not fit the indices",
                      axes[] = "the axes of time and batch are not two of the input's",
                      lengths[] = "there is not one length for each index of the batch",
                      many[] = "the last axis has not that many elements";
    const operand x = ZEROS(F32, DIMS(2, 3)), i = ZEROS(I64, DIMS(1, 2)), u = ZEROS(F32, DIMS(1)),
                  e = ZEROS(F32, DIMS(1, 2));
    const tv_graph_op nd = TV_OP_SCATTER_ND, elements = TV_OP_SCATTER_ELEMENTS, reverse = TV_OP_REVERSE_SEQUENCE;
    expect_rejection(nd, INPUTS(x, u, u), NULL, "the indices are no integers");
    expect_rejection(nd, INPUTS(x, i, ZEROS(F16, DIMS(1))), NULL, "the updates are not of the type of the input");
    expect_rejection(nd, INPUTS(x, i, u), with(0, TV_SCATTER_MODES, 0), "the mode is not valid");
    expect_rejection(nd, INPUTS(x, ZEROS(I64, DIMS(1, 3)), u), NULL, tuples);
    expect_rejection(nd, INPUTS(x, ZEROS(I64, DIMS(1, 0)), u), NULL, tuples);
    expect_rejection(nd, INPUTS(x, TENSOR(I64, SCALAR, 0), u), NULL, tuples);
    expect_rejection(nd, INPUTS(x, ZEROS(I64, DIMS(1, 1, 1, 1, 1, 1, 1, 1)), u), NULL, updates);
    expect_rejection(nd, INPUTS(ZEROS(F32, DIMS(1, 1, 1)), ZEROS(I64, DIMS(1, 1, 1, 1, 1, 1, 1, 1)), u), NULL, tuples);
    expect_rejection(nd, INPUTS(x, i, ZEROS(F32, DIMS(2))), NULL, updates);
    expect_rejection(elements, INPUTS(x, i, ZEROS(F16, DIMS(1, 2))), NULL,
                     "the updates are not of the type of the input");
    expect_rejection(elements, INPUTS(x, i, u), NULL, updates);
    expect_rejection(elements, INPUTS(x, i, e), with(2, 0, 0), updates);
    expect_rejection(elements, INPUTS(x, ZEROS(I64, DIMS(1)), u), NULL, updates);
    expect_rejection(elements, INPUTS(x, ZEROS(I64, DIMS(3, 1)), ZEROS(F32, DIMS(3, 1))), with(1, 0, 0), updates);
    expect_rejection(reverse, INPUTS(x, ZEROS(I64, DIMS(2))), NULL, axes);
    expect_rejection(reverse, INPUTS(x, ZEROS(I64, DIMS(2))), with(2, 0, 0), axes);
    expect_rejection(reverse, INPUTS(x, ZEROS(I64, DIMS(2))), with(0, 2, 0), axes);
    expect_rejection(reverse, INPUTS(x, ZEROS(I64, DIMS(2))), with(0, 1, 0), lengths);
    expect_rejection(reverse, INPUTS(x, ZEROS(F32, DIMS(3))), with(0, 1, 0), lengths);
    expect_rejection(reverse, INPUTS(x, ZEROS(I64, DIMS(3, 1))), with(0, 1, 0), lengths);
    expect_rejection(TV_OP_TOP_K, INPUTS(x), with(0, 0, 4), many);
    expect_rejection(TV_OP_TOP_K_INDICES, INPUTS(TENSOR(F32, SCALAR, 0)), with(0, 0, 1), many);
    expect_rejection(TV_OP_MAX_POOL_INDICES, INPUTS(x), NULL,
                     "the input has not one to three axes after batch and channels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_scattered_to_tuples),
        cmocka_unit_test(elements_are_scattered_along_an_axis),
        cmocka_unit_test(sequences_are_reversed_by_their_lengths),
        cmocka_unit_test(first_elements_are_in_order),
        cmocka_unit_test(maxima_of_windows_have_indices_in_the_input),
        cmocka_unit_test(indices_that_do_not_fit_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
