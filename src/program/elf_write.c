/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a program as ELF: the file header, the sections in order, each at a multiple of its alignment, and the
 * section headers at a multiple of 8. All offsets are computed first, so that the file is written front to back, into a
 * pipe too. elf_file.h says why libelf is not used. */
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/vec.h"
#include "program/elf.h"
#include "program/program.h"

enum { LINE_BYTES = 8 };

/* A section; `data` NULL: SHT_NOBITS of `size` bytes, or empty. */
typedef struct section {
    uint32_t name; /* offset in .shstrtab */
    uint32_t type, link, info;
    uint64_t flags, entry_size;
    uint64_t addr, align, offset;
    const void *data;
    const tv_line_entry *lines; /* instead of `data`; converted while they are written, because they may be many */
    uint64_t size;
} section;

/* The contents of one file. */
typedef struct writer {
    TV_VEC(section) sections; /* the empty one of index 0 is the first */
    tv_buf names;             /* .shstrtab */
    tv_buf symbols, symbol_names, note, requirements, files, streams[TV_STREAMS_MAX];
    size_t text_index, data_index;
} writer;

/* Adds a section and returns its index; 0: out of memory. */
static size_t add_section(writer *w, const char *name, section s)
{
    s.name = (uint32_t)w->names.len;
    tv_buf_append(&w->names, name, strlen(name) + 1);
    return TV_VEC_PUSH(&w->sections, s) ? w->sections.count - 1 : 0;
}

/* Adds a section with the contents of a buffer, which must be complete. */
static size_t add_buffer(writer *w, const char *name, uint32_t type, const tv_buf *contents, uint64_t align,
                         uint64_t entry_size)
{
    return add_section(
        w, name,
        (section){
            .type = type, .entry_size = entry_size, .align = align, .data = contents->data, .size = contents->len});
}

static void add_note(writer *w, const tv_program *program)
{
    const char *target = program->isa->target;
    uint32_t size = 4 + (uint32_t)strlen(target) + 1 + (program->proposed ? (uint32_t)sizeof TV_ELF_PROPOSED : 0);
    tv_buf_le(&w->note, sizeof TV_ELF_NOTE_OWNER, 4);
    tv_buf_le(&w->note, size, 4);
    tv_buf_le(&w->note, TV_ELF_NOTE_TYPE, 4);
    tv_buf_append(&w->note, TV_ELF_NOTE_OWNER, sizeof TV_ELF_NOTE_OWNER);
    tv_buf_fill(&w->note, 0, (4 - w->note.len % 4) % 4);
    tv_buf_le(&w->note, TV_ELF_VERSION, 4);
    tv_buf_append(&w->note, target, strlen(target) + 1);
    if (program->proposed)
        tv_buf_append(&w->note, TV_ELF_PROPOSED, sizeof TV_ELF_PROPOSED);
    tv_buf_fill(&w->note, 0, (4 - w->note.len % 4) % 4);
    add_buffer(w, TV_ELF_NOTE, SHT_NOTE, &w->note, 4, 0);
}

static void add_data(writer *w, const tv_program *program)
{
    char name[TV_ELF_NAME_MAX] = TV_ELF_DATA;
    for (uint64_t i = 0; i < program->segment_count; i++) {
        const tv_segment *s = &program->segments[i];
        if (i)
            snprintf(name, sizeof name, TV_ELF_DATA ".%" PRIu64, i);
        size_t index = add_section(w, name,
                                   (section){.type = s->bytes ? SHT_PROGBITS : SHT_NOBITS,
                                             .flags = SHF_ALLOC | SHF_WRITE,
                                             .addr = s->addr,
                                             .align = 1,
                                             .data = s->bytes,
                                             .size = s->size});
        if (i == 0)
            w->data_index = index;
    }
}

static void add_streams(writer *w, const tv_program *program)
{
    for (unsigned k = 0; k < tv_isa_stream_count(program->isa); k++) {
        for (uint64_t i = 0; i < program->descriptor_count[k]; i++) {
            tv_buf_le(&w->streams[k], program->descriptors[k][i].addr, 8);
            tv_buf_le(&w->streams[k], program->descriptors[k][i].bytes, 8);
        }
        if (program->descriptor_count[k] == 0)
            continue;
        char name[TV_ELF_NAME_MAX];
        snprintf(name, sizeof name, TV_ELF_STREAM "%s", program->isa->streams[k]);
        add_buffer(w, name, SHT_PROGBITS, &w->streams[k], 8, 16);
    }
}

static void add_requirements(writer *w, const tv_program *program)
{
    for (uint64_t i = 0; i < program->requirement_count; i++)
        tv_buf_append(&w->requirements, program->requirements[i], strlen(program->requirements[i]) + 1);
    if (program->requirement_count)
        add_buffer(w, TV_ELF_REQUIRE, SHT_PROGBITS, &w->requirements, 1, 0);
}

static void add_symbol(writer *w, const char *name, uint64_t value, uint8_t info, size_t section_index)
{
    tv_buf_le(&w->symbols, w->symbol_names.len, 4);
    tv_buf_le(&w->symbols, info, 1);
    tv_buf_le(&w->symbols, 0, 1);
    tv_buf_le(&w->symbols, section_index, 2);
    tv_buf_le(&w->symbols, value, 8);
    tv_buf_le(&w->symbols, 0, 8);
    tv_buf_append(&w->symbol_names, name, strlen(name) + 1);
}

static void add_symbols(writer *w, const tv_program *program)
{
    tv_buf_le(&w->symbol_names, 0, 1);
    tv_buf_fill(&w->symbols, 0, sizeof(Elf64_Sym));
    for (uint64_t i = 0; i < program->symbol_count; i++) {
        const tv_symbol *s = &program->symbols[i];
        if (s->kind == TV_SYMBOL_TEXT)
            add_symbol(w, s->name, s->value * program->word_bytes, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), w->text_index);
        else if (s->kind == TV_SYMBOL_DATA)
            add_symbol(w, s->name, s->value, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                       w->data_index ? w->data_index : SHN_ABS);
        else
            add_symbol(w, s->name, s->value, ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), SHN_ABS);
    }
    size_t strings = add_buffer(w, ".strtab", SHT_STRTAB, &w->symbol_names, 1, 0);
    size_t table = add_buffer(w, ".symtab", SHT_SYMTAB, &w->symbols, 8, sizeof(Elf64_Sym));
    if (!table)
        return;
    w->sections.data[table].link = (uint32_t)strings;
    w->sections.data[table].info = 1; /* the first global symbol */
}

static void add_lines(writer *w, const tv_program *program)
{
    if (!program->lines.data)
        return;
    for (uint64_t i = 0; i < program->file_count; i++)
        tv_buf_append(&w->files, program->files[i], strlen(program->files[i]) + 1);
    add_section(w, TV_ELF_LINES,
                (section){.type = SHT_PROGBITS,
                          .entry_size = LINE_BYTES,
                          .align = 4,
                          .lines = program->lines.data,
                          .size = program->instruction_count * LINE_BYTES});
    add_buffer(w, TV_ELF_FILES, SHT_PROGBITS, &w->files, 1, 0);
}

static void add_all(writer *w, const tv_program *program)
{
    (void)TV_VEC_PUSH(&w->sections, (section){0});
    tv_buf_le(&w->names, 0, 1);
    add_note(w, program);
    w->text_index = add_section(w, TV_ELF_TEXT,
                                (section){.type = SHT_PROGBITS,
                                          .flags = SHF_ALLOC | SHF_EXECINSTR,
                                          .align = program->word_bytes,
                                          .data = program->text,
                                          .size = program->instruction_count * program->word_bytes});
    add_data(w, program);
    add_streams(w, program);
    add_requirements(w, program);
    add_symbols(w, program);
    add_lines(w, program);
    size_t index = add_section(w, ".shstrtab", (section){.type = SHT_STRTAB, .align = 1});
    if (!index)
        return;
    tv_buf_le(&w->names, 0, 1);                   /* an empty name, as in all files of this version of the form */
    w->sections.data[index].data = w->names.data; /* complete: with its own name */
    w->sections.data[index].size = w->names.len;
}

static bool has_failed(const writer *w)
{
    bool failed = w->sections.failed || w->names.failed || w->symbols.failed || w->symbol_names.failed ||
                  w->note.failed || w->requirements.failed || w->files.failed;
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++)
        failed = failed || w->streams[k].failed;
    return failed;
}

static void free_writer(writer *w)
{
    tv_buf *bufs[] = {&w->names, &w->symbols, &w->symbol_names, &w->note, &w->requirements, &w->files};
    for (size_t i = 0; i < TV_COUNTOF(bufs); i++)
        tv_buf_fini(bufs[i]);
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++)
        tv_buf_fini(&w->streams[k]);
    TV_VEC_FINI(&w->sections);
}

/* ---- The file ---- */

static uint64_t align_up(uint64_t offset, uint64_t align) { return tv_ceil_div(offset, align) * align; }

/* Gives each section its offset. Returns the offset of the section headers. */
static uint64_t lay_out(writer *w)
{
    uint64_t offset = sizeof(Elf64_Ehdr);
    for (size_t i = 1; i < w->sections.count; i++) {
        section *s = &w->sections.data[i];
        s->offset = offset = align_up(offset, s->align);
        if (s->type != SHT_NOBITS)
            offset += s->size;
    }
    return align_up(offset, 8);
}

/* Writes the `bytes` low bytes of `value`. */
static void put(FILE *out, uint64_t value, unsigned bytes)
{
    uint8_t raw[8];
    tv_store_le(raw, value, bytes);
    fwrite(raw, 1, bytes, out);
}

/* Zeros from offset `from` to `to`, which are at most 7 bytes apart. */
static void put_padding(FILE *out, uint64_t from, uint64_t to)
{
    while (from++ < to)
        putc(0, out);
}

static void put_file_header(FILE *out, const writer *w, uint64_t table)
{
    static const uint8_t ident[EI_NIDENT] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
    fwrite(ident, 1, sizeof ident, out);
    put(out, ET_EXEC, 2);
    put(out, EM_NONE, 2);
    put(out, EV_CURRENT, 4);
    put(out, 0, 8); /* e_entry */
    put(out, 0, 8); /* e_phoff */
    put(out, table, 8);
    put(out, 0, 4); /* e_flags */
    put(out, sizeof(Elf64_Ehdr), 2);
    put(out, 0, 2); /* e_phentsize */
    put(out, 0, 2); /* e_phnum */
    put(out, sizeof(Elf64_Shdr), 2);
    put(out, w->sections.count, 2);
    put(out, w->sections.count - 1, 2); /* .shstrtab is the last one */
}

static void put_section_header(FILE *out, const section *s)
{
    put(out, s->name, 4);
    put(out, s->type, 4);
    put(out, s->flags, 8);
    put(out, s->addr, 8);
    put(out, s->offset, 8);
    put(out, s->size, 8);
    put(out, s->link, 4);
    put(out, s->info, 4);
    put(out, s->align, 8);
    put(out, s->entry_size, 8);
}

static void put_lines(FILE *out, const tv_line_entry *lines, uint64_t count)
{
    enum { CHUNK = 1024 };
    uint8_t raw[CHUNK * LINE_BYTES];
    for (uint64_t i = 0, n; i < count; i += n) {
        n = tv_min_u64(count - i, CHUNK);
        for (uint64_t k = 0; k < n; k++) {
            tv_store_le(raw + k * LINE_BYTES, lines[i + k].file_column, 4);
            tv_store_le(raw + k * LINE_BYTES + 4, lines[i + k].line, 4);
        }
        fwrite(raw, LINE_BYTES, n, out);
    }
}

static void put_file(FILE *out, writer *w)
{
    uint64_t table = lay_out(w), offset = sizeof(Elf64_Ehdr);
    put_file_header(out, w, table);
    for (size_t i = 1; i < w->sections.count; i++) {
        const section *s = &w->sections.data[i];
        put_padding(out, offset, s->offset);
        offset = s->offset;
        if (s->type == SHT_NOBITS || s->size == 0)
            continue;
        if (s->lines)
            put_lines(out, s->lines, s->size / LINE_BYTES);
        else
            fwrite(s->data, 1, s->size, out);
        offset += s->size;
    }
    put_padding(out, offset, table);
    for (size_t i = 0; i < w->sections.count; i++)
        put_section_header(out, &w->sections.data[i]);
}

tv_status tv_elf_write(const tv_program *program, tv_output *output, const tv_diag_sink *sink)
{
    if (program->segment_count > 60000) /* the file header has 16 bits for the number of sections */
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_SIZE), "merge data that is close together",
                       "%llu data segments exceed the limit of an ELF file",
                       (unsigned long long)program->segment_count);
    writer w = {0};
    add_all(&w, program);
    bool ok = !has_failed(&w);
    if (ok)
        put_file(tv_output_stream(output), &w); /* the commit reports errors of the stream */
    free_writer(&w);
    return ok ? TV_OK : tv_fail_memory(sink);
}
