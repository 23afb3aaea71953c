/* SPDX-License-Identifier: Apache-2.0 */
/* A machine gives the same bits and cycles with any number of host threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trivet/trivet.h"

/* Large enough that the work is shared out: a product in integers, one in floating point, and rows of softmax. */
static const char queue[] =
    "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [\n"
    "{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, \"wgt_offset\": "
    "0, \"ofm_bank\": 2, \"ofm_offset\": 0,"
    " \"m\": 61, \"n\": 67, \"k\": 512, \"qbits_weight\": 4, \"qbits_activation\": 8, \"scale_wgt\": 0.01},\n"
    "{\"opcode\": \"VE_SOFTMAX_TILE\", \"ve_id\": 0, \"in_bank\": 2, \"in_offset\": 0, \"out_bank\": 3, "
    "\"out_offset\": 0, \"length\": 67, \"rows\": 61,"
    " \"qbits_activation\": 32, \"deps_before\": [0]},\n"
    "{\"opcode\": \"VE_GELU_TILE\", \"ve_id\": 0, \"in_bank\": 0, \"in_offset\": 0, \"out_bank\": 5, \"out_offset\": "
    "0, \"length\": 256, \"rows\": 100,"
    " \"qbits_activation\": 8, \"qbits_out\": 32, \"scale_in\": 0.03, \"deps_before\": [1]},\n"
    "{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 5, \"ifm_offset\": 0, \"wgt_bank\": 1, \"wgt_offset\": "
    "0, \"ofm_bank\": 4, \"ofm_offset\": 0,"
    " \"m\": 31, \"n\": 129, \"k\": 300, \"qbits_weight\": 2, \"qbits_activation\": 32, \"deps_before\": [2]},\n"
    "{\"opcode\": \"END\"}]}\n";

enum { BYTES = 16384 };

typedef struct result {
    uint8_t banks[3][BYTES];
    uint64_t cycles;
} result;

static void run_with(const tv_program *program, unsigned threads, result *out)
{
    tv_config *config;
    tv_machine *machine;
    tv_stats stats = {.size = sizeof stats};
    uint8_t input[40000];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof input; i++)
        input[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_machine_set_threads(machine, threads);
    for (unsigned bank = 0; bank < 2; bank++)
        assert_int_equal(tv_machine_write(machine, "spm", bank * UINT64_C(262144), input, sizeof input, NULL), TV_OK);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    for (unsigned bank = 0; bank < 3; bank++)
        assert_int_equal(tv_machine_read(machine, "spm", (bank + 2) * UINT64_C(262144), out->banks[bank], BYTES, NULL),
                         TV_OK);
    tv_machine_stats(machine, &stats);
    out->cycles = stats.cycles;
    tv_machine_free(machine);
    tv_config_free(config);
}

static void any_number_of_threads_gives_the_same_bits_and_cycles(void **state)
{
    (void)state;
    static result one, many;
    char path[] = "/tmp/trivet-threads-XXXXXX";
    int fd = mkstemp(path);
    tv_program *program;
    assert_true(fd >= 0 && write(fd, queue, strlen(queue)) == (ssize_t)strlen(queue) && close(fd) == 0);
    assert_int_equal(tv_program_open(path, NULL, NULL, &program), TV_OK);
    remove(path);
    run_with(program, 1, &one);
    for (unsigned threads = 2; threads <= 9; threads++) {
        run_with(program, threads, &many);
        assert_memory_equal(&one, &many, sizeof one);
    }
    tv_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits_and_cycles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
