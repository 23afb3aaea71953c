/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model of CMDQ (its specification, section 5), an event-driven simulation: each engine executes the entries
 * of its queue in order, as soon as their dependencies are complete; transfers share the bandwidth of DRAM by weight.
 * Time advances from completion to completion. Cycles of an entry without contention are those of the plan. */
#include <stdlib.h>

#include "base/vec.h"
#include "machine/cmdq/internal.h"
#include "sim/ratio.h"
#include "sim/stall.h"

const char *const cmdq_stall_reason_names[CMDQ_STALL_REASONS] = {"barrier", "group", "dependency"};

static const uint32_t NONE = UINT32_MAX;

/* A DMA channel first moves its bytes, then stalls for its bank conflicts. */
typedef struct engine_state {
    uint32_t head;                /* next entry of its queue, or NONE */
    uint32_t running;             /* or NONE */
    uint64_t started, free, done; /* cycles; done: UINT64_MAX while the transfer shares DRAM */
    bool moving;                  /* DMA: bytes remain */
    tv_ratio left;                /* DMA: remaining cycles at the full rate */
    uint64_t weight, penalty;
} engine_state;

typedef struct simulation {
    const cmdq_queue *queue;
    const cmdq_params *params;
    const cmdq_plan *plan;
    tv_emitter emitter;
    uint32_t count, completed;
    uint32_t *waits;             /* of each entry: incomplete dependencies */
    uint64_t *end;               /* of each entry: cycle in which it completed */
    uint32_t *next;              /* of each entry: the next one in its queue or list */
    uint32_t *waiting_controls;  /* of each barrier: list of control entries that wait only for it */
    uint32_t *last_dependency;   /* traced: of each entry, the dependency that completed last */
    uint32_t *runnable_controls; /* control entries that can complete now: a stack */
    uint32_t runnable_count;
    uint32_t barriers_done;
    engine_state engines[CMDQ_ENGINES_MAX];
    tv_ratio moved_to; /* time up to which transfers have been advanced */
    unsigned moving;   /* transfers with bytes remaining */
    uint64_t *starts;
    tv_account *accounts;
    uint64_t *role_busy, *role_stalled; /* by role */
} simulation;

/* ---- Events ---- */

/* The number of an entry over all programs of the machine; -1 for NONE. */
static int64_t number_of(const simulation *s, uint32_t entry)
{
    return entry == NONE ? -1 : (int64_t)(s->emitter.index_base + entry);
}

static tv_event event_of(const simulation *s, tv_event_kind kind, unsigned e, uint32_t entry)
{
    static const char *const names[CMDQ_SYNC] = {"DMA", "TE", "VE"};
    unsigned c = e < s->params->first[CMDQ_TE] ? CMDQ_DMA : e < s->params->first[CMDQ_VE] ? CMDQ_TE : CMDQ_VE;
    tv_event event = {.kind = kind,
                      .engine = names[c],
                      .engine_id = e - s->params->first[c],
                      .index = number_of(s, entry),
                      .lane = s->params->names[e],
                      .op = cmdq_opcode_name(&s->queue->entries.data[entry]),
                      .waits_for = -1};
    const cmdq_entry *q = &s->queue->entries.data[entry];
    if (s->plan->role[entry] != CMDQ_ROLE_NONE)
        event.role = cmdq_role_names[s->plan->role[entry]];
    for (unsigned i = 0; i < 2; i++) {
        cmdq_field mode = i ? CMDQ_F_vector_mode : CMDQ_F_tensor_mode;
        if (cmdq_has_field(s->queue, q, mode))
            event.mode = tv_isa_cmdq.parameters[mode].enum_names[cmdq_integer(s->queue, q, mode)];
    }
    if (s->queue->entries.data[entry].layer)
        event.layer = s->queue->strings[s->queue->entries.data[entry].layer];
    return event;
}

static void set_energy(const simulation *s, const cmdq_op *op, tv_event *event)
{
    if (!tv_needs_energy(&s->emitter))
        return;
    uint64_t counts[TV_ACTION_COUNT] = {0};
    if (op)
        cmdq_count_actions(s->params, op, counts);
    cmdq_count_issue(1, counts);
    tv_event_set_energy(event, &s->params->energy, counts);
}

static void emit_entry(const simulation *s, unsigned e, uint32_t entry, uint64_t from, uint64_t to)
{
    if (!tv_is_traced(&s->emitter))
        return;
    cmdq_op op;
    cmdq_resolve_planned(s->queue, s->params, entry, &op);
    tv_event event = event_of(s, TV_EVENT_COMMAND, e, entry);
    event.start = from;
    event.end = from + 1;
    tv_emit(&s->emitter, &event);
    event.kind = TV_EVENT_ENGINE;
    event.end = to;
    event.macs = op.macs;
    const cmdq_tile *dram = cmdq_find_tile(&op, CMDQ_DRAM);
    event.bytes = op.bytes;
    set_energy(s, &op, &event);
    tv_emit(&s->emitter, &event);
    event.energy = (tv_energy){0};
    if (!dram)
        return;
    event.kind = TV_EVENT_TRANSFER;
    event.engine = NULL;
    event.path = dram->writes ? "dram write" : "dram read";
    event.write = dram->writes;
    event.kv = op.role == CMDQ_ROLE_KV;
    tv_emit(&s->emitter, &event);
}

/* Entry `entry`, which no engine executes, completes. */
static void emit_control(const simulation *s, uint32_t entry, uint64_t now)
{
    tv_event event = tv_event_of(TV_EVENT_CONTROL, NULL, number_of(s, entry), now, now);
    if (!tv_is_traced(&s->emitter))
        return;
    event.op = cmdq_opcode_name(&s->queue->entries.data[entry]);
    set_energy(s, NULL, &event);
    tv_emit(&s->emitter, &event);
}

/* END, which is entry `entry`, signals the host that the queue is complete. */
static void emit_end(const simulation *s, uint32_t entry, uint64_t now)
{
    tv_event event = {.kind = TV_EVENT_MARKER,
                      .index = number_of(s, entry),
                      .op = "END: the queue is complete",
                      .start = now,
                      .end = now,
                      .waits_for = -1};
    if (tv_is_traced(&s->emitter))
        tv_emit(&s->emitter, &event);
    emit_control(s, entry, now);
}

/* Attributes the cycles in which the engine had nothing but an entry that could not start. */
static void attribute_stalls(simulation *s, unsigned e, uint32_t entry, uint64_t from, uint64_t to)
{
    const cmdq_entry *q = &s->queue->entries.data[entry];
    uint32_t barrier = s->plan->graph.barrier[entry];
    if (from >= to)
        return;
    s->role_stalled[s->plan->role[entry]] += to - from;
    if (!barrier && !q->wait_group && !tv_is_traced(&s->emitter)) { /* most entries: one reason, no event */
        tv_account_stall(&s->accounts[e], CMDQ_STALL_DEPENDENCY, from, to);
        return;
    }
    tv_stall stalls[CMDQ_STALL_REASONS] = {0};
    if (barrier) {
        uint32_t by = s->plan->graph.barriers[barrier - 1];
        stalls[CMDQ_STALL_BARRIER] = (tv_stall){tv_min_u64(s->end[by], to), number_of(s, by)};
    }
    if (q->wait_group)
        stalls[CMDQ_STALL_GROUP] =
            (tv_stall){tv_min_u64(s->end[q->wait_group - 1], to), number_of(s, q->wait_group - 1)};
    stalls[CMDQ_STALL_DEPENDENCY] = (tv_stall){to, s->last_dependency ? number_of(s, s->last_dependency[entry]) : -1};
    tv_event event;
    if (tv_is_traced(&s->emitter))
        event = event_of(s, TV_EVENT_STALL, e, entry);
    const tv_stall_accounts accounts = {.engine = &s->accounts[e],
                                        .emitter = &s->emitter,
                                        .index = number_of(s, entry),
                                        .event = &event,
                                        .reasons = cmdq_stall_reason_names};
    tv_attribute_stalls(stalls, CMDQ_STALL_REASONS, from, &accounts);
}

/* ---- Transfers: processor sharing ---- */

static uint64_t weight_sum(const simulation *s)
{
    uint64_t sum = 0;
    for (unsigned e = 0; e < s->params->count[CMDQ_DMA]; e++)
        sum += s->engines[e].moving ? s->engines[e].weight : 0;
    return sum;
}

/* Time at which the first transfer has moved its bytes. At least one is moving. */
static tv_ratio first_finish(const simulation *s, uint64_t sum)
{
    tv_ratio best = {UINT64_MAX, 0, 1};
    for (unsigned e = 0; e < s->params->count[CMDQ_DMA]; e++) {
        const engine_state *dma = &s->engines[e];
        if (!dma->moving)
            continue;
        if (dma->weight == sum) /* the only one */
            return tv_ratio_add(s->moved_to, dma->left);
        tv_ratio at = tv_ratio_add(s->moved_to, tv_ratio_scale(dma->left, sum, dma->weight));
        if (tv_ratio_cmp(at, best) < 0)
            best = at;
    }
    return best;
}

/* Advances transfers to cycle `to`, piecewise: rates change when a transfer ends. */
static void move_transfers(simulation *s, uint64_t to)
{
    tv_ratio limit = tv_ratio_of(to);
    while (s->moving) {
        uint64_t sum = weight_sum(s);
        tv_ratio at = first_finish(s, sum);
        bool finished = tv_ratio_cmp(at, limit) <= 0;
        tv_ratio stop = finished ? at : limit, dt = tv_ratio_sub(stop, s->moved_to);
        for (unsigned e = 0; e < s->params->count[CMDQ_DMA]; e++) {
            engine_state *dma = &s->engines[e];
            if (!dma->moving)
                continue;
            tv_ratio step = dma->weight == sum ? dt : tv_ratio_scale(dt, dma->weight, sum);
            dma->left = tv_ratio_cmp(step, dma->left) >= 0 ? tv_ratio_of(0) : tv_ratio_sub(dma->left, step);
            if (dma->left.whole || dma->left.num)
                continue;
            dma->moving = false;
            dma->done = tv_ratio_ceil(stop) + dma->penalty;
            s->moving--;
        }
        s->moved_to = stop;
        if (!finished)
            break;
    }
    s->moved_to = limit;
}

/* Tiles of entries running on other engines in the bank of a transfer. */
static uint64_t conflicts(const simulation *s, unsigned own, uint32_t entry)
{
    uint8_t bank = s->plan->banks[entry][0];
    uint64_t found = 0;
    for (unsigned e = 0; e < s->params->engines; e++)
        for (unsigned k = 0; e != own && s->engines[e].running != NONE && k < CMDQ_BANKS_PER_ENTRY; k++)
            found += s->plan->banks[s->engines[e].running][k] == bank;
    return found;
}

/* ---- Entries ---- */

static bool can_start(const simulation *s, uint32_t entry)
{
    return s->waits[entry] == 0 && s->barriers_done >= s->plan->graph.barrier[entry];
}

static void start_entry(simulation *s, unsigned e, uint64_t now)
{
    engine_state *engine = &s->engines[e];
    uint32_t entry = engine->head;
    attribute_stalls(s, e, entry, engine->free, now);
    if (s->starts)
        s->starts[entry] = now;
    engine->running = entry;
    engine->head = s->next[entry];
    engine->started = now;
    engine->done = now + s->plan->cycles[entry];
    if (e >= s->params->count[CMDQ_DMA])
        return;
    engine->weight = s->params->weights[s->plan->role[entry]];
    engine->penalty = s->params->conflict ? conflicts(s, e, entry) * s->params->conflict : 0;
    engine->left = tv_ratio_of(s->plan->cycles[entry]);
    engine->done = UINT64_MAX;
    engine->moving = true;
    s->moving++;
}

/* Starts all entries that can start, lowest id first. */
static void start_entries(simulation *s, uint64_t now)
{
    for (;;) {
        unsigned best = CMDQ_ENGINES_MAX;
        for (unsigned e = 0; e < s->params->engines; e++) {
            const engine_state *engine = &s->engines[e];
            if (engine->running == NONE && engine->head != NONE &&
                (best == CMDQ_ENGINES_MAX || engine->head < s->engines[best].head) && can_start(s, engine->head))
                best = e;
        }
        if (best == CMDQ_ENGINES_MAX)
            return;
        start_entry(s, best, now);
    }
}

/* Schedules a control entry whose dependencies are complete: now, or when the barrier before it completes. */
static void offer_control(simulation *s, uint32_t entry)
{
    uint32_t barrier = s->plan->graph.barrier[entry];
    if (s->barriers_done >= barrier) {
        s->runnable_controls[s->runnable_count++] = entry;
        return;
    }
    s->next[entry] = s->waiting_controls[barrier];
    s->waiting_controls[barrier] = entry;
}

static void complete(simulation *s, uint32_t entry, uint64_t now)
{
    const cmdq_graph *graph = &s->plan->graph;
    s->end[entry] = now;
    s->completed++;
    if (cmdq_is_control(&s->queue->entries.data[entry])) {
        emit_control(s, entry, now);
        if (s->starts)
            s->starts[entry] = now;
    }
    for (uint64_t k = graph->first[entry]; k < graph->first[entry + 1]; k++) {
        uint32_t after = graph->next[k];
        if (after < s->count && s->last_dependency)
            s->last_dependency[after] = entry;
        if (after < s->count && --s->waits[after] == 0 && cmdq_is_control(&s->queue->entries.data[after]) &&
            s->queue->entries.data[after].opcode != CMDQ_END)
            offer_control(s, after);
    }
}

/* Control entries take no time, and may make others ready. */
static void complete_controls(simulation *s, uint64_t now)
{
    while (s->runnable_count) {
        uint32_t entry = s->runnable_controls[--s->runnable_count];
        complete(s, entry, now);
        if (s->queue->entries.data[entry].opcode != CMDQ_BARRIER)
            continue;
        s->barriers_done++;
        uint32_t at = s->waiting_controls[s->barriers_done];
        for (uint32_t following; at != NONE; at = following) {
            following = s->next[at];
            s->runnable_controls[s->runnable_count++] = at;
        }
    }
}

static void finish_engines(simulation *s, uint64_t now)
{
    for (unsigned e = 0; e < s->params->engines; e++) {
        engine_state *engine = &s->engines[e];
        if (engine->running == NONE || engine->done != now)
            continue;
        uint32_t entry = engine->running;
        tv_account_busy(&s->accounts[e], engine->started, now);
        s->role_busy[s->plan->role[entry]] += now - engine->started;
        emit_entry(s, e, entry, engine->started, now);
        engine->running = NONE;
        engine->free = now;
        complete(s, entry, now);
    }
}

/* The next cycle in which an entry may complete; UINT64_MAX if none is running. */
static uint64_t next_cycle(const simulation *s)
{
    uint64_t next = UINT64_MAX;
    for (unsigned e = 0; e < s->params->engines; e++)
        if (s->engines[e].running != NONE)
            next = tv_min_u64(next, s->engines[e].done);
    if (s->moving)
        next = tv_min_u64(next, tv_ratio_ceil(first_finish(s, weight_sum(s))));
    return next;
}

/* ---- The run ---- */

/* What simulations of a plan share: the arrays of `simulation`. */
struct cmdq_simulation_arrays {
    uint32_t *waits, *next, *waiting_controls, *last_dependency, *runnable_controls;
    uint64_t *end;
};

void cmdq_plan_unprepare(cmdq_plan *plan)
{
    struct cmdq_simulation_arrays *a = plan->arrays;
    plan->arrays = NULL;
    if (!a)
        return;
    free(a->waits);
    free(a->next);
    free(a->waiting_controls);
    free(a->last_dependency);
    free(a->runnable_controls);
    free(a->end);
    free(a);
}

bool cmdq_plan_prepare(cmdq_plan *plan)
{
    struct cmdq_simulation_arrays *a = plan->arrays = calloc(1, sizeof *a);
    size_t n = (size_t)plan->count + 1;
    if (!a)
        return false;
    a->waits = tv_array_alloc(n, sizeof *a->waits);
    a->next = tv_array_alloc(n, sizeof *a->next);
    a->waiting_controls = tv_array_alloc((size_t)plan->graph.barrier_count + 2, sizeof *a->waiting_controls);
    a->last_dependency = tv_array_alloc(n, sizeof *a->last_dependency);
    a->runnable_controls = tv_array_alloc(n, sizeof *a->runnable_controls);
    a->end = tv_array_alloc(n, sizeof *a->end);
    if (a->waits && a->next && a->waiting_controls && a->last_dependency && a->runnable_controls && a->end)
        return true;
    cmdq_plan_unprepare(plan);
    return false;
}

static void simulation_init(simulation *s)
{
    const cmdq_graph *graph = &s->plan->graph;
    const struct cmdq_simulation_arrays *a = s->plan->arrays;
    size_t n = (size_t)s->count + 1;
    uint32_t last[CMDQ_ENGINES_MAX];
    s->waits = a->waits;
    s->end = a->end;
    s->next = a->next;
    s->waiting_controls = a->waiting_controls;
    s->runnable_controls = a->runnable_controls;
    s->last_dependency = tv_is_traced(&s->emitter) ? a->last_dependency : NULL;
    memset(s->end, 0, n * sizeof *s->end);
    if (s->last_dependency)
        memset(s->last_dependency, 0xFF, n * sizeof *s->last_dependency);
    memset(s->waiting_controls, 0xFF, ((size_t)graph->barrier_count + 2) * sizeof *s->waiting_controls);
    for (unsigned e = 0; e < CMDQ_ENGINES_MAX; e++) {
        s->engines[e] = (engine_state){.head = NONE, .running = NONE, .free = s->moved_to.whole};
        last[e] = NONE;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        unsigned e = s->plan->engine[i];
        s->next[i] = NONE;
        if (e == CMDQ_NO_ENGINE)
            continue;
        *(last[e] == NONE ? &s->engines[e].head : &s->next[last[e]]) = i;
        last[e] = i;
    }
    memcpy(s->waits, graph->waits, s->count * sizeof *s->waits);
}

/* Entries of a prefix of the queue do not wait for entries after it. */
static void drop_outside_dependencies(simulation *s)
{
    const cmdq_graph *graph = &s->plan->graph;
    for (uint32_t i = s->count; i < s->plan->count; i++)
        for (uint64_t k = graph->first[i]; k < graph->first[i + 1]; k++)
            if (graph->next[k] < s->count)
                s->waits[graph->next[k]]--;
}

void cmdq_time(const tv_program *program, const cmdq_params *params, const cmdq_plan *plan, uint32_t count,
               uint64_t index_base, const tv_trace_sink *sink, cmdq_timing *timing)
{
    simulation s = {.queue = cmdq_queue_of(program),
                    .params = params,
                    .plan = plan,
                    .emitter = {sink, program, index_base},
                    .count = count,
                    .moved_to = tv_ratio_of(timing->end),
                    .accounts = timing->accounts,
                    .starts = timing->starts,
                    .role_busy = timing->role_busy,
                    .role_stalled = timing->role_stalled};
    simulation_init(&s);
    if (s.queue->has_forward_deps && count < plan->count)
        drop_outside_dependencies(&s);
    for (uint32_t i = count; i-- > 0;) /* the first one is on top of the stack */
        if (s.waits[i] == 0 && cmdq_is_control(&s.queue->entries.data[i]) &&
            s.queue->entries.data[i].opcode != CMDQ_END)
            offer_control(&s, i);
    for (uint64_t now = timing->end; now != UINT64_MAX; now = next_cycle(&s)) {
        move_transfers(&s, now);
        finish_engines(&s, now);
        complete_controls(&s, now);
        start_entries(&s, now);
        timing->end = now;
    }
    if (count && count == plan->count)
        emit_end(&s, count - 1, timing->end);
    for (unsigned e = 0; e < params->engines; e++)
        tv_account_finalize(&timing->accounts[e], timing->end);
    assert(s.completed + (count == plan->count && count) == count && "a queue without dependency cycles completes");
}
