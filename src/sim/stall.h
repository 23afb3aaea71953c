/* SPDX-License-Identifier: Apache-2.0 */
/* Attribution of stall cycles.
 *
 * An instruction may be stalled for several reasons at once, each until a known cycle. Every cycle between the one in
 * which it could first issue and its issue is attributed to exactly one reason: the first, in the order of the
 * machine's enum of reasons, that still applies in that cycle. Two accounts record them: the scheduler's, and that
 * of the instruction's engine for the cycles in which the engine is free.
 *
 * The functions are inline: a timing model calls them for each instruction, with a constant count of reasons. */
#ifndef TV_SIM_STALL_H
#define TV_SIM_STALL_H

#include "sim/account.h"
#include "sim/events.h"

/* One reason of an instruction. All zero: the reason does not apply. */
typedef struct tv_stall {
    uint64_t until;    /* first cycle in which it no longer applies */
    int64_t waits_for; /* the instruction that ends it, or -1 */
} tv_stall;

/* The reason applies up to `until` at least; of several ends the latest counts, on ties the first. */
static inline void tv_stall_extend(tv_stall *stall, uint64_t until, int64_t waits_for)
{
    if (until > stall->until)
        *stall = (tv_stall){until, waits_for};
}

/* The issue cycle of an instruction that could first issue in `cycle`. */
static inline uint64_t tv_stalls_end(const tv_stall *stalls, unsigned count, uint64_t cycle)
{
    for (unsigned r = 0; r < count; r++)
        cycle = tv_max_u64(cycle, stalls[r].until);
    return cycle;
}

/* Where the stall cycles of an instruction go. */
typedef struct tv_stall_accounts {
    tv_account *scheduler;      /* NULL: none */
    tv_account *engine;         /* NULL: none */
    uint64_t engine_free;       /* before this cycle the engine still works on another instruction */
    const tv_emitter *emitter;  /* NULL: no events */
    int64_t index;              /* of the instruction */
    const tv_event *event;      /* what its events have beside that; NULL: nothing. Read if the run is traced */
    const char *const *reasons; /* names */
} tv_stall_accounts;

/* Sends the event of a stall to the trace. The run is traced. */
void tv_emit_stall(const tv_stall_accounts *accounts, const tv_account *account, unsigned reason, int64_t waits_for,
                   uint64_t from, uint64_t to);

/* Records the cycles from `from` to `to` (exclusive) as stalled by `reason`. An empty range is allowed. */
static inline void tv_record_stall(const tv_stall_accounts *accounts, tv_account *account, unsigned reason,
                                   int64_t waits_for, uint64_t from, uint64_t to)
{
    if (to <= from)
        return;
    tv_account_stall(account, reason, from, to);
    if (accounts->emitter && tv_is_traced(accounts->emitter))
        tv_emit_stall(accounts, account, reason, waits_for, from, to);
}

/* Attributes each cycle from `cycle` to the issue cycle, and returns the latter. */
static inline uint64_t tv_attribute_stalls(const tv_stall *stalls, unsigned count, uint64_t cycle,
                                           const tv_stall_accounts *accounts)
{
    for (unsigned r = 0; r < count; r++) {
        if (stalls[r].until <= cycle)
            continue;
        uint64_t from = cycle;
        cycle = stalls[r].until;
        if (accounts->scheduler)
            tv_record_stall(accounts, accounts->scheduler, r, stalls[r].waits_for, from, cycle);
        if (accounts->engine)
            tv_record_stall(accounts, accounts->engine, r, stalls[r].waits_for, tv_max_u64(from, accounts->engine_free),
                            cycle);
    }
    return cycle;
}

#endif
