/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is timed apart while the caller computes its data: cycles do not depend on data, nor data on cycles.
 *
 * Its times are in the memo, or another thread finds them. The thread works on copies of the control state, of the
 * timing model and of the counters, which become the machine's when all instructions have been executed. After a fault
 * they are dropped, and the instructions before it are timed again. */
#include <stdatomic.h>
#include <stdlib.h>

#include "machine/pccx/internal.h"

/* Fewer instructions are timed before another thread has begun. */
enum { INSTRUCTIONS_MIN = 64, DEPTH_MAX = 4096 };

struct pccx_times {
    atomic_bool stopped; /* the caller needs no more times */
    const pccx_machine *machine;
    uint64_t first, end, index;   /* instructions of the program; the number of `first` over all programs */
    uint64_t done;                /* number of instructions that were timed */
    pccx_control before, control; /* at `first`; after `done` instructions */
    pccx_timing timing;
    pccx_counters counters;
    pccx_stat stat; /* completions, of which the oldest ones may be lost */
    bool lost;
    bool begun;                   /* tv_pool_begin was called, and tv_pool_end must follow */
    const pccx_memo_entry *known; /* NULL: another thread finds the times */
};

void pccx_time_op(pccx_memo *memo, const pccx_control *control, pccx_timing *timing, pccx_counters *counters,
                  const pccx_op *op, uint64_t index)
{
    pccx_timing_issue(timing, op, (int64_t)index);
    pccx_memo_note(memo, control, op);
    pccx_count_work(counters, op);
}

/* Times up to `count` instructions from `first` on, unless *stopped becomes true, and returns how many. */
static uint64_t time_words(const pccx_machine *m, uint64_t first, uint64_t count, uint64_t index,
                           const atomic_bool *stopped, pccx_control *control, pccx_timing *timing,
                           pccx_counters *counters)
{
    pccx_rejection why;
    pccx_op op;
    why.code_only = true;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = pccx_word_at(m, first + i);
        int row = tv_codec_row(m->codec, word, NULL);
        if (row < 0 || !pccx_resolve(control, (unsigned)row, word, &op, &why) || (stopped && *stopped))
            return i;
        pccx_time_op(m->memo, control, timing, counters, &op, index + i);
        pccx_control_commit(control, &op);
    }
    return count;
}

static void time_program(void *user)
{
    pccx_times *t = user;
    t->done = time_words(t->machine, t->first, t->end - t->first, t->index, &t->stopped, &t->control, &t->timing,
                         &t->counters);
}

static void add_completion(void *user, int64_t index, uint64_t cycle)
{
    pccx_times *t = user;
    if (!pccx_stat_add(&t->stat, (pccx_completion){(uint64_t)index, cycle}))
        t->lost = true;
}

static pccx_times *times_of(pccx_machine *m)
{
    if (m->times)
        return m->times;
    return m->times = calloc(1, sizeof *m->times);
}

void pccx_times_free(pccx_times *times)
{
    if (times)
        free(times->stat.ring);
    free(times);
}

static bool is_divisible(const pccx_machine *m, uint64_t end, uint64_t max_cycles)
{
    return m->pool && m->mode == TV_MODE_FULL && pccx_can_time_apart(m, max_cycles) && end <= m->count &&
           end - m->next >= INSTRUCTIONS_MIN && m->stat.depth <= DEPTH_MAX;
}

pccx_times_plan pccx_times_begin(pccx_machine *m, uint64_t end, uint64_t max_cycles)
{
    const pccx_memo_entry *known = pccx_memo_find(m, end, max_cycles);
    pccx_times *t = known || is_divisible(m, end, max_cycles) ? times_of(m) : NULL;
    if (!t)
        return PCCX_TIMES_INLINE;
    t->machine = m;
    t->known = known;
    t->stopped = false;
    t->first = m->next;
    t->end = end;
    t->index = m->instructions;
    t->before = m->control;
    if (known)
        return PCCX_TIMES_MEMO;
    if (!t->stat.ring)
        t->stat = (pccx_stat){.ring = calloc(m->stat.depth, sizeof *t->stat.ring), .depth = m->stat.depth};
    if (!t->stat.ring)
        return PCCX_TIMES_INLINE;
    t->control = m->control;
    t->timing = m->timing;
    t->timing.completed = add_completion;
    t->timing.completed_user = t;
    t->counters = m->counters;
    t->stat.head = t->stat.count = 0;
    t->lost = false;
    t->begun = true;
    return tv_pool_begin(m->pool, end - m->next, time_program, t) ? PCCX_TIMES_THREAD : PCCX_TIMES_INLINE;
}

static void adopt_times(pccx_machine *m, const pccx_times *t)
{
    m->timing = t->timing;
    m->timing.completed = pccx_window_complete;
    m->timing.completed_user = m;
    m->counters = t->counters;
    if (t->lost)
        m->status |= TV_WINDOW_LOST;
    for (uint32_t i = 0; i < t->stat.count; i++) {
        pccx_completion c = t->stat.ring[(t->stat.head + i) % t->stat.depth];
        pccx_window_complete(m, (int64_t)c.index, c.cycle);
    }
}

const pccx_memo_entry *pccx_times_known(const pccx_machine *m) { return m->times->known; }

void pccx_times_end(pccx_machine *m, pccx_times_plan plan)
{
    pccx_times *t = m->times;
    if (t && t->begun) {
        t->stopped = m->next < t->end;
        tv_pool_end(m->pool);
        t->begun = false;
    }
    if (plan == PCCX_TIMES_INLINE)
        return;
    if (m->next == t->end && plan == PCCX_TIMES_MEMO) {
        pccx_memo_apply(m, t->known, t->index);
    } else if (m->next == t->end && t->done == t->end - t->first) {
        adopt_times(m, t);
    } else { /* a fault, or no memory */
        pccx_memo_end(m, false);
        time_words(m, t->first, m->next - t->first, t->index, NULL, &t->before, &m->timing, &m->counters);
        m->control = t->before;
    }
}
