/* SPDX-License-Identifier: Apache-2.0 */
/* Products that are recorded to be executed together (deferred_products.c). */
#ifndef TV_MACHINE_CMDQ_DEFERRED_PRODUCTS_H
#define TV_MACHINE_CMDQ_DEFERRED_PRODUCTS_H

#include "machine/cmdq/exec.h"
#include "machine/cmdq/matmul.h"

/* Whether there are deferred products. */
bool cmdq_has_deferred(const cmdq_memories *memories);

/* Whether an output of a deferred product is in bytes [start, start + bytes) of SPM. */
bool cmdq_overlaps_deferred(const cmdq_memories *memories, uint64_t start, uint64_t bytes);

/* Whether the operation must come after the deferred products: it has a tile that overlaps an output of theirs. One
 * that only has the same outputs may be deferred after them. */
bool cmdq_needs_deferred(const cmdq_exec *x);

/* Points the product to packed activations; their scratch memory moves when more are packed. */
void cmdq_set_packed(const cmdq_memories *memories, const cmdq_packed_offsets *at, cmdq_matmul *product);

/* Defers a product whose operands are set and whose output `out` is written directly; its activations were packed last.
 * Returns false if it must be executed now. */
bool cmdq_defer_product(cmdq_exec *x, const cmdq_matmul *product, const cmdq_tile *out);

#endif
