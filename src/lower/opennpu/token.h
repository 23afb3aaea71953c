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

/* The blocks of a linear, to consecutive vectors at the address of each of its outputs: W * input (+ bias), plus the
 * vectors at `add` unless it is 0. */
void opennpu_lower_token_products(opennpu_lower_token *tok, const opennpu_lower_linear *w,
                                  const opennpu_lower_input *input, const uint64_t *outputs, uint64_t add);

/* Packs a value for products, if any read it. */
void opennpu_lower_token_pack(opennpu_lower_token *tok, uint32_t value);

/* Packs the vectors at `at`, times VR 7, times those at `gains` unless it is 0. */
void opennpu_lower_token_pack_scaled(opennpu_lower_token *tok, uint64_t at, uint64_t gains,
                                     const opennpu_lower_input *packs);

/* VR 0 = the sum of consecutive elements, in all lanes. Clobbers VR 1 to 3. */
void opennpu_lower_token_sum(opennpu_lower_token *tok, uint64_t at, uint32_t elements);

/* VR 0 = the maximum of consecutive elements, or with `negative` of the negative ones, in all lanes. Clobbers VR 1 to
 * 3. */
void opennpu_lower_token_max(opennpu_lower_token *tok, uint64_t at, uint32_t elements, bool negative);

/* Where a norm, or part of it, is read and written. */
typedef struct opennpu_lower_norm_job {
    uint64_t x, gains, bias, out; /* bias 0: none */
    uint32_t elements;
} opennpu_lower_norm_job;

/* A group whose elements are adjacent. Its last vector exceeds it: the next group overwrites that. */
void opennpu_lower_token_norm_group(opennpu_lower_token *tok, const tv_graph_node *n, opennpu_lower_norm_job job);

/* What the nodes of each operator become. */
void opennpu_lower_token_gather(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_norm(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_linear(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_glu(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_elementwise(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_select(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_reduce(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_softmax(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_matmul(opennpu_lower_token *tok, const tv_graph_node *n);
void opennpu_lower_token_attention(opennpu_lower_token *tok, const tv_graph_node *n);

#endif
