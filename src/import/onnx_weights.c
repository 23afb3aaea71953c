/* SPDX-License-Identifier: Apache-2.0 */
/* An input of real numbers is a weight when every node that reads it reads it as one: as a later operand of a product
 * or a normalization, as the table of Gather, or beside a computed value in Add, Mul or Concat. */
#include "import/onnx_weights.h"

#include <stdlib.h>

#include "base/vec.h"
#include "import/onnx_nodes.h"

typedef enum use { USE_DATA, USE_OPERAND, USE_TABLE, USE_ELEMENTS, USE_MOVED } use;

/* How operators read their inputs. */
static const struct {
    const char *op;
    use first, other;
} uses[] = {
    {"Conv", USE_DATA, USE_OPERAND},
    {"ConvTranspose", USE_DATA, USE_OPERAND},
    {"Gemm", USE_DATA, USE_OPERAND},
    {"MatMul", USE_DATA, USE_OPERAND},
    {"BatchNormalization", USE_DATA, USE_OPERAND},
    {"LayerNormalization", USE_DATA, USE_OPERAND},
    {"InstanceNormalization", USE_DATA, USE_OPERAND},
    {"GroupNormalization", USE_DATA, USE_OPERAND},
    {"PRelu", USE_DATA, USE_OPERAND},
    {"Gather", USE_TABLE, USE_DATA},
    {"Add", USE_ELEMENTS, USE_ELEMENTS},
    {"Mul", USE_ELEMENTS, USE_ELEMENTS},
    {"Concat", USE_ELEMENTS, USE_ELEMENTS},
    {"Transpose", USE_MOVED, USE_DATA},
    {"Reshape", USE_MOVED, USE_DATA},
};

static use use_of(const Onnx__NodeProto *n, size_t input)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (n->op_type && strcmp(uses[i].op, n->op_type) == 0)
            return input ? uses[i].other : uses[i].first;
    return USE_DATA;
}

/* Another operand is computed by a node. */
static bool has_computed_operand(const tv_onnx_names *computed, const Onnx__NodeProto *n, size_t input)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (i != input && *n->input[i] && tv_onnx_names_find(computed, n->input[i])->name)
            return true;
    return false;
}

static bool is_weight_use(const tv_onnx_names *computed, const Onnx__NodeProto *n, size_t input)
{
    switch (use_of(n, input)) {
    case USE_DATA:
        return false;
    case USE_OPERAND:
    case USE_TABLE:
    case USE_MOVED:
        return true;
    case USE_ELEMENTS:
        return has_computed_operand(computed, n, input);
    }
    return false;
}

static void add_computed(const tv_onnx_names *computed, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            tv_onnx_names_find(computed, g->node[i]->output[k])->name = g->node[i]->output[k];
}

/* The reads of inputs by nodes: `value` of an input's name is its number. */
static void check_uses(const tv_onnx_names *inputs, const tv_onnx_names *computed, const Onnx__GraphProto *g,
                       bool *weights)
{
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_input; k++) {
            const tv_onnx_name *input = tv_onnx_names_find(inputs, g->node[i]->input[k]);
            if (input->name && !is_weight_use(computed, g->node[i], k))
                weights[input->value] = false;
        }
}

bool *tv_onnx_find_weights(const Onnx__GraphProto *g)
{
    bool *weights = calloc(g->n_input + 1, sizeof *weights);
    size_t outputs = 0;
    for (size_t i = 0; i < g->n_node; i++)
        outputs += g->node[i]->n_output;
    tv_onnx_names inputs = {0}, computed = {0};
    bool ok = tv_onnx_names_init(&inputs, g->n_input) && tv_onnx_names_init(&computed, outputs) && weights;
    for (size_t i = 0; i < g->n_input && ok; i++) {
        const Onnx__TypeProto *type = g->input[i]->type;
        tv_element element;
        bool tensor = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && type->tensor_type;
        weights[i] = g->input[i]->name && tensor && tv_element_of_onnx(type->tensor_type->elem_type, &element) &&
                     tv_is_real_element(element);
        if (g->input[i]->name)
            *tv_onnx_names_find(&inputs, g->input[i]->name) = (tv_onnx_name){g->input[i]->name, (uint32_t)i, NULL};
    }
    if (ok) {
        add_computed(&computed, g);
        check_uses(&inputs, &computed, g, weights);
    }
    free(inputs.slots);
    free(computed.slots);
    if (!ok) {
        free(weights);
        return NULL;
    }
    return weights;
}
