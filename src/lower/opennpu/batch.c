/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions for a batch of tokens: norms, elementwise operators, embeddings, linears. */
#include "lower/opennpu/batch.h"

/* ---- Norms ---- */

/* Lane of column `i` of group `group`: groups are heads in the order of pairs, or the whole value. */
static uint32_t group_lane(const opennpu_lower_batch *b, const tv_graph_node *n, uint32_t group, uint32_t i)
{
    return n->attrs.groups > 1 ? opennpu_lower_rope_lane(b->m, group, i) : i;
}

/* One group: the sum of squares of its channels, then its channels, as planes or as vectors. */
static void emit_group_norm(opennpu_lower_batch *b, const tv_graph_node *n, uint32_t group)
{
    opennpu_lower_emitter *e = b->e;
    const opennpu_lower_value *out = opennpu_lower_batch_value(b, n->output);
    uint64_t x = opennpu_lower_batch_value(b, n->inputs[0])->batch, gains = opennpu_lower_node_of(b->m, n)->gains;
    uint32_t columns = opennpu_lower_batch_columns(b, n->output), size = columns / n->attrs.groups;
    for (uint32_t c = 0; c < size; c++) {
        unsigned reg = 1 + c % 3;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, x + group_lane(b, n, group, c) * b->vector);
        if (c)
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, 0, reg, reg, 0);
        else
            opennpu_lower_emit(e, OPENNPU_VFMUL, 0, reg, reg);
    }
    opennpu_lower_rsqrt_mean(e, size, n->attrs.epsilon);
    opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
    for (uint32_t c = 0; c < size; c++) {
        uint32_t lane = group_lane(b, n, group, c);
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, x + lane * b->vector);
        opennpu_lower_access_lane0(e, OPENNPU_LD_W, 0, 1, gains + (uint64_t)lane * 4);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 7);
        opennpu_lower_emit_sized(e, OPENNPU_BCAST_REG, OPENNPU_VR, 0, 0, 0);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 0);
        if (out->stored)
            opennpu_lower_store(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, out->batch + lane * b->vector);
        else
            opennpu_lower_batch_store_planes(b, true, 2, 6,
                                             opennpu_lower_batch_plane_addr(b, out->planes, columns, lane, 0));
    }
}

void opennpu_lower_batch_norm(opennpu_lower_batch *b, const tv_graph_node *n)
{
    for (uint32_t group = 0; group < n->attrs.groups; group++)
        emit_group_norm(b, n, group);
    if (opennpu_lower_batch_value(b, n->output)->stored)
        opennpu_lower_batch_planes(b, n->output);
}

/* ---- Element by element ---- */

/* A sum of two values, or a product with a constant. */
void opennpu_lower_batch_binary(opennpu_lower_batch *b, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = b->e;
    bool sum = n->op == TV_OP_ADD;
    uint64_t x = opennpu_lower_batch_value(b, n->inputs[0])->batch,
             out = opennpu_lower_batch_value(b, n->output)->batch,
             second = sum ? opennpu_lower_batch_value(b, n->inputs[1])->batch : opennpu_lower_node_of(b->m, n)->gains;
    for (uint32_t c = 0; c < opennpu_lower_batch_columns(b, n->output); c++) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, x + c * b->vector);
        if (sum) {
            opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_W, second + c * b->vector);
        } else {
            opennpu_lower_access_lane0(e, OPENNPU_LD_W, 0, 1, second + (uint64_t)c * 4);
            opennpu_lower_emit_sized(e, OPENNPU_BCAST_REG, OPENNPU_VR, 0, 0, 0);
        }
        opennpu_lower_emit(e, sum ? OPENNPU_VFADD : OPENNPU_VFMUL, 2, 2, 0);
        opennpu_lower_store(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, out + c * b->vector);
    }
    opennpu_lower_batch_planes(b, n->output);
}

/* ---- Products ---- */

/* The products of one block of a linear. */
static size_t block_products(opennpu_lower_batch *b, const opennpu_lower_linear *w, uint64_t planes, uint32_t block,
                             bool transposed)
{
    uint32_t blocks_per_drain = b->m->e.period / 2, first = block / blocks_per_drain * blocks_per_drain,
             count = w->blocks - first < blocks_per_drain ? w->blocks - first : blocks_per_drain;
    opennpu_lower_input input = {(uint64_t)1 << 20, w->columns};
    size_t all = opennpu_lower_linear_products(b->m, w, &input, first, count, b->list), kept = 0;
    for (size_t i = 0; i < all; i++)
        if (b->list[i].block == block) {
            opennpu_lower_product p = b->list[i];
            p.x = opennpu_lower_batch_plane_addr(b, planes, w->columns, p.column, 0);
            p.x_stride = (uint16_t)(2 * b->m->k);
            p.transposed = transposed;
            b->list[kept++] = p;
        }
    return kept;
}

/* The scale is addressed by VR 3 and the addend by VR 2, so that they do not change the base registers of other
 * accesses. */
static void load_row_scale(opennpu_lower_batch *b, const opennpu_lower_column_job *job, uint32_t c)
{
    opennpu_lower_access_lane0(b->e, OPENNPU_LD_W, 0, 3, job->scale + (uint64_t)c * 4);
}

static void store_channel(opennpu_lower_batch *b, const opennpu_lower_column_job *job, uint32_t c)
{
    opennpu_lower_emit_sized(b->e, OPENNPU_BCAST_REG, OPENNPU_VR, 0, 0, 0);
    opennpu_lower_emit(b->e, OPENNPU_VFMUL, 7, 7, 0);
    if (job->bias) {
        opennpu_lower_access_lane0(b->e, OPENNPU_LD_W, 0, 3, job->bias + (uint64_t)c * 4);
        opennpu_lower_emit_sized(b->e, OPENNPU_BCAST_REG, OPENNPU_VR, 0, 0, 0);
        opennpu_lower_emit(b->e, OPENNPU_VFADD, 7, 7, 0);
    }
    if (job->add) {
        opennpu_lower_load(b->e, OPENNPU_VR, 0, 2, job->add + c * b->vector);
        opennpu_lower_emit(b->e, OPENNPU_VFADD, 7, 7, 0);
    }
    opennpu_lower_store(b->e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, job->out + c * b->vector);
}

/* Blocks [first, first + blocks) of a linear: out[channel] (+ add[channel]), with one vector per row of W. */
typedef struct linear_slice {
    uint32_t first, blocks;
    uint64_t planes, add, out;
} linear_slice;

static void emit_slice(opennpu_lower_batch *b, const opennpu_lower_linear *w, linear_slice slice)
{
    uint64_t each = b->m->k * b->vector;
    for (uint32_t i = 0; i < slice.blocks; i++) {
        uint32_t block = slice.first + i;
        size_t count = block_products(b, w, slice.planes, block, true);
        opennpu_lower_batch_multiply(b, count,
                                     &(opennpu_lower_column_job){.count = b->m->k,
                                                                 .prefetch = load_row_scale,
                                                                 .consume = store_channel,
                                                                 .scale = w->scales + block * b->vector,
                                                                 .bias = w->bias ? w->bias + block * b->vector : 0,
                                                                 .add = slice.add ? slice.add + i * each : 0,
                                                                 .out = slice.out + i * each});
    }
}

static void store_value(opennpu_lower_batch *b, const opennpu_lower_column_job *job, uint32_t c)
{
    opennpu_lower_emit(b->e, OPENNPU_VFMUL, 7, 7, 0);
    if (job->bias) {
        opennpu_lower_load(b->e, OPENNPU_VR, 2, 2, job->bias);
        opennpu_lower_emit(b->e, OPENNPU_VFADD, 7, 7, 2);
    }
    opennpu_lower_emit(b->e, OPENNPU_VCVT_S8_F32, opennpu_lower_reg(2, OPENNPU_VX), 7, 0);
    opennpu_lower_store(b->e, OPENNPU_VX, opennpu_lower_reg(2, OPENNPU_VX), OPENNPU_LOWER_VR_X,
                        job->out + c * job->stride);
}

static void store_logits(opennpu_lower_batch *b, const opennpu_lower_column_job *job, uint32_t c)
{
    opennpu_lower_emit(b->e, OPENNPU_VFMUL, 7, 7, 0);
    opennpu_lower_store(b->e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, job->out + c * job->stride);
}

/* Transposed: the rows of the array are rows of weights, so a token's values are adjacent. `first` is the first block
 * of the values' weights. */
static void emit_values(opennpu_lower_batch *b, const opennpu_lower_linear *w, uint32_t first, uint64_t planes,
                        uint32_t cache)
{
    for (uint32_t c = 0; c < b->m->kv_chunks; c++) {
        uint32_t block = first + c;
        size_t count = block_products(b, w, planes, block, false);
        opennpu_lower_batch_multiply(b, count,
                                     &(opennpu_lower_column_job){.count = b->rows,
                                                                 .prefetch = opennpu_lower_batch_load_scales,
                                                                 .consume = store_value,
                                                                 .scale = w->scales + block * b->vector,
                                                                 .bias = w->bias ? w->bias + block * b->vector : 0,
                                                                 .out = b->m->caches[cache].values +
                                                                        (uint64_t)b->position * b->m->v_stride +
                                                                        c * b->m->k,
                                                                 .stride = b->m->v_stride});
    }
}

static void emit_logits(opennpu_lower_batch *b, const opennpu_lower_linear *w, uint64_t planes)
{
    for (uint32_t i = 0; i < w->blocks; i++) {
        size_t count = block_products(b, w, planes, i, false);
        opennpu_lower_batch_multiply(b, count,
                                     &(opennpu_lower_column_job){.count = b->rows,
                                                                 .skipped = b->first_logits_row,
                                                                 .prefetch = opennpu_lower_batch_load_scales,
                                                                 .consume = store_logits,
                                                                 .scale = w->scales + i * b->vector,
                                                                 .out = b->m->batch_logits + i * b->vector,
                                                                 .stride = w->blocks * b->vector});
    }
}

/* ---- Gather and products ---- */

/* Transposes the tokens' rows of a table into channel vectors, one number at a time. */
void opennpu_lower_batch_gather(opennpu_lower_batch *b, const tv_graph_node *n)
{
    enum { BATCH = 4 };
    bool by_token = tv_graph_value_at(b->m->graph, n->inputs[1])->source == TV_VALUE_TOKENS;
    uint32_t columns = opennpu_lower_batch_columns(b, n->output);
    for (uint32_t t = 0; t < b->rows; t++)
        for (uint32_t c = 0; c < columns; c += BATCH) {
            uint64_t index = by_token ? (uint64_t)b->tokens[t] : b->position + t,
                     row = opennpu_lower_node_of(b->m, n)->table +
                           index * opennpu_lower_chunks(b->m, columns) * b->vector;
            unsigned count = columns - c < BATCH ? columns - c : BATCH;
            for (unsigned i = 0; i < count; i++)
                opennpu_lower_access_lane0(b->e, OPENNPU_LD_W, i, OPENNPU_LOWER_VR_W, row + (uint64_t)(c + i) * 4);
            for (unsigned i = 0; i < count; i++)
                opennpu_lower_access_lane0(b->e, OPENNPU_ST_W, i, OPENNPU_LOWER_VR_X,
                                           opennpu_lower_batch_value(b, n->output)->batch + (c + i) * b->vector +
                                               (uint64_t)t * 4);
        }
    opennpu_lower_batch_planes(b, n->output);
}

/* The Attention whose cache a value goes to, or NULL. */
static const tv_graph_node *reader_of_values(const opennpu_lower_batch *b, uint32_t value)
{
    for (size_t i = 0; i < b->m->graph->nodes.count; i++) {
        const tv_graph_node *n = &b->m->graph->nodes.data[i];
        if (n->op == TV_OP_ATTENTION && n->inputs[2] == value)
            return n;
    }
    return NULL;
}

void opennpu_lower_batch_linear(opennpu_lower_batch *b, const tv_graph_node *n)
{
    const opennpu_lower_node *own = opennpu_lower_node_of(b->m, n);
    const opennpu_lower_linear *w = &own->linear;
    linear_slice slice = {.planes = opennpu_lower_batch_value(b, n->inputs[0])->planes};
    if (n->output == b->m->graph->logits) {
        emit_logits(b, w, slice.planes);
        return;
    }
    for (unsigned i = 0; i < w->weight_count; i++) {
        bool second = n->op == TV_OP_GLU && i;
        const tv_graph_node *attention = n->op == TV_OP_LINEAR ? reader_of_values(b, w->outputs[i]) : NULL;
        slice.blocks = opennpu_lower_chunks(b->m, tv_graph_matrix(b->m->graph, w->matrices[i])->rows);
        slice.out = second ? own->batch_scratch : opennpu_lower_batch_value(b, w->outputs[i])->batch;
        slice.add = n->op == TV_OP_LINEAR && n->inputs[3] != TV_NO_VALUE
                        ? opennpu_lower_batch_value(b, n->inputs[3])->batch
                        : 0;
        if (attention)
            emit_values(b, w, slice.first, slice.planes, attention->attrs.cache);
        else
            emit_slice(b, w, slice);
        if (n->op == TV_OP_LINEAR)
            opennpu_lower_batch_planes(b, w->outputs[i]);
        slice.first += slice.blocks;
    }
}

void opennpu_lower_batch_glu(opennpu_lower_batch *b, const tv_graph_node *n)
{
    opennpu_lower_batch_linear(b, n);
    opennpu_lower_silu_mul(b->e, opennpu_lower_batch_value(b, n->output)->batch,
                           opennpu_lower_node_of(b->m, n)->batch_scratch, opennpu_lower_batch_columns(b, n->output));
    opennpu_lower_batch_planes(b, n->output);
}
