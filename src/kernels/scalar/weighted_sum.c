/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar variant of weighted sums of INT8: columns side by side, which the compiler makes vectors of. */
#include "kernels/variants.h"

enum { COLUMNS = 16, PARTIALS = 8 };

/* Columns [0, count), at most COLUMNS of them. */
static void sum_columns(const float *a, size_t k, const int8_t *v, size_t step, size_t count, float *out)
{
    float p[PARTIALS][COLUMNS] = {{0}};
    for (size_t t = 0; t < k; t++)
        for (size_t c = 0; c < count; c++)
            p[t % PARTIALS][c] += a[t] * (float)v[t * step + c];
    for (size_t c = 0; c < count; c++)
        out[c] = ((p[0][c] + p[4][c]) + (p[2][c] + p[6][c])) + ((p[1][c] + p[5][c]) + (p[3][c] + p[7][c]));
}

void tv_weighted_sum_s8_scalar(const float *a, size_t rows, size_t k, const int8_t *v, size_t step, size_t count,
                               float *out)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < count; c += COLUMNS)
            sum_columns(a + i * k, k, v + c, step, count - c < COLUMNS ? count - c : COLUMNS, out + i * count + c);
}
