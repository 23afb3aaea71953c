/* SPDX-License-Identifier: Apache-2.0 */
/* The pccx machine as a target: construction, loading, the instruction loop, faults, tracing.
 *
 * A step resolves the instruction to an operation (resolve.c), executes it (matrix.c, copy.c, cvo.c), times it
 * (timing.c) and then commits the control state (control.c). A fault of any stage leaves the state before the
 * instruction. A functional run skips timing, a timing-only run skips execution; neither changes what the other
 * computes. The positions of weight streams and FIFOs are control state: they advance at commit, in program order. */
#include "machine/pccx/resolver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine/pccx/actions.h"
#include "machine/pccx/params.h"

static const tv_param params[PCCX_PARAM_COUNT] = {
#define TV_PARAM(id, key_, type_, unit_, default_, min_, max_, meaning_)                                               \
    {key_, TV_PARAM_##type_, unit_, default_, min_, max_, meaning_},
#include "machine/pccx/params.def"
#undef TV_PARAM
};

const tv_schema pccx_schema = {"pccx", &tv_target_pccx, params, PCCX_PARAM_COUNT};

/* ---- Creating and loading ---- */

static void destroy(void *state)
{
    pccx_machine *m = state;
    if (!m)
        return;
    tv_codec_free(m->codec);
    pccx_control_fini(&m->control);
    tv_memory_fini(&m->l2);
    tv_memory_fini(&m->host);
    for (unsigned i = 0; i < PCCX_FIFOS; i++)
        free(m->fifos[i].ring);
    tv_buf_fini(&m->scratch);
    tv_pool_free(m->pool);
    tv_buf_fini(&m->commands);
    free(m->stat.ring);
    pccx_times_free(m->times);
    pccx_memo_free(m->memo);
    tv_fault_record_fini(&m->fault);
    free(m);
}

static tv_status validate(const tv_config *config, const tv_diag_sink *sink)
{
    pccx_timing timing;
    if (pccx_timing_init(&timing, config))
        return TV_OK;
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "use rates with few decimals",
                   "the rates of streams, ACP and memory have no common unit");
}

static tv_status create(const tv_config *config, tv_mode mode, const tv_diag_sink *sink, void **state)
{
    pccx_machine *m = aligned_alloc(_Alignof(pccx_machine), sizeof *m);
    if (!m)
        return tv_fail_memory(sink);
    memset(m, 0, sizeof *m);
    m->config = config;
    m->mode = mode;
    m->level = tv_cpu();
    m->quantize = tv_quantize_bf16(m->level);
    m->multiply = tv_gemm_s4s8(m->level);
    m->multiply_rows = tv_gemv_scaled(m->level);
    pccx_control_init(&m->control, config);
    tv_status status = tv_codec_new_for(&tv_isa_pccx, sink, &m->codec);
    pccx_timing_init(&m->timing, config);
    if (status == TV_OK)
        status = tv_memory_init(&m->l2, tv_config_integer(config, PCCX_PARAM_L2_WORDS) * PCCX_WORD_BYTES, sink);
    if (status == TV_OK)
        status = tv_memory_init(&m->host, m->control.host_bytes, sink);
    for (unsigned i = 0; i < PCCX_FIFOS && status == TV_OK; i++) {
        m->fifos[i].ring = calloc(m->control.fifo_elements, sizeof *m->fifos[i].ring);
        if (!m->fifos[i].ring)
            status = tv_fail_memory(sink);
    }
    m->stat.depth = (uint32_t)tv_config_integer(config, PCCX_PARAM_STAT_DEPTH);
    m->stat.ring = calloc(m->stat.depth, sizeof *m->stat.ring);
    if (status == TV_OK && !m->stat.ring)
        status = tv_fail_memory(sink);
    tv_energy_params energy;
    pccx_energy_params(config, &energy);
    tv_energy_table_init(&m->energy, &energy);
    m->timing.energy = &m->energy;
    m->timing.completed = pccx_window_complete;
    m->timing.completed_user = m;
    if (status != TV_OK) {
        destroy(m);
        return status;
    }
    *state = m;
    return TV_OK;
}

/* Descriptors are not checked against host memory: an instruction that takes weights past its end faults. */
static tv_status load(void *state, const tv_program *program, const tv_diag_sink *sink)
{
    pccx_machine *m = state;
    tv_segment segment;
    uint64_t bytes[PCCX_STREAMS] = {0};
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        for (uint64_t i = 0; i < program->descriptor_count[k]; i++) {
            uint64_t n = program->descriptors[k][i].bytes;
            if (n >> 48)
                return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_RANGE), "a descriptor has less than 2^48 bytes",
                               "a descriptor of the %s stream has %" PRIu64 " bytes", tv_isa_pccx.streams[k], n);
            bytes[k] += n;
        }
    for (uint64_t i = 0; tv_program_segment_at(program, i, &segment); i++)
        if (!tv_memory_contains(&m->host, segment.addr, segment.size))
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_RANGE),
                           "make host.bytes larger with -D, or move the data with .org",
                           "the program's data at host[0x%" PRIx64 "] of %" PRIu64 " bytes runs past host memory",
                           segment.addr, segment.size);
    pccx_timing_drain(&m->timing);
    if (!pccx_control_append(&m->control, program))
        return tv_fail_memory(sink);
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        if (program->descriptor_count[k])
            pccx_timing_append(&m->timing, k, bytes[k], m->timing.latest_end);
    for (uint64_t i = 0; tv_program_segment_at(program, i, &segment); i++) {
        if (segment.bytes)
            tv_memory_write(&m->host, segment.addr, segment.bytes, segment.size);
        else
            tv_memory_zero(&m->host, segment.addr, segment.size);
    }
    pccx_timing_begin(&m->timing);
    if (m->instructions && !m->memo)
        m->memo = pccx_memo_new();
    m->program = program;
    m->next = 0;
    m->count = tv_program_instruction_count(program);
    m->commands.len = 0;
    m->commands_done = 0;
    m->status = 0;
    m->timing.emitter.program = program;
    m->timing.emitter.index_base = m->instructions;
    m->fault.raised = false;
    return TV_OK;
}

/* ---- The instruction loop ---- */

static void raise_fault(pccx_machine *m, uint64_t word, int row, const tv_code *code, const char *message)
{
    const tv_program *program = m->next < m->count ? m->program : NULL; /* NULL: a command of the host */
    tv_fault_raise_word(&m->fault, &tv_isa_pccx, program, m->next, word, row, code, message);
    m->status |= TV_WINDOW_ERROR;
}

static void raise_illegal(pccx_machine *m, uint64_t word, const tv_illegal *illegal)
{
    char storage[TV_CODEC_TEXT];
    tv_buf text = TV_BUF_FIXED(storage);
    tv_isa_print_illegal(&tv_isa_pccx, illegal, &text);
    raise_fault(m, word, -1, illegal->code, tv_buf_cstr_or_null(&text));
    tv_buf_fini(&text);
}

/* What executing one instruction came to; after anything but DONE nothing has changed. TOO_LATE: it would issue at the
 * cycle limit or later. */
typedef enum outcome { DONE, FAULTED, TOO_LATE, NO_MEMORY } outcome;

/* `timed_apart`: cycles and counters are another thread's. */
static outcome execute_word(pccx_machine *m, uint64_t word, uint64_t max_cycles, bool timed_apart)
{
    tv_illegal illegal;
    pccx_rejection why; /* the buffer of its message is left uninitialized, because clearing it costs time */
    pccx_op op;
    bool timed = m->mode != TV_MODE_FUNCTIONAL && !timed_apart;
    why.code_only = why.out_of_memory = false;
    why.message[0] = '\0';
    if (timed && max_cycles != UINT64_MAX && pccx_timing_earliest(&m->timing) >= max_cycles)
        return TOO_LATE; /* before decoding, because faults are raised at issue */
    int row = tv_codec_row(m->codec, word, &illegal);
    if (row < 0) {
        raise_illegal(m, word, &illegal);
        return FAULTED;
    }
    if (!pccx_resolve(&m->control, (unsigned)row, word, &op, &why)) {
        raise_fault(m, word, row, &pccx_codes[why.code], why.message);
        return FAULTED;
    }
    if (timed && max_cycles != UINT64_MAX &&
        pccx_timing_preview(&m->timing, &op, (int64_t)m->instructions) >= max_cycles)
        return TOO_LATE;
    if (m->mode != TV_MODE_TIMING && !op.handler->execute(m, &op, &why)) {
        if (why.out_of_memory)
            return NO_MEMORY;
        raise_fault(m, word, row, &pccx_codes[why.code], why.message);
        return FAULTED;
    }
    if (timed)
        pccx_time_op(m->memo, &m->control, &m->timing, &m->counters, &op, m->instructions);
    else if (!timed_apart)
        pccx_count_work(&m->counters, &op);
    pccx_control_commit(&m->control, &op);
    m->instructions++;
    return DONE;
}

/* Executes up to instruction `end`. */
static outcome execute_words(pccx_machine *m, uint64_t end, uint64_t max_cycles, bool timed_apart)
{
    for (; m->next < end; m->next++) {
        outcome result = execute_word(m, pccx_word_at(m, m->next), max_cycles, timed_apart);
        if (result != DONE)
            return result;
    }
    return DONE;
}

/* Executes the program from its operations, which the memo has. */
static outcome execute_known(pccx_machine *m, const pccx_memo_entry *known)
{
    pccx_rejection why;
    pccx_op op;
    why.code_only = why.out_of_memory = false;
    for (; m->mode != TV_MODE_TIMING && m->next < m->count; m->next++, m->instructions++) {
        pccx_memo_op(m, known, m->next, &op);
        uint64_t shared = pccx_execute_products(m, known, m->next, &op);
        if (shared) {
            m->next += shared - 1;
            m->instructions += shared - 1;
            continue;
        }
        why.message[0] = '\0';
        if (op.handler->execute(m, &op, &why))
            continue;
        if (why.out_of_memory)
            return NO_MEMORY;
        raise_fault(m, op.word, op.row, &pccx_codes[why.code], why.message);
        return FAULTED;
    }
    m->instructions += m->count - m->next;
    m->next = m->count;
    return DONE;
}

/* Completes what is in flight, after the last instruction or a fault. */
static tv_status end_run(pccx_machine *m)
{
    pccx_timing_drain(&m->timing);
    m->ended = true;
    pccx_memo_end(m, !m->fault.raised);
    if (m->next == pccx_pending_end(m)) { /* commands that have run are not needed any more */
        m->commands_done += m->commands.len / 8;
        m->commands.len = 0;
    }
    m->status &= ~(uint32_t)TV_WINDOW_BUSY;
    m->status |= m->fault.raised ? 0 : TV_WINDOW_DONE;
    return m->fault.raised ? tv_fault_status(&m->fault) : TV_OK;
}

static tv_status run(void *state, const tv_run_limits *limits, tv_stop_reason *why)
{
    pccx_machine *m = state;
    *why = TV_STOP_FAULT;
    if (m->fault.raised)
        return tv_fault_status(&m->fault);
    if (m->ended && m->next < pccx_pending_end(m)) /* the host has written more commands */
        pccx_timing_begin(&m->timing);
    m->ended = false;
    m->status = (m->status & ~(uint32_t)TV_WINDOW_DONE) | TV_WINDOW_BUSY;
    uint64_t end = tv_max_u64(m->next, tv_min_u64(pccx_pending_end(m), limits->until));
    pccx_times_plan plan = pccx_times_begin(m, end, limits->max_cycles);
    outcome result = plan == PCCX_TIMES_MEMO ? execute_known(m, pccx_times_known(m))
                                             : execute_words(m, end, limits->max_cycles, plan == PCCX_TIMES_THREAD);
    pccx_times_end(m, plan);
    if (result == DONE && m->next == pccx_pending_end(m)) {
        *why = TV_STOP_END;
        return end_run(m);
    }
    if (result == FAULTED)
        return end_run(m);
    pccx_memo_end(m, false);
    *why = result == TOO_LATE ? TV_STOP_CYCLES : TV_STOP_UNTIL;
    return result == NO_MEMORY ? TV_ERR_MEMORY : TV_OK;
}

/* Drops what is left of the loaded program. */
static void unload(pccx_machine *m)
{
    pccx_timing_drain(&m->timing);
    pccx_timing_begin(&m->timing);
    m->program = m->timing.emitter.program = NULL;
    m->next = m->count = m->commands_done = 0;
}

static tv_status execute(void *state, uint64_t word)
{
    pccx_machine *m = state;
    uint32_t status = m->status; /* of the driver's window, which the word does not come from */
    if (m->commands.len)
        return TV_ERR_INPUT;
    if (m->program || m->next)
        unload(m);
    else if (m->ended)
        pccx_timing_begin(&m->timing);
    m->ended = m->fault.raised = false;
    m->fault.without_text = true;
    outcome result = execute_word(m, word, UINT64_MAX, false);
    m->fault.without_text = false;
    m->status = status;
    if (result == NO_MEMORY)
        return TV_ERR_MEMORY;
    return result == DONE ? TV_OK : tv_fault_status(&m->fault);
}

static tv_status advance(void *state, uint64_t cycle)
{
    pccx_machine *m = state;
    if (m->mode == TV_MODE_FUNCTIONAL || cycle > TV_CYCLE_MAX || (!m->fault.raised && m->next < pccx_pending_end(m)))
        return TV_ERR_INPUT;
    pccx_timing_advance(&m->timing, cycle);
    m->ended = true;
    return TV_OK;
}

static void clear_fault(void *state) { ((pccx_machine *)state)->fault.raised = false; }

static uint64_t next(const void *state) { return ((const pccx_machine *)state)->next; }

static const tv_fault *fault(const void *state)
{
    const pccx_machine *m = state;
    return m->fault.raised ? &m->fault.fault : NULL;
}

/* ---- Trace ---- */

static void trace(void *state, const tv_trace_sink *sink)
{
    pccx_machine *m = state;
    if (tv_is_traced(&m->timing.emitter)) { /* instructions in flight are reported as if the run ended here */
        pccx_timing ending = m->timing;
        ending.completed = NULL;
        pccx_timing_drain(&ending);
    }
    m->sink = sink ? *sink : (tv_trace_sink){0};
    m->timing.emitter.sink = sink ? &m->sink : NULL;
}

static void set_threads(void *state, unsigned threads)
{
    pccx_machine *m = state;
    tv_pool_free(m->pool);
    m->pool = tv_pool_new(threads);
}

static tv_pool *get_pool(void *state) { return ((pccx_machine *)state)->pool; }

static uint64_t clock_now(const void *state)
{
    const pccx_machine *m = state;
    return m->ended ? m->timing.latest_end : m->timing.head;
}

static void report_access(const tv_access_sink *sink, const char *space, uint64_t addr, uint64_t bytes, bool write)
{
    sink->emit(sink->user, &(tv_access){space, addr, bytes, write});
}

/* What an instruction pushes to a FIFO is written after its contents. */
static uint64_t first_unit(const pccx_machine *m, const pccx_range *r)
{
    if (r->write && r->storage == PCCX_STORAGE_FIFO_TO_SFU)
        return m->control.fifo_count[PCCX_FIFO_TO_SFU];
    if (r->write && r->storage == PCCX_STORAGE_FIFO_TO_GEMV)
        return m->control.fifo_count[PCCX_FIFO_TO_GEMV];
    return r->from;
}

static void report_ranges(const pccx_machine *m, const pccx_op *op, const tv_access_sink *sink)
{
    static const struct {
        const char *space;
        unsigned unit_bytes;
    } storages[PCCX_STORAGES] = {
        [PCCX_STORAGE_L2] = {"l2", PCCX_WORD_BYTES},
        [PCCX_STORAGE_HOST] = {"host", 1},
        [PCCX_STORAGE_EMAX] = {"emax", 2},
        [PCCX_STORAGE_FIFO_TO_SFU] = {"fifo_to_sfu", 2},
        [PCCX_STORAGE_FIFO_TO_GEMV] = {"fifo_to_gemv", 2},
    };
    for (unsigned i = 0; i < op->range_count; i++) {
        const pccx_range *r = &op->ranges[i];
        report_access(sink, storages[r->storage].space, first_unit(m, r),
                      (r->to - r->from) * storages[r->storage].unit_bytes, r->write);
    }
}

static void report_constants(const pccx_op *op, const tv_access_sink *sink)
{
    for (unsigned i = 0; i < op->constant_count; i++)
        report_access(sink, "const", (uint64_t)op->constants[i].bank * PCCX_CACHE_ENTRIES + op->constants[i].entry,
                      PCCX_ENTRY_BYTES, op->constants[i].write);
}

/* The host ranges that the weight descriptors name. */
static void report_weights(const pccx_op *op, const tv_access_sink *sink)
{
    uint64_t left = op->stream_bytes, offset = op->weights_offset;
    for (const tv_descriptor *d = op->weights; left; d++, offset = 0) {
        uint64_t chunk = pccx_weights_chunk(d, offset, left);
        if (chunk)
            report_access(sink, "host", d->addr + offset, chunk, false);
        left -= chunk;
    }
}

static void collect(void *state, tv_values *values) { ((pccx_machine *)state)->values = values; }

static bool has_next(const void *state)
{
    const pccx_machine *m = state;
    return m->next < pccx_pending_end(m);
}

static void describe(void *state, const uint64_t *word, tv_commit *commit, const tv_access_sink *sink)
{
    const pccx_machine *m = state;
    bool in_program = m->next < m->count;
    tv_illegal illegal;
    pccx_rejection why;
    pccx_op op;
    why.code_only = true;
    commit->word = word ? *word : pccx_word_at(m, m->next);
    commit->origin = word ? TV_ORIGIN_EXECUTE : in_program ? TV_ORIGIN_PROGRAM : TV_ORIGIN_WINDOW;
    commit->index = in_program ? m->next : m->next - m->count;
    int row = tv_codec_row(m->codec, commit->word, &illegal);
    if (row < 0)
        return;
    commit->insn = tv_isa_pccx.insns[row].id;
    if (!pccx_resolve(&m->control, (unsigned)row, commit->word, &op, &why))
        return;
    commit->asynchronous = op.asynchronous;
    if (!sink)
        return;
    report_ranges(m, &op, sink);
    report_constants(&op, sink);
    report_weights(&op, sink);
}

static void cycles(const void *state, tv_commit *commit)
{
    const pccx_machine *m = state;
    commit->issue = commit->start = m->timing.head - 1;
    commit->end = m->timing.head;
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++) {
        const pccx_slot *slot = &m->timing.slots[e];
        if (slot->used && slot->index == (int64_t)m->instructions - 1)
            commit->end = slot->end_known ? slot->end : TV_CYCLE_UNKNOWN;
    }
}

static void loaded(const void *state, void (*emit)(void *user, const tv_effect *effect), void *user)
{
    const pccx_machine *m = state;
    tv_segment s;
    for (uint64_t i = 0; tv_program_segment_at(m->program, i, &s); i++)
        emit(user, &(tv_effect){"host", s.addr, 1, s.size, .write = 1, .after = s.bytes});
}

const tv_target tv_target_pccx = {
    .name = "pccx",
    .isa = &tv_isa_pccx,
    .schema = &pccx_schema,
    .validate = validate,
    .create = create,
    .destroy = destroy,
    .load = load,
    .run = run,
    .next = next,
    .fault = fault,
    .space_at = pccx_space_at,
    .memory = pccx_memory_of,
    .read_space = pccx_read_space,
    .write_space = pccx_write_space,
    .stats = pccx_stats,
    .actions = pccx_actions,
    .energy_params = pccx_energy_params,
    .threads = set_threads,
    .pool = get_pool,
    .trace = trace,
    .clock = clock_now,
    .advance = advance,
    .has_next = has_next,
    .describe = describe,
    .cycles = cycles,
    .execute = execute,
    .clear_fault = clear_fault,
    .collect = collect,
    .window = "mmio",
    .window_register = TV_WINDOW_REGISTER,
    .loaded = loaded,
    .state_at = pccx_state_at,
    .visit_state = pccx_visit_state,
    .hazards = pccx_hazards,
    .check = pccx_check,
    .accepts = pccx_accepts,
};
