/* SPDX-License-Identifier: Apache-2.0 */
/* The network: its parameters, its activations, the forward pass and the loss. */
#include "train.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"

bool config_check(const struct config *c)
{
    const char *wrong = NULL;
    if (!c->dim || !c->hidden || !c->layers || !c->heads || !c->kv_heads || c->context < 2)
        wrong = "every size must be above 0, and the context above 1";
    else if (c->dim > 4096 || c->hidden > 16384 || c->layers > 64 || c->context > 4096)
        wrong = "at most 4096 dim, 16384 hidden, 64 layers, 4096 context";
    else if (c->dim % c->heads || c->heads % c->kv_heads || config_head(c) % 2)
        wrong = "heads must divide dim into even parts, kv heads must divide heads";
    else if (c->vocab <= TOKEN_PIECES || c->vocab > VOCAB_MAX)
        wrong = "the vocabulary has 260 to 4096 tokens";
    if (wrong)
        fprintf(stderr, "train: %s\n", wrong);
    return !wrong;
}

void config_shape(const struct config *c, struct shape *s)
{
    size_t d = c->dim, kv = config_kv(c), h = c->hidden;
    const size_t stride[TENSORS] = {c->vocab * d, d, d * d, kv * d, kv * d, d * d, d, h * d, d * h, h * d, d};
    s->total = 0;
    for (int t = 0; t < TENSORS; t++) {
        s->at[t] = s->total;
        s->stride[t] = stride[t];
        s->total += stride[t] * (t == EMBEDDING || t == NORM_LAST ? 1 : c->layers);
    }
}

void model_init(const struct config *c, float *weights, uint64_t seed)
{
    struct shape s;
    struct rng r = rng_stream(seed, 0, 0);
    config_shape(c, &s);
    for (int t = 0; t < TENSORS; t++) {
        size_t end = t + 1 < TENSORS ? s.at[t + 1] : s.total;
        /* What adds to the residual stream begins smaller, so that its sum over layers does not grow. */
        float deviation = t == WO || t == W2 ? 0.02f / sqrtf(2.0f * (float)c->layers) : 0.02f;
        for (size_t i = s.at[t]; i < end; i++)
            weights[i] = t == NORM_ATT || t == NORM_FFN || t == NORM_LAST ? 1.0f : deviation * rng_normal(&r);
    }
}

/* ---- activations ------------------------------------------------------------------------------------------------ */

/* Hands out `n` floats of the arena; with no arena it only counts. */
static float *part(float *arena, size_t *at, size_t n)
{
    size_t from = *at;
    *at += (n + 15) & ~(size_t)15;
    return arena ? arena + from : NULL;
}

static size_t lay_out(struct run *run, const struct config *c, size_t batch)
{
    size_t n = batch * c->context, d = n * c->dim, kv = n * config_kv(c), h = n * c->hidden, at = 0;
    float *a = run->arena;
    for (size_t i = 0; i < c->layers; i++) {
        struct layer *l = &run->layer[i];
        l->x = part(a, &at, d), l->norm1 = part(a, &at, d), l->r1 = part(a, &at, n);
        l->q = part(a, &at, d), l->k = part(a, &at, kv), l->v = part(a, &at, kv);
        l->p = part(a, &at, n * c->heads * c->context), l->att = part(a, &at, d);
        l->mid = part(a, &at, d), l->norm2 = part(a, &at, d), l->r2 = part(a, &at, n);
        l->h1 = part(a, &at, h), l->h3 = part(a, &at, h), l->act = part(a, &at, h);
        l->mask1 = (uint8_t *)part(a, &at, d / 4 + 1), l->mask2 = (uint8_t *)part(a, &at, d / 4 + 1);
    }
    run->x = part(a, &at, d), run->norm = part(a, &at, d), run->r = part(a, &at, n);
    run->logits = part(a, &at, n * c->vocab), run->mask = (uint8_t *)part(a, &at, d / 4 + 1);
    run->cosine = part(a, &at, c->context * config_head(c)), run->sine = part(a, &at, c->context * config_head(c));
    run->dx = part(a, &at, d), run->dnorm = part(a, &at, d), run->datt = part(a, &at, d);
    run->dq = part(a, &at, d), run->dk = part(a, &at, kv), run->dv = part(a, &at, kv);
    run->dp = part(a, &at, c->context * c->context);
    run->dh1 = part(a, &at, h), run->dh3 = part(a, &at, h), run->dact = part(a, &at, h);
    return at;
}

void run_init(struct run *run, const struct config *c, size_t batch)
{
    size_t half = config_head(c) / 2;
    memset(run, 0, sizeof *run);
    run->config = c;
    config_shape(c, &run->shape);
    run->layer = zalloc(c->layers, sizeof *run->layer);
    run->arena = zalloc(lay_out(run, c, batch), sizeof(float));
    lay_out(run, c, batch);
    for (size_t t = 0; t < c->context; t++)
        for (size_t i = 0; i < half; i++) {
            double angle = (double)t * pow(ROPE_THETA, -(double)i / (double)half);
            run->cosine[t * half + i] = (float)cos(angle);
            run->sine[t * half + i] = (float)sin(angle);
        }
}

void run_fini(struct run *run)
{
    free(run->arena);
    free(run->layer);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* Attention of one head of one sequence: p = softmax(q k^T / sqrt(head)), out = p v, each over the past only. Rows are
 * taken in strips, so that about half of the products with the future are never computed. */
static void attend(const struct run *run, const struct layer *l, size_t sequence, size_t head)
{
    const struct config *c = run->config;
    size_t size = config_head(c), kv = config_kv(c), length = run->length, first = sequence * length;
    size_t group = head / (c->heads / c->kv_heads);
    const float *q = l->q + first * c->dim + head * size, *k = l->k + first * kv + group * size,
                *v = l->v + first * kv + group * size;
    float *p = l->p + (sequence * c->heads + head) * c->context * c->context,
          *out = l->att + first * c->dim + head * size;
    for (size_t row = 0; row < length; row += STRIP) {
        size_t rows = row + STRIP < length ? STRIP : length - row, past = row + rows;
        gemm(false, true, rows, past, size, 1.0f / sqrtf((float)size), q + row * c->dim, c->dim, k, kv, 0.0f,
             p + row * c->context, c->context);
        for (size_t i = row; i < past; i++)
            softmax(p + i * c->context, i + 1, past);
        gemm(false, false, rows, size, past, 1.0f, p + row * c->context, c->context, v, kv, 0.0f, out + row * c->dim,
             c->dim);
    }
}

/* y = x + drop(a w^T): a branch joins the residual stream. */
static void join(struct run *run, float *y, const float *x, const float *a, size_t in, const float *w, uint8_t *mask)
{
    size_t n = run->batch * run->length, d = run->config->dim;
    multiply(y, a, w, n, d, in);
    dropout(y, mask, n * d, run->dropout, &run->rng);
    for (size_t i = 0; i < n * d; i++)
        y[i] += x[i];
}

static void forward_layer(struct run *run, const float *weights, size_t index, float *out)
{
    const struct config *c = run->config;
    struct layer *l = &run->layer[index];
    size_t n = run->batch * run->length, d = c->dim, kv = config_kv(c);
    const float *w[TENSORS];
    for (int t = 0; t < TENSORS; t++)
        w[t] = weights + run->shape.at[t] + index * run->shape.stride[t];
    rmsnorm(l->norm1, l->r1, l->x, w[NORM_ATT], n, d);
    multiply(l->q, l->norm1, w[WQ], n, d, d);
    multiply(l->k, l->norm1, w[WK], n, kv, d);
    multiply(l->v, l->norm1, w[WV], n, kv, d);
    rope(l->q, run, d, 1.0f);
    rope(l->k, run, kv, 1.0f);
    for (size_t b = 0; b < run->batch; b++)
        for (size_t h = 0; h < c->heads; h++)
            attend(run, l, b, h);
    join(run, l->mid, l->x, l->att, d, w[WO], l->mask1);
    rmsnorm(l->norm2, l->r2, l->mid, w[NORM_FFN], n, d);
    multiply(l->h1, l->norm2, w[W1], n, c->hidden, d);
    multiply(l->h3, l->norm2, w[W3], n, c->hidden, d);
    swiglu(l->act, l->h1, l->h3, n * c->hidden);
    join(run, out, l->mid, l->act, c->hidden, w[W2], l->mask2);
}

void run_forward(struct run *run, const float *weights, const int *token, size_t batch, size_t length)
{
    const struct config *c = run->config;
    size_t n = batch * length, d = c->dim;
    run->batch = batch;
    run->length = length;
    for (size_t i = 0; i < n; i++)
        memcpy(run->layer[0].x + i * d, weights + run->shape.at[EMBEDDING] + (size_t)token[i] * d, d * sizeof(float));
    dropout(run->layer[0].x, run->mask, n * d, run->dropout, &run->rng);
    for (size_t i = 0; i < c->layers; i++)
        forward_layer(run, weights, i, i + 1 < c->layers ? run->layer[i + 1].x : run->x);
    rmsnorm(run->norm, run->r, run->x, weights + run->shape.at[NORM_LAST], n, d);
    multiply(run->logits, run->norm, weights + run->shape.at[EMBEDDING], n, c->vocab, d);
}

double run_loss(struct run *run, const int *target, float scale)
{
    size_t vocab = run->config->vocab;
    double loss = 0.0;
    for (size_t i = 0; i < run->batch * run->length; i++) {
        float *row = run->logits + i * vocab;
        if (target[i] < 0) {
            memset(row, 0, vocab * sizeof *row);
            continue;
        }
        softmax(row, vocab, vocab);
        float p = row[target[i]];
        loss -= log(p > 1e-30f ? (double)p : 1e-30);
        row[target[i]] -= 1.0f;
        for (size_t k = 0; k < vocab; k++)
            row[k] *= scale;
    }
    return loss;
}
