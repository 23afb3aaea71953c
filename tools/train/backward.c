/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass, derived by hand from model.c in reverse order. run->dx is the gradient of the residual stream;
 * each branch adds its gradient to it. */
#include "train.h"

#include <math.h>
#include <string.h>

#include "gemm.h"

/* Backward pass of one attention head of one sequence. dk and dv are accumulated, since the heads of a group share
 * them. */
static void attend_head_back(const struct run *run, const struct layer *l, size_t sequence, size_t head)
{
    const struct config *c = run->config;
    size_t size = config_head(c), kv = config_kv(c), length = run->length, first = sequence * length,
           stride = c->context;
    size_t q_at = first * c->dim + head * size, kv_at = first * kv + head / (c->heads / c->kv_heads) * size;
    const float *q = l->q + q_at, *k = l->k + kv_at, *v = l->v + kv_at, *dout = run->datt + q_at;
    const float *p = l->p + (sequence * c->heads + head) * stride * stride, scale = 1.0f / sqrtf((float)size);
    float *dp = run->dp, *dq = run->dq + q_at, *dk = run->dk + kv_at, *dv = run->dv + kv_at;
    for (size_t row = 0; row < length; row += ATTENTION_TILE) {
        size_t rows = row + ATTENTION_TILE < length ? ATTENTION_TILE : length - row, past = row + rows;
        gemm(false, true, rows, past, size, 1.0f, dout + row * c->dim, c->dim, v, kv, 0.0f, dp, stride);
        gemm(true, false, past, size, rows, 1.0f, p + row * stride, stride, dout + row * c->dim, c->dim, 1.0f, dv, kv);
        for (size_t i = 0; i < rows; i++) { /* through the softmax; p is 0 for future positions */
            const float *pr = p + (row + i) * stride;
            float *dr = dp + i * stride, dot = 0.0f;
            for (size_t j = 0; j < past; j++)
                dot += dr[j] * pr[j];
            for (size_t j = 0; j < past; j++)
                dr[j] = pr[j] * (dr[j] - dot);
        }
        gemm(false, false, rows, size, past, scale, dp, stride, k, kv, 0.0f, dq + row * c->dim, c->dim);
        gemm(true, false, past, size, rows, scale, dp, stride, q + row * c->dim, c->dim, 1.0f, dk, kv);
    }
}

/* Starts the gradient of a branch: dnorm = dx where dropout kept the output. */
static void begin_branch(struct run *run, const uint8_t *mask)
{
    size_t n = run->batch * run->length * run->config->dim;
    memcpy(run->dnorm, run->dx, n * sizeof(float));
    dropout_back(run->dnorm, mask, n, run->dropout);
}

static void backward_ffn(struct run *run, const struct layer *l, const float **w, float **g)
{
    size_t n = run->batch * run->length, d = run->config->dim, h = run->config->hidden;
    begin_branch(run, l->mask2);
    linear_back(run->dact, g[W2], run->dnorm, l->act, w[W2], n, d, h, 0.0f);
    swiglu_back(run->dh1, run->dh3, run->dact, l->h1, l->h3, n * h);
    linear_back(run->dnorm, g[W1], run->dh1, l->norm2, w[W1], n, h, d, 0.0f);
    linear_back(run->dnorm, g[W3], run->dh3, l->norm2, w[W3], n, h, d, 1.0f);
    rmsnorm_back(run->dx, g[NORM_FFN], run->dnorm, l->mid, l->r2, w[NORM_FFN], n, d);
}

static void backward_attention(struct run *run, const struct layer *l, const float **w, float **g)
{
    const struct config *c = run->config;
    size_t n = run->batch * run->length, d = c->dim, kv = config_kv(c);
    begin_branch(run, l->mask1);
    linear_back(run->datt, g[WO], run->dnorm, l->att, w[WO], n, d, d, 0.0f);
    memset(run->dk, 0, n * kv * sizeof(float));
    memset(run->dv, 0, n * kv * sizeof(float));
    for (size_t b = 0; b < run->batch; b++)
        for (size_t h = 0; h < c->heads; h++)
            attend_head_back(run, l, b, h);
    rope(run->dq, run, d, -1.0f);
    rope(run->dk, run, kv, -1.0f);
    linear_back(run->dnorm, g[WQ], run->dq, l->norm1, w[WQ], n, d, d, 0.0f);
    linear_back(run->dnorm, g[WK], run->dk, l->norm1, w[WK], n, kv, d, 1.0f);
    linear_back(run->dnorm, g[WV], run->dv, l->norm1, w[WV], n, kv, d, 1.0f);
    rmsnorm_back(run->dx, g[NORM_ATT], run->dnorm, l->x, l->r1, w[NORM_ATT], n, d);
}

void run_backward(struct run *run, const float *weights, float *grads, const int *token)
{
    const struct config *c = run->config;
    const struct layout *s = &run->layout;
    size_t n = run->batch * run->length, d = c->dim;
    linear_back(run->dnorm, grads + s->at[EMBEDDING], run->logits, run->norm, weights + s->at[EMBEDDING], n, c->vocab,
                d, 0.0f);
    memset(run->dx, 0, n * d * sizeof(float));
    rmsnorm_back(run->dx, grads + s->at[NORM_LAST], run->dnorm, run->x, run->r, weights + s->at[NORM_LAST], n, d);
    for (size_t i = c->layers; i-- > 0;) {
        const float *w[TENSORS];
        float *g[TENSORS];
        for (int t = 0; t < TENSORS; t++) {
            w[t] = weights + s->at[t] + i * s->stride[t];
            g[t] = grads + s->at[t] + i * s->stride[t];
        }
        backward_ffn(run, &run->layer[i], w, g);
        backward_attention(run, &run->layer[i], w, g);
    }
    dropout_back(run->dx, run->mask, n * d, run->dropout);
    for (size_t i = 0; i < n; i++) {
        float *row = grads + s->at[EMBEDDING] + (size_t)token[i] * d;
        for (size_t k = 0; k < d; k++)
            row[k] += run->dx[i * d + k];
    }
}
