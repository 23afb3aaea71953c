/* SPDX-License-Identifier: Apache-2.0 */
/* trivet explain: what a diagnostic code means, its usual cause, an example, and what to do. */
#include "cli/cli.h"

static const char *code_at(unsigned i, const void *user)
{
    tv_code_info info; /* its strings are static */
    (void)user;
    return tv_code_at(i, &info) ? info.code : NULL;
}

static void write_json(const tv_code_explanation *e, tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "code", e->info.code);
    tv_json_string_member(w, "name", e->info.name);
    tv_json_string_member(w, "meaning", e->info.text);
    tv_json_string_member(w, "cause", e->cause);
    tv_json_string_member(w, "fix", e->fix);
    tv_json_string_member(w, "example", e->example);
    tv_json_end_object(w);
}

static void print_indented(const char *text)
{
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        printf("  %.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static void print_text(const tv_code_explanation *e)
{
    printf("%s %s: %s\n", e->info.code, e->info.name, e->info.text);
    printf("\nusual cause:\n");
    print_indented(e->cause);
    printf("\nexample:\n");
    print_indented(e->example);
    printf("\nwhat to do:\n");
    print_indented(e->fix);
}

static int list_codes(cli *c)
{
    tv_code_info info;
    tv_code_explanation e;
    tv_json_writer *w = c->json ? cli_begin_result(c) : NULL;
    if (w)
        tv_json_begin_array(w);
    for (unsigned i = 0; tv_code_at(i, &info); i++)
        if (!w)
            printf("%s  %-22s %s\n", info.code, info.name, info.text);
        else if (tv_code_explain(info.code, &e))
            write_json(&e, w);
    if (w)
        tv_json_end_array(w);
    return CLI_OK;
}

static int run_explain(cli *c)
{
    tv_code_explanation e;
    if (c->file_count == 0)
        return list_codes(c);
    if (!tv_code_explain(c->files[0], &e)) {
        char hint[96] = "`trivet explain` lists the codes";
        const char *best = cli_nearest(c->files[0], code_at, NULL);
        if (best)
            snprintf(hint, sizeof hint, "did you mean '%s'? `trivet explain` lists the codes", best);
        return cli_error(c, CLI_E_VALUE, hint, "there is no diagnostic code '%s'", c->files[0]);
    }
    if (c->json)
        write_json(&e, cli_begin_result(c));
    else
        print_text(&e);
    return CLI_OK;
}

const cli_command cli_explain = {
    .name = "explain",
    .usage = "explain [CODE]",
    .summary = "explain a diagnostic code, or list all",
    .about = "CODE is the code in the brackets of a message, or its name.",
    .example = "  trivet explain TV-P010\n  trivet explain l2-range   # by name",
    .common = "j",
    .files_max = 1,
    .values = "CODE",
    .run = run_explain,
};
