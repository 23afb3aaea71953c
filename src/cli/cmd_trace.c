/* SPDX-License-Identifier: Apache-2.0 */
/* trivet trace: look at trace files, compare two, turn one into another form. */
#include "cli/cli.h"
#include "cli/trace_report.h"

static const cli_option options[] = {
    {"rows", 'n', "N", "print at most N rows of each table (default 12)", NULL},
    {"fail-above", 0, "PERCENT", "diff: exit with 1 when the cycles grew by more than PERCENT", NULL},
    {"output", 'o', "OUT", "convert: the file to write, - for standard output; .zst at its end compresses", "FILE"},
    {"to", 0, "FORMAT", "convert: json, perfetto or csv, where OUT's name does not say it", "json perfetto csv"},
};

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    if (total)
        cli_progress_show(user, "reading", done < total ? done : total, total);
}

static tv_status summarise(cli *c, const char *path, tv_trace_summary **out)
{
    cli_progress progress;
    cli_progress_begin(c, &progress);
    tv_status status = tv_trace_summarize(path, &(tv_trace_progress){show_progress, &progress}, &c->sink, out);
    cli_progress_end(&progress);
    return status;
}

static tv_status convert(cli *c, const char *out, tv_trace_format format)
{
    cli_progress progress;
    cli_progress_begin(c, &progress);
    tv_status status =
        tv_trace_convert(c->files[1], out, format, &(tv_trace_progress){show_progress, &progress}, &c->sink);
    cli_progress_end(&progress);
    return status;
}

static int wrong_rows(cli *c, unsigned *rows)
{
    const char *text = cli_value(c, "rows");
    uint64_t n = 12;
    if (text && (!cli_parse_number(text, &n) || n > 1000000))
        return cli_wrong(c, "a number up to 1000000", "--rows cannot be '%s'", text);
    *rows = (unsigned)n;
    return CLI_DONE;
}

/* ---- trivet trace FILE ---- */

static int run_summary(cli *c, unsigned rows)
{
    tv_trace_summary *s;
    tv_status status = summarise(c, c->files[0], &s);
    if (status != TV_OK)
        return cli_exit_status(status);
    if (c->json)
        cli_print_json(c, trace_summary_json(s));
    else
        trace_summary_print(s, rows, c->out_color, stdout);
    tv_trace_summary_free(s);
    return CLI_DONE;
}

/* ---- trivet trace diff A B ---- */

/* "2%", "0.5" */
static bool parse_percent(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (*end == ' ')
        end++;
    if (*end == '%')
        end++;
    return end != text && *end == '\0' && *text >= '0' && *text <= '9' && *out <= 1e6;
}

static bool grew_too_much(const tv_trace_diff *d, double percent)
{
    return d->after > d->before && (double)(d->after - d->before) * 100 > percent * (double)d->before;
}

static int show_diff(cli *c, const tv_trace_diff *d, unsigned rows)
{
    const char *limit = cli_value(c, "fail-above");
    double percent = 0;
    bool failed = limit && parse_percent(limit, &percent) && grew_too_much(d, percent);
    if (c->json) {
        json_t *object = trace_diff_json(d);
        if (limit)
            json_object_set_new(object, "failed", json_boolean(failed));
        cli_print_json(c, object);
    } else {
        trace_diff_print(d, rows, c->out_color, stdout);
    }
    if (failed) {
        fflush(stdout);
        fprintf(stderr, "trivet: the cycles grew by more than %g %%\n", percent);
    }
    return failed ? CLI_FAULT : CLI_DONE;
}

static int run_diff(cli *c, unsigned rows)
{
    tv_trace_summary *runs[2] = {NULL, NULL};
    tv_trace_diff *d = NULL;
    double percent;
    const char *limit = cli_value(c, "fail-above");
    if (c->file_count != 3)
        return cli_wrong(c, "usage: trivet trace diff A B", "diff takes two traces");
    if (limit && !parse_percent(limit, &percent))
        return cli_wrong(c, "for example --fail-above 2%", "--fail-above cannot be '%s'", limit);
    if (strcmp(c->files[1], "-") == 0 && strcmp(c->files[2], "-") == 0)
        return cli_wrong(c, "give a file for one of them", "two traces cannot both come from standard input");
    tv_status status = summarise(c, c->files[1], &runs[0]);
    if (status == TV_OK)
        status = summarise(c, c->files[2], &runs[1]);
    if (status == TV_OK)
        status = tv_trace_compare(runs[0], runs[1], &c->sink, &d);
    int result = status == TV_OK ? show_diff(c, d, rows) : cli_exit_status(status);
    tv_trace_diff_free(d);
    tv_trace_summary_free(runs[0]);
    tv_trace_summary_free(runs[1]);
    return result;
}

/* ---- trivet trace convert IN -o OUT ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool format_of(const char *to, const char *out, tv_trace_format *format)
{
    static const struct {
        const char *name, *ending;
        tv_trace_format format;
    } formats[] = {{"perfetto", ".perfetto.json", TV_TRACE_PERFETTO},
                   {"csv", ".csv", TV_TRACE_CSV},
                   {"json", ".json", TV_TRACE_JSON}};
    char name[4096];
    snprintf(name, sizeof name, "%s", out);
    if (ends_with(name, ".zst"))
        name[strlen(name) - 4] = '\0';
    for (unsigned i = 0; i < CLI_COUNTOF(formats); i++)
        if (to ? strcmp(to, formats[i].name) == 0 : ends_with(name, formats[i].ending)) {
            *format = formats[i].format;
            return true;
        }
    return false;
}

static int run_convert(cli *c)
{
    const char *out = cli_value(c, "output"), *to = cli_value(c, "to");
    tv_trace_format format;
    if (c->file_count != 2 || !out)
        return cli_wrong(c, "usage: trivet trace convert IN -o OUT",
                         c->file_count != 2 ? "convert takes one trace" : "convert needs -o OUT");
    if (!format_of(to, out, &format))
        return to ? cli_wrong(c, "json, perfetto or csv", "--to cannot be '%s'", to)
                  : cli_wrong(c, "say --to json, perfetto or csv",
                              "the name '%s' does not end in .json, .perfetto.json or .csv", out);
    if (cli_same_file(c->files[1], out))
        return cli_wrong(c, "choose another name", "the result would overwrite the trace '%s'", c->files[1]);
    if (c->json)
        return cli_wrong(c, "leave --json away; --to json names the format", "convert has no result to print as JSON");
    return cli_exit_status(convert(c, out, format));
}

static int run(cli *c)
{
    unsigned rows = 0;
    const char *word = c->files[0];
    bool is_diff = strcmp(word, "diff") == 0, is_convert = strcmp(word, "convert") == 0;
    int wrong = wrong_rows(c, &rows);
    if (wrong != CLI_DONE)
        return wrong;
    if (cli_has(c, "fail-above") && !is_diff)
        return cli_wrong(c, "usage: trivet trace diff A B --fail-above PERCENT", "--fail-above belongs to diff");
    if ((cli_has(c, "output") || cli_has(c, "to")) && !is_convert)
        return cli_wrong(c, "usage: trivet trace convert IN -o OUT", "-o and --to belong to convert");
    if (is_diff)
        return run_diff(c, rows);
    if (is_convert)
        return run_convert(c);
    if (c->file_count != 1)
        return cli_wrong(c, "usage: trivet trace FILE, trivet trace diff A B, or trivet trace convert IN -o OUT",
                         "too many arguments for 'trace'");
    return run_summary(c, rows);
}

const cli_command cli_trace = {
    .name = "trace",
    .usage = "trace FILE, trace diff A B, trace convert IN -o OUT",
    .summary = "look at trace files, compare two, convert one",
    .about = "FILE is what `trivet run` writes with --trace or --perfetto, compressed with zstd or not, of any size; - "
             "is standard input.\n"
             "A file called diff or convert is given as ./diff.",
    .example = "  trivet trace run.json                                  # where the time went\n"
               "  trivet trace diff before.json after.json --fail-above 2%  # exit status 1: slower by more\n"
               "  trivet trace convert run.json.zst -o run.perfetto.json\n"
               "  trivet run ffn.json --trace - | trivet trace -",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "j",
    .least = 1,
    .most = 3,
    .values = "FILE",
    .run = run,
};
