/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder of commit records. An observed run executes one instruction at a time: the target describes the next one
 * and the ranges it accesses, their bytes are copied before and after it, and the record is sent. Cycles that the
 * target knows only later arrive with its ENGINE events and become COMPLETION records. */
#include "machine/recorder.h"

#include <stdlib.h>

#include "sim/events.h"

/* ---- Creation ---- */

static unsigned find_base(const tv_recorded_space *spaces, unsigned count, unsigned i)
{
    for (unsigned b = 0; spaces[i].info.alias_of && b < count; b++)
        if (strcmp(spaces[b].info.name, spaces[i].info.alias_of) == 0)
            return b;
    return i;
}

tv_recorder *tv_recorder_of(tv_machine *machine)
{
    if (machine->recorder)
        return machine->recorder;
    tv_recorder *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->machine = machine;
    while (r->space_count < TV_RECORDED_SPACES &&
           machine->target->space_at(machine->state, r->space_count, &r->spaces[r->space_count].info))
        r->space_count++;
    for (unsigned i = 0; i < r->space_count; i++) {
        r->spaces[i].base = find_base(r->spaces, r->space_count, i);
        r->spaces[i].scale = r->spaces[i].info.unit_bytes / r->spaces[r->spaces[i].base].info.unit_bytes;
    }
    machine->recorder = r;
    return r;
}

void tv_recorder_free(tv_recorder *r)
{
    if (!r)
        return;
    TV_VEC_FINI(&r->accesses);
    TV_VEC_FINI(&r->ranges);
    TV_VEC_FINI(&r->effects);
    TV_VEC_FINI(&r->values.list);
    TV_VEC_FINI(&r->pending);
    tv_buf_fini(&r->bytes);
    free(r);
}

bool tv_recorder_is_active(const tv_recorder *r) { return r && r->sink.commit; }

bool tv_recorder_needs_events(const tv_recorder *r)
{
    return r && (r->completions.commit || (r->sink.commit && r->contents & TV_COMMIT_CYCLES));
}

static void send(const tv_recorder *r, const tv_commit *commit)
{
    if (r->sink.commit)
        r->sink.commit(r->sink.user, commit);
}

/* ---- Effects of an instruction ---- */

static void append_access(void *user, const tv_access *access)
{
    tv_recorder *r = user;
    (void)TV_VEC_PUSH(&r->accesses, *access);
}

/* The names of spaces in accesses are the static strings of the spaces, so that comparing pointers mostly suffices. */
static unsigned find_space(const tv_recorder *r, const char *name)
{
    for (unsigned i = 0; i < r->space_count; i++)
        if (r->spaces[i].info.name == name)
            return i;
    for (unsigned i = 0; i < r->space_count; i++)
        if (strcmp(r->spaces[i].info.name, name) == 0)
            return i;
    return 0; /* targets access their own spaces only */
}

/* Copies the bytes of a range; returns their offset. */
static size_t copy_bytes(tv_recorder *r, const tv_recorded_range *x)
{
    size_t offset = r->bytes.len;
    uint8_t *to = tv_buf_extend(&r->bytes, x->effect.bytes);
    if (to)
        r->machine->target->read_space(r->machine->state, x->space, x->byte, to, x->effect.bytes);
    return offset;
}

/* Makes ranges of the accesses, and copies what can only be read before the instruction executes. */
static void begin_effects(tv_recorder *r, unsigned contents)
{
    r->ranges.count = 0;
    r->bytes.len = 0;
    for (size_t i = 0; i < r->accesses.count; i++) {
        const tv_access *access = &r->accesses.data[i];
        if (!(contents & (access->write ? TV_COMMIT_WRITES | TV_COMMIT_BEFORE : TV_COMMIT_READS)))
            continue;
        const tv_recorded_space *named = &r->spaces[find_space(r, access->space)], *base = &r->spaces[named->base];
        tv_recorded_range x = {.space = named->base,
                               .effect = {base->info.name, access->addr * named->scale, base->info.unit_bytes}};
        x.effect.bytes = access->bytes;
        x.effect.write = access->write;
        x.effect.queue = base->info.queue;
        x.byte = x.effect.addr * x.effect.unit_bytes;
        if (!access->write)
            x.after = copy_bytes(r, &x);
        else if (contents & TV_COMMIT_BEFORE)
            x.before = copy_bytes(r, &x);
        (void)TV_VEC_PUSH(&r->ranges, x);
    }
}

/* Completes the effects of an instruction that has executed. */
static void finish_effects(tv_recorder *r, unsigned contents, tv_commit *commit)
{
    r->effects.count = 0;
    for (size_t i = 0; i < r->ranges.count; i++)
        if (r->ranges.data[i].effect.write)
            r->ranges.data[i].after = copy_bytes(r, &r->ranges.data[i]);
    for (size_t i = 0; i < r->ranges.count; i++) {
        tv_effect effect = r->ranges.data[i].effect;
        effect.before = effect.write && contents & TV_COMMIT_BEFORE ? r->bytes.data + r->ranges.data[i].before : NULL;
        effect.after = r->bytes.data + r->ranges.data[i].after;
        (void)TV_VEC_PUSH(&r->effects, effect);
    }
    commit->effects = r->effects.data;
    commit->effect_count = (unsigned)r->effects.count;
}

/* ---- Cycles that are known later ---- */

static int compare_pending(const void *a, const void *b)
{
    const tv_pending_record *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

static tv_pending_record *find_pending(tv_recorder *r, uint64_t index)
{
    if (r->pending_unsorted && r->pending.count)
        qsort(r->pending.data, r->pending.count, sizeof *r->pending.data, compare_pending);
    r->pending_unsorted = false;
    size_t lo = r->first_pending, hi = r->pending.count;
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (r->pending.data[middle].index < index)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < r->pending.count && r->pending.data[lo].index == index ? &r->pending.data[lo] : NULL;
}

static void append_pending(tv_recorder *r, uint64_t index, uint64_t order, uint64_t issue)
{
    const tv_pending_record *last = TV_VEC_LAST(&r->pending);
    while (r->first_pending < r->pending.count && r->pending.data[r->first_pending].complete)
        r->first_pending++;
    if (r->first_pending == r->pending.count)
        r->first_pending = r->pending.count = 0;
    else if (last && last->index > index)
        r->pending_unsorted = true;
    (void)TV_VEC_PUSH(&r->pending, (tv_pending_record){index, order, issue, false});
}

void tv_recorder_event(tv_recorder *r, const tv_event *event)
{
    if ((event->kind != TV_EVENT_ENGINE && event->kind != TV_EVENT_COMMAND && event->kind != TV_EVENT_CONTROL) ||
        event->index < 0)
        return;
    tv_pending_record *p = find_pending(r, (uint64_t)event->index);
    if (!p || p->complete)
        return;
    if (event->kind == TV_EVENT_COMMAND) {
        p->issue = event->start;
        return;
    }
    p->complete = true;
    uint64_t issue = p->issue == TV_CYCLE_UNKNOWN ? event->start : p->issue;
    const tv_commit commit = {
        .kind = TV_COMMIT_COMPLETION, .order = p->order, .issue = issue, .start = event->start, .end = event->end};
    if (r->contents & TV_COMMIT_CYCLES)
        send(r, &commit);
    if (r->completions.commit)
        r->completions.commit(r->completions.user, &commit);
}

/* ---- Records ---- */

static void locate(const tv_machine *machine, tv_commit *commit)
{
    tv_source_line line;
    if (commit->origin != TV_ORIGIN_PROGRAM || !machine->program ||
        !tv_program_line(machine->program, commit->index, &line))
        return;
    commit->file = line.file;
    commit->line = line.line;
}

bool tv_recorder_begin(tv_recorder *r, unsigned contents, const uint64_t *word, tv_commit *commit)
{
    tv_machine *machine = r->machine;
    *commit = (tv_commit){.issue = TV_CYCLE_UNKNOWN, .start = TV_CYCLE_UNKNOWN, .end = TV_CYCLE_UNKNOWN};
    r->accesses.count = 0;
    machine->target->describe(machine->state, word, commit, &(tv_access_sink){append_access, r});
    if (!word)
        locate(machine, commit);
    if (machine->mode != TV_MODE_TIMING) {
        begin_effects(r, contents);
        r->values.list.count = 0;
        machine->target->collect(machine->state, contents & TV_COMMIT_VALUES ? &r->values : NULL);
    }
    return !r->accesses.failed && !r->ranges.failed && !r->bytes.failed;
}

bool tv_recorder_finish(tv_recorder *r, unsigned contents, uint64_t index, const tv_fault *fault, tv_commit *commit)
{
    const tv_machine *machine = r->machine;
    commit->order = r->order++;
    if (fault) {
        commit->fault = fault->code;
        commit->fault_name = fault->name;
        commit->fault_message = fault->message;
    } else {
        finish_effects(r, contents, commit);
        commit->values = r->values.list.data;
        commit->value_count = (unsigned)r->values.list.count;
        bool timed = machine->mode != TV_MODE_FUNCTIONAL && contents & TV_COMMIT_CYCLES;
        if (timed && machine->target->cycles)
            machine->target->cycles(machine->state, commit);
        if (timed && commit->end == TV_CYCLE_UNKNOWN && tv_recorder_needs_events(r))
            append_pending(r, index, commit->order, commit->issue);
    }
    send(r, commit);
    return !r->effects.failed && !r->bytes.failed && !r->pending.failed && !r->values.list.failed;
}

/* ---- Observed runs ---- */

static bool reports_accesses(const tv_machine *machine) { return machine->sink.event && machine->trace_accesses; }

bool tv_machine_is_observed(const tv_machine *machine)
{
    return reports_accesses(machine) || tv_recorder_is_active(machine->recorder);
}

static void emit_accesses(const tv_machine *machine, const tv_recorder *r, uint64_t index)
{
    for (size_t i = 0; i < r->accesses.count; i++) {
        const tv_access *access = &r->accesses.data[i];
        machine->sink.event(machine->sink.user, &(tv_event){.kind = TV_EVENT_ACCESS,
                                                            .index = (int64_t)index,
                                                            .waits_for = -1,
                                                            .space = access->space,
                                                            .addr = access->addr,
                                                            .bytes = access->bytes,
                                                            .write = access->write});
    }
}

/* Runs one instruction within `limits`. *ran: it executed or faulted. */
static tv_status run_one(tv_machine *machine, tv_recorder *r, const tv_run_limits *limits, tv_stop_reason *why)
{
    bool recorded = tv_recorder_is_active(r);
    uint64_t next = machine->target->next(machine->state);
    tv_commit commit;
    if (!tv_recorder_begin(r, recorded ? r->contents : 0, NULL, &commit)) {
        *why = TV_STOP_UNTIL;
        return TV_ERR_MEMORY;
    }
    uint64_t until = next + 1 < limits->until ? next + 1 : limits->until;
    tv_status status =
        machine->target->run(machine->state, &(tv_run_limits){sizeof(tv_run_limits), until, limits->max_cycles}, why);
    machine->target->collect(machine->state, NULL);
    bool executed = machine->target->next(machine->state) > next;
    uint64_t index = machine->instruction_base + (commit.origin == TV_ORIGIN_PROGRAM ? commit.index : next);
    if (executed && reports_accesses(machine))
        emit_accesses(machine, r, index);
    if (recorded && (executed || status == TV_FAULT) &&
        !tv_recorder_finish(r, r->contents, index, executed ? NULL : machine->target->fault(machine->state), &commit))
        return TV_ERR_MEMORY;
    return status;
}

tv_status tv_machine_run_observed(tv_machine *machine, const tv_run_limits *limits, tv_stop_reason *why)
{
    tv_recorder *r = tv_recorder_of(machine);
    *why = TV_STOP_UNTIL;
    if (!r)
        return TV_ERR_MEMORY;
    tv_status status;
    do {
        if (!machine->target->has_next(machine->state) || machine->target->fault(machine->state) ||
            machine->target->next(machine->state) >= limits->until)
            return machine->target->run(machine->state, limits, why);
        status = run_one(machine, r, limits, why);
    } while (status == TV_OK && *why == TV_STOP_UNTIL && machine->target->next(machine->state) < limits->until);
    return status;
}

/* ---- Accesses from outside ---- */

void tv_recorder_host_access(tv_machine *machine, const tv_space *space, uint64_t addr, const void *data, size_t bytes,
                             bool write)
{
    tv_recorder *r = machine->recorder;
    tv_effect effect = {.space = space->name,
                        .addr = addr,
                        .unit_bytes = space->unit_bytes,
                        .bytes = bytes,
                        .write = write,
                        .after = data};
    if (!(r->contents & (write ? TV_COMMIT_WRITES : TV_COMMIT_READS)))
        return;
    send(r, &(tv_commit){.kind = TV_COMMIT_HOST, .order = r->order++, .effect_count = 1, .effects = &effect});
}

static void append_effect(void *user, const tv_effect *effect)
{
    tv_recorder *r = user;
    (void)TV_VEC_PUSH(&r->effects, *effect);
}

void tv_recorder_load(tv_machine *machine)
{
    tv_recorder *r = machine->recorder;
    if (!tv_recorder_is_active(r))
        return;
    r->effects.count = 0;
    if (machine->mode != TV_MODE_TIMING && r->contents & TV_COMMIT_WRITES)
        machine->target->loaded(machine->state, append_effect, r);
    send(r, &(tv_commit){.kind = TV_COMMIT_LOAD,
                         .order = r->order++,
                         .effect_count = (unsigned)r->effects.count,
                         .effects = r->effects.data});
}
