/* SPDX-License-Identifier: Apache-2.0 */
/* Timing of blocks. A block is timed instruction by instruction in the first state in which it begins, and in others;
 * what it changed in the last OPENNPU_BLOCK_TIMINGS of them is recorded, and applied when it begins in one of them
 * again.
 *
 * Why that is exact: the timing model compares ticks with each other only, never with constants other than latencies.
 * Of the state before a block, its instructions read when the rows that they name are complete, when the port is free,
 * and `next_tick`; ticks up to next_tick are alike. No instruction of a block drains the array, so its state is written
 * but not read. `last_completion` and `in_flight` only avoid work. Accounts are sums; the idle time is what is left of
 * the time between two values of their cursor. */
#include "machine/opennpu/block_times.h"

#include "machine/opennpu/decode_cache.h"
#include "machine/opennpu/issue.h"

/* Describes the state in which the block begins. False: it does not fit an entry. */
static bool find_entry(const opennpu_timing *t, const opennpu_block *block, opennpu_block_entry *entry)
{
    const uint64_t port = block->base_count && t->port_free > t->next_tick ? t->port_free - t->next_tick : 0;
    uint64_t max = port;
    *entry = (opennpu_block_entry){.port = (uint16_t)port};
    if (t->last_completion <= t->next_tick)
        return max <= UINT16_MAX;
    for (uint32_t rows = block->rows & t->in_flight; rows; rows &= rows - 1) {
        const unsigned row = (unsigned)__builtin_ctz(rows);
        const uint64_t completes = t->completes[row] > t->next_tick ? t->completes[row] - t->next_tick : 0;
        max = tv_max_u64(max, completes);
        entry->completes[row] = (uint16_t)completes;
    }
    return max <= UINT16_MAX;
}

static const opennpu_block_timing *find_timing(const opennpu_block *block, const opennpu_block_entry *entry)
{
    for (unsigned i = 0; i < OPENNPU_BLOCK_TIMINGS && i < block->recorded; i++)
        if (memcmp(&block->timings[i].entry, entry, sizeof *entry) == 0)
            return &block->timings[i];
    return NULL;
}

/* ---- Full timing ---- */

/* Times all instructions. Returns when the last of their results that take more than a tick is complete; 0: none. */
static uint64_t time_ops(const opennpu_machine *m, opennpu_decode_cache *cache, opennpu_timing *t,
                         const opennpu_block *block, int64_t index)
{
    uint64_t last = 0;
    opennpu_illegal illegal;
    for (unsigned i = 0; i < block->count; i++) {
        const opennpu_op *op = opennpu_decode_cached(m, cache, tv_load_le32(block->text + 4 * (size_t)i), &illegal);
        opennpu_timing_issue_fast(t, op, (opennpu_engine)op->engine, index + i);
        if (op->latency > 1)
            last = tv_max_u64(last, t->next_tick - 1 + op->latency);
    }
    return last;
}

static void record_account(const tv_account *before, const tv_account *after, uint64_t first,
                           opennpu_block_account *out)
{
    out->changed = after->cursor != before->cursor;
    if (!out->changed)
        return;
    out->cursor = (uint32_t)(after->cursor - first);
    out->busy = (uint32_t)(after->busy - before->busy);
    for (unsigned r = 0; r < OPENNPU_STALL_REASONS; r++)
        out->stalled[r] = (uint32_t)(after->stalled[r] - before->stalled[r]);
}

/* Keeps what changed from `before` to `after`. */
static void record_timing(opennpu_block *block, const opennpu_block_entry *entry, const opennpu_timing *before,
                          const opennpu_timing *after, uint64_t last_completion, int64_t index)
{
    const uint64_t first = before->next_tick;
    opennpu_block_timing *timing = &block->timings[block->recorded++ % OPENNPU_BLOCK_TIMINGS];
    *timing = (opennpu_block_timing){.entry = *entry, .ticks = (uint32_t)(after->next_tick - first)};
    timing->last_completion = (uint32_t)(tv_max_u64(last_completion, first) - first);
    for (unsigned row = 0; row < OPENNPU_L_MAX; row++) {
        if (after->writer[row] == before->writer[row])
            continue;
        timing->rows |= UINT32_C(1) << row;
        timing->completes[row] = (uint32_t)(after->completes[row] - first);
        timing->writer[row] = (uint8_t)(after->writer[row] - index);
        if (after->completes[row] > after->next_tick)
            timing->in_flight |= UINT32_C(1) << row;
    }
    if (block->base_count) {
        timing->port_start = (uint32_t)(after->port_start - first);
        timing->port_free = (uint32_t)(after->port_free - first);
        timing->port_owner = (uint8_t)(after->port_owner - index);
    }
    if (block->products) {
        timing->accumulate_tick = (uint32_t)(after->accumulate_tick - first);
        timing->accumulator = (uint8_t)(after->accumulator - index);
    }
    for (unsigned e = 0; e < OPENNPU_ENGINES; e++)
        record_account(&before->accounts[e], &after->accounts[e], first, &timing->accounts[e]);
}

/* ---- Recorded timings ---- */

static void apply_account(tv_account *account, const opennpu_block_account *change, uint64_t first)
{
    if (!change->changed)
        return;
    const uint64_t cursor = first + change->cursor;
    uint64_t used = change->busy;
    account->busy += change->busy;
    for (unsigned r = 0; r < OPENNPU_STALL_REASONS; r++) {
        account->stalled[r] += change->stalled[r];
        used += change->stalled[r];
    }
    account->idle += cursor - account->cursor - used;
    account->cursor = cursor;
}

static void apply_timing(opennpu_timing *t, const opennpu_block *block, const opennpu_block_timing *timing,
                         int64_t index)
{
    const uint64_t first = t->next_tick;
    for (uint32_t rows = timing->rows; rows; rows &= rows - 1) {
        const unsigned row = (unsigned)__builtin_ctz(rows);
        t->completes[row] = first + timing->completes[row];
        t->writer[row] = index + timing->writer[row];
    }
    t->in_flight = (t->in_flight & ~timing->rows) | timing->in_flight;
    t->last_completion = tv_max_u64(t->last_completion, first + timing->last_completion);
    t->next_tick = first + timing->ticks;
    if (block->base_count) {
        t->port_start = first + timing->port_start;
        t->port_free = first + timing->port_free;
        t->port_owner = index + timing->port_owner;
    }
    if (block->products) {
        t->accumulated = true;
        t->accumulate_tick = first + timing->accumulate_tick;
        t->accumulator = index + timing->accumulator;
        t->column = 0;
    }
    for (unsigned e = 0; e < OPENNPU_ENGINES; e++)
        apply_account(&t->accounts[e], &timing->accounts[e], first);
}

void opennpu_time_block(const opennpu_machine *m, opennpu_decode_cache *cache, opennpu_timing *t, opennpu_block *block,
                        int64_t index)
{
    opennpu_block_entry entry;
    if (block->base_count)
        opennpu_account_port(t, UINT64_MAX);
    const bool is_entry = find_entry(t, block, &entry);
    const opennpu_block_timing *timing = is_entry ? find_timing(block, &entry) : NULL;
    if (timing) {
        apply_timing(t, block, timing, index);
        return;
    }
    const opennpu_timing before = *t;
    const uint64_t last_completion = time_ops(m, cache, t, block, index);
    if (is_entry)
        record_timing(block, &entry, &before, t, last_completion, index);
}
