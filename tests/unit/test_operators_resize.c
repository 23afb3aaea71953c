/* SPDX-License-Identifier: Apache-2.0 */
/* Resize, and quantized values. Expected values are worked by hand from the operators' definitions, but for those that
 * the descriptions of ONNX's operators give as examples. */
#include <math.h>

#include "graph/resize.h"
#include "operator_case.h"

/* ---- Resize ---- */

/* Attributes of a Resize of rank 1, in storage that the next call overwrites. */
static const tv_graph_attrs *resize1(tv_resize m, double scale, int64_t out)
{
    static tv_graph_lists lists;
    static tv_graph_attrs attrs;
    lists = (tv_graph_lists){.scale = {scale}, .crop_end = {1}};
    attrs =
        (tv_graph_attrs){.lists = &lists, .mode = tv_resize_pack(m), .alpha = -0.75f, .beta = 9, .shape = {1, {out}}};
    return &attrs;
}

#define RESIZE1(m, scale, out, result)                                                                                 \
    expect(TV_OP_RESIZE, INPUTS(TENSOR(F32, DIMS(4), 10, 20, 30, 40)), resize1(m, scale, out), result, 1e-6)
#define MODE(...) ((tv_resize){__VA_ARGS__})
#define LINEAR .method = TV_RESIZE_LINEAR
#define CUBIC .method = TV_RESIZE_CUBIC
#define ASYMMETRIC .coordinates = TV_RESIZE_ASYMMETRIC

static void modes_pack_and_unpack(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TV_RESIZE_METHODS * TV_RESIZE_COORDINATES * TV_RESIZE_ROUNDINGS * 4; i++) {
        tv_resize m = {(tv_resize_method)(i % TV_RESIZE_METHODS), (tv_resize_coordinates)(i / 3 % 6),
                       (tv_resize_rounding)(i / 18 % 4), i / 72 % 2, i / 144 % 2};
        tv_resize got = tv_resize_unpack(tv_resize_pack(m));
        assert_true(got.method == m.method && got.coordinates == m.coordinates && got.rounding == m.rounding &&
                    got.exclude_outside == m.exclude_outside && got.antialias == m.antialias);
    }
}

/* Coordinates of four elements in eight positions are -1/4, 1/4, 3/4, ... with half pixels, and 0, 1/2, 1, ... without.
 */
static void nearest_elements_follow_coordinates_and_rounding(void **state)
{
    (void)state;
    RESIZE1(MODE(.method = TV_RESIZE_NEAREST), 2, 8, TENSOR(F32, DIMS(8), 10, 10, 20, 20, 30, 30, 40, 40));
    RESIZE1(MODE(ASYMMETRIC), 2, 8, TENSOR(F32, DIMS(8), 10, 10, 20, 20, 30, 30, 40, 40));
    RESIZE1(MODE(ASYMMETRIC, .rounding = TV_RESIZE_PREFER_CEIL), 2, 8,
            TENSOR(F32, DIMS(8), 10, 20, 20, 30, 30, 40, 40, 40));
    RESIZE1(MODE(ASYMMETRIC, .rounding = TV_RESIZE_FLOOR), 2, 8, TENSOR(F32, DIMS(8), 10, 10, 20, 20, 30, 30, 40, 40));
    RESIZE1(MODE(.rounding = TV_RESIZE_CEIL), 2, 8, TENSOR(F32, DIMS(8), 10, 20, 20, 30, 30, 40, 40, 40));
    RESIZE1(MODE(.rounding = TV_RESIZE_FLOOR), 2, 8, TENSOR(F32, DIMS(8), 10, 10, 10, 20, 20, 30, 30, 40));
    RESIZE1(MODE(.coordinates = TV_RESIZE_ALIGN_CORNERS), 1.5, 6, TENSOR(F32, DIMS(6), 10, 20, 20, 30, 30, 40));
    RESIZE1(MODE(ASYMMETRIC, .rounding = TV_RESIZE_FLOOR), 0.6, 2, TENSOR(F32, DIMS(2), 10, 20));
}

static void linear_values_are_weighted_by_distance(void **state)
{
    (void)state;
    RESIZE1(MODE(LINEAR), 2, 8, TENSOR(F32, DIMS(8), 10, 12.5, 17.5, 22.5, 27.5, 32.5, 37.5, 40));
    RESIZE1(MODE(LINEAR, .coordinates = TV_RESIZE_ASYMMETRIC), 2, 8,
            TENSOR(F32, DIMS(8), 10, 15, 20, 25, 30, 35, 40, 40));
    RESIZE1(MODE(LINEAR, .coordinates = TV_RESIZE_ALIGN_CORNERS), 1.75, 7,
            TENSOR(F32, DIMS(7), 10, 15, 20, 25, 30, 35, 40));
    RESIZE1(MODE(LINEAR, .coordinates = TV_RESIZE_ALIGN_CORNERS), 0.25, 1, TENSOR(F32, DIMS(1), 10));
    RESIZE1(MODE(LINEAR, .coordinates = TV_RESIZE_PYTORCH_HALF_PIXEL), 0.25, 1, TENSOR(F32, DIMS(1), 10));
    RESIZE1(MODE(LINEAR, .coordinates = TV_RESIZE_HALF_PIXEL), 0.25, 1, TENSOR(F32, DIMS(1), 25));
    RESIZE1(MODE(LINEAR, .coordinates = TV_RESIZE_PYTORCH_HALF_PIXEL), 0.5, 2, TENSOR(F32, DIMS(2), 15, 35));
    /* Scale 0.6: two positions of the 2.4 that half pixels assume, at 1/3 and 2; symmetric: 1/3 + 1/3 and 2 + 1/3. */
    RESIZE1(MODE(LINEAR), 0.6, 2, TENSOR(F32, DIMS(2), 10 + 10. / 3, 30));
    RESIZE1(MODE(LINEAR, .coordinates = TV_RESIZE_HALF_PIXEL_SYMMETRIC), 0.6, 2,
            TENSOR(F32, DIMS(2), 10 + 20. / 3, 30 + 10. / 3));
    /* What exclude_outside leaves of the first position is only the first element. */
    RESIZE1(MODE(LINEAR, .exclude_outside = true), 2, 8,
            TENSOR(F32, DIMS(8), 10, 12.5, 17.5, 22.5, 27.5, 32.5, 37.5, 40));
}

/* At distance 1/2: weights -3/32, 19/32, 19/32, -3/32 with coefficient -3/4. */
static void cubic_values_have_four_weights(void **state)
{
    (void)state;
    double first = (16 * 10 + 19 * 20 - 3 * 30) / 32., second = (-3 * 10 + 19 * 20 + 19 * 30 - 3 * 40) / 32.;
    double third = (-3 * 20 + 19 * 30 + 16 * 40) / 32., fourth = (-3 * 30 + 35 * 40) / 32.;
    RESIZE1(MODE(CUBIC, ASYMMETRIC), 2, 8, TENSOR(F32, DIMS(8), 10, first, 20, second, 30, third, 40, fourth));
    double inner = (19 * 10 + 19 * 20 - 3 * 30) / 35., last = (-3 * 30 + 19 * 40) / 16.;
    RESIZE1(MODE(CUBIC, ASYMMETRIC, .exclude_outside = true), 2, 8,
            TENSOR(F32, DIMS(8), 10, inner, 20, second, 30, (-3 * 20 + 19 * 30 + 19 * 40) / 35., 40, last));
}

/* Halved: a filter of twice the width, at 1/2: distances 3/2, 1/2, 1/2, 3/2 weigh 1, 3, 3, 1 of 8. */
static void antialiasing_widens_the_filter(void **state)
{
    (void)state;
    tv_resize m = {.method = TV_RESIZE_LINEAR, .antialias = true};
    double first = (4 * 10 + 3 * 20 + 30) / 8.;
    RESIZE1(m, 0.5, 2, TENSOR(F32, DIMS(2), first, 50 - first));
    m.exclude_outside = true;
    first = (3 * 10 + 3 * 20 + 30) / 7.;
    RESIZE1(m, 0.5, 2, TENSOR(F32, DIMS(2), first, 50 - first));
    RESIZE1(m, 2, 8, TENSOR(F32, DIMS(8), 10, 12.5, 17.5, 22.5, 27.5, 32.5, 37.5, 40));
    m = (tv_resize){.method = TV_RESIZE_CUBIC, .antialias = true};
    RESIZE1(m, 1, 4, TENSOR(F32, DIMS(4), 10, 20, 30, 40));
}

static void crops_extrapolate(void **state)
{
    (void)state;
    tv_graph_lists lists = {.crop_begin = {0, 1. / 3}, .crop_end = {1, 4. / 3}};
    tv_graph_attrs attrs = {.lists = &lists, .beta = 9, .shape = {2, {2, 4}}};
    const operand x = TENSOR(I64, DIMS(2, 4), 1, 2, 3, 4, 5, 6, 7, 8);
    attrs.mode = tv_resize_pack((tv_resize){.coordinates = TV_RESIZE_CROP});
    expect(TV_OP_RESIZE, INPUTS(x), &attrs, TENSOR(I64, DIMS(2, 4), 2, 3, 4, 9, 6, 7, 8, 9), 0);
    attrs.mode = tv_resize_pack((tv_resize){.coordinates = TV_RESIZE_CROP, .method = TV_RESIZE_LINEAR});
    expect(TV_OP_RESIZE, INPUTS(x), &attrs, TENSOR(I64, DIMS(2, 4), 2, 3, 4, 9, 6, 7, 8, 9), 0);
    lists.crop_end[1] = 2. / 3; /* one position: the middle of elements 1 and 2 */
    attrs.shape.dims[1] = 1;
    expect(TV_OP_RESIZE, INPUTS(TENSOR(F32, DIMS(2, 4), 1, 2, 3, 4, 5, 6, 7, 8)), &attrs,
           TENSOR(F32, DIMS(2, 1), 2.5, 6.5), 1e-6);
}

static void each_axis_and_type_is_resized(void **state)
{
    (void)state;
    tv_graph_lists lists = {.scale = {1, 1, 2, 2}};
    tv_graph_attrs attrs = {.lists = &lists, .shape = {4, {1, 1, 4, 4}}};
    attrs.mode = tv_resize_pack((tv_resize){.method = TV_RESIZE_LINEAR});
    /* The outer product of the weights 1, 3/4, 1/4, 0. */
    expect(
        TV_OP_RESIZE, INPUTS(TENSOR(F32, DIMS(1, 1, 2, 2), 1, 2, 3, 4)), &attrs,
        TENSOR(F32, DIMS(1, 1, 4, 4), 1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4),
        1e-6);
    attrs.mode = 0;
    expect(TV_OP_RESIZE, INPUTS(TENSOR(BOOL, DIMS(1, 1, 2, 2), 1, 0, 0, 1)), &attrs,
           TENSOR(BOOL, DIMS(1, 1, 4, 4), 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1), 0);
    /* Cubic values beside a step are outside of uint8: (0 + 0 - 3 * 255) / 32 and 255 + 3 * 255 / 32. */
    RESIZE1(MODE(.method = TV_RESIZE_NEAREST), 0.25, 0, ZEROS(F32, DIMS(0)));
    expect(TV_OP_RESIZE, INPUTS(TENSOR(U8, DIMS(4), 0, 0, 255, 255)),
           resize1((tv_resize){.method = TV_RESIZE_CUBIC, .coordinates = TV_RESIZE_ASYMMETRIC}, 2, 8),
           TENSOR(U8, DIMS(8), 0, 0, 0, 127, 255, 255, 255, 255), 0);
    expect(TV_OP_RESIZE, INPUTS(TENSOR(F16, SCALAR, 3)), &(tv_graph_attrs){.lists = &lists}, TENSOR(F16, SCALAR, 3), 0);
}

static void modes_and_scales_that_do_not_fit_are_rejected(void **state)
{
    (void)state;
    static const char mode[] = "the mode is not valid", scale[] = "the scale of an axis does not fit its extents";
    const operand x = ZEROS(F32, DIMS(4));
    const tv_resize simple = {0}, crop = {.coordinates = TV_RESIZE_CROP, .antialias = true};
    expect_rejection(TV_OP_RESIZE, INPUTS(x), NULL, mode);
    expect_rejection(TV_OP_RESIZE, INPUTS(x), resize1((tv_resize){.method = TV_RESIZE_METHODS}, 1, 4), mode);
    expect_rejection(TV_OP_RESIZE, INPUTS(x), resize1((tv_resize){.coordinates = TV_RESIZE_COORDINATES}, 1, 4), mode);
    expect_rejection(TV_OP_RESIZE, INPUTS(x), resize1((tv_resize){.rounding = TV_RESIZE_ROUNDINGS}, 1, 4), mode);
    expect_rejection(TV_OP_RESIZE, INPUTS(ZEROS(F32, DIMS(4, 1))), resize1(simple, 1, 4),
                     "the ranks of input and output differ");
    expect_rejection(TV_OP_RESIZE, INPUTS(x), resize1(simple, 0, 4), scale);
    expect_rejection(TV_OP_RESIZE, INPUTS(x), resize1(simple, NAN, 4), scale);
    expect_rejection(TV_OP_RESIZE, INPUTS(x), resize1(simple, INFINITY, 4), scale);
    expect_rejection(TV_OP_RESIZE, INPUTS(x), resize1(simple, 1, -1), scale);
    expect_rejection(TV_OP_RESIZE, INPUTS(x), resize1(simple, 2, 4), scale);
    expect_rejection(TV_OP_RESIZE, INPUTS(x), resize1(simple, 1e-9, 1), scale);
    expect_rejection(TV_OP_RESIZE, INPUTS(x), resize1(crop, 1, 4), scale);
    expect_rejection(TV_OP_RESIZE, INPUTS(ZEROS(F32, DIMS(0))), resize1(simple, 1, 1), scale);
}

/* ---- Quantized values ---- */

#define ATTRS(...) (&(tv_graph_attrs){__VA_ARGS__})
#define QUANTIZE(attrs, result, ...) expect(TV_OP_QUANTIZE_LINEAR, INPUTS(__VA_ARGS__), attrs, result, 0)
#define DEQUANTIZE(attrs, result, ...) expect(TV_OP_DEQUANTIZE_LINEAR, INPUTS(__VA_ARGS__), attrs, result, 0)

static void values_are_quantized_to_nearest_even_and_saturate(void **state)
{
    (void)state;
    QUANTIZE(ATTRS(.mode = 0), TENSOR(U8, DIMS(6), 128, 129, 130, 255, 1, 0),
             TENSOR(F32, DIMS(6), 0, 2, 3, 1000, -254, -1000), TENSOR(F32, SCALAR, 2), TENSOR(U8, SCALAR, 128));
    QUANTIZE(ATTRS(.to = TV_ELEMENT_U8), TENSOR(U8, DIMS(5), 0, 2, 2, 0, 255),
             TENSOR(F32, DIMS(5), 0.5, 1.5, 2.5, -1, 300), TENSOR(F32, SCALAR, 1));
    QUANTIZE(ATTRS(.mode = 0), TENSOR(I8, DIMS(5), -128, 127, -128, 127, 1),
             TENSOR(F32, DIMS(5), -129, 128, -INFINITY, INFINITY, NAN), TENSOR(F32, DIMS(1), 1),
             TENSOR(I8, DIMS(1), 1));
    QUANTIZE(ATTRS(.to = TV_ELEMENT_U4), TENSOR(U4, DIMS(3), 0, 15, 7), TENSOR(F32, DIMS(3), -1, 16, 7),
             TENSOR(F32, SCALAR, 1));
    QUANTIZE(ATTRS(.to = TV_ELEMENT_I4), TENSOR(I4, DIMS(3), -8, 7, -3), TENSOR(F16, DIMS(3), -9, 8, -3),
             TENSOR(F16, SCALAR, 1));
    QUANTIZE(ATTRS(.to = TV_ELEMENT_I16), TENSOR(I16, DIMS(3), -32768, 32767, 3), TENSOR(F64, DIMS(3), -4e9, 4e9, 3),
             TENSOR(F64, SCALAR, 1));
    QUANTIZE(ATTRS(.to = TV_ELEMENT_U16), TENSOR(U16, DIMS(2), 0, 65535), TENSOR(I32, DIMS(2), -5, 70000),
             TENSOR(F32, SCALAR, 1));
    /* 0.3 / 0.2 in binary32 is 1.5 (0.3f = 0.300000012, 0.2f = 0.200000003), which rounds to 2. */
    QUANTIZE(ATTRS(.to = TV_ELEMENT_U8), TENSOR(U8, SCALAR, 2), TENSOR(F32, SCALAR, 0.3), TENSOR(F32, SCALAR, 0.2));
}

static void scales_belong_to_indices_or_blocks_of_an_axis(void **state)
{
    (void)state;
    const operand x = TENSOR(F32, DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    QUANTIZE(ATTRS(.axis = 0), TENSOR(I8, DIMS(2, 3), 1, 2, 3, 3, 3, 4), x, TENSOR(F32, DIMS(2), 1, 2),
             TENSOR(I8, DIMS(2), 0, 1));
    QUANTIZE(ATTRS(.axis = 1, .to = TV_ELEMENT_I8), TENSOR(I8, DIMS(2, 3), 1, 1, 30, 4, 2, 60), x,
             TENSOR(F32, DIMS(3), 1, 2, 0.1));
    /* Blocks of two of three columns, and of one and two of three rows. */
    QUANTIZE(ATTRS(.axis = 1, .to = TV_ELEMENT_I8), TENSOR(I8, DIMS(2, 3), 1, 2, 1, 1, 1, 1), x,
             TENSOR(F32, DIMS(2, 2), 1, 3, 4, 6));
    DEQUANTIZE(ATTRS(.axis = 0, .mode = 2), TENSOR(F32, DIMS(3, 2), 10, 40, 30, 80, 50, 180),
               TENSOR(I8, DIMS(3, 2), 1, 2, 3, 4, 5, 6), TENSOR(F32, DIMS(2, 2), 10, 20, 10, 30));
    DEQUANTIZE(ATTRS(.axis = 0), TENSOR(F32, DIMS(3, 1, 1), 2, 4, 6), TENSOR(U4, DIMS(3, 1, 1), 1, 2, 3),
               TENSOR(F32, DIMS(3), 2, 2, 2));
    DEQUANTIZE(ATTRS(.axis = 0), ZEROS(F32, DIMS(0)), ZEROS(U8, DIMS(0)), ZEROS(F32, DIMS(0)));
}

static void quantized_values_become_real(void **state)
{
    (void)state;
    DEQUANTIZE(ATTRS(.mode = 0), TENSOR(F32, DIMS(3), -256, 0, 254), TENSOR(U8, DIMS(3), 0, 128, 255),
               TENSOR(F32, SCALAR, 2), TENSOR(U8, SCALAR, 128));
    DEQUANTIZE(ATTRS(.mode = 0), TENSOR(F16, DIMS(2), -4, 3.5), TENSOR(I4, DIMS(2), -8, 7), TENSOR(F16, SCALAR, 0.5));
    DEQUANTIZE(ATTRS(.mode = 0), TENSOR(F64, DIMS(1), 2147483647. * 3), TENSOR(I32, DIMS(1), 2147483647),
               TENSOR(F64, SCALAR, 3));
    /* In binary32 the difference is 2^31. */
    DEQUANTIZE(ATTRS(.mode = 0), TENSOR(F32, DIMS(1), 2147483648.), TENSOR(I32, DIMS(1), 2147483647),
               TENSOR(F32, SCALAR, 1));
}

static void scales_that_do_not_fit_are_rejected(void **state)
{
    (void)state;
    const tv_graph_op Q = TV_OP_QUANTIZE_LINEAR, D = TV_OP_DEQUANTIZE_LINEAR;
    static const char scales[] = "the scale is neither one number nor one for each index or block of the axis";
    const operand x = ZEROS(F32, DIMS(2, 3)), q = ZEROS(I8, DIMS(2, 3)), one = TENSOR(F32, SCALAR, 1);
    const tv_graph_attrs to = {.to = TV_ELEMENT_I8, .axis = 1}, past = {.to = TV_ELEMENT_I8, .axis = 2},
                         blocks = {.axis = 1, .mode = 3};
    expect_rejection(Q, INPUTS(x, ZEROS(I8, SCALAR)), &to, "the scale is no real number");
    expect_rejection(D, INPUTS(q, ZEROS(I8, SCALAR)), &to, "the scale is no real number");
    expect_rejection(Q, INPUTS(x, one), NULL, "the output is not of integers");
    expect_rejection(Q, INPUTS(x, one, one), &to, "the output is not of integers");
    expect_rejection(D, INPUTS(x, one), NULL, "the input is not of integers");
    expect_rejection(D, INPUTS(q, one, ZEROS(U8, SCALAR)), NULL, "the zero point is not of the type of the input");
    expect_rejection(D, INPUTS(q, one, ZEROS(I8, DIMS(1))), NULL, "the zero point has another shape than the scale");
    expect_rejection(Q, INPUTS(x, ZEROS(F32, DIMS(2))), &to, scales);
    expect_rejection(Q, INPUTS(x, ZEROS(F32, DIMS(3))), &past, scales);
    expect_rejection(Q, INPUTS(x, ZEROS(F32, DIMS(2, 0))), &to, scales);
    expect_rejection(Q, INPUTS(x, ZEROS(F32, DIMS(1, 2))), &to, scales);
    expect_rejection(D, INPUTS(q, ZEROS(F32, DIMS(2, 2))), &blocks, scales);
    expect_rejection(D, INPUTS(ZEROS(I8, DIMS(2, 0)), ZEROS(F32, DIMS(2, 2))), &to, scales);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_pack_and_unpack),
        cmocka_unit_test(nearest_elements_follow_coordinates_and_rounding),
        cmocka_unit_test(linear_values_are_weighted_by_distance),
        cmocka_unit_test(cubic_values_have_four_weights),
        cmocka_unit_test(antialiasing_widens_the_filter),
        cmocka_unit_test(crops_extrapolate),
        cmocka_unit_test(each_axis_and_type_is_resized),
        cmocka_unit_test(modes_and_scales_that_do_not_fit_are_rejected),
        cmocka_unit_test(values_are_quantized_to_nearest_even_and_saturate),
        cmocka_unit_test(scales_belong_to_indices_or_blocks_of_an_axis),
        cmocka_unit_test(quantized_values_become_real),
        cmocka_unit_test(scales_that_do_not_fit_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
