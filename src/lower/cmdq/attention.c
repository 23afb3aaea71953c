/* SPDX-License-Identifier: Apache-2.0 */
/* Rotation and attention. Keys and values go to the KV cache in DRAM and return head by head. */
#include "lower/cmdq/emit.h"

/* ---- Tokens and positions ---- */

/* Tokens of a step whose scores fit the buffer. All use the kv_len of the last. */
typedef struct token_tile {
    uint32_t first, count;
} token_tile;

static token_tile token_tile_at(const cmdq_lowering *l, uint32_t first)
{
    return (token_tile){first, l->rows - first < CMDQ_LOWER_MASK_ROWS ? l->rows - first : CMDQ_LOWER_MASK_ROWS};
}

/* Positions that the tokens of a tile see: from `start`, which is the same for all tiles of a step. */
static uint32_t window_start(const cmdq_lowering *l, uint32_t window)
{
    return window && l->position >= window ? l->position + 1 - window : 0;
}

/* What kv_len grows by with the position of a single token: when the window is full, its start moves instead. */
static int64_t len_growth(const cmdq_lowering *l, uint32_t window) { return !window || l->position < window; }

static uint32_t kv_len(const cmdq_lowering *l, token_tile r, uint32_t window)
{
    return l->position + r.first + r.count - window_start(l, window);
}

static unsigned mask_index(const cmdq_lowering *l, uint32_t window)
{
    unsigned i = 0;
    while (l->windows[i] != window)
        i++;
    return i;
}

static cmdq_lower_operand mask_operand(const cmdq_lowering *l, token_tile r, uint32_t window)
{
    cmdq_lower_operand mask = cmdq_lower_f32(l->plan->masks[mask_index(l, window)]);
    mask.offset = (uint64_t)r.first * l->context * 4;
    return mask;
}

/* The causal mask of each tile of tokens, for each window. */
void cmdq_lower_load_masks(cmdq_lowering *l)
{
    for (unsigned i = 0; i < l->window_count && l->rows > 1 && !l->plan->blocked; i++)
        for (uint32_t first = 0; first < l->rows; first += CMDQ_LOWER_MASK_ROWS) {
            token_tile r = token_tile_at(l, first);
            uint32_t column = l->context - l->position - first + window_start(l, l->windows[i]);
            cmdq_lower_load(l, mask_operand(l, r, l->windows[i]), "activation", l->masks_addr[i] + (uint64_t)column * 4,
                            r.count, kv_len(l, r, l->windows[i]), (uint64_t)cmdq_lower_mask_columns(l) * 4);
        }
}

/* ---- Rotation ---- */

/* Heads are [heads][rows][head_dim]; with one token all heads are a single row. */
void cmdq_lower_emit_rope(cmdq_lowering *l, const tv_graph_node *n)
{
    uint32_t heads = n->attrs.heads, d = (uint32_t)(tv_graph_elements(l->graph, n->output) / heads),
             calls = l->rows == 1 ? 1 : heads, factors = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_VECTOR);
    if (factors != CMDQ_LOWER_NONE)
        cmdq_lower_load_vector(l, n, 1, factors);
    for (uint32_t h = 0; h < calls; h++) {
        cmdq_lower_begin_vector(l, CMDQ_VE_ROPE_TILE, cmdq_lower_input(l, n, 0, (uint64_t)h * d),
                                cmdq_lower_value(l, n->output, (uint64_t)h * d), l->rows,
                                calls == 1 ? (uint64_t)heads * d : d);
        cmdq_lower_set_integer(l, CMDQ_F_head_dim, d);
        cmdq_lower_set_integer(l, CMDQ_F_position, l->position);
        cmdq_lower_grow(l, CMDQ_F_position, 1);
        tv_queue_builder_real(l->builder, CMDQ_F_theta, (double)n->attrs.theta);
        if (!n->attrs.interleaved)
            tv_queue_builder_text(l->builder, CMDQ_F_pairing, "half");
        if (n->attrs.rotary_dim != d)
            cmdq_lower_set_integer(l, CMDQ_F_rotary_dim, n->attrs.rotary_dim);
        cmdq_lower_set_scale(l, CMDQ_F_frequency_scale, n->attrs.frequency_scale);
        if (factors != CMDQ_LOWER_NONE) {
            cmdq_lower_set_address(l, CMDQ_F_factors_bank, factors, 0);
            cmdq_lower_add_read(l, factors);
        }
        cmdq_lower_finish_entry(l);
    }
}

/* ---- The KV cache ---- */

/* All positions that the tokens of the step see. */
static void load_kv(cmdq_lowering *l, const tv_graph_node *n, uint32_t head, bool v)
{
    uint32_t start = window_start(l, n->attrs.window);
    int64_t growth = len_growth(l, n->attrs.window);
    cmdq_lower_load_cache(l, n, head, v, cmdq_lower_scratch(l, n, v ? CMDQ_SCRATCH_VALUES : CMDQ_SCRATCH_KEYS),
                          (cmdq_lower_span){start, l->position + l->rows - start, 1 - growth, growth});
}

/* ---- Scores ---- */

/* Where the scores of number `h` of the heads that share keys begin, in elements: after those of the heads before it,
 * so that it grows with their length. */
static int64_t head_growth(const cmdq_lowering *l, const tv_graph_node *n, uint32_t h)
{
    return (int64_t)h * len_growth(l, n->attrs.window);
}

/* Scores of one head, number `h` of those that share keys; with several tokens, the causal mask is added. */
static void emit_scores(cmdq_lowering *l, const tv_graph_node *n, uint32_t head, uint32_t h, token_tile r,
                        cmdq_lower_operand out)
{
    uint32_t d = l->graph->caches.data[n->attrs.cache].key_dim, t = kv_len(l, r, n->attrs.window);
    cmdq_lower_operand in = cmdq_lower_skip(cmdq_lower_factor(l, n, 0, (uint64_t)head * d), (uint64_t)r.first * d);
    in.scale *= n->attrs.scale;
    cmdq_lower_begin_tensor(l, CMDQ_TE_QKT_TILE, in, cmdq_lower_f32(cmdq_lower_scratch(l, n, CMDQ_SCRATCH_KEYS)), out,
                            (cmdq_lower_gemm){r.count, t, d, 8});
    cmdq_lower_grow(l, CMDQ_F_n, len_growth(l, n->attrs.window));
    cmdq_lower_grow(l, CMDQ_F_ofm_offset, 4 * head_growth(l, n, h));
    cmdq_lower_set_scale(l, CMDQ_F_scale_wgt, cmdq_lower_cache_scale(l, n->attrs.cache, 1));
    if (n->attrs.soft_cap > 0)
        tv_queue_builder_real(l->builder, CMDQ_F_soft_cap, (double)n->attrs.soft_cap);
    cmdq_lower_finish_entry(l);
    if (l->rows > 1) {
        cmdq_lower_operand mask = mask_operand(l, r, n->attrs.window);
        cmdq_lower_elementwise(l, CMDQ_VE_ADD_TILE, out, &mask, out, (uint64_t)r.count * t);
    }
}

/* The query heads that share head `kv` of the KV cache, which is in SPM. */
static void emit_kv_head(cmdq_lowering *l, const tv_graph_node *n, uint32_t kv, token_tile r)
{
    const tv_graph_cache *cache = &l->graph->caches.data[n->attrs.cache];
    uint32_t shared = n->attrs.heads / cache->heads, t = kv_len(l, r, n->attrs.window), d = cache->value_dim,
             scores = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_SCORES),
             probs = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_PROBS);
    for (uint32_t h = 0; h < shared; h++)
        emit_scores(l, n, kv * shared + h, h, r, (cmdq_lower_operand){scores, (uint64_t)h * r.count * t * 4, 32, 1});
    cmdq_lower_begin_vector(l, CMDQ_VE_SOFTMAX_TILE, cmdq_lower_f32(scores), (cmdq_lower_operand){probs, 0, 16, 1},
                            (uint64_t)shared * r.count, t);
    cmdq_lower_grow(l, CMDQ_F_length, len_growth(l, n->attrs.window));
    cmdq_lower_finish_entry(l);
    for (uint32_t h = 0; h < shared; h++) {
        cmdq_lower_operand in = {probs, (uint64_t)h * r.count * t * 2, 16, 1},
                           out = cmdq_lower_value(l, n->output, (uint64_t)(kv * shared + h) * d);
        out = cmdq_lower_skip(out, (uint64_t)r.first * d);
        cmdq_lower_begin_tensor(l, CMDQ_TE_AV_TILE, in, cmdq_lower_f32(cmdq_lower_scratch(l, n, CMDQ_SCRATCH_VALUES)),
                                out, (cmdq_lower_gemm){r.count, d, t, 8});
        cmdq_lower_grow(l, CMDQ_F_k, len_growth(l, n->attrs.window));
        cmdq_lower_grow(l, CMDQ_F_ifm_offset, 2 * head_growth(l, n, h));
        cmdq_lower_set_scale(l, CMDQ_F_scale_wgt, cmdq_lower_cache_scale(l, n->attrs.cache, 2));
        cmdq_lower_finish_entry(l);
    }
}

/* The KV cache is loaded head by head. */
void cmdq_lower_emit_attention(cmdq_lowering *l, const tv_graph_node *n)
{
    if (cmdq_lower_has_input(n, 1))
        cmdq_lower_append_cache(l, n);
    if (l->plan->blocked) {
        cmdq_lower_emit_attention_blocks(l, n);
        return;
    }
    if (n->attrs.window && l->position < n->attrs.window)
        cmdq_lower_limit_growth(l, n->attrs.window);
    for (uint32_t kv = 0; kv < l->graph->caches.data[n->attrs.cache].heads; kv++) {
        load_kv(l, n, kv, false);
        load_kv(l, n, kv, true);
        for (uint32_t first = 0; first < l->rows; first += CMDQ_LOWER_MASK_ROWS)
            emit_kv_head(l, n, kv, token_tile_at(l, first));
    }
}
