/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over BF16 that the compiler vectorizes, one clone per level of the host. */
#include "kernels/bf16.h"

#include "kernels/clones.h"
#include "num/float.h"

TV_CLONES uint16_t tv_bf16_absmax(const uint16_t *x, size_t n)
{
    uint16_t max = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t magnitude = tv_bf16_abs(x[i]);
        max = magnitude > max ? magnitude : max;
    }
    return max;
}

float tv_bf16_row_scale(uint16_t absmax, uint16_t act_scale)
{
    unsigned exponent = tv_bf16_exponent(absmax);
    return act_scale ? tv_bf16_to_f32(act_scale) : exponent == 0 ? 1.0f : tv_bf16_power_of_two((int)exponent - 6);
}

TV_CLONES void tv_bf16_widen(const uint16_t *x, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = tv_bf16_to_f32(tv_bf16_flush(x[i]));
}

TV_CLONES void tv_bf16_narrow(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = tv_bf16_flushed_from_f32(x[i]);
}

TV_CLONES void tv_bf16_add(float *x, size_t n, const uint16_t *addend)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] + tv_bf16_to_f32(tv_bf16_flush(addend[i]));
}

TV_CLONES void tv_bf16_scale(const int32_t *acc, size_t step, float row_scale, const float *scale,
                             const uint16_t *addend, size_t n, uint16_t *out)
{
    if (step != 1) {
        for (size_t i = 0; i < n; i++) {
            float r = (float)acc[i * step] * row_scale * scale[i];
            out[i] = tv_bf16_flushed_from_f32(addend ? r + tv_bf16_to_f32(addend[i]) : r);
        }
    } else if (addend) {
        TV_IVDEP
        for (size_t i = 0; i < n; i++)
            out[i] = tv_bf16_flushed_from_f32((float)acc[i] * row_scale * scale[i] + tv_bf16_to_f32(addend[i]));
    } else {
        TV_IVDEP
        for (size_t i = 0; i < n; i++)
            out[i] = tv_bf16_flushed_from_f32((float)acc[i] * row_scale * scale[i]);
    }
}
