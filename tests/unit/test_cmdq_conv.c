/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of integers whose sizes need every path: blocks of positions, pixels as they are, depthwise with many
 * channels, groups; compared with a direct loop. Sums are below 2^24, so that binary32 has them exactly. Other widths
 * and roundings are in test_cmdq_te.c. */
#include "test_cmdq.h"

enum { BANK = 1 << 20, IN_MAX = 1 << 19, OUT_MAX = 1 << 18 };

typedef struct conv {
    uint64_t height, width, channels, out, groups, kernel_h, kernel_w, stride, pad, dilation;
} conv;

static int8_t input[IN_MAX], weights[IN_MAX];
static float results[OUT_MAX], bias[4096];

static uint64_t side(uint64_t in, uint64_t kernel, const conv *c)
{
    return (in + 2 * c->pad - (kernel - 1) * c->dilation - 1) / c->stride + 1;
}

/* One output, added up element by element. */
static int64_t direct(const conv *c, uint64_t row, uint64_t column, uint64_t out)
{
    uint64_t in_group = c->channels / c->groups, first = out / (c->out / c->groups) * in_group;
    int64_t sum = 0;
    for (uint64_t y = 0; y < c->kernel_h; y++)
        for (uint64_t x = 0; x < c->kernel_w; x++)
            for (uint64_t i = 0; i < in_group; i++) {
                int64_t r = (int64_t)(row * c->stride + y * c->dilation) - (int64_t)c->pad,
                        s = (int64_t)(column * c->stride + x * c->dilation) - (int64_t)c->pad;
                if (r >= 0 && r < (int64_t)c->height && s >= 0 && s < (int64_t)c->width)
                    sum += input[((uint64_t)r * c->width + (uint64_t)s) * c->channels + first + i] *
                           weights[((out * c->kernel_h + y) * c->kernel_w + x) * in_group + i];
            }
    return sum;
}

static void run_conv(const conv *c, unsigned threads)
{
    static const char *const overrides[] = {"spm.bank_bytes=1048576", NULL};
    queue_text q = {0};
    tv_machine *machine = machine_with(TV_MODE_FUNCTIONAL, overrides);
    uint64_t height = side(c->height, c->kernel_h, c), width = side(c->width, c->kernel_w, c),
             in = c->height * c->width * c->channels,
             count = c->out * c->kernel_h * c->kernel_w * c->channels / c->groups;
    assert_true(in <= IN_MAX && count <= IN_MAX && height * width * c->out <= OUT_MAX);
    tv_machine_set_threads(machine, threads);
    tv_machine_write(machine, "spm", 0, input, in, NULL);
    tv_machine_write(machine, "spm", BANK, weights, count, NULL);
    tv_machine_write(machine, "spm", 3 * (uint64_t)BANK, bias, c->out * 4, NULL);
    queue_add(&q,
              "\"opcode\": \"TE_CONV_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, "
              "\"wgt_offset\": 0, \"ofm_bank\": 2, \"ofm_offset\": 0, \"bias_bank\": 3, \"bias_offset\": 0, "
              "\"in_h\": %u, \"in_w\": %u, \"in_c\": %u, \"out_c\": %u, \"kernel_h\": %u, \"kernel_w\": %u, "
              "\"stride_h\": %u, \"stride_w\": %u, \"pad_h\": %u, \"pad_w\": %u, \"dil_h\": %u, \"dil_w\": %u, "
              "\"groups\": %u, \"qbits_weight\": 8, \"qbits_activation\": 8",
              (unsigned)c->height, (unsigned)c->width, (unsigned)c->channels, (unsigned)c->out, (unsigned)c->kernel_h,
              (unsigned)c->kernel_w, (unsigned)c->stride, (unsigned)c->stride, (unsigned)c->pad, (unsigned)c->pad,
              (unsigned)c->dilation, (unsigned)c->dilation, (unsigned)c->groups);
    tv_program *program = queue_open(&q);
    run_all(machine, program);
    tv_machine_read(machine, "spm", 2 * (uint64_t)BANK, results, height * width * c->out * 4, NULL);
    for (uint64_t i = 0; i < height * width * c->out; i++) {
        uint64_t out = i % c->out, pixel = i / c->out;
        float want = (float)direct(c, pixel / width, pixel % width, out) + bias[out];
        if (results[i] != want)
            fail_msg("%u x %u x %u to %u, kernel %u x %u: output %u is %g, not %g", (unsigned)c->height,
                     (unsigned)c->width, (unsigned)c->channels, (unsigned)c->out, (unsigned)c->kernel_h,
                     (unsigned)c->kernel_w, (unsigned)i, (double)results[i], (double)want);
    }
    tv_program_free(program);
    tv_machine_free(machine);
}

static void convolutions_of_integers_equal_a_direct_loop(void **state)
{
    (void)state;
    static const conv cases[] = {
        {20, 17, 24, 40, 1, 1, 1, 1, 0, 1},      /* pixels as they are */
        {20, 17, 24, 40, 1, 1, 1, 2, 0, 1},      /* every second pixel */
        {20, 17, 3, 32, 1, 3, 3, 2, 1, 1},       /* few channels */
        {16, 15, 33, 7, 1, 3, 3, 1, 1, 1},       /* sizes that are no multiples of a block */
        {14, 14, 200, 16, 1, 3, 3, 1, 1, 1},     /* several blocks of positions */
        {9, 12, 16, 16, 1, 3, 5, 1, 2, 2},       /* dilation */
        {5, 5, 16, 5, 1, 7, 7, 1, 4, 1},         /* a kernel larger than the input */
        {12, 11, 64, 64, 64, 3, 3, 1, 1, 1},     /* depthwise, whole vectors */
        {12, 11, 100, 100, 100, 3, 3, 2, 1, 1},  /* depthwise, some channels left */
        {4, 5, 1100, 1100, 1100, 3, 3, 1, 1, 1}, /* depthwise, more channels than at once */
        {6, 6, 70, 70, 70, 3, 3, 1, 2, 2},       /* depthwise, dilation */
        {40, 40, 2, 2, 2, 17, 17, 1, 8, 1},      /* depthwise, more taps than at once */
        {8, 8, 24, 48, 3, 3, 3, 1, 1, 1},        /* groups */
        {8, 8, 24, 48, 24, 3, 3, 1, 1, 1},       /* two outputs of each channel */
        {1, 1, 50, 3, 1, 1, 1, 1, 0, 1},         /* one position */
    };
    unit_rng rng = {41};
    for (size_t i = 0; i < sizeof input; i++) {
        input[i] = (int8_t)unit_next(&rng);
        weights[i] = (int8_t)unit_next(&rng);
    }
    input[0] = weights[0] = -128;
    for (size_t i = 0; i < TV_COUNTOF(bias); i++)
        bias[i] = (float)unit_below(&rng, 1000) - 500;
    for (size_t i = 0; i < TV_COUNTOF(cases); i++)
        for (unsigned threads = 1; threads <= 2; threads++)
            run_conv(&cases[i], threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_integers_equal_a_direct_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
