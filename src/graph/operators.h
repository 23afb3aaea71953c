/* SPDX-License-Identifier: Apache-2.0 */
/* What each operator computes on the host: the reference that all machines are compared with. Products, norms and
 * averages compute in binary32; others in the element type of their inputs, of which real ones are computed in binary64
 * and rounded once.
 *
 * Sums follow the canonical order (kernels/dot.h) and functions are correctly rounded, so results are identical on
 * every host. Functions work on one token; only Attention remembers anything, in its cache. */
#ifndef TV_GRAPH_OPERATORS_H
#define TV_GRAPH_OPERATORS_H

#include "graph/graph.h"
#include "sim/pool.h"

/* Keys and values of a cache, [position][heads * dim]. */
typedef struct tv_host_cache {
    float *keys, *values;
} tv_host_cache;

/* Receives how many of `total` units of a node are complete. */
typedef struct tv_operator_progress {
    void (*report)(void *user, uint64_t done, uint64_t total);
    void *user;
    unsigned steps; /* number of reports of a node, at least 1 */
} tv_operator_progress;

/* The operands of a node for one token. */
typedef struct tv_operator_row {
    const tv_graph *graph;
    const tv_graph_node *node;
    const void *inputs[TV_GRAPH_INPUTS_MAX]; /* the token's row, or the elements of a constant, of the element type of
                                                the value; NULL: left out, a token number or position, or a matrix that
                                                is not kept as binary32 */
    void *output;                            /* the token's row */
    float *scratch;                          /* ATTENTION: one value for each position up to the token's */
    int32_t index;                           /* GATHER: the row */
    uint32_t position;                       /* of the token */
    const tv_host_cache *cache;              /* ATTENTION */
    tv_pool *pool;                           /* threads that share the work; NULL: none */
    const tv_operator_progress *progress;    /* of long nodes; NULL: none */
} tv_operator_row;

/* Computes the output row. ATTENTION expects the keys and values of this token and of earlier ones in the cache.
 * False: a weight is not finite, or there is no memory. */
bool tv_operator_compute(const tv_operator_row *row);

/* True for operators that compute in binary32. tv_operator_compute converts operands of other real types to it, and the
 * result from it, so that binary64 loses precision; CONV and MATMUL of integers compute modulo 2^32. */
bool tv_operator_is_f32(tv_graph_op op);

/* ATTENTION: appends the token's keys and values to the cache. */
void tv_operator_append(const tv_operator_row *row);

float tv_activation_f32(tv_activation activation, float x); /* CLIP has no bounds here */
float tv_activate(const tv_graph_attrs *attrs, float x);    /* attrs->activation */

/* Chooses the experts of a token from the router's logits: `chosen` and `weights` receive `used` elements, the largest
 * probability first; the first of equal ones. */
void tv_operator_route(const float *logits, uint32_t experts, uint32_t used, bool normalize, uint32_t *chosen,
                       float *weights);

#endif
