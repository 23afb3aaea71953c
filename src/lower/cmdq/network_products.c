/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and products with constants. Tiles are rows of the output by a block of its channels; a block is columns
 * of the output, whose rows are apart. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "lower/cmdq/network.h"

/* Images of in_h rows of in_w pixels of `channels`; a Linear has one, with rows of one pixel. */
typedef struct product {
    const tv_graph_node *n;
    const cmdq_net_weights *w;
    uint64_t images, in_h, in_w, channels, out_h, out_w, out_c, groups;
    cmdq_net_window window;
    uint64_t block, block_count; /* output channels at once */
    uint64_t tile;               /* rows of the output at once */
} product;

static uint64_t span_of(const product *p, unsigned axis)
{
    return (p->window.kernel[axis] - 1) * p->window.dilation[axis] + 1;
}

static void describe_image(const cmdq_network *net, product *p)
{
    cmdq_net_image in = cmdq_net_image_of(cmdq_net_dims(net, p->n->inputs[0])),
                   out = cmdq_net_image_of(cmdq_net_dims(net, p->n->output));
    p->images = in.images;
    p->channels = in.channels;
    p->in_h = in.h;
    p->in_w = in.w;
    p->out_h = out.h;
    p->out_w = out.w;
    p->groups = p->n->attrs.groups;
    p->window = cmdq_net_window_of(p->n->attrs.lists, cmdq_net_dims(net, p->n->output)->rank);
}

/* Rows of the input that rows [row, row + rows) of the output read, without padding. */
static void input_rows(const product *p, uint64_t row, uint64_t rows, uint64_t *first, uint64_t *count, uint64_t *above,
                       uint64_t *below)
{
    int64_t from = (int64_t)(row * p->window.stride[0]) - (int64_t)p->window.pad_begin[0],
            to = (int64_t)((row + rows - 1) * p->window.stride[0] + span_of(p, 0)) - (int64_t)p->window.pad_begin[0];
    *above = from < 0 ? (uint64_t)-from : 0;
    *below = to > (int64_t)p->in_h ? (uint64_t)(to - (int64_t)p->in_h) : 0;
    *first = from < 0 ? 0 : (uint64_t)from;
    *count = (uint64_t)(to > (int64_t)p->in_h ? (int64_t)p->in_h : to) - *first;
}

/* Rows of the output whose tiles have at most `limit` bytes of each value that is in DRAM; at least 1. */
static uint64_t rows_within(const cmdq_network *net, const product *p, uint64_t limit, bool in_dram, bool out_dram)
{
    uint64_t in_row = cmdq_net_bytes(net, p->n->inputs[0], p->in_w * p->channels),
             out_row = cmdq_net_bytes(net, p->n->output, p->out_w * p->block), rows = 1;
    while (rows < p->out_h && (!out_dram || (rows + 1) * out_row <= limit) &&
           (!in_dram || (rows * p->window.stride[0] + span_of(p, 0)) * in_row <= limit))
        rows++;
    return rows;
}

static bool is_in_dram(const cmdq_network *net, uint32_t value) { return !cmdq_net_storage(net, value)->segment_count; }

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
    product p = {
        .n = n, .w = &net->weights[cmdq_lower_node_index(&net->l, n)], .images = 1, .in_w = 1, .out_w = 1, .groups = 1};
    p.window = cmdq_net_window_of(NULL, 0);
    if (n->op == TV_OP_CONV) {
        describe_image(net, &p);
    } else {
        p.channels = tv_graph_columns(net->graph, n->inputs[0]);
        p.in_h = p.out_h = tv_graph_elements(net->graph, n->inputs[0]) / p.channels;
    }
    p.out_c = p.w->rows;
    cmdq_net_blocks division = cmdq_net_divide(net, cmdq_lower_node_index(&net->l, n));
    p.block = division.rows;
    p.block_count = division.count;
    return p;
}

/* ---- Entries ---- */

void cmdq_net_set_limits(cmdq_network *net, const tv_graph_attrs *a)
{
    bool has_max = isfinite(a->beta);
    float min = fmaxf(fminf(fminf(a->alpha, a->beta), FLT_MAX), -FLT_MAX);
    if (isfinite(a->alpha) || !has_max) /* one limit is required */
        tv_queue_builder_real(net->l.builder, CMDQ_F_clip_min, (double)min);
    if (has_max)
        tv_queue_builder_real(net->l.builder, CMDQ_F_clip_max, (double)a->beta);
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
    cmdq_net_set_limits(net, a);
}

/* The operands of a tile: rows [row, row + rows) and channels [channel, channel + channels) of the output; `first` is
 * its first pixel among those of all images. */
typedef struct tile {
    uint64_t image, row, rows, channel, channels, first;
    cmdq_lower_operand in, out, residual;
    uint32_t weights, params;
    uint64_t in_rows, above, below;
    uint64_t out_stride, residual_stride; /* bytes; 0: packed */
} tile;

static void set_geometry(cmdq_network *net, const product *p, const tile *t)
{
    cmdq_lowering *l = &net->l;
    cmdq_lower_set_integer(l, CMDQ_F_in_h, t->in_rows);
    cmdq_lower_set_integer(l, CMDQ_F_in_w, p->in_w);
    cmdq_lower_set_integer(l, CMDQ_F_in_c, p->channels);
    cmdq_lower_set_integer(l, CMDQ_F_out_c, t->channels);
    cmdq_lower_set_integer(l, CMDQ_F_kernel_h, p->window.kernel[0]);
    cmdq_lower_set_integer(l, CMDQ_F_kernel_w, p->window.kernel[1]);
    cmdq_lower_set_integer(l, CMDQ_F_stride_h, p->window.stride[0]);
    cmdq_lower_set_integer(l, CMDQ_F_stride_w, p->window.stride[1]);
    cmdq_lower_set_integer(l, CMDQ_F_dil_h, p->window.dilation[0]);
    cmdq_lower_set_integer(l, CMDQ_F_dil_w, p->window.dilation[1]);
    cmdq_lower_set_integer(l, CMDQ_F_pad_h, t->above);
    cmdq_lower_set_integer(l, CMDQ_F_pad_bottom, t->below);
    cmdq_lower_set_integer(l, CMDQ_F_pad_w, p->window.pad_begin[1]);
    cmdq_lower_set_integer(l, CMDQ_F_pad_right, p->window.pad_end[1]);
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

static void share_rows_of_output(cmdq_network *net, const product *p, const tile *t)
{
    uint64_t pixels = t->rows * p->out_w;
    if (t->out_stride)
        cmdq_net_share_rows_of_output(net, p->n->output, t->out, pixels, t->channels, t->out_stride);
    else
        cmdq_net_share_output(net, p->n->output, t->out, pixels * t->channels);
}

static void share_rows_of_residual(cmdq_network *net, const product *p, const tile *t)
{
    uint64_t pixels = t->rows * p->out_w;
    if (t->residual_stride)
        cmdq_net_share_rows_of_input(net, t->residual, pixels, t->channels, t->residual_stride);
    else
        cmdq_net_share_input(net, t->residual, pixels * t->channels);
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
    if (p->w->group < p->w->columns)
        cmdq_lower_set_integer(l, CMDQ_F_wgt_group, p->w->group);
    cmdq_lower_set_scale(l, CMDQ_F_scale_ofm, t->out.scale);
    cmdq_lower_add_read(l, t->in.buffer);
    cmdq_net_share_input(net, t->in, t->in_rows * p->in_w * p->channels);
    cmdq_lower_add_read(l, t->weights);
    cmdq_lower_add_read(l, t->params);
    if (p->w->bias)
        cmdq_lower_set_address(l, CMDQ_F_bias_bank, t->params, t->channels * (p->w->columns / p->w->group) * 4);
    if (t->residual.buffer != CMDQ_LOWER_NONE) {
        cmdq_lower_set_address(l, CMDQ_F_residual_bank, t->residual.buffer, t->residual.offset);
        cmdq_lower_set_integer(l, CMDQ_F_qbits_residual, t->residual.qbits);
        cmdq_lower_set_scale(l, CMDQ_F_scale_residual, t->residual.scale);
        if (t->residual_stride)
            cmdq_lower_set_integer(l, CMDQ_F_residual_stride, t->residual_stride);
        cmdq_lower_add_read(l, t->residual.buffer);
        share_rows_of_residual(net, p, t);
    }
    set_activation(net, &p->n->attrs);
    if (t->out_stride)
        cmdq_lower_set_integer(l, CMDQ_F_ofm_stride, t->out_stride);
    cmdq_lower_add_write(l, t->out.buffer);
    share_rows_of_output(net, p, t);
    cmdq_lower_finish_entry(l);
}

/* ---- Tiles ---- */

/* Buffers of a product while it is lowered. */
typedef struct slots {
    cmdq_net_block block; /* the weights of the current tiles */
    uint32_t in[CMDQ_NET_SLOTS], out[CMDQ_NET_SLOTS], residual[CMDQ_NET_SLOTS];
    unsigned next;
} slots;

/* Elements of the input that a tile reads from DRAM, or of two segments. */
static uint64_t in_tile_elements(const cmdq_network *net, const product *p)
{
    const cmdq_net_value *in = cmdq_net_storage(net, p->n->inputs[0]);
    uint64_t rows = in->segment_count ? cmdq_net_crossing_rows(net, p->n->inputs[0], span_of(p, 0), p->window.stride[0])
                                      : (p->tile - 1) * p->window.stride[0] + span_of(p, 0);
    return tv_min_u64(p->in_h, rows) * p->in_w * p->channels;
}

/* True when some tile of the input or the output is not in one segment. */
static bool needs_slots(const cmdq_network *net, uint32_t value)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    return v->segment_count != 1;
}

static void allocate_slots(cmdq_network *net, const product *p, slots *s)
{
    uint64_t out = cmdq_net_bytes(net, p->n->output, p->tile * p->out_w * p->block);
    bool resident_out = cmdq_net_storage(net, p->n->output)->segment_count > 0;
    for (unsigned i = 0; i < CMDQ_NET_SLOTS && net->status == TV_OK; i++) {
        if (needs_slots(net, p->n->inputs[0]))
            s->in[i] = cmdq_net_buffer(net, cmdq_net_bytes(net, p->n->inputs[0], in_tile_elements(net, p)));
        if (!resident_out)
            s->out[i] = cmdq_net_buffer(net, out);
        if (p->n->inputs[3] != TV_NO_VALUE && is_in_dram(net, p->n->inputs[3]))
            s->residual[i] = cmdq_net_buffer(net, cmdq_net_bytes(net, p->n->inputs[3], p->tile * p->out_w * p->block));
    }
}

static void release_slots(cmdq_network *net, const slots *s)
{
    for (unsigned i = 0; i < CMDQ_NET_SLOTS; i++) {
        cmdq_net_release(net, s->in[i]);
        cmdq_net_release(net, s->out[i]);
        cmdq_net_release(net, s->residual[i]);
    }
}

/* Rows of a tile from its first one on: those of one segment of output and residual, and mostly of the input. */
static uint64_t tile_rows(const cmdq_network *net, const product *p, const tile *t)
{
    uint64_t elements = p->out_w * p->out_c, first = t->first * p->out_c, rows = tv_min_u64(p->tile, p->out_h - t->row);
    int64_t top = (int64_t)(t->image * p->in_h + t->row * p->window.stride[0]) - (int64_t)p->window.pad_begin[0];
    rows = cmdq_net_run_length(net, p->n->output, first, rows * elements) / elements;
    if (p->n->inputs[3] != TV_NO_VALUE)
        rows = tv_max_u64(1, cmdq_net_run_length(net, p->n->inputs[3], first, rows * elements) / elements);
    return cmdq_net_windows(net, p->n->inputs[0], p->in_w * p->channels, top, span_of(p, 0), p->window.stride[0], rows);
}

/* The residual of a tile: columns of its rows, if the output is divided into blocks of channels. */
static cmdq_lower_operand read_residual(cmdq_network *net, const product *p, tile *t, uint32_t slot)
{
    uint32_t value = p->n->inputs[3];
    uint64_t first = t->first * p->out_c + t->channel, pixels = t->rows * p->out_w,
             all = (pixels - 1) * p->out_c + t->channels;
    if (p->block_count > 1 && is_in_dram(net, value))
        return cmdq_net_read_rows(net, value, first, pixels, t->channels, p->out_c, slot);
    if (p->block_count > 1)
        t->residual_stride = cmdq_net_bytes(net, value, p->out_c);
    return cmdq_net_read(net, value, first, p->block_count > 1 ? all : pixels * p->out_c, slot);
}

/* Reads the operands of a tile. */
static void begin_tile(cmdq_network *net, const product *p, slots *s, tile *t)
{
    uint64_t row_elements = p->in_w * p->channels, pixels = t->rows * p->out_w, first;
    unsigned slot = s->next++ % CMDQ_NET_SLOTS;
    input_rows(p, t->row, t->rows, &first, &t->in_rows, &t->above, &t->below);
    first += t->image * p->in_h;
    t->in = cmdq_net_read(net, p->n->inputs[0], first * row_elements, t->in_rows * row_elements, s->in[slot]);
    t->residual.buffer = CMDQ_LOWER_NONE;
    if (p->n->inputs[3] != TV_NO_VALUE)
        t->residual = read_residual(net, p, t, s->residual[slot]);
    t->out = cmdq_net_write(net, p->n->output, t->first * p->out_c + t->channel, pixels * p->out_c, s->out[slot]);
    if (p->block_count > 1 && !is_in_dram(net, p->n->output))
        t->out_stride = cmdq_net_bytes(net, p->n->output, p->out_c);
}

static void end_tile(cmdq_network *net, const product *p, const tile *t)
{
    uint64_t first = t->first * p->out_c, pixels = t->rows * p->out_w;
    if (p->block_count == 1)
        cmdq_net_written(net, p->n->output, first, pixels * p->out_c, t->out);
    else if (is_in_dram(net, p->n->output))
        cmdq_net_written_rows(net, p->n->output, first + t->channel, pixels, t->channels, p->out_c, t->out);
}

/* The tiles of a block; the operands of a tile are loaded before the previous one is stored. */
static uint64_t emit_block(cmdq_network *net, const product *p, slots *s, uint64_t block)
{
    tile tiles[2];
    uint64_t count = 0;
    for (uint64_t at = 0, rows_all = p->images * p->out_h; at < rows_all && net->status == TV_OK; count++) {
        tile *t = &tiles[count % 2];
        *t = (tile){.image = at / p->out_h,
                    .row = at % p->out_h,
                    .first = at * p->out_w,
                    .channel = block * p->block,
                    .weights = s->block.weights,
                    .params = s->block.params};
        t->rows = tile_rows(net, p, t);
        t->channels = tv_min_u64(p->block, p->out_c - t->channel);
        begin_tile(net, p, s, t);
        at += t->rows;
        if (count > 0)
            end_tile(net, p, &tiles[(count - 1) % 2]);
        emit_tile(net, p, t);
    }
    if (count)
        end_tile(net, p, &tiles[(count - 1) % 2]);
    return count;
}

/* Makes the output resident if that leaves space for the slots of the other operands; in the memory of the residual if
 * that ends here. */
static void locate_output(cmdq_network *net, const product *p)
{
    uint32_t reserved[2 * CMDQ_NET_SLOTS], count = 0, operands[2] = {p->n->inputs[0], p->n->inputs[3]};
    uint64_t row_bytes = cmdq_net_bytes(net, p->n->inputs[0], p->in_w * p->channels);
    if (operands[1] != TV_NO_VALUE && net->status == TV_OK && cmdq_net_take_memory(net, p->n->output, operands[1]))
        return;
    for (unsigned i = 0; i < 2 * CMDQ_NET_SLOTS && net->status == TV_OK; i++) {
        uint32_t v = operands[i % 2];
        if (v == TV_NO_VALUE || !(i % 2 ? is_in_dram(net, v) : needs_slots(net, v)))
            continue;
        uint64_t crossing = cmdq_net_crossing_rows(net, v, span_of(p, 0), p->window.stride[0]) * row_bytes;
        reserved[count++] = cmdq_net_buffer(net, crossing ? crossing : net->options.streamed_bytes);
    }
    if (net->status == TV_OK)
        cmdq_net_make_resident(net, p->n->output);
    while (count > 0)
        cmdq_net_release(net, reserved[--count]);
}

/* Finds space for all operands. TV_ERR_INPUT in net->status: there is none. */
static void plan_product(cmdq_network *net, product *p, slots *s)
{
    for (unsigned i = 0; i < CMDQ_NET_SLOTS; i++)
        s->in[i] = s->out[i] = s->residual[i] = TV_NO_VALUE;
    s->next = 0;
    s->block = cmdq_net_take_block(net, 0);
    if (p->block_count > 1 && net->status == TV_OK)
        cmdq_net_fetch(net, p->n->inputs[0]); /* each block reads the whole input */
    locate_output(net, p);
    choose_tile(net, p);
    allocate_slots(net, p, s);
}

/* Makes room, step by step, until there is space for the operands. */
static void plan_with_less(cmdq_network *net, product *p, slots *s)
{
    enum { STREAMED_MIN = 8192 };
    uint64_t streamed_bytes = net->options.streamed_bytes;
    plan_product(net, p, s);
    while (net->status == TV_ERR_INPUT && (net->ahead.count || net->options.streamed_bytes > STREAMED_MIN)) {
        release_slots(net, s);
        cmdq_net_release_block(net, &s->block);
        net->status = TV_OK;
        if (!cmdq_net_drop_ahead(net)) {
            cmdq_net_evict(net, p->n->inputs[0]);
            if (p->n->inputs[3] != TV_NO_VALUE)
                cmdq_net_evict(net, p->n->inputs[3]);
            net->options.streamed_bytes /= 2;
        }
        plan_product(net, p, s);
    }
    net->options.streamed_bytes = streamed_bytes;
}

static void explain_product(cmdq_network *net, const product *p)
{
    uint64_t bytes = p->block * p->w->row_bytes;
    if (p->block_count > 1)
        cmdq_net_explain(net, "%" PRIu64 " blocks of %" PRIu64 " output channels with %" PRIu64 " bytes of weights",
                         p->block_count, p->block, bytes);
    else
        cmdq_net_explain(net, "all %" PRIu64 " bytes of weights at once", bytes);
    if (p->tile < p->out_h)
        cmdq_net_explain(net, "%" PRIu64 " of %" PRIu64 " rows a tile", p->tile, p->out_h);
    cmdq_net_explain_values(net, p->n);
}

void cmdq_net_emit_product(cmdq_network *net, const tv_graph_node *n)
{
    product p = describe(net, n);
    slots s;
    uint64_t tiles = 0;
    if (!p.block) {
        net->status = TV_ERR_INPUT;
        return;
    }
    plan_with_less(net, &p, &s);
    explain_product(net, &p);
    memset(net->work, 0, sizeof net->work);
    for (uint64_t b = 0; b < p.block_count && net->status == TV_OK; b++) {
        if (b > 0)
            s.block = cmdq_net_take_block(net, b);
        cmdq_net_load_ahead(net, net->node, b + 1);
        if (net->status == TV_OK)
            tiles += emit_block(net, &p, &s, b);
        cmdq_net_release_block(net, &s.block);
    }
    release_slots(net, &s);
    if (cmdq_net_storage(net, n->output)->is_output && p.block_count > 1 && net->status == TV_OK)
        cmdq_net_store(net, n->output);
    net->layers[net->node].tiles = tiles;
}
