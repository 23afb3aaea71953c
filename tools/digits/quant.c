/* SPDX-License-Identifier: Apache-2.0 */
/* BF16, the weight quantizer, and the two operations of pccx v002 that the example needs.
 *
 * Contract: pccx_run() returns bit-exactly the `logits` of the program pccx.s: INT8 activations with a power-of-two
 * scale per row, exact integer sums, three FP32 roundings, the bias added like `accm`, BF16 results, GELU rounded once.
 * It shares no code with the simulator, so that each can verify the other. */
#include "digits.h"

#include <math.h>
#include <string.h>

const struct qrange INT4 = {-8, 7}, INT8 = {-127, 127};

uint16_t bf16_from_double(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    double fraction = frexp(fabs(x), &exponent); /* 0.5 <= fraction < 1 */
    float rounded = (float)ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
    if (rounded < 0x1p-126f)
        return sign;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(sign | bits >> 16);
}

float bf16_to_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int round_clamp(float w, float scale, struct qrange range)
{
    float c = nearbyintf(w / scale);
    if (c < (float)range.lo)
        return range.lo;
    return c > (float)range.hi ? range.hi : (int)c;
}

static float row_error(const struct layer *l, int row, float scale, struct qrange range)
{
    float sum = 0.0f;
    for (int i = 0; i < l->in; i++) {
        float w = l->w[i * l->stride + row];
        float e = w - scale * (float)round_clamp(w, scale, range);
        sum += e * e;
    }
    return sum;
}

void quant_fit(struct qlayer *q, const struct layer *l, struct qrange range)
{
    q->in = l->in;
    q->out = l->out;
    for (int j = 0; j < l->out; j++) {
        float absmax = 0.0f, min_error = INFINITY;
        for (int i = 0; i < l->in; i++)
            absmax = fmaxf(absmax, fabsf(l->w[i * l->stride + j]));
        q->scale[j] = 0x3F80; /* 1: any scale is correct for a row of zeros */
        for (int percent = 40; percent <= 100 && absmax > 0.0f; percent += 2) {
            /* The clip ratio: the largest weight that is not clipped, relative to the absmax of the row. */
            uint16_t scale = bf16_from_double((double)absmax * percent / (100.0 * range.hi));
            float error = row_error(l, j, bf16_to_float(scale), range);
            if (error < min_error) {
                min_error = error;
                q->scale[j] = scale;
            }
        }
    }
}

void quant_round(struct qlayer *q, const struct layer *l, struct qrange range)
{
    for (int j = 0; j < l->out; j++) {
        float scale = bf16_to_float(q->scale[j]);
        q->bias[j] = bf16_from_double((double)l->b[j]);
        for (int i = 0; i < l->in; i++)
            q->w[j][i] = (int8_t)round_clamp(l->w[i * l->stride + j], scale, range);
    }
}

void quant_use(struct layer *l, const struct qlayer *q)
{
    for (int j = 0; j < l->out; j++) {
        float scale = bf16_to_float(q->scale[j]);
        for (int i = 0; i < l->in; i++)
            l->effective[i * l->stride + j] = scale * (float)q->w[j][i];
    }
}

/* Dynamic INT8 quantization of a row to q; returns the scale 2^(E-6). */
static float quantize_row(const uint16_t *x, int n, int *q)
{
    int absmax = 0; /* the maximum biased exponent of normal values */
    for (int i = 0; i < n; i++) {
        int exponent = x[i] >> 7 & 0xFF;
        absmax = exponent > absmax ? exponent : absmax;
    }
    float scale = absmax == 0 ? 1.0f : ldexpf(1.0f, absmax - 127 - 6);
    for (int i = 0; i < n; i++) {
        int zero = (x[i] & 0x7F80) == 0;
        q[i] = zero ? 0 : round_clamp(bf16_to_float(x[i]), scale, INT8);
    }
    return scale;
}

/* GEMM with w_scale and accm for one row of activations; y contains the bias on entry. */
static void gemm_row(const struct qlayer *l, const uint16_t *x, uint16_t *y)
{
    int q[MAX_DIM];
    float scale = quantize_row(x, l->in, q);
    for (int j = 0; j < l->out; j++) {
        int32_t acc = 0; /* at most 128 * 127 * 127: exact */
        for (int i = 0; i < l->in; i++)
            acc += q[i] * l->w[j][i];
        float r = (float)acc * scale;
        r = r * bf16_to_float(l->scale[j]);
        r = r + bf16_to_float(y[j]);
        y[j] = bf16_from_double((double)r);
    }
}

static uint16_t gelu(uint16_t x)
{
    double v = (double)bf16_to_float(x);
    return bf16_from_double(0.5 * v * erfc(-v * 0.70710678118654752440));
}

void pccx_run(const struct qlayer q[LAYERS], const uint16_t *x, uint16_t *y)
{
    uint16_t h[MAX_DIM];
    memcpy(h, q[0].bias, sizeof h);
    gemm_row(&q[0], x, h);
    for (int i = 0; i < HIDDEN; i++)
        h[i] = gelu(h[i]);
    memcpy(y, q[1].bias, CLASSES * sizeof *y);
    gemm_row(&q[1], h, y);
}
