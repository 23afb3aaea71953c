/* SPDX-License-Identifier: Apache-2.0 */
/* Transposed convolutions. Rows y[q * stride + r - pad] of the output, for a phase r below the stride, are a
 * convolution of stride 1 with every stride-th row of the kernel, from row r on and turned round; so for the columns.
 * The phases of the columns are output channels of one convolution, whose result is a row of the output; the phases of
 * the rows are convolutions of their own. With kernels that are no larger than the stride they are plain products. */
#include "lower/cmdq/network.h"

typedef struct transposed {
    cmdq_net_image in, out;
    uint64_t stride[2], taps[2], pad[2]; /* taps: of a phase */
    uint64_t windows;                    /* in a row, and columns of padding after them */
    uint64_t right;
    uint64_t row_weights; /* rows of W for a phase of the rows */
    uint64_t block;       /* of these at once */
    uint64_t tile;        /* windows of a column at once */
} transposed;

const char *cmdq_net_transposed_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    return cmdq_net_dims(net, n->inputs[0])->rank > 4 ? "windows of more than two axes" : NULL;
}

static transposed describe(const cmdq_network *net, const tv_graph_node *n, const cmdq_net_weights *w)
{
    transposed t = {.in = cmdq_net_image_of(cmdq_net_dims(net, n->inputs[0])),
                    .out = cmdq_net_image_of(cmdq_net_dims(net, n->output))};
    cmdq_net_window window = cmdq_net_window_of(n->attrs.lists, cmdq_net_dims(net, n->output)->rank);
    cmdq_net_phases phases = cmdq_net_phases_of(n->attrs.lists, cmdq_net_dims(net, n->output)->rank);
    for (unsigned i = 0; i < 2; i++) {
        t.stride[i] = phases.count[i];
        t.taps[i] = phases.taps[i];
        t.pad[i] = window.pad_begin[i];
    }
    t.windows = tv_max_u64((t.out.w - 1 + t.pad[1]) / t.stride[1] + 1, t.in.w);
    t.right = t.windows - t.in.w;
    t.row_weights = t.stride[1] * t.out.channels;
    uint64_t blocks = tv_ceil_div(t.row_weights * w->row_bytes, net->l.bank_bytes);
    t.block = tv_ceil_div(t.row_weights, blocks);
    uint64_t row_bytes = tv_max_u64(t.in.w * t.in.channels * cmdq_net_bits(net, n->inputs[0]),
                                    t.windows * t.block * cmdq_net_bits(net, n->output)) /
                         8;
    t.tile = tv_min_u64(tv_max_u64(1, cmdq_net_tile_bytes(net) / row_bytes), tv_ceil_div(t.in.h, net->l.te));
    return t;
}

/* Windows [q, q + rows) of a column, phase `phase` of the rows and columns [column, column + columns) of W. */
typedef struct tile {
    uint64_t image, phase, q, rows, column, columns;
    cmdq_lower_operand in, out;
    uint32_t weights, params;
    uint64_t in_rows, above, below;
} tile;

/* Stores the part of the output that the windows of one row have: elements [column, column + columns) of each window,
 * those of padding left out. */
static void store_row(cmdq_network *net, const tv_graph_node *n, const transposed *t, const tile *now, uint64_t i)
{
    uint64_t all = t->out.w * t->out.channels, skipped = t->pad[1] * t->out.channels,
             row = (now->q + i) * t->stride[0] + now->phase - t->pad[0], first = (now->image * t->out.h + row) * all;
    cmdq_lower_operand from = cmdq_lower_skip(now->out, i * t->windows * now->columns);
    for (uint64_t w = 0, count; w < t->windows; w += count) {
        uint64_t begin = w * t->row_weights + now->column, end = begin + now->columns;
        count = 1;
        if (end <= skipped || begin >= skipped + all)
            continue;
        cmdq_lower_operand x = cmdq_lower_skip(from, w * now->columns);
        if (begin < skipped || end > skipped + all) { /* padding cuts it */
            uint64_t cut = begin < skipped ? skipped - begin : 0, last = tv_min_u64(end, skipped + all);
            cmdq_net_written_rows(net, n->output, first + begin + cut - skipped, 1, last - begin - cut, 0,
                                  cmdq_lower_skip(x, cut));
            continue;
        }
        while (w + count < t->windows && end + count * t->row_weights <= skipped + all)
            count++;
        bool adjacent = now->columns == t->row_weights;
        cmdq_net_written_rows(net, n->output, first + begin - skipped, adjacent ? 1 : count,
                              adjacent ? count * now->columns : now->columns, t->row_weights, x);
    }
}

static void store_tile(cmdq_network *net, const tv_graph_node *n, const transposed *t, const tile *now)
{
    uint64_t all = t->out.w * t->out.channels,
             first = now->image * t->out.h + now->q * t->stride[0] + now->phase - t->pad[0];
    if (now->columns == t->row_weights && t->windows * t->row_weights == all) {
        cmdq_net_written_rows(net, n->output, first * all, now->rows, all, t->stride[0] * all, now->out);
        return;
    }
    for (uint64_t i = 0; i < now->rows; i++)
        store_row(net, n, t, now, i);
}

/* ---- Entries ---- */

static void begin_convolution(cmdq_network *net, const transposed *t, const cmdq_net_weights *w, const tile *now)
{
    cmdq_lowering *l = &net->l;
    tv_queue_builder_opcode(l->builder, CMDQ_TE_CONV_TILE);
    cmdq_lower_set_integer(l, CMDQ_F_te_id, l->next_te++ % l->te);
    cmdq_lower_set_integer(l, CMDQ_F_in_h, now->in_rows);
    cmdq_lower_set_integer(l, CMDQ_F_in_w, t->in.w);
    cmdq_lower_set_integer(l, CMDQ_F_in_c, t->in.channels);
    cmdq_lower_set_integer(l, CMDQ_F_out_c, now->columns);
    cmdq_lower_set_integer(l, CMDQ_F_kernel_h, t->taps[0]);
    cmdq_lower_set_integer(l, CMDQ_F_kernel_w, t->taps[1]);
    cmdq_lower_set_integer(l, CMDQ_F_stride_h, 1);
    cmdq_lower_set_integer(l, CMDQ_F_stride_w, 1);
    cmdq_lower_set_integer(l, CMDQ_F_dil_h, 1);
    cmdq_lower_set_integer(l, CMDQ_F_dil_w, 1);
    cmdq_lower_set_integer(l, CMDQ_F_pad_h, now->above);
    cmdq_lower_set_integer(l, CMDQ_F_pad_bottom, now->below);
    cmdq_lower_set_integer(l, CMDQ_F_pad_w, t->taps[1] - 1);
    cmdq_lower_set_integer(l, CMDQ_F_pad_right, t->right);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_weight, w->bits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_activation, now->in.qbits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_ofm, now->out.qbits);
    cmdq_lower_set_address(l, CMDQ_F_ifm_bank, now->in.buffer, now->in.offset);
    cmdq_lower_set_address(l, CMDQ_F_wgt_bank, now->weights, 0);
    cmdq_lower_set_address(l, CMDQ_F_ofm_bank, now->out.buffer, now->out.offset);
    cmdq_lower_set_scale(l, CMDQ_F_scale_ofm, now->out.scale);
    cmdq_lower_add_read(l, now->in.buffer);
    cmdq_lower_add_read(l, now->weights);
    cmdq_lower_add_write(l, now->out.buffer);
}

static void emit_tile(cmdq_network *net, const tv_graph_node *n, const transposed *t, const cmdq_net_weights *w,
                      const tile *now)
{
    cmdq_lowering *l = &net->l;
    if (t->taps[0] * t->taps[1] > 1 || t->right)
        begin_convolution(net, t, w, now);
    else
        cmdq_lower_begin_tensor(l, CMDQ_TE_GEMM_TILE,
                                (cmdq_lower_operand){now->in.buffer, now->in.offset, now->in.qbits, 1},
                                cmdq_lower_f32(now->weights), now->out,
                                (cmdq_lower_gemm){now->rows * t->in.w, now->columns, t->in.channels, w->bits});
    cmdq_lower_set_address(l, CMDQ_F_wgt_scale_bank, now->params, 0);
    if (w->bias)
        cmdq_lower_set_address(l, CMDQ_F_bias_bank, now->params, now->columns * 4);
    cmdq_lower_add_read(l, now->params);
    cmdq_lower_finish_entry(l);
    store_tile(net, n, t, now);
    net->layers[net->node].tiles++;
}

/* Slots of the operands. */
typedef struct slots {
    uint32_t weights[CMDQ_NET_SLOTS], params[CMDQ_NET_SLOTS], in[CMDQ_NET_SLOTS], out[CMDQ_NET_SLOTS];
    unsigned next;
} slots;

/* The windows of a phase, tile by tile; `now` has the weights. */
static void emit_phase(cmdq_network *net, const tv_graph_node *n, const transposed *t, const cmdq_net_weights *w,
                       slots *s, tile *now)
{
    uint64_t reach = t->pad[0] > now->phase ? t->pad[0] - now->phase : 0, first = tv_ceil_div(reach, t->stride[0]),
             limit = t->out.h - 1 + t->pad[0];
    uint64_t end = limit >= now->phase ? (limit - now->phase) / t->stride[0] + 1 : 0, row = t->in.w * t->in.channels;
    const cmdq_net_value *v = cmdq_net_storage(net, n->output);
    for (uint64_t q = first; q < end && net->status == TV_OK; q += now->rows) {
        unsigned slot = s->next++ % CMDQ_NET_SLOTS;
        uint64_t before = t->taps[0] - 1, from = q > before ? q - before : 0, last;
        now->q = q;
        now->rows = tv_min_u64(t->tile, end - q);
        last = tv_min_u64(q + now->rows, t->in.h);
        now->above = q < before ? before - q : 0;
        now->below = q + now->rows - last;
        now->in_rows = last - from;
        now->in =
            cmdq_net_read(net, n->inputs[0], (now->image * t->in.h + from) * row, now->in_rows * row, s->in[slot]);
        now->out = (cmdq_lower_operand){s->out[slot], 0, v->qbits, v->scale};
        emit_tile(net, n, t, w, now);
    }
}

static slots allocate(cmdq_network *net, const tv_graph_node *n, const transposed *t, const cmdq_net_weights *w)
{
    slots s = {.next = 0};
    uint64_t in_rows = tv_min_u64(t->in.h, t->tile + t->taps[0] - 1);
    for (unsigned i = 0; i < CMDQ_NET_SLOTS; i++)
        s.weights[i] = s.params[i] = s.in[i] = s.out[i] = TV_NO_VALUE;
    for (unsigned i = 0; i < CMDQ_NET_SLOTS && net->status == TV_OK; i++) {
        s.weights[i] = cmdq_net_buffer(net, t->block * w->row_bytes);
        s.params[i] = cmdq_net_buffer(net, t->block * 8);
        s.in[i] = cmdq_net_buffer(net, cmdq_net_bytes(net, n->inputs[0], in_rows * t->in.w * t->in.channels));
        s.out[i] = cmdq_net_buffer(net, cmdq_net_bytes(net, n->output, t->tile * t->windows * t->block));
    }
    return s;
}

void cmdq_net_emit_transposed(cmdq_network *net, const tv_graph_node *n)
{
    const cmdq_net_weights *w = &net->weights[net->node];
    transposed t = describe(net, n, w);
    slots s = allocate(net, n, &t, w);
    uint64_t blocks = 0;
    for (uint64_t phase = 0; phase < t.stride[0]; phase++)
        for (uint64_t column = 0; column < t.row_weights && net->status == TV_OK; column += t.block, blocks++) {
            unsigned slot = (unsigned)(blocks % CMDQ_NET_SLOTS);
            tile now = {.phase = phase,
                        .column = column,
                        .columns = tv_min_u64(t.block, t.row_weights - column),
                        .weights = s.weights[slot],
                        .params = s.params[slot]};
            cmdq_net_load_weights(net, w, phase * t.row_weights + column, now.columns, now.weights, now.params);
            for (; now.image < t.in.images; now.image++)
                emit_phase(net, n, &t, w, &s, &now);
        }
    for (unsigned i = 0; i < CMDQ_NET_SLOTS; i++) {
        cmdq_net_release(net, s.weights[i]);
        cmdq_net_release(net, s.params[i]);
        cmdq_net_release(net, s.in[i]);
        cmdq_net_release(net, s.out[i]);
    }
}
