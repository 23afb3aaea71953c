/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers operators on elements of networks.
 *
 * Values are processed in tiles of rows. A product of two computed values streams one of them as scales of the
 * identity (elements.c), in the next program. */
#include "lower/pccx/network_state.h"

/* ---- Functions ---- */

/* out[length] += factor * in, or without `accm` =. */
static void add_scaled(pccx_network *w, uint32_t out, uint32_t in, float factor, uint32_t length, bool accm)
{
    pccx_lower_scale(&w->l, out, in, pccx_net_scalar(w, factor), length, accm ? PCCX_LOWER_ACCM : 0);
}

/* out[words] (+)= row * in, where `row` has PCCX_NET_CLIP_COLUMNS times the same number in host memory: a product with
 * the identity, and a second one with what its activations lose. */
static void add_precisely(pccx_network *w, uint32_t out, uint32_t in, uint64_t row, uint32_t words, bool accm)
{
    uint32_t piece = PCCX_NET_PIECE / PCCX_LOWER_LANES;
    for (uint32_t i = 0; i < words; i += piece) {
        uint32_t count = words - i < piece ? words - i : piece, lost = pccx_net_temporary(w);
        pccx_net_move(w, lost, in + i, count);
        pccx_net_multiply_words(w, lost, in + i, count, w->l.map.minus_ones, PCCX_LOWER_ACCM);
        pccx_net_multiply_words(w, out + i, in + i, count, row, accm ? PCCX_LOWER_ACCM : 0);
        pccx_net_multiply_words(w, out + i, lost, count, row, PCCX_LOWER_ACCM);
    }
}

/* out[length] (+)= a number */
static void add_number(pccx_network *w, uint32_t out, float number, uint32_t length, bool accm)
{
    for (uint32_t i = 0; i < length; i += PCCX_NET_ONES)
        add_scaled(w, out + i / PCCX_LOWER_LANES, w->l.plan.ones, number,
                   length - i < PCCX_NET_ONES ? length - i : PCCX_NET_ONES, accm);
}

/* x[length] = relu(x) */
static void emit_relu(pccx_network *w, uint32_t x, uint32_t length, bool scaled)
{
    pccx_lower_function(&w->l, scaled ? TV_ACTIVATION_GELU : TV_ACTIVATION_RELU, x, x, length);
}

/* x += sign * relu(a x - a b), a piece. */
static void add_ramp(pccx_network *w, uint32_t out, uint32_t in, float a, float b, float sign, uint32_t length)
{
    uint32_t t = pccx_net_temporary(w);
    add_scaled(w, t, in, a, length, false);
    if (b != 0)
        add_number(w, t, -a * b, length, true);
    emit_relu(w, t, length, false);
    add_scaled(w, out, t, sign, length, true);
}

/* x -= relu(x - high), a piece. */
static void cut_above(pccx_network *w, uint32_t x, float high, uint32_t length, bool scaled)
{
    uint32_t t = pccx_net_temporary(w);
    pccx_net_move(w, t, x, pccx_lower_l2_size(length));
    add_number(w, t, -high, length, true);
    emit_relu(w, t, length, scaled);
    add_scaled(w, x, t, -1, length, true);
}

/* clip(x, low, high): y = low + relu(x - low), then y - relu(y - high) */
static void emit_clip(pccx_network *w, uint32_t out, uint32_t in, float low, float high, uint32_t length, bool scaled)
{
    float factor = scaled ? 0x1p64F : 1;
    uint32_t y = pccx_net_temporary(w);
    pccx_net_move(w, y, in, pccx_lower_l2_size(length));
    if (low > -3e38F) {
        if (low != 0)
            add_number(w, y, -low * factor, length, true);
        emit_relu(w, y, length, scaled);
        if (low != 0)
            add_number(w, y, low * factor, length, true);
    }
    if (high < 3e38F)
        cut_above(w, y, high * factor, length, scaled);
    pccx_net_move(w, out, y, pccx_lower_l2_size(length));
}

/* alpha x + (1 - alpha) relu(x); |x| with alpha -1 */
static void emit_leaky(pccx_network *w, uint32_t out, uint32_t in, float alpha, uint32_t length)
{
    uint32_t y = pccx_net_temporary(w);
    add_scaled(w, y, in, alpha, length, false);
    add_ramp(w, y, in, 1, 0, 1 - alpha, length);
    pccx_net_move(w, out, y, pccx_lower_l2_size(length));
}

/* min(max(alpha x + beta, 0), 1) */
static void emit_hard_sigmoid(pccx_network *w, uint32_t out, uint32_t in, float alpha, float beta, uint32_t length)
{
    uint32_t y = pccx_net_temporary(w);
    add_number(w, y, 0, length, false);
    add_ramp(w, y, in, alpha, -beta / alpha, 1, length);
    add_ramp(w, y, in, alpha, (1 - beta) / alpha, -1, length);
    pccx_net_move(w, out, y, pccx_lower_l2_size(length));
}

void pccx_net_activate(pccx_network *w, uint32_t node, uint32_t x, uint32_t length)
{
    const tv_graph_attrs *a = &pccx_net_graph_node(w, node)->attrs;
    const pccx_net_value *v = pccx_net_value_at(w, pccx_net_graph_node(w, node)->output);
    bool scaled = v->scaled;
    if (v->clip.scale) {
        pccx_net_clip_words(w, &v->clip, x, pccx_lower_l2_size(length));
        pccx_net_shift_words(w, &v->clip, x, pccx_lower_l2_size(length), false);
        return;
    }
    if (a->activation == TV_ACTIVATION_NONE)
        return;
    if (a->activation == TV_ACTIVATION_RELU) {
        emit_relu(w, x, length, scaled);
        return;
    }
    if (a->activation != TV_ACTIVATION_CLIP) {
        pccx_lower_function(&w->l, a->activation, x, x, length);
        return;
    }
    for (uint32_t i = 0; i < length; i += PCCX_NET_PIECE)
        emit_clip(w, x + i / PCCX_LOWER_LANES, x + i / PCCX_LOWER_LANES, a->alpha, a->beta,
                  length - i < PCCX_NET_PIECE ? length - i : PCCX_NET_PIECE, scaled);
}

void pccx_net_max(pccx_network *w, uint32_t x, uint32_t y, uint32_t words, bool smaller, bool scaled)
{
    const uint32_t piece = PCCX_NET_PIECE / PCCX_LOWER_LANES;
    for (uint32_t i = 0; i < words; i += piece) {
        uint32_t count = words - i < piece ? words - i : piece, length = count * PCCX_LOWER_LANES,
                 t = pccx_net_temporary(w);
        pccx_net_move(w, t, smaller ? x + i : y + i, count);
        add_scaled(w, t, smaller ? y + i : x + i, -1, length, true);
        if (scaled && !smaller) { /* the SFU adds to the destination */
            pccx_lower_cvo_row(&w->l, PCCX_CVO_GELU, x + i, t, length, PCCX_LOWER_ACCM);
            continue;
        }
        emit_relu(w, t, length, scaled);
        add_scaled(w, x + i, t, smaller ? -1 : 1, length, true);
    }
}

/* A function of a piece. */
static void emit_function(pccx_network *w, const tv_graph_node *n, uint32_t out, uint32_t in, uint32_t length)
{
    static const tv_activation activations[TV_OPS] = {[TV_OP_RELU] = TV_ACTIVATION_RELU,
                                                      [TV_OP_SIGMOID] = TV_ACTIVATION_SIGMOID,
                                                      [TV_OP_SWISH] = TV_ACTIVATION_SIGMOID,
                                                      [TV_OP_TANH] = TV_ACTIVATION_TANH,
                                                      [TV_OP_GELU] = TV_ACTIVATION_GELU};
    static const pccx_insn instructions[TV_OPS] = {
        [TV_OP_EXP] = PCCX_CVO_EXP,   [TV_OP_SQRT] = PCCX_CVO_SQRT, [TV_OP_RECIPROCAL] = PCCX_CVO_RECIP,
        [TV_OP_DIV] = PCCX_CVO_RECIP, [TV_OP_SIN] = PCCX_CVO_SIN,   [TV_OP_COS] = PCCX_CVO_COS};
    if (activations[n->op])
        pccx_lower_function(&w->l, activations[n->op], out, in, length);
    else if (n->op == TV_OP_CLIP)
        emit_clip(w, out, in, n->attrs.alpha, n->attrs.beta, length, false);
    else if (n->op == TV_OP_LEAKY_RELU || n->op == TV_OP_ABS)
        emit_leaky(w, out, in, n->op == TV_OP_ABS ? -1 : n->attrs.alpha, length);
    else if (n->op == TV_OP_HARD_SIGMOID)
        emit_hard_sigmoid(w, out, in, n->attrs.alpha, n->attrs.beta, length);
    else if (n->op == TV_OP_HARD_SWISH)
        emit_hard_sigmoid(w, out, in, 1.0F / 6, 0.5F, length);
    else if (n->op == TV_OP_NEG)
        add_scaled(w, out, in, -1, length, false);
    else
        pccx_lower_cvo(&w->l, instructions[n->op], out, in, length, 0);
}

/* ---- Tiles ---- */

/* Rows of a tile with `buffers` rows of a value in scratch space, and their number of tiles. */
static uint32_t rows_of_tile(const pccx_network *w, uint32_t node, const pccx_net_value *v, uint32_t buffers,
                             uint32_t *tiles)
{
    uint32_t whole = pccx_net_scratch_size(w, node, false), half = pccx_net_scratch_size(w, node, true);
    uint64_t row = (uint64_t)v->words * buffers;
    *tiles = 1;
    if (v->rows * row <= whole)
        return v->rows;
    uint32_t rows = row <= half ? (uint32_t)(half / row) : 1;
    *tiles = (v->rows + rows - 1) / rows;
    return rows;
}

/* A function of rows at `in`; lanes after the columns stay finite. */
static void apply_function(pccx_network *w, const tv_graph_node *n, const pccx_net_value *v, uint32_t out, uint32_t in,
                           uint32_t rows)
{
    pccx_lower_piece p = {0};
    w->l.row_first = 0;
    w->l.row_end = rows;
    while (pccx_lower_next_piece(&w->l, v->columns, false, &p))
        emit_function(w, n, out + p.word, in + p.word, p.length);
}

/* out = x times a function of y, which was stored in the home of the output. */
static tv_status multiply_by_home(pccx_network *w, uint32_t node, uint32_t x, uint64_t home)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *v = pccx_net_value_at(w, n->output);
    uint32_t tiles, count = rows_of_tile(w, node, v, 2, &tiles);
    for (uint32_t r = 0, tile = 0; r < v->rows; r += count) {
        uint32_t rows = v->rows - r < count ? v->rows - r : count, length = rows * v->words * PCCX_LOWER_LANES;
        pccx_net_begin_tile(w, node, tile++, tiles);
        uint32_t in = pccx_net_fetch(w, x, r, rows), out = pccx_net_locate(w, n->output, r, rows);
        for (uint32_t i = 0; i < length; i += PCCX_NET_PIECE)
            pccx_lower_multiply_precisely(&w->l, out + i / PCCX_LOWER_LANES, in + i / PCCX_LOWER_LANES,
                                          home + ((uint64_t)r * v->words * PCCX_LOWER_LANES + i) * 2,
                                          length - i < PCCX_NET_PIECE ? length - i : PCCX_NET_PIECE);
        pccx_net_put(w, n->output, r, rows, out);
    }
    return TV_OK;
}

/* The function of a value, in all rows, to the output; with `home` to host memory, at the address of the output. */
static tv_status apply_to_rows(pccx_network *w, uint32_t node, uint32_t value, bool home, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    pccx_net_value *v = pccx_net_value_at(w, n->output);
    uint32_t tiles, count = rows_of_tile(w, node, v, 2, &tiles);
    for (uint32_t r = 0, tile = 0; r < v->rows; r += count) {
        uint32_t rows = v->rows - r < count ? v->rows - r : count;
        pccx_net_begin_tile(w, node, tile++, tiles);
        uint32_t in = pccx_net_fetch(w, value, r, rows), out = pccx_net_locate(w, n->output, r, rows);
        if (v->clip.scale) {
            uint32_t words = rows * v->words;
            pccx_net_move(w, out, in, words);
            pccx_net_shift_words(w, &v->clip, out, words, true);
            pccx_net_clip_words(w, &v->clip, out, words);
            pccx_net_shift_words(w, &v->clip, out, words, false);
        } else {
            apply_function(w, n, v, out, in, rows);
        }
        pccx_net_put(w, n->output, r, rows, out);
    }
    if (!home)
        return TV_OK;
    w->l.host_ops[PCCX_LOWER_HANDOVER].count++;
    w->l.host_ops[PCCX_LOWER_HANDOVER].elements += (uint64_t)v->rows * v->columns;
    tv_status status = pccx_net_hand_over(w, n->output, sink);
    v->stored = false; /* the output itself is not computed yet */
    return status;
}

tv_status pccx_net_unary(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    bool product = n->op == TV_OP_SWISH || n->op == TV_OP_HARD_SWISH;
    TV_TRY(apply_to_rows(w, node, n->inputs[0], product, sink));
    return product ? multiply_by_home(w, node, n->inputs[0], pccx_net_value_at(w, n->output)->home) : TV_OK;
}

/* ---- Two operands ---- */

/* Rows of an operand that is as large as the output, in L2. */
static uint32_t fetch_full(pccx_network *w, uint32_t node, unsigned k, uint32_t row, uint32_t rows)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *v = pccx_net_value_at(w, n->output);
    if (!pccx_net_is_constant(w, n->inputs[k]))
        return pccx_net_fetch(w, n->inputs[k], row, rows);
    uint64_t words = (uint64_t)rows * v->words;
    uint32_t addr = pccx_net_scratch(w, words);
    pccx_net_load(w, addr, w->nodes[node].operands[k] + (uint64_t)row * v->words * PCCX_LOWER_WORD_BYTES, words);
    return addr;
}

float pccx_net_scalar_of(const pccx_network *w, const tv_graph_node *n, unsigned k)
{
    const tv_tensor *t = tv_graph_value_at(w->graph, n->inputs[k])->tensor;
    float x = 1;
    const tv_matrix *m = tv_graph_matrix(w->graph, n->inputs[k]);
    if (t && t->data)
        return (float)tv_tensor_real(t, 0);
    if (!t && tv_matrix_has_data(m))
        tv_matrix_row_f32(m, 0, &x);
    return x;
}

/* Address in host memory of the row that an operand is. */
static uint64_t row_addr(const pccx_network *w, uint32_t node, unsigned k)
{
    uint32_t v = pccx_net_graph_node(w, node)->inputs[k];
    return pccx_net_is_constant(w, v) ? w->nodes[node].operands[k] : pccx_net_value_at(w, v)->home;
}

/* out (+)= sign * operand k, rows of a tile. */
static void add_operand(pccx_network *w, uint32_t node, unsigned k, uint32_t out, uint32_t row, uint32_t rows,
                        float sign, bool accm)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *v = pccx_net_value_at(w, n->output);
    uint32_t length = rows * v->words * PCCX_LOWER_LANES, x;
    switch (pccx_net_operand_of(w, n, k)) {
    case PCCX_NET_FULL:
        x = fetch_full(w, node, k, row, rows);
        if (accm || sign != 1)
            add_precisely(w, out, x, sign < 0 ? w->l.map.minus_ones : w->l.map.ones, rows * v->words, accm);
        else if (x != out)
            pccx_net_move(w, out, x, (uint64_t)rows * v->words);
        return;
    case PCCX_NET_ROW:
        pccx_net_add_row(w, out, row_addr(w, node, k), rows, v->columns, sign < 0, accm);
        return;
    case PCCX_NET_SCALAR:
        add_number(w, out, sign * pccx_net_scalar_of(w, n, k), length, accm);
        return;
    case PCCX_NET_PER_ROW:
        x = pccx_net_fetch(w, n->inputs[k], row, rows);
        for (uint32_t r = 0; r < rows; r++) {
            add_scaled(w, w->temporary, x + r, sign, 1, false);
            pccx_lower_scale(&w->l, out + r * v->words, w->l.plan.ones, w->temporary, v->columns,
                             accm ? PCCX_LOWER_ACCM : 0);
        }
        return;
    case PCCX_NET_OTHER:
        return;
    }
}

/* out = operand k times, or divided by, the other one, rows of a tile; that one is no computed value of all rows. */
static void multiply_operand(pccx_network *w, uint32_t node, unsigned k, uint32_t out, uint32_t row, uint32_t rows)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *v = pccx_net_value_at(w, n->output);
    uint32_t in = fetch_full(w, node, k, row, rows), x, padded = v->words * PCCX_LOWER_LANES;
    unsigned flags = n->op == TV_OP_DIV ? PCCX_LOWER_RECIP_SCALE : 0, other = 1 - k;
    switch (pccx_net_operand_of(w, n, other)) {
    case PCCX_NET_ROW: /* of Div reciprocals */
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t i = 0; i < padded; i += PCCX_NET_PIECE)
                pccx_lower_multiply_precisely(&w->l, out + r * v->words + i / PCCX_LOWER_LANES,
                                              in + r * v->words + i / PCCX_LOWER_LANES,
                                              row_addr(w, node, other) + 2 * (uint64_t)i,
                                              padded - i < PCCX_NET_PIECE ? padded - i : PCCX_NET_PIECE);
        return;
    case PCCX_NET_SCALAR:
        if (w->nodes[node].operands[other])
            add_precisely(w, out, in, w->nodes[node].operands[other], rows * v->words, false);
        else
            pccx_lower_scale(&w->l, out, in, pccx_net_scalar(w, pccx_net_scalar_of(w, n, other)), rows * padded, flags);
        return;
    case PCCX_NET_PER_ROW:
        x = pccx_net_fetch(w, n->inputs[other], row, rows);
        for (uint32_t r = 0; r < rows; r++)
            pccx_lower_scale(&w->l, out + r * v->words, in + r * v->words, x + r, v->columns, flags);
        return;
    case PCCX_NET_FULL:
    case PCCX_NET_OTHER:
        return;
    }
}

/* out = operand 0 times operand 1, both computed, rows of a tile, with the instruction of an extension. */
static void multiply_rows_of_tile(pccx_network *w, uint32_t node, uint32_t out, uint32_t row, uint32_t rows)
{
    const pccx_net_value *v = pccx_net_value_at(w, pccx_net_graph_node(w, node)->output);
    uint32_t x = fetch_full(w, node, 0, row, rows), y = fetch_full(w, node, 1, row, rows);
    bool swapped = out == y;
    pccx_lower_product_of_rows(&w->l, out, swapped ? y : x, swapped ? x : y, rows * v->words * PCCX_LOWER_LANES);
}

/* Whether an extension multiplies both operands of a product. */
static bool multiplies_on_sfu(const pccx_network *w, const tv_graph_node *n)
{
    return w->l.has_product && n->op == TV_OP_MUL && pccx_net_operand_of(w, n, 0) == PCCX_NET_FULL &&
           pccx_net_operand_of(w, n, 1) == PCCX_NET_FULL && !pccx_net_is_constant(w, n->inputs[0]) &&
           !pccx_net_is_constant(w, n->inputs[1]);
}

static void compute_rows(pccx_network *w, uint32_t node, unsigned full, uint32_t out, uint32_t row, uint32_t rows)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *v = pccx_net_value_at(w, n->output);
    if (n->op == TV_OP_ADD || n->op == TV_OP_SUB) {
        add_operand(w, node, full, out, row, rows, n->op == TV_OP_SUB && full == 1 ? -1 : 1, false);
        add_operand(w, node, 1 - full, out, row, rows, n->op == TV_OP_SUB && full == 0 ? -1 : 1, true);
    } else if (n->op == TV_OP_MAX || n->op == TV_OP_MIN) {
        uint32_t other = pccx_net_scratch(w, (uint64_t)rows * v->words);
        add_operand(w, node, full, out, row, rows, 1, false);
        add_operand(w, node, 1 - full, other, row, rows, 1, false);
        pccx_net_max(w, out, other, rows * v->words, n->op == TV_OP_MIN, false);
    } else if (multiplies_on_sfu(w, n)) {
        multiply_rows_of_tile(w, node, out, row, rows);
    } else {
        multiply_operand(w, node, full, out, row, rows);
    }
}

tv_status pccx_net_binary(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *v = pccx_net_value_at(w, n->output);
    unsigned full = pccx_net_operand_of(w, n, 0) == PCCX_NET_FULL ? 0 : 1;
    pccx_net_operand_kind other = pccx_net_operand_of(w, n, 1 - full);
    bool product = n->op == TV_OP_MUL || n->op == TV_OP_DIV;
    if (other == PCCX_NET_ROW && !pccx_net_is_constant(w, n->inputs[1 - full]))
        TV_TRY(pccx_net_hand_over(w, n->inputs[1 - full], sink));
    if (product && other == PCCX_NET_FULL && !multiplies_on_sfu(w, n)) {
        bool constant = pccx_net_is_constant(w, n->inputs[1]), divide = n->op == TV_OP_DIV && !constant;
        unsigned streamed = constant || divide ? 1 : pccx_net_is_constant(w, n->inputs[0]) ? 0 : 1;
        if (divide) {
            TV_TRY(apply_to_rows(w, node, n->inputs[1], true, sink));
            return multiply_by_home(w, node, n->inputs[0], v->home);
        }
        if (!pccx_net_is_constant(w, n->inputs[streamed])) {
            w->l.host_ops[PCCX_LOWER_HANDOVER].count++;
            w->l.host_ops[PCCX_LOWER_HANDOVER].elements += (uint64_t)v->rows * v->columns;
            TV_TRY(pccx_net_hand_over(w, n->inputs[streamed], sink));
        }
        return multiply_by_home(w, node, n->inputs[1 - streamed], row_addr(w, node, streamed));
    }
    uint32_t tiles, count = rows_of_tile(w, node, v, 4, &tiles);
    for (uint32_t r = 0, tile = 0; r < v->rows; r += count) {
        uint32_t rows = v->rows - r < count ? v->rows - r : count;
        pccx_net_begin_tile(w, node, tile++, tiles);
        uint32_t out = pccx_net_locate(w, n->output, r, rows);
        compute_rows(w, node, full, out, r, rows);
        pccx_net_put(w, n->output, r, rows, out);
    }
    return TV_OK;
}
