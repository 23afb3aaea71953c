/* SPDX-License-Identifier: Apache-2.0 */
/* A coverage as one HTML page: a bar for each group, and its bins, those that are open first. It has no script and
 * makes no requests; colors follow the browser's light or dark scheme. */
#include "cli/cover_page.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

static const char style[] =
    ":root{--page:#f4f5f7;--card:#fff;--ink:#1a1f27;--quiet:#5b6472;--line:#e2e5ea;--track:#eef0f4;--covered:#007a58;"
    "--open:#b3410e;--not:#9aa4b2;color-scheme:light dark}"
    "@media(prefers-color-scheme:dark){:root{--page:#12151a;--card:#1b1f26;--ink:#e8ebf0;--quiet:#9aa4b2;"
    "--line:#2c323c;--track:#262b34;--covered:#4fd3a8;--open:#ff9a66;--not:#5d6169}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:14px/1.45 system-ui,sans-serif}"
    "main{max-width:1100px;margin:0 auto;padding:20px;display:grid;gap:16px}"
    "section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 18px;min-width:0}"
    "h1{font-size:22px;margin:0}p{margin:4px 0}.quiet{color:var(--quiet)}"
    "summary{display:grid;grid-template-columns:minmax(0,200px) minmax(0,1fr) 240px;gap:4px 14px;align-items:center;"
    "padding:5px 0;cursor:pointer}summary b{font-weight:600}summary span{font-size:12.5px;color:var(--quiet);"
    "font-variant-numeric:tabular-nums}.bar{display:flex;height:14px;background:var(--track);border-radius:3px;"
    "overflow:hidden}.bar i{display:block}.covered{background:var(--covered)}.open{background:var(--open)}"
    ".not{background:var(--not)}.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 16px;margin:10px 0 0;"
    "padding:0;color:var(--quiet);font-size:12.5px}.legend i{display:inline-block;width:12px;height:12px;"
    "border-radius:3px;margin-right:6px;vertical-align:-1px}"
    "ul.bins{list-style:none;margin:4px 0 12px;padding:0;columns:300px;column-gap:24px;font-size:12.5px}"
    ".bins li{break-inside:avoid;padding:1px 0;display:flex;gap:8px;overflow-wrap:anywhere}"
    ".bins li i{flex:none;width:8px;height:8px;border-radius:4px;margin-top:6px}"
    ".bins li b{margin-left:auto;font-weight:400;color:var(--quiet);font-variant-numeric:tabular-nums}"
    "@media(max-width:640px){main{padding:12px}summary{grid-template-columns:minmax(0,1fr)}}";

static void print_escaped(const char *text, FILE *out)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '<')
            fputs("&lt;", out);
        else if (*p == '>')
            fputs("&gt;", out);
        else if (*p == '&')
            fputs("&amp;", out);
        else
            fputc(*p, out);
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

/* 0: open, 1: unreachable, 2: covered. */
static unsigned state_of(const tv_cover_bin *bin) { return bin->hits >= bin->goal ? 2 : bin->reason != NULL; }

static void print_bins(const tv_cover *cover, const char *group, FILE *out)
{
    static const char *const classes[] = {"open", "not", "covered"}, *const states[] = {"open", "unreachable",
                                                                                        "covered"};
    tv_cover_bin bin;
    fputs("<ul class=bins>", out);
    for (unsigned state = 0; state < 3; state++)
        for (unsigned i = 0; tv_cover_bin_at(cover, i, &bin); i++) {
            if (state_of(&bin) != state || strcmp(bin.group, group) != 0)
                continue;
            fprintf(out, "<li><i class=%s title=%s></i><span>", classes[state], states[state]);
            print_escaped(bin.name, out);
            if (state == 1) {
                fputs(": <span class=quiet>", out);
                print_escaped(bin.reason, out);
                fputs("</span>", out);
            }
            fputs("</span><b>", out);
            print_grouped(bin.hits, out);
            fputs("</b>", out);
        }
    fputs("</ul>", out);
}

static void print_bar(const tv_cover_counts *n, FILE *out)
{
    double all = n->bins ? (double)n->bins / 100 : 1;
    fprintf(out,
            "<div class=bar><i class=covered style=\"width:%.2f%%\"></i><i class=not style=\"width:%.2f%%\"></i>"
            "<i class=open style=\"width:%.2f%%\"></i></div>",
            (double)n->covered / all, (double)n->unreachable / all, (double)n->open / all);
}

static void print_group(const tv_cover *cover, const char *group, FILE *out)
{
    tv_cover_counts n = tv_cover_count(cover, group);
    fprintf(out, "<details%s><summary><b>", n.open ? " open" : "");
    print_escaped(group, out);
    fputs("</b>", out);
    print_bar(&n, out);
    fprintf(out, "<span>%" PRIu64 " of %" PRIu64 " covered", n.covered, n.bins);
    if (n.open)
        fprintf(out, ", %" PRIu64 " open", n.open);
    if (n.unreachable)
        fprintf(out, ", %" PRIu64 " unreachable", n.unreachable);
    fputs("</span></summary>", out);
    print_bins(cover, group, out);
    fputs("</details>", out);
}

static void print_groups(const tv_cover *cover, FILE *out)
{
    tv_cover_bin bin, earlier;
    for (unsigned i = 0; tv_cover_bin_at(cover, i, &bin); i++) {
        bool is_first = true;
        for (unsigned k = 0; k < i && is_first; k++) {
            tv_cover_bin_at(cover, k, &earlier);
            is_first = strcmp(earlier.group, bin.group) != 0;
        }
        if (is_first)
            print_group(cover, bin.group, out);
    }
}

void cover_write_page(const tv_cover *cover, FILE *out)
{
    tv_cover_counts n = tv_cover_count(cover, NULL);
    const char *target = tv_cover_target(cover);
    fprintf(out,
            "<!DOCTYPE html><html lang=en><meta charset=utf-8>"
            "<meta name=viewport content=\"width=device-width,initial-scale=1\"><title>Coverage of %s</title>"
            "<style>%s</style><main><section><h1>Coverage of %s</h1><p>",
            target, style, target);
    print_grouped(tv_cover_instructions(cover), out);
    fputs(" instructions cover ", out);
    print_grouped(n.covered, out);
    fputs(" of ", out);
    print_grouped(n.bins, out);
    fputs(" bins</p>", out);
    print_bar(&n, out);
    fprintf(out,
            "<ul class=legend><li><i class=covered></i>covered: %" PRIu64 "<li><i class=not></i>unreachable, with the "
            "reason: %" PRIu64 "<li><i class=open></i>open: %" PRIu64 "</ul></section><section>",
            n.covered, n.unreachable, n.open);
    print_groups(cover, out);
    fputs("</section></main></html>\n", out);
}
