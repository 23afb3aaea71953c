/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatches nodes to the functions of their operators.
 *
 * Operators with sums compute in binary32 only. Their real operands of other types are converted to it and the result
 * back, so that binary16 and bfloat16 are rounded once, at the end, and binary64 has the precision and range of
 * binary32, but for MatMul. All others compute in the type of their operands (operators.h). */
#include <stdlib.h>

#include "graph/operator_table.h"

static bool (*const functions[TV_OPS])(const tv_operator_row *row) = {
#define TV_GRAPH_OP(id, name, class, inputs, optional, shape, attributes, meaning) [TV_OP_##id] = tv_compute_##id,
#include "graph/ops.def"
#undef TV_GRAPH_OP
};

bool tv_operator_is_f32(tv_graph_op op)
{
    switch (op) {
    case TV_OP_GEMM:
    case TV_OP_LINEAR:
    case TV_OP_GLU:
    case TV_OP_CONV:   /* of integers modulo 2^32 */
    case TV_OP_MATMUL: /* the same; of binary64 in it */
    case TV_OP_CONV_TRANSPOSE:
    case TV_OP_AVERAGE_POOL:
    case TV_OP_SOFTMAX:
    case TV_OP_LOG_SOFTMAX:
    case TV_OP_RMS_NORMALIZATION:
    case TV_OP_LAYER_NORMALIZATION:
    case TV_OP_NORM:
        return true;
    default: /* any element type */
        return false;
    }
}

/* ---- Operands of other real types ---- */

/* A node as the only one of a graph in which it has operands of binary32. The last value is the output. */
typedef struct f32_node {
    tv_graph graph;
    tv_graph_node node;
    tv_graph_value values[TV_GRAPH_INPUTS_MAX + 1];
    tv_tensor operands[TV_GRAPH_INPUTS_MAX + 1]; /* those that differ in type, owned */
} f32_node;

static bool is_other_real(const tv_graph_value *v)
{
    return tv_is_real_element(v->element) && v->element != TV_ELEMENT_F32;
}

static bool needs_f32(const tv_operator_row *r)
{
    const tv_graph_value *output = tv_graph_value_at(r->graph, r->node->output);
    bool other = is_other_real(output);
    if (r->node->op == TV_OP_MATMUL && output->element == TV_ELEMENT_F64)
        return false;
    for (unsigned k = 0; k < tv_graph_input_count(r->node) && !other; k++)
        other = r->node->inputs[k] != TV_NO_VALUE && is_other_real(tv_graph_value_at(r->graph, r->node->inputs[k]));
    return other;
}

static void convert_elements(const tv_tensor *from, tv_tensor *to)
{
    for (uint64_t i = 0, n = tv_tensor_count(from); i < n; i++)
        tv_tensor_set_real(to, i, tv_tensor_real(from, i));
}

/* Copies value `v` of the row's graph to number `k`, and gives it storage of binary32 if it is of another type. False:
 * no memory. */
static bool add_value(f32_node *f, const tv_operator_row *r, uint32_t v, unsigned k)
{
    tv_tensor type = tv_graph_tensor_of(r->graph, v);
    f->values[k] = *tv_graph_value_at(r->graph, v);
    if (!is_other_real(&f->values[k]))
        return true;
    f->values[k].element = TV_ELEMENT_F32;
    return tv_tensor_init(&f->operands[k], TV_ELEMENT_F32, type.rank, type.dims, NULL) == TV_OK;
}

static bool compute_in_f32(const tv_operator_row *r)
{
    enum { OUTPUT = TV_GRAPH_INPUTS_MAX };
    f32_node f = {.node = *r->node};
    tv_operator_row row = *r;
    f.graph.values.data = f.values;
    f.graph.values.count = OUTPUT + 1;
    f.node.output = OUTPUT;
    row.graph = &f.graph;
    row.node = &f.node;
    bool ok = add_value(&f, r, r->node->output, OUTPUT);
    for (unsigned k = 0; k < OUTPUT && ok; k++) {
        if (r->node->inputs[k] == TV_NO_VALUE)
            continue;
        ok = add_value(&f, r, r->node->inputs[k], k);
        f.node.inputs[k] = k;
        if (!ok || !f.operands[k].data || !r->inputs[k])
            continue;
        tv_tensor from = tv_input_tensor(r, k);
        convert_elements(&from, &f.operands[k]);
        row.inputs[k] = f.operands[k].data;
    }
    if (f.operands[OUTPUT].data)
        row.output = f.operands[OUTPUT].data;
    ok = ok && functions[r->node->op](&row);
    if (ok && f.operands[OUTPUT].data) {
        tv_tensor to = tv_output_tensor(r);
        convert_elements(&f.operands[OUTPUT], &to);
    }
    for (unsigned k = 0; k <= OUTPUT; k++)
        tv_tensor_fini(&f.operands[k]);
    return ok;
}

bool tv_operator_compute(const tv_operator_row *row)
{
    if (tv_operator_is_f32(row->node->op) && needs_f32(row))
        return compute_in_f32(row);
    return functions[row->node->op](row);
}
