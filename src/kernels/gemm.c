/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of activations, and helpers of matrix products that the compiler vectorizes. A vector of 8 floats has the
 * eight partial sums of the canonical order, so vectorization does not change the result. */
#include "kernels/gemm.h"

#include "kernels/clones.h"
#include "kernels/dot.h"
#include "num/int.h"

typedef int8_t s8x32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef int8_t s8x16 __attribute__((vector_size(16), aligned(1), may_alias));

TV_CLONES void tv_gemm_s4s8_pack(const int8_t *q, size_t beats, int8_t *packed, int32_t *sum)
{
    enum { HALF = TV_S4_BLOCK / 2, OF_BLOCK = TV_S4_BLOCK / TV_S4_BEAT };
    int32_t total = 0;
    if (beats % OF_BLOCK)
        memset(packed + tv_gemm_s4s8_packed_bytes(beats) - TV_S4_BLOCK, 0, TV_S4_BLOCK);
    for (size_t b = 0; b < beats; b++) {
        int8_t *to = packed + b / OF_BLOCK * TV_S4_BLOCK + b % OF_BLOCK * (TV_S4_BEAT / 2);
        s8x32 all;
        memcpy(&all, q + b * TV_S4_BEAT, sizeof all);
        s8x16 even = __builtin_shufflevector(all, all, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        s8x16 odd = __builtin_shufflevector(all, all, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        memcpy(to, &even, sizeof even);
        memcpy(to + HALF, &odd, sizeof odd);
        for (size_t i = 0; i < TV_S4_BEAT; i++)
            total += q[b * TV_S4_BEAT + i];
    }
    *sum = total;
}

TV_CLONES int32_t tv_sum_s8(const int8_t *x, size_t n)
{
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

/* ---- Binary32 in the canonical order ---- */

enum { PARTIALS = 8 };

typedef float f32x8 __attribute__((vector_size(32), aligned(4), may_alias));

#define LOAD(type, p) (*(const type *)(const void *)(p))

TV_CLONES void tv_add_scaled(float partial[8], const float *x, float factor, const float *factors, size_t count)
{
    f32x8 p = LOAD(f32x8, partial);
    size_t u = 0;
    for (; u + PARTIALS <= count; u += PARTIALS)
        p += LOAD(f32x8, x + u) * factor * LOAD(f32x8, factors + u);
    memcpy(partial, &p, sizeof p);
    for (; u < count; u++)
        partial[u % PARTIALS] += x[u] * factor * factors[u];
}

typedef uint8_t u8x16 __attribute__((vector_size(16), aligned(1), may_alias));

TV_CLONES void tv_unpack_s4(const uint8_t *packed, size_t count, int8_t *out)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        u8x16 both = LOAD(u8x16, packed + i / 2) ^ 0x88, low = (both & 15) - 8, high = (both >> 4) - 8;
        u8x16 first = __builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        u8x16 second = __builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        memcpy(out + i, &first, sizeof first);
        memcpy(out + i + 16, &second, sizeof second);
    }
    for (; i < count; i++)
        out[i] = (int8_t)tv_int4_get(packed, i);
}
