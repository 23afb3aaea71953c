/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of entries that touch the same bytes while nothing orders them (CMDQ specification, section 7).
 *
 * Each entry carries a vector clock: for each engine's queue, how many of its entries surely come before. What an entry
 * may collide with are, of every other queue, those that were taken before it and are not in its clock: its window. A
 * queue that synchronises has small windows, which are gone through. For a large one a tree over the bytes first says
 * whether anything in it touches them. */
#include <inttypes.h>
#include <stdlib.h>

#include "machine/cmdq/hazard.h"

static const uint64_t DRAM_BASE = UINT64_C(1) << 48; /* SPM lies below it, bank after bank */

/* ---- Clocks and queues ---- */

enum { KEPT = 64 };

typedef struct finder {
    const tv_program *program;
    const cmdq_queue *queue;
    const cmdq_params *shape;
    const cmdq_plan *plan;
    tv_findings *findings;
    tv_severity severity;
    uint32_t window_max;
    unsigned queues;
    uint32_t *clocks;                   /* of each entry: `queues` counts */
    uint32_t *position;                 /* of each entry: its number in its queue, from 1 */
    uint32_t *taken[CMDQ_ENGINES_MAX];  /* of each queue: its entries in order */
    uint32_t length[CMDQ_ENGINES_MAX];  /* … as many as were taken so far */
    struct tree *tree;                  /* NULL until a window is large */
    uint32_t in_tree[CMDQ_ENGINES_MAX]; /* entries of each queue that the tree knows */
    uint64_t found, compared;
    bool no_memory;
    uint32_t kept_entry[KEPT]; /* plus 1 */
    cmdq_op kept[KEPT];        /* what entries were resolved to: those of a window are looked at again soon */
    cmdq_op spare;
} finder;

static uint32_t *clock_of(const finder *f, uint32_t entry) { return f->clocks + (size_t)entry * f->queues; }

/* After `before`: all that is before it, and itself. */
static void join(finder *f, uint32_t *clock, uint32_t before)
{
    const uint32_t *other = clock_of(f, before);
    for (unsigned q = 0; q < f->queues; q++)
        clock[q] = clock[q] > other[q] ? clock[q] : other[q];
    unsigned q = f->plan->engine[before];
    if (q != CMDQ_NO_ENGINE && clock[q] < f->position[before])
        clock[q] = f->position[before];
}

/* deps_after of others come to this entry when those are taken: they are joined there. */
static void set_clock(finder *f, uint32_t entry)
{
    const cmdq_entry *e = &f->queue->entries[entry];
    uint32_t *clock = clock_of(f, entry);
    for (unsigned which = CMDQ_DEPS_BEFORE; which <= CMDQ_TARGETS; which += CMDQ_TARGETS) {
        cmdq_ids ids = cmdq_list(f->queue, e, which);
        for (uint32_t i = 0; i < ids.count; i++)
            join(f, clock, ids.at[i]);
    }
    if (e->wait_group)
        join(f, clock, e->wait_group - 1);
    if (f->plan->graph.barrier[entry])
        join(f, clock, f->plan->graph.barriers[f->plan->graph.barrier[entry] - 1]);
    unsigned q = f->plan->engine[entry];
    if (q != CMDQ_NO_ENGINE) {
        if (f->length[q])
            join(f, clock, f->taken[q][f->length[q] - 1]);
        f->taken[q][f->length[q]++] = entry;
        f->position[entry] = f->length[q];
    }
    cmdq_ids after = cmdq_list(f->queue, e, CMDQ_DEPS_AFTER);
    for (uint32_t i = 0; i < after.count; i++)
        join(f, clock_of(f, after.at[i]), entry);
}

/* ---- Bytes ---- */

/* A stretch of bytes of a tile: row `row`. */
typedef struct stretch {
    uint64_t from, to;
} stretch;

static stretch stretch_of(const finder *f, const cmdq_tile *t, uint64_t row)
{
    uint64_t base = t->bank == CMDQ_NO_BANK ? DRAM_BASE : t->bank * f->shape->bank_bytes,
             from = base + t->start + row * t->stride;
    return (stretch){from, from + t->bytes};
}

/* The first bytes that both touch. */
static bool overlap(const finder *f, const cmdq_tile *a, const cmdq_tile *b, stretch *out)
{
    if (!(a->writes || b->writes) || (a->bank != b->bank))
        return false;
    stretch all_a = {stretch_of(f, a, 0).from, stretch_of(f, a, a->rows - 1).to},
            all_b = {stretch_of(f, b, 0).from, stretch_of(f, b, b->rows - 1).to};
    if (all_a.to <= all_b.from || all_b.to <= all_a.from)
        return false;
    for (uint64_t i = 0, k = 0; i < a->rows && k < b->rows;) {
        stretch x = stretch_of(f, a, i), y = stretch_of(f, b, k);
        if (x.from < y.to && y.from < x.to) {
            *out = (stretch){tv_max_u64(x.from, y.from), tv_min_u64(x.to, y.to)};
            return true;
        }
        if (x.to <= y.to)
            i++;
        else
            k++;
    }
    return false;
}

/* What the tree knows of a tile: its rows where they are few, else all between the first and the last. A hit may then
 * be none; overlap() is the judge. */
enum { TREE_ROWS_MAX = 16 };

static uint64_t tree_rows(const cmdq_tile *t) { return t->rows > TREE_ROWS_MAX ? 1 : t->rows; }

static stretch tree_stretch(const finder *f, const cmdq_tile *t, uint64_t row)
{
    stretch s = stretch_of(f, t, row);
    if (t->rows > TREE_ROWS_MAX)
        s.to = stretch_of(f, t, t->rows - 1).to;
    return s;
}

static bool resolve(const finder *f, uint32_t entry, cmdq_op *op)
{
    cmdq_error wrong;
    uint64_t turn = 0;
    return cmdq_resolve(f->queue, f->shape, entry, &turn, op, &wrong); /* the plan was made of it: it does not fail */
}

/* ---- A tree over the bytes: for each queue, the last entry that touched a part ---- */

typedef struct tree {
    uint64_t *edges; /* ascending: stretch i is edges[i] to edges[i + 1] */
    size_t edge_count, leaves;
    uint32_t *last; /* [node][queue][reads, writes][whole node, or something below it] */
} tree;

static void tree_free(tree *t)
{
    if (!t)
        return;
    free(t->edges);
    free(t->last);
    free(t);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static tree *tree_make(const finder *f)
{
    tree *t = calloc(1, sizeof *t);
    tv_buf edges = {0};
    for (uint32_t i = 0; t && i < f->plan->count; i++) {
        cmdq_op op;
        if (!resolve(f, i, &op))
            continue;
        for (unsigned k = 0; k < op.tile_count; k++)
            for (uint64_t row = 0; row < tree_rows(&op.tiles[k]); row++) {
                stretch s = tree_stretch(f, &op.tiles[k], row);
                tv_buf_append(&edges, &s, sizeof s);
            }
    }
    if (!t || edges.failed || !edges.len) {
        tv_buf_fini(&edges);
        free(t);
        return NULL;
    }
    t->edges = (uint64_t *)(void *)edges.data;
    size_t n = edges.len / sizeof *t->edges;
    qsort(t->edges, n, sizeof *t->edges, by_value);
    for (size_t i = 0; i < n; i++)
        if (!t->edge_count || t->edges[t->edge_count - 1] != t->edges[i])
            t->edges[t->edge_count++] = t->edges[i];
    for (t->leaves = 1; t->leaves < t->edge_count; t->leaves *= 2)
        continue;
    t->last = calloc(2 * t->leaves * f->queues * 4, sizeof *t->last);
    if (!t->last) {
        tree_free(t);
        return NULL;
    }
    return t;
}

static size_t edge_index(const tree *t, uint64_t at)
{
    size_t low = 0, high = t->edge_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->edges[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t *cell(const finder *f, size_t node, unsigned queue, unsigned writes)
{
    return f->tree->last + ((node * f->queues + queue) * 2 + writes) * 2;
}

/* A range of leaves, and what is done with it. */
typedef struct range {
    size_t from, to;
    unsigned queue, writes;
    uint32_t position;
} range;

static void tree_put(finder *f, size_t node, size_t first, size_t count, const range *r)
{
    if (r->to <= first || first + count <= r->from)
        return;
    bool whole = r->from <= first && first + count <= r->to;
    uint32_t *c = cell(f, node, r->queue, r->writes) + !whole;
    *c = *c > r->position ? *c : r->position;
    if (whole)
        return;
    tree_put(f, 2 * node, first, count / 2, r);
    tree_put(f, 2 * node + 1, first + count / 2, count / 2, r);
}

/* The position of the last entry of the queue that touched the range; reads count where `writes` is 1 alone. */
static uint32_t tree_get(const finder *f, size_t node, size_t first, size_t count, const range *r)
{
    if (r->to <= first || first + count <= r->from)
        return 0;
    bool whole = r->from <= first && first + count <= r->to;
    uint32_t best = 0;
    for (unsigned w = r->writes ? 0 : 1; w < 2; w++) {
        const uint32_t *c = cell(f, node, r->queue, w);
        best = c[0] > best ? c[0] : best;
        best = whole && c[1] > best ? c[1] : best;
    }
    if (whole)
        return best;
    uint32_t left = tree_get(f, 2 * node, first, count / 2, r),
             right = tree_get(f, 2 * node + 1, first + count / 2, count / 2, r);
    best = left > best ? left : best;
    return right > best ? right : best;
}

/* Lets the tree know all that was taken of a queue. */
static void tree_catch_up(finder *f, unsigned queue)
{
    for (; f->in_tree[queue] < f->length[queue]; f->in_tree[queue]++) {
        cmdq_op op;
        resolve(f, f->taken[queue][f->in_tree[queue]], &op);
        for (unsigned k = 0; k < op.tile_count; k++)
            for (uint64_t row = 0; row < tree_rows(&op.tiles[k]); row++) {
                stretch s = tree_stretch(f, &op.tiles[k], row);
                for (unsigned w = 0; w < 2; w++)
                    if (w ? op.tiles[k].writes : op.tiles[k].reads)
                        tree_put(f, 1, 0, f->tree->leaves,
                                 &(range){edge_index(f->tree, s.from), edge_index(f->tree, s.to), queue, w,
                                          f->in_tree[queue] + 1});
            }
    }
}

/* Whether an entry of the queue after position `known` touches what `op` touches, one of both writing. */
static bool tree_hits(finder *f, unsigned queue, uint32_t known, const cmdq_op *op)
{
    if (!f->tree && !(f->tree = tree_make(f))) {
        f->no_memory = true;
        return false;
    }
    tree_catch_up(f, queue);
    for (unsigned k = 0; k < op->tile_count; k++)
        for (uint64_t row = 0; row < tree_rows(&op->tiles[k]); row++) {
            stretch s = tree_stretch(f, &op->tiles[k], row);
            range r = {edge_index(f->tree, s.from), edge_index(f->tree, s.to), queue, op->tiles[k].writes, 0};
            if (tree_get(f, 1, 0, f->tree->leaves, &r) > known)
                return true;
        }
    return false;
}

/* ---- The search ---- */

static void report(finder *f, uint32_t a, uint32_t b, const cmdq_tile *earlier, const cmdq_tile *tile, const stretch *s)
{
    char writer[40] = "both write";
    if (!earlier->writes || !tile->writes)
        snprintf(writer, sizeof writer, "entry %" PRIu32 " writes", earlier->writes ? a : b);
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    uint64_t base = tile->bank == CMDQ_NO_BANK ? DRAM_BASE : tile->bank * f->shape->bank_bytes;
    char place[32] = "DRAM", hint[96];
    if (tile->bank != CMDQ_NO_BANK)
        snprintf(place, sizeof place, "SPM bank %u", tile->bank);
    snprintf(hint, sizeof hint, "add %" PRIu32 " to deps_before of entry %" PRIu32, a, b);
    tv_findings_report(f->findings, f->severity, CMDQ_CODE_HAZARD, b, hint,
                       "entries %" PRIu32 " (%s) and %" PRIu32 " (%s) both touch %s bytes 0x%" PRIx64 " to 0x%" PRIx64
                       ", %s, and nothing orders them",
                       low, cmdq_name(&f->queue->entries[low]), high, cmdq_name(&f->queue->entries[high]), place,
                       s->from - base, s->to - base - 1, writer);
    f->found++;
}

/* The operation of an entry; that of `other` stays valid. */
static const cmdq_op *resolved(finder *f, uint32_t entry, uint32_t other)
{
    unsigned i = entry % KEPT;
    if (i == other % KEPT && entry != other) {
        resolve(f, entry, &f->spare);
        return &f->spare;
    }
    if (f->kept_entry[i] != entry + 1)
        resolve(f, entry, &f->kept[i]);
    f->kept_entry[i] = entry + 1;
    return &f->kept[i];
}

static void compare(finder *f, uint32_t a, uint32_t b, const cmdq_op *op)
{
    stretch s;
    const cmdq_op *other = resolved(f, a, b);
    for (unsigned k = 0; k < op->tile_count; k++)
        for (unsigned i = 0; i < other->tile_count; i++)
            if (overlap(f, &other->tiles[i], &op->tiles[k], &s)) {
                report(f, a, b, &other->tiles[i], &op->tiles[k], &s);
                return;
            }
}

/* Hazards in large windows cost what the windows hold: a queue full of them is searched up to here. */
static bool ended(const finder *f) { return f->found >= CMDQ_HAZARDS_MAX || f->compared >= CMDQ_COMPARED_MAX; }

static void search(finder *f, uint32_t entry)
{
    const uint32_t *clock = clock_of(f, entry);
    unsigned own = f->plan->engine[entry];
    const cmdq_op *op = NULL;
    if (own == CMDQ_NO_ENGINE)
        return;
    for (unsigned q = 0; q < f->queues && !ended(f); q++) {
        if (q == own || f->length[q] <= clock[q])
            continue;
        if (!op)
            op = resolved(f, entry, entry);
        if (f->length[q] - clock[q] > f->window_max && !tree_hits(f, q, clock[q], op))
            continue;
        if (f->length[q] - clock[q] > f->window_max)
            f->compared += f->length[q] - clock[q];
        for (uint32_t k = clock[q]; k < f->length[q] && f->found < CMDQ_HAZARDS_MAX; k++)
            compare(f, f->taken[q][k], entry, op);
    }
}

static bool make_queues(finder *f)
{
    size_t n = (size_t)f->plan->count + 1, lengths[CMDQ_ENGINES_MAX] = {0};
    f->clocks = calloc(n * f->queues, sizeof *f->clocks);
    f->position = calloc(n, sizeof *f->position);
    for (uint32_t i = 0; i < f->plan->count; i++)
        if (f->plan->engine[i] != CMDQ_NO_ENGINE)
            lengths[f->plan->engine[i]]++;
    bool all = f->clocks && f->position;
    for (unsigned q = 0; q < f->queues; q++) {
        f->taken[q] = malloc((lengths[q] + 1) * sizeof *f->taken[q]);
        all = all && f->taken[q];
    }
    return all;
}

uint64_t cmdq_find_hazards(const tv_program *program, const cmdq_params *shape, const cmdq_plan *plan,
                           uint32_t window_max, tv_severity severity, tv_findings *findings)
{
    finder f = {.program = program,
                .queue = cmdq_queue_of(program),
                .shape = shape,
                .plan = plan,
                .findings = findings,
                .severity = severity,
                .window_max = window_max,
                .queues = shape->engines};
    f.no_memory = !make_queues(&f);
    for (uint32_t i = 0; i < plan->count && !f.no_memory && !ended(&f); i++) {
        uint32_t entry = plan->order ? plan->order[i] : i;
        unsigned q = plan->engine[entry];
        set_clock(&f, entry);
        if (q == CMDQ_NO_ENGINE)
            continue;
        search(&f, entry);
    }
    if (ended(&f) && !f.no_memory)
        tv_report(findings->sink, TV_NOTE, &cmdq_codes[CMDQ_CODE_HAZARD], &TV_NO_SOURCE_LOC, NULL,
                  "the search for hazards ended here: there may be more");
    free(f.clocks);
    free(f.position);
    for (unsigned q = 0; q < f.queues; q++)
        free(f.taken[q]);
    tree_free(f.tree);
    return f.no_memory ? UINT64_MAX : f.found;
}
