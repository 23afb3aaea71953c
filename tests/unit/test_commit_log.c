/* SPDX-License-Identifier: Apache-2.0 */
/* Commit logs: records as written by hand, in both formats, and damaged logs. */
#include "unit.h"

#include <math.h>
#include <unistd.h>

#include "trivet/trivet.h"

static char path[64];

static void make_path(const char *ending)
{
    snprintf(path, sizeof path, "/tmp/trivet-commit-log-%d%s", (int)getpid(), ending);
}

static tv_commit_log_writer *open_log(const char *ending)
{
    tv_config *config;
    tv_commit_log_writer *writer;
    make_path(ending);
    assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
    assert_int_equal(tv_config_set(config, "vector.k", "32", NULL), TV_OK);
    assert_int_equal(tv_commit_log_open(path, tv_commit_log_format_of(path), config, NULL, &writer), TV_OK);
    tv_config_free(config);
    return writer;
}

static const uint8_t old_bytes[] = {0x00, 0x80}, new_bytes[] = {0x12, 0xAB};
static const tv_effect effects[] = {
    {.space = "mem", .addr = 4, .unit_bytes = 1, .bytes = 2, .write = 1, .before = old_bytes, .after = new_bytes},
    {.space = "fifo", .unit_bytes = 2, .bytes = 2, .write = 0, .queue = 1, .after = new_bytes},
};
static const tv_inner_value values[] = {
    {.name = "sum", .element = 3, .is_integer = 1, .integer = -7},
    {.name = "scaled", .element = 4, .real = 0.1},
    {.name = "scaled", .element = 5, .real = -INFINITY},
};
static const tv_commit whole = {
    .kind = TV_COMMIT_INSTRUCTION,
    .origin = TV_ORIGIN_WINDOW,
    .order = 9,
    .index = 2,
    .word = UINT64_C(0xFEDCBA9876543210),
    .insn = "VADD",
    .issue = 5,
    .start = 6,
    .end = TV_CYCLE_UNKNOWN,
    .asynchronous = 1,
    .effect_count = 2,
    .effects = effects,
    .value_count = 3,
    .values = values,
    .file = "a \"b\".s",
    .line = 12,
};
static const tv_commit fault = {
    .kind = TV_COMMIT_INSTRUCTION,
    .order = 10,
    .index = 3,
    .fault = "TV-N002",
    .fault_name = "memory-range",
    .fault_message = "line\none",
    .issue = TV_CYCLE_UNKNOWN,
    .start = TV_CYCLE_UNKNOWN,
    .end = TV_CYCLE_UNKNOWN,
};
static const char whole_text[] =
    "{\"kind\":\"instruction\",\"order\":9,\"origin\":\"window\",\"index\":2,\"word\":\"0xfedcba9876543210\","
    "\"insn\":\"VADD\",\"asynchronous\":true,\"file\":\"a \\\"b\\\".s\",\"line\":12,\"issue\":5,\"start\":6,"
    "\"effects\":[{\"space\":\"mem\",\"addr\":4,\"unit_bytes\":1,\"bytes\":2,\"write\":true,\"before\":\"0080\","
    "\"after\":\"12ab\"},{\"space\":\"fifo\",\"addr\":0,\"unit_bytes\":2,\"bytes\":2,\"write\":false,\"queue\":true,"
    "\"after\":\"12ab\"}],"
    "\"values\":[{\"name\":\"sum\",\"element\":3,\"integer\":-7},{\"name\":\"scaled\",\"element\":4,\"real\":0.1},"
    "{\"name\":\"scaled\",\"element\":5,\"real\":\"-inf\"}]}";
static const char fault_text[] =
    "{\"kind\":\"instruction\",\"order\":10,\"origin\":\"program\",\"index\":3,\"word\":\"0x0\",\"fault\":\"TV-N002\","
    "\"fault_name\":\"memory-range\",\"fault_message\":\"line\\none\"}";

static void a_record_is_a_line_of_json(void **state)
{
    (void)state;
    tv_commit_log_writer *writer = open_log(".log");
    tv_commit_log_write(writer, &whole);
    tv_commit_log_write(writer, &fault);
    assert_int_equal(tv_commit_log_finish(writer, NULL, NULL), TV_OK);
    char line[16384];
    FILE *file = fopen(path, "r");
    assert_non_null(fgets(line, sizeof line, file));
    static const char head[] = "{\"commit_log\":1,\"tool\":\"trivet\",\"tool_version\":\"";
    assert_memory_equal(line, head, sizeof head - 1);
    assert_non_null(strstr(line, "\"target\":\"opennpu\",\"config\":{"));
    assert_non_null(strstr(line, "\"vector.k\":\"32\""));
    assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(strlen(line), sizeof whole_text);
    assert_memory_equal(line, whole_text, sizeof whole_text - 1);
    assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(strlen(line), sizeof fault_text);
    assert_memory_equal(line, fault_text, sizeof fault_text - 1);
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
    unlink(path);
}

static void check_whole(const tv_commit *c)
{
    assert_int_equal(c->kind, TV_COMMIT_INSTRUCTION);
    assert_int_equal(c->origin, TV_ORIGIN_WINDOW);
    assert_int_equal(c->order, 9);
    assert_int_equal(c->index, 2);
    assert_true(c->word == UINT64_C(0xFEDCBA9876543210));
    assert_string_equal(c->insn, "VADD");
    assert_null(c->fault);
    assert_int_equal(c->issue, 5);
    assert_int_equal(c->start, 6);
    assert_true(c->end == TV_CYCLE_UNKNOWN);
    assert_int_equal(c->asynchronous, 1);
    assert_string_equal(c->file, "a \"b\".s");
    assert_int_equal(c->line, 12);
    assert_int_equal(c->effect_count, 2);
    assert_string_equal(c->effects[0].space, "mem");
    assert_int_equal(c->effects[0].addr, 4);
    assert_int_equal(c->effects[0].unit_bytes, 1);
    assert_int_equal(c->effects[0].bytes, 2);
    assert_int_equal(c->effects[0].write, 1);
    assert_int_equal(c->effects[0].queue, 0);
    assert_memory_equal(c->effects[0].before, "\x00\x80", 2);
    assert_memory_equal(c->effects[0].after, "\x12\xAB", 2);
    assert_int_equal(c->effects[1].queue, 1);
    assert_int_equal(c->effects[1].write, 0);
    assert_null(c->effects[1].before);
    assert_int_equal(c->value_count, 3);
    assert_int_equal(c->values[0].integer, -7);
    assert_int_equal(c->values[0].element, 3);
    assert_true(c->values[1].real == 0.1);
    assert_true(isinf(c->values[2].real) && c->values[2].real < 0);
}

static void check_fault(const tv_commit *c)
{
    assert_string_equal(c->fault, "TV-N002");
    assert_string_equal(c->fault_name, "memory-range");
    assert_string_equal(c->fault_message, "line\none");
    assert_int_equal(c->effect_count, 0);
    assert_null(c->insn);
    assert_null(c->file);
    assert_true(c->start == TV_CYCLE_UNKNOWN);
}

static void both_formats_are_read_as_they_were_written(void **state)
{
    (void)state;
    static const char *const endings[] = {".log", ".bin", ".log.zst", ".bin.zst"};
    for (unsigned i = 0; i < 4; i++) {
        tv_commit_log_writer *writer = open_log(endings[i]);
        for (unsigned k = 0; k < 3; k++) {
            tv_commit_log_write(writer, &whole);
            tv_commit_log_write(writer, &fault);
        }
        assert_int_equal(tv_commit_log_finish(writer, NULL, NULL), TV_OK);
        tv_commit_log_reader *reader;
        const tv_commit *c;
        uint64_t line;
        assert_int_equal(tv_commit_log_read(path, NULL, &reader), TV_OK);
        assert_string_equal(tv_commit_log_target(reader), "opennpu");
        for (unsigned k = 0; k < 3; k++) {
            assert_int_equal(tv_commit_log_next(reader, NULL, &c, &line), TV_OK);
            assert_int_equal(line, 2 * k + 1 + (i % 2 == 0));
            check_whole(c);
            assert_int_equal(tv_commit_log_next(reader, NULL, &c, &line), TV_OK);
            check_fault(c);
        }
        assert_int_equal(tv_commit_log_next(reader, NULL, &c, NULL), TV_OK);
        assert_null(c);
        tv_commit_log_close(reader);
        unlink(path);
    }
}

static void the_header_has_the_configuration(void **state)
{
    (void)state;
    static const char log[] =
        "{\"commit_log\":1,\"target\":\"opennpu\",\"config\":{\"vector.k\":\"8\",\"mem.bytes\":\"4096\"}}\n";
    tv_commit_log_reader *reader;
    tv_config *config;
    tv_config_entry entry;
    assert_int_equal(tv_commit_log_read_bytes("x", log, sizeof log - 1, NULL, &reader), TV_OK);
    assert_int_equal(tv_commit_log_config(reader, NULL, &config), TV_OK);
    for (unsigned i = 0; tv_config_at(config, i, &entry); i++)
        if (strcmp(entry.key, "vector.k") == 0)
            assert_int_equal(entry.number, 8);
    tv_config_free(config);
    tv_commit_log_close(reader);
}

/* 2.5 MiB of 16-byte units become parts of 1 MiB with their own addresses. */
static void effects_of_megabytes_become_several_records(void **state)
{
    (void)state;
    enum { BYTES = 5 << 19 };
    uint8_t *bytes = malloc(BYTES);
    for (unsigned i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 7 + (i >> 8));
    tv_effect effect = {.space = "l2", .addr = 3, .unit_bytes = 16, .bytes = BYTES, .write = 1, .after = bytes};
    tv_commit large = {.kind = TV_COMMIT_LOAD,
                       .order = 4,
                       .issue = TV_CYCLE_UNKNOWN,
                       .start = TV_CYCLE_UNKNOWN,
                       .end = TV_CYCLE_UNKNOWN,
                       .effect_count = 1,
                       .effects = &effect};
    for (unsigned i = 0; i < 2; i++) {
        tv_commit_log_writer *writer = open_log(i ? ".bin" : ".log");
        tv_commit_log_write(writer, &large);
        assert_int_equal(tv_commit_log_finish(writer, NULL, NULL), TV_OK);
        tv_commit_log_reader *reader;
        const tv_commit *c;
        uint64_t at = 0;
        assert_int_equal(tv_commit_log_read(path, NULL, &reader), TV_OK);
        while (tv_commit_log_next(reader, NULL, &c, NULL) == TV_OK && c) {
            assert_int_equal(c->order, 4);
            assert_int_equal(c->kind, TV_COMMIT_LOAD);
            assert_int_equal(c->effects[0].addr, 3 + at / 16);
            assert_true(c->effects[0].bytes <= 1 << 20);
            assert_memory_equal(c->effects[0].after, bytes + at, c->effects[0].bytes);
            at += c->effects[0].bytes;
        }
        assert_int_equal(at, BYTES);
        tv_commit_log_close(reader);
        unlink(path);
    }
    free(bytes);
}

static char last_code[16], last_message[256];
static unsigned last_line;

static void keep_diagnostic(void *user, const tv_diag *diag)
{
    (void)user;
    snprintf(last_code, sizeof last_code, "%s", diag->code);
    snprintf(last_message, sizeof last_message, "%s", diag->message);
    last_line = diag->line;
}

#define HEAD "{\"commit_log\":1,\"target\":\"pccx\"}\n"

static void damaged_logs_are_rejected_at_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *code;
        unsigned line;
    } cases[] = {
        {"", "TV-V001", 1},
        {"[]\n", "TV-V001", 1},
        {"{\"commit_log\":2,\"target\":\"pccx\"}\n", "TV-V001", 1},
        {"{\"commit_log\":1}\n", "TV-V001", 1},
        {HEAD "{\n", "TV-V002", 2},
        {HEAD "[]\n", "TV-V002", 2},
        {HEAD "\n\n{\"kind\":\"store\"}\n", "TV-V002", 4},
        {HEAD "{\"order\":-1}\n", "TV-V002", 2},
        {HEAD "{\"word\":\"1f\"}\n", "TV-V002", 2},
        {HEAD "{\"word\":\"0x12345678901234567\"}\n", "TV-V002", 2},
        {HEAD "{\"effects\":{}}\n", "TV-V002", 2},
        {HEAD "{\"effects\":[1]}\n", "TV-V002", 2},
        {HEAD "{\"effects\":[{\"space\":\"l2\",\"addr\":0,\"after\":\"123\"}]}\n", "TV-V002", 2},
        {HEAD "{\"effects\":[{\"space\":\"l2\",\"addr\":0,\"after\":\"1g\"}]}\n", "TV-V002", 2},
        {HEAD "{\"effects\":[{\"space\":\"l2\",\"addr\":0,\"bytes\":2,\"after\":\"12\"}]}\n", "TV-V002", 2},
        {HEAD "{\"effects\":[{\"space\":\"l2\",\"after\":\"12\"}]}\n", "TV-V002", 2},
        {HEAD "{\"values\":[{\"name\":\"sum\"}]}\n", "TV-V002", 2},
        {HEAD "{\"asynchronous\":1}\n", "TV-V002", 2},
    };
    tv_diag_sink sink = {keep_diagnostic, NULL};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        tv_commit_log_reader *reader = NULL;
        const tv_commit *c;
        *last_code = '\0';
        tv_status status = tv_commit_log_read_bytes("x", cases[i].text, strlen(cases[i].text), &sink, &reader);
        if (status == TV_OK)
            status = tv_commit_log_next(reader, &sink, &c, NULL);
        if (status != TV_ERR_INPUT || strcmp(last_code, cases[i].code) != 0 || last_line != cases[i].line)
            fail_msg("case %u: status %d, %s, line %u, %s", i, status, last_code, last_line, last_message);
        tv_commit_log_close(reader);
    }
}

/* Every prefix of a binary log, and every byte inverted: an error or a valid log, never more. */
static void damaged_binary_logs_are_rejected(void **state)
{
    (void)state;
    tv_commit_log_writer *writer = open_log(".bin");
    tv_commit_log_write(writer, &whole);
    tv_commit_log_write(writer, &fault);
    assert_int_equal(tv_commit_log_finish(writer, NULL, NULL), TV_OK);
    tv_input input;
    assert_int_equal(tv_input_open(path, NULL, &input), TV_OK);
    uint8_t *bytes = malloc(input.size);
    unsigned complete = 0;
    for (size_t i = 0; i < 2 * input.size; i++) {
        size_t size = i < input.size ? i : input.size;
        memcpy(bytes, input.data, size);
        if (i >= input.size)
            bytes[i - input.size] ^= 0xFF;
        tv_commit_log_reader *reader;
        const tv_commit *c = NULL;
        if (tv_commit_log_read_bytes("x", bytes, size, NULL, &reader) != TV_OK)
            continue;
        tv_status status = TV_OK;
        unsigned records = 0;
        while ((status = tv_commit_log_next(reader, NULL, &c, NULL)) == TV_OK && c)
            records++;
        complete += i < input.size && status == TV_OK && records == 2;
        tv_commit_log_close(reader);
    }
    assert_int_equal(complete, 0); /* no proper prefix is whole */
    free(bytes);
    tv_input_close(&input);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_a_line_of_json),
        cmocka_unit_test(both_formats_are_read_as_they_were_written),
        cmocka_unit_test(the_header_has_the_configuration),
        cmocka_unit_test(effects_of_megabytes_become_several_records),
        cmocka_unit_test(damaged_logs_are_rejected_at_their_line),
        cmocka_unit_test(damaged_binary_logs_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
