/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates data memory and uploads the model: 8-bit weights with a scale for each row, tables; space for activations
 * and the KV cache.
 *
 * The machine multiplies outer products of K lanes, so the weights of a linear are stored in blocks of K rows, column
 * by column: one load gives the K bytes that one MMA takes. A row's scale is applied after the sum. Rows and columns
 * are permuted here, once, where later instructions need another order of lanes, so that programs contain no shuffles.
 * Addresses are decided here and nowhere else. */
#include "lower/opennpu/layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "graph/quantize.h"
#include "num/float.h"

/* ---- Order of rows and columns ---- */

uint32_t opennpu_lower_rope_lane(const opennpu_lower_model *m, uint32_t head, uint32_t i)
{
    uint32_t half = m->model->dims.head_dim / 2, pair = head * half + i % half, in = m->k / 2;
    return pair / in * m->k + pair % in + (i < half ? 0 : in);
}

/* Source row of row `r` of a weight in the layout of the stream; -1: padding, zeros. */
static int64_t source_row(const opennpu_lower_model *m, tv_weight weight, uint32_t rows, uint32_t r)
{
    uint32_t in = m->k / 2;
    if (weight != TV_WEIGHT_Q && weight != TV_WEIGHT_K)
        return r < rows ? (int64_t)r : -1;
    uint32_t pair = r / m->k * in + r % in;
    return pair < rows / 2 ? 2 * (int64_t)pair + (r % m->k >= in) : -1;
}

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
                list[product_count++] = (opennpu_lower_product){w,
                                                                opennpu_lower_lane_addr(e, &pack, lane, b),
                                                                column,
                                                                first + b,
                                                                0,
                                                                (uint8_t)pack.class_,
                                                                (uint8_t)planes,
                                                                false};
                w += (uint64_t)m->k << pack.class_;
            }
        }
    return product_count;
}

/* ---- Allocation ---- */

static uint64_t allocate(opennpu_lower_model *m, uint64_t bytes)
{
    uint64_t at = m->end;
    m->end += (bytes + 255) / 256 * 256;
    return at;
}

static opennpu_lower_input allocate_input(opennpu_lower_model *m, uint32_t columns)
{
    return (opennpu_lower_input){allocate(m, opennpu_lower_input_bytes(&m->e, columns)), columns};
}

static opennpu_lower_linear allocate_linear(opennpu_lower_model *m, uint32_t layer, unsigned weight_count, tv_weight a,
                                            tv_weight b, tv_weight c)
{
    opennpu_lower_linear l = {
        .weights = {a, b, c}, .weight_count = weight_count, .columns = tv_model_matrix(m->model, a, layer)->columns};
    for (unsigned i = 0; i < weight_count; i++)
        l.blocks += opennpu_lower_chunks(m, tv_model_matrix(m->model, l.weights[i], layer)->rows);
    l.stream = allocate(m, (uint64_t)l.blocks * stream_columns(m, l.columns) * m->k);
    l.scales = allocate(m, l.blocks * opennpu_lower_vector_bytes(m));
    return l;
}

static void allocate_weights(opennpu_lower_model *m)
{
    const tv_model_dims *s = &m->model->dims;
    for (uint32_t i = 0; i < s->layers; i++) {
        opennpu_lower_layer *l = &m->layers[i];
        l->qkv = allocate_linear(m, i, 3, TV_WEIGHT_Q, TV_WEIGHT_K, TV_WEIGHT_V);
        l->o = allocate_linear(m, i, 1, TV_WEIGHT_O, 0, 0);
        l->gate_up = allocate_linear(m, i, 2, TV_WEIGHT_GATE, TV_WEIGHT_UP, 0);
        l->down = allocate_linear(m, i, 1, TV_WEIGHT_DOWN, 0, 0);
        l->norm[0] = allocate(m, m->dim_chunks * opennpu_lower_vector_bytes(m));
        l->norm[1] = allocate(m, m->dim_chunks * opennpu_lower_vector_bytes(m));
    }
    m->classifier = allocate_linear(m, 0, 1, s->tied ? TV_WEIGHT_EMBEDDING : TV_WEIGHT_CLASSIFIER, 0, 0);
    m->final_norm = allocate(m, m->dim_chunks * opennpu_lower_vector_bytes(m));
    m->embedding = allocate(m, (uint64_t)s->vocab * m->dim_chunks * opennpu_lower_vector_bytes(m));
    m->pair_cos_sin = allocate(m, (uint64_t)s->head_dim / 2 * 2 * (m->context + m->k) * 4);
    m->cos_sin = allocate(m, (uint64_t)m->context * m->rope_period * 2 * opennpu_lower_vector_bytes(m));
}

static void allocate_batch(opennpu_lower_model *m)
{
    uint64_t vector = opennpu_lower_vector_bytes(m), planes = 2 * (uint64_t)m->k;
    m->batch_x = allocate(m, m->dim_chunks * m->k * vector);
    m->batch_xa = allocate(m, m->dim_chunks * m->k * vector);
    m->batch_qk = allocate(m, (m->q_chunks + m->kv_chunks) * m->k * vector);
    m->batch_ffn = allocate(m, 2 * m->hidden_chunks * m->k * vector);
    m->batch_scores = allocate(m, m->position_blocks * m->k * vector);
    m->batch_sums = allocate(m, m->k * vector);
    m->batch_max = allocate(m, vector);
    m->batch_scale = allocate(m, vector);
    m->batch_logits = allocate(m, m->k * m->classifier.blocks * vector);
    m->xn_planes = allocate(m, m->dim_chunks * m->k * planes);
    m->q_planes = allocate(m, m->q_chunks * m->k * planes);
    m->prob_planes = allocate(m, m->position_blocks * m->k * planes);
    m->attn_out_planes = allocate(m, m->q_chunks * m->k * planes);
    m->h_planes = allocate(m, m->hidden_chunks * m->k * planes);
}

static void allocate_memory(opennpu_lower_model *m)
{
    const tv_model_dims *s = &m->model->dims;
    opennpu_lower_emitter *e = &m->e;
    uint64_t vector = opennpu_lower_vector_bytes(m),
             caches = (uint64_t)s->kv_heads * m->position_blocks * s->head_dim * m->k;
    for (unsigned c = 0; c < 3; c++)
        e->masks[c] = allocate(m, (uint64_t)(m->k + 2 * e->period) << c);
    m->score_limits = allocate(m, 2 * vector);
    m->causal_mask = allocate(m, 2 * vector);
    allocate_weights(m);
    m->constants_end = m->end;
    for (uint32_t i = 0; i < s->layers; i++) {
        m->layers[i].keys = allocate(m, caches);
        m->layers[i].values = allocate(m, (uint64_t)m->context * m->v_stride + m->k);
    }
    e->swap = allocate(m, 3 * vector);
    m->x = allocate(m, (s->layers + 1) * m->dim_chunks * vector);
    m->xa = allocate(m, s->layers * m->dim_chunks * vector);
    m->qkv = allocate(m, (m->q_chunks + 2 * m->kv_chunks) * vector);
    m->bytes = allocate(m, m->k);
    m->scores = allocate(m, (uint64_t)s->heads * m->position_blocks * vector);
    m->probs_scale = allocate(m, s->heads * vector);
    m->attn_out = allocate(m, (m->q_chunks + 1) * vector);
    m->ffn = allocate(m, 2 * m->hidden_chunks * vector);
    m->logits = allocate(m, m->classifier.blocks * vector);
    m->xn_in = allocate_input(m, s->dim);
    m->attn_out_in = allocate_input(m, s->heads * s->head_dim);
    m->h_in = allocate_input(m, s->hidden);
    m->q_packs = allocate(m, m->q_chunks * opennpu_lower_pack_bytes(e, OPENNPU_VX));
    m->prob_packs = allocate(m, (uint64_t)s->heads * m->position_blocks * opennpu_lower_pack_bytes(e, OPENNPU_VX));
    allocate_batch(m);
}

/* ---- Upload ---- */

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
    TV_TRY(write_u32s(m, m->score_limits, score_limits, (size_t)2 * m->k, sink));
    for (uint32_t i = 0; i < 2 * m->k; i++)
        score_limits[i] = i < m->k ? UINT32_C(0xC0000000) : UINT32_C(0x7FFFFFFF);
    return write_u32s(m, m->causal_mask, score_limits, (size_t)2 * m->k, sink);
}

/* [position][period][cos, sin][lane]; the sine is negative for the first element of each pair. */
static tv_status upload_cos_sin(opennpu_lower_model *m, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &m->model->dims;
    float row[2 * 64];
    for (uint32_t t = 0; t < m->context; t++)
        for (uint32_t c = 0; c < m->rope_period; c++) {
            for (uint32_t i = 0; i < m->k; i++) {
                uint32_t pair = (c * (m->k / 2) + i % (m->k / 2)) % (s->head_dim / 2);
                double angle = t * pow((double)s->theta, -2.0 * pair / s->head_dim);
                row[i] = (float)cos(angle);
                row[m->k + i] = (float)(i < m->k / 2 ? -sin(angle) : sin(angle));
            }
            TV_TRY(write_floats(m, m->cos_sin + ((uint64_t)t * m->rope_period + c) * 2 * opennpu_lower_vector_bytes(m),
                                row, (size_t)2 * m->k, sink));
        }
    return TV_OK;
}

/* [pair][cos, sin][position]: the lanes of a batch are positions. */
static tv_status upload_pair_cos_sin(opennpu_lower_model *m, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &m->model->dims;
    size_t width = m->context + m->k;
    float *row = malloc(2 * width * sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t pair = 0; pair < s->head_dim / 2 && status == TV_OK; pair++) {
        double step = pow((double)s->theta, -2.0 * pair / s->head_dim);
        for (size_t t = 0; t < width; t++) {
            row[t] = (float)cos((double)t * step);
            row[width + t] = (float)sin((double)t * step);
        }
        status = write_floats(m, m->pair_cos_sin + pair * 2 * width * 4, row, 2 * width, sink);
    }
    free(row);
    return status;
}

/* Uploads the rows of a matrix divided by `unit`, each padded to whole vectors. */
static tv_status upload_rows(opennpu_lower_model *m, tv_weight weight, uint32_t layer, float unit, uint64_t at,
                             const tv_diag_sink *sink)
{
    const tv_matrix *from = tv_model_matrix(m->model, weight, layer);
    size_t width = (size_t)opennpu_lower_chunks(m, from->columns) * m->k;
    float *row = calloc(width, sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < from->rows && status == TV_OK; r++) {
        if (tv_matrix_row_f32(from, r, row) != TV_OK)
            status = tv_model_fail_matrix(m->model, from, sink);
        for (uint32_t i = 0; i < from->columns; i++)
            row[i] /= unit;
        if (status == TV_OK)
            status = write_floats(m, at + r * width * 4, row, width, sink);
    }
    free(row);
    return status;
}

/* Quantizes the rows of all weights of a linear to q[blocks * K][columns]; the scales are relative to the output
 * units. */
static tv_status quantize_linear(const opennpu_lower_model *m, const opennpu_lower_linear *l, uint32_t layer,
                                 float in_unit, const float out_units[OPENNPU_LOWER_LINEAR_WEIGHTS], uint8_t *q,
                                 float *scales, const tv_diag_sink *sink)
{
    int64_t *sources = malloc((size_t)l->blocks * m->k * sizeof *sources);
    size_t at = 0;
    tv_status status = sources ? TV_OK : tv_fail_memory(sink);
    for (unsigned p = 0; p < l->weight_count && status == TV_OK; p++) {
        const tv_matrix *from = tv_model_matrix(m->model, l->weights[p], layer);
        uint32_t rows = opennpu_lower_chunks(m, from->rows) * m->k;
        for (uint32_t r = 0; r < rows; r++)
            sources[r] = source_row(m, l->weights[p], from->rows, r);
        tv_quantize_job job = {.matrix = from,
                               .sources = sources,
                               .count = rows,
                               .columns = l->columns,
                               .group = l->columns,
                               .bits = 8,
                               .packed = q + at * l->columns,
                               .scales = scales + at};
        if (!tv_quantize_rows(&job, m->pool))
            status = tv_model_fail_matrix(m->model, from, sink);
        for (uint32_t r = 0; r < rows; r++)
            scales[at + r] *= in_unit / out_units[p];
        at += rows;
    }
    free(sources);
    return status;
}

/* One register of weights: lane i, plane p is row i of the block, column (first + p * K). */
static void pack_register(const opennpu_lower_model *m, const opennpu_lower_linear *l, const opennpu_lower_product *p,
                          const uint8_t *q, uint8_t *out)
{
    for (uint32_t i = 0; i < m->k; i++)
        for (uint32_t plane = 0; plane < p->planes; plane++)
            out[((size_t)i << p->class_) + plane] =
                q[((size_t)p->block * m->k + i) * l->columns + p->column + (size_t)plane * m->k];
}

static tv_status upload_linear(opennpu_lower_model *m, const opennpu_lower_linear *l, uint32_t layer, float in_unit,
                               const float out_units[OPENNPU_LOWER_LINEAR_WEIGHTS], const tv_diag_sink *sink)
{
    size_t rows = (size_t)l->blocks * m->k, stream_bytes = (size_t)(l->blocks * stream_columns(m, l->columns) * m->k);
    uint8_t *q = calloc(rows, l->columns), *stream = calloc(1, stream_bytes);
    float *scales = calloc(rows, sizeof *scales);
    uint32_t blocks_per_drain = m->e.period / 2;
    opennpu_lower_product *list = malloc((size_t)blocks_per_drain * l->columns * sizeof *list);
    opennpu_lower_input input = {(uint64_t)1 << 20, l->columns};
    tv_status status = q && stream && scales && list ? quantize_linear(m, l, layer, in_unit, out_units, q, scales, sink)
                                                     : tv_fail_memory(sink);
    for (uint32_t b = 0; b < l->blocks && status == TV_OK; b += blocks_per_drain) {
        size_t count = opennpu_lower_linear_products(
            m, l, &input, b, l->blocks - b < blocks_per_drain ? l->blocks - b : blocks_per_drain, list);
        for (size_t i = 0; i < count; i++)
            pack_register(m, l, &list[i], q, stream + (list[i].w - l->stream));
    }
    if (status == TV_OK)
        status = write_bytes(m, l->stream, stream, stream_bytes, sink);
    if (status == TV_OK)
        status = write_floats(m, l->scales, scales, rows, sink);
    free(q);
    free(stream);
    free(scales);
    free(list);
    return status;
}

static tv_status upload_layer(opennpu_lower_model *m, uint32_t i, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &m->model->dims;
    opennpu_lower_layer *l = &m->layers[i];
    /* the attention output is in units of the values / 256 */
    const float qkv[] = {l->q_unit, l->k_unit, l->v_unit}, one[] = {1, 1, 1}, gate_up[] = {1, l->h_unit, 1};
    float exponent_scale =
        (float)((double)l->q_unit * (double)l->k_unit / sqrt((double)s->head_dim) * 1.4426950408889634);
    l->score_scale = tv_f32_bits(exponent_scale);
    if (m->timing)
        return TV_OK;
    TV_TRY(upload_linear(m, &l->qkv, i, l->xn_unit, qkv, sink));
    TV_TRY(upload_linear(m, &l->o, i, l->v_unit / 256, one, sink));
    TV_TRY(upload_linear(m, &l->gate_up, i, l->hn_unit, gate_up, sink));
    TV_TRY(upload_linear(m, &l->down, i, l->h_unit, one, sink));
    TV_TRY(upload_rows(m, TV_WEIGHT_NORM_ATTENTION, i, l->xn_unit, l->norm[0], sink));
    return upload_rows(m, TV_WEIGHT_NORM_FFN, i, l->hn_unit, l->norm[1], sink);
}

static tv_status upload_model(opennpu_lower_model *m, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    const float one[] = {1, 1, 1};
    for (uint32_t i = 0; i < m->model->dims.layers; i++) {
        tv_progress_report(progress, "uploading weights", i, m->model->dims.layers);
        TV_TRY(upload_layer(m, i, sink));
    }
    if (m->timing)
        return TV_OK;
    TV_TRY(upload_tables(m, sink));
    TV_TRY(upload_cos_sin(m, sink));
    TV_TRY(upload_pair_cos_sin(m, sink));
    TV_TRY(upload_linear(m, &m->classifier, 0, m->final_unit, one, sink));
    TV_TRY(upload_rows(m, TV_WEIGHT_NORM_FINAL, 0, m->final_unit, m->final_norm, sink));
    return upload_rows(m, TV_WEIGHT_EMBEDDING, 0, 1, m->embedding, sink);
}

/* ---- Calibration ---- */

static float absmax(const float *x, uint64_t n)
{
    float max = 0;
    for (uint64_t i = 0; i < n; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    return max;
}

/* Sets the units that a node's output determines. Timing runs have no host and use an arbitrary unit. */
static void set_units(opennpu_lower_model *m, const tv_graph_node *node, void *host, uint32_t rows)
{
    opennpu_lower_layer *l = &m->layers[node->layer];
    bool append = node->op == TV_OP_APPEND;
    float absmax_of[2] = {0};
    for (unsigned i = 0; i < (append ? 2 : 1); i++) {
        uint32_t v = append ? node->inputs[i] : node->output;
        if (host && v != m->graph->logits && m->graph->values[v].columns)
            absmax_of[i] = absmax(tv_backend_host.value(host, v), (uint64_t)rows * m->graph->values[v].columns);
        absmax_of[i] = absmax_of[i] > 0 ? absmax_of[i] : 1;
    }
    if (append) { /* 8 bits: little headroom */
        l->k_unit = absmax_of[0] * 1.25f / 127;
        l->v_unit = absmax_of[1] * 1.25f / 127;
    } else if (node->op == TV_OP_RMSNORM) { /* 16 bits have headroom for values not seen in the sample */
        float *unit = node->weight == TV_WEIGHT_NORM_FINAL ? &m->final_unit
                      : node->weight == TV_WEIGHT_NORM_FFN ? &l->hn_unit
                                                           : &l->xn_unit;
        *unit = absmax_of[0] * 2 / 32512;
    } else if (node->op == TV_OP_MUL) {
        l->h_unit = absmax_of[0] * 4 / 32512;
    } else if (node->op == TV_OP_ROPE && absmax_of[0] * 2 / 32512 > l->q_unit) { /* the larger of q and k */
        l->q_unit = absmax_of[0] * 2 / 32512;
    }
}

static tv_status calibrate(opennpu_lower_model *m, const tv_backend_options *options, const tv_diag_sink *sink)
{
    void *host = NULL;
    uint32_t n = options->sample_count;
    for (uint32_t i = 0; i < m->graph->node_count && m->timing; i++)
        if (m->graph->nodes[i].op != TV_OP_MATMUL)
            set_units(m, &m->graph->nodes[i], NULL, 0);
    if (m->timing)
        return TV_OK;
    float *unused = malloc(m->model->dims.vocab * sizeof *unused);
    if (!unused)
        return tv_fail_memory(sink);
    tv_status status = tv_backend_host.create(
        m->graph, m->model, &(tv_backend_options){.context = n, .threads = options->threads}, sink, &host);
    if (status == TV_OK) {
        status = tv_backend_host.step(host, options->sample, n, 0, true, unused, sink);
        for (uint32_t i = 0; i < m->graph->node_count && status == TV_OK; i++)
            if (m->graph->nodes[i].op != TV_OP_MATMUL)
                set_units(m, &m->graph->nodes[i], host, n);
        tv_backend_host.destroy(host);
    }
    free(unused);
    return status;
}

/* ---- Entry ---- */

uint64_t opennpu_lower_key_block_addr(const opennpu_lower_model *m, uint32_t layer, uint32_t head, uint32_t block)
{
    return m->layers[layer].keys + ((uint64_t)head * m->position_blocks + block) * m->model->dims.head_dim * m->k;
}

tv_status opennpu_lower_upload_model(opennpu_lower_model *m, const tv_backend_options *options,
                                     const tv_diag_sink *sink)
{
    const tv_model_dims *s = &m->model->dims;
    m->context = options->context;
    m->position_blocks = opennpu_lower_chunks(m, m->context);
    m->q_chunks = opennpu_lower_chunks(m, s->heads * s->head_dim);
    m->kv_chunks = opennpu_lower_chunks(m, s->kv_heads * s->head_dim);
    m->hidden_chunks = opennpu_lower_chunks(m, s->hidden);
    m->dim_chunks = opennpu_lower_chunks(m, s->dim);
    m->v_stride = m->kv_chunks * m->k;
    m->rope_period = s->head_dim / 2 / (uint32_t)tv_gcd_u64(s->head_dim / 2, m->k / 2);
    m->e.inverse_dim = tv_f32_bits(1 / (float)s->dim);
    m->e.eps = tv_f32_bits(s->eps);
    allocate_memory(m);
    enum { REACH = 4096 }; /* base registers exceed an address by less than this, and have 32 bits */
    if (m->end > UINT32_MAX - REACH)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       m->constants_end > UINT32_MAX - REACH
                           ? "the weights alone exceed it; pccx and CMDQ support larger models"
                           : "make the context smaller",
                       "the model needs %" PRIu64 " bytes of data memory; addresses of OpenNPU have 32 bits", m->end);
    if (m->end > m->limit)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       "make mem.bytes larger with -D, or the context smaller",
                       "the model needs %" PRIu64 " bytes of data memory; mem.bytes = %" PRIu64, m->end, m->limit);
    TV_TRY(calibrate(m, options, sink));
    return upload_model(m, &options->progress, sink);
}
