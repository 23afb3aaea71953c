/* SPDX-License-Identifier: Apache-2.0 */
/* Products that follow each other, on several threads: each thread has slices of the rows of weights of all of them, so
 * that none waits for the others between two. The weights of a product are too few to share them alone. */
#include "machine/pccx/products.h"
#include "machine/pccx/vectors.h"

enum {
    PRODUCTS_MAX = 64,
    K_MAX = TV_S4_BLOCK,
    M_MAX = 64,
    THREAD_ROWS_MIN = 64,
    SLICES_PER_THREAD = 4, /* so that a thread that is done early takes some of another's */
    SLICE_ROWS = 32,       /* a slice has a multiple of them */
    MACS_MIN = 1 << 18,    /* of all */
    FIRST_MACS_MIN = 1 << 14
};

typedef struct product_run {
    tv_gemv_scaled_fn *multiply_rows;
    unsigned count, threads, slices;
    uint32_t m; /* of every product */
    pccx_product products[PRODUCTS_MAX];
    uint32_t dst[PRODUCTS_MAX], n[PRODUCTS_MAX];
    uint8_t *quantized, *packed; /* memory for the activations of the next product */
} product_run;

/* The first row of slice `slice` of `rows`. */
static size_t first_row(size_t rows, unsigned slice, unsigned slices)
{
    return slice == slices ? rows : rows * slice / slices / SLICE_ROWS * SLICE_ROWS;
}

static void multiply_slices(void *user, uint64_t from, uint64_t to)
{
    const product_run *r = user;
    for (unsigned i = 0; i < r->count; i++) {
        size_t rows = r->products[i].gemv.rows;
        pccx_multiply_product(r->multiply_rows, &r->products[i], first_row(rows, (unsigned)from, r->slices),
                              first_row(rows, (unsigned)to, r->slices));
    }
}

/* Whether a product may be in the run: its activations are none of the run's results, and its results are those of
 * another product of the run, or none of any. */
static bool is_independent(const product_run *r, const pccx_op *op)
{
    uint64_t src_end = op->src + (uint64_t)r->m * tv_ceil_div(op->k, PCCX_LANES),
             dst_end = op->dst + (uint64_t)r->m * tv_ceil_div(op->n, PCCX_LANES);
    for (unsigned i = 0; i < r->count; i++) {
        uint64_t end = r->dst[i] + (uint64_t)r->m * tv_ceil_div(r->n[i], PCCX_LANES);
        if (op->src < end && r->dst[i] < src_end)
            return false;
        if (op->dst < end && r->dst[i] < dst_end && (op->dst != r->dst[i] || op->n != r->n[i]))
            return false;
    }
    return true;
}

/* Whether a product of a run with `m` rows of activations has rows of weights enough, and can fail only because of its
 * activations and of where its weights are. */
static bool is_divisible(const pccx_op *op, uint32_t m, unsigned threads)
{
    return (op->engine == PCCX_ENGINE_GEMV || op->engine == PCCX_ENGINE_GEMM) && op->m == m && m <= M_MAX &&
           op->src != PCCX_TAG_FIFO && op->dst != PCCX_TAG_FIFO && !pccx_MATRIX_findemax(op->word) &&
           op->n % PCCX_LANES == 0 && op->n >= threads * THREAD_ROWS_MIN && op->k <= K_MAX;
}

/* Whether the products from instruction `first` on, with `rows` rows of activations, are worth it. */
static bool is_long_enough(const pccx_machine *m, const pccx_memo_entry *e, uint64_t first, uint32_t rows,
                           unsigned threads)
{
    uint64_t macs = 0;
    pccx_op op;
    for (uint64_t i = first; i < m->count && i < first + PRODUCTS_MAX && macs < MACS_MIN; i++) {
        pccx_memo_op(m, e, i, &op);
        if (!is_divisible(&op, rows, threads))
            break;
        macs += op.macs;
    }
    return macs >= MACS_MIN;
}

/* Adds a product. False: it is not like the others, or it may fail. */
static bool add_product(pccx_machine *m, const pccx_op *op, product_run *r)
{
    pccx_product *p = &r->products[r->count];
    if (!is_divisible(op, r->m, r->threads) || !is_independent(r, op) || !pccx_find_product(m, op, p) ||
        !pccx_pack_product(m, op, p, r->quantized, r->packed))
        return false;
    r->packed += pccx_packed_memory(p);
    r->dst[r->count] = op->dst;
    r->n[r->count] = op->n;
    if (r->count) /* a thread reads its rows of the next product next */
        p[-1].gemv.ahead = p->gemv.weights - p[-1].gemv.weights;
    r->count++;
    return true;
}

/* Memory for the activations of all products of the run, the first of which is `op`. False: there is none, or `op` is
 * no product of a run. */
static bool alloc_run(pccx_machine *m, const pccx_op *op, product_run *r)
{
    pccx_product widest;
    if (!pccx_find_product(m, op, &widest))
        return false;
    widest.k = K_MAX;
    widest.gemv.beats = K_MAX / TV_S4_BEAT;
    r->quantized = pccx_scratch(m, pccx_quantized_memory(&widest) + PRODUCTS_MAX * pccx_packed_memory(&widest));
    r->packed = r->quantized ? r->quantized + pccx_quantized_memory(&widest) : NULL;
    return r->packed != NULL;
}

uint64_t pccx_execute_products(pccx_machine *m, const pccx_memo_entry *e, uint64_t first, const pccx_op *op)
{
    product_run r;
    pccx_op next;
    uint64_t macs = 0;
    r.multiply_rows = m->multiply_rows;
    r.count = 0;
    r.m = op->m;
    r.threads = tv_pool_threads(m->pool);
    r.slices = r.threads * SLICES_PER_THREAD;
    if (r.threads == 1 || m->values || op->macs < FIRST_MACS_MIN || !is_divisible(op, r.m, r.threads) ||
        (r.m > 1 && (r.m < PCCX_PANEL_ROWS_MIN || !tv_gemm_panel(m->level))) ||
        !is_long_enough(m, e, first, r.m, r.threads) || !alloc_run(m, op, &r))
        return 0;
    for (uint64_t i = first; i < m->count && r.count < PRODUCTS_MAX; i++) {
        pccx_memo_op(m, e, i, &next);
        if (!add_product(m, &next, &r))
            break;
        macs += next.macs;
    }
    if (r.count == 0)
        return 0;
    tv_pool_run_tasks(m->pool, r.slices, macs, multiply_slices, &r);
    return r.count;
}
