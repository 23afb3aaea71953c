/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics to stderr, results to stdout, exit statuses. */
#include <errno.h>
#include <stdarg.h>

#include "cli/cli.h"

int cli_exit_status(tv_status status)
{
    switch (status) {
    case TV_OK: return CLI_DONE;
    case TV_FAULT: return CLI_FAULT;
    case TV_ERR_INPUT: return CLI_WRONG;
    default: return CLI_FAILED;
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
    return CLI_WRONG;
}

void cli_print_json(json_t *value)
{
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
