/* SPDX-License-Identifier: Apache-2.0 */
/* Breakpoints by request: each kind is set anew as a whole, those of lines file by file. */
#include "debug/dap/dap.h"

#include <inttypes.h>
#include <stdlib.h>

enum { REQUEST_MAX = 2000 };

static void forget(dap *s, dap_source source, const char *file)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->breakpoint_count; i++) {
        dap_breakpoint *b = &s->breakpoints[i];
        if (b->source != source || (file && strcmp(b->file, file) != 0)) {
            s->breakpoints[kept++] = *b;
            continue;
        }
        if (s->debug)
            tv_debug_break_delete(s->debug, b->number, NULL);
        free(b->file);
    }
    s->breakpoint_count = kept;
}

void dap_forget_breakpoints(dap *s)
{
    for (size_t i = 0; i < s->breakpoint_count; i++)
        free(s->breakpoints[i].file);
    free(s->breakpoints);
    s->breakpoints = NULL;
    s->breakpoint_count = 0;
}

static bool keep(dap *s, dap_source source, const char *file, unsigned number)
{
    if (s->breakpoint_count == s->breakpoint_cap) {
        size_t cap = s->breakpoint_cap ? 2 * s->breakpoint_cap : 16;
        dap_breakpoint *list = realloc(s->breakpoints, cap * sizeof *list);
        if (!list)
            return false;
        s->breakpoints = list;
        s->breakpoint_cap = cap;
    }
    char *copy = file ? strdup(file) : NULL;
    if (file && !copy)
        return false;
    s->breakpoints[s->breakpoint_count++] = (dap_breakpoint){source, copy, number};
    return true;
}

/* Sets one, and says how that went. */
static json_t *set(dap *s, dap_source source, const char *file, const tv_break *wanted, tv_status status)
{
    tv_diag_sink sink = {0};
    unsigned number = 0;
    if (status == TV_OK) {
        sink = dap_sink(s);
        status = tv_debug_break_add(s->debug, wanted, &sink, &number);
    }
    if (status == TV_OK && !keep(s, source, file, number)) {
        tv_debug_break_delete(s->debug, number, NULL);
        status = TV_ERR_MEMORY;
    }
    if (status != TV_OK)
        return json_pack("{s:b, s:o}", "verified", 0, "message", debug_json_text(dap_said(s)));
    tv_break b = {0};
    for (unsigned i = 0; tv_debug_break_at(s->debug, i, &b) && b.number != number; i++)
        continue;
    json_t *object = json_pack("{s:b, s:I}", "verified", 1, "id", (json_int_t)number);
    if (source == DAP_LINES)
        json_object_set_new(object, "line",
                            json_integer((json_int_t)b.value + s->first_line - (b.kind == TV_BREAK_LINE)));
    return object;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? text : NULL;
}

static void answer(dap *s, const json_t *request, json_t *list)
{
    dap_respond(s, request, json_pack("{s:o}", "breakpoints", list));
}

/* The breakpoints that a request is for; false: they are too many, and it has been refused. */
static bool take_wanted(dap *s, const json_t *request, json_t **list)
{
    *list = dap_argument(request, "breakpoints");
    if (json_array_size(*list) <= REQUEST_MAX)
        return true;
    char text[64];
    snprintf(text, sizeof text, "a request may have %d breakpoints", REQUEST_MAX);
    dap_refuse(s, request, text);
    return false;
}

/* "condition" and "hitCondition"; the latter is a number N, or ">= N": from the Nth time on. */
static tv_status read_conditions(const json_t *object, const tv_diag_sink *sink, tv_break *out)
{
    const char *hits = text_of(object, "hitCondition");
    uint64_t number;
    out->condition = text_of(object, "condition");
    if (!hits)
        return TV_OK;
    const char *digits = hits + strspn(hits, " ");
    digits += strncmp(digits, ">=", 2) == 0 ? 2 : 0;
    digits += strspn(digits, " ");
    if (!debug_parse_number(digits, &number) || number == 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "a number N stops from the Nth time on",
                       "the hit count '%.40s' cannot be read", hits);
    out->skip = number - 1;
    return TV_OK;
}

/* ---- Lines ---- */

static bool same_path(const char *known, const char *path)
{
    size_t n = strlen(known), m = strlen(path);
    if (strcmp(known, path) == 0 ||
        (m > n && known[0] != '/' && path[m - n - 1] == '/' && strcmp(path + m - n, known) == 0))
        return true;
    char *a = realpath(known, NULL), *b = realpath(path, NULL);
    bool same = a && b && strcmp(a, b) == 0;
    free(a);
    free(b);
    return same;
}

/* The program's own name for a file. */
static const char *known_file(const dap *s, const char *path)
{
    enum { SEEN = 16 };
    const char *seen[SEEN] = {NULL}; /* those that are not it, the last ones: to compare paths is slow */
    unsigned count = 0;
    for (unsigned p = 0; p < s->program_count; p++) {
        tv_source_line at;
        for (uint64_t i = 0, n = tv_program_instruction_count(s->programs[p]); i < n; i++) {
            bool known = !tv_program_line(s->programs[p], i, &at);
            for (unsigned k = 0; k < SEEN && !known; k++)
                known = seen[k] == at.file;
            if (known)
                continue;
            if (same_path(at.file, path))
                return at.file;
            seen[count++ % SEEN] = at.file;
        }
    }
    return NULL;
}

static json_t *set_line(dap *s, const char *key, const char *file, const json_t *one)
{
    json_int_t line = json_integer_value(json_object_get(one, "line")) - s->first_line + 1;
    tv_break b = {
        .kind = TV_BREAK_LINE, .text = file, .value = line > 0 && line <= UINT32_MAX ? (uint64_t)line : UINT32_MAX};
    tv_diag_sink sink = dap_sink(s);
    tv_status status = read_conditions(one, &sink, &b);
    return set(s, DAP_LINES, key, &b, status);
}

/* A line of the list of a program's instructions. */
static json_t *set_listed(dap *s, const char *key, unsigned program, const json_t *one)
{
    json_int_t line = json_integer_value(json_object_get(one, "line")) - s->first_line;
    tv_break b = {.kind = TV_BREAK_INDEX, .program = program, .value = line >= 0 ? (uint64_t)line : UINT64_MAX};
    tv_diag_sink sink = dap_sink(s);
    tv_status status = read_conditions(one, &sink, &b);
    return set(s, DAP_LINES, key, &b, status);
}

void dap_set_breakpoints(dap *s, const json_t *request)
{
    const json_t *source = dap_argument(request, "source");
    const char *path = text_of(source, "path");
    json_t *wanted, *list;
    unsigned program = 0;
    char key[32];
    bool listed = dap_listed_program(s, source, &program);
    snprintf(key, sizeof key, "program %u", program);
    path = listed ? key : path;
    if (!path) {
        dap_refuse(s, request, "the source has no path");
        return;
    }
    if (!take_wanted(s, request, &wanted))
        return;
    list = json_array();
    const char *file = listed ? NULL : known_file(s, path);
    forget(s, DAP_LINES, path);
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const json_t *one = json_array_get(wanted, i);
        if (listed)
            json_array_append_new(list, set_listed(s, key, program, one));
        else if (file)
            json_array_append_new(list, set_line(s, path, file, one));
        else
            json_array_append_new(list, json_pack("{s:b, s:s}", "verified", 0, "message",
                                                  "no instruction of the program was written in this file"));
    }
    answer(s, request, list);
}

/* ---- Labels, instructions ---- */

void dap_set_function_breakpoints(dap *s, const json_t *request)
{
    json_t *wanted, *list;
    if (!take_wanted(s, request, &wanted))
        return;
    list = json_array();
    forget(s, DAP_LABELS, NULL);
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const json_t *one = json_array_get(wanted, i);
        const char *name = text_of(one, "name");
        char file[DEBUG_FILE_MAX];
        tv_break b = {0};
        tv_diag_sink sink = dap_sink(s);
        tv_status status = debug_parse_break(s->debug, name ? name : "", file, &sink, &b);
        if (status == TV_OK)
            status = read_conditions(one, &sink, &b);
        json_array_append_new(list, set(s, DAP_LABELS, NULL, &b, status));
    }
    answer(s, request, list);
}

void dap_set_instruction_breakpoints(dap *s, const json_t *request)
{
    json_t *wanted, *list;
    if (!take_wanted(s, request, &wanted))
        return;
    list = json_array();
    forget(s, DAP_INSTRUCTIONS, NULL);
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const json_t *one = json_array_get(wanted, i);
        int64_t index = -1;
        tv_break b = {.kind = TV_BREAK_INDEX};
        tv_diag_sink sink = dap_sink(s);
        tv_status status = read_conditions(one, &sink, &b);
        bool fine = dap_reference(s, text_of(one, "instructionReference"),
                                  json_integer_value(json_object_get(one, "offset")), &b.program, &index) &&
                    index >= 0;
        b.value = (uint64_t)index;
        json_array_append_new(list, set(s, DAP_INSTRUCTIONS, NULL, &b, fine ? status : TV_ERR_INPUT));
    }
    answer(s, request, list);
}

void dap_set_exception_breakpoints(dap *s, const json_t *request)
{
    answer(s, request, json_array());
} /* faults always stop */

/* ---- Data ---- */

/* "SPACE:ADDR:BYTES" of a variable that is a space's unit, or of such an expression. */
static bool data_id(dap *s, const json_t *request, char id[160])
{
    const char *name = dap_text(request, "name"), *rest;
    json_int_t reference = dap_integer(request, "variablesReference", 0);
    dap_node node;
    tv_space space;
    uint64_t addr, bytes;
    tv_machine *machine = tv_debug_machine(s->debug);
    if (!name)
        return false;
    if (reference > 0) {
        if (!dap_node_at(s, reference, &node) || (node.kind != DAP_SPACE && node.kind != DAP_UNIT) ||
            sscanf(name, "[%" SCNu64 "]", &addr) != 1)
            return false;
        tv_machine_space_at(machine, node.index, &space);
        addr = node.kind == DAP_UNIT ? node.unit : addr; /* a lane is watched with its unit */
        bytes = space.unit_bytes;
    } else {
        if (tv_machine_parse_address(machine, (const tv_program *const *)s->programs, s->program_count, name, NULL,
                                     &space, &addr, &rest) != TV_OK)
            return false;
        bytes = (uint64_t)dap_integer(request, "bytes", (json_int_t)space.unit_bytes);
        if (rest && !debug_parse_number(rest, &bytes))
            return false;
    }
    if (addr >= space.size || bytes == 0 || bytes > (space.size - addr) * space.unit_bytes)
        return false;
    snprintf(id, 160, "%s %" PRIu64 " %" PRIu64, space.name, addr, bytes);
    return true;
}

void dap_data_breakpoint_info(dap *s, const json_t *request)
{
    char id[160];
    if (data_id(s, request, id))
        dap_respond(s, request,
                    json_pack("{s:s, s:s, s:[s,s,s]}", "dataId", id, "description", id, "accessTypes", "read", "write",
                              "readWrite"));
    else
        dap_respond(s, request,
                    json_pack("{s:n, s:s}", "dataId", "description", "this cannot be watched; SPACE:ADDR[:BYTES] can"));
}

void dap_set_data_breakpoints(dap *s, const json_t *request)
{
    json_t *wanted, *list;
    if (!take_wanted(s, request, &wanted))
        return;
    list = json_array();
    forget(s, DAP_DATA, NULL);
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const json_t *one = json_array_get(wanted, i);
        const char *id = text_of(one, "dataId"), *access = text_of(one, "accessType");
        char space[32] = "", where[160];
        tv_break b = {.kind = TV_BREAK_WATCH, .text = space, .where = where};
        char extra;
        bool fine = id && sscanf(id, "%31s %" SCNu64 " %" SCNu64 "%c", space, &b.value, &b.bytes, &extra) == 3;
        snprintf(where, sizeof where, "%s:%" PRIu64 ":%" PRIu64, space, b.value, b.bytes);
        b.reads = access && strncmp(access, "read", 4) == 0;
        b.writes = !access || strcmp(access, "read") != 0;
        tv_diag_sink sink = dap_sink(s);
        tv_status status = read_conditions(one, &sink, &b);
        json_array_append_new(list, set(s, DAP_DATA, NULL, &b, fine ? status : TV_ERR_INPUT));
    }
    answer(s, request, list);
}
