/* SPDX-License-Identifier: Apache-2.0 */
/* Products of rows with matrices in host memory.
 *
 * Biases and other rows of constants are products, too: ones times a column of units whose row scales are the bias. */
#include "lower/pccx/network_state.h"

enum { ROWS_OF_GEMM = 4 }; /* fewer rows are GEMVs */

static void emit_matrix(pccx_network *w, uint32_t out, uint32_t in, uint32_t m, uint32_t n, uint32_t k, unsigned flags)
{
    if (m == 1)
        pccx_lower_gemv(&w->l, out, in, n, k, flags);
    else
        pccx_lower_gemm(&w->l, out, in, m, n, k, flags);
}

/* Streams rows [n0, n1) of a plane of `rows` rows. */
static void stream_rows(pccx_network *w, bool gemm, uint64_t plane, uint32_t rows, uint32_t n0, uint32_t n1,
                        uint32_t columns)
{
    uint64_t row_bytes = (uint64_t)pccx_lower_beats(columns) * PCCX_LOWER_BEAT_BYTES;
    pccx_lower_stream(&w->l, gemm, plane + 2 * (uint64_t)n0,
                      (uint64_t)pccx_lower_l2_size(n1 - n0) * PCCX_LOWER_WORD_BYTES);
    pccx_lower_stream(&w->l, gemm, plane + (uint64_t)pccx_lower_l2_size(rows) * PCCX_LOWER_WORD_BYTES + n0 * row_bytes,
                      (n1 - n0) * row_bytes);
}

/* One group of columns, at `from`. */
static void multiply_group(pccx_network *w, const pccx_net_product *p, uint32_t out, uint32_t in, bool accm)
{
    const pccx_lower_matrix *t = p->matrix;
    uint32_t block = p->n0 / PCCX_LOWER_BLOCK_ROWS, first = block * PCCX_LOWER_BLOCK_ROWS,
             rows = t->rows - first < PCCX_LOWER_BLOCK_ROWS ? t->rows - first : PCCX_LOWER_BLOCK_ROWS,
             group = p->from / w->l.group,
             columns = t->columns - p->from < w->l.group ? t->columns - p->from : w->l.group;
    uint64_t addr = t->addr + p->which * t->bytes +
                    block * pccx_lower_block_bytes(&w->l, t->planes, PCCX_LOWER_BLOCK_ROWS, t->columns) +
                    group * pccx_lower_group_bytes(t->planes, rows, w->l.group);
    for (unsigned plane = 0; plane < t->planes; plane++) {
        stream_rows(w, p->m > 1, addr + plane * pccx_lower_plane_bytes(rows, columns), rows, p->n0 - first,
                    p->n1 - first, columns);
        emit_matrix(w, out, in, p->m, p->n1 - p->n0, p->k, p->flags | (accm || plane ? PCCX_LOWER_ACCM : 0));
    }
}

void pccx_net_multiply(pccx_network *w, const pccx_net_product *p, uint32_t out, uint32_t in, bool accm)
{
    if (p->m >= ROWS_OF_GEMM || p->m == 1) {
        multiply_group(w, p, out, in, accm);
        return;
    }
    pccx_net_product one = *p;
    one.m = 1;
    for (uint32_t r = 0; r < p->m; r++)
        multiply_group(w, &one, out + r * pccx_lower_l2_size(p->n1 - p->n0), in + r * pccx_lower_l2_size(p->k), accm);
}

void pccx_net_add_row(pccx_network *w, uint32_t out, uint64_t row, uint32_t rows, uint32_t columns, bool negative,
                      bool accm)
{
    uint32_t n = pccx_lower_padded(columns);
    for (uint32_t r = 0, count; r < rows; r += count) {
        count = rows - r < PCCX_NET_ONES / PCCX_LOWER_LANES ? rows - r : PCCX_NET_ONES / PCCX_LOWER_LANES;
        for (uint32_t i = 0, m; i < count; i += m) { /* few rows are GEMVs */
            m = count < ROWS_OF_GEMM ? 1 : count;
            pccx_lower_stream(&w->l, m > 1, row, 2 * (uint64_t)n);
            pccx_lower_stream(&w->l, m > 1, w->units[negative], (uint64_t)n * PCCX_LOWER_BEAT_BYTES);
            emit_matrix(w, out + (r + i) * (n / PCCX_LOWER_LANES), w->l.plan.ones, m, n, 1, accm ? PCCX_LOWER_ACCM : 0);
        }
    }
}
