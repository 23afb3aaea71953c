/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of language models: rotary embedding, attention with a cache, mixture of experts. */
#include <math.h>
#include <stdlib.h>

#include "graph/operator_table.h"
#include "kernels/dot.h"
#include "num/func.h"

bool tv_compute_ROTARY_EMBEDDING(const tv_operator_row *r)
{
    const tv_graph_attrs *a = tv_attrs_of(r);
    uint64_t n = tv_output_elements(r);
    uint32_t size = (uint32_t)(n / a->heads), half = a->rotary_dim / 2;
    memcpy(r->output, r->inputs[0], n * sizeof(float));
    for (uint32_t i = 0; i < half; i++) {
        double angle = r->position * pow((double)a->theta, -2.0 * i / a->rotary_dim) * (double)a->frequency_scale;
        if (r->inputs[1])
            angle /= (double)tv_input_f32(r, 1)[i];
        float c = tv_func_f32_of_angle(TV_FUNC_COS, angle), s = tv_func_f32_of_angle(TV_FUNC_SIN, angle);
        for (uint32_t head = 0; head < a->heads; head++) {
            uint32_t first = head * size + (a->interleaved ? 2 * i : i), second = first + (a->interleaved ? 1 : half);
            float x = tv_input_f32(r, 0)[first], y = tv_input_f32(r, 0)[second];
            tv_output_f32(r)[first] = x * c - y * s;
            tv_output_f32(r)[second] = x * s + y * c;
        }
    }
    return true;
}

void tv_operator_append(const tv_operator_row *r)
{
    const tv_graph_cache *cache = &r->graph->caches.data[tv_attrs_of(r)->cache];
    size_t keys = (size_t)cache->heads * cache->key_dim, values = (size_t)cache->heads * cache->value_dim;
    memcpy(r->cache->keys + r->position * keys, r->inputs[1], keys * sizeof(float));
    memcpy(r->cache->values + r->position * values, r->inputs[2], values * sizeof(float));
}

/* Weighted sum of the values of positions [first, position] for one head. */
static void sum_values(const tv_operator_row *r, const float *probs, uint32_t first, uint32_t kv_head, float *y)
{
    const tv_graph_cache *cache = &r->graph->caches.data[tv_attrs_of(r)->cache];
    size_t stride = (size_t)cache->heads * cache->value_dim;
    for (uint32_t i = 0; i < cache->value_dim; i++) {
        const float *v = r->cache->values + (size_t)kv_head * cache->value_dim + i;
        tv_sum8 sum = {{0}};
        for (uint32_t t = first; t <= r->position; t++)
            tv_sum8_add(&sum, t - first, probs[t - first] * v[t * stride]);
        y[i] = tv_sum8_total(&sum);
    }
}

bool tv_compute_ATTENTION(const tv_operator_row *r)
{
    const tv_graph_attrs *a = tv_attrs_of(r);
    const tv_graph_cache *cache = &r->graph->caches.data[a->cache];
    uint32_t first = a->window && r->position >= a->window ? r->position + 1 - a->window : 0,
             count = r->position + 1 - first;
    size_t stride = (size_t)cache->heads * cache->key_dim;
    for (uint32_t head = 0; head < a->heads; head++) {
        uint32_t kv_head = head / (a->heads / cache->heads);
        const float *q = tv_input_f32(r, 0) + (size_t)head * cache->key_dim,
                    *k = r->cache->keys + first * stride + (size_t)kv_head * cache->key_dim;
        for (uint32_t t = 0; t < count; t++) {
            float score = tv_dot_f32(q, k + t * stride, cache->key_dim) * a->scale;
            r->scratch[t] = a->soft_cap > 0 ? a->soft_cap * tv_func_f32(TV_FUNC_TANH, score / a->soft_cap) : score;
        }
        tv_softmax_f32(r->scratch, r->scratch, count);
        sum_values(r, r->scratch, first, kv_head, tv_output_f32(r) + (size_t)head * cache->value_dim);
    }
    return true;
}

void tv_operator_route(const float *logits, uint32_t experts, uint32_t used, bool normalize_weights, uint32_t *chosen,
                       float *weights)
{
    float max = logits[0], all = 0, sum = 0;
    for (uint32_t i = 1; i < experts; i++)
        max = logits[i] > max ? logits[i] : max;
    for (uint32_t i = 0; i < experts; i++)
        all += tv_func_f32(TV_FUNC_EXP, logits[i] - max);
    for (uint32_t n = 0; n < used; n++) {
        uint32_t best = experts;
        for (uint32_t i = 0; i < experts; i++) {
            bool taken = false;
            for (uint32_t k = 0; k < n; k++)
                taken = taken || chosen[k] == i;
            if (!taken && (best == experts || logits[i] > logits[best]))
                best = i;
        }
        chosen[n] = best;
        weights[n] = tv_func_f32(TV_FUNC_EXP, logits[best] - max) / all;
        sum += weights[n];
    }
    for (uint32_t n = 0; n < used && normalize_weights; n++)
        weights[n] /= sum;
}

/* out[rows] = matrix `expert` times x; false: a weight is not finite. */
static bool multiply_expert(const tv_matrix *w, const float *values, uint32_t expert, const float *x, float *scratch,
                            float *out)
{
    for (uint32_t row = 0; row < w->rows; row++) {
        const float *weights = tv_matrix_row_or(w, values, (uint64_t)expert * w->rows + row, scratch);
        if (!weights)
            return false;
        out[row] = tv_dot_f32(x, weights, w->columns);
    }
    return true;
}

bool tv_compute_MOE(const tv_operator_row *r)
{
    const tv_graph_attrs *a = tv_attrs_of(r);
    const tv_matrix *gate = tv_graph_matrix(r->graph, r->node->inputs[2]),
                    *up = tv_graph_matrix(r->graph, r->node->inputs[3]),
                    *down = tv_graph_matrix(r->graph, r->node->inputs[4]);
    size_t hidden = gate->rows, dim = down->rows;
    float *memory = malloc((3 * hidden + 2 * dim + a->experts_used) * sizeof *memory);
    uint32_t *chosen = malloc(a->experts_used * sizeof *chosen);
    bool ok = memory && chosen;
    if (ok) {
        float *g = memory, *u = g + hidden, *y = u + hidden, *weights = y + dim, *scratch = weights + a->experts_used;
        tv_operator_route(r->inputs[1], gate->count, a->experts_used, a->normalize, chosen, weights);
        memset(r->output, 0, dim * sizeof(float));
        for (uint32_t n = 0; n < a->experts_used && ok; n++) {
            ok = multiply_expert(gate, r->inputs[2], chosen[n], r->inputs[0], scratch, g) &&
                 multiply_expert(up, r->inputs[3], chosen[n], r->inputs[0], scratch, u);
            for (size_t i = 0; i < hidden && ok; i++)
                g[i] = tv_activation_f32(a->activation, g[i]) * u[i];
            ok = ok && multiply_expert(down, r->inputs[4], chosen[n], g, scratch, y);
            for (size_t i = 0; i < dim && ok; i++)
                tv_output_f32(r)[i] += weights[n] * y[i];
        }
    }
    free(memory);
    free(chosen);
    return ok;
}
