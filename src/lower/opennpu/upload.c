/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the constants of a graph to OpenNPU's data memory: 8-bit weights with a scale for each row, tables. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "graph/quantize.h"
#include "lower/opennpu/layout.h"
#include "num/float.h"

/* ---- Streams of weights ---- */

/* Columns of the stream. Whole registers are loaded, so the last ones may have more columns than the input. */
static uint64_t stream_columns(const opennpu_lower_model *m, uint32_t columns)
{
    return (uint64_t)opennpu_lower_chunks(m, columns) * m->k;
}

size_t opennpu_lower_linear_products(const opennpu_lower_model *m, const opennpu_lower_linear *linear,
                                     const opennpu_lower_input *input, uint32_t first, uint32_t count,
                                     opennpu_lower_product *list)
{
    const opennpu_lower_emitter *e = &m->e;
    opennpu_lower_pack pack;
    size_t product_count = 0;
    uint64_t w = linear->stream + first * stream_columns(m, linear->columns) * m->k;
    for (uint32_t i = 0; opennpu_lower_pack_at(e, input, i, &pack); i++)
        for (uint32_t lane = 0; lane < m->k; lane++) {
            unsigned planes = 0;
            uint32_t column = pack.chunk * m->k + lane;
            while (planes < 1u << pack.class_ && column + planes * m->k < linear->columns)
                planes++;
            for (uint32_t b = 0; b < count && planes; b++) {
                list[product_count++] = (opennpu_lower_product){.w = w,
                                                                .x = opennpu_lower_lane_addr(e, &pack, lane, b),
                                                                .column = column,
                                                                .block = first + b,
                                                                .class_ = (uint8_t)pack.class_,
                                                                .planes = (uint8_t)planes};
                w += (uint64_t)m->k << pack.class_;
            }
        }
    return product_count;
}

uint64_t opennpu_lower_key_block_addr(const opennpu_lower_model *m, uint32_t cache, uint32_t head, uint32_t block)
{
    return m->caches[cache].keys + ((uint64_t)head * m->position_blocks + block) * m->head_dim * m->k;
}

/* ---- Tables ---- */

static tv_status write_bytes(opennpu_lower_model *m, uint64_t at, const void *data, uint64_t bytes,
                             const tv_diag_sink *sink)
{
    return tv_machine_write(m->machine, "mem", at, data, (size_t)bytes, sink);
}

static tv_status write_u32s(opennpu_lower_model *m, uint64_t at, const uint32_t *words, size_t count,
                            const tv_diag_sink *sink)
{
    uint8_t *bytes = malloc(count * 4 + 1);
    if (!bytes)
        return tv_fail_memory(sink);
    for (size_t i = 0; i < count; i++)
        tv_store_le(bytes + 4 * i, words[i], 4);
    tv_status status = write_bytes(m, at, bytes, count * 4, sink);
    free(bytes);
    return status;
}

static tv_status write_floats(opennpu_lower_model *m, uint64_t at, const float *x, size_t count,
                              const tv_diag_sink *sink)
{
    uint32_t *words = malloc(count * sizeof *words + 1);
    if (!words)
        return tv_fail_memory(sink);
    for (size_t i = 0; i < count; i++)
        words[i] = tv_f32_bits(x[i]);
    tv_status status = write_u32s(m, at, words, count, sink);
    free(words);
    return status;
}

static tv_status upload_tables(opennpu_lower_model *m, const tv_diag_sink *sink)
{
    uint8_t mask[4 * (64 + 2 * OPENNPU_LOWER_PERIOD_MAX)] = {0};
    uint32_t score_limits[2 * 64];
    for (unsigned c = 0; c < 3; c++) {
        for (uint32_t i = 0; i < m->k + 2 * m->e.period; i++)
            memset(mask + ((size_t)i << c), i % m->e.period ? 0 : 0xFF, 1u << c);
        TV_TRY(write_bytes(m, m->e.masks[c], mask, (uint64_t)(m->k + 2 * m->e.period) << c, sink));
    }
    for (uint32_t i = 0; i < 2 * m->k; i++) /* scores of future positions are far below all others */
        score_limits[i] = i < m->k ? UINT32_C(0x7FFFFFFF) : UINT32_C(0xC0000000);
    float lanes[2 * 64];
    for (uint32_t i = 0; i < 2 * m->k; i++)
        lanes[i] = i < m->k ? 1 : 0;
    if (m->lane_mask)
        TV_TRY(write_floats(m, m->lane_mask, lanes, (size_t)2 * m->k, sink));
    TV_TRY(write_u32s(m, m->score_limits, score_limits, (size_t)2 * m->k, sink));
    for (uint32_t i = 0; i < 2 * m->k; i++)
        score_limits[i] = i < m->k ? UINT32_C(0xC0000000) : UINT32_C(0x7FFFFFFF);
    return write_u32s(m, m->causal_mask, score_limits, (size_t)2 * m->k, sink);
}

/* Frequencies of the pairs of a head: 0 for those that are not rotated. */
static tv_status read_frequencies(const opennpu_lower_model *m, const tv_graph_node *rope, double *out,
                                  const tv_diag_sink *sink)
{
    const tv_graph_attrs *a = &rope->attrs;
    uint32_t half = a->rotary_dim / 2;
    float *factors = malloc((half + 1) * sizeof *factors);
    tv_status status = factors ? TV_OK : tv_fail_memory(sink);
    bool divided = rope->inputs[1] != TV_NO_VALUE && !m->timing;
    if (status == TV_OK && divided &&
        tv_matrix_row_f32(tv_graph_matrix(m->graph, rope->inputs[1]), 0, factors) != TV_OK)
        status = tv_matrix_fail(tv_graph_matrix(m->graph, rope->inputs[1]), sink);
    for (uint32_t i = 0; i < m->head_dim / 2 && status == TV_OK; i++) {
        out[i] = i < half ? pow((double)a->theta, -2.0 * i / a->rotary_dim) * (double)a->frequency_scale : 0;
        if (divided && i < half)
            out[i] /= (double)factors[i];
    }
    free(factors);
    return status;
}

/* [position][period][cos, sin][lane]; the sine is negative for the first element of each pair. */
static tv_status upload_cos_sin(opennpu_lower_model *m, uint64_t at, const double *frequencies,
                                const tv_diag_sink *sink)
{
    float row[2 * 64];
    for (uint32_t t = 0; t < m->context; t++)
        for (uint32_t c = 0; c < m->rope_period; c++) {
            for (uint32_t i = 0; i < m->k; i++) {
                double angle = t * frequencies[(c * (m->k / 2) + i % (m->k / 2)) % (m->head_dim / 2)];
                row[i] = (float)cos(angle);
                row[m->k + i] = (float)(i < m->k / 2 ? -sin(angle) : sin(angle));
            }
            TV_TRY(write_floats(m, at + ((uint64_t)t * m->rope_period + c) * 2 * opennpu_lower_vector_bytes(m), row,
                                (size_t)2 * m->k, sink));
        }
    return TV_OK;
}

/* [pair][cos, sin][position]: the lanes of a batch are positions. */
static tv_status upload_pair_cos_sin(opennpu_lower_model *m, uint64_t at, const double *frequencies,
                                     const tv_diag_sink *sink)
{
    size_t width = m->context + m->k;
    float *row = malloc(2 * width * sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t pair = 0; pair < m->head_dim / 2 && status == TV_OK; pair++) {
        for (size_t t = 0; t < width; t++) {
            row[t] = (float)cos((double)t * frequencies[pair]);
            row[width + t] = (float)sin((double)t * frequencies[pair]);
        }
        status = write_floats(m, at + pair * 2 * width * 4, row, 2 * width, sink);
    }
    free(row);
    return status;
}

static tv_status upload_angles(opennpu_lower_model *m, const opennpu_lower_angles *a, const tv_diag_sink *sink)
{
    double *frequencies = malloc((m->head_dim / 2 + 1) * sizeof *frequencies);
    tv_status status = frequencies ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK)
        status = read_frequencies(m, tv_graph_node_at(m->graph, a->node), frequencies, sink);
    if (status == TV_OK)
        status = upload_cos_sin(m, a->cos_sin, frequencies, sink);
    if (status == TV_OK)
        status = upload_pair_cos_sin(m, a->pair_cos_sin, frequencies, sink);
    free(frequencies);
    return status;
}

/* Lanes of the heads of one chunk, as FP32 masks. */
static tv_status upload_head_masks(opennpu_lower_model *m, const tv_diag_sink *sink)
{
    float row[64];
    uint32_t half = m->head_dim / 2, in = m->k / 2;
    for (uint32_t head = 0; half && half <= in && head < in / half; head++) {
        for (uint32_t i = 0; i < m->k; i++)
            row[i] = i % in / half == head ? 1 : 0;
        TV_TRY(write_floats(m, m->head_masks + head * opennpu_lower_vector_bytes(m), row, m->k, sink));
    }
    return TV_OK;
}

/* ---- Vectors and rows ---- */

static float round_to_unit(float weight, float unit) { return weight / unit * unit; }

/* Uploads the rows of a matrix divided by `unit`, each padded to whole vectors. */
static tv_status upload_rows(opennpu_lower_model *m, const tv_matrix *from, float unit, uint64_t at,
                             const tv_diag_sink *sink)
{
    size_t width = (size_t)opennpu_lower_chunks(m, from->columns) * m->k;
    float *row = calloc(width, sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < from->rows && status == TV_OK; r++) {
        if (tv_matrix_row_f32(from, r, row) != TV_OK)
            status = tv_matrix_fail(from, sink);
        for (uint32_t i = 0; i < from->columns; i++)
            row[i] /= unit;
        if (status == TV_OK)
            status = write_floats(m, at + r * width * 4, row, width, sink);
    }
    free(row);
    tv_matrix_drop(from);
    return status == TV_OK ? tv_weight_report_rounded(&m->weights, from, "FP32", round_to_unit, unit, sink) : status;
}

/* A constant as a vector in the order of a value, repeated over its columns, divided by `unit`. No constant: ones. */
static tv_status upload_vector(opennpu_lower_model *m, uint32_t constant, uint32_t value, float unit, uint64_t at,
                               const tv_diag_sink *sink)
{
    uint32_t columns = opennpu_lower_columns(m, value), lanes = opennpu_lower_chunks(m, columns) * m->k, length = 1;
    const tv_matrix *from = constant == TV_NO_VALUE ? NULL : tv_graph_matrix(m->graph, constant);
    float *row = malloc(lanes * sizeof *row), *in = malloc((from ? from->columns : 1) * sizeof *in);
    tv_status status = row && in ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK && from && tv_matrix_row_f32(from, 0, in) != TV_OK)
        status = tv_matrix_fail(from, sink);
    length = from ? from->columns : 1;
    for (uint32_t i = 0; i < lanes && status == TV_OK; i++) {
        int64_t source = opennpu_lower_source_column(m, &m->values[value].order, columns, i);
        row[i] = source < 0 ? 0 : (from ? in[source % length] : 1) / unit;
    }
    if (status == TV_OK)
        status = write_floats(m, at, row, lanes, sink);
    free(row);
    free(in);
    if (status == TV_OK && from)
        status = tv_weight_report_rounded(&m->weights, from, "FP32", round_to_unit, unit, sink);
    return status;
}

/* All elements of a constant, in the order of its shape; the caller frees them. */
static tv_status read_constant(const tv_matrix *from, float **out, const tv_diag_sink *sink)
{
    uint64_t rows = (uint64_t)from->rows * from->count;
    float *values = malloc(rows * from->columns * sizeof *values + 1);
    tv_status status = values ? TV_OK : tv_fail_memory(sink);
    for (uint64_t r = 0; r < rows && status == TV_OK; r++)
        if (tv_matrix_row_f32(from, r, values + r * from->columns) != TV_OK)
            status = tv_matrix_fail(from, sink);
    if (status != TV_OK) {
        free(values);
        return status;
    }
    *out = values;
    return TV_OK;
}

/* A constant operand in the shape of the output; a scalar fills one vector. */
static tv_status upload_operand(opennpu_lower_model *m, const tv_graph_node *n, unsigned input,
                                const tv_diag_sink *sink)
{
    const tv_graph *g = m->graph;
    uint64_t own = tv_graph_elements(g, n->inputs[input]), all = own == 1 ? m->k : tv_graph_elements(g, n->output);
    opennpu_lower_repetition r = opennpu_lower_repetition_of(g, n, input);
    float *values, *row = malloc(all * sizeof *row);
    if (!row)
        return tv_fail_memory(sink);
    tv_status status = read_constant(tv_graph_matrix(g, n->inputs[input]), &values, sink);
    for (uint64_t i = 0; i < all && status == TV_OK; i++)
        row[i] = values[i / r.divisor % r.modulus];
    if (status == TV_OK) {
        free(values);
        status = write_floats(m, opennpu_lower_node_of(m, n)->constants[input], row, all, sink);
    }
    free(row);
    return status;
}

static tv_status upload_norm(opennpu_lower_model *m, const tv_graph_node *n, const tv_diag_sink *sink)
{
    const opennpu_lower_node *own = opennpu_lower_node_of(m, n);
    const opennpu_lower_value *out = &m->values[n->output];
    float unit = out->stored ? out->unit : out->pack_unit;
    TV_TRY(upload_vector(m, n->inputs[1], n->output, unit, own->gains, sink));
    return own->bias ? upload_vector(m, n->inputs[2], n->output, unit, own->bias, sink) : TV_OK;
}

/* ---- Linears ---- */

/* The unit of the stored product. */
static float output_unit(const opennpu_lower_model *m, const opennpu_lower_linear *l, unsigned which)
{
    const tv_graph_value *v = tv_graph_value_at(m->graph, l->outputs[which]);
    bool gate = tv_graph_node_at(m->graph, v->producer)->op == TV_OP_GLU && which == 0;
    return gate ? 1 : m->values[l->outputs[which]].unit;
}

static uint32_t block_rows(const opennpu_lower_model *m, const opennpu_lower_linear *l, unsigned which)
{
    return opennpu_lower_chunks(m, tv_graph_matrix(m->graph, l->matrices[which])->rows) * m->k;
}

/* Rows of a linear that are packed at once, a multiple of those per drain of the array: besides the machine's memory,
 * only these exist. */
enum { ROWS_PER_TASK = 1024 };

typedef struct linear_rows {
    opennpu_lower_model *m;
    const opennpu_lower_linear *linear;
    uint32_t first, rows;                                        /* both multiples of K */
    uint8_t *q;                                                  /* [rows][columns] */
    float *scales;                                               /* [rows], relative to the output units */
    uint8_t *stream;                                             /* the part of the stream of these rows */
    tv_weight_error *errors, sums[OPENNPU_LOWER_LINEAR_WEIGHTS]; /* of rows; of matrices */
    atomic_bool failed;
} linear_rows;

/* Quantizes the rows that are rows [from, to) of the matrix `which`, from `at` on in q. */
static tv_status quantize_rows_of(linear_rows *r, unsigned which, uint32_t from, uint32_t to, uint32_t at,
                                  float in_unit, const tv_diag_sink *sink)
{
    const opennpu_lower_model *m = r->m;
    const opennpu_lower_linear *l = r->linear;
    const tv_matrix *matrix = tv_graph_matrix(m->graph, l->matrices[which]);
    int64_t sources[ROWS_PER_TASK];
    for (uint32_t i = from; i < to; i++) {
        int64_t row = opennpu_lower_source_column(m, &m->values[l->outputs[which]].order, matrix->rows, i);
        sources[i - from] = row < 0 ? row : row + (int64_t)l->expert * matrix->rows;
    }
    tv_quantize_job job = {.matrix = matrix,
                           .sources = sources,
                           .count = to - from,
                           .columns = l->columns,
                           .group = l->columns,
                           .bits = 8,
                           .packed = r->q + (size_t)at * l->columns,
                           .scales = r->scales + at,
                           .errors = r->errors};
    if (r->errors)
        memset(r->errors, 0, (to - from) * sizeof *r->errors);
    if (!tv_quantize_rows(&job, m->pool))
        return tv_matrix_fail(matrix, sink);
    for (uint32_t i = 0; i < to - from; i++)
        r->scales[at + i] *= in_unit / output_unit(m, l, which);
    tv_weight_error_sum(&r->sums[which], r->errors, r->errors ? to - from : 0);
    if (to == block_rows(m, l, which)) {
        tv_matrix_drop(matrix);
        if (r->errors)
            m->weights.report(m->weights.user, matrix, "INT8, a scale for each row", &r->sums[which]);
    }
    return TV_OK;
}

/* The rows of all weights of a linear follow each other. Padding is zero. */
static tv_status quantize_rows(linear_rows *r, float in_unit, const tv_diag_sink *sink)
{
    uint32_t start = 0, end = r->first + r->rows; /* start: of a matrix */
    memset(r->q, 0, (size_t)r->rows * r->linear->columns);
    memset(r->scales, 0, r->rows * sizeof *r->scales);
    for (unsigned p = 0; p < r->linear->weight_count; p++) {
        uint32_t rows = block_rows(r->m, r->linear, p), from = r->first > start ? r->first - start : 0,
                 to = start + rows < end ? rows
                      : end > start      ? end - start
                                         : 0;
        if (from < to)
            TV_TRY(quantize_rows_of(r, p, from, to, start + from - r->first, in_unit, sink));
        start += rows;
    }
    return TV_OK;
}

/* One register of weights: lane i, plane p is row i of the block, column (first + p * K). */
static void pack_register(const linear_rows *r, const opennpu_lower_product *p, uint8_t *out)
{
    uint32_t k = r->m->k, columns = r->linear->columns;
    for (uint32_t i = 0; i < k; i++)
        for (uint32_t plane = 0; plane < p->planes; plane++)
            out[((size_t)i << p->class_) + plane] =
                r->q[((size_t)p->block * k + i - r->first) * columns + p->column + (size_t)plane * k];
}

/* Packs the blocks of the drains [from, to) of the rows. */
static void pack_drains(void *user, uint64_t from, uint64_t to)
{
    linear_rows *r = user;
    const opennpu_lower_model *m = r->m;
    const opennpu_lower_linear *l = r->linear;
    uint32_t per_drain = m->e.period / 2, first_block = r->first / m->k, end = first_block + r->rows / m->k;
    uint64_t start = l->stream + first_block * stream_columns(m, l->columns) * m->k;
    const opennpu_lower_input input = {(uint64_t)1 << 20, l->columns}; /* any: the activations are not packed here */
    opennpu_lower_product *list = malloc((size_t)per_drain * l->columns * sizeof *list);
    if (!list)
        r->failed = true;
    for (uint64_t d = from; d < to && list; d++) {
        uint32_t block = first_block + (uint32_t)d * per_drain;
        size_t count =
            opennpu_lower_linear_products(m, l, &input, block, end - block < per_drain ? end - block : per_drain, list);
        for (size_t i = 0; i < count; i++)
            pack_register(r, &list[i], r->stream + (list[i].w - start));
    }
    free(list);
}

static tv_status upload_rows_of_linear(linear_rows *r, float in_unit, const tv_diag_sink *sink)
{
    opennpu_lower_model *m = r->m;
    const opennpu_lower_linear *l = r->linear;
    uint32_t first_block = r->first / m->k, blocks = r->rows / m->k;
    uint64_t block_bytes = stream_columns(m, l->columns) * m->k;
    TV_TRY(quantize_rows(r, in_unit, sink));
    memset(r->stream, 0, (size_t)(blocks * block_bytes));
    tv_pool_run(m->pool, tv_ceil_div(blocks, m->e.period / 2), pack_drains, r);
    if (r->failed)
        return tv_fail_memory(sink);
    TV_TRY(write_bytes(m, l->stream + first_block * block_bytes, r->stream, blocks * block_bytes, sink));
    return write_floats(m, l->scales + (uint64_t)r->first * 4, r->scales, r->rows, sink);
}

static tv_status upload_biases(opennpu_lower_model *m, const opennpu_lower_linear *l, const tv_diag_sink *sink)
{
    uint64_t at = l->bias;
    for (unsigned p = 0; p < l->weight_count && l->bias; p++) {
        if (l->biases[p] != TV_NO_VALUE) /* others stay zeros */
            TV_TRY(upload_vector(m, l->biases[p], l->outputs[p], output_unit(m, l, p), at, sink));
        at += (uint64_t)block_rows(m, l, p) * 4;
    }
    return TV_OK;
}

static tv_status upload_linear(opennpu_lower_model *m, const opennpu_lower_linear *l, float in_unit,
                               const tv_diag_sink *sink)
{
    uint32_t all = l->blocks * m->k, rows_max = all < ROWS_PER_TASK ? all : ROWS_PER_TASK;
    linear_rows r = {.m = m,
                     .linear = l,
                     .q = malloc((size_t)rows_max * l->columns),
                     .scales = malloc(rows_max * sizeof *r.scales),
                     .stream = malloc((size_t)(rows_max * stream_columns(m, l->columns))),
                     .errors = m->weights.report ? malloc(rows_max * sizeof *r.errors) : NULL};
    bool measured = r.errors || !m->weights.report;
    tv_status status = r.q && r.scales && r.stream && measured ? TV_OK : tv_fail_memory(sink);
    for (; r.first < all && status == TV_OK; r.first += r.rows) {
        r.rows = all - r.first < rows_max ? all - r.first : rows_max;
        status = upload_rows_of_linear(&r, in_unit, sink);
    }
    free(r.q);
    free(r.scales);
    free(r.stream);
    free(r.errors);
    return status == TV_OK ? upload_biases(m, l, sink) : status;
}

/* Hidden values are scaled when they are computed, so the scales of down are those of its rows. */
static tv_status upload_experts(opennpu_lower_model *m, const tv_graph_node *n, const tv_diag_sink *sink)
{
    const opennpu_lower_expert *experts = opennpu_lower_node_of(m, n)->experts;
    for (uint32_t x = 0; x < tv_graph_matrix(m->graph, n->inputs[2])->count; x++) {
        TV_TRY(upload_linear(m, &experts[x].in, m->values[n->inputs[0]].pack_unit, sink));
        TV_TRY(upload_linear(m, &experts[x].down, 1, sink));
    }
    return TV_OK;
}

/* ---- The graph ---- */

static tv_status upload_node(opennpu_lower_model *m, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = tv_graph_node_at(m->graph, node);
    const opennpu_lower_node *own = &m->nodes[node];
    if (own->on_host)
        return TV_OK;
    if (n->op == TV_OP_MOE)
        return upload_experts(m, n, sink);
    if (own->linear.weight_count)
        return upload_linear(m, &own->linear, m->values[n->inputs[0]].pack_unit, sink);
    if (n->op == TV_OP_NORM)
        return upload_norm(m, n, sink);
    for (unsigned k = 0; k < 2; k++)
        if (own->constants[k])
            TV_TRY(upload_operand(m, n, k, sink));
    if (n->op == TV_OP_GATHER)
        return upload_rows(m, tv_graph_matrix(m->graph, n->inputs[0]), 1, own->table, sink);
    return TV_OK;
}

tv_status opennpu_lower_upload(opennpu_lower_model *m, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    for (uint32_t i = 0; i < m->graph->nodes.count && !m->timing; i++) {
        tv_progress_report(progress, "uploading weights", i, m->graph->nodes.count);
        TV_TRY(upload_node(m, i, sink));
    }
    if (m->timing)
        return TV_OK;
    TV_TRY(upload_tables(m, sink));
    TV_TRY(upload_head_masks(m, sink));
    for (uint32_t i = 0; i < m->angle_count; i++)
        TV_TRY(upload_angles(m, &m->angles[i], sink));
    return TV_OK;
}
