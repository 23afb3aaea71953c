/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics of a run that all machines fill in alike: engines and stall reasons from cycle accounts, paths, time.
 * A machine adds what it alone counts: instructions, MACs and their peak. */
#ifndef TV_SIM_STATS_H
#define TV_SIM_STATS_H

#include "sim/account.h"

/* Cycles, and the seconds that they take at `clock_hz`. */
void tv_stats_set_time(tv_stats *stats, uint64_t cycles, uint64_t clock_hz);

/* Busy, idle and stall cycles of each engine. `accounts` are finalized; the strings outlive the statistics. */
void tv_stats_set_engines(tv_stats *stats, const tv_account *accounts, unsigned count, const char *const *reasons,
                          unsigned reason_count);

/* Adds a path that moved `bytes` and can move `peak` bytes per cycle, a bound that the parameters `limited_by` set
 * (NULL: not named). */
void tv_stats_add_path(tv_stats *stats, const char *name, uint64_t bytes, double peak, const char *limited_by);

#endif
