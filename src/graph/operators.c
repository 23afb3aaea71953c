/* SPDX-License-Identifier: Apache-2.0 */
/* One function an operator: compute_ID for each row of ops.def. */
#include "graph/operators.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/dot.h"
#include "num/func.h"

/* ---- Operands ---- */

static const tv_graph_attrs *attrs_of(const tv_operator_row *r) { return &r->node->attrs; }

static uint64_t input_elements(const tv_operator_row *r, unsigned input)
{
    return tv_graph_elements(r->graph, r->node->inputs[input]);
}

static uint64_t output_elements(const tv_operator_row *r) { return tv_graph_elements(r->graph, r->node->output); }

static uint32_t output_columns(const tv_operator_row *r) { return tv_graph_columns(r->graph, r->node->output); }

const float *tv_operator_matrix_row(const tv_matrix *matrix, const float *values, uint64_t row, float *scratch)
{
    if (values)
        return values + row * matrix->columns;
    return tv_matrix_row_f32(matrix, row, scratch) == TV_OK ? scratch : NULL;
}

/* ---- Selection and shape ---- */

static bool compute_GATHER(const tv_operator_row *r)
{
    return tv_matrix_row_f32(tv_graph_matrix(r->graph, r->node->inputs[0]), (uint64_t)r->index, r->output) == TV_OK;
}

static bool compute_RESHAPE(const tv_operator_row *r)
{
    memcpy(r->output, r->inputs[0], output_elements(r) * sizeof *r->output);
    return true;
}

static bool compute_SLICE(const tv_operator_row *r)
{
    uint32_t from = tv_graph_columns(r->graph, r->node->inputs[0]), to = output_columns(r);
    uint64_t rows = output_elements(r) / to;
    for (uint64_t i = 0; i < rows; i++)
        memcpy(r->output + i * to, r->inputs[0] + i * from + attrs_of(r)->start, to * sizeof *r->output);
    return true;
}

static bool compute_CONCAT(const tv_operator_row *r)
{
    uint32_t to = output_columns(r), at = 0;
    uint64_t rows = output_elements(r) / to;
    for (unsigned k = 0; k < tv_graph_input_count(r->node); k++) {
        uint32_t from = tv_graph_columns(r->graph, r->node->inputs[k]);
        for (uint64_t i = 0; i < rows; i++)
            memcpy(r->output + i * to + at, r->inputs[k] + i * from, from * sizeof *r->output);
        at += from;
    }
    return true;
}

static bool compute_TRANSPOSE(const tv_operator_row *r)
{
    uint32_t rows = tv_graph_columns(r->graph, r->node->output),
             columns = tv_graph_columns(r->graph, r->node->inputs[0]);
    uint64_t matrices = output_elements(r) / ((uint64_t)rows * columns);
    for (uint64_t m = 0; m < matrices; m++)
        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t j = 0; j < columns; j++)
                r->output[(m * columns + j) * rows + i] = r->inputs[0][(m * rows + i) * columns + j];
    return true;
}

/* ---- Products ---- */

static bool compute_LINEAR(const tv_operator_row *r)
{
    const tv_matrix *w = tv_graph_matrix(r->graph, r->node->inputs[1]);
    uint64_t vectors = input_elements(r, 0) / w->columns;
    float *scratch = r->inputs[1] ? NULL : malloc(w->columns * sizeof *scratch);
    bool ok = r->inputs[1] || scratch;
    for (uint32_t row = 0; row < w->rows && ok; row++) {
        const float *weights = tv_operator_matrix_row(w, r->inputs[1], row, scratch);
        ok = weights != NULL;
        for (uint64_t v = 0; v < vectors && ok; v++) {
            uint64_t at = v * w->rows + row;
            float sum = tv_dot_f32(r->inputs[0] + v * w->columns, weights, w->columns);
            if (r->inputs[2])
                sum += r->inputs[2][row];
            sum = tv_activation_f32(attrs_of(r)->activation, sum);
            r->output[at] = r->inputs[3] ? r->inputs[3][at] + sum : sum;
        }
    }
    free(scratch);
    return ok;
}

static bool compute_GEMM(const tv_operator_row *r) { return compute_LINEAR(r); }

static bool compute_GLU(const tv_operator_row *r)
{
    const tv_matrix *gate = tv_graph_matrix(r->graph, r->node->inputs[1]),
                    *up = tv_graph_matrix(r->graph, r->node->inputs[2]);
    uint64_t vectors = input_elements(r, 0) / gate->columns;
    float *scratch = malloc(2 * (size_t)gate->columns * sizeof *scratch);
    bool ok = scratch != NULL;
    for (uint32_t row = 0; row < gate->rows && ok; row++) {
        const float *g = tv_operator_matrix_row(gate, r->inputs[1], row, scratch),
                    *u = tv_operator_matrix_row(up, r->inputs[2], row, scratch + gate->columns);
        ok = g && u;
        for (uint64_t v = 0; v < vectors && ok; v++) {
            const float *x = r->inputs[0] + v * gate->columns;
            r->output[v * gate->rows + row] =
                tv_activation_f32(attrs_of(r)->activation, tv_dot_f32(x, g, gate->columns)) *
                tv_dot_f32(x, u, gate->columns);
        }
    }
    free(scratch);
    return ok;
}

static bool compute_MATMUL(const tv_operator_row *r)
{
    uint32_t n = output_columns(r), k = tv_graph_columns(r->graph, r->node->inputs[0]);
    uint64_t m = input_elements(r, 0) / k, batches = input_elements(r, 1) / ((uint64_t)k * n);
    for (uint64_t row = 0; row < m; row++) {
        const float *b = r->inputs[1] + row / (m / batches) * ((uint64_t)k * n);
        for (uint32_t j = 0; j < n; j++) {
            tv_sum8 sum = {{0}};
            for (uint32_t i = 0; i < k; i++)
                tv_sum8_add(&sum, i, r->inputs[0][row * k + i] * b[(uint64_t)i * n + j]);
            r->output[row * n + j] = tv_sum8_total(&sum);
        }
    }
    return true;
}

/* ---- Element by element ---- */

/* How an operand is repeated: element i of the output uses element i / divisor % modulus. */
typedef struct repetition {
    uint64_t divisor, modulus;
} repetition;

static repetition repetition_of(const tv_operator_row *r, unsigned input)
{
    uint64_t all = output_elements(r), own = input_elements(r, input);
    const tv_graph_shape *out = &tv_graph_value_at(r->graph, r->node->output)->shape,
                         *in = &tv_graph_value_at(r->graph, r->node->inputs[input])->shape;
    if (own < all && own > 1 && in->rank == out->rank && in->dims[in->rank - 1] == 1)
        return (repetition){all / own, own};
    return (repetition){1, own};
}

typedef float binary_function(float a, float b);

static bool compute_binary(const tv_operator_row *r, binary_function *function)
{
    repetition a = repetition_of(r, 0), b = repetition_of(r, 1);
    for (uint64_t i = 0, n = output_elements(r); i < n; i++)
        r->output[i] = function(r->inputs[0][i / a.divisor % a.modulus], r->inputs[1][i / b.divisor % b.modulus]);
    return true;
}

static float add(float a, float b) { return a + b; }
static float subtract(float a, float b) { return a - b; }
static float multiply(float a, float b) { return a * b; }
static float divide(float a, float b) { return a / b; }

static bool compute_ADD(const tv_operator_row *r) { return compute_binary(r, add); }
static bool compute_SUB(const tv_operator_row *r) { return compute_binary(r, subtract); }
static bool compute_MUL(const tv_operator_row *r) { return compute_binary(r, multiply); }
static bool compute_DIV(const tv_operator_row *r) { return compute_binary(r, divide); }

static bool compute_function(const tv_operator_row *r, tv_func func)
{
    for (uint64_t i = 0, n = output_elements(r); i < n; i++)
        r->output[i] = tv_func_f32(func, r->inputs[0][i]);
    return true;
}

static bool compute_RELU(const tv_operator_row *r)
{
    for (uint64_t i = 0, n = output_elements(r); i < n; i++)
        r->output[i] = tv_activation_f32(TV_ACTIVATION_RELU, r->inputs[0][i]);
    return true;
}

static bool compute_SIGMOID(const tv_operator_row *r) { return compute_function(r, TV_FUNC_SIGMOID); }
static bool compute_TANH(const tv_operator_row *r) { return compute_function(r, TV_FUNC_TANH); }
static bool compute_SWISH(const tv_operator_row *r) { return compute_function(r, TV_FUNC_SILU); }
static bool compute_EXP(const tv_operator_row *r) { return compute_function(r, TV_FUNC_EXP); }
static bool compute_SQRT(const tv_operator_row *r) { return compute_function(r, TV_FUNC_SQRT); }

static bool compute_GELU(const tv_operator_row *r)
{
    return compute_function(r, attrs_of(r)->approximate ? TV_FUNC_GELU_TANH : TV_FUNC_GELU);
}

float tv_activation_f32(tv_activation activation, float x)
{
    switch (activation) {
    case TV_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case TV_ACTIVATION_SWISH:
        return tv_func_f32(TV_FUNC_SILU, x);
    case TV_ACTIVATION_GELU:
        return tv_func_f32(TV_FUNC_GELU, x);
    case TV_ACTIVATION_GELU_TANH:
        return tv_func_f32(TV_FUNC_GELU_TANH, x);
    case TV_ACTIVATION_SIGMOID:
        return tv_func_f32(TV_FUNC_SIGMOID, x);
    case TV_ACTIVATION_TANH:
        return tv_func_f32(TV_FUNC_TANH, x);
    case TV_ACTIVATION_NONE:
    case TV_ACTIVATIONS:
        break;
    }
    return x;
}

/* ---- Along the last axis ---- */

static bool compute_REDUCE_SUM(const tv_operator_row *r)
{
    uint32_t columns = tv_graph_columns(r->graph, r->node->inputs[0]);
    for (uint64_t i = 0, n = output_elements(r); i < n; i++)
        r->output[i] = tv_sum_f32(r->inputs[0] + i * columns, columns);
    return true;
}

static bool compute_REDUCE_MEAN(const tv_operator_row *r)
{
    uint32_t columns = tv_graph_columns(r->graph, r->node->inputs[0]);
    compute_REDUCE_SUM(r);
    for (uint64_t i = 0, n = output_elements(r); i < n; i++)
        r->output[i] /= (float)columns;
    return true;
}

/* y = exp(x - max) / sum; x and y may be the same. */
static void softmax(const float *x, float *y, uint32_t n)
{
    float max = x[0];
    for (uint32_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (uint32_t i = 0; i < n; i++)
        y[i] = tv_func_f32(TV_FUNC_EXP, x[i] - max);
    float sum = tv_sum_f32(y, n);
    for (uint32_t i = 0; i < n; i++)
        y[i] = y[i] / sum;
}

static bool compute_SOFTMAX(const tv_operator_row *r)
{
    uint32_t columns = output_columns(r);
    for (uint64_t at = 0, n = output_elements(r); at < n; at += columns)
        softmax(r->inputs[0] + at, r->output + at, columns);
    return true;
}

/* Normalizes x[n]; gains and bias may be NULL. */
static void normalize(const tv_operator_row *r, const float *x, float *y, uint32_t n, bool subtract_mean)
{
    const float *gains = r->inputs[1], *bias = r->inputs[2];
    float mean = subtract_mean ? tv_sum_f32(x, n) / (float)n : 0;
    for (uint32_t i = 0; i < n && subtract_mean; i++)
        y[i] = x[i] - mean;
    if (subtract_mean)
        x = y;
    float scale = tv_func_f32(TV_FUNC_RSQRT, tv_dot_f32(x, x, n) / (float)n + attrs_of(r)->epsilon);
    for (uint32_t i = 0; i < n; i++) {
        y[i] = x[i] * scale;
        if (gains)
            y[i] *= gains[i];
        if (bias)
            y[i] += bias[i];
    }
}

static bool compute_normalization(const tv_operator_row *r, uint32_t length, bool subtract_mean)
{
    for (uint64_t at = 0, n = output_elements(r); at < n; at += length)
        normalize(r, r->inputs[0] + at, r->output + at, length, subtract_mean);
    return true;
}

static bool compute_RMS_NORMALIZATION(const tv_operator_row *r)
{
    return compute_normalization(r, output_columns(r), false);
}

static bool compute_LAYER_NORMALIZATION(const tv_operator_row *r)
{
    return compute_normalization(r, output_columns(r), true);
}

static bool compute_NORM(const tv_operator_row *r)
{
    return compute_normalization(r, output_columns(r) / attrs_of(r)->groups, attrs_of(r)->subtract_mean);
}

/* ---- Transformers ---- */

static bool compute_ROTARY_EMBEDDING(const tv_operator_row *r)
{
    const tv_graph_attrs *a = attrs_of(r);
    uint64_t n = output_elements(r);
    uint32_t size = (uint32_t)(n / a->heads), half = a->rotary_dim / 2;
    memcpy(r->output, r->inputs[0], n * sizeof *r->output);
    for (uint32_t i = 0; i < half; i++) {
        double angle = r->position * pow((double)a->theta, -2.0 * i / a->rotary_dim) * (double)a->frequency_scale;
        if (r->inputs[1])
            angle /= (double)r->inputs[1][i];
        float c = tv_func_f32_of_angle(TV_FUNC_COS, angle), s = tv_func_f32_of_angle(TV_FUNC_SIN, angle);
        for (uint32_t head = 0; head < a->heads; head++) {
            uint32_t first = head * size + (a->interleaved ? 2 * i : i), second = first + (a->interleaved ? 1 : half);
            float x = r->inputs[0][first], y = r->inputs[0][second];
            r->output[first] = x * c - y * s;
            r->output[second] = x * s + y * c;
        }
    }
    return true;
}

void tv_operator_append(const tv_operator_row *r)
{
    const tv_graph_cache *cache = &r->graph->caches.data[attrs_of(r)->cache];
    size_t keys = (size_t)cache->heads * cache->key_dim, values = (size_t)cache->heads * cache->value_dim;
    memcpy(r->cache->keys + r->position * keys, r->inputs[1], keys * sizeof(float));
    memcpy(r->cache->values + r->position * values, r->inputs[2], values * sizeof(float));
}

/* Weighted sum of the values of positions [first, position] for one head. */
static void sum_values(const tv_operator_row *r, const float *probs, uint32_t first, uint32_t kv_head, float *y)
{
    const tv_graph_cache *cache = &r->graph->caches.data[attrs_of(r)->cache];
    size_t stride = (size_t)cache->heads * cache->value_dim;
    for (uint32_t i = 0; i < cache->value_dim; i++) {
        const float *v = r->cache->values + (size_t)kv_head * cache->value_dim + i;
        tv_sum8 sum = {{0}};
        for (uint32_t t = first; t <= r->position; t++)
            tv_sum8_add(&sum, t - first, probs[t - first] * v[t * stride]);
        y[i] = tv_sum8_total(&sum);
    }
}

static bool compute_ATTENTION(const tv_operator_row *r)
{
    const tv_graph_attrs *a = attrs_of(r);
    const tv_graph_cache *cache = &r->graph->caches.data[a->cache];
    uint32_t first = a->window && r->position >= a->window ? r->position + 1 - a->window : 0,
             count = r->position + 1 - first;
    size_t stride = (size_t)cache->heads * cache->key_dim;
    for (uint32_t head = 0; head < a->heads; head++) {
        uint32_t kv_head = head / (a->heads / cache->heads);
        const float *q = r->inputs[0] + (size_t)head * cache->key_dim,
                    *k = r->cache->keys + first * stride + (size_t)kv_head * cache->key_dim;
        for (uint32_t t = 0; t < count; t++) {
            float score = tv_dot_f32(q, k + t * stride, cache->key_dim) * a->scale;
            r->scratch[t] = a->soft_cap > 0 ? a->soft_cap * tv_func_f32(TV_FUNC_TANH, score / a->soft_cap) : score;
        }
        softmax(r->scratch, r->scratch, count);
        sum_values(r, r->scratch, first, kv_head, r->output + (size_t)head * cache->value_dim);
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
        const float *weights = tv_operator_matrix_row(w, values, (uint64_t)expert * w->rows + row, scratch);
        if (!weights)
            return false;
        out[row] = tv_dot_f32(x, weights, w->columns);
    }
    return true;
}

static bool compute_MOE(const tv_operator_row *r)
{
    const tv_graph_attrs *a = attrs_of(r);
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
        memset(r->output, 0, dim * sizeof *r->output);
        for (uint32_t n = 0; n < a->experts_used && ok; n++) {
            ok = multiply_expert(gate, r->inputs[2], chosen[n], r->inputs[0], scratch, g) &&
                 multiply_expert(up, r->inputs[3], chosen[n], r->inputs[0], scratch, u);
            for (size_t i = 0; i < hidden && ok; i++)
                g[i] = tv_activation_f32(a->activation, g[i]) * u[i];
            ok = ok && multiply_expert(down, r->inputs[4], chosen[n], g, scratch, y);
            for (size_t i = 0; i < dim && ok; i++)
                r->output[i] += weights[n] * y[i];
        }
    }
    free(memory);
    free(chosen);
    return ok;
}

/* ---- Dispatch ---- */

static bool (*const functions[TV_OPS])(const tv_operator_row *row) = {
#define TV_GRAPH_OP(id, name, inputs, optional, shape, attributes, meaning) [TV_OP_##id] = compute_##id,
#include "graph/ops.def"
#undef TV_GRAPH_OP
};

bool tv_operator_compute(const tv_operator_row *row) { return functions[row->node->op](row); }
