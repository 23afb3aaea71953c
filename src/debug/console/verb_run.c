/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that run, and what is said when a run has stopped. */
#include <inttypes.h>
#include <stdlib.h>

#include "debug/debug.h"

/* ---- Stops ---- */

static json_t *place_json(tv_debug *d, const tv_debug_location *place)
{
    json_t *object = json_pack("{s:I, s:I, s:I, s:b, s:o, s:I, s:o, s:I, s:o}", "program", (json_int_t)place->program,
                               "index", (json_int_t)place->index, "position", (json_int_t)place->position, "end",
                               place->end, "label", debug_json_text(place->label), "offset", (json_int_t)place->offset,
                               "file", debug_json_text(place->file), "line", (json_int_t)place->line, "instruction",
                               debug_json_text(place->text));
    if (d->options.mode != TV_MODE_FUNCTIONAL)
        json_object_set_new(object, "cycle", json_integer((json_int_t)debug_clock(d)));
    return object;
}

static void tell_reason(tv_debug *d, const tv_debug_stop *stop, tv_buf *text)
{
    const tv_fault *fault = tv_machine_fault(d->machine);
    switch (stop->reason) {
    case TV_DEBUG_START:
        tv_buf_str(text, "at the start");
        break;
    case TV_DEBUG_STEP:
        return;
    case TV_DEBUG_BREAKPOINT:
        tv_buf_printf(text, "breakpoint %u", stop->breakpoint);
        break;
    case TV_DEBUG_WATCH:
        tv_buf_printf(text, "watch %u: the next instruction %s %" PRIu64 " byte%s at ", stop->breakpoint,
                      stop->access.write ? "writes" : "reads", stop->access.bytes, stop->access.bytes == 1 ? "" : "s");
        debug_print_address(d, stop->access.space, stop->access.addr, text);
        break;
    case TV_DEBUG_FAULT:
        if (fault)
            tv_buf_printf(text, "machine fault: %s [%s %s]", fault->message, fault->code, fault->name);
        break;
    case TV_DEBUG_END:
        tv_buf_printf(text, "%s ended", d->count > 1 ? "the programs have" : "the program has");
        break;
    case TV_DEBUG_BEGINNING:
        tv_buf_str(text, "nothing further back: at the start");
        break;
    case TV_DEBUG_INTERRUPTED:
        tv_buf_str(text, "interrupted");
        break;
    }
    tv_buf_str(text, "\n");
}

static json_t *fault_json(const tv_fault *f)
{
    return json_pack("{s:s, s:s, s:I, s:o}", "code", f->code, "name", f->name, "index", (json_int_t)f->index, "message",
                     debug_json_text(f->message));
}

void debug_tell_stop(tv_debug *d, const tv_debug_stop *stop, tv_buf *text, json_t *json)
{
    tv_debug_location place;
    tv_debug_current_location(d, &place);
    json_t *object = place_json(d, &place);
    json_object_set_new(object, "reason", json_string(tv_debug_reason_name(stop->reason)));
    if (stop->breakpoint)
        json_object_set_new(object, "breakpoint", json_integer(stop->breakpoint));
    if (stop->reason == TV_DEBUG_WATCH)
        json_object_set_new(object, "access",
                            json_pack("{s:s, s:I, s:I, s:b}", "space", stop->access.space, "addr",
                                      (json_int_t)stop->access.addr, "bytes", (json_int_t)stop->access.bytes, "write",
                                      stop->access.write));
    const tv_fault *fault = tv_machine_fault(d->machine);
    if (fault)
        json_object_set_new(object, "fault", fault_json(fault));
    if (stop->dropped_writes) {
        tv_buf_printf(text, "%" PRIu64 " later write%s undone\n", stop->dropped_writes,
                      stop->dropped_writes == 1 ? " is" : "s are");
        json_object_set_new(object, "undone", json_integer((json_int_t)stop->dropped_writes));
    }
    json_object_set_new(json, "stop", object);
    tell_reason(d, stop, text);
    if (place.end) {
        if (d->options.mode == TV_MODE_FUNCTIONAL)
            tv_buf_printf(text, "%" PRIu64 " instruction%s\n", place.position, place.position == 1 ? "" : "s");
        else
            tv_buf_printf(text, "%" PRIu64 " instruction%s, %" PRIu64 " cycles\n", place.position,
                          place.position == 1 ? "" : "s", debug_clock(d));
        return;
    }
    tv_buf_printf(text, "=> %" PRIu64 "  %s\n", place.index, place.text);
    if (!place.label && !place.file)
        return;
    tv_buf_str(text, "   ");
    debug_print_place(&place, text);
    if (d->count > 1)
        tv_buf_printf(text, "  program %u", place.program);
    tv_buf_str(text, "\n");
}

static tv_status stopped(debug_call *call, tv_status status, const tv_debug_stop *stop)
{
    if (status != TV_OK)
        return status;
    call->stopped = true;
    debug_tell_stop(call->d, stop, call->text, call->json);
    return TV_OK;
}

/* ---- Running ---- */

static tv_status count_of(debug_call *call, uint64_t *count)
{
    *count = 1;
    if (call->count && !debug_parse_number(call->words[0], count))
        return debug_fail_argument(call, NULL, "'%.40s' is no number of instructions", call->words[0]);
    return TV_OK;
}

tv_status debug_verb_step(debug_call *call)
{
    uint64_t count;
    tv_debug_stop stop;
    TV_TRY(count_of(call, &count));
    return stopped(call, tv_debug_step(call->d, count, call->sink, &stop), &stop);
}

tv_status debug_verb_back(debug_call *call)
{
    uint64_t count;
    tv_debug_stop stop;
    TV_TRY(count_of(call, &count));
    return stopped(call, tv_debug_step_back(call->d, count, call->sink, &stop), &stop);
}

tv_status debug_verb_continue(debug_call *call)
{
    tv_debug_stop stop;
    return stopped(call, tv_debug_continue(call->d, call->sink, &stop), &stop);
}

tv_status debug_verb_rcontinue(debug_call *call)
{
    tv_debug_stop stop;
    return stopped(call, tv_debug_reverse_continue(call->d, call->sink, &stop), &stop);
}

tv_status debug_verb_restart(debug_call *call)
{
    tv_debug_stop stop;
    return stopped(call, tv_debug_restart(call->d, call->sink, &stop), &stop);
}

/* From the start on; a breakpoint on the first instruction is one. */
tv_status debug_verb_run(debug_call *call)
{
    tv_debug_stop stop;
    if (debug_position(call->d))
        TV_TRY(tv_debug_restart(call->d, call->sink, &stop));
    if (!debug_mark(call->d))
        return tv_fail_memory(call->sink);
    if (!debug_hit_here(call->d, true, &stop))
        TV_TRY(tv_debug_continue(call->d, call->sink, &stop));
    return stopped(call, TV_OK, &stop);
}

/* A breakpoint for once, which other breakpoints may come before. */
tv_status debug_verb_until(debug_call *call)
{
    tv_break b = {.kind = TV_BREAK_INDEX, .program = call->d->program};
    tv_debug_stop stop;
    unsigned number;
    TV_TRY(debug_parse_index(call->d, call->words[0], call->sink, &b.value));
    TV_TRY(tv_debug_break_add(call->d, &b, call->sink, &number));
    tv_status status = tv_debug_continue(call->d, call->sink, &stop);
    tv_debug_break_delete(call->d, number, NULL);
    if (call->d->next_number == number + 1)
        call->d->next_number--; /* nobody has seen it */
    if (status == TV_OK && stop.reason == TV_DEBUG_BREAKPOINT && stop.breakpoint == number)
        stop = call->d->last = (tv_debug_stop){.reason = TV_DEBUG_STEP};
    return stopped(call, status, &stop);
}

tv_status debug_verb_where(debug_call *call) { return stopped(call, TV_OK, &call->d->last); }

/* ---- Traces ---- */

tv_status debug_trace_end(tv_debug *d, const tv_diag_sink *sink)
{
    if (!d->trace)
        return TV_OK;
    tv_machine_trace(d->machine, NULL);
    tv_status status = tv_trace_finish(d->trace, d->machine, sink);
    d->trace = NULL;
    free(d->trace_path);
    d->trace_path = NULL;
    return status;
}

static tv_status begin_trace(debug_call *call)
{
    tv_debug *d = call->d;
    bool perfetto = call->count == 3;
    if (d->options.mode == TV_MODE_FUNCTIONAL)
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), NULL, "a functional run has no cycles to trace");
    if (d->trace)
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`trace off` ends it",
                       "a trace is being written to %.200s", d->trace_path);
    if (strcmp(call->words[1], "-") == 0)
        return debug_fail_argument(call, NULL, "a trace needs a file of its own");
    TV_TRY(
        tv_trace_open(call->words[1], perfetto ? TV_TRACE_PERFETTO : TV_TRACE_JSON, d->machine, call->sink, &d->trace));
    d->trace_path = strdup(call->words[1]);
    tv_trace_sink sink = tv_trace_writer_sink(d->trace);
    tv_machine_trace(d->machine, &sink);
    tv_buf_printf(call->text, "tracing to %s\n", call->words[1]);
    return TV_OK;
}

tv_status debug_verb_trace(debug_call *call)
{
    bool on = strcmp(call->words[0], "on") == 0, off = strcmp(call->words[0], "off") == 0;
    if (on && call->count >= 2 && (call->count == 2 || strcmp(call->words[2], "perfetto") == 0))
        return begin_trace(call);
    if (!off || call->count != 1)
        return debug_fail_argument(call, "trace on FILE [perfetto], or trace off", "that is neither on nor off");
    if (!call->d->trace)
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`trace on FILE` begins one",
                       "no trace is being written");
    tv_buf_printf(call->text, "the trace is in %s\n", call->d->trace_path ? call->d->trace_path : "its file");
    return debug_trace_end(call->d, call->sink);
}
