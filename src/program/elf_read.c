/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a program from an ELF file. Every offset, count, size and string is checked before use: elf_file.c checks
 * that the sections are inside the file, and this file checks their contents. */
#include <elf.h>
#include <stdio.h>

#include "program/elf.h"
#include "program/elf_file.h"
#include "program/program.h"
#include "program/requirements.h"

enum { SEGMENTS_MAX = 65536 };

typedef struct reader {
    const char *name;
    const tv_isa_list *isas;
    const tv_diag_sink *sink;
    tv_elf_file file;
    tv_program *program;
} reader;

bool tv_elf_recognise(const uint8_t *data, size_t size)
{
    return size >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0;
}

static tv_status report_damage(const reader *r, const char *what)
{
    return tv_fail(r->sink, TV_ERR_INPUT, TV_CODE(OBJ_DAMAGED), "assemble it again", "'%s' is damaged: %s", r->name,
                   what);
}

/* Reads the instruction set and the options from the note. */
static tv_status read_note(reader *r, const tv_isa **isa, bool *proposed)
{
    tv_elf_section s;
    int found = tv_elf_file_find(&r->file, TV_ELF_NOTE, &s);
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
    tv_elf_section s;
    int found = tv_elf_file_find(&r->file, TV_ELF_TEXT, &s);
    if (found < 0 || (found && s.type != SHT_PROGBITS && s.memory_size))
        return report_damage(r, ".text is outside the file");
    if (found && s.size % r->program->word_bytes != 0)
        return report_damage(r, ".text is not whole words");
    r->program->text = found ? s.data : NULL;
    r->program->instruction_count = found ? s.size / r->program->word_bytes : 0;
    return TV_OK;
}

static bool is_data(const tv_elf_section *s)
{
    return strncmp(s->name, TV_ELF_DATA, sizeof TV_ELF_DATA - 1) == 0 &&
           (s->name[sizeof TV_ELF_DATA - 1] == '\0' || s->name[sizeof TV_ELF_DATA - 1] == '.');
}

static tv_status read_segments(reader *r)
{
    tv_program *program = r->program;
    size_t segments = 0;
    tv_elf_section s;
    for (uint64_t i = 1; i < r->file.count; i++) {
        if (!tv_elf_file_section(&r->file, i, &s))
            return report_damage(r, "a section is outside the file");
        segments += is_data(&s) && s.memory_size;
    }
    if (segments > SEGMENTS_MAX)
        return report_damage(r, "it has more than 65536 data segments");
    program->segments = tv_arena_alloc(&program->arena, (segments + 1) * sizeof *program->segments);
    if (!program->segments)
        return tv_fail_memory(r->sink);
    for (uint64_t i = 1; i < r->file.count; i++)
        if (tv_elf_file_section(&r->file, i, &s) && is_data(&s) && s.memory_size)
            program->segments[program->segment_count++] = (tv_segment){s.addr, s.memory_size, s.data};
    return TV_OK;
}

static tv_status read_streams(reader *r)
{
    tv_program *program = r->program;
    for (unsigned k = 0; k < tv_isa_stream_count(program->isa); k++) {
        char name[TV_ELF_NAME_MAX];
        snprintf(name, sizeof name, TV_ELF_STREAM "%s", program->isa->streams[k]);
        tv_elf_section s;
        int found = tv_elf_file_find(&r->file, name, &s);
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

static tv_status read_symbols(reader *r)
{
    tv_program *program = r->program;
    tv_elf_section table, strings, target;
    int found = tv_elf_file_find(&r->file, ".symtab", &table);
    if (found == 0)
        return TV_OK;
    if (found < 0 || table.size % sizeof(Elf64_Sym) != 0 || !tv_elf_file_section(&r->file, table.link, &strings))
        return report_damage(r, "its symbol table is malformed");
    size_t n = table.size / sizeof(Elf64_Sym);
    program->symbols = tv_arena_alloc(&program->arena, (n + 1) * sizeof *program->symbols);
    if (!program->symbols)
        return tv_fail_memory(r->sink);
    for (size_t i = 1; i < n; i++) {
        const uint8_t *p = table.data + i * sizeof(Elf64_Sym);
        const char *name = tv_elf_string(&strings, tv_load_le32(p));
        if (!name)
            return report_damage(r, "a symbol's name is outside the string table");
        uint16_t index = tv_load_le16(p + 6);
        uint64_t value = tv_load_le64(p + 8);
        tv_symbol_kind kind = TV_SYMBOL_CONSTANT;
        if ((p[4] & 15) == STT_OBJECT)
            kind = TV_SYMBOL_DATA;
        else if (index != SHN_ABS && tv_elf_file_section(&r->file, index, &target) &&
                 strcmp(target.name, TV_ELF_TEXT) == 0) {
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
    tv_elf_section s;
    int found = tv_elf_file_find(&r->file, TV_ELF_REQUIRE, &s);
    if (found == 0)
        return TV_OK;
    if (found < 0)
        return report_damage(r, "a section is outside the file");
    program->requirements = tv_arena_alloc(&program->arena, REQUIREMENTS_MAX * sizeof *program->requirements);
    if (!program->requirements)
        return tv_fail_memory(r->sink);
    for (uint64_t offset = 0; offset < s.size;) {
        const char *text = tv_elf_string(&s, offset);
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
    tv_elf_section lines, files;
    int found = tv_elf_file_find(&r->file, TV_ELF_LINES, &lines);
    if (found == 0)
        return TV_OK;
    if (found < 0 || tv_elf_file_find(&r->file, TV_ELF_FILES, &files) != 1 ||
        lines.size != program->instruction_count * 8)
        return report_damage(r, "its line table does not match its words");
    program->files = tv_arena_alloc(&program->arena, TV_LINE_FILES_MAX * sizeof *program->files);
    if (!program->files || !TV_VEC_RESERVE(&program->lines, program->instruction_count + 1))
        return tv_fail_memory(r->sink);
    for (uint64_t offset = 0; offset < files.size && program->file_count < TV_LINE_FILES_MAX;) {
        const char *name = tv_elf_string(&files, offset);
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

static tv_status read_all(reader *r, const tv_input *input)
{
    tv_elf_error error = tv_elf_file_open(input->data, input->size, &r->file);
    if (error == TV_ELF_FOREIGN)
        return tv_fail(r->sink, TV_ERR_INPUT, TV_CODE(OBJ_FORMAT), "only files made by `trivet asm` can be loaded",
                       "'%s' is not a 64-bit little-endian ELF file", r->name);
    if (error == TV_ELF_TABLE_DAMAGED)
        return report_damage(r, "its section table is outside the file or has no names");
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
    tv_status status = read_all(&r, input);
    if (status != TV_OK) {
        tv_program_free(r.program);
        return status;
    }
    r.program->input = *input;
    *input = (tv_input){0};
    *out = r.program;
    return TV_OK;
}
