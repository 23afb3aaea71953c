/* SPDX-License-Identifier: Apache-2.0 */
/* Mutators of binary files. They change one field of a header or table at its location, to a number at which a reader
 * could fail: near a power of two, near the size of the file, or the value of another such field. */
#include <elf.h>
#include <string.h>

#include "mutator.h"

typedef struct field {
    size_t at, bytes;
} field;

static uint64_t load_number(const uint8_t *data, field f)
{
    uint64_t value = 0;
    memcpy(&value, data + f.at, f.bytes);
    return value;
}

static void change_number(uint8_t *data, size_t size, field f, uint64_t other, fuzz_random *random)
{
    uint64_t value = load_number(data, f);
    switch (fuzz_below(random, 4)) {
    case 0:
        value = other;
        break;
    case 1:
        value += fuzz_below(random, 17) - 8;
        break;
    default:
        value = fuzz_number(random, size);
    }
    memcpy(data + f.at, &value, f.bytes);
}

/* ---- ELF ---- */

#define ELF_FIELD(type, member)                                                                                        \
    {                                                                                                                  \
        offsetof(type, member), sizeof((type *)NULL)->member                                                           \
    }
static const field header_fields[] = {ELF_FIELD(Elf64_Ehdr, e_type),
                                      ELF_FIELD(Elf64_Ehdr, e_machine),
                                      ELF_FIELD(Elf64_Ehdr, e_version),
                                      ELF_FIELD(Elf64_Ehdr, e_entry),
                                      ELF_FIELD(Elf64_Ehdr, e_phoff),
                                      ELF_FIELD(Elf64_Ehdr, e_shoff),
                                      ELF_FIELD(Elf64_Ehdr, e_flags),
                                      ELF_FIELD(Elf64_Ehdr, e_ehsize),
                                      ELF_FIELD(Elf64_Ehdr, e_phentsize),
                                      ELF_FIELD(Elf64_Ehdr, e_phnum),
                                      ELF_FIELD(Elf64_Ehdr, e_shentsize),
                                      ELF_FIELD(Elf64_Ehdr, e_shnum),
                                      ELF_FIELD(Elf64_Ehdr, e_shstrndx),
                                      {EI_CLASS, 1},
                                      {EI_DATA, 1}};
static const field section_fields[] = {ELF_FIELD(Elf64_Shdr, sh_name),      ELF_FIELD(Elf64_Shdr, sh_type),
                                       ELF_FIELD(Elf64_Shdr, sh_flags),     ELF_FIELD(Elf64_Shdr, sh_addr),
                                       ELF_FIELD(Elf64_Shdr, sh_link),      ELF_FIELD(Elf64_Shdr, sh_offset),
                                       ELF_FIELD(Elf64_Shdr, sh_size),      ELF_FIELD(Elf64_Shdr, sh_info),
                                       ELF_FIELD(Elf64_Shdr, sh_addralign), ELF_FIELD(Elf64_Shdr, sh_entsize)};
#undef ELF_FIELD

/* The section header `i`, whose location is 0 when it is not in the file. */
static size_t section_at(const uint8_t *data, size_t size, size_t i)
{
    Elf64_Ehdr header;
    memcpy(&header, data, sizeof header);
    size_t room = header.e_shoff < size ? (size - header.e_shoff) / sizeof(Elf64_Shdr) : 0;
    return i < room ? header.e_shoff + i * sizeof(Elf64_Shdr) : 0;
}

/* Changes the contents of a section: a number at a multiple of 4. */
static void change_contents(uint8_t *data, size_t size, size_t section, fuzz_random *random)
{
    Elf64_Shdr header;
    memcpy(&header, data + section, sizeof header);
    if (header.sh_offset >= size || header.sh_size > size - header.sh_offset || header.sh_size < 8)
        return;
    size_t at = header.sh_offset + fuzz_below(random, (header.sh_size - 4) / 4) * 4;
    change_number(data, size, (field){at, 4}, header.sh_size, random);
}

static void mutate_section(uint8_t *data, size_t size, fuzz_random *random)
{
    Elf64_Ehdr header;
    uint8_t moved[sizeof(Elf64_Shdr)];
    memcpy(&header, data, sizeof header);
    size_t count = header.e_shnum ? header.e_shnum : 1;
    size_t a = section_at(data, size, fuzz_below(random, count)), b = section_at(data, size, fuzz_below(random, count));
    if (!a || !b)
        return;
    field f = section_fields[fuzz_below(random, TV_COUNTOF(section_fields))];
    switch (fuzz_below(random, 6)) {
    case 0: /* exchange two headers */
        memcpy(moved, data + a, sizeof moved);
        memmove(data + a, data + b, sizeof moved);
        memcpy(data + b, moved, sizeof moved);
        return;
    case 1: /* copy one */
        memmove(data + a, data + b, sizeof moved);
        return;
    case 2:
    case 3:
        change_contents(data, size, a, random);
        return;
    default:
        change_number(data, size, (field){a + f.at, f.bytes}, load_number(data, (field){b + f.at, f.bytes}), random);
    }
}

size_t fuzz_mutate_elf(uint8_t *data, size_t size, size_t max_size, fuzz_random *random)
{
    if (size < sizeof(Elf64_Ehdr) || fuzz_below(random, 4) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    for (size_t n = 1 + fuzz_below(random, 3); n > 0; n--) {
        if (fuzz_below(random, 8) == 0)
            change_number(data, size, header_fields[fuzz_below(random, TV_COUNTOF(header_fields))], size, random);
        else
            mutate_section(data, size, random);
    }
    return size;
}

/* ---- GGUF ---- */

enum { GGUF_FIELDS = 512, GGUF_STRING = 8, GGUF_ARRAY = 9, GGUF_KINDS = 13, GGUF_HEADER = 24 };

/* The numbers of a GGUF file's header and tables, as far as they can be followed. */
typedef struct gguf_fields {
    const uint8_t *data;
    size_t size, at, count;
    field fields[GGUF_FIELDS];
} gguf_fields;

static uint64_t take_number(gguf_fields *g, size_t bytes)
{
    if (g->count == GGUF_FIELDS || g->size - g->at < bytes) {
        g->at = g->size;
        return 0;
    }
    field f = {g->at, bytes};
    g->fields[g->count++] = f;
    g->at += bytes;
    return load_number(g->data, f);
}

static void skip_bytes(gguf_fields *g, uint64_t bytes) { g->at = bytes < g->size - g->at ? g->at + bytes : g->size; }

static void take_value(gguf_fields *g, uint64_t kind)
{
    static const uint8_t bytes[GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (kind == GGUF_STRING)
        skip_bytes(g, take_number(g, 8));
    else if (kind < GGUF_KINDS && bytes[kind])
        take_number(g, bytes[kind]);
    else
        g->at = g->size; /* the size of what follows is not known */
}

static void take_tables(gguf_fields *g)
{
    take_number(g, 4);
    uint64_t tensors = take_number(g, 8), metas = take_number(g, 8);
    for (uint64_t i = 0; i < metas && g->at < g->size; i++) {
        skip_bytes(g, take_number(g, 8));
        uint64_t kind = take_number(g, 4), count = 1;
        if (kind == GGUF_ARRAY) {
            kind = take_number(g, 4);
            count = take_number(g, 8);
        }
        for (uint64_t k = 0; k < count && g->at < g->size; k++)
            take_value(g, kind);
    }
    for (uint64_t i = 0; i < tensors && g->at < g->size; i++) {
        skip_bytes(g, take_number(g, 8));
        uint64_t dims = take_number(g, 4);
        for (uint64_t k = 0; k < dims && g->at < g->size; k++)
            take_number(g, 8);
        take_number(g, 4);
        take_number(g, 8);
    }
}

size_t fuzz_mutate_gguf(uint8_t *data, size_t size, size_t max_size, fuzz_random *random)
{
    if (size < GGUF_HEADER || fuzz_below(random, 4) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    if (memcmp(data, "GGUF", 4) != 0) { /* a llama2.c checkpoint: 32-bit numbers */
        change_number(data, size, (field){fuzz_below(random, 10) * 4 % (size - 4), 4}, size, random);
        return size;
    }
    gguf_fields g = {.data = data, .size = size, .at = 4};
    take_tables(&g);
    for (size_t n = 1 + fuzz_below(random, 3); n > 0; n--) {
        field f = g.fields[fuzz_below(random, g.count)];
        change_number(data, size, f, load_number(data, g.fields[fuzz_below(random, g.count)]), random);
    }
    return size;
}
