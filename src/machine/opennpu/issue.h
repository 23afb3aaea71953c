/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model's step for an operation that nothing holds and nobody traces: what opennpu_timing_issue does, and no more
 * than such an operation needs. Both share the books. */
#ifndef TV_MACHINE_OPENNPU_ISSUE_H
#define TV_MACHINE_OPENNPU_ISSUE_H

#include "machine/opennpu/machine.h"

static inline bool opennpu_is_last(const opennpu_op *op) { return op->insn == OPENNPU_MMA_LAST || op->insn == OPENNPU_MMA_LAST_KEEP; }

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

/* Is a row that the operation reads or writes not ready in `tick`? Rows that are ready leave `flying`. */
static inline bool opennpu_is_awaited(opennpu_timing *t, const opennpu_op *op, uint64_t tick)
{
    if (t->latest <= tick)
        t->flying = 0;
    for (uint32_t rows = op->touched & t->flying; rows; rows &= rows - 1) {
        if (t->ready[__builtin_ctz(rows)] > tick)
            return true;
        t->flying &= ~(rows & (0 - rows));
    }
    return false;
}

/* What issues in tick `next`. False, and nothing has changed: something may hold it. */
static inline bool opennpu_timing_issue_unheld(opennpu_timing *t, const opennpu_op *op, int64_t index)
{
    uint64_t tick = t->next;
    if (opennpu_is_awaited(t, op, tick))
        return false;
    if (op->engine == OPENNPU_VALU) {
        tv_account_tick(&t->accounts[OPENNPU_VALU], tick);
    } else if (op->engine == OPENNPU_MMA_ARRAY) {
        if (opennpu_is_last(op) && t->accumulated && t->last_accumulate + t->k + t->column > tick)
            return false;
        tv_account_tick(&t->accounts[OPENNPU_MMA_ARRAY], tick);
        opennpu_move_array(t, op, index, tick);
    } else if (op->engine == OPENNPU_PORT) {
        if (t->port_free > tick)
            return false;
        tv_account_busy(&t->accounts[OPENNPU_PORT], t->port_from, t->port_free);
        t->port_from = tick;
        t->port_free = tick + t->shapes[op->insn].port_ticks;
        t->port_user = index;
    }
    tv_account_tick(&t->accounts[OPENNPU_ISSUE], tick);
    if (op->latency > 1)
        opennpu_mark_written(t, op, index, tick + op->latency);
    t->next = tick + 1;
    return true;
}

#endif
