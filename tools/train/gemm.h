/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of the forward and backward pass, by BLAS. Row-major; `w` is [out][in], activations are [n][..]. */
#ifndef TRAIN_GEMM_H
#define TRAIN_GEMM_H

#include <cblas.h>
#include <stdbool.h>
#include <stddef.h>

enum { ATTENTION_TILE = 64 }; /* query rows per product of attention */

/* c = alpha * op(a) * op(b) + beta * c, with op(a) [m][k] and op(b) [k][n]; ta and tb transpose. */
static inline void gemm(bool ta, bool tb, size_t m, size_t n, size_t k, float alpha, const float *a, size_t lda,
                        const float *b, size_t ldb, float beta, float *c, size_t ldc)
{
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k,
                alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

/* y = x * w^T */
static inline void linear(float *y, const float *x, const float *w, size_t n, size_t out, size_t in)
{
    gemm(false, true, n, out, in, 1.0f, x, in, w, in, 0.0f, y, out);
}

/* dx = dy * w + beta * dx, dw += dy^T * x */
static inline void linear_back(float *dx, float *dw, const float *dy, const float *x, const float *w, size_t n,
                               size_t out, size_t in, float beta)
{
    gemm(false, false, n, in, out, 1.0f, dy, out, w, in, beta, dx, in);
    gemm(true, false, out, in, n, 1.0f, dy, out, x, in, 1.0f, dw, in);
}

#endif
