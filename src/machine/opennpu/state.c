/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the OpenNPU machine: the state visitor for snapshots, and descriptions for the debugger. */
#include <inttypes.h>

#include "machine/opennpu/registers.h"

#define VISIT(x) tv_visit_bytes(visitor, &(x), sizeof(x))

void opennpu_visit_state(void *state, tv_state_visitor *visitor)
{
    opennpu_machine *m = state;
    const opennpu_timing own = m->timing; /* pointers belong to this machine, not to the snapshot */
    tv_visit_bytes(visitor, m->registers, (size_t)m->l * m->k);
    VISIT(m->lane_form);
    VISIT(m->lut);
    tv_visit_bytes(visitor, m->acc, (size_t)m->k * m->k * sizeof *m->acc);
    VISIT(m->drained);
    VISIT(m->others);
    VISIT(m->drain_ends);
    VISIT(m->pending);
    tv_visit_bytes(visitor, m->pending_a, (size_t)m->pending * m->k);
    tv_visit_bytes(visitor, m->pending_b, (size_t)m->pending * m->k);
    VISIT(m->column);
    VISIT(m->timing);
    m->timing.opcodes = own.opcodes;
    m->timing.emitter.sink = own.emitter.sink;
    VISIT(m->program);
    VISIT(m->next);
    VISIT(m->count);
    VISIT(m->instructions);
    tv_visit_bytes(visitor, m->executed, (size_t)m->opcodes.count * OPENNPU_PROFILES * sizeof *m->executed);
    tv_visit_memory(visitor, &m->memory);
    if (tv_visit_is_restoring(visitor))
        m->fault.raised = false;
}

/* The first lanes of a base row. */
static void print_row(opennpu_machine *m, unsigned index, tv_buf *text)
{
    enum { SHOWN = 8 };
    const int8_t *lanes = (const int8_t *)opennpu_plane(m, index);
    bool zero = true;
    for (uint32_t i = 0; i < m->k; i++)
        zero &= lanes[i] == 0;
    for (uint32_t i = 0; i < m->k && i < SHOWN && !zero; i++)
        tv_buf_printf(text, i ? " %d" : "%d", lanes[i]);
    tv_buf_str(text, zero ? "0 in every lane" : m->k > SHOWN ? " …" : "");
}

static void print_lut(const opennpu_machine *m, unsigned bank, tv_buf *text)
{
    unsigned filled = 0;
    for (unsigned i = 0; i < OPENNPU_LUT_ENTRIES; i++)
        filled += m->lut[bank][i] != 0;
    tv_buf_printf(text, "%u of %d entries are not 0", filled, OPENNPU_LUT_ENTRIES);
}

/* The instruction of this program that has number `index` among all that have run. */
static void print_instruction(const opennpu_machine *m, int64_t index, tv_buf *text)
{
    uint64_t first = m->instructions - m->next;
    if (index >= 0 && (uint64_t)index >= first)
        tv_buf_printf(text, " of instruction %" PRIu64, (uint64_t)index - first);
}

/* True if everything is complete, because no instruction follows. */
static bool has_ended(const opennpu_machine *m) { return m->next >= m->count; }

static void print_pending(const opennpu_machine *m, tv_buf *text)
{
    const opennpu_timing *t = &m->timing;
    for (unsigned r = 0; r < m->l; r++) {
        if (has_ended(m) || t->completes[r] <= t->next_tick)
            continue;
        tv_buf_printf(text, "%svx%u at tick %" PRIu64, text->len ? ", " : "", r, t->completes[r]);
        print_instruction(m, t->writer[r], text);
    }
    if (!text->len)
        tv_buf_str(text, "nothing");
}

static void print_port(const opennpu_machine *m, tv_buf *text)
{
    const opennpu_timing *t = &m->timing;
    if (has_ended(m) || t->port_free <= t->next_tick) {
        tv_buf_str(text, "free");
        return;
    }
    tv_buf_printf(text, "busy until tick %" PRIu64, t->port_free);
    print_instruction(m, t->port_owner, text);
}

static void print_array(const opennpu_machine *m, tv_buf *text)
{
    const opennpu_timing *t = &m->timing;
    if (!t->accumulated) {
        tv_buf_str(text, "no mma yet");
        return;
    }
    uint64_t first_tick = t->accumulate_tick + t->k + t->column;
    tv_buf_printf(text,
                  first_tick > t->next_tick ? "mma.last can issue at tick %" PRIu64
                                            : "mma.last can issue since tick %" PRIu64,
                  first_tick);
}

bool opennpu_state_at(void *state, unsigned i, tv_buf *text, tv_state_value *out)
{
    static const char *const names[OPENNPU_L_MAX] = {"vx0",  "vx1",  "vx2",  "vx3",  "vx4",  "vx5",  "vx6",  "vx7",
                                                     "vx8",  "vx9",  "vx10", "vx11", "vx12", "vx13", "vx14", "vx15",
                                                     "vx16", "vx17", "vx18", "vx19", "vx20", "vx21", "vx22", "vx23",
                                                     "vx24", "vx25", "vx26", "vx27", "vx28", "vx29", "vx30", "vx31"};
    enum value { COLUMN, LUT_A, LUT_B, PENDING, PORT, ARRAY, VALUES };
    static const tv_state_value fixed[] = {
        [COLUMN] = {"registers", "column", NULL, "column of ACC that the next mma.last reads"},
        [LUT_A] = {"registers", "lut_a", NULL, "LUT bank A"},
        [LUT_B] = {"registers", "lut_b", NULL, "LUT bank B"},
        [PENDING] = {"pending", "results", NULL, "registers whose result is not complete yet"},
        [PORT] = {"pending", "port", NULL, "memory port"},
        [ARRAY] = {"hazards", "acc", NULL, "when the next mma.last can issue"},
    };
    opennpu_machine *m = state;
    if (i >= VALUES + m->l)
        return false;
    if (i >= VALUES) {
        *out = (tv_state_value){"registers", names[i - VALUES], NULL, "lanes as 8-bit integers"};
        print_row(m, i - VALUES, text);
        return true;
    }
    *out = fixed[i];
    switch ((enum value)i) {
    case COLUMN:
        tv_buf_printf(text, "%" PRIu32, m->column);
        break;
    case LUT_A:
    case LUT_B:
        print_lut(m, i - LUT_A, text);
        break;
    case PENDING:
        print_pending(m, text);
        break;
    case PORT:
        print_port(m, text);
        break;
    case ARRAY:
        print_array(m, text);
        break;
    case VALUES:
        break;
    }
    return true;
}
