/* SPDX-License-Identifier: Apache-2.0 */
/* The cycle account of an engine: each cycle is busy, stalled by one reason, or idle. Intervals are added in the order
 * of time; the cycles between them are idle. At the end busy + stalled + idle equals the length of the run, which is
 * checked in release builds, too, because a wrong account must not be reported. */
#ifndef TV_SIM_ACCOUNT_H
#define TV_SIM_ACCOUNT_H

#include <stdlib.h>

#include "base/base.h"
#include "trivet/machine.h"

typedef struct tv_account {
    const char *name;
    uint64_t cursor; /* all cycles before it are accounted for */
    uint64_t busy, idle, stalled[TV_STALL_REASONS_MAX];
} tv_account;

/* Idle until cycle `to`, which is not before the cursor. */
static inline void tv_account_idle(tv_account *account, uint64_t to)
{
    if (to < account->cursor)
        abort();
    account->idle += to - account->cursor;
    account->cursor = to;
}

/* Busy from cycle `from` to `to` (exclusive); `from` is not before the cursor. An empty interval is allowed. */
static inline void tv_account_busy(tv_account *account, uint64_t from, uint64_t to)
{
    if (to <= from)
        return;
    tv_account_idle(account, from);
    account->busy += to - from;
    account->cursor = to;
}

/* Busy in cycle `at`. */
static inline void tv_account_tick(tv_account *account, uint64_t at)
{
    tv_account_idle(account, at);
    account->busy++;
    account->cursor = at + 1;
}

/* The same for an engine that is busy in most cycles: quick if it was busy or stalled in the cycle before. */
static inline void tv_account_next_tick(tv_account *account, uint64_t at)
{
    if (__builtin_expect(at != account->cursor, 0))
        tv_account_idle(account, at);
    account->busy++;
    account->cursor = at + 1;
}

/* Stalled by `reason` from cycle `from` to `to` (exclusive), as for tv_account_busy. */
static inline void tv_account_stall(tv_account *account, unsigned reason, uint64_t from, uint64_t to)
{
    if (to <= from)
        return;
    tv_account_idle(account, from);
    account->stalled[reason] += to - from;
    account->cursor = to;
}

/* Idle until cycle `end`; then checks the sum. */
void tv_account_finalize(tv_account *account, uint64_t end);

#endif
