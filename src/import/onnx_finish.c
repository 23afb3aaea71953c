/* SPDX-License-Identifier: Apache-2.0 */
/* Copies what the outputs need to a new graph: constants that were computed with, and nodes whose results are not used,
 * are left out. The inputs of a node have smaller numbers than its output. */
#include "import/onnx_finish.h"

static bool *find_used(const tv_graph *g)
{
    bool *used = calloc(g->values.count + 1, sizeof *used);
    for (size_t i = 0; i < g->outputs.count && used; i++)
        used[g->outputs.data[i].value] = true;
    for (size_t i = g->nodes.count; i-- > 0 && used;)
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (used[g->nodes.data[i].output] && g->nodes.data[i].inputs[k] != TV_NO_VALUE)
                used[g->nodes.data[i].inputs[k]] = true;
    return used;
}

static uint32_t copy_node(tv_graph_builder *to, const tv_graph *g, const tv_graph_value *v, const uint32_t *numbers)
{
    const tv_graph_node *node = tv_graph_node_at(g, v->producer);
    uint32_t inputs[TV_GRAPH_INPUTS_MAX];
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        inputs[k] = node->inputs[k] == TV_NO_VALUE ? TV_NO_VALUE : numbers[node->inputs[k]];
    return tv_graph_add(to, node->op, v->name, inputs, TV_GRAPH_INPUTS_MAX, &node->attrs);
}

static uint32_t copy_value(tv_graph_builder *to, const tv_graph *g, uint32_t value, const uint32_t *numbers)
{
    const tv_graph_value *v = tv_graph_value_at(g, value);
    switch (v->source) {
    case TV_VALUE_CONSTANT:
        return tv_graph_tensor(to, v->name, v->tensor, false);
    case TV_VALUE_INPUT:
        return tv_graph_input(to, v->name, v->element, &v->shape);
    case TV_VALUE_COMPUTED:
        return copy_node(to, g, v, numbers);
    case TV_VALUE_TOKENS:
    case TV_VALUE_POSITIONS:
        break;
    }
    return TV_NO_VALUE;
}

/* Copies the values that are used; `numbers` receives their new numbers. */
static void copy_values(tv_onnx_context *c, tv_graph_builder *to, const bool *used, uint32_t *numbers)
{
    const tv_graph *g = c->builder.graph;
    size_t at = 0;
    for (uint32_t v = 0; v < g->values.count; v++) {
        bool input = g->values.data[v].source == TV_VALUE_INPUT;
        numbers[v] = used[v] || input ? copy_value(to, g, v, numbers) : TV_NO_VALUE;
        if (at < c->storage.count && c->storage.data[at].value == v) {
            free(c->storage.data[at].data);
            c->storage.data[at++].data = NULL;
        }
    }
}

tv_status tv_onnx_finish(tv_onnx_context *c, tv_graph **out)
{
    const tv_graph *g = c->builder.graph;
    tv_graph_builder to;
    bool *used = find_used(g);
    uint32_t *numbers = calloc(g->values.count + 1, sizeof *numbers);
    tv_graph_begin(&to, 0, 0, c->sink);
    to.block = TV_BLOCK_NONE;
    if ((!used || !numbers) && to.status == TV_OK)
        to.status = tv_fail_memory(c->sink);
    if (to.status == TV_OK)
        copy_values(c, &to, used, numbers);
    for (size_t i = 0; i < g->outputs.count && to.status == TV_OK; i++)
        tv_graph_add_output(&to, g->outputs.data[i].name, numbers[g->outputs.data[i].value]);
    free(used);
    free(numbers);
    return tv_graph_finish(&to, TV_NO_VALUE, out);
}
