/* SPDX-License-Identifier: Apache-2.0 */
/* Opens networks, and describes their inputs and outputs. */
#include <stdlib.h>

#include "graph/passes.h"
#include "import/onnx_import.h"
#include "infer/state.h"

void tv_network_free(tv_network *network)
{
    if (!network)
        return;
    for (size_t i = 0; network->inputs && i < network->graph->inputs.count; i++)
        tv_tensor_fini(&network->inputs[i]);
    free(network->inputs);
    free(network->is_random);
    free(network->stated);
    tv_manifest_free(network->manifest);
    tv_graph_free(network->graph);
    free(network);
}

static tv_status allocate_inputs(tv_network *network, const tv_diag_sink *sink)
{
    size_t count = network->graph->inputs.count;
    network->inputs = calloc(count + 1, sizeof *network->inputs);
    network->is_random = calloc(count + 1, sizeof *network->is_random);
    if (!network->inputs || !network->is_random)
        return tv_fail_memory(sink);
    for (size_t i = 0; i < count; i++)
        network->inputs[i] = tv_graph_tensor_of(network->graph, network->graph->inputs.data[i]);
    return TV_OK;
}

tv_status tv_network_new_of(tv_graph *graph, const tv_network_open_options *options, const tv_diag_sink *sink,
                            tv_network **out)
{
    tv_network *network = calloc(1, sizeof *network);
    if (!network) {
        tv_graph_free(graph);
        return tv_fail_memory(sink);
    }
    network->graph = graph;
    network->stated_count = (uint32_t)graph->values.count;
    tv_status status = tv_graph_remove_pairs(graph, sink, &network->stated);
    if (status == TV_OK)
        status = tv_graph_fuse(graph, sink);
    if (status == TV_OK && options->equalize)
        status = tv_graph_equalize(graph, NULL, sink);
    if (status == TV_OK)
        status = allocate_inputs(network, sink);
    if (status != TV_OK) {
        tv_network_free(network);
        return status;
    }
    *out = network;
    return TV_OK;
}

static tv_status open_compiled(const char *path, const tv_diag_sink *sink, tv_network **out)
{
    tv_network *network = calloc(1, sizeof *network);
    if (!network)
        return tv_fail_memory(sink);
    tv_status status = tv_manifest_open(path, sink, &network->manifest, &network->graph);
    if (status == TV_OK)
        status = allocate_inputs(network, sink);
    if (status != TV_OK) {
        tv_network_free(network);
        return status;
    }
    *out = network;
    return TV_OK;
}

static tv_status open_model(const char *path, const tv_network_open_options *options, const tv_diag_sink *sink,
                            tv_network **out)
{
    tv_graph *graph;
    tv_onnx_extents *extents = calloc(options->dim_count + 1, sizeof *extents);
    if (!extents)
        return tv_fail_memory(sink);
    for (uint32_t i = 0; i < options->dim_count; i++)
        extents[i] = (tv_onnx_extents){options->dims[i].name, 1, {options->dims[i].extent}};
    tv_onnx_options own = {.extents = extents, .extent_count = options->dim_count, .timing = options->timing_only != 0};
    tv_status status = tv_onnx_import(path, &own, sink, &graph);
    free(extents);
    return status == TV_OK ? tv_network_new_of(graph, options, sink, out) : status;
}

tv_status tv_network_open(const char *path, const tv_network_open_options *options, const tv_diag_sink *sink,
                          tv_network **out)
{
    tv_network_open_options known = {0};
    if (options && !tv_read_sized(&known, sizeof known, TV_SIZE_UP_TO(tv_network_open_options, equalize), options))
        return tv_fail_size(sink, "tv_network_open_options");
    bool folder;
    TV_TRY(tv_manifest_find(path, sink, &folder));
    return folder ? open_compiled(path, sink, out) : open_model(path, &known, sink, out);
}

const char *tv_network_compiled_target(const tv_network *network)
{
    return network->manifest ? network->manifest->target : NULL;
}

/* ---- Inputs and outputs ---- */

int tv_network_input_at(const tv_network *network, unsigned i, tv_network_tensor *out)
{
    const tv_graph *g = network->graph;
    if (i >= g->inputs.count)
        return 0;
    tv_infer_describe(&network->inputs[i], tv_graph_value_at(g, g->inputs.data[i])->name, out);
    out->is_random = network->is_random[i];
    return 1;
}

int tv_network_output_at(const tv_network *network, unsigned i, tv_network_tensor *out)
{
    const tv_graph *g = network->graph;
    if (i >= g->outputs.count)
        return 0;
    tv_tensor t = tv_graph_tensor_of(g, g->outputs.data[i].value);
    tv_infer_describe(&t, g->outputs.data[i].name, out);
    return 1;
}
