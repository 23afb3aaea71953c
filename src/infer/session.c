/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a network on a backend: calibration, creation, runs, and what they cost. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "graph/codes.h"
#include "graph/npy.h"
#include "graph/rewrite.h"
#include "infer/state.h"
#include "trivet/energy.h"

enum { EMIT_MAX = 3840 };

void tv_network_session_free(tv_network_session *session)
{
    if (!session)
        return;
    if (session->state)
        session->backend->destroy(session->state);
    if (session->kept)
        session->backend->destroy(session->kept);
    tv_bias_list_fini(&session->biases);
    tv_calibration_fini(&session->calibration);
    free(session->comparisons);
    free(session->inputs);
    free(session->emit);
    tv_graph_free(session->own_graph);
    free(session);
}

/* ---- Options ---- */

/* Files of another network in the same folder would be mixed with this one's. */
static bool has_files(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    bool found = false;
    while (dir && !found && (entry = readdir(dir)))
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (dir)
        closedir(dir);
    return found;
}

static tv_status check_emit(const tv_network_session_options *options, const tv_network_backend *backend,
                            const tv_diag_sink *sink)
{
    const char *folder = options->emit;
    if (!folder)
        return TV_OK;
    if (!backend->programs)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "select another target with -t",
                       "no programs are written for '%s'", backend->name);
    if (strlen(folder) > EMIT_MAX || strpbrk(folder, "\"\\\n\r"))
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_WRITE), "choose a shorter or simpler name",
                       "the name of the output directory is limited to %d bytes, without quotes, backslashes and line "
                       "breaks",
                       EMIT_MAX);
    if (has_files(folder))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "choose another directory, or remove them",
                       "'%.200s' has files", folder);
    return tv_output_group_folder(options->outputs, folder, sink);
}

static tv_status check_options(const tv_network *network, const tv_network_backend *backend,
                               const tv_network_session_options *options, const tv_diag_sink *sink)
{
    if (options->timing_only && !backend->machine)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TARGET_UNKNOWN), "select a machine with -t",
                       "the host has no cycles");
    if (options->binary16 && (network->manifest || !backend->wide_values || options->binary16 > 100))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "omit --binary16, or use -t cmdq",
                       options->binary16 > 100 ? "more than 100 percent of the layers cannot keep binary16"
                                               : "the layers of %s have no 8-bit inputs that could be binary16",
                       network->manifest ? "a compiled network" : backend->name);
    if (options->weight_bits && backend->weight_bits_only && options->weight_bits != backend->weight_bits_only)
        tv_report(sink, TV_WARNING, TV_LLM_CODE(WEIGHT_WIDTH), &TV_NO_SOURCE_LOC, NULL,
                  "%s supports weights of %u bits only; %u is ignored", backend->name, backend->weight_bits_only,
                  options->weight_bits);
    if (options->timing_only && (options->verify || options->emit))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "omit --timing-only",
                       "a timing-only session has no data to %s", options->verify ? "compare" : "write");
    if (network->manifest && strcmp(network->manifest->target, options->target) != 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TARGET_UNKNOWN), "omit -t", "the network is compiled for '%s'",
                       network->manifest->target);
    if (network->manifest && (options->verify || options->emit || options->timing_only))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "give the model instead of the folder",
                       "a compiled network can only be run");
    return check_emit(options, backend, sink);
}

/* ---- Calibration ---- */

/* Ranges that a quantized model states. */
static void use_stated_ranges(const tv_network_session *s)
{
    for (uint32_t v = 0; v < s->network->stated_count; v++)
        if (s->network->stated[v] > 0)
            s->calibration.ranges[v] = s->network->stated[v];
}

static tv_status calibrate(tv_network_session *s, const tv_network_session_options *options, const tv_diag_sink *sink)
{
    tv_infer_samples samples;
    tv_status status = tv_infer_samples_init(&samples, s->network, options->calibrate, sink);
    tv_calibration_options own = {.ranges = options->ranges,
                                  .percentile = 99.99,
                                  .means = options->correct_bias != 0,
                                  .losses = options->binary16 != 0,
                                  .threads = s->threads,
                                  .samples = samples.count,
                                  .load = tv_infer_load_sample,
                                  .user = &samples,
                                  .progress = options->progress};
    if (status == TV_OK)
        status = tv_calibrate(s->graph, &own, sink, &s->calibration);
    tv_infer_samples_fini(&samples);
    if (status == TV_OK)
        use_stated_ranges(s);
    s->summary.calibration_samples = s->calibration.samples;
    if (status == TV_OK && options->correct_bias && s->backend->round_weights)
        status = tv_graph_correct_biases(s->graph, s->calibration.means, s->backend->round_weights,
                                         options->weight_bits, sink, &s->biases);
    return status;
}

/* Ranges of values that were added after the calibration: corrected biases. */
static tv_status extend_ranges(tv_network_session *s, const tv_diag_sink *sink)
{
    size_t count = s->graph->values.count;
    if (!s->biases.changes.count)
        return TV_OK;
    float *more = realloc(s->calibration.ranges, count * sizeof *more);
    if (!more)
        return tv_fail_memory(sink);
    s->calibration.ranges = more;
    double *losses = realloc(s->calibration.losses, count * sizeof *losses);
    if (!losses)
        return tv_fail_memory(sink);
    s->calibration.losses = losses;
    for (size_t i = 0; i < s->biases.changes.count; i++) {
        uint32_t value = s->biases.changes.data[i].after;
        const tv_tensor *t = tv_graph_value_at(s->graph, value)->tensor;
        more[value] = 0;
        losses[value] = 0;
        for (uint64_t k = 0; k < tv_tensor_count(t); k++)
            more[value] = fmaxf(more[value], fabsf(((const float *)t->data)[k]));
    }
    return TV_OK;
}

/* ---- Creation ---- */

/* Gives the session a graph of its own, if the machine rewrites it. */
static tv_status legalize(tv_network_session *s, const tv_diag_sink *sink)
{
    if (!s->backend->legalize || s->network->manifest)
        return TV_OK;
    TV_TRY(tv_graph_copy(s->network->graph, sink, &s->own_graph));
    s->graph = s->own_graph;
    return s->backend->legalize(s->own_graph, sink);
}

static tv_status create_state(tv_network_session *s, const tv_network_session_options *options,
                              const tv_infer_services *services, const tv_diag_sink *sink)
{
    tv_network_options own = {.config = options->config,
                              .threads = s->threads,
                              .mode = options->timing_only ? TV_MODE_TIMING : TV_MODE_FULL,
                              .allow_host_ops = options->allow_host_ops != 0,
                              .explain = options->explain_plan != 0,
                              .emit = s->emit,
                              .outputs = options->outputs,
                              .weight_bits = options->weight_bits,
                              .ranges = s->calibration.ranges,
                              .losses = s->calibration.losses,
                              .wide_percent = options->binary16,
                              .progress = options->progress};
    if (s->network->manifest)
        return tv_compiled_create(s->network->manifest, s->graph, services, &own, sink, &s->state);
    tv_bias_list_apply(&s->biases, s->graph, true);
    tv_status status = s->backend->create(s->graph, &own, sink, &s->state);
    tv_bias_list_apply(&s->biases, s->graph, false);
    return status;
}

tv_status tv_network_session_new_on(tv_network *network, const tv_network_backend *backend,
                                    const tv_network_session_options *options, const tv_infer_services *services,
                                    const tv_diag_sink *sink, tv_network_session **out)
{
    backend = network->manifest ? &tv_network_compiled : backend;
    TV_TRY(check_options(network, backend, options, sink));
    tv_network_session *s = calloc(1, sizeof *s);
    if (!s)
        return tv_fail_memory(sink);
    s->network = network;
    s->graph = network->graph;
    s->backend = backend;
    s->timing = options->timing_only != 0;
    s->verify = options->verify != 0;
    s->allow_host_ops = options->allow_host_ops != 0;
    s->weight_bits = options->weight_bits;
    s->threads = options->threads ? options->threads : 1;
    s->progress = options->progress;
    s->outputs = options->outputs;
    s->emit = options->emit ? strdup(options->emit) : NULL;
    s->inputs = calloc(network->graph->inputs.count + 1, sizeof *s->inputs);
    tv_status status = s->inputs && (s->emit || !options->emit) ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK)
        status = legalize(s, sink);
    if (status == TV_OK && !s->timing)
        status = tv_infer_fill_inputs(network, sink);
    if (status == TV_OK && !s->timing && backend->machine && !network->manifest)
        status = calibrate(s, options, sink);
    if (status == TV_OK)
        status = extend_ranges(s, sink);
    if (status == TV_OK)
        status = create_state(s, options, services, sink);
    if (status != TV_OK) {
        tv_network_session_free(s);
        return status;
    }
    *out = s;
    return TV_OK;
}

tv_machine *tv_network_session_machine(tv_network_session *session)
{
    return session->backend->machine ? session->backend->machine(session->state) : NULL;
}

/* ---- Runs ---- */

static double wall_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sum_layers(tv_network_session *s)
{
    tv_network_layer layer;
    s->summary.macs = s->summary.bytes = 0;
    for (unsigned i = 0; tv_network_session_layer_at(s, i, &layer); i++) {
        s->summary.macs += layer.macs;
        s->summary.bytes += layer.bytes;
    }
}

tv_status tv_network_session_run(tv_network_session *s, const tv_diag_sink *sink)
{
    tv_machine *machine = tv_network_session_machine(s);
    tv_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    tv_energy energy = {0};
    double start = wall_seconds();
    for (size_t i = 0; i < s->graph->inputs.count; i++)
        s->inputs[i] = &s->network->inputs[i];
    if (machine) {
        tv_machine_stats(machine, &before);
        energy = tv_machine_energy_total(machine);
    }
    if (!s->timing)
        TV_TRY(tv_infer_fill_inputs(s->network, sink));
    tv_bias_list_apply(&s->biases, s->graph, true);
    tv_status status = s->backend->run(s->state, s->timing ? NULL : s->inputs, sink);
    tv_bias_list_apply(&s->biases, s->graph, false);
    if (machine) {
        tv_machine_stats(machine, &after);
        s->summary.energy = tv_energy_since(tv_machine_energy_total(machine), energy);
    }
    s->summary.cycles = after.cycles - before.cycles;
    s->summary.clock_hz = after.clock_hz;
    s->summary.host_seconds = wall_seconds() - start;
    sum_layers(s);
    return status;
}

tv_status tv_network_session_summary(const tv_network_session *session, tv_network_summary *out)
{
    bool written = tv_write_sized(out, TV_SIZE_UP_TO(tv_network_summary, calibration_samples), &session->summary,
                                  sizeof session->summary);
    return written ? TV_OK : TV_ERR_INPUT;
}

/* ---- Outputs ---- */

/* The output after a run; NULL: no data. It may be an input or a constant, too. */
static const tv_tensor *output_tensor(const tv_network_session *s, unsigned i)
{
    const tv_graph *g = s->graph;
    uint32_t value = g->outputs.data[i].value;
    if (s->timing)
        return NULL;
    const tv_tensor *t = s->backend->tensor(s->state, value);
    if (!t && tv_graph_value_at(g, value)->source == TV_VALUE_CONSTANT)
        return tv_graph_value_at(g, value)->tensor;
    for (size_t k = 0; !t && k < g->inputs.count; k++)
        if (g->inputs.data[k] == value)
            return &s->network->inputs[k];
    return t;
}

int tv_network_session_output_at(const tv_network_session *session, unsigned i, tv_network_tensor *out)
{
    if (!tv_network_output_at(session->network, i, out))
        return 0;
    const tv_tensor *t = output_tensor(session, i);
    if (t)
        tv_infer_describe(t, session->graph->outputs.data[i].name, out);
    return 1;
}

static tv_status write_raw(const tv_tensor *t, const char *path, tv_element element, struct tv_output_group *group,
                           const tv_diag_sink *sink)
{
    tv_tensor raw;
    TV_TRY(tv_tensor_init(&raw, element, t->rank, t->dims, sink));
    for (uint64_t i = 0, n = tv_tensor_count(t); i < n; i++)
        if (tv_is_real_element(t->element) || tv_is_real_element(element))
            tv_tensor_set_real(&raw, i, tv_tensor_real(t, i));
        else
            tv_tensor_set_integer(&raw, i, tv_tensor_integer(t, i));
    tv_status status = tv_raw_write(&raw, path, group, sink);
    tv_tensor_fini(&raw);
    return status;
}

tv_status tv_network_session_save_output(const tv_network_session *session, const char *name, const char *path,
                                         const char *type, struct tv_output_group *group, const tv_diag_sink *sink)
{
    const tv_graph *g = session->graph;
    tv_element element;
    for (unsigned i = 0; i < g->outputs.count; i++) {
        if (strcmp(g->outputs.data[i].name, name) != 0)
            continue;
        const tv_tensor *t = output_tensor(session, i);
        if (!t)
            return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(NETWORK_INPUT), NULL, "the output '%.80s' has no data",
                           name);
        if (!type)
            return tv_npy_write(t, path, group, sink);
        if (tv_infer_find_element(type, &element))
            return write_raw(t, path, element, group, sink);
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(NETWORK_INPUT), "for example float32, uint8 or int64",
                       "'%.40s' is not an element type", type);
    }
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(NETWORK_INPUT), NULL, "the network has no output '%.100s'", name);
}
