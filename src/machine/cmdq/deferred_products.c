/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred products. Products whose operands stay as they are, weights in DRAM and activations that were packed, are
 * recorded instead of executed: a layer has dozens of short ones in succession, and threads that share them all at once
 * meet once instead of dozens of times.
 *
 * Products with the outputs of an earlier one, to which they mostly add, form a chain with it: a thread computes the
 * same columns of all of them, one after the other. It also stores these columns to DRAM where a store of the outputs
 * follows. If a product then overwrites them, as after each tile of the logits, they are written to DRAM only.
 *
 * Invariants: outputs of chains are disjoint; no recorded product or load reads or overwrites one; the operands have
 * not been written since. Bytes of DRAM that recorded stores write are disjoint, and no recorded product or load reads
 * one. Every other operation flushes the products first, except loads that overlap no output and no stored byte. */
#include "machine/cmdq/deferred_products.h"

#include <stdlib.h>

enum { PRODUCTS_MAX = 64, NONE = PRODUCTS_MAX };

/* Operands of a deferred product that are in DRAM. */
enum { WEIGHTS, SCALES, BIAS, OPERANDS };

/* Products with the same outputs. */
typedef struct product_chain {
    uint64_t spm, bytes; /* of the outputs; bytes 0: they are in DRAM only */
    uint64_t tasks_end;  /* number of tasks of this chain and those before it */
    unsigned first, last;
} product_chain;

typedef struct deferred_product {
    cmdq_matmul product;
    cmdq_packed_offsets packed;
    uint8_t *stored_to; /* where its outputs are stored, one row; NULL: nowhere */
    unsigned next;      /* of the chain, or NONE */
} deferred_product;

/* Bytes of DRAM; empty if first >= end. */
typedef struct dram_range {
    uint64_t first, end;
} dram_range;

struct cmdq_deferred_products {
    deferred_product products[PRODUCTS_MAX];
    product_chain chains[PRODUCTS_MAX];
    unsigned count, chain_count, store_count;
    dram_range reads[OPERANDS], stores; /* bounds of what products read, by operand, and stores write */
    uint64_t work;                      /* of all */
    cmdq_flushed flushed;
};

cmdq_deferred_products *cmdq_deferred_products_new(void) { return calloc(1, sizeof(cmdq_deferred_products)); }

void cmdq_deferred_products_free(cmdq_deferred_products *products) { free(products); }

/* ---- Overlaps ---- */

static void extend_range(dram_range *r, dram_range more)
{
    if (more.first >= more.end)
        return;
    r->first = r->first < r->end ? tv_min_u64(r->first, more.first) : more.first;
    r->end = tv_max_u64(r->end, more.end);
}

static bool ranges_overlap(const dram_range *a, const dram_range *b) { return a->first < b->end && b->first < a->end; }

/* The bytes of DRAM of the tile, and those between its rows. */
static dram_range range_of(const cmdq_tile *t) { return (dram_range){t->start, t->start + cmdq_tile_extent(t)}; }

static uint64_t spm_start(const cmdq_exec *x, const cmdq_tile *t) { return t->bank * x->params->bank_bytes + t->start; }

/* Whether the tile of SPM overlaps outputs of a chain. */
static bool has_outputs(const cmdq_exec *x, const cmdq_tile *t)
{
    const cmdq_deferred_products *d = x->memories->products;
    const uint64_t start = spm_start(x, t), bytes = cmdq_tile_extent(t);
    for (unsigned i = 0; i < d->chain_count; i++)
        if (d->chains[i].bytes && cmdq_overlap(start, bytes, d->chains[i].spm, d->chains[i].bytes))
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
        if (t->bank == CMDQ_NO_BANK) {
            const dram_range dram = range_of(t);
            if (ranges_overlap(&x->memories->products->stores, &dram))
                return true;
        } else if (has_outputs(x, t) && !(t->operand == CMDQ_OUT && continues_chain(x, t)))
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

/* Finds the bytes of DRAM of each operand; none of a bias that is NULL. False: an operand is elsewhere. */
static bool find_operands(const cmdq_memories *m, const cmdq_matmul *p, dram_range reads[OPERANDS])
{
    const struct {
        const void *data;
        uint64_t bytes;
    } operands[OPERANDS] = {
        [WEIGHTS] = {p->b8, (p->n - 1) * p->stride + p->k * p->weight_bits / 8},
        [SCALES] = {p->scales, ((p->n - 1) * p->scale_stride + p->k / p->group) * sizeof *p->scales},
        [BIAS] = {p->bias, p->n * sizeof *p->bias}};
    for (unsigned i = 0; i < OPERANDS; i++) {
        reads[i] = (dram_range){0};
        if (i == BIAS && !p->bias)
            continue;
        if (!is_in_dram(m, operands[i].data))
            return false;
        const uint64_t start = (uint64_t)((const uint8_t *)operands[i].data - m->dram.bytes);
        reads[i] = (dram_range){start, start + operands[i].bytes};
    }
    return true;
}

/* Lets the products of a chain, whose outputs are stored and then overwritten, write them to DRAM only. False: they are
 * not stored, not aligned there, or the first product adds to what is in SPM. */
static bool move_outputs_to_dram(cmdq_deferred_products *d, product_chain *chain)
{
    deferred_product *last = &d->products[chain->last];
    uint8_t *to = last->stored_to;
    if (!to || (uintptr_t)to % (last->product.element_bits / 8) != 0 || d->products[chain->first].product.addend)
        return false;
    for (unsigned i = chain->first; i != NONE; i = d->products[i].next) {
        cmdq_matmul *p = &d->products[i].product;
        p->elements = to;
        p->addend = p->addend ? (const float *)(const void *)to : NULL;
    }
    last->stored_to = NULL;
    chain->bytes = 0;
    return true;
}

bool cmdq_defer_product(cmdq_exec *x, const cmdq_matmul *p, const cmdq_tile *out)
{
    cmdq_memories *m = x->memories;
    cmdq_deferred_products *d = m->products;
    dram_range reads[OPERANDS];
    if (!d || !find_operands(m, p, reads) || (p->addend && (const void *)p->addend != p->elements))
        return false;
    if (d->count == PRODUCTS_MAX)
        cmdq_flush_products(m);
    const unsigned at = d->count++;
    d->products[at] = (deferred_product){.product = *p, .packed = m->packed.at, .next = NONE};
    for (unsigned i = 0; i < OPERANDS; i++)
        extend_range(&d->reads[i], reads[i]);
    d->work += cmdq_product_work(p);
    product_chain *chain = find_chain(d, spm_start(x, out), out->bytes); /* with as many rows and columns */
    if (chain && (p->addend || !move_outputs_to_dram(d, chain))) {
        d->products[chain->last].next = at;
        chain->last = at;
        return true;
    }
    const uint64_t before = d->chain_count ? d->chains[d->chain_count - 1].tasks_end : 0;
    d->chains[d->chain_count++] =
        (product_chain){spm_start(x, out), out->bytes, before + cmdq_product_tasks(p), at, at};
    return true;
}

bool cmdq_defer_store(const cmdq_exec *x, const cmdq_tile *spm, const cmdq_tile *dram)
{
    cmdq_memories *m = x->memories;
    cmdq_deferred_products *d = m->products;
    const dram_range to = range_of(dram);
    const product_chain *chain = d ? find_chain(d, spm_start(x, spm), cmdq_tile_extent(spm)) : NULL;
    deferred_product *last = chain ? &d->products[chain->last] : NULL;
    if (!last || last->stored_to || last->product.m != 1 || spm->rows != 1 || dram->rows != 1 ||
        ranges_overlap(&d->stores, &to))
        return false;
    for (unsigned i = 0; i < OPERANDS; i++)
        if (ranges_overlap(&d->reads[i], &to))
            return false;
    cmdq_prepare_dram_write(m, dram->start, dram->bytes);
    last->stored_to = m->dram.bytes + dram->start;
    d->store_count++;
    extend_range(&d->stores, to);
    return true;
}

/* ---- Multiplying ---- */

static void multiply_and_store(const deferred_product *d, uint64_t from, uint64_t to)
{
    const cmdq_matmul *p = &d->product;
    cmdq_multiply_tasks(p, from, to);
    if (d->stored_to) {
        const uint64_t bytes = p->element_bits / 8, first = cmdq_task_column(p, from) * bytes;
        memcpy(d->stored_to + first, p->elements + first, cmdq_task_column(p, to) * bytes - first);
    }
}

static void multiply_tasks(void *products, uint64_t from, uint64_t to)
{
    const cmdq_deferred_products *d = products;
    uint64_t begin = 0; /* of the chain */
    for (const product_chain *c = d->chains; begin < to; begin = c++->tasks_end)
        for (unsigned i = c->first; from < c->tasks_end && i != NONE; i = d->products[i].next)
            multiply_and_store(&d->products[i], tv_max_u64(from, begin) - begin, tv_min_u64(to, c->tasks_end) - begin);
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
    d->flushed.products += d->count;
    d->flushed.stores += d->store_count;
    d->count = d->chain_count = d->store_count = 0;
    memset(d->reads, 0, sizeof d->reads);
    d->stores = (dram_range){0};
    d->work = 0;
}

bool cmdq_has_deferred_products(const cmdq_memories *m) { return m->products && m->products->count; }

cmdq_flushed cmdq_flushed_products(const cmdq_memories *m)
{
    return m->products ? m->products->flushed : (cmdq_flushed){0};
}
