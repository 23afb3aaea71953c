/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of the model in OpenNPU's data memory. */
#ifndef TV_LOWER_OPENNPU_LAYOUT_H
#define TV_LOWER_OPENNPU_LAYOUT_H

#include "graph/backend.h"
#include "lower/opennpu/emit.h"
#include "sim/pool.h"

enum { OPENNPU_LOWER_LINEAR_WEIGHTS = 3 };

/* Weights that share an input, one after the other, each padded to whole blocks of K rows. */
typedef struct opennpu_lower_linear {
    tv_weight weights[OPENNPU_LOWER_LINEAR_WEIGHTS];
    unsigned weight_count;
    uint32_t columns, blocks;
    uint64_t stream; /* weights in the order in which the program loads them */
    uint64_t scales; /* [blocks][K], of each row */
} opennpu_lower_linear;

typedef struct opennpu_lower_layer {
    opennpu_lower_linear qkv, o, gate_up, down;
    uint64_t norm[2];     /* gains divided by the unit of the next product's input; the final norm is separate */
    uint32_t score_scale; /* from integer scores to exponents of two: FP32 bits */
    uint64_t keys;        /* [kv head][block of positions][channel][K] bytes */
    uint64_t values;      /* [position][v_stride] bytes */
    float xn_unit, hn_unit, q_unit, k_unit, v_unit, h_unit; /* the value of integer 1 */
} opennpu_lower_layer;

typedef struct opennpu_lower_model {
    const tv_graph *graph;
    const tv_model *model;
    tv_machine *machine;
    tv_pool *pool; /* for quantization */
    bool timing;   /* timing only, no data */
    opennpu_lower_emitter e;
    uint32_t k, context, position_blocks, q_chunks, kv_chunks, hidden_chunks, dim_chunks, v_stride;
    uint32_t rope_period; /* chunks after which the cosines and sines repeat */
    opennpu_lower_layer *layers;
    opennpu_lower_linear classifier;
    float final_unit;
    uint64_t end, limit, constants_end; /* of memory: allocated, available; end of what programs only read */
    uint64_t final_norm, embedding, cos_sin, score_limits;
    uint64_t x,
        xa; /* [layers + 1], [layers]: before each layer and after the last; between attention and feed-forward */
    uint64_t qkv, bytes, scores, probs_scale, attn_out, ffn, logits;
    opennpu_lower_input xn_in, attn_out_in, h_in;
    uint64_t q_packs, prob_packs;

    /* of batches: one vector per channel with one lane per token; planes are two times K bytes, low and high */
    uint64_t batch_x, batch_xa, batch_qk, batch_ffn, batch_scores, batch_sums, batch_max, batch_scale, batch_logits;
    uint64_t xn_planes, q_planes, prob_planes, attn_out_planes, h_planes;
    uint64_t pair_cos_sin, causal_mask; /* by pair and position; causal mask */
} opennpu_lower_model;

static inline uint32_t opennpu_lower_chunks(const opennpu_lower_model *m, uint32_t n) { return (n + m->k - 1) / m->k; }
static inline uint64_t opennpu_lower_vector_bytes(const opennpu_lower_model *m)
{
    return (uint64_t)4 * m->k;
} /* bytes */

/* Heads are rotated in pairs: each chunk of q and k has the first elements of K/2 pairs, then their second elements.
 * Returns the lane of element `i` of a head, counted from the first lane of q or k: first elements come before second
 * elements. */
uint32_t opennpu_lower_rope_lane(const opennpu_lower_model *m, uint32_t head, uint32_t i);

/* Lists the products of blocks [first, first + count) of a linear with its input; returns their number, at most count *
 * columns. */
size_t opennpu_lower_linear_products(const opennpu_lower_model *m, const opennpu_lower_linear *linear,
                                     const opennpu_lower_input *input, uint32_t first, uint32_t count,
                                     opennpu_lower_product *list);

/* Address of a block of K positions of a key head: bytes [channel][K]. */
uint64_t opennpu_lower_key_block_addr(const opennpu_lower_model *m, uint32_t layer, uint32_t head, uint32_t block);

/* Appends the instructions for `rows` tokens from `position` on, a multiple of K. Rows from `first_logits_row` on get
 * logits, [rows][blocks of the classifier][K]. `list` holds period / 2 times the maximum number of columns of an
 * input. */
void opennpu_lower_batch(opennpu_lower_model *m, opennpu_lower_product *list, const int32_t *tokens, uint32_t rows,
                         uint32_t position, uint32_t first_logits_row);

/* Allocates data memory, calibrates and quantizes the model, and uploads it. TV_ERR_INPUT when it does not fit. */
tv_status opennpu_lower_upload_model(opennpu_lower_model *m, const tv_backend_options *options,
                                     const tv_diag_sink *sink);

#endif
