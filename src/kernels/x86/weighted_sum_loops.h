/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted sums for one level of x86-64; INT8 values are widened in registers. A vector has neighbouring columns, and
 * each column the eight partial sums of the canonical order, which are chains of additions. The including file defines
 * TARGET, the type `vector` of COLUMNS binary32, and
 *   load_floats(from): COLUMNS binary32
 *   widen_bytes(from): COLUMNS INT8 */
#ifndef TV_KERNELS_X86_WEIGHTED_SUM_LOOPS_H
#define TV_KERNELS_X86_WEIGHTED_SUM_LOOPS_H

#include "kernels/clones.h"
#include "kernels/variants.h"

enum { PARTIALS = 8, CHAINS = 8 /* of several rows: fewer would wait for additions */ };

/* Values from `v` on, in rows of `step`. */
typedef struct matrix {
    const void *v;
    size_t step;
    bool bytes; /* INT8, otherwise binary32; a constant for the compiler */
} matrix;

TV_INLINE const int8_t *byte_at(matrix v, size_t row, size_t column)
{
    return (const int8_t *)v.v + row * v.step + column;
}
TV_INLINE const float *float_at(matrix v, size_t row, size_t column)
{
    return (const float *)v.v + row * v.step + column;
}

/* Columns from c to count of one row. */
static void sum_rest(const float *a, size_t k, matrix v, size_t c, size_t count, float *out)
{
    if (v.bytes)
        tv_weighted_sum_s8_scalar(a, 1, k, byte_at(v, 0, c), v.step, count - c, out + c);
    else
        tv_weighted_sum_f32_scalar(a, 1, k, float_at(v, 0, c), v.step, count - c, out + c);
}

TARGET TV_INLINE vector load(matrix v, size_t row, size_t column)
{
    return v.bytes ? widen_bytes(byte_at(v, row, column)) : load_floats(float_at(v, row, column));
}

TARGET TV_INLINE void store_total(const vector p[PARTIALS], float *out)
{
    const vector total = ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
    memcpy(out, &total, sizeof total);
}

/* Partial sum `u` of `vectors` vectors of columns, from c on, of `rows` rows. */
TARGET TV_INLINE void sum_partial(unsigned rows, unsigned vectors, const float *a, size_t k, matrix v, size_t c,
                                  size_t u, vector partial[CHAINS])
{
    vector sums[CHAINS];
    TV_UNROLL
    for (unsigned i = 0; i < rows * vectors; i++)
        sums[i] = (vector){0};
    for (size_t t = u; t < k; t += PARTIALS) {
        vector x[CHAINS];
        TV_UNROLL
        for (unsigned i = 0; i < vectors; i++)
            x[i] = load(v, t, c + i * COLUMNS);
        TV_UNROLL
        for (unsigned i = 0; i < rows * vectors; i++)
            sums[i] += a[i / vectors * k + t] * x[i % vectors];
    }
    TV_UNROLL
    for (unsigned i = 0; i < rows * vectors; i++)
        partial[i] = sums[i];
}

/* Columns of `rows` rows, two, four or eight, that fill CHAINS / rows vectors; the rows share the values. Returns the
 * number of columns that are done. */
TARGET TV_INLINE size_t sum_blocks(unsigned rows, const float *a, size_t k, matrix v, size_t count, float *out)
{
    const unsigned vectors = CHAINS / rows;
    size_t c = 0;
    for (; c + vectors * COLUMNS <= count; c += vectors * COLUMNS) {
        vector p[PARTIALS][CHAINS];
        for (size_t u = 0; u < PARTIALS; u++)
            sum_partial(rows, vectors, a, k, v, c, u, p[u]);
        for (unsigned i = 0; i < CHAINS; i++) {
            const vector own[PARTIALS] = {p[0][i], p[1][i], p[2][i], p[3][i], p[4][i], p[5][i], p[6][i], p[7][i]};
            store_total(own, out + i / vectors * count + c + i % vectors * COLUMNS);
        }
    }
    return c;
}

#endif
