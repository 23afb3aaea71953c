/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_report.h"

#include <inttypes.h>

#include "cli/energy_report.h"

/* ---- JSON ---- */

static void write_fault(const tv_fault *f, tv_json_writer *w)
{
    char source[512];
    if (!f) {
        tv_json_write_null(w);
        return;
    }
    snprintf(source, sizeof source, "%s:%u", f->file ? f->file : "", f->line);
    tv_json_begin_object(w);
    tv_json_string_member(w, "code", f->code);
    tv_json_string_member(w, "name", f->name);
    tv_json_unsigned_member(w, "index", f->index);
    tv_json_unsigned_member(w, "address", f->address);
    tv_json_string_member(w, "disassembly", f->disassembly);
    tv_json_string_member(w, "source", f->file ? source : NULL);
    tv_json_string_member(w, "message", f->message);
    tv_json_end_object(w);
}

void run_report_write_json(const tv_machine *machine, tv_stop_reason stop, tv_json_writer *w)
{
    static const char *const stops[] = {
        [TV_STOP_END] = "end", [TV_STOP_UNTIL] = "until", [TV_STOP_CYCLES] = "max-cycles", [TV_STOP_FAULT] = "fault"};
    tv_stats s = {.size = sizeof s};
    tv_machine_stats(machine, &s);
    tv_json_string_member(w, "target", tv_machine_target(machine));
    tv_json_string_member(w, "stop", stops[stop]);
    tv_json_key(w, "fault");
    write_fault(tv_machine_fault(machine), w);
    tv_stats_write_json(w, &s);
    energy_report_write_json(machine, w);
}

/* ---- Text ---- */

static double percent_of(uint64_t amount, uint64_t total) { return 100 * (double)amount / (total ? (double)total : 1); }

static void print_engine(const tv_stats *s, const tv_engine_stats *e, bool color, FILE *out)
{
    uint64_t stalled = 0;
    for (unsigned r = 0; r < s->stall_reason_count; r++)
        stalled += e->stalled[r];
    fprintf(out, "  %-6s ", e->name);
    cli_print_bar(percent_of(e->busy, s->cycles) / 100, color, out);
    fprintf(out, " %5.1f %%  %5.1f %%  %5.1f %%", percent_of(e->busy, s->cycles), percent_of(stalled, s->cycles),
            percent_of(e->idle, s->cycles));
    const char *separator = "  ";
    for (unsigned r = 0; r < s->stall_reason_count; r++)
        if (e->stalled[r]) {
            fprintf(out, "%s%s %.1f %%", separator, s->stall_reasons[r], percent_of(e->stalled[r], s->cycles));
            separator = ", ";
        }
    fputc('\n', out);
}

static void print_paths(const tv_stats *s, FILE *out)
{
    bool has_heading = false;
    for (unsigned p = 0; p < s->path_count; p++) {
        double rate = (double)s->paths[p].bytes / (double)s->cycles;
        if (!s->paths[p].bytes)
            continue;
        if (!has_heading)
            fprintf(out, "\n  path             bytes        achieved / peak, bytes a cycle\n");
        has_heading = true;
        fprintf(out, "  %-13s", s->paths[p].name);
        cli_print_bytes((double)s->paths[p].bytes, out);
        fprintf(out, "  %8.2f / ", rate);
        cli_print_number(s->paths[p].peak, 6, out);
        fprintf(out, " (%.1f %%)", 100 * rate / s->paths[p].peak);
        if (s->paths[p].limited_by)
            fprintf(out, "  %s", s->paths[p].limited_by);
        fputc('\n', out);
    }
}

/* By role of tensors, if the program states several. */
static void print_roles(const tv_stats *s, FILE *out)
{
    if (s->role_count < 2)
        return;
    fprintf(out, "\n  tensor role      bytes        engine cycles     stalled\n");
    for (unsigned r = 0; r < s->role_count; r++) {
        fprintf(out, "  %-13s", s->roles[r].name);
        cli_print_bytes((double)s->roles[r].bytes, out);
        fprintf(out, "  %16s  %10s\n", CLI_COUNT(s->roles[r].busy), CLI_COUNT(s->roles[r].stalled));
    }
}

static void print_timing(const tv_stats *s, bool color, FILE *out)
{
    const char *bold = color ? "\033[1m" : "", *off = color ? "\033[0m" : "";
    fprintf(out, ", %s%s cycle%s%s, ", bold, CLI_COUNT(s->cycles), s->cycles == 1 ? "" : "s", off);
    cli_print_time(s->seconds, out);
    fputs(" at ", out);
    cli_print_number(s->clock_hz / 1e6, 0, out);
    fprintf(out, " MHz\n\n  engine %-20s    busy  stalled     idle  stall reasons\n", "");
    for (unsigned e = 0; e < s->engine_count; e++)
        print_engine(s, &s->engines[e], color, out);
    print_paths(s, out);
    print_roles(s, out);
    if (s->macs) {
        double rate = (double)s->macs / (double)s->cycles;
        fprintf(out, "\n  MACs %s: %.2f / ", CLI_COUNT(s->macs), rate);
        cli_print_number(s->peak_macs, 0, out);
        fprintf(out, " a cycle (%.1f %%)\n", 100 * rate / s->peak_macs);
    }
    fprintf(out, "\n  %s%s%s\n", bold, s->bottleneck, off);
}

void run_report_print(const tv_machine *machine, bool timed, bool color, FILE *out)
{
    tv_stats s = {.size = sizeof s};
    tv_machine_stats(machine, &s);
    fprintf(out, "%s%s%s: %s instruction%s", color ? "\033[1m" : "", tv_machine_target(machine), color ? "\033[0m" : "",
            CLI_COUNT(s.instructions), s.instructions == 1 ? "" : "s");
    if (!timed)
        fprintf(out, ", %s MACs, functional only: no cycles\n", CLI_COUNT(s.macs));
    else if (s.cycles == 0)
        fprintf(out, ", 0 cycles\n");
    else
        print_timing(&s, color, out);
}

void run_report_print_fault(const tv_fault *f, bool has_address, bool color)
{
    const char *bold = color ? "\033[1m" : "", *red = color ? "\033[1;31m" : "", *off = color ? "\033[0m" : "";
    fflush(stdout);
    if (f->file)
        fprintf(stderr, "%s%s:%u: %s", bold, CLI_SAFE(f->file), f->line, off);
    fprintf(stderr, "%smachine fault%s at instruction %" PRIu64, red, off, f->index);
    if (has_address)
        fprintf(stderr, " (address 0x%" PRIx64 ")", f->address);
    fprintf(stderr, ": %s", bold);
    tv_text_print(stderr, f->message, strlen(f->message), TV_TEXT_KEEP_NONE);
    fprintf(stderr, " [%s %s]%s\n        | ", f->code, f->name, off);
    cli_print_line(stderr, f->disassembly);
}
