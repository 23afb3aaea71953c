/* SPDX-License-Identifier: Apache-2.0 */
/* What the execute functions share: vectors of BF16 elements in L2 words or in a direct FIFO, and scratch memory. */
#ifndef TV_MACHINE_PCCX_VECTORS_H
#define TV_MACHINE_PCCX_VECTORS_H

#include "machine/pccx/handlers.h"

static inline uint8_t *pccx_l2_at(pccx_machine *m, uint64_t word) { return m->l2.bytes + word * PCCX_WORD_BYTES; }

/* out[i] = element i of the vector at L2 word `word`, for i < count. */
void pccx_load_lanes(pccx_machine *m, uint64_t word, uint64_t count, uint16_t *out);

/* The same of the vector at `src`, or, for the tag, of the front of `fifo`, which is not popped. */
void pccx_load_vector(pccx_machine *m, uint32_t src, unsigned fifo, uint64_t count, uint16_t *out);

/* Stores a vector at `dst`, or, for the tag, pushes it. Lanes after its end in the last L2 word become zero. */
void pccx_store_vector(pccx_machine *m, uint32_t dst, unsigned fifo, const uint16_t *values, uint64_t count);

void pccx_pop_fifo(pccx_machine *m, unsigned fifo, uint64_t count);

/* Zeroes the lanes after the `count` elements of a vector, up to the end of its last L2 word. */
void pccx_clear_padding(uint8_t *vector, uint64_t count);

/* cvo.c: y[i] of an extension's function of x[i] and, with two inputs, of the old y[i]. */
struct tv_operation;
bool pccx_execute_elements(pccx_machine *m, const pccx_op *op, const struct tv_operation *operation,
                           pccx_rejection *why);

/* Per-instruction scratch memory, valid until the next call. NULL when out of memory, which pccx_reject_memory then
 * reports. */
void *pccx_scratch(pccx_machine *m, size_t bytes);
bool pccx_reject_memory(pccx_rejection *why);

#endif
