/* SPDX-License-Identifier: Apache-2.0 */
/* Building, checking and printing graphs. */
#include "graph/graph.h"

#include <inttypes.h>
#include <stdlib.h>

const char *const tv_graph_op_names[TV_OPS] = {"embed",   "rmsnorm", "matmul", "rope", "append", "scores",
                                               "softmax", "mix",     "add",    "mul",  "silu"};

/* ---- Building ---- */

enum { NODES_PER_LAYER = 19, NODES_BESIDE = 4 };

typedef struct builder {
    tv_graph *graph;
    uint32_t layer;
} builder;

static uint32_t value(builder *b, const char *name, uint32_t columns)
{
    tv_graph *g = b->graph;
    g->values[g->value_count] = (tv_graph_value){name, columns, b->layer};
    return g->value_count++;
}

/* Appends a node and returns its output. */
static uint32_t node(builder *b, tv_graph_op op, const char *name, uint32_t columns, uint32_t first, uint32_t second,
                     tv_weight weight, uint32_t heads)
{
    tv_graph *g = b->graph;
    assert(g->node_count < g->shape->layers * NODES_PER_LAYER + NODES_BESIDE);
    uint32_t output = name ? value(b, name, columns) : TV_NO_VALUE;
    g->nodes[g->node_count++] = (tv_graph_node){
        .op = op, .layer = b->layer, .inputs = {first, second}, .output = output, .weight = weight, .heads = heads};
    return output;
}

static uint32_t matmul(builder *b, const char *name, uint32_t columns, uint32_t input, tv_weight weight)
{
    return node(b, TV_OP_MATMUL, name, columns, input, TV_NO_VALUE, weight, 0);
}

static uint32_t norm(builder *b, const char *name, uint32_t input, tv_weight weight)
{
    return node(b, TV_OP_RMSNORM, name, b->graph->shape->dim, input, TV_NO_VALUE, weight, 0);
}

static uint32_t attention(builder *b, uint32_t x)
{
    const tv_model_dims *s = b->graph->shape;
    uint32_t wide = s->heads * s->head_dim, narrow = s->kv_heads * s->head_dim;
    uint32_t xn = norm(b, "xn", x, TV_WEIGHT_NORM_ATTENTION);
    uint32_t q = matmul(b, "q", wide, xn, TV_WEIGHT_Q), k = matmul(b, "k", narrow, xn, TV_WEIGHT_K),
             v = matmul(b, "v", narrow, xn, TV_WEIGHT_V);
    uint32_t qr = node(b, TV_OP_ROPE, "qr", wide, q, TV_NO_VALUE, 0, s->heads),
             kr = node(b, TV_OP_ROPE, "kr", narrow, k, TV_NO_VALUE, 0, s->kv_heads);
    node(b, TV_OP_APPEND, NULL, 0, kr, v, 0, s->kv_heads);
    uint32_t scores = node(b, TV_OP_SCORES, "scores", 0, qr, TV_NO_VALUE, 0, s->heads);
    uint32_t shares = node(b, TV_OP_SOFTMAX, "shares", 0, scores, TV_NO_VALUE, 0, s->heads);
    uint32_t mixed = node(b, TV_OP_WEIGHTED_SUM, "mixed", wide, shares, TV_NO_VALUE, 0, s->heads);
    uint32_t o = matmul(b, "o", s->dim, mixed, TV_WEIGHT_O);
    return node(b, TV_OP_ADD, "xa", s->dim, x, o, 0, 0);
}

static uint32_t feed_forward(builder *b, uint32_t x)
{
    const tv_model_dims *s = b->graph->shape;
    uint32_t hn = norm(b, "hn", x, TV_WEIGHT_NORM_FFN);
    uint32_t gate = matmul(b, "gate", s->hidden, hn, TV_WEIGHT_GATE), up = matmul(b, "up", s->hidden, hn, TV_WEIGHT_UP);
    uint32_t act = node(b, TV_OP_SILU, "act", s->hidden, gate, TV_NO_VALUE, 0, 0),
             h = node(b, TV_OP_MUL, "h", s->hidden, act, up, 0, 0);
    uint32_t down = matmul(b, "down", s->dim, h, TV_WEIGHT_DOWN);
    return node(b, TV_OP_ADD, "xf", s->dim, x, down, 0, 0);
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
    size_t most = (size_t)model->shape.layers * NODES_PER_LAYER + NODES_BESIDE;
    if (g) {
        g->shape = &model->shape;
        g->values = calloc(most, sizeof *g->values);
        g->nodes = calloc(most, sizeof *g->nodes);
    }
    if (!g || !g->values || !g->nodes) {
        tv_graph_free(g);
        return tv_fail_memory(sink);
    }
    builder b = {g, 0};
    uint32_t x = node(&b, TV_OP_EMBED, "x", model->shape.dim, TV_NO_VALUE, TV_NO_VALUE, TV_WEIGHT_EMBEDDING, 0);
    for (b.layer = 0; b.layer < model->shape.layers; b.layer++)
        x = feed_forward(&b, attention(&b, x));
    b.layer = 0;
    x = norm(&b, "xl", x, TV_WEIGHT_NORM_FINAL);
    g->logits = matmul(&b, "logits", model->shape.vocab, x, TV_WEIGHT_CLASSIFIER);
    tv_buf text = {0};
    bool right = tv_graph_verify(g, model, &text);
    tv_buf_fini(&text);
    assert(right && "the builder makes graphs that hold");
    (void)right;
    *out = g;
    return TV_OK;
}

/* ---- Checking ---- */

typedef struct verifier {
    const tv_graph *graph;
    const tv_model *model;
    tv_buf *text;
    bool *written;
} verifier;

static bool wrong(verifier *v, uint32_t n, const char *what)
{
    tv_buf_printf(v->text, "node %" PRIu32 " (%s): %s", n, tv_graph_op_names[v->graph->nodes[n].op], what);
    return false;
}

static uint32_t columns_of(const tv_graph *g, uint32_t value)
{
    return value == TV_NO_VALUE ? 0 : g->values[value].columns;
}

static bool shapes_fit(const verifier *v, const tv_graph_node *n)
{
    const tv_graph *g = v->graph;
    const tv_model_dims *s = g->shape;
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

static unsigned inputs_of(tv_graph_op op)
{
    return op == TV_OP_EMBED ? 0 : op == TV_OP_APPEND || op == TV_OP_ADD || op == TV_OP_MUL ? 2 : 1;
}

static bool verify_node(verifier *v, uint32_t i)
{
    const tv_graph *g = v->graph;
    const tv_graph_node *n = &g->nodes[i];
    for (unsigned k = 0; k < TV_GRAPH_INPUTS; k++) {
        if ((n->inputs[k] != TV_NO_VALUE) != (k < inputs_of(n->op)))
            return wrong(v, i, "it has another number of inputs");
        if (n->inputs[k] != TV_NO_VALUE && (n->inputs[k] >= g->value_count || !v->written[n->inputs[k]]))
            return wrong(v, i, "it reads what has not been written");
    }
    if ((n->output == TV_NO_VALUE) != (n->op == TV_OP_APPEND))
        return wrong(v, i, "its output is missing, or it has none");
    if (n->output != TV_NO_VALUE && (n->output >= g->value_count || v->written[n->output]))
        return wrong(v, i, "it writes what has been written");
    if (n->layer >= g->shape->layers)
        return wrong(v, i, "there is no such layer");
    if (!shapes_fit(v, n))
        return wrong(v, i, "its shapes do not fit");
    if (n->output != TV_NO_VALUE)
        v->written[n->output] = true;
    return true;
}

bool tv_graph_verify(const tv_graph *graph, const tv_model *model, tv_buf *text)
{
    verifier v = {graph, model, text, calloc(graph->value_count + 1, sizeof(bool))};
    bool right = v.written != NULL;
    for (uint32_t i = 0; right && i < graph->node_count; i++)
        right = verify_node(&v, i);
    if (right && (graph->logits >= graph->value_count || !v.written[graph->logits])) {
        tv_buf_str(text, "nothing computes the logits");
        right = false;
    }
    free(v.written);
    return right;
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
        snprintf(text, TV_BLOCK_NAME_MAX, "blk.%u", node->layer % 1000000u); /* there are not so many */
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
