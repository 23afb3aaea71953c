/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the lowering of networks that are no language models. It adds tensors to what state.h has, whose
 * instructions, functions of rows and packed matrices it uses.
 *
 * A value on the machine is a matrix of BF16 with rows of whole L2 words: rows are all axes but the last; of spatial
 * values, x[n][c][...], they are pixels, and columns are channels. Lanes past the columns have any finite number. A
 * value is resident in L2 from its producer to its last reader, or it is in host memory, and tiles of its rows pass
 * through the scratch space: L2 that no resident value uses while a node is executed. */
#ifndef TV_LOWER_PCCX_NETWORK_STATE_H
#define TV_LOWER_PCCX_NETWORK_STATE_H

#include "graph/network.h"
#include "lower/pccx/state.h"

enum {
    PCCX_NET_ONES = 16384,      /* elements of the ones in L2 */
    PCCX_NET_PIECE = 4096,      /* elements of a work buffer */
    PCCX_NET_TEMPORARIES = 4,   /* pieces for intermediate results */
    PCCX_NET_SCALARS_MAX = 512, /* constant words besides the common ones */
    PCCX_NET_PLAN_MAX = 160,    /* characters of an explanation */
    PCCX_NET_ZEROS = 4096,      /* elements of the zeros in L2 */
    PCCX_NET_CLIP_COLUMNS = 64, /* of products with the identity */
};

/* Clips numbers from `middle` - 127 `scale` to `middle` + 127 `scale`, whose multiples of the scale they become: the
 * activations of a product saturate (network_clip.c). */
typedef struct pccx_net_clip {
    uint16_t scale; /* BF16; 0: not used */
    float middle;
    bool from_zero;    /* Relu, or an interval that begins with 0 */
    uint64_t down, up; /* in host memory: a row of -middle, and of middle */
} pccx_net_clip;

typedef struct pccx_net_value {
    bool on_machine; /* computed, and real numbers; others are tensors of the host */
    bool on_host;    /* only the host reads it */
    bool spatial;
    bool scaled;            /* stored times 2^64: Gelu is then Relu */
    pccx_net_clip clip;     /* its numbers are clipped by a product */
    bool kept;              /* stored in host memory after its node */
    bool stored;            /* in this run */
    uint32_t rows, columns; /* as a matrix */
    uint32_t words;         /* L2 words of a row */
    uint32_t l2;            /* address of the resident value, or PCCX_LOWER_NO_BUFFER */
    uint64_t home;          /* address in host memory */
    tv_tensor tensor;       /* of the host; binary32 for values of the machine */
    bool owned;             /* `tensor` is released with the state */
    bool read;              /* `tensor` has the value of this run */
} pccx_net_value;

/* How an operand of an elementwise operator is repeated. */
typedef enum pccx_net_operand_kind {
    PCCX_NET_FULL,    /* as large as the output */
    PCCX_NET_ROW,     /* the same row for all rows */
    PCCX_NET_PER_ROW, /* computed: one element for each row */
    PCCX_NET_SCALAR,  /* a constant */
    PCCX_NET_OTHER
} pccx_net_operand_kind;

/* Windows over x[n][c][h][w]; networks of one spatial axis have h = 1. */
typedef struct pccx_net_window {
    uint32_t images, channels, in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
} pccx_net_window;

/* A word of an output whose elements are in several words, or in other lanes (network_moves.c). */
typedef struct pccx_net_selection {
    uint32_t to, pattern;
    uint32_t words[PCCX_LOWER_LANES]; /* of the inputs, ascending; as many as the pattern has */
} pccx_net_selection;

typedef struct pccx_net_pattern {
    uint8_t count;                  /* words */
    uint8_t from[PCCX_LOWER_LANES]; /* for each lane, the element of these words, counted from 1; 0: zero */
} pccx_net_pattern;

#define PCCX_NET_ZERO UINT32_MAX              /* a word of zeros */
#define PCCX_NET_SELECTED (PCCX_NET_ZERO - 1) /* one of the selections */
typedef struct pccx_net_moves_plan {
    uint32_t *words; /* of each word of the output, the word of an input, counted over all inputs of real numbers */
    TV_VEC(pccx_net_selection) selections; /* ascending */
    TV_VEC(pccx_net_pattern) patterns;
    uint64_t addr; /* of their matrices */
} pccx_net_moves_plan;

/* How a convolution becomes products (tiling.h): its window in rows of them, and their pixels. */
typedef struct pccx_net_form {
    pccx_net_window g;
    uint32_t group, spread;
    bool wraps;
} pccx_net_form;

typedef struct pccx_net_node {
    const char *problem; /* what the machine lacks: the host computes it */
    bool is_move;        /* moves elements */
    bool is_virtual;     /* CONCAT: its readers read its inputs */
    uint32_t slices;     /* CONV: values of which the channels are, 0: one, the input; of them, `concat` is the node */
    uint32_t concat;
    pccx_net_moves_plan moves;
    pccx_lower_matrix matrix;
    uint32_t k;    /* columns of the matrix that are multiplied */
    uint32_t sets; /* CONV: products of separate channels, with a matrix for each tap and set */
    pccx_net_window window;
    pccx_net_form form;   /* CONV, CONV_TRANSPOSE, AVERAGE_POOL */
    uint64_t bias;        /* address of a row, 0: none */
    uint64_t operands[3]; /* addresses of constants, as rows of BF16 */
    char plan[PCCX_NET_PLAN_MAX];
} pccx_net_node;

/* A program that is written: its file, and its layer. */
typedef struct pccx_net_file {
    char name[PCCX_LOWER_FILE_MAX];
    uint32_t layer;
} pccx_net_file;

typedef struct pccx_network {
    pccx_lowering l;                    /* first: its recorder finds the network by it */
    struct pccx_net_schedule *schedule; /* instructions that are not in the program yet */
    const tv_graph *graph;
    pccx_net_value *values;
    pccx_net_node *nodes;
    uint32_t *last_uses;
    uint32_t *resident_ends; /* of each node: first word of its scratch space */
    uint32_t base;           /* first word after the constants in L2 */
    uint32_t l2_words;
    uint32_t zeros, temporary; /* addresses in L2: of zeros, of the temporary pieces */
    uint32_t temporary_next;
    uint64_t units[2];   /* in host memory: rows whose first element is 1, or -1, of the widest value */
    uint64_t identity;   /* rows of PCCX_NET_CLIP_COLUMNS columns */
    const float *ranges; /* of the options, while the network is created */
    uint32_t scratch_first, scratch_next, scratch_end; /* of the tile */
    float scalars[PCCX_NET_SCALARS_MAX];
    uint32_t scalar_count, scalars_at;
    uint64_t scalars_home;
    uint32_t tile_k, tile_n, min_rows, k_max; /* of GEMM */
    double stream_rate, copy_rate;            /* bytes a cycle */
    bool loaded;                              /* L2 has the constants */
    uint32_t copy_setup, gemm_setup;
    bool outgoing; /* copies are of results of a tile */
    bool explain;
    tv_layer *layers;
    size_t layer_count;
    tv_stats before; /* of the machine, at the end of the previous layer */
    tv_energy energy_before;
    uint64_t tiles;                     /* of the current node */
    TV_VEC(pccx_net_file) files;        /* written in the first run */
    TV_VEC(tv_network_step) steps;      /* between them */
    bool lacks_steps;                   /* work of the host is no step */
    TV_VEC(tv_network_program) written; /* the same, as pccx_net_programs returns them */
} pccx_network;

typedef tv_status pccx_net_emitter(pccx_network *w, uint32_t node, const tv_diag_sink *sink);

/* ---- network_layouts.c ---- */

/* Which values are images: [value_count], freed by the caller. NULL: out of memory. */
bool *pccx_net_find_layouts(const tv_graph *graph);

/* False: an operator on rows reads or writes an image, which pccx_net_legalize prevents. */
bool pccx_net_keeps_layouts(const pccx_network *w, const tv_graph_node *n);

/* As tv_network_backend describes it. */
tv_status pccx_net_legalize(tv_graph *graph, const tv_diag_sink *sink);

/* ---- network_plan.c ---- */

/* Chooses layouts and how each node is computed; finds nodes that the machine cannot execute (TV_ERR_INPUT). */
tv_status pccx_net_plan(pccx_network *w, const tv_diag_sink *sink);

/* Allocates L2 and host memory for values. */
tv_status pccx_net_allocate(pccx_network *w, const tv_diag_sink *sink);

static inline float pccx_net_factor(const pccx_net_value *v) { return v->scaled ? 0x1p64F : 1; }
static inline pccx_net_value *pccx_net_value_at(const pccx_network *w, uint32_t v) { return &w->values[v]; }
static inline const tv_graph_node *pccx_net_graph_node(const pccx_network *w, uint32_t node)
{
    return tv_graph_node_at(w->graph, node);
}
static inline uint64_t pccx_net_words(const pccx_net_value *v) { return (uint64_t)v->rows * v->words; }
static inline bool pccx_net_is_constant(const pccx_network *w, uint32_t v)
{
    return tv_graph_value_at(w->graph, v)->source == TV_VALUE_CONSTANT;
}

/* ---- network_values.c ---- */

pccx_net_operand_kind pccx_net_operand_of(const pccx_network *w, const tv_graph_node *n, unsigned input);

/* The index of element (row, column) of a value in its tensor. */
uint64_t pccx_net_index(const pccx_network *w, uint32_t value, uint32_t row, uint32_t column);

/* Starts a tile: the scratch space of tile t is one of two halves, so that the next tile can be loaded meanwhile. */
void pccx_net_begin_tile(pccx_network *w, uint32_t node, uint32_t tile, uint32_t tiles);
uint32_t pccx_net_scratch(pccx_network *w, uint64_t words); /* address */

/* L2 words of scratch space of a node; with `tiles` of one of its halves. */
uint32_t pccx_net_scratch_size(const pccx_network *w, uint32_t node, bool tiles);

/* Address in L2 of rows [row, row + rows) of a value, loaded if it is not resident. */
uint32_t pccx_net_fetch(pccx_network *w, uint32_t value, uint32_t row, uint32_t rows);

/* Address in L2 for these rows of an output; pccx_net_put then stores them if the value is not resident. */
uint32_t pccx_net_locate(pccx_network *w, uint32_t value, uint32_t row, uint32_t rows);
void pccx_net_put(pccx_network *w, uint32_t value, uint32_t row, uint32_t rows, uint32_t addr);

/* Copies of any length: from words of a value to L2, and back. */
void pccx_net_read_words(pccx_network *w, uint32_t to, uint32_t value, uint64_t word, uint64_t words);
void pccx_net_write_words(pccx_network *w, uint32_t value, uint64_t word, uint32_t from, uint64_t words);
void pccx_net_load(pccx_network *w, uint32_t to, uint64_t from, uint64_t words);
void pccx_net_move(pccx_network *w, uint32_t to, uint32_t from, uint64_t words);

/* Address of the next of the temporary pieces, which are used in turn. */
uint32_t pccx_net_temporary(pccx_network *w);

/* Address of a constant word in L2. */
uint32_t pccx_net_scalar(pccx_network *w, float value);

/* Makes a value of this run readable as the tensor of the host: ends the program if necessary. NULL tensors with
 * timing. */
tv_status pccx_net_to_host(pccx_network *w, uint32_t value, const tv_diag_sink *sink);

/* The tensor of a value: of the host or of a constant; NULL: a constant without one. */
const tv_tensor *pccx_net_tensor(const pccx_network *w, uint32_t value);

/* The inverse: the next program begins with the tensor in host memory, or in L2. */
tv_status pccx_net_from_host(pccx_network *w, uint32_t value, const tv_diag_sink *sink);

/* The value is in host memory at its home from the next program on; ends the current one. */
tv_status pccx_net_hand_over(pccx_network *w, uint32_t value, const tv_diag_sink *sink);

/* Index of the host's work of this name, for pccx_lower_end_program. */
unsigned pccx_net_host_op(pccx_network *w, const char *name);
void pccx_net_count_host(pccx_network *w, const char *name, uint64_t elements);

/* ---- network_schedule.c ---- */

/* Creates the window of recorded instructions, which the state frees. False: out of memory. */
bool pccx_net_schedule_new(pccx_network *w);

/* Appends what is recorded to the program. */
void pccx_net_flush(pccx_network *w);

/* Runs what is recorded or in the program, if anything. */
tv_status pccx_net_run(pccx_network *w, const tv_diag_sink *sink);

/* Drops both. */
void pccx_net_clear(pccx_network *w);

/* ---- network_upload.c ---- */

tv_status pccx_net_upload(pccx_network *w, const tv_llm_progress *progress, const tv_diag_sink *sink);

/* ---- network_ports.c ---- */

/* Notes that the program under construction is written. */
tv_status pccx_net_list_program(pccx_network *w, const tv_diag_sink *sink);

/* tv_network_backend's `programs` and `port`. */
unsigned pccx_net_programs(const void *state, const tv_network_program **list);
bool pccx_net_port(const void *state, uint32_t value, tv_network_port *out);

/* ---- network_steps.c ---- */

/* Notes a step of the host before the program under construction: the matrix of a product of two values is packed; or
 * rows of a table, at `table`, are selected by an input. */
tv_status pccx_net_note_pack(pccx_network *w, uint32_t node, const tv_diag_sink *sink);
tv_status pccx_net_note_selection(pccx_network *w, uint32_t node, uint64_t table, const tv_diag_sink *sink);

/* tv_network_backend's `steps` and `run_step`. */
unsigned pccx_net_steps(const void *state, const tv_network_step **list);
tv_status pccx_net_run_step(tv_machine *machine, const tv_network_step *step, const tv_diag_sink *sink);

/* Packs the transposed matrices b[...][k][columns] for products. */
tv_status pccx_net_pack_tensor(pccx_lowering *l, const tv_tensor *b, const pccx_lower_matrix *to,
                               const tv_diag_sink *sink);

/* ---- network_rows.c ---- */

tv_status pccx_net_upload_softmax(pccx_network *w, uint32_t node, const tv_diag_sink *sink);

/* `gains` may be NULL. */
tv_status pccx_net_upload_norm(pccx_network *w, uint32_t node, const float *gains, const tv_diag_sink *sink);

/* ---- network_emit.c ---- */

/* out[m][n1 - n0] (+)= in[m][k] * matrix^T, for rows [n0, n1) of matrix `which` of a stack and its columns
 * [from, from + k). */
typedef struct pccx_net_product {
    const pccx_lower_matrix *matrix;
    uint32_t which, n0, n1, from, k, m;
    unsigned flags; /* of the instructions */
} pccx_net_product;
void pccx_net_multiply(pccx_network *w, const pccx_net_product *p, uint32_t out, uint32_t in, bool accm);

/* out[rows][columns] (+)= the row at host address `row`, times 1, or -1 with `negative`. */
void pccx_net_add_row(pccx_network *w, uint32_t out, uint64_t row, uint32_t rows, uint32_t columns, bool negative,
                      bool accm);

/* ---- Operators ---- */

pccx_net_emitter pccx_net_linear, pccx_net_matmul;                 /* network_products.c */
pccx_net_emitter pccx_net_conv;                                    /* network_convolutions.c */
pccx_net_emitter pccx_net_max_pool, pccx_net_average_pool;         /* network_pools.c */
pccx_net_emitter pccx_net_binary, pccx_net_unary;                  /* network_elements.c */
pccx_net_emitter pccx_net_moves;                                   /* network_moves.c */
pccx_net_emitter pccx_net_softmax, pccx_net_norm, pccx_net_reduce; /* network_rows.c */

/* Window of a node with one or two spatial axes; false: it has more. network_windows.c */
bool pccx_net_window_of(const pccx_network *w, const tv_graph_node *n, pccx_net_window *out);

/* ---- network_convolutions.c ---- */

/* Whether a convolution is a product of the rows as they are. */
bool pccx_net_is_pointwise(const pccx_network *w, uint32_t node);

/* Chooses the form of a convolution. */
void pccx_net_choose_form(pccx_network *w, uint32_t node);

/* The tap of the kernel along X that output pixel `out` of a row of the product has for input pixel `in` of row `t` of
 * the taps; UINT32_MAX: none. */
uint32_t pccx_net_tap_between(const pccx_net_node *own, bool transposed, uint32_t t, uint32_t in, uint32_t out);

/* ---- network_moves.c ---- */

/* Computes a node on numbers: the elements of the inputs are counted from 1 on, over all of them. The caller releases
 * the tensors. False: too many, out of memory, or it is not possible. */
bool pccx_net_number_elements(const pccx_network *w, const tv_graph_node *n, tv_tensor in[TV_GRAPH_INPUTS_MAX],
                              tv_tensor *out);

/* The inverse of pccx_net_index: word and lane of an element. */
uint32_t pccx_net_word_of(const pccx_network *w, uint32_t value, uint64_t index, uint32_t *lane);

/* Plans the moves of a node; returns what the machine lacks for it, or NULL. */
const char *pccx_net_plan_moves(pccx_network *w, uint32_t node);
tv_status pccx_net_upload_patterns(pccx_network *w, uint32_t node, const tv_diag_sink *sink);
void pccx_net_moves_fini(pccx_net_moves_plan *moves);

/* ---- network_clip.c ---- */

/* A product whose matrix is in one piece in host memory: `scales`, and rows of whole beats. */
typedef struct pccx_net_small_product {
    uint64_t scales, matrix;
    uint32_t m, n, k;
    unsigned flags;
} pccx_net_small_product;
void pccx_net_multiply_small(pccx_network *w, const pccx_net_small_product *p, uint32_t out, uint32_t in);

/* out[rows][columns] (+)= in[rows][columns], or minus it; at most PCCX_NET_CLIP_COLUMNS columns. */
void pccx_net_multiply_identity(pccx_network *w, uint32_t out, uint32_t in, uint32_t rows, uint32_t columns, bool minus,
                                unsigned flags);

/* The same for L2 words, times PCCX_NET_CLIP_COLUMNS factors at host address `scales`: rows have as many elements,
 * those at the end 8. */
void pccx_net_multiply_words(pccx_network *w, uint32_t out, uint32_t in, uint32_t words, uint64_t scales,
                             unsigned flags);

/* Finds the values that products clip. */
void pccx_net_find_clips(pccx_network *w);
tv_status pccx_net_upload_clip(pccx_network *w, uint32_t value, const tv_diag_sink *sink);
tv_status pccx_net_upload_identity(pccx_network *w, const tv_diag_sink *sink);

/* x[words] becomes clip(x), where the middle has been subtracted already; in place. */
void pccx_net_clip_words(pccx_network *w, const pccx_net_clip *clip, uint32_t x, uint32_t words);

/* x[words] += the middle, or -= it with `down`. */
void pccx_net_shift_words(pccx_network *w, const pccx_net_clip *clip, uint32_t x, uint32_t words, bool down);

/* x[words] becomes the larger one of x and y. The middle is subtracted from both. */
void pccx_net_clip_max(pccx_network *w, const pccx_net_clip *clip, uint32_t x, uint32_t y, uint32_t words);

/* ---- network_elements.c ---- */

/* x[length] = activation(x) of a product. If it is clipped, its bias has subtracted the middle. */
void pccx_net_activate(pccx_network *w, uint32_t node, uint32_t x, uint32_t length);

/* The number that an operand is. */
float pccx_net_scalar_of(const pccx_network *w, const tv_graph_node *n, unsigned input);

/* x[words] becomes the larger one of x and y, or with `smaller` the smaller one; `scaled`: both are. */
void pccx_net_max(pccx_network *w, uint32_t x, uint32_t y, uint32_t words, bool smaller, bool scaled);

/* ---- network_nodes.c ---- */

/* The operators that the lowering has: NULL for the others, and for those that only move elements. */
extern pccx_net_emitter *const pccx_net_emitters[TV_OPS];

/* A node that the host computes. */
pccx_net_emitter pccx_net_host_node;

#endif
