/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the begins and ends of events by time, in bounded memory: beyond EDGES_IN_MEMORY they are sorted in runs in a
 * temporary file without a name, which are merged when they are read. */
#ifndef TV_TRACE_EDGES_H
#define TV_TRACE_EDGES_H

#include <stdio.h>

#include "base/diag.h"

typedef enum edge_kind {
    /* In the order in which edges of one cycle apply. */
    EDGE_END_WORK,
    EDGE_END_STALL,
    EDGE_END_ISSUE,
    EDGE_END_STATUS,
    EDGE_WORK,
    EDGE_STALL,
    EDGE_ISSUE,
    EDGE_STATUS
} edge_kind;

typedef struct trace_edge {
    uint64_t time, order; /* order: of those with the same time and kind */
    int64_t index;        /* instruction; -1: none */
    uint32_t text;        /* number of the operation or the stall reason */
    uint16_t engine;
    uint16_t kind; /* edge_kind */
} trace_edge;

typedef struct edge_run {
    uint64_t at, end;    /* edges of the file */
    trace_edge *buffer;  /* owned, [EDGES_READ] */
    size_t next, loaded; /* in the buffer */
} edge_run;

typedef struct edge_sorter {
    size_t capacity; /* most edges in memory; set by tv_edges_init, smaller in tests */
    size_t room;     /* of the array of edges */
    trace_edge *edges;
    size_t count;
    uint64_t total;
    FILE *file; /* NULL: everything is in memory */
    edge_run *runs;
    size_t run_count;
    size_t *heap; /* runs, that with the first edge at the front */
    size_t heap_count;
    tv_status status; /* of the first failure; later calls do nothing */
} edge_sorter;

enum { EDGES_IN_MEMORY = 1 << 20, EDGES_READ = 1 << 10, EDGE_RUNS_MAX = 1 << 12 };

/* Starts a sorter that has at most `capacity` edges in memory. Failures are kept in the status. */
void tv_edges_init(edge_sorter *sorter, size_t capacity);
void tv_edges_fini(edge_sorter *sorter);

void tv_edges_add(edge_sorter *sorter, trace_edge edge);

/* Ends the adding. The status is TV_ERR_MEMORY or TV_ERR_IO, also of earlier calls, or TV_ERR_INPUT (TV-T003): there
 * are too many edges. Nothing is reported. */
tv_status tv_edges_sort(edge_sorter *sorter);

/* Stores the next edge in *out; false: there is none, or reading failed. */
bool tv_edges_next(edge_sorter *sorter, trace_edge *out);

/* Reports a failure, if there was one; returns the status. */
tv_status tv_edges_report(const edge_sorter *sorter, const tv_diag_sink *sink);

#endif
