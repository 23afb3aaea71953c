/* SPDX-License-Identifier: Apache-2.0 */
/* Products and embeddings of one token: a vector of K lanes holds K neighbouring columns of a value. */
#include "lower/opennpu/token.h"

#include "lower/opennpu/functions.h"

/* ---- Matrix products ---- */

/* Address of block `block` of a linear's outputs. */
static uint64_t block_output(const opennpu_lower_token *tok, const opennpu_lower_linear *w, const uint64_t *outputs,
                             uint32_t block)
{
    unsigned which = 0;
    uint32_t blocks;
    while ((blocks = opennpu_lower_chunks(tok->m, tv_graph_matrix(tok->m->graph, w->matrices[which])->rows)) <= block) {
        block -= blocks;
        which++;
    }
    return outputs[which] + block * opennpu_lower_vector_bytes(tok->m);
}

void opennpu_lower_token_products(opennpu_lower_token *tok, const opennpu_lower_linear *w,
                                  const opennpu_lower_input *input, const uint64_t *outputs, uint64_t add)
{
    uint64_t vector = opennpu_lower_vector_bytes(tok->m);
    for (uint32_t first = 0; first < w->blocks; first += opennpu_lower_blocks_per_drain(tok)) {
        uint32_t count = w->blocks - first < opennpu_lower_blocks_per_drain(tok) ? w->blocks - first
                                                                                 : opennpu_lower_blocks_per_drain(tok);
        for (uint32_t b = 0; b < count; b++)
            tok->epilogues[b] = (opennpu_lower_epilogue){.scale = w->scales + (first + b) * vector,
                                                         .add = add ? add + (first + b) * vector : 0,
                                                         .bias = w->bias ? w->bias + (first + b) * vector : 0,
                                                         .out = block_output(tok, w, outputs, first + b)};
        size_t product_count = opennpu_lower_linear_products(tok->m, w, input, first, count, tok->list);
        opennpu_lower_multiply(tok->e, tok->list, product_count, tok->epilogues, count);
    }
}

/* ---- Packs ---- */

/* How a vector is scaled to units of the input: by VR 7, by gains, and by a constant. */
typedef struct pack_scale {
    bool vr7;
    uint64_t gains; /* 0: none */
    float constant; /* 1: none */
} pack_scale;

static void emit_scaled(opennpu_lower_token *tok, const pack_scale *scale, uint32_t chunk)
{
    opennpu_lower_emitter *e = tok->e;
    if (scale->gains)
        opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W,
                           scale->gains + chunk * opennpu_lower_vector_bytes(tok->m));
    if (scale->vr7)
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 7);
    if (!scale->gains && scale->constant != 1)
        opennpu_lower_set(e, 3, tv_f32_bits(scale->constant));
    if (scale->gains || scale->constant != 1)
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 3);
}

static void emit_packs(opennpu_lower_token *tok, uint64_t at, const pack_scale *scale, const opennpu_lower_input *input)
{
    opennpu_lower_emitter *e = tok->e;
    opennpu_lower_pack pack;
    uint64_t vector = opennpu_lower_vector_bytes(tok->m);
    for (uint32_t i = 0; opennpu_lower_pack_at(e, input, i, &pack); i++) {
        opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
        for (unsigned p = 0; p < 1u << pack.class_; p++) {
            opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, at + (pack.chunk + p) * vector);
            emit_scaled(tok, scale, pack.chunk + p);
            opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 2, 2, 0);
            opennpu_lower_split_bytes(e, p);
        }
        opennpu_lower_store_pack(e, &pack);
    }
}

void opennpu_lower_token_pack_scaled(opennpu_lower_token *tok, uint64_t at, uint64_t gains,
                                     const opennpu_lower_input *packs)
{
    emit_packs(tok, at, &(pack_scale){true, gains, 1}, packs);
}

void opennpu_lower_token_pack(opennpu_lower_token *tok, uint32_t value)
{
    const opennpu_lower_value *v = opennpu_lower_token_value(tok, value);
    if (v->packed)
        emit_packs(tok, v->at, &(pack_scale){false, 0, v->unit / v->pack_unit}, &v->packs);
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

/* What follows a product: an activation, then the residual. */
static void emit_activation(opennpu_lower_token *tok, const tv_graph_node *n)
{
    uint64_t at = opennpu_lower_token_value(tok, n->output)->at;
    uint32_t vectors = opennpu_lower_token_chunks(tok, n->output);
    opennpu_lower_apply(tok->e, opennpu_lower_function_of_activation(n->attrs.activation),
                        &(opennpu_lower_apply_job){.x = at, .out = at, .vectors = vectors});
    if (n->inputs[3] != TV_NO_VALUE)
        opennpu_lower_binary(
            tok->e, TV_OP_ADD,
            (opennpu_lower_operand[]){{at, OPENNPU_OPERAND_VECTORS},
                                      {opennpu_lower_token_value(tok, n->inputs[3])->at, OPENNPU_OPERAND_VECTORS}},
            at, vectors);
}

/* Products that share an input are multiplied at the first of them. */
void opennpu_lower_token_linear(opennpu_lower_token *tok, const tv_graph_node *n)
{
    const opennpu_lower_linear *w = &opennpu_lower_node_of(tok->m, n)->linear;
    uint64_t outputs[OPENNPU_LOWER_LINEAR_WEIGHTS];
    bool adds = n->inputs[3] != TV_NO_VALUE && !n->attrs.activation;
    if (!w->weight_count)
        return;
    for (unsigned i = 0; i < w->weight_count; i++)
        outputs[i] = opennpu_lower_token_value(tok, w->outputs[i])->at;
    opennpu_lower_token_products(tok, w, &opennpu_lower_token_value(tok, n->inputs[0])->packs, outputs,
                                 adds ? opennpu_lower_token_value(tok, n->inputs[3])->at : 0);
    for (unsigned i = 0; i < w->weight_count; i++) {
        const tv_graph_node *product = opennpu_lower_producer(tok->m->graph, w->outputs[i]);
        if (product->attrs.activation)
            emit_activation(tok, product);
        opennpu_lower_token_pack(tok, w->outputs[i]);
    }
}

void opennpu_lower_token_glu(opennpu_lower_token *tok, const tv_graph_node *n)
{
    const opennpu_lower_node *own = opennpu_lower_node_of(tok->m, n);
    uint64_t outputs[] = {opennpu_lower_token_value(tok, n->output)->at, own->scratch};
    opennpu_lower_token_products(tok, &own->linear, &opennpu_lower_token_value(tok, n->inputs[0])->packs, outputs, 0);
    opennpu_lower_apply(tok->e, opennpu_lower_function_of_activation(n->attrs.activation),
                        &(opennpu_lower_apply_job){.x = outputs[0],
                                                   .out = outputs[0],
                                                   .times = outputs[1],
                                                   .vectors = opennpu_lower_token_chunks(tok, n->output)});
    opennpu_lower_token_pack(tok, n->output);
}
