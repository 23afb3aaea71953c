/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs share: argument errors and the description of a stop. */
#include <stdarg.h>

#include "debug/console/console.h"

tv_status tv_debug_fail_argument(debug_call *call, const char *hint, const char *format, ...)
{
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), hint, "%s: %s", call->name, message);
}

static void write_location(tv_json_writer *json, tv_debug *d)
{
    tv_debug_location location;
    tv_debug_current_location(d, &location);
    tv_json_unsigned_member(json, "program", location.program);
    tv_json_unsigned_member(json, "index", location.index);
    tv_json_unsigned_member(json, "position", location.position);
    tv_json_boolean_member(json, "end", location.end);
    tv_json_string_member(json, "label", location.label);
    tv_json_unsigned_member(json, "offset", location.offset);
    tv_json_string_member(json, "file", location.file);
    tv_json_unsigned_member(json, "line", location.line);
    tv_json_string_member(json, "instruction", location.text);
    if (d->options.mode != TV_MODE_FUNCTIONAL)
        tv_json_unsigned_member(json, "cycle", tv_debug_clock(d));
}

void tv_debug_write_stop(debug_call *call, const tv_debug_stop *stop)
{
    tv_json_writer *json = call->json;
    const tv_fault *fault = tv_machine_fault(call->d->machine);
    tv_json_key(json, "stop");
    tv_json_begin_object(json);
    write_location(json, call->d);
    tv_json_string_member(json, "reason", tv_debug_reason_name(stop->reason));
    if (stop->breakpoint)
        tv_json_unsigned_member(json, "breakpoint", stop->breakpoint);
    if (stop->hit_count > 1) {
        tv_json_key(json, "breakpoints");
        tv_json_begin_array(json);
        for (unsigned i = 0; i < stop->hit_count && i < TV_DEBUG_HITS_MAX; i++)
            tv_json_write_unsigned(json, stop->hits[i]);
        tv_json_end_array(json);
    }
    if (stop->watchpoint) {
        tv_json_key(json, "access");
        tv_json_begin_object(json);
        tv_json_string_member(json, "space", stop->access.space);
        tv_json_unsigned_member(json, "addr", stop->access.addr);
        tv_json_unsigned_member(json, "bytes", stop->access.bytes);
        tv_json_boolean_member(json, "write", stop->access.write);
        tv_json_end_object(json);
    }
    if (fault) {
        tv_json_key(json, "fault");
        tv_json_begin_object(json);
        tv_json_string_member(json, "code", fault->code);
        tv_json_string_member(json, "name", fault->name);
        tv_json_integer_member(json, "index", (int64_t)fault->index);
        tv_json_string_member(json, "message", fault->message);
        tv_json_end_object(json);
    }
    if (stop->dropped_writes)
        tv_json_unsigned_member(json, "dropped_writes", stop->dropped_writes);
    tv_json_end_object(json);
    tv_debug_print_stop(call->d, stop, call->text);
}
