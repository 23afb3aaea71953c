/* SPDX-License-Identifier: Apache-2.0 */
/* The trivet command: selects the command, parses its options, runs it. */
#include "cli/cli.h"

const cli_command *const cli_commands[] = {&cli_asm,     &cli_dis,   &cli_isa,        &cli_check,  &cli_run,
                                           &cli_debug,   &cli_trace, &cli_llm,        &cli_config, &cli_targets,
                                           &cli_version, &cli_help,  &cli_completion, NULL};

static const char *command_name(unsigned i, const void *user)
{
    (void)user;
    return cli_commands[i] ? cli_commands[i]->name : NULL;
}

static const cli_command *find_command(const char *name)
{
    static const char *const aliases[][2] = {
        {"--help", "help"}, {"-h", "help"}, {"--version", "version"}, {"-V", "version"}};
    for (size_t i = 0; i < CLI_COUNTOF(aliases); i++)
        if (strcmp(name, aliases[i][0]) == 0)
            name = aliases[i][1];
    for (unsigned i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}

static int fail_command(cli *c, const char *name)
{
    char hint[96] = "`trivet help` lists the commands";
    const char *best = cli_nearest(name, command_name, NULL);
    if (best)
        snprintf(hint, sizeof hint, "did you mean '%s'?", best);
    return cli_error(c, hint, "unknown command '%s'", name);
}

/* With --json, an error without a result of its own is a result, too. */
static void write_error_json(cli *c)
{
    tv_json_writer *w = cli_begin_json(c);
    tv_json_begin_object(w);
    tv_json_string_member(w, "status", "error");
    cli_write_diagnostics(c, w);
    tv_json_end_object(w);
    cli_end_json(w);
}

int main(int argc, char **argv)
{
    cli c = {0};
    if (argc < 2) {
        cli_print_usage(stderr);
        return CLI_INVALID;
    }
    c.command = find_command(argv[1]);
    if (!c.command)
        return fail_command(&c, argv[1]);
    c.sink = cli_diag_sink(&c);
    int status = cli_parse(&c, argc - 1, argv + 1);
    if (status == CLI_OK) {
        status = c.command->run(&c);
    } else if (status == CLI_SHOW_HELP) {
        cli_print_help(c.command, stdout);
        status = CLI_OK;
    }
    if (status == CLI_FAILED && c.errors == 0)
        fprintf(stderr, "trivet: error: out of memory\n");
    if (c.json && !c.json_written && (status == CLI_INVALID || status == CLI_FAILED))
        write_error_json(&c);
    /* A full disk or a closed pipe must not look like success. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_OK) {
        fprintf(stderr, "trivet: error: cannot write to standard output\n");
        status = CLI_FAILED;
    }
    cli_free_diagnostics(&c);
    free(c.arguments);
    free((void *)c.files);
    return status;
}
