/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a batch, head by head: the lanes of scores are tokens, and there is a vector for each key. */
#include "lower/opennpu/batch.h"
#include "lower/opennpu/functions.h"

/* Rotates the pair of channels at `first` and K/2 vectors after it into VR 2 and 7. */
static void emit_rope(opennpu_lower_batch *b, uint32_t angles, uint64_t first, uint32_t pair)
{
    opennpu_lower_emitter *e = b->e;
    uint64_t second = first + b->m->k / 2 * b->vector, width = (uint64_t)(b->m->context + b->m->k) * 4;
    if (angles == OPENNPU_LOWER_NONE) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, first);
        opennpu_lower_load(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, second);
        return;
    }
    uint64_t cos_sin = b->m->angles[angles].pair_cos_sin + pair * 2 * width + (uint64_t)b->position * 4;
    opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, first);
    opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W, cos_sin + width);
    opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_X, second);
    opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, cos_sin);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 0, 3);
    opennpu_lower_emit_fma(e, OPENNPU_VFMA, 7, 1, 2, 7);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 0, 2);
    opennpu_lower_emit_fma(e, OPENNPU_VNFMA, 2, 1, 3, 2);
}

/* The channels before the rotation, which happens here. */
static uint64_t unrotated(const opennpu_lower_batch *b, uint32_t value)
{
    const tv_graph_node *n = tv_graph_node_at(b->m->graph, tv_graph_value_at(b->m->graph, value)->producer);
    return opennpu_lower_batch_value(b, n->op == TV_OP_ROTARY_EMBEDDING ? n->inputs[0] : value)->batch;
}

static void emit_query_planes(opennpu_lower_batch *b, const tv_graph_node *n)
{
    const opennpu_lower_model *s = b->m;
    uint64_t queries = unrotated(b, n->inputs[0]);
    uint32_t half = s->head_dim / 2, k = b->m->k;
    opennpu_lower_set(b->e, 6, OPENNPU_CONST_BYTE_HALF);
    for (uint32_t h = 0; h < s->heads; h++)
        for (uint32_t i = 0; i < half; i++) {
            uint64_t at = queries + opennpu_lower_rope_lane(b->m, h, i) * b->vector,
                     planes = b->m->q_planes + ((uint64_t)h * s->head_dim + i) * 2 * k;
            emit_rope(b, opennpu_lower_node_of(b->m, n)->angles, at, i);
            opennpu_lower_batch_store_planes(b, true, 2, 6, planes);
            opennpu_lower_batch_store_planes(b, true, 7, 6, planes + (uint64_t)half * 2 * k);
        }
}

/* The lanes are positions, as in the KV cache. */
static void emit_keys(opennpu_lower_batch *b, const tv_graph_node *n)
{
    const opennpu_lower_model *s = b->m;
    uint64_t from = unrotated(b, n->inputs[1]);
    uint32_t half = s->head_dim / 2, k = b->m->k;
    for (uint32_t h = 0; h < s->kv_heads; h++)
        for (uint32_t i = 0; i < half; i++) {
            uint64_t at = from + opennpu_lower_rope_lane(b->m, h, i) * b->vector;
            uint64_t keys = opennpu_lower_key_block_addr(b->m, n->attrs.cache, h, b->position / k) + (uint64_t)i * k;
            emit_rope(b, opennpu_lower_node_of(b->m, n)->angles, at, i);
            opennpu_lower_emit(b->e, OPENNPU_VCVT_S8_F32, opennpu_lower_reg(0, OPENNPU_VX), 2, 0);
            opennpu_lower_emit(b->e, OPENNPU_VCVT_S8_F32, opennpu_lower_reg(1, OPENNPU_VX), 7, 0);
            opennpu_lower_store(b->e, OPENNPU_VX, opennpu_lower_reg(0, OPENNPU_VX), OPENNPU_LOWER_VR_W, keys);
            opennpu_lower_store(b->e, OPENNPU_VX, opennpu_lower_reg(1, OPENNPU_VX), OPENNPU_LOWER_VR_W,
                                keys + (uint64_t)half * k);
        }
}

/* The first key that a token of the batch sees. */
static uint32_t first_key(const opennpu_lower_batch *b, const tv_graph_node *n)
{
    uint32_t window = n->attrs.window;
    return window && b->position >= window ? b->position + 1 - window : 0;
}

/* Tokens, from the first on, whose window reaches back to key `key`; K: all. */
static uint32_t tokens_in_window(const opennpu_lower_batch *b, uint32_t window, uint32_t key)
{
    uint64_t end = (uint64_t)key + window;
    if (!window || end >= b->position + b->m->k)
        return b->m->k;
    return end > b->position ? (uint32_t)(end - b->position) : 0;
}

/* Limits VR 7, scores of key `key`: those of tokens before it, in the block of the tokens' own positions, and of tokens
 * whose window begins after it. Addresses use VR 2. */
static void mask_scores(opennpu_lower_batch *b, uint32_t window, uint32_t key)
{
    uint32_t k = b->m->k, within = tokens_in_window(b, window, key);
    if (key >= b->position) {
        opennpu_lower_load(b->e, OPENNPU_VR, 0, 2, b->m->causal_mask + b->vector - (uint64_t)(key - b->position) * 4);
        opennpu_lower_emit_vr(b->e, OPENNPU_VMIN, 7, 7, 0);
    }
    if (within < k) {
        opennpu_lower_load(b->e, OPENNPU_VR, 0, 2, b->m->score_limits + (uint64_t)(k - within) * 4);
        opennpu_lower_emit_vr(b->e, OPENNPU_VMIN, 7, 7, 0);
    }
}

/* Scores of one key with all tokens. */
static void store_scores(opennpu_lower_batch *b, const opennpu_lower_column_job *job, uint32_t c)
{
    if (!job->capped)
        mask_scores(b, job->window, job->first + c);
    opennpu_lower_store(b->e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, job->out + c * b->vector);
}

static void emit_scores(opennpu_lower_batch *b, const tv_graph_node *n, uint32_t head)
{
    const opennpu_lower_model *s = b->m;
    uint32_t k = b->m->k, own = b->position / k;
    for (uint32_t block = first_key(b, n) / k; block <= own; block++) {
        uint64_t keys = opennpu_lower_key_block_addr(b->m, n->attrs.cache, head / (s->heads / s->kv_heads), block),
                 q = b->m->q_planes + (uint64_t)head * s->head_dim * 2 * k;
        for (uint32_t i = 0; i < s->head_dim; i++)
            b->list[i] =
                (opennpu_lower_product){keys + (uint64_t)i * k, q + (uint64_t)i * 2 * k, i, 0, 0, OPENNPU_VX, 1, true};
        opennpu_lower_batch_multiply(
            b, s->head_dim,
            &(opennpu_lower_column_job){.count = block == own ? b->rows : k,
                                        .consume = store_scores,
                                        .first = block * k,
                                        .window = n->attrs.window,
                                        .capped = n->attrs.soft_cap > 0,
                                        .out = b->m->batch_scores + (uint64_t)block * k * b->vector,
                                        .integers = true});
    }
}

/* cap * tanh(score / cap), as integers in units of cap / CAPPED_ONE, then masked. */
static void emit_soft_cap(opennpu_lower_batch *b, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = b->e;
    uint32_t first = first_key(b, n), count = b->position + b->rows - first;
    uint64_t scores = b->m->batch_scores + first * b->vector;
    opennpu_lower_scores_to_floats(e, scores, count, opennpu_lower_node_of(b->m, n)->cap_scale);
    opennpu_lower_apply(e, OPENNPU_FUNCTION_TANH,
                        &(opennpu_lower_apply_job){.x = scores, .out = scores, .vectors = count});
    opennpu_lower_set(e, 1, tv_f32_bits(OPENNPU_LOWER_CAPPED_ONE));
    for (uint32_t t = 0; t < count; t++) {
        opennpu_lower_load(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, scores + t * b->vector);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 7, 1);
        opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 7, 7, 0);
        mask_scores(b, n->attrs.window, first + t);
        opennpu_lower_store(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, scores + t * b->vector);
    }
}

/* VR 0 = the maximum of each token's scores. */
static void emit_max_scores(opennpu_lower_batch *b, uint32_t first, uint32_t keys)
{
    opennpu_lower_load(b->e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, b->m->batch_scores + first * b->vector);
    for (uint32_t t = first + 1; t < keys; t++) {
        unsigned reg = 1 + (t - first) % 3;
        opennpu_lower_load(b->e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, b->m->batch_scores + t * b->vector);
        opennpu_lower_emit_vr(b->e, OPENNPU_VMAX, 0, 0, reg);
    }
}

static void emit_softmax(opennpu_lower_batch *b, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = b->e;
    uint32_t first = first_key(b, n), keys = b->position + b->rows;
    emit_max_scores(b, first, keys);
    opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, b->m->batch_max);
    for (uint32_t t = first; t < keys; t += 2) {
        unsigned count = keys - t < 2 ? 1 : 2;
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_load(e, OPENNPU_VR, opennpu_lower_arg[v], OPENNPU_LOWER_VR_X,
                               b->m->batch_scores + (t + v) * b->vector);
        opennpu_lower_each_vector(e, count, OPENNPU_VSUB, opennpu_lower_arg, opennpu_lower_arg, b->m->batch_max);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, opennpu_lower_arg[v], opennpu_lower_arg[v], 0);
        opennpu_lower_each_const(e, count, OPENNPU_VFMUL, opennpu_lower_arg, opennpu_lower_arg,
                                 opennpu_lower_node_of(b->m, n)->score_scale);
        opennpu_lower_each_const(e, count, OPENNPU_VFMAX, opennpu_lower_arg, opennpu_lower_arg,
                                 OPENNPU_CONST_SIGN | OPENNPU_CONST_F_126);
        opennpu_lower_exp2(e, count);
        opennpu_lower_each_const(e, count, OPENNPU_VFMUL, opennpu_lower_res, opennpu_lower_res, OPENNPU_CONST_F_32000);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, opennpu_lower_res[v], opennpu_lower_res[v], 0);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_store(e, OPENNPU_VR, opennpu_lower_res[v], OPENNPU_LOWER_VR_X,
                                b->m->batch_scores + (t + v) * b->vector);
    }
}

/* Stores the probabilities as planes, and the reciprocal of their sums in units of the output. */
static void emit_prob_planes(opennpu_lower_batch *b, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = b->e;
    opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
    opennpu_lower_emit_vr(e, OPENNPU_VXOR, 7, 7, 7);
    for (uint32_t t = first_key(b, n); t < b->position + b->rows; t++) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, b->m->batch_scores + t * b->vector);
        opennpu_lower_emit_vr(e, OPENNPU_VADD, 7, 7, 2);
        opennpu_lower_batch_store_planes(b, false, 2, 6, b->m->prob_planes + (uint64_t)t * 2 * b->m->k);
    }
    opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, opennpu_lower_arg[0], 7, 0);
    opennpu_lower_reciprocal(e, 1);
    opennpu_lower_each_const(e, 1, OPENNPU_VFMUL, opennpu_lower_res, opennpu_lower_res,
                             opennpu_lower_node_of(b->m, n)->out_scale);
    opennpu_lower_store(e, OPENNPU_VR, opennpu_lower_res[0], OPENNPU_LOWER_VR_X, b->m->batch_scale);
}

/* A channel of a head, as planes or as a vector. */
static void store_attn_out(opennpu_lower_batch *b, const opennpu_lower_column_job *job, uint32_t c)
{
    opennpu_lower_emit(b->e, OPENNPU_VFMUL, 7, 7, 0);
    if (job->out) {
        opennpu_lower_store(b->e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, job->out + (job->first + c) * b->vector);
        return;
    }
    opennpu_lower_set(b->e, 2, OPENNPU_CONST_BYTE_HALF);
    opennpu_lower_batch_store_planes(b, true, 7, 2,
                                     opennpu_lower_batch_plane_addr(b, job->planes, job->columns, job->first + c, 0));
}

static void emit_weighted_sum(opennpu_lower_batch *b, const tv_graph_node *n, uint32_t head)
{
    const opennpu_lower_model *s = b->m;
    uint32_t kv = head / (s->heads / s->kv_heads), k = b->m->k, keys = b->position + b->rows, first = first_key(b, n);
    for (uint32_t at = 0; at < s->head_dim; at += k) {
        uint64_t from = b->m->caches[n->attrs.cache].values + kv * s->head_dim + at;
        for (uint32_t t = first; t < keys; t++)
            b->list[t - first] = (opennpu_lower_product){from + (uint64_t)t * b->m->v_stride,
                                                         b->m->prob_planes + (uint64_t)t * 2 * k,
                                                         t,
                                                         0,
                                                         0,
                                                         OPENNPU_VX,
                                                         1,
                                                         true};
        opennpu_lower_batch_multiply(
            b, keys - first,
            &(opennpu_lower_column_job){.count = s->head_dim - at < k ? s->head_dim - at : k,
                                        .prefetch = opennpu_lower_batch_load_scales,
                                        .consume = store_attn_out,
                                        .scale = b->m->batch_scale,
                                        .out = opennpu_lower_batch_value(b, n->output)->batch,
                                        .planes = opennpu_lower_batch_value(b, n->output)->planes,
                                        .columns = opennpu_lower_batch_columns(b, n->output),
                                        .first = head * s->head_dim + at});
    }
}

/* Copies values that are no product to the cache, byte by byte: the lanes of a vector are tokens, and those of a row of
 * the cache are channels. */
static void emit_value_bytes(opennpu_lower_batch *b, const tv_graph_node *n)
{
    enum { COPIES = 8 };
    uint64_t from = opennpu_lower_batch_value(b, n->inputs[2])->batch,
             to = b->m->caches[n->attrs.cache].values + (uint64_t)b->position * b->m->v_stride;
    for (uint32_t c = 0; c < opennpu_lower_batch_columns(b, n->inputs[2]); c++) {
        opennpu_lower_load(b->e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, from + c * b->vector);
        opennpu_lower_emit(b->e, OPENNPU_VCVT_S8_F32, 0, 2, 0);
        opennpu_lower_store(b->e, OPENNPU_VX, 0, OPENNPU_LOWER_VR_X, b->m->bytes);
        for (uint32_t row = 0; row < b->rows; row += COPIES) {
            unsigned count = b->rows - row < COPIES ? b->rows - row : COPIES;
            for (unsigned i = 0; i < count; i++)
                opennpu_lower_access_lane0(b->e, OPENNPU_LD_B, i, OPENNPU_LOWER_VR_X, b->m->bytes + row + i);
            for (unsigned i = 0; i < count; i++)
                opennpu_lower_access_lane0(b->e, OPENNPU_ST_B, i, OPENNPU_LOWER_VR_W,
                                           to + (uint64_t)(row + i) * b->m->v_stride + c);
        }
    }
}

void opennpu_lower_batch_attention(opennpu_lower_batch *b, const tv_graph_node *n)
{
    emit_query_planes(b, n);
    if (n->inputs[1] != TV_NO_VALUE)
        emit_keys(b, n);
    if (n->inputs[1] != TV_NO_VALUE && opennpu_lower_producer(b->m->graph, n->inputs[2])->op != TV_OP_LINEAR)
        emit_value_bytes(b, n);
    for (uint32_t h = 0; h < b->m->heads; h++) {
        emit_scores(b, n, h);
        if (n->attrs.soft_cap > 0)
            emit_soft_cap(b, n);
        emit_softmax(b, n);
        emit_prob_planes(b, n);
        emit_weighted_sum(b, n, h);
    }
    if (opennpu_lower_batch_value(b, n->output)->stored)
        opennpu_lower_batch_planes(b, n->output);
}
