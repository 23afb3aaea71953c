/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a trace's event, checked and made a tv_event. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "trace/parse.h"

static bool has(const trace_reader *r, slot s) { return (r->given >> s & 1) != 0; }

static const char *text_of(const trace_reader *r, slot s)
{
    return has(r, s) ? (const char *)r->texts.data + r->values[s].text : NULL;
}

static uint64_t whole_of(const trace_reader *r, slot s) { return has(r, s) ? r->values[s].whole : 0; }

static int missing(trace_reader *r, const char *name)
{
    return trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "the event that ends here has no '%s'", name);
}

/* How the statistics call an engine: "TE1" of TE and 1, "GEMV" of GEMV and 0. */
static const char *new_lane(trace_reader *r, const char *engine, unsigned id)
{
    char numbered[TRACK_NAME];
    const char *name = NULL;
    snprintf(numbered, sizeof numbered, "%.48s%u", engine, id);
    for (unsigned i = 0; i < r->engine_count; i++)
        if ((id == 0 && strcmp(r->engines[i], engine) == 0) || strcmp(r->engines[i], numbered) == 0)
            name = r->engines[i];
    if (!name)
        name = id || strlen(engine) >= TRACK_NAME ? numbered : engine;
    engine_lane *l = &r->lanes[r->lane_count];
    l->engine = tv_arena_str(&r->arena, tv_sv_of(engine));
    l->name = tv_arena_str(&r->arena, tv_sv_of(name));
    l->id = id;
    if (!l->engine || !l->name)
        return NULL;
    r->lane_count++;
    return l->name;
}

/* NULL: memory is short, or there are too many; the engine's name has to do then. */
static const char *lane_of(trace_reader *r, const char *engine, unsigned id)
{
    for (unsigned i = 0; i < r->lane_count; i++)
        if (r->lanes[i].id == id && strcmp(r->lanes[i].engine, engine) == 0)
            return r->lanes[i].name;
    return r->lane_count < LANES_MAX ? new_lane(r, engine, id) : NULL;
}

static int route_of(trace_reader *r, slot s, uint32_t *out)
{
    const char *text = text_of(r, s);
    char *end;
    if (!text)
        return 1;
    unsigned long code = strtoul(text, &end, 16);
    if (strncmp(text, "0x", 2) != 0 || *end || end == text + 2 || code > UINT32_MAX)
        return trace_wrong(r, TV_CODE(TRACE_FORM), "a route is written as \"0x1f\"", "'%.40s' is not a route", text);
    *out = (uint32_t)code;
    return 1;
}

static bool kind_of(const char *name, tv_event_kind *out)
{
    for (unsigned k = 0; k < TV_COUNTOF(tv_trace_kind_names); k++)
        if (k != TV_EVENT_TRANSFER && tv_trace_kind_names[k] && strcmp(tv_trace_kind_names[k], name) == 0) {
            *out = (tv_event_kind)k;
            return true;
        }
    return false;
}

static int fill_event(trace_reader *r, tv_event *e)
{
    const char *kind = text_of(r, S_KIND);
    bool chrome = r->part == P_CHROME;
    if (!kind)
        return missing(r, chrome ? "cat" : "type");
    if (!kind_of(kind, &e->kind))
        return trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "'%.40s' is no kind of event", kind);
    if (!has(r, S_START) || !has(r, S_END))
        return missing(r, has(r, S_START) ? "end_cycle" : "start_cycle");
    e->start = r->values[S_START].whole;
    e->end = r->values[S_END].whole;
    if (e->end < e->start)
        return trace_wrong(r, TV_CODE(TRACE_FORM), NULL,
                           "the event that ends here runs from cycle %" PRIu64 " to %" PRIu64, e->start, e->end);
    e->engine = text_of(r, S_ENGINE);
    if (!e->engine && (e->kind == TV_EVENT_ENGINE || e->kind == TV_EVENT_STALL))
        return missing(r, "engine");
    if (!has(r, S_REASON) && e->kind == TV_EVENT_STALL)
        return missing(r, "cause");
    if (whole_of(r, S_ENGINE_ID) > UINT16_MAX || whole_of(r, S_LINE) > UINT32_MAX)
        return trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "engine_id is larger than %d, or line than 2^32", UINT16_MAX);
    slot index = e->kind == TV_EVENT_TOKEN && has(r, S_POSITION) ? S_POSITION : S_INDEX;
    if (has(r, S_POSITION) && e->kind != TV_EVENT_TOKEN) /* a member like any other that is not known */
        tv_buf_printf(&r->more_details, "%s\"position\":%" PRIu64, r->more_details.len ? "," : "",
                      whole_of(r, S_POSITION));
    e->engine_id = (unsigned)whole_of(r, S_ENGINE_ID);
    e->index = has(r, index) ? (int64_t)r->values[index].whole : -1;
    e->layer = text_of(r, S_LAYER);
    e->op = text_of(r, S_OP);
    e->bytes = whole_of(r, S_BYTES);
    e->macs = whole_of(r, S_MACS);
    e->tokens = whole_of(r, S_TOKENS);
    e->reason = text_of(r, S_REASON);
    e->waits_for = has(r, S_WAITS_FOR) ? (int64_t)r->values[S_WAITS_FOR].whole : -1;
    e->file = text_of(r, S_FILE);
    e->line = (unsigned)whole_of(r, S_LINE);
    return route_of(r, S_ROUTE_IN, &e->routes[0]) && route_of(r, S_ROUTE_OUT, &e->routes[1]);
}

static bool add_sample(trace_reader *r, const tv_trace_sample *s)
{
    if (r->sample_count == r->sample_room) {
        unsigned room = r->sample_room ? 2 * r->sample_room : 256;
        tv_trace_sample *more = room <= SAMPLES_MAX ? realloc(r->samples, room * sizeof *more) : NULL;
        if (!more)
            return false;
        r->samples = more;
        r->sample_room = room;
    }
    r->samples[r->sample_count++] = *s;
    return true;
}

/* A counter. The one that only ends the window before it has no window. */
static int chrome_sample(trace_reader *r)
{
    double width = (double)whole_of(r, S_WINDOW);
    if (width == 0)
        return 1;
    tv_trace_sample s = {.cycle = whole_of(r, S_CYCLE),
                         .window_cycles = whole_of(r, S_WINDOW),
                         .read = has(r, S_READ) ? r->values[S_READ].real * width : 0,
                         .written = has(r, S_WRITE) ? r->values[S_WRITE].real * width : 0,
                         .stalled = has(r, S_STALLED) ? r->values[S_STALLED].real : 0};
    if (s.read == 0 && s.written == 0 && s.stalled == 0)
        return 1;
    return add_sample(r, &s)
               ? 1
               : trace_wrong(r, TV_CODE(TRACE_LIMIT), NULL, "more than %d bandwidth samples", SAMPLES_MAX);
}

static const char *extras(tv_buf *buf) { return buf->len ? tv_buf_cstr(buf) : NULL; }

int trace_event_end(trace_reader *r)
{
    tv_event e = {.index = -1};
    if (r->part == P_CHROME) {
        const char *phase = text_of(r, S_PHASE);
        if (phase && strcmp(phase, "C") == 0)
            return chrome_sample(r);
        if (!phase || (strcmp(phase, "X") != 0 && strcmp(phase, "i") != 0)) /* names, and what others have added */
            return phase ? 1 : missing(r, "ph");
        if (!has(r, S_START))
            return trace_wrong(r, TV_CODE(TRACE_FORM), "`trivet run --perfetto` writes them",
                               "the Chrome event that ends here has no start_cycle in its args");
    }
    if (!fill_event(r, &e))
        return 0;
    const char *lane = e.engine ? lane_of(r, e.engine, e.engine_id) : NULL;
    if (lane && strcmp(lane, e.engine) != 0)
        e.lane = lane;
    if (r->texts.failed || r->more.failed || r->more_details.failed)
        return trace_no_memory(r);
    bool kept = r->part != P_CHROME; /* what a Chrome event has besides is for its viewers */
    return !r->calls->event || r->calls->event(r->calls->user, &e, kept ? extras(&r->more) : NULL,
                                               kept ? extras(&r->more_details) : NULL)
               ? 1
               : trace_no_memory(r);
}

static double real_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

int trace_sample_end(trace_reader *r, const json_t *object)
{
    static const char *const names[] = {"cycle", "window_cycles", "dram_read_bytes", "dram_write_bytes",
                                        "stall_cycles"};
    for (unsigned i = 0; i < TV_COUNTOF(names); i++) {
        const json_t *value = json_object_get(object, names[i]);
        if (i < 2 ? !json_is_integer(value) || json_integer_value(value) < 0 : value && !json_is_number(value))
            return trace_wrong(r, TV_CODE(TRACE_FORM), NULL, "'%s' of the bandwidth sample that ends here is %s",
                               names[i], value ? "not such a number" : "missing");
    }
    tv_trace_sample s = {(uint64_t)json_integer_value(json_object_get(object, names[0])),
                         (uint64_t)json_integer_value(json_object_get(object, names[1])), real_of(object, names[2]),
                         real_of(object, names[3]), real_of(object, names[4])};
    return !r->calls->sample || r->calls->sample(r->calls->user, &s) ? 1 : trace_no_memory(r);
}
