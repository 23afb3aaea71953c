/* SPDX-License-Identifier: Apache-2.0 */
/* Plans a graph for pccx: what is folded into weights, and where values are in L2.
 *
 * A Norm whose readers are all products needs no multiplication by its gains: these and the root of its length are
 * folded into the weights. The scale of attention scores is folded into the weights or gains that queries come from. */
#include <math.h>
#include <stdlib.h>

#include "lower/pccx/state.h"

enum { GROUP = 64, ROWS_MAX = 32, VALUE_MAX = 65535 };

/* ---- Folding ---- */

static bool is_product(const tv_graph_node *n) { return n->op == TV_OP_LINEAR || n->op == TV_OP_GLU; }

/* True when only products read the value, as their input. */
static bool feeds_products(const tv_graph *g, uint32_t value)
{
    bool any = false;
    for (size_t i = 0; i < g->nodes.count; i++)
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (g->nodes.data[i].inputs[k] == value) {
                if (!is_product(&g->nodes.data[i]) || k != 0)
                    return false;
                any = true;
            }
    return any;
}

/* Moves the scale of an Attention to the node that can apply it at no cost; otherwise it stays. */
static void fold_scale(pccx_lowering *l, uint32_t node)
{
    const tv_graph *g = l->graph;
    uint32_t value = tv_graph_node_at(g, node)->inputs[0];
    l->folds[node].factor = tv_graph_node_at(g, node)->attrs.scale;
    while (tv_graph_uses(g, value) == 1 && tv_graph_value_at(g, value)->source == TV_VALUE_COMPUTED) {
        uint32_t producer = tv_graph_value_at(g, value)->producer;
        const tv_graph_node *n = tv_graph_node_at(g, producer);
        if ((n->op == TV_OP_LINEAR && !n->attrs.activation && n->inputs[3] == TV_NO_VALUE) || n->op == TV_OP_NORM) {
            l->folds[producer].factor *= l->folds[node].factor;
            l->folds[node].factor = 1;
            return;
        }
        if (n->op != TV_OP_ROTARY_EMBEDDING)
            return;
        value = n->inputs[0];
    }
}

static void fold(pccx_lowering *l)
{
    const tv_graph *g = l->graph;
    for (uint32_t i = 0; i < g->nodes.count; i++)
        l->folds[i] = (pccx_lower_fold){false, 1};
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(g, i);
        if (n->op == TV_OP_NORM && n->attrs.groups == 1 && n->inputs[2] == TV_NO_VALUE)
            l->folds[i].gains = feeds_products(g, n->output);
        if (n->op == TV_OP_ATTENTION)
            fold_scale(l, i);
    }
}

/* ---- L2 ---- */

static uint64_t row_words(const pccx_lowering *l, uint32_t value)
{
    uint64_t elements = tv_graph_elements(l->graph, value);
    return (elements + PCCX_LOWER_LANES - 1) / PCCX_LOWER_LANES;
}

/* Words of the scratch buffers of a node. */
static void scratch_words(const pccx_lowering *l, const tv_graph_node *n, uint64_t rows, uint64_t out[PCCX_SCRATCH_MAX])
{
    uint64_t output = rows * row_words(l, n->output);
    memset(out, 0, PCCX_SCRATCH_MAX * sizeof *out);
    if (n->op == TV_OP_NORM) {
        uint64_t groups = rows * n->attrs.groups;
        out[PCCX_SCRATCH_NORM_INPUT] = output + groups;
        out[PCCX_SCRATCH_SQUARES] = groups * pccx_lower_l2_size(PCCX_LOWER_BLOCK);
        out[PCCX_SCRATCH_SUM] = groups;
        out[PCCX_SCRATCH_CENTERED] = n->attrs.subtract_mean ? output : 0;
    } else if (n->op == TV_OP_ATTENTION) {
        uint64_t heads = rows * n->attrs.heads, value = l->graph->caches.data[n->attrs.cache].value_dim;
        out[PCCX_SCRATCH_SCORES] = out[PCCX_SCRATCH_EXPS] = 2 * (uint64_t)pccx_lower_l2_size(l->context);
        out[PCCX_SCRATCH_UNNORMALIZED] = heads * (pccx_lower_l2_size((uint32_t)value) + 1);
    } else if (n->op == TV_OP_GLU) {
        for (unsigned i = 0; i < PCCX_SCRATCH_MAX; i++)
            out[i] = output;
    } else if (n->op == TV_OP_LINEAR && n->attrs.activation) {
        out[PCCX_SCRATCH_GATE] = out[PCCX_SCRATCH_SIGMOID] = output;
    }
}

typedef struct l2_layout {
    tv_buffer_life *buffers;
    uint32_t count;
} l2_layout;

static uint32_t add_buffer(l2_layout *t, uint64_t words, uint32_t first, uint32_t last)
{
    if (!words)
        return PCCX_LOWER_NO_BUFFER;
    t->buffers[t->count] = (tv_buffer_life){.bytes = words, .first = first, .last = last};
    return t->count++;
}

/* A residual that is added to in place: the value whose memory the output takes, or TV_NO_VALUE. */
static uint32_t reused_value(const pccx_lowering *l, uint32_t node, const uint32_t *last_uses)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    uint32_t v = n->op == TV_OP_LINEAR ? n->inputs[3] : n->op == TV_OP_ADD ? n->inputs[0] : TV_NO_VALUE;
    if (v == TV_NO_VALUE || tv_graph_value_at(l->graph, v)->source != TV_VALUE_COMPUTED || last_uses[v] != node ||
        tv_graph_elements(l->graph, v) != tv_graph_elements(l->graph, n->output))
        return TV_NO_VALUE;
    return v;
}

static void add_node_buffers(const pccx_lowering *l, pccx_lower_plan *plan, uint32_t node, const uint32_t *last_uses,
                             l2_layout *t)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    pccx_lower_value *v = &plan->values[n->output];
    uint64_t words = row_words(l, n->output), scratch[PCCX_SCRATCH_MAX];
    uint32_t reused = reused_value(l, node, last_uses), last = last_uses[n->output];
    *v = (pccx_lower_value){PCCX_LOWER_NO_BUFFER, PCCX_LOWER_NO_BUFFER, false};
    if (!pccx_lower_is_classifier(l, n)) {
        v->addr = reused == TV_NO_VALUE ? add_buffer(t, plan->rows * words, node, last) : plan->values[reused].addr;
        if (t->buffers[v->addr].last < last)
            t->buffers[v->addr].last = last;
    }
    bool read_by_product = false;
    for (uint32_t i = node + 1; i < l->graph->nodes.count && i <= last; i++)
        read_by_product = read_by_product || (is_product(tv_graph_node_at(l->graph, i)) &&
                                              tv_graph_node_at(l->graph, i)->inputs[0] == n->output &&
                                              !pccx_lower_is_classifier(l, tv_graph_node_at(l->graph, i)));
    if (plan->rows > 1 && read_by_product)
        v->grouped_addr = add_buffer(t, plan->rows * words, node, last);
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
    if (plan->rows == rows)
        return TV_OK;
    pccx_lower_plan_fini(plan);
    l2_layout t = {malloc((g->nodes.count + 1) * (2 + PCCX_SCRATCH_MAX) * sizeof *t.buffers), 0};
    uint32_t *last_uses = tv_graph_last_uses(g, false);
    plan->values = malloc((g->values.count + 1) * sizeof *plan->values);
    plan->scratch = malloc((g->nodes.count + 1) * sizeof *plan->scratch);
    uint64_t end = UINT64_MAX;
    if (t.buffers && last_uses && plan->values && plan->scratch) {
        plan->rows = rows;
        plan->ones = 0;
        plan->constants = pccx_lower_l2_size(l->widest);
        plan->logits = plan->constants + l->constant_count;
        uint32_t base = plan->logits + pccx_lower_l2_size(tv_graph_vocabulary(g));
        for (uint32_t i = 0; i < g->nodes.count; i++)
            add_node_buffers(l, plan, i, last_uses, &t);
        end = tv_buffers_allocate(t.buffers, t.count, 1);
        assign_addresses(l, plan, &t, base);
        plan->words = base + end;
    }
    free(t.buffers);
    free(last_uses);
    if (end == UINT64_MAX) {
        pccx_lower_plan_fini(plan);
        return TV_ERR_MEMORY;
    }
    return TV_OK;
}

/* ---- Checks ---- */

static const char *find_problem(const pccx_lowering *l, const tv_graph_node *n)
{
    const tv_graph_attrs *a = &n->attrs;
    uint32_t columns = tv_graph_columns(l->graph, n->output);
    if (!pccx_lower_emitters[n->op])
        return "such instructions";
    if (n->output != l->graph->logits && columns > PCCX_LOWER_BLOCK_ROWS)
        return "instructions for rows of more than 32768 elements";
    if (n->op == TV_OP_MUL && tv_graph_value_at(l->graph, n->inputs[1])->source != TV_VALUE_CONSTANT)
        return "product of two computed values";
    if (n->op == TV_OP_ADD && tv_graph_value_at(l->graph, n->inputs[1])->source != TV_VALUE_COMPUTED)
        return "sum with a constant";
    if (n->op == TV_OP_ATTENTION) {
        const tv_graph_cache *cache = &l->graph->caches.data[a->cache];
        if (cache->key_dim % PCCX_LOWER_LANES || cache->value_dim % PCCX_LOWER_LANES ||
            cache->key_dim > PCCX_LOWER_HEAD_DIM_MAX || cache->value_dim > PCCX_LOWER_HEAD_DIM_MAX)
            return "instructions for heads that are no multiple of 8 elements, or over 512";
        if (a->soft_cap != 0)
            return "soft cap of scores";
        if (l->folds[n - l->graph->nodes.data].factor != 1)
            return "scale of scores that cannot be part of the weights";
    }
    if (n->op == TV_OP_ROTARY_EMBEDDING && !a->interleaved && a->rotary_dim / 2 % PCCX_LOWER_LANES)
        return "rotation of halves that are no multiple of 8 elements";
    if (n->op == TV_OP_ROTARY_EMBEDDING && a->rotary_dim * a->heads != columns)
        return "rotation of a part of each head";
    if (n->op == TV_OP_NORM && columns / a->groups % PCCX_LOWER_LANES)
        return "norms of groups that are no multiple of 8 elements";
    if ((n->op == TV_OP_GLU || n->op == TV_OP_LINEAR) && a->activation != TV_ACTIVATION_NONE &&
        a->activation != TV_ACTIVATION_SWISH && a->activation != TV_ACTIVATION_GELU &&
        a->activation != TV_ACTIVATION_GELU_TANH)
        return "such activation";
    return NULL;
}

static tv_status check_graph(const pccx_lowering *l, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const char *problem = find_problem(l, &l->graph->nodes.data[i]);
        if (problem)
            return tv_backend_reject(l->graph, &l->graph->nodes.data[i], "pccx", problem, sink);
    }
    if (l->context > VALUE_MAX || tv_graph_vocabulary(l->graph) > VALUE_MAX * PCCX_LOWER_LANES)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "a smaller --context may help",
                       "%u positions or a vocabulary of %u exceeds the limits of an instruction", l->context,
                       tv_graph_vocabulary(l->graph));
    return TV_OK;
}

/* Widest row, and constants of norms. */
static void measure_graph(pccx_lowering *l)
{
    l->widest = 1;
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        uint32_t elements = pccx_lower_padded((uint32_t)tv_graph_elements(l->graph, n->output));
        if (n->output != l->graph->logits && elements > l->widest)
            l->widest = elements;
        if (n->op == TV_OP_NORM)
            l->constants[i].constant = l->constant_count++;
    }
}

tv_status pccx_lower_plan_graph(pccx_lowering *l, const tv_config *config, const tv_diag_sink *sink)
{
    uint64_t words = pccx_lower_space_size(l->machine, "l2");
    bool gemm = tv_backend_parameter(config, "gemm.k_max") >= GROUP; /* otherwise one row at a time, by GEMV */
    l->group = GROUP;
    fold(l);
    TV_TRY(check_graph(l, sink));
    measure_graph(l);
    for (l->rows_max = gemm ? ROWS_MAX : 1; l->rows_max > 0; l->rows_max /= 2) {
        if (pccx_lower_plan_rows(l, l->rows_max) != TV_OK)
            return tv_fail_memory(sink);
        if (l->plan.words <= words)
            return TV_OK;
    }
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                   "make l2.words larger with -D, or the context smaller",
                   "the model's activations need %llu words of L2, which has %llu", (unsigned long long)l->plan.words,
                   (unsigned long long)words);
}
