/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the lowering to pccx. plan.c decides what is folded into weights and which nodes the host computes,
 * allocate.c allocates L2; nodes.c, norm.c, gates.c, attention.c and elements.c lower the operators; emit.c encodes and
 * runs programs, upload.c writes the constants to host memory, kv_cache.c packs keys and values, layout.c computes
 * sizes, lower.c runs the steps.
 *
 * Units: addresses in L2 are L2 words (PCCX_LOWER_LANES BF16 elements), addresses in host memory are bytes. */
#ifndef TV_LOWER_PCCX_STATE_H
#define TV_LOWER_PCCX_STATE_H

#include "graph/backend.h"
#include "graph/host_ops.h"
#include "graph/passes.h"
#include "isa/pccx/pccx.h"
#include "lower/pccx/quantize.h"
#include "program/build.h"
#include "sim/pool.h"

enum {
    PCCX_LOWER_LANES = 8,       /* elements per L2 word */
    PCCX_LOWER_WORD_BYTES = 16, /* per L2 word */
    PCCX_LOWER_BLOCK = 32,      /* columns of a small matrix: one beat */
    PCCX_LOWER_BANK_ENTRIES = 64,
    PCCX_LOWER_HEAD_DIM_MAX = 512,
    PCCX_LOWER_PATH_MAX = 4096,
    PCCX_LOWER_LENGTH_MAX = 65528, /* elements of an instruction, whole L2 words */
    PCCX_LOWER_PIECE_MAX = 4096,   /* elements that pass through a work buffer at once */
    PCCX_LOWER_WORK_BUFFERS = 4
};

/* Work of the host, or a handover to it. */
typedef enum pccx_lower_host_op {
    PCCX_LOWER_PACK_KEYS,
    PCCX_LOWER_PACK_VALUES,
    PCCX_LOWER_HANDOVER,
    PCCX_LOWER_HOST_OPS
} pccx_lower_host_op;

/* A weight matrix in host memory in the layout of the weight stream: blocks of at most PCCX_LOWER_BLOCK_ROWS rows; per
 * block, groups of columns; per group, planes, whose products are added; per plane, the scales of the rows, then the
 * rows. */
enum { PCCX_LOWER_BLOCK_ROWS = 32768 };
typedef struct pccx_lower_matrix {
    uint32_t rows, columns;
    unsigned planes;
    uint64_t addr, bytes; /* MoE: of the first expert; from one expert to the next */
} pccx_lower_matrix;

/* Scratch buffers of a node in L2, by its operator. All have one row per token of the step. Where a row is divided by a
 * scalar, the scalar is the L2 word before it. */
enum {
    PCCX_SCRATCH_MAX = 7,
    PCCX_SCRATCH_NORM_INPUT = 0, /* Norm: for each row and group, the root of the sum of squares, then the input */
    PCCX_SCRATCH_SQUARES,
    PCCX_SCRATCH_SUM,
    PCCX_SCRATCH_CENTERED,     /* with subtract_mean */
    PCCX_SCRATCH_SCORES = 0,   /* Attention: of two heads */
    PCCX_SCRATCH_EXPS,         /* of two heads */
    PCCX_SCRATCH_UNNORMALIZED, /* per head, the sum of the exponentials, then the weighted sum */
    PCCX_SCRATCH_QUERY,        /* queries times the scale, where it is no factor of weights */
    PCCX_SCRATCH_RECIPROCALS,  /* soft cap: of two heads, a scalar, then one element for each position */
    PCCX_SCRATCH_CAP,          /* soft cap: a row of its reciprocal */
    PCCX_SCRATCH_GATE = 0,     /* GatedLinear, MoE (a row for each token and expert), and Linear with Swish */
    PCCX_SCRATCH_SIGMOID,
    PCCX_SCRATCH_UP,
    PCCX_SCRATCH_ACT,
    PCCX_SCRATCH_EXPERT_INPUT, /* MoE: rows of tokens, grouped for GEMM */
    PCCX_SCRATCH_EXPERT_OUTPUT,
    PCCX_SCRATCH_EXPERT_WEIGHTS, /* a word each */
    PCCX_SCRATCH_FACTORS = 0     /* Div, Swish: what the other operand is multiplied by */
};

/* Constant words in L2 that several nodes use: one scalar each. */
typedef enum pccx_lower_common {
    PCCX_COMMON_ONE,
    PCCX_COMMON_MINUS_ONE,
    PCCX_COMMON_TWO,
    PCCX_COMMON_HALF,
    PCCX_COMMON_HUGE, /* 2^64 and its reciprocal */
    PCCX_COMMON_TINY,
    PCCX_COMMONS
} pccx_lower_common;
enum { PCCX_SCALARS_MAX = 3 }; /* constant words of a node */

#define PCCX_LOWER_NO_BUFFER UINT32_MAX

/* How a value is stored: rows of whole L2 words. */
typedef struct pccx_lower_value {
    uint32_t addr;          /* in L2 */
    uint32_t grouped_addr;  /* copy for GEMM: [group of columns][row][column]; PCCX_LOWER_NO_BUFFER: none */
    uint32_t grouped_first; /* first row of the copy */
    bool grouped;           /* the copy is made, in this step */
} pccx_lower_value;

/* L2 for steps of up to `rows` tokens. */
typedef struct pccx_lower_plan {
    uint32_t rows;
    bool packed_tables;
    pccx_lower_value *values;              /* of each value of the graph */
    uint32_t (*scratch)[PCCX_SCRATCH_MAX]; /* of each node: addresses */
    uint32_t ones, constants;              /* addresses: ones; constant words */
    uint32_t units;                        /* address: with packed tables, rows of the identity */
    uint32_t minus_ones, work;             /* addresses: minus ones; work buffers, each a scalar and a piece */
    uint64_t words;                        /* used */
} pccx_lower_plan;

/* What is folded into the constants of a node. */
typedef struct pccx_lower_fold {
    bool gains;         /* Norm: its gains are part of the weights that read it */
    bool on_host;       /* the host computes the node */
    bool heads_at_once; /* RotaryEmbedding: GEMM rotates all heads of a token */
    bool precise;       /* Linear: two planes of weights at least */
    bool packed;        /* Gather: INT4 */
    float factor; /* of the output: Linear: of its weights; Norm: of its gains; Attention: what is left of its scale */
} pccx_lower_fold;

/* The constants of a node in host memory. */
typedef struct pccx_lower_constants {
    pccx_lower_matrix matrices[3]; /* Linear: 1; GatedLinear: gate and up; MoE: down, too */
    uint64_t bias;                 /* a row; 0: none */
    uint64_t gains;                /* Norm: a group's; operands of elementwise operators that are vectors: a row */
    uint64_t inverse;              /* Norm: one word, 1 / its size and zeros */
    uint64_t cosines, sines;       /* RotaryEmbedding: [position][rotary_dim] */
    uint64_t identity, partners;   /* of all heads at once: [rotary_dim][rotary_dim], the element itself, or the other
                                      one of its pair */
    uint64_t table, row_bytes;     /* Gather: rows, and the bytes of a row */
    uint32_t constant;             /* index of its first constant word */
} pccx_lower_constants;

/* Addresses in host memory besides the constants of nodes, in bytes. */
typedef struct pccx_lower_host_map {
    uint64_t end;
    uint64_t identity, rotation; /* 32 rows of one beat: the identity; the rotation of neighbours by 90 degrees */
    uint64_t units;              /* rows of the identity as activations, with packed tables */
    uint64_t zeros;              /* PCCX_LOWER_LANES rows of one beat */
    uint64_t ones, minus_ones;   /* row scales */
    uint64_t cuts;               /* [PCCX_LOWER_BLOCK][PCCX_LOWER_BLOCK]: row i has i zeros, then ones */
    uint64_t words;              /* image of the constant words */
    uint64_t model_end;          /* end of what sessions do not modify */
    uint64_t vector, vector2;    /* vectors that the next program streams */
    uint64_t key, value, logits; /* results that the host reads */
    uint64_t expert_weights;     /* MoE: a word for each token and expert */
    uint64_t host_nodes;         /* inputs of a node that the host computes, and its output */
    uint64_t *keys, *values;     /* of each cache: [head][plane] */
} pccx_lower_host_map;

/* The incomplete blocks of values of a cache. A row is an element of a head: [head][dim]. */
typedef struct pccx_lower_value_blocks {
    uint16_t *values;        /* BF16: [head][PCCX_LOWER_BLOCK][dim] */
    float *absmax;           /* of each row: signed absmax of the values so far */
    float *scales;           /* of each row */
    uint32_t *rescale_count; /* of each row: choose the scale for this many values; 0: it is current */
    uint32_t *packed;        /* of each head: number of positions in its image */
    uint8_t *images;         /* of each head: the block as it is streamed; used with one plane only */
} pccx_lower_value_blocks;

/* The product of two vectors, to = to * from, which an extension has. */
enum { PCCX_LOWER_PRODUCT = PCCX_INSNS + 1, PCCX_LOWER_INSNS };

/* An instruction of the lowering, or with insn PCCX_INSNS bytes of the weight stream of the next product. */
typedef struct pccx_lower_op {
    pccx_insn insn;
    uint32_t to, from;    /* in L2 */
    uint64_t host, bytes; /* address in host memory */
    uint32_t m, n, k;     /* of products; k: elements of the others; m of a stream: of GEMM */
    unsigned flags;
} pccx_lower_op;

typedef struct pccx_lowering {
    const tv_graph *graph;
    tv_machine *machine;
    tv_program *loaded_program; /* the program loaded into the machine */
    tv_pool *pool;              /* of the machine */
    tv_scale_search_fn *scale_search;
    uint32_t context;
    uint32_t group;                    /* columns per scale */
    uint32_t rows_max, rows, position; /* tokens per step at most, and those of this step, which start at `position` */
    uint32_t first_logits_row;         /* first row of the step that needs logits */
    uint32_t row_first, row_end;       /* rows of the current node */
    unsigned planes, cache_planes;
    uint32_t widest, constant_count; /* elements of the widest row that passes through host memory; constant words */
    uint32_t tail;                   /* first node whose output is as wide as the vocabulary */
    uint32_t common;                 /* index of the first of the common constant words */
    uint32_t piece, minus_length;    /* elements of a work buffer, 0: there are none; elements of `minus_ones` */
    unsigned work_next;              /* next work buffer */
    uint32_t experts_used;           /* most of any MoE; 0: there is none */
    pccx_lower_fold *folds;          /* of each node */
    pccx_lower_constants *constants; /* of each node */
    pccx_lower_plan plan;
    pccx_lower_host_map map;
    pccx_lower_value_blocks *value_blocks; /* of each cache */
    tv_buf kv_rows, kv_packed;             /* scratch memory of pccx_lower_append_kv */
    bool timing;                           /* timing only, no data */
    bool keep_values;
    float **kept_values; /* graph values that pass through host memory (the inputs of norms), or NULL */
    bool allow_host_ops;
    bool has_packed_tables, has_gemm;
    struct tv_host_node **host_nodes;                  /* of each node, or NULL */
    tv_host_op host_ops[PCCX_LOWER_HOST_OPS + TV_OPS]; /* the first ones by pccx_lower_host_op */
    unsigned host_op_count, host_op_of[TV_OPS];
    tv_output_group *outputs; /* or NULL */
    tv_weight_report weights;
    tv_llm_progress step_progress;
    uint64_t step_done, step_count; /* tokens of the current step: before the current rows; all */
    const char *emit;
    uint32_t steps, programs;
    bool constants_loaded; /* L2 contains the constants */
    const int32_t *tokens; /* of the step */

    /* receives instructions that are appended later, in another order; NULL: they are appended at once */
    void (*record)(struct pccx_lowering *l, const pccx_lower_op *op);

    /* the program under construction */
    char block_name[TV_BLOCK_NAME_MAX]; /* block of the model, the label of the current instructions */
    tv_builder program;
    uint64_t encodings[PCCX_LOWER_INSNS]; /* of each instruction, with all operands zero */
    bool has_product;                     /* an extension has PCCX_LOWER_PRODUCT */
    struct {
        uint32_t a, b, c;
    } bank_entries[2][PCCX_LOWER_BANK_ENTRIES];
    uint32_t bank_count[2];
} pccx_lowering;

/* L2 words of a row of elements; beats of a row of weights. */
static inline uint32_t pccx_lower_l2_size(uint32_t elements)
{
    return (elements + PCCX_LOWER_LANES - 1) / PCCX_LOWER_LANES;
}
static inline uint32_t pccx_lower_beats(uint32_t weights)
{
    return (weights + PCCX_LOWER_BEAT_WEIGHTS - 1) / PCCX_LOWER_BEAT_WEIGHTS;
}

/* Columns of a row in whole L2 words. */
static inline uint32_t pccx_lower_padded(uint32_t columns) { return pccx_lower_l2_size(columns) * PCCX_LOWER_LANES; }

static inline const pccx_lower_constants *pccx_lower_constants_of(const pccx_lowering *l, const tv_graph_node *n)
{
    return &l->constants[n - l->graph->nodes.data];
}

static inline const pccx_lower_fold *pccx_lower_fold_of(const pccx_lowering *l, const tv_graph_node *n)
{
    return &l->folds[n - l->graph->nodes.data];
}

/* True for products with matrices of the machine; their first input is what they multiply. */
static inline bool pccx_lower_is_product(const pccx_lowering *l, const tv_graph_node *n)
{
    return (n->op == TV_OP_LINEAR || n->op == TV_OP_GLU) && !pccx_lower_fold_of(l, n)->on_host;
}

/* Values as wide as the vocabulary, which nodes from `tail` on compute: L2 has one row of them, and these nodes are
 * executed row by row. */
static inline bool pccx_lower_is_wide(const pccx_lowering *l, uint32_t value)
{
    const tv_graph_value *v = tv_graph_value_at(l->graph, value);
    return v->source == TV_VALUE_COMPUTED && v->producer >= l->tail &&
           tv_graph_columns(l->graph, value) == tv_graph_vocabulary(l->graph);
}

static inline uint32_t pccx_lower_columns(const pccx_lowering *l, uint32_t value)
{
    return (uint32_t)tv_graph_elements(l->graph, value);
}

/* Address of a row of a value. */
static inline uint32_t pccx_lower_row_addr(const pccx_lowering *l, uint32_t value, uint32_t row)
{
    uint32_t words = pccx_lower_l2_size(pccx_lower_columns(l, value));
    return l->plan.values[value].addr + (pccx_lower_is_wide(l, value) ? 0 : row * words);
}

static inline uint32_t pccx_lower_scratch_addr(const pccx_lowering *l, const tv_graph_node *n, unsigned which)
{
    return l->plan.scratch[n - l->graph->nodes.data][which];
}

static inline bool pccx_lower_has_input(const tv_graph_node *n, unsigned input)
{
    return n->inputs[input] != TV_NO_VALUE;
}

/* Elements that a Norm normalizes at a time. */
static inline uint32_t pccx_lower_norm_size(const pccx_lowering *l, const tv_graph_node *n)
{
    return tv_graph_columns(l->graph, n->output) / n->attrs.groups;
}

/* Address of a constant word: of a node; a common one. */
static inline uint32_t pccx_lower_scalar(const pccx_lowering *l, const tv_graph_node *n, unsigned which)
{
    return l->plan.constants + pccx_lower_constants_of(l, n)->constant + which;
}
static inline uint32_t pccx_lower_common_scalar(const pccx_lowering *l, pccx_lower_common which)
{
    return l->plan.constants + l->common + which;
}

/* ---- plan.c ---- */

/* How an operand of an elementwise operator is repeated. */
typedef enum pccx_lower_operand {
    PCCX_OPERAND_FULL,   /* computed, as large as the output */
    PCCX_OPERAND_TOKEN,  /* computed, one element for each token */
    PCCX_OPERAND_SCALAR, /* a constant */
    PCCX_OPERAND_VECTOR, /* constants, along the last axes */
    PCCX_OPERAND_OTHER
} pccx_lower_operand;
pccx_lower_operand pccx_lower_operand_of(const pccx_lowering *l, const tv_graph_node *n, unsigned input);

/* The operators that the lowering has: NULL for the others. nodes.c */
typedef tv_status pccx_lower_emitter(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink);
extern pccx_lower_emitter *const pccx_lower_emitters[TV_OPS];

/* Checks the graph against the machine (TV_ERR_INPUT), decides what is folded, and chooses rows_max. */
tv_status pccx_lower_plan_graph(pccx_lowering *l, const tv_config *config, const tv_diag_sink *sink);

/* Values of the constant words: common ones; those of a node, returning their number. */
float pccx_lower_common_value(pccx_lower_common which);
unsigned pccx_lower_node_scalars(const pccx_lowering *l, const tv_graph_node *n, float out[PCCX_SCALARS_MAX]);

/* Chooses rows_max, and allocates L2. TV_ERR_INPUT: even one row does not fit. */
tv_status pccx_lower_fit_rows(pccx_lowering *l, const tv_diag_sink *sink);

/* ---- allocate.c ---- */

/* Allocates L2 for steps of `rows` tokens. TV_ERR_MEMORY; nothing is reported. */
tv_status pccx_lower_plan_rows(pccx_lowering *l, uint32_t rows);

void pccx_lower_plan_fini(pccx_lower_plan *plan);

/* ---- layout.c ---- */

uint64_t pccx_lower_space_size(const tv_machine *machine, const char *name); /* in units of the space; 0: none */

/* Reserves host memory; returns its address. */
uint64_t pccx_lower_reserve(pccx_lowering *l, uint64_t bytes);

/* Reports that a value of a row of constants exceeds the range of BF16 (TV_ERR_INPUT, TV-L045). */
tv_status pccx_lower_fail_overflow(const tv_matrix *from, uint64_t row, const tv_diag_sink *sink);

/* Reads a row of constants, multiplied by a factor, to out[columns]. */
tv_status pccx_lower_read_row(const tv_matrix *from, uint32_t row, float factor, float *out, const tv_diag_sink *sink);

/* Writes n numbers as BF16; *addr receives their address. */
tv_status pccx_lower_upload_bf16(pccx_lowering *l, const float *values, uint64_t n, uint64_t *addr,
                                 const tv_diag_sink *sink);

/* Bytes of rows x columns elements with row scales: one plane; all planes of one group of columns; all groups. */
uint64_t pccx_lower_plane_bytes(uint32_t rows, uint32_t columns);
uint64_t pccx_lower_group_bytes(unsigned planes, uint32_t rows, uint32_t columns);
uint64_t pccx_lower_block_bytes(const pccx_lowering *l, unsigned planes, uint32_t rows, uint32_t columns);

/* Positions that a cache has room for. Where its readers see a window only, it is a ring of whole blocks. */
uint32_t pccx_lower_cache_positions(const pccx_lowering *l, uint32_t cache);

/* Of a cache: keys of one head, one plane; one block of values of one head, one plane. */
uint64_t pccx_lower_key_bytes(const pccx_lowering *l, uint32_t cache);
uint64_t pccx_lower_value_bytes(const pccx_lowering *l, uint32_t cache);

/* ---- emit.c ---- */

/* Flags of an instruction. */
enum {
    PCCX_LOWER_ACCM = 1,
    PCCX_LOWER_FINDEMAX = 2,
    PCCX_LOWER_SUB_EMAX = 4,
    PCCX_LOWER_RECIP_SCALE = 8,
    PCCX_LOWER_UNIT_SCALE = 16,
    PCCX_LOWER_SCALE_SHIFT = 16 /* of a product: BF16 that activations are divided by; 0: by their absmax */
};

/* Looks up the instruction encodings. Must be called before any instruction is emitted. */
tv_status pccx_lower_init_encodings(pccx_lowering *l, const tv_diag_sink *sink);

/* Append one instruction. Copies and CVO functions are asynchronous: the scheduler of the machine keeps data
 * dependencies. */
void pccx_lower_load(pccx_lowering *l, uint32_t to, uint64_t from, uint32_t elements);
void pccx_lower_store(pccx_lowering *l, uint64_t to, uint32_t from, uint32_t elements);
void pccx_lower_move(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t elements);
void pccx_lower_stream(pccx_lowering *l, bool gemm, uint64_t addr, uint64_t bytes);
void pccx_lower_gemv(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t n, uint32_t k, unsigned flags);
void pccx_lower_gemm(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t m, uint32_t n, uint32_t k, unsigned flags);
void pccx_lower_cvo(pccx_lowering *l, pccx_insn insn, uint32_t to, uint32_t from, uint32_t length, unsigned flags);

/* Adds a data segment: bytes written to host memory when the program is loaded. */
void pccx_lower_add_data(pccx_lowering *l, uint64_t addr, const uint8_t *bytes, size_t n);

/* out[rows][m->rows] (+)= in[rows][columns] * m^T for the groups of columns [from, to). One row uses GEMV; several
 * rows, which must be grouped, use GEMM. `accm` accumulates to the first group too. */
void pccx_lower_project(pccx_lowering *l, const pccx_lower_matrix *m, uint32_t rows, uint32_t in, uint32_t out,
                        uint32_t from, uint32_t to, bool accm);

/* Copies [rows][columns] at `in` to `to`, the input of GEMMs: [group of columns][row][column]. */
void pccx_lower_group_rows(pccx_lowering *l, uint32_t to, uint32_t in, uint32_t rows, uint32_t columns);
uint32_t pccx_lower_group_count(const pccx_lowering *l, const pccx_lower_matrix *m);

/* The input of products, for the current rows; with several rows its groups of columns are copied once for all
 * readers. */
uint32_t pccx_lower_product_input(pccx_lowering *l, uint32_t value);

/* out[i] = in[i] * scales[i] for n elements: a GEMV with the identity, whose row scales are the vector at host address
 * `scales`. With the rotation instead of the identity, in[i] is the other element of its pair. `sum` adds the blocks of
 * the result; `accm` adds to `out`. */
void pccx_lower_multiply(pccx_lowering *l, uint32_t out, uint32_t in, uint64_t scales, uint64_t matrix, uint32_t n,
                         bool sum, bool accm);

/* Runs the program under construction, and starts an empty one. */
tv_status pccx_lower_run(pccx_lowering *l, const tv_diag_sink *sink);

enum { PCCX_LOWER_FILE_MAX = 64 };

/* Name of the file that the next program is written to. */
void pccx_lower_program_name(const pccx_lowering *l, char name[PCCX_LOWER_FILE_MAX]);

/* Ends the program, so that the next one can stream its results or the host can read them. */
tv_status pccx_lower_end_program(pccx_lowering *l, unsigned op, uint64_t elements, const tv_diag_sink *sink);

/* Reads n BF16 values from host memory. */
tv_status pccx_lower_read_bf16(pccx_lowering *l, uint64_t addr, size_t n, float *out, const tv_diag_sink *sink);

/* ---- Operators ---- */

/* out = activation(gate) * up: addresses of [rows][columns], in whole L2 words. `out` may be `gate`. */
typedef struct pccx_lower_gates {
    tv_activation activation;
    uint32_t rows, columns;
    uint32_t gate, sigmoid, up, act, out;
} pccx_lower_gates;

/* The scratch buffers of a node, without `out`. */
pccx_lower_gates pccx_lower_gates_of(const pccx_lowering *l, const tv_graph_node *n, uint32_t rows, uint32_t columns);

/* In this order, once gate is computed; the last one, which ends programs, once `up` is. gates.c */
void pccx_lower_begin_gates(pccx_lowering *l, const pccx_lower_gates *gates);
void pccx_lower_continue_gates(pccx_lowering *l, const pccx_lower_gates *gates);
tv_status pccx_lower_finish_gates(pccx_lowering *l, const pccx_lower_gates *gates, const tv_diag_sink *sink);

/* Emitters of operators. */
pccx_lower_emitter pccx_lower_norm;                                                           /* norm.c */
pccx_lower_emitter pccx_lower_experts;                                                        /* experts.c */
pccx_lower_emitter pccx_lower_activated, pccx_lower_glu;                                      /* gates.c */
pccx_lower_emitter pccx_lower_rope;                                                           /* rotation.c */
pccx_lower_emitter pccx_lower_attention;                                                      /* attention.c */
pccx_lower_emitter pccx_lower_sum, pccx_lower_product, pccx_lower_quotient, pccx_lower_unary; /* elements.c */
pccx_lower_emitter pccx_lower_swish, pccx_lower_slice, pccx_lower_concat, pccx_lower_reshape; /* elements.c */
pccx_lower_emitter pccx_lower_reduce;                                                         /* elements.c */

/* out[length] = in * vector, whose address is in host memory; at most a work buffer. */
void pccx_lower_multiply_precisely(pccx_lowering *l, uint32_t out, uint32_t in, uint64_t vector, uint32_t length);

/* ---- host_nodes.c ---- */

/* A node that the host computes. */
pccx_lower_emitter pccx_lower_host_node;

/* Bytes of its inputs and its output for one row. */
uint64_t pccx_lower_host_node_bytes(const pccx_lowering *l, const tv_graph_node *n);

/* ---- pieces.c ---- */

/* A part of the current rows of a value that fits a work buffer: `word` is its offset from the first of these rows. */
typedef struct pccx_lower_piece {
    uint32_t row, column, word, length;
} pccx_lower_piece;

/* Iterates over the pieces of the current rows of `columns` elements, starting with `*piece` all zero: false at the
 * end. `by_row`: none is of two rows. */
bool pccx_lower_next_piece(const pccx_lowering *l, uint32_t columns, bool by_row, pccx_lower_piece *piece);

/* Address of the next of the work buffers, which are used in turn. */
uint32_t pccx_lower_work_buffer(pccx_lowering *l);

/* out[length] (+)= scalar * in, or in / scalar with PCCX_LOWER_RECIP_SCALE: any length, through work buffers. */
void pccx_lower_scale(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t scalar, uint32_t length, unsigned flags);

/* out[length] = activation(in), but not Swish. The two may be the same. */
void pccx_lower_function(pccx_lowering *l, tv_activation function, uint32_t out, uint32_t in, uint32_t length);

/* out[length] = CVO function of in, in instructions of limited length. */
void pccx_lower_cvo_row(pccx_lowering *l, pccx_insn insn, uint32_t out, uint32_t in, uint32_t length, unsigned flags);

/* out = in * factors, elements of L2, with the instruction of an extension; l->has_product. `out` is `in`, or overlaps
 * neither of both. */
void pccx_lower_product_of_rows(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t factors, uint32_t length);

/* Copies elements [from, from + length) of the row at `in` to the row at `out`, from element `to` on. Elements of the
 * last L2 word past them become zero; of the first one those before `to` stay, and those after it must be zero. */
void pccx_lower_copy_elements(pccx_lowering *l, uint32_t out, uint32_t to, uint32_t in, uint32_t from, uint32_t length);

/* ---- matrices.c ---- */

/* Packs the matrix, or the stack of them, that is an input of a node. Rows and columns are padded to whole L2 words,
 * but not the rows of the classifier. */
tv_status pccx_lower_upload_matrix(pccx_lowering *l, const tv_graph_node *n, unsigned input, pccx_lower_matrix *to,
                                   const tv_diag_sink *sink);

/* Reserves host memory for the matrices of `from`, padded to whole L2 words of columns, with `rows` rows and `planes`
 * planes; and packs them, times a factor. */
void pccx_lower_reserve_matrix(pccx_lowering *l, const tv_matrix *from, uint32_t rows, unsigned planes,
                               pccx_lower_matrix *to);
tv_status pccx_lower_pack(pccx_lowering *l, const tv_matrix *from, float factor, const pccx_lower_matrix *to,
                          const tv_diag_sink *sink);

/* Factors of the output of a node: of the weights and the bias of a product; of the gains of a norm. */
float pccx_lower_weight_factor(const pccx_lowering *l, const tv_graph_node *n);
float pccx_lower_norm_factor(const pccx_lowering *l, const tv_graph_node *norm);

/* ---- tables.c ---- */

pccx_lower_emitter pccx_lower_gather;
uint64_t pccx_lower_table_row_bytes(const pccx_lowering *l, uint32_t columns, bool packed);
tv_status pccx_lower_upload_table(pccx_lowering *l, uint32_t node, const tv_diag_sink *sink);

/* ---- upload.c ---- */

/* Quantizes the constants and writes them to host memory; allocates the session's buffers there. */
tv_status pccx_lower_upload(pccx_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink);

/* ---- rotation.c ---- */

/* Chooses the rotations that GEMM does for all heads of a token at once. */
void pccx_lower_choose_rotations(pccx_lowering *l, const tv_config *config);

/* Writes the angles of a RotaryEmbedding, and its matrices for GEMM. */
tv_status pccx_lower_upload_rotation(pccx_lowering *l, uint32_t node, const tv_diag_sink *sink);

/* Writes the identity, the rotation, and zeros. */
tv_status pccx_lower_upload_identity(pccx_lowering *l, const tv_diag_sink *sink);

/* ---- kv_cache.c ---- */

/* False: no memory; what was allocated is freed with the rest. */
bool pccx_lower_alloc_value_blocks(pccx_lowering *l, uint32_t cache);
void pccx_lower_free_value_blocks(pccx_lower_value_blocks *b);

/* Packs the keys and values that the last program stored, [rows][heads * dim], on the host. */
tv_status pccx_lower_append_kv(pccx_lowering *l, uint32_t cache, const tv_diag_sink *sink);

/* Products with the cached keys and values of positions [first, first + count) of a head, where `first` is a multiple
 * of PCCX_LOWER_BLOCK: scores[count] = K * q, whose max becomes e_max with `find_max`, and out[dim] = V^T * probs. */
typedef struct pccx_lower_span {
    uint32_t cache, head, first, count;
} pccx_lower_span;
void pccx_lower_scores(pccx_lowering *l, uint32_t out, uint32_t in, pccx_lower_span span, bool find_max);
void pccx_lower_weighted_sum(pccx_lowering *l, uint32_t out, uint32_t in, pccx_lower_span span);

#endif
