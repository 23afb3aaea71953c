/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions for one token: a vector of K lanes holds K neighbouring columns of a value. */
#include "lower/opennpu/token.h"

/* ---- Matrix products ---- */

/* Address of block `block` of a linear's outputs, relative to the outputs of `base`: those of its values, or of the
 * buffers of a gate. */
static uint64_t block_output(const opennpu_lower_token *tok, const tv_graph_node *n, const opennpu_lower_linear *w,
                             uint32_t block)
{
    unsigned which = 0;
    uint32_t blocks;
    while ((blocks = opennpu_lower_chunks(tok->m, tv_graph_matrix(tok->m->graph, w->matrices[which])->rows)) <= block) {
        block -= blocks;
        which++;
    }
    uint64_t at = n->op == TV_OP_GLU && which ? opennpu_lower_node_of(tok->m, n)->scratch
                                              : opennpu_lower_token_value(tok, w->outputs[which])->at;
    return at + block * opennpu_lower_vector_bytes(tok->m);
}

/* The products of a node, and of those that were joined to it: W * input (+ bias) (+ residual). */
static void emit_products(opennpu_lower_token *tok, const tv_graph_node *n)
{
    const opennpu_lower_linear *w = &opennpu_lower_node_of(tok->m, n)->linear;
    uint64_t vector = opennpu_lower_vector_bytes(tok->m), add = 0;
    if (n->op == TV_OP_LINEAR && n->inputs[3] != TV_NO_VALUE)
        add = opennpu_lower_token_value(tok, n->inputs[3])->at;
    for (uint32_t first = 0; first < w->blocks; first += opennpu_lower_blocks_per_drain(tok)) {
        uint32_t count = w->blocks - first < opennpu_lower_blocks_per_drain(tok) ? w->blocks - first
                                                                                 : opennpu_lower_blocks_per_drain(tok);
        for (uint32_t b = 0; b < count; b++)
            tok->epilogues[b] = (opennpu_lower_epilogue){.scale = w->scales + (first + b) * vector,
                                                         .add = add ? add + (first + b) * vector : 0,
                                                         .bias = w->bias ? w->bias + (first + b) * vector : 0,
                                                         .out = block_output(tok, n, w, first + b)};
        size_t product_count = opennpu_lower_linear_products(
            tok->m, w, &opennpu_lower_token_value(tok, n->inputs[0])->packs, first, count, tok->list);
        opennpu_lower_multiply(tok->e, tok->list, product_count, tok->epilogues, count);
    }
}

/* Packs a vector in units of the input, after a multiplication by `scale`; with gains, it is first normalized with the
 * scale in VR 7. */
static void emit_input_packs(opennpu_lower_token *tok, uint64_t at, uint64_t gains, float scale,
                             const opennpu_lower_input *input)
{
    opennpu_lower_emitter *e = tok->e;
    opennpu_lower_pack pack;
    uint64_t vector = opennpu_lower_vector_bytes(tok->m);
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
void opennpu_lower_token_pack(opennpu_lower_token *tok, uint32_t value)
{
    const opennpu_lower_value *v = opennpu_lower_token_value(tok, value);
    if (v->packed)
        emit_input_packs(tok, v->at, 0, v->unit / v->pack_unit, &v->packs);
}

/* VR 0 = the sums of squares of some chunks, lane by lane; with a mask, of its lanes only. */
static void emit_squares(opennpu_lower_token *tok, uint64_t x, uint32_t first, uint32_t count, uint64_t mask)
{
    opennpu_lower_emitter *e = tok->e;
    for (uint32_t c = 0; c < count; c++) {
        unsigned reg = 1 + c % 2;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X,
                           x + (first + c) * opennpu_lower_vector_bytes(tok->m));
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
static void emit_normalized(opennpu_lower_token *tok, uint64_t x, uint64_t gains, uint64_t out, uint32_t first,
                            uint32_t count)
{
    opennpu_lower_emitter *e = tok->e;
    uint64_t vector = opennpu_lower_vector_bytes(tok->m);
    for (uint32_t c = first; c < first + count; c++) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, x + c * vector);
        opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W, gains + c * vector);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 7);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 3);
        opennpu_lower_store(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, out + c * vector);
    }
}

/* A chunk holds the lanes of several heads: the scale of each fills its lanes. */
static void emit_masked_scales(opennpu_lower_token *tok, const tv_graph_node *n, uint64_t x, uint32_t chunk,
                               uint32_t heads)
{
    opennpu_lower_emitter *e = tok->e;
    uint64_t vector = opennpu_lower_vector_bytes(tok->m);
    for (uint32_t h = 0; h < heads; h++) {
        emit_squares(tok, x, chunk, 1, tok->m->head_masks + h * vector);
        opennpu_lower_sum_lanes(e);
        opennpu_lower_rsqrt_mean(e, tok->m->head_dim, n->attrs.epsilon);
        opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_W, tok->m->head_masks + h * vector);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 7, 1);
        if (h) {
            opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, tok->m->scale);
            opennpu_lower_emit(e, OPENNPU_VFADD, 7, 7, 2);
        }
        opennpu_lower_store(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, tok->m->scale);
    }
}

/* Queries or keys, in the order of pairs. */
static void emit_head_norm(opennpu_lower_token *tok, const tv_graph_node *n)
{
    uint64_t x = opennpu_lower_token_value(tok, n->inputs[0])->at, out = opennpu_lower_token_value(tok, n->output)->at,
             gains = opennpu_lower_node_of(tok->m, n)->gains;
    uint32_t chunks = opennpu_lower_token_chunks(tok, n->output), in_chunk = tok->m->k / tok->m->head_dim,
             in_head = tok->m->head_dim / tok->m->k;
    for (uint32_t c = 0; c < chunks; c += in_head ? in_head : 1) {
        if (in_chunk > 1) {
            emit_masked_scales(tok, n, x, c, in_chunk);
        } else {
            emit_squares(tok, x, c, in_head, 0);
            opennpu_lower_sum_lanes(tok->e);
            opennpu_lower_rsqrt_mean(tok->e, tok->m->head_dim, n->attrs.epsilon);
        }
        emit_normalized(tok, x, gains, out, c, in_head ? in_head : 1);
    }
}

void opennpu_lower_token_norm(opennpu_lower_token *tok, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = tok->e;
    const opennpu_lower_value *out = opennpu_lower_token_value(tok, n->output);
    uint64_t x = opennpu_lower_token_value(tok, n->inputs[0])->at, gains = opennpu_lower_node_of(tok->m, n)->gains;
    if (n->attrs.groups > 1) {
        emit_head_norm(tok, n);
        return;
    }
    emit_squares(tok, x, 0, opennpu_lower_token_chunks(tok, n->output), 0);
    opennpu_lower_sum_lanes(e);
    opennpu_lower_rsqrt_mean(e, opennpu_lower_columns(tok->m, n->output), n->attrs.epsilon);
    if (!out->stored) {
        emit_input_packs(tok, x, gains, 1, &out->packs);
        return;
    }
    emit_normalized(tok, x, gains, out->at, 0, opennpu_lower_token_chunks(tok, n->output));
    opennpu_lower_token_pack(tok, n->output);
}

/* ---- Element by element ---- */

/* A sum of two values, or a product with a constant. */
void opennpu_lower_token_binary(opennpu_lower_token *tok, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = tok->e;
    bool sum = n->op == TV_OP_ADD;
    uint64_t vector = opennpu_lower_vector_bytes(tok->m), a = opennpu_lower_token_value(tok, n->inputs[0])->at,
             b = sum ? opennpu_lower_token_value(tok, n->inputs[1])->at : opennpu_lower_node_of(tok->m, n)->gains;
    for (uint32_t c = 0; c < opennpu_lower_token_chunks(tok, n->output); c++) {
        unsigned reg = c % 2 * 2;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, a + c * vector);
        opennpu_lower_load(e, OPENNPU_VR, reg + 1, OPENNPU_LOWER_VR_W, b + c * vector);
        opennpu_lower_emit(e, sum ? OPENNPU_VFADD : OPENNPU_VFMUL, reg, reg, reg + 1);
        opennpu_lower_store(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X,
                            opennpu_lower_token_value(tok, n->output)->at + c * vector);
    }
    opennpu_lower_token_pack(tok, n->output);
}

/* ---- Gather and products ---- */

void opennpu_lower_token_gather(opennpu_lower_token *tok, const tv_graph_node *n)
{
    bool by_token = tv_graph_value_at(tok->m->graph, n->inputs[1])->source == TV_VALUE_TOKENS;
    uint32_t chunks = opennpu_lower_token_chunks(tok, n->output);
    uint64_t vector = opennpu_lower_vector_bytes(tok->m), index = by_token ? (uint64_t)tok->token : tok->position,
             row = opennpu_lower_node_of(tok->m, n)->table + index * chunks * vector;
    for (uint32_t c = 0; c < chunks; c++) {
        opennpu_lower_load(tok->e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_W, row + c * vector);
        opennpu_lower_store(tok->e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_X,
                            opennpu_lower_token_value(tok, n->output)->at + c * vector);
    }
    opennpu_lower_token_pack(tok, n->output);
}

/* Products that share an input are multiplied at the first of them. */
void opennpu_lower_token_linear(opennpu_lower_token *tok, const tv_graph_node *n)
{
    const opennpu_lower_linear *w = &opennpu_lower_node_of(tok->m, n)->linear;
    if (w->weight_count)
        emit_products(tok, n);
    for (unsigned i = 0; i < w->weight_count && n->output != tok->m->graph->logits; i++)
        opennpu_lower_token_pack(tok, w->outputs[i]);
}

void opennpu_lower_token_glu(opennpu_lower_token *tok, const tv_graph_node *n)
{
    emit_products(tok, n);
    opennpu_lower_silu_mul(tok->e, opennpu_lower_token_value(tok, n->output)->at,
                           opennpu_lower_node_of(tok->m, n)->scratch, opennpu_lower_token_chunks(tok, n->output));
    opennpu_lower_token_pack(tok, n->output);
}
