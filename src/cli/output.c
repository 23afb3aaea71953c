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
        return CLI_DONE;
    case TV_FAULT:
        return CLI_FAULT;
    case TV_ERR_INPUT:
        return CLI_WRONG;
    default:
        return CLI_FAILED;
    }
}

int cli_wrong(cli *c, const char *hint, const char *format, ...)
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
        json_array_append_new(c->diagnostics, json_pack("{s:s, s:o, s:o}", "severity", "error", "message",
                                                        cli_string(message), "hint", cli_string(hint)));
    c->errors++;
    return CLI_WRONG;
}

void cli_print_json(cli *c, json_t *value)
{
    c->answered = true;
    json_dumpf(value, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(value);
}

json_t *cli_string(const char *text)
{
    json_t *value = text ? json_string(text) : json_null();
    return value ? value : json_string("?");
}

bool cli_parse_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *out = strtoull(text, &end, 0);
    return errno == 0 && *end == '\0';
}

/* Where a file that is not there yet will stand: its folder must be. */
static bool same_place(const char *a, const char *b)
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
    return !have_a && !have_b && same_place(a, b);
}
