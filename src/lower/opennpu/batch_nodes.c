/* SPDX-License-Identifier: Apache-2.0 */
/* Products and embeddings of a batch of tokens. */
#include "lower/opennpu/batch.h"

#include "lower/opennpu/functions.h"

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

void opennpu_lower_batch_slice(opennpu_lower_batch *b, const opennpu_lower_linear *w, opennpu_lower_slice slice)
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
    if (job->bias) {
        opennpu_lower_load(b->e, OPENNPU_VR, 2, 2, job->bias);
        opennpu_lower_emit(b->e, OPENNPU_VFADD, 7, 7, 2);
    }
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
                                                                 .bias = w->bias ? w->bias + i * b->vector : 0,
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

/* What follows a product: an activation, then the residual. */
static void emit_activation(opennpu_lower_batch *b, const tv_graph_node *n, uint64_t at, uint32_t vectors)
{
    opennpu_lower_apply(b->e, opennpu_lower_function_of_activation(n->attrs.activation),
                        &(opennpu_lower_apply_job){.x = at, .out = at, .vectors = vectors});
    if (n->inputs[3] != TV_NO_VALUE)
        opennpu_lower_binary(
            b->e, TV_OP_ADD,
            (opennpu_lower_operand[]){{at, OPENNPU_OPERAND_VECTORS},
                                      {opennpu_lower_batch_value(b, n->inputs[3])->batch, OPENNPU_OPERAND_VECTORS}},
            at, vectors);
}

/* One output of a group of products. */
static void emit_product(opennpu_lower_batch *b, const opennpu_lower_linear *w, uint32_t output,
                         opennpu_lower_slice slice)
{
    const tv_graph_node *n = opennpu_lower_producer(b->m->graph, output), *attention = reader_of_values(b, output);
    if (attention) {
        emit_values(b, w, slice.first, slice.planes, attention->attrs.cache);
        return;
    }
    slice.out = opennpu_lower_batch_value(b, output)->batch;
    if (n->inputs[3] != TV_NO_VALUE && !n->attrs.activation)
        slice.add = opennpu_lower_batch_value(b, n->inputs[3])->batch;
    opennpu_lower_batch_slice(b, w, slice);
    if (n->attrs.activation)
        emit_activation(b, n, slice.out, opennpu_lower_batch_columns(b, output));
    opennpu_lower_batch_planes(b, output);
}

void opennpu_lower_batch_linear(opennpu_lower_batch *b, const tv_graph_node *n)
{
    const opennpu_lower_linear *w = &opennpu_lower_node_of(b->m, n)->linear;
    opennpu_lower_slice slice = {.planes = opennpu_lower_batch_value(b, n->inputs[0])->planes};
    if (opennpu_lower_batch_value(b, n->output)->token_major) {
        emit_logits(b, w, slice.planes);
        if (n->attrs.activation)
            emit_activation(b, n, opennpu_lower_batch_logits(b, b->first_logits_row),
                            (b->rows - b->first_logits_row) * w->blocks);
        return;
    }
    for (unsigned i = 0; i < w->weight_count; i++) {
        slice.blocks = opennpu_lower_chunks(b->m, tv_graph_matrix(b->m->graph, w->matrices[i])->rows);
        emit_product(b, w, w->outputs[i], slice);
        slice.first += slice.blocks;
    }
}

void opennpu_lower_batch_glu(opennpu_lower_batch *b, const tv_graph_node *n)
{
    const opennpu_lower_node *own = opennpu_lower_node_of(b->m, n);
    uint64_t out = opennpu_lower_batch_value(b, n->output)->batch;
    opennpu_lower_slice slice = {
        .blocks = own->linear.blocks / 2, .planes = opennpu_lower_batch_value(b, n->inputs[0])->planes, .out = out};
    opennpu_lower_batch_slice(b, &own->linear, slice);
    slice.first = slice.blocks;
    slice.out = own->batch_scratch;
    opennpu_lower_batch_slice(b, &own->linear, slice);
    opennpu_lower_apply(
        b->e, opennpu_lower_function_of_activation(n->attrs.activation),
        &(opennpu_lower_apply_job){
            .x = out, .out = out, .times = own->batch_scratch, .vectors = opennpu_lower_batch_columns(b, n->output)});
    opennpu_lower_batch_planes(b, n->output);
}
