/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the lowering to CMDQ. plan.c chooses the format of every value and allocates SPM, upload.c writes the
 * constants to DRAM, entries.c appends queue entries with their dependencies, nodes.c lowers the operators, lower.c
 * runs the queues. */
#ifndef TV_LOWER_CMDQ_STATE_H
#define TV_LOWER_CMDQ_STATE_H

#include "base/vec.h"
#include "graph/backend.h"
#include "graph/passes.h"
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
    CMDQ_LOWER_MATRICES_MAX = 3 /* of one node */
};

#define CMDQ_LOWER_NONE UINT32_MAX /* no entry, buffer or bank */

/* A buffer in SPM while the nodes [first, last] execute, and the entries of the queue under construction that last
 * wrote and read it. */
typedef struct cmdq_lower_buffer {
    uint32_t bank, first, last;
    uint64_t offset, bytes;
    bool started; /* written in this queue */
    uint32_t writer;
    TV_VEC(uint32_t) readers; /* entry ids */
} cmdq_lower_buffer;

/* How a value is stored: in integers of `scale`, or in floating point with scale 1. With several tokens its columns are
 * matrices [tokens][tile], one after the other. */
typedef struct cmdq_lower_format {
    uint32_t buffer; /* CMDQ_LOWER_NONE: not stored */
    unsigned qbits;
    float scale;
    uint32_t tile;
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
    CMDQ_SCRATCH_LOGITS = 2, /* the classifier */
    CMDQ_SCRATCH_BIAS = 5,   /* Linear */
};

/* SPM for steps of up to `rows` tokens. */
typedef struct cmdq_lower_plan {
    uint32_t rows, hidden_tile;
    cmdq_lower_format *formats;                  /* of each value */
    uint32_t (*scratch)[CMDQ_LOWER_SCRATCH_MAX]; /* of each node: buffers */
    uint32_t masks[CMDQ_LOWER_MASKS_MAX];        /* buffers; for several tokens */
    uint32_t weights[CMDQ_LOWER_SLOTS], scales[CMDQ_LOWER_SLOTS];
    TV_VEC(cmdq_lower_buffer) buffers;
} cmdq_lower_plan;

/* A constant in DRAM: integers with a scale for each group of a row, or binary32 (scales = 0). */
typedef struct cmdq_lower_matrix {
    uint32_t rows, columns;
    uint64_t data, scales, row_bytes;
} cmdq_lower_matrix;

typedef struct cmdq_lowering {
    const tv_graph *graph;
    tv_machine *machine;
    tv_pool *pool;                /* for quantization */
    tv_program *loaded_program;   /* the program loaded into the machine */
    tv_program *previous_program; /* the previous one, whose memory the next one reuses; or NULL */
    unsigned weight_bits, activation_bits, group, te, ve;
    uint32_t context;
    uint64_t bank_bytes, dram_end;
    float *ranges;                                          /* of each value: absmax of its activations; NULL: timing */
    uint32_t window_count, windows[CMDQ_LOWER_MASKS_MAX];   /* distinct windows of attention; 0: none */
    cmdq_lower_plan plans[2];                               /* of one token, of several */
    cmdq_lower_matrix (*matrices)[CMDQ_LOWER_MATRICES_MAX]; /* of each node: its constants but the first input */
    uint64_t *inputs;                                       /* of each value that Gather reads: its rows in DRAM */
    uint64_t logits_addr, masks_addr[CMDQ_LOWER_MASKS_MAX], constants_end, *k_base, *v_base;

    /* the queue under construction */
    cmdq_lower_plan *plan;
    char block_name[TV_BLOCK_NAME_MAX]; /* block of the model, the label of the entries */
    tv_queue_builder *builder;
    tv_buf metadata;           /* of the step, as it is written */
    size_t weights_at;         /* offset in it of the reference to the weights */
    TV_VEC(uint32_t) deps;     /* of the current entry */
    TV_VEC(uint32_t) occupied; /* buffers whose memory no other buffer covers */
    uint32_t slot, next_te, next_ve;
    uint32_t *kv_writer; /* [caches]: the last KV_STORE */
    uint32_t rows, position, first_logits_row;
    uint32_t reads[8], writes[4], read_count, write_count; /* buffers */
    tv_output_group *outputs;                              /* or NULL */
    const char *emit;
    bool timing;                /* timing only, no data */
    float **values;             /* recorded values of the graph, or NULL */
    uint32_t *node_entries_end; /* number of entries after each node was lowered */
    uint32_t steps;
} cmdq_lowering;

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

/* True for the product whose output is as wide as the vocabulary: it goes to DRAM tile by tile. */
static inline bool cmdq_lower_is_classifier(const cmdq_lowering *l, const tv_graph_node *n)
{
    return n->op == TV_OP_LINEAR && n->block == TV_BLOCK_OUTPUT &&
           tv_graph_columns(l->graph, n->output) == tv_graph_vocabulary(l->graph);
}

/* The operators that the lowering has: NULL for the others. nodes.c */
typedef void cmdq_lower_emitter(cmdq_lowering *l, const tv_graph_node *n);
extern cmdq_lower_emitter *const cmdq_lower_emitters[TV_OPS];

/* ---- plan.c ---- */

/* Chooses formats, tiles and buffers. TV_ERR_INPUT: an operator that the machine does not have (TV-L044), or values
 * that do not fit SPM. */
tv_status cmdq_lower_plan_memory(cmdq_lowering *l, const tv_backend_options *options, const tv_diag_sink *sink);
void cmdq_lower_plan_fini(cmdq_lower_plan *plan);

/* ---- upload.c ---- */

/* Allocates DRAM. TV_ERR_INPUT: the model does not fit. */
tv_status cmdq_lower_allocate(cmdq_lowering *l, const tv_diag_sink *sink);

/* Uploads the constants. */
tv_status cmdq_lower_upload(cmdq_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink);

/* ---- entries.c ---- */

static inline cmdq_lower_operand cmdq_lower_f32(uint32_t buffer) { return (cmdq_lower_operand){buffer, 0, 32, 1}; }

cmdq_lower_operand cmdq_lower_value(const cmdq_lowering *l, uint32_t value);
uint32_t cmdq_lower_scratch(const cmdq_lowering *l, const tv_graph_node *n, unsigned which);

void cmdq_lower_begin_queue(cmdq_lowering *l); /* forgets the entries of earlier queues */

void cmdq_lower_add_read(cmdq_lowering *l, uint32_t buffer);
void cmdq_lower_add_write(cmdq_lowering *l, uint32_t buffer);
void cmdq_lower_add_dependency(cmdq_lowering *l, uint32_t entry);

/* Completes an entry with the dependencies that follow from its reads and writes; returns its id. */
uint32_t cmdq_lower_finish_entry(cmdq_lowering *l);

void cmdq_lower_set_integer(cmdq_lowering *l, cmdq_field field, uint64_t value);
void cmdq_lower_set_scale(cmdq_lowering *l, cmdq_field field, float value); /* 1 is the default and is omitted */
void cmdq_lower_set_address(cmdq_lowering *l, cmdq_field bank, uint32_t buffer, uint64_t offset);

void cmdq_lower_begin_transfer(cmdq_lowering *l, cmdq_opcode opcode, const char *role, unsigned qbits, uint64_t addr,
                               uint64_t rows, uint64_t elements, uint64_t stride);

/* Loads `rows` rows of `elements`, `stride` bytes apart. */
void cmdq_lower_load(cmdq_lowering *l, cmdq_lower_operand to, const char *role, uint64_t addr, uint64_t rows,
                     uint64_t elements, uint64_t stride);

/* Rows of a weight with `columns` columns that fit a bank with their scales. */
uint32_t cmdq_lower_tile_rows(const cmdq_lowering *l, const cmdq_lower_plan *plan, uint32_t columns);

/* Tensor entries: in[m][k] times wgt[n][k]. */
typedef struct cmdq_lower_gemm {
    uint64_t m, n, k;
    unsigned weight_bits;
} cmdq_lower_gemm;
void cmdq_lower_begin_tensor(cmdq_lowering *l, cmdq_opcode opcode, cmdq_lower_operand in, uint32_t wgt,
                             cmdq_lower_operand out, cmdq_lower_gemm shape);

void cmdq_lower_begin_vector(cmdq_lowering *l, cmdq_opcode opcode, cmdq_lower_operand in, cmdq_lower_operand out,
                             uint64_t rows, uint64_t length);

/* Element by element; `b` is NULL for unary opcodes. */
void cmdq_lower_elementwise(cmdq_lowering *l, cmdq_opcode opcode, cmdq_lower_operand a, const cmdq_lower_operand *b,
                            cmdq_lower_operand out, uint64_t length);

/* Part of a product: rows [row, row + rows) and columns [column, column + columns) of W. */
typedef struct cmdq_lower_slice {
    uint32_t row, rows, column, columns;
    bool accumulate; /* the product is added to the output */
    uint32_t bias;   /* a buffer with a value for each row of W, or CMDQ_LOWER_NONE */
} cmdq_lower_slice;

/* out[m][rows] (+)= in[m][columns] * W[row …][column …]^T */
void cmdq_lower_product(cmdq_lowering *l, const cmdq_lower_matrix *w, cmdq_lower_operand in, cmdq_lower_operand out,
                        cmdq_lower_slice slice, uint32_t m);

#endif
