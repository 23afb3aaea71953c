/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two summaries: figures are matched by name; those that differ are listed, the largest change first. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/vec.h"
#include "trivet/trace_file.h"

typedef struct diff {
    tv_trace_diff d; /* first: the caller's pointer */
    tv_arena arena;
    bool failed; /* out of memory */
} diff;

/* A figure of one run; `side` is 0 for the run before, 1 for the run after. */
typedef struct figure {
    const char *name;
    uint64_t value;
    int side;
} figure;

typedef TV_VEC(figure) figures;

static void add_figure(figures *f, const char *name, uint64_t value, int side)
{
    TV_VEC_PUSH(f, (figure){name, value, side});
}

static int compare_names(const void *a, const void *b)
{
    const figure *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->side - y->side;
}

static uint64_t change_size(const tv_trace_change *c)
{
    return c->after > c->before ? c->after - c->before : c->before - c->after;
}

static int compare_changes(const void *a, const void *b)
{
    const tv_trace_change *x = a, *y = b;
    uint64_t n = change_size(x), m = change_size(y);
    return n != m ? (n < m ? 1 : -1) : tv_compare_numbered(x->name, y->name);
}

/* Pairs figures of the same name, and drops pairs that are equal. Frees `f`. */
static tv_trace_changes list_changes(diff *d, figures *f)
{
    tv_trace_changes out = {NULL, 0};
    tv_trace_change *rows = tv_arena_alloc(&d->arena, (f->count + 1) * sizeof *rows);
    d->failed |= !rows || f->failed;
    if (f->count && rows)
        qsort(f->data, f->count, sizeof *f->data, compare_names);
    for (size_t i = 0; rows && i < f->count;) {
        tv_trace_change c = {.name = f->data[i].name};
        for (; i < f->count && strcmp(f->data[i].name, c.name) == 0; i++)
            *(f->data[i].side ? &c.after : &c.before) += f->data[i].value;
        if (c.before != c.after)
            rows[out.count++] = c;
    }
    if (out.count)
        qsort(rows, out.count, sizeof *rows, compare_changes);
    out.rows = rows;
    TV_VEC_FINI(f);
    return out;
}

static const char *format_name(diff *d, const char *engine, const char *what)
{
    char text[256];
    snprintf(text, sizeof text, "%.200s %s", engine, what);
    const char *name = tv_arena_str(&d->arena, tv_sv_of(text));
    d->failed |= !name;
    return name ? name : "";
}

static tv_trace_changes compare_engines(diff *d, const tv_trace_summary *const runs[2])
{
    figures f = {0};
    for (int side = 0; side < 2; side++)
        for (unsigned i = 0; i < runs[side]->engine_count; i++) {
            const tv_trace_engine *e = &runs[side]->engines[i];
            uint64_t stalled = 0;
            for (unsigned c = 0; c < e->stalled_count; c++)
                stalled += e->stalled[c].cycles;
            add_figure(&f, format_name(d, e->name, "busy"), e->busy, side);
            add_figure(&f, format_name(d, e->name, "stalled"), stalled, side);
            add_figure(&f, format_name(d, e->name, "idle"), e->idle, side);
        }
    return list_changes(d, &f);
}

static tv_trace_changes compare_stall_reasons(diff *d, const tv_trace_summary *const runs[2])
{
    figures f = {0};
    for (int side = 0; side < 2; side++)
        for (unsigned i = 0; i < runs[side]->stall_reason_count; i++)
            add_figure(&f, runs[side]->stall_reasons[i].name, runs[side]->stall_reasons[i].cycles, side);
    return list_changes(d, &f);
}

static tv_trace_changes compare_rows(diff *d, const tv_trace_row *const rows[2], const unsigned counts[2])
{
    figures f = {0};
    for (int side = 0; side < 2; side++)
        for (unsigned i = 0; i < counts[side]; i++)
            add_figure(&f, rows[side][i].name, rows[side][i].cycles, side);
    return list_changes(d, &f);
}

static const tv_trace_setting *find_setting(const tv_trace_summary *run, const char *key)
{
    for (unsigned i = 0; i < run->setting_count; i++)
        if (strcmp(run->settings[i].key, key) == 0)
            return &run->settings[i];
    return NULL;
}

/* A setting that only one run has changed has the default value in the other. */
static void compare_settings(diff *d, const tv_trace_summary *const runs[2])
{
    tv_trace_setting_change *rows =
        tv_arena_alloc(&d->arena, ((size_t)runs[0]->setting_count + runs[1]->setting_count + 1) * sizeof *rows);
    d->failed |= !rows;
    for (unsigned side = 0; rows && side < 2; side++)
        for (unsigned i = 0; i < runs[side]->setting_count; i++) {
            const tv_trace_setting *own = &runs[side]->settings[i], *other = find_setting(runs[1 - side], own->key);
            const char *other_value = other ? other->value : own->default_value;
            if ((side == 1 && other) || (other_value && strcmp(own->value, other_value) == 0))
                continue;
            rows[d->d.setting_count++] =
                (tv_trace_setting_change){own->key, side ? other_value : own->value, side ? own->value : other_value};
        }
    d->d.settings = rows;
}

tv_status tv_trace_compare(const tv_trace_summary *before, const tv_trace_summary *after, const tv_diag_sink *sink,
                           tv_trace_diff **out)
{
    const tv_trace_summary *const runs[2] = {before, after};
    if (strcmp(before->target, after->target) != 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TRACE_TARGET), "compare runs of the same machine",
                       "the first trace is of %.60s, the second of %.60s", before->target, after->target);
    diff *d = calloc(1, sizeof *d);
    if (!d)
        return tv_fail_memory(sink);
    d->d.before = before->cycles;
    d->d.after = after->cycles;
    compare_settings(d, runs);
    d->d.engines = compare_engines(d, runs);
    d->d.stall_reasons = compare_stall_reasons(d, runs);
    d->d.layers = compare_rows(d, (const tv_trace_row *const[]){before->layers, after->layers},
                               (const unsigned[]){before->layer_count, after->layer_count});
    d->d.ops = compare_rows(d, (const tv_trace_row *const[]){before->ops, after->ops},
                            (const unsigned[]){before->op_count, after->op_count});
    d->d.equal = d->d.before == d->d.after && !d->d.setting_count && !d->d.engines.count && !d->d.stall_reasons.count &&
                 !d->d.layers.count && !d->d.ops.count;
    if (d->failed) {
        tv_trace_diff_free(&d->d);
        return tv_fail_memory(sink);
    }
    *out = &d->d;
    return TV_OK;
}

void tv_trace_diff_free(tv_trace_diff *public_diff)
{
    diff *d = (diff *)(void *)public_diff;
    if (!d)
        return;
    tv_arena_fini(&d->arena);
    free(d);
}
