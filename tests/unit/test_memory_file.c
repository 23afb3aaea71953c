/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of memory as files: bytes written by hand in each form, every element type there and back, damaged files. */
#include "unit.h"

#include <unistd.h>

#include "trivet/trivet.h"

enum { ELEMENTS = 24 };

static tv_range range_of(tv_dtype type, uint64_t count)
{
    return (tv_range){.space = {.name = "mem", .unit_bytes = 1, .size = 1 << 20}, .count = count, .type = type};
}

static char path[64];

static const char *make_path(const char *ending)
{
    snprintf(path, sizeof path, "/tmp/trivet-memory-file-%d%s", (int)getpid(), ending);
    return path;
}

/* Compares the contents of `path` and removes it. */
static void check_file(const void *expected, size_t size)
{
    tv_input input;
    assert_int_equal(tv_input_open(path, NULL, &input), TV_OK);
    assert_int_equal(input.size, size);
    assert_memory_equal(input.data, expected, size);
    tv_input_close(&input);
    unlink(path);
}

static void files_have_the_published_forms(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x21, 0x43, 0xF5};
    static const char words[] = "// mem:0x0, 3 elements of hex8\n21\n43\nf5\n";
    static const char nibbles[] = "// mem:0x0, 5 elements of i4\n1\n2\n3\n4\n5\n";
    /* magic, version 1.0, length 0x76, the dictionary and spaces up to 128 bytes, then the elements */
    char array[128 + 5];
    memset(array, ' ', sizeof array);
    memcpy(array, "\x93NUMPY\x01\x00\x76\x00{'descr': '|i1', 'fortran_order': False, 'shape': (5,), }", 67);
    array[127] = '\n';
    memcpy(array + 128, "\1\2\3\4\5", 5);
    tv_range hex = range_of(TV_HEX8, 3), i4 = range_of(TV_I4, 5);
    assert_int_equal(tv_memory_save(make_path(".memh"), &hex, bytes, NULL, NULL), TV_OK);
    check_file(words, sizeof words - 1);
    assert_int_equal(tv_memory_save(make_path(".memh"), &i4, bytes, NULL, NULL), TV_OK);
    check_file(nibbles, sizeof nibbles - 1);
    assert_int_equal(tv_memory_save(make_path(".dat"), &hex, bytes, NULL, NULL), TV_OK);
    check_file(bytes, 3);
    assert_int_equal(tv_memory_save(make_path(".npy"), &i4, bytes, NULL, NULL), TV_OK);
    tv_input input;
    assert_int_equal(tv_input_open(path, NULL, &input), TV_OK);
    assert_memory_equal(input.data + input.size - 5, array + 128, 5);
    assert_memory_equal(input.data, array, 8);
    assert_memory_equal(input.data + 10, array + 10, 57);
    tv_input_close(&input);
    unlink(path);
}

static void every_type_is_read_as_it_was_written(void **state)
{
    (void)state;
    static const char *const endings[] = {".memh", ".npy", ".bin"};
    unit_rng rng = {1};
    for (unsigned type = 0; type < TV_DTYPE_COUNT; type++)
        for (unsigned e = 0; e < 3; e++)
            for (uint64_t count = 0; count <= ELEMENTS; count += 1 + count / 3) {
                tv_range range = range_of((tv_dtype)type, count);
                size_t size = (size_t)tv_dtype_bytes((tv_dtype)type, count);
                uint8_t bytes[8 * ELEMENTS] = {0}, again[8 * ELEMENTS] = {0}, known[8 * ELEMENTS] = {0};
                uint64_t bits = count * tv_dtype_bits((tv_dtype)type);
                for (uint64_t b = 0; b < bits; b++)
                    bytes[b / 8] |= (uint8_t)(unit_below(&rng, 2) << b % 8);
                assert_int_equal(tv_memory_save(make_path(endings[e]), &range, bytes, NULL, NULL), TV_OK);
                assert_int_equal(tv_memory_load(path, &range, again, known, NULL), TV_OK);
                if (e < 2 || bits % 8 == 0)
                    assert_memory_equal(bytes, again, size);
                for (uint64_t b = 0; b < size * 8; b++)
                    assert_int_equal(known[b / 8] >> b % 8 & 1, b < bits);
                unlink(path);
            }
}

static void dims_of_arrays_are_compared(void **state)
{
    (void)state;
    tv_range matrix = range_of(TV_U16, 6), line = matrix, other = matrix, type = matrix;
    uint8_t bytes[12] = {1, 2, 3}, again[12], known[12];
    matrix.rank = other.rank = 2;
    matrix.dims[0] = other.dims[1] = 2;
    matrix.dims[1] = other.dims[0] = 3;
    type.type = TV_S16;
    assert_int_equal(tv_memory_save(make_path(".npy"), &matrix, bytes, NULL, NULL), TV_OK);
    assert_int_equal(tv_memory_load(path, &matrix, again, known, NULL), TV_OK);
    assert_int_equal(tv_memory_load(path, &line, again, known, NULL), TV_OK);
    assert_memory_equal(bytes, again, 12);
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    assert_int_equal(tv_memory_load(path, &other, again, known, &sink), TV_ERR_INPUT);
    assert_int_equal(tv_memory_load(path, &type, again, known, &sink), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-M006");
    assert_string_equal(log.at[1].code, "TV-M006");
    unlink(path);
}

/* Reads `text` as 16-bit words; `expected` and `mask` are the elements. */
static void check_words(const char *text, uint64_t count, const uint16_t *expected, const uint16_t *mask)
{
    tv_range range = range_of(TV_HEX16, count);
    uint8_t bytes[16], known[16];
    if (tv_memory_parse("a.memh", text, strlen(text), &range, bytes, known, NULL) != TV_OK)
        fail_msg("'%s' is rejected", text);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(bytes[2 * i] | bytes[2 * i + 1] << 8, expected[i]);
        assert_int_equal(known[2 * i] | known[2 * i + 1] << 8, mask[i]);
    }
}

static void memh_is_read_as_verilog_does(void **state)
{
    (void)state;
    static const uint16_t all[] = {0xFFFF, 0xFFFF, 0xFFFF};
    check_words("1 /* one\n*/ aBc_d\t// comment @9\n0FFFF", 3, (uint16_t[]){1, 0xABCD, 0xFFFF}, all);
    check_words("// nothing", 0, NULL, NULL);
    check_words("1/**/2", 2, (uint16_t[]){1, 2}, all);
    check_words("@2 7 @0 5 // element 1 is left out", 3, (uint16_t[]){5, 0, 7}, (uint16_t[]){0xFFFF, 0, 0xFFFF});
    check_words("0x12", 1, (uint16_t[]){0x0012}, (uint16_t[]){0xF0FF});
    check_words("1xZ4 x X2", 3, (uint16_t[]){0x1004, 0, 2}, (uint16_t[]){0xF00F, 0, 15});
}

static void malformed_memh_is_rejected_at_its_position(void **state)
{
    (void)state;
    static const struct {
        const char *text, *code;
        unsigned line, column;
    } cases[] = {
        {"1 0x2", "TV-F008", 1, 3},
        {"1\n # 2", "TV-F008", 2, 2},
        {"1 /* 2", "TV-F008", 1, 3},
        {"0x12345", "TV-F008", 1, 1},
        {"12345 1", "TV-F008", 1, 1},
        {"1 1xxxx", "TV-F008", 1, 3},
        {"1 /2", "TV-F008", 1, 3},
        {"@", "TV-F008", 1, 1},
        {"@ 1", "TV-F008", 1, 2},
        {"@x 1", "TV-F008", 1, 1},
        {"@11111111111111111", "TV-F008", 1, 2},
        {"1 2 3", "TV-M006", 1, 5},
        {"1 2 @1 3", "TV-M006", 1, 8},
        {"@ffffffffffffffff 1 2", "TV-M006", 1, 19},
        {"1", "TV-M006", 0, 0},
        {"_1 2", "TV-F008", 1, 1},
        {"1 \xff", "TV-F008", 1, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_range range = range_of(TV_HEX16, 2);
        uint8_t bytes[4], known[4];
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        tv_status status = tv_memory_parse("a.memh", cases[i].text, strlen(cases[i].text), &range, bytes, known, &sink);
        if (status != TV_ERR_INPUT || log.count != 1 || strcmp(log.at[0].code, cases[i].code) != 0 ||
            log.at[0].line != cases[i].line || log.at[0].column != cases[i].column)
            fail_msg("'%s': %u %s %u:%u", cases[i].text, log.count, log.at[0].code, log.at[0].line, log.at[0].column);
    }
}

static void files_of_another_size_are_rejected(void **state)
{
    (void)state;
    tv_range range = range_of(TV_I4, 3);
    uint8_t bytes[2], known[2];
    static const char zeros[4];
    assert_int_equal(tv_memory_parse("a.bin", zeros, 2, &range, bytes, known, NULL), TV_OK);
    assert_int_equal(tv_memory_parse("a.bin", zeros, 1, &range, bytes, known, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_memory_parse("a.bin", zeros, 3, &range, bytes, known, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_memory_parse("a.npy", zeros, 4, &range, bytes, known, NULL), TV_ERR_INPUT);
}

static void ranges_have_dims(void **state)
{
    (void)state;
    static const char *const rejected[] = {"l2:0:2x",
                                           "l2:0:x2",
                                           "l2:0:2xx2",
                                           "l2:0:2x0",
                                           "l2:0:0x2x2",
                                           "l2:0:2x-1",
                                           "l2:0:2x65536x65536",
                                           "l2:0:1x1x1x1x1x1x1x1x1",
                                           "l2:0:2x18446744073709551617"};
    tv_config *config;
    tv_machine *machine;
    tv_range range;
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    assert_int_equal(tv_machine_parse_range(machine, NULL, 0, "l2:0:2x3x4:s8", NULL, &range), TV_OK);
    assert_int_equal(range.count, 24);
    assert_int_equal(range.rank, 3);
    assert_int_equal(range.dims[1], 3);
    assert_int_equal(tv_machine_parse_range(machine, NULL, 0, "l2:0:0x10:s8", NULL, &range), TV_OK);
    assert_int_equal(range.count, 16);
    assert_int_equal(range.rank, 0);
    for (size_t i = 0; i < sizeof rejected / sizeof rejected[0]; i++)
        if (tv_machine_parse_range(machine, NULL, 0, rejected[i], NULL, &range) != TV_ERR_INPUT)
            fail_msg("%s is accepted", rejected[i]);
    tv_machine_free(machine);
    tv_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_have_the_published_forms),
        cmocka_unit_test(every_type_is_read_as_it_was_written),
        cmocka_unit_test(dims_of_arrays_are_compared),
        cmocka_unit_test(memh_is_read_as_verilog_does),
        cmocka_unit_test(malformed_memh_is_rejected_at_its_position),
        cmocka_unit_test(files_of_another_size_are_rejected),
        cmocka_unit_test(ranges_have_dims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
