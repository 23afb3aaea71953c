/* SPDX-License-Identifier: Apache-2.0 */
/* The thread works on a copy of the timing model, with a decode cache and blocks of its own. The copy becomes the
 * machine's when it has timed what was executed. If it has gone past a fault, it is dropped, and the instructions
 * before the fault are timed again. */
#include "machine/opennpu/times.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "machine/opennpu/block_times.h"
#include "machine/opennpu/blocks.h"
#include "machine/opennpu/decode_cache.h"
#include "machine/opennpu/issue.h"

/* Fewer instructions are executed before another thread has begun. */
enum { INSTRUCTIONS_MIN = 512 };

struct opennpu_times {
    opennpu_decode_cache cache;
    opennpu_blocks *blocks;
    atomic_bool stopped; /* the caller needs no more times */
    const opennpu_machine *machine;
    uint64_t first, end, index; /* instructions of the program; the number of `first` over all programs */
    uint64_t done;              /* number of instructions that were timed */
    opennpu_timing timing;      /* after them */
    bool begun;                 /* tv_pool_begin was called, and tv_pool_end must follow */
};

/* Times instructions from `first` to `end`, up to an illegal one, unless *stopped becomes true; returns how many. */
static uint64_t time_words(const opennpu_machine *m, opennpu_decode_cache *cache, opennpu_blocks *blocks,
                           opennpu_timing *timing, uint64_t first, uint64_t end, uint64_t index,
                           const atomic_bool *stopped)
{
    const uint8_t *text = m->program->text;
    opennpu_illegal illegal;
    uint64_t i = first, block_min = first; /* no block begins before it */
    while (i < end && !(stopped && *stopped)) {
        const opennpu_op *op = opennpu_decode_cached(m, cache, tv_load_le32(text + i * 4), &illegal);
        if (!op)
            break;
        const int64_t number = (int64_t)(index + i - first);
        if (op->in_block && i >= block_min && opennpu_may_begin_block(cache, text + i * 4, end - i)) {
            unsigned skipped;
            opennpu_block *block = opennpu_find_block(m, cache, blocks, text + i * 4, end - i, &skipped);
            if (block)
                opennpu_time_block(m, cache, timing, block, number);
            block_min = i + (block ? block->count : skipped);
            i += block ? block->count : 0;
            continue;
        }
        opennpu_timing_issue_fast(timing, op, (opennpu_engine)op->engine, number);
        i++;
    }
    return i - first;
}

static void time_program(void *user)
{
    opennpu_times *t = user;
    t->done = time_words(t->machine, &t->cache, t->blocks, &t->timing, t->first, t->end, t->index, &t->stopped);
}

static opennpu_times *times_of(opennpu_machine *m)
{
    if (m->times)
        return m->times;
    opennpu_times *t = aligned_alloc(_Alignof(opennpu_times), sizeof *t);
    if (!t)
        return NULL;
    memset(t, 0, sizeof *t);
    opennpu_decode_cache_init(m, &t->cache);
    t->blocks = opennpu_blocks_new();
    return m->times = t;
}

void opennpu_times_free(opennpu_times *times)
{
    if (times)
        opennpu_blocks_free(times->blocks);
    free(times);
}

/* Runs of about as many instructions take about as long: the count, INSTRUCTIONS_MIN at least, without the bits after
 * the third. */
static uint64_t duration_kind(uint64_t count)
{
    const unsigned dropped = 64 - (unsigned)__builtin_clzll(count) - 3;
    return count >> dropped << dropped;
}

bool opennpu_times_begin(opennpu_machine *m, uint64_t end)
{
    const uint64_t count = end > m->next ? end - m->next : 0;
    const bool divisible = m->pool && m->mode == TV_MODE_FULL && count >= INSTRUCTIONS_MIN && !m->mostly_blocks;
    opennpu_times *t = divisible ? times_of(m) : NULL;
    if (!t)
        return false;
    t->machine = m;
    t->stopped = false;
    t->first = m->next;
    t->end = end;
    t->index = m->instructions;
    t->done = 0;
    t->timing = m->timing;
    t->begun = true;
    return tv_pool_begin(m->pool, duration_kind(count), time_program, t);
}

void opennpu_times_end(opennpu_machine *m, bool apart)
{
    opennpu_times *t = m->times;
    if (!t || !t->begun)
        return;
    t->stopped = m->next < t->end;
    tv_pool_end(m->pool);
    t->begun = false;
    if (!apart)
        return;
    if (t->done == m->next - t->first) /* all, or those before an illegal word */
        m->timing = t->timing;
    else
        time_words(m, &m->decode_cache, m->blocks, &m->timing, t->first, m->next, t->index, NULL);
}
