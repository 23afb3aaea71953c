/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering to OpenNPU: one straight-line program per token, or per batch of tokens. All arithmetic is the machine's
 * own; the host computes nothing. Weights are 8-bit integers with a scale per row; activations are 16-bit integers as
 * inputs of products and FP32 elsewhere; keys and values are 8-bit integers. Everything a program needs (rows of the
 * embedding, cosines, gains, scales) is in data memory from the beginning, so a program consists of instructions only.
 *
 * With `emit`, programs are written as step_NNNNNN.elf. The first one contains what programs only read, so they can be
 * run in order by themselves. */
#include <inttypes.h>
#include <stdlib.h>

#include "lower/opennpu/layout.h"
#include "program/program.h"
#include "trivet/file.h"

typedef struct lowering {
    opennpu_lower_model m;
    tv_program *program; /* the program loaded into the machine */
    opennpu_lower_product *products;
    opennpu_lower_epilogue epilogues[OPENNPU_LOWER_PERIOD_MAX / 2];
    const char *emit;
    tv_output_group *outputs; /* or NULL */
    float *kept_value;        /* the result of `value` */
    bool single_token;        /* the last step had a single token */
    uint32_t position, steps;
} lowering;

/* Before a layer, or after the last. */
static uint64_t x_addr(const lowering *l, uint32_t layer)
{
    return l->m.x + (uint64_t)layer * l->m.dim_chunks * opennpu_lower_vector_bytes(&l->m);
}

static uint64_t xa_addr(const lowering *l, uint32_t layer)
{
    return l->m.xa + (uint64_t)layer * l->m.dim_chunks * opennpu_lower_vector_bytes(&l->m);
}

static uint32_t blocks_per_drain(const lowering *l) { return l->m.e.period / 2; }

/* ---- Matrix products ---- */

/* out[rows] = W * input (+ add, unless 0). */
static void emit_linear(lowering *l, const opennpu_lower_linear *w, const opennpu_lower_input *input, uint64_t add,
                        uint64_t out)
{
    uint64_t vector = opennpu_lower_vector_bytes(&l->m);
    for (uint32_t first = 0; first < w->blocks; first += blocks_per_drain(l)) {
        uint32_t count = w->blocks - first < blocks_per_drain(l) ? w->blocks - first : blocks_per_drain(l);
        for (uint32_t b = 0; b < count; b++)
            l->epilogues[b] = (opennpu_lower_epilogue){
                w->scales + (first + b) * vector, add ? add + (first + b) * vector : 0, 0, out + (first + b) * vector};
        size_t product_count = opennpu_lower_linear_products(&l->m, w, input, first, count, l->products);
        opennpu_lower_multiply(&l->m.e, l->products, product_count, l->epilogues, count);
    }
}

/* Packs a vector in units of the input; with gains, it is first normalized with the scale in VR 7. */
static void emit_input_packs(lowering *l, uint64_t at, uint64_t gains, const opennpu_lower_input *input)
{
    opennpu_lower_emitter *e = &l->m.e;
    opennpu_lower_pack pack;
    uint64_t vector = opennpu_lower_vector_bytes(&l->m);
    for (uint32_t i = 0; opennpu_lower_pack_at(e, input, i, &pack); i++) {
        opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
        for (unsigned p = 0; p < 1u << pack.class_; p++) {
            opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, at + (pack.chunk + p) * vector);
            if (gains) {
                opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W, gains + (pack.chunk + p) * vector);
                opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 7);
                opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 3);
            }
            opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 2, 2, 0);
            opennpu_lower_split_bytes(e, p);
        }
        opennpu_lower_store_pack(e, &pack);
    }
}

static void emit_norm(lowering *l, uint64_t x, uint64_t gains)
{
    opennpu_lower_emitter *e = &l->m.e;
    for (uint32_t c = 0; c < l->m.dim_chunks; c++) {
        unsigned reg = 1 + c % 2;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, x + c * opennpu_lower_vector_bytes(&l->m));
        if (c)
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, 0, reg, reg, 0);
        else
            opennpu_lower_emit(e, OPENNPU_VFMUL, 0, reg, reg);
    }
    opennpu_lower_sum_lanes(e);
    opennpu_lower_rsqrt_mean(e);
    emit_input_packs(l, x, gains, &l->m.xn_in);
}

/* ---- Attention ---- */

/* VR 2 = the rotated chunk: x * cos + swap(x) * sin, where swap exchanges the halves of the lanes by way of memory. */
static void emit_rope(lowering *l, uint64_t at, uint32_t chunk)
{
    opennpu_lower_emitter *e = &l->m.e;
    uint64_t vector = opennpu_lower_vector_bytes(&l->m),
             cos_sin =
                 l->m.cos_sin + ((uint64_t)l->position * l->m.rope_period + chunk % l->m.rope_period) * 2 * vector;
    opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, at);
    opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, e->swap);
    opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, e->swap + vector);
    opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_X, e->swap + vector / 2);
    opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, cos_sin);
    opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W, cos_sin + vector);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 2);
    opennpu_lower_emit_fma(e, OPENNPU_VFMA, 2, 1, 3, 0);
}

static opennpu_lower_pack q_pack(const lowering *l, uint32_t chunk)
{
    return (opennpu_lower_pack){l->m.q_packs + chunk * opennpu_lower_pack_bytes(&l->m.e, OPENNPU_VX), OPENNPU_VX,
                                chunk};
}

static void emit_query_packs(lowering *l)
{
    opennpu_lower_emitter *e = &l->m.e;
    for (uint32_t c = 0; c < l->m.q_chunks; c++) {
        opennpu_lower_pack pack = q_pack(l, c);
        emit_rope(l, l->m.qkv + c * opennpu_lower_vector_bytes(&l->m), c);
        opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
        opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 2, 2, 0);
        opennpu_lower_split_bytes(e, 0);
        opennpu_lower_store_pack(e, &pack);
    }
}

/* The lanes of a key channel are positions, so bytes are stored one by one, with eight loads before eight stores. */
static void emit_key_chunk(lowering *l, uint32_t layer, uint32_t chunk)
{
    enum { BATCH = 8 };
    const tv_model_dims *s = &l->m.model->dims;
    uint64_t to[BATCH];
    unsigned count = 0;
    for (uint32_t h = 0; h < s->kv_heads; h++)
        for (uint32_t i = 0; i < s->head_dim; i++) {
            uint32_t lane = opennpu_lower_rope_lane(&l->m, h, i);
            if (lane / l->m.k == chunk) {
                opennpu_lower_access_lane0(&l->m.e, OPENNPU_LD_B, count, OPENNPU_LOWER_VR_X,
                                           l->m.bytes + lane % l->m.k);
                to[count++] = opennpu_lower_key_block_addr(&l->m, layer, h, l->position / l->m.k) +
                              (uint64_t)i * l->m.k + l->position % l->m.k;
            }
            if (count == BATCH || (count && h + 1 == s->kv_heads && i + 1 == s->head_dim)) {
                for (unsigned b = 0; b < count; b++)
                    opennpu_lower_access_lane0(&l->m.e, OPENNPU_ST_B, b, OPENNPU_LOWER_VR_W, to[b]);
                count = 0;
            }
        }
}

static void emit_append(lowering *l, uint32_t layer)
{
    opennpu_lower_emitter *e = &l->m.e;
    uint64_t vector = opennpu_lower_vector_bytes(&l->m), keys = l->m.qkv + l->m.q_chunks * vector,
             values = keys + l->m.kv_chunks * vector;
    for (uint32_t c = 0; c < l->m.kv_chunks; c++) {
        emit_rope(l, keys + c * vector, c);
        opennpu_lower_emit(e, OPENNPU_VCVT_S8_F32, 0, 2, 0);
        opennpu_lower_store(e, OPENNPU_VX, 0, OPENNPU_LOWER_VR_X, l->m.bytes);
        emit_key_chunk(l, layer, c);
    }
    for (uint32_t c = 0; c < l->m.kv_chunks; c++) {
        opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_X, values + c * vector);
        opennpu_lower_emit(e, OPENNPU_VCVT_S8_F32, 0, 1, 0);
        opennpu_lower_store(e, OPENNPU_VX, 0, OPENNPU_LOWER_VR_X,
                            l->m.layers[layer].values + (uint64_t)l->position * l->m.v_stride + c * l->m.k);
    }
}

static uint32_t valid_blocks(const lowering *l) { return l->position / l->m.k + 1; }

static uint64_t scores_addr(const lowering *l, uint32_t head, uint32_t block)
{
    return l->m.scores + ((uint64_t)head * valid_blocks(l) + block) * opennpu_lower_vector_bytes(&l->m);
}

static opennpu_lower_pack prob_pack(const lowering *l, uint32_t head, uint32_t block)
{
    return (opennpu_lower_pack){l->m.prob_packs + ((uint64_t)block * l->m.model->dims.heads + head) *
                                                      opennpu_lower_pack_bytes(&l->m.e, OPENNPU_VX),
                                OPENNPU_VX, 0};
}

/* One channel of one head and block of positions. */
static opennpu_lower_product score_product(const lowering *l, uint32_t layer, uint32_t head, uint32_t block,
                                           uint32_t channel, uint32_t slot)
{
    const tv_model_dims *s = &l->m.model->dims;
    uint64_t keys = opennpu_lower_key_block_addr(&l->m, layer, head / (s->heads / s->kv_heads), block);
    uint32_t lane = opennpu_lower_rope_lane(&l->m, head, channel);
    opennpu_lower_pack pack = q_pack(l, lane / l->m.k);
    return (opennpu_lower_product){keys + (uint64_t)channel * l->m.k,
                                   opennpu_lower_lane_addr(&l->m.e, &pack, lane % l->m.k, slot),
                                   channel,
                                   slot,
                                   0,
                                   OPENNPU_VX,
                                   1,
                                   false};
}

/* Integer scores; the rows of the array are positions, and future ones are masked. Heads that share keys are
 * adjacent. */
static void emit_scores(lowering *l, uint32_t layer)
{
    const tv_model_dims *s = &l->m.model->dims;
    uint32_t blocks = valid_blocks(l), shared = s->heads / s->kv_heads, all = s->heads * blocks,
             valid = l->position % l->m.k + 1;
    for (uint32_t first = 0; first < all; first += blocks_per_drain(l)) {
        uint32_t count = all - first < blocks_per_drain(l) ? all - first : blocks_per_drain(l);
        size_t product_count = 0;
        for (uint32_t i = 0; i < s->head_dim; i++)
            for (uint32_t b = 0; b < count; b++) {
                uint32_t at = first + b, head = at / shared / blocks * shared + at % shared,
                         block = at / shared % blocks;
                l->products[product_count++] = score_product(l, layer, head, block, i, b);
                l->epilogues[b] = (opennpu_lower_epilogue){
                    0, 0, block + 1 == blocks ? l->m.score_limits + (uint64_t)(l->m.k - valid) * 4 : 0,
                    scores_addr(l, head, block)};
            }
        opennpu_lower_multiply(&l->m.e, l->products, product_count, l->epilogues, count);
    }
}

/* Scores become exponents of two <= 0: exact integers until the maximum is subtracted. */
static void emit_exponents(lowering *l, uint32_t layer, uint32_t head)
{
    opennpu_lower_emitter *e = &l->m.e;
    opennpu_lower_set(e, 2, l->m.layers[layer].score_scale);
    for (uint32_t b = 0; b < valid_blocks(l); b++) {
        opennpu_lower_load(e, OPENNPU_VR, b ? 1 : 0, OPENNPU_LOWER_VR_X, scores_addr(l, head, b));
        if (b)
            opennpu_lower_emit_vr(e, OPENNPU_VMAX, 0, 0, 1);
    }
    opennpu_lower_emit_vr(e, OPENNPU_VRMAX, 0, 0, 0);
    for (uint32_t b = 0; b < valid_blocks(l); b++) {
        unsigned reg = b % 2 ? 3 : 1;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, scores_addr(l, head, b));
        opennpu_lower_emit_vr(e, OPENNPU_VSUB, reg, reg, 0);
        opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, reg, reg, 0);
        opennpu_lower_emit(e, OPENNPU_VFMUL, reg, reg, 2);
        opennpu_lower_store(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, scores_addr(l, head, b));
    }
}

static void emit_exponentials(lowering *l)
{
    opennpu_lower_emitter *e = &l->m.e;
    uint32_t all = l->m.model->dims.heads * valid_blocks(l);
    for (uint32_t i = 0; i < all; i += 2) {
        unsigned count = all - i < 2 ? 1 : 2;
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_load(e, OPENNPU_VR, opennpu_lower_arg[v], OPENNPU_LOWER_VR_X, scores_addr(l, 0, i + v));
        opennpu_lower_each_const(e, count, OPENNPU_VFMAX, opennpu_lower_arg, opennpu_lower_arg,
                                 OPENNPU_CONST_SIGN | OPENNPU_CONST_F_126);
        opennpu_lower_exp2(e, count);
        opennpu_lower_each_const(e, count, OPENNPU_VFMUL, opennpu_lower_res, opennpu_lower_res, OPENNPU_CONST_F_32000);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, opennpu_lower_res[v], opennpu_lower_res[v], 0);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_store(e, OPENNPU_VR, opennpu_lower_res[v], OPENNPU_LOWER_VR_X, scores_addr(l, 0, i + v));
    }
}

/* Probabilities are not divided by their sum; the weighted sum is, and is scaled by 256. The sum is that of the rounded
 * probabilities. */
static void emit_prob_sums(lowering *l)
{
    opennpu_lower_emitter *e = &l->m.e;
    uint32_t heads = l->m.model->dims.heads;
    for (uint32_t h = 0; h < heads; h += 2) {
        unsigned count = heads - h < 2 ? 1 : 2;
        for (unsigned v = 0; v < count; v++) {
            for (uint32_t b = 0; b < valid_blocks(l); b++) {
                opennpu_lower_load(e, OPENNPU_VR, b ? opennpu_lower_tmp[v] : opennpu_lower_arg[v], OPENNPU_LOWER_VR_X,
                                   scores_addr(l, h + v, b));
                if (b)
                    opennpu_lower_emit_vr(e, OPENNPU_VADD, opennpu_lower_arg[v], opennpu_lower_arg[v],
                                          opennpu_lower_tmp[v]);
            }
            opennpu_lower_emit_vr(e, OPENNPU_VSUM, opennpu_lower_arg[v], opennpu_lower_arg[v], 0);
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, opennpu_lower_arg[v], opennpu_lower_arg[v], 0);
        }
        opennpu_lower_reciprocal(e, count);
        opennpu_lower_each_const(e, count, OPENNPU_VFMUL, opennpu_lower_res, opennpu_lower_res, OPENNPU_CONST_F_256);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_store(e, OPENNPU_VR, opennpu_lower_res[v], OPENNPU_LOWER_VR_X,
                                l->m.probs_scale + (h + v) * opennpu_lower_vector_bytes(&l->m));
    }
}

static void emit_softmax(lowering *l, uint32_t layer)
{
    opennpu_lower_emitter *e = &l->m.e;
    for (uint32_t h = 0; h < l->m.model->dims.heads; h++)
        emit_exponents(l, layer, h);
    emit_exponentials(l);
    emit_prob_sums(l);
    for (uint32_t h = 0; h < l->m.model->dims.heads; h++)
        for (uint32_t b = 0; b < valid_blocks(l); b++) {
            opennpu_lower_pack pack = prob_pack(l, h, b);
            opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
            opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, scores_addr(l, h, b));
            opennpu_lower_split_bytes(e, 0);
            opennpu_lower_store_pack(e, &pack);
        }
}

/* One position and one chunk of a head: at most K of its channels. */
static opennpu_lower_product weighted_sum_product(const lowering *l, uint32_t layer, uint32_t head, uint32_t chunk,
                                                  uint32_t position, uint32_t slot)
{
    const tv_model_dims *s = &l->m.model->dims;
    uint32_t channel = head / (s->heads / s->kv_heads) * s->head_dim + chunk * l->m.k, lane = position % l->m.k;
    opennpu_lower_pack pack = prob_pack(l, head, position / l->m.k);
    uint64_t row = l->m.layers[layer].values + (uint64_t)position * l->m.v_stride;
    return (opennpu_lower_product){
        row + channel, opennpu_lower_lane_addr(&l->m.e, &pack, lane, slot), position, slot, 0, OPENNPU_VX, 1, false};
}

/* The rows of the array are channels. The lanes of a block that exceed its head are overwritten by the next block. */
static void emit_weighted_sum(lowering *l, uint32_t layer)
{
    const tv_model_dims *s = &l->m.model->dims;
    uint32_t chunks = opennpu_lower_chunks(&l->m, s->head_dim), all = s->heads * chunks;
    for (uint32_t first = 0; first < all; first += blocks_per_drain(l)) {
        uint32_t count = all - first < blocks_per_drain(l) ? all - first : blocks_per_drain(l);
        size_t product_count = 0;
        for (uint32_t t = 0; t <= l->position; t++)
            for (uint32_t b = 0; b < count; b++)
                l->products[product_count++] =
                    weighted_sum_product(l, layer, (first + b) / chunks, (first + b) % chunks, t, b);
        for (uint32_t b = 0; b < count; b++) {
            uint32_t head = (first + b) / chunks, at = head * s->head_dim + (first + b) % chunks * l->m.k;
            l->epilogues[b] = (opennpu_lower_epilogue){l->m.probs_scale + head * opennpu_lower_vector_bytes(&l->m), 0,
                                                       0, l->m.attn_out + (uint64_t)at * 4};
        }
        opennpu_lower_multiply(&l->m.e, l->products, product_count, l->epilogues, count);
    }
    emit_input_packs(l, l->m.attn_out, 0, &l->m.attn_out_in);
}

/* ---- Nodes ---- */

static void emit_embed(lowering *l, int32_t token)
{
    uint64_t vector = opennpu_lower_vector_bytes(&l->m),
             row = l->m.embedding + (uint64_t)token * l->m.dim_chunks * vector;
    for (uint32_t c = 0; c < l->m.dim_chunks; c++) {
        opennpu_lower_load(&l->m.e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_W, row + c * vector);
        opennpu_lower_store(&l->m.e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_X, l->m.x + c * vector);
    }
}

/* Weights that share an input are multiplied at the first of them, which needs fewer drains of the array. */
static void emit_matmul(lowering *l, const tv_graph_node *node)
{
    const opennpu_lower_layer *layer = &l->m.layers[node->layer];
    switch (node->weight) {
    case TV_WEIGHT_Q:
        emit_linear(l, &layer->qkv, &l->m.xn_in, 0, l->m.qkv);
        break;
    case TV_WEIGHT_GATE:
        emit_linear(l, &layer->gate_up, &l->m.xn_in, 0, l->m.ffn);
        break;
    case TV_WEIGHT_O:
        emit_linear(l, &layer->o, &l->m.attn_out_in, x_addr(l, node->layer), xa_addr(l, node->layer));
        break; /* with the ADD that follows */
    case TV_WEIGHT_DOWN:
        emit_linear(l, &layer->down, &l->m.h_in, xa_addr(l, node->layer), x_addr(l, node->layer + 1));
        break;
    case TV_WEIGHT_K:
    case TV_WEIGHT_V:
    case TV_WEIGHT_UP:
        break;
    case TV_WEIGHT_CLASSIFIER:
        emit_linear(l, &l->m.classifier, &l->m.xn_in, 0, l->m.logits);
        break;
    case TV_WEIGHT_EMBEDDING: /* inputs of other operations */
    case TV_WEIGHT_NORM_ATTENTION:
    case TV_WEIGHT_NORM_FFN:
    case TV_WEIGHT_NORM_FINAL:
    case TV_WEIGHTS:
        break;
    }
}

static void lower_node(lowering *l, const tv_graph_node *node, int32_t token, bool needs_logits)
{
    opennpu_lower_layer *layer = &l->m.layers[node->layer];
    opennpu_lower_label_block(&l->m.e, l->m.graph, node);
    switch (node->op) {
    case TV_OP_EMBED:
        emit_embed(l, token);
        break;
    case TV_OP_RMSNORM:
        if (node->weight == TV_WEIGHT_NORM_ATTENTION)
            emit_norm(l, x_addr(l, node->layer), layer->norm[0]);
        else if (node->weight == TV_WEIGHT_NORM_FFN)
            emit_norm(l, xa_addr(l, node->layer), layer->norm[1]);
        else if (needs_logits)
            emit_norm(l, x_addr(l, l->m.model->dims.layers), l->m.final_norm);
        break;
    case TV_OP_MATMUL:
        if (needs_logits || node->output != l->m.graph->logits)
            emit_matmul(l, node);
        break;
    case TV_OP_APPEND:
        emit_query_packs(l);
        emit_append(l, node->layer);
        break;
    case TV_OP_SCORES:
        emit_scores(l, node->layer);
        break;
    case TV_OP_SOFTMAX:
        emit_softmax(l, node->layer);
        break;
    case TV_OP_WEIGHTED_SUM:
        emit_weighted_sum(l, node->layer);
        break;
    case TV_OP_SILU:
        opennpu_lower_silu_mul(&l->m.e, l->m.ffn, l->m.ffn + l->m.hidden_chunks * opennpu_lower_vector_bytes(&l->m),
                               l->m.hidden_chunks);
        break;
    case TV_OP_MUL:
        emit_input_packs(l, l->m.ffn, 0, &l->m.h_in);
        break;
    case TV_OP_ROPE: /* in APPEND */
    case TV_OP_ADD:  /* with the MATMUL before it */
    case TV_OPS:
        break;
    }
}

/* ---- Steps ---- */

static tv_status save_step(lowering *l, tv_program *program, const tv_diag_sink *sink)
{
    char path[4096];
    if (l->steps == 0) /* the first program contains what programs only read */
        TV_TRY(tv_backend_bring_space(l->m.machine, "mem", l->m.constants_end, program, sink));
    snprintf(path, sizeof path, "%s/step_%06" PRIu32 ".elf", l->emit, l->steps);
    return tv_program_save_to(program, path, TV_FORMAT_ELF, l->outputs, sink);
}

static tv_status run_program(lowering *l, const tv_diag_sink *sink)
{
    tv_program *program;
    tv_stop_reason stop;
    TV_TRY(tv_builder_finish(&l->m.e.program, sink, &program));
    tv_status status = TV_OK;
    if (status == TV_OK && l->emit)
        status = save_step(l, program, sink);
    if (status == TV_OK)
        status = tv_machine_load(l->m.machine, program, sink);
    if (status != TV_OK) {
        tv_program_free(program);
        return status;
    }
    status = tv_machine_run(l->m.machine, NULL, &stop);
    tv_builder_reuse(&l->m.e.program, l->program); /* the machine uses the loaded program until the next load */
    l->program = program;
    l->steps++;
    return status == TV_FAULT ? tv_backend_fault(l->m.machine, sink) : status;
}

static tv_status step_token(lowering *l, int32_t token, uint32_t position, float *logits, const tv_diag_sink *sink)
{
    l->position = position;
    opennpu_lower_begin_program(&l->m.e);
    for (uint32_t i = 0; i < l->m.graph->node_count; i++)
        lower_node(l, &l->m.graph->nodes[i], token, logits != NULL);
    TV_TRY(run_program(l, sink));
    return logits ? tv_machine_read(l->m.machine, "mem", l->m.logits, logits, l->m.model->dims.vocab * sizeof *logits,
                                    sink)
                  : TV_OK;
}

/* Rows from `first_logits_row` on have logits. */
static tv_status step_batch(lowering *l, const int32_t *tokens, uint32_t rows, uint32_t position, uint32_t needs_logits,
                            float *logits, const tv_diag_sink *sink)
{
    uint64_t row = l->m.classifier.blocks * opennpu_lower_vector_bytes(&l->m);
    uint32_t vocab = l->m.model->dims.vocab;
    opennpu_lower_begin_program(&l->m.e);
    opennpu_lower_batch(&l->m, l->products, tokens, rows, position, needs_logits);
    TV_TRY(run_program(l, sink));
    for (uint32_t r = needs_logits; r < rows; r++, logits += vocab)
        TV_TRY(tv_machine_read(l->m.machine, "mem", l->m.batch_logits + r * row, logits, vocab * sizeof *logits, sink));
    return TV_OK;
}

/* Up to K tokens are processed at once where a block of K positions begins; a few are faster one by one. */
static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink)
{
    lowering *l = state;
    uint32_t vocab = l->m.model->dims.vocab;
    for (uint32_t done = 0, rows; done < count; done += rows) {
        bool last = done + l->m.k >= count;
        float *out = logits + (last_only ? 0 : (size_t)done * vocab);
        rows = count - done < l->m.k ? count - done : l->m.k;
        l->single_token = count == 1;
        if ((position + done) % l->m.k == 0 && rows >= 2 && rows > l->m.k / 8) {
            TV_TRY(step_batch(l, tokens + done, rows, position + done,
                              !last_only ? 0
                              : last     ? rows - 1
                                         : rows,
                              out, sink));
            continue;
        }
        rows = 1;
        TV_TRY(step_token(l, tokens[done], position + done, !last_only || done + 1 == count ? out : NULL, sink));
    }
    return TV_OK;
}

/* ---- Creating ---- */

static void destroy(void *state)
{
    lowering *l = state;
    if (!l)
        return;
    opennpu_lower_emitter_fini(&l->m.e);
    tv_pool_free(l->m.pool);
    tv_machine_free(l->m.machine);
    tv_program_free(l->program);
    free(l->m.layers);
    free(l->products);
    free(l->kept_value);
    free(l);
}

enum { HEAD_MAX = 256, CONTEXT_MAX = 65536, COLUMNS_MAX = 131072 };

static tv_status read_config(lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->m.model->dims;
    l->m.k = (uint32_t)tv_backend_parameter(options->config, "vector.k");
    l->m.limit = tv_backend_parameter(options->config, "mem.bytes");
    if (tv_backend_parameter(options->config, "vector.l") != 32)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), NULL,
                       "the lowering requires vector.l = 32, which is eight VR registers");
    /* 32-bit integer sums: probabilities up to 32000 over the positions, 128 * 127 over the columns, 32512 * 127 over a
     * head. */
    if (s->head_dim > HEAD_MAX || options->context > CONTEXT_MAX || s->dim > COLUMNS_MAX || s->hidden > COLUMNS_MAX)
        return tv_fail(
            sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "a smaller --context may help",
            "an embedding of %u, a hidden size of %u, a head size of %u or %u positions overflows 32-bit sums", s->dim,
            s->hidden, s->head_dim, options->context);
    uint32_t widest = s->dim > s->hidden ? s->dim : s->hidden;
    widest = widest > options->context ? widest : options->context;
    widest = widest > s->heads * s->head_dim ? widest : s->heads * s->head_dim;
    l->products = malloc((size_t)widest * OPENNPU_LOWER_PERIOD_MAX / 2 * sizeof *l->products);
    l->m.layers = calloc(s->layers, sizeof *l->m.layers);
    l->kept_value = malloc(s->dim * sizeof *l->kept_value);
    return l->products && l->m.layers && l->kept_value ? TV_OK : tv_fail_memory(sink);
}

static tv_status create(const tv_graph *graph, const tv_model *model, const tv_backend_options *options,
                        const tv_diag_sink *sink, void **state)
{
    lowering *l = calloc(1, sizeof *l);
    if (!l)
        return tv_fail_memory(sink);
    l->m.graph = graph;
    l->m.model = model;
    l->emit = options->emit;
    l->outputs = options->outputs;
    l->m.timing = options->mode == TV_MODE_TIMING;
    l->m.pool = tv_pool_new(options->threads);
    tv_status status = read_config(l, options, sink);
    if (status == TV_OK)
        status = opennpu_lower_emitter_init(&l->m.e, l->m.k, sink);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &l->m.machine);
    if (status == TV_OK)
        status = opennpu_lower_upload_model(&l->m, options, sink);
    if (status != TV_OK) {
        destroy(l);
        return status;
    }
    tv_machine_set_threads(l->m.machine, options->threads);
    *state = l;
    return TV_OK;
}

/* The inputs and outputs of the layers stay in memory after single-token steps; everything else is overwritten. */
static const float *value(void *state, uint32_t v)
{
    lowering *l = state;
    const tv_graph *g = l->m.graph;
    uint32_t i = 0;
    while (g->nodes[i].output != v)
        i++;
    bool down = i > 0 && g->nodes[i - 1].weight == TV_WEIGHT_DOWN;
    if (!l->single_token || g->nodes[i].op != TV_OP_ADD)
        return NULL;
    uint64_t at = down ? x_addr(l, g->nodes[i].layer + 1) : xa_addr(l, g->nodes[i].layer);
    return tv_machine_read(l->m.machine, "mem", at, l->kept_value, l->m.model->dims.dim * sizeof *l->kept_value,
                           NULL) == TV_OK
               ? l->kept_value
               : NULL;
}

static tv_machine *machine(void *state) { return ((lowering *)state)->m.machine; }

extern const tv_backend tv_backend_opennpu;
const tv_backend tv_backend_opennpu = {.name = "opennpu",
                                       .weight_bits_only = 8,
                                       .activation_bits_only = 16,
                                       .create = create,
                                       .destroy = destroy,
                                       .step = step,
                                       .value = value,
                                       .machine = machine};
