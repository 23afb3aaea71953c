/* SPDX-License-Identifier: Apache-2.0 */
/* Cycle accounts. */
#include "sim/account.h"

void tv_account_finalize(tv_account *account, uint64_t end)
{
    tv_account_idle(account, end);
    uint64_t sum = account->busy + account->idle;
    for (unsigned i = 0; i < TV_STALL_REASONS_MAX; i++)
        sum += account->stalled[i];
    if (sum != end)
        abort();
}
