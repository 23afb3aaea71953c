/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers pools: maxima and means of the taps of tiles (tiling.h). */
#include "lower/pccx/tiling.h"

enum { Y = PCCX_NET_Y, X = PCCX_NET_X };

/* Subtracts the middle from all pixels of a tile. */
static void shift_input(pccx_network *w, const pccx_net_tiling *t, const pccx_net_clip *clip, uint32_t rows)
{
    for (uint32_t p = 0; p < t->phases[Y] * t->phases[X]; p++)
        pccx_net_shift_words(w, clip, t->at[p], (uint32_t)pccx_net_phase_words(t, rows, p / t->phases[X]), true);
}

static void max_tile(pccx_network *w, pccx_net_tiling *t, uint32_t image, uint32_t first, uint32_t rows, uint32_t set)
{
    uint64_t words = pccx_net_product_rows(t, rows) * t->out_words;
    (void)set;
    pccx_net_arrange(w, t, image, first, rows, 0);
    uint32_t out = pccx_net_scratch(w, words);
    const pccx_net_value *v = pccx_net_value_at(w, t->n->output);
    if (v->clip.scale)
        shift_input(w, t, &v->clip, rows);
    pccx_net_move(w, out, pccx_net_tap_addr(t, 0, 0), words);
    for (uint32_t i = 1; i < t->g->kernel[Y] * t->g->kernel[X]; i++) {
        uint32_t tap = pccx_net_tap_addr(t, i / t->g->kernel[X], i % t->g->kernel[X]);
        if (v->clip.scale)
            pccx_net_clip_max(w, &v->clip, out, tap, (uint32_t)words);
        else
            pccx_net_max(w, out, tap, (uint32_t)words, false, v->scaled);
    }
    if (v->clip.scale)
        pccx_net_shift_words(w, &v->clip, out, (uint32_t)words, false);
    pccx_net_copy_rows(w, t, t->n->output, image, first, rows, 0, out, true);
}

tv_status pccx_net_max_pool(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    uint32_t words = pccx_net_value_at(w, n->output)->words;
    pccx_net_tiling t = {.n = n,
                         .own = &w->nodes[node],
                         .g = &w->nodes[node].window,
                         .node = node,
                         .edge = true,
                         .value = n->inputs[0],
                         .slices = 1,
                         .group = 1,
                         .spread = 1,
                         .step = 1,
                         .in_words = words,
                         .out_words = words};
    return pccx_net_compute_tiles(w, &t, max_tile, sink);
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
