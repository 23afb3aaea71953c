/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands share: the table of commands, parsed arguments, output. The command line uses the public library
 * alone. */
#ifndef TV_CLI_CLI_H
#define TV_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trivet/trivet.h"

enum { CLI_DONE = 0, CLI_FAULT = 1, CLI_WRONG = 2, CLI_FAILED = 3 };

#define CLI_COUNTOF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct cli_option {
    const char *name; /* "--name" without the dashes */
    char letter;      /* 0: none */
    const char *arg;  /* name of its argument, or NULL */
    const char *help;
    const char *values; /* words for completion, or "FILE", "TARGET", "PROFILE"; NULL: none */
} cli_option;

typedef struct cli_given {
    const cli_option *option;
    const char *value;
} cli_given;

typedef struct cli {
    const struct cli_command *command;
    cli_given *given;
    unsigned given_count;
    const char **files; /* positional arguments */
    unsigned file_count;
    bool json, quiet, verbose, color; /* color: on stderr */
    bool out_color;
    tv_diag_sink sink;
    json_t *diagnostics; /* --json: what was reported */
    bool answered;       /* … and the result has been printed */
    unsigned errors, warnings;
} cli;

typedef struct cli_command {
    const char *name, *usage, *summary;
    const char *about;   /* paragraphs of --help and the manual */
    const char *example; /* lines, each a command and `# what it does` */
    const cli_option *options;
    unsigned option_count;
    const char *common;   /* which common options it takes, by letter; 'j' --json */
    unsigned least, most; /* positional arguments */
    const char *values;   /* of positional arguments, as cli_option.values */
    int (*run)(cli *c);
} cli_command;

extern const cli_command *const cli_commands[]; /* ends with NULL */

/* options.c */
extern const cli_option cli_common_options[];
unsigned cli_options_of(const cli_command *command, const cli_option *out[], unsigned most); /* own, then common */
int cli_parse(cli *c, int argc, char **argv); /* CLI_DONE, or an exit status after a message; -1: help is wanted */
const char *cli_value(const cli *c, const char *name); /* the last one given, or NULL */
bool cli_has(const cli *c, const char *name);
const char *cli_value_at(const cli *c, const char *name, unsigned i); /* the i-th given, or NULL */
const char *cli_nearest(const char *word, const char *(*candidate)(unsigned i, const void *user), const void *user);

/* help.c */
void cli_print_help(const cli_command *command, FILE *out);
void cli_print_usage(FILE *out);
extern const cli_command cli_help, cli_completion;

/* output.c */
int cli_exit_status(tv_status status);
int cli_wrong(cli *c, const char *hint, const char *format, ...) TV_PRINTF(3, 4);
void cli_print_json(cli *c, json_t *value); /* to stdout, takes the reference */
json_t *cli_string(const char *text);       /* JSON string, "?" for bytes that are not UTF-8; null for NULL */
bool cli_parse_number(const char *text, uint64_t *out);
bool cli_same_file(const char *a, const char *b); /* also by other names; "-" and devices are never the same */

/* progress.c */
typedef struct cli_progress {
    double start, last;
    bool wanted, shown;
} cli_progress;
void cli_progress_begin(cli *c, cli_progress *progress);
void cli_progress_show(cli_progress *progress, const char *what, uint64_t done, uint64_t total);
void cli_progress_end(cli_progress *progress);

/* figures.c */
void cli_print_bar(double share, bool color, FILE *out); /* 20 places */
void cli_print_amount(double bytes, FILE *out);          /* 13 places */
void cli_print_time(double seconds, FILE *out);
void cli_print_figure(double value, int width,
                      FILE *out); /* four digits, or all before the point; never an exponent for a large one */

/* program.c */
tv_status cli_open_program(cli *c, const char *path, tv_program **out);
tv_status cli_make_config(cli *c, const char *target, bool several,
                          tv_config **out); /* several: -D may be of another machine */
bool cli_use_kernels(cli *c);               /* --kernels, else TRIVET_KERNELS; false after a message */
tv_program_options cli_program_options(const cli *c, const char **dirs, const char **defines);

extern const cli_command cli_asm, cli_dis, cli_isa, cli_check, cli_run, cli_debug, cli_trace, cli_llm, cli_config,
    cli_targets, cli_version;

#endif
