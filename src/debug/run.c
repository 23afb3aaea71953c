/* SPDX-License-Identifier: Apache-2.0 */
/* Running to the next reason to stop, forwards and backwards. */
#include "debug/debug.h"

static const char *const reason_names[] = {"start", "step", "breakpoint", "watch",
                                           "fault", "end",  "beginning",  "interrupted"};

const char *tv_debug_reason_name(tv_debug_reason reason) { return reason_names[reason]; }

static tv_debug_stop settled(tv_debug *d, tv_debug_stop stop)
{
    d->last = stop;
    return stop;
}

/* A slice of a run: as long as a person does not notice. */
typedef struct slices {
    uint64_t length;
    double start;
} slices;

static void slice_begin(slices *s) { s->start = debug_now(); }

static void slice_end(slices *s)
{
    double took = debug_now() - s->start;
    if (took < 0.01 && s->length < UINT64_C(1) << 22) /* how long it is decides nothing but the delay of Ctrl-C */
        s->length *= 2;
    else if (took > 0.05 && s->length > 1)
        s->length /= 2;
}

static tv_status end_of_run(tv_debug *d, tv_status status, tv_stop_reason why, tv_debug_stop *stop, bool *stopped)
{
    *stopped = true;
    if (status == TV_FAULT) {
        stop->reason = TV_DEBUG_FAULT;
        debug_hit_fault(d, stop);
        return TV_OK;
    }
    if (status == TV_OK && why == TV_STOP_END)
        stop->reason = TV_DEBUG_END;
    else
        *stopped = status != TV_OK;
    return status;
}

/* How a run goes on to position `limit`: what it looks for depends on the breakpoints there are. */
typedef struct scan {
    uint64_t limit;
    bool count; /* hits count */
    slices slices;
} scan;

/* One stretch, to the first place that a breakpoint may be meant for. */
static tv_status run_stretch(tv_debug *d, scan *s, const tv_diag_sink *sink, tv_debug_stop *stop, bool *stopped)
{
    uint64_t position = debug_position(d), next = tv_machine_next_index(d->machine);
    bool watches = debug_has_watches(d);
    uint64_t length = watches ? 1 : tv_min_u64(s->slices.length, s->limit - position);
    uint64_t cycle = d->options.mode == TV_MODE_FUNCTIONAL ? UINT64_MAX : debug_next_cycle(d, 0);
    tv_stop_reason why;
    if (cycle != UINT64_MAX)
        cycle = debug_next_cycle(d, debug_clock(d));
    if (!debug_mark(d))
        return tv_fail_memory(sink);
    uint64_t to = position + (debug_next_mark(d, next + 1, next + length) - next);
    tv_status status = debug_advance(d, to, cycle, sink, &why);
    if (status == TV_OK && why == TV_STOP_CYCLES && debug_hit_cycle(d, cycle, s->count, stop)) {
        *stopped = true;
        return TV_OK;
    }
    if (status == TV_OK && why == TV_STOP_CYCLES) /* its condition does not hold: over it */
        status = debug_advance(d, debug_position(d) + 1, UINT64_MAX, sink, &why);
    return end_of_run(d, status, why, stop, stopped);
}

/* Runs to `s->limit` or a reason to stop. `here`: a breakpoint where it stands is one. */
static tv_status run_scan(tv_debug *d, scan *s, bool here, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    bool stopped = false;
    tv_stop_reason why;
    s->slices = (slices){.length = 64};
    if (!here && debug_position(d) < s->limit) {
        tv_status status = debug_advance(d, debug_position(d) + 1, UINT64_MAX, sink, &why);
        status = end_of_run(d, status, why, stop, &stopped);
        if (stopped)
            return status;
    }
    uint64_t polled = 0;
    slice_begin(&s->slices);
    debug_remember(d);
    while (debug_position(d) < s->limit) {
        if (!debug_mark(d))
            return tv_fail_memory(sink);
        if (debug_hit_here(d, s->count, stop))
            return TV_OK;
        TV_TRY(run_stretch(d, s, sink, stop, &stopped));
        if (stopped)
            return TV_OK;
        if (++polled % 64 && debug_has_watches(d))
            continue;
        slice_end(&s->slices);
        debug_remember(d);
        if (debug_interrupted(d)) {
            stop->reason = TV_DEBUG_INTERRUPTED;
            return TV_OK;
        }
        slice_begin(&s->slices);
    }
    stop->reason = TV_DEBUG_STEP;
    return TV_OK;
}

tv_status tv_debug_continue(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    scan s = {.limit = d->goal, .count = true};
    tv_debug_stop found = {.reason = TV_DEBUG_STEP};
    debug_forget_passed(d);
    TV_TRY(run_scan(d, &s, false, sink, &found));
    *stop = settled(d, found);
    return TV_OK;
}

tv_status tv_debug_step(tv_debug *d, uint64_t count, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    uint64_t position = debug_position(d), goal = d->goal;
    tv_debug_stop found = {.reason = TV_DEBUG_STEP};
    if (count == 0) {
        *stop = settled(d, found);
        return TV_OK;
    }
    d->goal = count < goal - position ? position + count : goal;
    tv_status status = tv_debug_continue(d, sink, &found);
    d->goal = goal;
    *stop = found;
    return status;
}

static tv_status fail_traced(const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`trace off` ends the trace",
                   "a run that is being traced cannot go back");
}

/* To `position` and there it is: what had been done later from outside is no more. */
static tv_status go_back(tv_debug *d, uint64_t position, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    bool there;
    TV_TRY(debug_travel(d, position, sink, &there));
    if (!there)
        stop->reason = TV_DEBUG_INTERRUPTED;
    stop->dropped_writes = debug_forget_future(d);
    *stop = settled(d, *stop);
    return TV_OK;
}

tv_status tv_debug_step_back(tv_debug *d, uint64_t count, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    uint64_t position = debug_position(d);
    if (d->trace)
        return fail_traced(sink);
    *stop = (tv_debug_stop){.reason = count > position || position == 0 ? TV_DEBUG_BEGINNING : TV_DEBUG_STEP};
    return go_back(d, position - tv_min_u64(count, position), sink, stop);
}

tv_status tv_debug_restart(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    if (d->trace)
        return fail_traced(sink);
    *stop = (tv_debug_stop){.reason = TV_DEBUG_START};
    return go_back(d, 0, sink, stop);
}

/* The last stop between where the machine stands and `end`; *position is UINT64_MAX when there is none. */
static tv_status last_stop(tv_debug *d, uint64_t end, const tv_diag_sink *sink, uint64_t *position, tv_debug_stop *stop)
{
    scan s = {.limit = end};
    bool here = true;
    *position = UINT64_MAX;
    while (debug_position(d) < end) {
        tv_debug_stop found = {.reason = TV_DEBUG_STEP};
        TV_TRY(run_scan(d, &s, here, sink, &found));
        here = false;
        if (found.reason == TV_DEBUG_INTERRUPTED) {
            *stop = found;
            *position = debug_position(d);
            return TV_OK;
        }
        if (found.reason != TV_DEBUG_BREAKPOINT && found.reason != TV_DEBUG_WATCH)
            return TV_OK;
        *position = debug_position(d);
        *stop = found;
    }
    return TV_OK;
}

tv_status tv_debug_reverse_continue(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    uint64_t end = debug_position(d), found;
    if (d->trace)
        return fail_traced(sink);
    while (end > 0) {
        tv_debug_stop last;
        TV_TRY(debug_return(d, end - 1, sink));
        uint64_t start = debug_position(d);
        TV_TRY(last_stop(d, end, sink, &found, &last));
        if (found != UINT64_MAX) {
            *stop = last;
            return go_back(d, found, sink, stop);
        }
        end = start;
    }
    *stop = (tv_debug_stop){.reason = TV_DEBUG_BEGINNING};
    return go_back(d, 0, sink, stop);
}
