/* SPDX-License-Identifier: Apache-2.0 */
/* Images of another size. Nearest elements by a whole factor down are resized row by row; others need the whole image,
 * which then fits a bank. */
#include "graph/resize.h"

#include "lower/cmdq/network.h"

typedef struct resized {
    uint64_t images, in_h, in_w, channels, out_h, out_w;
    tv_resize mode;
    uint64_t factor; /* rows of the output for each of the input; 0: the rows depend on each other */
} resized;

static resized describe(const cmdq_network *net, const tv_graph_node *n)
{
    cmdq_net_image in = cmdq_net_image_of(cmdq_net_dims(net, n->inputs[0])),
                   out = cmdq_net_image_of(cmdq_net_dims(net, n->output));
    resized r = {.images = in.images,
                 .in_h = in.h,
                 .in_w = in.w,
                 .channels = in.channels,
                 .out_h = out.h,
                 .out_w = out.w,
                 .mode = tv_resize_unpack(n->attrs.mode)};
    bool repeats = r.mode.method == TV_RESIZE_NEAREST && r.out_h % r.in_h == 0 &&
                   ((r.mode.coordinates == TV_RESIZE_ASYMMETRIC && r.mode.rounding == TV_RESIZE_FLOOR) ||
                    (r.mode.coordinates == TV_RESIZE_HALF_PIXEL && r.mode.rounding <= TV_RESIZE_PREFER_CEIL));
    r.factor = repeats ? r.out_h / r.in_h : 0;
    return r;
}

const char *cmdq_net_resize_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    const tv_graph_shape *in = cmdq_net_dims(net, n->inputs[0]), *out = cmdq_net_dims(net, n->output);
    if (in->rank < 3 || in->rank > 4 || in->dims[0] != out->dims[0] || in->dims[1] != out->dims[1])
        return "resizing of other than the one or two axes of an image";
    resized r = describe(net, n);
    for (unsigned i = 2; i < in->rank; i++)
        if (n->attrs.lists && n->attrs.lists->scale[i] * (double)in->dims[i] != (double)out->dims[i])
            return "resizing by a factor whose result is cut";
    if (r.mode.method > TV_RESIZE_LINEAR || r.mode.antialias || r.mode.exclude_outside)
        return "cubic resizing and no antialiasing";
    if (r.mode.coordinates != TV_RESIZE_HALF_PIXEL && r.mode.coordinates != TV_RESIZE_ALIGN_CORNERS &&
        r.mode.coordinates != TV_RESIZE_ASYMMETRIC)
        return "such coordinates of resizing";
    uint64_t row_in = r.in_w * r.channels * cmdq_net_bits(net, n->inputs[0]) / 8,
             row_out = r.out_w * r.channels * cmdq_net_bits(net, n->output) / 8,
             in_bytes = r.factor ? row_in : r.in_h * row_in,
             out_bytes = r.factor ? r.factor * row_out : r.out_h * row_out;
    return in_bytes <= net->l.bank_bytes && out_bytes <= net->l.bank_bytes
               ? NULL
               : "memory for so large an image, whose rows depend on each other";
}

static void emit_tile(cmdq_network *net, const tv_graph_node *n, const resized *r, cmdq_lower_operand x,
                      cmdq_lower_operand y, uint64_t in_rows, uint64_t out_rows)
{
    static const char *const methods[] = {[TV_RESIZE_NEAREST] = "nearest", [TV_RESIZE_LINEAR] = "linear"};
    static const char *const coordinates[TV_RESIZE_COORDINATES] = {[TV_RESIZE_HALF_PIXEL] = "half_pixel",
                                                                   [TV_RESIZE_ALIGN_CORNERS] = "align_corners",
                                                                   [TV_RESIZE_ASYMMETRIC] = "asymmetric"};
    static const char *const roundings[] = {[TV_RESIZE_PREFER_FLOOR] = "round_prefer_floor",
                                            [TV_RESIZE_PREFER_CEIL] = "round_prefer_ceil",
                                            [TV_RESIZE_FLOOR] = "floor",
                                            [TV_RESIZE_CEIL] = "ceil"};
    cmdq_lowering *l = &net->l;
    tv_queue_builder_opcode(l->builder, CMDQ_VE_RESIZE_TILE);
    cmdq_lower_set_integer(l, CMDQ_F_ve_id, l->next_ve++ % l->ve);
    cmdq_lower_set_integer(l, CMDQ_F_in_h, in_rows);
    cmdq_lower_set_integer(l, CMDQ_F_in_w, r->in_w);
    cmdq_lower_set_integer(l, CMDQ_F_in_c, r->channels);
    cmdq_lower_set_integer(l, CMDQ_F_out_h, out_rows);
    cmdq_lower_set_integer(l, CMDQ_F_out_w, r->out_w);
    tv_queue_builder_text(l->builder, CMDQ_F_resize_mode, methods[r->mode.method]);
    tv_queue_builder_text(l->builder, CMDQ_F_coordinate_mode, coordinates[r->mode.coordinates]);
    if (r->mode.method == TV_RESIZE_NEAREST)
        tv_queue_builder_text(l->builder, CMDQ_F_nearest_mode, roundings[r->mode.rounding]);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_activation, x.qbits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_out, y.qbits);
    cmdq_lower_set_address(l, CMDQ_F_in_bank, x.buffer, x.offset);
    cmdq_lower_set_address(l, CMDQ_F_out_bank, y.buffer, y.offset);
    cmdq_lower_set_scale(l, CMDQ_F_scale_in, x.scale);
    cmdq_lower_set_scale(l, CMDQ_F_scale_out, y.scale);
    cmdq_lower_add_read(l, x.buffer);
    cmdq_net_share_input(net, x, in_rows * r->in_w * r->channels);
    cmdq_lower_add_write(l, y.buffer);
    cmdq_net_share_output(net, n->output, y, out_rows * r->out_w * r->channels);
    cmdq_lower_finish_entry(l);
    net->layers[net->node].tiles++;
}

/* The rows of image `image`, at most `tile` of the input at once, or all. */
static void emit_rows(cmdq_network *net, const tv_graph_node *n, const resized *r, uint64_t image, uint64_t tile,
                      cmdq_net_slots slots[2])
{
    uint64_t in_row = r->in_w * r->channels, out_row = r->out_w * r->channels, top = image * r->in_h,
             to = image * r->out_h;
    for (uint64_t row = 0, rows; row < r->in_h && net->status == TV_OK; row += rows) {
        rows = r->factor ? tv_min_u64(tile, r->in_h - row) : r->in_h;
        uint64_t first = to + row * r->factor, count = r->factor ? rows * r->factor : r->out_h;
        count = cmdq_net_run_length(net, n->output, first * out_row, count * out_row) / out_row;
        rows = r->factor ? count / r->factor : rows;
        cmdq_lower_operand x = cmdq_net_read(net, n->inputs[0], (top + row) * in_row, rows * in_row,
                                             cmdq_net_next_slot(&slots[0])),
                           y = cmdq_net_write(net, n->output, first * out_row, count * out_row,
                                              cmdq_net_next_slot(&slots[1]));
        emit_tile(net, n, r, x, y, rows, count);
        cmdq_net_written(net, n->output, first * out_row, count * out_row, y);
    }
}

void cmdq_net_emit_resize(cmdq_network *net, const tv_graph_node *n)
{
    resized r = describe(net, n);
    uint64_t in_row = r.in_w * r.channels, out_row = r.out_w * r.channels, unit = r.factor ? r.factor : r.out_h,
             bytes = unit * out_row * cmdq_net_bits(net, n->output) / 8,
             tile = r.factor
                        ? tv_min_u64(tv_max_u64(1, cmdq_net_tile_bytes(net) / bytes), tv_ceil_div(r.in_h, net->l.ve))
                        : 1;
    cmdq_net_value *v = cmdq_net_storage(net, n->output);
    v->row_elements = unit * out_row; /* segments have all rows of an input row */
    v->rows = v->elements / v->row_elements;
    cmdq_net_make_resident(net, n->output);
    uint64_t in_rows = r.factor ? tile : r.in_h;
    cmdq_net_slots slots[2] = {cmdq_net_slots_for(net, n->inputs[0], in_rows * in_row),
                               cmdq_net_slots_of_runs(net, n->output, tile * unit * out_row)};
    for (uint64_t i = 0; i < r.images; i++)
        emit_rows(net, n, &r, i, tile, slots);
    cmdq_net_release_slots(net, &slots[0]);
    cmdq_net_release_slots(net, &slots[1]);
}
