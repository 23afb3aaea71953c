/* SPDX-License-Identifier: Apache-2.0 */
/* Writes manifests (docs/json.md). */
#include <stdio.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "infer/state.h"
#include "trivet/file.h"

static void write_shape(tv_json_writer *w, tv_element element, uint32_t rank, const int64_t *dims)
{
    tv_json_string_member(w, "type", tv_element_infos[element].name);
    tv_json_key(w, "shape");
    tv_json_begin_array(w);
    for (uint32_t d = 0; d < rank; d++)
        tv_json_write_integer(w, dims[d]);
    tv_json_end_array(w);
}

static void write_storage(tv_json_writer *w, const tv_network_port *port)
{
    tv_json_string_member(w, "space", port->space);
    tv_json_unsigned_member(w, "address", port->address);
    tv_json_string_member(w, "storage", tv_dtype_name(port->type));
    tv_json_real_member(w, "scale", port->scale, 0);
    tv_json_key(w, "terms");
    tv_json_begin_array(w);
    for (uint32_t k = 0; k < port->term_count; k++) {
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "axis", port->terms[k].axis);
        tv_json_unsigned_member(w, "divisor", port->terms[k].divisor);
        tv_json_unsigned_member(w, "extent", port->terms[k].extent);
        tv_json_unsigned_member(w, "stride", port->terms[k].stride);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_port(tv_json_writer *w, const tv_graph *g, const char *name, uint32_t value,
                       const tv_network_port *port)
{
    tv_tensor t = tv_graph_tensor_of(g, value);
    tv_json_begin_object(w);
    tv_json_string_member(w, "name", name);
    write_shape(w, t.element, t.rank, t.dims);
    write_storage(w, port);
    tv_json_end_object(w);
}

static void write_steps(const tv_network_session *s, tv_json_writer *w)
{
    const tv_network_step *list;
    unsigned count = s->backend->steps ? s->backend->steps(s->state, &list) : 0;
    if (!count)
        return;
    tv_json_key(w, "steps");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < count; i++) {
        const tv_network_step *step = &list[i];
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "program", step->program);
        tv_json_string_member(w, "kind", step->kind);
        write_shape(w, TV_ELEMENT_F32, step->rank, step->dims);
        write_storage(w, &step->source);
        tv_json_unsigned_member(w, "result", step->address);
        tv_json_key(w, "numbers");
        tv_json_begin_array(w);
        for (unsigned k = 0; k < TV_NETWORK_STEP_NUMBERS; k++)
            tv_json_write_unsigned(w, step->numbers[k]);
        tv_json_end_array(w);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

/* Finds where the machine has a value. */
static tv_status find_port(const tv_network_session *s, const char *name, uint32_t value, const tv_diag_sink *sink,
                           tv_network_port *out)
{
    if (s->backend->port && s->backend->port(s->state, value, out))
        return TV_OK;
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "run the model with `trivet infer` instead",
                   "the programs do not run without the host: '%.80s' is not in the machine's memory", name);
}

static tv_status write_ports(const tv_network_session *s, tv_json_writer *w, const tv_diag_sink *sink)
{
    const tv_graph *g = s->network->graph;
    tv_network_port port;
    tv_status status = TV_OK;
    tv_json_key(w, "inputs");
    tv_json_begin_array(w);
    for (size_t i = 0; i < g->inputs.count && status == TV_OK; i++) {
        const char *name = tv_graph_value_at(g, g->inputs.data[i])->name;
        status = find_port(s, name, g->inputs.data[i], sink, &port);
        if (status == TV_OK)
            write_port(w, g, name, g->inputs.data[i], &port);
    }
    tv_json_end_array(w);
    tv_json_key(w, "outputs");
    tv_json_begin_array(w);
    for (size_t i = 0; i < g->outputs.count && status == TV_OK; i++) {
        status = find_port(s, g->outputs.data[i].name, g->outputs.data[i].value, sink, &port);
        if (status == TV_OK)
            write_port(w, g, g->outputs.data[i].name, g->outputs.data[i].value, &port);
    }
    tv_json_end_array(w);
    return status;
}

static void write_programs(const tv_network_session *s, tv_json_writer *w)
{
    const tv_network_program *list;
    unsigned count = s->backend->programs(s->state, &list);
    tv_json_key(w, "programs");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < count; i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "file", list[i].file);
        tv_json_unsigned_member(w, "first_layer", list[i].first);
        tv_json_unsigned_member(w, "layer_count", list[i].count);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_layers(const tv_network_session *s, tv_json_writer *w)
{
    tv_network_layer layer;
    tv_json_key(w, "layers");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_network_session_layer_at(s, i, &layer); i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", layer.name);
        tv_json_string_member(w, "operator", layer.op);
        tv_json_string_member(w, "activation", layer.activation);
        tv_json_boolean_member(w, "residual", layer.residual != 0);
        tv_json_unsigned_member(w, "tiles", layer.tiles);
        tv_json_unsigned_member(w, "cycles", layer.cycles);
        tv_json_unsigned_member(w, "macs", layer.macs);
        tv_json_unsigned_member(w, "bytes", layer.bytes);
        tv_json_string_member(w, "bound", layer.bound);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_configuration(const tv_config *config, tv_json_writer *w)
{
    char hash[TV_CONFIG_HASH];
    tv_config_entry e;
    tv_json_string_member(w, "target", tv_config_target(config));
    tv_config_hash(config, hash);
    tv_json_string_member(w, "configuration_hash", hash);
    tv_json_key(w, "configuration");
    tv_json_begin_object(w);
    for (unsigned i = 0; tv_config_at(config, i, &e); i++)
        tv_json_string_member(w, e.key, e.value);
    tv_json_end_object(w);
}

static tv_status write_manifest(tv_network_session *s, FILE *out, const tv_diag_sink *sink)
{
    tv_json_writer w;
    tv_json_writer_init_file(&w, out, TV_JSON_INDENTED);
    tv_json_begin_object(&w);
    tv_json_unsigned_member(&w, "manifest_version", TV_MANIFEST_VERSION);
    tv_json_string_member(&w, "trivet_version", tv_version());
    write_configuration(tv_machine_config(tv_network_session_machine(s)), &w);
    tv_status status = write_ports(s, &w, sink);
    write_programs(s, &w);
    write_steps(s, &w);
    write_layers(s, &w);
    tv_json_end_object(&w);
    tv_json_newline(&w);
    tv_json_writer_finish(&w); /* tv_output_commit_to reports write errors */
    return status;
}

tv_status tv_network_session_save_manifest(tv_network_session *s, const tv_diag_sink *sink)
{
    const tv_host_op *ops;
    unsigned op_count = s->backend->host_ops ? s->backend->host_ops(s->state, &ops) : 0;
    tv_output *output;
    if (!s->emit)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "give a folder",
                       "the session writes no programs that a manifest could name");
    for (unsigned i = 0; i < op_count; i++)
        if (ops[i].count && !ops[i].written)
            return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "run the model with `trivet infer` instead",
                           "the programs do not run without the host, which computes '%.80s'", ops[i].name);
    size_t length = strlen(s->emit) + sizeof "/" TV_MANIFEST_FILE;
    char *path = malloc(length);
    if (!path)
        return tv_fail_memory(sink);
    snprintf(path, length, "%s/%s", s->emit, TV_MANIFEST_FILE);
    tv_status status = tv_output_open(path, sink, &output);
    free(path);
    if (status != TV_OK)
        return status;
    status = write_manifest(s, tv_output_stream(output), sink);
    if (status == TV_OK)
        return tv_output_commit_to(output, s->outputs, sink);
    tv_output_abandon(output);
    return status;
}
