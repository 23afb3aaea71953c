/* SPDX-License-Identifier: Apache-2.0 */
/* Running, stopping, and the location where the machine has stopped. The machine is shown as one thread with one stack
 * frame. */
#include <inttypes.h>

#include "debug/dap/dap.h"

/* ---- Threads and frames ---- */

void tv_dap_threads(dap *s, const dap_request *request)
{
    dap_output out;
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    tv_json_key(w, "threads");
    tv_json_begin_array(w);
    tv_json_begin_object(w);
    tv_json_integer_member(w, "id", DAP_THREAD);
    tv_json_string_member(w, "name", s->debug ? tv_machine_target(tv_debug_machine(s->debug)) : "machine");
    tv_json_end_object(w);
    tv_json_end_array(w);
    tv_dap_send(s, &out);
}

static void print_frame_name(const tv_debug_location *location, tv_buf *out)
{
    if (location->end)
        tv_buf_str(out, "end of the program");
    else if (location->label)
        tv_buf_printf(out, location->offset ? "%s+%" PRIu64 : "%s", location->label, location->offset);
    else
        tv_buf_printf(out, "instruction %" PRIu64, location->index);
}

static void write_frame(dap *s, tv_json_writer *w)
{
    tv_debug_location location;
    tv_buf name = {0};
    char reference[DAP_REFERENCE_TEXT];
    tv_debug_current_location(s->debug, &location);
    tv_dap_print_reference(location.program, location.index, reference);
    print_frame_name(&location, &name);
    tv_json_begin_object(w);
    tv_json_integer_member(w, "id", DAP_FRAME);
    tv_json_string_member(w, "name", tv_dap_text(s, &name));
    bool has_source = tv_dap_write_source(s, &location, w);
    if (!has_source)
        tv_json_integer_member(w, "line", 0);
    tv_json_integer_member(w, "column", has_source ? s->first_column : 0);
    tv_json_string_member(w, "instructionPointerReference", reference);
    tv_json_end_object(w);
    tv_buf_fini(&name);
}

void tv_dap_stack_trace(dap *s, const dap_request *request)
{
    dap_output out;
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    tv_json_key(w, "stackFrames");
    tv_json_begin_array(w);
    if (tv_dap_integer(request, "startFrame", 0) <= 0)
        write_frame(s, w);
    tv_json_end_array(w);
    tv_json_integer_member(w, "totalFrames", 1);
    tv_dap_send(s, &out);
}

void tv_dap_exception_info(dap *s, const dap_request *request)
{
    const tv_fault *fault = tv_machine_fault(tv_debug_machine(s->debug));
    tv_buf name = {0};
    dap_output out;
    if (!fault) {
        tv_dap_reject(s, request, "the machine is not stopped at a fault");
        return;
    }
    tv_buf_printf(&name, "%s %s", fault->code, fault->name);
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    tv_json_string_member(w, "exceptionId", tv_dap_text(s, &name));
    tv_json_string_member(w, "description", fault->message);
    tv_json_string_member(w, "breakMode", "always");
    tv_dap_send(s, &out);
    tv_buf_fini(&name);
}

/* ---- Stops ---- */

void tv_dap_send_terminated(dap *s)
{
    dap_output out;
    if (s->terminated)
        return;
    s->terminated = true;
    tv_json_integer_member(tv_dap_begin_event(&out, "exited"), "exitCode",
                           s->debug && tv_machine_fault(tv_debug_machine(s->debug)) ? 1 : 0);
    tv_dap_send(s, &out);
    tv_dap_send_event(s, "terminated");
}

static void send_stopped(dap *s, const tv_debug_stop *stop, const char *description)
{
    static const char *const reasons[] = {"entry",     "step",  "breakpoint", "data breakpoint",
                                          "exception", "pause", "entry",      "pause"};
    static_assert(TV_COUNTOF(reasons) == TV_DEBUG_INTERRUPTED + 1, "one name per reason");
    dap_output out;
    tv_json_writer *w = tv_dap_begin_event(&out, "stopped");
    tv_json_string_member(w, "reason", reasons[stop->reason]);
    tv_json_integer_member(w, "threadId", DAP_THREAD);
    tv_json_boolean_member(w, "allThreadsStopped", true);
    if (stop->reason != TV_DEBUG_STEP || stop->dropped_writes) /* a step needs no description */
        tv_json_string_member(w, "description", description);
    if (stop->breakpoint) {
        tv_json_key(w, "hitBreakpointIds");
        tv_json_begin_array(w);
        for (unsigned i = 0; i < stop->hit_count && i < TV_DEBUG_HITS_MAX; i++)
            tv_json_write_unsigned(w, stop->hits[i]);
        tv_json_end_array(w);
    }
    if (stop->reason == TV_DEBUG_FAULT)
        tv_json_string_member(w, "text", description);
    tv_dap_send(s, &out);
}

void tv_dap_send_stopped(dap *s, const tv_debug_stop *stop)
{
    tv_buf text = {0};
    char first[512];
    bool over = stop->reason == TV_DEBUG_END || stop->reason == TV_DEBUG_FAULT;
    tv_dap_drop_nodes(s);
    s->pause = false;
    tv_debug_print_stop(s->debug, stop, &text);
    const char *lines = tv_dap_text(s, &text);
    if (over || stop->reason == TV_DEBUG_WATCH)
        tv_dap_send_output(s, "console", lines);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(lines, "\n"), lines);
    if (over && !s->stop_on_end && (s->no_debug || stop->reason == TV_DEBUG_END))
        tv_dap_send_terminated(s);
    else
        send_stopped(s, stop, first);
    tv_buf_fini(&text);
}

/* ---- Runs ---- */

typedef tv_status run_function(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop);

/* Runs, and sends the stop unless the client is gone. The request has been answered. */
static void run_to_stop(dap *s, run_function *function)
{
    tv_debug_stop stop = {.reason = TV_DEBUG_STEP};
    tv_diag_sink sink = tv_dap_sink(s);
    tv_dap_drop_nodes(s);
    s->pause = false;
    s->running = true;
    tv_status status = function(s->debug, &sink, &stop);
    s->running = false;
    if (status == TV_ERR_MEMORY)
        s->failed = status;
    if (status != TV_OK) {
        tv_buf_str(&s->errors, s->errors.len ? "\n" : "the run failed\n");
        tv_dap_send_output(s, "stderr", tv_dap_error_text(s));
        stop.reason = TV_DEBUG_INTERRUPTED;
    }
    if (!s->broken && !s->ended)
        tv_dap_send_stopped(s, &stop);
}

static void respond_and_run(dap *s, const dap_request *request, run_function *function)
{
    tv_dap_respond(s, request);
    run_to_stop(s, function);
}

/* True if all programs have ended; forward runs then end the session. */
static bool is_at_end(dap *s)
{
    tv_debug_location location;
    tv_debug_current_location(s->debug, &location);
    return location.end && tv_debug_last_stop(s->debug).reason == TV_DEBUG_END;
}

void tv_dap_run(dap *s) { run_to_stop(s, tv_debug_continue); }

void tv_dap_continue(dap *s, const dap_request *request)
{
    dap_output out;
    tv_json_boolean_member(tv_dap_begin_response(&out, request), "allThreadsContinued", true);
    tv_dap_send(s, &out);
    if (is_at_end(s))
        tv_dap_send_terminated(s);
    else
        tv_dap_run(s);
}

void tv_dap_reverse_continue(dap *s, const dap_request *request)
{
    respond_and_run(s, request, tv_debug_reverse_continue);
}

/* Stops at the entry or continues, as after the launch. */
static tv_status restart_program(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    const dap *s = d->options.user;
    TV_TRY(tv_debug_restart(d, sink, stop));
    return s->stop_on_entry ? TV_OK : tv_debug_continue(d, sink, stop);
}

void tv_dap_restart(dap *s, const dap_request *request) { respond_and_run(s, request, restart_program); }

void tv_dap_pause(dap *s, const dap_request *request)
{
    tv_dap_respond(s, request);
    if (s->running)
        s->pause = true;
    else
        tv_dap_send_stopped(s, &(tv_debug_stop){.reason = TV_DEBUG_INTERRUPTED});
}

/* ---- Steps ---- */

enum { LINE_STEPS_MAX = 1000000 };

static tv_status step_instruction(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    return tv_debug_step(d, 1, sink, stop);
}

static tv_status step_back_instruction(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    return tv_debug_step_back(d, 1, sink, stop);
}

static bool is_same_line(const tv_debug_location *a, const tv_debug_location *b)
{
    return a->file && b->file && a->line == b->line && a->file == b->file && a->program == b->program && !b->end;
}

/* Steps to the next instruction of another line; a macro has many instructions of one line. */
static tv_status step_line(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    enum { POLL_STEPS = 1024 };
    tv_debug_location first, now;
    tv_debug_current_location(d, &first);
    for (uint64_t i = 1;; i++) {
        TV_TRY(tv_debug_step(d, 1, sink, stop));
        tv_debug_current_location(d, &now);
        if (stop->reason != TV_DEBUG_STEP || !is_same_line(&first, &now))
            return TV_OK;
        if (i % POLL_STEPS == 0 && tv_debug_poll_interrupt(d)) {
            stop->reason = TV_DEBUG_INTERRUPTED;
            return TV_OK;
        }
    }
}

static bool get_nth_location(tv_debug *d, uint64_t n, tv_debug_location *out)
{
    return tv_debug_instruction_location(d, tv_machine_nth_index(tv_debug_machine(d), n), out) != 0;
}

/* Steps back to the first instruction of the previous line. Searches the program first, and then goes back once. */
static tv_status step_back_line(tv_debug *d, const tv_diag_sink *sink, tv_debug_stop *stop)
{
    tv_debug_location here, now, before;
    uint64_t count = 0, next = tv_machine_next_index(tv_debug_machine(d));
    tv_debug_current_location(d, &here);
    while (count < next && count < LINE_STEPS_MAX) {
        count++;
        get_nth_location(d, next - count, &now);
        bool left = !is_same_line(&here, &now) || here.end;
        if (left && (count == next || !get_nth_location(d, next - count - 1, &before) || !is_same_line(&now, &before)))
            break;
    }
    return tv_debug_step_back(d, count ? count : 1, sink, stop);
}

static bool is_by_instruction(const dap_request *request)
{
    const char *granularity = tv_dap_string(request, "granularity");
    return granularity && strcmp(granularity, "instruction") == 0;
}

void tv_dap_next(dap *s, const dap_request *request)
{
    if (!is_at_end(s)) {
        respond_and_run(s, request, is_by_instruction(request) ? step_instruction : step_line);
        return;
    }
    tv_dap_respond(s, request);
    tv_dap_send_terminated(s);
}

void tv_dap_step_back(dap *s, const dap_request *request)
{
    respond_and_run(s, request, is_by_instruction(request) ? step_back_instruction : step_back_line);
}

void tv_dap_step_out(dap *s, const dap_request *request)
{
    tv_dap_reject(s, request, "these machines have no calls to step out of");
}
