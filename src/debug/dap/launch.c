/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that begin, run and end. */
#include "debug/dap/dap.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- Beginning ---- */

void dap_initialize(dap *s, const json_t *request)
{
    /* supportsRestartRequest is not among them: a client then launches anew, and reads what has changed in the program
     */
    static const char *const can[] = {"supportsConfigurationDoneRequest",
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
    json_t *body = json_object();
    s->first_line = dap_true(request, "linesStartAt1", true);
    s->first_column = dap_true(request, "columnsStartAt1", true);
    s->takes_invalidated = dap_true(request, "supportsInvalidatedEvent", false);
    for (size_t i = 0; i < TV_COUNTOF(can); i++)
        json_object_set_new(body, can[i], json_true());
    dap_respond(s, request, body);
}

void dap_close(dap *s)
{
    tv_debug_free(s->debug);
    tv_config_free(s->config);
    for (unsigned i = 0; i < s->program_count; i++)
        tv_program_free(s->programs[i]);
    free(s->programs);
    json_decref(s->paths);
    free(s->folder);
    s->paths = NULL;
    s->folder = NULL;
    s->debug = NULL;
    s->config = NULL;
    s->programs = NULL;
    s->program_count = 0;
}

char *dap_path(const dap *s, const char *path)
{
    tv_buf out = {0};
    if (s->folder && *path != '/')
        tv_buf_printf(&out, "%s/", s->folder);
    tv_buf_str(&out, path);
    return tv_buf_take(&out);
}

static tv_status open_program(dap *s, const json_t *request, const char *path, const tv_diag_sink *sink)
{
    tv_program_options options = {.size = sizeof options, .target = dap_text(request, "target")};
    if (!path || !*path || strcmp(path, "-") == 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "\"program\": \"softmax.s\"",
                       "the launch names no program");
    char *full = dap_path(s, path);
    tv_status status =
        full ? tv_program_open(full, &options, sink, &s->programs[s->program_count]) : tv_fail_memory(sink);
    if (status == TV_OK)
        s->program_count++;
    free(full);
    json_array_append_new(s->paths, json_string(path));
    return status;
}

static tv_status open_programs(dap *s, const json_t *request, const tv_diag_sink *sink)
{
    json_t *one = dap_argument(request, "program"), *many = dap_argument(request, "programs");
    size_t count = json_is_array(many) ? json_array_size(many) : 1;
    const char *folder = dap_text(request, "cwd");
    s->paths = json_array();
    s->folder = folder && *folder ? strdup(folder) : NULL;
    if (count > 4096 || !(s->programs = calloc(count + 1, sizeof *s->programs)))
        return tv_fail_memory(sink);
    for (size_t i = 0; i < count; i++)
        TV_TRY(open_program(s, request, json_string_value(json_is_array(many) ? json_array_get(many, i) : one), sink));
    return count ? TV_OK : tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), NULL, "the launch names no program");
}

/* A profile by its name, or a file. */
static tv_status load_profile(dap *s, const char *name, const tv_diag_sink *sink)
{
    if (!name || strcmp(name, "-") == 0) /* the messages come from there */
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "\"config\": \"kv260\"",
                       "\"config\" is the name of a profile, the path of a file, or a list of them");
    char *path = dap_path(s, name);
    if (!path)
        return tv_fail_memory(sink);
    tv_status status = tv_config_load(s->config, debug_is_file(path) ? path : name, sink);
    free(path);
    return status;
}

static tv_status make_config(dap *s, const json_t *request, const tv_diag_sink *sink)
{
    json_t *profiles = dap_argument(request, "config"), *parameters = dap_argument(request, "parameters"), *value;
    const char *key;
    TV_TRY(tv_config_new(tv_program_target(s->programs[0]), sink, &s->config));
    if (profiles && !json_is_null(profiles) && !json_is_array(profiles))
        TV_TRY(load_profile(s, json_string_value(profiles), sink));
    for (size_t i = 0; i < json_array_size(profiles); i++)
        TV_TRY(load_profile(s, json_string_value(json_array_get(profiles, i)), sink));
    json_object_foreach (parameters, key, value) {
        char *text = json_is_string(value) ? strdup(json_string_value(value))
                                           : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        tv_status status = text ? tv_config_set(s->config, key, text, sink) : tv_fail_memory(sink);
        free(text);
        TV_TRY(status);
    }
    return TV_OK;
}

/* "load": {"SPACE:ADDR": "FILE"} */
static tv_status load_files(dap *s, const json_t *request, const tv_diag_sink *sink)
{
    const char *where;
    json_t *file;
    json_object_foreach (dap_argument(request, "load"), where, file) {
        if (!json_is_string(file) || strcmp(json_string_value(file), "-") == 0) /* the messages come from there */
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "\"load\": {\"mem:0\": \"memory.bin\"}",
                           "what is loaded at '%.60s' is no file", where);
        char *path = dap_path(s, json_string_value(file));
        tv_status status = path ? tv_debug_load(s->debug, where, path, sink) : tv_fail_memory(sink);
        free(path);
        TV_TRY(status);
    }
    return TV_OK;
}

static tv_status make_debug(dap *s, const json_t *request, const tv_diag_sink *sink)
{
    json_int_t memory = dap_integer(request, "snapshotMemory", 0);
    tv_debug_options options = {
        .size = sizeof options, .poll = dap_poll, .user = s, .snapshot_memory = memory > 0 ? (uint64_t)memory : 0};
    if (dap_true(request, "functional", false))
        options.mode = TV_MODE_FUNCTIONAL;
    TV_TRY(open_programs(s, request, sink));
    TV_TRY(make_config(s, request, sink));
    TV_TRY(
        tv_debug_new(s->config, (const tv_program *const *)s->programs, s->program_count, &options, sink, &s->debug));
    return load_files(s, request, sink);
}

static void begin(dap *s)
{
    tv_debug_stop stop = {.reason = TV_DEBUG_START};
    if (!s->debug || !s->configured || s->begun)
        return;
    s->begun = true;
    if (s->stop_on_entry)
        dap_stopped(s, &stop);
    else
        dap_continue(s, NULL);
}

void dap_launch(dap *s, const json_t *request)
{
    tv_diag_sink sink = dap_sink(s);
    if (s->debug) {
        dap_refuse(s, request, "a program has been launched before");
        return;
    }
    s->launching = true;
    tv_status status = make_debug(s, request, &sink);
    s->launching = false;
    if (status != TV_OK) {
        dap_refuse(s, request, dap_said(s));
        dap_close(s);
        return;
    }
    s->no_debug = dap_true(request, "noDebug", false); /* to the end, or a fault */
    s->stop_on_entry = !s->no_debug && dap_true(request, "stopOnEntry", true);
    s->stop_on_end = !s->no_debug && dap_true(request, "stopOnEnd", true);
    dap_respond(s, request, NULL);
    dap_event(s, "initialized", NULL);
    begin(s);
}

void dap_configuration_done(dap *s, const json_t *request)
{
    s->configured = true;
    dap_respond(s, request, NULL);
    begin(s);
}

/* ---- Where it stands ---- */

void dap_threads(dap *s, const json_t *request)
{
    dap_respond(s, request,
                json_pack("{s:[{s:i, s:s}]}", "threads", "id", DAP_THREAD, "name",
                          s->debug ? tv_machine_target(tv_debug_machine(s->debug)) : "machine"));
}

void dap_stack_trace(dap *s, const json_t *request)
{
    tv_debug_location place;
    tv_debug_current_location(s->debug, &place);
    tv_buf name = {0};
    char reference[DAP_REFERENCE_TEXT];
    dap_print_reference(place.program, place.index, reference);
    json_int_t line = 0;
    json_t *source = dap_place_source(s, &place, &line);
    if (place.end)
        tv_buf_str(&name, "end of the program");
    else if (place.label)
        tv_buf_printf(&name, place.offset ? "%s+%" PRIu64 : "%s", place.label, place.offset);
    else
        tv_buf_printf(&name, "instruction %" PRIu64, place.index);
    json_t *frame =
        json_pack("{s:i, s:o, s:i, s:i, s:s}", "id", DAP_FRAME, "name", debug_json_text(tv_buf_cstr(&name)), "line",
                  (int)line, "column", source ? (int)s->first_column : 0, "instructionPointerReference", reference);
    if (source)
        json_object_set_new(frame, "source", source);
    tv_buf_fini(&name);
    json_t *frames = json_array();
    if (dap_integer(request, "startFrame", 0) <= 0)
        json_array_append(frames, frame);
    json_decref(frame);
    dap_respond(s, request, json_pack("{s:o, s:i}", "stackFrames", frames, "totalFrames", 1));
}

static void say_goodbye(dap *s)
{
    if (s->terminated)
        return;
    s->terminated = true;
    dap_event(s, "exited",
              json_pack("{s:i}", "exitCode", s->debug && tv_machine_fault(tv_debug_machine(s->debug)) ? 1 : 0));
    dap_event(s, "terminated", NULL);
}

void dap_stopped(dap *s, const tv_debug_stop *stop)
{
    static const char *const reasons[] = {"entry",     "step",  "breakpoint", "data breakpoint",
                                          "exception", "pause", "entry",      "pause"};
    tv_debug_answer answer;
    bool over = stop->reason == TV_DEBUG_END || stop->reason == TV_DEBUG_FAULT;
    dap_forget_nodes(s);
    s->pause = false;
    tv_debug_describe_stop(s->debug, stop, &answer);
    if (over || stop->reason == TV_DEBUG_WATCH)
        dap_event(s, "output", json_pack("{s:s, s:o}", "category", "console", "output", debug_json_text(answer.text)));
    if (over && !s->stop_on_end && (s->no_debug || stop->reason == TV_DEBUG_END)) {
        tv_debug_answer_free(&answer);
        say_goodbye(s);
        return;
    }
    char first[512] = "";
    if (answer.text)
        snprintf(first, sizeof first, "%.*s", (int)strcspn(answer.text, "\n"), answer.text);
    json_t *body =
        json_pack("{s:s, s:i, s:b}", "reason", reasons[stop->reason], "threadId", DAP_THREAD, "allThreadsStopped", 1);
    if (stop->reason != TV_DEBUG_STEP || stop->dropped_writes) /* of a step the place is all there is to say */
        json_object_set_new(body, "description", debug_json_text(first));
    if (stop->breakpoint)
        json_object_set_new(body, "hitBreakpointIds", json_pack("[I]", (json_int_t)stop->breakpoint));
    if (stop->reason == TV_DEBUG_FAULT)
        json_object_set_new(body, "text", debug_json_text(first));
    tv_debug_answer_free(&answer);
    dap_event(s, "stopped", body);
}

void dap_exception_info(dap *s, const json_t *request)
{
    const tv_fault *fault = tv_machine_fault(tv_debug_machine(s->debug));
    if (!fault) {
        dap_refuse(s, request, "the machine does not stand at a fault");
        return;
    }
    tv_buf name = {0};
    tv_buf_printf(&name, "%s %s", fault->code, fault->name);
    dap_respond(s, request,
                json_pack("{s:o, s:o, s:s}", "exceptionId", debug_json_text(tv_buf_cstr(&name)), "description",
                          debug_json_text(fault->message), "breakMode", "always"));
    tv_buf_fini(&name);
}

/* ---- Running ---- */

typedef tv_status run_function(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop);

static void run(dap *s, const json_t *request, run_function *function, json_t *body)
{
    tv_debug_stop stop = {.reason = TV_DEBUG_STEP};
    tv_diag_sink sink = dap_sink(s);
    if (request)
        dap_respond(s, request, body);
    dap_forget_nodes(s);
    s->pause = false;
    s->running = true;
    tv_status status = function(s->debug, &sink, &stop);
    s->running = false;
    if (status != TV_OK) {
        tv_buf_str(&s->said, s->said.len ? "\n" : "it failed\n");
        dap_event(s, "output", json_pack("{s:s, s:o}", "category", "stderr", "output", debug_json_text(dap_said(s))));
        stop.reason = TV_DEBUG_INTERRUPTED;
    }
    if (!s->broken && !s->ended)
        dap_stopped(s, &stop);
}

/* At the end there is nothing to run: the client is let go. */
static bool is_over(dap *s, const json_t *request, json_t *body)
{
    tv_debug_location place;
    tv_debug_current_location(s->debug, &place);
    if (!place.end || tv_debug_last_stop(s->debug).reason != TV_DEBUG_END)
        return false;
    dap_respond(s, request, body);
    say_goodbye(s);
    return true;
}

void dap_continue(dap *s, const json_t *request)
{
    json_t *body = request ? json_pack("{s:b}", "allThreadsContinued", 1) : NULL;
    if (!request || !is_over(s, request, body))
        run(s, request, tv_debug_continue, body);
}

enum { LINE_STEPS_MAX = 1000000 };

static tv_status step_one(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    return tv_debug_step(d, 1, sink, stop);
}

static tv_status back_one(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    return tv_debug_step_back(d, 1, sink, stop);
}

static bool same_line(const tv_debug_location *a, const tv_debug_location *b)
{
    return a->file && b->file && a->line == b->line && a->file == b->file && a->program == b->program && !b->end;
}

/* To the next instruction of another line: a macro is many of one. */
static tv_status step_line(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    tv_debug_location first, now;
    tv_debug_current_location(d, &first);
    for (uint64_t i = 0;; i++) {
        TV_TRY(tv_debug_step(d, 1, sink, stop));
        tv_debug_current_location(d, &now);
        if (stop->reason != TV_DEBUG_STEP || !same_line(&first, &now))
            break;
        if (i % 1024 == 1023 && debug_interrupted(d)) {
            stop->reason = TV_DEBUG_INTERRUPTED;
            break;
        }
    }
    return TV_OK;
}

/* To the first instruction of the line before: over those of one line at once. */
static tv_status back_line(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    tv_debug_location here, now;
    tv_debug_current_location(d, &here);
    uint64_t count = 0;
    /* where the lines are in the program; the way there is one jump */
    uint64_t next = tv_machine_next_index(tv_debug_machine(d));
    while (count < next && count < LINE_STEPS_MAX) {
        count++;
        tv_debug_instruction_location(d, tv_machine_nth_index(tv_debug_machine(d), next - count), &now);
        bool left = !same_line(&here, &now) || here.end;
        tv_debug_location before;
        if (left &&
            (count == next ||
             !tv_debug_instruction_location(d, tv_machine_nth_index(tv_debug_machine(d), next - count - 1), &before) ||
             !same_line(&now, &before)))
            break;
    }
    return tv_debug_step_back(d, count ? count : 1, sink, stop);
}

static bool by_instruction(const json_t *request)
{
    const char *granularity = dap_text(request, "granularity");
    return granularity && strcmp(granularity, "instruction") == 0;
}

void dap_next(dap *s, const json_t *request)
{
    if (!is_over(s, request, NULL))
        run(s, request, by_instruction(request) ? step_one : step_line, NULL);
}

void dap_step_back(dap *s, const json_t *request)
{
    run(s, request, by_instruction(request) ? back_one : back_line, NULL);
}

void dap_reverse_continue(dap *s, const json_t *request) { run(s, request, tv_debug_reverse_continue, NULL); }

/* As at the launch: stops at the entry, or goes on. */
static tv_status restart(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    dap *s = d->options.user;
    TV_TRY(tv_debug_restart(d, sink, stop));
    return s->stop_on_entry ? TV_OK : tv_debug_continue(d, sink, stop);
}

void dap_restart(dap *s, const json_t *request) { run(s, request, restart, NULL); }

void dap_step_out(dap *s, const json_t *request)
{
    dap_refuse(s, request, "these machines have no calls to step out of");
}

void dap_pause(dap *s, const json_t *request)
{
    dap_respond(s, request, NULL);
    if (s->running)
        s->pause = true;
    else
        dap_stopped(s, &(tv_debug_stop){.reason = TV_DEBUG_INTERRUPTED});
}

/* ---- Commands ---- */

/* What an editor shows when the pointer rests on a word: a symbol's value, memory, or a register. */
static bool evaluate_quietly(dap *s, const char *expression, tv_debug_answer *answer)
{
    static const char *const verbs[] = {"print", "x", "info registers"};
    char line[512];
    for (size_t i = 0; i < TV_COUNTOF(verbs); i++) {
        snprintf(line, sizeof line, "%s %.400s", verbs[i], expression);
        if (tv_debug_command(s->debug, line, NULL, answer) == TV_OK)
            return true;
        tv_debug_answer_free(answer);
    }
    return false;
}

void dap_evaluate(dap *s, const json_t *request)
{
    const char *expression = dap_text(request, "expression"), *context = dap_text(request, "context");
    tv_debug_answer answer = {0};
    tv_diag_sink sink = dap_sink(s);
    tv_status status = TV_ERR_INPUT;
    if (!expression) {
        dap_refuse(s, request, "there is no expression");
        return;
    }
    bool quiet = context &&
                 (strcmp(context, "hover") == 0 || strcmp(context, "watch") == 0 || strcmp(context, "variables") == 0);
    s->running = s->evaluating = true;
    s->told_running = false;
    if (quiet)
        status = evaluate_quietly(s, expression, &answer) ? TV_OK : TV_ERR_INPUT;
    else
        status = tv_debug_command(s->debug, expression, &sink, &answer);
    s->running = s->evaluating = false;
    if (answer.text && answer.text[0] && answer.text[strlen(answer.text) - 1] == '\n')
        answer.text[strlen(answer.text) - 1] = '\0';
    if (status == TV_OK)
        dap_respond(s, request,
                    json_pack("{s:o, s:i}", "result", debug_json_text(answer.text ? answer.text : ""),
                              "variablesReference", 0));
    else
        dap_refuse(s, request, quiet ? "not available" : dap_said(s));
    bool quit = answer.quit, stopped = answer.stopped || s->told_running;
    tv_debug_answer_free(&answer);
    tv_debug_stop last = tv_debug_last_stop(s->debug);
    if (stopped && !s->broken && !s->ended)
        dap_stopped(s, &last);
    else if (status == TV_OK && !quiet && s->takes_invalidated)
        dap_event(s, "invalidated", json_pack("{s:[s]}", "areas", "variables"));
    if (quit)
        say_goodbye(s);
}

void dap_completions(dap *s, const json_t *request)
{
    const char *text = dap_text(request, "text");
    json_int_t column = dap_integer(request, "column", s->first_column) - s->first_column + 1;
    char line[512];
    size_t n = text ? strlen(text) : 0;
    if (column > 0 && (uint64_t)(column - 1) < n)
        n = (size_t)(column - 1);
    snprintf(line, sizeof line, "%.*s", (int)tv_min_u64(n, sizeof line - 1), text ? text : "");
    char *list = tv_debug_complete(s->debug, line);
    size_t length = strlen(line), word_at = length;
    while (word_at && line[word_at - 1] != ' ' && line[word_at - 1] != '\t')
        word_at--;
    json_t *targets = json_array();
    for (char *save = NULL, *word = list ? strtok_r(list, "\n", &save) : NULL; word; word = strtok_r(NULL, "\n", &save))
        json_array_append_new(targets, json_pack("{s:o, s:I, s:I}", "label", debug_json_text(word), "start",
                                                 (json_int_t)(word_at + s->first_column), "length",
                                                 (json_int_t)(length - word_at)));
    free(list);
    dap_respond(s, request, json_pack("{s:o}", "targets", targets));
}

/* ---- The end ---- */

void dap_terminate(dap *s, const json_t *request)
{
    dap_respond(s, request, NULL);
    say_goodbye(s);
}

void dap_disconnect(dap *s, const json_t *request)
{
    dap_respond(s, request, NULL);
    s->ended = true;
}
