/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenNPU machine as a target: creation, loading, the instruction loop, faults, address spaces, statistics.
 *
 * There are two loops. run_traced steps one instruction at a time, emits events and respects a limit of ticks.
 * run_fast, used when nothing observes the run, keeps the position in a register and leaves the loop only for a fault
 * or the end; it executes loops of mma and loads as blocks (block.h). Both leave the same registers, memory, ticks and
 * statistics, and so does run_fast with ticks that another thread finds (times.c).
 *
 * Registers are stored as byte planes or as 32-bit lanes (registers.h), and products of MMA are pending until something
 * reads their columns of ACC. Address spaces convert and flush; snapshots keep what there is. */
#include "machine/opennpu/issue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/clones.h"
#include "machine/opennpu/block_times.h"
#include "machine/opennpu/blocks.h"
#include "machine/opennpu/decode_cache.h"
#include "machine/opennpu/extension.h"
#include "machine/opennpu/inline.h"
#include "machine/opennpu/params.h"
#include "machine/opennpu/registers.h"
#include "machine/opennpu/times.h"
#include "sim/bottleneck.h"
#include "sim/stats.h"

static const tv_param params[OPENNPU_PARAM_COUNT] = {
#define TV_PARAM(id, key_, type_, unit_, fallback_, min_, max_, meaning_)                                              \
    {key_, TV_PARAM_##type_, unit_, fallback_, min_, max_, meaning_},
#include "machine/opennpu/params.def"
#undef TV_PARAM
};

const tv_schema opennpu_schema = {"opennpu", &tv_target_opennpu, params, OPENNPU_PARAM_COUNT};

/* ---- Creation and loading ---- */

static void destroy(void *state)
{
    opennpu_machine *m = state;
    if (!m)
        return;
    tv_codec_free(m->codec);
    opennpu_opcodes_fini(&m->opcodes);
    tv_pool_free(m->pool);
    opennpu_times_free(m->times);
    opennpu_blocks_free(m->blocks);
    free(m->registers);
    free(m->executed);
    free(m->acc);
    free(m->pending_a);
    free(m->pending_b);
    tv_memory_fini(&m->memory);
    tv_fault_record_fini(&m->fault);
    free(m);
}

static tv_status validate(const tv_config *config, const tv_diag_sink *sink)
{
    uint64_t k = tv_config_integer(config, OPENNPU_PARAM_K), l = tv_config_integer(config, OPENNPU_PARAM_L);
    if (k & (k - 1))
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "4, 8, 16, 32 or 64",
                       "vector.k = %" PRIu64 " is not a power of two", k);
    if (l % 4)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "4, 8, … 32",
                       "vector.l = %" PRIu64 " is not a multiple of 4", l);
    return TV_OK;
}

/* Sets the parts that depend on K and L. False: out of memory. */
static bool allocate_storage(opennpu_machine *m)
{
    const size_t k = m->k, register_bytes = m->l * k, acc_bytes = k * k * sizeof *m->acc;
    m->registers = aligned_alloc(64, (register_bytes + 63) / 64 * 64);
    m->acc = aligned_alloc(64, acc_bytes);
    m->pending_a = aligned_alloc(64, k * OPENNPU_PENDING_MAX);
    m->pending_b = aligned_alloc(64, k * OPENNPU_PENDING_MAX);
    if (!m->registers || !m->acc || !m->pending_a || !m->pending_b)
        return false;
    memset(m->registers, 0, register_bytes);
    memset(m->acc, 0, acc_bytes);
    m->drained.end = m->others.first = m->others.end = m->k;
    m->blocks = opennpu_blocks_new();
    return true;
}

static void select_simd(opennpu_machine *m)
{
    m->level = tv_cpu();
    m->simd.outer = tv_outer_s8(m->level);
    if (m->k != TV_LANE_COUNT)
        return;
    m->simd.to_planes = tv_lanes_find(m->level, TV_LANE_TO_PLANES, 0);
    m->simd.to_lanes = tv_lanes_find(m->level, TV_LANE_TO_LANES, 0);
    m->simd.deinterleave = tv_lanes_find(m->level, TV_LANE_DEINTERLEAVE, 0);
    m->simd.interleave = tv_lanes_find(m->level, TV_LANE_INTERLEAVE, 0);
    m->simd.lookup = tv_lanes_find(m->level, TV_LANE_LOOKUP, 0);
}

static tv_status init_machine(opennpu_machine *m, const tv_config *config, tv_mode mode, const tv_diag_sink *sink)
{
    m->config = config;
    m->mode = mode;
    m->k = (uint32_t)tv_config_integer(config, OPENNPU_PARAM_K);
    m->l = (uint32_t)tv_config_integer(config, OPENNPU_PARAM_L);
    select_simd(m);
    if (!allocate_storage(m))
        return tv_fail_memory(sink);
    tv_status status = opennpu_opcodes_init(&m->opcodes, config, sink);
    if (status == TV_OK)
        status = tv_codec_new_for(&tv_isa_opennpu, sink, &m->codec);
    if (status == TV_OK)
        status = tv_memory_init(&m->memory, tv_config_integer(config, OPENNPU_PARAM_MEM_BYTES), sink);
    if (status == TV_OK && !(m->executed = calloc((size_t)m->opcodes.count * OPENNPU_PROFILES, sizeof *m->executed)))
        status = tv_fail_memory(sink);
    if (status != TV_OK)
        return status;
    opennpu_timing_init(&m->timing, &m->opcodes, config);
    opennpu_decode_cache_init(m, &m->decode_cache);
    return TV_OK;
}

static tv_status create(const tv_config *config, tv_mode mode, const tv_diag_sink *sink, void **state)
{
    opennpu_machine *m = aligned_alloc(_Alignof(opennpu_machine), sizeof *m);
    if (m)
        memset(m, 0, sizeof *m);
    tv_status status = m ? init_machine(m, config, mode, sink) : tv_fail_memory(sink);
    if (status == TV_OK)
        *state = m;
    else
        destroy(m);
    return status;
}

static tv_status load(void *state, const tv_program *program, const tv_diag_sink *sink)
{
    opennpu_machine *m = state;
    tv_segment segment;
    for (uint64_t i = 0; tv_program_segment_at(program, i, &segment); i++)
        if (!tv_memory_contains(&m->memory, segment.addr, segment.size))
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_RANGE),
                           "make mem.bytes larger with -D, or move the data with .org",
                           "the program's data at mem[0x%" PRIx64 "] of %" PRIu64 " bytes runs past data memory",
                           segment.addr, segment.size);
    for (uint64_t i = 0; tv_program_segment_at(program, i, &segment); i++) {
        if (segment.bytes)
            memcpy(m->memory.bytes + segment.addr, segment.bytes, segment.size);
        else
            tv_memory_zero(&m->memory, segment.addr, segment.size);
    }
    if (!program->continues)
        opennpu_timing_begin(&m->timing);
    m->program = program;
    m->next = 0;
    m->count = tv_program_instruction_count(program);
    m->timing.emitter.program = program;
    m->timing.emitter.index_base = m->instructions;
    m->fault.raised = false;
    return TV_OK;
}

/* ---- The instruction loop ---- */

static void raise_fault(opennpu_machine *m, uint32_t word, int row, const tv_code *code, const char *message)
{
    tv_fault_raise_word(&m->fault, &tv_isa_opennpu, m->program, m->next, word, row, code, message);
}

static void raise_illegal(opennpu_machine *m, uint32_t word, const opennpu_illegal *illegal)
{
    char storage[TV_CODEC_TEXT];
    tv_buf text = TV_BUF_FIXED(storage);
    opennpu_print_illegal(illegal, m->l, &text);
    raise_fault(m, word, illegal->row, illegal->why.code, tv_buf_cstr_or_null(&text));
    tv_buf_fini(&text);
}

typedef enum outcome { OUTCOME_DONE, OUTCOME_FAULT, OUTCOME_CYCLE_LIMIT } outcome;

/* Decodes `word`, at m->next, through the decode cache. NULL: it is illegal, and the fault is raised. */
static const opennpu_op *decode_word(opennpu_machine *m, uint32_t word)
{
    opennpu_illegal illegal;
    const opennpu_op *op = opennpu_decode_cached(m, &m->decode_cache, word, &illegal);
    if (!op)
        raise_illegal(m, word, &illegal);
    return op;
}

TV_INLINE void call_kernel(opennpu_machine *m, const opennpu_op *op)
{
    if ((m->lane_form ^ op->lane_groups) & op->form_groups)
        opennpu_convert_groups(m, op);
    m->lane_form |= op->result_groups;
    const opennpu_rows *rows = op->rows;
    uint8_t *p = m->registers;
    op->kernel(p + (size_t)rows[OPENNPU_RD].first * TV_LANE_COUNT, p + (size_t)rows[OPENNPU_RS1].first * TV_LANE_COUNT,
               p + (size_t)rows[OPENNPU_RS2].first * TV_LANE_COUNT, p + (size_t)rows[OPENNPU_RS3].first * TV_LANE_COUNT,
               op->imm);
}

static void raise_execution_fault(opennpu_machine *m, const opennpu_op *op, const opennpu_fault *why)
{
    raise_fault(m, op->word, op->insn, &opennpu_codes[why->code], why->message);
}

/* Executes and times one instruction, reporting its events, unless it cannot issue before `max_cycles`. */
static outcome step_traced(opennpu_machine *m, uint32_t word, uint64_t max_cycles)
{
    bool timed = m->mode != TV_MODE_FUNCTIONAL;
    if (timed && m->timing.next_tick >= max_cycles)
        return OUTCOME_CYCLE_LIMIT;
    const opennpu_op *op = decode_word(m, word);
    if (!op)
        return OUTCOME_FAULT;
    if (timed && max_cycles != UINT64_MAX && opennpu_timing_earliest(&m->timing, op) >= max_cycles)
        return OUTCOME_CYCLE_LIMIT;
    opennpu_fault why;
    if (m->mode != TV_MODE_TIMING && !op->execute(m, op, &why)) {
        raise_execution_fault(m, op, &why);
        return OUTCOME_FAULT;
    }
    if (timed)
        opennpu_timing_issue(&m->timing, op, (int64_t)m->instructions);
    m->executed[op->profile]++;
    m->instructions++;
    return OUTCOME_DONE;
}

static uint32_t word_at_next(const opennpu_machine *m) { return tv_load_le32(m->program->text + m->next * 4); }

static outcome run_traced(opennpu_machine *m, uint64_t end, uint64_t max_cycles)
{
    outcome o = OUTCOME_DONE;
    while (m->next < end && o == OUTCOME_DONE) {
        o = step_traced(m, word_at_next(m), max_cycles);
        m->next += o == OUTCOME_DONE;
    }
    return o;
}

static void set_next(opennpu_machine *m, uint64_t next)
{
    m->instructions += next - m->next;
    m->next = next;
}

/* Executes an operation of an engine, a constant where the caller knows it. */
TV_INLINE bool execute_fast(opennpu_machine *m, const opennpu_op *op, opennpu_engine engine, opennpu_fault *why)
{
    if (engine == OPENNPU_ENGINE_MMA && op->is_inline) {
        opennpu_mma(m, op, OPENNPU_K_MAX);
        return true;
    }
    if (engine == OPENNPU_ENGINE_PORT && op->is_inline) {
        const uint32_t addr = opennpu_address(m, op);
        if (tv_memory_contains(&m->memory, addr, op->port_bytes)) {
            opennpu_load_register(m, op->rows[OPENNPU_RD], m->memory.bytes + addr, OPENNPU_K_MAX);
            return true;
        }
    }
    if (engine == OPENNPU_ENGINE_VALU && op->kernel) {
        call_kernel(m, op);
        return true;
    }
    return op->execute(m, op, why);
}

/* Executes and times an operation. */
TV_INLINE bool step_fast(opennpu_machine *m, const opennpu_op *op, opennpu_engine engine, bool executed, bool timed,
                         int64_t index, opennpu_fault *why)
{
    if (executed && !execute_fast(m, op, engine, why))
        return false;
    if (timed)
        opennpu_timing_issue_fast(&m->timing, op, engine, index);
    return true;
}

/* Executes and times the block that begins with instruction `next`. Returns the number of its instructions; 0: there is
 * none, and none is to be looked for in the first *skipped instructions. */
static unsigned run_block(opennpu_machine *m, uint64_t next, uint64_t end, bool executed, bool timed, int64_t index,
                          unsigned *skipped)
{
    opennpu_block *block =
        opennpu_find_block(m, &m->decode_cache, m->blocks, m->program->text + next * 4, end - next, skipped);
    if (!block)
        return 0;
    if (executed && !opennpu_execute_block(m, block)) {
        *skipped = block->count;
        return 0;
    }
    if (timed)
        opennpu_time_block(m, &m->decode_cache, &m->timing, block, index);
    opennpu_count_block(m, block);
    return block->count;
}

/* run_traced without events or a cycle limit. m->next is written only where something reads it: before a fault, and at
 * the end. The engine is decided once for execution and timing, because unpredictable branches are what limits it. */
TV_INLINE outcome run_fast(opennpu_machine *m, uint64_t end, bool executed, bool timed)
{
    const uint8_t *text = m->program->text;
    const uint64_t first = m->next, instruction_base = m->instructions - first;
    uint64_t next = first, block_min = executed && m->k != OPENNPU_K_MAX ? end : next; /* no block begins before it */
    uint64_t in_blocks = 0;
    opennpu_fault why;
    while (next < end) {
        uint32_t word = tv_load_le32(text + next * 4);
        const opennpu_op *op = opennpu_find_decoded(&m->decode_cache, word);
        if (!op) {
            set_next(m, next);
            op = decode_word(m, word);
            if (!op)
                return OUTCOME_FAULT;
        }
        const int64_t index = (int64_t)(instruction_base + next);
        bool done;
        if (op->engine == OPENNPU_ENGINE_VALU) { /* never in a block */
            done = step_fast(m, op, OPENNPU_ENGINE_VALU, executed, timed, index, &why);
        } else if (op->in_block && next >= block_min &&
                   opennpu_may_begin_block(&m->decode_cache, text + next * 4, end - next)) {
            unsigned skipped;
            const unsigned count = run_block(m, next, end, executed, timed, index, &skipped);
            block_min = next + (count ? count : skipped);
            next += count;
            in_blocks += count;
            continue; /* without a block `op` may be invalid */
        } else if (op->engine == OPENNPU_ENGINE_MMA) {
            done = step_fast(m, op, OPENNPU_ENGINE_MMA, executed, timed, index, &why);
        } else if (op->engine == OPENNPU_ENGINE_PORT) {
            done = step_fast(m, op, OPENNPU_ENGINE_PORT, executed, timed, index, &why);
        } else {
            done = step_fast(m, op, OPENNPU_ENGINE_ISSUE, executed, timed, index, &why);
        }
        if (!done) {
            set_next(m, next);
            raise_execution_fault(m, op, &why);
            return OUTCOME_FAULT;
        }
        m->executed[op->profile]++;
        next++;
    }
    m->mostly_blocks = in_blocks > (next - first) / 2;
    set_next(m, next);
    return OUTCOME_DONE;
}

static outcome run_to(opennpu_machine *m, uint64_t end, uint64_t max_cycles)
{
    if (m->timing.emitter.sink || m->values || max_cycles != UINT64_MAX)
        return run_traced(m, end, max_cycles);
    if (m->mode == TV_MODE_TIMING)
        return run_fast(m, end, false, true);
    bool apart = opennpu_times_begin(m, end), untimed = apart || m->mode == TV_MODE_FUNCTIONAL;
    outcome result = untimed ? run_fast(m, end, true, false) : run_fast(m, end, true, true);
    opennpu_times_end(m, apart);
    return result;
}

static tv_status run(void *state, const tv_run_limits *limits, tv_stop_reason *why)
{
    opennpu_machine *m = state;
    *why = TV_STOP_FAULT;
    if (m->fault.raised)
        return tv_fault_status(&m->fault);
    switch (run_to(m, tv_min_u64(m->count, limits->until), limits->max_cycles)) {
    case OUTCOME_FAULT:
        return tv_fault_status(&m->fault);
    case OUTCOME_CYCLE_LIMIT:
        *why = TV_STOP_CYCLES;
        break;
    case OUTCOME_DONE:
        *why = m->next < m->count ? TV_STOP_UNTIL : TV_STOP_END;
        break;
    }
    return TV_OK;
}

static tv_status execute(void *state, uint64_t word)
{
    opennpu_machine *m = state;
    if (m->program) {
        opennpu_timing_begin(&m->timing);
        m->program = m->timing.emitter.program = NULL;
        m->next = m->count = 0;
    }
    m->fault.raised = false;
    m->fault.without_text = true;
    outcome result = step_traced(m, (uint32_t)word, UINT64_MAX);
    m->fault.without_text = false;
    return result == OUTCOME_DONE ? TV_OK : tv_fault_status(&m->fault);
}

static void clear_fault(void *state) { ((opennpu_machine *)state)->fault.raised = false; }

static uint64_t next(const void *state) { return ((const opennpu_machine *)state)->next; }

static const tv_fault *fault(const void *state)
{
    const opennpu_machine *m = state;
    return m->fault.raised ? &m->fault.fault : NULL;
}

/* ---- Accesses ---- */

static void report_access(const tv_access_sink *sink, const char *space, uint64_t addr, uint64_t bytes, bool write)
{
    sink->emit(sink->user, &(tv_access){space, addr, bytes, write});
}

static void report_register_accesses(const opennpu_machine *m, const opennpu_op *op, const tv_access_sink *sink)
{
    static const char *const spaces[] = {[1] = "vx", [2] = "ve", [4] = "vr"};
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++)
        if ((op->reads | op->writes) >> r & 1)
            report_access(sink, spaces[op->rows[r].count], op->rows[r].first / op->rows[r].count,
                          (uint64_t)op->rows[r].count * m->k, op->writes >> r & 1);
}

static void report_accesses(opennpu_machine *m, const opennpu_op *op, const tv_access_sink *sink)
{
    const char *bank = op->effects & OPENNPU_BANK_B ? "lut_b" : "lut_a";
    const uint64_t acc_bytes = (uint64_t)m->k * m->k * 4;
    int64_t first;
    if (op->effects & (OPENNPU_LOADS | OPENNPU_STORES) && !(op->effects & OPENNPU_EXTENSION)) {
        opennpu_transfer t = opennpu_transfer_of(m, op);
        if (!tv_memory_contains(&m->memory, t.addr, t.bytes))
            return;
        report_access(sink, "mem", t.addr, t.bytes, op->effects & OPENNPU_STORES);
    }
    if (op->effects & OPENNPU_EXTENSION)
        opennpu_extension_accesses(m, op, sink);
    report_register_accesses(m, op, sink);
    if (op->effects & OPENNPU_READS_ACC)
        report_access(sink, "acc", 0, acc_bytes, false);
    if (op->effects & OPENNPU_WRITES_ACC)
        report_access(sink, "acc", 0, acc_bytes, true);
    if (op->effects & OPENNPU_READS_LUT)
        report_access(sink, bank, 0, OPENNPU_LUT_ENTRIES, false);
    if (op->effects & OPENNPU_WRITES_LUT && opennpu_segment_in_bank(op, m->k, &first))
        report_access(sink, bank, (uint64_t)first,
                      tv_min_u64(4 * (uint64_t)m->k, OPENNPU_LUT_ENTRIES - (uint64_t)first), true);
}

static void collect(void *state, tv_values *values) { ((opennpu_machine *)state)->values = values; }

static bool has_next(const void *state)
{
    const opennpu_machine *m = state;
    return m->next < m->count;
}

static void describe(void *state, const uint64_t *word, tv_commit *commit, const tv_access_sink *sink)
{
    opennpu_machine *m = state;
    opennpu_op op;
    opennpu_illegal illegal;
    commit->word = word ? (uint32_t)*word : word_at_next(m);
    commit->origin = word ? TV_ORIGIN_EXECUTE : TV_ORIGIN_PROGRAM;
    commit->index = m->next;
    if (!opennpu_decode(m->codec, &m->opcodes, (uint32_t)commit->word, m->l, &op, &illegal))
        return;
    commit->insn = m->opcodes.rows[op.insn].insn->id;
    if (sink)
        report_accesses(m, &op, sink);
}

static void cycles(const void *state, tv_commit *commit)
{
    const opennpu_machine *m = state;
    opennpu_op op;
    opennpu_illegal illegal;
    commit->issue = commit->start = m->timing.next_tick - 1;
    if (opennpu_decode(m->codec, &m->opcodes, (uint32_t)commit->word, m->l, &op, &illegal))
        commit->end = commit->issue + tv_max_u64(op.latency, opennpu_engine_ticks(&op));
}

static void loaded(const void *state, void (*emit)(void *user, const tv_effect *effect), void *user)
{
    const opennpu_machine *m = state;
    tv_segment s;
    for (uint64_t i = 0; tv_program_segment_at(m->program, i, &s); i++)
        emit(user, &(tv_effect){"mem", s.addr, 1, s.size, .write = 1, .after = s.bytes});
}

/* ---- Address spaces ---- */

enum space { SPACE_VX, SPACE_VE, SPACE_VR, SPACE_LUT_A, SPACE_LUT_B, SPACE_ACC, SPACE_MEM, SPACES };

static int space_at(const void *state, unsigned i, tv_space *out)
{
    const opennpu_machine *m = state;
    const tv_space spaces[SPACES] = {
        {"vx", m->k, m->l, "VX registers: K lanes of 8 bit", 0, TV_S8, NULL, 0},
        {"ve", 2 * m->k, m->l / 2, "VE registers: K lanes of 16 bit, little endian", 0, TV_S16, "vx", 0},
        {"vr", 4 * m->k, m->l / 4, "VR registers: K lanes of 32 bit, little endian", 0, TV_S32, "vx", 0},
        {"lut_a", 1, OPENNPU_LUT_ENTRIES, "LUT bank A, by entry", 0, TV_S8, NULL, 0},
        {"lut_b", 1, OPENNPU_LUT_ENTRIES, "LUT bank B, by entry", 0, TV_S8, NULL, 0},
        {"acc", 4, (uint64_t)m->k * m->k, "ACC, by element: row * K + column, 32 bit", 0, TV_S32, NULL, 0},
        {"mem", 1, m->memory.size, "data memory, by byte", 0, TV_HEX8, NULL, 0},
    };
    if (i >= SPACES)
        return 0;
    *out = spaces[i];
    return 1;
}

/* Byte `offset` of the space of the registers of class `class_`, in the byte planes. */
static uint8_t *register_byte(opennpu_machine *m, opennpu_class class_, uint64_t offset)
{
    uint64_t lane_bytes = UINT64_C(1) << class_, reg = offset / (lane_bytes * m->k),
             rest = offset % (lane_bytes * m->k);
    return opennpu_plane(m, (unsigned)(reg * lane_bytes + rest % lane_bytes)) + rest / lane_bytes;
}

/* Byte `offset` of the space of ACC, which is row after row. */
static uint8_t *acc_byte(opennpu_machine *m, uint64_t offset)
{
    uint64_t row = offset / 4 / m->k, column = offset / 4 % m->k;
    return (uint8_t *)(m->acc + column * m->k + row) + offset % 4;
}

/* Byte `offset` of a space. ACC must have no pending products. */
static uint8_t *space_byte(opennpu_machine *m, enum space space, uint64_t offset)
{
    switch (space) {
    case SPACE_VX:
        return register_byte(m, OPENNPU_VX, offset);
    case SPACE_VE:
        return register_byte(m, OPENNPU_VE, offset);
    case SPACE_VR:
        return register_byte(m, OPENNPU_VR, offset);
    case SPACE_LUT_A:
        return m->lut[0] + offset;
    case SPACE_LUT_B:
        return m->lut[1] + offset;
    case SPACE_ACC:
        return acc_byte(m, offset);
    case SPACE_MEM:
        return m->memory.bytes + offset;
    case SPACES:
        break;
    }
    abort(); /* callers pass a space of space_at */
}

static bool is_contiguous(unsigned space) { return space == SPACE_LUT_A || space == SPACE_LUT_B || space == SPACE_MEM; }

static tv_memory *memory_of(void *state, unsigned space)
{
    opennpu_machine *m = state;
    return space == SPACE_MEM ? &m->memory : NULL;
}

static void read_space(void *state, unsigned space, uint64_t byte, void *data, size_t bytes)
{
    opennpu_machine *m = state;
    uint8_t *out = data;
    if (space == SPACE_ACC)
        opennpu_flush_accumulators(m);
    if (is_contiguous(space))
        memcpy(out, space_byte(m, space, byte), bytes);
    else
        for (size_t i = 0; i < bytes; i++)
            out[i] = *space_byte(m, space, byte + i);
}

static void write_space(void *state, unsigned space, uint64_t byte, const void *data, size_t bytes)
{
    opennpu_machine *m = state;
    const uint8_t *in = data;
    if (space == SPACE_ACC)
        opennpu_flush_accumulators(m);
    if (space == SPACE_MEM)
        tv_memory_write(&m->memory, byte, in, bytes);
    else if (is_contiguous(space))
        memcpy(space_byte(m, space, byte), in, bytes);
    else
        for (size_t i = 0; i < bytes; i++)
            *space_byte(m, space, byte + i) = in[i];
}

/* ---- Statistics and traces ---- */

static void stats(const void *state, tv_stats *out)
{
    const opennpu_machine *m = state;
    opennpu_timing timing = m->timing; /* a copy, drained as if the run ended here */
    opennpu_timing_drain(&timing);
    tv_stats_set_time(out, m->mode == TV_MODE_FUNCTIONAL ? 0 : timing.last_completion,
                      tv_config_integer(m->config, OPENNPU_PARAM_CORE_HZ));
    tv_stats_set_engines(out, timing.accounts, OPENNPU_ENGINES, opennpu_stall_reason_names, OPENNPU_STALL_REASONS);
    const opennpu_totals totals = opennpu_totals_of(m);
    tv_stats_add_path(out, "load", totals.bytes[0], m->k, NULL);
    tv_stats_add_path(out, "store", totals.bytes[1], m->k, NULL);
    out->instructions = m->instructions;
    out->macs = totals.macs;
    out->peak_macs = (double)m->k * m->k;
    tv_bottleneck bottleneck = {.cycles = (double)out->cycles};
    tv_bottleneck_add_engines(&bottleneck, out, OPENNPU_ENGINES, NULL);
    tv_bottleneck_classify(&bottleneck, OPENNPU_ENGINE_ISSUE, out);
}

static void trace(void *state, const tv_trace_sink *sink)
{
    opennpu_machine *m = state;
    m->sink = sink ? *sink : (tv_trace_sink){0};
    m->timing.emitter.sink = sink ? &m->sink : NULL;
}

/* There is one job at a time, for which more threads would only be woken. */
static void set_threads(void *state, unsigned threads)
{
    enum { THREADS_MAX = 2 };
    opennpu_machine *m = state;
    tv_pool_free(m->pool);
    m->pool = tv_pool_new(threads < THREADS_MAX ? threads : THREADS_MAX);
}

static uint64_t clock_now(const void *state)
{
    const opennpu_machine *m = state;
    return m->next >= m->count ? tv_max_u64(m->timing.last_completion, m->timing.next_tick) : m->timing.next_tick;
}

const tv_target tv_target_opennpu = {
    .name = "opennpu",
    .isa = &tv_isa_opennpu,
    .schema = &opennpu_schema,
    .validate = validate,
    .create = create,
    .destroy = destroy,
    .load = load,
    .run = run,
    .next = next,
    .fault = fault,
    .space_at = space_at,
    .memory = memory_of,
    .read_space = read_space,
    .write_space = write_space,
    .stats = stats,
    .actions = opennpu_actions,
    .energy_params = opennpu_energy_params,
    .threads = set_threads,
    .trace = trace,
    .clock = clock_now,
    .has_next = has_next,
    .describe = describe,
    .cycles = cycles,
    .execute = execute,
    .compute_lanes = opennpu_compute_lanes,
    .clear_fault = clear_fault,
    .collect = collect,
    .loaded = loaded,
    .state_at = opennpu_state_at,
    .visit_state = opennpu_visit_state,
    .check = opennpu_check,
    .accepts = opennpu_accepts,
};
