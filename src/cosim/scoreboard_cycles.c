/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles of a scoreboard that are not known when an instruction retires: a machine knows the end of a copy or a product
 * only when nothing later can delay it, and a log has it in a record of its own. Such instructions wait for both ends.
 */
#include <stdlib.h>

#include "cosim/board.h"
#include "machine/recorder.h"

/* ---- Instructions that wait ---- */

/* True if the cycles of an entry that retires are compared later. */
static bool waits_for_end(const tv_scoreboard *b, const board_entry *e)
{
    if (!b->has_completions || b->options.cycle_slack == TV_CYCLE_UNKNOWN || e->fault[0] || e->trap[0])
        return false;
    return e->cycle == TV_CYCLE_UNKNOWN ? e->has_deferred_end : e->end == TV_CYCLE_UNKNOWN;
}

void tv_board_wait(tv_scoreboard *b, board_entry *e, const board_retired *insn)
{
    if (!waits_for_end(b, e))
        return;
    if (TV_VEC_PUSH(&b->waiting, (board_waiting){*insn, e->cycle, e->end, e->file, e->line}))
        e->file = NULL;
    else
        b->failed = true;
}

static board_entry *find_order(tv_scoreboard *b, uint64_t order)
{
    for (size_t i = b->open.count; i-- > 0;)
        if (b->open.data[i]->order == order)
            return b->open.data[i];
    return NULL;
}

/* Stores the ends that are given in *to_end and *to_cycle. */
static void store_ends(uint64_t end, uint64_t cycle, uint64_t *to_end, uint64_t *to_cycle)
{
    *to_end = end == TV_CYCLE_UNKNOWN ? *to_end : end;
    *to_cycle = cycle == TV_CYCLE_UNKNOWN ? *to_cycle : cycle;
}

/* Stores ends of an instruction that has retired, and compares both when they are known. */
static void complete_retired(tv_scoreboard *b, uint64_t order, uint64_t end, uint64_t cycle)
{
    for (size_t i = 0; i < b->waiting.count; i++) {
        board_waiting *w = &b->waiting.data[i];
        if (w->insn.order != order)
            continue;
        store_ends(end, cycle, &w->end, &w->cycle);
        if (w->end == TV_CYCLE_UNKNOWN || w->cycle == TV_CYCLE_UNKNOWN)
            return;
        tv_mismatch m = {.kind = TV_MISMATCH_CYCLE,
                         .tag = w->insn.tag,
                         .number = w->insn.number,
                         .word = w->insn.word,
                         .insn = w->insn.insn[0] ? w->insn.insn : NULL,
                         .file = w->file,
                         .line = w->line};
        tv_board_compare_cycles(b, &m, w->end, w->cycle);
        free(w->file);
        b->waiting.data[i] = b->waiting.data[--b->waiting.count];
        return;
    }
}

void tv_board_complete(tv_scoreboard *b, uint64_t order, uint64_t end, uint64_t cycle)
{
    board_entry *e = find_order(b, order);
    if (e)
        store_ends(end, cycle, &e->end, &e->cycle);
    else
        complete_retired(b, order, end, cycle);
}

/* ---- The machine ---- */

static void receive_completion(void *user, const tv_commit *commit)
{
    tv_board_complete(user, commit->order, commit->end, TV_CYCLE_UNKNOWN);
}

tv_status tv_board_hook(tv_scoreboard *b)
{
    const tv_recorder *r = tv_recorder_of(b->machine);
    if (!r)
        return TV_ERR_MEMORY;
    if (r->completions.commit)
        return TV_ERR_INPUT;
    b->has_completions = b->is_hooked = true;
    return tv_machine_completions(b->machine, &(tv_commit_sink){receive_completion, b});
}

void tv_board_flush(tv_scoreboard *b)
{
    if (b->is_hooked)
        tv_machine_flush_completions(b->machine);
}

void tv_board_unhook(tv_scoreboard *b)
{
    if (b->is_hooked)
        tv_machine_completions(b->machine, NULL);
    for (size_t i = 0; i < b->waiting.count; i++)
        free(b->waiting.data[i].file);
    TV_VEC_FINI(&b->waiting);
}
