/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values for pccx: INT4 in host memory, as weights of GEMVs. No instruction makes INT4, so the host packs
 * them.
 *
 * A head's keys are rows of one matrix, a row and a scale for each position. Its values are matrices of PCCX_BLOCK
 * positions, with a row and a scale for each of its dimensions. The unfinished block is brought anew with every step: a
 * row's scale is that of its first 1, 2, 4 … positions, or of those up to the value of largest magnitude, whichever are
 * more. So a scale is searched for now and then alone, and depends on how many of its positions have come, but not on
 * how many came at once. */
#include <stdlib.h>

#include "lower/pccx/lower.h"
#include "num/float.h"

uint64_t pccx_key_bytes(const pccx_lowering *l)
{
    return (uint64_t)pccx_words(l->context) * PCCX_WORD +
           (uint64_t)l->context * pccx_beats(l->model->dims.head_dim) * PCCX_BEAT;
}

uint64_t pccx_value_bytes(const pccx_lowering *l)
{
    uint32_t d = l->model->dims.head_dim;
    return (uint64_t)pccx_words(d) * PCCX_WORD + (uint64_t)d * PCCX_BEAT;
}

static uint64_t key_plane(const pccx_lowering *l, uint32_t layer, uint32_t head, unsigned plane)
{
    return l->map.keys +
           (((uint64_t)layer * l->model->dims.kv_heads + head) * l->cache_planes + plane) * pccx_key_bytes(l);
}

/* Blocks of a head follow each other, the planes of a block too. */
static uint64_t value_block(const pccx_lowering *l, uint32_t layer, uint32_t head, uint32_t block)
{
    uint64_t blocks = (l->context + PCCX_BLOCK - 1) / PCCX_BLOCK;
    return l->map.values + (((uint64_t)layer * l->model->dims.kv_heads + head) * blocks + block) * l->cache_planes *
                               pccx_value_bytes(l);
}

/* ---- Packing ---- */

/* Heads are packed by all threads, each to its place in `packed`: keys of the step's rows, plane after plane, then the
 * blocks of values that the step changes. */
typedef struct packing {
    const pccx_lowering *l;
    uint32_t layer;
    const float *keys, *values; /* of each row, each head */
    uint8_t *packed;
} packing;

static uint32_t key_row_bytes(const pccx_lowering *l) { return 2 + pccx_beats(l->model->dims.head_dim) * PCCX_BEAT; }

static uint32_t first_block(const pccx_lowering *l) { return l->position / PCCX_BLOCK; }

static uint32_t block_count(const pccx_lowering *l)
{
    return (l->position + l->rows - 1) / PCCX_BLOCK - first_block(l) + 1;
}

static uint64_t head_bytes(const pccx_lowering *l)
{
    return (uint64_t)l->rows * l->cache_planes * key_row_bytes(l) +
           block_count(l) * l->cache_planes * pccx_value_bytes(l);
}

static uint8_t *key_at(const packing *p, uint32_t head, uint32_t row, unsigned plane)
{
    return p->packed + head * head_bytes(p->l) + ((uint64_t)row * p->l->cache_planes + plane) * key_row_bytes(p->l);
}

static uint8_t *block_at(const packing *p, uint32_t head, uint32_t block)
{
    const pccx_lowering *l = p->l;
    return key_at(p, head, l->rows, 0) + (uint64_t)(block - first_block(l)) * l->cache_planes * pccx_value_bytes(l);
}

/* A scale and beats in every plane. */
static void pack_key(const packing *p, uint32_t head, uint32_t row)
{
    const pccx_lowering *l = p->l;
    float key[PCCX_HEAD_MAX] = {0};
    uint32_t d = l->model->dims.head_dim;
    memcpy(key, p->keys + ((size_t)row * l->model->dims.kv_heads + head) * d, d * sizeof *key);
    for (unsigned plane = 0; plane < l->cache_planes; plane++) {
        uint8_t *to = key_at(p, head, row, plane);
        tv_store_le(to, pccx_quantize(l->scale_search, key, d, to + 2), 2);
    }
}

static void choose_scale(const pccx_lowering *l, const float *values, pccx_value_row *row)
{
    if (row->seen) {
        row->scale = pccx_choose_scale(l->scale_search, values, row->seen, row->extreme);
        row->packed = 0;
    }
    row->seen = 0;
}

/* A row of a block of which `count` values have come, in the only plane: while the scale stays, new values are put
 * beside the others. */
static void pack_row(const pccx_lowering *l, const float *values, uint32_t count, pccx_value_row *row)
{
    choose_scale(l, values, row);
    if (row->packed == 0)
        row->scale_bits = pccx_round(values, count, row->scale, row->beat, NULL);
    else
        pccx_round_more(values, row->packed, count, row->scale, row->beat);
    row->packed = count;
}

/* The same in several planes, each of what the ones before have left. */
static void pack_planes(const pccx_lowering *l, float *values, uint32_t count, pccx_value_row *row, uint8_t *scale,
                        uint8_t *beat)
{
    uint64_t bytes = pccx_value_bytes(l);
    choose_scale(l, values, row);
    tv_store_le(scale, pccx_round(values, count, row->scale, beat, values), 2);
    for (unsigned plane = 1; plane < l->cache_planes; plane++)
        tv_store_le(scale + plane * bytes, pccx_quantize(l->scale_search, values, count, beat + plane * bytes), 2);
}

/* A block of a head's values: those of positions to `position`. */
static void pack_block(const packing *p, uint32_t head, uint32_t position, const float *block, pccx_value_row *rows)
{
    const pccx_lowering *l = p->l;
    uint32_t d = l->model->dims.head_dim, count = position % PCCX_BLOCK + 1;
    uint8_t *scales = block_at(p, head, position / PCCX_BLOCK), *beats = scales + pccx_words(d) * PCCX_WORD;
    for (uint32_t i = 0; i < d; i++, scales += 2, beats += PCCX_BEAT) {
        float values[PCCX_BLOCK] = {0};
        memcpy(values, block + (size_t)i * PCCX_BLOCK, count * sizeof *values);
        if (l->cache_planes > 1) {
            pack_planes(l, values, count, &rows[i], scales, beats);
            continue;
        }
        pack_row(l, values, count, &rows[i]);
        tv_store_le(scales, rows[i].scale_bits, 2);
        memcpy(beats, rows[i].beat, PCCX_BEAT);
    }
}

/* A value more of a row of which `count` have come before. */
static void take_value(pccx_value_row *row, float value, uint32_t count)
{
    bool larger = count == 0 || tv_f32_abs(tv_f32_bits(value)) >
                                    tv_f32_abs(tv_f32_bits(row->extreme)); /* by bits: what is not finite is largest */
    if (count == 0)
        row->packed = 0;
    if (larger)
        row->extreme = value;
    if (larger || (count & (count + 1)) == 0)
        row->seen = count + 1;
}

/* A block is packed when it is full, or as far as this step goes. */
static void pack_value(const packing *p, uint32_t head, uint32_t row)
{
    const pccx_lowering *l = p->l;
    uint32_t heads = l->model->dims.kv_heads, d = l->model->dims.head_dim, position = l->position + row,
             count = position % PCCX_BLOCK;
    size_t first_row = ((size_t)p->layer * heads + head) * d;
    float *block = l->block + first_row * PCCX_BLOCK;
    const float *value = p->values + ((size_t)row * heads + head) * d;
    for (uint32_t i = 0; i < d; i++) {
        block[(size_t)i * PCCX_BLOCK + count] = value[i];
        take_value(&l->value_rows[first_row + i], value[i], count);
    }
    if (count == PCCX_BLOCK - 1 || row + 1 == l->rows)
        pack_block(p, head, position, block, l->value_rows + first_row);
}

static void pack_heads(void *user, uint64_t from, uint64_t to)
{
    const packing *p = user;
    for (uint32_t head = (uint32_t)from; head < to; head++)
        for (uint32_t row = 0; row < p->l->rows; row++) {
            pack_key(p, head, row);
            pack_value(p, head, row);
        }
}

/* What has been packed of a head comes to host memory with the next program. */
static void put_head(pccx_lowering *l, const packing *p, uint32_t head)
{
    uint32_t beats = pccx_beats(l->model->dims.head_dim);
    for (uint32_t row = 0; row < l->rows; row++)
        for (unsigned plane = 0; plane < l->cache_planes; plane++) {
            uint64_t to = key_plane(l, p->layer, head, plane), position = l->position + row;
            const uint8_t *from = key_at(p, head, row, plane);
            pccx_put(l, to + 2 * position, from, 2);
            pccx_put(l, to + (uint64_t)pccx_words(l->context) * PCCX_WORD + position * beats * PCCX_BEAT, from + 2,
                     (size_t)beats * PCCX_BEAT);
        }
    for (uint32_t block = first_block(l); block < first_block(l) + block_count(l); block++)
        for (unsigned plane = 0; plane < l->cache_planes; plane++) {
            uint64_t offset = plane * pccx_value_bytes(l);
            pccx_put(l, value_block(l, p->layer, head, block) + offset, block_at(p, head, block) + offset,
                     pccx_value_bytes(l));
        }
}

tv_status pccx_append(pccx_lowering *l, uint32_t layer, const tv_diag_sink *sink)
{
    uint32_t heads = l->model->dims.kv_heads;
    size_t count = (size_t)l->rows * heads * l->model->dims.head_dim, bytes = heads * head_bytes(l);
    float *values = malloc(2 * count * sizeof *values);
    packing p = {.l = l, .layer = layer, .keys = values, .values = values + count, .packed = calloc(1, bytes)};
    tv_status status = values && p.packed ? pccx_read_bf16(l, l->map.key, count, values, sink) : tv_fail_memory(sink);
    if (status == TV_OK)
        status = pccx_read_bf16(l, l->map.value, count, values + count, sink);
    if (status == TV_OK) {
        tv_pool_run(l->pool, heads, pack_heads, &p);
        for (uint32_t head = 0; head < heads; head++)
            put_head(l, &p, head);
    }
    free(values);
    free(p.packed);
    return status;
}

/* ---- Products ---- */

void pccx_scores(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t layer, uint32_t kv_head, uint32_t count)
{
    uint32_t d = l->model->dims.head_dim;
    for (unsigned plane = 0; plane < l->cache_planes; plane++) {
        uint64_t at = key_plane(l, layer, kv_head, plane);
        bool last = plane + 1 == l->cache_planes;
        pccx_stream(l, false, at, (uint64_t)pccx_words(count) * PCCX_WORD);
        pccx_stream(l, false, at + (uint64_t)pccx_words(l->context) * PCCX_WORD,
                    (uint64_t)count * pccx_beats(d) * PCCX_BEAT);
        pccx_gemv(l, out, in, count, d, (plane ? PCCX_ACCM : 0u) | (last ? PCCX_FINDEMAX : 0u));
    }
}

void pccx_mix(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t layer, uint32_t kv_head, uint32_t count)
{
    uint32_t d = l->model->dims.head_dim;
    for (uint32_t at = 0; at < count; at += PCCX_BLOCK) {
        uint32_t positions = count - at < PCCX_BLOCK ? count - at : PCCX_BLOCK;
        pccx_stream(l, false, value_block(l, layer, kv_head, at / PCCX_BLOCK), l->cache_planes * pccx_value_bytes(l));
        for (unsigned plane = 0; plane < l->cache_planes; plane++)
            pccx_gemv(l, out, in + at / PCCX_LANES, d, positions, at || plane ? PCCX_ACCM : 0);
    }
}
