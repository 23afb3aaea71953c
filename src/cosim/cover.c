/* SPDX-License-Identifier: Apache-2.0 */
/* Coverage: counting what a machine executes. */
#include "trivet/cover.h"

#include <stdlib.h>

#include "base/diag.h"
#include "cosim/coverage.h"
#include "machine/instance.h"

/* ---- A coverage ---- */

tv_status tv_cover_new_for(const tv_isa *isa, const tv_diag_sink *sink, tv_cover **out)
{
    tv_cover *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return tv_fail_memory(sink);
    c->isa = isa;
    tv_status status = tv_codec_new_for(isa, sink, &c->codec);
    if (status == TV_OK)
        status = tv_cover_build(c, sink);
    if (status == TV_OK)
        *out = c;
    else
        tv_cover_free(c);
    return status;
}

void tv_cover_free(tv_cover *c)
{
    if (!c)
        return;
    TV_VEC_FINI(&c->bins);
    TV_VEC_FINI(&c->shown);
    TV_VEC_FINI(&c->blocks);
    TV_VEC_FINI(&c->axes);
    TV_VEC_FINI(&c->lists);
    free(c->engines);
    tv_arena_fini(&c->arena);
    tv_codec_free(c->codec);
    free(c);
}

int tv_cover_bin_at(const tv_cover *c, unsigned i, tv_cover_bin *out)
{
    if (i >= c->shown.count)
        return 0;
    *out = c->bins.data[c->shown.data[i]];
    return 1;
}

tv_cover_counts tv_cover_count(const tv_cover *c, const char *group)
{
    tv_cover_counts counts = {0};
    for (size_t i = 0; i < c->shown.count; i++) {
        const tv_cover_bin *bin = &c->bins.data[c->shown.data[i]];
        if (group && strcmp(bin->group, group) != 0)
            continue;
        counts.bins++;
        if (bin->hits >= bin->goal)
            counts.covered++;
        else if (bin->reason)
            counts.unreachable++;
        else
            counts.open++;
    }
    return counts;
}

const char *tv_cover_target(const tv_cover *c) { return c->isa->target; }

uint64_t tv_cover_instructions(const tv_cover *c) { return c->instructions; }

/* ---- Counting ---- */

/* The bin of a list of words, of the only block of that kind and first word; COVER_NONE: it is none. */
static void hit_listed(tv_cover *c, cover_kind kind, const char *name)
{
    for (uint32_t i = 0; i < c->others.count; i++) {
        const cover_block *block = &c->blocks.data[c->others.first + i];
        for (uint32_t k = 0; k < block->count && block->rule->kind == kind; k++)
            if (strcmp(c->bins.data[block->first + k].name, name) == 0)
                tv_cover_hit(c, block->first + k);
    }
}

/* The row of the instruction of a record; -1: it is none. */
static int64_t row_of(const tv_cover *c, const tv_commit *commit)
{
    if (c->isa->word_bits)
        return tv_codec_row(c->codec, commit->word, NULL);
    const tv_program *program = c->machine->program;
    if (commit->origin != TV_ORIGIN_PROGRAM || !program || commit->index >= program->instruction_count)
        return -1;
    for (unsigned row = 0; row < c->isa->insn_count; row++)
        if (commit->insn && strcmp(c->isa->insns[row].id, commit->insn) == 0)
            return row;
    return -1;
}

static void count_instruction(tv_cover *c, uint32_t insn, const tv_commit *commit)
{
    const cover_list *list = &c->lists.data[insn];
    for (uint32_t i = 0; i < list->count; i++)
        if (c->blocks.data[list->first + i].rule->kind == COVER_INSTRUCTIONS)
            tv_cover_hit(c, c->blocks.data[list->first + i].first);
    if (c->isa->word_bits)
        tv_cover_count_word(c, insn, commit->word);
    else
        tv_cover_count_entry(c, c->machine->program, (uint32_t)commit->index);
    tv_cover_count_accesses(c, insn, commit);
    tv_cover_count_dependences(c, insn, commit);
}

static void count_commit(void *user, const tv_commit *commit)
{
    tv_cover *c = user;
    if (commit->kind != TV_COMMIT_INSTRUCTION)
        return;
    int64_t row = row_of(c, commit);
    if (commit->fault && c->ignores_faults)
        return;
    c->instructions++;
    if (commit->fault)
        hit_listed(c, COVER_FAULTS, commit->fault_name);
    else if (row >= 0)
        count_instruction(c, (uint32_t)row, commit);
}

static void count_event(void *user, const tv_event *event)
{
    char name[96];
    if (event->kind != TV_EVENT_STALL || !event->engine || !event->reason)
        return;
    snprintf(name, sizeof name, "%s %s", event->engine, event->reason);
    hit_listed(user, COVER_STALLS, name);
}

tv_status tv_cover_attach(tv_cover *c, tv_machine *machine, const tv_diag_sink *sink)
{
    tv_commit_sink commits = {count_commit, c};
    tv_trace_sink events = {.event = count_event, .user = c, .without_energy = 1};
    if (c->machine || machine->target->isa != c->isa)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(COVER_USE), NULL,
                       c->machine ? "a machine is attached to the coverage already"
                                  : "the machine is %s, and the coverage that of %s",
                       machine->target->name, c->isa->target);
    TV_TRY(tv_machine_commits(machine, TV_COMMIT_WRITES | TV_COMMIT_READS, &commits));
    tv_machine_trace(machine, &events);
    c->machine = machine;
    c->steps = c->next = 0;
    return TV_OK;
}

void tv_cover_detach(tv_cover *c)
{
    if (!c->machine)
        return;
    tv_machine_trace(c->machine, NULL);
    tv_machine_commits(c->machine, 0, NULL);
    c->machine = NULL;
}
