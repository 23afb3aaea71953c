/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse execution: snapshots, recorded writes and replay.
 *
 * Every write made through the debugger is recorded with its position. Snapshots are sparser the older they are. A
 * snapshot taken after a position where a new write is inserted belongs to a run that no longer exists and is dropped.
 * Snapshots decide only how fast the debugger goes back, never where it arrives. */
#include <stdlib.h>

#include "debug/debug.h"
#include "trivet/memory_file.h"

/* Wait at least COST_FACTOR times the duration of the previous snapshot, and at least SNAPSHOT_INTERVAL_MIN seconds,
 * before taking the next one. */
static const double SNAPSHOT_INTERVAL_MIN = 0.03, COST_FACTOR = 20;
/* Do not halve a replay by a snapshot when a half takes less than this part of the duration of one. */
static const double HALVING_COST_FACTOR = 0.5;

uint64_t tv_debug_history_bytes(const tv_debug *d)
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

/* Index of the snapshot whose removal lengthens a replay least, relative to its distance from the last snapshot. */
static unsigned cheapest_snapshot(const tv_debug *d)
{
    uint64_t end = d->snapshots[d->snapshot_count - 1].position;
    unsigned best = 0;
    double min_loss = 1e300;
    for (unsigned i = 0; i + 1 < d->snapshot_count; i++) {
        uint64_t before = i ? d->snapshots[i - 1].position : 0, after = d->snapshots[i + 1].position;
        double loss = (double)(after - before) / (double)(end - before + 1);
        if (loss < min_loss) {
            min_loss = loss;
            best = i;
        }
    }
    return best;
}

/* Index of the first snapshot after `position`. */
static unsigned first_snapshot_after(const tv_debug *d, uint64_t position)
{
    unsigned i = d->snapshot_count;
    while (i > 0 && d->snapshots[i - 1].position > position)
        i--;
    return i;
}

/* Takes a snapshot of the current position, unless there is one. */
static void take_snapshot(tv_debug *d)
{
    double begin = tv_debug_now();
    debug_snapshot s = {.position = tv_debug_position(d), .program = d->program, .writes = d->writes_applied};
    unsigned i = first_snapshot_after(d, s.position);
    const debug_snapshot *before = i ? &d->snapshots[i - 1] : NULL;
    if (before && before->position == s.position)
        return;
    tv_status status =
        tv_machine_snapshot(d->machine, before ? before->state : NULL, d->options.snapshot_memory, &s.state);
    d->snapshot_time = tv_debug_now();
    d->snapshot_cost = d->snapshot_time - begin;
    if (status != TV_OK)
        return;
    memmove(&d->snapshots[i + 1], &d->snapshots[i], (d->snapshot_count - i) * sizeof d->snapshots[0]);
    d->snapshots[i] = s;
    d->snapshot_count++;
    while (d->snapshot_count > 1 &&
           (d->snapshot_count > DEBUG_SNAPSHOTS_MAX || tv_debug_history_bytes(d) > d->options.snapshot_memory))
        drop_snapshot(d, cheapest_snapshot(d));
}

void tv_debug_snapshot_if_due(tv_debug *d)
{
    uint64_t position = tv_debug_position(d);
    double now = tv_debug_now(), wait = COST_FACTOR * d->snapshot_cost;
    const debug_snapshot *last = d->snapshot_count ? &d->snapshots[d->snapshot_count - 1] : NULL;
    uint64_t since = position - tv_min_u64(last ? last->position : 0, position);
    bool due = d->options.snapshot_interval
                   ? since >= d->options.snapshot_interval
                   : now - d->snapshot_time >= (wait > SNAPSHOT_INTERVAL_MIN ? wait : SNAPSHOT_INTERVAL_MIN);
    if (due && since > 0 && !d->trace)
        take_snapshot(d);
}

tv_status tv_debug_restore_before(tv_debug *d, uint64_t position, const tv_diag_sink *sink)
{
    unsigned i = first_snapshot_after(d, position);
    d->clock_at = UINT64_MAX;
    d->snapshot_time = tv_debug_now();
    if (i == 0)
        return tv_debug_reset(d, sink);
    const debug_snapshot *s = &d->snapshots[i - 1];
    if (tv_machine_restore(d->machine, s->state) != TV_OK)
        return tv_debug_reset(d, sink);
    d->break_map_valid = d->break_map_valid && d->program == s->program;
    d->program = s->program;
    d->writes_applied = s->writes;
    return TV_OK;
}

/* Replays from the snapshot before `position`, with a snapshot of the middle, of three quarters, and so on: the next
 * step back, which usually follows, replays only the rest. */
tv_status tv_debug_go_to(tv_debug *d, uint64_t position, const tv_diag_sink *sink, bool *arrived)
{
    uint64_t slice = 1024;
    tv_stop_reason why;
    *arrived = true;
    TV_TRY(tv_debug_restore_before(d, position, sink));
    TV_TRY(tv_debug_advance(d, tv_debug_position(d), UINT64_MAX, sink,
                            &why)); /* applies writes at the restored position */
    double begin = tv_debug_now();
    uint64_t from = tv_debug_position(d);
    while (tv_debug_position(d) < position) {
        double start = tv_debug_now();
        uint64_t at = tv_debug_position(d), half = from + (position - from) / 2,
                 end = at + tv_min_u64(position - at, slice);
        if (at < half && end > half)
            end = half;
        TV_TRY(tv_debug_advance(d, end, UINT64_MAX, sink, &why));
        if (why != TV_STOP_UNTIL && tv_debug_position(d) < position)
            break;
        double now = tv_debug_now();
        if (now - start < 0.02 && slice < UINT64_C(1) << 24)
            slice *= 2;
        if (end == half && !d->options.snapshot_interval && !d->trace &&
            now - begin > HALVING_COST_FACTOR * d->snapshot_cost) {
            take_snapshot(d);
            from = half;
            begin = tv_debug_now();
        } else {
            tv_debug_snapshot_if_due(d);
        }
        if (tv_debug_position(d) < position && tv_debug_poll_interrupt(d)) {
            *arrived = false;
            break;
        }
    }
    return TV_OK;
}

uint64_t tv_debug_drop_future_writes(tv_debug *d)
{
    uint64_t dropped = d->writes.count - d->writes_applied;
    while (d->writes.count > d->writes_applied)
        free(d->writes.data[--d->writes.count].data);
    for (unsigned i = d->snapshot_count; dropped && i-- > 0;)
        if (d->snapshots[i].writes > d->writes.count)
            drop_snapshot(d, i);
    return dropped;
}

void tv_debug_history_fini(tv_debug *d)
{
    while (d->snapshot_count)
        drop_snapshot(d, d->snapshot_count - 1);
    while (d->writes.count)
        free(d->writes.data[--d->writes.count].data);
    TV_VEC_FINI(&d->writes);
}

/* Records a write that has been applied, and drops the snapshots after it. Takes write->data. */
static bool record_write(tv_debug *d, const debug_write *write)
{
    if (!TV_VEC_PUSH(&d->writes, *write))
        return false;
    d->writes_applied = d->writes.count;
    while (d->snapshot_count && d->snapshots[d->snapshot_count - 1].position > write->position)
        drop_snapshot(d, d->snapshot_count - 1);
    return true;
}

tv_status tv_debug_write(tv_debug *d, const char *space, uint64_t addr, const void *data, size_t bytes,
                         const tv_diag_sink *sink)
{
    bool arrived = true;
    if (bytes == 0)
        return TV_OK;
    debug_write w = {.position = tv_debug_position(d), .addr = addr, .bytes = bytes, .data = malloc(bytes)};
    if (!w.data)
        return tv_fail_memory(sink);
    memcpy(w.data, data, bytes);
    snprintf(w.space, sizeof w.space, "%s", space);
    tv_status status = TV_OK;
    if (tv_machine_fault(d->machine) && !d->trace) /* clear the fault, so that the instruction can be retried */
        status = tv_debug_go_to(d, w.position, sink, &arrived);
    if (status == TV_OK && !arrived)
        status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`where` shows the current location",
                         "the replay to before the fault was interrupted; nothing is written");
    if (status == TV_OK)
        status = tv_machine_write(d->machine, space, addr, data, bytes, sink);
    if (status == TV_OK && !record_write(d, &w))
        status = tv_fail_memory(sink);
    if (status != TV_OK)
        free(w.data);
    if (!tv_machine_fault(d->machine) && d->last.reason == TV_DEBUG_FAULT)
        d->last = (tv_debug_stop){.reason = TV_DEBUG_STEP}; /* the machine is now before the faulting instruction */
    d->clock_at = UINT64_MAX;
    return status;
}

static tv_status write_history(void *user, const char *space, uint64_t addr, const void *data, size_t bytes,
                               const tv_diag_sink *sink)
{
    return tv_debug_write(user, space, addr, data, bytes, sink);
}

tv_status tv_debug_load(tv_debug *d, const char *where, const char *path, const tv_diag_sink *sink)
{
    const tv_memory_writer writer = {write_history, d};
    return tv_memory_fill(d->machine, d->programs, d->count, where, path, &writer, sink);
}
