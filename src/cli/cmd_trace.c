/* SPDX-License-Identifier: Apache-2.0 */
/* trivet trace: summarize trace files, compare two, convert one. */
#include "cli/cli.h"
#include "cli/trace_report.h"

static const cli_option options[] = {
    {"rows", 'n', "N", "print at most N rows of each table (default 12)", NULL},
    {"fail-above", 0, "PERCENT", "diff: exit with status 1 if the cycles grew by more than PERCENT", NULL},
    {"report", 0, "OUT.html", "diff: write the comparison as an HTML page, engine by engine and layer by layer",
     "FILE"},
    {"output", 'o', "OUT", "convert: the file to write, - for standard output; a name ending in .zst is compressed",
     "FILE"},
    {"to", 0, "FORMAT", "convert: json, perfetto, pftrace, csv or vcd (default: the extension of OUT)",
     "json perfetto pftrace csv vcd"},
};

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    if (total)
        cli_progress_show(user, "reading", done < total ? done : total, total);
}

static tv_status summarize_trace(cli *c, const char *path, tv_trace_summary **out)
{
    cli_progress progress;
    cli_progress_begin(c, &progress);
    tv_status status = tv_trace_summarize(path, &(tv_trace_progress){show_progress, &progress}, &c->sink, out);
    cli_progress_end(&progress);
    return status;
}

static tv_status convert_trace(cli *c, const char *out, tv_trace_format format)
{
    cli_progress progress;
    cli_progress_begin(c, &progress);
    tv_status status =
        tv_trace_convert(c->files[1], out, format, &(tv_trace_progress){show_progress, &progress}, &c->sink);
    cli_progress_end(&progress);
    return status;
}

static int parse_rows(cli *c, unsigned *rows)
{
    const char *text = cli_value(c, "rows");
    uint64_t n = 12;
    if (text && (!cli_parse_number(text, &n) || n > 1000000))
        return cli_error(c, CLI_E_VALUE, "a number up to 1000000", "--rows cannot be '%s'", text);
    *rows = (unsigned)n;
    return CLI_OK;
}

/* ---- trivet trace FILE ---- */

static void write_summary_json(cli *c, const tv_trace_summary *s)
{
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_object(w);
    trace_summary_write_json(s, w);
    tv_json_end_object(w);
}

static int run_summary(cli *c, unsigned rows)
{
    tv_trace_summary *s;
    tv_status status = summarize_trace(c, c->files[0], &s);
    if (status != TV_OK)
        return cli_exit_status(status);
    if (c->json)
        write_summary_json(c, s);
    else
        trace_summary_print(s, rows, c->out_color, stdout);
    tv_trace_summary_free(s);
    return CLI_OK;
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

static bool exceeds_limit(const tv_trace_diff *d, double percent)
{
    return d->after > d->before && (double)(d->after - d->before) * 100 > percent * (double)d->before;
}

static int show_diff(cli *c, const tv_trace_diff *d, unsigned rows)
{
    const char *limit = cli_value(c, "fail-above");
    double percent = 0;
    bool failed = limit && parse_percent(limit, &percent) && exceeds_limit(d, percent);
    if (c->json) {
        tv_json_writer *w = cli_begin_result(c);
        tv_json_begin_object(w);
        trace_diff_write_json(d, w);
        if (limit)
            tv_json_boolean_member(w, "failed", failed);
        tv_json_end_object(w);
    } else {
        trace_diff_print(d, rows, c->out_color, stdout);
    }
    if (failed) {
        cli_error(c, CLI_E_SLOWER, NULL, "the cycles grew by more than %g %%", percent);
    }
    return failed ? CLI_FAULT : CLI_OK;
}

static tv_status write_page(cli *c, const char *path, tv_trace_summary *const runs[2], const tv_trace_diff *d)
{
    const tv_trace_summary *const both[2] = {runs[0], runs[1]};
    const char *const names[2] = {c->files[1], c->files[2]};
    tv_output *output = NULL;
    tv_output_group *files;
    tv_status status = cli_outputs(c, &files);
    if (status == TV_OK)
        status = tv_output_open(path, &c->sink, &output);
    if (status != TV_OK)
        return status;
    trace_diff_print_page(both, names, d, tv_output_stream(output));
    return tv_output_commit_to(output, files, &c->sink);
}

static int run_diff(cli *c, unsigned rows)
{
    tv_trace_summary *runs[2] = {NULL, NULL};
    tv_trace_diff *d = NULL;
    double percent;
    const char *limit = cli_value(c, "fail-above"), *page = cli_value(c, "report");
    if (c->file_count != 3)
        return cli_error(c, CLI_E_COUNT, "usage: trivet trace diff A B", "diff takes two traces");
    if (limit && !parse_percent(limit, &percent))
        return cli_error(c, CLI_E_VALUE, "for example --fail-above 2%", "--fail-above cannot be '%s'", limit);
    if (page && cli_overwrites_input(c, "report", page))
        return CLI_INVALID;
    if (page && strcmp(page, "-") == 0)
        return cli_error(c, CLI_E_VALUE, "name a file", "the page cannot go to standard output, which has the tables");
    if (strcmp(c->files[1], "-") == 0 && strcmp(c->files[2], "-") == 0)
        return cli_error(c, CLI_E_SAME_FILE, "give a file for one of them",
                         "two traces cannot both come from standard input");
    tv_status status = summarize_trace(c, c->files[1], &runs[0]);
    if (status == TV_OK)
        status = summarize_trace(c, c->files[2], &runs[1]);
    if (status == TV_OK)
        status = tv_trace_compare(runs[0], runs[1], &c->sink, &d);
    if (status == TV_OK && page)
        status = write_page(c, page, runs, d);
    int result = status == TV_OK ? show_diff(c, d, rows) : cli_exit_status(status);
    tv_trace_diff_free(d);
    tv_trace_summary_free(runs[0]);
    tv_trace_summary_free(runs[1]);
    return result;
}

/* ---- trivet trace convert IN -o OUT ---- */

/* The format by --to (may be NULL), otherwise by the extension of `out`. */
static bool choose_format(const char *to, const char *out, tv_trace_format *format)
{
    static const struct {
        const char *name, *extension;
        tv_trace_format format;
    } formats[] = {{"perfetto", ".perfetto.json", TV_TRACE_PERFETTO},
                   {"csv", ".csv", TV_TRACE_CSV},
                   {"vcd", ".vcd", TV_TRACE_VCD},
                   {"pftrace", ".pftrace", TV_TRACE_PFTRACE},
                   {"json", ".json", TV_TRACE_JSON}};
    char name[4096];
    snprintf(name, sizeof name, "%s", out);
    if (cli_ends_with(name, ".zst"))
        name[strlen(name) - 4] = '\0';
    for (unsigned i = 0; i < CLI_COUNTOF(formats); i++)
        if (to ? strcmp(to, formats[i].name) == 0 : cli_ends_with(name, formats[i].extension)) {
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
        return cli_error(c, CLI_E_COUNT, "usage: trivet trace convert IN -o OUT",
                         c->file_count != 2 ? "convert takes one trace" : "convert needs -o OUT");
    if (!choose_format(to, out, &format))
        return to ? cli_error(c, CLI_E_VALUE, "json, perfetto, pftrace, csv or vcd", "--to cannot be '%s'", to)
                  : cli_error(c, CLI_E_VALUE, "give --to json, perfetto, pftrace, csv or vcd",
                              "the name '%s' does not end in .json, .perfetto.json, .pftrace, .csv or .vcd", out);
    if (cli_overwrites_input(c, "converted trace", out))
        return CLI_INVALID;
    if (c->json)
        return cli_error(c, CLI_E_CONFLICT, "omit --json; --to json selects the format",
                         "convert has no result to print as JSON");
    return cli_exit_status(convert_trace(c, out, format));
}

static int run_trace(cli *c)
{
    unsigned rows = 0;
    const char *word = c->files[0];
    bool is_diff = strcmp(word, "diff") == 0, is_convert = strcmp(word, "convert") == 0;
    int result = parse_rows(c, &rows);
    if (result != CLI_OK)
        return result;
    if (cli_has(c, "fail-above") && !is_diff)
        return cli_error(c, CLI_E_CONFLICT, "usage: trivet trace diff A B --fail-above PERCENT",
                         "--fail-above belongs to diff");
    if ((cli_has(c, "output") || cli_has(c, "to")) && !is_convert)
        return cli_error(c, CLI_E_CONFLICT, "usage: trivet trace convert IN -o OUT", "-o and --to belong to convert");
    if (cli_has(c, "report") && !is_diff)
        return cli_error(c, CLI_E_CONFLICT, "usage: trivet trace diff A B --report OUT.html",
                         "--report belongs to diff");
    if (is_diff)
        return run_diff(c, rows);
    if (is_convert)
        return run_convert(c);
    if (c->file_count != 1)
        return cli_error(c, CLI_E_COUNT,
                         "usage: trivet trace FILE, trivet trace diff A B, or trivet trace convert IN -o OUT",
                         "too many arguments for 'trace'");
    return run_summary(c, rows);
}

const cli_command cli_trace = {
    .name = "trace",
    .usage = "trace FILE, trace diff A B, trace convert IN -o OUT",
    .summary = "summarize trace files, compare two, convert one",
    .about = "FILE is a trace written by `trivet run` with --trace or --perfetto, of any size, compressed with zstd or "
             "not; - is standard\n"
             "input. Write ./diff for a file called diff.",
    .example = "  trivet trace run.json                                  # where the time went\n"
               "  trivet trace diff before.json after.json --fail-above 2%  # exit status 1 if slower\n"
               "  trivet trace diff before.json after.json --report diff.html  # the two runs side by side\n"
               "  trivet trace convert run.json.zst -o run.perfetto.json\n"
               "  trivet trace convert run.json -o run.vcd                # a waveform for GTKWave\n"
               "  trivet run ffn.json --trace - | trivet trace -",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "j",
    .files_min = 1,
    .files_max = 3,
    .values = "diff convert FILE",
    .run = run_trace,
};
