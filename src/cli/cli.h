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
    const char *values; /* for completion: values separated by spaces, words in capitals are kinds; NULL: none */
} cli_option;

typedef struct cli_argument {
    const cli_option *option;
    const char *value; /* NULL: the option takes none */
} cli_argument;

typedef struct cli {
    const struct cli_command *command; /* NULL: unknown */
    const char *name;                  /* of the command, as given or without an alias */
    cli_argument *arguments;           /* options in the order given */
    unsigned argument_count;
    const char **files; /* positional arguments */
    unsigned file_count;
    bool json, quiet, verbose;
    bool color, out_color; /* on stderr, on stdout */
    uint64_t line_limit;   /* --line-limit; 0: not given */
    tv_diag_sink sink;
    tv_diag *diagnostics; /* --json: copies of the reported ones */
    unsigned diagnostic_count;
    tv_json_writer *writer;     /* --json: of the envelope, from cli_begin_result on */
    tv_json_writer *own_writer; /* --json: until then */
    bool raw_output;            /* standard output has another document: there is no envelope */
    bool faulted;               /* the simulated machine faulted */
    unsigned errors, warnings;
    unsigned failures;     /* errors with a code of the host: TV-F… */
    bool no_memory;        /* the host ran out of memory, which has been reported */
    tv_program **programs; /* that are open: the files that they name are inputs of the command, too */
    unsigned program_count;
    tv_output_group *outputs; /* all files of the command, which main puts in place at the end; NULL: none */
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

bool cli_has_short_form(const cli_option *option); /* like -o */

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
void cli_print_man(FILE *out);
extern const cli_command cli_help;

/* ---- completion.c ---- */

extern const cli_command cli_completion;

/* Prints the candidates of a kind of values (FILE is left to the shell), one a line. `words` is the command line as far
 * as it is written, with the incomplete last word. Returns false if there is no such kind. */
bool cli_print_candidates(const char *kind, const char *const *words, unsigned count);

/* ---- output.c ---- */

int cli_exit_status(tv_status status);

/* The codes of the command's own errors (src/base/codes.def). */
#define CLI_E_COMMAND "TV-U001"     /* unknown command */
#define CLI_E_OPTION "TV-U002"      /* unknown option */
#define CLI_E_ARGUMENT "TV-U003"    /* an option without its argument, or with one that it does not take */
#define CLI_E_VALUE "TV-U004"       /* invalid value of an option or argument */
#define CLI_E_COUNT "TV-U005"       /* too few or too many arguments */
#define CLI_E_CONFLICT "TV-U006"    /* options that exclude each other or do not apply */
#define CLI_E_SAME_FILE "TV-U007"   /* one file for two uses */
#define CLI_E_TARGET "TV-U008"      /* the machine is not known */
#define CLI_E_INSTRUCTION "TV-U009" /* unknown instruction */
#define CLI_E_SLOWER "TV-U010"      /* trace diff --fail-above */
#define CLI_E_OUTPUTS "TV-U011"     /* no outputs to save */
#define CLI_E_DIFFERS "TV-U012"     /* run --compare */
#define CLI_E_COVERAGE "TV-V011"    /* cover --fail-below */
#define CLI_E_VALIDATION "TV-S004"  /* a run that the profile was not validated for */
#define CLI_E_INACCURATE "TV-S005"  /* validate --limit */
#define CLI_E_SLURM "TV-S008"       /* sweep --slurm */
#define CLI_E_SELF_TEST "TV-V005"   /* cosim compare --self-test */
#define CLI_E_FILE "TV-F001"
#define CLI_E_DIRECTORY "TV-F002"

/* Reports an error and its hint (may be NULL); returns CLI_INVALID. */
int cli_error(cli *c, const char *code, const char *hint, const char *format, ...) TV_PRINTF(4, 5);

/* Reports an error at a source location, whose `file` may be NULL, and its hint (may be NULL). */
void cli_error_at(cli *c, const char *code, const tv_source_line *at, const char *hint, const char *message);

/* Reports a warning and its hint (may be NULL). */
void cli_warn(cli *c, const char *code, const char *hint, const char *message);

/* Reports that the host is out of memory, once; no later diagnostic is reported, because what seems to be an error of
 * the input may be none. main ends with CLI_FAILED. */
void cli_fail_memory(cli *c);

/* The group of the command's files. main puts them in place after standard output has been written without errors, or
 * abandons them if the status is CLI_INVALID or CLI_FAILED. */
tv_status cli_outputs(cli *c, tv_output_group **out);

/* The sink of a command: prints diagnostics to stderr, and keeps them for the JSON result. */
tv_diag_sink cli_diag_sink(cli *c);
void cli_free_diagnostics(cli *c);

/* --json prints one object, the envelope: "command", "result", then "status" and "diagnostics", which are known last.
 * cli_begin_result starts it; the caller writes one value, the result. Commands without a result do not call it. */
tv_json_writer *cli_begin_result(cli *c);

/* Completes the envelope, with a result of null if there is none. */
void cli_end_envelope(cli *c, int exit_status);
void cli_write_real(tv_json_writer *writer, const char *key, double value); /* nine digits */

bool cli_parse_number(const char *text, uint64_t *out);

bool cli_ends_with(const char *text, const char *end);

/* True if both paths name the same regular file, existing or not. "-" and devices are never the same. */
bool cli_same_file(const char *a, const char *b);

/* Reports an error and returns true if writing `what` to `path` would overwrite an input of the command, under any
 * spelling of its path: a positional argument, a file of -c, --load, --compare, --script or --eval, or one that
 * an open program names. */
bool cli_overwrites_input(cli *c, const char *what, const char *path);

/* Foreign text (names of files, symbols, outputs) for printf, safe and of at most 255 bytes; lives as long as the
 * block. */
#define CLI_SAFE(text) tv_text_escape(text, (char[256]){0}, 256)

/* Prints foreign text, made safe, and a newline. */
void cli_print_line(FILE *out, const char *text);

/* ---- progress.c ---- */

typedef struct cli_progress {
    double start, last; /* seconds */
    bool enabled, shown;
    bool quiet;
    const char *what; /* static string; NULL: nothing is known yet */
    uint64_t done, total;
} cli_progress;

/* Between begin and end, a command that is stopped by a signal says how far it came. */
void cli_progress_begin(cli *c, cli_progress *progress);
void cli_progress_show(cli_progress *progress, const char *what, uint64_t done, uint64_t total);
void cli_progress_end(cli_progress *progress);
void cli_progress_hide(cli_progress *progress); /* clears the line, before other output */

/* Notes how far the work is, without showing it. */
void cli_progress_note(cli_progress *progress, const char *what, uint64_t done, uint64_t total);

/* The work that has begun and not ended; NULL: none. For signal handlers. */
const cli_progress *cli_progress_current(void);

/* ---- signals.c ---- */

/* Installs the handlers of the process. */
void cli_handle_signals(void);

/* Ends the process by signal `number`, as without a handler: removes temporary files and says how far the work is. Safe
 * in a signal handler. */
void cli_end_by_signal(int number);

/* ---- numbers.c ---- */

/* `utf8` if the locale of the environment is UTF-8, otherwise `ascii`. */
const char *cli_symbol(const char *utf8, const char *ascii);

void cli_print_bar(double fraction, bool color, FILE *out); /* 20 columns */
void cli_print_bytes(double bytes, FILE *out);              /* 13 columns */
void cli_print_time(double seconds, FILE *out);

/* `value` with thousands separators, for tables that people read; lives as long as the block. */
#define CLI_COUNT(value) cli_format_count(value, (char[32]){0})
const char *cli_format_count(uint64_t value, char text[32]);

/* Four significant digits, or all digits of the integer part; left-aligned in `width` columns. */
void cli_print_number(double value, int width, FILE *out);

/* ---- program.c ---- */

tv_status cli_open_program(cli *c, const char *path, tv_program **out);

/* A configuration from -c and -D. `skip_other_targets`: ignore parameters that only another target has. */
tv_status cli_make_config(cli *c, const char *target, bool skip_other_targets, tv_config **out);

/* The same for a program: without -c the profile that its `.profile` names. */
tv_status cli_make_program_config(cli *c, const tv_program *program, tv_config **out);

/* Warns if the profile of `config` was validated for other parameters, or for other numbers of cycles than `cycles`. */
void cli_check_validation(cli *c, const tv_config *config, uint64_t cycles);

/* Selects the host kernels given by --kernels or TRIVET_KERNELS. Returns false after an error. */
bool cli_select_kernels(cli *c);
tv_program_options cli_program_options(const cli *c, const char **dirs, const char **defines);

extern const cli_command cli_asm, cli_dis, cli_isa, cli_check, cli_run, cli_debug, cli_trace, cli_llm, cli_infer,
    cli_compile, cli_cosim, cli_cover, cli_gen, cli_reduce, cli_sweep, cli_validate, cli_vectors, cli_config,
    cli_targets, cli_version, cli_explain;

#endif
