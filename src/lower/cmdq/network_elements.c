/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of networks element by element, along the last axis, and Concat. */
#include <math.h>

#include "isa/extend.h"
#include "lower/cmdq/network.h"

static bool is_constant(const cmdq_network *net, uint32_t value)
{
    return tv_graph_value_at(net->graph, value)->source == TV_VALUE_CONSTANT;
}

/* ---- Element by element ---- */

static const char *const unary_names[TV_OPS] = {[TV_OP_RELU] = "relu",
                                                [TV_OP_LEAKY_RELU] = "leaky_relu",
                                                [TV_OP_CLIP] = "clip",
                                                [TV_OP_ABS] = "abs",
                                                [TV_OP_NEG] = "neg",
                                                [TV_OP_SIGMOID] = "sigmoid",
                                                [TV_OP_TANH] = "tanh",
                                                [TV_OP_EXP] = "exp",
                                                [TV_OP_LOG] = "log",
                                                [TV_OP_SQRT] = "sqrt",
                                                [TV_OP_RECIPROCAL] = "recip",
                                                [TV_OP_ERF] = "erf",
                                                [TV_OP_HARD_SWISH] = "hardswish",
                                                [TV_OP_HARD_SIGMOID] = "hardsigmoid"};

static const char *const binary_names[TV_OPS] = {
    [TV_OP_DIV] = "div", [TV_OP_MIN] = "min", [TV_OP_MAX] = "max", [TV_OP_POW] = "pow"};

int cmdq_net_extension(const tv_graph_node *n)
{
    const tv_graph_op_info *info = &tv_graph_op_infos[n->op];
    bool simple = info->class == TV_CLASS_UNARY && !*info->attributes;
    return simple ? tv_isa_find_operator(&tv_isa_cmdq, info->name, 1) : -1;
}

static void begin_unary(cmdq_network *net, const tv_graph_node *n, cmdq_lower_operand in, cmdq_lower_operand out,
                        uint64_t count)
{
    const tv_graph_attrs *a = &n->attrs;
    int added = cmdq_net_extension(n);
    cmdq_opcode opcode = added >= 0             ? (cmdq_opcode)added
                         : n->op == TV_OP_SWISH ? CMDQ_VE_SILU_TILE
                         : n->op == TV_OP_GELU  ? CMDQ_VE_GELU_TILE
                                                : CMDQ_VE_UNARY_TILE;
    cmdq_lower_begin_vector(&net->l, opcode, in, out, 1, count);
    if (n->op == TV_OP_GELU && a->approximate)
        tv_queue_builder_text(net->l.builder, CMDQ_F_approximation, "tanh");
    if (opcode == CMDQ_VE_UNARY_TILE)
        tv_queue_builder_text(net->l.builder, CMDQ_F_unary_function, unary_names[n->op]);
    if (n->op == TV_OP_LEAKY_RELU || n->op == TV_OP_HARD_SIGMOID)
        tv_queue_builder_real(net->l.builder, CMDQ_F_alpha, (double)a->alpha);
    if (n->op == TV_OP_HARD_SIGMOID)
        tv_queue_builder_real(net->l.builder, CMDQ_F_beta, (double)a->beta);
    if (n->op == TV_OP_CLIP)
        cmdq_net_set_limits(net, a);
}

/* The shortest run of elements from `first` on that is in one segment of each of two values. */
static uint64_t common_run(const cmdq_network *net, uint32_t a, uint32_t b, uint64_t first, uint64_t count)
{
    return cmdq_net_run_length(net, a, first, cmdq_net_run_length(net, b, first, count));
}

/* Elements of a tile of a node whose tiles are multiples of `unit`: a share of the engines, or what a slot has. */
static uint64_t tile_elements(const cmdq_network *net, const tv_graph_node *n, uint64_t unit)
{
    uint64_t all = net->values[n->output].elements,
             width = tv_max_u64(cmdq_net_storage(net, n->output)->qbits, cmdq_net_storage(net, n->inputs[0])->qbits);
    uint64_t limit = tv_max_u64(cmdq_net_tile_bytes(net) * 8 / width / unit, 1) * unit,
             share = tv_ceil_div(tv_ceil_div(all, unit), net->l.ve) * unit;
    return tv_min_u64(limit, share);
}

void cmdq_net_emit_unary(cmdq_network *net, const tv_graph_node *n)
{
    uint64_t all = net->values[n->output].elements, tile = tile_elements(net, n, 1);
    cmdq_net_make_resident(net, n->output);
    cmdq_net_slots in = cmdq_net_slots_of_runs(net, n->inputs[0], tile),
                   out = cmdq_net_slots_of_runs(net, n->output, tile);
    for (uint64_t at = 0, count; at < all && net->status == TV_OK; at += count) {
        count = common_run(net, n->inputs[0], n->output, at, tv_min_u64(tile, all - at));
        cmdq_lower_operand x = cmdq_net_read(net, n->inputs[0], at, count, cmdq_net_next_slot(&in)),
                           y = cmdq_net_write(net, n->output, at, count, cmdq_net_next_slot(&out));
        begin_unary(net, n, x, y, count);
        cmdq_net_share_input(net, x, count);
        cmdq_net_share_output(net, n->output, y, count);
        cmdq_lower_finish_entry(&net->l);
        cmdq_net_written(net, n->output, at, count, y);
        net->layers[net->node].tiles++;
    }
    cmdq_net_release_slots(net, &in);
    cmdq_net_release_slots(net, &out);
}

/* How the second operand is repeated, as the machine sees it: rows of `length` elements. */
typedef enum repeat {
    REPEAT_NONE,
    REPEAT_ROW,
    REPEAT_COLUMN,
    REPEAT_SCALAR,
    REPEAT_BLOCK, /* `length` elements, again and again */
    REPEAT_IMAGE, /* a row for each image */
    REPEAT_OTHER
} repeat;

/* True for [1, ..., c, ..., 1]: adjacent axes of the output, each of whose elements is repeated for `length` others. */
static bool has_middle_axes(const tv_graph_shape *s, const tv_graph_shape *t, uint64_t *length)
{
    uint32_t first = 0, end = t->rank, skipped = s->rank - t->rank;
    uint64_t inner = 1;
    while (first < t->rank && t->dims[first] == 1)
        first++;
    while (end > first && t->dims[end - 1] == 1)
        inner *= (uint64_t)s->dims[skipped + --end];
    for (uint32_t i = first; i < end; i++)
        if (t->dims[i] != s->dims[skipped + i])
            return false;
    *length = inner;
    return true;
}

static repeat repeat_of(const tv_graph *g, bool last, uint32_t out, uint32_t b, uint64_t *length)
{
    const tv_graph_shape *s = &tv_graph_value_at(g, out)->shape, *t = &tv_graph_value_at(g, b)->shape;
    uint64_t count = tv_graph_elements(g, b), all = tv_graph_elements(g, out);
    *length = 1;
    if (count == 1)
        return REPEAT_SCALAR;
    if (count == all)
        return REPEAT_NONE;
    if (last && t->rank == s->rank && t->dims[1] == 1 && count * (uint64_t)s->dims[1] == all) {
        *length = (uint64_t)s->dims[1];
        return REPEAT_COLUMN; /* one element for the channels of a pixel */
    }
    if (last && t->rank == s->rank && t->dims[0] == s->dims[0] && t->dims[1] == s->dims[1] &&
        count == (uint64_t)(s->dims[0] * s->dims[1])) {
        *length = (uint64_t)s->dims[1];
        return s->dims[0] == 1 ? REPEAT_ROW : REPEAT_IMAGE;
    }
    uint32_t axis = last ? 1 : s->rank - 1; /* whose elements are adjacent */
    bool row = count == (uint64_t)s->dims[axis], column = !last && t->rank == s->rank && t->dims[axis] == 1;
    for (uint32_t i = 0; i < t->rank && row; i++) { /* from the last axis */
        uint32_t own = s->rank - 1 - i;
        row = t->dims[t->rank - 1 - i] == 1 || own == axis;
    }
    for (uint32_t i = 0; i < s->rank && column; i++)
        column = i == axis || t->dims[i] == s->dims[i];
    bool block = !last && !row && !column && count < all;
    uint32_t ones = 0; /* leading axes; the others have the extents of the output */
    while (ones < t->rank && t->dims[ones] == 1)
        ones++;
    for (uint32_t i = ones; i < t->rank && block; i++)
        block = t->dims[i] == s->dims[s->rank - t->rank + i];
    *length = block ? count : (uint64_t)s->dims[axis];
    if (block)
        return REPEAT_BLOCK;
    if (!last && !row && !column && has_middle_axes(s, t, length))
        return REPEAT_COLUMN;
    return row ? REPEAT_ROW : column ? REPEAT_COLUMN : REPEAT_OTHER;
}

/* The operand that has all elements of the output, and the one that may be repeated. */
typedef struct pair {
    uint32_t whole, other;
    bool swapped;
    repeat repeat;
    uint64_t length;
} pair;

static pair pair_of(const tv_graph *g, const bool *channels_last, const tv_graph_node *n)
{
    pair p = {.whole = n->inputs[0], .other = n->inputs[1]};
    bool first = tv_graph_elements(g, n->inputs[0]) == tv_graph_elements(g, n->output) &&
                 tv_graph_value_at(g, n->inputs[0])->source != TV_VALUE_CONSTANT;
    if (!first) {
        p.whole = n->inputs[1];
        p.other = n->inputs[0];
        p.swapped = true;
    }
    p.repeat = repeat_of(g, channels_last[n->output], n->output, p.other, &p.length);
    return p;
}

static void begin_binary(cmdq_network *net, const tv_graph_node *n, const pair *p, cmdq_lower_operand operands[3],
                         uint64_t count)
{
    static const char *const names[] = {
        [REPEAT_ROW] = "row", [REPEAT_COLUMN] = "column", [REPEAT_SCALAR] = "scalar", [REPEAT_IMAGE] = "row"};
    bool adds = n->op == TV_OP_ADD || n->op == TV_OP_SUB,
         rows = p->repeat == REPEAT_ROW || p->repeat == REPEAT_COLUMN || p->repeat == REPEAT_IMAGE;
    cmdq_opcode opcode = adds ? CMDQ_VE_ADD_TILE : n->op == TV_OP_MUL ? CMDQ_VE_MUL_TILE : CMDQ_VE_BINARY_TILE;
    if (n->op == TV_OP_SUB) /* a - b = a + (-1) b */
        operands[p->swapped ? 0 : 1].scale *= -1;
    cmdq_lower_begin_vector(&net->l, opcode, operands[0], operands[2], rows ? count / p->length : 1,
                            rows ? p->length : count);
    if (opcode == CMDQ_VE_BINARY_TILE)
        tv_queue_builder_text(net->l.builder, CMDQ_F_binary_function, binary_names[n->op]);
    cmdq_lower_set_address(&net->l, CMDQ_F_in2_bank, operands[1].buffer, operands[1].offset);
    cmdq_lower_set_scale(&net->l, CMDQ_F_scale_in2, operands[1].scale);
    if (operands[1].qbits != operands[0].qbits)
        cmdq_lower_set_integer(&net->l, CMDQ_F_qbits_in2, operands[1].qbits);
    if (p->repeat != REPEAT_NONE && p->repeat != REPEAT_BLOCK)
        tv_queue_builder_text(net->l.builder, CMDQ_F_broadcast, names[p->repeat]);
    if (operands[1].buffer != operands[0].buffer)
        cmdq_lower_add_read(&net->l, operands[1].buffer);
}

/* Of `count` elements from `at` on those that are whole rows, up to the last of `rows` different ones, or part of one,
 * whose length p->length becomes. */
static uint64_t whole_rows(pair *p, uint64_t at, uint64_t rows, uint64_t count)
{
    uint64_t done = at % p->length, left = (rows - at / p->length % rows) * p->length - done;
    if (done == 0 && count >= p->length)
        return tv_min_u64(count, left) / p->length * p->length;
    p->length = tv_min_u64(count, p->length - done);
    return p->length;
}

uint32_t cmdq_net_unrepeatable(const tv_graph *g, const bool *channels_last, const tv_graph_node *n)
{
    pair p = pair_of(g, channels_last, n);
    bool whole = tv_graph_elements(g, p.whole) == tv_graph_elements(g, n->output);
    return whole && p.repeat == REPEAT_OTHER ? p.other : TV_NO_VALUE;
}

const char *cmdq_net_binary_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    pair p = pair_of(net->graph, net->channels_last, n);
    if (is_constant(net, p.whole))
        return "two constant operands";
    if (p.repeat == REPEAT_OTHER || tv_graph_elements(net->graph, p.whole) != net->values[n->output].elements)
        return "such repetition of an operand";
    return p.swapped && (n->op == TV_OP_DIV || n->op == TV_OP_POW) ? "repeated first operand" : NULL;
}

void cmdq_net_emit_binary(cmdq_network *net, const tv_graph_node *n)
{
    pair p = pair_of(net->graph, net->channels_last, n);
    bool same = p.repeat == REPEAT_NONE || p.repeat == REPEAT_BLOCK, by_row = p.repeat == REPEAT_COLUMN;
    bool any_tile = p.repeat == REPEAT_BLOCK || (by_row && p.length > cmdq_net_tile_bytes(net) / 4);
    uint64_t all = net->values[n->output].elements, tile = tile_elements(net, n, any_tile ? 1 : p.length),
             rows = tv_graph_elements(net->graph, p.other), image = all / tv_max_u64(1, rows / p.length);
    if (same && is_constant(net, p.other))
        cmdq_net_upload_constant(net, p.other);
    if (p.repeat == REPEAT_BLOCK)
        tile = tv_min_u64(tile, p.length);
    cmdq_net_slots other = cmdq_net_no_slots();
    cmdq_lower_operand operands[3] = {{0}}, repeated = {0};
    cmdq_net_make_resident(net, n->output);
    cmdq_net_slots in = cmdq_net_slots_of_runs(net, p.whole, tile), out = cmdq_net_slots_of_runs(net, n->output, tile);
    if (same)
        other = cmdq_net_slots_of_runs(net, p.other, tile);
    else
        repeated = cmdq_net_load_operand(net, p.other, &other);
    for (uint64_t at = 0, count; at < all && net->status == TV_OK; at += count) {
        count = common_run(net, p.whole, n->output, at, tv_min_u64(tile, all - at));
        uint64_t own = p.repeat == REPEAT_BLOCK ? at % p.length : at;
        if (p.repeat == REPEAT_BLOCK)
            count = tv_min_u64(count, p.length - own);
        if (same)
            count = cmdq_net_run_length(net, p.other, own, count);
        pair own_pair = p;
        if (by_row)
            count = whole_rows(&own_pair, at, rows, count);
        if (p.repeat == REPEAT_IMAGE)
            count = tv_min_u64(count, image - at % image);
        operands[0] = cmdq_net_read(net, p.whole, at, count, cmdq_net_next_slot(&in));
        operands[1] = same                       ? cmdq_net_read(net, p.other, own, count, cmdq_net_next_slot(&other))
                      : by_row                   ? cmdq_lower_skip(repeated, at / p.length % rows)
                      : p.repeat == REPEAT_IMAGE ? cmdq_lower_skip(repeated, at / image * p.length)
                                                 : repeated;
        operands[2] = cmdq_net_write(net, n->output, at, count, cmdq_net_next_slot(&out));
        begin_binary(net, n, &own_pair, operands, count);
        cmdq_net_share_output(net, n->output, operands[2], count);
        cmdq_lower_finish_entry(&net->l);
        cmdq_net_written(net, n->output, at, count, operands[2]);
        net->layers[net->node].tiles++;
    }
    cmdq_net_release_slots(net, &in);
    cmdq_net_release_slots(net, &out);
    cmdq_net_release_slots(net, &other);
}

/* ---- Along the last axis ---- */

static const char *const reduce_names[TV_OPS] = {
    [TV_OP_REDUCE_SUM] = "sum", [TV_OP_REDUCE_MEAN] = "mean", [TV_OP_REDUCE_MAX] = "max", [TV_OP_REDUCE_MIN] = "min"};

static void begin_rows(cmdq_network *net, const tv_graph_node *n, cmdq_lower_operand in, cmdq_lower_operand out,
                       uint64_t rows, uint64_t length)
{
    cmdq_opcode opcode = n->op == TV_OP_SOFTMAX   ? CMDQ_VE_SOFTMAX_TILE
                         : reduce_names[n->op]    ? CMDQ_VE_REDUCE_TILE
                         : n->attrs.subtract_mean ? CMDQ_VE_LAYERNORM_TILE
                                                  : CMDQ_VE_RMSNORM_TILE;
    cmdq_lower_begin_vector(&net->l, opcode, in, out, rows, length);
    if (reduce_names[n->op])
        tv_queue_builder_text(net->l.builder, CMDQ_F_reduce_function, reduce_names[n->op]);
    if (n->op == TV_OP_NORM)
        tv_queue_builder_real(net->l.builder, CMDQ_F_eps, (double)n->attrs.epsilon);
}

void cmdq_net_emit_rows(cmdq_network *net, const tv_graph_node *n)
{
    uint64_t groups = n->op == TV_OP_NORM ? n->attrs.groups : 1,
             length = tv_graph_columns(net->graph, n->inputs[0]) / groups,
             rows_all = net->values[n->inputs[0]].elements / length, out_length = reduce_names[n->op] ? 1 : length;
    uint64_t rows_max = tv_max_u64(1, cmdq_net_tile_bytes(net) / 4 / length),
             rows_tile = tv_min_u64(rows_max, tv_ceil_div(rows_all, net->l.ve));
    cmdq_lower_operand gains = {.buffer = TV_NO_VALUE}, bias = gains;
    cmdq_net_make_resident(net, n->output);
    cmdq_net_slots in = cmdq_net_slots_for(net, n->inputs[0], rows_tile * length),
                   out = cmdq_net_slots_of_runs(net, n->output, rows_tile * out_length);
    if (n->op == TV_OP_NORM && n->inputs[1] != TV_NO_VALUE)
        gains = cmdq_net_load_constant(net, n->inputs[1]);
    if (n->op == TV_OP_NORM && n->inputs[2] != TV_NO_VALUE)
        bias = cmdq_net_load_constant(net, n->inputs[2]);
    for (uint64_t row = 0, rows; row < rows_all && net->status == TV_OK; row += rows) {
        rows = tv_min_u64(rows_tile, rows_all - row);
        rows = cmdq_net_run_length(net, n->output, row * out_length, rows * out_length) / out_length;
        cmdq_lower_operand x = cmdq_net_read(net, n->inputs[0], row * length, rows * length, cmdq_net_next_slot(&in)),
                           y = cmdq_net_write(net, n->output, row * out_length, rows * out_length,
                                              cmdq_net_next_slot(&out));
        begin_rows(net, n, x, y, rows, length);
        cmdq_net_share_input(net, x, rows * length);
        cmdq_net_share_output(net, n->output, y, rows * out_length);
        if (gains.buffer != TV_NO_VALUE) {
            cmdq_lower_set_address(&net->l, CMDQ_F_gamma_bank, gains.buffer, 0);
            cmdq_lower_add_read(&net->l, gains.buffer);
        }
        if (bias.buffer != TV_NO_VALUE) {
            cmdq_lower_set_address(&net->l, CMDQ_F_beta_bank, bias.buffer, 0);
            cmdq_lower_add_read(&net->l, bias.buffer);
        }
        cmdq_lower_finish_entry(&net->l);
        cmdq_net_written(net, n->output, row * out_length, rows * out_length, y);
        net->layers[net->node].tiles++;
    }
    cmdq_net_release(net, gains.buffer);
    cmdq_net_release(net, bias.buffer);
    cmdq_net_release_slots(net, &in);
    cmdq_net_release_slots(net, &out);
}

/* ---- Moves ---- */

/* Elements from the axis on, in the order of the storage of the output, of an input of a Concat along it. */
static uint64_t inner_elements(const cmdq_network *net, uint32_t value, uint32_t axis, uint32_t output)
{
    const tv_graph_shape *s = cmdq_net_dims(net, value);
    uint64_t n = 1;
    uint32_t i = s->rank, at;
    do {
        at = cmdq_net_storage_axis(net, output, --i);
        n *= (uint64_t)s->dims[at];
    } while (at != axis);
    return n;
}

/* One input of a Concat: rows of `from` elements become columns [at, at + from) of rows of `to`. */
static void emit_columns(cmdq_network *net, const tv_graph_node *n, uint32_t value, uint64_t from, uint64_t at,
                         uint64_t to)
{
    const cmdq_net_value *in = cmdq_net_storage(net, value), *out = cmdq_net_storage(net, n->output);
    uint64_t limit = cmdq_net_tile_bytes(net) / 4, rows = tv_graph_elements(net->graph, value) / from,
             piece = tv_min_u64(from, limit), tile = piece < from ? 1 : tv_min_u64(rows, limit / from);
    bool converts = in->qbits != out->qbits || in->scale != out->scale;
    cmdq_net_slots slots = cmdq_net_slots_for(net, value, tile * piece), copies = cmdq_net_no_slots();
    for (unsigned i = 0; i < CMDQ_NET_SLOTS && converts && net->status == TV_OK; i++)
        copies.buffers[i] = cmdq_net_buffer(net, tile * piece * out->qbits / 8);
    for (uint64_t row = 0, column = 0, count, width; row < rows && net->status == TV_OK;) {
        count = tv_min_u64(tile, rows - row);
        width = tv_min_u64(piece, from - column);
        cmdq_lower_operand x =
            cmdq_net_read(net, value, row * from + column, (count - 1) * from + width, cmdq_net_next_slot(&slots));
        if (converts) {
            cmdq_lower_operand y = {cmdq_net_next_slot(&copies), 0, out->qbits, out->scale};
            cmdq_lower_elementwise(&net->l, CMDQ_VE_CAST_TILE, x, NULL, y, (count - 1) * from + width);
            x = y;
        }
        cmdq_net_written_rows(net, n->output, row * to + at + column, count, width, to, x);
        net->layers[net->node].tiles++;
        column += width;
        if (column == from) {
            column = 0;
            row += count;
        }
    }
    cmdq_net_release_slots(net, &slots);
    cmdq_net_release_slots(net, &copies);
}

/* Stores the inputs side by side in DRAM. */
void cmdq_net_emit_concat(cmdq_network *net, const tv_graph_node *n)
{
    uint32_t axis = cmdq_net_dims(net, n->output)->rank - 1 - n->attrs.axis_from_end;
    uint64_t to = inner_elements(net, n->output, axis, n->output), at = 0;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && n->inputs[k] != TV_NO_VALUE && net->status == TV_OK; k++) {
        uint64_t from = inner_elements(net, n->inputs[k], axis, n->output);
        if (is_constant(net, n->inputs[k]))
            cmdq_net_upload_constant(net, n->inputs[k]);
        emit_columns(net, n, n->inputs[k], from, at, to);
        at += from;
    }
}

/* A Reshape between the orders of images and of rows: transposes [pixels][channels]. */
void cmdq_net_emit_reorder(cmdq_network *net, const tv_graph_node *n)
{
    bool from_last = net->channels_last[n->inputs[0]];
    if (net->values[n->output].storage != n->output)
        return;
    cmdq_net_image image = cmdq_net_image_of(cmdq_net_dims(net, from_last ? n->inputs[0] : n->output));
    uint64_t pixels = image.h * image.w, all = image.channels * pixels;
    cmdq_net_make_resident(net, n->output);
    cmdq_net_slots in = cmdq_net_slots_for(net, n->inputs[0], all), out = cmdq_net_slots_for(net, n->output, all);
    for (uint64_t i = 0; i < image.images && net->status == TV_OK; i++) {
        cmdq_lower_operand x = cmdq_net_read(net, n->inputs[0], i * all, all, cmdq_net_next_slot(&in)),
                           y = cmdq_net_write(net, n->output, i * all, all, cmdq_net_next_slot(&out));
        cmdq_lower_begin_vector(&net->l, CMDQ_VE_TRANSPOSE_TILE, x, y, from_last ? pixels : image.channels,
                                from_last ? image.channels : pixels);
        cmdq_lower_finish_entry(&net->l);
        cmdq_net_written(net, n->output, i * all, all, y);
        net->layers[net->node].tiles++;
    }
    cmdq_net_release_slots(net, &in);
    cmdq_net_release_slots(net, &out);
}
