/* SPDX-License-Identifier: Apache-2.0 */
/* Transposed convolutions whose windows do not overlap: the kernel is as large as the stride. Row i of the kernel is a
 * product, [pixels][channels] times [kernel columns * output channels][channels], whose result is every stride-th row
 * of the output, from row i on. */
#include "lower/cmdq/network.h"

typedef struct transposed {
    uint64_t in_h, in_w, channels, out_c, kernel_h, kernel_w;
    uint64_t row_weights; /* rows of W for a row of the kernel */
    uint64_t block;       /* of these at once */
    uint64_t tile;        /* rows of the input at once */
} transposed;

const char *cmdq_net_transposed_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    const tv_graph_shape *s = cmdq_net_dims(net, n->inputs[0]);
    const tv_graph_lists *l = n->attrs.lists;
    if (s->rank != 4 || s->dims[0] != 1)
        return "images of other than two axes, or of more than one in a batch";
    for (unsigned i = 0; i < 2; i++)
        if (l->kernel[i] != l->stride[i] || l->dilation[i] != 1 || l->pad_begin[i] || l->pad_end[i] ||
            l->output_padding[i])
            return "transposed convolutions with windows that overlap, padding or dilation";
    return n->attrs.groups == 1 ? NULL : "transposed convolutions in groups";
}

static transposed describe(const cmdq_network *net, const tv_graph_node *n, const cmdq_net_weights *w)
{
    const tv_graph_shape *in = cmdq_net_dims(net, n->inputs[0]);
    transposed t = {.in_h = (uint64_t)in->dims[2],
                    .in_w = (uint64_t)in->dims[3],
                    .channels = (uint64_t)in->dims[1],
                    .out_c = (uint64_t)cmdq_net_dims(net, n->output)->dims[1],
                    .kernel_h = (uint64_t)n->attrs.lists->kernel[0],
                    .kernel_w = (uint64_t)n->attrs.lists->kernel[1]};
    t.row_weights = t.kernel_w * t.out_c;
    uint64_t blocks = tv_ceil_div(t.row_weights * w->row_bytes, net->l.bank_bytes);
    t.block = tv_ceil_div(t.row_weights, blocks);
    uint64_t row_bytes = tv_max_u64(t.in_w * t.channels * cmdq_net_bits(net, n->inputs[0]),
                                    t.in_w * t.block * cmdq_net_bits(net, n->output)) /
                         8;
    t.tile = tv_min_u64(tv_max_u64(1, cmdq_net_tile_bytes(net) / row_bytes), tv_ceil_div(t.in_h, net->l.te));
    return t;
}

/* Stores columns [column, column + columns) of a product of `rows` rows of the input from `row` on. */
static void store_rows(cmdq_network *net, const tv_graph_node *n, const transposed *t, uint64_t kernel_row,
                       uint64_t row, uint64_t rows, uint64_t column, uint64_t columns, cmdq_lower_operand from)
{
    uint64_t out_row = t->in_w * t->row_weights;
    if (columns == t->row_weights) {
        cmdq_net_written_rows(net, n->output, (row * t->kernel_h + kernel_row) * out_row, rows, out_row,
                              t->kernel_h * out_row, from);
        return;
    }
    for (uint64_t i = 0; i < rows; i++)
        cmdq_net_written_rows(net, n->output, ((row + i) * t->kernel_h + kernel_row) * out_row + column, t->in_w,
                              columns, t->row_weights, cmdq_lower_skip(from, i * t->in_w * columns));
}

/* Slots of the operands. */
typedef struct slots {
    uint32_t weights[CMDQ_NET_SLOTS], params[CMDQ_NET_SLOTS], in[CMDQ_NET_SLOTS], out[CMDQ_NET_SLOTS];
} slots;

static void emit_tile(cmdq_network *net, const tv_graph_node *n, const transposed *t, const cmdq_net_weights *w,
                      const slots *s, unsigned weight_slot, const uint64_t at[4])
{
    uint64_t kernel_row = at[0], column = at[1], row = at[2], rows = tv_min_u64(t->tile, t->in_h - row),
             columns = tv_min_u64(t->block, t->row_weights - column);
    unsigned slot = (unsigned)(at[3] % CMDQ_NET_SLOTS);
    const cmdq_net_value *v = cmdq_net_storage(net, n->output);
    cmdq_lower_operand x = cmdq_net_read(net, n->inputs[0], row * t->in_w * t->channels, rows * t->in_w * t->channels,
                                         s->in[slot]),
                       y = {s->out[slot], 0, v->qbits, v->scale};
    cmdq_lower_begin_tensor(&net->l, CMDQ_TE_GEMM_TILE, (cmdq_lower_operand){x.buffer, x.offset, x.qbits, 1},
                            cmdq_lower_f32(s->weights[weight_slot]), y,
                            (cmdq_lower_gemm){rows * t->in_w, columns, t->channels, w->bits});
    cmdq_lower_set_address(&net->l, CMDQ_F_wgt_scale_bank, s->params[weight_slot], 0);
    if (w->bias)
        cmdq_lower_set_address(&net->l, CMDQ_F_bias_bank, s->params[weight_slot], columns * 4);
    cmdq_lower_add_read(&net->l, s->params[weight_slot]);
    cmdq_lower_finish_entry(&net->l);
    store_rows(net, n, t, kernel_row, row, rows, column, columns, y);
    net->layers[net->node].tiles++;
}

static slots allocate(cmdq_network *net, const tv_graph_node *n, const transposed *t, const cmdq_net_weights *w)
{
    slots s;
    for (unsigned i = 0; i < CMDQ_NET_SLOTS; i++)
        s.weights[i] = s.params[i] = s.in[i] = s.out[i] = TV_NO_VALUE;
    for (unsigned i = 0; i < CMDQ_NET_SLOTS && net->status == TV_OK; i++) {
        s.weights[i] = cmdq_net_buffer(net, t->block * w->row_bytes);
        s.params[i] = cmdq_net_buffer(net, t->block * 8);
        s.in[i] = cmdq_net_buffer(net, t->tile * t->in_w * t->channels * cmdq_net_bits(net, n->inputs[0]) / 8);
        s.out[i] = cmdq_net_buffer(net, t->tile * t->in_w * t->block * cmdq_net_bits(net, n->output) / 8);
    }
    return s;
}

void cmdq_net_emit_transposed(cmdq_network *net, const tv_graph_node *n)
{
    const cmdq_net_weights *w = &net->weights[net->node];
    transposed t = describe(net, n, w);
    slots s = allocate(net, n, &t, w);
    uint64_t tiles = 0, blocks = 0;
    for (uint64_t i = 0; i < t.kernel_h; i++)
        for (uint64_t column = 0; column < t.row_weights && net->status == TV_OK; column += t.block, blocks++) {
            unsigned slot = (unsigned)(blocks % CMDQ_NET_SLOTS);
            cmdq_net_load_weights(net, w, i * t.row_weights + column, tv_min_u64(t.block, t.row_weights - column),
                                  s.weights[slot], s.params[slot]);
            for (uint64_t row = 0; row < t.in_h && net->status == TV_OK; row += t.tile)
                emit_tile(net, n, &t, w, &s, slot, (uint64_t[]){i, column, row, tiles++});
        }
    for (unsigned i = 0; i < CMDQ_NET_SLOTS; i++) {
        cmdq_net_release(net, s.weights[i]);
        cmdq_net_release(net, s.params[i]);
        cmdq_net_release(net, s.in[i]);
        cmdq_net_release(net, s.out[i]);
    }
}
