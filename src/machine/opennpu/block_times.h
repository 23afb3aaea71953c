/* SPDX-License-Identifier: Apache-2.0 */
/* The timing of blocks. */
#ifndef TV_MACHINE_OPENNPU_BLOCK_TIMES_H
#define TV_MACHINE_OPENNPU_BLOCK_TIMES_H

#include "machine/opennpu/block.h"

/* Finds the ticks of the block, whose first instruction has number `index` over all programs. What it
 * changes is recorded: a block that begins in the same state, relative to its first tick, takes the same ticks. */
void opennpu_time_block(const opennpu_machine *machine, opennpu_decode_cache *cache, opennpu_timing *timing,
                        opennpu_block *block, int64_t index);

#endif
