/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: responses and events to the client, diagnostics, and the arguments of requests. */
#include <errno.h>

#include "debug/dap/dap.h"

/* ---- Sending ---- */

static void begin_response(dap_output *out, const dap_request *request, bool success)
{
    const char *command = tv_json_string(tv_json_get(request, "command"));
    out->text = (tv_buf){0};
    tv_json_writer_init_buf(&out->json, &out->text, TV_JSON_COMPACT);
    tv_json_begin_object(&out->json);
    tv_json_string_member(&out->json, "type", "response");
    tv_json_integer_member(&out->json, "request_seq", tv_json_integer(tv_json_get(request, "seq")));
    tv_json_boolean_member(&out->json, "success", success);
    tv_json_string_member(&out->json, "command", command ? command : "");
}

static tv_json_writer *begin_body(dap_output *out)
{
    tv_json_key(&out->json, "body");
    tv_json_begin_object(&out->json);
    return &out->json;
}

static void begin_event(dap_output *out, const char *event)
{
    out->text = (tv_buf){0};
    tv_json_writer_init_buf(&out->json, &out->text, TV_JSON_COMPACT);
    tv_json_begin_object(&out->json);
    tv_json_string_member(&out->json, "type", "event");
    tv_json_string_member(&out->json, "event", event);
}

tv_json_writer *tv_dap_begin_response(dap_output *out, const dap_request *request)
{
    begin_response(out, request, true);
    return begin_body(out);
}

tv_json_writer *tv_dap_begin_event(dap_output *out, const char *event)
{
    begin_event(out, event);
    return begin_body(out);
}

/* Ends the message and sends it; frees the text. Without memory for it the session ends. */
static void send_message(dap *s, dap_output *out)
{
    char head[64];
    tv_json_integer_member(&out->json, "seq", ++s->seq);
    tv_json_end_object(&out->json);
    if (tv_json_writer_finish(&out->json) && s->failed == TV_OK) {
        int n = snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", out->text.len);
        s->io->write(s->io->user, head, (size_t)n);
        s->io->write(s->io->user, out->text.data, out->text.len);
    } else if (s->failed == TV_OK) {
        s->failed = TV_ERR_MEMORY;
    }
    tv_buf_fini(&out->text);
}

void tv_dap_send(dap *s, dap_output *out)
{
    tv_json_end_object(&out->json);
    send_message(s, out);
}

void tv_dap_respond(dap *s, const dap_request *request)
{
    dap_output out;
    begin_response(&out, request, true);
    send_message(s, &out);
}

void tv_dap_send_event(dap *s, const char *event)
{
    dap_output out;
    begin_event(&out, event);
    send_message(s, &out);
}

void tv_dap_reject(dap *s, const dap_request *request, const char *message)
{
    dap_output out;
    begin_response(&out, request, false);
    tv_json_string_member(&out.json, "message", message);
    tv_json_writer *w = begin_body(&out);
    tv_json_key(w, "error");
    tv_json_begin_object(w);
    tv_json_integer_member(w, "id", 1);
    tv_json_string_member(w, "format", message);
    tv_json_boolean_member(w, "showUser", true);
    tv_json_end_object(w);
    tv_dap_send(s, &out);
}

void tv_dap_send_output(dap *s, const char *category, const char *text)
{
    dap_output out;
    tv_json_writer *w = tv_dap_begin_event(&out, "output");
    tv_json_string_member(w, "category", category);
    tv_json_string_member(w, "output", text);
    tv_dap_send(s, &out);
}

/* ---- Diagnostics ---- */

enum { ERRORS_MAX = 5, OUTPUTS_MAX = 200 };

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

/* Sends a diagnostic to the client's console, with a link to its source line. */
static void send_diag(dap *s, const tv_diag *diag)
{
    tv_buf text = {0};
    dap_output out;
    tv_json_writer *w = tv_dap_begin_event(&out, "output");
    print_diag(diag, &text);
    tv_buf_str(&text, "\n");
    tv_json_string_member(w, "category", diag->severity == TV_ERROR ? "stderr" : "console");
    tv_json_string_member(w, "output", tv_dap_text(s, &text));
    if (diag->file && diag->line && tv_debug_is_readable_file(diag->file)) {
        tv_json_key(w, "source");
        tv_json_begin_object(w);
        tv_json_string_member(w, "path", diag->file);
        tv_json_end_object(w);
        tv_json_integer_member(w, "line", (int64_t)diag->line - 1 + s->first_line);
    }
    tv_dap_send(s, &out);
    tv_buf_fini(&text);
}

static void emit_diag(void *user, const tv_diag *diag)
{
    dap *s = user;
    bool error = diag->severity == TV_ERROR;
    if (error && strcmp(diag->code, TV_CODE(NO_MEMORY)->code) == 0)
        s->failed = TV_ERR_MEMORY;
    s->error_count += error;
    if (error && s->error_count <= ERRORS_MAX) {
        tv_buf_str(&s->errors, s->errors.len ? "\n" : "");
        print_diag(diag, &s->errors);
    }
    if ((!error || s->launching) && s->output_count++ < OUTPUTS_MAX)
        send_diag(s, diag);
}

tv_diag_sink tv_dap_sink(dap *s)
{
    s->errors.len = 0;
    s->error_count = s->output_count = 0;
    return (tv_diag_sink){emit_diag, s};
}

const char *tv_dap_error_text(dap *s)
{
    if (s->error_count > ERRORS_MAX)
        tv_buf_printf(&s->errors, "\nand %u more", s->error_count - ERRORS_MAX);
    s->error_count = 0;
    return s->errors.len ? tv_dap_text(s, &s->errors) : "the request failed";
}

const char *tv_dap_text(dap *s, tv_buf *buf)
{
    const char *text = tv_buf_cstr(buf);
    if (buf->failed)
        s->failed = TV_ERR_MEMORY;
    return text;
}

void tv_dap_check_host(dap *s, int error)
{
    if (tv_is_host_failure(error))
        s->failed = error == ENOMEM ? TV_ERR_MEMORY : TV_ERR_IO;
}

/* ---- Arguments ---- */

const tv_json_value *tv_dap_argument(const dap_request *request, const char *key)
{
    return tv_json_get(tv_json_get(request, "arguments"), key);
}

const char *tv_dap_string(const dap_request *request, const char *key)
{
    return tv_json_string(tv_dap_argument(request, key));
}

int64_t tv_dap_integer(const dap_request *request, const char *key, int64_t default_value)
{
    const tv_json_value *value = tv_dap_argument(request, key);
    return tv_json_is(value, TV_JSON_INTEGER) ? tv_json_integer(value) : default_value;
}

bool tv_dap_boolean(const dap_request *request, const char *key, bool default_value)
{
    const tv_json_value *value = tv_dap_argument(request, key);
    return tv_json_is(value, TV_JSON_BOOLEAN) ? tv_json_is_true(value) : default_value;
}

const char *tv_dap_nonempty(const tv_json_value *object, const char *key)
{
    const char *text = tv_json_string(tv_json_get(object, key));
    return text && *text ? text : NULL;
}

char *tv_dap_resolve_path(const dap *s, const char *path)
{
    tv_buf out = {0};
    if (s->directory && *path != '/')
        tv_buf_printf(&out, "%s/", s->directory);
    tv_buf_str(&out, path);
    return tv_buf_take(&out);
}
