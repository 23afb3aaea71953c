/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a program as ELF with libelf. The bytes passed to libelf must stay valid until elf_update. */
#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "program/elf.h"
#include "program/program.h"

/* The buffers of one file, valid until elf_update. */
typedef struct writer {
    Elf *elf;
    tv_buf names; /* .shstrtab */
    tv_buf symbols, symbol_names, note, requirements, lines, files, streams[TV_STREAMS_MAX];
    size_t text_index, data_index;
    bool failed;
} writer;

/* The description of a section; `data` NULL: SHT_NOBITS of `size` bytes. */
typedef struct section {
    const char *name;
    GElf_Word type;
    GElf_Xword flags, entry_size;
    uint64_t addr, align;
    const void *data;
    uint64_t size;
} section;

/* Adds a section and returns its index. */
static size_t add_section(writer *w, section s)
{
    Elf_Scn *scn = elf_newscn(w->elf);
    GElf_Shdr header;
    if (!scn || !gelf_getshdr(scn, &header)) {
        w->failed = true;
        return 0;
    }
    header.sh_name = (GElf_Word)w->names.len;
    tv_buf_append(&w->names, s.name, strlen(s.name) + 1);
    header.sh_type = s.type;
    header.sh_flags = s.flags;
    header.sh_addr = s.addr;
    header.sh_entsize = s.entry_size;
    header.sh_addralign = s.align;
    Elf_Data *data = elf_newdata(scn);
    if (!data) {
        w->failed = true;
        return 0;
    }
    data->d_buf = s.type == SHT_NOBITS ? NULL : (void *)(uintptr_t)s.data;
    data->d_size = s.size;
    data->d_align = s.align;
    data->d_type = ELF_T_BYTE;
    if (!gelf_update_shdr(scn, &header))
        w->failed = true;
    return elf_ndxscn(scn);
}

/* Adds a section with the contents of a buffer. */
static size_t add_buffer(writer *w, const char *name, GElf_Word type, const tv_buf *contents, uint64_t align,
                         GElf_Xword entry_size)
{
    return add_section(w, (section){.name = name,
                                    .type = type,
                                    .entry_size = entry_size,
                                    .align = align,
                                    .data = contents->data,
                                    .size = contents->len});
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
    char name[32] = TV_ELF_DATA;
    for (uint64_t i = 0; i < program->segment_count; i++) {
        const tv_segment *s = &program->segments[i];
        if (i)
            snprintf(name, sizeof name, TV_ELF_DATA ".%llu", (unsigned long long)i);
        size_t index = add_section(w, (section){.name = name,
                                                .type = s->bytes ? SHT_PROGBITS : SHT_NOBITS,
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
        char name[64];
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
    Elf_Scn *scn = elf_getscn(w->elf, table);
    GElf_Shdr header;
    if (!scn || !gelf_getshdr(scn, &header)) {
        w->failed = true;
        return;
    }
    header.sh_link = (GElf_Word)strings;
    header.sh_info = 1; /* the first global symbol */
    w->failed |= !gelf_update_shdr(scn, &header);
}

static void add_lines(writer *w, const tv_program *program)
{
    if (!program->lines.data)
        return;
    for (uint64_t i = 0; i < program->instruction_count; i++) {
        tv_buf_le(&w->lines, program->lines.data[i].file_column, 4);
        tv_buf_le(&w->lines, program->lines.data[i].line, 4);
    }
    for (uint64_t i = 0; i < program->file_count; i++)
        tv_buf_append(&w->files, program->files[i], strlen(program->files[i]) + 1);
    add_buffer(w, TV_ELF_LINES, SHT_PROGBITS, &w->lines, 4, 8);
    add_buffer(w, TV_ELF_FILES, SHT_PROGBITS, &w->files, 1, 0);
}

static bool streams_failed(const writer *w)
{
    bool failed = false;
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++)
        failed = failed || w->streams[k].failed;
    return failed;
}

static bool build(writer *w, const tv_program *program)
{
    GElf_Ehdr header;
    if (!gelf_newehdr(w->elf, ELFCLASS64) || !gelf_getehdr(w->elf, &header))
        return false;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_EXEC;
    header.e_machine = EM_NONE;
    header.e_version = EV_CURRENT;
    tv_buf_le(&w->names, 0, 1);
    add_note(w, program);
    w->text_index = add_section(w, (section){.name = TV_ELF_TEXT,
                                             .type = SHT_PROGBITS,
                                             .flags = SHF_ALLOC | SHF_EXECINSTR,
                                             .align = program->word_bytes,
                                             .data = program->text,
                                             .size = program->instruction_count * program->word_bytes});
    add_data(w, program);
    add_streams(w, program);
    add_requirements(w, program);
    add_symbols(w, program);
    add_lines(w, program);
    /* The table of section names includes its own name, so add that before passing its bytes to libelf. */
    size_t own = w->names.len;
    tv_buf_append(&w->names, ".shstrtab", sizeof ".shstrtab");
    size_t index = add_section(w, (section){.name = "", .type = SHT_STRTAB, .align = 1});
    Elf_Scn *scn = elf_getscn(w->elf, index);
    Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
    GElf_Shdr name_header;
    if (!data || !gelf_getshdr(scn, &name_header))
        return false;
    name_header.sh_name = (GElf_Word)own;
    data->d_buf = w->names.data;
    data->d_size = w->names.len;
    header.e_shstrndx = (GElf_Half)index;
    return gelf_update_shdr(scn, &name_header) && gelf_update_ehdr(w->elf, &header) && !w->failed && !w->names.failed &&
           !w->symbols.failed && !w->symbol_names.failed && !w->lines.failed && !w->files.failed && !w->note.failed &&
           !w->requirements.failed && !streams_failed(w);
}

tv_status tv_elf_write(const tv_program *program, tv_output *output, const tv_diag_sink *sink)
{
    if (program->segment_count > 60000)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_SIZE), "merge data that is close together",
                       "%llu data segments exceed the limit of an ELF file",
                       (unsigned long long)program->segment_count);
    writer w = {0};
    elf_version(EV_CURRENT);
    /* libelf seeks in the file that it writes, and the output may be a pipe, so write to a temporary file first. */
    FILE *file = tmpfile();
    w.elf = file ? elf_begin(fileno(file), ELF_C_WRITE, NULL) : NULL;
    errno = 0;
    bool ok = w.elf && build(&w, program) && elf_update(w.elf, ELF_C_WRITE) >= 0;
    const char *why = ok ? NULL : elf_errmsg(0); /* libelf's own last error, if it is one */
    if (w.elf)
        elf_end(w.elf);
    if (ok) {
        char chunk[65536];
        size_t n;
        rewind(file);
        while ((n = fread(chunk, 1, sizeof chunk, file)) > 0)
            ok = fwrite(chunk, 1, n, tv_output_stream(output)) == n && ok;
        ok = ok && !ferror(file);
    }
    if (!ok && !why)
        why = errno ? strerror(errno) : "out of memory";
    if (file)
        fclose(file);
    tv_buf *bufs[] = {&w.names, &w.symbols, &w.symbol_names, &w.note, &w.requirements, &w.lines, &w.files};
    for (size_t i = 0; i < TV_COUNTOF(bufs); i++)
        tv_buf_fini(bufs[i]);
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++)
        tv_buf_fini(&w.streams[k]);
    return ok ? TV_OK : tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), NULL, "cannot write the ELF file: %s", why);
}
