/* SPDX-License-Identifier: Apache-2.0 */
/* QUANTIZE_LINEAR and DEQUANTIZE_LINEAR. Quotients are rounded to binary32, or to binary64 for inputs of it, and then
 * to integers, ties to even. */
#include <math.h>

#include "graph/operator_table.h"

/* Which scale belongs to an element. */
typedef struct scale_index {
    uint64_t count;  /* number of scales; the others matter if there are several */
    uint64_t inner;  /* elements of x for one index of the axis */
    uint64_t axis;   /* extent of the axis */
    uint64_t block;  /* consecutive indices of the axis that have one scale */
    uint64_t scales; /* of one vector along the axis */
    bool blocks;     /* other axes have scales of their own */
} scale_index;

static scale_index index_scales(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), s = tv_input_tensor(r, 1);
    scale_index at = {.count = tv_tensor_count(&s), .inner = 1, .block = 1};
    if (at.count <= 1)
        return at;
    uint32_t axis = tv_attrs_of(r)->axis;
    for (uint32_t i = axis + 1; i < x.rank; i++)
        at.inner *= (uint64_t)x.dims[i];
    at.blocks = s.rank == x.rank;
    at.axis = (uint64_t)x.dims[axis];
    at.scales = (uint64_t)(at.blocks ? s.dims[axis] : x.dims[axis]);
    if (at.scales < at.axis)
        at.block = tv_attrs_of(r)->mode ? tv_attrs_of(r)->mode : (at.axis + at.scales - 1) / at.scales;
    return at;
}

static uint64_t scale_at(const scale_index *s, uint64_t i)
{
    if (s->count == 1)
        return 0;
    uint64_t vector = i / s->inner / s->axis, along = i / s->inner % s->axis / s->block;
    return s->blocks ? (vector * s->scales + along) * s->inner + i % s->inner : along;
}

bool tv_compute_QUANTIZE_LINEAR(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), scale = tv_input_tensor(r, 1), y = tv_output_tensor(r), zero = {0};
    bool wide = x.element == TV_ELEMENT_F64;
    scale_index index = index_scales(r);
    if (r->inputs[2])
        zero = tv_input_tensor(r, 2);
    for (uint64_t i = 0, n = tv_output_elements(r); i < n; i++) {
        uint64_t at = scale_at(&index, i);
        double value = tv_tensor_real(&x, i), divisor = tv_tensor_real(&scale, at);
        double rounded = nearbyint(wide ? value / divisor : (double)((float)value / (float)divisor));
        double zero_point = zero.data ? (double)tv_tensor_integer(&zero, at) : 0;
        tv_tensor_set_saturated(&y, i, (isnan(rounded) ? 0 : rounded) + zero_point);
    }
    return true;
}

bool tv_compute_DEQUANTIZE_LINEAR(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), scale = tv_input_tensor(r, 1), y = tv_output_tensor(r), zero = {0};
    bool wide = y.element == TV_ELEMENT_F64;
    scale_index index = index_scales(r);
    if (r->inputs[2])
        zero = tv_input_tensor(r, 2);
    for (uint64_t i = 0, n = tv_output_elements(r); i < n; i++) {
        uint64_t at = scale_at(&index, i);
        double difference = tv_tensor_real(&x, i) - (zero.data ? tv_tensor_real(&zero, at) : 0);
        tv_tensor_set_real(&y, i, (wide ? difference : (double)(float)difference) * tv_tensor_real(&scale, at));
    }
    return true;
}
