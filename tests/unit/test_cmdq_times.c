/* SPDX-License-Identifier: Apache-2.0 */
/* Times of the opcodes and fields of version 1.3, worked out from the rules of docs/timing/cmdq.md. */
#include "test_cmdq.h"

/* 16^3 takes 13 cycles; a pass over its 256 results takes 4, a function 16. */
static void residuals_and_special_functions_of_results_take_time(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        unsigned cycles;
    } rows[] = {{", \"activation\": \"none\"", 13},
                {", \"activation\": \"relu\"", 13},
                {", \"activation\": \"clip\", \"clip_max\": 6", 13},
                {", \"activation\": \"silu\"", 13 + 16 + 4},
                {", \"activation\": \"gelu\"", 13 + 16 + 4},
                {", \"soft_cap\": 30", 13 + 16 + 4},
                {", \"residual_bank\": 3, \"residual_offset\": 0", 13 + 4},
                {", \"residual_bank\": 3, \"residual_offset\": 0, \"soft_cap\": 30, \"activation\": \"tanh\"",
                 13 + 4 + 2 * (16 + 4)}};
    for (unsigned i = 0; i < TV_COUNTOF(rows); i++) {
        char entry[500];
        snprintf(entry, sizeof entry, "%s%s",
                 GEMM("0", "\"m\": 16, \"n\": 16, \"k\": 16, \"qbits_weight\": 8, \"qbits_activation\": 8"),
                 rows[i].fields);
        expect_busy("TE0", rows[i].cycles, NULL, entry);
    }
}

/* 8 x 8 outputs of 64 channels by 3 x 3: a group of fewer than 32 input channels takes the array as 32. */
static void groups_of_few_channels_take_the_array_as_32(void **state)
{
    (void)state;
    static const struct {
        unsigned in_c, groups, channels;
    } rows[] = {{64, 1, 64}, {64, 64, 32}, {64, 2, 32}, {128, 2, 64}, {64, 4, 32}, {3, 1, 3}};
    for (unsigned i = 0; i < TV_COUNTOF(rows); i++) {
        char entry[500];
        snprintf(entry, sizeof entry,
                 "\"opcode\": \"TE_CONV_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, "
                 "\"wgt_offset\": 0, \"ofm_bank\": 2, \"ofm_offset\": 0, \"in_h\": 8, \"in_w\": 8, \"in_c\": %u, "
                 "\"out_c\": 64, \"kernel_h\": 3, \"kernel_w\": 3, \"pad_h\": 1, \"pad_w\": 1, \"groups\": %u, "
                 "\"qbits_weight\": 8, \"qbits_activation\": 8",
                 rows[i].in_c, rows[i].groups);
        expect_busy("TE0", 8 + (64 * 64 * 9 * rows[i].channels + 4095) / 4096 + 4, NULL, entry);
    }
}

static void special_functions_take_the_special_function_unit(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool special;
    } unary[] = {{"relu", false}, {"leaky_relu", false}, {"abs", false},        {"neg", false}, {"sigmoid", true},
                 {"tanh", true},  {"exp", true},         {"log", true},         {"sqrt", true}, {"recip", true},
                 {"erf", true},   {"hardswish", false},  {"hardsigmoid", false}},
      binary[] = {{"sub", false}, {"div", true}, {"min", false}, {"max", false}, {"pow", true}};
    char entry[400];
    for (unsigned i = 0; i < TV_COUNTOF(unary); i++) {
        snprintf(entry, sizeof entry,
                 ROWS("VE_UNARY_TILE", "\"length\": 4096, \"rows\": 2, \"qbits_activation\": 32, \"function\": \"%s\""),
                 unary[i].name);
        expect_busy("VE1", 8 + 2 * (unary[i].special ? 64 + 16 : 64) + 4, NULL, entry);
    }
    for (unsigned i = 0; i < TV_COUNTOF(binary); i++) {
        snprintf(entry, sizeof entry,
                 ROWS("VE_BINARY_TILE", "\"length\": 4096, \"rows\": 2, \"qbits_activation\": 32, \"in2_bank\": 2, "
                                        "\"in2_offset\": 0, \"broadcast\": \"row\", \"function\": \"%s\""),
                 binary[i].name);
        expect_busy("VE1", 8 + 2 * (binary[i].special ? 64 + 16 : 64) + 4, NULL, entry);
    }
}

/* 8 x 8 pixels of 64 channels: a pass over as many elements takes 64 cycles. */
static void images_take_a_pass_over_the_elements_of_their_results(void **state)
{
    (void)state;
#define IMAGE "\"in_h\": 8, \"in_w\": 8, \"in_c\": 64, \"qbits_activation\": 32, "
    expect_busy("VE1", 8 + 4 * 4 * 4 + 4, NULL,
                ROWS("VE_POOL_TILE", IMAGE "\"function\": \"max\", \"kernel_h\": 2, \"kernel_w\": 2, \"stride_h\": 2, "
                                           "\"stride_w\": 2"));
    expect_busy("VE1", 8 + 64 * 9 + 4, NULL,
                ROWS("VE_POOL_TILE", IMAGE "\"function\": \"avg\", \"kernel_h\": 3, \"kernel_w\": 3, \"pad_h\": 1, "
                                           "\"pad_w\": 1"));
    expect_busy("VE1", 8 + 16 * 12 + 4, NULL,
                ROWS("VE_RESIZE_TILE", IMAGE "\"mode\": \"nearest\", \"out_h\": 16, \"out_w\": 12"));
    expect_busy("VE1", 8 + 16 * 12 * 4 + 4, NULL,
                ROWS("VE_RESIZE_TILE", IMAGE "\"mode\": \"linear\", \"out_h\": 16, \"out_w\": 12"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residuals_and_special_functions_of_results_take_time),
        cmocka_unit_test(groups_of_few_channels_take_the_array_as_32),
        cmocka_unit_test(special_functions_take_the_special_function_unit),
        cmocka_unit_test(images_take_a_pass_over_the_elements_of_their_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
