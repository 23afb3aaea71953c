/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads the model to pccx's host memory. The gains of a norm, the root of its length and the scale of the scores are
 * folded into the following weights before quantization, so the machine need not multiply by them. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lower/pccx/state.h"
#include "num/float.h"
#include "num/func.h"

static uint64_t allocate(pccx_lowering *l, uint64_t bytes)
{
    uint64_t at = l->map.end;
    l->map.end += (bytes + 63) / 64 * 64;
    return at;
}

static void store_bf16(uint8_t *to, float x) { tv_store_le(to, tv_bf16_flushed_from_f32(x), 2); }

/* ---- Matrices ---- */

typedef struct upload {
    const pccx_lowering *l;
    const tv_matrix *from;
    const pccx_lower_matrix *to;
    const float *gains; /* per column, or NULL */
    float factor;       /* of all elements */
    uint8_t *image;
    atomic_bool failed;
} upload;

/* Writes row `row` of a block of `rows` rows: its scale and beats in every group and plane. */
static void quantize_row(const upload *p, float *values, uint8_t *block, uint32_t rows, uint32_t row)
{
    const pccx_lowering *l = p->l;
    for (uint32_t at = 0; at < p->to->columns; at += l->group) {
        uint32_t columns = p->to->columns - at < l->group ? p->to->columns - at : l->group;
        for (unsigned plane = 0; plane < l->planes; plane++) {
            uint8_t *beats = block + (uint64_t)pccx_lower_l2_size(rows) * PCCX_LOWER_WORD_BYTES +
                             (uint64_t)row * pccx_lower_beats(columns) * PCCX_LOWER_BEAT_BYTES;
            tv_store_le(block + 2 * (uint64_t)row, pccx_lower_quantize(l->scale_search, values + at, columns, beats),
                        2);
            block += pccx_lower_plane_bytes(rows, columns);
        }
    }
}

static void pack_rows(void *user, uint64_t from, uint64_t to)
{
    upload *p = user;
    uint32_t columns = p->to->columns;
    uint64_t whole_block = pccx_lower_block_bytes(p->l, PCCX_LOWER_BLOCK_ROWS, columns);
    float *values =
        calloc((size_t)pccx_lower_beats(columns) * PCCX_LOWER_BEAT_WEIGHTS, sizeof *values); /* padding stays 0 */
    uint64_t r = from;
    for (; r < to && values; r++) {
        uint32_t first = (uint32_t)(r / PCCX_LOWER_BLOCK_ROWS * PCCX_LOWER_BLOCK_ROWS),
                 rows = p->to->rows - first < PCCX_LOWER_BLOCK_ROWS ? p->to->rows - first : PCCX_LOWER_BLOCK_ROWS;
        if (r >= p->from->rows)
            memset(values, 0, columns * sizeof *values);
        else if (tv_matrix_row_f32(p->from, r, values) != TV_OK)
            break;
        for (uint32_t i = 0; i < p->from->columns; i++)
            values[i] *= p->factor * (p->gains ? p->gains[i] : 1);
        quantize_row(p, values, p->image + r / PCCX_LOWER_BLOCK_ROWS * whole_block, rows, (uint32_t)r - first);
    }
    if (r < to)
        p->failed = true;
    free(values);
}

/* The norm whose output is the input of a weight, or TV_WEIGHTS. */
static tv_weight preceding_norm(tv_weight weight)
{
    switch (weight) {
    case TV_WEIGHT_Q:
    case TV_WEIGHT_K:
    case TV_WEIGHT_V:
        return TV_WEIGHT_NORM_ATTENTION;
    case TV_WEIGHT_GATE:
    case TV_WEIGHT_UP:
        return TV_WEIGHT_NORM_FFN;
    case TV_WEIGHT_CLASSIFIER:
        return TV_WEIGHT_NORM_FINAL;
    case TV_WEIGHT_EMBEDDING:
    case TV_WEIGHT_NORM_ATTENTION:
    case TV_WEIGHT_O:
    case TV_WEIGHT_NORM_FFN:
    case TV_WEIGHT_DOWN:
    case TV_WEIGHT_NORM_FINAL:
    case TV_WEIGHTS:
        break;
    }
    return TV_WEIGHTS;
}

/* Gate and up are negated: see emit_gate in lower.c. */
static float weight_factor(const pccx_lowering *l, tv_weight weight)
{
    const tv_model_dims *s = &l->model->dims;
    float factor = preceding_norm(weight) == TV_WEIGHTS ? 1 : sqrtf((float)s->dim);
    return weight == TV_WEIGHT_Q                                ? factor / sqrtf((float)s->head_dim)
           : weight == TV_WEIGHT_GATE || weight == TV_WEIGHT_UP ? -factor
                                                                : factor;
}

static tv_status check_host_size(const pccx_lowering *l, const tv_diag_sink *sink)
{
    uint64_t size = pccx_lower_space_size(l->machine, "host");
    if (l->map.end > size)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       "make host.bytes larger with -D, or the context smaller",
                       "the model and its KV cache exceed the %" PRIu64 " bytes of host memory", size);
    return TV_OK;
}

static tv_status upload_matrix(pccx_lowering *l, tv_weight weight, uint32_t layer, const tv_diag_sink *sink)
{
    const tv_matrix *from = tv_model_matrix(l->model, weight, layer);
    pccx_lower_matrix *to = pccx_lower_matrix_of(l, weight, layer);
    tv_weight norm = preceding_norm(weight);
    if (!from->rows || tv_weight_is_norm(weight))
        return TV_OK;
    to->rows = weight == TV_WEIGHT_GATE || weight == TV_WEIGHT_UP ? l->hidden : from->rows;
    to->columns = weight == TV_WEIGHT_DOWN ? l->hidden : from->columns;
    uint32_t rest = to->rows % PCCX_LOWER_BLOCK_ROWS;
    uint64_t bytes = to->rows / PCCX_LOWER_BLOCK_ROWS * pccx_lower_block_bytes(l, PCCX_LOWER_BLOCK_ROWS, to->columns) +
                     (rest ? pccx_lower_block_bytes(l, rest, to->columns) : 0);
    to->addr = allocate(l, bytes);
    TV_TRY(check_host_size(l, sink));
    if (l->timing)
        return TV_OK;
    upload p = {.l = l, .from = from, .to = to, .factor = weight_factor(l, weight), .image = calloc(1, bytes)};
    float *gains = malloc(from->columns * sizeof *gains);
    tv_status status = gains && p.image ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK && norm != TV_WEIGHTS) {
        if (tv_matrix_row_f32(tv_model_matrix(l->model, norm, layer), 0, gains) != TV_OK)
            status = tv_model_fail_matrix(l->model, tv_model_matrix(l->model, norm, layer), sink);
        p.gains = gains;
    }
    if (status == TV_OK) {
        tv_pool_run(l->pool, to->rows, pack_rows, &p);
        status = p.failed ? tv_model_fail_matrix(l->model, from, sink)
                          : tv_machine_write(l->machine, "host", to->addr, p.image, bytes, sink);
    }
    free(gains);
    free(p.image);
    return status;
}

/* ---- Tables ---- */

static tv_status upload_embedding(pccx_lowering *l, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    l->map.embedding_row_bytes = (uint64_t)pccx_lower_l2_size(s->dim) * PCCX_LOWER_WORD_BYTES;
    l->map.embedding = allocate(l, s->vocab * l->map.embedding_row_bytes);
    TV_TRY(check_host_size(l, sink));
    if (l->timing)
        return TV_OK;
    float *row = malloc(s->dim * sizeof *row);
    uint8_t *bytes = calloc(1, l->map.embedding_row_bytes);
    tv_status status = row && bytes ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < s->vocab && status == TV_OK; r++) {
        if (tv_matrix_row_f32(tv_model_matrix(l->model, TV_WEIGHT_EMBEDDING, 0), r, row) != TV_OK)
            status = tv_model_fail_matrix(l->model, tv_model_matrix(l->model, TV_WEIGHT_EMBEDDING, 0), sink);
        for (uint32_t i = 0; i < s->dim && status == TV_OK; i++)
            store_bf16(bytes + 2 * i, row[i]);
        if (status == TV_OK)
            status = tv_machine_write(l->machine, "host", l->map.embedding + r * l->map.embedding_row_bytes, bytes,
                                      l->map.embedding_row_bytes, sink);
    }
    free(row);
    free(bytes);
    return status;
}

/* rope(x, y) = (x, y) * cos a + (-y, x) * sin a: `rotation` makes the second vector. */
static tv_status upload_rotations(pccx_lowering *l, const tv_diag_sink *sink)
{
    uint8_t identity[PCCX_LOWER_BLOCK * PCCX_LOWER_BEAT_BYTES] = {0},
                                        rotation[PCCX_LOWER_BLOCK * PCCX_LOWER_BEAT_BYTES] = {0};
    for (unsigned r = 0; r < PCCX_LOWER_BLOCK; r++) {
        unsigned other = r ^ 1, weight = r % 2 ? 1 : 15; /* 15: -1 */
        identity[r * PCCX_LOWER_BEAT_BYTES + r / 2] = (uint8_t)(1 << (r % 2 * 4));
        rotation[r * PCCX_LOWER_BEAT_BYTES + other / 2] = (uint8_t)(weight << (other % 2 * 4));
    }
    l->map.identity = allocate(l, sizeof identity);
    l->map.rotation = allocate(l, sizeof rotation);
    TV_TRY(tv_machine_write(l->machine, "host", l->map.identity, identity, sizeof identity, sink));
    return tv_machine_write(l->machine, "host", l->map.rotation, rotation, sizeof rotation, sink);
}

static tv_status upload_rope_tables(pccx_lowering *l, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t row = (uint64_t)s->head_dim * 2, bytes = l->context * row;
    uint8_t *cosines = malloc(bytes), *sines = malloc(bytes);
    tv_status status = cosines && sines ? TV_OK : tv_fail_memory(sink);
    l->map.rope_row_bytes = row;
    l->map.cosines = allocate(l, bytes);
    l->map.sines = allocate(l, bytes);
    for (uint32_t p = 0; p < l->context && status == TV_OK; p++)
        for (uint32_t i = 0; i < s->head_dim; i++) {
            double angle = p * pow((double)s->theta, -2.0 * (i / 2) / s->head_dim);
            store_bf16(cosines + p * row + 2 * i, tv_func_f32_of_angle(TV_FUNC_COS, angle));
            store_bf16(sines + p * row + 2 * i, tv_func_f32_of_angle(TV_FUNC_SIN, angle));
        }
    if (status == TV_OK)
        status = tv_machine_write(l->machine, "host", l->map.cosines, cosines, bytes, sink);
    if (status == TV_OK)
        status = tv_machine_write(l->machine, "host", l->map.sines, sines, bytes, sink);
    free(cosines);
    free(sines);
    return status;
}

static tv_status upload_constants(pccx_lowering *l, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t ones = (uint64_t)l->hidden * 2, bytes = ones + PCCX_LOWER_WORD_BYTES;
    uint8_t *image = calloc(1, bytes);
    if (!image)
        return tv_fail_memory(sink);
    for (uint32_t i = 0; i < l->hidden; i++)
        store_bf16(image + 2 * (uint64_t)i, 1);
    store_bf16(image + ones, (float)s->dim * s->eps);
    l->map.constants = allocate(l, bytes);
    tv_status status = tv_machine_write(l->machine, "host", l->map.constants, image, bytes, sink);
    free(image);
    return status;
}

static void allocate_session(pccx_lowering *l)
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t widest = l->hidden > s->dim ? l->hidden : s->dim, kv_dim = (uint64_t)s->kv_heads * s->head_dim;
    uint64_t heads = (uint64_t)s->layers * s->kv_heads * l->cache_planes,
             blocks = (l->context + PCCX_LOWER_BLOCK - 1) / PCCX_LOWER_BLOCK;
    l->map.vector = allocate(l, l->rows_max * widest * 2);
    l->map.vector2 = allocate(l, l->rows_max * widest * 2);
    l->map.key = allocate(l, l->rows_max * kv_dim * 2);
    l->map.value = allocate(l, l->rows_max * kv_dim * 2);
    l->map.logits = allocate(l, (uint64_t)l->rows_max * pccx_lower_l2_size(s->vocab) * PCCX_LOWER_WORD_BYTES);
    l->map.keys = allocate(l, heads * pccx_lower_key_bytes(l));
    l->map.values = allocate(l, heads * blocks * pccx_lower_value_bytes(l));
}

tv_status pccx_lower_upload_model(pccx_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    for (uint32_t layer = 0; layer < l->model->dims.layers; layer++)
        for (unsigned w = 0; w < TV_WEIGHTS; w++) {
            tv_progress_report(progress, "uploading weights", layer * TV_WEIGHTS + w,
                               (uint64_t)l->model->dims.layers * TV_WEIGHTS);
            if (w != TV_WEIGHT_EMBEDDING)
                TV_TRY(upload_matrix(l, (tv_weight)w, layer, sink));
        }
    TV_TRY(upload_embedding(l, sink));
    TV_TRY(upload_rotations(l, sink));
    TV_TRY(upload_rope_tables(l, sink));
    TV_TRY(upload_constants(l, sink));
    l->map.model_end = l->map.end;
    allocate_session(l);
    return check_host_size(l, sink);
}
