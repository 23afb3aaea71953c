/* SPDX-License-Identifier: Apache-2.0 */
/* What a model's lowering to OpenNPU keeps in data memory. */
#ifndef TV_LOWER_OPENNPU_LAYOUT_H
#define TV_LOWER_OPENNPU_LAYOUT_H

#include "graph/backend.h"
#include "lower/opennpu/emit.h"
#include "sim/pool.h"

enum { NPU_PARTS = 3 };

/* Weights that have one input: their rows one part below the other, each in whole blocks of K. */
typedef struct npu_linear {
    tv_weight parts[NPU_PARTS];
    unsigned part_count;
    uint32_t columns, blocks;
    uint64_t stream; /* in the order in which the program loads them */
    uint64_t scales; /* of each row, [blocks][K] */
} npu_linear;

typedef struct npu_layer {
    npu_linear qkv, o, gate_up, down;
    uint64_t norm[2]; /* gains, over the unit of what is multiplied next; of the last layer the final norm is apart */
    uint32_t score_scale;                                   /* from integers to powers of two: bits of FP32 */
    uint64_t keys;                                          /* [kv head][block of positions][channel][K] bytes */
    uint64_t values;                                        /* [position][v_stride] bytes */
    float xn_unit, hn_unit, q_unit, k_unit, v_unit, h_unit; /* what 1 of the integers stands for */
} npu_layer;

typedef struct npu_model {
    const tv_graph *graph;
    const tv_model *model;
    tv_machine *machine;
    tv_pool *pool; /* quantizes */
    bool timing;   /* no data: cycles alone */
    npu n;
    uint32_t k, context, position_blocks, q_chunks, kv_chunks, hidden_chunks, dim_chunks, v_stride;
    uint32_t turn_period; /* chunks after which the angles are the same again */
    npu_layer *layers;
    npu_linear classifier;
    float final_unit;
    uint64_t end, limit, constants_end; /* of memory: used, there is, behind what programs only read */
    uint64_t final_norm, embedding, angles, limits;
    uint64_t x, xa; /* [layers + 1], [layers]: before a layer and behind the last; between attention and feed forward */
    uint64_t qkv, bytes, scores, shares_scale, mixed, ffn, logits;
    npu_input xn_in, mixed_in, h_in;
    uint64_t q_packs, share_packs;

    /* for many tokens at once: vectors have a lane for each token, so a vector for each channel; planes are two of K
     * bytes, low and high */
    uint64_t batch_x, batch_xa, batch_qk, batch_ffn, batch_scores, batch_sums, batch_most, batch_scale, batch_logits;
    uint64_t xn_planes, q_planes, share_planes, mixed_planes, h_planes;
    uint64_t pair_angles, later; /* by pair and position; keys that a token does not see */
} npu_model;

static inline uint32_t npu_chunks(const npu_model *m, uint32_t n) { return (n + m->k - 1) / m->k; }
static inline uint64_t npu_vector(const npu_model *m) { return (uint64_t)4 * m->k; } /* bytes */

/* Heads are turned in pairs of channels: chunk by chunk of q and k the first of K/2 pairs, then their second. This is
 * the lane of channel `i` of a head, counted from the first lane of q or k: first those that are first of a pair, then
 * the others. */
uint32_t npu_turned_lane(const npu_model *m, uint32_t head, uint32_t i);

/* Products of blocks first to first + count - 1 of a linear with its input, into `list`; returns how many, at most
 * count * columns. */
size_t npu_linear_products(const npu_model *m, const npu_linear *linear, const npu_input *input, uint32_t first,
                           uint32_t count, npu_product *list);

/* gate = gate / (1 + 2^(-gate log2 e)) * up, of vectors one behind the other. */
void npu_gate(npu_model *m, uint64_t at, uint64_t up, uint32_t vectors);

/* Where the bytes of a key head's channels are, [channel][K], for a block of K positions. */
uint64_t npu_key_block(const npu_model *m, uint32_t layer, uint32_t head, uint32_t block);

/* Appends what `rows` tokens at `position` on, a multiple of K, do to the program; their logits, [rows][blocks of the
 * classifier][K], are made from row `wanted` on. `list` has room for period / 2 times the most columns of an input. */
void npu_batch(npu_model *m, npu_product *list, const int32_t *tokens, uint32_t rows, uint32_t position,
               uint32_t wanted);

/* Quantizes the model and fills the machine's memory. */
tv_status npu_lay_out(npu_model *m, const tv_backend_options *options, const tv_diag_sink *sink);

#endif
