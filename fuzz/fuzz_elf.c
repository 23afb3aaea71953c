/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the input as an ELF program; if that succeeds, reads every part of the program. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/targets.h"
#include "mutator.h"
#include "program/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t look(const tv_program *program)
{
    tv_symbol symbol;
    tv_segment segment;
    tv_descriptor descriptor;
    tv_source_line line;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < tv_program_instruction_count(program); i++) {
        sum += tv_program_word(program, i);
        if (tv_program_line(program, i, &line))
            sum += strlen(line.file);
    }
    for (uint64_t i = 0; tv_program_symbol_at(program, i, &symbol); i++)
        sum += strlen(symbol.name);
    for (uint64_t i = 0; tv_program_segment_at(program, i, &segment); i++)
        for (uint64_t k = 0; segment.bytes && k < segment.size; k++)
            sum += segment.bytes[k];
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++)
        for (uint64_t i = 0; tv_program_descriptor_at(program, k, i, &descriptor); i++)
            sum += descriptor.bytes;
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tv_program *program;
    tv_input input = {.data = malloc(size ? size : 1), .size = size};
    memcpy((uint8_t *)(uintptr_t)input.data, data, size);
    if (tv_elf_read("fuzz.elf", &input, &tv_isas, NULL, &program) == TV_OK) {
        volatile uint64_t count = look(program);
        (void)count;
        tv_program_free(program);
    }
    if (input.data)
        tv_input_close(&input);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_random random = fuzz_random_of(seed);
    return fuzz_mutate_elf(data, size, max_size, &random);
}
