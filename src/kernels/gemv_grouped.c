/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of activations for grouped matrix-vector products. */
#include "kernels/gemv_grouped.h"

#include "kernels/clones.h"
#include "kernels/gemm.h"
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
