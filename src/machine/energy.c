/* SPDX-License-Identifier: Apache-2.0 */
/* Energy of machines: the public functions, on the counts and shapes of the targets. */
#include "sim/energy.h"

#include <stdlib.h>

#include "base/json_writer.h"
#include "machine/instance.h"

static const tv_target *target_of(const tv_config *config) { return tv_config_schema(config)->machine; }

int tv_energy_row_at(const tv_config *config, unsigned i, tv_energy_row *out)
{
    tv_energy_params energy;
    tv_energy_table table;
    if (i >= TV_ACTION_COUNT)
        return 0;
    target_of(config)->energy_params(config, &energy);
    tv_energy_table_init(&table, &energy);
    *out = tv_energy_row_of(&energy, &table, (tv_action)i);
    return 1;
}

/* Counts the cycles of the run, and those in which an engine did not work. */
static void count_time(const tv_machine *machine, uint64_t *counts)
{
    tv_stats stats = {.size = sizeof stats};
    tv_machine_stats(machine, &stats);
    counts[TV_ACTION_CYCLE] = stats.cycles;
    for (unsigned e = 0; e < stats.engine_count; e++)
        counts[TV_ACTION_IDLE] += stats.cycles - tv_min_u64(stats.cycles, stats.engines[e].busy);
}

static void add_engines(const tv_action_table *actions, tv_energy_stats *out)
{
    out->engine_count = actions->count;
    for (unsigned e = 0; e < actions->count; e++) {
        const tv_engine_actions *engine = &actions->engines[e];
        out->engines[e].name = engine->name;
        tv_energy_accumulate(&out->engines[e].energy, actions->table, engine->counts);
        out->total = tv_energy_add(out->total, out->engines[e].energy);
        for (unsigned i = 0; i < TV_ACTION_COUNT; i++)
            out->counts[i] += engine->counts[i];
    }
}

tv_status tv_machine_energy(const tv_machine *machine, tv_energy_stats *out)
{
    tv_energy_stats stats = {.size = sizeof stats, .action_count = TV_ACTION_COUNT};
    tv_action_table actions;
    uint64_t time[TV_ACTION_COUNT] = {0};
    machine->target->actions(machine->state, &actions);
    add_engines(&actions, &stats);
    count_time(machine, time);
    tv_energy_accumulate(&stats.static_energy, actions.table, time);
    stats.total = tv_energy_add(stats.total, stats.static_energy);
    for (unsigned i = 0; i < TV_ACTION_COUNT; i++) {
        uint64_t one[TV_ACTION_COUNT] = {0};
        stats.counts[i] += time[i];
        one[i] = stats.counts[i];
        tv_energy_accumulate(&stats.actions[i], actions.table, one);
    }
    bool written = tv_write_sized(out, TV_SIZE_UP_TO(tv_energy_stats, total), &stats, sizeof stats);
    return written ? TV_OK : TV_ERR_INPUT;
}

tv_energy tv_machine_energy_total(const tv_machine *machine)
{
    tv_energy total = {0};
    tv_action_table actions;
    uint64_t counts[TV_ACTION_COUNT] = {0};
    machine->target->actions(machine->state, &actions);
    if (actions.table->prices[TV_ACTION_CYCLE].high) /* statistics take longer than the rest */
        count_time(machine, counts);
    for (unsigned e = 0; e < actions.count; e++)
        for (unsigned i = 0; i < TV_ACTION_COUNT; i++)
            counts[i] += actions.engines[e].counts[i];
    tv_energy_accumulate(&total, actions.table, counts);
    return total;
}

/* ---- As JSON ---- */

static const char *value_of(const tv_config *config, const char *key)
{
    tv_config_entry entry;
    for (unsigned i = 0; tv_config_at(config, i, &entry); i++)
        if (strcmp(entry.key, key) == 0)
            return entry.value;
    return NULL;
}

static void write_actions(tv_json_writer *w, const tv_config *config, const tv_energy_stats *s)
{
    tv_energy_row row;
    tv_json_key(w, "actions");
    tv_json_begin_object(w);
    for (unsigned i = 0; i < s->action_count && tv_energy_row_at(config, i, &row); i++) {
        if (!s->counts[i])
            continue;
        tv_json_key(w, row.name);
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "count", s->counts[i]);
        tv_json_string_member(w, "unit", row.unit);
        tv_json_key(w, "energy");
        tv_energy_write_json(w, s->actions[i]);
        tv_json_end_object(w);
    }
    tv_json_end_object(w);
}

tv_status tv_energy_stats_write_json(tv_json_writer *w, const tv_config *config, const tv_energy_stats *stats)
{
    tv_energy_stats s;
    if (!tv_read_sized(&s, sizeof s, TV_SIZE_UP_TO(tv_energy_stats, total), stats))
        return TV_ERR_INPUT;
    tv_json_unsigned_member(w, "process_nm", strtoull(value_of(config, "energy.process_nm"), NULL, 0));
    tv_json_string_member(w, "fabric", value_of(config, "energy.fabric"));
    tv_json_string_member(w, "memory", value_of(config, "energy.memory"));
    tv_json_key(w, "total");
    tv_energy_write_json(w, s.total);
    tv_json_key(w, "static");
    tv_energy_write_json(w, s.static_energy);
    tv_json_key(w, "engines");
    tv_json_begin_object(w);
    for (unsigned e = 0; e < s.engine_count; e++) {
        tv_json_key(w, s.engines[e].name);
        tv_energy_write_json(w, s.engines[e].energy);
    }
    tv_json_end_object(w);
    write_actions(w, config, &s);
    return TV_OK;
}
