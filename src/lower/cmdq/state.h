/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the lowering to CMDQ. support.c finds what the machine can execute, formats.c chooses how every value is
 * stored, buffers.c allocates SPM, plan.c combines them; upload.c writes the constants to DRAM; entries.c appends queue
 * entries with their dependencies, order.c drops those that others imply; nodes.c, pointwise.c, products.c, experts.c,
 * attention.c, attention_blocks.c and kv_cache.c lower the operators; host.c computes the nodes that the machine
 * cannot; lower.c runs the queues. layout.h and emit.h declare their functions. */
#ifndef TV_LOWER_CMDQ_STATE_H
#define TV_LOWER_CMDQ_STATE_H

#include "base/vec.h"
#include "graph/backend.h"
#include "graph/passes.h"
#include "lower/cmdq/order.h"
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
    CMDQ_LOWER_TILE_MIN = 64,
    CMDQ_LOWER_MASKS_MAX = 4,   /* distinct windows of attention */
    CMDQ_LOWER_SCRATCH_MAX = 6, /* buffers of one node besides its output */
    CMDQ_LOWER_MATRICES_MAX = 5 /* inputs of a node that may be constants */
};

#define CMDQ_LOWER_NONE UINT32_MAX /* no entry, buffer or bank */

/* `rows` rows of `bytes` of a buffer, `stride` bytes from row to row, from `offset` on. */
typedef struct cmdq_lower_range {
    uint64_t offset, bytes, rows, stride;
} cmdq_lower_range;

/* What an entry writes of a buffer. */
typedef struct cmdq_lower_write {
    uint32_t entry;
    cmdq_lower_range range;
} cmdq_lower_write;

/* A buffer in SPM while the nodes [first, last] execute, and the entries of the queue under construction that last
 * wrote and read it. */
typedef struct cmdq_lower_buffer {
    uint32_t bank, first, last;
    uint64_t offset, bytes;
    bool started; /* written in this queue */
    uint32_t writer;
    TV_VEC(uint32_t) readers;         /* entry ids */
    TV_VEC(cmdq_lower_write) writers; /* of disjoint tiles, which do not wait for each other */
    TV_VEC(uint32_t) before;          /* what these wait for: the entries of buffers whose memory this one takes */
} cmdq_lower_buffer;

/* How a value is stored: in integers of `scale`, or in floating point. With several tokens its elements are matrices
 * [tokens][tile], one after the other. A value that is part of another one, or the same elements in another shape, is a
 * view: it shares the buffer of that and begins at its element `first`. */
typedef struct cmdq_lower_format {
    uint32_t buffer; /* CMDQ_LOWER_NONE: not stored */
    unsigned qbits;
    float scale;
    uint32_t tile, first;
} cmdq_lower_format;

/* Scratch buffers of a node, by its operator. */
enum {
    CMDQ_SCRATCH_VECTOR = 0, /* norms: gains; products: bias */
    CMDQ_SCRATCH_VECTOR2,    /* norms: bias */
    CMDQ_SCRATCH_GATE = 0,   /* GatedLinear: two tiles of each product; Linear with an activation: of the product */
    CMDQ_SCRATCH_UP = 2,
    CMDQ_SCRATCH_KEYS = 0, /* Attention */
    CMDQ_SCRATCH_VALUES,
    CMDQ_SCRATCH_SCORES,
    CMDQ_SCRATCH_PROBS,
    CMDQ_SCRATCH_KEYS2, /* in blocks: the second of two buffers */
    CMDQ_SCRATCH_VALUES2,
    CMDQ_SCRATCH_HIDDEN = 4, /* MoE: the product of gate and up, two tiles */
    CMDQ_SCRATCH_BIAS = 5,   /* Linear */
};

/* SPM for steps of up to `rows` tokens. */
typedef struct cmdq_lower_plan {
    uint32_t rows, hidden_tile;
    bool small_blocks;          /* blocks of weights may be smaller than tiles */
    bool blocked;               /* attention loads keys and values in blocks of positions */
    cmdq_lower_format *formats; /* of each value */
    cmdq_lower_format *copies;  /* of each value: in integers, for products and caches; or not stored */
    uint32_t (*scratch)[CMDQ_LOWER_SCRATCH_MAX]; /* of each node: buffers */
    uint32_t masks[CMDQ_LOWER_MASKS_MAX];        /* buffers; for several tokens */
    uint32_t weights[CMDQ_LOWER_SLOTS], scales[CMDQ_LOWER_SLOTS];
    uint32_t stream; /* a tile of streamed values */
    TV_VEC(cmdq_lower_buffer) buffers;
} cmdq_lower_plan;

/* A constant in DRAM: integers with a scale for each group of a row, or binary32 (scales = 0). */
typedef struct cmdq_lower_matrix {
    uint32_t rows, columns, group;
    unsigned bits; /* of the integers */
    uint64_t data, scales, row_bytes;
} cmdq_lower_matrix;

/* The experts of the tokens of a step: experts_used of each token. */
typedef struct cmdq_lower_routes {
    uint32_t *chosen; /* [tokens][experts_used] */
    float *weights;
} cmdq_lower_routes;

/* A field of an entry that depends on the position (advance.c). */
typedef struct cmdq_lower_growing {
    uint32_t entry;
    cmdq_field field;
    int64_t per_position;
} cmdq_lower_growing;

/* Those of the loaded queue, which is that of `position`. */
typedef struct cmdq_lower_growth {
    TV_VEC(cmdq_lower_growing) fields;
    TV_VEC(uint32_t) entries; /* of these, each once */
    uint32_t position, first_logits_row;
    uint32_t end;   /* from this position on the queue has other entries; 0: it cannot be changed */
    uint32_t limit; /* likewise, of the queue under construction */
} cmdq_lower_growth;

typedef struct cmdq_lowering cmdq_lowering;
typedef void cmdq_lower_emitter(cmdq_lowering *l, const tv_graph_node *n);

struct cmdq_lowering {
    const tv_graph *graph;
    cmdq_lower_emitter *const *emitters; /* of each operator; NULL: the machine lacks it */
    tv_machine *machine;
    tv_pool *pool;                /* for quantization */
    tv_program *loaded_program;   /* the program loaded into the machine */
    tv_program *previous_program; /* the previous one, whose memory the next one reuses; or NULL */
    unsigned weight_bits, activation_bits, te, ve;
    bool allow_host_ops;
    bool *on_host;  /* of each node: the host computes it */
    bool *streamed; /* of each value: it goes to DRAM tile by tile (support.c) */
    uint32_t context;
    uint64_t bank_bytes, dram_end;
    float *ranges;                                          /* of each value: absmax of its activations; NULL: timing */
    uint32_t window_count, windows[CMDQ_LOWER_MASKS_MAX];   /* distinct windows of attention; 0: none */
    cmdq_lower_plan plans[2];                               /* of one token, of several */
    cmdq_lower_matrix (*matrices)[CMDQ_LOWER_MATRICES_MAX]; /* of each node: its inputs that are constants */
    uint64_t *inputs;                                       /* of each value that Gather reads: its rows in DRAM */
    uint64_t logits_addr, masks_addr[CMDQ_LOWER_MASKS_MAX], *k_base, *v_base;
    uint64_t constants_end, caches_end;    /* the KV cache is between them */
    uint64_t to_host_addr, from_host_addr; /* DRAM for the inputs and the output of a node that the host computes */
    cmdq_lower_routes routes;              /* of the current MoE */
    tv_host_op host_ops[TV_OPS];           /* those that were executed, one for each operator */
    unsigned host_op_count;

    /* the queue under construction */
    cmdq_lower_plan *plan;
    char block_name[TV_BLOCK_NAME_MAX]; /* block of the model, the label of the entries */
    tv_queue_builder *builder;
    tv_buf metadata;           /* of the step, as it is written */
    size_t weights_at;         /* offset in it of the reference to the weights */
    TV_VEC(uint32_t) deps;     /* of the current entry */
    TV_VEC(uint32_t) occupied; /* buffers whose memory no other buffer covers */
    cmdq_lower_order order;    /* of the entries so far */
    cmdq_lower_growth growth;
    uint32_t slot, next_te, next_ve;
    uint32_t *kv_writer; /* [caches]: the last KV_STORE */
    uint32_t rows, position, first_logits_row;
    uint32_t reads[8], writes[4], read_count, write_count; /* buffers */
    cmdq_lower_range read_ranges[8];                       /* of these: the bytes that are read */
    bool has_tile;                                         /* the entry writes a tile of a buffer */
    uint32_t tile_buffer;
    cmdq_lower_range tile;
    tv_weight_report weights;
    tv_llm_progress step_progress;
    uint64_t step_done, step_count; /* tokens of the current step: before the current rows; all */
    tv_output_group *outputs;       /* or NULL */
    const char *emit;
    bool timing;                /* timing only, no data */
    float **values;             /* recorded values of the graph, or NULL */
    uint32_t *node_entries_end; /* number of entries after each node was lowered */
    uint32_t first_node;        /* of the queue under construction */
    uint32_t end_node;          /* after the last one of it */
    uint32_t steps;             /* queues that were run */
};

/* A tensor in SPM: a buffer, an offset in it, the element width and the scale. */
typedef struct cmdq_lower_operand {
    uint32_t buffer;
    uint64_t offset; /* bytes */
    unsigned qbits;
    float scale;
} cmdq_lower_operand;

/* Columns of the causal masks in DRAM. Each of the CMDQ_LOWER_MASK_ROWS rows has zeros up to column context + row (and,
 * with a window, only that many), otherwise -infinity. Tokens at any position add the columns that start at (context -
 * position). */
static inline uint32_t cmdq_lower_mask_columns(const cmdq_lowering *l) { return l->context + CMDQ_LOWER_MASK_ROWS; }

static inline bool cmdq_lower_has_input(const tv_graph_node *n, unsigned input)
{
    return n->inputs[input] != TV_NO_VALUE;
}

static inline bool cmdq_lower_is_constant(const cmdq_lowering *l, uint32_t value)
{
    return tv_graph_value_at(l->graph, value)->source == TV_VALUE_CONSTANT;
}

static inline bool cmdq_lower_is_computed(const cmdq_lowering *l, uint32_t value)
{
    return value != TV_NO_VALUE && tv_graph_value_at(l->graph, value)->source == TV_VALUE_COMPUTED;
}

static inline uint32_t cmdq_lower_node_index(const cmdq_lowering *l, const tv_graph_node *n)
{
    return (uint32_t)(n - l->graph->nodes.data);
}

/* Vectors of the last axis for each token. */
static inline uint64_t cmdq_lower_vectors(const cmdq_lowering *l, uint32_t value)
{
    return tv_graph_elements(l->graph, value) / tv_graph_columns(l->graph, value);
}

/* True for nodes that are computed only for tokens that need logits. */
static inline bool cmdq_lower_is_output(const cmdq_lowering *l, uint32_t value)
{
    return tv_graph_value_at(l->graph, value)->block == TV_BLOCK_OUTPUT;
}

/* Tokens of a step for which a value is computed. */
static inline uint32_t cmdq_lower_rows(const cmdq_lowering *l, uint32_t value)
{
    return cmdq_lower_is_output(l, value) ? l->rows - l->first_logits_row : l->rows;
}

#endif
