/* SPDX-License-Identifier: Apache-2.0 */
/* disas and list: the program as instructions and as source lines. Repeated without arguments, both continue where they
 * ended, unless the machine has moved. */
#include <inttypes.h>

#include "debug/console/console.h"

/* ---- disas ---- */

/* The instructions to show: [*from, *to). */
static tv_status parse_instruction_range(debug_call *call, uint64_t *from, uint64_t *to)
{
    enum { BEFORE = 4, AFTER = 8, SHOWN = 12, SHOWN_MAX = 100000 };
    tv_debug *d = call->d;
    uint64_t next = tv_machine_next_index(d->machine), count = tv_program_instruction_count(d->programs[d->program]);
    char first[256];
    if (call->count == 0) {
        bool repeated =
            d->disassembled.next && d->disassembled.next < count && d->disassembled.position == tv_debug_position(d);
        *from = repeated ? d->disassembled.next : next > BEFORE ? next - BEFORE : 0;
        *to = tv_min_u64(repeated ? *from + SHOWN : next + AFTER, count);
        return TV_OK;
    }
    snprintf(first, sizeof first, "%s", call->args[0]);
    char *comma = strchr(first, ',');
    const char *second = comma && comma[1] ? comma + 1 : call->count > 1 ? call->args[1] : NULL;
    if (comma)
        *comma = '\0';
    TV_TRY(tv_debug_parse_index(call->d, first, call->sink, from));
    *to = tv_min_u64(*from + SHOWN, count);
    if (second) {
        TV_TRY(tv_debug_parse_index(call->d, second, call->sink, to));
        ++*to;
    }
    if (*to <= *from || *to - *from > SHOWN_MAX)
        return tv_debug_fail_argument(call, "disas FROM,TO", "the range is empty or too long");
    return TV_OK;
}

tv_status tv_debug_verb_disas(debug_call *call)
{
    tv_debug *d = call->d;
    tv_debug_location location, here;
    uint64_t from, to;
    TV_TRY(parse_instruction_range(call, &from, &to));
    tv_debug_current_location(d, &here);
    tv_json_key(call->json, "instructions");
    tv_json_begin_array(call->json);
    for (uint64_t i = from; i < to && tv_debug_instruction_location(d, i, &location); i++) {
        if (location.label && location.offset == 0)
            tv_buf_printf(call->text, "%s:\n", location.label);
        tv_buf_printf(call->text, "%s %5" PRIu64 "  %s\n", i == here.index && !here.end ? "=>" : "  ", i,
                      location.text);
        tv_json_begin_object(call->json);
        tv_json_unsigned_member(call->json, "index", i);
        tv_json_string_member(call->json, "instruction", location.text);
        tv_json_string_member(call->json, "file", location.file);
        tv_json_unsigned_member(call->json, "line", location.line);
        tv_json_end_object(call->json);
    }
    tv_json_end_array(call->json);
    d->disassembled = (debug_cursor){.position = tv_debug_position(d), .next = to};
    return TV_OK;
}

/* ---- list ---- */

/* Line `line` (1-based) of `text`, or NULL. *length excludes the newline. */
static const char *find_line_text(const char *text, uint64_t line, size_t *length)
{
    while (--line && text) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    *length = text ? strcspn(text, "\n") : 0;
    return text && *text ? text : NULL;
}

static uint64_t count_lines(const char *text)
{
    uint64_t lines = 0;
    for (const char *end; *text; text = *end ? end + 1 : end, lines++)
        end = text + strcspn(text, "\n");
    return lines;
}

/* Shows SHOWN lines of `file` from `from` on, and marks line `current` (0: none). */
static tv_status show_lines(debug_call *call, const char *file, uint64_t from, uint64_t current)
{
    enum { SHOWN = 11, LINE_MAX_BYTES = 500 };
    tv_buf text = {0};
    tv_status status = tv_debug_read_source(file, &text);
    const char *source = status == TV_OK ? tv_buf_cstr_or_null(&text) : "";
    if (status == TV_ERR_MEMORY || !source) {
        tv_buf_fini(&text);
        return tv_fail_memory(call->sink);
    }
    if (status != TV_OK) {
        tv_buf_fini(&text);
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_LOCATION),
                       "start the debugger in the directory of the sources; `disas` shows the instructions",
                       "cannot read the source file '%.200s'", file);
    }
    tv_json_string_member(call->json, "file", file);
    tv_json_unsigned_member(call->json, "first", from);
    tv_json_key(call->json, "lines");
    tv_json_begin_array(call->json);
    size_t length;
    const char *line;
    uint64_t i = from;
    for (; i < from + SHOWN && (line = find_line_text(source, i, &length)); i++) {
        char copy[LINE_MAX_BYTES + 1];
        snprintf(copy, sizeof copy, "%.*s", length < LINE_MAX_BYTES ? (int)length : LINE_MAX_BYTES, line);
        for (char *p = copy; *p; p++) /* no control sequences for the terminal */
            *p = (unsigned char)*p < 32 && *p != '\t' ? ' ' : *p;
        tv_buf_printf(call->text, "%s %5" PRIu64 "  %s\n", i == current ? "=>" : "  ", i, copy);
        tv_json_write_string(call->json, copy);
    }
    tv_json_end_array(call->json);
    uint64_t all = count_lines(source);
    tv_buf_fini(&text);
    if (i == from)
        return tv_debug_fail_argument(call, "list LINE shows the lines around one", "'%.200s' has %" PRIu64 " lines",
                                      file, all);
    call->d->listed = (debug_cursor){.position = tv_debug_position(call->d), .next = i > from ? i : 0, .file = file};
    return TV_OK;
}

/* The program's source file that `name` is a suffix of. */
static tv_status find_source(debug_call *call, const char *name, const char **file)
{
    unsigned line = 1, program;
    uint64_t index;
    tv_source_line at;
    if (!tv_debug_find_line(call->d, name, &line, &program, &index) ||
        !tv_program_line(call->d->programs[program], index, &at))
        return tv_debug_fail_argument(call, "`info program` lists the files", "the program has no source file '%.80s'",
                                      name);
    *file = at.file;
    return TV_OK;
}

tv_status tv_debug_verb_list(debug_call *call)
{
    enum { BEFORE = 5 };
    tv_debug *d = call->d;
    tv_debug_location location;
    uint64_t next = tv_machine_next_index(d->machine), count = tv_program_instruction_count(d->programs[d->program]);
    bool at_end = next >= count;
    if (!tv_debug_instruction_location(d, at_end ? count - (count > 0) : tv_machine_nth_index(d->machine, next),
                                       &location) ||
        !location.file)
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_LOCATION), "`disas` shows its instructions",
                       "the program has no source lines");
    uint64_t current = at_end ? 0 : location.line, line = location.line;
    const char *file = location.file;
    if (!call->count && d->listed.next && d->listed.position == tv_debug_position(d))
        return show_lines(call, d->listed.file, d->listed.next, strcmp(file, d->listed.file) == 0 ? current : 0);
    if (call->count) {
        char name[512];
        const char *colon = strrchr(call->args[0], ':');
        if (!tv_debug_parse_number(colon ? colon + 1 : call->args[0], &line) || line == 0 || line > UINT32_MAX)
            return tv_debug_fail_argument(call, "list LINE, or list FILE:LINE", "'%.40s' is not a line", call->args[0]);
        if (colon && colon != call->args[0]) {
            snprintf(name, sizeof name, "%.*s", (int)(colon - call->args[0]), call->args[0]);
            TV_TRY(find_source(call, name, &file));
            current = strcmp(file, location.file) == 0 ? current : 0;
        }
    }
    return show_lines(call, file, line > BEFORE ? line - BEFORE : 1, current);
}
