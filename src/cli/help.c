/* SPDX-License-Identifier: Apache-2.0 */
/* Help and the manual page, from the tables of commands and options. */
#include <time.h>

#include "cli/cli.h"

enum { OPTIONS_MAX = 48 };

static const char summary[] = "assemble, check, run, time and trace programs of neural processors";

void cli_print_usage(FILE *out)
{
    fprintf(out, "trivet: %s\n\nusage: trivet COMMAND [options] …\n\n", summary);
    for (unsigned i = 0; cli_commands[i]; i++)
        fprintf(out, "  %-12s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fprintf(out, "\n`trivet COMMAND --help` explains a command.\n");
}

static int print_option(const cli_option *o, char *text, size_t size)
{
    char letter[8] = "    ";
    if (cli_has_short_form(o))
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    return snprintf(text, size, "%s--%s%s%s", letter, o->name, o->arg ? " " : "", o->arg ? o->arg : "");
}

void cli_print_help(const cli_command *command, FILE *out)
{
    const cli_option *options[OPTIONS_MAX];
    unsigned n = cli_list_options(command, options, OPTIONS_MAX);
    fprintf(out, "trivet %s: %s\n\nusage: trivet %s\n", command->name, command->summary, command->usage);
    if (command->about)
        fprintf(out, "\n%s\n", command->about);
    fprintf(out, "\noptions:\n");
    for (unsigned i = 0; i < n; i++) {
        char text[96];
        print_option(options[i], text, sizeof text);
        fprintf(out, "  %-30s %s\n", text, options[i]->help);
    }
    if (command->example)
        fprintf(out, "\nexamples:\n%s\n", command->example);
}

static const char *command_name(unsigned i, const void *user)
{
    (void)user;
    return cli_commands[i] ? cli_commands[i]->name : NULL;
}

static int run_help(cli *c)
{
    if (c->file_count == 0) {
        cli_print_usage(stdout);
        return CLI_OK;
    }
    for (unsigned i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, c->files[0]) == 0) {
            cli_print_help(cli_commands[i], stdout);
            return CLI_OK;
        }
    char hint[96] = "`trivet help` lists the commands";
    const char *best = cli_nearest(c->files[0], command_name, NULL);
    if (best)
        snprintf(hint, sizeof hint, "did you mean '%s'?", best);
    return cli_error(c, CLI_E_COMMAND, hint, "unknown command '%s'", c->files[0]);
}

const cli_command cli_help = {.name = "help",
                              .usage = "help [COMMAND]",
                              .summary = "explain a command",
                              .common = "",
                              .files_max = 1,
                              .values = "COMMAND",
                              .example = "  trivet help run",
                              .run = run_help};

/* ---- Manual page ---- */

/* Escapes what roff interprets: backslashes, a period or quote at the start of a line, and hyphens. */
static void print_roff(const char *text, FILE *out)
{
    bool start = true;
    for (; *text; text++) {
        if (start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        start = *text == '\n';
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            putc(*text, out);
    }
}

static void print_man_options(const cli_command *command, FILE *out)
{
    const cli_option *options[OPTIONS_MAX];
    unsigned n = cli_list_options(command, options, OPTIONS_MAX);
    for (unsigned i = 0; i < n; i++) {
        if (strchr("qvXCh", options[i]->letter) && options[i]->letter)
            continue;
        char text[96];
        print_option(options[i], text, sizeof text);
        fputs(".TP\n.B ", out);
        print_roff(text + strspn(text, " "), out);
        fputs("\n", out);
        print_roff(options[i]->help, out);
        fputs("\n", out);
    }
}

void cli_print_man(FILE *out)
{
    fprintf(out, ".TH TRIVET 1 \"\" \"trivet %s\" \"User Commands\"\n.SH NAME\ntrivet \\- ", tv_version());
    print_roff(summary, out);
    fputs("\n.SH SYNOPSIS\n.B trivet\n.I COMMAND\n[options] …\n.SH DESCRIPTION\nTrivet is a golden model and a "
          "performance model of published "
          "neural processors: it assembles, checks, disassembles, runs, times and traces their programs, bit by bit "
          "and cycle by cycle.\n",
          out);
    fputs(".SH COMMANDS\n", out);
    for (unsigned i = 0; cli_commands[i]; i++) {
        fputs(".SS trivet ", out);
        print_roff(cli_commands[i]->usage, out);
        fputs("\n", out);
        print_roff(cli_commands[i]->summary, out);
        fputs(".\n", out);
        if (cli_commands[i]->about) {
            fputs(".PP\n", out);
            print_roff(cli_commands[i]->about, out);
            fputs("\n", out);
        }
        print_man_options(cli_commands[i], out);
        if (cli_commands[i]->example) {
            fputs(".PP\n.nf\n", out);
            print_roff(cli_commands[i]->example, out);
            fputs("\n.fi\n", out);
        }
    }
    fputs(".SH \"COMMON OPTIONS\"\n", out);
    for (const cli_option *o = cli_common_options; o->name; o++) {
        if (!strchr("qvXCh", o->letter))
            continue;
        char text[96];
        print_option(o, text, sizeof text);
        fputs(".TP\n.B ", out);
        print_roff(text + strspn(text, " "), out);
        fprintf(out, "\n%s\n", o->help);
    }
    fputs(".SH ENVIRONMENT\n.TP\n.B TRIVET_KERNELS\nthe host kernels, as \\-\\-kernels selects them\n.TP\n.B NO_COLOR\n"
          "if set, \\-\\-color auto prints no color\n.TP\n.B LC_ALL, LC_CTYPE, LANG\nthe first that is not empty is "
          "the locale; "
          "without UTF\\-8 in it the bars of tables are ASCII\n",
          out);
    fputs(".SH \"EXIT STATUS\"\n0 success; 1 the simulated machine faulted or a check found errors; 2 invalid usage or "
          "input; 3 the tool failed (I/O, memory).\n.SH \"SEE ALSO\"\nThe manual, installed under doc/trivet.\n",
          out);
}
