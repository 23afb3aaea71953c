/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of test graphs, and an evaluation of graphs in binary64 that shares no code with the library. */
#ifndef TV_TESTS_GRAPH_VALUES_H
#define TV_TESTS_GRAPH_VALUES_H

#include "unit.h"

#include "graph/graph.h"

enum { VALUES_MAX = 256, EVAL_TOKENS_MAX = 8 };

/* Weights of a test graph: multiples of 1/64 in [-1, 1]. */
typedef struct weights {
    unit_rng rng;
    float numbers[1 << 14];
    size_t used;
    bool encoded; /* matrices have a row decoder in place of binary32 values */
} weights;

static inline const float *next_weights(weights *w, size_t count)
{
    float *out = w->numbers + w->used;
    w->used += count;
    if (w->used > sizeof w->numbers / sizeof w->numbers[0])
        fail_msg("too many weights");
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((int)unit_below(&w->rng, 129) - 64) / 64;
    return out;
}

/* A tensor of a model file whose rows are decoded one by one. */
typedef struct encoded_tensor {
    const float *values;
    uint32_t columns;
} encoded_tensor;

static inline tv_status decode_row(const struct tv_gguf_tensor *tensor, uint64_t row, float *out)
{
    const encoded_tensor *t = (const void *)tensor;
    memcpy(out, t->values + row * t->columns, t->columns * sizeof *out);
    return TV_OK;
}

static inline void drop_nothing(const struct tv_gguf_tensor *tensor, uint64_t first, uint64_t count)
{
    (void)tensor, (void)first, (void)count;
}

/* A constant of `count` matrices [rows][columns] with the next weights. `tensor` is storage for it. */
static inline uint32_t add_weights(tv_graph_builder *b, weights *w, encoded_tensor *tensor, const uint32_t dims[3])
{
    const float *values = next_weights(w, (size_t)dims[0] * dims[1] * dims[2]);
    tv_matrix m = {.count = dims[0], .rows = dims[1], .columns = dims[2], .values = values};
    *tensor = (encoded_tensor){values, dims[2]};
    if (w->encoded) {
        m.values = NULL;
        m.tensor = (const void *)tensor;
        m.read_row = decode_row;
        m.drop_rows = drop_nothing;
    }
    return tv_graph_constant(b, "w", &m);
}

/* Values of `tokens` tokens: token t of value v begins at at[v] + t * size[v]; constants have one for all. */
typedef struct evaluation {
    const tv_graph *graph;
    uint32_t tokens;
    double *at[VALUES_MAX];
    size_t size[VALUES_MAX];
    bool constant[VALUES_MAX];
} evaluation;

/* Evaluates all nodes. The caller frees it with free_evaluation. */
evaluation *evaluate(const tv_graph *graph, const int32_t *tokens, uint32_t count);
void free_evaluation(evaluation *e);

static inline const double *evaluated(const evaluation *e, uint32_t value, uint32_t token)
{
    return e->at[value] + (e->constant[value] ? 0 : token * e->size[value]);
}

#endif
