/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the CMDQ machine: for snapshots, and as text. */
#include <inttypes.h>
#include <stdlib.h>

#include "machine/cmdq/internal.h"

#define VISIT(x) tv_visit_bytes(visitor, &(x), sizeof(x))

/* The plan is not part of a snapshot: it is made again if the restored program is another. */
static void restore_plan(cmdq_machine *m, const tv_program *before, tv_state_visitor *visitor)
{
    uint64_t errors = 0;
    if (!tv_visit_is_restoring(visitor) || m->program == before)
        return;
    cmdq_plan_fini(&m->plan);
    m->plan = (cmdq_plan){0};
    if (!m->program)
        return;
    if (cmdq_plan_init(m->program, &m->params, NULL, &errors, &m->plan) != TV_OK ||
        (m->mode != TV_MODE_FUNCTIONAL && !cmdq_plan_prepare(&m->plan))) {
        cmdq_plan_fini(&m->plan);
        m->program = NULL;
        tv_visit_fail(visitor);
    }
}

void cmdq_visit_state(void *state, tv_state_visitor *visitor)
{
    cmdq_machine *m = state;
    const tv_program *program = m->program;
    cmdq_materialize_loads(&m->memories);
    VISIT(m->program);
    restore_plan(m, program, visitor);
    VISIT(m->timing);
    m->timing.starts = NULL;
    for (unsigned e = 0; e < m->params.engines; e++)
        m->timing.accounts[e].name = m->params.names[e];
    VISIT(m->next);
    VISIT(m->ended);
    VISIT(m->base);
    VISIT(m->macs);
    VISIT(m->bytes);
    VISIT(m->role_bytes);
    VISIT(m->actions);
    tv_visit_memory(visitor, &m->memories.spm);
    tv_visit_memory(visitor, &m->memories.dram);
    if (tv_visit_is_restoring(visitor)) {
        m->limit_cycles = UINT64_MAX;
        m->fault.raised = false;
    }
}

/* ---- As text ---- */

enum { LISTED_MAX = 4, EXAMINED_MAX = 65536 };

/* A bit for each entry that has been executed, if the order of execution is not that of ids, otherwise NULL. NULL also
 * when out of memory: then no entry counts as executed. The caller frees it. */
static uint8_t *executed_set(const cmdq_machine *m)
{
    uint8_t *done = m->plan.order ? calloc(m->plan.count / 8 + 1, 1) : NULL;
    for (uint32_t i = 0; done && i < m->next; i++)
        done[m->plan.order[i] / 8] |= (uint8_t)(1 << m->plan.order[i] % 8);
    return done;
}

static bool is_executed(const cmdq_machine *m, const uint8_t *done, uint32_t entry)
{
    return m->plan.order ? done && done[entry / 8] >> entry % 8 & 1 : entry < m->next;
}

static void print_entry(const cmdq_machine *m, uint32_t entry, tv_buf *text)
{
    tv_buf_printf(text, "%" PRIu32 " %s", entry, cmdq_opcode_name(&cmdq_queue_of(m->program)->entries.data[entry]));
}

/* Prints the dependencies of an entry that have not been executed. */
static void print_waits(const cmdq_machine *m, uint32_t entry, tv_buf *text)
{
    const cmdq_queue *q = cmdq_queue_of(m->program);
    const cmdq_entry *e = &q->entries.data[entry];
    cmdq_ids ids = cmdq_entry_list(q, e, CMDQ_DEPS_BEFORE);
    unsigned listed = 0;
    uint8_t *done = executed_set(m);
    text->failed |= !done && m->plan.order;
    for (uint32_t i = 0; i < ids.count; i++) {
        if (is_executed(m, done, ids.at[i]) || listed++ >= LISTED_MAX)
            continue;
        tv_buf_str(text, listed > 1 ? ", " : " after ");
        print_entry(m, ids.at[i], text);
    }
    if (listed > LISTED_MAX)
        tv_buf_printf(text, " and %u more", listed - LISTED_MAX);
    uint32_t barrier = m->plan.graph.barrier[entry];
    if (barrier && !is_executed(m, done, m->plan.graph.barriers[barrier - 1]))
        tv_buf_printf(text, " after barrier %" PRIu32, m->plan.graph.barriers[barrier - 1]);
    if (e->wait_group && !is_executed(m, done, e->wait_group - 1))
        tv_buf_printf(text, " for group %" PRIu32, e->wait_group - 1);
    free(done);
}

static void print_engine(const cmdq_machine *m, unsigned engine, tv_buf *text)
{
    uint32_t left = 0, first = UINT32_MAX;
    uint32_t end = m->plan.count - m->next > EXAMINED_MAX ? m->next + EXAMINED_MAX : m->plan.count;
    for (uint32_t i = m->next; i < end; i++) {
        uint32_t entry = cmdq_plan_entry(&m->plan, i);
        if (m->plan.engine[entry] != engine)
            continue;
        left++;
        first = first == UINT32_MAX ? entry : first;
    }
    if (first == UINT32_MAX) {
        tv_buf_str(text, "empty");
        return;
    }
    tv_buf_printf(text, "%" PRIu32 "%s left, next ", left, end < m->plan.count ? " or more" : "");
    print_entry(m, first, text);
    print_waits(m, first, text);
}

/* Prints the entries of `opcode` that have not been executed. */
static void print_controls(const cmdq_machine *m, cmdq_opcode opcode, tv_buf *text)
{
    unsigned left = 0;
    uint32_t end = m->plan.count - m->next > EXAMINED_MAX ? m->next + EXAMINED_MAX : m->plan.count;
    for (uint32_t i = m->next; i < end; i++) {
        uint32_t entry = cmdq_plan_entry(&m->plan, i);
        if (cmdq_queue_of(m->program)->entries.data[entry].opcode != opcode || left++ >= LISTED_MAX)
            continue;
        tv_buf_printf(text, left > 1 ? ", %" PRIu32 : "%" PRIu32, entry);
    }
    if (left > LISTED_MAX)
        tv_buf_printf(text, " and %u more", left - LISTED_MAX);
    else if (!left)
        tv_buf_str(text, "none left");
}

/* Prints the next entry, with its explicit dependencies. */
static void print_next(const cmdq_machine *m, tv_buf *text)
{
    if (m->next == m->plan.count) {
        tv_buf_str(text, "none");
        return;
    }
    const cmdq_queue *q = cmdq_queue_of(m->program);
    uint32_t entry = cmdq_plan_entry(&m->plan, m->next);
    cmdq_ids ids = cmdq_entry_list(q, &q->entries.data[entry], CMDQ_DEPS_BEFORE);
    print_entry(m, entry, text);
    for (uint32_t k = 0; k < ids.count && k < LISTED_MAX; k++) {
        tv_buf_str(text, k ? ", " : " after ");
        print_entry(m, ids.at[k], text);
    }
    if (ids.count > LISTED_MAX)
        tv_buf_printf(text, " and %" PRIu32 " more", ids.count - LISTED_MAX);
}

bool cmdq_state_at(void *state, unsigned i, tv_buf *text, tv_state_value *out)
{
    enum { EXECUTED, BARRIERS, GROUPS, NEXT, ENGINE };
    static const tv_state_value fixed[] = {
        [EXECUTED] = {"registers", "entries", NULL, "entries that have been executed"},
        [BARRIERS] = {"pending", "barriers", NULL, "barriers that have not been passed"},
        [GROUPS] = {"pending", "groups", NULL, "groups that are not complete"},
        [NEXT] = {"hazards", "next", NULL, "the next entry, and its dependencies"},
    };
    cmdq_machine *m = state;
    if (i >= ENGINE + m->params.engines || !m->program)
        return false;
    if (i >= ENGINE) {
        *out = (tv_state_value){"queues", m->params.names[i - ENGINE], NULL, "the engine's queue"};
        print_engine(m, i - ENGINE, text);
        return true;
    }
    *out = fixed[i];
    switch (i) {
    case EXECUTED:
        tv_buf_printf(text, "%" PRIu32 " of %" PRIu32, m->next, m->plan.count);
        break;
    case BARRIERS:
        print_controls(m, CMDQ_BARRIER, text);
        break;
    case GROUPS:
        print_controls(m, CMDQ_SYNC_GROUP, text);
        break;
    case NEXT:
        print_next(m, text);
        break;
    }
    return true;
}
