/* SPDX-License-Identifier: Apache-2.0 */
/* Builds graphs node by node. */
#include <stdlib.h>

#include "graph/codes.h"
#include "graph/graph.h"

static uint32_t fail_memory(tv_graph_builder *b)
{
    if (b->status == TV_OK)
        b->status = tv_fail_memory(b->sink);
    return TV_NO_VALUE;
}

void tv_graph_begin(tv_graph_builder *b, uint32_t layers, uint32_t context, const tv_diag_sink *sink)
{
    *b = (tv_graph_builder){.graph = calloc(1, sizeof *b->graph), .sink = sink, .block = TV_BLOCK_INPUT};
    if (b->graph) {
        b->graph->layers = layers;
        b->graph->context = context;
        b->graph->logits = TV_NO_VALUE;
        b->graph->layer_outputs = tv_arena_alloc(&b->graph->arena, (layers + 1) * sizeof *b->graph->layer_outputs);
    }
    if (!b->graph || !b->graph->layer_outputs)
        fail_memory(b);
    for (uint32_t i = 0; i < layers && b->status == TV_OK; i++)
        b->graph->layer_outputs[i] = TV_NO_VALUE;
}

/* Appends a value; its name is copied. */
static uint32_t add_value(tv_graph_builder *b, const char *name, const tv_graph_value *value)
{
    tv_graph *g = b->graph;
    if (b->status != TV_OK)
        return TV_NO_VALUE;
    char *copy = tv_arena_str(&g->arena, tv_sv_of(name));
    if (!copy || !TV_VEC_PUSH(&g->values, *value))
        return fail_memory(b);
    tv_graph_value *added = TV_VEC_LAST(&g->values);
    added->name = copy;
    added->block = b->block;
    return (uint32_t)g->values.count - 1;
}

static uint32_t add_index(tv_graph_builder *b, tv_value_source source, const char *name)
{
    return add_value(b, name,
                     &(tv_graph_value){.element = TV_ELEMENT_I32,
                                       .source = source,
                                       .shape = {.rank = 1, .dims = {TV_DIM_TOKENS}},
                                       .producer = TV_NO_VALUE});
}

uint32_t tv_graph_tokens(tv_graph_builder *b) { return add_index(b, TV_VALUE_TOKENS, "tokens"); }

uint32_t tv_graph_positions(tv_graph_builder *b) { return add_index(b, TV_VALUE_POSITIONS, "positions"); }

uint32_t tv_graph_constant(tv_graph_builder *b, const char *name, const tv_matrix *matrix)
{
    tv_graph_value value = {.source = TV_VALUE_CONSTANT, .matrix = *matrix, .producer = TV_NO_VALUE};
    if (matrix->count > 1)
        value.shape.dims[value.shape.rank++] = matrix->count;
    if (matrix->count > 1 || matrix->rows > 1)
        value.shape.dims[value.shape.rank++] = matrix->rows;
    value.shape.dims[value.shape.rank++] = matrix->columns;
    uint32_t at = add_value(b, name, &value);
    if (at == TV_NO_VALUE)
        return at;
    tv_graph_value *added = tv_graph_value_at(b->graph, at);
    added->matrix.name = matrix->name ? tv_arena_str(&b->graph->arena, tv_sv_of(matrix->name)) : added->name;
    return added->matrix.name ? at : fail_memory(b);
}

uint32_t tv_graph_scalar(tv_graph_builder *b, const char *name, float value)
{
    if (b->status != TV_OK)
        return TV_NO_VALUE;
    float *copy = tv_arena_alloc(&b->graph->arena, sizeof *copy);
    if (!copy)
        return fail_memory(b);
    *copy = value;
    return tv_graph_constant(b, name, &(tv_matrix){.values = copy, .rows = 1, .columns = 1, .count = 1});
}

uint32_t tv_graph_tensor(tv_graph_builder *b, const char *name, const tv_tensor *tensor, bool share)
{
    if (b->status != TV_OK)
        return TV_NO_VALUE;
    tv_tensor *copy = tv_arena_alloc(&b->graph->arena, sizeof *copy);
    void *data = NULL;
    if (copy && tensor->data && !share)
        data = tv_arena_alloc(&b->graph->arena, tv_tensor_bytes(tensor) + 1);
    if (!copy || (tensor->data && !share && !data))
        return fail_memory(b);
    *copy = *tensor;
    copy->storage = NULL;
    if (data)
        copy->data = memcpy(data, tensor->data, tv_tensor_bytes(tensor));
    tv_graph_value value = {
        .source = TV_VALUE_CONSTANT, .element = tensor->element, .tensor = copy, .producer = TV_NO_VALUE};
    value.shape.rank = tensor->rank;
    memcpy(value.shape.dims, tensor->dims, sizeof tensor->dims);
    uint64_t columns = tensor->rank ? (uint64_t)tensor->dims[tensor->rank - 1] : 1, count = tv_tensor_count(tensor);
    if (tensor->element == TV_ELEMENT_F32 && count && columns <= UINT32_MAX && count / columns <= UINT32_MAX)
        value.matrix = (tv_matrix){
            .values = copy->data, .rows = (uint32_t)(count / columns), .columns = (uint32_t)columns, .count = 1};
    uint32_t at = add_value(b, name, &value);
    if (at != TV_NO_VALUE)
        tv_graph_value_at(b->graph, at)->matrix.name = tv_graph_value_at(b->graph, at)->name;
    return at;
}

uint32_t tv_graph_input(tv_graph_builder *b, const char *name, tv_element element, const tv_graph_shape *shape)
{
    tv_graph_value value = {.source = TV_VALUE_INPUT, .element = element, .shape = *shape, .producer = TV_NO_VALUE};
    uint32_t at = add_value(b, name, &value);
    if (at != TV_NO_VALUE && !TV_VEC_PUSH(&b->graph->inputs, at))
        return fail_memory(b);
    return at;
}

void tv_graph_add_output(tv_graph_builder *b, const char *name, uint32_t value)
{
    if (b->status != TV_OK)
        return;
    char *copy = tv_arena_str(&b->graph->arena, tv_sv_of(name));
    if (!copy || !TV_VEC_PUSH(&b->graph->outputs, ((tv_graph_output){copy, value})))
        fail_memory(b);
}

uint32_t tv_graph_add_cache(tv_graph_builder *b, tv_graph_cache cache)
{
    if (b->status != TV_OK)
        return TV_NO_VALUE;
    return TV_VEC_PUSH(&b->graph->caches, cache) ? (uint32_t)b->graph->caches.count - 1 : fail_memory(b);
}

static bool copy_lists(tv_graph_builder *b, tv_graph_attrs *attrs)
{
    tv_graph_lists *lists = tv_arena_alloc(&b->graph->arena, sizeof *lists);
    if (!lists)
        return fail_memory(b) != TV_NO_VALUE;
    *lists = *attrs->lists;
    attrs->lists = lists;
    return true;
}

uint32_t tv_graph_add(tv_graph_builder *b, tv_graph_op op, const char *name, const uint32_t *inputs, uint32_t count,
                      const tv_graph_attrs *attrs)
{
    tv_graph *g = b->graph;
    tv_graph_node node = {.op = op, .block = b->block, .output = TV_NO_VALUE};
    tv_graph_value output = {.producer = 0};
    const char *problem;
    if (b->status != TV_OK)
        return TV_NO_VALUE;
    for (uint32_t i = 0; i < TV_GRAPH_INPUTS_MAX; i++)
        node.inputs[i] = i < count ? inputs[i] : TV_NO_VALUE;
    if (attrs)
        node.attrs = *attrs;
    if (!tv_graph_infer(g, &node, &output, &problem)) {
        char block[TV_BLOCK_NAME_MAX];
        tv_graph_block_name(b->block, block);
        b->status = tv_fail(b->sink, TV_ERR_INPUT, TV_LLM_CODE(GRAPH), NULL, "node %s%s%s (%s): %s", block,
                            block[0] ? "." : "", name, tv_graph_op_infos[op].name, problem);
        return TV_NO_VALUE;
    }
    if (node.attrs.lists && !copy_lists(b, &node.attrs))
        return TV_NO_VALUE;
    output.producer = (uint32_t)g->nodes.count;
    node.output = add_value(b, name, &output);
    if (node.output != TV_NO_VALUE && !TV_VEC_PUSH(&g->nodes, node))
        return fail_memory(b);
    return node.output;
}

uint32_t tv_graph_add1(tv_graph_builder *b, tv_graph_op op, const char *name, uint32_t input)
{
    return tv_graph_add(b, op, name, &input, 1, NULL);
}

uint32_t tv_graph_add2(tv_graph_builder *b, tv_graph_op op, const char *name, uint32_t first, uint32_t second)
{
    return tv_graph_add(b, op, name, (uint32_t[]){first, second}, 2, NULL);
}

void tv_graph_end_layer(tv_graph_builder *b, uint32_t output)
{
    if (b->status == TV_OK)
        b->graph->layer_outputs[b->block] = output;
}

void tv_graph_abandon(tv_graph_builder *b)
{
    tv_graph_free(b->graph);
    b->graph = NULL;
}

tv_status tv_graph_finish(tv_graph_builder *b, uint32_t logits, tv_graph **out)
{
    if (b->status == TV_OK) {
        b->graph->logits = logits;
        b->status = tv_graph_verify(b->graph, b->sink);
    }
    if (b->status != TV_OK) {
        tv_graph_abandon(b);
        return b->status;
    }
    *out = b->graph;
    b->graph = NULL;
    return TV_OK;
}
