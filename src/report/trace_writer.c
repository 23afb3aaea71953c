/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files, written as the events come: the JSON trace that all machines share, and Chrome trace-event JSON, which
 * the Perfetto UI opens. Memory stays bounded however long the run is: bandwidth is gathered in windows that double in
 * width when there are too many. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/diag.h"
#include "trivet/file.h"
#include "trivet/machine.h"
#include "trivet/trace.h"

enum { WINDOWS_MAX = 4096, FIRST_WINDOW = 64 };

typedef struct window {
    double read, written, stalled;
} window;

struct tv_trace_writer {
    tv_output *output;
    FILE *out;
    tv_trace_format format;
    double clock_hz;
    bool first; /* no event written yet */
    bool failed;
    uint64_t window_cycles;
    window windows[WINDOWS_MAX];
    unsigned window_count;
    double read_bytes, written_bytes;
    uint64_t tokens, kv_bytes[2]; /* read, written */
    const char *tracks[TV_ENGINES_MAX + 1]; /* Perfetto: the engines seen, and the tokens, static strings of the machine */
    unsigned track_count;
};

/* ---- Bandwidth windows ---- */

static void halve_windows(tv_trace_writer *w)
{
    for (unsigned i = 0; i < WINDOWS_MAX / 2; i++) {
        window a = w->windows[2 * i], b = w->windows[2 * i + 1];
        w->windows[i] = (window){a.read + b.read, a.written + b.written, a.stalled + b.stalled};
    }
    memset(w->windows + WINDOWS_MAX / 2, 0, sizeof w->windows / 2);
    w->window_count = (w->window_count + 1) / 2;
    w->window_cycles *= 2;
}

/* Spreads an amount evenly over the cycles from `start` to `end`. */
static void spread(tv_trace_writer *w, uint64_t start, uint64_t end, double amount, size_t member)
{
    if (end <= start)
        end = start + 1;
    while ((end - 1) / w->window_cycles >= WINDOWS_MAX)
        halve_windows(w);
    double each = amount / (double)(end - start);
    for (uint64_t at = start; at < end;) {
        uint64_t i = at / w->window_cycles, stop = (i + 1) * w->window_cycles;
        if (stop > end)
            stop = end;
        double *value = (double *)(void *)((char *)&w->windows[i] + member);
        *value += each * (double)(stop - at);
        if (i >= w->window_count)
            w->window_count = (unsigned)i + 1;
        at = stop;
    }
}

/* ---- JSON pieces ---- */

static void dump(tv_trace_writer *w, json_t *object, const char *before)
{
    fputs(before, w->out);
    if (!object || json_dumpf(object, w->out, JSON_COMPACT | JSON_REAL_PRECISION(12)) != 0)
        w->failed = true;
    json_decref(object);
}

/* jansson takes UTF-8 only; a name that is not is left out. */
static json_t *text_or_null(const char *text)
{
    json_t *value = text ? json_string(text) : NULL;
    return value ? value : json_null();
}

static void separate(tv_trace_writer *w)
{
    fputs(w->first ? "\n" : ",\n", w->out);
    w->first = false;
}

static json_t *config_json(const tv_machine *machine)
{
    json_t *object = json_object();
    tv_config_entry entry;
    for (unsigned i = 0; tv_config_at(tv_machine_config(machine), i, &entry); i++)
        json_object_set_new(object, entry.key, text_or_null(entry.value));
    return object;
}

static json_t *summary_json(const tv_trace_writer *w, const tv_machine *machine)
{
    tv_stats s;
    tv_machine_stats(machine, &s);
    json_t *engines = json_object();
    for (unsigned e = 0; e < s.engine_count; e++) {
        json_t *held = json_object();
        for (unsigned c = 0; c < s.cause_count; c++)
            if (s.engines[e].held[c])
                json_object_set_new(held, s.causes[c], json_integer((json_int_t)s.engines[e].held[c]));
        json_object_set_new(engines, s.engines[e].name,
                            json_pack("{s:I, s:I, s:o, s:f}", "active_cycles", (json_int_t)s.engines[e].busy, "idle_cycles",
                                      (json_int_t)s.engines[e].idle, "held_cycles", held, "utilization",
                                      s.cycles ? (double)s.engines[e].busy / (double)s.cycles : 0.0));
    }
    return json_pack("{s:I, s:f, s:I, s:I, s:f, s:f, s:o, s:{s:I, s:I}, s:I, s:s}", "cycles_total", (json_int_t)s.cycles, "seconds", s.seconds,
                     "instructions", (json_int_t)s.instructions, "macs", (json_int_t)s.macs, "dram_read_bytes", w->read_bytes,
                     "dram_write_bytes", w->written_bytes, "engines", engines, "kv_cache", "read_bytes", (json_int_t)w->kv_bytes[0],
                     "write_bytes", (json_int_t)w->kv_bytes[1], "tokens",
                     (json_int_t)w->tokens, "bound_by", s.bound_by);
}

/* ---- The JSON trace ---- */

static const char *const kind_names[] = {[TV_EVENT_ENGINE] = "ENGINE_EVENT",  [TV_EVENT_STALL] = "STALL_EVENT",
                                         [TV_EVENT_COMMAND] = "CMD_EVENT",    [TV_EVENT_STATUS] = "STAT_OUT",
                                         [TV_EVENT_MARKER] = "MARKER_EVENT",  [TV_EVENT_TRANSFER] = "TRANSFER",
                                         [TV_EVENT_TOKEN] = "TOKEN_EVENT"};

static json_t *details(const tv_event *e)
{
    json_t *d = json_object();
    if (e->bytes)
        json_object_set_new(d, "bytes", json_integer((json_int_t)e->bytes));
    if (e->macs)
        json_object_set_new(d, "macs", json_integer((json_int_t)e->macs));
    for (unsigned i = 0; i < 2; i++) {
        char text[16];
        snprintf(text, sizeof text, "0x%02" PRIx32, e->routes[i]);
        if (e->routes[i])
            json_object_set_new(d, i ? "route_out" : "route_in", json_string(text));
    }
    if (e->kind == TV_EVENT_TOKEN) {
        json_object_set_new(d, "position", json_integer(e->index));
        json_object_set_new(d, "tokens", json_integer((json_int_t)e->tokens));
    }
    if (e->cause)
        json_object_set_new(d, "cause", json_string(e->cause));
    if (e->waits_for >= 0)
        json_object_set_new(d, "waits_for", json_integer(e->waits_for));
    if (e->file) {
        json_object_set_new(d, "file", text_or_null(e->file));
        json_object_set_new(d, "line", json_integer(e->line));
    }
    return d;
}

static void json_event(tv_trace_writer *w, const tv_event *e)
{
    separate(w);
    dump(w,
         json_pack("{s:s, s:o, s:i, s:o, s:o, s:o, s:I, s:I, s:o}", "type", kind_names[e->kind], "engine", text_or_null(e->engine), "engine_id", (int)e->engine_id,
                   "cmdq_id", e->index < 0 || e->kind == TV_EVENT_TOKEN ? json_null() : json_integer(e->index), "layer_id", text_or_null(e->layer), "op", text_or_null(e->op), "start_cycle",
                   (json_int_t)e->start, "end_cycle", (json_int_t)e->end, "details", details(e)),
         "");
}

static void json_head(tv_trace_writer *w, const tv_machine *machine)
{
    fputs("{\"version\":\"1.1\",\n\"run_metadata\":", w->out);
    dump(w, json_pack("{s:s, s:s, s:s, s:f}", "tool", "trivet", "tool_version", tv_version(), "target", tv_machine_target(machine), "clock_hz", w->clock_hz), "");
    dump(w, config_json(machine), ",\n\"config_snapshot\":");
    fputs(",\n\"timeline_events\":[", w->out);
}

static void json_tail(tv_trace_writer *w, const tv_machine *machine)
{
    fputs("\n],\n\"bandwidth_samples\":[", w->out);
    w->first = true;
    for (unsigned i = 0; i < w->window_count; i++) {
        const window *v = &w->windows[i];
        if (v->read == 0 && v->written == 0 && v->stalled == 0)
            continue;
        separate(w);
        dump(w,
             json_pack("{s:I, s:I, s:f, s:f, s:f}", "cycle", (json_int_t)(i * w->window_cycles), "window_cycles", (json_int_t)w->window_cycles,
                       "dram_read_bytes", v->read, "dram_write_bytes", v->written, "stall_cycles", v->stalled),
             "");
    }
    dump(w, summary_json(w, machine), "\n],\n\"summary_metrics\":");
    fputs("}\n", w->out);
}

/* ---- Chrome trace events ---- */

static double microseconds(const tv_trace_writer *w, uint64_t cycles) { return (double)cycles / w->clock_hz * 1e6; }

static int track(tv_trace_writer *w, const char *engine)
{
    for (unsigned i = 0; i < w->track_count; i++)
        if (strcmp(w->tracks[i], engine) == 0)
            return (int)i + 1;
    if (w->track_count == TV_COUNTOF(w->tracks))
        return 0;
    w->tracks[w->track_count++] = engine;
    separate(w);
    dump(w, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", "thread_name", "ph", "M", "pid", 1, "tid", (int)w->track_count, "args", "name", engine), "");
    return (int)w->track_count;
}

/* Reserved colour names of the trace viewer, so that a cause keeps its colour; Perfetto colours by name. */
static const char *cause_color(const char *cause)
{
    static const char *const colors[][2] = {{"sync", "grey"},          {"raw", "terrible"},  {"war", "bad"},
                                            {"waw", "yellow"},         {"frontend", "olive"}, {"resource", "generic_work"},
                                            {"stream", "vsync_highlight_color"}};
    for (size_t i = 0; i < TV_COUNTOF(colors); i++)
        if (strcmp(colors[i][0], cause) == 0)
            return colors[i][1];
    return "black";
}

static void chrome_event(tv_trace_writer *w, const tv_event *e)
{
    bool instant = e->kind == TV_EVENT_STATUS || e->kind == TV_EVENT_MARKER;
    int tid = e->kind == TV_EVENT_TOKEN ? track(w, "tokens") : e->engine ? track(w, e->lane ? e->lane : e->engine) : 0;
    char name[64];
    if (e->kind == TV_EVENT_STALL)
        snprintf(name, sizeof name, "stall: %s", e->cause);
    else if (e->kind == TV_EVENT_STATUS)
        snprintf(name, sizeof name, "STAT_OUT %" PRId64, e->index);
    else
        snprintf(name, sizeof name, "%.60s", e->op ? e->op : "");
    if (e->kind == TV_EVENT_TOKEN)
        snprintf(name, sizeof name, "%.20s %" PRId64, e->op, e->index);
    json_t *args = details(e);
    if (e->index >= 0 && e->kind != TV_EVENT_TOKEN)
        json_object_set_new(args, "instruction", json_integer(e->index));
    json_object_set_new(args, "start_cycle", json_integer((json_int_t)e->start));
    json_object_set_new(args, "end_cycle", json_integer((json_int_t)e->end));
    json_t *object = json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:o}", "name", name, "cat", kind_names[e->kind], "ph", instant ? "i" : "X", "pid", 1,
                               "tid", tid, "ts", microseconds(w, e->start), "args", args);
    if (instant)
        json_object_set_new(object, "s", json_string(e->kind == TV_EVENT_MARKER ? "g" : "t"));
    else
        json_object_set_new(object, "dur", json_real(microseconds(w, e->end - e->start)));
    if (e->kind == TV_EVENT_STALL)
        json_object_set_new(object, "cname", json_string(cause_color(e->cause)));
    separate(w);
    dump(w, object, "");
}

static void chrome_tail(tv_trace_writer *w, const tv_machine *machine)
{
    for (unsigned i = 0; i <= w->window_count; i++) { /* one past the end brings the counter back to zero */
        window v = i < w->window_count ? w->windows[i] : (window){0};
        separate(w);
        dump(w,
             json_pack("{s:s, s:s, s:i, s:f, s:{s:f, s:f}}", "name", "memory bytes/cycle", "ph", "C", "pid", 1, "ts",
                       microseconds(w, i * w->window_cycles), "args", "read", v.read / (double)w->window_cycles, "write",
                       v.written / (double)w->window_cycles),
             "");
    }
    dump(w, summary_json(w, machine), "\n],\n\"otherData\":");
    fputs("}\n", w->out);
}

/* ---- The writer ---- */

static void take_event(void *user, const tv_event *e)
{
    tv_trace_writer *w = user;
    if (e->kind == TV_EVENT_TRANSFER) {
        spread(w, e->start, e->end, (double)e->bytes, e->write ? offsetof(window, written) : offsetof(window, read));
        *(e->write ? &w->written_bytes : &w->read_bytes) += (double)e->bytes;
        w->kv_bytes[e->write != 0] += e->kv ? e->bytes : 0;
        return;
    }
    w->tokens += e->tokens;
    if (e->kind == TV_EVENT_ACCESS || e->kind == TV_EVENT_LOAD)
        return;
    if (e->kind == TV_EVENT_STALL && !e->scheduler)
        spread(w, e->start, e->end, (double)(e->end - e->start), offsetof(window, stalled));
    if (w->format == TV_TRACE_JSON)
        json_event(w, e);
    else if (e->kind != TV_EVENT_COMMAND)
        chrome_event(w, e);
}

tv_status tv_trace_open(const char *path, tv_trace_format format, const tv_machine *machine, const tv_diag_sink *sink, tv_trace_writer **out)
{
    tv_trace_writer *w = calloc(1, sizeof *w);
    if (!w)
        return tv_fail_memory(sink);
    tv_status status = tv_output_open(path, sink, &w->output);
    if (status != TV_OK) {
        free(w);
        return status;
    }
    tv_stats stats;
    tv_machine_stats(machine, &stats);
    w->out = tv_output_stream(w->output);
    w->format = format;
    w->clock_hz = stats.clock_hz;
    w->first = true;
    w->window_cycles = FIRST_WINDOW;
    if (format == TV_TRACE_JSON) {
        json_head(w, machine);
    } else {
        fputs("{\"displayTimeUnit\":\"ns\",\n\"traceEvents\":[", w->out);
        separate(w);
        dump(w, json_pack("{s:s, s:s, s:i, s:{s:s}}", "name", "process_name", "ph", "M", "pid", 1, "args", "name", tv_machine_target(machine)), "");
        for (unsigned e = 0; e < stats.engine_count; e++)
            track(w, stats.engines[e].name);
    }
    *out = w;
    return TV_OK;
}

tv_trace_sink tv_trace_writer_sink(tv_trace_writer *writer) { return (tv_trace_sink){take_event, writer}; }

tv_status tv_trace_finish(tv_trace_writer *w, const tv_machine *machine, const tv_diag_sink *sink)
{
    if (w->format == TV_TRACE_JSON)
        json_tail(w, machine);
    else
        chrome_tail(w, machine);
    tv_status status = TV_OK;
    if (w->failed) {
        tv_output_abandon(w->output);
        status = tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), NULL, "an event could not be written to the trace");
    } else {
        status = tv_output_commit(w->output, sink);
    }
    free(w);
    return status;
}

void tv_trace_abandon(tv_trace_writer *w)
{
    if (!w)
        return;
    tv_output_abandon(w->output);
    free(w);
}
