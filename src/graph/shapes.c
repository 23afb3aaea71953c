/* SPDX-License-Identifier: Apache-2.0 */
/* The shape rules of the operators: one function a rule, named in ops.def. */
#include <string.h>

#include "graph/graph.h"

typedef struct rule_context {
    const tv_graph *graph;
    const tv_graph_node *node;
    const char *problem;
} rule_context;

static const tv_graph_shape *shape_of(const rule_context *c, unsigned input)
{
    return &tv_graph_value_at(c->graph, c->node->inputs[input])->shape;
}

static bool has(const rule_context *c, unsigned input) { return c->node->inputs[input] != TV_NO_VALUE; }

static bool reject(rule_context *c, const char *problem)
{
    c->problem = problem;
    return false;
}

/* Every value has at least one axis. */
static int64_t last_dim(const tv_graph_shape *s) { return s->dims[s->rank - 1]; }

static bool same_dims(const tv_graph_shape *a, const tv_graph_shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static bool is_index(const rule_context *c, unsigned input)
{
    return tv_graph_value_at(c->graph, c->node->inputs[input])->type == TV_GRAPH_INDEX;
}

static bool is_matrix(const rule_context *c, unsigned input)
{
    const tv_graph_value *v = tv_graph_value_at(c->graph, c->node->inputs[input]);
    return v->source == TV_VALUE_CONSTANT && v->matrix.count == 1;
}

static bool is_vector(const rule_context *c, unsigned input, int64_t length)
{
    return is_matrix(c, input) && shape_of(c, input)->rank == 1 && last_dim(shape_of(c, input)) == length;
}

static uint64_t elements_of(const tv_graph_shape *s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n *= s->dims[i] < 0 ? 1 : (uint64_t)s->dims[i];
    return n;
}

/* A value for each token. */
static bool needs_tokens(rule_context *c, unsigned input)
{
    const tv_graph_shape *s = shape_of(c, input);
    bool has_rows = s->rank >= 2 && s->dims[0] == TV_DIM_TOKENS;
    return has_rows ? true : reject(c, "an input has no row for each token");
}

/* ---- Rules ---- */

static bool rule_same(rule_context *c, tv_graph_shape *out)
{
    *out = *shape_of(c, 0);
    return true;
}

static bool rule_gather(rule_context *c, tv_graph_shape *out)
{
    if (!is_matrix(c, 0) || !is_index(c, 1))
        return reject(c, "the inputs are not a matrix and indices");
    *out = (tv_graph_shape){2, {TV_DIM_TOKENS, last_dim(shape_of(c, 0))}};
    return true;
}

/* Whether an axis after the first is not a number. */
static bool has_inner_symbol(const tv_graph_shape *s)
{
    bool symbol = false;
    for (uint32_t i = 1; i < s->rank; i++)
        symbol |= s->dims[i] <= 0;
    return symbol;
}

static bool rule_reshape(rule_context *c, tv_graph_shape *out)
{
    *out = c->node->attrs.shape;
    if (!out->rank || out->rank > TV_GRAPH_RANK_MAX || out->dims[0] != shape_of(c, 0)->dims[0] ||
        elements_of(out) != elements_of(shape_of(c, 0)) || has_inner_symbol(out))
        return reject(c, "the shapes differ in the number of elements or in the first axis");
    return true;
}

static bool rule_slice(rule_context *c, tv_graph_shape *out)
{
    const tv_graph_attrs *a = &c->node->attrs;
    *out = *shape_of(c, 0);
    if (a->start >= a->end || a->end > last_dim(out))
        return reject(c, "the range is not inside of the last axis");
    out->dims[out->rank - 1] = a->end - a->start;
    return true;
}

static bool rule_concat(rule_context *c, tv_graph_shape *out)
{
    *out = *shape_of(c, 0);
    for (unsigned i = 1; i < TV_GRAPH_INPUTS_MAX && has(c, i); i++) {
        tv_graph_shape other = *shape_of(c, i);
        int64_t columns = last_dim(&other);
        if (other.rank != out->rank)
            return reject(c, "the ranks of the inputs differ");
        other.dims[other.rank - 1] = last_dim(out);
        if (!same_dims(&other, out))
            return reject(c, "the inputs differ in another axis than the last");
        out->dims[out->rank - 1] += columns;
    }
    return true;
}

static bool rule_transpose(rule_context *c, tv_graph_shape *out)
{
    *out = *shape_of(c, 0);
    if (out->rank < 3 || out->dims[0] != TV_DIM_TOKENS)
        return reject(c, "the input has no two axes for each token");
    int64_t last = out->dims[out->rank - 1];
    out->dims[out->rank - 1] = out->dims[out->rank - 2];
    out->dims[out->rank - 2] = last;
    return true;
}

static bool rule_gemm(rule_context *c, tv_graph_shape *out)
{
    *out = *shape_of(c, 0);
    if (!needs_tokens(c, 0))
        return false;
    if (!is_matrix(c, 1) || last_dim(shape_of(c, 1)) != last_dim(out))
        return reject(c, "the columns of the matrix are not those of the input");
    uint32_t rows = tv_graph_matrix(c->graph, c->node->inputs[1])->rows;
    if (has(c, 2) && !is_vector(c, 2, rows))
        return reject(c, "the bias has not one value for each row of the matrix");
    out->dims[out->rank - 1] = rows;
    return true;
}

static bool rule_linear(rule_context *c, tv_graph_shape *out)
{
    if (!rule_gemm(c, out))
        return false;
    bool fits = !has(c, 3) || same_dims(shape_of(c, 3), out);
    return fits ? true : reject(c, "the residual has another shape");
}

static bool rule_glu(rule_context *c, tv_graph_shape *out)
{
    if (!is_matrix(c, 2) || !same_dims(shape_of(c, 1), shape_of(c, 2)))
        return reject(c, "the two matrices differ in shape");
    rule_context gate = *c;
    tv_graph_node node = *c->node;
    node.inputs[2] = TV_NO_VALUE; /* the second matrix is no bias */
    gate.node = &node;
    bool ok = rule_gemm(&gate, out);
    c->problem = gate.problem;
    return ok;
}

static bool rule_matmul(rule_context *c, tv_graph_shape *out)
{
    const tv_graph_shape *a = shape_of(c, 0), *b = shape_of(c, 1);
    *out = *a;
    if (a->rank < 3 || b->rank != a->rank || memcmp(a->dims, b->dims, (a->rank - 2) * sizeof *a->dims) != 0 ||
        last_dim(a) != b->dims[b->rank - 2])
        return reject(c, "the shapes of the matrices do not fit each other");
    out->dims[out->rank - 1] = last_dim(b);
    return true;
}

/* True when `b` is repeated to make `a`: trailing axes of `a`, or `a` with the last axis 1, or one element. */
static bool is_repeated(const tv_graph_shape *a, const tv_graph_shape *b)
{
    if (elements_of(b) == 1)
        return b->rank <= a->rank && (b->dims[0] > 0 || b->dims[0] == a->dims[0]);
    if (b->rank <= a->rank && memcmp(a->dims + (a->rank - b->rank), b->dims, b->rank * sizeof *b->dims) == 0)
        return true;
    tv_graph_shape column = *a;
    column.dims[column.rank - 1] = 1;
    return same_dims(&column, b);
}

static bool rule_elementwise(rule_context *c, tv_graph_shape *out)
{
    const tv_graph_shape *a = shape_of(c, 0), *b = shape_of(c, 1);
    *out = is_repeated(a, b) ? *a : *b;
    return is_repeated(a, b) || is_repeated(b, a) ? true : reject(c, "the shapes do not fit each other");
}

static bool rule_reduce(rule_context *c, tv_graph_shape *out)
{
    *out = *shape_of(c, 0);
    if (out->rank < 2)
        return reject(c, "the input has no axis to reduce");
    out->dims[out->rank - 1] = 1;
    return true;
}

static bool rule_norm(rule_context *c, tv_graph_shape *out)
{
    *out = *shape_of(c, 0);
    for (unsigned i = 1; i < 3; i++)
        if (has(c, i) && !is_vector(c, i, last_dim(out)))
            return reject(c, "the gains or the bias have not the length of the last axis");
    return true;
}

static bool rule_norm_groups(rule_context *c, tv_graph_shape *out)
{
    *out = *shape_of(c, 0);
    uint32_t groups = c->node->attrs.groups;
    if (!groups || last_dim(out) % groups)
        return reject(c, "the last axis is no multiple of the groups");
    for (unsigned i = 1; i < 3; i++)
        if (has(c, i) && !is_vector(c, i, last_dim(out) / groups))
            return reject(c, "the gains or the bias have not the length of a group");
    return true;
}

static bool rule_rotary(rule_context *c, tv_graph_shape *out)
{
    const tv_graph_attrs *a = &c->node->attrs;
    *out = *shape_of(c, 0);
    if (!needs_tokens(c, 0))
        return false;
    if (!a->heads || elements_of(out) % a->heads || !a->rotary_dim || a->rotary_dim % 2 ||
        a->rotary_dim > elements_of(out) / a->heads)
        return reject(c, "the rotated part is no even part of a head");
    if (!(a->theta > 0) || !(a->frequency_scale > 0))
        return reject(c, "the base of the frequencies or their scale is not positive");
    bool fits = !has(c, 1) || is_vector(c, 1, a->rotary_dim / 2);
    return fits ? true : reject(c, "there is not one factor for each pair");
}

static bool rule_attention(rule_context *c, tv_graph_shape *out)
{
    const tv_graph_attrs *a = &c->node->attrs;
    *out = *shape_of(c, 0);
    if (!needs_tokens(c, 0))
        return false;
    if (a->cache >= c->graph->caches.count)
        return reject(c, "there is no such cache");
    const tv_graph_cache *cache = &c->graph->caches.data[a->cache];
    if (has(c, 1) != has(c, 2))
        return reject(c, "keys and values are given together or not at all");
    if (!a->heads || !cache->heads || a->heads % cache->heads ||
        elements_of(out) != (uint64_t)a->heads * cache->key_dim ||
        (has(c, 1) && (elements_of(shape_of(c, 1)) != (uint64_t)cache->heads * cache->key_dim ||
                       elements_of(shape_of(c, 2)) != (uint64_t)cache->heads * cache->value_dim)))
        return reject(c, "queries, keys or values do not fit the heads of the cache");
    *out = (tv_graph_shape){2, {TV_DIM_TOKENS, (int64_t)a->heads * cache->value_dim}};
    return true;
}

static bool rule_moe(rule_context *c, tv_graph_shape *out)
{
    *out = *shape_of(c, 0);
    int64_t dim = last_dim(out), experts = last_dim(shape_of(c, 1));
    if (!needs_tokens(c, 0) || !needs_tokens(c, 1))
        return false;
    for (unsigned i = 2; i < 5; i++)
        if (tv_graph_value_at(c->graph, c->node->inputs[i])->source != TV_VALUE_CONSTANT ||
            tv_graph_matrix(c->graph, c->node->inputs[i])->count != experts)
            return reject(c, "there is not one matrix for each expert");
    const tv_matrix *gate = tv_graph_matrix(c->graph, c->node->inputs[2]),
                    *up = tv_graph_matrix(c->graph, c->node->inputs[3]),
                    *down = tv_graph_matrix(c->graph, c->node->inputs[4]);
    if (gate->columns != dim || up->columns != dim || gate->rows != up->rows || down->columns != gate->rows ||
        down->rows != dim)
        return reject(c, "the matrices of the experts do not fit each other");
    bool in_range = c->node->attrs.experts_used >= 1 && c->node->attrs.experts_used <= experts;
    return in_range ? true : reject(c, "the number of experts used is out of range");
}

/* ---- Dispatch ---- */

static bool (*const rules[TV_OPS])(rule_context *c, tv_graph_shape *out) = {
#define TV_GRAPH_OP(id, name, inputs, optional, shape, attributes, meaning) [TV_OP_##id] = rule_##shape,
#include "graph/ops.def"
#undef TV_GRAPH_OP
};

bool tv_graph_infer_shape(const tv_graph *graph, const tv_graph_node *node, tv_graph_shape *out, const char **problem)
{
    const tv_graph_op_info *info = &tv_graph_op_infos[node->op];
    rule_context c = {graph, node, NULL};
    bool ok = true;
    for (uint32_t i = 0; i < TV_GRAPH_INPUTS_MAX && ok; i++) {
        if (i < info->inputs && node->inputs[i] == TV_NO_VALUE)
            ok = reject(&c, "an input is missing");
        else if (i >= (unsigned)info->inputs + info->optional && node->inputs[i] != TV_NO_VALUE)
            ok = reject(&c, "there are too many inputs");
        else if (node->inputs[i] != TV_NO_VALUE && node->inputs[i] >= graph->values.count)
            ok = reject(&c, "an input does not exist");
        else if (node->inputs[i] != TV_NO_VALUE && is_index(&c, i) && node->op != TV_OP_GATHER)
            ok = reject(&c, "only Gather reads token numbers or positions");
    }
    ok = ok && rules[node->op](&c, out);
    *problem = c.problem;
    return ok;
}
