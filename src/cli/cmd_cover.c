/* SPDX-License-Identifier: Apache-2.0 */
/* trivet cover: what programs have exercised. */
#include <inttypes.h>

#include "cli/cli.h"
#include "cli/cover_page.h"
#include "trivet/cover.h"

static const cli_option options[] = {
    {"output", 'o', "OUT.jsonl", "write the hits of all bins here, one object a line", "FILE"},
    {"merge", 'm', "FILE.jsonl", "add the hits of a file of -o; may be repeated", "FILE"},
    {"html", 0, "OUT.html", "write a page with all bins", "FILE"},
    {"list", 0, "WHICH", "list bins: open, unreachable, covered or all", "open unreachable covered all"},
    {"close", 0, "DIR", "make programs for open bins, and write them to this folder", "DIR"},
    {"instructions", 'n', "N", "with --close: instructions of the main program, at most (default: 50000)", NULL},
    {"seed", 0, "N", "with --close: seed of the random numbers (default: 1)", NULL},
    {"fail-below", 0, "PERCENT", "exit with 1 if fewer of the bins that can be covered are", NULL},
};

static tv_status open_coverage(cli *c, const char *target, tv_cover **cover)
{
    tv_status status = *cover ? TV_OK : tv_cover_new(target, &c->sink, cover);
    return status;
}

/* ---- Collecting ---- */

/* A fault of the program is a result, which is counted. */
static tv_status run_program(cli *c, const char *path, tv_cover **cover)
{
    tv_program *program = NULL;
    tv_config *config = NULL;
    tv_machine *machine = NULL;
    tv_status status = cli_open_program(c, path, &program);
    if (status == TV_OK)
        status = open_coverage(c, tv_program_target(program), cover);
    if (status == TV_OK)
        status = cli_make_program_config(c, program, &config);
    if (status == TV_OK)
        status = tv_machine_new(config, TV_MODE_FULL, &c->sink, &machine);
    if (status == TV_OK)
        status = tv_cover_attach(*cover, machine, &c->sink);
    if (status == TV_OK) {
        status = tv_machine_load(machine, program, &c->sink);
        if (status == TV_OK)
            status = tv_machine_run(machine, NULL, NULL);
        tv_cover_detach(*cover);
    }
    tv_machine_free(machine);
    tv_config_free(config);
    tv_program_free(program);
    return status == TV_FAULT ? TV_OK : status;
}

static tv_status merge_file(cli *c, const char *path, tv_cover **cover)
{
    char target[16];
    tv_status status = *cover ? TV_OK : tv_cover_target_of(path, &c->sink, target);
    if (status == TV_OK)
        status = open_coverage(c, target, cover);
    return status == TV_OK ? tv_cover_merge(*cover, path, &c->sink) : status;
}

static tv_status collect(cli *c, tv_cover **cover)
{
    const char *path;
    tv_status status = TV_OK;
    for (unsigned i = 0; i < c->file_count && status == TV_OK; i++)
        status = run_program(c, c->files[i], cover);
    for (unsigned i = 0; status == TV_OK && (path = cli_value_at(c, "merge", i)); i++)
        status = merge_file(c, path, cover);
    if (status == TV_OK && !*cover && cli_value(c, "target"))
        return open_coverage(c, cli_value(c, "target"), cover);
    if (status == TV_OK && !*cover) {
        cli_error(c, CLI_E_COUNT, "name programs, --merge files, or -t for an empty model", "nothing is covered");
        return TV_ERR_INPUT;
    }
    return status;
}

/* ---- Closure ---- */

typedef struct closure {
    cli *c;
    const char *folder;
    tv_output_group *group;
} closure;

static tv_status write_program(void *user, const char *name, const char *source)
{
    const closure *k = user;
    char path[4200];
    tv_output *out;
    const char *ending = *source == '{' ? "json" : "s"; /* a queue */
    if (snprintf(path, sizeof path, "%s/%s.%s", k->folder, name, ending) >= (int)sizeof path) {
        cli_error(k->c, CLI_E_DIRECTORY, NULL, "the path of the folder is too long");
        return TV_ERR_INPUT;
    }
    tv_status status = tv_output_open(path, &k->c->sink, &out);
    if (status != TV_OK)
        return status;
    fputs(source, tv_output_stream(out));
    return tv_output_commit_to(out, k->group, &k->c->sink);
}

static tv_status parse_count(cli *c, const char *name, uint64_t min, uint64_t *value)
{
    const char *text = cli_value(c, name);
    if (!text || (cli_parse_number(text, value) && *value >= min))
        return TV_OK;
    cli_error(c, CLI_E_VALUE, min ? "a number from 1 on" : "a number from 0 on", "--%s cannot be '%s'", name, text);
    return TV_ERR_INPUT;
}

static tv_status close_bins(cli *c, tv_cover *cover, const char *folder)
{
    closure k = {c, folder, NULL};
    tv_cover_close_options close = {
        .size = sizeof close, .seed = 1, .instructions = 50000, .program = write_program, .user = &k};
    tv_config *config = NULL;
    tv_status status = parse_count(c, "instructions", 1, &close.instructions);
    if (status == TV_OK)
        status = parse_count(c, "seed", 0, &close.seed);
    if (status == TV_OK)
        status = cli_outputs(c, &k.group);
    if (status == TV_OK)
        status = tv_output_group_folder(k.group, folder, &c->sink);
    if (status == TV_OK)
        status = cli_make_config(c, tv_cover_target(cover), false, &config);
    if (status == TV_OK)
        status = tv_cover_close(cover, config, &close, &c->sink);
    tv_config_free(config);
    return status;
}

/* ---- Printing ---- */

static const char *state_of(const tv_cover_bin *bin)
{
    return bin->hits >= bin->goal ? "covered" : bin->reason ? "unreachable" : "open";
}

static bool is_listed(const cli *c, const tv_cover_bin *bin)
{
    const char *which = cli_value(c, "list");
    return which && (strcmp(which, "all") == 0 || strcmp(which, state_of(bin)) == 0);
}

/* Calls `show` for each group, in their order. */
static void for_each_group(const tv_cover *cover, void (*show)(const tv_cover *cover, const char *group, void *user),
                           void *user)
{
    tv_cover_bin bin, earlier;
    for (unsigned i = 0; tv_cover_bin_at(cover, i, &bin); i++) {
        bool is_first = true;
        for (unsigned k = 0; k < i && is_first; k++) {
            tv_cover_bin_at(cover, k, &earlier);
            is_first = strcmp(earlier.group, bin.group) != 0;
        }
        if (is_first)
            show(cover, bin.group, user);
    }
}

static double share(const tv_cover_counts *n)
{
    uint64_t reachable = n->bins - n->unreachable;
    return reachable ? 100 * (double)n->covered / (double)reachable : 100;
}

static void print_group(const tv_cover *cover, const char *group, void *user)
{
    tv_cover_counts n = tv_cover_count(cover, group);
    (void)user;
    printf("  %-24s %7" PRIu64 " %9" PRIu64 " %7" PRIu64 " %12" PRIu64 " %8.1f %%\n", group, n.bins, n.covered, n.open,
           n.unreachable, share(&n));
}

static void print_table(const cli *c, const tv_cover *cover)
{
    tv_cover_bin bin;
    tv_cover_counts n = tv_cover_count(cover, NULL);
    for (unsigned i = 0; tv_cover_bin_at(cover, i, &bin); i++)
        if (is_listed(c, &bin))
            printf("%s: %s: %s%s%s\n", state_of(&bin), bin.group, bin.name, bin.reason ? ": " : "",
                   bin.reason ? bin.reason : "");
    if (c->quiet)
        return;
    printf("  %-24s %7s %9s %7s %12s %10s\n", "group", "bins", "covered", "open", "unreachable", "of reachable");
    for_each_group(cover, print_group, NULL);
    printf("%s instructions cover %s of %s bins, %.1f %% of those that can be covered; %s are open\n",
           CLI_COUNT(tv_cover_instructions(cover)), CLI_COUNT(n.covered), CLI_COUNT(n.bins), share(&n),
           CLI_COUNT(n.open));
}

static void write_counts(tv_json_writer *w, const tv_cover_counts *n)
{
    tv_json_unsigned_member(w, "bins", n->bins);
    tv_json_unsigned_member(w, "covered", n->covered);
    tv_json_unsigned_member(w, "open", n->open);
    tv_json_unsigned_member(w, "unreachable", n->unreachable);
}

static void write_group(const tv_cover *cover, const char *group, void *user)
{
    tv_cover_counts n = tv_cover_count(cover, group);
    tv_json_writer *w = user;
    tv_json_begin_object(w);
    tv_json_string_member(w, "group", group);
    write_counts(w, &n);
    tv_json_end_object(w);
}

static void write_result(cli *c, const tv_cover *cover)
{
    tv_cover_bin bin;
    tv_cover_counts n = tv_cover_count(cover, NULL);
    tv_json_writer *w = cli_begin_result(c);
    if (!w)
        return;
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "instructions", tv_cover_instructions(cover));
    write_counts(w, &n);
    tv_json_key(w, "groups");
    tv_json_begin_array(w);
    for_each_group(cover, write_group, w);
    tv_json_end_array(w);
    tv_json_key(w, "list");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_cover_bin_at(cover, i, &bin); i++) {
        if (!is_listed(c, &bin))
            continue;
        tv_json_begin_object(w);
        tv_json_string_member(w, "group", bin.group);
        tv_json_string_member(w, "bin", bin.name);
        tv_json_unsigned_member(w, "hits", bin.hits);
        tv_json_unsigned_member(w, "goal", bin.goal);
        tv_json_string_member(w, "reason", bin.reason);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
    tv_json_end_object(w);
}

/* ---- The job ---- */

static tv_status write_file(cli *c, const tv_cover *cover, const char *path,
                            void (*write)(const tv_cover *cover, FILE *out))
{
    tv_output *out;
    tv_output_group *group;
    tv_status status = tv_output_open(path, &c->sink, &out);
    if (status != TV_OK)
        return status;
    write(cover, tv_output_stream(out));
    status = cli_outputs(c, &group);
    if (status == TV_OK)
        return tv_output_commit_to(out, group, &c->sink);
    tv_output_abandon(out);
    return status;
}

static tv_status parse_limit(cli *c, double *limit)
{
    const char *text = cli_value(c, "fail-below");
    char *end = NULL;
    *limit = text ? strtod(text, &end) : 0;
    if (!text || (end != text && !*end && *limit >= 0 && *limit <= 100))
        return TV_OK;
    cli_error(c, CLI_E_VALUE, "a number from 0 to 100", "--fail-below cannot be '%s'", text);
    return TV_ERR_INPUT;
}

static tv_status check_options(cli *c)
{
    static const char *const names[] = {"output", "html"}, *const lists[] = {"open", "unreachable", "covered", "all"};
    const char *which = cli_value(c, "list");
    bool known = !which;
    for (unsigned i = 0; i < CLI_COUNTOF(lists) && which; i++)
        known = known || strcmp(which, lists[i]) == 0;
    if (!known) {
        cli_error(c, CLI_E_VALUE, "open, unreachable, covered or all", "--list cannot be '%s'", which);
        return TV_ERR_INPUT;
    }
    if (!cli_has(c, "close") && (cli_has(c, "instructions") || cli_has(c, "seed"))) {
        cli_error(c, CLI_E_CONFLICT, "add --close DIR", "--instructions and --seed are about programs that are made");
        return TV_ERR_INPUT;
    }
    for (unsigned i = 0; i < CLI_COUNTOF(names); i++)
        if (cli_value(c, names[i]) && cli_overwrites_input(c, "coverage", cli_value(c, names[i])))
            return TV_ERR_INPUT;
    const char *output = cli_value(c, "output"), *page = cli_value(c, "html");
    if (output && page && (strcmp(output, page) == 0 || cli_same_file(output, page))) {
        cli_error(c, CLI_E_SAME_FILE, "choose another name for one of them",
                  "--output and --html cannot both go to '%s'", page);
        return TV_ERR_INPUT;
    }
    return TV_OK;
}

static int run_cover(cli *c)
{
    tv_cover *cover = NULL;
    const char *output = cli_value(c, "output"), *page = cli_value(c, "html");
    double limit;
    bool low = false;
    tv_status status = parse_limit(c, &limit);
    if (status == TV_OK)
        status = check_options(c);
    if (status == TV_OK)
        status = collect(c, &cover);
    if (status == TV_OK && cli_value(c, "close"))
        status = close_bins(c, cover, cli_value(c, "close"));
    if (status == TV_OK && output)
        status = write_file(c, cover, output, tv_cover_write);
    if (status == TV_OK && page)
        status = write_file(c, cover, page, cover_write_page);
    if (status == TV_OK) {
        tv_cover_counts n = tv_cover_count(cover, NULL);
        low = share(&n) < limit;
        if (c->json)
            write_result(c, cover);
        else
            print_table(c, cover);
        if (low)
            cli_error(c, CLI_E_COVERAGE, "list them with --list open",
                      "%.1f %% of the bins are covered, fewer than %g %%", share(&n), limit);
    }
    tv_cover_free(cover);
    return status != TV_OK ? cli_exit_status(status) : low ? CLI_FAULT : CLI_OK;
}

const cli_command cli_cover = {
    .name = "cover",
    .usage = "cover [PROGRAM …] [-m FILE.jsonl …] [-o OUT.jsonl] [--html OUT.html]",
    .summary = "what programs exercise of a machine",
    .about =
        "Runs programs and counts which bins of the machine's coverage model they hit: instructions, corners of their "
        "fields,\n"
        "combinations of flags, numbers of elements, dependences between engines, stalls, faults, classes of values. "
        "A fault\n"
        "ends its program and is counted. A bin that nothing can hit has a reason (docs/coverage.md).",
    .example = "  trivet cover generated.s --list open                     # bins that it does not hit\n"
               "  trivet cover generated.s -o one.jsonl --html one.html    # the hits as a file and as a page",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tcDIdjq",
    .files_min = 0,
    .files_max = 1000,
    .values = "FILE",
    .run = run_cover,
};
