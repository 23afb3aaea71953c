/* SPDX-License-Identifier: Apache-2.0 */
/* Queues on a small CMDQ machine: see queue_run.h. */
#include "queue_run.h"

#include <stdlib.h>

#include "machine/cmdq/internal.h"

/* Limit of the multiplications of a queue that is run. */
static const uint64_t MACS_MAX = 1 << 18;

/* With small memories their ends are found easily, and the work of a vector entry is bounded. Made once. */
static const tv_config *small_config(void)
{
    static const char *const small[][2] = {
        {"dram.bytes", "64Ki"}, {"spm.banks", "4"}, {"spm.bank_bytes", "2Ki"}, {"dma.count", "2"}};
    static tv_config *config;
    if (config)
        return config;
    if (tv_config_new("cmdq", NULL, &config) != TV_OK)
        abort();
    for (size_t i = 0; i < TV_COUNTOF(small); i++)
        if (tv_config_set(config, small[i][0], small[i][1], NULL) != TV_OK)
            abort();
    return config;
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

void fuzz_check_and_run(const tv_program *program)
{
    tv_check_counts counts = {0};
    const tv_config *config = small_config();
    if (tv_program_check(program, config, NULL, &counts) != TV_OK)
        abort();
    if (runs_fast(program, config))
        run_split(program, config);
}
