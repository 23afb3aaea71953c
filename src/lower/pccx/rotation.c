/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers RotaryEmbedding: x * cosines + partners * sines, where the partner of an element is the other one of its pair.
 * Each of the two products is one with a matrix of ones, whose row scales are the angles of a position: by GEMM for all
 * heads of a token at once, or by GEMV for one block of one head after another. */
#include <math.h>
#include <stdlib.h>

#include "lower/pccx/state.h"
#include "num/func.h"
#include "num/int.h"

/* ---- The choice ---- */

/* Cycles of an engine that multiplies, or of its weight stream, whichever are more. */
static double cycles_of(double engine, uint64_t bytes, const tv_config *config)
{
    double stream = (double)bytes / tv_backend_rate(config, "stream.bytes_per_cycle");
    return engine > stream ? engine : stream;
}

static uint64_t count_steps(uint64_t length, const tv_config *config, const char *unit)
{
    return tv_ceil_div(length, tv_backend_parameter(config, unit));
}

/* The rows of a matrix of `columns` and their scales. */
static uint64_t matrix_bytes(uint32_t columns) { return pccx_lower_plane_bytes(columns, columns); }

/* Whether GEMM takes less than half as many cycles for all heads of a token as GEMV for one block after another. Half,
 * because prompts wait for the GEMM engine more than for GEMV. */
static bool prefers_gemm(const pccx_lowering *l, const tv_graph_node *n, const tv_config *config)
{
    uint32_t d = n->attrs.rotary_dim, heads = n->attrs.heads, block = d < PCCX_LOWER_BLOCK ? d : PCCX_LOWER_BLOCK;
    if (d != pccx_lower_columns(l, n->output) / heads || d > tv_backend_parameter(config, "gemm.k_max"))
        return false;
    uint64_t tiles = count_steps(d, config, "gemm.tile_k") * count_steps(d, config, "gemm.tile_n"),
             gemm = tv_backend_parameter(config, "gemm.setup") +
                    tiles * tv_max_u64(heads, tv_backend_parameter(config, "gemm.min_rows")),
             gemv = tv_backend_parameter(config, "gemv.setup") +
                    count_steps(block, config, "gemv.tile_k") * count_steps(block, config, "gemv.cores");
    double blocks = heads * (double)tv_ceil_div(d, block);
    return 2 * cycles_of((double)gemm, matrix_bytes(d), config) <
           blocks * cycles_of((double)gemv, matrix_bytes(block), config);
}

void pccx_lower_choose_rotations(pccx_lowering *l, const tv_config *config)
{
    for (uint32_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(l->graph, i);
        l->folds[i].heads_at_once =
            n->op == TV_OP_ROTARY_EMBEDDING && !l->folds[i].on_host && prefers_gemm(l, n, config);
    }
}

/* ---- Constants ---- */

/* Writes the matrix that selects the partners of `d` elements: neighbours, of which the second is negated for the first
 * one of a pair, or those of the other half. With `identity` the elements themselves. */
static tv_status upload_selection(pccx_lowering *l, uint32_t d, bool identity, bool interleaved, uint64_t *addr,
                                  const tv_diag_sink *sink)
{
    size_t row_bytes = (size_t)pccx_lower_beats(d) * PCCX_LOWER_BEAT_BYTES;
    *addr = pccx_lower_reserve(l, d * row_bytes);
    if (l->timing)
        return TV_OK;
    uint8_t *rows = calloc(d, row_bytes);
    if (!rows)
        return tv_fail_memory(sink);
    for (uint32_t r = 0; r < d; r++) {
        bool negated = !identity && interleaved && r % 2 == 0;
        uint32_t from = identity ? r : interleaved ? r ^ 1 : (r + d / 2) % d;
        tv_int4_set(rows + r * row_bytes, from, negated ? -1 : 1);
    }
    tv_status status = tv_machine_write(l->machine, "host", *addr, rows, d * row_bytes, sink);
    free(rows);
    return status;
}

tv_status pccx_lower_upload_identity(pccx_lowering *l, const tv_diag_sink *sink)
{
    TV_TRY(upload_selection(l, PCCX_LOWER_BLOCK, true, true, &l->map.identity, sink));
    TV_TRY(upload_selection(l, PCCX_LOWER_BLOCK, false, true, &l->map.rotation, sink));
    l->map.zeros = pccx_lower_reserve(l, PCCX_LOWER_LANES * PCCX_LOWER_BEAT_BYTES); /* as memory is */
    return TV_OK;
}

/* Of a rotation: [position][element]. For halves the sines of the first elements are negated. */
static tv_status upload_angles(pccx_lowering *l, const tv_graph_node *n, pccx_lower_constants *c,
                               const tv_diag_sink *sink)
{
    const tv_graph_attrs *a = &n->attrs;
    uint32_t d = a->rotary_dim, half = d / 2;
    uint64_t count = (uint64_t)l->context * d;
    float *cosines = malloc(count * sizeof *cosines), *sines = malloc(count * sizeof *sines),
          *factors = malloc(half * sizeof *factors);
    tv_status status = cosines && sines && factors ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK && n->inputs[1] != TV_NO_VALUE && !l->timing)
        status = pccx_lower_read_row(tv_graph_matrix(l->graph, n->inputs[1]), 0, 1, factors, sink);
    for (uint64_t i = 0; i < count && status == TV_OK && !l->timing; i++) {
        uint32_t element = (uint32_t)(i % d), pair = a->interleaved ? element / 2 : element % half;
        double angle = (double)(i / d) * pow((double)a->theta, -2.0 * pair / d) * (double)a->frequency_scale;
        if (n->inputs[1] != TV_NO_VALUE && !l->timing)
            angle /= (double)factors[pair];
        cosines[i] = tv_func_f32_of_angle(TV_FUNC_COS, angle);
        sines[i] = tv_func_f32_of_angle(TV_FUNC_SIN, angle);
        if (!a->interleaved && element < half)
            sines[i] = -sines[i];
    }
    if (status == TV_OK)
        status = pccx_lower_upload_bf16(l, cosines, count, &c->cosines, sink);
    if (status == TV_OK)
        status = pccx_lower_upload_bf16(l, sines, count, &c->sines, sink);
    free(cosines);
    free(sines);
    free(factors);
    return status;
}

static bool same_tables(const tv_graph_node *a, const tv_graph_node *b)
{
    return a->inputs[1] == b->inputs[1] && a->attrs.theta == b->attrs.theta &&
           a->attrs.frequency_scale == b->attrs.frequency_scale && a->attrs.rotary_dim == b->attrs.rotary_dim &&
           a->attrs.interleaved == b->attrs.interleaved;
}

static bool same_selections(const pccx_lowering *l, const tv_graph_node *a, const tv_graph_node *b)
{
    return pccx_lower_fold_of(l, a)->heads_at_once && a->attrs.rotary_dim == b->attrs.rotary_dim &&
           a->attrs.interleaved == b->attrs.interleaved;
}

/* Rotations of the same shape share their tables and matrices. */
tv_status pccx_lower_upload_rotation(pccx_lowering *l, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    pccx_lower_constants *c = &l->constants[node];
    bool tables = false, selections = !l->folds[node].heads_at_once;
    for (uint32_t i = 0; i < node; i++) {
        const tv_graph_node *other = tv_graph_node_at(l->graph, i);
        const pccx_lower_constants *from = &l->constants[i];
        if (other->op != TV_OP_ROTARY_EMBEDDING || l->folds[i].on_host)
            continue;
        if (!tables && same_tables(other, n)) {
            c->cosines = from->cosines;
            c->sines = from->sines;
            tables = true;
        }
        if (!selections && same_selections(l, other, n)) {
            c->identity = from->identity;
            c->partners = from->partners;
            selections = true;
        }
    }
    if (!tables)
        TV_TRY(upload_angles(l, n, c, sink));
    if (!selections) {
        TV_TRY(upload_selection(l, n->attrs.rotary_dim, true, n->attrs.interleaved, &c->identity, sink));
        TV_TRY(upload_selection(l, n->attrs.rotary_dim, false, n->attrs.interleaved, &c->partners, sink));
    }
    return TV_OK;
}

/* ---- Instructions ---- */

/* `to` (+)= the rows of `from` that the matrix selects, times the angles. */
static void multiply_heads(pccx_lowering *l, uint32_t to, uint32_t from, uint64_t angles, uint64_t matrix,
                           uint32_t heads, uint32_t d, bool accm)
{
    pccx_lower_stream(l, true, angles, 2 * (uint64_t)d);
    pccx_lower_stream(l, true, matrix, (uint64_t)d * pccx_lower_beats(d) * PCCX_LOWER_BEAT_BYTES);
    pccx_lower_gemm(l, to, from, heads, d, d, accm ? PCCX_LOWER_ACCM : 0);
}

/* The heads of a token. */
static void rotate_heads(pccx_lowering *l, const tv_graph_node *n, uint32_t to, uint32_t from, uint64_t angles)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    uint32_t d = n->attrs.rotary_dim, heads = n->attrs.heads;
    multiply_heads(l, to, from, c->cosines + angles, c->identity, heads, d, false);
    multiply_heads(l, to, from, c->sines + angles, c->partners, heads, d, true);
}

/* One head: neighbours by the rotation matrix, halves by the identity on the other half. The sines of the first half
 * are negated in the second case. */
static void rotate_head(pccx_lowering *l, const tv_graph_node *n, uint32_t to, uint32_t from, uint64_t angles)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    uint32_t d = n->attrs.rotary_dim, half = d / 2, words = half / PCCX_LOWER_LANES,
             size = pccx_lower_columns(l, n->output) / n->attrs.heads;
    if (d < size) /* the rest of the head stays */
        pccx_lower_move(l, to + d / PCCX_LOWER_LANES, from + d / PCCX_LOWER_LANES, size - d);
    pccx_lower_multiply(l, to, from, c->cosines + angles, l->map.identity, d, false, false);
    if (n->attrs.interleaved) {
        pccx_lower_multiply(l, to, from, c->sines + angles, l->map.rotation, d, false, true);
        return;
    }
    pccx_lower_multiply(l, to, from + words, c->sines + angles, l->map.identity, half, false, true);
    pccx_lower_multiply(l, to + words, from, c->sines + angles + 2 * (uint64_t)half, l->map.identity, half, false,
                        true);
}

tv_status pccx_lower_rope(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    uint32_t heads = n->attrs.heads, words = pccx_lower_l2_size(pccx_lower_columns(l, n->output) / heads);
    for (uint32_t row = l->row_first; row < l->row_end; row++) {
        uint32_t to = pccx_lower_row_addr(l, n->output, row), from = pccx_lower_row_addr(l, n->inputs[0], row);
        uint64_t angles = (uint64_t)(l->position + row) * n->attrs.rotary_dim * 2;
        if (pccx_lower_fold_of(l, n)->heads_at_once)
            rotate_heads(l, n, to, from, angles);
        else
            for (uint32_t head = 0; head < heads; head++)
                rotate_head(l, n, to + head * words, from + head * words, angles);
    }
    return TV_OK;
}
