/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers operators along the rows of networks: softmax, norms, reductions. The SFU processes row by row. */
#include "lower/pccx/network_state.h"

/* Words after the squares of a row: their sum; its root, then the row. */
enum { SUM = PCCX_LOWER_BLOCK / PCCX_LOWER_LANES, ROOT };

/* Rows that a tile holds with `buffers` of them in scratch space. */
static uint32_t rows_of_tile(const pccx_network *w, uint32_t node, uint32_t rows, uint64_t words)
{
    uint32_t half = pccx_net_scratch_size(w, node, true);
    uint64_t count = half / words;
    return count > rows ? rows : count ? (uint32_t)count : 1;
}

/* ---- Softmax ---- */

static void find_maximum(pccx_network *w, const pccx_lower_matrix *identity, uint32_t columns, uint32_t in,
                         unsigned flags)
{
    pccx_lower_stream(&w->l, false, identity->addr, pccx_lower_plane_bytes(identity->rows, identity->columns));
    pccx_lower_gemv(&w->l, w->temporary, in, columns, columns, PCCX_LOWER_FINDEMAX | flags);
}

/* Whether masks may have been added to the input of a node: numbers that are much larger than the others. */
static bool is_masked(const pccx_network *w, const tv_graph_node *n)
{
    for (size_t i = 0; i < w->graph->nodes.count; i++) {
        const tv_graph_node *other = &w->graph->nodes.data[i];
        if (other->output == n->inputs[0])
            return other->op == TV_OP_ADD || other->op == TV_OP_SUB || other->op == TV_OP_WHERE;
    }
    return true; /* an input of the network */
}

/* The maximum of a row is that of its product with the identity; the exponentials are divided by their sum, which is
 * stored in the word before them. Where masks are added the activations of that product are rounded coarsely: the row
 * minus this maximum is searched again, in steps of 1 between -127 and 127. */
static void softmax_row(pccx_network *w, const pccx_lower_matrix *identity, uint32_t columns, uint32_t out, uint32_t in,
                        uint32_t exps, bool masked)
{
    pccx_lowering *l = &w->l;
    find_maximum(w, identity, columns, in, 0);
    if (masked) {
        pccx_net_move(w, exps, pccx_lower_common_scalar(l, PCCX_COMMON_ONE), 1);
        pccx_net_move(w, exps + 1, in, pccx_lower_l2_size(columns));
        pccx_lower_cvo(l, PCCX_CVO_SCALE, exps + 1, exps, columns, PCCX_LOWER_SUB_EMAX);
        in = exps + 1;
        find_maximum(w, identity, columns, in, PCCX_LOWER_UNIT_SCALE);
    }
    pccx_lower_cvo(l, PCCX_CVO_EXP, exps + 1, in, columns, PCCX_LOWER_SUB_EMAX);
    pccx_lower_cvo(l, PCCX_CVO_REDUCE_SUM, exps, exps + 1, columns, 0);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, out, exps, columns, PCCX_LOWER_RECIP_SCALE);
}

tv_status pccx_net_softmax(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    enum { BUFFERS = 4 };
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *v = pccx_net_value_at(w, n->output);
    uint64_t spare = (uint64_t)BUFFERS * (v->words + 1);
    bool masked = is_masked(w, n);
    uint32_t count = rows_of_tile(w, node, v->rows, 2 * (uint64_t)v->words + spare);
    (void)sink;
    for (uint32_t r = 0, tile = 0; r < v->rows; r += count) {
        uint32_t rows = v->rows - r < count ? v->rows - r : count;
        pccx_net_begin_tile(w, node, tile++, 2);
        uint32_t exps = pccx_net_scratch(w, spare), in = pccx_net_fetch(w, n->inputs[0], r, rows),
                 out = pccx_net_locate(w, n->output, r, rows);
        for (uint32_t i = 0; i < rows; i++)
            softmax_row(w, &w->nodes[node].matrix, v->columns, out + i * v->words, in + i * v->words,
                        exps + i % BUFFERS * (v->words + 1), masked);
        pccx_net_put(w, n->output, r, rows, out);
    }
    return TV_OK;
}

/* ---- Norms ---- */

/* The work on a row has two stages; that of the next row begins before the second one, so that engines overlap. */

/* Returns the address of the sum of a row, times -1 / its length. */
static uint32_t begin_center(pccx_network *w, const pccx_net_value *v, uint32_t x)
{
    uint32_t sum = pccx_net_temporary(w), minus = pccx_net_scalar(w, -1 / (float)v->columns);
    pccx_lower_cvo(&w->l, PCCX_CVO_REDUCE_SUM, sum, x, v->columns, 0);
    pccx_lower_scale(&w->l, sum, sum, minus, 1, 0);
    return sum;
}

/* to = x - mean */
static void end_center(pccx_network *w, const pccx_net_value *v, uint32_t to, uint32_t x, uint32_t sum)
{
    pccx_net_move(w, to, x, v->words);
    pccx_lower_scale(&w->l, to, w->l.plan.ones, sum, v->columns, PCCX_LOWER_ACCM);
}

/* Squares of a row, which is at `vector` in host memory, too, in blocks; then the length times epsilon. Returns their
 * address. */
static uint32_t begin_normalize(pccx_network *w, uint32_t node, const pccx_net_value *v, uint32_t x, uint64_t vector)
{
    uint32_t squares = pccx_net_temporary(w);
    float epsilon = pccx_net_graph_node(w, node)->attrs.epsilon;
    pccx_net_move(w, squares + SUM, pccx_net_scalar(w, (float)v->columns * epsilon), 1);
    pccx_lower_multiply(&w->l, squares, x, vector, w->l.map.identity, v->words * PCCX_LOWER_LANES, true, false);
    return squares;
}

/* to = x / sqrt(mean of squares + epsilon) * gains, which include the root of the length */
static void end_normalize(pccx_network *w, uint32_t node, const pccx_net_value *v, uint32_t to, uint32_t x,
                          uint32_t squares)
{
    uint32_t padded = v->words * PCCX_LOWER_LANES, root = squares + ROOT, sum = squares + SUM;
    pccx_lower_cvo(&w->l, PCCX_CVO_REDUCE_SUM, sum, squares, padded < PCCX_LOWER_BLOCK ? padded : PCCX_LOWER_BLOCK,
                   PCCX_LOWER_ACCM);
    pccx_lower_cvo(&w->l, PCCX_CVO_SQRT, root, sum, 1, 0);
    pccx_net_move(w, root + 1, x, v->words);
    pccx_lower_cvo(&w->l, PCCX_CVO_SCALE, root + 1, root, v->columns, PCCX_LOWER_RECIP_SCALE);
    pccx_lower_multiply(&w->l, to, root + 1, w->nodes[node].operands[1], w->l.map.identity, padded, false, false);
}

/* Both stages of the rows of a tile. */
static void center_rows(pccx_network *w, const pccx_net_value *v, uint32_t out, uint32_t in, uint32_t rows)
{
    for (uint32_t i = 0, sum = 0, next; i <= rows; i++, sum = next) {
        next = i < rows ? begin_center(w, v, in + i * v->words) : 0;
        if (i > 0)
            end_center(w, v, out + (i - 1) * v->words, in + (i - 1) * v->words, sum);
    }
}
static void normalize_rows(pccx_network *w, uint32_t node, const pccx_net_value *v, uint32_t out, uint32_t in,
                           uint32_t rows, uint64_t vectors)
{
    for (uint32_t i = 0, squares = 0, next; i <= rows; i++, squares = next) {
        uint64_t vector = vectors + (uint64_t)i * v->words * PCCX_LOWER_WORD_BYTES;
        next = i < rows ? begin_normalize(w, node, v, in + i * v->words, vector) : 0;
        if (i > 0)
            end_normalize(w, node, v, out + (i - 1) * v->words, in + (i - 1) * v->words, squares);
    }
}

tv_status pccx_net_norm(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    pccx_net_value *v = pccx_net_value_at(w, n->output);
    uint32_t count = rows_of_tile(w, node, v->rows, 2 * (uint64_t)v->words), x = n->inputs[0];
    uint64_t vectors = pccx_net_value_at(w, x)->home;
    bool center = n->attrs.subtract_mean || n->op == TV_OP_LAYER_NORMALIZATION;
    for (uint32_t r = 0, tile = 0; r < v->rows && center; r += count) {
        uint32_t rows = v->rows - r < count ? v->rows - r : count;
        pccx_net_begin_tile(w, node, tile++, 2);
        uint32_t in = pccx_net_fetch(w, x, r, rows), out = pccx_net_locate(w, n->output, r, rows);
        center_rows(w, v, out, in, rows);
        pccx_net_put(w, n->output, r, rows, out);
        vectors = v->home;
        x = r + rows == v->rows ? n->output : x;
    }
    w->l.host_ops[PCCX_LOWER_HANDOVER].count++;
    w->l.host_ops[PCCX_LOWER_HANDOVER].elements += (uint64_t)v->rows * v->columns;
    TV_TRY(pccx_net_hand_over(w, x, sink));
    v->stored = v->l2 == PCCX_LOWER_NO_BUFFER;
    for (uint32_t r = 0, tile = 0; r < v->rows; r += count) {
        uint32_t rows = v->rows - r < count ? v->rows - r : count;
        pccx_net_begin_tile(w, node, tile++, 2);
        uint32_t in = pccx_net_fetch(w, x, r, rows), out = pccx_net_locate(w, n->output, r, rows);
        normalize_rows(w, node, v, out, in, rows, vectors + (uint64_t)r * v->words * PCCX_LOWER_WORD_BYTES);
        if (w->nodes[node].bias)
            pccx_net_add_row(w, out, w->nodes[node].bias, rows, v->columns, false, true);
        pccx_net_put(w, n->output, r, rows, out);
    }
    return TV_OK;
}

/* ---- Reductions ---- */

tv_status pccx_net_reduce(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *in = pccx_net_value_at(w, n->inputs[0]);
    uint32_t count = rows_of_tile(w, node, in->rows, in->words + 1);
    (void)sink;
    for (uint32_t r = 0, tile = 0; r < in->rows; r += count) {
        uint32_t rows = in->rows - r < count ? in->rows - r : count;
        pccx_net_begin_tile(w, node, tile++, 2);
        uint32_t x = pccx_net_fetch(w, n->inputs[0], r, rows), out = pccx_net_locate(w, n->output, r, rows);
        for (uint32_t i = 0; i < rows; i++)
            pccx_lower_cvo(&w->l, PCCX_CVO_REDUCE_SUM, out + i, x + i * in->words, in->columns, 0);
        if (n->op == TV_OP_REDUCE_MEAN)
            pccx_lower_scale(&w->l, out, out, pccx_net_scalar(w, 1 / (float)in->columns), rows * PCCX_LOWER_LANES, 0);
        pccx_net_put(w, n->output, r, rows, out);
    }
    return TV_OK;
}
