/* SPDX-License-Identifier: Apache-2.0 */
/* Where an engine's cycles went. Stretches are added in the order of time; what lies between them was idle. At the end
 * busy + held + idle equals the run's length, which is asserted always. */
#ifndef TV_SIM_ACCOUNT_H
#define TV_SIM_ACCOUNT_H

#include <stdlib.h>

#include "base/base.h"
#include "trivet/machine.h"

typedef struct tv_account {
    const char *name;
    uint64_t cursor; /* everything before it is accounted for */
    uint64_t busy, idle, stalled[TV_STALL_REASONS_MAX];
} tv_account;

/* Idle up to `to`, which is not before the cursor. */
static inline void tv_account_idle(tv_account *account, uint64_t to)
{
    if (to < account->cursor) /* checked in release builds, too: a wrong account must not be reported */
        abort();
    account->idle += to - account->cursor;
    account->cursor = to;
}

/* The engine worked from `from` to `to` (exclusive); `from` is not before the cursor. Empty stretches are allowed. */
static inline void tv_account_busy(tv_account *account, uint64_t from, uint64_t to)
{
    if (to <= from)
        return;
    tv_account_idle(account, from);
    account->busy += to - from;
    account->cursor = to;
}

/* The engine worked in tick `at`. */
static inline void tv_account_tick(tv_account *account, uint64_t at)
{
    tv_account_idle(account, at);
    account->busy++;
    account->cursor = at + 1;
}

static inline void tv_account_stall(tv_account *account, unsigned reason, uint64_t from, uint64_t to)
{
    if (to <= from)
        return;
    tv_account_idle(account, from);
    account->stalled[reason] += to - from;
    account->cursor = to;
}

/* Idle up to `end`; then the sum is checked. */
void tv_account_finalize(tv_account *account, uint64_t end);

#endif
