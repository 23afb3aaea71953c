/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries of traces and what changed between two, as tables and as JSON. */
#include "cli/trace_report.h"

#include <inttypes.h>

static double share_of(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

static json_t *whole(uint64_t value) { return json_integer((json_int_t)value); }

static json_t *number_or_null(double value) { return value > 0 ? json_real(value) : json_null(); }

/* ---- The summary as JSON ---- */

static json_t *causes_json(const tv_trace_stall_reason *stall_reasons, unsigned count)
{
    json_t *object = json_object();
    for (unsigned i = 0; i < count; i++)
        json_object_set_new(object, stall_reasons[i].name, whole(stall_reasons[i].cycles));
    return object;
}

static json_t *engines_json(const tv_trace_summary *s)
{
    json_t *object = json_object();
    for (unsigned i = 0; i < s->engine_count; i++) {
        const tv_trace_engine *e = &s->engines[i];
        json_object_set_new(object, e->name,
                            json_pack("{s:I, s:I, s:o}", "busy", (json_int_t)e->busy, "idle", (json_int_t)e->idle,
                                      "held", causes_json(e->stalled, e->stalled_count)));
    }
    return object;
}

static json_t *paths_json(const tv_trace_summary *s)
{
    json_t *object = json_object();
    for (unsigned i = 0; i < s->path_count; i++)
        json_object_set_new(object, s->paths[i].name,
                            json_pack("{s:I, s:o}", "bytes", (json_int_t)s->paths[i].bytes, "peak_bytes_per_cycle",
                                      number_or_null(s->paths[i].peak)));
    return object;
}

static json_t *rows_json(const tv_trace_row *rows, unsigned count)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < count; i++) {
        const tv_trace_row *r = &rows[i];
        json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "name", r->name, "count", (json_int_t)r->count,
                                   "cycles", (json_int_t)r->cycles, "held", (json_int_t)r->stalled, "bytes",
                                   (json_int_t)r->bytes, "macs", (json_int_t)r->macs);
        if (r->count) {
            json_object_set_new(object, "first_cycle", whole(r->first));
            json_object_set_new(object, "end_cycle", whole(r->last));
        }
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *steps_json(const tv_trace_summary *s)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < s->step_count; i++) {
        const tv_trace_step *t = &s->steps[i];
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:I}", "op", t->op, "position",
                                              (json_int_t)t->position, "tokens", (json_int_t)t->tokens, "start_cycle",
                                              (json_int_t)t->start, "end_cycle", (json_int_t)t->end));
    }
    return list;
}

static json_t *insn_json(const tv_trace_insn *insn)
{
    if (insn->index < 0)
        return json_null();
    json_t *object = json_pack("{s:I, s:o}", "index", (json_int_t)insn->index, "op", cli_string(insn->op));
    if (insn->file) {
        json_object_set_new(object, "file", cli_string(insn->file));
        json_object_set_new(object, "line", whole(insn->line));
    }
    return object;
}

static json_t *stalls_json(const tv_trace_summary *s)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < s->stall_count; i++) {
        const tv_trace_stall *t = &s->stalls[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:I, s:I, s:o, s:o}", "engines", t->engines, "cause", t->reason,
                                        "start_cycle", (json_int_t)t->start, "end_cycle", (json_int_t)t->end, "held",
                                        insn_json(&t->stalled), "waits_for", insn_json(&t->waits_for)));
    }
    return list;
}

json_t *trace_summary_json(const tv_trace_summary *s)
{
    json_t *settings = json_object();
    for (unsigned i = 0; i < s->setting_count; i++)
        json_object_set_new(settings, s->settings[i].key,
                            json_pack("{s:s, s:o}", "value", s->settings[i].value, "default",
                                      cli_string(s->settings[i].default_value)));
    json_t *object = json_pack(
        "{s:s, s:s, s:f, s:I, s:f, s:I, s:I, s:o, s:o, s:I}", "target", s->target, "tool_version", s->tool_version,
        "clock_hz", s->clock_hz, "cycles", (json_int_t)s->cycles, "seconds", s->seconds, "instructions",
        (json_int_t)s->instructions, "macs", (json_int_t)s->macs, "peak_macs_per_cycle", number_or_null(s->peak_macs),
        "bound_by", s->bound_by[0] ? json_string(s->bound_by) : json_null(), "events", (json_int_t)s->events);
    json_object_set_new(object, "settings", settings);
    json_object_set_new(object, "engines", engines_json(s));
    json_object_set_new(object, "causes", causes_json(s->stall_reasons, s->stall_reason_count));
    json_object_set_new(object, "paths", paths_json(s));
    json_object_set_new(object, "ops", rows_json(s->ops, s->op_count));
    json_object_set_new(object, "layers", rows_json(s->layers, s->layer_count));
    json_object_set_new(object, "steps", steps_json(s));
    json_object_set_new(object, "stalls", stalls_json(s));
    return object;
}

/* ---- The summary as tables ---- */

/* Names come from files: what a terminal would take for commands is shown as '?'. Filled up to `width`; 0: as long as
 * it is. */
static void print_name(const char *name, int width, FILE *out)
{
    int places = 0, left = width > 0 ? width : 160;
    for (const unsigned char *p = (const unsigned char *)name; *p && (places < left || (*p & 0xC0) == 0x80); p++) {
        putc(*p < ' ' || *p == 0x7F ? '?' : *p, out);
        places += (*p & 0xC0) != 0x80;
    }
    fprintf(out, "%*s", width > places ? width - places : 0, "");
}

static void print_more(unsigned count, unsigned rows, FILE *out)
{
    if (count > rows)
        fprintf(out, "  … %u more; --json has them all\n", count - rows);
}

static void print_engines(const tv_trace_summary *s, bool color, FILE *out)
{
    if (s->engine_count)
        fprintf(out, "\n  engine %-20s    busy     held     idle  held by\n", "");
    for (unsigned i = 0; i < s->engine_count; i++) {
        const tv_trace_engine *e = &s->engines[i];
        uint64_t stalled = 0;
        for (unsigned c = 0; c < e->stalled_count; c++)
            stalled += e->stalled[c].cycles;
        double busy = share_of(e->busy, s->cycles);
        fputs("  ", out);
        print_name(e->name, 7, out);
        cli_print_bar(busy < 1 ? busy : 1, color, out);
        fprintf(out, " %5.1f %%  %5.1f %%  %5.1f %%", 100 * busy, 100 * share_of(stalled, s->cycles),
                100 * share_of(e->idle, s->cycles));
        for (unsigned c = 0; c < e->stalled_count; c++) {
            fputs(c ? ", " : "  ", out);
            print_name(e->stalled[c].name, 0, out);
            fprintf(out, " %.1f %%", 100 * share_of(e->stalled[c].cycles, s->cycles));
        }
        putc('\n', out);
    }
}

static void print_paths(const tv_trace_summary *s, FILE *out)
{
    bool heading = false;
    for (unsigned i = 0; i < s->path_count; i++) {
        const tv_trace_path *p = &s->paths[i];
        double rate = share_of(p->bytes, s->cycles);
        if (!p->bytes)
            continue;
        if (!heading)
            fprintf(out, "\n  path             bytes        achieved / peak, bytes a cycle\n");
        heading = true;
        fputs("  ", out);
        print_name(p->name, 13, out);
        cli_print_amount((double)p->bytes, out);
        fprintf(out, "  %8.2f", rate);
        if (p->peak > 0) {
            fputs(" / ", out);
            cli_print_figure(p->peak, 6, out);
            fprintf(out, " (%.1f %%)", 100 * rate / p->peak);
        }
        putc('\n', out);
    }
}

static void print_bytes(uint64_t bytes, FILE *out)
{
    fputs("  ", out);
    if (bytes)
        cli_print_amount((double)bytes, out);
    else
        fprintf(out, "%13s", "");
}

static void print_rows(const char *title, const tv_trace_row *table, unsigned count, uint64_t all, unsigned rows,
                       FILE *out)
{
    if (!count)
        return;
    fprintf(out, "\n  %-24s    count        cycles   share        held       bytes            MACs\n", title);
    for (unsigned i = 0; i < count && i < rows; i++) {
        const tv_trace_row *r = &table[i];
        fputs("  ", out);
        print_name(r->name, 24, out);
        fprintf(out, " %8" PRIu64 " %13" PRIu64 " %5.1f %% %11" PRIu64, r->count, r->cycles,
                100 * share_of(r->cycles, all), r->stalled);
        if (r->bytes || r->macs)
            print_bytes(r->bytes, out);
        if (r->macs)
            fprintf(out, " %13" PRIu64, r->macs);
        putc('\n', out);
    }
    print_more(count, rows, out);
}

/* Prefill and decode each in a line, then the steps. */
static void print_steps(const tv_trace_summary *s, unsigned rows, FILE *out)
{
    static const char *const ops[] = {"prefill", "decode", "step"};
    bool heading = true;
    for (unsigned o = 0; o < CLI_COUNTOF(ops); o++) {
        uint64_t count = 0, tokens = 0, cycles = 0, least = UINT64_MAX, most = 0;
        for (unsigned i = 0; i < s->step_count; i++) {
            const tv_trace_step *t = &s->steps[i];
            if (strcmp(t->op, ops[o]) != 0)
                continue;
            uint64_t own = t->end - t->start;
            count++;
            tokens += t->tokens;
            cycles += own;
            least = own < least ? own : least;
            most = own > most ? own : most;
        }
        if (!count)
            continue;
        fprintf(out, "%s  %s: %" PRIu64 " token%s in %" PRIu64 " step%s, %" PRIu64 " cycles", heading ? "\n" : "",
                ops[o], tokens, tokens == 1 ? "" : "s", count, count == 1 ? "" : "s", cycles);
        heading = false;
        if (tokens && cycles) {
            fprintf(out, ", %.1f a token, ", (double)cycles / (double)tokens);
            cli_print_figure((double)tokens * s->clock_hz / (double)cycles, 0, out);
            fputs(" tokens/s", out);
        }
        if (count > 1)
            fprintf(out, "; a step takes %" PRIu64 " to %" PRIu64, least, most);
        putc('\n', out);
    }
    if (s->step_count)
        fprintf(out, "\n  step      position  tokens         start        cycles\n");
    for (unsigned i = 0; i < s->step_count && i < rows; i++) {
        const tv_trace_step *t = &s->steps[i];
        fprintf(out, "  %-8s %9" PRId64 " %7" PRIu64 " %13" PRIu64 " %13" PRIu64 "\n", t->op, t->position, t->tokens,
                t->start, t->end - t->start);
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
        fprintf(out, "  %9" PRIu64 " cycles from %-9" PRIu64 " ", t->end - t->start, t->start);
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

void trace_summary_print(const tv_trace_summary *s, unsigned rows, bool color, FILE *out)
{
    const char *bold = color ? "\033[1m" : "", *off = color ? "\033[0m" : "";
    uint64_t busy = 0;
    fputs(bold, out);
    print_name(s->target, 0, out);
    fprintf(out, "%s: %" PRIu64 " instruction%s, %s%" PRIu64 " cycle%s%s, ", off, s->instructions,
            s->instructions == 1 ? "" : "s", bold, s->cycles, s->cycles == 1 ? "" : "s", off);
    cli_print_time(s->seconds, out);
    fputs(" at ", out);
    cli_print_figure(s->clock_hz / 1e6, 0, out);
    fprintf(out, " MHz; %" PRIu64 " events\n", s->events);
    for (unsigned i = 0; i < s->setting_count; i++) {
        fputs(i ? "  " : "\n  ", out);
        print_name(s->settings[i].key, 0, out);
        fputs(" = ", out);
        print_name(s->settings[i].value, 0, out);
        if (s->settings[i].default_value)
            fprintf(out, " (default %s)", s->settings[i].default_value);
        putc('\n', out);
    }
    for (unsigned i = 0; i < s->op_count; i++)
        busy += s->ops[i].cycles;
    print_engines(s, color, out);
    print_paths(s, out);
    if (s->macs && s->peak_macs > 0) {
        fprintf(out, "\n  MACs %" PRIu64 ": %.2f / ", s->macs, share_of(s->macs, s->cycles));
        cli_print_figure(s->peak_macs, 0, out);
        fprintf(out, " a cycle (%.1f %%)\n", 100 * share_of(s->macs, s->cycles) / s->peak_macs);
    }
    print_rows("instruction", s->ops, s->op_count, busy, rows, out);
    print_rows("layer", s->layers, s->layer_count, busy, rows, out);
    print_steps(s, rows, out);
    print_stalls(s, out);
    if (s->bottleneck[0] || s->bound_by[0]) {
        fprintf(out, "\n  %s%s", bold, s->bottleneck[0] ? "" : "bound by ");
        print_name(s->bottleneck[0] ? s->bottleneck : s->bound_by, 0, out);
        fprintf(out, "%s\n", off);
    }
}

/* ---- What changed ---- */

static json_t *change_json(const char *name, uint64_t before, uint64_t after)
{
    json_t *object =
        json_pack("{s:I, s:I, s:I, s:o}", "before", (json_int_t)before, "after", (json_int_t)after, "change",
                  (json_int_t)(after - before), "percent",
                  before ? json_real(100 * ((double)after - (double)before) / (double)before) : json_null());
    if (name)
        json_object_set_new(object, "name", json_string(name));
    return object;
}

static json_t *changes_json(const tv_trace_changes *changes)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < changes->count; i++)
        json_array_append_new(list,
                              change_json(changes->rows[i].name, changes->rows[i].before, changes->rows[i].after));
    return list;
}

json_t *trace_diff_json(const tv_trace_diff *d)
{
    json_t *settings = json_object();
    for (unsigned i = 0; i < d->setting_count; i++)
        json_object_set_new(settings, d->settings[i].key,
                            json_pack("{s:o, s:o}", "before", cli_string(d->settings[i].before), "after",
                                      cli_string(d->settings[i].after)));
    return json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "equal", d->equal, "cycles",
                     change_json(NULL, d->before, d->after), "settings", settings, "engines", changes_json(&d->engines),
                     "causes", changes_json(&d->stall_reasons), "layers", changes_json(&d->layers), "ops",
                     changes_json(&d->ops));
}

static void print_change(const char *name, uint64_t before, uint64_t after, FILE *out)
{
    bool more = after >= before;
    fputs("  ", out);
    print_name(name, 24, out);
    fprintf(out, " %13" PRIu64 " %13" PRIu64 "  %c%-12" PRIu64, before, after, more ? '+' : '-',
            more ? after - before : before - after);
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
        fprintf(out, "no difference: both take %" PRIu64 " cycle%s\n", d->before, d->before == 1 ? "" : "s");
        return;
    }
    fprintf(out, "%scycles %" PRIu64 " -> %" PRIu64 "%s", color ? "\033[1m" : "", d->before, d->after,
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
    print_changes("held by cause", &d->stall_reasons, rows, out);
    print_changes("instruction", &d->ops, rows, out);
    print_changes("layer", &d->layers, rows, out);
}
