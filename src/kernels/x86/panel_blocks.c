/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of products by packed panels. */
#if defined(__x86_64__)
#include "kernels/x86/panel_blocks.h"

#include "kernels/bf16.h"

enum {
    PAIR = TV_PANEL_PAIR,
    TILE = TV_PANEL_TILE,
    ROWS = TV_PANEL_ROWS,
    BLOCK = TV_PANEL_BLOCK,
    GROUP = TV_PANEL_GROUP,
    PARTIALS = TV_PANEL_PARTIALS,
    LINE = 64 /* bytes of a cache line */
};

void tv_panels_multiply(const tv_panel_steps *v, const tv_gemm_panel_weights *w, size_t from, size_t count,
                        const int8_t *packed, const int32_t *offsets, size_t m, int32_t *out)
{
    _Alignas(64) uint8_t panels[PAIR * TV_PANEL_ROW_MAX];
    _Alignas(64) int32_t tile[TV_PANEL_M_MAX * PAIR];
    size_t bytes = w->k * w->bits / 8, step = tv_gemm_panel_packed_bytes(TILE, w->k);
    for (size_t i = 0; i < tv_ceil_div(m, TILE) * TILE; i++)
        for (size_t r = 0; r < PAIR; r++)
            tile[i * PAIR + r] = offsets[i];
    for (size_t at = 0; at < bytes; at += BLOCK) {
        size_t length = bytes - at < BLOCK ? bytes - at : BLOCK;
        v->pack_weights(w, from, count, at, length, panels);
        v->multiply_tiles(w->bits, panels, length * 8 / w->bits, packed + at * 8 / w->bits * TILE, step, m, tile);
    }
    memcpy(out, tile, m * PAIR * sizeof *out);
}

/* Prefetches as many rows as a call has. Addresses past the end of memory have no effect. */
static void prefetch_ahead(const tv_gemm_panel_weights *w, size_t from, size_t count)
{
    for (size_t at = 0; at < count * w->stride && w->ahead; at += LINE)
        __builtin_prefetch((const void *)((uintptr_t)w->rows + from * w->stride + (uintptr_t)w->ahead + at), 0, 2);
}

void tv_panels_multiply_scaled(const tv_panel_steps *v, const tv_gemm_panel_weights *w, size_t from,
                               const tv_panel_scaled *p)
{
    prefetch_ahead(w, from, p->count);
    if (w->k * w->bits / 8 <= BLOCK) {
        v->multiply_scaled(w, from, p);
        return;
    }
    int32_t exact[TV_PANEL_M_MAX * PAIR];
    tv_panels_multiply(v, w, from, p->count, p->packed, p->offsets, p->m, exact);
    for (size_t i = 0; i < p->m; i++) {
        uint16_t *y = p->y + i * p->step;
        tv_bf16_scale(exact + i * PAIR, 1, p->row_scales[i], p->scales, p->add ? y : NULL, p->count, y);
    }
}

/* Prefetches the next block of 32 rows: chunk `chunk` of `chunks`, to spread the loads over the computation. Addresses
 * past the end of memory have no effect. */
static void prefetch_rows(const void *rows, size_t from, size_t stride, size_t bytes, size_t chunk, size_t chunks)
{
    for (size_t r = chunk * PAIR / chunks; r < (chunk + 1) * PAIR / chunks; r++)
        for (size_t at = 0; at < bytes; at += LINE)
            __builtin_prefetch(tv_panel_row(rows, 1, r * stride + from + at));
}

/* Prefetches the rows to which the totals of a tile are added after its products, or where they are stored. */
static void prefetch_results(const float *rows, size_t step, size_t count, size_t m)
{
    for (size_t i = 0; i < m; i++)
        for (size_t at = 0; at < count; at += LINE / sizeof *rows)
            __builtin_prefetch(rows + i * step + at, 1);
}

typedef struct panel_memory {
    _Alignas(64) uint8_t panels[PAIR * TV_PANEL_ROW_MAX];
    _Alignas(64) float scales[BLOCK * 2 / GROUP * PAIR];
    /* of each tile and panel; rows of a single block use only the first ones */
    _Alignas(64) float sums[TV_PANEL_GROUPED_M_MAX * PAIR * PARTIALS];
} panel_memory;

void tv_panels_multiply_grouped(const tv_panel_steps *v, const tv_gemm_panel_weights *w, size_t from, size_t count,
                                const int8_t *packed, const int32_t *offsets, size_t m, const float *scales,
                                size_t scale_step, float factor, const float *old, float *out, size_t step)
{
    panel_memory mem;
    const size_t all = w->k / GROUP, block_groups_max = (size_t)BLOCK * 8 / w->bits / GROUP,
                 used = all < PARTIALS ? all : PARTIALS, group_bytes = GROUP * w->bits / 8;
    const size_t tiles = tv_ceil_div(m, TILE);
    for (size_t begin = 0; begin < all; begin += block_groups_max) {
        size_t here = all - begin < block_groups_max ? all - begin : block_groups_max,
               next = begin + here == all ? 0 : begin + here, next_row = next ? from : from + PAIR;
        v->pack_weights(w, from, count, begin * group_bytes, here * group_bytes, mem.panels);
        v->pack_scales(scales + from * scale_step + begin, scale_step, count, here, mem.scales);
        for (size_t t = 0; t < tiles; t++) {
            size_t i = t * TILE, tile_rows = m - i < TILE ? m - i : TILE;
            float *p = all > block_groups_max ? mem.sums + t * 2 * TV_PANEL_SUMS : mem.sums;
            const tv_panel_groups b = {mem.panels,
                                       tv_ceil_div(count, ROWS),
                                       packed + tv_gemm_panel_packed_bytes(i, w->k) + begin * GROUP * TILE,
                                       offsets + i * all + begin * TILE,
                                       mem.scales,
                                       tile_rows,
                                       begin,
                                       here,
                                       used};
            prefetch_rows(tv_panel_row(w->rows, w->stride, next_row), next * group_bytes, w->stride, here * group_bytes,
                          t, tiles);
            prefetch_rows(tv_panel_row(scales, scale_step * sizeof *scales, next_row), next * sizeof *scales,
                          scale_step * sizeof *scales, here * sizeof *scales, t, tiles);
            if (!next)
                prefetch_results(old ? old + i * step : out + i * step, step, count, tile_rows);
            v->add_groups(&b, w->bits, factor, p);
            for (size_t row = 0; row < count && !next; row += ROWS)
                v->store_totals(p + row / ROWS * TV_PANEL_SUMS, used, count - row < ROWS ? count - row : ROWS,
                                tile_rows, old ? old + i * step + row : NULL, out + i * step + row, step);
        }
    }
}
#else
typedef int tv_no_panel_blocks; /* ISO C wants a declaration */
#endif
