/* SPDX-License-Identifier: Apache-2.0 */
/* A language model of the llama architecture: dimensions and weight matrices, as read by an importer. */
#ifndef TV_GRAPH_MODEL_H
#define TV_GRAPH_MODEL_H

#include "base/diag.h"

typedef struct tv_model_dims {
    uint32_t dim, hidden, layers, heads, kv_heads, head_dim, vocab, context;
    float eps, theta;
    bool tied; /* the classifier shares the embedding matrix */
} tv_model_dims;

typedef enum tv_weight {
    TV_WEIGHT_EMBEDDING,      /* [vocab][dim] */
    TV_WEIGHT_NORM_ATTENTION, /* [dim], per layer, as are those up to DOWN */
    TV_WEIGHT_Q,              /* [heads * head_dim][dim] */
    TV_WEIGHT_K,              /* [kv_heads * head_dim][dim] */
    TV_WEIGHT_V,
    TV_WEIGHT_O, /* [dim][heads * head_dim] */
    TV_WEIGHT_NORM_FFN,
    TV_WEIGHT_GATE, /* [hidden][dim] */
    TV_WEIGHT_UP,
    TV_WEIGHT_DOWN,       /* [dim][hidden] */
    TV_WEIGHT_NORM_FINAL, /* [dim], once */
    TV_WEIGHT_CLASSIFIER, /* [vocab][dim] */
    TV_WEIGHTS
} tv_weight;

/* Norm gains are vectors; all other weights are matrices, even with a single row. */
static inline bool tv_weight_is_norm(tv_weight weight)
{
    return weight == TV_WEIGHT_NORM_ATTENTION || weight == TV_WEIGHT_NORM_FFN || weight == TV_WEIGHT_NORM_FINAL;
}

/* True when every layer has its own; false when the model has one. */
bool tv_weight_in_layer(tv_weight weight);

/* A weight matrix of the file, [rows][columns]. */
typedef struct tv_matrix {
    const struct tv_gguf_tensor *tensor; /* the importer's tensor; NULL: dimensions only */
    tv_status (*read_row)(const struct tv_gguf_tensor *tensor, uint64_t row, float *out); /* decodes one row */
    uint32_t rows, columns; /* 0: the model has no such matrix */
} tv_matrix;

typedef struct tv_model {
    struct tv_gguf *gguf; /* the importer's file, owned; NULL: dimensions only, for timing */
    void (*close)(struct tv_gguf *gguf);
    tv_model_dims dims;
    tv_matrix *matrices; /* [layers][TV_WEIGHTS]; weights outside layers are in layer 0 */
} tv_model;

void tv_model_free(tv_model *model);

static inline const tv_matrix *tv_model_matrix(const tv_model *model, tv_weight weight, uint32_t layer)
{
    return &model->matrices[(size_t)layer * TV_WEIGHTS + weight];
}

/* Decodes row `row` to out[matrix->columns]. The matrix must have a tensor. TV_ERR_INPUT: a value of the row is not
 * finite, and `out` is undefined. Reports nothing, so that threads can call it; tv_model_fail_matrix does. */
tv_status tv_matrix_row_f32(const tv_matrix *matrix, uint64_t row, float *out);

/* Reports why rows of a matrix of the model could not be converted: its first row with a value that is not finite
 * (TV_ERR_INPUT, TV-L014), or if there is none, lack of memory (TV_ERR_MEMORY). Reads the whole matrix. */
tv_status tv_model_fail_matrix(const tv_model *model, const tv_matrix *matrix, const tv_diag_sink *sink);

/* "blk.3.ffn_up": the name in model files, for messages and file names. */
void tv_model_matrix_name(tv_weight weight, uint32_t layer, char text[64]);

#endif
