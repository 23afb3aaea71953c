/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of the model in OpenNPU's data memory. */
#ifndef TV_LOWER_OPENNPU_LAYOUT_H
#define TV_LOWER_OPENNPU_LAYOUT_H

#include "graph/backend.h"
#include "graph/host_node.h"
#include "graph/passes.h"
#include "lower/opennpu/emit.h"
#include "sim/pool.h"

enum { OPENNPU_LOWER_LINEAR_WEIGHTS = 3 };

/* Scores with a soft cap are integers again, of this unit for the cap. It is far below masked scores, -2^30, so that
 * their probabilities are 0. */
enum { OPENNPU_LOWER_CAPPED_ONE = 1 << 20 };

#define OPENNPU_LOWER_NONE UINT32_MAX

/* Products that share an input, one after the other, each padded to whole blocks of K rows. */
typedef struct opennpu_lower_linear {
    uint32_t matrices[OPENNPU_LOWER_LINEAR_WEIGHTS]; /* values of the graph */
    uint32_t outputs[OPENNPU_LOWER_LINEAR_WEIGHTS];  /* values; of a GatedLinear both have its output */
    uint32_t biases[OPENNPU_LOWER_LINEAR_WEIGHTS];   /* values, or TV_NO_VALUE */
    unsigned weight_count;
    uint32_t expert; /* which of the matrices of a stack; 0 for others */
    uint32_t columns, blocks;
    uint64_t stream; /* weights in the order in which the program loads them */
    uint64_t scales; /* [blocks][K], of each row */
    uint64_t bias;   /* [blocks][K], or 0 */
} opennpu_lower_linear;

/* The order of a value's columns. Heads that are rotated, or compared with keys, are in pairs: each chunk has the first
 * elements of K/2 pairs, then their second elements. */
typedef struct opennpu_lower_order {
    uint32_t heads; /* 0: as in the graph */
    uint32_t rotary_dim;
    bool interleaved;
} opennpu_lower_order;

/* A value: vectors of FP32 for one token; one vector for each channel in a batch. As an input of products: packs, or
 * planes. What is stored is the value divided by `unit`. */
typedef struct opennpu_lower_value {
    uint64_t at, batch; /* 0: not stored */
    opennpu_lower_input packs;
    uint64_t planes;
    float unit;       /* of the vectors */
    float pack_unit;  /* of packs and planes */
    bool packed;      /* read by products */
    bool stored;      /* read by others */
    bool token_major; /* the logits and what leads to them from the classifier on: batches keep a row for each token */
    opennpu_lower_order order;
} opennpu_lower_value;

/* An expert of MoE: gate and up, then down. */
typedef struct opennpu_lower_expert {
    opennpu_lower_linear in, down;
} opennpu_lower_expert;

/* Vectors that the experts of a node share: gate and then the hidden values, up, the product of down, and the unit of
 * the hidden values. */
typedef struct opennpu_lower_moe {
    uint64_t gate, up, product, unit;
} opennpu_lower_moe;

/* What a node needs besides its values. */
typedef struct opennpu_lower_node {
    opennpu_lower_linear
        linear;            /* of the first node of a group of products; weight_count 0: done with an earlier one */
    uint64_t gains, bias;  /* Norm: in the order of the value */
    uint64_t constants[2]; /* Add, Sub, Mul, Div: of an input that is a constant, in the shape of the output or, if it
                              is a scalar, one vector */
    uint32_t score_scale;  /* Attention: from integer scores to exponents of two: FP32 bits */
    uint32_t cap_scale;    /* Attention with a soft cap: from integer scores to multiples of the cap: FP32 bits */
    uint32_t out_scale;    /* Attention: from units of the cached values to those of the output: FP32 bits */
    uint32_t angles;       /* Attention: tables of the rotation of queries and keys, or OPENNPU_LOWER_NONE */
    uint64_t table;        /* Gather: rows */
    uint64_t scratch, batch_scratch; /* GatedLinear: the gate, then the other product */
    opennpu_lower_expert *experts;   /* MoE: each of them */
    opennpu_lower_moe moe, batch_moe;
    opennpu_lower_input hidden_packs; /* MoE */
    uint64_t hidden_planes;           /* MoE, in a batch */
    uint64_t factors;                 /* MoE, in a batch: a vector for each expert */
    bool on_host;                     /* the host computes the node */
    tv_host_node *host_node;          /* then; made when it is needed */
    opennpu_lower_fragment fragment;  /* of one token, if it depends on neither the token nor its position */
} opennpu_lower_node;

typedef struct opennpu_lower_cache {
    uint64_t keys;   /* [kv head][block of positions][channel][K] bytes */
    uint64_t values; /* [position][v_stride] bytes */
    float k_unit, v_unit;
} opennpu_lower_cache;

/* Cosines and sines of a rotation, by chunk and position; by pair and position. */
typedef struct opennpu_lower_angles {
    uint32_t node; /* a RotaryEmbedding */
    uint64_t cos_sin, pair_cos_sin;
} opennpu_lower_angles;

enum { OPENNPU_LOWER_ANGLES_MAX = 4 };

typedef struct opennpu_lower_model {
    const tv_graph *graph;
    tv_machine *machine;
    tv_pool *pool; /* for quantization; NULL after the upload */
    bool timing;   /* timing only, no data */
    bool allow_host_ops;
    tv_host_op host_ops[TV_OPS + 1]; /* so far */
    unsigned host_op_count;
    bool (*has_operator)(tv_graph_op op); /* that the table has emitters for an operator */
    tv_status (*restart)(void *user);     /* runs the program so far and begins another */
    void *user;
    const tv_diag_sink *sink; /* of the step */
    tv_weight_report weights;
    tv_llm_progress step_progress;
    opennpu_lower_emitter e;
    uint32_t k, context, position_blocks, kv_chunks, v_stride;
    uint32_t heads, kv_heads, head_dim; /* of every Attention */
    uint32_t rope_period;               /* chunks after which the cosines and sines repeat */
    float *ranges;                      /* of each value: absmax of its activations; NULL: timing */
    opennpu_lower_value *values;        /* of each value */
    opennpu_lower_node *nodes;          /* of each node */
    opennpu_lower_cache *caches;
    opennpu_lower_angles angles[OPENNPU_LOWER_ANGLES_MAX];
    uint32_t angle_count;
    uint64_t end, limit, constants_end; /* of memory: allocated, available; end of what programs only read */
    uint64_t lane_mask;                 /* K ones, then K zeros */
    uint64_t score_limits, bytes, scores, probs_scale, head_masks, scale;
    uint64_t q_packs, prob_packs;

    /* of batches: one vector per channel with one lane per token; planes are two times K bytes, low and high */
    uint64_t batch_scores, batch_sums, batch_max, batch_scale, batch_logits, q_planes, prob_planes;
    uint64_t causal_mask;
    uint32_t classifier; /* the product that the logits come from */
} opennpu_lower_model;

static inline uint32_t opennpu_lower_chunks(const opennpu_lower_model *m, uint32_t n) { return (n + m->k - 1) / m->k; }
static inline uint64_t opennpu_lower_vector_bytes(const opennpu_lower_model *m)
{
    return (uint64_t)4 * m->k;
} /* bytes */

/* Lane of channel `i` of a head, counted from the first lane of the queries or keys. Channels are the first elements of
 * all pairs, then the second elements. */
uint32_t opennpu_lower_rope_lane(const opennpu_lower_model *m, uint32_t head, uint32_t i);

/* Column of the graph at lane `lane` of a value; -1: padding. */
int64_t opennpu_lower_source_column(const opennpu_lower_model *m, const opennpu_lower_order *order, uint32_t columns,
                                    uint32_t lane);

static inline opennpu_lower_node *opennpu_lower_node_of(const opennpu_lower_model *m, const tv_graph_node *n)
{
    return &m->nodes[n - m->graph->nodes.data];
}

static inline uint32_t opennpu_lower_columns(const opennpu_lower_model *m, uint32_t value)
{
    return (uint32_t)tv_graph_elements(m->graph, value);
}

/* True for GatedLinear and Linear, unless the host computes them. */
bool opennpu_lower_is_product(const opennpu_lower_model *m, const tv_graph_node *n);

/* Elements that a norm normalizes together: a group of the last axis. */
static inline uint32_t opennpu_lower_group_size(const opennpu_lower_model *m, const tv_graph_node *norm)
{
    return tv_graph_columns(m->graph, norm->output) / norm->attrs.groups;
}

/* How an operand of an elementwise node is repeated: element i of the output uses element i / divisor % modulus. */
typedef struct opennpu_lower_repetition {
    uint64_t divisor, modulus;
} opennpu_lower_repetition;

opennpu_lower_repetition opennpu_lower_repetition_of(const tv_graph *graph, const tv_graph_node *n, unsigned input);

/* The node that computes a value, or NULL. */
const tv_graph_node *opennpu_lower_producer(const tv_graph *graph, uint32_t value);

/* Checks that the machine has instructions for every node, finds the rotations, and gives queries and keys their order.
 * TV_ERR_INPUT (TV-L044): it has none for a node. */
tv_status opennpu_lower_check(opennpu_lower_model *m, const tv_diag_sink *sink);

/* Lists the products of blocks [first, first + count) of a linear with its input; returns their number, at most count *
 * columns. */
size_t opennpu_lower_linear_products(const opennpu_lower_model *m, const opennpu_lower_linear *linear,
                                     const opennpu_lower_input *input, uint32_t first, uint32_t count,
                                     opennpu_lower_product *list);

/* Address of a block of K positions of a key head: bytes [channel][K]. */
uint64_t opennpu_lower_key_block_addr(const opennpu_lower_model *m, uint32_t cache, uint32_t head, uint32_t block);

/* Checks the graph and allocates data memory. TV_ERR_INPUT: an attribute that the machine does not have, or a graph
 * that does not fit. */
tv_status opennpu_lower_plan(opennpu_lower_model *m, const tv_diag_sink *sink);

/* Chooses the units of all values from m->ranges. After opennpu_lower_plan. */
void opennpu_lower_set_units(opennpu_lower_model *m);

/* Quantizes the constants and uploads them. */
tv_status opennpu_lower_upload(opennpu_lower_model *m, const tv_llm_progress *progress, const tv_diag_sink *sink);

#endif
