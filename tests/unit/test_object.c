/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: loading returns what was saved; files that are truncated or damaged at any byte are either
 * rejected or read, without undefined behaviour. test_elf.c compares the files with libelf. */
#include "unit.h"

#include <unistd.h>

#include "lib/targets.h"
#include "program/program.h"

static const char source[] = "        .target pccx\n"                                 /* 1 */
                             "        .equ    X, 0x40\n"                              /* 2 */
                             "        .equ    NEGATIVE, -5\n"                         /* 3 */
                             "start:  memset  weight_shape[1], 1, 8, 32\n"            /* 4 */
                             "        memcpy  l2[X], host[input], shape=0\n"          /* 5 */
                             "        wstream gemv, weights, weights_end - weights\n" /* 6 */
                             "        wstream gemm, 0x1000, 64\n"                     /* 7 */
                             "        wstream gemv, 0x2000, 32\n"                     /* 8 */
                             "\n"                                                     /* 9 */
                             "last:   cvo.exp l2[1], l2[X], len=8, async\n"           /* 10 */
                             "        .data\n"                                        /* 11 */
                             "        .org    0x100\n"                                /* 12 */
                             "input:  .bf16   1.0, -2.5\n"                            /* 13 */
                             "weights: .int4  1, -8, 7, 0\n"                          /* 14 */
                             "weights_end:\n"                                         /* 15 */
                             "        .org    0x10000\n"                              /* 16 */
                             "out:    .zero   65536\n";                               /* 17 */

/* The words that section 2 of the specification gives for the three instructions. */
static const uint64_t source_words[] = {
    UINT64_C(3) << 60 | UINT64_C(1) << 58 | UINT64_C(1) << 52 | UINT64_C(1) << 36 | UINT64_C(8) << 20 | 32 << 4,
    UINT64_C(2) << 60 | UINT64_C(1) << 59 | UINT64_C(0x40) << 41 | UINT64_C(0x10) << 24,
    UINT64_C(4) << 60 | UINT64_C(0x40) << 39 | UINT64_C(1) << 22 | 8 << 6 | 1,
};

static char folder[] = "trivet-unit-XXXXXX";
static const char *const files[] = {"a.elf", "b.elf", "a.bin", "a.hex"};

static int enter_folder(void **state)
{
    (void)state;
    return !mkdtemp(folder) || chdir(folder) != 0;
}

static int leave_folder(void **state)
{
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(files); i++)
        unlink(files[i]);
    return chdir("..") != 0 || rmdir(folder) != 0;
}

static tv_program *assemble(const char *text)
{
    tv_program *program = NULL;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    if (tv_program_assemble("unit.s", text, strlen(text), NULL, &sink, &program) != TV_OK)
        fail_msg("line %u: %s", log.at[0].line, log.at[0].message);
    return program;
}

/* ---- Round trips ---- */

static void check_symbol(const tv_program *program, const char *name, tv_symbol_kind kind, int64_t value)
{
    tv_symbol s;
    if (!tv_program_symbol(program, name, &s))
        fail_msg("there is no symbol %s", name);
    assert_int_equal(s.kind, kind);
    assert_true((int64_t)s.value == value);
}

static uint8_t byte_at(const tv_program *program, uint64_t addr)
{
    tv_segment s;
    for (uint64_t i = 0; tv_program_segment_at(program, i, &s); i++)
        if (addr >= s.addr && addr - s.addr < s.size)
            return s.bytes ? s.bytes[addr - s.addr] : 0;
    fail_msg("no data at %llu", (unsigned long long)addr);
    return 0;
}

static void check_descriptor(const tv_program *program, unsigned stream, uint64_t i, uint64_t addr, uint64_t bytes)
{
    tv_descriptor d;
    assert_true(tv_program_descriptor_at(program, stream, i, &d));
    assert_true(d.addr == addr && d.bytes == bytes);
}

static void check_source_program(const tv_program *program)
{
    const unsigned lines[] = {4, 5, 10};
    assert_string_equal(tv_program_target(program), "pccx");
    assert_int_equal(tv_program_instruction_count(program), 3);
    for (unsigned i = 0; i < 3; i++) {
        tv_source_line at;
        assert_true(tv_program_word(program, i) == source_words[i]);
        assert_true(tv_program_line(program, i, &at));
        assert_string_equal(at.file, "unit.s");
        assert_int_equal(at.line, lines[i]);
        assert_int_equal(at.column, 9);
    }
    check_symbol(program, "start", TV_SYMBOL_TEXT, 0);
    check_symbol(program, "last", TV_SYMBOL_TEXT, 2);
    check_symbol(program, "input", TV_SYMBOL_DATA, 0x100);
    check_symbol(program, "weights_end", TV_SYMBOL_DATA, 0x106);
    check_symbol(program, "X", TV_SYMBOL_CONSTANT, 0x40);
    check_symbol(program, "NEGATIVE", TV_SYMBOL_CONSTANT, -5);
    const uint8_t data[] = {0x80, 0x3F, 0x20, 0xC0, 0x81, 0x07}; /* BF16 1 and -2.5; nibbles 1, 8, 7, 0 */
    for (unsigned i = 0; i < sizeof data; i++)
        assert_int_equal(byte_at(program, 0x100 + i), data[i]);
    assert_int_equal(byte_at(program, 0x10000), 0);
    assert_int_equal(byte_at(program, 0x1FFFF), 0);
    check_descriptor(program, 0, 0, 0x1000, 64); /* gemm */
    check_descriptor(program, 1, 0, 0x104, 2);   /* gemv */
    check_descriptor(program, 1, 1, 0x2000, 32);
    tv_descriptor d;
    assert_false(tv_program_descriptor_at(program, 1, 2, &d) || tv_program_descriptor_at(program, 0, 1, &d));
}

static void an_elf_file_contains_the_whole_program(void **state)
{
    (void)state;
    tv_program *program = assemble(source), *loaded = NULL;
    check_source_program(program);
    assert_int_equal(tv_program_save(program, "a.elf", TV_FORMAT_ELF, NULL), TV_OK);
    tv_program_free(program);
    assert_int_equal(tv_program_open("a.elf", NULL, NULL, &loaded), TV_OK);
    check_source_program(loaded);
    assert_int_equal(tv_program_save(loaded, "b.elf", TV_FORMAT_ELF, NULL), TV_OK);
    tv_program_free(loaded);
    tv_input a, b;
    assert_int_equal(tv_input_open("a.elf", NULL, &a), TV_OK);
    assert_int_equal(tv_input_open("b.elf", NULL, &b), TV_OK);
    assert_true(a.size < 8192); /* the zeros take no room */
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    tv_input_close(&a);
    tv_input_close(&b);
}

static void an_empty_program_survives_every_format(void **state)
{
    (void)state;
    tv_program *program = assemble("        .target pccx\n"), *loaded = NULL;
    const tv_program_options options = {.size = sizeof options, .target = "pccx"};
    const struct {
        const char *path;
        tv_program_format format;
    } rows[] = {{"a.elf", TV_FORMAT_ELF}, {"a.bin", TV_FORMAT_BIN}, {"a.hex", TV_FORMAT_HEX}};
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        assert_int_equal(tv_program_save(program, rows[i].path, rows[i].format, NULL), TV_OK);
        assert_int_equal(tv_program_open(rows[i].path, &options, NULL, &loaded), TV_OK);
        assert_int_equal(tv_program_instruction_count(loaded), 0);
        tv_program_free(loaded);
    }
    tv_program_free(program);
    tv_program_free(NULL);
}

/* ---- Invalid files ---- */

static void an_invalid_target_leaves_the_out_pointer(void **state)
{
    (void)state;
    tv_program *program = assemble(source), *loaded = NULL;
    assert_int_equal(tv_program_save(program, "a.elf", TV_FORMAT_ELF, NULL), TV_OK);
    tv_program_free(program);
    const tv_program_options options = {.size = sizeof options, .target = "other"};
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    assert_int_equal(tv_program_open("a.elf", &options, &sink, &loaded), TV_ERR_INPUT);
    assert_int_equal(log.count, 1);
    assert_ptr_equal(loaded, NULL);
}

/* ---- Damage ---- */

static volatile uint64_t touched; /* keeps the reads */

/* Looks at everything a program offers, and checks what the interface promises of it. */
static void walk(const tv_program *program)
{
    uint64_t sum = strlen(tv_program_target(program)), end = 0;
    for (uint64_t i = 0; i < tv_program_instruction_count(program); i++) {
        tv_source_line at;
        sum += tv_program_word(program, i);
        if (tv_program_line(program, i, &at))
            sum += strlen(at.file) + at.line + at.column;
    }
    tv_symbol symbol;
    for (uint64_t i = 0; tv_program_symbol_at(program, i, &symbol); i++)
        sum += strlen(symbol.name) + symbol.value;
    tv_segment s;
    for (uint64_t i = 0; tv_program_segment_at(program, i, &s); i++) {
        assert_true(s.addr >= end && s.addr + s.size >= s.addr);
        end = s.addr + s.size;
        for (uint64_t k = 0; s.bytes && k < s.size; k++)
            sum += s.bytes[k];
    }
    tv_descriptor d;
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++)
        for (uint64_t i = 0; tv_program_descriptor_at(program, k, i, &d); i++)
            assert_true(d.addr + d.bytes >= d.addr);
    touched = sum;
}

/* Reads a copy of exactly `size` bytes, so that a sanitizer sees every step beside it. True: it was a program. */
static bool read_damaged(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    tv_input input = {.data = copy, .size = size};
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_program *program = NULL;
    tv_status status = tv_elf_read("damaged", &input, &tv_isas, &sink, &program);
    if (status == TV_OK) {
        walk(program);
        tv_program_free(program);
        return true;
    }
    assert_null(program);
    assert_int_equal(status, TV_ERR_INPUT);
    assert_true(log.count > 0);
    free(copy);
    return false;
}

static uint8_t *small_elf(size_t *size)
{
    tv_program *program = assemble(source);
    tv_input input;
    assert_int_equal(tv_program_save(program, "a.elf", TV_FORMAT_ELF, NULL), TV_OK);
    tv_program_free(program);
    assert_int_equal(tv_input_open("a.elf", NULL, &input), TV_OK);
    uint8_t *copy = malloc(input.size);
    assert_non_null(copy);
    memcpy(copy, input.data, input.size);
    *size = input.size;
    tv_input_close(&input);
    return copy;
}

static void a_file_truncated_anywhere_is_rejected(void **state)
{
    (void)state;
    size_t size;
    uint8_t *elf = small_elf(&size);
    for (size_t n = 0; n < size; n++)
        if (read_damaged(elf, n))
            fail_msg("%zu of %zu bytes are accepted", n, size);
    assert_true(read_damaged(elf, size));
    free(elf);
}

static void any_changed_byte_is_rejected_or_read_safely(void **state)
{
    (void)state;
    size_t size, accepted = 0, tried = 0;
    uint8_t *elf = small_elf(&size);
    unit_rng rng = {1};
    for (size_t i = 0; i < size; i++)
        for (unsigned k = 0; k < 14; k++) {
            const uint8_t special[] = {0, 1, 0x7F, 0x80, 0xFE, 0xFF};
            uint8_t old = elf[i];
            elf[i] = (uint8_t)(k < 8 ? old ^ 1u << k : special[k - 8]);
            tried++;
            accepted += read_damaged(elf, size);
            elf[i] = old;
        }
    for (unsigned n = 0; n < 20000; n++) { /* several at once, and larger numbers */
        uint8_t *copy = malloc(size);
        assert_non_null(copy);
        memcpy(copy, elf, size);
        for (uint64_t k = unit_below(&rng, 6); k-- > 0;)
            tv_store_le(copy + unit_below(&rng, size / 8) * 8, unit_sized(&rng, 64), 8);
        read_damaged(copy, size);
        free(copy);
    }
    assert_true(accepted > 0 && accepted < tried);
    free(elf);
}

static void overlapping_segments_are_rejected(void **state)
{
    (void)state;
    size_t size;
    uint8_t *elf = small_elf(&size);
    uint64_t sections = tv_load_le64(elf + 40), count = tv_load_le16(elf + 60), moved = 0; /* e_shoff, e_shnum */
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *header = elf + sections + 64 * i;
        if (tv_load_le64(header + 16) == 0x10000) { /* sh_addr of the zeros */
            tv_store_le(header + 16, 0x105, 8);
            moved++;
        }
    }
    assert_int_equal(moved, 1);
    tv_input input = {.data = elf, .size = size};
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_program *program = NULL;
    assert_int_equal(tv_elf_read("overlap", &input, &tv_isas, &sink, &program), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-O006");
    free(elf);
}

/* ---- Requirements ---- */

static tv_status load_with(const tv_program *program, const char *profile, const char *key, const char *value,
                           unit_log *log)
{
    tv_config *config;
    tv_machine *machine;
    tv_diag_sink sink = unit_sink(log);
    tv_check_counts counts;
    assert_int_equal(tv_config_new(tv_program_target(program), NULL, &config), TV_OK);
    if (profile)
        assert_int_equal(tv_config_load(config, profile, NULL), TV_OK);
    if (key)
        assert_int_equal(tv_config_set(config, key, value, NULL), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_status status = tv_machine_load(machine, program, &sink);
    assert_int_equal(tv_program_check(program, config, NULL, &counts), status);
    tv_machine_free(machine);
    tv_config_free(config);
    return status;
}

static void a_program_keeps_its_requirements_and_runs_only_where_they_are_met(void **state)
{
    (void)state;
    tv_program *first = assemble(".target opennpu\n.equ K, 8\n.require vector.k == K ; lanes\n"
                                 ".require ld.latency <= 4\nnop\n"),
               *program = NULL;
    unit_log log;
    assert_int_equal(tv_program_save(first, "a.elf", TV_FORMAT_ELF, NULL), TV_OK);
    tv_program_free(first);
    assert_int_equal(tv_program_open("a.elf", NULL, NULL, &program), TV_OK);
    assert_string_equal(tv_program_requirement_at(program, 0), ".require vector.k == 8");
    assert_string_equal(tv_program_requirement_at(program, 1), ".require ld.latency <= 4");
    assert_null(tv_program_requirement_at(program, 2));
    assert_int_equal(load_with(program, "test", NULL, NULL, &log), TV_OK);
    assert_int_equal(load_with(program, "test", "ld.latency", "3", &log), TV_OK);
    assert_int_equal(load_with(program, "top", NULL, NULL, &log), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-C009");
    assert_string_equal(log.at[0].message,
                        "the program requires vector.k == 8; this run has vector.k = 64 (profile opennpu-top)");
    assert_int_equal(load_with(program, "test", "ld.latency", "5", &log), TV_ERR_INPUT);
    tv_program_free(program);

    program = assemble(".target opennpu\n.profile test\nnop\n");
    assert_int_equal(load_with(program, "opennpu-test", NULL, NULL, &log), TV_OK);
    assert_int_equal(load_with(program, "top", NULL, NULL, &log), TV_ERR_INPUT);
    assert_string_equal(log.at[0].message, "the program requires the profile test, where vector.k = 8; this run has "
                                           "vector.k = 64 (profile opennpu-top)");
    assert_int_equal(load_with(program, "test", "ld.latency", "3", &log), TV_ERR_INPUT);
    tv_program_free(program);

    program = assemble(".target opennpu\n.require vector.q > 1\nnop\n");
    assert_int_equal(load_with(program, "test", NULL, NULL, &log), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-C001");
    tv_program_free(program);
    program = assemble(".target pccx\n.require core.hz != 1\n.require gemv.parallel_lane == cores\n.text\n");
    assert_int_equal(load_with(program, NULL, NULL, NULL, &log), TV_OK);
    assert_int_equal(load_with(program, NULL, "gemv.parallel_lane", "lanes", &log), TV_ERR_INPUT);
    tv_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_keeps_its_requirements_and_runs_only_where_they_are_met),
        cmocka_unit_test(an_elf_file_contains_the_whole_program),
        cmocka_unit_test(an_empty_program_survives_every_format),
        cmocka_unit_test(an_invalid_target_leaves_the_out_pointer),
        cmocka_unit_test(a_file_truncated_anywhere_is_rejected),
        cmocka_unit_test(any_changed_byte_is_rejected_or_read_safely),
        cmocka_unit_test(overlapping_segments_are_rejected),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
