/* SPDX-License-Identifier: Apache-2.0 */
/* The CMDQ machine as a target: creating, loading, running, faults, address spaces, statistics. Entries are executed
 * one by one in the order of the plan. Their timing is simulated when the queue has ended, or when statistics are read;
 * with several threads one of them simulates it while the queue is executed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine/cmdq/extension.h"
#include "machine/cmdq/hazard.h"
#include "sim/bottleneck.h"
#include "sim/stats.h"

static const tv_param param_rows[CMDQ_PARAM_COUNT] = {
#define TV_PARAM(id, key_, type_, unit_, fallback_, min_, max_, meaning_)                                              \
    {key_, TV_PARAM_##type_, unit_, fallback_, min_, max_, meaning_},
#include "machine/cmdq/params.def"
#undef TV_PARAM
};

const tv_schema cmdq_schema = {"cmdq", &tv_target_cmdq, param_rows, CMDQ_PARAM_COUNT};

typedef cmdq_machine machine;

/* ---- Creating and loading ---- */

/* Bounds the rates of section 5, whose products are computed in 128 bits (cost.c). */
static tv_status validate(const tv_config *config, const tv_diag_sink *sink)
{
    static const unsigned rates[] = {CMDQ_PARAM_TE_WEIGHT4,     CMDQ_PARAM_TE_WEIGHT2,    CMDQ_PARAM_TE_ACTIVATION4,
                                     CMDQ_PARAM_TE_FLOAT16,     CMDQ_PARAM_TE_FLOAT32,    CMDQ_PARAM_VE_OPS,
                                     CMDQ_PARAM_VE_ACTIVATION8, CMDQ_PARAM_VE_ACTIVATION4};
    for (size_t i = 0; i < TV_COUNTOF(rates); i++) {
        tv_rate rate = tv_config_rate(config, rates[i]);
        uint64_t g = tv_gcd_u64(rate.num, rate.den);
        if (rate.num / g > 1 << 20 || rate.den / g > 1 << 20)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "use few decimals",
                           "%s has a numerator or denominator over 2^20", param_rows[rates[i]].key);
    }
    uint64_t spm =
        tv_config_integer(config, CMDQ_PARAM_SPM_BANKS) * tv_config_integer(config, CMDQ_PARAM_SPM_BANK_BYTES);
    if (spm > UINT64_C(1) << 36)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), NULL,
                       "spm.banks times spm.bank_bytes is more than 64 GiB");
    return TV_OK;
}

static void destroy(void *state)
{
    machine *m = state;
    if (!m)
        return;
    tv_memory_fini(&m->memories.spm);
    tv_memory_fini(&m->memories.dram);
    for (unsigned i = 0; i < CMDQ_SCRATCHES; i++)
        tv_buf_fini(&m->memories.scratch[i]);
    tv_pool_free(m->memories.pool);
    cmdq_deferred_products_free(m->memories.products);
    cmdq_plan_fini(&m->plan);
    tv_fault_record_fini(&m->fault);
    free(m);
}

static tv_status create(const tv_config *config, tv_mode mode, const tv_diag_sink *sink, void **state)
{
    machine *m = calloc(1, sizeof *m);
    if (!m)
        return tv_fail_memory(sink);
    m->config = config;
    m->mode = mode;
    m->memories.level = tv_cpu();
    cmdq_params_init(&m->params, config);
    tv_energy_params energy;
    cmdq_energy_params(config, &energy);
    tv_energy_table_init(&m->params.energy, &energy);
    for (unsigned e = 0; e < m->params.engines; e++)
        m->timing.accounts[e].name = m->params.names[e];
    tv_status status = tv_memory_init(&m->memories.spm, m->params.banks * m->params.bank_bytes, sink);
    if (status == TV_OK)
        status = tv_memory_init(&m->memories.dram, m->params.dram_bytes, sink);
    if (status != TV_OK) {
        destroy(m);
        return status;
    }
    *state = m;
    return TV_OK;
}

static void write_initial_contents(machine *m)
{
    const cmdq_queue *q = cmdq_queue_of(m->program);
    if (q->inits.count)
        cmdq_materialize_loads(&m->memories);
    for (size_t i = 0; i < q->inits.count; i++) {
        const cmdq_init *init = &q->inits.data[i];
        tv_memory *memory = init->spm ? &m->memories.spm : &m->memories.dram;
        uint64_t addr = init->addr + (init->spm ? init->bank * m->params.bank_bytes : 0);
        if (init->bytes)
            tv_memory_write(memory, addr, init->bytes, init->size);
        else
            tv_memory_zero(memory, addr, init->size);
    }
}

/* ---- Running ---- */

/* Simulates the executed entries of the loaded queue, after `timing`. With forward dependencies the executed entries
 * are no prefix of the ids; then those below the lowest id that is left are simulated. */
static void time_executed(const machine *m, const tv_trace_sink *sink, cmdq_timing *timing)
{
    uint32_t count = m->next;
    for (uint32_t i = m->next; m->plan.order && i < m->plan.count; i++)
        count = count < m->plan.order[i] ? count : m->plan.order[i];
    cmdq_time(m->program, &m->params, &m->plan, count, m->base, sink, timing);
}

static void end_queue(machine *m)
{
    if (m->ended || m->mode == TV_MODE_FUNCTIONAL)
        return;
    time_executed(m, m->traced ? &m->sink : NULL, &m->timing);
    m->ended = true;
}

/* ---- Timing beside the execution ---- */

static void simulate_queue(void *state)
{
    machine *m = state;
    cmdq_time(m->program, &m->params, &m->plan, m->plan.count, m->base, NULL, &m->job.timing);
}

/* Queues that take about as long: by the work of their entries, to a power of two. */
static uint64_t duration_kind(const machine *m)
{
    uint64_t work = m->plan.count;
    for (uint32_t i = 0; i < m->plan.count; i++)
        work += m->plan.macs[i] >> 10;
    return 63 - (unsigned)__builtin_clzll(work);
}

/* If nothing of the queue has been executed and no events are recorded, has another thread simulate its timing while
 * it is executed, unless that took longer the last times. */
static void begin_timing(machine *m)
{
    enum { ENTRIES_MIN = 256 };
    m->job.is_measured =
        m->memories.pool && m->mode == TV_MODE_FULL && !m->traced && m->next == 0 && m->plan.count >= ENTRIES_MIN;
    if (!m->job.is_measured)
        return;
    m->job.timing = m->timing;
    m->job.is_begun = tv_pool_begin(m->memories.pool, duration_kind(m), simulate_queue, m);
}

/* Ends that; `executed`: all of the queue, which ends. */
static void end_timing(machine *m, bool executed)
{
    if (executed && !m->job.is_begun)
        end_queue(m);
    if (m->job.is_measured)
        tv_pool_end(m->memories.pool);
    if (executed && m->job.is_begun) {
        m->timing = m->job.timing;
        m->ended = true;
    }
    m->job.is_begun = m->job.is_measured = false;
}

/* Ends the use of the loaded queue. One that is left early keeps the time of its executed entries. */
static void leave_queue(machine *m)
{
    if (m->program)
        end_queue(m);
    cmdq_add_executed(m, &m->actions);
    m->base += m->program ? m->next : 0;
    m->next = 0;
}

static void begin_queue(machine *m)
{
    m->limit_cycles = UINT64_MAX;
    m->ended = false;
    m->fault.raised = false;
    if (m->mode != TV_MODE_TIMING)
        write_initial_contents(m);
}

static tv_status load(void *state, const tv_program *program, const tv_diag_sink *sink)
{
    machine *m = state;
    cmdq_plan plan;
    uint64_t errors = 0;
    TV_TRY(cmdq_plan_init(program, &m->params, sink, &errors, &plan));
    if (m->mode != TV_MODE_FUNCTIONAL && !cmdq_plan_prepare(&plan)) {
        cmdq_plan_fini(&plan);
        return tv_fail_memory(sink);
    }
    leave_queue(m);
    cmdq_plan_fini(&m->plan);
    m->plan = plan;
    m->program = program;
    begin_queue(m);
    return TV_OK;
}

static tv_status reload(void *state, const uint32_t *changed, size_t count, const tv_diag_sink *sink)
{
    machine *m = state;
    leave_queue(m);
    if (!cmdq_plan_update(m->program, &m->params, changed, count, &m->plan))
        return load(m, m->program, sink); /* which reports what is wrong */
    begin_queue(m);
    return TV_OK;
}

/* Executes an entry; raises the fault if it faults. */
static cmdq_outcome execute_entry(machine *m, uint32_t entry)
{
    const cmdq_queue *q = cmdq_queue_of(m->program);
    cmdq_op resolved;
    cmdq_error error;
    const cmdq_op *op = m->plan.ops ? &m->plan.ops[entry] : &resolved;
    if (!m->plan.ops)
        cmdq_resolve_planned(q, &m->params, entry, &resolved);
    cmdq_outcome outcome = cmdq_execute(q, &m->params, &m->memories, entry, op, &error);
    if (outcome == CMDQ_FAULT) {
        tv_buf text = {0};
        cmdq_print_entry(q, entry, &text);
        tv_fault_raise(&m->fault, m->program, entry, tv_buf_cstr_or_null(&text), &cmdq_codes[error.code],
                       error.message);
        tv_buf_fini(&text);
    }
    return outcome;
}

static cmdq_outcome execute_next(machine *m)
{
    uint32_t entry = cmdq_plan_entry(&m->plan, m->next);
    cmdq_outcome outcome = m->mode == TV_MODE_TIMING ? CMDQ_EXECUTED : execute_entry(m, entry);
    if (outcome != CMDQ_EXECUTED)
        return outcome;
    m->macs += m->plan.macs[entry];
    m->bytes[m->plan.bytes[entry] & 1] += m->plan.bytes[entry] >> 1;
    m->role_bytes[m->plan.role[entry]] += m->plan.bytes[entry] >> 1;
    m->next++;
    return CMDQ_EXECUTED;
}

static void collect(void *state, tv_values *values) { ((machine *)state)->memories.values = values; }

static bool has_next(const void *state)
{
    const machine *m = state;
    return m->program && m->next < m->plan.count;
}

static void describe(void *state, const uint64_t *word, tv_commit *commit, const tv_access_sink *sink)
{
    const machine *m = state;
    uint32_t entry = cmdq_plan_entry(&m->plan, m->next);
    cmdq_op op;
    (void)word;
    commit->index = entry;
    commit->insn = cmdq_opcode_name(&cmdq_queue_of(m->program)->entries.data[entry]);
    if (!sink)
        return;
    cmdq_resolve_planned(cmdq_queue_of(m->program), &m->params, entry, &op);
    for (unsigned i = 0; i < op.tile_count; i++) {
        const cmdq_tile *t = &op.tiles[i];
        bool dram = t->bank == CMDQ_NO_BANK;
        tv_access access = {dram ? "dram" : "spm", t->start + (dram ? 0 : t->bank * m->params.bank_bytes), t->bytes,
                            t->writes};
        for (uint64_t row = 0; row < t->rows; row++, access.addr += t->stride)
            sink->emit(sink->user, &access);
    }
}

static void loaded(const void *state, void (*emit)(void *user, const tv_effect *effect), void *user)
{
    const machine *m = state;
    const cmdq_queue *q = cmdq_queue_of(m->program);
    for (size_t i = 0; i < q->inits.count; i++) {
        const cmdq_init *init = &q->inits.data[i];
        uint64_t addr = init->addr + (init->spm ? init->bank * m->params.bank_bytes : 0);
        emit(user, &(tv_effect){init->spm ? "spm" : "dram", addr, 1, init->size, .write = 1, .after = init->bytes});
    }
}

/* *limit: number of entries, in the order of the plan, before the first one that would start at max_cycles or later. */
static tv_status find_limit(machine *m, uint64_t max_cycles, uint32_t *limit)
{
    *limit = max_cycles != UINT64_MAX && max_cycles == m->limit_cycles ? m->limit : m->plan.count;
    if (max_cycles == UINT64_MAX || m->mode == TV_MODE_FUNCTIONAL || max_cycles == m->limit_cycles)
        return TV_OK;
    cmdq_timing timing = m->timing;
    timing.starts = calloc((size_t)m->plan.count + 1, sizeof *timing.starts);
    if (!timing.starts)
        return TV_ERR_MEMORY;
    cmdq_time(m->program, &m->params, &m->plan, m->plan.count, m->base, NULL, &timing);
    uint32_t at = 0;
    timing.starts[m->plan.count - 1] = timing.end; /* END completes with the last of the others */
    while (at < m->plan.count && timing.starts[cmdq_plan_entry(&m->plan, at)] < max_cycles)
        at++;
    free(timing.starts);
    *limit = m->limit = at;
    m->limit_cycles = max_cycles;
    return TV_OK;
}

/* Executes entries up to number `end`. */
static tv_status execute_entries(machine *m, uint64_t end, tv_stop_reason *why)
{
    while (m->next < end) {
        cmdq_outcome outcome = execute_next(m);
        if (outcome == CMDQ_NO_MEMORY)
            return TV_ERR_MEMORY;
        if (outcome == CMDQ_FAULT) {
            *why = TV_STOP_FAULT;
            return tv_fault_status(&m->fault);
        }
    }
    return TV_OK;
}

static tv_status run_entries(machine *m, const tv_run_limits *limits, tv_stop_reason *why)
{
    uint32_t limit;
    *why = TV_STOP_FAULT;
    if (m->fault.raised)
        return tv_fault_status(&m->fault);
    *why = TV_STOP_END;
    if (!m->program)
        return TV_OK;
    TV_TRY(find_limit(m, limits->max_cycles, &limit));
    const uint64_t end = tv_min_u64(limits->until, limit);
    if (end >= m->plan.count)
        begin_timing(m);
    tv_status status = execute_entries(m, tv_min_u64(end, m->plan.count), why);
    cmdq_flush_products(&m->memories);
    const bool executed = status == TV_OK && m->next == m->plan.count;
    end_timing(m, executed);
    if (status == TV_OK && !executed)
        *why = m->next >= limits->until ? TV_STOP_UNTIL : TV_STOP_CYCLES;
    return status;
}

static tv_status run(void *state, const tv_run_limits *limits, tv_stop_reason *why)
{
    machine *m = state;
    tv_status status = run_entries(m, limits, why);
    if (m->dram_is_mapped)
        cmdq_materialize_loads(&m->memories);
    return status;
}

static uint64_t next(const void *state) { return ((const machine *)state)->next; }

static const tv_fault *fault(const void *state)
{
    const machine *m = state;
    return m->fault.raised ? &m->fault.fault : NULL;
}

/* ---- Address spaces ---- */

enum { SPACE_SPM, SPACE_DRAM, SPACES };

static int space_at(const void *state, unsigned i, tv_space *out)
{
    const machine *m = state;
    const tv_space spaces[SPACES] = {
        {"spm", 1, m->memories.spm.size, "scratchpad memory, by bank and byte", m->params.bank_bytes, TV_S8, NULL, 0},
        {"dram", 1, m->memories.dram.size, "DRAM, by byte", 0, TV_HEX8, NULL, 0},
    };
    if (i >= SPACES)
        return 0;
    *out = spaces[i];
    return 1;
}

static tv_memory *mappable_memory(void *state, unsigned space)
{
    machine *m = state;
    cmdq_materialize_loads(&m->memories);
    m->dram_is_mapped = m->dram_is_mapped || space == SPACE_DRAM;
    return space == SPACE_DRAM ? &m->memories.dram : NULL;
}

static void read_space(void *state, unsigned space, uint64_t byte, void *data, size_t bytes)
{
    machine *m = state;
    if (space == SPACE_SPM)
        cmdq_materialize_loads(&m->memories);
    memcpy(data, (space == SPACE_SPM ? &m->memories.spm : &m->memories.dram)->bytes + byte, bytes);
}

static void write_space(void *state, unsigned space, uint64_t byte, const void *data, size_t bytes)
{
    machine *m = state;
    if (space == SPACE_SPM)
        cmdq_materialize_loads(&m->memories);
    else
        cmdq_prepare_dram_write(&m->memories, byte, bytes);
    tv_memory_write(space == SPACE_SPM ? &m->memories.spm : &m->memories.dram, byte, data, bytes);
}

/* ---- Statistics and traces ---- */

static void stats(const void *state, tv_stats *out)
{
    const machine *m = state;
    cmdq_timing timing = m->timing; /* as if the run ended here */
    bool timed = m->mode != TV_MODE_FUNCTIONAL;
    if (timed && !m->ended && m->program)
        time_executed(m, NULL, &timing);
    tv_stats_set_time(out, timed ? timing.end : 0, tv_config_integer(m->config, CMDQ_PARAM_CORE_HZ));
    tv_stats_set_engines(out, timing.accounts, m->params.engines, cmdq_stall_reason_names, CMDQ_STALL_REASONS);
    tv_stats_add_path(out, "dram read", m->bytes[0], m->params.reachable, m->params.limited_by);
    tv_stats_add_path(out, "dram write", m->bytes[1], m->params.reachable, m->params.limited_by);
    for (unsigned r = 0; r < CMDQ_ALL_ROLES; r++) {
        tv_role_stats role = {cmdq_role_names[r], m->role_bytes[r], timed ? timing.role_busy[r] : 0,
                              timed ? timing.role_stalled[r] : 0};
        if (role.bytes || role.busy || role.stalled)
            out->roles[out->role_count++] = role;
    }
    out->instructions = m->base + m->next;
    out->macs = m->macs;
    out->peak_macs = (double)m->params.count[CMDQ_TE] * (double)m->params.te_base;
    tv_bottleneck bottleneck = {.cycles = (double)out->cycles};
    for (unsigned e = 0; e < out->engine_count; e++)
        tv_bottleneck_add(&bottleneck, out->engines[e].name,
                          e < m->params.count[CMDQ_DMA] ? m->params.limited_by : NULL, (double)out->engines[e].busy);
    tv_bottleneck_classify(&bottleneck, TV_NO_SCHEDULER, out);
}

static void trace(void *state, const tv_trace_sink *sink)
{
    machine *m = state;
    if (m->traced && !m->ended && m->program && m->next) { /* report entries in flight as if the run ended here */
        cmdq_timing timing = m->timing;
        time_executed(m, &m->sink, &timing);
    }
    m->traced = sink != NULL;
    m->sink = sink ? *sink : (tv_trace_sink){0};
}

static void set_threads(void *state, unsigned threads)
{
    machine *m = state;
    tv_pool_free(m->memories.pool);
    cmdq_deferred_products_free(m->memories.products);
    m->memories.pool = tv_pool_new(threads);
    m->memories.products = m->memories.pool ? cmdq_deferred_products_new() : NULL;
}

/* The last entry, END, has executed when the queue is timed: its completion precedes its record. */
static void cycles(const void *state, tv_commit *commit)
{
    const machine *m = state;
    if (m->ended && m->next == m->plan.count)
        commit->issue = commit->start = commit->end = m->timing.end;
}

static uint64_t clock_now(const void *state)
{
    tv_stats now = {.size = sizeof now};
    stats(state, &now);
    return now.cycles;
}

static uint64_t entry_at(const void *state, uint64_t n)
{
    const machine *m = state;
    return cmdq_plan_entry(&m->plan, (uint32_t)n);
}

const tv_target tv_target_cmdq = {
    .name = "cmdq",
    .isa = &tv_isa_cmdq,
    .schema = &cmdq_schema,
    .recognise = cmdq_recognise,
    .read = cmdq_read,
    .validate = validate,
    .create = create,
    .destroy = destroy,
    .load = load,
    .reload = reload,
    .run = run,
    .next = next,
    .fault = fault,
    .space_at = space_at,
    .memory = mappable_memory,
    .accepts = cmdq_accepts,
    .read_space = read_space,
    .write_space = write_space,
    .stats = stats,
    .actions = cmdq_get_actions,
    .energy_params = cmdq_energy_params,
    .threads = set_threads,
    .trace = trace,
    .clock = clock_now,
    .cycles = cycles,
    .has_next = has_next,
    .describe = describe,
    .collect = collect,
    .loaded = loaded,
    .order = entry_at,
    .state_at = cmdq_state_at,
    .visit_state = cmdq_visit_state,
    .hazards = cmdq_hazards,
    .dataflow = cmdq_dataflow,
    .check = cmdq_check,
    .implied = cmdq_implied,
};
