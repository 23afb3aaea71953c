/* SPDX-License-Identifier: Apache-2.0 */
/* A vector times rows of INT4 that have a scale each, all the way to BF16: for rows so short that what comes behind the
 * sums counts as much as they do. Every version gives the same bits. */
#ifndef TV_KERNELS_GEMV_SCALED_H
#define TV_KERNELS_GEMV_SCALED_H

#include "kernels/gemm.h"

typedef struct tv_gemv_scaled_args {
    const uint8_t *weights; /* rows of `beats` beats, see matrix.h */
    size_t beats, rows;
    const int8_t *ready; /* the vector, made ready by tv_gemm_s4s8_pack … */
    int32_t sum;         /* … which gave this sum */
    float vector_scale;
    const uint8_t *scales; /* BF16 of each row, little endian; NULL: all 1 */
    bool add;              /* what stands in `out` */
    uint8_t *out;          /* BF16 of each row, little endian */
} tv_gemv_scaled_args;

/* out[r] = BF16 of sum of row r * vector_scale * scales[r] (+ out[r]), each operation rounded, the last to BF16 with
 * subnormals as zeros. At most 2^19 elements a row. `out` is apart from all else. */
typedef void tv_gemv_scaled_fn(const tv_gemv_scaled_args *r);
tv_gemv_scaled_fn *tv_gemv_scaled(tv_cpu_level level);

/* The same by this kernel of the products. */
void tv_gemv_scaled_with(tv_gemm_s4s8_fn *multiply, const tv_gemv_scaled_args *r);

#endif
