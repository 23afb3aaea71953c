/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the container of an ELF program. The fields are loaded byte by byte, so that neither the alignment of the
 * file in memory nor the byte order of the host matters. */
#include "program/elf_file.h"

#include <elf.h>

#include "base/sv.h"

/* A field of a header at `p`, with the offset that <elf.h> gives it. */
#define FIELD16(p, type, member) tv_load_le16((p) + offsetof(type, member))
#define FIELD32(p, type, member) tv_load_le32((p) + offsetof(type, member))
#define FIELD64(p, type, member) tv_load_le64((p) + offsetof(type, member))

static const uint8_t *header_at(const tv_elf_file *file, uint64_t index)
{
    return file->data + file->table + index * sizeof(Elf64_Shdr);
}

/* True if the table has room for `count` headers. */
static bool table_fits(const tv_elf_file *file, uint64_t count)
{
    return file->table <= file->size && count <= (file->size - file->table) / sizeof(Elf64_Shdr);
}

/* Section `index` without its name. */
static bool read_section(const tv_elf_file *file, uint64_t index, tv_elf_section *out)
{
    if (index >= file->count)
        return false;
    const uint8_t *header = header_at(file, index);
    uint64_t offset = FIELD64(header, Elf64_Shdr, sh_offset);
    *out = (tv_elf_section){.name = "",
                            .type = FIELD32(header, Elf64_Shdr, sh_type),
                            .link = FIELD32(header, Elf64_Shdr, sh_link),
                            .addr = FIELD64(header, Elf64_Shdr, sh_addr),
                            .memory_size = FIELD64(header, Elf64_Shdr, sh_size)};
    if (index == SHN_UNDEF || out->type == SHT_NULL || out->type == SHT_NOBITS || out->memory_size == 0)
        return true;
    if (offset > file->size || out->memory_size > file->size - offset)
        return false;
    out->data = file->data + offset;
    out->size = (size_t)out->memory_size;
    return true;
}

tv_elf_error tv_elf_file_open(const uint8_t *data, size_t size, tv_elf_file *out)
{
    tv_elf_file file = {.data = data, .size = size};
    if (size < sizeof(Elf64_Ehdr) || memcmp(data, ELFMAG, SELFMAG) != 0 || data[EI_CLASS] != ELFCLASS64 ||
        data[EI_DATA] != ELFDATA2LSB || data[EI_VERSION] != EV_CURRENT)
        return TV_ELF_FOREIGN;
    uint64_t names = FIELD16(data, Elf64_Ehdr, e_shstrndx);
    file.table = FIELD64(data, Elf64_Ehdr, e_shoff);
    file.count = FIELD16(data, Elf64_Ehdr, e_shnum);
    if (file.table < sizeof(Elf64_Ehdr) || FIELD16(data, Elf64_Ehdr, e_shentsize) != sizeof(Elf64_Shdr) ||
        !table_fits(&file, 1))
        return TV_ELF_TABLE_DAMAGED;
    /* Numbers that do not fit into 16 bits are in the header of section 0. */
    if (file.count == 0)
        file.count = FIELD64(header_at(&file, 0), Elf64_Shdr, sh_size);
    if (names == SHN_XINDEX)
        names = FIELD32(header_at(&file, 0), Elf64_Shdr, sh_link);
    if (file.count == 0 || !table_fits(&file, file.count) || names == SHN_UNDEF ||
        !read_section(&file, names, &file.names) || file.names.type != SHT_STRTAB)
        return TV_ELF_TABLE_DAMAGED;
    *out = file;
    return TV_ELF_OK;
}

bool tv_elf_file_section(const tv_elf_file *file, uint64_t index, tv_elf_section *out)
{
    if (!read_section(file, index, out))
        return false;
    const char *name = tv_elf_string(&file->names, FIELD32(header_at(file, index), Elf64_Shdr, sh_name));
    if (name)
        out->name = name;
    return true;
}

int tv_elf_file_find(const tv_elf_file *file, const char *name, tv_elf_section *out)
{
    for (uint64_t i = 1; i < file->count; i++) {
        if (!tv_elf_file_section(file, i, out))
            return -1;
        if (strcmp(out->name, name) == 0)
            return 1;
    }
    return 0;
}

const char *tv_elf_string(const tv_elf_section *table, uint64_t offset)
{
    if (offset >= table->size || table->data[table->size - 1] != '\0')
        return NULL;
    return (const char *)table->data + offset;
}
