/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/edges.h"

#include <stdlib.h>

static int compare_edges(const trace_edge *a, const trace_edge *b)
{
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static int compare_for_qsort(const void *a, const void *b) { return compare_edges(a, b); }

void tv_edges_init(edge_sorter *sorter, size_t capacity) { *sorter = (edge_sorter){.capacity = capacity}; }

void tv_edges_fini(edge_sorter *sorter)
{
    for (size_t i = 0; i < sorter->run_count; i++)
        free(sorter->runs[i].buffer);
    free(sorter->runs);
    free(sorter->heap);
    free(sorter->edges);
    if (sorter->file)
        fclose(sorter->file);
    *sorter = (edge_sorter){0};
}

/* ---- Adding ---- */

/* Sorts the edges in memory and appends them to the file as a run. */
static tv_status write_run(edge_sorter *s)
{
    if (s->run_count == EDGE_RUNS_MAX)
        return TV_ERR_INPUT;
    if (!s->file && !(s->file = tmpfile()))
        return TV_ERR_IO;
    edge_run *runs = realloc(s->runs, (s->run_count + 1) * sizeof *runs);
    if (!runs)
        return TV_ERR_MEMORY;
    s->runs = runs;
    runs[s->run_count] = (edge_run){.at = s->total - s->count, .end = s->total};
    qsort(s->edges, s->count, sizeof *s->edges, compare_for_qsort);
    if (fwrite(s->edges, sizeof *s->edges, s->count, s->file) != s->count)
        return TV_ERR_IO;
    s->run_count++;
    s->count = 0;
    return TV_OK;
}

/* Doubles the room in memory, up to the capacity. */
static tv_status grow(edge_sorter *s)
{
    size_t room = s->room ? 2 * s->room : EDGES_READ;
    room = room < s->capacity ? room : s->capacity;
    trace_edge *edges = realloc(s->edges, room * sizeof *edges);
    if (!edges)
        return TV_ERR_MEMORY;
    s->edges = edges;
    s->room = room;
    return TV_OK;
}

void tv_edges_add(edge_sorter *sorter, trace_edge edge)
{
    if (sorter->status == TV_OK && sorter->count == sorter->room)
        sorter->status = sorter->room < sorter->capacity ? grow(sorter) : write_run(sorter);
    if (sorter->status != TV_OK)
        return;
    edge.order = sorter->total++;
    sorter->edges[sorter->count++] = edge;
}

/* ---- Merging ---- */

/* Loads the next edges of a run; false at its end or after a failure. */
static bool load_run(edge_sorter *s, edge_run *run)
{
    size_t n = run->end - run->at < EDGES_READ ? (size_t)(run->end - run->at) : EDGES_READ;
    run->next = run->loaded = 0;
    if (n == 0)
        return false;
    if (fseeko(s->file, (off_t)(run->at * sizeof *run->buffer), SEEK_SET) != 0 ||
        fread(run->buffer, sizeof *run->buffer, n, s->file) != n) {
        s->status = TV_ERR_IO;
        return false;
    }
    run->at += n;
    run->loaded = n;
    return true;
}

static const trace_edge *first_of(const edge_sorter *s, size_t heap_index)
{
    const edge_run *run = &s->runs[s->heap[heap_index]];
    return &run->buffer[run->next];
}

static void sift_down(edge_sorter *s, size_t i)
{
    for (;;) {
        size_t first = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < s->heap_count; child++)
            if (compare_edges(first_of(s, child), first_of(s, first)) < 0)
                first = child;
        if (first == i)
            return;
        size_t run = s->heap[i];
        s->heap[i] = s->heap[first];
        s->heap[first] = run;
        i = first;
    }
}

static tv_status start_merge(edge_sorter *s)
{
    free(s->edges);
    s->edges = NULL;
    s->heap = calloc(s->run_count, sizeof *s->heap);
    if (!s->heap)
        return TV_ERR_MEMORY;
    for (size_t i = 0; i < s->run_count; i++) {
        s->runs[i].buffer = malloc(EDGES_READ * sizeof *s->runs[i].buffer);
        if (!s->runs[i].buffer)
            return TV_ERR_MEMORY;
        if (load_run(s, &s->runs[i]))
            s->heap[s->heap_count++] = i;
    }
    for (size_t i = s->heap_count / 2; i-- > 0;)
        sift_down(s, i);
    return s->status;
}

tv_status tv_edges_sort(edge_sorter *sorter)
{
    if (sorter->status == TV_OK && sorter->file) {
        sorter->status = write_run(sorter);
        if (sorter->status == TV_OK)
            sorter->status = start_merge(sorter);
    } else if (sorter->status == TV_OK) {
        if (sorter->count)
            qsort(sorter->edges, sorter->count, sizeof *sorter->edges, compare_for_qsort);
        sorter->total = 0; /* of those read */
    }
    return sorter->status;
}

tv_status tv_edges_report(const edge_sorter *sorter, const tv_diag_sink *sink)
{
    switch (sorter->status) {
    case TV_OK:
    case TV_FAULT:
        return TV_OK;
    case TV_ERR_INPUT:
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TRACE_LIMIT), NULL,
                       "the trace has more than 2^32 begins and ends of events");
    case TV_ERR_IO:
        return tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), "make room for temporary files",
                       "a temporary file cannot be written or read");
    case TV_ERR_MEMORY:
        break;
    }
    return tv_fail_memory(sink);
}

bool tv_edges_next(edge_sorter *sorter, trace_edge *out)
{
    if (sorter->status != TV_OK)
        return false;
    if (!sorter->file) {
        if (sorter->total == sorter->count)
            return false;
        *out = sorter->edges[sorter->total++];
        return true;
    }
    if (sorter->heap_count == 0)
        return false;
    edge_run *run = &sorter->runs[sorter->heap[0]];
    *out = run->buffer[run->next++];
    if (run->next == run->loaded && !load_run(sorter, run))
        sorter->heap[0] = sorter->heap[--sorter->heap_count];
    sift_down(sorter, 0);
    return true;
}
