/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of matrix products: many dot products at once, exact for integers, in the canonical order for
 * binary32 (dot.h). Every version gives the same bits. */
#ifndef TV_KERNELS_GEMM_H
#define TV_KERNELS_GEMM_H

#include "kernels/cpu.h"

/* ---- Rows of packed INT4 times rows of INT8 ---- */

/* Activations are made ready once: blocks of TV_S4_BLOCK elements, first those of even index, then the others, zeros
 * past the end, so that a vector of low nibbles meets its partners as they lie. */
enum { TV_S4_BLOCK = 128, TV_S4_BEAT = 32 };

static inline size_t tv_gemm_s4s8_packed_bytes(size_t beats)
{
    return (beats * TV_S4_BEAT + TV_S4_BLOCK - 1) / TV_S4_BLOCK * TV_S4_BLOCK;
}

/* `q` has beats * 32 elements; *sum becomes their sum. */
void tv_gemm_s4s8_pack(const int8_t *q, size_t beats, int8_t *ready, int32_t *sum);

/* out[r * m + i] = the product of weight row r, `beats` beats of 16 bytes from weights + r * beats * 16 on, with row i
 * of `ready`, `stride` bytes after the row before it, whose sum is sums[i]. At most 2^19 elements a row: sums fit 32
 * bits. */
typedef void tv_gemm_s4s8_fn(const uint8_t *weights, size_t beats, size_t rows, const int8_t *ready, size_t stride,
                             const int32_t *sums, size_t m, int32_t *out);
tv_gemm_s4s8_fn *tv_gemm_s4s8(tv_cpu_level level);

/* ---- Several dot products ---- */

/* out[u] = sum over n of a[u * a_step + i] * w[u * w_step + i], for u below `count`; exact where n is at most 2^16. */
typedef void tv_dots_s8_fn(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                           int32_t *out);
tv_dots_s8_fn *tv_dots_s8(tv_cpu_level level);

/* out[r * m + i] = the product of row r of `w`, n bytes each, with row i of `a`, n bytes each, whose sum is sums[i];
 * exact where n is at most 2^16. */
typedef void tv_gemm_s8s8_fn(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums, size_t m,
                             int32_t *out);
tv_gemm_s8s8_fn *tv_gemm_s8s8(tv_cpu_level level);

int32_t tv_sum_s8(const int8_t *x, size_t n);

/* The same of binary32 and INT8, each sum in the canonical order, each product rounded. */
typedef void tv_dots_f32_s8_fn(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                               float *out);
tv_dots_f32_s8_fn *tv_dots_f32_s8(tv_cpu_level level);

/* partial[(at + u) mod 8] += x[u] * factor * factors[u], each operation rounded, u ascending; `at` is a multiple of 8.
 */
void tv_add_scaled(float partial[8], const float *x, float factor, const float *factors, size_t count);

/* Signed INT4 as bytes: `count` elements, low nibble first. */
void tv_unpack_s4(const uint8_t *packed, size_t count, int8_t *out);

#endif
