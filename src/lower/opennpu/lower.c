/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering to OpenNPU: a straight-line program for each token, all of whose arithmetic is the machine's own. Weights
 * are 8-bit integers with a scale for each row, activations 16-bit integers where they are multiplied and FP32
 * elsewhere; keys and values are kept as 8-bit integers. Everything a program needs lies in data memory from the
 * beginning, so that it is made of words alone: rows of the embedding, angles, gains, scales. The host computes nothing
 * of the model.
 *
 * With `emit`, memory.bin is what data memory holds before the first program, and step_NNNNNN.elf are the programs:
 * trivet run --load mem:0=memory.bin step_000000.elf step_000001.elf … does the same again. */
#include <inttypes.h>
#include <stdlib.h>

#include "lower/opennpu/layout.h"
#include "program/program.h"
#include "trivet/file.h"

typedef struct lowering {
    npu_model m;
    tv_program *program; /* what the machine has loaded */
    npu_product *products;
    npu_block blocks[NPU_PERIOD_MAX / 2];
    const char *emit;
    float *kept; /* what `value` returns */
    bool one;    /* the last step was of one token */
    uint32_t position, steps;
} lowering;

/* Before a layer, or behind the last. */
static uint64_t x_of(const lowering *l, uint32_t layer)
{
    return l->m.x + (uint64_t)layer * l->m.dim_chunks * npu_vector(&l->m);
}

static uint64_t xa_of(const lowering *l, uint32_t layer)
{
    return l->m.xa + (uint64_t)layer * l->m.dim_chunks * npu_vector(&l->m);
}

static uint32_t together(const lowering *l) { return l->m.n.period / 2; }

/* ---- Matrix products ---- */

/* out[rows] = input times the weights, plus `add` when it is not 0. */
static void linear(lowering *l, const npu_linear *w, const npu_input *input, uint64_t add, uint64_t out)
{
    uint64_t vector = npu_vector(&l->m);
    for (uint32_t first = 0; first < w->blocks; first += together(l)) {
        uint32_t count = w->blocks - first < together(l) ? w->blocks - first : together(l);
        for (uint32_t b = 0; b < count; b++)
            l->blocks[b] = (npu_block){w->scales + (first + b) * vector, add ? add + (first + b) * vector : 0, 0,
                                       out + (first + b) * vector};
        size_t made = npu_linear_products(&l->m, w, input, first, count, l->products);
        npu_products(&l->m.n, l->products, made, l->blocks, count);
    }
}

/* Puts a vector that is in units of the input into place; with gains it is normalized on the way, by what VR 7 holds.
 */
static void place(lowering *l, uint64_t at, uint64_t gains, const npu_input *input)
{
    npu *n = &l->m.n;
    npu_pack pack;
    uint64_t vector = npu_vector(&l->m);
    for (uint32_t i = 0; npu_pack_at(n, input, i, &pack); i++) {
        npu_set(n, 6, NPU_C_BYTE_HALF);
        for (unsigned p = 0; p < 1u << pack.class_; p++) {
            npu_load(n, NPU_VR, 2, NPU_X, at + (pack.chunk + p) * vector);
            if (gains) {
                npu_load(n, NPU_VR, 3, NPU_W, gains + (pack.chunk + p) * vector);
                npu_plain(n, NPU_VFMUL, 2, 2, 7);
                npu_plain(n, NPU_VFMUL, 2, 2, 3);
            }
            npu_plain(n, NPU_VCVT_S32_F32, 2, 2, 0);
            npu_split(n, p);
        }
        npu_spread(n, &pack);
    }
}

static void norm(lowering *l, uint64_t x, uint64_t gains)
{
    npu *n = &l->m.n;
    for (uint32_t c = 0; c < l->m.dim_chunks; c++) {
        unsigned reg = 1 + c % 2;
        npu_load(n, NPU_VR, reg, NPU_X, x + c * npu_vector(&l->m));
        if (c)
            npu_fma(n, NPU_VFMA, 0, reg, reg, 0);
        else
            npu_plain(n, NPU_VFMUL, 0, reg, reg);
    }
    npu_sum_lanes(n);
    npu_rsqrt_mean(n);
    place(l, x, gains, &l->m.xn_in);
}

/* ---- Attention ---- */

/* VR 2 = the chunk turned by the position: times the cosine, plus its other half of lanes times the sine. The halves
 * change places by way of memory. */
static void turn(lowering *l, uint64_t at, uint32_t chunk)
{
    npu *n = &l->m.n;
    uint64_t vector = npu_vector(&l->m),
             angles = l->m.angles + ((uint64_t)l->position * l->m.turn_period + chunk % l->m.turn_period) * 2 * vector;
    npu_load(n, NPU_VR, 0, NPU_X, at);
    npu_store(n, NPU_VR, 0, NPU_X, n->turn);
    npu_store(n, NPU_VR, 0, NPU_X, n->turn + vector);
    npu_load(n, NPU_VR, 1, NPU_X, n->turn + vector / 2);
    npu_load(n, NPU_VR, 2, NPU_W, angles);
    npu_load(n, NPU_VR, 3, NPU_W, angles + vector);
    npu_plain(n, NPU_VFMUL, 0, 0, 2);
    npu_fma(n, NPU_VFMA, 2, 1, 3, 0);
}

static npu_pack q_pack(const lowering *l, uint32_t chunk)
{
    return (npu_pack){l->m.q_packs + chunk * npu_pack_bytes(&l->m.n, NPU_VX), NPU_VX, chunk};
}

static void place_queries(lowering *l)
{
    npu *n = &l->m.n;
    for (uint32_t c = 0; c < l->m.q_chunks; c++) {
        npu_pack pack = q_pack(l, c);
        turn(l, l->m.qkv + c * npu_vector(&l->m), c);
        npu_set(n, 6, NPU_C_BYTE_HALF);
        npu_plain(n, NPU_VCVT_S32_F32, 2, 2, 0);
        npu_split(n, 0);
        npu_spread(n, &pack);
    }
}

/* A channel of the keys has the positions in its lanes: bytes are moved there one by one, eight loads before eight
 * stores. */
static void append_key_chunk(lowering *l, uint32_t layer, uint32_t chunk)
{
    enum { BATCH = 8 };
    const tv_model_dims *s = &l->m.model->dims;
    uint64_t to[BATCH];
    unsigned count = 0;
    for (uint32_t h = 0; h < s->kv_heads; h++)
        for (uint32_t i = 0; i < s->head_dim; i++) {
            uint32_t lane = npu_turned_lane(&l->m, h, i);
            if (lane / l->m.k == chunk) {
                npu_lane0(&l->m.n, NPU_LD_B, count, NPU_X, l->m.bytes + lane % l->m.k);
                to[count++] =
                    npu_key_block(&l->m, layer, h, l->position / l->m.k) + (uint64_t)i * l->m.k + l->position % l->m.k;
            }
            if (count == BATCH || (count && h + 1 == s->kv_heads && i + 1 == s->head_dim)) {
                for (unsigned b = 0; b < count; b++)
                    npu_lane0(&l->m.n, NPU_ST_B, b, NPU_W, to[b]);
                count = 0;
            }
        }
}

static void append(lowering *l, uint32_t layer)
{
    npu *n = &l->m.n;
    uint64_t vector = npu_vector(&l->m), keys = l->m.qkv + l->m.q_chunks * vector,
             values = keys + l->m.kv_chunks * vector;
    for (uint32_t c = 0; c < l->m.kv_chunks; c++) {
        turn(l, keys + c * vector, c);
        npu_plain(n, NPU_VCVT_S8_F32, 0, 2, 0);
        npu_store(n, NPU_VX, 0, NPU_X, l->m.bytes);
        append_key_chunk(l, layer, c);
    }
    for (uint32_t c = 0; c < l->m.kv_chunks; c++) {
        npu_load(n, NPU_VR, 1, NPU_X, values + c * vector);
        npu_plain(n, NPU_VCVT_S8_F32, 0, 1, 0);
        npu_store(n, NPU_VX, 0, NPU_X, l->m.layers[layer].values + (uint64_t)l->position * l->m.v_stride + c * l->m.k);
    }
}

static uint32_t blocks_now(const lowering *l) { return l->position / l->m.k + 1; }

static uint64_t scores_at(const lowering *l, uint32_t head, uint32_t block)
{
    return l->m.scores + ((uint64_t)head * blocks_now(l) + block) * npu_vector(&l->m);
}

static npu_pack share_pack(const lowering *l, uint32_t head, uint32_t block)
{
    return (npu_pack){l->m.share_packs +
                          ((uint64_t)block * l->m.model->dims.heads + head) * npu_pack_bytes(&l->m.n, NPU_VX),
                      NPU_VX, 0};
}

/* A channel of one head and block of positions. */
static npu_product score_product(const lowering *l, uint32_t layer, uint32_t head, uint32_t block, uint32_t channel,
                                 uint32_t slot)
{
    const tv_model_dims *s = &l->m.model->dims;
    uint64_t keys = npu_key_block(&l->m, layer, head / (s->heads / s->kv_heads), block);
    uint32_t lane = npu_turned_lane(&l->m, head, channel);
    npu_pack pack = q_pack(l, lane / l->m.k);
    return (npu_product){keys + (uint64_t)channel * l->m.k,
                         npu_lane(&l->m.n, &pack, lane % l->m.k, slot),
                         channel,
                         slot,
                         0,
                         NPU_VX,
                         1,
                         false};
}

/* Integers: rows of the array are positions. Those to come are kept out. Heads that share keys come one behind the
 * other. */
static void scores(lowering *l, uint32_t layer)
{
    const tv_model_dims *s = &l->m.model->dims;
    uint32_t now = blocks_now(l), shared = s->heads / s->kv_heads, all = s->heads * now,
             valid = l->position % l->m.k + 1;
    for (uint32_t first = 0; first < all; first += together(l)) {
        uint32_t count = all - first < together(l) ? all - first : together(l);
        size_t made = 0;
        for (uint32_t i = 0; i < s->head_dim; i++)
            for (uint32_t b = 0; b < count; b++) {
                uint32_t at = first + b, head = at / shared / now * shared + at % shared, block = at / shared % now;
                l->products[made++] = score_product(l, layer, head, block, i, b);
                l->blocks[b] = (npu_block){0, 0, block + 1 == now ? l->m.limits + (uint64_t)(l->m.k - valid) * 4 : 0,
                                           scores_at(l, head, block)};
            }
        npu_products(&l->m.n, l->products, made, l->blocks, count);
    }
}

/* Scores become powers of two that are not above 0: exact integers until the largest is taken away. */
static void lower_scores(lowering *l, uint32_t layer, uint32_t head)
{
    npu *n = &l->m.n;
    npu_set(n, 2, l->m.layers[layer].score_scale);
    for (uint32_t b = 0; b < blocks_now(l); b++) {
        npu_load(n, NPU_VR, b ? 1 : 0, NPU_X, scores_at(l, head, b));
        if (b)
            npu_int(n, NPU_VMAX, 0, 0, 1);
    }
    npu_int(n, NPU_VRMAX, 0, 0, 0);
    for (uint32_t b = 0; b < blocks_now(l); b++) {
        unsigned reg = b % 2 ? 3 : 1;
        npu_load(n, NPU_VR, reg, NPU_X, scores_at(l, head, b));
        npu_int(n, NPU_VSUB, reg, reg, 0);
        npu_plain(n, NPU_VCVT_F32_S32, reg, reg, 0);
        npu_plain(n, NPU_VFMUL, reg, reg, 2);
        npu_store(n, NPU_VR, reg, NPU_X, scores_at(l, head, b));
    }
}

static void exponentials(lowering *l)
{
    npu *n = &l->m.n;
    uint32_t all = l->m.model->dims.heads * blocks_now(l);
    for (uint32_t i = 0; i < all; i += 2) {
        unsigned count = all - i < 2 ? 1 : 2;
        for (unsigned v = 0; v < count; v++)
            npu_load(n, NPU_VR, npu_arg[v], NPU_X, scores_at(l, 0, i + v));
        npu_each(n, count, NPU_VFMAX, npu_arg, npu_arg, NPU_SIGN | NPU_C_F_126);
        npu_exp2(n, count);
        npu_each(n, count, NPU_VFMUL, npu_res, npu_res, NPU_C_SHARE);
        for (unsigned v = 0; v < count; v++)
            npu_plain(n, NPU_VCVT_S32_F32, npu_res[v], npu_res[v], 0);
        for (unsigned v = 0; v < count; v++)
            npu_store(n, NPU_VR, npu_res[v], NPU_X, scores_at(l, 0, i + v));
    }
}

/* Shares are not divided by their sum; the mix is, 256 times finer than the values. The sum is that of the rounded
 * shares. */
static void sums(lowering *l)
{
    npu *n = &l->m.n;
    uint32_t heads = l->m.model->dims.heads;
    for (uint32_t h = 0; h < heads; h += 2) {
        unsigned count = heads - h < 2 ? 1 : 2;
        for (unsigned v = 0; v < count; v++) {
            for (uint32_t b = 0; b < blocks_now(l); b++) {
                npu_load(n, NPU_VR, b ? npu_tmp[v] : npu_arg[v], NPU_X, scores_at(l, h + v, b));
                if (b)
                    npu_int(n, NPU_VADD, npu_arg[v], npu_arg[v], npu_tmp[v]);
            }
            npu_int(n, NPU_VSUM, npu_arg[v], npu_arg[v], 0);
            npu_plain(n, NPU_VCVT_F32_S32, npu_arg[v], npu_arg[v], 0);
        }
        npu_reciprocal(n, count);
        npu_each(n, count, NPU_VFMUL, npu_res, npu_res, NPU_C_F_256);
        for (unsigned v = 0; v < count; v++)
            npu_store(n, NPU_VR, npu_res[v], NPU_X, l->m.shares_scale + (h + v) * npu_vector(&l->m));
    }
}

static void softmax(lowering *l, uint32_t layer)
{
    npu *n = &l->m.n;
    for (uint32_t h = 0; h < l->m.model->dims.heads; h++)
        lower_scores(l, layer, h);
    exponentials(l);
    sums(l);
    for (uint32_t h = 0; h < l->m.model->dims.heads; h++)
        for (uint32_t b = 0; b < blocks_now(l); b++) {
            npu_pack pack = share_pack(l, h, b);
            npu_set(n, 6, NPU_C_BYTE_HALF);
            npu_load(n, NPU_VR, 2, NPU_X, scores_at(l, h, b));
            npu_split(n, 0);
            npu_spread(n, &pack);
        }
}

/* One position and piece of a head: at most K of its channels. */
static npu_product mix_product(const lowering *l, uint32_t layer, uint32_t head, uint32_t piece, uint32_t position,
                               uint32_t slot)
{
    const tv_model_dims *s = &l->m.model->dims;
    uint32_t channel = head / (s->heads / s->kv_heads) * s->head_dim + piece * l->m.k, lane = position % l->m.k;
    npu_pack pack = share_pack(l, head, position / l->m.k);
    uint64_t row = l->m.layers[layer].values + (uint64_t)position * l->m.v_stride;
    return (npu_product){row + channel, npu_lane(&l->m.n, &pack, lane, slot), position, slot, 0, NPU_VX, 1, false};
}

/* Rows of the array are channels. A block's lanes behind its head are overwritten by those that follow. */
static void mix(lowering *l, uint32_t layer)
{
    const tv_model_dims *s = &l->m.model->dims;
    uint32_t pieces = npu_chunks(&l->m, s->head_dim), all = s->heads * pieces;
    for (uint32_t first = 0; first < all; first += together(l)) {
        uint32_t count = all - first < together(l) ? all - first : together(l);
        size_t made = 0;
        for (uint32_t t = 0; t <= l->position; t++)
            for (uint32_t b = 0; b < count; b++)
                l->products[made++] = mix_product(l, layer, (first + b) / pieces, (first + b) % pieces, t, b);
        for (uint32_t b = 0; b < count; b++) {
            uint32_t head = (first + b) / pieces, at = head * s->head_dim + (first + b) % pieces * l->m.k;
            l->blocks[b] =
                (npu_block){l->m.shares_scale + head * npu_vector(&l->m), 0, 0, l->m.mixed + (uint64_t)at * 4};
        }
        npu_products(&l->m.n, l->products, made, l->blocks, count);
    }
    place(l, l->m.mixed, 0, &l->m.mixed_in);
}

/* ---- Feed forward ---- */

/* gate = gate / (1 + 2^(-gate log2 e)) * up */
void npu_gate(npu_model *m, uint64_t at, uint64_t up, uint32_t vectors)
{
    npu *n = &m->n;
    uint64_t vector = npu_vector(m);
    for (uint32_t c = 0; c < vectors; c += 2) {
        unsigned count = vectors - c < 2 ? 1 : 2;
        for (unsigned v = 0; v < count; v++)
            npu_load(n, NPU_VR, npu_arg[v], NPU_X, at + (c + v) * vector);
        npu_each(n, count, NPU_VFMUL, npu_arg, npu_arg, NPU_SIGN | NPU_C_F_LOG2E);
        npu_each(n, count, NPU_VFMAX, npu_arg, npu_arg, NPU_SIGN | NPU_C_F_126);
        npu_each(n, count, NPU_VFMIN, npu_arg, npu_arg, NPU_C_F_MOST);
        npu_exp2(n, count);
        npu_each(n, count, NPU_VFADD, npu_arg, npu_res, NPU_C_F_1);
        npu_reciprocal(n, count);
        for (unsigned v = 0; v < count; v++)
            npu_load(n, NPU_VR, npu_tmp[v], NPU_X, up + (c + v) * vector);
        for (unsigned v = 0; v < count; v++)
            npu_load(n, NPU_VR, npu_arg[v], NPU_X, at + (c + v) * vector);
        for (unsigned v = 0; v < count; v++)
            npu_plain(n, NPU_VFMUL, npu_res[v], npu_res[v], npu_arg[v]);
        for (unsigned v = 0; v < count; v++)
            npu_plain(n, NPU_VFMUL, npu_res[v], npu_res[v], npu_tmp[v]);
        for (unsigned v = 0; v < count; v++)
            npu_store(n, NPU_VR, npu_res[v], NPU_X, at + (c + v) * vector);
    }
}

/* ---- Nodes ---- */

static void embed(lowering *l, int32_t token)
{
    uint64_t vector = npu_vector(&l->m), row = l->m.embedding + (uint64_t)token * l->m.dim_chunks * vector;
    for (uint32_t c = 0; c < l->m.dim_chunks; c++) {
        npu_load(&l->m.n, NPU_VR, c % 4, NPU_W, row + c * vector);
        npu_store(&l->m.n, NPU_VR, c % 4, NPU_X, l->m.x + c * vector);
    }
}

/* Weights with one input are multiplied at the first of them, so that they share the waits for the array. */
static void matmul(lowering *l, const tv_graph_node *node)
{
    const npu_layer *layer = &l->m.layers[node->layer];
    switch (node->weight) {
    case TV_WEIGHT_Q:
        linear(l, &layer->qkv, &l->m.xn_in, 0, l->m.qkv);
        break;
    case TV_WEIGHT_GATE:
        linear(l, &layer->gate_up, &l->m.xn_in, 0, l->m.ffn);
        break;
    case TV_WEIGHT_O:
        linear(l, &layer->o, &l->m.mixed_in, x_of(l, node->layer), xa_of(l, node->layer));
        break; /* with the sum that follows */
    case TV_WEIGHT_DOWN:
        linear(l, &layer->down, &l->m.h_in, xa_of(l, node->layer), x_of(l, node->layer + 1));
        break;
    case TV_WEIGHT_K:
    case TV_WEIGHT_V:
    case TV_WEIGHT_UP:
        break;
    default:
        linear(l, &l->m.classifier, &l->m.xn_in, 0, l->m.logits);
        break;
    }
}

static void lower_node(lowering *l, const tv_graph_node *node, int32_t token, bool wanted)
{
    npu_layer *layer = &l->m.layers[node->layer];
    npu_begin_part(&l->m.n, l->m.graph, node);
    switch (node->op) {
    case TV_OP_EMBED:
        embed(l, token);
        break;
    case TV_OP_RMSNORM:
        if (node->weight == TV_WEIGHT_NORM_ATTENTION)
            norm(l, x_of(l, node->layer), layer->norm[0]);
        else if (node->weight == TV_WEIGHT_NORM_FFN)
            norm(l, xa_of(l, node->layer), layer->norm[1]);
        else if (wanted)
            norm(l, x_of(l, l->m.model->dims.layers), l->m.final_norm);
        break;
    case TV_OP_MATMUL:
        if (wanted || node->output != l->m.graph->logits)
            matmul(l, node);
        break;
    case TV_OP_APPEND:
        place_queries(l);
        append(l, node->layer);
        break;
    case TV_OP_SCORES:
        scores(l, node->layer);
        break;
    case TV_OP_SOFTMAX:
        softmax(l, node->layer);
        break;
    case TV_OP_WEIGHTED_SUM:
        mix(l, node->layer);
        break;
    case TV_OP_SILU:
        npu_gate(&l->m, l->m.ffn, l->m.ffn + l->m.hidden_chunks * npu_vector(&l->m), l->m.hidden_chunks);
        break;
    case TV_OP_MUL:
        place(l, l->m.ffn, 0, &l->m.h_in);
        break;
    case TV_OP_ROPE: /* where q and k are used */
    case TV_OP_ADD:  /* with the product before it */
    case TV_OPS:
        break;
    }
}

/* ---- Steps ---- */

static tv_status save_step(lowering *l, tv_program *program, const tv_diag_sink *sink)
{
    char path[4096];
    if (l->steps == 0) /* the first brings what programs only read, so that they run by themselves, in their order */
        TV_TRY(tv_backend_bring_space(l->m.machine, "mem", l->m.constants_end, program, sink));
    snprintf(path, sizeof path, "%s/step_%06" PRIu32 ".elf", l->emit, l->steps);
    return tv_program_save(program, path, TV_FORMAT_ELF, sink);
}

static tv_status run_words(lowering *l, const tv_diag_sink *sink)
{
    tv_program *program;
    tv_stop_reason stop;
    TV_TRY(tv_builder_finish(&l->m.n.program, sink, &program));
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
    tv_builder_reuse(&l->m.n.program, l->program); /* the machine looks at the loaded one until the next load */
    l->program = program;
    l->steps++;
    return status == TV_FAULT ? tv_backend_fault(l->m.machine, sink) : status;
}

static tv_status step_token(lowering *l, int32_t token, uint32_t position, float *logits, const tv_diag_sink *sink)
{
    l->position = position;
    npu_begin(&l->m.n);
    for (uint32_t i = 0; i < l->m.graph->node_count; i++)
        lower_node(l, &l->m.graph->nodes[i], token, logits != NULL);
    TV_TRY(run_words(l, sink));
    return logits ? tv_machine_read(l->m.machine, "mem", l->m.logits, logits, l->m.model->dims.vocab * sizeof *logits,
                                    sink)
                  : TV_OK;
}

/* Logits of the rows from `wanted` on. */
static tv_status step_batch(lowering *l, const int32_t *tokens, uint32_t rows, uint32_t position, uint32_t wanted,
                            float *logits, const tv_diag_sink *sink)
{
    uint64_t row = l->m.classifier.blocks * npu_vector(&l->m);
    uint32_t vocab = l->m.model->dims.vocab;
    npu_begin(&l->m.n);
    npu_batch(&l->m, l->products, tokens, rows, position, wanted);
    TV_TRY(run_words(l, sink));
    for (uint32_t r = wanted; r < rows; r++, logits += vocab)
        TV_TRY(tv_machine_read(l->m.machine, "mem", l->m.batch_logits + r * row, logits, vocab * sizeof *logits, sink));
    return TV_OK;
}

/* As many as K tokens are worked on at once, where a block of K positions begins; a few are faster one by one. */
static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink)
{
    lowering *l = state;
    uint32_t vocab = l->m.model->dims.vocab;
    for (uint32_t done = 0, rows; done < count; done += rows) {
        bool last = done + l->m.k >= count;
        float *out = logits + (last_only ? 0 : (size_t)done * vocab);
        rows = count - done < l->m.k ? count - done : l->m.k;
        l->one = count == 1;
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
    npu_fini(&l->m.n);
    tv_pool_free(l->m.pool);
    tv_machine_free(l->m.machine);
    tv_program_free(l->program);
    free(l->m.layers);
    free(l->products);
    free(l->kept);
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
                       "the lowering needs vector.l = 32, which is eight registers VR");
    /* Integer sums stay within 32 bits: shares of 32000 over the positions, 128 * 127 over the columns, 32512 * 127
     * over a head. */
    if (s->head_dim > HEAD_MAX || options->context > CONTEXT_MAX || s->dim > COLUMNS_MAX || s->hidden > COLUMNS_MAX)
        return tv_fail(
            sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "a smaller --context may help",
            "%u dimensions, %u of the hidden layer, %u of a head or %u positions are too many for sums of 32 bits",
            s->dim, s->hidden, s->head_dim, options->context);
    uint32_t widest = s->dim > s->hidden ? s->dim : s->hidden;
    widest = widest > options->context ? widest : options->context;
    widest = widest > s->heads * s->head_dim ? widest : s->heads * s->head_dim;
    l->products = malloc((size_t)widest * NPU_PERIOD_MAX / 2 * sizeof *l->products);
    l->m.layers = calloc(s->layers, sizeof *l->m.layers);
    l->kept = malloc(s->dim * sizeof *l->kept);
    return l->products && l->m.layers && l->kept ? TV_OK : tv_fail_memory(sink);
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
    l->m.timing = options->mode == TV_MODE_TIMING;
    l->m.pool = tv_pool_new(options->threads);
    tv_status status = read_config(l, options, sink);
    if (status == TV_OK)
        status = npu_init(&l->m.n, l->m.k, sink);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &l->m.machine);
    if (status == TV_OK)
        status = npu_lay_out(&l->m, options, sink);
    if (status != TV_OK) {
        destroy(l);
        return status;
    }
    tv_machine_set_threads(l->m.machine, options->threads);
    *state = l;
    return TV_OK;
}

/* What runs from layer to layer is kept in memory, of steps of one token; the rest is written again and again. */
static const float *value(void *state, uint32_t v)
{
    lowering *l = state;
    const tv_graph *g = l->m.graph;
    uint32_t i = 0;
    while (g->nodes[i].output != v)
        i++;
    bool down = i > 0 && g->nodes[i - 1].weight == TV_WEIGHT_DOWN;
    if (!l->one || g->nodes[i].op != TV_OP_ADD)
        return NULL;
    uint64_t at = down ? x_of(l, g->nodes[i].layer + 1) : xa_of(l, g->nodes[i].layer);
    return tv_machine_read(l->m.machine, "mem", at, l->kept, l->m.model->dims.dim * sizeof *l->kept, NULL) == TV_OK
               ? l->kept
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
