/* SPDX-License-Identifier: Apache-2.0 */
/* Sums by name and the longest stalls, in bounded memory. */
#include "trace/totals.h"

#include <stdlib.h>

enum { RECENT = 1 << 16, TEXTS = 4096 };

static const uint64_t NAMES_MAX = UINT64_C(32) << 20;
static const char others_name[] = "(others)";

/* ---- Tables ---- */

static bool grow(tv_trace_table *t)
{
    uint32_t room = t->room ? 2 * t->room : 64;
    tv_trace_row *rows = realloc(t->rows, room * sizeof *rows);
    uint32_t *slots = calloc(2 * (size_t)room, sizeof *slots);
    if (rows)
        t->rows = rows;
    if (!rows || !slots) {
        free(slots);
        return false;
    }
    free(t->slots);
    t->slots = slots;
    t->room = room;
    t->mask = 2 * room - 1;
    for (uint32_t n = 0; n < t->count; n++) {
        uint32_t i = (uint32_t)tv_sv_hash(tv_sv_of(t->rows[n].name)) & t->mask;
        while (slots[i])
            i = (i + 1) & t->mask;
        slots[i] = n + 1;
    }
    return true;
}

tv_trace_row *tv_trace_table_row(tv_trace_table *t, const char *name)
{
    if (t->last < t->count && strcmp(t->rows[t->last].name, name) == 0)
        return &t->rows[t->last];
    if (t->count == t->room && !grow(t))
        return NULL;
    tv_sv text = tv_sv_of(name);
    uint32_t i = (uint32_t)tv_sv_hash(text) & t->mask;
    for (; t->slots[i]; i = (i + 1) & t->mask)
        if (strcmp(t->rows[t->slots[i] - 1].name, name) == 0) {
            t->last = t->slots[i] - 1;
            return &t->rows[t->last];
        }
    if (t->count + 1 >= t->limit || t->text + text.len > NAMES_MAX) {
        if (!t->others.name)
            t->others = (tv_trace_row){.name = others_name, .first = UINT64_MAX};
        return &t->others;
    }
    char *copy = tv_arena_str(t->arena, text);
    if (!copy)
        return NULL;
    t->text += text.len;
    t->last = t->count++;
    t->slots[i] = t->count;
    t->rows[t->last] = (tv_trace_row){.name = copy, .first = UINT64_MAX};
    return &t->rows[t->last];
}

static int by_cycles(const void *a, const void *b)
{
    const tv_trace_row *x = a, *y = b;
    if (x->cycles != y->cycles)
        return x->cycles < y->cycles ? 1 : -1;
    return strcmp(x->name, y->name);
}

void tv_trace_table_sort(tv_trace_table *t)
{
    if (t->count)
        qsort(t->rows, t->count, sizeof *t->rows, by_cycles);
    if (t->others.name && (t->count < t->room || grow(t)))
        t->rows[t->count++] = t->others;
}

void tv_trace_table_fini(tv_trace_table *t)
{
    free(t->rows);
    free(t->slots);
    t->rows = NULL;
    t->slots = NULL;
}

/* ---- Stalls ---- */

bool tv_trace_longest_init(tv_trace_longest *l, tv_arena *arena)
{
    l->texts = (tv_trace_table){.arena = arena, .limit = TEXTS};
    l->recent = malloc(RECENT * sizeof *l->recent);
    for (size_t i = 0; l->recent && i < RECENT; i++)
        l->recent[i] = (tv_trace_insn){.index = -1};
    return l->recent != NULL;
}

void tv_trace_longest_fini(tv_trace_longest *l)
{
    tv_trace_table_fini(&l->texts);
    free(l->recent);
}

/* A text that stays; NULL for NULL. */
static bool keep(tv_trace_longest *l, const char *text, const char **out)
{
    tv_trace_row *row = text ? tv_trace_table_row(&l->texts, text) : NULL;
    *out = row ? row->name : NULL;
    return row || !text;
}

static tv_trace_insn recall(const tv_trace_longest *l, int64_t index)
{
    const tv_trace_insn *insn = index >= 0 ? &l->recent[index & (RECENT - 1)] : NULL;
    return insn && insn->index == index ? *insn : (tv_trace_insn){.index = index};
}

/* Remembers an instruction, and tells the stalls that have waited to know it. */
static bool learn(tv_trace_longest *l, const tv_event *e)
{
    tv_trace_insn insn = {.index = e->index, .line = e->line};
    if (!keep(l, e->op, &insn.op) || !keep(l, e->file, &insn.file))
        return false;
    l->recent[e->index & (RECENT - 1)] = insn;
    for (unsigned i = 0; i < l->count; i++) {
        tv_trace_stall *s = &l->rows[i].stall;
        if (s->stalled.index == e->index && !s->stalled.op)
            s->stalled = insn;
        if (s->waits_for.index == e->index && !s->waits_for.op)
            s->waits_for = insn;
    }
    return true;
}

/* Engines that the same instruction holds for the same time are one stall. */
static bool joins(tv_trace_longest *l, const tv_event *e, const char *lane)
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

static bool take_stall(tv_trace_longest *l, const tv_event *e)
{
    uint64_t cycles = e->end - e->start;
    const char *lane = e->lane ? e->lane : e->engine;
    unsigned at = l->count;
    while (at > 0 && l->rows[at - 1].stall.end - l->rows[at - 1].stall.start < cycles)
        at--;
    if (joins(l, e, lane) || at == TV_TRACE_STALLS || cycles == 0)
        return true;
    tv_trace_long_stall row = {
        .stall = {
            .start = e->start, .end = e->end, .stalled = recall(l, e->index), .waits_for = recall(l, e->waits_for)}};
    snprintf(row.engines, sizeof row.engines, "%.40s", lane);
    if (!keep(l, e->reason, &row.stall.reason) || (e->op && !keep(l, e->op, &row.stall.stalled.op)) ||
        (e->file && !keep(l, e->file, &row.stall.stalled.file)))
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
        return take_stall(l, e);
    if ((e->kind == TV_EVENT_ENGINE || e->kind == TV_EVENT_COMMAND) && e->index >= 0)
        return learn(l, e);
    return true;
}
