/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the constants of a graph to pccx's host memory. matrices.c packs the matrices. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "lower/pccx/state.h"
#include "num/float.h"

static float round_to_bf16(float weight, float unit)
{
    return tv_bf16_to_f32(tv_bf16_flushed_from_f32(weight * unit)) / unit;
}

/* ---- Vectors ---- */

/* A vector of constants, repeated, as row[columns]: times `factor`, or the reciprocals with factor 0. */
static tv_status read_repeated(const pccx_lowering *l, uint32_t value, uint32_t columns, float factor, float *row,
                               const tv_diag_sink *sink)
{
    const tv_matrix *from = tv_graph_matrix(l->graph, value);
    uint32_t length = (uint32_t)tv_graph_elements(l->graph, value);
    for (uint32_t r = 0; r < length / from->columns; r++)
        TV_TRY(pccx_lower_read_row(from, r, factor == 0 ? 1 : factor, row + (size_t)r * from->columns, sink));
    for (uint32_t i = 0; i < length && factor == 0; i++)
        row[i] = 1 / row[i];
    for (uint32_t i = 0; i < length; i++)
        if (!(fabsf(row[i]) <= tv_bf16_to_f32(TV_BF16_MAX)))
            return pccx_lower_fail_overflow(from, i / from->columns, sink);
    for (uint32_t i = length; i < columns; i++)
        row[i] = row[i - length];
    return TV_OK;
}

/* A vector of constants as a row of `columns` elements, by read_repeated. No constant: a row of the factor. */
static tv_status upload_row(pccx_lowering *l, uint32_t value, uint32_t columns, float factor, uint64_t *addr,
                            const tv_diag_sink *sink)
{
    uint32_t padded = pccx_lower_padded(columns);
    float *row = calloc(padded, sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t i = 0; i < columns && row; i++)
        row[i] = factor;
    if (status == TV_OK && value != TV_NO_VALUE && !l->timing)
        status = read_repeated(l, value, columns, factor, row, sink);
    if (status == TV_OK)
        status = pccx_lower_upload_bf16(l, row, padded, addr, sink);
    free(row);
    if (status == TV_OK && value != TV_NO_VALUE && !l->timing)
        status = tv_weight_report_rounded(&l->weights, tv_graph_matrix(l->graph, value), "BF16", round_to_bf16,
                                          factor == 0 ? 1 : factor, sink);
    return status;
}

/* The operand of an elementwise operator that is a vector: of Sub negated, of Div as reciprocals, if it comes second.
 */
static tv_status upload_operand(pccx_lowering *l, const tv_graph_node *n, pccx_lower_constants *c,
                                const tv_diag_sink *sink)
{
    unsigned k = pccx_lower_operand_of(l, n, 0) == PCCX_OPERAND_VECTOR ? 0 : 1;
    if (pccx_lower_operand_of(l, n, k) != PCCX_OPERAND_VECTOR)
        return TV_OK;
    float factor = k == 0 ? 1 : n->op == TV_OP_SUB ? -1 : n->op == TV_OP_DIV ? 0 : 1;
    return upload_row(l, n->inputs[k], pccx_lower_columns(l, n->output), factor, &c->gains, sink);
}

static tv_status upload_norm(pccx_lowering *l, const tv_graph_node *n, pccx_lower_constants *c,
                             const tv_diag_sink *sink)
{
    uint32_t size = pccx_lower_norm_size(l, n);
    const float inverse[PCCX_LOWER_LANES] = {1 / (float)size};
    if (n->attrs.subtract_mean)
        TV_TRY(pccx_lower_upload_bf16(l, inverse, PCCX_LOWER_LANES, &c->inverse, sink));
    if (n->inputs[2] != TV_NO_VALUE)
        TV_TRY(upload_row(l, n->inputs[2], size, 1, &c->bias, sink));
    return pccx_lower_fold_of(l, n)->gains
               ? TV_OK
               : upload_row(l, n->inputs[1], size, pccx_lower_norm_factor(l, n), &c->gains, sink);
}

/* ---- Tables ---- */

static tv_status upload_filled(pccx_lowering *l, float value, uint64_t *addr, const tv_diag_sink *sink)
{
    return upload_row(l, TV_NO_VALUE, l->widest, value, addr, sink);
}

/* The constant words: each a scalar in its first element. */
static tv_status upload_words(pccx_lowering *l, const tv_diag_sink *sink)
{
    uint64_t count = (uint64_t)(l->constant_count + 1) * PCCX_LOWER_LANES;
    float *words = calloc(count, sizeof *words), scalars[PCCX_SCALARS_MAX];
    if (!words)
        return tv_fail_memory(sink);
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        unsigned n = pccx_lower_node_scalars(l, &l->graph->nodes.data[i], scalars);
        for (unsigned k = 0; k < n; k++)
            words[(l->constants[i].constant + k) * PCCX_LOWER_LANES] = scalars[k];
    }
    for (unsigned i = 0; i < PCCX_COMMONS && l->minus_length; i++)
        words[(l->common + i) * PCCX_LOWER_LANES] = pccx_lower_common_value((pccx_lower_common)i);
    tv_status status = pccx_lower_upload_bf16(l, words, count, &l->map.words, sink);
    free(words);
    return status;
}

/* Rows of the identity, as activations. */
static tv_status upload_units(pccx_lowering *l, const tv_diag_sink *sink)
{
    float units[PCCX_LOWER_BEAT_WEIGHTS * PCCX_LOWER_BEAT_WEIGHTS] = {0};
    for (unsigned i = 0; i < PCCX_LOWER_BEAT_WEIGHTS; i++)
        units[i * (PCCX_LOWER_BEAT_WEIGHTS + 1)] = 1;
    return pccx_lower_upload_bf16(l, units, TV_COUNTOF(units), &l->map.units, sink);
}

static tv_status upload_cuts(pccx_lowering *l, const tv_diag_sink *sink)
{
    float cuts[PCCX_LOWER_BLOCK * PCCX_LOWER_BLOCK];
    for (unsigned i = 0; i < TV_COUNTOF(cuts); i++)
        cuts[i] = i % PCCX_LOWER_BLOCK < i / PCCX_LOWER_BLOCK ? 0 : 1;
    return pccx_lower_upload_bf16(l, cuts, TV_COUNTOF(cuts), &l->map.cuts, sink);
}

/* ---- The graph ---- */

static tv_status upload_node(pccx_lowering *l, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    pccx_lower_constants *c = &l->constants[node];
    uint32_t columns = tv_graph_columns(l->graph, n->output);
    switch (n->op) {
    case TV_OP_GATHER:
        return pccx_lower_upload_table(l, node, sink);
    case TV_OP_NORM:
        return upload_norm(l, n, c, sink);
    case TV_OP_ROTARY_EMBEDDING:
        return pccx_lower_upload_rotation(l, node, sink);
    case TV_OP_LINEAR:
        if (n->inputs[2] != TV_NO_VALUE)
            TV_TRY(upload_row(l, n->inputs[2], columns, pccx_lower_weight_factor(l, n), &c->bias, sink));
        return pccx_lower_upload_matrix(l, n, 1, &c->matrices[0], sink);
    case TV_OP_GLU:
        TV_TRY(pccx_lower_upload_matrix(l, n, 1, &c->matrices[0], sink));
        return pccx_lower_upload_matrix(l, n, 2, &c->matrices[1], sink);
    case TV_OP_MOE:
        for (unsigned k = 0; k < 3; k++)
            TV_TRY(pccx_lower_upload_matrix(l, n, 2 + k, &c->matrices[k], sink));
        return TV_OK;
    case TV_OP_ADD:
    case TV_OP_SUB:
    case TV_OP_MUL:
    case TV_OP_DIV:
        return upload_operand(l, n, c, sink);
    default: /* no constants */
        return TV_OK;
    }
}

/* Returns the elements of the widest row of keys or values. */
static uint64_t reserve_caches(pccx_lowering *l)
{
    uint64_t widest = 0;
    for (uint32_t i = 0; i < l->graph->caches.count; i++) {
        const tv_graph_cache *c = &l->graph->caches.data[i];
        uint64_t heads = (uint64_t)c->heads * l->cache_planes,
                 blocks = (pccx_lower_cache_positions(l, i) + PCCX_LOWER_BLOCK - 1) / PCCX_LOWER_BLOCK,
                 row = (uint64_t)c->heads * (c->key_dim > c->value_dim ? c->key_dim : c->value_dim);
        widest = row > widest ? row : widest;
        l->map.keys[i] = pccx_lower_reserve(l, heads * pccx_lower_key_bytes(l, i));
        l->map.values[i] = pccx_lower_reserve(l, heads * blocks * pccx_lower_value_bytes(l, i));
    }
    return widest;
}

/* Bytes that a row of the nodes on the host needs at the maximum. */
static uint64_t host_node_bytes(const pccx_lowering *l)
{
    uint64_t max = 0;
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        uint64_t bytes = l->folds[i].on_host ? pccx_lower_host_node_bytes(l, &l->graph->nodes.data[i]) : 0;
        max = bytes > max ? bytes : max;
    }
    return max;
}

static void reserve_session(pccx_lowering *l)
{
    pccx_lower_host_map *m = &l->map;
    uint64_t rows = l->rows_max, wide = pccx_lower_padded(tv_graph_vocabulary(l->graph)), vector = rows * l->widest,
             kv = reserve_caches(l);
    m->vector = pccx_lower_reserve(l, 2 * (vector > wide ? vector : wide)); /* a row of logits, too */
    m->vector2 = pccx_lower_reserve(l, 2 * vector);
    m->expert_weights = pccx_lower_reserve(l, rows * l->experts_used * PCCX_LOWER_WORD_BYTES);
    m->host_nodes = pccx_lower_reserve(l, rows * host_node_bytes(l));
    m->key = pccx_lower_reserve(l, 2 * rows * kv);
    m->value = pccx_lower_reserve(l, 2 * rows * kv);
    m->logits = pccx_lower_reserve(l, 2 * rows * wide);
}

/* Allocates and, unless for timing, writes everything in host memory. */
static tv_status upload_graph(pccx_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    l->map.end = 0;
    for (uint32_t i = 0; i < l->graph->nodes.count; i++) {
        tv_progress_report(progress, "uploading weights", i, l->graph->nodes.count);
        if (!l->folds[i].on_host)
            TV_TRY(upload_node(l, i, sink));
    }
    TV_TRY(pccx_lower_upload_identity(l, sink));
    TV_TRY(upload_filled(l, 1, &l->map.ones, sink));
    TV_TRY(upload_filled(l, -1, &l->map.minus_ones, sink));
    TV_TRY(upload_cuts(l, sink));
    TV_TRY(upload_words(l, sink));
    if (l->has_packed_tables)
        TV_TRY(upload_units(l, sink));
    l->map.model_end = l->map.end;
    reserve_session(l);
    return TV_OK;
}

/* The table whose packing saves the most bytes, or TV_NO_VALUE. */
static uint32_t find_table_to_pack(const pccx_lowering *l)
{
    uint64_t best = 0;
    uint32_t node = TV_NO_VALUE;
    for (uint32_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(l->graph, i);
        if (n->op != TV_OP_GATHER || l->folds[i].packed)
            continue;
        const tv_matrix *m = tv_graph_matrix(l->graph, n->inputs[0]);
        uint64_t rows = m->rows, whole = rows * pccx_lower_table_row_bytes(l, m->columns, false),
                 packed = rows * pccx_lower_table_row_bytes(l, m->columns, true);
        if (whole > packed && whole - packed > best) {
            best = whole - packed;
            node = i;
        }
    }
    return node;
}

/* Allocates only, so that a model that does not fit is rejected at once. Packs tables until it fits. */
static tv_status allocate_graph(pccx_lowering *l, const tv_diag_sink *sink)
{
    uint64_t size = pccx_lower_space_size(l->machine, "host");
    TV_TRY(upload_graph(l, &(tv_llm_progress){0}, sink));
    while (l->map.end > size) {
        uint32_t node = find_table_to_pack(l);
        if (node == TV_NO_VALUE)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                           "make host.bytes larger with -D, or the context smaller",
                           "the model and its KV cache need %" PRIu64 " bytes of host memory; host.bytes = %" PRIu64,
                           l->map.end, size);
        l->folds[node].packed = l->has_packed_tables = true;
        TV_TRY(pccx_lower_fit_rows(l, sink));
        TV_TRY(upload_graph(l, &(tv_llm_progress){0}, sink));
    }
    return TV_OK;
}

tv_status pccx_lower_upload(pccx_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    const bool timing = l->timing;
    l->timing = true;
    tv_status status = allocate_graph(l, sink);
    l->timing = timing;
    if (status != TV_OK || timing)
        return status;
    TV_TRY(upload_graph(l, progress, sink));
    return tv_backend_touch_space(l->machine, "host", l->map.model_end, l->map.vector, sink);
}
