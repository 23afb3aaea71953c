/* SPDX-License-Identifier: Apache-2.0 */
/* The host reference: executes the graph in binary32. All lowerings are compared with it.
 *
 * Results are identical on every host, with any number of threads. Work is split by rows of tokens, or by rows of
 * matrices for products. */
#include <stdatomic.h>
#include <stdlib.h>

#include "graph/backend.h"
#include "graph/operators.h"
#include "kernels/dot.h"
#include "sim/pool.h"

enum { ROWS_MAX = 64 }; /* tokens processed at once */

typedef struct host {
    const tv_graph *graph;
    tv_pool *pool;
    uint32_t context;
    float **constants; /* of each value: binary32; NULL: no constant, or a matrix that is decoded row by row */
    float **values;    /* of each value: ROWS_MAX rows, or NULL */
    tv_host_cache *caches;
    float *scratch;          /* [ROWS_MAX][context] */
    uint32_t rows, position; /* of the current batch */
    const int32_t *tokens;
    uint32_t first_logits_row; /* first row that needs logits */
    tv_llm_progress progress;  /* of steps */
} host;

/* ---- Creation ---- */

static void destroy(void *state)
{
    host *h = state;
    if (!h)
        return;
    for (size_t i = 0; i < h->graph->values.count; i++) {
        if (h->constants)
            free(h->constants[i]);
        if (h->values)
            free(h->values[i]);
    }
    for (size_t i = 0; h->caches && i < h->graph->caches.count; i++) {
        free(h->caches[i].keys);
        free(h->caches[i].values);
    }
    free(h->constants);
    free(h->values);
    free(h->caches);
    free(h->scratch);
    tv_pool_free(h->pool);
    free(h);
}

static tv_status convert_constant(const host *h, uint32_t value, const tv_diag_sink *sink)
{
    const tv_graph_value *v = tv_graph_value_at(h->graph, value);
    const tv_matrix *m = &v->matrix;
    uint64_t rows = (uint64_t)m->count * m->rows;
    if (v->source != TV_VALUE_CONSTANT || !tv_matrix_has_data(m) || h->constants[value])
        return TV_OK;
    float *out = h->constants[value] = malloc((size_t)rows * m->columns * sizeof *out);
    if (!out)
        return tv_fail_memory(sink);
    for (uint64_t r = 0; r < rows; r++)
        if (tv_matrix_row_f32(m, r, out + r * m->columns) != TV_OK)
            return tv_matrix_fail(m, sink);
    tv_matrix_drop(m);
    return TV_OK;
}

/* Matrices of products. Single-token steps read every matrix again, so it is kept as binary32. Steps of many tokens,
 * such as the calibration run of a lowering, convert each row once for all tokens and need no copy. */
static tv_status convert_matrices(const host *h, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < h->graph->nodes.count; i++)
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
            const tv_graph_node *n = &h->graph->nodes.data[i];
            if (n->inputs[k] != TV_NO_VALUE && n->op != TV_OP_GATHER)
                TV_TRY(convert_constant(h, n->inputs[k], sink));
        }
    return TV_OK;
}

/* Whether a product or a selection reads input `k` row by row, decoded where it is not kept. */
static bool is_read_by_rows(tv_graph_op op, unsigned k)
{
    switch (op) {
    case TV_OP_GATHER:
        return k == 0;
    case TV_OP_GEMM:
    case TV_OP_LINEAR:
        return k == 1;
    case TV_OP_GLU:
        return k == 1 || k == 2;
    case TV_OP_MOE:
        return k >= 2;
    default: /* the others read all elements of a constant */
        return false;
    }
}

/* Gains, biases, and what is computed element by element. */
static tv_status convert_elements(const host *h, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < h->graph->nodes.count; i++)
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
            const tv_graph_node *n = &h->graph->nodes.data[i];
            if (n->inputs[k] != TV_NO_VALUE && !is_read_by_rows(n->op, k))
                TV_TRY(convert_constant(h, n->inputs[k], sink));
        }
    return TV_OK;
}

static tv_status allocate(host *h, const tv_diag_sink *sink)
{
    const tv_graph *g = h->graph;
    bool ok = true;
    h->constants = calloc(g->values.count, sizeof *h->constants);
    h->values = calloc(g->values.count, sizeof *h->values);
    h->caches = calloc(g->caches.count + 1, sizeof *h->caches);
    h->scratch = malloc((size_t)ROWS_MAX * h->context * sizeof *h->scratch);
    ok = h->constants && h->values && h->caches && h->scratch;
    for (size_t i = 0; i < g->nodes.count && ok; i++) {
        uint32_t output = g->nodes.data[i].output;
        h->values[output] = malloc((size_t)ROWS_MAX * tv_graph_elements(g, output) * sizeof(float));
        ok = h->values[output] != NULL;
    }
    for (size_t i = 0; i < g->caches.count && ok; i++) {
        const tv_graph_cache *c = &g->caches.data[i];
        h->caches[i].keys = calloc((size_t)h->context * c->heads * c->key_dim, sizeof(float));
        h->caches[i].values = calloc((size_t)h->context * c->heads * c->value_dim, sizeof(float));
        ok = h->caches[i].keys && h->caches[i].values;
    }
    return ok ? TV_OK : tv_fail_memory(sink);
}

static tv_status create(const tv_graph *graph, const tv_backend_options *options, const tv_diag_sink *sink,
                        void **state)
{
    host *h = calloc(1, sizeof *h);
    if (!h)
        return tv_fail_memory(sink);
    *h = (host){.graph = graph,
                .context = options->context,
                .pool = tv_pool_new(options->threads),
                .progress = options->step_progress};
    tv_status status = allocate(h, sink);
    if (status == TV_OK)
        status = convert_elements(h, sink);
    if (status == TV_OK && options->context > ROWS_MAX) /* longer sessions run single-token steps */
        status = convert_matrices(h, sink);
    if (status != TV_OK) {
        destroy(h);
        return status;
    }
    *state = h;
    return TV_OK;
}

/* ---- Execution ---- */

static float *row_of(const host *h, uint32_t value, uint32_t row)
{
    return h->values[value] + (size_t)row * tv_graph_elements(h->graph, value);
}

static tv_operator_row operands(const host *h, const tv_graph_node *n, uint32_t row)
{
    tv_operator_row r = {.graph = h->graph,
                         .node = n,
                         .output = row_of(h, n->output, row),
                         .scratch = h->scratch + (size_t)row * h->context,
                         .position = h->position + row};
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        uint32_t v = n->inputs[k];
        if (v == TV_NO_VALUE)
            continue;
        const tv_graph_value *value = tv_graph_value_at(h->graph, v);
        if (value->source == TV_VALUE_COMPUTED)
            r.inputs[k] = row_of(h, v, row);
        else if (value->source == TV_VALUE_CONSTANT)
            r.inputs[k] = h->constants[v];
        else
            r.index = value->source == TV_VALUE_TOKENS ? h->tokens[row] : (int32_t)r.position;
    }
    if (n->op == TV_OP_ATTENTION)
        r.cache = &h->caches[n->attrs.cache];
    return r;
}

typedef struct node_job {
    const host *host;
    const tv_graph_node *node;
    uint32_t first; /* row */
    atomic_bool failed;
} node_job;

static void execute_rows(void *user, uint64_t from, uint64_t to)
{
    node_job *job = user;
    for (uint64_t row = from; row < to; row++) {
        tv_operator_row r = operands(job->host, job->node, job->first + (uint32_t)row);
        if (!tv_operator_compute(&r))
            job->failed = true;
    }
}

/* sums[row - first] = x[row] * W[j]^T for the tokens of the batch. */
static bool multiply_row(const node_job *job, unsigned matrix, uint64_t j, float *scratch, float *sums)
{
    const host *h = job->host;
    const tv_matrix *m = tv_graph_matrix(h->graph, job->node->inputs[matrix]);
    const float *w = tv_matrix_row_or(m, h->constants[job->node->inputs[matrix]], j, scratch);
    if (w)
        tv_dots_f32(row_of(h, job->node->inputs[0], job->first), m->columns, w, m->columns, h->rows - job->first, sums);
    return w != NULL;
}

/* What follows a product: bias, activation, residual; or the second factor of a gate. */
static void finish_column(const node_job *job, uint64_t j, const float *sums, const float *gates)
{
    const host *h = job->host;
    const tv_graph_node *n = job->node;
    const float *bias = n->op != TV_OP_GLU && n->inputs[2] != TV_NO_VALUE ? h->constants[n->inputs[2]] : NULL;
    for (uint32_t r = job->first; r < h->rows; r++) {
        float y = sums[r - job->first];
        if (n->op == TV_OP_GLU) {
            y = tv_activation_f32(n->attrs.activation, gates[r - job->first]) * y;
        } else {
            y = tv_activate(&n->attrs, bias ? y + bias[j] : y);
            if (n->inputs[3] != TV_NO_VALUE)
                y = row_of(h, n->inputs[3], r)[j] + y;
        }
        row_of(h, n->output, r)[j] = y;
    }
}

/* Columns [from, to) of a product: each row of a matrix is read once for all tokens. */
static void multiply_columns(void *user, uint64_t from, uint64_t to)
{
    node_job *job = user;
    const tv_graph_node *n = job->node;
    uint32_t k = tv_graph_matrix(job->host->graph, n->inputs[1])->columns;
    float *scratch = malloc(k * sizeof *scratch), sums[ROWS_MAX], gates[ROWS_MAX];
    bool ok = scratch != NULL, gated = n->op == TV_OP_GLU;
    for (uint64_t j = from; j < to && ok; j++) {
        ok = multiply_row(job, 1, j, scratch, gated ? gates : sums);
        if (ok && gated)
            ok = multiply_row(job, 2, j, scratch, sums);
        if (ok)
            finish_column(job, j, sums, gates);
    }
    free(scratch);
    if (!ok)
        job->failed = true;
}

/* A product of one vector for each token, which is worth splitting by columns. */
static bool is_product(const host *h, const tv_graph_node *n)
{
    bool product = n->op == TV_OP_GEMM || n->op == TV_OP_LINEAR || n->op == TV_OP_GLU;
    return product && tv_graph_elements(h->graph, n->inputs[0]) == tv_graph_columns(h->graph, n->inputs[0]);
}

static tv_status report_failure(const host *h, const tv_graph_node *n, const tv_diag_sink *sink)
{
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        if (n->inputs[k] != TV_NO_VALUE && tv_graph_value_at(h->graph, n->inputs[k])->source == TV_VALUE_CONSTANT &&
            !h->constants[n->inputs[k]])
            return tv_matrix_fail(tv_graph_matrix(h->graph, n->inputs[k]), sink);
    return tv_fail_memory(sink);
}

/* The classifier and what follows it, which are the bulk of the work: only some tokens need them. */
static bool makes_logits(const host *h, const tv_graph_node *n)
{
    return n->block == TV_BLOCK_OUTPUT && tv_graph_columns(h->graph, n->output) == tv_graph_vocabulary(h->graph);
}

/* Of a product whose rows were decoded: the next node has other matrices. */
static void drop_matrices(const host *h, const tv_graph_node *n)
{
    for (unsigned k = 1; k <= 2; k++)
        if (n->inputs[k] != TV_NO_VALUE && tv_graph_value_at(h->graph, n->inputs[k])->source == TV_VALUE_CONSTANT &&
            !h->constants[n->inputs[k]])
            tv_matrix_drop(tv_graph_matrix(h->graph, n->inputs[k]));
}

static tv_status execute_node(host *h, const tv_graph_node *n, const tv_diag_sink *sink)
{
    node_job job = {.host = h, .node = n, .first = makes_logits(h, n) ? h->first_logits_row : 0};
    uint32_t rows = h->rows - job.first;
    if (n->op == TV_OP_ATTENTION && n->inputs[1] != TV_NO_VALUE)
        for (uint32_t row = 0; row < h->rows; row++) { /* rows see the keys of earlier rows: append all of them first */
            tv_operator_row r = operands(h, n, row);
            tv_operator_append(&r);
        }
    if (is_product(h, n)) {
        tv_pool_run(h->pool, tv_graph_columns(h->graph, n->output), multiply_columns, &job);
        drop_matrices(h, n);
    } else {
        tv_pool_run(rows > 1 ? h->pool : NULL, rows, execute_rows, &job);
    }
    return job.failed ? report_failure(h, n, sink) : TV_OK;
}

static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink)
{
    host *h = state;
    size_t vocabulary = tv_graph_vocabulary(h->graph);
    if (count == 1)
        TV_TRY(convert_matrices(h, sink));
    for (uint32_t done = 0; done < count; done += h->rows) {
        h->rows = count - done < ROWS_MAX ? count - done : ROWS_MAX;
        h->position = position + done;
        h->tokens = tokens + done;
        h->first_logits_row = last_only ? h->rows - 1 : 0;
        for (size_t i = 0; i < h->graph->nodes.count; i++) {
            tv_progress_report(&h->progress, "measuring activations", done * h->graph->nodes.count + h->rows * i,
                               count * h->graph->nodes.count);
            TV_TRY(execute_node(h, &h->graph->nodes.data[i], sink));
        }
        for (uint32_t r = h->first_logits_row; r < h->rows; r++)
            memcpy(logits + (last_only ? 0 : (done + r) * vocabulary), row_of(h, h->graph->logits, r),
                   vocabulary * sizeof *logits);
    }
    return TV_OK;
}

static const float *value(void *state, uint32_t v) { return ((host *)state)->values[v]; }

const tv_backend tv_backend_host = {.name = "host", .create = create, .destroy = destroy, .step = step, .value = value};
