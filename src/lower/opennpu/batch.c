/* SPDX-License-Identifier: Apache-2.0 */
/* Up to K tokens at once. A vector has a lane for each token and there is one for each channel, so that norms and
 * softmax are sums of vectors and every product of the array counts: a holds an activation of all tokens, b a column of
 * K rows of weights, or of keys or values. Activations of 16 bits are multiplied in two passes, low bytes and high
 * bytes. Weights, keys and values lie in memory as they do for one token. */
#include "lower/opennpu/layout.h"

typedef struct batch {
    npu_model *m;
    npu *n;
    npu_product *list;
    uint32_t rows, position, wanted;
    uint64_t vector;
} batch;

/* ---- Planes ---- */

/* Channels K apart stand side by side, since they are one register of weights. */
static uint64_t plane_of(const batch *b, uint64_t planes, uint32_t columns, uint32_t column, uint32_t high)
{
    uint32_t k = b->m->k, chunks = npu_chunks(b->m, columns);
    return planes + (((uint64_t)(column % k) * chunks + column / k) * 2 + high) * k;
}

/* What VR `from` holds, in units of what is multiplied next, to two planes. VR `half` holds BYTE_HALF. Uses VR 3. */
static void put_planes(batch *b, bool real, unsigned from, unsigned half, uint64_t at)
{
    npu *n = b->n;
    unsigned low = npu_in(3, NPU_VX);
    if (real)
        npu_plain(n, NPU_VCVT_S32_F32, from, from, 0);
    npu_int(n, NPU_VADD, from, from, half);
    npu_plain(n, NPU_VCVT_S16_S32, npu_in(3, NPU_VE), from, 0);
    npu_sized(n, NPU_VXOR, NPU_VX, low, low, npu_in(half, NPU_VX));
    npu_store(n, NPU_VX, low + 1, NPU_X, at + b->m->k);
    npu_store(n, NPU_VX, low, NPU_X, at);
}

/* ---- Products ---- */

/* What becomes of a column of ACC, which is in VR 7 as FP32, or as integers. VR 0, 2 and 3 are for who uses it. */
typedef struct column_job {
    uint32_t count, skipped; /* columns; and of them, that nobody wants */
    void (*ahead)(batch *b, const struct column_job *job, uint32_t column); /* loads for `use`, or NULL */
    void (*use)(batch *b, const struct column_job *job, uint32_t column);
    uint64_t scale, add, out, stride; /* for `use` */
    uint32_t first;
    bool integers;
} column_job;

/* The low bytes' sums wait in memory for the high ones'. VR 1 is 256, or 8 to shift by. */
static void drain_columns(batch *b, const column_job *job, uint32_t high)
{
    npu *n = b->n;
    if (high)
        npu_set(n, 1, job->integers ? NPU_C_SHIFT_8 : NPU_C_F_256);
    for (uint32_t c = 0; c < job->count; c++) {
        unsigned reg = high ? 6 : 6 + c % 2;
        npu_plain(n, NPU_MMA_LAST, reg, 0, 0);
        if (c < job->skipped)
            continue;
        if (!high) {
            npu_store(n, NPU_VR, reg, NPU_W, b->m->batch_sums + c * b->vector);
            continue;
        }
        npu_load(n, NPU_VR, 7, NPU_W, b->m->batch_sums + c * b->vector);
        if (job->ahead)
            job->ahead(b, job, c);
        if (job->integers) {
            npu_int(n, NPU_VSLL, 6, 6, 1);
            npu_int(n, NPU_VADD, 7, 7, 6);
        } else {
            npu_plain(n, NPU_VCVT_F32_S32, 6, 6, 0);
            npu_plain(n, NPU_VCVT_F32_S32, 7, 7, 0);
            npu_fma(n, NPU_VFMA, 7, 6, 1, 7);
        }
        job->use(b, job, c);
    }
}

/* `list` has the products with low bytes; the high ones stand K behind. */
static void two_passes(batch *b, size_t count, const column_job *job)
{
    for (uint32_t high = 0; high < 2; high++) {
        for (size_t i = 0; i < count && high; i++)
            b->list[i].x += b->m->k;
        npu_accumulate(b->n, b->list, count);
        drain_columns(b, job, high);
    }
}

/* The products of one block of a linear. */
static size_t block_products(batch *b, const npu_linear *w, uint64_t planes, uint32_t block, bool turned)
{
    uint32_t together = b->m->n.period / 2, first = block / together * together,
             count = w->blocks - first < together ? w->blocks - first : together;
    npu_input input = {b->m->xn_in.at, w->columns};
    size_t all = npu_linear_products(b->m, w, &input, first, count, b->list), kept = 0;
    for (size_t i = 0; i < all; i++)
        if (b->list[i].block == block) {
            npu_product p = b->list[i];
            p.x = plane_of(b, planes, w->columns, p.column, 0);
            p.x_stride = (uint16_t)(2 * b->m->k);
            p.turned = turned;
            b->list[kept++] = p;
        }
    return kept;
}

/* Scale and addend are reached by VR 3 and 2, so that neither they nor what is stored moves another's address. */
static void load_scale(batch *b, const column_job *job, uint32_t c)
{
    npu_lane0(b->n, NPU_LD_W, 0, 3, job->scale + (uint64_t)c * 4);
}

static void to_channel(batch *b, const column_job *job, uint32_t c)
{
    npu_sized(b->n, NPU_BCAST_REG, NPU_VR, 0, 0, 0);
    npu_plain(b->n, NPU_VFMUL, 7, 7, 0);
    if (job->add) {
        npu_load(b->n, NPU_VR, 0, 2, job->add + c * b->vector);
        npu_plain(b->n, NPU_VFADD, 7, 7, 0);
    }
    npu_store(b->n, NPU_VR, 7, NPU_X, job->out + c * b->vector);
}

/* The first blocks, one vector for each row. */
static void linear(batch *b, const npu_linear *w, uint64_t planes, uint32_t blocks, uint64_t add, uint64_t out)
{
    uint64_t each = b->m->k * b->vector;
    for (uint32_t i = 0; i < blocks; i++) {
        size_t count = block_products(b, w, planes, i, true);
        two_passes(b, count,
                   &(column_job){.count = b->m->k,
                                 .ahead = load_scale,
                                 .use = to_channel,
                                 .scale = w->scales + i * b->vector,
                                 .add = add ? add + i * each : 0,
                                 .out = out + i * each});
    }
}

/* One token's block of rows. */
static void load_scales(batch *b, const column_job *job, uint32_t c)
{
    (void)c;
    npu_load(b->n, NPU_VR, 0, 3, job->scale);
}

static void to_value(batch *b, const column_job *job, uint32_t c)
{
    npu_plain(b->n, NPU_VFMUL, 7, 7, 0);
    npu_plain(b->n, NPU_VCVT_S8_F32, npu_in(2, NPU_VX), 7, 0);
    npu_store(b->n, NPU_VX, npu_in(2, NPU_VX), NPU_X, job->out + c * job->stride);
}

static void to_logits(batch *b, const column_job *job, uint32_t c)
{
    npu_plain(b->n, NPU_VFMUL, 7, 7, 0);
    npu_store(b->n, NPU_VR, 7, NPU_X, job->out + c * job->stride);
}

/* Rows of the array are rows of weights here: a token's values come out side by side. */
static void values(batch *b, uint32_t layer)
{
    const npu_layer *l = &b->m->layers[layer];
    for (uint32_t c = 0; c < b->m->kv_chunks; c++) {
        uint32_t block = b->m->q_chunks + b->m->kv_chunks + c;
        size_t count = block_products(b, &l->qkv, b->m->xn_planes, block, false);
        two_passes(b, count,
                   &(column_job){.count = b->rows,
                                 .ahead = load_scales,
                                 .use = to_value,
                                 .scale = l->qkv.scales + block * b->vector,
                                 .out = l->values + (uint64_t)b->position * b->m->v_stride + c * b->m->k,
                                 .stride = b->m->v_stride});
    }
}

static void logits(batch *b)
{
    const npu_linear *w = &b->m->classifier;
    for (uint32_t i = 0; i < w->blocks; i++) {
        size_t count = block_products(b, w, b->m->xn_planes, i, false);
        two_passes(b, count,
                   &(column_job){.count = b->rows,
                                 .skipped = b->wanted,
                                 .ahead = load_scales,
                                 .use = to_logits,
                                 .scale = w->scales + i * b->vector,
                                 .out = b->m->batch_logits + i * b->vector,
                                 .stride = w->blocks * b->vector});
    }
}

/* ---- Norms ---- */

static void norm(batch *b, uint64_t x, uint64_t gains)
{
    npu *n = b->n;
    uint32_t dim = b->m->model->dims.dim;
    for (uint32_t c = 0; c < dim; c++) {
        unsigned reg = 1 + c % 3;
        npu_load(n, NPU_VR, reg, NPU_X, x + c * b->vector);
        if (c)
            npu_fma(n, NPU_VFMA, 0, reg, reg, 0);
        else
            npu_plain(n, NPU_VFMUL, 0, reg, reg);
    }
    npu_rsqrt_mean(n);
    npu_set(n, 6, NPU_C_BYTE_HALF);
    for (uint32_t c = 0; c < dim; c++) {
        npu_load(n, NPU_VR, 2, NPU_W, x + c * b->vector);
        npu_lane0(n, NPU_LD_W, 0, 1, gains + (uint64_t)c * 4);
        npu_plain(n, NPU_VFMUL, 2, 2, 7);
        npu_sized(n, NPU_BCAST_REG, NPU_VR, 0, 0, 0);
        npu_plain(n, NPU_VFMUL, 2, 2, 0);
        put_planes(b, true, 2, 6, plane_of(b, b->m->xn_planes, dim, c, 0));
    }
}

/* ---- Attention ---- */

/* The pair whose channels are vectors at `first` and `second`: VR 2 and 7. */
static void turn(batch *b, uint64_t first, uint64_t second, uint32_t pair)
{
    npu *n = b->n;
    uint64_t width = (uint64_t)(b->m->context + b->m->k) * 4,
             angles = b->m->pair_angles + pair * 2 * width + (uint64_t)b->position * 4;
    npu_load(n, NPU_VR, 0, NPU_X, first);
    npu_load(n, NPU_VR, 3, NPU_W, angles + width);
    npu_load(n, NPU_VR, 1, NPU_X, second);
    npu_load(n, NPU_VR, 2, NPU_W, angles);
    npu_plain(n, NPU_VFMUL, 7, 0, 3);
    npu_fma(n, NPU_VFMA, 7, 1, 2, 7);
    npu_plain(n, NPU_VFMUL, 2, 0, 2);
    npu_fma(n, NPU_VNFMA, 2, 1, 3, 2);
}

static void place_queries(batch *b)
{
    const tv_model_dims *s = &b->m->model->dims;
    uint32_t half = s->head_dim / 2, k = b->m->k;
    npu_set(b->n, 6, NPU_C_BYTE_HALF);
    for (uint32_t h = 0; h < s->heads; h++)
        for (uint32_t i = 0; i < half; i++) {
            uint64_t at = b->m->batch_qk + npu_turned_lane(b->m, h, i) * b->vector,
                     planes = b->m->q_planes + ((uint64_t)h * s->head_dim + i) * 2 * k;
            turn(b, at, at + k / 2 * b->vector, i);
            put_planes(b, true, 2, 6, planes);
            put_planes(b, true, 7, 6, planes + (uint64_t)half * 2 * k);
        }
}

/* Lanes are positions already. */
static void append_keys(batch *b, uint32_t layer)
{
    const tv_model_dims *s = &b->m->model->dims;
    uint32_t half = s->head_dim / 2, k = b->m->k;
    for (uint32_t h = 0; h < s->kv_heads; h++)
        for (uint32_t i = 0; i < half; i++) {
            uint64_t at = b->m->batch_qk + (b->m->q_chunks * k + npu_turned_lane(b->m, h, i)) * b->vector;
            uint64_t keys = npu_key_block(b->m, layer, h, b->position / k) + (uint64_t)i * k;
            turn(b, at, at + k / 2 * b->vector, i);
            npu_plain(b->n, NPU_VCVT_S8_F32, npu_in(0, NPU_VX), 2, 0);
            npu_plain(b->n, NPU_VCVT_S8_F32, npu_in(1, NPU_VX), 7, 0);
            npu_store(b->n, NPU_VX, npu_in(0, NPU_VX), NPU_W, keys);
            npu_store(b->n, NPU_VX, npu_in(1, NPU_VX), NPU_W, keys + (uint64_t)half * k);
        }
}

/* One key's scores of all tokens; in the block of the tokens themselves each sees those up to its own. */
static void to_scores(batch *b, const column_job *job, uint32_t c)
{
    if (job->add) {
        npu_load(b->n, NPU_VR, 0, 2, job->add - (uint64_t)c * 4);
        npu_int(b->n, NPU_VMIN, 7, 7, 0);
    }
    npu_store(b->n, NPU_VR, 7, NPU_X, job->out + c * b->vector);
}

static void scores(batch *b, uint32_t layer, uint32_t head)
{
    const tv_model_dims *s = &b->m->model->dims;
    uint32_t k = b->m->k, own = b->position / k;
    for (uint32_t block = 0; block <= own; block++) {
        uint64_t keys = npu_key_block(b->m, layer, head / (s->heads / s->kv_heads), block),
                 q = b->m->q_planes + (uint64_t)head * s->head_dim * 2 * k;
        for (uint32_t i = 0; i < s->head_dim; i++)
            b->list[i] = (npu_product){keys + (uint64_t)i * k, q + (uint64_t)i * 2 * k, i, 0, 0, NPU_VX, 1, true};
        two_passes(b, s->head_dim,
                   &(column_job){.count = block == own ? b->rows : k,
                                 .use = to_scores,
                                 .add = block == own ? b->m->later + b->vector : 0,
                                 .out = b->m->batch_scores + (uint64_t)block * k * b->vector,
                                 .integers = true});
    }
}

static void softmax(batch *b, uint32_t layer)
{
    npu *n = b->n;
    uint32_t keys = b->position + b->rows;
    npu_load(n, NPU_VR, 0, NPU_X, b->m->batch_scores);
    for (uint32_t t = 1; t < keys; t++) {
        unsigned reg = 1 + t % 3;
        npu_load(n, NPU_VR, reg, NPU_X, b->m->batch_scores + t * b->vector);
        npu_int(n, NPU_VMAX, 0, 0, reg);
    }
    npu_store(n, NPU_VR, 0, NPU_X, b->m->batch_most);
    for (uint32_t t = 0; t < keys; t += 2) {
        unsigned count = keys - t < 2 ? 1 : 2;
        for (unsigned v = 0; v < count; v++)
            npu_load(n, NPU_VR, npu_arg[v], NPU_X, b->m->batch_scores + (t + v) * b->vector);
        npu_each_at(n, count, NPU_VSUB, npu_arg, npu_arg, b->m->batch_most);
        for (unsigned v = 0; v < count; v++)
            npu_plain(n, NPU_VCVT_F32_S32, npu_arg[v], npu_arg[v], 0);
        npu_each(n, count, NPU_VFMUL, npu_arg, npu_arg, b->m->layers[layer].score_scale);
        npu_each(n, count, NPU_VFMAX, npu_arg, npu_arg, NPU_SIGN | NPU_C_F_126);
        npu_exp2(n, count);
        npu_each(n, count, NPU_VFMUL, npu_res, npu_res, NPU_C_SHARE);
        for (unsigned v = 0; v < count; v++)
            npu_plain(n, NPU_VCVT_S32_F32, npu_res[v], npu_res[v], 0);
        for (unsigned v = 0; v < count; v++)
            npu_store(n, NPU_VR, npu_res[v], NPU_X, b->m->batch_scores + (t + v) * b->vector);
    }
}

/* Shares to planes; their sums' reciprocals, 256 times, to memory. */
static void place_shares(batch *b)
{
    npu *n = b->n;
    npu_set(n, 6, NPU_C_BYTE_HALF);
    npu_int(n, NPU_VXOR, 7, 7, 7);
    for (uint32_t t = 0; t < b->position + b->rows; t++) {
        npu_load(n, NPU_VR, 2, NPU_W, b->m->batch_scores + t * b->vector);
        npu_int(n, NPU_VADD, 7, 7, 2);
        put_planes(b, false, 2, 6, b->m->share_planes + (uint64_t)t * 2 * b->m->k);
    }
    npu_plain(n, NPU_VCVT_F32_S32, npu_arg[0], 7, 0);
    npu_reciprocal(n, 1);
    npu_each(n, 1, NPU_VFMUL, npu_res, npu_res, NPU_C_F_256);
    npu_store(n, NPU_VR, npu_res[0], NPU_X, b->m->batch_scale);
}

static void to_mixed(batch *b, const column_job *job, uint32_t c)
{
    npu_plain(b->n, NPU_VFMUL, 7, 7, 0);
    npu_set(b->n, 2, NPU_C_BYTE_HALF);
    put_planes(b, true, 7, 2, plane_of(b, b->m->mixed_planes, b->m->mixed_in.columns, job->first + c, 0));
}

static void mix(batch *b, uint32_t layer, uint32_t head)
{
    const tv_model_dims *s = &b->m->model->dims;
    uint32_t kv = head / (s->heads / s->kv_heads), k = b->m->k, keys = b->position + b->rows;
    for (uint32_t at = 0; at < s->head_dim; at += k) {
        uint64_t from = b->m->layers[layer].values + kv * s->head_dim + at;
        for (uint32_t t = 0; t < keys; t++)
            b->list[t] = (npu_product){from + (uint64_t)t * b->m->v_stride,
                                       b->m->share_planes + (uint64_t)t * 2 * k,
                                       t,
                                       0,
                                       0,
                                       NPU_VX,
                                       1,
                                       true};
        two_passes(b, keys,
                   &(column_job){.count = s->head_dim - at < k ? s->head_dim - at : k,
                                 .ahead = load_scales,
                                 .use = to_mixed,
                                 .scale = b->m->batch_scale,
                                 .first = head * s->head_dim + at});
    }
}

static void attention(batch *b, uint32_t layer)
{
    for (uint32_t h = 0; h < b->m->model->dims.heads; h++) {
        scores(b, layer, h);
        softmax(b, layer);
        place_shares(b);
        mix(b, layer, h);
    }
}

/* ---- Nodes ---- */

/* Numbers one by one from the tokens' rows to the channels' vectors. */
static void embed(batch *b, const int32_t *tokens)
{
    enum { BATCH = 4 };
    uint32_t dim = b->m->model->dims.dim;
    for (uint32_t t = 0; t < b->rows; t++)
        for (uint32_t c = 0; c < dim; c += BATCH) {
            uint64_t row = b->m->embedding + (uint64_t)tokens[t] * b->m->dim_chunks * b->vector;
            unsigned count = dim - c < BATCH ? dim - c : BATCH;
            for (unsigned i = 0; i < count; i++)
                npu_lane0(b->n, NPU_LD_W, i, NPU_W, row + (uint64_t)(c + i) * 4);
            for (unsigned i = 0; i < count; i++)
                npu_lane0(b->n, NPU_ST_W, i, NPU_X, b->m->batch_x + (c + i) * b->vector + (uint64_t)t * 4);
        }
}

static void feed_forward(batch *b)
{
    npu_model *m = b->m;
    npu_gate(m, m->batch_ffn, m->batch_ffn + (uint64_t)m->hidden_chunks * m->k * b->vector, m->model->dims.hidden);
    npu_set(b->n, 6, NPU_C_BYTE_HALF);
    for (uint32_t c = 0; c < m->model->dims.hidden; c++) {
        npu_load(b->n, NPU_VR, 2, NPU_W, m->batch_ffn + c * b->vector);
        put_planes(b, true, 2, 6, plane_of(b, m->h_planes, m->model->dims.hidden, c, 0));
    }
}

static void matmul(batch *b, const tv_graph_node *node)
{
    npu_model *m = b->m;
    const npu_layer *l = &m->layers[node->layer];
    switch (node->weight) {
    case TV_WEIGHT_Q:
        linear(b, &l->qkv, m->xn_planes, m->q_chunks + m->kv_chunks, 0, m->batch_qk);
        values(b, node->layer);
        break;
    case TV_WEIGHT_GATE:
        linear(b, &l->gate_up, m->xn_planes, l->gate_up.blocks, 0, m->batch_ffn);
        break;
    case TV_WEIGHT_O:
        linear(b, &l->o, m->mixed_planes, l->o.blocks, m->batch_x, m->batch_xa);
        break; /* with the sum that follows */
    case TV_WEIGHT_DOWN:
        linear(b, &l->down, m->h_planes, l->down.blocks, m->batch_xa, m->batch_x);
        break;
    case TV_WEIGHT_K:
    case TV_WEIGHT_V:
    case TV_WEIGHT_UP:
        break;
    default:
        logits(b);
        break;
    }
}

static void lower_node(batch *b, const tv_graph_node *node, const int32_t *tokens)
{
    npu_model *m = b->m;
    const npu_layer *l = &m->layers[node->layer];
    bool last = node->weight == TV_WEIGHT_NORM_FINAL || node->output == m->graph->logits, wanted = b->wanted < b->rows;
    npu_begin_part(b->n, m->graph, node);
    switch (node->op) {
    case TV_OP_EMBED:
        embed(b, tokens);
        break;
    case TV_OP_RMSNORM:
        if (node->weight == TV_WEIGHT_NORM_FFN)
            norm(b, m->batch_xa, l->norm[1]);
        else if (!last || wanted)
            norm(b, m->batch_x, last ? m->final_norm : l->norm[0]);
        break;
    case TV_OP_MATMUL:
        if (!last || wanted)
            matmul(b, node);
        break;
    case TV_OP_APPEND:
        place_queries(b);
        append_keys(b, node->layer);
        break;
    case TV_OP_SCORES:
        attention(b, node->layer);
        break;
    case TV_OP_SILU:
        feed_forward(b);
        break;
    case TV_OP_SOFTMAX: /* with the scores, head by head */
    case TV_OP_WEIGHTED_SUM:
    case TV_OP_MUL:  /* with SILU */
    case TV_OP_ROPE: /* where q and k are used */
    case TV_OP_ADD:  /* with the product before it */
    case TV_OPS:
        break;
    }
}

void npu_batch(npu_model *m, npu_product *list, const int32_t *tokens, uint32_t rows, uint32_t position,
               uint32_t wanted)
{
    batch b = {.m = m,
               .n = &m->n,
               .list = list,
               .rows = rows,
               .position = position,
               .wanted = wanted,
               .vector = npu_vector(m)};
    for (uint32_t i = 0; i < m->graph->node_count; i++)
        lower_node(&b, &m->graph->nodes[i], tokens);
}
