/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and products with constants. Weights that fit a bank are loaded once, and tiles are rows of the output;
 * larger ones pass in blocks of output channels, and the blocks of the output are stored to DRAM, where they are put
 * side by side. While a product is computed, the first weights of the next one are loaded. */
#include <math.h>
#include <stdlib.h>

#include "graph/quantize.h"
#include "lower/cmdq/network.h"

/* ---- Weights ---- */

static bool is_product(const tv_graph_node *n) { return n->op == TV_OP_CONV || n->op == TV_OP_LINEAR; }

static bool has_weights(const tv_graph_node *n) { return is_product(n) || n->op == TV_OP_CONV_TRANSPOSE; }

/* Row `row` of W as the machine has it: of convolutions [kernel][channels] instead of [channels][kernel]. Rows of
 * transposed convolutions are [kernel][output channels]. */
static void reorder_row(const tv_graph_node *n, const tv_tensor *w, uint64_t row, uint64_t columns, float *out)
{
    if (n->op == TV_OP_CONV_TRANSPOSE) {
        uint64_t channels = (uint64_t)w->dims[1], taps = (uint64_t)(w->dims[2] * w->dims[3]);
        for (uint64_t c = 0; c < columns; c++)
            out[c] = ((const float *)w->data)[(c * channels + row % channels) * taps + row / channels];
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
    float *row = malloc(w->columns * sizeof *row), scale;
    uint8_t *packed = calloc(w->row_bytes + 1, 1);
    tv_status status = row && packed ? TV_OK : tv_fail_memory(net->sink);
    for (uint64_t r = 0; r < w->rows && status == TV_OK; r++) {
        reorder_row(n, t, r, w->columns, row);
        tv_quantize_row(row, (uint32_t)w->columns, (uint32_t)w->columns, w->bits, packed, &scale);
        scale *= net->values[n->inputs[0]].scale;
        status = tv_machine_write(net->l.machine, "dram", w->data + r * w->row_bytes, packed, w->row_bytes, net->sink);
        if (status == TV_OK)
            status = tv_machine_write(net->l.machine, "dram", w->scales + r * 4, &scale, 4, net->sink);
    }
    free(row);
    free(packed);
    if (w->bias) {
        const tv_tensor *bias = tv_graph_value_at(net->graph, n->inputs[2])->tensor;
        uint64_t bytes = tv_tensor_bytes(bias); /* a transposed convolution has it for each element of the kernel */
        for (uint64_t at = 0; at < w->rows * 4 && status == TV_OK; at += bytes)
            status = tv_machine_write(net->l.machine, "dram", w->bias + at, bias->data, bytes, net->sink);
    }
    return status;
}

tv_status cmdq_net_upload(cmdq_network *net, const tv_network_options *options)
{
    unsigned bits = options->weight_bits ? options->weight_bits : 8;
    for (size_t i = 0; i < net->graph->nodes.count; i++) {
        const tv_graph_node *n = &net->graph->nodes.data[i];
        cmdq_net_weights *w = &net->weights[i];
        if (!has_weights(n))
            continue;
        const tv_tensor *t = tv_graph_value_at(net->graph, n->inputs[1])->tensor;
        bool transposed = n->op == TV_OP_CONV_TRANSPOSE;
        w->columns = transposed ? (uint64_t)t->dims[0] : tv_tensor_count(t) / (uint64_t)t->dims[0];
        w->rows = tv_tensor_count(t) / w->columns;
        w->bits = w->columns % 2 ? 8 : bits; /* rows are whole bytes */
        w->row_bytes = w->columns * w->bits / 8;
        w->data = cmdq_net_allocate_dram(net, w->rows * w->row_bytes);
        w->scales = cmdq_net_allocate_dram(net, w->rows * 4);
        w->bias = n->inputs[2] == TV_NO_VALUE ? 0 : cmdq_net_allocate_dram(net, w->rows * 4);
        if (!net->timing)
            TV_TRY(write_weights(net, n, w));
        tv_progress_report(&options->progress, "quantizing", i + 1, net->graph->nodes.count);
    }
    return TV_OK;
}

/* ---- The plan of a product ---- */

/* An image of in_h rows of in_w pixels of `channels`; a Linear has rows of one pixel. */
typedef struct product {
    const tv_graph_node *n;
    const cmdq_net_weights *w;
    uint64_t in_h, in_w, channels, out_h, out_w, out_c, groups;
    uint64_t kernel[2], stride[2], dilation[2], pad_begin[2], pad_end[2];
    uint64_t block, block_count; /* output channels at once */
    uint64_t tile;               /* rows of the output at once */
} product;

static uint64_t span_of(const product *p, unsigned axis) { return (p->kernel[axis] - 1) * p->dilation[axis] + 1; }

static void describe_image(const cmdq_network *net, product *p)
{
    const tv_graph_shape *in = cmdq_net_dims(net, p->n->inputs[0]), *out = cmdq_net_dims(net, p->n->output);
    const tv_graph_lists *lists = p->n->attrs.lists;
    p->channels = (uint64_t)in->dims[1];
    p->in_h = (uint64_t)in->dims[2];
    p->in_w = (uint64_t)in->dims[3];
    p->out_h = (uint64_t)out->dims[2];
    p->out_w = (uint64_t)out->dims[3];
    p->groups = p->n->attrs.groups;
    for (unsigned i = 0; i < 2; i++) {
        p->kernel[i] = (uint64_t)lists->kernel[i];
        p->stride[i] = (uint64_t)lists->stride[i];
        p->dilation[i] = (uint64_t)lists->dilation[i];
        p->pad_begin[i] = (uint64_t)lists->pad_begin[i];
        p->pad_end[i] = (uint64_t)lists->pad_end[i];
    }
}

/* Rows of the input that rows [row, row + rows) of the output read, without padding. */
static void input_rows(const product *p, uint64_t row, uint64_t rows, uint64_t *first, uint64_t *count, uint64_t *above,
                       uint64_t *below)
{
    int64_t from = (int64_t)(row * p->stride[0]) - (int64_t)p->pad_begin[0],
            to = (int64_t)((row + rows - 1) * p->stride[0] + span_of(p, 0)) - (int64_t)p->pad_begin[0];
    *above = from < 0 ? (uint64_t)-from : 0;
    *below = to > (int64_t)p->in_h ? (uint64_t)(to - (int64_t)p->in_h) : 0;
    *first = from < 0 ? 0 : (uint64_t)from;
    *count = (uint64_t)(to > (int64_t)p->in_h ? (int64_t)p->in_h : to) - *first;
}

static uint64_t bytes_of(const cmdq_network *net, uint32_t value, uint64_t elements)
{
    return elements * net->values[net->values[value].storage].qbits / 8;
}

/* Output channels whose weights fit a bank; all that fit are divided evenly. */
static void choose_block(const cmdq_network *net, product *p)
{
    uint64_t limit = net->l.bank_bytes / (p->w->row_bytes ? p->w->row_bytes : 1);
    limit = limit > 16 ? limit / 16 * 16 : limit;
    p->block_count = limit ? tv_ceil_div(p->out_c, limit) : 0;
    if (p->block_count > 1) /* two slots of a bank each, and an engine for each block */
        p->block_count = tv_ceil_div(p->block_count, net->l.te) * net->l.te;
    p->block = p->block_count ? tv_ceil_div(p->out_c, p->block_count) : 0;
    p->block = p->block_count > 1 ? tv_ceil_div(p->block, 4) * 4 : p->block;
    p->block_count = p->block ? tv_ceil_div(p->out_c, p->block) : 0;
}

/* Rows of the output whose tiles have at most `limit` bytes of each value that is in DRAM; at least 1. */
static uint64_t rows_within(const cmdq_network *net, const product *p, uint64_t limit, bool in_dram, bool out_dram)
{
    uint64_t in_row = bytes_of(net, p->n->inputs[0], p->in_w * p->channels),
             out_row = bytes_of(net, p->n->output, p->out_w * p->block), rows = 1;
    while (rows < p->out_h && (!out_dram || (rows + 1) * out_row <= limit) &&
           (!in_dram || (rows * p->stride[0] + span_of(p, 0)) * in_row <= limit))
        rows++;
    return rows;
}

static bool is_in_dram(const cmdq_network *net, uint32_t value)
{
    return !net->values[net->values[value].storage].segment_count;
}

static void choose_tile(const cmdq_network *net, product *p)
{
    enum { STREAMED_TILES = 4 };
    bool in = is_in_dram(net, p->n->inputs[0]),
         out = is_in_dram(net, p->n->output) ||
               (p->n->inputs[3] != TV_NO_VALUE && (is_in_dram(net, p->n->inputs[3]) || p->block_count > 1)),
         streamed = in || out;
    uint64_t tiles = p->block_count > 1 ? 1 : streamed ? STREAMED_TILES : net->l.te;
    uint64_t rows = tv_ceil_div(p->out_h, tiles), limit = rows_within(net, p, net->options.streamed_bytes, in, out);
    p->tile = tv_min_u64(rows, limit);
}

static product describe(const cmdq_network *net, const tv_graph_node *n)
{
    product p = {.n = n, .w = &net->weights[cmdq_lower_node_index(&net->l, n)], .in_w = 1, .out_w = 1, .groups = 1};
    for (unsigned i = 0; i < 2; i++)
        p.kernel[i] = p.stride[i] = p.dilation[i] = 1;
    if (n->op == TV_OP_CONV) {
        describe_image(net, &p);
    } else {
        p.channels = tv_graph_columns(net->graph, n->inputs[0]);
        p.in_h = p.out_h = tv_graph_elements(net->graph, n->inputs[0]) / p.channels;
    }
    p.out_c = p.w->rows;
    choose_block(net, &p);
    return p;
}

/* ---- Entries ---- */

void cmdq_net_load_weights(cmdq_network *net, const cmdq_net_weights *w, uint64_t row, uint64_t rows, uint32_t weights,
                           uint32_t params)
{
    cmdq_lower_operand to = cmdq_lower_f32(params);
    cmdq_lower_load(&net->l, (cmdq_lower_operand){weights, 0, w->bits, 1}, "weight", w->data + row * w->row_bytes, 1,
                    rows * w->columns, 0);
    cmdq_lower_load(&net->l, to, "weight", w->scales + row * 4, 1, rows, 0);
    if (w->bias)
        cmdq_lower_load(&net->l, cmdq_lower_skip(to, rows), "weight", w->bias + row * 4, 1, rows, 0);
}

static uint64_t weight_bytes(const product *p) { return p->block * p->w->row_bytes; }
static uint64_t param_bytes(const product *p) { return p->block * 4 * (p->w->bias ? 2 : 1); }

static uint64_t free_bytes(const cmdq_network *net)
{
    uint64_t used = 0;
    for (size_t i = 0; i < net->live.count; i++)
        used += net->plan.buffers.data[net->live.data[i]].bytes;
    return net->l.bank_bytes * net->l.context - used;
}

/* Loads the first weights of a product. False: there is no space. */
static bool prefetch_product(cmdq_network *net, uint32_t node, uint64_t reserve)
{
    product p = describe(net, tv_graph_node_at(net->graph, node));
    if (!p.block || free_bytes(net) < weight_bytes(&p) + reserve)
        return false;
    uint32_t weights = cmdq_net_try_buffer(net, weight_bytes(&p)),
             params = weights == TV_NO_VALUE ? TV_NO_VALUE : cmdq_net_try_buffer(net, param_bytes(&p));
    if (params == TV_NO_VALUE) {
        cmdq_net_release(net, weights);
        return false;
    }
    cmdq_net_load_weights(net, p.w, 0, tv_min_u64(p.block, p.out_c), weights, params);
    if (!TV_VEC_PUSH(&net->prefetched, ((cmdq_net_prefetched){node, weights, params})))
        net->status = TV_ERR_MEMORY;
    return true;
}

static cmdq_net_prefetched *find_prefetched(const cmdq_network *net, uint32_t node)
{
    for (size_t i = 0; i < net->prefetched.count; i++)
        if (net->prefetched.data[i].node == node)
            return &net->prefetched.data[i];
    return NULL;
}

/* The next product needs little besides; those after it leave space for the values of the layers between. */
void cmdq_net_prefetch(cmdq_network *net, uint32_t node)
{
    const tv_graph *g = net->graph;
    unsigned products = 0;
    bool space = !net->keep_values;
    for (; node < g->nodes.count && products < net->options.products_ahead && space && net->status == TV_OK; node++) {
        if (!is_product(&g->nodes.data[node]))
            continue;
        if (!find_prefetched(net, node))
            space = prefetch_product(net, node, products ? net->options.reserve : 0);
        products++;
    }
}

static void set_activation(cmdq_network *net, const tv_graph_attrs *a)
{
    static const char *const names[TV_ACTIVATIONS] = {
        [TV_ACTIVATION_RELU] = "relu", [TV_ACTIVATION_CLIP] = "clip",           [TV_ACTIVATION_SWISH] = "silu",
        [TV_ACTIVATION_GELU] = "gelu", [TV_ACTIVATION_GELU_TANH] = "gelu_tanh", [TV_ACTIVATION_SIGMOID] = "sigmoid",
        [TV_ACTIVATION_TANH] = "tanh"};
    if (!names[a->activation])
        return;
    tv_queue_builder_text(net->l.builder, CMDQ_F_activation, names[a->activation]);
    if (a->activation != TV_ACTIVATION_CLIP)
        return;
    if (isfinite(a->alpha))
        tv_queue_builder_real(net->l.builder, CMDQ_F_clip_min, (double)a->alpha);
    if (isfinite(a->beta))
        tv_queue_builder_real(net->l.builder, CMDQ_F_clip_max, (double)a->beta);
}

/* The operands of a tile: rows [row, row + rows) and channels [channel, channel + channels) of the output. */
typedef struct tile {
    uint64_t row, rows, channel, channels;
    cmdq_lower_operand in, out, residual;
    uint32_t weights, params;
    uint64_t in_rows, above, below;
} tile;

static void set_geometry(cmdq_network *net, const product *p, const tile *t)
{
    cmdq_lowering *l = &net->l;
    cmdq_lower_set_integer(l, CMDQ_F_in_h, t->in_rows);
    cmdq_lower_set_integer(l, CMDQ_F_in_w, p->in_w);
    cmdq_lower_set_integer(l, CMDQ_F_in_c, p->channels);
    cmdq_lower_set_integer(l, CMDQ_F_out_c, t->channels);
    cmdq_lower_set_integer(l, CMDQ_F_kernel_h, p->kernel[0]);
    cmdq_lower_set_integer(l, CMDQ_F_kernel_w, p->kernel[1]);
    cmdq_lower_set_integer(l, CMDQ_F_stride_h, p->stride[0]);
    cmdq_lower_set_integer(l, CMDQ_F_stride_w, p->stride[1]);
    cmdq_lower_set_integer(l, CMDQ_F_dil_h, p->dilation[0]);
    cmdq_lower_set_integer(l, CMDQ_F_dil_w, p->dilation[1]);
    cmdq_lower_set_integer(l, CMDQ_F_pad_h, t->above);
    cmdq_lower_set_integer(l, CMDQ_F_pad_bottom, t->below);
    cmdq_lower_set_integer(l, CMDQ_F_pad_w, p->pad_begin[1]);
    cmdq_lower_set_integer(l, CMDQ_F_pad_right, p->pad_end[1]);
    if (p->groups > 1)
        cmdq_lower_set_integer(l, CMDQ_F_groups, p->groups);
}

/* The tensor engine with the least work of this product. */
static uint32_t choose_engine(cmdq_network *net, uint64_t work)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < net->l.te && i < CMDQ_NET_ENGINES_MAX; i++)
        best = net->work[i] < net->work[best] ? i : best;
    net->work[best] += work;
    return best;
}

static void emit_tile(cmdq_network *net, const product *p, const tile *t)
{
    cmdq_lowering *l = &net->l;
    bool conv = p->n->op == TV_OP_CONV;
    tv_queue_builder_opcode(l->builder, conv ? CMDQ_TE_CONV_TILE : CMDQ_TE_GEMM_TILE);
    cmdq_lower_set_integer(l, CMDQ_F_te_id, choose_engine(net, t->rows * t->channels));
    if (conv) {
        set_geometry(net, p, t);
    } else {
        cmdq_lower_set_integer(l, CMDQ_F_m, t->rows);
        cmdq_lower_set_integer(l, CMDQ_F_n, t->channels);
        cmdq_lower_set_integer(l, CMDQ_F_k, p->channels);
    }
    cmdq_lower_set_integer(l, CMDQ_F_qbits_weight, p->w->bits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_activation, t->in.qbits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_ofm, t->out.qbits);
    cmdq_lower_set_address(l, CMDQ_F_ifm_bank, t->in.buffer, t->in.offset);
    cmdq_lower_set_address(l, CMDQ_F_wgt_bank, t->weights, 0);
    cmdq_lower_set_address(l, CMDQ_F_ofm_bank, t->out.buffer, t->out.offset);
    cmdq_lower_set_address(l, CMDQ_F_wgt_scale_bank, t->params, 0);
    cmdq_lower_set_scale(l, CMDQ_F_scale_ofm, t->out.scale);
    cmdq_lower_add_read(l, t->in.buffer);
    cmdq_net_share_input(net, t->in, t->in_rows * p->in_w * p->channels);
    cmdq_lower_add_read(l, t->weights);
    cmdq_lower_add_read(l, t->params);
    if (p->w->bias)
        cmdq_lower_set_address(l, CMDQ_F_bias_bank, t->params, t->channels * 4);
    if (t->residual.buffer != CMDQ_LOWER_NONE) {
        cmdq_lower_set_address(l, CMDQ_F_residual_bank, t->residual.buffer, t->residual.offset);
        cmdq_lower_set_integer(l, CMDQ_F_qbits_residual, t->residual.qbits);
        cmdq_lower_set_scale(l, CMDQ_F_scale_residual, t->residual.scale);
        cmdq_lower_add_read(l, t->residual.buffer);
        cmdq_net_share_input(net, t->residual, t->rows * p->out_w * t->channels);
    }
    set_activation(net, &p->n->attrs);
    cmdq_lower_add_write(l, t->out.buffer);
    cmdq_net_share_output(net, p->n->output, t->out, t->rows * p->out_w * t->channels);
    cmdq_lower_finish_entry(l);
}

/* ---- Tiles ---- */

/* Buffers of a product while it is lowered. */
typedef struct slots {
    uint32_t weights[CMDQ_NET_SLOTS], params[CMDQ_NET_SLOTS], in[CMDQ_NET_SLOTS], out[CMDQ_NET_SLOTS],
        residual[CMDQ_NET_SLOTS];
    unsigned next;
} slots;

/* Elements of the input that a tile reads from DRAM, or of two segments. */
static uint64_t in_tile_elements(const cmdq_network *net, const product *p)
{
    const cmdq_net_value *in = &net->values[net->values[p->n->inputs[0]].storage];
    uint64_t rows = in->segment_count ? cmdq_net_crossing_rows(net, p->n->inputs[0], span_of(p, 0), p->stride[0])
                                      : (p->tile - 1) * p->stride[0] + span_of(p, 0);
    return tv_min_u64(p->in_h, rows) * p->in_w * p->channels;
}

/* True when some tile of the input or the output is not in one segment. */
static bool needs_slots(const cmdq_network *net, uint32_t value)
{
    const cmdq_net_value *v = &net->values[net->values[value].storage];
    return v->segment_count != 1;
}

static void allocate_slots(cmdq_network *net, const product *p, slots *s)
{
    uint64_t out = bytes_of(net, p->n->output, p->tile * p->out_w * p->block);
    bool resident_out = net->values[net->values[p->n->output].storage].segment_count > 0;
    for (unsigned i = 0; i < CMDQ_NET_SLOTS && net->status == TV_OK; i++) {
        if (needs_slots(net, p->n->inputs[0]))
            s->in[i] = cmdq_net_buffer(net, bytes_of(net, p->n->inputs[0], in_tile_elements(net, p)));
        if (!resident_out)
            s->out[i] = cmdq_net_buffer(net, out);
        if (p->n->inputs[3] != TV_NO_VALUE && (is_in_dram(net, p->n->inputs[3]) || p->block_count > 1))
            s->residual[i] = cmdq_net_buffer(net, bytes_of(net, p->n->inputs[3], p->tile * p->out_w * p->block));
    }
}

static void release_slots(cmdq_network *net, const slots *s)
{
    for (unsigned i = 0; i < CMDQ_NET_SLOTS; i++) {
        cmdq_net_release(net, s->weights[i]);
        cmdq_net_release(net, s->params[i]);
        cmdq_net_release(net, s->in[i]);
        cmdq_net_release(net, s->out[i]);
        cmdq_net_release(net, s->residual[i]);
    }
}

/* Rows of the next tile from `row` on: those of one segment of output and residual, and mostly of the input. */
static uint64_t tile_rows(const cmdq_network *net, const product *p, uint64_t row)
{
    uint64_t elements = p->out_w * p->out_c, rows = tv_min_u64(p->tile, p->out_h - row);
    rows = cmdq_net_run_length(net, p->n->output, row * elements, rows * elements) / elements;
    if (p->n->inputs[3] != TV_NO_VALUE && p->block_count == 1)
        rows = tv_max_u64(1, cmdq_net_run_length(net, p->n->inputs[3], row * elements, rows * elements) / elements);
    return cmdq_net_windows(net, p->n->inputs[0], p->in_w * p->channels,
                            (int64_t)(row * p->stride[0]) - (int64_t)p->pad_begin[0], span_of(p, 0), p->stride[0],
                            rows);
}

/* Reads the operands of a tile. */
static void begin_tile(cmdq_network *net, const product *p, slots *s, tile *t)
{
    uint64_t row_elements = p->in_w * p->channels, pixels = t->rows * p->out_w, first;
    unsigned slot = s->next++ % CMDQ_NET_SLOTS;
    input_rows(p, t->row, t->rows, &first, &t->in_rows, &t->above, &t->below);
    t->in = cmdq_net_read(net, p->n->inputs[0], first * row_elements, t->in_rows * row_elements, s->in[slot]);
    t->residual.buffer = CMDQ_LOWER_NONE;
    if (p->n->inputs[3] != TV_NO_VALUE)
        t->residual = p->block_count == 1
                          ? cmdq_net_read(net, p->n->inputs[3], t->row * p->out_w * p->out_c, pixels * p->out_c,
                                          s->residual[slot])
                          : cmdq_net_read_rows(net, p->n->inputs[3], t->row * p->out_w * p->out_c + t->channel, pixels,
                                               t->channels, p->out_c, s->residual[slot]);
    t->out = cmdq_net_write(net, p->n->output, t->row * p->out_w * p->out_c, pixels * p->out_c, s->out[slot]);
}

static void end_tile(cmdq_network *net, const product *p, const tile *t)
{
    uint64_t first = t->row * p->out_w * p->out_c, pixels = t->rows * p->out_w;
    if (p->block_count == 1)
        cmdq_net_written(net, p->n->output, first, pixels * p->out_c, t->out);
    else
        cmdq_net_written_rows(net, p->n->output, first + t->channel, pixels, t->channels, p->out_c, t->out);
}

/* The tiles of a block; the operands of a tile are loaded before the previous one is stored. */
static uint64_t emit_block(cmdq_network *net, const product *p, slots *s, uint64_t block)
{
    tile tiles[2];
    uint64_t count = 0;
    for (uint64_t row = 0; row < p->out_h && net->status == TV_OK; count++) {
        tile *t = &tiles[count % 2];
        *t = (tile){.row = row,
                    .channel = block * p->block,
                    .weights = s->weights[block % CMDQ_NET_SLOTS],
                    .params = s->params[block % CMDQ_NET_SLOTS]};
        t->rows = tile_rows(net, p, row);
        t->channels = tv_min_u64(p->block, p->out_c - t->channel);
        begin_tile(net, p, s, t);
        row += t->rows;
        if (count > 0)
            end_tile(net, p, &tiles[(count - 1) % 2]);
        emit_tile(net, p, t);
    }
    if (count)
        end_tile(net, p, &tiles[(count - 1) % 2]);
    return count;
}

static void load_block(cmdq_network *net, const product *p, const slots *s, uint64_t block)
{
    uint64_t row = block * p->block;
    cmdq_net_load_weights(net, p->w, row, tv_min_u64(p->block, p->out_c - row), s->weights[block % CMDQ_NET_SLOTS],
                          s->params[block % CMDQ_NET_SLOTS]);
}

/* Makes the output resident if that leaves space for the slots of the other operands; in the memory of the residual if
 * that ends here. */
static void locate_output(cmdq_network *net, const product *p)
{
    uint32_t reserved[2 * CMDQ_NET_SLOTS], count = 0, operands[2] = {p->n->inputs[0], p->n->inputs[3]};
    uint64_t row_bytes = bytes_of(net, p->n->inputs[0], p->in_w * p->channels);
    if (operands[1] != TV_NO_VALUE && net->status == TV_OK && cmdq_net_take_memory(net, p->n->output, operands[1]))
        return;
    for (unsigned i = 0; i < 2 * CMDQ_NET_SLOTS && net->status == TV_OK; i++) {
        uint32_t v = operands[i % 2];
        if (v == TV_NO_VALUE || !(i % 2 ? is_in_dram(net, v) : needs_slots(net, v)))
            continue;
        uint64_t crossing = cmdq_net_crossing_rows(net, v, span_of(p, 0), p->stride[0]) * row_bytes;
        reserved[count++] = cmdq_net_buffer(net, crossing ? crossing : net->options.streamed_bytes);
    }
    if (net->status == TV_OK)
        cmdq_net_make_resident(net, p->n->output);
    while (count > 0)
        cmdq_net_release(net, reserved[--count]);
}

static void allocate_weights(cmdq_network *net, const product *p, slots *s)
{
    for (unsigned i = 0; i < CMDQ_NET_SLOTS && net->status == TV_OK; i++) {
        const cmdq_net_prefetched *prefetched = i == 0 ? find_prefetched(net, net->node) : NULL;
        if (prefetched) {
            s->weights[0] = prefetched->weights;
            s->params[0] = prefetched->params;
        } else if (i == 0 || p->block_count > 1) {
            s->weights[i] = cmdq_net_buffer(net, weight_bytes(p));
            s->params[i] = net->status == TV_OK ? cmdq_net_buffer(net, param_bytes(p)) : TV_NO_VALUE;
        }
    }
}

/* Finds space for all operands. TV_ERR_INPUT in net->status: there is none. */
static void plan_product(cmdq_network *net, product *p, slots *s)
{
    *s = (slots){.next = 0};
    for (unsigned i = 0; i < CMDQ_NET_SLOTS; i++)
        s->weights[i] = s->params[i] = s->in[i] = s->out[i] = s->residual[i] = TV_NO_VALUE;
    allocate_weights(net, p, s);
    if (p->block_count == 1)
        locate_output(net, p);
    else if (net->status == TV_OK)
        cmdq_net_fetch(net, p->n->inputs[0]); /* each block reads the whole input */
    choose_tile(net, p);
    allocate_slots(net, p, s);
}

/* The weights of the current node are no longer prefetched ones. False: they were none. */
static bool drop_prefetched(cmdq_network *net)
{
    cmdq_net_prefetched *found = find_prefetched(net, net->node);
    if (found)
        *found = net->prefetched.data[--net->prefetched.count];
    return found != NULL;
}

void cmdq_net_emit_product(cmdq_network *net, const tv_graph_node *n)
{
    enum { STREAMED_MIN = 8192 };
    product p = describe(net, n);
    slots s;
    uint64_t tiles = 0;
    if (!p.block) {
        net->status = TV_ERR_INPUT;
        return;
    }
    if (p.block_count > 1 && n->inputs[3] != TV_NO_VALUE)
        cmdq_net_store(net, n->inputs[3]);
    uint64_t streamed_bytes = net->options.streamed_bytes;
    plan_product(net, &p, &s);
    while (net->status == TV_ERR_INPUT && net->options.streamed_bytes > STREAMED_MIN) { /* with less in SPM */
        release_slots(net, &s);
        drop_prefetched(net);
        cmdq_net_evict(net, n->inputs[0]);
        if (n->inputs[3] != TV_NO_VALUE)
            cmdq_net_evict(net, n->inputs[3]);
        net->status = TV_OK;
        plan_product(net, &p, &s);
        net->options.streamed_bytes /= 2;
    }
    net->options.streamed_bytes = streamed_bytes;
    memset(net->work, 0, sizeof net->work);
    bool prefetched = drop_prefetched(net);
    for (uint64_t b = 0; b < p.block_count && net->status == TV_OK; b++) {
        if (b == 0 && !prefetched)
            load_block(net, &p, &s, 0);
        if (b + 1 < p.block_count)
            load_block(net, &p, &s, b + 1);
        else
            cmdq_net_prefetch(net, net->node + 1);
        tiles += emit_block(net, &p, &s, b);
    }
    release_slots(net, &s);
    net->layers[net->node].tiles = tiles;
}
