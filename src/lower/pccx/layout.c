/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory: reserving it, constants that go there, sizes of packed matrices and of the KV cache. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/codes.h"
#include "lower/pccx/state.h"
#include "num/float.h"

uint64_t pccx_lower_space_size(const tv_machine *machine, const char *name)
{
    tv_space space;
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++)
        if (strcmp(space.name, name) == 0)
            return space.size;
    return 0;
}

/* ---- Constants ---- */

uint64_t pccx_lower_reserve(pccx_lowering *l, uint64_t bytes)
{
    uint64_t addr = l->map.end;
    l->map.end += (bytes + 63) / 64 * 64;
    return addr;
}

tv_status pccx_lower_fail_overflow(const tv_matrix *from, uint64_t row, const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(WEIGHT_OVERFLOW), "correct the weights, or the gains of the norm",
                   "tensor '%s', row %" PRIu64
                   ": a value times the factors that the lowering makes part of it exceeds the "
                   "range of BF16",
                   from->name, from->first + row);
}

tv_status pccx_lower_read_row(const tv_matrix *from, uint32_t row, float factor, float *out, const tv_diag_sink *sink)
{
    if (tv_matrix_row_f32(from, row, out) != TV_OK)
        return tv_matrix_fail(from, sink);
    for (uint32_t i = 0; i < from->columns; i++)
        out[i] *= factor;
    return TV_OK;
}

tv_status pccx_lower_upload_bf16(pccx_lowering *l, const float *values, uint64_t n, uint64_t *addr,
                                 const tv_diag_sink *sink)
{
    *addr = pccx_lower_reserve(l, n * 2);
    if (l->timing)
        return TV_OK;
    uint8_t *bytes = malloc(n * 2);
    if (!bytes)
        return tv_fail_memory(sink);
    for (uint64_t i = 0; i < n; i++)
        tv_store_le(bytes + 2 * i, tv_bf16_flushed_from_f32(values[i]), 2);
    tv_status status = tv_machine_write(l->machine, "host", *addr, bytes, n * 2, sink);
    free(bytes);
    return status;
}

/* ---- Matrices ---- */

uint64_t pccx_lower_plane_bytes(uint32_t rows, uint32_t columns)
{
    return (uint64_t)pccx_lower_l2_size(rows) * PCCX_LOWER_WORD_BYTES +
           (uint64_t)rows * pccx_lower_beats(columns) * PCCX_LOWER_BEAT_BYTES;
}

uint64_t pccx_lower_group_bytes(unsigned planes, uint32_t rows, uint32_t columns)
{
    return planes * pccx_lower_plane_bytes(rows, columns);
}

uint64_t pccx_lower_block_bytes(const pccx_lowering *l, unsigned planes, uint32_t rows, uint32_t columns)
{
    uint32_t whole_groups = columns / l->group, rest = columns % l->group;
    return whole_groups * pccx_lower_group_bytes(planes, rows, l->group) +
           (rest ? pccx_lower_group_bytes(planes, rows, rest) : 0);
}

/* ---- KV cache ---- */

uint32_t pccx_lower_cache_positions(const pccx_lowering *l, uint32_t cache)
{
    /* a step appends up to a block, and the first and the last block may be needed in part only */
    uint64_t window = l->graph->caches.data[cache].window,
             ring = (window + PCCX_LOWER_BLOCK - 1) / PCCX_LOWER_BLOCK * PCCX_LOWER_BLOCK + 3 * PCCX_LOWER_BLOCK;
    return window && ring < l->context ? (uint32_t)ring : l->context;
}

uint64_t pccx_lower_key_bytes(const pccx_lowering *l, uint32_t cache)
{
    uint32_t positions = pccx_lower_cache_positions(l, cache);
    return (uint64_t)pccx_lower_l2_size(positions) * PCCX_LOWER_WORD_BYTES +
           (uint64_t)positions * pccx_lower_beats(l->graph->caches.data[cache].key_dim) * PCCX_LOWER_BEAT_BYTES;
}

uint64_t pccx_lower_value_bytes(const pccx_lowering *l, uint32_t cache)
{
    uint32_t d = l->graph->caches.data[cache].value_dim;
    return (uint64_t)pccx_lower_l2_size(d) * PCCX_LOWER_WORD_BYTES + (uint64_t)d * PCCX_LOWER_BEAT_BYTES;
}
