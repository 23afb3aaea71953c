/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of an instruction, for its energy. */
#ifndef TV_MACHINE_PCCX_ACTIONS_H
#define TV_MACHINE_PCCX_ACTIONS_H

#include "machine/pccx/op.h"
#include "sim/energy.h"

/* Adds the actions of the operation, without its fetch and decode, to counts[TV_ACTION_COUNT]: those that others follow
 * from, because a run counts each instruction. pccx_complete_actions adds the others to a sum. */
void pccx_count_actions(const pccx_op *op, uint64_t *counts);
void pccx_complete_actions(uint64_t *counts);

/* Adds fetching and decoding `times` instructions. */
static inline void pccx_count_issue(uint64_t times, uint64_t *counts)
{
    counts[TV_ACTION_FETCH] += PCCX_INSN_BYTES * times;
    counts[TV_ACTION_DECODE] += times;
}

void pccx_energy_params(const tv_config *config, tv_energy_params *energy);

#endif
