/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of images: rows of the output at once, or blocks of an image that one window covers. */
#include "lower/cmdq/network.h"

/* A pool of rows of pixels. Partial last windows are padding at the end. */
typedef struct pool {
    uint64_t images, in_h, in_w, channels, out_h, out_w, kernel[2], stride[2], dilation[2], pad[2], right;
} pool;

static pool describe_pool(const cmdq_network *net, const tv_graph_node *n)
{
    cmdq_net_image in = cmdq_net_image_of(cmdq_net_dims(net, n->inputs[0])),
                   out = cmdq_net_image_of(cmdq_net_dims(net, n->output));
    cmdq_net_window window = cmdq_net_window_of(n->attrs.lists, cmdq_net_dims(net, n->output)->rank);
    pool p = {.images = in.images, .in_h = in.h, .in_w = in.w, .channels = in.channels, .out_h = out.h, .out_w = out.w};
    for (unsigned i = 0; i < 2; i++) {
        p.kernel[i] = window.kernel[i];
        p.stride[i] = window.stride[i];
        p.dilation[i] = window.dilation[i];
        p.pad[i] = window.pad_begin[i];
    }
    uint64_t reach = (p.out_w - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilation[1] + 1;
    p.right = reach > p.in_w + p.pad[1] ? reach - p.in_w - p.pad[1] : 0;
    return p;
}

static void emit_pool_tile(cmdq_network *net, const tv_graph_node *n, const pool *p, cmdq_lower_operand x,
                           cmdq_lower_operand y, const uint64_t rows[4])
{
    cmdq_lowering *l = &net->l;
    tv_queue_builder_opcode(l->builder, CMDQ_VE_POOL_TILE);
    cmdq_lower_set_integer(l, CMDQ_F_ve_id, l->next_ve++ % l->ve);
    tv_queue_builder_text(l->builder, CMDQ_F_pool_function, n->op == TV_OP_MAX_POOL ? "max" : "avg");
    cmdq_lower_set_integer(l, CMDQ_F_in_h, rows[0]);
    cmdq_lower_set_integer(l, CMDQ_F_in_w, p->in_w);
    cmdq_lower_set_integer(l, CMDQ_F_in_c, p->channels);
    cmdq_lower_set_integer(l, CMDQ_F_kernel_h, p->kernel[0]);
    cmdq_lower_set_integer(l, CMDQ_F_kernel_w, p->kernel[1]);
    cmdq_lower_set_integer(l, CMDQ_F_stride_h, p->stride[0]);
    cmdq_lower_set_integer(l, CMDQ_F_stride_w, p->stride[1]);
    cmdq_lower_set_integer(l, CMDQ_F_dil_h, p->dilation[0]);
    cmdq_lower_set_integer(l, CMDQ_F_dil_w, p->dilation[1]);
    cmdq_lower_set_integer(l, CMDQ_F_pad_h, rows[1]);
    cmdq_lower_set_integer(l, CMDQ_F_pad_bottom, rows[2]);
    cmdq_lower_set_integer(l, CMDQ_F_pad_w, p->pad[1]);
    cmdq_lower_set_integer(l, CMDQ_F_pad_right, p->right);
    if (n->op == TV_OP_AVERAGE_POOL && n->attrs.mode & 1)
        tv_queue_builder_flag(l->builder, CMDQ_F_count_include_pad, true);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_activation, x.qbits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_out, y.qbits);
    cmdq_lower_set_address(l, CMDQ_F_in_bank, x.buffer, x.offset);
    cmdq_lower_set_address(l, CMDQ_F_out_bank, y.buffer, y.offset);
    cmdq_lower_set_scale(l, CMDQ_F_scale_in, x.scale);
    cmdq_lower_set_scale(l, CMDQ_F_scale_out, y.scale);
    cmdq_lower_add_read(l, x.buffer);
    cmdq_net_share_input(net, x, rows[0] * p->in_w * p->channels);
    cmdq_lower_add_write(l, y.buffer);
    if (rows[3])
        cmdq_net_share_output(net, n->output, y, rows[3] * p->out_w * p->channels);
    cmdq_lower_finish_entry(l);
}

/* Whether one window is the whole image. */
static bool is_global(const pool *p)
{
    return p->kernel[0] == p->in_h && p->kernel[1] == p->in_w && p->out_h * p->out_w == 1 && !p->pad[0] && !p->pad[1];
}

/* A pool of whole images, in blocks of as many rows: then a pool of their results, as binary32. False: the image fits,
 * or no number of rows divides it. */
static bool emit_global_pool(cmdq_network *net, const tv_graph_node *n, const pool *p)
{
    uint64_t row = p->in_w * p->channels, blocks = 1, limit = cmdq_net_tile_bytes(net);
    while (blocks <= p->in_h && (p->in_h % blocks || cmdq_net_bytes(net, n->inputs[0], p->in_h / blocks * row) > limit))
        blocks++;
    if (!is_global(p) || blocks > p->in_h || blocks == 1)
        return false;
    uint64_t rows = p->in_h / blocks;
    cmdq_net_make_resident(net, n->output);
    cmdq_net_slots in = cmdq_net_slots_for(net, n->inputs[0], rows * row),
                   out = cmdq_net_slots_of_runs(net, n->output, p->channels);
    cmdq_lower_operand means = cmdq_lower_f32(cmdq_net_buffer(net, blocks * p->channels * 4));
    pool block = *p, all = *p;
    block.in_h = block.kernel[0] = rows;
    all.in_h = all.kernel[0] = blocks;
    all.in_w = all.kernel[1] = 1;
    for (uint64_t i = 0; i < p->images * blocks && net->status == TV_OK; i++) {
        uint64_t b = i % blocks, at = i / blocks * p->channels;
        cmdq_lower_operand x = cmdq_net_read(net, n->inputs[0], i * rows * row, rows * row, cmdq_net_next_slot(&in));
        emit_pool_tile(net, n, &block, x, cmdq_lower_skip(means, b * p->channels), (uint64_t[]){rows, 0, 0, 0});
        net->layers[net->node].tiles++;
        if (b + 1 < blocks)
            continue;
        cmdq_lower_operand y = cmdq_net_write(net, n->output, at, p->channels, cmdq_net_next_slot(&out));
        emit_pool_tile(net, n, &all, means, y, (uint64_t[]){blocks, 0, 0, 1});
        cmdq_net_written(net, n->output, at, p->channels, y);
    }
    cmdq_net_release(net, means.buffer);
    cmdq_net_release_slots(net, &in);
    cmdq_net_release_slots(net, &out);
    return true;
}

/* The rows of image `image`, at most `tile` at once. */
static void emit_rows(cmdq_network *net, const tv_graph_node *n, const pool *p, uint64_t image, uint64_t tile,
                      cmdq_net_slots slots[2])
{
    uint64_t span = (p->kernel[0] - 1) * p->dilation[0] + 1, in_row = p->in_w * p->channels,
             out_row = p->out_w * p->channels, top = image * p->in_h, to = image * p->out_h;
    for (uint64_t row = 0, rows; row < p->out_h && net->status == TV_OK; row += rows) {
        rows = tv_min_u64(tile, p->out_h - row);
        rows = cmdq_net_run_length(net, n->output, (to + row) * out_row, rows * out_row) / out_row;
        rows = cmdq_net_windows(net, n->inputs[0], in_row, (int64_t)(top + row * p->stride[0]) - (int64_t)p->pad[0],
                                span, p->stride[0], rows);
        uint64_t begin = row * p->stride[0], end = (row + rows - 1) * p->stride[0] + span,
                 first = begin > p->pad[0] ? begin - p->pad[0] : 0,
                 last = tv_min_u64(p->in_h, end > p->pad[0] ? end - p->pad[0] : 0);
        uint64_t sizes[4] = {last - first, begin < p->pad[0] ? p->pad[0] - begin : 0,
                             end > p->in_h + p->pad[0] ? end - p->in_h - p->pad[0] : 0, rows};
        cmdq_lower_operand x = cmdq_net_read(net, n->inputs[0], (top + first) * in_row, sizes[0] * in_row,
                                             cmdq_net_next_slot(&slots[0])),
                           y = cmdq_net_write(net, n->output, (to + row) * out_row, rows * out_row,
                                              cmdq_net_next_slot(&slots[1]));
        emit_pool_tile(net, n, p, x, y, sizes);
        cmdq_net_written(net, n->output, (to + row) * out_row, rows * out_row, y);
        net->layers[net->node].tiles++;
    }
}

void cmdq_net_emit_pool(cmdq_network *net, const tv_graph_node *n)
{
    pool p = describe_pool(net, n);
    if (emit_global_pool(net, n, &p))
        return;
    uint64_t span = (p.kernel[0] - 1) * p.dilation[0] + 1, in_row = p.in_w * p.channels, out_row = p.out_w * p.channels,
             tile = 1;
    while (tile < tv_ceil_div(p.out_h, net->l.ve) &&
           cmdq_net_bytes(net, n->inputs[0], (tile * p.stride[0] + span) * in_row) <= cmdq_net_tile_bytes(net))
        tile++;
    cmdq_net_make_resident(net, n->output);
    uint64_t crossing = cmdq_net_crossing_rows(net, n->inputs[0], span, p.stride[0]),
             in_rows = tv_min_u64(p.in_h, crossing ? crossing : (tile - 1) * p.stride[0] + span);
    cmdq_net_slots slots[2] = {cmdq_net_slots_for(net, n->inputs[0], in_rows * in_row),
                               cmdq_net_slots_of_runs(net, n->output, tile * out_row)};
    for (uint64_t i = 0; i < p.images; i++)
        emit_rows(net, n, &p, i, tile, slots);
    cmdq_net_release_slots(net, &slots[0]);
    cmdq_net_release_slots(net, &slots[1]);
}
