/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics from cycle accounts, and as JSON. */
#include "sim/stats.h"

#include "base/json_writer.h"

void tv_stats_set_time(tv_stats *stats, uint64_t cycles, uint64_t clock_hz)
{
    stats->cycles = cycles;
    stats->clock_hz = (double)clock_hz;
    stats->seconds = (double)cycles / stats->clock_hz;
}

void tv_stats_set_engines(tv_stats *stats, const tv_account *accounts, unsigned count, const char *const *reasons,
                          unsigned reason_count)
{
    assert(count <= TV_ENGINES_MAX && reason_count <= TV_STALL_REASONS_MAX);
    stats->engine_count = count;
    stats->stall_reason_count = reason_count;
    for (unsigned r = 0; r < reason_count; r++)
        stats->stall_reasons[r] = reasons[r];
    for (unsigned e = 0; e < count; e++) {
        stats->engines[e] =
            (tv_engine_stats){.name = accounts[e].name, .busy = accounts[e].busy, .idle = accounts[e].idle};
        memcpy(stats->engines[e].stalled, accounts[e].stalled, sizeof accounts[e].stalled);
    }
}

void tv_stats_add_path(tv_stats *stats, const char *name, uint64_t bytes, double peak, const char *limited_by)
{
    assert(stats->path_count < TV_PATHS_MAX);
    stats->paths[stats->path_count++] = (tv_path_stats){name, bytes, peak, limited_by};
}

/* ---- As JSON ---- */

enum { DIGITS = 9 };

static void write_engines(tv_json_writer *w, const tv_stats *s)
{
    tv_json_key(w, "engines");
    tv_json_begin_object(w);
    for (unsigned i = 0; i < s->engine_count; i++) {
        const tv_engine_stats *e = &s->engines[i];
        tv_json_key(w, e->name);
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "busy", e->busy);
        tv_json_unsigned_member(w, "idle", e->idle);
        tv_json_key(w, "stalled");
        tv_json_begin_object(w);
        for (unsigned r = 0; r < s->stall_reason_count; r++)
            if (e->stalled[r])
                tv_json_unsigned_member(w, s->stall_reasons[r], e->stalled[r]);
        tv_json_end_object(w);
        tv_json_end_object(w);
    }
    tv_json_end_object(w);
}

static void write_stall_reasons(tv_json_writer *w, const tv_stats *s)
{
    tv_json_key(w, "stall_reasons");
    tv_json_begin_object(w);
    for (unsigned r = 0; r < s->stall_reason_count; r++) {
        uint64_t cycles = 0;
        for (unsigned e = 0; e < s->engine_count; e++)
            cycles += s->engines[e].stalled[r];
        tv_json_unsigned_member(w, s->stall_reasons[r], cycles);
    }
    tv_json_end_object(w);
}

static void write_paths(tv_json_writer *w, const tv_stats *s)
{
    tv_json_key(w, "bytes");
    tv_json_begin_object(w);
    for (unsigned p = 0; p < s->path_count; p++)
        tv_json_unsigned_member(w, s->paths[p].name, s->paths[p].bytes);
    tv_json_end_object(w);
    tv_json_key(w, "paths");
    tv_json_begin_object(w);
    for (unsigned p = 0; p < s->path_count; p++) {
        tv_json_key(w, s->paths[p].name);
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "bytes", s->paths[p].bytes);
        tv_json_real_member(w, "peak_bytes_per_cycle", s->paths[p].peak, DIGITS);
        tv_json_string_member(w, "limited_by", s->paths[p].limited_by);
        tv_json_end_object(w);
    }
    tv_json_end_object(w);
}

static void write_roles(tv_json_writer *w, const tv_stats *s)
{
    if (!s->role_count)
        return;
    tv_json_key(w, "roles");
    tv_json_begin_object(w);
    for (unsigned r = 0; r < s->role_count; r++) {
        tv_json_key(w, s->roles[r].name);
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "bytes", s->roles[r].bytes);
        tv_json_unsigned_member(w, "active_cycles", s->roles[r].busy);
        tv_json_unsigned_member(w, "stalled_cycles", s->roles[r].stalled);
        tv_json_end_object(w);
    }
    tv_json_end_object(w);
}

tv_status tv_stats_write_json(tv_json_writer *w, const tv_stats *stats)
{
    tv_stats s;
    if (!tv_read_sized(&s, sizeof s, TV_SIZE_UP_TO(tv_stats, bottleneck), stats))
        return TV_ERR_INPUT;
    tv_json_unsigned_member(w, "cycles", s.cycles);
    tv_json_real_member(w, "clock_hz", s.clock_hz, DIGITS);
    tv_json_real_member(w, "seconds", s.seconds, DIGITS);
    tv_json_unsigned_member(w, "instructions", s.instructions);
    tv_json_unsigned_member(w, "macs", s.macs);
    tv_json_real_member(w, "peak_macs_per_cycle", s.peak_macs, DIGITS);
    write_engines(w, &s);
    write_stall_reasons(w, &s);
    write_paths(w, &s);
    write_roles(w, &s);
    tv_json_string_member(w, "bound_by", s.bound_by[0] ? s.bound_by : NULL);
    tv_json_real_member(w, "bound_share", s.bound_share, DIGITS);
    tv_json_string_member(w, "bottleneck", s.bottleneck[0] ? s.bottleneck : NULL);
    return TV_OK;
}
