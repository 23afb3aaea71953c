/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled matrix-vector products composed of a product and a scaling kernel. */
#include "kernels/gemv_scaled.h"

#include "kernels/bf16.h"
#include "num/float.h"

void tv_gemv_scaled_with(tv_gemm_s4s8_fn *multiply, const tv_gemv_scaled_args *r)
{
    enum { ROWS_PER_TILE = 256 };
    int32_t acc[ROWS_PER_TILE];
    float scales[ROWS_PER_TILE];
    uint16_t y[ROWS_PER_TILE];
    for (size_t at = 0, count; at < r->rows; at += count) {
        count = r->rows - at < ROWS_PER_TILE ? r->rows - at : ROWS_PER_TILE;
        multiply(r->weights + at * r->beats * TV_S4_BEAT / 2, r->beats, count, r->packed, 0, &r->sum, 1, acc);
        for (size_t i = 0; i < count; i++) {
            scales[i] = r->scales ? tv_bf16_to_f32(tv_load_le16(r->scales + 2 * (at + i))) : 1;
            y[i] = tv_load_le16(r->out + 2 * (at + i));
        }
        tv_bf16_scale(acc, 1, r->vector_scale, scales, r->add ? y : NULL, count, y);
        for (size_t i = 0; i < count; i++)
            tv_store_le(r->out + 2 * (at + i), y[i], 2);
    }
}
