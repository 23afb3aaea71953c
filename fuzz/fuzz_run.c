/* SPDX-License-Identifier: Apache-2.0 */
/* Any words as a program of FUZZ_MACHINE, the name of a target: checked, then run. The machine faults or ends; accounts
 * always add up, which the library itself asserts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "isa_mutator.h"
#include "program/program.h"
#include "trivet/trivet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A small machine makes the ends of its memories easy to find. Made once. */
static const struct {
    const char *target, *key, *value;
} small[] = {{"pccx", "host.bytes", "64Ki"},   {"pccx", "l2.words", "1024"}, {"pccx", "fifo.elements", "64"},
             {"opennpu", "mem.bytes", "64Ki"}, {"opennpu", "vector.k", "8"}, {"opennpu", "vector.l", "28"}};

static const tv_config *small_config(void)
{
    static tv_config *config;
    if (config)
        return config;
    if (tv_config_new(FUZZ_MACHINE, NULL, &config) != TV_OK)
        abort();
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        if (strcmp(small[i].target, FUZZ_MACHINE) == 0 &&
            tv_config_set(config, small[i].key, small[i].value, NULL) != TV_OK)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tv_isa *isa = tv_isa_find(&tv_isas, tv_sv_of(FUZZ_MACHINE));
    const tv_config *config = small_config();
    tv_machine *machine;
    tv_program *program;
    tv_check_counts counts;
    tv_stats stats = {.size = sizeof stats};
    size_t bytes = isa->word_bits / 8;
    tv_input input = {.data = malloc(size + 8), .size = (size < 512 ? size : 512) / bytes * bytes};
    memcpy((uint8_t *)(uintptr_t)input.data, data, input.size);
    if (tv_raw_read_bin("fuzz.bin", &input, isa, NULL, &program) != TV_OK ||
        tv_program_check(program, config, NULL, &counts) != TV_OK ||
        tv_machine_new(config, TV_MODE_FULL, NULL, &machine) != TV_OK)
        abort();
    warm_up(machine);
    tv_machine_load(machine, program, NULL);
    tv_machine_run(machine, NULL, NULL);
    tv_machine_stats(machine, &stats);
    tv_machine_free(machine);
    tv_program_free(program);
    return 0;
}

/* Legal words let the machine execute. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_random random = fuzz_random_of(seed);
    return fuzz_mutate_words(tv_isa_find(&tv_isas, tv_sv_of(FUZZ_MACHINE)), data, size, max_size, &random);
}
