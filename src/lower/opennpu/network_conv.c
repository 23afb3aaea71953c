/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions: K pixels times K output channels are a tile of the array, which adds an outer product for each input
 * channel and tap. With groups a block of output channels adds the channels of its groups only; weights of channels of
 * other groups are 0. Depthwise convolutions are the extreme: the diagonal of each product counts, and they still take
 * two loads a product, where FP32 lanes would take four instructions.
 *
 * A transposed convolution is one of these for each remainder of the output's rows and columns modulo the strides; its
 * results are spread by words. Tiles are computed from the last pixels to the first, because vectors of the last ones
 * exceed the image of a channel. */
#include <stdlib.h>

#include "graph/quantize.h"
#include "lower/opennpu/network_state.h"

/* Taps of a kernel that belong to a tap of the planes: kernel index = first + tap * step. */
typedef struct kernel_taps {
    uint32_t first, step;
} kernel_taps;

typedef struct conv {
    const tv_graph_node *n;
    opennpu_net_planes planes;
    kernel_taps kernel[2];
    uint32_t images, outputs, groups, inputs_of_group, outputs_of_group;
    bool transposed;
    uint64_t weights, scales; /* scales: [output] of scale and bias */
    uint64_t residual, out;   /* of an image; residual 0: none */
    uint64_t bounds;          /* vectors of the bounds of Clip; 0: none */
    bool relu;
} conv;

/* ---- Sizes ---- */

static conv conv_of(const opennpu_network *net, const tv_graph_node *n)
{
    const tv_graph_shape *x = opennpu_net_dims(net, n->inputs[0]), *y = opennpu_net_dims(net, n->output);
    opennpu_net_axis axes[2];
    conv c = {.n = n,
              .kernel = {{0, 1}, {0, 1}},
              .images = (uint32_t)x->dims[0],
              .outputs = (uint32_t)y->dims[1],
              .groups = n->attrs.groups,
              .transposed = n->op == TV_OP_CONV_TRANSPOSE};
    opennpu_net_axes(net, n, axes);
    c.planes = (opennpu_net_planes){.h = axes[0], .w = axes[1], .channels = (uint32_t)x->dims[1]};
    c.inputs_of_group = c.planes.channels / c.groups;
    c.outputs_of_group = c.outputs / c.groups;
    return c;
}

/* Input channels of a block of outputs. */
static void find_channels(const opennpu_network *net, const conv *c, uint32_t block, uint32_t *first, uint32_t *end)
{
    uint32_t k = net->m.k, last = (block + 1) * k < c->outputs ? (block + 1) * k : c->outputs;
    *first = block * k / c->outputs_of_group * c->inputs_of_group;
    *end = ((last - 1) / c->outputs_of_group + 1) * c->inputs_of_group;
}

static uint64_t steps_of(const opennpu_network *net, const conv *c, uint32_t block)
{
    uint32_t first, end;
    find_channels(net, c, block, &first, &end);
    return (uint64_t)(end - first) * c->planes.h.taps * c->planes.w.taps;
}

static uint64_t weight_bytes(opennpu_network *net, const conv *c)
{
    uint64_t steps = 0;
    for (uint32_t b = 0; b < opennpu_net_blocks(net, c->outputs); b++) {
        uint64_t own = steps_of(net, c, b);
        net->list_max = own > net->list_max ? own : net->list_max;
        steps += own;
    }
    return steps * net->m.k;
}

/* ---- Transposed convolutions ---- */

static uint32_t common_divisor(uint32_t a, uint32_t b) { return b ? common_divisor(b, a % b) : a; }

/* The taps that reach outputs with the remainder `phase`; false: there are none. */
static bool set_phase(opennpu_net_axis *a, kernel_taps *kernel, uint32_t phase)
{
    opennpu_net_axis all = *a;
    uint32_t stride = all.stride, step = (uint32_t)all.step, every = stride / common_divisor(stride, step), tap = 0;
    int64_t at = (int64_t)phase - all.first; /* the first of the taps is at `at` */
    while (tap < all.taps && (at - (int64_t)tap * step) % stride != 0)
        tap++;
    if (tap == all.taps || phase >= all.out)
        return false;
    *kernel = (kernel_taps){tap, every};
    *a = (opennpu_net_axis){.in = all.in,
                            .out = (all.out - phase - 1) / stride + 1,
                            .stride = 1,
                            .taps = (all.taps - 1 - tap) / every + 1,
                            .first = (int32_t)((at - (int64_t)tap * step) / stride),
                            .step = -(int32_t)(every * step / stride)};
    return true;
}

/* The convolution for a pair of remainders; false: its outputs are the bias. */
static bool phase_of(const opennpu_network *net, const conv *all, uint32_t i, conv *out)
{
    *out = *all;
    bool ok = set_phase(&out->planes.h, &out->kernel[0], i / all->planes.w.stride);
    ok = ok && set_phase(&out->planes.w, &out->kernel[1], i % all->planes.w.stride);
    if (ok)
        opennpu_net_size_planes(net, &out->planes);
    return ok;
}

static uint32_t phase_count(const conv *c) { return c->transposed ? c->planes.h.stride * c->planes.w.stride : 1; }

/* The convolution of a phase with the addresses of its constants and planes; others follow each other. Starts with
 * `at` as the address of the first one. */
static bool next_phase(opennpu_network *net, const conv *all, uint32_t i, uint64_t *at, conv *out)
{
    bool ok = true;
    *out = *all;
    if (all->transposed)
        ok = phase_of(net, all, i, out);
    else
        opennpu_net_size_planes(net, &out->planes);
    if (!ok)
        return false;
    out->weights = *at;
    out->planes.masks = *at + weight_bytes(net, out) + 4 * net->m.k;
    *at = out->planes.masks + opennpu_net_mask_bytes(net, &out->planes) + 4 * net->m.k;
    return true;
}

/* ---- Planning ---- */

const char *opennpu_net_check_conv(const opennpu_network *net, const tv_graph_node *n)
{
    if (!opennpu_net_is_constant(net, n->inputs[1]) ||
        (n->inputs[2] != TV_NO_VALUE && !opennpu_net_is_constant(net, n->inputs[2])))
        return "convolutions with weights that are computed";
    return opennpu_net_check_window(net, n);
}

void opennpu_net_plan_conv(opennpu_network *net, uint32_t node)
{
    opennpu_net_node *own = &net->nodes[node];
    conv all = conv_of(net, opennpu_net_node_at(net, node)), c;
    uint64_t at = 0, results = 0;
    for (uint32_t i = 0; i < phase_count(&all); i++) {
        if (!next_phase(net, &all, i, &at, &c))
            continue;
        uint64_t bytes = opennpu_net_size_planes(net, &c.planes),
                 pixels = (uint64_t)c.planes.h.out * c.planes.w.out * c.outputs * 4;
        own->scratch_bytes = bytes > own->scratch_bytes ? bytes : own->scratch_bytes;
        results = pixels > results && all.transposed ? pixels : results;
    }
    own->scratch_bytes += results + (results ? 2 * opennpu_lower_vector_bytes(&net->m) : 0);
    own->weights = opennpu_net_reserve(net, at);
    own->scales = opennpu_net_reserve(net, 8 * (uint64_t)all.outputs);
    own->vectors = opennpu_net_reserve(net, 2 * opennpu_lower_vector_bytes(&net->m));
    snprintf(own->plan, sizeof own->plan,
             "tiles of %u pixels x %u channels, %u steps each; two loads a step bound them", net->m.k, net->m.k,
             (unsigned)steps_of(net, &all, 0));
}

/* ---- Weights ---- */

/* Index of a weight in its tensor. */
static uint64_t weight_index(const conv *c, const int64_t kernel[2], uint32_t output, uint32_t channel, uint32_t th,
                             uint32_t tw)
{
    uint64_t kh = c->kernel[0].first + (uint64_t)th * c->kernel[0].step,
             kw = c->kernel[1].first + (uint64_t)tw * c->kernel[1].step, tap = kh * (uint64_t)kernel[1] + kw,
             taps = (uint64_t)(kernel[0] * kernel[1]);
    if (c->transposed)
        return ((uint64_t)channel * c->outputs_of_group + output % c->outputs_of_group) * taps + tap;
    return ((uint64_t)output * c->inputs_of_group + channel % c->inputs_of_group) * taps + tap;
}

static void kernel_of(const conv *all, int64_t kernel[2])
{
    kernel[0] = all->planes.h.taps;
    kernel[1] = all->planes.w.taps;
}

/* A block of output channels: [input channel][tap along w][tap along h][K]. */
static void pack_block(const opennpu_network *net, const conv *c, const int64_t kernel[2], const int8_t *w,
                       uint32_t block, int8_t *steps)
{
    uint32_t first, end, k = net->m.k;
    find_channels(net, c, block, &first, &end);
    for (uint32_t channel = first; channel < end; channel++)
        for (uint32_t tw = 0; tw < c->planes.w.taps; tw++)
            for (uint32_t th = 0; th < c->planes.h.taps; th++, steps += k)
                for (uint32_t lane = 0; lane < k; lane++) {
                    uint32_t o = block * k + lane;
                    bool own = o < c->outputs && o / c->outputs_of_group == channel / c->inputs_of_group;
                    steps[lane] = own ? w[weight_index(c, kernel, o, channel, th, tw)] : 0;
                }
}

static tv_status upload_phase(const opennpu_network *net, const conv *c, const int64_t kernel[2], const int8_t *w)
{
    uint64_t at = c->weights;
    tv_status status = opennpu_net_upload_masks(net, &c->planes);
    for (uint32_t b = 0; b < opennpu_net_blocks(net, c->outputs) && status == TV_OK; b++) {
        uint64_t count = steps_of(net, c, b), bytes = count * net->m.k;
        int8_t *steps = malloc(bytes + 1);
        uint8_t *packed = malloc(bytes + 1);
        status = steps && packed ? TV_OK : tv_fail_memory(net->sink);
        if (status == TV_OK) {
            pack_block(net, c, kernel, w, b, steps);
            opennpu_net_interleave(net, steps, count, packed);
            status = opennpu_net_write_bytes(net, at, packed, bytes);
        }
        at += bytes;
        free(steps);
        free(packed);
    }
    return status;
}

/* Rounds the weights of each output channel, with a scale of its own. */
static void round_weights(const conv *all, const int64_t kernel[2], const float *w, int8_t *q, float *row,
                          float *scales)
{
    for (uint32_t o = 0; o < all->outputs; o++) {
        uint32_t first = o / all->outputs_of_group * all->inputs_of_group, n = 0;
        for (uint32_t c = 0; c < all->inputs_of_group; c++)
            for (uint32_t th = 0; th < kernel[0]; th++)
                for (uint32_t tw = 0; tw < kernel[1]; tw++)
                    row[n++] = w[weight_index(all, kernel, o, first + c, th, tw)];
        int8_t *bytes = (int8_t *)(row + n);
        tv_quantize_row(row, n, n, 8, (uint8_t *)bytes, &scales[2 * o]);
        n = 0;
        for (uint32_t c = 0; c < all->inputs_of_group; c++)
            for (uint32_t th = 0; th < kernel[0]; th++)
                for (uint32_t tw = 0; tw < kernel[1]; tw++)
                    q[weight_index(all, kernel, o, first + c, th, tw)] = bytes[n++];
    }
}

static tv_status upload_constants(const opennpu_network *net, uint32_t node, const float *w, int8_t *q, float *row,
                                  float *scales)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    const opennpu_net_node *own = &net->nodes[node];
    conv all = conv_of(net, n);
    float *bias = NULL, bounds[2 * 64];
    int64_t kernel[2];
    kernel_of(&all, kernel);
    round_weights(&all, kernel, w, q, row, scales);
    if (n->inputs[2] != TV_NO_VALUE)
        TV_TRY(opennpu_net_read_constant(net, n->inputs[2], &bias));
    for (uint32_t o = 0; o < all.outputs; o++) {
        scales[2 * o] *= net->units[n->inputs[0]];
        scales[2 * o + 1] = bias ? bias[o] : 0;
    }
    free(bias);
    TV_TRY(opennpu_net_write_words(net, own->scales, scales, 2 * (size_t)all.outputs));
    for (uint32_t i = 0; i < 2 * net->m.k; i++)
        bounds[i] = i < net->m.k ? n->attrs.alpha : n->attrs.beta;
    return opennpu_net_write_words(net, own->vectors, bounds, 2 * net->m.k);
}

tv_status opennpu_net_upload_conv(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    conv all = conv_of(net, n), c;
    uint64_t weights = tv_graph_elements(net->graph, n->inputs[1]), row_max = weights / all.outputs_of_group + 1,
             at = net->nodes[node].weights;
    int64_t kernel[2];
    float *w, *row = malloc(row_max * 2 * sizeof *row), *scales = malloc(2 * (size_t)all.outputs * sizeof *scales);
    int8_t *q = malloc(weights + 1);
    tv_status status =
        row && scales && q ? opennpu_net_read_constant(net, n->inputs[1], &w) : tv_fail_memory(net->sink);
    if (status == TV_OK) {
        status = upload_constants(net, node, w, q, row, scales);
        free(w);
    }
    kernel_of(&all, kernel);
    for (uint32_t i = 0; i < phase_count(&all) && status == TV_OK; i++)
        if (next_phase(net, &all, i, &at, &c))
            status = upload_phase(net, &c, kernel, q);
    free(row);
    free(scales);
    free(q);
    return status;
}

/* ---- Tiles ---- */

/* Two columns of ACC, or one: channels `output` and the next one, of the pixels from `pixel` on. */
static void drain_channels(opennpu_network *net, const conv *c, uint32_t output, unsigned count, uint64_t pixel)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint64_t plane = (uint64_t)c->planes.h.out * c->planes.w.out * 4, at = output * plane + pixel * 4;
    for (unsigned i = 0; i < 2 * count; i++)
        opennpu_lower_access_lane0(e, OPENNPU_LD_W, i, OPENNPU_LOWER_VR_W, c->scales + output * UINT64_C(8) + i * 4);
    for (unsigned i = 0; i < count; i++)
        opennpu_lower_emit(e, OPENNPU_MMA_LAST, 6 + i, 0, 0);
    for (unsigned i = 0; i < 2 * count; i++)
        opennpu_lower_emit_sized(e, OPENNPU_BCAST_REG, OPENNPU_VR, i, i, 0);
    for (unsigned i = 0; i < count; i++)
        opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 6 + i, 6 + i, 0);
    for (unsigned i = 0; i < count; i++)
        opennpu_lower_emit_fma(e, OPENNPU_VFMA, 6 + i, 6 + i, 2 * i, 2 * i + 1);
    for (unsigned i = 0; i < count && c->residual; i++)
        opennpu_lower_load(e, OPENNPU_VR, 2 * i, OPENNPU_LOWER_VR_X, c->residual + at + i * plane);
    for (unsigned i = 0; i < count && c->residual; i++)
        opennpu_lower_emit(e, OPENNPU_VFADD, 6 + i, 6 + i, 2 * i);
    if (c->relu)
        opennpu_lower_emit_vr(e, OPENNPU_VXOR, 1, 1, 1);
    for (unsigned i = 0; i < 2 && c->bounds; i++)
        opennpu_lower_load(e, OPENNPU_VR, 1 + 2 * i, OPENNPU_LOWER_VR_W,
                           c->bounds + i * opennpu_lower_vector_bytes(&net->m));
    for (unsigned i = 0; i < count && (c->relu || c->bounds); i++)
        opennpu_lower_emit(e, OPENNPU_VFMAX, 6 + i, 6 + i, 1);
    for (unsigned i = 0; i < count && c->bounds; i++)
        opennpu_lower_emit(e, OPENNPU_VFMIN, 6 + i, 6 + i, 3);
    for (unsigned i = 0; i < count; i++)
        opennpu_lower_store(e, OPENNPU_VR, 6 + i, OPENNPU_LOWER_VR_X, c->out + at + i * plane);
}

static void emit_tile(opennpu_network *net, const conv *c, uint64_t pixel, uint32_t block, uint64_t weights)
{
    uint32_t first, end, k = net->m.k, last = (block + 1) * k < c->outputs ? (block + 1) * k : c->outputs;
    size_t count = 0;
    find_channels(net, c, block, &first, &end);
    for (uint32_t channel = first; channel < end; channel++)
        for (uint32_t tw = 0; tw < c->planes.w.taps; tw++)
            for (uint32_t th = 0; th < c->planes.h.taps; th++)
                net->xs[count++] = opennpu_net_plane_at(net, &c->planes, channel, th, tw, pixel);
    opennpu_lower_accumulate(&net->m.e, net->tok.list, opennpu_net_list(net, weights, count, true));
    for (uint32_t o = block * k; o < last; o += 2)
        drain_channels(net, c, o, last - o < 2 ? 1 : 2, pixel);
}

/* Convolves an image whose planes are made. */
static void emit_tiles(opennpu_network *net, const conv *c, uint64_t *tiles)
{
    uint32_t blocks = opennpu_net_blocks(net, c->outputs);
    for (uint64_t p = opennpu_net_blocks(net, (uint64_t)c->planes.h.out * c->planes.w.out); p-- > 0;) {
        uint64_t weights = c->weights;
        for (uint32_t b = 0; b < blocks; b++, (*tiles)++) {
            emit_tile(net, c, p * net->m.k, b, weights);
            weights += steps_of(net, c, b) * net->m.k;
        }
    }
}

/* ---- Results of transposed convolutions ---- */

/* Spreads the results of a phase over the output. */
static void emit_spread(opennpu_network *net, const conv *all, const conv *c, uint32_t phase, uint64_t from,
                        uint64_t to)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint64_t rows = (uint64_t)c->outputs * c->planes.h.out, width = c->planes.w.out, step = 4 * all->planes.w.stride;
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t channel = r / c->planes.h.out,
                 row = r % c->planes.h.out * all->planes.h.stride + phase / all->planes.w.stride,
                 at = to + ((channel * all->planes.h.out + row) * all->planes.w.out + phase % all->planes.w.stride) * 4;
        opennpu_lower_run_full_segment(e);
        for (uint64_t i = 0; i < width; i += 4) {
            unsigned n = width - i < 4 ? (unsigned)(width - i) : 4;
            for (unsigned j = 0; j < n; j++)
                opennpu_lower_access_lane0(e, OPENNPU_LD_W, j, OPENNPU_LOWER_VR_W, from + (r * width + i + j) * 4);
            for (unsigned j = 0; j < n; j++)
                opennpu_lower_access_lane0(e, OPENNPU_ST_W, j, OPENNPU_LOWER_VR_X, at + (i + j) * step);
        }
    }
}

/* Elements that no tap reaches are the bias of their channel. */
static void emit_biases(opennpu_network *net, const conv *all, uint64_t out)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint64_t pixels = (uint64_t)all->planes.h.out * all->planes.w.out;
    for (uint32_t o = 0; o < all->outputs; o++) {
        opennpu_lower_access_lane0(e, OPENNPU_LD_W, 0, OPENNPU_LOWER_VR_W, all->scales + o * UINT64_C(8) + 4);
        opennpu_lower_emit_sized(e, OPENNPU_BCAST_REG, OPENNPU_VR, 0, 0, 0);
        opennpu_lower_run_full_segment(e);
        for (uint32_t b = 0; b < opennpu_net_blocks(net, pixels); b++)
            opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, out + (o * pixels + (uint64_t)b * net->m.k) * 4);
    }
}

/* ---- Nodes ---- */

/* One image, at `x`, with its result at all->out. */
static void emit_image(opennpu_network *net, uint32_t node, const conv *all, uint64_t x)
{
    opennpu_net_node *own = &net->nodes[node];
    uint64_t at = own->weights, results = own->scratch + own->scratch_bytes;
    conv c;
    for (uint32_t i = 0; i < phase_count(all); i++) {
        if (!next_phase(net, all, i, &at, &c))
            continue;
        c.planes.at = own->scratch;
        opennpu_net_make_planes(net, &c.planes, x, net->units[all->n->inputs[0]]);
        if (all->transposed)
            c.out = results - (uint64_t)c.planes.h.out * c.planes.w.out * c.outputs * 4 -
                    opennpu_lower_vector_bytes(&net->m);
        emit_tiles(net, &c, &own->tiles);
        if (all->transposed)
            emit_spread(net, all, &c, i, c.out, all->out);
    }
}

/* True when no tap reaches some outputs. */
static bool has_gaps(opennpu_network *net, const conv *all)
{
    uint64_t at = 0;
    conv c;
    bool gaps = false;
    for (uint32_t i = 0; i < phase_count(all); i++)
        gaps = !next_phase(net, all, i, &at, &c) || gaps;
    return gaps;
}

void opennpu_net_emit_conv(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    const opennpu_net_node *own = &net->nodes[node];
    conv all = conv_of(net, n);
    tv_activation activation = all.transposed ? TV_ACTIVATION_NONE : n->attrs.activation;
    uint64_t image = tv_graph_elements(net->graph, n->output) / all.images * 4,
             input = tv_graph_elements(net->graph, n->inputs[0]) / all.images * 4;
    all.scales = own->scales;
    all.relu = activation == TV_ACTIVATION_RELU;
    all.bounds = activation == TV_ACTIVATION_CLIP ? own->vectors : 0;
    for (uint32_t i = 0; i < all.images; i++) {
        all.out = opennpu_net_at(net, n->output) + i * image;
        all.residual =
            !all.transposed && n->inputs[3] != TV_NO_VALUE ? opennpu_net_at(net, n->inputs[3]) + i * image : 0;
        if (has_gaps(net, &all))
            emit_biases(net, &all, all.out);
        emit_image(net, node, &all, opennpu_net_at(net, n->inputs[0]) + i * input);
    }
    if (activation && !all.relu && !all.bounds)
        opennpu_net_activate(net, &n->attrs, opennpu_net_at(net, n->output), tv_graph_elements(net->graph, n->output));
}
