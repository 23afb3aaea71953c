/* SPDX-License-Identifier: Apache-2.0 */
/* break, tbreak, watch, rwatch, awatch, delete, disable, enable, ignore. */
#include <inttypes.h>

#include "debug/console/console.h"

/* ---- Output ---- */

static void write_break_json(tv_json_writer *json, const tv_break *b)
{
    static const char *const kinds[] = {"index", "line", "opcode", "cycle", "fault", "watch"};
    static_assert(TV_COUNTOF(kinds) == TV_BREAK_WATCH + 1, "one name per kind");
    tv_json_begin_object(json);
    tv_json_unsigned_member(json, "number", b->number);
    tv_json_string_member(json, "kind", kinds[b->kind]);
    tv_json_string_member(json, "where", b->where);
    tv_json_unsigned_member(json, "value", b->value);
    tv_json_unsigned_member(json, "bytes", b->bytes);
    tv_json_boolean_member(json, "once", b->once);
    tv_json_boolean_member(json, "enabled", !b->disabled);
    tv_json_string_member(json, "condition", b->condition);
    tv_json_unsigned_member(json, "skip", b->skip);
    tv_json_unsigned_member(json, "hits", b->hits);
    tv_json_end_object(json);
}

static void print_break_location(tv_debug *d, const tv_break *b, tv_buf *out)
{
    tv_debug_location location;
    switch (b->kind) {
    case TV_BREAK_INDEX:
        tv_buf_printf(out, "instruction %" PRIu64, b->value);
        if (b->program == d->program && tv_debug_instruction_location(d, b->value, &location) &&
            (location.label || location.file)) {
            tv_buf_str(out, ", ");
            tv_debug_print_location(&location, out);
        }
        break;
    case TV_BREAK_LINE:
        tv_buf_printf(out, "%s:%" PRIu64, b->text, b->value);
        break;
    case TV_BREAK_OPCODE:
        tv_buf_printf(out, "every %s", b->text);
        break;
    case TV_BREAK_CYCLE:
        tv_buf_printf(out, "cycle %" PRIu64, b->value);
        break;
    case TV_BREAK_FAULT:
        tv_buf_str(out, "a fault");
        break;
    case TV_BREAK_WATCH:
        tv_buf_printf(out, "%s of %" PRIu64 " byte%s at %s",
                      b->reads && b->writes ? "reads and writes"
                      : b->reads            ? "reads"
                                            : "writes",
                      b->bytes, b->bytes == 1 ? "" : "s", b->where);
        break;
    }
}

static void print_break(tv_debug *d, const tv_break *b, tv_buf *out)
{
    tv_buf_printf(out, "%-3u %s", b->number, b->once ? "once " : "");
    print_break_location(d, b, out);
    if (b->condition)
        tv_buf_printf(out, " if %s", b->condition);
    if (b->skip)
        tv_buf_printf(out, ", skips %" PRIu64 " hit%s", b->skip, b->skip == 1 ? "" : "s");
    tv_buf_printf(out, "%s\n", b->disabled ? ", disabled" : "");
}

static void write_break(debug_call *call, unsigned number)
{
    tv_break b;
    for (unsigned i = 0; tv_debug_break_at(call->d, i, &b); i++)
        if (b.number == number) {
            print_break(call->d, &b, call->text);
            tv_json_key(call->json, "breakpoint");
            write_break_json(call->json, &b);
        }
}

void tv_debug_write_breakpoints(debug_call *call)
{
    tv_break b;
    tv_json_key(call->json, "breakpoints");
    tv_json_begin_array(call->json);
    for (unsigned i = 0; tv_debug_break_at(call->d, i, &b); i++) {
        print_break(call->d, &b, call->text);
        if (b.hits)
            tv_buf_printf(call->text, "    hit %" PRIu64 " time%s\n", b.hits, b.hits == 1 ? "" : "s");
        write_break_json(call->json, &b);
    }
    tv_json_end_array(call->json);
    if (!call->d->breaks.count)
        tv_buf_str(call->text, "no breakpoints\n");
}

/* ---- Adding ---- */

/* Splits "WHERE [if CONDITION]". *condition points into `rest`, or is NULL. Returns false if WHERE is empty or does
 * not fit. */
static bool split_condition(const char *rest, char *where, size_t size, const char **condition)
{
    const char *at = strstr(rest, " if ");
    size_t n = at ? (size_t)(at - rest) : strlen(rest);
    while (n && strchr(" \t\r\n", rest[n - 1]))
        n--;
    *condition = at ? at + 4 : NULL;
    if (n >= size)
        return false;
    memcpy(where, rest, n);
    where[n] = '\0';
    return n > 0;
}

static tv_status add_break(debug_call *call, tv_break *requested)
{
    unsigned number = 0;
    TV_TRY(tv_debug_break_add(call->d, requested, call->sink, &number));
    write_break(call, number);
    return TV_OK;
}

static tv_status add_location_break(debug_call *call, bool once)
{
    char where[512], file[DEBUG_FILE_MAX];
    tv_break b = {.once = once};
    if (!split_condition(call->rest, where, sizeof where, &b.condition))
        return tv_debug_fail_argument(call, "break WHERE [if CONDITION]", "the location is missing");
    TV_TRY(tv_debug_parse_break(call->d, where, file, call->sink, &b));
    return add_break(call, &b);
}

tv_status tv_debug_verb_break(debug_call *call) { return add_location_break(call, false); }

tv_status tv_debug_verb_tbreak(debug_call *call) { return add_location_break(call, true); }

static tv_status add_watch(debug_call *call, bool reads, bool writes)
{
    char where[512];
    const char *rest;
    tv_space space;
    tv_break b = {.kind = TV_BREAK_WATCH, .reads = reads, .writes = writes, .where = where};
    if (!split_condition(call->rest, where, sizeof where, &b.condition))
        return tv_debug_fail_argument(call, "watch SPACE:ADDR[:BYTES]", "the address is missing");
    TV_TRY(tv_machine_parse_address(call->d->machine, call->d->programs, call->d->count, where, call->sink, &space,
                                    &b.value, &rest));
    if (rest && (!tv_debug_parse_number(rest, &b.bytes) || b.bytes == 0))
        return tv_debug_fail_argument(call, "watch SPACE:ADDR[:BYTES]", "'%.40s' is not a number of bytes", rest);
    b.text = space.name;
    return add_break(call, &b);
}

tv_status tv_debug_verb_watch(debug_call *call) { return add_watch(call, false, true); }

tv_status tv_debug_verb_rwatch(debug_call *call) { return add_watch(call, true, false); }

tv_status tv_debug_verb_awatch(debug_call *call) { return add_watch(call, true, true); }

/* ---- Changing ---- */

static tv_status parse_break_number(debug_call *call, const char *text, unsigned *number)
{
    uint64_t value;
    if (!tv_debug_parse_number(text, &value) || value > UINT32_MAX)
        return tv_debug_fail_argument(call, "`info break` lists the numbers", "'%.40s' is not a breakpoint number",
                                      text);
    *number = (unsigned)value;
    return TV_OK;
}

tv_status tv_debug_verb_delete(debug_call *call)
{
    unsigned number = 0;
    while (call->count == 0 && call->d->breaks.count)
        TV_TRY(tv_debug_break_delete(call->d, call->d->breaks.data[0].info.number, call->sink));
    for (unsigned i = 0; i < call->count; i++) {
        TV_TRY(parse_break_number(call, call->args[i], &number));
        TV_TRY(tv_debug_break_delete(call->d, number, call->sink));
    }
    return TV_OK;
}

static tv_status enable_breaks(debug_call *call, bool enable)
{
    unsigned number = 0;
    for (unsigned i = 0; call->count == 0 && i < call->d->breaks.count; i++)
        TV_TRY(tv_debug_break_enable(call->d, call->d->breaks.data[i].info.number, enable, call->sink));
    for (unsigned i = 0; i < call->count; i++) {
        TV_TRY(parse_break_number(call, call->args[i], &number));
        TV_TRY(tv_debug_break_enable(call->d, number, enable, call->sink));
    }
    return TV_OK;
}

tv_status tv_debug_verb_enable(debug_call *call) { return enable_breaks(call, true); }

tv_status tv_debug_verb_disable(debug_call *call) { return enable_breaks(call, false); }

tv_status tv_debug_verb_ignore(debug_call *call)
{
    unsigned number = 0;
    uint64_t skip;
    TV_TRY(parse_break_number(call, call->args[0], &number));
    if (!tv_debug_parse_number(call->args[1], &skip))
        return tv_debug_fail_argument(call, "ignore NUMBER COUNT", "'%.40s' is not a count", call->args[1]);
    TV_TRY(tv_debug_break_skip(call->d, number, skip, call->sink));
    write_break(call, number);
    return TV_OK;
}
