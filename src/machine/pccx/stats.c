/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of a run of the pccx machine, and its bottleneck. */
#include "sim/stats.h"
#include "machine/pccx/actions.h"
#include "machine/pccx/internal.h"
#include "machine/pccx/params.h"
#include "sim/bottleneck.h"

/* A rate parameter, in bytes per cycle. */
static double rate_of(const pccx_machine *m, unsigned param)
{
    tv_rate r = tv_config_rate(m->config, param);
    return (double)r.num / r.den;
}

/* The engines, the paths to memory, and the memory that they share. */
static void classify_bottleneck(const pccx_machine *m, tv_stats *out)
{
    tv_bottleneck bottleneck = {.cycles = (double)out->cycles};
    double bytes = 0;
    tv_bottleneck_add_engines(&bottleneck, out, PCCX_ENGINE_DISP, "its own work");
    tv_bottleneck_add(&bottleneck, out->engines[PCCX_ENGINE_DISP].name, "issue: one instruction a cycle",
                      (double)out->engines[PCCX_ENGINE_DISP].busy);
    for (unsigned p = 0; p < PCCX_PATHS; p++) {
        if (p == PCCX_PATH_MOVE) /* within L2 */
            continue;
        tv_bottleneck_add(&bottleneck, out->paths[p].name, "bandwidth",
                          (double)out->paths[p].bytes / out->paths[p].peak);
        bytes += (double)out->paths[p].bytes;
    }
    tv_bottleneck_add(&bottleneck, "memory", "bandwidth", bytes / rate_of(m, PCCX_PARAM_MEMORY_RATE));
    tv_bottleneck_classify(&bottleneck, PCCX_ENGINE_DISP, out);
}

void pccx_actions(const void *state, tv_action_table *out)
{
    const pccx_machine *m = state;
    out->table = &m->energy;
    out->count = PCCX_ACCOUNTS;
    for (unsigned e = 0; e < PCCX_ACCOUNTS; e++) {
        out->engines[e] = (tv_engine_actions){.name = pccx_engine_names[e]};
        pccx_add_actions(&m->counters.tallies[e], out->engines[e].counts);
    }
    pccx_count_issue(m->instructions, out->engines[PCCX_ENGINE_DISP].counts);
}

void pccx_stats(const void *state, tv_stats *out)
{
    const pccx_machine *m = state;
    static const unsigned rates[PCCX_PATHS] = {[PCCX_PATH_GEMM] = PCCX_PARAM_STREAM_RATE,
                                               [PCCX_PATH_GEMV] = PCCX_PARAM_STREAM_RATE,
                                               [PCCX_PATH_LOAD] = PCCX_PARAM_ACP_RATE,
                                               [PCCX_PATH_STORE] = PCCX_PARAM_ACP_RATE};
    pccx_timing timing = m->timing; /* drained as if the run ended here */
    timing.completed = NULL;
    timing.emitter.sink = NULL;
    pccx_timing_drain(&timing);
    tv_stats_set_time(out, timing.latest_end, tv_config_integer(m->config, PCCX_PARAM_CORE_HZ));
    tv_stats_set_engines(out, timing.accounts, PCCX_ACCOUNTS, pccx_stall_reason_names, PCCX_STALL_REASONS);
    for (unsigned p = 0; p < PCCX_PATHS; p++)
        tv_stats_add_path(out, pccx_path_names[p], m->counters.bytes[p],
                          p == PCCX_PATH_MOVE ? PCCX_WORD_BYTES : rate_of(m, rates[p]), NULL);
    out->instructions = m->instructions;
    out->macs = m->counters.macs[PCCX_STREAM_GEMM] + m->counters.macs[PCCX_STREAM_GEMV];
    double gemm = (double)(timing.gemm_tile_k * timing.gemm_tile_n),
           gemv = (double)m->control.gemv_lanes * m->control.gemv_cores;
    out->peak_macs = m->counters.macs[PCCX_STREAM_GEMM] > m->counters.macs[PCCX_STREAM_GEMV] ? gemm : gemv;
    classify_bottleneck(m, out);
}
