/* SPDX-License-Identifier: Apache-2.0 */
/* Operators in terms of others, for machines that have no instructions for them. */
#include <math.h>
#include <stdlib.h>

#include "graph/rewrite.h"

/* Adds y.SUFFIX = op(first, second), where y is the output of `n`. */
static uint32_t add1(tv_graph_builder *b, const tv_graph_node *n, const char *suffix, tv_graph_op op, uint32_t first)
{
    return tv_rewrite_add(b, n->output, suffix, op, &first, 1, NULL);
}

static uint32_t add2(tv_graph_builder *b, const tv_graph_node *n, const char *suffix, tv_graph_op op, uint32_t first,
                     uint32_t second)
{
    return tv_rewrite_add(b, n->output, suffix, op, (uint32_t[]){first, second}, 2, NULL);
}

static uint32_t scalar(tv_graph_builder *b, const tv_graph_node *n, const char *suffix, float x)
{
    return tv_rewrite_scalar(b, n->output, suffix, x);
}

/* Lets the node itself be op(first, second). */
static void become(tv_graph_node *n, tv_graph_op op, uint32_t first, uint32_t second, const tv_graph_attrs *attrs)
{
    n->op = op;
    n->attrs = attrs ? *attrs : (tv_graph_attrs){0};
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        n->inputs[k] = k == 0 ? first : k == 1 ? second : TV_NO_VALUE;
}

static const tv_graph_shape *dims_of(const tv_graph_builder *b, uint32_t value)
{
    return &tv_graph_value_at(b->graph, value)->shape;
}

static const tv_tensor *constant_of(const tv_graph_builder *b, uint32_t value)
{
    const tv_graph_value *v = value == TV_NO_VALUE ? NULL : tv_graph_value_at(b->graph, value);
    return v && v->source == TV_VALUE_CONSTANT ? v->tensor : NULL;
}

/* ---- Functions ---- */

static void expand_log_softmax(tv_graph_builder *b, tv_graph_node *n)
{
    uint32_t max = add1(b, n, "max", TV_OP_REDUCE_MAX, n->inputs[0]),
             rest = add2(b, n, "rest", TV_OP_SUB, n->inputs[0], max), powers = add1(b, n, "exp", TV_OP_EXP, rest),
             sum = add1(b, n, "sum", TV_OP_REDUCE_SUM, powers), log = add1(b, n, "log", TV_OP_LOG, sum);
    become(n, TV_OP_SUB, rest, log, NULL);
}

static void expand_prelu(tv_graph_builder *b, tv_graph_node *n)
{
    const tv_tensor *slope = constant_of(b, n->inputs[1]);
    if (slope && slope->data && tv_tensor_count(slope) == 1 && dims_of(b, n->inputs[1])->rank <= 1) {
        become(n, TV_OP_LEAKY_RELU, n->inputs[0], TV_NO_VALUE,
               &(tv_graph_attrs){.alpha = (float)tv_tensor_real(slope, 0)});
        return;
    }
    uint32_t positive = add1(b, n, "positive", TV_OP_RELU, n->inputs[0]),
             negative = add2(b, n, "negative", TV_OP_MIN, n->inputs[0], scalar(b, n, "zero", 0)),
             scaled = add2(b, n, "scaled", TV_OP_MUL, negative, n->inputs[1]);
    become(n, TV_OP_ADD, positive, scaled, NULL);
}

/* factor * (x < 0 ? alpha (exp(x / width) - 1) : x) */
static void expand_exponential(tv_graph_builder *b, tv_graph_node *n, float alpha, float width, float factor)
{
    uint32_t positive = add1(b, n, "positive", TV_OP_RELU, n->inputs[0]),
             negative = add2(b, n, "negative", TV_OP_MIN, n->inputs[0], scalar(b, n, "zero", 0));
    if (width != 1)
        negative = add2(b, n, "quotient", TV_OP_MUL, negative, scalar(b, n, "width", 1 / width));
    if (factor != 1)
        positive = add2(b, n, "larger", TV_OP_MUL, positive, scalar(b, n, "factor", factor));
    uint32_t powers = add1(b, n, "exp", TV_OP_EXP, negative),
             differences = add2(b, n, "difference", TV_OP_SUB, powers, scalar(b, n, "one", 1)),
             scaled = add2(b, n, "scaled", TV_OP_MUL, differences, scalar(b, n, "alpha", alpha * factor));
    become(n, TV_OP_ADD, positive, scaled, NULL);
}

static void expand_elu(tv_graph_builder *b, tv_graph_node *n)
{
    expand_exponential(b, n, n->attrs.alpha, n->attrs.beta, 1);
}

static void expand_selu(tv_graph_builder *b, tv_graph_node *n)
{
    expand_exponential(b, n, n->attrs.alpha, 1, n->attrs.beta);
}

/* max(x, 0) + log(1 + exp(-|x|)), which does not overflow. */
static void expand_softplus(tv_graph_builder *b, tv_graph_node *n)
{
    uint32_t positive = add1(b, n, "positive", TV_OP_RELU, n->inputs[0]),
             magnitude = add1(b, n, "magnitude", TV_OP_ABS, n->inputs[0]),
             powers = add1(b, n, "exp", TV_OP_EXP, add1(b, n, "negative", TV_OP_NEG, magnitude)),
             sum = add2(b, n, "sum", TV_OP_ADD, powers, scalar(b, n, "one", 1));
    become(n, TV_OP_ADD, positive, add1(b, n, "log", TV_OP_LOG, sum), NULL);
}

static void expand_softsign(tv_graph_builder *b, tv_graph_node *n)
{
    uint32_t magnitude = add1(b, n, "magnitude", TV_OP_ABS, n->inputs[0]),
             sum = add2(b, n, "sum", TV_OP_ADD, magnitude, scalar(b, n, "one", 1));
    become(n, TV_OP_DIV, n->inputs[0], sum, NULL);
}

/* ---- Selection ---- */

/* The elements of `value` at indices along an axis; releases the indices. */
static uint32_t gather(tv_graph_builder *b, const tv_graph_node *n, uint32_t value, uint32_t axis, tv_tensor *indices)
{
    uint32_t list = tv_rewrite_constant(b, n->output, "indices", indices);
    tv_tensor_fini(indices);
    return tv_rewrite_add(b, n->output, "selected", TV_OP_GATHER, (uint32_t[]){value, list}, 2,
                          &(tv_graph_attrs){.axis = axis});
}

/* A vector of zeros of `count` indices; without data: b->status says why. */
static tv_tensor new_indices(tv_graph_builder *b, int64_t count)
{
    tv_tensor t = {0};
    if (b->status == TV_OK)
        b->status = tv_tensor_init(&t, TV_ELEMENT_I64, 1, &count, b->sink);
    return t;
}

/* A constant repeated to a shape. */
static uint32_t repeat_constant(tv_graph_builder *b, uint32_t name, const tv_tensor *from, const tv_graph_shape *to)
{
    tv_tensor t = {0};
    if (b->status == TV_OK)
        b->status = tv_tensor_init(&t, from->element, to->rank, to->dims, b->sink);
    for (uint64_t i = 0, all = t.data ? tv_tensor_count(&t) : 0; i < all && from->data; i++) {
        uint64_t rest = i, at = 0, stride = 1;
        for (uint32_t k = 0; k < from->rank; k++) { /* from the last axis */
            uint64_t extent = (uint64_t)to->dims[to->rank - 1 - k], own = (uint64_t)from->dims[from->rank - 1 - k];
            at += own > 1 ? rest % extent * stride : 0;
            stride *= own;
            rest /= extent;
        }
        tv_tensor_set_real(&t, i, tv_tensor_real(from, at));
    }
    if (!from->data)
        t.data = NULL;
    uint32_t out = tv_rewrite_constant(b, name, "repeated", &t);
    tv_tensor_fini(&t);
    return out;
}

static uint32_t slice_axis(tv_graph_builder *b, const tv_graph_node *n, uint32_t value, uint32_t axis, int64_t begin,
                           int64_t step, int64_t count)
{
    tv_graph_lists lists = {0};
    tv_graph_attrs attrs = {.shape = *dims_of(b, value), .lists = &lists};
    for (uint32_t i = 0; i < TV_GRAPH_RANK_MAX; i++)
        lists.step[i] = 1;
    lists.begin[axis] = begin;
    lists.step[axis] = step;
    attrs.shape.dims[axis] = count;
    return tv_rewrite_add(b, n->output, "part", TV_OP_SLICE, &value, 1, &attrs);
}

/* `count` copies of a value side by side along an axis: of copies of copies, so that few nodes make many. */
static uint32_t repeat_axis(tv_graph_builder *b, const tv_graph_node *n, uint32_t value, uint32_t axis, int64_t count)
{
    int64_t each = count / TV_GRAPH_INPUTS_MAX, rest = count % TV_GRAPH_INPUTS_MAX;
    uint32_t inputs[TV_GRAPH_INPUTS_MAX];
    if (count == 0) /* an axis without elements */
        return slice_axis(b, n, value, axis, 0, 1, 0);
    if (count == 1 || value == TV_NO_VALUE)
        return value;
    tv_graph_attrs attrs = {.axis_from_end = dims_of(b, value)->rank - 1 - axis};
    uint32_t used = 0;
    if (each) {
        uint32_t copies = repeat_axis(b, n, value, axis, each);
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            inputs[k] = copies;
        inputs[used++] = tv_rewrite_add(b, n->output, "copies", TV_OP_CONCAT, inputs, TV_GRAPH_INPUTS_MAX, &attrs);
    }
    while (rest-- > 0)
        inputs[used++] = value;
    return used == 1 ? inputs[0] : tv_rewrite_add(b, n->output, "copies", TV_OP_CONCAT, inputs, used, &attrs);
}

uint32_t tv_rewrite_repeat(tv_graph_builder *b, const tv_graph_node *n, uint32_t value, const tv_graph_shape *to)
{
    tv_graph_shape all = {.rank = to->rank};
    if (constant_of(b, value))
        return repeat_constant(b, n->output, constant_of(b, value), to);
    const tv_graph_shape *from = dims_of(b, value);
    for (uint32_t i = 0; i < to->rank; i++)
        all.dims[i] = i + from->rank < to->rank ? 1 : from->dims[i + from->rank - to->rank];
    if (from->rank < to->rank)
        value = tv_rewrite_add(b, n->output, "axes", TV_OP_RESHAPE, &value, 1, &(tv_graph_attrs){.shape = all});
    for (uint32_t i = 0; i < to->rank && b->status == TV_OK; i++)
        if (all.dims[i] != to->dims[i])
            value = repeat_axis(b, n, value, i, to->dims[i]);
    return value;
}

static void expand_expand(tv_graph_builder *b, tv_graph_node *n)
{
    tv_graph_shape to = *dims_of(b, n->output);
    become(n, TV_OP_RESHAPE, tv_rewrite_repeat(b, n, n->inputs[0], &to), TV_NO_VALUE, &(tv_graph_attrs){.shape = to});
}

/* Index i of a padded axis with `extent` elements before, `before` of them added. */
static int64_t padded_index(tv_pad_mode mode, int64_t i, int64_t before, int64_t extent)
{
    int64_t at = i - before, period;
    switch (mode) {
    case TV_PAD_REFLECT:
        period = extent > 1 ? 2 * (extent - 1) : 1;
        at = (at % period + period) % period;
        return at < extent ? at : period - at;
    case TV_PAD_WRAP:
        return (at % extent + extent) % extent;
    default:
        return at < 0 ? 0 : at < extent ? at : extent - 1;
    }
}

/* A constant block of `value`'s shape, with `count` elements along an axis. */
static uint32_t filling(tv_graph_builder *b, const tv_graph_node *n, uint32_t value, uint32_t axis, int64_t count,
                        float fill)
{
    tv_graph_shape s = *dims_of(b, value);
    tv_tensor t = {0};
    s.dims[axis] = count;
    if (b->status == TV_OK)
        b->status = tv_tensor_init(&t, TV_ELEMENT_F32, s.rank, s.dims, b->sink);
    for (uint64_t i = 0, all = t.data ? tv_tensor_count(&t) : 0; i < all; i++)
        ((float *)t.data)[i] = fill;
    uint32_t out = tv_rewrite_constant(b, n->output, "padding", &t);
    tv_tensor_fini(&t);
    return out;
}

static uint32_t pad_axis(tv_graph_builder *b, const tv_graph_node *n, uint32_t value, uint32_t axis, float fill)
{
    int64_t before = n->attrs.lists->begin[axis], after = n->attrs.lists->end[axis],
            extent = dims_of(b, value)->dims[axis];
    if (before < 0 || after < 0) {
        int64_t first = before < 0 ? -before : 0, count = extent - first + (after < 0 ? after : 0);
        value = slice_axis(b, n, value, axis, first, 1, count);
        before = before < 0 ? 0 : before;
        after = after < 0 ? 0 : after;
        extent = count;
    }
    if ((!before && !after) || value == TV_NO_VALUE)
        return value;
    if (n->attrs.mode != TV_PAD_CONSTANT) {
        tv_tensor indices = new_indices(b, before + extent + after);
        for (int64_t i = 0; b->status == TV_OK && i < before + extent + after; i++)
            ((int64_t *)indices.data)[i] = padded_index((tv_pad_mode)n->attrs.mode, i, before, extent);
        return b->status == TV_OK ? gather(b, n, value, axis, &indices) : TV_NO_VALUE;
    }
    uint32_t inputs[3], count = 0;
    if (before)
        inputs[count++] = filling(b, n, value, axis, before, fill);
    inputs[count++] = value;
    if (after)
        inputs[count++] = filling(b, n, value, axis, after, fill);
    return tv_rewrite_add(b, n->output, "padded", TV_OP_CONCAT, inputs, count,
                          &(tv_graph_attrs){.axis_from_end = dims_of(b, value)->rank - 1 - axis});
}

/* True if a Pad has no elements to repeat along an axis. */
static bool repeats_nothing(const tv_graph_node *n, const tv_graph_shape *from)
{
    const tv_graph_lists *lists = n->attrs.lists;
    bool nothing = false;
    for (uint32_t i = 0; i < from->rank && n->attrs.mode != TV_PAD_CONSTANT; i++) {
        int64_t begin = lists->begin[i], end = lists->end[i];
        nothing = nothing || from->dims[i] + (begin < 0 ? begin : 0) + (end < 0 ? end : 0) == 0;
    }
    return nothing;
}

static void expand_pad(tv_graph_builder *b, tv_graph_node *n)
{
    const tv_tensor *fill = constant_of(b, n->inputs[1]);
    tv_graph_shape to = *dims_of(b, n->output);
    uint32_t value = n->inputs[0];
    if ((n->inputs[1] != TV_NO_VALUE && !(fill && fill->data)) || repeats_nothing(n, dims_of(b, value)))
        return; /* a computed element, or none */
    for (uint32_t i = 0; i < to.rank && value != TV_NO_VALUE; i++)
        value = pad_axis(b, n, value, i, fill ? (float)tv_tensor_real(fill, 0) : 0);
    become(n, TV_OP_RESHAPE, value, TV_NO_VALUE, &(tv_graph_attrs){.shape = to});
}

/* Axis by axis. */
static void expand_slice(tv_graph_builder *b, tv_graph_node *n)
{
    const tv_graph_lists *lists = n->attrs.lists;
    tv_graph_shape from = *dims_of(b, n->inputs[0]), to = *dims_of(b, n->output);
    uint32_t value = n->inputs[0], cuts = 0;
    for (uint32_t i = 0; lists && i < from.rank; i++)
        cuts += from.dims[i] != to.dims[i] || lists->step[i] != 1;
    for (uint32_t i = 0; cuts > 1 && i < from.rank && b->status == TV_OK; i++)
        if (from.dims[i] != to.dims[i] || lists->step[i] != 1)
            value = slice_axis(b, n, value, i, lists->begin[i], lists->step[i], to.dims[i]);
    if (cuts > 1)
        become(n, TV_OP_RESHAPE, value, TV_NO_VALUE, &(tv_graph_attrs){.shape = to});
}

/* The last axis of the input first becomes the last but one, then goes where it belongs. */
static void expand_transpose(tv_graph_builder *b, tv_graph_node *n)
{
    if (!n->attrs.lists)
        return;
    tv_permutation p = tv_permutation_of(dims_of(b, n->inputs[0]), n->attrs.lists->perm);
    tv_graph_shape merged = {.rank = p.rank};
    tv_graph_lists first = {0}, second = {0};
    uint32_t at = 0, to = 0;
    while (at < p.rank && p.perm[at] != p.rank - 1)
        at++;
    if (at + 2 >= p.rank)
        return;
    memcpy(merged.dims, p.dims, sizeof merged.dims);
    for (uint32_t i = 0; i < p.rank; i++)
        if (i != at) {
            first.perm[to < p.rank - 2 ? to : p.rank - 1] = p.perm[i];
            to++;
        }
    first.perm[p.rank - 2] = p.rank - 1;
    for (uint32_t i = 0; i < p.rank; i++)
        second.perm[i] = i < at || i == p.rank - 1 ? i : i == at ? p.rank - 2 : i - 1;
    uint32_t value =
        tv_rewrite_add(b, n->output, "merged", TV_OP_RESHAPE, n->inputs, 1, &(tv_graph_attrs){.shape = merged});
    value = tv_rewrite_add(b, n->output, "exchanged", TV_OP_TRANSPOSE, &value, 1, &(tv_graph_attrs){.lists = &first});
    value = tv_rewrite_add(b, n->output, "moved", TV_OP_TRANSPOSE, &value, 1, &(tv_graph_attrs){.lists = &second});
    become(n, TV_OP_RESHAPE, value, TV_NO_VALUE, &(tv_graph_attrs){.shape = *dims_of(b, n->output)});
}

/* ---- Repeated operands ---- */

/* 1 where the condition is `which`, otherwise 0. */
static uint32_t mask(tv_graph_builder *b, const tv_graph_node *n, const tv_tensor *condition, bool which)
{
    tv_tensor t = {.element = TV_ELEMENT_F32, .rank = condition->rank};
    memcpy(t.dims, condition->dims, sizeof t.dims);
    if (condition->data && b->status == TV_OK)
        b->status = tv_tensor_init(&t, TV_ELEMENT_F32, condition->rank, condition->dims, b->sink);
    for (uint64_t i = 0, all = t.data ? tv_tensor_count(&t) : 0; i < all; i++)
        ((float *)t.data)[i] = (tv_tensor_integer(condition, i) != 0) == which;
    uint32_t out = tv_rewrite_constant(b, n->output, which ? "mask" : "inverse", &t);
    tv_tensor_fini(&t);
    return out;
}

/* `x` where the condition is `which`, otherwise 0, if x is a constant of the shape of the condition, or of one element
 * and no more axes: a product could not remove infinity. TV_NO_VALUE: it is another. */
static uint32_t masked_constant(tv_graph_builder *b, const tv_graph_node *n, const tv_tensor *condition, bool which,
                                const tv_tensor *x)
{
    uint64_t count = x ? tv_tensor_count(x) : 0;
    bool same = x && x->rank == condition->rank && memcmp(x->dims, condition->dims, x->rank * sizeof *x->dims) == 0;
    if (!x || (!same && (count != 1 || x->rank > condition->rank)))
        return TV_NO_VALUE;
    uint32_t value = mask(b, n, condition, which);
    const tv_tensor *t = b->status == TV_OK && x->data ? constant_of(b, value) : NULL;
    for (uint64_t i = 0, all = t && t->data ? tv_tensor_count(t) : 0; i < all; i++)
        ((float *)t->data)[i] *= ((float *)t->data)[i] != 0 ? (float)tv_tensor_real(x, count == 1 ? 0 : i) : 1;
    return value;
}

/* a * mask + b * (1 - mask), for a constant condition. */
static void expand_where(tv_graph_builder *b, tv_graph_node *n)
{
    const tv_tensor *condition = constant_of(b, n->inputs[0]);
    uint32_t terms[2];
    for (unsigned k = 0; k < 2 && condition; k++) {
        const tv_tensor *x = constant_of(b, n->inputs[1 + k]);
        terms[k] = masked_constant(b, n, condition, k == 0, x);
        if (terms[k] == TV_NO_VALUE && x)
            return; /* a constant that is repeated */
        if (terms[k] == TV_NO_VALUE)
            terms[k] = add2(b, n, k ? "second" : "first", TV_OP_MUL, n->inputs[1 + k], mask(b, n, condition, k == 0));
    }
    if (condition)
        become(n, TV_OP_ADD, terms[0], terms[1], NULL);
}

/* Gives an operand with several axes as many as the output has. */
static uint32_t add_axes(tv_graph_builder *b, const tv_graph_node *n, uint32_t value)
{
    tv_graph_shape s = *dims_of(b, value), to = *dims_of(b, n->output), all = {.rank = to.rank};
    uint32_t extents = 0;
    for (uint32_t i = 0; i < s.rank; i++)
        extents += s.dims[i] > 1;
    if (extents < 2 || s.rank == to.rank)
        return value;
    for (uint32_t i = 0; i < to.rank; i++)
        all.dims[i] = i + s.rank < to.rank ? 1 : s.dims[i + s.rank - to.rank];
    if (tv_graph_value_at(b->graph, value)->source != TV_VALUE_CONSTANT)
        return tv_rewrite_add(b, n->output, "axes", TV_OP_RESHAPE, &value, 1, &(tv_graph_attrs){.shape = all});
    tv_tensor t = {.element = tv_graph_value_at(b->graph, value)->element, .rank = all.rank};
    const tv_tensor *from = constant_of(b, value);
    memcpy(t.dims, all.dims, sizeof t.dims);
    t.data = from ? from->data : NULL;
    return from ? tv_rewrite_constant(b, n->output, "constant", &t) : value;
}

/* Lets one operand have all elements of the output, and be the first where the order matters. */
static void expand_binary(tv_graph_builder *b, tv_graph_node *n)
{
    uint64_t all = tv_graph_elements(b->graph, n->output);
    bool whole[2], ordered = n->op == TV_OP_DIV || n->op == TV_OP_POW;
    for (unsigned k = 0; k < 2; k++)
        n->inputs[k] = add_axes(b, n, n->inputs[k]);
    if (b->status != TV_OK)
        return;
    for (unsigned k = 0; k < 2; k++)
        whole[k] = tv_graph_elements(b->graph, n->inputs[k]) == all &&
                   tv_graph_value_at(b->graph, n->inputs[k])->source != TV_VALUE_CONSTANT;
    if (whole[0] || (whole[1] && !ordered))
        return;
    if (whole[1] && n->op == TV_OP_DIV) {
        uint32_t reciprocal = add1(b, n, "reciprocal", TV_OP_RECIPROCAL, n->inputs[1]);
        become(n, TV_OP_MUL, reciprocal, n->inputs[0], NULL);
        return;
    }
    unsigned computed = tv_graph_value_at(b->graph, n->inputs[0])->source == TV_VALUE_CONSTANT;
    tv_graph_shape to = *dims_of(b, n->output);
    if (!computed || !ordered)
        n->inputs[computed] = tv_rewrite_repeat(b, n, n->inputs[computed], &to);
}

/* ---- The pass ---- */

static void (*const expansions[TV_OPS])(tv_graph_builder *b, tv_graph_node *n) = {
    [TV_OP_LOG_SOFTMAX] = expand_log_softmax,
    [TV_OP_PRELU] = expand_prelu,
    [TV_OP_ELU] = expand_elu,
    [TV_OP_SELU] = expand_selu,
    [TV_OP_SOFTPLUS] = expand_softplus,
    [TV_OP_SOFTSIGN] = expand_softsign,
    [TV_OP_EXPAND] = expand_expand,
    [TV_OP_PAD] = expand_pad,
    [TV_OP_SLICE] = expand_slice,
    [TV_OP_TRANSPOSE] = expand_transpose,
    [TV_OP_WHERE] = expand_where,
    [TV_OP_ADD] = expand_binary,
    [TV_OP_SUB] = expand_binary,
    [TV_OP_MUL] = expand_binary,
    [TV_OP_DIV] = expand_binary,
    [TV_OP_MIN] = expand_binary,
    [TV_OP_MAX] = expand_binary,
    [TV_OP_POW] = expand_binary,
};

typedef struct expander {
    tv_graph_expands_fn *expands;
    const void *user;
} expander;

static void expand_node(void *user, tv_graph_builder *b, tv_graph_node *node)
{
    const expander *e = user;
    bool real = tv_graph_value_at(b->graph, node->output)->element == TV_ELEMENT_F32;
    if (real && expansions[node->op] && e->expands(e->user, b->graph, node))
        expansions[node->op](b, node);
}

tv_status tv_graph_expand(tv_graph *graph, tv_graph_expands_fn *expands, const void *user, const tv_diag_sink *sink)
{
    return tv_graph_rewrite(graph, expand_node, &(expander){expands, user}, sink);
}
