/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers convolutions without patches (tiling.h).
 *
 * A transposed convolution is one of stride 1: a row of the product has as many output pixels as the stride, next to
 * each other as in the image; the taps of output rows depend on their phase. */
#include "lower/pccx/tiling.h"

enum { Y = PCCX_NET_Y, X = PCCX_NET_X };

/* ---- Forms ---- */

bool pccx_net_is_pointwise(const pccx_network *w, uint32_t node)
{
    const pccx_net_node *own = &w->nodes[node];
    const pccx_net_window *g = &own->window;
    return own->sets == 1 && pccx_net_graph_node(w, node)->op == TV_OP_CONV &&
           g->kernel[Y] * g->kernel[X] * g->stride[Y] * g->stride[X] == 1 && g->pad[Y] + g->pad[X] == 0 &&
           g->out[Y] == g->in[Y] && g->out[X] == g->in[X];
}

/* A value that has channels of the input. */
static uint32_t slice_of(const pccx_network *w, const pccx_net_node *own, const tv_graph_node *n, uint32_t slice)
{
    return own->slices ? pccx_net_graph_node(w, own->concat)->inputs[slice] : n->inputs[0];
}

static pccx_net_tiling tiling_of(const pccx_network *w, uint32_t node)
{
    const pccx_net_node *own = &w->nodes[node];
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    uint32_t columns = pccx_net_value_at(w, n->output)->columns / own->sets;
    return (pccx_net_tiling){.n = n,
                             .own = own,
                             .g = &own->form.g,
                             .node = node,
                             .value = slice_of(w, own, n, 0),
                             .slices = own->slices ? own->slices : 1,
                             .group = own->form.group,
                             .spread = own->form.spread,
                             .wraps = own->form.wraps,
                             .step = n->op == TV_OP_CONV_TRANSPOSE ? own->window.stride[Y] : 1,
                             .in_words = own->form.group * pccx_lower_l2_size(own->k),
                             .out_words = own->form.spread * pccx_lower_l2_size(columns)};
}

/* Rows of `count` output pixels. */
static pccx_net_form group_pixels(const pccx_net_window *real, uint32_t count)
{
    pccx_net_form form = {.g = *real, .group = count * real->stride[X], .spread = count};
    uint32_t last = (count - 1) * real->stride[X] + (real->kernel[X] - 1) * real->dilation[X];
    form.g.kernel[X] = last / form.group + 1;
    form.g.stride[X] = form.g.dilation[X] = 1;
    form.g.out[X] = (real->out[X] + count - 1) / count;
    return form;
}

/* The same with image rows that follow each other. False: their padding is not at the left only. */
static bool wrap_pixels(const pccx_net_window *real, uint32_t count, pccx_net_form *out)
{
    uint32_t group = count * real->stride[X],
             last = (count - 1) * real->stride[X] + (real->kernel[X] - 1) * real->dilation[X];
    pccx_net_form form = {.g = *real, .group = group, .spread = count, .wraps = true};
    if (real->pad[X] == 0 || real->pad[X] > group || last + group - real->pad[X] >= 2 * group ||
        real->in[X] % group != 0 || real->out[X] * real->stride[X] != real->in[X])
        return false;
    form.g.kernel[X] = 2;
    form.g.pad[X] = group;
    form.g.stride[X] = form.g.dilation[X] = 1;
    form.g.out[X] = real->out[X] / count;
    *out = form;
    return true;
}

/* Input pixels before and after the one at the same row, for all phases: of output pixel s x + p tap k reads the input
 * pixel x + (p + pad - k dilation) / s, if that is an integer. */
static pccx_net_form transpose_window(const pccx_net_window *real)
{
    pccx_net_form form = {.g = *real, .group = 1, .spread = real->stride[X]};
    for (unsigned a = 0; a < 2; a++) {
        uint32_t s = real->stride[a], reach = (real->kernel[a] - 1) * real->dilation[a],
                 before = reach > real->pad[a] ? (reach - real->pad[a]) / s : 0, after = (s - 1 + real->pad[a]) / s;
        form.g.kernel[a] = before + after + 1;
        form.g.pad[a] = before;
        form.g.stride[a] = form.g.dilation[a] = 1;
        form.g.out[a] = (real->out[a] + s - 1) / s;
    }
    return form;
}

/* The tap that `tap` rows of the tile and phase `phase` of the output stand for along an axis of a transposed
 * convolution. */
static uint32_t transposed_tap(const pccx_net_node *own, unsigned axis, uint32_t tap, uint32_t phase)
{
    const pccx_net_window *real = &own->window;
    int64_t at =
        (int64_t)phase + real->pad[axis] - (int64_t)real->stride[axis] * ((int64_t)tap - own->form.g.pad[axis]);
    bool inside = at >= 0 && at % real->dilation[axis] == 0 && at / real->dilation[axis] < real->kernel[axis];
    return inside ? (uint32_t)(at / real->dilation[axis]) : UINT32_MAX;
}

uint32_t pccx_net_tap_between(const pccx_net_node *own, bool transposed, uint32_t t, uint32_t in, uint32_t out)
{
    const pccx_net_window *real = &own->window;
    if (transposed)
        return transposed_tap(own, X, t, out);
    if (own->form.group == 1)
        return t;
    int64_t at = (int64_t)own->form.group * t + in - (int64_t)real->stride[X] * out - own->form.g.pad[X] + real->pad[X];
    bool inside = at >= 0 && at % real->dilation[X] == 0 && at / real->dilation[X] < real->kernel[X];
    return inside ? (uint32_t)(at / real->dilation[X]) : UINT32_MAX;
}

/* Estimated cycles of the current form; 0: it does not fit. */
static double estimate_form(pccx_network *w, uint32_t node)
{
    char plan[PCCX_NET_PLAN_MAX];
    const pccx_net_node *own = &w->nodes[node];
    pccx_net_tiling t = tiling_of(w, node);
    pccx_net_measure(&t);
    bool fits = own->k * own->form.group <= w->k_max && t.out_words <= PCCX_LOWER_BLOCK_ROWS / PCCX_LOWER_LANES;
    return fits ? pccx_net_choose_rows(w, &t, plan) : 0;
}

/* The current form becomes the best one if it is better. */
static void try_form(pccx_network *w, uint32_t node, pccx_net_form *best, double *fewest)
{
    double cycles = estimate_form(w, node);
    if (cycles > 0 && (*fewest == 0 || cycles < *fewest)) {
        *fewest = cycles;
        *best = w->nodes[node].form;
    }
}

/* The best form with the current sets. Only rows of all channels can have several pixels; zeros would replace a
 * residual. */
static double find_form(pccx_network *w, uint32_t node)
{
    enum { COUNT_MAX = 8 };
    pccx_net_node *own = &w->nodes[node];
    bool transposed = pccx_net_graph_node(w, node)->op == TV_OP_CONV_TRANSPOSE,
         groups = pccx_net_graph_node(w, node)->op == TV_OP_CONV && own->sets == 1 && !pccx_net_is_pointwise(w, node);
    pccx_net_form best =
        transposed ? transpose_window(&own->window) : (pccx_net_form){.g = own->window, .group = 1, .spread = 1};
    own->form = best;
    double fewest = estimate_form(w, node);
    for (uint32_t count = 1; groups && count <= COUNT_MAX && count <= own->window.out[X]; count *= 2) {
        own->form = group_pixels(&own->window, count);
        try_form(w, node, &best, &fewest);
        if (own->slices == 0 && pccx_net_graph_node(w, node)->inputs[3] == TV_NO_VALUE &&
            wrap_pixels(&own->window, count, &own->form))
            try_form(w, node, &best, &fewest);
    }
    own->form = best;
    return fewest;
}

/* Sets that are products of one matrix with groups on its diagonal: of whole L2 words, or of all channels. */
static bool is_set(const pccx_net_node *own, uint32_t groups, uint32_t outputs, uint32_t size)
{
    enum { CHANNELS_MAX = 512 };
    uint32_t in = own->window.channels / groups * size, out = outputs / groups * size;
    return groups % size == 0 && in <= CHANNELS_MAX && out <= CHANNELS_MAX &&
           (size == groups || (in % PCCX_LOWER_LANES == 0 && out % PCCX_LOWER_LANES == 0));
}

void pccx_net_choose_form(pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    pccx_net_node *own = &w->nodes[node];
    uint32_t outputs = pccx_net_value_at(w, n->output)->columns,
             groups = n->op == TV_OP_AVERAGE_POOL ? own->window.channels : n->attrs.groups;
    double fewest = find_form(w, node);
    pccx_net_node best = *own;
    for (uint32_t size = 1; groups > 1 && size <= groups; size++) {
        if (!is_set(own, groups, outputs, size))
            continue;
        own->sets = groups / size;
        own->k = own->window.channels / own->sets;
        double cycles = find_form(w, node);
        if (cycles > 0 && (fewest == 0 || cycles < fewest)) {
            fewest = cycles;
            best = *own;
        }
    }
    *own = best;
}

/* ---- Tiles ---- */

/* Products of a tile: their matrices, their rows, and the taps along X, from `first` to `end`. */
typedef struct tap_products {
    uint32_t set, out, m, first, end;
} tap_products;

/* Products of the taps in phase `phase` of the input. */
static bool multiply_phase(pccx_network *w, const pccx_net_tiling *t, uint32_t phase, const tap_products *to, bool accm)
{
    const pccx_net_window *real = &t->own->window, *g = t->g;
    bool is_pool = t->n->op == TV_OP_AVERAGE_POOL, any = false;
    for (uint32_t i = 0; i < g->kernel[Y] * g->kernel[X]; i++) {
        uint32_t row = i / g->kernel[X], x = i % g->kernel[X], y_phase = row * g->dilation[Y] % g->stride[Y],
                 ky = t->n->op == TV_OP_CONV_TRANSPOSE ? transposed_tap(t->own, Y, row, t->phase) : row;
        if (ky == UINT32_MAX || x < to->first || x >= to->end ||
            y_phase * t->phases[X] + x * g->dilation[X] % g->stride[X] != phase)
            continue;
        pccx_net_product p = {.matrix = &t->own->matrix,
                              .which = is_pool ? 0 : ((to->set + t->slice) * real->kernel[Y] + ky) * g->kernel[X] + x,
                              .n1 = t->own->matrix.rows,
                              .k = t->group == 1 ? t->own->k : t->own->matrix.columns,
                              .m = to->m};
        pccx_net_multiply(w, &p, to->out, pccx_net_tap_addr(t, row, x), accm || any);
        any = true;
    }
    return any;
}

/* Products of the taps of the output rows of a phase, in the order in which the input is copied. Returns whether there
 * are any. */
static bool multiply_taps(pccx_network *w, const pccx_net_tiling *t, const tap_products *to, bool accm)
{
    bool any = false;
    for (uint32_t phase = 0; phase < t->phases[Y] * t->phases[X]; phase++)
        any = multiply_phase(w, t, phase, to, accm || any) || any;
    return any;
}

/* Products of the first taps along X, whose results at the first group of an image row are of other pixels. */
static void multiply_wrapped(pccx_network *w, const pccx_net_tiling *t, tap_products *to, uint32_t rows)
{
    to->end = t->overhang;
    multiply_taps(w, t, to, false);
    for (uint32_t r = 0; r < rows; r++)
        pccx_net_fill_zeros(w, to->out + r * t->width * t->out_words, t->overhang * t->out_words);
    to->first = to->end;
    to->end = t->g->kernel[X];
}

/* Products of the other values that have channels of the input. */
static void multiply_slices(pccx_network *w, pccx_net_tiling *t, uint32_t image, uint32_t first, uint32_t rows,
                            uint32_t out)
{
    tap_products to = {.out = out, .m = (uint32_t)pccx_net_product_rows(t, rows), .end = t->g->kernel[X]};
    for (t->slice = 1; t->slice < t->slices; t->slice++) {
        t->value = slice_of(w, t->own, t->n, t->slice);
        pccx_net_arrange(w, t, image, first, rows, 0);
        multiply_taps(w, t, &to, true);
    }
    t->slice = 0;
    t->value = slice_of(w, t->own, t->n, 0);
}

/* Address of the products of a tile: of output rows where these are in L2, or of scratch space. */
static uint32_t locate_products(pccx_network *w, const pccx_net_tiling *t, uint32_t image, uint32_t first,
                                uint64_t words)
{
    const pccx_net_value *v = pccx_net_value_at(w, t->n->output);
    const pccx_net_window *real = &t->own->window;
    return pccx_net_writes_output(w, t) ? v->l2 + (image * real->out[Y] + first) * real->out[X] * v->words
                                        : pccx_net_scratch(w, words);
}

static void compute_phase(pccx_network *w, pccx_net_tiling *t, uint32_t image, uint32_t first, uint32_t rows,
                          uint32_t set)
{
    uint32_t residual = t->n->op == TV_OP_CONV ? t->n->inputs[3] : TV_NO_VALUE,
             m = (uint32_t)pccx_net_product_rows(t, rows), words = m * t->out_words,
             offset = set * (t->out_words / t->spread), out = locate_products(w, t, image, first, words);
    tap_products to = {.set = set, .out = out, .m = m, .end = t->g->kernel[X]};
    bool accm = residual != TV_NO_VALUE;
    if (accm) {
        if (t->width * t->spread != t->own->window.out[X]) /* pixels that are not used are numbers, too */
            pccx_net_fill_zeros(w, out, words);
        pccx_net_copy_rows(w, t, residual, image, first, rows, offset, out, false);
    }
    if (t->wraps)
        multiply_wrapped(w, t, &to, rows);
    if (t->own->bias)
        pccx_net_add_row(w, out, t->own->bias + (uint64_t)set * t->out_words * PCCX_LOWER_WORD_BYTES, m,
                         t->own->matrix.rows, false, accm || t->wraps);
    accm = accm || t->own->bias || t->wraps;
    if (!multiply_taps(w, t, &to, accm) && !accm)
        pccx_net_fill_zeros(w, out, words);
    multiply_slices(w, t, image, first, rows, out);
    if (t->n->op == TV_OP_CONV)
        pccx_net_activate(w, t->node, out, words * PCCX_LOWER_LANES);
    if (!pccx_net_writes_output(w, t))
        pccx_net_copy_rows(w, t, t->n->output, image, first, rows, offset, out, true);
}

static void conv_tile(pccx_network *w, pccx_net_tiling *t, uint32_t image, uint32_t first, uint32_t rows, uint32_t set)
{
    pccx_net_arrange(w, t, image, first, rows, set * (t->in_words / t->group));
    for (t->phase = 0; t->phase < t->step; t->phase++)
        compute_phase(w, t, image, first, rows, set);
    t->phase = 0;
}

tv_status pccx_net_conv(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    if (pccx_net_is_pointwise(w, node))
        return pccx_net_linear(w, node, sink);
    pccx_net_tiling t = tiling_of(w, node);
    return pccx_net_compute_tiles(w, &t, conv_tile, sink);
}
