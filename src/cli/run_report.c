/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a run as a table and as JSON. */
#include "cli/run_report.h"

#include <inttypes.h>

static json_t *engine_json(const tv_stats *s, const tv_engine_stats *e)
{
    json_t *stalled = json_object();
    for (unsigned c = 0; c < s->stall_reason_count; c++)
        if (e->stalled[c])
            json_object_set_new(stalled, s->stall_reasons[c], json_integer((json_int_t)e->stalled[c]));
    return json_pack("{s:I, s:I, s:o}", "busy", (json_int_t)e->busy, "idle", (json_int_t)e->idle, "held", stalled);
}

static json_t *fault_json(const tv_fault *f)
{
    if (!f)
        return json_null();
    char source[512];
    snprintf(source, sizeof source, "%s:%u", f->file ? f->file : "", f->line);
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:o, s:s}", "code", f->code, "name", f->name, "index",
                     (json_int_t)f->index, "address", (json_int_t)f->address, "disassembly", f->disassembly, "source",
                     f->file ? cli_string(source) : json_null(), "message", f->message);
}

json_t *run_report_json(const tv_machine *machine, tv_stop_reason stop, json_t *dumps)
{
    static const char *const stops[] = {
        [TV_STOP_END] = "end", [TV_STOP_UNTIL] = "until", [TV_STOP_CYCLES] = "max-cycles", [TV_STOP_FAULT] = "fault"};
    tv_stats s = {.size = sizeof s};
    tv_machine_stats(machine, &s);
    const tv_fault *fault = tv_machine_fault(machine);
    json_t *engines = json_object(), *bytes = json_object();
    for (unsigned e = 0; e < s.engine_count; e++)
        json_object_set_new(engines, s.engines[e].name, engine_json(&s, &s.engines[e]));
    for (unsigned p = 0; p < s.path_count; p++)
        json_object_set_new(bytes, s.paths[p].name, json_integer((json_int_t)s.paths[p].bytes));
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:f, s:I, s:I, s:o, s:o, s:o, s:O}", "target",
                     tv_machine_target(machine), "status", fault ? "fault" : "ok", "stop", stops[stop], "fault",
                     fault_json(fault), "cycles", (json_int_t)s.cycles, "seconds", s.seconds, "instructions",
                     (json_int_t)s.instructions, "macs", (json_int_t)s.macs, "engines", engines, "bytes", bytes,
                     "bound_by", s.bound_by[0] ? json_string(s.bound_by) : json_null(), "dumps", dumps);
}

static void print_engine(const tv_stats *s, const tv_engine_stats *e, bool color, FILE *out)
{
    double cycles = s->cycles ? (double)s->cycles : 1;
    uint64_t stalled = 0;
    for (unsigned c = 0; c < s->stall_reason_count; c++)
        stalled += e->stalled[c];
    fprintf(out, "  %-6s ", e->name);
    cli_print_bar((double)e->busy / cycles, color, out);
    fprintf(out, " %5.1f %%  %5.1f %%  %5.1f %%", 100 * (double)e->busy / cycles, 100 * (double)stalled / cycles,
            100 * (double)e->idle / cycles);
    const char *separator = "  ";
    for (unsigned c = 0; c < s->stall_reason_count; c++)
        if (e->stalled[c]) {
            fprintf(out, "%s%s %.1f %%", separator, s->stall_reasons[c], 100 * (double)e->stalled[c] / cycles);
            separator = ", ";
        }
    fputc('\n', out);
}

void run_report_print(const tv_machine *machine, bool timed, bool color, FILE *out)
{
    tv_stats s = {.size = sizeof s};
    tv_machine_stats(machine, &s);
    const char *bold = color ? "\033[1m" : "", *off = color ? "\033[0m" : "";
    fprintf(out, "%s%s%s: %" PRIu64 " instruction%s", bold, tv_machine_target(machine), off, s.instructions,
            s.instructions == 1 ? "" : "s");
    if (!timed) {
        fprintf(out, ", %" PRIu64 " MACs, functional only: no cycles\n", s.macs);
        return;
    }
    if (s.cycles == 0) {
        fprintf(out, ", 0 cycles\n");
        return;
    }
    fprintf(out, ", %s%" PRIu64 " cycle%s%s, ", bold, s.cycles, s.cycles == 1 ? "" : "s", off);
    cli_print_time(s.seconds, out);
    fputs(" at ", out);
    cli_print_figure(s.clock_hz / 1e6, 0, out);
    fprintf(out, " MHz\n\n  engine %-20s    busy     held     idle  held by\n", "");
    for (unsigned e = 0; e < s.engine_count; e++)
        print_engine(&s, &s.engines[e], color, out);
    double cycles = s.cycles ? (double)s.cycles : 1;
    bool heading = false;
    for (unsigned p = 0; p < s.path_count; p++) {
        if (!s.paths[p].bytes)
            continue;
        if (!heading)
            fprintf(out, "\n  path             bytes        achieved / peak, bytes a cycle\n");
        heading = true;
        fprintf(out, "  %-13s", s.paths[p].name);
        cli_print_amount((double)s.paths[p].bytes, out);
        fprintf(out, "  %8.2f / ", (double)s.paths[p].bytes / cycles);
        cli_print_figure(s.paths[p].peak, 6, out);
        fprintf(out, " (%.1f %%)\n", 100 * (double)s.paths[p].bytes / cycles / s.paths[p].peak);
    }
    if (s.macs) {
        fprintf(out, "\n  MACs %" PRIu64 ": %.2f / ", s.macs, (double)s.macs / cycles);
        cli_print_figure(s.peak_macs, 0, out);
        fprintf(out, " a cycle (%.1f %%)\n", 100 * (double)s.macs / cycles / s.peak_macs);
    }
    fprintf(out, "\n  %s%s%s\n", bold, s.bottleneck, off);
}

void run_report_fault(const tv_fault *f, bool words, bool color)
{
    const char *bold = color ? "\033[1m" : "", *red = color ? "\033[1;31m" : "", *off = color ? "\033[0m" : "";
    fflush(stdout);
    if (f->file)
        fprintf(stderr, "%s%s:%u: %s", bold, f->file, f->line, off);
    fprintf(stderr, "%smachine fault%s at instruction %" PRIu64, red, off, f->index);
    if (words)
        fprintf(stderr, " (address 0x%" PRIx64 ")", f->address);
    fprintf(stderr, ": %s%s [%s %s]%s\n        | %s\n", bold, f->message, f->code, f->name, off, f->disassembly);
}
