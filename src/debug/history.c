/* SPDX-License-Identifier: Apache-2.0 */
/* The way back: snapshots, the fewer the longer ago, and what was written from outside. Without a snapshot the run is
 * repeated from its start. Snapshots decide how fast a debugger goes back, never where it arrives. */
#include <stdlib.h>

#include "debug/debug.h"
#include "trivet/file.h"

/* A snapshot is taken after so many times what the last one took, and not more often than that. */
static const double LEAST_SECONDS = 0.03, COST_FACTOR = 20;

uint64_t debug_history_bytes(const tv_debug *d)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < d->snapshot_count; i++)
        sum += tv_snapshot_bytes(d->snapshots[i].state);
    return sum;
}

static void drop_snapshot(tv_debug *d, unsigned i)
{
    tv_snapshot_free(d->snapshots[i].state);
    d->snapshot_count--;
    memmove(&d->snapshots[i], &d->snapshots[i + 1], (d->snapshot_count - i) * sizeof d->snapshots[0]);
}

/* The one whose loss makes the way back from the last longer by the least share. */
static unsigned least_useful(const tv_debug *d)
{
    uint64_t end = d->snapshots[d->snapshot_count - 1].position;
    unsigned best = 0;
    double least = 1e300;
    for (unsigned i = 0; i + 1 < d->snapshot_count; i++) {
        uint64_t before = i ? d->snapshots[i - 1].position : 0, after = d->snapshots[i + 1].position;
        double loss = (double)(after - before) / (double)(end - before + 1);
        if (loss < least) {
            least = loss;
            best = i;
        }
    }
    return best;
}

void debug_remember(tv_debug *d)
{
    uint64_t position = debug_position(d);
    double now = debug_now(), wait = COST_FACTOR * d->snapshot_cost;
    const debug_snapshot *last = d->snapshot_count ? &d->snapshots[d->snapshot_count - 1] : NULL;
    uint64_t since = position - tv_min_u64(last ? last->position : 0, position);
    bool due = d->options.snapshot_interval ? since >= d->options.snapshot_interval
                                            : now - d->snapshot_time >= (wait > LEAST_SECONDS ? wait : LEAST_SECONDS);
    if (!due || since == 0 || d->trace)
        return;
    debug_snapshot s = {.position = position, .program = d->program, .writes = d->writes_done};
    tv_status status = tv_machine_snapshot(d->machine, last ? last->state : NULL, d->options.snapshot_memory, &s.state);
    d->snapshot_time = debug_now();
    d->snapshot_cost = d->snapshot_time - now;
    if (status != TV_OK)
        return;
    d->snapshots[d->snapshot_count++] = s;
    while (d->snapshot_count > 1 &&
           (d->snapshot_count > DEBUG_SNAPSHOTS_MAX || debug_history_bytes(d) > d->options.snapshot_memory))
        drop_snapshot(d, least_useful(d));
}

tv_status debug_return(tv_debug *d, uint64_t position, const tv_diag_sink *sink)
{
    unsigned i = d->snapshot_count;
    while (i > 0 && d->snapshots[i - 1].position > position)
        i--;
    d->clock_at = UINT64_MAX;
    d->snapshot_time = debug_now();
    if (i == 0)
        return debug_reset(d, sink);
    const debug_snapshot *s = &d->snapshots[i - 1];
    if (tv_machine_restore(d->machine, s->state) != TV_OK)
        return debug_reset(d, sink);
    d->marked = d->marked && d->program == s->program;
    d->program = s->program;
    d->writes_done = s->writes;
    return TV_OK;
}

tv_status debug_travel(tv_debug *d, uint64_t position, const tv_diag_sink *sink, bool *there)
{
    uint64_t slice = 1024;
    tv_stop_reason why;
    *there = true;
    TV_TRY(debug_return(d, position, sink));
    TV_TRY(debug_advance(d, debug_position(d), UINT64_MAX, sink, &why)); /* writes of that very place */
    while (debug_position(d) < position) {
        double start = debug_now();
        uint64_t left = position - debug_position(d);
        TV_TRY(debug_advance(d, debug_position(d) + tv_min_u64(left, slice), UINT64_MAX, sink, &why));
        if (why != TV_STOP_UNTIL && debug_position(d) < position)
            break;
        if (debug_now() - start < 0.02 && slice < UINT64_C(1) << 24)
            slice *= 2;
        debug_remember(d);
        if (debug_position(d) < position && debug_interrupted(d)) {
            *there = false;
            break;
        }
    }
    return TV_OK;
}

uint64_t debug_forget_future(tv_debug *d)
{
    uint64_t dropped = d->write_count - d->writes_done;
    while (d->write_count > d->writes_done)
        free(d->writes[--d->write_count].data);
    for (unsigned i = d->snapshot_count; dropped && i-- > 0;)
        if (d->snapshots[i].writes > d->write_count)
            drop_snapshot(d, i);
    return dropped;
}

void debug_history_fini(tv_debug *d)
{
    while (d->snapshot_count)
        drop_snapshot(d, d->snapshot_count - 1);
    while (d->write_count)
        free(d->writes[--d->write_count].data);
    free(d->writes);
}

/* Keeps a write that has been done. What was remembered of later places is of another run. */
static bool keep_write(tv_debug *d, const debug_write *write)
{
    if (d->write_count == d->write_cap) {
        size_t cap = d->write_cap ? 2 * d->write_cap : 16;
        debug_write *writes = realloc(d->writes, cap * sizeof *writes);
        if (!writes)
            return false;
        d->writes = writes;
        d->write_cap = cap;
    }
    d->writes[d->write_count++] = *write;
    d->writes_done = d->write_count;
    while (d->snapshot_count && d->snapshots[d->snapshot_count - 1].position > write->position)
        drop_snapshot(d, d->snapshot_count - 1);
    return true;
}

tv_status tv_debug_write(tv_debug *d, const char *space, uint64_t addr, const void *data, size_t bytes,
                         const tv_diag_sink *sink)
{
    bool there = true;
    if (bytes == 0)
        return TV_OK;
    debug_write w = {.position = debug_position(d), .addr = addr, .bytes = bytes, .data = malloc(bytes)};
    if (!w.data)
        return tv_fail_memory(sink);
    memcpy(w.data, data, bytes);
    snprintf(w.space, sizeof w.space, "%s", space);
    tv_status status = TV_OK;
    if (tv_machine_fault(d->machine) && !d->trace) /* the instruction may be tried again */
        status = debug_travel(d, w.position, sink, &there);
    if (status == TV_OK && !there)
        status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`where` tells the place",
                         "the way back before the fault was interrupted; nothing is written");
    if (status == TV_OK)
        status = tv_machine_write(d->machine, space, addr, data, bytes, sink);
    if (status == TV_OK && !keep_write(d, &w))
        status = tv_fail_memory(sink);
    if (status != TV_OK)
        free(w.data);
    if (!tv_machine_fault(d->machine) && d->last.reason == TV_DEBUG_FAULT)
        d->last = (tv_debug_stop){.reason = TV_DEBUG_STEP}; /* it stands before the instruction, not at its fault */
    d->clock_at = UINT64_MAX;
    return status;
}

tv_status tv_debug_load(tv_debug *d, const char *where, const char *path, const tv_diag_sink *sink)
{
    tv_space space;
    uint64_t addr;
    const char *rest;
    tv_input input;
    TV_TRY(tv_machine_parse_address(d->machine, d->programs, d->count, where, sink, &space, &addr, &rest));
    if (rest)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "a file is loaded at SPACE:ADDR",
                       "behind the address '%.60s' stands ':%.60s'", where, rest);
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = tv_debug_write(d, space.name, addr, input.data, input.size, sink);
    tv_input_close(&input);
    return status;
}
