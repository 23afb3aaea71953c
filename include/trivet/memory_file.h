/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of a range of memory as a file.
 *
 * RAW has the bytes of the range as they are in memory. NPY is an array of NumPy with the shape of the range: bf16 as
 * uint16, hexN as uintN, i4 and i2 as int8, the others as NumPy names them. MEMH has the bits of one element in each
 * word and is what $readmemh of Verilog reads: hexadecimal words, `@` with the number of the next element, comments.
 * docs/commands.md describes the forms. */
#ifndef TRIVET_MEMORY_FILE_H
#define TRIVET_MEMORY_FILE_H

#include <stddef.h>

#include "trivet/file.h"
#include "trivet/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tv_memory_format { TV_MEMORY_RAW, TV_MEMORY_NPY, TV_MEMORY_MEMH } tv_memory_format;

/* The format that the name `path` implies: NPY when it ends in ".npy", MEMH when it ends in ".memh", otherwise RAW. */
TV_API tv_memory_format tv_memory_format_of(const char *path);

/* Writes the elements of `range`, which `bytes` has as tv_machine_read gives them, to `path` in the format of its name.
 * The file is put in place with `group`, which may be NULL: then it appears at once. TV_ERR_IO, TV_ERR_MEMORY. */
TV_API tv_status tv_memory_save(const char *path, const tv_range *range, const void *bytes, tv_output_group *group,
                                const tv_diag_sink *sink);

/* Reads the elements of `range` from `path` in the format of its name. `bytes` and `known` have as many bytes as the
 * range, tv_dtype_bytes(type, count); the bits of `known` become 1 where the file defines those of `bytes`, otherwise
 * both become 0: a MEMH file may leave out elements, after an address, and have undefined digits. TV_ERR_INPUT: the
 * file is damaged, or has other elements; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_memory_load(const char *path, const tv_range *range, void *bytes, void *known,
                                const tv_diag_sink *sink);

/* Reads the elements of `range` as tv_memory_load does from the `size` bytes of `data`, which may be NULL when `size`
 * is 0. `name` stands for the path in messages, and its ending counts. `bytes` and `known` as there. TV_ERR_INPUT,
 * TV_ERR_MEMORY as there. */
TV_API tv_status tv_memory_parse(const char *name, const void *data, size_t size, const tv_range *range, void *bytes,
                                 void *known, const tv_diag_sink *sink);

/* Sets the type, the count and the shape of `range` to what the file `path` has, in the format of its name: RAW its
 * bytes as hex8; NPY the elements of the array; MEMH elements as wide as the digits of the first word, hex8 to hex64,
 * up to the last address. `space` and `addr` are not changed. TV_ERR_INPUT: the file is damaged, or its elements have
 * no type of memory; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_memory_measure(const char *path, tv_range *range, const tv_diag_sink *sink);

/* Where tv_memory_fill writes: a function like tv_machine_write. */
typedef struct tv_memory_writer {
    tv_status (*write)(void *user, const char *space, uint64_t addr, const void *data, size_t bytes,
                       const tv_diag_sink *sink);
    void *user;
} tv_memory_writer;

/* Fills memory of `machine` from the file at `path`, in the format of its name. `where` is an address as for
 * tv_machine_parse_address, from which on there are as many elements as the file has (tv_memory_measure), or a range as
 * for tv_machine_parse_range, with the `count` programs of `programs`, which may be NULL when `count` is 0. Elements
 * and bits that the file does not define keep their values. `writer`, which is called once, may be NULL:
 * tv_machine_write. TV_ERR_INPUT: no such address or file, a damaged file, or one with other elements than the range or
 * more than fit; TV_ERR_IO; TV_ERR_MEMORY; or the status of `writer`. Then nothing is written. */
TV_API tv_status tv_memory_fill(tv_machine *machine, const tv_program *const *programs, unsigned count,
                                const char *where, const char *path, const tv_memory_writer *writer,
                                const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
