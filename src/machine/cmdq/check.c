/* SPDX-License-Identifier: Apache-2.0 */
/* The static check of a queue: ranges on this machine, circles, hazards, loads that nothing uses. */
#include <inttypes.h>
#include <stdlib.h>

#include "machine/cmdq/hazard.h"

/* Loads whose bytes still stand in a bank. Old ones are forgotten when there are many. */
enum { LOADS_MAX = 128 };

typedef struct load {
    uint32_t entry;
    uint64_t from, to;
    bool used;
} load;

typedef struct loads {
    load at[LOADS_MAX];
    unsigned count;
} loads;

typedef struct checker {
    const tv_program *program;
    const cmdq_queue *queue;
    tv_findings findings;
    loads *banks;
} checker;

static void complain(checker *c, const load *l)
{
    tv_findings_report(&c->findings, TV_WARNING, CMDQ_CODE_UNUSED_LOAD, l->entry, NULL, "nothing reads what %s loads",
                       cmdq_name(&c->queue->entries[l->entry]));
}

static bool is_load(unsigned opcode)
{
    return opcode == CMDQ_DMA_LOAD_TILE || opcode == CMDQ_DMA_PREFETCH_TILE || opcode == CMDQ_KV_LOAD_TILE;
}

static void read_tile(checker *c, const cmdq_tile *t)
{
    loads *b = &c->banks[t->bank];
    for (unsigned i = 0; i < b->count; i++)
        b->at[i].used = b->at[i].used || (t->start < b->at[i].to && b->at[i].from < t->start + t->bytes);
}

/* What is written over is gone: where nothing has read it, the load was in vain. */
static void write_tile(checker *c, const cmdq_tile *t, uint32_t entry, bool loads_it)
{
    loads *b = &c->banks[t->bank];
    unsigned kept = 0;
    for (unsigned i = 0; i < b->count; i++) {
        const load *l = &b->at[i];
        bool covered = t->start <= l->from && l->to <= t->start + t->bytes;
        if (covered && !l->used)
            complain(c, l);
        if (!covered)
            b->at[kept++] = *l;
    }
    b->count = kept;
    if (!loads_it)
        return;
    if (b->count == LOADS_MAX)
        memmove(b->at, b->at + 1, --b->count * sizeof b->at[0]);
    b->at[b->count++] = (load){entry, t->start, t->start + t->bytes, false};
}

static void check_loads(checker *c, const cmdq_params *shape, const cmdq_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t entry = plan->order ? plan->order[i] : i;
        cmdq_op op;
        cmdq_error wrong;
        uint64_t turn = 0;
        cmdq_resolve(c->queue, shape, entry, &turn, &op, &wrong);
        for (unsigned k = 0; k < op.tile_count; k++)
            if (op.tiles[k].reads && op.tiles[k].bank != CMDQ_NO_BANK)
                read_tile(c, &op.tiles[k]);
        for (unsigned k = 0; k < op.tile_count; k++)
            if (op.tiles[k].writes && op.tiles[k].bank != CMDQ_NO_BANK)
                write_tile(c, &op.tiles[k], entry, is_load(op.opcode));
    }
    for (unsigned b = 0; b < shape->banks; b++)
        for (unsigned i = 0; i < c->banks[b].count; i++)
            if (!c->banks[b].at[i].used)
                complain(c, &c->banks[b].at[i]);
}

tv_status cmdq_hazards(const void *state, tv_severity severity, const tv_diag_sink *sink, tv_check_counts *counts)
{
    const cmdq_machine *m = state;
    tv_findings findings = {.program = m->program, .sink = sink, .codes = cmdq_codes, .counts = counts};
    uint64_t found = cmdq_find_hazards(m->program, &m->shape, &m->plan, CMDQ_WINDOW_MAX, severity, &findings);
    tv_findings_report_omitted(&findings);
    return found != UINT64_MAX ? TV_OK : tv_fail_memory(sink);
}

tv_status cmdq_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                     tv_check_counts *counts)
{
    cmdq_params shape;
    cmdq_plan plan;
    checker c = {.program = program,
                 .queue = cmdq_queue_of(program),
                 .findings = {.program = program, .sink = sink, .codes = cmdq_codes, .counts = counts}};
    cmdq_params_init(&shape, config);
    tv_status status = cmdq_plan_make(program, &shape, sink, &counts->errors, &plan);
    if (status != TV_OK)
        return status == TV_ERR_INPUT ? TV_OK : status; /* what is wrong has been told and counted */
    c.banks = calloc(shape.banks, sizeof *c.banks);
    if (!c.banks || cmdq_find_hazards(program, &shape, &plan, CMDQ_WINDOW_MAX, TV_ERROR, &c.findings) == UINT64_MAX)
        status = tv_fail_memory(sink);
    else
        check_loads(&c, &shape, &plan);
    tv_findings_report_omitted(&c.findings);
    free(c.banks);
    cmdq_plan_free(&plan);
    return status;
}
