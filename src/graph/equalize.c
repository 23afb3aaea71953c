/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-layer equalization. Weights of a pass are copied before they change: those of the file are only read. */
#include "graph/equalize.h"

#include <math.h>
#include <stdlib.h>

#include "graph/quantize.h"

enum { ROUNDS_MAX = 20 };

/* Weights as [rows][inner][taps]: of a convolution output channels, input channels of a group and positions of the
 * kernel; of a Linear the rows, the columns and 1. */
typedef struct weights {
    uint64_t rows, inner, taps, groups;
    float *data;
} weights;

static const tv_tensor *weights_of(const tv_graph *graph, const tv_graph_node *n)
{
    if (n->op != TV_OP_CONV && n->op != TV_OP_LINEAR)
        return NULL;
    const tv_graph_value *v = tv_graph_value_at(graph, n->inputs[1]);
    bool usable = v->tensor && v->tensor->data && v->element == TV_ELEMENT_F32 && v->tensor->rank >= 2;
    return usable && tv_tensor_count(v->tensor) ? v->tensor : NULL;
}

static weights view(const tv_graph_node *n, const tv_tensor *t)
{
    weights w = {.rows = (uint64_t)t->dims[0], .inner = (uint64_t)t->dims[1], .groups = 1, .data = t->data};
    w.taps = tv_tensor_count(t) / w.rows / w.inner;
    if (n->op == TV_OP_CONV)
        w.groups = n->attrs.groups;
    return w;
}

uint64_t tv_product_channels(const tv_graph *graph, const tv_graph_node *node)
{
    const tv_tensor *t = weights_of(graph, node);
    if (!t)
        return 0;
    weights w = view(node, t);
    return w.inner * w.groups;
}

/* Largest magnitude of output channel c. */
static float row_absmax(const weights *w, uint64_t c)
{
    float max = 0;
    for (uint64_t i = 0; i < w->inner * w->taps; i++)
        max = fmaxf(max, fabsf(w->data[c * w->inner * w->taps + i]));
    return max;
}

static void scale_row(const weights *w, uint64_t c, float factor)
{
    for (uint64_t i = 0; i < w->inner * w->taps; i++)
        w->data[c * w->inner * w->taps + i] *= factor;
}

/* The weights of row r that read input channel c of its group. */
static float *column_of(const weights *w, uint64_t r, uint64_t c)
{
    return w->data + (r * w->inner + c % w->inner) * w->taps;
}

static float column_absmax(const weights *w, uint64_t c)
{
    uint64_t per_group = w->rows / w->groups, first = c / w->inner * per_group;
    float max = 0;
    for (uint64_t r = first; r < first + per_group; r++)
        for (uint64_t i = 0; i < w->taps; i++)
            max = fmaxf(max, fabsf(column_of(w, r, c)[i]));
    return max;
}

static void scale_column(const weights *w, uint64_t c, float factor)
{
    uint64_t per_group = w->rows / w->groups, first = c / w->inner * per_group;
    for (uint64_t r = first; r < first + per_group; r++)
        for (uint64_t i = 0; i < w->taps; i++)
            column_of(w, r, c)[i] *= factor;
}

/* Scales one pair; returns the largest |s - 1|. */
static float equalize_pair(const weights *first, float *bias, const weights *second)
{
    float change = 0;
    for (uint64_t c = 0; c < first->rows; c++) {
        float r1 = row_absmax(first, c), r2 = column_absmax(second, c), s = sqrtf(r1 / r2);
        if (!(r1 > 0 && r2 > 0) || !isnormal(s) || !isnormal(1 / s))
            continue;
        scale_row(first, c, 1 / s);
        if (bias)
            bias[c] /= s;
        scale_column(second, c, s);
        change = fmaxf(change, fabsf(s - 1));
    }
    return change;
}

/* ---- Pairs of a graph ---- */

/* True if scaling the channels of the sum scales those of the output: Relu and no activation do. */
static bool is_homogeneous(const tv_graph_node *n)
{
    return (n->attrs.activation == TV_ACTIVATION_NONE || n->attrs.activation == TV_ACTIVATION_RELU) &&
           n->inputs[3] == TV_NO_VALUE;
}

/* The bias is left out, or a constant of its own. */
static bool has_usable_bias(const tv_graph *g, const tv_graph_node *n)
{
    const tv_graph_value *v = n->inputs[2] == TV_NO_VALUE ? NULL : tv_graph_value_at(g, n->inputs[2]);
    return !v || (v->tensor && v->tensor->data && v->element == TV_ELEMENT_F32 && tv_graph_uses(g, n->inputs[2]) == 1);
}

/* The product that alone reads the output of `n` as its first operand, or NULL. */
static const tv_graph_node *successor(const tv_graph *g, const tv_graph_node *n)
{
    for (size_t i = 0; i < g->nodes.count; i++)
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (g->nodes.data[i].inputs[k] == n->output)
                return k == 0 && tv_graph_uses(g, n->output) == 1 ? &g->nodes.data[i] : NULL;
    return NULL;
}

static const tv_graph_node *second_of_pair(const tv_graph *g, const tv_graph_node *n)
{
    const tv_tensor *a = weights_of(g, n);
    if (!a || !is_homogeneous(n) || !has_usable_bias(g, n) || tv_graph_uses(g, n->inputs[1]) != 1)
        return NULL;
    const tv_graph_node *next = successor(g, n);
    const tv_tensor *b = next ? weights_of(g, next) : NULL;
    if (!b || tv_graph_uses(g, next->inputs[1]) != 1 || next->op != n->op)
        return NULL;
    weights first = view(n, a), second = view(next, b);
    return first.rows == second.inner * second.groups ? next : NULL;
}

/* Replaces a constant of the graph by a copy that may change. */
static tv_status own_constant(tv_graph *g, uint32_t node, unsigned input, bool *owned, const tv_diag_sink *sink)
{
    uint32_t value = g->nodes.data[node].inputs[input];
    tv_graph_builder b = {.graph = g, .sink = sink, .block = TV_BLOCK_NONE};
    if (value == TV_NO_VALUE || owned[node * 2 + input - 1])
        return TV_OK;
    uint32_t copy = tv_graph_tensor(&b, tv_graph_value_at(g, value)->name, tv_graph_value_at(g, value)->tensor, false);
    if (copy == TV_NO_VALUE)
        return b.status;
    g->nodes.data[node].inputs[input] = copy;
    owned[node * 2 + input - 1] = true;
    return TV_OK;
}

static tv_status own_pair(tv_graph *g, uint32_t first, uint32_t second, bool *owned, const tv_diag_sink *sink)
{
    TV_TRY(own_constant(g, first, 1, owned, sink));
    TV_TRY(own_constant(g, first, 2, owned, sink));
    return own_constant(g, second, 1, owned, sink);
}

static float equalize_nodes(const tv_graph *g, const tv_graph_node *first, const tv_graph_node *second)
{
    weights a = view(first, weights_of(g, first)), b = view(second, weights_of(g, second));
    float *bias = first->inputs[2] == TV_NO_VALUE ? NULL : tv_graph_value_at(g, first->inputs[2])->tensor->data;
    return equalize_pair(&a, bias, &b);
}

tv_status tv_graph_equalize(tv_graph *graph, uint32_t *pairs, const tv_diag_sink *sink)
{
    uint32_t nodes = (uint32_t)graph->nodes.count, count = 0;
    bool *owned = calloc((size_t)nodes * 2 + 1, sizeof *owned);
    uint32_t *next = malloc((nodes + 1) * sizeof *next);
    tv_status status = owned && next ? TV_OK : tv_fail_memory(sink);
    for (uint32_t i = 0; i < nodes && status == TV_OK; i++) {
        const tv_graph_node *second = second_of_pair(graph, tv_graph_node_at(graph, i));
        next[i] = second ? (uint32_t)(second - graph->nodes.data) : TV_NO_VALUE;
        count += second != NULL;
    }
    for (uint32_t i = 0; i < nodes && status == TV_OK; i++)
        if (next[i] != TV_NO_VALUE)
            status = own_pair(graph, i, next[i], owned, sink);
    float change = 1;
    for (unsigned round = 0; round < ROUNDS_MAX && status == TV_OK && change > 1e-3F; round++) {
        change = 0;
        for (uint32_t i = 0; i < nodes; i++)
            if (next[i] != TV_NO_VALUE)
                change =
                    fmaxf(change, equalize_nodes(graph, tv_graph_node_at(graph, i), tv_graph_node_at(graph, next[i])));
    }
    free(owned);
    free(next);
    if (status == TV_OK && pairs)
        *pairs = count;
    return status;
}

/* ---- Bias correction ---- */

bool tv_round_row(float *values, uint64_t n, uint64_t group, unsigned bits)
{
    uint64_t even = n + n % 2; /* packed in whole bytes */
    float *padded = calloc(even + 1, sizeof *padded), *scales = malloc((even + 1) * sizeof *scales);
    uint8_t *packed = malloc(even + 1);
    bool good = padded && scales && packed;
    if (good) {
        memcpy(padded, values, n * sizeof *values);
        group = group == n ? even : group;
        tv_quantize_row(padded, (uint32_t)even, (uint32_t)group, bits, packed, scales);
    }
    for (uint64_t i = 0; i < n && good; i++) {
        int half = packed[bits == 8 ? i : i / 2] >> (i % 2 * 4) & 0xF;
        int q = bits == 8 ? (int8_t)packed[i] : half < 8 ? half : half - 16;
        values[i] = (float)q * scales[i / group];
    }
    free(padded);
    free(scales);
    free(packed);
    return good;
}

/* How weights are rounded, and room for an output channel. */
typedef struct rounding {
    tv_round_weights *rounds;
    unsigned bits;
    float *channel;
} rounding;

/* What rounding the weights adds to the mean of output channel o. False: out of memory. */
static bool mean_shift(const weights *w, uint64_t o, const double *means, const rounding *r, double *shift)
{
    uint64_t count = w->inner * w->taps, first = o / (w->rows / w->groups) * w->inner;
    const float *from = w->data + o * count;
    for (uint64_t i = 0; i < count; i++)
        r->channel[i % w->taps * w->inner + i / w->taps] = from[i];
    *shift = 0;
    if (!r->rounds(r->channel, w->taps, w->inner, r->bits))
        return false;
    for (uint64_t i = 0; i < count; i++)
        *shift +=
            ((double)r->channel[i % w->taps * w->inner + i / w->taps] - (double)from[i]) * means[first + i / w->taps];
    return true;
}

static uint32_t corrected_bias(tv_graph *g, uint32_t node, const double *means, const rounding *how,
                               tv_graph_builder *b)
{
    const tv_graph_node *n = tv_graph_node_at(g, node);
    weights w = view(n, weights_of(g, n));
    const tv_graph_value *old = n->inputs[2] == TV_NO_VALUE ? NULL : tv_graph_value_at(g, n->inputs[2]);
    const float *bias = old ? old->tensor->data : NULL;
    int64_t rows = (int64_t)w.rows;
    tv_tensor t;
    rounding own = *how;
    own.channel = malloc((w.inner * w.taps + 1) * sizeof *own.channel);
    b->status = own.channel ? tv_tensor_init(&t, TV_ELEMENT_F32, 1, &rows, b->sink) : tv_fail_memory(b->sink);
    if (b->status != TV_OK) {
        free(own.channel);
        return TV_NO_VALUE;
    }
    double shift;
    for (uint64_t o = 0; o < w.rows && b->status == TV_OK; o++) {
        if (!mean_shift(&w, o, means, &own, &shift))
            b->status = tv_fail_memory(b->sink);
        ((float *)t.data)[o] = (float)((bias ? (double)bias[o] : 0) - shift);
    }
    uint32_t value = TV_NO_VALUE;
    if (b->status == TV_OK)
        value = tv_graph_tensor(b, tv_graph_value_at(g, n->output)->name, &t, false);
    tv_tensor_fini(&t);
    free(own.channel);
    return value;
}

tv_status tv_graph_correct_biases(tv_graph *graph, double *const *means, tv_round_weights *rounds, unsigned bits,
                                  const tv_diag_sink *sink, tv_bias_list *out)
{
    rounding how = {.rounds = rounds, .bits = bits};
    tv_graph_builder b = {.graph = graph, .sink = sink, .block = TV_BLOCK_NONE};
    *out = (tv_bias_list){0};
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(graph, i);
        const tv_graph_value *old = n->inputs[2] == TV_NO_VALUE ? NULL : tv_graph_value_at(graph, n->inputs[2]);
        if (!means[i] || (old && (!old->tensor || !old->tensor->data || old->element != TV_ELEMENT_F32)))
            continue;
        uint32_t value = corrected_bias(graph, i, means[i], &how, &b);
        if (b.status != TV_OK)
            return b.status;
        if (!TV_VEC_PUSH(&out->changes, ((tv_bias_change){i, graph->nodes.data[i].inputs[2], value})))
            return tv_fail_memory(sink);
    }
    return TV_OK;
}

void tv_bias_list_apply(const tv_bias_list *list, tv_graph *graph, bool corrected)
{
    for (size_t i = 0; i < list->changes.count; i++) {
        const tv_bias_change *c = &list->changes.data[i];
        graph->nodes.data[c->node].inputs[2] = corrected ? c->after : c->before;
    }
}

void tv_bias_list_fini(tv_bias_list *list) { TV_VEC_FINI(&list->changes); }
