/* SPDX-License-Identifier: Apache-2.0 */
/* trivet validate: the accuracy of the model against measurements. */
#include <inttypes.h>
#include <math.h>

#include "cli/cli.h"

static const cli_option options[] = {
    {"fit", 0, "KEY,KEY", "fit these parameters to one half of the cases, and report the other half", "PARAMETER"},
    {"tries", 0, "N", "with --fit, configurations to try at most (default: 1000)", NULL},
    {"output", 'o', "FILE", "write the configuration as a profile that says what it was validated against", "FILE"},
    {"svg", 0, "FILE", "write a plot of modelled against measured cycles", "FILE"},
    {"limit", 0, "PERCENT", "exit with 1 if the mean absolute error is above PERCENT", NULL},
    {"consistency", 0, NULL, "the table is from another model or from a simulated design, not from hardware", NULL},
};

enum { KEYS_MAX = TV_FIT_PARAMETERS_MAX + 1 };

/* The accuracy of the three sets. */
typedef struct accuracies {
    tv_accuracy all, fitted, reported;
} accuracies;

typedef struct job {
    cli *c;
    tv_measurements *measurements;
    tv_program **programs;
    tv_config *config;
    tv_validation *validation;
    char *key_text;
    const char *keys[KEYS_MAX];
    unsigned key_count;
    uint64_t tries;
    double limit;             /* NaN: none */
    accuracies before, after; /* of the fit */
    tv_accuracy bytes;
    cli_progress progress;
} job;

static bool is_fit(const job *j) { return j->key_count > 0; }

/* What the comparison is called. */
static const char *kind_of(const job *j) { return cli_has(j->c, "consistency") ? "consistency" : "validation"; }

/* ---- Options ---- */

static tv_status parse_limit(job *j)
{
    const char *text = cli_value(j->c, "limit");
    char *end;
    j->limit = NAN;
    if (!text)
        return TV_OK;
    j->limit = strtod(text, &end);
    if (end != text && *end == '\0' && j->limit >= 0 && isfinite(j->limit))
        return TV_OK;
    cli_error(j->c, CLI_E_VALUE, "a number, for example 15", "--limit cannot be '%s'", text);
    return TV_ERR_INPUT;
}

static tv_status parse_keys(job *j)
{
    const char *text = cli_value(j->c, "fit");
    if (!text)
        return TV_OK;
    j->key_text = strdup(text);
    if (!j->key_text)
        return TV_ERR_MEMORY;
    for (char *p = j->key_text; p && j->key_count < KEYS_MAX;) {
        char *comma = strchr(p, ',');
        if (comma)
            *comma = '\0';
        j->keys[j->key_count++] = p;
        p = comma ? comma + 1 : NULL;
    }
    return TV_OK;
}

static tv_status parse_options(job *j)
{
    cli *c = j->c;
    const char *tries = cli_value(c, "tries"), *output = cli_value(c, "output"), *svg = cli_value(c, "svg");
    if (tries && (!cli_parse_number(tries, &j->tries) || j->tries == 0)) {
        cli_error(c, CLI_E_VALUE, "a number, for example 1000", "--tries cannot be '%s'", tries);
        return TV_ERR_INPUT;
    }
    if (output && cli_has(c, "consistency")) {
        cli_error(c, CLI_E_CONFLICT, "a profile says what it was validated against: measurements of hardware",
                  "--output and --consistency are mutually exclusive");
        return TV_ERR_INPUT;
    }
    if (tries && !cli_has(c, "fit")) {
        cli_error(c, CLI_E_CONFLICT, "add --fit KEY", "--tries applies to --fit");
        return TV_ERR_INPUT;
    }
    if (output && svg && cli_same_file(output, svg)) {
        cli_error(c, CLI_E_SAME_FILE, NULL, "--output and --svg write the same file");
        return TV_ERR_INPUT;
    }
    tv_status status = parse_limit(j);
    return status == TV_OK ? parse_keys(j) : status;
}

/* ---- Programs ---- */

/* A path of the table is relative to its folder. The caller frees it; NULL: out of memory. */
static char *make_path(const char *table, const char *program)
{
    const char *slash = strrchr(table, '/');
    size_t folder = slash && program[0] != '/' ? (size_t)(slash - table) + 1 : 0, size = folder + strlen(program) + 1;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%.*s%s", (int)folder, table, program);
    return path;
}

/* Rejects outputs that would overwrite `program`, the table or a file of -c. */
static tv_status check_outputs(cli *c, const char *program)
{
    static const char *const outputs[][2] = {{"output", "the profile"}, {"svg", "the plot"}};
    for (size_t i = 0; i < CLI_COUNTOF(outputs); i++) {
        const char *path = cli_value(c, outputs[i][0]);
        if (!path)
            continue;
        if (cli_overwrites_input(c, outputs[i][1], path))
            return TV_ERR_INPUT;
        if (cli_same_file(path, program)) {
            cli_error(c, CLI_E_SAME_FILE, "choose another file", "%s would overwrite the program '%s'", outputs[i][1],
                      program);
            return TV_ERR_INPUT;
        }
    }
    return TV_OK;
}

static tv_status open_programs(job *j)
{
    tv_measurement row;
    uint64_t count = 0;
    while (tv_measurements_at(j->measurements, count, &row))
        count++;
    j->programs = calloc((size_t)count, sizeof(tv_program *));
    if (!j->programs)
        return TV_ERR_MEMORY;
    for (uint64_t i = 0; tv_measurements_at(j->measurements, i, &row); i++) {
        char *path = make_path(j->c->files[0], row.program);
        tv_status status = path ? cli_open_program(j->c, path, &j->programs[i]) : TV_ERR_MEMORY;
        if (status == TV_OK) {
            j->c->programs = j->programs;
            j->c->program_count = (unsigned)i + 1;
            status = check_outputs(j->c, path);
        }
        free(path);
        if (status != TV_OK)
            return status;
    }
    return TV_OK;
}

static tv_status compute_accuracies(job *j, accuracies *out)
{
    const tv_diag_sink *sink = &j->c->sink;
    tv_status status = tv_validation_cycles(j->validation, TV_VALIDATION_ALL, sink, &out->all);
    if (status == TV_OK)
        status = tv_validation_cycles(j->validation, TV_VALIDATION_FITTED, sink, &out->fitted);
    if (status == TV_OK)
        status = tv_validation_cycles(j->validation, TV_VALIDATION_REPORTED, sink, &out->reported);
    return status;
}

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    cli_progress_show(user, "fitting", done, total);
}

static tv_status fit_parameters(job *j)
{
    tv_fit_options fit = {.size = sizeof fit,
                          .keys = j->keys,
                          .key_count = j->key_count,
                          .configurations = j->tries,
                          .progress = show_progress,
                          .user = &j->progress};
    cli_progress_begin(j->c, &j->progress);
    tv_status status = tv_validation_fit(j->validation, &fit, &j->c->sink);
    cli_progress_end(&j->progress);
    return status;
}

static tv_status compare_programs(job *j)
{
    tv_status status = tv_measurements_open(j->c->files[0], &j->c->sink, &j->measurements);
    if (status == TV_OK)
        status = open_programs(j);
    if (status == TV_OK)
        status = cli_make_program_config(j->c, j->programs[0], &j->config);
    if (status == TV_OK)
        status = tv_validation_new(j->measurements, (const tv_program *const *)j->programs, j->config, &j->c->sink,
                                   &j->validation);
    if (status == TV_OK)
        status = compute_accuracies(j, &j->before);
    if (status == TV_OK && is_fit(j))
        status = fit_parameters(j);
    if (status == TV_OK)
        status = compute_accuracies(j, &j->after);
    if (status == TV_OK)
        status = tv_validation_bytes(j->validation, TV_VALIDATION_ALL, &j->c->sink, &j->bytes);
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
    if (strcmp(option, "svg") == 0)
        tv_validation_write_svg(j->validation, tv_output_stream(out));
    else
        status = tv_validation_write_profile(j->validation, tv_output_stream(out), &j->c->sink);
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
        status = write_file(j, "svg", group);
    if (status == TV_OK)
        status = write_file(j, "output", group);
    return status;
}

/* ---- Text ---- */

static void print_cases(const job *j)
{
    tv_validation_case c;
    bool bytes = j->bytes.count > 0;
    printf("%-28s %14s %14s %9s%s%s\n", "program", "measured", "modelled", "error", bytes ? "     bytes" : "",
           is_fit(j) ? "  half" : "");
    for (uint64_t i = 0; tv_validation_case_at(j->validation, i, &c); i++) {
        printf("%-28s %14s %14s %+7.1f %%", CLI_SAFE(c.name), CLI_COUNT((uint64_t)c.measured),
               CLI_COUNT((uint64_t)c.modelled), c.error);
        if (bytes && isnan(c.bytes_error))
            printf(" %9s", "");
        else if (bytes)
            printf(" %+7.1f %%", c.bytes_error);
        printf("%s\n", is_fit(j) ? c.fitted ? "  fitted" : "  reported" : "");
    }
}

static const char *name_of(const job *j, uint64_t index)
{
    tv_validation_case c = {.name = ""};
    tv_validation_case_at(j->validation, index, &c);
    return c.name;
}

static void print_accuracy(const job *j, const char *what, const tv_accuracy *a)
{
    if (a->count == 0)
        return;
    printf("%s: mean absolute error %.1f %% (bias %+.1f %%), worst %+.1f %% (%s)", what, a->mean_absolute, a->mean,
           a->worst, CLI_SAFE(name_of(j, a->worst_index)));
    if (!isnan(a->rank_correlation))
        printf(", rank correlation %.3f", a->rank_correlation);
    printf("\n%*s  within 5 %%: %" PRIu64 ", 10 %%: %" PRIu64 ", 15 %%: %" PRIu64 " of %" PRIu64 "\n",
           (int)strlen(what), "", a->within[0], a->within[1], a->within[2], a->count);
}

static void print_fit(const job *j)
{
    tv_fitted_parameter p;
    printf("\n%" PRIu64 " configurations tried\n", tv_validation_configurations(j->validation));
    for (unsigned i = 0; tv_validation_parameter_at(j->validation, i, &p); i++)
        printf("  %-28s %s -> %s\n", p.key, p.before, p.after);
    putchar('\n');
    print_accuracy(j, "fitted half, before", &j->before.fitted);
    print_accuracy(j, "fitted half, after", &j->after.fitted);
    print_accuracy(j, "reported half, before", &j->before.reported);
    print_accuracy(j, "reported half, after", &j->after.reported);
}

static void print_result(const job *j)
{
    if (!j->c->quiet) {
        print_cases(j);
        putchar('\n');
    }
    printf("%s of %s\n", kind_of(j), tv_config_target(tv_validation_config(j->validation)));
    print_accuracy(j, "cycles", &j->after.all);
    print_accuracy(j, "bytes", &j->bytes);
    if (is_fit(j))
        print_fit(j);
}

/* ---- JSON ---- */

static void write_accuracy(const job *j, const char *key, const tv_accuracy *a, tv_json_writer *w)
{
    tv_json_key(w, key);
    if (a->count == 0) {
        tv_json_write_null(w);
        return;
    }
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "cases", a->count);
    cli_write_real(w, "mean_error", a->mean);
    cli_write_real(w, "mean_absolute_error", a->mean_absolute);
    cli_write_real(w, "worst_error", a->worst);
    tv_json_string_member(w, "worst_case", name_of(j, a->worst_index));
    cli_write_real(w, "rank_correlation", a->rank_correlation);
    tv_json_unsigned_member(w, "within_5", a->within[0]);
    tv_json_unsigned_member(w, "within_10", a->within[1]);
    tv_json_unsigned_member(w, "within_15", a->within[2]);
    tv_json_end_object(w);
}

static void write_case(const job *j, const tv_validation_case *c, tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "name", c->name);
    tv_json_unsigned_member(w, "line", c->line);
    cli_write_real(w, "measured_cycles", c->measured);
    tv_json_unsigned_member(w, "modelled_cycles", (uint64_t)c->modelled);
    cli_write_real(w, "error", c->error);
    cli_write_real(w, "measured_bytes", c->measured_bytes);
    tv_json_unsigned_member(w, "modelled_bytes", (uint64_t)c->modelled_bytes);
    cli_write_real(w, "bytes_error", c->bytes_error);
    tv_json_string_member(w, "half", is_fit(j) ? c->fitted ? "fitted" : "reported" : NULL);
    tv_json_end_object(w);
}

static void write_fit(const job *j, tv_json_writer *w)
{
    tv_fitted_parameter p;
    tv_json_key(w, "fit");
    if (!is_fit(j)) {
        tv_json_write_null(w);
        return;
    }
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "configurations", tv_validation_configurations(j->validation));
    tv_json_key(w, "parameters");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_validation_parameter_at(j->validation, i, &p); i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "key", p.key);
        tv_json_string_member(w, "before", p.before);
        tv_json_string_member(w, "after", p.after);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
    write_accuracy(j, "fitted_before", &j->before.fitted, w);
    write_accuracy(j, "fitted_after", &j->after.fitted, w);
    write_accuracy(j, "reported_before", &j->before.reported, w);
    write_accuracy(j, "reported_after", &j->after.reported, w);
    tv_json_end_object(w);
}

static void write_result_json(const job *j)
{
    tv_validation_case c;
    tv_json_writer *w = cli_begin_result(j->c);
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", tv_config_target(tv_validation_config(j->validation)));
    tv_json_string_member(w, "kind", kind_of(j));
    tv_json_key(w, "cases");
    tv_json_begin_array(w);
    for (uint64_t i = 0; tv_validation_case_at(j->validation, i, &c); i++)
        write_case(j, &c, w);
    tv_json_end_array(w);
    write_accuracy(j, "cycles", &j->after.all, w);
    write_accuracy(j, "bytes", &j->bytes, w);
    write_fit(j, w);
    tv_json_end_object(w);
}

/* ---- The command ---- */

static void free_job(job *j)
{
    tv_measurement row;
    tv_validation_free(j->validation);
    j->c->programs = NULL;
    j->c->program_count = 0;
    for (uint64_t i = 0; j->programs && tv_measurements_at(j->measurements, i, &row); i++)
        tv_program_free(j->programs[i]);
    free(j->programs);
    tv_config_free(j->config);
    tv_measurements_free(j->measurements);
    free(j->key_text);
}

/* With --limit: CLI_FAULT if the error is above it; after a fit that of the reported half. */
static int check_limit(const job *j)
{
    const tv_accuracy *a = is_fit(j) ? &j->after.reported : &j->after.all;
    if (isnan(j->limit) || a->mean_absolute <= j->limit)
        return CLI_OK;
    cli_error(j->c, CLI_E_INACCURATE, NULL, "the mean absolute error is %.1f %%, above %g %%", a->mean_absolute,
              j->limit);
    return CLI_FAULT;
}

static int run_validate(cli *c)
{
    job j = {.c = c};
    tv_status status = parse_options(&j);
    if (status == TV_OK)
        status = compare_programs(&j);
    if (status == TV_OK)
        status = write_files(&j);
    if (status == TV_OK && c->json)
        write_result_json(&j);
    else if (status == TV_OK)
        print_result(&j);
    int exit_status = status == TV_OK ? check_limit(&j) : cli_exit_status(status);
    free_job(&j);
    return exit_status;
}

const cli_command cli_validate = {
    .name = "validate",
    .usage = "validate MEASURED.csv [--fit KEY,KEY] [-o PROFILE.ini] [--svg FILE]",
    .summary = "accuracy of the model against measurements",
    .about = "Runs the programs of a table on the model, without data, and compares cycles and bytes with those that "
             "were\n"
             "measured: the error of each program, the mean absolute one, the worst one, and the rank correlation. The "
             "table\n"
             "has a column `program`, a column `cycles` or `time`, and perhaps `bytes`; paths are relative to its "
             "folder.",
    .example = "  trivet validate measured.csv -c kv260 --svg accuracy.svg\n"
               "  trivet validate measured.csv --fit acp.setup,gemv.setup -o ./board.ini",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tcDIdj",
    .files_min = 1,
    .files_max = 1,
    .values = "FILE",
    .run = run_validate,
};
