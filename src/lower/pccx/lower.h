/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the lowering to pccx: lower_pccx.c walks the graph, pccx_emit.c writes and runs programs, pccx_place.c
 * puts the model into host memory, pccx_cache.c keeps keys and values. */
#ifndef TV_LOWER_PCCX_LOWER_H
#define TV_LOWER_PCCX_LOWER_H

#include "graph/backend.h"
#include "graph/host_ops.h"
#include "isa/pccx/pccx.h"
#include "lower/pccx/quantize.h"
#include "program/build.h"
#include "sim/pool.h"

enum {
    PCCX_LANES = 8,
    PCCX_WORD = 16,
    PCCX_BLOCK = 32,
    PCCX_SHAPES = 64,
    PCCX_HEAD_MAX = 512,
    PCCX_CACHE_PLANES_MAX = 2,
    PCCX_NAME_TEXT = 4096
};

/* What the host does, or what it is waited for. */
typedef enum pccx_host_op { PCCX_HOST_KEYS, PCCX_HOST_VALUES, PCCX_HOST_SCALES, PCCX_HOST_OPS } pccx_host_op;

/* A matrix in host memory as the weight stream takes it: blocks of at most PCCX_ROWS rows; in each, groups of columns;
 * in each, planes, which add up; of each, the scales of the rows and the rows. */
enum { PCCX_ROWS = 32768 };
typedef struct pccx_matrix {
    uint32_t rows, columns;
    uint64_t addr;
} pccx_matrix;

/* Where things stand in L2, in words; but for the constants, a row for each token of the step. What a scalar divides or
 * multiplies begins in the word behind it. */
typedef enum pccx_place {
    PCCX_ONES,    /* hidden ones */
    PCCX_EPSILON, /* a word: dim * eps */
    PCCX_X,
    PCCX_ROOT, /* of each row a word with the root of its sum of squares, and behind it x */
    PCCX_XN,
    PCCX_GROUPED, /* the input of a GEMM: groups of columns, in each the rows */
    PCCX_SQUARES,
    PCCX_SUM,
    PCCX_QUERY,
    PCCX_KEY,
    PCCX_VALUE,
    PCCX_TURNED,
    PCCX_TURNED_KEY,
    PCCX_SCORES, /* two heads' */
    PCCX_POWERS, /* two heads' */
    PCCX_RAW,    /* of each head a word with the sum of powers, and behind it the mix */
    PCCX_MIXED,
    PCCX_GATE,
    PCCX_SIGMOID,
    PCCX_UP,
    PCCX_ACT,
    PCCX_HIDDEN,
    PCCX_LOGITS,
    PCCX_PLACES
} pccx_place;

/* Places in host memory beside matrices, in bytes. */
typedef struct pccx_host_map {
    uint64_t end;
    uint64_t embedding, embedding_row; /* BF16 rows, and the bytes of one */
    uint64_t identity, turn;           /* beats of 32 rows: the identity; pairs turned by a right angle */
    uint64_t cosines, sines, rope_row; /* of each position: the scales of a head's rows */
    uint64_t constants;                /* for ONES on: the words of ONES and EPSILON */
    uint64_t model_end;                /* what a session does not change ends here */
    uint64_t vector, vector2;          /* what a program leaves for the next one's stream */
    uint64_t key, value, logits;       /* what a program leaves for the host */
    uint64_t keys, values;             /* the cache, layer by layer, head by head, plane by plane */
} pccx_host_map;

/* A row of values of a block that is not full, and the scale that it has. */
typedef struct pccx_value_row {
    float extreme; /* the value of largest magnitude, of equal ones the first */
    float scale;
    uint32_t seen;   /* values that the scale is to be chosen for; 0: it has been */
    uint32_t packed; /* values that stand in `beat`, in the first plane where it is the only one */
    uint16_t scale_bits;
    uint8_t beat[PCCX_BEAT];
} pccx_value_row;

typedef struct pccx_lowering {
    const tv_graph *graph;
    const tv_model *model;
    tv_machine *machine;
    tv_program *loaded; /* into the machine */
    tv_pool *pool;
    tv_scale_search_fn *scale_search;
    uint32_t context;
    uint32_t hidden; /* the model's, filled up to whole words with zeros */
    uint32_t group;  /* columns that share a scale */
    uint32_t rows_max, rows,
        position; /* tokens that a step takes, and those of this one, the first of them at `position` */
    unsigned planes, cache_planes;
    pccx_matrix *matrices; /* TV_WEIGHTS of each layer */
    uint32_t places[PCCX_PLACES];
    pccx_host_map map;
    float *block; /* values of the unfinished block: of each layer, kv_heads * head_dim rows of PCCX_BLOCK positions */
    pccx_value_row *value_rows; /* of each of these rows */
    bool timing;                /* no data: cycles alone */
    bool keep_values;
    float **kept; /* values of the graph that pass through host memory: the inputs of norms; else NULL */
    tv_host_op host_ops[PCCX_HOST_OPS];
    const char *emit;
    uint32_t steps, programs;
    bool prepared;  /* L2 has the constants */
    uint32_t input; /* of the projections to come: where it is in L2 */

    /* the program under construction */
    char part[TV_BLOCK_NAME_MAX]; /* of the model, that its last instructions belong to: a label */
    tv_builder program;
    uint64_t words[PCCX_INSNS]; /* with nothing but what makes the instruction */
    struct {
        uint32_t a, b, c;
    } shapes[2][PCCX_SHAPES];
    uint32_t shape_count[2];
} pccx_lowering;

static inline uint32_t pccx_words(uint32_t elements) { return (elements + PCCX_LANES - 1) / PCCX_LANES; }
static inline uint32_t pccx_beats(uint32_t weights) { return (weights + PCCX_BEAT_WEIGHTS - 1) / PCCX_BEAT_WEIGHTS; }

static inline pccx_matrix *pccx_matrix_of(const pccx_lowering *l, tv_weight weight, uint32_t layer)
{
    return &l->matrices[(size_t)layer * TV_WEIGHTS + weight];
}

/* ---- pccx_emit.c ---- */

/* What an instruction is told beside its operands. */
enum { PCCX_ACCM = 1, PCCX_FINDEMAX = 2, PCCX_SUB_EMAX = 4, PCCX_RECIP_SCALE = 8 };

/* Looks up the instructions' words: before all else. */
tv_status pccx_begin_words(pccx_lowering *l, const tv_diag_sink *sink);

/* Instructions of the program under construction. Addresses in L2 are words, in host memory bytes. Copies and functions
 * do not wait for their end: the scheduler keeps the order that data ask for. */
void pccx_load(pccx_lowering *l, uint32_t to, uint64_t from, uint32_t elements);
void pccx_store(pccx_lowering *l, uint64_t to, uint32_t from, uint32_t elements);
void pccx_move(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t elements);
void pccx_stream(pccx_lowering *l, bool gemm, uint64_t addr, uint64_t bytes);
void pccx_gemv(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t n, uint32_t k, unsigned flags);
void pccx_gemm(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t m, uint32_t n, uint32_t k, unsigned flags);
void pccx_cvo(pccx_lowering *l, pccx_insn insn, uint32_t to, uint32_t from, uint32_t length, unsigned flags);

/* Bytes that come to host memory with the program. */
void pccx_put(pccx_lowering *l, uint64_t addr, const uint8_t *bytes, size_t n);

/* Columns' groups `from` to `to` of a matrix times `rows` vectors at `in`: one by GEMV; more, which are grouped, by
 * GEMM. `accm`: what stands at `out` is added. */
void pccx_project(pccx_lowering *l, const pccx_matrix *m, uint32_t rows, uint32_t in, uint32_t out, uint32_t from,
                  uint32_t to, bool accm);

/* Rows of `columns` at `in` to PCCX_GROUPED, unless there is only one row; returns where the input of a projection is.
 */
uint32_t pccx_group_rows(pccx_lowering *l, uint32_t in, uint32_t columns);
uint32_t pccx_group_count(const pccx_lowering *l, const pccx_matrix *m);

/* Elementwise product of the vector at `in` with the one at host address `scales`: the GEMV of an identity whose rows
 * have these scales. `matrix` is the identity, or the turn. Blocks of the result follow each other, or are summed. */
void pccx_product(pccx_lowering *l, uint32_t out, uint32_t in, uint64_t scales, uint64_t matrix, uint32_t n, bool sum,
                  bool accm);

/* Runs what has been written, and begins the next program. */
tv_status pccx_run(pccx_lowering *l, const tv_diag_sink *sink);

/* BF16 values of host memory. */
tv_status pccx_read_bf16(pccx_lowering *l, uint64_t addr, size_t n, float *out, const tv_diag_sink *sink);

/* ---- pccx_place.c ---- */

uint64_t pccx_group_bytes(const pccx_lowering *l, uint32_t rows, uint32_t columns);
uint64_t pccx_space_size(const tv_machine *machine, const char *name); /* in its units */
tv_status pccx_place_model(pccx_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink);

/* ---- pccx_cache.c ---- */

uint64_t pccx_key_bytes(const pccx_lowering *l);   /* of a head's keys, one plane */
uint64_t pccx_value_bytes(const pccx_lowering *l); /* of a block of a head's values, one plane */

/* The host packs the keys and values that the last program has left, a row for each token of the step. */
tv_status pccx_append(pccx_lowering *l, uint32_t layer, const tv_diag_sink *sink);

/* Products with the keys and values of positions 0 to `count`. */
void pccx_scores(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t layer, uint32_t kv_head, uint32_t count);
void pccx_mix(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t layer, uint32_t kv_head, uint32_t count);

#endif
