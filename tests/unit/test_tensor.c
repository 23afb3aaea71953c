/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors keep every element type; conversions follow ONNX's Cast. The expected values are constants of the formats. */
#include <math.h>

#include "graph/tensor.h"
#include "graph/weight_error.h"
#include "unit.h"

static tv_tensor tensor_of(tv_element element, int64_t count)
{
    tv_tensor t;
    assert_int_equal(tv_tensor_init(&t, element, 1, &count, NULL), TV_OK);
    return t;
}

/* What a value becomes in each integer type, and the same as binary64. */
static const struct {
    tv_element element;
    int64_t stored, integer;
    double real;
} integers[] = {
    {TV_ELEMENT_U8, 0x1FE, 254, 254},
    {TV_ELEMENT_I8, 0x1FE, -2, -2},
    {TV_ELEMENT_U16, 0x1FFFE, 65534, 65534},
    {TV_ELEMENT_I16, 0x1FFFE, -2, -2},
    {TV_ELEMENT_U32, 0x1FFFFFFFE, 4294967294, 4294967294},
    {TV_ELEMENT_I32, 0x1FFFFFFFE, -2, -2},
    {TV_ELEMENT_U64, -2, -2, 0x1p64},
    {TV_ELEMENT_I64, -2, -2, -2},
    {TV_ELEMENT_U4, 0x1E, 14, 14},
    {TV_ELEMENT_I4, 0x1E, -2, -2},
    {TV_ELEMENT_BOOL, 256, 1, 1},
    {TV_ELEMENT_BOOL, 0, 0, 0},
    {TV_ELEMENT_F32, -16777217, -16777216, -16777216}, /* ties to even */
    {TV_ELEMENT_F64, -16777217, -16777217, -16777217},
    {TV_ELEMENT_F16, 2049, 2048, 2048},
    {TV_ELEMENT_BF16, 257, 256, 256},
    {TV_ELEMENT_BF16, 0x40400000000001, 0x40800000000000, 0x1.02p54}, /* rounded once: above the tie */
};

static void integers_wrap_or_round_to_the_element_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(integers); i++) {
        tv_tensor t = tensor_of(integers[i].element, 2);
        tv_tensor_set_integer(&t, 1, integers[i].stored);
        assert_int_equal(tv_tensor_integer(&t, 1), integers[i].integer);
        assert_true(tv_tensor_real(&t, 1) == integers[i].real);
        assert_int_equal(tv_tensor_integer(&t, 0), 0);
        tv_tensor_fini(&t);
    }
}

static const struct {
    tv_element element;
    double stored, cast, saturated;
} reals[] = {
    {TV_ELEMENT_U8, 257.9, 1, 255},
    {TV_ELEMENT_U8, -1.5, 255, 0},
    {TV_ELEMENT_I8, 200.5, -56, 127},
    {TV_ELEMENT_I8, -200.5, 56, -128},
    {TV_ELEMENT_U16, 65536, 0, 65535},
    {TV_ELEMENT_I16, -40000, 25536, -32768},
    {TV_ELEMENT_U32, 0x1p32, 0, 4294967295},
    {TV_ELEMENT_I32, 0x1p31, -0x1p31, 2147483647},
    {TV_ELEMENT_I32, -7.9, -7, -7},
    {TV_ELEMENT_I64, 1e300, 0x1p63, 0x1p63},
    {TV_ELEMENT_I64, -1e300, -0x1p63, -0x1p63},
    {TV_ELEMENT_I64, NAN, 0, 0},
    {TV_ELEMENT_U64, 0x1p63, 0x1p63, 0x1p63},
    {TV_ELEMENT_U64, 1e300, 0x1p64, 0x1p64},
    {TV_ELEMENT_U64, 5.5, 5, 5},
    {TV_ELEMENT_U4, 17, 1, 15},
    {TV_ELEMENT_U4, -1, 15, 0},
    {TV_ELEMENT_I4, 9, -7, 7},
    {TV_ELEMENT_I4, -9, 7, -8},
    {TV_ELEMENT_BOOL, 0.25, 1, 1},
    {TV_ELEMENT_BOOL, 0, 0, 0},
    {TV_ELEMENT_F32, 0x1.0000010001p0, 0x1.000002p0, 0x1.000002p0},
    {TV_ELEMENT_F64, 0.1, 0.1, 0.1},
    {TV_ELEMENT_F16, 65519, 65504, 65504},
    {TV_ELEMENT_F16, 65520, INFINITY, INFINITY},
    {TV_ELEMENT_BF16, 1.00390625, 1, 1},
};

static void reals_are_cast_as_onnx_does_or_saturate(void **state)
{
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(reals); i++) {
        tv_tensor t = tensor_of(reals[i].element, 2);
        tv_tensor_set_real(&t, 0, reals[i].stored);
        tv_tensor_set_saturated(&t, 1, reals[i].stored);
        if (tv_tensor_real(&t, 0) != reals[i].cast || tv_tensor_real(&t, 1) != reals[i].saturated)
            fail_msg("%s of %g: %g, saturated %g", tv_element_infos[reals[i].element].name, reals[i].stored,
                     tv_tensor_real(&t, 0), tv_tensor_real(&t, 1));
        tv_tensor_fini(&t);
    }
}

static void reals_become_integers_toward_zero(void **state)
{
    (void)state;
    static const tv_element elements[] = {TV_ELEMENT_F32, TV_ELEMENT_F64, TV_ELEMENT_F16, TV_ELEMENT_BF16};
    for (size_t i = 0; i < TV_COUNTOF(elements); i++) {
        tv_tensor t = tensor_of(elements[i], 4);
        tv_tensor_set_real(&t, 0, -2.75);
        tv_tensor_set_real(&t, 1, NAN);
        tv_tensor_set_real(&t, 2, INFINITY);
        tv_tensor_set_real(&t, 3, -INFINITY);
        assert_int_equal(tv_tensor_integer(&t, 0), -2);
        assert_int_equal(tv_tensor_integer(&t, 1), 0);
        assert_true(tv_tensor_integer(&t, 2) == INT64_MAX);
        assert_true(tv_tensor_integer(&t, 3) == INT64_MIN);
        tv_tensor_fini(&t);
    }
}

static void dimensions_must_fit_the_address_space(void **state)
{
    (void)state;
    const int64_t ones[TV_TENSOR_RANK_MAX + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_true(tv_tensor_fits(TV_ELEMENT_F64, TV_TENSOR_RANK_MAX, ones));
    assert_false(tv_tensor_fits(TV_ELEMENT_F64, TV_TENSOR_RANK_MAX + 1, ones));
    assert_true(tv_tensor_fits(TV_ELEMENT_F64, 0, NULL));
    assert_false(tv_tensor_fits(TV_ELEMENT_U8, 2, (int64_t[]){0, -1}));
    assert_true(tv_tensor_fits(TV_ELEMENT_F64, 3, (int64_t[]){INT64_MAX, INT64_MAX, 0}));
    assert_true(tv_tensor_fits(TV_ELEMENT_U8, 1, (int64_t[]){INT64_MAX}));
    assert_false(tv_tensor_fits(TV_ELEMENT_U16, 1, (int64_t[]){INT64_MAX / 2 + 1}));
    assert_false(tv_tensor_fits(TV_ELEMENT_F64, 2, (int64_t[]){INT64_C(1) << 32, INT64_C(1) << 32}));
}

static void an_empty_tensor_has_storage(void **state)
{
    (void)state;
    tv_tensor t = tensor_of(TV_ELEMENT_F32, 0);
    assert_non_null(t.data);
    assert_int_equal(tv_tensor_bytes(&t), 0);
    tv_tensor_fini(&t);
    assert_null(t.data);
}

static void dimensions_are_printed_and_cut(void **state)
{
    (void)state;
    char text[TV_TENSOR_TEXT_MAX];
    tv_tensor t = {.element = TV_ELEMENT_BF16, .rank = 3, .dims = {1, 3, 224}};
    tv_tensor_print_shape(&t, text);
    assert_string_equal(text, "bfloat16[1 x 3 x 224]");
    t.rank = 0;
    tv_tensor_print_shape(&t, text);
    assert_string_equal(text, "bfloat16[]");
    t.rank = TV_TENSOR_RANK_MAX;
    for (unsigned i = 0; i < TV_TENSOR_RANK_MAX; i++)
        t.dims[i] = INT64_MAX;
    tv_tensor_print_shape(&t, text);
    assert_int_equal(strlen(text), TV_TENSOR_TEXT_MAX - 1);
    assert_memory_equal(text, "bfloat16[9223372036854775807 x 9223372036854775807 x ", 52);
}

static void onnx_numbers_name_the_element_types(void **state)
{
    (void)state;
    tv_element element;
    assert_true(tv_element_of_onnx(16, &element));
    assert_int_equal(element, TV_ELEMENT_BF16);
    assert_false(tv_element_of_onnx(8, &element)); /* strings */
    assert_false(tv_element_of_onnx(0, &element));
}

/* ---- Errors of weights ---- */

typedef struct received {
    unsigned calls;
    char format[8];
    tv_weight_error error;
} received;

static void receive(void *user, const tv_matrix *matrix, const char *format, const tv_weight_error *error)
{
    (void)matrix;
    received *r = user;
    r->calls++;
    r->error = *error;
    snprintf(r->format, sizeof r->format, "%s", format);
}

static float round_to_unit(float weight, float unit) { return roundf(weight / unit) * unit; }

static void errors_of_weights_are_summed(void **state)
{
    (void)state;
    static const float values[] = {1.5F, -2.25F, 0.25F, 3};
    const tv_matrix matrix = {.name = "w", .values = values, .rows = 2, .columns = 2, .count = 1};
    received r = {0};
    tv_weight_report report = {receive, &r};
    assert_int_equal(tv_weight_report_rounded(&report, &matrix, "half", round_to_unit, 0.5F, NULL), TV_OK);
    assert_int_equal(r.calls, 1);
    assert_string_equal(r.format, "half");
    assert_int_equal(r.error.count, 4);
    assert_true(r.error.squares == 1.5 * 1.5 + 2.25 * 2.25 + 0.25 * 0.25 + 9);
    assert_true(r.error.errors == 0.25 * 0.25 + 0.25 * 0.25); /* both ties, away from zero */
    assert_true(r.error.max == 3 && r.error.error_max == 0.25F);

    assert_int_equal(tv_weight_report_rounded(&report, &matrix, "exact", NULL, 1, NULL), TV_OK);
    assert_int_equal(r.calls, 2);
    assert_true(r.error.errors == 0 && r.error.error_max == 0 && r.error.max == 3);

    tv_weight_error rows[] = {{2, 4, 1, 1.5F, 0.5F}, {3, 9, 2, 1, 1}}, sum = {0};
    tv_weight_error_sum(&sum, rows, 2);
    assert_int_equal(sum.count, 5);
    assert_true(sum.squares == 13 && sum.errors == 3 && sum.max == 1.5F && sum.error_max == 1);
}

static void nothing_is_reported_without_data_or_receiver(void **state)
{
    (void)state;
    static const float value = 1;
    const tv_matrix absent = {.name = "w", .rows = 1, .columns = 1, .count = 1};
    tv_matrix present = absent;
    present.values = &value;
    received r = {0};
    assert_int_equal(tv_weight_report_rounded(&(tv_weight_report){receive, &r}, &absent, "x", NULL, 1, NULL), TV_OK);
    assert_int_equal(tv_weight_report_rounded(&(tv_weight_report){NULL, &r}, &present, "x", NULL, 1, NULL), TV_OK);
    assert_int_equal(r.calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_wrap_or_round_to_the_element_type),
        cmocka_unit_test(reals_are_cast_as_onnx_does_or_saturate),
        cmocka_unit_test(reals_become_integers_toward_zero),
        cmocka_unit_test(dimensions_must_fit_the_address_space),
        cmocka_unit_test(an_empty_tensor_has_storage),
        cmocka_unit_test(dimensions_are_printed_and_cut),
        cmocka_unit_test(onnx_numbers_name_the_element_types),
        cmocka_unit_test(errors_of_weights_are_summed),
        cmocka_unit_test(nothing_is_reported_without_data_or_receiver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
