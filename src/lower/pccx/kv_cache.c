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

#include "kernels/bf16.h"
#include "kernels/clones.h"
#include "lower/pccx/state.h"
#include "machine/target.h"
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

/* ---- Incomplete blocks ---- */

bool pccx_lower_alloc_value_blocks(pccx_lowering *l, uint32_t cache)
{
    const tv_graph_cache *shape = &l->graph->caches.data[cache];
    size_t heads = shape->heads, rows = heads * shape->value_dim;
    pccx_lower_value_blocks *b = &l->value_blocks[cache];
    b->values = calloc(rows, PCCX_LOWER_BLOCK * sizeof *b->values);
    b->absmax = calloc(rows, sizeof *b->absmax);
    b->scales = calloc(rows, sizeof *b->scales);
    b->rescale_count = calloc(rows, sizeof *b->rescale_count);
    b->packed = calloc(heads, sizeof *b->packed);
    b->images = calloc(heads, pccx_lower_value_bytes(l, cache));
    return b->values && b->absmax && b->scales && b->rescale_count && b->packed && b->images;
}

void pccx_lower_free_value_blocks(pccx_lower_value_blocks *b)
{
    free(b->values);
    free(b->absmax);
    free(b->scales);
    free(b->rescale_count);
    free(b->packed);
    free(b->images);
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

static size_t first_row(const packing *p, uint32_t head) { return (size_t)head * p->shape->value_dim; }

static void update_scale(const pccx_lowering *l, const float *values, pccx_lower_value_blocks *b, size_t row)
{
    if (b->rescale_count[row])
        b->scales[row] = pccx_lower_choose_scale(l->scale_search, values, b->rescale_count[row], b->absmax[row]);
    b->rescale_count[row] = 0;
}

/* values[j] = block[j * dim] for j < count, and 0 for the others. */
static void gather_values(const uint16_t *block, uint32_t dim, uint32_t count, float values[PCCX_LOWER_BLOCK])
{
    memset(values, 0, PCCX_LOWER_BLOCK * sizeof *values);
    for (uint32_t j = 0; j < count; j++)
        values[j] = tv_bf16_to_f32(block[(size_t)j * dim]);
}

/* Updates the image of a head to `count` positions. Rows whose scale is unchanged get their new values only, mostly
 * one. */
static void update_image(const packing *p, uint32_t head, uint32_t count, const uint16_t *block)
{
    const pccx_lowering *l = p->l;
    pccx_lower_value_blocks *b = &l->value_blocks[p->cache];
    uint32_t d = p->shape->value_dim;
    size_t first = first_row(p, head);
    uint8_t *scales = b->images + head * pccx_lower_value_bytes(l, p->cache),
            *beats = scales + pccx_lower_l2_size(d) * PCCX_LOWER_WORD_BYTES;
    for (uint32_t at = b->packed[head]; at > 0 && at < count; at++) {
        float values[PCCX_LOWER_HEAD_DIM_MAX];
        tv_bf16_widen(block + (size_t)at * d, d, values);
        pccx_lower_round_next(values, b->scales + first, d, at, beats);
    }
    for (uint32_t i = 0; i < d; i++) {
        float values[PCCX_LOWER_BLOCK];
        if (!b->rescale_count[first + i] && b->packed[head] > 0)
            continue;
        gather_values(block + i, d, count, values);
        update_scale(l, values, b, first + i);
        tv_store_le(
            scales + 2 * i,
            pccx_lower_round(values, count, b->scales[first + i], beats + (size_t)i * PCCX_LOWER_BEAT_BYTES, NULL), 2);
    }
    b->packed[head] = count;
}

/* A row in several planes, each with the remainder of the previous one. */
static void pack_planes(const packing *p, float *values, uint32_t count, size_t row, uint8_t *scale, uint8_t *beat)
{
    const pccx_lowering *l = p->l;
    pccx_lower_value_blocks *b = &l->value_blocks[p->cache];
    uint64_t bytes = pccx_lower_value_bytes(l, p->cache);
    update_scale(l, values, b, row);
    tv_store_le(scale, pccx_lower_round(values, count, b->scales[row], beat, values), 2);
    for (unsigned plane = 1; plane < l->cache_planes; plane++)
        tv_store_le(scale + plane * bytes, pccx_lower_quantize(l->scale_search, values, count, beat + plane * bytes),
                    2);
}

/* Packs a block of a head's values, up to and including `position`. */
static void pack_block(const packing *p, uint32_t head, uint32_t position, const uint16_t *block)
{
    const pccx_lowering *l = p->l;
    uint32_t d = p->shape->value_dim, count = position % PCCX_LOWER_BLOCK + 1;
    uint8_t *scales = packed_block(p, head, position / PCCX_LOWER_BLOCK),
            *beats = scales + pccx_lower_l2_size(d) * PCCX_LOWER_WORD_BYTES;
    if (l->cache_planes == 1) {
        uint64_t bytes = pccx_lower_value_bytes(l, p->cache);
        update_image(p, head, count, block);
        memcpy(scales, l->value_blocks[p->cache].images + head * bytes, bytes);
        return;
    }
    for (uint32_t i = 0; i < d; i++) {
        float values[PCCX_LOWER_BLOCK];
        gather_values(block + i, d, count, values);
        pack_planes(p, values, count, first_row(p, head) + i, scales + 2 * i,
                    beats + (size_t)i * PCCX_LOWER_BEAT_BYTES);
    }
}

/* Appends a value to each of `n` rows of `count` values: updates the absmax and decides whether a new scale is needed.
 */
TV_CLONES static void append_values(const float *values, uint32_t n, uint32_t count, float *absmax,
                                    uint32_t *rescale_count)
{
    bool every = (count & (count + 1)) == 0; /* of 0, 1, 3, 7, … values, before this one */
    for (uint32_t i = 0; i < n; i++) {
        /* compares bits, so non-finite values are the largest */
        bool is_absmax = count == 0 || tv_f32_abs(tv_f32_bits(values[i])) > tv_f32_abs(tv_f32_bits(absmax[i]));
        absmax[i] = is_absmax ? values[i] : absmax[i];
        rescale_count[i] = is_absmax || every ? count + 1 : rescale_count[i];
    }
}

/* A block is packed when it is complete, or at the last row of the step. */
static void pack_value(const packing *p, uint32_t head, uint32_t row)
{
    const pccx_lowering *l = p->l;
    pccx_lower_value_blocks *b = &l->value_blocks[p->cache];
    uint32_t d = p->shape->value_dim, position = l->position + row, count = position % PCCX_LOWER_BLOCK;
    size_t first = first_row(p, head);
    uint16_t *block = b->values + first * PCCX_LOWER_BLOCK;
    const float *values = p->values + ((size_t)row * p->shape->heads + head) * d;
    tv_bf16_narrow(values, d, block + (size_t)count * d);
    append_values(values, d, count, b->absmax + first, b->rescale_count + first);
    if (count == 0)
        b->packed[head] = 0;
    if (count == PCCX_LOWER_BLOCK - 1 || row + 1 == l->rows)
        pack_block(p, head, position, block);
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
    float *rows = tv_buf_reserve(&l->kv_rows, (keys + values) * sizeof *rows);
    packing p = {.l = l, .cache = cache, .shape = shape, .keys = rows, .values = rows ? rows + keys : NULL};
    size_t packed_bytes = shape->heads * packed_head_bytes(&p);
    p.packed = tv_buf_reserve(&l->kv_packed, packed_bytes);
    if (!rows || !p.packed)
        return tv_fail_memory(sink);
    memset(p.packed, 0, packed_bytes); /* packing leaves the padding of rows as it is */
    TV_TRY(pccx_lower_read_bf16(l, l->map.key, keys, rows, sink));
    TV_TRY(pccx_lower_read_bf16(l, l->map.value, values, rows + keys, sink));
    tv_pool_run(tv_machine_pool(l->machine), shape->heads, pack_heads, &p);
    for (uint32_t head = 0; head < shape->heads; head++)
        add_head_data(l, &p, head);
    return TV_OK;
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
