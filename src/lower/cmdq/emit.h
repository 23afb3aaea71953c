/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of queues, the emitters of operators, and the host's part between two queues. */
#ifndef TV_LOWER_CMDQ_EMIT_H
#define TV_LOWER_CMDQ_EMIT_H

#include "lower/cmdq/layout.h"

/* The operators that the lowering has: NULL for the others. nodes.c */
extern cmdq_lower_emitter *const cmdq_lower_emitters[TV_OPS];

/* ---- host.c ---- */

/* True for nodes before which the machine stops, because the host computes them or chooses their experts. */
bool cmdq_lower_stops(const cmdq_lowering *l, uint32_t node);

/* Elements for a token of the inputs, or of the output, of the largest one. */
uint64_t cmdq_lower_host_elements(const cmdq_lowering *l, bool output);

/* Appends the entries that store for the host what it reads of such a node. */
void cmdq_lower_store_for_host(cmdq_lowering *l, const tv_graph_node *n);

/* Appends to `out` the members of `outputs` of metadata that describe these. */
void cmdq_lower_describe_stored(const cmdq_lowering *l, const tv_graph_node *n, tv_buf *out);

/* Computes the node, or chooses the experts, after the queue was run. The result goes to DRAM, or as a member of
 * dram_init to `init`. */
tv_status cmdq_lower_compute_on_host(cmdq_lowering *l, const tv_graph_node *n, tv_buf *init, const tv_diag_sink *sink);

/* Appends the entries that load the result of the host. */
void cmdq_lower_load_from_host(cmdq_lowering *l, const tv_graph_node *n);

/* Appends binary32 numbers as in dram_init. */
tv_status cmdq_lower_print_hex(tv_buf *out, const float *values, size_t count, const tv_diag_sink *sink);

/* ---- entries.c ---- */

static inline cmdq_lower_operand cmdq_lower_f32(uint32_t buffer) { return (cmdq_lower_operand){buffer, 0, 32, 1}; }

/* The operand, `elements` elements further. */
static inline cmdq_lower_operand cmdq_lower_skip(cmdq_lower_operand operand, uint64_t elements)
{
    operand.offset += elements * operand.qbits / 8;
    return operand;
}

/* A value from its element `column` of each token on: with several tokens, a multiple of its tile. */
cmdq_lower_operand cmdq_lower_value(const cmdq_lowering *l, uint32_t value, uint64_t column);

/* Likewise an input of a node, for the tokens that the node computes. */
cmdq_lower_operand cmdq_lower_input(const cmdq_lowering *l, const tv_graph_node *n, unsigned input, uint64_t column);

/* Likewise, in the format for products. */
cmdq_lower_operand cmdq_lower_factor(const cmdq_lowering *l, const tv_graph_node *n, unsigned input, uint64_t column);

uint32_t cmdq_lower_scratch(const cmdq_lowering *l, const tv_graph_node *n, unsigned which);

static inline const cmdq_lower_matrix *cmdq_lower_matrix_of(const cmdq_lowering *l, const tv_graph_node *n,
                                                            unsigned input)
{
    return &l->matrices[cmdq_lower_node_index(l, n)][input];
}

static inline uint32_t cmdq_lower_tile_of(const cmdq_lowering *l, uint32_t value)
{
    return l->plan->formats[value].tile;
}

static inline uint32_t cmdq_lower_min(uint32_t a, uint32_t b) { return a < b ? a : b; }

void cmdq_lower_begin_queue(cmdq_lowering *l); /* forgets the entries of earlier queues */

void cmdq_lower_add_read(cmdq_lowering *l, uint32_t buffer);
void cmdq_lower_add_write(cmdq_lowering *l, uint32_t buffer);
void cmdq_lower_add_dependency(cmdq_lowering *l, uint32_t entry);

/* Of the last buffer of cmdq_lower_add_read only these bytes are read: the entry waits for those that wrote them. */
void cmdq_lower_limit_read(cmdq_lowering *l, cmdq_lower_range range);

/* Of the last buffer of cmdq_lower_add_write only these bytes are written: the entry waits for what used the memory
 * before, not for the entries that write other tiles. */
void cmdq_lower_write_tile(cmdq_lowering *l, cmdq_lower_range range);

/* Completes an entry with the dependencies that follow from its reads and writes; returns its id. */
uint32_t cmdq_lower_finish_entry(cmdq_lowering *l);

void cmdq_lower_set_integer(cmdq_lowering *l, cmdq_field field, uint64_t value);
void cmdq_lower_set_scale(cmdq_lowering *l, cmdq_field field, float value); /* 1 is the default and is omitted */
void cmdq_lower_set_address(cmdq_lowering *l, cmdq_field bank, uint32_t buffer, uint64_t offset);

void cmdq_lower_begin_transfer(cmdq_lowering *l, cmdq_opcode opcode, const char *role, unsigned qbits, uint64_t addr,
                               uint64_t rows, uint64_t elements, uint64_t stride);

/* Loads or stores `rows` rows of `elements`, `stride` bytes apart in DRAM. */
void cmdq_lower_load(cmdq_lowering *l, cmdq_lower_operand to, const char *role, uint64_t addr, uint64_t rows,
                     uint64_t elements, uint64_t stride);
void cmdq_lower_store(cmdq_lowering *l, cmdq_lower_operand from, uint64_t addr, uint64_t rows, uint64_t elements,
                      uint64_t stride);

/* Loads a vector of constants, the input of a node, to a scratch buffer. */
void cmdq_lower_load_vector(cmdq_lowering *l, const tv_graph_node *n, unsigned input, uint32_t to);

/* Tensor entries: in[m][k] times wgt[n][k]. */
typedef struct cmdq_lower_gemm {
    uint64_t m, n, k;
    unsigned weight_bits;
} cmdq_lower_gemm;
void cmdq_lower_begin_tensor(cmdq_lowering *l, cmdq_opcode opcode, cmdq_lower_operand in, cmdq_lower_operand wgt,
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

/* Loads the part with its scales; returns the slot. */
unsigned cmdq_lower_load_weights(cmdq_lowering *l, const cmdq_lower_matrix *w, cmdq_lower_slice slice);

/* out[m][rows] (+)= in.scale * in[m][columns] * W[row …][column …]^T with the weights of a slot. The scale of the input
 * itself is part of the scales of the weights: in.scale is a factor. */
void cmdq_lower_multiply(cmdq_lowering *l, const cmdq_lower_matrix *w, unsigned slot, cmdq_lower_operand in,
                         cmdq_lower_operand out, cmdq_lower_slice slice, uint32_t m);

/* ---- advance.c ---- */

/* The queue of l->rows tokens begins: nothing of it grows so far. */
void cmdq_lower_begin_growth(cmdq_lowering *l);

/* The field of the current entry, which is given, is larger by `per_position` for each later position. */
void cmdq_lower_grow(cmdq_lowering *l, cmdq_field field, int64_t per_position);

/* From `position` on, fields do not grow that way, or entries are others. */
void cmdq_lower_limit_growth(cmdq_lowering *l, uint32_t position);

/* The step's queue is loaded and was run. */
void cmdq_lower_end_growth(cmdq_lowering *l);

/* Whether the loaded queue can be changed to that of the step; changes it and loads it again. */
bool cmdq_lower_can_advance(const cmdq_lowering *l);
tv_status cmdq_lower_advance(cmdq_lowering *l, const tv_diag_sink *sink);

void cmdq_lower_fini_growth(cmdq_lowering *l);

/* ---- pointwise.c ---- */

void cmdq_lower_emit_pointwise(cmdq_lowering *l, const tv_graph_node *n);

/* Applies a node with one computed input of `rows` vectors to a tile of its elements from `column` on. */
void cmdq_lower_apply(cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_operand in, cmdq_lower_operand out,
                      uint32_t rows, uint32_t columns, uint32_t column);
void cmdq_lower_emit_activation(cmdq_lowering *l, tv_activation activation, cmdq_lower_operand in,
                                cmdq_lower_operand out, uint64_t count);

/* ---- products.c, experts.c, kv_cache.c, attention.c ---- */

void cmdq_lower_emit_linear(cmdq_lowering *l, const tv_graph_node *n);
void cmdq_lower_emit_glu(cmdq_lowering *l, const tv_graph_node *n);

/* Applies `n`, and the nodes that follow it, to streamed values in DRAM, tile by tile; or does nothing, because they
 * were applied when the values were stored. */
void cmdq_lower_emit_streamed(cmdq_lowering *l, const tv_graph_node *n);
void cmdq_lower_emit_experts(cmdq_lowering *l, const tv_graph_node *n);
void cmdq_lower_emit_rope(cmdq_lowering *l, const tv_graph_node *n);
void cmdq_lower_emit_attention(cmdq_lowering *l, const tv_graph_node *n);
void cmdq_lower_emit_attention_blocks(cmdq_lowering *l, const tv_graph_node *n);

/* Stores the keys and values of the tokens of the step. */
void cmdq_lower_append_cache(cmdq_lowering *l, const tv_graph_node *n);

/* Positions [start, start + count), and what both grow by with the position of a single token. */
typedef struct cmdq_lower_span {
    uint32_t start, count;
    int64_t start_growth, count_growth;
} cmdq_lower_span;

/* Loads keys, or values, from the cache of an Attention. */
void cmdq_lower_load_cache(cmdq_lowering *l, const tv_graph_node *n, uint32_t head, bool v, uint32_t to,
                           cmdq_lower_span span);

/* The value of integer 1 in the keys (input 1) or values (2) of a cache. */
float cmdq_lower_cache_scale(const cmdq_lowering *l, uint32_t cache, unsigned input);
void cmdq_lower_load_masks(cmdq_lowering *l);

#endif
