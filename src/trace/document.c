/* SPDX-License-Identifier: Apache-2.0 */
/* What surrounds the events of a trace: the sections of the document, in whatever form they came. */
#include "trace/parse.h"

#include <stdlib.h>

static bool report_not_object(trace_reader *r)
{
    return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "'%s' has another value here; expected an object",
                          r->section_name);
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

bool tv_trace_end_section(trace_reader *r, const tv_json_value *value)
{
    const tv_json_value **objects[SECTIONS] = {
        [SECTION_RUN] = &r->run, [SECTION_CONFIG] = &r->config, [SECTION_SUMMARY] = &r->summary};
    if (objects[r->section]) {
        if (!tv_json_is(value, TV_JSON_OBJECT))
            return report_not_object(r);
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

static section find_section(const trace_reader *r, tv_sv name)
{
    static const char *const names[SECTIONS] = {
        [SECTION_EVENTS] = "timeline_events",    [SECTION_CHROME] = "traceEvents",
        [SECTION_SAMPLES] = "bandwidth_samples", [SECTION_RUN] = "run_metadata",
        [SECTION_CONFIG] = "config_snapshot",    [SECTION_SUMMARY] = "summary_metrics",
        [SECTION_VERSION] = "version",           [SECTION_TIME_UNIT] = "displayTimeUnit"};
    bool of_document = r->depth == 1; /* not of a metadata event */
    if (tv_sv_is(name, "otherData") && of_document && (r->sections_given >> SECTION_CHROME & 1))
        return SECTION_SUMMARY;
    unsigned s = 0;
    while (s < SECTION_UNKNOWN && !tv_sv_is(name, names[s]))
        s++;
    return (section)s;
}

bool tv_trace_begin_section(trace_reader *r, tv_sv name)
{
    enum { NAME_MAX_BYTES = 4096 };
    r->section = find_section(r, name);
    r->section_name = tv_arena_str(&r->arena, (tv_sv){name.ptr, tv_min_u64(name.len, NAME_MAX_BYTES)});
    if (!r->section_name)
        return tv_trace_no_memory(r);
    if (r->section != SECTION_UNKNOWN && (r->sections_given >> r->section & 1))
        return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "'%s' is given twice", r->section_name);
    r->sections_given |= UINT32_C(1) << r->section;
    return true;
}

/* The names of the engines, from the head. */
static void read_engines(trace_reader *r)
{
    for (const tv_json_value *v = tv_json_first(tv_json_get(r->run, "engines")); v; v = v->next)
        if (tv_json_string(v) && r->engine_count < TV_ENGINES_MAX && v->length < TRACK_NAME)
            r->engines[r->engine_count++] = v->text;
}

/* All about the run must be known before its events. */
bool tv_trace_begin_events(trace_reader *r)
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

static bool emit_samples(trace_reader *r)
{
    for (size_t i = 0; i < r->samples.count && r->handler->sample; i++)
        if (!r->handler->sample(r->handler->user, &r->samples.data[i]))
            return tv_trace_no_memory(r);
    return true;
}

tv_status tv_trace_finish_document(trace_reader *r)
{
    if (!r->begun)
        tv_trace_error(r, TV_CODE(TRACE_FORM), "`trivet run --trace` writes one",
                       "the file has neither timeline_events nor traceEvents: it is no trace");
    else if (!r->summary)
        tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "the trace has no summary_metrics");
    if (r->status != TV_OK || !emit_samples(r))
        return r->status;
    tv_trace_tail tail = {r->summary, r->unknown_names, r->unknown, r->unknown_count};
    if (r->handler->end && !r->handler->end(r->handler->user, &tail))
        tv_trace_no_memory(r);
    return r->status;
}
