/* SPDX-License-Identifier: Apache-2.0 */
/* Events of stalls. */
#include "sim/stall.h"

void tv_emit_stall(const tv_stall_accounts *accounts, const tv_account *account, unsigned reason, int64_t waits_for,
                   uint64_t from, uint64_t to)
{
    tv_event event = accounts->event ? *accounts->event : (tv_event){0};
    event.kind = TV_EVENT_STALL;
    event.index = accounts->index;
    if (!event.engine)
        event.engine = account->name;
    event.start = from;
    event.end = to;
    event.reason = accounts->reasons[reason];
    event.waits_for = waits_for;
    event.scheduler = account == accounts->scheduler;
    tv_emit(accounts->emitter, &event);
}
