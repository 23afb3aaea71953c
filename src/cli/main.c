/* SPDX-License-Identifier: Apache-2.0 */
/* The trivet command: picks the command, parses its options, runs it. */
#include "cli/cli.h"

const cli_command *const cli_commands[] = {&cli_asm,     &cli_dis,   &cli_isa,        &cli_check,  &cli_run,
                                           &cli_debug,   &cli_trace, &cli_llm,        &cli_config, &cli_targets,
                                           &cli_version, &cli_help,  &cli_completion, NULL};

/* Standard error for a person; with --json also kept for the result. */
static void take_diagnostic(void *user, const tv_diag *diag)
{
    cli *c = user;
    if (diag->severity == TV_ERROR)
        c->errors++;
    if (diag->severity == TV_WARNING)
        c->warnings++;
    char *text = c->json ? tv_diag_json(diag) : NULL;
    if (text) {
        json_array_append_new(c->diagnostics, json_loads(text, 0, NULL));
        free(text);
    }
    if (c->quiet && diag->severity != TV_ERROR)
        return;
    fflush(stdout);
    tv_diag_print(stderr, diag, c->color);
}

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

int main(int argc, char **argv)
{
    cli c = {0};
    if (argc < 2) {
        cli_print_usage(stderr);
        return CLI_WRONG;
    }
    c.command = find_command(argv[1]);
    if (!c.command) {
        char hint[96] = "`trivet help` lists the commands";
        const char *best = cli_nearest(argv[1], command_name, NULL);
        if (best)
            snprintf(hint, sizeof hint, "did you mean '%s'?", best);
        return cli_wrong(&c, hint, "unknown command '%s'", argv[1]);
    }
    c.sink = (tv_diag_sink){take_diagnostic, &c};
    c.diagnostics = json_array();
    int status = cli_parse(&c, argc - 1, argv + 1);
    if (status == CLI_DONE) {
        status = c.command->run(&c);
    } else if (status < 0) {
        cli_print_help(c.command, stdout);
        status = CLI_DONE;
    }
    if (status == CLI_FAILED && c.errors == 0)
        fprintf(stderr, "trivet: error: out of memory\n");
    if (c.json && !c.answered && (status == CLI_WRONG || status == CLI_FAILED))
        cli_print_json(&c, json_pack("{s:s, s:O}", "status", "error", "diagnostics", c.diagnostics));
    /* A full disk or a closed pipe must not look like success. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_DONE) {
        fprintf(stderr, "trivet: error: cannot write to standard output\n");
        status = CLI_FAILED;
    }
    json_decref(c.diagnostics);
    free(c.given);
    free((void *)c.files);
    return status;
}
