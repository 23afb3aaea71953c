/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine can execute, and how values, buffers and constants are stored. */
#ifndef TV_LOWER_CMDQ_LAYOUT_H
#define TV_LOWER_CMDQ_LAYOUT_H

#include "lower/cmdq/state.h"

/* ---- support.c ---- */

/* Finds the nodes that the host computes, the streamed values and the windows of attention. TV_ERR_INPUT: the machine
 * cannot execute a node (TV-L044). */
tv_status cmdq_lower_check(cmdq_lowering *l, const tv_diag_sink *sink);

/* The only element of a constant. */
float cmdq_lower_scalar(const cmdq_lowering *l, uint32_t value);

/* How an operand of an elementwise node is repeated to the shape of the output. */
typedef enum cmdq_lower_repeat {
    CMDQ_REPEAT_NONE,
    CMDQ_REPEAT_SCALAR, /* a constant */
    CMDQ_REPEAT_ROW,    /* along leading axes */
    CMDQ_REPEAT_COLUMN  /* along the last axis: one element for each vector */
} cmdq_lower_repeat;
cmdq_lower_repeat cmdq_lower_repeat_of(const cmdq_lowering *l, const tv_graph_node *n, unsigned input);

/* True for an input that is a mere factor: it becomes a scale of the other operand. */
bool cmdq_lower_is_factor(const cmdq_lowering *l, const tv_graph_node *n, unsigned input);

/* True for operators that compute each element from those at the same position. */
bool cmdq_lower_is_pointwise(tv_graph_op op);

/* ---- formats.c ---- */

/* What the readers of a value want. */
typedef struct cmdq_lower_use {
    bool product, query, cached, other; /* by what kinds of operands it is read */
    uint32_t group;                     /* values of one group have the same tile: the number of a value of it */
    uint32_t exact, divisor;            /* of a group: the tile; what the tile divides; 0: any */
    bool conflict, narrow;              /* of a group: no tile for several tokens; it may have small tiles */
} cmdq_lower_use;

/* [value_count], freed by the caller; NULL: out of memory. */
cmdq_lower_use *cmdq_lower_find_uses(const cmdq_lowering *l);

/* Sets the formats of the output of a node, and whether it is a view. */
void cmdq_lower_choose_formats(const cmdq_lowering *l, cmdq_lower_plan *plan, const cmdq_lower_use *uses,
                               uint32_t node);

/* Hidden columns of an expert that are computed at once. */
uint32_t cmdq_lower_expert_tile(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n);

/* Columns of a product's weights that share a scale. */
uint32_t cmdq_lower_group(const cmdq_lowering *l, const tv_graph_node *n, unsigned input);

/* Rows of a weight with `columns` columns that fit a bank with their scales. */
uint32_t cmdq_lower_tile_rows(const cmdq_lower_plan *plan, uint32_t columns, uint32_t group, unsigned bits);

/* Width of the weights of a product. Narrow matrices, whose few results steer much, have at least 8 bits. */
unsigned cmdq_lower_weight_bits(const cmdq_lowering *l, const tv_graph_node *n);

/* ---- buffers.c ---- */

/* Adds the buffers of weights, which are first. False: a bank is too small. */
bool cmdq_lower_add_weight_buffers(const cmdq_lowering *l, cmdq_lower_plan *plan);

/* Appends a buffer that is used by the nodes [first, last]; no bytes: CMDQ_LOWER_NONE. */
uint32_t cmdq_lower_add_buffer(cmdq_lower_plan *plan, uint32_t bank, uint32_t first, uint32_t last, uint64_t bytes);

/* Adds the buffers of a node: its output and what it needs besides. */
void cmdq_lower_add_node_buffers(const cmdq_lowering *l, cmdq_lower_plan *plan, const cmdq_lower_use *uses,
                                 const uint32_t *last_uses, uint32_t node);

/* Allocates the buffers. TV_ERR_INPUT: they do not fit, nothing is reported. */
tv_status cmdq_lower_allocate_buffers(const cmdq_lowering *l, cmdq_lower_plan *plan);

/* Attention: positions whose scores have space in SPM; with plan->blocked, positions of a block of keys or values, and
 * query heads of a head of the cache whose scores are in SPM at the same time. */
uint32_t cmdq_lower_positions(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n);
uint32_t cmdq_lower_position_block(const cmdq_lowering *l, uint32_t head_dim);
uint32_t cmdq_lower_heads_at_once(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n);

/* ---- plan.c ---- */

/* Chooses formats, tiles and buffers. TV_ERR_INPUT: values do not fit SPM. */
tv_status cmdq_lower_plan_memory(cmdq_lowering *l, const tv_backend_options *options, const tv_diag_sink *sink);
void cmdq_lower_plan_fini(cmdq_lower_plan *plan);

/* ---- upload.c ---- */

/* Allocates DRAM. TV_ERR_INPUT: the model does not fit. */
tv_status cmdq_lower_allocate(cmdq_lowering *l, const tv_diag_sink *sink);

/* Uploads the constants. */
tv_status cmdq_lower_upload(cmdq_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink);

#endif
