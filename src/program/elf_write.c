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
    tv_buf symbols, symbol_names, note, lines, files, streams[TV_STREAMS_MAX];
    size_t text_index, data_index;
    bool failed;
} writer;

/* Adds a section; `bytes` NULL makes it SHT_NOBITS. Returns its index. */
static size_t add_section(writer *w, const char *name, GElf_Word type, GElf_Xword flags, uint64_t addr,
                          const void *bytes, uint64_t size, uint64_t align, GElf_Xword entry, Elf_Type data_type)
{
    Elf_Scn *scn = elf_newscn(w->elf);
    GElf_Shdr header;
    if (!scn || !gelf_getshdr(scn, &header)) {
        w->failed = true;
        return 0;
    }
    header.sh_name = (GElf_Word)w->names.len;
    tv_buf_append(&w->names, name, strlen(name) + 1);
    header.sh_type = type;
    header.sh_flags = flags;
    header.sh_addr = addr;
    header.sh_entsize = entry;
    header.sh_addralign = align;
    Elf_Data *data = elf_newdata(scn);
    if (!data) {
        w->failed = true;
        return 0;
    }
    data->d_buf = (void *)(uintptr_t)bytes;
    data->d_size = size;
    data->d_align = align;
    data->d_type = data_type;
    if (type == SHT_NOBITS)
        data->d_buf = NULL;
    if (!gelf_update_shdr(scn, &header))
        w->failed = true;
    return elf_ndxscn(scn);
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
    add_section(w, TV_ELF_NOTE, SHT_NOTE, 0, 0, w->note.data, w->note.len, 4, 0, ELF_T_BYTE);
}

static void add_data(writer *w, const tv_program *program)
{
    char name[32] = TV_ELF_DATA;
    for (uint64_t i = 0; i < program->segment_count; i++) {
        const tv_segment *s = &program->segments[i];
        if (i)
            snprintf(name, sizeof name, TV_ELF_DATA ".%llu", (unsigned long long)i);
        size_t index = add_section(w, name, s->bytes ? SHT_PROGBITS : SHT_NOBITS, SHF_ALLOC | SHF_WRITE, s->addr,
                                   s->bytes, s->size, 1, 0, ELF_T_BYTE);
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
        add_section(w, name, SHT_PROGBITS, 0, 0, w->streams[k].data, w->streams[k].len, 8, 16, ELF_T_BYTE);
    }
}

static void add_symbol(writer *w, const char *name, uint64_t value, uint8_t info, size_t section)
{
    tv_buf_le(&w->symbols, w->symbol_names.len, 4);
    tv_buf_le(&w->symbols, info, 1);
    tv_buf_le(&w->symbols, 0, 1);
    tv_buf_le(&w->symbols, section, 2);
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
    size_t strings =
        add_section(w, ".strtab", SHT_STRTAB, 0, 0, w->symbol_names.data, w->symbol_names.len, 1, 0, ELF_T_BYTE);
    size_t table =
        add_section(w, ".symtab", SHT_SYMTAB, 0, 0, w->symbols.data, w->symbols.len, 8, sizeof(Elf64_Sym), ELF_T_BYTE);
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
    add_section(w, TV_ELF_LINES, SHT_PROGBITS, 0, 0, w->lines.data, w->lines.len, 4, 8, ELF_T_BYTE);
    add_section(w, TV_ELF_FILES, SHT_PROGBITS, 0, 0, w->files.data, w->files.len, 1, 0, ELF_T_BYTE);
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
    w->text_index = add_section(w, TV_ELF_TEXT, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0, program->text,
                                program->instruction_count * program->word_bytes, program->word_bytes, 0, ELF_T_BYTE);
    add_data(w, program);
    add_streams(w, program);
    add_symbols(w, program);
    add_lines(w, program);
    /* The table of section names includes its own name, so add that before passing its bytes to libelf. */
    size_t own = w->names.len;
    tv_buf_append(&w->names, ".shstrtab", sizeof ".shstrtab");
    size_t index = add_section(w, "", SHT_STRTAB, 0, 0, NULL, 0, 1, 0, ELF_T_BYTE);
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
           !streams_failed(w);
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
    tv_buf *bufs[] = {&w.names, &w.symbols, &w.symbol_names, &w.note, &w.lines, &w.files};
    for (size_t i = 0; i < TV_COUNTOF(bufs); i++)
        tv_buf_fini(bufs[i]);
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++)
        tv_buf_fini(&w.streams[k]);
    return ok ? TV_OK : tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), NULL, "cannot write the ELF file: %s", why);
}
