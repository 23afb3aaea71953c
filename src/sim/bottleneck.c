/* SPDX-License-Identifier: Apache-2.0 */
/* Classifying bottlenecks. */
#include "sim/bottleneck.h"

#include <stdio.h>

void tv_bottleneck_add(tv_bottleneck *bottleneck, const char *name, const char *detail, double cycles)
{
    double share = bottleneck->cycles > 0 ? cycles / bottleneck->cycles : 0;
    if (share > bottleneck->share) {
        bottleneck->name = name;
        bottleneck->detail = detail;
        bottleneck->share = share;
    }
}

void tv_bottleneck_add_engines(tv_bottleneck *bottleneck, const tv_stats *stats, unsigned count, const char *detail)
{
    for (unsigned e = 0; e < count; e++)
        tv_bottleneck_add(bottleneck, stats->engines[e].name, detail, (double)stats->engines[e].busy);
}

/* Stall cycles of a reason: the scheduler's, or those of all engines. */
static uint64_t stall_cycles(const tv_stats *stats, unsigned scheduler, unsigned reason)
{
    if (scheduler != TV_NO_SCHEDULER)
        return stats->engines[scheduler].stalled[reason];
    uint64_t sum = 0;
    for (unsigned e = 0; e < stats->engine_count; e++)
        sum += stats->engines[e].stalled[reason];
    return sum;
}

static void describe_latency(const tv_bottleneck *bottleneck, unsigned scheduler, tv_stats *stats)
{
    unsigned reason = 0;
    for (unsigned r = 1; r < stats->stall_reason_count; r++)
        if (stall_cycles(stats, scheduler, r) > stall_cycles(stats, scheduler, reason))
            reason = r;
    snprintf(stats->bound_by, sizeof stats->bound_by, "latency");
    if (scheduler == TV_NO_SCHEDULER) {
        stats->bound_share = bottleneck->share;
        snprintf(stats->bottleneck, sizeof stats->bottleneck,
                 "bound by latency: no engine is busy in half of the cycles; most stall cycles are %s",
                 stats->stall_reasons[reason]);
        return;
    }
    stats->bound_share = (double)stall_cycles(stats, scheduler, reason) / bottleneck->cycles;
    snprintf(stats->bottleneck, sizeof stats->bottleneck,
             "bound by latency: %s is stalled by %s in %.0f %% of cycles; no engine is busy in half of them",
             stats->engines[scheduler].name, stats->stall_reasons[reason], 100 * stats->bound_share);
}

void tv_bottleneck_classify(const tv_bottleneck *bottleneck, unsigned scheduler, tv_stats *stats)
{
    if (stats->cycles == 0)
        return;
    if (bottleneck->share < 0.5) {
        describe_latency(bottleneck, scheduler, stats);
        return;
    }
    const char *detail = bottleneck->detail;
    snprintf(stats->bound_by, sizeof stats->bound_by, "%s", bottleneck->name);
    stats->bound_share = bottleneck->share;
    snprintf(stats->bottleneck, sizeof stats->bottleneck, "bound by %s%s%s%s: %.0f %% of cycles", bottleneck->name,
             detail ? " (" : "", detail ? detail : "", detail ? ")" : "", 100 * bottleneck->share);
}
