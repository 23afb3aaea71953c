/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers Attention. */
#include "lower/pccx/state.h"

static tv_status append_kv(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    const tv_graph_cache *c = &l->graph->caches.data[n->attrs.cache];
    uint32_t keys = l->rows * c->heads * c->key_dim, values = l->rows * c->heads * c->value_dim;
    pccx_lower_store(l, l->map.value, pccx_lower_row_addr(l, n->inputs[2], 0), values);
    pccx_lower_store(l, l->map.key, pccx_lower_row_addr(l, n->inputs[1], 0), keys);
    TV_TRY(pccx_lower_end_program(l, PCCX_LOWER_PACK_KEYS, keys, sink));
    l->host_ops[PCCX_LOWER_PACK_VALUES].count++;
    l->host_ops[PCCX_LOWER_PACK_VALUES].elements += values;
    return pccx_lower_append_kv(l, n->attrs.cache, sink);
}

/* Buffers of one head of one row. */
typedef struct head_buffers {
    uint32_t query, scores, exps, unnormalized, attn_out; /* `unnormalized` starts with the sum */
    uint32_t reciprocals;                                 /* with a soft cap: a scalar comes first */
    uint32_t value_dim, cut;                              /* cut: leading positions of the span that are not seen */
    pccx_lower_span span;
} head_buffers;

/* A factor of the scores that is no factor of weights multiplies the queries. */
static uint32_t queries_addr(const pccx_lowering *l, const tv_graph_node *n)
{
    return pccx_lower_fold_of(l, n)->factor == 1 ? pccx_lower_row_addr(l, n->inputs[0], 0)
                                                 : pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_QUERY);
}

static head_buffers head_buffers_of(const pccx_lowering *l, const tv_graph_node *n, uint32_t i)
{
    const tv_graph_cache *c = &l->graph->caches.data[n->attrs.cache];
    uint32_t key_words = pccx_lower_l2_size(c->key_dim), value_words = pccx_lower_l2_size(c->value_dim),
             buffer = i % 2 * pccx_lower_l2_size(l->context), position = l->position + i / n->attrs.heads,
             start = n->attrs.window && position >= n->attrs.window ? position + 1 - n->attrs.window : 0,
             first = start / PCCX_LOWER_BLOCK * PCCX_LOWER_BLOCK;
    return (head_buffers){
        .query = queries_addr(l, n) + i * key_words,
        .scores = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_SCORES) + buffer,
        .exps = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_EXPS) + buffer,
        .unnormalized = pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_UNNORMALIZED) + i * (value_words + 1),
        .reciprocals =
            pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_RECIPROCALS) + i % 2 * (1 + pccx_lower_l2_size(l->context)),
        .attn_out = pccx_lower_row_addr(l, n->output, 0) + i * value_words,
        .value_dim = c->value_dim,
        .cut = start - first,
        .span = {n->attrs.cache, i % n->attrs.heads / (n->attrs.heads / c->heads), first, position + 1 - first}};
}

/* scores = cap * tanh(scores / 2) = 1 / (1 / cap + 2 / cap / e) with e = exp(scores) - 1: 2 / cap is part of the scale
 * of the scores. */
static void emit_soft_cap(pccx_lowering *l, const tv_graph_node *n, const head_buffers *p)
{
    uint32_t e = p->exps, count = p->span.count;
    pccx_lower_move(l, e, l->plan.minus_ones, count);
    pccx_lower_cvo(l, PCCX_CVO_EXP, e, p->scores, count, PCCX_LOWER_ACCM);
    pccx_lower_move(l, p->reciprocals, pccx_lower_scalar(l, n, 0), 1);
    pccx_lower_cvo(l, PCCX_CVO_RECIP, p->reciprocals + 1, e, count, 0);
    pccx_lower_move(l, e, pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_CAP), count);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, e, p->reciprocals, count, PCCX_LOWER_ACCM);
    pccx_lower_cvo(l, PCCX_CVO_RECIP, p->scores, e, count, 0);
}

/* Scores and their exponentials. The scale of the scores is part of the weights of the query. Positions before the
 * window count as zeros. Exponentials of capped scores are finite without subtraction of the max. */
static void emit_scores(pccx_lowering *l, const tv_graph_node *n, const head_buffers *p)
{
    bool capped = n->attrs.soft_cap > 0;
    pccx_lower_scores(l, p->scores, p->query, p->span, !capped);
    if (capped)
        emit_soft_cap(l, n, p);
    pccx_lower_cvo(l, PCCX_CVO_EXP, p->exps, p->scores, p->span.count, capped ? 0 : PCCX_LOWER_SUB_EMAX);
    if (p->cut)
        pccx_lower_multiply(l, p->exps, p->exps, l->map.cuts + (uint64_t)p->cut * PCCX_LOWER_BLOCK * 2, l->map.identity,
                            PCCX_LOWER_BLOCK, false, false);
}

static void emit_weighted_sum(pccx_lowering *l, const head_buffers *p)
{
    pccx_lower_cvo(l, PCCX_CVO_REDUCE_SUM, p->unnormalized, p->exps, p->span.count, 0);
    pccx_lower_weighted_sum(l, p->unnormalized + 1, p->exps, p->span);
}

/* While the SFU processes one head, GEMV processes the next. The softmax's division follows the weighted sum, which has
 * fewer elements. */
tv_status pccx_lower_attention(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t count = l->rows * n->attrs.heads;
    if (pccx_lower_has_input(n, 1))
        TV_TRY(append_kv(l, n, sink));
    if (pccx_lower_fold_of(l, n)->factor != 1)
        pccx_lower_scale(l, pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_QUERY), pccx_lower_row_addr(l, n->inputs[0], 0),
                         pccx_lower_scalar(l, n, 2), l->rows * pccx_lower_columns(l, n->inputs[0]), 0);
    if (n->attrs.soft_cap > 0)
        pccx_lower_scale(l, pccx_lower_scratch_addr(l, n, PCCX_SCRATCH_CAP), l->plan.ones, pccx_lower_scalar(l, n, 1),
                         l->context, 0);
    for (uint32_t i = 0; i < count + 2; i++) {
        head_buffers p;
        if (i < count) {
            p = head_buffers_of(l, n, i);
            emit_scores(l, n, &p);
        }
        if (i > 0 && i <= count) {
            p = head_buffers_of(l, n, i - 1);
            emit_weighted_sum(l, &p);
        }
        if (i > 1) {
            p = head_buffers_of(l, n, i - 2);
            pccx_lower_cvo(l, PCCX_CVO_SCALE, p.attn_out, p.unnormalized, p.value_dim, PCCX_LOWER_RECIP_SCALE);
        }
    }
    return TV_OK;
}
