/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the queue of a network, and runs it. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "lower/cmdq/network.h"
#include "machine/target.h"
#include "num/float.h"
#include "num/int.h"
#include "trivet/energy.h"
#include "trivet/file.h"
#include "trivet/trace.h"

/* ---- Creating ---- */

static void destroy(void *state)
{
    cmdq_network *net = state;
    if (!net)
        return;
    for (uint32_t v = 0; v < net->graph->values.count; v++) {
        if (net->values)
            TV_VEC_FINI(&net->values[v].chunks);
        if (net->tensors)
            tv_tensor_fini(&net->tensors[v]);
    }
    cmdq_lower_plan_fini(&net->plan);
    tv_queue_builder_free(net->l.builder);
    TV_VEC_FINI(&net->l.deps);
    TV_VEC_FINI(&net->l.occupied);
    cmdq_lower_order_fini(&net->l.order);
    TV_VEC_FINI(&net->live);
    TV_VEC_FINI(&net->ahead);
    TV_VEC_FINI(&net->steps);
    free(net->needs);
    free(net->in_attention);
    free(net->channels_last);
    free(net->wide);
    tv_machine_free(net->l.machine);
    tv_program_free(net->program);
    free(net->values);
    free(net->weights);
    free(net->entries_end);
    free(net->layers);
    free(net->layer_ends);
    free(net->busy);
    free(net->texts);
    free(net->tensors);
    free(net);
}

static tv_status allocate(cmdq_network *net)
{
    size_t values = net->graph->values.count + 1, nodes = net->graph->nodes.count + 1;
    net->values = calloc(values, sizeof *net->values);
    net->tensors = calloc(values, sizeof *net->tensors);
    net->weights = calloc(nodes, sizeof *net->weights);
    net->entries_end = calloc(nodes, sizeof *net->entries_end);
    net->layers = calloc(nodes, sizeof *net->layers);
    net->layer_ends = calloc(nodes, sizeof *net->layer_ends);
    net->busy = calloc(nodes, sizeof *net->busy);
    net->in_attention = calloc(nodes, sizeof *net->in_attention);
    net->channels_last = calloc(values, sizeof *net->channels_last);
    net->wide = calloc(nodes, sizeof *net->wide);
    bool ok = net->wide && net->in_attention && net->channels_last && net->values && net->tensors && net->weights &&
              net->entries_end && net->layers && net->layer_ends && net->busy;
    uint32_t *last = ok ? tv_graph_last_uses(net->graph, false) : NULL;
    for (uint32_t v = 0; last && v < net->graph->values.count; v++)
        net->values[v].last_use = last[v];
    free(last);
    return last ? TV_OK : tv_fail_memory(net->sink);
}

static tv_status check(const cmdq_network *net)
{
    for (size_t i = 0; i < net->graph->nodes.count; i++) {
        const tv_graph_node *n = &net->graph->nodes.data[i];
        const char *lacks = cmdq_net_lacks(net, n);
        if (lacks)
            return tv_backend_reject_with(
                net->graph, n, "cmdq", lacks,
                "a network is one queue, without work of the host; another machine may have it", net->sink);
    }
    return TV_OK;
}

/* ---- The queue ---- */

static void free_storage(cmdq_network *net, uint32_t value)
{
    cmdq_net_value *storage = cmdq_net_storage(net, value);
    if (storage->last_use > net->node)
        return;
    for (uint32_t i = 0; i < storage->segment_count; i++)
        cmdq_net_release(net, storage->segments[i].where);
    storage->segment_count = 0;
}

/* Frees the values that the current node is the last to read; an attention also reads those of the nodes before it. */
static void free_ended(cmdq_network *net)
{
    const tv_graph_node *n = tv_graph_node_at(net->graph, net->node);
    free_storage(net, n->output);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        if (n->inputs[k] != TV_NO_VALUE)
            free_storage(net, n->inputs[k]);
    for (uint32_t v = 0; v < net->graph->values.count && n->op == TV_OP_MATMUL; v++)
        free_storage(net, v);
}

/* Entries are labelled with the name of their node. */
static void set_label(cmdq_network *net, const tv_graph_node *n)
{
    snprintf(net->l.block_name, sizeof net->l.block_name, "n%" PRIu32, cmdq_lower_node_index(&net->l, n));
}

static bool can_evict(const cmdq_network *net, uint32_t value)
{
    return value != TV_NO_VALUE && !net->values[value].is_view &&
           tv_graph_value_at(net->graph, value)->source != TV_VALUE_CONSTANT;
}

/* Emits a node. Where its slots find no space, its inputs go to DRAM, one after the other, and then its output.
 * Products with constants do that themselves. */
static void emit_with_room(cmdq_network *net, const tv_graph_node *n)
{
    bool keep_values = net->keep_values, makes_room = n->op == TV_OP_CONV || n->op == TV_OP_LINEAR;
    cmdq_net_emit_node(net, n);
    for (unsigned k = 0; k <= TV_GRAPH_INPUTS_MAX && net->status == TV_ERR_INPUT && !makes_room; k++) {
        bool last = k == TV_GRAPH_INPUTS_MAX;
        if (net->layers[net->node].tiles || (!last && !can_evict(net, n->inputs[k])))
            continue;
        net->status = TV_OK;
        cmdq_net_drop_output(net, n->output);
        if (!last)
            cmdq_net_evict(net, n->inputs[k]);
        net->keep_values = keep_values || last; /* nothing becomes resident */
        cmdq_net_emit_node(net, n);
    }
    net->keep_values = keep_values;
}

static void emit_nodes(cmdq_network *net)
{
    uint32_t count = (uint32_t)net->graph->nodes.count;
    for (uint32_t i = 0; i < count && net->status == TV_OK; i++) {
        const tv_graph_node *n = tv_graph_node_at(net->graph, i);
        net->node = i;
        net->layers[i] = (tv_layer){.node = i, .wide = net->wide[i]};
        set_label(net, n);
        if (!net->in_attention[i])
            emit_with_room(net, n);
        else
            cmdq_net_explain_with(net, net->in_attention[i] - 1);
        free_ended(net);
        if (net->status == TV_OK)
            cmdq_net_load_ahead(net, i + 1, 0);
        net->entries_end[i] = tv_queue_builder_count(net->l.builder);
    }
}

static tv_status print_metadata(const cmdq_network *net, tv_buf *out)
{
    const char *separator = "";
    tv_buf_str(out, "{\"version\": \"1.3\", \"graph_name\": \"network\", \"outputs\": [");
    for (size_t i = 0; i < net->graph->outputs.count; i++) {
        uint32_t value = net->graph->outputs.data[i].value;
        const cmdq_net_value *v = cmdq_net_storage(net, value);
        tv_buf_printf(out,
                      "%s{\"name\": \"output%zu\", \"dram_addr\": %" PRIu64 ", \"num_elements\": %" PRIu64
                      ", \"qbits\": %u}",
                      separator, i, v->dram, v->elements, v->qbits);
        separator = ", ";
    }
    tv_buf_str(out, "]}");
    return out->failed ? tv_fail_memory(net->sink) : TV_OK;
}

static tv_status report_size(const cmdq_network *net)
{
    if (net->status != TV_ERR_INPUT)
        return net->status == TV_ERR_MEMORY ? tv_fail_memory(net->sink) : net->status;
    char name[TV_VALUE_NAME_MAX];
    tv_graph_value_name(net->graph, tv_graph_node_at(net->graph, net->node)->output, name);
    return tv_fail(net->sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "make spm.bank_bytes larger with -D",
                   "the tiles of %s do not fit SPM banks of %" PRIu64 " bytes", name, net->l.bank_bytes);
}

/* Forgets an earlier plan. */
static void reset_plan(cmdq_network *net)
{
    cmdq_lower_plan_fini(&net->plan);
    tv_program_free(net->program);
    net->program = NULL;
    net->live.count = net->ahead.count = 0;
    net->status = TV_OK;
    for (uint32_t v = 0; v < net->graph->values.count; v++) {
        tv_value_source source = tv_graph_value_at(net->graph, v)->source;
        net->values[v].segment_count = 0;
        net->values[v].chunks.count = 0;
        if (source != TV_VALUE_CONSTANT)
            net->values[v].in_dram = source == TV_VALUE_INPUT;
    }
    for (size_t i = 0; i < net->graph->nodes.count; i++)
        if (cmdq_net_is_host_gather(net, &net->graph->nodes.data[i]))
            net->values[net->graph->nodes.data[i].output].in_dram = true;
    cmdq_lower_begin_queue(&net->l);
}

static tv_status build_queue(cmdq_network *net, tv_sv metadata)
{
    reset_plan(net);
    tv_queue_builder_free(net->l.builder);
    net->l.builder = NULL;
    if (!cmdq_lower_order_begin(&net->l.order, net->engines[0], net->engines[1], net->engines[2]))
        return TV_ERR_MEMORY;
    TV_TRY(tv_queue_builder_new("network.json", metadata, NULL, net->sink, &net->l.builder));
    emit_nodes(net);
    if (net->status != TV_OK)
        return net->status; /* report_size does it */
    tv_queue_builder_opcode(net->l.builder, CMDQ_END);
    tv_queue_builder_end_entry(net->l.builder, NULL, NULL, 0);
    tv_queue_builder *builder = net->l.builder;
    net->l.builder = NULL;
    tv_status status = tv_queue_builder_finish(builder, &net->program);
    return net->l.deps.failed || net->plan.buffers.failed ? TV_ERR_MEMORY : status;
}

/* ---- The search ---- */

/* Cycles of the queue of the current plan on a machine that has no data. */
static tv_status time_queue(const cmdq_network *net, const tv_config *config, uint64_t *cycles)
{
    tv_machine *machine = NULL;
    tv_stats stats = {.size = sizeof stats};
    tv_status status = tv_machine_new(config, TV_MODE_TIMING, net->sink, &machine);
    if (status == TV_OK)
        status = tv_machine_load(machine, net->program, net->sink);
    if (status == TV_OK)
        status = tv_backend_run(machine, NULL, net->sink);
    if (status == TV_OK)
        status = tv_machine_stats(machine, &stats);
    tv_machine_free(machine);
    *cycles = stats.cycles;
    return status;
}

#define ALL (UINT64_MAX / 2) /* as many bytes as there are */

/* Builds the queue of each option and keeps the fastest one; of equal ones the first. */
static tv_status search_plan(cmdq_network *net, const tv_network_options *options, tv_sv metadata)
{
    static const cmdq_net_options candidates[] = {
        {65536, ALL, 524288, 65536},     {32768, ALL, 393216, 131072}, {131072, 262144, 0, 131072},
        {98304, 262144, 0, 65536},       {131072, 786432, 0, 32768},   {98304, 524288, 0, 32768},
        {98304, 262144, 0, 196608},      {65536, ALL, 524288, 196608}, {65536, 524288, 0, 32768},
        {32768, ALL, 0, 65536},          {262144, ALL, 0, 65536},      {131072, ALL, 262144, 65536},
        {262144, 262144, 262144, 32768},
    };
    uint64_t best = UINT64_MAX, worst = 0;
    size_t chosen = 0;
    for (size_t i = 0; i < TV_COUNTOF(candidates); i++) {
        uint64_t cycles;
        net->options = candidates[i];
        tv_progress_report(&options->progress, "planning", i, TV_COUNTOF(candidates));
        tv_status status = build_queue(net, metadata);
        if (status == TV_OK)
            status = time_queue(net, options->config, &cycles);
        if (status != TV_OK && status != TV_ERR_INPUT)
            return status == TV_ERR_MEMORY ? tv_fail_memory(net->sink) : status;
        worst = status == TV_OK ? tv_max_u64(worst, cycles) : worst;
        if (status == TV_OK && cycles < best) {
            best = cycles;
            chosen = i;
        }
    }
    net->options = candidates[chosen];
    if (options->explain)
        TV_TRY(cmdq_net_keep_texts(net));
    tv_status status = build_queue(net, metadata);
    cmdq_net_explain_search(net, TV_COUNTOF(candidates), best, worst);
    if (status == TV_ERR_MEMORY)
        return tv_fail_memory(net->sink);
    return status == TV_OK ? TV_OK : report_size(net);
}

static tv_status make_program(cmdq_network *net, const tv_network_options *options, const tv_diag_sink *sink)
{
    tv_buf metadata = {0};
    tv_status status = print_metadata(net, &metadata);
    tv_sv text = {(const char *)metadata.data, metadata.len};
    if (status == TV_OK)
        status = search_plan(net, options, text);
    if (status == TV_OK && options->emit)
        status = cmdq_net_save(net, options, text, sink);
    tv_buf_fini(&metadata);
    return status;
}

static tv_status create(const tv_graph *graph, const tv_network_options *options, const tv_diag_sink *sink,
                        void **state)
{
    cmdq_network *net = calloc(1, sizeof *net);
    if (!net)
        return tv_fail_memory(sink);
    net->graph = net->l.graph = graph;
    net->l.plan = &net->plan;
    net->l.te = (unsigned)tv_backend_parameter(options->config, "npu.te");
    net->l.ve = (unsigned)tv_backend_parameter(options->config, "npu.ve");
    net->engines[0] = net->l.te;
    net->engines[1] = net->l.ve;
    net->engines[2] = (unsigned)tv_backend_parameter(options->config, "dma.count");
    net->l.bank_bytes = tv_backend_parameter(options->config, "spm.bank_bytes");
    net->l.context = (uint32_t)tv_backend_parameter(options->config, "spm.banks");
    net->sink = sink;
    net->timing = options->mode == TV_MODE_TIMING;
    net->keep_values = options->keep_values;
    net->ranges = options->ranges;
    net->dram_end = 64; /* address 0: none */
    tv_status status = allocate(net);
    if (status == TV_OK)
        status = cmdq_net_choose_formats(net, options);
    if (status == TV_OK)
        cmdq_net_find_attention(net);
    if (status == TV_OK)
        status = cmdq_net_measure_needs(net);
    net->weights_begin = net->dram_end;
    if (status == TV_OK)
        status = check(net);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &net->l.machine);
    if (status == TV_OK)
        tv_machine_set_threads(net->l.machine, options->threads);
    if (status == TV_OK)
        status = cmdq_net_upload(net, options);
    if (status == TV_OK && options->emit)
        status = cmdq_net_write_tables(net);
    if (status == TV_OK)
        status = make_program(net, options, sink);
    if (status != TV_OK) {
        destroy(net);
        return status;
    }
    *state = net;
    return TV_OK;
}

/* ---- Tensors ---- */

static tv_dtype dtype_of(const cmdq_net_value *v) { return v->qbits == 32 ? TV_F32 : v->qbits == 16 ? TV_F16 : TV_S8; }

static tv_status write_input(const cmdq_network *net, uint32_t value, const tv_tensor *t, const tv_diag_sink *sink)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    size_t bytes = (size_t)(v->elements * v->qbits / 8);
    uint8_t *data = calloc(bytes + 1, 1);
    if (!data)
        return tv_fail_memory(sink);
    for (uint64_t i = 0; i < v->elements; i++)
        cmdq_net_store_element(v, data, cmdq_net_storage_index(net, value, i), tv_tensor_real(t, i));
    tv_status status = tv_machine_write(net->l.machine, "dram", v->dram, data, bytes, sink);
    free(data);
    return status;
}

/* Writes the rows of a table that an input selects. */
static tv_status write_gathered(const cmdq_network *net, const tv_graph_node *n, const tv_tensor *const *inputs,
                                const tv_diag_sink *sink)
{
    const tv_graph *g = net->graph;
    const tv_tensor *operands[TV_GRAPH_INPUTS_MAX] = {tv_graph_value_at(g, n->inputs[0])->tensor};
    for (size_t i = 0; i < g->inputs.count; i++)
        if (g->inputs.data[i] == n->inputs[1])
            operands[1] = inputs[i];
    tv_tensor type = tv_graph_tensor_of(g, n->output), rows;
    TV_TRY(tv_tensor_init(&rows, type.element, type.rank, type.dims, sink));
    tv_status status = tv_node_compute(g, n, operands, &rows, sink);
    if (status == TV_OK)
        status = write_input(net, n->output, &rows, sink);
    tv_tensor_fini(&rows);
    return status;
}

static tv_status read_value(const cmdq_network *net, uint32_t value, const tv_diag_sink *sink)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    tv_tensor type = tv_graph_tensor_of(net->graph, value), *t = &net->tensors[value];
    size_t bytes = (size_t)(v->elements * v->qbits / 8);
    tv_tensor_fini(t);
    uint8_t *data = malloc(bytes + 1);
    tv_status status = data ? tv_tensor_init(t, type.element, type.rank, type.dims, sink) : tv_fail_memory(sink);
    if (status == TV_OK)
        status = tv_machine_read(net->l.machine, "dram", v->dram, data, bytes, sink);
    for (uint64_t i = 0; status == TV_OK && i < tv_tensor_count(t); i++)
        tv_tensor_set_real(t, i,
                           tv_dtype_value(dtype_of(v), data, cmdq_net_storage_index(net, value, i)) * (double)v->scale);
    free(data);
    return status;
}

/* ---- Running ---- */

typedef struct recorder {
    cmdq_network *net;
    uint64_t first;         /* number of the first entry */
    tv_trace_sink previous; /* of the caller, which receives all events */
} recorder;

static uint32_t node_of(const cmdq_network *net, uint64_t entry)
{
    uint32_t low = 0, high = (uint32_t)net->graph->nodes.count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (net->entries_end[middle] > entry)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static const char *const engine_names[CMDQ_NET_ENGINES] = {"TE", "VE", "DMA"};

static void count_busy(cmdq_network *net, uint32_t node, const tv_event *event)
{
    for (unsigned e = 0; e < CMDQ_NET_ENGINES; e++)
        if (strncmp(event->engine, engine_names[e], strlen(engine_names[e])) == 0)
            net->busy[node][e] += event->end - event->start;
}

/* The engines that are busy for the largest share of the time of a node; NULL: it has no entries. */
static const char *find_bound(const cmdq_network *net, uint32_t node)
{
    unsigned best = 0;
    for (unsigned e = 1; e < CMDQ_NET_ENGINES; e++)
        if (net->busy[node][e] * net->engines[best] > net->busy[node][best] * net->engines[e])
            best = e;
    return net->busy[node][best] ? engine_names[best] : NULL;
}

static void record_event(void *user, const tv_event *event)
{
    recorder *r = user;
    cmdq_network *net = r->net;
    if (r->previous.event)
        r->previous.event(r->previous.user, event);
    if (event->kind != TV_EVENT_ENGINE || event->index < (int64_t)r->first)
        return;
    uint32_t node = node_of(net, (uint64_t)event->index - r->first);
    if (node >= net->graph->nodes.count)
        return;
    net->layer_ends[node] = tv_max_u64(net->layer_ends[node], event->end);
    count_busy(net, node, event);
    net->layers[node].macs += event->macs;
    net->layers[node].bytes += event->bytes;
    net->layers[node].energy = tv_energy_add(net->layers[node].energy, event->energy);
}

static void finish_layers(cmdq_network *net, uint64_t start)
{
    uint64_t end = start;
    net->layer_count = net->graph->nodes.count;
    for (size_t i = 0; i < net->layer_count; i++) {
        uint64_t own = tv_max_u64(net->layer_ends[i], end);
        net->layers[i].cycles = own - end;
        net->layers[i].bound = find_bound(net, (uint32_t)i);
        cmdq_net_explain_run(net, (uint32_t)i);
        end = own;
    }
}

static tv_status run(void *state, const tv_tensor *const *inputs, const tv_diag_sink *sink)
{
    cmdq_network *net = state;
    tv_stats stats = {.size = sizeof stats};
    recorder r = {.net = net, .previous = tv_machine_trace_sink(net->l.machine)};
    for (size_t i = 0; inputs && i < net->graph->inputs.count; i++)
        if (tv_is_real_element(inputs[i]->element))
            TV_TRY(write_input(net, net->graph->inputs.data[i], inputs[i], sink));
    for (size_t i = 0; inputs && i < net->graph->nodes.count; i++)
        if (cmdq_net_is_host_gather(net, &net->graph->nodes.data[i]))
            TV_TRY(write_gathered(net, &net->graph->nodes.data[i], inputs, sink));
    for (size_t i = 0; i < net->graph->nodes.count; i++) {
        net->layer_ends[i] = net->layers[i].macs = net->layers[i].bytes = 0;
        net->layers[i].energy = (tv_energy){0};
        memset(net->busy[i], 0, sizeof net->busy[i]);
    }
    TV_TRY(tv_machine_load(net->l.machine, net->program, sink));
    TV_TRY(tv_machine_stats(net->l.machine, &stats));
    r.first = stats.instructions;
    tv_machine_trace(net->l.machine, &(tv_trace_sink){.event = record_event, .user = &r});
    tv_status status = tv_backend_run(net->l.machine, NULL, sink);
    tv_machine_trace(net->l.machine, r.previous.event ? &r.previous : NULL);
    finish_layers(net, stats.cycles);
    for (size_t i = 0; i < net->graph->outputs.count && status == TV_OK && !net->timing; i++)
        status = read_value(net, net->graph->outputs.data[i].value, sink);
    for (size_t i = 0; i < net->graph->nodes.count && status == TV_OK && !net->timing && net->keep_values; i++)
        status = read_value(net, net->graph->nodes.data[i].output, sink);
    return status;
}

static const tv_tensor *tensor(void *state, uint32_t value)
{
    const cmdq_network *net = state;
    return net->tensors[value].data ? &net->tensors[value] : NULL;
}

static size_t layers(const void *state, const tv_layer **list)
{
    const cmdq_network *net = state;
    *list = net->layers;
    return net->layer_count;
}

static tv_machine *machine(void *state) { return ((cmdq_network *)state)->l.machine; }

const tv_network_backend tv_network_cmdq = {.name = "cmdq",
                                            .wide_values = true,
                                            .round_weights = cmdq_net_round_weights,
                                            .legalize = cmdq_net_legalize,
                                            .create = create,
                                            .destroy = destroy,
                                            .run = run,
                                            .tensor = tensor,
                                            .layers = layers,
                                            .machine = machine,
                                            .programs = cmdq_net_programs,
                                            .port = cmdq_net_port,
                                            .steps = cmdq_net_steps,
                                            .run_step = cmdq_net_run_step};
