/* SPDX-License-Identifier: Apache-2.0 */
/* The host reference: executes the graph in binary32. All lowerings are compared with it.
 *
 * Sums follow the canonical order and functions are correctly rounded, so results are identical on every host, with any
 * number of threads. Work is split by rows of tokens, or by output columns for matrix products. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "graph/backend.h"
#include "kernels/dot.h"
#include "num/func.h"
#include "sim/pool.h"

enum { ROWS_MAX = 64 }; /* tokens processed at once */

typedef struct host {
    const tv_graph *graph;
    const tv_model *model;
    tv_pool *pool;
    uint32_t context;
    float **weights; /* TV_WEIGHTS per layer, row-major binary32; NULL: converted row by row, see convert_matrices */
    float **values;  /* of the graph: ROWS_MAX rows each */
    float *cached_keys, *cached_values; /* [layer][position][kv_heads * head_dim] */
    uint32_t rows, position;            /* of the current batch */
    const int32_t *tokens;
    uint32_t first_logits_row; /* first row that needs logits */
} host;

static void destroy(void *state)
{
    host *h = state;
    if (!h)
        return;
    for (size_t i = 0; h->weights && i < (size_t)h->model->dims.layers * TV_WEIGHTS; i++)
        free(h->weights[i]);
    for (uint32_t i = 0; h->values && i < h->graph->value_count; i++)
        free(h->values[i]);
    free(h->weights);
    free(h->values);
    free(h->cached_keys);
    free(h->cached_values);
    tv_pool_free(h->pool);
    free(h);
}

static tv_status convert_matrix(const host *h, const tv_matrix *m, float **out, const tv_diag_sink *sink)
{
    if (!m->tensor || *out)
        return TV_OK;
    *out = malloc((size_t)m->rows * m->columns * sizeof **out);
    if (!*out)
        return tv_fail_memory(sink);
    for (uint32_t r = 0; r < m->rows; r++)
        if (tv_matrix_row_f32(m, r, *out + (size_t)r * m->columns) != TV_OK)
            return tv_model_fail_matrix(h->model, m, sink);
    return TV_OK;
}

/* Single-token steps read every matrix again, so it is kept as binary32. Steps of many tokens, such as the calibration
 * run of a lowering, convert each row once for all tokens and need no copy. A token reads one row of the embedding. */
static tv_status convert_matrices(const host *h, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < (size_t)h->model->dims.layers * TV_WEIGHTS; i++)
        if (i % TV_WEIGHTS != TV_WEIGHT_EMBEDDING)
            TV_TRY(convert_matrix(h, &h->model->matrices[i], &h->weights[i], sink));
    return TV_OK;
}

static tv_status convert_norms(const host *h, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < (size_t)h->model->dims.layers * TV_WEIGHTS; i++)
        if (tv_weight_is_norm((tv_weight)(i % TV_WEIGHTS)))
            TV_TRY(convert_matrix(h, &h->model->matrices[i], &h->weights[i], sink));
    return TV_OK;
}

static uint32_t value_columns(const host *h, uint32_t value)
{
    uint32_t columns = h->graph->values[value].columns;
    return columns ? columns : h->model->dims.heads * h->context;
}

static tv_status create(const tv_graph *graph, const tv_model *model, const tv_backend_options *options,
                        const tv_diag_sink *sink, void **state)
{
    const tv_model_dims *s = &model->dims;
    size_t cache = (size_t)s->layers * options->context * s->kv_heads * s->head_dim;
    host *h = calloc(1, sizeof *h);
    if (!h)
        return tv_fail_memory(sink);
    *h = (host){.graph = graph,
                .model = model,
                .context = options->context,
                .pool = tv_pool_new(options->threads),
                .weights = calloc((size_t)s->layers * TV_WEIGHTS, sizeof *h->weights),
                .values = calloc(graph->value_count, sizeof *h->values),
                .cached_keys = calloc(cache, sizeof *h->cached_keys),
                .cached_values = calloc(cache, sizeof *h->cached_values)};
    tv_status status = h->weights && h->values && h->cached_keys && h->cached_values ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK) /* longer sessions run single-token steps */
        status = options->context > ROWS_MAX ? convert_matrices(h, sink) : convert_norms(h, sink);
    for (uint32_t v = 0; v < graph->value_count && status == TV_OK; v++)
        if (!(h->values[v] = malloc((size_t)ROWS_MAX * value_columns(h, v) * sizeof(float))))
            status = tv_fail_memory(sink);
    if (status != TV_OK) {
        destroy(h);
        return status;
    }
    *state = h;
    return TV_OK;
}

/* ---- Operations ---- */

static const float *weights_f32(const host *h, const tv_graph_node *n)
{
    return h->weights[(size_t)n->layer * TV_WEIGHTS + n->weight];
}

static const tv_matrix *matrix_of(const host *h, const tv_graph_node *n)
{
    return tv_model_matrix(h->model, n->weight, n->layer);
}

static float *row_of(const host *h, uint32_t value, uint32_t row)
{
    return h->values[value] + (size_t)row * value_columns(h, value);
}

typedef struct matmul_job {
    const host *host;
    const tv_graph_node *node;
    atomic_bool failed;
} matmul_job;

/* Columns [from, to) of y[m][n] = x[m][k] * W[n][k]^T: each row of W is read once for all tokens. */
static void multiply_columns(void *user, uint64_t from, uint64_t to)
{
    matmul_job *p = user;
    const host *h = p->host;
    uint32_t k = value_columns(h, p->node->inputs[0]),
             first = p->node->output == h->graph->logits ? h->first_logits_row : 0;
    const float *w_f32 = weights_f32(h, p->node), *w = w_f32;
    float *row = w_f32 ? NULL : malloc(k * sizeof *row), sums[ROWS_MAX];
    bool ok = w_f32 || row;
    if (w_f32 && first + 1 == h->rows) { /* one token: several rows of W at a time */
        tv_dots_f32(w_f32 + from * k, k, row_of(h, p->node->inputs[0], first), k, to - from,
                    row_of(h, p->node->output, first) + from);
        return;
    }
    for (uint64_t j = from; j < to && ok; j++) {
        if (w_f32) {
            w = w_f32 + j * k;
        } else {
            ok = tv_matrix_row_f32(matrix_of(h, p->node), j, row) == TV_OK;
            w = row;
        }
        if (ok)
            tv_dots_f32(row_of(h, p->node->inputs[0], first), k, w, k, h->rows - first, sums);
        for (uint32_t r = first; r < h->rows && ok; r++)
            row_of(h, p->node->output, r)[j] = sums[r - first];
    }
    free(row);
    if (!ok)
        p->failed = true;
}

static void norm_row(const float *x, const float *gains, float *y, uint32_t n, float eps)
{
    float scale = tv_func_f32(TV_FUNC_RSQRT, tv_dot_f32(x, x, n) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] * scale * gains[i];
}

static void rope_row(const host *h, const tv_graph_node *n, const float *x, float *y, uint32_t position)
{
    uint32_t d = h->model->dims.head_dim;
    for (uint32_t i = 0; i < d / 2; i++) {
        double angle = position * pow((double)h->model->dims.theta, -2.0 * i / d);
        float c = tv_func_f32_of_angle(TV_FUNC_COS, angle), s = tv_func_f32_of_angle(TV_FUNC_SIN, angle);
        for (uint32_t head = 0; head < n->heads; head++) {
            uint32_t at = head * d + 2 * i;
            y[at] = x[at] * c - x[at + 1] * s;
            y[at + 1] = x[at] * s + x[at + 1] * c;
        }
    }
}

static float *cache_row(const host *h, float *cache, uint32_t layer, uint32_t position)
{
    return cache + ((size_t)layer * h->context + position) * h->model->dims.kv_heads * h->model->dims.head_dim;
}

static void scores_row(const host *h, const tv_graph_node *n, const float *q, float *y, uint32_t position)
{
    const tv_model_dims *s = &h->model->dims;
    float root = tv_func_f32(TV_FUNC_RSQRT, (float)s->head_dim);
    for (uint32_t head = 0; head < n->heads; head++)
        for (uint32_t t = 0; t <= position; t++) {
            const float *k = cache_row(h, h->cached_keys, n->layer, t) + head / (s->heads / s->kv_heads) * s->head_dim;
            y[(size_t)head * h->context + t] = tv_dot_f32(q + head * s->head_dim, k, s->head_dim) * root;
        }
}

static void softmax_row(const host *h, const tv_graph_node *n, const float *x, float *y, uint32_t position)
{
    for (uint32_t head = 0; head < n->heads; head++, x += h->context, y += h->context) {
        float max = x[0];
        for (uint32_t t = 1; t <= position; t++)
            max = x[t] > max ? x[t] : max;
        for (uint32_t t = 0; t <= position; t++)
            y[t] = tv_func_f32(TV_FUNC_EXP, x[t] - max);
        float sum = tv_sum_f32(y, position + 1);
        for (uint32_t t = 0; t <= position; t++)
            y[t] = y[t] / sum;
    }
}

static void weighted_sum_row(const host *h, const tv_graph_node *n, const float *probs, float *y, uint32_t position)
{
    const tv_model_dims *s = &h->model->dims;
    for (uint32_t head = 0; head < n->heads; head++)
        for (uint32_t i = 0; i < s->head_dim; i++) {
            tv_sum8 sum = {{0}};
            for (uint32_t t = 0; t <= position; t++)
                tv_sum8_add(
                    &sum, t,
                    probs[(size_t)head * h->context + t] *
                        cache_row(h, h->cached_values, n->layer, t)[head / (s->heads / s->kv_heads) * s->head_dim + i]);
            y[head * s->head_dim + i] = tv_sum8_total(&sum);
        }
}

/* Returns false when a weight is not finite. */
static bool execute_row(const host *h, const tv_graph_node *n, uint32_t row)
{
    bool ok = true;
    uint32_t position = h->position + row, columns = n->output == TV_NO_VALUE ? 0 : value_columns(h, n->output);
    const float *a = n->inputs[0] == TV_NO_VALUE ? NULL : row_of(h, n->inputs[0], row),
                *b = n->inputs[1] == TV_NO_VALUE ? NULL : row_of(h, n->inputs[1], row);
    float *y = columns ? row_of(h, n->output, row) : NULL;
    switch (n->op) {
    case TV_OP_EMBED:
        ok = tv_matrix_row_f32(matrix_of(h, n), (uint64_t)h->tokens[row], y) == TV_OK;
        break;
    case TV_OP_RMSNORM:
        norm_row(a, weights_f32(h, n), y, columns, h->model->dims.eps);
        break;
    case TV_OP_ROPE:
        rope_row(h, n, a, y, position);
        break;
    case TV_OP_APPEND: {
        size_t bytes = (size_t)h->model->dims.kv_heads * h->model->dims.head_dim * sizeof(float);
        memcpy(cache_row(h, h->cached_keys, n->layer, position), a, bytes);
        memcpy(cache_row(h, h->cached_values, n->layer, position), b, bytes);
        break;
    }
    case TV_OP_SCORES:
        scores_row(h, n, a, y, position);
        break;
    case TV_OP_SOFTMAX:
        softmax_row(h, n, a, y, position);
        break;
    case TV_OP_WEIGHTED_SUM:
        weighted_sum_row(h, n, a, y, position);
        break;
    case TV_OP_ADD:
        for (uint32_t i = 0; i < columns; i++)
            y[i] = a[i] + b[i];
        break;
    case TV_OP_MUL:
        for (uint32_t i = 0; i < columns; i++)
            y[i] = a[i] * b[i];
        break;
    case TV_OP_SILU:
        for (uint32_t i = 0; i < columns; i++)
            y[i] = tv_func_f32(TV_FUNC_SILU, a[i]);
        break;
    case TV_OP_MATMUL:
    case TV_OPS:
        break;
    }
    return ok;
}

typedef struct row_job {
    const host *host;
    const tv_graph_node *node;
    atomic_bool failed;
} row_job;

static void execute_rows(void *user, uint64_t from, uint64_t to)
{
    row_job *job = user;
    for (uint64_t row = from; row < to; row++)
        if (!execute_row(job->host, job->node, (uint32_t)row))
            job->failed = true;
}

static tv_status execute_node(host *h, const tv_graph_node *n, const tv_diag_sink *sink)
{
    matmul_job p = {.host = h, .node = n};
    row_job rows = {.host = h, .node = n};
    if (n->op == TV_OP_MATMUL)
        tv_pool_run(h->pool, value_columns(h, n->output), multiply_columns, &p);
    else if (n->op == TV_OP_APPEND) /* later rows read the cache entries of earlier rows: append all of them first */
        execute_rows(&rows, 0, h->rows);
    else
        tv_pool_run(h->rows > 1 ? h->pool : NULL, h->rows, execute_rows, &rows);
    return p.failed || rows.failed ? tv_model_fail_matrix(h->model, matrix_of(h, n), sink) : TV_OK;
}

static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink)
{
    host *h = state;
    if (count == 1)
        TV_TRY(convert_matrices(h, sink));
    for (uint32_t done = 0; done < count; done += h->rows) {
        h->rows = count - done < ROWS_MAX ? count - done : ROWS_MAX;
        h->position = position + done;
        h->tokens = tokens + done;
        h->first_logits_row = last_only ? h->rows - 1 : 0;
        for (uint32_t i = 0; i < h->graph->node_count; i++)
            TV_TRY(execute_node(h, &h->graph->nodes[i], sink));
        uint32_t vocab = h->model->dims.vocab;
        for (uint32_t r = h->first_logits_row; r < h->rows; r++)
            memcpy(logits + (last_only ? 0 : (size_t)(done + r) * vocab), row_of(h, h->graph->logits, r),
                   vocab * sizeof *logits);
    }
    return TV_OK;
}

static const float *value(void *state, uint32_t v) { return ((host *)state)->values[v]; }

const tv_backend tv_backend_host = {.name = "host", .create = create, .destroy = destroy, .step = step, .value = value};
