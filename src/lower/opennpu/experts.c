/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts. The host reads the router's logits and chooses; the machine runs the chosen experts, with their
 * weights as factors. A batch runs each expert that any of its tokens chose, since a product takes as long for one
 * token as for all; the factors of the others are zeros. Without data, every token takes the first experts.
 *
 * The hidden values of an expert have no measured range, so the machine finds their absmax and scales them to 16 bits.
 */
#include <stdlib.h>

#include "graph/operators.h"
#include "lower/opennpu/functions.h"
#include "lower/opennpu/nodes.h"

/* The experts of each token, [rows][used]. */
typedef struct routes {
    uint32_t rows, used, *chosen;
    float *weights;
} routes;

static uint32_t expert_count(const opennpu_lower_model *m, const tv_graph_node *n)
{
    return tv_graph_matrix(m->graph, n->inputs[2])->count;
}

static uint32_t hidden_columns(const opennpu_lower_model *m, const tv_graph_node *n)
{
    return tv_graph_matrix(m->graph, n->inputs[2])->rows;
}

static void choose_experts(const opennpu_lower_model *m, const tv_graph_node *n, uint32_t row, const float *logits,
                           routes *out)
{
    uint32_t *chosen = out->chosen + (size_t)row * out->used;
    float *weights = out->weights + (size_t)row * out->used;
    if (!m->timing)
        tv_operator_route(logits, expert_count(m, n), out->used, n->attrs.normalize, chosen, weights);
    for (uint32_t i = 0; i < out->used && m->timing; i++) {
        chosen[i] = i;
        weights[i] = 1 / (float)out->used;
    }
}

/* Ends the program and chooses the experts of out->rows tokens. The logits at `at` have `lanes` words for each expert.
 * False: an error, which is in the emitter; nothing is allocated. */
static bool find_routes(opennpu_lower_model *m, const tv_graph_node *n, uint64_t at, uint32_t lanes, routes *out)
{
    uint32_t experts = expert_count(m, n);
    if (!opennpu_lower_restart(m, n->block))
        return false;
    size_t words = (size_t)experts * lanes, entries = (size_t)out->rows * out->used;
    float *logits = malloc(words * sizeof *logits), *row = malloc(experts * sizeof *row);
    out->chosen = malloc(entries * sizeof *out->chosen);
    out->weights = malloc(entries * sizeof *out->weights);
    bool allocated = logits && row && out->chosen && out->weights;
    tv_status status = allocated ? TV_OK : tv_fail_memory(m->sink);
    if (status == TV_OK && !m->timing)
        status = tv_machine_read(m->machine, "mem", at, logits, words * sizeof *logits, m->sink);
    for (uint32_t r = 0; r < out->rows && status == TV_OK; r++) {
        for (uint32_t i = 0; i < experts && !m->timing; i++)
            row[i] = logits[(size_t)i * lanes + r];
        choose_experts(m, n, r, row, out);
    }
    free(row);
    free(logits);
    opennpu_lower_count_host_op(m, "route to experts", (uint64_t)out->rows * experts);
    m->e.status = status;
    if (status == TV_OK)
        return true;
    free(out->chosen);
    free(out->weights);
    return false;
}

static void free_routes(routes *r)
{
    free(r->chosen);
    free(r->weights);
}

/* VR 0 = the absmax of vectors, lane by lane. */
static void emit_absmax(opennpu_lower_emitter *e, uint64_t at, uint32_t vectors)
{
    for (uint32_t c = 0; c < vectors; c++) {
        unsigned reg = c ? 1 + c % 3 : 0;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_W, at + (uint64_t)c * 4 * e->k);
        opennpu_lower_emit(e, OPENNPU_VFABS, reg, reg, 0);
        if (c)
            opennpu_lower_emit(e, OPENNPU_VFMAX, 0, 0, reg);
    }
}

/* Stores the unit of values whose absmax is VR 0, and leaves its reciprocal in VR 7. */
static void emit_unit(opennpu_lower_emitter *e, uint64_t unit)
{
    opennpu_lower_set(e, 1, tv_f32_bits(1e-30F)); /* all zeros */
    opennpu_lower_emit(e, OPENNPU_VFMAX, 0, 0, 1);
    opennpu_lower_set(e, 1, tv_f32_bits(1 / 32000.0F));
    opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 1);
    opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, unit);
    opennpu_lower_reciprocal(e, 1);
    opennpu_lower_emit_vr(e, OPENNPU_VOR, 7, 1, 1);
}

/* out (+)= product * VR 7 */
static void emit_weighted(opennpu_lower_emitter *e, uint64_t product, uint64_t out, uint32_t vectors, bool first)
{
    for (uint32_t c = 0; c < vectors; c++) {
        unsigned reg = c % 2 * 2;
        uint64_t at = (uint64_t)c * 4 * e->k;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_W, product + at);
        if (first) {
            opennpu_lower_emit(e, OPENNPU_VFMUL, reg, reg, 7);
        } else {
            opennpu_lower_load(e, OPENNPU_VR, reg + 1, OPENNPU_LOWER_VR_X, out + at);
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, reg, reg, 7, reg + 1);
        }
        opennpu_lower_store(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, out + at);
    }
}

/* ---- A token ---- */

static void emit_token_expert(opennpu_lower_token *tok, const tv_graph_node *n, const opennpu_lower_expert *expert,
                              float weight, bool first)
{
    opennpu_lower_emitter *e = tok->e;
    const opennpu_lower_node *own = opennpu_lower_node_of(tok->m, n);
    const opennpu_lower_moe *moe = &own->moe;
    uint64_t inner[] = {moe->gate, moe->up}, product[] = {moe->product};
    uint32_t vectors = opennpu_lower_chunks(tok->m, hidden_columns(tok->m, n));
    opennpu_lower_token_products(tok, &expert->in, &opennpu_lower_token_value(tok, n->inputs[0])->packs, inner, 0);
    opennpu_lower_apply(e, opennpu_lower_function_of_activation(n->attrs.activation),
                        &(opennpu_lower_apply_job){moe->gate, moe->gate, moe->up, vectors});
    emit_absmax(e, moe->gate, vectors);
    opennpu_lower_emit_sized(e, OPENNPU_VRMAX, OPENNPU_VR, 0, 0, 0); /* non-negative numbers compare like their bits */
    emit_unit(e, moe->unit);
    opennpu_lower_token_pack_scaled(tok, moe->gate, 0, &own->hidden_packs);
    opennpu_lower_token_products(tok, &expert->down, &own->hidden_packs, product, 0);
    opennpu_lower_load(e, OPENNPU_VR, 6, OPENNPU_LOWER_VR_W, moe->unit);
    opennpu_lower_set(e, 7, tv_f32_bits(weight));
    opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 7, 6);
    emit_weighted(e, moe->product, opennpu_lower_token_value(tok, n->output)->at,
                  opennpu_lower_token_chunks(tok, n->output), first);
}

void opennpu_lower_token_experts(opennpu_lower_token *tok, const tv_graph_node *n)
{
    routes r = {.rows = 1, .used = n->attrs.experts_used};
    const opennpu_lower_expert *experts = opennpu_lower_node_of(tok->m, n)->experts;
    if (!find_routes(tok->m, n, opennpu_lower_token_value(tok, n->inputs[1])->at, 1, &r))
        return;
    for (uint32_t i = 0; i < r.used; i++)
        emit_token_expert(tok, n, &experts[r.chosen[i]], r.weights[i], i == 0);
    free_routes(&r);
    opennpu_lower_token_pack(tok, n->output);
}

/* ---- A batch ---- */

/* Planes of the hidden values, scaled by VR 7. */
static void emit_hidden_planes(opennpu_lower_batch *b, uint64_t from, uint64_t planes, uint32_t columns)
{
    opennpu_lower_set(b->e, 6, OPENNPU_CONST_BYTE_HALF);
    for (uint32_t c = 0; c < columns; c++) {
        opennpu_lower_load(b->e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, from + c * b->vector);
        opennpu_lower_emit(b->e, OPENNPU_VFMUL, 2, 2, 7);
        opennpu_lower_batch_store_planes(b, true, 2, 6, opennpu_lower_batch_plane_addr(b, planes, columns, c, 0));
    }
}

/* `factors`: a vector with the weight of the expert for each token. */
static void emit_batch_expert(opennpu_lower_batch *b, const tv_graph_node *n, const opennpu_lower_expert *expert,
                              uint64_t factors, bool first)
{
    opennpu_lower_emitter *e = b->e;
    const opennpu_lower_node *own = opennpu_lower_node_of(b->m, n);
    const opennpu_lower_moe *moe = &own->batch_moe;
    uint32_t hidden = hidden_columns(b->m, n), blocks = expert->in.blocks / 2;
    uint64_t planes = opennpu_lower_batch_value(b, n->inputs[0])->planes;
    opennpu_lower_batch_slice(b, &expert->in,
                              (opennpu_lower_slice){.blocks = blocks, .planes = planes, .out = moe->gate});
    opennpu_lower_batch_slice(
        b, &expert->in, (opennpu_lower_slice){.first = blocks, .blocks = blocks, .planes = planes, .out = moe->up});
    opennpu_lower_apply(e, opennpu_lower_function_of_activation(n->attrs.activation),
                        &(opennpu_lower_apply_job){moe->gate, moe->gate, moe->up, hidden});
    emit_absmax(e, moe->gate, hidden);
    emit_unit(e, moe->unit);
    emit_hidden_planes(b, moe->gate, own->hidden_planes, hidden);
    opennpu_lower_batch_slice(
        b, &expert->down,
        (opennpu_lower_slice){.blocks = expert->down.blocks, .planes = own->hidden_planes, .out = moe->product});
    opennpu_lower_load(e, OPENNPU_VR, 6, OPENNPU_LOWER_VR_W, moe->unit);
    opennpu_lower_load(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_W, factors);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 7, 6);
    emit_weighted(e, moe->product, opennpu_lower_batch_value(b, n->output)->batch,
                  opennpu_lower_batch_columns(b, n->output), first);
}

/* Weights of an expert for the tokens of a batch, [K]; false: no token chose it. */
static bool find_factors(const routes *r, uint32_t expert, uint32_t k, float *factors)
{
    bool used = false;
    memset(factors, 0, k * sizeof *factors);
    for (uint32_t i = 0; i < r->rows * r->used; i++)
        if (r->chosen[i] == expert) {
            factors[i / r->used] = r->weights[i];
            used = true;
        }
    return used;
}

void opennpu_lower_batch_experts(opennpu_lower_batch *b, const tv_graph_node *n)
{
    routes r = {.rows = b->rows, .used = n->attrs.experts_used};
    const opennpu_lower_node *own = opennpu_lower_node_of(b->m, n);
    float factors[64];
    bool first = true;
    if (!find_routes(b->m, n, opennpu_lower_batch_value(b, n->inputs[1])->batch, b->m->k, &r))
        return;
    for (uint32_t i = 0; i < expert_count(b->m, n); i++)
        if (find_factors(&r, i, b->m->k, factors)) {
            uint64_t at = own->factors + i * b->vector;
            tv_builder_data(&b->e->program, at, factors, (size_t)b->vector);
            emit_batch_expert(b, n, &own->experts[i], at, first);
            first = false;
        }
    free_routes(&r);
    opennpu_lower_batch_planes(b, n->output);
}
