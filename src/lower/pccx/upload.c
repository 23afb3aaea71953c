/* SPDX-License-Identifier: Apache-2.0 */
/* The model in pccx's host memory. A norm's gains, the root of its length and the scale of scores are factors of the
 * weights behind them, so that the machine need not multiply by them: rows are quantized with these folded in. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lower/pccx/lower.h"
#include "num/float.h"
#include "num/func.h"

static uint64_t take(pccx_lowering *l, uint64_t bytes)
{
    uint64_t at = l->map.end;
    l->map.end += (bytes + 63) / 64 * 64;
    return at;
}

uint64_t pccx_space_size(const tv_machine *machine, const char *name)
{
    tv_space space;
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++)
        if (strcmp(space.name, name) == 0)
            return space.size;
    return 0;
}

static void store_bf16(uint8_t *to, float x) { tv_store_le(to, tv_bf16_flush(tv_bf16_from_f32(x)), 2); }

/* ---- Matrices ---- */

static uint64_t plane_bytes(uint32_t rows, uint32_t columns)
{
    return (uint64_t)pccx_words(rows) * PCCX_WORD + (uint64_t)rows * pccx_beats(columns) * PCCX_BEAT;
}

uint64_t pccx_group_bytes(const pccx_lowering *l, uint32_t rows, uint32_t columns)
{
    return l->planes * plane_bytes(rows, columns);
}

typedef struct placing {
    const pccx_lowering *l;
    const tv_matrix *from;
    const pccx_matrix *to;
    const float *gains; /* of the columns, or NULL */
    float factor;       /* of all */
    uint8_t *image;
    atomic_bool failed;
} placing;

/* Rows `row` on of a block of `rows`: their scales and beats in every group and plane. */
static void quantize_row(const placing *p, float *values, uint8_t *block, uint32_t rows, uint32_t row)
{
    const pccx_lowering *l = p->l;
    for (uint32_t at = 0; at < p->to->columns; at += l->group) {
        uint32_t columns = p->to->columns - at < l->group ? p->to->columns - at : l->group;
        for (unsigned plane = 0; plane < l->planes; plane++) {
            uint8_t *beats =
                block + (uint64_t)pccx_words(rows) * PCCX_WORD + (uint64_t)row * pccx_beats(columns) * PCCX_BEAT;
            tv_store_le(block + 2 * (uint64_t)row, pccx_quantize(l->scale_search, values + at, columns, beats), 2);
            block += plane_bytes(rows, columns);
        }
    }
}

static uint64_t block_bytes(const pccx_lowering *l, uint32_t rows, uint32_t columns)
{
    uint32_t whole = columns / l->group, rest = columns % l->group;
    return whole * pccx_group_bytes(l, rows, l->group) + (rest ? pccx_group_bytes(l, rows, rest) : 0);
}

static void place_rows(void *user, uint64_t from, uint64_t to)
{
    placing *p = user;
    uint32_t columns = p->to->columns;
    uint64_t whole_block = block_bytes(p->l, PCCX_ROWS, columns);
    float *values =
        calloc((size_t)pccx_beats(columns) * PCCX_BEAT_WEIGHTS, sizeof *values); /* what is padding stays 0 */
    for (uint64_t r = from; r < to && values; r++) {
        uint32_t first = (uint32_t)(r / PCCX_ROWS * PCCX_ROWS),
                 rows = p->to->rows - first < PCCX_ROWS ? p->to->rows - first : PCCX_ROWS;
        if (r >= p->from->rows)
            memset(values, 0, columns * sizeof *values);
        else if (tv_matrix_row_f32(p->from, r, values) != TV_OK)
            p->failed = true;
        for (uint32_t i = 0; i < p->from->columns; i++)
            values[i] *= p->factor * (p->gains ? p->gains[i] : 1);
        quantize_row(p, values, p->image + r / PCCX_ROWS * whole_block, rows, (uint32_t)r - first);
    }
    if (!values)
        p->failed = true;
    free(values);
}

/* The norm whose output a matrix takes; TV_WEIGHTS: it takes none's. */
static tv_weight norm_before(tv_weight weight)
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
    default:
        return TV_WEIGHTS;
    }
}

/* Gate and up have the other sign: see lower_pccx.c, gate. */
static float factor_of(const pccx_lowering *l, tv_weight weight)
{
    const tv_model_dims *s = &l->model->dims;
    float factor = norm_before(weight) == TV_WEIGHTS ? 1 : sqrtf((float)s->dim);
    return weight == TV_WEIGHT_Q                                ? factor / sqrtf((float)s->head_dim)
           : weight == TV_WEIGHT_GATE || weight == TV_WEIGHT_UP ? -factor
                                                                : factor;
}

static tv_status check_room(const pccx_lowering *l, const tv_diag_sink *sink)
{
    uint64_t size = pccx_space_size(l->machine, "host");
    if (l->map.end > size)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       "make host.bytes larger with -D, or the context smaller",
                       "the model and its cache take more than the %" PRIu64 " bytes of host memory", size);
    return TV_OK;
}

static tv_status place_matrix(pccx_lowering *l, tv_weight weight, uint32_t layer, const tv_diag_sink *sink)
{
    const tv_matrix *from = tv_model_matrix(l->model, weight, layer);
    pccx_matrix *to = pccx_matrix_of(l, weight, layer);
    tv_weight norm = norm_before(weight);
    if (!from->rows || tv_weight_is_norm(weight))
        return TV_OK;
    to->rows = weight == TV_WEIGHT_GATE || weight == TV_WEIGHT_UP ? l->hidden : from->rows;
    to->columns = weight == TV_WEIGHT_DOWN ? l->hidden : from->columns;
    uint32_t rest = to->rows % PCCX_ROWS;
    uint64_t bytes =
        to->rows / PCCX_ROWS * block_bytes(l, PCCX_ROWS, to->columns) + (rest ? block_bytes(l, rest, to->columns) : 0);
    to->addr = take(l, bytes);
    TV_TRY(check_room(l, sink));
    if (l->timing)
        return TV_OK;
    placing p = {.l = l, .from = from, .to = to, .factor = factor_of(l, weight), .image = calloc(1, bytes)};
    float *gains = malloc(from->columns * sizeof *gains);
    tv_status status = gains && p.image ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK && norm != TV_WEIGHTS) {
        status = tv_matrix_row_f32(tv_model_matrix(l->model, norm, layer), 0, gains);
        p.gains = gains;
    }
    if (status == TV_OK) {
        tv_pool_run(l->pool, to->rows, place_rows, &p);
        status = p.failed ? tv_fail_memory(sink) : tv_machine_write(l->machine, "host", to->addr, p.image, bytes, sink);
    }
    free(gains);
    free(p.image);
    return status;
}

/* ---- Tables ---- */

static tv_status place_embedding(pccx_lowering *l, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    l->map.embedding_row = (uint64_t)pccx_words(s->dim) * PCCX_WORD;
    l->map.embedding = take(l, s->vocab * l->map.embedding_row);
    TV_TRY(check_room(l, sink));
    if (l->timing)
        return TV_OK;
    float *row = malloc(s->dim * sizeof *row);
    uint8_t *bytes = calloc(1, l->map.embedding_row);
    tv_status status = row && bytes ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < s->vocab && status == TV_OK; r++) {
        status = tv_matrix_row_f32(tv_model_matrix(l->model, TV_WEIGHT_EMBEDDING, 0), r, row);
        for (uint32_t i = 0; i < s->dim && status == TV_OK; i++)
            store_bf16(bytes + 2 * i, row[i]);
        if (status == TV_OK)
            status = tv_machine_write(l->machine, "host", l->map.embedding + r * l->map.embedding_row, bytes,
                                      l->map.embedding_row, sink);
    }
    free(row);
    free(bytes);
    return status;
}

/* (x, y) turned by a is (x, y) * cos a + (-y, x) * sin a: the second vector is the turn's. */
static tv_status place_turns(pccx_lowering *l, const tv_diag_sink *sink)
{
    uint8_t identity[PCCX_BLOCK * PCCX_BEAT] = {0}, turn[PCCX_BLOCK * PCCX_BEAT] = {0};
    for (unsigned r = 0; r < PCCX_BLOCK; r++) {
        unsigned other = r ^ 1, weight = r % 2 ? 1 : 15; /* 15: -1 */
        identity[r * PCCX_BEAT + r / 2] = (uint8_t)(1 << (r % 2 * 4));
        turn[r * PCCX_BEAT + other / 2] = (uint8_t)(weight << (other % 2 * 4));
    }
    l->map.identity = take(l, sizeof identity);
    l->map.turn = take(l, sizeof turn);
    TV_TRY(tv_machine_write(l->machine, "host", l->map.identity, identity, sizeof identity, sink));
    return tv_machine_write(l->machine, "host", l->map.turn, turn, sizeof turn, sink);
}

static tv_status place_angles(pccx_lowering *l, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t row = (uint64_t)s->head_dim * 2, bytes = l->context * row;
    uint8_t *cosines = malloc(bytes), *sines = malloc(bytes);
    tv_status status = cosines && sines ? TV_OK : tv_fail_memory(sink);
    l->map.rope_row = row;
    l->map.cosines = take(l, bytes);
    l->map.sines = take(l, bytes);
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

static tv_status place_constants(pccx_lowering *l, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t ones = (uint64_t)l->hidden * 2, bytes = ones + PCCX_WORD;
    uint8_t *image = calloc(1, bytes);
    if (!image)
        return tv_fail_memory(sink);
    for (uint32_t i = 0; i < l->hidden; i++)
        store_bf16(image + 2 * (uint64_t)i, 1);
    store_bf16(image + ones, (float)s->dim * s->eps);
    l->map.constants = take(l, bytes);
    tv_status status = tv_machine_write(l->machine, "host", l->map.constants, image, bytes, sink);
    free(image);
    return status;
}

static void place_session(pccx_lowering *l)
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t widest = l->hidden > s->dim ? l->hidden : s->dim, narrow = (uint64_t)s->kv_heads * s->head_dim;
    uint64_t heads = (uint64_t)s->layers * s->kv_heads * l->cache_planes,
             blocks = (l->context + PCCX_BLOCK - 1) / PCCX_BLOCK;
    l->map.vector = take(l, l->rows_max * widest * 2);
    l->map.vector2 = take(l, l->rows_max * widest * 2);
    l->map.key = take(l, l->rows_max * narrow * 2);
    l->map.value = take(l, l->rows_max * narrow * 2);
    l->map.logits = take(l, (uint64_t)l->rows_max * pccx_words(s->vocab) * PCCX_WORD);
    l->map.keys = take(l, heads * pccx_key_bytes(l));
    l->map.values = take(l, heads * blocks * pccx_value_bytes(l));
}

tv_status pccx_place_model(pccx_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    for (uint32_t layer = 0; layer < l->model->dims.layers; layer++)
        for (unsigned w = 0; w < TV_WEIGHTS; w++) {
            tv_progress_report(progress, "placing weights", layer * TV_WEIGHTS + w,
                               (uint64_t)l->model->dims.layers * TV_WEIGHTS);
            if (w != TV_WEIGHT_EMBEDDING)
                TV_TRY(place_matrix(l, (tv_weight)w, layer, sink));
        }
    TV_TRY(place_embedding(l, sink));
    TV_TRY(place_turns(l, sink));
    TV_TRY(place_angles(l, sink));
    TV_TRY(place_constants(l, sink));
    l->map.model_end = l->map.end;
    place_session(l);
    return check_room(l, sink);
}
