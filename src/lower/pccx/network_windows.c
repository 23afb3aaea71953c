/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers convolutions and pooling without patches: the pixels of a tile are copied once, with their padding, so that
 * the pixels that one tap of the kernel multiplies are consecutive rows of a GEMM. All taps accumulate onto the same
 * output rows. Pixels at the ends of image rows compute results that are not used.
 *
 * With a stride the tile consists of phases: images of every stride-th pixel. The right padding of an image row is the
 * left padding of the next one where both are zeros. */
#include <stdio.h>

#include "lower/pccx/network_state.h"

enum { PHASES_MAX = 1024, Y = 0, X = 1 };

typedef struct tiling {
    const tv_graph_node *n;
    const pccx_net_node *own;
    const pccx_net_window *g;
    uint32_t node;
    bool edge;                /* padding repeats the nearest pixel; otherwise zeros */
    uint32_t in_words;        /* of a pixel in the tile */
    uint32_t out_words;       /* of an output pixel in the tile */
    uint32_t width, overhang; /* pixels of an image row of a phase; pixels of the last one past it */
    uint32_t reach[2];        /* pixels that the kernel reaches in a phase, without the first one */
    uint32_t phases[2];       /* phases that the kernel uses */
    uint32_t rows;            /* output rows of a tile */
    uint32_t at[PHASES_MAX];  /* addresses of the phases */
} tiling;

static uint32_t tap_of(const tiling *t, unsigned axis, uint32_t k) { return k * t->g->dilation[axis]; }

/* First pixel of an image row of a phase that is no padding, and the one after the last. */
static uint32_t first_pixel(const pccx_net_window *g, uint32_t phase)
{
    return g->pad[X] > phase ? (g->pad[X] - phase + g->stride[X] - 1) / g->stride[X] : 0;
}
static uint32_t end_pixel(const tiling *t, uint32_t phase)
{
    uint32_t past = t->g->in[X] + t->g->pad[X];
    uint32_t end = past > phase ? (past - phase - 1) / t->g->stride[X] + 1 : 0;
    return end < t->width ? end : t->width;
}

static void measure(tiling *t)
{
    const pccx_net_window *g = t->g;
    uint32_t shared = UINT32_MAX;
    for (unsigned a = 0; a < 2; a++) {
        t->reach[a] = t->phases[a] = 0;
        for (uint32_t k = 0; k < g->kernel[a]; k++) {
            uint32_t tap = tap_of(t, a, k), reach = tap / g->stride[a], phase = tap % g->stride[a];
            t->reach[a] = reach > t->reach[a] ? reach : t->reach[a];
            t->phases[a] = phase + 1 > t->phases[a] ? phase + 1 : t->phases[a];
        }
    }
    for (uint32_t p = 0; p < t->phases[X]; p++)
        shared = first_pixel(g, p) < shared ? first_pixel(g, p) : shared;
    uint32_t whole = g->out[X] + t->reach[X], image = (g->in[X] + g->pad[X] + g->stride[X] - 1) / g->stride[X];
    t->width = whole;
    if (!t->edge) {
        t->width = whole - (shared < t->reach[X] ? shared : t->reach[X]);
        t->width = t->width < image ? image : t->width;
        t->width = t->width > whole ? whole : t->width;
    }
    t->overhang = whole - t->width;
}

static uint32_t phase_rows(const tiling *t, uint32_t rows) { return rows + t->reach[Y]; }

static uint64_t phase_words(const tiling *t, uint32_t rows)
{
    return ((uint64_t)phase_rows(t, rows) * t->width + t->overhang) * t->in_words;
}

/* Rows of the product of a tile. */
static uint64_t product_rows(const tiling *t, uint32_t rows) { return (uint64_t)(rows - 1) * t->width + t->g->out[X]; }

static void fill_zeros(pccx_network *w, uint32_t to, uint64_t words)
{
    enum { MAX = PCCX_NET_ZEROS / PCCX_LOWER_LANES };
    for (uint64_t i = 0; i < words; i += MAX)
        pccx_net_move(w, to + (uint32_t)i, w->zeros, words - i < MAX ? words - i : MAX);
}

/* ---- Arranging the input ---- */

/* The part of the input that a tile reads. */
typedef struct source {
    uint32_t value, image, first; /* first image row of the staged ones */
    uint32_t staged;              /* address of these, or PCCX_LOWER_NO_BUFFER: read one by one */
    uint32_t offset;              /* of the columns that are copied, in words */
} source;

static uint32_t clamp_row(int64_t y, uint32_t extent)
{
    return y < 0 ? 0 : y >= (int64_t)extent ? extent - 1 : (uint32_t)y;
}

/* Copies the words of `count` pixels of an image row. */
static void copy_pixels(pccx_network *w, const tiling *t, const source *s, uint32_t to, uint32_t y, uint32_t x,
                        uint32_t count)
{
    uint32_t words = pccx_net_value_at(w, s->value)->words;
    uint64_t at = ((uint64_t)(s->image * t->g->in[Y] + y) * t->g->in[X] + x) * words + s->offset;
    uint64_t length = (uint64_t)(count - 1) * words + t->in_words;
    if (s->staged == PCCX_LOWER_NO_BUFFER)
        pccx_net_read_words(w, to, s->value, at, length);
    else
        pccx_net_move(w, to, s->staged + ((y - s->first) * t->g->in[X] + x) * words + s->offset, length);
}

/* Image row `y` as row `row` of a phase. */
static void arrange_row(pccx_network *w, const tiling *t, const source *s, uint32_t phase, uint32_t to, uint32_t y)
{
    uint32_t first = first_pixel(t->g, phase), end = end_pixel(t, phase), stride = t->g->stride[X];
    bool whole = stride == 1 && t->in_words == pccx_net_value_at(w, s->value)->words;
    first = first < end ? first : end;
    if (whole && end > first)
        copy_pixels(w, t, s, to + first * t->in_words, y, first + phase - t->g->pad[X], end - first);
    for (uint32_t x = 0; x < t->width; x++) {
        bool inside = x >= first && x < end;
        if ((inside && !whole) || (!inside && t->edge))
            copy_pixels(w, t, s, to + x * t->in_words, y,
                        clamp_row((int64_t)x * stride + phase - t->g->pad[X], t->g->in[X]), 1);
    }
}

/* Zeros between the pixels of two image rows of a phase, or around them. */
static void pad_row(pccx_network *w, const tiling *t, uint32_t phase, uint32_t to, bool inside)
{
    uint32_t first = first_pixel(t->g, phase), end = end_pixel(t, phase);
    if (t->edge)
        return;
    first = first < end ? first : end;
    if (!inside)
        first = end = t->width;
    fill_zeros(w, to, (uint64_t)first * t->in_words);
    fill_zeros(w, to + end * t->in_words, (uint64_t)(t->width - end) * t->in_words);
}

/* Loads the image rows of a tile where pixels are copied one by one. */
static void stage_rows(pccx_network *w, const tiling *t, source *s, uint32_t first, uint32_t rows)
{
    const pccx_net_value *v = pccx_net_value_at(w, s->value);
    bool by_row = t->g->stride[X] == 1 && t->in_words == v->words && !(t->edge && t->width > t->g->in[X]);
    s->staged = PCCX_LOWER_NO_BUFFER;
    if (v->l2 != PCCX_LOWER_NO_BUFFER || by_row)
        return;
    int64_t low = (int64_t)first * t->g->stride[Y] - t->g->pad[Y],
            high = (int64_t)(first + phase_rows(t, rows)) * t->g->stride[Y] - t->g->pad[Y] - 1;
    s->first = clamp_row(low, t->g->in[Y]);
    uint32_t count = clamp_row(high, t->g->in[Y]) - s->first + 1;
    s->staged =
        pccx_net_fetch(w, s->value, s->image * t->g->in[Y] * t->g->in[X] + s->first * t->g->in[X], count * t->g->in[X]);
}

/* Copies the input of output rows [first, first + rows) of an image. */
static void arrange(pccx_network *w, tiling *t, uint32_t image, uint32_t first, uint32_t rows, uint32_t offset)
{
    source s = {.value = t->n->inputs[0], .image = image, .offset = offset};
    stage_rows(w, t, &s, first, rows);
    for (uint32_t p = 0; p < t->phases[Y] * t->phases[X]; p++) {
        uint32_t at = t->at[p] = pccx_net_scratch(w, phase_words(t, rows));
        for (uint32_t r = 0; r < phase_rows(t, rows); r++, at += t->width * t->in_words) {
            int64_t y = (int64_t)(first + r) * t->g->stride[Y] + p / t->phases[X] - t->g->pad[Y];
            bool inside = t->edge || (y >= 0 && y < (int64_t)t->g->in[Y]);
            if (inside)
                arrange_row(w, t, &s, p % t->phases[X], at, clamp_row(y, t->g->in[Y]));
            pad_row(w, t, p % t->phases[X], at, inside);
        }
        fill_zeros(w, at, (uint64_t)t->overhang * t->in_words);
    }
}

/* Address of the pixels of a tap. */
static uint32_t tap_addr(const tiling *t, uint32_t ky, uint32_t kx)
{
    uint32_t y = tap_of(t, Y, ky), x = tap_of(t, X, kx), sy = t->g->stride[Y], sx = t->g->stride[X];
    return t->at[y % sy * t->phases[X] + x % sx] + (y / sy * t->width + x / sx) * t->in_words;
}

/* Output rows of a tile at `addr` from or to a value, some of its columns. */
static void copy_rows(pccx_network *w, const tiling *t, uint32_t value, uint32_t image, uint32_t first, uint32_t rows,
                      uint32_t offset, uint32_t addr, bool write)
{
    const pccx_net_value *v = pccx_net_value_at(w, value);
    uint32_t width = t->g->out[X];
    bool whole = t->out_words == v->words, all = whole && width == t->width;
    for (uint32_t r = 0; r < (all ? 1 : rows); r++)
        for (uint32_t x = 0; x < (whole ? 1 : width); x++) {
            uint64_t at = ((uint64_t)(image * t->g->out[Y] + first + r) * width + x) * v->words + offset,
                     count = (uint64_t)t->out_words * (all     ? rows * width
                                                       : whole ? width
                                                               : 1);
            uint32_t here = addr + (r * t->width + x) * t->out_words;
            if (write)
                pccx_net_write_words(w, value, at, here, count);
            else
                pccx_net_read_words(w, here, value, at, count);
        }
}

/* ---- Tiles ---- */

static uint64_t tile_words(const pccx_network *w, const tiling *t, uint32_t rows)
{
    const pccx_net_value *in = pccx_net_value_at(w, t->n->inputs[0]);
    uint64_t words = t->phases[Y] * t->phases[X] * phase_words(t, rows);
    uint64_t staged = (uint64_t)(phase_rows(t, rows) * t->g->stride[Y]) * t->g->in[X] * in->words;
    words += in->l2 == PCCX_LOWER_NO_BUFFER ? staged : 0;
    return words + product_rows(t, rows) * t->out_words;
}

static double estimate(const pccx_network *w, const tiling *t, uint32_t rows, double *costs)
{
    const pccx_net_window *g = t->g;
    const pccx_lower_matrix *m = &t->own->matrix;
    const pccx_net_value *in = pccx_net_value_at(w, t->n->inputs[0]), *out = pccx_net_value_at(w, t->n->output);
    double tiles = (double)g->images * ((g->out[Y] + rows - 1) / rows), sets = t->own->sets, count = sets * tiles,
           height = phase_rows(t, rows), copies = t->phases[Y] * t->phases[X] * height,
           line = (double)g->out[X] * t->in_words, m_rows = (double)product_rows(t, rows);
    double steps = (double)((t->own->k + w->tile_k - 1) / w->tile_k) * (double)((m->rows + w->tile_n - 1) / w->tile_n);
    bool by_row = g->stride[X] == 1 && sets == 1;
    double setup = in->l2 == PCCX_LOWER_NO_BUFFER && by_row ? w->copy_setup : 8,
           rate = in->l2 == PCCX_LOWER_NO_BUFFER && by_row ? PCCX_LOWER_WORD_BYTES / w->copy_rate : 1;
    costs[0] = count * g->kernel[Y] * g->kernel[X] * m->planes *
               (w->gemm_setup + steps * (m_rows > w->min_rows ? m_rows : w->min_rows));
    costs[1] = tiles * (double)m->bytes * g->kernel[Y] * g->kernel[X] * sets / w->stream_rate;
    costs[2] = count * copies * (by_row ? setup + line * rate : (8.0 + t->in_words) * g->out[X]);
    if (in->l2 == PCCX_LOWER_NO_BUFFER && !by_row)
        costs[2] += tiles * height * g->stride[Y] * g->in[X] * in->words * PCCX_LOWER_WORD_BYTES / w->copy_rate;
    double pixels = (double)g->images * g->out[Y] * g->out[X];
    costs[2] += out->l2 == PCCX_LOWER_NO_BUFFER
                    ? pixels * out->words * PCCX_LOWER_WORD_BYTES / w->copy_rate + pixels / g->out[X] * w->copy_setup
                    : pixels / g->out[X] * (8 + (double)g->out[X] * out->words);
    double max = costs[0] > costs[1] ? costs[0] : costs[1];
    return (max > costs[2] ? max : costs[2]) + (max < costs[2] ? max + costs[2] : 2 * costs[2]) / count;
}

/* Chooses the output rows of a tile. */
static bool choose_rows(pccx_network *w, tiling *t, char *plan)
{
    double best = 0;
    for (uint32_t tiles = 1; tiles <= t->g->out[Y]; tiles++) {
        uint32_t rows = (t->g->out[Y] + tiles - 1) / tiles;
        double costs[3], cycles = estimate(w, t, rows, costs);
        bool one = tiles == 1 && t->g->images == 1 && t->own->sets <= 1;
        if (tile_words(w, t, rows) > pccx_net_scratch_size(w, t->node, !one) || product_rows(t, rows) > UINT16_MAX ||
            (best > 0 && cycles >= best))
            continue;
        best = cycles;
        t->rows = rows;
        snprintf(plan, PCCX_NET_PLAN_MAX,
                 "%u of %u rows a tile, image rows of %u; estimated GEMM %.0f, weights %.0f, copies %.0f cycles", rows,
                 t->g->out[Y], t->width, costs[0], costs[1], costs[2]);
    }
    return best > 0;
}

typedef void compute_tile(pccx_network *w, tiling *t, uint32_t image, uint32_t first, uint32_t rows, uint32_t set);

static tv_status compute_tiles(pccx_network *w, tiling *t, uint32_t sets, compute_tile *compute,
                               const tv_diag_sink *sink)
{
    measure(t);
    if (t->phases[Y] * t->phases[X] > PHASES_MAX || !choose_rows(w, t, w->nodes[t->node].plan))
        return tv_backend_reject(w->graph, t->n, "pccx", "L2 for one row of it", sink);
    bool one = t->rows == t->g->out[Y] && t->g->images == 1 && sets == 1;
    uint32_t tile = 0;
    for (uint32_t image = 0; image < t->g->images; image++)
        for (uint32_t first = 0; first < t->g->out[Y]; first += t->rows)
            for (uint32_t set = 0; set < sets; set++) {
                pccx_net_begin_tile(w, t->node, tile++, one ? 1 : 2);
                compute(w, t, image, first, t->g->out[Y] - first < t->rows ? t->g->out[Y] - first : t->rows, set);
            }
    return TV_OK;
}

/* ---- Convolutions ---- */

static void conv_tile(pccx_network *w, tiling *t, uint32_t image, uint32_t first, uint32_t rows, uint32_t set)
{
    const pccx_net_window *g = t->g;
    bool is_conv = t->n->op == TV_OP_CONV;
    uint32_t residual = is_conv ? t->n->inputs[3] : TV_NO_VALUE, m = (uint32_t)product_rows(t, rows),
             offset = set * t->out_words, taps = g->kernel[Y] * g->kernel[X];
    arrange(w, t, image, first, rows, set * t->in_words);
    uint32_t out = pccx_net_scratch(w, (uint64_t)m * t->out_words);
    bool accm = residual != TV_NO_VALUE;
    if (accm) {
        if (t->width != g->out[X]) /* pixels that are not used are numbers, too */
            fill_zeros(w, out, (uint64_t)m * t->out_words);
        copy_rows(w, t, residual, image, first, rows, offset, out, false);
    }
    if (t->own->bias)
        pccx_net_add_row(w, out, t->own->bias + (uint64_t)offset * PCCX_LOWER_WORD_BYTES, m, t->own->matrix.rows, false,
                         accm);
    accm = accm || t->own->bias;
    for (uint32_t i = 0; i < taps; i++) {
        pccx_net_product p = {&t->own->matrix, is_conv ? set * taps + i : 0, 0, t->own->matrix.rows, 0, t->own->k, m};
        pccx_net_multiply(w, &p, out, tap_addr(t, i / g->kernel[X], i % g->kernel[X]), accm || i);
    }
    if (is_conv)
        pccx_net_activate(w, &t->n->attrs, t->n->output, out, m * t->out_words * PCCX_LOWER_LANES);
    copy_rows(w, t, t->n->output, image, first, rows, offset, out, true);
}

tv_status pccx_net_conv(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const pccx_net_node *own = &w->nodes[node];
    const pccx_net_window *g = &own->window;
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    if (own->sets == 1 && n->op == TV_OP_CONV && g->kernel[Y] * g->kernel[X] * g->stride[Y] * g->stride[X] == 1 &&
        g->pad[Y] + g->pad[X] == 0 && g->out[Y] == g->in[Y] && g->out[X] == g->in[X])
        return pccx_net_linear(w, node, sink);
    tiling t = {.n = n,
                .own = own,
                .g = g,
                .node = node,
                .in_words = pccx_lower_l2_size(own->k),
                .out_words = pccx_lower_l2_size(own->matrix.rows)};
    return compute_tiles(w, &t, own->sets, conv_tile, sink);
}

/* ---- Pooling ---- */

static void max_tile(pccx_network *w, tiling *t, uint32_t image, uint32_t first, uint32_t rows, uint32_t set)
{
    uint64_t words = product_rows(t, rows) * t->out_words;
    (void)set;
    arrange(w, t, image, first, rows, 0);
    uint32_t out = pccx_net_scratch(w, words);
    pccx_net_move(w, out, tap_addr(t, 0, 0), words);
    for (uint32_t i = 1; i < t->g->kernel[Y] * t->g->kernel[X]; i++)
        pccx_net_max(w, out, tap_addr(t, i / t->g->kernel[X], i % t->g->kernel[X]), (uint32_t)words, false,
                     pccx_net_value_at(w, t->n->output)->scaled);
    copy_rows(w, t, t->n->output, image, first, rows, 0, out, true);
}

tv_status pccx_net_max_pool(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    uint32_t words = pccx_net_value_at(w, n->output)->words;
    tiling t = {.n = n,
                .own = &w->nodes[node],
                .g = &w->nodes[node].window,
                .node = node,
                .edge = true,
                .in_words = words,
                .out_words = words};
    return compute_tiles(w, &t, 1, max_tile, sink);
}

/* The mean of a whole plane: halves are added until one pixel is left. */
static tv_status global_average(pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_window *g = &w->nodes[node].window;
    const pccx_net_value *v = pccx_net_value_at(w, n->inputs[0]);
    uint32_t one = pccx_lower_common_scalar(&w->l, PCCX_COMMON_ONE), pixels = g->in[Y] * g->in[X];
    uint32_t factor = pccx_net_scalar(w, 1 / (float)pixels);
    for (uint32_t image = 0; image < g->images; image++) {
        pccx_net_begin_tile(w, node, image, g->images);
        uint32_t sum = pccx_net_scratch(w, (uint64_t)pixels * v->words), out = pccx_net_locate(w, n->output, image, 1);
        pccx_net_read_words(w, sum, n->inputs[0], (uint64_t)image * pixels * v->words, (uint64_t)pixels * v->words);
        for (uint32_t rest = pixels; rest > 1; rest = (rest + 1) / 2)
            pccx_lower_scale(&w->l, sum, sum + (rest + 1) / 2 * v->words, one, rest / 2 * v->words * PCCX_LOWER_LANES,
                             PCCX_LOWER_ACCM);
        pccx_lower_scale(&w->l, out, sum, factor, v->words * PCCX_LOWER_LANES, 0);
        pccx_net_put(w, n->output, image, 1, out);
    }
    return TV_OK;
}

tv_status pccx_net_average_pool(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const pccx_net_window *g = &w->nodes[node].window;
    bool whole = g->kernel[Y] == g->in[Y] && g->kernel[X] == g->in[X] && g->pad[Y] + g->pad[X] == 0;
    return whole && g->out[Y] * g->out[X] == 1 ? global_average(w, node) : pccx_net_conv(w, node, sink);
}

bool pccx_net_window_of(const pccx_network *w, const tv_graph_node *n, pccx_net_window *out)
{
    const tv_graph_shape *in = &tv_graph_value_at(w->graph, n->inputs[0])->shape,
                         *to = &tv_graph_value_at(w->graph, n->output)->shape;
    uint32_t axes = in->rank - 2;
    *out = (pccx_net_window){.images = (uint32_t)in->dims[0], .channels = (uint32_t)in->dims[1]};
    if (in->rank < 3 || axes > 2 || !n->attrs.lists)
        return false;
    for (unsigned a = 0; a < 2; a++) {
        bool given = a + axes >= 2;
        uint32_t i = given ? a + axes - 2 : 0;
        out->in[a] = given ? (uint32_t)in->dims[2 + i] : 1;
        out->out[a] = given ? (uint32_t)to->dims[2 + i] : 1;
        out->kernel[a] = given ? (uint32_t)n->attrs.lists->kernel[i] : 1;
        out->stride[a] = given ? (uint32_t)n->attrs.lists->stride[i] : 1;
        out->dilation[a] = given ? (uint32_t)n->attrs.lists->dilation[i] : 1;
        out->pad[a] = given ? (uint32_t)n->attrs.lists->pad_begin[i] : 0;
    }
    return true;
}
