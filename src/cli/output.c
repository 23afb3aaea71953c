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

static char *copy_string(const char *text) { return text ? strdup(text) : NULL; }

/* Without memory for the copy, the diagnostic is missing in the JSON result. */
static void keep_diagnostic(cli *c, const tv_diag *diag)
{
    tv_diag *list = realloc(c->diagnostics, (c->diagnostic_count + 1) * sizeof *list);
    if (!list)
        return;
    c->diagnostics = list;
    tv_diag *copy = &list[c->diagnostic_count++];
    *copy = *diag; /* code and name are static */
    copy->file = copy_string(diag->file);
    copy->message = copy_string(diag->message);
    copy->hint = copy_string(diag->hint);
    copy->source_line = NULL;
}

static void emit_diagnostic(void *user, const tv_diag *diag)
{
    cli *c = user;
    if (diag->severity == TV_ERROR)
        c->errors++;
    if (diag->severity == TV_WARNING)
        c->warnings++;
    if (c->json)
        keep_diagnostic(c, diag);
    if (c->quiet && diag->severity != TV_ERROR)
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

int cli_error(cli *c, const char *hint, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    const char *bold = c->color ? "\033[1m" : "", *red = c->color ? "\033[1;31m" : "", *off = c->color ? "\033[0m" : "";
    fprintf(stderr, "%strivet: %serror: %s%s%s\n", bold, red, off, message, off);
    if (hint)
        fprintf(stderr, "        = %shint%s: %s\n", bold, off, hint);
    if (c->json)
        keep_diagnostic(c, &(tv_diag){.severity = TV_ERROR, .index = -1, .message = message, .hint = hint});
    c->errors++;
    return CLI_INVALID;
}

/* ---- JSON ---- */

tv_json_writer *cli_begin_json(cli *c)
{
    tv_json_writer *writer = tv_json_writer_new(stdout, TV_JSON_INDENTED);
    if (!writer) {
        fprintf(stderr, "trivet: error: out of memory\n");
        exit(CLI_FAILED);
    }
    c->json_written = true;
    return writer;
}

void cli_end_json(tv_json_writer *writer)
{
    tv_json_writer_finish(writer); /* main checks stdout for errors */
    tv_json_writer_free(writer);
    putchar('\n');
}

/* Errors of the command line have no code. */
static void write_usage_error(const tv_diag *diag, tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "severity", "error");
    tv_json_string_member(w, "message", diag->message);
    tv_json_string_member(w, "hint", diag->hint);
    tv_json_end_object(w);
}

void cli_write_diagnostics(const cli *c, tv_json_writer *w)
{
    tv_json_key(w, "diagnostics");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < c->diagnostic_count; i++)
        if (c->diagnostics[i].code)
            tv_diag_write_json(w, &c->diagnostics[i]);
        else
            write_usage_error(&c->diagnostics[i], w);
    tv_json_end_array(w);
}

void cli_write_real(tv_json_writer *w, const char *key, double value) { tv_json_real_member(w, key, value, 9); }

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
