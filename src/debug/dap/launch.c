/* SPDX-License-Identifier: Apache-2.0 */
/* The start and the end of a session: capabilities, and opening what the launch request names. */
#include <stdlib.h>

#include "debug/dap/dap.h"

/* ---- initialize ---- */

void tv_dap_initialize(dap *s, const dap_request *request)
{
    /* Not supportsRestartRequest: without it a client launches again, which reads changed programs. */
    static const char *const capabilities[] = {"supportsConfigurationDoneRequest",
                                               "supportsFunctionBreakpoints",
                                               "supportsConditionalBreakpoints",
                                               "supportsHitConditionalBreakpoints",
                                               "supportsEvaluateForHovers",
                                               "supportsStepBack",
                                               "supportsSetVariable",
                                               "supportsTerminateRequest",
                                               "supportsReadMemoryRequest",
                                               "supportsWriteMemoryRequest",
                                               "supportsDisassembleRequest",
                                               "supportsSteppingGranularity",
                                               "supportsInstructionBreakpoints",
                                               "supportsDataBreakpoints",
                                               "supportsCompletionsRequest",
                                               "supportsExceptionInfoRequest"};
    dap_output out;
    s->first_line = tv_dap_boolean(request, "linesStartAt1", true);
    s->first_column = tv_dap_boolean(request, "columnsStartAt1", true);
    s->client_invalidates = tv_dap_boolean(request, "supportsInvalidatedEvent", false);
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    for (size_t i = 0; i < TV_COUNTOF(capabilities); i++)
        tv_json_boolean_member(w, capabilities[i], true);
    tv_dap_send(s, &out);
}

/* ---- launch ---- */

void tv_dap_close_program(dap *s)
{
    tv_debug_free(s->debug);
    tv_config_free(s->config);
    for (unsigned i = 0; i < s->program_count; i++) {
        tv_program_free(s->programs[i]);
        free(s->paths[i]);
    }
    free(s->programs);
    free(s->paths);
    free(s->directory);
    s->paths = NULL;
    s->directory = NULL;
    s->debug = NULL;
    s->config = NULL;
    s->programs = NULL;
    s->program_count = 0;
}

static tv_status fail_no_program(const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "\"program\": \"softmax.s\"",
                   "the launch request names no program");
}

static tv_status open_program(dap *s, const dap_request *request, const char *path, const tv_diag_sink *sink)
{
    tv_program_options options = {.size = sizeof options, .target = tv_dap_string(request, "target")};
    if (!path || !*path || strcmp(path, "-") == 0)
        return fail_no_program(sink);
    char *full = tv_dap_resolve_path(s, path), *copy = strdup(path);
    tv_program *program;
    tv_status status = full && copy ? s->services->open_program(full, &options, sink, &program) : tv_fail_memory(sink);
    free(full);
    if (status != TV_OK) {
        free(copy);
        return status;
    }
    s->paths[s->program_count] = copy;
    s->programs[s->program_count++] = program;
    return TV_OK;
}

static tv_status open_programs(dap *s, const dap_request *request, const tv_diag_sink *sink)
{
    enum { PROGRAMS_MAX = 4096 };
    const tv_json_value *list = tv_dap_argument(request, "programs");
    bool many = tv_json_is(list, TV_JSON_ARRAY);
    unsigned count = many ? tv_json_count(list) : 1;
    const char *directory = tv_dap_string(request, "cwd");
    s->directory = directory && *directory ? strdup(directory) : NULL;
    if (count > PROGRAMS_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), NULL, "there are more than %d programs",
                       PROGRAMS_MAX);
    s->programs = calloc(count + 1, sizeof *s->programs);
    s->paths = calloc(count + 1, sizeof *s->paths);
    if (!s->programs || !s->paths || (directory && *directory && !s->directory))
        return tv_fail_memory(sink);
    if (!many)
        return open_program(s, request, tv_dap_string(request, "program"), sink);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next)
        TV_TRY(open_program(s, request, tv_json_string(v), sink));
    return count ? TV_OK : fail_no_program(sink);
}

/* `name`: a profile's name or a file. "-" is rejected, because the protocol uses standard input. */
static tv_status load_profile(dap *s, const char *name, const tv_diag_sink *sink)
{
    if (!name || strcmp(name, "-") == 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "\"config\": \"kv260\"",
                       "\"config\" is the name of a profile, the path of a file, or a list of them");
    char *path = tv_dap_resolve_path(s, name);
    if (!path)
        return tv_fail_memory(sink);
    tv_status status = tv_config_load(s->config, tv_debug_is_readable_file(path) ? path : name, sink);
    free(path);
    return status;
}

static tv_status set_parameter(dap *s, const tv_json_value *v, const tv_diag_sink *sink)
{
    if (tv_json_is(v, TV_JSON_STRING) || tv_json_is_number(v))
        return tv_config_set(s->config, v->key, v->text, sink);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "\"parameters\": {\"vector.k\": 8}",
                   "the value of the parameter '%.60s' is neither a number nor a string", v->key);
}

static tv_status create_config(dap *s, const dap_request *request, const tv_diag_sink *sink)
{
    const tv_json_value *profiles = tv_dap_argument(request, "config"),
                        *parameters = tv_dap_argument(request, "parameters");
    TV_TRY(s->services->new_config(tv_program_target(s->programs[0]), sink, &s->config));
    if (tv_json_is(profiles, TV_JSON_ARRAY)) {
        for (const tv_json_value *v = tv_json_first(profiles); v; v = v->next)
            TV_TRY(load_profile(s, tv_json_string(v), sink));
    } else if (profiles && !tv_json_is(profiles, TV_JSON_NULL)) {
        TV_TRY(load_profile(s, tv_json_string(profiles), sink));
    } else if (tv_program_profile(s->programs[0])) {
        TV_TRY(tv_config_load(s->config, tv_program_profile(s->programs[0]), sink));
    }
    for (const tv_json_value *v = tv_json_is(parameters, TV_JSON_OBJECT) ? tv_json_first(parameters) : NULL; v;
         v = v->next)
        TV_TRY(set_parameter(s, v, sink));
    return TV_OK;
}

/* "load": {"SPACE:ADDR": "FILE"} */
static tv_status load_files(dap *s, const dap_request *request, const tv_diag_sink *sink)
{
    const tv_json_value *files = tv_dap_argument(request, "load");
    const tv_json_value *v = tv_json_is(files, TV_JSON_OBJECT) ? tv_json_first(files) : NULL;
    for (; v; v = v->next) {
        const char *file = tv_json_string(v);
        if (!file || strcmp(file, "-") == 0)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "\"load\": {\"mem:0\": \"memory.bin\"}",
                           "the value of '%.60s' is not the path of a file", v->key);
        char *path = tv_dap_resolve_path(s, file);
        tv_status status = path ? tv_debug_load(s->debug, v->key, path, sink) : tv_fail_memory(sink);
        free(path);
        TV_TRY(status);
    }
    return TV_OK;
}

static tv_status create_debugger(dap *s, const dap_request *request, const tv_diag_sink *sink)
{
    int64_t memory = tv_dap_integer(request, "snapshotMemory", 0);
    tv_debug_options options = {
        .size = sizeof options, .poll = s->poll, .user = s, .snapshot_memory = memory > 0 ? (uint64_t)memory : 0};
    if (tv_dap_boolean(request, "functional", false))
        options.mode = TV_MODE_FUNCTIONAL;
    TV_TRY(open_programs(s, request, sink));
    TV_TRY(create_config(s, request, sink));
    TV_TRY(
        tv_debug_new(s->config, (const tv_program *const *)s->programs, s->program_count, &options, sink, &s->debug));
    return load_files(s, request, sink);
}

/* Starts the program once it is launched and the client has finished its configuration. */
static void start_if_configured(dap *s)
{
    tv_debug_stop stop = {.reason = TV_DEBUG_START};
    if (!s->debug || !s->configured || s->started)
        return;
    s->started = true;
    if (s->stop_on_entry)
        tv_dap_send_stopped(s, &stop);
    else
        tv_dap_run(s);
}

void tv_dap_launch(dap *s, const dap_request *request)
{
    tv_diag_sink sink = tv_dap_sink(s);
    if (s->debug) {
        tv_dap_reject(s, request, "a program has already been launched");
        return;
    }
    s->launching = true;
    tv_status status = create_debugger(s, request, &sink);
    s->launching = false;
    if (status != TV_OK) {
        tv_dap_reject(s, request, tv_dap_error_text(s));
        tv_dap_close_program(s);
        if (status == TV_ERR_IO || status == TV_ERR_MEMORY)
            s->failed = status;
        return;
    }
    s->no_debug = tv_dap_boolean(request, "noDebug", false);
    s->stop_on_entry = !s->no_debug && tv_dap_boolean(request, "stopOnEntry", true);
    s->stop_on_end = !s->no_debug && tv_dap_boolean(request, "stopOnEnd", true);
    tv_dap_respond(s, request);
    tv_dap_send_event(s, "initialized");
    start_if_configured(s);
}

void tv_dap_configuration_done(dap *s, const dap_request *request)
{
    s->configured = true;
    tv_dap_respond(s, request);
    start_if_configured(s);
}

/* ---- terminate, disconnect ---- */

void tv_dap_terminate(dap *s, const dap_request *request)
{
    tv_dap_respond(s, request);
    tv_dap_send_terminated(s);
}

void tv_dap_disconnect(dap *s, const dap_request *request)
{
    tv_dap_respond(s, request);
    s->ended = true;
}
