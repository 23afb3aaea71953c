/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files of a running machine, written as the events come. Memory stays bounded for any length of run: bandwidth
 * is summed in windows that double in width when there are too many. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/sv.h"
#include "machine/target.h"
#include "trace/encode.h"
#include "trivet/energy.h"
#include "trivet/file.h"
#include "trivet/machine.h"

enum { WINDOWS_MAX = 4096, FIRST_WINDOW = 64 };

typedef struct window {
    double read, written, stalled;
} window;

struct tv_trace_writer {
    const tv_machine *machine;
    tv_output *output;
    tv_trace_encoder encoder;
    uint64_t load_count; /* of the machine, with the latest event */
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

/* Adds `amount`, spread evenly over the cycles from `start` to `end`, to the member at this offset in window. */
static void add_to_windows(tv_trace_writer *w, uint64_t start, uint64_t end, double amount, size_t member)
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

/* ---- Head and summary ---- */

enum { DIGITS = 12 }; /* significant digits of real numbers */

static void write_run_metadata(tv_json_writer *json, const tv_machine *machine, const tv_stats *s)
{
    tv_json_begin_object(json);
    tv_json_string_member(json, "tool", "trivet");
    tv_json_string_member(json, "tool_version", tv_version());
    tv_json_string_member(json, "target", tv_machine_target(machine));
    tv_json_real_member(json, "clock_hz", s->clock_hz, DIGITS);
    tv_json_key(json, "engines");
    tv_json_begin_array(json);
    for (unsigned e = 0; e < s->engine_count; e++)
        tv_json_write_string(json, s->engines[e].name);
    tv_json_end_array(json);
    tv_json_end_object(json);
}

static void write_config(tv_json_writer *json, const tv_config *config)
{
    tv_config_entry entry;
    tv_json_begin_object(json);
    for (unsigned i = 0; tv_config_at(config, i, &entry); i++)
        tv_json_string_member(json, entry.key, entry.value);
    tv_json_end_object(json);
}

static void write_engine(tv_json_writer *json, const tv_stats *s, const tv_engine_stats *e)
{
    tv_json_key(json, e->name);
    tv_json_begin_object(json);
    tv_json_unsigned_member(json, "active_cycles", e->busy);
    tv_json_unsigned_member(json, "idle_cycles", e->idle);
    tv_json_key(json, "stalled_cycles");
    tv_json_begin_object(json);
    for (unsigned c = 0; c < s->stall_reason_count; c++)
        if (e->stalled[c])
            tv_json_unsigned_member(json, s->stall_reasons[c], e->stalled[c]);
    tv_json_end_object(json);
    tv_json_real_member(json, "utilization", s->cycles ? (double)e->busy / (double)s->cycles : 0, DIGITS);
    tv_json_end_object(json);
}

static void write_paths(tv_json_writer *json, const tv_stats *s)
{
    tv_json_key(json, "paths");
    tv_json_begin_object(json);
    for (unsigned p = 0; p < s->path_count; p++) {
        tv_json_key(json, s->paths[p].name);
        tv_json_begin_object(json);
        tv_json_unsigned_member(json, "bytes", s->paths[p].bytes);
        tv_json_real_member(json, "peak_bytes_per_cycle", s->paths[p].peak, DIGITS);
        if (s->paths[p].limited_by)
            tv_json_string_member(json, "peak_limited_by", s->paths[p].limited_by);
        tv_json_end_object(json);
    }
    tv_json_end_object(json);
}

static void write_roles(tv_json_writer *json, const tv_stats *s)
{
    if (s->role_count) {
        tv_json_key(json, "roles");
        tv_json_begin_object(json);
        for (unsigned r = 0; r < s->role_count; r++) {
            tv_json_key(json, s->roles[r].name);
            tv_json_begin_object(json);
            tv_json_unsigned_member(json, "bytes", s->roles[r].bytes);
            tv_json_unsigned_member(json, "active_cycles", s->roles[r].busy);
            tv_json_unsigned_member(json, "stalled_cycles", s->roles[r].stalled);
            tv_json_end_object(json);
        }
        tv_json_end_object(json);
    }
}

static void write_energy(tv_json_writer *json, const tv_machine *machine)
{
    tv_energy_stats s = {.size = sizeof s};
    tv_machine_energy(machine, &s);
    tv_json_key(json, "energy");
    tv_json_begin_object(json);
    (void)tv_energy_stats_write_json(json, tv_machine_config(machine), &s);
    tv_json_end_object(json);
}

static void write_summary(tv_json_writer *json, const tv_trace_writer *w, const tv_machine *machine, const tv_stats *s)
{
    tv_json_begin_object(json);
    tv_json_unsigned_member(json, "cycles_total", s->cycles);
    tv_json_real_member(json, "seconds", s->seconds, DIGITS);
    tv_json_unsigned_member(json, "instructions", s->instructions);
    tv_json_unsigned_member(json, "macs", s->macs);
    tv_json_real_member(json, "peak_macs_per_cycle", s->peak_macs, DIGITS);
    tv_json_real_member(json, "dram_read_bytes", w->read_bytes, DIGITS);
    tv_json_real_member(json, "dram_write_bytes", w->written_bytes, DIGITS);
    tv_json_key(json, "engines");
    tv_json_begin_object(json);
    for (unsigned e = 0; e < s->engine_count; e++)
        write_engine(json, s, &s->engines[e]);
    tv_json_end_object(json);
    write_paths(json, s);
    write_roles(json, s);
    tv_json_key(json, "kv_cache");
    tv_json_begin_object(json);
    tv_json_unsigned_member(json, "read_bytes", w->kv_bytes[0]);
    tv_json_unsigned_member(json, "write_bytes", w->kv_bytes[1]);
    tv_json_end_object(json);
    tv_json_unsigned_member(json, "tokens", w->tokens);
    write_energy(json, machine);
    tv_json_string_member(json, "bound_by", s->bound_by);
    tv_json_string_member(json, "bottleneck", s->bottleneck);
    tv_json_end_object(json);
}

static void write_head(tv_trace_writer *w, tv_trace_format format, const tv_machine *machine)
{
    tv_stats s = {.size = sizeof s};
    const char *names[TV_ENGINES_MAX];
    tv_machine_stats(machine, &s);
    for (unsigned e = 0; e < s.engine_count; e++)
        names[e] = s.engines[e].name;
    tv_trace_encoder_init(&w->encoder, tv_output_stream(w->output), format, s.clock_hz);
    tv_trace_encode_begin(&w->encoder);
    tv_trace_encode_member(&w->encoder, "run_metadata");
    write_run_metadata(&w->encoder.json, machine, &s);
    tv_trace_encode_member(&w->encoder, "config_snapshot");
    write_config(&w->encoder.json, tv_machine_config(machine));
    tv_trace_encode_begin_events(&w->encoder, tv_machine_target(machine), names, s.engine_count);
}

/* Samples, summary, end. Returns whether there was memory. */
static bool write_tail(tv_trace_writer *w, const tv_machine *machine)
{
    tv_stats s = {.size = sizeof s};
    tv_machine_stats(machine, &s);
    tv_trace_encode_end_events(&w->encoder);
    for (unsigned i = 0; i < w->window_count; i++) {
        const window *v = &w->windows[i];
        if (v->read != 0 || v->written != 0 || v->stalled != 0)
            tv_trace_encode_sample(&w->encoder, &(tv_trace_sample){i * w->window_cycles, w->window_cycles, v->read,
                                                                   v->written, v->stalled});
    }
    tv_trace_encode_begin_summary(&w->encoder);
    write_summary(&w->encoder.json, w, machine, &s);
    return tv_trace_encode_end(&w->encoder);
}

/* ---- The writer ---- */

static void write_event(void *user, const tv_event *e);

/* Whether the machine sends the events itself: another sink that forwards them may have its own strings in a buffer. */
static bool is_attached(const tv_trace_writer *w)
{
    tv_trace_sink sink = tv_machine_trace_sink(w->machine);
    return sink.event == write_event && sink.user == w;
}

static void write_event(void *user, const tv_event *e)
{
    tv_trace_writer *w = user;
    if (e->kind == TV_EVENT_TRANSFER) {
        add_to_windows(w, e->start, e->end, (double)e->bytes,
                       e->write ? offsetof(window, written) : offsetof(window, read));
        *(e->write ? &w->written_bytes : &w->read_bytes) += (double)e->bytes;
        w->kv_bytes[e->write != 0] += e->kv ? e->bytes : 0;
        return;
    }
    w->tokens += e->tokens;
    if (e->kind == TV_EVENT_ACCESS || e->kind == TV_EVENT_LOAD || e->kind == TV_EVENT_CONTROL)
        return;
    if (e->kind == TV_EVENT_STALL && !e->scheduler)
        add_to_windows(w, e->start, e->end, (double)(e->end - e->start), offsetof(window, stalled));
    w->encoder.is_live = is_attached(w);
    if (w->load_count != tv_machine_load_count(w->machine)) {
        w->load_count = tv_machine_load_count(w->machine);
        tv_trace_invalidate_texts(&w->encoder);
    }
    tv_trace_encode_event(&w->encoder, e, NULL);
}

/* Whether the file is one of packets, by its name. */
static bool names_packets(const char *path)
{
    tv_sv name = tv_sv_of(path);
    if (tv_sv_ends_with(name, ".zst"))
        name.len -= strlen(".zst");
    return tv_sv_ends_with(name, ".pftrace");
}

tv_status tv_trace_open(const char *path, tv_trace_format format, const tv_machine *machine, const tv_diag_sink *sink,
                        tv_trace_writer **out)
{
    if (format == TV_TRACE_CSV || format == TV_TRACE_VCD)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TRACE_FORMAT), "write a JSON trace and convert it",
                       "a machine does not write %s", format == TV_TRACE_CSV ? "CSV" : "waveforms");
    tv_trace_writer *w = calloc(1, sizeof *w);
    if (!w)
        return tv_fail_memory(sink);
    tv_status status = tv_output_open_compressed(path, sink, &w->output);
    if (status != TV_OK) {
        free(w);
        return status;
    }
    w->machine = machine;
    w->window_cycles = FIRST_WINDOW;
    write_head(w, names_packets(path) ? TV_TRACE_PFTRACE : format, machine);
    *out = w;
    return TV_OK;
}

tv_trace_sink tv_trace_writer_sink(tv_trace_writer *writer)
{
    return (tv_trace_sink){.event = write_event, .user = writer, .without_energy = 1};
}

static void free_writer(tv_trace_writer *w)
{
    tv_trace_encoder_fini(&w->encoder);
    free(w);
}

tv_status tv_trace_finish_to(tv_trace_writer *w, const tv_machine *machine, tv_output_group *group,
                             const tv_diag_sink *sink)
{
    tv_status status = TV_ERR_MEMORY;
    if (write_tail(w, machine)) {
        status = tv_output_commit_to(w->output, group, sink);
    } else {
        tv_fail_memory(sink);
        tv_output_abandon(w->output);
    }
    free_writer(w);
    return status;
}

tv_status tv_trace_finish(tv_trace_writer *w, const tv_machine *machine, const tv_diag_sink *sink)
{
    return tv_trace_finish_to(w, machine, NULL, sink);
}

void tv_trace_abandon(tv_trace_writer *w)
{
    if (!w)
        return;
    tv_output_abandon(w->output);
    free_writer(w);
}
