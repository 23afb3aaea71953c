/* SPDX-License-Identifier: Apache-2.0 */
/* Products that are recorded to be executed together (deferred_products.c). */
#ifndef TV_MACHINE_CMDQ_DEFERRED_PRODUCTS_H
#define TV_MACHINE_CMDQ_DEFERRED_PRODUCTS_H

#include "machine/cmdq/exec.h"
#include "machine/cmdq/matmul.h"

bool cmdq_has_deferred_products(const cmdq_memories *memories);

/* Deferred products, and stores of their outputs, that have been executed so far. */
typedef struct cmdq_flushed {
    uint64_t products, stores;
} cmdq_flushed;
cmdq_flushed cmdq_flushed_products(const cmdq_memories *memories);

/* Whether the operation has a tile that overlaps an output of a deferred product, or bytes of DRAM that a deferred
 * store writes: then the products must be flushed before any operand is read. Not one that only has the same outputs:
 * if it is not deferred after them, they must be flushed before it is executed. */
bool cmdq_depends_on_products(const cmdq_exec *x);

/* Points the product to packed activations; their scratch memory moves when more are packed. */
void cmdq_set_packed(const cmdq_memories *memories, const cmdq_packed_offsets *at, cmdq_matmul *product);

/* Defers a product of a variant that packs outputs, without inner values: its operands are set, `elements` are those of
 * its output tile `out`, which overlaps no other operand, and memories->packed.at has its activations. Returns false if
 * it must be executed now. */
bool cmdq_defer_product(cmdq_exec *x, const cmdq_matmul *product, const cmdq_tile *out);

/* Defers a store of all outputs of a deferred product, a row of whole bytes. Returns false if there is none, or if it
 * must be executed now, after the products. */
bool cmdq_defer_store(const cmdq_exec *x, const cmdq_tile *spm, const cmdq_tile *dram);

#endif
