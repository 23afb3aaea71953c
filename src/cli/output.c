/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics to stderr, results to stdout, exit statuses. */
#include <errno.h>
#include <stdarg.h>

#include <libgen.h>
#include <sys/stat.h>

#include "cli/cli.h"

int cli_exit_status(tv_status status)
{
    switch (status) {
    case TV_OK:
        return CLI_OK;
    case TV_FAULT:
        return CLI_FAULT;
    case TV_ERR_INPUT:
        return CLI_INVALID;
    case TV_ERR_IO:
    case TV_ERR_MEMORY:
        return CLI_FAILED;
    }
    return CLI_FAILED;
}

/* ---- Diagnostics ---- */

#define NO_MEMORY "TV-F004"

static char *copy_string(const char *text) { return text ? strdup(text) : NULL; }

static void keep_diagnostic(cli *c, const tv_diag *diag)
{
    tv_diag *list = realloc(c->diagnostics, (c->diagnostic_count + 1) * sizeof *list);
    if (!list) {
        cli_fail_memory(c);
        return;
    }
    c->diagnostics = list;
    tv_diag *copy = &list[c->diagnostic_count++];
    *copy = *diag; /* code and name are static */
    copy->file = copy_string(diag->file);
    copy->message = copy_string(diag->message);
    copy->hint = copy_string(diag->hint);
    copy->source_line = NULL;
    if ((diag->file && !copy->file) || !copy->message || (diag->hint && !copy->hint))
        cli_fail_memory(c);
}

static void emit_diagnostic(void *user, const tv_diag *diag)
{
    cli *c = user;
    if (c->no_memory)
        return;
    c->no_memory = strcmp(diag->code, NO_MEMORY) == 0;
    if (diag->severity == TV_ERROR)
        c->errors++;
    if (diag->severity == TV_ERROR && strncmp(diag->code, "TV-F", 4) == 0)
        c->failures++;
    if (diag->severity == TV_WARNING)
        c->warnings++;
    if (c->json && !c->no_memory)
        keep_diagnostic(c, diag);
    if (c->quiet && diag->severity == TV_NOTE)
        return;
    fflush(stdout);
    tv_diag_print(stderr, diag, c->color);
}

tv_diag_sink cli_diag_sink(cli *c) { return (tv_diag_sink){emit_diagnostic, c}; }

void cli_free_diagnostics(cli *c)
{
    for (unsigned i = 0; i < c->diagnostic_count; i++) {
        free((char *)(uintptr_t)c->diagnostics[i].file);
        free((char *)(uintptr_t)c->diagnostics[i].message);
        free((char *)(uintptr_t)c->diagnostics[i].hint);
    }
    free(c->diagnostics);
}

/* The name of a code. Static. */
static const char *code_name(const char *code)
{
    tv_code_info info;
    for (unsigned i = 0; tv_code_at(i, &info); i++)
        if (strcmp(info.code, code) == 0)
            return info.name;
    return "";
}

static void emit_message(cli *c, tv_severity severity, const char *code, const char *hint, const char *message)
{
    emit_diagnostic(c, &(tv_diag){.severity = severity,
                                  .code = code,
                                  .name = code_name(code),
                                  .index = -1,
                                  .message = message,
                                  .hint = hint});
}

int cli_error(cli *c, const char *code, const char *hint, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    emit_message(c, TV_ERROR, code, hint, message);
    return CLI_INVALID;
}

void cli_error_at(cli *c, const char *code, const tv_source_line *at, const char *hint, const char *message)
{
    emit_diagnostic(c, &(tv_diag){.severity = TV_ERROR,
                                  .code = code,
                                  .name = code_name(code),
                                  .file = at->file,
                                  .line = at->line,
                                  .column = at->column,
                                  .index = -1,
                                  .message = message,
                                  .hint = hint});
}

void cli_warn(cli *c, const char *code, const char *hint, const char *message)
{
    emit_message(c, TV_WARNING, code, hint, message);
}

void cli_fail_memory(cli *c) { emit_message(c, TV_ERROR, NO_MEMORY, NULL, "out of memory"); }

tv_status cli_outputs(cli *c, tv_output_group **out)
{
    tv_status status = c->outputs ? TV_OK : tv_output_group_new(&c->sink, &c->outputs);
    *out = c->outputs;
    return status;
}

/* ---- JSON ---- */

tv_json_writer *cli_begin_result(cli *c)
{
    c->writer = c->own_writer;
    c->own_writer = NULL;
    tv_json_begin_object(c->writer);
    tv_json_string_member(c->writer, "command", c->name);
    tv_json_key(c->writer, "result");
    return c->writer;
}

static const char *status_word(const cli *c, int exit_status)
{
    switch (exit_status) {
    case CLI_OK:
        return "ok";
    case CLI_FAULT:
        return c->faulted ? "fault" : "findings";
    case CLI_INVALID:
        return "invalid";
    default:
        return "failed";
    }
}

static void write_diagnostics(const cli *c, tv_json_writer *w)
{
    tv_json_key(w, "diagnostics");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < c->diagnostic_count; i++)
        tv_diag_write_json(w, &c->diagnostics[i]);
    tv_json_end_array(w);
}

void cli_end_envelope(cli *c, int exit_status)
{
    if (!c->writer)
        tv_json_write_null(cli_begin_result(c));
    tv_json_string_member(c->writer, "status", status_word(c, exit_status));
    write_diagnostics(c, c->writer);
    tv_json_end_object(c->writer);
    if (!tv_json_writer_finish(c->writer) && !ferror(stdout)) /* main checks stdout for errors */
        cli_fail_memory(c);
    tv_json_writer_free(c->writer);
    c->writer = NULL;
    putchar('\n');
}

void cli_write_real(tv_json_writer *w, const char *key, double value) { tv_json_real_member(w, key, value, 9); }

void cli_print_line(FILE *out, const char *text)
{
    tv_text_print(out, text, strlen(text), TV_TEXT_KEEP_NONE);
    putc('\n', out);
}

/* ---- Arguments ---- */

bool cli_parse_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *out = strtoull(text, &end, 0);
    return errno == 0 && *end == '\0';
}

/* For files that do not exist yet: the same name in the same existing directory. */
static bool same_directory_entry(const char *a, const char *b)
{
    char *copies[4] = {strdup(a), strdup(b), strdup(a), strdup(b)};
    struct stat x, y;
    bool same = copies[0] && copies[1] && copies[2] && copies[3] &&
                strcmp(basename(copies[0]), basename(copies[1])) == 0 && stat(dirname(copies[2]), &x) == 0 &&
                stat(dirname(copies[3]), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    for (int i = 0; i < 4; i++)
        free(copies[i]);
    return same;
}

bool cli_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

bool cli_same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (strcmp(a, "-") == 0 || strcmp(b, "-") == 0)
        return false;
    bool have_a = stat(a, &x) == 0, have_b = stat(b, &y) == 0;
    if (have_a && have_b)
        return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    return !have_a && !have_b && same_directory_entry(a, b);
}

static bool report_overwritten(cli *c, const char *what, const char *path, const char *input)
{
    struct stat x, y;
    bool same = strcmp(path, "-") != 0 && strcmp(input, "-") != 0 && stat(path, &x) == 0 && stat(input, &y) == 0 &&
                S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    if (same)
        cli_error(c, CLI_E_SAME_FILE, "choose another name", "the %s would overwrite '%s'", what, input);
    return same;
}

bool cli_overwrites_input(cli *c, const char *what, const char *path)
{
    static const char *const options[] = {"config", "load", "script", "eval", "input", "compare"};
    const char *value;
    for (unsigned i = 0; i < c->file_count; i++)
        if (report_overwritten(c, what, path, c->files[i]))
            return true;
    for (unsigned i = 0; i < CLI_COUNTOF(options); i++)
        for (unsigned k = 0; (value = cli_value_at(c, options[i], k)); k++) {
            bool named = strcmp(options[i], "load") == 0 || strcmp(options[i], "input") == 0 ||
                         strcmp(options[i], "compare") == 0;
            const char *file = named ? strchr(value, '=') : NULL;
            if (report_overwritten(c, what, path, file ? file + 1 : value))
                return true;
        }
    for (unsigned i = 0; i < c->program_count; i++)
        for (uint64_t k = 0; tv_program_input_at(c->programs[i], k, &value); k++)
            if (report_overwritten(c, what, path, value))
                return true;
    return false;
}
