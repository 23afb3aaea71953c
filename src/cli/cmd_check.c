/* SPDX-License-Identifier: Apache-2.0 */
/* trivet check: validate and lint programs without running them. */
#include <errno.h>
#include <sys/stat.h>

#include "cli/cli.h"

static const cli_option options[] = {
    {"strict", 0, NULL,
     "treat warnings as errors; warn about additions to the published queue format, and count needless dependencies",
     NULL},
};

static const char *plural_suffix(uint64_t n) { return n == 1 ? "" : "s"; }

/* ---- Source lines of findings ---- */

enum { SOURCE_LINE_MAX = 400 };

/* A sink that adds the line of the assembly source to a finding, as the assembler's own errors have it. It reads only
 * the checked file: an ELF file may name any other. */
typedef struct source_lines {
    const tv_diag_sink *sink;
    const char *path;
    FILE *file;    /* NULL: not open */
    unsigned line; /* number of the line that was read last */
    char *text;    /* that line */
    size_t size;
    int error; /* errno of a failed call; 0: none failed */
} source_lines;

static bool is_json(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".jsonl") == 0);
}

static void open_source(source_lines *source)
{
    struct stat st;
    bool found = stat(source->path, &st) == 0;
    bool host_failed = !found && (errno == EIO || errno == ENOMEM);
    if (found && S_ISREG(st.st_mode) && !is_json(source->path)) {
        source->file = fopen(source->path, "r");
        host_failed = !source->file;
    }
    source->error = host_failed ? errno : 0;
}

/* Continues with the first line. */
static void go_to_start(source_lines *source)
{
    source->line = 0;
    if (fseek(source->file, 0, SEEK_SET) != 0)
        source->error = errno;
}

/* Reads line `number`, from 1. Findings come in the order of the instructions, so most lines are ahead. */
static bool read_line(source_lines *source, unsigned number)
{
    if (!source->file || source->error)
        return false;
    if (number < source->line)
        go_to_start(source);
    for (; source->line < number && !source->error; source->line++) {
        errno = 0;
        if (getline(&source->text, &source->size, source->file) < 0) {
            source->error = errno; /* 0: the end of a file that has changed */
            go_to_start(source);
            return false;
        }
    }
    if (source->error)
        return false;
    source->text[strcspn(source->text, "\r\n")] = '\0';
    if (strlen(source->text) > SOURCE_LINE_MAX)
        source->text[SOURCE_LINE_MAX] = '\0';
    for (char *p = source->text; *p; p++)
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
            *p = ' ';
    return true;
}

static void emit_with_line(void *user, const tv_diag *diag)
{
    source_lines *source = user;
    tv_diag copy = *diag;
    bool own = diag->file && diag->line && !diag->source_line && strcmp(diag->file, source->path) == 0;
    if (own && read_line(source, diag->line)) {
        copy.source_line = source->text;
        if (!copy.length && copy.column && copy.column <= strlen(source->text))
            copy.length = (unsigned)strcspn(source->text + copy.column - 1, " \t;#");
    }
    source->sink->emit(source->sink->user, &copy);
}

static tv_status check_program(cli *c, const char *path, const tv_program *program, const tv_config *config,
                               tv_check_counts *counts)
{
    source_lines source = {.sink = &c->sink, .path = path};
    const tv_diag_sink sink = {emit_with_line, &source};
    open_source(&source);
    tv_status status = tv_program_check(program, config, &sink, counts);
    if (source.file)
        fclose(source.file);
    free(source.text);
    if (!source.error || status == TV_ERR_MEMORY)
        return status;
    if (source.error == ENOMEM)
        return TV_ERR_MEMORY;
    cli_error(c, CLI_E_FILE, NULL, "cannot read '%s': %s", path, strerror(source.error));
    return TV_ERR_IO;
}

static tv_status check_file(cli *c, const char *path, tv_check_counts *total)
{
    tv_program *program;
    tv_config *config = NULL;
    tv_check_counts counts = {0};
    uint64_t implied;
    unsigned warnings = c->warnings;
    tv_status status = cli_open_program(c, path, &program);
    if (status != TV_OK)
        return status;
    warnings = c->warnings - warnings;
    status = cli_make_program_config(c, program, &config);
    if (status == TV_OK)
        status = check_program(c, path, program, config, &counts);
    if (status == TV_OK && cli_has(c, "strict"))
        counts.warnings += tv_program_additions(program, &c->sink);
    if (status == TV_OK && cli_has(c, "strict") && !counts.errors)
        status = tv_program_implied_dependencies(program, config, &c->sink, &implied);
    counts.warnings += warnings; /* include those of the assembler */
    total->errors += counts.errors;
    total->warnings += counts.warnings;
    if (status == TV_OK && !c->json && !c->quiet)
        printf("%s: %llu instruction%s, %llu error%s, %llu warning%s\n", CLI_SAFE(path),
               (unsigned long long)tv_program_instruction_count(program),
               plural_suffix(tv_program_instruction_count(program)), (unsigned long long)counts.errors,
               plural_suffix(counts.errors), (unsigned long long)counts.warnings, plural_suffix(counts.warnings));
    tv_config_free(config);
    tv_program_free(program);
    return status;
}

static void write_result_json(cli *c, const tv_check_counts *total)
{
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "errors", total->errors);
    tv_json_unsigned_member(w, "warnings", total->warnings);
    tv_json_end_object(w);
}

static int run_check(cli *c)
{
    tv_check_counts total = {0};
    tv_status status = TV_OK;
    for (unsigned i = 0; i < c->file_count && status == TV_OK; i++)
        status = check_file(c, c->files[i], &total);
    bool found = total.errors || (cli_has(c, "strict") && total.warnings);
    if (c->json && status == TV_OK)
        write_result_json(c, &total);
    return status != TV_OK ? cli_exit_status(status) : found ? CLI_FAULT : CLI_OK;
}

const cli_command cli_check = {
    .name = "check",
    .usage = "check FILE … [--strict]",
    .summary = "validate and lint a program without running it",
    .about =
        "Finds decode faults, accesses outside memory, stream and FIFO underruns, reads of memory that was never "
        "written, results\n"
        "that are overwritten before they are read, and flags without effect. In a command queue, also finds "
        "hazards (entries that\n"
        "access the same bytes without an order between them) and unused loads. Exit status 1 if there are errors.",
    .example = "  trivet check softmax.s\n  trivet check -c kv260 model.elf --json",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tcDIdj",
    .files_min = 1,
    .files_max = 4096,
    .values = "FILE",
    .run = run_check,
};
