/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers networks that are no language models to OpenNPU: a program for each node, which runs in segments. */
#include <inttypes.h>
#include <stdlib.h>

#include "lower/opennpu/network_state.h"
#include "lower/opennpu/nodes.h"
#include "program/program.h"
#include "trivet/energy.h"
#include "trivet/file.h"

/* ---- Creating ---- */

static void destroy(void *state)
{
    opennpu_network *net = state;
    if (!net)
        return;
    opennpu_lower_emitter_fini(&net->m.e);
    tv_machine_free(net->m.machine);
    tv_program_free(net->program);
    for (size_t i = 0; net->values && i < net->graph->values.count; i++)
        if (net->values[i].owned)
            tv_tensor_fini(&net->values[i].tensor);
    free(net->values);
    free(net->nodes);
    free(net->units);
    free(net->layers);
    free(net->xs);
    free(net->tok.list);
    free(net->m.values);
    free(net->m.nodes);
    TV_VEC_FINI(&net->files);
    TV_VEC_FINI(&net->written);
    free(net);
}

static tv_status allocate(opennpu_network *net)
{
    size_t values = net->graph->values.count + 1, nodes = net->graph->nodes.count + 1;
    net->values = calloc(values, sizeof *net->values);
    net->units = calloc(values, sizeof *net->units);
    net->m.values = calloc(values, sizeof *net->m.values);
    net->nodes = calloc(nodes, sizeof *net->nodes);
    net->m.nodes = calloc(nodes, sizeof *net->m.nodes);
    net->layers = calloc(nodes, sizeof *net->layers);
    return net->values && net->units && net->m.values && net->nodes && net->m.nodes && net->layers
               ? TV_OK
               : tv_fail_memory(net->sink);
}

static tv_status read_config(opennpu_network *net, const tv_config *config)
{
    net->m.k = (uint32_t)tv_backend_parameter(config, "vector.k");
    net->m.limit = tv_backend_parameter(config, "mem.bytes");
    if (tv_backend_parameter(config, "vector.l") != 32)
        return tv_fail(net->sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), NULL,
                       "the lowering requires vector.l = 32, which is eight VR registers");
    return opennpu_lower_emitter_init(&net->m.e, net->m.k, net->sink);
}

static tv_status create(const tv_graph *graph, const tv_network_options *options, const tv_diag_sink *sink,
                        void **state)
{
    opennpu_network *net = calloc(1, sizeof *net);
    if (!net)
        return tv_fail_memory(sink);
    net->graph = net->m.graph = graph;
    net->tok = (opennpu_lower_token){.m = &net->m, .e = &net->m.e};
    net->sink = net->m.sink = sink;
    net->keep_values = options->keep_values;
    net->explain = options->explain;
    net->emit = options->emit;
    net->outputs = options->outputs;
    net->ranges = options->ranges;
    net->progress = options->progress;
    net->m.timing = options->mode == TV_MODE_TIMING;
    net->m.allow_host_ops = options->allow_host_ops;
    tv_status status = read_config(net, options->config);
    if (status == TV_OK)
        status = allocate(net);
    if (status == TV_OK)
        status = opennpu_net_plan(net);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &net->m.machine);
    if (status == TV_OK)
        status = opennpu_net_upload(net, &options->progress);
    if (status != TV_OK) {
        destroy(net);
        return status;
    }
    tv_machine_set_threads(net->m.machine, options->threads);
    net->ranges = NULL;
    *state = net;
    return TV_OK;
}

/* ---- Programs ---- */

static tv_status save_program(opennpu_network *net, tv_program *program)
{
    char path[4096];
    opennpu_net_file file = {.layer = (uint32_t)net->layer_count};
    if (net->programs == 0) /* the first program contains what programs only read */
        TV_TRY(tv_backend_bring_space(net->m.machine, "mem", net->m.constants_end, program, net->sink));
    snprintf(file.name, sizeof file.name, "layer_%06" PRIu32 ".elf", net->programs);
    snprintf(path, sizeof path, "%s/%s", net->emit, file.name);
    if (!TV_VEC_PUSH(&net->files, file) || !TV_VEC_PUSH(&net->written, (tv_network_program){0}))
        return tv_fail_memory(net->sink);
    return tv_program_save_to(program, path, TV_FORMAT_ELF, net->outputs, net->sink);
}

static tv_status run_segment(void *user)
{
    opennpu_network *net = user;
    tv_program *program;
    TV_TRY(tv_builder_finish(&net->m.e.program, net->sink, &program));
    program->continues = net->continues;
    tv_status status = net->emit ? save_program(net, program) : TV_OK;
    if (status == TV_OK)
        status = tv_machine_load(net->m.machine, program, net->sink);
    if (status != TV_OK) {
        tv_program_free(program);
        return status;
    }
    status = tv_backend_run(net->m.machine, NULL, net->sink);
    tv_builder_reuse(&net->m.e.program, net->program); /* the machine uses the loaded program until the next load */
    net->program = program;
    net->continues = true;
    net->programs++;
    return status;
}

/* A program that is written to a file has one segment. */
static void begin_program(opennpu_network *net, uint32_t node)
{
    net->continues = false;
    opennpu_lower_begin_program(&net->m.e, net->emit ? NULL : run_segment, net);
    opennpu_lower_label(&net->m.e, tv_graph_value_at(net->graph, opennpu_net_node_at(net, node)->output)->name);
}

static tv_status end_program(opennpu_network *net)
{
    TV_TRY(net->m.e.status);
    return tv_builder_is_empty(&net->m.e.program) ? TV_OK : run_segment(net);
}

/* ---- Tensors ---- */

static tv_status write_value(const opennpu_network *net, uint32_t value, const tv_tensor *t)
{
    uint64_t count = tv_tensor_count(t);
    bool is_real = opennpu_net_is_real(net, value);
    uint8_t *bytes = calloc(count + 1, 4);
    if (!bytes)
        return tv_fail_memory(net->sink);
    for (uint64_t i = 0; i < count; i++)
        tv_store_le(bytes + 4 * i,
                    is_real ? opennpu_net_word_of(tv_tensor_real(t, i)) : (uint64_t)tv_tensor_integer(t, i), 4);
    tv_status status = opennpu_net_write_bytes(net, opennpu_net_at(net, value), bytes, count * 4);
    free(bytes);
    return status;
}

static tv_status renew_tensor(opennpu_network *net, uint32_t value)
{
    tv_tensor type = tv_graph_tensor_of(net->graph, value);
    opennpu_net_value *v = &net->values[value];
    if (v->owned)
        tv_tensor_fini(&v->tensor);
    v->owned = false;
    TV_TRY(tv_tensor_init(&v->tensor, type.element, type.rank, type.dims, net->sink));
    v->owned = true;
    return TV_OK;
}

/* Makes a value of this run readable as a tensor of the host. */
static tv_status read_value(opennpu_network *net, uint32_t value)
{
    opennpu_net_value *v = &net->values[value];
    if (v->read || net->m.timing || opennpu_net_is_constant(net, value))
        return TV_OK;
    TV_TRY(renew_tensor(net, value));
    uint64_t count = tv_tensor_count(&v->tensor);
    bool is_real = opennpu_net_is_real(net, value);
    uint8_t *bytes = calloc(count + 1, 4);
    tv_status status =
        bytes ? tv_machine_read(net->m.machine, "mem", opennpu_net_at(net, value), bytes, count * 4, net->sink)
              : tv_fail_memory(net->sink);
    for (uint64_t i = 0; i < count && status == TV_OK; i++) {
        uint32_t word = tv_load_le32(bytes + 4 * i);
        if (is_real)
            tv_tensor_set_real(&v->tensor, i, (double)tv_f32_of_bits(word));
        else
            tv_tensor_set_integer(&v->tensor, i, (int32_t)word);
    }
    free(bytes);
    v->read = status == TV_OK;
    return status;
}

static const tv_tensor *tensor_of(const opennpu_network *net, uint32_t value)
{
    const opennpu_net_value *v = &net->values[value];
    return opennpu_net_is_constant(net, value) ? tv_graph_value_at(net->graph, value)->tensor
                                               : (v->read ? &v->tensor : NULL);
}

/* The host computes a node from tensors, and stores the output in data memory. */
static tv_status compute_on_host(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    const tv_tensor *inputs[TV_GRAPH_INPUTS_MAX] = {NULL};
    opennpu_lower_count_host_op(&net->m, tv_graph_op_infos[n->op].name, tv_graph_elements(net->graph, n->output));
    if (net->m.timing)
        return TV_OK;
    for (unsigned k = 0; k < tv_graph_input_count(n); k++)
        if (n->inputs[k] != TV_NO_VALUE) {
            TV_TRY(read_value(net, n->inputs[k]));
            inputs[k] = tensor_of(net, n->inputs[k]);
        }
    TV_TRY(renew_tensor(net, n->output));
    TV_TRY(tv_node_compute(net->graph, n, inputs, &net->values[n->output].tensor, net->sink));
    net->values[n->output].read = true;
    return write_value(net, n->output, &net->values[n->output].tensor);
}

/* ---- Running ---- */

static tv_status begin_run(opennpu_network *net, const tv_tensor *const *inputs)
{
    net->layer_count = 0;
    net->programs = 0;
    net->files.count = net->written.count = 0;
    for (uint32_t v = 0; v < net->graph->values.count; v++)
        net->values[v].read = net->values[v].planes_made = false;
    for (size_t i = 0; i < net->graph->inputs.count && inputs; i++) {
        uint32_t v = net->graph->inputs.data[i];
        net->values[v].tensor = *inputs[i];
        net->values[v].read = true;
        TV_TRY(write_value(net, v, inputs[i]));
    }
    return TV_OK;
}

/* The engine that is busy for the largest number of ticks; "issue" when there are more instructions than that. */
static const char *find_bound(const tv_stats *now, const tv_stats *before)
{
    const char *name = "ISSUE";
    uint64_t max = 0, instructions = now->instructions - before->instructions;
    for (unsigned i = 0; i < now->engine_count; i++) {
        uint64_t busy = now->engines[i].busy - before->engines[i].busy;
        if (busy > max) {
            max = busy;
            name = now->engines[i].name;
        }
    }
    return instructions > max ? "ISSUE" : name;
}

static tv_status end_layer(opennpu_network *net, uint32_t node)
{
    tv_stats now = {.size = sizeof now};
    TV_TRY(end_program(net));
    TV_TRY(tv_machine_stats(net->m.machine, &now));
    tv_layer *layer = &net->layers[net->layer_count++];
    const opennpu_net_node *own = &net->nodes[node];
    *layer = (tv_layer){.node = node,
                        .tiles = own->tiles ? own->tiles : 1,
                        .cycles = now.cycles - net->before.cycles,
                        .macs = now.macs - net->before.macs,
                        .bound = now.cycles > net->before.cycles ? find_bound(&now, &net->before) : NULL,
                        .plan = net->explain && own->plan[0] ? own->plan : NULL};
    for (unsigned i = 0; i < now.path_count; i++)
        layer->bytes += now.paths[i].bytes - net->before.paths[i].bytes;
    tv_energy energy = tv_machine_energy_total(net->m.machine);
    layer->energy = tv_energy_since(energy, net->energy_before);
    net->energy_before = energy;
    net->before = now;
    return TV_OK;
}

static tv_status run_node(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    net->nodes[node].tiles = 0;
    begin_program(net, node);
    if (net->nodes[node].problem)
        TV_TRY(compute_on_host(net, node));
    else
        opennpu_net_operators[n->op].emit(net, node);
    TV_TRY(end_layer(net, node));
    if (net->keep_values)
        TV_TRY(read_value(net, n->output));
    for (size_t k = 0; k < net->graph->outputs.count; k++)
        if (net->graph->outputs.data[k].value == n->output)
            TV_TRY(read_value(net, n->output));
    return TV_OK;
}

static tv_status run(void *state, const tv_tensor *const *inputs, const tv_diag_sink *sink)
{
    opennpu_network *net = state;
    uint32_t count = (uint32_t)net->graph->nodes.count;
    net->sink = net->m.sink = sink;
    net->before = (tv_stats){.size = sizeof net->before};
    TV_TRY(tv_machine_stats(net->m.machine, &net->before));
    net->energy_before = tv_machine_energy_total(net->m.machine);
    TV_TRY(begin_run(net, inputs));
    for (uint32_t i = 0; i < count; i++) {
        tv_progress_report(&net->progress, "running", i, count);
        TV_TRY(run_node(net, i));
    }
    if (!net->emit || net->programs > 0 || count == 0)
        return TV_OK;
    begin_program(net, 0); /* a network without work has a program, too */
    opennpu_lower_emit(&net->m.e, OPENNPU_NOP, 0, 0, 0);
    return end_program(net);
}

/* ---- Results ---- */

static const tv_tensor *tensor(void *state, uint32_t value)
{
    const tv_tensor *t = tensor_of(state, value);
    return t && t->data ? t : NULL;
}

static size_t layers(const void *state, const tv_layer **list)
{
    const opennpu_network *net = state;
    *list = net->layers;
    return net->layer_count;
}

static tv_machine *machine(void *state) { return ((opennpu_network *)state)->m.machine; }

static unsigned host_ops(const void *state, const tv_host_op **list)
{
    const opennpu_network *net = state;
    *list = net->m.host_ops;
    return net->m.host_op_count;
}

static unsigned programs(const void *state, const tv_network_program **list)
{
    const opennpu_network *net = state;
    for (size_t i = 0; i < net->files.count; i++)
        net->written.data[i] = (tv_network_program){net->files.data[i].name, net->files.data[i].layer,
                                                    net->files.data[i].layer < net->layer_count};
    *list = net->written.data;
    return (unsigned)net->written.count;
}

/* Words in the order of the graph. */
static bool port(const void *state, uint32_t value, tv_network_port *out)
{
    const opennpu_network *net = state;
    const tv_graph_shape *s = opennpu_net_dims(net, value);
    if (opennpu_net_is_constant(net, value))
        return false;
    *out = (tv_network_port){.space = "mem",
                             .address = opennpu_net_at(net, value),
                             .type = opennpu_net_is_real(net, value) ? TV_F32 : TV_S32,
                             .scale = 1,
                             .term_count = s->rank};
    uint64_t stride = 4;
    for (uint32_t axis = s->rank; axis-- > 0;) {
        uint64_t extent = tv_max_u64(1, (uint64_t)s->dims[axis]);
        out->terms[axis] = (tv_network_term){axis, 1, extent, stride};
        stride *= extent;
    }
    return true;
}

extern const tv_network_backend tv_network_opennpu;
/* Weights have 8 bits. */
static bool round_weights(float *channel, uint64_t taps, uint64_t inputs, unsigned bits)
{
    (void)bits;
    return tv_round_row(channel, taps * inputs, taps * inputs, 8);
}

const tv_network_backend tv_network_opennpu = {.name = "opennpu",
                                               .weight_bits_only = 8,
                                               .round_weights = round_weights,
                                               .create = create,
                                               .destroy = destroy,
                                               .run = run,
                                               .tensor = tensor,
                                               .layers = layers,
                                               .machine = machine,
                                               .host_ops = host_ops,
                                               .programs = programs,
                                               .port = port};
