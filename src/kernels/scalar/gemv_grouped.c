/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar variants of grouped matrix-vector products. */
#include "kernels/dot.h"
#include "kernels/variants.h"
#include "num/int.h"

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
