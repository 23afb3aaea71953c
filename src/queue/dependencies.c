/* SPDX-License-Identifier: Apache-2.0 */
/* Dependencies between entries: checks of the lists, the graph, the order of execution.
 *
 * An entry starts after the entries of its deps_before, wait_for and wait_group, those whose deps_after name it, and
 * the last BARRIER before it; engines take their entries in the order of ids. The graph stores successors in one array
 * (compressed rows). Edges from a barrier to all later entries are implied: barriers are ordered among themselves, so
 * an entry waits only for the last one before it, and the graph stays linear in the size of the file.
 *
 * Execution uses the topological order with the lowest id first, so that results do not depend on timing. Entries that
 * the sort cannot release wait for each other; cmdq_print_cycle follows one blocked entry to the next to name them. */
#include "queue/dependencies.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/vec.h"

/* ---- Checks ---- */

enum { ERRORS_MAX = 100 };

typedef struct dep_checker {
    tv_program *program;
    cmdq_queue *queue;
    const tv_diag_sink *sink;
    unsigned errors;
    tv_line_cursor cursor;
} dep_checker;

/* Reports an error of an entry, at its member `name` or, if that is NULL, at its brace. */
static void report_error(dep_checker *c, cmdq_code code, uint32_t entry, const char *name, const char *hint,
                         const char *format, ...) TV_PRINTF(6, 7);

static void report_error(dep_checker *c, cmdq_code code, uint32_t entry, const char *name, const char *hint,
                         const char *format, ...)
{
    if (c->errors++ >= ERRORS_MAX)
        return;
    tv_source_loc loc = cmdq_member_loc(c->program, entry, &c->cursor, name);
    va_list args;
    va_start(args, format);
    tv_vreport(c->sink, TV_ERROR, &cmdq_codes[code], &loc, hint, format, args);
    va_end(args);
}

static const char *list_name(const cmdq_entry *e, unsigned which)
{
    return which == CMDQ_DEPS_BEFORE   ? "deps_before"
           : which == CMDQ_DEPS_AFTER  ? "deps_after"
           : e->opcode == CMDQ_BARRIER ? "wait_for"
                                       : "group";
}

static void check_lists(dep_checker *c, uint32_t i)
{
    const cmdq_entry *e = &c->queue->entries.data[i];
    for (unsigned which = 0; which < CMDQ_LISTS; which++) {
        cmdq_ids ids = cmdq_entry_list(c->queue, e, which);
        for (uint32_t k = 0; k < ids.count; k++) {
            if (ids.at[k] >= cmdq_entry_count(c->queue))
                report_error(c, CMDQ_CODE_DEPENDENCY, i, list_name(e, which), NULL,
                             "'%s' names entry %" PRIu32 "; the last is %" PRIu32, list_name(e, which), ids.at[k],
                             cmdq_entry_count(c->queue) - 1);
            else if (c->queue->entries.data[which == CMDQ_DEPS_AFTER ? i : ids.at[k]].opcode == CMDQ_END)
                report_error(c, CMDQ_CODE_CYCLE, i, list_name(e, which), NULL,
                             "END waits for every entry, so that none can wait for it");
            else if (ids.at[k] == i)
                report_error(c, CMDQ_CODE_DEPENDENCY, i, list_name(e, which), NULL,
                             "'%s' of entry %" PRIu32 " names itself", list_name(e, which), i);
            c->queue->has_forward_deps =
                c->queue->has_forward_deps || (which == CMDQ_DEPS_AFTER ? ids.at[k] < i : ids.at[k] > i);
        }
    }
}

static void check_end(dep_checker *c)
{
    const cmdq_queue *q = c->queue;
    for (uint32_t i = 0; i < cmdq_entry_count(q); i++)
        if ((q->entries.data[i].opcode == CMDQ_END) != (i + 1 == cmdq_entry_count(q))) {
            if (i + 1 == cmdq_entry_count(q))
                report_error(c, CMDQ_CODE_END, i, NULL, "add {\"opcode\": \"END\"}", "the last entry is not END");
            else
                report_error(c, CMDQ_CODE_END, i, NULL, NULL, "entries follow END");
            return;
        }
    if (cmdq_entry_count(q) == 0)
        tv_report(c->sink, TV_ERROR, &cmdq_codes[CMDQ_CODE_END],
                  &(tv_source_loc){.file = c->program->files[0], .index = -1}, "add {\"opcode\": \"END\"}",
                  "the queue is empty");
    c->errors += cmdq_entry_count(q) == 0;
}

/* Warns once of each opcode that is newer than the version of the file. */
static void check_versions(dep_checker *c)
{
    bool known[CMDQ_OPCODES_ROOM] = {false};
    for (uint32_t i = 0; i < cmdq_entry_count(c->queue); i++) {
        unsigned opcode = c->queue->entries.data[i].opcode;
        const char *since = tv_isa_cmdq.insns[opcode].since; /* "1.N" */
        if (known[opcode] || tv_isa_cmdq.insns[opcode].extension)
            continue;
        known[opcode] = true;
        if (strtoul(since + 2, NULL, 10) <= c->queue->minor)
            continue;
        tv_source_loc loc = cmdq_member_loc(c->program, i, &c->cursor, "opcode");
        tv_report(c->sink, TV_WARNING, &cmdq_codes[CMDQ_CODE_NEWER], &loc, "raise the file's version",
                  "%s is of version %s, the file says %d.%u", tv_isa_cmdq.insns[opcode].id, since, CMDQ_VERSION_MAJOR,
                  c->queue->minor);
    }
}

static void report_no_memory(dep_checker *c)
{
    c->errors++;
    c->queue->out_of_memory = true;
    tv_fail_memory(c->sink);
}

/* Replaces the names in wait_group by entries; `group` is indexed by the number of the name. */
static void resolve_groups(dep_checker *c)
{
    cmdq_queue *q = c->queue;
    uint32_t *group = calloc(q->string_count, sizeof *group); /* entry plus 1 */
    if (!group) {
        report_no_memory(c);
        return;
    }
    for (uint32_t i = 0; i < cmdq_entry_count(q); i++) {
        cmdq_entry *e = &q->entries.data[i];
        if (e->wait_group) {
            uint32_t name = e->wait_group;
            e->wait_group = group[name];
            if (!e->wait_group)
                report_error(c, CMDQ_CODE_DEPENDENCY, i, "wait_group", NULL, "no SYNC_GROUP before it is called '%s'",
                             q->strings[name]);
        }
        if (e->opcode != CMDQ_SYNC_GROUP)
            continue;
        uint32_t *slot = &group[cmdq_integer(q, e, CMDQ_F_name)];
        if (slot == group)
            report_error(c, CMDQ_CODE_RANGE, i, "name", NULL, "the 'name' of a group is empty");
        if (*slot)
            report_error(c, CMDQ_CODE_COMBINATION, i, "name", NULL, "entry %" PRIu32 " has the same name", *slot - 1);
        *slot = i + 1;
    }
    free(group);
}

static void report_cycle(dep_checker *c, const cmdq_graph *graph, uint32_t blocked)
{
    tv_buf cycle = {0};
    cmdq_print_cycle(c->queue, graph, cmdq_entry_count(c->queue), NULL, blocked, &cycle);
    const char *text = tv_buf_cstr_or_null(&cycle);
    if (text)
        report_error(c, CMDQ_CODE_CYCLE, blocked, NULL, NULL, "entries wait for each other: %s", text);
    else
        report_no_memory(c);
    tv_buf_fini(&cycle);
}

static void check_cycles(dep_checker *c)
{
    cmdq_graph graph;
    uint32_t count = cmdq_entry_count(c->queue), blocked = UINT32_MAX;
    uint32_t *order = calloc(count, sizeof *order);
    if (!order || !cmdq_graph_init(c->queue, count, &graph)) {
        free(order);
        report_no_memory(c);
        return;
    }
    bool ordered = cmdq_order(c->queue, &graph, count, NULL, order, &blocked);
    if (!ordered && blocked == UINT32_MAX)
        report_no_memory(c);
    else if (!ordered)
        report_cycle(c, &graph, blocked);
    cmdq_graph_fini(&graph);
    free(order);
}

unsigned cmdq_resolve_dependencies(tv_program *program, cmdq_queue *queue, const tv_diag_sink *sink)
{
    dep_checker c = {program, queue, sink, 0, cmdq_line_cursor(program)};
    check_end(&c);
    for (uint32_t i = 0; i < cmdq_entry_count(queue); i++)
        check_lists(&c, i);
    resolve_groups(&c);
    check_versions(&c);
    if (c.errors || !queue->has_forward_deps)
        return c.errors;
    check_cycles(&c);
    return c.errors;
}

/* ---- The graph ---- */

/* An edge: `after` waits for `before`. */
typedef void edge_visitor(cmdq_graph *graph, uint32_t before, uint32_t after);

static void visit_edges(const cmdq_queue *queue, uint32_t count, cmdq_graph *graph, edge_visitor *edge)
{
    for (uint32_t i = 0; i < count; i++) {
        const cmdq_entry *e = &queue->entries.data[i];
        for (unsigned which = 0; which < CMDQ_LISTS; which++) {
            cmdq_ids ids = cmdq_entry_list(queue, e, which);
            for (uint32_t k = 0; k < ids.count; k++)
                if (ids.at[k] < count) /* within the part of the queue */
                    which == CMDQ_DEPS_AFTER ? edge(graph, i, ids.at[k]) : edge(graph, ids.at[k], i);
        }
        if (e->wait_group)
            edge(graph, e->wait_group - 1, i);
    }
}

static void count_edge(cmdq_graph *graph, uint32_t before, uint32_t after)
{
    graph->first[before + 1]++;
    graph->waits[after]++;
}

static void store_edge(cmdq_graph *graph, uint32_t before, uint32_t after)
{
    graph->next[graph->first[before]++] = after;
}

void cmdq_graph_fini(cmdq_graph *graph)
{
    free(graph->first);
    free(graph->next);
    free(graph->waits);
    free(graph->barrier);
    free(graph->barriers);
    *graph = (cmdq_graph){0};
}

bool cmdq_graph_init(const cmdq_queue *queue, uint32_t count, cmdq_graph *graph)
{
    *graph = (cmdq_graph){.first = tv_array_calloc((size_t)count + 2, sizeof *graph->first),
                          .waits = tv_array_calloc((size_t)count + 1, sizeof *graph->waits),
                          .barrier = tv_array_calloc((size_t)count + 1, sizeof *graph->barrier)};
    if (!graph->first || !graph->waits || !graph->barrier) {
        cmdq_graph_fini(graph);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        graph->barrier[i] = graph->barrier_count;
        graph->barrier_count += queue->entries.data[i].opcode == CMDQ_BARRIER;
    }
    visit_edges(queue, count, graph, count_edge);
    for (uint32_t i = 0; i < count; i++)
        graph->first[i + 1] += graph->first[i];
    graph->next = tv_array_alloc((size_t)graph->first[count] + 1, sizeof *graph->next);
    graph->barriers = tv_array_alloc((size_t)graph->barrier_count + 1, sizeof *graph->barriers);
    if (!graph->next || !graph->barriers) {
        cmdq_graph_fini(graph);
        return false;
    }
    visit_edges(queue, count, graph, store_edge);
    for (uint32_t i = count; i > 0; i--) /* store_edge has moved each start to that of the next entry */
        graph->first[i] = graph->first[i - 1];
    graph->first[0] = 0;
    for (uint32_t i = 0, b = 0; i < count; i++)
        if (queue->entries.data[i].opcode == CMDQ_BARRIER)
            graph->barriers[b++] = i;
    return true;
}

/* ---- The order ---- */

/* A binary heap of entries, the lowest on top. */
typedef struct heap {
    uint32_t *at;
    uint32_t count;
} heap;

static void push(heap *h, uint32_t x)
{
    uint32_t i = h->count++;
    for (; i && h->at[(i - 1) / 2] > x; i = (i - 1) / 2)
        h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = x;
}

static uint32_t pop(heap *h)
{
    uint32_t top = h->at[0], x = h->at[--h->count], i = 0, child;
    while ((child = 2 * i + 1) < h->count) {
        child += child + 1 < h->count && h->at[child + 1] < h->at[child];
        if (h->at[child] >= x)
            break;
        h->at[i] = h->at[child];
        i = child;
    }
    h->at[i] = x;
    return top;
}

/* A topological sort. pending: of each entry the dependencies that are left; the previous entry of its queue and the
 * last barrier before it count as one each. */
typedef struct sorter {
    uint32_t *pending, *next_in_queue, *barrier_first;
    heap runnable;
} sorter;

static void sorter_fini(sorter *s)
{
    free(s->pending);
    free(s->next_in_queue);
    free(s->barrier_first);
    free(s->runnable.at);
}

static bool sorter_init(const cmdq_graph *graph, uint32_t count, const uint8_t *engine_of, sorter *s)
{
    uint32_t last[UINT8_MAX];
    *s = (sorter){.pending = tv_array_alloc((size_t)count + 1, sizeof *s->pending),
                  .next_in_queue = tv_array_alloc((size_t)count + 1, sizeof *s->next_in_queue),
                  .runnable = {tv_array_alloc((size_t)count + 1, sizeof *s->runnable.at), 0}};
    if (!s->pending || !s->next_in_queue || !s->runnable.at) {
        sorter_fini(s);
        return false;
    }
    memset(last, 0xFF, sizeof last);
    for (uint32_t i = 0; i < count; i++) {
        s->pending[i] = graph->waits[i] + (graph->barrier[i] != 0);
        s->next_in_queue[i] = UINT32_MAX;
        if (!engine_of || engine_of[i] == UINT8_MAX)
            continue;
        if (last[engine_of[i]] != UINT32_MAX) {
            s->next_in_queue[last[engine_of[i]]] = i;
            s->pending[i]++;
        }
        last[engine_of[i]] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!s->pending[i])
            push(&s->runnable, i);
    return true;
}

static void release_entry(sorter *s, uint32_t i)
{
    if (--s->pending[i] == 0)
        push(&s->runnable, i);
}

/* Topological sort: takes out all entries that can be; returns their number. */
static uint32_t sort_entries(const cmdq_queue *queue, const cmdq_graph *graph, uint32_t count, sorter *s,
                             uint32_t *order)
{
    uint32_t done = 0;
    while (s->runnable.count) {
        uint32_t i = pop(&s->runnable);
        if (order)
            order[done] = i;
        done++;
        for (uint64_t k = graph->first[i]; k < graph->first[i + 1]; k++)
            release_entry(s, graph->next[k]);
        if (s->next_in_queue[i] != UINT32_MAX)
            release_entry(s, s->next_in_queue[i]);
        if (queue->entries.data[i].opcode != CMDQ_BARRIER)
            continue;
        uint32_t next =
            graph->barrier[i] +
            1; /* barriers wait for each other, so that an entry needs to wait only for the last one before it */
        for (uint32_t k = i + 1; k < count && graph->barrier[k] == next; k++)
            release_entry(s, k);
    }
    return done;
}

bool cmdq_order(const cmdq_queue *queue, const cmdq_graph *graph, uint32_t count, const uint8_t *engine_of,
                uint32_t *order, uint32_t *blocked)
{
    sorter s;
    *blocked = UINT32_MAX;
    if (!sorter_init(graph, count, engine_of, &s))
        return false;
    bool all = sort_entries(queue, graph, count, &s, order) == count;
    for (uint32_t i = 0; !all && i < count && *blocked == UINT32_MAX; i++)
        if (s.pending[i])
            *blocked = i;
    sorter_fini(&s);
    return all;
}

/* For each entry a blocked one that it waits for because of its engine's queue or the other's deps_after, or
 * UINT32_MAX. NULL when out of memory. The caller frees it. */
static uint32_t *find_blockers(const cmdq_queue *queue, uint32_t count, const sorter *s)
{
    uint32_t *blockers = tv_array_alloc((size_t)count + 1, sizeof *blockers);
    if (!blockers)
        return NULL;
    memset(blockers, 0xFF, ((size_t)count + 1) * sizeof *blockers);
    for (uint32_t k = 0; k < count; k++) {
        cmdq_ids after = cmdq_entry_list(queue, &queue->entries.data[k], CMDQ_DEPS_AFTER);
        if (!s->pending[k])
            continue;
        if (s->next_in_queue[k] != UINT32_MAX)
            blockers[s->next_in_queue[k]] = k;
        for (uint32_t n = 0; n < after.count; n++)
            if (after.at[n] < count)
                blockers[after.at[n]] = k;
    }
    return blockers;
}

/* A blocked entry that `i` waits for. Every blocked entry has one. */
static uint32_t blocked_predecessor(const cmdq_queue *queue, const cmdq_graph *graph, uint32_t count, const sorter *s,
                                    const uint32_t *blockers, uint32_t i)
{
    const cmdq_entry *e = &queue->entries.data[i];
    if (e->wait_group && s->pending[e->wait_group - 1])
        return e->wait_group - 1;
    for (unsigned which = CMDQ_DEPS_BEFORE; which <= CMDQ_TARGETS; which += CMDQ_TARGETS) {
        cmdq_ids ids = cmdq_entry_list(queue, e, which);
        for (uint32_t k = 0; k < ids.count; k++)
            if (ids.at[k] < count && s->pending[ids.at[k]])
                return ids.at[k];
    }
    if (graph->barrier[i] && s->pending[graph->barriers[graph->barrier[i] - 1]])
        return graph->barriers[graph->barrier[i] - 1];
    return blockers[i] != UINT32_MAX ? blockers[i] : i;
}

void cmdq_print_cycle(const cmdq_queue *queue, const cmdq_graph *graph, uint32_t count, const uint8_t *engine_of,
                      uint32_t blocked, tv_buf *out)
{
    enum { SHOWN = 12 };
    sorter s;
    if (!sorter_init(graph, count, engine_of, &s)) {
        out->failed = true;
        return;
    }
    sort_entries(queue, graph, count, &s, NULL);
    uint32_t *blockers = find_blockers(queue, count, &s);
    if (!blockers) {
        out->failed = true;
        sorter_fini(&s);
        return;
    }
    uint32_t at = blocked, steps = 0;
    for (; steps < count; steps++) /* enough steps back end on a cycle */
        if ((at = blocked_predecessor(queue, graph, count, &s, blockers, at)) == blocked || steps >= 4096)
            break;
    uint32_t begin = at;
    for (unsigned n = 0; n < SHOWN; n++) {
        uint32_t before = blocked_predecessor(queue, graph, count, &s, blockers, at);
        tv_buf_printf(out, "%s%" PRIu32 " (%s) waits for %" PRIu32, n ? ", " : "", at,
                      cmdq_opcode_name(&queue->entries.data[at]), before);
        at = before;
        if (at == begin)
            break;
        if (n + 1 == SHOWN)
            tv_buf_str(out, ", …");
    }
    free(blockers);
    sorter_fini(&s);
}
