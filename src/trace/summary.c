/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries of trace files: the machine's own statistics from the end of the file, and totals over the events by
 * instruction class, layer and step. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/vec.h"
#include "trace/reader.h"
#include "trace/totals.h"
#include "trivet/config.h"

enum { SETTINGS_MAX = 1000 };

typedef struct summary {
    tv_trace_summary s; /* first: the caller's pointer */
    tv_trace_config_fn *new_config;
    tv_arena arena;
    tv_trace_table ops, commands, layers, stall_reasons;
    tv_trace_longest longest;
    TV_VEC(tv_trace_step) steps;
    tv_trace_stall stalls[TV_TRACE_STALLS];
} summary;

static const char *copy_text(summary *s, const char *text)
{
    return tv_arena_str(&s->arena, tv_sv_of(text ? text : ""));
}

/* ---- The head ---- */

/* Sets *same to whether `value` is the value of parameter `i`, possibly written otherwise: "256Ki" and "262144" are the
 * same. false: out of memory. */
static bool compare_value(tv_config *config, unsigned i, const tv_config_entry *entry, const char *value, bool *same)
{
    tv_config_entry now;
    uint64_t number = entry->number;
    *same = strcmp(entry->value, value) == 0;
    if (*same || strcmp(entry->type, "integer") != 0)
        return true;
    tv_status status = tv_config_set(config, entry->key, value, NULL);
    *same = status == TV_OK && tv_config_at(config, i, &now) && now.number == number;
    return status != TV_ERR_MEMORY;
}

/* Adds the setting unless its value is the default. false: out of memory. */
static bool add_setting(summary *s, tv_trace_setting *settings, tv_config *config, const char *key, const char *value)
{
    tv_config_entry entry;
    unsigned i = 0;
    bool same = false;
    while (config && tv_config_at(config, i, &entry) && strcmp(entry.key, key) != 0)
        i++;
    bool known = config && tv_config_at(config, i, &entry);
    if (known && !compare_value(config, i, &entry, value, &same))
        return false;
    if (same)
        return true;
    tv_trace_setting *row = &settings[s->s.setting_count++];
    *row = (tv_trace_setting){.key = copy_text(s, key),
                              .value = copy_text(s, value),
                              .default_value = known ? copy_text(s, entry.default_value) : NULL};
    return row->key && row->value && (!known || row->default_value);
}

static bool read_config(summary *s, const char *target, const tv_json_value *object)
{
    tv_config *config = NULL;
    tv_trace_setting *settings = tv_arena_alloc(&s->arena, (tv_json_count(object) + (size_t)1) * sizeof *settings);
    tv_status status = s->new_config && settings ? s->new_config(target, &config) : TV_OK;
    if (status != TV_OK)
        config = NULL;
    bool good = settings && status != TV_ERR_MEMORY;
    s->s.settings = settings;
    for (const tv_json_value *v = tv_json_first(object); v && good; v = v->next)
        if (tv_json_string(v) && s->s.setting_count < SETTINGS_MAX)
            good = add_setting(s, settings, config, v->key, v->text);
    tv_config_free(config);
    return good;
}

static bool read_head(void *user, const tv_trace_head *head)
{
    summary *s = user;
    s->s.target = copy_text(s, head->target);
    s->s.tool_version = copy_text(s, tv_json_string(tv_json_get(head->run_metadata, "tool_version")));
    s->s.clock_hz = head->clock_hz;
    return s->s.target && s->s.tool_version && read_config(s, head->target, head->config);
}

/* ---- Events ---- */

static void add_event(tv_trace_row *row, const tv_event *e)
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

static bool add_to_table(tv_trace_table *table, const char *name, const tv_event *e)
{
    tv_trace_row *row = name ? tv_trace_table_row(table, name) : NULL;
    if (row)
        add_event(row, e);
    return row || !name;
}

static bool add_step(summary *s, const tv_event *e)
{
    if (s->steps.count == TV_TRACE_ROWS) {
        s->s.steps_left_out++;
        return true;
    }
    const char *op = e->op && strcmp(e->op, "prefill") == 0  ? "prefill"
                     : e->op && strcmp(e->op, "decode") == 0 ? "decode"
                                                             : "step";
    return TV_VEC_PUSH(&s->steps, (tv_trace_step){op, e->index, e->tokens, e->start, e->end});
}

static bool read_event(void *user, const tv_event *e, const tv_trace_extras *extras)
{
    summary *s = user;
    (void)extras;
    s->s.events++;
    if (!tv_trace_longest_event(&s->longest, e))
        return false;
    switch (e->kind) {
    case TV_EVENT_ENGINE:
    case TV_EVENT_STALL:
        return add_to_table(&s->ops, e->op, e) && add_to_table(&s->layers, e->layer, e);
    case TV_EVENT_COMMAND:
        return add_to_table(&s->commands, e->op, e);
    case TV_EVENT_TOKEN:
        return add_step(s, e);
    case TV_EVENT_STATUS:
    case TV_EVENT_MARKER:
    case TV_EVENT_TRANSFER:
    case TV_EVENT_LOAD:
    case TV_EVENT_ACCESS:
    case TV_EVENT_CONTROL:
        break;
    }
    return true;
}

/* ---- The tail ---- */

static uint64_t get_amount(const tv_json_value *object, const char *name)
{
    int64_t value = tv_json_integer(tv_json_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

static double get_number(const tv_json_value *object, const char *name)
{
    return tv_json_number(tv_json_get(object, name));
}

/* Adds the engine's stalls to the totals by stall reason, too. */
static bool read_engine(summary *s, tv_trace_engine *engine, const tv_json_value *object)
{
    const tv_json_value *stalled = tv_json_get(object, "stalled_cycles");
    tv_trace_stall_reason *reasons = tv_arena_alloc(&s->arena, (tv_json_count(stalled) + (size_t)1) * sizeof *reasons);
    *engine = (tv_trace_engine){.name = copy_text(s, object->key),
                                .busy = get_amount(object, "active_cycles"),
                                .idle = get_amount(object, "idle_cycles"),
                                .stalled = reasons};
    if (!reasons || !engine->name)
        return false;
    for (const tv_json_value *v = tv_json_is(stalled, TV_JSON_OBJECT) ? stalled->first : NULL; v; v = v->next) {
        tv_trace_row *row = tv_trace_table_row(&s->stall_reasons, v->key);
        if (!row)
            return false;
        reasons[engine->stalled_count] = (tv_trace_stall_reason){row->name, get_amount(stalled, v->key)};
        row->cycles += reasons[engine->stalled_count++].cycles;
    }
    return true;
}

static bool read_engines(summary *s, const tv_json_value *object)
{
    if (!tv_json_is(object, TV_JSON_OBJECT))
        object = NULL;
    tv_trace_engine *engines = tv_arena_alloc(&s->arena, (tv_json_count(object) + (size_t)1) * sizeof *engines);
    if (!engines)
        return false;
    s->s.engines = engines;
    for (const tv_json_value *v = tv_json_first(object); v; v = v->next)
        if (!read_engine(s, &engines[s->s.engine_count++], v))
            return false;
    tv_trace_table_sort(&s->stall_reasons, false);
    unsigned count = (unsigned)s->stall_reasons.rows.count;
    tv_trace_stall_reason *reasons = tv_arena_alloc(&s->arena, (count + (size_t)1) * sizeof *reasons);
    if (!reasons)
        return false;
    for (unsigned i = 0; i < count; i++)
        reasons[i] = (tv_trace_stall_reason){s->stall_reasons.rows.data[i].name, s->stall_reasons.rows.data[i].cycles};
    s->s.stall_reasons = reasons;
    s->s.stall_reason_count = count;
    return true;
}

/* Traces of other tools may have the totals of the memory only. */
static bool read_paths(summary *s, const tv_json_value *tail)
{
    static const char *const totals[][2] = {{"dram_read_bytes", "dram read"}, {"dram_write_bytes", "dram write"}};
    const tv_json_value *object = tv_json_get(tail, "paths");
    const tv_json_value *first = tv_json_is(object, TV_JSON_OBJECT) ? object->first : NULL;
    tv_trace_path *paths = tv_arena_alloc(&s->arena, (tv_json_count(object) + TV_COUNTOF(totals)) * sizeof *paths);
    if (!paths)
        return false;
    s->s.paths = paths;
    for (const tv_json_value *v = first; v; v = v->next) {
        paths[s->s.path_count] =
            (tv_trace_path){copy_text(s, v->key), get_amount(v, "bytes"), get_number(v, "peak_bytes_per_cycle")};
        if (!paths[s->s.path_count++].name)
            return false;
    }
    for (unsigned i = 0; !object && i < TV_COUNTOF(totals); i++) {
        double bytes = get_number(tail, totals[i][0]);
        paths[s->s.path_count++] = (tv_trace_path){totals[i][1], bytes > 0 && bytes < 1e18 ? (uint64_t)bytes : 0, 0};
    }
    return true;
}

/* Counts instructions that were issued and that no engine worked on. */
static bool count_issued(summary *s)
{
    for (uint32_t i = 0; i < s->commands.rows.count; i++) {
        const tv_trace_row *command = &s->commands.rows.data[i];
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

/* Traces of a model have layers with numbers, or steps. Other programs have labels, of which the longest are the
 * interesting ones. */
static bool is_model(const summary *s)
{
    bool found = s->steps.count > 0;
    for (size_t i = 0; i < s->layers.rows.count && !found; i++) {
        const char *name = s->layers.rows.data[i].name;
        size_t prefix = strncmp(name, "blk", 3) == 0 ? 3 : strncmp(name, "layer", 5) == 0 ? 5 : 0;
        prefix += prefix && name[prefix] && strchr("._ ", name[prefix]);
        found = prefix && name[prefix] >= '0' && name[prefix] <= '9';
    }
    return found;
}

static void set_tables(summary *s)
{
    tv_trace_table_sort(&s->ops, false);
    tv_trace_table_sort(&s->layers, is_model(s));
    for (unsigned i = 0; i < s->longest.count; i++) {
        s->stalls[i] = s->longest.rows[i].stall;
        s->stalls[i].engines = s->longest.rows[i].engines;
    }
    s->s.ops = s->ops.rows.data;
    s->s.op_count = (unsigned)s->ops.rows.count;
    s->s.layers = s->layers.rows.data;
    s->s.layer_count = (unsigned)s->layers.rows.count;
    s->s.steps = s->steps.data;
    s->s.step_count = (unsigned)s->steps.count;
    s->s.stalls = s->stalls;
    s->s.stall_count = s->longest.count;
}

/* Reads the digits of attojoules; 0 if they are none. */
static tv_joules read_joules(const tv_json_value *value)
{
    enum { ATTO_DIGITS = 18 };
    const char *text = tv_json_string(value);
    size_t length = text ? strspn(text, "0123456789") : 0, whole = length > ATTO_DIGITS ? length - ATTO_DIGITS : 0;
    tv_joules out = {0};
    if (!length || text[length] || whole > ATTO_DIGITS)
        return out;
    for (size_t i = 0; i < length; i++) {
        uint64_t *number = i < whole ? &out.joules : &out.attojoules;
        *number = *number * 10 + (uint64_t)(text[i] - '0');
    }
    return out;
}

static void read_energy(tv_energy *out, const tv_json_value *object)
{
    const tv_json_value *exact = tv_json_get(object, "attojoules");
    const tv_json_value *v = tv_json_is(exact, TV_JSON_ARRAY) ? exact->first : NULL;
    tv_joules *ends[] = {&out->low, &out->nominal, &out->high};
    for (unsigned i = 0; i < TV_COUNTOF(ends) && v; i++, v = v->next)
        *ends[i] = read_joules(v);
}

static bool read_tail(void *user, const tv_trace_tail *tail)
{
    summary *s = user;
    const tv_json_value *object = tail->summary;
    s->s.cycles = get_amount(object, "cycles_total");
    s->s.seconds = get_number(object, "seconds");
    s->s.instructions = get_amount(object, "instructions");
    s->s.macs = get_amount(object, "macs");
    s->s.peak_macs = get_number(object, "peak_macs_per_cycle");
    s->s.bound_by = copy_text(s, tv_json_string(tv_json_get(object, "bound_by")));
    s->s.bottleneck = copy_text(s, tv_json_string(tv_json_get(object, "bottleneck")));
    if (!s->s.bound_by || !s->s.bottleneck || !read_engines(s, tv_json_get(object, "engines")) ||
        !read_paths(s, object) || !count_issued(s))
        return false;
    read_energy(&s->s.energy, tv_json_get(tv_json_get(object, "energy"), "total"));
    set_tables(s);
    return true;
}

/* ---- Summaries ---- */

tv_status tv_trace_summarize_stream(const char *name, tv_stream *stream, tv_trace_config_fn *new_config,
                                    const tv_trace_progress *progress, const tv_diag_sink *sink, tv_trace_summary **out)
{
    summary *s = calloc(1, sizeof *s);
    if (!s)
        return tv_fail_memory(sink);
    s->new_config = new_config;
    tv_trace_table *tables[] = {&s->ops, &s->commands, &s->layers, &s->stall_reasons};
    for (unsigned i = 0; i < TV_COUNTOF(tables); i++)
        *tables[i] = (tv_trace_table){.arena = &s->arena, .limit = TV_TRACE_ROWS};
    const tv_trace_handler handler = {
        .begin = read_head, .event = read_event, .end = read_tail, .user = s, .progress = progress};
    tv_trace_longest_init(&s->longest, &s->arena);
    tv_status status = tv_trace_read(name, stream, &handler, sink);
    if (status != TV_OK)
        tv_trace_summary_free(&s->s);
    else
        *out = &s->s;
    return status;
}

void tv_trace_summary_free(tv_trace_summary *public_summary)
{
    summary *s = (summary *)(void *)public_summary;
    if (!s)
        return;
    tv_trace_table_fini(&s->ops);
    tv_trace_table_fini(&s->commands);
    tv_trace_table_fini(&s->layers);
    tv_trace_table_fini(&s->stall_reasons);
    tv_trace_longest_fini(&s->longest);
    tv_arena_fini(&s->arena);
    TV_VEC_FINI(&s->steps);
    free(s);
}
