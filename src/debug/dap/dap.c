/* SPDX-License-Identifier: Apache-2.0 */
/* The Debug Adapter Protocol as a stream of messages: framing, the table of requests, answers and events.
 *
 * A run is a request that has been answered and goes on; between its slices the requests of the table that are marked
 * so are answered, and the others wait for its end. What is not a message ends the conversation; a wrong request is
 * refused. */
#include "debug/dap/dap.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct {
    const char *command;
    dap_handler *handle;
    bool launched; /* there must be a program */
    bool any_time; /* in a run, too */
} requests[] = {
    {"initialize", dap_initialize, false, false},
    {"launch", dap_launch, false, false},
    {"configurationDone", dap_configuration_done, false, false},
    {"setBreakpoints", dap_set_breakpoints, true, true},
    {"setFunctionBreakpoints", dap_set_function_breakpoints, true, true},
    {"setInstructionBreakpoints", dap_set_instruction_breakpoints, true, true},
    {"setDataBreakpoints", dap_set_data_breakpoints, true, true},
    {"setExceptionBreakpoints", dap_set_exception_breakpoints, false, true},
    {"dataBreakpointInfo", dap_data_breakpoint_info, true, true},
    {"threads", dap_threads, false, true},
    {"stackTrace", dap_stack_trace, true, false},
    {"scopes", dap_scopes, true, false},
    {"variables", dap_variables, true, false},
    {"readMemory", dap_read_memory, true, false},
    {"writeMemory", dap_write_memory, true, false},
    {"disassemble", dap_disassemble, true, false},
    {"setVariable", dap_set_variable, true, false},
    {"exceptionInfo", dap_exception_info, true, false},
    {"source", dap_source_request, true, true},
    {"continue", dap_continue, true, false},
    {"next", dap_next, true, false},
    {"stepIn", dap_next, true, false},
    {"stepOut", dap_step_out, true, false},
    {"stepBack", dap_step_back, true, false},
    {"reverseContinue", dap_reverse_continue, true, false},
    {"pause", dap_pause, true, true},
    {"restart", dap_restart, true, false},
    {"evaluate", dap_evaluate, true, false},
    {"completions", dap_completions, true, false},
    {"disconnect", dap_disconnect, false, false},
    {"terminate", dap_terminate, false, false},
};

/* ---- Sending ---- */

static void send_message(dap *s, json_t *message)
{
    json_object_set_new(message, "seq", json_integer(++s->seq));
    char *body = json_dumps(message, JSON_COMPACT), head[64];
    if (body) {
        size_t size = strlen(body);
        int n = snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", size);
        s->io->write(s->io->user, head, (size_t)n);
        s->io->write(s->io->user, body, size);
    }
    free(body);
    json_decref(message);
}

static json_t *response(const json_t *request, bool success)
{
    const char *command = json_string_value(json_object_get(request, "command"));
    return json_pack("{s:s, s:I, s:b, s:o}", "type", "response", "request_seq",
                     json_integer_value(json_object_get(request, "seq")), "success", success, "command",
                     debug_json_text(command ? command : ""));
}

void dap_respond(dap *s, const json_t *request, json_t *body)
{
    json_t *message = response(request, true);
    if (body)
        json_object_set_new(message, "body", body);
    send_message(s, message);
}

void dap_refuse(dap *s, const json_t *request, const char *text)
{
    json_t *message = response(request, false);
    json_object_set_new(message, "message", debug_json_text(text));
    json_object_set_new(
        message, "body",
        json_pack("{s:{s:i, s:o, s:b}}", "error", "id", 1, "format", debug_json_text(text), "showUser", 1));
    send_message(s, message);
}

void dap_event(dap *s, const char *event, json_t *body)
{
    json_t *message = json_pack("{s:s, s:s}", "type", "event", "event", event);
    if (body)
        json_object_set_new(message, "body", body);
    send_message(s, message);
}

/* ---- Diagnostics ---- */

enum { SAID_MOST = 5, OUTPUT_MOST = 200 };

static void print_diag(const tv_diag *diag, tv_buf *out)
{
    if (diag->file && diag->line)
        tv_buf_printf(out, "%s:%u: ", diag->file, diag->line);
    else if (diag->file)
        tv_buf_printf(out, "%s: ", diag->file);
    tv_buf_printf(out, "%s [%s]", diag->message, diag->code);
    if (diag->hint)
        tv_buf_printf(out, " (%s)", diag->hint);
}

/* A line of the client's console; it leads to the source. */
static void output_diag(dap *s, const tv_diag *diag)
{
    tv_buf text = {0};
    print_diag(diag, &text);
    tv_buf_str(&text, "\n");
    json_t *body = json_pack("{s:s, s:o}", "category", diag->severity == TV_ERROR ? "stderr" : "console", "output",
                             debug_json_text(tv_buf_cstr(&text)));
    if (diag->file && diag->line && debug_is_file(diag->file)) {
        json_object_set_new(body, "source", json_pack("{s:o}", "path", debug_json_text(diag->file)));
        json_object_set_new(body, "line", json_integer((json_int_t)diag->line - 1 + s->first_line));
    }
    dap_event(s, "output", body);
    tv_buf_fini(&text);
}

/* An answer has the first errors; a launch tells the others, and warnings, too. */
static void hear(void *user, const tv_diag *diag)
{
    dap *s = user;
    bool error = diag->severity == TV_ERROR;
    s->errors += error;
    if (error && s->errors <= SAID_MOST) {
        tv_buf_str(&s->said, s->said.len ? "\n" : "");
        print_diag(diag, &s->said);
    }
    if ((!error || s->launching) && s->outputs++ < OUTPUT_MOST)
        output_diag(s, diag);
}

tv_diag_sink dap_sink(dap *s)
{
    s->said.len = 0;
    s->errors = s->outputs = 0;
    return (tv_diag_sink){hear, s};
}

const char *dap_said(dap *s)
{
    if (s->errors > SAID_MOST)
        tv_buf_printf(&s->said, "\nand %u more", s->errors - SAID_MOST);
    s->errors = 0;
    return s->said.len ? tv_buf_cstr(&s->said) : "it failed";
}

/* ---- Arguments ---- */

json_t *dap_argument(const json_t *request, const char *key)
{
    return json_object_get(json_object_get(request, "arguments"), key);
}

const char *dap_text(const json_t *request, const char *key) { return json_string_value(dap_argument(request, key)); }

json_int_t dap_integer(const json_t *request, const char *key, json_int_t otherwise)
{
    const json_t *value = dap_argument(request, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool dap_true(const json_t *request, const char *key, bool otherwise)
{
    const json_t *value = dap_argument(request, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* ---- Receiving ---- */

static void handle(dap *s, const json_t *request, bool in_run)
{
    const char *command = json_string_value(json_object_get(request, "command"));
    const char *type = json_string_value(json_object_get(request, "type"));
    if (!type || strcmp(type, "request") != 0 || !command || !json_is_integer(json_object_get(request, "seq"))) {
        if (!type || strcmp(type, "response") != 0) /* nobody was asked; what it is about is not known */
            dap_refuse(s, request, "the message is no request: it needs type, seq and command");
        return;
    }
    for (size_t i = 0; i < TV_COUNTOF(requests); i++) {
        if (strcmp(requests[i].command, command) != 0)
            continue;
        if (in_run && !requests[i].any_time) {
            if (strcmp(command, "disconnect") == 0 || strcmp(command, "terminate") == 0)
                s->pause = true;
            if (json_array_size(s->waiting) < DAP_WAITING_MAX)
                json_array_append(s->waiting, (json_t *)(uintptr_t)request);
            else
                dap_refuse(s, request, "too many requests wait for the run to stop");
        } else if (requests[i].launched && !s->debug)
            dap_refuse(s, request, "no program has been launched");
        else
            requests[i].handle(s, request);
        return;
    }
    char text[128];
    snprintf(text, sizeof text, "the request '%.60s' is not known", command);
    dap_refuse(s, request, text);
}

/* The header's length in bytes with the empty line, and what it says of the body. 0: not all there; SIZE_MAX: wrong. */
static size_t parse_header(const tv_buf *in, size_t *body)
{
    const char *text = (const char *)in->data;
    size_t most = in->len < DAP_HEADER_MAX ? in->len : DAP_HEADER_MAX;
    const char *end = in->len ? memmem(text, most, "\r\n\r\n", 4) : NULL;
    char header[DAP_HEADER_MAX + 1];
    if (!end)
        return in->len >= DAP_HEADER_MAX ? SIZE_MAX : 0;
    size_t n = (size_t)(end - text);
    memcpy(header, text, n);
    header[n] = '\0';
    if (strlen(header) != n)
        return SIZE_MAX;
    bool found = false;
    for (char *save = NULL, *line = strtok_r(header, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
        uint64_t length;
        if (!tv_sv_is_nocase((tv_sv){line, strcspn(line, ":")}, "Content-Length"))
            continue;
        line += strcspn(line, ":");
        line += *line == ':';
        line += strspn(line, " \t");
        if (found || !debug_parse_number(line, &length) || length > DAP_BODY_MAX)
            return SIZE_MAX;
        *body = (size_t)length;
        found = true;
    }
    return found ? n + 4 : SIZE_MAX;
}

/* The next message that is there; NULL: none, or broken. */
static json_t *take_message(dap *s)
{
    size_t body = 0, head = parse_header(&s->in, &body);
    if (head == SIZE_MAX) {
        s->broken = true;
        return NULL;
    }
    if (head == 0 || s->in.len - head < body)
        return NULL;
    json_error_t error;
    json_t *message = json_loadb((const char *)s->in.data + head, body, JSON_REJECT_DUPLICATES, &error);
    s->in.len -= head + body;
    memmove(s->in.data, s->in.data + head + body, s->in.len);
    if (message && json_is_object(message))
        return message;
    json_decref(message);
    return json_object(); /* it is refused, as nothing that is known */
}

static bool receive(dap *s, bool wait)
{
    uint8_t bytes[16384];
    size_t n = s->io->read(s->io->user, bytes, sizeof bytes, wait);
    if (n == TV_DAP_CLOSED) {
        s->ended = true;
        return false;
    }
    tv_buf_append(&s->in, bytes, n);
    s->broken |= s->in.failed;
    return n > 0;
}

int dap_poll(void *user)
{
    dap *s = user;
    json_t *message;
    if (s->evaluating && !s->told_running) { /* so that it can be paused */
        s->told_running = true;
        dap_event(s, "continued", json_pack("{s:i, s:b}", "threadId", DAP_THREAD, "allThreadsContinued", 1));
    }
    receive(s, false);
    while (!s->broken && (message = take_message(s))) {
        handle(s, message, true);
        json_decref(message);
    }
    return s->pause || s->broken || s->ended;
}

static tv_status talk(dap *s)
{
    while (!s->ended) {
        json_t *message = json_array_size(s->waiting) ? json_incref(json_array_get(s->waiting, 0)) : NULL;
        if (message)
            json_array_remove(s->waiting, 0);
        else
            message = s->broken ? NULL : take_message(s);
        if (message) {
            handle(s, message, false);
            json_decref(message);
            continue;
        }
        if (s->broken)
            return tv_fail(s->sink, TV_ERR_INPUT, TV_CODE(DEBUG_PROTOCOL), NULL,
                           "what came has no header with a Content-Length of at most %d bytes", DAP_BODY_MAX);
        if (!receive(s, true))
            return s->in.len && !s->ended ? tv_fail(s->sink, TV_ERR_INPUT, TV_CODE(DEBUG_PROTOCOL), NULL,
                                                    "the input ended within a message")
                                          : TV_OK;
    }
    return TV_OK;
}

tv_status tv_dap_serve(const tv_dap_io *io, const tv_diag_sink *sink)
{
    dap s = {.io = io, .sink = sink, .waiting = json_array(), .first_line = 1, .first_column = 1};
    tv_status status = talk(&s);
    dap_close(&s);
    dap_forget_breakpoints(&s);
    free(s.nodes);
    tv_buf_fini(&s.in);
    tv_buf_fini(&s.said);
    json_decref(s.waiting);
    return status;
}
