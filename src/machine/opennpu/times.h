/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose ticks another thread finds while the caller computes its data: ticks do not depend on data, nor data
 * on ticks. */
#ifndef TV_MACHINE_OPENNPU_TIMES_H
#define TV_MACHINE_OPENNPU_TIMES_H

#include "machine/opennpu/internal.h"

/* Has another thread time the instructions from `machine`->next to `end`, if the machine computes data and ticks, has
 * threads, and that is worth it. False: the caller has to time them. In both cases opennpu_times_end must follow. */
bool opennpu_times_begin(opennpu_machine *machine, uint64_t end);

/* Ends what opennpu_times_begin returned as `apart`: the machine has the times of the instructions that it executed. */
void opennpu_times_end(opennpu_machine *machine, bool apart);

void opennpu_times_free(opennpu_times *times);

#endif
