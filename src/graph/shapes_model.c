/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of the operators of transformers. */
#include "graph/infer.h"

bool tv_rule_rotary(tv_rule *r)
{
    const tv_graph_attrs *a = &r->node->attrs;
    if (!tv_rule_needs_rows(r, 0))
        return false;
    if (!a->heads || tv_dims_elements(r->shape) % a->heads || !a->rotary_dim || a->rotary_dim % 2 ||
        a->rotary_dim > tv_dims_elements(r->shape) / a->heads)
        return tv_rule_reject(r, "the rotated part is no even part of a head");
    if (!(a->theta > 0) || !(a->frequency_scale > 0))
        return tv_rule_reject(r, "the base of the frequencies or their scale is not positive");
    bool fits = !tv_rule_has(r, 1) || tv_rule_is_vector(r, 1, a->rotary_dim / 2);
    return fits ? true : tv_rule_reject(r, "there is not one factor for each pair");
}

bool tv_rule_attention(tv_rule *r)
{
    const tv_graph_attrs *a = &r->node->attrs;
    if (!tv_rule_needs_rows(r, 0))
        return false;
    if (a->cache >= r->graph->caches.count)
        return tv_rule_reject(r, "there is no such cache");
    const tv_graph_cache *cache = &r->graph->caches.data[a->cache];
    if (tv_rule_has(r, 1) != tv_rule_has(r, 2))
        return tv_rule_reject(r, "keys and values are given together or not at all");
    if (!a->heads || !cache->heads || a->heads % cache->heads ||
        tv_dims_elements(r->shape) != (uint64_t)a->heads * cache->key_dim ||
        (tv_rule_has(r, 1) && (tv_dims_elements(tv_rule_shape(r, 1)) != (uint64_t)cache->heads * cache->key_dim ||
                               tv_dims_elements(tv_rule_shape(r, 2)) != (uint64_t)cache->heads * cache->value_dim)))
        return tv_rule_reject(r, "queries, keys or values do not fit the heads of the cache");
    *r->shape = (tv_graph_shape){2, {TV_DIM_TOKENS, (int64_t)a->heads * cache->value_dim}};
    return true;
}

bool tv_rule_moe(tv_rule *r)
{
    int64_t dim = tv_last_dim(r->shape), experts = tv_last_dim(tv_rule_shape(r, 1));
    if (!tv_rule_needs_rows(r, 0) || !tv_rule_needs_rows(r, 1))
        return false;
    for (unsigned i = 2; i < 5; i++)
        if (tv_graph_value_at(r->graph, r->node->inputs[i])->source != TV_VALUE_CONSTANT ||
            tv_graph_matrix(r->graph, r->node->inputs[i])->count != experts)
            return tv_rule_reject(r, "there is not one matrix for each expert");
    const tv_matrix *gate = tv_graph_matrix(r->graph, r->node->inputs[2]),
                    *up = tv_graph_matrix(r->graph, r->node->inputs[3]),
                    *down = tv_graph_matrix(r->graph, r->node->inputs[4]);
    if (gate->columns != dim || up->columns != dim || gate->rows != up->rows || down->columns != gate->rows ||
        down->rows != dim)
        return tv_rule_reject(r, "the matrices of the experts do not fit each other");
    bool in_range = r->node->attrs.experts_used >= 1 && r->node->attrs.experts_used <= experts;
    return in_range ? true : tv_rule_reject(r, "the number of experts used is out of range");
}
