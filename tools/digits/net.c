/* SPDX-License-Identifier: Apache-2.0 */
/* The network in FP32: random numbers, augmentation, forward and backward pass, SGD with momentum.
 *
 * Contract: sums are computed in a fixed order and must not be contracted (-ffp-contract=off), so a seed gives the same
 * weights in every run. No allocation, no I/O, no global state. */
#include "digits.h"

#include <math.h>
#include <string.h>

uint64_t rng_next(struct rng *r)
{
    uint64_t z = (r->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int rng_below(struct rng *r, int n) { return (int)((rng_next(r) >> 32) * (uint64_t)n >> 32); }

float rng_uniform(struct rng *r, float lo, float hi)
{
    float unit = (float)(rng_next(r) >> 40) * 0x1p-24f;
    return lo + (hi - lo) * unit;
}

float rng_normal(struct rng *r)
{
    /* Twelve 16-bit uniforms from three numbers: close enough to normal for noise and weights. */
    int64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t bits = rng_next(r);
        for (int j = 0; j < 4; j++, bits >>= 16)
            sum += (int64_t)(bits & 0xFFFF);
    }
    return (float)(sum - 6 * 65535) / 65536.0f;
}

int argmax(const float *v, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (v[i] > v[best])
            best = i;
    return best;
}

static float pixel_at(const float *p, int x, int y) { return x < 0 || x > 7 || y < 0 || y > 7 ? 0.0f : p[8 * y + x]; }

void augment(struct rng *r, const float *in, float *out)
{
    const float angle_max = 0.1f, zoom_max = 0.08f, slant_max = 0.15f, shift_max = 0.7f, gain_max = 0.1f, noise = 0.08f;
    float angle = rng_uniform(r, -angle_max, angle_max); /* radians */
    float zoom_x = rng_uniform(r, 1 - zoom_max, 1 + zoom_max), zoom_y = rng_uniform(r, 1 - zoom_max, 1 + zoom_max);
    float dx = rng_uniform(r, -shift_max, shift_max), dy = rng_uniform(r, -shift_max, shift_max);
    float slant = rng_uniform(r, -slant_max, slant_max), gain = rng_uniform(r, 1 - gain_max, 1 + gain_max);
    float c = cosf(angle), s = sinf(angle);
    for (int i = 0; i < PIXELS; i++) {
        float u = (float)(i % 8) - 3.5f, v = (float)(i / 8) - 3.5f;
        float x = zoom_x * (c * u - s * v) + slant * v + 3.5f + dx;
        float y = zoom_y * (s * u + c * v) + 3.5f + dy;
        float left = floorf(x), top = floorf(y), fx = x - left, fy = y - top;
        int ix = (int)left, iy = (int)top;
        float upper = (1 - fx) * pixel_at(in, ix, iy) + fx * pixel_at(in, ix + 1, iy);
        float lower = (1 - fx) * pixel_at(in, ix, iy + 1) + fx * pixel_at(in, ix + 1, iy + 1);
        float value = gain * ((1 - fy) * upper + fy * lower);
        /* Noise on ink only: the background is 0 in every real image, and zeros are skipped. */
        if (value > 0)
            value += noise * rng_normal(r);
        out[i] = value < 0 ? 0.0f : fminf(value, 1.0f);
    }
}

/* y += a * x over n elements, n a multiple of 16. */
static void axpy(float *restrict y, const float *restrict x, float a, int n)
{
    for (int i = 0; i < (n & ~15); i++)
        y[i] += a * x[i];
}

static void layer_init(struct layer *l, int in, int out, struct rng *r)
{
    memset(l, 0, sizeof *l);
    l->in = in;
    l->out = out;
    l->stride = (out + 15) & ~15;
    float deviation = sqrtf(2.0f / (float)in);
    for (int i = 0; i < in; i++)
        for (int j = 0; j < out; j++)
            l->w[i * l->stride + j] = deviation * rng_normal(r);
}

void net_init(struct net *n, struct rng *r)
{
    static const int dim[LAYERS + 1] = {PIXELS, HIDDEN, CLASSES};
    for (int k = 0; k < LAYERS; k++)
        layer_init(&n->layer[k], dim[k], dim[k + 1], r);
    net_use_float(n);
}

void net_use_float(struct net *n)
{
    for (int k = 0; k < LAYERS; k++)
        memcpy(n->layer[k].effective, n->layer[k].w, sizeof n->layer[k].w);
}

void net_clear_momentum(struct net *n)
{
    for (int k = 0; k < LAYERS; k++) {
        memset(n->layer[k].vel_w, 0, sizeof n->layer[k].vel_w);
        memset(n->layer[k].vel_b, 0, sizeof n->layer[k].vel_b);
    }
}

/* z[out] = b[out] + x[in] * effective[in][out] */
static void layer_forward(const struct layer *l, const float *x, float *z)
{
    memcpy(z, l->b, (size_t)l->stride * sizeof *z);
    for (int i = 0; i < l->in; i++)
        if (x[i] != 0.0f) /* most border pixels are 0 */
            axpy(z, l->effective + i * l->stride, x[i], l->stride);
}

/* Standard normal CDF; GELU(z) = z * normal_cdf(z). */
static float normal_cdf(float z) { return 0.5f * erfcf(-0.70710678f * z); }

void net_forward(const struct net *n, const float *x, float *logits)
{
    float z[MAX_DIM];
    layer_forward(&n->layer[0], x, z);
    for (int i = 0; i < HIDDEN; i++)
        z[i] *= normal_cdf(z[i]);
    layer_forward(&n->layer[1], z, logits);
}

/* Replaces the logits by their gradient, probability minus target; returns the loss. */
static float cross_entropy(float *logits, int label, float smoothing)
{
    float top = logits[argmax(logits, CLASSES)], sum = 0.0f, loss = 0.0f;
    for (int i = 0; i < CLASSES; i++)
        sum += expf(logits[i] - top);
    float log_sum = top + logf(sum);
    for (int i = 0; i < CLASSES; i++) {
        float target = smoothing / CLASSES + (i == label ? 1.0f - smoothing : 0.0f);
        float log_p = logits[i] - log_sum;
        loss -= target * log_p;
        logits[i] = expf(log_p) - target;
    }
    return loss;
}

/* grad_w[in][out] += x[in] * delta[out] */
static void layer_gradient(struct layer *l, const float *x, const float *delta)
{
    axpy(l->grad_b, delta, 1.0f, l->stride);
    for (int i = 0; i < l->in; i++)
        if (x[i] != 0.0f)
            axpy(l->grad_w + i * l->stride, delta, x[i], l->stride);
}

float net_backward(struct net *n, const float *x, int label, float smoothing)
{
    float z[MAX_DIM], cdf[MAX_DIM], h[MAX_DIM], delta[MAX_DIM] = {0}, delta_h[MAX_DIM];
    struct layer *first = &n->layer[0], *last = &n->layer[1];

    layer_forward(first, x, z);
    for (int i = 0; i < HIDDEN; i++) {
        cdf[i] = normal_cdf(z[i]);
        h[i] = z[i] * cdf[i];
    }
    layer_forward(last, h, delta);
    float loss = cross_entropy(delta, label, smoothing);

    layer_gradient(last, h, delta);
    for (int i = 0; i < HIDDEN; i++) {
        const float *row = last->effective + i * last->stride;
        float gradient = 0.0f;
        for (int j = 0; j < CLASSES; j++)
            gradient += row[j] * delta[j];
        float density = 0.39894228f * expf(-0.5f * z[i] * z[i]);
        delta_h[i] = gradient * (cdf[i] + z[i] * density); /* GELU' */
    }
    layer_gradient(first, x, delta_h);
    return loss;
}

static void update_weights(float *w, float *velocity, float *grad, int n, float scale, const struct step *s)
{
    for (int i = 0; i < n; i++) {
        velocity[i] = s->momentum * velocity[i] - s->rate * (scale * grad[i] + s->decay * w[i]);
        w[i] += velocity[i];
        grad[i] = 0.0f;
    }
}

void net_step(struct net *n, int count, const struct step *s)
{
    const struct step bias = {.rate = s->rate, .momentum = s->momentum, .decay = 0.0f};
    float scale = 1.0f / (float)count;
    for (int k = 0; k < LAYERS; k++) {
        struct layer *l = &n->layer[k];
        update_weights(l->w, l->vel_w, l->grad_w, l->in * l->stride, scale, s);
        update_weights(l->b, l->vel_b, l->grad_b, l->stride, scale, &bias);
    }
}
