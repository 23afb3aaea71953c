/* SPDX-License-Identifier: Apache-2.0 */
/* Loops that the compiler vectorizes, one clone per level of the host. */
#include "kernels/elements.h"

#include <math.h>

#include "kernels/clones.h"
#include "num/float.h"
#include "num/int.h"

TV_CLONES void tv_elements_from_f16(const uint8_t *elements, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = tv_f16_to_f32(tv_load_le16(elements + 2 * i));
}

TV_CLONES void tv_elements_from_s8(const int8_t *elements, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)elements[i];
}

TV_CLONES void tv_elements_to_f32(const float *x, size_t count, uint8_t *elements)
{
    TV_IVDEP
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tv_f32_canonical(x[i]);
        memcpy(elements + 4 * i, &bits, sizeof bits);
    }
}

TV_CLONES void tv_elements_to_f16(const float *x, size_t count, uint8_t *elements)
{
    TV_IVDEP
    for (size_t i = 0; i < count; i++) {
        uint16_t bits = tv_f16_from_f32(x[i]);
        memcpy(elements + 2 * i, &bits, sizeof bits);
    }
}

TV_CLONES void tv_elements_to_s8(const float *x, size_t count, int8_t *elements)
{
    TV_IVDEP
    for (size_t i = 0; i < count; i++)
        elements[i] = (int8_t)tv_int_saturate(x[i], 8);
}

void tv_elements_pack(const float *x, size_t count, unsigned bits, uint8_t *packed)
{
    if (bits == 32) {
        tv_elements_to_f32(x, count, packed);
    } else if (bits == 16) {
        tv_elements_to_f16(x, count, packed);
    } else if (bits == 8) {
        tv_elements_to_s8(x, count, (int8_t *)packed);
    } else {
        memset(packed, 0, tv_ceil_div(count * bits, 8));
        for (size_t i = 0; i < count; i++)
            tv_int_set(packed, bits, i, tv_int_saturate(x[i], bits));
    }
}

TV_CLONES void tv_elements_mul_scalar(float *x, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++)
        x[i] *= scale;
}

TV_CLONES void tv_elements_div_scalar(float *x, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++)
        x[i] /= scale;
}

TV_CLONES void tv_elements_add(const float *a, const float *b, size_t count, float *out)
{
    TV_IVDEP
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

TV_CLONES void tv_elements_mul(const float *a, const float *b, size_t count, float *out)
{
    TV_IVDEP
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] * b[i];
}

TV_CLONES void tv_elements_epilogue(const float *y, size_t count, const float *bias, const float *old, float scale,
                                    float *out)
{
    TV_IVDEP
    for (size_t i = 0; i < count; i++)
        out[i] = bias ? y[i] + bias[i] : y[i];
    TV_IVDEP
    for (size_t i = 0; i < count && old; i++)
        out[i] = out[i] + old[i] * scale;
    if (scale != 1)
        for (size_t i = 0; i < count; i++)
            out[i] = out[i] / scale;
}

TV_CLONES void tv_elements_dequantize(const int32_t *acc, size_t count, float factor, const float *scales, float scale,
                                      float *y)
{
    if (scales) {
        TV_IVDEP
        for (size_t i = 0; i < count; i++)
            y[i] = (float)acc[i] * factor * scales[i];
        return;
    }
    TV_IVDEP
    for (size_t i = 0; i < count; i++)
        y[i] = (float)acc[i] * factor * scale;
}

TV_CLONES void tv_elements_rotate(const float *x, const float *c, const float *s, size_t half, bool split_half,
                                  float *out)
{
    if (split_half) {
        TV_IVDEP
        for (size_t i = 0; i < half; i++) {
            float a = x[i], b = x[half + i];
            out[i] = a * c[i] - b * s[i];
            out[half + i] = a * s[i] + b * c[i];
        }
        return;
    }
    TV_IVDEP
    for (size_t i = 0; i < half; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        out[2 * i] = a * c[i] - b * s[i];
        out[2 * i + 1] = a * s[i] + b * c[i];
    }
}

TV_CLONES float tv_elements_max(const float *x, size_t count)
{
    int32_t max = tv_f32_order((int32_t)tv_f32_bits(-INFINITY)), nan = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t order = tv_f32_order((int32_t)tv_f32_bits(x[i]));
        max = order > max ? order : max;
    }
    for (size_t i = 0; i < count; i++)
        nan |= x[i] != x[i];
    return nan ? NAN : tv_f32_of_bits((uint32_t)tv_f32_order(max));
}

TV_CLONES void tv_elements_sub_div(const float *x, size_t count, float offset, float scale, float *out)
{
    TV_IVDEP
    for (size_t i = 0; i < count; i++)
        out[i] = x[i] - offset;
    if (scale != 1)
        for (size_t i = 0; i < count; i++)
            out[i] = out[i] / scale;
}
