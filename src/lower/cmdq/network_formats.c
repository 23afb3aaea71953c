/* SPDX-License-Identifier: Apache-2.0 */
/* How values of a network are stored: their order, element type, scale, and which share the storage of others. */
#include <math.h>
#include <stdlib.h>

#include "lower/cmdq/network.h"

static bool is_product(tv_graph_op op)
{
    return op == TV_OP_CONV || op == TV_OP_CONV_TRANSPOSE || op == TV_OP_LINEAR || op == TV_OP_MATMUL;
}

/* Operators of images, whose channels are last. */
static bool is_spatial(const cmdq_network *net, const tv_graph_node *n)
{
    bool image = cmdq_net_dims(net, n->output)->rank == 4;
    return image &&
           (n->op == TV_OP_CONV || n->op == TV_OP_CONV_TRANSPOSE || tv_graph_op_infos[n->op].class == TV_CLASS_WINDOW);
}

static bool follows_layout(tv_graph_op op)
{
    tv_graph_class class = tv_graph_op_infos[op].class;
    return class == TV_CLASS_UNARY || class == TV_CLASS_BINARY || op == TV_OP_CONCAT;
}

/* A Transpose between [n][h][w][c] and [n][c][h][w]: an image whose channels are last has the order of the former. */
static bool is_transpose(const cmdq_network *net, const tv_graph_node *n, const uint32_t perm[4])
{
    return n->op == TV_OP_TRANSPOSE && n->attrs.lists && cmdq_net_dims(net, n->output)->rank == 4 &&
           memcmp(n->attrs.lists->perm, perm, 4 * sizeof *perm) == 0;
}
static const uint32_t to_image[4] = {0, 3, 1, 2}, from_image[4] = {0, 2, 3, 1};

/* Inputs of images are stored like the outputs of their readers; values follow their first computed input. */
static void choose_layouts(cmdq_network *net)
{
    const tv_graph *g = net->graph;
    for (size_t i = g->nodes.count; i-- > 0;) { /* inputs of the network, and what leads to an image */
        const tv_graph_node *n = &g->nodes.data[i];
        bool last = is_spatial(net, n) || (follows_layout(n->op) && net->values[n->output].channels_last);
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && last; k++)
            if (n->inputs[k] != TV_NO_VALUE && cmdq_net_dims(net, n->inputs[k])->rank == 4)
                net->values[n->inputs[k]].channels_last = true;
    }
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        unsigned k = 0; /* the first input that is computed */
        while (k + 1 < tv_graph_input_count(n) && tv_graph_value_at(g, n->inputs[k])->source == TV_VALUE_CONSTANT)
            k++;
        bool input = net->values[n->inputs[k]].channels_last && cmdq_net_dims(net, n->output)->rank == 4;
        bool made = is_transpose(net, n, to_image) && !input && net->values[n->output].channels_last;
        net->values[n->output].channels_last = is_spatial(net, n) || (follows_layout(n->op) && input) || made;
    }
}

static void set_rows(const cmdq_network *net, uint32_t value)
{
    cmdq_net_value *v = &net->values[value];
    const tv_graph_shape *s = cmdq_net_dims(net, value);
    v->elements = tv_graph_elements(net->graph, value);
    v->row_elements = v->channels_last ? (uint64_t)(s->dims[1] * s->dims[3]) : tv_graph_columns(net->graph, value);
    v->rows = v->row_elements ? v->elements / v->row_elements : 0;
}

/* Operators whose outputs have the format of their input. */
static bool copies_elements(const cmdq_network *net, const tv_graph_node *n)
{
    return n->op == TV_OP_RESHAPE || n->op == TV_OP_TRANSPOSE || n->op == TV_OP_SLICE || cmdq_net_selects_index(net, n);
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
    const tv_graph_lists *l = n->attrs.lists;
    if (s->rank != 4 || !l || n->op == TV_OP_CONV_TRANSPOSE || n->op == TV_OP_RESIZE)
        return s->rank != 4 || n->op == TV_OP_MATMUL;
    uint64_t rows = tv_min_u64((uint64_t)s->dims[2], (uint64_t)((l->kernel[0] - 1) * l->dilation[0] + 1));
    return rows * (uint64_t)(s->dims[1] * s->dims[3]) * 2 <= net->l.bank_bytes / 2;
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
    const cmdq_net_value *from = &net->values[n->inputs[0]];
    const tv_graph_shape *s = cmdq_net_dims(net, n->inputs[0]);
    bool same_order = !from->channels_last || s->dims[1] == 1 || s->dims[2] * s->dims[3] == 1;
    if (is_transpose(net, n, to_image))
        return !from->channels_last && net->values[n->output].channels_last;
    if (is_transpose(net, n, from_image))
        return from->channels_last && !net->values[n->output].channels_last;
    return n->op == TV_OP_RESHAPE && same_order && !net->values[n->output].channels_last;
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
    return from->op == TV_OP_RESHAPE && net->values[from->inputs[0]].channels_last &&
           cmdq_net_dims(net, from->inputs[0])->dims[1] == v->shape.dims[1];
}

tv_status cmdq_net_choose_formats(cmdq_network *net, const tv_network_options *options)
{
    const tv_graph *g = net->graph;
    choose_layouts(net);
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
