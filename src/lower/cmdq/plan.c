/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how each value is stored, and allocates SPM by lifetimes.
 *
 * Inputs of products are integers with the scale that the calibration found, keys and values 8-bit integers, everything
 * else is binary32. With several tokens a value is a row of matrices [tokens][tile]: heads are tiles, so that attention
 * and rotation find each head in one piece; a product whose input has tiles adds up one part for each. A value that
 * norms or adds whole rows is a single tile. */
#include <math.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "lower/cmdq/state.h"
#include "num/int.h"

/* ---- Readers of a value ---- */

typedef struct value_use {
    bool product, query, cached, other; /* by what kinds of operands it is read */
    uint32_t heads;                     /* parts of its columns that a reader wants in one piece; 0: none */
} value_use;

static void note_heads(value_use *use, uint32_t heads) { use->heads = heads > use->heads ? heads : use->heads; }

static void note_reader(const tv_graph *g, const tv_graph_node *n, unsigned input, value_use *use)
{
    switch (n->op) {
    case TV_OP_LINEAR:
    case TV_OP_GLU:
        use->product = use->product || input == 0;
        use->other = use->other || input == 3;
        break;
    case TV_OP_ATTENTION:
        note_heads(use, input == 0 ? n->attrs.heads : g->caches.data[n->attrs.cache].heads);
        *(input == 0 ? &use->query : &use->cached) = true;
        break;
    case TV_OP_ROTARY_EMBEDDING:
        note_heads(use, n->attrs.heads);
        use->other = true;
        break;
    case TV_OP_NORM:
        note_heads(use, n->attrs.groups > 1 ? n->attrs.groups : 0);
        use->other = true;
        break;
    default: /* reads whole values */
        use->other = true;
        break;
    }
}

static value_use *find_uses(const tv_graph *g)
{
    value_use *uses = calloc(g->values.count + 1, sizeof *uses);
    for (size_t i = 0; i < g->nodes.count && uses; i++)
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (g->nodes.data[i].inputs[k] != TV_NO_VALUE)
                note_reader(g, &g->nodes.data[i], k, &uses[g->nodes.data[i].inputs[k]]);
    return uses;
}

/* ---- Formats ---- */

/* Larger values than those of the sample get a margin; beyond it they saturate. */
static float choose_scale(const cmdq_lowering *l, uint32_t value)
{
    static const float MARGIN = 1.25f;
    float scale = l->ranges ? l->ranges[value] * MARGIN / (float)TV_INT_MAX(8) : 1;
    return isnormal(scale) ? scale : 1; /* zeros, subnormals and non-finite values have no scale */
}

static cmdq_lower_format choose_format(const cmdq_lowering *l, uint32_t value, const value_use *use)
{
    cmdq_lower_format f = {CMDQ_LOWER_NONE, 32, 1, 0};
    if (use->other || (use->cached && (use->product || use->query)))
        return f;
    if (use->cached || (l->activation_bits == 8 && (use->product || use->query))) {
        f.qbits = 8;
        f.scale = choose_scale(l, value);
    } else if (use->product || use->query) {
        f.qbits = l->activation_bits;
    }
    return f;
}

static uint32_t choose_tile(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n,
                            const value_use *use)
{
    uint32_t columns = tv_graph_columns(l->graph, n->output);
    switch (n->op) {
    case TV_OP_GLU:
        return plan->hidden_tile < columns ? plan->hidden_tile : columns;
    case TV_OP_ATTENTION:
        return columns / n->attrs.heads;
    case TV_OP_LINEAR:
        if (n->inputs[3] != TV_NO_VALUE)
            return plan->formats[n->inputs[3]].tile;
        if (use->heads)
            return columns / use->heads;
        return use->product && !use->other && plan->hidden_tile < columns ? plan->hidden_tile : columns;
    case TV_OP_GATHER:
        return columns;
    default: /* as the input */
        return plan->formats[n->inputs[0]].tile ? plan->formats[n->inputs[0]].tile : columns;
    }
}

/* ---- Buffers ---- */

static uint32_t add_buffer(cmdq_lower_plan *plan, uint32_t bank, uint32_t first, uint32_t last, uint64_t bytes)
{
    cmdq_lower_buffer buffer = {
        .bank = bank, .first = first, .last = last, .bytes = (bytes + 63) / 64 * 64, .writer = CMDQ_LOWER_NONE};
    if (!bytes || !TV_VEC_PUSH(&plan->buffers, buffer))
        return CMDQ_LOWER_NONE;
    return (uint32_t)plan->buffers.count - 1;
}

static bool same_columns(const cmdq_lowering *l, uint32_t a, uint32_t b)
{
    return tv_graph_elements(l->graph, a) == tv_graph_elements(l->graph, b);
}

/* The input whose buffer the output can take over, because the node is its last reader: CMDQ_LOWER_NONE or a buffer. */
static uint32_t reusable_buffer(const cmdq_lowering *l, const cmdq_lower_plan *plan, uint32_t node,
                                const uint32_t *last_uses)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    unsigned from = n->op == TV_OP_LINEAR ? 3 : 0, to = n->op == TV_OP_LINEAR ? 4 : 2;
    bool elementwise = n->op == TV_OP_ADD || n->op == TV_OP_MUL || n->op == TV_OP_SWISH || n->op == TV_OP_GELU;
    for (unsigned k = from; k < to && (elementwise || n->op == TV_OP_LINEAR); k++) {
        uint32_t v = n->inputs[k];
        if (v == TV_NO_VALUE || tv_graph_value_at(l->graph, v)->source != TV_VALUE_COMPUTED || last_uses[v] != node ||
            !same_columns(l, v, n->output))
            continue;
        const cmdq_lower_format *f = &plan->formats[v], *out = &plan->formats[n->output];
        if (f->buffer != CMDQ_LOWER_NONE && f->qbits == out->qbits && f->scale == out->scale)
            return f->buffer;
    }
    return CMDQ_LOWER_NONE;
}

/* The banks are chosen so that neighbouring entries use different ones where they can. */
static uint32_t preferred_bank(const tv_graph_node *n, const value_use *use)
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

static void add_norm_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, uint32_t *scratch)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    for (unsigned i = 0; i < 2; i++)
        if (n->inputs[1 + i] != TV_NO_VALUE)
            scratch[CMDQ_SCRATCH_VECTOR + i] = add_buffer(plan, CMDQ_LOWER_BANK_QUERY, node, node,
                                                          (uint64_t)tv_graph_columns(l->graph, n->inputs[1 + i]) * 4);
}

static void add_linear_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, uint32_t *scratch)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    uint64_t columns = tv_graph_columns(l->graph, n->output), tile = plan->formats[n->output].tile;
    if (n->inputs[2] != TV_NO_VALUE)
        scratch[CMDQ_SCRATCH_BIAS] = add_buffer(plan, CMDQ_LOWER_BANK_QUERY, node, node, columns * 4);
    if (cmdq_lower_is_classifier(l, n)) /* at least one column */
        scratch[CMDQ_SCRATCH_LOGITS] =
            add_buffer(plan, CMDQ_LOWER_BANK_CACHE, node, node,
                       tv_min_u64(plan->rows * columns * 4, tv_max_u64(l->bank_bytes / 4, (uint64_t)plan->rows * 4)));
    for (unsigned i = 0; i < CMDQ_LOWER_SLOTS && n->attrs.activation; i++)
        scratch[CMDQ_SCRATCH_GATE + i] = add_buffer(plan, CMDQ_LOWER_BANK_QUERY, node, node,
                                                    plan->rows == 1 ? i ? 0 : columns * 4 : plan->rows * tile * 4);
}

static void add_glu_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, uint32_t *scratch)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    uint64_t bytes = (uint64_t)plan->rows * plan->formats[n->output].tile * 4;
    unsigned slots = plan->formats[n->output].tile < tv_graph_columns(l->graph, n->output) ? CMDQ_LOWER_SLOTS : 1;
    for (unsigned i = 0; i < slots; i++) {
        scratch[CMDQ_SCRATCH_GATE + i] = add_buffer(plan, CMDQ_LOWER_BANK_QUERY, node, node, bytes);
        scratch[CMDQ_SCRATCH_UP + i] = add_buffer(plan, CMDQ_LOWER_BANK_KEY, node, node, bytes);
    }
}

static void add_attention_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, uint32_t *scratch)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    const tv_graph_cache *cache = &l->graph->caches.data[n->attrs.cache];
    uint64_t positions = l->context, tokens = plan->rows < CMDQ_LOWER_MASK_ROWS ? plan->rows : CMDQ_LOWER_MASK_ROWS;
    if (n->attrs.window) /* what the tokens of a step see together */
        positions = tv_min_u64(positions, (uint64_t)n->attrs.window + plan->rows - 1);
    uint64_t scores = tokens * positions * (n->attrs.heads / cache->heads);
    scratch[CMDQ_SCRATCH_KEYS] = add_buffer(plan, CMDQ_LOWER_BANK_CACHE, node, node, positions * cache->key_dim);
    scratch[CMDQ_SCRATCH_VALUES] = add_buffer(plan, CMDQ_LOWER_BANK_HIDDEN, node, node, positions * cache->value_dim);
    scratch[CMDQ_SCRATCH_SCORES] = add_buffer(plan, CMDQ_LOWER_BANK_SCORES, node, node, scores * 4);
    scratch[CMDQ_SCRATCH_PROBS] = add_buffer(plan, CMDQ_LOWER_BANK_CACHE, node, node, scores * 2);
}

static void add_scratch(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node)
{
    uint32_t *scratch = plan->scratch[node];
    for (unsigned i = 0; i < CMDQ_LOWER_SCRATCH_MAX; i++)
        scratch[i] = CMDQ_LOWER_NONE;
    switch (tv_graph_node_at(l->graph, node)->op) {
    case TV_OP_NORM:
        add_norm_scratch(l, plan, node, scratch);
        break;
    case TV_OP_LINEAR:
        add_linear_scratch(l, plan, node, scratch);
        break;
    case TV_OP_GLU:
        add_glu_scratch(l, plan, node, scratch);
        break;
    case TV_OP_ATTENTION:
        add_attention_scratch(l, plan, node, scratch);
        break;
    default: /* needs none */
        break;
    }
}

static void add_value_buffer(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t node, const value_use *use,
                             const uint32_t *last_uses)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    cmdq_lower_format *f = &plan->formats[n->output];
    uint32_t last = last_uses[n->output];
    *f = choose_format(l, n->output, use);
    f->tile = choose_tile(l, plan, n, use);
    if (n->output == l->graph->logits)
        return; /* leaves tile by tile */
    f->buffer = reusable_buffer(l, plan, node, last_uses);
    if (f->buffer != CMDQ_LOWER_NONE) {
        cmdq_lower_buffer *shared = &plan->buffers.data[f->buffer];
        shared->last = last > shared->last ? last : shared->last;
        return;
    }
    uint64_t bytes = plan->rows * tv_graph_elements(l->graph, n->output) * f->qbits / 8;
    f->buffer = add_buffer(plan, preferred_bank(n, use), node, last, bytes);
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

/* Two banks hold weights; the scales are at their end: 32 bits for each group. */
static void add_weight_buffers(const cmdq_lowering *l, cmdq_lower_plan *plan)
{
    uint64_t scale_bytes = l->bank_bytes * 32 / (32 + l->weight_bits * l->group) / 64 * 64,
             weight_bytes = (l->bank_bytes - scale_bytes) / 64 * 64;
    for (unsigned slot = 0; slot < CMDQ_LOWER_SLOTS; slot++) {
        plan->weights[slot] = add_buffer(plan, CMDQ_LOWER_BANK_WEIGHTS + slot, 0, UINT32_MAX, weight_bytes);
        plan->scales[slot] = add_buffer(plan, CMDQ_LOWER_BANK_WEIGHTS + slot, 0, UINT32_MAX, scale_bytes);
        if (!plan->buffers.failed)
            TV_VEC_LAST(&plan->buffers)->offset = weight_bytes;
    }
}

/* True when the parts of a product fit a bank of weights: one tile of the output for each tile of the input. */
static bool product_fits(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n)
{
    const cmdq_lower_format *in = &plan->formats[n->inputs[0]], *out = &plan->formats[n->output];
    uint32_t columns = plan->rows == 1 ? tv_graph_columns(l->graph, n->inputs[0]) : in->tile,
             rows = plan->rows == 1 || cmdq_lower_is_classifier(l, n) ? 1 : out->tile;
    return cmdq_lower_tile_rows(l, plan, columns) >= rows &&
           (plan->rows == 1 || (columns % l->group == 0 && (n->op != TV_OP_GLU || out->tile % l->group == 0)));
}

static bool products_fit(const cmdq_lowering *l, const cmdq_lower_plan *plan)
{
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        if ((n->op == TV_OP_LINEAR || n->op == TV_OP_GLU) && !product_fits(l, plan, n))
            return false;
        /* a row that is normalized, or added, is in one piece */
        if (plan->rows > 1 && n->op == TV_OP_NORM &&
            plan->formats[n->inputs[0]].tile != tv_graph_columns(l->graph, n->output) / n->attrs.groups)
            return false;
    }
    return true;
}

/* Operators that work on several tokens at once. */
static bool has_batches(const tv_graph *g)
{
    for (size_t i = 0; i < g->nodes.count; i++)
        switch (g->nodes.data[i].op) {
        case TV_OP_GATHER:
        case TV_OP_NORM:
        case TV_OP_LINEAR:
        case TV_OP_GLU:
        case TV_OP_ROTARY_EMBEDDING:
        case TV_OP_ATTENTION:
        case TV_OP_ADD:
        case TV_OP_SWISH:
        case TV_OP_GELU:
            break;
        default: /* one token at a time */
            return false;
        }
    return true;
}

void cmdq_lower_plan_fini(cmdq_lower_plan *plan)
{
    for (size_t i = 0; i < plan->buffers.count; i++)
        TV_VEC_FINI(&plan->buffers.data[i].readers);
    TV_VEC_FINI(&plan->buffers);
    free(plan->formats);
    free(plan->scratch);
    *plan = (cmdq_lower_plan){0};
}

/* One attempt, with plan->rows and plan->hidden_tile. TV_ERR_INPUT: it does not fit; nothing is reported. */
static tv_status make_plan(const cmdq_lowering *l, cmdq_lower_plan *plan, const value_use *uses,
                           const uint32_t *last_uses)
{
    const tv_graph *g = l->graph;
    plan->formats = calloc(g->values.count + 1, sizeof *plan->formats);
    plan->scratch = calloc(g->nodes.count + 1, sizeof *plan->scratch);
    if (!plan->formats || !plan->scratch)
        return TV_ERR_MEMORY;
    add_weight_buffers(l, plan);
    for (uint32_t i = 0; i < l->window_count; i++)
        plan->masks[i] = add_buffer(plan, CMDQ_LOWER_BANK_HIDDEN, 0, UINT32_MAX,
                                    plan->rows == 1 ? 0 : (uint64_t)plan->rows * l->context * 4);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        add_value_buffer(l, plan, i, &uses[g->nodes.data[i].output], last_uses);
        add_scratch(l, plan, i);
    }
    if (plan->buffers.failed)
        return TV_ERR_MEMORY;
    uint32_t *indices = malloc(plan->buffers.count * sizeof *indices);
    if (!indices)
        return TV_ERR_MEMORY;
    bool fits = products_fit(l, plan) && allocate_buffers(l, plan, indices);
    free(indices);
    return fits ? TV_OK : TV_ERR_INPUT;
}

/* Maximizes the tokens per step, then the hidden columns per tile. */
static tv_status choose_plan(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t rows_max, uint32_t tile_max,
                             const value_use *uses, const uint32_t *last_uses)
{
    tv_status status = TV_ERR_INPUT;
    for (uint32_t rows = rows_max; rows > 0 && status == TV_ERR_INPUT; rows /= 2)
        for (uint32_t tile = tile_max; tile >= CMDQ_LOWER_TILE_MIN && status == TV_ERR_INPUT; tile /= 2) {
            *plan = (cmdq_lower_plan){.rows = rows, .hidden_tile = tile};
            status = make_plan(l, plan, uses, last_uses);
            if (status != TV_OK)
                cmdq_lower_plan_fini(plan);
        }
    return status;
}

/* ---- The graph ---- */

static tv_status check_operators(const cmdq_lowering *l, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        const char *problem = NULL;
        if (!cmdq_lower_emitters[n->op])
            problem = "such instructions";
        else if (n->op == TV_OP_ROTARY_EMBEDDING &&
                 (n->inputs[1] != TV_NO_VALUE || n->attrs.frequency_scale != 1 ||
                  n->attrs.rotary_dim * n->attrs.heads != tv_graph_columns(l->graph, n->output)))
            problem = "rotation of a part of each head, or with scaled frequencies";
        else if (n->op == TV_OP_ADD && tv_graph_value_at(l->graph, n->inputs[1])->source != TV_VALUE_COMPUTED)
            problem = "sum with a constant";
        else if (n->op == TV_OP_ATTENTION && n->attrs.soft_cap != 0)
            problem = "soft cap of scores";
        if (problem)
            return tv_backend_reject(l->graph, n, "cmdq", problem, sink);
    }
    return TV_OK;
}

static tv_status find_windows(cmdq_lowering *l, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        uint32_t k = 0;
        if (n->op != TV_OP_ATTENTION)
            continue;
        while (k < l->window_count && l->windows[k] != n->attrs.window)
            k++;
        if (k == CMDQ_LOWER_MASKS_MAX)
            return tv_backend_reject(l->graph, n, "cmdq", "more than four different windows of attention", sink);
        if (k == l->window_count)
            l->windows[l->window_count++] = n->attrs.window;
    }
    return TV_OK;
}

/* Columns of weights that share a scale: a divisor of every matrix's columns and of every head that is multiplied. */
static tv_status choose_group(cmdq_lowering *l, const tv_diag_sink *sink)
{
    l->group = 32;
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        if (n->op != TV_OP_LINEAR && n->op != TV_OP_GLU)
            continue;
        uint32_t columns = tv_graph_columns(l->graph, n->inputs[0]),
                 producer = tv_graph_value_at(l->graph, n->inputs[0])->producer;
        const tv_graph_node *input = tv_graph_node_at(l->graph, producer);
        while (columns % l->group || (input->op == TV_OP_ATTENTION && columns / input->attrs.heads % l->group))
            l->group /= 2;
        if (l->group < 2)
            return tv_backend_reject(l->graph, n, "cmdq", "products of an odd number of columns or of odd heads", sink);
    }
    return TV_OK;
}

tv_status cmdq_lower_plan_memory(cmdq_lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
{
    TV_TRY(check_operators(l, sink));
    TV_TRY(find_windows(l, sink));
    TV_TRY(choose_group(l, sink));
    if (tv_backend_parameter(options->config, "spm.banks") < CMDQ_LOWER_BANKS)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "make spm.banks larger with -D",
                       "the lowering requires %d SPM banks", CMDQ_LOWER_BANKS);
    value_use *uses = find_uses(l->graph);
    uint32_t *last_uses = tv_graph_last_uses(l->graph, false);
    tv_status status = uses && last_uses ? TV_OK : TV_ERR_MEMORY;
    if (status == TV_OK)
        status = choose_plan(l, &l->plans[0], 1, 1 << 20, uses, last_uses);
    if (status == TV_OK && has_batches(l->graph))
        status = choose_plan(l, &l->plans[1], CMDQ_LOWER_ROWS_MAX, CMDQ_LOWER_TILE_MAX, uses, last_uses);
    if (status == TV_ERR_INPUT && l->plans[0].rows) /* no batches, then */
        status = TV_OK;
    free(uses);
    free(last_uses);
    if (status == TV_ERR_MEMORY)
        return tv_fail_memory(sink);
    if (status != TV_OK)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       "make spm.bank_bytes larger with -D, or the context smaller",
                       "the model's activations and cache do not fit the SPM banks");
    return TV_OK;
}
