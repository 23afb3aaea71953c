/* SPDX-License-Identifier: Apache-2.0 */
/* BF16, the weight quantizer, and the two operations of pccx v002 that the example needs.
 *
 * Contract: machine_run() gives, bit for bit, what the program pccx.s leaves in `logits`: INT8
 * activations with one power of two per row, exact integer sums, three FP32 roundings, the bias
 * added as `accm` does it, BF16 results, and GELU rounded once. It stands on its own, sharing no
 * code with the simulator, so that each can check the other.
 */
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

static int code(float w, float scale, struct qrange range)
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
        float e = w - scale * (float)code(w, scale, range);
        sum += e * e;
    }
    return sum;
}

void quant_fit(struct qlayer *q, const struct layer *l, struct qrange range)
{
    q->in = l->in;
    q->out = l->out;
    for (int j = 0; j < l->out; j++) {
        float top = 0.0f, least = INFINITY;
        for (int i = 0; i < l->in; i++)
            top = fmaxf(top, fabsf(l->w[i * l->stride + j]));
        q->scale[j] = 0x3F80; /* 1: any scale serves a row of zeros */
        for (int percent = 40; percent <= 100 && top > 0.0f; percent += 2) {
            /* A clip ratio: the weight that just fits is this part of the row's largest. */
            uint16_t scale = bf16_from_double((double)top * percent / (100.0 * range.hi));
            float error = row_error(l, j, bf16_to_float(scale), range);
            if (error < least) {
                least = error;
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
            q->w[j][i] = (int8_t)code(l->w[i * l->stride + j], scale, range);
    }
}

void quant_use(struct layer *l, const struct qlayer *q)
{
    for (int j = 0; j < l->out; j++) {
        float scale = bf16_to_float(q->scale[j]);
        for (int i = 0; i < l->in; i++)
            l->used[i * l->stride + j] = scale * (float)q->w[j][i];
    }
}

/* Dynamic INT8: codes of the row in q, returns their scale 2^(E-6). */
static float quantize_row(const uint16_t *x, int n, int *q)
{
    int top = 0; /* the largest biased exponent; subnormals and zeros have none */
    for (int i = 0; i < n; i++) {
        int exponent = x[i] >> 7 & 0xFF;
        top = exponent > top ? exponent : top;
    }
    float scale = top == 0 ? 1.0f : ldexpf(1.0f, top - 127 - 6);
    for (int i = 0; i < n; i++) {
        int zero = (x[i] & 0x7F80) == 0;
        q[i] = zero ? 0 : code(bf16_to_float(x[i]), scale, INT8);
    }
    return scale;
}

/* gemm with w_scale and accm for one row of activations; y holds the bias when it starts. */
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

void machine_run(const struct qlayer q[LAYERS], const uint16_t *x, uint16_t *y)
{
    uint16_t h[MAX_DIM];
    memcpy(h, q[0].bias, sizeof h);
    gemm_row(&q[0], x, h);
    for (int i = 0; i < HIDDEN; i++)
        h[i] = gelu(h[i]);
    memcpy(y, q[1].bias, CLASSES * sizeof *y);
    gemm_row(&q[1], h, y);
}
