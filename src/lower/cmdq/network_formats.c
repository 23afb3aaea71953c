/* SPDX-License-Identifier: Apache-2.0 */
/* How values of a network are stored: their order, element type, scale, and which share the storage of others. */
#include <math.h>
#include <stdlib.h>

#include "lower/cmdq/network.h"

static bool is_product(tv_graph_op op)
{
    return op == TV_OP_CONV || op == TV_OP_CONV_TRANSPOSE || op == TV_OP_LINEAR || op == TV_OP_MATMUL;
}

static void set_rows(const cmdq_network *net, uint32_t value)
{
    cmdq_net_value *v = &net->values[value];
    v->elements = tv_graph_elements(net->graph, value);
    v->row_elements = tv_graph_columns(net->graph, value);
    if (net->channels_last[value]) {
        cmdq_net_image image = cmdq_net_image_of(cmdq_net_dims(net, value));
        v->row_elements = image.w * image.channels;
    }
    v->rows = v->row_elements ? v->elements / v->row_elements : 0;
}

/* Operators whose outputs have the format of their input. */
static bool copies_elements(const cmdq_network *net, const tv_graph_node *n)
{
    return n->op == TV_OP_RESHAPE || n->op == TV_OP_TRANSPOSE || n->op == TV_OP_SLICE ||
           cmdq_net_selects_elements(net, n);
}

/* Values that products and images read are INT8; results are binary32, others binary16. */
static void choose_widths(cmdq_network *net)
{
    const tv_graph *g = net->graph;
    for (uint32_t v = 0; v < g->values.count; v++)
        net->values[v].qbits = 16;
    for (size_t i = 0; i < g->outputs.count; i++)
        if (!tv_graph_uses(g, g->outputs.data[i].value) || tv_graph_uses(g, g->outputs.data[i].value) == 1)
            net->values[g->outputs.data[i].value].qbits = 32;
    for (size_t i = 0; i < g->nodes.count; i++)
        if (cmdq_net_is_host_gather(net, &g->nodes.data[i])) /* indices */
            net->values[g->nodes.data[i].inputs[1]].qbits = 32;
    for (size_t i = g->nodes.count; i-- > 0;) {
        const tv_graph_node *n = &g->nodes.data[i];
        bool integers = is_product(n->op) || tv_graph_op_infos[n->op].class == TV_CLASS_WINDOW ||
                        ((copies_elements(net, n) || n->op == TV_OP_CONCAT) && net->values[n->output].qbits == 8);
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && integers; k++)
            if (n->inputs[k] != TV_NO_VALUE && (n->op != TV_OP_LINEAR || k < 2)) /* residuals of transformers add up */
                net->values[n->inputs[k]].qbits = 8;
    }
}

/* ---- Binary16 instead of INT8 ---- */

/* A value that products or images read. */
typedef struct harmed {
    double loss;
    uint32_t value, readers;
} harmed;

static bool reads_integers(const tv_graph_node *n)
{
    return is_product(n->op) || tv_graph_op_infos[n->op].class == TV_CLASS_WINDOW;
}

static bool reads(const tv_graph_node *n, uint32_t value)
{
    return reads_integers(n) && (n->inputs[0] == value || (n->op == TV_OP_MATMUL && n->inputs[1] == value));
}

/* Whether the rows of a window fit a bank in binary16. */
static bool fits_wide(const cmdq_network *net, const tv_graph_node *n)
{
    const tv_graph_shape *s = cmdq_net_dims(net, n->inputs[0]);
    if (n->op == TV_OP_CONV_TRANSPOSE || n->op == TV_OP_RESIZE)
        return false;
    if (!net->channels_last[n->output])
        return true;
    cmdq_net_image image = cmdq_net_image_of(s);
    cmdq_net_window window = cmdq_net_window_of(n->attrs.lists, s->rank);
    uint64_t rows = tv_min_u64(image.h, (window.kernel[0] - 1) * window.dilation[0] + 1);
    return rows * image.w * image.channels * 2 <= net->l.bank_bytes / 2;
}

static int compare_losses(const void *a, const void *b)
{
    const harmed *x = a, *y = b;
    if (x->loss != y->loss)
        return x->loss < y->loss ? 1 : -1;
    return x->value < y->value ? -1 : 1;
}

static void widen(cmdq_network *net, uint32_t value)
{
    const tv_graph *g = net->graph;
    net->values[value].qbits = 16;
    for (size_t i = 0; i < g->nodes.count; i++)
        net->wide[i] = net->wide[i] || reads(&g->nodes.data[i], value);
}

/* Widens the values to which rounding does most harm, as far as their readers are within the percentage. */
static tv_status choose_wide(cmdq_network *net, const tv_network_options *options)
{
    const tv_graph *g = net->graph;
    uint64_t layers = g->nodes.count, count = 0, used = 0;
    harmed *list = calloc(g->values.count + 1, sizeof *list);
    if (!list)
        return tv_fail_memory(net->sink);
    for (uint32_t v = 0; v < g->values.count; v++) {
        bool known =
            tv_graph_value_at(g, v)->source != TV_VALUE_CONSTANT && net->values[v].qbits == 8 && options->losses[v] > 0;
        harmed h = {.value = v, .loss = options->losses[v]};
        for (size_t i = 0; i < g->nodes.count && known; i++) {
            bool read = reads(&g->nodes.data[i], v);
            h.readers += read;
            known = !read || fits_wide(net, &g->nodes.data[i]);
        }
        if (h.readers && known)
            list[count++] = h;
    }
    qsort(list, count, sizeof *list, compare_losses);
    for (uint64_t i = 0; i < count; i++)
        if ((used + list[i].readers) * 100 <= layers * options->wide_percent) {
            widen(net, list[i].value);
            used += list[i].readers;
        }
    free(list);
    return TV_OK;
}

static void choose_scale(const cmdq_network *net, uint32_t value)
{
    cmdq_net_value *v = &net->values[value];
    float range = net->ranges ? net->ranges[value] : 0;
    v->scale = v->qbits == 8 && range > 0 && isfinite(range) ? range / 127 : 1;
}

/* Inputs of a Concat have the scale of its output, so that they are stored as they are. */
static void unify_scales(const cmdq_network *net)
{
    for (size_t i = net->graph->nodes.count; i-- > 0;) {
        const tv_graph_node *n = &net->graph->nodes.data[i];
        const cmdq_net_value *out = &net->values[n->output];
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && n->op == TV_OP_CONCAT; k++)
            if (n->inputs[k] != TV_NO_VALUE && net->values[n->inputs[k]].qbits == out->qbits)
                net->values[n->inputs[k]].scale = out->scale;
    }
}

/* A Reshape of a value in row-major order, or whose order is the same either way, has its storage. */
static bool has_same_storage(const cmdq_network *net, const tv_graph_node *n)
{
    bool from = net->channels_last[n->inputs[0]], to = net->channels_last[n->output];
    if (n->op != TV_OP_RESHAPE)
        return (to && !from && cmdq_net_is_to_image(net->graph, n)) ||
               (from && !to && cmdq_net_is_from_image(net->graph, n));
    cmdq_net_image image = cmdq_net_image_of(cmdq_net_dims(net, to ? n->output : n->inputs[0]));
    return from == to || image.channels == 1 || image.h * image.w == 1;
}

/* [n][c][pixels] of an image to [n][pixels][c], which is the order of its storage. */
static bool restores_order(const cmdq_network *net, const tv_graph_node *n)
{
    const tv_graph *g = net->graph;
    const tv_graph_value *v = tv_graph_value_at(g, n->inputs[0]);
    if (n->op != TV_OP_TRANSPOSE || !n->attrs.lists || v->shape.rank != 3 || n->attrs.lists->perm[0] != 0 ||
        n->attrs.lists->perm[1] != 2 || v->source != TV_VALUE_COMPUTED || tv_graph_uses(g, n->inputs[0]) != 1)
        return false;
    const tv_graph_node *from = tv_graph_node_at(g, v->producer);
    return from->op == TV_OP_RESHAPE && net->channels_last[from->inputs[0]] &&
           cmdq_net_dims(net, from->inputs[0])->dims[1] == v->shape.dims[1];
}

tv_status cmdq_net_choose_formats(cmdq_network *net, const tv_network_options *options)
{
    const tv_graph *g = net->graph;
    cmdq_net_choose_orders(g, net->channels_last);
    cmdq_net_choose_views(net);
    choose_widths(net);
    if (options->wide_percent && options->losses)
        TV_TRY(choose_wide(net, options));
    for (uint32_t v = 0; v < g->values.count; v++) {
        net->values[v].storage = v;
        set_rows(net, v);
        choose_scale(net, v);
    }
    unify_scales(net);
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        cmdq_net_value *out = &net->values[n->output];
        const cmdq_net_value *in = &net->values[n->inputs[0]];
        if (!copies_elements(net, n))
            continue;
        out->qbits = in->qbits;
        out->scale = in->scale;
        if (has_same_storage(net, n))
            out->storage = in->storage;
        if (restores_order(net, n)) { /* nothing reads the values between */
            uint32_t image = g->nodes.data[tv_graph_value_at(g, n->inputs[0])->producer].inputs[0];
            net->values[n->inputs[0]].storage = out->storage = net->values[image].storage;
            net->values[n->inputs[0]].crossed = true;
        }
        if (out->is_view)
            out->storage = net->values[out->root].storage;
    }
    for (uint32_t v = 0; v < g->values.count; v++) /* results that are stored where a Transpose would move them */
        if (net->values[v].is_view && net->values[v].storage == v)
            net->values[v].storage = net->values[net->values[v].root].storage;
    for (uint32_t v = 0; v < g->values.count; v++) {
        cmdq_net_value *storage = cmdq_net_storage(net, v);
        storage->last_use = (uint32_t)tv_max_u64(storage->last_use, net->values[v].last_use);
        if (tv_graph_value_at(g, v)->source != TV_VALUE_CONSTANT && net->values[v].storage == v)
            storage->dram = cmdq_net_allocate_dram(net, storage->elements * storage->qbits / 8);
    }
    for (size_t i = 0; i < g->outputs.count; i++)
        cmdq_net_storage(net, g->outputs.data[i].value)->is_output = true;
    return TV_OK;
}
