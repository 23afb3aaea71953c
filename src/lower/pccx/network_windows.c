/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of images: how they are arranged in L2, and how large they are (tiling.h). */
#include <stdio.h>
#include <string.h>

#include "lower/pccx/tiling.h"

enum { Y = PCCX_NET_Y, X = PCCX_NET_X };

static uint32_t tap_of(const pccx_net_tiling *t, unsigned axis, uint32_t k) { return k * t->g->dilation[axis]; }

/* First pixel of an image row of a phase that is no padding, and the one after the last. */
static uint32_t first_pixel(const pccx_net_window *g, uint32_t phase)
{
    return g->pad[X] > phase ? (g->pad[X] - phase + g->stride[X] - 1) / g->stride[X] : 0;
}
static uint32_t end_pixel(const pccx_net_tiling *t, uint32_t phase)
{
    uint32_t past = t->g->in[X] + t->g->pad[X], all = (t->width + (t->wraps ? t->overhang : 0)) * t->group;
    uint32_t end = past > phase ? (past - phase - 1) / t->g->stride[X] + 1 : 0;
    return end < all ? end : all;
}

void pccx_net_measure(pccx_net_tiling *t)
{
    const pccx_net_window *g = t->g;
    uint32_t shared = UINT32_MAX, pixels = g->stride[X] * t->group;
    for (unsigned a = 0; a < 2; a++) {
        t->reach[a] = t->phases[a] = 0;
        for (uint32_t k = 0; k < g->kernel[a]; k++) {
            uint32_t tap = tap_of(t, a, k), reach = tap / g->stride[a], phase = tap % g->stride[a];
            t->reach[a] = reach > t->reach[a] ? reach : t->reach[a];
            t->phases[a] = phase + 1 > t->phases[a] ? phase + 1 : t->phases[a];
        }
    }
    for (uint32_t p = 0; p < t->phases[X]; p++)
        shared = first_pixel(g, p) / t->group < shared ? first_pixel(g, p) / t->group : shared;
    uint32_t whole = g->out[X] + t->reach[X], image = (g->in[X] + g->pad[X] + pixels - 1) / pixels;
    t->width = t->wraps ? g->out[X] : whole;
    if (!t->edge && !t->wraps) {
        t->width = whole - (shared < t->reach[X] ? shared : t->reach[X]);
        t->width = t->width < image ? image : t->width;
        t->width = t->width > whole ? whole : t->width;
    }
    t->overhang = whole - t->width;
}

/* Image rows of a tile in a phase along Y; 0: no tap is in it. */
static uint32_t phase_rows(const pccx_net_tiling *t, uint32_t rows, uint32_t phase)
{
    uint32_t count = 0, stride = t->g->stride[Y];
    for (uint32_t k = 0; k < t->g->kernel[Y]; k++)
        if (tap_of(t, Y, k) % stride == phase && rows + tap_of(t, Y, k) / stride > count)
            count = rows + tap_of(t, Y, k) / stride;
    return count;
}

/* Of all phases along Y. */
static uint32_t all_rows(const pccx_net_tiling *t, uint32_t rows)
{
    uint32_t sum = 0;
    for (uint32_t p = 0; p < t->phases[Y]; p++)
        sum += phase_rows(t, rows, p);
    return sum;
}

uint64_t pccx_net_phase_words(const pccx_net_tiling *t, uint32_t rows, uint32_t phase)
{
    return ((uint64_t)phase_rows(t, rows, phase) * t->width + t->overhang) * t->in_words;
}

uint64_t pccx_net_product_rows(const pccx_net_tiling *t, uint32_t rows)
{
    return (uint64_t)(rows - 1) * t->width + t->g->out[X];
}

void pccx_net_fill_zeros(pccx_network *w, uint32_t to, uint64_t words)
{
    enum { MAX = PCCX_NET_ZEROS / PCCX_LOWER_LANES };
    for (uint64_t i = 0; i < words; i += MAX)
        pccx_net_move(w, to + (uint32_t)i, w->zeros, words - i < MAX ? words - i : MAX);
}

/* ---- Arranging the input ---- */

/* What a tile reads: columns of an image from word `offset` on. */
typedef struct source {
    uint32_t image, offset;
} source;

static uint32_t clamp_row(int64_t y, uint32_t extent)
{
    return y < 0 ? 0 : y >= (int64_t)extent ? extent - 1 : (uint32_t)y;
}

static uint32_t pixel_words(const pccx_net_tiling *t) { return t->in_words / t->group; }

/* Whether image rows are copied whole. */
static bool copies_rows(const pccx_network *w, const pccx_net_tiling *t)
{
    return t->g->stride[X] == 1 && pixel_words(t) == pccx_net_value_at(w, t->value)->words;
}

/* Copies the words of `count` pixels of an image row. */
static void copy_pixels(pccx_network *w, const pccx_net_tiling *t, const source *s, uint32_t to, uint32_t y, uint32_t x,
                        uint32_t count)
{
    uint32_t words = pccx_net_value_at(w, t->value)->words;
    uint64_t at = ((uint64_t)(s->image * t->g->in[Y] + y) * t->g->in[X] + x) * words + s->offset;
    uint64_t length = (uint64_t)(count - 1) * words + pixel_words(t);
    if (t->staged == PCCX_LOWER_NO_BUFFER)
        pccx_net_read_words(w, to, t->value, at, length);
    else
        pccx_net_move(w, to, t->staged + ((y - t->first_staged) * t->g->in[X] + x) * words + s->offset, length);
}

/* Image row `y` as row `row` of a phase. */
static void arrange_row(pccx_network *w, const pccx_net_tiling *t, const source *s, uint32_t phase, uint32_t to,
                        uint32_t y)
{
    uint32_t first = first_pixel(t->g, phase), end = end_pixel(t, phase), stride = t->g->stride[X];
    bool whole = copies_rows(w, t);
    first = first < end ? first : end;
    if (whole && end > first)
        copy_pixels(w, t, s, to + first * pixel_words(t), y, first + phase - t->g->pad[X], end - first);
    for (uint32_t x = 0; x < t->width * t->group; x++) {
        bool inside = x >= first && x < end;
        if ((inside && !whole) || (!inside && t->edge))
            copy_pixels(w, t, s, to + x * pixel_words(t), y,
                        clamp_row((int64_t)x * stride + phase - t->g->pad[X], t->g->in[X]), 1);
    }
}

/* Where the pixels of an image row begin: rows without padding follow the group that the first tap reads. */
static uint32_t row_start(const pccx_net_tiling *t) { return t->wraps ? t->overhang * t->in_words : 0; }

/* Zeros between the pixels of two image rows of a phase, or around them. */
static void pad_row(pccx_network *w, const pccx_net_tiling *t, uint32_t phase, uint32_t to, bool inside)
{
    uint32_t first = first_pixel(t->g, phase), end = end_pixel(t, phase), all = t->width * t->group;
    if (t->edge)
        return;
    if (t->wraps) {
        pccx_net_fill_zeros(w, to + row_start(t), inside ? 0 : (uint64_t)t->width * t->in_words);
        return;
    }
    first = first < end ? first : end;
    if (!inside)
        first = end = all;
    pccx_net_fill_zeros(w, to, (uint64_t)first * pixel_words(t));
    pccx_net_fill_zeros(w, to + end * pixel_words(t), (uint64_t)(all - end) * pixel_words(t));
}

/* Loads the image rows of a tile where pixels are copied one by one. */
static void stage_rows(pccx_network *w, pccx_net_tiling *t, uint32_t image, uint32_t first, uint32_t rows)
{
    const pccx_net_value *v = pccx_net_value_at(w, t->value);
    bool by_row = copies_rows(w, t) && !(t->edge && t->width > t->g->in[X]);
    t->staged = PCCX_LOWER_NO_BUFFER;
    if (v->l2 != PCCX_LOWER_NO_BUFFER || by_row)
        return;
    int64_t low = (int64_t)first * t->g->stride[Y] - t->g->pad[Y],
            high = (int64_t)(first + rows + t->reach[Y]) * t->g->stride[Y] - t->g->pad[Y] - 1;
    t->first_staged = clamp_row(low, t->g->in[Y]);
    uint32_t count = clamp_row(high, t->g->in[Y]) - t->first_staged + 1;
    t->staged = pccx_net_fetch(w, t->value, (image * t->g->in[Y] + t->first_staged) * t->g->in[X], count * t->g->in[X]);
}

/* Whether rows that the tile before has, too, are moved from there. */
static bool keeps_rows(const pccx_network *w, const pccx_net_tiling *t)
{
    bool moved = pccx_net_value_at(w, t->value)->l2 != PCCX_LOWER_NO_BUFFER && copies_rows(w, t);
    return !t->edge && !moved && t->own->sets == 1 && t->slices == 1;
}

/* Address of row `row` of a phase in the tile before, or PCCX_LOWER_NO_BUFFER. */
static uint32_t row_before(const pccx_network *w, const pccx_net_tiling *t, uint32_t p, uint32_t row)
{
    uint32_t then = row + t->rows_before;
    if (t->rows_before == 0 || !keeps_rows(w, t) || then >= phase_rows(t, t->rows_before, p / t->phases[X]))
        return PCCX_LOWER_NO_BUFFER;
    return t->before[p] + then * t->width * t->in_words;
}

void pccx_net_arrange(pccx_network *w, pccx_net_tiling *t, uint32_t image, uint32_t first, uint32_t rows,
                      uint32_t offset)
{
    source s = {.image = image, .offset = offset};
    uint32_t line = t->width * t->in_words, overhang = t->overhang * t->in_words;
    for (uint32_t p = 0; p < t->phases[Y] * t->phases[X]; p++) {
        uint32_t phase = p / t->phases[X], at = t->at[p] = pccx_net_scratch(w, pccx_net_phase_words(t, rows, phase));
        if (t->wraps)
            pccx_net_fill_zeros(w, at, overhang);
        for (uint32_t r = 0; r < phase_rows(t, rows, phase); r++, at += line) {
            int64_t y = (int64_t)(first + r) * t->g->stride[Y] + phase - t->g->pad[Y];
            bool inside = t->edge || (y >= 0 && y < (int64_t)t->g->in[Y]);
            uint32_t before = row_before(w, t, p, r);
            if (inside && before != PCCX_LOWER_NO_BUFFER) {
                pccx_net_move(w, at + row_start(t), before + row_start(t), line);
                continue;
            }
            if (inside)
                arrange_row(w, t, &s, p % t->phases[X], at, clamp_row(y, t->g->in[Y]));
            pad_row(w, t, p % t->phases[X], at, inside);
        }
        if (!t->wraps)
            pccx_net_fill_zeros(w, at, overhang);
    }
}

uint32_t pccx_net_tap_addr(const pccx_net_tiling *t, uint32_t ky, uint32_t kx)
{
    uint32_t y = tap_of(t, Y, ky), x = tap_of(t, X, kx), sy = t->g->stride[Y], sx = t->g->stride[X];
    return t->at[y % sy * t->phases[X] + x % sx] + (y / sy * t->width + x / sx) * t->in_words;
}

/* Pixels are copied one by one where the tile has some of their columns only. */
void pccx_net_copy_rows(pccx_network *w, const pccx_net_tiling *t, uint32_t value, uint32_t image, uint32_t first,
                        uint32_t rows, uint32_t offset, uint32_t addr, bool write)
{
    const pccx_net_value *v = pccx_net_value_at(w, value);
    const pccx_net_window *real = &t->own->window;
    uint32_t width = real->out[X], words = t->out_words / t->spread;
    bool whole = words == v->words, all = whole && width == t->width * t->spread && t->step == 1;
    for (uint32_t r = 0; r < (all ? 1 : rows); r++)
        for (uint32_t x = 0; x < (whole ? 1 : width) && (first + r) * t->step + t->phase < real->out[Y]; x++) {
            uint64_t y = (uint64_t)(first + r) * t->step + t->phase,
                     at = ((image * real->out[Y] + y) * width + x) * v->words + offset,
                     count = (uint64_t)words * (all     ? rows * width
                                                : whole ? width
                                                        : 1);
            uint32_t here = addr + r * t->width * t->out_words + x * words;
            if (write && t->results != PCCX_LOWER_NO_BUFFER)
                pccx_net_move(w, t->results + (r * width + x) * v->words + offset, here, count);
            else if (write)
                pccx_net_write_words(w, value, at, here, count);
            else
                pccx_net_read_words(w, here, value, at, count);
        }
}

/* ---- Tiles ---- */

/* Whether the columns of output rows are put together in L2 before they are stored. */
static bool collects_results(const pccx_network *w, const pccx_net_tiling *t)
{
    return t->own->sets > 1 && t->step == 1 && pccx_net_value_at(w, t->n->output)->l2 == PCCX_LOWER_NO_BUFFER;
}

bool pccx_net_writes_output(const pccx_network *w, const pccx_net_tiling *t)
{
    const pccx_net_value *v = pccx_net_value_at(w, t->n->output);
    return v->l2 != PCCX_LOWER_NO_BUFFER && t->own->sets == 1 && t->step == 1 && !t->edge &&
           t->out_words == v->words * t->spread && t->width * t->spread == t->own->window.out[X];
}

/* L2 words of the products of one set. */
static uint64_t set_words(const pccx_network *w, const pccx_net_tiling *t, uint32_t rows)
{
    uint64_t words = pccx_net_writes_output(w, t) ? 0 : pccx_net_product_rows(t, rows) * t->out_words * t->step;
    for (uint32_t p = 0; p < t->phases[Y]; p++)
        words += t->slices * t->phases[X] * pccx_net_phase_words(t, rows, p);
    return words;
}

static uint64_t tile_words(const pccx_network *w, const pccx_net_tiling *t, uint32_t rows)
{
    const pccx_net_value *in = pccx_net_value_at(w, t->value), *out = pccx_net_value_at(w, t->n->output);
    uint64_t words = (t->own->sets > 1 ? 2 : 1) * set_words(w, t, rows),
             staged = (uint64_t)(rows + t->reach[Y]) * t->g->stride[Y] * t->g->in[X] * in->words;
    words += in->l2 == PCCX_LOWER_NO_BUFFER && (t->edge || !copies_rows(w, t)) ? staged : 0;
    return words + (collects_results(w, t) ? (uint64_t)rows * t->own->window.out[X] * out->words : 0);
}

static double estimate(const pccx_network *w, const pccx_net_tiling *t, uint32_t rows, double *costs)
{
    enum { MOVE = 8 };
    const pccx_net_window *g = t->g, *real = &t->own->window;
    const pccx_net_value *in = pccx_net_value_at(w, t->value), *out = pccx_net_value_at(w, t->n->output);
    double tiles = (double)g->images * ((g->out[Y] + rows - 1) / rows), sets = t->own->sets, count = sets * tiles,
           height = all_rows(t, rows), copies = t->slices * t->phases[X] * height,
           line = (double)t->width * t->in_words, m_rows = (double)pccx_net_product_rows(t, rows),
           taps = (double)real->kernel[Y] * g->kernel[X] * w->l.planes * t->slices;
    uint32_t k = t->own->k * t->group, columns = t->out_words * PCCX_LOWER_LANES;
    double steps = (double)((k + w->tile_k - 1) / w->tile_k) * (double)((columns + w->tile_n - 1) / w->tile_n);
    bool loads = in->l2 == PCCX_LOWER_NO_BUFFER, by_row = copies_rows(w, t);
    double setup = loads && by_row ? w->copy_setup : MOVE,
           rate = loads && by_row ? PCCX_LOWER_WORD_BYTES / w->copy_rate : 1;
    costs[0] = count * taps * (w->gemm_setup + steps * (m_rows > w->min_rows ? m_rows : w->min_rows));
    costs[1] = count * taps * (double)columns * (2 + (double)k / 2) / w->stream_rate;
    costs[2] = count * copies * (by_row ? setup + line * rate : (MOVE + (double)t->in_words) * g->out[X]);
    if (loads && !by_row)
        costs[2] +=
            tiles * (rows + t->reach[Y]) * g->stride[Y] * g->in[X] * in->words * PCCX_LOWER_WORD_BYTES / w->copy_rate;
    if (loads && by_row && keeps_rows(w, t))
        costs[2] -= (count - g->images) * t->phases[X] * (height - (double)t->phases[Y] * rows) *
                    (setup + line * rate - MOVE - line);
    double pixels = (double)g->images * real->out[Y] * real->out[X], first = costs[2] / (t->phases[Y] * t->phases[X]);
    if (sets > 1)
        costs[2] += pixels * sets * (MOVE + (double)t->out_words / t->spread);
    else if (out->l2 != PCCX_LOWER_NO_BUFFER && !pccx_net_writes_output(w, t))
        costs[2] += pixels / real->out[X] * (MOVE + (double)real->out[X] * out->words);
    if (out->l2 == PCCX_LOWER_NO_BUFFER)
        costs[2] += pixels * out->words * PCCX_LOWER_WORD_BYTES / w->copy_rate + pixels / real->out[X] * w->copy_setup;
    double max = costs[0] > costs[1] ? costs[0] : costs[1];
    return (max > costs[2] ? max : costs[2]) +
           (max < costs[2] ? first + max / (t->phases[Y] * t->phases[X]) : costs[2] + first) / count;
}

double pccx_net_choose_rows(pccx_network *w, pccx_net_tiling *t, char *plan)
{
    double best = 0;
    if (t->phases[Y] * t->phases[X] > PCCX_NET_PHASES_MAX)
        return 0;
    for (uint32_t tiles = 1; tiles <= t->g->out[Y]; tiles++) {
        uint32_t rows = (t->g->out[Y] + tiles - 1) / tiles;
        double costs[3], cycles = estimate(w, t, rows, costs);
        bool one = tiles == 1 && t->g->images == 1 && t->own->sets <= 1;
        if (tile_words(w, t, rows) > pccx_net_scratch_size(w, t->node, !one) ||
            pccx_net_product_rows(t, rows) > UINT16_MAX || (best > 0 && cycles >= best))
            continue;
        best = cycles;
        t->rows = rows;
        snprintf(plan, PCCX_NET_PLAN_MAX,
                 "%u of %u rows a tile, image rows of %u groups of %u; estimated GEMM %.0f, weights %.0f, copies %.0f "
                 "cycles",
                 rows, t->g->out[Y], t->width, t->group, costs[0], costs[1], costs[2]);
    }
    return best;
}

/* The sets of a tile use two areas of scratch space in turn. */
static void compute_sets(pccx_network *w, pccx_net_tiling *t, uint32_t image, uint32_t first, uint32_t rows,
                         pccx_net_compute_tile *compute)
{
    const pccx_net_value *out = pccx_net_value_at(w, t->n->output);
    const pccx_net_window *real = &t->own->window;
    uint32_t sets = t->own->sets, words = rows * real->out[X] * out->words;
    stage_rows(w, t, image, first, rows);
    t->results = collects_results(w, t) ? pccx_net_scratch(w, words) : PCCX_LOWER_NO_BUFFER;
    uint32_t base = w->scratch_next;
    for (uint32_t set = 0; set < sets; set++) {
        w->scratch_next = base + set % 2 * (uint32_t)set_words(w, t, rows);
        compute(w, t, image, first, rows, set);
    }
    if (t->results != PCCX_LOWER_NO_BUFFER)
        pccx_net_write_words(w, t->n->output, (uint64_t)(image * real->out[Y] + first) * real->out[X] * out->words,
                             t->results, words);
}

tv_status pccx_net_compute_tiles(pccx_network *w, pccx_net_tiling *t, pccx_net_compute_tile *compute,
                                 const tv_diag_sink *sink)
{
    pccx_net_measure(t);
    if (!(pccx_net_choose_rows(w, t, w->nodes[t->node].plan) > 0))
        return tv_backend_reject(w->graph, t->n, "pccx", "L2 for one row of it", sink);
    bool one = t->rows == t->g->out[Y] && t->g->images == 1 && t->own->sets == 1;
    uint32_t tile = 0;
    for (uint32_t image = 0; image < t->g->images; image++)
        for (uint32_t first = 0; first < t->g->out[Y]; first += t->rows) {
            pccx_net_begin_tile(w, t->node, tile++, one ? 1 : 2);
            t->rows_before = first ? t->rows : 0;
            memcpy(t->before, t->at, sizeof t->before);
            compute_sets(w, t, image, first, t->g->out[Y] - first < t->rows ? t->g->out[Y] - first : t->rows, compute);
        }
    return TV_OK;
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
