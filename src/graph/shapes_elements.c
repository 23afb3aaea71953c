/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of operators that move, combine and reduce elements. */
#include "graph/infer.h"

/* ---- One input ---- */

bool tv_rule_same(tv_rule *r)
{
    (void)r;
    return true;
}

bool tv_rule_flag(tv_rule *r)
{
    r->element = TV_ELEMENT_BOOL;
    return true;
}

bool tv_rule_cast(tv_rule *r)
{
    r->element = r->node->attrs.to;
    return true;
}

/* ---- Moves ---- */

/* Tokens are along the first axis of both shapes, or of none. */
static bool same_tokens(const tv_graph_shape *a, const tv_graph_shape *b)
{
    tv_graph_shape rest = *b;
    if (b->rank && b->dims[0] == TV_DIM_TOKENS)
        rest.dims[0] = 1;
    bool tokens_a = a->rank && a->dims[0] == TV_DIM_TOKENS, tokens_b = b->rank && b->dims[0] == TV_DIM_TOKENS;
    return tokens_a == tokens_b && !tv_has_symbol(&rest);
}

bool tv_rule_reshape(tv_rule *r)
{
    const tv_graph_shape *to = &r->node->attrs.shape;
    if (to->rank > TV_GRAPH_RANK_MAX || !same_tokens(r->shape, to) ||
        tv_dims_elements(to) != tv_dims_elements(r->shape))
        return tv_rule_reject(r, "the shapes differ in the number of elements or in the first axis");
    *r->shape = *to;
    return true;
}

/* Element begin + i * step exists for each index i of the output. */
static bool slice_fits(int64_t extent, int64_t begin, int64_t step, int64_t count)
{
    if (count == 0)
        return true;
    if (count < 0 || begin < 0 || begin >= extent || step == 0)
        return false;
    uint64_t reach = (uint64_t)(step > 0 ? extent - 1 - begin : begin),
             magnitude = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    return (uint64_t)count - 1 <= reach / magnitude;
}

static bool slice_axes(tv_rule *r)
{
    const tv_graph_attrs *a = &r->node->attrs;
    if (a->shape.rank != r->shape->rank || tv_has_symbol(r->shape))
        return tv_rule_reject(r, "the ranks of input and output differ");
    for (uint32_t i = 0; i < r->shape->rank; i++)
        if (!slice_fits(r->shape->dims[i], a->lists->begin[i], a->lists->step[i], a->shape.dims[i]))
            return tv_rule_reject(r, "the range is not inside of an axis");
    *r->shape = a->shape;
    return true;
}

bool tv_rule_slice(tv_rule *r)
{
    const tv_graph_attrs *a = &r->node->attrs;
    if (a->lists)
        return slice_axes(r);
    if (a->start >= a->end || !r->shape->rank || a->end > tv_last_dim(r->shape))
        return tv_rule_reject(r, "the range is not inside of the last axis");
    r->shape->dims[r->shape->rank - 1] = a->end - a->start;
    return true;
}

bool tv_rule_concat(tv_rule *r)
{
    uint32_t from_end = r->node->attrs.axis_from_end;
    if (from_end >= r->shape->rank)
        return tv_rule_reject(r, "there is no such axis");
    uint32_t axis = r->shape->rank - 1 - from_end;
    for (unsigned i = 1; i < TV_GRAPH_INPUTS_MAX && tv_rule_has(r, i); i++) {
        tv_graph_shape other = *tv_rule_shape(r, i);
        if (other.rank != r->shape->rank)
            return tv_rule_reject(r, "the ranks of the inputs differ");
        int64_t extent = other.dims[axis];
        other.dims[axis] = r->shape->dims[axis];
        if (!tv_same_dims(&other, r->shape) || extent < 0 || r->shape->dims[axis] > INT64_MAX - extent)
            return tv_rule_reject(r, from_end ? "the inputs differ in another axis"
                                              : "the inputs differ in another axis than the last");
        if (tv_rule_input(r, i)->element != r->element)
            return tv_rule_reject(r, "the inputs have different element types");
        r->shape->dims[axis] += extent;
    }
    return true;
}

static bool permute(tv_rule *r, const uint32_t *perm)
{
    const tv_graph_shape from = *r->shape;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < from.rank; i++) {
        if (perm[i] >= from.rank || taken >> perm[i] & 1)
            return tv_rule_reject(r, "the axes are no permutation");
        taken |= UINT32_C(1) << perm[i];
        r->shape->dims[i] = from.dims[perm[i]];
    }
    return true;
}

bool tv_rule_transpose(tv_rule *r)
{
    tv_graph_shape *s = r->shape;
    if (r->node->attrs.lists)
        return permute(r, r->node->attrs.lists->perm);
    if (s->rank < 3 || s->dims[0] != TV_DIM_TOKENS)
        return tv_rule_reject(r, "the input has no two axes for each token");
    int64_t last = s->dims[s->rank - 1];
    s->dims[s->rank - 1] = s->dims[s->rank - 2];
    s->dims[s->rank - 2] = last;
    return true;
}

/* Extends `to` by the axes of `from`, which may be repeated to it and it to them. */
static bool broadcast(tv_graph_shape *to, const tv_graph_shape *from)
{
    uint32_t rank = to->rank > from->rank ? to->rank : from->rank;
    tv_graph_shape out = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) { /* from the last axis */
        int64_t a = i < to->rank ? to->dims[to->rank - 1 - i] : 1,
                b = i < from->rank ? from->dims[from->rank - 1 - i] : 1;
        if (a != b && a != 1 && b != 1)
            return false;
        out.dims[rank - 1 - i] = a == 1 ? b : a;
    }
    *to = out;
    return true;
}

bool tv_rule_expand(tv_rule *r)
{
    tv_graph_shape to = r->node->attrs.shape;
    if (to.rank > TV_GRAPH_RANK_MAX || tv_has_symbol(&to) || tv_has_symbol(r->shape) || !broadcast(&to, r->shape) ||
        !tv_same_dims(&to, &r->node->attrs.shape))
        return tv_rule_reject(r, "the shape is no repetition of the input's");
    *r->shape = to;
    return true;
}

bool tv_rule_pad(tv_rule *r)
{
    const tv_graph_lists *lists = r->node->attrs.lists;
    if (!lists || tv_has_symbol(r->shape) || r->node->attrs.mode >= TV_PAD_MODES)
        return tv_rule_reject(r, "the padding is not given");
    if (tv_rule_has(r, 1) && (tv_dims_elements(tv_rule_shape(r, 1)) != 1 || tv_rule_input(r, 1)->element != r->element))
        return tv_rule_reject(r, "the element to add is no scalar of the type of the input");
    for (uint32_t i = 0; i < r->shape->rank; i++) {
        int64_t begin = lists->begin[i], end = lists->end[i], left, all;
        if (__builtin_add_overflow(r->shape->dims[i], begin < 0 ? begin : 0, &left) || left < 0 ||
            __builtin_add_overflow(left, end < 0 ? end : 0, &left) || left < 0)
            return tv_rule_reject(r, "more elements are removed than there are");
        if (__builtin_add_overflow(left, begin > 0 ? begin : 0, &all) ||
            __builtin_add_overflow(all, end > 0 ? end : 0, &all))
            return tv_rule_reject(r, "more elements are added than can be counted");
        r->shape->dims[i] = all;
    }
    return true;
}

bool tv_rule_gather(tv_rule *r)
{
    const tv_graph_value *indices = tv_rule_input(r, 1);
    const tv_graph_shape from = *r->shape;
    uint32_t axis = r->node->attrs.axis;
    if (indices->source == TV_VALUE_TOKENS || indices->source == TV_VALUE_POSITIONS) {
        if (!tv_rule_is_matrix(r, 0) || axis)
            return tv_rule_reject(r, "the inputs are not a matrix and indices");
        *r->shape = (tv_graph_shape){2, {TV_DIM_TOKENS, tv_last_dim(&from)}};
        return true;
    }
    if (!tv_is_integer_element(indices->element) || axis >= from.rank || tv_has_symbol(&from) ||
        from.rank - 1 + indices->shape.rank > TV_GRAPH_RANK_MAX)
        return tv_rule_reject(r, "the inputs are not a matrix and indices");
    r->shape->rank = from.rank - 1 + indices->shape.rank;
    for (uint32_t i = 0; i < indices->shape.rank; i++)
        r->shape->dims[axis + i] = indices->shape.dims[i];
    for (uint32_t i = axis + 1; i < from.rank; i++)
        r->shape->dims[i - 1 + indices->shape.rank] = from.dims[i];
    return true;
}

/* ---- Several inputs ---- */

/* The inputs from `first` on are repeated to one shape. */
static bool broadcast_inputs(tv_rule *r, unsigned first, unsigned count)
{
    r->element = tv_rule_input(r, first)->element;
    for (unsigned i = first; i < first + count; i++) {
        if (!broadcast(r->shape, tv_rule_shape(r, i)))
            return tv_rule_reject(r, "the shapes do not fit each other");
        if (tv_rule_input(r, i)->element != r->element)
            return tv_rule_reject(r, "the inputs have different element types");
    }
    return true;
}

bool tv_rule_elementwise(tv_rule *r) { return broadcast_inputs(r, 0, 2); }

bool tv_rule_bits(tv_rule *r)
{
    if (tv_is_real_element(r->element))
        return tv_rule_reject(r, "the inputs are real numbers");
    return tv_rule_has(r, 1) ? broadcast_inputs(r, 0, 2) : true;
}

bool tv_rule_power(tv_rule *r)
{
    return broadcast(r->shape, tv_rule_shape(r, 1)) ? true : tv_rule_reject(r, "the shapes do not fit each other");
}

bool tv_rule_compare(tv_rule *r)
{
    bool ok = broadcast_inputs(r, 0, 2);
    r->element = TV_ELEMENT_BOOL;
    return ok;
}

bool tv_rule_where(tv_rule *r)
{
    if (r->element != TV_ELEMENT_BOOL)
        return tv_rule_reject(r, "the condition is not of booleans");
    return broadcast_inputs(r, 1, 2);
}

/* ---- Along the last axis ---- */

bool tv_rule_reduce(tv_rule *r)
{
    if (!r->shape->rank || r->shape->dims[r->shape->rank - 1] < 0)
        return tv_rule_reject(r, "the input has no axis to reduce");
    r->shape->dims[r->shape->rank - 1] = 1;
    return true;
}

bool tv_rule_reduce_index(tv_rule *r)
{
    bool ok = tv_rule_reduce(r);
    if (ok && tv_last_dim(tv_rule_shape(r, 0)) == 0)
        return tv_rule_reject(r, "the input has no element along the last axis");
    r->element = TV_ELEMENT_I64;
    return ok;
}

bool tv_rule_norm(tv_rule *r)
{
    for (unsigned i = 1; i < 3; i++)
        if (tv_rule_has(r, i) && !tv_rule_is_vector(r, i, tv_last_dim(r->shape)))
            return tv_rule_reject(r, "the gains or the bias have not the length of the last axis");
    return true;
}

bool tv_rule_norm_groups(tv_rule *r)
{
    uint32_t groups = r->node->attrs.groups;
    if (!groups || tv_last_dim(r->shape) % groups)
        return tv_rule_reject(r, "the last axis is no multiple of the groups");
    for (unsigned i = 1; i < 3; i++)
        if (tv_rule_has(r, i) && !tv_rule_is_vector(r, i, tv_last_dim(r->shape) / groups))
            return tv_rule_reject(r, "the gains or the bias have not the length of a group");
    return true;
}
