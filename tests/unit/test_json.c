/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON reader, trees and writer: what is accepted, what is rejected and where, any chunking, and every allocation
 * failing once. The linker sends malloc, calloc and realloc through the functions below. */
#include "unit.h"

#include <inttypes.h>
#include <math.h>

#include "base/json_members.h"
#include "base/json_reader.h"
#include "base/json_value.h"

/* ---- Failing allocations ---- */

static long allocations_left = -1; /* before one fails; negative: none does */
static bool keeps_failing;         /* all after it, too */
static bool has_failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *bytes, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *bytes, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static bool next_fails(void)
{
    if (allocations_left < 0)
        return false;
    if (allocations_left > 0) {
        allocations_left--;
        return false;
    }
    if (!keeps_failing)
        allocations_left = -1;
    has_failed = true;
    return true;
}

/* Allocation `n` from now on, from 0, and, if `all`, every one after it fails. */
static void fail_allocation(long n, bool all)
{
    allocations_left = n;
    keeps_failing = all;
    has_failed = false;
}

/* Allocations succeed again. Whether one has failed. */
static bool end_failing(void)
{
    allocations_left = -1;
    return has_failed;
}

void *__wrap_malloc(size_t size) { return next_fails() ? NULL : __real_malloc(size); }

void *__wrap_calloc(size_t count, size_t size) { return next_fails() ? NULL : __real_calloc(count, size); }

void *__wrap_realloc(void *bytes, size_t size) { return next_fails() ? NULL : __real_realloc(bytes, size); }

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return next_fails() ? NULL : __real_aligned_alloc(alignment, size);
}

/* ---- Reading: events are written down as a line of text ---- */

typedef struct event_log {
    tv_json_reader *reader;
    char text[4096];
    size_t length;
    unsigned events, stop_after; /* 0: not stopped */
} event_log;

static bool log_event(event_log *log, const char *what, tv_sv text)
{
    assert_true(log->length + text.len + 16 < sizeof log->text);
    log->length += (size_t)sprintf(log->text + log->length, "%s", what);
    memcpy(log->text + log->length, text.ptr, text.len);
    log->length += text.len;
    log->text[log->length] = '\0';
    return ++log->events != log->stop_after;
}

static const tv_sv no_text = {"", 0};

static bool on_null(void *user) { return log_event(user, " null", no_text); }

static bool on_boolean(void *user, bool value) { return log_event(user, value ? " true" : " false", no_text); }

static bool on_number(void *user, tv_sv text) { return log_event(user, " #", text); }

static bool on_string(void *user, tv_sv text) { return log_event(user, " $", text); }

static bool on_key(void *user, tv_sv text) { return log_event(user, " @", text); }

static bool on_begin_object(void *user) { return log_event(user, " {", no_text); }

static bool on_end_object(void *user) { return log_event(user, " }", no_text); }

static bool on_begin_array(void *user) { return log_event(user, " [", no_text); }

static bool on_end_array(void *user) { return log_event(user, " ]", no_text); }

static const tv_json_handler handler = {on_null,         on_boolean,    on_number,      on_string,   on_key,
                                        on_begin_object, on_end_object, on_begin_array, on_end_array};

static tv_json_error read_chunks(event_log *log, tv_sv text, size_t chunk, tv_json_limits limits)
{
    tv_json_reader r;
    log->reader = &r;
    log->length = log->events = 0;
    log->text[0] = '\0';
    tv_json_reader_init(&r, &handler, log, limits);
    for (size_t i = 0; i < text.len; i += chunk)
        if (!tv_json_reader_feed(&r, text.ptr + i, i + chunk < text.len ? chunk : text.len - i))
            break;
    tv_json_reader_finish(&r);
    tv_json_error error = r.error;
    tv_json_reader_fini(&r);
    return error;
}

static const char document[] =
    "{\"a\": [1, -2.5e3, true, false, null, \"x\\u00e9\\n\"],\n \"\xC3\xA9\": {\"b\": {}, \"c\": []}}";

static void events_do_not_depend_on_the_chunks(void **state)
{
    (void)state;
    event_log log = {0};
    for (size_t chunk = 1; chunk <= sizeof document; chunk++) {
        tv_json_error error = read_chunks(&log, tv_sv_of(document), chunk, TV_JSON_LIMITS);
        assert_int_equal(error.kind, TV_JSON_OK);
        assert_string_equal(error.message, "");
        assert_string_equal(log.text,
                            " { @a [ #1 #-2.5e3 true false null $x\xC3\xA9\n ] @\xC3\xA9 { @b { } @c [ ] } }");
    }
}

static void errors_have_a_message_and_an_offset(void **state)
{
    static const struct {
        const char *text;
        tv_json_error_kind kind;
        unsigned offset;
        const char *message;
    } cases[] = {
        {"[1 2]", TV_JSON_SYNTAX, 4, "after array element, I expect ',' or ']'"},
        {"[1,", TV_JSON_SYNTAX, 3, "premature EOF"},
        {"", TV_JSON_SYNTAX, 0, "premature EOF"},
        {"[nul]", TV_JSON_SYNTAX, 4, "invalid string in json text."},
        {"[\"\xFF\"]", TV_JSON_SYNTAX, 3, "invalid bytes in UTF8 string."},
        {"[\"\xED\xA0\x80\"]", TV_JSON_UTF8, 6, "the string is not UTF-8"},
        {"{\"\xC0\x80\":1}", TV_JSON_UTF8, 5, "the string is not UTF-8"},
        {"[[[[1]]]]", TV_JSON_DEPTH, 4, "nested deeper than 3 levels"},
        {"1 2", TV_JSON_SYNTAX, 3, "trailing garbage"},
    };
    (void)state;
    event_log log = {0};
    for (unsigned i = 0; i < TV_COUNTOF(cases); i++) {
        tv_json_error error =
            read_chunks(&log, tv_sv_of(cases[i].text), 64, (tv_json_limits){.depth = 3, .token = 1 << 20});
        assert_string_equal(error.message, cases[i].message);
        assert_int_equal(error.kind, cases[i].kind);
        assert_int_equal(error.offset, cases[i].offset);
    }
}

static void several_values_are_an_option(void **state)
{
    (void)state;
    event_log log = {0};
    tv_json_error error =
        read_chunks(&log, tv_sv_of("{}\n[1]\n"), 2, (tv_json_limits){.depth = 3, .token = 99, .multiple = true});
    assert_int_equal(error.kind, TV_JSON_OK);
    assert_string_equal(log.text, " { } [ #1 ]");
}

static void a_handler_stops_the_reader(void **state)
{
    (void)state;
    event_log log = {.stop_after = 3};
    tv_json_error error = read_chunks(&log, tv_sv_of("[1, 2, 3]"), 64, TV_JSON_LIMITS);
    assert_int_equal(error.kind, TV_JSON_STOPPED);
    assert_string_equal(log.text, " [ #1 #2");
}

static void long_tokens_end_at_the_limit(void **state)
{
    (void)state;
    static char text[1 << 16];
    event_log log = {0};
    memset(text, 'x', sizeof text);
    text[0] = '"';
    tv_json_error error = read_chunks(&log, (tv_sv){text, sizeof text}, 1 << 12, (tv_json_limits){3, 1 << 14, false});
    assert_int_equal(error.kind, TV_JSON_TOKEN);
    assert_int_equal(error.offset, 5 << 12);
}

static bool reading_survives(tv_sv text, size_t chunk, long n, bool all)
{
    static event_log log;
    fail_allocation(n, all);
    tv_json_error error = read_chunks(&log, text, chunk, TV_JSON_LIMITS);
    bool failed = end_failing();
    assert_int_equal(error.kind, failed ? TV_JSON_MEMORY : TV_JSON_OK);
    return !failed;
}

/* A long string in small chunks makes buffers grow past the reserve; deep nesting makes the stack grow. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    tv_buf text = {0};
    tv_buf_str(&text, document);
    text.len--;
    tv_buf_str(&text, ", \"long\": \"\\n");
    tv_buf_fill(&text, 'y', 3000);
    tv_buf_str(&text, "\"}");
    tv_sv all = {(const char *)text.data, text.len};
    for (unsigned keep = 0; keep < 2; keep++)
        for (size_t chunk = 1; chunk <= 4096; chunk *= 16) {
            long n = 0;
            while (!reading_survives(all, chunk, n, keep))
                n++;
            assert_true(n >= 3);
        }
    tv_buf_fini(&text);
}

/* ---- Numbers ---- */

static void integers_are_those_that_fit(void **state)
{
    (void)state;
    int64_t i = 0;
    assert_true(tv_json_number_integer(tv_sv_of("9223372036854775807"), &i) && i == INT64_MAX);
    assert_true(tv_json_number_integer(tv_sv_of("-9223372036854775808"), &i) && i == INT64_MIN);
    assert_true(tv_json_number_integer(tv_sv_of("-0"), &i) && i == 0);
    static const char *const others[] = {"9223372036854775808", "-9223372036854775809", "1.0", "1e3", "-", ""};
    for (unsigned k = 0; k < TV_COUNTOF(others); k++)
        assert_false(tv_json_number_integer(tv_sv_of(others[k]), &i));
    double d = 0;
    assert_true(tv_json_number_value(tv_sv_of("-1.5e-3"), &d) && d == -1.5e-3);
    assert_true(tv_json_number_value(tv_sv_of("1e999"), &d) && isinf(d));
    char zeros[600];
    memset(zeros, '0', sizeof zeros);
    memcpy(zeros, "0.", 2);
    memcpy(zeros + sizeof zeros - 5, "1e590", 5);
    assert_true(tv_json_number_value((tv_sv){zeros, sizeof zeros}, &d) && fabs(d - 1e-4) < 1e-12);
}

/* ---- Trees ---- */

static void trees_answer_by_key_and_index(void **state)
{
    (void)state;
    tv_arena arena = {0};
    tv_json_error error;
    const tv_json_value *v = tv_json_parse(&arena, tv_sv_of(document), 4096, &error);
    assert_int_equal(error.kind, TV_JSON_OK);
    const tv_json_value *list = tv_json_get(v, "a");
    assert_int_equal(tv_json_count(list), 6);
    assert_int_equal(tv_json_integer(tv_json_at(list, 0)), 1);
    assert_true(tv_json_number(tv_json_at(list, 1)) == -2500);
    assert_true(tv_json_is_true(tv_json_at(list, 2)) && !tv_json_is_true(tv_json_at(list, 3)));
    assert_true(tv_json_is(tv_json_at(list, 4), TV_JSON_NULL));
    assert_string_equal(tv_json_string(tv_json_at(list, 5)), "x\xC3\xA9\n");
    assert_null(tv_json_at(list, 6));
    assert_null(tv_json_get(list, "a"));
    assert_null(tv_json_get(NULL, "a"));
    assert_true(tv_json_is(tv_json_get(tv_json_get(v, "\xC3\xA9"), "b"), TV_JSON_OBJECT));
    tv_arena_fini(&arena);
}

static void trees_reject(void **state)
{
    static const struct {
        const char *text;
        tv_json_error_kind kind;
        unsigned offset, line;
    } cases[] = {{"{\"a\":1,\n\"a\":2}", TV_JSON_DUPLICATE, 14, 2},
                 {"[\"\\u0000\"]", TV_JSON_VALUE, 9, 1},
                 {"[1e400]", TV_JSON_VALUE, 6, 1},
                 {"{\"a\":\n}", TV_JSON_SYNTAX, 7, 2},
                 {"                                                                 1", TV_JSON_SIZE, 0, 1}};
    (void)state;
    for (unsigned i = 0; i < TV_COUNTOF(cases); i++) {
        tv_arena arena = {0};
        tv_json_error error;
        assert_null(tv_json_parse(&arena, tv_sv_of(cases[i].text), 64, &error));
        assert_int_equal(error.kind, cases[i].kind);
        assert_int_equal(error.offset, cases[i].offset);
        assert_int_equal(tv_json_line(tv_sv_of(cases[i].text), error.offset), cases[i].line);
        assert_true(error.message[0] != '\0');
        tv_arena_fini(&arena);
    }
}

static void large_objects_have_each_key_once(void **state)
{
    (void)state;
    for (unsigned duplicate = 0; duplicate < 2; duplicate++) {
        tv_arena arena = {0};
        tv_json_builder b;
        tv_json_builder_init(&b, &arena, 1 << 20);
        tv_json_build_begin_object(&b);
        for (unsigned i = 0; i < 1000; i++) {
            char key[16];
            snprintf(key, sizeof key, "k%u", duplicate && i == 999 ? 7 : i);
            tv_json_build_key(&b, tv_sv_of(key));
            tv_json_build_integer(&b, i);
        }
        assert_int_equal(tv_json_build_end_object(&b), !duplicate);
        assert_int_equal(tv_json_builder_done(&b), !duplicate);
        assert_int_equal(b.error, duplicate ? TV_JSON_DUPLICATE : TV_JSON_OK);
        tv_arena_fini(&arena);
    }
}

static void a_tree_survives_every_allocation_failing(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        tv_arena arena = {0};
        tv_json_error error;
        fail_allocation(n, false);
        const tv_json_value *v = tv_json_parse(&arena, tv_sv_of(document), 4096, &error);
        bool failed = end_failing();
        assert_int_equal(error.kind, failed ? TV_JSON_MEMORY : TV_JSON_OK);
        assert_int_equal(v == NULL, failed);
        tv_arena_fini(&arena);
        if (!failed)
            break;
    }
}

/* ---- Writing ---- */

static void write_sample(tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "text", "a\"\\\n\x01\x7F/\xC3\xA9");
    tv_json_string_member(w, "bytes", "a\xFF\xC3");
    tv_json_string_member(w, "none", NULL);
    tv_json_integer_member(w, "least", INT64_MIN);
    tv_json_unsigned_member(w, "most", UINT64_MAX);
    tv_json_key(w, "list");
    tv_json_begin_array(w);
    tv_json_write_boolean(w, true);
    tv_json_begin_array(w);
    tv_json_end_array(w);
    tv_json_begin_object(w);
    tv_json_end_object(w);
    tv_json_end_array(w);
    tv_json_end_object(w);
}

#define WRITTEN_TEXTS                                                                                                  \
    "\"a\\\"\\\\\\n\\u0001\\u007F/\xC3\xA9\"", "\"a??\"", "null", "-9223372036854775808", "18446744073709551615"

static void styles_differ_only_in_space(void **state)
{
    static const char *const formats[] = {
        [TV_JSON_COMPACT] = "{\"text\":%s,\"bytes\":%s,\"none\":%s,\"least\":%s,\"most\":%s,\"list\":[true,[],{}]}",
        [TV_JSON_SPACED] =
            "{\"text\": %s, \"bytes\": %s, \"none\": %s, \"least\": %s, \"most\": %s, \"list\": [true, [], {}]}",
        [TV_JSON_INDENTED] = ("{\n \"text\": %s,\n \"bytes\": %s,\n \"none\": %s,\n \"least\": %s,\n \"most\": %s,\n "
                              "\"list\": [\n  true,\n  [],\n  {}\n ]\n}")};
    (void)state;
    for (unsigned style = 0; style < TV_COUNTOF(formats); style++) {
        tv_buf buf = {0}, expected = {0};
        tv_json_writer w;
        tv_json_writer_init_buf(&w, &buf, (tv_json_style)style);
        write_sample(&w);
        assert_true(tv_json_writer_finish(&w));
        tv_buf_printf(&expected, formats[style], WRITTEN_TEXTS);
        assert_string_equal(tv_buf_cstr(&buf), tv_buf_cstr(&expected));
        tv_buf_fini(&buf);
        tv_buf_fini(&expected);
    }
}

/* RFC 8259, and DEL, which a terminal would obey. */
static void expect_character(tv_buf *expected, char c)
{
    static const char special[] = "\"\\\b\t\n\f\r", letters[] = "\"\\btnfr";
    const char *found = strchr(special, c);
    if (found)
        tv_buf_printf(expected, "\\%c", letters[found - special]);
    else if (c < ' ' || c == 0x7F)
        tv_buf_printf(expected, "\\u%04X", c);
    else
        tv_buf_printf(expected, "%c", c);
}

static void a_character_is_escaped_wherever_it_is(void **state)
{
    enum { LONGEST = 26 };
    (void)state;
    for (size_t n = 1; n <= LONGEST; n++)
        for (size_t at = 0; at < n; at++)
            for (int c = 1; c < 0x80; c++) {
                char text[LONGEST + 1] = "abcdefghijklm~! #[]}ABC^{|";
                tv_buf buf = {0}, expected = {0};
                tv_json_writer w;
                text[n] = '\0';
                text[at] = (char)c;
                tv_buf_str(&expected, "\"");
                for (size_t i = 0; i < n; i++)
                    expect_character(&expected, text[i]);
                tv_buf_str(&expected, "\"");
                tv_json_writer_init_buf(&w, &buf, TV_JSON_COMPACT);
                tv_json_write_string(&w, text);
                assert_true(tv_json_writer_finish(&w));
                assert_string_equal(tv_buf_cstr(&buf), tv_buf_cstr(&expected));
                tv_buf_fini(&buf);
                tv_buf_fini(&expected);
            }
}

/* Bytes that are not UTF-8, characters that are, and a zero, at each place of a string. */
static void other_bytes_are_found_wherever_they_are(void **state)
{
    enum { LONGEST = 26 };
    (void)state;
    for (size_t n = 1; n < LONGEST; n++)
        for (size_t at = 0; at < n; at++)
            for (int c = 0x7F; c <= 0x101; c++) { /* 0x7F: a zero; from 0x100 on: characters of two bytes */
                char text[LONGEST + 1] = "abcdefghijklm~! #[]}ABC^{|";
                const char *written = c == 0x7F ? "\\u0000" : c < 0x100 ? "?" : c == 0x100 ? "\xC3\xA9" : "\xC4\x80";
                size_t length = c < 0x100 ? 1 : 2;
                tv_buf buf = {0}, expected = {0};
                tv_json_writer w;
                memcpy(text + at, c == 0x7F ? "" : c < 0x100 ? (char[]){(char)c} : written, length);
                tv_buf_printf(&expected, "\"%.*s%s%.*s\"", (int)at, text, written, (int)(n - at - 1),
                              text + at + length);
                tv_json_writer_init_buf(&w, &buf, TV_JSON_COMPACT);
                tv_json_write_text(&w, (tv_sv){text, n - 1 + length});
                assert_true(tv_json_writer_finish(&w));
                assert_string_equal(tv_buf_cstr(&buf), tv_buf_cstr(&expected));
                tv_buf_fini(&buf);
                tv_buf_fini(&expected);
            }
}

/* Strings whose lengths are around the size of the stage. */
static void strings_of_every_length_are_whole(void **state)
{
    enum { LONGEST = TV_JSON_STAGE + 4 };
    static char text[LONGEST + 1];
    (void)state;
    memset(text, 'z', LONGEST);
    for (size_t n = TV_JSON_STAGE - 8; n <= LONGEST; n++) {
        tv_buf buf = {0}, expected = {0};
        tv_json_writer w;
        tv_json_writer_init_buf(&w, &buf, TV_JSON_COMPACT);
        tv_json_begin_array(&w);
        tv_json_write_text(&w, (tv_sv){text, n});
        tv_json_write_text(&w, (tv_sv){text, n});
        tv_json_end_array(&w);
        assert_true(tv_json_writer_finish(&w));
        tv_buf_printf(&expected, "[\"%.*s\",\"%.*s\"]", (int)n, text, (int)n, text);
        assert_string_equal(tv_buf_cstr(&buf), tv_buf_cstr(&expected));
        tv_buf_fini(&buf);
        tv_buf_fini(&expected);
    }
}

/* An array of objects whose texts have random lengths, some of them characters to escape; by the functions for literal
 * keys, or those for any. */
static void write_objects(tv_buf *buf, uint64_t seed, size_t first, bool literal)
{
    static char text[TV_JSON_STAGE + 1];
    static tv_json_value more[2] = {{.type = TV_JSON_INTEGER, .key = "i", .integer = 5, .next = more + 1},
                                    {.type = TV_JSON_STRING, .key = "s", .text = "v", .length = 1}};
    static const tv_json_value object = {.type = TV_JSON_OBJECT, .first = more};
    unit_rng rng = {seed};
    tv_json_writer w;
    tv_json_writer_init_buf(&w, buf, TV_JSON_COMPACT);
    tv_json_begin_array(&w);
    for (size_t n = first, i = 0; i < 24; n = (size_t)unit_sized(&rng, 9), i++) {
        uint64_t value = unit_sized(&rng, 64), has = unit_next(&rng) | (i == 0 ? 4 : 0); /* the first has its text */
        double real = (double)unit_sized(&rng, 53) / 1024;
        memset(text, 'z', n);
        text[n] = '\0';
        if (has & 1 && n)
            text[unit_below(&rng, n)] = "\"\n"[has >> 1 & 1];
        if (literal) {
            tv_json_members m = tv_json_begin_members(&w);
            TV_JSON_MEMBER(&m, "text", text, has & 4 ? text : NULL);
            TV_JSON_MEMBER(&m, "value", unsigned, value);
            TV_JSON_BEGIN_MEMBER(&m, "empty");
            tv_json_put_members(&m, NULL);
            tv_json_put_end(&m);
            TV_JSON_BEGIN_MEMBER(&m, "inner");
            if (has & 8)
                TV_JSON_MEMBER(&m, "signed", integer, (int64_t)value);
            tv_json_put_members(&m, &object);
            tv_json_put_end(&m);
            if (has & 16)
                tv_json_put_members(&m, &object);
            TV_JSON_MEMBER(&m, "real", number, real, 12);
            tv_json_end_members(&m);
            continue;
        }
        tv_json_begin_object(&w);
        tv_json_string_member(&w, "text", has & 4 ? text : NULL);
        tv_json_unsigned_member(&w, "value", value);
        tv_json_key(&w, "empty");
        tv_json_begin_object(&w);
        tv_json_end_object(&w);
        tv_json_key(&w, "inner");
        tv_json_begin_object(&w);
        if (has & 8)
            tv_json_integer_member(&w, "signed", (int64_t)value);
        tv_json_write_members(&w, &object, 0);
        tv_json_end_object(&w);
        if (has & 16)
            tv_json_write_members(&w, &object, 0);
        tv_json_key(&w, "real");
        tv_json_write_number(&w, real, 12);
        tv_json_end_object(&w);
    }
    tv_json_end_array(&w);
    assert_true(tv_json_writer_finish(&w));
}

static void members_with_literal_keys_are_written_as_others(void **state)
{
    (void)state;
    for (size_t n = 0; n <= TV_JSON_STAGE; n++) {
        tv_buf buf = {0}, expected = {0};
        write_objects(&buf, n, n, true);
        write_objects(&expected, n, n, false);
        const char *text = tv_buf_cstr(&buf), *as = tv_buf_cstr(&expected);
        while (*text && *text == *as) {
            text++;
            as++;
        }
        if (*text != *as)
            fail_msg("after a text of %zu: %.60s, not %.60s", n, text, as);
        tv_buf_fini(&buf);
        tv_buf_fini(&expected);
    }
}

static void check_digits(uint64_t value)
{
    tv_buf buf = {0}, expected = {0};
    tv_json_writer w;
    tv_json_writer_init_buf(&w, &buf, TV_JSON_COMPACT);
    tv_json_write_unsigned(&w, value);
    assert_true(tv_json_writer_finish(&w));
    tv_buf_printf(&expected, "%" PRIu64, value);
    assert_string_equal(tv_buf_cstr(&buf), tv_buf_cstr(&expected));
    tv_buf_fini(&buf);
    tv_buf_fini(&expected);
}

static void integers_have_all_their_digits(void **state)
{
    (void)state;
    for (uint64_t power = 1;; power *= 10) {
        for (uint64_t value = power - 1; value <= power + 1; value++)
            check_digits(value);
        if (power > UINT64_MAX / 10)
            break;
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        check_digits((UINT64_C(1) << bit) - 1);
        check_digits(UINT64_MAX >> bit);
    }
}

static void reals_read_back(void **state)
{
    static const struct {
        double value;
        int digits;
        const char *real, *number;
    } cases[] = {{1, 0, "1.0", "1"},
                 {0.1, 0, "0.1", "0.1"},
                 {1.0 / 3, 0, "0.3333333333333333", "0.3333333333333333"},
                 {1e300, 0, "1e300", "1e300"},
                 {-5e-324, 0, "-4.94065645841247e-324", "-4.94065645841247e-324"},
                 {1e-7, 0, "1e-7", "1e-7"},
                 {-0.0, 0, "-0.0", "-0"},
                 {2.0 / 3, 9, "0.666666667", "0.666666667"},
                 {123456789012.0, 9, "1.23456789e11", "1.23456789e11"},
                 {NAN, 0, "null", "null"},
                 {-INFINITY, 12, "null", "null"}};
    (void)state;
    for (unsigned i = 0; i < TV_COUNTOF(cases); i++) {
        tv_buf buf = {0}, expected = {0};
        tv_json_writer w;
        tv_json_writer_init_buf(&w, &buf, TV_JSON_COMPACT);
        tv_json_begin_array(&w);
        tv_json_write_real(&w, cases[i].value, cases[i].digits);
        tv_json_write_number(&w, cases[i].value, cases[i].digits);
        tv_json_end_array(&w);
        assert_true(tv_json_writer_finish(&w));
        tv_buf_printf(&expected, "[%s,%s]", cases[i].real, cases[i].number);
        assert_string_equal(tv_buf_cstr(&buf), tv_buf_cstr(&expected));
        tv_buf_fini(&buf);
        tv_buf_fini(&expected);
    }
    unit_rng rng = {1};
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t bits = unit_next(&rng);
        double x, back;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x))
            continue;
        tv_buf buf = {0};
        tv_json_writer w;
        tv_json_writer_init_buf(&w, &buf, TV_JSON_COMPACT);
        tv_json_write_real(&w, x, 0);
        assert_true(tv_json_writer_finish(&w));
        assert_true(tv_json_number_value(tv_sv_of(tv_buf_cstr(&buf)), &back) && back == x);
        tv_buf_fini(&buf);
    }
}

static void expect_number(double value, int digits, const char *expected)
{
    tv_buf buf = {0};
    tv_json_writer w;
    tv_json_writer_init_buf(&w, &buf, TV_JSON_COMPACT);
    tv_json_write_number(&w, value, digits);
    assert_true(tv_json_writer_finish(&w));
    assert_string_equal(tv_buf_cstr(&buf), expected);
    tv_buf_fini(&buf);
}

/* Numbers of few digits, which are not written by printf: by hand, and beside it. */
static void few_digits_are_those_of_printf(void **state)
{
    static const struct {
        double value;
        int digits;
        const char *text;
    } cases[] = {{0.0025, 12, "0.0025"},
                 {1e-4, 12, "0.0001"},
                 {9.9999e-5, 12, "9.9999e-5"},
                 {9.9999999999995e-5, 12, "0.0001"},
                 {0.0999999999994, 12, "0.0999999999994"},
                 {0.0999999999999996, 12, "0.1"},
                 {9.999999999994, 12, "9.99999999999"},
                 {9.999999999996, 12, "10"},
                 {2.5, 1, "2"},
                 {3.5, 1, "4"},
                 {0.5, 1, "0.5"},
                 {1234567, 3, "1.23e6"},
                 {29220009.5715, 11, "29220009.571"}, /* the products are ties, the doubles below and above one */
                 {49114515.6265, 11, "49114515.627"},
                 {100, 3, "100"},
                 {99.96, 3, "100"},
                 {999.6, 3, "1e3"},
                 {123456789012, 12, "123456789012"},
                 {999999999999.4, 12, "999999999999"},
                 {999999999999.6, 12, "1e12"},
                 {1000000.25, 12, "1000000.25"}};
    (void)state;
    for (unsigned i = 0; i < TV_COUNTOF(cases); i++)
        expect_number(cases[i].value, cases[i].digits, cases[i].text);
    unit_rng rng = {3};
    for (unsigned i = 0; i < 300000; i++) {
        char text[64];
        uint64_t bits = unit_next(&rng);
        int digits = 1 + (int)(unit_next(&rng) % 14);
        double power = pow(10, (double)(bits % 18) - 5);
        double value = i % 4 == 0   ? power * (1 + (double)((int)(bits >> 20 & 7) - 4) * 0x1p-52)
                       : i % 4 == 1 ? (double)(bits >> 34) * 0.0025
                       : i % 4 == 2 ? (double)(bits >> 50) / 2
                                    : power * (double)(bits >> 11) * 0x1p-53;
        snprintf(text, sizeof text, "%.*g", digits, value);
        char *e = strchr(text, 'e'); /* without a plus sign and zeros */
        if (e)
            snprintf(e + 1, 8, "%ld", strtol(e + 1, NULL, 10));
        expect_number(value, digits, text);
    }
}

/* What is read is written the same, but for space. */
static void trees_are_written_as_they_were_read(void **state)
{
    static const char text[] = "{\"a\":[1,-2.50E+3,18446744073709551616,{\"b\":\"\\n\"}],\"c\":null}";
    (void)state;
    tv_arena arena = {0};
    tv_json_error error;
    tv_buf buf = {0};
    tv_json_writer w;
    const tv_json_value *v = tv_json_parse(&arena, tv_sv_of(text), 4096, &error);
    tv_json_writer_init_buf(&w, &buf, TV_JSON_COMPACT);
    tv_json_write_value(&w, v, 0);
    assert_true(tv_json_writer_finish(&w));
    assert_string_equal(tv_buf_cstr(&buf), text);
    tv_buf_fini(&buf);
    tv_json_writer_init_buf(&w, &buf, TV_JSON_COMPACT);
    tv_json_newline(&w);
    tv_json_begin_array(&w);
    tv_json_newline(&w);
    tv_json_write_null(&w);
    tv_json_newline(&w);
    tv_json_begin_object(&w);
    tv_json_write_members(&w, tv_json_at(tv_json_get(v, "a"), 3), 0);
    tv_json_end_object(&w);
    tv_json_newline(&w);
    tv_json_end_array(&w);
    assert_true(tv_json_writer_finish(&w));
    assert_string_equal(tv_buf_cstr(&buf), "\n[\nnull,\n{\"b\":\"\\n\"}\n]");
    tv_buf_fini(&buf);
    tv_arena_fini(&arena);
}

static void a_failed_sink_is_reported_once(void **state)
{
    (void)state;
    char long_text[2 * TV_JSON_STAGE];
    memset(long_text, 'z', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    size_t whole = 0;
    for (long n = 0;; n++) {
        tv_buf buf = {0};
        tv_json_writer w;
        fail_allocation(n, false);
        tv_json_writer_init_buf(&w, &buf, TV_JSON_INDENTED);
        tv_json_begin_array(&w);
        for (unsigned i = 0; i < 4; i++)
            tv_json_write_string(&w, long_text);
        tv_json_end_array(&w);
        bool good = tv_json_writer_finish(&w);
        bool failed = end_failing();
        assert_true(good || failed); /* an array that cannot be aligned stays where it is */
        whole = good && !whole ? buf.len : whole;
        assert_true(!good || buf.len == whole);
        tv_buf_fini(&buf);
        if (!failed)
            break;
    }
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        tv_json_writer w;
        setvbuf(full, NULL, _IONBF, 0);
        tv_json_writer_init_file(&w, full, TV_JSON_COMPACT);
        tv_json_write_null(&w);
        assert_false(tv_json_writer_finish(&w));
        fclose(full);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(events_do_not_depend_on_the_chunks),
                                       cmocka_unit_test(errors_have_a_message_and_an_offset),
                                       cmocka_unit_test(several_values_are_an_option),
                                       cmocka_unit_test(a_handler_stops_the_reader),
                                       cmocka_unit_test(long_tokens_end_at_the_limit),
                                       cmocka_unit_test(every_allocation_may_fail),
                                       cmocka_unit_test(integers_are_those_that_fit),
                                       cmocka_unit_test(trees_answer_by_key_and_index),
                                       cmocka_unit_test(trees_reject),
                                       cmocka_unit_test(large_objects_have_each_key_once),
                                       cmocka_unit_test(a_tree_survives_every_allocation_failing),
                                       cmocka_unit_test(styles_differ_only_in_space),
                                       cmocka_unit_test(a_character_is_escaped_wherever_it_is),
                                       cmocka_unit_test(other_bytes_are_found_wherever_they_are),
                                       cmocka_unit_test(strings_of_every_length_are_whole),
                                       cmocka_unit_test(members_with_literal_keys_are_written_as_others),
                                       cmocka_unit_test(integers_have_all_their_digits),
                                       cmocka_unit_test(reals_read_back),
                                       cmocka_unit_test(few_digits_are_those_of_printf),
                                       cmocka_unit_test(trees_are_written_as_they_were_read),
                                       cmocka_unit_test(a_failed_sink_is_reported_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
