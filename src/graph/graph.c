/* SPDX-License-Identifier: Apache-2.0 */
/* Builds, verifies and prints graphs. */
#include "graph/graph.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "graph/codes.h"

const char *const tv_graph_op_names[TV_OPS] = {
    [TV_OP_EMBED] = "embed",     [TV_OP_RMSNORM] = "rmsnorm",
    [TV_OP_MATMUL] = "matmul",   [TV_OP_ROPE] = "rope",
    [TV_OP_APPEND] = "append",   [TV_OP_SCORES] = "scores",
    [TV_OP_SOFTMAX] = "softmax", [TV_OP_WEIGHTED_SUM] = "weighted_sum",
    [TV_OP_ADD] = "add",         [TV_OP_MUL] = "mul",
    [TV_OP_SILU] = "silu",
};

/* ---- Building ---- */

enum { NODES_PER_LAYER = 19, NODES_OUTSIDE_LAYERS = 4 };

typedef struct builder {
    tv_graph *graph;
    uint32_t layer;
} builder;

/* Nodes of the graph, and at least as many as its values. */
static size_t node_capacity(const tv_model_dims *dims)
{
    return (size_t)dims->layers * NODES_PER_LAYER + NODES_OUTSIDE_LAYERS;
}

static uint32_t add_value(builder *b, const char *name, uint32_t columns)
{
    tv_graph *g = b->graph;
    g->values[g->value_count] = (tv_graph_value){name, columns, b->layer};
    return g->value_count++;
}

/* Appends a node and returns its output. */
static uint32_t add_node(builder *b, tv_graph_op op, const char *name, uint32_t columns, uint32_t first,
                         uint32_t second, tv_weight weight, uint32_t heads)
{
    tv_graph *g = b->graph;
    assert(g->node_count < node_capacity(g->dims));
    uint32_t output = name ? add_value(b, name, columns) : TV_NO_VALUE;
    g->nodes[g->node_count++] = (tv_graph_node){
        .op = op, .layer = b->layer, .inputs = {first, second}, .output = output, .weight = weight, .heads = heads};
    return output;
}

static uint32_t add_matmul(builder *b, const char *name, uint32_t columns, uint32_t input, tv_weight weight)
{
    return add_node(b, TV_OP_MATMUL, name, columns, input, TV_NO_VALUE, weight, 0);
}

static uint32_t add_norm(builder *b, const char *name, uint32_t input, tv_weight weight)
{
    return add_node(b, TV_OP_RMSNORM, name, b->graph->dims->dim, input, TV_NO_VALUE, weight, 0);
}

static uint32_t add_attention(builder *b, uint32_t x)
{
    const tv_model_dims *s = b->graph->dims;
    uint32_t q_columns = s->heads * s->head_dim, kv_columns = s->kv_heads * s->head_dim;
    uint32_t xn = add_norm(b, "xn", x, TV_WEIGHT_NORM_ATTENTION);
    uint32_t q = add_matmul(b, "q", q_columns, xn, TV_WEIGHT_Q), k = add_matmul(b, "k", kv_columns, xn, TV_WEIGHT_K),
             v = add_matmul(b, "v", kv_columns, xn, TV_WEIGHT_V);
    uint32_t qr = add_node(b, TV_OP_ROPE, "qr", q_columns, q, TV_NO_VALUE, 0, s->heads),
             kr = add_node(b, TV_OP_ROPE, "kr", kv_columns, k, TV_NO_VALUE, 0, s->kv_heads);
    add_node(b, TV_OP_APPEND, NULL, 0, kr, v, 0, s->kv_heads);
    uint32_t scores = add_node(b, TV_OP_SCORES, "scores", 0, qr, TV_NO_VALUE, 0, s->heads);
    uint32_t probs = add_node(b, TV_OP_SOFTMAX, "probs", 0, scores, TV_NO_VALUE, 0, s->heads);
    uint32_t attn_out = add_node(b, TV_OP_WEIGHTED_SUM, "attn_out", q_columns, probs, TV_NO_VALUE, 0, s->heads);
    uint32_t o = add_matmul(b, "o", s->dim, attn_out, TV_WEIGHT_O);
    return add_node(b, TV_OP_ADD, "xa", s->dim, x, o, 0, 0);
}

static uint32_t add_feed_forward(builder *b, uint32_t x)
{
    const tv_model_dims *s = b->graph->dims;
    uint32_t hn = add_norm(b, "hn", x, TV_WEIGHT_NORM_FFN);
    uint32_t gate = add_matmul(b, "gate", s->hidden, hn, TV_WEIGHT_GATE),
             up = add_matmul(b, "up", s->hidden, hn, TV_WEIGHT_UP);
    uint32_t act = add_node(b, TV_OP_SILU, "act", s->hidden, gate, TV_NO_VALUE, 0, 0),
             h = add_node(b, TV_OP_MUL, "h", s->hidden, act, up, 0, 0);
    uint32_t down = add_matmul(b, "down", s->dim, h, TV_WEIGHT_DOWN);
    return add_node(b, TV_OP_ADD, "xf", s->dim, x, down, 0, 0);
}

void tv_graph_free(tv_graph *graph)
{
    if (!graph)
        return;
    free(graph->values);
    free(graph->nodes);
    free(graph);
}

tv_status tv_graph_new(const tv_model *model, const tv_diag_sink *sink, tv_graph **out)
{
    tv_graph *g = calloc(1, sizeof *g);
    size_t capacity = node_capacity(&model->dims);
    if (g) {
        g->dims = &model->dims;
        g->values = calloc(capacity, sizeof *g->values);
        g->nodes = calloc(capacity, sizeof *g->nodes);
    }
    if (!g || !g->values || !g->nodes) {
        tv_graph_free(g);
        return tv_fail_memory(sink);
    }
    builder b = {g, 0};
    uint32_t x = add_node(&b, TV_OP_EMBED, "x", model->dims.dim, TV_NO_VALUE, TV_NO_VALUE, TV_WEIGHT_EMBEDDING, 0);
    for (b.layer = 0; b.layer < model->dims.layers; b.layer++)
        x = add_feed_forward(&b, add_attention(&b, x));
    b.layer = 0;
    x = add_norm(&b, "xl", x, TV_WEIGHT_NORM_FINAL);
    g->logits = add_matmul(&b, "logits", model->dims.vocab, x, TV_WEIGHT_CLASSIFIER);
    tv_status status = tv_graph_verify(g, model, sink);
    if (status != TV_OK) {
        tv_graph_free(g);
        return status;
    }
    *out = g;
    return TV_OK;
}

/* ---- Verification ---- */

typedef struct verifier {
    const tv_graph *graph;
    const tv_model *model;
    const tv_diag_sink *sink;
    bool *written; /* of each value */
} verifier;

static tv_status reject_node(const verifier *v, uint32_t n, const char *problem)
{
    tv_graph_op op = v->graph->nodes[n].op;
    return tv_fail(v->sink, TV_ERR_INPUT, TV_LLM_CODE(GRAPH), NULL, "node %" PRIu32 " (%s): %s", n,
                   op < TV_OPS ? tv_graph_op_names[op] : "?", problem);
}

static uint32_t columns_of(const tv_graph *g, uint32_t value)
{
    return value == TV_NO_VALUE ? 0 : g->values[value].columns;
}

static bool dims_match(const verifier *v, const tv_graph_node *n)
{
    const tv_graph *g = v->graph;
    const tv_model_dims *s = g->dims;
    const tv_matrix *w = tv_model_matrix(v->model, n->weight, n->layer);
    uint32_t a = columns_of(g, n->inputs[0]), b = columns_of(g, n->inputs[1]), out = columns_of(g, n->output);
    switch (n->op) {
    case TV_OP_EMBED:
        return out == w->columns;
    case TV_OP_RMSNORM:
        return out == a && w->columns == a && w->rows == 1;
    case TV_OP_MATMUL:
        return w->columns == a && w->rows == out;
    case TV_OP_ROPE:
        return out == a && a == n->heads * s->head_dim && s->head_dim % 2 == 0;
    case TV_OP_APPEND:
        return a == b && a == s->kv_heads * s->head_dim;
    case TV_OP_SCORES:
        return a == n->heads * s->head_dim && out == 0 && s->heads % s->kv_heads == 0;
    case TV_OP_SOFTMAX:
        return a == 0 && out == 0;
    case TV_OP_WEIGHTED_SUM:
        return a == 0 && out == n->heads * s->head_dim;
    case TV_OP_ADD:
    case TV_OP_MUL:
        return a == b && out == a;
    case TV_OP_SILU:
        return out == a;
    case TV_OPS:
        break;
    }
    return false;
}

static unsigned input_count(tv_graph_op op)
{
    return op == TV_OP_EMBED ? 0 : op == TV_OP_APPEND || op == TV_OP_ADD || op == TV_OP_MUL ? 2 : 1;
}

static tv_status verify_node(verifier *v, uint32_t i)
{
    const tv_graph *g = v->graph;
    const tv_graph_node *n = &g->nodes[i];
    if (n->op >= TV_OPS || n->weight >= TV_WEIGHTS)
        return reject_node(v, i, "unknown operation or weight");
    for (unsigned k = 0; k < TV_GRAPH_INPUTS; k++) {
        if ((n->inputs[k] != TV_NO_VALUE) != (k < input_count(n->op)))
            return reject_node(v, i, "wrong number of inputs");
        if (n->inputs[k] != TV_NO_VALUE && (n->inputs[k] >= g->value_count || !v->written[n->inputs[k]]))
            return reject_node(v, i, "an input is read before it is written");
    }
    if ((n->output == TV_NO_VALUE) != (n->op == TV_OP_APPEND))
        return reject_node(v, i, "the output is missing or unexpected");
    if (n->output != TV_NO_VALUE && (n->output >= g->value_count || v->written[n->output]))
        return reject_node(v, i, "the output is written twice");
    if (n->layer >= g->dims->layers)
        return reject_node(v, i, "no such layer");
    if (!dims_match(v, n))
        return reject_node(v, i, "the dimensions do not match");
    if (n->output != TV_NO_VALUE)
        v->written[n->output] = true;
    return TV_OK;
}

tv_status tv_graph_verify(const tv_graph *graph, const tv_model *model, const tv_diag_sink *sink)
{
    verifier v = {graph, model, sink, calloc(graph->value_count + 1, sizeof(bool))};
    tv_status status = v.written ? TV_OK : tv_fail_memory(sink);
    for (uint32_t i = 0; status == TV_OK && i < graph->node_count; i++)
        status = verify_node(&v, i);
    if (status == TV_OK && (graph->logits >= graph->value_count || !v.written[graph->logits]))
        status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(GRAPH), NULL, "no node computes the logits");
    free(v.written);
    return status;
}

/* ---- Printing ---- */

static void print_value(const tv_graph *g, uint32_t value, tv_buf *out)
{
    tv_buf_printf(out, "%%%" PRIu32 ".%s", g->values[value].layer, g->values[value].name);
}

void tv_graph_block_name(const tv_graph *graph, const tv_graph_node *node, char text[TV_BLOCK_NAME_MAX])
{
    if (node->op == TV_OP_EMBED)
        snprintf(text, TV_BLOCK_NAME_MAX, "token_embd");
    else if (node->weight == TV_WEIGHT_NORM_FINAL || node->output == graph->logits)
        snprintf(text, TV_BLOCK_NAME_MAX, "output");
    else
        snprintf(text, TV_BLOCK_NAME_MAX, "blk.%u",
                 node->layer % 1000000u); /* bounds the text; no model has as many layers */
}

void tv_graph_print(const tv_graph *graph, tv_buf *out)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const tv_graph_node *n = &graph->nodes[i];
        bool weighted = n->op == TV_OP_EMBED || n->op == TV_OP_RMSNORM || n->op == TV_OP_MATMUL;
        const char *separator = "";
        char name[64];
        if (n->output != TV_NO_VALUE) {
            print_value(graph, n->output, out);
            tv_buf_str(out, " = ");
        }
        tv_buf_printf(out, "%s(", tv_graph_op_names[n->op]);
        for (unsigned k = 0; k < TV_GRAPH_INPUTS && n->inputs[k] != TV_NO_VALUE; k++) {
            tv_buf_str(out, separator);
            print_value(graph, n->inputs[k], out);
            separator = ", ";
        }
        tv_model_matrix_name(n->weight, n->layer, name);
        if (weighted)
            tv_buf_printf(out, "%s%s", separator, name);
        tv_buf_str(out, ")");
        if (n->heads)
            tv_buf_printf(out, "  %" PRIu32 " heads", n->heads);
        if (n->output != TV_NO_VALUE && graph->values[n->output].columns)
            tv_buf_printf(out, "  [n x %" PRIu32 "]", graph->values[n->output].columns);
        else if (n->output != TV_NO_VALUE)
            tv_buf_str(out, "  [n x heads x positions]");
        tv_buf_str(out, "\n");
    }
}
