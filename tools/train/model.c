/* SPDX-License-Identifier: Apache-2.0 */
/* The network: parameters, activations, forward pass and loss. */
#include "train.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"

bool config_check(const struct config *c)
{
    const char *problem = NULL;
    if (!c->dim || !c->hidden || !c->layers || !c->heads || !c->kv_heads || c->context < 2)
        problem = "every size must be above 0, and the context above 1";
    else if (c->dim > 4096 || c->hidden > 16384 || c->layers > 64 || c->context > 4096)
        problem = "at most 4096 dim, 16384 hidden, 64 layers, 4096 context";
    else if (c->dim % c->heads || c->heads % c->kv_heads || config_head(c) % 2)
        problem = "heads must divide dim into even parts, kv heads must divide heads";
    else if (c->vocab <= TOKEN_PIECES || c->vocab > VOCAB_MAX)
        problem = "the vocabulary has 260 to 4096 tokens";
    if (problem)
        fprintf(stderr, "train: %s\n", problem);
    return !problem;
}

void param_layout(const struct config *c, struct layout *s)
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
    struct layout s;
    struct rng r = rng_stream(seed, 0, 0);
    param_layout(c, &s);
    for (int t = 0; t < TENSORS; t++) {
        size_t end = t + 1 < TENSORS ? s.at[t + 1] : s.total;
        /* Weights that write to the residual stream start smaller, so that its variance does not grow with the layers.
         */
        float deviation = t == WO || t == W2 ? 0.02f / sqrtf(2.0f * (float)c->layers) : 0.02f;
        for (size_t i = s.at[t]; i < end; i++)
            weights[i] = t == NORM_ATT || t == NORM_FFN || t == NORM_LAST ? 1.0f : deviation * rng_normal(&r);
    }
}

/* ---- activations ------------------------------------------------------------------------------------------------ */

/* Allocates n floats from the arena; without an arena only advances the offset. */
static float *arena_take(float *arena, size_t *at, size_t n)
{
    size_t from = *at;
    *at += (n + 15) & ~(size_t)15;
    return arena ? arena + from : NULL;
}

static size_t allocate_activations(struct run *run, const struct config *c, size_t batch)
{
    size_t n = batch * c->context, d = n * c->dim, kv = n * config_kv(c), h = n * c->hidden, at = 0;
    float *a = run->arena;
    for (size_t i = 0; i < c->layers; i++) {
        struct layer *l = &run->layer[i];
        l->x = arena_take(a, &at, d), l->norm1 = arena_take(a, &at, d), l->r1 = arena_take(a, &at, n);
        l->q = arena_take(a, &at, d), l->k = arena_take(a, &at, kv), l->v = arena_take(a, &at, kv);
        l->p = arena_take(a, &at, n * c->heads * c->context), l->att = arena_take(a, &at, d);
        l->mid = arena_take(a, &at, d), l->norm2 = arena_take(a, &at, d), l->r2 = arena_take(a, &at, n);
        l->h1 = arena_take(a, &at, h), l->h3 = arena_take(a, &at, h), l->act = arena_take(a, &at, h);
        l->mask1 = (uint8_t *)arena_take(a, &at, d / 4 + 1), l->mask2 = (uint8_t *)arena_take(a, &at, d / 4 + 1);
    }
    run->x = arena_take(a, &at, d), run->norm = arena_take(a, &at, d), run->r = arena_take(a, &at, n);
    run->logits = arena_take(a, &at, n * c->vocab), run->mask = (uint8_t *)arena_take(a, &at, d / 4 + 1);
    run->cosine = arena_take(a, &at, c->context * config_head(c)),
    run->sine = arena_take(a, &at, c->context * config_head(c));
    run->dx = arena_take(a, &at, d), run->dnorm = arena_take(a, &at, d), run->datt = arena_take(a, &at, d);
    run->dq = arena_take(a, &at, d), run->dk = arena_take(a, &at, kv), run->dv = arena_take(a, &at, kv);
    run->dp = arena_take(a, &at, c->context * c->context);
    run->dh1 = arena_take(a, &at, h), run->dh3 = arena_take(a, &at, h), run->dact = arena_take(a, &at, h);
    return at;
}

void run_init(struct run *run, const struct config *c, size_t batch)
{
    size_t half = config_head(c) / 2;
    memset(run, 0, sizeof *run);
    run->config = c;
    param_layout(c, &run->layout);
    run->layer = zalloc(c->layers, sizeof *run->layer);
    run->arena = zalloc(allocate_activations(run, c, batch), sizeof(float));
    allocate_activations(run, c, batch);
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

/* Attention of one head of one sequence: p = softmax(q * k^T / sqrt(head)), out = p * v, with a causal mask. Processed
 * in tiles of rows, so that about half of the masked products are skipped. */
static void attend_head(const struct run *run, const struct layer *l, size_t sequence, size_t head)
{
    const struct config *c = run->config;
    size_t size = config_head(c), kv = config_kv(c), length = run->length, first = sequence * length;
    size_t group = head / (c->heads / c->kv_heads);
    const float *q = l->q + first * c->dim + head * size, *k = l->k + first * kv + group * size,
                *v = l->v + first * kv + group * size;
    float *p = l->p + (sequence * c->heads + head) * c->context * c->context,
          *out = l->att + first * c->dim + head * size;
    for (size_t row = 0; row < length; row += ATTENTION_TILE) {
        size_t rows = row + ATTENTION_TILE < length ? ATTENTION_TILE : length - row, past = row + rows;
        gemm(false, true, rows, past, size, 1.0f / sqrtf((float)size), q + row * c->dim, c->dim, k, kv, 0.0f,
             p + row * c->context, c->context);
        for (size_t i = row; i < past; i++)
            softmax(p + i * c->context, i + 1, past);
        gemm(false, false, rows, size, past, 1.0f, p + row * c->context, c->context, v, kv, 0.0f, out + row * c->dim,
             c->dim);
    }
}

/* y = x + dropout(a * w^T): adds a branch to the residual stream. */
static void add_branch(struct run *run, float *y, const float *x, const float *a, size_t in, const float *w,
                       uint8_t *mask)
{
    size_t n = run->batch * run->length, d = run->config->dim;
    linear(y, a, w, n, d, in);
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
        w[t] = weights + run->layout.at[t] + index * run->layout.stride[t];
    rmsnorm(l->norm1, l->r1, l->x, w[NORM_ATT], n, d);
    linear(l->q, l->norm1, w[WQ], n, d, d);
    linear(l->k, l->norm1, w[WK], n, kv, d);
    linear(l->v, l->norm1, w[WV], n, kv, d);
    rope(l->q, run, d, 1.0f);
    rope(l->k, run, kv, 1.0f);
    for (size_t b = 0; b < run->batch; b++)
        for (size_t h = 0; h < c->heads; h++)
            attend_head(run, l, b, h);
    add_branch(run, l->mid, l->x, l->att, d, w[WO], l->mask1);
    rmsnorm(l->norm2, l->r2, l->mid, w[NORM_FFN], n, d);
    linear(l->h1, l->norm2, w[W1], n, c->hidden, d);
    linear(l->h3, l->norm2, w[W3], n, c->hidden, d);
    swiglu(l->act, l->h1, l->h3, n * c->hidden);
    add_branch(run, out, l->mid, l->act, c->hidden, w[W2], l->mask2);
}

void run_forward(struct run *run, const float *weights, const int *token, size_t batch, size_t length)
{
    const struct config *c = run->config;
    size_t n = batch * length, d = c->dim;
    run->batch = batch;
    run->length = length;
    for (size_t i = 0; i < n; i++)
        memcpy(run->layer[0].x + i * d, weights + run->layout.at[EMBEDDING] + (size_t)token[i] * d, d * sizeof(float));
    dropout(run->layer[0].x, run->mask, n * d, run->dropout, &run->rng);
    for (size_t i = 0; i < c->layers; i++)
        forward_layer(run, weights, i, i + 1 < c->layers ? run->layer[i + 1].x : run->x);
    rmsnorm(run->norm, run->r, run->x, weights + run->layout.at[NORM_LAST], n, d);
    linear(run->logits, run->norm, weights + run->layout.at[EMBEDDING], n, c->vocab, d);
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
