/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of two runs as one HTML page: where the cycles went, engine by engine and layer by layer. It has no
 * script and makes no requests; colors follow the browser's light or dark scheme. Names come from trace files and are
 * escaped. */
#include <inttypes.h>

#include "cli/trace_report.h"

enum { COLORS = 8 };

/* The style of the report's page (src/report/web/style.css), as far as it is needed. Stalls are pale, work is not. */
static const char style[] =
    ":root{--page:#f4f5f7;--card:#fff;--ink:#1a1f27;--quiet:#5b6472;--line:#e2e5ea;--track:#eef0f4;--work:#0072b2;"
    "--more:#b3410e;--less:#007a58;--s0:#e3af8e;--s1:#ecd08c;--s2:#d4b2ca;--s3:#9dd0c1;--s4:#cbbce4;--s5:#c6c6c6;"
    "--s6:#d8d190;--s7:#c9b3a4;color-scheme:light dark}"
    "@media(prefers-color-scheme:dark){:root{--page:#12151a;--card:#1b1f26;--ink:#e8ebf0;--quiet:#9aa4b2;"
    "--line:#2c323c;--track:#262b34;--work:#56b4e9;--more:#ff9a66;--less:#4fd3a8;--s0:#80522f;--s1:#84692f;"
    "--s2:#795a76;--s3:#256c5a;--s4:#625681;--s5:#5d6169;--s6:#817c3a;--s7:#6d5a4c}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:14px/1.45 system-ui,sans-serif}"
    "main{max-width:1100px;margin:0 auto;padding:20px;display:grid;gap:16px}"
    "section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 18px;min-width:0}"
    "h1{font-size:22px;margin:0}h2{font-size:15px;margin:0 0 10px}p{margin:4px 0}.quiet{color:var(--quiet)}"
    ".engine{display:grid;grid-template-columns:72px 56px minmax(0,1fr) 190px;gap:2px 10px;align-items:center;"
    "padding:5px 0;font-size:12.5px}.engine b{font-size:14px;grid-row:span 2}"
    ".bar{display:flex;height:16px;background:var(--track);border-radius:3px;overflow:hidden}.bar i{display:block}"
    ".legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 16px;margin:10px 0 0;padding:0;color:var(--quiet);"
    "font-size:12.5px}.legend i{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px}"
    ".scroll{overflow-x:auto;background:linear-gradient(to right,var(--card) 40%,transparent) 0 0/36px 100% no-repeat "
    "local,linear-gradient(to left,var(--card) 40%,transparent) 100% 0/36px 100% no-repeat "
    "local,linear-gradient(to right,var(--quiet),transparent) 0 0/10px 100% no-repeat "
    "scroll,linear-gradient(to left,var(--quiet),transparent) 100% 0/10px 100% no-repeat scroll}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "th{text-align:left;font-size:12px;color:var(--quiet)}th,td{padding:4px 10px;border-bottom:1px solid var(--line);"
    "white-space:nowrap}.r{text-align:right}.more{color:var(--more)}.less{color:var(--less)}"
    ".delta{width:160px;min-width:90px}.delta div{position:relative;height:12px;background:var(--track)}"
    ".delta i{position:absolute;top:0;bottom:0}.delta .more{background:var(--more);left:50%}"
    ".delta .less{background:var(--less);right:50%}"
    "@media(max-width:640px){main{padding:12px}.engine{grid-template-columns:56px minmax(0,1fr)}"
    ".engine b{grid-column:1/-1;grid-row:auto}.engine .figures{grid-column:1/-1}}";

static void print_escaped(const char *text, FILE *out)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '<')
            fputs("&lt;", out);
        else if (*p == '>')
            fputs("&gt;", out);
        else if (*p == '&')
            fputs("&amp;", out);
        else if (*p == '"')
            fputs("&quot;", out);
        else
            fputc(*p < ' ' || *p == 0x7F ? '?' : *p, out);
    }
}

static void print_grouped(uint64_t n, FILE *out)
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%" PRIu64, n);
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0)
            fputc(',', out);
        fputc(digits[i], out);
    }
}

/* "+1,200 (+5.0 %)" in the color of more or less. */
static void print_delta(uint64_t before, uint64_t after, FILE *out)
{
    if (before == after) {
        fputs("<span class=quiet>equal</span>", out);
        return;
    }
    bool more = after > before;
    fprintf(out, "<span class=%s>%s", more ? "more" : "less", more ? "+" : "−");
    print_grouped(more ? after - before : before - after, out);
    if (before)
        fprintf(out, " (%+.1f %%)", ((double)after - (double)before) * 100 / (double)before);
    fputs("</span>", out);
}

/* ---- Engines ---- */

/* Index of a stall reason among those of both runs, which are listed in the order of the first one's engines. */
typedef struct reason_list {
    const char *names[32];
    unsigned count;
} reason_list;

static unsigned add_reason(reason_list *list, const char *name)
{
    unsigned i = 0;
    while (i < list->count && strcmp(list->names[i], name) != 0)
        i++;
    if (i == list->count && i < CLI_COUNTOF(list->names))
        list->names[list->count++] = name;
    return i;
}

static void print_segment(const char *name, const char *color, unsigned index, uint64_t cycles, uint64_t scale,
                          FILE *out)
{
    if (!cycles)
        return;
    fprintf(out, "<i style=\"width:%.4f%%;background:var(--%s", (double)cycles * 100 / (double)scale, color);
    if (*color == 's')
        fprintf(out, "%u", index % COLORS);
    fputs(")\" title=\"", out);
    print_escaped(name, out);
    fputs(": ", out);
    print_grouped(cycles, out);
    fputs(" cycles\"></i>", out);
}

static const tv_trace_engine *find_engine(const tv_trace_summary *s, const char *name)
{
    for (unsigned i = 0; i < s->engine_count; i++)
        if (strcmp(s->engines[i].name, name) == 0)
            return &s->engines[i];
    return NULL;
}

static uint64_t sum_stalls(const tv_trace_engine *e)
{
    uint64_t sum = 0;
    for (unsigned i = 0; e && i < e->stalled_count; i++)
        sum += e->stalled[i].cycles;
    return sum;
}

static void print_engine_run(const char *run, const tv_trace_engine *e, uint64_t scale, reason_list *reasons, FILE *out)
{
    fprintf(out, "<span class=quiet>%s</span><div class=bar>", run);
    if (e)
        print_segment("work", "work", 0, e->busy, scale, out);
    for (unsigned i = 0; e && i < e->stalled_count; i++)
        print_segment(e->stalled[i].name, "s", add_reason(reasons, e->stalled[i].name), e->stalled[i].cycles, scale,
                      out);
    fputs("</div>", out);
}

static void print_engine(const tv_trace_engine *a, const tv_trace_engine *b, uint64_t scale, reason_list *reasons,
                         FILE *out)
{
    fputs("<div class=engine><b>", out);
    print_escaped(a ? a->name : b->name, out);
    fputs("</b>", out);
    print_engine_run("before", a, scale, reasons, out);
    fputs("<span class=figures>busy ", out);
    print_delta(a ? a->busy : 0, b ? b->busy : 0, out);
    fputs("</span>", out);
    print_engine_run("after", b, scale, reasons, out);
    fputs("<span class=figures>stalled ", out);
    print_delta(sum_stalls(a), sum_stalls(b), out);
    fputs("</span></div>", out);
}

static void print_engines(const tv_trace_summary *a, const tv_trace_summary *b, const tv_trace_diff *d, FILE *out)
{
    reason_list reasons = {.count = 0};
    uint64_t scale = d->before > d->after ? d->before : d->after;
    fputs("<section id=engines><h2>By engine</h2>", out);
    scale = scale ? scale : 1;
    for (unsigned i = 0; i < a->engine_count; i++)
        print_engine(&a->engines[i], find_engine(b, a->engines[i].name), scale, &reasons, out);
    for (unsigned i = 0; i < b->engine_count; i++)
        if (!find_engine(a, b->engines[i].name))
            print_engine(NULL, &b->engines[i], scale, &reasons, out);
    fputs("<ul class=legend><li><i style=\"background:var(--work)\"></i>work</li>", out);
    for (unsigned i = 0; i < reasons.count; i++) {
        fprintf(out, "<li><i style=\"background:var(--s%u)\"></i>stalled: ", i % COLORS);
        print_escaped(reasons.names[i], out);
        fputs("</li>", out);
    }
    fputs("</ul></section>", out);
}

/* ---- Tables ---- */

static uint64_t change_size(const tv_trace_change *c)
{
    return c->after > c->before ? c->after - c->before : c->before - c->after;
}

static void print_changes(const char *id, const char *title, const char *heading, const tv_trace_changes *changes,
                          FILE *out)
{
    uint64_t max = 1;
    for (unsigned i = 0; i < changes->count; i++)
        max = change_size(&changes->rows[i]) > max ? change_size(&changes->rows[i]) : max;
    fprintf(out, "<section id=%s><h2>%s</h2>", id, title);
    if (!changes->count) {
        fputs("<p class=quiet>No difference.</p></section>", out);
        return;
    }
    fprintf(out,
            "<div class=scroll tabindex=0><table><thead><tr><th scope=col>%s<th scope=col class=r>Before<th scope=col "
            "class=r>After<th scope=col class=r>Change<th scope=col></tr></thead><tbody>",
            heading);
    for (unsigned i = 0; i < changes->count; i++) {
        const tv_trace_change *c = &changes->rows[i];
        fputs("<tr><td>", out);
        print_escaped(c->name && *c->name ? c->name : "(none)", out);
        fputs("<td class=r>", out);
        print_grouped(c->before, out);
        fputs("<td class=r>", out);
        print_grouped(c->after, out);
        fputs("<td class=r>", out);
        print_delta(c->before, c->after, out);
        fprintf(out, "<td class=delta><div><i class=%s style=\"width:%.2f%%\"></i></div></tr>",
                c->after > c->before ? "more" : "less", (double)change_size(c) * 50 / (double)max);
    }
    fputs("</tbody></table></div></section>", out);
}

static void print_settings(const tv_trace_diff *d, FILE *out)
{
    if (!d->setting_count)
        return;
    fputs("<section id=settings><h2>Parameters that differ</h2><div class=scroll tabindex=0><table><thead><tr><th "
          "scope=col>Parameter<th scope=col>Before<th scope=col>After</tr></thead><tbody>",
          out);
    for (unsigned i = 0; i < d->setting_count; i++) {
        const tv_trace_setting_change *s = &d->settings[i];
        const char *const cells[] = {s->key, s->before ? s->before : "–", s->after ? s->after : "–"};
        fputs("<tr>", out);
        for (unsigned c = 0; c < CLI_COUNTOF(cells); c++) {
            fputs("<td>", out);
            print_escaped(cells[c], out);
        }
        fputs("</tr>", out);
    }
    fputs("</tbody></table></div></section>", out);
}

void trace_diff_print_page(const tv_trace_summary *const runs[2], const char *const names[2], const tv_trace_diff *d,
                           FILE *out)
{
    fputs("<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
          "content=\"width=device-width,initial-scale=1\"><meta http-equiv=Content-Security-Policy "
          "content=\"default-src 'none'; style-src 'unsafe-inline'\"><meta name=color-scheme content=\"light dark\">"
          "<title>Two runs – Trivet report</title><style>",
          out);
    fputs(style, out);
    fputs("</style></head><body><main><div><p class=quiet>Trivet report: two runs side by side</p><h1 id=total>", out);
    print_grouped(d->before, out);
    fputs(" → ", out);
    print_grouped(d->after, out);
    fputs(" cycles: ", out);
    print_delta(d->before, d->after, out);
    fputs("</h1><p>before: ", out);
    print_escaped(names[0], out);
    fputs("<br>after: ", out);
    print_escaped(names[1], out);
    fputs("</p></div>", out);
    print_engines(runs[0], runs[1], d, out);
    print_changes("reasons", "By stall reason", "Reason", &d->stall_reasons, out);
    print_changes("layers", "By layer or label", "Layer", &d->layers, out);
    print_changes("classes", "By instruction class", "Class", &d->ops, out);
    print_settings(d, out);
    fputs("</main></body></html>\n", out);
}
