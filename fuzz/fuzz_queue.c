/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a command queue. The two paths of the reader must agree. A queue that is read is printed, checked and
 * run in two slices on a small machine; some are written, read and written again, which must give the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tests/unit/cmdq_paths.h"
#include "mutator.h"
#include "queue_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tv_program *read_queue(const uint8_t *data, size_t size)
{
    tv_program *program;
    tv_input input = {.data = malloc(size ? size : 1),
                      .size = size}; /* allocated exactly, so that sanitizers find an access past the end */
    memcpy((uint8_t *)(uintptr_t)input.data, data, size);
    return cmdq_read("fuzz.json", &input, NULL, &program) == TV_OK ? program : NULL;
}

/* With space after the end the fast path can read the last entries, too: every second input, by its hash. */
static void compare_reader_paths(const uint8_t *data, size_t size, bool with_space)
{
    enum { SPACE = 64 };
    if (!with_space) {
        if (compare_paths(data, size, NULL, NULL))
            abort();
        return;
    }
    uint8_t *longer = malloc(size + SPACE);
    memcpy(longer, data, size);
    memset(longer + size, ' ', SPACE);
    if (compare_paths(longer, size + SPACE, NULL, NULL))
        abort();
    free(longer);
}

static void print_all(const tv_program *program)
{
    tv_buf text = {0};
    for (uint64_t i = 0; i < tv_program_instruction_count(program); i++) {
        text.len = 0;
        cmdq_print_entry(cmdq_queue_of(program), (uint32_t)i, &text);
    }
    tv_buf_fini(&text);
}

/* Writes to `path` and reads that. */
static tv_program *written_and_read(const tv_program *program, const char *path, tv_program_format format)
{
    tv_program *again;
    tv_input input;
    if (tv_program_save(program, path, format, NULL) != TV_OK || tv_input_open(path, NULL, &input) != TV_OK)
        abort();
    if (cmdq_read(path, &input, NULL, &again) != TV_OK)
        abort();
    return again;
}

static void write_twice(const tv_program *program, tv_program_format format)
{
    char folder[] = "/tmp/trivet-fuzz-queue-XXXXXX", path[64];
    if (!mkdtemp(folder))
        abort();
    snprintf(path, sizeof path, "%s/again.json", folder);
    tv_program *first = written_and_read(program, path, format);
    tv_program *second = written_and_read(first, path, format);
    if (first->input.size != second->input.size ||
        memcmp(first->input.data, second->input.data, first->input.size) != 0)
        abort();
    tv_program_free(first);
    tv_program_free(second);
    unlink(path);
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t hash = tv_sv_hash((tv_sv){(const char *)data, size});
    compare_reader_paths(data, size, hash / 32 % 2);
    tv_program *program = read_queue(data, size);
    if (!program)
        return 0;
    print_all(program);
    fuzz_check_and_run(program);
    if (hash % 16 == 0 && !cmdq_queue_of(program)->files.count) /* files are not beside the written queue */
        write_twice(program, hash / 16 % 2 ? TV_FORMAT_JSON : TV_FORMAT_JSON_LINES);
    tv_program_free(program);
    return 0;
}

/* The names of opcodes, fields and their values. */
static const fuzz_keywords *names(void)
{
    static fuzz_keywords words;
    const tv_isa *isa = &tv_isa_cmdq;
    for (unsigned i = 0; words.count < isa->insn_count; i++)
        fuzz_add_keyword(&words, isa->insns[i].id);
    for (unsigned i = 0; words.count < isa->insn_count + isa->parameter_count; i++)
        fuzz_add_keyword(&words, isa->parameters[i].name);
    bool complete = words.count > isa->insn_count + isa->parameter_count;
    for (unsigned i = 0; !complete && i < isa->parameter_count; i++)
        for (unsigned k = 0; isa->parameters[i].enum_names && isa->parameters[i].enum_names[k]; k++)
            fuzz_add_keyword(&words, isa->parameters[i].enum_names[k]);
    return &words;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_random random = fuzz_random_of(seed);
    return fuzz_mutate_json(data, size, max_size, &random, names());
}
