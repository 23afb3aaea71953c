/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix-vector products of INT4 weights that have one BF16 scale per row, with BF16 results. For rows so short that
 * scaling and rounding take as long as the products: a variant keeps the sums in registers up to the result. */
#ifndef TV_KERNELS_GEMV_SCALED_H
#define TV_KERNELS_GEMV_SCALED_H

#include "kernels/gemm.h"

enum { TV_GEMV_AHEAD = 20480 };

typedef struct tv_gemv_scaled_args {
    const uint8_t *weights; /* W[rows][beats * 32], see gemm.h */
    size_t beats, rows;
    const int8_t *packed; /* the activations, packed by tv_gemm_s4s8_pack … */
    int32_t sum;          /* … and their sum */
    float vector_scale;
    const uint8_t *scales; /* BF16 per row, little endian; NULL: all 1 */
    bool add;              /* accumulate to `out` */
    uint8_t *out;          /* BF16 per row, little endian */
    ptrdiff_t ahead; /* bytes from a weight to the one to prefetch; TV_GEMV_AHEAD where weights follow each other */
} tv_gemv_scaled_args;

/* out[r] = (W[r] * a^T, exact) * vector_scale * scales[r] (+ out[r]), each operation rounded, the result to BF16 with
 * subnormals flushed to zero. At most 2^19 elements per row. `out` does not overlap the inputs. */
typedef void tv_gemv_scaled_fn(const tv_gemv_scaled_args *r);
tv_gemv_scaled_fn *tv_gemv_scaled(tv_cpu_level level);

/* Rows [first, end) of it. */
static inline tv_gemv_scaled_args tv_gemv_scaled_slice(const tv_gemv_scaled_args *all, size_t first, size_t end)
{
    tv_gemv_scaled_args rows = *all;
    rows.weights += first * rows.beats * (TV_S4_BEAT / 2);
    rows.scales = rows.scales ? rows.scales + 2 * first : NULL;
    rows.out += 2 * first;
    rows.rows = end - first;
    return rows;
}

/* The same with `multiply` for the products. */
void tv_gemv_scaled_with(tv_gemm_s4s8_fn *multiply, const tv_gemv_scaled_args *r);

#endif
