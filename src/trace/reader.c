/* SPDX-License-Identifier: Apache-2.0 */
/* Reading trace files: a streaming parser hands over names and values. What stands around the events is captured as
 * text; an event's values go into slots until it ends. Hostile files meet a limit on depth, on texts, on what is
 * captured, and on bytes without a value, at which the parser would otherwise look again and again. */
#include "trace/reader.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "trace/parse.h"

const field trace_fields[] = {
#define FIELD(level, name, type, slot) {L_##level, name, T_##type, S_##slot},
#include "trace/fields.def"
#undef FIELD
};

/* ---- Errors ---- */

int trace_wrong(trace_reader *r, const tv_code *code, const char *hint, const char *format, ...)
{
    if (r->status != TV_OK)
        return 0;
    /* how far the parser is in this chunk */
    size_t at = r->parser ? yajl_get_bytes_consumed(r->parser) : 0;
    uint64_t line = r->line, line_start = r->line_start;
    for (size_t i = 0; i < at; i++)
        if (r->chunk[i] == '\n') {
            line++;
            line_start = r->base + i + 1;
        }
    uint64_t column = r->base + at > line_start ? r->base + at - line_start : 1;
    tv_source_loc loc = {.file = r->path,
                         .line = (unsigned)tv_min_u64(line, UINT32_MAX),
                         .column = (unsigned)tv_min_u64(column, UINT32_MAX),
                         .index = -1};
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    tv_report(r->sink, TV_ERROR, code, &loc, hint, "%s", message);
    r->status = TV_ERR_INPUT;
    return 0;
}

int trace_no_memory(trace_reader *r)
{
    if (r->status == TV_OK)
        r->status = tv_fail_memory(r->sink);
    return 0;
}

static int wrong_type(trace_reader *r, const char *found, const char *expected)
{
    const char *name = r->state == VALUE ? r->field->name : r->part_name ? r->part_name : "the file";
    return trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "'%s' has %s here; expected %s", name, found, expected);
}

/* A value where the reader's state has no place for one. */
static int misplaced(trace_reader *r, const char *found)
{
    static const char *const expected[] = {
        [BEFORE] = "an object", [LIST] = "a list", [EVENTS] = "an object", [SAMPLES] = "an object"};
    static const char *const types[] = {[T_TEXT] = "a string",
                                        [T_TEXT_OR_NULL] = "a string or null",
                                        [T_WHOLE] = "a whole number from 0 up",
                                        [T_WHOLE_OR_NULL] = "a whole number from 0 up, or null",
                                        [T_REAL] = "a number",
                                        [T_OBJECT] = "an object"};
    if (r->state == VALUE)
        return wrong_type(r, found, types[r->field->type]);
    return wrong_type(r, found, r->state < TV_COUNTOF(expected) && expected[r->state] ? expected[r->state] : "nothing");
}

static int not_utf8(trace_reader *r) { return trace_wrong(r, TV_CODE(TRACE_JSON), NULL, "the string is not UTF-8"); }

/* ---- The parts around the events ---- */

static json_t *parsed(trace_reader *r, const char *text)
{
    json_error_t error;
    json_t *value = json_loads(text, JSON_DECODE_ANY, &error);
    if (!value)
        trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "'%s' cannot be used: %.200s", r->part_name, error.text);
    return value;
}

static json_t *parsed_object(trace_reader *r, const char *text)
{
    json_t *value = parsed(r, text);
    if (value && !json_is_object(value)) {
        wrong_type(r, "another value", "an object");
        json_decref(value);
        value = NULL;
    }
    return value;
}

static int part_end(trace_reader *r, const char *text)
{
    json_t **objects[PARTS] = {[P_RUN] = &r->run, [P_CONFIG] = &r->config, [P_SUMMARY] = &r->summary};
    const char **texts[PARTS] = {[P_RUN] = &r->run_text, [P_CONFIG] = &r->config_text, [P_SUMMARY] = &r->summary_text};
    if (!text)
        return trace_no_memory(r);
    if (objects[r->part]) {
        *texts[r->part] = text;
        *objects[r->part] = parsed_object(r, text);
        return *objects[r->part] != NULL;
    }
    if (r->part == P_OTHER && r->member_count + 2 > 2 * MEMBERS_MAX)
        return trace_wrong(r, TV_CODE(TRACE_LIMIT), NULL, "more than %d parts that are not known", MEMBERS_MAX);
    if (r->part == P_OTHER) {
        r->members[r->member_count++] = r->part_name;
        r->members[r->member_count++] = text;
    }
    return 1;
}

/* The value that comes is written again, to be kept. */
static void begin_capture(trace_reader *r, tv_buf *to, state after)
{
    r->capture_to = to;
    r->after_capture = after;
    r->capture_depth = r->depth;
    r->state = CAPTURE;
}

static int end_capture(trace_reader *r)
{
    const unsigned char *data;
    size_t size;
    int go_on;
    if (yajl_gen_get_buf(r->gen, &data, &size) != yajl_gen_status_ok)
        return trace_no_memory(r);
    if (r->capture_to) {
        tv_buf_append(r->capture_to, data, size);
        go_on = !r->capture_to->failed ? 1 : trace_no_memory(r);
    } else if (r->part == P_SAMPLES) {
        json_t *object = parsed(r, (const char *)data);
        go_on = object && trace_sample_end(r, object);
        json_decref(object);
    } else {
        go_on = part_end(r, tv_arena_str(&r->arena, (tv_sv){(const char *)data, size}));
    }
    yajl_gen_clear(r->gen);
    yajl_gen_reset(r->gen, NULL);
    r->state = r->after_capture;
    return go_on;
}

/* After a value within a capture has been written. */
static int captured(trace_reader *r, yajl_gen_status status)
{
    const unsigned char *data;
    size_t size;
    if (status != yajl_gen_status_ok && status != yajl_gen_generation_complete)
        return trace_wrong(r, TV_CODE(TRACE_LIMIT), NULL, "a value cannot be kept");
    yajl_gen_get_buf(r->gen, &data, &size);
    if (size + (r->capture_to ? r->capture_to->len : 0) > CAPTURE_MAX)
        return trace_wrong(r, TV_CODE(TRACE_LIMIT), NULL, "'%s' is larger than %d MiB", r->part_name,
                           CAPTURE_MAX >> 20);
    return r->depth == r->capture_depth ? end_capture(r) : 1;
}

static int take_engines(trace_reader *r)
{
    size_t i;
    json_t *name;
    json_array_foreach (json_object_get(r->run, "engines"), i, name)
        if (json_is_string(name) && r->engine_count < TV_ENGINES_MAX && strlen(json_string_value(name)) < TRACK_NAME)
            r->engines[r->engine_count++] = json_string_value(name);
    return 1;
}

/* Everything about the run is known before its events. */
static int begin_events(trace_reader *r)
{
    const char *target = json_string_value(json_object_get(r->run, "target"));
    double clock = json_number_value(json_object_get(r->run, "clock_hz"));
    if (!r->run || !target)
        return trace_wrong(r, TV_CODE(TRACE_FORM), "run_metadata with the target stand before the events",
                           "the trace does not say of which machine it is");
    if (!(clock > 0))
        return trace_wrong(r, TV_CODE(TRACE_FORM), "run_metadata stand before the events",
                           "clock_hz of the run_metadata is not a number above 0");
    if (r->begun)
        return trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "there are two lists of events");
    r->begun = true;
    take_engines(r);
    tv_trace_head head = {target, clock, r->run_text, r->config ? r->config_text : "{}", r->engines, r->engine_count};
    return !r->calls->begin || r->calls->begin(r->calls->user, &head, r->run, r->config) ? 1 : trace_no_memory(r);
}

static int top_key(trace_reader *r, tv_sv name)
{
    static const char *const names[PARTS] = {
        [P_EVENTS] = "timeline_events", [P_CHROME] = "traceEvents",     [P_SAMPLES] = "bandwidth_samples",
        [P_RUN] = "run_metadata",       [P_CONFIG] = "config_snapshot", [P_SUMMARY] = "summary_metrics",
        [P_VERSION] = "version",        [P_OTHER] = "displayTimeUnit"};
    unsigned p = 0;
    while (p < P_OTHER && !tv_sv_is(name, names[p]))
        p++;
    if (tv_sv_is(name, "otherData") && (r->parts_given >> P_CHROME & 1))
        p = P_SUMMARY;
    r->part = tv_sv_is(name, names[P_OTHER]) ? P_VERSION : (part)p;
    r->part_name = p < P_OTHER ? names[p] : tv_arena_str(&r->arena, (tv_sv){name.ptr, tv_min_u64(name.len, 4096)});
    if (!r->part_name)
        return trace_no_memory(r);
    if (p < P_OTHER && (r->parts_given >> p & 1))
        return trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "'%s' is given twice", r->part_name);
    if (p < P_OTHER)
        r->parts_given |= UINT32_C(1) << p;
    if (p == P_EVENTS || p == P_CHROME || p == P_SAMPLES) {
        r->state = LIST;
        return 1;
    }
    begin_capture(r, NULL, TOP);
    return 1;
}

/* ---- Events' values ---- */

static unsigned name_hash(level l, tv_sv name) { return (unsigned)(tv_sv_hash(name) + l * 61) & 255; }

static void make_names(trace_reader *r)
{
    for (unsigned f = 0; f < TV_COUNTOF(trace_fields); f++) {
        unsigned i = name_hash(trace_fields[f].level, tv_sv_of(trace_fields[f].name));
        while (r->names[i])
            i = (i + 1) & 255;
        r->names[i] = (uint8_t)(f + 1);
    }
}

/* Members come in the order of the table, mostly: the one after the last is tried first. */
static const field *find_field(const trace_reader *r, tv_sv name)
{
    const field *next = r->field ? r->field + 1 : trace_fields;
    if (next < trace_fields + TV_COUNTOF(trace_fields) && next->level == r->level && tv_sv_is(name, next->name))
        return next;
    for (unsigned i = name_hash(r->level, name); r->names[i]; i = (i + 1) & 255) {
        const field *f = &trace_fields[r->names[i] - 1];
        if (f->level == r->level && tv_sv_is(name, f->name))
            return f;
    }
    return NULL;
}

static void begin_event(trace_reader *r)
{
    r->given = 0;
    r->texts.len = r->more.len = r->more_details.len = 0;
    r->level = r->part == P_CHROME ? L_CHROME : L_EVENT;
    r->field = NULL;
    r->state = EVENT;
}

/* A member that is not known: its name and value are kept as JSON. Of Chrome trace events they are passed over. */
static int unknown_member(trace_reader *r, tv_sv name)
{
    const unsigned char *data;
    size_t size;
    tv_buf *to = r->level == L_EVENT || r->level == L_CHROME ? &r->more : &r->more_details;
    if (r->part == P_CHROME)
        to->len = 0;
    if (to->len)
        tv_buf_append(to, ",", 1);
    yajl_gen_string(r->gen, (const unsigned char *)name.ptr, name.len);
    yajl_gen_get_buf(r->gen, &data, &size);
    tv_buf_append(to, data, size);
    tv_buf_append(to, ":", 1);
    yajl_gen_clear(r->gen);
    yajl_gen_reset(r->gen, NULL);
    r->part_name = "an event";
    begin_capture(r, to, EVENT);
    return 1;
}

static int event_key(trace_reader *r, tv_sv name)
{
    const field *f = find_field(r, name);
    if (!f)
        return tv_sv_is_utf8(name) ? unknown_member(r, name) : not_utf8(r);
    if (r->given >> f->slot & 1)
        return trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "'%s' is given twice", f->name);
    r->field = f;
    r->state = VALUE;
    return 1;
}

static int slot_filled(trace_reader *r)
{
    r->given |= UINT32_C(1) << r->field->slot;
    r->state = EVENT;
    return 1;
}

static int on_null(void *user)
{
    trace_reader *r = user;
    r->heard = true;
    if (r->state == CAPTURE)
        return captured(r, yajl_gen_null(r->gen));
    if (r->state != VALUE || (r->field->type != T_TEXT_OR_NULL && r->field->type != T_WHOLE_OR_NULL))
        return misplaced(r, "null");
    r->state = EVENT;
    return 1;
}

static int on_boolean(void *user, int value)
{
    trace_reader *r = user;
    r->heard = true;
    return r->state == CAPTURE ? captured(r, yajl_gen_bool(r->gen, value)) : misplaced(r, value ? "true" : "false");
}

static bool whole_number(const char *text, size_t length, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || value >= WHOLE_LIMIT / 10)
            return false;
        value = 10 * value + (uint64_t)(text[i] - '0');
    }
    *out = value;
    return length > 0;
}

static bool real_number(const char *text, size_t length, double *out)
{
    char copy[64];
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    tv_c_locale locale = tv_c_locale_begin();
    *out = strtod(copy, NULL);
    tv_c_locale_end(locale);
    return isfinite(*out);
}

static int on_number(void *user, const char *text, size_t length)
{
    trace_reader *r = user;
    r->heard = true;
    if (r->state == CAPTURE)
        return captured(r, yajl_gen_number(r->gen, text, length));
    if (r->state == VALUE && (r->field->type == T_WHOLE || r->field->type == T_WHOLE_OR_NULL)) {
        if (whole_number(text, length, &r->values[r->field->slot].whole))
            return slot_filled(r);
    } else if (r->state == VALUE && r->field->type == T_REAL &&
               real_number(text, length, &r->values[r->field->slot].real)) {
        return slot_filled(r);
    }
    char found[64];
    snprintf(found, sizeof found, "the number %.*s", (int)tv_min_u64(length, 40), text);
    return misplaced(r, found);
}

static int on_string(void *user, const unsigned char *text, size_t length)
{
    trace_reader *r = user;
    r->heard = true;
    if (!tv_sv_is_utf8((tv_sv){(const char *)text, length}))
        return not_utf8(r);
    if (r->state == CAPTURE)
        return captured(r, yajl_gen_string(r->gen, text, length));
    if (r->state != VALUE || (r->field->type != T_TEXT && r->field->type != T_TEXT_OR_NULL))
        return misplaced(r, "a string");
    if (length > TEXT_MAX || memchr(text, '\0', length))
        return trace_wrong(r, TV_CODE(TRACE_LIMIT), NULL,
                           length > TEXT_MAX ? "'%s' has more than 64 KiB" : "'%s' holds a NUL", r->field->name);
    r->values[r->field->slot].text = r->texts.len;
    tv_buf_append(&r->texts, text, length);
    tv_buf_append(&r->texts, "", 1);
    return r->texts.failed ? trace_no_memory(r) : slot_filled(r);
}

static int on_key(void *user, const unsigned char *text, size_t length)
{
    trace_reader *r = user;
    tv_sv name = {(const char *)text, length};
    r->heard = true;
    if (r->state == EVENT)
        return event_key(r, name);
    if (!tv_sv_is_utf8(name))
        return not_utf8(r);
    return r->state == CAPTURE ? captured(r, yajl_gen_string(r->gen, text, length)) : top_key(r, name);
}

/* ---- Containers ---- */

static int enter(trace_reader *r)
{
    r->heard = true;
    if (++r->depth > DEPTH_MAX)
        return trace_wrong(r, TV_CODE(TRACE_LIMIT), NULL, "nested deeper than %d levels", DEPTH_MAX);
    return 1;
}

static int on_start_map(void *user)
{
    trace_reader *r = user;
    if (!enter(r))
        return 0;
    if (r->state == CAPTURE)
        return captured(r, yajl_gen_map_open(r->gen));
    if (r->state == BEFORE) {
        r->state = TOP;
    } else if (r->state == EVENTS) {
        begin_event(r);
    } else if (r->state == SAMPLES) {
        r->depth--;
        begin_capture(r, NULL, SAMPLES);
        r->depth++;
        return captured(r, yajl_gen_map_open(r->gen));
    } else if (r->state == VALUE && r->field->type == T_OBJECT) {
        r->level = r->level == L_CHROME ? L_ARGS : L_DETAILS;
        slot_filled(r);
    } else {
        return misplaced(r, "an object");
    }
    return 1;
}

static int on_end_map(void *user)
{
    trace_reader *r = user;
    r->heard = true;
    r->depth--;
    if (r->state == CAPTURE)
        return captured(r, yajl_gen_map_close(r->gen));
    if (r->state == TOP) {
        r->state = AFTER;
    } else if (r->level == L_DETAILS || r->level == L_ARGS) {
        r->level = r->level == L_ARGS ? L_CHROME : L_EVENT;
    } else {
        r->state = EVENTS;
        return trace_event_end(r);
    }
    return 1;
}

static int on_start_array(void *user)
{
    trace_reader *r = user;
    if (!enter(r))
        return 0;
    if (r->state == CAPTURE)
        return captured(r, yajl_gen_array_open(r->gen));
    if (r->state != LIST)
        return misplaced(r, "a list");
    r->state = r->part == P_SAMPLES ? SAMPLES : EVENTS;
    if (r->part == P_SAMPLES && !r->begun)
        return trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "the bandwidth samples stand before the events");
    return r->part == P_SAMPLES || begin_events(r);
}

static int on_end_array(void *user)
{
    trace_reader *r = user;
    r->heard = true;
    r->depth--;
    if (r->state == CAPTURE)
        return captured(r, yajl_gen_array_close(r->gen));
    r->state = TOP;
    return 1;
}

/* ---- The file ---- */

static void syntax_error(trace_reader *r)
{
    unsigned char *text = yajl_get_error(r->parser, 0, NULL, 0);
    const char *message = text ? (const char *)text : "it cannot be parsed", *colon = strchr(message, ':');
    if (colon && colon[1] == ' ' && colon[2])
        message = colon + 2;
    trace_wrong(r, TV_CODE(TRACE_JSON), NULL, "the file is not JSON here: %.*s", (int)strcspn(message, "\n"), message);
    yajl_free_error(r->parser, text);
}

static void next_chunk(trace_reader *r, size_t size)
{
    for (const uint8_t *p = r->chunk, *end = p + size, *newline; (newline = memchr(p, '\n', (size_t)(end - p)));
         p = newline + 1) {
        r->line++;
        r->line_start = r->base + (uint64_t)(newline + 1 - r->chunk);
    }
    r->base += size;
}

/* Reads to the end, or to the first error. */
static tv_status parse(trace_reader *r, tv_stream *stream, uint8_t *buffer)
{
    uint64_t silent = 0, total = tv_stream_size(stream);
    const tv_trace_progress *progress = r->calls->progress;
    for (;;) {
        size_t size;
        tv_status status = tv_stream_read(stream, buffer, CHUNK, r->sink, &size);
        if (status != TV_OK || size == 0)
            return status;
        r->chunk = buffer;
        r->heard = false;
        yajl_status parsed_to = yajl_parse(r->parser, buffer, size);
        if (parsed_to == yajl_status_error)
            syntax_error(r);
        if (r->status != TV_OK)
            return r->status;
        silent = r->heard ? 0 : silent + size;
        if (silent > SILENT_MAX) {
            trace_wrong(r, TV_CODE(TRACE_LIMIT), NULL, "more than %d MiB without a value", SILENT_MAX >> 20);
            return r->status;
        }
        next_chunk(r, size);
        if (progress)
            progress->report(progress->user, tv_stream_position(stream), total);
    }
}

static tv_status end_of_file(trace_reader *r)
{
    if (r->state != AFTER || yajl_complete_parse(r->parser) != yajl_status_ok) {
        trace_wrong(r, TV_CODE(TRACE_JSON), "a run that was stopped leaves no whole trace",
                    r->base ? "the file ends too early" : "the file is empty");
        return r->status;
    }
    if (!r->begun)
        trace_wrong(r, TV_CODE(TRACE_FORM), "`trivet run --trace` writes one",
                    "the file has neither timeline_events nor traceEvents: it is no trace");
    else if (!r->summary)
        trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "the trace has no %s",
                    r->parts_given >> P_CHROME & 1 ? "otherData" : "summary_metrics");
    for (unsigned i = 0; i < r->sample_count && r->status == TV_OK; i++)
        if (r->calls->sample && !r->calls->sample(r->calls->user, &r->samples[i]))
            trace_no_memory(r);
    tv_trace_tail tail = {r->summary, r->summary_text, r->members, r->member_count};
    if (r->status == TV_OK && r->calls->end && !r->calls->end(r->calls->user, &tail))
        trace_no_memory(r);
    return r->status;
}

static void fini(trace_reader *r)
{
    if (r->parser)
        yajl_free(r->parser);
    if (r->gen)
        yajl_gen_free(r->gen);
    json_decref(r->run);
    json_decref(r->config);
    json_decref(r->summary);
    tv_buf_fini(&r->texts);
    tv_buf_fini(&r->more);
    tv_buf_fini(&r->more_details);
    tv_arena_fini(&r->arena);
    free(r->samples);
    free(r);
}

tv_status tv_trace_read(const char *name, tv_stream *stream, const tv_trace_calls *calls, const tv_diag_sink *sink)
{
    static const yajl_callbacks callbacks = {.yajl_null = on_null,
                                             .yajl_boolean = on_boolean,
                                             .yajl_number = on_number,
                                             .yajl_string = on_string,
                                             .yajl_start_map = on_start_map,
                                             .yajl_map_key = on_key,
                                             .yajl_end_map = on_end_map,
                                             .yajl_start_array = on_start_array,
                                             .yajl_end_array = on_end_array};
    trace_reader *r = calloc(1, sizeof *r);
    uint8_t *buffer = malloc(CHUNK);
    tv_status status = TV_ERR_MEMORY;
    if (r && buffer) {
        r->path = name;
        r->calls = calls;
        r->sink = sink;
        r->line = 1;
        r->part_name = "the file";
        r->parser = yajl_alloc(&callbacks, NULL, r);
        r->gen = yajl_gen_alloc(NULL);
        make_names(r);
    }
    if (!r || !buffer || !r->parser || !r->gen) {
        tv_fail_memory(sink);
    } else {
        status = parse(r, stream, buffer);
        if (status == TV_OK)
            status = end_of_file(r);
    }
    free(buffer);
    if (r)
        fini(r);
    return status;
}
