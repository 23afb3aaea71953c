/* SPDX-License-Identifier: Apache-2.0 */
/* trivet reduce: the shortest form of a program that fails. */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run_command.h"

static const cli_option options[] = {
    {"output", 'o', "OUT", "write the assembly source here (default: standard output)", "FILE"},
    {"command", 'x', "COMMAND", "run this to test a program; {}, {elf}, {hex} and {log} are replaced by paths", NULL},
    {"rules", 0, "FILE", "with {log}: tolerances and known mismatches (docs/cosim.md)", "FILE"},
    {"timeout", 0, "SECONDS", "a test that takes longer is ended, with status 124 (default: 10)", NULL},
    {"max-tests", 0, "N", "stop after N tests (default: 10000)", NULL},
};

enum { PATH_SIZE = 4200 };
enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 }; /* statuses of the shell */
enum { SOURCE, ELF, HEX, DESIGN_LOG, MODEL_LOG, PATHS };
static const char *const file_names[PATHS] = {"test.s", "test.elf", "test.hex", "design.log", "model.log"};
static const char *const placeholders[MODEL_LOG] = {"{}", "{elf}", "{hex}", "{log}"};

/* How a program fails. */
typedef struct failure {
    int status;                   /* of the command */
    char name[TV_MISMATCH_CLASS]; /* class of the first mismatch; "": none, or no log */
    char message[TV_MISMATCH_TEXT];
} failure;

typedef struct reducer {
    cli *c;
    const tv_program *program;
    tv_codec *codec;
    tv_config *config;
    tv_rules *rules;
    const char *command;
    char *expanded;
    bool has_log;
    char folder[PATH_SIZE], paths[PATHS][PATH_SIZE];
    double timeout;
    uint64_t tests;
    failure first, last; /* of the whole program; of the smallest one that fails like it */
    tv_status status;    /* an error of the host */
    cli_progress progress;
} reducer;

/* ---- The test ---- */

static tv_status write_source(const char *path, const char *source)
{
    FILE *file = fopen(path, "w");
    bool good = file && fputs(source, file) >= 0;
    return file && fclose(file) == 0 && good ? TV_OK : TV_ERR_IO;
}

/* Writes the candidate in the forms that the command has placeholders for. */
static tv_status write_candidate(reducer *r, const char *source, const tv_program *program)
{
    tv_status status = write_source(r->paths[SOURCE], source);
    if (status != TV_OK)
        cli_error(r->c, CLI_E_FILE, NULL, "cannot write '%s'", r->paths[SOURCE]);
    if (status == TV_OK && strstr(r->command, placeholders[ELF]))
        status = tv_program_save(program, r->paths[ELF], TV_FORMAT_ELF, &r->c->sink);
    if (status == TV_OK && strstr(r->command, placeholders[HEX]))
        status = tv_program_save(program, r->paths[HEX], TV_FORMAT_HEX, &r->c->sink);
    unlink(r->paths[DESIGN_LOG]);
    return status;
}

/* Runs the candidate on a machine that logs. A fault is a result. */
static tv_status write_model_log(reducer *r, const tv_program *program)
{
    tv_machine *machine;
    tv_commit_log_writer *writer = NULL;
    tv_status status = tv_machine_new(r->config, TV_MODE_FUNCTIONAL, &r->c->sink, &machine);
    if (status != TV_OK)
        return status;
    status = tv_commit_log_open(r->paths[MODEL_LOG], TV_COMMIT_LOG_BINARY, r->config, &r->c->sink, &writer);
    if (status == TV_OK) {
        tv_commit_sink sink = tv_commit_log_sink(writer);
        status = tv_machine_commits(machine, TV_COMMIT_WRITES | TV_COMMIT_VALUES, &sink);
    }
    if (status == TV_OK)
        status = tv_machine_load(machine, program, r->tests == 1 ? &r->c->sink : NULL);
    if (status == TV_OK)
        status = tv_machine_run(machine, NULL, NULL);
    tv_machine_commits(machine, 0, NULL);
    if (status == TV_OK || status == TV_FAULT)
        status = tv_commit_log_finish(writer, NULL, &r->c->sink);
    else
        tv_commit_log_abandon(writer);
    tv_machine_free(machine);
    return status;
}

static void keep_first(void *user, const tv_mismatch *m)
{
    failure *f = user;
    if (m->waived || f->name[0])
        return;
    snprintf(f->name, sizeof f->name, "%s", m->name);
    snprintf(f->message, sizeof f->message, "%s", m->message);
}

/* Compares the log of the design with the model's. One that cannot be read has no mismatch. */
static tv_status compare_logs(reducer *r, failure *f)
{
    tv_commit_log_reader *logs[2] = {NULL, NULL};
    tv_machine *machine = NULL;
    tv_scoreboard_counts counts;
    tv_scoreboard_options board = {.size = sizeof board,
                                   .rules = r->rules,
                                   .mismatch = keep_first,
                                   .user = f,
                                   .values = 1,
                                   .cycle_slack = TV_CYCLE_UNKNOWN};
    const tv_diag_sink *sink = r->tests == 1 ? &r->c->sink : NULL;
    tv_status status = tv_commit_log_read(r->paths[MODEL_LOG], sink, &logs[0]);
    if (status == TV_OK)
        status = tv_commit_log_read(r->paths[DESIGN_LOG], sink, &logs[1]);
    if (status == TV_OK)
        status = tv_machine_new(r->config, TV_MODE_FUNCTIONAL, sink, &machine);
    if (status == TV_OK)
        status = tv_commit_log_compare(machine, logs[0], logs[1], &board, sink, &counts);
    tv_commit_log_close(logs[0]);
    tv_commit_log_close(logs[1]);
    tv_machine_free(machine);
    if (status == TV_ERR_INPUT && r->tests > 1) {
        f->name[0] = '\0';
        return TV_OK;
    }
    return status;
}

static tv_status test_program(reducer *r, const char *source, const tv_program *program, failure *f)
{
    tv_status status = write_candidate(r, source, program);
    if (status != TV_OK)
        return status;
    f->status = command_run(r->expanded, r->timeout, r->c->verbose);
    if (f->status < 0) {
        cli_error(r->c, CLI_E_FILE, NULL, "cannot run the command: %s", strerror(errno));
        return TV_ERR_IO;
    }
    if (r->tests == 1 && (f->status == NOT_EXECUTABLE || f->status == NOT_FOUND)) {
        cli_error(r->c, CLI_E_VALUE, "-v prints what the shell says",
                  "the command cannot be run: the shell ends with status %d", f->status);
        return TV_ERR_INPUT;
    }
    if (!r->has_log)
        return TV_OK;
    status = write_model_log(r, program);
    if (status == TV_ERR_INPUT && r->tests > 1)
        return TV_OK; /* the candidate cannot be loaded */
    return status == TV_OK ? compare_logs(r, f) : status;
}

/* Whether the program of `source` fails as the whole one does: tv_reduce_options.fails. */
static int test_candidate(void *user, const char *source)
{
    reducer *r = user;
    tv_program *program;
    failure f = {.status = 0};
    r->tests++;
    cli_progress_show(&r->progress, "tests", r->tests, 0);
    r->status =
        tv_program_assemble("test.s", source, strlen(source), NULL, r->tests == 1 ? &r->c->sink : NULL, &program);
    if (r->status == TV_ERR_INPUT && r->tests > 1) {
        r->status = TV_OK;
        return 0;
    }
    if (r->status == TV_OK) {
        r->status = test_program(r, source, program, &f);
        tv_program_free(program);
    }
    if (r->status != TV_OK)
        return -1;
    if (r->tests == 1)
        r->first = f;
    bool fails = r->has_log ? f.name[0] && strcmp(f.name, r->first.name) == 0 : f.status && f.status == r->first.status;
    if (fails)
        r->last = f;
    return fails;
}

/* ---- The result ---- */

static tv_status print_result(reducer *r, const tv_reduced *reduced)
{
    const char *path = cli_value(r->c, "output");
    tv_output *out;
    tv_output_group *group;
    tv_status status = tv_output_open(path ? path : "-", &r->c->sink, &out);
    if (status != TV_OK)
        return status;
    FILE *file = tv_output_stream(out);
    fprintf(file, "; %" PRIu64 " of %" PRIu64 " instructions fail in the same way\n", reduced->instructions,
            reduced->instructions_before);
    if (r->has_log)
        fprintf(file, "; %s: %s\n", CLI_SAFE(r->last.name), CLI_SAFE(r->last.message));
    else
        fprintf(file, "; exit status %d\n", r->last.status);
    fputs(reduced->source, file);
    status = cli_outputs(r->c, &group);
    if (status == TV_OK)
        return tv_output_commit_to(out, group, &r->c->sink);
    tv_output_abandon(out);
    return status;
}

static tv_status reduce_program(reducer *r)
{
    tv_reduce_options reduce = {.size = sizeof reduce, .fails = test_candidate, .user = r};
    tv_reduced reduced = {0};
    const char *limit = cli_value(r->c, "max-tests");
    if (limit && (!cli_parse_number(limit, &reduce.tests_max) || !reduce.tests_max)) {
        cli_error(r->c, CLI_E_VALUE, "a number from 1 on", "--max-tests cannot be '%s'", limit);
        return TV_ERR_INPUT;
    }
    cli_progress_begin(r->c, &r->progress);
    tv_status status = tv_program_reduce(r->program, r->codec, &reduce, &r->c->sink, &reduced);
    cli_progress_end(&r->progress);
    if (r->status != TV_OK)
        status = r->status;
    if (status == TV_OK && !reduced.complete)
        cli_warn(r->c, CLI_E_VALUE, "give a larger --max-tests",
                 "the limit of tests is reached: the program may not be the shortest one");
    if (status == TV_OK)
        status = print_result(r, &reduced);
    if (status == TV_OK && !r->c->quiet)
        fprintf(stderr, "%" PRIu64 " of %" PRIu64 " instructions, %s tests\n", reduced.instructions,
                reduced.instructions_before, CLI_COUNT(reduced.tests));
    free(reduced.source);
    return status;
}

/* ---- The job ---- */

static tv_status parse_options(reducer *r)
{
    const char *timeout = cli_value(r->c, "timeout");
    char *end = NULL;
    r->command = cli_value(r->c, "command");
    r->timeout = timeout ? strtod(timeout, &end) : 10;
    if (timeout && (end == timeout || *end || !(r->timeout > 0 && r->timeout < 1e6))) {
        cli_error(r->c, CLI_E_VALUE, "seconds, for example 2.5", "--timeout cannot be '%s'", timeout);
        return TV_ERR_INPUT;
    }
    bool has_program = false;
    for (unsigned i = 0; r->command && i < DESIGN_LOG; i++)
        has_program = has_program || strstr(r->command, placeholders[i]);
    if (!has_program) {
        cli_error(r->c, CLI_E_VALUE,
                  "write it like --command './bench {}'; {elf} and {hex} are the paths of other forms",
                  r->command ? "the command has no placeholder for the program" : "reduce needs a --command");
        return TV_ERR_INPUT;
    }
    r->has_log = strstr(r->command, placeholders[DESIGN_LOG]);
    if (cli_has(r->c, "rules") && !r->has_log) {
        cli_error(r->c, CLI_E_CONFLICT, "let the command write a log to {log}", "--rules apply to logs");
        return TV_ERR_INPUT;
    }
    const char *output = cli_value(r->c, "output");
    return output && cli_overwrites_input(r->c, "reduced program", output) ? TV_ERR_INPUT : TV_OK;
}

static tv_status make_folder(reducer *r)
{
    const char *base = getenv("TMPDIR");
    command_path paths[MODEL_LOG];
    int size = snprintf(r->folder, sizeof r->folder - 16, "%s/trivet-reduce-XXXXXX", base && *base ? base : "/tmp");
    if (size < 0 || (size_t)size >= sizeof r->folder - 16 || !mkdtemp(r->folder)) {
        cli_error(r->c, CLI_E_DIRECTORY, NULL, "cannot make a temporary folder: %s", strerror(errno));
        r->folder[0] = '\0';
        return TV_ERR_IO;
    }
    for (unsigned i = 0; i < PATHS; i++)
        snprintf(r->paths[i], sizeof r->paths[i], "%.4180s/%s", r->folder, file_names[i]);
    for (unsigned i = 0; i < MODEL_LOG; i++)
        paths[i] = (command_path){placeholders[i], r->paths[i]};
    r->expanded = command_expand(r->command, paths, MODEL_LOG);
    return r->expanded ? TV_OK : TV_ERR_MEMORY;
}

static void remove_folder(const reducer *r)
{
    for (unsigned i = 0; i < PATHS && r->folder[0]; i++)
        unlink(r->paths[i]);
    if (r->folder[0])
        rmdir(r->folder);
}

static int run_reduce(cli *c)
{
    reducer *r = calloc(1, sizeof *r);
    tv_program *program = NULL;
    if (!r) {
        cli_fail_memory(c);
        return CLI_FAILED;
    }
    r->c = c;
    tv_status status = parse_options(r);
    if (status == TV_OK && cli_has(c, "rules"))
        status = tv_rules_read(cli_value(c, "rules"), &c->sink, &r->rules);
    if (status == TV_OK)
        status = cli_open_program(c, c->files[0], &program);
    if (status == TV_OK)
        status = cli_make_program_config(c, program, &r->config);
    if (status == TV_OK)
        status = tv_codec_new(tv_program_target(program), &c->sink, &r->codec);
    if (status == TV_OK)
        status = make_folder(r);
    r->program = program;
    if (status == TV_OK)
        status = reduce_program(r);
    remove_folder(r);
    tv_rules_free(r->rules);
    tv_codec_free(r->codec);
    tv_config_free(r->config);
    tv_program_free(program);
    free(r->expanded);
    free(r);
    return status == TV_OK ? CLI_OK : cli_exit_status(status);
}

const cli_command cli_reduce = {
    .name = "reduce",
    .usage = "reduce FILE -x COMMAND [-o OUT.s]",
    .summary = "shortest form of a program that fails",
    .about =
        "Removes instructions, weight streams and data of a program, and clears bits of its words, as long as it "
        "fails\n"
        "in the same way. COMMAND runs in the shell for each candidate: {} is the path of its assembly source, {elf} "
        "and\n"
        "{hex} are those of other forms. The failure is the exit status of COMMAND. If COMMAND writes a commit log to\n"
        "{log}, the failure is the class of the first mismatch with the model (`trivet cosim compare`).",
    .example = "  trivet reduce random.s -x './bench {hex}' -o short.s              # the exit status stays the same\n"
               "  trivet reduce random.elf -x './bench {elf} --log {log}' -o short.s   # the mismatch stays the same",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tcDId",
    .files_min = 1,
    .files_max = 1,
    .values = "FILE",
    .run = run_reduce,
};
