/* SPDX-License-Identifier: Apache-2.0 */
/* Specifications in INI, through inih:
 *
 *     [sweep]
 *     search = exhaustive
 *     [workload decode]
 *     model = 1b.json
 *     [target pccx]
 *     profile = kv260
 *     gemv.cores = 1, 2, 4
 *     constraint = gemv.cores * gemv.tile_k <= 128 */
#include <ini.h>
#include <stdlib.h>

#include "sweep/spec.h"

enum { SECTION_MAX = 128 };

typedef struct ini_parser {
    sweep_spec *spec;
    tv_sv rest;
    unsigned line;
    char section[SECTION_MAX]; /* of the newest target or workload */
    spec_workload *workload;
    spec_target *target;
} ini_parser;

/* Reads the next line without its indentation, which inih takes for the continuation of a value. */
static char *read_line(char *line, int size, void *user)
{
    ini_parser *p = user;
    if (p->rest.len == 0)
        return NULL;
    const char *end = memchr(p->rest.ptr, '\n', p->rest.len);
    size_t n = end ? (size_t)(end - p->rest.ptr) : p->rest.len, skipped = 0, step = n + (end != NULL);
    p->line++;
    if (n >= (size_t)size || memchr(p->rest.ptr, '\0', n)) {
        tv_spec_reject(p->spec, p->line, "JSON has lines of any length", "the line is too long or has a NUL");
        n = 0;
    }
    while (skipped < n && (p->rest.ptr[skipped] == ' ' || p->rest.ptr[skipped] == '\t'))
        skipped++;
    if (n > skipped)
        memcpy(line, p->rest.ptr + skipped, n - skipped);
    line[n - skipped] = '\0';
    p->rest = (tv_sv){p->rest.ptr + step, p->rest.len - step};
    return line;
}

/* Opens a section: "sweep", "workload NAME" or "target NAME". */
static void open_section(ini_parser *p, const char *section)
{
    size_t n = strnlen(section, SECTION_MAX - 1);
    memcpy(p->section, section, n);
    p->section[n] = '\0';
    p->workload = NULL;
    p->target = NULL;
    if (strncmp(section, "workload ", 9) == 0)
        p->workload = tv_spec_add_workload(p->spec, p->line, section + 9);
    else if (strncmp(section, "target ", 7) == 0)
        p->target = tv_spec_add_target(p->spec, p->line, section + 7);
    else if (strcmp(section, "sweep") != 0 && strcmp(section, "expressions") != 0)
        tv_spec_reject(p->spec, p->line, "[sweep], [expressions], [workload NAME] or [target MACHINE]",
                       "a sweep has no section [%.60s]", section);
}

static int set_pair(void *user, const char *section, const char *key, const char *value)
{
    ini_parser *p = user;
    if (strcmp(p->section, section) != 0)
        open_section(p, section);
    if (p->spec->status == TV_ERR_MEMORY)
        return 1;
    if (p->workload) {
        tv_spec_set_workload(p->spec, p->workload, p->line, key, value);
    } else if (p->target) {
        if (strcmp(key, "profile") == 0)
            tv_spec_set_profile(p->spec, p->target, p->line, value);
        else if (strcmp(key, "constraint") == 0)
            tv_spec_add_constraint(p->spec, p->target, p->line, value);
        else
            tv_spec_add_values(p->spec, p->target, p->line, key, value);
    } else if (strcmp(section, "sweep") == 0) {
        tv_spec_set(p->spec, p->line, key, value);
    } else if (strcmp(section, "expressions") == 0) {
        tv_spec_add_expression(p->spec, p->line, key, value);
    }
    return 1;
}

void tv_spec_parse_ini(sweep_spec *spec, tv_sv text)
{
    ini_parser p = {.spec = spec, .rest = text};
    int bad_line = ini_parse_stream(read_line, &p, set_pair, &p);
    if (bad_line < 0)
        spec->status = TV_ERR_MEMORY;
    else if (bad_line > 0 && spec->status == TV_OK)
        tv_spec_reject(spec, (unsigned)bad_line, NULL, "expected a section, a pair or a comment");
}
