/* SPDX-License-Identifier: Apache-2.0 */
/* The commands about breakpoints. */
#include <inttypes.h>

#include "debug/debug.h"

/* Parts `rest` at " if ". */
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

static json_t *break_json(const tv_break *b)
{
    static const char *const kinds[] = {"index", "line", "opcode", "cycle", "fault", "watch"};
    return json_pack("{s:I, s:s, s:o, s:I, s:I, s:b, s:b, s:o, s:I, s:I}", "number", (json_int_t)b->number, "kind",
                     kinds[b->kind], "where", debug_json_text(b->where), "value", (json_int_t)b->value, "bytes",
                     (json_int_t)b->bytes, "once", b->once, "enabled", !b->disabled, "condition",
                     debug_json_text(b->condition), "skip", (json_int_t)b->skip, "hits", (json_int_t)b->hits);
}

static void print_break(tv_debug *d, const tv_break *b, tv_buf *out)
{
    tv_debug_location place;
    tv_buf_printf(out, "%-3u %s", b->number, b->once ? "once " : "");
    switch (b->kind) {
    case TV_BREAK_INDEX:
        tv_buf_printf(out, "instruction %" PRIu64, b->value);
        if (b->program == d->program && tv_debug_instruction_location(d, b->value, &place) &&
            (place.label || place.file)) {
            tv_buf_str(out, ", ");
            debug_print_place(&place, out);
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
    if (b->condition)
        tv_buf_printf(out, " if %s", b->condition);
    if (b->skip)
        tv_buf_printf(out, ", lets %" PRIu64 " hit%s pass", b->skip, b->skip == 1 ? "" : "s");
    tv_buf_printf(out, "%s\n", b->disabled ? ", disabled" : "");
}

static tv_status add(debug_call *call, tv_break *wanted)
{
    unsigned number;
    TV_TRY(tv_debug_break_add(call->d, wanted, call->sink, &number));
    for (unsigned i = 0; i < call->d->break_count; i++)
        if (call->d->breaks[i].info.number == number) {
            print_break(call->d, &call->d->breaks[i].info, call->text);
            json_object_set_new(call->json, "breakpoint", break_json(&call->d->breaks[i].info));
        }
    return TV_OK;
}

static tv_status add_break(debug_call *call, bool once)
{
    char where[512], file[DEBUG_FILE_MAX];
    tv_break b = {.once = once};
    if (!split_condition(call->rest, where, sizeof where, &b.condition))
        return debug_fail_argument(call, "break WHERE [if CONDITION]", "there is no place");
    TV_TRY(debug_parse_break(call->d, where, file, call->sink, &b));
    return add(call, &b);
}

tv_status debug_verb_break(debug_call *call) { return add_break(call, false); }

tv_status debug_verb_tbreak(debug_call *call) { return add_break(call, true); }

tv_status debug_verb_watch(debug_call *call)
{
    char where[512];
    const char *rest;
    tv_space space;
    tv_break b = {
        .kind = TV_BREAK_WATCH, .reads = call->name[0] != 'w', .writes = call->name[0] != 'r', .where = where};
    if (!split_condition(call->rest, where, sizeof where, &b.condition))
        return debug_fail_argument(call, "watch SPACE:ADDR[:BYTES]", "there is no address");
    TV_TRY(tv_machine_parse_address(call->d->machine, call->d->programs, call->d->count, where, call->sink, &space,
                                    &b.value, &rest));
    if (rest && (!debug_parse_number(rest, &b.bytes) || b.bytes == 0))
        return debug_fail_argument(call, "watch SPACE:ADDR[:BYTES]", "'%.40s' is no number of bytes", rest);
    b.text = space.name;
    return add(call, &b);
}

static bool is_number(debug_call *call, unsigned i, unsigned *number)
{
    uint64_t value;
    if (!debug_parse_number(call->words[i], &value) || value > UINT32_MAX)
        return false;
    *number = (unsigned)value;
    return true;
}

tv_status debug_verb_delete(debug_call *call)
{
    unsigned number;
    while (call->count == 0 && call->d->break_count)
        TV_TRY(tv_debug_break_delete(call->d, call->d->breaks[0].info.number, call->sink));
    for (unsigned i = 0; i < call->count; i++) {
        if (!is_number(call, i, &number))
            return debug_fail_argument(call, "`info break` lists the numbers", "'%.40s' is no number", call->words[i]);
        TV_TRY(tv_debug_break_delete(call->d, number, call->sink));
    }
    return TV_OK;
}

tv_status debug_verb_enable(debug_call *call)
{
    bool on = call->name[0] == 'e';
    unsigned number;
    for (unsigned i = 0; call->count == 0 && i < call->d->break_count; i++)
        TV_TRY(tv_debug_break_enable(call->d, call->d->breaks[i].info.number, on, call->sink));
    for (unsigned i = 0; i < call->count; i++) {
        if (!is_number(call, i, &number))
            return debug_fail_argument(call, "`info break` lists the numbers", "'%.40s' is no number", call->words[i]);
        TV_TRY(tv_debug_break_enable(call->d, number, on, call->sink));
    }
    return TV_OK;
}

tv_status debug_verb_ignore(debug_call *call)
{
    unsigned number;
    uint64_t count;
    if (!is_number(call, 0, &number) || !debug_parse_number(call->words[1], &count))
        return debug_fail_argument(call, "ignore NUMBER COUNT",
                                   "'%.40s %.40s' is no number of a breakpoint and a count", call->words[0],
                                   call->words[1]);
    TV_TRY(tv_debug_break_skip(call->d, number, count, call->sink));
    tv_break b;
    for (unsigned i = 0; tv_debug_break_at(call->d, i, &b); i++)
        if (b.number == number) {
            print_break(call->d, &b, call->text);
            json_object_set_new(call->json, "breakpoint", break_json(&b));
        }
    return TV_OK;
}

void debug_info_breaks(debug_call *call)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < call->d->break_count; i++) {
        const tv_break *b = &call->d->breaks[i].info;
        print_break(call->d, b, call->text);
        if (b->hits)
            tv_buf_printf(call->text, "    hit %" PRIu64 " time%s\n", b->hits, b->hits == 1 ? "" : "s");
        json_array_append_new(list, break_json(b));
    }
    if (!call->d->break_count)
        tv_buf_str(call->text, "no breakpoints\n");
    json_object_set_new(call->json, "breakpoints", list);
}
