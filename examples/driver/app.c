/* SPDX-License-Identifier: Apache-2.0 */
/* An application above the driver's hardware functions: p = softmax(W x) of a matrix with 16 rows of 32 INT4, on the
 * model instead of a board. It prepares memory, writes instruction words to the register window, waits, and compares
 * with binary64.
 *
 *     driver-app           the product and the softmax
 *     driver-app --faulty  with an instruction that faults in between: the application clears the error and repeats
 *     driver-app --masked  a function of 70,000 numbers, whose count is masked to the field of the instruction */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal.h"

enum { INPUTS = 32, OUTPUTS = 16, X_AT = 0, W_AT = 64, P_AT = 512, TIMEOUT_US = 1000 };

static const char *const instructions[] = {"memset fmap_shape[0], 32, 1, 1",
                                           "memset fmap_shape[1], 16, 1, 1",
                                           "memset fmap_shape[2], 0, 0, 0",
                                           "memset weight_shape[0], 1, 16, 32",
                                           "memcpy l2[0], host[0], shape=0",
                                           "gemv l2[4], l2[0], size=2, shape=0, w_scale, findemax",
                                           "cvo.exp l2[9], l2[4], len=16, sub_emax",
                                           "cvo.reduce_sum l2[8], l2[9], len=16",
                                           "cvo.scale l2[12], l2[8], len=16, recip_scale",
                                           "memcpy host[512], l2[12], shape=1"};

static const char no_elements[] = "cvo.exp l2[0], l2[3], len=0"; /* faults */

/* The word of one line of assembly, which a driver has as a constant or encodes itself. */
static uint64_t word_of(const char *line)
{
    char text[128];
    tv_program *program;
    snprintf(text, sizeof text, "        .target pccx\n        %s\n", line);
    if (tv_program_assemble("line", text, strlen(text), NULL, NULL, &program) != TV_OK)
        return 0;
    uint64_t word = tv_program_word(program, 0);
    tv_program_free(program);
    return word;
}

static double input(int k) { return (k % 7 - 3) / 4.0; }

static int weight(int n, int k) { return (3 * n + 5 * k) % 15 - 7; }

/* The upper half of binary32; the numbers here are exact in BF16. */
static void store_bf16(uint8_t *to, double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    to[0] = (uint8_t)(bits >> 16);
    to[1] = (uint8_t)(bits >> 24);
}

static double load_bf16(const uint8_t *from)
{
    uint32_t bits = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 24;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* The inputs, and the weights with a scale for each row before them. Returns the bytes of the weights. */
static uint64_t prepare_memory(void)
{
    uint8_t x[INPUTS * 2], w[OUTPUTS * 2 + OUTPUTS * INPUTS / 2];
    for (int k = 0; k < INPUTS; k++)
        store_bf16(x + 2 * k, input(k));
    for (int n = 0; n < OUTPUTS; n++)
        store_bf16(w + 2 * n, 1 / 16.0);
    for (int n = 0; n < OUTPUTS; n++)
        for (int k = 0; k < INPUTS; k += 2)
            w[OUTPUTS * 2 + (n * INPUTS + k) / 2] = (uint8_t)((weight(n, k) & 15) | (weight(n, k + 1) & 15) << 4);
    tv_machine_write(hal_machine(), "host", X_AT, x, sizeof x, NULL);
    tv_machine_write(hal_machine(), "host", W_AT, w, sizeof w, NULL);
    return sizeof w;
}

/* Issues all instructions and waits. 0, or -1 with a message. */
static int run(uint64_t weight_bytes, int faulty)
{
    hal_stream(1, W_AT, weight_bytes);
    for (unsigned i = 0; i < sizeof instructions / sizeof instructions[0]; i++) {
        while (uca_hal_read_status() & TV_WINDOW_FULL)
            ;
        uca_hal_issue_instr(word_of(instructions[i]));
        if (faulty && i == 4)
            uca_hal_issue_instr(word_of(no_elements));
    }
    if (uca_hal_wait_idle(TIMEOUT_US) != 0) {
        puts("the accelerator is busy after a millisecond");
        return -1;
    }
    if (uca_hal_read_status() & TV_WINDOW_ERROR) {
        printf("fault: %s\n", tv_machine_fault(hal_machine())->message);
        return -1;
    }
    return 0;
}

static double max_error(void)
{
    uint8_t p[OUTPUTS * 2];
    double z[OUTPUTS], max = -INFINITY, sum = 0, error = 0;
    tv_machine_read(hal_machine(), "host", P_AT, p, sizeof p, NULL);
    for (int n = 0; n < OUTPUTS; n++) {
        z[n] = 0;
        for (int k = 0; k < INPUTS; k++)
            z[n] += weight(n, k) / 16.0 * input(k);
        max = fmax(max, z[n]);
    }
    for (int n = 0; n < OUTPUTS; n++)
        sum += exp(z[n] - max);
    for (int n = 0; n < OUTPUTS; n++)
        error = fmax(error, fabs(load_bf16(p + 2 * n) - exp(z[n] - max) / sum));
    return error;
}

/* An error of drivers: the functions take any count, and the word only its low bits. */
static void apply_function(uint32_t dst, uint32_t src, uint32_t count)
{
    uca_hal_issue_instr(UINT64_C(0x4) << 60 | (uint64_t)(src & 0x1FFFF) << 39 | (uint64_t)(dst & 0x1FFFF) << 22 |
                        (uint64_t)(count & 0xFFFF) << 6);
}

static int run_masked(void)
{
    uca_hal_issue_instr(word_of("memset fmap_shape[0], 35000, 2, 1"));
    uca_hal_issue_instr(word_of("memcpy l2[0], host[0], shape=0"));
    apply_function(0x4000, 0, 70000);
    int result = uca_hal_wait_idle(TIMEOUT_US);
    puts(result == 0 ? "70000 exponentials" : "the accelerator is busy after a millisecond");
    uca_hal_deinit();
    return result == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    int faulty = argc > 1 && strcmp(argv[1], "--faulty") == 0;
    int masked = argc > 1 && strcmp(argv[1], "--masked") == 0;
    if (masked)
        setenv("TRIVET_MASKS", "1", 1);
    if (uca_hal_init() != 0)
        return 2;
    if (masked)
        return run_masked();
    uint64_t bytes = prepare_memory();
    int result = run(bytes, faulty);
    if (result != 0 && faulty) {
        uca_hal_write32(TV_WINDOW_CONTROL, TV_WINDOW_RESET);
        puts("reset; once more");
        result = run(bytes, 0);
    }
    if (result == 0) {
        double error = max_error();
        printf("softmax of 16 results: error at most %.4f, %llu cycles\n", error,
               (unsigned long long)tv_machine_clock(hal_machine()));
        result = error < 0.01 ? 0 : 1;
    }
    uca_hal_deinit();
    return result == 0 ? 0 : 1;
}
