/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a queue on a machine: what timing and checks need of each entry, computed once when a queue is loaded.
 * Its arrays are indexed by entry. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/vec.h"
#include "machine/cmdq/internal.h"

enum { ERRORS_MAX = 100 };

void cmdq_plan_fini(cmdq_plan *plan)
{
    free(plan->engine);
    free(plan->role);
    free(plan->cycles);
    free(plan->banks);
    free(plan->macs);
    free(plan->bytes);
    free(plan->ops);
    free(plan->order);
    cmdq_graph_fini(&plan->graph);
    cmdq_plan_unprepare(plan);
    *plan = (cmdq_plan){0};
}

static void set_entry(cmdq_plan *plan, uint32_t i, const cmdq_op *op)
{
    plan->engine[i] = op->engine;
    plan->role[i] = op->role;
    plan->cycles[i] = op->cycles;
    plan->macs[i] = op->macs;
    plan->bytes[i] = op->bytes << 1 | op->writes_dram;
    if (plan->ops) /* the tiles after the last one are not initialized */
        memcpy(&plan->ops[i], op, offsetof(cmdq_op, tiles) + op->tile_count * sizeof op->tiles[0]);
    unsigned n = 0;
    for (unsigned t = 0; t < op->tile_count; t++)
        if (op->tiles[t].bank != CMDQ_NO_BANK)
            plan->banks[i][n++] = op->tiles[t].bank;
    while (n < CMDQ_BANKS_PER_ENTRY)
        plan->banks[i][n++] = CMDQ_NO_BANK;
}

/* ---- Metadata ---- */

/* The location of an element of the metadata. */
static tv_source_loc metadata_loc(const tv_program *program, cmdq_location at)
{
    return (tv_source_loc){.file = program->files[0], .line = at.line, .column = at.column, .index = -1};
}

/* Checks that the initial contents of memories fit; returns the errors reported, at most ERRORS_MAX. */
static uint64_t check_inits(const tv_program *program, const cmdq_params *params, const tv_diag_sink *sink)
{
    const cmdq_queue *q = cmdq_queue_of(program);
    uint64_t errors = 0;
    for (size_t i = 0; i < q->inits.count && errors < ERRORS_MAX; i++) {
        const cmdq_init *init = &q->inits.data[i];
        const tv_source_loc loc = metadata_loc(program, init->loc);
        uint64_t size = init->spm ? params->bank_bytes : params->dram_bytes;
        if (init->spm && init->bank >= params->banks)
            tv_report(sink, TV_ERROR, &cmdq_codes[CMDQ_CODE_SPM_RANGE], &loc, NULL,
                      "metadata: spm_init: there is no bank %" PRIu32 "; the machine has %u", init->bank,
                      params->banks);
        else if (init->addr > size || init->size > size - init->addr)
            tv_report(sink, TV_ERROR, &cmdq_codes[init->spm ? CMDQ_CODE_SPM_RANGE : CMDQ_CODE_DRAM_RANGE], &loc, NULL,
                      "metadata: %s of %" PRIu64 " bytes at 0x%" PRIx64 " runs past the %s",
                      init->spm ? "spm_init" : "dram_init", init->size, init->addr, init->spm ? "bank" : "end of DRAM");
        else
            continue;
        errors++;
    }
    return errors;
}

/* Checks that the outputs are in DRAM; returns the errors reported, at most `limit`. */
static uint64_t check_outputs(const tv_program *program, const cmdq_params *params, const tv_diag_sink *sink,
                              uint64_t limit)
{
    const cmdq_queue *q = cmdq_queue_of(program);
    uint64_t errors = 0;
    for (uint64_t i = 0; i < program->output_count && errors < limit; i++) {
        const tv_output_info *o = &program->outputs[i];
        uint64_t bytes = tv_dtype_bytes(o->type, o->count);
        if (o->addr <= params->dram_bytes && bytes <= params->dram_bytes - o->addr)
            continue;
        errors++;
        const tv_source_loc loc = metadata_loc(program, q->output_locs.data[i]);
        tv_report(sink, TV_ERROR, &cmdq_codes[CMDQ_CODE_DRAM_RANGE], &loc, NULL,
                  "metadata: output '%s' runs past the end of DRAM", o->name);
    }
    return errors;
}

/* ---- Entries ---- */

/* Resolves all entries; returns the errors found, of which at most ERRORS_MAX, with `errors` before them, are reported.
 */
static uint64_t plan_entries(const tv_program *program, const cmdq_params *params, const tv_diag_sink *sink,
                             uint64_t errors, cmdq_plan *plan)
{
    const uint64_t TOTAL_MAX = UINT64_C(1) << 61, CONFLICTS_MAX = CMDQ_ENGINES_MAX * CMDQ_BANKS_PER_ENTRY;
    const cmdq_queue *q = cmdq_queue_of(program);
    uint64_t next_dma = 0, total = 0;
    cmdq_resolve_memo memo;
    memset(memo.is_kept, 0, sizeof memo.is_kept);
    tv_line_cursor cursor = cmdq_line_cursor(program);
    cmdq_count_issue(cmdq_entry_count(q), plan->actions.counts[CMDQ_CONTROL]);
    for (uint32_t i = 0; i < cmdq_entry_count(q); i++) {
        cmdq_op op;
        cmdq_error error;
        if (cmdq_resolve_with(&memo, q, params, i, &next_dma, &op, &error)) {
            set_entry(plan, i, &op);
            if (op.engine != CMDQ_NO_ENGINE)
                cmdq_count_actions(params, &op, plan->actions.counts[op.engine]);
            total += op.cycles + CONFLICTS_MAX * params->conflict;
            if (total <= TOTAL_MAX)
                continue;
            error = (cmdq_error){.code = CMDQ_CODE_TOO_LONG,
                                 .field = CMDQ_FIELDS,
                                 .message = "the queue would take more than 2^61 cycles"};
            total = 0;
        }
        set_entry(plan, i, &(cmdq_op){.engine = CMDQ_NO_ENGINE});
        if (errors++ >= ERRORS_MAX)
            continue;
        const char *member = error.field != CMDQ_FIELDS ? tv_isa_cmdq.parameters[error.field].name : NULL;
        tv_source_loc loc = cmdq_member_loc(program, i, &cursor, member);
        tv_report(sink, TV_ERROR, &cmdq_codes[error.code], &loc, error.hint[0] ? error.hint : NULL, "%s: %s",
                  cmdq_opcode_name(&q->entries.data[i]), error.message);
    }
    return errors;
}

bool cmdq_plan_update(const tv_program *program, const cmdq_params *params, const uint32_t *changed, size_t count,
                      cmdq_plan *plan)
{
    cmdq_actions before = {0}, after = {0};
    cmdq_resolve_memo memo;
    memset(memo.is_kept, 0, sizeof memo.is_kept);
    if (!plan->ops) /* at most CMDQ_KEPT_OPS entries take less than 2^61 cycles, whatever they are */
        return false;
    for (size_t k = 0; k < count; k++) {
        uint32_t i = changed[k];
        uint8_t engine = plan->engine[i];
        uint64_t next_dma = 0;
        cmdq_op op;
        cmdq_error error;
        if (!cmdq_resolve_with(&memo, cmdq_queue_of(program), params, i, &next_dma, &op, &error))
            return false;
        op.engine = engine; /* of a transfer without dma_id, cmdq_resolve does not know it */
        if (engine != CMDQ_NO_ENGINE) {
            cmdq_count_actions(params, &plan->ops[i], before.counts[engine]);
            cmdq_count_actions(params, &op, after.counts[engine]);
        }
        set_entry(plan, i, &op);
    }
    for (unsigned e = 0; e < params->engines; e++)
        for (unsigned a = 0; a < TV_ACTION_COUNT; a++)
            plan->actions.counts[e][a] += after.counts[e][a] - before.counts[e][a];
    return true;
}

/* Orders the entries where that is not the order of ids; reports a dependency cycle that is closed by the queue of an
 * engine. */
static tv_status order_entries(const tv_program *program, const tv_diag_sink *sink, uint64_t *errors, cmdq_plan *plan)
{
    const cmdq_queue *q = cmdq_queue_of(program);
    uint32_t blocked = UINT32_MAX;
    plan->order = tv_array_alloc((size_t)plan->count + 1, sizeof *plan->order);
    if (!plan->order)
        return tv_fail_memory(sink);
    if (cmdq_order(q, &plan->graph, plan->count, plan->engine, plan->order, &blocked))
        return TV_OK;
    if (blocked == UINT32_MAX)
        return tv_fail_memory(sink);
    tv_line_cursor cursor = cmdq_line_cursor(program);
    tv_source_loc loc = cmdq_finding_loc(program, blocked, &cursor, "deps_before");
    tv_buf cycle = {0};
    cmdq_print_cycle(q, &plan->graph, plan->count, plan->engine, blocked, &cycle);
    const char *text = tv_buf_cstr_or_null(&cycle);
    if (text)
        tv_report(sink, TV_ERROR, &cmdq_codes[CMDQ_CODE_CYCLE], &loc,
                  "entries of an engine go in the order of their ids", "entries wait for each other: %s", text);
    tv_buf_fini(&cycle);
    if (!text)
        return tv_fail_memory(sink);
    ++*errors;
    return TV_ERR_INPUT;
}

/* Operations of `n` entries, rounded to a power of two: the steps of a prompt have a few entries more each, and arrays
 * of the same size are put where one was freed, whose pages are there. */
static cmdq_op *allocate_ops(size_t n)
{
    size_t rounded = 64;
    while (rounded < n)
        rounded *= 2;
    return tv_array_alloc(rounded, sizeof(cmdq_op));
}

static bool allocate_plan(const cmdq_queue *q, cmdq_plan *plan)
{
    size_t n = (size_t)cmdq_entry_count(q) + 1;
    *plan = (cmdq_plan){.count = cmdq_entry_count(q),
                        .engine = tv_array_alloc(n, sizeof *plan->engine),
                        .role = tv_array_alloc(n, sizeof *plan->role),
                        .cycles = tv_array_alloc(n, sizeof *plan->cycles),
                        .banks = tv_array_alloc(n, sizeof *plan->banks),
                        .macs = tv_array_alloc(n, sizeof *plan->macs),
                        .bytes = tv_array_alloc(n, sizeof *plan->bytes),
                        .ops = n <= CMDQ_KEPT_OPS ? allocate_ops(n) : NULL};
    return plan->engine && plan->role && plan->cycles && plan->banks && plan->macs && plan->bytes &&
           (plan->ops || n > CMDQ_KEPT_OPS) && cmdq_graph_init(q, cmdq_entry_count(q), &plan->graph);
}

tv_status cmdq_plan_init(const tv_program *program, const cmdq_params *params, const tv_diag_sink *sink,
                         uint64_t *errors, cmdq_plan *plan)
{
    const cmdq_queue *q = cmdq_queue_of(program);
    if (!allocate_plan(q, plan)) {
        cmdq_plan_fini(plan);
        return tv_fail_memory(sink);
    }
    uint64_t found = check_inits(program, params, sink);
    found += check_outputs(program, params, sink, ERRORS_MAX - found);
    found = plan_entries(program, params, sink, found, plan);
    if (found > ERRORS_MAX)
        tv_report(sink, TV_NOTE, &cmdq_codes[CMDQ_CODE_LIMIT], &(tv_source_loc){.file = program->files[0], .index = -1},
                  NULL, "too many errors; the rest is not reported");
    *errors += found;
    tv_status status = found ? TV_ERR_INPUT : TV_OK;
    if (status == TV_OK && q->has_forward_deps)
        status = order_entries(program, sink, errors, plan);
    if (status != TV_OK)
        cmdq_plan_fini(plan);
    return status;
}
