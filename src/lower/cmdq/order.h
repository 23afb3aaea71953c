/* SPDX-License-Identifier: Apache-2.0 */
/* The order that engines and dependencies give the entries of a queue: which dependencies the others imply. An engine
 * executes its entries one after the other, so a dependency on an earlier entry of the same engine, or on one that
 * another dependency waits for, orders nothing. */
#ifndef TV_LOWER_CMDQ_ORDER_H
#define TV_LOWER_CMDQ_ORDER_H

#include "base/vec.h"

/* Zeroed, it keeps all dependencies. cmdq_lower_order_begin makes it drop those that are implied. */
typedef struct cmdq_lower_order {
    uint32_t tensor, vector, channels, engines; /* numbers of engines; engines: of all, 0 keeps all dependencies */
    uint32_t engine;                            /* of the entry under construction */
    uint32_t next_channel;                      /* of entries without dma_id, round robin */
    TV_VEC(uint32_t) owners;                    /* engine of each entry */
    TV_VEC(uint32_t) positions;                 /* of each entry: its number among those of its engine, from 1 */
    TV_VEC(uint32_t) clocks; /* of each entry and engine: entries of the engine that complete before it starts */
    TV_VEC(uint32_t) last;   /* of each engine: its last entry, or UINT32_MAX */
} cmdq_lower_order;

/* Begins a queue for machines with these engines, without entries. False: out of memory. */
bool cmdq_lower_order_begin(cmdq_lower_order *order, uint32_t tensor, uint32_t vector, uint32_t channels);
void cmdq_lower_order_fini(cmdq_lower_order *order);

/* The engine of the entry under construction. */
void cmdq_lower_order_tensor(cmdq_lower_order *order, uint64_t id);
void cmdq_lower_order_vector(cmdq_lower_order *order, uint64_t id);
void cmdq_lower_order_transfer(cmdq_lower_order *order);

/* Ends the entry: removes the dependencies that the others and its engine imply from `deps`; returns how many are left.
 * Dependencies are on earlier entries, each once. */
uint32_t cmdq_lower_order_end(cmdq_lower_order *order, uint32_t *deps, uint32_t count);

/* Whether there was no memory: then all dependencies are kept, which is another program. */
bool cmdq_lower_order_failed(const cmdq_lower_order *order);

#endif
