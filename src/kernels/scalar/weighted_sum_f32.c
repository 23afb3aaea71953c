/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar variant of weighted sums of binary32, with vectors of the compiler. A vector has sixteen columns; each has
 * the eight partial sums of the canonical order, which are independent chains of additions. Two rows of weights share
 * the loads of the values. The partial sums are separate variables, so that they are in registers where there are
 * enough. */
#include "kernels/clones.h"
#include "kernels/variants.h"

enum { COLUMNS = 16, PARTIALS = 8 };

typedef float columns __attribute__((vector_size(4 * COLUMNS), aligned(4), may_alias));

#define ADD(i)                                                                                                         \
    do {                                                                                                               \
        const columns row = *(const columns *)(const void *)(v + (t + (i)) * step);                                    \
        p##i += a[t + (i)] * row;                                                                                      \
        if (two)                                                                                                       \
            q##i += b[t + (i)] * row;                                                                                  \
    } while (0)
#define ADD_LAST(i)                                                                                                    \
    if (t + (i) < k)                                                                                                   \
    ADD(i)
#define TOTAL(p) (((p##0 + p##4) + (p##2 + p##6)) + ((p##1 + p##5) + (p##3 + p##7)))

/* Sixteen columns of the sums of row `a` and, if `two`, of row `b`. */
TV_INLINE void sum_columns(bool two, const float *a, const float *b, size_t k, const float *v, size_t step,
                           float *out_a, float *out_b)
{
    columns p0 = {0}, p1 = {0}, p2 = {0}, p3 = {0}, p4 = {0}, p5 = {0}, p6 = {0}, p7 = {0};
    columns q0 = {0}, q1 = {0}, q2 = {0}, q3 = {0}, q4 = {0}, q5 = {0}, q6 = {0}, q7 = {0};
    size_t t = 0;
    for (; t + PARTIALS <= k; t += PARTIALS) {
        ADD(0);
        ADD(1);
        ADD(2);
        ADD(3);
        ADD(4);
        ADD(5);
        ADD(6);
        ADD(7);
    }
    ADD_LAST(0);
    ADD_LAST(1);
    ADD_LAST(2);
    ADD_LAST(3);
    ADD_LAST(4);
    ADD_LAST(5);
    ADD_LAST(6);
    columns total = TOTAL(p);
    memcpy(out_a, &total, sizeof total);
    if (two) {
        total = TOTAL(q);
        memcpy(out_b, &total, sizeof total);
    }
}

/* One column of the sum of a row. */
static float sum_column(const float *a, size_t k, const float *v, size_t step)
{
    float p[PARTIALS] = {0};
    for (size_t t = 0; t < k; t++)
        p[t % PARTIALS] += a[t] * v[t * step];
    return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
}

TV_CLONES static void sum_rows(bool two, const float *a, size_t k, const float *v, size_t step, size_t count,
                               float *out)
{
    size_t c = 0;
    for (; c + COLUMNS <= count; c += COLUMNS)
        if (two)
            sum_columns(true, a, a + k, k, v + c, step, out + c, out + count + c);
        else
            sum_columns(false, a, a, k, v + c, step, out + c, out + c);
    for (; c < count; c++)
        for (size_t i = 0; i <= two; i++)
            out[i * count + c] = sum_column(a + i * k, k, v + c, step);
}

void tv_weighted_sum_f32_scalar(const float *a, size_t rows, size_t k, const float *v, size_t step, size_t count,
                                float *out)
{
    for (size_t i = 0; i < rows; i += 2)
        sum_rows(i + 1 < rows, a + i * k, k, v, step, count, out + i * count);
}
