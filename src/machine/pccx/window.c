/* SPDX-License-Identifier: Apache-2.0 */
/* The register window of drivers (pccx specification, section 6). Reading a register changes nothing, so that debuggers
 * may show the window. */
#include "machine/pccx/internal.h"
#include "machine/pccx/params.h"

static uint64_t waiting_commands(const pccx_machine *m)
{
    return pccx_pending_end(m) - tv_max_u64(m->next, m->count + m->commands_done);
}

static bool is_full(const pccx_machine *m)
{
    return waiting_commands(m) >= tv_config_integer(m->config, PCCX_PARAM_CMD_DEPTH);
}

static bool has_word_map(const pccx_machine *m)
{
    return tv_config_enum(m->config, PCCX_PARAM_WINDOW_MAP) == PCCX_WINDOW_WORD;
}

/* ---- Reading ---- */

static uint64_t clock_of(const pccx_machine *m) { return m->ended ? m->timing.latest_end : m->timing.head; }

static uint32_t read_register(const pccx_machine *m, uint64_t at)
{
    const pccx_completion *oldest = m->stat.count ? &m->stat.ring[m->stat.head] : NULL;
    if (at == (has_word_map(m) ? TV_WINDOW_WORD_STATUS : TV_WINDOW_STATUS))
        return (m->fault.raised ? m->status & ~(uint32_t)TV_WINDOW_BUSY : m->status) |
               (is_full(m) ? TV_WINDOW_FULL : 0);
    switch (at) {
    case TV_WINDOW_FIFO_LEVEL:
        return (uint32_t)waiting_commands(m);
    case TV_WINDOW_STAT_LEVEL:
        return m->stat.count;
    case TV_WINDOW_STAT_INDEX:
        return oldest ? (uint32_t)oldest->index : 0;
    case TV_WINDOW_STAT_CYCLE_LO:
        return oldest ? (uint32_t)oldest->cycle : 0;
    case TV_WINDOW_STAT_CYCLE_HI:
        return oldest ? (uint32_t)(oldest->cycle >> 32) : 0;
    case TV_WINDOW_CYCLE_LO:
        return (uint32_t)clock_of(m);
    case TV_WINDOW_CYCLE_HI:
        return (uint32_t)(clock_of(m) >> 32);
    default: /* registers that are written read as 0 */
        return 0;
    }
}

void pccx_window_read(const pccx_machine *m, uint64_t byte, uint8_t *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(read_register(m, byte + i - (byte + i) % TV_WINDOW_REGISTER) >>
                           ((byte + i) % TV_WINDOW_REGISTER * 8));
}

/* ---- Writing ---- */

static void push_command(pccx_machine *m, uint64_t word)
{
    if (is_full(m)) {
        m->status |= TV_WINDOW_ERROR;
        return;
    }
    tv_buf_le(&m->commands, word, 8);
    if (m->commands.failed) {
        m->commands.failed = false;
        m->status |= TV_WINDOW_ERROR;
        return;
    }
    m->status = (m->status & ~(uint32_t)TV_WINDOW_DONE) | TV_WINDOW_BUSY;
}

/* Appends a descriptor to a weight stream. Instructions in flight point into the list, which may move. */
static void push_descriptor(pccx_machine *m, uint32_t stream)
{
    tv_descriptor d = {m->stream_addr, m->stream_bytes};
    if (stream >= PCCX_STREAMS || d.bytes >> 48) {
        m->status |= TV_WINDOW_ERROR;
        return;
    }
    pccx_weights *w = &m->control.weights[stream];
    uintptr_t old = (uintptr_t)w->list.data;
    if (d.bytes == 0)
        return;
    tv_buf_append(&w->list, &d, sizeof d);
    if (w->list.failed) {
        w->list.failed = false;
        m->status |= TV_WINDOW_ERROR;
        return;
    }
    w->left += d.bytes;
    pccx_timing_append(&m->timing, stream, d.bytes, clock_of(m));
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++) {
        pccx_op *op = &m->timing.slots[e].op;
        if (m->timing.slots[e].used && op->weights && op->flow == stream)
            op->weights = (const tv_descriptor *)((uintptr_t)w->list.data + ((uintptr_t)op->weights - old));
    }
}

/* The instruction that raised the fault does not run again. */
static void clear_error(pccx_machine *m)
{
    m->status &= ~(uint32_t)(TV_WINDOW_ERROR | TV_WINDOW_LOST);
    if (m->fault.raised)
        m->next++;
    m->fault.raised = false;
    if (m->next < pccx_pending_end(m))
        m->status |= TV_WINDOW_BUSY;
}

/* L2, host memory and the clock stay. */
static void reset(pccx_machine *m)
{
    pccx_timing_drain(&m->timing);
    pccx_timing_begin(&m->timing);
    m->program = m->timing.emitter.program = NULL;
    m->next = m->count = m->commands_done = 0;
    m->commands.len = 0;
    m->fault.raised = false;
    m->ended = true;
    m->command_low = m->status = 0;
    m->e_max = 0;
    m->stat.count = 0;
    memset(m->control.constants, 0, sizeof m->control.constants);
    memset(m->control.written, 0, sizeof m->control.written);
    for (unsigned i = 0; i < PCCX_FIFOS; i++)
        m->control.fifo_count[i] = m->fifos[i].head = m->fifos[i].count = 0;
    for (unsigned k = 0; k < PCCX_STREAMS; k++) {
        pccx_weights *w = &m->control.weights[k];
        pccx_timing_discard(&m->timing, k);
        w->list.len = 0;
        w->next = 0;
        w->offset = w->left = 0;
    }
}

static void write_control(pccx_machine *m, uint32_t value)
{
    if (value & TV_WINDOW_RESET)
        reset(m);
    if (value & TV_WINDOW_CLEAR_ERROR)
        clear_error(m);
    if (value & TV_WINDOW_STAT_POP && m->stat.count) {
        m->stat.head = (m->stat.head + 1) % m->stat.depth;
        m->stat.count--;
    }
}

static void write_instruction(pccx_machine *m, uint64_t at, uint32_t value)
{
    if (at == TV_WINDOW_INSTR_LO)
        m->command_low = value;
    else if (at == TV_WINDOW_INSTR_HI && has_word_map(m))
        m->command_high = value;
    else if (at == TV_WINDOW_INSTR_HI)
        push_command(m, (uint64_t)value << 32 | m->command_low);
    else if (at == TV_WINDOW_WORD_KICK && has_word_map(m))
        push_command(m, (uint64_t)m->command_high << 32 | m->command_low);
}

static void write_register(pccx_machine *m, uint64_t at, uint32_t value)
{
    switch (at) {
    case TV_WINDOW_CONTROL:
        write_control(m, value);
        break;
    case TV_WINDOW_STREAM_ADDR_LO:
        m->stream_addr = (m->stream_addr & ~UINT64_C(0xFFFFFFFF)) | value;
        break;
    case TV_WINDOW_STREAM_ADDR_HI:
        m->stream_addr = (m->stream_addr & 0xFFFFFFFF) | (uint64_t)value << 32;
        break;
    case TV_WINDOW_STREAM_BYTES_LO:
        m->stream_bytes = (m->stream_bytes & ~UINT64_C(0xFFFFFFFF)) | value;
        break;
    case TV_WINDOW_STREAM_BYTES_HI:
        m->stream_bytes = (m->stream_bytes & 0xFFFFFFFF) | (uint64_t)value << 32;
        break;
    case TV_WINDOW_STREAM_PUSH:
        push_descriptor(m, value);
        break;
    default:
        write_instruction(m, at, value);
    }
}

void pccx_window_write(pccx_machine *m, uint64_t byte, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i + TV_WINDOW_REGISTER <= bytes; i += TV_WINDOW_REGISTER)
        write_register(m, byte + i, tv_load_le32(data + i));
}

/* ---- STAT_OUT ---- */

bool pccx_stat_add(pccx_stat *s, pccx_completion completion)
{
    bool full = s->count == s->depth;
    if (full) {
        s->head = (s->head + 1) % s->depth;
        s->count--;
    }
    s->ring[(s->head + s->count++) % s->depth] = completion;
    return !full;
}

void pccx_window_complete(void *user, int64_t index, uint64_t cycle)
{
    pccx_machine *m = user;
    if (!pccx_stat_add(&m->stat, (pccx_completion){(uint64_t)index, cycle}))
        m->status |= TV_WINDOW_LOST;
}
