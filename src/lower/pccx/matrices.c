/* SPDX-License-Identifier: Apache-2.0 */
/* Packs weight matrices into pccx's host memory. What plan.c folds into weights (gains of norms, the root of their
 * length, the scale of scores) is multiplied before quantization. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "kernels/quantize.h"
#include "lower/pccx/state.h"
#include "machine/target.h"
#include "num/float.h"

/* Rows of a matrix that are packed at once: the image of these rows is the only copy besides the machine's memory. */
enum { ROWS_PER_TASK = 4096 };

typedef struct upload {
    const pccx_lowering *l;
    const tv_matrix *from;
    const pccx_lower_matrix *to;
    const float *gains;           /* per column, or NULL */
    float factor;                 /* of all elements */
    uint32_t matrix;              /* of a stack */
    uint32_t first, rows;         /* of the rows in `image` */
    uint8_t *image;               /* as a block of `rows` rows */
    tv_weight_error *errors, sum; /* of the rows in `image`, or NULL; of all */
    atomic_bool failed;
} upload;

/* Writes row `row` of a block of `rows` rows: its scale and beats in every group and plane. `values` become their
 * errors. */
static void quantize_row(const upload *p, float *values, uint8_t *block, uint32_t rows, uint32_t row)
{
    const pccx_lowering *l = p->l;
    for (uint32_t at = 0; at < p->to->columns; at += l->group) {
        uint32_t columns = p->to->columns - at < l->group ? p->to->columns - at : l->group;
        for (unsigned plane = 0; plane < p->to->planes; plane++) {
            uint8_t *beats = block + (uint64_t)pccx_lower_l2_size(rows) * PCCX_LOWER_WORD_BYTES +
                             (uint64_t)row * pccx_lower_beats(columns) * PCCX_LOWER_BEAT_BYTES;
            tv_store_le(block + 2 * (uint64_t)row, pccx_lower_quantize(l->scale_search, values + at, columns, beats),
                        2);
            block += pccx_lower_plane_bytes(rows, columns);
        }
    }
}

/* Decodes row `row` of the image and multiplies it. False: a product is not finite, or a weight is not (*status). */
static bool read_scaled_row(const upload *p, uint64_t row, float *values, tv_status *status)
{
    bool finite;
    *status = tv_matrix_row_f32(p->from, (uint64_t)p->matrix * p->from->rows + p->first + row, values);
    if (*status != TV_OK)
        return false;
    for (uint32_t i = 0; i < p->from->columns; i++)
        values[i] *= p->factor * (p->gains ? p->gains[i] : 1);
    return tv_absmax(values, p->from->columns, &finite) <= tv_bf16_to_f32(TV_BF16_MAX) && finite;
}

static void pack_rows(void *user, uint64_t from, uint64_t to)
{
    upload *p = user;
    uint32_t columns = p->to->columns;
    tv_status status;
    float *values =
        calloc((size_t)pccx_lower_beats(columns) * PCCX_LOWER_BEAT_WEIGHTS, sizeof *values); /* padding stays 0 */
    float *weights = p->errors ? malloc(columns * sizeof *weights) : NULL;
    uint64_t r = from;
    for (; r < to && values && (weights || !p->errors); r++) {
        if (p->first + r >= p->from->rows)
            memset(values, 0, columns * sizeof *values);
        else if (!read_scaled_row(p, r, values, &status))
            break;
        if (weights)
            memcpy(weights, values, columns * sizeof *values);
        quantize_row(p, values, p->image, p->rows, (uint32_t)r);
        if (weights && p->first + r < p->from->rows)
            tv_weight_error_add(&p->errors[r], weights, values, p->from->columns);
    }
    if (r < to)
        p->failed = true;
    free(weights);
    free(values);
}

/* The Norm whose gains are part of the weights that multiply a value, or NULL. */
static const tv_graph_node *folded_norm(const pccx_lowering *l, uint32_t value)
{
    const tv_graph_value *v = tv_graph_value_at(l->graph, value);
    const tv_graph_node *n = v->source == TV_VALUE_COMPUTED ? tv_graph_node_at(l->graph, v->producer) : NULL;
    return n && n->op == TV_OP_NORM && pccx_lower_fold_of(l, n)->gains ? n : NULL;
}

/* A norm divides by the root of the sum of squares; the root of its length is missing. */
float pccx_lower_norm_factor(const pccx_lowering *l, const tv_graph_node *norm)
{
    return sqrtf((float)pccx_lower_norm_size(l, norm)) * pccx_lower_fold_of(l, norm)->factor;
}

/* Swish: the gate is negated, and what it is multiplied by. */
float pccx_lower_weight_factor(const pccx_lowering *l, const tv_graph_node *n)
{
    float factor = pccx_lower_fold_of(l, n)->factor;
    return n->attrs.activation == TV_ACTIVATION_SWISH ? -factor : factor;
}

/* Writes the packed rows to their places in the block at `addr`, which has `rows` rows from row `first` of the matrix
 * on: in each plane of each group, the scales and the beats. */
static tv_status write_packed(const upload *p, uint64_t addr, uint32_t first, uint32_t rows, const tv_diag_sink *sink)
{
    const pccx_lowering *l = p->l;
    const uint8_t *image = p->image;
    if (p->rows == rows) /* the image is the block */
        return tv_machine_write(l->machine, "host", addr, image,
                                pccx_lower_block_bytes(l, p->to->planes, rows, p->to->columns), sink);
    for (uint32_t at = 0; at < p->to->columns; at += l->group) {
        uint32_t columns = p->to->columns - at < l->group ? p->to->columns - at : l->group;
        uint64_t row_bytes = (uint64_t)pccx_lower_beats(columns) * PCCX_LOWER_BEAT_BYTES,
                 scale_bytes = (uint64_t)pccx_lower_l2_size(p->rows) * PCCX_LOWER_WORD_BYTES,
                 block_scale_bytes = (uint64_t)pccx_lower_l2_size(rows) * PCCX_LOWER_WORD_BYTES;
        for (unsigned plane = 0; plane < p->to->planes; plane++) {
            TV_TRY(tv_machine_write(l->machine, "host", addr + (uint64_t)(p->first - first) * 2, image,
                                    (size_t)p->rows * 2, sink));
            TV_TRY(tv_machine_write(l->machine, "host", addr + block_scale_bytes + (p->first - first) * row_bytes,
                                    image + scale_bytes, p->rows * row_bytes, sink));
            image += pccx_lower_plane_bytes(p->rows, columns);
            addr += pccx_lower_plane_bytes(rows, columns);
        }
    }
    return TV_OK;
}

/* Reports the first row of the image that overflows, or what tv_matrix_fail finds. */
static tv_status fail_packing(const upload *p, const tv_diag_sink *sink)
{
    tv_status status = TV_OK;
    uint64_t row = 0;
    float *values = malloc(p->from->columns * sizeof *values);
    while (values && row < p->rows && p->first + row < p->from->rows && read_scaled_row(p, row, values, &status))
        row++;
    free(values);
    if (values && status == TV_OK && row < p->rows && p->first + row < p->from->rows)
        return pccx_lower_fail_overflow(p->from, (uint64_t)p->matrix * p->from->rows + p->first + row, sink);
    return tv_matrix_fail(p->from, sink);
}

/* Writes one matrix of a stack, to `addr`. */
static tv_status pack_matrix(upload *p, uint64_t addr, const tv_diag_sink *sink)
{
    const pccx_lower_matrix *to = p->to;
    uint64_t whole_block = pccx_lower_block_bytes(p->l, to->planes, PCCX_LOWER_BLOCK_ROWS, to->columns);
    tv_status status = TV_OK;
    static_assert(PCCX_LOWER_BLOCK_ROWS % ROWS_PER_TASK == 0, "a task is part of one block");
    for (p->first = 0; p->first < to->rows && status == TV_OK; p->first += p->rows) {
        uint32_t block = p->first / PCCX_LOWER_BLOCK_ROWS, first = block * PCCX_LOWER_BLOCK_ROWS,
                 rest = to->rows - first;
        p->rows = to->rows - p->first < ROWS_PER_TASK ? to->rows - p->first : ROWS_PER_TASK;
        if (p->errors)
            memset(p->errors, 0, p->rows * sizeof *p->errors);
        tv_pool_run(tv_machine_pool(p->l->machine), p->rows, pack_rows, p);
        tv_weight_error_sum(&p->sum, p->errors, p->errors ? p->rows : 0);
        status = p->failed ? fail_packing(p, sink)
                           : write_packed(p, addr + block * whole_block, first,
                                          rest < PCCX_LOWER_BLOCK_ROWS ? rest : PCCX_LOWER_BLOCK_ROWS, sink);
    }
    return status;
}

static void report_packed(const upload *p)
{
    char format[48];
    uint32_t group = p->l->group < p->to->columns ? p->l->group : p->to->columns;
    snprintf(format, sizeof format, "%sINT4, scales of %u", p->to->planes > 1 ? "2 x " : "", group);
    p->l->weights.report(p->l->weights.user, p->from, format, &p->sum);
}

static tv_status pack_matrices(upload *p, const tv_diag_sink *sink)
{
    const pccx_lower_matrix *to = p->to;
    uint32_t rows = to->rows < ROWS_PER_TASK ? to->rows : ROWS_PER_TASK;
    p->image = calloc(1, pccx_lower_block_bytes(p->l, to->planes, rows, to->columns));
    p->errors = p->l->weights.report ? malloc(rows * sizeof *p->errors) : NULL;
    tv_status status = p->image && (p->errors || !p->l->weights.report) ? TV_OK : tv_fail_memory(sink);
    for (; p->matrix < p->from->count && status == TV_OK; p->matrix++)
        status = pack_matrix(p, to->addr + p->matrix * to->bytes, sink);
    if (p->errors && status == TV_OK)
        report_packed(p);
    free(p->errors);
    free(p->image);
    tv_matrix_drop(p->from);
    return status;
}

/* Gains of the norm before Linear, gate and up, and factors become part of the weights. */
static tv_status pack_folded(pccx_lowering *l, const tv_graph_node *n, unsigned input, const pccx_lower_matrix *to,
                             const tv_diag_sink *sink)
{
    const tv_matrix *from = tv_graph_matrix(l->graph, n->inputs[input]);
    bool down = n->op == TV_OP_MOE && input == 4;
    const tv_graph_node *norm = down ? NULL : folded_norm(l, n->inputs[0]);
    upload p = {.l = l, .from = from, .to = to, .factor = down ? 1 : pccx_lower_weight_factor(l, n)};
    float *gains = malloc(from->columns * sizeof *gains);
    tv_status status = gains ? TV_OK : tv_fail_memory(sink);
    if (norm)
        p.factor *= pccx_lower_norm_factor(l, norm);
    if (status == TV_OK && norm && norm->inputs[1] != TV_NO_VALUE) {
        status = pccx_lower_read_row(tv_graph_matrix(l->graph, norm->inputs[1]), 0, 1, gains, sink);
        p.gains = gains;
    }
    if (status == TV_OK)
        status = pack_matrices(&p, sink);
    free(gains);
    return status;
}

void pccx_lower_reserve_matrix(pccx_lowering *l, const tv_matrix *from, uint32_t rows, unsigned planes,
                               pccx_lower_matrix *to)
{
    to->rows = rows;
    to->columns = pccx_lower_padded(from->columns);
    to->planes = planes;
    uint32_t rest = to->rows % PCCX_LOWER_BLOCK_ROWS;
    to->bytes =
        to->rows / PCCX_LOWER_BLOCK_ROWS * pccx_lower_block_bytes(l, to->planes, PCCX_LOWER_BLOCK_ROWS, to->columns) +
        (rest ? pccx_lower_block_bytes(l, to->planes, rest, to->columns) : 0);
    to->addr = pccx_lower_reserve(l, from->count * to->bytes);
}

tv_status pccx_lower_pack(pccx_lowering *l, const tv_matrix *from, float factor, const pccx_lower_matrix *to,
                          const tv_diag_sink *sink)
{
    upload p = {.l = l, .from = from, .to = to, .factor = factor};
    return pack_matrices(&p, sink);
}

tv_status pccx_lower_upload_matrix(pccx_lowering *l, const tv_graph_node *n, unsigned input, pccx_lower_matrix *to,
                                   const tv_diag_sink *sink)
{
    const tv_matrix *from = tv_graph_matrix(l->graph, n->inputs[input]);
    pccx_lower_reserve_matrix(l, from, pccx_lower_is_wide(l, n->output) ? from->rows : pccx_lower_padded(from->rows),
                              pccx_lower_fold_of(l, n)->precise && l->planes < 2 ? 2 : l->planes, to);
    return l->timing ? TV_OK : pack_folded(l, n, input, to, sink);
}
