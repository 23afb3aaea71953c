/* SPDX-License-Identifier: Apache-2.0 */
/* Adds operators to the graph. What depends on constants alone is computed at once, within bounds; with a constant that
 * has no data it is a constant without data. */
#include <inttypes.h>
#include <stdio.h>

#include "graph/network.h"
#include "import/onnx_nodes.h"

enum { NAME_SHOWN = 160 };

/* The name of a new value: that of the node's first output with a number. */
static void make_name(tv_onnx_node *n, char name[NAME_SHOWN + 16])
{
    const char *output = n->proto->n_output ? n->proto->output[0] : "";
    snprintf(name, NAME_SHOWN + 16, "%.*s/%" PRIu32, NAME_SHOWN, output, n->made++);
}

typedef enum known { KNOWN_NOTHING, KNOWN_DIMS, KNOWN_DATA } known;

/* What is known of the output before the network runs. */
static known known_of(const tv_onnx_node *n, const tv_graph_node *node)
{
    known k = KNOWN_DATA;
    for (unsigned i = 0; i < TV_GRAPH_INPUTS_MAX; i++) {
        if (node->inputs[i] == TV_NO_VALUE)
            continue;
        if (!tv_onnx_is_constant(n, node->inputs[i]))
            return KNOWN_NOTHING;
        k = tv_onnx_data(n, node->inputs[i]) ? k : KNOWN_DIMS;
    }
    return k;
}

/* Multiplications or comparisons for each element of the output. */
static double work_of(const tv_onnx_node *n, const tv_graph_node *node, double outputs)
{
    tv_graph_class class = tv_graph_op_infos[node->op].class;
    tv_graph_shape x = tv_onnx_dims(n, node->inputs[0]);
    double work = 1;
    if (class == TV_CLASS_WINDOW || node->op == TV_OP_CONV || node->op == TV_OP_CONV_TRANSPOSE) {
        for (uint32_t i = 0; i < TV_GRAPH_SPATIAL_MAX; i++)
            work *= node->attrs.lists->kernel[i] ? (double)node->attrs.lists->kernel[i] : 1;
        work *= class == TV_CLASS_WINDOW ? 1 : (double)x.dims[1];
    } else if (class == TV_CLASS_PRODUCT || class == TV_CLASS_REDUCE) {
        work *= x.rank ? (double)x.dims[x.rank - 1] : 1;
    }
    return work * outputs;
}

/* Computes a node of constants. */
static uint32_t fold(tv_onnx_node *n, const tv_graph_node *node, tv_tensor *out, const char *name)
{
    const tv_tensor *inputs[TV_GRAPH_INPUTS_MAX] = {NULL};
    tv_graph_builder *b = &n->c->builder;
    const tv_tensor type = *out;
    tv_graph_node folded = *node;
    for (unsigned i = 0; i < TV_GRAPH_INPUTS_MAX; i++)
        inputs[i] = node->inputs[i] == TV_NO_VALUE ? NULL : tv_onnx_data(n, node->inputs[i]);
    n->c->status = tv_tensor_init(out, type.element, type.rank, type.dims, n->c->sink);
    if (!tv_onnx_ok(n))
        return TV_NO_VALUE;
    folded.output = tv_onnx_add_constant(n->c, name, out);
    if (folded.output == TV_NO_VALUE)
        return TV_NO_VALUE;
    n->c->status = tv_node_compute(b->graph, &folded, inputs, out, n->c->sink);
    return tv_onnx_ok(n) ? folded.output : TV_NO_VALUE;
}

static uint32_t add_node(tv_onnx_node *n, const tv_graph_node *node, const tv_graph_value *output, uint32_t count)
{
    char name[NAME_SHOWN + 16];
    tv_tensor type = {.element = output->element, .rank = output->shape.rank};
    memcpy(type.dims, output->shape.dims, type.rank * sizeof *type.dims);
    double work = work_of(n, node, (double)tv_tensor_count(&type));
    known k = known_of(n, node);
    make_name(n, name);
    if (k == KNOWN_DIMS)
        return tv_onnx_add_constant(n->c, name, &type);
    if (k == KNOWN_DATA && work <= (double)n->c->work_left && tv_onnx_take_bytes(n->c, tv_tensor_bytes(&type))) {
        n->c->work_left -= (uint64_t)work;
        return fold(n, node, &type, name);
    }
    uint32_t value = tv_graph_add(&n->c->builder, node->op, name, node->inputs, count, &node->attrs);
    return value == TV_NO_VALUE ? tv_onnx_fail_memory(n->c) : value;
}

uint32_t tv_onnx_emit(tv_onnx_node *n, tv_graph_op op, const uint32_t *inputs, uint32_t count,
                      const tv_graph_attrs *attrs)
{
    tv_graph_node node = {.op = op, .block = TV_BLOCK_NONE, .output = TV_NO_VALUE};
    tv_graph_value output = {0};
    const char *problem;
    if (!tv_onnx_ok(n))
        return TV_NO_VALUE;
    for (uint32_t i = 0; i < TV_GRAPH_INPUTS_MAX; i++)
        node.inputs[i] = i < count ? inputs[i] : TV_NO_VALUE;
    node.attrs = attrs ? *attrs : (tv_graph_attrs){0};
    if (!tv_graph_infer(n->c->builder.graph, &node, &output, &problem))
        return tv_onnx_reject(n, TV_ONNX_INVALID, "%s", problem);
    if (!tv_onnx_dims_fit(output.element, output.shape.rank, output.shape.dims))
        return tv_onnx_reject(n, TV_ONNX_INVALID, "an extent of %s is above 2^31 - 1, or there is no memory for it",
                              tv_graph_op_infos[op].name);
    return add_node(n, &node, &output, count);
}

uint32_t tv_onnx_emit1(tv_onnx_node *n, tv_graph_op op, uint32_t x) { return tv_onnx_emit(n, op, &x, 1, NULL); }

uint32_t tv_onnx_emit2(tv_onnx_node *n, tv_graph_op op, uint32_t a, uint32_t b)
{
    return tv_onnx_emit(n, op, (uint32_t[]){a, b}, 2, NULL);
}
