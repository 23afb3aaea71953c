/* SPDX-License-Identifier: Apache-2.0 */
/* The CMDQ lowering from the inside: cmdq_nodes.c turns nodes of the graph into entries of a queue, lower_cmdq.c lays
 * out the memories, quantizes the model and runs the queues. */
#ifndef TV_LOWER_CMDQ_LOWER_H
#define TV_LOWER_CMDQ_LOWER_H

#include "graph/backend.h"
#include "queue/builder.h"
#include "sim/pool.h"

enum {
    BANK_X,
    BANK_QUERY,
    BANK_WEIGHTS,
    BANK_KEY = 4,
    BANK_SCORES,
    BANK_CACHE,
    BANK_HIDDEN,
    BANKS,
    SLOTS = 2,
    ROWS_MAX = 64,
    SEEN_ROWS = 32,
    UNIT_MAX = 512,
    UNIT_MIN = 64
};

#define NO_ENTRY UINT32_MAX

/* When a place is used: what goes to attention and what goes to the feed-forward layer need not be there at once. The
 * data flow orders the two. */
typedef enum phase { ALWAYS, ATTENTION, FEED_FORWARD } phase;

/* A stretch of SPM, and the entries of the queue under construction that wrote and read it last. */
typedef struct place {
    unsigned bank;
    phase phase;
    uint64_t offset, bytes;
    uint32_t writer;
    tv_buf readers; /* uint32_t */
} place;

typedef enum place_id {
    X,
    XN,
    GAINS,
    MASK,
    QUERY,
    TURNED,
    KEY,
    KEY8,
    VALUE8,
    MIXED,
    SCORES,
    SHARES,
    LOGITS,
    KEYS,
    VALUES,
    HIDDEN,
    GATE,
    UP = GATE + SLOTS,
    WEIGHTS = UP + SLOTS,
    SCALES = WEIGHTS + SLOTS,
    PLACES = SCALES + SLOTS
} place_id;

/* A matrix in DRAM. */
typedef struct matrix {
    uint32_t rows, columns;
    uint64_t data, scales, row_bytes;
} matrix;

/* What 1 of an integer is worth: of activations that are inputs of products, and of the cache. Activations of 16 bits
 * are numbers themselves: 1. */
typedef struct cmdq_ranges {
    float attention, q, mixed; /* the normalised input, turned queries, the heads' mix */
    float ffn, hidden;         /* the same before the feed-forward layer, and what goes down from it */
    float final;               /* input of the logits */
    float k, v;
} cmdq_ranges;

typedef struct lowering {
    const tv_graph *graph;
    const tv_model *model;
    tv_machine *machine;
    tv_pool *pool;       /* quantizes */
    tv_program *program; /* what the machine has loaded */
    tv_program *before;  /* the one before, whose memory the next one gets; or NULL */
    unsigned weight_bits, activation_bits, group, te, ve;
    uint32_t context, rows_max;
    uint32_t unit; /* of hidden columns, that are worked on at a time with more tokens than one */
    uint64_t bank_bytes, dram_end;
    matrix *matrices; /* TV_WEIGHTS of each layer; norms have no scales */
    uint64_t x_addr, logits_addr, mask_addr, *k_base, *v_base;
    cmdq_ranges *ranges; /* of each layer; of what belongs to none, in the first */

    /* the queue under construction */
    place places[PLACES];
    char part[TV_BLOCK_NAME_MAX]; /* of the model, that the entries belong to */
    tv_queue_builder *entries;
    tv_buf metadata, deps;
    uint32_t slot, te_turn, ve_turn;
    uint32_t *kv_writer; /* of each layer: its last KV_STORE */
    uint32_t rows, position;
    unsigned reads[8], writes[4], read_count, write_count;
    const char *emit;
    bool timing;        /* no data: cycles alone */
    float **values;     /* of the graph, for those that are kept; NULL: none are */
    uint32_t *node_end; /* of each node: entries of the queue when it was lowered */
    uint32_t steps;
} lowering;

/* A tensor in SPM: a place, bytes into it, element width, the value of 1. */
typedef struct operand {
    unsigned place;
    uint64_t offset; /* bytes */
    unsigned qbits;
    float scale;
} operand;

/* An input of products: of 8 bits, of which 1 is worth `range`, or of 16. */
static inline operand cmdq_activations(const lowering *l, place_id to, float range)
{
    return (operand){to, 0, l->activation_bits, range};
}

/* What 1 is worth of the input that a weight is multiplied with: its scales have that in them, so that a product needs
 * no other. */
static inline float cmdq_input_range(const lowering *l, tv_weight weight, uint32_t layer)
{
    const cmdq_ranges *r = &l->ranges[layer];
    switch (weight) {
    case TV_WEIGHT_Q:
    case TV_WEIGHT_K:
    case TV_WEIGHT_V:
        return r->attention;
    case TV_WEIGHT_O:
        return r->mixed;
    case TV_WEIGHT_GATE:
    case TV_WEIGHT_UP:
        return r->ffn;
    case TV_WEIGHT_DOWN:
        return r->hidden;
    default:
        return l->ranges[0].final;
    }
}

/* What 1 is worth behind a norm: as input of what comes behind it. */
static inline float cmdq_norm_range(const lowering *l, const tv_graph_node *n)
{
    tv_weight behind = n->weight == TV_WEIGHT_NORM_FINAL ? TV_WEIGHT_CLASSIFIER
                       : n->weight == TV_WEIGHT_NORM_FFN ? TV_WEIGHT_GATE
                                                         : TV_WEIGHT_Q;
    return cmdq_input_range(l, behind, n->layer);
}

static inline matrix *matrix_of(const lowering *l, tv_weight weight, uint32_t layer)
{
    return &l->matrices[(size_t)layer * TV_WEIGHTS + weight];
}

/* Rows of a weight that fit a bank with their scales, `columns` of them. */
static inline uint32_t rows_that_fit(const lowering *l, uint32_t columns)
{
    uint64_t weights = l->places[WEIGHTS].bytes / ((uint64_t)columns * l->weight_bits / 8),
             scales = l->places[SCALES].bytes / (columns / l->group * 4);
    return (uint32_t)(weights < scales ? weights : scales);
}

/* What is added to scores, so that a token sees none behind it: in DRAM for each of SEEN_ROWS tokens a row of zeros,
 * then of -infinity from column context + row + 1 on, of which tokens at any position take the columns that they need.
 */
static inline uint32_t cmdq_mask_columns(const lowering *l) { return l->context + SEEN_ROWS; }

/* The weight whose product a value is. */
static inline tv_weight made_by(const lowering *l, uint32_t value)
{
    uint32_t i = 0;
    while (l->graph->nodes[i].output != value)
        i++;
    return l->graph->nodes[i].weight;
}

/* Learns `ranges` from the options' sample, which the host runs. */
tv_status cmdq_learn_ranges(lowering *l, const tv_backend_options *options, const tv_diag_sink *sink);

/* Adds the entries of a node. Rows from `first` on have logits. */
void cmdq_lower_node(lowering *l, const tv_graph_node *n, uint32_t first);

#endif
