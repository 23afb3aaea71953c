/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the pccx machine: its parts for snapshots, and in words for people. */
#include <inttypes.h>

#include "machine/pccx/machine.h"
#include "machine/pccx/params.h"

/* ---- Snapshots ---- */

/* An instruction in flight points into the descriptors' list, which may stand elsewhere now. Of one that has ended
 * nobody asks. */
static void rebase_weights(pccx_machine *m, uint8_t *const before[PCCX_STREAMS])
{
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++) {
        pccx_slot *slot = &m->timing.slots[e];
        bool over = !slot->used || (slot->settled && slot->end <= m->timing.head);
        uintptr_t list = (uintptr_t)m->control.weights[slot->op.stream].list.data;
        if (over || !slot->op.stream_bytes)
            slot->op.weights = NULL;
        else
            slot->op.weights =
                (const tv_descriptor *)(list + ((uintptr_t)slot->op.weights - (uintptr_t)before[slot->op.stream]));
    }
}

#define PART(x) tv_visit_bytes(parts, &(x), sizeof(x))

static void show_control(pccx_machine *m, tv_state_visitor *parts)
{
    pccx_control *c = &m->control;
    PART(c->constants);
    PART(c->written);
    PART(c->fifo_count);
    for (unsigned k = 0; k < PCCX_STREAMS; k++) {
        tv_visit_buf(parts, &c->weights[k].list);
        PART(c->weights[k].next);
        PART(c->weights[k].offset);
        PART(c->weights[k].left);
    }
}

void pccx_visit_state(void *state, tv_state_visitor *parts)
{
    pccx_machine *m = state;
    const tv_trace_sink *sink = m->timing.emitter.sink; /* this machine's */
    uint8_t *lists[PCCX_STREAMS];
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        lists[k] = m->control.weights[k].list.data;
    PART(lists);
    show_control(m, parts);
    PART(m->timing);
    m->timing.emitter.sink = sink;
    m->timing.share.moved = NULL; /* set before they are used */
    m->timing.share.user = NULL;
    if (tv_visit_is_restoring(parts))
        rebase_weights(m, lists);
    for (unsigned i = 0; i < PCCX_FIFOS; i++) {
        tv_visit_bytes(parts, m->fifos[i].ring, m->control.fifo_elements * sizeof *m->fifos[i].ring);
        PART(m->fifos[i].head);
        PART(m->fifos[i].count);
    }
    PART(m->e_max);
    PART(m->program);
    PART(m->next);
    PART(m->count);
    PART(m->instructions);
    PART(m->macs);
    PART(m->bytes);
    PART(m->command_low);
    tv_visit_buf(parts, &m->commands);
    PART(m->commands_done);
    PART(m->status);
    PART(m->ended);
    tv_visit_memory(parts, &m->l2);
    tv_visit_memory(parts, &m->host);
    if (tv_visit_is_restoring(parts))
        m->fault.raised = false;
}

/* ---- In words ---- */

static void e_max(const pccx_machine *m, tv_buf *text)
{
    char value[TV_DTYPE_TEXT];
    uint8_t bytes[2];
    tv_store_le(bytes, m->e_max, 2);
    tv_dtype_text(TV_BF16, bytes, 0, value);
    tv_buf_printf(text, "%s (0x%04x)", value, (unsigned)m->e_max);
}

static void status(const pccx_machine *m, tv_buf *text)
{
    tv_buf_printf(text, "0x%" PRIx32 "%s%s%s", m->status, m->status & PCCX_STATUS_BUSY ? " BUSY" : "",
                  m->status & PCCX_STATUS_DONE ? " DONE" : "", m->status & PCCX_STATUS_ERROR ? " ERROR" : "");
}

static void constants(const pccx_machine *m, unsigned bank, tv_buf *text)
{
    enum { SHOWN = 8 };
    unsigned written = 0;
    for (unsigned i = 0; i < PCCX_CACHE_ENTRIES; i++) {
        const uint16_t *v = m->control.constants[bank][i];
        if (!m->control.written[bank][i] || written++ >= SHOWN)
            continue;
        tv_buf_printf(text, "%s[%u] %u %u %u", written > 1 ? ", " : "", i, (unsigned)v[0], (unsigned)v[1],
                      (unsigned)v[2]);
    }
    if (written > SHOWN)
        tv_buf_printf(text, ", and %u more", written - SHOWN);
    else if (!written)
        tv_buf_str(text, "none written");
}

static void commands(const pccx_machine *m, tv_buf *text)
{
    uint64_t waiting = pccx_pending_end(m) - tv_max_u64(m->next, m->count + m->commands_done);
    tv_buf_printf(text, "%" PRIu64 " of %" PRIu64 " words", waiting,
                  tv_config_integer(m->config, PCCX_PARAM_CMD_DEPTH));
}

static void stream(const pccx_machine *m, unsigned k, tv_buf *text)
{
    const pccx_weights *w = &m->control.weights[k];
    const tv_descriptor *list = (const tv_descriptor *)(const void *)w->list.data;
    size_t count = w->list.len / sizeof *list;
    tv_buf_printf(text, "%zu of %zu descriptors left, %" PRIu64 " bytes", count - w->next, count, w->left);
    if (w->next < count)
        tv_buf_printf(text, ", the next from host[0x%" PRIx64 "]", list[w->next].addr + w->offset);
}

/* What an engine works on, or has worked on last. */
static void in_flight(const pccx_machine *m, unsigned e, tv_buf *text)
{
    const pccx_slot *slot = &m->timing.slots[e];
    uint64_t first = m->instructions - m->next;
    if (!slot->used || (slot->settled && slot->end <= m->timing.head)) {
        tv_buf_str(text, "nothing");
        return;
    }
    if ((uint64_t)slot->index >= first)
        tv_buf_printf(text, "instruction %" PRIu64 ", ", (uint64_t)slot->index - first);
    tv_buf_printf(text, "%s since cycle %" PRIu64, tv_isa_pccx.insns[slot->op.insn].mnemonic, slot->start);
    if (slot->settled)
        tv_buf_printf(text, " until %" PRIu64, slot->end);
    else
        tv_buf_str(text, ", its end depends on the streams");
}

static void ranges(const pccx_machine *m, unsigned e, tv_buf *text)
{
    static const char *const places[] = {"l2", "host", "e_max", "the FIFO to the SFU", "the FIFO to GEMV"};
    const pccx_slot *slot = &m->timing.slots[e];
    bool busy = slot->used && !(slot->settled && slot->end <= m->timing.head);
    for (unsigned i = 0; busy && i < slot->op.range_count; i++) {
        const pccx_range *r = &slot->op.ranges[i];
        tv_buf_printf(text, "%s%s %s", i ? ", " : "", r->write ? "writes" : "reads", places[r->place]);
        if (r->place == PCCX_IN_L2 || r->place == PCCX_IN_HOST)
            tv_buf_printf(text, "[0x%" PRIx64 " to 0x%" PRIx64 "]", r->from, r->to - 1);
    }
    if (!busy || !slot->op.range_count)
        tv_buf_str(text, "none");
}

bool pccx_state_at(void *state, unsigned i, tv_buf *text, tv_state_value *out)
{
    enum {
        E_MAX,
        STATUS,
        FMAP,
        WEIGHT,
        TO_SFU,
        TO_GEMV,
        COMMANDS,
        STREAM,
        PENDING = STREAM + PCCX_STREAMS,
        HAZARD = PENDING + PCCX_ENGINE_NONE,
        VALUES = HAZARD + PCCX_ENGINE_NONE
    };
    static const tv_state_value fixed[] = {
        [E_MAX] = {"registers", "e_max", NULL, "largest result of the last GEMV or GEMM with findemax"},
        [STATUS] = {"registers", "status", NULL, "the driver's STATUS register"},
        [FMAP] = {"registers", "fmap_shape", NULL, "entries of the Constant Cache that have been written"},
        [WEIGHT] = {"registers", "weight_shape", NULL, "the same of the other bank"},
        [TO_SFU] = {"queues", "fifo_to_sfu", NULL, "direct FIFO from GEMV to the SFU"},
        [TO_GEMV] = {"queues", "fifo_to_gemv", NULL, "direct FIFO from the SFU to GEMV"},
        [COMMANDS] = {"queues", "commands", NULL, "words that the host has written and that have not run"},
    };
    pccx_machine *m = state;
    if (i >= VALUES)
        return false;
    if (i < STREAM)
        *out = fixed[i];
    else if (i < PENDING)
        *out = (tv_state_value){"streams", tv_isa_pccx.streams[i - STREAM], NULL, "weight stream"};
    else if (i < HAZARD)
        *out = (tv_state_value){"pending", pccx_engine_names[i - PENDING], NULL, "in flight"};
    else
        *out =
            (tv_state_value){"hazards", pccx_engine_names[i - HAZARD], NULL, "what later instructions must wait for"};
    switch (i) {
    case E_MAX:
        e_max(m, text);
        break;
    case STATUS:
        status(m, text);
        break;
    case FMAP:
    case WEIGHT:
        constants(m, i - FMAP, text);
        break;
    case TO_SFU:
    case TO_GEMV:
        tv_buf_printf(text, "%" PRIu32 " of %" PRIu32 " elements", m->control.fifo_count[i - TO_SFU],
                      m->control.fifo_elements);
        break;
    case COMMANDS:
        commands(m, text);
        break;
    default:
        if (i < PENDING)
            stream(m, i - STREAM, text);
        else if (i < HAZARD)
            in_flight(m, i - PENDING, text);
        else
            ranges(m, i - HAZARD, text);
    }
    return true;
}
