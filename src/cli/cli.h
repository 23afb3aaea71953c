/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands share: the table of commands, parsed arguments, output. The command line uses only the public
 * headers of the library. */
#ifndef TV_CLI_CLI_H
#define TV_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trivet/trivet.h"

/* Exit statuses. */
enum {
    CLI_OK = 0,
    CLI_FAULT = 1,   /* the simulated machine faulted, or a check found errors */
    CLI_INVALID = 2, /* invalid usage or input */
    CLI_FAILED = 3   /* the tool failed: I/O, memory */
};

#define CLI_COUNTOF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct cli_option {
    const char *name; /* "--name" without the dashes */
    char letter;      /* 0: none */
    const char *arg;  /* name of its argument; NULL: takes none */
    const char *help;
    const char *values; /* for completion: values separated by spaces, or "FILE", "TARGET", "PROFILE"; NULL: none */
} cli_option;

typedef struct cli_argument {
    const cli_option *option;
    const char *value; /* NULL: the option takes none */
} cli_argument;

typedef struct cli {
    const struct cli_command *command;
    cli_argument *arguments; /* options in the order given */
    unsigned argument_count;
    const char **files; /* positional arguments */
    unsigned file_count;
    bool json, quiet, verbose;
    bool color, out_color; /* on stderr, on stdout */
    tv_diag_sink sink;
    tv_diag *diagnostics; /* --json: copies of the reported ones */
    unsigned diagnostic_count;
    bool json_written; /* --json: the result has been printed */
    unsigned errors, warnings;
} cli;

typedef struct cli_command {
    const char *name, *usage, *summary;
    const char *about;   /* paragraphs of --help and the manual page */
    const char *example; /* lines, each a command and `# what it does` */
    const cli_option *options;
    unsigned option_count;
    const char *common;            /* letters of the common options that it accepts; 'j' is --json */
    unsigned files_min, files_max; /* positional arguments */
    const char *values;            /* of positional arguments, as cli_option.values */
    int (*run)(cli *c);            /* returns an exit status */
} cli_command;

extern const cli_command *const cli_commands[]; /* terminated by NULL */

/* ---- options.c ---- */

extern const cli_option cli_common_options[];

/* The options of a command: its own, then the common ones. Returns how many, at most `max`. */
unsigned cli_list_options(const cli_command *command, const cli_option *out[], unsigned max);

/* Parses the command line. Returns CLI_OK; an exit status after an error; or CLI_SHOW_HELP. */
enum { CLI_SHOW_HELP = -1 };
int cli_parse(cli *c, int argc, char **argv);

const char *cli_value(const cli *c, const char *name);                /* of the last occurrence; NULL: none */
const char *cli_value_at(const cli *c, const char *name, unsigned i); /* of occurrence `i`; NULL: none */
bool cli_has(const cli *c, const char *name);

/* The candidate that `word` is most similar to; NULL: none is similar. candidate(i) returns NULL past the last one. */
const char *cli_nearest(const char *word, const char *(*candidate)(unsigned i, const void *user), const void *user);

/* ---- help.c ---- */

void cli_print_help(const cli_command *command, FILE *out);
void cli_print_usage(FILE *out);
extern const cli_command cli_help, cli_completion;

/* ---- output.c ---- */

int cli_exit_status(tv_status status);

/* Prints an error and its hint (may be NULL) to stderr; returns CLI_INVALID. */
int cli_error(cli *c, const char *hint, const char *format, ...) TV_PRINTF(3, 4);

/* The sink of a command: prints diagnostics to stderr, and keeps them for the JSON result. */
tv_diag_sink cli_diag_sink(cli *c);
void cli_free_diagnostics(cli *c);

/* Starts the JSON result on standard output. The caller writes one value and then calls cli_end_json. */
tv_json_writer *cli_begin_json(cli *c);
void cli_end_json(tv_json_writer *writer);

/* Writes the member "diagnostics". */
void cli_write_diagnostics(const cli *c, tv_json_writer *writer);
void cli_write_real(tv_json_writer *writer, const char *key, double value); /* nine digits */

bool cli_parse_number(const char *text, uint64_t *out);

/* True if both paths name the same regular file, existing or not. "-" and devices are never the same. */
bool cli_same_file(const char *a, const char *b);

/* ---- progress.c ---- */

typedef struct cli_progress {
    double start, last; /* seconds */
    bool enabled, shown;
} cli_progress;
void cli_progress_begin(cli *c, cli_progress *progress);
void cli_progress_show(cli_progress *progress, const char *what, uint64_t done, uint64_t total);
void cli_progress_end(cli_progress *progress);

/* ---- numbers.c ---- */

void cli_print_bar(double fraction, bool color, FILE *out); /* 20 columns */
void cli_print_bytes(double bytes, FILE *out);              /* 13 columns */
void cli_print_time(double seconds, FILE *out);

/* Four significant digits, or all digits of the integer part; left-aligned in `width` columns. */
void cli_print_number(double value, int width, FILE *out);

/* ---- program.c ---- */

tv_status cli_open_program(cli *c, const char *path, tv_program **out);

/* A configuration from -c and -D. `skip_other_targets`: ignore parameters that only another target has. */
tv_status cli_make_config(cli *c, const char *target, bool skip_other_targets, tv_config **out);

/* Selects the host kernels given by --kernels or TRIVET_KERNELS. Returns false after an error. */
bool cli_select_kernels(cli *c);
tv_program_options cli_program_options(const cli *c, const char **dirs, const char **defines);

extern const cli_command cli_asm, cli_dis, cli_isa, cli_check, cli_run, cli_debug, cli_trace, cli_llm, cli_config,
    cli_targets, cli_version;

#endif
