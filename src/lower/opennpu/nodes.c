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

static const node_emitter emitters[TV_OPS] = {
    [TV_OP_GATHER] = {opennpu_lower_token_gather, opennpu_lower_batch_gather},
    [TV_OP_NORM] = {opennpu_lower_token_norm, opennpu_lower_batch_norm},
    [TV_OP_LINEAR] = {opennpu_lower_token_linear, opennpu_lower_batch_linear},
    [TV_OP_GLU] = {opennpu_lower_token_glu, opennpu_lower_batch_glu},
    [TV_OP_ADD] = {opennpu_lower_token_binary, opennpu_lower_batch_binary},
    [TV_OP_MUL] = {opennpu_lower_token_binary, opennpu_lower_batch_binary},
    [TV_OP_ROTARY_EMBEDDING] = {emit_nothing_for_token, emit_nothing_for_batch},
    [TV_OP_ATTENTION] = {opennpu_lower_token_attention, opennpu_lower_batch_attention},
};

tv_status opennpu_lower_check_operators(const tv_graph *graph, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (!emitters[graph->nodes.data[i].op].token)
            return tv_backend_reject(graph, &graph->nodes.data[i], "opennpu", "such instructions", sink);
    return TV_OK;
}

void opennpu_lower_emit_token(opennpu_lower_token *tok, bool logits)
{
    const tv_graph *g = tok->m->graph;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        opennpu_lower_label_block(tok->e, n->block);
        if (logits || n->block != TV_BLOCK_OUTPUT)
            emitters[n->op].token(tok, n);
    }
}

void opennpu_lower_emit_batch(opennpu_lower_batch *b)
{
    const tv_graph *g = b->m->graph;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        opennpu_lower_label_block(b->e, n->block);
        if (b->first_logits_row < b->rows || n->block != TV_BLOCK_OUTPUT)
            emitters[n->op].batch(b, n);
    }
}
