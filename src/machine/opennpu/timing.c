/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model of OpenNPU (specification, section 4): at most one instruction a tick issues, in order, when the
 * scoreboard of base rows, the MMA array and the memory port allow it. */
#include "machine/opennpu/issue.h"
#include "machine/opennpu/params.h"
#include "sim/stall.h"

const char *const opennpu_stall_reason_names[OPENNPU_STALL_REASONS] = {
    [OPENNPU_STALL_RAW] = "raw",
    [OPENNPU_STALL_WAW] = "waw",
    [OPENNPU_STALL_MMA] = "mma",
    [OPENNPU_STALL_PORT] = "port",
};

void opennpu_timing_init(opennpu_timing *timing, const opennpu_opcodes *opcodes, const tv_config *config)
{
    *timing = (opennpu_timing){
        .opcodes = opcodes, .k = tv_config_integer(config, OPENNPU_PARAM_K), .port_owner = -1, .accumulator = -1};
    for (unsigned i = 0; i < OPENNPU_L_MAX; i++)
        timing->writer[i] = -1;
    for (unsigned e = 0; e < OPENNPU_ENGINES; e++)
        timing->accounts[e].name = opennpu_engine_names[e];
    tv_energy_params energy;
    opennpu_energy_params(config, &energy);
    tv_energy_table_init(&timing->energy, &energy);
}

void opennpu_timing_begin(opennpu_timing *timing)
{
    timing->next_tick = tv_max_u64(timing->next_tick, timing->last_completion);
}

static void find_engine_stalls(const opennpu_timing *t, const opennpu_op *op, tv_stall *stalls)
{
    if (op->effects & OPENNPU_DRAINS && t->accumulated)
        tv_stall_extend(&stalls[OPENNPU_STALL_MMA], t->accumulate_tick + t->k + t->column, t->accumulator);
    if (op->engine == OPENNPU_ENGINE_PORT)
        tv_stall_extend(&stalls[OPENNPU_STALL_PORT], t->port_free, t->port_owner);
}

/* Fills `stalls`, which are all zero on entry. */
static void find_stalls(const opennpu_timing *t, const opennpu_op *op, tv_stall *stalls)
{
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++)
        for (unsigned i = 0; op->reads >> r & 1 && i < op->rows[r].count; i++) {
            unsigned row = op->rows[r].first + i;
            tv_stall_extend(&stalls[OPENNPU_STALL_RAW], t->completes[row], t->writer[row]);
        }
    for (unsigned i = 0; op->writes && i < op->rows[OPENNPU_RD].count; i++) {
        unsigned row = op->rows[OPENNPU_RD].first + i;
        if (t->completes[row] > op->latency) /* an earlier write completes no later than this one's */
            tv_stall_extend(&stalls[OPENNPU_STALL_WAW], t->completes[row] - op->latency, t->writer[row]);
    }
    find_engine_stalls(t, op, stalls);
}

uint64_t opennpu_timing_earliest(const opennpu_timing *t, const opennpu_op *op)
{
    tv_stall stalls[OPENNPU_STALL_REASONS] = {0};
    find_stalls(t, op, stalls);
    return tv_stalls_end(stalls, OPENNPU_STALL_REASONS, t->next_tick);
}

/* Attributes the ticks from t->next_tick to the issue of the operation, and returns the tick of issue. */
static inline uint64_t attribute_stalls(opennpu_timing *t, const opennpu_op *op, int64_t index, const tv_stall *stalls)
{
    const unsigned engine = op->engine;
    const tv_stall_accounts accounts = {.scheduler = &t->accounts[OPENNPU_ENGINE_ISSUE],
                                        .engine = engine == OPENNPU_ENGINE_ISSUE ? NULL : &t->accounts[engine],
                                        .engine_free = engine == OPENNPU_ENGINE_PORT ? t->port_free : 0,
                                        .emitter = &t->emitter,
                                        .index = index,
                                        .reasons = opennpu_stall_reason_names};
    return tv_attribute_stalls(stalls, OPENNPU_STALL_REASONS, t->next_tick, &accounts);
}

/* Removes rows from `in_flight` whose result is complete. */
static void drop_completed(opennpu_timing *t)
{
    for (uint32_t rows = t->in_flight; rows; rows &= rows - 1)
        if (t->completes[__builtin_ctz(rows)] <= t->next_tick)
            t->in_flight &= ~(rows & (0 - rows));
}

uint64_t opennpu_timing_stall(opennpu_timing *t, const opennpu_op *op)
{
    drop_completed(t);
    uint32_t rows = (op->rows_read | op->rows_written) & t->in_flight;
    if (!rows && !opennpu_engine_stalls(t, op, (opennpu_engine)op->engine))
        return t->next_tick;
    tv_stall stalls[OPENNPU_STALL_REASONS] = {0};
    for (; rows; rows &= rows - 1) {
        const uint32_t row = rows & (0 - rows);
        const uint64_t completes = t->completes[__builtin_ctz(row)];
        if (op->rows_read & row)
            tv_stall_extend(&stalls[OPENNPU_STALL_RAW], completes, -1);
        if (op->rows_written & row && completes > op->latency)
            tv_stall_extend(&stalls[OPENNPU_STALL_WAW], completes - op->latency, -1);
    }
    find_engine_stalls(t, op, stalls);
    return attribute_stalls(t, op, -1, stalls);
}

uint64_t opennpu_engine_ticks(const opennpu_op *op) { return op->engine == OPENNPU_ENGINE_PORT ? op->port_ticks : 1; }

static void set_energy(const opennpu_timing *t, const opennpu_op *op, tv_event *event)
{
    if (!tv_needs_energy(&t->emitter))
        return;
    uint64_t counts[TV_ACTION_COUNT] = {0};
    opennpu_count_actions(&t->opcodes->rows[op->insn], op->profile % OPENNPU_PROFILES / 2, op->profile & 1,
                          (uint32_t)t->k, counts);
    opennpu_count_issue(1, counts);
    tv_event_set_energy(event, &t->energy, counts);
}

/* Emits the events of an instruction that issues in `tick`. */
static void emit_execution(const opennpu_timing *t, const opennpu_op *op, int64_t index, uint64_t tick)
{
    const char *id = t->opcodes->rows[op->insn].insn->id;
    const uint64_t end = tick + opennpu_engine_ticks(op);
    const bool store = op->effects & OPENNPU_STORES;
    tv_event issue = tv_event_of(TV_EVENT_COMMAND, opennpu_engine_names[OPENNPU_ENGINE_ISSUE], index, tick, tick + 1);
    issue.op = id;
    if (op->engine == OPENNPU_ENGINE_ISSUE)
        set_energy(t, op, &issue);
    tv_emit(&t->emitter, &issue);
    if (op->engine != OPENNPU_ENGINE_ISSUE) {
        tv_event event = tv_event_of(TV_EVENT_ENGINE, opennpu_engine_names[op->engine], index, tick, end);
        event.op = id;
        event.bytes = op->port_bytes;
        event.macs = op->macs;
        set_energy(t, op, &event);
        tv_emit(&t->emitter, &event);
    }
    if (op->port_bytes) { /* without a source line: its ENGINE event has it */
        tv_event event = tv_event_of(TV_EVENT_TRANSFER, NULL, index, tick, end);
        event.bytes = op->port_bytes;
        event.path = store ? "store" : "load";
        event.write = store;
        t->emitter.sink->event(t->emitter.sink->user, &event);
    }
}

void opennpu_timing_issue(opennpu_timing *t, const opennpu_op *op, int64_t index)
{
    if (op->engine == OPENNPU_ENGINE_PORT)
        opennpu_account_port(t, UINT64_MAX);
    tv_stall stalls[OPENNPU_STALL_REASONS] = {0};
    find_stalls(t, op, stalls);
    const uint64_t tick = attribute_stalls(t, op, index, stalls), busy = opennpu_engine_ticks(op);
    tv_account_busy(&t->accounts[OPENNPU_ENGINE_ISSUE], tick, tick + 1);
    if (op->engine != OPENNPU_ENGINE_PORT && op->engine != OPENNPU_ENGINE_ISSUE)
        tv_account_busy(&t->accounts[op->engine], tick, tick + busy);
    if (op->engine == OPENNPU_ENGINE_PORT) {
        t->port_start = tick;
        t->port_free = tick + busy;
        t->port_owner = index;
    }
    if (op->engine == OPENNPU_ENGINE_MMA)
        opennpu_advance_array(t, op, index, tick);
    opennpu_scoreboard_write(t, op, index, tick + op->latency);
    t->next_tick = tick + 1;
    if (tv_is_traced(&t->emitter))
        emit_execution(t, op, index, tick);
}

void opennpu_timing_drain(opennpu_timing *t)
{
    t->last_completion = tv_max_u64(t->last_completion, t->next_tick);
    opennpu_account_port(t, t->last_completion);
    for (unsigned e = 0; e < OPENNPU_ENGINES; e++)
        tv_account_finalize(&t->accounts[e], t->last_completion);
}
