/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers MoE. The host reads the router's logits and chooses the experts of each token; only their products are
 * emitted. Tokens of a step that use the same expert share its products. The rows of the step are pairs of a token and
 * an expert, ordered by expert. */
#include <stdlib.h>

#include "graph/operators.h"
#include "lower/pccx/state.h"
#include "num/float.h"

typedef struct pair {
    uint32_t expert, row; /* of the step */
    float weight;
} pair;

/* The pairs of an expert: [first, end). */
typedef struct expert_rows {
    uint32_t expert, first, end;
} expert_rows;

/* ---- Routing ---- */

static int compare_pairs(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->expert != y->expert)
        return x->expert < y->expert ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Chooses the experts of one row; without data the first ones. */
static tv_status route_row(pccx_lowering *l, const tv_graph_node *n, uint32_t index, float *logits, pair *pairs,
                           const tv_diag_sink *sink)
{
    uint32_t experts = tv_graph_columns(l->graph, n->inputs[1]), used = n->attrs.experts_used;
    uint32_t *chosen = malloc(used * sizeof *chosen);
    float *weights = malloc(used * sizeof *weights);
    tv_status status = chosen && weights ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK && !l->timing)
        status = pccx_lower_read_bf16(
            l, l->map.vector + (uint64_t)index * pccx_lower_l2_size(experts) * PCCX_LOWER_WORD_BYTES, experts, logits,
            sink);
    if (status == TV_OK && !l->timing)
        tv_operator_route(logits, experts, used, n->attrs.normalize, chosen, weights);
    for (uint32_t i = 0; i < used && status == TV_OK; i++)
        pairs[i] = (pair){l->timing ? i : chosen[i], l->row_first + index, l->timing ? 1 : weights[i]};
    free(chosen);
    free(weights);
    return status;
}

/* Ends the program, reads the logits of the current rows, and fills the pairs; *count is their number. */
static tv_status route(pccx_lowering *l, const tv_graph_node *n, pair *pairs, uint32_t *count, const tv_diag_sink *sink)
{
    uint32_t experts = tv_graph_columns(l->graph, n->inputs[1]), rows = l->row_end - l->row_first,
             used = n->attrs.experts_used;
    float *logits = malloc(experts * sizeof *logits);
    tv_status status = logits ? TV_OK : tv_fail_memory(sink);
    pccx_lower_store(l, l->map.vector, pccx_lower_row_addr(l, n->inputs[1], l->row_first),
                     rows * pccx_lower_padded(experts));
    if (status == TV_OK)
        status = pccx_lower_end_program(l, l->host_op_of[n->op], (uint64_t)rows * experts, sink);
    for (uint32_t r = 0; r < rows && status == TV_OK; r++)
        status = route_row(l, n, r, logits, pairs + (size_t)r * used, sink);
    free(logits);
    *count = rows * used;
    if (status == TV_OK)
        qsort(pairs, *count, sizeof *pairs, compare_pairs);
    return status;
}

/* The weights become a word each in L2. */
static tv_status load_weights(pccx_lowering *l, const tv_graph_node *n, const pair *pairs, uint32_t count,
                              const tv_diag_sink *sink)
{
    uint8_t *words = calloc(count, PCCX_LOWER_WORD_BYTES);
    if (!words)
        return tv_fail_memory(sink);
    for (uint32_t i = 0; i < count; i++)
        tv_store_le(words + (size_t)i * PCCX_LOWER_WORD_BYTES, tv_bf16_flushed_from_f32(pairs[i].weight), 2);
    pccx_lower_add_data(l, l->map.expert_weights, words, (size_t)count * PCCX_LOWER_WORD_BYTES);
    pccx_lower_load(l, pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_EXPERT_WEIGHTS), l->map.expert_weights,
                    count * PCCX_LOWER_LANES);
    free(words);
    return TV_OK;
}

/* ---- Products ---- */

static bool next_expert(const pair *pairs, uint32_t count, expert_rows *e)
{
    e->first = e->end;
    if (e->first == count)
        return false;
    e->expert = pairs[e->first].expert;
    while (e->end < count && pairs[e->end].expert == e->expert)
        e->end++;
    return true;
}

static pccx_lower_matrix matrix_of(const pccx_lowering *l, const tv_graph_node *n, unsigned which, uint32_t expert)
{
    pccx_lower_matrix m = pccx_lower_constants_of(l, n)->matrices[which];
    m.addr += expert * m.bytes;
    return m;
}

static void project_expert(pccx_lowering *l, const pccx_lower_matrix *m, uint32_t rows, uint32_t in, uint32_t out)
{
    pccx_lower_project(l, m, rows, in, out, 0, pccx_lower_group_count(l, m), false);
}

/* The input rows of an expert, grouped if there are several. */
static uint32_t gather_rows(pccx_lowering *l, const tv_graph_node *n, const pair *pairs, const expert_rows *e)
{
    uint32_t columns = pccx_lower_padded(pccx_lower_columns(l, n->inputs[0])), words = pccx_lower_l2_size(columns),
             to = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_EXPERT_INPUT) + e->first * words, start = to;
    if (e->end - e->first == 1)
        return pccx_lower_row_addr(l, n->inputs[0], pairs[e->first].row);
    for (uint32_t g = 0; g < columns; g += l->group) {
        uint32_t count = columns - g < l->group ? columns - g : l->group;
        for (uint32_t i = e->first; i < e->end; i++, to += pccx_lower_l2_size(count))
            pccx_lower_move(l, to, pccx_lower_row_addr(l, n->inputs[0], pairs[i].row) + g / PCCX_LOWER_LANES, count);
    }
    return start;
}

/* Hidden values: those of the gate are overwritten. */
static tv_status emit_hidden(pccx_lowering *l, const tv_graph_node *n, const pair *pairs, pccx_lower_gates *a,
                             const tv_diag_sink *sink)
{
    uint32_t words = pccx_lower_l2_size(a->columns);
    expert_rows e = {0};
    a->out = a->gate;
    while (next_expert(pairs, a->rows, &e)) {
        pccx_lower_matrix gate = matrix_of(l, n, 0, e.expert), up = matrix_of(l, n, 1, e.expert);
        uint32_t in = gather_rows(l, n, pairs, &e);
        project_expert(l, &gate, e.end - e.first, in, a->gate + e.first * words);
        project_expert(l, &up, e.end - e.first, in, a->up + e.first * words);
    }
    pccx_lower_begin_gates(l, a);
    pccx_lower_continue_gates(l, a);
    return pccx_lower_finish_gates(l, a, sink);
}

/* output[row] = sum of weight * (down * hidden) of the row's pairs. `sigmoid` is free for grouped rows. */
static void emit_outputs(pccx_lowering *l, const tv_graph_node *n, const pair *pairs, const pccx_lower_gates *a)
{
    uint32_t columns = pccx_lower_columns(l, n->output), words = pccx_lower_l2_size(columns),
             hidden = pccx_lower_l2_size(a->columns), out = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_EXPERT_OUTPUT),
             weights = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_EXPERT_WEIGHTS);
    expert_rows e = {0};
    while (next_expert(pairs, a->rows, &e)) {
        pccx_lower_matrix down = matrix_of(l, n, 2, e.expert);
        uint32_t rows = e.end - e.first, in = a->out + e.first * hidden, grouped = a->sigmoid + e.first * hidden;
        if (rows > 1)
            pccx_lower_group_rows(l, grouped, in, rows, a->columns);
        project_expert(l, &down, rows, rows > 1 ? grouped : in, out + e.first * words);
    }
    for (uint32_t r = l->row_first; r < l->row_end; r++)
        for (uint32_t i = 0, flags = 0; i < a->rows; i++)
            if (pairs[i].row == r) {
                pccx_lower_scale(l, pccx_lower_row_addr(l, n->output, r), out + i * words, weights + i, columns, flags);
                flags = PCCX_LOWER_ACCM;
            }
}

tv_status pccx_lower_experts(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t count = (l->row_end - l->row_first) * n->attrs.experts_used;
    pair *pairs = malloc(count * sizeof *pairs);
    tv_status status = pairs ? route(l, n, pairs, &count, sink) : tv_fail_memory(sink);
    if (status == TV_OK)
        status = load_weights(l, n, pairs, count, sink);
    if (status == TV_OK) {
        pccx_lower_gates a =
            pccx_lower_gates_of(l, n, count, pccx_lower_padded(tv_graph_matrix(l->graph, n->inputs[2])->rows));
        status = emit_hidden(l, n, pairs, &a, sink);
        if (status == TV_OK)
            emit_outputs(l, n, pairs, &a);
    }
    free(pairs);
    return status;
}
