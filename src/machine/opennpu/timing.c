/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model of OpenNPU (its specification, section 4): one instruction a tick at most, in order, when a
 * scoreboard of base rows says so. */
#include "machine/opennpu/issue.h"
#include "machine/opennpu/params.h"

const char *const opennpu_engine_names[OPENNPU_ENGINES] = {"VALU", "MMA", "PORT", "ISSUE"};
const char *const opennpu_stall_reason_names[OPENNPU_STALL_REASONS] = {"raw", "waw", "mma", "port"};

void opennpu_timing_init(opennpu_timing *timing, const opennpu_opcode_info *shapes, const tv_config *config)
{
    *timing = (opennpu_timing){
        .shapes = shapes, .k = tv_config_integer(config, OPENNPU_PARAM_K), .port_user = -1, .accumulator = -1};
    for (unsigned i = 0; i < OPENNPU_L_MAX; i++)
        timing->writer[i] = -1;
    for (unsigned e = 0; e < OPENNPU_ENGINES; e++)
        timing->accounts[e].name = opennpu_engine_names[e];
}

void opennpu_timing_begin(opennpu_timing *timing) { timing->next = tv_max_u64(timing->next, timing->latest); }

typedef struct holds {
    uint64_t until[OPENNPU_STALL_REASONS];
    int64_t by[OPENNPU_STALL_REASONS];
} holds;

static void hold(holds *h, opennpu_stall_reason reason, uint64_t until, int64_t by)
{
    if (until > h->until[reason]) {
        h->until[reason] = until;
        h->by[reason] = by;
    }
}

static void hold_by_engine(const opennpu_timing *t, const opennpu_op *op, holds *h)
{
    if (opennpu_is_last(op) && t->accumulated)
        hold(h, OPENNPU_STALL_MMA, t->last_accumulate + t->k + t->column, t->accumulator);
    if (op->engine == OPENNPU_PORT)
        hold(h, OPENNPU_STALL_PORT, t->port_free, t->port_user);
}

static holds find_holds(const opennpu_timing *t, const opennpu_op *op)
{
    holds h = {{0}, {-1, -1, -1, -1}};
    const opennpu_opcode_info *shape = &t->shapes[op->insn];
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++)
        for (unsigned i = 0; op->reads >> r & 1 && i < op->rows[r].count; i++) {
            unsigned row = op->rows[r].first + i;
            hold(&h, OPENNPU_STALL_RAW, t->ready[row], t->writer[row]);
        }
    for (unsigned i = 0; op->writes && i < op->rows[OPENNPU_RD].count; i++) {
        unsigned row = op->rows[OPENNPU_RD].first + i;
        if (t->ready[row] > shape->latency) /* an earlier write is ready no later than this one's */
            hold(&h, OPENNPU_STALL_WAW, t->ready[row] - shape->latency, t->writer[row]);
    }
    hold_by_engine(t, op, &h);
    return h;
}

uint64_t opennpu_timing_earliest(const opennpu_timing *t, const opennpu_op *op)
{
    uint64_t tick = t->next;
    holds h = find_holds(t, op);
    for (unsigned c = 0; c < OPENNPU_STALL_REASONS; c++)
        tick = tv_max_u64(tick, h.until[c]);
    return tick;
}

static void emit(opennpu_timing *t, tv_event event)
{
    if (event.index >= 0 && t->locate)
        t->locate(t->user, event.index, &event);
    t->sink->event(t->sink->user, &event);
}

/* Charges each tick from the head's first to its issue to the first cause that still applies in it. Returns its issue.
 */
static uint64_t charge(opennpu_timing *t, const opennpu_op *op, int64_t index, const holds *h)
{
    const opennpu_opcode_info *shape = &t->shapes[op->insn];
    uint64_t tick = t->next;
    for (unsigned c = 0; c < OPENNPU_STALL_REASONS; c++) {
        if (h->until[c] <= tick)
            continue;
        const unsigned accounts[] = {OPENNPU_ISSUE, shape->engine};
        for (unsigned i = 0; i < (shape->engine == OPENNPU_ISSUE ? 1u : 2u); i++) {
            uint64_t from = i && shape->engine == OPENNPU_PORT ? tv_max_u64(tick, t->port_free) : tick;
            tv_account_stall(&t->accounts[accounts[i]], c, from, h->until[c]);
            if (t->sink && h->until[c] > from)
                emit(t, (tv_event){.kind = TV_EVENT_STALL,
                                   .engine = opennpu_engine_names[accounts[i]],
                                   .index = index,
                                   .start = from,
                                   .end = h->until[c],
                                   .reason = opennpu_stall_reason_names[c],
                                   .waits_for = h->by[c],
                                   .scheduler = i == 0});
        }
        tick = h->until[c];
    }
    return tick;
}

uint64_t opennpu_timing_wait(opennpu_timing *t, const opennpu_op *op)
{
    holds h = {0};
    for (uint32_t rows = (op->read | op->written) & t->flying; rows; rows &= rows - 1) {
        uint32_t row = rows & (0 - rows);
        uint64_t ready = t->ready[__builtin_ctz(row)];
        if (ready <= t->next) {
            t->flying &= ~row;
            continue;
        }
        if (op->read & row)
            h.until[OPENNPU_STALL_RAW] = tv_max_u64(h.until[OPENNPU_STALL_RAW], ready);
        if (op->written & row && ready > op->latency)
            h.until[OPENNPU_STALL_WAW] = tv_max_u64(h.until[OPENNPU_STALL_WAW], ready - op->latency);
    }
    hold_by_engine(t, op, &h);
    return charge(t, op, -1, &h);
}

void opennpu_timing_issue(opennpu_timing *t, const opennpu_op *op, int64_t index)
{
    const opennpu_opcode_info *shape = &t->shapes[op->insn];
    if (shape->engine == OPENNPU_PORT)
        opennpu_flush_port(t, UINT64_MAX);
    holds h = find_holds(t, op);
    uint64_t tick = charge(t, op, index, &h), busy = shape->engine == OPENNPU_PORT ? shape->port_ticks : 1;
    tv_account_busy(&t->accounts[OPENNPU_ISSUE], tick, tick + 1);
    if (shape->engine != OPENNPU_PORT && shape->engine != OPENNPU_ISSUE)
        tv_account_busy(&t->accounts[shape->engine], tick, tick + busy);
    if (shape->engine == OPENNPU_PORT) {
        t->port_from = tick;
        t->port_free = tick + busy;
        t->port_user = index;
    }
    if (shape->engine == OPENNPU_MMA_ARRAY)
        opennpu_move_array(t, op, index, tick);
    opennpu_mark_written(t, op, index, tick + shape->latency);
    t->next = tick + 1;
    if (!t->sink)
        return;
    const char *id = tv_isa_opennpu.insns[op->insn].id;
    emit(t, (tv_event){.kind = TV_EVENT_COMMAND,
                       .engine = opennpu_engine_names[OPENNPU_ISSUE],
                       .index = index,
                       .start = tick,
                       .end = tick + 1,
                       .waits_for = -1,
                       .op = id});
    uint64_t bytes = opennpu_port_bytes(op->insn, t->k);
    bool store = op->insn >= OPENNPU_ST_B;
    if (shape->engine != OPENNPU_ISSUE)
        emit(t, (tv_event){.kind = TV_EVENT_ENGINE,
                           .engine = opennpu_engine_names[shape->engine],
                           .index = index,
                           .start = tick,
                           .end = tick + busy,
                           .waits_for = -1,
                           .op = id,
                           .bytes = bytes,
                           .macs = opennpu_macs(op->insn, t->k)});
    if (bytes)
        t->sink->event(t->sink->user, &(tv_event){.kind = TV_EVENT_TRANSFER,
                                                  .index = index,
                                                  .start = tick,
                                                  .end = tick + busy,
                                                  .waits_for = -1,
                                                  .bytes = bytes,
                                                  .path = store ? "store" : "load",
                                                  .write = store});
}

void opennpu_timing_drain(opennpu_timing *t)
{
    t->latest = tv_max_u64(t->latest, t->next);
    opennpu_flush_port(t, t->latest);
    for (unsigned e = 0; e < OPENNPU_ENGINES; e++)
        tv_account_finalize(&t->accounts[e], t->latest);
}
