/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix-vector products of INT4 or INT8 weights that have a scale for each group of 32 elements with INT8 activations.
 */
#ifndef TV_KERNELS_GEMV_GROUPED_H
#define TV_KERNELS_GEMV_GROUPED_H

#include "kernels/cpu.h"

enum {
    TV_GROUP_SIZE = 32,
    TV_GROUPS_PER_VECTOR = 8,
    TV_GROUPED_AHEAD = 16384 /* measured, docs/performance.md; weights are in huge pages */
};

/* Packs activations q[k] for weights of `bits` 4 or 8: in the order of the weights (gemm.h), padded with zeros to a
 * multiple of TV_GROUPS_PER_VECTOR groups. offsets[g] is the zero-point correction of group g: the kernels multiply
 * unsigned weights (w - min), and subtract -min times the sum of the group. */
static inline size_t tv_gemv_grouped_packed_bytes(size_t k)
{
    return tv_ceil_div(k / TV_GROUP_SIZE, TV_GROUPS_PER_VECTOR) * TV_GROUPS_PER_VECTOR * TV_GROUP_SIZE;
}
void tv_gemv_grouped_pack(const int8_t *q, size_t k, unsigned bits, int8_t *packed, int32_t *offsets);

/* out[r] = sum over groups g, in the canonical order (dot.h), of (W[r][g] * a[g]^T, exact) * factor *
 * scales[r * k / 32 + g], each operation rounded, for r < rows. W[rows][k] is contiguous; k is a multiple of 32.
 * Weights TV_GROUPED_AHEAD bytes after those that are multiplied are prefetched, with their scales: others mostly
 * follow. Prefetching past the end of memory has no effect. */
typedef void tv_gemv_grouped_fn(const void *weights, size_t k, size_t rows, const int8_t *packed,
                                const int32_t *offsets, float factor, const float *scales, float *out);
typedef tv_gemv_grouped_fn tv_gemv_grouped_s4_fn, tv_gemv_grouped_s8_fn;
tv_gemv_grouped_fn *tv_gemv_grouped_s4(tv_cpu_level level);
tv_gemv_grouped_fn *tv_gemv_grouped_s8(tv_cpu_level level);

static inline tv_gemv_grouped_fn *tv_gemv_grouped(tv_cpu_level level, unsigned bits)
{
    return bits == 4 ? tv_gemv_grouped_s4(level) : tv_gemv_grouped_s8(level);
}

#endif
