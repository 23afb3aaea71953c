/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model's step where nobody traces: what opennpu_timing_issue does, but for events and for what they tell.
 */
#ifndef TV_MACHINE_OPENNPU_ISSUE_H
#define TV_MACHINE_OPENNPU_ISSUE_H

#include "machine/opennpu/machine.h"

static inline bool opennpu_is_last(const opennpu_op *op)
{
    return op->insn == OPENNPU_MMA_LAST || op->insn == OPENNPU_MMA_LAST_KEEP;
}

static inline void opennpu_mark_written(opennpu_timing *t, const opennpu_op *op, int64_t index, uint64_t ready)
{
    unsigned first = op->rows[OPENNPU_RD].first;
    for (unsigned i = first; op->writes && i < first + op->rows[OPENNPU_RD].count; i++) {
        t->ready[i] = ready;
        t->writer[i] = index;
    }
    if (t->latest <= t->next)
        t->flying = 0;
    t->flying |= op->written;
    t->latest = tv_max_u64(t->latest, ready);
}

static inline void opennpu_move_array(opennpu_timing *t, const opennpu_op *op, int64_t index, uint64_t tick)
{
    if (op->insn == OPENNPU_MMA || op->insn == OPENNPU_MMA_LAST_KEEP) {
        t->accumulated = true;
        t->last_accumulate = tick;
        t->accumulator = index;
    }
    t->column = opennpu_is_last(op) ? (t->column + 1) % t->k : 0;
}

/* The port may be busy past the last result: a store is done when it issues. What lies past `end` is not of the run. */
static inline void opennpu_flush_port(opennpu_timing *t, uint64_t end)
{
    tv_account_busy(&t->accounts[OPENNPU_PORT], t->port_from, tv_min_u64(t->port_free, end));
    t->port_from = t->port_free;
}

/* May something hold the operation in tick `next`? */
static inline bool opennpu_may_wait(opennpu_timing *t, const opennpu_op *op)
{
    if (t->latest <= t->next)
        t->flying = 0;
    if ((op->read | op->written) & t->flying)
        return true;
    if (op->engine == OPENNPU_PORT)
        return t->port_free > t->next;
    return opennpu_is_last(op) && t->accumulated && t->last_accumulate + t->k + t->column > t->next;
}

static inline void opennpu_timing_issue_fast(opennpu_timing *t, const opennpu_op *op, int64_t index)
{
    if (op->engine == OPENNPU_PORT)
        opennpu_flush_port(t, UINT64_MAX);
    uint64_t tick = opennpu_may_wait(t, op) ? opennpu_timing_wait(t, op) : t->next;
    tv_account_tick(&t->accounts[OPENNPU_ISSUE], tick);
    if (op->engine == OPENNPU_VALU) {
        tv_account_tick(&t->accounts[OPENNPU_VALU], tick);
    } else if (op->engine == OPENNPU_MMA_ARRAY) {
        tv_account_tick(&t->accounts[OPENNPU_MMA_ARRAY], tick);
        opennpu_move_array(t, op, index, tick);
    } else if (op->engine == OPENNPU_PORT) {
        t->port_from = tick;
        t->port_free = tick + t->shapes[op->insn].port_ticks;
        t->port_user = index;
    }
    if (op->latency > 1)
        opennpu_mark_written(t, op, index, tick + op->latency);
    t->next = tick + 1;
}

#endif
