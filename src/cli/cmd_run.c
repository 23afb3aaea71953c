/* SPDX-License-Identifier: Apache-2.0 */
/* trivet run: execute and time programs on one machine, one after another. */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/elements.h"
#include "cli/energy_report.h"
#include "cli/infer_job.h"
#include "cli/memory_load.h"
#include "cli/run_commits.h"
#include "cli/run_memory.h"
#include "cli/run_outputs.h"
#include "cli/run_report.h"
#include "cli/run_streams.h"

static const cli_option options[] = {
    RUN_OUTPUTS_OPTIONS,
    RUN_COMMITS_OPTIONS,
    RUN_MEMORY_OPTIONS,
    RUN_STREAMS_OPTIONS,
    MEMORY_LOAD_OPTION,
    {"until", 0, "N", "stop before instruction N (or a label) of the last program", "LABEL"},
    {"max-cycles", 0, "N", "stop before an instruction that would issue at cycle N or later", NULL},
    {"functional", 0, NULL, "compute data, but no cycles", NULL},
    {"timing-only", 0, NULL, "compute cycles, but no data", NULL},
    {"kernels", 0, "NAME",
     "host kernels: scalar, avx2, avx512, neon or dotprod, if the host has them; results are identical",
     "scalar avx2 avx512 neon dotprod"},
    {"threads", 0, "N", "host threads (default: one per core); results are identical", NULL},
    {"save-outputs", 0, "DIR", "write the declared outputs of the program to DIR/NAME.bin", "FILE"},
    {"energy", 0, NULL, "print the energy of the run by engine and by action", NULL},
    {"strict", 0, NULL, "treat hazards and masked values as errors, and do not run", NULL},
    {"no-hazards", 0, NULL, "do not check for hazards and masked values", NULL},
    INFER_DATA_OPTIONS,
};

/* The state of one `trivet run`. */
typedef struct job {
    cli *c;
    tv_config *config;
    tv_machine *machine;
    tv_program **programs;
    unsigned count;
    run_outputs traces;
    run_commits commits;
    run_memory memory;
    tv_output_group *files; /* all files of the run, of the command */
    output_list outputs;    /* declared outputs of the programs */
    tv_stop_reason stop;
    tv_status outcome;
} job;

/* Parses NUMBER or SYMBOL[+OFFSET]. */
static bool parse_address(const job *j, const char *text, uint64_t *out)
{
    char name[128];
    size_t n = strcspn(text, "+");
    uint64_t offset = 0;
    tv_symbol symbol;
    if (cli_parse_number(text, out))
        return true;
    if (n >= sizeof name || (text[n] && !cli_parse_number(text + n + 1, &offset)))
        return false;
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    for (unsigned i = j->count; i-- > 0;)
        if (tv_program_symbol(j->programs[i], name, &symbol)) {
            *out = symbol.value + offset;
            return true;
        }
    return false;
}

static const tv_program *const *const_programs(const job *j) { return (const tv_program *const *)j->programs; }

/* ---- The run ---- */

static tv_status set_threads(job *j)
{
    const char *text = cli_value(j->c, "threads");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = cores > 0 ? (uint64_t)cores : 1;
    if (text && (!cli_parse_number(text, &threads) || threads < 1 || threads > 256)) {
        cli_error(j->c, CLI_E_VALUE, "1 to 256", "--threads cannot be '%s'", text);
        return TV_ERR_INPUT;
    }
    tv_machine_set_threads(j->machine, (unsigned)threads);
    return TV_OK;
}

static bool has_outputs(const job *j)
{
    tv_output_info info;
    for (unsigned i = 0; i < j->count; i++)
        if (tv_program_output_at(j->programs[i], 0, &info))
            return true;
    return false;
}

static tv_status open_machine(job *j)
{
    cli *c = j->c;
    j->programs = calloc(c->file_count, sizeof(tv_program *));
    if (!j->programs)
        return TV_ERR_MEMORY;
    for (unsigned i = 0; i < c->file_count; i++) {
        tv_status status = cli_open_program(c, c->files[i], &j->programs[i]);
        if (status != TV_OK)
            return status;
        j->count++;
        c->programs = j->programs;
        c->program_count = j->count;
    }
    tv_mode mode = cli_has(c, "functional")    ? TV_MODE_FUNCTIONAL
                   : cli_has(c, "timing-only") ? TV_MODE_TIMING
                                               : TV_MODE_FULL;
    if (cli_has(c, "timing-only") && cli_has(c, "save-outputs")) {
        cli_error(c, CLI_E_CONFLICT, "omit --timing-only", "--timing-only computes no outputs to save");
        return TV_ERR_INPUT;
    }
    if (cli_has(c, "save-outputs") && !has_outputs(j)) {
        cli_error(c, CLI_E_OUTPUTS, "declare them in metadata.outputs of a queue, or print memory with --dump",
                  "--save-outputs: %s no outputs", j->count == 1 ? "the program declares" : "the programs declare");
        return TV_ERR_INPUT;
    }
    if (cli_has(c, "functional") && cli_has(c, "timing-only")) {
        cli_error(c, CLI_E_CONFLICT, "omit both for data and cycles",
                  "--functional and --timing-only are mutually exclusive");
        return TV_ERR_INPUT;
    }
    if (!cli_select_kernels(c))
        return TV_ERR_INPUT;
    tv_status status = cli_make_program_config(c, j->programs[0], &j->config);
    if (status == TV_OK)
        status = tv_machine_new(j->config, mode, &c->sink, &j->machine);
    return status == TV_OK ? set_threads(j) : status;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The title of the report has the names of up to three programs, otherwise of the first and the last one. */
static tv_status open_traces(job *j)
{
    char title[240] = "";
    unsigned count = j->c->file_count;
    for (unsigned i = 0; i < count && count <= 3; i++) {
        size_t n = strlen(title);
        snprintf(title + n, sizeof title - n, "%s%s", i ? ", " : "", base_name(j->c->files[i]));
    }
    if (count > 3)
        snprintf(title, sizeof title, "%.100s … %.100s (%u programs)", base_name(j->c->files[0]),
                 base_name(j->c->files[count - 1]), count);
    return run_outputs_open(&j->traces, j->c, title, NULL, j->machine);
}

static tv_status open_commits(job *j)
{
    tv_commit_sink sink;
    bool compares = run_memory_sink(&j->memory, &sink);
    return run_commits_open(&j->commits, j->c, j->machine, compares ? &sink : NULL);
}

static tv_status parse_limits(job *j, tv_run_limits *limits)
{
    *limits = (tv_run_limits){sizeof(tv_run_limits), UINT64_MAX, UINT64_MAX};
    const char *until = cli_value(j->c, "until"), *cycles = cli_value(j->c, "max-cycles");
    if (until && !parse_address(j, until, &limits->until)) {
        cli_error(j->c, CLI_E_VALUE, "give an instruction index or a label", "--until cannot be '%s'", until);
        return TV_ERR_INPUT;
    }
    if (cycles && !cli_parse_number(cycles, &limits->max_cycles)) {
        cli_error(j->c, CLI_E_VALUE, NULL, "--max-cycles takes a number, not '%s'", cycles);
        return TV_ERR_INPUT;
    }
    return TV_OK;
}

/* Runs program `i` in slices, to update the progress bar between them. Slices change neither bits nor cycles. */
static tv_status run_program(job *j, unsigned i, const tv_run_limits *limits)
{
    enum { SLICE = 65536 };
    uint64_t total = tv_program_instruction_count(j->programs[i]);
    cli_progress progress;
    tv_status status;
    cli_progress_begin(j->c, &progress);
    cli_progress_note(&progress, "running", 0, total);
    for (;;) {
        uint64_t next = tv_machine_next_index(j->machine),
                 until = next + SLICE < limits->until ? next + SLICE : limits->until;
        status =
            tv_machine_run(j->machine, &(tv_run_limits){sizeof(tv_run_limits), until, limits->max_cycles}, &j->stop);
        if (status != TV_OK || j->stop != TV_STOP_UNTIL || until == limits->until)
            break;
        cli_progress_show(&progress, "running", tv_machine_next_index(j->machine), total);
    }
    cli_progress_end(&progress);
    return status;
}

/* With --strict, what the queues use of additions to the published format. */
static void report_additions(job *j)
{
    for (unsigned i = 0; i < j->count && cli_has(j->c, "strict"); i++)
        tv_program_additions(j->programs[i], &j->c->sink);
}

/* A finding goes to the user and to the page of the run, if there is one. */
static void emit_finding(void *user, const tv_diag *diag)
{
    job *j = user;
    j->c->sink.emit(j->c->sink.user, diag);
    if (j->traces.report) {
        tv_diag_sink page = tv_report_findings(j->traces.report);
        page.emit(page.user, diag);
    }
}

/* Reports the hazards of all programs before the first one runs, on pccx what a driver's masks hid. The machine has
 * loaded the first one, so its plan is used; the others are loaded when they run. Returns TV_FAULT for hazards with
 * --strict. */
static tv_status check_hazards(job *j)
{
    const tv_diag_sink sink = {emit_finding, j};
    tv_severity severity = cli_has(j->c, "strict") ? TV_ERROR : TV_WARNING;
    tv_check_counts counts = {0};
    if (cli_has(j->c, "no-hazards")) {
        report_additions(j);
        return TV_OK;
    }
    tv_status status = tv_machine_hazards(j->machine, severity, &sink, &counts);
    for (unsigned i = 1; i < j->count && status == TV_OK; i++)
        status = tv_program_hazards(j->programs[i], j->config, severity, &sink, &counts);
    report_additions(j);
    return status == TV_OK && counts.errors ? TV_FAULT : status;
}

/* Reads the outputs of a program that has ended; prints them unless they go into the JSON result. */
static tv_status collect_outputs(job *j, const tv_program *program)
{
    const char *directory = cli_value(j->c, "save-outputs");
    output_list list = {0};
    tv_status status = outputs_read(j->c, j->machine, program, &list);
    if (status == TV_OK && directory)
        status = outputs_save(j->c, &list, directory, j->files);
    if (status == TV_OK && !j->c->json && !run_outputs_use_stdout(j->c))
        outputs_print(&list);
    if (status == TV_OK && j->c->json)
        status = outputs_append(&j->outputs, &list);
    outputs_free(&list);
    return status;
}

static tv_status fill_memory(job *j, const char *text)
{
    char where[RANGE_TEXT];
    const char *path;
    tv_status status = memory_load_split(j->c, j->machine, text, where, &path);
    return status == TV_OK ? tv_memory_fill(j->machine, const_programs(j), j->count, where, path, NULL, &j->c->sink)
                           : status;
}

static tv_status run_all(job *j)
{
    const char *text;
    tv_run_limits limits;
    tv_status status = parse_limits(j, &limits);
    j->stop = TV_STOP_END;
    for (unsigned i = 0; i < j->count && status == TV_OK && j->stop == TV_STOP_END; i++) {
        j->memory.program = i;
        status = tv_machine_load(j->machine, j->programs[i], &j->c->sink);
        if (i == 0 && status == TV_OK)
            status = check_hazards(j);
        for (unsigned k = 0; i == 0 && status == TV_OK && (text = cli_value_at(j->c, "load", k)); k++)
            status = fill_memory(j, text);
        if (i == 0 && status == TV_OK)
            status = run_streams_append(j->c, j->machine);
        if (status != TV_OK)
            return status;
        tv_run_limits own = {sizeof own, i + 1 == j->count ? limits.until : UINT64_MAX, limits.max_cycles};
        j->outcome = run_program(j, i, &own);
        if (j->outcome != TV_OK && j->outcome != TV_FAULT)
            return j->outcome;
        if (j->outcome == TV_OK && j->stop == TV_STOP_END &&
            !cli_has(j->c, "timing-only")) /* now, because the next program may overwrite them */
            status = collect_outputs(j, j->programs[i]);
        else if (cli_has(j->c, "save-outputs"))
            cli_warn(j->c, CLI_E_OUTPUTS, "run the program to its end",
                     "no outputs are saved, because the run stopped before its end");
    }
    return status;
}

static void print_stop(const job *j)
{
    uint64_t next = tv_machine_next_index(j->machine);
    if (j->stop == TV_STOP_UNTIL)
        printf("stopped before instruction %" PRIu64 "\n", next);
    else if (j->stop == TV_STOP_CYCLES)
        printf("stopped before instruction %" PRIu64 ": it would issue at cycle %s or later\n", next,
               cli_value(j->c, "max-cycles"));
}

/* True if programs of the machine are instruction words, whose addresses are meaningful. */
static bool has_instruction_words(const tv_machine *machine)
{
    tv_target_info t;
    for (unsigned i = 0; tv_target_at(i, &t); i++)
        if (strcmp(t.name, tv_machine_target(machine)) == 0)
            return t.word_bits != 0;
    return true;
}

static void write_result_json(job *j)
{
    tv_json_writer *w = cli_begin_result(j->c);
    tv_json_begin_object(w);
    run_report_write_json(j->machine, j->stop, w);
    run_memory_write_json(&j->memory, w);
    if (j->outputs.count) {
        tv_json_key(w, "outputs");
        outputs_write_json(&j->outputs, w);
    }
    tv_json_end_object(w);
}

static void check_validation(const job *j)
{
    tv_stats stats = {.size = sizeof stats};
    tv_machine_stats(j->machine, &stats);
    cli_check_validation(j->c, j->config, stats.cycles);
}

static tv_status print_result(job *j)
{
    const tv_fault *fault = tv_machine_fault(j->machine);
    j->c->faulted = fault != NULL;
    if (!fault && j->stop == TV_STOP_END)
        check_validation(j);
    if (fault && !j->c->json)
        run_report_print_fault(fault, has_instruction_words(j->machine), j->c->color);
    tv_status status = run_memory_collect(&j->memory, j->files);
    if (status == TV_OK && j->c->json) {
        write_result_json(j);
    } else if (status == TV_OK && !run_outputs_use_stdout(j->c)) {
        print_stop(j);
        if (!j->c->quiet)
            run_report_print(j->machine, !cli_has(j->c, "functional"), j->c->out_color, stdout);
        if (cli_has(j->c, "energy"))
            energy_report_print(j->machine, stdout);
    }
    return status;
}

static void free_job(job *j)
{
    tv_machine_free(j->machine);
    tv_config_free(j->config);
    for (unsigned i = 0; i < j->count; i++)
        tv_program_free(j->programs[i]);
    free(j->programs);
    run_memory_free(&j->memory);
    outputs_free(&j->outputs);
}

/* Whether the one file is a folder. A name that cannot be one is reported when it is opened. */
static tv_status find_folder(cli *c, bool *folder)
{
    struct stat info;
    *folder = false;
    if (c->file_count != 1)
        return TV_OK;
    if (stat(c->files[0], &info) == 0) {
        *folder = S_ISDIR(info.st_mode);
        return TV_OK;
    }
    if (errno != EIO && errno != ENOMEM)
        return TV_OK;
    cli_error(c, CLI_E_FILE, NULL, "cannot read '%s': %s", c->files[0], strerror(errno));
    return TV_ERR_IO;
}

static int run_programs(cli *c)
{
    job j = {.c = c};
    bool folder;
    tv_status status = find_folder(c, &folder);
    if (status != TV_OK)
        return cli_exit_status(status);
    if (folder)
        return infer_run_folder(c);
    if (cli_has(c, "input") || cli_has(c, "output"))
        return cli_error(c, CLI_E_CONFLICT, "--load and --save-outputs are for programs",
                         "--input and --output apply to the folder of a compiled network");
    status = open_machine(&j);
    if (status == TV_OK)
        status = run_memory_open(&j.memory, c, j.machine, const_programs(&j), j.count);
    if (status == TV_OK)
        status = run_outputs_check(c);
    if (status == TV_OK)
        status = open_traces(&j);
    if (status == TV_OK)
        status = open_commits(&j);
    if (status == TV_OK)
        status = cli_outputs(c, &j.files);
    if (status == TV_OK)
        status = run_all(&j);
    if (status == TV_OK)
        status = run_outputs_finish(&j.traces, j.files);
    else
        run_outputs_abandon(&j.traces);
    if (status == TV_OK)
        status = run_commits_finish(&j.commits, j.files, &c->sink);
    else
        run_commits_abandon(&j.commits);
    if (status == TV_OK)
        status = print_result(&j);
    if (status == TV_OK)
        status = run_memory_differs(&j.memory) ? TV_FAULT : j.outcome;
    free_job(&j);
    return cli_exit_status(status);
}

const cli_command cli_run = {
    .name = "run",
    .usage = "run FILE … [options]",
    .summary = "execute and time programs",
    .about = "Runs source, ELF, .bin, .hex and .json files one after another on one machine. ADDR is a number or "
             "SYMBOL[+OFFSET], in\n"
             "units of the address space (see docs/isa); in a space with banks it is BANK:OFFSET. RANGE is "
             "SPACE:ADDR:LEN[:TYPE], with a shape\n"
             "such as 8x16 for LEN, or the name of a declared output. Its file is an array of NumPy if the name ends "
             "in .npy, words for $readmemh\n"
             "if it ends in .memh, otherwise the bytes of the memory. A folder that `trivet compile` wrote is run as "
             "its manifest says, with\n"
             "--input and --output.",
    .example = "  trivet run softmax.s --dump l2:0x20:64:bf16\n"
               "  trivet run gemv.elf -c kv260 --load host:0x10000=weights.bin --trace trace.json\n"
               "  trivet run decode.s --timing-only --perfetto ui.json\n"
               "  trivet run ffn.json -c mobile --report report.html\n"
               "  trivet run ffn.json -c mobile --dump spm:2:0x100:16:f32\n"
               "  trivet run softmax.s --dump l2:0x20:8x8:bf16=out.npy     # a file with a shape\n"
               "  trivet run softmax.s --compare l2:0x20:64:bf16=want.memh # exit status 1 if it differs\n"
               "  trivet run compiled --input image=three.npy --output scores=scores.npy",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tcDIdj",
    .files_min = 1,
    .files_max = 4096,
    .values = "FILE",
    .run = run_programs,
};
