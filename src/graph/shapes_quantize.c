/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of operators between real numbers and quantized values. */
#include "graph/infer.h"

/* The scales have one element, one of each index of the axis, or one of each block of consecutive indices. */
static bool scales_fit(const tv_rule *r)
{
    const tv_graph_shape *x = r->shape, *s = tv_rule_shape(r, 1);
    uint32_t axis = r->node->attrs.axis;
    if (tv_dims_elements(s) == 1)
        return true;
    if (axis >= x->rank)
        return false;
    if (s->rank == 1 && s->dims[0] == x->dims[axis])
        return true;
    int64_t count = s->rank == x->rank ? s->dims[axis] : 0, extent = x->dims[axis], block = r->node->attrs.mode;
    if (count < 1 || extent < 1)
        return false;
    block = block ? block : (extent - 1) / count + 1;
    bool fits = (extent - 1) / block + 1 == count;
    for (uint32_t i = 0; i < x->rank && fits; i++)
        fits = i == axis || x->dims[i] == s->dims[i];
    return fits;
}

static bool check_scales(tv_rule *r)
{
    if (tv_has_symbol(r->shape) || tv_has_symbol(tv_rule_shape(r, 1)) || !scales_fit(r))
        return tv_rule_reject(r, "the scale is neither one number nor one for each index or block of the axis");
    if (tv_rule_has(r, 2) && !tv_same_dims(tv_rule_shape(r, 2), tv_rule_shape(r, 1)))
        return tv_rule_reject(r, "the zero point has another shape than the scale");
    return true;
}

bool tv_rule_quantize(tv_rule *r)
{
    if (!tv_is_real_element(tv_rule_input(r, 1)->element))
        return tv_rule_reject(r, "the scale is no real number");
    r->element = tv_rule_has(r, 2) ? tv_rule_input(r, 2)->element : r->node->attrs.to;
    if (!tv_is_integer_element(r->element))
        return tv_rule_reject(r, "the output is not of integers");
    return check_scales(r);
}

bool tv_rule_dequantize(tv_rule *r)
{
    if (!tv_is_real_element(tv_rule_input(r, 1)->element))
        return tv_rule_reject(r, "the scale is no real number");
    if (!tv_is_integer_element(r->element))
        return tv_rule_reject(r, "the input is not of integers");
    if (tv_rule_has(r, 2) && tv_rule_input(r, 2)->element != r->element)
        return tv_rule_reject(r, "the zero point is not of the type of the input");
    r->element = tv_rule_input(r, 1)->element;
    return check_scales(r);
}
