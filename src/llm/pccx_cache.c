/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values for pccx: INT4 in host memory, as weights of GEMVs. No instruction makes INT4, so the host packs them.
 *
 * A head's keys are rows of one matrix, a row and a scale for each position. Its values are matrices of PCCX_BLOCK positions,
 * with a row and a scale for each of its dimensions; the unfinished block is packed anew with every step. The scales of a block
 * thus depend, by a rounding, on how many of its positions have come. */
#include "llm/pccx_lower.h"

uint64_t pccx_key_bytes(const pccx_lowering *l)
{
    return (uint64_t)pccx_words(l->context) * PCCX_WORD + (uint64_t)l->context * pccx_beats(l->model->shape.head_dim) * PCCX_BEAT;
}

uint64_t pccx_value_bytes(const pccx_lowering *l)
{
    uint32_t d = l->model->shape.head_dim;
    return (uint64_t)pccx_words(d) * PCCX_WORD + (uint64_t)d * PCCX_BEAT;
}

static uint64_t key_plane(const pccx_lowering *l, uint32_t layer, uint32_t head, unsigned plane)
{
    return l->map.keys + (((uint64_t)layer * l->model->shape.kv_heads + head) * l->cache_planes + plane) * pccx_key_bytes(l);
}

/* Blocks of a head follow each other, the planes of a block too. */
static uint64_t value_block(const pccx_lowering *l, uint32_t layer, uint32_t head, uint32_t block)
{
    uint64_t blocks = (l->context + PCCX_BLOCK - 1) / PCCX_BLOCK;
    return l->map.values + (((uint64_t)layer * l->model->shape.kv_heads + head) * blocks + block) * l->cache_planes * pccx_value_bytes(l);
}

/* ---- Packing ---- */

static void append_key(pccx_lowering *l, uint32_t layer, uint32_t head, uint32_t position, float *key)
{
    uint32_t d = l->model->shape.head_dim, beats = pccx_beats(d);
    uint8_t packed[PCCX_HEAD_MAX / 2], scale[2];
    for (unsigned plane = 0; plane < l->cache_planes; plane++) {
        uint64_t at = key_plane(l, layer, head, plane);
        tv_store_le(scale, pccx_quantize(l->least_scale, key, d, packed), 2);
        pccx_put(l, at + 2 * (uint64_t)position, scale, 2);
        pccx_put(l, at + (uint64_t)pccx_words(l->context) * PCCX_WORD + (uint64_t)position * beats * PCCX_BEAT, packed, (size_t)beats * PCCX_BEAT);
    }
}

/* A block of a head's values: those of positions to `position`. */
static void put_block(pccx_lowering *l, uint32_t layer, uint32_t head, uint32_t position, const float *block)
{
    uint32_t d = l->model->shape.head_dim, count = position % PCCX_BLOCK + 1;
    uint64_t bytes = pccx_value_bytes(l);
    uint8_t packed[PCCX_CACHE_PLANES_MAX][PCCX_HEAD_MAX * (2 + PCCX_BEAT)] = {{0}};
    for (uint32_t i = 0; i < d; i++) {
        float row[PCCX_BLOCK];
        memcpy(row, block + (size_t)i * PCCX_BLOCK, count * sizeof *row);
        for (unsigned plane = 0; plane < l->cache_planes; plane++)
            tv_store_le(packed[plane] + 2 * i, pccx_quantize(l->least_scale, row, count, packed[plane] + pccx_words(d) * PCCX_WORD + i * PCCX_BEAT), 2);
    }
    for (unsigned plane = 0; plane < l->cache_planes; plane++)
        pccx_put(l, value_block(l, layer, head, position / PCCX_BLOCK) + plane * bytes, packed[plane], bytes);
}

/* A block is packed when it is full, or as far as this step goes. */
static void append_value(pccx_lowering *l, uint32_t layer, uint32_t head, uint32_t row, const float *value)
{
    uint32_t d = l->model->shape.head_dim, position = l->position + row;
    float *block = l->block + ((size_t)layer * l->model->shape.kv_heads + head) * d * PCCX_BLOCK;
    for (uint32_t i = 0; i < d; i++)
        block[(size_t)i * PCCX_BLOCK + position % PCCX_BLOCK] = value[i];
    if (position % PCCX_BLOCK == PCCX_BLOCK - 1 || row + 1 == l->rows)
        put_block(l, layer, head, position, block);
}

tv_status pccx_append(pccx_lowering *l, uint32_t layer, const tv_diag_sink *sink)
{
    float x[PCCX_HEAD_MAX];
    uint32_t d = l->model->shape.head_dim, heads = l->model->shape.kv_heads;
    for (uint32_t i = 0; i < l->rows * heads; i++) {
        TV_TRY(pccx_read_bf16(l, l->map.key + (uint64_t)i * d * 2, d, x, sink));
        append_key(l, layer, i % heads, l->position + i / heads, x);
        TV_TRY(pccx_read_bf16(l, l->map.value + (uint64_t)i * d * 2, d, x, sink));
        append_value(l, layer, i % heads, i / heads, x);
    }
    return TV_OK;
}

/* ---- Products ---- */

void pccx_scores(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t layer, uint32_t kv_head, uint32_t count)
{
    uint32_t d = l->model->shape.head_dim;
    for (unsigned plane = 0; plane < l->cache_planes; plane++) {
        uint64_t at = key_plane(l, layer, kv_head, plane);
        bool last = plane + 1 == l->cache_planes;
        pccx_stream(l, false, at, (uint64_t)pccx_words(count) * PCCX_WORD);
        pccx_stream(l, false, at + (uint64_t)pccx_words(l->context) * PCCX_WORD, (uint64_t)count * pccx_beats(d) * PCCX_BEAT);
        pccx_gemv(l, out, in, count, d, (plane ? PCCX_ACCM : 0u) | (last ? PCCX_FINDEMAX : 0u));
    }
}

void pccx_mix(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t layer, uint32_t kv_head, uint32_t count)
{
    uint32_t d = l->model->shape.head_dim;
    for (uint32_t at = 0; at < count; at += PCCX_BLOCK) {
        uint32_t positions = count - at < PCCX_BLOCK ? count - at : PCCX_BLOCK;
        pccx_stream(l, false, value_block(l, layer, kv_head, at / PCCX_BLOCK), l->cache_planes * pccx_value_bytes(l));
        for (unsigned plane = 0; plane < l->cache_planes; plane++)
            pccx_gemv(l, out, in + at / PCCX_LANES, d, positions, at || plane ? PCCX_ACCM : 0);
    }
}
