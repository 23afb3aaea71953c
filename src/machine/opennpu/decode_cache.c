/* SPDX-License-Identifier: Apache-2.0 */
#include "machine/opennpu/decode_cache.h"

#include <assert.h>

static void init_empty(const opennpu_machine *m, opennpu_op *op)
{
    opennpu_illegal illegal;
    bool legal = opennpu_decode(m->codec, &m->opcodes, (uint32_t)tv_isa_opennpu.nop, m->l, op, &illegal);
    assert(legal);
    (void)legal;
}

void opennpu_decode_cache_init(const opennpu_machine *m, opennpu_decode_cache *cache)
{
    init_empty(m, &cache->ops[0]);
    for (unsigned i = 1; i < OPENNPU_DECODE_CACHE; i++)
        cache->ops[i] = cache->ops[0];
}

/* Makes room at `at` by cuckoo hashing: its operation moves to its other entry, the one that is there to its own, and
 * so on. The last of EVICTIONS_MAX is dropped, and decoded again when it is needed. Programs of 1,700 words would
 * replace 200 entries again and again otherwise. */
static void evict(opennpu_decode_cache *cache, unsigned at)
{
    enum { EVICTIONS_MAX = 8 };
    opennpu_op moved = cache->ops[at];
    for (unsigned i = 0; i < EVICTIONS_MAX && moved.word != tv_isa_opennpu.nop; i++) {
        const unsigned first = opennpu_decode_cache_index(moved.word, OPENNPU_FIRST_HASH),
                       second = opennpu_decode_cache_index(moved.word, OPENNPU_SECOND_HASH);
        at = at == first ? second : first;
        const opennpu_op next = cache->ops[at];
        cache->ops[at] = moved;
        moved = next;
    }
}

const opennpu_op *opennpu_decode_cached(const opennpu_machine *m, opennpu_decode_cache *cache, uint32_t word,
                                        opennpu_illegal *illegal)
{
    const opennpu_op *decoded = opennpu_find_decoded(cache, word);
    opennpu_op op;
    if (decoded)
        return decoded;
    if (!opennpu_decode(m->codec, &m->opcodes, word, m->l, &op, illegal))
        return NULL;
    opennpu_select_kernel(m, &op);
    const unsigned first = opennpu_decode_cache_index(word, OPENNPU_FIRST_HASH),
                   second = opennpu_decode_cache_index(word, OPENNPU_SECOND_HASH);
    const bool is_second =
        cache->ops[first].word != tv_isa_opennpu.nop && cache->ops[second].word == tv_isa_opennpu.nop;
    if (!is_second)
        evict(cache, first);
    opennpu_op *entry = &cache->ops[is_second ? second : first];
    *entry = op;
    return entry;
}
