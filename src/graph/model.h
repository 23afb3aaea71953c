/* SPDX-License-Identifier: Apache-2.0 */
/* A language model as read by an importer: its graph, and what people want to know about it. */
#ifndef TV_GRAPH_MODEL_H
#define TV_GRAPH_MODEL_H

#include "graph/graph.h"

typedef struct tv_model_dims {
    uint32_t dim, hidden, layers, heads, kv_heads, head_dim, vocab, context;
    uint32_t experts, experts_used; /* 0: no mixture of experts */
} tv_model_dims;

typedef struct tv_model {
    struct tv_gguf *gguf; /* the importer's file, owned; NULL: dimensions only, for timing */
    void (*close)(struct tv_gguf *gguf);
    const char *family;  /* "llama"; static */
    tv_model_dims dims;  /* of the first layer where layers differ */
    uint32_t positions;  /* that sessions have at most; not above dims.context */
    uint64_t parameters; /* weights, biases and gains */
    tv_graph *graph;     /* fused; owned */
} tv_model;

void tv_model_free(tv_model *model);

#endif
