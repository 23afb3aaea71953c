/* SPDX-License-Identifier: Apache-2.0 */
/* GEMVs that follow each other, on several threads: each thread has a slice of the rows of all of them, so that none
 * waits for the others between two. The weights of a product are too few to share them alone. */
#include "machine/pccx/vectors.h"
#include "num/float.h"

enum {
    PRODUCTS_MAX = 64,
    BEATS_MAX = TV_S4_BLOCK / TV_S4_BEAT,
    SLICE_ROWS = 64,
    MACS_MIN = 1 << 18, /* of all */
    FIRST_MACS_MIN = 1 << 14
};

typedef struct product_run {
    tv_gemv_scaled_fn *multiply;
    unsigned count, slices;
    tv_gemv_scaled_args products[PRODUCTS_MAX];
    uint32_t dst[PRODUCTS_MAX], n[PRODUCTS_MAX];
    int8_t packed[PRODUCTS_MAX][TV_S4_BLOCK];
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
        size_t count = r->products[i].rows;
        tv_gemv_scaled_args rows = tv_gemv_scaled_slice(&r->products[i], first_row(count, (unsigned)from, r->slices),
                                                        first_row(count, (unsigned)to, r->slices));
        r->multiply(&rows);
    }
}

/* Whether a product may be in the run: its activations are none of the run's results, and its rows are those of
 * another product of the run, or none of any. */
static bool is_independent(const product_run *r, const pccx_op *op)
{
    uint64_t src_end = op->src + tv_ceil_div(op->k, PCCX_LANES), dst_end = op->dst + tv_ceil_div(op->n, PCCX_LANES);
    for (unsigned i = 0; i < r->count; i++) {
        uint64_t end = r->dst[i] + tv_ceil_div(r->n[i], PCCX_LANES);
        if (op->src < end && r->dst[i] < src_end)
            return false;
        if (op->dst < end && r->dst[i] < dst_end && (op->dst != r->dst[i] || op->n != r->n[i]))
            return false;
    }
    return true;
}

/* Whether a GEMV of a run has rows enough, and can fail only because of its activations. */
static bool is_divisible(const pccx_op *op, unsigned slices)
{
    return op->engine == PCCX_ENGINE_GEMV && op->src != PCCX_TAG_FIFO && op->dst != PCCX_TAG_FIFO &&
           !pccx_MATRIX_findemax(op->word) && op->n % PCCX_LANES == 0 && op->n >= slices * SLICE_ROWS &&
           op->k <= BEATS_MAX * TV_S4_BEAT;
}

/* Whether the products from instruction `first` on are worth it. */
static bool is_long_enough(const pccx_machine *m, const pccx_memo_entry *e, uint64_t first, unsigned slices)
{
    uint64_t macs = 0;
    pccx_op op;
    for (uint64_t i = first; i < m->count && i < first + PRODUCTS_MAX && macs < MACS_MIN; i++) {
        pccx_memo_op(m, e, i, &op);
        if (!is_divisible(&op, slices))
            break;
        macs += op.macs;
    }
    return macs >= MACS_MIN;
}

/* Adds a product. False: it is not like the others, or it may fail. */
static bool add_product(pccx_machine *m, const pccx_op *op, product_run *r)
{
    tv_gemv_scaled_args *rows = &r->products[r->count];
    if (!is_divisible(op, r->slices) || !is_independent(r, op) || !pccx_find_rows(m, op, rows) ||
        !pccx_pack_activations(m, op, r->packed[r->count], rows))
        return false;
    r->dst[r->count] = op->dst;
    r->n[r->count] = op->n;
    if (r->count) /* a thread reads its rows of the next product next */
        rows[-1].ahead = rows->weights - rows[-1].weights;
    r->count++;
    return true;
}

uint64_t pccx_execute_products(pccx_machine *m, const pccx_memo_entry *e, uint64_t first, const pccx_op *op)
{
    product_run r;
    pccx_op next;
    uint64_t macs = 0;
    r.multiply = m->multiply_rows;
    r.count = 0;
    r.slices = tv_pool_threads(m->pool);
    if (r.slices == 1 || m->values || op->macs < FIRST_MACS_MIN || !is_divisible(op, r.slices) ||
        !is_long_enough(m, e, first, r.slices))
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
