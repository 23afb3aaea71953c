/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of Gather in pccx's host memory: BF16 rows, which are copied, or packed rows of INT4, which a quarter of the
 * bytes holds. upload.c packs the largest tables if memory is short.
 *
 * A packed row of B beats is read as the weights of 32 products, one for each position in a beat: the activations of
 * product k are 1 at position k and 0 elsewhere, so its outputs are element k of each beat, times the beat's scale.
 * Element k of beat b is element k * B + b of the row: outputs of one product are neighbours. */
#include <stdatomic.h>
#include <stdlib.h>

#include "lower/pccx/state.h"
#include "machine/target.h"
#include "num/float.h"

enum { ROWS_PER_TASK = 256 };

/* ---- Sizes ---- */

/* Beats of a packed row: whole L2 words of outputs. */
static uint32_t packed_beats(uint32_t columns) { return pccx_lower_padded(pccx_lower_beats(columns)); }

static uint64_t packed_plane_bytes(uint32_t columns)
{
    return (uint64_t)packed_beats(columns) * (2 + PCCX_LOWER_BEAT_BYTES);
}

uint64_t pccx_lower_table_row_bytes(const pccx_lowering *l, uint32_t columns, bool packed)
{
    return packed ? l->planes * packed_plane_bytes(columns)
                  : (uint64_t)pccx_lower_l2_size(columns) * PCCX_LOWER_WORD_BYTES;
}

/* ---- Upload ---- */

typedef struct table_task {
    const pccx_lowering *l;
    const tv_matrix *from;
    uint64_t first, row_bytes; /* row of the table that is row 0 of `image` */
    bool packed;
    uint8_t *image;
    tv_weight_error *errors; /* of the rows in `image`, or NULL: not measured */
    atomic_bool failed;
} table_task;

/* These two replace the row by its errors. */
static void store_row(const table_task *t, float *row, uint8_t *to)
{
    for (uint32_t i = 0; i < t->from->columns; i++) {
        uint16_t bits = tv_bf16_flushed_from_f32(row[i]);
        tv_store_le(to + 2 * (size_t)i, bits, 2);
        row[i] -= tv_bf16_to_f32(bits);
    }
}

static void pack_row(const table_task *t, float *row, uint8_t *to)
{
    uint32_t columns = t->from->columns, beats = packed_beats(columns);
    for (uint32_t b = 0; b < beats; b++) {
        float values[PCCX_LOWER_BEAT_WEIGHTS] = {0};
        for (uint32_t k = 0; k < PCCX_LOWER_BEAT_WEIGHTS; k++)
            values[k] = k * beats + b < columns ? row[k * beats + b] : 0;
        for (unsigned plane = 0; plane < t->l->planes; plane++) {
            uint8_t *scales = to + plane * packed_plane_bytes(columns);
            tv_store_le(scales + 2 * (size_t)b,
                        pccx_lower_quantize(t->l->scale_search, values, PCCX_LOWER_BEAT_WEIGHTS,
                                            scales + 2 * (size_t)beats + (size_t)b * PCCX_LOWER_BEAT_BYTES),
                        2);
        }
        for (uint32_t k = 0; k < PCCX_LOWER_BEAT_WEIGHTS && k * beats + b < columns; k++)
            row[k * beats + b] = values[k];
    }
}

static void convert_rows(void *user, uint64_t from, uint64_t to)
{
    table_task *t = user;
    uint32_t columns = t->from->columns;
    float *row = malloc(columns * sizeof *row), *weights = malloc(columns * sizeof *weights);
    bool ok = row && weights;
    for (uint64_t r = from; r < to && ok; r++) {
        ok = tv_matrix_row_f32(t->from, t->first + r, row) == TV_OK;
        if (ok && t->errors)
            memcpy(weights, row, columns * sizeof *row);
        if (ok && t->packed)
            pack_row(t, row, t->image + r * t->row_bytes);
        else if (ok)
            store_row(t, row, t->image + r * t->row_bytes);
        if (ok && t->errors)
            tv_weight_error_add(&t->errors[r], weights, row, columns);
    }
    if (!ok)
        t->failed = true;
    free(weights);
    free(row);
}

static tv_status write_table(pccx_lowering *l, const tv_matrix *from, const pccx_lower_constants *c, bool packed,
                             const tv_diag_sink *sink)
{
    table_task t = {.l = l, .from = from, .row_bytes = c->row_bytes, .packed = packed};
    tv_weight_error errors[ROWS_PER_TASK], sum = {0};
    t.image = calloc(ROWS_PER_TASK, c->row_bytes);
    t.errors = l->weights.report ? errors : NULL;
    tv_status status = t.image ? TV_OK : tv_fail_memory(sink);
    for (uint64_t rows; t.first < from->rows && status == TV_OK; t.first += rows) {
        rows = from->rows - t.first < ROWS_PER_TASK ? from->rows - t.first : ROWS_PER_TASK;
        memset(errors, 0, sizeof errors);
        tv_pool_run(tv_machine_pool(l->machine), rows, convert_rows, &t);
        tv_weight_error_sum(&sum, errors, rows);
        status = t.failed ? tv_matrix_fail(from, sink)
                          : tv_machine_write(l->machine, "host", c->table + t.first * c->row_bytes, t.image,
                                             rows * c->row_bytes, sink);
    }
    if (t.errors && status == TV_OK)
        l->weights.report(l->weights.user, from,
                          !packed         ? "BF16"
                          : l->planes > 1 ? "2 x INT4, scales of 32"
                                          : "INT4, scales of 32",
                          &sum);
    free(t.image);
    tv_matrix_drop(from);
    return status;
}

tv_status pccx_lower_upload_table(pccx_lowering *l, uint32_t node, const tv_diag_sink *sink)
{
    pccx_lower_constants *c = &l->constants[node];
    const tv_matrix *from = tv_graph_matrix(l->graph, tv_graph_node_at(l->graph, node)->inputs[0]);
    bool packed = l->folds[node].packed;
    c->row_bytes = pccx_lower_table_row_bytes(l, from->columns, packed);
    c->table = pccx_lower_reserve(l, from->rows * c->row_bytes);
    return l->timing ? TV_OK : write_table(l, from, c, packed, sink);
}

/* ---- Reading ---- */

static void gather_packed(pccx_lowering *l, uint32_t out, uint64_t row, uint32_t columns)
{
    uint32_t beats = packed_beats(columns), padded = pccx_lower_padded(columns);
    for (uint32_t k = 0; k < PCCX_LOWER_BEAT_WEIGHTS && k * beats < padded; k++)
        for (unsigned plane = 0; plane < l->planes; plane++) {
            uint32_t count = padded - k * beats < beats ? padded - k * beats : beats;
            uint64_t scales = row + plane * packed_plane_bytes(columns);
            pccx_lower_stream(l, false, scales, 2 * (uint64_t)count);
            pccx_lower_stream(l, false, scales + 2 * (uint64_t)beats, (uint64_t)count * PCCX_LOWER_BEAT_BYTES);
            pccx_lower_gemv(l, out + k * beats / PCCX_LOWER_LANES,
                            l->plan.units + k * pccx_lower_l2_size(PCCX_LOWER_BEAT_WEIGHTS), count,
                            PCCX_LOWER_BEAT_WEIGHTS, plane ? PCCX_LOWER_ACCM : 0);
        }
}

tv_status pccx_lower_gather(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    bool by_token = tv_graph_value_at(l->graph, n->inputs[1])->source == TV_VALUE_TOKENS;
    for (uint32_t r = l->row_first; r < l->row_end; r++) {
        uint64_t row = c->table + (by_token ? (uint64_t)l->tokens[r] : l->position + r) * c->row_bytes;
        if (pccx_lower_fold_of(l, n)->packed)
            gather_packed(l, pccx_lower_row_addr(l, n->output, r), row, pccx_lower_columns(l, n->output));
        else
            pccx_lower_load(l, pccx_lower_row_addr(l, n->output, r), row, pccx_lower_columns(l, n->output));
    }
    return TV_OK;
}
