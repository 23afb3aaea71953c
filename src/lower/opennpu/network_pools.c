/* SPDX-License-Identifier: Apache-2.0 */
/* Pools, row by row of the output: the rows of the image that a window covers become one row, with what padding counts
 * as on both sides; then shifted vectors of that row are combined, and with a stride words of the result are picked. */
#include <stdlib.h>

#include "lower/opennpu/network_state.h"

#define LOWEST (-3.4028234e38F)

typedef struct pool {
    opennpu_net_axis h, w;
    bool mean, counts_padding;
    uint64_t planes;        /* images times channels */
    uint64_t row;           /* scratch: the combined row, from its padding on */
    uint64_t picked;        /* scratch: results of stride 1 */
    uint64_t factors;       /* of a mean: [rows of the window inside, less 1][column of the output] */
    uint32_t before, after; /* columns of padding */
} pool;

static pool pool_of(const opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    const tv_graph_shape *x = opennpu_net_dims(net, n->inputs[0]);
    opennpu_net_axis axes[2];
    opennpu_net_axes(net, n, axes);
    pool p = {.h = axes[0],
              .w = axes[1],
              .mean = n->op == TV_OP_AVERAGE_POOL,
              .counts_padding = n->op == TV_OP_AVERAGE_POOL && (n->attrs.mode & 1),
              .planes = (uint64_t)(x->dims[0] * x->dims[1]),
              .factors = net->nodes[node].vectors};
    int64_t reach = (int64_t)(p.w.out - 1) * p.w.stride + p.w.first + (int64_t)(p.w.taps - 1) * p.w.step + 1;
    p.before = (uint32_t)-p.w.first;
    p.after = reach > p.w.in ? (uint32_t)(reach - p.w.in) : 0;
    p.row = net->nodes[node].scratch;
    p.picked = p.row + 4 * ((uint64_t)p.before + p.w.in + p.after) + 2 * opennpu_lower_vector_bytes(&net->m);
    return p;
}

static bool is_whole(const pool *p)
{
    return p->h.taps == p->h.in && p->w.taps == p->w.in && p->h.out == 1 && p->w.out == 1 && !p->h.first &&
           !p->w.first && p->h.step == 1 && p->w.step == 1;
}

void opennpu_net_plan_pool(opennpu_network *net, uint32_t node)
{
    opennpu_net_node *own = &net->nodes[node];
    pool p = pool_of(net, node);
    uint64_t vector = opennpu_lower_vector_bytes(&net->m);
    if (is_whole(&p))
        return;
    own->scratch_bytes =
        4 * (2 * ((uint64_t)p.before + p.w.in + p.after) + (uint64_t)p.w.out * p.w.stride) + 8 * vector;
    if (p.mean)
        own->vectors = opennpu_net_reserve(net, 4 * (uint64_t)p.h.taps * p.w.out);
}

/* Taps of a window that count: those inside of the image, or of the padded one. */
static uint32_t count_taps(const opennpu_net_axis *a, uint32_t out, bool padding, int64_t pad_end)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < a->taps; t++) {
        int64_t at = (int64_t)out * a->stride + a->first + (int64_t)t * a->step;
        count += padding ? at < a->in + pad_end : at >= 0 && at < a->in;
    }
    return count;
}

/* Padding at the end of an axis. */
static int64_t pad_end_of(const opennpu_network *net, const tv_graph_node *n, unsigned axis)
{
    uint32_t spatial = opennpu_net_dims(net, n->inputs[0])->rank - 2;
    return axis + spatial >= 2 ? n->attrs.lists->pad_end[axis + spatial - 2] : 0;
}

tv_status opennpu_net_upload_pool(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    pool p = pool_of(net, node);
    if (!p.mean || is_whole(&p))
        return TV_OK;
    size_t count = (size_t)p.h.taps * p.w.out;
    float *factors = malloc(count * sizeof *factors);
    if (!factors)
        return tv_fail_memory(net->sink);
    for (uint32_t r = 0; r < p.h.taps; r++)
        for (uint32_t c = 0; c < p.w.out; c++) {
            uint32_t columns = count_taps(&p.w, c, p.counts_padding, pad_end_of(net, n, 1));
            factors[(size_t)r * p.w.out + c] = columns ? 1 / (float)((r + 1) * columns) : 0;
        }
    tv_status status = opennpu_net_write_words(net, p.factors, factors, count);
    free(factors);
    return status;
}

/* ---- Whole planes ---- */

static void emit_whole(opennpu_network *net, const pool *p, uint64_t x, uint64_t out)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint32_t pixels = p->h.in * p->w.in;
    for (uint64_t i = 0; i < p->planes; i++) {
        opennpu_lower_run_full_segment(e);
        if (p->mean) {
            opennpu_lower_token_sum(&net->tok, x + i * pixels * 4, pixels);
            opennpu_lower_set(e, 1, tv_f32_bits(1 / (float)pixels));
            opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 1);
        } else {
            opennpu_lower_token_max(&net->tok, x + i * pixels * 4, pixels, false);
        }
        opennpu_lower_access_lane0(e, OPENNPU_ST_W, 0, OPENNPU_LOWER_VR_X, out + i * 4);
    }
}

/* ---- Rows ---- */

static void emit_combine(opennpu_network *net, const pool *p, unsigned rd, unsigned rs)
{
    opennpu_lower_emit(&net->m.e, p->mean ? OPENNPU_VFADD : OPENNPU_VFMAX, rd, rd, rs);
}

static void emit_padding(opennpu_network *net, const pool *p, uint64_t to, uint32_t count)
{
    if (count)
        opennpu_lower_set(&net->m.e, 6, p->mean ? 0 : tv_f32_bits(LOWEST));
    for (uint32_t i = 0; i < count; i += net->m.k)
        opennpu_lower_store(&net->m.e, OPENNPU_VR, 6, OPENNPU_LOWER_VR_X, to + i * UINT64_C(4));
}

/* `taps` vectors at `from`, `stride` bytes apart, become one. VR 0 has the result. */
static void emit_taps(opennpu_network *net, const pool *p, uint64_t from, uint64_t stride, uint32_t taps)
{
    opennpu_lower_load(&net->m.e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_W, from);
    for (uint32_t t = 1; t < taps; t++) {
        opennpu_lower_load(&net->m.e, OPENNPU_VR, 1 + t % 3, OPENNPU_LOWER_VR_W, from + t * stride);
        emit_combine(net, p, 0, 1 + t % 3);
    }
}

/* Rows of the image that the windows of an output row cover: the first one, and their number. */
static uint32_t find_rows(const pool *p, uint32_t out, int64_t *first)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < p->h.taps; t++) {
        int64_t at = (int64_t)out * p->h.stride + p->h.first + (int64_t)t * p->h.step;
        if (at < 0 || at >= p->h.in)
            continue;
        *first = count++ ? *first : at;
    }
    return count;
}

/* The combined row, with its padding. */
static void emit_row(opennpu_network *net, const pool *p, uint64_t plane, uint32_t out)
{
    int64_t first = 0;
    uint32_t count = find_rows(p, out, &first), k = net->m.k;
    uint64_t row = p->row + 4 * (uint64_t)p->before, width = 4 * (uint64_t)p->w.in;
    for (uint32_t c = 0; c < p->w.in && count; c += k) {
        emit_taps(net, p, plane + (uint64_t)first * width + c * UINT64_C(4), width * (uint64_t)p->h.step, count);
        opennpu_lower_store(&net->m.e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, row + c * UINT64_C(4));
    }
    emit_padding(net, p, count ? row + width : row, (count ? 0 : p->w.in) + p->after);
}

/* Each `stride`-th word. */
static void emit_picks(opennpu_network *net, const pool *p, uint64_t out)
{
    opennpu_lower_emitter *e = &net->m.e;
    for (uint32_t i = 0; i < p->w.out; i += 4) {
        unsigned n = p->w.out - i < 4 ? p->w.out - i : 4;
        for (unsigned j = 0; j < n; j++)
            opennpu_lower_access_lane0(e, OPENNPU_LD_W, j, OPENNPU_LOWER_VR_W,
                                       p->picked + (uint64_t)(i + j) * p->w.stride * 4);
        for (unsigned j = 0; j < n; j++)
            opennpu_lower_access_lane0(e, OPENNPU_ST_W, j, OPENNPU_LOWER_VR_X, out + (i + j) * UINT64_C(4));
    }
}

static void emit_windows(opennpu_network *net, const pool *p, uint64_t out)
{
    uint32_t columns = (p->w.out - 1) * p->w.stride + 1;
    bool picks = p->w.stride > 1;
    for (uint32_t c = 0; c < columns; c += net->m.k) {
        emit_taps(net, p, p->row + c * UINT64_C(4), 4 * (uint64_t)p->w.step, p->w.taps);
        opennpu_lower_store(&net->m.e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, (picks ? p->picked : out) + c * UINT64_C(4));
    }
    if (picks)
        emit_picks(net, p, out);
}

static void emit_factors(opennpu_network *net, uint64_t factors, uint64_t out, uint32_t count)
{
    opennpu_lower_emitter *e = &net->m.e;
    for (uint32_t c = 0; c < count; c += net->m.k) {
        opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, out + c * UINT64_C(4));
        opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_W, factors + c * UINT64_C(4));
        opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 1);
        opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, out + c * UINT64_C(4));
    }
}

void opennpu_net_emit_pool(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    pool p = pool_of(net, node);
    uint64_t x = opennpu_net_at(net, n->inputs[0]), out = opennpu_net_at(net, n->output);
    if (is_whole(&p)) {
        emit_whole(net, &p, x, out);
        return;
    }
    emit_padding(net, &p, p.row, p.before);
    for (uint64_t i = 0; i < p.planes; i++, x += 4 * (uint64_t)p.h.in * p.w.in)
        for (uint32_t r = 0; r < p.h.out; r++, out += 4 * (uint64_t)p.w.out) {
            uint32_t rows = count_taps(&p.h, r, p.counts_padding, pad_end_of(net, n, 0));
            opennpu_lower_run_full_segment(&net->m.e);
            emit_row(net, &p, x, r);
            emit_windows(net, &p, out);
            if (p.mean && rows)
                emit_factors(net, p.factors + (uint64_t)(rows - 1) * p.w.out * 4, out, p.w.out);
        }
}
