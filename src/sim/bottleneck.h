/* SPDX-License-Identifier: Apache-2.0 */
/* Classification of a run's bottleneck: the resource in use for the largest share of its cycles, if that is at least
 * half of them; otherwise latency, explained by the stall reason with the most cycles.
 *
 * Candidates are compared in the order in which they are added; on ties the first wins. */
#ifndef TV_SIM_BOTTLENECK_H
#define TV_SIM_BOTTLENECK_H

#include "base/base.h"
#include "trivet/machine.h"

typedef struct tv_bottleneck {
    double cycles;      /* of the run */
    const char *name;   /* of the resource with the largest share so far; NULL: none was in use */
    const char *detail; /* what it is busy with, or NULL */
    double share;       /* of the cycles */
} tv_bottleneck;

/* Resource `name` was in use for `cycles` cycles. `detail` may be NULL. */
void tv_bottleneck_add(tv_bottleneck *bottleneck, const char *name, const char *detail, double cycles);

/* Adds every engine of `stats` as a resource, with `detail`, which may be NULL. */
void tv_bottleneck_add_engines(tv_bottleneck *bottleneck, const tv_stats *stats, unsigned count, const char *detail);

/* The engine that issues all instructions in order; or TV_NO_SCHEDULER: each engine takes its own, and the stall
 * cycles of all engines count. */
enum { TV_NO_SCHEDULER = TV_ENGINES_MAX };

/* Sets bound_by, bound_share and bottleneck of `stats`; they stay empty for a run without cycles. The share of a run
 * bound by latency is that of the scheduler's most frequent stall reason, or, without a scheduler, that of the busiest
 * engine. */
void tv_bottleneck_classify(const tv_bottleneck *bottleneck, unsigned scheduler, tv_stats *stats);

#endif
