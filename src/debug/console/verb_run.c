/* SPDX-License-Identifier: Apache-2.0 */
/* step, continue, until, run, restart, back, rcontinue, where, trace. */
#include "debug/console/console.h"

/* Ends a verb that ran the program: describes the stop if `status` is TV_OK. */
static tv_status finish_run(debug_call *call, tv_status status, const tv_debug_stop *stop)
{
    if (status != TV_OK)
        return status;
    call->stopped = true;
    tv_debug_write_stop(call, stop);
    return TV_OK;
}

static tv_status parse_count(debug_call *call, uint64_t *count)
{
    *count = 1;
    if (call->count && !tv_debug_parse_number(call->args[0], count))
        return tv_debug_fail_argument(call, NULL, "'%.40s' is not a number of instructions", call->args[0]);
    return TV_OK;
}

/* ---- Forwards ---- */

tv_status tv_debug_verb_step(debug_call *call)
{
    uint64_t count;
    tv_debug_stop stop;
    TV_TRY(parse_count(call, &count));
    return finish_run(call, tv_debug_step(call->d, count, call->sink, &stop), &stop);
}

tv_status tv_debug_verb_continue(debug_call *call)
{
    tv_debug_stop stop;
    return finish_run(call, tv_debug_continue(call->d, call->sink, &stop), &stop);
}

/* Runs from the start; a breakpoint on the first instruction stops there. */
tv_status tv_debug_verb_run(debug_call *call)
{
    tv_debug_stop stop;
    if (tv_debug_position(call->d))
        TV_TRY(tv_debug_restart(call->d, call->sink, &stop));
    if (!tv_debug_update_break_map(call->d))
        return tv_fail_memory(call->sink);
    if (!tv_debug_hit_here(call->d, true, &stop))
        TV_TRY(tv_debug_continue(call->d, call->sink, &stop));
    return finish_run(call, TV_OK, &stop);
}

/* Continues with a temporary breakpoint; other breakpoints may stop the run earlier. */
tv_status tv_debug_verb_until(debug_call *call)
{
    tv_break b = {.kind = TV_BREAK_INDEX, .program = call->d->program};
    tv_debug_stop stop;
    unsigned number;
    TV_TRY(tv_debug_parse_index(call->d, call->args[0], call->sink, &b.value));
    TV_TRY(tv_debug_break_add(call->d, &b, call->sink, &number));
    tv_status status = tv_debug_continue(call->d, call->sink, &stop);
    tv_debug_break_delete(call->d, number, NULL);
    if (call->d->next_number == number + 1)
        call->d->next_number--; /* the number was never shown: use it again */
    if (status == TV_OK && stop.reason == TV_DEBUG_BREAKPOINT && stop.breakpoint == number)
        stop = call->d->last = (tv_debug_stop){.reason = TV_DEBUG_STEP};
    return finish_run(call, status, &stop);
}

/* ---- Backwards ---- */

tv_status tv_debug_verb_back(debug_call *call)
{
    uint64_t count;
    tv_debug_stop stop;
    TV_TRY(parse_count(call, &count));
    return finish_run(call, tv_debug_step_back(call->d, count, call->sink, &stop), &stop);
}

tv_status tv_debug_verb_rcontinue(debug_call *call)
{
    tv_debug_stop stop;
    return finish_run(call, tv_debug_reverse_continue(call->d, call->sink, &stop), &stop);
}

tv_status tv_debug_verb_restart(debug_call *call)
{
    tv_debug_stop stop;
    return finish_run(call, tv_debug_restart(call->d, call->sink, &stop), &stop);
}

tv_status tv_debug_verb_where(debug_call *call) { return finish_run(call, TV_OK, &call->d->last); }

/* ---- Traces ---- */

static tv_status start_trace(debug_call *call)
{
    const char *path = call->args[1];
    if (strcmp(path, "-") == 0)
        return tv_debug_fail_argument(call, NULL, "a trace needs a file, not standard output");
    TV_TRY(tv_debug_trace_start(call->d, path, call->count == 3 ? TV_TRACE_PERFETTO : TV_TRACE_JSON, call->sink));
    tv_buf_printf(call->text, "tracing to %s\n", path);
    return TV_OK;
}

tv_status tv_debug_verb_trace(debug_call *call)
{
    bool on = strcmp(call->args[0], "on") == 0, off = strcmp(call->args[0], "off") == 0;
    if (on && call->count >= 2 && (call->count == 2 || strcmp(call->args[2], "perfetto") == 0))
        return start_trace(call);
    if (!off || call->count != 1)
        return tv_debug_fail_argument(call, "trace on FILE [perfetto], or trace off", "expected 'on FILE' or 'off'");
    if (!call->d->trace)
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`trace on FILE` starts one",
                       "no trace is being written");
    tv_buf_printf(call->text, "trace written to %s\n", call->d->trace_path ? call->d->trace_path : "its file");
    return tv_debug_finish_trace(call->d, NULL, call->sink);
}
