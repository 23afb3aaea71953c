/* SPDX-License-Identifier: Apache-2.0 */
/* The container of an ELF program: the file header, the table of sections and their names, read from a file in memory.
 *
 * Trivet reads and writes this container itself, on the structures of <elf.h>: ELF64, little endian, sections only.
 * libelf, the library for it, cannot survive a failed allocation of its own: it takes no allocator, and depending on
 * the call it crashes or reports damage. Reading here allocates nothing at all. libelf is the oracle of the tests.
 *
 * Files are untrusted. Every offset, count and size is checked before use, in a form that cannot overflow: nothing
 * outside `data` is read, whatever the headers say. */
#ifndef TV_PROGRAM_ELF_FILE_H
#define TV_PROGRAM_ELF_FILE_H

#include "base/base.h"

typedef struct tv_elf_section {
    const char *name; /* "" if it is not inside the table of names */
    uint32_t type, link;
    uint64_t addr, memory_size; /* sh_addr, sh_size */
    const uint8_t *data;        /* `size` bytes in the file; NULL and 0: SHT_NOBITS or empty */
    size_t size;
} tv_elf_section;

typedef struct tv_elf_file {
    const uint8_t *data;
    size_t size;
    uint64_t table;       /* offset of the section headers, of which all are inside the file */
    uint64_t count;       /* of sections, with the empty one at index 0 */
    tv_elf_section names; /* .shstrtab */
} tv_elf_file;

typedef enum tv_elf_error {
    TV_ELF_OK,
    TV_ELF_FOREIGN,      /* not a 64-bit little-endian ELF file */
    TV_ELF_TABLE_DAMAGED /* the table of sections or its names are not inside the file */
} tv_elf_error;

/* Opens the `size` bytes at `data`, which must stay valid as long as `out` and its sections are used. */
tv_elf_error tv_elf_file_open(const uint8_t *data, size_t size, tv_elf_file *out);

/* Section `index`. False: there is none, or its bytes are not inside the file. */
bool tv_elf_file_section(const tv_elf_file *file, uint64_t index, tv_elf_section *out);

/* The first section with a name. 1: found; 0: none has it; -1: a section before it is damaged. */
int tv_elf_file_find(const tv_elf_file *file, const char *name, tv_elf_section *out);

/* The string at an offset of a table of strings, whose last byte is a NUL; NULL: it is not inside such a table. */
const char *tv_elf_string(const tv_elf_section *table, uint64_t offset);

#endif
