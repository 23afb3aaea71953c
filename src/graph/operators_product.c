/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices. */
#include <stdlib.h>

#include "graph/operator_table.h"
#include "graph/strides.h"
#include "kernels/dot.h"

bool tv_compute_LINEAR(const tv_operator_row *r)
{
    const tv_matrix *w = tv_graph_matrix(r->graph, r->node->inputs[1]);
    uint64_t vectors = tv_input_elements(r, 0) / w->columns;
    float *scratch = r->inputs[1] ? NULL : malloc(w->columns * sizeof *scratch);
    bool ok = r->inputs[1] || scratch;
    for (uint32_t row = 0; row < w->rows && ok; row++) {
        const float *weights = tv_matrix_row_or(w, r->inputs[1], row, scratch);
        ok = weights != NULL;
        for (uint64_t v = 0; v < vectors && ok; v++) {
            uint64_t at = v * w->rows + row;
            float sum = tv_dot_f32(tv_input_f32(r, 0) + v * w->columns, weights, w->columns);
            if (r->inputs[2])
                sum += tv_input_f32(r, 2)[row];
            sum = tv_activate(tv_attrs_of(r), sum);
            tv_output_f32(r)[at] = r->inputs[3] ? tv_input_f32(r, 3)[at] + sum : sum;
        }
    }
    free(scratch);
    return ok;
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

/* y[j] = sum over i of a[i] * b[i][n] at column j, in the canonical order. */
static void multiply_f32(const float *a, const float *b, int64_t k, int64_t n, float *y)
{
    for (int64_t j = 0; j < n; j++) {
        tv_sum8 sum = {{0}};
        for (int64_t i = 0; i < k; i++)
            tv_sum8_add(&sum, (uint64_t)i, a[i] * b[i * n + j]);
        y[j] = tv_sum8_total(&sum);
    }
}

/* Integers, or real numbers of another type in binary64. Offsets are in elements. */
static void multiply_elements(const tv_tensor t[3], const int64_t at[3], int64_t k, int64_t n)
{
    tv_tensor y = t[2];
    for (int64_t j = 0; j < n; j++) {
        int64_t integer = 0;
        double real = 0;
        for (int64_t i = 0; i < k; i++) {
            uint64_t a = (uint64_t)(at[0] + i), b = (uint64_t)(at[1] + i * n + j);
            if (tv_is_real_element(t[0].element))
                real += tv_tensor_real(&t[0], a) * tv_tensor_real(&t[1], b);
            else
                integer += tv_tensor_integer(&t[0], a) * tv_tensor_integer(&t[1], b);
        }
        if (tv_is_real_element(y.element))
            tv_tensor_set_real(&y, (uint64_t)(at[2] + j), real);
        else
            tv_tensor_set_integer(&y, (uint64_t)(at[2] + j), integer);
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

bool tv_compute_MATMUL(const tv_operator_row *r)
{
    const tv_tensor t[3] = {tv_input_tensor(r, 0), tv_input_tensor(r, 1), tv_output_tensor(r)};
    int64_t n = t[2].dims[t[2].rank - 1], m = t[2].dims[t[2].rank - 2], k = t[0].dims[t[0].rank - 1];
    if (tv_output_elements(r) == 0)
        return true;
    tv_walk w = walk_batches(t);
    do
        for (int64_t row = 0; row < m; row++) {
            const int64_t at[3] = {w.at[0] + row * k, w.at[1], w.at[2] + row * n};
            if (t[0].element == TV_ELEMENT_F32)
                multiply_f32(tv_input_f32(r, 0) + at[0], tv_input_f32(r, 1) + at[1], k, n, tv_output_f32(r) + at[2]);
            else
                multiply_elements(t, at, k, n);
        }
    while (tv_walk_next(&w));
    return true;
}
