/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar variants of matrix products: the reference for the others. */
#include "kernels/dot.h"
#include "kernels/variants.h"
#include "num/int.h"

void tv_gemm_s4s8_scalar(const uint8_t *weights, size_t beats, size_t rows, const int8_t *packed, size_t stride,
                         const int32_t *sums, size_t m, int32_t *out)
{
    enum { HALF = TV_S4_BLOCK / 2 };
    size_t bytes = beats * TV_S4_BEAT / 2;
    (void)sums;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < m; i++) {
            const uint8_t *w = weights + r * bytes;
            int32_t sum = 0;
            for (size_t b = 0; b < bytes; b++) {
                const int8_t *x = packed + i * stride + b / HALF * TV_S4_BLOCK + b % HALF;
                sum += tv_int4_get(w + b, 0) * x[0] + tv_int4_get(w + b, 1) * x[HALF];
            }
            out[r * m + i] = sum;
        }
}

void tv_dots_s8_scalar(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                       int32_t *out)
{
    for (size_t u = 0; u < count; u++) {
        int32_t sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += a[u * a_step + i] * w[u * w_step + i];
        out[u] = sum;
    }
}

void tv_gemm_s8s8_scalar(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums, size_t m,
                         int32_t *out)
{
    (void)sums;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < m; i++)
            tv_dots_s8_scalar(a + i * n, 0, w + r * n, 0, n, 1, &out[r * m + i]);
}

void tv_dots_f32_s8_scalar(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                           float *out)
{
    for (size_t u = 0; u < count; u++) {
        tv_sum8 sum = {{0}};
        for (size_t i = 0; i < n; i++)
            tv_sum8_add(&sum, i, a[u * a_step + i] * (float)w[u * w_step + i]);
        out[u] = tv_sum8_total(&sum);
    }
}
