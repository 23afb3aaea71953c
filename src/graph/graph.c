/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of operators and activations; reads graphs. */
#include "graph/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const tv_graph_op_info tv_graph_op_infos[TV_OPS] = {
#define TV_GRAPH_OP(id, name, class, inputs, optional, shape, attributes, meaning)                                     \
    [TV_OP_##id] = {name, attributes, meaning, inputs, optional, TV_CLASS_##class},
#include "graph/ops.def"
#undef TV_GRAPH_OP
};

const char *const tv_activation_names[TV_ACTIVATIONS] = {"none",       "Relu",    "Swish", "Gelu",
                                                         "Gelu(tanh)", "Sigmoid", "Tanh",  "Clip"};

void tv_graph_free(tv_graph *graph)
{
    if (!graph)
        return;
    TV_VEC_FINI(&graph->values);
    TV_VEC_FINI(&graph->nodes);
    TV_VEC_FINI(&graph->caches);
    TV_VEC_FINI(&graph->inputs);
    TV_VEC_FINI(&graph->outputs);
    tv_arena_fini(&graph->arena);
    free(graph);
}

/* ---- Reading ---- */

uint32_t tv_graph_input_count(const tv_graph_node *node)
{
    uint32_t count = TV_GRAPH_INPUTS_MAX;
    while (count > 0 && node->inputs[count - 1] == TV_NO_VALUE)
        count--;
    return count;
}

uint32_t tv_graph_columns(const tv_graph *graph, uint32_t value)
{
    const tv_graph_shape *s = &tv_graph_value_at(graph, value)->shape;
    return s->rank && s->dims[s->rank - 1] > 0 ? (uint32_t)s->dims[s->rank - 1] : 1;
}

uint64_t tv_graph_elements(const tv_graph *graph, uint32_t value)
{
    const tv_graph_shape *s = &tv_graph_value_at(graph, value)->shape;
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n *= s->dims[i] < 0 ? 1 : (uint64_t)s->dims[i];
    return n;
}

tv_tensor tv_graph_tensor_of(const tv_graph *graph, uint32_t value)
{
    const tv_graph_value *v = tv_graph_value_at(graph, value);
    tv_tensor t = {.element = v->element, .rank = v->shape.rank};
    for (uint32_t i = 0; i < t.rank; i++)
        t.dims[i] = v->shape.dims[i] < 0 ? 1 : v->shape.dims[i];
    return t;
}

bool tv_graph_per_token(const tv_graph *graph, uint32_t value)
{
    const tv_graph_shape *s = &tv_graph_value_at(graph, value)->shape;
    return s->rank && s->dims[0] == TV_DIM_TOKENS;
}

uint32_t tv_graph_uses(const tv_graph *graph, uint32_t value)
{
    uint32_t uses = value == graph->logits;
    for (size_t i = 0; i < graph->outputs.count; i++)
        uses += graph->outputs.data[i].value == value;
    for (size_t i = 0; i < graph->nodes.count; i++)
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            uses += graph->nodes.data[i].inputs[k] == value;
    return uses;
}

void tv_graph_block_name(uint32_t block, char text[TV_BLOCK_NAME_MAX])
{
    if (block == TV_BLOCK_INPUT)
        snprintf(text, TV_BLOCK_NAME_MAX, "token_embd");
    else if (block == TV_BLOCK_OUTPUT)
        snprintf(text, TV_BLOCK_NAME_MAX, "output");
    else if (block == TV_BLOCK_NONE)
        text[0] = '\0';
    else
        snprintf(text, TV_BLOCK_NAME_MAX, "blk.%" PRIu32, block % 1000000); /* bounds the text */
}

void tv_graph_value_name(const tv_graph *graph, uint32_t value, char text[TV_VALUE_NAME_MAX])
{
    const tv_graph_value *v = tv_graph_value_at(graph, value);
    char block[TV_BLOCK_NAME_MAX];
    tv_graph_block_name(v->block, block);
    if (v->source == TV_VALUE_CONSTANT)
        snprintf(text, TV_VALUE_NAME_MAX, "%s", v->matrix.name);
    else if (v->block == TV_BLOCK_NONE)
        snprintf(text, TV_VALUE_NAME_MAX, "%s", v->name);
    else
        snprintf(text, TV_VALUE_NAME_MAX, "%s.%s", block, v->name);
}

/* True when an earlier constant outside of layers is the same tensor. */
static bool is_repeated(const tv_graph *graph, uint32_t value)
{
    const tv_graph_value *v = &graph->values.data[value];
    for (uint32_t i = 0; i < value && v->block >= graph->layers; i++) {
        const tv_graph_value *other = &graph->values.data[i];
        if (other->source == TV_VALUE_CONSTANT && other->block >= graph->layers &&
            strcmp(other->matrix.name, v->matrix.name) == 0 && other->matrix.first == v->matrix.first)
            return true;
    }
    return false;
}

uint64_t tv_graph_parameters(const tv_graph *graph)
{
    uint64_t parameters = 0;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const tv_graph_value *v = &graph->values.data[i];
        bool weights = v->source == TV_VALUE_CONSTANT && !v->tensor && !v->matrix.values;
        if (v->tensor && v->element == TV_ELEMENT_F32)
            parameters += tv_tensor_count(v->tensor);
        else if (weights && !is_repeated(graph, i))
            parameters += (uint64_t)v->matrix.rows * v->matrix.columns * v->matrix.count;
    }
    return parameters;
}
