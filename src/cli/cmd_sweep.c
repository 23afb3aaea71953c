/* SPDX-License-Identifier: Apache-2.0 */
/* trivet sweep: workloads on many configurations. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/sweep_slurm.h"

static const cli_option options[] = {
    {"output", 'o', "DB", "keep results in this database (SQLite): the sweep resumes and extends", "FILE"},
    {"csv", 0, "FILE", "write the points as CSV", "FILE"},
    {"page", 0, "OUT.html", "write a page: Pareto front, parallel coordinates, sensitivity, table", "FILE"},
    {"threads", 0, "N", "points at a time (default: one per core); results are identical", NULL},
    {"slurm", 0, "FOLDER", "submit the sweep to Slurm: tasks write their results to this shared folder", "FILE"},
    {"tasks", 0, "N", "with --slurm, tasks of the array job (default: 16)", NULL},
    {"sbatch", 0, "OPTION", "with --slurm, an option of sbatch, for example --sbatch=--time=30; may be repeated", NULL},
    {"slice", 0, "I/N", "evaluate only every N-th point, from point I on, and write results to --folder", NULL},
    {"folder", 0, "DIR", "with --slice: where the files of results go", "FILE"},
    {"seconds", 0, "S", "with --slice: time between files (default: 60)", NULL},
    {"rows", 0, "N", "points to list (default: 20)", NULL},
};

typedef struct job {
    cli *c;
    tv_sweep *sweep;
    uint64_t threads, rows, tasks, index, count; /* count: slices; 0: the whole sweep */
    double seconds;
    cli_progress progress;
    struct timespec start;
    tv_sweep_progress last;
} job;

/* ---- Options ---- */

static tv_status reject(job *j, const char *option, const char *hint)
{
    cli_error(j->c, CLI_E_VALUE, hint, "--%s cannot be '%s'", option, cli_value(j->c, option));
    return TV_ERR_INPUT;
}

/* Options that a sweep on Slurm, or one of its slices, has no use for. */
static tv_status check_files(job *j, const char *option)
{
    static const char *const files[] = {"output", "csv", "page"};
    for (size_t i = 0; i < CLI_COUNTOF(files); i++)
        if (cli_has(j->c, files[i])) {
            cli_error(j->c, CLI_E_CONFLICT, "first `trivet sweep collect FILES -o DB`, then the sweep with -o DB",
                      "--%s does not apply to --%s", files[i], option);
            return TV_ERR_INPUT;
        }
    return TV_OK;
}

static tv_status parse_slurm(job *j)
{
    const char *tasks = cli_value(j->c, "tasks");
    j->tasks = 16;
    if (!cli_has(j->c, "slurm")) {
        if (!tasks && !cli_has(j->c, "sbatch"))
            return TV_OK;
        cli_error(j->c, CLI_E_CONFLICT, "add --slurm FOLDER", "--tasks and --sbatch belong to --slurm");
        return TV_ERR_INPUT;
    }
    if (tasks && (!cli_parse_number(tasks, &j->tasks) || j->tasks < 1 || j->tasks > 100000))
        return reject(j, "tasks", "1 to 100000");
    if (cli_has(j->c, "slice")) {
        cli_error(j->c, CLI_E_CONFLICT, NULL, "--slurm and --slice are mutually exclusive");
        return TV_ERR_INPUT;
    }
    return check_files(j, "slurm");
}

static tv_status parse_slice(job *j)
{
    char text[64];
    const char *value = cli_value(j->c, "slice");
    if (!value) {
        if (!cli_has(j->c, "folder") && !cli_has(j->c, "seconds"))
            return TV_OK;
        cli_error(j->c, CLI_E_CONFLICT, "add --slice I/N", "--folder and --seconds belong to --slice");
        return TV_ERR_INPUT;
    }
    size_t size = strcspn(value, "/");
    if (size == 0 || size >= sizeof text || !value[size])
        return reject(j, "slice", "0/4, 1/4, …");
    memcpy(text, value, size);
    text[size] = '\0';
    if (!cli_parse_number(text, &j->index) || !cli_parse_number(value + size + 1, &j->count) || j->index >= j->count)
        return reject(j, "slice", "0/4, 1/4, …");
    if (cli_has(j->c, "folder"))
        return check_files(j, "slice");
    cli_error(j->c, CLI_E_CONFLICT, "add --folder DIR", "a slice writes its results to --folder");
    return TV_ERR_INPUT;
}

static tv_status parse_options(job *j)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const char *seconds = cli_value(j->c, "seconds"), *threads = cli_value(j->c, "threads"),
               *rows = cli_value(j->c, "rows");
    char *end = NULL;
    j->threads = cores > 0 ? (uint64_t)cores : 1;
    j->rows = 20;
    j->seconds = seconds ? strtod(seconds, &end) : 60;
    if (threads && (!cli_parse_number(threads, &j->threads) || j->threads < 1 || j->threads > 256))
        return reject(j, "threads", "1 to 256");
    if (rows && !cli_parse_number(rows, &j->rows))
        return reject(j, "rows", "a number, for example 50");
    if (seconds && (end == seconds || *end || !(j->seconds >= 0 && j->seconds < 1e6)))
        return reject(j, "seconds", "a number, for example 60");
    tv_status status = parse_slurm(j);
    return status == TV_OK ? parse_slice(j) : status;
}

/* ---- Running ---- */

static double seconds_since(const struct timespec *start)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - start->tv_sec) + (double)(t.tv_nsec - start->tv_nsec) * 1e-9;
}

/* "1,200 points/s, 3 min left" */
static int show_progress(void *user, const tv_sweep_progress *p)
{
    job *j = user;
    char text[96];
    double seconds = seconds_since(&j->start), rate = seconds > 0 ? (double)p->done / seconds : 0;
    double left = rate > 0 ? (double)(p->total - p->done) / rate : 0;
    j->last = *p;
    if (left < 120)
        snprintf(text, sizeof text, "%.1f points/s, %.0f s left", rate, left);
    else
        snprintf(text, sizeof text, "%.1f points/s, %.0f min left", rate, left / 60);
    cli_progress_show(&j->progress, text, p->done, p->total);
    return 0;
}

static tv_status run_sweep_points(job *j)
{
    tv_sweep_options o = {.size = sizeof o,
                          .database = cli_value(j->c, "output"),
                          .threads = (unsigned)j->threads,
                          .progress = show_progress,
                          .user = j};
    clock_gettime(CLOCK_MONOTONIC, &j->start);
    cli_progress_begin(j->c, &j->progress);
    tv_status status = j->count ? tv_sweep_run_slice(j->sweep, &o, j->index, j->count, cli_value(j->c, "folder"),
                                                     j->seconds, &j->c->sink, NULL)
                                : tv_sweep_run(j->sweep, &o, &j->c->sink, NULL);
    cli_progress_end(&j->progress);
    return status;
}

/* ---- Files ---- */

static tv_status write_file(job *j, const char *option, tv_output_group *group)
{
    const char *path = cli_value(j->c, option);
    tv_output *out;
    if (!path)
        return TV_OK;
    tv_status status = tv_output_open(path, &j->c->sink, &out);
    if (status != TV_OK)
        return status;
    if (strcmp(option, "csv") == 0)
        tv_sweep_write_csv(j->sweep, tv_output_stream(out));
    else
        status = tv_sweep_write_page(j->sweep, j->c->files[0], tv_output_stream(out), &j->c->sink);
    if (status == TV_OK)
        return tv_output_commit_to(out, group, &j->c->sink);
    tv_output_abandon(out);
    return status;
}

static tv_status write_files(job *j)
{
    tv_output_group *group;
    tv_status status = cli_outputs(j->c, &group);
    if (status == TV_OK)
        status = write_file(j, "csv", group);
    if (status == TV_OK)
        status = write_file(j, "page", group);
    return status;
}

/* Rejects outputs that overwrite the specification or each other. */
static tv_status check_outputs(cli *c)
{
    static const char *const outputs[] = {"output", "csv", "page"};
    for (size_t i = 0; i < CLI_COUNTOF(outputs); i++) {
        const char *path = cli_value(c, outputs[i]);
        if (path && cli_overwrites_input(c, outputs[i], path))
            return TV_ERR_INPUT;
        for (size_t k = 0; path && k < i; k++)
            if (cli_value(c, outputs[k]) && cli_same_file(path, cli_value(c, outputs[k]))) {
                cli_error(c, CLI_E_SAME_FILE, NULL, "--%s and --%s write the same file", outputs[k], outputs[i]);
                return TV_ERR_INPUT;
            }
    }
    return TV_OK;
}

/* ---- Text ---- */

static void print_values(const job *j, uint64_t n)
{
    const char *name;
    for (unsigned i = 0; (name = tv_sweep_parameter_name(j->sweep, i)); i++) {
        const char *value = tv_sweep_value(j->sweep, n, i);
        if (value)
            printf("  %s=%s", name, value);
    }
}

/* The points of the front; with fewer than --rows, then the others. */
static void print_points(const job *j)
{
    const char *name;
    tv_sweep_point p;
    uint64_t shown = 0;
    printf("%-8s", "target");
    for (unsigned i = 0; (name = tv_sweep_objective_name(j->sweep, i)); i++)
        printf(" %15s", name);
    printf("  parameters of the front\n");
    for (uint64_t n = 0; tv_sweep_point_at(j->sweep, n, &p) && shown < j->rows; n++) {
        if (!p.on_front)
            continue;
        shown++;
        printf("%-8s", p.target);
        for (unsigned i = 0; tv_sweep_objective_name(j->sweep, i); i++)
            printf(" %15.6g", p.objectives[i]);
        print_values(j, n);
        putchar('\n');
    }
}

/* The reason of the first point that failed. */
static void print_failures(const job *j)
{
    tv_sweep_point p;
    uint64_t count = 0, first = 0;
    for (uint64_t n = 0; tv_sweep_point_at(j->sweep, n, &p); n++)
        if (strcmp(p.outcome, "ok") != 0 && count++ == 0)
            first = n;
    if (count == 0)
        return;
    tv_sweep_point_at(j->sweep, first, &p);
    printf("%s points are not possible; the first one: %s", CLI_COUNT(count), p.target);
    print_values(j, first);
    printf(": %s\n", CLI_SAFE(p.reason));
}

static void print_result(const job *j)
{
    tv_sweep_point p;
    uint64_t front = 0, count = 0;
    for (; tv_sweep_point_at(j->sweep, count, &p); count++)
        front += (uint64_t)p.on_front;
    printf("%s points of %s, %s on the front; %s results computed, the others known\n", CLI_COUNT(count),
           CLI_COUNT(tv_sweep_total(j->sweep)), CLI_COUNT(front), CLI_COUNT(j->last.computed));
    print_failures(j);
    if (!j->c->quiet && !j->count && front)
        print_points(j);
}

/* ---- The command ---- */

static int collect(cli *c)
{
    uint64_t added = 0;
    const char *database = cli_value(c, "output");
    if (!database || c->file_count < 2)
        return cli_error(c, CLI_E_COUNT, "usage: trivet sweep collect FILES -o DB",
                         "collect takes files of results and a database");
    tv_status status =
        tv_sweep_collect(database, (const char *const *)c->files + 1, c->file_count - 1, &c->sink, &added);
    if (status == TV_OK && c->json) {
        tv_json_writer *w = cli_begin_result(c);
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "added", added);
        tv_json_end_object(w);
    } else if (status == TV_OK) {
        printf("%s results added\n", CLI_COUNT(added));
    }
    return status == TV_OK ? CLI_OK : cli_exit_status(status);
}

/* Submits the sweep once it is known to be valid. */
static int submit(job *j)
{
    tv_status status = tv_sweep_check_slices(j->sweep, &j->c->sink);
    if (status == TV_OK)
        status = sweep_submit(j->c, j->c->files[0], cli_value(j->c, "slurm"), (unsigned)j->tasks);
    tv_sweep_free(j->sweep);
    return status == TV_OK ? CLI_OK : cli_exit_status(status);
}

static int run_sweep(cli *c)
{
    job j = {.c = c};
    if (strcmp(c->files[0], "collect") == 0)
        return collect(c);
    if (c->file_count != 1)
        return cli_error(c, CLI_E_COUNT, "usage: trivet sweep SPEC", "a sweep has one specification");
    tv_status status = parse_options(&j);
    if (status == TV_OK)
        status = check_outputs(c);
    if (status == TV_OK)
        status = tv_sweep_open(c->files[0], &c->sink, &j.sweep);
    if (status == TV_OK && cli_has(c, "slurm"))
        return submit(&j);
    if (status == TV_OK)
        status = run_sweep_points(&j);
    if (status == TV_OK)
        status = write_files(&j);
    if (status == TV_OK && c->json)
        tv_sweep_write_json(j.sweep, cli_begin_result(c));
    else if (status == TV_OK)
        print_result(&j);
    tv_sweep_free(j.sweep);
    return status == TV_OK ? CLI_OK : cli_exit_status(status);
}

const cli_command cli_sweep = {
    .name = "sweep",
    .usage = "sweep SPEC [-o DB] [--csv FILE] [--page OUT.html], sweep collect FILES -o DB",
    .summary = "workloads on many configurations of machines",
    .about =
        "SPEC, INI or JSON, names programs, networks or language models, machines with the values of their\n"
        "parameters, objectives and a search (docs/sweep.md). Each point runs without data. With -o the results\n"
        "stay in a database by what they depend on: nothing is computed twice. collect adds the files that slices\n"
        "wrote to a database.",
    .example = "  trivet sweep space.ini -o space.db --csv points.csv --page points.html\n"
               "  trivet sweep space.ini --slice 0/4 --folder results      # one of four tasks\n"
               "  trivet sweep collect results/*.jsonl -o space.db",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "j",
    .files_min = 1,
    .files_max = 65536,
    .values = "collect FILE",
    .run = run_sweep,
};
