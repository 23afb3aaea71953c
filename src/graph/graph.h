/* SPDX-License-Identifier: Apache-2.0 */
/* What a model computes for some tokens, as operations on named values: every lowering and the host's executor start
 * from this. A value has a row for each token; what depends on the number of tokens or of positions is symbolic. */
#ifndef TV_GRAPH_GRAPH_H
#define TV_GRAPH_GRAPH_H

#include "base/buf.h"
#include "graph/model.h"

typedef enum tv_graph_op {
    TV_OP_EMBED,        /* rows of the embedding, by token */
    TV_OP_RMSNORM,      /* input, weight: gains */
    TV_OP_MATMUL,       /* input times weight's rows */
    TV_OP_ROPE,         /* turns pairs of each head by the token's position */
    TV_OP_APPEND,       /* puts keys and values of the tokens into the layer's cache; no output */
    TV_OP_SCORES,       /* each head's query times the cached keys / sqrt(head_dim) */
    TV_OP_SOFTMAX,      /* over the positions up to the token's own */
    TV_OP_WEIGHTED_SUM, /* the cached values, weighted */
    TV_OP_ADD,
    TV_OP_MUL,
    TV_OP_SILU,
    TV_OPS
} tv_graph_op;

enum { TV_GRAPH_INPUTS = 2 };

#define TV_NO_VALUE UINT32_MAX /* instead of a value */

typedef struct tv_graph_value {
    const char *name; /* "q"; with the layer of its node it is unique */
    uint32_t columns; /* 0: heads times the number of positions */
    uint32_t layer;
} tv_graph_value;

typedef struct tv_graph_node {
    tv_graph_op op;
    uint32_t layer;
    uint32_t inputs[TV_GRAPH_INPUTS]; /* values, or TV_NO_VALUE */
    uint32_t output;
    tv_weight weight; /* RMSNORM, MATMUL, EMBED */
    uint32_t heads;   /* ROPE, SCORES, SOFTMAX, MIX */
} tv_graph_node;

typedef struct tv_graph {
    const tv_model_dims *shape;
    tv_graph_value *values;
    uint32_t value_count;
    tv_graph_node *nodes;
    uint32_t node_count;
    uint32_t logits; /* the last value */
} tv_graph;

extern const char *const tv_graph_op_names[TV_OPS];

/* The graph of a model; `model` outlives it. It has been verified. */
tv_status tv_graph_new(const tv_model *model, const tv_diag_sink *sink, tv_graph **out);
void tv_graph_free(tv_graph *graph);

/* The part of the model that a node belongs to, by the names of model files: "token_embd", "blk.3", "output". What the
 * programs of a lowering call their instructions, for traces. */
enum { TV_BLOCK_NAME_MAX = 16 };
void tv_graph_block_name(const tv_graph *graph, const tv_graph_node *node, char text[TV_BLOCK_NAME_MAX]);

/* Every value is written once, before it is read, with columns that fit the operation. False: *text says what is wrong.
 */
bool tv_graph_verify(const tv_graph *graph, const tv_model *model, tv_buf *text);

/* One line for each node: "%3.q = matmul(%3.xn, blk.3.attn_q)  [n x 128]". */
void tv_graph_print(const tv_graph *graph, tv_buf *out);

#endif
