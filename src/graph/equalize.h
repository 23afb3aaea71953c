/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over the constants of fused networks that make them easier to quantize. */
#ifndef TV_GRAPH_EQUALIZE_H
#define TV_GRAPH_EQUALIZE_H

#include "graph/graph.h"

/* Cross-layer equalization: where the output of a Conv or Linear, with Relu or without an activation, is only read by
 * another Conv or Linear, the weights and the bias of channel c of the first one are divided by s[c], and the weights
 * of the second one that read c multiplied by it: s[c] = sqrt(r1 / r2), where r1 and r2 are the largest magnitudes of
 * both. Then both are sqrt(r1 r2), and the network computes the same. Pairs are repeated until the factors are within
 * 1/1000 of 1, at most 20 times. `pairs`, which may be NULL, receives their number. TV_ERR_MEMORY. */
tv_status tv_graph_equalize(tv_graph *graph, uint32_t *pairs, const tv_diag_sink *sink);

/* Input channels of a Conv or Linear with constant weights that have data; 0: another node. */
uint64_t tv_product_channels(const tv_graph *graph, const tv_graph_node *node);

/* The bias of a node, and a corrected one. */
typedef struct tv_bias_change {
    uint32_t node, before, after; /* values, or TV_NO_VALUE */
} tv_bias_change;

typedef struct tv_bias_list {
    TV_VEC(tv_bias_change) changes;
} tv_bias_list;

/* Replaces the weights of an output channel, [taps][inputs], by what a machine makes of them with `bits` bits (4 or 8;
 * 0: its default). False: out of memory. */
typedef bool tv_round_weights(float *channel, uint64_t taps, uint64_t inputs, unsigned bits);

/* Rounds n values as tv_quantize_row does, with a scale for each `group` of them. False: out of memory. */
bool tv_round_row(float *values, uint64_t n, uint64_t group, unsigned bits);

/* Bias correction: weights rounded by `rounds` shift the mean of output channel o by the sum over its weights of
 * (rounded - w) * mean of the input channel. Adds a constant with the shift subtracted for each Conv and Linear with
 * `means[node]` (calibrate.h); the nodes keep their biases until tv_bias_list_apply. TV_ERR_MEMORY. The caller releases
 * the list with tv_bias_list_fini in any case. */
tv_status tv_graph_correct_biases(tv_graph *graph, double *const *means, tv_round_weights *rounds, unsigned bits,
                                  const tv_diag_sink *sink, tv_bias_list *out);

/* Makes the nodes read the corrected biases, or the original ones. */
void tv_bias_list_apply(const tv_bias_list *list, tv_graph *graph, bool corrected);

void tv_bias_list_fini(tv_bias_list *list);

#endif
