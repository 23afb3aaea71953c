/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the lowering to CMDQ. nodes.c lowers nodes of the graph to queue entries; lower.c allocates memory,
 * uploads the model and runs the queues; calibrate.c measures activation scales. */
#ifndef TV_LOWER_CMDQ_STATE_H
#define TV_LOWER_CMDQ_STATE_H

#include "base/vec.h"
#include "graph/backend.h"
#include "queue/builder.h"
#include "sim/pool.h"

enum {
    CMDQ_LOWER_BANK_X,
    CMDQ_LOWER_BANK_QUERY,
    CMDQ_LOWER_BANK_WEIGHTS,
    CMDQ_LOWER_BANK_KEY = 4,
    CMDQ_LOWER_BANK_SCORES,
    CMDQ_LOWER_BANK_CACHE,
    CMDQ_LOWER_BANK_HIDDEN,
    CMDQ_LOWER_BANKS,
    CMDQ_LOWER_SLOTS = 2,
    CMDQ_LOWER_ROWS_MAX = 64,
    CMDQ_LOWER_MASK_ROWS = 32,
    CMDQ_LOWER_TILE_MAX = 512,
    CMDQ_LOWER_TILE_MIN = 64
};

#define CMDQ_LOWER_NO_ENTRY UINT32_MAX

/* When a buffer is live. Buffers of attention and of feed-forward may overlap; the data flow orders the two phases. */
typedef enum cmdq_lower_phase { CMDQ_LOWER_ALWAYS, CMDQ_LOWER_ATTENTION, CMDQ_LOWER_FEED_FORWARD } cmdq_lower_phase;

/* A buffer in SPM, and the entries of the queue under construction that last wrote and read it. */
typedef struct cmdq_lower_buffer {
    unsigned bank;
    cmdq_lower_phase phase;
    uint64_t offset, bytes;
    uint32_t writer;
    TV_VEC(uint32_t) readers; /* entry ids */
} cmdq_lower_buffer;

typedef enum cmdq_lower_buffer_id {
    CMDQ_BUFFER_X,
    CMDQ_BUFFER_XN,
    CMDQ_BUFFER_GAINS,
    CMDQ_BUFFER_MASK,
    CMDQ_BUFFER_QUERY,
    CMDQ_BUFFER_ROTATED_QUERY,
    CMDQ_BUFFER_KEY,
    CMDQ_BUFFER_KEY8,
    CMDQ_BUFFER_VALUE8,
    CMDQ_BUFFER_ATTN_OUT,
    CMDQ_BUFFER_SCORES,
    CMDQ_BUFFER_PROBS,
    CMDQ_BUFFER_LOGITS,
    CMDQ_BUFFER_CACHED_KEYS,
    CMDQ_BUFFER_CACHED_VALUES,
    CMDQ_BUFFER_HIDDEN,
    CMDQ_BUFFER_GATE,
    CMDQ_BUFFER_UP = CMDQ_BUFFER_GATE + CMDQ_LOWER_SLOTS,
    CMDQ_BUFFER_WEIGHTS = CMDQ_BUFFER_UP + CMDQ_LOWER_SLOTS,
    CMDQ_BUFFER_SCALES = CMDQ_BUFFER_WEIGHTS + CMDQ_LOWER_SLOTS,
    CMDQ_BUFFER_COUNT = CMDQ_BUFFER_SCALES + CMDQ_LOWER_SLOTS
} cmdq_lower_buffer_id;

/* A matrix in DRAM. */
typedef struct cmdq_lower_matrix {
    uint32_t rows, columns;
    uint64_t data, scales, row_bytes;
} cmdq_lower_matrix;

/* Scales of activations: the value of integer 1, for inputs of products and for the KV cache. 16-bit activations are
 * floating point: 1. */
typedef struct cmdq_lower_act_scales {
    float attn_in, q, attn_out; /* the normalized input, rotated queries, attention output */
    float ffn_in, ffn_hidden;   /* the normalized input of feed-forward, and the input of DOWN */
    float logits_in;            /* input of the classifier */
    float k, v;
} cmdq_lower_act_scales;

typedef struct cmdq_lowering {
    const tv_graph *graph;
    const tv_model *model;
    tv_machine *machine;
    tv_pool *pool;                /* for quantization */
    tv_program *loaded_program;   /* the program loaded into the machine */
    tv_program *previous_program; /* the previous one, whose memory the next one reuses; or NULL */
    unsigned weight_bits, activation_bits, group, te, ve;
    uint32_t context, rows_max;
    uint32_t hidden_tile; /* hidden columns processed at a time in steps of several tokens */
    uint64_t bank_bytes, dram_end;
    cmdq_lower_matrix *matrices; /* [layers][TV_WEIGHTS]; norms have no scales */
    uint64_t x_addr, logits_addr, mask_addr, *k_base, *v_base;
    cmdq_lower_act_scales *act_scales; /* [layers]; layer 0 also has those outside of layers */

    /* the queue under construction */
    cmdq_lower_buffer buffers[CMDQ_BUFFER_COUNT];
    char block_name[TV_BLOCK_NAME_MAX]; /* block of the model, the label of the entries */
    tv_queue_builder *builder;
    tv_buf metadata;       /* of the step, as it is written */
    size_t weights_at;     /* offset in it of the reference to the weights */
    TV_VEC(uint32_t) deps; /* of the current entry */
    uint32_t slot, next_te, next_ve;
    uint32_t *kv_writer; /* [layers]: the last KV_STORE */
    uint32_t rows, position;
    unsigned reads[8], writes[4], read_count, write_count;
    tv_output_group *outputs; /* or NULL */
    const char *emit;
    bool timing;                /* timing only, no data */
    float **values;             /* recorded values of the graph, or NULL */
    uint32_t *node_entries_end; /* number of entries after each node was lowered */
    uint32_t steps;
} cmdq_lowering;

/* A tensor in SPM: a buffer, an offset in it, the element width and the scale. */
typedef struct cmdq_lower_operand {
    unsigned buffer;
    uint64_t offset; /* bytes */
    unsigned qbits;
    float scale;
} cmdq_lower_operand;

/* An input of products: 8 bits with a scale, or 16 bits. */
static inline cmdq_lower_operand cmdq_lower_activations(const cmdq_lowering *l, cmdq_lower_buffer_id to, float scale)
{
    return (cmdq_lower_operand){to, 0, l->activation_bits, scale};
}

/* Scale of the input of a weight. It is folded into the scales of the weight, so products need no other. */
static inline float cmdq_lower_input_scale(const cmdq_lowering *l, tv_weight weight, uint32_t layer)
{
    const cmdq_lower_act_scales *r = &l->act_scales[layer];
    switch (weight) {
    case TV_WEIGHT_Q:
    case TV_WEIGHT_K:
    case TV_WEIGHT_V:
        return r->attn_in;
    case TV_WEIGHT_O:
        return r->attn_out;
    case TV_WEIGHT_GATE:
    case TV_WEIGHT_UP:
        return r->ffn_in;
    case TV_WEIGHT_DOWN:
        return r->ffn_hidden;
    case TV_WEIGHT_CLASSIFIER:
        return l->act_scales[0].logits_in;
    case TV_WEIGHT_EMBEDDING: /* not inputs of products */
    case TV_WEIGHT_NORM_ATTENTION:
    case TV_WEIGHT_NORM_FFN:
    case TV_WEIGHT_NORM_FINAL:
    case TV_WEIGHTS:
        break;
    }
    return 1;
}

/* Scale of a norm's output, that is, of the input of the following weights. */
static inline float cmdq_lower_norm_scale(const cmdq_lowering *l, const tv_graph_node *n)
{
    tv_weight consumer = n->weight == TV_WEIGHT_NORM_FINAL ? TV_WEIGHT_CLASSIFIER
                         : n->weight == TV_WEIGHT_NORM_FFN ? TV_WEIGHT_GATE
                                                           : TV_WEIGHT_Q;
    return cmdq_lower_input_scale(l, consumer, n->layer);
}

static inline cmdq_lower_matrix *cmdq_lower_matrix_of(const cmdq_lowering *l, tv_weight weight, uint32_t layer)
{
    return &l->matrices[(size_t)layer * TV_WEIGHTS + weight];
}

/* Rows of a weight with `columns` columns that fit a bank with their scales. */
static inline uint32_t cmdq_lower_tile_rows(const cmdq_lowering *l, uint32_t columns)
{
    uint64_t weights = l->buffers[CMDQ_BUFFER_WEIGHTS].bytes / ((uint64_t)columns * l->weight_bits / 8),
             scales = l->buffers[CMDQ_BUFFER_SCALES].bytes / (columns / l->group * 4);
    return (uint32_t)(weights < scales ? weights : scales);
}

/* Columns of the causal mask in DRAM. Each of its CMDQ_LOWER_MASK_ROWS rows has zeros up to column context + row, then
 * -infinity. Tokens at any position add the columns that start at (context - position). */
static inline uint32_t cmdq_lower_mask_columns(const cmdq_lowering *l) { return l->context + CMDQ_LOWER_MASK_ROWS; }

/* The weight whose product a value is. */
static inline tv_weight cmdq_lower_producer(const cmdq_lowering *l, uint32_t value)
{
    uint32_t i = 0;
    while (l->graph->nodes[i].output != value)
        i++;
    return l->graph->nodes[i].weight;
}

/* Measures the activation scales on the options' calibration tokens, which the host runs. */
tv_status cmdq_lower_calibrate(cmdq_lowering *l, const tv_backend_options *options, const tv_diag_sink *sink);

/* Appends the entries of a node. Rows from `first` on have logits. */
void cmdq_lower_node(cmdq_lowering *l, const tv_graph_node *n, uint32_t first);

#endif
