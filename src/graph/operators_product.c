/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices. */
#include <stdatomic.h>
#include <stdlib.h>

#include "graph/operator_table.h"
#include "graph/strides.h"
#include "kernels/dot.h"

enum { TILE = 8 };

/* y[at] from the product of its row and column. */
static void store_linear(const tv_operator_row *r, uint64_t at, uint32_t row, float sum)
{
    if (r->inputs[2])
        sum += tv_input_f32(r, 2)[row];
    sum = tv_activate(tv_attrs_of(r), sum);
    tv_output_f32(r)[at] = r->inputs[3] ? tv_input_f32(r, 3)[at] + sum : sum;
}

/* Decodes each row of weights once. */
static bool multiply_decoded(const tv_operator_row *r, const tv_matrix *w, uint64_t vectors)
{
    float *scratch = malloc(w->columns * sizeof *scratch);
    bool ok = scratch != NULL;
    for (uint32_t row = 0; row < w->rows && ok; row++) {
        const float *weights = tv_matrix_row_or(w, NULL, row, scratch);
        ok = weights != NULL;
        for (uint64_t v = 0; v < vectors && ok; v++)
            store_linear(r, v * w->rows + row, row,
                         tv_dot_f32(tv_input_f32(r, 0) + v * w->columns, weights, w->columns));
    }
    free(scratch);
    return ok;
}

/* All vectors times the tiles [from, to) of TILE rows of weights. */
static void multiply_tiles(void *user, uint64_t from, uint64_t to)
{
    const tv_operator_row *r = user;
    const tv_matrix *w = tv_graph_matrix(r->graph, r->node->inputs[1]);
    uint64_t columns = w->columns, vectors = tv_output_elements(r) / w->rows;
    for (uint64_t tile = from; tile < to; tile++) {
        uint32_t first = (uint32_t)tile * TILE, count = w->rows - first < TILE ? w->rows - first : TILE;
        float sums[TILE];
        for (uint64_t v = 0; v < vectors; v++) {
            tv_dots_f32(tv_input_f32(r, 1) + first * columns, columns, tv_input_f32(r, 0) + v * columns, columns, count,
                        sums);
            for (uint32_t i = 0; i < count; i++)
                store_linear(r, v * w->rows + first + i, first + i, sums[i]);
        }
    }
}

bool tv_compute_LINEAR(const tv_operator_row *r)
{
    const tv_matrix *w = tv_graph_matrix(r->graph, r->node->inputs[1]);
    if (tv_output_elements(r) == 0)
        return true;
    if (!r->inputs[1])
        return multiply_decoded(r, w, tv_output_elements(r) / w->rows);
    tv_operator_row row = *r;
    tv_operator_share(r, ((uint64_t)w->rows + TILE - 1) / TILE, multiply_tiles, &row);
    return true;
}

bool tv_compute_GEMM(const tv_operator_row *r) { return tv_compute_LINEAR(r); }

bool tv_compute_GLU(const tv_operator_row *r)
{
    const tv_matrix *gate = tv_graph_matrix(r->graph, r->node->inputs[1]),
                    *up = tv_graph_matrix(r->graph, r->node->inputs[2]);
    uint64_t vectors = tv_input_elements(r, 0) / gate->columns;
    float *scratch = malloc(2 * (size_t)gate->columns * sizeof *scratch);
    bool ok = scratch != NULL;
    for (uint32_t row = 0; row < gate->rows && ok; row++) {
        const float *g = tv_matrix_row_or(gate, r->inputs[1], row, scratch),
                    *u = tv_matrix_row_or(up, r->inputs[2], row, scratch + gate->columns);
        ok = g && u;
        for (uint64_t v = 0; v < vectors && ok; v++) {
            const float *x = tv_input_f32(r, 0) + v * gate->columns;
            tv_output_f32(r)[v * gate->rows + row] =
                tv_activation_f32(tv_attrs_of(r)->activation, tv_dot_f32(x, g, gate->columns)) *
                tv_dot_f32(x, u, gate->columns);
        }
    }
    free(scratch);
    return ok;
}

/* ---- Products of two values ---- */

typedef uint32_t word __attribute__((may_alias)); /* an element of binary32, or an integer modulo 2^32 */

/* The product of a batch: a[m][k] times b[k][n]. */
typedef struct batch_task {
    const word *a, *b;
    word *y;
    int64_t m, k, n;
    bool integers;
    atomic_bool failed; /* no memory */
} batch_task;

static void multiply_row(const batch_task *t, const void *columns, int64_t row, void *sums)
{
    size_t k = (size_t)t->k;
    const void *a = t->a + row * t->k;
    if (t->integers)
        tv_dots_u32(columns, k, a, k, TILE, sums);
    else
        tv_dots_f32(columns, k, a, k, TILE, sums);
}

/* All rows of a times the tiles [from, to) of TILE columns of b, which are transposed, padded with zeros. */
static void multiply_columns(void *user, uint64_t from, uint64_t to)
{
    batch_task *t = user;
    word *columns = malloc((size_t)(TILE * t->k) * sizeof *columns + 1), sums[TILE];
    if (!columns)
        t->failed = true;
    for (int64_t tile = (int64_t)from; tile < (int64_t)to && columns; tile++) {
        int64_t first = tile * TILE, count = t->n - first < TILE ? t->n - first : TILE;
        for (int64_t i = 0; i < t->k; i++)
            for (int64_t j = 0; j < TILE; j++)
                columns[j * t->k + i] = j < count ? t->b[i * t->n + first + j] : 0;
        for (int64_t row = 0; row < t->m; row++) {
            multiply_row(t, columns, row, sums);
            memcpy(t->y + row * t->n + first, sums, (size_t)count * sizeof *sums);
        }
    }
    free(columns);
}

/* One row of the product of real numbers of another type, in binary64. Offsets are in elements. */
static void multiply_elements(const tv_tensor t[3], const int64_t at[3], int64_t k, int64_t n)
{
    tv_tensor y = t[2];
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < k; i++)
            sum += tv_tensor_real(&t[0], (uint64_t)(at[0] + i)) * tv_tensor_real(&t[1], (uint64_t)(at[1] + i * n + j));
        tv_tensor_set_real(&y, (uint64_t)(at[2] + j), sum);
    }
}

/* The matrices of a batch: strides of the leading axes, which are repeated. */
static tv_walk walk_batches(const tv_tensor t[3])
{
    tv_tensor lead[3];
    for (unsigned k = 0; k < 3; k++) {
        lead[k] = t[k];
        lead[k].rank -= 2;
        lead[k].dims[lead[k].rank++] = 1; /* the axis that tv_walk_next leaves to the caller */
    }
    tv_walk w = tv_walk_over(&lead[2]);
    for (unsigned k = 0; k < 3; k++) {
        int64_t matrix = t[k].dims[t[k].rank - 1] * t[k].dims[t[k].rank - 2];
        tv_walk_repeat(&w, k, &lead[k]);
        for (uint32_t i = 0; i < w.rank; i++)
            w.strides[k][i] *= matrix;
    }
    return w;
}

/* Multiplies the matrices of all batches, which are words. */
static bool multiply_batches(const tv_operator_row *r, const tv_tensor t[3], const word *a, const word *b)
{
    tv_walk w = walk_batches(t);
    int64_t n = t[2].dims[t[2].rank - 1], m = t[2].dims[t[2].rank - 2], k = t[0].dims[t[0].rank - 1];
    bool ok = true;
    do {
        batch_task task = {a + w.at[0], b + w.at[1], (word *)r->output + w.at[2], m, k, n, !tv_output_is_f32(r), false};
        tv_operator_share(r, (uint64_t)((n + TILE - 1) / TILE), multiply_columns, &task);
        ok = !task.failed;
    } while (ok && tv_walk_next(&w));
    return ok;
}

bool tv_compute_MATMUL(const tv_operator_row *r)
{
    const tv_tensor t[3] = {tv_input_tensor(r, 0), tv_input_tensor(r, 1), tv_output_tensor(r)};
    if (tv_output_elements(r) == 0)
        return true;
    if (tv_output_is_f32(r))
        return multiply_batches(r, t, r->inputs[0], r->inputs[1]);
    if (!tv_is_real_element(t[2].element)) {
        uint32_t *a = tv_operator_words(r, 0), *b = tv_operator_words(r, 1);
        bool ok = a && b && multiply_batches(r, t, a, b);
        free(a);
        free(b);
        return ok;
    }
    tv_walk w = walk_batches(t);
    int64_t n = t[2].dims[t[2].rank - 1], m = t[2].dims[t[2].rank - 2], k = t[0].dims[t[0].rank - 1];
    do
        for (int64_t row = 0; row < m; row++)
            multiply_elements(t, (const int64_t[]){w.at[0] + row * k, w.at[1], w.at[2] + row * n}, k, n);
    while (tv_walk_next(&w));
    return true;
}
