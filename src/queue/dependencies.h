/* SPDX-License-Identifier: Apache-2.0 */
/* Dependencies between entries: explicit ones, barriers, groups; the order of execution that they give. */
#ifndef TV_QUEUE_DEPENDENCIES_H
#define TV_QUEUE_DEPENDENCIES_H

#include "queue/queue.h"

/* Checks ids, groups and END of a queue that has been read, replaces names of groups by entries, sets has_forward_deps,
 * and looks for dependency cycles, without those through the queues of engines, which only a machine knows. Returns the
 * number of errors reported; sets queue->out_of_memory. */
unsigned cmdq_resolve_dependencies(tv_program *program, cmdq_queue *queue, const tv_diag_sink *sink);

/* The entries that wait for entry i: next[first[i]] to next[first[i + 1] - 1]. */
typedef struct cmdq_graph {
    uint64_t *first; /* count + 1 */
    uint32_t *next;
    uint32_t *waits;    /* of each entry: the number of entries that it waits for, without barriers and queue order */
    uint32_t *barrier;  /* of each entry: the number of barriers before it */
    uint32_t *barriers; /* the entries that are barriers */
    uint32_t barrier_count;
} cmdq_graph;

/* The graph of the first `count` entries. Returns false when out of memory; then there is nothing to free. */
bool cmdq_graph_init(const cmdq_queue *queue, uint32_t count, cmdq_graph *graph);
void cmdq_graph_fini(cmdq_graph *graph);

/* The order of execution: each entry after those it waits for, otherwise lowest id first. `engine_of` gives the queue
 * of each entry (UINT8_MAX: none), whose entries stay in the order of ids, or is NULL. `order` has room for `count`
 * entries. Returns false when out of memory, with *blocked UINT32_MAX, or if there is a dependency cycle, with an entry
 * that is blocked by it. */
bool cmdq_order(const cmdq_queue *queue, const cmdq_graph *graph, uint32_t count, const uint8_t *engine_of,
                uint32_t *order, uint32_t *blocked);

/* Prints a dependency cycle that blocks entry `blocked`, after cmdq_order has failed: "3 (NOP) waits for 7, …". */
void cmdq_print_cycle(const cmdq_queue *queue, const cmdq_graph *graph, uint32_t count, const uint8_t *engine_of,
                      uint32_t blocked, tv_buf *out);

#endif
