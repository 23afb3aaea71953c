/* SPDX-License-Identifier: Apache-2.0 */
/* Filling memory of a machine from a file: what --load of several commands does. It is in this folder, as memory_file.c
 * is, because arrays of NumPy are read here, and the debugger and the commands share it. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/diag.h"
#include "trivet/memory_file.h"

typedef struct filler {
    tv_machine *machine;
    const char *path;
    const tv_memory_writer *writer; /* NULL: tv_machine_write */
    const tv_diag_sink *sink;
} filler;

static tv_status write_bytes(const filler *f, const char *space, uint64_t addr, const void *data, size_t bytes)
{
    if (f->writer)
        return f->writer->write(f->writer->user, space, addr, data, bytes, f->sink);
    return tv_machine_write(f->machine, space, addr, data, bytes, f->sink);
}

/* The bytes of the file as they are. */
static tv_status fill_bytes(const filler *f, const char *space, uint64_t addr)
{
    tv_input input;
    TV_TRY(tv_input_open(f->path, f->sink, &input));
    tv_status status = write_bytes(f, space, addr, input.data, input.size);
    tv_input_close(&input);
    return status;
}

static tv_status fill_elements(const filler *f, const tv_range *range)
{
    size_t size = (size_t)tv_dtype_bytes(range->type, range->count);
    uint8_t *bytes = calloc(3, size + 8), *known = bytes + size + 8, *old = known + size + 8;
    if (!bytes)
        return tv_fail_memory(f->sink);
    tv_status status = tv_memory_load(f->path, range, bytes, known, f->sink);
    if (status == TV_OK)
        status = tv_machine_read(f->machine, range->space.name, range->addr, old, size, f->sink);
    for (size_t i = 0; i < size && status == TV_OK; i++)
        bytes[i] = (uint8_t)((bytes[i] & known[i]) | (old[i] & ~known[i]));
    if (status == TV_OK)
        status = write_bytes(f, range->space.name, range->addr, bytes, size);
    free(bytes);
    return status;
}

/* The range from `addr` of `space` on that the elements of the file take. */
static tv_status measure_range(const filler *f, const tv_space *space, uint64_t addr, tv_range *range)
{
    *range = (tv_range){.space = *space, .addr = addr};
    TV_TRY(tv_memory_measure(f->path, range, f->sink));
    uint64_t bytes = addr < space->size ? (space->size - addr) * space->unit_bytes : 0;
    if (range->count <= bytes * 8 / tv_dtype_bits(range->type))
        return TV_OK;
    tv_source_loc loc = TV_NO_SOURCE_LOC;
    loc.file = f->path;
    tv_report(f->sink, TV_ERROR, TV_CODE(MACHINE_FILE), &loc, NULL,
              "%" PRIu64 " elements of %s do not fit at %s:0x%" PRIx64 ": the space has 0x%" PRIx64 " units of %" PRIu64
              " bytes",
              range->count, tv_dtype_name(range->type), space->name, addr, space->size, space->unit_bytes);
    return TV_ERR_INPUT;
}

tv_status tv_memory_fill(tv_machine *machine, const tv_program *const *programs, unsigned count, const char *where,
                         const char *path, const tv_memory_writer *writer, const tv_diag_sink *sink)
{
    const filler f = {machine, path, writer, sink};
    const char *rest;
    uint64_t addr;
    tv_space space;
    tv_range range;
    TV_TRY(tv_machine_parse_address(machine, programs, count, where, sink, &space, &addr, &rest));
    if (rest)
        TV_TRY(tv_machine_parse_range(machine, programs, count, where, sink, &range));
    else if (tv_memory_format_of(path) == TV_MEMORY_RAW)
        return fill_bytes(&f, space.name, addr);
    else
        TV_TRY(measure_range(&f, &space, addr, &range));
    return fill_elements(&f, &range);
}
