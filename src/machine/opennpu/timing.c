/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model of OpenNPU (its specification, section 4): one instruction a tick at most, in order, when a
 * scoreboard of base rows says so. */
#include "machine/opennpu/issue.h"
#include "machine/opennpu/params.h"
#include "sim/stall.h"

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

static void find_engine_stalls(const opennpu_timing *t, const opennpu_op *op, tv_stall *stalls)
{
    if (opennpu_is_last(op) && t->accumulated)
        tv_stall_extend(&stalls[OPENNPU_STALL_MMA], t->last_accumulate + t->k + t->column, t->accumulator);
    if (op->engine == OPENNPU_PORT)
        tv_stall_extend(&stalls[OPENNPU_STALL_PORT], t->port_free, t->port_user);
}

/* `stalls` are all zero. */
static void find_stalls(const opennpu_timing *t, const opennpu_op *op, tv_stall *stalls)
{
    const opennpu_opcode_info *shape = &t->shapes[op->insn];
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++)
        for (unsigned i = 0; op->reads >> r & 1 && i < op->rows[r].count; i++) {
            unsigned row = op->rows[r].first + i;
            tv_stall_extend(&stalls[OPENNPU_STALL_RAW], t->ready[row], t->writer[row]);
        }
    for (unsigned i = 0; op->writes && i < op->rows[OPENNPU_RD].count; i++) {
        unsigned row = op->rows[OPENNPU_RD].first + i;
        if (t->ready[row] > shape->latency) /* an earlier write is ready no later than this one's */
            tv_stall_extend(&stalls[OPENNPU_STALL_WAW], t->ready[row] - shape->latency, t->writer[row]);
    }
    find_engine_stalls(t, op, stalls);
}

uint64_t opennpu_timing_earliest(const opennpu_timing *t, const opennpu_op *op)
{
    tv_stall stalls[OPENNPU_STALL_REASONS] = {0};
    find_stalls(t, op, stalls);
    return tv_stalls_end(stalls, OPENNPU_STALL_REASONS, t->next);
}

/* Attributes the ticks from the head's first to its issue, and returns the latter. */
static inline uint64_t attribute_stalls(opennpu_timing *t, const opennpu_op *op, int64_t index, const tv_stall *stalls)
{
    unsigned engine = t->shapes[op->insn].engine;
    const tv_event event = {.index = index};
    const tv_stall_accounts accounts = {.scheduler = &t->accounts[OPENNPU_ISSUE],
                                        .engine = engine == OPENNPU_ISSUE ? NULL : &t->accounts[engine],
                                        .engine_free = engine == OPENNPU_PORT ? t->port_free : 0,
                                        .emitter = &t->emitter,
                                        .event = &event,
                                        .reasons = opennpu_stall_reason_names};
    return tv_attribute_stalls(stalls, OPENNPU_STALL_REASONS, t->next, &accounts);
}

uint64_t opennpu_timing_wait(opennpu_timing *t, const opennpu_op *op)
{
    tv_stall stalls[OPENNPU_STALL_REASONS] = {0};
    for (uint32_t rows = (op->read | op->written) & t->flying; rows; rows &= rows - 1) {
        uint32_t row = rows & (0 - rows);
        uint64_t ready = t->ready[__builtin_ctz(row)];
        if (ready <= t->next) {
            t->flying &= ~row;
            continue;
        }
        if (op->read & row)
            tv_stall_extend(&stalls[OPENNPU_STALL_RAW], ready, -1);
        if (op->written & row && ready > op->latency)
            tv_stall_extend(&stalls[OPENNPU_STALL_WAW], ready - op->latency, -1);
    }
    find_engine_stalls(t, op, stalls);
    return attribute_stalls(t, op, -1, stalls);
}

/* The events of an instruction that issues in `tick`. */
static void emit_execution(const opennpu_timing *t, const opennpu_op *op, int64_t index, uint64_t tick)
{
    const opennpu_opcode_info *info = &t->shapes[op->insn];
    const char *id = tv_isa_opennpu.insns[op->insn].id;
    uint64_t end = tick + (info->engine == OPENNPU_PORT ? info->port_ticks : 1);
    uint64_t bytes = opennpu_port_bytes(op->insn, t->k);
    bool store = op->insn >= OPENNPU_ST_B;
    tv_emit_issue(&t->emitter, opennpu_engine_names[OPENNPU_ISSUE], index, id, tick);
    if (info->engine != OPENNPU_ISSUE) {
        tv_event event = tv_event_of(TV_EVENT_ENGINE, opennpu_engine_names[info->engine], index, tick, end);
        event.op = id;
        event.bytes = bytes;
        event.macs = opennpu_macs(op->insn, t->k);
        tv_emit(&t->emitter, event);
    }
    if (bytes) { /* without a source line: its ENGINE event has it */
        tv_event event = tv_event_of(TV_EVENT_TRANSFER, NULL, index, tick, end);
        event.bytes = bytes;
        event.path = store ? "store" : "load";
        event.write = store;
        t->emitter.sink->event(t->emitter.sink->user, &event);
    }
}

void opennpu_timing_issue(opennpu_timing *t, const opennpu_op *op, int64_t index)
{
    const opennpu_opcode_info *shape = &t->shapes[op->insn];
    if (shape->engine == OPENNPU_PORT)
        opennpu_flush_port(t, UINT64_MAX);
    tv_stall stalls[OPENNPU_STALL_REASONS] = {0};
    find_stalls(t, op, stalls);
    uint64_t tick = attribute_stalls(t, op, index, stalls),
             busy = shape->engine == OPENNPU_PORT ? shape->port_ticks : 1;
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
    if (tv_is_traced(&t->emitter))
        emit_execution(t, op, index, tick);
}

void opennpu_timing_drain(opennpu_timing *t)
{
    t->latest = tv_max_u64(t->latest, t->next);
    opennpu_flush_port(t, t->latest);
    for (unsigned e = 0; e < OPENNPU_ENGINES; e++)
        tv_account_finalize(&t->accounts[e], t->latest);
}
