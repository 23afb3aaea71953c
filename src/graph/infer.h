/* SPDX-License-Identifier: Apache-2.0 */
/* What the shape rules of the operators share. A rule checks the inputs of a node and sets shape and element type of
 * its output; both start as those of the first input. */
#ifndef TV_GRAPH_INFER_H
#define TV_GRAPH_INFER_H

#include "graph/graph.h"

typedef struct tv_rule {
    const tv_graph *graph;
    const tv_graph_node *node;
    tv_graph_shape *shape; /* of the output */
    tv_element element;    /* of the output */
    const char *problem;   /* static text, of a rule that returns false */
} tv_rule;

/* True when the inputs fit. Which inputs are given is checked before. */
#define TV_GRAPH_OP(id, name, class, inputs, optional, shape, attributes, meaning) bool tv_rule_##shape(tv_rule *r);
#include "graph/ops.def"
#undef TV_GRAPH_OP

static inline const tv_graph_value *tv_rule_input(const tv_rule *r, unsigned input)
{
    return tv_graph_value_at(r->graph, r->node->inputs[input]);
}

static inline const tv_graph_shape *tv_rule_shape(const tv_rule *r, unsigned input)
{
    return &tv_rule_input(r, input)->shape;
}

static inline bool tv_rule_has(const tv_rule *r, unsigned input) { return r->node->inputs[input] != TV_NO_VALUE; }

static inline bool tv_rule_reject(tv_rule *r, const char *problem)
{
    r->problem = problem;
    return false;
}

/* Extent of the last axis; 1 for scalars. */
static inline int64_t tv_last_dim(const tv_graph_shape *s) { return s->rank ? s->dims[s->rank - 1] : 1; }

static inline bool tv_same_dims(const tv_graph_shape *a, const tv_graph_shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* True when an extent is no number. */
static inline bool tv_has_symbol(const tv_graph_shape *s)
{
    bool symbol = false;
    for (uint32_t i = 0; i < s->rank; i++)
        symbol |= s->dims[i] < 0;
    return symbol;
}

/* Elements for one token. */
static inline uint64_t tv_dims_elements(const tv_graph_shape *s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n *= s->dims[i] < 0 ? 1 : (uint64_t)s->dims[i];
    return n;
}

/* A constant matrix. */
static inline bool tv_rule_is_matrix(const tv_rule *r, unsigned input)
{
    const tv_graph_value *v = tv_rule_input(r, input);
    return v->source == TV_VALUE_CONSTANT && v->element == TV_ELEMENT_F32 && v->matrix.count == 1;
}

static inline bool tv_rule_is_vector(const tv_rule *r, unsigned input, int64_t length)
{
    const tv_graph_shape *s = tv_rule_shape(r, input);
    return tv_rule_is_matrix(r, input) && s->rank == 1 && tv_last_dim(s) == length;
}

/* A value for each token, or of a network without tokens. */
static inline bool tv_rule_needs_rows(tv_rule *r, unsigned input)
{
    const tv_graph_shape *s = tv_rule_shape(r, input);
    bool network = tv_rule_input(r, input)->block == TV_BLOCK_NONE;
    bool rows = s->rank >= 2 && s->dims[0] == TV_DIM_TOKENS;
    return rows || network ? true : tv_rule_reject(r, "an input has no row for each token");
}

#endif
