/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of activations, measured by a run of the host. */
#include <stdlib.h>

#include "graph/passes.h"
#include "kernels/quantize.h"

/* Sets the range of every value that is computed for each token. The logits and what leads to them from the classifier
 * on have none: the host computes them for the last token only, and no machine quantizes them. */
static void measure(const tv_graph *graph, void *host, uint32_t rows, float *ranges)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const tv_graph_node *n = &graph->nodes.data[i];
        const float *x = tv_backend_host.value(host, n->output);
        bool finite;
        if (n->block != TV_BLOCK_OUTPUT || tv_graph_columns(graph, n->output) != tv_graph_vocabulary(graph))
            ranges[n->output] = tv_absmax(x, (uint32_t)(rows * tv_graph_elements(graph, n->output)), &finite);
    }
}

tv_status tv_graph_ranges(const tv_graph *graph, const tv_backend_options *options, const tv_diag_sink *sink,
                          float **out)
{
    void *host = NULL;
    uint32_t n = options->sample_count;
    float *unused = malloc(tv_graph_vocabulary(graph) * sizeof *unused),
          *ranges = calloc(graph->values.count, sizeof *ranges);
    tv_status status = unused && ranges ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK)
        status = tv_backend_host.create(
            graph, &(tv_backend_options){.context = n, .threads = options->threads, .step_progress = options->progress},
            sink, &host);
    if (status == TV_OK)
        status = tv_backend_host.step(host, options->sample, n, 0, true, unused, sink);
    if (status == TV_OK)
        measure(graph, host, n, ranges);
    tv_backend_host.destroy(host);
    free(unused);
    if (status != TV_OK) {
        free(ranges);
        return status;
    }
    *out = ranges;
    return TV_OK;
}
