/* SPDX-License-Identifier: Apache-2.0 */
/* The pccx machine as a target: creating, loading, the instruction loop, faults, address spaces, statistics. */
#include "machine/pccx/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine/pccx/params.h"

extern const tv_isa tv_isa_pccx;

static const tv_param params[PCCX_PARAMS] = {
#define TV_PARAM(id, key_, type_, unit_, fallback_, min_, max_, meaning_) {key_, TV_PARAM_##type_, unit_, fallback_, min_, max_, meaning_},
#include "machine/pccx/params.def"
#undef TV_PARAM
};

const tv_schema pccx_schema = {"pccx", params, PCCX_PARAMS};

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
    tv_buf_fini(&m->commands);
    tv_buf_fini(&m->fault_text);
    tv_buf_fini(&m->fault_message);
    free(m);
}

static tv_status create(const tv_config *config, tv_mode mode, const tv_diag_sink *sink, void **state)
{
    pccx_machine *m = calloc(1, sizeof *m);
    if (!m)
        return tv_fail_memory(sink);
    m->config = config;
    m->mode = mode;
    pccx_control_init(&m->control, config);
    tv_status status = tv_codec_make(&tv_isa_pccx, sink, &m->codec);
    if (status == TV_OK && !pccx_timing_init(&m->timing, config))
        status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "use rates with few decimals",
                         "the rates of streams, ACP and memory have no common unit");
    if (status == TV_OK)
        status = tv_memory_init(&m->l2, tv_config_integer(config, PCCX_PARAM_L2_WORDS) * PCCX_WORD_BYTES, sink);
    if (status == TV_OK)
        status = tv_memory_init(&m->host, m->control.host_bytes, sink);
    for (unsigned i = 0; i < PCCX_FIFOS && status == TV_OK; i++) {
        m->fifos[i].ring = calloc(m->control.fifo_elements, sizeof *m->fifos[i].ring);
        if (!m->fifos[i].ring)
            status = tv_fail_memory(sink);
    }
    if (status != TV_OK) {
        destroy(m);
        return status;
    }
    *state = m;
    return TV_OK;
}

/* Weights may lie anywhere in host memory; what runs past it is a fault of the instruction that takes them. */
static tv_status load(void *state, const tv_program *program, const tv_diag_sink *sink)
{
    pccx_machine *m = state;
    tv_segment segment;
    tv_descriptor d;
    for (uint64_t i = 0; tv_program_segment_at(program, i, &segment); i++)
        if (!tv_memory_holds(&m->host, segment.addr, segment.size))
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_RANGE), "make host.bytes larger with -D, or move the data with .org",
                           "the program's data at host[0x%" PRIx64 "] of %" PRIu64 " bytes runs past host memory", segment.addr, segment.size);
    pccx_timing_drain(&m->timing);
    if (!pccx_control_append(&m->control, program))
        return tv_fail_memory(sink);
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        for (uint64_t i = 0; tv_program_descriptor_at(program, k, i, &d); i++)
            pccx_timing_append(&m->timing, k, d.bytes);
    for (uint64_t i = 0; tv_program_segment_at(program, i, &segment); i++) {
        if (segment.bytes)
            memcpy(m->host.bytes + segment.addr, segment.bytes, segment.size);
        else
            tv_memory_zero(&m->host, segment.addr, segment.size);
    }
    pccx_timing_begin(&m->timing);
    m->program = program;
    m->next = 0;
    m->count = tv_program_word_count(program);
    m->commands.len = 0;
    m->status &= ~(uint32_t)(PCCX_STATUS_ERROR | PCCX_STATUS_DONE);
    m->faulted = false;
    return TV_OK;
}

/* ---- The instruction loop ---- */

/* The program's words, then what the host has written into the command FIFO. */
static uint64_t word_at(const pccx_machine *m, uint64_t index)
{
    if (index < m->count)
        return tv_program_word(m->program, index);
    return tv_load_le64(m->commands.data + (index - m->count) * 8);
}

static uint64_t pending_end(const pccx_machine *m) { return m->count + m->commands.len / 8; }

static void raise_fault(pccx_machine *m, uint64_t word, int row, const tv_code *code, const char *message)
{
    tv_source_line line = {0};
    bool known = m->program && m->next < m->count && tv_program_line(m->program, m->next, &line);
    m->fault_text.len = m->fault_message.len = 0;
    if (row >= 0)
        tv_isa_print(&tv_isa_pccx, &tv_isa_pccx.insns[row], word, &m->fault_text);
    else
        tv_buf_printf(&m->fault_text, ".word64 0x%016" PRIx64, word);
    tv_buf_str(&m->fault_message, message);
    m->fault = (tv_fault){.code = code->code,
                          .name = code->name,
                          .index = m->next,
                          .address = m->next * 8,
                          .disassembly = tv_buf_cstr(&m->fault_text),
                          .file = known ? line.file : NULL,
                          .line = known ? line.line : 0,
                          .message = tv_buf_cstr(&m->fault_message)};
    m->faulted = true;
    m->status |= PCCX_STATUS_ERROR;
}

static void raise_illegal(pccx_machine *m, uint64_t word, const tv_illegal *illegal)
{
    tv_buf text = {0};
    tv_isa_print_illegal(&tv_isa_pccx, illegal, &text);
    raise_fault(m, word, -1, illegal->code, tv_buf_cstr(&text));
    tv_buf_fini(&text);
}

static void count_bytes(pccx_machine *m, const pccx_op *op)
{
    if (op->engine == PCCX_ENGINE_GEMM || op->engine == PCCX_ENGINE_GEMV)
        m->bytes[op->engine == PCCX_ENGINE_GEMM ? PCCX_PATH_GEMM : PCCX_PATH_GEMV] += op->stream_bytes;
    else if (op->engine == PCCX_ENGINE_ACP)
        m->bytes[op->insn == PCCX_MEMCPY_LOAD ? PCCX_PATH_LOAD : op->insn == PCCX_MEMCPY_STORE ? PCCX_PATH_STORE : PCCX_PATH_MOVE] +=
            op->words * PCCX_WORD_BYTES;
    m->macs += op->macs;
}

typedef enum outcome { DONE, FAULTED, TOO_LATE } outcome;

static outcome execute_next(pccx_machine *m, uint64_t max_cycles)
{
    uint64_t word = word_at(m, m->next);
    tv_illegal illegal;
    pccx_refusal why;
    pccx_op op;
    int row = tv_codec_row(m->codec, word, &illegal);
    if (row < 0) {
        raise_illegal(m, word, &illegal);
        return FAULTED;
    }
    if (!pccx_resolve(&m->control, (pccx_insn)row, word, &op, &why)) {
        raise_fault(m, word, row, &pccx_codes[why.code], why.message);
        return FAULTED;
    }
    bool timed = m->mode != TV_MODE_FUNCTIONAL;
    if (timed && max_cycles != UINT64_MAX && pccx_timing_preview(&m->timing, &op, (int64_t)m->instructions) >= max_cycles)
        return TOO_LATE;
    if (m->mode != TV_MODE_TIMING && !pccx_execute(m, &op, &why)) {
        raise_fault(m, word, row, &pccx_codes[why.code], why.message);
        return FAULTED;
    }
    if (timed)
        pccx_timing_issue(&m->timing, &op, (int64_t)m->instructions);
    pccx_control_commit(&m->control, &op);
    count_bytes(m, &op);
    m->next++;
    m->instructions++;
    return DONE;
}

static tv_status run(void *state, const tv_run_limits *limits, tv_stop *why)
{
    pccx_machine *m = state;
    *why = TV_STOP_FAULT;
    if (m->faulted)
        return TV_FAULT;
    if (m->ended && m->next < pending_end(m)) /* more has come from the host */
        pccx_timing_begin(&m->timing);
    m->ended = false;
    m->status = (m->status & ~(uint32_t)PCCX_STATUS_DONE) | PCCX_STATUS_BUSY;
    *why = TV_STOP_END;
    while (m->next < pending_end(m) && *why == TV_STOP_END) {
        if (m->next >= limits->until) {
            *why = TV_STOP_UNTIL;
            return TV_OK;
        }
        outcome o = execute_next(m, limits->max_cycles);
        if (o == TOO_LATE) {
            *why = TV_STOP_CYCLES;
            return TV_OK;
        }
        if (o == FAULTED)
            *why = TV_STOP_FAULT;
    }
    pccx_timing_drain(&m->timing);
    m->ended = true;
    m->status &= ~(uint32_t)PCCX_STATUS_BUSY;
    m->status |= m->faulted ? 0 : PCCX_STATUS_DONE;
    return m->faulted ? TV_FAULT : TV_OK;
}

static uint64_t next(const void *state) { return ((const pccx_machine *)state)->next; }

static const tv_fault *fault(const void *state)
{
    const pccx_machine *m = state;
    return m->faulted ? &m->fault : NULL;
}

/* ---- Address spaces ---- */

enum { SPACE_L2, SPACE_HOST, SPACE_CONST, SPACE_EMAX, SPACE_MMIO, SPACES };

static int space_at(const void *state, unsigned i, tv_space *out)
{
    const pccx_machine *m = state;
    const tv_space spaces[SPACES] = {
        {"l2", PCCX_WORD_BYTES, m->l2.size / PCCX_WORD_BYTES, "L2, by 128-bit word of 8 BF16 lanes"},
        {"host", 1, m->host.size, "host memory, by byte"},
        {"const", 6, 2 * PCCX_CACHE_ENTRIES, "Constant Cache: bank * 64 + entry, three 16-bit values each"},
        {"emax", 2, 1, "e_max, one BF16"},
        {"mmio", 1, 4096, "the driver's window: 0x00 INSTR_LO, 0x04 INSTR_HI, 0x08 STATUS, 32 bit each"},
    };
    if (i >= SPACES)
        return 0;
    *out = spaces[i];
    return 1;
}

static void read_space(void *state, unsigned space, uint64_t byte, void *data, size_t bytes)
{
    pccx_machine *m = state;
    uint8_t *out = data;
    switch (space) {
    case SPACE_L2: memcpy(out, m->l2.bytes + byte, bytes); break;
    case SPACE_HOST: memcpy(out, m->host.bytes + byte, bytes); break;
    case SPACE_CONST:
        for (size_t i = 0; i < bytes; i++) {
            uint64_t value = (byte + i) / 2, entry = value / 3;
            out[i] = (uint8_t)(m->control.constants[entry / PCCX_CACHE_ENTRIES][entry % PCCX_CACHE_ENTRIES][value % 3] >> ((byte + i) % 2 * 8));
        }
        break;
    case SPACE_EMAX:
        for (size_t i = 0; i < bytes; i++)
            out[i] = (uint8_t)(m->e_max >> ((byte + i) * 8));
        break;
    default: /* only STATUS reads as anything */
        for (size_t i = 0; i < bytes; i++)
            out[i] = byte + i >= 8 && byte + i < 12 ? (uint8_t)(m->status >> ((byte + i - 8) * 8)) : 0;
    }
}

/* INSTR_HI latches the word into the command FIFO; a full FIFO sets ERROR and keeps what it holds. */
static void write_mmio(pccx_machine *m, uint64_t byte, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t value = tv_load_le32(data + i);
        if (byte + i == 0)
            m->command_low = value;
        if (byte + i != 4)
            continue;
        uint64_t waiting = pending_end(m) - tv_max_u64(m->next, m->count);
        if (waiting >= tv_config_integer(m->config, PCCX_PARAM_CMD_DEPTH)) {
            m->status |= PCCX_STATUS_ERROR;
            continue;
        }
        tv_buf_le(&m->commands, (uint64_t)value << 32 | m->command_low, 8);
        m->status |= PCCX_STATUS_BUSY;
    }
}

static void write_space(void *state, unsigned space, uint64_t byte, const void *data, size_t bytes)
{
    pccx_machine *m = state;
    const uint8_t *in = data;
    switch (space) {
    case SPACE_L2: memcpy(m->l2.bytes + byte, in, bytes); break;
    case SPACE_HOST: memcpy(m->host.bytes + byte, in, bytes); break;
    case SPACE_CONST:
        for (size_t i = 0; i < bytes; i++) {
            uint64_t value = (byte + i) / 2, entry = value / 3;
            uint16_t *v = &m->control.constants[entry / PCCX_CACHE_ENTRIES][entry % PCCX_CACHE_ENTRIES][value % 3];
            *v = (uint16_t)((byte + i) % 2 ? (*v & 0x00FF) | in[i] << 8 : (*v & 0xFF00) | in[i]);
            m->control.written[entry / PCCX_CACHE_ENTRIES][entry % PCCX_CACHE_ENTRIES] = true;
        }
        break;
    case SPACE_EMAX:
        for (size_t i = 0; i < bytes; i++)
            m->e_max = (uint16_t)(byte + i ? (m->e_max & 0x00FF) | in[i] << 8 : (m->e_max & 0xFF00) | in[i]);
        break;
    default: write_mmio(m, byte, in, bytes);
    }
}

/* ---- Statistics ---- */

static double rate(const pccx_machine *m, unsigned index)
{
    tv_rate r = tv_config_rate(m->config, index);
    return (double)r.num / r.den;
}

/* What bounds the run: the resource that alone would take the most of its cycles; "latency" when none takes half. */
static void judge(const pccx_machine *m, tv_stats *out)
{
    double cycles = (double)out->cycles, best = 0;
    const char *name = "latency", *what = "";
    for (unsigned e = 0; e < out->engine_count; e++) {
        double share = cycles > 0 ? (double)out->engines[e].busy / cycles : 0;
        if (share > best) {
            best = share;
            name = out->engines[e].name;
            what = e == PCCX_ENGINE_DISP ? "issue: one instruction a cycle" : "its own work";
        }
    }
    double memory = 0;
    for (unsigned p = 0; p < PCCX_PATH_MOVE; p++) {
        double share = cycles > 0 ? (double)out->paths[p].bytes / out->paths[p].peak / cycles : 0;
        memory += (double)out->paths[p].bytes;
        if (share > best) {
            best = share;
            name = out->paths[p].name;
            what = "bandwidth";
        }
    }
    if (cycles > 0 && memory / rate(m, PCCX_PARAM_MEMORY_RATE) / cycles > best) {
        best = memory / rate(m, PCCX_PARAM_MEMORY_RATE) / cycles;
        name = "memory";
        what = "bandwidth";
    }
    const tv_engine_stats *disp = &out->engines[PCCX_ENGINE_DISP];
    unsigned worst = 0;
    for (unsigned c = 1; c < PCCX_CAUSES; c++)
        if (disp->held[c] > disp->held[worst])
            worst = c;
    if (best < 0.5) {
        snprintf(out->bound_by, sizeof out->bound_by, "latency");
        out->bound_share = cycles > 0 ? (double)disp->held[worst] / cycles : 0;
        snprintf(out->verdict, sizeof out->verdict, "bound by latency: the dispatcher is held by %s in %.0f %% of cycles; no engine is busy in half of them",
                 pccx_cause_names[worst], 100 * out->bound_share);
        return;
    }
    snprintf(out->bound_by, sizeof out->bound_by, "%s", name);
    out->bound_share = best;
    snprintf(out->verdict, sizeof out->verdict, "bound by %s (%s): %.0f %% of cycles", name, what, 100 * best);
}

static void stats(const void *state, tv_stats *out)
{
    const pccx_machine *m = state;
    static const unsigned rates[PCCX_PATHS] = {PCCX_PARAM_STREAM_RATE, PCCX_PARAM_STREAM_RATE, PCCX_PARAM_ACP_RATE, PCCX_PARAM_ACP_RATE, 0};
    pccx_timing timing = m->timing; /* looked at as if it ended here */
    timing.sink = NULL;
    pccx_timing_drain(&timing);
    out->cycles = timing.latest_end;
    out->clock_hz = (double)tv_config_integer(m->config, PCCX_PARAM_CORE_HZ);
    out->seconds = (double)out->cycles / out->clock_hz;
    out->instructions = m->instructions;
    out->macs = m->macs;
    out->engine_count = PCCX_ACCOUNTS;
    out->cause_count = PCCX_CAUSES;
    out->path_count = PCCX_PATHS;
    for (unsigned c = 0; c < PCCX_CAUSES; c++)
        out->causes[c] = pccx_cause_names[c];
    for (unsigned e = 0; e < PCCX_ACCOUNTS; e++) {
        const tv_account *a = &timing.accounts[e];
        out->engines[e] = (tv_engine_stats){.name = a->name, .busy = a->busy, .idle = a->idle};
        memcpy(out->engines[e].held, a->held, sizeof a->held);
    }
    for (unsigned p = 0; p < PCCX_PATHS; p++)
        out->paths[p] = (tv_path_stats){pccx_path_names[p], m->bytes[p], p == PCCX_PATH_MOVE ? PCCX_WORD_BYTES : rate(m, rates[p])};
    double gemm = (double)(timing.gemm_tile_k * timing.gemm_tile_n), gemv = (double)(timing.gemv_tile_k * m->control.gemv_cores);
    out->peak_macs = m->bytes[PCCX_PATH_GEMM] ? gemm : gemv;
    judge(m, out);
}

/* ---- Trace ---- */

static void locate(void *user, int64_t index, tv_event *event)
{
    const pccx_machine *m = user;
    tv_source_line line;
    uint64_t first = m->instructions - m->next; /* number of the program's first instruction */
    if (m->program && (uint64_t)index >= first && tv_program_line(m->program, (uint64_t)index - first, &line)) {
        event->file = line.file;
        event->line = line.line;
    }
}

static void trace(void *state, const tv_trace_sink *sink)
{
    pccx_machine *m = state;
    m->sink = sink ? *sink : (tv_trace_sink){0};
    m->timing.sink = sink ? &m->sink : NULL;
    m->timing.locate = locate;
    m->timing.user = m;
}

static uint64_t clock_now(const void *state) { return ((const pccx_machine *)state)->timing.head; }

extern const tv_target tv_target_pccx;
const tv_target tv_target_pccx = {
    .name = "pccx",
    .isa = &tv_isa_pccx,
    .schema = &pccx_schema,
    .create = create,
    .destroy = destroy,
    .load = load,
    .run = run,
    .next = next,
    .fault = fault,
    .space_at = space_at,
    .read = read_space,
    .write = write_space,
    .stats = stats,
    .trace = trace,
    .clock = clock_now,
    .check = pccx_check,
};
