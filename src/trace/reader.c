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
#include "trace/read_packets.h"

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

static bool end_metadata(trace_reader *r)
{
    r->metadata = r->value.root;
    r->metadata_bytes += tv_json_reader_offset(&r->json) - r->capture_offset;
    return r->metadata_bytes <= METADATA_MAX ||
           tv_trace_error(r, TV_CODE(TRACE_LIMIT), NULL, "the metadata events are larger than %d MiB",
                          METADATA_MAX >> 20);
}

static bool end_capture(trace_reader *r)
{
    r->state = r->after_value;
    if (r->builder != &r->value) {
        r->captured += tv_json_reader_offset(&r->json) - r->capture_offset;
        return true;
    }
    if (r->state == EVENT)
        return end_metadata(r);
    return r->section == SECTION_SAMPLES ? tv_trace_end_sample(r, r->value.root)
                                         : tv_trace_end_section(r, r->value.root);
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
    if (r->depth - r->outer_depth > VALUE_DEPTH_MAX)
        return tv_trace_error(r, TV_CODE(TRACE_LIMIT), NULL, "'%s' is nested deeper than %d levels", r->section_name,
                              VALUE_DEPTH_MAX);
    return r->depth == r->outer_depth ? end_capture(r) : true;
}

static bool is_inside_value(const trace_reader *r) { return r->state == CAPTURE || r->state == SKIP; }

static bool begin_section(trace_reader *r, tv_sv name)
{
    if (!tv_trace_begin_section(r, name))
        return false;
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

/* The value of a metadata event may be one of the document, which is known at the end of the event. */
static void begin_metadata(trace_reader *r)
{
    r->section_name = "a metadata event";
    tv_json_builder_init(&r->value, &r->arena, CAPTURE_TREE_MAX);
    begin_capture(r, &r->value, EVENT);
}

/* Unknown members of the JSON trace are kept. Those of Chrome trace events are for viewers. */
static bool begin_unknown_member(trace_reader *r, tv_sv name)
{
    if (r->section == SECTION_CHROME) {
        if (r->level == L_ARGS && tv_sv_is(name, "value") && tv_trace_may_be_metadata(r))
            begin_metadata(r);
        else
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
    const field *f = tv_trace_find_field(r, name);
    if (!f)
        return begin_unknown_member(r, name);
    if (tv_trace_is_given(r, f))
        return false;
    r->field = f;
    r->state = VALUE;
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
        uint64_t value;
        if (parse_integer(text, &value)) {
            r->state = EVENT;
            return tv_trace_fill_integer(r, r->field, value);
        }
    } else if (r->state == VALUE && r->field->type == T_REAL) {
        double value;
        if (parse_real(text, &value)) {
            r->state = EVENT;
            return tv_trace_fill_real(r, r->field, value);
        }
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
    r->state = EVENT;
    return tv_trace_fill_text(r, r->field, text);
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
        tv_trace_reset_event_arena(r);
        tv_json_builder_init(&r->value, &r->event_arena, CAPTURE_TREE_MAX);
        begin_capture(r, &r->value, SAMPLES);
    }
    r->depth++;
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_begin_object(r->builder));
    if (r->state == BEFORE) {
        r->state = TOP;
    } else if (r->state == EVENTS) {
        tv_trace_begin_event(r);
        r->state = EVENT;
    } else if (r->state == VALUE && r->field->type == T_OBJECT) {
        r->level = r->level == L_CHROME ? L_ARGS : L_DETAILS;
        r->given |= UINT32_C(1) << r->field->slot;
        r->state = EVENT;
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
    if (r->section == SECTION_CHROME && !r->begun) /* metadata may precede the events */
        return true;
    return r->section == SECTION_SAMPLES || tv_trace_begin_events(r);
}

static bool on_end_array(void *user)
{
    trace_reader *r = user;
    r->depth--;
    if (is_inside_value(r))
        return continue_value(r, r->state == CAPTURE && tv_json_build_end_array(r->builder));
    r->state = TOP;
    return r->begun || tv_trace_begin_events(r);
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

static bool feed_json(trace_reader *r, const uint8_t *bytes, size_t size)
{
    r->chunk = bytes;
    if (!tv_json_reader_feed(&r->json, bytes, size)) {
        report_json_error(r);
        return false;
    }
    advance_lines(r, size);
    return true;
}

/* Reads to the end, or to the first error. The first two bytes say in which form the file is. */
static tv_status read_stream(trace_reader *r, tv_stream *stream, uint8_t *buffer, tv_packet_reader **packets)
{
    uint64_t total = tv_stream_size(stream);
    const tv_trace_progress *progress = r->handler->progress;
    size_t count = 0, more;
    bool begun = false;
    do {
        tv_status status = tv_stream_read(stream, buffer + count, CHUNK - count, r->sink, &more);
        if (status != TV_OK)
            return status;
        count += more;
        if (!begun && more && count < 2)
            continue;
        if (!begun && tv_begins_packets(buffer, count) && !(*packets = tv_packet_reader_new(r)))
            return tv_fail_memory(r->sink);
        begun = true;
        if (count && !(*packets ? tv_packet_reader_feed(*packets, buffer, count) : feed_json(r, buffer, count)))
            return r->status;
        count = 0;
        if (more && progress)
            progress->report(progress->user, tv_stream_position(stream), total);
    } while (more);
    return TV_OK;
}

static tv_status finish_json(trace_reader *r)
{
    bool complete = tv_json_reader_finish(&r->json);
    if (r->json.error.kind == TV_JSON_MEMORY)
        tv_trace_no_memory(r);
    else if (!complete || r->state != AFTER)
        tv_trace_error(r, TV_CODE(TRACE_JSON), "a run that was stopped leaves no whole trace",
                       r->base ? "the file ends too early" : "the file is empty");
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
    tv_packet_reader *packets = NULL;
    tv_status status;
    if (r && buffer && tv_json_reader_init(&r->json, &json_handler, r, limits)) {
        r->path = name;
        r->handler = handler;
        r->sink = sink;
        r->line = 1;
        r->section_name = "the file";
        tv_trace_fill_field_hash(r);
        status = read_stream(r, stream, buffer, &packets);
        if (status == TV_OK)
            status = packets ? (tv_packet_reader_finish(packets) ? TV_OK : r->status) : finish_json(r);
        if (status == TV_OK)
            status = tv_trace_finish_document(r);
    } else {
        status = tv_fail_memory(sink);
    }
    tv_packet_reader_free(packets);
    free(buffer);
    if (r)
        free_reader(r);
    return status;
}
