/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the lowering to pccx. lower.c walks the graph, emit.c encodes and runs programs, upload.c writes the
 * model to host memory, kv_cache.c packs keys and values, layout.c computes sizes.
 *
 * Units: addresses in L2 are L2 words (PCCX_LOWER_LANES BF16 elements), addresses in host memory are bytes. */
#ifndef TV_LOWER_PCCX_STATE_H
#define TV_LOWER_PCCX_STATE_H

#include "graph/backend.h"
#include "graph/host_ops.h"
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
    PCCX_LOWER_PATH_MAX = 4096
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
    uint64_t addr;
} pccx_lower_matrix;

/* Buffers in L2. All but the constants have one row per token of the step. Where a row is divided or multiplied by a
 * scalar, the scalar is the L2 word before it. */
typedef enum pccx_lower_buffer {
    PCCX_BUFFER_ONES,    /* [hidden] ones */
    PCCX_BUFFER_EPSILON, /* one word: dim * eps */
    PCCX_BUFFER_X,
    PCCX_BUFFER_NORM_INPUT, /* per row, the root of the sum of squares, then x */
    PCCX_BUFFER_XN,
    PCCX_BUFFER_GEMM_INPUT, /* input of a GEMM: [group of columns][row][column] */
    PCCX_BUFFER_SQUARES,
    PCCX_BUFFER_SUM,
    PCCX_BUFFER_QUERY,
    PCCX_BUFFER_KEY,
    PCCX_BUFFER_VALUE,
    PCCX_BUFFER_ROTATED_QUERY,
    PCCX_BUFFER_ROTATED_KEY,
    PCCX_BUFFER_SCORES,       /* of two heads */
    PCCX_BUFFER_EXPS,         /* of two heads */
    PCCX_BUFFER_UNNORMALIZED, /* per head, the sum of the exponentials, then the weighted sum */
    PCCX_BUFFER_ATTN_OUT,
    PCCX_BUFFER_GATE,
    PCCX_BUFFER_SIGMOID,
    PCCX_BUFFER_UP,
    PCCX_BUFFER_ACT,
    PCCX_BUFFER_HIDDEN,
    PCCX_BUFFER_LOGITS,
    PCCX_BUFFER_COUNT
} pccx_lower_buffer;

/* Addresses in host memory besides the matrices, in bytes. */
typedef struct pccx_lower_host_map {
    uint64_t end;
    uint64_t embedding, embedding_row_bytes; /* BF16 rows, and the bytes of a row */
    uint64_t identity, rotation; /* 32 rows of one beat: the identity; the rotation of pairs by 90 degrees */
    uint64_t cosines, sines, rope_row_bytes; /* [position][head_dim]: row scales of a rope */
    uint64_t constants;                      /* image of L2 from ONES on: ONES and EPSILON */
    uint64_t model_end;                      /* end of what sessions do not modify */
    uint64_t vector, vector2;                /* vectors that the next program streams */
    uint64_t key, value, logits;             /* results that the host reads */
    uint64_t keys, values;                   /* the KV cache: [layer][head][plane] */
} pccx_lower_host_map;

/* A row of an incomplete block of values, and its scale. */
typedef struct pccx_lower_value_row {
    float absmax; /* signed absmax of the values so far */
    float scale;
    uint32_t rescale_count; /* choose the scale for this many values; 0: it is current */
    uint32_t packed;        /* number of values stored in `beat`; used with one plane only */
    uint16_t scale_bits;
    uint8_t beat[PCCX_LOWER_BEAT_BYTES];
} pccx_lower_value_row;

typedef struct pccx_lowering {
    const tv_graph *graph;
    const tv_model *model;
    tv_machine *machine;
    tv_program *loaded_program; /* the program loaded into the machine */
    tv_pool *pool;
    tv_scale_search_fn *scale_search;
    uint32_t context;
    uint32_t hidden;                   /* the model's hidden size, padded with zeros to whole L2 words */
    uint32_t group;                    /* columns per scale */
    uint32_t rows_max, rows, position; /* tokens per step at most, and those of this step, which start at `position` */
    unsigned planes, cache_planes;
    pccx_lower_matrix *matrices; /* [layers][TV_WEIGHTS] */
    uint32_t buffers[PCCX_BUFFER_COUNT];
    pccx_lower_host_map map;
    float *block; /* values of the incomplete block: [layers][kv_heads * head_dim][PCCX_LOWER_BLOCK] */
    pccx_lower_value_row *value_rows; /* one for each of these rows */
    bool timing;                      /* timing only, no data */
    bool keep_values;
    float **kept_values; /* graph values that pass through host memory (the inputs of norms), or NULL */
    tv_host_op host_ops[PCCX_LOWER_HOST_OPS];
    tv_output_group *outputs; /* or NULL */
    const char *emit;
    uint32_t steps, programs;
    bool constants_loaded; /* L2 contains the constants */
    uint32_t input;        /* address in L2 of the input of the next projections */

    /* the program under construction */
    char block_name[TV_BLOCK_NAME_MAX]; /* block of the model, the label of the current instructions */
    tv_builder program;
    uint64_t encodings[PCCX_INSNS]; /* of each instruction, with all operands zero */
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

static inline pccx_lower_matrix *pccx_lower_matrix_of(const pccx_lowering *l, tv_weight weight, uint32_t layer)
{
    return &l->matrices[(size_t)layer * TV_WEIGHTS + weight];
}

/* ---- layout.c ---- */

uint64_t pccx_lower_space_size(const tv_machine *machine, const char *name); /* in units of the space; 0: none */

/* Bytes of rows x columns elements with row scales: one plane; all planes of one group of columns; all groups. */
uint64_t pccx_lower_plane_bytes(uint32_t rows, uint32_t columns);
uint64_t pccx_lower_group_bytes(const pccx_lowering *l, uint32_t rows, uint32_t columns);
uint64_t pccx_lower_block_bytes(const pccx_lowering *l, uint32_t rows, uint32_t columns);

uint64_t pccx_lower_key_bytes(const pccx_lowering *l);   /* keys of one head, one plane */
uint64_t pccx_lower_value_bytes(const pccx_lowering *l); /* one block of values of one head, one plane */

/* ---- emit.c ---- */

/* Flags of an instruction. */
enum { PCCX_LOWER_ACCM = 1, PCCX_LOWER_FINDEMAX = 2, PCCX_LOWER_SUB_EMAX = 4, PCCX_LOWER_RECIP_SCALE = 8 };

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

/* Copies [rows][columns] at `in` to the buffer of GEMM inputs, unless there is only one row. Returns the address of the
 * input of a projection. */
uint32_t pccx_lower_group_rows(pccx_lowering *l, uint32_t in, uint32_t columns);
uint32_t pccx_lower_group_count(const pccx_lowering *l, const pccx_lower_matrix *m);

/* out[i] = in[i] * scales[i] for n elements: a GEMV with the identity, whose row scales are the vector at host address
 * `scales`. With the rotation instead of the identity, in[i] is the other element of its pair. `sum` adds the blocks of
 * the result; `accm` adds to `out`. */
void pccx_lower_multiply(pccx_lowering *l, uint32_t out, uint32_t in, uint64_t scales, uint64_t matrix, uint32_t n,
                         bool sum, bool accm);

/* Runs the program under construction, and starts an empty one. */
tv_status pccx_lower_run(pccx_lowering *l, const tv_diag_sink *sink);

/* Reads n BF16 values from host memory. */
tv_status pccx_lower_read_bf16(pccx_lowering *l, uint64_t addr, size_t n, float *out, const tv_diag_sink *sink);

/* ---- upload.c ---- */

/* Quantizes the model and writes it to host memory; allocates the session's buffers there. */
tv_status pccx_lower_upload_model(pccx_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink);

/* ---- kv_cache.c ---- */

/* Packs the keys and values that the last program stored, [rows][kv_heads * head_dim], on the host. */
tv_status pccx_lower_append_kv(pccx_lowering *l, uint32_t layer, const tv_diag_sink *sink);

/* Products with the cached keys and values of positions [0, count): scores[count] = K * q, and out[head_dim] = V^T *
 * probs. */
void pccx_lower_scores(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t layer, uint32_t kv_head, uint32_t count);
void pccx_lower_weighted_sum(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t layer, uint32_t kv_head,
                             uint32_t count);

#endif
