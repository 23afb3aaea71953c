/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions for one token, node by node. */
#ifndef TV_LOWER_OPENNPU_TOKEN_H
#define TV_LOWER_OPENNPU_TOKEN_H

#include "lower/opennpu/layout.h"

typedef struct opennpu_lower_token {
    opennpu_lower_model *m;
    opennpu_lower_emitter *e;
    opennpu_lower_product *list; /* scratch of products */
    opennpu_lower_epilogue epilogues[OPENNPU_LOWER_PERIOD_MAX / 2];
    int32_t token;
    uint32_t position;
} opennpu_lower_token;

static inline opennpu_lower_value *opennpu_lower_token_value(const opennpu_lower_token *tok, uint32_t value)
{
    return &tok->m->values[value];
}

/* Vectors of a value. */
static inline uint32_t opennpu_lower_token_chunks(const opennpu_lower_token *tok, uint32_t value)
{
    return opennpu_lower_chunks(tok->m, opennpu_lower_columns(tok->m, value));
}

static inline uint32_t opennpu_lower_blocks_per_drain(const opennpu_lower_token *tok) { return tok->e->period / 2; }

/* Packs a value for products, if any read it. */
void opennpu_lower_token_pack(opennpu_lower_token *tok, uint32_t value);

/* What the nodes of each operator become. */
void opennpu_lower_token_gather(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_norm(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_linear(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_glu(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_binary(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_attention(opennpu_lower_token *tok, const tv_graph_node *n);

#endif
