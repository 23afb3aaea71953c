/* SPDX-License-Identifier: Apache-2.0 */
/* The operators as ops.def and the ONNX operator list define them, on all tokens at once, in binary64. */
#include "graph_values.h"

#include <math.h>

/* One node for one token. */
typedef struct operation {
    const evaluation *e;
    const tv_graph_node *n;
    const tv_graph_attrs *a;
    uint32_t token;
    double *y;
    size_t size; /* of y */
} operation;

static bool has(const operation *o, unsigned k) { return o->n->inputs[k] != TV_NO_VALUE; }

static const double *in(const operation *o, unsigned k) { return evaluated(o->e, o->n->inputs[k], o->token); }

static size_t in_size(const operation *o, unsigned k) { return o->e->size[o->n->inputs[k]]; }

static const tv_graph_shape *in_shape(const operation *o, unsigned k)
{
    return &o->e->graph->values.data[o->n->inputs[k]].shape;
}

static size_t width(const tv_graph_shape *s) { return (size_t)s->dims[s->rank - 1]; }

static size_t out_width(const operation *o) { return width(&o->e->graph->values.data[o->n->output].shape); }

static double activate(tv_activation f, double x)
{
    const double pi = 3.14159265358979323846;
    switch (f) {
    case TV_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case TV_ACTIVATION_SWISH:
        return x / (1 + exp(-x));
    case TV_ACTIVATION_GELU:
        return x * (1 + erf(x / sqrt(2))) / 2;
    case TV_ACTIVATION_GELU_TANH:
        return x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))) / 2;
    case TV_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case TV_ACTIVATION_TANH:
        return tanh(x);
    case TV_ACTIVATION_NONE:
    case TV_ACTIVATION_CLIP:
    case TV_ACTIVATIONS:
        break;
    }
    return x;
}

/* y = W x */
static void multiply(const double *w, const double *x, double *y, size_t rows, size_t columns)
{
    for (size_t r = 0; r < rows; r++) {
        y[r] = 0;
        for (size_t c = 0; c < columns; c++)
            y[r] += w[r * columns + c] * x[c];
    }
}

static void multiply_all(const operation *o, unsigned matrix, double *y)
{
    size_t columns = width(in_shape(o, matrix)), rows = in_size(o, matrix) / columns;
    for (size_t v = 0; v < in_size(o, 0) / columns; v++)
        multiply(in(o, matrix), in(o, 0) + v * columns, y + v * rows, rows, columns);
}

static void linear(const operation *o)
{
    multiply_all(o, 1, o->y);
    for (size_t i = 0; i < o->size; i++) {
        double y = o->y[i] + (has(o, 2) ? in(o, 2)[i % in_size(o, 2)] : 0);
        o->y[i] = activate(o->a->activation, y) + (has(o, 3) ? in(o, 3)[i] : 0);
    }
}

static void glu(const operation *o)
{
    double *up = malloc(o->size * sizeof *up);
    multiply_all(o, 1, o->y);
    multiply_all(o, 2, up);
    for (size_t i = 0; i < o->size; i++)
        o->y[i] = activate(o->a->activation, o->y[i]) * up[i];
    free(up);
}

static void matmul(const operation *o)
{
    size_t n = out_width(o), k = width(in_shape(o, 0)), m = (size_t)in_shape(o, 0)->dims[in_shape(o, 0)->rank - 2];
    for (size_t i = 0; i < o->size; i++) {
        size_t batch = i / (m * n), row = i / n % m, column = i % n;
        o->y[i] = 0;
        for (size_t c = 0; c < k; c++)
            o->y[i] += in(o, 0)[(batch * m + row) * k + c] * in(o, 1)[(batch * k + c) * n + column];
    }
}

/* Element `i` of the output as the operand sees it: axes are aligned at the last one, an axis of 1 repeats. */
static double repeated(const operation *o, unsigned k, size_t i)
{
    const tv_graph_shape *out = &o->e->graph->values.data[o->n->output].shape, *s = in_shape(o, k);
    size_t index = 0, stride = 1;
    if (in_size(o, k) == 1)
        return in(o, k)[0];
    for (uint32_t axis = 1; axis <= s->rank && s->dims[s->rank - axis] > 0; axis++) {
        size_t extent = (size_t)out->dims[out->rank - axis], own = (size_t)s->dims[s->rank - axis];
        index += own == 1 ? 0 : i % extent * stride;
        stride *= own;
        i /= extent;
    }
    return in(o, k)[index];
}

static void binary(const operation *o)
{
    for (size_t i = 0; i < o->size; i++) {
        double x = repeated(o, 0, i), y = repeated(o, 1, i);
        tv_graph_op op = o->n->op;
        o->y[i] = op == TV_OP_ADD ? x + y : op == TV_OP_SUB ? x - y : op == TV_OP_MUL ? x * y : x / y;
    }
}

static void unary(const operation *o)
{
    for (size_t i = 0; i < o->size; i++) {
        double x = in(o, 0)[i];
        switch (o->n->op) {
        case TV_OP_RELU:
            o->y[i] = activate(TV_ACTIVATION_RELU, x);
            break;
        case TV_OP_SIGMOID:
            o->y[i] = activate(TV_ACTIVATION_SIGMOID, x);
            break;
        case TV_OP_TANH:
            o->y[i] = activate(TV_ACTIVATION_TANH, x);
            break;
        case TV_OP_SWISH:
            o->y[i] = activate(TV_ACTIVATION_SWISH, x);
            break;
        case TV_OP_GELU:
            o->y[i] = activate(o->a->approximate ? TV_ACTIVATION_GELU_TANH : TV_ACTIVATION_GELU, x);
            break;
        case TV_OP_EXP:
            o->y[i] = exp(x);
            break;
        case TV_OP_SQRT:
            o->y[i] = sqrt(x);
            break;
        default:
            fail_msg("not a function of one element");
        }
    }
}

/* Softmax in place. */
static void softmax(double *x, size_t n)
{
    double max = x[0], sum = 0;
    for (size_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (size_t i = 0; i < n; i++)
        sum += x[i] = exp(x[i] - max);
    for (size_t i = 0; i < n; i++)
        x[i] /= sum;
}

static double mean(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static void reduce(const operation *o)
{
    size_t n = width(in_shape(o, 0));
    for (size_t i = 0; i < o->size; i++)
        o->y[i] = mean(in(o, 0) + i * n, n) * (o->n->op == TV_OP_REDUCE_SUM ? (double)n : 1);
}

static void normalize(const operation *o, size_t n, bool centered)
{
    for (size_t at = 0; at < o->size; at += n) {
        const double *x = in(o, 0) + at;
        double center = centered ? mean(x, n) : 0, square = 0;
        for (size_t i = 0; i < n; i++)
            square += (x[i] - center) * (x[i] - center) / (double)n;
        for (size_t i = 0; i < n; i++)
            o->y[at + i] = (x[i] - center) / sqrt(square + (double)o->a->epsilon) * (has(o, 1) ? in(o, 1)[i] : 1) +
                           (has(o, 2) ? in(o, 2)[i] : 0);
    }
}

static void rotate(const operation *o)
{
    size_t head = o->size / o->a->heads;
    uint32_t half = o->a->rotary_dim / 2;
    memcpy(o->y, in(o, 0), o->size * sizeof *o->y);
    for (size_t h = 0; h < o->a->heads; h++)
        for (uint32_t i = 0; i < half; i++) {
            double frequency = pow((double)o->a->theta, -(double)i / half) * (double)o->a->frequency_scale /
                               (has(o, 1) ? in(o, 1)[i] : 1);
            size_t p = h * head + (o->a->interleaved ? 2 * i : i), q = p + (o->a->interleaved ? 1 : half);
            double c = cos(o->token * frequency), s = sin(o->token * frequency), x = in(o, 0)[p], y = in(o, 0)[q];
            o->y[p] = c * x - s * y;
            o->y[q] = s * x + c * y;
        }
}

/* The node whose keys and values a reader of a cache sees. */
static const tv_graph_node *writer_of(const tv_graph *g, uint32_t cache)
{
    for (size_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.data[i].op == TV_OP_ATTENTION && g->nodes.data[i].attrs.cache == cache &&
            g->nodes.data[i].inputs[1] != TV_NO_VALUE)
            return &g->nodes.data[i];
    fail_msg("nothing writes the cache");
    return NULL;
}

static void attention(const operation *o)
{
    const tv_graph *g = o->e->graph;
    const tv_graph_cache *c = &g->caches.data[o->a->cache];
    const tv_graph_node *writer = writer_of(g, o->a->cache);
    for (size_t h = 0; h < o->a->heads; h++) {
        size_t shared = h * c->heads / o->a->heads, first = 0;
        double scores[EVAL_TOKENS_MAX];
        if (o->a->window)
            first = o->token + 1 > o->a->window ? o->token + 1 - o->a->window : 0;
        for (size_t t = first; t <= o->token; t++) {
            const double *key = evaluated(o->e, writer->inputs[1], (uint32_t)t) + shared * c->key_dim;
            double score;
            multiply(in(o, 0) + h * c->key_dim, key, &score, 1, c->key_dim);
            score *= (double)o->a->scale;
            scores[t - first] =
                o->a->soft_cap != 0 ? (double)o->a->soft_cap * tanh(score / (double)o->a->soft_cap) : score;
        }
        softmax(scores, o->token + 1 - first);
        for (size_t i = 0; i < c->value_dim; i++) {
            double sum = 0;
            for (size_t t = first; t <= o->token; t++)
                sum += scores[t - first] * evaluated(o->e, writer->inputs[2], (uint32_t)t)[shared * c->value_dim + i];
            o->y[h * c->value_dim + i] = sum;
        }
    }
}

static void experts(const operation *o)
{
    size_t count = in_size(o, 1), dim = o->size, hidden = in_size(o, 2) / count / dim;
    double probs[16], sum = 0, *g = malloc(3 * (hidden + dim) * sizeof *g), *u = g + hidden, *y = u + hidden;
    bool chosen[16] = {false};
    memcpy(probs, in(o, 1), count * sizeof *probs);
    softmax(probs, count);
    for (uint32_t k = 0; k < o->a->experts_used; k++) {
        size_t best = count;
        for (size_t i = 0; i < count; i++)
            if (!chosen[i] && (best == count || probs[i] > probs[best]))
                best = i;
        chosen[best] = true;
        sum += probs[best];
    }
    memset(o->y, 0, dim * sizeof *o->y);
    for (size_t i = 0; i < count; i++) {
        if (!chosen[i])
            continue;
        multiply(in(o, 2) + i * hidden * dim, in(o, 0), g, hidden, dim);
        multiply(in(o, 3) + i * hidden * dim, in(o, 0), u, hidden, dim);
        for (size_t k = 0; k < hidden; k++)
            g[k] = activate(o->a->activation, g[k]) * u[k];
        multiply(in(o, 4) + i * hidden * dim, g, y, dim, hidden);
        for (size_t k = 0; k < dim; k++)
            o->y[k] += probs[i] / (o->a->normalize ? sum : 1) * y[k];
    }
    free(g);
}

/* Reshape, Slice, Concat, Transpose. */
static void move(const operation *o)
{
    size_t n = out_width(o), from = width(in_shape(o, 0)), at = 0;
    for (size_t i = 0; i < o->size; i++)
        switch (o->n->op) {
        case TV_OP_RESHAPE:
            o->y[i] = in(o, 0)[i];
            break;
        case TV_OP_SLICE:
            o->y[i] = in(o, 0)[i / n * from + o->a->start + i % n];
            break;
        case TV_OP_TRANSPOSE:
            o->y[i] = in(o, 0)[i / (n * from) * (n * from) + i % n * from + i / n % from];
            break;
        default:
            break;
        }
    for (unsigned k = 0; o->n->op == TV_OP_CONCAT && k < TV_GRAPH_INPUTS_MAX && has(o, k); k++) {
        size_t own = width(in_shape(o, k));
        for (size_t i = 0; i < in_size(o, k); i++)
            o->y[i / own * n + at + i % own] = in(o, k)[i];
        at += own;
    }
}

static void compute(const operation *o)
{
    switch (o->n->op) {
    case TV_OP_RESHAPE:
    case TV_OP_SLICE:
    case TV_OP_CONCAT:
    case TV_OP_TRANSPOSE:
        move(o);
        break;
    case TV_OP_GEMM:
    case TV_OP_LINEAR:
        linear(o);
        break;
    case TV_OP_GLU:
        glu(o);
        break;
    case TV_OP_MATMUL:
        matmul(o);
        break;
    case TV_OP_ADD:
    case TV_OP_SUB:
    case TV_OP_MUL:
    case TV_OP_DIV:
        binary(o);
        break;
    case TV_OP_REDUCE_SUM:
    case TV_OP_REDUCE_MEAN:
        reduce(o);
        break;
    case TV_OP_SOFTMAX:
        memcpy(o->y, in(o, 0), o->size * sizeof *o->y);
        for (size_t at = 0; at < o->size; at += out_width(o))
            softmax(o->y + at, out_width(o));
        break;
    case TV_OP_RMS_NORMALIZATION:
    case TV_OP_LAYER_NORMALIZATION:
        normalize(o, out_width(o), o->n->op == TV_OP_LAYER_NORMALIZATION);
        break;
    case TV_OP_NORM:
        normalize(o, out_width(o) / o->a->groups, o->a->subtract_mean);
        break;
    case TV_OP_ROTARY_EMBEDDING:
        rotate(o);
        break;
    case TV_OP_ATTENTION:
        attention(o);
        break;
    case TV_OP_MOE:
        experts(o);
        break;
    default:
        unary(o);
    }
}

static size_t elements(const tv_graph_shape *s)
{
    size_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n *= s->dims[i] > 0 ? (size_t)s->dims[i] : 1;
    return n;
}

static void read_constant(evaluation *e, uint32_t value)
{
    const tv_matrix *m = &e->graph->values.data[value].matrix;
    float row[256];
    e->constant[value] = true;
    for (size_t r = 0; r < (size_t)m->count * m->rows; r++) {
        if (m->values)
            memcpy(row, m->values + r * m->columns, m->columns * sizeof *row);
        else
            m->read_row(m->tensor, m->first + r, row);
        for (size_t c = 0; c < m->columns; c++)
            e->at[value][r * m->columns + c] = (double)row[c];
    }
}

evaluation *evaluate(const tv_graph *g, const int32_t *tokens, uint32_t count)
{
    evaluation *e = calloc(1, sizeof *e);
    assert_non_null(e);
    assert_true(g->values.count <= VALUES_MAX && count <= EVAL_TOKENS_MAX);
    e->graph = g;
    e->tokens = count;
    for (uint32_t v = 0; v < g->values.count; v++) {
        e->size[v] = elements(&g->values.data[v].shape);
        e->at[v] = calloc(e->size[v] * count, sizeof *e->at[v]);
        if (g->values.data[v].source == TV_VALUE_CONSTANT)
            read_constant(e, v);
    }
    for (size_t i = 0; i < g->nodes.count; i++)
        for (uint32_t t = 0; t < count; t++) {
            const tv_graph_node *n = &g->nodes.data[i];
            operation o = {e, n, &n->attrs, t, e->at[n->output] + t * e->size[n->output], e->size[n->output]};
            if (n->op != TV_OP_GATHER) {
                compute(&o);
                continue;
            }
            uint32_t row = g->values.data[n->inputs[1]].source == TV_VALUE_TOKENS ? (uint32_t)tokens[t] : t;
            memcpy(o.y, e->at[n->inputs[0]] + row * o.size, o.size * sizeof *o.y);
        }
    return e;
}

void free_evaluation(evaluation *e)
{
    for (size_t v = 0; v < VALUES_MAX; v++)
        free(e->at[v]);
    free(e);
}
