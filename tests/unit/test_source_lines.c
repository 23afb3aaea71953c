/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines of diagnostics: positions, tokens, long lines. */
#include "unit.h"

#include "base/source_lines.h"

static const char text[] = "first\n\n  \"a \\\" b\": name_1+2.5-x, \xC3\xA9\r\nlast";

static void a_cursor_finds_lines_in_any_order(void **state)
{
    static const unsigned order[] = {1, 3, 2, 4, 1, 2, 2, 4, 3}, starts[] = {0, 0, 6, 7, 37};
    tv_line_cursor c = tv_line_cursor_at_start((const uint8_t *)text, sizeof text - 1);
    (void)state;
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++) {
        assert_true(tv_line_cursor_seek(&c, order[i]));
        assert_int_equal(c.line, order[i]);
        assert_int_equal(c.start, starts[order[i]]);
    }
    assert_false(tv_line_cursor_seek(&c, 5));
    assert_true(tv_line_cursor_seek(&c, 2)); /* again from where it ended */
    assert_int_equal(c.start, starts[2]);
    assert_false(tv_line_cursor_seek(&c, 0)); /* lines count from 1 */
}

static unsigned token(const char *at) { return tv_token_length((const uint8_t *)at, strlen(at), 0); }

static void tokens_are_strings_names_and_numbers(void **state)
{
    char long_text[TV_SOURCE_LINE_MAX + 3];
    (void)state;
    assert_int_equal(token("\"a \\\" b\": 1"), 8);
    assert_int_equal(token("\"open"), 5);
    assert_int_equal(token("\"open\nnext\""), 5); /* ends at the line */
    assert_int_equal(token("\"ends with \\"), 1); /* an escape of nothing */
    assert_int_equal(token("name_1+2.5-x, y"), 12);
    assert_int_equal(token(", y"), 1);
    assert_int_equal(token(""), 1);
    assert_int_equal(tv_token_length((const uint8_t *)"ab\0cd", 5, 0), 2);
    assert_int_equal(tv_token_length((const uint8_t *)"ab", 2, 7), 1); /* past the end */
    memset(long_text, 'x', sizeof long_text);
    assert_int_equal(tv_token_length((const uint8_t *)long_text, TV_SOURCE_LINE_MAX, 0), TV_SOURCE_LINE_MAX);
    assert_int_equal(tv_token_length((const uint8_t *)long_text, TV_SOURCE_LINE_MAX + 1, 0), 1); /* too long to mark */
}

typedef struct noted_line {
    unsigned count, length, offset;
    char line[TV_SOURCE_LINE_MAX + 1];
    bool has_line;
} noted_line;

static void note(void *user, const tv_diag *diag)
{
    noted_line *s = user;
    s->count++;
    s->length = diag->length;
    s->offset = diag->source_offset;
    s->has_line = diag->source_line != NULL;
    snprintf(s->line, sizeof s->line, "%s", diag->source_line ? diag->source_line : "");
}

static noted_line report(const char *source, size_t size, const tv_diag *diag)
{
    noted_line s = {0};
    tv_diag_sink sink = {note, &s};
    tv_source_lines lines;
    tv_source_lines_init(&lines, "q.json", (const uint8_t *)source, size, &sink);
    lines.sink.emit(lines.sink.user, diag);
    return s;
}

static void a_diagnostic_gets_the_line_that_it_lacks(void **state)
{
    tv_diag diag = {.file = "q.json", .line = 3, .column = 3, .message = "m", .code = "c"};
    (void)state;
    noted_line s = report(text, sizeof text - 1, &diag);
    assert_string_equal(s.line, "  \"a \\\" b\": name_1+2.5-x, \xC3\xA9"); /* without the carriage return */
    assert_int_equal(s.length, 8);
    diag.length = 2;
    assert_int_equal(report(text, sizeof text - 1, &diag).length, 2); /* its own stays */
    diag.line = 2;
    diag.column = 1;
    s = report(text, sizeof text - 1, &diag);
    assert_true(s.has_line);
    assert_string_equal(s.line, "");
    static const tv_diag others[] = {{.file = "q.json", .line = 9, .column = 1},
                                     {.file = "q.json", .line = 1},
                                     {.file = "q.json", .column = 1},
                                     {.file = "other", .line = 1, .column = 1},
                                     {.line = 1, .column = 1}};
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        s = report(text, sizeof text - 1, &others[i]);
        assert_int_equal(s.count, 1);
        assert_false(s.has_line);
    }
    diag = (tv_diag){.file = "q.json", .line = 1, .column = 1, .source_line = "own"};
    assert_string_equal(report(text, sizeof text - 1, &diag).line, "own");
}

static void a_sink_that_is_missing_drops_diagnostics(void **state)
{
    tv_source_lines lines;
    tv_diag_sink silent = {NULL, NULL};
    tv_diag diag = {.file = "q.json", .line = 1, .column = 1};
    (void)state;
    tv_source_lines_init(&lines, "q.json", (const uint8_t *)text, sizeof text - 1, NULL);
    lines.sink.emit(lines.sink.user, &diag);
    tv_source_lines_init(&lines, "q.json", (const uint8_t *)text, sizeof text - 1, &silent);
    lines.sink.emit(lines.sink.user, &diag);
}

/* Of long lines of characters of two bytes, the bytes around the column, whole characters, and ellipses at the cuts. */
static void a_long_line_is_cut_around_the_column(void **state)
{
    static char line[2001];
    (void)state;
    for (unsigned i = 0; i < 2000; i += 2)
        memcpy(line + i, "\xC3\xA9", 2);
    for (unsigned column = 1; column <= 2000; column += 37) {
        tv_diag diag = {.file = "q.json", .line = 1, .column = column, .length = 1};
        noted_line s = report(line, 2000, &diag);
        const char *p = s.line;
        unsigned from = s.offset; /* of the line that come before those of the text */
        bool cut = strncmp(p, "\xE2\x80\xA6", 3) == 0;
        assert_int_equal(cut, column > TV_SOURCE_WINDOW / 2 + 1);
        from += cut ? 3 : 0;
        p += cut ? 3 : 0;
        assert_int_equal(from % 2, 0);
        size_t n = strspn(p, "\xC3\xA9");
        assert_int_equal(n % 2, 0);
        assert_in_range(column - 1, from, from + n);
        assert_string_equal(p + n, from + n < 2000 ? "\xE2\x80\xA6" : "");
        assert_true(n <= TV_SOURCE_WINDOW);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_finds_lines_in_any_order),
        cmocka_unit_test(tokens_are_strings_names_and_numbers),
        cmocka_unit_test(a_diagnostic_gets_the_line_that_it_lacks),
        cmocka_unit_test(a_sink_that_is_missing_drops_diagnostics),
        cmocka_unit_test(a_long_line_is_cut_around_the_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
