/* SPDX-License-Identifier: Apache-2.0 */
/* From operators to instructions. */
#ifndef TV_LOWER_OPENNPU_NODES_H
#define TV_LOWER_OPENNPU_NODES_H

#include "lower/opennpu/batch.h"
#include "lower/opennpu/token.h"

/* True when the table has emitters for an operator. */
bool opennpu_lower_has_operator(tv_graph_op op);

/* Nodes between which the host works. Errors are in the emitter's status. */
void opennpu_lower_token_experts(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_batch_experts(opennpu_lower_batch *b, const tv_graph_node *n);
void opennpu_lower_token_host(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_batch_host(opennpu_lower_batch *b, const tv_graph_node *n);

/* Ends the program, so that the host can read its results, and begins another, labelled with a block. False: an error,
 * which is in the emitter. */
bool opennpu_lower_restart(opennpu_lower_model *m, uint32_t block);

/* `name` is static. */
void opennpu_lower_count_host_op(opennpu_lower_model *m, const char *name, uint64_t elements);

/* Appends the instructions for one token; without `logits` those of the output block are left out. */
void opennpu_lower_emit_token(opennpu_lower_token *tok, bool logits);

/* Appends the instructions for a batch whose position is a multiple of K; the logits are [rows][blocks of the
 * classifier][K]. */
void opennpu_lower_emit_batch(opennpu_lower_batch *b);

#endif
