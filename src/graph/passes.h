/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over graphs: fusion, lifetimes of values, ranges of activations. */
#ifndef TV_GRAPH_PASSES_H
#define TV_GRAPH_PASSES_H

#include "graph/backend.h"
#include "graph/graph.h"

/* Replaces groups of nodes by fused ones: Gemm with bias, activation and residual by Linear; two Gemms of one input,
 * an activation and a product by GatedLinear; both normalizations, between Reshapes too, by Norm. Removes nodes whose
 * outputs are not used. The values of the remaining nodes stay the same numbers. The graph stays valid.
 * TV_ERR_MEMORY: it is unchanged. */
tv_status tv_graph_fuse(tv_graph *graph, const tv_diag_sink *sink);

/* Lets readers of QuantizeLinear followed by DequantizeLinear, with the same constants, read the value itself; the
 * nodes are left without readers, and tv_graph_fuse drops them. *out receives the largest magnitude that the integers
 * of a value can have, or 0 where there is no pair: [value_count], freed by the caller. TV_ERR_MEMORY: the graph is
 * unchanged. */
tv_status tv_graph_remove_pairs(tv_graph *graph, const tv_diag_sink *sink, float **out);

/* The last node that reads each value; its producer when no node does. UINT32_MAX: to the end (the result, outputs of
 * layers when `keep_layers`). [value_count], freed by the caller. NULL: out of memory. */
uint32_t *tv_graph_last_uses(const tv_graph *graph, bool keep_layers);

/* Packs buffers with lifetimes into one memory, first fit. Gives each buffer its offset, a multiple of `alignment`;
 * returns the bytes used, or UINT64_MAX when out of memory. Buffers whose lifetimes [first, last] meet do not overlap.
 */
typedef struct tv_buffer_life {
    uint64_t bytes, offset;
    uint32_t first, last; /* nodes, both included */
} tv_buffer_life;
uint64_t tv_buffers_allocate(tv_buffer_life *buffers, uint32_t count, uint64_t alignment);

/* Absmax of the activations of each value, which the host finds by running options->sample. Values without activations
 * have 0. [value_count], freed by the caller. */
tv_status tv_graph_ranges(const tv_graph *graph, const tv_backend_options *options, const tv_diag_sink *sink,
                          float **out);

#endif
