/* SPDX-License-Identifier: Apache-2.0 */
/* Plans a graph for pccx: what the machine can compute, what is folded into weights, and the constants in L2.
 *
 * A Norm whose readers are all products needs no multiplication by its gains: these and the root of its length are
 * folded into the weights. The scale of attention scores is folded into the weights or gains that queries come from. */
#include <math.h>
#include <stdlib.h>

#include "graph/host_node.h"
#include "lower/pccx/state.h"

enum { GROUP = 64, ROWS_MAX = 32, VALUE_MAX = 65535, SOFT_CAP_MAX = 80, NARROW_MAX = 32 };

/* ---- Folding ---- */

/* How values are read. */
typedef struct usage {
    uint32_t reads, products; /* all, the result of the graph included; those as the input of products */
} usage;

static void count_uses(const pccx_lowering *l, usage *uses)
{
    const tv_graph *g = l->graph;
    uses[g->logits].reads++;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (n->inputs[k] != TV_NO_VALUE)
                uses[n->inputs[k]].reads++;
        if (pccx_lower_is_product(l, n) || n->op == TV_OP_MOE)
            uses[n->inputs[0]].products++;
    }
}

/* Moves the scale of an Attention to the node that can apply it at no cost; otherwise it stays. */
static void fold_scale(pccx_lowering *l, uint32_t node, const usage *uses)
{
    const tv_graph *g = l->graph;
    const tv_graph_attrs *a = &tv_graph_node_at(g, node)->attrs;
    uint32_t value = tv_graph_node_at(g, node)->inputs[0];
    l->folds[node].factor = a->soft_cap > 0 ? a->scale * 2 / a->soft_cap : a->scale;
    while (uses[value].reads == 1 && tv_graph_value_at(g, value)->source == TV_VALUE_COMPUTED) {
        uint32_t producer = tv_graph_value_at(g, value)->producer;
        const tv_graph_node *n = tv_graph_node_at(g, producer);
        if (l->folds[producer].on_host)
            return;
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

/* Few weights, on which much may depend: coefficients and routers. */
static bool is_narrow(const tv_matrix *m) { return m->rows <= NARROW_MAX || m->columns <= NARROW_MAX; }

static tv_status fold(pccx_lowering *l, const tv_diag_sink *sink)
{
    const tv_graph *g = l->graph;
    usage *uses = calloc(g->values.count + 1, sizeof *uses);
    if (!uses)
        return tv_fail_memory(sink);
    count_uses(l, uses);
    for (uint32_t i = 0; i < g->nodes.count; i++)
        l->folds[i].factor = 1;
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(g, i);
        if (n->op == TV_OP_NORM && !l->folds[i].on_host &&
            pccx_lower_columns(l, n->output) == pccx_lower_norm_size(l, n) && n->inputs[2] == TV_NO_VALUE)
            l->folds[i].gains = uses[n->output].products && uses[n->output].products == uses[n->output].reads;
        if (n->op == TV_OP_ATTENTION)
            fold_scale(l, i, uses);
        if (n->op == TV_OP_MOE && tv_graph_value_at(g, n->inputs[1])->source == TV_VALUE_COMPUTED)
            l->folds[tv_graph_value_at(g, n->inputs[1])->producer].precise = true;
        if (n->op == TV_OP_LINEAR)
            l->folds[i].precise = l->folds[i].precise || is_narrow(tv_graph_matrix(g, n->inputs[1]));
    }
    free(uses);
    return TV_OK;
}

/* ---- Checks ---- */

static bool is_elementwise(const tv_graph_node *n)
{
    return (n->op >= TV_OP_ADD && n->op <= TV_OP_SQRT) || n->op == TV_OP_LINEAR;
}

static const char *find_attention_problem(const pccx_lowering *l, const tv_graph_node *n)
{
    const tv_graph_cache *cache = &l->graph->caches.data[n->attrs.cache];
    if (cache->key_dim % PCCX_LOWER_LANES || cache->value_dim % PCCX_LOWER_LANES ||
        cache->key_dim > PCCX_LOWER_HEAD_DIM_MAX || cache->value_dim > PCCX_LOWER_HEAD_DIM_MAX)
        return "instructions for heads that are no multiple of 8 elements, or over 512";
    return n->attrs.soft_cap > SOFT_CAP_MAX ? "soft cap of scores above 80" : NULL;
}

static const char *find_rotation_problem(const pccx_lowering *l, const tv_graph_node *n)
{
    const tv_graph_attrs *a = &n->attrs;
    if (!a->interleaved && a->rotary_dim / 2 % PCCX_LOWER_LANES)
        return "rotation of halves that are no multiple of 8 elements";
    if (a->rotary_dim % PCCX_LOWER_LANES || pccx_lower_columns(l, n->output) / a->heads % PCCX_LOWER_LANES)
        return "rotation of heads that are no multiple of 8 elements";
    return NULL;
}

static const char *find_operand_problem(const pccx_lowering *l, const tv_graph_node *n)
{
    pccx_lower_operand first = pccx_lower_operand_of(l, n, 0), second = pccx_lower_operand_of(l, n, 1);
    if (first == PCCX_OPERAND_OTHER || second == PCCX_OPERAND_OTHER)
        return "instructions for operands that are repeated along inner axes";
    return first == PCCX_OPERAND_FULL || second == PCCX_OPERAND_FULL ? NULL : "such combination of operands";
}

static const char *find_product_problem(const pccx_lowering *l, const tv_graph_node *n)
{
    if (tv_graph_elements(l->graph, n->inputs[0]) != tv_graph_columns(l->graph, n->inputs[0]))
        return "products of several vectors for each token";
    if (n->op == TV_OP_LINEAR && n->attrs.activation && n->inputs[3] != TV_NO_VALUE)
        return "sum after an activation";
    return NULL;
}

/* What the machine lacks for a node, or NULL. */
static const char *find_problem(const pccx_lowering *l, const tv_graph_node *n)
{
    uint32_t columns = pccx_lower_columns(l, n->output);
    if (!pccx_lower_emitters[n->op])
        return "such instructions";
    if (pccx_lower_is_wide(l, n->output)
            ? !is_elementwise(n)
            : columns > (n->op == TV_OP_GATHER ? VALUE_MAX * PCCX_LOWER_LANES : PCCX_LOWER_BLOCK_ROWS))
        return "instructions for rows of more than 32768 elements";
    switch (n->op) {
    case TV_OP_ATTENTION:
        return find_attention_problem(l, n);
    case TV_OP_ROTARY_EMBEDDING:
        return find_rotation_problem(l, n);
    case TV_OP_NORM:
        return pccx_lower_norm_size(l, n) % PCCX_LOWER_LANES ? "norms of groups that are no multiple of 8 elements"
                                                             : NULL;
    case TV_OP_ADD:
    case TV_OP_SUB:
    case TV_OP_MUL:
    case TV_OP_DIV:
        return find_operand_problem(l, n);
    case TV_OP_LINEAR:
    case TV_OP_GLU:
        return find_product_problem(l, n);
    case TV_OP_MOE:
        return tv_graph_matrix(l->graph, n->inputs[2])->rows > PCCX_LOWER_BLOCK_ROWS
                   ? "instructions for rows of more than 32768 elements"
                   : NULL;
    case TV_OP_REDUCE_MEAN:
    case TV_OP_REDUCE_SUM:
        return columns > 1 ? "reductions of inner axes" : NULL;
    default:
        return NULL;
    }
}

/* Lists the host's work on an operator. */
static void add_host_op(pccx_lowering *l, tv_graph_op op, const char *name)
{
    if (l->host_op_of[op])
        return;
    l->host_ops[l->host_op_count].name = name;
    l->host_op_of[op] = l->host_op_count++;
}

static tv_status check_graph(pccx_lowering *l, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        const char *problem = find_problem(l, n);
        l->folds[i].on_host = problem && l->allow_host_ops && tv_host_node_possible(n);
        if (problem && !l->folds[i].on_host)
            return tv_backend_reject(l->graph, n, "pccx", problem, sink);
        if (l->folds[i].on_host)
            add_host_op(l, n->op, tv_graph_op_infos[n->op].name);
        if (n->op == TV_OP_MOE)
            add_host_op(l, n->op, "route to experts");
    }
    if (l->context > VALUE_MAX || tv_graph_vocabulary(l->graph) > VALUE_MAX * PCCX_LOWER_LANES)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "a smaller --context may help",
                       "%u positions or a vocabulary of %u exceeds the limits of an instruction", l->context,
                       tv_graph_vocabulary(l->graph));
    return TV_OK;
}

/* ---- Constants ---- */

static const float common_scalars[PCCX_COMMONS] = {
    [PCCX_COMMON_ONE] = 1,     [PCCX_COMMON_MINUS_ONE] = -1, [PCCX_COMMON_TWO] = 2,
    [PCCX_COMMON_HALF] = 0.5f, [PCCX_COMMON_HUGE] = 0x1p64f, [PCCX_COMMON_TINY] = 0x1p-64f};

static float scalar_operand(const pccx_lowering *l, const tv_graph_node *n)
{
    for (unsigned k = 0; k < 2; k++) {
        float x = 1;
        const tv_matrix *m = tv_graph_matrix(l->graph, n->inputs[k]);
        if (pccx_lower_operand_of(l, n, k) != PCCX_OPERAND_SCALAR)
            continue;
        if (tv_matrix_has_data(m))
            tv_matrix_row_f32(m, 0, &x);
        return n->op == TV_OP_SUB && k == 1 ? -x : x;
    }
    return 0;
}

unsigned pccx_lower_node_scalars(const pccx_lowering *l, const tv_graph_node *n, float out[PCCX_SCALARS_MAX])
{
    float cap = n->attrs.soft_cap, factor = pccx_lower_fold_of(l, n)->factor;
    if (pccx_lower_fold_of(l, n)->on_host)
        return 0;
    switch (n->op) {
    case TV_OP_NORM:
        out[0] = (float)pccx_lower_norm_size(l, n) * n->attrs.epsilon;
        return 1;
    case TV_OP_REDUCE_MEAN:
        out[0] = 1 / (float)pccx_lower_columns(l, n->inputs[0]);
        return 1;
    case TV_OP_ADD:
    case TV_OP_SUB:
    case TV_OP_MUL:
    case TV_OP_DIV:
        out[0] = scalar_operand(l, n);
        return pccx_lower_operand_of(l, n, 0) == PCCX_OPERAND_SCALAR ||
               pccx_lower_operand_of(l, n, 1) == PCCX_OPERAND_SCALAR;
    case TV_OP_ATTENTION:
        out[0] = cap > 0 ? 2 / cap : 0;
        out[1] = cap > 0 ? 1 / cap : 0;
        out[2] = factor;
        return cap > 0 || factor != 1 ? 3 : 0;
    default:
        return 0;
    }
}

float pccx_lower_common_value(pccx_lower_common which) { return common_scalars[which]; }

/* True for nodes that pass rows through work buffers. */
static bool uses_work_buffers(const pccx_lowering *l, const tv_graph_node *n)
{
    if (l->folds[n - l->graph->nodes.data].on_host)
        return false;
    switch (n->op) {
    case TV_OP_LINEAR:
    case TV_OP_GLU:
        return n->attrs.activation == TV_ACTIVATION_RELU || n->attrs.activation == TV_ACTIVATION_SIGMOID ||
               n->attrs.activation == TV_ACTIVATION_TANH;
    case TV_OP_ATTENTION:
        return n->attrs.soft_cap > 0 || pccx_lower_fold_of(l, n)->factor != 1;
    case TV_OP_GATHER:
    case TV_OP_NORM:
    case TV_OP_ROTARY_EMBEDDING:
        return false;
    default:
        return true;
    }
}

/* A step has a row of hidden values for each token and chosen expert. */
static void measure_experts(pccx_lowering *l, const tv_graph_node *n)
{
    uint32_t used = n->attrs.experts_used,
             elements = used * pccx_lower_padded(tv_graph_matrix(l->graph, n->inputs[2])->rows);
    l->experts_used = used > l->experts_used ? used : l->experts_used;
    l->widest = elements > l->widest ? elements : l->widest;
}

/* Widest row, and constant words. */
static void measure_graph(pccx_lowering *l)
{
    bool work = false;
    float scalars[PCCX_SCALARS_MAX];
    l->widest = 1;
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        uint32_t elements = pccx_lower_padded(pccx_lower_columns(l, n->output));
        if (!pccx_lower_is_wide(l, n->output) && elements > l->widest)
            l->widest = elements;
        if (n->op == TV_OP_MOE)
            measure_experts(l, n);
        if (n->op == TV_OP_ATTENTION && n->attrs.soft_cap > 0 && l->context > l->minus_length)
            l->minus_length = pccx_lower_padded(l->context);
        l->constants[i].constant = l->constant_count;
        l->constant_count += pccx_lower_node_scalars(l, n, scalars);
        work = work || uses_work_buffers(l, n);
    }
    if (l->minus_length > l->widest)
        l->widest = l->minus_length;
    if (!work)
        return;
    l->widest = l->widest < PCCX_LOWER_BLOCK ? PCCX_LOWER_BLOCK : l->widest;
    l->piece = l->widest < PCCX_LOWER_PIECE_MAX ? l->widest : PCCX_LOWER_PIECE_MAX;
    l->minus_length = l->minus_length < l->piece ? l->piece : l->minus_length;
    l->common = l->constant_count;
    l->constant_count += PCCX_COMMONS;
}

/* The first node of those that lead, element by element, from the last product to the result. */
static uint32_t find_tail(const tv_graph *g)
{
    uint32_t value = g->logits, node = tv_graph_value_at(g, value)->producer;
    for (;;) {
        const tv_graph_node *n = tv_graph_node_at(g, node);
        uint32_t next = TV_NO_VALUE;
        for (unsigned k = 0; k < 2 && n->op != TV_OP_LINEAR && is_elementwise(n) && next == TV_NO_VALUE; k++)
            if (n->inputs[k] != TV_NO_VALUE && tv_graph_value_at(g, n->inputs[k])->source == TV_VALUE_COMPUTED &&
                tv_graph_value_at(g, n->inputs[k])->block == n->block &&
                tv_graph_elements(g, n->inputs[k]) == tv_graph_elements(g, value))
                next = n->inputs[k];
        if (next == TV_NO_VALUE)
            return node;
        value = next;
        node = tv_graph_value_at(g, value)->producer;
    }
}

tv_status pccx_lower_fit_rows(pccx_lowering *l, const tv_diag_sink *sink)
{
    uint64_t words = pccx_lower_space_size(l->machine, "l2");
    for (l->rows_max = l->has_gemm ? ROWS_MAX : 1; l->rows_max > 0; l->rows_max /= 2) {
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

tv_status pccx_lower_plan_graph(pccx_lowering *l, const tv_config *config, const tv_diag_sink *sink)
{
    l->has_gemm = tv_backend_parameter(config, "gemm.k_max") >= GROUP; /* otherwise one row at a time, by GEMV */
    l->group = GROUP;
    l->tail = find_tail(l->graph);
    TV_TRY(check_graph(l, sink));
    TV_TRY(fold(l, sink));
    measure_graph(l);
    return pccx_lower_fit_rows(l, sink);
}
