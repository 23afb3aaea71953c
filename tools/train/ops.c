/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise and row operations, forward and backward, and random numbers. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers --------------------------------------------------------------------------------------------- */

uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct rng rng_stream(uint64_t seed, uint64_t a, uint64_t b)
{
    struct rng r = {seed};
    r.state = rng_next(&r) ^ a;
    r.state = rng_next(&r) ^ b;
    r.state = rng_next(&r);
    return r;
}

size_t rng_below(struct rng *r, size_t n) { return (size_t)(rng_next(r) % n); }

float rng_unit(struct rng *r) { return (float)(rng_next(r) >> 40) * 0x1p-24f; }

float rng_normal(struct rng *r)
{
    double u = ((double)(rng_next(r) >> 11) + 0.5) * 0x1p-53, v = (double)(rng_next(r) >> 11) * 0x1p-53;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

void *zalloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p) {
        fprintf(stderr, "train: out of memory\n");
        exit(3);
    }
    return p;
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

/* exp(x) with a relative error of 2e-7; vectorizes. */
static inline float fast_exp(float x)
{
    float t = fminf(fmaxf(x * 1.44269504f, -126.0f), 126.0f), n = rintf(t), f = (t - n) * 0.693147181f;
    float y = 1.0f + f * (1.0f + f * (0.5f + f * (1.0f / 6 + f * (1.0f / 24 + f * (1.0f / 120 + f * (1.0f / 720))))));
    int32_t bits = ((int32_t)n + 127) * (1 << 23);
    float power;
    memcpy(&power, &bits, sizeof power);
    return y * power;
}

void softmax(float *x, size_t live, size_t n)
{
    float max = x[0], sum = 0.0f;
    for (size_t i = 1; i < live; i++)
        max = x[i] > max ? x[i] : max;
    for (size_t i = 0; i < live; i++) {
        x[i] = fast_exp(x[i] - max);
        sum += x[i];
    }
    float scale = 1.0f / sum;
    for (size_t i = 0; i < live; i++)
        x[i] *= scale;
    memset(x + live, 0, (n - live) * sizeof *x);
}

void swiglu(float *act, const float *h1, const float *h3, size_t n)
{
    for (size_t i = 0; i < n; i++)
        act[i] = h1[i] / (1.0f + fast_exp(-h1[i])) * h3[i];
}

void swiglu_back(float *dh1, float *dh3, const float *dact, const float *h1, const float *h3, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float s = 1.0f / (1.0f + fast_exp(-h1[i]));
        dh3[i] = dact[i] * h1[i] * s;
        dh1[i] = dact[i] * h3[i] * s * (1.0f + h1[i] * (1.0f - s));
    }
}

void rmsnorm(float *y, float *r, const float *x, const float *gain, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++, x += dim, y += dim) {
        float sum = 0.0f;
        for (size_t k = 0; k < dim; k++)
            sum += x[k] * x[k];
        r[i] = 1.0f / sqrtf(sum / (float)dim + NORM_EPSILON);
        for (size_t k = 0; k < dim; k++)
            y[k] = x[k] * r[i] * gain[k];
    }
}

void rmsnorm_back(float *dx, float *dgain, const float *dy, const float *x, const float *r, const float *gain, size_t n,
                  size_t dim)
{
    for (size_t i = 0; i < n; i++, x += dim, dx += dim, dy += dim) {
        float dot = 0.0f;
        for (size_t k = 0; k < dim; k++)
            dot += dy[k] * gain[k] * x[k];
        float correction = dot * r[i] * r[i] * r[i] / (float)dim;
        for (size_t k = 0; k < dim; k++) {
            dgain[k] += dy[k] * x[k] * r[i];
            dx[k] += dy[k] * gain[k] * r[i] - correction * x[k];
        }
    }
}

void rope(float *x, const struct run *run, size_t width, float direction)
{
    size_t head = config_head(run->config), half = head / 2;
    for (size_t row = 0; row < run->batch * run->length; row++) {
        const float *c = run->cosine + row % run->length * half, *s = run->sine + row % run->length * half;
        for (size_t h = 0; h < width; h += head, x += head)
            for (size_t i = 0; i < half; i++) {
                float a = x[2 * i], b = x[2 * i + 1], sine = direction * s[i];
                x[2 * i] = a * c[i] - b * sine;
                x[2 * i + 1] = a * sine + b * c[i];
            }
    }
}

/* ---- dropout ---------------------------------------------------------------------------------------------------- */

/* The rate in units of 1/256: a mask element consumes one random byte. */
static unsigned dropout_threshold(float rate) { return (unsigned)lrintf(rate * 256.0f); }

static float dropout_scale(float rate) { return 256.0f / (float)(256 - dropout_threshold(rate)); }

void dropout(float *x, uint8_t *mask, size_t n, float rate, struct rng *r)
{
    unsigned limit = dropout_threshold(rate);
    if (!limit)
        return;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t bits = rng_next(r);
        for (size_t k = i; k < i + 8 && k < n; k++, bits >>= 8)
            mask[k] = (bits & 0xff) >= limit;
    }
    dropout_back(x, mask, n, rate);
}

void dropout_back(float *dx, const uint8_t *mask, size_t n, float rate)
{
    float scale = dropout_scale(rate);
    if (!dropout_threshold(rate))
        return;
    for (size_t i = 0; i < n; i++)
        dx[i] *= mask[i] ? scale : 0.0f;
}
