/* SPDX-License-Identifier: Apache-2.0 */
/* Any words as a program: checked, then run for some instructions. The machine faults or ends; accounts always add up,
 * which the library itself asserts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "object/program.h"
#include "trivet/trivet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const small[][2] = {{"host.bytes", "1Mi"}, {"l2.words", "4096"}, {"fifo.elements", "64"}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tv_config *config;
    tv_machine *machine;
    tv_program *program;
    tv_check_counts counts;
    tv_input input = {.data = malloc(size + 8), .size = (size < 512 ? size : 512) / 8 * 8};
    memcpy((uint8_t *)(uintptr_t)input.data, data, input.size);
    if (tv_raw_read_bin("fuzz.bin", &input, tv_isa_at(0), NULL, &program) != TV_OK || tv_config_new("pccx", NULL, &config) != TV_OK)
        abort();
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        tv_config_set(config, small[i][0], small[i][1], NULL);
    if (tv_program_check(program, config, NULL, &counts) != TV_OK || tv_machine_new(config, TV_MODE_FULL, NULL, &machine) != TV_OK)
        abort();
    /* A machine that has seen some shapes gets further than one just reset. */
    uint16_t shape[6] = {2, 3, 5, 1, 7, 33};
    tv_machine_write(machine, "const", 0, shape, 6, NULL);
    tv_machine_write(machine, "const", 64, shape + 3, 6, NULL);
    tv_machine_load(machine, program, NULL);
    tv_machine_run(machine, NULL, NULL);
    tv_machine_free(machine);
    tv_config_free(config);
    tv_program_free(program);
    return 0;
}
