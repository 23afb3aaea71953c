/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files of a running machine, written as the events come. Memory stays bounded however long the run is: bandwidth
 * is gathered in windows that double in width when there are too many. */
#include <jansson.h>
#include <stdlib.h>

#include "base/diag.h"
#include "trace/put.h"
#include "trivet/file.h"
#include "trivet/machine.h"

enum { WINDOWS_MAX = 4096, FIRST_WINDOW = 64 };

typedef struct window {
    double read, written, stalled;
} window;

struct tv_trace_writer {
    tv_output *output;
    tv_trace_put put;
    uint64_t window_cycles;
    window windows[WINDOWS_MAX];
    unsigned window_count;
    double read_bytes, written_bytes;
    uint64_t tokens, kv_bytes[2]; /* read, written */
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

/* ---- The head and the summary ---- */

/* jansson takes UTF-8 only; a name that is not is left out. */
static json_t *text_or_null(const char *text)
{
    json_t *value = text ? json_string(text) : NULL;
    return value ? value : json_null();
}

/* The text of `object`, whose reference is taken; the caller frees it. NULL: no memory. */
static char *text_of(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(object);
    return text;
}

static json_t *config_json(const tv_machine *machine)
{
    json_t *object = json_object();
    tv_config_entry entry;
    for (unsigned i = 0; tv_config_at(tv_machine_config(machine), i, &entry); i++)
        json_object_set_new(object, entry.key, text_or_null(entry.value));
    return object;
}

static json_t *engines_json(const tv_stats *s)
{
    json_t *engines = json_object();
    for (unsigned e = 0; e < s->engine_count; e++) {
        json_t *stalled = json_object();
        for (unsigned c = 0; c < s->stall_reason_count; c++)
            if (s->engines[e].stalled[c])
                json_object_set_new(stalled, s->stall_reasons[c], json_integer((json_int_t)s->engines[e].stalled[c]));
        json_object_set_new(engines, s->engines[e].name,
                            json_pack("{s:I, s:I, s:o, s:f}", "active_cycles", (json_int_t)s->engines[e].busy,
                                      "idle_cycles", (json_int_t)s->engines[e].idle, "held_cycles", stalled,
                                      "utilization", s->cycles ? (double)s->engines[e].busy / (double)s->cycles : 0.0));
    }
    return engines;
}

static json_t *summary_json(const tv_trace_writer *w, const tv_machine *machine)
{
    tv_stats s = {.size = sizeof s};
    tv_machine_stats(machine, &s);
    json_t *paths = json_object();
    for (unsigned p = 0; p < s.path_count; p++)
        json_object_set_new(
            paths, s.paths[p].name,
            json_pack("{s:I, s:f}", "bytes", (json_int_t)s.paths[p].bytes, "peak_bytes_per_cycle", s.paths[p].peak));
    return json_pack("{s:I, s:f, s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:{s:I, s:I}, s:I, s:s, s:s}", "cycles_total",
                     (json_int_t)s.cycles, "seconds", s.seconds, "instructions", (json_int_t)s.instructions, "macs",
                     (json_int_t)s.macs, "peak_macs_per_cycle", s.peak_macs, "dram_read_bytes", w->read_bytes,
                     "dram_write_bytes", w->written_bytes, "engines", engines_json(&s), "paths", paths, "kv_cache",
                     "read_bytes", (json_int_t)w->kv_bytes[0], "write_bytes", (json_int_t)w->kv_bytes[1], "tokens",
                     (json_int_t)w->tokens, "bound_by", s.bound_by, "verdict", s.bottleneck);
}

static void begin(tv_trace_writer *w, const tv_machine *machine)
{
    tv_stats s = {.size = sizeof s};
    const char *names[TV_ENGINES_MAX];
    json_t *engines = json_array();
    tv_machine_stats(machine, &s);
    for (unsigned e = 0; e < s.engine_count; e++) {
        names[e] = s.engines[e].name;
        json_array_append_new(engines, json_string(names[e]));
    }
    const char *target = tv_machine_target(machine);
    char *run = text_of(json_pack("{s:s, s:s, s:s, s:f, s:o}", "tool", "trivet", "tool_version", tv_version(), "target",
                                  target, "clock_hz", s.clock_hz, "engines", engines));
    char *config = text_of(config_json(machine));
    if (run && config)
        tv_trace_put_begin(&w->put, &(tv_trace_head){target, s.clock_hz, run, config, names, s.engine_count});
    else
        w->put.failed = true;
    free(run);
    free(config);
}

static void end(tv_trace_writer *w, const tv_machine *machine)
{
    tv_trace_put_events_end(&w->put);
    for (unsigned i = 0; i < w->window_count; i++) {
        const window *v = &w->windows[i];
        if (v->read != 0 || v->written != 0 || v->stalled != 0)
            tv_trace_put_sample(
                &w->put, &(tv_trace_sample){i * w->window_cycles, w->window_cycles, v->read, v->written, v->stalled});
    }
    char *summary = text_of(summary_json(w, machine));
    if (summary)
        tv_trace_put_summary(&w->put, summary);
    else
        w->put.failed = true;
    tv_trace_put_end(&w->put);
    free(summary);
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
    tv_trace_put_event(&w->put, e, NULL, NULL);
}

tv_status tv_trace_open(const char *path, tv_trace_format format, const tv_machine *machine, const tv_diag_sink *sink,
                        tv_trace_writer **out)
{
    if (format == TV_TRACE_CSV)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TRACE_FORMAT), "write a JSON trace and convert it",
                       "a machine does not write CSV");
    tv_trace_writer *w = calloc(1, sizeof *w);
    if (!w)
        return tv_fail_memory(sink);
    tv_status status = tv_output_open_compressed(path, sink, &w->output);
    if (status != TV_OK) {
        free(w);
        return status;
    }
    w->window_cycles = FIRST_WINDOW;
    if (!tv_trace_put_init(&w->put, tv_output_stream(w->output), format)) {
        tv_trace_abandon(w);
        return tv_fail_memory(sink);
    }
    begin(w, machine);
    *out = w;
    return TV_OK;
}

tv_trace_sink tv_trace_writer_sink(tv_trace_writer *writer) { return (tv_trace_sink){take_event, writer}; }

tv_status tv_trace_finish(tv_trace_writer *w, const tv_machine *machine, const tv_diag_sink *sink)
{
    end(w, machine);
    tv_status status = TV_OK;
    if (w->put.failed) {
        tv_output_abandon(w->output);
        status = tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), NULL, "an event could not be written to the trace");
    } else {
        status = tv_output_commit(w->output, sink);
    }
    tv_trace_put_fini(&w->put);
    free(w);
    return status;
}

void tv_trace_abandon(tv_trace_writer *w)
{
    if (!w)
        return;
    tv_output_abandon(w->output);
    tv_trace_put_fini(&w->put);
    free(w);
}
