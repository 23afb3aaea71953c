/* SPDX-License-Identifier: Apache-2.0 */
/* Run control: forwards and backwards to the next stop.
 *
 * A run proceeds in slices. Each slice ends at the next instruction that a breakpoint may match, at the next breakpoint
 * cycle, or after a length chosen so that an interrupt takes effect quickly; with watchpoints, a slice is one
 * instruction. Between slices the breakpoints are checked and snapshots are taken. Slice lengths depend on the host's
 * speed, but affect neither the machine nor the stop.
 *
 * Reverse-continue restores a snapshot, runs forwards to the old position, and remembers the last hit on the way; if
 * there is none it tries the interval before that snapshot. */
#include "debug/debug.h"

static const char *const reason_names[] = {"start", "step", "breakpoint", "watch",
                                           "fault", "end",  "beginning",  "interrupted"};

static_assert(TV_COUNTOF(reason_names) == TV_DEBUG_INTERRUPTED + 1, "one name per reason");

const char *tv_debug_reason_name(tv_debug_reason reason) { return reason_names[reason]; }

static tv_debug_stop set_last_stop(tv_debug *d, tv_debug_stop stop)
{
    d->last = stop;
    return stop;
}

/* ---- Slices ---- */

/* Adapts the length of slices to about 10 to 50 ms of host time. */
typedef struct slice_timer {
    uint64_t length; /* instructions */
    double start;
} slice_timer;

static void start_slice(slice_timer *t) { t->start = tv_debug_now(); }

static void end_slice(slice_timer *t)
{
    double seconds = tv_debug_now() - t->start;
    if (seconds < 0.01 && t->length < UINT64_C(1) << 22)
        t->length *= 2;
    else if (seconds > 0.05 && t->length > 1)
        t->length /= 2;
}

typedef struct run_params {
    uint64_t limit;  /* stop before this position */
    bool count_hits; /* update hit counts, honour `skip` */
    uint64_t cycle;  /* the next breakpoint cycle, which no executed instruction has reached; UINT64_MAX: none */
    slice_timer slice;
} run_params;

/* The breakpoint cycle that the next instruction may reach first. CMDQ's clock takes time, so it is read only for
 * breakpoints. */
static uint64_t pending_cycle(tv_debug *d)
{
    bool any = d->options.mode != TV_MODE_FUNCTIONAL && tv_debug_next_break_cycle(d, 0) != UINT64_MAX;
    return any ? tv_debug_next_break_cycle(d, tv_debug_clock(d)) : UINT64_MAX;
}

/* Executes one instruction, and passes the breakpoint cycles that it reaches. */
static tv_status execute_one(tv_debug *d, run_params *run, const tv_diag_sink *sink, tv_stop_reason *why)
{
    for (;;) {
        TV_TRY(tv_debug_advance(d, tv_debug_position(d) + 1, run->cycle, sink, why));
        if (*why != TV_STOP_CYCLES)
            return TV_OK;
        run->cycle = tv_debug_next_break_cycle(d, run->cycle + 1);
    }
}

/* Turns a fault or the end of the last program into a stop. Any other error is returned, also with *stopped true. */
static tv_status check_run_end(tv_debug *d, tv_status status, tv_stop_reason why, tv_debug_stop *stop, bool *stopped)
{
    *stopped = true;
    if (status == TV_FAULT) {
        stop->reason = TV_DEBUG_FAULT;
        tv_debug_hit_fault(d, stop);
        return TV_OK;
    }
    if (status == TV_OK && why == TV_STOP_END)
        stop->reason = TV_DEBUG_END;
    else
        *stopped = status != TV_OK;
    return status;
}

/* Runs to the first position that a breakpoint may match, at most one slice. */
static tv_status run_slice(tv_debug *d, run_params *run, const tv_diag_sink *sink, tv_debug_stop *stop, bool *stopped)
{
    uint64_t position = tv_debug_position(d), next = tv_machine_next_index(d->machine);
    bool watches = tv_debug_has_watches(d);
    uint64_t length = watches ? 1 : tv_min_u64(run->slice.length, run->limit - position);
    tv_stop_reason why;
    if (!tv_debug_update_break_map(d))
        return tv_fail_memory(sink);
    uint64_t to = position + (tv_debug_next_in_break_map(d, next + 1, next + length) - next);
    tv_status status = tv_debug_advance(d, to, run->cycle, sink, &why);
    if (status == TV_OK && why == TV_STOP_CYCLES && tv_debug_hit_cycle(d, run->cycle, run->count_hits, stop)) {
        *stopped = true;
        return TV_OK;
    }
    if (status == TV_OK && why == TV_STOP_CYCLES) /* the condition is false: execute the instruction */
        status = execute_one(d, run, sink, &why);
    return check_run_end(d, status, why, stop, stopped);
}

/* Runs to run->limit or the next stop. `check_first`: breakpoints at the current position count. */
static tv_status run_to_stop(tv_debug *d, run_params *run, bool check_first, const tv_diag_sink *sink,
                             tv_debug_stop *stop)
{
    enum { WATCH_SLICES = 64 }; /* one-instruction slices between two polls */
    bool stopped = false;
    tv_stop_reason why;
    run->slice = (slice_timer){.length = 64};
    run->cycle = pending_cycle(d);
    if (!check_first && tv_debug_position(d) < run->limit) {
        tv_status status = execute_one(d, run, sink, &why);
        status = check_run_end(d, status, why, stop, &stopped);
        if (stopped)
            return status;
    }
    uint64_t slices = 0;
    start_slice(&run->slice);
    tv_debug_snapshot_if_due(d);
    while (tv_debug_position(d) < run->limit) {
        if (!tv_debug_update_break_map(d))
            return tv_fail_memory(sink);
        if (tv_debug_hit_here(d, run->count_hits, stop))
            return TV_OK;
        TV_TRY(run_slice(d, run, sink, stop, &stopped));
        if (stopped)
            return TV_OK;
        if (++slices % WATCH_SLICES && tv_debug_has_watches(d))
            continue;
        end_slice(&run->slice);
        tv_debug_snapshot_if_due(d);
        if (tv_debug_poll_interrupt(d)) {
            stop->reason = TV_DEBUG_INTERRUPTED;
            return TV_OK;
        }
        start_slice(&run->slice);
    }
    stop->reason = TV_DEBUG_STEP;
    return TV_OK;
}

/* ---- Forwards ---- */

tv_status tv_debug_continue(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    run_params run = {.limit = d->run_limit, .count_hits = true};
    tv_debug_stop found = {.reason = TV_DEBUG_STEP};
    tv_debug_reset_skipped(d);
    TV_TRY(run_to_stop(d, &run, false, sink, &found));
    *stop = set_last_stop(d, found);
    return TV_OK;
}

tv_status tv_debug_step(tv_debug *d, uint64_t count, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    uint64_t position = tv_debug_position(d), limit = d->run_limit;
    tv_debug_stop found = {.reason = TV_DEBUG_STEP};
    if (count == 0) {
        *stop = set_last_stop(d, found);
        return TV_OK;
    }
    d->run_limit = count < limit - position ? position + count : limit;
    tv_status status = tv_debug_continue(d, sink, &found);
    d->run_limit = limit;
    if (status == TV_OK)
        *stop = found;
    return status;
}

/* ---- Backwards ---- */

static tv_status fail_traced(const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`trace off` ends the trace",
                   "a run that is being traced cannot be reversed");
}

/* Goes back to `position` and drops the recorded writes after it. */
static tv_status reverse_to(tv_debug *d, uint64_t position, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    bool arrived;
    TV_TRY(tv_debug_go_to(d, position, sink, &arrived));
    if (!arrived)
        stop->reason = TV_DEBUG_INTERRUPTED;
    stop->dropped_writes = tv_debug_drop_future_writes(d);
    *stop = set_last_stop(d, *stop);
    return TV_OK;
}

tv_status tv_debug_step_back(tv_debug *d, uint64_t count, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    uint64_t position = tv_debug_position(d);
    if (d->trace)
        return fail_traced(sink);
    tv_debug_stop found = {.reason = count > position || position == 0 ? TV_DEBUG_BEGINNING : TV_DEBUG_STEP};
    TV_TRY(reverse_to(d, position - tv_min_u64(count, position), sink, &found));
    *stop = found;
    return TV_OK;
}

tv_status tv_debug_restart(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    if (d->trace)
        return fail_traced(sink);
    tv_debug_stop found = {.reason = TV_DEBUG_START};
    TV_TRY(reverse_to(d, 0, sink, &found));
    *stop = found;
    return TV_OK;
}

/* Runs from the current position to `end` and returns the last hit on the way; *position is UINT64_MAX if there is
 * none. An interrupt counts as the hit. */
static tv_status find_last_hit(tv_debug *d, uint64_t end, const tv_diag_sink *sink, uint64_t *position,
                               tv_debug_stop *stop)
{
    run_params run = {.limit = end};
    bool check_first = true;
    *position = UINT64_MAX;
    while (tv_debug_position(d) < end) {
        tv_debug_stop found = {.reason = TV_DEBUG_STEP};
        TV_TRY(run_to_stop(d, &run, check_first, sink, &found));
        check_first = false;
        if (found.reason == TV_DEBUG_INTERRUPTED) {
            *stop = found;
            *position = tv_debug_position(d);
            return TV_OK;
        }
        if (found.reason != TV_DEBUG_BREAKPOINT && found.reason != TV_DEBUG_WATCH)
            return TV_OK;
        *position = tv_debug_position(d);
        *stop = found;
    }
    return TV_OK;
}

tv_status tv_debug_reverse_continue(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    uint64_t end = tv_debug_position(d), position;
    tv_debug_stop found = {.reason = TV_DEBUG_BEGINNING};
    if (d->trace)
        return fail_traced(sink);
    for (position = UINT64_MAX; end > 0 && position == UINT64_MAX;) {
        TV_TRY(tv_debug_restore_before(d, end - 1, sink));
        uint64_t start = tv_debug_position(d);
        TV_TRY(find_last_hit(d, end, sink, &position, &found));
        end = start;
    }
    TV_TRY(reverse_to(d, position == UINT64_MAX ? 0 : position, sink, &found));
    *stop = found;
    return TV_OK;
}
