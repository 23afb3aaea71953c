/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of an instruction, for its energy. */
#ifndef TV_MACHINE_PCCX_ACTIONS_H
#define TV_MACHINE_PCCX_ACTIONS_H

#include "machine/pccx/op.h"
#include "sim/energy.h"

/* Adds the actions of the operation, without its fetch and decode, to counts[TV_ACTION_COUNT]. */
void pccx_count_actions(const pccx_op *op, uint64_t *counts);

/* Those of its fetch and decode. */
static inline void pccx_count_issue(uint64_t *counts)
{
    counts[TV_ACTION_FETCH] += PCCX_INSN_BYTES;
    counts[TV_ACTION_DECODE]++;
}

void pccx_energy_params(const tv_config *config, tv_energy_params *energy);

#endif
