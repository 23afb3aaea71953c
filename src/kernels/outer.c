/* SPDX-License-Identifier: Apache-2.0 */
/* Outer products, many at a time: a row of ACC stays in registers while all of them are added to it. Written with the
 * compiler's portable vectors of 16 lanes, which it maps to what the host has. */
#include "kernels/outer.h"

#include "kernels/clones.h"

enum { LANES = 16 };

typedef uint32_t vector __attribute__((vector_size(LANES * sizeof(uint32_t)), aligned(4), may_alias));

/* One row of ACC: `blocks` vectors of it. A constant where it is inlined. */
TV_INLINE void add_row(uint32_t *acc, unsigned blocks, const int8_t *a, const uint32_t *b, unsigned count)
{
    uint32_t k = blocks * LANES;
    vector sum[TV_OUTER_K_MAX / LANES];
    for (unsigned v = 0; v < blocks; v++)
        sum[v] = *(const vector *)(const void *)(acc + v * LANES);
    for (unsigned p = 0; p < count; p++) {
        uint32_t x = (uint32_t)(int32_t)a[p * k];
        for (unsigned v = 0; v < blocks; v++)
            sum[v] += *(const vector *)(const void *)(b + p * k + v * LANES) * x;
    }
    for (unsigned v = 0; v < blocks; v++)
        *(vector *)(void *)(acc + v * LANES) = sum[v];
}

TV_INLINE void add_row_scalar(uint32_t *acc, uint32_t k, const int8_t *a, const uint32_t *b, unsigned count)
{
    for (unsigned p = 0; p < count; p++)
        for (uint32_t j = 0; j < k; j++)
            acc[j] += (uint32_t)(int32_t)a[p * k] * b[p * k + j];
}

TV_CLONES void tv_outer_s8(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count)
{
    uint32_t wide[TV_OUTER_K_MAX * TV_OUTER_COUNT_MAX];
    for (uint32_t i = 0; i < k * count; i++)
        wide[i] = (uint32_t)(int32_t)b[i];
    for (uint32_t i = 0; i < k; i++) {
        uint32_t *row = (uint32_t *)(void *)acc + (size_t)i * k;
        switch (k) {
        case 64: add_row(row, 4, a + i, wide, count); break;
        case 32: add_row(row, 2, a + i, wide, count); break;
        case 16: add_row(row, 1, a + i, wide, count); break;
        default: add_row_scalar(row, k, a + i, wide, count);
        }
    }
}
