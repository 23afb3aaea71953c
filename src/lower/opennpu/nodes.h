/* SPDX-License-Identifier: Apache-2.0 */
/* From operators to instructions. */
#ifndef TV_LOWER_OPENNPU_NODES_H
#define TV_LOWER_OPENNPU_NODES_H

#include "lower/opennpu/batch.h"
#include "lower/opennpu/token.h"

/* True when the table has emitters for an operator. */
bool opennpu_lower_has_operator(tv_graph_op op);

/* Appends the instructions for one token; without `logits` those of the output block are left out. */
void opennpu_lower_emit_token(opennpu_lower_token *tok, bool logits);

/* Appends the instructions for a batch whose position is a multiple of K; the logits are [rows][blocks of the
 * classifier][K]. */
void opennpu_lower_emit_batch(opennpu_lower_batch *b);

#endif
