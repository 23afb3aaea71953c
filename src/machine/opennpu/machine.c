/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenNPU machine as a target: creating, loading, the instruction loop, faults, address spaces, statistics. */
#include "machine/opennpu/issue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/clones.h"
#include "machine/opennpu/params.h"
#include "sim/bottleneck.h"
#include "sim/stats.h"

static const tv_param params[OPENNPU_PARAM_COUNT] = {
#define TV_PARAM(id, key_, type_, unit_, fallback_, min_, max_, meaning_)                                              \
    {key_, TV_PARAM_##type_, unit_, fallback_, min_, max_, meaning_},
#include "machine/opennpu/params.def"
#undef TV_PARAM
};

const tv_schema opennpu_schema = {"opennpu", &tv_target_opennpu, params, OPENNPU_PARAM_COUNT};

/* ---- Creating and loading ---- */

static void destroy(void *state)
{
    opennpu_machine *m = state;
    if (!m)
        return;
    tv_codec_free(m->codec);
    free(m->planes);
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

/* An empty entry is word 0, a NOP. */
static void forget(const opennpu_machine *m, opennpu_op *op)
{
    *op = (opennpu_op){
        .insn = OPENNPU_NOP, .engine = m->shapes[OPENNPU_NOP].engine, .latency = m->shapes[OPENNPU_NOP].latency};
}

static tv_status create(const tv_config *config, tv_mode mode, const tv_diag_sink *sink, void **state)
{
    uint64_t k = tv_config_integer(config, OPENNPU_PARAM_K), l = tv_config_integer(config, OPENNPU_PARAM_L);
    opennpu_machine *m = calloc(1, sizeof *m);
    if (!m)
        return tv_fail_memory(sink);
    m->config = config;
    m->mode = mode;
    m->k = (uint32_t)k;
    m->l = (uint32_t)l;
    m->planes = aligned_alloc(64, (l * k + 63) / 64 * 64);
    m->level = tv_cpu();
    m->outer = tv_outer_s8(m->level);
    if (k == TV_LANE_COUNT) {
        m->split = tv_lanes_find(m->level, TV_LANE_SPLIT, 0);
        m->join = tv_lanes_find(m->level, TV_LANE_JOIN, 0);
        m->unzip = tv_lanes_find(m->level, TV_LANE_UNZIP, 0);
        m->zip = tv_lanes_find(m->level, TV_LANE_ZIP, 0);
        m->lookup = tv_lanes_find(m->level, TV_LANE_LOOKUP, 0);
    }
    m->acc = aligned_alloc(64, k * k * sizeof *m->acc);
    m->pending_a = calloc(k, TV_OUTER_COUNT_MAX);
    m->pending_b = calloc(k, TV_OUTER_COUNT_MAX);
    opennpu_opcode_info_init(m->shapes, config);
    for (unsigned i = 0; i < OPENNPU_DECODE_CACHE; i++)
        forget(m, &m->decode_cache[i]);
    opennpu_timing_init(&m->timing, m->shapes, config);
    if (m->planes)
        memset(m->planes, 0, l * k);
    if (m->acc)
        memset(m->acc, 0, k * k * sizeof *m->acc);
    tv_status status = m->planes && m->acc && m->pending_a && m->pending_b
                           ? tv_codec_new_for(&tv_isa_opennpu, sink, &m->codec)
                           : tv_fail_memory(sink);
    if (status == TV_OK)
        status = tv_memory_init(&m->memory, tv_config_integer(config, OPENNPU_PARAM_MEM_BYTES), sink);
    if (status != TV_OK) {
        destroy(m);
        return status;
    }
    *state = m;
    return TV_OK;
}

static tv_status load(void *state, const tv_program *program, const tv_diag_sink *sink)
{
    opennpu_machine *m = state;
    tv_segment segment;
    for (uint64_t i = 0; tv_program_segment_at(program, i, &segment); i++)
        if (!tv_memory_holds(&m->memory, segment.addr, segment.size))
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
    tv_buf text = {0};
    opennpu_print_illegal(illegal, m->l, &text);
    raise_fault(m, word, illegal->row, illegal->why.code, tv_buf_cstr(&text));
    tv_buf_fini(&text);
}

TV_INLINE void count_work(opennpu_machine *m, const opennpu_op *op)
{
    if (op->engine == OPENNPU_PORT)
        m->bytes[op->insn >= OPENNPU_ST_B] += op->bytes;
    else if (op->engine == OPENNPU_MMA_ARRAY)
        m->macs += opennpu_macs(op->insn, m->k);
}

typedef enum outcome { DONE, FAULTED, TOO_LATE } outcome;

/* The place of a word among those lately decoded. */
TV_INLINE opennpu_op *place_of(opennpu_machine *m, uint32_t word)
{
    return &m->decode_cache[word * UINT32_C(0x9E3779B1) >> (32 - OPENNPU_DECODE_CACHE_BITS)];
}

/* Decodes the next word. NULL: it faults. */
static const opennpu_op *decode_next(opennpu_machine *m)
{
    uint32_t word = tv_load_le32(m->program->text + m->next * 4);
    opennpu_op *op = place_of(m, word);
    opennpu_illegal illegal;
    if (op->word == word)
        return op;
    if (opennpu_decode(m->codec, m->shapes, word, m->l, op, &illegal)) {
        op->bytes = (uint16_t)opennpu_port_bytes(op->insn, m->k);
        opennpu_find_kernel(m, op);
        return op;
    }
    forget(m, op);
    raise_illegal(m, word, &illegal);
    return NULL;
}

static bool execute_or_raise(opennpu_machine *m, const opennpu_op *op)
{
    opennpu_code code;
    char message[200];
    if (opennpu_execute(m, op, &code, message))
        return true;
    raise_fault(m, op->word, op->insn, &opennpu_codes[code], message);
    return false;
}

TV_INLINE void call_kernel(opennpu_machine *m, const opennpu_op *op)
{
    if ((m->wide & op->planes) | (~(unsigned)m->wide & op->lanes))
        opennpu_convert_groups(m, op);
    m->wide |= op->widened;
    const opennpu_rows *rows = op->rows;
    uint8_t *p = m->planes;
    op->kernel(p + (size_t)rows[OPENNPU_RD].first * TV_LANE_COUNT, p + (size_t)rows[OPENNPU_RS1].first * TV_LANE_COUNT,
               p + (size_t)rows[OPENNPU_RS2].first * TV_LANE_COUNT, p + (size_t)rows[OPENNPU_RS3].first * TV_LANE_COUNT,
               op->imm);
}

/* One instruction, of a run that is traced or ends at a tick. */
static outcome execute_next(opennpu_machine *m, uint64_t max_cycles)
{
    bool timed = m->mode != TV_MODE_FUNCTIONAL;
    if (timed && m->timing.next >= max_cycles)
        return TOO_LATE;
    const opennpu_op *op = decode_next(m);
    if (!op)
        return FAULTED;
    if (timed && max_cycles != UINT64_MAX && opennpu_timing_earliest(&m->timing, op) >= max_cycles)
        return TOO_LATE;
    if (m->mode != TV_MODE_TIMING && !execute_or_raise(m, op))
        return FAULTED;
    if (timed)
        opennpu_timing_issue(&m->timing, op, (int64_t)m->instructions);
    count_work(m, op);
    m->next++;
    m->instructions++;
    return DONE;
}

static outcome run_watched(opennpu_machine *m, uint64_t end, uint64_t max_cycles)
{
    outcome o = DONE;
    while (m->next < end && o == DONE)
        o = execute_next(m, max_cycles);
    return o;
}

static void set_next(opennpu_machine *m, uint64_t next)
{
    m->instructions += next - m->next;
    m->next = next;
}

/* The same, with nobody looking: where the program stands is written down only for what asks for it. */
TV_INLINE outcome run_alone(opennpu_machine *m, uint64_t end, bool executed, bool timed)
{
    const uint8_t *text = m->program->text;
    const uint64_t before = m->instructions - m->next;
    uint64_t next = m->next;
    for (; next < end; next++) {
        uint32_t word = tv_load_le32(text + next * 4);
        const opennpu_op *op = place_of(m, word);
        if (op->word != word) {
            set_next(m, next);
            op = decode_next(m);
            if (!op)
                return FAULTED;
        }
        if (executed && op->kernel) {
            call_kernel(m, op);
        } else if (executed && op->insn == OPENNPU_MMA) {
            opennpu_mma(m, op);
        } else if (executed) {
            set_next(m, next);
            if (!execute_or_raise(m, op))
                return FAULTED;
        }
        if (timed)
            opennpu_timing_issue_fast(&m->timing, op, (int64_t)(before + next));
        count_work(m, op);
    }
    set_next(m, next);
    return DONE;
}

static outcome run_to(opennpu_machine *m, uint64_t end, uint64_t max_cycles)
{
    if (m->timing.emitter.sink || max_cycles != UINT64_MAX)
        return run_watched(m, end, max_cycles);
    switch (m->mode) {
    case TV_MODE_FUNCTIONAL:
        return run_alone(m, end, true, false);
    case TV_MODE_TIMING:
        return run_alone(m, end, false, true);
    default:
        return run_alone(m, end, true, true);
    }
}

static tv_status run(void *state, const tv_run_limits *limits, tv_stop_reason *why)
{
    opennpu_machine *m = state;
    *why = TV_STOP_FAULT;
    if (m->fault.raised)
        return TV_FAULT;
    switch (run_to(m, tv_min_u64(m->count, limits->until), limits->max_cycles)) {
    case FAULTED:
        return TV_FAULT;
    case TOO_LATE:
        *why = TV_STOP_CYCLES;
        return TV_OK;
    default:
        *why = m->next < m->count ? TV_STOP_UNTIL : TV_STOP_END;
        return TV_OK;
    }
}

static uint64_t next(const void *state) { return ((const opennpu_machine *)state)->next; }

static const tv_fault *fault(const void *state)
{
    const opennpu_machine *m = state;
    return m->fault.raised ? &m->fault.fault : NULL;
}

/* ---- Accesses ---- */

static void tell(const tv_access_sink *sink, const char *space, uint64_t addr, uint64_t bytes, bool write)
{
    sink->emit(sink->user, &(tv_access){space, addr, bytes, write});
}

/* Registers and ACC, LUTs, memory: by the instruction's engine. */
static void tell_accesses(const opennpu_machine *m, const opennpu_op *op, const tv_access_sink *sink)
{
    static const char *const spaces[] = {[1] = "vx", [2] = "ve", [4] = "vr"};
    opennpu_opcode_info shape = m->shapes[op->insn];
    if (shape.engine == OPENNPU_PORT) {
        opennpu_transfer t = opennpu_transfer_of(m, op);
        if (!tv_memory_holds(&m->memory, t.addr, t.bytes))
            return;
        tell(sink, "mem", t.addr, t.bytes, !t.load);
    }
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++)
        if ((op->reads | op->writes) >> r & 1)
            tell(sink, spaces[op->rows[r].count], op->rows[r].first / op->rows[r].count,
                 (uint64_t)op->rows[r].count * m->k, op->writes >> r & 1);
    bool keeps = op->insn == OPENNPU_MMA ? op->sat : op->insn != OPENNPU_MMA_RESET;
    if (shape.engine == OPENNPU_MMA_ARRAY && keeps)
        tell(sink, "acc", 0, (uint64_t)m->k * m->k * 4, false);
    if (shape.engine == OPENNPU_MMA_ARRAY && op->insn != OPENNPU_MMA_LAST)
        tell(sink, "acc", 0, (uint64_t)m->k * m->k * 4, true);
    int64_t first;
    if (op->insn == OPENNPU_VLUT_A || op->insn == OPENNPU_VLUT_B)
        tell(sink, op->insn == OPENNPU_VLUT_A ? "lut_a" : "lut_b", 0, OPENNPU_LUT_ENTRIES, false);
    else if ((op->insn == OPENNPU_VSETLUT_A || op->insn == OPENNPU_VSETLUT_B) &&
             opennpu_segment_in_bank(op, m->k, &first))
        tell(sink, op->insn == OPENNPU_VSETLUT_A ? "lut_a" : "lut_b", (uint64_t)first,
             tv_min_u64(4 * (uint64_t)m->k, OPENNPU_LUT_ENTRIES - (uint64_t)first), true);
}

static uint64_t accesses(void *state, const tv_access_sink *sink)
{
    const opennpu_machine *m = state;
    opennpu_op op;
    opennpu_illegal illegal;
    if (opennpu_decode(m->codec, m->shapes, tv_load_le32(m->program->text + m->next * 4), m->l, &op, &illegal))
        tell_accesses(m, &op, sink);
    return m->next;
}

/* ---- Address spaces ---- */

enum { SPACE_VX, SPACE_VE, SPACE_VR, SPACE_LUT_A, SPACE_LUT_B, SPACE_ACC, SPACE_MEM, SPACES };

static int space_at(const void *state, unsigned i, tv_space *out)
{
    const opennpu_machine *m = state;
    const tv_space spaces[SPACES] = {
        {"vx", m->k, m->l, "VX registers: K lanes of 8 bit", 0, TV_S8, NULL},
        {"ve", 2 * m->k, m->l / 2, "VE registers: K lanes of 16 bit, little endian", 0, TV_S16, "vx"},
        {"vr", 4 * m->k, m->l / 4, "VR registers: K lanes of 32 bit, little endian", 0, TV_S32, "vx"},
        {"lut_a", 1, OPENNPU_LUT_ENTRIES, "LUT bank A, by entry", 0, TV_S8, NULL},
        {"lut_b", 1, OPENNPU_LUT_ENTRIES, "LUT bank B, by entry", 0, TV_S8, NULL},
        {"acc", 4, (uint64_t)m->k * m->k, "ACC, by element: row * K + column, 32 bit", 0, TV_S32, NULL},
        {"mem", 1, m->memory.size, "data memory, by byte", 0, TV_HEX8, NULL},
    };
    if (i >= SPACES)
        return 0;
    *out = spaces[i];
    return 1;
}

/* The byte of the byte planes that is byte `at` of the space of class `class_`. */
static uint8_t *plane_byte(opennpu_machine *m, unsigned class_, uint64_t at)
{
    uint64_t lane_bytes = UINT64_C(1) << class_, reg = at / (lane_bytes * m->k), rest = at % (lane_bytes * m->k);
    return opennpu_row(m, (unsigned)(reg * lane_bytes + rest % lane_bytes)) + rest / lane_bytes;
}

/* The byte of ACC that is byte `at` of its space. */
static uint8_t *acc_byte(opennpu_machine *m, uint64_t at)
{
    uint64_t row = at / 4 / m->k, column = at / 4 % m->k;
    return (uint8_t *)(m->acc + column * m->k + row) + at % 4;
}

static uint8_t *linear(opennpu_machine *m, unsigned space)
{
    switch (space) {
    case SPACE_LUT_A:
        return m->lut[0];
    case SPACE_LUT_B:
        return m->lut[1];
    default:
        return m->memory.bytes;
    }
}

static void read_space(void *state, unsigned space, uint64_t byte, void *data, size_t bytes)
{
    opennpu_machine *m = state;
    uint8_t *out = data;
    opennpu_flush_accumulators(m);
    if (space > SPACE_VR && space != SPACE_ACC)
        memcpy(out, linear(m, space) + byte, bytes);
    else
        for (size_t i = 0; i < bytes; i++)
            out[i] = space == SPACE_ACC ? *acc_byte(m, byte + i) : *plane_byte(m, space - SPACE_VX, byte + i);
}

static void write_space(void *state, unsigned space, uint64_t byte, const void *data, size_t bytes)
{
    opennpu_machine *m = state;
    const uint8_t *in = data;
    opennpu_flush_accumulators(m);
    if (space > SPACE_VR && space != SPACE_ACC)
        memcpy(linear(m, space) + byte, in, bytes);
    else
        for (size_t i = 0; i < bytes; i++)
            *(space == SPACE_ACC ? acc_byte(m, byte + i) : plane_byte(m, space - SPACE_VX, byte + i)) = in[i];
}

/* ---- Statistics and traces ---- */

static void stats(const void *state, tv_stats *out)
{
    const opennpu_machine *m = state;
    opennpu_timing timing = m->timing; /* looked at as if it ended here */
    opennpu_timing_drain(&timing);
    tv_stats_set_time(out, m->mode == TV_MODE_FUNCTIONAL ? 0 : timing.latest,
                      tv_config_integer(m->config, OPENNPU_PARAM_CORE_HZ));
    tv_stats_set_engines(out, timing.accounts, OPENNPU_ENGINES, opennpu_stall_reason_names, OPENNPU_STALL_REASONS);
    tv_stats_add_path(out, "load", m->bytes[0], m->k);
    tv_stats_add_path(out, "store", m->bytes[1], m->k);
    out->instructions = m->instructions;
    out->macs = m->macs;
    out->peak_macs = (double)m->k * m->k;
    tv_bottleneck bottleneck = {.cycles = (double)out->cycles};
    tv_bottleneck_add_engines(&bottleneck, out, OPENNPU_ENGINES, NULL);
    tv_bottleneck_classify(&bottleneck, OPENNPU_ISSUE, out);
}

static void trace(void *state, const tv_trace_sink *sink)
{
    opennpu_machine *m = state;
    m->sink = sink ? *sink : (tv_trace_sink){0};
    m->timing.emitter.sink = sink ? &m->sink : NULL;
}

static uint64_t clock_now(const void *state)
{
    const opennpu_machine *m = state;
    return m->next >= m->count ? tv_max_u64(m->timing.latest, m->timing.next) : m->timing.next;
}

extern const tv_target tv_target_opennpu;
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
    .read_space = read_space,
    .write_space = write_space,
    .stats = stats,
    .trace = trace,
    .clock = clock_now,
    .accesses = accesses,
    .state_at = opennpu_state_at,
    .parts = opennpu_visit_state,
    .check = opennpu_check,
};
