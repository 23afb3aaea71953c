/* SPDX-License-Identifier: Apache-2.0 */
/* Raw programs: .bin and .hex, what their readers accept and reject, and files of unknown formats. */
#include "unit.h"

#include <unistd.h>

#include "base/base.h"
#include "trivet/file.h"
#include "trivet/program.h"

static const char source[] = ".word64 0x3000000000000010\n.word64 0x4123456789abcdc1\n.word64 0x0000000000000000\n";
static const uint64_t source_words[] = {UINT64_C(0x3000000000000010), UINT64_C(0x4123456789ABCDC1), 0};

static char folder[] = "trivet-unit-XXXXXX";
static const char *const files[] = {"a.bin", "a.hex", "a.txt", "empty.bin"};

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

static void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void raw_programs_are_little_endian_or_sixteen_digits(void **state)
{
    (void)state;
    const tv_program_options options = {.size = sizeof options, .target = "pccx"};
    tv_program *program = NULL, *loaded = NULL;
    assert_int_equal(tv_program_assemble("unit.s", source, strlen(source), &options, NULL, &program), TV_OK);
    assert_int_equal(tv_program_save(program, "a.bin", TV_FORMAT_BIN, NULL), TV_OK);
    assert_int_equal(tv_program_save(program, "a.hex", TV_FORMAT_HEX, NULL), TV_OK);
    tv_program_free(program);
    tv_input input;
    assert_int_equal(tv_input_open("a.bin", NULL, &input), TV_OK);
    assert_int_equal(input.size, 24);
    for (unsigned i = 0; i < 24; i++)
        assert_int_equal(input.data[i], source_words[i / 8] >> i % 8 * 8 & 255);
    tv_input_close(&input);
    const char *const paths[] = {"a.bin", "a.hex"};
    for (size_t p = 0; p < 2; p++) {
        assert_int_equal(tv_program_open(paths[p], &options, NULL, &loaded), TV_OK);
        assert_int_equal(tv_program_instruction_count(loaded), 3);
        for (unsigned i = 0; i < 3; i++)
            assert_true(tv_program_word(loaded, i) == source_words[i]);
        tv_source_line at;
        assert_false(tv_program_line(loaded, 0, &at));
        tv_program_free(loaded);
    }
}

static tv_status open_text(const char *path, const char *text, size_t size, unit_log *log, tv_program **program)
{
    const tv_program_options options = {.size = sizeof options, .target = "pccx"};
    tv_diag_sink sink = unit_sink(log);
    write_bytes(path, text, size);
    *program = NULL;
    return tv_program_open(path, &options, &sink, program);
}

static void hex_accepts_comments_prefixes_and_either_case(void **state)
{
    (void)state;
    const char text[] = "# comment\n\n0123456789abcdef\r\n  0xFEDCBA9876543210 # more\n\t0000000000000001";
    const uint64_t words[] = {UINT64_C(0x0123456789ABCDEF), UINT64_C(0xFEDCBA9876543210), 1};
    unit_log log;
    tv_program *program;
    assert_int_equal(open_text("a.hex", text, sizeof text - 1, &log, &program), TV_OK);
    assert_int_equal(tv_program_instruction_count(program), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_true(tv_program_word(program, i) == words[i]);
    tv_program_free(program);
}

static void hex_rejects_other_lines_each_at_its_location(void **state)
{
    (void)state;
    const char text[] = "0123456789abcde\n0123456789abcdef0\n0123456789abcdeg\nx\n0000000000000000 1\n";
    unit_log log;
    tv_program *program;
    assert_int_equal(open_text("a.hex", text, sizeof text - 1, &log, &program), TV_ERR_INPUT);
    assert_null(program);
    assert_int_equal(log.count, 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_string_equal(log.at[i].code, "TV-O004");
        assert_int_equal(log.at[i].line, i + 1);
    }
}

static void hex_rejects_a_prefix_without_digits(void **state)
{
    (void)state;
    unit_log log;
    tv_program *program;
    assert_int_equal(open_text("a.hex", "0x\n", 3, &log, &program), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-O004");
}

static void invalid_files_have_their_codes(void **state)
{
    (void)state;
    unit_log log;
    tv_program *program;
    assert_int_equal(open_text("a.bin", "1234567", 7, &log, &program), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-O004");
    assert_int_equal(open_text("a.txt", "\0\1\2", 3, &log, &program), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-O001");
    assert_int_equal(open_text("empty.bin", "", 0, &log, &program), TV_OK);
    tv_program_free(program);
    tv_diag_sink sink = unit_sink(&log);
    assert_int_equal(tv_program_open("empty.bin", NULL, &sink, &program), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-O003");
    sink = unit_sink(&log);
    program = NULL;
    assert_int_equal(tv_program_open("/proc/self/exe", NULL, &sink, &program), TV_ERR_INPUT);
    assert_null(program);
    assert_string_equal(log.at[0].code, "TV-O001");
}

static void instructions_that_begin_like_a_queue_are_those_of_the_named_target(void **state)
{
    static const char *const targets[] = {"pccx", "opennpu"};
    static const uint8_t bytes[16] = {'{', '"', 'c', 'm', 'd', 'q', '"', ':', ' ', '{'};
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(targets); i++) {
        tv_program_options options = {.size = sizeof options, .target = targets[i]};
        tv_program *program;
        assert_int_equal(tv_program_parse("a.bin", bytes, sizeof bytes, &options, NULL, &program), TV_OK);
        assert_string_equal(tv_program_target(program), targets[i]);
        assert_int_equal(tv_program_instruction_count(program), i ? 4 : 2);
        tv_program_free(program);
        assert_int_equal(tv_program_parse("a.txt", bytes, sizeof bytes, &options, NULL, &program), TV_ERR_INPUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_programs_are_little_endian_or_sixteen_digits),
        cmocka_unit_test(hex_accepts_comments_prefixes_and_either_case),
        cmocka_unit_test(hex_rejects_other_lines_each_at_its_location),
        cmocka_unit_test(hex_rejects_a_prefix_without_digits),
        cmocka_unit_test(invalid_files_have_their_codes),
        cmocka_unit_test(instructions_that_begin_like_a_queue_are_those_of_the_named_target),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
