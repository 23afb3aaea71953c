/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a special function unit on BF16 vectors. */
#include "kernels/sfu.h"

#include "kernels/bf16.h"
#include "kernels/functions.h"
#include "num/float.h"

void tv_sfu_arguments(const uint16_t *v, size_t n, const uint16_t *e_max, float *x)
{
    tv_bf16_widen(v, n, x);
    if (!e_max)
        return;
    float subtrahend = tv_bf16_to_f32(tv_bf16_flush(*e_max));
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] - subtrahend;
}

void tv_sfu_round(float *y, size_t n, const uint16_t *addend, uint16_t *out)
{
    if (addend)
        tv_bf16_add(y, n, addend);
    tv_bf16_narrow(y, n, out);
}

void tv_sfu_function(tv_func func, const float *x, size_t n, const uint16_t *addend, uint16_t *out)
{
    if (addend)
        tv_func_sum_row(func, x, n, addend, out);
    else
        tv_func_bf16_row(func, x, n, out);
}

void tv_sfu_sums(const float *x, size_t n, float start, float *y)
{
    float sum = start;
    for (size_t i = 0; i < n; i++) {
        sum = sum + x[i];
        y[i] = sum;
    }
}

/* Differences have more bits than BF16. Their products with it are exact in binary64. A quotient is not, but binary64
 * carries more than twice its significant bits, so that rounding it again equals one rounding. */
static void scale_differences(const float *x, size_t n, double scalar, bool divide, uint16_t *out)
{
    for (size_t i = 0; i < n; i++) {
        double exact = (double)x[i], r = !divide ? exact * scalar : scalar == 0 ? 0.0 : exact / scalar;
        out[i] = tv_bf16_flushed_from_f64(r);
    }
}

void tv_sfu_scale(const tv_sfu_scaling *s, const float *x, size_t n, const uint16_t *addend, float *y, uint16_t *out)
{
    float scalar = tv_bf16_to_f32(tv_bf16_flush(s->scalar));
    if (s->differences && !addend) {
        scale_differences(x, n, (double)scalar, s->divide, out);
        return;
    }
    tv_scale_f32(x, n, scalar, s->divide, y);
    tv_sfu_round(y, n, addend, out);
}
