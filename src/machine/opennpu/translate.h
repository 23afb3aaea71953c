/* SPDX-License-Identifier: Apache-2.0 */
/* From instruction words to a block. */
#ifndef TV_MACHINE_OPENNPU_TRANSLATE_H
#define TV_MACHINE_OPENNPU_TRANSLATE_H

#include "machine/opennpu/block.h"

/* Copies of the operations of a sequence that can be a block, and their base registers. */
typedef struct opennpu_sequence {
    opennpu_op ops[OPENNPU_BLOCK_MAX];
    unsigned count, products, base_count;
    opennpu_block_base bases[OPENNPU_BLOCK_BASES];
    uint32_t rows_written;
} opennpu_sequence;

/* Finds the longest sequence that begins with the words at `text`, of which `available` follow. It may be empty. */
void opennpu_find_sequence(const opennpu_machine *machine, opennpu_decode_cache *cache, const uint8_t *text,
                           uint64_t available, opennpu_sequence *sequence);

/* The block of a sequence and its words at `text`, without `hash`; freed with free. NULL: out of memory. */
opennpu_block *opennpu_translate_sequence(const opennpu_sequence *sequence, const uint8_t *text);

#endif
