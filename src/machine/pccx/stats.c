/* SPDX-License-Identifier: Apache-2.0 */
/* What a run of the pccx machine adds up to, and what bounds it. */
#include <stdio.h>

#include "machine/pccx/machine.h"
#include "machine/pccx/params.h"

static double rate(const pccx_machine *m, unsigned index)
{
    tv_rate r = tv_config_rate(m->config, index);
    return (double)r.num / r.den;
}

/* What bounds the run: the resource that alone would take the most of its cycles; "latency" when none takes half. */
static void judge(const pccx_machine *m, tv_stats *out)
{
    if (out->cycles == 0)
        return;
    double cycles = (double)out->cycles, best = 0;
    const char *name = "latency", *what = "";
    for (unsigned e = 0; e < out->engine_count; e++) {
        double share = cycles > 0 ? (double)out->engines[e].busy / cycles : 0;
        if (share > best) {
            best = share;
            name = out->engines[e].name;
            what = e == PCCX_ENGINE_DISP ? "issue: one instruction a cycle" : "its own work";
        }
    }
    double memory = 0;
    for (unsigned p = 0; p < PCCX_PATH_MOVE; p++) {
        double share = cycles > 0 ? (double)out->paths[p].bytes / out->paths[p].peak / cycles : 0;
        memory += (double)out->paths[p].bytes;
        if (share > best) {
            best = share;
            name = out->paths[p].name;
            what = "bandwidth";
        }
    }
    if (cycles > 0 && memory / rate(m, PCCX_PARAM_MEMORY_RATE) / cycles > best) {
        best = memory / rate(m, PCCX_PARAM_MEMORY_RATE) / cycles;
        name = "memory";
        what = "bandwidth";
    }
    const tv_engine_stats *disp = &out->engines[PCCX_ENGINE_DISP];
    unsigned worst = 0;
    for (unsigned c = 1; c < PCCX_STALL_REASONS; c++)
        if (disp->stalled[c] > disp->stalled[worst])
            worst = c;
    if (best < 0.5) {
        snprintf(out->bound_by, sizeof out->bound_by, "latency");
        out->bound_share = cycles > 0 ? (double)disp->stalled[worst] / cycles : 0;
        snprintf(
            out->bottleneck, sizeof out->bottleneck,
            "bound by latency: the dispatcher is held by %s in %.0f %% of cycles; no engine is busy in half of them",
            pccx_stall_reason_names[worst], 100 * out->bound_share);
        return;
    }
    snprintf(out->bound_by, sizeof out->bound_by, "%s", name);
    out->bound_share = best;
    snprintf(out->bottleneck, sizeof out->bottleneck, "bound by %s (%s): %.0f %% of cycles", name, what, 100 * best);
}

void pccx_stats(const void *state, tv_stats *out)
{
    const pccx_machine *m = state;
    static const unsigned rates[PCCX_PATHS] = {PCCX_PARAM_STREAM_RATE, PCCX_PARAM_STREAM_RATE, PCCX_PARAM_ACP_RATE,
                                               PCCX_PARAM_ACP_RATE, 0};
    pccx_timing timing = m->timing; /* looked at as if it ended here */
    timing.sink = NULL;
    pccx_timing_drain(&timing);
    out->cycles = timing.latest_end;
    out->clock_hz = (double)tv_config_integer(m->config, PCCX_PARAM_CORE_HZ);
    out->seconds = (double)out->cycles / out->clock_hz;
    out->instructions = m->instructions;
    out->macs = m->macs[0] + m->macs[1];
    out->engine_count = PCCX_ACCOUNTS;
    out->stall_reason_count = PCCX_STALL_REASONS;
    out->path_count = PCCX_PATHS;
    for (unsigned c = 0; c < PCCX_STALL_REASONS; c++)
        out->stall_reasons[c] = pccx_stall_reason_names[c];
    for (unsigned e = 0; e < PCCX_ACCOUNTS; e++) {
        const tv_account *a = &timing.accounts[e];
        out->engines[e] = (tv_engine_stats){.name = a->name, .busy = a->busy, .idle = a->idle};
        memcpy(out->engines[e].stalled, a->stalled, sizeof a->stalled);
    }
    for (unsigned p = 0; p < PCCX_PATHS; p++)
        out->paths[p] =
            (tv_path_stats){pccx_path_names[p], m->bytes[p], p == PCCX_PATH_MOVE ? PCCX_WORD_BYTES : rate(m, rates[p])};
    double gemm = (double)(timing.gemm_tile_k * timing.gemm_tile_n),
           gemv = (double)(timing.gemv_tile_k * m->control.gemv_cores);
    out->peak_macs = m->macs[1] > m->macs[0] ? gemm : gemv;
    judge(m, out);
}
