/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in SPM: those of weights, of values, and of what a node needs besides. They share memory where their
 * lifetimes allow it. */
#include <stdlib.h>

#include "lower/cmdq/layout.h"

/* ---- Buffers ---- */

uint32_t cmdq_lower_add_buffer(cmdq_lower_plan *plan, uint32_t bank, uint32_t first, uint32_t last, uint64_t bytes)
{
    cmdq_lower_buffer buffer = {
        .bank = bank, .first = first, .last = last, .bytes = (bytes + 63) / 64 * 64, .writer = CMDQ_LOWER_NONE};
    if (!bytes || !TV_VEC_PUSH(&plan->buffers, buffer))
        return CMDQ_LOWER_NONE;
    return (uint32_t)plan->buffers.count - 1;
}

/* Two banks hold weights; the scales are at their end: 32 bits for each group of 32. */
bool cmdq_lower_add_weight_buffers(const cmdq_lowering *l, cmdq_lower_plan *plan)
{
    uint64_t scale_bytes = l->bank_bytes * 32 / (32 + l->weight_bits * 32) / 64 * 64,
             weight_bytes = (l->bank_bytes - scale_bytes) / 64 * 64;
    if (!scale_bytes)
        return false;
    for (unsigned slot = 0; slot < CMDQ_LOWER_SLOTS; slot++) {
        plan->weights[slot] = cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_WEIGHTS + slot, 0, UINT32_MAX, weight_bytes);
        plan->scales[slot] = cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_WEIGHTS + slot, 0, UINT32_MAX, scale_bytes);
        if (!plan->buffers.failed)
            TV_VEC_LAST(&plan->buffers)->offset = weight_bytes;
    }
    return true;
}

/* ---- What nodes need besides their output ---- */

/* A buffer for a vector of constants. */
static uint32_t add_constant(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, unsigned input)
{
    uint32_t value = tv_graph_node_at(l->graph, node)->inputs[input];
    uint64_t columns = value == TV_NO_VALUE ? 0 : tv_graph_matrix(l->graph, value)->columns;
    return cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_QUERY, node, node, columns * 4);
}

static void add_linear_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, uint32_t *scratch)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    uint64_t columns = tv_graph_elements(l->graph, n->output), tile = plan->formats[n->output].tile;
    scratch[CMDQ_SCRATCH_BIAS] = add_constant(l, plan, node, 2);
    for (unsigned i = 0; i < CMDQ_LOWER_SLOTS && n->attrs.activation && !l->streamed[n->output]; i++)
        scratch[CMDQ_SCRATCH_GATE + i] = cmdq_lower_add_buffer(
            plan, CMDQ_LOWER_BANK_QUERY, node, node, plan->rows == 1 ? i ? 0 : columns * 4 : plan->rows * tile * 4);
}

/* A tile of streamed values, and of the constants that are applied to them. At least one column. */
static void add_stream_buffers(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node)
{
    uint64_t columns = tv_graph_elements(l->graph, tv_graph_node_at(l->graph, node)->output),
             bytes = tv_min_u64(plan->rows * columns * 4, tv_max_u64(l->bank_bytes / 4, (uint64_t)plan->rows * 4));
    plan->stream = cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_CACHE, node, UINT32_MAX, bytes);
    for (size_t i = node + 1; i < l->graph->nodes.count; i++)
        for (unsigned k = 0; k < 2; k++) {
            const tv_graph_node *n = &l->graph->nodes.data[i];
            if (l->streamed[n->output] && n->inputs[k] != TV_NO_VALUE && cmdq_lower_is_constant(l, n->inputs[k]) &&
                !cmdq_lower_is_factor(l, n, k))
                plan->scratch[i][CMDQ_SCRATCH_VECTOR] =
                    cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_QUERY, node, UINT32_MAX, bytes);
        }
}

static void add_glu_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, uint32_t *scratch)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    uint64_t bytes = (uint64_t)plan->rows * plan->formats[n->output].tile * 4;
    unsigned slots = plan->formats[n->output].tile < tv_graph_columns(l->graph, n->output) ? CMDQ_LOWER_SLOTS : 1;
    for (unsigned i = 0; i < slots; i++) {
        scratch[CMDQ_SCRATCH_GATE + i] = cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_QUERY, node, node, bytes);
        scratch[CMDQ_SCRATCH_UP + i] = cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_KEY, node, node, bytes);
    }
}

static void add_expert_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, uint32_t *scratch)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    uint64_t elements = (uint64_t)plan->rows * cmdq_lower_expert_tile(l, plan, n);
    for (unsigned i = 0; i < CMDQ_LOWER_SLOTS; i++) {
        scratch[CMDQ_SCRATCH_GATE + i] = cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_QUERY, node, node, elements * 4);
        scratch[CMDQ_SCRATCH_UP + i] = cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_KEY, node, node, elements * 4);
        scratch[CMDQ_SCRATCH_HIDDEN + i] =
            cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_HIDDEN, node, node, elements * 2);
    }
}

uint32_t cmdq_lower_positions(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n)
{
    uint64_t window = n->attrs.window; /* what the tokens of a step see together, or one of them */
    if (!window)
        return l->context;
    return (uint32_t)tv_min_u64(l->context, plan->blocked ? window : window + plan->rows - 1);
}

uint32_t cmdq_lower_position_block(const cmdq_lowering *l, uint32_t head_dim)
{
    return (uint32_t)tv_max_u64(l->bank_bytes / 4 / head_dim, 1);
}

uint32_t cmdq_lower_heads_at_once(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n)
{
    uint64_t shared = n->attrs.heads / l->graph->caches.data[n->attrs.cache].heads,
             scores = (uint64_t)plan->rows * shared * cmdq_lower_positions(l, plan, n) * 4;
    return scores <= l->bank_bytes ? (uint32_t)shared : 1;
}

/* A step of fewer tokens than plan->rows uses fewer rows of scores. */
static void add_attention_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, uint32_t *scratch)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    const tv_graph_cache *cache = &l->graph->caches.data[n->attrs.cache];
    uint64_t positions = cmdq_lower_positions(l, plan, n), loaded = positions, tokens = plan->rows,
             heads = n->attrs.heads / cache->heads;
    if (plan->blocked) {
        loaded = tv_min_u64(cmdq_lower_position_block(l, cache->key_dim), l->context);
        heads = cmdq_lower_heads_at_once(l, plan, n);
    } else {
        tokens = tv_min_u64(tokens, CMDQ_LOWER_MASK_ROWS);
    }
    uint64_t scores = tokens * positions * heads;
    scratch[CMDQ_SCRATCH_KEYS] =
        cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_CACHE, node, node, loaded * cache->key_dim);
    scratch[CMDQ_SCRATCH_VALUES] =
        cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_HIDDEN, node, node, loaded * cache->value_dim);
    scratch[CMDQ_SCRATCH_SCORES] = cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_SCORES, node, node, scores * 4);
    scratch[CMDQ_SCRATCH_PROBS] = cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_CACHE, node, node, scores * 2);
    if (plan->blocked && loaded < l->context) {
        scratch[CMDQ_SCRATCH_KEYS2] =
            cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_CACHE, node, node, loaded * cache->key_dim);
        scratch[CMDQ_SCRATCH_VALUES2] =
            cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_HIDDEN, node, node, loaded * cache->value_dim);
    }
}

/* Constants of elementwise nodes that are no mere factors. */
static void add_pointwise_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, uint32_t *scratch)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    for (unsigned k = 0; k < 2; k++)
        if (n->inputs[k] != TV_NO_VALUE && cmdq_lower_is_constant(l, n->inputs[k]) && !cmdq_lower_is_factor(l, n, k))
            scratch[CMDQ_SCRATCH_VECTOR] = add_constant(l, plan, node, k);
}

static void add_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    uint32_t *scratch = plan->scratch[node];
    if (l->on_host[node])
        return;
    switch (n->op) {
    case TV_OP_NORM:
        scratch[CMDQ_SCRATCH_VECTOR] = add_constant(l, plan, node, 1);
        scratch[CMDQ_SCRATCH_VECTOR2] = add_constant(l, plan, node, 2);
        break;
    case TV_OP_ROTARY_EMBEDDING:
        scratch[CMDQ_SCRATCH_VECTOR] = add_constant(l, plan, node, 1);
        break;
    case TV_OP_LINEAR:
        add_linear_scratch(l, plan, node, scratch);
        break;
    case TV_OP_GLU:
        add_glu_scratch(l, plan, node, scratch);
        break;
    case TV_OP_MOE:
        add_expert_scratch(l, plan, node, scratch);
        break;
    case TV_OP_ATTENTION:
        add_attention_scratch(l, plan, node, scratch);
        break;
    default:
        if (cmdq_lower_is_pointwise(n->op) && !l->streamed[n->output])
            add_pointwise_scratch(l, plan, node, scratch);
        break;
    }
    if (n->op == TV_OP_LINEAR && l->streamed[n->output])
        add_stream_buffers(l, plan, node);
}

/* ---- Values ---- */

/* True when an input's buffer can take the output: the node is the last that uses it, and it has the same elements. */
static bool can_reuse(const cmdq_lowering *l, const cmdq_lower_plan *plan, uint32_t node, uint32_t input)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    const cmdq_lower_format *f = &plan->formats[input], *out = &plan->formats[n->output];
    return cmdq_lower_is_computed(l, input) && f->buffer != CMDQ_LOWER_NONE && f->first == 0 &&
           plan->buffers.data[f->buffer].last == node && f->qbits == out->qbits && f->scale == out->scale &&
           tv_graph_elements(l->graph, input) == tv_graph_elements(l->graph, n->output) &&
           cmdq_lower_is_output(l, input) == cmdq_lower_is_output(l, n->output);
}

/* The input whose buffer the output can take over: CMDQ_LOWER_NONE or a buffer. */
static uint32_t reusable_buffer(const cmdq_lowering *l, const cmdq_lower_plan *plan, uint32_t node)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    unsigned from = n->op == TV_OP_LINEAR ? 3 : 0, to = n->op == TV_OP_LINEAR ? 4 : 2;
    if ((n->op != TV_OP_LINEAR && !cmdq_lower_is_pointwise(n->op)) || l->on_host[node])
        return CMDQ_LOWER_NONE;
    for (unsigned k = from; k < to; k++)
        if (n->inputs[k] != TV_NO_VALUE && can_reuse(l, plan, node, n->inputs[k]))
            return plan->formats[n->inputs[k]].buffer;
    return CMDQ_LOWER_NONE;
}

/* The banks are chosen so that neighbouring entries use different ones where they can. */
static uint32_t preferred_bank(const tv_graph_node *n, const cmdq_lower_use *use)
{
    switch (n->op) {
    case TV_OP_LINEAR:
        return n->inputs[3] != TV_NO_VALUE ? CMDQ_LOWER_BANK_X
               : use->cached               ? CMDQ_LOWER_BANK_KEY
                                           : CMDQ_LOWER_BANK_QUERY;
    case TV_OP_ROTARY_EMBEDDING:
        return use->query ? CMDQ_LOWER_BANK_CACHE : CMDQ_LOWER_BANK_QUERY;
    case TV_OP_GLU:
    case TV_OP_ATTENTION:
        return CMDQ_LOWER_BANK_HIDDEN;
    default: /* near the residual */
        return CMDQ_LOWER_BANK_X;
    }
}

static void extend_life(cmdq_lower_plan *plan, uint32_t buffer, uint32_t last)
{
    cmdq_lower_buffer *shared = &plan->buffers.data[buffer];
    shared->last = last > shared->last ? last : shared->last;
}

static void add_value_buffers(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, const cmdq_lower_use *use,
                              uint32_t last)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    cmdq_lower_format *f = &plan->formats[n->output], *copy = &plan->copies[n->output];
    uint64_t elements = plan->rows * tv_graph_elements(l->graph, n->output);
    if (l->streamed[n->output])
        return;
    if (f->buffer == CMDQ_LOWER_NONE)
        f->buffer = reusable_buffer(l, plan, node);
    if (f->buffer == CMDQ_LOWER_NONE)
        f->buffer = cmdq_lower_add_buffer(plan, preferred_bank(n, use), node, last, elements * f->qbits / 8);
    else
        extend_life(plan, f->buffer, last);
    copy->buffer = cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_HIDDEN, node, last, elements * copy->qbits / 8);
}

void cmdq_lower_add_node_buffers(const cmdq_lowering *l, cmdq_lower_plan *plan, const cmdq_lower_use *uses,
                                 const uint32_t *last_uses, uint32_t node)
{
    uint32_t output = tv_graph_node_at(l->graph, node)->output;
    cmdq_lower_choose_formats(l, plan, uses, node);
    add_value_buffers(l, plan, node, &uses[output], last_uses[output]);
    add_scratch(l, plan, node);
}

/* ---- Allocation ---- */

static bool lives_overlap(const cmdq_lower_buffer *a, const cmdq_lower_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The buffers that may be alive with the next ones. */
typedef struct live_buffers {
    uint32_t *indices;
    size_t count;
} live_buffers;

/* Buffers are in the order of their first nodes. */
static void drop_ended(const cmdq_lower_plan *plan, uint32_t i, live_buffers *live)
{
    size_t kept = 0;
    for (size_t k = 0; k < live->count; k++)
        if (plan->buffers.data[live->indices[k]].last >= plan->buffers.data[i].first)
            live->indices[kept++] = live->indices[k];
    live->count = kept;
}

/* Lowest offset in the bank of buffer `i` that is free while it lives; false: there is no space. */
static bool find_space(const cmdq_lower_plan *plan, uint32_t i, const live_buffers *live, uint64_t bank_bytes)
{
    cmdq_lower_buffer *p = &plan->buffers.data[i];
    bool moved = true;
    p->offset = 0;
    while (moved) {
        moved = false;
        for (size_t k = 0; k < live->count; k++) {
            const cmdq_lower_buffer *q = &plan->buffers.data[live->indices[k]];
            if (q->bank == p->bank && lives_overlap(p, q) && q->offset < p->offset + p->bytes &&
                p->offset < q->offset + q->bytes) {
                p->offset = q->offset + q->bytes;
                moved = true;
            }
        }
    }
    return p->offset + p->bytes <= bank_bytes;
}

/* Allocates each buffer in its bank or, when that is full, in the next bank with enough space. */
static bool allocate_buffers(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t *indices)
{
    live_buffers live = {indices, 0};
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        cmdq_lower_buffer *p = &plan->buffers.data[i];
        unsigned tried = i < 2 * CMDQ_LOWER_SLOTS ? CMDQ_LOWER_BANKS + 1 : 0; /* those of weights are in place */
        drop_ended(plan, i, &live);
        while (tried < CMDQ_LOWER_BANKS && !find_space(plan, i, &live, l->bank_bytes)) {
            p->bank = (p->bank + 1) % CMDQ_LOWER_BANKS;
            tried++;
        }
        if (tried == CMDQ_LOWER_BANKS)
            return false;
        live.indices[live.count++] = i;
    }
    return true;
}

tv_status cmdq_lower_allocate_buffers(const cmdq_lowering *l, cmdq_lower_plan *plan)
{
    if (plan->buffers.failed)
        return TV_ERR_MEMORY;
    uint32_t *indices = malloc(plan->buffers.count * sizeof *indices);
    if (!indices)
        return TV_ERR_MEMORY;
    bool fits = allocate_buffers(l, plan, indices);
    free(indices);
    return fits ? TV_OK : TV_ERR_INPUT;
}
