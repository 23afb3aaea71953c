/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates L2: constants, values and scratch buffers of nodes, by their lifetimes. */
#include <stdlib.h>

#include "lower/pccx/state.h"

/* ---- Sizes ---- */

static uint64_t row_words(const pccx_lowering *l, uint32_t value)
{
    return pccx_lower_l2_size(pccx_lower_columns(l, value));
}

static void norm_scratch(const pccx_lowering *l, const tv_graph_node *n, uint64_t rows, uint64_t out[PCCX_SCRATCH_MAX])
{
    uint64_t output = rows * row_words(l, n->output),
             groups = rows * (pccx_lower_columns(l, n->output) / pccx_lower_norm_size(l, n));
    out[PCCX_SCRATCH_NORM_INPUT] = output + groups;
    out[PCCX_SCRATCH_SQUARES] = groups * pccx_lower_l2_size(PCCX_LOWER_BLOCK);
    if (l->has_product && out[PCCX_SCRATCH_SQUARES] < output)
        out[PCCX_SCRATCH_SQUARES] = output;
    out[PCCX_SCRATCH_SUM] = groups;
    out[PCCX_SCRATCH_CENTERED] = n->attrs.subtract_mean ? output : 0;
}

static void attention_scratch(const pccx_lowering *l, const tv_graph_node *n, uint64_t rows,
                              uint64_t out[PCCX_SCRATCH_MAX])
{
    uint64_t heads = rows * n->attrs.heads, value = l->graph->caches.data[n->attrs.cache].value_dim,
             context = pccx_lower_l2_size(l->context);
    out[PCCX_SCRATCH_SCORES] = out[PCCX_SCRATCH_EXPS] = 2 * context;
    out[PCCX_SCRATCH_UNNORMALIZED] = heads * (pccx_lower_l2_size((uint32_t)value) + 1);
    out[PCCX_SCRATCH_QUERY] = pccx_lower_fold_of(l, n)->factor == 1 ? 0 : rows * row_words(l, n->inputs[0]);
    out[PCCX_SCRATCH_RECIPROCALS] = n->attrs.soft_cap > 0 ? 2 * (1 + context) : 0;
    out[PCCX_SCRATCH_CAP] = n->attrs.soft_cap > 0 ? context : 0;
}

/* `rows`: a row for each token and expert. */
static void moe_scratch(const pccx_lowering *l, const tv_graph_node *n, uint64_t rows, uint64_t out[PCCX_SCRATCH_MAX])
{
    uint64_t hidden = rows * pccx_lower_l2_size(tv_graph_matrix(l->graph, n->inputs[2])->rows);
    out[PCCX_SCRATCH_GATE] = out[PCCX_SCRATCH_SIGMOID] = out[PCCX_SCRATCH_UP] = out[PCCX_SCRATCH_ACT] = hidden;
    out[PCCX_SCRATCH_EXPERT_INPUT] = out[PCCX_SCRATCH_EXPERT_OUTPUT] = rows * row_words(l, n->output);
    out[PCCX_SCRATCH_EXPERT_WEIGHTS] = rows;
}

/* Words of the scratch buffers of a node. */
static void scratch_words(const pccx_lowering *l, const tv_graph_node *n, uint64_t rows, uint64_t out[PCCX_SCRATCH_MAX])
{
    uint64_t output = (pccx_lower_is_wide(l, n->output) ? 1 : rows) * row_words(l, n->output);
    memset(out, 0, PCCX_SCRATCH_MAX * sizeof *out);
    if (pccx_lower_fold_of(l, n)->on_host)
        return;
    switch (n->op) {
    case TV_OP_NORM:
        norm_scratch(l, n, rows, out);
        return;
    case TV_OP_ATTENTION:
        attention_scratch(l, n, rows, out);
        return;
    case TV_OP_GLU:
        out[PCCX_SCRATCH_GATE] = out[PCCX_SCRATCH_SIGMOID] = out[PCCX_SCRATCH_UP] = out[PCCX_SCRATCH_ACT] = output;
        return;
    case TV_OP_MOE:
        moe_scratch(l, n, rows * n->attrs.experts_used, out);
        return;
    case TV_OP_LINEAR:
        out[PCCX_SCRATCH_GATE] = n->attrs.activation ? output : 0;
        out[PCCX_SCRATCH_SIGMOID] = n->attrs.activation == TV_ACTIVATION_SWISH ? output : 0;
        return;
    case TV_OP_ADD:
    case TV_OP_SUB:
        out[PCCX_SCRATCH_FACTORS] = pccx_lower_l2_size(l->piece);
        return;
    case TV_OP_DIV:
    case TV_OP_SWISH:
        out[PCCX_SCRATCH_FACTORS] = output;
        return;
    default: /* none */
        return;
    }
}

/* ---- Buffers ---- */

typedef struct l2_layout {
    tv_buffer_life *buffers;
    uint32_t count;
    uint32_t *last_uses; /* of each value */
    bool *multiplied;    /* of each value: read by products of several rows */
} l2_layout;

static uint32_t add_buffer(l2_layout *t, uint64_t words, uint32_t first, uint32_t last)
{
    if (!words)
        return PCCX_LOWER_NO_BUFFER;
    t->buffers[t->count] = (tv_buffer_life){.bytes = words, .first = first, .last = last};
    return t->count++;
}

/* The input that a node can overwrite with its output, element by element. */
static uint32_t overwritable_input(const pccx_lowering *l, const tv_graph_node *n)
{
    if (pccx_lower_fold_of(l, n)->on_host)
        return TV_NO_VALUE;
    switch (n->op) {
    case TV_OP_LINEAR:
        return n->attrs.activation ? TV_NO_VALUE : n->inputs[3];
    case TV_OP_ADD:
    case TV_OP_SUB:
    case TV_OP_MUL:
    case TV_OP_DIV:
    case TV_OP_RELU:
    case TV_OP_SIGMOID:
    case TV_OP_TANH:
    case TV_OP_SWISH:
    case TV_OP_GELU:
    case TV_OP_EXP:
    case TV_OP_SQRT:
        return n->inputs[0];
    default: /* the output is made of other elements */
        return TV_NO_VALUE;
    }
}

/* The value whose memory the output of a node takes, or TV_NO_VALUE. */
static uint32_t reused_value(const pccx_lowering *l, uint32_t node, const uint32_t *last_uses)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    uint32_t v = overwritable_input(l, n);
    if (v == TV_NO_VALUE || tv_graph_value_at(l->graph, v)->source != TV_VALUE_COMPUTED || last_uses[v] != node ||
        tv_graph_elements(l->graph, v) != tv_graph_elements(l->graph, n->output) ||
        pccx_lower_is_wide(l, v) != pccx_lower_is_wide(l, n->output))
        return TV_NO_VALUE;
    return v;
}

static void add_node_buffers(const pccx_lowering *l, pccx_lower_plan *plan, uint32_t node, l2_layout *t)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    pccx_lower_value *v = &plan->values[n->output];
    uint64_t words = row_words(l, n->output) * (pccx_lower_is_wide(l, n->output) ? 1 : plan->rows),
             scratch[PCCX_SCRATCH_MAX];
    uint32_t reused = reused_value(l, node, t->last_uses), last = t->last_uses[n->output];
    *v = (pccx_lower_value){.grouped_addr = PCCX_LOWER_NO_BUFFER};
    v->addr = reused == TV_NO_VALUE ? add_buffer(t, words, node, last) : plan->values[reused].addr;
    if (t->buffers[v->addr].last < last)
        t->buffers[v->addr].last = last;
    if (plan->rows > 1 && t->multiplied[n->output])
        v->grouped_addr = add_buffer(t, words, node, last);
    scratch_words(l, n, plan->rows, scratch);
    for (unsigned i = 0; i < PCCX_SCRATCH_MAX; i++)
        plan->scratch[node][i] = add_buffer(t, scratch[i], node, node);
}

/* Replaces indices of buffers by addresses. */
static void assign_addresses(const pccx_lowering *l, pccx_lower_plan *plan, const l2_layout *t, uint32_t base)
{
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        pccx_lower_value *v = &plan->values[l->graph->nodes.data[i].output];
        uint32_t *addrs[2 + PCCX_SCRATCH_MAX] = {&v->addr, &v->grouped_addr};
        for (unsigned k = 0; k < PCCX_SCRATCH_MAX; k++)
            addrs[2 + k] = &plan->scratch[i][k];
        for (unsigned k = 0; k < TV_COUNTOF(addrs); k++)
            if (*addrs[k] != PCCX_LOWER_NO_BUFFER)
                *addrs[k] = base + (uint32_t)t->buffers[*addrs[k]].offset;
    }
}

/* Constants and work buffers, from address 0; returns their end. */
static uint32_t allocate_constants(const pccx_lowering *l, pccx_lower_plan *plan)
{
    bool work = l->minus_length > 0;
    plan->ones = 0;
    plan->constants = pccx_lower_l2_size(l->widest);
    plan->units = plan->constants + l->constant_count;
    plan->minus_ones = plan->units;
    if (l->has_packed_tables)
        plan->minus_ones += PCCX_LOWER_BEAT_WEIGHTS * pccx_lower_l2_size(PCCX_LOWER_BEAT_WEIGHTS);
    plan->work = plan->minus_ones + pccx_lower_l2_size(l->minus_length);
    return plan->work + (work ? PCCX_LOWER_WORK_BUFFERS * (1 + pccx_lower_l2_size(l->piece)) : 0);
}

static void fini_layout(l2_layout *t)
{
    free(t->buffers);
    free(t->last_uses);
    free(t->multiplied);
}

/* Returns the words that buffers need, or UINT64_MAX. */
static uint64_t allocate_values(const pccx_lowering *l, pccx_lower_plan *plan, uint32_t base)
{
    const tv_graph *g = l->graph;
    l2_layout t = {.buffers = malloc((g->nodes.count + 1) * (2 + PCCX_SCRATCH_MAX) * sizeof *t.buffers),
                   .last_uses = tv_graph_last_uses(g, false),
                   .multiplied = calloc(g->values.count + 1, sizeof *t.multiplied)};
    uint64_t end = UINT64_MAX;
    if (t.buffers && t.last_uses && t.multiplied) {
        for (uint32_t i = 0; i < g->nodes.count; i++) {
            const tv_graph_node *n = tv_graph_node_at(g, i);
            if (pccx_lower_is_product(l, n) && i < l->tail)
                t.multiplied[n->inputs[0]] = true;
        }
        for (uint32_t i = 0; i < g->nodes.count; i++)
            add_node_buffers(l, plan, i, &t);
        end = tv_buffers_allocate(t.buffers, t.count, 1);
        assign_addresses(l, plan, &t, base);
    }
    fini_layout(&t);
    return end;
}

void pccx_lower_plan_fini(pccx_lower_plan *plan)
{
    free(plan->values);
    free(plan->scratch);
    *plan = (pccx_lower_plan){0};
}

tv_status pccx_lower_plan_rows(pccx_lowering *l, uint32_t rows)
{
    const tv_graph *g = l->graph;
    pccx_lower_plan *plan = &l->plan;
    if (plan->rows == rows && plan->packed_tables == l->has_packed_tables)
        return TV_OK;
    pccx_lower_plan_fini(plan);
    plan->rows = rows;
    plan->packed_tables = l->has_packed_tables;
    plan->values = malloc((g->values.count + 1) * sizeof *plan->values);
    plan->scratch = malloc((g->nodes.count + 1) * sizeof *plan->scratch);
    uint32_t base = allocate_constants(l, plan);
    uint64_t end = plan->values && plan->scratch ? allocate_values(l, plan, base) : UINT64_MAX;
    plan->words = base + end;
    if (end == UINT64_MAX) {
        pccx_lower_plan_fini(plan);
        return TV_ERR_MEMORY;
    }
    return TV_OK;
}
