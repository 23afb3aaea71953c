/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of up to K tokens at once. A vector has one lane per token, and there is one vector per channel, so norms
 * and softmax are sums of vectors, and every product of the array is useful: operand a holds an activation of all
 * tokens, operand b a column of K rows of weights, keys or values. 16-bit activations are multiplied in two passes, low
 * bytes and high bytes. Weights, keys and values are stored as for a single token. */
#include "lower/opennpu/layout.h"

typedef struct batch {
    opennpu_lower_model *m;
    opennpu_lower_emitter *e;
    opennpu_lower_product *list;
    const int32_t *tokens;
    uint32_t rows, position, first_logits_row;
    uint64_t vector;
} batch;

static opennpu_lower_value *value_of(const batch *b, uint32_t value) { return &b->m->values[value]; }

static uint32_t columns_of(const batch *b, uint32_t value) { return opennpu_lower_columns(b->m, value); }

/* ---- Planes ---- */

/* Address of a channel's plane. Channels K apart are adjacent because they belong to one register of weights. */
static uint64_t plane_addr(const batch *b, uint64_t planes, uint32_t columns, uint32_t column, uint32_t high)
{
    uint32_t k = b->m->k, chunks = opennpu_lower_chunks(b->m, columns);
    return planes + (((uint64_t)(column % k) * chunks + column / k) * 2 + high) * k;
}

/* Stores VR `from`, in units of the next product's input, to two planes. VR `half` must hold BYTE_HALF. Clobbers VR
 * 3. */
static void store_planes(batch *b, bool is_float, unsigned from, unsigned half, uint64_t at)
{
    opennpu_lower_emitter *e = b->e;
    unsigned low = opennpu_lower_reg(3, OPENNPU_VX);
    if (is_float)
        opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, from, from, 0);
    opennpu_lower_emit_vr(e, OPENNPU_VADD, from, from, half);
    opennpu_lower_emit(e, OPENNPU_VCVT_S16_S32, opennpu_lower_reg(3, OPENNPU_VE), from, 0);
    opennpu_lower_emit_sized(e, OPENNPU_VXOR, OPENNPU_VX, low, low, opennpu_lower_reg(half, OPENNPU_VX));
    opennpu_lower_store(e, OPENNPU_VX, low + 1, OPENNPU_LOWER_VR_X, at + b->m->k);
    opennpu_lower_store(e, OPENNPU_VX, low, OPENNPU_LOWER_VR_X, at);
}

/* ---- Products ---- */

/* How the columns of ACC are consumed. `consume` finds the column in VR 7, as FP32 or as integers, and may use VR 0, 2
 * and 3. */
typedef struct column_job {
    uint32_t count, skipped; /* columns, and the number of leading columns that are not needed */
    void (*prefetch)(batch *b, const struct column_job *job, uint32_t column); /* issues loads for `consume`, or NULL */
    void (*consume)(batch *b, const struct column_job *job, uint32_t column);
    uint64_t scale, bias, add, out, stride; /* for `consume` */
    uint64_t planes;                        /* of attention output */
    uint32_t columns;                       /* of these */
    uint32_t first;
    bool integers;
} column_job;

/* Drains the columns. The sums of the low bytes are kept in memory for the second pass. VR 1 is 256, or the shift 8. */
static void drain_columns(batch *b, const column_job *job, uint32_t high)
{
    opennpu_lower_emitter *e = b->e;
    if (high)
        opennpu_lower_set(e, 1, job->integers ? OPENNPU_CONST_SHIFT_8 : OPENNPU_CONST_F_256);
    for (uint32_t c = 0; c < job->count; c++) {
        unsigned reg = high ? 6 : 6 + c % 2;
        opennpu_lower_emit(e, OPENNPU_MMA_LAST, reg, 0, 0);
        if (c < job->skipped)
            continue;
        if (!high) {
            opennpu_lower_store(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_W, b->m->batch_sums + c * b->vector);
            continue;
        }
        opennpu_lower_load(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_W, b->m->batch_sums + c * b->vector);
        if (job->prefetch)
            job->prefetch(b, job, c);
        if (job->integers) {
            opennpu_lower_emit_vr(e, OPENNPU_VSLL, 6, 6, 1);
            opennpu_lower_emit_vr(e, OPENNPU_VADD, 7, 7, 6);
        } else {
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 6, 6, 0);
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 7, 7, 0);
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, 7, 6, 1, 7);
        }
        job->consume(b, job, c);
    }
}

/* Multiplies and drains twice. `list` has the products with the low bytes; the high bytes are K bytes after them. */
static void multiply_two_passes(batch *b, size_t count, const column_job *job)
{
    for (uint32_t high = 0; high < 2; high++) {
        for (size_t i = 0; i < count && high; i++)
            b->list[i].x += b->m->k;
        opennpu_lower_accumulate(b->e, b->list, count);
        drain_columns(b, job, high);
    }
}

/* The products of one block of a linear. */
static size_t block_products(batch *b, const opennpu_lower_linear *w, uint64_t planes, uint32_t block, bool transposed)
{
    uint32_t blocks_per_drain = b->m->e.period / 2, first = block / blocks_per_drain * blocks_per_drain,
             count = w->blocks - first < blocks_per_drain ? w->blocks - first : blocks_per_drain;
    opennpu_lower_input input = {(uint64_t)1 << 20, w->columns};
    size_t all = opennpu_lower_linear_products(b->m, w, &input, first, count, b->list), kept = 0;
    for (size_t i = 0; i < all; i++)
        if (b->list[i].block == block) {
            opennpu_lower_product p = b->list[i];
            p.x = plane_addr(b, planes, w->columns, p.column, 0);
            p.x_stride = (uint16_t)(2 * b->m->k);
            p.transposed = transposed;
            b->list[kept++] = p;
        }
    return kept;
}

/* The scale is addressed by VR 3 and the addend by VR 2, so that they do not change the base registers of other
 * accesses. */
static void load_row_scale(batch *b, const column_job *job, uint32_t c)
{
    opennpu_lower_access_lane0(b->e, OPENNPU_LD_W, 0, 3, job->scale + (uint64_t)c * 4);
}

static void store_channel(batch *b, const column_job *job, uint32_t c)
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

static void emit_linear(batch *b, const opennpu_lower_linear *w, linear_slice slice)
{
    uint64_t each = b->m->k * b->vector;
    for (uint32_t i = 0; i < slice.blocks; i++) {
        uint32_t block = slice.first + i;
        size_t count = block_products(b, w, slice.planes, block, true);
        multiply_two_passes(b, count,
                            &(column_job){.count = b->m->k,
                                          .prefetch = load_row_scale,
                                          .consume = store_channel,
                                          .scale = w->scales + block * b->vector,
                                          .bias = w->bias ? w->bias + block * b->vector : 0,
                                          .add = slice.add ? slice.add + i * each : 0,
                                          .out = slice.out + i * each});
    }
}

/* Epilogues of one token's block of rows. */
static void load_block_scales(batch *b, const column_job *job, uint32_t c)
{
    (void)c;
    opennpu_lower_load(b->e, OPENNPU_VR, 0, 3, job->scale);
}

static void store_value(batch *b, const column_job *job, uint32_t c)
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

static void store_logits(batch *b, const column_job *job, uint32_t c)
{
    opennpu_lower_emit(b->e, OPENNPU_VFMUL, 7, 7, 0);
    opennpu_lower_store(b->e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, job->out + c * job->stride);
}

/* Transposed: the rows of the array are rows of weights, so a token's values are adjacent. `first` is the first block
 * of the values' weights. */
static void emit_values(batch *b, const opennpu_lower_linear *w, uint32_t first, uint64_t planes, uint32_t cache)
{
    for (uint32_t c = 0; c < b->m->kv_chunks; c++) {
        uint32_t block = first + c;
        size_t count = block_products(b, w, planes, block, false);
        multiply_two_passes(
            b, count,
            &(column_job){.count = b->rows,
                          .prefetch = load_block_scales,
                          .consume = store_value,
                          .scale = w->scales + block * b->vector,
                          .bias = w->bias ? w->bias + block * b->vector : 0,
                          .out = b->m->caches[cache].values + (uint64_t)b->position * b->m->v_stride + c * b->m->k,
                          .stride = b->m->v_stride});
    }
}

static void emit_logits(batch *b, const opennpu_lower_linear *w, uint64_t planes)
{
    for (uint32_t i = 0; i < w->blocks; i++) {
        size_t count = block_products(b, w, planes, i, false);
        multiply_two_passes(b, count,
                            &(column_job){.count = b->rows,
                                          .skipped = b->first_logits_row,
                                          .prefetch = load_block_scales,
                                          .consume = store_logits,
                                          .scale = w->scales + i * b->vector,
                                          .out = b->m->batch_logits + i * b->vector,
                                          .stride = w->blocks * b->vector});
    }
}

/* Makes planes of a value, if products read it. */
static void plane_value(batch *b, uint32_t value)
{
    opennpu_lower_emitter *e = b->e;
    const opennpu_lower_value *v = value_of(b, value);
    uint32_t columns = columns_of(b, value);
    if (!v->packed)
        return;
    opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
    if (v->unit != v->pack_unit)
        opennpu_lower_set(e, 7, tv_f32_bits(v->unit / v->pack_unit));
    for (uint32_t c = 0; c < columns; c++) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, v->batch + c * b->vector);
        if (v->unit != v->pack_unit)
            opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 7);
        store_planes(b, true, 2, 6, plane_addr(b, v->planes, columns, c, 0));
    }
}

/* ---- Norms ---- */

/* Lane of column `i` of group `group`: groups are heads in the order of pairs, or the whole value. */
static uint32_t group_lane(const batch *b, const tv_graph_node *n, uint32_t group, uint32_t i)
{
    return n->attrs.groups > 1 ? opennpu_lower_rope_lane(b->m, group, i) : i;
}

/* One group: the sum of squares of its channels, then its channels, as planes or as vectors. */
static void emit_group_norm(batch *b, const tv_graph_node *n, uint32_t group)
{
    opennpu_lower_emitter *e = b->e;
    const opennpu_lower_value *out = value_of(b, n->output);
    uint64_t x = value_of(b, n->inputs[0])->batch, gains = opennpu_lower_node_of(b->m, n)->gains;
    uint32_t columns = columns_of(b, n->output), size = columns / n->attrs.groups;
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
            store_planes(b, true, 2, 6, plane_addr(b, out->planes, columns, lane, 0));
    }
}

static void emit_norm(batch *b, const tv_graph_node *n)
{
    for (uint32_t group = 0; group < n->attrs.groups; group++)
        emit_group_norm(b, n, group);
    if (value_of(b, n->output)->stored)
        plane_value(b, n->output);
}

/* ---- Element by element ---- */

/* A sum of two values, or a product with a constant. */
static void emit_binary(batch *b, const tv_graph_node *n)
{
    opennpu_lower_emitter *e = b->e;
    bool sum = n->op == TV_OP_ADD;
    uint64_t x = value_of(b, n->inputs[0])->batch, out = value_of(b, n->output)->batch,
             second = sum ? value_of(b, n->inputs[1])->batch : opennpu_lower_node_of(b->m, n)->gains;
    for (uint32_t c = 0; c < columns_of(b, n->output); c++) {
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
    plane_value(b, n->output);
}

/* ---- Attention ---- */

/* Rotates the pair of channels at `first` and K/2 vectors after it into VR 2 and 7. */
static void emit_rope(batch *b, uint32_t angles, uint64_t first, uint32_t pair)
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
static uint64_t unrotated(const batch *b, uint32_t value)
{
    const tv_graph_node *n = tv_graph_node_at(b->m->graph, tv_graph_value_at(b->m->graph, value)->producer);
    return value_of(b, n->op == TV_OP_ROTARY_EMBEDDING ? n->inputs[0] : value)->batch;
}

static void emit_query_planes(batch *b, const tv_graph_node *n)
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
            store_planes(b, true, 2, 6, planes);
            store_planes(b, true, 7, 6, planes + (uint64_t)half * 2 * k);
        }
}

/* The lanes are positions, as in the KV cache. */
static void emit_keys(batch *b, const tv_graph_node *n)
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

/* Scores of one key with all tokens. The block of the tokens' own positions is masked causally. */
static void store_scores(batch *b, const column_job *job, uint32_t c)
{
    if (job->add) {
        opennpu_lower_load(b->e, OPENNPU_VR, 0, 2, job->add - (uint64_t)c * 4);
        opennpu_lower_emit_vr(b->e, OPENNPU_VMIN, 7, 7, 0);
    }
    opennpu_lower_store(b->e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, job->out + c * b->vector);
}

static void emit_scores(batch *b, uint32_t cache, uint32_t head)
{
    const opennpu_lower_model *s = b->m;
    uint32_t k = b->m->k, own = b->position / k;
    for (uint32_t block = 0; block <= own; block++) {
        uint64_t keys = opennpu_lower_key_block_addr(b->m, cache, head / (s->heads / s->kv_heads), block),
                 q = b->m->q_planes + (uint64_t)head * s->head_dim * 2 * k;
        for (uint32_t i = 0; i < s->head_dim; i++)
            b->list[i] =
                (opennpu_lower_product){keys + (uint64_t)i * k, q + (uint64_t)i * 2 * k, i, 0, 0, OPENNPU_VX, 1, true};
        multiply_two_passes(b, s->head_dim,
                            &(column_job){.count = block == own ? b->rows : k,
                                          .consume = store_scores,
                                          .add = block == own ? b->m->causal_mask + b->vector : 0,
                                          .out = b->m->batch_scores + (uint64_t)block * k * b->vector,
                                          .integers = true});
    }
}

static void emit_softmax(batch *b, uint32_t score_scale)
{
    opennpu_lower_emitter *e = b->e;
    uint32_t keys = b->position + b->rows;
    opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, b->m->batch_scores);
    for (uint32_t t = 1; t < keys; t++) {
        unsigned reg = 1 + t % 3;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, b->m->batch_scores + t * b->vector);
        opennpu_lower_emit_vr(e, OPENNPU_VMAX, 0, 0, reg);
    }
    opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, b->m->batch_max);
    for (uint32_t t = 0; t < keys; t += 2) {
        unsigned count = keys - t < 2 ? 1 : 2;
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_load(e, OPENNPU_VR, opennpu_lower_arg[v], OPENNPU_LOWER_VR_X,
                               b->m->batch_scores + (t + v) * b->vector);
        opennpu_lower_each_vector(e, count, OPENNPU_VSUB, opennpu_lower_arg, opennpu_lower_arg, b->m->batch_max);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, opennpu_lower_arg[v], opennpu_lower_arg[v], 0);
        opennpu_lower_each_const(e, count, OPENNPU_VFMUL, opennpu_lower_arg, opennpu_lower_arg, score_scale);
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

/* Stores the probabilities as planes, and 256 times the reciprocal of their sums. */
static void emit_prob_planes(batch *b)
{
    opennpu_lower_emitter *e = b->e;
    opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
    opennpu_lower_emit_vr(e, OPENNPU_VXOR, 7, 7, 7);
    for (uint32_t t = 0; t < b->position + b->rows; t++) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, b->m->batch_scores + t * b->vector);
        opennpu_lower_emit_vr(e, OPENNPU_VADD, 7, 7, 2);
        store_planes(b, false, 2, 6, b->m->prob_planes + (uint64_t)t * 2 * b->m->k);
    }
    opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, opennpu_lower_arg[0], 7, 0);
    opennpu_lower_reciprocal(e, 1);
    opennpu_lower_each_const(e, 1, OPENNPU_VFMUL, opennpu_lower_res, opennpu_lower_res, OPENNPU_CONST_F_256);
    opennpu_lower_store(e, OPENNPU_VR, opennpu_lower_res[0], OPENNPU_LOWER_VR_X, b->m->batch_scale);
}

static void store_attn_out(batch *b, const column_job *job, uint32_t c)
{
    opennpu_lower_emit(b->e, OPENNPU_VFMUL, 7, 7, 0);
    opennpu_lower_set(b->e, 2, OPENNPU_CONST_BYTE_HALF);
    store_planes(b, true, 7, 2, plane_addr(b, job->planes, job->columns, job->first + c, 0));
}

static void emit_weighted_sum(batch *b, const tv_graph_node *n, uint32_t head)
{
    const opennpu_lower_model *s = b->m;
    uint32_t kv = head / (s->heads / s->kv_heads), k = b->m->k, keys = b->position + b->rows;
    for (uint32_t at = 0; at < s->head_dim; at += k) {
        uint64_t from = b->m->caches[n->attrs.cache].values + kv * s->head_dim + at;
        for (uint32_t t = 0; t < keys; t++)
            b->list[t] = (opennpu_lower_product){from + (uint64_t)t * b->m->v_stride,
                                                 b->m->prob_planes + (uint64_t)t * 2 * k,
                                                 t,
                                                 0,
                                                 0,
                                                 OPENNPU_VX,
                                                 1,
                                                 true};
        multiply_two_passes(b, keys,
                            &(column_job){.count = s->head_dim - at < k ? s->head_dim - at : k,
                                          .prefetch = load_block_scales,
                                          .consume = store_attn_out,
                                          .scale = b->m->batch_scale,
                                          .planes = value_of(b, n->output)->planes,
                                          .columns = columns_of(b, n->output),
                                          .first = head * s->head_dim + at});
    }
}

static void emit_attention(batch *b, const tv_graph_node *n)
{
    emit_query_planes(b, n);
    if (n->inputs[1] != TV_NO_VALUE)
        emit_keys(b, n);
    for (uint32_t h = 0; h < b->m->heads; h++) {
        emit_scores(b, n->attrs.cache, h);
        emit_softmax(b, opennpu_lower_node_of(b->m, n)->score_scale);
        emit_prob_planes(b);
        emit_weighted_sum(b, n, h);
    }
}

/* ---- Nodes ---- */

/* Transposes the tokens' rows of a table into channel vectors, one number at a time. */
static void emit_gather(batch *b, const tv_graph_node *n)
{
    enum { BATCH = 4 };
    bool by_token = tv_graph_value_at(b->m->graph, n->inputs[1])->source == TV_VALUE_TOKENS;
    uint32_t columns = columns_of(b, n->output);
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
                                           value_of(b, n->output)->batch + (c + i) * b->vector + (uint64_t)t * 4);
        }
    plane_value(b, n->output);
}

/* The Attention whose cache a value goes to, or NULL. */
static const tv_graph_node *reader_of_values(const batch *b, uint32_t value)
{
    for (size_t i = 0; i < b->m->graph->nodes.count; i++) {
        const tv_graph_node *n = &b->m->graph->nodes.data[i];
        if (n->op == TV_OP_ATTENTION && n->inputs[2] == value)
            return n;
    }
    return NULL;
}

static void emit_products(batch *b, const tv_graph_node *n)
{
    const opennpu_lower_node *own = opennpu_lower_node_of(b->m, n);
    const opennpu_lower_linear *w = &own->linear;
    linear_slice slice = {.planes = value_of(b, n->inputs[0])->planes};
    if (n->output == b->m->graph->logits) {
        emit_logits(b, w, slice.planes);
        return;
    }
    for (unsigned i = 0; i < w->weight_count; i++) {
        bool second = n->op == TV_OP_GLU && i;
        const tv_graph_node *attention = n->op == TV_OP_LINEAR ? reader_of_values(b, w->outputs[i]) : NULL;
        slice.blocks = opennpu_lower_chunks(b->m, tv_graph_matrix(b->m->graph, w->matrices[i])->rows);
        slice.out = second ? own->batch_scratch : value_of(b, w->outputs[i])->batch;
        slice.add = n->op == TV_OP_LINEAR && n->inputs[3] != TV_NO_VALUE ? value_of(b, n->inputs[3])->batch : 0;
        if (attention)
            emit_values(b, w, slice.first, slice.planes, attention->attrs.cache);
        else
            emit_linear(b, w, slice);
        if (n->op == TV_OP_LINEAR)
            plane_value(b, w->outputs[i]);
        slice.first += slice.blocks;
    }
}

static void emit_glu(batch *b, const tv_graph_node *n)
{
    emit_products(b, n);
    opennpu_lower_silu_mul(b->e, value_of(b, n->output)->batch, opennpu_lower_node_of(b->m, n)->batch_scratch,
                           columns_of(b, n->output));
    plane_value(b, n->output);
}

/* Rotations happen where queries and keys are used. */
static void emit_nothing(batch *b, const tv_graph_node *n)
{
    (void)b;
    (void)n;
}

static void (*const emitters[TV_OPS])(batch *b, const tv_graph_node *n) = {
    [TV_OP_GATHER] = emit_gather,
    [TV_OP_NORM] = emit_norm,
    [TV_OP_LINEAR] = emit_products,
    [TV_OP_GLU] = emit_glu,
    [TV_OP_ADD] = emit_binary,
    [TV_OP_MUL] = emit_binary,
    [TV_OP_ROTARY_EMBEDDING] = emit_nothing,
    [TV_OP_ATTENTION] = emit_attention,
};

void opennpu_lower_batch(opennpu_lower_model *m, opennpu_lower_product *list, const opennpu_lower_tokens *tokens)
{
    batch b = {.m = m,
               .e = &m->e,
               .list = list,
               .tokens = tokens->tokens,
               .rows = tokens->count,
               .position = tokens->position,
               .first_logits_row = tokens->first_logits_row,
               .vector = opennpu_lower_vector_bytes(m)};
    for (size_t i = 0; i < m->graph->nodes.count; i++) {
        const tv_graph_node *n = &m->graph->nodes.data[i];
        opennpu_lower_label_block(&m->e, n->block);
        if (b.first_logits_row < b.rows || n->block != TV_BLOCK_OUTPUT)
            emitters[n->op](&b, n);
    }
}
