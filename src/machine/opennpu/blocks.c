/* SPDX-License-Identifier: Apache-2.0 */
/* The table of blocks, and their execution. translate.c translates them, block_times.c times them. */
#include "machine/opennpu/blocks.h"

#include <limits.h>
#include <stdlib.h>

#include "machine/opennpu/decode_cache.h"
#include "machine/opennpu/inline.h"
#include "machine/opennpu/translate.h"

enum { SET_BITS = 6, SETS = 1 << SET_BITS, SET_ENTRIES = 8, CANDIDATE_BITS = 10, HITS_MAX = 8 };

struct opennpu_blocks {
    opennpu_block *sets[SETS][SET_ENTRIES];   /* by hash_start; NULL: none, nor after it */
    unsigned victims[SETS];                   /* the next entry of each set to be replaced */
    uint64_t candidates[1 << CANDIDATE_BITS]; /* hashes of sequences that were not translated yet */
};

opennpu_blocks *opennpu_blocks_new(void) { return calloc(1, sizeof(opennpu_blocks)); }

void opennpu_blocks_free(opennpu_blocks *blocks)
{
    for (unsigned i = 0; blocks && i < SETS * SET_ENTRIES; i++)
        free(blocks->sets[i / SET_ENTRIES][i % SET_ENTRIES]);
    free(blocks);
}

/* ---- The table ---- */

static uint64_t add_to_hash(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

static uint64_t hash_words(const uint8_t *text, unsigned count)
{
    uint64_t hash = count;
    for (unsigned i = 0; i + 1 < count; i += 2)
        hash = add_to_hash(hash, tv_load_le64(text + 4 * (size_t)i));
    return count % 2 ? add_to_hash(hash, tv_load_le32(text + 4 * (size_t)(count - 1))) : hash;
}

/* The hash of the first and the last of OPENNPU_BLOCK_MIN words; the first ones are the same in many loops. */
static uint64_t hash_start(const uint8_t *text)
{
    enum { HASHED = 4 };
    const uint8_t *last = text + 4 * (size_t)(OPENNPU_BLOCK_MIN - HASHED);
    return add_to_hash(hash_words(text, HASHED), hash_words(last, HASHED));
}

/* Remembers the hash of a sequence; whether it was known. */
static bool is_repeated(opennpu_blocks *blocks, uint64_t hash)
{
    uint64_t *candidate = &blocks->candidates[hash >> (64 - CANDIDATE_BITS)];
    const bool known = *candidate == hash;
    *candidate = hash;
    return known;
}

static unsigned set_of(uint64_t hash) { return (unsigned)(hash >> (64 - SET_BITS)); }

/* The entry for a new block of this hash. NULL: the block there was used, and has another chance. So a loop with more
 * blocks than a set has entries does not translate them again and again. */
static opennpu_block **find_victim(opennpu_blocks *blocks, uint64_t hash)
{
    const unsigned set = set_of(hash);
    opennpu_block **entry = &blocks->sets[set][blocks->victims[set] % SET_ENTRIES];
    if (!*entry || !(*entry)->hits)
        return entry;
    (*entry)->hits--;
    blocks->victims[set]++;
    return NULL;
}

/* Translates the block at `text`, if there is one that was there before. */
static __attribute__((noinline)) opennpu_block *add_block(const opennpu_machine *m, opennpu_decode_cache *cache,
                                                          opennpu_blocks *blocks, uint64_t hash, const uint8_t *text,
                                                          uint64_t available, unsigned *skipped)
{
    opennpu_sequence s;
    opennpu_find_sequence(m, cache, text, available, &s);
    *skipped = s.count ? s.count : 1;
    if (s.count < OPENNPU_BLOCK_MIN || !is_repeated(blocks, hash_words(text, s.count)))
        return NULL;
    opennpu_block **entry = find_victim(blocks, hash);
    opennpu_block *block = entry ? opennpu_translate_sequence(&s, text) : NULL;
    if (!block)
        return NULL;
    block->hash = hash;
    free(*entry);
    blocks->victims[set_of(hash)]++;
    return *entry = block;
}

/* Whether the first OPENNPU_BLOCK_MIN instructions are a sequence, as far as they are decoded, whatever its number of
 * bases. *skipped is how many of them are. */
static bool may_be_block(const opennpu_decode_cache *cache, const uint8_t *text, unsigned *skipped)
{
    opennpu_sequence_state state = {0};
    for (*skipped = 0; *skipped < OPENNPU_BLOCK_MIN; ++*skipped) {
        const opennpu_op *op = opennpu_find_decoded(cache, tv_load_le32(text + 4 * (size_t)*skipped));
        if (!op || !opennpu_extend_sequence(&state, op))
            return false;
    }
    return true;
}

opennpu_block *opennpu_find_block(const opennpu_machine *m, opennpu_decode_cache *cache, opennpu_blocks *blocks,
                                  const uint8_t *text, uint64_t available, unsigned *skipped)
{
    *skipped = (unsigned)tv_min_u64(available, UINT_MAX);
    if (!blocks || available < OPENNPU_BLOCK_MIN)
        return NULL;
    const uint64_t hash = hash_start(text);
    opennpu_block *const *set = blocks->sets[set_of(hash)];
    for (unsigned i = 0; i < SET_ENTRIES && set[i]; i++) /* entries are filled in order */
        if (set[i]->hash == hash && set[i]->count <= available &&
            memcmp(set[i]->text, text, 4 * (size_t)set[i]->count) == 0) {
            if (set[i]->hits < HITS_MAX)
                set[i]->hits++;
            return set[i];
        }
    if (may_be_block(cache, text, skipped))
        return add_block(m, cache, blocks, hash, text, available, skipped);
    *skipped += *skipped == 0;
    return NULL;
}

/* ---- Execution ---- */

/* Addresses in the base registers. False: some load may be outside memory. */
static bool find_addresses(const opennpu_machine *m, const opennpu_block *block, int64_t addresses[OPENNPU_BLOCK_BASES])
{
    const int64_t size = (int64_t)m->memory.size; /* at most 2^32, where addresses wrap */
    for (unsigned i = 0; i < block->base_count; i++) {
        const opennpu_block_base *base = &block->bases[i];
        addresses[i] = (uint32_t)opennpu_vr_lane0(m, base->row);
        if (addresses[i] + base->first < 0 || addresses[i] + base->end > size)
            return false;
    }
    return true;
}

/* Brings register groups into the form in which the block accesses them. */
static void prepare_groups(opennpu_machine *m, const opennpu_block *block)
{
    for (uint8_t groups = m->lane_form & block->live_in_groups; groups; groups &= (uint8_t)(groups - 1))
        opennpu_group_to_planes(m, (unsigned)__builtin_ctz(groups));
    m->lane_form = (uint8_t)((m->lane_form & ~block->plane_groups) | block->lane_groups);
}

static void load_planes(const opennpu_machine *m, uint8_t *planes, const uint8_t *p)
{
    if (m->simd.to_planes)
        m->simd.to_planes(planes, p, p, p, 0);
    else
        opennpu_deinterleave_words(planes, p, OPENNPU_K_MAX);
}

static void move_rows(const opennpu_machine *m, const opennpu_block_move *move, uint8_t *to, const uint8_t *from)
{
    enum { K = OPENNPU_K_MAX };
    switch (move->kind) {
    case OPENNPU_BLOCK_COPY:
    case OPENNPU_BLOCK_LOAD_VX:
        memcpy(to, from, K);
        break;
    case OPENNPU_BLOCK_LOAD_VE:
        opennpu_load_ve(m, to, from, K);
        break;
    case OPENNPU_BLOCK_LOAD_VR:
        load_planes(m, to, from);
        break;
    case OPENNPU_BLOCK_LOAD_LANES:
        opennpu_load_s32((int32_t *)(void *)to, from, K);
        break;
    }
}

bool opennpu_execute_block(opennpu_machine *m, const opennpu_block *block)
{
    enum { K = OPENNPU_K_MAX };
    int64_t addresses[OPENNPU_BLOCK_BASES];
    if (!find_addresses(m, block, addresses))
        return false;
    if (block->clears)
        opennpu_clear_accumulators(m);
    opennpu_reserve_products(m, block->products);
    prepare_groups(m, block);
    const size_t pending = (size_t)m->pending * K;
    uint8_t *const arrays[] = {m->registers, (uint8_t *)m->pending_a + pending, (uint8_t *)m->pending_b + pending};
    for (unsigned i = 0; i < block->move_count; i++) {
        const opennpu_block_move *move = &block->moves[i];
        const uint8_t *from = move->kind == OPENNPU_BLOCK_COPY ? arrays[move->from.array] + (size_t)move->from.row * K
                                                               : m->memory.bytes + (addresses[move->base] + move->imm);
        move_rows(m, move, arrays[move->to.array] + (size_t)move->to.row * K, from);
    }
    m->pending += block->products;
    if (block->products)
        m->column = 0;
    return true;
}

void opennpu_count_block(opennpu_machine *m, const opennpu_block *block)
{
    for (unsigned i = 0; i < block->profile_count; i++)
        m->executed[block->profiles[i].profile] += block->profiles[i].count;
}
