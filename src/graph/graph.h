/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor graph of a transformer: operations on named values, in topological order. Every lowering and the host
 * reference start from it. A value has one row per token; extents that depend on the number of tokens or positions are
 * symbolic. */
#ifndef TV_GRAPH_GRAPH_H
#define TV_GRAPH_GRAPH_H

#include "base/buf.h"
#include "graph/model.h"

typedef enum tv_graph_op {
    TV_OP_EMBED,        /* rows of the embedding matrix, selected by token */
    TV_OP_RMSNORM,      /* input, gains */
    TV_OP_MATMUL,       /* y[n][rows] = x[n][columns] * W[rows][columns]^T */
    TV_OP_ROPE,         /* rotates pairs of elements of each head by the token's position */
    TV_OP_APPEND,       /* appends keys and values of the tokens to the layer's cache; no output */
    TV_OP_SCORES,       /* q . K^T / sqrt(head_dim) of each head with the cached keys */
    TV_OP_SOFTMAX,      /* over positions up to the token's own (causal) */
    TV_OP_WEIGHTED_SUM, /* probs * V of each head with the cached values */
    TV_OP_ADD,
    TV_OP_MUL,
    TV_OP_SILU,
    TV_OPS
} tv_graph_op;

enum { TV_GRAPH_INPUTS = 2 };

#define TV_NO_VALUE UINT32_MAX /* no value: an unused input or output */

typedef struct tv_graph_value {
    const char *name; /* for example "q"; unique within the layer */
    uint32_t columns; /* 0: heads * number of positions */
    uint32_t layer;
} tv_graph_value;

typedef struct tv_graph_node {
    tv_graph_op op;
    uint32_t layer;
    uint32_t inputs[TV_GRAPH_INPUTS]; /* values, or TV_NO_VALUE */
    uint32_t output;
    tv_weight weight; /* of EMBED, RMSNORM, MATMUL */
    uint32_t heads;   /* of ROPE, APPEND, SCORES, SOFTMAX, WEIGHTED_SUM */
} tv_graph_node;

typedef struct tv_graph {
    const tv_model_dims *dims;
    tv_graph_value *values;
    uint32_t value_count;
    tv_graph_node *nodes;
    uint32_t node_count;
    uint32_t logits; /* the value of the last node */
} tv_graph;

extern const char *const tv_graph_op_names[TV_OPS];

/* Builds and verifies the graph of a model, which must outlive it. The caller frees it with tv_graph_free. */
tv_status tv_graph_new(const tv_model *model, const tv_diag_sink *sink, tv_graph **out);
void tv_graph_free(tv_graph *graph);

/* The block of the model that a node belongs to, named as in model files: "token_embd", "blk.3", "output". Lowerings
 * label their instructions with it for traces. */
enum { TV_BLOCK_NAME_MAX = 16 };
void tv_graph_block_name(const tv_graph *graph, const tv_graph_node *node, char text[TV_BLOCK_NAME_MAX]);

/* Checks that every value is written exactly once and before it is read, that each operation has the right number of
 * inputs, and that their columns match the model's dimensions. TV_ERR_INPUT with TV-L043: a node is invalid. */
tv_status tv_graph_verify(const tv_graph *graph, const tv_model *model, const tv_diag_sink *sink);

/* Appends one line per node: "%3.q = matmul(%3.xn, blk.3.attn_q)  [n x 128]". */
void tv_graph_print(const tv_graph *graph, tv_buf *out);

#endif
