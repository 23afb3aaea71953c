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
    int32_t token;
    uint32_t position, steps;
} lowering;

static opennpu_lower_value *value_of(const lowering *l, uint32_t value) { return &l->m.values[value]; }

static uint32_t chunks_of(const lowering *l, uint32_t value)
{
    return opennpu_lower_chunks(&l->m, opennpu_lower_columns(&l->m, value));
}

static uint32_t blocks_per_drain(const lowering *l) { return l->m.e.period / 2; }

/* ---- Matrix products ---- */

/* Address of block `block` of a linear's outputs, relative to the outputs of `base`: those of its values, or of the
 * buffers of a gate. */
static uint64_t block_output(const lowering *l, const tv_graph_node *n, const opennpu_lower_linear *w, uint32_t block)
{
    unsigned which = 0;
    uint32_t blocks;
    while ((blocks = opennpu_lower_chunks(&l->m, tv_graph_matrix(l->m.graph, w->matrices[which])->rows)) <= block) {
        block -= blocks;
        which++;
    }
    uint64_t at =
        n->op == TV_OP_GLU && which ? opennpu_lower_node_of(&l->m, n)->scratch : value_of(l, w->outputs[which])->at;
    return at + block * opennpu_lower_vector_bytes(&l->m);
}

/* The products of a node, and of those that were joined to it: W * input (+ bias) (+ residual). */
static void emit_products(lowering *l, const tv_graph_node *n)
{
    const opennpu_lower_linear *w = &opennpu_lower_node_of(&l->m, n)->linear;
    uint64_t vector = opennpu_lower_vector_bytes(&l->m), add = 0;
    if (n->op == TV_OP_LINEAR && n->inputs[3] != TV_NO_VALUE)
        add = value_of(l, n->inputs[3])->at;
    for (uint32_t first = 0; first < w->blocks; first += blocks_per_drain(l)) {
        uint32_t count = w->blocks - first < blocks_per_drain(l) ? w->blocks - first : blocks_per_drain(l);
        for (uint32_t b = 0; b < count; b++)
            l->epilogues[b] = (opennpu_lower_epilogue){.scale = w->scales + (first + b) * vector,
                                                       .add = add ? add + (first + b) * vector : 0,
                                                       .bias = w->bias ? w->bias + (first + b) * vector : 0,
                                                       .out = block_output(l, n, w, first + b)};
        size_t product_count =
            opennpu_lower_linear_products(&l->m, w, &value_of(l, n->inputs[0])->packs, first, count, l->products);
        opennpu_lower_multiply(&l->m.e, l->products, product_count, l->epilogues, count);
    }
}

/* Packs a vector in units of the input, after a multiplication by `scale`; with gains, it is first normalized with the
 * scale in VR 7. */
static void emit_input_packs(lowering *l, uint64_t at, uint64_t gains, float scale, const opennpu_lower_input *input)
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
            } else if (scale != 1) {
                opennpu_lower_set(e, 3, tv_f32_bits(scale));
                opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 3);
            }
            opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 2, 2, 0);
            opennpu_lower_split_bytes(e, p);
        }
        opennpu_lower_store_pack(e, &pack);
    }
}

/* Packs a value for products, if any read it. */
static void pack_value(lowering *l, uint32_t value)
{
    const opennpu_lower_value *v = value_of(l, value);
    if (v->packed)
        emit_input_packs(l, v->at, 0, v->unit / v->pack_unit, &v->packs);
}

/* VR 0 = the sums of squares of some chunks, lane by lane; with a mask, of its lanes only. */
static void emit_squares(lowering *l, uint64_t x, uint32_t first, uint32_t count, uint64_t mask)
{
    opennpu_lower_emitter *e = &l->m.e;
    for (uint32_t c = 0; c < count; c++) {
        unsigned reg = 1 + c % 2;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, x + (first + c) * opennpu_lower_vector_bytes(&l->m));
        if (c)
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, 0, reg, reg, 0);
        else
            opennpu_lower_emit(e, OPENNPU_VFMUL, 0, reg, reg);
    }
    if (mask) {
        opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_W, mask);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 1);
    }
}

/* out[chunks] = x * VR 7 * gains */
static void emit_normalized(lowering *l, uint64_t x, uint64_t gains, uint64_t out, uint32_t first, uint32_t count)
{
    opennpu_lower_emitter *e = &l->m.e;
    uint64_t vector = opennpu_lower_vector_bytes(&l->m);
    for (uint32_t c = first; c < first + count; c++) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, x + c * vector);
        opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W, gains + c * vector);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 7);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 3);
        opennpu_lower_store(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, out + c * vector);
    }
}

/* A chunk holds the lanes of several heads: the scale of each fills its lanes. */
static void emit_masked_scales(lowering *l, const tv_graph_node *n, uint64_t x, uint32_t chunk, uint32_t heads)
{
    opennpu_lower_emitter *e = &l->m.e;
    uint64_t vector = opennpu_lower_vector_bytes(&l->m);
    for (uint32_t h = 0; h < heads; h++) {
        emit_squares(l, x, chunk, 1, l->m.head_masks + h * vector);
        opennpu_lower_sum_lanes(e);
        opennpu_lower_rsqrt_mean(e, l->m.head_dim, n->attrs.epsilon);
        opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_W, l->m.head_masks + h * vector);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 7, 1);
        if (h) {
            opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, l->m.scale);
            opennpu_lower_emit(e, OPENNPU_VFADD, 7, 7, 2);
        }
        opennpu_lower_store(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, l->m.scale);
    }
}

/* Queries or keys, in the order of pairs. */
static void emit_head_norm(lowering *l, const tv_graph_node *n)
{
    uint64_t x = value_of(l, n->inputs[0])->at, out = value_of(l, n->output)->at,
             gains = opennpu_lower_node_of(&l->m, n)->gains;
    uint32_t chunks = chunks_of(l, n->output), in_chunk = l->m.k / l->m.head_dim, in_head = l->m.head_dim / l->m.k;
    for (uint32_t c = 0; c < chunks; c += in_head ? in_head : 1) {
        if (in_chunk > 1) {
            emit_masked_scales(l, n, x, c, in_chunk);
        } else {
            emit_squares(l, x, c, in_head, 0);
            opennpu_lower_sum_lanes(&l->m.e);
            opennpu_lower_rsqrt_mean(&l->m.e, l->m.head_dim, n->attrs.epsilon);
        }
        emit_normalized(l, x, gains, out, c, in_head ? in_head : 1);
    }
}

static void emit_norm(lowering *l, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = &l->m.e;
    const opennpu_lower_value *out = value_of(l, n->output);
    uint64_t x = value_of(l, n->inputs[0])->at, gains = opennpu_lower_node_of(&l->m, n)->gains;
    if (n->attrs.groups > 1) {
        emit_head_norm(l, n);
        return;
    }
    emit_squares(l, x, 0, chunks_of(l, n->output), 0);
    opennpu_lower_sum_lanes(e);
    opennpu_lower_rsqrt_mean(e, opennpu_lower_columns(&l->m, n->output), n->attrs.epsilon);
    if (!out->stored) {
        emit_input_packs(l, x, gains, 1, &out->packs);
        return;
    }
    emit_normalized(l, x, gains, out->at, 0, chunks_of(l, n->output));
    pack_value(l, n->output);
}

/* ---- Element by element ---- */

/* A sum of two values, or a product with a constant. */
static void emit_binary(lowering *l, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = &l->m.e;
    bool sum = n->op == TV_OP_ADD;
    uint64_t vector = opennpu_lower_vector_bytes(&l->m), a = value_of(l, n->inputs[0])->at,
             b = sum ? value_of(l, n->inputs[1])->at : opennpu_lower_node_of(&l->m, n)->gains;
    for (uint32_t c = 0; c < chunks_of(l, n->output); c++) {
        unsigned reg = c % 2 * 2;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, a + c * vector);
        opennpu_lower_load(e, OPENNPU_VR, reg + 1, OPENNPU_LOWER_VR_W, b + c * vector);
        opennpu_lower_emit(e, sum ? OPENNPU_VFADD : OPENNPU_VFMUL, reg, reg, reg + 1);
        opennpu_lower_store(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, value_of(l, n->output)->at + c * vector);
    }
    pack_value(l, n->output);
}

/* ---- Attention ---- */

/* VR 2 = the rotated chunk: x * cos + swap(x) * sin, where swap exchanges the halves of the lanes by way of memory. */
static void emit_rope(lowering *l, const tv_graph_node *n, uint64_t at, uint32_t chunk)
{
    opennpu_lower_emitter *e = &l->m.e;
    uint32_t angles = opennpu_lower_node_of(&l->m, n)->angles;
    uint64_t vector = opennpu_lower_vector_bytes(&l->m);
    if (angles == OPENNPU_LOWER_NONE) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, at);
        return;
    }
    uint64_t cos_sin = l->m.angles[angles].cos_sin +
                       ((uint64_t)l->position * l->m.rope_period + chunk % l->m.rope_period) * 2 * vector;
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

/* The value before the rotation, which happens here. */
static uint64_t unrotated(const lowering *l, uint32_t value)
{
    const tv_graph_node *n = tv_graph_node_at(l->m.graph, tv_graph_value_at(l->m.graph, value)->producer);
    return value_of(l, n->op == TV_OP_ROTARY_EMBEDDING ? n->inputs[0] : value)->at;
}

static void emit_query_packs(lowering *l, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = &l->m.e;
    uint64_t queries = unrotated(l, n->inputs[0]);
    for (uint32_t c = 0; c < chunks_of(l, n->inputs[0]); c++) {
        opennpu_lower_pack pack = q_pack(l, c);
        emit_rope(l, n, queries + c * opennpu_lower_vector_bytes(&l->m), c);
        opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
        opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 2, 2, 0);
        opennpu_lower_split_bytes(e, 0);
        opennpu_lower_store_pack(e, &pack);
    }
}

/* The lanes of a key channel are positions, so bytes are stored one by one, with eight loads before eight stores. */
static void emit_key_chunk(lowering *l, uint32_t cache, uint32_t chunk)
{
    enum { BATCH = 8 };
    const opennpu_lower_model *s = &l->m;
    uint64_t to[BATCH];
    unsigned count = 0;
    for (uint32_t h = 0; h < s->kv_heads; h++)
        for (uint32_t i = 0; i < s->head_dim; i++) {
            uint32_t lane = opennpu_lower_rope_lane(&l->m, h, i);
            if (lane / l->m.k == chunk) {
                opennpu_lower_access_lane0(&l->m.e, OPENNPU_LD_B, count, OPENNPU_LOWER_VR_X,
                                           l->m.bytes + lane % l->m.k);
                to[count++] = opennpu_lower_key_block_addr(&l->m, cache, h, l->position / l->m.k) +
                              (uint64_t)i * l->m.k + l->position % l->m.k;
            }
            if (count == BATCH || (count && h + 1 == s->kv_heads && i + 1 == s->head_dim)) {
                for (unsigned b = 0; b < count; b++)
                    opennpu_lower_access_lane0(&l->m.e, OPENNPU_ST_B, b, OPENNPU_LOWER_VR_W, to[b]);
                count = 0;
            }
        }
}

static void emit_append(lowering *l, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = &l->m.e;
    uint64_t vector = opennpu_lower_vector_bytes(&l->m), keys = unrotated(l, n->inputs[1]),
             values = value_of(l, n->inputs[2])->at;
    for (uint32_t c = 0; c < l->m.kv_chunks; c++) {
        emit_rope(l, n, keys + c * vector, c);
        opennpu_lower_emit(e, OPENNPU_VCVT_S8_F32, 0, 2, 0);
        opennpu_lower_store(e, OPENNPU_VX, 0, OPENNPU_LOWER_VR_X, l->m.bytes);
        emit_key_chunk(l, n->attrs.cache, c);
    }
    for (uint32_t c = 0; c < l->m.kv_chunks; c++) {
        opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_X, values + c * vector);
        opennpu_lower_emit(e, OPENNPU_VCVT_S8_F32, 0, 1, 0);
        opennpu_lower_store(e, OPENNPU_VX, 0, OPENNPU_LOWER_VR_X,
                            l->m.caches[n->attrs.cache].values + (uint64_t)l->position * l->m.v_stride + c * l->m.k);
    }
}

static uint32_t valid_blocks(const lowering *l) { return l->position / l->m.k + 1; }

static uint64_t scores_addr(const lowering *l, uint32_t head, uint32_t block)
{
    return l->m.scores + ((uint64_t)head * valid_blocks(l) + block) * opennpu_lower_vector_bytes(&l->m);
}

static opennpu_lower_pack prob_pack(const lowering *l, uint32_t head, uint32_t block)
{
    return (opennpu_lower_pack){l->m.prob_packs + ((uint64_t)block * l->m.heads + head) *
                                                      opennpu_lower_pack_bytes(&l->m.e, OPENNPU_VX),
                                OPENNPU_VX, 0};
}

/* One channel of one head and block of positions. */
static opennpu_lower_product score_product(const lowering *l, uint32_t cache, uint32_t head, uint32_t block,
                                           uint32_t channel, uint32_t slot)
{
    const opennpu_lower_model *s = &l->m;
    uint64_t keys = opennpu_lower_key_block_addr(&l->m, cache, head / (s->heads / s->kv_heads), block);
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
static void emit_scores(lowering *l, uint32_t cache)
{
    const opennpu_lower_model *s = &l->m;
    uint32_t blocks = valid_blocks(l), shared = s->heads / s->kv_heads, all = s->heads * blocks,
             valid = l->position % l->m.k + 1;
    for (uint32_t first = 0; first < all; first += blocks_per_drain(l)) {
        uint32_t count = all - first < blocks_per_drain(l) ? all - first : blocks_per_drain(l);
        size_t product_count = 0;
        for (uint32_t i = 0; i < s->head_dim; i++)
            for (uint32_t b = 0; b < count; b++) {
                uint32_t at = first + b, head = at / shared / blocks * shared + at % shared,
                         block = at / shared % blocks;
                l->products[product_count++] = score_product(l, cache, head, block, i, b);
                l->epilogues[b] = (opennpu_lower_epilogue){
                    .limit = block + 1 == blocks ? l->m.score_limits + (uint64_t)(l->m.k - valid) * 4 : 0,
                    .out = scores_addr(l, head, block)};
            }
        opennpu_lower_multiply(&l->m.e, l->products, product_count, l->epilogues, count);
    }
}

/* Scores become exponents of two <= 0: exact integers until the maximum is subtracted. */
static void emit_exponents(lowering *l, uint32_t score_scale, uint32_t head)
{
    opennpu_lower_emitter *e = &l->m.e;
    opennpu_lower_set(e, 2, score_scale);
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
    uint32_t all = l->m.heads * valid_blocks(l);
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
    uint32_t heads = l->m.heads;
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

static void emit_softmax(lowering *l, uint32_t score_scale)
{
    opennpu_lower_emitter *e = &l->m.e;
    for (uint32_t h = 0; h < l->m.heads; h++)
        emit_exponents(l, score_scale, h);
    emit_exponentials(l);
    emit_prob_sums(l);
    for (uint32_t h = 0; h < l->m.heads; h++)
        for (uint32_t b = 0; b < valid_blocks(l); b++) {
            opennpu_lower_pack pack = prob_pack(l, h, b);
            opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
            opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, scores_addr(l, h, b));
            opennpu_lower_split_bytes(e, 0);
            opennpu_lower_store_pack(e, &pack);
        }
}

/* One position and one chunk of a head: at most K of its channels. */
static opennpu_lower_product weighted_sum_product(const lowering *l, uint32_t cache, uint32_t head, uint32_t chunk,
                                                  uint32_t position, uint32_t slot)
{
    const opennpu_lower_model *s = &l->m;
    uint32_t channel = head / (s->heads / s->kv_heads) * s->head_dim + chunk * l->m.k, lane = position % l->m.k;
    opennpu_lower_pack pack = prob_pack(l, head, position / l->m.k);
    uint64_t row = l->m.caches[cache].values + (uint64_t)position * l->m.v_stride;
    return (opennpu_lower_product){
        row + channel, opennpu_lower_lane_addr(&l->m.e, &pack, lane, slot), position, slot, 0, OPENNPU_VX, 1, false};
}

/* The rows of the array are channels. The lanes of a block that exceed its head are overwritten by the next block. */
static void emit_weighted_sum(lowering *l, uint32_t cache, uint32_t output)
{
    const opennpu_lower_model *s = &l->m;
    uint32_t chunks = opennpu_lower_chunks(&l->m, s->head_dim), all = s->heads * chunks;
    for (uint32_t first = 0; first < all; first += blocks_per_drain(l)) {
        uint32_t count = all - first < blocks_per_drain(l) ? all - first : blocks_per_drain(l);
        size_t product_count = 0;
        for (uint32_t t = 0; t <= l->position; t++)
            for (uint32_t b = 0; b < count; b++)
                l->products[product_count++] =
                    weighted_sum_product(l, cache, (first + b) / chunks, (first + b) % chunks, t, b);
        for (uint32_t b = 0; b < count; b++) {
            uint32_t head = (first + b) / chunks, at = head * s->head_dim + (first + b) % chunks * l->m.k;
            l->epilogues[b] =
                (opennpu_lower_epilogue){.scale = l->m.probs_scale + head * opennpu_lower_vector_bytes(&l->m),
                                         .out = value_of(l, output)->at + (uint64_t)at * 4};
        }
        opennpu_lower_multiply(&l->m.e, l->products, product_count, l->epilogues, count);
    }
    pack_value(l, output);
}

static void emit_attention(lowering *l, const tv_graph_node *n)
{
    emit_query_packs(l, n);
    if (n->inputs[1] != TV_NO_VALUE)
        emit_append(l, n);
    emit_scores(l, n->attrs.cache);
    emit_softmax(l, opennpu_lower_node_of(&l->m, n)->score_scale);
    emit_weighted_sum(l, n->attrs.cache, n->output);
}

/* ---- Nodes ---- */

static void emit_gather(lowering *l, const tv_graph_node *n)
{
    bool by_token = tv_graph_value_at(l->m.graph, n->inputs[1])->source == TV_VALUE_TOKENS;
    uint32_t chunks = chunks_of(l, n->output);
    uint64_t vector = opennpu_lower_vector_bytes(&l->m), index = by_token ? (uint64_t)l->token : l->position,
             row = opennpu_lower_node_of(&l->m, n)->table + index * chunks * vector;
    for (uint32_t c = 0; c < chunks; c++) {
        opennpu_lower_load(&l->m.e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_W, row + c * vector);
        opennpu_lower_store(&l->m.e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_X, value_of(l, n->output)->at + c * vector);
    }
    pack_value(l, n->output);
}

/* Products that share an input are multiplied at the first of them. */
static void emit_linear(lowering *l, const tv_graph_node *n)
{
    const opennpu_lower_linear *w = &opennpu_lower_node_of(&l->m, n)->linear;
    if (w->weight_count)
        emit_products(l, n);
    for (unsigned i = 0; i < w->weight_count && n->output != l->m.graph->logits; i++)
        pack_value(l, w->outputs[i]);
}

static void emit_glu(lowering *l, const tv_graph_node *n)
{
    emit_products(l, n);
    opennpu_lower_silu_mul(&l->m.e, value_of(l, n->output)->at, opennpu_lower_node_of(&l->m, n)->scratch,
                           chunks_of(l, n->output));
    pack_value(l, n->output);
}

/* Rotations happen where queries and keys are used. */
static void emit_nothing(lowering *l, const tv_graph_node *n)
{
    (void)l;
    (void)n;
}

static void (*const emitters[TV_OPS])(lowering *l, const tv_graph_node *n) = {
    [TV_OP_GATHER] = emit_gather,
    [TV_OP_NORM] = emit_norm,
    [TV_OP_LINEAR] = emit_linear,
    [TV_OP_GLU] = emit_glu,
    [TV_OP_ADD] = emit_binary,
    [TV_OP_MUL] = emit_binary,
    [TV_OP_ROTARY_EMBEDDING] = emit_nothing,
    [TV_OP_ATTENTION] = emit_attention,
};

static tv_status check_operators(const tv_graph *g, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < g->nodes.count; i++)
        if (!emitters[g->nodes.data[i].op])
            return tv_backend_reject(g, &g->nodes.data[i], "opennpu", "such instructions", sink);
    return TV_OK;
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
    const tv_graph *g = l->m.graph;
    l->position = position;
    l->token = token;
    opennpu_lower_begin_program(&l->m.e);
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        opennpu_lower_label_block(&l->m.e, n->block);
        if (logits || n->block != TV_BLOCK_OUTPUT)
            emitters[n->op](l, n);
    }
    TV_TRY(run_program(l, sink));
    return logits ? tv_machine_read(l->m.machine, "mem", value_of(l, g->logits)->at, logits,
                                    tv_graph_vocabulary(g) * sizeof *logits, sink)
                  : TV_OK;
}

/* Rows from `first_logits_row` on have logits. */
static tv_status step_batch(lowering *l, const opennpu_lower_tokens *tokens, float *logits, const tv_diag_sink *sink)
{
    uint64_t row = l->m.nodes[l->m.classifier].linear.blocks * opennpu_lower_vector_bytes(&l->m);
    uint32_t vocab = tv_graph_vocabulary(l->m.graph);
    opennpu_lower_begin_program(&l->m.e);
    opennpu_lower_batch(&l->m, l->products, tokens);
    TV_TRY(run_program(l, sink));
    for (uint32_t r = tokens->first_logits_row; r < tokens->count; r++, logits += vocab)
        TV_TRY(tv_machine_read(l->m.machine, "mem", l->m.batch_logits + r * row, logits, vocab * sizeof *logits, sink));
    return TV_OK;
}

/* Up to K tokens are processed at once where a block of K positions begins; a few are faster one by one. */
static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink)
{
    lowering *l = state;
    uint32_t vocab = tv_graph_vocabulary(l->m.graph);
    for (uint32_t done = 0, rows; done < count; done += rows) {
        bool last = done + l->m.k >= count;
        float *out = logits + (last_only ? 0 : (size_t)done * vocab);
        rows = count - done < l->m.k ? count - done : l->m.k;
        l->single_token = count == 1;
        if ((position + done) % l->m.k == 0 && rows >= 2 && rows > l->m.k / 8) {
            opennpu_lower_tokens batch = {tokens + done, rows, position + done,
                                          !last_only ? 0
                                          : last     ? rows - 1
                                                     : rows};
            TV_TRY(step_batch(l, &batch, out, sink));
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
    free(l->m.ranges);
    free(l->m.values);
    free(l->m.nodes);
    free(l->m.caches);
    free(l->products);
    free(l->kept_value);
    free(l);
}

static tv_status allocate(lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
{
    const tv_graph *g = l->m.graph;
    uint32_t widest = options->context;
    for (size_t i = 0; i < g->nodes.count; i++) {
        uint32_t columns = (uint32_t)tv_graph_elements(g, g->nodes.data[i].output);
        widest = columns > widest && g->nodes.data[i].output != g->logits ? columns : widest;
    }
    l->products = malloc((size_t)widest * OPENNPU_LOWER_PERIOD_MAX / 2 * sizeof *l->products);
    l->m.values = calloc(g->values.count + 1, sizeof *l->m.values);
    l->m.nodes = calloc(g->nodes.count + 1, sizeof *l->m.nodes);
    l->m.caches = calloc(g->caches.count + 1, sizeof *l->m.caches);
    l->kept_value = malloc(widest * sizeof *l->kept_value);
    return l->products && l->m.values && l->m.nodes && l->m.caches && l->kept_value ? TV_OK : tv_fail_memory(sink);
}

static tv_status read_config(lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
{
    l->m.k = (uint32_t)tv_backend_parameter(options->config, "vector.k");
    l->m.limit = tv_backend_parameter(options->config, "mem.bytes");
    l->m.context = options->context;
    if (tv_backend_parameter(options->config, "vector.l") != 32)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), NULL,
                       "the lowering requires vector.l = 32, which is eight VR registers");
    return opennpu_lower_emitter_init(&l->m.e, l->m.k, sink);
}

static tv_status create(const tv_graph *graph, const tv_backend_options *options, const tv_diag_sink *sink,
                        void **state)
{
    lowering *l = calloc(1, sizeof *l);
    if (!l)
        return tv_fail_memory(sink);
    l->m.graph = graph;
    l->emit = options->emit;
    l->outputs = options->outputs;
    l->m.timing = options->mode == TV_MODE_TIMING;
    l->m.pool = tv_pool_new(options->threads);
    tv_status status = check_operators(graph, sink);
    if (status == TV_OK)
        status = read_config(l, options, sink);
    if (status == TV_OK)
        status = allocate(l, options, sink);
    if (status == TV_OK && !l->m.timing)
        status = tv_graph_ranges(graph, options, sink, &l->m.ranges);
    if (status == TV_OK)
        status = opennpu_lower_plan(&l->m, sink);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &l->m.machine);
    if (status == TV_OK)
        status = opennpu_lower_upload(&l->m, &options->progress, sink);
    if (status != TV_OK) {
        destroy(l);
        return status;
    }
    tv_machine_set_threads(l->m.machine, options->threads);
    *state = l;
    return TV_OK;
}

/* The outputs of the layers stay in memory after single-token steps; everything else is overwritten. */
static const float *value(void *state, uint32_t v)
{
    lowering *l = state;
    const tv_graph *g = l->m.graph;
    bool kept = false;
    for (uint32_t i = 0; i < g->layers; i++)
        kept = kept || g->layer_outputs[i] == v;
    if (!l->single_token || !kept || !l->m.values[v].at)
        return NULL;
    return tv_machine_read(l->m.machine, "mem", l->m.values[v].at, l->kept_value,
                           opennpu_lower_columns(&l->m, v) * sizeof *l->kept_value, NULL) == TV_OK
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
