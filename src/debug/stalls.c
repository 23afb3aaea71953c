/* SPDX-License-Identifier: Apache-2.0 */
/* Observation of one instruction: when it issues and completes, and what stalls it. The instruction is executed with a
 * trace sink attached, and the debugger then returns to its position. */
#include "debug/debug.h"

static void record_stall(debug_observation *o, const tv_event *e)
{
    for (unsigned i = 0; i < o->count; i++) /* an engine stalls as long as its scheduler: report one of the two */
        if (strcmp(o->stalls[i].reason, e->reason) == 0 && o->stalls[i].to == e->end &&
            o->stalls[i].scheduler != (e->scheduler != 0))
            return;
    if (o->count == DEBUG_STALLS_MAX)
        return;
    o->stalls[o->count++] = (debug_stall){.reason = e->reason,
                                          .engine = e->lane ? e->lane : e->engine,
                                          .from = e->start,
                                          .to = e->end,
                                          .waits_for = e->waits_for,
                                          .scheduler = e->scheduler != 0};
}

static void record_event(void *user, const tv_event *e)
{
    debug_observation *o = user;
    if (e->index != o->index)
        return;
    if (e->kind == TV_EVENT_COMMAND || e->kind == TV_EVENT_ENGINE) {
        o->start = e->start;
        o->end = o->issued ? tv_max_u64(o->end, e->end) : e->end;
        o->issued = true;
    } else if (e->kind == TV_EVENT_STALL) {
        record_stall(o, e);
    }
}

/* Executes the next instruction and records its events. */
static tv_status execute_observed(tv_debug *d, debug_observation *o, const tv_diag_sink *sink)
{
    tv_stop_reason why;
    o->program = d->program;
    o->first = (int64_t)d->instruction_base[d->program];
    o->index = o->first + (int64_t)tv_machine_nth_index(d->machine, tv_machine_next_index(d->machine));
    tv_machine_trace(d->machine, &(tv_trace_sink){.event = record_event, .user = o, .without_energy = 1});
    tv_status status = tv_debug_advance(d, tv_debug_position(d) + 1, UINT64_MAX, sink, &why);
    tv_machine_trace(d->machine, NULL);
    o->faulted = status == TV_FAULT;
    if (o->faulted)
        snprintf(o->fault, sizeof o->fault, "%s", tv_machine_fault(d->machine)->message);
    return o->faulted ? TV_OK : status;
}

tv_status tv_debug_observe(tv_debug *d, uint64_t position, debug_observation *out, const tv_diag_sink *sink,
                           bool *arrived)
{
    uint64_t original = tv_debug_position(d);
    bool faulted = tv_machine_fault(d->machine) != NULL;
    tv_stop_reason why;
    *out = (debug_observation){0};
    *arrived = true;
    if (position != original || faulted)
        TV_TRY(tv_debug_go_to(d, position, sink, arrived));
    if (*arrived)
        TV_TRY(execute_observed(d, out, sink));
    if (*arrived && (tv_debug_position(d) != original || out->faulted))
        TV_TRY(tv_debug_go_to(d, original, sink, arrived));
    if (!*arrived || !faulted)
        return TV_OK;
    tv_status status = tv_debug_advance(d, original + 1, UINT64_MAX, sink, &why); /* raise the fault again */
    return status == TV_FAULT ? TV_OK : status;
}
