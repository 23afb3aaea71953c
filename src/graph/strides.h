/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over tensors in the order of an output, with operands that are repeated, permuted or cut. */
#ifndef TV_GRAPH_STRIDES_H
#define TV_GRAPH_STRIDES_H

#include "graph/tensor.h"

enum { TV_WALK_OPERANDS = 3 };

/* The outer axes are walked by tv_walk_next; the last one is left to the caller: element i of it is at
 * at[k] + i * step[k] of operand k. */
typedef struct tv_walk {
    uint32_t rank;
    int64_t dims[TV_TENSOR_RANK_MAX], index[TV_TENSOR_RANK_MAX];
    int64_t strides[TV_WALK_OPERANDS][TV_TENSOR_RANK_MAX]; /* in elements */
    int64_t at[TV_WALK_OPERANDS], step[TV_WALK_OPERANDS];
    int64_t count; /* elements of the last axis */
} tv_walk;

/* Strides of a row-major tensor. */
static inline void tv_strides_of(const tv_tensor *t, int64_t strides[TV_TENSOR_RANK_MAX])
{
    int64_t stride = 1;
    for (uint32_t i = t->rank; i-- > 0; stride *= t->dims[i])
        strides[i] = stride;
}

/* Starts a walk over `out`; strides are 0 until they are set. */
static inline tv_walk tv_walk_over(const tv_tensor *out)
{
    tv_walk w = {.rank = out->rank, .count = out->rank ? out->dims[out->rank - 1] : 1};
    for (uint32_t i = 0; i < out->rank; i++)
        w.dims[i] = out->dims[i];
    return w;
}

/* Operand k is a tensor that is repeated to the shape of the output. */
static inline void tv_walk_repeat(tv_walk *w, unsigned k, const tv_tensor *t)
{
    int64_t strides[TV_TENSOR_RANK_MAX];
    tv_strides_of(t, strides);
    for (uint32_t i = 0; i < t->rank; i++)
        w->strides[k][w->rank - t->rank + i] = t->dims[i] == 1 ? 0 : strides[i];
    w->step[k] = w->rank ? w->strides[k][w->rank - 1] : 0;
}

/* Advances to the next vector of the last axis; false at the end. */
static inline bool tv_walk_next(tv_walk *w)
{
    for (uint32_t i = w->rank > 0 ? w->rank - 1 : 0; i-- > 0;) {
        bool wraps = ++w->index[i] == w->dims[i];
        for (unsigned k = 0; k < TV_WALK_OPERANDS; k++)
            w->at[k] += wraps ? -w->strides[k][i] * (w->dims[i] - 1) : w->strides[k][i];
        if (!wraps)
            return true;
        w->index[i] = 0;
    }
    return false;
}

#endif
