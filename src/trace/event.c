/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the values that were collected of an event and makes a tv_event of them. */
#include <inttypes.h>
#include <stdlib.h>

#include "trace/parse.h"

static bool has_value(const trace_reader *r, slot s) { return (r->given >> s & 1) != 0; }

static const char *text_of(const trace_reader *r, slot s)
{
    return has_value(r, s) ? (const char *)r->texts.data + r->values[s].text : NULL;
}

static uint64_t integer_of(const trace_reader *r, slot s) { return has_value(r, s) ? r->values[s].integer : 0; }

static bool report_missing(trace_reader *r, const char *name)
{
    return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "the event that ends here has no '%s'", name);
}

/* Adds the engine's name among the statistics: "TE1" for TE and 1, "GEMV" for GEMV and 0. NULL: out of memory. */
static const char *add_lane(trace_reader *r, const char *engine, unsigned id)
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

/* NULL: there are too many, or out of memory; the caller then uses the engine's own name. */
static const char *find_lane(trace_reader *r, const char *engine, unsigned id)
{
    for (unsigned i = 0; i < r->lane_count; i++)
        if (r->lanes[i].id == id && strcmp(r->lanes[i].engine, engine) == 0)
            return r->lanes[i].name;
    return r->lane_count < LANES_MAX ? add_lane(r, engine, id) : NULL;
}

static bool parse_route(trace_reader *r, slot s, uint32_t *out)
{
    const char *text = text_of(r, s);
    char *end;
    if (!text)
        return true;
    unsigned long code = strtoul(text, &end, 16);
    if (strncmp(text, "0x", 2) != 0 || *end || end == text + 2 || code > UINT32_MAX)
        return tv_trace_error(r, TV_CODE(TRACE_FORM), "a route is written as \"0x1f\"", "'%.40s' is not a route", text);
    *out = (uint32_t)code;
    return true;
}

static bool parse_kind(const char *name, tv_event_kind *out)
{
    for (unsigned k = 0; k < TV_COUNTOF(tv_trace_kind_names); k++)
        if (k != TV_EVENT_TRANSFER && tv_trace_kind_names[k] && strcmp(tv_trace_kind_names[k], name) == 0) {
            *out = (tv_event_kind)k;
            return true;
        }
    return false;
}

/* A TOKEN_EVENT's index is its position; of other kinds `position` is a member that this version does not know. */
static bool fill_index(trace_reader *r, tv_event *e)
{
    slot index = e->kind == TV_EVENT_TOKEN && has_value(r, S_POSITION) ? S_POSITION : S_INDEX;
    e->index = has_value(r, index) ? (int64_t)r->values[index].integer : -1;
    if (!has_value(r, S_POSITION) || e->kind == TV_EVENT_TOKEN || r->section == SECTION_CHROME)
        return true;
    if (!r->details.root)
        tv_json_build_begin_object(&r->details);
    tv_json_build_key(&r->details, tv_sv_of("position"));
    return tv_json_build_integer(&r->details, (int64_t)integer_of(r, S_POSITION)) ||
           tv_trace_builder_error(r, &r->details);
}

static bool fill_times(trace_reader *r, tv_event *e)
{
    if (!has_value(r, S_START) || !has_value(r, S_END))
        return report_missing(r, has_value(r, S_START) ? "end_cycle" : "start_cycle");
    e->start = r->values[S_START].integer;
    e->end = r->values[S_END].integer;
    if (e->end < e->start)
        return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL,
                              "the event that ends here runs from cycle %" PRIu64 " to %" PRIu64, e->start, e->end);
    return true;
}

static bool fill_event(trace_reader *r, tv_event *e)
{
    const char *kind = text_of(r, S_KIND);
    if (!kind)
        return report_missing(r, r->section == SECTION_CHROME ? "cat" : "type");
    if (!parse_kind(kind, &e->kind))
        return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "'%.40s' is not a kind of event", kind);
    if (!fill_times(r, e))
        return false;
    e->engine = text_of(r, S_ENGINE);
    if (!e->engine && (e->kind == TV_EVENT_ENGINE || e->kind == TV_EVENT_STALL))
        return report_missing(r, "engine");
    if (!has_value(r, S_REASON) && e->kind == TV_EVENT_STALL)
        return report_missing(r, "reason");
    if (integer_of(r, S_ENGINE_ID) > UINT16_MAX || integer_of(r, S_LINE) > UINT32_MAX)
        return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "engine_id is larger than %d, or line than 2^32",
                              UINT16_MAX);
    e->engine_id = (unsigned)integer_of(r, S_ENGINE_ID);
    e->layer = text_of(r, S_LAYER);
    e->role = text_of(r, S_ROLE);
    e->op = text_of(r, S_OP);
    e->bytes = integer_of(r, S_BYTES);
    e->macs = integer_of(r, S_MACS);
    e->tokens = integer_of(r, S_TOKENS);
    e->reason = text_of(r, S_REASON);
    e->mode = text_of(r, S_MODE);
    e->waits_for = has_value(r, S_WAITS_FOR) ? (int64_t)r->values[S_WAITS_FOR].integer : -1;
    e->file = text_of(r, S_FILE);
    e->line = (unsigned)integer_of(r, S_LINE);
    return fill_index(r, e) && parse_route(r, S_ROUTE_IN, &e->routes[0]) && parse_route(r, S_ROUTE_OUT, &e->routes[1]);
}

/* ---- Metadata ---- */

bool tv_trace_may_be_metadata(const trace_reader *r)
{
    const char *phase = text_of(r, S_PHASE);
    return !phase || strcmp(phase, "M") == 0;
}

/* A metadata event with a value is a member of the document. */
static bool end_metadata(trace_reader *r)
{
    const char *name = text_of(r, S_NAME);
    if (!name || !r->metadata)
        return true;
    if (!tv_trace_begin_section(r, tv_sv_of(name)))
        return false;
    if (r->section == SECTION_EVENTS || r->section == SECTION_CHROME || r->section == SECTION_SAMPLES)
        return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "'%s' is not among metadata", r->section_name);
    bool good = r->section == SECTION_TIME_UNIT || tv_trace_end_section(r, r->metadata);
    r->section = SECTION_CHROME;
    return good;
}

/* ---- Samples ---- */

bool tv_trace_add_sample(trace_reader *r, const tv_trace_sample *s)
{
    if (r->samples.count == SAMPLES_MAX)
        return tv_trace_error(r, TV_CODE(TRACE_LIMIT), NULL, "more than %d bandwidth samples", SAMPLES_MAX);
    return TV_VEC_PUSH(&r->samples, *s) || tv_trace_no_memory(r);
}

/* A counter. One without a window only ends the window before it. */
static bool end_chrome_counter(trace_reader *r)
{
    if (!r->begun && !tv_trace_begin_events(r))
        return false;
    double width = (double)integer_of(r, S_WINDOW);
    if (width == 0)
        return true;
    tv_trace_sample s = {.cycle = integer_of(r, S_CYCLE),
                         .window_cycles = integer_of(r, S_WINDOW),
                         .read = has_value(r, S_READ) ? r->values[S_READ].real * width : 0,
                         .written = has_value(r, S_WRITE) ? r->values[S_WRITE].real * width : 0,
                         .stalled = has_value(r, S_STALLED) ? r->values[S_STALLED].real : 0};
    if (s.read == 0 && s.written == 0 && s.stalled == 0)
        return true;
    return tv_trace_add_sample(r, &s);
}

bool tv_trace_end_sample(trace_reader *r, const tv_json_value *object)
{
    static const char *const names[] = {"cycle", "window_cycles", "dram_read_bytes", "dram_write_bytes",
                                        "stall_cycles"};
    enum { INTEGERS = 2 };
    const tv_json_value *values[TV_COUNTOF(names)];
    for (unsigned i = 0; i < TV_COUNTOF(names); i++) {
        const tv_json_value *v = values[i] = tv_json_get(object, names[i]);
        bool valid = i < INTEGERS
                         ? tv_json_is(v, TV_JSON_INTEGER) && v->integer >= 0 && (uint64_t)v->integer < INTEGER_LIMIT
                         : !v || tv_json_is_number(v);
        if (!valid)
            return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "'%s' of the bandwidth sample that ends here is %s",
                                  names[i], v ? "not such a number" : "missing");
    }
    tv_trace_sample s = {(uint64_t)tv_json_integer(values[0]), (uint64_t)tv_json_integer(values[1]),
                         tv_json_number(values[2]), tv_json_number(values[3]), tv_json_number(values[4])};
    return !r->handler->sample || r->handler->sample(r->handler->user, &s) || tv_trace_no_memory(r);
}

/* ---- Events ---- */

/* The tree of unknown members; NULL: there are none. */
static bool finish_extras(trace_reader *r, tv_json_builder *builder, const tv_json_value **out)
{
    *out = NULL;
    if (!builder->root)
        return true;
    if (!tv_json_build_end_object(builder))
        return tv_trace_builder_error(r, builder);
    *out = builder->root;
    return true;
}

static bool emit_event(trace_reader *r, const tv_event *e)
{
    tv_trace_extras extras = {NULL, NULL};
    if (!finish_extras(r, &r->members, &extras.members) || !finish_extras(r, &r->details, &extras.details))
        return false;
    return !r->handler->event || r->handler->event(r->handler->user, e, &extras) || tv_trace_no_memory(r);
}

bool tv_trace_end_event(trace_reader *r)
{
    if (r->section == SECTION_CHROME) {
        const char *phase = text_of(r, S_PHASE);
        if (!phase)
            return report_missing(r, "ph");
        if (strcmp(phase, "C") == 0)
            return end_chrome_counter(r);
        if (strcmp(phase, "M") == 0)
            return end_metadata(r);
        if (strcmp(phase, "X") != 0 && strcmp(phase, "i") != 0) /* names, and events of other tools */
            return true;
        if (!has_value(r, S_START))
            return tv_trace_error(r, TV_CODE(TRACE_FORM), "`trivet run --perfetto` writes them",
                                  "the Chrome event that ends here has no start_cycle in its args");
    }
    return tv_trace_send_event(r);
}

bool tv_trace_send_event(trace_reader *r)
{
    tv_event e = {.index = -1};
    if (!r->begun && !tv_trace_begin_events(r))
        return false;
    if (!fill_event(r, &e))
        return false;
    const char *lane = e.engine ? find_lane(r, e.engine, e.engine_id) : NULL;
    if (lane && strcmp(lane, e.engine) != 0)
        e.lane = lane;
    return emit_event(r, &e);
}
