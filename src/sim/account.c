/* SPDX-License-Identifier: Apache-2.0 */
/* Cycle accounts. */
#include "sim/account.h"

#include <stdlib.h>

static void idle_until(tv_account *account, uint64_t to)
{
    if (to < account->cursor) /* checked in release builds, too: a wrong account must not be reported */
        abort();
    account->idle += to - account->cursor;
    account->cursor = to;
}

void tv_account_busy(tv_account *account, uint64_t from, uint64_t to)
{
    if (to <= from)
        return;
    idle_until(account, from);
    account->busy += to - from;
    account->cursor = to;
}

void tv_account_held(tv_account *account, unsigned cause, uint64_t from, uint64_t to)
{
    if (to <= from)
        return;
    idle_until(account, from);
    account->held[cause] += to - from;
    account->cursor = to;
}

void tv_account_settle(tv_account *account, uint64_t end)
{
    idle_until(account, end);
    uint64_t sum = account->busy + account->idle;
    for (unsigned i = 0; i < TV_CAUSES_MAX; i++)
        sum += account->held[i];
    if (sum != end)
        abort();
}
