/* SPDX-License-Identifier: Apache-2.0 */
/* Opcodes and fields of version 1.3 on numbers whose results are worked out by hand, or with long double and one
 * rounding. The independent model compares them on random queues. */
#include <math.h>

#include "test_cmdq.h"

enum { MAX = 64, BANK = 1 << 18 };

/* Runs one entry, given without its output, with `in` in bank 0 and `second` (or NULL) in bank 1; out is bank 2. */
static void run_entry(const char *entry, const float *in, unsigned count, const float *second, unsigned seconds,
                      void *out, unsigned results)
{
    tv_machine *machine = machine_with(TV_MODE_FUNCTIONAL, NULL);
    queue_text q = {0};
    queue_add(&q,
              strstr(entry, "\"TE_")
                  ? "%s, \"te_id\": 0, \"qbits_activation\": 32, \"qbits_weight\": 32, \"ifm_bank\": 0, "
                    "\"ifm_offset\": 0, \"wgt_bank\": 1, \"wgt_offset\": 0, \"ofm_bank\": 2, "
                    "\"ofm_offset\": 0"
                  : "%s, \"ve_id\": 0, \"qbits_activation\": 32, \"in_bank\": 0, \"in_offset\": 0, "
                    "\"out_bank\": 2, \"out_offset\": 0",
              entry);
    tv_program *program = queue_open(&q);
    assert_int_equal(tv_machine_write(machine, "spm", 0, in, count * sizeof *in, NULL), TV_OK);
    if (second)
        assert_int_equal(tv_machine_write(machine, "spm", BANK, second, seconds * sizeof *second, NULL), TV_OK);
    run_all(machine, program);
    assert_int_equal(tv_machine_read(machine, "spm", 2 * BANK, out, results * sizeof(float), NULL), TV_OK);
    tv_machine_free(machine);
    tv_program_free(program);
}

static bool is_same(float a, float b) { return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)); }

static void expect_floats(const char *entry, const float *in, unsigned count, const float *second, unsigned seconds,
                          const float *expected, unsigned results)
{
    float out[MAX];
    run_entry(entry, in, count, second, seconds, out, results);
    for (unsigned i = 0; i < results; i++)
        if (!is_same(out[i], expected[i]))
            fail_msg("%s: result %u is %a, expected %a", entry, i, (double)out[i], (double)expected[i]);
}

/* ---- VE_UNARY_TILE ---- */

static const float specials[] = {0, -0.0f, 1, -1, 2.5f, -4, 100, INFINITY, -INFINITY, NAN, 0x1p-149f, -200};
enum { SPECIALS = TV_COUNTOF(specials) };

static void expect_unary(const char *function, const float expected[SPECIALS])
{
    char entry[160];
    snprintf(entry, sizeof entry, "\"opcode\": \"VE_UNARY_TILE\", \"length\": %u, \"function\": %s", (unsigned)SPECIALS,
             function);
    expect_floats(entry, specials, SPECIALS, NULL, 0, expected, SPECIALS);
}

static void piecewise_functions_are_those_of_the_decisions(void **state)
{
    (void)state;
    const float tiny = 0x1p-149f, sixth = 1.0f / 6, inf = INFINITY, nan = NAN;
    expect_unary("\"relu\"", (const float[]){0, 0, 1, 0, 2.5f, 0, 100, inf, 0, nan, tiny, 0});
    expect_unary("\"leaky_relu\", \"alpha\": 0.25",
                 (const float[]){0, -0.0f, 1, -0.25f, 2.5f, -1, 100, inf, -inf, nan, tiny, -50});
    expect_unary("\"leaky_relu\"",
                 (const float[]){0, -0.0f, 1, -0.01f, 2.5f, -4 * 0.01f, 100, inf, -inf, nan, tiny, -200 * 0.01f});
    expect_unary("\"clip\", \"clip_max\": 6", (const float[]){0, -0.0f, 1, -1, 2.5f, -4, 6, 6, -inf, nan, tiny, -200});
    expect_unary("\"clip\", \"clip_min\": -2, \"clip_max\": 2",
                 (const float[]){0, -0.0f, 1, -1, 2, -2, 2, 2, -2, nan, tiny, -2});
    expect_unary("\"abs\"", (const float[]){0, 0, 1, 1, 2.5f, 4, 100, inf, inf, nan, tiny, 200});
    expect_unary("\"neg\"", (const float[]){-0.0f, 0, -1, 1, -2.5f, 4, -100, -inf, inf, nan, -tiny, 200});
    expect_unary("\"hardsigmoid\", \"alpha\": 0.125, \"beta\": 0.25",
                 (const float[]){0.25f, 0.25f, 0.375f, 0.125f, 0.5625f, 0, 1, 1, 0, nan, 0.25f, 0});
    const float swish = sixth + 0.5f, minus = -sixth + 0.5f, more = 2.5f * sixth + 0.5f;
    expect_unary("\"hardswish\"",
                 (const float[]){0, -0.0f, swish, -minus, 2.5f * more, -0.0f, 100, inf, nan, nan, 0, -0.0f});
}

typedef struct reference {
    const char *name;
    long double (*function)(long double x);
} reference;

static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double recip(long double x) { return 1 / x; }

/* Halfway cases do not occur among these inputs, so that the rounding of long double does not matter. */
static void special_functions_are_rounded_once(void **state)
{
    (void)state;
    static const reference references[] = {{"sigmoid", sigmoid}, {"tanh", tanhl},  {"exp", expl}, {"log", logl},
                                           {"sqrt", sqrtl},      {"recip", recip}, {"erf", erfl}};
    float in[MAX], expected[MAX];
    for (unsigned i = 0; i < MAX; i++)
        in[i] = ((float)i - 20.3f) * 0.3125f;
    for (unsigned f = 0; f < TV_COUNTOF(references); f++) {
        char entry[160];
        for (unsigned i = 0; i < MAX; i++)
            expected[i] = (float)references[f].function((long double)in[i]);
        snprintf(entry, sizeof entry,
                 "\"opcode\": \"VE_UNARY_TILE\", \"length\": 16, \"rows\": 4, \"function\": \"%s\"",
                 references[f].name);
        expect_floats(entry, in, MAX, NULL, 0, expected, MAX);
    }
    const float inf = INFINITY, nan = NAN, tiny = 0x1p-149f;
    expect_unary("\"recip\"", (const float[]){inf, -inf, 1, -1, 0.4f, -0.25f, 0.01f, 0, -0.0f, nan, inf, -0.005f});
    expect_unary("\"sqrt\"", (const float[]){0, -0.0f, 1, nan, (float)sqrtl(2.5L), nan, 10, inf, nan, nan,
                                             (float)sqrtl((long double)tiny), nan});
}

/* ---- VE_BINARY_TILE ---- */

static void expect_binary(const char *fields, const float *second, unsigned seconds, const float expected[6])
{
    static const float in[] = {1, -2, 3, 4, 0.5f, -6};
    char entry[240];
    snprintf(entry, sizeof entry, "\"opcode\": %s, \"rows\": 2, \"length\": 3, \"in2_bank\": 1, \"in2_offset\": 0",
             fields);
    expect_floats(entry, in, 6, second, seconds, expected, 6);
}

static void second_inputs_are_repeated(void **state)
{
    (void)state;
    const float all[] = {1, 2, 3, 4, 5, 6}, row[] = {2, 4, 8}, column[] = {2, -1}, scalar[] = {4};
    expect_binary("\"VE_BINARY_TILE\", \"function\": \"sub\"", all, 6, (const float[]){0, -4, 0, 0, -4.5f, -12});
    expect_binary("\"VE_BINARY_TILE\", \"function\": \"sub\", \"broadcast\": \"row\"", row, 3,
                  (const float[]){-1, -6, -5, 2, -3.5f, -14});
    expect_binary("\"VE_BINARY_TILE\", \"function\": \"div\", \"broadcast\": \"column\"", column, 2,
                  (const float[]){0.5f, -1, 1.5f, -4, -0.5f, 6});
    expect_binary("\"VE_BINARY_TILE\", \"function\": \"max\", \"broadcast\": \"scalar\", \"scale_in2\": 0.25", scalar,
                  1, (const float[]){1, 1, 3, 4, 1, 1});
    expect_binary("\"VE_BINARY_TILE\", \"function\": \"min\", \"broadcast\": \"column\"", column, 2,
                  (const float[]){1, -2, 2, -1, -1, -6});
    expect_binary("\"VE_BINARY_TILE\", \"function\": \"pow\", \"broadcast\": \"column\"", column, 2,
                  (const float[]){1, 4, 9, 0.25f, 2, -1.0f / 6});
    expect_binary("\"VE_ADD_TILE\", \"broadcast\": \"row\"", row, 3, (const float[]){3, 2, 11, 6, 4.5f, 2});
    expect_binary("\"VE_MUL_TILE\", \"broadcast\": \"scalar\"", scalar, 1, (const float[]){4, -8, 12, 16, 2, -24});
    expect_binary("\"VE_MUL_TILE\", \"broadcast\": \"column\"", column, 2, (const float[]){2, -4, 6, -4, -0.5f, 6});
}

static void minimum_and_maximum_order_zeros_and_keep_nan(void **state)
{
    (void)state;
    const float a[] = {0, -0.0f, NAN, 1, -0.0f, 0}, b[] = {-0.0f, 0, 1, NAN, -0.0f, 0};
    const float larger[] = {0, 0, NAN, NAN, -0.0f, 0}, smaller[] = {-0.0f, -0.0f, NAN, NAN, -0.0f, 0};
#define ZEROS "\"opcode\": \"VE_BINARY_TILE\", \"length\": 6, \"in2_bank\": 1, \"in2_offset\": 0, \"function\": "
    expect_floats(ZEROS "\"max\"", a, 6, b, 6, larger, 6);
    expect_floats(ZEROS "\"min\"", a, 6, b, 6, smaller, 6);
}

/* ---- VE_REDUCE_TILE ---- */

static void expect_reduced(const char *function, const float *in, const float expected[2])
{
    char entry[160];
    snprintf(entry, sizeof entry, "\"opcode\": \"VE_REDUCE_TILE\", \"rows\": 2, \"length\": 9, \"function\": \"%s\"",
             function);
    expect_floats(entry, in, 18, NULL, 0, expected, 2);
}

static void rows_are_reduced_to_one_element(void **state)
{
    (void)state;
    /* canonical order: element 8 is added to element 0 first, so that 2^24 + 1 + 1 keeps no 1 where 2^24 + (1 + 1)
     * would; -2^24 of element 4 is added to that partial sum */
    const float in[] = {0x1p24f, 0, 0, 0, -0x1p24f, 0, 0, 0, 1, -1, 5, -3, 5, -7, 2, 2, 2, 4};
    expect_reduced("sum", in, (const float[]){0, 9});
    expect_reduced("mean", in, (const float[]){0, 1});
    expect_reduced("max", in, (const float[]){0x1p24f, 5});
    expect_reduced("min", in, (const float[]){-0x1p24f, -7});
    int32_t index[2];
    const char *argmax = "\"opcode\": \"VE_REDUCE_TILE\", \"rows\": 2, \"length\": 9, \"function\": \"argmax\"";
    run_entry(argmax, in, 18, NULL, 0, index, 2);
    assert_int_equal(index[0], 0);
    assert_int_equal(index[1], 1);
    const float unordered[] = {1, NAN, 3, NAN, INFINITY, 0, 0, 0, 0, -5, -5, -4, -6, -4, -7, -7, -7, -7};
    run_entry(argmax, unordered, 18, NULL, 0, index, 2);
    assert_int_equal(index[0], 1);
    assert_int_equal(index[1], 2);
    expect_reduced("max", unordered, (const float[]){NAN, -4});
}

/* ---- Attention ---- */

static void softmax_of_a_causal_window_skips_the_others(void **state)
{
    (void)state;
    /* equal elements: each row's share is 1 / its number of elements that count. Two heads of three rows, of which the
     * first has 2 valid elements, and a window of 3. */
    float in[30] = {0}, expected[30] = {0};
    for (unsigned r = 0; r < 6; r++) {
        unsigned end = 2 + r % 3, start = end > 3 ? end - 3 : 0;
        for (unsigned i = start; i < end; i++)
            expected[r * 5 + i] = 1 / (float)(end - start);
        in[r * 5 + 4] = 100; /* never valid */
    }
    expect_floats(
        "\"opcode\": \"VE_SOFTMAX_TILE\", \"rows\": 6, \"length\": 5, \"valid_length\": 2, \"valid_step\": 1, "
        "\"valid_rows\": 3, \"window\": 3",
        in, 30, NULL, 0, expected, 30);
    for (unsigned r = 0; r < 6; r++)
        for (unsigned i = 0; i < 5; i++)
            in[r * 5 + i] = 0,
                       expected[r * 5 + i] = r * 2 + 1 < 5 ? (i < r * 2 + 1 ? 1 / (float)(r * 2 + 1) : 0) : 0.2f;
    expect_floats("\"opcode\": \"VE_SOFTMAX_TILE\", \"rows\": 6, \"length\": 5, \"valid_length\": 1, \"valid_step\": 2",
                  in, 30, NULL, 0, expected, 30);
}

/* Heads of 6 elements of which 4 are rotated; factors 1 and 4 divide the angles, which are scaled by 0.5. */
static void leading_elements_of_heads_are_rotated_by_scaled_angles(void **state)
{
    (void)state;
    const float in[] = {1, 2, 3, 4, 5, 6, -1, 0.5f, 2, -3, 7, 8}, factors[] = {1, 4};
    for (unsigned halves = 0; halves < 2; halves++) {
        float expected[12];
        memcpy(expected, in, sizeof in);
        for (unsigned head = 0; head < 2; head++)
            for (unsigned i = 0; i < 2; i++) {
                double angle = 3 * pow(10000, -2.0 * i / 4) * 0.5 / (double)factors[i];
                volatile float c = (float)cosl((long double)angle), s = (float)sinl((long double)angle);
                unsigned first = head * 6 + (halves ? i : 2 * i), second = first + (halves ? 2 : 1);
                volatile float ac = in[first] * c, bs = in[second] * s, as = in[first] * s, bc = in[second] * c;
                expected[first] = ac - bs;
                expected[second] = as + bc;
            }
        char entry[300];
        snprintf(entry, sizeof entry,
                 "\"opcode\": \"VE_ROPE_TILE\", \"length\": 12, \"head_dim\": 6, \"rotary_dim\": 4, \"position\": 3, "
                 "\"frequency_scale\": 0.5, \"factors_bank\": 1, \"factors_offset\": 0, \"pairing\": \"%s\"",
                 halves ? "half" : "adjacent");
        expect_floats(entry, in, 12, factors, 2, expected, 12);
    }
}

/* ---- Tensor engines ---- */

/* One input of 1 and four weights, so that the results are these. */
static void expect_results(const char *fields, const float weights[4], const float expected[4])
{
    const float one = 1;
    char entry[300];
    snprintf(entry, sizeof entry, "\"opcode\": \"TE_GEMM_TILE\", \"m\": 1, \"n\": 4, \"k\": 1%s", fields);
    expect_floats(entry, &one, 1, weights, 4, expected, 4);
}

static void activations_come_after_the_residual_and_before_the_scale(void **state)
{
    (void)state;
    const float x[] = {-3, -0.5f, 0.25f, 7};
    float silu[4], gelu[4], capped[4];
    for (unsigned i = 0; i < 4; i++) {
        long double v = (long double)x[i];
        silu[i] = (float)(v / (1 + expl(-v)));
        gelu[i] = (float)(v * erfcl(-v / sqrtl(2)) / 2);
        float small = (float)tanhl(v / 2);
        capped[i] = small * 2;
    }
    expect_results("", x, x);
    expect_results(", \"activation\": \"relu\"", x, (const float[]){0, 0, 0.25f, 7});
    expect_results(", \"activation\": \"relu\", \"scale_ofm\": 0.5", x, (const float[]){0, 0, 0.5f, 14});
    expect_results(", \"activation\": \"clip\", \"clip_min\": -1, \"clip_max\": 6, \"scale_ofm\": -2", x,
                   (const float[]){0.5f, 0.25f, -0.125f, -3});
    expect_results(", \"activation\": \"silu\"", x, silu);
    expect_results(", \"activation\": \"gelu\"", x, gelu);
    expect_results(", \"soft_cap\": 2", x, capped);
    /* the weights are the residual, too: x + 3 x, and of the same bytes as a residual of 1/2 x */
    expect_results(", \"residual_bank\": 1, \"residual_offset\": 0, \"scale_residual\": 3", x,
                   (const float[]){-12, -2, 1, 28});
    expect_results(", \"residual_bank\": 1, \"residual_offset\": 0, \"scale_residual\": -2, \"activation\": \"relu\"",
                   x, (const float[]){3, 0.5f, 0, 0});
}

/* 2 x 2 pixels of 4 channels; kernel 1 x 2 with a column of zeros at the right only. Two groups of two channels, each
 * with one output; then a depthwise convolution. */
static void groups_of_channels_have_their_own_weights(void **state)
{
    (void)state;
    const float in[] = {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, 0, 1, 0, -1};
#define CONV                                                                                                           \
    "\"opcode\": \"TE_CONV_TILE\", \"in_h\": 2, \"in_w\": 2, \"in_c\": 4, \"kernel_h\": 1, \"kernel_w\": 2, "          \
    "\"pad_right\": 1, "
    const float weights[] = {1, 10, 100, 1000, 2, 3, 4, 5};
    /* group 0: 1 + 20 + 500 + 6000; group 1: 6 + 12 + 28 + 40 */
    expect_floats(CONV "\"out_c\": 2, \"groups\": 2", in, 16, weights, 8,
                  (const float[]){6521, 86, 65, 38, 979, -23, 10, -3}, 8);
    /* channel c of position x: x[c] * w[c][0] + right[c] * w[c][1] */
    expect_floats(CONV "\"out_c\": 4, \"groups\": 4", in, 16, weights, 8,
                  (const float[]){51, 6200, 27, 56, 5, 600, 14, 32, -1, 800, -6, -21, 0, 100, 0, -4}, 16);
}

/* ---- Images ---- */

static void tiles_are_transposed(void **state)
{
    (void)state;
    const float in[] = {1, 2, 3, 4, 5, 6};
    expect_floats("\"opcode\": \"VE_TRANSPOSE_TILE\", \"rows\": 2, \"length\": 3", in, 6, NULL, 0,
                  (const float[]){1, 4, 2, 5, 3, 6}, 6);
    expect_floats("\"opcode\": \"VE_TRANSPOSE_TILE\", \"rows\": 6, \"length\": 1, \"scale_out\": 0.5", in, 6, NULL, 0,
                  (const float[]){2, 4, 6, 8, 10, 12}, 6);
}

#define POOL "\"opcode\": \"VE_POOL_TILE\", \"in_h\": 3, \"in_w\": 3, \"in_c\": 2, "

/* Channel 0 is 1 to 9, channel 1 the negative of it. */
static void pooling_takes_the_elements_inside_the_image(void **state)
{
    (void)state;
    float in[18];
    for (unsigned i = 0; i < 9; i++)
        in[2 * i] = (float)(i + 1), in[2 * i + 1] = -(float)(i + 1);
    expect_floats(POOL "\"function\": \"max\", \"kernel_h\": 2, \"kernel_w\": 2", in, 18, NULL, 0,
                  (const float[]){5, -1, 6, -2, 8, -4, 9, -5}, 8);
    expect_floats(POOL "\"function\": \"avg\", \"kernel_h\": 3, \"kernel_w\": 3", in, 18, NULL, 0,
                  (const float[]){5, -5}, 2);
    /* corners: 1 + 2 + 4 + 5, 2 + 3 + 5 + 6, … with zeros around */
    expect_floats(POOL "\"function\": \"avg\", \"kernel_h\": 3, \"kernel_w\": 3, \"pad_h\": 1, \"pad_w\": 1, "
                       "\"stride_h\": 2, \"stride_w\": 2",
                  in, 18, NULL, 0, (const float[]){3, -3, 4, -4, 6, -6, 7, -7}, 8);
    expect_floats(POOL "\"function\": \"avg\", \"kernel_h\": 3, \"kernel_w\": 3, \"pad_h\": 1, \"pad_w\": 1, "
                       "\"stride_h\": 2, \"stride_w\": 2, \"count_include_pad\": true, \"scale_in\": 9",
                  in, 18, NULL, 0, (const float[]){12, -12, 16, -16, 24, -24, 28, -28}, 8);
    /* the padding is no zero: the maximum of negative numbers is negative */
    expect_floats(POOL "\"function\": \"max\", \"kernel_h\": 2, \"kernel_w\": 2, \"pad_bottom\": 1, \"pad_right\": 1, "
                       "\"stride_h\": 2, \"stride_w\": 2",
                  in, 18, NULL, 0, (const float[]){5, -1, 6, -3, 8, -7, 9, -9}, 8);
    /* a dilated kernel: the corners of the image */
    expect_floats(POOL "\"function\": \"avg\", \"kernel_h\": 2, \"kernel_w\": 2, \"dil_h\": 2, \"dil_w\": 2", in, 18,
                  NULL, 0, (const float[]){5, -5}, 2);
    /* nothing of the first rows and columns of results is inside */
    expect_floats(POOL "\"function\": \"max\", \"kernel_h\": 1, \"kernel_w\": 1, \"pad_h\": 1, \"pad_bottom\": 0, "
                       "\"stride_w\": 3, \"stride_h\": 3",
                  in, 18, NULL, 0, (const float[]){-INFINITY, -INFINITY, 7, -7}, 4);
}

static void expect_resized(const char *fields, const float *in, unsigned count, const float *expected, unsigned results)
{
    char entry[240];
    snprintf(entry, sizeof entry, "\"opcode\": \"VE_RESIZE_TILE\", \"in_c\": 1, %s", fields);
    expect_floats(entry, in, count, NULL, 0, expected, results);
}

/* The examples of ONNX's operator Resize, one row of them. */
static void coordinates_are_those_of_onnx(void **state)
{
    (void)state;
    const float in[] = {1, 2, 3, 4};
#define ROW "\"in_h\": 1, \"in_w\": 4, \"out_h\": 1, \"mode\": "
    /* half_pixel, 4 to 8: -0.25 0.25 0.75 … cut to 0 and 3 */
    expect_resized(ROW "\"linear\", \"out_w\": 8", in, 4,
                   (const float[]){1, 1.25f, 1.75f, 2.25f, 2.75f, 3.25f, 3.75f, 4}, 8);
    /* align_corners, 4 to 7: steps of 1/2 */
    expect_resized(ROW "\"linear\", \"out_w\": 7, \"coordinate_mode\": \"align_corners\"", in, 4,
                   (const float[]){1, 1.5f, 2, 2.5f, 3, 3.5f, 4}, 7);
    /* asymmetric, 4 to 8: steps of 1/2, the last one past the end */
    expect_resized(ROW "\"linear\", \"out_w\": 8, \"coordinate_mode\": \"asymmetric\"", in, 4,
                   (const float[]){1, 1.5f, 2, 2.5f, 3, 3.5f, 4, 4}, 8);
    /* one result: half_pixel the middle, the others the first element */
    expect_resized(ROW "\"linear\", \"out_w\": 1", in, 4, (const float[]){2.5f}, 1);
    expect_resized(ROW "\"linear\", \"out_w\": 1, \"coordinate_mode\": \"align_corners\"", in, 4, (const float[]){1},
                   1);
    /* asymmetric coordinates 0, 1/2, 1, 3/2 …: ties by the mode of nearest */
#define TIES ROW "\"nearest\", \"out_w\": 8, \"coordinate_mode\": \"asymmetric\", \"nearest_mode\": "
    expect_resized(TIES "\"floor\"", in, 4, (const float[]){1, 1, 2, 2, 3, 3, 4, 4}, 8);
    expect_resized(TIES "\"round_prefer_floor\"", in, 4, (const float[]){1, 1, 2, 2, 3, 3, 4, 4}, 8);
    expect_resized(TIES "\"round_prefer_ceil\"", in, 4, (const float[]){1, 2, 2, 3, 3, 4, 4, 4}, 8);
    expect_resized(TIES "\"ceil\"", in, 4, (const float[]){1, 2, 2, 3, 3, 4, 4, 4}, 8);
    /* half_pixel, 4 to 3: 1/6, 3/2, 17/6 */
    expect_resized(ROW "\"nearest\", \"out_w\": 3", in, 4, (const float[]){1, 2, 4}, 3);
    expect_resized(ROW "\"nearest\", \"out_w\": 3, \"nearest_mode\": \"round_prefer_ceil\"", in, 4,
                   (const float[]){1, 3, 4}, 3);
}

static void four_elements_are_weighted_by_their_distance(void **state)
{
    (void)state;
    const float in[] = {1, 2, 3, 4};
    expect_resized("\"in_h\": 2, \"in_w\": 2, \"out_h\": 3, \"out_w\": 3, \"mode\": \"linear\", \"coordinate_mode\": "
                   "\"align_corners\"",
                   in, 4, (const float[]){1, 1.5f, 2, 2, 2.5f, 3, 3, 3.5f, 4}, 9);
    /* an element of weight 0 does not count, even if it is infinite */
    const float wild[] = {1, INFINITY, 3, NAN};
    expect_resized("\"in_h\": 2, \"in_w\": 2, \"out_h\": 2, \"out_w\": 2, \"mode\": \"linear\"", wild, 4, wild, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(piecewise_functions_are_those_of_the_decisions),
        cmocka_unit_test(special_functions_are_rounded_once),
        cmocka_unit_test(second_inputs_are_repeated),
        cmocka_unit_test(minimum_and_maximum_order_zeros_and_keep_nan),
        cmocka_unit_test(rows_are_reduced_to_one_element),
        cmocka_unit_test(softmax_of_a_causal_window_skips_the_others),
        cmocka_unit_test(activations_come_after_the_residual_and_before_the_scale),
        cmocka_unit_test(groups_of_channels_have_their_own_weights),
        cmocka_unit_test(tiles_are_transposed),
        cmocka_unit_test(pooling_takes_the_elements_inside_the_image),
        cmocka_unit_test(coordinates_are_those_of_onnx),
        cmocka_unit_test(four_elements_are_weighted_by_their_distance),
        cmocka_unit_test(leading_elements_of_heads_are_rotated_by_scaled_angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
