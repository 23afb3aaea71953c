/* SPDX-License-Identifier: Apache-2.0 */
/* Verifies graphs. */
#include <inttypes.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "graph/graph.h"

static tv_status reject_node(const tv_graph *graph, uint32_t n, const tv_diag_sink *sink, const char *problem)
{
    const tv_graph_node *node = tv_graph_node_at(graph, n);
    char block[TV_BLOCK_NAME_MAX];
    const char *output = node->output < graph->values.count ? graph->values.data[node->output].name : "?";
    tv_graph_block_name(node->block, block);
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(GRAPH), NULL, "node %s.%s (%s): %s", block, output,
                   node->op < TV_OPS ? tv_graph_op_infos[node->op].name : "?", problem);
}

static bool same_shape(const tv_graph_shape *a, const tv_graph_shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static tv_status verify_node(const tv_graph *g, uint32_t n, bool *written, const tv_diag_sink *sink)
{
    const tv_graph_node *node = tv_graph_node_at(g, n);
    tv_graph_value inferred;
    const char *problem;
    if (node->op >= TV_OPS)
        return reject_node(g, n, sink, "unknown operator");
    if (node->block >= g->layers && node->block != TV_BLOCK_INPUT && node->block != TV_BLOCK_OUTPUT &&
        node->block != TV_BLOCK_NONE)
        return reject_node(g, n, sink, "no such layer");
    if (!tv_graph_infer(g, node, &inferred, &problem))
        return reject_node(g, n, sink, problem);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        if (node->inputs[k] != TV_NO_VALUE && !written[node->inputs[k]])
            return reject_node(g, n, sink, "an input is read before it is written");
    if (node->output >= g->values.count || written[node->output])
        return reject_node(g, n, sink, "the output is missing, or written twice");
    const tv_graph_value *output = tv_graph_value_at(g, node->output);
    if (!same_shape(&output->shape, &inferred.shape) || output->producer != n)
        return reject_node(g, n, sink, "the output has not the shape that follows from the inputs");
    if (output->element != inferred.element)
        return reject_node(g, n, sink, "the output has not the element type that follows from the inputs");
    written[node->output] = true;
    return TV_OK;
}

tv_status tv_graph_verify(const tv_graph *graph, const tv_diag_sink *sink)
{
    bool *written = calloc(graph->values.count + 1, sizeof *written);
    tv_status status = written ? TV_OK : tv_fail_memory(sink);
    for (size_t i = 0; i < graph->values.count && status == TV_OK; i++)
        written[i] = graph->values.data[i].source != TV_VALUE_COMPUTED;
    for (uint32_t i = 0; i < graph->nodes.count && status == TV_OK; i++)
        status = verify_node(graph, i, written, sink);
    if (status == TV_OK && !graph->outputs.count && (graph->logits >= graph->values.count || !written[graph->logits]))
        status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(GRAPH), NULL, "no node computes the logits");
    for (size_t i = 0; i < graph->outputs.count && status == TV_OK; i++)
        if (graph->outputs.data[i].value >= graph->values.count || !written[graph->outputs.data[i].value])
            status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(GRAPH), NULL, "no node computes the output '%s'",
                             graph->outputs.data[i].name);
    for (uint32_t i = 0; i < graph->layers && status == TV_OK; i++)
        if (graph->layer_outputs[i] >= graph->values.count || !written[graph->layer_outputs[i]])
            status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(GRAPH), NULL, "layer %" PRIu32 " has no output", i);
    free(written);
    return status;
}
