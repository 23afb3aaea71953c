/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/memory_load.h"

#include <inttypes.h>

#include "cli/memory_dump.h"

typedef struct loader {
    cli *c;
    tv_machine *machine;
    const tv_program *const *programs;
    unsigned count;
} loader;

static tv_status reject_option(const loader *l, const char *text)
{
    char hint[80];
    tv_space space;
    tv_machine_space_at(l->machine, 0, &space);
    snprintf(hint, sizeof hint, "for example --load %s:%s0=file.bin", space.name, space.bank_size ? "0:" : "");
    cli_error(l->c, CLI_E_VALUE, hint, "--load takes SPACE:ADDR=FILE or SPACE:ADDR:LEN[:TYPE]=FILE, not '%s'", text);
    return TV_ERR_INPUT;
}

/* The bytes of the file as they are. */
static tv_status load_bytes(const loader *l, const tv_space *space, uint64_t addr, const char *path)
{
    tv_input input;
    tv_status status = tv_input_open(path, &l->c->sink, &input);
    if (status != TV_OK)
        return status;
    status = tv_machine_write(l->machine, space->name, addr, input.data, input.size, &l->c->sink);
    tv_input_close(&input);
    return status;
}

static tv_status load_elements(const loader *l, const tv_range *range, const char *path)
{
    size_t size = (size_t)tv_dtype_bytes(range->type, range->count);
    uint8_t *bytes = calloc(3, size + 8), *known = bytes + size + 8, *old = known + size + 8;
    if (!bytes)
        return TV_ERR_MEMORY;
    tv_status status = tv_memory_load(path, range, bytes, known, &l->c->sink);
    if (status == TV_OK)
        status = tv_machine_read(l->machine, range->space.name, range->addr, old, size, &l->c->sink);
    for (size_t i = 0; i < size && status == TV_OK; i++)
        bytes[i] = (uint8_t)((bytes[i] & known[i]) | (old[i] & ~known[i]));
    if (status == TV_OK)
        status = tv_machine_write(l->machine, range->space.name, range->addr, bytes, size, &l->c->sink);
    free(bytes);
    return status;
}

/* The range from `where` on that an array or words take. */
static tv_status measure_file(const loader *l, const char *where, const char *path, tv_range *range)
{
    char text[RANGE_TEXT + 64];
    tv_range found = {.rank = 0};
    tv_status status = tv_memory_measure(path, &found, &l->c->sink);
    if (status != TV_OK)
        return status;
    snprintf(text, sizeof text, "%s:%" PRIu64 ":%s", where, found.count, tv_dtype_name(found.type));
    status = tv_machine_parse_range(l->machine, l->programs, l->count, text, &l->c->sink, range);
    range->rank = found.rank;
    memcpy(range->dims, found.dims, sizeof range->dims);
    return status;
}

tv_status memory_load(cli *c, tv_machine *machine, const tv_program *const *programs, unsigned count, const char *text)
{
    const loader l = {c, machine, programs, count};
    char where[RANGE_TEXT];
    const char *equals = strchr(text, '='), *rest, *path = equals ? equals + 1 : NULL;
    uint64_t addr;
    tv_range range;
    if (!equals || (size_t)(equals - text) >= sizeof where)
        return reject_option(&l, text);
    snprintf(where, sizeof where, "%.*s", (int)(equals - text), text);
    tv_status status = tv_machine_parse_address(machine, programs, count, where, &c->sink, &range.space, &addr, &rest);
    if (status != TV_OK)
        return status;
    if (!rest && tv_memory_format_of(path) == TV_MEMORY_RAW)
        return load_bytes(&l, &range.space, addr, path);
    status = rest ? tv_machine_parse_range(machine, programs, count, where, &c->sink, &range)
                  : measure_file(&l, where, path, &range);
    return status == TV_OK ? load_elements(&l, &range, path) : status;
}
