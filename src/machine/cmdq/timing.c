/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model of CMDQ (its specification, section 5): engines take entries from their queues, transfers share
 * DRAM, and time moves from completion to completion. */
#include <stdlib.h>

#include "machine/cmdq/machine.h"
#include "sim/ratio.h"
#include "sim/stall.h"

const char *const cmdq_stall_reason_names[CMDQ_STALL_REASONS] = {"barrier", "group", "dependency"};

static const uint32_t NONE = UINT32_MAX;

/* What an engine does. A DMA channel first moves its bytes, then pays for its conflicts. */
typedef struct worker {
    uint32_t head;                /* next entry of its queue, or NONE */
    uint32_t running;             /* or NONE */
    uint64_t started, free, done; /* done: UINT64_MAX while the end is not known */
    bool moving;                  /* DMA: bytes are left */
    tv_ratio left;                /* … so many cycles of the full rate */
    uint64_t weight, penalty;
} worker;

typedef struct simulation {
    const cmdq_queue *queue;
    const cmdq_params *shape;
    const cmdq_plan *plan;
    tv_emitter emitter;
    uint32_t count, completed;
    uint32_t *waits;    /* of each entry: predecessors that are not complete */
    uint64_t *end;      /* of each entry: when it completed */
    uint32_t *next;     /* of each entry: the next of its engine */
    uint32_t *parked;   /* of each barrier number: control entries that wait for it alone, linked by `next` */
    uint32_t *released; /* traced: of each entry, the predecessor that completed last */
    uint32_t *work;     /* control entries that can complete now */
    uint32_t work_count;
    uint32_t barriers_done;
    worker engines[CMDQ_ENGINES_MAX];
    tv_ratio moved_to; /* transfers are worked out to here */
    unsigned moving;   /* transfers with bytes left */
    uint64_t *starts;
    tv_account *accounts;
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
    unsigned c = e < s->shape->first[CMDQ_TE] ? CMDQ_DMA : e < s->shape->first[CMDQ_VE] ? CMDQ_TE : CMDQ_VE;
    tv_event event = {.kind = kind,
                      .engine = names[c],
                      .engine_id = e - s->shape->first[c],
                      .index = number_of(s, entry),
                      .lane = s->shape->names[e],
                      .op = cmdq_name(&s->queue->entries[entry]),
                      .waits_for = -1};
    if (s->queue->entries[entry].layer)
        event.layer = s->queue->texts[s->queue->entries[entry].layer];
    return event;
}

static void emit_entry(const simulation *s, unsigned e, uint32_t entry, uint64_t from, uint64_t to)
{
    if (!tv_is_traced(&s->emitter))
        return;
    cmdq_op op;
    cmdq_error wrong;
    uint64_t turn = 0;
    cmdq_resolve(s->queue, s->shape, entry, &turn, &op, &wrong);
    tv_event event = event_of(s, TV_EVENT_COMMAND, e, entry);
    event.start = from;
    event.end = from + 1;
    tv_emit(&s->emitter, event);
    event.kind = TV_EVENT_ENGINE;
    event.end = to;
    event.macs = op.macs;
    const cmdq_tile *dram = cmdq_find_tile(&op, CMDQ_DRAM);
    event.bytes = dram ? dram->bytes * dram->rows : 0;
    tv_emit(&s->emitter, event);
    if (!dram)
        return;
    event.kind = TV_EVENT_TRANSFER;
    event.engine = NULL;
    event.path = dram->writes ? "dram write" : "dram read";
    event.write = dram->writes;
    event.kv = op.role == CMDQ_ROLE_KV;
    tv_emit(&s->emitter, event);
}

/* Attributes the cycles in which the engine had nothing but an entry that could not start. */
static void attribute_stalls(simulation *s, unsigned e, uint32_t entry, uint64_t from, uint64_t to)
{
    const cmdq_entry *q = &s->queue->entries[entry];
    uint32_t barrier = s->plan->graph.barrier[entry];
    tv_stall stalls[CMDQ_STALL_REASONS] = {0};
    if (from >= to)
        return;
    if (barrier) {
        uint32_t by = s->plan->graph.barriers[barrier - 1];
        stalls[CMDQ_STALL_BARRIER] = (tv_stall){tv_min_u64(s->end[by], to), number_of(s, by)};
    }
    if (q->wait_group)
        stalls[CMDQ_STALL_GROUP] =
            (tv_stall){tv_min_u64(s->end[q->wait_group - 1], to), number_of(s, q->wait_group - 1)};
    stalls[CMDQ_STALL_DEPENDENCY] = (tv_stall){to, s->released ? number_of(s, s->released[entry]) : -1};
    tv_event event;
    if (tv_is_traced(&s->emitter))
        event = event_of(s, TV_EVENT_STALL, e, entry);
    const tv_stall_accounts accounts = {
        .engine = &s->accounts[e], .emitter = &s->emitter, .event = &event, .reasons = cmdq_stall_reason_names};
    tv_attribute_stalls(stalls, CMDQ_STALL_REASONS, from, &accounts);
}

/* ---- Transfers: processor sharing ---- */

static uint64_t weight_sum(const simulation *s)
{
    uint64_t sum = 0;
    for (unsigned e = 0; e < s->shape->count[CMDQ_DMA]; e++)
        sum += s->engines[e].moving ? s->engines[e].weight : 0;
    return sum;
}

/* When the first of the transfers has moved its bytes; there is one. */
static tv_ratio first_finish(const simulation *s, uint64_t sum)
{
    tv_ratio best = {UINT64_MAX, 0, 1};
    for (unsigned e = 0; e < s->shape->count[CMDQ_DMA]; e++) {
        const worker *dma = &s->engines[e];
        if (!dma->moving)
            continue;
        if (dma->weight == sum) /* it is alone */
            return tv_ratio_add(s->moved_to, dma->left);
        tv_ratio at = tv_ratio_add(s->moved_to, tv_ratio_scale(dma->left, sum, dma->weight));
        if (tv_ratio_cmp(at, best) < 0)
            best = at;
    }
    return best;
}

/* Moves bytes until cycle `to`, each stretch of time at the rates that it has. */
static void move_transfers(simulation *s, uint64_t to)
{
    tv_ratio limit = tv_ratio_of(to);
    while (s->moving) {
        uint64_t sum = weight_sum(s);
        tv_ratio at = first_finish(s, sum);
        bool finished = tv_ratio_cmp(at, limit) <= 0;
        tv_ratio stop = finished ? at : limit, dt = tv_ratio_sub(stop, s->moved_to);
        for (unsigned e = 0; e < s->shape->count[CMDQ_DMA]; e++) {
            worker *dma = &s->engines[e];
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

/* Accesses of entries running elsewhere to the bank of a transfer. */
static uint64_t conflicts(const simulation *s, unsigned own, uint32_t entry)
{
    uint8_t bank = s->plan->banks[entry][0];
    uint64_t found = 0;
    for (unsigned e = 0; e < s->shape->engines; e++)
        for (unsigned k = 0; e != own && s->engines[e].running != NONE && k < 8; k++)
            found += s->plan->banks[s->engines[e].running][k] == bank;
    return found;
}

/* ---- Entries ---- */

static bool is_free(const simulation *s, uint32_t entry)
{
    return s->waits[entry] == 0 && s->barriers_done >= s->plan->graph.barrier[entry];
}

static void start(simulation *s, unsigned e, uint64_t now)
{
    worker *engine = &s->engines[e];
    uint32_t entry = engine->head;
    attribute_stalls(s, e, entry, engine->free, now);
    if (s->starts)
        s->starts[entry] = now;
    engine->running = entry;
    engine->head = s->next[entry];
    engine->started = now;
    engine->done = now + s->plan->cycles[entry];
    if (e >= s->shape->count[CMDQ_DMA])
        return;
    engine->weight = s->shape->weights[s->plan->role[entry]];
    engine->penalty = s->shape->conflict ? conflicts(s, e, entry) * s->shape->conflict : 0;
    engine->left = tv_ratio_of(s->plan->cycles[entry]);
    engine->done = UINT64_MAX;
    engine->moving = true;
    s->moving++;
}

/* Starts what can start, the least id first. */
static void start_ready(simulation *s, uint64_t now)
{
    for (;;) {
        unsigned best = CMDQ_ENGINES_MAX;
        for (unsigned e = 0; e < s->shape->engines; e++) {
            const worker *engine = &s->engines[e];
            if (engine->running == NONE && engine->head != NONE &&
                (best == CMDQ_ENGINES_MAX || engine->head < s->engines[best].head) && is_free(s, engine->head))
                best = e;
        }
        if (best == CMDQ_ENGINES_MAX)
            return;
        start(s, best, now);
    }
}

/* A control entry whose predecessors are complete: now, or with the barrier that it waits for. */
static void offer_control(simulation *s, uint32_t entry)
{
    uint32_t barrier = s->plan->graph.barrier[entry];
    if (s->barriers_done >= barrier) {
        s->work[s->work_count++] = entry;
        return;
    }
    s->next[entry] = s->parked[barrier];
    s->parked[barrier] = entry;
}

static void complete(simulation *s, uint32_t entry, uint64_t now)
{
    const cmdq_graph *graph = &s->plan->graph;
    s->end[entry] = now;
    s->completed++;
    if (s->starts && cmdq_is_control(&s->queue->entries[entry]))
        s->starts[entry] = now;
    for (uint64_t k = graph->first[entry]; k < graph->first[entry + 1]; k++) {
        uint32_t after = graph->next[k];
        if (after < s->count && s->released)
            s->released[after] = entry;
        if (after < s->count && --s->waits[after] == 0 && cmdq_is_control(&s->queue->entries[after]) &&
            s->queue->entries[after].opcode != CMDQ_END)
            offer_control(s, after);
    }
}

/* Control entries take no time, and may free others. */
static void complete_controls(simulation *s, uint64_t now)
{
    while (s->work_count) {
        uint32_t entry = s->work[--s->work_count];
        complete(s, entry, now);
        if (s->queue->entries[entry].opcode != CMDQ_BARRIER)
            continue;
        s->barriers_done++;
        uint32_t at = s->parked[s->barriers_done];
        for (uint32_t following; at != NONE; at = following) {
            following = s->next[at];
            s->work[s->work_count++] = at;
        }
    }
}

static void finish_engines(simulation *s, uint64_t now)
{
    for (unsigned e = 0; e < s->shape->engines; e++) {
        worker *engine = &s->engines[e];
        if (engine->running == NONE || engine->done != now)
            continue;
        uint32_t entry = engine->running;
        tv_account_busy(&s->accounts[e], engine->started, now);
        emit_entry(s, e, entry, engine->started, now);
        engine->running = NONE;
        engine->free = now;
        complete(s, entry, now);
    }
}

/* The next cycle in which something may complete; UINT64_MAX: nothing runs. */
static uint64_t next_cycle(const simulation *s)
{
    uint64_t next = UINT64_MAX;
    for (unsigned e = 0; e < s->shape->engines; e++)
        if (s->engines[e].running != NONE)
            next = tv_min_u64(next, s->engines[e].done);
    if (s->moving)
        next = tv_min_u64(next, tv_ratio_ceil(first_finish(s, weight_sum(s))));
    return next;
}

/* ---- The run ---- */

static void simulation_free(simulation *s)
{
    free(s->waits);
    free(s->end);
    free(s->next);
    free(s->parked);
    free(s->work);
    free(s->released);
}

static bool simulation_make(simulation *s)
{
    const cmdq_graph *graph = &s->plan->graph;
    size_t n = (size_t)s->count + 1;
    uint32_t last[CMDQ_ENGINES_MAX];
    s->waits = calloc(n, sizeof *s->waits);
    s->end = calloc(n, sizeof *s->end);
    s->next = malloc(n * sizeof *s->next);
    s->parked = malloc(((size_t)graph->barrier_count + 2) * sizeof *s->parked);
    s->work = malloc(n * sizeof *s->work);
    s->released = tv_is_traced(&s->emitter) ? malloc(n * sizeof *s->released) : NULL;
    if (!s->waits || !s->end || !s->next || !s->parked || !s->work || (tv_is_traced(&s->emitter) && !s->released)) {
        simulation_free(s);
        return false;
    }
    if (s->released)
        memset(s->released, 0xFF, n * sizeof *s->released);
    memset(s->parked, 0xFF, ((size_t)graph->barrier_count + 2) * sizeof *s->parked);
    for (unsigned e = 0; e < CMDQ_ENGINES_MAX; e++) {
        s->engines[e] = (worker){.head = NONE, .running = NONE, .free = s->moved_to.whole};
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
    return true;
}

/* Entries of a part of a queue do not wait for what is not in it. */
static void drop_outside(simulation *s)
{
    const cmdq_graph *graph = &s->plan->graph;
    for (uint32_t i = s->count; i < s->plan->count; i++)
        for (uint64_t k = graph->first[i]; k < graph->first[i + 1]; k++)
            if (graph->next[k] < s->count)
                s->waits[graph->next[k]]--;
}

bool cmdq_time(const tv_program *program, const cmdq_params *shape, const cmdq_plan *plan, uint32_t count,
               uint64_t index_base, const tv_trace_sink *sink, cmdq_timing *timing)
{
    simulation s = {.queue = cmdq_queue_of(program),
                    .shape = shape,
                    .plan = plan,
                    .emitter = {sink, program, index_base},
                    .count = count,
                    .moved_to = tv_ratio_of(timing->end),
                    .accounts = timing->accounts,
                    .starts = timing->starts};
    if (!simulation_make(&s))
        return false;
    if (s.queue->forward && count < plan->count)
        drop_outside(&s);
    for (uint32_t i = count; i-- > 0;) /* the first is on top then */
        if (s.waits[i] == 0 && cmdq_is_control(&s.queue->entries[i]) && s.queue->entries[i].opcode != CMDQ_END)
            offer_control(&s, i);
    for (uint64_t now = timing->end; now != UINT64_MAX; now = next_cycle(&s)) {
        move_transfers(&s, now);
        finish_engines(&s, now);
        complete_controls(&s, now);
        start_ready(&s, now);
        timing->end = now;
    }
    for (unsigned e = 0; e < shape->engines; e++)
        tv_account_finalize(&timing->accounts[e], timing->end);
    assert(s.completed + (count == plan->count && count) == count && "a queue without circles completes");
    simulation_free(&s);
    return true;
}
