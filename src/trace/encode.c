/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of trace files: the JSON trace that all machines share, and two that the Perfetto UI opens, Chrome trace
 * events and Perfetto's packets (packets.c). docs/trace.md describes them. */
#include "trace/encode.h"

#include <inttypes.h>

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

static void encode_details(tv_json_writer *w, const tv_event *e)
{
    static const char *const routes[] = {"route_in", "route_out"};
    if (e->bytes)
        TV_JSON_MEMBER(w, "bytes", unsigned, e->bytes);
    if (e->macs)
        TV_JSON_MEMBER(w, "macs", unsigned, e->macs);
    for (unsigned i = 0; i < 2; i++) {
        char code[16];
        if (!e->routes[i])
            continue;
        format_route(e->routes[i], code);
        tv_json_string_member(w, routes[i], code);
    }
    if (e->kind == TV_EVENT_TOKEN && e->index >= 0)
        TV_JSON_MEMBER(w, "position", integer, e->index);
    if (e->tokens || e->kind == TV_EVENT_TOKEN)
        TV_JSON_MEMBER(w, "tokens", unsigned, e->tokens);
    if (e->reason)
        TV_JSON_MEMBER(w, "reason", string, e->reason);
    if (e->waits_for >= 0 && e->kind == TV_EVENT_STALL)
        TV_JSON_MEMBER(w, "waits_for", integer, e->waits_for);
    if (e->role)
        TV_JSON_MEMBER(w, "tensor_role", string, e->role);
    if (e->mode)
        TV_JSON_MEMBER(w, "op_mode", string, e->mode);
    if (e->file) {
        TV_JSON_MEMBER(w, "file", string, e->file);
        TV_JSON_MEMBER(w, "line", unsigned, e->line);
    }
}

static void encode_json_event(tv_trace_encoder *t, const tv_event *e, const tv_trace_extras *extras)
{
    tv_json_writer *w = begin_element(t);
    TV_JSON_MEMBER(w, "type", string, tv_trace_kind_names[e->kind]);
    TV_JSON_MEMBER(w, "engine", string, e->engine);
    TV_JSON_MEMBER(w, "engine_id", unsigned, e->engine_id);
    TV_JSON_KEY(w, "cmdq_id");
    if (e->index < 0 || e->kind == TV_EVENT_TOKEN)
        tv_json_write_null(w);
    else
        tv_json_write_integer(w, e->index);
    TV_JSON_MEMBER(w, "layer_id", string, e->layer);
    TV_JSON_MEMBER(w, "op", string, e->op);
    TV_JSON_MEMBER(w, "start_cycle", unsigned, e->start);
    TV_JSON_MEMBER(w, "end_cycle", unsigned, e->end);
    TV_JSON_KEY(w, "details");
    tv_json_begin_object(w);
    encode_details(w, e);
    tv_json_write_members(w, extras ? extras->details : NULL, EXACT);
    tv_json_end_object(w);
    tv_json_write_members(w, extras ? extras->members : NULL, EXACT);
    tv_json_end_object(w);
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

static void format_event_name(const tv_event *e, char *name, size_t size)
{
    if (e->kind == TV_EVENT_STALL)
        snprintf(name, size, "stall: %.48s", e->reason ? e->reason : "");
    else if (e->kind == TV_EVENT_STATUS)
        snprintf(name, size, "STAT_OUT %" PRId64, e->index);
    else if (e->kind == TV_EVENT_TOKEN)
        snprintf(name, size, "%.20s %" PRId64, e->op ? e->op : "", e->index);
    else
        snprintf(name, size, "%.60s", e->op ? e->op : "");
}

/* All members of the JSON trace's event, so that a file can be converted back. */
static void encode_args(tv_json_writer *w, const tv_event *e)
{
    TV_JSON_KEY(w, "args");
    tv_json_begin_object(w);
    if (e->engine)
        TV_JSON_MEMBER(w, "engine", string, e->engine);
    if (e->engine_id)
        TV_JSON_MEMBER(w, "engine_id", unsigned, e->engine_id);
    if (e->op)
        TV_JSON_MEMBER(w, "op", string, e->op);
    if (e->layer)
        TV_JSON_MEMBER(w, "layer", string, e->layer);
    encode_details(w, e);
    if (e->index >= 0 && e->kind != TV_EVENT_TOKEN)
        TV_JSON_MEMBER(w, "instruction", integer, e->index);
    TV_JSON_MEMBER(w, "start_cycle", unsigned, e->start);
    TV_JSON_MEMBER(w, "end_cycle", unsigned, e->end);
    tv_json_end_object(w);
}

static void encode_chrome_event(tv_trace_encoder *t, const tv_event *e)
{
    bool instant = e->kind == TV_EVENT_STATUS || e->kind == TV_EVENT_MARKER;
    unsigned tid = track_of(t, e);
    char name[80];
    format_event_name(e, name, sizeof name);
    tv_json_writer *w = begin_element(t);
    TV_JSON_MEMBER(w, "name", string, name);
    TV_JSON_MEMBER(w, "cat", string, tv_trace_kind_names[e->kind]);
    TV_JSON_MEMBER(w, "ph", string, instant ? "i" : "X");
    TV_JSON_MEMBER(w, "pid", unsigned, 1);
    TV_JSON_MEMBER(w, "tid", unsigned, tid);
    write_number_member(w, "ts", microseconds(t, e->start), TIME_DIGITS);
    encode_args(w, e);
    if (instant)
        TV_JSON_MEMBER(w, "s", string, e->kind == TV_EVENT_MARKER ? "g" : "t");
    else
        write_number_member(w, "dur", microseconds(t, e->end - e->start), TIME_DIGITS);
    if (e->kind == TV_EVENT_STALL)
        TV_JSON_MEMBER(w, "cname", string, reason_color(e->reason ? e->reason : ""));
    tv_json_end_object(w);
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
