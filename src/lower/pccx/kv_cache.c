/* SPDX-License-Identifier: Apache-2.0 */
/* The KV cache for pccx: INT4 in host memory, streamed as weights of GEMVs. No instruction packs INT4, so the host
 * does.
 *
 * Where only a window is seen, the cache is a ring: position p is stored at p modulo its positions.
 *
 * The keys of a head are the rows of one matrix, with a row and a scale for each position. Its values are one matrix
 * per PCCX_LOWER_BLOCK positions, with a row and a scale for each element of the head. The incomplete block is uploaded
 * again in every step. The scale of its rows is that of their first 1, 2, 4, … positions, or of those up to the absmax,
 * whichever are more. So scales are searched rarely, and depend on the positions, not on how many tokens each step
 * had. */
#include <stdlib.h>

#include "lower/pccx/state.h"
#include "num/float.h"

static uint64_t key_plane_addr(const pccx_lowering *l, uint32_t cache, uint32_t head, unsigned plane)
{
    return l->map.keys[cache] + ((uint64_t)head * l->cache_planes + plane) * pccx_lower_key_bytes(l, cache);
}

/* [head][block][plane] */
static uint64_t value_block_addr(const pccx_lowering *l, uint32_t cache, uint32_t head, uint32_t block)
{
    uint32_t blocks = (pccx_lower_cache_positions(l, cache) + PCCX_LOWER_BLOCK - 1) / PCCX_LOWER_BLOCK;
    return l->map.values[cache] +
           ((uint64_t)head * blocks + block % blocks) * l->cache_planes * pccx_lower_value_bytes(l, cache);
}

/* ---- Packing ---- */

/* Heads are packed in parallel. The packed bytes of a head are the keys of the step's rows, [row][plane], then the
 * modified blocks of values. */
typedef struct packing {
    const pccx_lowering *l;
    uint32_t cache;
    const tv_graph_cache *shape;
    const float *keys, *values; /* [row][head][dim] */
    uint8_t *packed;
} packing;

static uint32_t key_row_bytes(const packing *p)
{
    return 2 + pccx_lower_beats(p->shape->key_dim) * PCCX_LOWER_BEAT_BYTES;
}

static uint32_t first_block(const pccx_lowering *l) { return l->position / PCCX_LOWER_BLOCK; }

static uint32_t modified_blocks(const pccx_lowering *l)
{
    return (l->position + l->rows - 1) / PCCX_LOWER_BLOCK - first_block(l) + 1;
}

static uint64_t packed_head_bytes(const packing *p)
{
    const pccx_lowering *l = p->l;
    return (uint64_t)l->rows * l->cache_planes * key_row_bytes(p) +
           modified_blocks(l) * l->cache_planes * pccx_lower_value_bytes(l, p->cache);
}

static uint8_t *packed_key(const packing *p, uint32_t head, uint32_t row, unsigned plane)
{
    return p->packed + head * packed_head_bytes(p) + ((uint64_t)row * p->l->cache_planes + plane) * key_row_bytes(p);
}

static uint8_t *packed_block(const packing *p, uint32_t head, uint32_t block)
{
    const pccx_lowering *l = p->l;
    return packed_key(p, head, l->rows, 0) +
           (uint64_t)(block - first_block(l)) * l->cache_planes * pccx_lower_value_bytes(l, p->cache);
}

/* Writes a scale and the beats in every plane. */
static void pack_key(const packing *p, uint32_t head, uint32_t row)
{
    const pccx_lowering *l = p->l;
    float key[PCCX_LOWER_HEAD_DIM_MAX] = {0};
    uint32_t d = p->shape->key_dim;
    memcpy(key, p->keys + ((size_t)row * p->shape->heads + head) * d, d * sizeof *key);
    for (unsigned plane = 0; plane < l->cache_planes; plane++) {
        uint8_t *to = packed_key(p, head, row, plane);
        tv_store_le(to, pccx_lower_quantize(l->scale_search, key, d, to + 2), 2);
    }
}

static void update_scale(const pccx_lowering *l, const float *values, pccx_lower_value_row *row)
{
    if (row->rescale_count) {
        row->scale = pccx_lower_choose_scale(l->scale_search, values, row->rescale_count, row->absmax);
        row->packed = 0;
    }
    row->rescale_count = 0;
}

/* Packs a row of a block with `count` values, in a single plane. While the scale is unchanged, only new values are
 * added: mostly one, for which the others are not read. */
static void pack_row(const pccx_lowering *l, const float *row_values, uint32_t count, pccx_lower_value_row *row)
{
    if (!row->rescale_count && row->packed > 0) {
        pccx_lower_round_more(row_values, row->packed, count, row->scale, row->beat);
    } else {
        float values[PCCX_LOWER_BLOCK] = {0};
        memcpy(values, row_values, count * sizeof *values);
        update_scale(l, values, row);
        row->scale_bits = pccx_lower_round(values, count, row->scale, row->beat, NULL);
    }
    row->packed = count;
}

/* The same in several planes, each with the remainder of the previous one. */
static void pack_row_planes(const packing *p, float *values, uint32_t count, pccx_lower_value_row *row, uint8_t *scale,
                            uint8_t *beat)
{
    const pccx_lowering *l = p->l;
    uint64_t bytes = pccx_lower_value_bytes(l, p->cache);
    update_scale(l, values, row);
    tv_store_le(scale, pccx_lower_round(values, count, row->scale, beat, values), 2);
    for (unsigned plane = 1; plane < l->cache_planes; plane++)
        tv_store_le(scale + plane * bytes, pccx_lower_quantize(l->scale_search, values, count, beat + plane * bytes),
                    2);
}

/* Packs a block of a head's values, up to and including `position`. */
static void pack_block(const packing *p, uint32_t head, uint32_t position, const float *block,
                       pccx_lower_value_row *rows)
{
    const pccx_lowering *l = p->l;
    uint32_t d = p->shape->value_dim, count = position % PCCX_LOWER_BLOCK + 1;
    uint8_t *scales = packed_block(p, head, position / PCCX_LOWER_BLOCK),
            *beats = scales + pccx_lower_l2_size(d) * PCCX_LOWER_WORD_BYTES;
    for (uint32_t i = 0; i < d; i++, scales += 2, beats += PCCX_LOWER_BEAT_BYTES) {
        const float *row_values = block + (size_t)i * PCCX_LOWER_BLOCK;
        if (l->cache_planes > 1) {
            float values[PCCX_LOWER_BLOCK] = {0};
            memcpy(values, row_values, count * sizeof *values);
            pack_row_planes(p, values, count, &rows[i], scales, beats);
            continue;
        }
        pack_row(l, row_values, count, &rows[i]);
        tv_store_le(scales, rows[i].scale_bits, 2);
        memcpy(beats, rows[i].beat, PCCX_LOWER_BEAT_BYTES);
    }
}

/* Appends a value to a row of `count` values: updates the absmax and decides whether a new scale is needed. */
static void append_value(pccx_lower_value_row *row, float value, uint32_t count)
{
    bool is_absmax = count == 0 ||
                     tv_f32_abs(tv_f32_bits(value)) >
                         tv_f32_abs(tv_f32_bits(row->absmax)); /* compares bits, so non-finite values are the largest */
    if (count == 0)
        row->packed = 0;
    if (is_absmax)
        row->absmax = value;
    if (is_absmax || (count & (count + 1)) == 0)
        row->rescale_count = count + 1;
}

/* A block is packed when it is complete, or at the last row of the step. */
static void pack_value(const packing *p, uint32_t head, uint32_t row)
{
    const pccx_lowering *l = p->l;
    uint32_t d = p->shape->value_dim, position = l->position + row, count = position % PCCX_LOWER_BLOCK;
    size_t first_row = (size_t)head * d;
    float *block = l->blocks[p->cache] + first_row * PCCX_LOWER_BLOCK;
    pccx_lower_value_row *rows = l->value_rows[p->cache] + first_row;
    const float *value = p->values + ((size_t)row * p->shape->heads + head) * d;
    for (uint32_t i = 0; i < d; i++) {
        block[(size_t)i * PCCX_LOWER_BLOCK + count] = value[i];
        append_value(&rows[i], value[i], count);
    }
    if (count == PCCX_LOWER_BLOCK - 1 || row + 1 == l->rows)
        pack_block(p, head, position, block, rows);
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

/* Adds the packed bytes of a head to the next program. */
static void add_head_data(pccx_lowering *l, const packing *p, uint32_t head)
{
    uint32_t beats = pccx_lower_beats(p->shape->key_dim), positions = pccx_lower_cache_positions(l, p->cache);
    uint64_t block_bytes = pccx_lower_value_bytes(l, p->cache);
    for (uint32_t row = 0; row < l->rows; row++)
        for (unsigned plane = 0; plane < l->cache_planes; plane++) {
            uint64_t to = key_plane_addr(l, p->cache, head, plane), position = (l->position + row) % positions;
            const uint8_t *from = packed_key(p, head, row, plane);
            pccx_lower_add_data(l, to + 2 * position, from, 2);
            pccx_lower_add_data(l,
                                to + (uint64_t)pccx_lower_l2_size(positions) * PCCX_LOWER_WORD_BYTES +
                                    position * beats * PCCX_LOWER_BEAT_BYTES,
                                from + 2, (size_t)beats * PCCX_LOWER_BEAT_BYTES);
        }
    for (uint32_t block = first_block(l); block < first_block(l) + modified_blocks(l); block++)
        for (unsigned plane = 0; plane < l->cache_planes; plane++) {
            uint64_t offset = plane * block_bytes;
            pccx_lower_add_data(l, value_block_addr(l, p->cache, head, block) + offset,
                                packed_block(p, head, block) + offset, block_bytes);
        }
}

tv_status pccx_lower_append_kv(pccx_lowering *l, uint32_t cache, const tv_diag_sink *sink)
{
    const tv_graph_cache *shape = &l->graph->caches.data[cache];
    size_t keys = (size_t)l->rows * shape->heads * shape->key_dim,
           values = (size_t)l->rows * shape->heads * shape->value_dim;
    float *rows = malloc((keys + values) * sizeof *rows);
    packing p = {.l = l, .cache = cache, .shape = shape, .keys = rows, .values = rows ? rows + keys : NULL};
    p.packed = calloc(shape->heads, packed_head_bytes(&p));
    tv_status status = rows && p.packed ? pccx_lower_read_bf16(l, l->map.key, keys, rows, sink) : tv_fail_memory(sink);
    if (status == TV_OK)
        status = pccx_lower_read_bf16(l, l->map.value, values, rows + keys, sink);
    if (status == TV_OK) {
        tv_pool_run(l->pool, shape->heads, pack_heads, &p);
        for (uint32_t head = 0; head < shape->heads; head++)
            add_head_data(l, &p, head);
    }
    free(rows);
    free(p.packed);
    return status;
}

/* ---- Products ---- */

/* Streams items [first, first + count) of a ring of `positions`; each has `bytes`, the last ones up to whole words. */
static void stream_ring(pccx_lowering *l, uint64_t addr, uint32_t positions, pccx_lower_span span, uint64_t bytes)
{
    uint32_t first = span.first % positions, count = span.count < positions - first ? span.count : positions - first;
    for (uint32_t left = span.count; left; left -= count, first = 0, count = left)
        pccx_lower_stream(l, false, addr + first * bytes,
                          (count * bytes + PCCX_LOWER_WORD_BYTES - 1) / PCCX_LOWER_WORD_BYTES * PCCX_LOWER_WORD_BYTES);
}

void pccx_lower_scores(pccx_lowering *l, uint32_t out, uint32_t in, pccx_lower_span span, bool find_max)
{
    uint32_t d = l->graph->caches.data[span.cache].key_dim, positions = pccx_lower_cache_positions(l, span.cache);
    for (unsigned plane = 0; plane < l->cache_planes; plane++) {
        uint64_t at = key_plane_addr(l, span.cache, span.head, plane),
                 rows = at + (uint64_t)pccx_lower_l2_size(positions) * PCCX_LOWER_WORD_BYTES;
        bool last = plane + 1 == l->cache_planes;
        stream_ring(l, at, positions, span, 2);
        stream_ring(l, rows, positions, span, (uint64_t)pccx_lower_beats(d) * PCCX_LOWER_BEAT_BYTES);
        pccx_lower_gemv(l, out, in, span.count, d,
                        (plane ? PCCX_LOWER_ACCM : 0u) | (last && find_max ? PCCX_LOWER_FINDEMAX : 0u));
    }
}

void pccx_lower_weighted_sum(pccx_lowering *l, uint32_t out, uint32_t in, pccx_lower_span span)
{
    uint32_t d = l->graph->caches.data[span.cache].value_dim;
    for (uint32_t at = 0; at < span.count; at += PCCX_LOWER_BLOCK) {
        uint32_t positions = span.count - at < PCCX_LOWER_BLOCK ? span.count - at : PCCX_LOWER_BLOCK;
        pccx_lower_stream(l, false, value_block_addr(l, span.cache, span.head, (span.first + at) / PCCX_LOWER_BLOCK),
                          l->cache_planes * pccx_lower_value_bytes(l, span.cache));
        for (unsigned plane = 0; plane < l->cache_planes; plane++)
            pccx_lower_gemv(l, out, in + at / PCCX_LOWER_LANES, d, positions, at || plane ? PCCX_LOWER_ACCM : 0);
    }
}
