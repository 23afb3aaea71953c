/* SPDX-License-Identifier: Apache-2.0 */
/* Finding missing dependencies. */
#ifndef TV_MACHINE_CMDQ_HAZARD_H
#define TV_MACHINE_CMDQ_HAZARD_H

#include "machine/cmdq/machine.h"

/* The search ends after so many hazards, or so many entries in windows with a hazard. Windows of up to so many entries
 * are gone through one by one; others ask the tree first. */
enum { CMDQ_HAZARDS_MAX = 100000, CMDQ_COMPARED_MAX = 20000000, CMDQ_WINDOW_MAX = 32 };

/* Reports pairs of entries that touch the same bytes, one of them writing, and that nothing orders. Returns how many
 * there are; UINT64_MAX: no memory. */
uint64_t cmdq_find_hazards(const tv_program *program, const cmdq_params *shape, const cmdq_plan *plan,
                           uint32_t window_max, tv_severity severity, tv_findings *findings);

#endif
