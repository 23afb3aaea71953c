/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of entries that access the same bytes without a dependency that orders them (CMDQ specification, section 7).
 *
 * Entries are visited in the order of execution. Each has a vector clock: for each engine's queue, the number of its
 * entries that are ordered before this one. An entry can conflict with those entries of another queue that were visited
 * before it and are not in its clock: its window in that queue. A queue that synchronizes often has small windows,
 * whose entries are compared one by one. For a large window an interval tree over the bytes first decides whether any
 * of its entries accesses the same bytes. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/vec.h"
#include "machine/cmdq/hazard.h"

static const uint64_t DRAM_BASE = UINT64_C(1) << 48; /* in the common address space; SPM is below it, bank after bank */

/* ---- Clocks and queues ---- */

enum { OP_CACHE_SIZE = 64 };

typedef struct finder {
    const tv_program *program;
    const cmdq_queue *queue;
    const cmdq_params *params;
    const cmdq_plan *plan;
    tv_findings *findings;
    tv_severity severity;
    uint32_t window_max;
    unsigned queues;
    uint32_t *clocks;                      /* of each entry: `queues` counts */
    uint32_t *position;                    /* of each entry: its number in its queue, from 1 */
    uint32_t *issued[CMDQ_ENGINES_MAX];    /* of each queue: its entries in order */
    uint32_t length[CMDQ_ENGINES_MAX];     /* of each queue: entries visited so far */
    struct tree *tree;                     /* NULL until there is a large window */
    uint32_t tree_count[CMDQ_ENGINES_MAX]; /* of each queue: entries inserted into the tree */
    uint64_t found, compared;
    uint64_t dependencies, implied; /* dependencies of entries on engines; those that order nothing */
    uint32_t first_implied[2];      /* an entry, and the one that it need not name */
    bool no_memory;
    uint32_t cached_entry[OP_CACHE_SIZE]; /* plus 1 */
    cmdq_op cached[OP_CACHE_SIZE];        /* resolved entries: those of a window are needed again soon */
    cmdq_op spare;
    cmdq_resolve_memo memo;
} finder;

static uint32_t *entry_clock(const finder *f, uint32_t entry) { return f->clocks + (size_t)entry * f->queues; }

/* Orders `before`, and all that is ordered before it, before the entry of `clock`. */
static void merge_clock(finder *f, uint32_t *clock, uint32_t before)
{
    const uint32_t *other = entry_clock(f, before);
    for (unsigned q = 0; q < f->queues; q++)
        clock[q] = clock[q] > other[q] ? clock[q] : other[q];
    unsigned q = f->plan->engine[before];
    if (q != CMDQ_NO_ENGINE && clock[q] < f->position[before])
        clock[q] = f->position[before];
}

/* Whether `before` is ordered before `entry`, by what the clock of that has. */
static bool is_ordered(const finder *f, uint32_t before, uint32_t entry)
{
    unsigned q = f->plan->engine[before];
    return q != CMDQ_NO_ENGINE && entry_clock(f, entry)[q] >= f->position[before];
}

/* Counts the dependencies of an entry that the entry before it on its engine, or its other dependencies, imply. END
 * waits for all entries anyway. Call it before the entry is added to its queue. */
static void count_implied(finder *f, uint32_t entry)
{
    cmdq_ids ids = cmdq_entry_list(f->queue, &f->queue->entries.data[entry], CMDQ_DEPS_BEFORE);
    unsigned q = f->plan->engine[entry];
    if (q == CMDQ_NO_ENGINE)
        return;
    uint32_t last = f->length[q] ? f->issued[q][f->length[q] - 1] : entry;
    f->dependencies += ids.count;
    for (uint32_t i = 0; i < ids.count; i++) {
        bool implied = f->length[q] && (last == ids.at[i] || is_ordered(f, ids.at[i], last));
        for (uint32_t k = 0; k < ids.count && !implied; k++)
            implied = k != i && (is_ordered(f, ids.at[i], ids.at[k]) || (k < i && ids.at[k] == ids.at[i]));
        if (implied && !f->implied++) {
            f->first_implied[0] = entry;
            f->first_implied[1] = ids.at[i];
        }
    }
}

/* Completes the clock of an entry and adds it to its queue. deps_after of earlier entries are in its clock already. */
static void compute_clock(finder *f, uint32_t entry)
{
    const cmdq_entry *e = &f->queue->entries.data[entry];
    uint32_t *clock = entry_clock(f, entry);
    for (unsigned which = CMDQ_DEPS_BEFORE; which <= CMDQ_TARGETS; which += CMDQ_TARGETS) {
        cmdq_ids ids = cmdq_entry_list(f->queue, e, which);
        for (uint32_t i = 0; i < ids.count; i++)
            merge_clock(f, clock, ids.at[i]);
    }
    if (e->wait_group)
        merge_clock(f, clock, e->wait_group - 1);
    if (f->plan->graph.barrier[entry])
        merge_clock(f, clock, f->plan->graph.barriers[f->plan->graph.barrier[entry] - 1]);
    unsigned q = f->plan->engine[entry];
    if (q != CMDQ_NO_ENGINE) {
        if (f->length[q])
            merge_clock(f, clock, f->issued[q][f->length[q] - 1]);
        f->issued[q][f->length[q]++] = entry;
        f->position[entry] = f->length[q];
    }
    cmdq_ids after = cmdq_entry_list(f->queue, e, CMDQ_DEPS_AFTER);
    for (uint32_t i = 0; i < after.count; i++)
        merge_clock(f, entry_clock(f, after.at[i]), entry);
}

/* ---- Bytes ---- */

/* Bytes from `from` up to `to` of the common address space. */
typedef struct byte_range {
    uint64_t from, to;
} byte_range;

static byte_range row_range(const finder *f, const cmdq_tile *t, uint64_t row)
{
    uint64_t base = t->bank == CMDQ_NO_BANK ? DRAM_BASE : t->bank * f->params->bank_bytes,
             from = base + t->start + row * t->stride;
    return (byte_range){from, from + t->bytes};
}

/* Whether the tiles share bytes and one of them writes; *out is the first shared range. */
static bool find_overlap(const finder *f, const cmdq_tile *a, const cmdq_tile *b, byte_range *out)
{
    if (!(a->writes || b->writes) || (a->bank != b->bank))
        return false;
    byte_range all_a = {row_range(f, a, 0).from, row_range(f, a, a->rows - 1).to},
               all_b = {row_range(f, b, 0).from, row_range(f, b, b->rows - 1).to};
    if (all_a.to <= all_b.from || all_b.to <= all_a.from)
        return false;
    for (uint64_t i = 0, k = 0; i < a->rows && k < b->rows;) {
        byte_range x = row_range(f, a, i), y = row_range(f, b, k);
        if (x.from < y.to && y.from < x.to) {
            *out = (byte_range){tv_max_u64(x.from, y.from), tv_min_u64(x.to, y.to)};
            return true;
        }
        if (x.to <= y.to)
            i++;
        else
            k++;
    }
    return false;
}

/* The ranges of a tile in the tree: its rows if they are few, otherwise one range from the first to the last, which may
 * report a conflict where there is none; find_overlap decides. */
enum { TREE_ROWS_MAX = 16 };

static uint64_t tree_rows(const cmdq_tile *t) { return t->rows > TREE_ROWS_MAX ? 1 : t->rows; }

static byte_range tree_range(const finder *f, const cmdq_tile *t, uint64_t row)
{
    byte_range s = row_range(f, t, row);
    if (t->rows > TREE_ROWS_MAX)
        s.to = row_range(f, t, t->rows - 1).to;
    return s;
}

/* The engine of an entry without dma_id is that of the plan, not of *op. */
static void resolve(finder *f, uint32_t entry, cmdq_op *op)
{
    cmdq_error error;
    uint64_t next_dma = 0;
    cmdq_resolve_with(&f->memo, f->queue, f->params, entry, &next_dma, op, &error);
}

/* ---- Interval tree over the bytes: for each queue, the last entry that accessed a node ---- */

typedef struct tree {
    uint64_t *edges; /* ascending; leaf i is edges[i] to edges[i + 1] */
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

static int compare_values(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static tree *tree_new(finder *f)
{
    tree *t = calloc(1, sizeof *t);
    tv_buf edges = {0};
    for (uint32_t i = 0; t && i < f->plan->count; i++) {
        cmdq_op op;
        resolve(f, i, &op);
        for (unsigned k = 0; k < op.tile_count; k++)
            for (uint64_t row = 0; row < tree_rows(&op.tiles[k]); row++) {
                byte_range s = tree_range(f, &op.tiles[k], row);
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
    qsort(t->edges, n, sizeof *t->edges, compare_values);
    for (size_t i = 0; i < n; i++)
        if (!t->edge_count || t->edges[t->edge_count - 1] != t->edges[i])
            t->edges[t->edge_count++] = t->edges[i];
    for (t->leaves = 1; t->leaves < t->edge_count; t->leaves *= 2)
        continue;
    t->last = calloc(2 * t->leaves * f->queues * 4, sizeof *t->last); /* most of it stays untouched: no page is used */
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

/* A range of leaves, and the access that is inserted or looked for. */
typedef struct leaf_range {
    size_t from, to;
    unsigned queue, writes;
    uint32_t position;
} leaf_range;

static void tree_insert(finder *f, size_t node, size_t first, size_t count, const leaf_range *r)
{
    if (r->to <= first || first + count <= r->from)
        return;
    bool whole = r->from <= first && first + count <= r->to;
    uint32_t *c = cell(f, node, r->queue, r->writes) + !whole;
    *c = *c > r->position ? *c : r->position;
    if (whole)
        return;
    tree_insert(f, 2 * node, first, count / 2, r);
    tree_insert(f, 2 * node + 1, first + count / 2, count / 2, r);
}

/* The position of the last entry of the queue that accessed the range; with `writes` 0, of the last that wrote it. */
static uint32_t tree_find(const finder *f, size_t node, size_t first, size_t count, const leaf_range *r)
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
    uint32_t left = tree_find(f, 2 * node, first, count / 2, r),
             right = tree_find(f, 2 * node + 1, first + count / 2, count / 2, r);
    best = left > best ? left : best;
    return right > best ? right : best;
}

/* Inserts all visited entries of a queue. */
static void update_tree(finder *f, unsigned queue)
{
    for (; f->tree_count[queue] < f->length[queue]; f->tree_count[queue]++) {
        cmdq_op op;
        resolve(f, f->issued[queue][f->tree_count[queue]], &op);
        for (unsigned k = 0; k < op.tile_count; k++)
            for (uint64_t row = 0; row < tree_rows(&op.tiles[k]); row++) {
                byte_range s = tree_range(f, &op.tiles[k], row);
                for (unsigned w = 0; w < 2; w++)
                    if (w ? op.tiles[k].writes : op.tiles[k].reads)
                        tree_insert(f, 1, 0, f->tree->leaves,
                                    &(leaf_range){edge_index(f->tree, s.from), edge_index(f->tree, s.to), queue, w,
                                                  f->tree_count[queue] + 1});
            }
    }
}

/* Whether an entry of the queue after position `known` may access bytes that `op` accesses, one of them writing. */
static bool has_conflict_in_window(finder *f, unsigned queue, uint32_t known, const cmdq_op *op)
{
    if (!f->tree && !(f->tree = tree_new(f))) {
        f->no_memory = true;
        return false;
    }
    update_tree(f, queue);
    for (unsigned k = 0; k < op->tile_count; k++)
        for (uint64_t row = 0; row < tree_rows(&op->tiles[k]); row++) {
            byte_range s = tree_range(f, &op->tiles[k], row);
            leaf_range r = {edge_index(f->tree, s.from), edge_index(f->tree, s.to), queue, op->tiles[k].writes, 0};
            if (tree_find(f, 1, 0, f->tree->leaves, &r) > known)
                return true;
        }
    return false;
}

/* ---- The search ---- */

static void report_hazard(finder *f, uint32_t a, uint32_t b, const cmdq_tile *earlier, const cmdq_tile *tile,
                          const byte_range *s)
{
    char writer[40] = "both write";
    if (!earlier->writes || !tile->writes)
        snprintf(writer, sizeof writer, "entry %" PRIu32 " writes", earlier->writes ? a : b);
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    uint64_t base = tile->bank == CMDQ_NO_BANK ? DRAM_BASE : tile->bank * f->params->bank_bytes;
    char space[32] = "DRAM", hint[96];
    if (tile->bank != CMDQ_NO_BANK)
        snprintf(space, sizeof space, "SPM bank %u", tile->bank);
    snprintf(hint, sizeof hint, "add %" PRIu32 " to deps_before of entry %" PRIu32, a, b);
    tv_findings_report(f->findings, f->severity, CMDQ_CODE_HAZARD, b, hint,
                       "entries %" PRIu32 " (%s) and %" PRIu32 " (%s) both touch %s bytes 0x%" PRIx64 " to 0x%" PRIx64
                       ", %s, and nothing orders them",
                       low, cmdq_opcode_name(&f->queue->entries.data[low]), high,
                       cmdq_opcode_name(&f->queue->entries.data[high]), space, s->from - base, s->to - base - 1,
                       writer);
    f->found++;
}

/* The operation of an entry, from the cache; that of `other` stays valid. */
static const cmdq_op *load_op(finder *f, uint32_t entry, uint32_t other)
{
    unsigned i = entry % OP_CACHE_SIZE;
    if (i == other % OP_CACHE_SIZE && entry != other) {
        resolve(f, entry, &f->spare);
        return &f->spare;
    }
    if (f->cached_entry[i] != entry + 1)
        resolve(f, entry, &f->cached[i]);
    f->cached_entry[i] = entry + 1;
    return &f->cached[i];
}

static void compare_entries(finder *f, uint32_t a, uint32_t b, const cmdq_op *op)
{
    byte_range s;
    const cmdq_op *other = load_op(f, a, b);
    for (unsigned k = 0; k < op->tile_count; k++)
        for (unsigned i = 0; i < other->tile_count; i++)
            if (find_overlap(f, &other->tiles[i], &op->tiles[k], &s)) {
                report_hazard(f, a, b, &other->tiles[i], &op->tiles[k], &s);
                return;
            }
}

/* A hazard in a large window costs a comparison with all of its entries, so the search is bounded. */
static bool is_limit_reached(const finder *f)
{
    return f->found >= CMDQ_HAZARDS_MAX || f->compared >= CMDQ_COMPARED_MAX;
}

static void search_windows(finder *f, uint32_t entry)
{
    const uint32_t *clock = entry_clock(f, entry);
    unsigned own = f->plan->engine[entry];
    const cmdq_op *op = NULL;
    if (own == CMDQ_NO_ENGINE)
        return;
    for (unsigned q = 0; q < f->queues && !is_limit_reached(f); q++) {
        if (q == own || f->length[q] <= clock[q])
            continue;
        if (!op)
            op = load_op(f, entry, entry);
        if (f->length[q] - clock[q] > f->window_max && !has_conflict_in_window(f, q, clock[q], op))
            continue;
        if (f->length[q] - clock[q] > f->window_max)
            f->compared += f->length[q] - clock[q];
        for (uint32_t k = clock[q]; k < f->length[q] && f->found < CMDQ_HAZARDS_MAX; k++)
            compare_entries(f, f->issued[q][k], entry, op);
    }
}

static bool finder_init(finder *f)
{
    size_t n = (size_t)f->plan->count + 1, lengths[CMDQ_ENGINES_MAX] = {0};
    f->clocks = tv_array_calloc(n * f->queues, sizeof *f->clocks);
    f->position = tv_array_calloc(n, sizeof *f->position);
    for (uint32_t i = 0; i < f->plan->count; i++)
        if (f->plan->engine[i] != CMDQ_NO_ENGINE)
            lengths[f->plan->engine[i]]++;
    bool all = f->clocks && f->position;
    for (unsigned q = 0; q < f->queues; q++) {
        f->issued[q] = tv_array_alloc(lengths[q] + 1, sizeof *f->issued[q]);
        all = all && f->issued[q];
    }
    return all;
}

static void finder_fini(finder *f)
{
    free(f->clocks);
    free(f->position);
    for (unsigned q = 0; q < f->queues; q++)
        free(f->issued[q]);
    tree_free(f->tree);
}

uint64_t cmdq_find_hazards(const tv_program *program, const cmdq_params *params, const cmdq_plan *plan,
                           uint32_t window_max, tv_severity severity, tv_findings *findings)
{
    finder f = {.program = program,
                .queue = cmdq_queue_of(program),
                .params = params,
                .plan = plan,
                .findings = findings,
                .severity = severity,
                .window_max = window_max,
                .queues = params->engines};
    f.no_memory = !finder_init(&f);
    for (uint32_t i = 0; i < plan->count && !f.no_memory && !is_limit_reached(&f); i++) {
        uint32_t entry = cmdq_plan_entry(plan, i);
        unsigned q = plan->engine[entry];
        compute_clock(&f, entry);
        if (q == CMDQ_NO_ENGINE)
            continue;
        search_windows(&f, entry);
    }
    if (is_limit_reached(&f) && !f.no_memory)
        tv_report(findings->sink, TV_NOTE, &cmdq_codes[CMDQ_CODE_HAZARD], &TV_NO_SOURCE_LOC, NULL,
                  "the search for hazards ended here: there may be more");
    finder_fini(&f);
    return f.no_memory ? UINT64_MAX : f.found;
}

bool cmdq_count_implied(const tv_program *program, const cmdq_params *params, const cmdq_plan *plan,
                        const tv_diag_sink *sink, uint64_t *count)
{
    finder f = {
        .program = program, .queue = cmdq_queue_of(program), .params = params, .plan = plan, .queues = params->engines};
    f.no_memory = !finder_init(&f);
    for (uint32_t i = 0; i < plan->count && !f.no_memory; i++) {
        count_implied(&f, cmdq_plan_entry(plan, i));
        compute_clock(&f, cmdq_plan_entry(plan, i));
    }
    if (f.implied)
        tv_report(sink, TV_NOTE, &cmdq_codes[CMDQ_CODE_IMPLIED], &TV_NO_SOURCE_LOC,
                  "they can be omitted: an engine executes its entries in order",
                  "%" PRIu64 " of %" PRIu64 " dependencies are implied by others, first that of entry %" PRIu32
                  " on entry %" PRIu32,
                  f.implied, f.dependencies, f.first_implied[0], f.first_implied[1]);
    *count = f.implied;
    finder_fini(&f);
    return !f.no_memory;
}
