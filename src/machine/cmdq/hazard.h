/* SPDX-License-Identifier: Apache-2.0 */
/* The search for hazards: accesses to the same bytes that no dependency orders. */
#ifndef TV_MACHINE_CMDQ_HAZARD_H
#define TV_MACHINE_CMDQ_HAZARD_H

#include "machine/cmdq/internal.h"

/* Limits of the search: hazards, and entries compared in large windows. Windows of more than CMDQ_WINDOW_MAX entries
 * are compared entry by entry only if the tree finds a conflict in them. */
enum { CMDQ_HAZARDS_MAX = 100000, CMDQ_COMPARED_MAX = 20000000, CMDQ_WINDOW_MAX = 32 };

/* Reports pairs of entries that access the same bytes, at least one of them writing, without a dependency that orders
 * them. Returns their number, or UINT64_MAX when out of memory. */
uint64_t cmdq_find_hazards(const tv_program *program, const cmdq_params *params, const cmdq_plan *plan,
                           uint32_t window_max, tv_severity severity, tv_findings *findings);

/* Reports, as a note, how many dependencies others imply. Returns false when out of memory. */
bool cmdq_count_implied(const tv_program *program, const cmdq_params *params, const cmdq_plan *plan,
                        const tv_diag_sink *sink, uint64_t *count);

/* dataflow.c: reports reads that do not meet the writes before them. Returns false when out of memory. */
bool cmdq_check_dataflow(const tv_program *program, const cmdq_params *params, const cmdq_plan *plan,
                         tv_severity severity, tv_findings *findings);

#endif
