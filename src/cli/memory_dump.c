/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/memory_dump.h"

#include <inttypes.h>

#include "cli/elements.h"

/* ---- Options ---- */

tv_status memory_split_option(cli *c, const char *option, const char *text, char range[RANGE_TEXT], const char **path)
{
    size_t n = strcspn(text, "=");
    bool is_dump = strcmp(option, "dump") == 0;
    *path = text[n] ? text + n + 1 : NULL;
    if (n >= RANGE_TEXT || (*path && !**path) || (!*path && !is_dump)) {
        cli_error(c, CLI_E_VALUE, "RANGE is SPACE:ADDR:LEN[:TYPE], or the name of a declared output",
                  "--%s takes %s, not '%.200s'", option, is_dump ? "RANGE[=FILE]" : "RANGE=FILE", text);
        return TV_ERR_INPUT;
    }
    snprintf(range, RANGE_TEXT, "%.*s", (int)n, text);
    return TV_OK;
}

tv_status memory_dump_check_path(cli *c, const memory_dump *dumps, unsigned count)
{
    static const char *const others[] = {"trace", "perfetto", "report", "commit-log"};
    const char *same = NULL, *path = dumps[count].path;
    if (strcmp(path, "-") == 0) {
        cli_error(c, CLI_E_VALUE, "without =FILE the elements are printed",
                  "a dump cannot go to standard output as a file");
        return TV_ERR_INPUT;
    }
    if (cli_overwrites_input(c, "dump", path))
        return TV_ERR_INPUT;
    for (unsigned i = 0; i < CLI_COUNTOF(others); i++) {
        const char *other = cli_value(c, others[i]);
        if (other && (strcmp(other, path) == 0 || cli_same_file(other, path)))
            same = others[i];
    }
    for (unsigned i = 0; i < count; i++)
        if (dumps[i].path && (strcmp(dumps[i].path, path) == 0 || cli_same_file(dumps[i].path, path)))
            same = "dump";
    if (!same)
        return TV_OK;
    cli_error(c, CLI_E_SAME_FILE, "choose another name for one of them", "--dump and %s--%s cannot both go to '%s'",
              strcmp(same, "dump") == 0 ? "another " : "", same, path);
    return TV_ERR_INPUT;
}

/* ---- Results ---- */

void memory_format_range(const tv_range *r, char text[RANGE_TEXT])
{
    if (r->space.bank_size)
        snprintf(text, RANGE_TEXT, "%s:%" PRIu64 ":0x%" PRIx64 " %s", r->space.name, r->addr / r->space.bank_size,
                 r->addr % r->space.bank_size, tv_dtype_name(r->type));
    else
        snprintf(text, RANGE_TEXT, "%s:0x%" PRIx64 " %s", r->space.name, r->addr, tv_dtype_name(r->type));
}

tv_status memory_dump_collect(cli *c, tv_machine *machine, memory_dump *d, tv_output_group *group)
{
    char text[RANGE_TEXT];
    size_t bytes = (size_t)tv_dtype_bytes(d->range.type, d->range.count);
    d->bytes = calloc(bytes + 8, 1);
    if (!d->bytes)
        return TV_ERR_MEMORY;
    tv_status status = tv_machine_read(machine, d->range.space.name, d->range.addr, d->bytes, bytes, &c->sink);
    if (status != TV_OK)
        return status;
    if (d->path) {
        status = tv_memory_save(d->path, &d->range, d->bytes, group, &c->sink);
        free(d->bytes);
        d->bytes = NULL;
    } else if (!c->json) {
        memory_format_range(&d->range, text);
        puts(text);
        elements_print(d->range.type, d->bytes, d->range.count, d->range.count);
    }
    return status;
}

void memory_write_range(const tv_range *r, const char *path, tv_json_writer *w)
{
    tv_json_string_member(w, "space", r->space.name);
    tv_json_unsigned_member(w, "addr", r->addr);
    tv_json_string_member(w, "type", tv_dtype_name(r->type));
    if (path)
        tv_json_string_member(w, "file", path);
}

void memory_dumps_write_json(const memory_dump *dumps, unsigned count, tv_json_writer *writer)
{
    tv_json_key(writer, "dumps");
    tv_json_begin_array(writer);
    for (unsigned i = 0; i < count; i++) {
        const memory_dump *d = &dumps[i];
        tv_json_begin_object(writer);
        memory_write_range(&d->range, d->path, writer);
        if (d->bytes) {
            tv_json_key(writer, "values");
            elements_write_json(d->range.type, d->bytes, d->range.count, writer);
        }
        tv_json_end_object(writer);
    }
    tv_json_end_array(writer);
}

void memory_dumps_free(memory_dump *dumps, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        free(dumps[i].bytes);
    free(dumps);
}
