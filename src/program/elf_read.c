/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a program from an ELF file. Every offset, count, size and string is checked before use: libelf checks that
 * the sections are inside the file, and this file checks their contents. */
#include <gelf.h>
#include <inttypes.h>
#include <stdlib.h>

#include "program/elf.h"
#include "program/program.h"
#include "program/requirements.h"

enum { SEGMENTS_MAX = 65536 };

typedef struct reader {
    const char *name;
    const tv_isa_list *isas;
    const tv_diag_sink *sink;
    Elf *elf;
    size_t names; /* index of .shstrtab */
    tv_program *program;
} reader;

typedef struct section {
    const char *name;
    GElf_Shdr header;
    const uint8_t *data;
    size_t size;
} section;

bool tv_elf_recognise(const uint8_t *data, size_t size)
{
    return size >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0;
}

static tv_status report_damage(const reader *r, const char *what)
{
    return tv_fail(r->sink, TV_ERR_INPUT, TV_CODE(OBJ_DAMAGED), "assemble it again", "'%s' is damaged: %s", r->name,
                   what);
}

/* Fills `out` with section `index`; false past the end or when libelf finds it outside the file. */
static bool section_at(const reader *r, size_t index, section *out)
{
    Elf_Scn *scn = elf_getscn(r->elf, index);
    if (!scn || !gelf_getshdr(scn, &out->header))
        return false;
    out->name = elf_strptr(r->elf, r->names, out->header.sh_name);
    if (!out->name)
        out->name = "";
    out->data = NULL;
    out->size = 0;
    if (out->header.sh_type == SHT_NOBITS || out->header.sh_size == 0)
        return true;
    Elf_Data *raw = elf_rawdata(scn, NULL);
    if (!raw || !raw->d_buf)
        return false;
    out->data = raw->d_buf;
    out->size = raw->d_size;
    return true;
}

/* 1: found; 0: no section has that name; -1: a section is damaged. */
static int find_section(const reader *r, const char *name, section *out)
{
    size_t count = 0;
    if (elf_getshdrnum(r->elf, &count) != 0)
        return -1;
    for (size_t i = 1; i < count; i++) {
        if (!section_at(r, i, out))
            return -1;
        if (strcmp(out->name, name) == 0)
            return 1;
    }
    return 0;
}

/* Reads the instruction set and the options from the note. */
static tv_status read_note(reader *r, const tv_isa **isa, bool *proposed)
{
    section s;
    int found = find_section(r, TV_ELF_NOTE, &s);
    if (found < 0)
        return report_damage(r, "a section is outside the file");
    if (found == 0)
        return tv_fail(r->sink, TV_ERR_INPUT, TV_CODE(OBJ_FORMAT), "only files made by `trivet asm` can be loaded",
                       "'%s' is an ELF file, but not a Trivet program (it has no " TV_ELF_NOTE ")", r->name);
    const size_t name_end = 12 + (sizeof TV_ELF_NOTE_OWNER + 3) / 4 * 4;
    if (s.size < name_end + 4 || tv_load_le32(s.data) != sizeof TV_ELF_NOTE_OWNER ||
        memcmp(s.data + 12, TV_ELF_NOTE_OWNER, sizeof TV_ELF_NOTE_OWNER) != 0)
        return report_damage(r, "its note is not Trivet's");
    uint32_t size = tv_load_le32(s.data + 4);
    if (size < 6 || size > s.size - name_end || s.data[name_end + size - 1] != '\0')
        return report_damage(r, "its note is cut short");
    uint32_t version = tv_load_le32(s.data + name_end);
    if (version > TV_ELF_VERSION)
        return tv_fail(r->sink, TV_ERR_INPUT, TV_CODE(OBJ_VERSION), "use the newer trivet",
                       "'%s' has program format %u; this version reads up to %d", r->name, version, TV_ELF_VERSION);
    const char *target = (const char *)s.data + name_end + 4;
    *isa = tv_isa_find(r->isas, tv_sv_of(target));
    if (*isa && !(*isa)->word_bits)
        return report_damage(r, "programs of its target are command queues");
    size_t length = strlen(target) + 1, rest = size - 4 - length; /* the note's last byte is a NUL */
    *proposed = rest == sizeof TV_ELF_PROPOSED && memcmp(target + length, TV_ELF_PROPOSED, rest) == 0;
    if (!*isa)
        return tv_fail(r->sink, TV_ERR_INPUT, TV_CODE(TARGET_UNKNOWN), "`trivet targets` lists the machines",
                       "'%s' is for the unknown machine '%.40s'", r->name, target);
    return TV_OK;
}

static tv_status read_text(reader *r)
{
    section s;
    int found = find_section(r, TV_ELF_TEXT, &s);
    if (found < 0 || (found && s.header.sh_type != SHT_PROGBITS && s.header.sh_size))
        return report_damage(r, ".text is outside the file");
    if (found && s.size % r->program->word_bytes != 0)
        return report_damage(r, ".text is not whole words");
    r->program->text = found ? s.data : NULL;
    r->program->instruction_count = found ? s.size / r->program->word_bytes : 0;
    return TV_OK;
}

static bool is_data(const section *s)
{
    return strncmp(s->name, TV_ELF_DATA, sizeof TV_ELF_DATA - 1) == 0 &&
           (s->name[sizeof TV_ELF_DATA - 1] == '\0' || s->name[sizeof TV_ELF_DATA - 1] == '.');
}

static tv_status read_segments(reader *r)
{
    tv_program *program = r->program;
    size_t count = 0, segments = 0;
    section s;
    if (elf_getshdrnum(r->elf, &count) != 0)
        return report_damage(r, "its section table is unreadable");
    for (size_t i = 1; i < count; i++) {
        if (!section_at(r, i, &s))
            return report_damage(r, "a section is outside the file");
        segments += is_data(&s) && s.header.sh_size;
    }
    if (segments > SEGMENTS_MAX)
        return report_damage(r, "it has more than 65536 data segments");
    program->segments = tv_arena_alloc(&program->arena, (segments + 1) * sizeof *program->segments);
    if (!program->segments)
        return tv_fail_memory(r->sink);
    for (size_t i = 1; i < count; i++)
        if (section_at(r, i, &s) && is_data(&s) && s.header.sh_size)
            program->segments[program->segment_count++] = (tv_segment){s.header.sh_addr, s.header.sh_size, s.data};
    return TV_OK;
}

static tv_status read_streams(reader *r)
{
    tv_program *program = r->program;
    for (unsigned k = 0; k < tv_isa_stream_count(program->isa); k++) {
        tv_buf name = {0};
        tv_buf_printf(&name, TV_ELF_STREAM "%s", program->isa->streams[k]);
        section s;
        int found = find_section(r, tv_buf_cstr(&name), &s);
        tv_buf_fini(&name);
        if (found == 0)
            continue;
        if (found < 0 || s.size % 16 != 0)
            return report_damage(r, "a weight-stream section is not whole descriptors");
        size_t n = s.size / 16;
        tv_descriptor *d = tv_arena_alloc(&program->arena, n * sizeof *d);
        if (!d && n)
            return tv_fail_memory(r->sink);
        for (size_t i = 0; i < n; i++) {
            d[i] = (tv_descriptor){tv_load_le64(s.data + 16 * i), tv_load_le64(s.data + 16 * i + 8)};
            if (d[i].addr + d[i].bytes < d[i].addr)
                return report_damage(r, "a weight-stream descriptor runs past the end of memory");
        }
        program->descriptors[k] = d;
        program->descriptor_count[k] = n;
    }
    return TV_OK;
}

/* The NUL-terminated string at an offset of a table; NULL: it is not inside the table. */
static const char *string_at(const section *table, uint64_t offset)
{
    if (offset >= table->size || !memchr(table->data + offset, '\0', table->size - offset))
        return NULL;
    return (const char *)table->data + offset;
}

static tv_status read_symbols(reader *r)
{
    tv_program *program = r->program;
    section table, strings, target;
    int found = find_section(r, ".symtab", &table);
    if (found == 0)
        return TV_OK;
    if (found < 0 || table.size % sizeof(Elf64_Sym) != 0 || !section_at(r, table.header.sh_link, &strings))
        return report_damage(r, "its symbol table is malformed");
    size_t n = table.size / sizeof(Elf64_Sym);
    program->symbols = tv_arena_alloc(&program->arena, (n + 1) * sizeof *program->symbols);
    if (!program->symbols)
        return tv_fail_memory(r->sink);
    for (size_t i = 1; i < n; i++) {
        const uint8_t *p = table.data + i * sizeof(Elf64_Sym);
        const char *name = string_at(&strings, tv_load_le32(p));
        if (!name)
            return report_damage(r, "a symbol's name is outside the string table");
        uint16_t index = tv_load_le16(p + 6);
        uint64_t value = tv_load_le64(p + 8);
        tv_symbol_kind kind = TV_SYMBOL_CONSTANT;
        if ((p[4] & 15) == STT_OBJECT)
            kind = TV_SYMBOL_DATA;
        else if (index != SHN_ABS && section_at(r, index, &target) && strcmp(target.name, TV_ELF_TEXT) == 0) {
            kind = TV_SYMBOL_TEXT;
            value /= program->word_bytes;
        }
        if (*name)
            program->symbols[program->symbol_count++] = (tv_symbol){name, value, kind};
    }
    return TV_OK;
}

static tv_status read_requirements(reader *r)
{
    enum { REQUIREMENTS_MAX = 1024 };
    tv_program *program = r->program;
    section s;
    int found = find_section(r, TV_ELF_REQUIRE, &s);
    if (found == 0)
        return TV_OK;
    if (found < 0)
        return report_damage(r, "a section is outside the file");
    program->requirements = tv_arena_alloc(&program->arena, REQUIREMENTS_MAX * sizeof *program->requirements);
    if (!program->requirements)
        return tv_fail_memory(r->sink);
    for (uint64_t offset = 0; offset < s.size;) {
        const char *text = string_at(&s, offset);
        if (!text || program->requirement_count == REQUIREMENTS_MAX || !tv_requirement_valid(text))
            return report_damage(r, "a requirement is damaged");
        program->requirements[program->requirement_count++] = text;
        offset += strlen(text) + 1;
    }
    return TV_OK;
}

static tv_status read_lines(reader *r)
{
    tv_program *program = r->program;
    section lines, files;
    int found = find_section(r, TV_ELF_LINES, &lines);
    if (found == 0)
        return TV_OK;
    if (found < 0 || find_section(r, TV_ELF_FILES, &files) != 1 || lines.size != program->instruction_count * 8)
        return report_damage(r, "its line table does not match its words");
    program->files = tv_arena_alloc(&program->arena, TV_LINE_FILES_MAX * sizeof *program->files);
    if (!program->files || !TV_VEC_RESERVE(&program->lines, program->instruction_count + 1))
        return tv_fail_memory(r->sink);
    for (uint64_t offset = 0; offset < files.size && program->file_count < TV_LINE_FILES_MAX;) {
        const char *name = string_at(&files, offset);
        if (!name)
            return report_damage(r, "a file name is not terminated");
        program->files[program->file_count++] = name;
        offset += strlen(name) + 1;
    }
    for (uint64_t i = 0; i < program->instruction_count; i++)
        program->lines.data[i] =
            (tv_line_entry){tv_load_le32(lines.data + 8 * i), tv_load_le32(lines.data + 8 * i + 4)};
    program->lines.count = program->instruction_count;
    return TV_OK;
}

static tv_status read_all(reader *r)
{
    GElf_Ehdr header;
    if (elf_kind(r->elf) != ELF_K_ELF || !gelf_getehdr(r->elf, &header) || gelf_getclass(r->elf) != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB)
        return tv_fail(r->sink, TV_ERR_INPUT, TV_CODE(OBJ_FORMAT), "only files made by `trivet asm` can be loaded",
                       "'%s' is not a 64-bit little-endian ELF file", r->name);
    if (elf_getshdrstrndx(r->elf, &r->names) != 0)
        return report_damage(r, "it has no section names");
    const tv_isa *isa = NULL;
    bool proposed = false;
    TV_TRY(read_note(r, &isa, &proposed));
    TV_TRY(tv_program_new(isa, r->sink, &r->program));
    r->program->proposed = proposed;
    TV_TRY(read_text(r));
    TV_TRY(read_segments(r));
    TV_TRY(read_streams(r));
    TV_TRY(read_requirements(r));
    TV_TRY(read_symbols(r));
    TV_TRY(read_lines(r));
    return tv_program_seal(r->program, r->sink);
}

tv_status tv_elf_read(const char *name, tv_input *input, const tv_isa_list *isas, const tv_diag_sink *sink,
                      tv_program **out)
{
    reader r = {.name = name, .isas = isas, .sink = sink};
    elf_version(EV_CURRENT);
    r.elf = elf_memory((char *)(uintptr_t)input->data, input->size);
    if (!r.elf)
        return report_damage(&r, elf_errmsg(-1));
    tv_status status = read_all(&r);
    /* The program refers only to raw section data, which is in `input` and not in memory of libelf. */
    elf_end(r.elf);
    if (status != TV_OK) {
        tv_program_free(r.program);
        return status;
    }
    r.program->input = *input;
    *input = (tv_input){0};
    *out = r.program;
    return TV_OK;
}
