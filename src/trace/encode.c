/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of trace files: the JSON trace that all machines share, and two that the Perfetto UI opens, Chrome trace
 * events and Perfetto's packets (packets.c). docs/trace.md describes them. */
#include "trace/encode.h"

#include <inttypes.h>

#include "base/json_members.h"

/* Significant digits of times, which are derived from cycles; amounts are written exactly. */
enum { TIME_DIGITS = 12, EXACT = 0 };

void tv_trace_encoder_init(tv_trace_encoder *t, FILE *out, tv_trace_format format, double clock_hz)
{
    tv_json_writer_init_file(&t->json, out, TV_JSON_COMPACT);
    t->format = format;
    t->clock_hz = clock_hz > 0 ? clock_hz : 1e9;
    t->is_live = false;
    t->counter_cycle = 0;
    t->track_count = 0;
    t->member = NULL;
    t->value = (tv_buf){0};
    memset(t->found, 0, sizeof t->found);
    memset(t->engines, 0, sizeof t->engines);
    memset(t->known_texts, 0, sizeof t->known_texts);
    t->packets.interned = (tv_buf){0};
    if (format == TV_TRACE_PFTRACE)
        tv_packets_init(&t->packets, out, t->clock_hz);
}

void tv_trace_encoder_fini(tv_trace_encoder *t)
{
    tv_buf_fini(&t->value);
    tv_packets_fini(&t->packets);
}

/* A zero has no sign, which readers of integers would drop. */
static void write_number_member(tv_json_writer *w, const char *key, double value, int digits)
{
    tv_json_key(w, key);
    tv_json_write_number(w, value == 0 ? 0 : value, digits);
}

/* An element of a list, which is an object, begins on a line of its own. */
static tv_json_writer *begin_element(tv_trace_encoder *t)
{
    tv_json_newline(&t->json);
    tv_json_begin_object(&t->json);
    return &t->json;
}

static tv_json_members begin_event(tv_trace_encoder *t)
{
    tv_json_newline(&t->json);
    return tv_json_begin_members(&t->json);
}

/* ---- Events of the JSON trace ---- */

/* In hexadecimal, of two digits or more: each traced instruction has two, which snprintf would take long for. */
static void format_route(uint32_t route, char text[16])
{
    static const char digits[] = "0123456789abcdef";
    unsigned count = 2;
    while (count < 8 && route >> 4 * count)
        count++;
    *text++ = '0';
    *text++ = 'x';
    while (count-- > 0)
        *text++ = digits[route >> 4 * count & 15];
    *text = '\0';
}

/* As tv_json_put_text. If the text stays at its address, what was written for it is copied the next time. */
static inline void put_known_text(tv_trace_encoder *t, tv_json_members *m, const char *text, bool stays)
{
    enum { MARKS = 3 };
    tv_trace_known_text *known = &t->known_texts[tv_packet_slot(text, KNOWN_TEXTS)];
    if (stays && text && known->from == text) {
        tv_json_put_copy(m, known->value, KNOWN_TEXT_VALUE, known->length);
        return;
    }
    const char *start = m->at;
    tv_json_put_text(m, text);
    /* long texts are not kept: after one that flushed the writer, the length could be any */
    if (!stays || !text || strnlen(text, KNOWN_TEXT_VALUE) + MARKS > KNOWN_TEXT_VALUE)
        return;
    ptrdiff_t length = m->at - start; /* negative if the writer was flushed */
    if (length > 0 && length <= KNOWN_TEXT_VALUE) {
        *known = (tv_trace_known_text){.from = text, .length = (uint8_t)length};
        memcpy(known->value, start, (size_t)length);
    }
}

#define KNOWN_TEXT_MEMBER(t, m, name, text, stays) (TV_JSON_PUT(m, "\"" name "\":"), put_known_text(t, m, text, stays))

static void encode_details(tv_trace_encoder *t, tv_json_members *m, const tv_event *e)
{
    char code[16];
    if (e->bytes)
        TV_JSON_MEMBER(m, "bytes", unsigned, e->bytes);
    if (e->macs)
        TV_JSON_MEMBER(m, "macs", unsigned, e->macs);
    if (e->routes[0]) {
        format_route(e->routes[0], code);
        TV_JSON_MEMBER(m, "route_in", text, code);
    }
    if (e->routes[1]) {
        format_route(e->routes[1], code);
        TV_JSON_MEMBER(m, "route_out", text, code);
    }
    if (e->kind == TV_EVENT_TOKEN && e->index >= 0)
        TV_JSON_MEMBER(m, "position", integer, e->index);
    if (e->tokens || e->kind == TV_EVENT_TOKEN)
        TV_JSON_MEMBER(m, "tokens", unsigned, e->tokens);
    if (e->reason)
        KNOWN_TEXT_MEMBER(t, m, "reason", e->reason, t->is_live);
    if (e->waits_for >= 0 && e->kind == TV_EVENT_STALL)
        TV_JSON_MEMBER(m, "waits_for", integer, e->waits_for);
    if (e->role)
        KNOWN_TEXT_MEMBER(t, m, "tensor_role", e->role, t->is_live);
    if (e->mode)
        KNOWN_TEXT_MEMBER(t, m, "op_mode", e->mode, t->is_live);
    if (e->file) {
        KNOWN_TEXT_MEMBER(t, m, "file", e->file, t->is_live);
        TV_JSON_MEMBER(m, "line", unsigned, e->line);
    }
}

static void encode_json_event(tv_trace_encoder *t, const tv_event *e, const tv_trace_extras *extras)
{
    tv_json_members m = begin_event(t);
    KNOWN_TEXT_MEMBER(t, &m, "type", tv_trace_kind_names[e->kind], true);
    KNOWN_TEXT_MEMBER(t, &m, "engine", e->engine, t->is_live);
    TV_JSON_MEMBER(&m, "engine_id", unsigned, e->engine_id);
    if (e->index < 0 || e->kind == TV_EVENT_TOKEN)
        TV_JSON_MEMBER(&m, "cmdq_id", text, NULL);
    else
        TV_JSON_MEMBER(&m, "cmdq_id", integer, e->index);
    KNOWN_TEXT_MEMBER(t, &m, "layer_id", e->layer, t->is_live);
    KNOWN_TEXT_MEMBER(t, &m, "op", e->op, t->is_live && tv_trace_has_constant_op(e));
    TV_JSON_MEMBER(&m, "start_cycle", unsigned, e->start);
    TV_JSON_MEMBER(&m, "end_cycle", unsigned, e->end);
    TV_JSON_BEGIN_MEMBER(&m, "details");
    encode_details(t, &m, e);
    tv_json_put_members(&m, extras ? extras->details : NULL);
    tv_json_put_end(&m);
    tv_json_put_members(&m, extras ? extras->members : NULL);
    tv_json_end_members(&m);
}

/* ---- Chrome trace events ---- */

static double microseconds(const tv_trace_encoder *t, uint64_t cycles) { return (double)cycles / t->clock_hz * 1e6; }

/* Names a process or a track. */
static void encode_name(tv_trace_encoder *t, const char *what, unsigned tid, const char *name)
{
    tv_json_writer *w = begin_element(t);
    tv_json_string_member(w, "name", what);
    tv_json_string_member(w, "ph", "M");
    tv_json_unsigned_member(w, "pid", 1);
    if (tid)
        tv_json_unsigned_member(w, "tid", tid);
    tv_json_key(w, "args");
    tv_json_begin_object(w);
    tv_json_string_member(w, "name", name);
    tv_json_end_object(w);
    tv_json_end_object(w);
}

/* The number of the track of this name, from 1; a new one is named. 0: there are too many. */
static unsigned find_track(tv_trace_encoder *t, const char *name)
{
    for (unsigned i = 0; i < t->track_count; i++)
        if (strncmp(t->tracks[i], name, TRACK_NAME - 1) == 0)
            return i + 1;
    if (t->track_count == TRACKS_MAX)
        return 0;
    snprintf(t->tracks[t->track_count++], TRACK_NAME, "%s", name);
    if (t->format == TV_TRACE_PFTRACE)
        tv_packets_track(&t->packets, t->track_count, name);
    else
        encode_name(t, "thread_name", t->track_count, name);
    return t->track_count;
}

/* The number of the event's track. 0: it has none. */
static unsigned track_of(tv_trace_encoder *t, const tv_event *e)
{
    if (e->kind == TV_EVENT_TOKEN)
        return find_track(t, "tokens");
    if (!e->engine)
        return 0;
    const char *name = e->lane ? e->lane : e->engine;
    unsigned slot = tv_packet_slot(name, TRACKS_FOUND);
    if (!t->is_live || t->found[slot].from != name) {
        t->found[slot].from = name;
        t->found[slot].track = find_track(t, name);
    }
    return t->found[slot].track;
}

/* Reserved color names of the trace viewer, so that a stall reason keeps its color; Perfetto colors by name. */
static const char *reason_color(const char *reason)
{
    static const char *const colors[][2] = {{"sync", "grey"},
                                            {"raw", "terrible"},
                                            {"war", "bad"},
                                            {"waw", "yellow"},
                                            {"frontend", "olive"},
                                            {"resource", "generic_work"},
                                            {"stream", "vsync_highlight_color"}};
    for (size_t i = 0; i < TV_COUNTOF(colors); i++)
        if (strcmp(colors[i][0], reason) == 0)
            return colors[i][1];
    return "black";
}

enum { EVENT_NAME = 80, EVENT_NAME_OP = 60, EVENT_NAME_REASON = 48 };

/* What viewers show of the event: its operation, if that is short, or what is written to `name`. */
static const char *name_event(const tv_event *e, char name[EVENT_NAME])
{
    static const char stall[] = "stall: ";
    const char *op = e->op ? e->op : "", *reason = e->reason ? e->reason : "";
    if (e->kind == TV_EVENT_STALL) { /* each second event, which snprintf would take long for */
        size_t length = strnlen(reason, EVENT_NAME_REASON);
        memcpy(name, stall, sizeof stall);
        memcpy(name + sizeof stall - 1, reason, length);
        name[sizeof stall - 1 + length] = '\0';
    } else if (e->kind == TV_EVENT_STATUS) {
        snprintf(name, EVENT_NAME, "STAT_OUT %" PRId64, e->index);
    } else if (e->kind == TV_EVENT_TOKEN) {
        snprintf(name, EVENT_NAME, "%.20s %" PRId64, op, e->index);
    } else if (strnlen(op, EVENT_NAME_OP + 1) <= EVENT_NAME_OP) {
        return op;
    } else {
        snprintf(name, EVENT_NAME, "%.*s", EVENT_NAME_OP, op);
    }
    return name;
}

/* All members of the JSON trace's event, so that a file can be converted back. */
static void encode_args(tv_trace_encoder *t, tv_json_members *m, const tv_event *e)
{
    TV_JSON_BEGIN_MEMBER(m, "args");
    if (e->engine)
        KNOWN_TEXT_MEMBER(t, m, "engine", e->engine, t->is_live);
    if (e->engine_id)
        TV_JSON_MEMBER(m, "engine_id", unsigned, e->engine_id);
    if (e->op)
        KNOWN_TEXT_MEMBER(t, m, "op", e->op, t->is_live && tv_trace_has_constant_op(e));
    if (e->layer)
        KNOWN_TEXT_MEMBER(t, m, "layer", e->layer, t->is_live);
    encode_details(t, m, e);
    if (e->index >= 0 && e->kind != TV_EVENT_TOKEN)
        TV_JSON_MEMBER(m, "instruction", integer, e->index);
    TV_JSON_MEMBER(m, "start_cycle", unsigned, e->start);
    TV_JSON_MEMBER(m, "end_cycle", unsigned, e->end);
    tv_json_put_end(m);
}

static void encode_chrome_event(tv_trace_encoder *t, const tv_event *e)
{
    bool instant = e->kind == TV_EVENT_STATUS || e->kind == TV_EVENT_MARKER;
    unsigned tid = track_of(t, e);
    char own[EVENT_NAME];
    const char *name = name_event(e, own);
    tv_json_members m = begin_event(t);
    KNOWN_TEXT_MEMBER(t, &m, "name", name, name == e->op && t->is_live && tv_trace_has_constant_op(e));
    KNOWN_TEXT_MEMBER(t, &m, "cat", tv_trace_kind_names[e->kind], true);
    TV_JSON_MEMBER(&m, "ph", text, instant ? "i" : "X");
    TV_JSON_MEMBER(&m, "pid", unsigned, 1);
    TV_JSON_MEMBER(&m, "tid", unsigned, tid);
    TV_JSON_MEMBER(&m, "ts", number, microseconds(t, e->start), TIME_DIGITS);
    encode_args(t, &m, e);
    if (instant)
        TV_JSON_MEMBER(&m, "s", text, e->kind == TV_EVENT_MARKER ? "g" : "t");
    else
        TV_JSON_MEMBER(&m, "dur", number, microseconds(t, e->end - e->start), TIME_DIGITS);
    if (e->kind == TV_EVENT_STALL)
        TV_JSON_MEMBER(&m, "cname", text, reason_color(e->reason ? e->reason : ""));
    tv_json_end_members(&m);
}

/* A counter keeps its value until the next event of it. */
static void encode_chrome_counter(tv_trace_encoder *t, const tv_trace_sample *s)
{
    double cycles = s->window_cycles ? (double)s->window_cycles : 1;
    tv_json_writer *w = begin_element(t);
    tv_json_string_member(w, "name", "memory bytes/cycle");
    tv_json_string_member(w, "ph", "C");
    tv_json_unsigned_member(w, "pid", 1);
    write_number_member(w, "ts", microseconds(t, s->cycle), TIME_DIGITS);
    tv_json_key(w, "args");
    tv_json_begin_object(w);
    write_number_member(w, "read", s->read / cycles, EXACT);
    write_number_member(w, "write", s->written / cycles, EXACT);
    tv_json_end_object(w);
    tv_json_unsigned_member(w, "cycle", s->cycle);
    tv_json_unsigned_member(w, "window_cycles", s->window_cycles);
    write_number_member(w, "stall_cycles", s->stalled, EXACT);
    tv_json_end_object(w);
}

static void encode_counter(tv_trace_encoder *t, const tv_trace_sample *s, bool is_zero)
{
    if (t->format == TV_TRACE_PFTRACE)
        tv_packets_sample(&t->packets, s, is_zero);
    else
        encode_chrome_counter(t, s);
}

static void encode_zero(tv_trace_encoder *t) { encode_counter(t, &(tv_trace_sample){.cycle = t->counter_cycle}, true); }

/* The sample, after a zero if there is none up to it. */
static void encode_counters(tv_trace_encoder *t, const tv_trace_sample *s)
{
    if (s->cycle > t->counter_cycle)
        encode_zero(t);
    encode_counter(t, s, false);
    t->counter_cycle = s->cycle + s->window_cycles;
}

static void encode_json_sample(tv_trace_encoder *t, const tv_trace_sample *s)
{
    tv_json_writer *w = begin_element(t);
    tv_json_unsigned_member(w, "cycle", s->cycle);
    tv_json_unsigned_member(w, "window_cycles", s->window_cycles);
    write_number_member(w, "dram_read_bytes", s->read, EXACT);
    write_number_member(w, "dram_write_bytes", s->written, EXACT);
    write_number_member(w, "stall_cycles", s->stalled, EXACT);
    tv_json_end_object(w);
}

/* ---- Members of the document ---- */

/* The value of a member that is not one of the document's object is complete. */
static void end_member(tv_trace_encoder *t)
{
    if (t->member && t->format == TV_TRACE_PFTRACE) {
        tv_json_writer_finish(&t->json);
        tv_packets_member(&t->packets, t->member, (tv_sv){(const char *)t->value.data, t->value.len});
        t->value.len = 0;
    } else if (t->member) {
        tv_json_end_object(&t->json);
        tv_json_end_object(&t->json);
    }
    t->member = NULL;
}

/* A metadata event, because viewers read no further than to a member of the document that they do not know. */
static void begin_chrome_member(tv_trace_encoder *t, const char *name)
{
    tv_json_writer *w = begin_element(t);
    tv_json_string_member(w, "name", name);
    tv_json_string_member(w, "ph", "M");
    tv_json_unsigned_member(w, "pid", 1);
    tv_json_key(w, "args");
    tv_json_begin_object(w);
    tv_json_key(w, "value");
}

void tv_trace_encode_member(tv_trace_encoder *t, const char *name)
{
    if (t->format == TV_TRACE_JSON) {
        tv_json_newline(&t->json);
        tv_json_key(&t->json, name);
        return;
    }
    end_member(t);
    t->member = name;
    if (t->format == TV_TRACE_PFTRACE)
        tv_json_writer_init_buf(&t->json, &t->value, TV_JSON_COMPACT);
    else
        begin_chrome_member(t, name);
}

/* ---- Packets ---- */

/* Whether the event has to name its engine: the readers take that of the track's event before. */
static bool names_engine(tv_trace_encoder *t, const tv_event *e, unsigned track)
{
    if (!e->engine || track == 0 || e->kind == TV_EVENT_TOKEN)
        return e->engine != NULL;
    char *known = t->engines[track - 1].name;
    bool is_known = t->is_live && t->engines[track - 1].from == e->engine;
    if (*known && t->engines[track - 1].id == e->engine_id && (is_known || strcmp(known, e->engine) == 0))
        return false;
    t->engines[track - 1].from = e->engine;
    bool fits = strlen(e->engine) < TRACK_NAME;
    snprintf(known, TRACK_NAME, "%s", fits ? e->engine : "");
    t->engines[track - 1].id = e->engine_id;
    return true;
}

static void encode_packets_of_event(tv_trace_encoder *t, const tv_event *e)
{
    unsigned track = track_of(t, e);
    tv_packets_event(&t->packets, e, track, names_engine(t, e, track), t->is_live);
}

/* ---- The document ---- */

void tv_trace_encode_begin(tv_trace_encoder *t)
{
    if (t->format == TV_TRACE_PERFETTO) { /* without displayTimeUnit: some viewers take "ns" for the unit of times */
        tv_json_begin_object(&t->json);
        tv_json_key(&t->json, "traceEvents");
        tv_json_begin_array(&t->json);
    }
    if (t->format == TV_TRACE_JSON) {
        tv_json_begin_object(&t->json);
        tv_json_string_member(&t->json, "version", TV_TRACE_VERSION);
        return;
    }
    tv_trace_encode_member(t, "version");
    tv_json_write_string(&t->json, TV_TRACE_VERSION);
}

void tv_trace_encode_begin_events(tv_trace_encoder *t, const char *target, const char *const *engines,
                                  unsigned engine_count)
{
    if (t->format == TV_TRACE_JSON) {
        tv_trace_encode_member(t, "timeline_events");
        tv_json_begin_array(&t->json);
        return;
    }
    end_member(t);
    if (t->format == TV_TRACE_PFTRACE)
        tv_packets_machine(&t->packets, target);
    else
        encode_name(t, "process_name", 0, target);
    for (unsigned e = 0; e < engine_count; e++)
        find_track(t, engines[e]);
}

void tv_trace_invalidate_texts(tv_trace_encoder *t)
{
    memset(t->known_texts, 0, sizeof t->known_texts);
    if (t->format == TV_TRACE_PFTRACE)
        tv_packets_invalidate_texts(&t->packets);
}

void tv_trace_encode_event(tv_trace_encoder *t, const tv_event *e, const tv_trace_extras *extras)
{
    if (t->format == TV_TRACE_JSON)
        encode_json_event(t, e, extras);
    else if (t->format == TV_TRACE_PFTRACE)
        encode_packets_of_event(t, e);
    else if (e->kind != TV_EVENT_COMMAND)
        encode_chrome_event(t, e);
}

void tv_trace_encode_end_events(tv_trace_encoder *t)
{
    if (t->format != TV_TRACE_JSON)
        return;
    tv_json_newline(&t->json);
    tv_json_end_array(&t->json);
    tv_trace_encode_member(t, "bandwidth_samples");
    tv_json_begin_array(&t->json);
}

void tv_trace_encode_sample(tv_trace_encoder *t, const tv_trace_sample *s)
{
    if (t->format == TV_TRACE_JSON)
        encode_json_sample(t, s);
    else
        encode_counters(t, s);
}

void tv_trace_encode_begin_summary(tv_trace_encoder *t)
{
    if (t->format == TV_TRACE_JSON) {
        tv_json_newline(&t->json);
        tv_json_end_array(&t->json);
    } else {
        encode_zero(t);
    }
    tv_trace_encode_member(t, "summary_metrics");
}

bool tv_trace_encode_end(tv_trace_encoder *t)
{
    end_member(t);
    if (t->format == TV_TRACE_PFTRACE)
        return tv_packets_finish(&t->packets) && !t->value.failed;
    if (t->format == TV_TRACE_PERFETTO) {
        tv_json_newline(&t->json);
        tv_json_end_array(&t->json);
    }
    tv_json_end_object(&t->json);
    tv_json_newline(&t->json);
    tv_json_writer_finish(&t->json);
    return true;
}
