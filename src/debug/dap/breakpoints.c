/* SPDX-License-Identifier: Apache-2.0 */
/* Breakpoints. A request of each kind replaces all breakpoints that earlier ones of its kind have set; for lines, those
 * of the same file. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "debug/dap/dap.h"

enum { REQUEST_MAX = 2000, DATA_ID_TEXT = 160 };

/* ---- The list ---- */

/* `file` NULL: all of that origin. */
static void delete_breakpoints(dap *s, dap_origin origin, const char *file)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->breakpoints.count; i++) {
        dap_breakpoint *b = &s->breakpoints.data[i];
        if (b->origin != origin || (file && strcmp(b->file, file) != 0)) {
            s->breakpoints.data[kept++] = *b;
            continue;
        }
        if (s->debug)
            tv_debug_break_delete(s->debug, b->number, NULL);
        free(b->file);
    }
    s->breakpoints.count = kept;
}

void tv_dap_breakpoints_fini(dap *s)
{
    for (size_t i = 0; i < s->breakpoints.count; i++)
        free(s->breakpoints.data[i].file);
    TV_VEC_FINI(&s->breakpoints);
}

static bool record_breakpoint(dap *s, dap_origin origin, const char *file, unsigned number)
{
    char *copy = file ? strdup(file) : NULL;
    if ((copy || !file) && TV_VEC_PUSH(&s->breakpoints, (dap_breakpoint){origin, copy, number}))
        return true;
    free(copy);
    return false;
}

/* ---- Requests and responses ---- */

/* The breakpoints in a request. Returns false, after rejecting the request, if there are too many. */
static bool parse_breakpoints(dap *s, const dap_request *request, const tv_json_value **list)
{
    *list = tv_dap_argument(request, "breakpoints");
    if (tv_json_count(*list) <= REQUEST_MAX)
        return true;
    char text[64];
    snprintf(text, sizeof text, "a request may have at most %d breakpoints", REQUEST_MAX);
    tv_dap_reject(s, request, text);
    return false;
}

static tv_json_writer *begin_breakpoints(dap_output *out, const dap_request *request)
{
    tv_json_writer *w = tv_dap_begin_response(out, request);
    tv_json_key(w, "breakpoints");
    tv_json_begin_array(w);
    return w;
}

static void send_breakpoints(dap *s, dap_output *out)
{
    tv_json_end_array(&out->json);
    tv_dap_send(s, out);
}

static void write_unverified(tv_json_writer *w, const char *message)
{
    tv_json_begin_object(w);
    tv_json_boolean_member(w, "verified", false);
    tv_json_string_member(w, "message", message);
    tv_json_end_object(w);
}

static void write_verified(dap *s, dap_origin origin, unsigned number, tv_json_writer *w)
{
    tv_break b = {0};
    for (unsigned i = 0; tv_debug_break_at(s->debug, i, &b) && b.number != number; i++)
        continue;
    tv_json_begin_object(w);
    tv_json_boolean_member(w, "verified", true);
    tv_json_unsigned_member(w, "id", number);
    if (origin == DAP_LINES)
        tv_json_integer_member(w, "line", (int64_t)b.value + s->first_line - (b.kind == TV_BREAK_LINE));
    tv_json_end_object(w);
}

/* Adds a breakpoint and writes the result; `status` is the result of parsing it. `file` NULL: not of a file. */
static void add_breakpoint(dap *s, dap_origin origin, const char *file, const tv_break *b, tv_status status,
                           tv_json_writer *w)
{
    unsigned number = 0;
    if (status == TV_OK) {
        tv_diag_sink sink = tv_dap_sink(s);
        status = tv_debug_break_add(s->debug, b, &sink, &number);
    }
    if (status == TV_OK && !record_breakpoint(s, origin, file, number)) {
        tv_debug_break_delete(s->debug, number, NULL);
        status = TV_ERR_MEMORY;
        s->failed = TV_ERR_MEMORY;
    }
    if (status == TV_OK)
        write_verified(s, origin, number, w);
    else
        write_unverified(w, tv_dap_error_text(s));
}

/* Parses "condition" and "hitCondition". The latter is N or ">= N": stop from the Nth hit on. */
static tv_status parse_conditions(const tv_json_value *object, const tv_diag_sink *sink, tv_break *out)
{
    const char *hits = tv_dap_nonempty(object, "hitCondition");
    uint64_t number;
    out->condition = tv_dap_nonempty(object, "condition");
    if (!hits)
        return TV_OK;
    const char *digits = hits + strspn(hits, " ");
    digits += strncmp(digits, ">=", 2) == 0 ? 2 : 0;
    digits += strspn(digits, " ");
    if (!tv_debug_parse_number(digits, &number) || number == 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "a number N stops from the Nth hit on",
                       "'%.40s' is not a hit count", hits);
    out->skip = number - 1;
    return TV_OK;
}

/* ---- Lines ---- */

static bool is_same_path(dap *s, const char *known, const char *path)
{
    size_t n = strlen(known), m = strlen(path);
    if (strcmp(known, path) == 0 ||
        (m > n && known[0] != '/' && path[m - n - 1] == '/' && strcmp(path + m - n, known) == 0))
        return true;
    errno = 0;
    char *a = realpath(known, NULL), *b = realpath(path, NULL);
    if (!a || !b)
        tv_dap_check_host(s, errno);
    bool same = a && b && strcmp(a, b) == 0;
    free(a);
    free(b);
    return same;
}

/* The name that the program's line table has for a file, or NULL. */
static const char *find_known_file(dap *s, const char *path)
{
    enum { CACHE = 16 };
    const char *rejected[CACHE] = {NULL}; /* the last names that differ; comparing paths is slow */
    unsigned count = 0;
    for (unsigned p = 0; p < s->program_count; p++) {
        tv_source_line at;
        for (uint64_t i = 0, n = tv_program_instruction_count(s->programs[p]); i < n; i++) {
            bool skip = !tv_program_line(s->programs[p], i, &at);
            for (unsigned k = 0; k < CACHE && !skip; k++)
                skip = rejected[k] == at.file;
            if (skip)
                continue;
            if (is_same_path(s, at.file, path))
                return at.file;
            rejected[count++ % CACHE] = at.file;
        }
    }
    return NULL;
}

/* The source of line breakpoints: a file of the program, or the generated listing of a program. */
typedef struct line_source {
    const char *key;  /* name under which breakpoints are recorded */
    const char *file; /* in the line table; NULL: unknown file, or listing */
    bool listing;
    unsigned program; /* of the listing */
} line_source;

static void add_line_breakpoint(dap *s, const line_source *source, const tv_json_value *object, tv_json_writer *w)
{
    int64_t line = tv_json_integer(tv_json_get(object, "line")) - s->first_line; /* from 0 */
    tv_break b = {.program = source->program};
    if (source->listing) {
        b.kind = TV_BREAK_INDEX;
        b.value = line >= 0 ? (uint64_t)line : UINT64_MAX;
    } else {
        b.kind = TV_BREAK_LINE;
        b.text = source->file;
        b.value = line >= 0 && line < UINT32_MAX ? (uint64_t)line + 1 : UINT32_MAX;
    }
    tv_diag_sink sink = tv_dap_sink(s);
    tv_status status = parse_conditions(object, &sink, &b);
    add_breakpoint(s, DAP_LINES, source->key, &b, status, w);
}

void tv_dap_set_breakpoints(dap *s, const dap_request *request)
{
    const tv_json_value *object = tv_dap_argument(request, "source"), *list;
    line_source source = {.key = tv_dap_nonempty(object, "path")};
    char key[32];
    dap_output out;
    if (tv_dap_parse_listing(s, object, &source.program)) {
        snprintf(key, sizeof key, "program %u", source.program);
        source.listing = true;
        source.key = key;
    }
    if (!source.key) {
        tv_dap_reject(s, request, "the source has no path");
        return;
    }
    if (!parse_breakpoints(s, request, &list))
        return;
    if (!source.listing)
        source.file = find_known_file(s, source.key);
    delete_breakpoints(s, DAP_LINES, source.key);
    tv_json_writer *w = begin_breakpoints(&out, request);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next)
        if (source.listing || source.file)
            add_line_breakpoint(s, &source, v, w);
        else
            write_unverified(w, "no instruction of the program comes from this file");
    send_breakpoints(s, &out);
}

/* ---- Labels and instructions ---- */

void tv_dap_set_function_breakpoints(dap *s, const dap_request *request)
{
    const tv_json_value *list;
    dap_output out;
    if (!parse_breakpoints(s, request, &list))
        return;
    delete_breakpoints(s, DAP_LABELS, NULL);
    tv_json_writer *w = begin_breakpoints(&out, request);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next) {
        const char *name = tv_dap_nonempty(v, "name");
        char file[DEBUG_FILE_MAX];
        tv_break b = {0};
        tv_diag_sink sink = tv_dap_sink(s);
        tv_status status = tv_debug_parse_break(s->debug, name ? name : "", file, &sink, &b);
        if (status == TV_OK)
            status = parse_conditions(v, &sink, &b);
        add_breakpoint(s, DAP_LABELS, NULL, &b, status, w);
    }
    send_breakpoints(s, &out);
}

void tv_dap_set_instruction_breakpoints(dap *s, const dap_request *request)
{
    const tv_json_value *list;
    dap_output out;
    if (!parse_breakpoints(s, request, &list))
        return;
    delete_breakpoints(s, DAP_INSTRUCTIONS, NULL);
    tv_json_writer *w = begin_breakpoints(&out, request);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next) {
        int64_t index = -1;
        tv_break b = {.kind = TV_BREAK_INDEX};
        tv_diag_sink sink = tv_dap_sink(s);
        tv_status status = parse_conditions(v, &sink, &b);
        bool valid = tv_dap_parse_reference(s, tv_dap_nonempty(v, "instructionReference"),
                                            tv_json_integer(tv_json_get(v, "offset")), &b.program, &index) &&
                     index >= 0;
        b.value = (uint64_t)index;
        add_breakpoint(s, DAP_INSTRUCTIONS, NULL, &b, valid ? status : TV_ERR_INPUT, w);
    }
    send_breakpoints(s, &out);
}

/* Faults always stop, so there are no filters to choose. */
void tv_dap_set_exception_breakpoints(dap *s, const dap_request *request)
{
    dap_output out;
    begin_breakpoints(&out, request);
    send_breakpoints(s, &out);
}

/* ---- Data ---- */

/* A range of a space that can be watched. */
typedef struct data_range {
    tv_space space;
    uint64_t addr, bytes;
} data_range;

/* The unit of a space whose variable has this name; a lane is watched as its whole unit. */
static bool parse_variable_range(dap *s, int64_t reference, const char *name, data_range *out)
{
    dap_node node;
    if (!tv_dap_find_node(s, reference, &node) || (node.kind != DAP_SPACE && node.kind != DAP_UNIT) ||
        sscanf(name, "[%" SCNu64 "]", &out->addr) != 1)
        return false;
    tv_machine_space_at(tv_debug_machine(s->debug), node.index, &out->space);
    if (node.kind == DAP_UNIT)
        out->addr = node.unit;
    out->bytes = out->space.unit_bytes;
    return true;
}

/* "SPACE:ADDR[:BYTES]"; without BYTES the request's "bytes", or one unit. */
static bool parse_address_range(dap *s, const dap_request *request, const char *text, data_range *out)
{
    const char *rest;
    if (tv_machine_parse_address(tv_debug_machine(s->debug), (const tv_program *const *)s->programs, s->program_count,
                                 text, NULL, &out->space, &out->addr, &rest) != TV_OK)
        return false;
    out->bytes = (uint64_t)tv_dap_integer(request, "bytes", (int64_t)out->space.unit_bytes);
    return !rest || tv_debug_parse_number(rest, &out->bytes);
}

/* Writes the data id "SPACE ADDR BYTES" of the variable or expression in the request. */
static bool make_data_id(dap *s, const dap_request *request, char id[DATA_ID_TEXT])
{
    const char *name = tv_dap_string(request, "name");
    int64_t reference = tv_dap_integer(request, "variablesReference", 0);
    data_range r;
    if (!name ||
        !(reference > 0 ? parse_variable_range(s, reference, name, &r) : parse_address_range(s, request, name, &r)))
        return false;
    if (r.addr >= r.space.size || r.bytes == 0 || r.bytes > (r.space.size - r.addr) * r.space.unit_bytes)
        return false;
    snprintf(id, DATA_ID_TEXT, "%s %" PRIu64 " %" PRIu64, r.space.name, r.addr, r.bytes);
    return true;
}

void tv_dap_data_breakpoint_info(dap *s, const dap_request *request)
{
    static const char *const types[] = {"read", "write", "readWrite"};
    char id[DATA_ID_TEXT];
    dap_output out;
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    if (make_data_id(s, request, id)) {
        tv_json_string_member(w, "dataId", id);
        tv_json_string_member(w, "description", id);
        tv_json_key(w, "accessTypes");
        tv_json_begin_array(w);
        for (size_t i = 0; i < TV_COUNTOF(types); i++)
            tv_json_write_string(w, types[i]);
        tv_json_end_array(w);
    } else {
        tv_json_null_member(w, "dataId");
        tv_json_string_member(w, "description", "only memory can be watched: SPACE:ADDR[:BYTES]");
    }
    tv_dap_send(s, &out);
}

void tv_dap_set_data_breakpoints(dap *s, const dap_request *request)
{
    const tv_json_value *list;
    dap_output out;
    if (!parse_breakpoints(s, request, &list))
        return;
    delete_breakpoints(s, DAP_DATA, NULL);
    tv_json_writer *w = begin_breakpoints(&out, request);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next) {
        const char *id = tv_dap_nonempty(v, "dataId"), *access = tv_dap_nonempty(v, "accessType");
        char space[32] = "", where[DATA_ID_TEXT], extra;
        tv_break b = {.kind = TV_BREAK_WATCH, .text = space, .where = where};
        bool valid = id && sscanf(id, "%31s %" SCNu64 " %" SCNu64 "%c", space, &b.value, &b.bytes, &extra) == 3;
        snprintf(where, sizeof where, "%s:%" PRIu64 ":%" PRIu64, space, b.value, b.bytes);
        b.reads = access && strncmp(access, "read", 4) == 0;
        b.writes = !access || strcmp(access, "read") != 0;
        tv_diag_sink sink = tv_dap_sink(s);
        tv_status status = parse_conditions(v, &sink, &b);
        add_breakpoint(s, DAP_DATA, NULL, &b, valid ? status : TV_ERR_INPUT, w);
    }
    send_breakpoints(s, &out);
}
