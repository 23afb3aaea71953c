/* SPDX-License-Identifier: Apache-2.0 */
/* The graph in binary32 on the host: the measure of every lowering. Sums are in the canonical order, functions rounded
 * once, so that the result is the same on every host. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "graph/backend.h"
#include "kernels/dot.h"
#include "num/func.h"
#include "sim/pool.h"

enum { ROWS_MAX = 64 }; /* tokens worked on at once */

typedef struct host {
    const tv_graph *graph;
    const tv_model *model;
    tv_pool *pool;
    uint32_t context;
    float **weights;         /* TV_WEIGHTS of each layer, rows after rows; NULL: not widened, see `widen_all` */
    float **values;          /* of the graph: ROWS_MAX rows */
    float *keys, *cached;    /* [layer][position][kv_heads * head_dim] */
    uint32_t rows, position; /* of the step */
    const int32_t *tokens;
    uint32_t last; /* first row whose logits are wanted */
} host;

static void destroy(void *state)
{
    host *h = state;
    if (!h)
        return;
    for (size_t i = 0; h->weights && i < (size_t)h->model->shape.layers * TV_WEIGHTS; i++)
        free(h->weights[i]);
    for (uint32_t i = 0; h->values && i < h->graph->value_count; i++)
        free(h->values[i]);
    free(h->weights);
    free(h->values);
    free(h->keys);
    free(h->cached);
    tv_pool_free(h->pool);
    free(h);
}

static tv_status widen(const tv_matrix *m, float **out, const tv_diag_sink *sink)
{
    if (!m->tensor || *out)
        return TV_OK;
    *out = malloc((size_t)m->rows * m->columns * sizeof **out);
    if (!*out)
        return tv_fail_memory(sink);
    for (uint32_t r = 0; r < m->rows; r++)
        TV_TRY(tv_matrix_row_f32(m, r, *out + (size_t)r * m->columns));
    return TV_OK;
}

/* Token by token a matrix is read again and again, and binary32 of it is kept; steps of many tokens, all that a
 * lowering needs of the host, widen a row for all of them at once. Of the embedding a token takes one row. */
static tv_status widen_all(const host *h, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < (size_t)h->model->shape.layers * TV_WEIGHTS; i++)
        if (i % TV_WEIGHTS != TV_WEIGHT_EMBEDDING)
            TV_TRY(widen(&h->model->matrices[i], &h->weights[i], sink));
    return TV_OK;
}

static tv_status widen_gains(const host *h, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < (size_t)h->model->shape.layers * TV_WEIGHTS; i++)
        if (tv_weight_is_norm((tv_weight)(i % TV_WEIGHTS)))
            TV_TRY(widen(&h->model->matrices[i], &h->weights[i], sink));
    return TV_OK;
}

static uint32_t value_columns(const host *h, uint32_t value)
{
    uint32_t columns = h->graph->values[value].columns;
    return columns ? columns : h->model->shape.heads * h->context;
}

static tv_status create(const tv_graph *graph, const tv_model *model, const tv_backend_options *options,
                        const tv_diag_sink *sink, void **state)
{
    const tv_model_dims *s = &model->shape;
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
                .keys = calloc(cache, sizeof *h->keys),
                .cached = calloc(cache, sizeof *h->cached)};
    tv_status status = h->weights && h->values && h->keys && h->cached ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK) /* a longer session goes token by token */
        status = options->context > ROWS_MAX ? widen_all(h, sink) : widen_gains(h, sink);
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

/* ---- Operations, row by row ---- */

static const float *weight_of(const host *h, const tv_graph_node *n)
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

typedef struct product {
    const host *host;
    const tv_graph_node *node;
    atomic_bool failed;
} product;

/* Columns of the output: each row of the weight is read once for all tokens. */
static void multiply(void *user, uint64_t from, uint64_t to)
{
    product *p = user;
    const host *h = p->host;
    uint32_t k = value_columns(h, p->node->inputs[0]), first = p->node->output == h->graph->logits ? h->last : 0;
    const float *wide = weight_of(h, p->node), *w = wide;
    float *row = wide ? NULL : malloc(k * sizeof *row), sums[ROWS_MAX];
    bool well = wide || row;
    if (wide && first + 1 == h->rows) { /* one token: several rows of the weight at a time */
        tv_dots_f32(wide + from * k, k, row_of(h, p->node->inputs[0], first), k, to - from,
                    row_of(h, p->node->output, first) + from);
        return;
    }
    for (uint64_t j = from; j < to && well; j++) {
        if (wide) {
            w = wide + j * k;
        } else {
            well = tv_matrix_row_f32(matrix_of(h, p->node), j, row) == TV_OK;
            w = row;
        }
        if (well)
            tv_dots_f32(row_of(h, p->node->inputs[0], first), k, w, k, h->rows - first, sums);
        for (uint32_t r = first; r < h->rows && well; r++)
            row_of(h, p->node->output, r)[j] = sums[r - first];
    }
    free(row);
    if (!well)
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
    uint32_t d = h->model->shape.head_dim;
    for (uint32_t i = 0; i < d / 2; i++) {
        double angle = position * pow((double)h->model->shape.theta, -2.0 * i / d);
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
    return cache + ((size_t)layer * h->context + position) * h->model->shape.kv_heads * h->model->shape.head_dim;
}

static void scores_row(const host *h, const tv_graph_node *n, const float *q, float *y, uint32_t position)
{
    const tv_model_dims *s = &h->model->shape;
    float root = tv_func_f32(TV_FUNC_RSQRT, (float)s->head_dim);
    for (uint32_t head = 0; head < n->heads; head++)
        for (uint32_t t = 0; t <= position; t++) {
            const float *k = cache_row(h, h->keys, n->layer, t) + head / (s->heads / s->kv_heads) * s->head_dim;
            y[(size_t)head * h->context + t] = tv_dot_f32(q + head * s->head_dim, k, s->head_dim) * root;
        }
}

static void softmax_row(const host *h, const tv_graph_node *n, const float *x, float *y, uint32_t position)
{
    for (uint32_t head = 0; head < n->heads; head++, x += h->context, y += h->context) {
        float most = x[0];
        for (uint32_t t = 1; t <= position; t++)
            most = x[t] > most ? x[t] : most;
        for (uint32_t t = 0; t <= position; t++)
            y[t] = tv_func_f32(TV_FUNC_EXP, x[t] - most);
        float sum = tv_sum_f32(y, position + 1);
        for (uint32_t t = 0; t <= position; t++)
            y[t] = y[t] / sum;
    }
}

static void mix_row(const host *h, const tv_graph_node *n, const float *shares, float *y, uint32_t position)
{
    const tv_model_dims *s = &h->model->shape;
    for (uint32_t head = 0; head < n->heads; head++)
        for (uint32_t i = 0; i < s->head_dim; i++) {
            tv_sum8 sum = {{0}};
            for (uint32_t t = 0; t <= position; t++)
                tv_sum8_add(
                    &sum, t,
                    shares[(size_t)head * h->context + t] *
                        cache_row(h, h->cached, n->layer, t)[head / (s->heads / s->kv_heads) * s->head_dim + i]);
            y[head * s->head_dim + i] = tv_sum8_total(&sum);
        }
}

static void run_row(const host *h, const tv_graph_node *n, uint32_t row)
{
    uint32_t position = h->position + row, columns = n->output == TV_NO_VALUE ? 0 : value_columns(h, n->output);
    const float *a = n->inputs[0] == TV_NO_VALUE ? NULL : row_of(h, n->inputs[0], row),
                *b = n->inputs[1] == TV_NO_VALUE ? NULL : row_of(h, n->inputs[1], row);
    float *y = columns ? row_of(h, n->output, row) : NULL;
    switch (n->op) {
    case TV_OP_EMBED:
        tv_matrix_row_f32(matrix_of(h, n), (uint64_t)h->tokens[row], y);
        break;
    case TV_OP_RMSNORM:
        norm_row(a, weight_of(h, n), y, columns, h->model->shape.eps);
        break;
    case TV_OP_ROPE:
        rope_row(h, n, a, y, position);
        break;
    case TV_OP_APPEND: {
        size_t bytes = (size_t)h->model->shape.kv_heads * h->model->shape.head_dim * sizeof(float);
        memcpy(cache_row(h, h->keys, n->layer, position), a, bytes);
        memcpy(cache_row(h, h->cached, n->layer, position), b, bytes);
        break;
    }
    case TV_OP_SCORES:
        scores_row(h, n, a, y, position);
        break;
    case TV_OP_SOFTMAX:
        softmax_row(h, n, a, y, position);
        break;
    case TV_OP_WEIGHTED_SUM:
        mix_row(h, n, a, y, position);
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
}

typedef struct rows_work {
    const host *host;
    const tv_graph_node *node;
} rows_work;

static void run_rows(void *user, uint64_t from, uint64_t to)
{
    const rows_work *w = user;
    for (uint64_t row = from; row < to; row++)
        run_row(w->host, w->node, (uint32_t)row);
}

static tv_status run_node(host *h, const tv_graph_node *n, const tv_diag_sink *sink)
{
    product p = {.host = h, .node = n};
    if (n->op == TV_OP_MATMUL)
        tv_pool_run(h->pool, value_columns(h, n->output), multiply, &p);
    else if (n->op == TV_OP_APPEND) /* the rows after see the rows before: all of them first */
        run_rows(&(rows_work){h, n}, 0, h->rows);
    else
        tv_pool_run(h->rows > 1 ? h->pool : NULL, h->rows, run_rows, &(rows_work){h, n});
    return p.failed ? tv_fail_memory(sink) : TV_OK;
}

static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink)
{
    host *h = state;
    if (count == 1)
        TV_TRY(widen_all(h, sink));
    for (uint32_t done = 0; done < count; done += h->rows) {
        h->rows = count - done < ROWS_MAX ? count - done : ROWS_MAX;
        h->position = position + done;
        h->tokens = tokens + done;
        h->last = last_only ? h->rows - 1 : 0;
        for (uint32_t i = 0; i < h->graph->node_count; i++)
            TV_TRY(run_node(h, &h->graph->nodes[i], sink));
        uint32_t vocab = h->model->shape.vocab;
        for (uint32_t r = h->last; r < h->rows; r++)
            memcpy(logits + (last_only ? 0 : (size_t)(done + r) * vocab), row_of(h, h->graph->logits, r),
                   vocab * sizeof *logits);
    }
    return TV_OK;
}

static const float *value(void *state, uint32_t v) { return ((host *)state)->values[v]; }

const tv_backend tv_backend_host = {.name = "host", .create = create, .destroy = destroy, .step = step, .value = value};
