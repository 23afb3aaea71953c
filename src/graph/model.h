/* SPDX-License-Identifier: Apache-2.0 */
/* A language model of the llama architecture, as its file has it: sizes and matrices. */
#ifndef TV_GRAPH_MODEL_H
#define TV_GRAPH_MODEL_H

#include "base/diag.h"

typedef struct tv_model_dims {
    uint32_t dim, hidden, layers, heads, kv_heads, head_dim, vocab, context;
    float eps, theta;
    bool tied; /* the classifier is the embedding */
} tv_model_dims;

typedef enum tv_weight {
    TV_WEIGHT_EMBEDDING,      /* vocab x dim */
    TV_WEIGHT_NORM_ATTENTION, /* dim; of each layer, as those that follow */
    TV_WEIGHT_Q,              /* heads * head_dim x dim */
    TV_WEIGHT_K,              /* kv_heads * head_dim x dim */
    TV_WEIGHT_V,
    TV_WEIGHT_O, /* dim x heads * head_dim */
    TV_WEIGHT_NORM_FFN,
    TV_WEIGHT_GATE, /* hidden x dim */
    TV_WEIGHT_UP,
    TV_WEIGHT_DOWN,       /* dim x hidden */
    TV_WEIGHT_NORM_FINAL, /* dim; of the model */
    TV_WEIGHT_CLASSIFIER, /* vocab x dim */
    TV_WEIGHTS
} tv_weight;

/* A vector of gains; the others are matrices, also where they have one row. */
static inline bool tv_weight_is_norm(tv_weight weight)
{
    return weight == TV_WEIGHT_NORM_ATTENTION || weight == TV_WEIGHT_NORM_FFN || weight == TV_WEIGHT_NORM_FINAL;
}

/* Whether each layer has such a matrix, or the model has one. */
bool tv_weight_in_layer(tv_weight weight);

/* A matrix of the file: `rows` rows of `columns`. */
typedef struct tv_matrix {
    const struct tv_gguf_tensor *tensor; /* as the importer has it; NULL: the model is sizes alone */
    tv_status (*read_row)(const struct tv_gguf_tensor *tensor, uint64_t row, float *out); /* of tensor */
    uint32_t rows, columns; /* 0: the model has no such matrix */
} tv_matrix;

typedef struct tv_model {
    struct tv_gguf *gguf; /* the importer's file, owned; NULL: sizes alone, for timing */
    void (*close)(struct tv_gguf *gguf);
    tv_model_dims shape;
    tv_matrix *matrices; /* TV_WEIGHTS for each layer; those of the model in layer 0 */
} tv_model;

void tv_model_free(tv_model *model);

static inline const tv_matrix *tv_model_matrix(const tv_model *model, tv_weight weight, uint32_t layer)
{
    return &model->matrices[(size_t)layer * TV_WEIGHTS + weight];
}

/* Row `row` of a matrix that has a tensor, as matrix->columns floats. TV_ERR_INPUT: the tensor's type cannot be read.
 */
static inline tv_status tv_matrix_row_f32(const tv_matrix *matrix, uint64_t row, float *out)
{
    return matrix->read_row(matrix->tensor, row, out);
}

/* "blk.3.ffn_up": for messages and for the files of a lowering. */
void tv_model_matrix_name(tv_weight weight, uint32_t layer, char text[64]);

#endif
