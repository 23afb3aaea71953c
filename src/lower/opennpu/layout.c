/* SPDX-License-Identifier: Apache-2.0 */
/* Fills data memory: weights as 8-bit integers with a scale for each row, tables, room for activations and the cache.
 */
#include "lower/opennpu/layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "graph/quantize.h"
#include "num/float.h"

/* ---- Rows ---- */

uint32_t npu_turned_lane(const npu_model *m, uint32_t head, uint32_t i)
{
    uint32_t half = m->model->dims.head_dim / 2, pair = head * half + i % half, in = m->k / 2;
    return pair / in * m->k + pair % in + (i < half ? 0 : in);
}

/* Row of the weight that stands in row `r` of its part; -1: none, zeros. */
static int64_t source_row(const npu_model *m, tv_weight weight, uint32_t rows, uint32_t r)
{
    uint32_t in = m->k / 2;
    if (weight != TV_WEIGHT_Q && weight != TV_WEIGHT_K)
        return r < rows ? (int64_t)r : -1;
    uint32_t pair = r / m->k * in + r % in;
    return pair < rows / 2 ? 2 * (int64_t)pair + (r % m->k >= in) : -1;
}

/* Columns of the stream: whole registers are loaded, so that the last ones of an input may be longer than it. */
static uint64_t stream_columns(const npu_model *m, uint32_t columns) { return (uint64_t)npu_chunks(m, columns) * m->k; }

size_t npu_linear_products(const npu_model *m, const npu_linear *linear, const npu_input *input, uint32_t first,
                           uint32_t count, npu_product *list)
{
    const npu *n = &m->n;
    npu_pack pack;
    size_t made = 0;
    uint64_t w = linear->stream + first * stream_columns(m, linear->columns) * m->k;
    for (uint32_t i = 0; npu_pack_at(n, input, i, &pack); i++)
        for (uint32_t lane = 0; lane < m->k; lane++) {
            unsigned planes = 0;
            uint32_t column = pack.chunk * m->k + lane;
            while (planes < 1u << pack.class_ && column + planes * m->k < linear->columns)
                planes++;
            for (uint32_t b = 0; b < count && planes; b++) {
                list[made++] = (npu_product){w, npu_lane(n, &pack, lane, b), column,          first + b,
                                             0, (uint8_t)pack.class_,        (uint8_t)planes, false};
                w += (uint64_t)m->k << pack.class_;
            }
        }
    return made;
}

/* ---- Places ---- */

static uint64_t take(npu_model *m, uint64_t bytes)
{
    uint64_t at = m->end;
    m->end += (bytes + 255) / 256 * 256;
    return at;
}

static npu_input take_input(npu_model *m, uint32_t columns)
{
    return (npu_input){take(m, npu_input_bytes(&m->n, columns)), columns};
}

static npu_linear take_linear(npu_model *m, uint32_t layer, unsigned part_count, tv_weight a, tv_weight b, tv_weight c)
{
    npu_linear l = {
        .parts = {a, b, c}, .part_count = part_count, .columns = tv_model_matrix(m->model, a, layer)->columns};
    for (unsigned i = 0; i < part_count; i++)
        l.blocks += npu_chunks(m, tv_model_matrix(m->model, l.parts[i], layer)->rows);
    l.stream = take(m, (uint64_t)l.blocks * stream_columns(m, l.columns) * m->k);
    l.scales = take(m, l.blocks * npu_vector(m));
    return l;
}

static void take_weights(npu_model *m)
{
    const tv_model_dims *s = &m->model->dims;
    for (uint32_t i = 0; i < s->layers; i++) {
        npu_layer *l = &m->layers[i];
        l->qkv = take_linear(m, i, 3, TV_WEIGHT_Q, TV_WEIGHT_K, TV_WEIGHT_V);
        l->o = take_linear(m, i, 1, TV_WEIGHT_O, 0, 0);
        l->gate_up = take_linear(m, i, 2, TV_WEIGHT_GATE, TV_WEIGHT_UP, 0);
        l->down = take_linear(m, i, 1, TV_WEIGHT_DOWN, 0, 0);
        l->norm[0] = take(m, m->dim_chunks * npu_vector(m));
        l->norm[1] = take(m, m->dim_chunks * npu_vector(m));
    }
    m->classifier = take_linear(m, 0, 1, s->tied ? TV_WEIGHT_EMBEDDING : TV_WEIGHT_CLASSIFIER, 0, 0);
    m->final_norm = take(m, m->dim_chunks * npu_vector(m));
    m->embedding = take(m, (uint64_t)s->vocab * m->dim_chunks * npu_vector(m));
    m->pair_angles = take(m, (uint64_t)s->head_dim / 2 * 2 * (m->context + m->k) * 4);
    m->angles = take(m, (uint64_t)m->context * m->turn_period * 2 * npu_vector(m));
}

static void take_batch(npu_model *m)
{
    uint64_t vector = npu_vector(m), planes = 2 * (uint64_t)m->k;
    m->batch_x = take(m, m->dim_chunks * m->k * vector);
    m->batch_xa = take(m, m->dim_chunks * m->k * vector);
    m->batch_qk = take(m, (m->q_chunks + m->kv_chunks) * m->k * vector);
    m->batch_ffn = take(m, 2 * m->hidden_chunks * m->k * vector);
    m->batch_scores = take(m, m->position_blocks * m->k * vector);
    m->batch_sums = take(m, m->k * vector);
    m->batch_most = take(m, vector);
    m->batch_scale = take(m, vector);
    m->batch_logits = take(m, m->k * m->classifier.blocks * vector);
    m->xn_planes = take(m, m->dim_chunks * m->k * planes);
    m->q_planes = take(m, m->q_chunks * m->k * planes);
    m->share_planes = take(m, m->position_blocks * m->k * planes);
    m->mixed_planes = take(m, m->q_chunks * m->k * planes);
    m->h_planes = take(m, m->hidden_chunks * m->k * planes);
}

static void take_memory(npu_model *m)
{
    const tv_model_dims *s = &m->model->dims;
    npu *n = &m->n;
    uint64_t vector = npu_vector(m), caches = (uint64_t)s->kv_heads * m->position_blocks * s->head_dim * m->k;
    for (unsigned c = 0; c < 3; c++)
        n->masks[c] = take(m, (uint64_t)(m->k + 2 * n->period) << c);
    m->limits = take(m, 2 * vector);
    m->later = take(m, 2 * vector);
    take_weights(m);
    m->constants_end = m->end;
    for (uint32_t i = 0; i < s->layers; i++) {
        m->layers[i].keys = take(m, caches);
        m->layers[i].values = take(m, (uint64_t)m->context * m->v_stride + m->k);
    }
    n->turn = take(m, 3 * vector);
    m->x = take(m, (s->layers + 1) * m->dim_chunks * vector);
    m->xa = take(m, s->layers * m->dim_chunks * vector);
    m->qkv = take(m, (m->q_chunks + 2 * m->kv_chunks) * vector);
    m->bytes = take(m, m->k);
    m->scores = take(m, (uint64_t)s->heads * m->position_blocks * vector);
    m->shares_scale = take(m, s->heads * vector);
    m->mixed = take(m, (m->q_chunks + 1) * vector);
    m->ffn = take(m, 2 * m->hidden_chunks * vector);
    m->logits = take(m, m->classifier.blocks * vector);
    m->xn_in = take_input(m, s->dim);
    m->mixed_in = take_input(m, s->heads * s->head_dim);
    m->h_in = take_input(m, s->hidden);
    m->q_packs = take(m, m->q_chunks * npu_pack_bytes(n, NPU_VX));
    m->share_packs = take(m, (uint64_t)s->heads * m->position_blocks * npu_pack_bytes(n, NPU_VX));
    take_batch(m);
}

/* ---- Contents ---- */

static tv_status put(npu_model *m, uint64_t at, const void *data, uint64_t bytes, const tv_diag_sink *sink)
{
    return tv_machine_write(m->machine, "mem", at, data, (size_t)bytes, sink);
}

static tv_status put_words(npu_model *m, uint64_t at, const uint32_t *words, size_t count, const tv_diag_sink *sink)
{
    uint8_t *bytes = malloc(count * 4 + 1);
    if (!bytes)
        return tv_fail_memory(sink);
    for (size_t i = 0; i < count; i++)
        tv_store_le(bytes + 4 * i, words[i], 4);
    tv_status status = put(m, at, bytes, count * 4, sink);
    free(bytes);
    return status;
}

static tv_status put_floats(npu_model *m, uint64_t at, const float *x, size_t count, const tv_diag_sink *sink)
{
    uint32_t *words = malloc(count * sizeof *words + 1);
    if (!words)
        return tv_fail_memory(sink);
    for (size_t i = 0; i < count; i++)
        words[i] = tv_f32_bits(x[i]);
    tv_status status = put_words(m, at, words, count, sink);
    free(words);
    return status;
}

static tv_status put_tables(npu_model *m, const tv_diag_sink *sink)
{
    uint8_t mask[4 * (64 + 2 * NPU_PERIOD_MAX)] = {0};
    uint32_t limits[2 * 64];
    for (unsigned c = 0; c < 3; c++) {
        for (uint32_t i = 0; i < m->k + 2 * m->n.period; i++)
            memset(mask + ((size_t)i << c), i % m->n.period ? 0 : 0xFF, 1u << c);
        TV_TRY(put(m, m->n.masks[c], mask, (uint64_t)(m->k + 2 * m->n.period) << c, sink));
    }
    for (uint32_t i = 0; i < 2 * m->k; i++) /* scores of positions to come are far below all others */
        limits[i] = i < m->k ? UINT32_C(0x7FFFFFFF) : UINT32_C(0xC0000000);
    TV_TRY(put_words(m, m->limits, limits, (size_t)2 * m->k, sink));
    for (uint32_t i = 0; i < 2 * m->k; i++)
        limits[i] = i < m->k ? UINT32_C(0xC0000000) : UINT32_C(0x7FFFFFFF);
    return put_words(m, m->later, limits, (size_t)2 * m->k, sink);
}

/* cos, then sin, by lane; for the first of each pair the sine is negative. */
static tv_status put_angles(npu_model *m, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &m->model->dims;
    float row[2 * 64];
    for (uint32_t t = 0; t < m->context; t++)
        for (uint32_t c = 0; c < m->turn_period; c++) {
            for (uint32_t i = 0; i < m->k; i++) {
                uint32_t pair = (c * (m->k / 2) + i % (m->k / 2)) % (s->head_dim / 2);
                double angle = t * pow((double)s->theta, -2.0 * pair / s->head_dim);
                row[i] = (float)cos(angle);
                row[m->k + i] = (float)(i < m->k / 2 ? -sin(angle) : sin(angle));
            }
            TV_TRY(put_floats(m, m->angles + ((uint64_t)t * m->turn_period + c) * 2 * npu_vector(m), row,
                              (size_t)2 * m->k, sink));
        }
    return TV_OK;
}

/* [pair][cos, sin][position]: the lanes of a batch are positions. */
static tv_status put_pair_angles(npu_model *m, const tv_diag_sink *sink)
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
        status = put_floats(m, m->pair_angles + pair * 2 * width * 4, row, 2 * width, sink);
    }
    free(row);
    return status;
}

/* The rows of a matrix of one row or more, divided by `unit`, each in whole vectors. */
static tv_status put_rows(npu_model *m, tv_weight weight, uint32_t layer, float unit, uint64_t at,
                          const tv_diag_sink *sink)
{
    const tv_matrix *from = tv_model_matrix(m->model, weight, layer);
    size_t width = (size_t)npu_chunks(m, from->columns) * m->k;
    float *row = calloc(width, sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < from->rows && status == TV_OK; r++) {
        status = tv_matrix_row_f32(from, r, row);
        for (uint32_t i = 0; i < from->columns; i++)
            row[i] /= unit;
        if (status == TV_OK)
            status = put_floats(m, at + r * width * 4, row, width, sink);
    }
    free(row);
    return status;
}

/* Rows of all parts as integers [blocks * K][columns], and their scales over the unit of what they make. */
static tv_status quantize_parts(const npu_model *m, const npu_linear *l, uint32_t layer, float in_unit,
                                const float out_units[NPU_PARTS], uint8_t *q, float *scales)
{
    int64_t *sources = malloc((size_t)l->blocks * m->k * sizeof *sources);
    size_t at = 0;
    bool well = sources != NULL;
    for (unsigned p = 0; p < l->part_count && well; p++) {
        const tv_matrix *from = tv_model_matrix(m->model, l->parts[p], layer);
        uint32_t rows = npu_chunks(m, from->rows) * m->k;
        for (uint32_t r = 0; r < rows; r++)
            sources[r] = source_row(m, l->parts[p], from->rows, r);
        tv_quantize_job job = {.matrix = from,
                               .sources = sources,
                               .count = rows,
                               .columns = l->columns,
                               .group = l->columns,
                               .bits = 8,
                               .packed = q + at * l->columns,
                               .scales = scales + at};
        well = tv_quantize_rows(&job, m->pool);
        for (uint32_t r = 0; r < rows; r++)
            scales[at + r] *= in_unit / out_units[p];
        at += rows;
    }
    free(sources);
    return well ? TV_OK : TV_ERR_MEMORY;
}

/* One register of weights: lane i, plane p is row i of the block, column p * K on. */
static void fill_register(const npu_model *m, const npu_linear *l, const npu_product *p, const uint8_t *q, uint8_t *out)
{
    for (uint32_t i = 0; i < m->k; i++)
        for (uint32_t plane = 0; plane < p->planes; plane++)
            out[((size_t)i << p->class_) + plane] =
                q[((size_t)p->block * m->k + i) * l->columns + p->column + (size_t)plane * m->k];
}

static tv_status put_linear(npu_model *m, const npu_linear *l, uint32_t layer, float in_unit,
                            const float out_units[NPU_PARTS], const tv_diag_sink *sink)
{
    size_t rows = (size_t)l->blocks * m->k, stream_bytes = (size_t)(l->blocks * stream_columns(m, l->columns) * m->k);
    uint8_t *q = calloc(rows, l->columns), *stream = calloc(1, stream_bytes);
    float *scales = calloc(rows, sizeof *scales);
    uint32_t together = m->n.period / 2;
    npu_product *list = malloc((size_t)together * l->columns * sizeof *list);
    npu_input input = {(uint64_t)1 << 20, l->columns};
    tv_status status =
        q && stream && scales && list ? quantize_parts(m, l, layer, in_unit, out_units, q, scales) : TV_ERR_MEMORY;
    if (status == TV_ERR_MEMORY)
        tv_fail_memory(sink);
    for (uint32_t b = 0; b < l->blocks && status == TV_OK; b += together) {
        size_t count = npu_linear_products(m, l, &input, b, l->blocks - b < together ? l->blocks - b : together, list);
        for (size_t i = 0; i < count; i++)
            fill_register(m, l, &list[i], q, stream + (list[i].w - l->stream));
    }
    if (status == TV_OK)
        status = put(m, l->stream, stream, stream_bytes, sink);
    if (status == TV_OK)
        status = put_floats(m, l->scales, scales, rows, sink);
    free(q);
    free(stream);
    free(scales);
    free(list);
    return status;
}

static tv_status put_layer(npu_model *m, uint32_t i, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &m->model->dims;
    npu_layer *l = &m->layers[i];
    /* attention's mix comes in units of the values, made 256 times finer */
    const float qkv[] = {l->q_unit, l->k_unit, l->v_unit}, one[] = {1, 1, 1}, gate_up[] = {1, l->h_unit, 1};
    float power = (float)((double)l->q_unit * (double)l->k_unit / sqrt((double)s->head_dim) * 1.4426950408889634);
    l->score_scale = tv_f32_bits(power);
    if (m->timing)
        return TV_OK;
    TV_TRY(put_linear(m, &l->qkv, i, l->xn_unit, qkv, sink));
    TV_TRY(put_linear(m, &l->o, i, l->v_unit / 256, one, sink));
    TV_TRY(put_linear(m, &l->gate_up, i, l->hn_unit, gate_up, sink));
    TV_TRY(put_linear(m, &l->down, i, l->h_unit, one, sink));
    TV_TRY(put_rows(m, TV_WEIGHT_NORM_ATTENTION, i, l->xn_unit, l->norm[0], sink));
    return put_rows(m, TV_WEIGHT_NORM_FFN, i, l->hn_unit, l->norm[1], sink);
}

static tv_status put_model(npu_model *m, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    const float one[] = {1, 1, 1};
    for (uint32_t i = 0; i < m->model->dims.layers; i++) {
        tv_progress_report(progress, "placing weights", i, m->model->dims.layers);
        TV_TRY(put_layer(m, i, sink));
    }
    if (m->timing)
        return TV_OK;
    TV_TRY(put_tables(m, sink));
    TV_TRY(put_angles(m, sink));
    TV_TRY(put_pair_angles(m, sink));
    TV_TRY(put_linear(m, &m->classifier, 0, m->final_unit, one, sink));
    TV_TRY(put_rows(m, TV_WEIGHT_NORM_FINAL, 0, m->final_unit, m->final_norm, sink));
    return put_rows(m, TV_WEIGHT_EMBEDDING, 0, 1, m->embedding, sink);
}

/* ---- Ranges ---- */

static float largest(const float *x, uint64_t n)
{
    float most = 0;
    for (uint64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* Without a host, of timing, every unit is one of some value. */
static void learn_node(npu_model *m, const tv_graph_node *node, void *host, uint32_t rows)
{
    npu_layer *l = &m->layers[node->layer];
    bool append = node->op == TV_OP_APPEND;
    float found[2] = {0};
    for (unsigned i = 0; i < (append ? 2 : 1); i++) {
        uint32_t v = append ? node->inputs[i] : node->output;
        if (host && v != m->graph->logits && m->graph->values[v].columns)
            found[i] = largest(tv_backend_host.value(host, v), (uint64_t)rows * m->graph->values[v].columns);
        found[i] = found[i] > 0 ? found[i] : 1;
    }
    if (append) { /* 8 bits: little room */
        l->k_unit = found[0] * 1.25f / 127;
        l->v_unit = found[1] * 1.25f / 127;
    } else if (node->op == TV_OP_RMSNORM) { /* 16 bits have room enough for what the sample did not show */
        float *unit = node->weight == TV_WEIGHT_NORM_FINAL ? &m->final_unit
                      : node->weight == TV_WEIGHT_NORM_FFN ? &l->hn_unit
                                                           : &l->xn_unit;
        *unit = found[0] * 2 / 32512;
    } else if (node->op == TV_OP_MUL) {
        l->h_unit = found[0] * 4 / 32512;
    } else if (node->op == TV_OP_ROPE && found[0] * 2 / 32512 > l->q_unit) { /* of q and k, whichever is larger */
        l->q_unit = found[0] * 2 / 32512;
    }
}

static tv_status learn_ranges(npu_model *m, const tv_backend_options *options, const tv_diag_sink *sink)
{
    void *host = NULL;
    uint32_t n = options->sample_count;
    for (uint32_t i = 0; i < m->graph->node_count && m->timing; i++)
        if (m->graph->nodes[i].op != TV_OP_MATMUL)
            learn_node(m, &m->graph->nodes[i], NULL, 0);
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
                learn_node(m, &m->graph->nodes[i], host, n);
        tv_backend_host.destroy(host);
    }
    free(unused);
    return status;
}

/* ---- All of it ---- */

uint64_t npu_key_block(const npu_model *m, uint32_t layer, uint32_t head, uint32_t block)
{
    return m->layers[layer].keys + ((uint64_t)head * m->position_blocks + block) * m->model->dims.head_dim * m->k;
}

tv_status npu_lay_out(npu_model *m, const tv_backend_options *options, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &m->model->dims;
    m->context = options->context;
    m->position_blocks = npu_chunks(m, m->context);
    m->q_chunks = npu_chunks(m, s->heads * s->head_dim);
    m->kv_chunks = npu_chunks(m, s->kv_heads * s->head_dim);
    m->hidden_chunks = npu_chunks(m, s->hidden);
    m->dim_chunks = npu_chunks(m, s->dim);
    m->v_stride = m->kv_chunks * m->k;
    m->turn_period = s->head_dim / 2 / (uint32_t)tv_gcd_u64(s->head_dim / 2, m->k / 2);
    m->n.inverse_dim = tv_f32_bits(1 / (float)s->dim);
    m->n.eps = tv_f32_bits(s->eps);
    take_memory(m);
    enum { REACH = 4096 }; /* base registers run ahead of an address, and they have 32 bits */
    if (m->end > UINT32_MAX - REACH)
        return tv_fail(
            sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
            m->constants_end > UINT32_MAX - REACH ? "the weights alone are too many; pccx and CMDQ take larger models"
                                                  : "make the context smaller",
            "the model needs %" PRIu64 " bytes of data memory, and addresses of OpenNPU have 32 bits", m->end);
    if (m->end > m->limit)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       "make mem.bytes larger with -D, or the context smaller",
                       "the model needs %" PRIu64 " bytes of data memory; mem.bytes = %" PRIu64, m->end, m->limit);
    TV_TRY(learn_ranges(m, options, sink));
    return put_model(m, &options->progress, sink);
}
