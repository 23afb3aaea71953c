/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of products: in DRAM rows of integers with their scales and biases, in SPM blocks of output channels. The
 * blocks of all products, in their order, are loaded as far ahead as there is space that the values between do not
 * need. So DMA channels need not wait for the engines. */
#include <stdlib.h>

#include "graph/quantize.h"
#include "lower/cmdq/network.h"

static bool is_product(const tv_graph_node *n) { return n->op == TV_OP_CONV || n->op == TV_OP_LINEAR; }

static bool has_weights(const tv_graph_node *n) { return is_product(n) || n->op == TV_OP_CONV_TRANSPOSE; }

/* ---- In DRAM ---- */

/* Row `row` of the weights of a transposed convolution: for a phase of the rows, one of the columns and an output
 * channel, [taps][channels] of the elements of the kernel that reach it, the last ones first. */
static void phase_row(const tv_graph_node *n, const tv_tensor *w, uint64_t row, uint64_t columns, float *out)
{
    cmdq_net_window window = cmdq_net_window_of(n->attrs.lists, w->rank);
    cmdq_net_phases phases = cmdq_net_phases_of(n->attrs.lists, w->rank);
    uint64_t channels = (uint64_t)w->dims[0], group_out = (uint64_t)w->dims[1], all_out = group_out * n->attrs.groups,
             group_in = channels / n->attrs.groups, o = row % all_out, phase = row / all_out,
             from[2] = {phase / phases.count[1], phase % phases.count[1]};
    memset(out, 0, columns * sizeof *out);
    for (uint64_t i = 0; i < columns; i++) {
        uint64_t c = i % channels, tap = i / channels, at[2];
        bool exists = c / group_in == o / group_out;
        at[0] = from[0] + (phases.taps[0] - 1 - tap / phases.taps[1]) * phases.count[0];
        at[1] = from[1] + (phases.taps[1] - 1 - tap % phases.taps[1]) * phases.count[1];
        for (unsigned k = 0; k < 2; k++)
            exists = exists && at[k] % window.dilation[k] == 0 && at[k] / window.dilation[k] < window.kernel[k];
        uint64_t element =
            ((c * group_out + o % group_out) * window.kernel[0] + at[0] / window.dilation[0]) * window.kernel[1] +
            at[1] / window.dilation[1];
        if (exists)
            out[i] = ((const float *)w->data)[element];
    }
}

/* Row `row` of W as the machine has it: of convolutions [kernel][channels] instead of [channels][kernel]. */
static void reorder_row(const tv_graph_node *n, const tv_tensor *w, uint64_t row, uint64_t columns, float *out)
{
    if (n->op == TV_OP_CONV_TRANSPOSE) {
        phase_row(n, w, row, columns, out);
        return;
    }
    const float *from = (const float *)w->data + row * columns;
    uint64_t channels = n->op == TV_OP_CONV ? (uint64_t)w->dims[1] : columns, kernel = columns / channels;
    for (uint64_t c = 0; c < channels; c++)
        for (uint64_t k = 0; k < kernel; k++)
            out[k * channels + c] = from[c * kernel + k];
}

static tv_status write_weights(cmdq_network *net, const tv_graph_node *n, const cmdq_net_weights *w)
{
    const tv_tensor *t = tv_graph_value_at(net->graph, n->inputs[1])->tensor;
    uint64_t groups = w->columns / w->group;
    float *row = malloc(w->columns * sizeof *row), *scales = malloc(groups * sizeof *scales);
    uint8_t *packed = calloc(w->row_bytes + 1, 1);
    tv_status status = row && scales && packed ? TV_OK : tv_fail_memory(net->sink);
    for (uint64_t r = 0; r < w->rows && status == TV_OK; r++) {
        reorder_row(n, t, r, w->columns, row);
        tv_quantize_row(row, (uint32_t)w->columns, (uint32_t)w->group, w->bits, packed, scales);
        for (uint64_t g = 0; g < groups; g++)
            scales[g] *= net->values[n->inputs[0]].scale;
        status = tv_machine_write(net->l.machine, "dram", w->data + r * w->row_bytes, packed, w->row_bytes, net->sink);
        if (status == TV_OK)
            status =
                tv_machine_write(net->l.machine, "dram", w->scales + r * groups * 4, scales, groups * 4, net->sink);
    }
    free(row);
    free(scales);
    free(packed);
    if (w->bias) {
        const tv_tensor *bias = tv_graph_value_at(net->graph, n->inputs[2])->tensor;
        uint64_t bytes = tv_tensor_bytes(bias); /* a transposed convolution has it for each element of the kernel */
        for (uint64_t at = 0; at < w->rows * 4 && status == TV_OK; at += bytes)
            status = tv_machine_write(net->l.machine, "dram", w->bias + at, bias->data, bytes, net->sink);
    }
    return status;
}

/* Bits of the weights of a row, which is of whole bytes. */
static unsigned bits_of(uint64_t columns, unsigned bits) { return columns % 2 || !bits ? 8 : bits; }

static uint64_t group_of(uint64_t columns, unsigned bits)
{
    return bits == 4 && columns % CMDQ_NET_WEIGHT_GROUP == 0 ? CMDQ_NET_WEIGHT_GROUP : columns;
}

bool cmdq_net_round_weights(float *channel, uint64_t taps, uint64_t inputs, unsigned bits)
{
    uint64_t columns = taps * inputs;
    bits = bits_of(columns, bits);
    return tv_round_row(channel, columns, group_of(columns, bits), bits);
}

tv_status cmdq_net_upload(cmdq_network *net, const tv_network_options *options)
{
    for (size_t i = 0; i < net->graph->nodes.count; i++) {
        const tv_graph_node *n = &net->graph->nodes.data[i];
        cmdq_net_weights *w = &net->weights[i];
        if (!has_weights(n))
            continue;
        const tv_tensor *t = tv_graph_value_at(net->graph, n->inputs[1])->tensor;
        bool transposed = n->op == TV_OP_CONV_TRANSPOSE;
        w->rows = (uint64_t)t->dims[0];
        w->columns = tv_tensor_count(t) / w->rows;
        if (transposed) {
            cmdq_net_phases p = cmdq_net_phases_of(n->attrs.lists, t->rank);
            w->rows = p.count[0] * p.count[1] * (uint64_t)t->dims[1] * n->attrs.groups;
            w->columns = p.taps[0] * p.taps[1] * (uint64_t)t->dims[0];
        }
        w->bits = bits_of(w->columns, options->weight_bits);
        w->row_bytes = w->columns * w->bits / 8;
        w->data = cmdq_net_allocate_dram(net, w->rows * w->row_bytes);
        w->group = transposed ? w->columns : group_of(w->columns, w->bits);
        w->scales = cmdq_net_allocate_dram(net, w->rows * (w->columns / w->group) * 4);
        w->bias = n->inputs[2] == TV_NO_VALUE ? 0 : cmdq_net_allocate_dram(net, w->rows * 4);
        if (!net->timing)
            TV_TRY(write_weights(net, n, w));
        tv_progress_report(&options->progress, "quantizing", i + 1, net->graph->nodes.count);
    }
    return TV_OK;
}

/* ---- Blocks ---- */

/* Whether input and output of a product are probably resident, so that it costs nothing to read the input for each
 * block. */
static bool are_values_small(const cmdq_network *net, const tv_graph_node *n)
{
    uint64_t bytes = 0, all = net->l.bank_bytes * net->l.context;
    const uint32_t values[3] = {n->inputs[0], n->inputs[3], n->output};
    for (unsigned i = 0; i < 3; i++) {
        const cmdq_net_value *v = values[i] == TV_NO_VALUE ? NULL : cmdq_net_storage(net, values[i]);
        bytes += v ? v->elements * v->qbits / 8 : 0;
    }
    return bytes <= all / 2 && !net->keep_values;
}

cmdq_net_blocks cmdq_net_divide(const cmdq_network *net, uint32_t node)
{
    enum { ALIGNED = 32, ALIGNED_MIN = 4 };
    const tv_graph_node *n = tv_graph_node_at(net->graph, node);
    const cmdq_net_weights *w = &net->weights[node];
    bool grouped = n->op == TV_OP_CONV && n->attrs.groups > 1;
    uint64_t bytes = are_values_small(net, n) && !grouped ? tv_min_u64(net->options.block_bytes, net->l.bank_bytes)
                                                          : net->l.bank_bytes,
             row_bytes = tv_max_u64(w->row_bytes, 1), limit = bytes / row_bytes;
    limit = limit ? limit : net->l.bank_bytes / row_bytes;
    if (w->rows <= limit)
        return (cmdq_net_blocks){w->rows, 1};
    if (!limit || grouped)
        return (cmdq_net_blocks){0, 0};
    uint64_t unit = limit >= ALIGNED ? ALIGNED : limit >= ALIGNED_MIN ? ALIGNED_MIN : 1;
    uint64_t count = tv_ceil_div(tv_ceil_div(w->rows, limit / unit * unit), net->l.te) * net->l.te;
    uint64_t rows = tv_ceil_div(tv_ceil_div(w->rows, count), unit) * unit;
    return (cmdq_net_blocks){rows, tv_ceil_div(w->rows, rows)};
}

void cmdq_net_load_weights(cmdq_network *net, const cmdq_net_weights *w, uint64_t row, uint64_t rows, uint32_t weights,
                           uint32_t params)
{
    cmdq_lower_operand to = cmdq_lower_f32(params);
    cmdq_lower_load(&net->l, (cmdq_lower_operand){weights, 0, w->bits, 1}, "weight", w->data + row * w->row_bytes, 1,
                    rows * w->columns, 0);
    uint64_t groups = w->columns / w->group;
    cmdq_lower_load(&net->l, to, "weight", w->scales + row * groups * 4, 1, rows * groups, 0);
    if (w->bias)
        cmdq_lower_load(&net->l, cmdq_lower_skip(to, rows * groups), "weight", w->bias + row * 4, 1, rows, 0);
}

static uint64_t weight_bytes(const cmdq_net_weights *w, uint64_t rows) { return rows * w->row_bytes; }

static uint64_t param_bytes(const cmdq_net_weights *w, uint64_t rows)
{
    return rows * 4 * (w->columns / w->group + (w->bias ? 1 : 0));
}

static void load_block(cmdq_network *net, const cmdq_net_block *b, cmdq_net_blocks division)
{
    const cmdq_net_weights *w = &net->weights[b->node];
    uint64_t row = b->index * division.rows;
    cmdq_net_load_weights(net, w, row, tv_min_u64(division.rows, w->rows - row), b->weights, b->params);
}

cmdq_net_block cmdq_net_take_block(cmdq_network *net, uint64_t index)
{
    cmdq_net_block b = {net->node, index, TV_NO_VALUE, TV_NO_VALUE};
    if (net->ahead.count && net->ahead.data[0].node == net->node && net->ahead.data[0].index == index) {
        b = net->ahead.data[0];
        memmove(net->ahead.data, net->ahead.data + 1, --net->ahead.count * sizeof *net->ahead.data);
        return b;
    }
    cmdq_net_blocks division = cmdq_net_divide(net, net->node);
    b.weights = cmdq_net_buffer(net, weight_bytes(&net->weights[net->node], division.rows));
    b.params =
        net->status == TV_OK ? cmdq_net_buffer(net, param_bytes(&net->weights[net->node], division.rows)) : TV_NO_VALUE;
    if (net->status == TV_OK)
        load_block(net, &b, division);
    else
        cmdq_net_release_block(net, &b);
    return b;
}

/* Loads a block if there is space. */
static bool try_block(cmdq_network *net, cmdq_net_block b, cmdq_net_blocks division)
{
    const cmdq_net_weights *w = &net->weights[b.node];
    b.weights = cmdq_net_try_buffer(net, weight_bytes(w, division.rows));
    b.params = b.weights == TV_NO_VALUE ? TV_NO_VALUE : cmdq_net_try_buffer(net, param_bytes(w, division.rows));
    if (b.params == TV_NO_VALUE) {
        cmdq_net_release(net, b.weights);
        return false;
    }
    load_block(net, &b, division);
    if (!TV_VEC_PUSH(&net->ahead, b))
        net->status = TV_ERR_MEMORY;
    return net->status == TV_OK;
}

static uint64_t bytes_ahead(const cmdq_network *net)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < net->ahead.count; i++)
        bytes += net->plan.buffers.data[net->ahead.data[i].weights].bytes +
                 net->plan.buffers.data[net->ahead.data[i].params].bytes;
    return bytes;
}

/* The values of the nodes between must have space besides the blocks: a value in DRAM costs more than a wait for
 * weights. */
void cmdq_net_load_ahead(cmdq_network *net, uint32_t node, uint64_t index)
{
    const tv_graph *g = net->graph;
    uint64_t ahead = bytes_ahead(net), need = 0, all = net->l.bank_bytes * net->l.context;
    if (net->ahead.count) {
        node = net->ahead.data[net->ahead.count - 1].node;
        index = net->ahead.data[net->ahead.count - 1].index + 1;
    }
    for (uint32_t i = net->node + 1; i < node && i < g->nodes.count; i++)
        need = tv_max_u64(need, net->needs[i]);
    for (; node < g->nodes.count && net->status == TV_OK && !net->keep_values; node++, index = 0) {
        need = node > net->node ? tv_max_u64(need, net->needs[node]) : need;
        if (!is_product(&g->nodes.data[node]))
            continue;
        cmdq_net_blocks division = cmdq_net_divide(net, node);
        uint64_t bytes =
            weight_bytes(&net->weights[node], division.rows) + param_bytes(&net->weights[node], division.rows);
        for (; index < division.count; index++, ahead += bytes) {
            bool own = node == net->node;
            if (!own && (ahead + bytes > net->options.ahead_bytes || ahead + bytes + need + net->options.reserve > all))
                return;
            if (!try_block(net, (cmdq_net_block){node, index, TV_NO_VALUE, TV_NO_VALUE}, division))
                return;
        }
    }
}

/* Values that take a large share of SPM go through DRAM anyway. */
tv_status cmdq_net_measure_needs(cmdq_network *net)
{
    const tv_graph *g = net->graph;
    uint64_t all = net->l.bank_bytes * net->l.context;
    net->needs = calloc(g->nodes.count + 1, sizeof *net->needs);
    uint32_t *first = calloc(g->values.count + 1, sizeof *first);
    if (!net->needs || !first) {
        free(first);
        return tv_fail_memory(net->sink);
    }
    for (size_t i = g->nodes.count; i-- > 0;)
        first[net->values[g->nodes.data[i].output].storage] = (uint32_t)i + 1;
    for (uint32_t v = 0; v < g->values.count; v++) {
        uint64_t bytes = net->values[v].elements * net->values[v].qbits / 8;
        if (!first[v] || net->values[v].storage != v || bytes > all / 2 || net->in_attention[first[v] - 1])
            continue;
        for (uint32_t i = first[v] - 1; i <= net->values[v].last_use && i < g->nodes.count; i++)
            net->needs[i] = tv_min_u64(net->needs[i] + bytes, all / 4 * 3);
    }
    free(first);
    return TV_OK;
}
