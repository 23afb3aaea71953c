/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics from cycle accounts. */
#include "sim/stats.h"

void tv_stats_set_time(tv_stats *stats, uint64_t cycles, uint64_t clock_hz)
{
    stats->cycles = cycles;
    stats->clock_hz = (double)clock_hz;
    stats->seconds = (double)cycles / stats->clock_hz;
}

void tv_stats_set_engines(tv_stats *stats, const tv_account *accounts, unsigned count, const char *const *reasons,
                          unsigned reason_count)
{
    assert(count <= TV_ENGINES_MAX && reason_count <= TV_STALL_REASONS_MAX);
    stats->engine_count = count;
    stats->stall_reason_count = reason_count;
    for (unsigned r = 0; r < reason_count; r++)
        stats->stall_reasons[r] = reasons[r];
    for (unsigned e = 0; e < count; e++) {
        stats->engines[e] =
            (tv_engine_stats){.name = accounts[e].name, .busy = accounts[e].busy, .idle = accounts[e].idle};
        memcpy(stats->engines[e].stalled, accounts[e].stalled, sizeof accounts[e].stalled);
    }
}

void tv_stats_add_path(tv_stats *stats, const char *name, uint64_t bytes, double peak, const char *limited_by)
{
    assert(stats->path_count < TV_PATHS_MAX);
    stats->paths[stats->path_count++] = (tv_path_stats){name, bytes, peak, limited_by};
}
