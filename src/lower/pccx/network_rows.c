/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers operators along the rows of networks: softmax, norms, reductions. The SFU processes row by row. */
#include <math.h>
#include <stdlib.h>

#include "lower/pccx/network_state.h"
#include "num/float.h"

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

typedef struct softmax {
    const pccx_net_node *own;
    const pccx_net_value *v;
    bool masked;
} softmax;

/* e_max becomes the maximum of a row: of its words, which are rows of a product with the identity. The lanes of the
 * last word that are past the columns are copies of its first lane. Masks make activations coarse: a second product
 * adds what the first one rounds off. */
static void find_maximum(pccx_network *w, const softmax *s, uint32_t in)
{
    uint32_t columns = s->v->columns, whole = columns / PCCX_LOWER_LANES, rest = columns % PCCX_LOWER_LANES,
             words = s->v->words, x = in, out = pccx_net_temporary(w);
    if (columns < PCCX_LOWER_BEAT_WEIGHTS) {
        pccx_net_multiply_identity(w, out, in, 1, columns, false, s->masked ? 0 : PCCX_LOWER_FINDEMAX);
    } else {
        if (rest) {
            pccx_net_small_product last = {w->l.map.ones, s->own->operands[1], 1, PCCX_LOWER_LANES, rest, 0};
            x = pccx_net_temporary(w);
            pccx_net_move(w, x, in, whole);
            pccx_net_multiply_small(w, &last, x + whole, in + whole);
        }
        pccx_net_multiply_identity(w, out, x, words, PCCX_LOWER_LANES, false, s->masked ? 0 : PCCX_LOWER_FINDEMAX);
    }
    if (!s->masked)
        return;
    uint32_t lost = pccx_net_temporary(w), rows = columns < PCCX_LOWER_BEAT_WEIGHTS ? 1 : words,
             size = rows == 1 ? columns : PCCX_LOWER_LANES;
    pccx_net_move(w, lost, x, words);
    pccx_net_multiply_identity(w, lost, x, rows, size, true, PCCX_LOWER_ACCM);
    pccx_net_multiply_identity(w, out, lost, rows, size, false, PCCX_LOWER_ACCM | PCCX_LOWER_FINDEMAX);
}

/* Sums of the exponentials, which are at most 1, of rows that have a word before them; to those words. Activations have
 * the scale 1/128, and a second product adds what they lose. */
static void sum_rows(pccx_network *w, const softmax *s, uint32_t exps, uint32_t rows, uint32_t lost, uint32_t sums)
{
    enum { SCALE = 0x3C00 };
    uint32_t pitch = s->v->words + 1;
    unsigned scale = (unsigned)SCALE << PCCX_LOWER_SCALE_SHIFT;
    pccx_net_small_product p = {w->l.map.ones,    s->own->operands[0],      rows,
                                PCCX_LOWER_LANES, pitch * PCCX_LOWER_LANES, scale};
    pccx_net_move(w, lost, exps, rows * pitch);
    pccx_net_multiply_words(w, lost, exps, rows * pitch, w->l.map.minus_ones, scale | PCCX_LOWER_ACCM);
    pccx_net_multiply_small(w, &p, sums, exps);
    p.flags = PCCX_LOWER_ACCM;
    pccx_net_multiply_small(w, &p, sums, lost);
    for (uint32_t i = 0; i < rows; i++)
        pccx_net_move(w, exps + i * pitch, sums + i, 1);
}

/* Rows whose exponentials are computed together, in an area that has three rows with a word before them for each. */
typedef struct row_batch {
    uint32_t in, out, rows, area;
} row_batch;

static void begin_row(pccx_network *w, const softmax *s, const row_batch *b, uint32_t i)
{
    uint32_t at = b->area + i * (s->v->words + 1), in = b->in + i * s->v->words, columns = s->v->columns;
    find_maximum(w, s, in);
    if (s->own->operands[0])
        pccx_net_move(w, at, w->zeros, 1);
    pccx_lower_cvo(&w->l, PCCX_CVO_EXP, at + 1, in, columns, PCCX_LOWER_SUB_EMAX);
    if (!s->own->operands[0])
        pccx_lower_cvo(&w->l, PCCX_CVO_REDUCE_SUM, at, at + 1, columns, 0);
}

static void end_row(pccx_network *w, const softmax *s, const row_batch *b, uint32_t i)
{
    pccx_lower_cvo(&w->l, PCCX_CVO_SCALE, b->out + i * s->v->words, b->area + i * (s->v->words + 1), s->v->columns,
                   PCCX_LOWER_RECIP_SCALE);
}

/* The rows of a tile, batch by batch in two areas. The divisions of a batch and the exponentials of the next one are in
 * turn, because each of these waits for the maximum of its row. */
static void softmax_tile(pccx_network *w, const softmax *s, uint32_t out, uint32_t in, uint32_t rows, uint32_t areas,
                         uint32_t size)
{
    uint32_t words = s->v->words, pitch = words + 1;
    row_batch last = {0};
    for (uint32_t r = 0, n = 0; r < rows || last.rows; r += size, n++) {
        uint32_t rest = r < rows ? rows - r : 0;
        row_batch b = {in + r * words, out + r * words, rest < size ? rest : size, areas + n % 2 * size * 3 * pitch};
        for (uint32_t i = 0; i < b.rows || i < last.rows; i++) {
            if (i < b.rows)
                begin_row(w, s, &b, i);
            if (i < last.rows)
                end_row(w, s, &last, i);
        }
        if (b.rows && s->own->operands[0])
            sum_rows(w, s, b.area, b.rows, b.area + b.rows * pitch, b.area + 2 * b.rows * pitch);
        last = b;
    }
}

tv_status pccx_net_softmax(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    enum { BATCH_MAX = 16 };
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    softmax s = {&w->nodes[node], pccx_net_value_at(w, n->output), is_masked(w, n)};
    const pccx_net_value *v = s.v;
    uint32_t half = pccx_net_scratch_size(w, node, true), area = 3 * (v->words + 1), batch = half / 4 / area;
    batch = batch < BATCH_MAX ? batch : BATCH_MAX;
    if (batch < 1 || half < 4 * v->words)
        return tv_backend_reject(w->graph, n, "pccx", "L2 for one row of it", sink);
    uint32_t count = rows_of_tile(w, node, v->rows, 4 * (uint64_t)v->words);
    for (uint32_t r = 0, tile = 0; r < v->rows; r += count) {
        uint32_t rows = v->rows - r < count ? v->rows - r : count;
        pccx_net_begin_tile(w, node, tile++, 2);
        uint32_t areas = pccx_net_scratch(w, 2 * batch * area), in = pccx_net_fetch(w, n->inputs[0], r, rows),
                 out = pccx_net_locate(w, n->output, r, rows);
        softmax_tile(w, &s, out, in, rows, areas, batch);
        pccx_net_put(w, n->output, r, rows, out);
    }
    return TV_OK;
}

/* A column of ones after a word of zeros, and what repeats the first lane of the last word. */
tv_status pccx_net_upload_softmax(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const pccx_net_value *v = pccx_net_value_at(w, pccx_net_graph_node(w, node)->output);
    pccx_net_node *own = &w->nodes[node];
    uint32_t rest = v->columns % PCCX_LOWER_LANES, k = (v->words + 1) * PCCX_LOWER_LANES,
             row_bytes = pccx_lower_beats(k) * PCCX_LOWER_BEAT_BYTES;
    uint8_t last[PCCX_LOWER_LANES * PCCX_LOWER_BEAT_BYTES] = {0};
    tv_status status = TV_OK;
    own->operands[0] = k <= w->k_max ? pccx_lower_reserve(&w->l, (uint64_t)PCCX_LOWER_LANES * row_bytes) : 0;
    own->operands[1] = pccx_lower_reserve(&w->l, sizeof last);
    if (w->l.timing)
        return TV_OK;
    uint8_t *ones = calloc(1, (size_t)row_bytes);
    if (!ones)
        return tv_fail_memory(sink);
    for (uint32_t c = PCCX_LOWER_LANES; c < PCCX_LOWER_LANES + v->columns; c++)
        ones[c / 2] |= (uint8_t)(1 << c % 2 * 4);
    for (uint32_t r = 0; r < PCCX_LOWER_LANES; r++)
        last[r * PCCX_LOWER_BEAT_BYTES + (r < rest ? r / 2 : 0)] = (uint8_t)(1 << (r < rest ? r % 2 * 4 : 0));
    if (own->operands[0])
        status = tv_machine_write(w->l.machine, "host", own->operands[0], ones, row_bytes, sink);
    if (status == TV_OK)
        status = tv_machine_write(w->l.machine, "host", own->operands[1], last, sizeof last, sink);
    free(ones);
    return status;
}

/* ---- Norms ---- */

/* to = x - mean, rows of a tile: the mean times -1 is a product, and so is what repeats it in all columns; a second one
 * repeats what the activations lose. `room` has two words for each row. */
static void center_rows(pccx_network *w, const pccx_net_node *own, const pccx_net_value *v, uint32_t to, uint32_t x,
                        uint32_t rows, uint32_t room)
{
    uint32_t lost = room + rows;
    pccx_net_small_product mean = {own->operands[2],
                                   own->operands[2] + PCCX_LOWER_WORD_BYTES,
                                   rows,
                                   PCCX_LOWER_LANES,
                                   v->columns,
                                   0},
                           repeat = {w->l.map.ones, w->units[0], rows, v->columns, 1, PCCX_LOWER_ACCM};
    pccx_net_multiply_small(w, &mean, room, x);
    pccx_net_move(w, lost, room, rows);
    pccx_net_multiply_identity(w, lost, room, rows, PCCX_LOWER_LANES, true, PCCX_LOWER_ACCM);
    pccx_net_move(w, to, x, rows * v->words);
    pccx_net_multiply_small(w, &repeat, to, room);
    pccx_net_multiply_small(w, &repeat, to, lost);
}

/* The work on a row has two stages; that of the next row begins before the second one, so that engines overlap. */

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

/* to = x / sqrt(sum of squares + length * epsilon), times gains that include the root of the length, unless these are a
 * matrix */
static void end_normalize(pccx_network *w, uint32_t node, const pccx_net_value *v, uint32_t to, uint32_t x,
                          uint32_t squares)
{
    uint32_t padded = v->words * PCCX_LOWER_LANES, root = squares + ROOT, sum = squares + SUM;
    pccx_lower_cvo(&w->l, PCCX_CVO_REDUCE_SUM, sum, squares, padded < PCCX_LOWER_BLOCK ? padded : PCCX_LOWER_BLOCK,
                   PCCX_LOWER_ACCM);
    pccx_lower_cvo(&w->l, PCCX_CVO_SQRT, root, sum, 1, 0);
    pccx_net_move(w, root + 1, x, v->words);
    bool dense = w->nodes[node].matrix.rows;
    pccx_lower_cvo(&w->l, PCCX_CVO_SCALE, dense ? to : root + 1, root, v->columns, PCCX_LOWER_RECIP_SCALE);
    if (!dense)
        pccx_lower_multiply(&w->l, to, root + 1, w->nodes[node].operands[1], w->l.map.identity, padded, false, false);
}

/* Both stages of the rows of a tile. */
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

/* x[rows] times a diagonal matrix, whose activations have a scale for numbers of at most 8 deviations; a second product
 * adds what they lose. */
static void multiply_gains(pccx_network *w, const pccx_net_node *own, const pccx_net_value *v, uint32_t x,
                           uint32_t rows)
{
    enum { DEVIATIONS = 8, STEPS = 127 };
    float scale = exp2f(roundf(log2f(DEVIATIONS / sqrtf((float)v->columns) / STEPS)));
    pccx_net_product p = {.matrix = &own->matrix,
                          .n1 = own->matrix.rows,
                          .k = own->matrix.columns,
                          .m = rows,
                          .flags = (unsigned)tv_bf16_from_f32(scale) << PCCX_LOWER_SCALE_SHIFT};
    uint32_t lost = pccx_net_scratch(w, (uint64_t)rows * v->words);
    pccx_net_move(w, lost, x, rows * v->words);
    pccx_net_multiply_words(w, lost, x, rows * v->words, w->l.map.minus_ones, p.flags | PCCX_LOWER_ACCM);
    pccx_net_multiply(w, &p, x, x, false);
    p.flags = 0;
    pccx_net_multiply(w, &p, x, lost, true);
}

/* The mean is subtracted in a first pass, the result of which, or the input, is stored before its squares are
 * products. */
tv_status pccx_net_norm(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    enum { ROWS_MAX = 48 }; /* so that the gains of a tile are multiplied while the SFU processes the next one */
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_node *own = &w->nodes[node];
    pccx_net_value *v = pccx_net_value_at(w, n->output);
    uint32_t count = rows_of_tile(w, node, v->rows < ROWS_MAX ? v->rows : ROWS_MAX, 3 * (uint64_t)v->words + 2),
             x = n->inputs[0];
    uint64_t vectors = pccx_net_value_at(w, x)->home;
    for (uint32_t r = 0, tile = 0; r < v->rows && own->operands[2]; r += count) {
        uint32_t rows = v->rows - r < count ? v->rows - r : count;
        pccx_net_begin_tile(w, node, tile++, 2);
        uint32_t in = pccx_net_fetch(w, x, r, rows), out = pccx_net_locate(w, n->output, r, rows);
        center_rows(w, own, v, out, in, rows, pccx_net_scratch(w, 2 * (uint64_t)rows));
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
        if (own->matrix.rows)
            multiply_gains(w, own, v, out, rows);
        if (own->bias)
            pccx_net_add_row(w, out, own->bias, rows, v->columns, false, true);
        pccx_net_put(w, n->output, r, rows, out);
    }
    return TV_OK;
}

/* The column of the mean: scales, of which the first one is -1 / length, and the rows; the others are zero. */
static tv_status upload_mean(pccx_network *w, uint32_t node, uint32_t columns, const tv_diag_sink *sink)
{
    uint32_t row_bytes = pccx_lower_beats(columns) * PCCX_LOWER_BEAT_BYTES,
             bytes = PCCX_LOWER_WORD_BYTES + PCCX_LOWER_LANES * row_bytes;
    w->nodes[node].operands[2] = pccx_lower_reserve(&w->l, bytes);
    if (w->l.timing)
        return TV_OK;
    uint8_t *image = calloc(1, bytes);
    if (!image)
        return tv_fail_memory(sink);
    tv_store_le(image, tv_bf16_from_f32(-1 / (float)columns), 2);
    for (uint32_t c = 0; c < columns; c++)
        image[PCCX_LOWER_WORD_BYTES + c / 2] |= (uint8_t)(1 << c % 2 * 4);
    tv_status status = tv_machine_write(w->l.machine, "host", w->nodes[node].operands[2], image, bytes, sink);
    free(image);
    return status;
}

tv_status pccx_net_upload_norm(pccx_network *w, uint32_t node, const float *gains, const tv_diag_sink *sink)
{
    enum { DENSE_MAX = 1024, ROWS_MIN = 32 };
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *v = pccx_net_value_at(w, n->output);
    if (n->attrs.subtract_mean || n->op == TV_OP_LAYER_NORMALIZATION)
        TV_TRY(upload_mean(w, node, v->columns, sink));
    if (v->columns > DENSE_MAX || v->columns > w->k_max || v->rows < ROWS_MIN)
        return TV_OK;
    float *values = w->l.timing ? NULL : calloc((uint64_t)v->columns * v->columns, sizeof *values),
          root = sqrtf((float)v->columns);
    if (!values && !w->l.timing)
        return tv_fail_memory(sink);
    for (uint64_t i = 0; i < v->columns && values; i++)
        values[i * (v->columns + 1)] = gains ? gains[i] * root : root;
    tv_matrix from = {.name = "gains", .values = values, .rows = v->columns, .columns = v->columns, .count = 1};
    const tv_weight_report report = w->l.weights;
    w->l.weights = (tv_weight_report){0};
    pccx_lower_reserve_matrix(&w->l, &from, pccx_lower_padded(v->columns), 1, &w->nodes[node].matrix);
    tv_status status = w->l.timing ? TV_OK : pccx_lower_pack(&w->l, &from, 1, &w->nodes[node].matrix, sink);
    w->l.weights = report;
    free(values);
    return status;
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
