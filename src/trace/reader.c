/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the structure of a trace file. The members of an event go into slots until the event ends (event.c); the
 * sections around the events, and members that this version does not know, become trees. Memory stays bounded for any
 * input: there are limits on depth, on strings, on trees, and on bytes without a value.
 *
 * Files of version 1 are read, too: fields.def has the old name of a field, rename_version_1 those in the summary. */
#include "trace/reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "trace/parse.h"

static const field trace_fields[] = {
#define FIELD(level, name, type, slot) {L_##level, {name, sizeof(name) - 1}, T_##type, S_##slot},
#include "trace/fields.def"
#undef FIELD
};

_Static_assert(TV_COUNTOF(trace_fields) < UINT8_MAX, "trace_reader.field_hash holds bytes");

/* ---- Errors ---- */

static bool report_type(trace_reader *r, const char *found, const char *expected)
{
    const char *name = r->state == VALUE ? r->field->name.ptr : r->section_name ? r->section_name : "the file";
    return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "'%s' has %s here; expected %s", name, found, expected);
}

/* A value of a type that the state does not accept. */
static bool report_unexpected(trace_reader *r, const char *found)
{
    static const char *const expected[] = {
        [BEFORE] = "an object", [LIST] = "a list", [EVENTS] = "an object", [SAMPLES] = "an object"};
    static const char *const types[] = {[T_TEXT] = "a string",
                                        [T_TEXT_OR_NULL] = "a string or null",
                                        [T_INTEGER] = "a whole number from 0 up",
                                        [T_INTEGER_OR_NULL] = "a whole number from 0 up, or null",
                                        [T_REAL] = "a number",
                                        [T_OBJECT] = "an object"};
    if (r->state == VALUE)
        return report_type(r, found, types[r->field->type]);
    return report_type(r, found,
                       r->state < TV_COUNTOF(expected) && expected[r->state] ? expected[r->state] : "nothing");
}

/* ---- Sections around the events ---- */

/* The builder makes a tree of the next value. */
static void begin_capture(trace_reader *r, tv_json_builder *builder, state after)
{
    r->builder = builder;
    r->after_value = after;
    r->outer_depth = r->depth;
    r->capture_offset = tv_json_reader_offset(&r->json);
    r->state = CAPTURE;
}

static void begin_skip(trace_reader *r, state after)
{
    r->after_value = after;
    r->outer_depth = r->depth;
    r->state = SKIP;
}

static bool check_version(trace_reader *r, const tv_json_value *value)
{
    const char *text = tv_json_string(value);
    char *end = NULL;
    unsigned long major = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (!end || *end != '.')
        return tv_trace_error(r, TV_CODE(TRACE_FORM), "\"version\":\"" TV_TRACE_VERSION "\"",
                              "'version' is not a text such as \"" TV_TRACE_VERSION "\"");
    if (major > TV_TRACE_VERSION_MAJOR)
        return tv_trace_error(r, TV_CODE(TRACE_VERSION), "use the version of trivet that wrote the trace",
                              "the trace has version %.20s; this trivet reads up to %d", text, TV_TRACE_VERSION_MAJOR);
    return true;
}

/* Names of version 1 in the summary. The tree is this reader's own, so that it may be changed. */
static void rename_member(const tv_json_value *object, const char *from, const char *to)
{
    for (tv_json_value *v = tv_json_is(object, TV_JSON_OBJECT) ? object->first : NULL; v; v = v->next)
        if (strcmp(v->key, from) == 0 && !tv_json_get(object, to))
            v->key = to;
}

static void rename_version_1(const tv_json_value *summary)
{
    rename_member(summary, "verdict", "bottleneck");
    for (const tv_json_value *e = tv_json_first(tv_json_get(summary, "engines")); e; e = e->next)
        rename_member(e, "held_cycles", "stalled_cycles");
}

static bool end_section(trace_reader *r, const tv_json_value *value)
{
    const tv_json_value **objects[SECTIONS] = {
        [SECTION_RUN] = &r->run, [SECTION_CONFIG] = &r->config, [SECTION_SUMMARY] = &r->summary};
    if (objects[r->section]) {
        if (!tv_json_is(value, TV_JSON_OBJECT))
            return report_type(r, "another value", "an object");
        *objects[r->section] = value;
    }
    if (r->section == SECTION_SUMMARY)
        rename_version_1(value);
    if (r->section == SECTION_VERSION)
        return check_version(r, value);
    if (r->section != SECTION_UNKNOWN)
        return true;
    if (r->unknown_count == MEMBERS_MAX)
        return tv_trace_error(r, TV_CODE(TRACE_LIMIT), NULL, "more than %d parts that are not known", MEMBERS_MAX);
    r->unknown_names[r->unknown_count] = r->section_name;
    r->unknown[r->unknown_count++] = value;
    return true;
}

static bool end_capture(trace_reader *r)
{
    r->state = r->after_value;
    if (r->builder != &r->value) {
        r->captured += tv_json_reader_offset(&r->json) - r->capture_offset;
        return true;
    }
    return r->section == SECTION_SAMPLES ? tv_trace_end_sample(r, r->value.root) : end_section(r, r->value.root);
}

/* After each event of a value that is captured or skipped. `good`: the builder has taken it. */
static bool continue_value(trace_reader *r, bool good)
{
    if (r->state == SKIP) {
        if (r->depth == r->outer_depth)
            r->state = r->after_value;
        return true;
    }
    if (!good)
        return tv_trace_builder_error(r, r->builder);
    uint64_t earlier = r->builder == &r->value ? 0 : r->captured;
    if (earlier + tv_json_reader_offset(&r->json) - r->capture_offset > CAPTURE_MAX)
        return tv_trace_error(r, TV_CODE(TRACE_LIMIT), NULL, "'%s' is larger than %d MiB", r->section_name,
                              CAPTURE_MAX >> 20);
    return r->depth == r->outer_depth ? end_capture(r) : true;
}

static bool is_inside_value(const trace_reader *r) { return r->state == CAPTURE || r->state == SKIP; }

/* The names of the engines, from the head. */
static void read_engines(trace_reader *r)
{
    for (const tv_json_value *v = tv_json_first(tv_json_get(r->run, "engines")); v; v = v->next)
        if (tv_json_string(v) && r->engine_count < TV_ENGINES_MAX && v->length < TRACK_NAME)
            r->engines[r->engine_count++] = v->text;
}

/* All about the run must be known before its events. */
static bool begin_events(trace_reader *r)
{
    const char *target = tv_json_string(tv_json_get(r->run, "target"));
    double clock = tv_json_number(tv_json_get(r->run, "clock_hz"));
    if (!r->run || !target)
        return tv_trace_error(r, TV_CODE(TRACE_FORM), "run_metadata with the target come before the events",
                              "the trace does not name its machine");
    if (!(clock > 0))
        return tv_trace_error(r, TV_CODE(TRACE_FORM), "run_metadata come before the events",
                              "clock_hz of the run_metadata is not a number above 0");
    if (r->begun)
        return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "there are two lists of events");
    r->begun = true;
    read_engines(r);
    tv_trace_head head = {target, clock, r->run, r->config, r->engines, r->engine_count};
    return !r->handler->begin || r->handler->begin(r->handler->user, &head) || tv_trace_no_memory(r);
}

static section find_section(const trace_reader *r, tv_sv name)
{
    static const char *const names[SECTIONS] = {
        [SECTION_EVENTS] = "timeline_events",    [SECTION_CHROME] = "traceEvents",
        [SECTION_SAMPLES] = "bandwidth_samples", [SECTION_RUN] = "run_metadata",
        [SECTION_CONFIG] = "config_snapshot",    [SECTION_SUMMARY] = "summary_metrics",
        [SECTION_VERSION] = "version",           [SECTION_TIME_UNIT] = "displayTimeUnit"};
    if (tv_sv_is(name, "otherData") && (r->sections_given >> SECTION_CHROME & 1))
        return SECTION_SUMMARY;
    unsigned s = 0;
    while (s < SECTION_UNKNOWN && !tv_sv_is(name, names[s]))
        s++;
    return (section)s;
}

static bool begin_section(trace_reader *r, tv_sv name)
{
    enum { NAME_MAX_BYTES = 4096 };
    r->section = find_section(r, name);
    r->section_name = tv_arena_str(&r->arena, (tv_sv){name.ptr, tv_min_u64(name.len, NAME_MAX_BYTES)});
    if (!r->section_name)
        return tv_trace_no_memory(r);
    if (r->section != SECTION_UNKNOWN && (r->sections_given >> r->section & 1))
        return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "'%s' is given twice", r->section_name);
    r->sections_given |= UINT32_C(1) << r->section;
    if (r->section == SECTION_EVENTS || r->section == SECTION_CHROME || r->section == SECTION_SAMPLES) {
        r->state = LIST;
    } else if (r->section == SECTION_TIME_UNIT) {
        begin_skip(r, TOP);
    } else {
        tv_json_builder_init(&r->value, &r->arena, CAPTURE_TREE_MAX);
        begin_capture(r, &r->value, TOP);
    }
    return true;
}

/* ---- Members of events ---- */

static unsigned hash_field(level l, tv_sv name) { return (unsigned)(tv_sv_hash(name) + l * 61) % FIELD_HASH; }

static void fill_field_hash(trace_reader *r)
{
    for (unsigned f = 0; f < TV_COUNTOF(trace_fields); f++) {
        unsigned i = hash_field(trace_fields[f].level, trace_fields[f].name);
        while (r->field_hash[i])
            i = (i + 1) % FIELD_HASH;
        r->field_hash[i] = (uint8_t)(f + 1);
    }
}

/* Members mostly come in the order of the table: the one after the previous is tried first. */
static const field *find_field(const trace_reader *r, tv_sv name)
{
    const field *next = r->field ? r->field + 1 : trace_fields;
    if (next < trace_fields + TV_COUNTOF(trace_fields) && next->level == r->level && tv_sv_eq(name, next->name))
        return next;
    for (unsigned i = hash_field(r->level, name); r->field_hash[i]; i = (i + 1) % FIELD_HASH) {
        const field *f = &trace_fields[r->field_hash[i] - 1];
        if (f->level == r->level && tv_sv_eq(name, f->name))
            return f;
    }
    return NULL;
}

/* Frees the trees of the event or sample before. */
static void reset_event_arena(trace_reader *r)
{
    tv_arena arena = {0};
    if (r->event_arena.used == 0)
        return;
    tv_arena_reuse(&arena, &r->event_arena);
    r->event_arena = arena;
}

static void begin_event(trace_reader *r)
{
    reset_event_arena(r);
    tv_json_builder_init(&r->members, &r->event_arena, CAPTURE_TREE_MAX);
    tv_json_builder_init(&r->details, &r->event_arena, CAPTURE_TREE_MAX);
    r->captured = 0;
    r->given = 0;
    r->texts.len = 0;
    r->level = r->section == SECTION_CHROME ? L_CHROME : L_EVENT;
    r->field = NULL;
    r->state = EVENT;
}

/* Unknown members of the JSON trace are kept. Those of Chrome trace events are for viewers. */
static bool begin_unknown_member(trace_reader *r, tv_sv name)
{
    if (r->section == SECTION_CHROME) {
        begin_skip(r, EVENT);
        return true;
    }
    tv_json_builder *builder = r->level == L_EVENT ? &r->members : &r->details;
    r->section_name = "an event";
    r->captured += name.len;
    if (!builder->root)
        tv_json_build_begin_object(builder);
    if (!tv_json_build_key(builder, name))
        return tv_trace_builder_error(r, builder);
    begin_capture(r, builder, EVENT);
    return true;
}

static bool begin_member(trace_reader *r, tv_sv name)
{
    const field *f = find_field(r, name);
    if (!f)
        return begin_unknown_member(r, name);
    if (r->given >> f->slot & 1)
        return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "'%s' is given twice", f->name.ptr);
    r->field = f;
    r->state = VALUE;
    return true;
}

static bool fill_slot(trace_reader *r)
{
    r->given |= UINT32_C(1) << r->field->slot;
    r->state = EVENT;
    return true;
}

/* ---- Events of the JSON reader: values and keys ---- */

static bool on_null(void *user)
{
    trace_reader *r = user;
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_null(r->builder));
    if (r->state != VALUE || (r->field->type != T_TEXT_OR_NULL && r->field->type != T_INTEGER_OR_NULL))
        return report_unexpected(r, "null");
    r->state = EVENT;
    return true;
}

static bool on_boolean(void *user, bool value)
{
    trace_reader *r = user;
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_boolean(r->builder, value));
    return report_unexpected(r, value ? "true" : "false");
}

/* Digits alone, below INTEGER_LIMIT. */
static bool parse_integer(tv_sv text, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(text.ptr[i] - '0');
        if (value > (INTEGER_LIMIT - 1 - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *out = value;
    return text.len > 0;
}

static bool parse_real(tv_sv text, double *out)
{
    enum { REAL_TEXT_MAX = 63 };
    return text.len <= REAL_TEXT_MAX && tv_json_number_value(text, out) && isfinite(*out);
}

static bool on_number(void *user, tv_sv text)
{
    trace_reader *r = user;
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_number(r->builder, text));
    if (r->state == VALUE && (r->field->type == T_INTEGER || r->field->type == T_INTEGER_OR_NULL)) {
        if (parse_integer(text, &r->values[r->field->slot].integer))
            return fill_slot(r);
    } else if (r->state == VALUE && r->field->type == T_REAL && parse_real(text, &r->values[r->field->slot].real)) {
        return fill_slot(r);
    }
    char found[64];
    snprintf(found, sizeof found, "the number %.*s", (int)tv_min_u64(text.len, 40), text.ptr);
    return report_unexpected(r, found);
}

static bool on_string(void *user, tv_sv text)
{
    trace_reader *r = user;
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_string(r->builder, text));
    if (r->state != VALUE || (r->field->type != T_TEXT && r->field->type != T_TEXT_OR_NULL))
        return report_unexpected(r, "a string");
    if (text.len > TEXT_MAX || memchr(text.ptr, '\0', text.len))
        return tv_trace_error(r, TV_CODE(TRACE_LIMIT), NULL,
                              text.len > TEXT_MAX ? "'%s' has more than 64 KiB" : "'%s' contains a NUL",
                              r->field->name.ptr);
    r->values[r->field->slot].text = r->texts.len;
    char *copy = tv_buf_extend(&r->texts, text.len + 1);
    if (!copy)
        return tv_trace_no_memory(r);
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return fill_slot(r);
}

static bool on_key(void *user, tv_sv name)
{
    trace_reader *r = user;
    if (r->state == EVENT)
        return begin_member(r, name);
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_key(r->builder, name));
    return begin_section(r, name);
}

/* ---- Events of the JSON reader: objects and arrays ---- */

static bool on_begin_object(void *user)
{
    trace_reader *r = user;
    if (r->state == SAMPLES) {
        reset_event_arena(r);
        tv_json_builder_init(&r->value, &r->event_arena, CAPTURE_TREE_MAX);
        begin_capture(r, &r->value, SAMPLES);
    }
    r->depth++;
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_begin_object(r->builder));
    if (r->state == BEFORE) {
        r->state = TOP;
    } else if (r->state == EVENTS) {
        begin_event(r);
    } else if (r->state == VALUE && r->field->type == T_OBJECT) {
        r->level = r->level == L_CHROME ? L_ARGS : L_DETAILS;
        fill_slot(r);
    } else {
        return report_unexpected(r, "an object");
    }
    return true;
}

static bool on_end_object(void *user)
{
    trace_reader *r = user;
    r->depth--;
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_end_object(r->builder));
    if (r->state == TOP) {
        r->state = AFTER;
    } else if (r->level == L_DETAILS || r->level == L_ARGS) {
        r->level = r->level == L_ARGS ? L_CHROME : L_EVENT;
    } else {
        r->state = EVENTS;
        return tv_trace_end_event(r);
    }
    return true;
}

static bool on_begin_array(void *user)
{
    trace_reader *r = user;
    r->depth++;
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_begin_array(r->builder));
    if (r->state != LIST)
        return report_unexpected(r, "a list");
    r->state = r->section == SECTION_SAMPLES ? SAMPLES : EVENTS;
    if (r->section == SECTION_SAMPLES && !r->begun)
        return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "the bandwidth samples come before the events");
    return r->section == SECTION_SAMPLES || begin_events(r);
}

static bool on_end_array(void *user)
{
    trace_reader *r = user;
    r->depth--;
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_end_array(r->builder));
    r->state = TOP;
    return true;
}

/* ---- The file ---- */

/* Reports what stopped the JSON reader, unless it was a handler that has reported its own error. */
static void report_json_error(trace_reader *r)
{
    const tv_json_error *e = &r->json.error;
    switch (e->kind) {
    case TV_JSON_OK:
    case TV_JSON_STOPPED:
        break;
    case TV_JSON_MEMORY:
        tv_trace_no_memory(r);
        break;
    case TV_JSON_SYNTAX:
        tv_trace_error(r, TV_CODE(TRACE_JSON), NULL, "the file is not JSON here: %s", e->message);
        break;
    case TV_JSON_UTF8:
        tv_trace_error(r, TV_CODE(TRACE_JSON), NULL, "%s", e->message);
        break;
    case TV_JSON_DEPTH:
    case TV_JSON_TOKEN:
    case TV_JSON_SIZE:
    case TV_JSON_DUPLICATE:
    case TV_JSON_VALUE:
        tv_trace_error(r, TV_CODE(TRACE_LIMIT), NULL, "%s", e->message);
        break;
    }
}

/* Counts the lines of the chunk that has been read. */
static void advance_lines(trace_reader *r, size_t size)
{
    for (const uint8_t *p = r->chunk, *end = p + size, *newline; (newline = memchr(p, '\n', (size_t)(end - p)));
         p = newline + 1) {
        r->line++;
        r->line_start = r->base + (uint64_t)(newline + 1 - r->chunk);
    }
    r->base += size;
    r->chunk = NULL;
}

/* Reads to the end, or to the first error. */
static tv_status read_stream(trace_reader *r, tv_stream *stream, uint8_t *buffer)
{
    uint64_t total = tv_stream_size(stream);
    const tv_trace_progress *progress = r->handler->progress;
    for (;;) {
        size_t size;
        tv_status status = tv_stream_read(stream, buffer, CHUNK, r->sink, &size);
        if (status != TV_OK || size == 0)
            return status;
        r->chunk = buffer;
        if (!tv_json_reader_feed(&r->json, buffer, size)) {
            report_json_error(r);
            return r->status;
        }
        advance_lines(r, size);
        if (progress)
            progress->report(progress->user, tv_stream_position(stream), total);
    }
}

static bool emit_samples(trace_reader *r)
{
    for (size_t i = 0; i < r->samples.count && r->handler->sample; i++)
        if (!r->handler->sample(r->handler->user, &r->samples.data[i]))
            return tv_trace_no_memory(r);
    return true;
}

static tv_status finish_file(trace_reader *r)
{
    bool complete = tv_json_reader_finish(&r->json);
    if (r->json.error.kind == TV_JSON_MEMORY)
        tv_trace_no_memory(r);
    else if (!complete || r->state != AFTER)
        tv_trace_error(r, TV_CODE(TRACE_JSON), "a run that was stopped leaves no whole trace",
                       r->base ? "the file ends too early" : "the file is empty");
    else if (!r->begun)
        tv_trace_error(r, TV_CODE(TRACE_FORM), "`trivet run --trace` writes one",
                       "the file has neither timeline_events nor traceEvents: it is no trace");
    else if (!r->summary)
        tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "the trace has no %s",
                       r->sections_given >> SECTION_CHROME & 1 ? "otherData" : "summary_metrics");
    if (r->status != TV_OK || !emit_samples(r))
        return r->status;
    tv_trace_tail tail = {r->summary, r->unknown_names, r->unknown, r->unknown_count};
    if (r->handler->end && !r->handler->end(r->handler->user, &tail))
        tv_trace_no_memory(r);
    return r->status;
}

static void free_reader(trace_reader *r)
{
    tv_json_reader_fini(&r->json);
    tv_buf_fini(&r->texts);
    tv_arena_fini(&r->arena);
    tv_arena_fini(&r->event_arena);
    TV_VEC_FINI(&r->samples);
    free(r);
}

tv_status tv_trace_read(const char *name, tv_stream *stream, const tv_trace_handler *handler, const tv_diag_sink *sink)
{
    static const tv_json_handler json_handler = {.null = on_null,
                                                 .boolean = on_boolean,
                                                 .number = on_number,
                                                 .string = on_string,
                                                 .key = on_key,
                                                 .begin_object = on_begin_object,
                                                 .end_object = on_end_object,
                                                 .begin_array = on_begin_array,
                                                 .end_array = on_end_array};
    const tv_json_limits limits = {.depth = DEPTH_MAX, .token = TOKEN_MAX};
    trace_reader *r = calloc(1, sizeof *r);
    uint8_t *buffer = malloc(CHUNK);
    tv_status status;
    if (r && buffer && tv_json_reader_init(&r->json, &json_handler, r, limits)) {
        r->path = name;
        r->handler = handler;
        r->sink = sink;
        r->line = 1;
        r->section_name = "the file";
        fill_field_hash(r);
        status = read_stream(r, stream, buffer);
        if (status == TV_OK)
            status = finish_file(r);
    } else {
        status = tv_fail_memory(sink);
    }
    free(buffer);
    if (r)
        free_reader(r);
    return status;
}
