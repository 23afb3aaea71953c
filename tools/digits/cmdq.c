/* SPDX-License-Identifier: Apache-2.0 */
/* The INT8 network for CMDQ: the arithmetic of examples/digits/cmdq.json, and the files that it loads.
 *
 * Contract: cmdq_run() returns bit-exactly the logits of the queue. The weights are quantized by quant.c, INT8 with a
 * scale per row; pixels are in units of 1/16, and the hidden layer is INT8 in units of HIDDEN_UNIT. Sums are exact;
 * each product with a scale, the bias and GELU are rounded once. */
#include "digits.h"

#include <math.h>
#include <string.h>

static const float PIXEL_UNIT = 1.0f / 16.0f, HIDDEN_UNIT = 1.0f / 28.0f;

static float neuron(const struct qlayer *l, int row, const int8_t *x, float unit)
{
    int32_t acc = 0;
    for (int i = 0; i < l->in; i++)
        acc += x[i] * l->w[row][i];
    float scaled = (float)acc * unit;
    scaled *= bf16_to_float(l->scale[row]);
    return scaled + bf16_to_float(l->bias[row]);
}

static int8_t gelu_int8(float z)
{
    float g = (float)(0.5 * (double)z * (1.0 + erf((double)z * 0.70710678118654752)));
    float r = nearbyintf(g / HIDDEN_UNIT);
    return (int8_t)(r < -128.0f ? -128.0f : r > 127.0f ? 127.0f : r);
}

static void quantize_pixels(const struct image *image, int8_t x[PIXELS])
{
    for (int p = 0; p < PIXELS; p++)
        x[p] = (int8_t)(image->pixel[p] / PIXEL_UNIT); /* exact */
}

void cmdq_run(const struct qlayer q[LAYERS], const struct image *image, float *y)
{
    int8_t x[PIXELS], h[MAX_DIM];
    quantize_pixels(image, x);
    for (int j = 0; j < q[0].out; j++)
        h[j] = gelu_int8(neuron(&q[0], j, x, PIXEL_UNIT));
    for (int j = 0; j < q[1].out; j++)
        y[j] = neuron(&q[1], j, h, HIDDEN_UNIT);
}

static size_t pack_f32(uint8_t *to, const uint16_t *bf16, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)bf16[i] << 16;
        for (int b = 0; b < 4; b++)
            to[4 * i + b] = (uint8_t)(bits >> 8 * b);
    }
    return 4 * (size_t)n;
}

/* Writes the weights row by row, the scales and the biases. */
static void write_layer(const char *dir, const char *name, const struct qlayer *l)
{
    static uint8_t bytes[MAX_DIM * (MAX_DIM + 8)];
    size_t size = 0;
    for (int j = 0; j < l->out; j++, size += (size_t)l->in)
        memcpy(bytes + size, l->w[j], (size_t)l->in);
    size += pack_f32(bytes + size, l->scale, l->out);
    size += pack_f32(bytes + size, l->bias, l->out);
    write_bytes(dir, name, bytes, size);
}

void cmdq_write(const char *dir, const struct qlayer q[LAYERS], const struct image *test, int count)
{
    static int8_t x[TEST * PIXELS];
    write_layer(dir, "cmdq.layer1.bin", &q[0]);
    write_layer(dir, "cmdq.layer2.bin", &q[1]);
    for (int i = 0; i < count; i++)
        quantize_pixels(&test[i], x + i * PIXELS);
    write_bytes(dir, "cmdq.x.s8", x, (size_t)(count * PIXELS));
}
