/* SPDX-License-Identifier: Apache-2.0 */
/* The step of the timing model without a trace: opennpu_timing_issue without its events and their attributes. */
#ifndef TV_MACHINE_OPENNPU_ISSUE_H
#define TV_MACHINE_OPENNPU_ISSUE_H

#include "machine/opennpu/internal.h"

/* Records that the operation, instruction `index`, writes its destination at tick `completes`. */
static inline void opennpu_scoreboard_write(opennpu_timing *t, const opennpu_op *op, int64_t index, uint64_t completes)
{
    unsigned first = op->rows[OPENNPU_RD].first;
    for (unsigned i = first; op->writes && i < first + op->rows[OPENNPU_RD].count; i++) {
        t->completes[i] = completes;
        t->writer[i] = index;
    }
    if (t->last_completion <= t->next_tick)
        t->in_flight = 0;
    t->in_flight |= op->rows_written;
    t->last_completion = tv_max_u64(t->last_completion, completes);
}

/* Updates the state of the MMA array for an operation of its engine that issues in `tick`. */
static inline void opennpu_advance_array(opennpu_timing *t, const opennpu_op *op, int64_t index, uint64_t tick)
{
    if (op->effects & OPENNPU_MULTIPLIES) {
        t->accumulated = true;
        t->accumulate_tick = tick;
        t->accumulator = index;
    }
    t->column = op->effects & OPENNPU_DRAINS ? (t->column + 1) % t->k : 0;
}

/* Accounts for the port's last transfer. It may outlast the last result, since a store completes when it issues; ticks
 * from `end` on do not belong to the run. */
static inline void opennpu_account_port(opennpu_timing *t, uint64_t end)
{
    tv_account_busy(&t->accounts[OPENNPU_ENGINE_PORT], t->port_start, tv_min_u64(t->port_free, end));
    t->port_start = t->port_free;
}

/* Whether the operation stalls in tick `next_tick` whatever its registers are. */
static inline bool opennpu_engine_stalls(const opennpu_timing *t, const opennpu_op *op, opennpu_engine engine)
{
    if (engine == OPENNPU_ENGINE_PORT)
        return t->port_free > t->next_tick;
    return engine == OPENNPU_ENGINE_MMA && op->effects & OPENNPU_DRAINS && t->accumulated &&
           t->accumulate_tick + t->k + t->column > t->next_tick;
}

/* Whether the operation may stall in tick `next_tick`; false positives are resolved by opennpu_timing_stall. */
static inline bool opennpu_may_stall(opennpu_timing *t, const opennpu_op *op, opennpu_engine engine)
{
    if (t->last_completion <= t->next_tick)
        t->in_flight = 0;
    if ((op->rows_read | op->rows_written) & t->in_flight)
        return true;
    return opennpu_engine_stalls(t, op, engine);
}

/* Issues the operation, instruction `index`, in the first tick that it can. `engine` is its engine, a constant where
 * the caller knows it. */
TV_INLINE void opennpu_timing_issue_fast(opennpu_timing *t, const opennpu_op *op, opennpu_engine engine, int64_t index)
{
    if (engine == OPENNPU_ENGINE_PORT)
        opennpu_account_port(t, UINT64_MAX);
    uint64_t tick = opennpu_may_stall(t, op, engine) ? opennpu_timing_stall(t, op) : t->next_tick;
    tv_account_next_tick(&t->accounts[OPENNPU_ENGINE_ISSUE], tick);
    if (engine == OPENNPU_ENGINE_VALU) {
        tv_account_tick(&t->accounts[OPENNPU_ENGINE_VALU], tick);
    } else if (engine == OPENNPU_ENGINE_MMA) {
        tv_account_tick(&t->accounts[OPENNPU_ENGINE_MMA], tick);
        opennpu_advance_array(t, op, index, tick);
    } else if (engine == OPENNPU_ENGINE_PORT) {
        t->port_start = tick;
        t->port_free = tick + op->port_ticks;
        t->port_owner = index;
    }
    if (op->latency > 1)
        opennpu_scoreboard_write(t, op, index, tick + op->latency);
    t->next_tick = tick + 1;
}

#endif
