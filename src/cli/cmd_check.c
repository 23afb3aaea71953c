/* SPDX-License-Identifier: Apache-2.0 */
/* trivet check: validate and lint programs without running them. */
#include "cli/cli.h"

static const cli_option options[] = {
    {"strict", 0, NULL, "treat warnings as errors", NULL},
};

static const char *plural_suffix(uint64_t n) { return n == 1 ? "" : "s"; }

static tv_status check_file(cli *c, const char *path, tv_check_counts *total)
{
    tv_program *program;
    tv_config *config = NULL;
    tv_check_counts counts = {0};
    unsigned warnings = c->warnings;
    tv_status status = cli_open_program(c, path, &program);
    if (status != TV_OK)
        return status;
    warnings = c->warnings - warnings;
    status = cli_make_config(c, tv_program_target(program), false, &config);
    if (status == TV_OK)
        status = tv_program_check(program, config, &c->sink, &counts);
    counts.warnings += warnings; /* include those of the assembler */
    total->errors += counts.errors;
    total->warnings += counts.warnings;
    if (status == TV_OK && !c->json && !c->quiet)
        printf("%s: %llu instruction%s, %llu error%s, %llu warning%s\n", path,
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
