/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/totals.h"

#include <stdlib.h>

enum { CACHED_INSNS = 1 << 16, TEXTS_MAX = 4096 };

static const uint64_t NAMES_MAX = UINT64_C(32) << 20;
static const char others_name[] = "(others)";

/* ---- Tables ---- */

/* Doubles the hash table, which is at most half full. */
static bool grow_slots(tv_trace_table *t)
{
    uint32_t count = t->slot_count ? 2 * t->slot_count : 128, mask = count - 1;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return false;
    free(t->slots);
    t->slots = slots;
    t->slot_count = count;
    for (uint32_t n = 0; n < t->rows.count; n++) {
        uint32_t i = (uint32_t)tv_sv_hash(tv_sv_of(t->rows.data[n].name)) & mask;
        while (slots[i])
            i = (i + 1) & mask;
        slots[i] = n + 1;
    }
    return true;
}

tv_trace_row *tv_trace_table_row(tv_trace_table *t, const char *name)
{
    if (t->last < t->rows.count && strcmp(t->rows.data[t->last].name, name) == 0)
        return &t->rows.data[t->last];
    if (2 * t->rows.count == t->slot_count && !grow_slots(t))
        return NULL;
    tv_sv text = tv_sv_of(name);
    uint32_t mask = t->slot_count - 1, i = (uint32_t)tv_sv_hash(text) & mask;
    for (; t->slots[i]; i = (i + 1) & mask)
        if (strcmp(t->rows.data[t->slots[i] - 1].name, name) == 0) {
            t->last = t->slots[i] - 1;
            return &t->rows.data[t->last];
        }
    if (t->rows.count + 1 >= t->limit || t->text + text.len > NAMES_MAX) {
        if (!t->others.name)
            t->others = (tv_trace_row){.name = others_name, .first = UINT64_MAX};
        return &t->others;
    }
    char *copy = tv_arena_str(t->arena, text);
    if (!copy || !TV_VEC_PUSH(&t->rows, (tv_trace_row){.name = copy, .first = UINT64_MAX}))
        return NULL;
    t->text += text.len;
    t->slots[i] = (uint32_t)t->rows.count;
    t->last = t->slots[i] - 1;
    return &t->rows.data[t->last];
}

static int compare_cycles(const void *a, const void *b)
{
    const tv_trace_row *x = a, *y = b;
    if (x->cycles != y->cycles)
        return x->cycles < y->cycles ? 1 : -1;
    return tv_compare_numbered(x->name, y->name);
}

static int compare_names(const void *a, const void *b)
{
    const tv_trace_row *x = a, *y = b;
    return tv_compare_numbered(x->name, y->name);
}

void tv_trace_table_sort(tv_trace_table *t, bool by_name)
{
    if (t->rows.count)
        qsort(t->rows.data, t->rows.count, sizeof *t->rows.data, by_name ? compare_names : compare_cycles);
    if (t->others.name)
        (void)TV_VEC_PUSH(&t->rows, t->others);
}

void tv_trace_table_fini(tv_trace_table *t)
{
    TV_VEC_FINI(&t->rows);
    free(t->slots);
    t->slots = NULL;
}

/* ---- Stalls ---- */

void tv_trace_longest_init(tv_trace_longest *l, tv_arena *arena)
{
    l->texts = (tv_trace_table){.arena = arena, .limit = TEXTS_MAX};
}

/* Creates the cache of instructions when the first one comes: many traces are damaged before that. Unused entries are
 * zero, so calloc need not touch them. Index 0 is found in entry 0 only, where zero is an instruction of which only the
 * index is known. */
static bool create_cache(tv_trace_longest *l)
{
    l->insns = calloc(CACHED_INSNS, sizeof *l->insns);
    return l->insns != NULL;
}

void tv_trace_longest_fini(tv_trace_longest *l)
{
    tv_trace_table_fini(&l->texts);
    free(l->insns);
}

/* Copies a string; NULL stays NULL. false: out of memory. */
static bool copy_text(tv_trace_longest *l, const char *text, const char **out)
{
    tv_trace_row *row = text ? tv_trace_table_row(&l->texts, text) : NULL;
    *out = row ? row->name : NULL;
    return row || !text;
}

/* The cached instruction, or one of which only the index is known. */
static tv_trace_insn find_instruction(const tv_trace_longest *l, int64_t index)
{
    const tv_trace_insn *insn = l->insns && index >= 0 ? &l->insns[index & (CACHED_INSNS - 1)] : NULL;
    return insn && insn->index == index ? *insn : (tv_trace_insn){.index = index};
}

/* Caches an instruction, and completes stalls that refer to it. */
static bool cache_instruction(tv_trace_longest *l, const tv_event *e)
{
    tv_trace_insn insn = {.index = e->index, .line = e->line};
    if (!copy_text(l, e->op, &insn.op) || !copy_text(l, e->file, &insn.file) || (!l->insns && !create_cache(l)))
        return false;
    l->insns[e->index & (CACHED_INSNS - 1)] = insn;
    for (unsigned i = 0; i < l->count; i++) {
        tv_trace_stall *s = &l->rows[i].stall;
        if (s->stalled.index == e->index && !s->stalled.op)
            s->stalled = insn;
        if (s->waits_for.index == e->index && !s->waits_for.op)
            s->waits_for = insn;
    }
    return true;
}

/* Merges the stall with one of other engines by the same instruction at the same time. false: there is none. */
static bool merge_stall(tv_trace_longest *l, const tv_event *e, const char *lane)
{
    for (unsigned i = 0; i < l->count; i++) {
        tv_trace_long_stall *row = &l->rows[i];
        const tv_trace_stall *s = &row->stall;
        if (s->start != e->start || s->end != e->end || s->stalled.index != e->index ||
            s->waits_for.index != e->waits_for || strcmp(s->reason, e->reason) != 0)
            continue;
        size_t n = strlen(row->engines);
        snprintf(row->engines + n, sizeof row->engines - n, " %.40s", lane);
        return true;
    }
    return false;
}

/* Inserts the stall if it is among the longest. */
static bool insert_stall(tv_trace_longest *l, const tv_event *e)
{
    uint64_t cycles = e->end - e->start;
    const char *lane = e->lane ? e->lane : e->engine;
    unsigned at = l->count;
    while (at > 0 && l->rows[at - 1].stall.end - l->rows[at - 1].stall.start < cycles)
        at--;
    if (merge_stall(l, e, lane) || at == TV_TRACE_STALLS || cycles == 0)
        return true;
    tv_trace_long_stall row = {.stall = {.start = e->start,
                                         .end = e->end,
                                         .stalled = find_instruction(l, e->index),
                                         .waits_for = find_instruction(l, e->waits_for)}};
    snprintf(row.engines, sizeof row.engines, "%.40s", lane);
    if (!copy_text(l, e->reason, &row.stall.reason) || (e->op && !copy_text(l, e->op, &row.stall.stalled.op)) ||
        (e->file && !copy_text(l, e->file, &row.stall.stalled.file)))
        return false;
    if (e->file)
        row.stall.stalled.line = e->line;
    memmove(&l->rows[at + 1], &l->rows[at], (l->count - at) * sizeof row);
    l->rows[at] = row;
    if (l->count < TV_TRACE_STALLS)
        l->count++;
    return true;
}

bool tv_trace_longest_event(tv_trace_longest *l, const tv_event *e)
{
    if (e->kind == TV_EVENT_STALL)
        return insert_stall(l, e);
    if ((e->kind == TV_EVENT_ENGINE || e->kind == TV_EVENT_COMMAND) && e->index >= 0)
        return cache_instruction(l, e);
    return true;
}
