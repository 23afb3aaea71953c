/* SPDX-License-Identifier: Apache-2.0 */
/* From instruction words to a block. */
#ifndef TV_MACHINE_OPENNPU_TRANSLATE_H
#define TV_MACHINE_OPENNPU_TRANSLATE_H

#include "machine/opennpu/block.h"

/* What decides whether another operation may follow in a sequence that can be a block. */
typedef struct opennpu_sequence_state {
    unsigned products;
    uint32_t rows_written;
} opennpu_sequence_state;

/* Adds the operation. False: it cannot be in the sequence, because only the first mma may clear ACC, because the
 * sequence has written the address of a load, or because it is neither. */
static inline bool opennpu_extend_sequence(opennpu_sequence_state *state, const opennpu_op *op)
{
    if (!op->in_block)
        return false;
    if (op->engine == OPENNPU_ENGINE_MMA) {
        if (state->products == OPENNPU_BLOCK_PRODUCTS || (state->products && !op->sat))
            return false;
        state->products++;
        return true;
    }
    if (state->rows_written & op->rows_read)
        return false;
    state->rows_written |= op->rows_written;
    return true;
}

/* Copies of the operations of a sequence, and their base registers. */
typedef struct opennpu_sequence {
    opennpu_op ops[OPENNPU_BLOCK_MAX];
    unsigned count, base_count;
    opennpu_block_base bases[OPENNPU_BLOCK_BASES];
    opennpu_sequence_state state;
} opennpu_sequence;

/* Finds the longest sequence that begins with the words at `text`, of which `available` follow. It may be empty. */
void opennpu_find_sequence(const opennpu_machine *machine, opennpu_decode_cache *cache, const uint8_t *text,
                           uint64_t available, opennpu_sequence *sequence);

/* The block of a sequence and its words at `text`, without `hash`; freed with free. NULL: out of memory. */
opennpu_block *opennpu_translate_sequence(const opennpu_sequence *sequence, const uint8_t *text);

#endif
