/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace_report.h"

#include <inttypes.h>

#include "cli/energy_report.h"

static double fraction_of(uint64_t amount, uint64_t total) { return total ? (double)amount / (double)total : 0; }

/* ---- The summary as JSON ---- */

/* Writes null for a value that is not known. */
static void write_positive(tv_json_writer *w, const char *key, double value)
{
    if (value > 0)
        cli_write_real(w, key, value);
    else
        tv_json_null_member(w, key);
}

static void write_stall_reasons(const char *key, const tv_trace_stall_reason *reasons, unsigned count,
                                tv_json_writer *w)
{
    tv_json_key(w, key);
    tv_json_begin_object(w);
    for (unsigned i = 0; i < count; i++)
        tv_json_unsigned_member(w, reasons[i].name, reasons[i].cycles);
    tv_json_end_object(w);
}

static void write_engines(const tv_trace_summary *s, tv_json_writer *w)
{
    tv_json_key(w, "engines");
    tv_json_begin_object(w);
    for (unsigned i = 0; i < s->engine_count; i++) {
        const tv_trace_engine *e = &s->engines[i];
        tv_json_key(w, e->name);
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "busy", e->busy);
        tv_json_unsigned_member(w, "idle", e->idle);
        write_stall_reasons("stalled", e->stalled, e->stalled_count, w);
        tv_json_end_object(w);
    }
    tv_json_end_object(w);
}

static void write_paths(const tv_trace_summary *s, tv_json_writer *w)
{
    tv_json_key(w, "paths");
    tv_json_begin_object(w);
    for (unsigned i = 0; i < s->path_count; i++) {
        tv_json_key(w, s->paths[i].name);
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "bytes", s->paths[i].bytes);
        write_positive(w, "peak_bytes_per_cycle", s->paths[i].peak);
        tv_json_end_object(w);
    }
    tv_json_end_object(w);
}

static void write_rows(const char *key, const tv_trace_row *rows, unsigned count, tv_json_writer *w)
{
    tv_json_key(w, key);
    tv_json_begin_array(w);
    for (unsigned i = 0; i < count; i++) {
        const tv_trace_row *r = &rows[i];
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", r->name);
        tv_json_unsigned_member(w, "count", r->count);
        tv_json_unsigned_member(w, "cycles", r->cycles);
        tv_json_unsigned_member(w, "stalled", r->stalled);
        tv_json_unsigned_member(w, "bytes", r->bytes);
        tv_json_unsigned_member(w, "macs", r->macs);
        if (r->count) {
            tv_json_unsigned_member(w, "first_cycle", r->first);
            tv_json_unsigned_member(w, "end_cycle", r->last);
        }
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_steps(const tv_trace_summary *s, tv_json_writer *w)
{
    tv_json_key(w, "steps");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < s->step_count; i++) {
        const tv_trace_step *step = &s->steps[i];
        tv_json_begin_object(w);
        tv_json_string_member(w, "op", step->op);
        tv_json_integer_member(w, "position", step->position);
        tv_json_unsigned_member(w, "tokens", step->tokens);
        tv_json_unsigned_member(w, "start_cycle", step->start);
        tv_json_unsigned_member(w, "end_cycle", step->end);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_insn(const char *key, const tv_trace_insn *insn, tv_json_writer *w)
{
    if (insn->index < 0) {
        tv_json_null_member(w, key);
        return;
    }
    tv_json_key(w, key);
    tv_json_begin_object(w);
    tv_json_integer_member(w, "index", insn->index);
    tv_json_string_member(w, "op", insn->op);
    if (insn->file) {
        tv_json_string_member(w, "file", insn->file);
        tv_json_unsigned_member(w, "line", insn->line);
    }
    tv_json_end_object(w);
}

static void write_stalls(const tv_trace_summary *s, tv_json_writer *w)
{
    tv_json_key(w, "stalls");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < s->stall_count; i++) {
        const tv_trace_stall *stall = &s->stalls[i];
        tv_json_begin_object(w);
        tv_json_string_member(w, "engines", stall->engines);
        tv_json_string_member(w, "reason", stall->reason);
        tv_json_unsigned_member(w, "start_cycle", stall->start);
        tv_json_unsigned_member(w, "end_cycle", stall->end);
        write_insn("stalled", &stall->stalled, w);
        write_insn("waits_for", &stall->waits_for, w);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_settings(const tv_trace_summary *s, tv_json_writer *w)
{
    tv_json_key(w, "settings");
    tv_json_begin_object(w);
    for (unsigned i = 0; i < s->setting_count; i++) {
        tv_json_key(w, s->settings[i].key);
        tv_json_begin_object(w);
        tv_json_string_member(w, "value", s->settings[i].value);
        tv_json_string_member(w, "default", s->settings[i].default_value);
        tv_json_end_object(w);
    }
    tv_json_end_object(w);
}

void trace_summary_write_json(const tv_trace_summary *s, tv_json_writer *w)
{
    tv_json_string_member(w, "target", s->target);
    tv_json_string_member(w, "tool_version", s->tool_version);
    cli_write_real(w, "clock_hz", s->clock_hz);
    tv_json_unsigned_member(w, "cycles", s->cycles);
    cli_write_real(w, "seconds", s->seconds);
    tv_json_unsigned_member(w, "instructions", s->instructions);
    tv_json_unsigned_member(w, "macs", s->macs);
    write_positive(w, "peak_macs_per_cycle", s->peak_macs);
    tv_json_string_member(w, "bound_by", s->bound_by[0] ? s->bound_by : NULL);
    tv_json_unsigned_member(w, "events", s->events);
    write_settings(s, w);
    write_engines(s, w);
    write_stall_reasons("stall_reasons", s->stall_reasons, s->stall_reason_count, w);
    write_paths(s, w);
    write_rows("ops", s->ops, s->op_count, w);
    write_rows("layers", s->layers, s->layer_count, w);
    write_steps(s, w);
    write_stalls(s, w);
    if (tv_joules_value(s->energy.high) > 0) {
        tv_json_key(w, "energy");
        tv_energy_write_json(w, s->energy);
    }
}

/* ---- The summary as tables ---- */

/* Prints a name from a file, made safe. Padded and cut to `width` columns; 0: at most 160, not
 * padded. */
static void print_name(const char *name, int width, FILE *out)
{
    int columns = 0, max = width > 0 ? width : 160;
    char safe[1024];
    tv_text_escape(name, safe, sizeof safe);
    for (const unsigned char *p = (const unsigned char *)safe; *p && (columns < max || (*p & 0xC0) == 0x80); p++) {
        putc(*p, out);
        columns += (*p & 0xC0) != 0x80;
    }
    fprintf(out, "%*s", width > columns ? width - columns : 0, "");
}

static void print_more(unsigned count, unsigned rows, FILE *out)
{
    if (count > rows)
        fprintf(out, "  %s %u more; --json has them all\n", cli_symbol("…", "..."), count - rows);
}

static void print_engines(const tv_trace_summary *s, bool color, FILE *out)
{
    if (s->engine_count)
        fprintf(out, "\n  engine %-20s    busy  stalled     idle  stall reasons\n", "");
    for (unsigned i = 0; i < s->engine_count; i++) {
        const tv_trace_engine *e = &s->engines[i];
        uint64_t stalled = 0;
        for (unsigned c = 0; c < e->stalled_count; c++)
            stalled += e->stalled[c].cycles;
        double busy = fraction_of(e->busy, s->cycles);
        fputs("  ", out);
        print_name(e->name, 7, out);
        cli_print_bar(busy < 1 ? busy : 1, color, out);
        fprintf(out, " %5.1f %%  %5.1f %%  %5.1f %%", 100 * busy, 100 * fraction_of(stalled, s->cycles),
                100 * fraction_of(e->idle, s->cycles));
        for (unsigned c = 0; c < e->stalled_count; c++) {
            fputs(c ? ", " : "  ", out);
            print_name(e->stalled[c].name, 0, out);
            fprintf(out, " %.1f %%", 100 * fraction_of(e->stalled[c].cycles, s->cycles));
        }
        putc('\n', out);
    }
}

static void print_paths(const tv_trace_summary *s, FILE *out)
{
    bool has_heading = false;
    for (unsigned i = 0; i < s->path_count; i++) {
        const tv_trace_path *p = &s->paths[i];
        double rate = fraction_of(p->bytes, s->cycles);
        if (!p->bytes)
            continue;
        if (!has_heading)
            fprintf(out, "\n  path             bytes        achieved / peak, bytes a cycle\n");
        has_heading = true;
        fputs("  ", out);
        print_name(p->name, 13, out);
        cli_print_bytes((double)p->bytes, out);
        fprintf(out, "  %8.2f", rate);
        if (p->peak > 0) {
            fputs(" / ", out);
            cli_print_number(p->peak, 6, out);
            fprintf(out, " (%.1f %%)", 100 * rate / p->peak);
        }
        putc('\n', out);
    }
}

static void print_bytes(uint64_t bytes, FILE *out)
{
    fputs("  ", out);
    if (bytes)
        cli_print_bytes((double)bytes, out);
    else
        fprintf(out, "%13s", "");
}

static void print_rows(const char *title, const tv_trace_row *table, unsigned count, uint64_t all, unsigned rows,
                       FILE *out)
{
    if (!count)
        return;
    fprintf(out, "\n  %-24s    count        cycles   share     stalled       bytes            MACs\n", title);
    for (unsigned i = 0; i < count && i < rows; i++) {
        const tv_trace_row *r = &table[i];
        fputs("  ", out);
        print_name(r->name, 24, out);
        fprintf(out, " %8" PRIu64 " %13s %5.1f %% %11s", r->count, CLI_COUNT(r->cycles),
                100 * fraction_of(r->cycles, all), CLI_COUNT(r->stalled));
        if (r->bytes || r->macs)
            print_bytes(r->bytes, out);
        if (r->macs)
            fprintf(out, " %13s", CLI_COUNT(r->macs));
        putc('\n', out);
    }
    print_more(count, rows, out);
}

typedef struct step_totals {
    uint64_t count, tokens, cycles, min_cycles, max_cycles;
} step_totals;

static step_totals sum_steps(const tv_trace_summary *s, const char *op)
{
    step_totals t = {.min_cycles = UINT64_MAX};
    for (unsigned i = 0; i < s->step_count; i++) {
        const tv_trace_step *step = &s->steps[i];
        uint64_t cycles = step->end - step->start;
        if (strcmp(step->op, op) != 0)
            continue;
        t.count++;
        t.tokens += step->tokens;
        t.cycles += cycles;
        t.min_cycles = cycles < t.min_cycles ? cycles : t.min_cycles;
        t.max_cycles = cycles > t.max_cycles ? cycles : t.max_cycles;
    }
    return t;
}

static void print_step_totals(const char *op, const step_totals *t, double clock_hz, FILE *out)
{
    fprintf(out, "  %s: %" PRIu64 " token%s in %" PRIu64 " step%s, %s cycles", op, t->tokens, t->tokens == 1 ? "" : "s",
            t->count, t->count == 1 ? "" : "s", CLI_COUNT(t->cycles));
    if (t->tokens && t->cycles) {
        fprintf(out, ", %.1f a token, ", (double)t->cycles / (double)t->tokens);
        cli_print_number((double)t->tokens * clock_hz / (double)t->cycles, 0, out);
        fputs(" tokens/s", out);
    }
    if (t->count > 1)
        fprintf(out, "; a step takes %s to %s", CLI_COUNT(t->min_cycles), CLI_COUNT(t->max_cycles));
    putc('\n', out);
}

/* One line each for prefill and decode, then the steps. */
static void print_steps(const tv_trace_summary *s, unsigned rows, FILE *out)
{
    static const char *const ops[] = {"prefill", "decode", "step"};
    bool is_first = true;
    for (unsigned o = 0; o < CLI_COUNTOF(ops); o++) {
        step_totals t = sum_steps(s, ops[o]);
        if (!t.count)
            continue;
        fputs(is_first ? "\n" : "", out);
        is_first = false;
        print_step_totals(ops[o], &t, s->clock_hz, out);
    }
    if (s->step_count)
        fprintf(out, "\n  step      position  tokens         start        cycles\n");
    for (unsigned i = 0; i < s->step_count && i < rows; i++) {
        const tv_trace_step *step = &s->steps[i];
        fprintf(out, "  %-8s %9" PRId64 " %7" PRIu64 " %13s %13s\n", step->op, step->position, step->tokens,
                CLI_COUNT(step->start), CLI_COUNT(step->end - step->start));
    }
    print_more(s->step_count, rows, out);
}

static void print_insn(const tv_trace_insn *insn, FILE *out)
{
    if (insn->op)
        print_name(insn->op, 0, out);
    fprintf(out, "%s#%" PRId64, insn->op ? " " : "", insn->index);
    if (!insn->file)
        return;
    const char *slash = strrchr(insn->file, '/');
    fputs(" (", out);
    print_name(slash ? slash + 1 : insn->file, 0, out);
    fprintf(out, ":%u)", insn->line);
}

static void print_stalls(const tv_trace_summary *s, FILE *out)
{
    if (s->stall_count)
        fprintf(out, "\n  longest stalls\n");
    for (unsigned i = 0; i < s->stall_count; i++) {
        const tv_trace_stall *t = &s->stalls[i];
        fprintf(out, "  %9s cycles from %-9s ", CLI_COUNT(t->end - t->start), CLI_COUNT(t->start));
        print_name(t->engines, 10, out);
        putc(' ', out);
        print_name(t->reason, 10, out);
        putc(' ', out);
        if (t->stalled.index >= 0)
            print_insn(&t->stalled, out);
        if (t->waits_for.index >= 0) {
            fputs(" waits for ", out);
            print_insn(&t->waits_for, out);
        }
        putc('\n', out);
    }
}

static void print_settings(const tv_trace_summary *s, FILE *out)
{
    for (unsigned i = 0; i < s->setting_count; i++) {
        fputs(i ? "  " : "\n  ", out);
        print_name(s->settings[i].key, 0, out);
        fputs(" = ", out);
        print_name(s->settings[i].value, 0, out);
        if (s->settings[i].default_value)
            fprintf(out, " (default %s)", s->settings[i].default_value);
        putc('\n', out);
    }
}

static void print_macs(const tv_trace_summary *s, FILE *out)
{
    double rate = fraction_of(s->macs, s->cycles);
    if (!s->macs || s->peak_macs <= 0)
        return;
    fprintf(out, "\n  MACs %s: %.2f / ", CLI_COUNT(s->macs), rate);
    cli_print_number(s->peak_macs, 0, out);
    fprintf(out, " a cycle (%.1f %%)\n", 100 * rate / s->peak_macs);
}

void trace_summary_print(const tv_trace_summary *s, unsigned rows, bool color, FILE *out)
{
    const char *bold = color ? "\033[1m" : "", *off = color ? "\033[0m" : "";
    uint64_t busy = 0;
    fputs(bold, out);
    print_name(s->target, 0, out);
    fprintf(out, "%s: %s instruction%s, %s%s cycle%s%s, ", off, CLI_COUNT(s->instructions),
            s->instructions == 1 ? "" : "s", bold, CLI_COUNT(s->cycles), s->cycles == 1 ? "" : "s", off);
    cli_print_time(s->seconds, out);
    fputs(" at ", out);
    cli_print_number(s->clock_hz / 1e6, 0, out);
    fprintf(out, " MHz; %s events\n", CLI_COUNT(s->events));
    print_settings(s, out);
    for (unsigned i = 0; i < s->op_count; i++)
        busy += s->ops[i].cycles;
    print_engines(s, color, out);
    print_paths(s, out);
    print_macs(s, out);
    print_rows("instruction", s->ops, s->op_count, busy, rows, out);
    print_rows("layer", s->layers, s->layer_count, busy, rows, out);
    print_steps(s, rows, out);
    print_stalls(s, out);
    if (tv_joules_value(s->energy.high) > 0)
        fprintf(out, "\n  energy %s\n", ENERGY(s->energy));
    if (s->bottleneck[0] || s->bound_by[0]) {
        fprintf(out, "\n  %s%s", bold, s->bottleneck[0] ? "" : "bound by ");
        print_name(s->bottleneck[0] ? s->bottleneck : s->bound_by, 0, out);
        fprintf(out, "%s\n", off);
    }
}

/* ---- Comparisons ---- */

/* Writes the members of a change; `name` NULL: none. */
static void write_change(const char *name, uint64_t before, uint64_t after, tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "before", before);
    tv_json_unsigned_member(w, "after", after);
    tv_json_integer_member(w, "change", (int64_t)(after - before));
    if (before)
        cli_write_real(w, "percent", 100 * ((double)after - (double)before) / (double)before);
    else
        tv_json_null_member(w, "percent");
    if (name)
        tv_json_string_member(w, "name", name);
    tv_json_end_object(w);
}

static void write_changes(const char *key, const tv_trace_changes *changes, tv_json_writer *w)
{
    tv_json_key(w, key);
    tv_json_begin_array(w);
    for (unsigned i = 0; i < changes->count; i++)
        write_change(changes->rows[i].name, changes->rows[i].before, changes->rows[i].after, w);
    tv_json_end_array(w);
}

void trace_diff_write_json(const tv_trace_diff *d, tv_json_writer *w)
{
    tv_json_boolean_member(w, "equal", d->equal);
    tv_json_key(w, "cycles");
    write_change(NULL, d->before, d->after, w);
    tv_json_key(w, "settings");
    tv_json_begin_object(w);
    for (unsigned i = 0; i < d->setting_count; i++) {
        tv_json_key(w, d->settings[i].key);
        tv_json_begin_object(w);
        tv_json_string_member(w, "before", d->settings[i].before);
        tv_json_string_member(w, "after", d->settings[i].after);
        tv_json_end_object(w);
    }
    tv_json_end_object(w);
    write_changes("engines", &d->engines, w);
    write_changes("stall_reasons", &d->stall_reasons, w);
    write_changes("layers", &d->layers, w);
    write_changes("ops", &d->ops, w);
}

static void print_change(const char *name, uint64_t before, uint64_t after, FILE *out)
{
    bool grew = after >= before;
    fputs("  ", out);
    print_name(name, 24, out);
    fprintf(out, " %13s %13s  %c%-12s", CLI_COUNT(before), CLI_COUNT(after), grew ? '+' : '-',
            CLI_COUNT(grew ? after - before : before - after));
    if (before)
        fprintf(out, " %+8.2f %%", 100 * ((double)after - (double)before) / (double)before);
    else
        fprintf(out, "      new");
    putc('\n', out);
}

static void print_changes(const char *title, const tv_trace_changes *changes, unsigned rows, FILE *out)
{
    if (!changes->count)
        return;
    fprintf(out, "\n  %-24s %13s %13s  change\n", title, "before", "after");
    for (unsigned i = 0; i < changes->count && i < rows; i++)
        print_change(changes->rows[i].name, changes->rows[i].before, changes->rows[i].after, out);
    print_more(changes->count, rows, out);
}

void trace_diff_print(const tv_trace_diff *d, unsigned rows, bool color, FILE *out)
{
    if (d->equal) {
        fprintf(out, "no difference: both take %s cycle%s\n", CLI_COUNT(d->before), d->before == 1 ? "" : "s");
        return;
    }
    fprintf(out, "%scycles %s -> %s%s", color ? "\033[1m" : "", CLI_COUNT(d->before), CLI_COUNT(d->after),
            color ? "\033[0m" : "");
    if (d->before)
        fprintf(out, ", %+.2f %%", 100 * ((double)d->after - (double)d->before) / (double)d->before);
    putc('\n', out);
    for (unsigned i = 0; i < d->setting_count; i++) {
        fputs(i ? "  " : "\n  ", out);
        print_name(d->settings[i].key, 0, out);
        fputs(": ", out);
        print_name(d->settings[i].before ? d->settings[i].before : "(none)", 0, out);
        fputs(" -> ", out);
        print_name(d->settings[i].after ? d->settings[i].after : "(none)", 0, out);
        putc('\n', out);
    }
    print_changes("engine", &d->engines, rows, out);
    print_changes("stall reason", &d->stall_reasons, rows, out);
    print_changes("instruction", &d->ops, rows, out);
    print_changes("layer", &d->layers, rows, out);
}
