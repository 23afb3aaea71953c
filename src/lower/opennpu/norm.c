/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of a token, whose elements are lanes, and of a batch, whose elements are vectors. */
#include "lower/opennpu/batch.h"
#include "lower/opennpu/token.h"

/* ---- A token ---- */

/* Consecutive elements in memory, from the first lane of a vector on. */
typedef struct span {
    uint64_t at;
    uint32_t elements;
    uint64_t mask; /* vector that selects lanes; 0: all */
} span;

/* VR 0 = the sum, lane by lane, of the elements, or of their squares. */
static void emit_lane_sums(opennpu_lower_token *tok, span x, bool squares)
{
    opennpu_lower_emitter *e = tok->e;
    uint32_t chunks = opennpu_lower_chunks(tok->m, x.elements), tail = x.elements % e->k;
    for (uint32_t c = 0; c < chunks; c++) {
        unsigned reg = squares || c ? 1 + c % 2 : 0;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, x.at + c * opennpu_lower_vector_bytes(tok->m));
        if (tail && c + 1 == chunks) {
            opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W, tok->m->lane_mask + (uint64_t)(e->k - tail) * 4);
            opennpu_lower_emit(e, OPENNPU_VFMUL, reg, reg, 3);
        }
        if (c && squares)
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, 0, reg, reg, 0);
        else if (squares)
            opennpu_lower_emit(e, OPENNPU_VFMUL, 0, reg, reg);
        else if (c)
            opennpu_lower_emit(e, OPENNPU_VFADD, 0, 0, reg);
    }
    if (x.mask) {
        opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_W, x.mask);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 1);
    }
}

void opennpu_lower_token_sum(opennpu_lower_token *tok, uint64_t at, uint32_t elements)
{
    emit_lane_sums(tok, (span){.at = at, .elements = elements}, false);
    opennpu_lower_sum_lanes(tok->e, true);
}

/* VR 7 = the factor that normalizes the elements of a group of `size`. */
static void emit_scale(opennpu_lower_token *tok, span x, uint32_t size, float epsilon)
{
    emit_lane_sums(tok, x, true);
    opennpu_lower_sum_lanes(tok->e, false);
    opennpu_lower_rsqrt_mean(tok->e, size, epsilon);
}

/* out = x * VR 7 * gains (+ bias) */
static void emit_normalized(opennpu_lower_token *tok, const opennpu_lower_norm_job *job)
{
    opennpu_lower_emitter *e = tok->e;
    uint64_t vector = opennpu_lower_vector_bytes(tok->m);
    for (uint32_t c = 0; c < opennpu_lower_chunks(tok->m, job->elements); c++) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, job->x + c * vector);
        opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W, job->gains + c * vector);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 7);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 3);
        if (job->bias) {
            opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W, job->bias + c * vector);
            opennpu_lower_emit(e, OPENNPU_VFADD, 2, 2, 3);
        }
        opennpu_lower_store(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, job->out + c * vector);
    }
}

/* out = x - mean(x) */
static void emit_centered(opennpu_lower_token *tok, const opennpu_lower_norm_job *job)
{
    opennpu_lower_emitter *e = tok->e;
    opennpu_lower_token_sum(tok, job->x, job->elements);
    opennpu_lower_set(e, 1, tv_f32_bits(1 / (float)job->elements));
    opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 0, 1);
    for (uint32_t c = 0; c < opennpu_lower_chunks(tok->m, job->elements); c++) {
        opennpu_lower_load(e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_W, job->x + c * opennpu_lower_vector_bytes(tok->m));
        opennpu_lower_emit(e, OPENNPU_VFSUB, c % 4, c % 4, 7);
        opennpu_lower_store(e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_X,
                            job->out + c * opennpu_lower_vector_bytes(tok->m));
    }
}

void opennpu_lower_token_norm_group(opennpu_lower_token *tok, const tv_graph_node *n, opennpu_lower_norm_job job)
{
    if (n->attrs.subtract_mean) {
        emit_centered(tok, &job);
        job.x = job.out;
    }
    emit_scale(tok, (span){.at = job.x, .elements = job.elements}, job.elements, n->attrs.epsilon);
    emit_normalized(tok, &job);
}

/* A chunk holds the lanes of several heads: the scale of each fills its lanes of VR 7. */
static void emit_masked_scales(opennpu_lower_token *tok, const tv_graph_node *n, uint64_t x, uint32_t heads)
{
    opennpu_lower_emitter *e = tok->e;
    for (uint32_t h = 0; h < heads; h++) {
        uint64_t mask = tok->m->head_masks + h * opennpu_lower_vector_bytes(tok->m);
        emit_scale(tok, (span){x, e->k, mask}, tok->m->head_dim, n->attrs.epsilon);
        opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_W, mask);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 7, 1);
        if (h) {
            opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, tok->m->scale);
            opennpu_lower_emit(e, OPENNPU_VFADD, 7, 7, 2);
        }
        opennpu_lower_store(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, tok->m->scale);
    }
}

/* Queries or keys, in the order of pairs: chunks that are part of a head, or that are several heads. */
static void emit_head_norm(opennpu_lower_token *tok, const tv_graph_node *n, opennpu_lower_norm_job job)
{
    uint32_t k = tok->m->k, size = tok->m->head_dim, step = size > k ? size : k;
    for (uint32_t first = 0; first < opennpu_lower_columns(tok->m, n->output); first += step) {
        opennpu_lower_norm_job one = {job.x + (uint64_t)first * 4, job.gains + (uint64_t)first * 4, 0,
                                      job.out + (uint64_t)first * 4, step};
        if (size < k)
            emit_masked_scales(tok, n, one.x, k / size);
        else
            emit_scale(tok, (span){.at = one.x, .elements = step}, size, n->attrs.epsilon);
        emit_normalized(tok, &one);
    }
}

void opennpu_lower_token_norm(opennpu_lower_token *tok, const tv_graph_node *n)
{
    const opennpu_lower_node *own = opennpu_lower_node_of(tok->m, n);
    const opennpu_lower_value *out = opennpu_lower_token_value(tok, n->output);
    uint32_t columns = opennpu_lower_columns(tok->m, n->output), size = opennpu_lower_group_size(tok->m, n);
    opennpu_lower_norm_job job = {opennpu_lower_token_value(tok, n->inputs[0])->at, own->gains, own->bias, out->at,
                                  size};
    if (!out->stored) {
        emit_scale(tok, (span){.at = job.x, .elements = size}, size, n->attrs.epsilon);
        opennpu_lower_token_pack_scaled(tok, job.x, job.gains, &out->packs);
        return;
    }
    if (out->order.heads) {
        emit_head_norm(tok, n, job);
    } else {
        for (uint32_t group = 0; group < columns / size; group++) {
            uint64_t at = (uint64_t)group * size * 4;
            opennpu_lower_token_norm_group(
                tok, n,
                (opennpu_lower_norm_job){job.x + at, job.gains + at, job.bias ? job.bias + at : 0, job.out + at, size});
        }
    }
    opennpu_lower_token_pack(tok, n->output);
}

/* ---- A batch ---- */

/* Lane of column `i` of group `group`: queries and keys are in the order of pairs. */
static uint32_t group_lane(const opennpu_lower_batch *b, const tv_graph_node *n, uint32_t group, uint32_t i)
{
    uint32_t size = opennpu_lower_group_size(b->m, n);
    return b->m->values[n->output].order.heads ? opennpu_lower_rope_lane(b->m, group, i) : group * size + i;
}

/* VR 0 = the sum of a group's channels at `x`, or of their squares. */
static void emit_channel_sum(opennpu_lower_batch *b, const tv_graph_node *n, uint32_t group, uint64_t x, bool squares)
{
    opennpu_lower_emitter *e = b->e;
    uint32_t size = opennpu_lower_group_size(b->m, n);
    for (uint32_t c = 0; c < size; c++) {
        unsigned reg = squares || c ? 1 + c % 3 : 0;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, x + group_lane(b, n, group, c) * b->vector);
        if (c && squares)
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, 0, reg, reg, 0);
        else if (squares)
            opennpu_lower_emit(e, OPENNPU_VFMUL, 0, reg, reg);
        else if (c)
            opennpu_lower_emit(e, OPENNPU_VFADD, 0, 0, reg);
    }
}

/* out = x - mean(x) */
static void emit_centered_channels(opennpu_lower_batch *b, const tv_graph_node *n, uint32_t group, uint64_t x,
                                   uint64_t out)
{
    opennpu_lower_emitter *e = b->e;
    uint32_t size = opennpu_lower_group_size(b->m, n);
    emit_channel_sum(b, n, group, x, false);
    opennpu_lower_set(e, 1, tv_f32_bits(1 / (float)size));
    opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 0, 1);
    for (uint32_t c = 0; c < size; c++) {
        uint64_t at = group_lane(b, n, group, c) * b->vector;
        opennpu_lower_load(e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_W, x + at);
        opennpu_lower_emit(e, OPENNPU_VFSUB, c % 4, c % 4, 7);
        opennpu_lower_store(e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_X, out + at);
    }
}

/* VR 0 = a word of a vector of constants, in all lanes, through VR 1. */
static void load_constant(opennpu_lower_batch *b, uint64_t at, uint32_t lane)
{
    opennpu_lower_access_lane0(b->e, OPENNPU_LD_W, 0, 1, at + (uint64_t)lane * 4);
    opennpu_lower_emit_sized(b->e, OPENNPU_BCAST_REG, OPENNPU_VR, 0, 0, 0);
}

/* One group: the scale from the sum of squares of its channels, then its channels, as planes or as vectors. */
static void emit_group_norm(opennpu_lower_batch *b, const tv_graph_node *n, uint32_t group)
{
    opennpu_lower_emitter *e = b->e;
    const opennpu_lower_value *out = opennpu_lower_batch_value(b, n->output);
    const opennpu_lower_node *own = opennpu_lower_node_of(b->m, n);
    uint64_t x = opennpu_lower_batch_value(b, n->inputs[0])->batch;
    uint32_t columns = opennpu_lower_batch_columns(b, n->output), size = opennpu_lower_group_size(b->m, n);
    if (n->attrs.subtract_mean) {
        emit_centered_channels(b, n, group, x, out->batch);
        x = out->batch;
    }
    emit_channel_sum(b, n, group, x, true);
    opennpu_lower_rsqrt_mean(e, size, n->attrs.epsilon);
    opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
    for (uint32_t c = 0; c < size; c++) {
        uint32_t lane = group_lane(b, n, group, c);
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, x + lane * b->vector);
        opennpu_lower_access_lane0(e, OPENNPU_LD_W, 0, 1, own->gains + (uint64_t)lane * 4);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 7);
        opennpu_lower_emit_sized(e, OPENNPU_BCAST_REG, OPENNPU_VR, 0, 0, 0);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 0);
        if (own->bias) {
            load_constant(b, own->bias, lane);
            opennpu_lower_emit(e, OPENNPU_VFADD, 2, 2, 0);
        }
        if (out->stored)
            opennpu_lower_store(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, out->batch + lane * b->vector);
        else
            opennpu_lower_batch_store_planes(b, true, 2, 6,
                                             opennpu_lower_batch_plane_addr(b, out->planes, columns, lane, 0));
    }
}

void opennpu_lower_batch_norm(opennpu_lower_batch *b, const tv_graph_node *n)
{
    uint32_t groups = opennpu_lower_batch_columns(b, n->output) / opennpu_lower_group_size(b->m, n);
    for (uint32_t group = 0; group < groups; group++)
        emit_group_norm(b, n, group);
    if (opennpu_lower_batch_value(b, n->output)->stored)
        opennpu_lower_batch_planes(b, n->output);
}
