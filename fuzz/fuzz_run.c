/* SPDX-License-Identifier: Apache-2.0 */
/* Any words as a program: checked, then run for some instructions. The machine faults or ends; accounts always add up,
 * which the library itself asserts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/targets.h"
#include "program/program.h"
#include "trivet/trivet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A small machine makes the ends of its memories easy to find. */
static const struct {
    const char *target, *key, *value;
} small[] = {{"pccx", "host.bytes", "1Mi"},    {"pccx", "l2.words", "4096"}, {"pccx", "fifo.elements", "64"},
             {"opennpu", "mem.bytes", "64Ki"}, {"opennpu", "vector.k", "8"}, {"opennpu", "vector.l", "28"}};

static tv_config *small_config(const char *target)
{
    tv_config *config;
    if (tv_config_new(target, NULL, &config) != TV_OK)
        abort();
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        if (strcmp(small[i].target, target) == 0 && tv_config_set(config, small[i].key, small[i].value, NULL) != TV_OK)
            abort();
    return config;
}

/* A pccx machine that has seen some shapes gets further than one just reset; others have no such space. */
static void warm_up(tv_machine *machine)
{
    uint16_t shape[6] = {2, 3, 5, 1, 7, 33};
    tv_machine_write(machine, "const", 0, shape, 6, NULL);
    tv_machine_write(machine, "const", 64, shape + 3, 6, NULL);
}

static void run_words(const tv_isa *isa, const uint8_t *data, size_t size)
{
    tv_machine *machine;
    tv_program *program;
    tv_check_counts counts;
    tv_stats stats = {.size = sizeof stats};
    tv_input input = {.data = malloc(size + 8), .size = (size < 512 ? size : 512) / 8 * 8};
    memcpy((uint8_t *)(uintptr_t)input.data, data, input.size);
    tv_config *config = small_config(isa->target);
    if (tv_raw_read_bin("fuzz.bin", &input, isa, NULL, &program) != TV_OK ||
        tv_program_check(program, config, NULL, &counts) != TV_OK ||
        tv_machine_new(config, TV_MODE_FULL, NULL, &machine) != TV_OK)
        abort();
    warm_up(machine);
    tv_machine_load(machine, program, NULL);
    tv_machine_run(machine, NULL, NULL);
    tv_machine_stats(machine, &stats);
    tv_machine_free(machine);
    tv_config_free(config);
    tv_program_free(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (unsigned i = 0; i < tv_isas.count; i++)
        if (tv_isas.isas[i]->word_bits)
            run_words(tv_isas.isas[i], data, size);
    return 0;
}
