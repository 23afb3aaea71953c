/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the pccx machine: saved and restored by snapshots, and described as text. */
#include <inttypes.h>

#include "machine/pccx/internal.h"
#include "machine/pccx/params.h"

/* ---- Snapshots ---- */

/* Instructions in flight point into the descriptor lists, which restoring may have moved: `saved` are the addresses at
 * the time of the snapshot. Weights of instructions that have ended are not read again. */
static void rebase_weights(pccx_machine *m, uint8_t *const saved[PCCX_STREAMS])
{
    for (unsigned e = 0; e < PCCX_ENGINE_NONE; e++) {
        pccx_slot *slot = &m->timing.slots[e];
        pccx_op *op = &slot->op;
        if (!pccx_slot_in_flight(slot, m->timing.head) || !op->stream_bytes || !op->weights) {
            op->weights = NULL;
            continue;
        }
        uintptr_t list = (uintptr_t)m->control.weights[op->flow].list.data;
        op->weights = (const tv_descriptor *)(list + ((uintptr_t)op->weights - (uintptr_t)saved[op->flow]));
    }
}

#define VISIT(x) tv_visit_bytes(visitor, &(x), sizeof(x))

static void visit_control(pccx_control *c, tv_state_visitor *visitor)
{
    VISIT(c->constants);
    VISIT(c->written);
    VISIT(c->fifo_count);
    for (unsigned k = 0; k < PCCX_STREAMS; k++) {
        tv_visit_buf(visitor, &c->weights[k].list);
        VISIT(c->weights[k].next);
        VISIT(c->weights[k].offset);
        VISIT(c->weights[k].left);
    }
}

void pccx_visit_state(void *state, tv_state_visitor *visitor)
{
    pccx_machine *m = state;
    const tv_trace_sink *sink = m->timing.emitter.sink; /* this machine's */
    uint8_t *lists[PCCX_STREAMS];
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        lists[k] = m->control.weights[k].list.data;
    VISIT(lists);
    visit_control(&m->control, visitor);
    VISIT(m->timing);
    m->timing.emitter.sink = sink;
    m->timing.completed_user = m;
    m->timing.energy = &m->energy;
    m->timing.share.moved = NULL; /* set again before use */
    m->timing.share.user = NULL;
    if (tv_visit_is_restoring(visitor))
        rebase_weights(m, lists);
    for (unsigned i = 0; i < PCCX_FIFOS; i++) {
        tv_visit_bytes(visitor, m->fifos[i].ring, m->control.fifo_elements * sizeof *m->fifos[i].ring);
        VISIT(m->fifos[i].head);
        VISIT(m->fifos[i].count);
    }
    VISIT(m->e_max);
    VISIT(m->program);
    VISIT(m->next);
    VISIT(m->count);
    VISIT(m->instructions);
    VISIT(m->counters);
    VISIT(m->command_low);
    VISIT(m->command_high);
    VISIT(m->stream_addr);
    VISIT(m->stream_bytes);
    VISIT(m->stat.head);
    VISIT(m->stat.count);
    tv_visit_bytes(visitor, m->stat.ring, m->stat.depth * sizeof *m->stat.ring);
    tv_visit_buf(visitor, &m->commands);
    VISIT(m->commands_done);
    VISIT(m->status);
    VISIT(m->ended);
    tv_visit_memory(visitor, &m->l2);
    tv_visit_memory(visitor, &m->host);
    if (tv_visit_is_restoring(visitor))
        m->fault.raised = false;
}

/* ---- As text ---- */

static void print_e_max(const pccx_machine *m, unsigned unused, tv_buf *text)
{
    (void)unused;
    char value[TV_DTYPE_TEXT];
    uint8_t bytes[2];
    tv_store_le(bytes, m->e_max, 2);
    tv_dtype_text(TV_BF16, bytes, 0, value);
    tv_buf_printf(text, "%s (0x%04x)", value, (unsigned)m->e_max);
}

static void print_status(const pccx_machine *m, unsigned unused, tv_buf *text)
{
    (void)unused;
    tv_buf_printf(text, "0x%" PRIx32 "%s%s%s", m->status, m->status & TV_WINDOW_BUSY ? " BUSY" : "",
                  m->status & TV_WINDOW_DONE ? " DONE" : "", m->status & TV_WINDOW_ERROR ? " ERROR" : "");
}

static void print_constants(const pccx_machine *m, unsigned bank, tv_buf *text)
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

static void print_commands(const pccx_machine *m, unsigned unused, tv_buf *text)
{
    (void)unused;
    uint64_t waiting = pccx_pending_end(m) - tv_max_u64(m->next, m->count + m->commands_done);
    tv_buf_printf(text, "%" PRIu64 " of %" PRIu64 " words", waiting,
                  tv_config_integer(m->config, PCCX_PARAM_CMD_DEPTH));
}

static void print_stream(const pccx_machine *m, unsigned k, tv_buf *text)
{
    const pccx_weights *w = &m->control.weights[k];
    const tv_descriptor *list = (const tv_descriptor *)(const void *)w->list.data;
    size_t count = w->list.len / sizeof *list;
    tv_buf_printf(text, "%zu of %zu descriptors left, %" PRIu64 " bytes", count - w->next, count, w->left);
    if (w->next < count)
        tv_buf_printf(text, ", the next from host[0x%" PRIx64 "]", list[w->next].addr + w->offset);
}

static void print_fifo(const pccx_machine *m, unsigned fifo, tv_buf *text)
{
    tv_buf_printf(text, "%" PRIu32 " of %" PRIu32 " elements", m->control.fifo_count[fifo], m->control.fifo_elements);
}

/* The operation of an engine that has not ended; NULL: none. The head stays at the last issue when everything has
 * drained. */
static const pccx_slot *find_in_flight(const pccx_machine *m, unsigned e)
{
    const pccx_slot *slot = &m->timing.slots[e];
    return !m->ended && pccx_slot_in_flight(slot, m->timing.head) ? slot : NULL;
}

static void print_in_flight(const pccx_machine *m, unsigned e, tv_buf *text)
{
    const pccx_slot *slot = find_in_flight(m, e);
    uint64_t first = m->instructions - m->next;
    if (!slot) {
        tv_buf_str(text, "nothing");
        return;
    }
    if ((uint64_t)slot->index >= first)
        tv_buf_printf(text, "instruction %" PRIu64 ", ", (uint64_t)slot->index - first);
    tv_buf_printf(text, "%s since cycle %" PRIu64, slot->op.insn->mnemonic, slot->start);
    if (slot->end_known)
        tv_buf_printf(text, " until %" PRIu64, slot->end);
    else
        tv_buf_str(text, ", its end depends on the streams");
}

static void print_ranges(const pccx_machine *m, unsigned e, tv_buf *text)
{
    static const struct {
        const char *name;
        bool has_addresses;
    } storages[PCCX_STORAGES] = {
        [PCCX_STORAGE_L2] = {"l2", true},
        [PCCX_STORAGE_HOST] = {"host", true},
        [PCCX_STORAGE_EMAX] = {"e_max", false},
        [PCCX_STORAGE_FIFO_TO_SFU] = {"the FIFO to the SFU", false},
        [PCCX_STORAGE_FIFO_TO_GEMV] = {"the FIFO to GEMV", false},
    };
    const pccx_slot *slot = find_in_flight(m, e);
    for (unsigned i = 0; slot && i < slot->op.range_count; i++) {
        const pccx_range *r = &slot->op.ranges[i];
        tv_buf_printf(text, "%s%s %s", i ? ", " : "", r->write ? "writes" : "reads", storages[r->storage].name);
        if (storages[r->storage].has_addresses)
            tv_buf_printf(text, "[0x%" PRIx64 " to 0x%" PRIx64 "]", r->from, r->to - 1);
    }
    if (!slot || !slot->op.range_count)
        tv_buf_str(text, "none");
}

/* Values of one group, as many as there are streams or engines; or one value. */
typedef struct state_row {
    const char *group;
    const char *const *names;
    unsigned count;
    void (*print)(const pccx_machine *m, unsigned index, tv_buf *text);
    unsigned first_index; /* of the first value, for `print` */
    const char *doc;
} state_row;

#define ONE(name) (const char *const[]){name}, 1

bool pccx_state_at(void *state, unsigned i, tv_buf *text, tv_state_value *out)
{
    const state_row rows[] = {
        {"registers", ONE("e_max"), print_e_max, 0, "largest result of the last GEMV or GEMM with findemax"},
        {"registers", ONE("status"), print_status, 0, "the driver's STATUS register"},
        {"registers", ONE("fmap_shape"), print_constants, PCCX_FMAP_SHAPE,
         "entries of the Constant Cache that have been written"},
        {"registers", ONE("weight_shape"), print_constants, PCCX_WEIGHT_SHAPE, "the same of the other bank"},
        {"queues", ONE("fifo_to_sfu"), print_fifo, PCCX_FIFO_TO_SFU, "direct FIFO from GEMV to the SFU"},
        {"queues", ONE("fifo_to_gemv"), print_fifo, PCCX_FIFO_TO_GEMV, "direct FIFO from the SFU to GEMV"},
        {"queues", ONE("commands"), print_commands, 0, "words that the host has written and that have not run"},
        {"streams", tv_isa_pccx.streams, PCCX_STREAMS, print_stream, 0, "weight stream"},
        {"pending", pccx_engine_names, PCCX_ENGINE_NONE, print_in_flight, 0, "in flight"},
        {"hazards", pccx_engine_names, PCCX_ENGINE_NONE, print_ranges, 0, "what later instructions must wait for"},
    };
    for (size_t r = 0; r < TV_COUNTOF(rows); i -= rows[r].count, r++) {
        if (i >= rows[r].count)
            continue;
        *out = (tv_state_value){rows[r].group, rows[r].names[i], NULL, rows[r].doc};
        rows[r].print(state, rows[r].first_index + i, text);
        return true;
    }
    return false;
}
