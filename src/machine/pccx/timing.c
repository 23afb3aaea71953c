/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model (pccx specification, section 5).
 *
 * Invariants: an engine has at most one operation in flight, in its slot. A slot's end is unknown while it depends on
 * bytes that the flows have not moved yet; find_end moves the flows until it is known, and accounts for the operation
 * then. Time never moves back, so that each cycle of an engine is accounted for once. Data are never read. */
#include "machine/pccx/timing.h"

#include "machine/pccx/actions.h"
#include "machine/pccx/params.h"
#include "sim/stall.h"

const char *const pccx_engine_names[PCCX_ACCOUNTS] = {
    [PCCX_ENGINE_GEMM] = "GEMM", [PCCX_ENGINE_GEMV] = "GEMV", [PCCX_ENGINE_SFU] = "SFU",
    [PCCX_ENGINE_ACP] = "ACP",   [PCCX_ENGINE_DISP] = "DISP",
};
const char *const pccx_stall_reason_names[PCCX_STALL_REASONS] = {
    [PCCX_STALL_SYNC] = "sync",     [PCCX_STALL_RAW] = "raw",           [PCCX_STALL_WAR] = "war",
    [PCCX_STALL_WAW] = "waw",       [PCCX_STALL_FRONTEND] = "frontend", [PCCX_STALL_RESOURCE] = "resource",
    [PCCX_STALL_STREAM] = "stream",
};
const char *const pccx_path_names[PCCX_PATHS] = {
    [PCCX_PATH_GEMM] = "weights_gemm", [PCCX_PATH_GEMV] = "weights_gemv", [PCCX_PATH_LOAD] = "host_to_l2",
    [PCCX_PATH_STORE] = "l2_to_host",  [PCCX_PATH_MOVE] = "l2_to_l2",
};

/* ---- Set-up ---- */

bool pccx_timing_init(pccx_timing *timing, const tv_config *config)
{
    static const struct {
        pccx_insn row;
        unsigned param;
    } fills[] = {
#define PCCX_CVO(id, key, fill, action) {PCCX_##id, PCCX_PARAM_FILL_##id},
#include "machine/pccx/cvo.def"
    };
    const tv_rate stream = tv_config_rate(config, PCCX_PARAM_STREAM_RATE);
    const tv_rate rates[1 + PCCX_FLOWS] = {
        [0] = tv_config_rate(config, PCCX_PARAM_MEMORY_RATE),
        [1 + PCCX_STREAM_GEMM] = stream,
        [1 + PCCX_STREAM_GEMV] = stream,
        [1 + PCCX_FLOW_ACP] = tv_config_rate(config, PCCX_PARAM_ACP_RATE),
    };
    *timing = (pccx_timing){
        .decode_latency = tv_config_integer(config, PCCX_PARAM_DECODE_LATENCY),
        .acp_setup = tv_config_integer(config, PCCX_PARAM_ACP_SETUP),
        .move_setup = tv_config_integer(config, PCCX_PARAM_MOVE_SETUP),
        .gemv_setup = tv_config_integer(config, PCCX_PARAM_GEMV_SETUP),
        .gemv_preload_rate = tv_config_integer(config, PCCX_PARAM_GEMV_PRELOAD_RATE),
        .gemm_setup = tv_config_integer(config, PCCX_PARAM_GEMM_SETUP),
        .gemm_tile_k = tv_config_integer(config, PCCX_PARAM_GEMM_TILE_K),
        .gemm_tile_n = tv_config_integer(config, PCCX_PARAM_GEMM_TILE_N),
        .gemm_min_m = tv_config_integer(config, PCCX_PARAM_GEMM_MIN_M),
        .stream_fifo = tv_config_integer(config, PCCX_PARAM_STREAM_FIFO),
        .cvo_tail = tv_config_integer(config, PCCX_PARAM_CVO_TAIL),
        .forward_tail = tv_config_integer(config, PCCX_PARAM_FORWARD_TAIL),
        .last_synchronous = -1,
    };
    for (size_t i = 0; i < TV_COUNTOF(fills); i++)
        timing->fill[fills[i].row] = tv_config_integer(config, fills[i].param);
    timing->drain_latency[PCCX_ENGINE_GEMV] = timing->gemv_setup;
    timing->drain_latency[PCCX_ENGINE_GEMM] = timing->gemm_setup;
    for (unsigned i = 0; i < PCCX_ACCOUNTS; i++)
        timing->accounts[i].name = pccx_engine_names[i];
    return tv_share_init(&timing->share, rates, PCCX_FLOWS);
}

void pccx_timing_begin(pccx_timing *timing)
{
    timing->base = timing->head = timing->latest_end;
    timing->issued = 0;
}

/* A stream prefetches until the bytes of instructions not yet issued fill its FIFO. */
static void set_stream_limit(pccx_timing *timing, unsigned stream)
{
    timing->share.flows[stream].limit =
        tv_min_u64(timing->stream_total[stream], timing->stream_taken[stream] + timing->stream_fifo);
}

void pccx_timing_append(pccx_timing *timing, unsigned stream, uint64_t bytes, uint64_t cycle)
{
    tv_share_advance(&timing->share, cycle);
    timing->stream_total[stream] += bytes;
    set_stream_limit(timing, stream);
}

void pccx_timing_discard(pccx_timing *timing, unsigned stream)
{
    tv_share_advance(&timing->share, timing->latest_end);
    timing->stream_total[stream] = timing->stream_taken[stream];
    timing->share.flows[stream].moved = tv_ratio_of(timing->stream_taken[stream]);
    set_stream_limit(timing, stream);
}

void pccx_timing_advance(pccx_timing *timing, uint64_t cycle)
{
    pccx_timing_drain(timing);
    timing->latest_end = tv_max_u64(timing->latest_end, cycle);
    for (unsigned i = 0; i < PCCX_ACCOUNTS; i++)
        tv_account_finalize(&timing->accounts[i], timing->latest_end);
    pccx_timing_begin(timing);
}

/* ---- Trace ---- */

/* The path over which a flow moves bytes now; each engine on a flow has one operation at a time. */
static unsigned path_of(const pccx_timing *t, unsigned flow)
{
    static const uint8_t streams[PCCX_STREAMS] = {
        [PCCX_STREAM_GEMM] = PCCX_PATH_GEMM, [PCCX_STREAM_GEMV] = PCCX_PATH_GEMV};
    return flow < PCCX_STREAMS ? streams[flow] : t->slots[PCCX_ENGINE_ACP].op.path;
}

/* A flow moved bytes: called by the bandwidth model of a traced run. */
static void emit_transfer(void *user, unsigned flow, tv_ratio t0, tv_ratio t1, tv_ratio moved)
{
    const pccx_timing *t = user;
    unsigned path = path_of(t, flow);
    tv_ratio after = t->share.flows[flow].moved; /* whole bytes, so that the chunks of a transfer add up to it */
    tv_event event = tv_event_of(TV_EVENT_TRANSFER, NULL, -1, t0.whole, tv_ratio_ceil(t1));
    event.bytes = tv_ratio_cmp(after, moved) > 0 ? after.whole - tv_ratio_sub(after, moved).whole : after.whole;
    event.path = pccx_path_names[path];
    event.write = path == PCCX_PATH_STORE;
    tv_emit(&t->emitter, &event);
}

static void set_energy(const pccx_timing *t, const pccx_op *op, tv_event *event)
{
    if (!tv_needs_energy(&t->emitter))
        return;
    uint64_t counts[TV_ACTION_COUNT] = {0};
    pccx_tally tally = {0};
    pccx_count_actions(op, &tally);
    pccx_add_actions(&tally, counts);
    pccx_count_issue(1, counts);
    tv_event_set_energy(event, t->energy, counts);
}

/* The issue of an operation; one without an engine has its energy here. */
static void emit_issue(const pccx_timing *t, const pccx_op *op, int64_t index, uint64_t cycle)
{
    tv_event event = tv_event_of(TV_EVENT_COMMAND, pccx_engine_names[PCCX_ENGINE_DISP], index, cycle, cycle + 1);
    event.op = op->insn->id;
    if (op->engine == PCCX_ENGINE_NONE)
        set_energy(t, op, &event);
    tv_emit(&t->emitter, &event);
}

static void emit_execution(const pccx_timing *t, pccx_engine engine, const pccx_slot *slot)
{
    const pccx_op *op = &slot->op;
    const tv_insn *insn = op->insn;
    tv_event event = tv_event_of(TV_EVENT_ENGINE, pccx_engine_names[engine], slot->index, slot->start, slot->end);
    event.op = insn->id;
    event.macs = op->macs;
    event.bytes = op->bytes;
    set_energy(t, op, &event);
    for (unsigned i = 0, n = 0; i < insn->uop_count && n < 2; i++)
        if (insn->uops[i].route) /* also of a uop that a direct FIFO replaces: the first is the way in */
            event.routes[n++] = insn->uops[i].route;
    tv_emit(&t->emitter, &event);
}

/* ---- Ends ---- */

/* Accounts for an operation whose end has become known. The cycles after its latency are stalls if it takes weights
 * from a stream, and otherwise work. */
static void record_end(pccx_timing *t, pccx_engine engine, uint64_t end)
{
    pccx_slot *slot = &t->slots[engine];
    slot->end = end;
    slot->end_known = true;
    uint64_t busy_end = slot->op.stream_bytes ? slot->latency_end : end;
    tv_account_busy(&t->accounts[engine], slot->start, busy_end);
    t->latest_end = tv_max_u64(t->latest_end, end);
    if (tv_is_traced(&t->emitter))
        emit_execution(t, engine, slot);
    const tv_stall_accounts accounts = {
        .emitter = &t->emitter, .index = slot->index, .reasons = pccx_stall_reason_names};
    tv_record_stall(&accounts, &t->accounts[engine], PCCX_STALL_STREAM, -1, busy_end, end);
}

/* The end of an engine's operation; moves the flows as far as necessary. */
static uint64_t find_end(pccx_timing *t, pccx_engine engine)
{
    pccx_slot *slot = &t->slots[engine];
    if (!slot->used || slot->end_known)
        return slot->end;
    uint64_t end = slot->latency_end;
    unsigned flow = slot->op.flow;
    if (flow != PCCX_FLOW_NONE)
        end = tv_max_u64(end, tv_ratio_ceil(tv_share_wait(&t->share, flow)) + t->drain_latency[engine]);
    else if (slot->forwarded)
        end = tv_max_u64(end, find_end(t, PCCX_ENGINE_GEMV) + t->forward_tail);
    record_end(t, engine, end);
    return end;
}

/* Whether an operation's end, or that of the GEMV that forwards to it, waits for bytes. */
static bool waits_for_bytes(const pccx_timing *t, const pccx_slot *slot)
{
    const pccx_slot *source = slot->forwarded ? &t->slots[PCCX_ENGINE_GEMV] : slot;
    unsigned flow = source->op.flow;
    return flow != PCCX_FLOW_NONE && t->share.flows[flow].waiting && !(slot->forwarded && source->end_known);
}

/* Records the ends that the present state of the flows decides. */
static void record_known_ends(pccx_timing *t)
{
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++) {
        const pccx_slot *slot = &t->slots[e];
        if (slot->used && !slot->end_known && !waits_for_bytes(t, slot))
            find_end(t, (pccx_engine)e);
    }
}

/* STAT_OUT: completions of asynchronous operations up to cycle `now`, in order. */
static void report_completions(pccx_timing *t, uint64_t now)
{
    static const pccx_engine engines[] = {PCCX_ENGINE_ACP, PCCX_ENGINE_SFU};
    for (;;) {
        pccx_slot *first = NULL;
        pccx_engine engine = PCCX_ENGINE_NONE;
        for (unsigned i = 0; i < TV_COUNTOF(engines); i++) {
            pccx_slot *slot = &t->slots[engines[i]];
            bool due = slot->used && slot->end_known && !slot->reported && slot->op.asynchronous && slot->end <= now;
            if (due && (!first || slot->end < first->end || (slot->end == first->end && slot->index < first->index))) {
                first = slot;
                engine = engines[i];
            }
        }
        if (!first)
            return;
        first->reported = true;
        if (t->completed)
            t->completed(t->completed_user, first->index, first->end);
        if (tv_is_traced(&t->emitter)) {
            tv_event event =
                tv_event_of(TV_EVENT_STATUS, pccx_engine_names[engine], first->index, first->end, first->end);
            tv_emit(&t->emitter, &event);
        }
    }
}

/* ---- Hazards ---- */

enum { HAZARD_RAW = 1, HAZARD_WAR = 2, HAZARD_WAW = 4 };

static unsigned find_overlap(const pccx_range *head, const pccx_range *flying)
{
    if (head->storage != flying->storage || head->from >= flying->to || flying->from >= head->to)
        return 0;
    if (flying->write)
        return head->write ? HAZARD_WAW : HAZARD_RAW;
    return head->write ? HAZARD_WAR : 0;
}

static bool weights_overlap(const pccx_op *op, const pccx_range *host)
{
    uint64_t left = op->stream_bytes, offset = op->weights_offset;
    for (const tv_descriptor *d = op->weights; left; d++, offset = 0) {
        uint64_t chunk = pccx_weights_chunk(d, offset, left);
        if (host->from < d->addr + offset + chunk && d->addr + offset < host->to)
            return true;
        left -= chunk;
    }
    return false;
}

/* Whether `writer` writes host memory from which `reader` takes weights. */
static bool writes_weights(const pccx_op *writer, const pccx_op *reader)
{
    for (unsigned i = 0; i < writer->range_count; i++)
        if (writer->ranges[i].storage == PCCX_STORAGE_HOST && writer->ranges[i].write &&
            weights_overlap(reader, &writer->ranges[i]))
            return true;
    return false;
}

/* Hazards between the operation at the head and one in flight. Weights are read from host memory, so that a host
 * write before or after them orders with them. */
static unsigned find_hazards(const pccx_op *head, const pccx_op *flying)
{
    unsigned found = 0;
    if (head->stream_bytes && writes_weights(flying, head))
        found |= HAZARD_RAW;
    if (flying->stream_bytes && writes_weights(head, flying))
        found |= HAZARD_WAR;
    for (unsigned i = 0; i < head->range_count; i++)
        for (unsigned j = 0; j < flying->range_count; j++)
            found |= find_overlap(&head->ranges[i], &flying->ranges[j]);
    return found;
}

/* A CVO directly after the GEMV whose result it takes follows it through the pipeline, unless it needs its e_max. */
static bool is_forwarded(const pccx_timing *t, const pccx_op *op, int64_t index)
{
    const pccx_slot *gemv = &t->slots[PCCX_ENGINE_GEMV];
    return op->engine == PCCX_ENGINE_SFU && gemv->used && t->issued > 0 && gemv->index == index - 1 &&
           gemv->op.dst == op->src &&
           !(pccx_op_uses(&gemv->op, PCCX_STORAGE_EMAX, true) && pccx_op_uses(op, PCCX_STORAGE_EMAX, false));
}

/* ---- Issue ---- */

/* What stalls the head of the dispatcher; `stalls` are all zero. */
static void find_stalls(pccx_timing *t, const pccx_op *op, bool forwarded, tv_stall *stalls)
{
    tv_stall_extend(&stalls[PCCX_STALL_FRONTEND], t->base + t->decode_latency + t->issued, -1);
    if (t->last_synchronous >= 0)
        tv_stall_extend(&stalls[PCCX_STALL_SYNC], find_end(t, (pccx_engine)t->last_synchronous),
                        t->slots[t->last_synchronous].index);
    if (op->engine != PCCX_ENGINE_NONE && t->slots[op->engine].used)
        tv_stall_extend(&stalls[PCCX_STALL_RESOURCE], find_end(t, (pccx_engine)op->engine), t->slots[op->engine].index);
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++) {
        const pccx_slot *slot = &t->slots[e];
        if (!pccx_slot_in_flight(slot, t->head))
            continue;
        if (forwarded && e == PCCX_ENGINE_GEMV) {
            uint64_t first = slot->start + pccx_first_result_latency(t, &slot->op);
            tv_stall_extend(&stalls[PCCX_STALL_RAW], first, slot->index);
            continue;
        }
        unsigned found = find_hazards(op, &slot->op);
        if (!found)
            continue;
        uint64_t end = find_end(t, (pccx_engine)e);
        if (found & HAZARD_RAW)
            tv_stall_extend(&stalls[PCCX_STALL_RAW], end, slot->index);
        if (found & HAZARD_WAR)
            tv_stall_extend(&stalls[PCCX_STALL_WAR], end, slot->index);
        if (found & HAZARD_WAW)
            tv_stall_extend(&stalls[PCCX_STALL_WAW], end, slot->index);
    }
}

/* Attributes the cycles from the head's first to its issue, and returns the latter. */
static uint64_t attribute_stalls(pccx_timing *t, const pccx_op *op, int64_t index, const tv_stall *stalls)
{
    bool engine = op->engine != PCCX_ENGINE_NONE;
    const tv_stall_accounts accounts = {.scheduler = &t->accounts[PCCX_ENGINE_DISP],
                                        .engine = engine ? &t->accounts[op->engine] : NULL,
                                        .engine_free = engine ? t->slots[op->engine].end : 0,
                                        .emitter = &t->emitter,
                                        .index = index,
                                        .reasons = pccx_stall_reason_names};
    return tv_attribute_stalls(stalls, PCCX_STALL_REASONS, t->head, &accounts);
}

static void start_operation(pccx_timing *t, const pccx_op *op, int64_t index, uint64_t cycle, bool forwarded)
{
    pccx_slot *slot = &t->slots[op->engine];
    pccx_copy_op(&slot->op, op);
    slot->used = true;
    slot->end_known = slot->reported = false;
    slot->forwarded = forwarded;
    slot->index = index;
    slot->start = cycle;
    slot->latency_end = cycle + op->handler->latency(t, op);
    slot->end = 0;
    if (op->flow == PCCX_FLOW_ACP) {
        tv_flow *f = &t->share.flows[PCCX_FLOW_ACP];
        f->start = cycle + t->acp_setup;
        f->limit += op->bytes;
        tv_share_target(&t->share, PCCX_FLOW_ACP, f->limit);
    } else if (op->flow != PCCX_FLOW_NONE) {
        t->stream_taken[op->flow] += op->stream_bytes;
        set_stream_limit(t, op->flow);
        tv_share_target(&t->share, op->flow, t->stream_taken[op->flow]);
    } else if (!forwarded) {
        find_end(t, (pccx_engine)op->engine);
    }
}

uint64_t pccx_timing_issue(pccx_timing *t, const pccx_op *op, int64_t index)
{
    t->share.user = t;
    t->share.moved = tv_is_traced(&t->emitter) ? emit_transfer : NULL;
    bool forwarded = is_forwarded(t, op, index);
    tv_stall stalls[PCCX_STALL_REASONS] = {0};
    find_stalls(t, op, forwarded, stalls);
    uint64_t cycle = attribute_stalls(t, op, index, stalls);
    tv_share_advance(&t->share, cycle);
    record_known_ends(t);
    report_completions(t, cycle);
    tv_account_busy(&t->accounts[PCCX_ENGINE_DISP], cycle, cycle + 1);
    if (tv_is_traced(&t->emitter))
        emit_issue(t, op, index, cycle);
    t->head = cycle + 1;
    t->issued++;
    t->last_synchronous = op->synchronous ? (int)op->engine : -1;
    if (op->engine == PCCX_ENGINE_NONE)
        t->latest_end = tv_max_u64(t->latest_end, cycle + op->handler->latency(t, op));
    else
        start_operation(t, op, index, cycle, forwarded);
    return cycle;
}

uint64_t pccx_timing_preview(const pccx_timing *timing, const pccx_op *op, int64_t index)
{
    pccx_timing copy = *timing;
    copy.emitter.sink = NULL;
    copy.completed = NULL;
    return pccx_timing_issue(&copy, op, index);
}

uint64_t pccx_timing_earliest(const pccx_timing *timing)
{
    pccx_timing copy = *timing;
    copy.emitter.sink = NULL;
    copy.completed = NULL;
    copy.share.moved = NULL;
    uint64_t cycle = tv_max_u64(copy.head, copy.base + copy.decode_latency + copy.issued);
    return copy.last_synchronous < 0 ? cycle : tv_max_u64(cycle, find_end(&copy, (pccx_engine)copy.last_synchronous));
}

void pccx_timing_drain(pccx_timing *t)
{
    t->share.user = t;
    t->share.moved = tv_is_traced(&t->emitter) ? emit_transfer : NULL;
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++)
        if (t->slots[e].used)
            find_end(t, (pccx_engine)e);
    report_completions(t, UINT64_MAX);
    for (unsigned i = 0; i < PCCX_ACCOUNTS; i++)
        tv_account_finalize(&t->accounts[i], t->latest_end);
}

/* ---- Repeated programs ---- */

static bool is_flow_at_rest(const pccx_timing *t, unsigned flow)
{
    const tv_flow *f = &t->share.flows[flow];
    uint64_t taken = flow < PCCX_STREAMS ? t->stream_taken[flow] : f->limit;
    return !f->waiting && f->moved.num == 0 && f->moved.whole == taken;
}

bool pccx_timing_reach_rest(pccx_timing *t)
{
    tv_share_advance(&t->share, t->latest_end);
    bool rests = t->share.now.whole == t->latest_end && t->share.now.num == 0;
    for (unsigned f = 0; f < PCCX_FLOWS; f++)
        rests = rests && is_flow_at_rest(t, f);
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++) {
        const pccx_slot *slot = &t->slots[e];
        bool reported = slot->reported || !slot->op.asynchronous;
        rests = rests && (!slot->used || (slot->end_known && slot->end <= t->latest_end && reported));
    }
    for (unsigned i = 0; i < PCCX_ACCOUNTS; i++)
        rests = rests && t->accounts[i].cursor == t->latest_end;
    return rests;
}

/* Moves the cycles and the index of a slot. */
static void move_slot(pccx_slot *slot, uint64_t cycles, int64_t index)
{
    slot->start += cycles;
    slot->latency_end += cycles;
    slot->end += cycles;
    slot->index += index;
}

void pccx_timing_find_change(const pccx_timing *before, const pccx_timing *after, int64_t index,
                             pccx_timing_change *out)
{
    uint64_t base = before->base;
    *out = (pccx_timing_change){.cycles = after->latest_end - base,
                                .head = after->head - base,
                                .issued = after->issued,
                                .last_synchronous = after->last_synchronous};
    for (unsigned f = 0; f < PCCX_FLOWS; f++)
        out->moved[f] = after->share.flows[f].moved.whole - before->share.flows[f].moved.whole;
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++) {
        if (!after->slots[e].used || after->slots[e].index < index)
            continue;
        out->slots[e] = after->slots[e];
        out->slots[e].op.weights = NULL; /* they are not read again */
        move_slot(&out->slots[e], -base, -index);
    }
    for (unsigned i = 0; i < PCCX_ACCOUNTS; i++) {
        const tv_account *from = &before->accounts[i], *to = &after->accounts[i];
        out->accounts[i] = (tv_account){.busy = to->busy - from->busy, .idle = to->idle - from->idle};
        for (unsigned r = 0; r < PCCX_STALL_REASONS; r++)
            out->accounts[i].stalled[r] = to->stalled[r] - from->stalled[r];
    }
}

static void move_flow(pccx_timing *t, unsigned flow, uint64_t bytes)
{
    tv_flow *f = &t->share.flows[flow];
    f->moved = tv_ratio_of(f->moved.whole + bytes);
    f->target = f->moved.whole;
    if (flow < PCCX_STREAMS) {
        t->stream_taken[flow] += bytes;
        set_stream_limit(t, flow);
    } else {
        f->limit += bytes;
    }
}

void pccx_timing_apply_change(pccx_timing *t, const pccx_timing_change *change, int64_t index)
{
    uint64_t base = t->base;
    t->latest_end = base + change->cycles;
    t->head = base + change->head;
    t->issued = change->issued;
    t->last_synchronous = change->last_synchronous;
    t->share.now = tv_ratio_of(t->latest_end);
    for (unsigned f = 0; f < PCCX_FLOWS; f++)
        move_flow(t, f, change->moved[f]);
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++)
        if (change->slots[e].used) {
            t->slots[e] = change->slots[e];
            move_slot(&t->slots[e], base, index);
        }
    for (unsigned i = 0; i < PCCX_ACCOUNTS; i++) {
        tv_account *account = &t->accounts[i];
        account->busy += change->accounts[i].busy;
        account->idle += change->accounts[i].idle;
        account->cursor = t->latest_end;
        for (unsigned r = 0; r < PCCX_STALL_REASONS; r++)
            account->stalled[r] += change->accounts[i].stalled[r];
    }
}
