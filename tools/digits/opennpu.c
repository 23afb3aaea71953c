/* SPDX-License-Identifier: Apache-2.0 */
/* The network in INT8 for OpenNPU: quantization, and the arithmetic of examples/digits/opennpu.s.
 *
 * Contract: opennpu_run() returns bit-exactly the logits of the program. Each layer has one scale. The biases are part
 * of the integer sums: a bias is 127 * hi + lo, two additional columns of weights for the inputs 127 and 1. GELU is a
 * table of 256 entries, from its argument in units of `z_unit` to its value in units of `h_unit`; both units are
 * calibrated on the training images. */
#include "digits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIXEL_MAX = 16, INT8_MAX_VALUE = 127 };

static int8_t to_int8(double x)
{
    double r = nearbyint(x);
    return (int8_t)(r < -128.0 ? -128.0 : r > 127.0 ? 127.0 : r);
}

static double gelu(double z) { return 0.5 * z * (1.0 + erf(z * 0.70710678118654752)); }

/* Maximum |z| and h of the hidden layer over the images. */
static void measure_hidden(const struct layer *l, const struct image *image, const int *order, int count,
                           double *z_absmax, double *h_max)
{
    *z_absmax = *h_max = 0.0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < l->out; j++) {
            double z = (double)l->b[j];
            for (int p = 0; p < l->in; p++)
                z += (double)image[order[i]].pixel[p] * (double)l->w[p * l->stride + j];
            *z_absmax = fmax(*z_absmax, fabs(z));
            *h_max = fmax(*h_max, gelu(z));
        }
}

/* Quantizes a layer whose inputs are in units of `unit`; returns the unit of its sums. */
static double quantize_layer(struct opennpu_layer *q, const struct layer *l, double unit)
{
    double absmax = 0.0;
    for (int j = 0; j < l->out; j++)
        for (int i = 0; i < l->in; i++)
            absmax = fmax(absmax, fabs((double)l->w[i * l->stride + j]));
    double scale = absmax / INT8_MAX_VALUE;
    memset(q, 0, sizeof *q);
    q->in = l->in;
    q->out = l->out;
    for (int j = 0; j < l->out; j++) {
        for (int i = 0; i < l->in; i++)
            q->w[i][j] = to_int8((double)l->w[i * l->stride + j] / scale);
        double bias = nearbyint((double)l->b[j] / (scale * unit));
        q->w[l->in][j] = to_int8(bias / INT8_MAX_VALUE);
        q->w[l->in + 1][j] = to_int8(bias - INT8_MAX_VALUE * (double)q->w[l->in][j]);
    }
    return scale * unit;
}

void opennpu_fit(struct opennpu_net *q, const struct net *n, const struct image *image, const int *order, int count)
{
    double z_absmax, h_max;
    measure_hidden(&n->layer[0], image, order, count, &z_absmax, &h_max);
    q->z_unit = z_absmax / INT8_MAX_VALUE;
    q->h_unit = h_max / INT8_MAX_VALUE;
    q->scale[0] = (float)(quantize_layer(&q->layer[0], &n->layer[0], 1.0 / PIXEL_MAX) / q->z_unit);
    q->scale[1] = (float)quantize_layer(&q->layer[1], &n->layer[1], q->h_unit);
    for (int i = 0; i < 256; i++)
        q->gelu[i] = to_int8(gelu((i < 128 ? i : i - 256) * q->z_unit) / q->h_unit);
}

static void matmul(const struct opennpu_layer *q, const int8_t *x, float scale, float *y)
{
    for (int j = 0; j < q->out; j++) {
        int32_t acc = INT8_MAX_VALUE * q->w[q->in][j] + q->w[q->in + 1][j];
        for (int i = 0; i < q->in; i++)
            acc += x[i] * q->w[i][j];
        y[j] = (float)acc * scale;
    }
}

void opennpu_run(const struct opennpu_net *q, const struct image *image, float *y)
{
    int8_t x[MAX_DIM];
    float z[MAX_DIM];
    for (int p = 0; p < PIXELS; p++)
        x[p] = (int8_t)(image->pixel[p] * PIXEL_MAX); /* exact */
    matmul(&q->layer[0], x, q->scale[0], z);
    for (int j = 0; j < HIDDEN; j++)
        x[j] = q->gelu[(uint8_t)to_int8((double)z[j])];
    matmul(&q->layer[1], x, q->scale[1], y);
}

/* Rows of OPENNPU_LANES weights: inputs [first, first + count), outputs from `lane` on. */
static size_t pack_rows(int8_t *to, const struct opennpu_layer *q, int first, int count, int lane)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < OPENNPU_LANES; j++)
            to[i * OPENNPU_LANES + j] = lane + j < q->out ? q->w[first + i][lane + j] : 0;
    return (size_t)(count * OPENNPU_LANES);
}

void opennpu_write(const char *dir, const struct opennpu_net *q, const struct image *test, int count)
{
    static int8_t bytes[1 << 16];
    size_t size = 0;
    for (int lane = 0; lane < HIDDEN; lane += OPENNPU_LANES)
        size += pack_rows(bytes + size, &q->layer[0], 0, PIXELS, lane);
    size += pack_rows(bytes + size, &q->layer[1], 0, HIDDEN, 0);
    for (int lane = 0; lane < HIDDEN; lane += OPENNPU_LANES)
        size += pack_rows(bytes + size, &q->layer[0], PIXELS, 2, lane);
    size += pack_rows(bytes + size, &q->layer[1], HIDDEN, 2, 0);
    write_bytes(dir, "opennpu.weights.s8", bytes, size);

    /* Row p of a group has pixel p of OPENNPU_LANES images; the last group is padded with zeros. */
    size = 0;
    for (int first = 0; first < count; first += OPENNPU_LANES)
        for (int p = 0; p < PIXELS; p++)
            for (int j = 0; j < OPENNPU_LANES; j++)
                bytes[size++] = first + j < count ? (int8_t)(test[first + j].pixel[p] * PIXEL_MAX) : 0;
    write_bytes(dir, "opennpu.x.s8", bytes, size);

    char text[512];
    int length = snprintf(text, sizeof text,
                          "; SPDX-License-Identifier: Apache-2.0\n"
                          "; Written by digits-train.\n"
                          "        .equ    Z_UNIT, %.17g\n        .equ    H_UNIT, %.17g\n"
                          "        .equ    SCALE1, %.17g\n        .equ    SCALE2, %.17g\n",
                          q->z_unit, q->h_unit, (double)q->scale[0], (double)q->scale[1]);
    write_bytes(dir, "opennpu.inc", text, (size_t)length);
}
