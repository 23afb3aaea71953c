/* SPDX-License-Identifier: Apache-2.0 */
/* Program files against libelf, the independent implementation of the format: libelf reads what Trivet writes, and
 * Trivet reads what libelf writes, with other orders of sections and more sections than the file header can count. */
#include "unit.h"

#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

#include "lib/targets.h"
#include "program/program.h"

static const char source[] = "        .target pccx\n"
                             "        .equ    X, 0x40\n"
                             "start:  memset  weight_shape[1], 1, 8, 32\n"
                             "        memcpy  l2[X], host[input], shape=0\n"
                             "        wstream gemv, input, 2\n"
                             "        wstream gemm, 0x1000, 64\n"
                             "        wstream gemv, 0x2000, 32\n"
                             "last:   cvo.exp l2[1], l2[X], len=8, async\n"
                             "        .data\n"
                             "        .org    0x100\n"
                             "input:  .bf16   1.0, -2.5, 0.5\n"
                             "        .org    0x10000\n"
                             "out:    .zero   65536\n";

static char path[] = "trivet-elf-XXXXXX";

static int make_path(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    elf_version(EV_CURRENT);
    return fd < 0 || close(fd) != 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static tv_program *assemble(void)
{
    tv_program *program = NULL;
    assert_int_equal(tv_program_assemble("unit.s", source, sizeof source - 1, NULL, NULL, &program), TV_OK);
    return program;
}

/* ---- What Trivet writes, as libelf sees it ---- */

static bool section_named(Elf *elf, const char *name, GElf_Shdr *header, Elf_Data **data)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        if (!gelf_getshdr(scn, header) || strcmp(elf_strptr(elf, names, header->sh_name), name) != 0)
            continue;
        *data = elf_getdata(scn, NULL);
        return true;
    }
    return false;
}

static void check_elf_symbols(Elf *elf)
{
    GElf_Shdr header;
    Elf_Data *data;
    assert_true(section_named(elf, ".symtab", &header, &data));
    unsigned found = 0;
    for (size_t i = 1; i < header.sh_size / header.sh_entsize; i++) {
        GElf_Sym symbol;
        assert_non_null(gelf_getsym(data, (int)i, &symbol));
        const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
        assert_non_null(name);
        if (strcmp(name, "last") == 0) {
            found++;
            assert_int_equal(GELF_ST_TYPE(symbol.st_info), STT_FUNC);
            assert_int_equal(symbol.st_value, 16); /* bytes, as every ELF tool expects */
        } else if (strcmp(name, "input") == 0) {
            found++;
            assert_int_equal(GELF_ST_TYPE(symbol.st_info), STT_OBJECT);
            assert_int_equal(symbol.st_value, 0x100);
        }
    }
    assert_int_equal(found, 2);
}

static void check_elf(Elf *elf)
{
    GElf_Ehdr header;
    assert_non_null(gelf_getehdr(elf, &header));
    assert_true(header.e_type == ET_EXEC && header.e_machine == EM_NONE && header.e_ident[EI_CLASS] == ELFCLASS64);
    const struct {
        const char *name;
        GElf_Word type;
        uint64_t addr, size;
    } rows[] = {{".note.trivet", SHT_NOTE, 0, 0},       {".text", SHT_PROGBITS, 0, 24},
                {".wstream.gemm", SHT_PROGBITS, 0, 16}, {".wstream.gemv", SHT_PROGBITS, 0, 32},
                {".data", SHT_PROGBITS, 0x100, 6},      {".data.1", SHT_NOBITS, 0x10000, 65536},
                {".strtab", SHT_STRTAB, 0, 0},          {".trivet.lines", SHT_PROGBITS, 0, 24}};
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        GElf_Shdr s;
        Elf_Data *data;
        if (!section_named(elf, rows[i].name, &s, &data))
            fail_msg("there is no section %s", rows[i].name);
        if (s.sh_type != rows[i].type || s.sh_addr != rows[i].addr || (rows[i].size && s.sh_size != rows[i].size))
            fail_msg("%s: type %u, address %llu, size %llu", rows[i].name, s.sh_type, (unsigned long long)s.sh_addr,
                     (unsigned long long)s.sh_size);
    }
    GElf_Shdr note;
    Elf_Data *data;
    GElf_Nhdr nhdr;
    size_t name, desc;
    assert_true(section_named(elf, ".note.trivet", &note, &data));
    assert_true(gelf_getnote(data, 0, &nhdr, &name, &desc) > 0);
    assert_string_equal((const char *)data->d_buf + name, "Trivet");
    assert_string_equal((const char *)data->d_buf + desc + 4, "pccx");
}

static void the_file_is_an_elf_file_by_libelf(void **state)
{
    (void)state;
    tv_program *program = assemble();
    assert_int_equal(tv_program_save(program, path, TV_FORMAT_ELF, NULL), TV_OK);
    tv_program_free(program);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    assert_non_null(elf);
    check_elf(elf);
    check_elf_symbols(elf);
    elf_end(elf);
    close(fd);
}

/* ---- What libelf writes ---- */

/* A section of a file that libelf writes; its contents must stay valid until elf_update. */
typedef struct made_section {
    const char *name;
    GElf_Word type;
    const void *data;
    size_t size;
    uint64_t addr, align;
} made_section;

typedef struct maker {
    Elf *elf;
    char names[1 << 20];
    size_t names_size;
} maker;

static size_t make_section(maker *m, made_section s)
{
    Elf_Scn *scn = elf_newscn(m->elf);
    Elf_Data *data = elf_newdata(scn);
    GElf_Shdr header;
    assert_non_null(data);
    assert_non_null(gelf_getshdr(scn, &header));
    header.sh_name = (GElf_Word)m->names_size;
    header.sh_type = s.type;
    header.sh_addr = s.addr;
    memcpy(m->names + m->names_size, s.name, strlen(s.name) + 1);
    m->names_size += strlen(s.name) + 1;
    *data = (Elf_Data){.d_buf = (void *)(uintptr_t)s.data,
                       .d_size = s.size,
                       .d_align = s.align ? s.align : 1,
                       .d_type = ELF_T_BYTE,
                       .d_version = EV_CURRENT};
    assert_true(gelf_update_shdr(scn, &header) != 0);
    return elf_ndxscn(scn);
}

/* Writes the table of names and the file. */
static void finish_file(maker *m, int fd)
{
    GElf_Ehdr header;
    Elf_Scn *names = elf_newscn(m->elf), *zero;
    GElf_Shdr first, s;
    assert_non_null(gelf_getshdr(names, &s));
    s.sh_name = (GElf_Word)m->names_size;
    s.sh_type = SHT_STRTAB;
    memcpy(m->names + m->names_size, ".shstrtab", sizeof ".shstrtab");
    m->names_size += sizeof ".shstrtab";
    *elf_newdata(names) = (Elf_Data){
        .d_buf = m->names, .d_size = m->names_size, .d_align = 1, .d_type = ELF_T_BYTE, .d_version = EV_CURRENT};
    assert_true(gelf_update_shdr(names, &s) != 0);
    assert_non_null(gelf_getehdr(m->elf, &header));
    size_t index = elf_ndxscn(names);
    header.e_shstrndx = index < SHN_LORESERVE ? (GElf_Half)index : SHN_XINDEX;
    if (index >= SHN_LORESERVE) {
        zero = elf_getscn(m->elf, 0);
        assert_non_null(gelf_getshdr(zero, &first));
        first.sh_link = (GElf_Word)index;
        assert_true(gelf_update_shdr(zero, &first) != 0);
    }
    assert_true(gelf_update_ehdr(m->elf, &header) != 0);
    assert_true(elf_update(m->elf, ELF_C_WRITE) > 0);
    elf_end(m->elf);
    assert_int_equal(close(fd), 0);
}

static int start_file(maker *m)
{
    int fd = open(path, O_RDWR | O_TRUNC);
    GElf_Ehdr header;
    assert_true(fd >= 0);
    *m = (maker){.elf = elf_begin(fd, ELF_C_WRITE, NULL), .names_size = 1};
    assert_non_null(gelf_newehdr(m->elf, ELFCLASS64));
    assert_non_null(gelf_getehdr(m->elf, &header));
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_EXEC;
    header.e_version = EV_CURRENT;
    assert_true(gelf_update_ehdr(m->elf, &header) != 0);
    return fd;
}

/* The words that the specification of OpenNPU gives for `nop`: all bits zero. */
static const uint8_t words[8];
static const uint8_t note[] = "\7\0\0\0\14\0\0\0\1\0\0\0Trivet\0\0\1\0\0\0opennpu";
static const made_section note_section = {".note.trivet", SHT_NOTE, note, sizeof note, 0, 4};

static void a_file_that_libelf_writes_is_read_in_any_order_of_its_sections(void **state)
{
    (void)state;
    static const uint8_t data[] = {1, 2, 3};
    static maker m;
    tv_program *program;
    tv_segment s;
    tv_symbol symbol;
    int fd = start_file(&m);
    static const char strings[] = "\0second";
    size_t names = make_section(&m, (made_section){".strtab", SHT_STRTAB, strings, sizeof strings, 0, 1});
    make_section(&m, (made_section){".data.7", SHT_NOBITS, NULL, 4096, 0x4000, 1});
    size_t text = make_section(&m, (made_section){".text", SHT_PROGBITS, words, sizeof words, 0, 4096});
    GElf_Sym symbols[2] = {{0}, {.st_name = 1, .st_info = GELF_ST_INFO(STB_GLOBAL, STT_FUNC), .st_value = 4}};
    symbols[1].st_shndx = (GElf_Section)text;
    size_t table = make_section(&m, (made_section){".symtab", SHT_SYMTAB, symbols, sizeof symbols, 0, 8});
    make_section(&m, (made_section){".comment", SHT_PROGBITS, "other", 6, 0, 64});
    make_section(&m, (made_section){".data", SHT_PROGBITS, data, sizeof data, 0x20, 16});
    make_section(&m, note_section);
    GElf_Shdr header;
    Elf_Scn *scn = elf_getscn(m.elf, table);
    assert_non_null(gelf_getshdr(scn, &header));
    header.sh_link = (GElf_Word)names;
    header.sh_entsize = sizeof symbols[0];
    assert_true(gelf_update_shdr(scn, &header) != 0);
    finish_file(&m, fd);

    assert_int_equal(tv_program_open(path, NULL, NULL, &program), TV_OK);
    assert_string_equal(tv_program_target(program), "opennpu");
    assert_int_equal(tv_program_instruction_count(program), 2);
    assert_true(tv_program_segment_at(program, 0, &s) && s.addr == 0x20 && s.size == 3);
    assert_memory_equal(s.bytes, data, 3);
    assert_true(tv_program_segment_at(program, 1, &s) && s.addr == 0x4000 && s.size == 4096 && !s.bytes);
    assert_false(tv_program_segment_at(program, 2, &s));
    assert_true(tv_program_symbol(program, "second", &symbol));
    assert_true(symbol.kind == TV_SYMBOL_TEXT && symbol.value == 1);
    tv_program_free(program);
}

/* From 65280 sections on their number and the index of their names are in section 0. */
static void more_sections_than_the_header_can_count_are_read(void **state)
{
    (void)state;
    enum { SEGMENTS = 65500 };
    static const uint8_t data[1];
    static maker m;
    tv_program *program;
    tv_segment s;
    int fd = start_file(&m);
    make_section(&m, note_section);
    for (unsigned i = 0; i < SEGMENTS; i++)
        make_section(&m, (made_section){".data.x", SHT_PROGBITS, data, 1, 2 * i, 1});
    finish_file(&m, fd);
    assert_int_equal(tv_program_open(path, NULL, NULL, &program), TV_OK);
    assert_true(tv_program_segment_at(program, SEGMENTS - 1, &s) && s.addr == 2 * (SEGMENTS - 1));
    assert_false(tv_program_segment_at(program, SEGMENTS, &s));
    tv_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_an_elf_file_by_libelf),
        cmocka_unit_test(a_file_that_libelf_writes_is_read_in_any_order_of_its_sections),
        cmocka_unit_test(more_sections_than_the_header_can_count_are_read),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
