/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers products to GEMM and GEMV: a GEMM multiplies all rows of a tile with all columns of a matrix, so that its
 * weights stream once for each tile. */
#include <stdio.h>
#include <stdlib.h>

#include "lower/pccx/network_state.h"

/* ---- Linear ---- */

typedef struct linear {
    const tv_graph_node *n;
    const pccx_net_node *own;
    uint32_t node, residual, rows, columns, count; /* rows and columns of a tile; its number of columns' tiles */
} linear;

/* Linear adds its residual to the activation, Conv before it. */
static bool adds_after(const linear *t)
{
    return t->n->op == TV_OP_LINEAR && t->residual != TV_NO_VALUE && t->n->attrs.activation;
}

/* Rows of the input for columns [from, from + k) only. */
static uint32_t input_group(pccx_network *w, uint32_t in, uint32_t rows, uint32_t words, uint32_t from, uint32_t k)
{
    if (rows == 1 || pccx_lower_l2_size(k) == words)
        return in + from / PCCX_LOWER_LANES;
    uint32_t to = pccx_net_scratch(w, (uint64_t)rows * pccx_lower_l2_size(k));
    for (uint32_t r = 0; r < rows; r++)
        pccx_net_move(w, to + r * pccx_lower_l2_size(k), in + r * words + from / PCCX_LOWER_LANES,
                      pccx_lower_l2_size(k));
    return to;
}

/* Rows of a value, some of their columns, at `to`; or the inverse. */
static void copy_columns(pccx_network *w, uint32_t value, uint32_t row, uint32_t rows, uint32_t n0, uint32_t n1,
                         uint32_t addr, bool write)
{
    const pccx_net_value *v = pccx_net_value_at(w, value);
    uint32_t words = pccx_lower_l2_size(n1 - n0);
    bool whole = words == v->words;
    for (uint32_t r = 0; r < (whole ? 1 : rows); r++) {
        uint64_t at = (uint64_t)(row + r) * v->words + n0 / PCCX_LOWER_LANES,
                 count = whole ? (uint64_t)rows * words : words;
        if (write)
            pccx_net_write_words(w, value, at, addr + r * words, count);
        else
            pccx_net_read_words(w, addr + r * words, value, at, count);
    }
}

/* Columns [n0, n1) of the rows of a tile whose input is at `in`. */
static void linear_columns(pccx_network *w, const linear *t, uint32_t in, uint32_t row, uint32_t rows, uint32_t n0,
                           uint32_t n1)
{
    uint32_t words = pccx_lower_l2_size(n1 - n0), in_words = pccx_lower_l2_size(t->own->k), groups = w->l.group;
    bool direct = words == pccx_net_value_at(w, t->n->output)->words, after = adds_after(t);
    uint32_t out = direct ? pccx_net_locate(w, t->n->output, row, rows) : pccx_net_scratch(w, (uint64_t)rows * words);
    bool accm = false;
    if (t->residual != TV_NO_VALUE && !after) {
        copy_columns(w, t->residual, row, rows, n0, n1, out, false);
        accm = true;
    }
    if (t->own->bias)
        pccx_net_add_row(w, out, t->own->bias + 2 * (uint64_t)n0, rows, n1 - n0, false, accm);
    accm = accm || t->own->bias;
    for (uint32_t from = 0; from < t->own->k; from += groups) {
        uint32_t k = t->own->k - from < groups ? t->own->k - from : groups;
        pccx_net_product p = {&t->own->matrix, 0, n0, n1, from, k, rows};
        pccx_net_multiply(w, &p, out, input_group(w, in, rows, in_words, from, k), accm || from);
    }
    pccx_net_activate(w, t->node, out, rows * words * PCCX_LOWER_LANES);
    if (after) {
        uint32_t residual = pccx_net_scratch(w, (uint64_t)rows * words);
        copy_columns(w, t->residual, row, rows, n0, n1, residual, false);
        pccx_lower_scale(&w->l, out, residual, pccx_lower_common_scalar(&w->l, PCCX_COMMON_ONE),
                         rows * words * PCCX_LOWER_LANES, PCCX_LOWER_ACCM);
    }
    if (direct)
        pccx_net_put(w, t->n->output, row, rows, out);
    else
        copy_columns(w, t->n->output, row, rows, n0, n1, out, true);
}

/* Words of scratch space of a tile. */
static uint64_t tile_words(const pccx_network *w, const linear *t, uint32_t rows, uint32_t columns)
{
    const pccx_net_value *in = pccx_net_value_at(w, t->n->inputs[0]), *out = pccx_net_value_at(w, t->n->output);
    uint64_t own = (uint64_t)rows * pccx_lower_l2_size(columns), words = 0;
    bool whole = columns == pccx_lower_padded(out->columns);
    if (in->l2 == PCCX_LOWER_NO_BUFFER)
        words += (uint64_t)rows * in->words;
    if (t->own->k > w->l.group && rows > 1)
        words += (uint64_t)rows * in->words * (pccx_lower_padded(out->columns) / columns);
    if (out->l2 == PCCX_LOWER_NO_BUFFER || !whole)
        words += own * (whole ? 1 : 2);
    return words + (adds_after(t) ? own : 0);
}

/* Estimated cycles of all tiles: the busiest engine, and what does not overlap. */
static double estimate(const pccx_network *w, const linear *t, uint32_t rows, uint32_t columns, double *costs)
{
    enum { MOVE = 8 };
    static const double conflicts = 0.1; /* share of the copies that others wait for */
    const pccx_net_value *in = pccx_net_value_at(w, t->n->inputs[0]), *out = pccx_net_value_at(w, t->n->output);
    double tiles = (out->rows + rows - 1) / rows, chunks = (pccx_lower_padded(out->columns) + columns - 1) / columns,
           planes = t->own->matrix.planes,
           steps = (double)((t->own->k + w->tile_k - 1) / w->tile_k) * (double)((columns + w->tile_n - 1) / w->tile_n);
    double gemm = planes * chunks * tiles * (w->gemm_setup + steps * (rows > w->min_rows ? rows : w->min_rows)),
           stream = tiles * (double)t->own->matrix.bytes / w->stream_rate, copy = 0;
    bool resident = out->l2 != PCCX_LOWER_NO_BUFFER;
    double load = 0, setup = resident ? MOVE : w->copy_setup,
           words = resident ? 1 : PCCX_LOWER_WORD_BYTES / w->copy_rate;
    if (in->l2 == PCCX_LOWER_NO_BUFFER)
        load = tiles * (w->copy_setup + (double)rows * in->words * PCCX_LOWER_WORD_BYTES / w->copy_rate);
    if (t->residual != TV_NO_VALUE) {
        bool near = pccx_net_value_at(w, t->residual)->l2 != PCCX_LOWER_NO_BUFFER;
        load += (chunks > 1 ? out->rows * chunks : tiles) * (near ? MOVE : w->copy_setup) +
                (double)out->rows * out->words * (near ? 1 : PCCX_LOWER_WORD_BYTES / w->copy_rate);
    }
    if (chunks > 1)
        copy = out->rows * (chunks * setup + out->words * words);
    else if (!resident)
        copy = tiles * setup + (double)out->rows * out->words * words;
    costs[0] = gemm;
    costs[1] = stream;
    costs[2] = load + copy;
    double max = gemm > stream ? gemm : stream;
    return (max > load + copy ? max : load + copy) + conflicts * (load + copy) +
           (load + (max < copy ? max : copy) / chunks) / tiles;
}

/* Chooses the tile with the fewest estimated cycles. */
static bool choose_tile(pccx_network *w, linear *t, char *plan)
{
    const pccx_net_value *out = pccx_net_value_at(w, t->n->output);
    uint32_t padded = pccx_lower_padded(out->columns);
    double best = 0;
    for (uint32_t tiles = 1; tiles <= out->rows; tiles = tiles < 16 ? tiles + 1 : tiles * 2)
        for (uint32_t chunks = 1; chunks <= 64; chunks *= 2) {
            uint32_t rows = (out->rows + tiles - 1) / tiles,
                     columns = padded > PCCX_LOWER_BLOCK_ROWS
                                   ? PCCX_LOWER_BLOCK_ROWS / chunks
                                   : ((padded + chunks - 1) / chunks + w->tile_n - 1) / w->tile_n * w->tile_n;
            columns = columns > padded ? padded : columns;
            bool one = rows == out->rows && columns == padded;
            double costs[3], cycles = estimate(w, t, rows, columns, costs);
            if (rows > UINT16_MAX || tile_words(w, t, rows, columns) > pccx_net_scratch_size(w, t->node, !one) ||
                (best > 0 && cycles >= best))
                continue;
            best = cycles;
            t->rows = rows;
            t->columns = columns;
            snprintf(plan, PCCX_NET_PLAN_MAX,
                     "%u x %u of %u x %u a tile; estimated GEMM %.0f, weights %.0f, copies %.0f cycles", rows, columns,
                     out->rows, padded, costs[0], costs[1], costs[2]);
        }
    return best > 0;
}

tv_status pccx_net_linear(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    linear t = {.n = n,
                .own = &w->nodes[node],
                .node = node,
                .residual = n->op == TV_OP_LINEAR || n->op == TV_OP_CONV ? n->inputs[3] : TV_NO_VALUE};
    const pccx_net_value *out = pccx_net_value_at(w, n->output);
    if (!choose_tile(w, &t, w->nodes[node].plan))
        return tv_backend_reject(w->graph, n, "pccx", "L2 for one row of it", sink);
    uint32_t padded = pccx_lower_padded(out->columns), tile = 0;
    for (uint32_t row = 0; row < out->rows; row += t.rows) {
        uint32_t rows = out->rows - row < t.rows ? out->rows - row : t.rows;
        pccx_net_begin_tile(w, node, tile++, t.rows == out->rows && t.columns == padded ? 1 : 2);
        uint32_t in = pccx_net_fetch(w, n->inputs[0], row, rows), first = w->scratch_next;
        for (uint32_t n0 = 0; n0 < padded; n0 += t.columns) {
            uint32_t n1 = padded - n0 < t.columns ? padded : n0 + t.columns;
            if (t.columns < padded) /* two chunks in turn */
                w->scratch_next = first + n0 / t.columns % 2 * rows * pccx_lower_l2_size(t.columns);
            linear_columns(w, &t, in, row, rows, n0, n1);
        }
    }
    return TV_OK;
}

/* ---- Products of two computed values ---- */

/* The host packs the second operand of each product of the batch, like weights. */
static tv_status pack_operand(pccx_network *w, const tv_graph_node *n, uint32_t count, const pccx_lower_matrix *to,
                              const tv_diag_sink *sink)
{
    const tv_weight_report report = w->l.weights; /* not of activations */
    uint8_t *image = w->l.emit ? malloc(count * to->bytes) : NULL;
    tv_status status = image || !w->l.emit ? TV_OK : tv_fail_memory(sink);
    w->l.weights = (tv_weight_report){0};
    if (status == TV_OK)
        status = pccx_net_pack_tensor(&w->l, pccx_net_tensor(w, n->inputs[1]), to, sink);
    w->l.weights = report;
    if (status == TV_OK && image)
        status = tv_machine_read(w->l.machine, "host", to->addr, image, count * to->bytes, sink);
    if (status == TV_OK && image)
        pccx_lower_add_data(&w->l, to->addr, image, count * to->bytes);
    free(image);
    return status;
}

/* a[batch][m][k] * b[batch][k][n], where the matrices of b repeat in order. */
tv_status pccx_net_matmul(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const tv_graph_shape *sb = &tv_graph_value_at(w->graph, n->inputs[1])->shape;
    const pccx_net_value *out = pccx_net_value_at(w, n->output);
    uint32_t k = (uint32_t)sb->dims[sb->rank - 2], columns = out->columns, m = 1,
             count = (uint32_t)(tv_graph_elements(w->graph, n->inputs[1]) / ((uint64_t)k * columns));
    const pccx_net_node *own = &w->nodes[node];
    m = out->rows / count;
    TV_TRY(pccx_net_to_host(w, n->inputs[1], sink));
    TV_TRY(pccx_net_run(w, sink)); /* the packed operand is written before the next program */
    pccx_net_count_host(w, "pack a matrix to INT4", (uint64_t)count * k * columns);
    if (!w->l.timing)
        TV_TRY(pack_operand(w, n, count, &own->matrix, sink));
    TV_TRY(pccx_net_note_pack(w, node, sink));
    for (uint32_t i = 0; i < count; i++) {
        pccx_net_begin_tile(w, node, i, count);
        uint32_t in = pccx_net_fetch(w, n->inputs[0], i * m, m), to = pccx_net_locate(w, n->output, i * m, m);
        for (uint32_t from = 0; from < k; from += w->l.group) {
            uint32_t count_k = k - from < w->l.group ? k - from : w->l.group;
            pccx_net_product p = {&own->matrix, i, 0, own->matrix.rows, from, count_k, m};
            pccx_net_multiply(w, &p, to, input_group(w, in, m, pccx_lower_l2_size(k), from, count_k), from > 0);
        }
        pccx_net_put(w, n->output, i * m, m, to);
    }
    return TV_OK;
}
