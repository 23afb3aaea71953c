/* SPDX-License-Identifier: Apache-2.0 */
/* Attention where the keys of all positions do not fit SPM: keys and values are loaded in blocks of positions, and each
 * token is multiplied with the positions of a block that it sees. So no masks are needed. */
#include "lower/cmdq/emit.h"

/* Query heads [first, first + count) of the KV head `kv`, whose scores are in SPM at the same time. */
typedef struct head_group {
    const tv_graph_node *node;
    uint32_t kv, first, count, dim;
    uint32_t row; /* positions for which the scratch buffers have space */
} head_group;

typedef struct position_range {
    uint32_t start, end;
} position_range;

/* Positions that a token of the step sees. */
static position_range visible(const cmdq_lowering *l, const tv_graph_node *n, uint32_t token)
{
    uint32_t end = l->position + token + 1, window = n->attrs.window;
    return (position_range){window && end > window ? end - window : 0, end};
}

static position_range intersect(position_range a, position_range b)
{
    position_range r = {a.start > b.start ? a.start : b.start, a.end < b.end ? a.end : b.end};
    r.end = r.end > r.start ? r.end : r.start;
    return r;
}

/* Row of scores or probabilities of a token and head. */
static cmdq_lower_operand row_of(const cmdq_lowering *l, const head_group *g, unsigned scratch, uint32_t token,
                                 uint32_t head)
{
    cmdq_lower_operand rows = {cmdq_lower_scratch(l, g->node, scratch), 0, scratch == CMDQ_SCRATCH_PROBS ? 16 : 32, 1};
    return cmdq_lower_skip(rows, ((uint64_t)token * g->count + head) * g->row);
}

/* Scores of all tokens with the keys of a block, or the sums of its values. */
static void multiply_block(cmdq_lowering *l, const head_group *g, uint32_t token, position_range block, bool values,
                           cmdq_lower_operand loaded)
{
    position_range all = visible(l, g->node, token), range = intersect(all, block);
    uint32_t count = range.end - range.start;
    cmdq_lower_operand wgt = cmdq_lower_skip(loaded, (uint64_t)(range.start - block.start) * g->dim);
    for (uint32_t h = 0; h < g->count && count; h++) {
        uint64_t at = (uint64_t)token * g->dim, column = (uint64_t)(g->first + h) * g->dim;
        cmdq_lower_operand in, out;
        if (values) {
            in = cmdq_lower_skip(row_of(l, g, CMDQ_SCRATCH_PROBS, token, h), range.start - all.start);
            out = cmdq_lower_skip(cmdq_lower_value(l, g->node->output, column), at);
        } else {
            in = cmdq_lower_skip(cmdq_lower_factor(l, g->node, 0, column), at);
            in.scale *= g->node->attrs.scale;
            out = cmdq_lower_skip(row_of(l, g, CMDQ_SCRATCH_SCORES, token, h), range.start - all.start);
        }
        cmdq_lower_begin_tensor(l, values ? CMDQ_TE_AV_TILE : CMDQ_TE_QKT_TILE, in, wgt, out,
                                (cmdq_lower_gemm){1, values ? g->dim : count, values ? count : g->dim, 8});
        cmdq_lower_set_scale(l, CMDQ_F_scale_wgt, cmdq_lower_cache_scale(l, g->node->attrs.cache, values ? 2 : 1));
        if (range.end == all.end) /* the last block grows */
            cmdq_lower_grow(l, values ? CMDQ_F_k : CMDQ_F_n, 1);
        if (values && range.start > all.start)
            tv_queue_builder_flag(l->builder, CMDQ_F_accumulate, true);
        if (!values && g->node->attrs.soft_cap > 0)
            tv_queue_builder_real(l->builder, CMDQ_F_soft_cap, (double)g->node->attrs.soft_cap);
        cmdq_lower_finish_entry(l);
    }
}

/* Blocks pass alternately through two buffers. */
static void multiply_positions(cmdq_lowering *l, const head_group *g, bool values)
{
    uint32_t start = visible(l, g->node, 0).start, end = l->position + l->rows,
             step = cmdq_lower_position_block(l, g->dim), slot = 0;
    for (uint32_t at = start; at < end; at += step, slot ^= 1) {
        position_range block = {at, cmdq_lower_min(at + step, end)};
        unsigned first = values ? CMDQ_SCRATCH_VALUES : CMDQ_SCRATCH_KEYS,
                 second = values ? CMDQ_SCRATCH_VALUES2 : CMDQ_SCRATCH_KEYS2;
        cmdq_lower_operand loaded = {cmdq_lower_scratch(l, g->node, slot ? second : first), 0, 8, 1};
        cmdq_lower_load_cache(l, g->node, g->kv, values, loaded.buffer,
                              (cmdq_lower_span){block.start, block.end - block.start, 0, block.end == end});
        for (uint32_t token = 0; token < l->rows; token++)
            multiply_block(l, g, token, block, values, loaded);
    }
}

static void emit_group(cmdq_lowering *l, const head_group *g)
{
    multiply_positions(l, g, false);
    for (uint32_t token = 0; token < l->rows; token++) {
        position_range range = visible(l, g->node, token);
        for (uint32_t h = 0; h < g->count; h++) {
            cmdq_lower_begin_vector(l, CMDQ_VE_SOFTMAX_TILE, row_of(l, g, CMDQ_SCRATCH_SCORES, token, h),
                                    row_of(l, g, CMDQ_SCRATCH_PROBS, token, h), 1, range.end - range.start);
            cmdq_lower_grow(l, CMDQ_F_length, 1);
            cmdq_lower_finish_entry(l);
        }
    }
    multiply_positions(l, g, true);
}

/* The next position is in the last block until that is full, and in a window until its start moves. */
static void limit_growth(cmdq_lowering *l, const tv_graph_node *n, uint32_t dim)
{
    uint32_t step = cmdq_lower_position_block(l, dim), window = n->attrs.window;
    cmdq_lower_limit_growth(l, (l->position / step + 1) * step);
    if (window)
        cmdq_lower_limit_growth(l, l->position < window ? window : 0);
}

void cmdq_lower_emit_attention_blocks(cmdq_lowering *l, const tv_graph_node *n)
{
    const tv_graph_cache *cache = &l->graph->caches.data[n->attrs.cache];
    uint32_t shared = n->attrs.heads / cache->heads;
    head_group g = {.node = n,
                    .count = cmdq_lower_heads_at_once(l, l->plan, n),
                    .dim = cache->key_dim,
                    .row = cmdq_lower_positions(l, l->plan, n)};
    limit_growth(l, n, g.dim);
    for (g.kv = 0; g.kv < cache->heads; g.kv++)
        for (uint32_t h = 0; h < shared; h += g.count) {
            g.first = g.kv * shared + h;
            emit_group(l, &g);
        }
}
