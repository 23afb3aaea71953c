/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of the log of a design with that of the model: records of the model are issued to a scoreboard, those of
 * the design are its events. */
#include <stdlib.h>

#include "base/diag.h"
#include "cosim/board.h"
#include "cosim/log.h"
#include "machine/instance.h"

typedef struct comparison {
    tv_scoreboard *board;
    tv_commit_log_reader *model, *design;
    const tv_diag_sink *sink;
    const tv_commit *pending; /* of the model: read, and not issued */
    uint64_t pending_order;   /* its own, or its number among the instructions */
    uint64_t pending_line, design_line;
    bool model_ended;
    uint64_t last_order; /* of the model's record that was issued last */
    uint64_t issued;
} comparison;

/* Reads the model's next record of an instruction into `pending`. */
static tv_status read_model(comparison *c)
{
    for (c->pending = NULL; !c->pending && !c->model_ended;) {
        const tv_commit *commit;
        TV_TRY(tv_commit_log_next(c->model, c->sink, &commit, &c->pending_line));
        if (!commit)
            c->model_ended = true;
        else if (commit->kind == TV_COMMIT_COMPLETION)
            tv_board_complete(c->board, commit->order, commit->end, TV_CYCLE_UNKNOWN);
        else if (commit->kind == TV_COMMIT_INSTRUCTION)
            c->pending = commit;
        if (c->pending)
            c->pending_order = commit->order == UINT64_MAX ? c->issued : commit->order;
    }
    return TV_OK;
}

static tv_status fail_record(const comparison *c, const tv_commit_log_reader *log, uint64_t line, const char *what,
                             const char *name)
{
    tv_source_loc loc = {.file = tv_log_name(log), .line = (unsigned)tv_min_u64(line, UINT32_MAX), .index = -1};
    tv_report(c->sink, TV_ERROR, TV_CODE(LOG_FORM), &loc, NULL, "%s%s", what, name);
    return TV_ERR_INPUT;
}

static tv_status fail_model(const comparison *c, const char *what)
{
    return fail_record(c, c->model, c->pending_line, what, "");
}

/* Issues the pending record, with all records of the same order. */
static tv_status issue_pending(comparison *c)
{
    uint64_t order = c->pending_order;
    if (c->issued && order <= c->last_order)
        return fail_model(c, "orders do not increase");
    if (c->board->open.count == OPEN_MAX)
        tv_board_drop(c->board, c->board->open.data[0], "it has not retired before 4095 later ones");
    board_entry *e = tv_board_open(c->board, order);
    if (!e)
        return tv_fail_memory(c->sink);
    bool retired = e->retired;
    e->retired = false; /* compared after the last of its records */
    tv_status status = tv_board_issue(c->board, e, c->pending);
    c->last_order = order;
    c->issued++;
    while (status == TV_OK) {
        status = read_model(c);
        if (status != TV_OK || !c->pending || c->pending_order != order)
            break;
        status = tv_board_extend(c->board, e, c->pending);
    }
    e->retired = retired;
    if (status == TV_OK && retired)
        tv_board_close(c->board, e);
    if (status == TV_ERR_INPUT && c->pending)
        return fail_model(c, "an effect is outside of the spaces of the machine");
    return status == TV_ERR_MEMORY ? tv_fail_memory(c->sink) : status;
}

/* The model's order of a record of the design: its own, or that of the instruction with the same number. */
static tv_status find_order(comparison *c, const tv_commit *d, uint64_t number, uint64_t *order)
{
    bool by_order = d->order != UINT64_MAX;
    while (c->pending && (by_order ? c->pending_order <= d->order : c->issued <= number))
        TV_TRY(issue_pending(c));
    *order = by_order ? d->order : c->issued > number ? c->last_order : UINT64_MAX - number;
    return TV_OK;
}

/* True if a record of its own may have the end. A machine that executes out of order knows no cycles before. */
static bool defers_end(const comparison *c, const tv_commit *d)
{
    bool has_cycles = d->issue != TV_CYCLE_UNKNOWN || d->start != TV_CYCLE_UNKNOWN;
    return d->end == TV_CYCLE_UNKNOWN && (has_cycles || !c->board->machine->target->execute);
}

static tv_status pass_events(comparison *c, const tv_commit *d, uint64_t order)
{
    tv_scoreboard *b = c->board;
    for (unsigned i = 0; i < d->effect_count; i++) {
        const tv_effect *f = &d->effects[i];
        if (!f->write || f->queue || strcmp(f->space, "mmio") == 0)
            continue;
        if (!f->after)
            return fail_record(c, c->design, c->design_line, "an instruction writes without 'after', to ", f->space);
        tv_status status = tv_scoreboard_write(b, order, f->space, f->addr, f->after, (size_t)f->bytes, NULL);
        if (status == TV_ERR_INPUT)
            return fail_record(c, c->design, c->design_line, "the machine has no address space ", f->space);
        TV_TRY(status);
    }
    for (unsigned i = 0; i < d->value_count; i++)
        TV_TRY(tv_scoreboard_value(b, order, &d->values[i]));
    if (d->fault)
        TV_TRY(tv_scoreboard_trap(b, order, d->fault));
    board_entry *e = tv_board_find(b, order);
    if (e && d->word && e->word) {
        e->has_design_word = true;
        e->design_word = d->word;
    }
    if (e)
        e->has_deferred_end = defers_end(c, d);
    return TV_OK;
}

/* Passes all records of the design. One with more than 1 MiB of effects is several with the same order. */
static tv_status compare_records(comparison *c)
{
    uint64_t number = 0, order = 0, previous = UINT64_MAX, cycle = TV_CYCLE_UNKNOWN;
    bool is_ordered = false;
    TV_TRY(read_model(c));
    for (;;) {
        const tv_commit *d;
        TV_TRY(tv_commit_log_next(c->design, c->sink, &d, &c->design_line));
        if (d && d->kind == TV_COMMIT_COMPLETION && is_ordered) {
            if (d->order == previous)
                cycle = d->end;
            else
                tv_board_complete(c->board, d->order, TV_CYCLE_UNKNOWN, d->end);
        }
        if (d && d->kind != TV_COMMIT_INSTRUCTION)
            continue;
        bool continues = d && d->order != UINT64_MAX && d->order == previous;
        if (previous != UINT64_MAX && !continues)
            TV_TRY(tv_scoreboard_retire(c->board, previous, cycle));
        if (!d)
            return TV_OK;
        if (!continues) {
            TV_TRY(find_order(c, d, number++, &order));
            cycle = d->end;
            is_ordered = d->order != UINT64_MAX;
        }
        TV_TRY(pass_events(c, d, order));
        previous = order;
    }
}

tv_status tv_commit_log_compare(tv_machine *machine, tv_commit_log_reader *model, tv_commit_log_reader *design,
                                const tv_scoreboard_options *options, const tv_diag_sink *sink,
                                tv_scoreboard_counts *out)
{
    comparison c = {.model = model, .design = design, .sink = sink};
    const tv_commit_log_reader *const logs[] = {model, design};
    for (unsigned i = 0; i < 2; i++)
        if (strcmp(tv_commit_log_target(logs[i]), tv_machine_target(machine)) != 0)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(LOG_TARGETS), NULL, "the commit log is of %s, the machine is %s",
                           tv_commit_log_target(logs[i]), tv_machine_target(machine));
    tv_status status = tv_board_new(machine, options, false, &c.board);
    if (status == TV_ERR_INPUT)
        return tv_fail_size(sink, "tv_scoreboard_options");
    if (status != TV_OK)
        return tv_fail_memory(sink);
    c.board->has_completions = true;
    status = compare_records(&c);
    while (status == TV_OK && c.pending)
        status = issue_pending(&c);
    if (status == TV_OK)
        status = tv_scoreboard_finish(c.board, out);
    if (status == TV_ERR_MEMORY)
        status = tv_fail_memory(sink);
    tv_scoreboard_free(c.board);
    return status;
}
