/* SPDX-License-Identifier: Apache-2.0 */
/* The quantization of a vector of BF16 by the loops over its elements. */
#include "kernels/bf16.h"
#include "kernels/quantize.h"
#include "kernels/variants.h"
#include "num/float.h"

enum { CHUNK = 4 * TV_S4_BLOCK };

static void load_row(const uint8_t *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = tv_load_le16(x + 2 * i);
}

void tv_quantize_bf16_scalar(const uint8_t *x, size_t n, uint16_t act_scale, bool pack, int8_t *q,
                             tv_quantized_row *row)
{
    *row = (tv_quantized_row){0};
    uint16_t bf16[CHUNK];
    float wide[CHUNK];
    for (size_t at = 0, count; at < n; at += count) {
        count = tv_min_u64(n - at, CHUNK);
        load_row(x + 2 * at, count, bf16);
        uint16_t absmax = tv_bf16_absmax(bf16, count);
        row->absmax = absmax > row->absmax ? absmax : row->absmax;
    }
    row->scale = tv_bf16_row_scale(row->absmax, act_scale);
    if (!tv_bf16_is_finite(row->absmax))
        return;
    for (size_t at = 0, count; at < n; at += count) {
        int8_t chunk[CHUNK] = {0};
        int32_t sum;
        count = tv_min_u64(n - at, CHUNK);
        load_row(x + 2 * at, count, bf16);
        tv_bf16_widen(bf16, count, wide);
        size_t beats = tv_ceil_div(count, TV_S4_BEAT);
        tv_quantize_s8(wide, count, row->scale, -127, 127, chunk);
        if (pack) {
            tv_gemm_s4s8_pack(chunk, beats, q + at, &sum);
            row->sum += sum;
        } else {
            memcpy(q + at, chunk, beats * TV_S4_BEAT);
            row->sum += tv_sum_s8(chunk, count);
        }
    }
}
