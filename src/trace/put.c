/* SPDX-License-Identifier: Apache-2.0 */
/* The two forms of trace files: the JSON trace that all machines share, and Chrome trace events, which the Perfetto UI
 * opens. docs/trace.md describes both. */
#include "trace/put.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

const char *const tv_trace_kind_names[TV_EVENT_ACCESS + 1] = {
    [TV_EVENT_ENGINE] = "ENGINE_EVENT", [TV_EVENT_STALL] = "STALL_EVENT",   [TV_EVENT_COMMAND] = "CMD_EVENT",
    [TV_EVENT_STATUS] = "STAT_OUT",     [TV_EVENT_MARKER] = "MARKER_EVENT", [TV_EVENT_TRANSFER] = "TRANSFER",
    [TV_EVENT_TOKEN] = "TOKEN_EVENT"};

bool tv_trace_put_init(tv_trace_put *p, FILE *out, tv_trace_format format)
{
    p->out = out;
    p->format = format;
    p->first = true;
    p->gen = yajl_gen_alloc(NULL);
    if (p->gen)
        yajl_gen_config(p->gen, yajl_gen_validate_utf8, 1);
    return p->gen != NULL;
}

void tv_trace_put_fini(tv_trace_put *p)
{
    if (p->gen)
        yajl_gen_free(p->gen);
    p->gen = NULL;
}

/* ---- Pieces of JSON ---- */

/* A number as JSON, with a point in every locale, of at most `digits` digits. */
static void number_text(double value, int digits, char text[static 32])
{
    snprintf(text, 32, "%.*g", digits, isfinite(value) ? value : 0.0);
    char *comma = strchr(text, ',');
    if (comma)
        *comma = '.';
}

static void separate(tv_trace_put *p)
{
    fputs(p->first ? "\n" : ",\n", p->out);
    p->first = false;
}

static void text(tv_trace_put *p, const char *value)
{
    /* a name that is not UTF-8 is left out */
    if (!value || yajl_gen_string(p->gen, (const unsigned char *)value, strlen(value)) != yajl_gen_status_ok)
        yajl_gen_null(p->gen);
}

static void key(tv_trace_put *p, const char *name)
{
    yajl_gen_string(p->gen, (const unsigned char *)name, strlen(name));
}

static void text_member(tv_trace_put *p, const char *name, const char *value)
{
    key(p, name);
    text(p, value);
}

static void whole_member(tv_trace_put *p, const char *name, uint64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, value);
    key(p, name);
    yajl_gen_number(p->gen, digits, (size_t)n);
}

static void real_member(tv_trace_put *p, const char *name, double value)
{
    char digits[32];
    number_text(value, 12, digits);
    key(p, name);
    yajl_gen_number(p->gen, digits, strlen(digits));
}

/* With as many digits as it takes to read the same number back. */
static void exact_member(tv_trace_put *p, const char *name, double value)
{
    char digits[32];
    int n = 15;
    do
        snprintf(digits, sizeof digits, "%.*g", n, isfinite(value) ? value : 0.0);
    while (strtod(digits, NULL) != value && isfinite(value) && ++n <= 17);
    number_text(value, n, digits);
    key(p, name);
    yajl_gen_number(p->gen, digits, strlen(digits));
}

static void open_object(tv_trace_put *p) { yajl_gen_map_open(p->gen); }

static void close_object(tv_trace_put *p) { yajl_gen_map_close(p->gen); }

/* What has been generated, as an element of a list. `more` go before its last brace, `inner` before the one before
 * that. */
static void put_element(tv_trace_put *p, const char *more, const char *inner)
{
    const unsigned char *data;
    size_t size;
    separate(p);
    if (yajl_gen_get_buf(p->gen, &data, &size) != yajl_gen_status_ok || size < 2)
        p->failed = true;
    else if (more || inner)
        fprintf(p->out, "%.*s%s%s}%s%s}", (int)(size - 2), (const char *)data,
                inner && data[size - 3] != '{' ? "," : "", inner ? inner : "", more ? "," : "", more ? more : "");
    else
        fwrite(data, 1, size, p->out);
    yajl_gen_clear(p->gen);
    yajl_gen_reset(p->gen, NULL);
}

/* ---- Events ---- */

static void details(tv_trace_put *p, const tv_event *e)
{
    static const char *const routes[] = {"route_in", "route_out"};
    if (e->bytes)
        whole_member(p, "bytes", e->bytes);
    if (e->macs)
        whole_member(p, "macs", e->macs);
    for (unsigned i = 0; i < 2; i++) {
        char code[16];
        snprintf(code, sizeof code, "0x%02" PRIx32, e->routes[i]);
        if (e->routes[i])
            text_member(p, routes[i], code);
    }
    if (e->kind == TV_EVENT_TOKEN && e->index >= 0)
        whole_member(p, "position", (uint64_t)e->index);
    if (e->tokens || e->kind == TV_EVENT_TOKEN)
        whole_member(p, "tokens", e->tokens);
    if (e->reason)
        text_member(p, "cause", e->reason);
    if (e->waits_for >= 0 && e->kind == TV_EVENT_STALL)
        whole_member(p, "waits_for", (uint64_t)e->waits_for);
    if (e->file) {
        text_member(p, "file", e->file);
        whole_member(p, "line", e->line);
    }
}

static void json_event(tv_trace_put *p, const tv_event *e, const char *more, const char *more_details)
{
    open_object(p);
    text_member(p, "type", tv_trace_kind_names[e->kind]);
    text_member(p, "engine", e->engine);
    whole_member(p, "engine_id", e->engine_id);
    key(p, "cmdq_id");
    if (e->index < 0 || e->kind == TV_EVENT_TOKEN)
        yajl_gen_null(p->gen);
    else
        yajl_gen_integer(p->gen, e->index);
    text_member(p, "layer_id", e->layer);
    text_member(p, "op", e->op);
    whole_member(p, "start_cycle", e->start);
    whole_member(p, "end_cycle", e->end);
    key(p, "details");
    open_object(p);
    details(p, e);
    close_object(p);
    close_object(p);
    put_element(p, more, more_details);
}

static double microseconds(const tv_trace_put *p, uint64_t cycles) { return (double)cycles / p->clock_hz * 1e6; }

/* The names of processes and tracks. */
static void name_event(tv_trace_put *p, const char *what, unsigned tid, const char *name)
{
    open_object(p);
    text_member(p, "name", what);
    text_member(p, "ph", "M");
    whole_member(p, "pid", 1);
    if (tid)
        whole_member(p, "tid", tid);
    key(p, "args");
    open_object(p);
    text_member(p, "name", name);
    close_object(p);
    close_object(p);
    put_element(p, NULL, NULL);
}

/* Tracks are few, and neighbours in the list of events differ: a look from the front is quick. */
static unsigned track(tv_trace_put *p, const char *name)
{
    for (unsigned i = 0; i < p->track_count; i++)
        if (strncmp(p->tracks[i], name, TRACK_NAME - 1) == 0)
            return i + 1;
    if (p->track_count == TRACKS_MAX)
        return 0;
    snprintf(p->tracks[p->track_count++], TRACK_NAME, "%s", name);
    name_event(p, "thread_name", p->track_count, name);
    return p->track_count;
}

/* Reserved colour names of the trace viewer, so that a cause keeps its colour; Perfetto colours by name. */
static const char *cause_color(const char *reason)
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

static void event_name(const tv_event *e, char *name, size_t size)
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

/* All that the JSON trace says of the event, so that a file can be turned back. */
static void chrome_args(tv_trace_put *p, const tv_event *e)
{
    key(p, "args");
    open_object(p);
    if (e->engine)
        text_member(p, "engine", e->engine);
    if (e->engine_id)
        whole_member(p, "engine_id", e->engine_id);
    if (e->op)
        text_member(p, "op", e->op);
    if (e->layer)
        text_member(p, "layer", e->layer);
    details(p, e);
    if (e->index >= 0 && e->kind != TV_EVENT_TOKEN)
        whole_member(p, "instruction", (uint64_t)e->index);
    whole_member(p, "start_cycle", e->start);
    whole_member(p, "end_cycle", e->end);
    close_object(p);
}

static void chrome_event(tv_trace_put *p, const tv_event *e)
{
    bool instant = e->kind == TV_EVENT_STATUS || e->kind == TV_EVENT_MARKER;
    unsigned tid = e->kind == TV_EVENT_TOKEN ? track(p, "tokens")
                   : e->engine               ? track(p, e->lane ? e->lane : e->engine)
                                             : 0;
    char name[80];
    event_name(e, name, sizeof name);
    open_object(p);
    text_member(p, "name", name);
    text_member(p, "cat", tv_trace_kind_names[e->kind]);
    text_member(p, "ph", instant ? "i" : "X");
    whole_member(p, "pid", 1);
    whole_member(p, "tid", tid);
    real_member(p, "ts", microseconds(p, e->start));
    chrome_args(p, e);
    if (instant)
        text_member(p, "s", e->kind == TV_EVENT_MARKER ? "g" : "t");
    else
        real_member(p, "dur", microseconds(p, e->end - e->start));
    if (e->kind == TV_EVENT_STALL)
        text_member(p, "cname", cause_color(e->reason ? e->reason : ""));
    close_object(p);
    put_element(p, NULL, NULL);
}

void tv_trace_put_event(tv_trace_put *p, const tv_event *e, const char *more, const char *more_details)
{
    if (p->format == TV_TRACE_JSON)
        json_event(p, e, more, more_details);
    else if (e->kind != TV_EVENT_COMMAND)
        chrome_event(p, e);
}

/* ---- What stands around the events ---- */

void tv_trace_put_begin(tv_trace_put *p, const tv_trace_head *head)
{
    p->clock_hz = head->clock_hz > 0 ? head->clock_hz : 1e9;
    if (p->format == TV_TRACE_JSON) {
        fprintf(p->out, "{\"version\":\"1.1\",\n\"run_metadata\":%s,\n\"config_snapshot\":%s,\n\"timeline_events\":[",
                head->run_metadata, head->config);
        return;
    }
    fprintf(p->out, "{\"displayTimeUnit\":\"ns\",\n\"run_metadata\":%s,\n\"config_snapshot\":%s,\n\"traceEvents\":[",
            head->run_metadata, head->config);
    name_event(p, "process_name", 0, head->target);
    for (unsigned e = 0; e < head->engine_count; e++)
        track(p, head->engines[e]);
}

void tv_trace_put_events_end(tv_trace_put *p)
{
    if (p->format != TV_TRACE_JSON)
        return;
    fputs("\n],\n\"bandwidth_samples\":[", p->out);
    p->first = true;
}

/* The counter keeps its value until the next one. */
static void chrome_counter(tv_trace_put *p, const tv_trace_sample *s)
{
    double cycles = s->window_cycles ? (double)s->window_cycles : 1;
    open_object(p);
    text_member(p, "name", "memory bytes/cycle");
    text_member(p, "ph", "C");
    whole_member(p, "pid", 1);
    real_member(p, "ts", microseconds(p, s->cycle));
    key(p, "args");
    open_object(p);
    exact_member(p, "read", s->read / cycles);
    exact_member(p, "write", s->written / cycles);
    close_object(p);
    whole_member(p, "cycle", s->cycle);
    whole_member(p, "window_cycles", s->window_cycles);
    exact_member(p, "stall_cycles", s->stalled);
    close_object(p);
    put_element(p, NULL, NULL);
}

void tv_trace_put_sample(tv_trace_put *p, const tv_trace_sample *s)
{
    if (p->format != TV_TRACE_JSON) {
        if (s->cycle > p->counted)
            chrome_counter(p, &(tv_trace_sample){.cycle = p->counted});
        chrome_counter(p, s);
        p->counted = s->cycle + s->window_cycles;
        return;
    }
    open_object(p);
    whole_member(p, "cycle", s->cycle);
    whole_member(p, "window_cycles", s->window_cycles);
    exact_member(p, "dram_read_bytes", s->read);
    exact_member(p, "dram_write_bytes", s->written);
    exact_member(p, "stall_cycles", s->stalled);
    close_object(p);
    put_element(p, NULL, NULL);
}

void tv_trace_put_summary(tv_trace_put *p, const char *summary)
{
    if (p->format != TV_TRACE_JSON)
        chrome_counter(p, &(tv_trace_sample){.cycle = p->counted});
    fprintf(p->out, "\n],\n\"%s\":%s", p->format == TV_TRACE_JSON ? "summary_metrics" : "otherData", summary);
}

void tv_trace_put_member(tv_trace_put *p, const char *name, const char *value)
{
    const unsigned char *data;
    size_t size;
    text(p, name);
    if (yajl_gen_get_buf(p->gen, &data, &size) == yajl_gen_status_ok)
        fprintf(p->out, ",\n%.*s:%s", (int)size, (const char *)data, value);
    yajl_gen_clear(p->gen);
    yajl_gen_reset(p->gen, NULL);
}

void tv_trace_put_end(tv_trace_put *p) { fputs("}\n", p->out); }
