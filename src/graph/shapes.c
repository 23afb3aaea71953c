/* SPDX-License-Identifier: Apache-2.0 */
/* Infers shape and element type of the output of a node. */
#include <string.h>

#include "graph/infer.h"
#include "graph/operators.h"

static bool (*const rules[TV_OPS])(tv_rule *r) = {
#define TV_GRAPH_OP(id, name, class, inputs, optional, shape, attributes, meaning) [TV_OP_##id] = tv_rule_##shape,
#include "graph/ops.def"
#undef TV_GRAPH_OP
};

static bool is_step_index(const tv_rule *r, unsigned input)
{
    tv_value_source source = tv_rule_input(r, input)->source;
    return source == TV_VALUE_TOKENS || source == TV_VALUE_POSITIONS;
}

static bool check_inputs(tv_rule *r)
{
    const tv_graph_op_info *info = &tv_graph_op_infos[r->node->op];
    const uint32_t *inputs = r->node->inputs;
    for (uint32_t i = 0; i < TV_GRAPH_INPUTS_MAX; i++) {
        if (i < info->inputs && inputs[i] == TV_NO_VALUE)
            return tv_rule_reject(r, "an input is missing");
        if (i >= (unsigned)info->inputs + info->optional && inputs[i] != TV_NO_VALUE)
            return tv_rule_reject(r, "there are too many inputs");
        if (inputs[i] != TV_NO_VALUE && inputs[i] >= r->graph->values.count)
            return tv_rule_reject(r, "an input does not exist");
        if (inputs[i] != TV_NO_VALUE && is_step_index(r, i) && r->node->op != TV_OP_GATHER)
            return tv_rule_reject(r, "only Gather reads token numbers or positions");
    }
    return true;
}

/* Operators that compute in binary32 have real inputs of any type, Conv and MatMul also integers; those of language
 * models have binary32. */
static bool check_elements(tv_rule *r)
{
    bool model = tv_graph_op_infos[r->node->op].class == TV_CLASS_MODEL;
    bool product = r->node->op == TV_OP_CONV || r->node->op == TV_OP_MATMUL;
    bool integers = product && tv_is_integer_element(tv_rule_input(r, 0)->element);
    if (!model && !tv_operator_is_f32(r->node->op))
        return true;
    for (uint32_t i = 0; i < tv_graph_input_count(r->node); i++) {
        if (!tv_rule_has(r, i))
            continue;
        tv_element element = tv_rule_input(r, i)->element;
        if (model && element != TV_ELEMENT_F32)
            return tv_rule_reject(r, "an input is not of binary32");
        if (integers ? !tv_is_integer_element(element) : !tv_is_real_element(element))
            return tv_rule_reject(r, integers ? "the inputs are not all of integers" : "an input is no real number");
    }
    return true;
}

/* False when the elements of a tensor of this shape cannot be counted. */
static bool fits(const tv_graph_value *v)
{
    tv_graph_shape s = v->shape;
    for (uint32_t i = 0; i < s.rank; i++)
        s.dims[i] = s.dims[i] == TV_DIM_TOKENS || s.dims[i] == TV_DIM_BATCH ? 1 : s.dims[i];
    return tv_tensor_fits(v->element, s.rank, s.dims);
}

bool tv_graph_infer(const tv_graph *graph, const tv_graph_node *node, tv_graph_value *out, const char **problem)
{
    tv_rule r = {.graph = graph, .node = node, .shape = &out->shape};
    bool ok = check_inputs(&r) && check_elements(&r);
    if (ok) {
        *r.shape = *tv_rule_shape(&r, 0);
        r.element = tv_rule_input(&r, 0)->element;
        ok = rules[node->op](&r);
        out->element = r.element;
        if (ok && !fits(out))
            ok = tv_rule_reject(&r, "the output has more elements than memory can have");
    }
    *problem = r.problem;
    return ok;
}
