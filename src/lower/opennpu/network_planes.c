/* SPDX-License-Identifier: Apache-2.0 */
/* 8-bit planes of images for convolutions. There are no patches: each column of the kernel has a copy of the image,
 * shifted by it and cut to the columns of the output, and rows of the kernel are offsets in it. Strides of 2
 * and 4 are byte planes of a loaded register; others copy bytes. What is outside of the image is 0. Planes are written
 * in the order of addresses: a row's last vector may exceed it. */
#include <stdlib.h>

#include "lower/opennpu/network_state.h"

enum { WINDOW_MAX = 65536, STRIDE_MAX = 256 };

bool opennpu_net_axes(const opennpu_network *net, const tv_graph_node *n, opennpu_net_axis axes[2])
{
    const tv_graph_shape *x = opennpu_net_dims(net, n->inputs[0]), *y = opennpu_net_dims(net, n->output);
    const tv_graph_lists *l = n->attrs.lists;
    uint32_t spatial = x->rank - 2;
    if (spatial > 2)
        return false;
    axes[0] = (opennpu_net_axis){1, 1, 1, 1, 0, 1};
    for (uint32_t i = 0; i < spatial; i++)
        axes[2 - spatial + i] = (opennpu_net_axis){.in = (uint32_t)x->dims[2 + i],
                                                   .out = (uint32_t)y->dims[2 + i],
                                                   .stride = (uint32_t)l->stride[i],
                                                   .taps = (uint32_t)l->kernel[i],
                                                   .first = -(int32_t)l->pad_begin[i],
                                                   .step = (int32_t)l->dilation[i]};
    return true;
}

const char *opennpu_net_check_window(const opennpu_network *net, const tv_graph_node *n)
{
    opennpu_net_axis axes[2];
    double bytes = (double)opennpu_net_dims(net, n->inputs[0])->dims[1];
    if (!opennpu_net_axes(net, n, axes))
        return "images of three spatial axes";
    for (unsigned i = 0; i < 2; i++) { /* all rows that windows cover, and a copy for each column of the kernel */
        double reach = (double)axes[i].out * axes[i].stride + (double)axes[i].taps * axes[i].step;
        bytes *= i == 0 ? reach : (double)axes[i].out * axes[i].taps;
        if (axes[i].taps > WINDOW_MAX || (n->op == TV_OP_CONV_TRANSPOSE && axes[i].stride > STRIDE_MAX) ||
            reach > UINT32_MAX || axes[i].first < -INT32_MAX / 2)
            return "windows of such a size";
    }
    return bytes > UINT32_MAX && n->op != TV_OP_MAX_POOL && n->op != TV_OP_AVERAGE_POOL ? "so large a memory" : NULL;
}

static int64_t last_of(const opennpu_net_axis *a) { return a->first + (int64_t)(a->taps - 1) * a->step; }
static int64_t min_of(const opennpu_net_axis *a) { return a->step < 0 ? last_of(a) : a->first; }
static int64_t max_of(const opennpu_net_axis *a) { return a->step < 0 ? a->first : last_of(a); }
static int64_t offset_of(const opennpu_net_axis *a, uint32_t tap) { return a->first + (int64_t)tap * a->step; }

static bool is_copy(const opennpu_net_axis *a)
{
    return a->in == a->out && a->stride == 1 && a->taps == 1 && a->first == 0;
}

uint64_t opennpu_net_size_planes(const opennpu_network *net, opennpu_net_planes *p)
{
    uint64_t k = net->m.k, pixels = (uint64_t)p->h.out * p->w.out, image = (uint64_t)p->h.in * p->w.in;
    int64_t reach = max_of(&p->h) - min_of(&p->h), before = min_of(&p->w) < 0 ? -min_of(&p->w) : 0,
            after = max_of(&p->w) < 0 ? 0 : max_of(&p->w);
    p->pointwise = is_copy(&p->h) && is_copy(&p->w);
    if (p->pointwise)
        return opennpu_net_blocks(net, pixels) * k * p->channels + k;
    p->phases = 1;
    for (uint32_t t = 0; t < p->h.taps; t++) {
        uint32_t phase = (uint32_t)((offset_of(&p->h, t) - min_of(&p->h)) % p->h.stride);
        p->phases = phase + 1 > p->phases ? phase + 1 : p->phases;
    }
    p->rows = p->h.out + (uint32_t)(reach / p->h.stride);
    p->bytes = (uint64_t)p->phases * p->rows * p->w.out;
    p->margin = (uint32_t)before + 64;
    return p->bytes * p->w.taps * p->channels + k + p->margin + image + (uint64_t)after +
           ((uint64_t)p->w.out + k) * (p->w.stride + 4);
}

uint64_t opennpu_net_mask_bytes(const opennpu_network *net, const opennpu_net_planes *p)
{
    return p->pointwise ? 0 : p->w.taps * ((uint64_t)p->w.out + net->m.k);
}

/* Columns of the output for which a tap is inside of the image. */
static void find_inside(const opennpu_net_axis *a, uint32_t tap, uint32_t *from, uint32_t *to)
{
    int64_t off = offset_of(a, tap), stride = a->stride, first = off < 0 ? (stride - 1 - off) / stride : 0,
            end = a->in > off ? (a->in - 1 - off) / stride + 1 : 0;
    *to = (uint32_t)(end > a->out ? a->out : end);
    *from = (uint32_t)(first > *to ? *to : first);
}

tv_status opennpu_net_upload_masks(const opennpu_network *net, const opennpu_net_planes *p)
{
    uint64_t bytes = opennpu_net_mask_bytes(net, p), row = (uint64_t)p->w.out + net->m.k;
    uint8_t *mask = calloc(bytes + 1, 1);
    if (!mask)
        return tv_fail_memory(net->sink);
    for (uint32_t t = 0; t < p->w.taps && bytes; t++) {
        uint32_t from, to;
        find_inside(&p->w, t, &from, &to);
        for (uint64_t i = 0; i < row; i++)
            mask[t * row + i] = i % p->w.out >= from && i % p->w.out < to ? 0xFF : 0;
    }
    tv_status status = bytes ? opennpu_net_write_bytes(net, p->masks, mask, bytes) : TV_OK;
    free(mask);
    return status;
}

/* ---- Rows ---- */

/* A row, or several, of a plane. */
typedef struct plane_row {
    uint64_t from, to, mask; /* mask 0: none */
    uint32_t count, period;  /* bytes of the row; of the mask */
} plane_row;

static void emit_zeros(opennpu_network *net, uint64_t to, uint64_t count)
{
    opennpu_lower_set(&net->m.e, 6, 0);
    for (uint64_t i = 0; i < count; i += net->m.k)
        opennpu_lower_store(&net->m.e, OPENNPU_VX, opennpu_lower_reg(6, OPENNPU_VX), OPENNPU_LOWER_VR_X, to + i);
}

/* Vectors of every first, second or fourth byte. */
static void emit_vectors(opennpu_network *net, const plane_row *r, unsigned class_)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint32_t k = net->m.k;
    for (uint32_t i = 0; i < r->count; i += 2 * k) {
        unsigned n = r->count - i > k ? 2 : 1;
        for (unsigned j = 0; j < n; j++)
            opennpu_lower_load(e, class_, opennpu_lower_reg(j, class_), OPENNPU_LOWER_VR_W,
                               r->from + ((uint64_t)(i + j * k) << class_));
        for (unsigned j = 0; j < n && r->mask; j++)
            opennpu_lower_load(e, OPENNPU_VX, opennpu_lower_reg(2 + j, OPENNPU_VX), OPENNPU_LOWER_VR_W,
                               r->mask + (i + j * k) % r->period);
        for (unsigned j = 0; j < n && r->mask; j++)
            opennpu_lower_emit_sized(e, OPENNPU_VAND, OPENNPU_VX, opennpu_lower_reg(j, OPENNPU_VX),
                                     opennpu_lower_reg(j, OPENNPU_VX), opennpu_lower_reg(2 + j, OPENNPU_VX));
        for (unsigned j = 0; j < n; j++)
            opennpu_lower_store(e, OPENNPU_VX, opennpu_lower_reg(j, OPENNPU_VX), OPENNPU_LOWER_VR_X, r->to + i + j * k);
        opennpu_lower_run_full_segment(e);
    }
}

/* Bytes [first, end) of a row, `stride` apart; others are 0. */
static void emit_bytes(opennpu_network *net, const plane_row *r, uint32_t stride, uint32_t first, uint32_t end)
{
    opennpu_lower_emitter *e = &net->m.e;
    emit_zeros(net, r->to, r->count);
    for (uint32_t i = first; i < end; i += 4) {
        unsigned n = end - i < 4 ? end - i : 4;
        for (unsigned j = 0; j < n; j++)
            opennpu_lower_access_lane0(e, OPENNPU_LD_B, opennpu_lower_reg(j, OPENNPU_VX), OPENNPU_LOWER_VR_W,
                                       r->from + (uint64_t)(i + j) * stride);
        for (unsigned j = 0; j < n; j++)
            opennpu_lower_access_lane0(e, OPENNPU_ST_B, opennpu_lower_reg(j, OPENNPU_VX), OPENNPU_LOWER_VR_X,
                                       r->to + i + j);
    }
    opennpu_lower_run_full_segment(e);
}

/* ---- Planes ---- */

/* Row `row` of phase `phase` of the plane of a tap. `copy` is the first byte of the 8-bit channel. */
static void emit_row(opennpu_network *net, const opennpu_net_planes *p, uint64_t copy, uint32_t tap, int64_t row,
                     uint64_t to)
{
    uint32_t first, end, stride = p->w.stride;
    plane_row r = {.to = to, .count = p->w.out, .period = UINT32_MAX};
    find_inside(&p->w, tap, &first, &end);
    if (row < 0 || row >= p->h.in || first == end) {
        emit_zeros(net, to, r.count);
        return;
    }
    r.from = (uint64_t)((int64_t)(copy + (uint64_t)row * p->w.in) + offset_of(&p->w, tap));
    if (first > 0 || end < p->w.out)
        r.mask = p->masks + tap * ((uint64_t)p->w.out + net->m.k);
    if (stride == 1 || stride == 2 || stride == 4)
        emit_vectors(net, &r, stride / 2);
    else
        emit_bytes(net, &r, stride, first, end);
}

/* All rows of a plane whose rows are those of the image, shifted by whole pixels. */
static void emit_shifted(opennpu_network *net, const opennpu_net_planes *p, uint64_t copy, uint32_t tap, uint64_t to)
{
    uint32_t first, end, width = p->w.out;
    int64_t low = min_of(&p->h), from = low < 0 ? 0 : low, until = low + p->rows;
    plane_row r = {.period = width};
    until = until > p->h.in ? p->h.in : until;
    find_inside(&p->w, tap, &first, &end);
    if (until <= from || first == end) {
        emit_zeros(net, to, p->bytes);
        return;
    }
    emit_zeros(net, to, (uint64_t)(from - low) * width);
    r.from = (uint64_t)((int64_t)(copy + (uint64_t)from * width) + offset_of(&p->w, tap));
    r.to = to + (uint64_t)(from - low) * width;
    r.count = (uint32_t)(until - from) * width;
    if (first > 0 || end < width)
        r.mask = p->masks + tap * ((uint64_t)width + net->m.k);
    emit_vectors(net, &r, OPENNPU_VX);
    emit_zeros(net, r.to + r.count, p->bytes - (uint64_t)(until - low) * width);
}

static void emit_plane(opennpu_network *net, const opennpu_net_planes *p, uint64_t copy, uint32_t tap, uint64_t to)
{
    if (p->h.stride == 1 && p->w.stride == 1 && p->w.in == p->w.out) {
        emit_shifted(net, p, copy, tap, to);
        return;
    }
    for (uint32_t phase = 0; phase < p->phases; phase++)
        for (uint32_t row = 0; row < p->rows; row++, to += p->w.out)
            emit_row(net, p, copy, tap, (int64_t)row * p->h.stride + phase + min_of(&p->h), to);
}

/* Blocks of pixels: the vectors of a channel are `channels` vectors apart. */
static void emit_blocks(opennpu_network *net, const opennpu_net_planes *p, uint64_t x, float unit, uint32_t channel)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint64_t pixels = (uint64_t)p->h.in * p->w.in, k = net->m.k;
    uint32_t blocks = opennpu_net_blocks(net, pixels);
    opennpu_lower_set(e, 7, tv_f32_bits(1 / unit));
    for (uint32_t b = 0; b < blocks; b += 4) {
        unsigned n = blocks - b < 4 ? blocks - b : 4;
        opennpu_lower_run_full_segment(e);
        for (unsigned i = 0; i < n; i++)
            opennpu_lower_load(e, OPENNPU_VR, i, OPENNPU_LOWER_VR_W, x + (channel * pixels + (b + i) * k) * 4);
        for (unsigned i = 0; i < n; i++)
            opennpu_lower_emit(e, OPENNPU_VFMUL, i, i, 7);
        for (unsigned i = 0; i < n; i++)
            opennpu_lower_emit(e, OPENNPU_VCVT_S8_F32, opennpu_lower_reg(i, OPENNPU_VX), i, 0);
        for (unsigned i = 0; i < n; i++)
            opennpu_lower_store(e, OPENNPU_VX, opennpu_lower_reg(i, OPENNPU_VX), OPENNPU_LOWER_VR_X,
                                p->at + ((uint64_t)(b + i) * p->channels + channel) * k);
    }
}

void opennpu_net_make_planes(opennpu_network *net, const opennpu_net_planes *p, uint64_t x, float unit)
{
    uint64_t pixels = (uint64_t)p->h.in * p->w.in,
             copy = p->at + p->bytes * p->w.taps * p->channels + net->m.k + p->margin;
    for (uint32_t c = 0; c < p->channels; c++) {
        if (p->pointwise) {
            emit_blocks(net, p, x, unit, c);
            continue;
        }
        opennpu_net_quantize(net, x + c * pixels * 4, copy, pixels, unit);
        for (uint32_t tap = 0; tap < p->w.taps; tap++)
            emit_plane(net, p, copy, tap, p->at + ((uint64_t)c * p->w.taps + tap) * p->bytes);
    }
}

uint64_t opennpu_net_plane_at(const opennpu_network *net, const opennpu_net_planes *p, uint32_t channel, uint32_t tap_h,
                              uint32_t tap_w, uint64_t pixel)
{
    if (p->pointwise)
        return p->at + (pixel * p->channels + (uint64_t)channel * net->m.k);
    uint64_t row = (uint64_t)(offset_of(&p->h, tap_h) - min_of(&p->h));
    return p->at + ((uint64_t)channel * p->w.taps + tap_w) * p->bytes +
           (row % p->h.stride * p->rows + row / p->h.stride) * p->w.out + pixel;
}
