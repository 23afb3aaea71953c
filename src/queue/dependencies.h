/* SPDX-License-Identifier: Apache-2.0 */
/* What entries say of each other: dependencies, barriers, groups, the order in which they take effect. */
#ifndef TV_QUEUE_DEPENDENCIES_H
#define TV_QUEUE_DEPENDENCIES_H

#include "queue/queue.h"

/* Checks ids, groups and END of a queue that has just been read; makes wait_group an entry, and sets `forward`. Circles
 * are looked for without the queues of engines, which are a machine's. Returns the errors found, which have been told.
 */
unsigned cmdq_resolve_dependencies(tv_program *program, cmdq_queue *queue, const tv_diag_sink *sink);

/* Who waits for whom, as successors: entry i's are next[first[i]] to next[first[i + 1] - 1]. */
typedef struct cmdq_graph {
    uint64_t *first; /* count + 1 */
    uint32_t *next;
    uint32_t *waits;    /* of each entry: how many entries it waits for, barriers and queue order not among them */
    uint32_t *barrier;  /* of each entry: barriers before it */
    uint32_t *barriers; /* the entries that are barriers */
    uint32_t barrier_count;
} cmdq_graph;

/* The graph of the first `count` entries. False: no memory; nothing is left to free. */
bool cmdq_graph_init(const cmdq_queue *queue, uint32_t count, cmdq_graph *graph);
void cmdq_graph_fini(cmdq_graph *graph);

/* The order in which entries take effect: each after those it waits for, the least id first. `engine_of` says the queue
 * of each entry's engine (UINT8_MAX: none) or is NULL. False: no memory, or a circle; then *stuck is the entry whose
 * circle it is, else UINT32_MAX. `order` has room for `count`. */
bool cmdq_order(const cmdq_queue *queue, const cmdq_graph *graph, uint32_t count, const uint8_t *engine_of,
                uint32_t *order, uint32_t *blocked);

/* "3, 7 and 9": entries of a circle through `stuck`, after cmdq_order has failed. */
void cmdq_print_cycle(const cmdq_queue *queue, const cmdq_graph *graph, uint32_t count, const uint8_t *engine_of,
                      uint32_t blocked, tv_buf *out);

#endif
