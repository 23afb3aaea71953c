/* SPDX-License-Identifier: Apache-2.0 */
/* One row of INT8 activations times rows of INT4 or INT8 weights that have a scale for each group of 32 elements. */
#ifndef TV_KERNELS_GEMV_GROUPED_H
#define TV_KERNELS_GEMV_GROUPED_H

#include "kernels/cpu.h"

enum { TV_GROUP_SIZE = 32, TV_GROUPS_PER_VECTOR = 8 };

/* An input made ready for weights of `bits`, 4 or 8: its elements in the order in which they meet the weights, zeros
 * past the end, and for each group, up to a multiple of TV_GROUPS_PER_VECTOR, what counting weights from their least
 * number adds to its sum. */
static inline size_t tv_gemv_grouped_packed_bytes(size_t k)
{
    return tv_ceil_div(k / TV_GROUP_SIZE, TV_GROUPS_PER_VECTOR) * TV_GROUPS_PER_VECTOR * TV_GROUP_SIZE;
}
void tv_gemv_grouped_pack(const int8_t *q, size_t k, unsigned bits, int8_t *ready, int32_t *offsets);

/* out[r] = the sum, in the canonical order (dot.h), over groups g of (their exact sum times `factor`, rounded) times
 * scales[r * k / 32 + g], rounded; for `rows` rows of k elements, a multiple of 32, one after another from `weights`
 * on. */
typedef void tv_gemv_grouped_fn(const void *weights, size_t k, size_t rows, const int8_t *ready, const int32_t *offsets,
                                float factor, const float *scales, float *out);
typedef tv_gemv_grouped_fn tv_gemv_grouped_s4_fn, tv_gemv_grouped_s8_fn;
tv_gemv_grouped_fn *tv_gemv_grouped_s4(tv_cpu_level level);
tv_gemv_grouped_fn *tv_gemv_grouped_s8(tv_cpu_level level);

static inline tv_gemv_grouped_fn *tv_gemv_grouped(tv_cpu_level level, unsigned bits)
{
    return bits == 4 ? tv_gemv_grouped_s4(level) : tv_gemv_grouped_s8(level);
}

#endif
