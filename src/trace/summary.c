/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace file says of its run: the machine's own sums from the end of the file, and sums by instruction class,
 * layer and step over its events. */
#include <stdlib.h>

#include "base/diag.h"
#include "trace/reader.h"
#include "trace/tables.h"
#include "trivet/config.h"

enum { SETTINGS_MAX = 1000 };

typedef struct summary {
    tv_trace_summary s; /* first: what the caller has is this */
    tv_arena arena;
    tv_trace_table ops, commands, layers, stall_reasons;
    tv_trace_longest longest;
    tv_trace_step *steps;
    unsigned step_room;
    tv_trace_stall stalls[TV_TRACE_STALLS];
} summary;

static const char *copy(summary *s, const char *text) { return tv_arena_str(&s->arena, tv_sv_of(text ? text : "")); }

/* ---- The head ---- */

/* "256Ki" and "262144" are the same. */
static bool same_value(tv_config *config, unsigned i, const tv_config_entry *entry, const char *value)
{
    tv_config_entry now;
    uint64_t number = entry->number;
    if (strcmp(entry->value, value) == 0)
        return true;
    if (strcmp(entry->type, "integer") != 0 || tv_config_set(config, entry->key, value, NULL) != TV_OK)
        return false;
    tv_config_at(config, i, &now);
    return now.number == number;
}

static bool add_setting(summary *s, tv_trace_setting *settings, tv_config *config, const char *key, const char *value)
{
    tv_config_entry entry;
    unsigned i = 0;
    while (config && tv_config_at(config, i, &entry) && strcmp(entry.key, key) != 0)
        i++;
    bool known = config && tv_config_at(config, i, &entry);
    tv_trace_setting *row = &settings[s->s.setting_count];
    *row = (tv_trace_setting){
        .key = copy(s, key), .value = copy(s, value), .default_value = known ? copy(s, entry.default_value) : NULL};
    if (!row->key || !row->value || (known && !row->default_value))
        return false;
    s->s.setting_count += !known || !same_value(config, i, &entry, value);
    return true;
}

static bool take_config(summary *s, const char *target, const json_t *object)
{
    tv_config *config = NULL;
    const char *key;
    json_t *value;
    bool good = true;
    tv_trace_setting *settings = tv_arena_alloc(&s->arena, (json_object_size(object) + 1) * sizeof *settings);
    if (!settings)
        return false;
    if (tv_config_new(target, NULL, &config) != TV_OK)
        config = NULL;
    json_object_foreach ((json_t *)(uintptr_t)object, key, value)
        good = good && (!json_is_string(value) || s->s.setting_count == SETTINGS_MAX ||
                        add_setting(s, settings, config, key, json_string_value(value)));
    s->s.settings = settings;
    tv_config_free(config);
    return good;
}

static bool begin(void *user, const tv_trace_head *head, const json_t *run, const json_t *config)
{
    summary *s = user;
    s->s.target = copy(s, head->target);
    s->s.tool_version = copy(s, json_string_value(json_object_get(run, "tool_version")));
    s->s.clock_hz = head->clock_hz;
    return s->s.target && s->s.tool_version && take_config(s, head->target, config);
}

/* ---- Events ---- */

static void add(tv_trace_row *row, const tv_event *e)
{
    uint64_t cycles = e->end - e->start;
    if (e->kind == TV_EVENT_STALL) {
        row->stalled += cycles;
        return;
    }
    row->count++;
    row->cycles += cycles;
    row->bytes += e->bytes;
    row->macs += e->macs;
    row->first = tv_min_u64(row->first, e->start);
    row->last = tv_max_u64(row->last, e->end);
}

static bool add_to(tv_trace_table *table, const char *name, const tv_event *e)
{
    tv_trace_row *row = name ? tv_trace_table_row(table, name) : NULL;
    if (row)
        add(row, e);
    return row || !name;
}

static bool add_step(summary *s, const tv_event *e)
{
    unsigned n = s->s.step_count;
    if (n == TV_TRACE_ROWS) {
        s->s.steps_left_out++;
        return true;
    }
    if (n == s->step_room) {
        unsigned room = n ? 2 * n : 256;
        tv_trace_step *steps = realloc(s->steps, room * sizeof *steps);
        if (!steps)
            return false;
        s->steps = steps;
        s->step_room = room;
    }
    const char *op = e->op && strcmp(e->op, "prefill") == 0  ? "prefill"
                     : e->op && strcmp(e->op, "decode") == 0 ? "decode"
                                                             : "step";
    s->steps[s->s.step_count++] = (tv_trace_step){op, e->index, e->tokens, e->start, e->end};
    return true;
}

static bool event(void *user, const tv_event *e, const char *more, const char *more_details)
{
    summary *s = user;
    (void)more;
    (void)more_details;
    s->s.events++;
    if (!tv_trace_longest_event(&s->longest, e))
        return false;
    switch (e->kind) {
    case TV_EVENT_ENGINE:
    case TV_EVENT_STALL:
        return add_to(&s->ops, e->op, e) && add_to(&s->layers, e->layer, e);
    case TV_EVENT_COMMAND:
        return add_to(&s->commands, e->op, e);
    case TV_EVENT_TOKEN:
        return add_step(s, e);
    default:
        return true;
    }
}

/* ---- The tail ---- */

static uint64_t whole(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static bool take_engine(summary *s, tv_trace_engine *engine, const char *name, const json_t *object)
{
    const json_t *stalled = json_object_get(object, "held_cycles");
    tv_trace_stall_reason *stall_reasons =
        tv_arena_alloc(&s->arena, (json_object_size(stalled) + 1) * sizeof *stall_reasons);
    *engine = (tv_trace_engine){.name = copy(s, name),
                                .busy = whole(object, "active_cycles"),
                                .idle = whole(object, "idle_cycles"),
                                .stalled = stall_reasons};
    if (!stall_reasons || !engine->name)
        return false;
    const char *reason;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)stalled, reason, value) {
        tv_trace_row *row = tv_trace_table_row(&s->stall_reasons, reason);
        if (!row)
            return false;
        stall_reasons[engine->stalled_count] = (tv_trace_stall_reason){row->name, whole(stalled, reason)};
        row->cycles += stall_reasons[engine->stalled_count++].cycles;
    }
    return true;
}

static bool take_engines(summary *s, const json_t *object)
{
    tv_trace_engine *engines = tv_arena_alloc(&s->arena, (json_object_size(object) + 1) * sizeof *engines);
    const char *name;
    json_t *value;
    bool good = engines != NULL;
    json_object_foreach ((json_t *)(uintptr_t)object, name, value)
        good = good && take_engine(s, &engines[s->s.engine_count++], name, value);
    s->s.engines = engines;
    if (!good)
        return false;
    tv_trace_table_sort(&s->stall_reasons);
    tv_trace_stall_reason *stall_reasons =
        tv_arena_alloc(&s->arena, (s->stall_reasons.count + 1) * sizeof *stall_reasons);
    for (unsigned i = 0; stall_reasons && i < s->stall_reasons.count; i++)
        stall_reasons[i] = (tv_trace_stall_reason){s->stall_reasons.rows[i].name, s->stall_reasons.rows[i].cycles};
    s->s.stall_reasons = stall_reasons;
    s->s.stall_reason_count = s->stall_reasons.count;
    return stall_reasons != NULL;
}

/* Traces of others may know the memory's bytes alone. */
static bool take_paths(summary *s, const json_t *tail)
{
    static const char *const totals[][2] = {{"dram_read_bytes", "dram read"}, {"dram_write_bytes", "dram write"}};
    const json_t *object = json_object_get(tail, "paths");
    tv_trace_path *paths = tv_arena_alloc(&s->arena, (json_object_size(object) + TV_COUNTOF(totals)) * sizeof *paths);
    const char *name;
    json_t *value;
    if (!paths)
        return false;
    s->s.paths = paths;
    json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
        paths[s->s.path_count] =
            (tv_trace_path){copy(s, name), whole(value, "bytes"), number(value, "peak_bytes_per_cycle")};
        if (!paths[s->s.path_count++].name)
            return false;
    }
    for (unsigned i = 0; !object && i < TV_COUNTOF(totals); i++) {
        double bytes = number(tail, totals[i][0]);
        paths[s->s.path_count++] = (tv_trace_path){totals[i][1], bytes > 0 && bytes < 1e18 ? (uint64_t)bytes : 0, 0};
    }
    return true;
}

/* Instructions that no engine worked on have been issued all the same. */
static bool count_commands(summary *s)
{
    for (uint32_t i = 0; i < s->commands.count; i++) {
        const tv_trace_row *command = &s->commands.rows[i];
        tv_trace_row *row = tv_trace_table_row(&s->ops, command->name);
        if (!row)
            return false;
        if (row->count < command->count && row != &s->ops.others) {
            row->count = command->count;
            row->first = tv_min_u64(row->first, command->first);
            row->last = tv_max_u64(row->last, command->last);
        }
    }
    return true;
}

static void take_tables(summary *s)
{
    tv_trace_table_sort(&s->ops);
    tv_trace_table_sort(&s->layers);
    for (unsigned i = 0; i < s->longest.count; i++) {
        s->stalls[i] = s->longest.rows[i].stall;
        s->stalls[i].engines = s->longest.rows[i].engines;
    }
    s->s.ops = s->ops.rows;
    s->s.op_count = s->ops.count;
    s->s.layers = s->layers.rows;
    s->s.layer_count = s->layers.count;
    s->s.steps = s->steps;
    s->s.stalls = s->stalls;
    s->s.stall_count = s->longest.count;
}

static bool end(void *user, const tv_trace_tail *tail)
{
    summary *s = user;
    const json_t *object = tail->summary;
    s->s.cycles = whole(object, "cycles_total");
    s->s.seconds = number(object, "seconds");
    s->s.instructions = whole(object, "instructions");
    s->s.macs = whole(object, "macs");
    s->s.peak_macs = number(object, "peak_macs_per_cycle");
    s->s.bound_by = copy(s, json_string_value(json_object_get(object, "bound_by")));
    s->s.bottleneck = copy(s, json_string_value(json_object_get(object, "verdict")));
    if (!s->s.bound_by || !s->s.bottleneck || !take_engines(s, json_object_get(object, "engines")) ||
        !take_paths(s, object) || !count_commands(s))
        return false;
    take_tables(s);
    return true;
}

/* ---- The door ---- */

tv_status tv_trace_summarise_stream(const char *name, tv_stream *stream, const tv_trace_progress *progress,
                                    const tv_diag_sink *sink, tv_trace_summary **out)
{
    summary *s = calloc(1, sizeof *s);
    if (!s)
        return tv_fail_memory(sink);
    tv_trace_table *tables[] = {&s->ops, &s->commands, &s->layers, &s->stall_reasons};
    for (unsigned i = 0; i < TV_COUNTOF(tables); i++)
        *tables[i] = (tv_trace_table){.arena = &s->arena, .limit = TV_TRACE_ROWS};
    tv_trace_calls calls = {.begin = begin, .event = event, .end = end, .user = s, .progress = progress};
    tv_status status = tv_trace_longest_init(&s->longest, &s->arena) ? tv_trace_read(name, stream, &calls, sink)
                                                                     : tv_fail_memory(sink);
    if (status != TV_OK)
        tv_trace_summary_free(&s->s);
    else
        *out = &s->s;
    return status;
}

tv_status tv_trace_summarize(const char *path, const tv_trace_progress *progress, const tv_diag_sink *sink,
                             tv_trace_summary **out)
{
    tv_stream *stream;
    TV_TRY(tv_stream_open(path, sink, &stream));
    tv_status status = tv_trace_summarise_stream(path, stream, progress, sink, out);
    tv_stream_close(stream);
    return status;
}

void tv_trace_summary_free(tv_trace_summary *public_part)
{
    summary *s = (summary *)(void *)public_part;
    if (!s)
        return;
    tv_trace_table_fini(&s->ops);
    tv_trace_table_fini(&s->commands);
    tv_trace_table_fini(&s->layers);
    tv_trace_table_fini(&s->stall_reasons);
    tv_trace_longest_fini(&s->longest);
    tv_arena_fini(&s->arena);
    free(s->steps);
    free(s);
}
