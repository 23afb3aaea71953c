/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operators: what the machine lacks for a node, and how it is lowered. */
#include "lower/cmdq/network.h"

static bool is_constant(const cmdq_network *net, uint32_t value)
{
    return value == TV_NO_VALUE || tv_graph_value_at(net->graph, value)->source == TV_VALUE_CONSTANT;
}

static const char *image_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    return cmdq_net_dims(net, n->inputs[0])->rank > 4 ? "windows of more than two axes" : NULL;
}

static const char *weights_lack(const cmdq_network *net, const tv_graph_node *n)
{
    return is_constant(net, n->inputs[1]) && is_constant(net, n->inputs[2]) ? NULL
                                                                            : "convolutions with computed weights";
}

static const char *conv_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    const char *lacks = weights_lack(net, n);
    return lacks ? lacks : image_lacks(net, n);
}

static const char *transposed_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    const char *lacks = weights_lack(net, n);
    return lacks ? lacks : cmdq_net_transposed_lacks(net, n);
}

static const char *linear_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    (void)net;
    return n->inputs[3] != TV_NO_VALUE && n->attrs.activation ? "residual after an activation" : NULL;
}

/* lacks NULL: nothing, whatever the node. */
typedef struct handler {
    const char *(*lacks)(const cmdq_network *net, const tv_graph_node *n);
    void (*emit)(cmdq_network *net, const tv_graph_node *n);
} handler;

static const handler handlers[TV_OPS] = {
    [TV_OP_CONV] = {conv_lacks, cmdq_net_emit_product},
    [TV_OP_LINEAR] = {linear_lacks, cmdq_net_emit_product},
    [TV_OP_CONV_TRANSPOSE] = {transposed_lacks, cmdq_net_emit_transposed},
    [TV_OP_MATMUL] = {cmdq_net_matmul_lacks, cmdq_net_emit_matmul},
    [TV_OP_MAX_POOL] = {image_lacks, cmdq_net_emit_pool},
    [TV_OP_AVERAGE_POOL] = {image_lacks, cmdq_net_emit_pool},
    [TV_OP_RESIZE] = {cmdq_net_resize_lacks, cmdq_net_emit_resize},
    [TV_OP_RELU] = {NULL, cmdq_net_emit_unary},
    [TV_OP_LEAKY_RELU] = {NULL, cmdq_net_emit_unary},
    [TV_OP_CLIP] = {NULL, cmdq_net_emit_unary},
    [TV_OP_ABS] = {NULL, cmdq_net_emit_unary},
    [TV_OP_NEG] = {NULL, cmdq_net_emit_unary},
    [TV_OP_SIGMOID] = {NULL, cmdq_net_emit_unary},
    [TV_OP_TANH] = {NULL, cmdq_net_emit_unary},
    [TV_OP_EXP] = {NULL, cmdq_net_emit_unary},
    [TV_OP_LOG] = {NULL, cmdq_net_emit_unary},
    [TV_OP_SQRT] = {NULL, cmdq_net_emit_unary},
    [TV_OP_RECIPROCAL] = {NULL, cmdq_net_emit_unary},
    [TV_OP_ERF] = {NULL, cmdq_net_emit_unary},
    [TV_OP_HARD_SWISH] = {NULL, cmdq_net_emit_unary},
    [TV_OP_HARD_SIGMOID] = {NULL, cmdq_net_emit_unary},
    [TV_OP_SWISH] = {NULL, cmdq_net_emit_unary},
    [TV_OP_GELU] = {NULL, cmdq_net_emit_unary},
    [TV_OP_ADD] = {cmdq_net_binary_lacks, cmdq_net_emit_binary},
    [TV_OP_SUB] = {cmdq_net_binary_lacks, cmdq_net_emit_binary},
    [TV_OP_MUL] = {cmdq_net_binary_lacks, cmdq_net_emit_binary},
    [TV_OP_DIV] = {cmdq_net_binary_lacks, cmdq_net_emit_binary},
    [TV_OP_MIN] = {cmdq_net_binary_lacks, cmdq_net_emit_binary},
    [TV_OP_MAX] = {cmdq_net_binary_lacks, cmdq_net_emit_binary},
    [TV_OP_POW] = {cmdq_net_binary_lacks, cmdq_net_emit_binary},
    [TV_OP_SOFTMAX] = {NULL, cmdq_net_emit_rows},
    [TV_OP_NORM] = {NULL, cmdq_net_emit_rows},
    [TV_OP_REDUCE_SUM] = {NULL, cmdq_net_emit_rows},
    [TV_OP_REDUCE_MEAN] = {NULL, cmdq_net_emit_rows},
    [TV_OP_REDUCE_MAX] = {NULL, cmdq_net_emit_rows},
    [TV_OP_REDUCE_MIN] = {NULL, cmdq_net_emit_rows},
    [TV_OP_CONCAT] = {NULL, cmdq_net_emit_concat},
    [TV_OP_RESHAPE] = {NULL, cmdq_net_emit_reorder},
    [TV_OP_TRANSPOSE] = {cmdq_net_transpose_lacks, cmdq_net_emit_transpose},
    [TV_OP_SLICE] = {cmdq_net_selection_lacks, cmdq_net_emit_selection},
    [TV_OP_GATHER] = {cmdq_net_selection_lacks, cmdq_net_emit_selection},
};

/* An opcode of an extension serves where the machine has none. */
static const handler *handler_of(const tv_graph_node *n)
{
    static const handler unary = {NULL, cmdq_net_emit_unary};
    return !handlers[n->op].emit && cmdq_net_extension(n) >= 0 ? &unary : &handlers[n->op];
}

static bool is_empty(const cmdq_network *net, const tv_graph_node *n)
{
    bool empty = tv_graph_elements(net->graph, n->output) == 0;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        empty = empty || (n->inputs[k] != TV_NO_VALUE && tv_graph_elements(net->graph, n->inputs[k]) == 0);
    return empty;
}

/* Inputs of other types than binary32 that are no indices. */
static bool reads_other_type(const cmdq_network *net, const tv_graph_node *n)
{
    bool other = false;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        if (n->inputs[k] != TV_NO_VALUE && (n->op != TV_OP_GATHER || k == 0))
            other = other || tv_graph_value_at(net->graph, n->inputs[k])->element != TV_ELEMENT_F32;
    return other;
}

const char *cmdq_net_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    const handler *h = handler_of(n);
    if (tv_graph_value_at(net->graph, n->output)->element != TV_ELEMENT_F32 || reads_other_type(net, n))
        return "values of this element type";
    if (is_empty(net, n))
        return "values without elements";
    if (!h->emit)
        return "such operator";
    if (!cmdq_net_reads_order(net->graph, n, net->channels_last))
        return "inputs in another order of the axes";
    return h->lacks ? h->lacks(net, n) : NULL;
}

void cmdq_net_emit_node(cmdq_network *net, const tv_graph_node *n)
{
    bool is_product = n->op == TV_OP_CONV || n->op == TV_OP_LINEAR; /* these explain themselves */
    handler_of(n)->emit(net, n);
    if (net->layers[net->node].tiles && !is_product)
        cmdq_net_explain_values(net, n);
}
