/* SPDX-License-Identifier: Apache-2.0 */
/* Console commands and expressions, and their completion. */
#include <stdlib.h>

#include "debug/dap/dap.h"

/* Evaluates what an editor shows for a word or expression, as `print` does. */
static bool evaluate_expression(dap *s, const char *expression, tv_debug_answer *answer)
{
    char line[512];
    snprintf(line, sizeof line, "print %.400s", expression);
    if (s->services->run_command(s->debug, line, NULL, answer) == TV_OK)
        return true;
    tv_debug_answer_free(answer);
    return false;
}

static bool is_expression_context(const char *context)
{
    return context &&
           (strcmp(context, "hover") == 0 || strcmp(context, "watch") == 0 || strcmp(context, "variables") == 0);
}

static void respond_result(dap *s, const dap_request *request, const char *text)
{
    tv_buf result = {0};
    size_t n = text ? strlen(text) : 0;
    dap_output out;
    if (!text)
        s->failed = TV_ERR_MEMORY;
    tv_buf_append(&result, text ? text : "", n && text[n - 1] == '\n' ? n - 1 : n);
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    tv_json_string_member(w, "result", tv_dap_text(s, &result));
    tv_json_integer_member(w, "variablesReference", 0);
    tv_dap_send(s, &out);
    tv_buf_fini(&result);
}

static void send_invalidated(dap *s)
{
    dap_output out;
    tv_json_writer *w = tv_dap_begin_event(&out, "invalidated");
    tv_json_key(w, "areas");
    tv_json_begin_array(w);
    tv_json_write_string(w, "variables");
    tv_json_end_array(w);
    tv_dap_send(s, &out);
}

void tv_dap_evaluate(dap *s, const dap_request *request)
{
    const char *expression = tv_dap_string(request, "expression");
    bool is_command = !is_expression_context(tv_dap_string(request, "context"));
    tv_debug_answer answer = {0};
    tv_diag_sink sink = tv_dap_sink(s);
    if (!expression) {
        tv_dap_reject(s, request, "the expression is missing");
        return;
    }
    s->running = s->evaluating = true;
    s->sent_running = false;
    bool ok = is_command ? s->services->run_command(s->debug, expression, &sink, &answer) == TV_OK
                         : evaluate_expression(s, expression, &answer);
    s->running = s->evaluating = false;
    if (ok)
        respond_result(s, request, answer.text);
    else
        tv_dap_reject(s, request, is_command ? tv_dap_error_text(s) : "not available");
    bool quit = answer.quit, stopped = answer.stopped || s->sent_running;
    tv_debug_answer_free(&answer);
    tv_debug_stop last = tv_debug_last_stop(s->debug);
    if (stopped && !s->broken && !s->ended)
        tv_dap_send_stopped(s, &last);
    else if (ok && is_command && s->client_invalidates)
        send_invalidated(s);
    if (quit)
        tv_dap_send_terminated(s);
}

void tv_dap_completions(dap *s, const dap_request *request)
{
    const char *text = tv_dap_string(request, "text");
    int64_t column = tv_dap_integer(request, "column", s->first_column) - s->first_column + 1;
    char line[512];
    dap_output out;
    size_t n = text ? strlen(text) : 0;
    if (column > 0 && (uint64_t)(column - 1) < n)
        n = (size_t)(column - 1);
    snprintf(line, sizeof line, "%.*s", (int)tv_min_u64(n, sizeof line - 1), text ? text : "");
    char *list = s->services->complete(s->debug, line);
    if (!list)
        s->failed = TV_ERR_MEMORY;
    size_t length = strlen(line), start = length;
    while (start && line[start - 1] != ' ' && line[start - 1] != '\t')
        start--;
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    tv_json_key(w, "targets");
    tv_json_begin_array(w);
    char *save = NULL;
    for (char *word = list ? strtok_r(list, "\n", &save) : NULL; word; word = strtok_r(NULL, "\n", &save)) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "label", word);
        tv_json_unsigned_member(w, "start", start + s->first_column);
        tv_json_unsigned_member(w, "length", length - start);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
    free(list);
    tv_dap_send(s, &out);
}
