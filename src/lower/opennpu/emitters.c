/* SPDX-License-Identifier: Apache-2.0 */
/* The table from operators to their emitters: for one token, and for a batch of tokens. */
#include "lower/opennpu/nodes.h"

typedef struct node_emitter {
    void (*token)(opennpu_lower_token *tok, const tv_graph_node *n);
    void (*batch)(opennpu_lower_batch *b, const tv_graph_node *n);
} node_emitter;

/* Rotations happen where queries and keys are used. */
static void emit_nothing_for_token(opennpu_lower_token *tok, const tv_graph_node *n)
{
    (void)tok;
    (void)n;
}

static void emit_nothing_for_batch(opennpu_lower_batch *b, const tv_graph_node *n)
{
    (void)b;
    (void)n;
}

#define ELEMENTWISE                                                                                                    \
    {                                                                                                                  \
        opennpu_lower_token_elementwise, opennpu_lower_batch_elementwise                                               \
    }
#define SELECTION                                                                                                      \
    {                                                                                                                  \
        opennpu_lower_token_select, opennpu_lower_batch_select                                                         \
    }
#define REDUCTION                                                                                                      \
    {                                                                                                                  \
        opennpu_lower_token_reduce, opennpu_lower_batch_reduce                                                         \
    }

static const node_emitter emitters[TV_OPS] = {
    [TV_OP_GATHER] = {opennpu_lower_token_gather, opennpu_lower_batch_gather},
    [TV_OP_RESHAPE] = SELECTION,
    [TV_OP_SLICE] = SELECTION,
    [TV_OP_CONCAT] = SELECTION,
    [TV_OP_TRANSPOSE] = SELECTION,
    [TV_OP_MATMUL] = {opennpu_lower_token_matmul, opennpu_lower_batch_matmul},
    [TV_OP_ADD] = ELEMENTWISE,
    [TV_OP_SUB] = ELEMENTWISE,
    [TV_OP_MUL] = ELEMENTWISE,
    [TV_OP_DIV] = ELEMENTWISE,
    [TV_OP_RELU] = ELEMENTWISE,
    [TV_OP_SIGMOID] = ELEMENTWISE,
    [TV_OP_TANH] = ELEMENTWISE,
    [TV_OP_SWISH] = ELEMENTWISE,
    [TV_OP_GELU] = ELEMENTWISE,
    [TV_OP_EXP] = ELEMENTWISE,
    [TV_OP_SQRT] = ELEMENTWISE,
    [TV_OP_REDUCE_MEAN] = REDUCTION,
    [TV_OP_REDUCE_SUM] = REDUCTION,
    [TV_OP_SOFTMAX] = {opennpu_lower_token_softmax, opennpu_lower_batch_softmax},
    [TV_OP_ROTARY_EMBEDDING] = {emit_nothing_for_token, emit_nothing_for_batch},
    [TV_OP_ATTENTION] = {opennpu_lower_token_attention, opennpu_lower_batch_attention},
    [TV_OP_MOE] = {opennpu_lower_token_experts, opennpu_lower_batch_experts},
    [TV_OP_LINEAR] = {opennpu_lower_token_linear, opennpu_lower_batch_linear},
    [TV_OP_GLU] = {opennpu_lower_token_glu, opennpu_lower_batch_glu},
    [TV_OP_NORM] = {opennpu_lower_token_norm, opennpu_lower_batch_norm},
};

bool opennpu_lower_has_operator(tv_graph_op op) { return emitters[op].token != NULL; }

/* Whether the instructions of a node are the same for each token. */
static bool is_repeated(const opennpu_lower_node *own, const tv_graph_node *n)
{
    return !own->on_host && n->op != TV_OP_GATHER && n->op != TV_OP_ATTENTION && n->op != TV_OP_MOE;
}

static void emit_node(opennpu_lower_token *tok, opennpu_lower_node *own, const tv_graph_node *n)
{
    if (!is_repeated(own, n)) {
        (own->on_host ? opennpu_lower_token_host : emitters[n->op].token)(tok, n);
    } else if (!opennpu_lower_repeat(tok->e, &own->fragment)) {
        opennpu_lower_begin_fragment(tok->e, &own->fragment);
        emitters[n->op].token(tok, n);
        opennpu_lower_end_fragment(tok->e, &own->fragment);
    }
}

void opennpu_lower_emit_token(opennpu_lower_token *tok, bool logits)
{
    const tv_graph *g = tok->m->graph;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        opennpu_lower_label_block(tok->e, n->block);
        if (tok->e->status != TV_OK)
            return;
        if (logits || n->block != TV_BLOCK_OUTPUT)
            emit_node(tok, &tok->m->nodes[i], n);
    }
}

void opennpu_lower_emit_batch(opennpu_lower_batch *b)
{
    const tv_graph *g = b->m->graph;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        opennpu_lower_label_block(b->e, n->block);
        if (b->e->status != TV_OK)
            return;
        if (b->first_logits_row < b->rows || n->block != TV_BLOCK_OUTPUT)
            (b->m->nodes[i].on_host ? opennpu_lower_batch_host : emitters[n->op].batch)(b, n);
    }
}
