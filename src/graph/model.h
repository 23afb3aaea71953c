/* SPDX-License-Identifier: Apache-2.0 */
/* A language model of the llama architecture, as its file has it: sizes and matrices. */
#ifndef TV_GRAPH_MODEL_H
#define TV_GRAPH_MODEL_H

#include "import/gguf.h"

typedef struct tv_model_shape {
    uint32_t dim, hidden, layers, heads, kv_heads, head_dim, vocab, context;
    float eps, theta;
    bool tied; /* the classifier is the embedding */
} tv_model_shape;

typedef enum tv_weight {
    TV_WEIGHT_EMBEDDING,   /* vocab x dim */
    TV_WEIGHT_NORM_ATTENTION, /* dim; of each layer, as those that follow */
    TV_WEIGHT_Q,           /* heads * head_dim x dim */
    TV_WEIGHT_K,           /* kv_heads * head_dim x dim */
    TV_WEIGHT_V,
    TV_WEIGHT_O,           /* dim x heads * head_dim */
    TV_WEIGHT_NORM_FFN,
    TV_WEIGHT_GATE,        /* hidden x dim */
    TV_WEIGHT_UP,
    TV_WEIGHT_DOWN,        /* dim x hidden */
    TV_WEIGHT_NORM_FINAL,  /* dim; of the model */
    TV_WEIGHT_CLASSIFIER,  /* vocab x dim */
    TV_WEIGHTS
} tv_weight;

/* A vector of gains; the others are matrices, also where they have one row. */
static inline bool tv_weight_is_norm(tv_weight weight)
{
    return weight == TV_WEIGHT_NORM_ATTENTION || weight == TV_WEIGHT_NORM_FFN || weight == TV_WEIGHT_NORM_FINAL;
}

/* A matrix of the file: `rows` rows of `columns`. */
typedef struct tv_matrix {
    const tv_gguf_tensor *tensor; /* NULL: the model is sizes alone */
    uint32_t rows, columns;       /* 0: the model has no such matrix */
} tv_matrix;

typedef struct tv_model {
    tv_gguf *gguf; /* owned; NULL: sizes alone, for timing */
    tv_model_shape shape;
    tv_matrix *matrices; /* TV_WEIGHTS for each layer; those of the model in layer 0 */
} tv_model;

/* Opens a GGUF file and checks that it holds a llama model with all its matrices in the right sizes and readable types; or a
 * JSON object of sizes as models are published with (hidden_size, num_hidden_layers, …), whose matrices have no tensors. */
tv_status tv_model_open(const char *path, const tv_diag_sink *sink, tv_model **out);
void tv_model_free(tv_model *model);

static inline const tv_matrix *tv_model_matrix(const tv_model *model, tv_weight weight, uint32_t layer)
{
    return &model->matrices[(size_t)layer * TV_WEIGHTS + weight];
}

/* "blk.3.ffn_up": for messages and for the files of a lowering. */
void tv_model_matrix_name(tv_weight weight, uint32_t layer, char text[64]);

#endif
