/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of JSON that are built by calls, their limits, and UTF-8 in texts, in what is read and in what is written. */
#include "unit.h"

#include <math.h>

#include "base/json_value.h"
#include "base/json_writer.h"
#include "base/text.h"

/* ---- Building ---- */

static bool build_sample(tv_json_builder *b)
{
    tv_json_build_begin_object(b);
    tv_json_build_key(b, tv_sv_of("list"));
    tv_json_build_begin_array(b);
    tv_json_build_boolean(b, true);
    tv_json_build_null(b);
    tv_json_build_number(b, tv_sv_of("-12"));
    tv_json_build_number(b, tv_sv_of("0.5"));
    tv_json_build_integer(b, 7);
    tv_json_build_real(b, 1.5);
    tv_json_build_real(b, NAN);
    tv_json_build_string(b, tv_sv_of("text"));
    tv_json_build_end_array(b);
    tv_json_build_key(b, tv_sv_of("last"));
    tv_json_build_integer(b, 3);
    return tv_json_build_end_object(b);
}

static const char *write_tree(const tv_json_value *v, tv_buf *out)
{
    tv_json_writer w;
    tv_json_writer_init_buf(&w, out, TV_JSON_COMPACT);
    tv_json_write_value(&w, v, 17);
    assert_true(tv_json_writer_finish(&w));
    return tv_buf_cstr(out);
}

static void a_tree_has_what_was_built(void **state)
{
    tv_arena arena = {0};
    tv_json_builder b;
    tv_buf text = {0};
    (void)state;
    tv_json_builder_init(&b, &arena, 4096);
    assert_false(tv_json_builder_done(&b));
    assert_true(build_sample(&b));
    assert_true(tv_json_builder_done(&b));
    const char *written = write_tree(b.root, &text);
    assert_string_equal(written, "{\"list\":[true,null,-12,0.5,7,1.5,null,\"text\"],\"last\":3}");
    const tv_json_value *list = tv_json_get(b.root, "list");
    assert_int_equal(tv_json_count(list), 8);
    assert_int_equal(tv_json_at(list, 4)->integer, 7);
    assert_null(tv_json_at(list, 8));
    assert_null(tv_json_at(b.root, 0)); /* no array */
    assert_null(tv_json_at(NULL, 0));
    assert_null(tv_json_get(list, "last"));
    assert_null(tv_json_get(b.root, "other"));
    assert_true(tv_json_is_true(tv_json_at(list, 0)));
    assert_false(tv_json_is_true(tv_json_at(list, 1)));
    assert_true(tv_json_number(tv_json_at(list, 3)) == 0.5);
    assert_true(tv_json_number(tv_json_at(list, 7)) == 0);
    assert_int_equal(tv_json_integer(tv_json_at(list, 3)), 0);
    assert_null(tv_json_string(tv_json_at(list, 0)));
    assert_string_equal(tv_json_string(tv_json_at(list, 7)), "text");
    tv_buf_fini(&text);
    tv_arena_fini(&arena);
}

/* With every limit below the size of the sample the tree ends in the error, and stays there. */
static void a_tree_ends_at_its_limit(void **state)
{
    tv_arena arena = {0};
    tv_json_builder b;
    (void)state;
    tv_json_builder_init(&b, &arena, 4096);
    build_sample(&b);
    size_t size = b.size;
    for (size_t limit = 0; limit <= size; limit++) {
        tv_json_builder_init(&b, &arena, limit);
        assert_int_equal(build_sample(&b), limit == size);
        assert_int_equal(tv_json_builder_done(&b), limit == size);
        assert_int_equal(b.error, limit == size ? TV_JSON_OK : TV_JSON_SIZE);
        if (limit < size) {
            assert_false(tv_json_build_begin_array(&b));
            assert_false(tv_json_build_end_array(&b));
            assert_int_equal(b.error, TV_JSON_SIZE);
        }
    }
    tv_arena_fini(&arena);
}

static void trees_have_a_limited_depth(void **state)
{
    (void)state;
    for (unsigned object = 0; object < 2; object++) {
        tv_arena arena = {0};
        tv_json_builder b;
        tv_json_builder_init(&b, &arena, 1 << 20);
        for (unsigned i = 0; i < TV_JSON_BUILD_DEPTH; i++)
            assert_true(tv_json_build_begin_array(&b));
        assert_false(object ? tv_json_build_begin_object(&b) : tv_json_build_begin_array(&b));
        assert_int_equal(b.error, TV_JSON_DEPTH);
        assert_false(tv_json_build_end_object(&b));
        tv_arena_fini(&arena);
    }
}

static void numbers_and_texts_that_do_not_fit_are_rejected(void **state)
{
    static const char *const numbers[] = {"1e400", "-1e400"};
    (void)state;
    for (unsigned i = 0; i < TV_COUNTOF(numbers); i++) {
        tv_arena arena = {0};
        tv_json_builder b;
        tv_json_builder_init(&b, &arena, 4096);
        assert_false(tv_json_build_number(&b, tv_sv_of(numbers[i])));
        assert_int_equal(b.error, TV_JSON_VALUE);
        tv_json_builder_init(&b, &arena, 4096);
        assert_false(tv_json_build_string(&b, (tv_sv){"a\0b", 3}));
        assert_int_equal(b.error, TV_JSON_VALUE);
        assert_false(tv_json_build_key(&b, tv_sv_of("k")));
        tv_arena_fini(&arena);
    }
}

static void every_error_has_a_text(void **state)
{
    static const struct {
        tv_json_error_kind kind;
        const char *text;
    } rows[] = {{TV_JSON_OK, ""},
                {TV_JSON_SYNTAX, "it cannot be parsed"},
                {TV_JSON_UTF8, "the string is not UTF-8"},
                {TV_JSON_DEPTH, "nested too deeply"},
                {TV_JSON_TOKEN, "a string or number is too long"},
                {TV_JSON_SIZE, "the value is too large"},
                {TV_JSON_DUPLICATE, "a key is given twice in one object"},
                {TV_JSON_VALUE, "a string contains a NUL, or a number is out of range"},
                {TV_JSON_STOPPED, "stopped"},
                {TV_JSON_MEMORY, "out of memory"}};
    (void)state;
    for (unsigned i = 0; i < TV_COUNTOF(rows); i++)
        assert_string_equal(tv_json_error_text(rows[i].kind), rows[i].text);
}

static void lines_are_counted_up_to_an_offset(void **state)
{
    tv_sv text = tv_sv_of("a\nb\n\nc");
    static const unsigned lines[] = {1, 1, 2, 2, 3, 4, 4, 4};
    (void)state;
    for (unsigned i = 0; i < TV_COUNTOF(lines); i++) /* the last offsets are past the end */
        assert_int_equal(tv_json_line(text, i), lines[i]);
}

/* ---- UTF-8 ---- */

/* The length of the well-formed sequence at `p`, 0 if there is none: table 3-7 of the Unicode standard. */
static unsigned well_formed(const unsigned char *p, size_t size)
{
    static const struct {
        unsigned char lead_first, lead_last, second_first, second_last;
        unsigned length;
    } rows[] = {{0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
                {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
                {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};
    for (unsigned i = 0; i < TV_COUNTOF(rows); i++) {
        if (p[0] < rows[i].lead_first || p[0] > rows[i].lead_last || rows[i].length > size)
            continue;
        bool good = rows[i].length == 1 || (p[1] >= rows[i].second_first && p[1] <= rows[i].second_last);
        for (unsigned k = 2; k < rows[i].length; k++)
            good = good && p[k] >= 0x80 && p[k] <= 0xBF;
        if (good)
            return rows[i].length;
    }
    return 0;
}

/* A text of the bytes in quotation marks is read if it is well-formed, and then written with the same characters. */
static void check_json(const char *bytes, size_t size, bool good)
{
    tv_arena arena = {0};
    tv_json_error error;
    tv_buf out = {0}, quoted = {0};
    tv_json_writer w;
    tv_buf_str(&quoted, "\"");
    tv_buf_append(&quoted, bytes, size);
    tv_buf_str(&quoted, "\"");
    const tv_json_value *v = tv_json_parse(&arena, (tv_sv){(const char *)quoted.data, quoted.len}, 4096, &error);
    if ((v != NULL) != good)
        fail_msg("%02x %02x: read as %s", (unsigned char)bytes[0], (unsigned char)bytes[1], v ? "a text" : "damaged");
    tv_json_writer_init_buf(&w, &out, TV_JSON_COMPACT);
    tv_json_write_text(&w, (tv_sv){bytes, size});
    assert_true(tv_json_writer_finish(&w));
    const tv_json_value *again = tv_json_parse(&arena, (tv_sv){(const char *)out.data, out.len}, 4096, &error);
    assert_non_null(again); /* what is written is always JSON */
    if (good && (again->length != size || memcmp(again->text, bytes, size) != 0))
        fail_msg("%02x %02x: written as %.*s", (unsigned char)bytes[0], (unsigned char)bytes[1], (int)out.len,
                 (const char *)out.data);
    if (!good && !memchr(out.data, '?', out.len))
        fail_msg("%02x %02x: damage is not replaced", (unsigned char)bytes[0], (unsigned char)bytes[1]);
    tv_buf_fini(&quoted);
    tv_buf_fini(&out);
    tv_arena_fini(&arena);
}

/* All leads with the second bytes at the borders of the table, and damaged or missing bytes after them. */
static void utf_8_is_that_of_the_standard(void **state)
{
    static const unsigned char seconds[] = {0x20, 0x7E, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF},
                               others[] = {0x7E, 0x80, 0xBF, 0xC0};
    (void)state;
    for (unsigned lead = 0x80; lead < 0x100; lead++)
        for (unsigned i = 0; i < sizeof seconds * sizeof others * sizeof others; i++) {
            unsigned char bytes[5] = {(unsigned char)lead, seconds[i % 10], others[i / 10 % 4], others[i / 40], 0};
            for (size_t size = 1; size <= 4; size++) {
                size_t at = 0;
                while (at < size && well_formed(bytes + at, size - at))
                    at += well_formed(bytes + at, size - at);
                char shown[64], copy[5] = {0};
                memcpy(copy, bytes, size);
                check_json(copy, size, at == size);
                /* Damaged bytes are escaped for display. */
                tv_text_escape(copy, shown, sizeof shown);
                if (at < size && !strstr(shown, "\\x"))
                    fail_msg("%02x %02x: shown as %s", lead, bytes[1], shown);
                if (at == size && strstr(shown, "\\x"))
                    fail_msg("%02x %02x: escaped as %s", lead, bytes[1], shown);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_has_what_was_built),
        cmocka_unit_test(a_tree_ends_at_its_limit),
        cmocka_unit_test(trees_have_a_limited_depth),
        cmocka_unit_test(numbers_and_texts_that_do_not_fit_are_rejected),
        cmocka_unit_test(every_error_has_a_text),
        cmocka_unit_test(lines_are_counted_up_to_an_offset),
        cmocka_unit_test(utf_8_is_that_of_the_standard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
