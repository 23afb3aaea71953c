/* SPDX-License-Identifier: Apache-2.0 */
/* The trivet command: selects the command, parses its options, runs it. */
#include <unistd.h>

#include "cli/cli.h"

const cli_command *const cli_commands[] = {
    &cli_asm,     &cli_dis,     &cli_isa,     &cli_check,   &cli_run,     &cli_debug,  &cli_trace,      &cli_llm,
    &cli_infer,   &cli_compile, &cli_cosim,   &cli_cover,   &cli_gen,     &cli_reduce, &cli_sweep,      &cli_validate,
    &cli_vectors, &cli_config,  &cli_explain, &cli_targets, &cli_version, &cli_help,   &cli_completion, NULL};

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
    return cli_error(c, CLI_E_COMMAND, hint, "unknown command '%s'", name);
}

/* True if --json is among the options, which are not parsed when a command is unknown or an option is wrong. */
static bool has_json_option(int argc, char **argv)
{
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

static int run_command(cli *c, int argc, char **argv)
{
    if (!c->command)
        return fail_command(c, c->name);
    c->name = c->command->name;
    int status = cli_parse(c, argc - 1, argv + 1);
    if (status == CLI_OK)
        return c->command->run(c);
    if (status != CLI_SHOW_HELP)
        return status;
    c->raw_output = true;
    cli_print_help(c->command, stdout);
    return CLI_OK;
}

/* A full disk or a closed pipe must not look like success. */
static int check_streams(cli *c, int status)
{
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (written && fflush(stderr) == 0 && !ferror(stderr))
        return status;
    if (status != CLI_FAILED) {
        clearerr(stderr);
        c->json = false; /* the envelope is written */
        cli_error(c, CLI_E_DIRECTORY, NULL, "cannot write to standard %s", written ? "error" : "output");
    }
    return CLI_FAILED;
}

/* Completes standard output, then puts the files in place: none is left when a write fails. */
static int complete_outputs(cli *c, int status)
{
    if (status == CLI_FAILED && c->failures == 0)
        cli_fail_memory(c);
    if (c->no_memory)
        status = CLI_FAILED;
    if (c->json && !c->raw_output && (c->writer || c->own_writer))
        cli_end_envelope(c, status);
    status = check_streams(c, c->no_memory ? CLI_FAILED : status);
    c->json = false;
    if (status == CLI_OK || status == CLI_FAULT) {
        if (c->outputs && tv_output_group_commit(c->outputs, &c->sink) != TV_OK)
            status = CLI_FAILED;
    } else {
        tv_output_group_abandon(c->outputs);
    }
    return status;
}

int main(int argc, char **argv)
{
    static char out[BUFSIZ], errors[BUFSIZ]; /* a message that there is no memory needs none */
    cli c = {0};
    setvbuf(stdout, out, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof out);
    setvbuf(stderr, errors, _IOLBF, sizeof errors); /* without a buffer each mark is a system call */
    cli_handle_signals();
    if (argc < 2) {
        cli_print_usage(stderr);
        return CLI_INVALID;
    }
    c.name = argv[1];
    c.command = find_command(argv[1]);
    c.json = has_json_option(argc, argv) && (!c.command || strchr(c.command->common, 'j'));
    c.sink = cli_diag_sink(&c);
    int status = CLI_FAILED;
    if (c.json)
        c.own_writer = tv_json_writer_new(stdout, TV_JSON_INDENTED);
    if (!c.json || c.own_writer)
        status = run_command(&c, argc, argv);
    status = complete_outputs(&c, status);
    cli_free_diagnostics(&c);
    tv_json_writer_free(c.own_writer);
    free(c.arguments);
    free((void *)c.files);
    return status;
}
