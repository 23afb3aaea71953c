/* SPDX-License-Identifier: Apache-2.0 */
/* Help, shell completion and manual pages, all from the tables of commands and options. */
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

static int option_text(const cli_option *o, char *text, size_t size)
{
    char letter[8] = "    ";
    if (o->letter && o->letter != 'j' && o->letter != 'C')
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    return snprintf(text, size, "%s--%s%s%s", letter, o->name, o->arg ? " " : "", o->arg ? o->arg : "");
}

void cli_print_help(const cli_command *command, FILE *out)
{
    const cli_option *options[OPTIONS_MAX];
    unsigned n = cli_options_of(command, options, OPTIONS_MAX);
    fprintf(out, "trivet %s: %s\n\nusage: trivet %s\n", command->name, command->summary, command->usage);
    if (command->about)
        fprintf(out, "\n%s\n", command->about);
    fprintf(out, "\noptions:\n");
    for (unsigned i = 0; i < n; i++) {
        char text[96];
        option_text(options[i], text, sizeof text);
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
        return CLI_DONE;
    }
    for (unsigned i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, c->files[0]) == 0) {
            cli_print_help(cli_commands[i], stdout);
            return CLI_DONE;
        }
    char hint[96] = "`trivet help` lists the commands";
    const char *best = cli_nearest(c->files[0], command_name, NULL);
    if (best)
        snprintf(hint, sizeof hint, "did you mean '%s'?", best);
    return cli_wrong(c, hint, "unknown command '%s'", c->files[0]);
}

const cli_command cli_help = {.name = "help",
                              .usage = "help [COMMAND]",
                              .summary = "explain a command",
                              .common = "",
                              .most = 1,
                              .values = "COMMAND",
                              .example = "  trivet help run",
                              .run = run_help};

/* ---- Completion ---- */

static void bash_words(const char *values, FILE *out)
{
    if (!values)
        return;
    if (strcmp(values, "FILE") == 0)
        fputs("COMPREPLY=($(compgen -f -- \"$cur\"))", out);
    else if (strcmp(values, "TARGET") == 0)
        fputs("COMPREPLY=($(compgen -W \"$(trivet targets -q)\" -- \"$cur\"))", out);
    else if (strcmp(values, "PROFILE") == 0)
        fputs("COMPREPLY=($(compgen -W \"$(trivet config --list)\" -f -- \"$cur\"))", out);
    else if (strcmp(values, "COMMAND") == 0) {
        fputs("COMPREPLY=($(compgen -W \"", out);
        for (unsigned i = 0; cli_commands[i]; i++)
            fprintf(out, "%s ", cli_commands[i]->name);
        fputs("\" -- \"$cur\"))", out);
    } else
        fprintf(out, "COMPREPLY=($(compgen -W \"%s\" -- \"$cur\"))", values);
}

static void bash_command(const cli_command *command, FILE *out)
{
    const cli_option *options[OPTIONS_MAX];
    unsigned n = cli_options_of(command, options, OPTIONS_MAX);
    fprintf(out, "    %s)\n      case \"$prev\" in\n", command->name);
    for (unsigned i = 0; i < n; i++) {
        if (!options[i]->arg)
            continue;
        if (options[i]->letter && options[i]->letter != 'C')
            fprintf(out, "        -%c|--%s) ", options[i]->letter, options[i]->name);
        else
            fprintf(out, "        --%s) ", options[i]->name);
        bash_words(options[i]->values, out);
        fputs(options[i]->values ? "; return ;;\n" : "return ;;\n", out);
    }
    fputs("      esac\n      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"", out);
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "--%s ", options[i]->name);
    fputs("\" -- \"$cur\")); return; fi\n      ", out);
    bash_words(command->values, out);
    fputs("\n      ;;\n", out);
}

static void print_bash(FILE *out)
{
    fputs("# bash completion of trivet, made by `trivet completion bash`\n_trivet() {\n"
          "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n  COMPREPLY=()\n"
          "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W \"",
          out);
    for (unsigned i = 0; cli_commands[i]; i++)
        fprintf(out, "%s ", cli_commands[i]->name);
    fputs("\" -- \"$cur\"))\n    return\n  fi\n  case \"${COMP_WORDS[1]}\" in\n", out);
    for (unsigned i = 0; cli_commands[i]; i++)
        bash_command(cli_commands[i], out);
    fputs("  esac\n}\ncomplete -o filenames -F _trivet trivet\n", out);
}

static void zsh_action(const char *values, FILE *out)
{
    if (!values)
        fputs(": ", out);
    else if (strcmp(values, "FILE") == 0)
        fputs("_files", out);
    else if (strcmp(values, "TARGET") == 0)
        fputs("($(trivet targets -q))", out);
    else if (strcmp(values, "PROFILE") == 0)
        fputs("($(trivet config --list))", out);
    else if (strcmp(values, "COMMAND") == 0)
        fputs("_trivet_commands", out);
    else
        fprintf(out, "(%s)", values);
}

/* zsh reads [ ] : ' in descriptions; they are left out or escaped. */
static void zsh_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (strchr("[]:", *text))
            putc('\\', out);
        if (*text == '\'')
            fputs("'\\'", out);
        putc(*text, out);
    }
}

static void print_zsh(FILE *out)
{
    fputs("#compdef trivet\n# zsh completion of trivet, made by `trivet completion zsh`\n_trivet_commands() {\n  local "
          "-a commands=(\n",
          out);
    for (unsigned i = 0; cli_commands[i]; i++) {
        fprintf(out, "    '%s:", cli_commands[i]->name);
        zsh_text(cli_commands[i]->summary, out);
        fputs("'\n", out);
    }
    fputs("  )\n  _describe command commands\n}\n_trivet() {\n  if (( CURRENT == 2 )); then _trivet_commands; return; "
          "fi\n"
          "  local command=$words[2]\n  shift words; (( CURRENT-- ))\n  case $command in\n",
          out);
    for (unsigned i = 0; cli_commands[i]; i++) {
        const cli_option *options[OPTIONS_MAX];
        unsigned n = cli_options_of(cli_commands[i], options, OPTIONS_MAX);
        fprintf(out, "    %s) _arguments", cli_commands[i]->name);
        for (unsigned k = 0; k < n; k++) {
            fprintf(out, " \\\n      '*--%s%s[", options[k]->name, options[k]->arg ? "=" : "");
            zsh_text(options[k]->help, out);
            fputs("]", out);
            if (options[k]->arg) {
                fprintf(out, ":%s:", options[k]->arg);
                zsh_action(options[k]->values, out);
            }
            fputs("'", out);
        }
        fputs(" \\\n      '*:argument:", out);
        zsh_action(cli_commands[i]->values, out);
        fputs("' ;;\n", out);
    }
    fputs("  esac\n}\n_trivet \"$@\"\n", out);
}

/* ---- Manual page ---- */

/* Text for roff: a backslash, and a period or quote at a line's start, would be commands; dashes are minus signs. */
static void roff(const char *text, FILE *out)
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

static void man_options(const cli_command *command, FILE *out)
{
    const cli_option *options[OPTIONS_MAX];
    unsigned n = cli_options_of(command, options, OPTIONS_MAX);
    for (unsigned i = 0; i < n; i++) {
        if (strchr("qvCh", options[i]->letter) && options[i]->letter)
            continue;
        char text[96];
        option_text(options[i], text, sizeof text);
        fputs(".TP\n.B ", out);
        roff(text + strspn(text, " "), out);
        fputs("\n", out);
        roff(options[i]->help, out);
        fputs("\n", out);
    }
}

static void print_man(FILE *out)
{
    fprintf(out, ".TH TRIVET 1 \"\" \"trivet %s\" \"User Commands\"\n.SH NAME\ntrivet \\- ", tv_version());
    roff(summary, out);
    fputs("\n.SH SYNOPSIS\n.B trivet\n.I COMMAND\n[options] …\n.SH DESCRIPTION\nTrivet is a golden model and a "
          "performance model of published "
          "neural processors: it assembles, checks, disassembles, runs, times and traces their programs, bit by bit "
          "and cycle by cycle.\n",
          out);
    fputs(".SH COMMANDS\n", out);
    for (unsigned i = 0; cli_commands[i]; i++) {
        fputs(".SS trivet ", out);
        roff(cli_commands[i]->usage, out);
        fputs("\n", out);
        roff(cli_commands[i]->summary, out);
        fputs(".\n", out);
        if (cli_commands[i]->about) {
            fputs(".PP\n", out);
            roff(cli_commands[i]->about, out);
            fputs("\n", out);
        }
        man_options(cli_commands[i], out);
        if (cli_commands[i]->example) {
            fputs(".PP\n.nf\n", out);
            roff(cli_commands[i]->example, out);
            fputs("\n.fi\n", out);
        }
    }
    fputs(".SH \"COMMON OPTIONS\"\n", out);
    for (const cli_option *o = cli_common_options; o->name; o++) {
        if (!strchr("qvCh", o->letter))
            continue;
        char text[96];
        option_text(o, text, sizeof text);
        fputs(".TP\n.B ", out);
        roff(text + strspn(text, " "), out);
        fprintf(out, "\n%s\n", o->help);
    }
    fputs(".SH \"EXIT STATUS\"\n0 done; 1 the simulated machine faulted or a check found errors; 2 wrong use or wrong "
          "input; "
          "3 the tool's own failure (I/O, memory).\n.SH \"SEE ALSO\"\nThe manual, installed under doc/trivet.\n",
          out);
}

static int run_completion(cli *c)
{
    const char *shell = c->files[0];
    if (strcmp(shell, "bash") == 0)
        print_bash(stdout);
    else if (strcmp(shell, "zsh") == 0)
        print_zsh(stdout);
    else if (strcmp(shell, "man") == 0)
        print_man(stdout);
    else
        return cli_wrong(c, "bash, zsh or man", "no completion for '%s'", shell);
    return CLI_DONE;
}

const cli_command cli_completion = {.name = "completion",
                                    .usage = "completion bash|zsh|man",
                                    .summary = "print shell completion or the manual page",
                                    .common = "",
                                    .least = 1,
                                    .most = 1,
                                    .values = "bash zsh man",
                                    .example = "  source <(trivet completion bash)   # completion in this shell",
                                    .run = run_completion};
