/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of one token: rotation, the cache, scores, softmax, the weighted sum of values. */
#include "lower/opennpu/functions.h"
#include "lower/opennpu/token.h"

/* VR 2 = the rotated chunk: x * cos + swap(x) * sin, where swap exchanges the halves of the lanes by way of memory. */
static void emit_rope(opennpu_lower_token *tok, const tv_graph_node *n, uint64_t at, uint32_t chunk)
{
    opennpu_lower_emitter *e = tok->e;
    uint32_t angles = opennpu_lower_node_of(tok->m, n)->angles;
    uint64_t vector = opennpu_lower_vector_bytes(tok->m);
    if (angles == OPENNPU_LOWER_NONE) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, at);
        return;
    }
    uint64_t cos_sin = tok->m->angles[angles].cos_sin +
                       ((uint64_t)tok->position * tok->m->rope_period + chunk % tok->m->rope_period) * 2 * vector;
    opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, at);
    opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, e->swap);
    opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, e->swap + vector);
    opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_X, e->swap + vector / 2);
    opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, cos_sin);
    opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W, cos_sin + vector);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 2);
    opennpu_lower_emit_fma(e, OPENNPU_VFMA, 2, 1, 3, 0);
}

static opennpu_lower_pack q_pack(const opennpu_lower_token *tok, uint32_t chunk)
{
    return (opennpu_lower_pack){tok->m->q_packs + chunk * opennpu_lower_pack_bytes(tok->e, OPENNPU_VX), OPENNPU_VX,
                                chunk};
}

/* The value before the rotation, which happens here. */
static uint64_t unrotated(const opennpu_lower_token *tok, uint32_t value)
{
    const tv_graph_node *n = tv_graph_node_at(tok->m->graph, tv_graph_value_at(tok->m->graph, value)->producer);
    return opennpu_lower_token_value(tok, n->op == TV_OP_ROTARY_EMBEDDING ? n->inputs[0] : value)->at;
}

static void emit_query_packs(opennpu_lower_token *tok, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = tok->e;
    uint64_t queries = unrotated(tok, n->inputs[0]);
    for (uint32_t c = 0; c < opennpu_lower_token_chunks(tok, n->inputs[0]); c++) {
        opennpu_lower_pack pack = q_pack(tok, c);
        emit_rope(tok, n, queries + c * opennpu_lower_vector_bytes(tok->m), c);
        opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
        opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 2, 2, 0);
        opennpu_lower_split_bytes(e, 0);
        opennpu_lower_store_pack(e, &pack);
    }
}

/* The lanes of a key channel are positions, so bytes are stored one by one, with eight loads before eight stores. */
static void emit_key_chunk(opennpu_lower_token *tok, uint32_t cache, uint32_t chunk)
{
    enum { BATCH = 8 };
    const opennpu_lower_model *s = tok->m;
    uint64_t to[BATCH];
    unsigned count = 0;
    for (uint32_t h = 0; h < s->kv_heads; h++)
        for (uint32_t i = 0; i < s->head_dim; i++) {
            uint32_t lane = opennpu_lower_rope_lane(tok->m, h, i);
            if (lane / tok->m->k == chunk) {
                opennpu_lower_access_lane0(tok->e, OPENNPU_LD_B, count, OPENNPU_LOWER_VR_X,
                                           tok->m->bytes + lane % tok->m->k);
                to[count++] = opennpu_lower_key_block_addr(tok->m, cache, h, tok->position / tok->m->k) +
                              (uint64_t)i * tok->m->k + tok->position % tok->m->k;
            }
            if (count == BATCH || (count && h + 1 == s->kv_heads && i + 1 == s->head_dim)) {
                for (unsigned b = 0; b < count; b++)
                    opennpu_lower_access_lane0(tok->e, OPENNPU_ST_B, b, OPENNPU_LOWER_VR_W, to[b]);
                count = 0;
            }
        }
}

static void emit_append(opennpu_lower_token *tok, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = tok->e;
    uint64_t vector = opennpu_lower_vector_bytes(tok->m), keys = unrotated(tok, n->inputs[1]),
             values = opennpu_lower_token_value(tok, n->inputs[2])->at;
    for (uint32_t c = 0; c < tok->m->kv_chunks; c++) {
        emit_rope(tok, n, keys + c * vector, c);
        opennpu_lower_emit(e, OPENNPU_VCVT_S8_F32, 0, 2, 0);
        opennpu_lower_store(e, OPENNPU_VX, 0, OPENNPU_LOWER_VR_X, tok->m->bytes);
        emit_key_chunk(tok, n->attrs.cache, c);
    }
    for (uint32_t c = 0; c < tok->m->kv_chunks; c++) {
        opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_X, values + c * vector);
        opennpu_lower_emit(e, OPENNPU_VCVT_S8_F32, 0, 1, 0);
        opennpu_lower_store(e, OPENNPU_VX, 0, OPENNPU_LOWER_VR_X,
                            tok->m->caches[n->attrs.cache].values + (uint64_t)tok->position * tok->m->v_stride +
                                c * tok->m->k);
    }
}

/* The first position that a node sees. */
static uint32_t first_position(const opennpu_lower_token *tok, const tv_graph_node *n)
{
    uint32_t window = n->attrs.window;
    return window && tok->position >= window ? tok->position + 1 - window : 0;
}

static uint32_t first_block(const opennpu_lower_token *tok, const tv_graph_node *n)
{
    return first_position(tok, n) / tok->m->k;
}

/* Blocks of positions that the node sees, in part at least. */
static uint32_t block_count(const opennpu_lower_token *tok, const tv_graph_node *n)
{
    return tok->position / tok->m->k + 1 - first_block(tok, n);
}

/* Scores of the `block`-th of these blocks. */
static uint64_t scores_addr(const opennpu_lower_token *tok, const tv_graph_node *n, uint32_t head, uint32_t block)
{
    return tok->m->scores + ((uint64_t)head * block_count(tok, n) + block) * opennpu_lower_vector_bytes(tok->m);
}

/* Limits of the scores of the `block`-th block: of positions after the token's, and of those before the window; 0:
 * none. */
static uint64_t limit_after(const opennpu_lower_token *tok, const tv_graph_node *n, uint32_t block)
{
    uint32_t valid = tok->position % tok->m->k + 1;
    return block + 1 == block_count(tok, n) ? tok->m->score_limits + (uint64_t)(tok->m->k - valid) * 4 : 0;
}

static uint64_t limit_before(const opennpu_lower_token *tok, const tv_graph_node *n, uint32_t block)
{
    uint32_t skipped = first_position(tok, n) % tok->m->k;
    return block == 0 && skipped ? tok->m->causal_mask + (uint64_t)(tok->m->k - skipped) * 4 : 0;
}

static opennpu_lower_pack prob_pack(const opennpu_lower_token *tok, uint32_t head, uint32_t block)
{
    return (opennpu_lower_pack){tok->m->prob_packs + ((uint64_t)block * tok->m->heads + head) *
                                                         opennpu_lower_pack_bytes(tok->e, OPENNPU_VX),
                                OPENNPU_VX, 0};
}

/* Sets *out to one channel of one head and block of positions, whose keys are at `keys`. */
static void set_score_product(const opennpu_lower_token *tok, uint64_t keys, uint32_t head, uint32_t channel,
                              uint32_t slot, opennpu_lower_product *out)
{
    uint32_t lane = opennpu_lower_rope_lane(tok->m, head, channel);
    opennpu_lower_pack pack = q_pack(tok, lane / tok->m->k);
    *out = (opennpu_lower_product){keys + (uint64_t)channel * tok->m->k,
                                   opennpu_lower_lane_addr(tok->e, &pack, lane % tok->m->k, slot),
                                   channel,
                                   slot,
                                   0,
                                   OPENNPU_VX,
                                   1,
                                   false};
}

typedef struct score_block {
    uint32_t head, block;
    uint64_t keys; /* address of the block's keys */
} score_block;

/* Heads that share keys are adjacent. */
static score_block score_block_at(const opennpu_lower_token *tok, const tv_graph_node *n, uint32_t i)
{
    const uint32_t blocks = block_count(tok, n), shared = tok->m->heads / tok->m->kv_heads;
    const uint32_t kv_head = i / shared / blocks, block = i / shared % blocks;
    return (score_block){kv_head * shared + i % shared, block,
                         opennpu_lower_key_block_addr(tok->m, n->attrs.cache, kv_head, first_block(tok, n) + block)};
}

/* Integer scores; the rows of the array are positions, and others than those that the token sees are masked, after the
 * soft cap if there is one. */
static void emit_scores(opennpu_lower_token *tok, const tv_graph_node *n)
{
    const opennpu_lower_model *s = tok->m;
    uint32_t all = s->heads * block_count(tok, n);
    bool capped = n->attrs.soft_cap > 0;
    for (uint32_t first = 0; first < all; first += opennpu_lower_blocks_per_drain(tok)) {
        uint32_t count =
            all - first < opennpu_lower_blocks_per_drain(tok) ? all - first : opennpu_lower_blocks_per_drain(tok);
        score_block at[OPENNPU_LOWER_PERIOD_MAX / 2];
        size_t product_count = 0;
        for (uint32_t b = 0; b < count; b++) {
            at[b] = score_block_at(tok, n, first + b);
            tok->epilogues[b] = (opennpu_lower_epilogue){.limit = capped ? 0 : limit_after(tok, n, at[b].block),
                                                         .limit_before = capped ? 0 : limit_before(tok, n, at[b].block),
                                                         .out = scores_addr(tok, n, at[b].head, at[b].block)};
        }
        for (uint32_t i = 0; i < s->head_dim; i++)
            for (uint32_t b = 0; b < count; b++)
                set_score_product(tok, at[b].keys, at[b].head, i, b, &tok->list[product_count++]);
        opennpu_lower_multiply(tok->e, tok->list, product_count, tok->epilogues, count);
    }
}

/* cap * tanh(score / cap), as integers in units of cap / CAPPED_ONE, then masked. */
static void emit_soft_cap(opennpu_lower_token *tok, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = tok->e;
    uint32_t blocks = block_count(tok, n), all = tok->m->heads * blocks;
    uint64_t scores = scores_addr(tok, n, 0, 0);
    opennpu_lower_scores_to_floats(e, scores, all, opennpu_lower_node_of(tok->m, n)->cap_scale);
    opennpu_lower_apply(e, OPENNPU_FUNCTION_TANH,
                        &(opennpu_lower_apply_job){.x = scores, .out = scores, .vectors = all});
    opennpu_lower_set(e, 2, tv_f32_bits(OPENNPU_LOWER_CAPPED_ONE));
    for (uint32_t i = 0; i < all; i++) {
        uint64_t at = scores_addr(tok, n, 0, i),
                 limits[] = {limit_after(tok, n, i % blocks), limit_before(tok, n, i % blocks)};
        opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, at);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 2);
        opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 0, 0, 0);
        for (unsigned k = 0; k < 2; k++)
            if (limits[k]) {
                opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_W, limits[k]);
                opennpu_lower_emit_vr(e, OPENNPU_VMIN, 0, 0, 1);
            }
        opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, at);
    }
}

/* Scores become exponents of two <= 0: exact integers until the maximum is subtracted. */
static void emit_exponents(opennpu_lower_token *tok, const tv_graph_node *n, uint32_t head)
{
    opennpu_lower_emitter *e = tok->e;
    opennpu_lower_set(e, 2, opennpu_lower_node_of(tok->m, n)->score_scale);
    for (uint32_t b = 0; b < block_count(tok, n); b++) {
        opennpu_lower_load(e, OPENNPU_VR, b ? 1 : 0, OPENNPU_LOWER_VR_X, scores_addr(tok, n, head, b));
        if (b)
            opennpu_lower_emit_vr(e, OPENNPU_VMAX, 0, 0, 1);
    }
    opennpu_lower_emit_vr(e, OPENNPU_VRMAX, 0, 0, 0);
    for (uint32_t b = 0; b < block_count(tok, n); b++) {
        unsigned reg = b % 2 ? 3 : 1;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, scores_addr(tok, n, head, b));
        opennpu_lower_emit_vr(e, OPENNPU_VSUB, reg, reg, 0);
        opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, reg, reg, 0);
        opennpu_lower_emit(e, OPENNPU_VFMUL, reg, reg, 2);
        opennpu_lower_store(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, scores_addr(tok, n, head, b));
    }
}

static void emit_exponentials(opennpu_lower_token *tok, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = tok->e;
    uint32_t all = tok->m->heads * block_count(tok, n);
    for (uint32_t i = 0; i < all; i += 2) {
        unsigned count = all - i < 2 ? 1 : 2;
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_load(e, OPENNPU_VR, opennpu_lower_arg[v], OPENNPU_LOWER_VR_X, scores_addr(tok, n, 0, i + v));
        opennpu_lower_each_const(e, count, OPENNPU_VFMAX, opennpu_lower_arg, opennpu_lower_arg,
                                 OPENNPU_CONST_SIGN | OPENNPU_CONST_F_126);
        opennpu_lower_exp2(e, count);
        opennpu_lower_each_const(e, count, OPENNPU_VFMUL, opennpu_lower_res, opennpu_lower_res, OPENNPU_CONST_F_32000);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, opennpu_lower_res[v], opennpu_lower_res[v], 0);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_store(e, OPENNPU_VR, opennpu_lower_res[v], OPENNPU_LOWER_VR_X, scores_addr(tok, n, 0, i + v));
    }
}

/* Probabilities are not divided by their sum; the weighted sum is, and it is scaled to units of the output. The sum is
 * that of the rounded probabilities. */
static void emit_prob_sums(opennpu_lower_token *tok, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = tok->e;
    uint32_t heads = tok->m->heads;
    for (uint32_t h = 0; h < heads; h += 2) {
        unsigned count = heads - h < 2 ? 1 : 2;
        for (unsigned v = 0; v < count; v++) {
            for (uint32_t b = 0; b < block_count(tok, n); b++) {
                opennpu_lower_load(e, OPENNPU_VR, b ? opennpu_lower_tmp[v] : opennpu_lower_arg[v], OPENNPU_LOWER_VR_X,
                                   scores_addr(tok, n, h + v, b));
                if (b)
                    opennpu_lower_emit_vr(e, OPENNPU_VADD, opennpu_lower_arg[v], opennpu_lower_arg[v],
                                          opennpu_lower_tmp[v]);
            }
            opennpu_lower_emit_vr(e, OPENNPU_VSUM, opennpu_lower_arg[v], opennpu_lower_arg[v], 0);
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, opennpu_lower_arg[v], opennpu_lower_arg[v], 0);
        }
        opennpu_lower_reciprocal(e, count);
        opennpu_lower_each_const(e, count, OPENNPU_VFMUL, opennpu_lower_res, opennpu_lower_res,
                                 opennpu_lower_node_of(tok->m, n)->out_scale);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_store(e, OPENNPU_VR, opennpu_lower_res[v], OPENNPU_LOWER_VR_X,
                                tok->m->probs_scale + (h + v) * opennpu_lower_vector_bytes(tok->m));
    }
}

static void emit_softmax(opennpu_lower_token *tok, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = tok->e;
    for (uint32_t h = 0; h < tok->m->heads; h++)
        emit_exponents(tok, n, h);
    emit_exponentials(tok, n);
    emit_prob_sums(tok, n);
    for (uint32_t h = 0; h < tok->m->heads; h++)
        for (uint32_t b = 0; b < block_count(tok, n); b++) {
            opennpu_lower_pack pack = prob_pack(tok, h, first_block(tok, n) + b);
            opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
            opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, scores_addr(tok, n, h, b));
            opennpu_lower_split_bytes(e, 0);
            opennpu_lower_store_pack(e, &pack);
        }
}

/* At most K channels of a head. */
typedef struct value_chunk {
    uint32_t head, from; /* its first channel, of the head's … */
    uint32_t value;      /* … and of a row of values */
} value_chunk;

static value_chunk value_chunk_at(const opennpu_lower_token *tok, uint32_t chunks, uint32_t i)
{
    const opennpu_lower_model *s = tok->m;
    const uint32_t head = i / chunks, from = i % chunks * s->k;
    return (value_chunk){head, from, head / (s->heads / s->kv_heads) * s->head_dim + from};
}

/* Sets `count` products: those of one position, in the slots of `chunks`. */
static void set_weighted_sum_products(const opennpu_lower_token *tok, uint32_t cache, const value_chunk *chunks,
                                      uint32_t count, uint32_t position, opennpu_lower_product *out)
{
    const uint32_t block = position / tok->m->k, lane = position % tok->m->k;
    const uint64_t row = tok->m->caches[cache].values + (uint64_t)position * tok->m->v_stride;
    for (uint32_t b = 0; b < count; b++) {
        opennpu_lower_pack pack = prob_pack(tok, chunks[b].head, block);
        out[b] = (opennpu_lower_product){row + chunks[b].value,
                                         opennpu_lower_lane_addr(tok->e, &pack, lane, b),
                                         position,
                                         b,
                                         0,
                                         OPENNPU_VX,
                                         1,
                                         false};
    }
}

/* The rows of the array are channels. The lanes of a block that exceed its head are overwritten by the next block. */
static void emit_weighted_sum(opennpu_lower_token *tok, const tv_graph_node *n)
{
    const opennpu_lower_model *s = tok->m;
    uint32_t chunks = opennpu_lower_chunks(tok->m, s->head_dim), all = s->heads * chunks;
    for (uint32_t first = 0; first < all; first += opennpu_lower_blocks_per_drain(tok)) {
        uint32_t count =
            all - first < opennpu_lower_blocks_per_drain(tok) ? all - first : opennpu_lower_blocks_per_drain(tok);
        value_chunk at[OPENNPU_LOWER_PERIOD_MAX / 2];
        size_t product_count = 0;
        for (uint32_t b = 0; b < count; b++) {
            at[b] = value_chunk_at(tok, chunks, first + b);
            tok->epilogues[b] =
                (opennpu_lower_epilogue){.scale = tok->m->probs_scale + at[b].head * opennpu_lower_vector_bytes(tok->m),
                                         .out = opennpu_lower_token_value(tok, n->output)->at +
                                                ((uint64_t)at[b].head * s->head_dim + at[b].from) * 4};
        }
        for (uint32_t t = first_position(tok, n); t <= tok->position; t++, product_count += count)
            set_weighted_sum_products(tok, n->attrs.cache, at, count, t, tok->list + product_count);
        opennpu_lower_multiply(tok->e, tok->list, product_count, tok->epilogues, count);
    }
    opennpu_lower_token_pack(tok, n->output);
}

void opennpu_lower_token_attention(opennpu_lower_token *tok, const tv_graph_node *n)
{
    emit_query_packs(tok, n);
    if (n->inputs[1] != TV_NO_VALUE)
        emit_append(tok, n);
    emit_scores(tok, n);
    if (n->attrs.soft_cap > 0)
        emit_soft_cap(tok, n);
    emit_softmax(tok, n);
    emit_weighted_sum(tok, n);
}
