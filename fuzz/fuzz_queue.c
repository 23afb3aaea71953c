/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a command queue. The two paths of the reader must agree. A queue that is read is printed, checked and
 * run in two slices on a small machine; some are written, read and written again, which must give the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine/cmdq/internal.h"

#include "../tests/unit/cmdq_paths.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Limit of the multiplications of a queue that is run. */
static const uint64_t MACS_MAX = 1 << 21;

/* With small memories their ends are found easily, and the work of a vector entry is bounded. */
static tv_config *small_config(void)
{
    static const char *const small[][2] = {
        {"dram.bytes", "64Ki"}, {"spm.banks", "4"}, {"spm.bank_bytes", "2Ki"}, {"dma.count", "2"}};
    tv_config *config;
    if (tv_config_new("cmdq", NULL, &config) != TV_OK)
        abort();
    for (size_t i = 0; i < TV_COUNTOF(small); i++)
        if (tv_config_set(config, small[i][0], small[i][1], NULL) != TV_OK)
            abort();
    return config;
}

static tv_program *read_queue(const uint8_t *data, size_t size)
{
    tv_program *program;
    tv_input input = {.data = malloc(size ? size : 1),
                      .size = size}; /* allocated exactly, so that sanitizers find an access past the end */
    memcpy((uint8_t *)(uintptr_t)input.data, data, size);
    return cmdq_read("fuzz.json", &input, NULL, &program) == TV_OK ? program : NULL;
}

/* With space after the end the fast path can read the last entries, too. */
static void compare_reader_paths(const uint8_t *data, size_t size)
{
    enum { SPACE = 64 };
    uint8_t *longer = malloc(size + SPACE);
    memcpy(longer, data, size);
    memset(longer + size, ' ', SPACE);
    if (compare_paths(data, size, NULL) || compare_paths(longer, size + SPACE, NULL))
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

static bool runs_fast(const tv_program *program, const tv_config *config)
{
    cmdq_params params;
    cmdq_plan plan;
    uint64_t errors = 0;
    cmdq_params_init(&params, config);
    if (cmdq_plan_init(program, &params, NULL, &errors, &plan) != TV_OK)
        return false;
    uint64_t macs = 0;
    for (uint32_t i = 0; i < plan.count; i++)
        macs += plan.macs[i];
    bool fast = macs <= MACS_MAX;
    cmdq_plan_fini(&plan);
    return fast;
}

static void run_split(const tv_program *program, const tv_config *config)
{
    tv_machine *machine;
    tv_stats stats = {.size = sizeof stats};
    tv_run_limits half = {sizeof half, tv_program_instruction_count(program) / 2, UINT64_MAX};
    if (tv_machine_new(config, TV_MODE_FULL, NULL, &machine) != TV_OK)
        abort();
    if (tv_machine_load(machine, program, NULL) == TV_OK && tv_machine_run(machine, &half, NULL) == TV_OK) {
        tv_machine_stats(machine, &stats); /* of the first slice */
        tv_machine_run(machine, NULL, NULL);
    }
    tv_machine_stats(machine, &stats);
    for (unsigned e = 0; e < stats.engine_count; e++) {
        uint64_t sum = stats.engines[e].busy + stats.engines[e].idle;
        for (unsigned c = 0; c < stats.stall_reason_count; c++)
            sum += stats.engines[e].stalled[c];
        if (sum != stats.cycles)
            abort();
    }
    tv_machine_free(machine);
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
    compare_reader_paths(data, size);
    tv_program *program = read_queue(data, size);
    if (!program)
        return 0;
    tv_config *config = small_config();
    tv_check_counts counts = {0};
    print_all(program);
    if (tv_program_check(program, config, NULL, &counts) != TV_OK)
        abort();
    if (runs_fast(program, config))
        run_split(program, config);
    uint64_t hash = tv_sv_hash((tv_sv){(const char *)data, size});
    if (hash % 16 == 0 && !cmdq_queue_of(program)->files.count) /* files are not beside the written queue */
        write_twice(program, hash / 16 % 2 ? TV_FORMAT_JSON : TV_FORMAT_JSON_LINES);
    tv_config_free(config);
    tv_program_free(program);
    return 0;
}
