/* SPDX-License-Identifier: Apache-2.0 */
/* Packing and the scalar variants of grouped matrix-vector products. */
#include "kernels/gemv_grouped.h"

#include "kernels/clones.h"
#include "kernels/dot.h"
#include "kernels/gemm.h"
#include "kernels/variants.h"
#include "num/int.h"

/* Elements of even index first, then those of odd index. */
TV_CLONES static void deinterleave_block(const int8_t *q, int8_t *packed)
{
    enum { HALF = TV_S4_BLOCK / 2 };
    for (unsigned i = 0; i < HALF; i++) {
        packed[i] = q[2 * i];
        packed[HALF + i] = q[2 * i + 1];
    }
}

void tv_gemv_grouped_pack(const int8_t *q, size_t k, unsigned bits, int8_t *packed, int32_t *offsets)
{
    enum { HALF = TV_S4_BLOCK / 2 };
    size_t bytes = tv_gemv_grouped_packed_bytes(k), at = 0;
    memset(packed + k / TV_S4_BLOCK * TV_S4_BLOCK, 0, bytes - k / TV_S4_BLOCK * TV_S4_BLOCK);
    memset(offsets, 0, bytes / TV_GROUP_SIZE * sizeof *offsets);
    for (; bits == 4 && at + TV_S4_BLOCK <= k; at += TV_S4_BLOCK)
        deinterleave_block(q + at, packed + at);
    for (size_t i = at; bits == 4 && i < k; i++)
        packed[at + i % 2 * HALF + (i - at) / 2] = q[i];
    if (bits == 8)
        memcpy(packed, q, k);
    for (size_t g = 0; g < k / TV_GROUP_SIZE; g++)
        offsets[g] = tv_sum_s8(q + g * TV_GROUP_SIZE, TV_GROUP_SIZE) * (TV_INT_MAX(bits) + 1);
}

static void gemv_grouped_scalar(unsigned bits, const void *weights, size_t k, size_t rows, const int8_t *packed,
                                float factor, const float *scales, float *out)
{
    enum { HALF = TV_S4_BLOCK / 2 };
    const uint8_t *w = weights;
    for (size_t r = 0; r < rows; r++, w += k * bits / 8) {
        tv_sum8 sum = {{0}};
        for (size_t g = 0; g < k / TV_GROUP_SIZE; g++) {
            int32_t exact = 0;
            for (size_t i = g * TV_GROUP_SIZE; i < (g + 1) * TV_GROUP_SIZE; i++)
                exact += tv_int_get(w, bits, i) *
                         packed[bits == 8 ? i : i / TV_S4_BLOCK * TV_S4_BLOCK + i % 2 * HALF + i % TV_S4_BLOCK / 2];
            tv_sum8_add(&sum, g, (float)exact * factor * scales[r * (k / TV_GROUP_SIZE) + g]);
        }
        out[r] = tv_sum8_total(&sum);
    }
}

void tv_gemv_grouped_s4_scalar(const void *weights, size_t k, size_t rows, const int8_t *packed, const int32_t *offsets,
                               float factor, const float *scales, float *out)
{
    (void)offsets;
    gemv_grouped_scalar(4, weights, k, rows, packed, factor, scales, out);
}

void tv_gemv_grouped_s8_scalar(const void *weights, size_t k, size_t rows, const int8_t *packed, const int32_t *offsets,
                               float factor, const float *scales, float *out)
{
    (void)offsets;
    gemv_grouped_scalar(8, weights, k, rows, packed, factor, scales, out);
}
