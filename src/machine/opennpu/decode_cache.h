/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up decoded operations by their instruction words, which unrolled loops repeat. */
#ifndef TV_MACHINE_OPENNPU_DECODE_CACHE_H
#define TV_MACHINE_OPENNPU_DECODE_CACHE_H

#include "machine/opennpu/internal.h"

/* Multiplicative hashes, one for each of the two entries that a word may have. */
#define OPENNPU_FIRST_HASH UINT32_C(0x9E3779B1)
#define OPENNPU_SECOND_HASH UINT32_C(0x85EBCA6B)

static inline unsigned opennpu_decode_cache_index(uint32_t word, uint32_t hash)
{
    return word * hash >> (32 - OPENNPU_DECODE_CACHE_BITS);
}

/* NULL: the word is not in the cache. */
TV_INLINE const opennpu_op *opennpu_find_decoded(const opennpu_decode_cache *cache, uint32_t word)
{
    const opennpu_op *op = &cache->ops[opennpu_decode_cache_index(word, OPENNPU_FIRST_HASH)];
    if (op->word == word)
        return op;
    op = &cache->ops[opennpu_decode_cache_index(word, OPENNPU_SECOND_HASH)];
    return op->word == word ? op : NULL;
}

/* Makes a cache empty. A cache belongs to one thread; of the machine it needs the codec, the opcodes and L. */
void opennpu_decode_cache_init(const opennpu_machine *machine, opennpu_decode_cache *cache);

/* The operation of `word`, which is decoded unless the cache has it; valid until the next call. NULL: the word is
 * illegal, as *illegal says. */
const opennpu_op *opennpu_decode_cached(const opennpu_machine *machine, opennpu_decode_cache *cache, uint32_t word,
                                        opennpu_illegal *illegal);

#endif
