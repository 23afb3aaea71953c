/* SPDX-License-Identifier: Apache-2.0 */
/* Removes pairs of QuantizeLinear and DequantizeLinear from networks that were quantized before.
 *
 * Such a pair states the range of a value: readers of the pair read the value itself, which the lowerings quantize
 * again with a scale from that range. The zero point is lost, because the machines have symmetric integers; a range of
 * only positive numbers so has one bit less. */
#include <math.h>
#include <stdlib.h>

#include "graph/passes.h"

/* A constant with data, or NULL. */
static const tv_tensor *constant_of(const tv_graph *g, uint32_t value)
{
    const tv_tensor *t = value == TV_NO_VALUE ? NULL : tv_graph_value_at(g, value)->tensor;
    return t && t->data ? t : NULL;
}

/* The same constant: one value, or equal elements. Both may be left out. */
static bool same_constant(const tv_graph *g, uint32_t a, uint32_t b)
{
    const tv_tensor *x = constant_of(g, a), *y = constant_of(g, b);
    if (a == b)
        return a == TV_NO_VALUE || x;
    if (!x || !y || x->element != y->element || tv_tensor_count(x) != tv_tensor_count(y))
        return false;
    return memcmp(x->data, y->data, tv_tensor_bytes(x)) == 0;
}

/* The smallest and largest integer of an element type. */
static void integer_limits(tv_element element, double *low, double *high)
{
    bool half = element == TV_ELEMENT_I4 || element == TV_ELEMENT_U4;
    int bits = half ? 4 : 8 * tv_element_infos[element].bytes;
    bool is_signed = tv_element_infos[element].kind == TV_KIND_SIGNED;
    *low = is_signed ? -ldexp(1, bits - 1) : 0;
    *high = ldexp(1, is_signed ? bits - 1 : bits) - 1;
}

/* The largest magnitude that a quantized value can have. */
static float range_of(const tv_graph *g, const tv_graph_node *quantize)
{
    const tv_tensor *scale = constant_of(g, quantize->inputs[1]), *zero = constant_of(g, quantize->inputs[2]);
    double low, high, range = 0;
    integer_limits(tv_graph_value_at(g, quantize->output)->element, &low, &high);
    for (uint64_t i = 0, n = tv_tensor_count(scale); i < n; i++) {
        double origin = zero ? tv_tensor_real(zero, tv_tensor_count(zero) == 1 ? 0 : i) : 0;
        range = fmax(range, fabs(tv_tensor_real(scale, i)) * fmax(origin - low, high - origin));
    }
    return (float)range;
}

/* The value that a DequantizeLinear restores, whose QuantizeLinear is stored in `out`; TV_NO_VALUE: it is none of a
 * pair. */
static uint32_t quantized_value(const tv_graph *g, const tv_graph_node *n, const tv_graph_node **out)
{
    const tv_graph_value *integers = tv_graph_value_at(g, n->inputs[0]);
    if (n->op != TV_OP_DEQUANTIZE_LINEAR || integers->source != TV_VALUE_COMPUTED)
        return TV_NO_VALUE;
    const tv_graph_node *q = *out = tv_graph_node_at(g, integers->producer);
    if (q->op != TV_OP_QUANTIZE_LINEAR || q->attrs.axis != n->attrs.axis || q->attrs.mode != n->attrs.mode ||
        !constant_of(g, q->inputs[1]) || (q->inputs[2] != TV_NO_VALUE && !constant_of(g, q->inputs[2])) ||
        !same_constant(g, q->inputs[1], n->inputs[1]) || !same_constant(g, q->inputs[2], n->inputs[2]) ||
        tv_graph_value_at(g, q->inputs[0])->element != tv_graph_value_at(g, n->output)->element)
        return TV_NO_VALUE;
    return q->inputs[0];
}

tv_status tv_graph_remove_pairs(tv_graph *graph, const tv_diag_sink *sink, float **out)
{
    size_t count = graph->values.count;
    uint32_t *replaced = malloc((count + 1) * sizeof *replaced);
    float *ranges = calloc(count + 1, sizeof *ranges);
    if (!replaced || !ranges) {
        free(replaced);
        free(ranges);
        return tv_fail_memory(sink);
    }
    for (uint32_t v = 0; v < count; v++)
        replaced[v] = v;
    for (size_t i = 0; i < graph->nodes.count; i++) { /* inputs come before outputs: values are replaced at once */
        tv_graph_node *n = &graph->nodes.data[i];
        const tv_graph_node *quantize;
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            n->inputs[k] = n->inputs[k] == TV_NO_VALUE ? TV_NO_VALUE : replaced[n->inputs[k]];
        uint32_t value = quantized_value(graph, n, &quantize);
        if (value == TV_NO_VALUE)
            continue;
        replaced[n->output] = value;
        ranges[value] = fmaxf(ranges[value], range_of(graph, quantize));
    }
    for (size_t i = 0; i < graph->outputs.count; i++)
        graph->outputs.data[i].value = replaced[graph->outputs.data[i].value];
    free(replaced);
    *out = ranges;
    return TV_OK;
}
