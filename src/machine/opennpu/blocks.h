/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the blocks that a thread executes or times, and their execution. A table belongs to one thread. */
#ifndef TV_MACHINE_OPENNPU_BLOCKS_H
#define TV_MACHINE_OPENNPU_BLOCKS_H

#include "machine/opennpu/block.h"

/* NULL: out of memory, and there are no blocks. */
opennpu_blocks *opennpu_blocks_new(void);
void opennpu_blocks_free(opennpu_blocks *blocks);

/* The block that begins with the instruction words at `text`, of which `available` follow; valid until the next call.
 * NULL: none, and none begins in the next *skipped words (one at least). Operations are decoded through `cache`, whose
 * pointers become invalid. `blocks` may be NULL. */
opennpu_block *opennpu_find_block(const opennpu_machine *machine, opennpu_decode_cache *cache, opennpu_blocks *blocks,
                                  const uint8_t *text, uint64_t available, unsigned *skipped);

/* Executes the block. False: an instruction may fault; the machine is unchanged, and the instructions must be executed
 * one by one. */
bool opennpu_execute_block(opennpu_machine *machine, const opennpu_block *block);

/* Counts its instructions as executed. */
void opennpu_count_block(opennpu_machine *machine, const opennpu_block *block);

#endif
