/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol's top file: framing, the table of requests, and the session.
 *
 * A request that runs the program is answered before the run. During the run the debugger polls: requests that the
 * table marks `during_run` are then handled at once, others wait for the end of the run. Input that does not follow the
 * framing ends the session; an invalid request only gets an error response. */
#include "debug/dap/dap.h"

enum { HEADER_MAX = 4096, BODY_MAX = 16 << 20, WAITING_MAX = 1000 };

static const struct {
    const char *command;
    dap_handler *handle;
    bool needs_program;
    bool during_run;
} requests[] = {
    {"initialize", tv_dap_initialize, false, false},
    {"launch", tv_dap_launch, false, false},
    {"configurationDone", tv_dap_configuration_done, false, false},
    {"setBreakpoints", tv_dap_set_breakpoints, true, true},
    {"setFunctionBreakpoints", tv_dap_set_function_breakpoints, true, true},
    {"setInstructionBreakpoints", tv_dap_set_instruction_breakpoints, true, true},
    {"setDataBreakpoints", tv_dap_set_data_breakpoints, true, true},
    {"setExceptionBreakpoints", tv_dap_set_exception_breakpoints, false, true},
    {"dataBreakpointInfo", tv_dap_data_breakpoint_info, true, true},
    {"threads", tv_dap_threads, false, true},
    {"stackTrace", tv_dap_stack_trace, true, false},
    {"scopes", tv_dap_scopes, true, false},
    {"variables", tv_dap_variables, true, false},
    {"readMemory", tv_dap_read_memory, true, false},
    {"writeMemory", tv_dap_write_memory, true, false},
    {"disassemble", tv_dap_disassemble, true, false},
    {"setVariable", tv_dap_set_variable, true, false},
    {"exceptionInfo", tv_dap_exception_info, true, false},
    {"source", tv_dap_source, true, true},
    {"continue", tv_dap_continue, true, false},
    {"next", tv_dap_next, true, false},
    {"stepIn", tv_dap_next, true, false},
    {"stepOut", tv_dap_step_out, true, false},
    {"stepBack", tv_dap_step_back, true, false},
    {"reverseContinue", tv_dap_reverse_continue, true, false},
    {"pause", tv_dap_pause, true, true},
    {"restart", tv_dap_restart, true, false},
    {"evaluate", tv_dap_evaluate, true, false},
    {"completions", tv_dap_completions, true, false},
    {"disconnect", tv_dap_disconnect, false, false},
    {"terminate", tv_dap_terminate, false, false},
};

/* ---- Dispatch ---- */

/* Keeps a request for the end of the run, and takes its tree. A request that ends the session ends the run, too. */
static void defer_request(dap *s, dap_message *message)
{
    const char *command = tv_json_string(tv_json_get(message->request, "command"));
    if (strcmp(command, "disconnect") == 0 || strcmp(command, "terminate") == 0)
        s->pause = true;
    if (s->waiting.count >= WAITING_MAX)
        tv_dap_reject(s, message->request, "too many requests wait for the end of the run");
    else if (TV_VEC_PUSH(&s->waiting, *message))
        *message = (dap_message){0};
    else
        s->failed = TV_ERR_MEMORY;
}

static void handle_message(dap *s, dap_message *message, bool running)
{
    const dap_request *request = message->request;
    const char *command = tv_json_string(tv_json_get(request, "command"));
    const char *type = tv_json_string(tv_json_get(request, "type"));
    if (!type || strcmp(type, "request") != 0 || !command ||
        !tv_json_is(tv_json_get(request, "seq"), TV_JSON_INTEGER)) {
        if (!type || strcmp(type, "response") != 0) /* this side sends no requests, so responses are ignored */
            tv_dap_reject(s, request, "not a request: it needs type, seq and command");
        return;
    }
    for (size_t i = 0; i < TV_COUNTOF(requests); i++) {
        if (strcmp(requests[i].command, command) != 0)
            continue;
        if (running && !requests[i].during_run)
            defer_request(s, message);
        else if (requests[i].needs_program && !s->debug)
            tv_dap_reject(s, request, "no program has been launched");
        else
            requests[i].handle(s, request);
        return;
    }
    char text[128];
    snprintf(text, sizeof text, "unknown request '%.60s'", command);
    tv_dap_reject(s, request, text);
}

/* ---- Receiving ---- */

/* Parses the header in `in`. Returns its length with the empty line and sets *body; 0: incomplete; SIZE_MAX: invalid.
 */
static size_t parse_header(const tv_buf *in, size_t *body)
{
    const char *text = (const char *)in->data;
    size_t limit = in->len < HEADER_MAX ? in->len : HEADER_MAX;
    const char *end = in->len ? memmem(text, limit, "\r\n\r\n", 4) : NULL;
    char header[HEADER_MAX + 1];
    if (!end)
        return in->len >= HEADER_MAX ? SIZE_MAX : 0;
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
        if (found || !tv_debug_parse_number(line, &length) || length > BODY_MAX)
            return SIZE_MAX;
        *body = (size_t)length;
        found = true;
    }
    return found ? n + 4 : SIZE_MAX;
}

/* Takes the next complete message out of `in`. A body that is not a JSON object gives request NULL, which is rejected
 * like any invalid request. Returns false if there is none; s->broken: there never will be. */
static bool take_message(dap *s, dap_message *message)
{
    size_t body = 0, head = parse_header(&s->in, &body);
    if (head == SIZE_MAX) {
        s->broken = true;
        return false;
    }
    if (head == 0 || s->in.len - head < body)
        return false;
    tv_json_error error;
    *message = (dap_message){0};
    message->request = tv_json_parse(&message->arena, (tv_sv){(const char *)s->in.data + head, body}, BODY_MAX, &error);
    if (error.kind == TV_JSON_MEMORY)
        s->failed = TV_ERR_MEMORY;
    s->in.len -= head + body;
    memmove(s->in.data, s->in.data + head + body, s->in.len);
    return true;
}

static void handle_next(dap *s, dap_message *message, bool running)
{
    handle_message(s, message, running);
    tv_arena_fini(&message->arena);
}

/* Receives what is available, or waits. Returns false at the end of the input. */
static bool receive_bytes(dap *s, bool wait)
{
    uint8_t bytes[16384];
    size_t n = s->io->read(s->io->user, bytes, sizeof bytes, wait);
    if (n == TV_DAP_CLOSED) {
        s->ended = true;
        return false;
    }
    tv_buf_append(&s->in, bytes, n);
    if (s->in.failed)
        s->failed = TV_ERR_MEMORY;
    return n > 0;
}

/* tv_debug_options.poll: handles what the client has sent during a run; nonzero interrupts the run. */
static int poll_client(void *user)
{
    dap *s = user;
    dap_message message;
    if (s->evaluating && !s->sent_running) { /* so that the client offers to pause the command */
        dap_output out;
        s->sent_running = true;
        tv_json_writer *w = tv_dap_begin_event(&out, "continued");
        tv_json_integer_member(w, "threadId", DAP_THREAD);
        tv_json_boolean_member(w, "allThreadsContinued", true);
        tv_dap_send(s, &out);
    }
    receive_bytes(s, false);
    while (s->failed == TV_OK && !s->broken && take_message(s, &message))
        handle_next(s, &message, true);
    return s->pause || s->broken || s->ended || s->failed != TV_OK;
}

/* ---- The session ---- */

static bool take_waiting(dap *s, dap_message *message)
{
    if (!s->waiting.count)
        return false;
    *message = s->waiting.data[0];
    s->waiting.count--;
    memmove(s->waiting.data, s->waiting.data + 1, s->waiting.count * sizeof *s->waiting.data);
    return true;
}

static tv_status handle_session(dap *s)
{
    dap_message message;
    while (!s->ended && s->failed == TV_OK) {
        if (take_waiting(s, &message) || (!s->broken && take_message(s, &message))) {
            handle_next(s, &message, false);
            continue;
        }
        if (s->broken)
            return tv_fail(s->sink, TV_ERR_INPUT, TV_CODE(DEBUG_PROTOCOL), NULL,
                           "the input has no header with a Content-Length of at most %d bytes", BODY_MAX);
        if (!receive_bytes(s, true))
            return s->in.len && !s->ended ? tv_fail(s->sink, TV_ERR_INPUT, TV_CODE(DEBUG_PROTOCOL), NULL,
                                                    "the input ended within a message")
                                          : TV_OK;
    }
    return TV_OK;
}

/* Ends a trace that the client has not ended. */
static tv_status end_session(dap *s, tv_status status)
{
    if (s->failed != TV_OK) {
        if (s->debug)
            tv_debug_abandon_trace(s->debug);
        return s->failed == TV_ERR_MEMORY ? tv_fail_memory(s->sink)
                                          : tv_fail(s->sink, TV_ERR_IO, TV_CODE(FILE_OPEN), NULL,
                                                    "cannot read a file of the debugged program");
    }
    tv_status traced = s->debug ? tv_debug_finish_trace(s->debug, NULL, s->sink) : TV_OK;
    return status == TV_OK ? traced : status;
}

tv_status tv_dap_serve_messages(const tv_dap_io *io, const dap_services *services, const tv_diag_sink *sink)
{
    dap s = {.io = io, .services = services, .sink = sink, .poll = poll_client, .first_line = 1, .first_column = 1};
    tv_status status = end_session(&s, handle_session(&s));
    tv_dap_close_program(&s);
    tv_dap_breakpoints_fini(&s);
    for (size_t i = 0; i < s.waiting.count; i++)
        tv_arena_fini(&s.waiting.data[i].arena);
    TV_VEC_FINI(&s.waiting);
    TV_VEC_FINI(&s.nodes);
    tv_buf_fini(&s.in);
    tv_buf_fini(&s.errors);
    return status;
}
