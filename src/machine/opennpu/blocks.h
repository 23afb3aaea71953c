/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the blocks that a thread executes or times, and their execution. A table belongs to one thread. */
#ifndef TV_MACHINE_OPENNPU_BLOCKS_H
#define TV_MACHINE_OPENNPU_BLOCKS_H

#include "machine/opennpu/block.h"
#include "machine/opennpu/decode_cache.h"

/* NULL: out of memory, and there are no blocks. */
opennpu_blocks *opennpu_blocks_new(void);
void opennpu_blocks_free(opennpu_blocks *blocks); /* may be NULL */

/* Whether a block may begin with an operation that is `in_block` and the first of the `available` words at `text`: the
 * second is decoded, and can be in it, too. */
TV_INLINE bool opennpu_may_begin_block(const opennpu_decode_cache *cache, const uint8_t *text, uint64_t available)
{
    const opennpu_op *second = available > 1 ? opennpu_find_decoded(cache, tv_load_le32(text + 4)) : NULL;
    return second && second->in_block;
}

/* The block that begins with the first of the `available` instruction words at `text`; valid until the next call. NULL:
 * none; none is to be looked for in the first *skipped words (one at least). Operations are decoded through `cache`,
 * whose pointers become invalid. `blocks` may be NULL. */
opennpu_block *opennpu_find_block(const opennpu_machine *machine, opennpu_decode_cache *cache, opennpu_blocks *blocks,
                                  const uint8_t *text, uint64_t available, unsigned *skipped);

/* Executes the block. False: an instruction may fault; the machine is unchanged, and the instructions must be executed
 * one by one. */
bool opennpu_execute_block(opennpu_machine *machine, const opennpu_block *block);

/* Counts its instructions as executed. */
void opennpu_count_block(opennpu_machine *machine, const opennpu_block *block);

#endif
