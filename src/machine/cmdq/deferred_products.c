/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred products. Products whose operands stay as they are, weights in DRAM and activations that were packed, are
 * recorded instead of executed: a layer has dozens of short ones in succession, and threads that share them all at once
 * meet once instead of dozens of times.
 *
 * Products with the outputs of an earlier one, to which they mostly add, form a chain with it: a thread computes the
 * same columns of all of them, one after the other.
 *
 * Invariants: outputs of chains are disjoint; no recorded product or load reads or overwrites one; the operands have
 * not been written since. Every other operation flushes the products first, except loads that overlap no output. */
#include "machine/cmdq/deferred_products.h"

#include <stdlib.h>

enum { PRODUCTS_MAX = 64, NONE = PRODUCTS_MAX };

/* Products with the same outputs. */
typedef struct product_chain {
    uint64_t spm, bytes; /* of the outputs */
    uint64_t tasks_end;  /* number of tasks of this chain and those before it */
    unsigned first, last;
} product_chain;

typedef struct deferred_product {
    cmdq_matmul product;
    cmdq_packed_offsets packed;
    unsigned next; /* of the chain, or NONE */
} deferred_product;

struct cmdq_deferred_products {
    deferred_product products[PRODUCTS_MAX];
    product_chain chains[PRODUCTS_MAX];
    unsigned count, chain_count;
    uint64_t work;    /* of all */
    uint64_t flushed; /* products that were recorded and executed */
};

cmdq_deferred_products *cmdq_deferred_products_new(void) { return calloc(1, sizeof(cmdq_deferred_products)); }

void cmdq_deferred_products_free(cmdq_deferred_products *products) { free(products); }

/* ---- Overlaps ---- */

static uint64_t spm_start(const cmdq_exec *x, const cmdq_tile *t) { return t->bank * x->params->bank_bytes + t->start; }

bool cmdq_overlaps_products(const cmdq_memories *m, uint64_t start, uint64_t bytes)
{
    const cmdq_deferred_products *d = m->products;
    for (unsigned i = 0; d && i < d->chain_count; i++)
        if (cmdq_overlap(start, bytes, d->chains[i].spm, d->chains[i].bytes))
            return true;
    return false;
}

/* The chain with these outputs, or NULL. */
static product_chain *find_chain(cmdq_deferred_products *d, uint64_t spm, uint64_t bytes)
{
    for (unsigned i = 0; i < d->chain_count; i++)
        if (d->chains[i].spm == spm && d->chains[i].bytes == bytes)
            return &d->chains[i];
    return NULL;
}

/* Whether the product has the outputs of a chain, which are as many rows of as many columns. Accumulation to other
 * types than binary32 converts the old outputs before the product, and so must wait. */
static bool continues_chain(const cmdq_exec *x, const cmdq_tile *out)
{
    cmdq_deferred_products *d = x->memories->products;
    const product_chain *chain = find_chain(d, spm_start(x, out), out->bytes);
    const cmdq_matmul *first = chain ? &d->products[chain->first].product : NULL;
    return first && out->rows == 1 && (!out->reads || out->qbits == 32) && first->m == x->op->m && first->n == x->op->n;
}

bool cmdq_depends_on_products(const cmdq_exec *x)
{
    if (!x->memories->products || !x->memories->products->count)
        return false;
    for (unsigned i = 0; i < x->op->tile_count; i++) {
        const cmdq_tile *t = &x->op->tiles[i];
        if (t->bank != CMDQ_NO_BANK && cmdq_overlaps_products(x->memories, spm_start(x, t), cmdq_tile_extent(t)) &&
            !(t->operand == CMDQ_OUT && continues_chain(x, t)))
            return true;
    }
    return false;
}

/* ---- Recording ---- */

static bool is_in_dram(const cmdq_memories *m, const void *data)
{
    uintptr_t at = (uintptr_t)data, dram = (uintptr_t)m->dram.bytes;
    return dram <= at && at - dram < m->dram.size;
}

bool cmdq_defer_product(cmdq_exec *x, const cmdq_matmul *p, const cmdq_tile *out)
{
    cmdq_memories *m = x->memories;
    cmdq_deferred_products *d = m->products;
    if (!d || !is_in_dram(m, p->b8) || !is_in_dram(m, p->scales) || (p->bias && !is_in_dram(m, p->bias)) ||
        (p->addend && (const void *)p->addend != p->elements))
        return false;
    if (d->count == PRODUCTS_MAX)
        cmdq_flush_products(m);
    const unsigned at = d->count++;
    d->products[at] = (deferred_product){*p, m->packed.at, NONE};
    d->work += cmdq_product_work(p);
    product_chain *chain = find_chain(d, spm_start(x, out), out->bytes); /* with as many rows and columns */
    if (chain) {
        d->products[chain->last].next = at;
        chain->last = at;
        return true;
    }
    const uint64_t before = d->chain_count ? d->chains[d->chain_count - 1].tasks_end : 0;
    d->chains[d->chain_count++] =
        (product_chain){spm_start(x, out), out->bytes, before + cmdq_product_tasks(p), at, at};
    return true;
}

/* ---- Multiplying ---- */

static void multiply_tasks(void *products, uint64_t from, uint64_t to)
{
    const cmdq_deferred_products *d = products;
    uint64_t begin = 0; /* of the chain */
    for (const product_chain *c = d->chains; begin < to; begin = c++->tasks_end)
        for (unsigned i = c->first; from < c->tasks_end && i != NONE; i = d->products[i].next)
            cmdq_multiply_tasks(&d->products[i].product, tv_max_u64(from, begin) - begin,
                                tv_min_u64(to, c->tasks_end) - begin);
}

void cmdq_set_packed(const cmdq_memories *m, const cmdq_packed_offsets *at, cmdq_matmul *p)
{
    p->packed = (const int8_t *)m->scratch[CMDQ_SCRATCH_PACKED].data + at->rows;
    p->packed_sums = (const int32_t *)(const void *)(m->scratch[CMDQ_SCRATCH_PACKED_SUMS].data + at->sums);
}

void cmdq_flush_products(cmdq_memories *m)
{
    cmdq_deferred_products *d = m->products;
    if (!d || !d->count)
        return;
    for (unsigned i = 0; i < d->count; i++)
        cmdq_set_packed(m, &d->products[i].packed, &d->products[i].product);
    tv_pool_run_tasks(m->pool, d->chains[d->chain_count - 1].tasks_end, d->work, multiply_tasks, d);
    d->flushed += d->count;
    d->count = d->chain_count = 0;
    d->work = 0;
}

bool cmdq_has_deferred_products(const cmdq_memories *m) { return m->products && m->products->count; }

uint64_t cmdq_flushed_products(const cmdq_memories *m) { return m->products ? m->products->flushed : 0; }
