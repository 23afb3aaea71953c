/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: exact for integers, in the canonical order (dot.h) for binary32. Operands are row-major and need no
 * alignment. All variants give the same bits. */
#ifndef TV_KERNELS_GEMM_H
#define TV_KERNELS_GEMM_H

#include "kernels/cpu.h"

/* ---- INT4 weights times INT8 activations ---- */

/* Activations are packed once: each block of TV_S4_BLOCK elements has those of even index first, then those of odd
 * index, and is padded with zeros. A vector of low nibbles of the weights then multiplies contiguous activations.
 * Weights stay packed: rows of beats of TV_S4_BEAT elements, low nibble first. */
enum { TV_S4_BLOCK = 128, TV_S4_BEAT = 32 };

static inline size_t tv_gemm_s4s8_packed_bytes(size_t beats)
{
    return (beats * TV_S4_BEAT + TV_S4_BLOCK - 1) / TV_S4_BLOCK * TV_S4_BLOCK;
}

/* Packs one row q[beats * 32] and sets *sum to the sum of its elements. */
void tv_gemm_s4s8_pack(const int8_t *q, size_t beats, int8_t *packed, int32_t *sum);

/* out[r * m + i] = W[r][k] * A[i][k]^T for r < rows, i < m, k = beats * 32, at most 2^19, so that sums fit 32 bits. Row
 * r of W begins at weights + r * beats * 16, packed row i of A at packed + i * stride; sums[i] is the sum of row i. */
typedef void tv_gemm_s4s8_fn(const uint8_t *weights, size_t beats, size_t rows, const int8_t *packed, size_t stride,
                             const int32_t *sums, size_t m, int32_t *out);
tv_gemm_s4s8_fn *tv_gemm_s4s8(tv_cpu_level level);

/* ---- INT8 times INT8 ---- */

/* out[u] = sum over i < n of a[u * a_step + i] * w[u * w_step + i], for u < count; exact for n up to 2^16. */
typedef void tv_dots_s8_fn(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                           int32_t *out);
tv_dots_s8_fn *tv_dots_s8(tv_cpu_level level);

/* out[r * m + i] = W[r][n] * A[i][n]^T for r < rows, i < m; exact for n up to 2^16. sums[i] is the sum of row i of A.
 */
typedef void tv_gemm_s8s8_fn(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums, size_t m,
                             int32_t *out);
tv_gemm_s8s8_fn *tv_gemm_s8s8(tv_cpu_level level);

/* The sum of x[i] for i < n. */
int32_t tv_sum_s8(const int8_t *x, size_t n);

/* As tv_dots_s8 for binary32 times INT8: each product rounded, each sum in the canonical order. */
typedef void tv_dots_f32_s8_fn(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                               float *out);
tv_dots_f32_s8_fn *tv_dots_f32_s8(tv_cpu_level level);

/* partial[u mod 8] += x[u] * factor * factors[u] for u < count, u ascending, each operation rounded. */
void tv_add_scaled(float partial[8], const float *x, float factor, const float *factors, size_t count);

/* out[i] = element i of packed signed INT4, low nibble first, for i < count. */
void tv_unpack_s4(const uint8_t *packed, size_t count, int8_t *out);

#endif
