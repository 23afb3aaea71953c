/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers networks that are no language models to pccx: a program for each node, or several where the data flow needs
 * them. Activations are quantized by the machine, row by row; calibrated ranges end the intervals of Relu and Clip. */
#include <stdlib.h>

#include "graph/passes.h"
#include "lower/pccx/network_state.h"
#include "trivet/energy.h"

/* ---- Creating ---- */

static void destroy(void *state)
{
    pccx_network *w = state;
    if (!w)
        return;
    tv_builder_fini(&w->l.program);
    tv_machine_free(w->l.machine);
    tv_program_free(w->l.loaded_program);
    for (size_t i = 0; w->values && i < w->graph->values.count; i++)
        if (w->values[i].owned)
            tv_tensor_fini(&w->values[i].tensor);
    for (size_t i = 0; w->nodes && i < w->graph->nodes.count; i++)
        pccx_net_moves_fini(&w->nodes[i].moves);
    free(w->values);
    free(w->nodes);
    free(w->last_uses);
    free(w->resident_ends);
    free(w->layers);
    TV_VEC_FINI(&w->files);
    TV_VEC_FINI(&w->written);
    TV_VEC_FINI(&w->steps);
    free(w->schedule);
    free(w);
}

static tv_status allocate(pccx_network *w, const tv_diag_sink *sink)
{
    size_t nodes = w->graph->nodes.count + 1;
    w->values = calloc(w->graph->values.count + 1, sizeof *w->values);
    w->nodes = calloc(nodes, sizeof *w->nodes);
    w->last_uses = tv_graph_last_uses(w->graph, false);
    w->resident_ends = calloc(nodes, sizeof *w->resident_ends);
    w->layers = calloc(nodes, sizeof *w->layers);
    return w->values && w->nodes && w->last_uses && w->resident_ends && w->layers ? TV_OK : tv_fail_memory(sink);
}

/* Parameters of the machine, and the constants in L2 from its first word on. */
static tv_status set_up(pccx_network *w, const tv_config *config, const tv_diag_sink *sink)
{
    pccx_lowering *l = &w->l;
    w->tile_k = (uint32_t)tv_backend_parameter(config, "gemm.tile_k");
    w->tile_n = (uint32_t)tv_backend_parameter(config, "gemm.tile_n");
    w->min_rows = (uint32_t)tv_backend_parameter(config, "gemm.min_rows");
    w->gemm_setup = (uint32_t)tv_backend_parameter(config, "gemm.setup");
    w->copy_setup = (uint32_t)tv_backend_parameter(config, "acp.setup");
    w->stream_rate = tv_backend_rate(config, "stream.bytes_per_cycle");
    w->copy_rate = tv_backend_rate(config, "acp.bytes_per_cycle");
    w->k_max = (uint32_t)tv_backend_parameter(config, "gemm.k_max") / PCCX_LOWER_LANES * PCCX_LOWER_LANES;
    l->group = w->k_max;
    l->piece = PCCX_NET_PIECE;
    l->plan.ones = 0;
    l->plan.minus_ones = l->plan.ones + PCCX_NET_ONES / PCCX_LOWER_LANES;
    l->plan.constants = l->plan.minus_ones + PCCX_NET_PIECE / PCCX_LOWER_LANES;
    l->plan.work = l->plan.constants + PCCX_COMMONS;
    w->scalars_at = l->plan.work + PCCX_LOWER_WORK_BUFFERS * (1 + PCCX_NET_PIECE / PCCX_LOWER_LANES);
    w->zeros = w->scalars_at + PCCX_NET_SCALARS_MAX;
    w->temporary = w->zeros + PCCX_NET_ZEROS / PCCX_LOWER_LANES;
    w->base = w->temporary + PCCX_NET_TEMPORARIES * PCCX_NET_PIECE / PCCX_LOWER_LANES;
    uint64_t words = pccx_lower_space_size(l->machine, "l2");
    w->l2_words = words > PCCX_TAG_FIFO ? PCCX_TAG_FIFO : (uint32_t)words;
    if (w->k_max < PCCX_LOWER_BEAT_WEIGHTS || w->l2_words < 2 * w->base)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "make l2.words or gemm.k_max larger with -D",
                       "networks need at least %u words of L2 and a gemm.k_max of 32", 2 * w->base);
    return TV_OK;
}

static tv_status create(const tv_graph *graph, const tv_network_options *options, const tv_diag_sink *sink,
                        void **state)
{
    pccx_network *w = calloc(1, sizeof *w);
    if (!w)
        return tv_fail_memory(sink);
    w->graph = graph;
    w->explain = options->explain;
    w->ranges = options->ranges;
    w->l = (pccx_lowering){.graph = graph,
                           .planes = options->weight_bits == 8 ? 2 : 1,
                           .emit = options->emit,
                           .outputs = options->outputs,
                           .weights = options->weights,
                           .step_progress = options->progress,
                           .timing = options->mode == TV_MODE_TIMING,
                           .keep_values = options->keep_values,
                           .allow_host_ops = options->allow_host_ops,
                           .scale_search = tv_scale_search(tv_cpu()),
                           .host_ops = {{.name = "pack a matrix to INT4"},
                                        {.name = "arrange a matrix"},
                                        {.name = "hand a vector to the weight stream", .written = true}},
                           .host_op_count = PCCX_LOWER_HOST_OPS};
    tv_status status = pccx_net_schedule_new(w) ? allocate(w, sink) : tv_fail_memory(sink);
    if (status == TV_OK)
        status = pccx_lower_init_encodings(&w->l, sink);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &w->l.machine);
    if (status == TV_OK)
        status = set_up(w, options->config, sink);
    if (status == TV_OK)
        status = pccx_net_plan(w, sink);
    if (status == TV_OK)
        status = pccx_net_allocate(w, sink);
    if (status == TV_OK) {
        tv_machine_set_threads(w->l.machine, options->threads);
        status = pccx_net_upload(w, &options->progress, sink);
    }
    if (status != TV_OK) {
        destroy(w);
        return status;
    }
    w->ranges = NULL;
    *state = w;
    return TV_OK;
}

/* ---- Running ---- */

/* Only the first run, and one after a failure, loads them. */
static void load_constants(pccx_network *w)
{
    pccx_lowering *l = &w->l;
    if (w->loaded)
        return;
    w->scalar_count = 0;
    pccx_net_load(w, l->plan.ones, l->map.ones, PCCX_NET_ONES / PCCX_LOWER_LANES);
    pccx_net_load(w, l->plan.minus_ones, l->map.minus_ones, PCCX_NET_PIECE / PCCX_LOWER_LANES);
    pccx_net_load(w, l->plan.constants, l->map.words, PCCX_COMMONS);
    pccx_net_load(w, w->zeros, l->map.cuts, PCCX_NET_ZEROS / PCCX_LOWER_LANES);
}

static tv_status begin_run(pccx_network *w, const tv_tensor *const *inputs, const tv_diag_sink *sink)
{
    pccx_net_clear(w); /* left by a run that failed */
    w->l.bank_count[0] = w->l.bank_count[1] = 0;
    w->l.programs = 0;
    w->layer_count = 0;
    snprintf(w->l.block_name, sizeof w->l.block_name, "inputs");
    tv_builder_label(&w->l.program, w->l.block_name);
    for (uint32_t i = 0; i < w->graph->values.count; i++)
        w->values[i].stored = w->values[i].read = false;
    load_constants(w);
    w->loaded = false;
    for (size_t i = 0; i < w->graph->inputs.count; i++) {
        uint32_t v = w->graph->inputs.data[i];
        if (inputs)
            w->values[v].tensor = *inputs[i];
        w->values[v].read = true;
        if (w->values[v].on_machine)
            TV_TRY(pccx_net_from_host(w, v, sink));
    }
    return TV_OK;
}

/* What is used in the largest number of cycles: an engine, or the weights that it waits for. */
static const char *find_bound(const tv_stats *now, const tv_stats *before)
{
    const char *name = "latency";
    uint64_t max = 0;
    for (unsigned i = 0; i < now->engine_count; i++) {
        const tv_engine_stats *e = &now->engines[i];
        uint64_t busy = e->busy - before->engines[i].busy, stream = 0;
        if (strcmp(e->name, "DISP") == 0)
            continue;
        for (unsigned r = 0; r < now->stall_reason_count; r++)
            if (strcmp(now->stall_reasons[r], "stream") == 0)
                stream = e->stalled[r] - before->engines[i].stalled[r];
        if (busy + stream > max) {
            max = busy + stream;
            name = stream <= busy ? e->name : strcmp(e->name, "GEMM") == 0 ? "weights_gemm" : "weights_gemv";
        }
    }
    return name;
}

static tv_status end_layer(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    tv_stats now = {.size = sizeof now};
    TV_TRY(pccx_net_run(w, sink));
    TV_TRY(tv_machine_stats(w->l.machine, &now));
    tv_layer *layer = &w->layers[w->layer_count++];
    *layer = (tv_layer){.node = node,
                        .tiles = w->tiles,
                        .cycles = now.cycles - w->before.cycles,
                        .macs = now.macs - w->before.macs,
                        .bound = find_bound(&now, &w->before),
                        .plan = w->explain && w->nodes[node].plan[0] ? w->nodes[node].plan : NULL};
    for (unsigned i = 0; i < now.path_count; i++)
        if (strcmp(now.paths[i].name, "l2_to_l2") != 0)
            layer->bytes += now.paths[i].bytes - w->before.paths[i].bytes;
    tv_energy energy = tv_machine_energy_total(w->l.machine);
    layer->energy = tv_energy_since(energy, w->energy_before);
    w->energy_before = energy;
    w->before = now;
    w->tiles = 0;
    return TV_OK;
}

static tv_status lower_node(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    snprintf(w->l.block_name, sizeof w->l.block_name, "%.15s", tv_graph_value_at(w->graph, n->output)->name);
    tv_builder_label(&w->l.program, w->l.block_name);
    if (w->nodes[node].problem)
        TV_TRY(pccx_net_host_node(w, node, sink));
    else if (w->nodes[node].is_virtual)
        pccx_net_begin_tile(w, node, 0, 1);
    else if (w->nodes[node].is_move)
        TV_TRY(pccx_net_moves(w, node, sink));
    else
        TV_TRY(pccx_net_emitters[n->op](w, node, sink));
    if (w->l.keep_values)
        TV_TRY(pccx_net_to_host(w, n->output, sink));
    return end_layer(w, node, sink);
}

static tv_status run(void *state, const tv_tensor *const *inputs, const tv_diag_sink *sink)
{
    pccx_network *w = state;
    uint32_t count = (uint32_t)w->graph->nodes.count;
    w->before = (tv_stats){.size = sizeof w->before};
    TV_TRY(tv_machine_stats(w->l.machine, &w->before));
    w->energy_before = tv_machine_energy_total(w->l.machine);
    TV_TRY(begin_run(w, inputs, sink));
    for (uint32_t i = 0; i < count; i++) {
        tv_progress_report(&w->l.step_progress, "running", i, count);
        TV_TRY(lower_node(w, i, sink));
        for (size_t k = 0; k < w->graph->outputs.count; k++) /* before L2 is used for another value */
            if (w->graph->outputs.data[k].value == tv_graph_node_at(w->graph, i)->output)
                TV_TRY(pccx_net_to_host(w, w->graph->outputs.data[k].value, sink));
    }
    TV_TRY(pccx_net_run(w, sink));
    w->l.steps++;
    w->loaded = true;
    return TV_OK;
}

/* ---- Results ---- */

static const tv_tensor *tensor(void *state, uint32_t value)
{
    const pccx_network *w = state;
    const tv_tensor *t = pccx_net_tensor(w, value);
    return t && t->data && (pccx_net_is_constant(w, value) || w->values[value].read) ? t : NULL;
}

static size_t layers(const void *state, const tv_layer **list)
{
    const pccx_network *w = state;
    *list = w->layers;
    return w->layer_count;
}

static tv_machine *machine(void *state) { return ((pccx_network *)state)->l.machine; }

static unsigned host_ops(const void *state, const tv_host_op **list)
{
    const pccx_network *w = state;
    *list = w->l.host_ops;
    return w->l.host_op_count;
}

extern const tv_network_backend tv_network_pccx;
/* Each tap is a matrix. A tap whose pixels are multiplied in groups with others may have another scale. */
static bool round_weights(float *channel, uint64_t taps, uint64_t inputs, unsigned bits)
{
    tv_scale_search_fn *search = tv_scale_search(tv_cpu());
    uint64_t beats = tv_ceil_div(inputs, PCCX_LOWER_BEAT_WEIGHTS), size = beats * PCCX_LOWER_BEAT_WEIGHTS;
    float *residual = malloc((size + 1) * sizeof *residual);
    uint8_t *packed = malloc(beats * PCCX_LOWER_BEAT_BYTES + 1);
    bool good = residual && packed;
    for (uint64_t t = 0; t < taps && good; t++) {
        float *tap = channel + t * inputs;
        memset(residual, 0, size * sizeof *residual);
        memcpy(residual, tap, inputs * sizeof *tap);
        for (unsigned planes = bits == 8 ? 2 : 1; planes; planes--)
            pccx_lower_quantize(search, residual, (uint32_t)inputs, packed);
        for (uint64_t i = 0; i < inputs; i++)
            tap[i] -= residual[i];
    }
    free(residual);
    free(packed);
    return good;
}

const tv_network_backend tv_network_pccx = {.name = "pccx",
                                            .round_weights = round_weights,
                                            .legalize = pccx_net_legalize,
                                            .create = create,
                                            .destroy = destroy,
                                            .run = run,
                                            .tensor = tensor,
                                            .layers = layers,
                                            .machine = machine,
                                            .host_ops = host_ops,
                                            .programs = pccx_net_programs,
                                            .port = pccx_net_port,
                                            .steps = pccx_net_steps,
                                            .run_step = pccx_net_run_step};
