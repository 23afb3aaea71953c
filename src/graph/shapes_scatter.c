/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of operators that write elements to indices, and that order elements. */
#include "graph/infer.h"

/* Indices, and updates of the type of the input. */
static bool check_scatter(tv_rule *r)
{
    if (!tv_is_integer_element(tv_rule_input(r, 1)->element))
        return tv_rule_reject(r, "the indices are no integers");
    if (tv_rule_input(r, 2)->element != r->element)
        return tv_rule_reject(r, "the updates are not of the type of the input");
    if (tv_has_symbol(r->shape) || r->node->attrs.mode >= TV_SCATTER_MODES)
        return tv_rule_reject(r, "the mode is not valid");
    return true;
}

bool tv_rule_scatter_nd(tv_rule *r)
{
    const tv_graph_shape *indices = tv_rule_shape(r, 1);
    tv_graph_shape updates = *indices;
    int64_t axes = indices->rank ? tv_last_dim(indices) : 0;
    if (!check_scatter(r))
        return false;
    if (axes < 1 || axes > r->shape->rank || indices->rank - 1 + r->shape->rank - axes > TV_GRAPH_RANK_MAX)
        return tv_rule_reject(r, "the last axis of the indices has not one element for each of some axes");
    updates.rank = indices->rank - 1;
    for (uint32_t i = (uint32_t)axes; i < r->shape->rank; i++)
        updates.dims[updates.rank++] = r->shape->dims[i];
    return tv_same_dims(&updates, tv_rule_shape(r, 2)) ? true : tv_rule_reject(r, "the updates do not fit the indices");
}

bool tv_rule_scatter_elements(tv_rule *r)
{
    const tv_graph_shape *indices = tv_rule_shape(r, 1);
    uint32_t axis = r->node->attrs.axis;
    if (!check_scatter(r))
        return false;
    bool fits = indices->rank == r->shape->rank && axis < r->shape->rank && tv_same_dims(indices, tv_rule_shape(r, 2));
    for (uint32_t i = 0; i < r->shape->rank && fits; i++)
        fits = i == axis || indices->dims[i] <= r->shape->dims[i];
    return fits ? true : tv_rule_reject(r, "the updates do not fit the indices");
}

bool tv_rule_reverse_sequence(tv_rule *r)
{
    const tv_graph_value *lengths = tv_rule_input(r, 1);
    uint32_t time = r->node->attrs.axis, batch = r->node->attrs.mode;
    if (tv_has_symbol(r->shape) || time >= r->shape->rank || batch >= r->shape->rank || time == batch)
        return tv_rule_reject(r, "the axes of time and batch are not two of the input's");
    if (!tv_is_integer_element(lengths->element) || lengths->shape.rank != 1 ||
        lengths->shape.dims[0] != r->shape->dims[batch])
        return tv_rule_reject(r, "there is not one length for each index of the batch");
    return true;
}

bool tv_rule_top_k(tv_rule *r)
{
    if (!r->shape->rank || tv_has_symbol(r->shape) || r->node->attrs.end > tv_last_dim(r->shape))
        return tv_rule_reject(r, "the last axis has not that many elements");
    r->shape->dims[r->shape->rank - 1] = r->node->attrs.end;
    return true;
}

bool tv_rule_top_k_indices(tv_rule *r)
{
    bool ok = tv_rule_top_k(r);
    r->element = TV_ELEMENT_I64;
    return ok;
}
