/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the operators, and what they share. A function computes the output row of a node; false: a weight is
 * not finite, or there is no memory. */
#ifndef TV_GRAPH_OPERATOR_TABLE_H
#define TV_GRAPH_OPERATOR_TABLE_H

#include "graph/operators.h"

#define TV_GRAPH_OP(id, name, class, inputs, optional, shape, attributes, meaning)                                     \
    bool tv_compute_##id(const tv_operator_row *r);
#include "graph/ops.def"
#undef TV_GRAPH_OP

/* y = exp(x - max) / sum; x and y may be the same. */
void tv_softmax_f32(const float *x, float *y, uint32_t n);

static inline const tv_graph_attrs *tv_attrs_of(const tv_operator_row *r) { return &r->node->attrs; }

/* An operand of binary32. */
static inline const float *tv_input_f32(const tv_operator_row *r, unsigned input) { return r->inputs[input]; }
static inline float *tv_output_f32(const tv_operator_row *r) { return r->output; }

static inline uint64_t tv_input_elements(const tv_operator_row *r, unsigned input)
{
    return tv_graph_elements(r->graph, r->node->inputs[input]);
}

static inline uint64_t tv_output_elements(const tv_operator_row *r)
{
    return tv_graph_elements(r->graph, r->node->output);
}

static inline uint32_t tv_input_columns(const tv_operator_row *r, unsigned input)
{
    return tv_graph_columns(r->graph, r->node->inputs[input]);
}

static inline uint32_t tv_output_columns(const tv_operator_row *r)
{
    return tv_graph_columns(r->graph, r->node->output);
}

/* Operands as tensors: views, which own nothing. The data of a constant input are only read. */
static inline tv_tensor tv_input_tensor(const tv_operator_row *r, unsigned input)
{
    tv_tensor t = tv_graph_tensor_of(r->graph, r->node->inputs[input]);
    t.data = (void *)(uintptr_t)r->inputs[input];
    return t;
}

static inline tv_tensor tv_output_tensor(const tv_operator_row *r)
{
    tv_tensor t = tv_graph_tensor_of(r->graph, r->node->output);
    t.data = r->output;
    return t;
}

/* Calls work(user, from, to) for chunks that make up 0 to `units`, on the threads of the row, and reports progress. */
void tv_operator_share(const tv_operator_row *r, uint64_t units, tv_pool_work *work, void *user);

/* The elements of an input of integers modulo 2^32. NULL: no memory. The caller frees the result. */
uint32_t *tv_operator_words(const tv_operator_row *r, unsigned input);

static inline bool tv_output_is_f32(const tv_operator_row *r)
{
    return tv_graph_value_at(r->graph, r->node->output)->element == TV_ELEMENT_F32;
}

#endif
