/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model (pccx specification, section 5). */
#include "machine/pccx/timing.h"

#include "machine/pccx/params.h"
#include "sim/stall.h"

const char *const pccx_engine_names[PCCX_ACCOUNTS] = {"GEMM", "GEMV", "SFU", "ACP", "DISP"};
const char *const pccx_stall_reason_names[PCCX_STALL_REASONS] = {"sync",     "raw",      "war",   "waw",
                                                                 "frontend", "resource", "stream"};
const char *const pccx_path_names[PCCX_PATHS] = {"weights_gemm", "weights_gemv", "host_to_l2", "l2_to_host",
                                                 "l2_to_l2"};

enum { FLOW_ACP = PCCX_STREAMS, FLOWS };

/* ---- Set-up ---- */

static void emit_transfer(void *user, unsigned flow, tv_ratio t0, tv_ratio t1, tv_ratio moved);

bool pccx_timing_init(pccx_timing *timing, const tv_config *config)
{
    /* The fill of each CVO function; the rest of an instruction's latency is in `formula`. */
    static const struct {
        pccx_insn insn;
        unsigned param;
    } fills[] = {
        {PCCX_CVO_EXP, PCCX_PARAM_FILL_EXP},     {PCCX_CVO_SQRT, PCCX_PARAM_FILL_SQRT},
        {PCCX_CVO_GELU, PCCX_PARAM_FILL_GELU},   {PCCX_CVO_SIN, PCCX_PARAM_FILL_SIN},
        {PCCX_CVO_COS, PCCX_PARAM_FILL_COS},     {PCCX_CVO_REDUCE_SUM, PCCX_PARAM_FILL_REDUCE_SUM},
        {PCCX_CVO_SCALE, PCCX_PARAM_FILL_SCALE}, {PCCX_CVO_RECIP, PCCX_PARAM_FILL_RECIP},
    };
    const tv_rate stream = tv_config_rate(config, PCCX_PARAM_STREAM_RATE);
    const tv_rate rates[] = {tv_config_rate(config, PCCX_PARAM_MEMORY_RATE), stream, stream,
                             tv_config_rate(config, PCCX_PARAM_ACP_RATE)};
    *timing = (pccx_timing){
        .decode_latency = tv_config_integer(config, PCCX_PARAM_DECODE_LATENCY),
        .acp_setup = tv_config_integer(config, PCCX_PARAM_ACP_SETUP),
        .move_setup = tv_config_integer(config, PCCX_PARAM_MOVE_SETUP),
        .gemv_setup = tv_config_integer(config, PCCX_PARAM_GEMV_SETUP),
        .gemv_tile_k = tv_config_integer(config, PCCX_PARAM_GEMV_TILE_K),
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
        timing->fill[fills[i].insn] = tv_config_integer(config, fills[i].param);
    for (unsigned i = 0; i < PCCX_ACCOUNTS; i++)
        timing->accounts[i].name = pccx_engine_names[i];
    return tv_share_init(&timing->share, rates, FLOWS);
}

void pccx_timing_begin(pccx_timing *timing)
{
    timing->base = timing->head = timing->latest_end;
    timing->issued = 0;
}

/* A stream runs ahead until the bytes of instructions not yet issued fill its FIFO. */
static void set_stream_limit(pccx_timing *timing, unsigned stream)
{
    timing->share.flows[stream].limit =
        tv_min_u64(timing->stream_total[stream], timing->stream_taken[stream] + timing->stream_fifo);
}

void pccx_timing_append(pccx_timing *timing, unsigned stream, uint64_t bytes)
{
    tv_share_advance(&timing->share, timing->latest_end);
    timing->stream_total[stream] += bytes;
    set_stream_limit(timing, stream);
}

/* ---- Latencies ---- */

/* Steps of `unit` that cover `length` when it is cut into tiles of `tile` first (0: not cut). */
static uint64_t steps(uint64_t length, uint64_t tile, uint64_t unit)
{
    if (tile == 0 || tile > length)
        tile = length;
    return length / tile * tv_ceil_div(tile, unit) + tv_ceil_div(length % tile, unit);
}

/* Cycles from issue to end while nothing is short of bytes. */
static uint64_t formula(const pccx_timing *t, const pccx_op *op)
{
    switch (op->engine) {
    case PCCX_ENGINE_GEMV:
        return t->gemv_setup + steps(op->k, op->tile_k, t->gemv_tile_k) * steps(op->n, op->tile_n, op->lanes);
    case PCCX_ENGINE_GEMM:
        return t->gemm_setup + steps(op->k, op->tile_k, t->gemm_tile_k) * steps(op->n, op->tile_n, t->gemm_tile_n) *
                                   tv_max_u64(op->m, t->gemm_min_m);
    case PCCX_ENGINE_SFU:
        return t->fill[op->insn] + op->length + t->cvo_tail;
    case PCCX_ENGINE_ACP:
        return op->insn == PCCX_MEMCPY_MOVE ? t->move_setup + op->words : t->acp_setup; /* and the transfer */
    case PCCX_ENGINE_NONE:
        return 1;
    }
    return 0;
}

/* ---- Trace ---- */

/* A flow moved bytes over a path: called by the bandwidth model of a traced run. */
static void emit_transfer(void *user, unsigned flow, tv_ratio t0, tv_ratio t1, tv_ratio moved)
{
    pccx_timing *t = user;
    const pccx_op *op = &t->slots[PCCX_ENGINE_ACP].op;
    bool store = flow == FLOW_ACP && op->insn == PCCX_MEMCPY_STORE;
    pccx_path path = flow == FLOW_ACP           ? (store ? PCCX_PATH_STORE : PCCX_PATH_LOAD)
                     : flow == PCCX_STREAM_GEMM ? PCCX_PATH_GEMM
                                                : PCCX_PATH_GEMV;
    tv_ratio after = t->share.flows[flow].moved; /* whole bytes, so that the parts of a transfer add up to it */
    uint64_t bytes = tv_ratio_cmp(after, moved) > 0 ? after.whole - tv_ratio_sub(after, moved).whole : after.whole;
    tv_event event = tv_event_of(TV_EVENT_TRANSFER, NULL, -1, t0.whole, tv_ratio_ceil(t1));
    event.bytes = bytes;
    event.path = pccx_path_names[path];
    event.write = store;
    tv_emit(&t->emitter, event);
}

static void emit_execution(const pccx_timing *t, pccx_engine engine, const pccx_slot *slot)
{
    const pccx_op *op = &slot->op;
    const tv_insn *insn = &tv_isa_pccx.insns[op->insn];
    tv_event event = tv_event_of(TV_EVENT_ENGINE, pccx_engine_names[engine], slot->index, slot->start, slot->end);
    event.op = insn->id;
    event.macs = op->macs;
    event.bytes = engine == PCCX_ENGINE_ACP ? op->words * 16 : op->stream_bytes;
    for (unsigned i = 0, n = 0; i < insn->uop_count && n < 2; i++)
        if (insn->uops[i].route && !tv_uop_skipped(&tv_isa_pccx, &insn->uops[i], op->word))
            event.routes[n++] = insn->uops[i].route;
    tv_emit(&t->emitter, event);
}

/* ---- Ends ---- */

/* Accounts for an operation whose end has become known. */
static void settle(pccx_timing *t, pccx_engine engine, uint64_t end)
{
    pccx_slot *slot = &t->slots[engine];
    slot->end = end;
    slot->settled = true;
    bool streams = engine == PCCX_ENGINE_GEMM || engine == PCCX_ENGINE_GEMV;
    uint64_t busy_end = streams ? slot->formula_end : end;
    tv_account_busy(&t->accounts[engine], slot->start, busy_end);
    t->latest_end = tv_max_u64(t->latest_end, end);
    if (tv_is_traced(&t->emitter))
        emit_execution(t, engine, slot);
    const tv_event event = {.index = slot->index};
    const tv_stall_accounts accounts = {.emitter = &t->emitter, .event = &event, .reasons = pccx_stall_reason_names};
    tv_charge_stall(&accounts, &t->accounts[engine], PCCX_STALL_STREAM, -1, busy_end, end);
}

/* The flow that decides when the operation ends; FLOWS: none does. */
static unsigned deciding_flow(const pccx_op *op)
{
    if (op->engine == PCCX_ENGINE_GEMM || op->engine == PCCX_ENGINE_GEMV)
        return op->stream;
    return op->engine == PCCX_ENGINE_ACP && op->insn != PCCX_MEMCPY_MOVE ? (unsigned)FLOW_ACP : (unsigned)FLOWS;
}

/* The end of an engine's operation, moving the streams on as far as that takes. */
static uint64_t end_of(pccx_timing *t, pccx_engine engine)
{
    pccx_slot *slot = &t->slots[engine];
    if (!slot->used || slot->settled)
        return slot->end;
    uint64_t end = slot->formula_end;
    unsigned flow = deciding_flow(&slot->op);
    if (flow < FLOWS) {
        uint64_t arrived = tv_ratio_ceil(tv_share_wait(&t->share, flow));
        end = tv_max_u64(end, arrived + (engine == PCCX_ENGINE_GEMM   ? t->gemm_setup
                                         : engine == PCCX_ENGINE_GEMV ? t->gemv_setup
                                                                      : 0));
    } else if (slot->forwarded) {
        end = tv_max_u64(end, end_of(t, PCCX_ENGINE_GEMV) + t->forward_tail);
    }
    settle(t, engine, end);
    return end;
}

/* Settles what the streams' present state already decides. */
static void settle_known(pccx_timing *t)
{
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++) {
        const pccx_slot *slot = &t->slots[e];
        if (!slot->used || slot->settled)
            continue;
        unsigned flow = slot->forwarded ? deciding_flow(&t->slots[PCCX_ENGINE_GEMV].op) : deciding_flow(&slot->op);
        bool waits =
            flow < FLOWS && t->share.flows[flow].waiting && !(slot->forwarded && t->slots[PCCX_ENGINE_GEMV].settled);
        if (!waits)
            end_of(t, (pccx_engine)e);
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
            bool due = slot->used && slot->settled && !slot->reported && slot->op.asynchronous && slot->end <= now;
            if (due && (!first || slot->end < first->end || (slot->end == first->end && slot->index < first->index))) {
                first = slot;
                engine = engines[i];
            }
        }
        if (!first)
            return;
        first->reported = true;
        if (tv_is_traced(&t->emitter))
            tv_emit(&t->emitter,
                    tv_event_of(TV_EVENT_STATUS, pccx_engine_names[engine], first->index, first->end, first->end));
    }
}

/* ---- Hazards ---- */

enum { HAZARD_RAW = 1, HAZARD_WAR = 2, HAZARD_WAW = 4 };

static unsigned overlap(const pccx_range *later, const pccx_range *earlier)
{
    if (later->place != earlier->place || later->from >= earlier->to || earlier->from >= later->to)
        return 0;
    if (earlier->write)
        return later->write ? HAZARD_WAW : HAZARD_RAW;
    return later->write ? HAZARD_WAR : 0;
}

/* Weights are read from host memory, so that a host write before or after them orders with them. */
static bool weights_overlap(const pccx_op *op, const pccx_range *host)
{
    uint64_t taken = 0, offset = op->weights_offset;
    for (const tv_descriptor *d = op->weights; taken < op->stream_bytes; d++, offset = 0) {
        uint64_t part = tv_min_u64(d->bytes - offset, op->stream_bytes - taken);
        if (host->from < d->addr + offset + part && d->addr + offset < host->to)
            return true;
        taken += part;
    }
    return false;
}

static unsigned weight_hazards(const pccx_op *later, const pccx_op *earlier)
{
    unsigned found = 0;
    for (unsigned i = 0; i < earlier->range_count && later->stream_bytes; i++)
        if (earlier->ranges[i].place == PCCX_IN_HOST && earlier->ranges[i].write &&
            weights_overlap(later, &earlier->ranges[i]))
            found |= HAZARD_RAW;
    for (unsigned i = 0; i < later->range_count && earlier->stream_bytes; i++)
        if (later->ranges[i].place == PCCX_IN_HOST && later->ranges[i].write &&
            weights_overlap(earlier, &later->ranges[i]))
            found |= HAZARD_WAR;
    return found;
}

static unsigned hazards(const pccx_op *later, const pccx_op *earlier)
{
    unsigned found = weight_hazards(later, earlier);
    for (unsigned i = 0; i < later->range_count; i++)
        for (unsigned j = 0; j < earlier->range_count; j++)
            found |= overlap(&later->ranges[i], &earlier->ranges[j]);
    return found;
}

static bool is_findemax(const pccx_op *op) { return pccx_MATRIX_findemax(op->word); }

/* A CVO right behind the GEMV whose result it takes follows it through the pipeline, unless it needs its e_max. */
static bool forwards(const pccx_timing *t, const pccx_op *op, int64_t index)
{
    const pccx_slot *gemv = &t->slots[PCCX_ENGINE_GEMV];
    return op->engine == PCCX_ENGINE_SFU && gemv->used && t->issued > 0 && gemv->index == index - 1 &&
           gemv->op.dst == op->src && !(is_findemax(&gemv->op) && pccx_CVO_sub_emax(op->word));
}

/* ---- Issue ---- */

/* What stalls the head of the dispatcher; `stalls` are all zero. */
static void find_stalls(pccx_timing *t, const pccx_op *op, bool forwarded, tv_stall *stalls)
{
    tv_stall_extend(&stalls[PCCX_STALL_FRONTEND], t->base + t->decode_latency + t->issued, -1);
    if (t->last_synchronous >= 0)
        tv_stall_extend(&stalls[PCCX_STALL_SYNC], end_of(t, (pccx_engine)t->last_synchronous),
                        t->slots[t->last_synchronous].index);
    if (op->engine != PCCX_ENGINE_NONE && t->slots[op->engine].used)
        tv_stall_extend(&stalls[PCCX_STALL_RESOURCE], end_of(t, op->engine), t->slots[op->engine].index);
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++) {
        pccx_slot *slot = &t->slots[e];
        if (!slot->used || (slot->settled && slot->end <= t->head))
            continue;
        if (forwarded && e == PCCX_ENGINE_GEMV) {
            uint64_t first = slot->start + t->gemv_setup + tv_ceil_div(slot->op.k, t->gemv_tile_k);
            tv_stall_extend(&stalls[PCCX_STALL_RAW], first, slot->index);
            continue;
        }
        unsigned found = hazards(op, &slot->op);
        if (!found)
            continue;
        uint64_t end = end_of(t, (pccx_engine)e);
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
    const tv_event event = {.index = index};
    const tv_stall_accounts accounts = {.scheduler = &t->accounts[PCCX_ENGINE_DISP],
                                        .engine = engine ? &t->accounts[op->engine] : NULL,
                                        .engine_free = engine ? t->slots[op->engine].end : 0,
                                        .emitter = &t->emitter,
                                        .event = &event,
                                        .reasons = pccx_stall_reason_names};
    return tv_attribute_stalls(stalls, PCCX_STALL_REASONS, t->head, &accounts);
}

static void start(pccx_timing *t, const pccx_op *op, int64_t index, uint64_t cycle, bool forwarded)
{
    pccx_slot *slot = &t->slots[op->engine];
    slot->op = *op; /* member by member: no copy of it on the way */
    slot->used = true;
    slot->settled = slot->reported = false;
    slot->forwarded = forwarded;
    slot->index = index;
    slot->start = cycle;
    slot->formula_end = cycle + formula(t, op);
    slot->end = 0;
    unsigned flow = deciding_flow(op);
    if (flow == FLOW_ACP) {
        tv_flow *f = &t->share.flows[FLOW_ACP];
        f->start = cycle + t->acp_setup;
        f->limit += op->words * 16;
        tv_share_target(&t->share, FLOW_ACP, f->limit);
    } else if (flow < FLOWS) {
        t->stream_taken[flow] += op->stream_bytes;
        set_stream_limit(t, flow);
        tv_share_target(&t->share, flow, t->stream_taken[flow]);
    } else if (!forwarded) {
        end_of(t, op->engine);
    }
}

uint64_t pccx_timing_issue(pccx_timing *t, const pccx_op *op, int64_t index)
{
    t->share.user = t;
    t->share.moved = tv_is_traced(&t->emitter) ? emit_transfer : NULL;
    bool forwarded = forwards(t, op, index);
    tv_stall stalls[PCCX_STALL_REASONS] = {0};
    find_stalls(t, op, forwarded, stalls);
    uint64_t cycle = attribute_stalls(t, op, index, stalls);
    tv_share_advance(&t->share, cycle);
    settle_known(t);
    report_completions(t, cycle);
    tv_account_busy(&t->accounts[PCCX_ENGINE_DISP], cycle, cycle + 1);
    if (tv_is_traced(&t->emitter))
        tv_emit_issue(&t->emitter, pccx_engine_names[PCCX_ENGINE_DISP], index, tv_isa_pccx.insns[op->insn].id, cycle);
    t->head = cycle + 1;
    t->issued++;
    t->last_synchronous = op->synchronous ? (int)op->engine : -1;
    if (op->engine == PCCX_ENGINE_NONE)
        t->latest_end = tv_max_u64(t->latest_end, cycle + formula(t, op));
    else
        start(t, op, index, cycle, forwarded);
    return cycle;
}

uint64_t pccx_timing_preview(const pccx_timing *timing, const pccx_op *op, int64_t index)
{
    pccx_timing copy = *timing;
    copy.emitter.sink = NULL;
    return pccx_timing_issue(&copy, op, index);
}

uint64_t pccx_timing_earliest(const pccx_timing *timing)
{
    pccx_timing copy = *timing;
    copy.emitter.sink = NULL;
    copy.share.moved = NULL;
    uint64_t cycle = tv_max_u64(copy.head, copy.base + copy.decode_latency + copy.issued);
    return copy.last_synchronous < 0 ? cycle : tv_max_u64(cycle, end_of(&copy, (pccx_engine)copy.last_synchronous));
}

void pccx_timing_drain(pccx_timing *t)
{
    t->share.user = t;
    t->share.moved = tv_is_traced(&t->emitter) ? emit_transfer : NULL;
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++)
        if (t->slots[e].used)
            end_of(t, (pccx_engine)e);
    report_completions(t, UINT64_MAX);
    for (unsigned i = 0; i < PCCX_ACCOUNTS; i++)
        tv_account_finalize(&t->accounts[i], t->latest_end);
}
