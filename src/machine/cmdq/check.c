/* SPDX-License-Identifier: Apache-2.0 */
/* The static check of a queue: ranges on this machine, dependency cycles, hazards, loads whose data are not used. */
#include <inttypes.h>
#include <stdlib.h>

#include "machine/cmdq/hazard.h"

/* Loads whose bytes are still in a bank. When there are more, the oldest is dropped unreported. */
enum { LOADS_MAX = 128 };

typedef struct spm_load {
    uint32_t entry;
    uint64_t from, to;
    bool used;
} spm_load;

typedef struct bank_loads {
    spm_load at[LOADS_MAX];
    unsigned count;
} bank_loads;

typedef struct checker {
    const tv_program *program;
    const cmdq_queue *queue;
    tv_findings findings;
    bank_loads *banks;
} checker;

static void locate_finding(tv_findings *findings, unsigned code, tv_source_loc *loc)
{
    *loc = cmdq_finding_loc(findings->program, (uint32_t)loc->index, &findings->text,
                            code == CMDQ_CODE_HAZARD ? "deps_before" : "opcode");
}

static tv_findings new_findings(const tv_program *program, const tv_diag_sink *sink, tv_check_counts *counts)
{
    return (tv_findings){.program = program,
                         .sink = sink,
                         .codes = cmdq_codes,
                         .counts = counts,
                         .locate = locate_finding,
                         .text = cmdq_line_cursor(program)};
}

static void report_unused(checker *c, const spm_load *l)
{
    tv_findings_report(&c->findings, TV_WARNING, CMDQ_CODE_UNUSED_LOAD, l->entry, NULL, "nothing reads what %s loads",
                       cmdq_opcode_name(&c->queue->entries.data[l->entry]));
}

static bool is_load(const cmdq_op *op)
{
    const cmdq_tile *dram = cmdq_find_tile(op, CMDQ_DRAM);
    return dram && dram->reads;
}

static void mark_read(checker *c, const cmdq_tile *t)
{
    bank_loads *b = &c->banks[t->bank];
    for (unsigned i = 0; i < b->count; i++)
        b->at[i].used = b->at[i].used || (t->start < b->at[i].to && b->at[i].from < t->start + t->bytes);
}

/* Removes the loads that `t` fully overwrites, and reports those that were not used. */
static void mark_overwritten(checker *c, const cmdq_tile *t, uint32_t entry, bool loaded)
{
    bank_loads *b = &c->banks[t->bank];
    unsigned left = 0;
    for (unsigned i = 0; i < b->count; i++) {
        const spm_load *l = &b->at[i];
        bool covered = t->start <= l->from && l->to <= t->start + t->bytes;
        if (covered && !l->used)
            report_unused(c, l);
        if (!covered)
            b->at[left++] = *l;
    }
    b->count = left;
    if (!loaded)
        return;
    if (b->count == LOADS_MAX)
        memmove(b->at, b->at + 1, --b->count * sizeof b->at[0]);
    b->at[b->count++] = (spm_load){entry, t->start, t->start + t->bytes, false};
}

static void check_loads(checker *c, const cmdq_params *params, const cmdq_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t entry = cmdq_plan_entry(plan, i);
        cmdq_op op;
        cmdq_resolve_planned(c->queue, params, entry, &op);
        for (unsigned k = 0; k < op.tile_count; k++)
            if (op.tiles[k].reads && op.tiles[k].bank != CMDQ_NO_BANK)
                mark_read(c, &op.tiles[k]);
        for (unsigned k = 0; k < op.tile_count; k++)
            if (op.tiles[k].writes && op.tiles[k].bank != CMDQ_NO_BANK)
                mark_overwritten(c, &op.tiles[k], entry, is_load(&op));
    }
    for (unsigned b = 0; b < params->banks; b++)
        for (unsigned i = 0; i < c->banks[b].count; i++)
            if (!c->banks[b].at[i].used)
                report_unused(c, &c->banks[b].at[i]);
}

tv_status cmdq_hazards(const void *state, tv_severity severity, const tv_diag_sink *sink, tv_check_counts *counts)
{
    const cmdq_machine *m = state;
    tv_findings findings = new_findings(m->program, sink, counts);
    uint64_t found = cmdq_find_hazards(m->program, &m->params, &m->plan, CMDQ_WINDOW_MAX, severity, &findings);
    return found != UINT64_MAX ? tv_findings_finish(&findings) : tv_fail_memory(sink);
}

tv_status cmdq_dataflow(const void *state, tv_severity severity, const tv_diag_sink *sink, tv_check_counts *counts)
{
    const cmdq_machine *m = state;
    tv_findings findings = new_findings(m->program, sink, counts);
    if (m->mode == TV_MODE_TIMING) /* no data */
        return TV_OK;
    bool complete = cmdq_check_dataflow(m->program, &m->params, &m->plan, severity, &findings);
    return complete ? tv_findings_finish(&findings) : tv_fail_memory(sink);
}

tv_status cmdq_implied(const tv_program *program, const tv_config *config, const tv_diag_sink *sink, uint64_t *count)
{
    cmdq_params params;
    cmdq_plan plan;
    uint64_t errors = 0;
    cmdq_params_init(&params, config);
    TV_TRY(cmdq_plan_init(program, &params, sink, &errors, &plan));
    tv_status status = cmdq_count_implied(program, &params, &plan, sink, count) ? TV_OK : tv_fail_memory(sink);
    cmdq_plan_fini(&plan);
    return status;
}

tv_status cmdq_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                     tv_check_counts *counts)
{
    cmdq_params params;
    cmdq_plan plan;
    checker c = {.program = program, .queue = cmdq_queue_of(program), .findings = new_findings(program, sink, counts)};
    cmdq_params_init(&params, config);
    tv_status status = cmdq_plan_init(program, &params, sink, &counts->errors, &plan);
    if (status != TV_OK)
        return status == TV_ERR_INPUT ? TV_OK : status; /* the errors have been reported and counted */
    c.banks = calloc(params.banks, sizeof *c.banks);
    if (!c.banks || cmdq_find_hazards(program, &params, &plan, CMDQ_WINDOW_MAX, TV_ERROR, &c.findings) == UINT64_MAX ||
        !cmdq_check_dataflow(program, &params, &plan, TV_WARNING, &c.findings))
        status = tv_fail_memory(sink);
    else
        check_loads(&c, &params, &plan);
    if (status == TV_OK)
        status = tv_findings_finish(&c.findings);
    free(c.banks);
    cmdq_plan_fini(&plan);
    return status;
}
