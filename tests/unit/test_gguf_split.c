/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF models in several files: all tensors with any file, and an error for each contradiction. */
#include "unit.h"

#include <unistd.h>

#include "import/gguf.h"

static float values[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};

typedef struct split {
    const char *path, *tensor;
    uint32_t number, count, tensors;
} split;

static void write_split(split p)
{
    static const uint64_t dims[] = {4};
    tv_gguf_writer *w = tv_gguf_writer_new();
    assert_non_null(w);
    tv_gguf_writer_u32(w, "split.no", p.number);
    tv_gguf_writer_u32(w, "split.count", p.count);
    tv_gguf_writer_u32(w, "split.tensors.count", p.tensors);
    if (p.number == 0)
        tv_gguf_writer_string(w, "general.name", tv_sv_of("whole"));
    tv_gguf_writer_tensor(w, p.tensor, TV_GGUF_F32, dims, 1, tv_gguf_rows_of_array, values[p.number % 2]);
    assert_int_equal(tv_gguf_writer_save(w, p.path, NULL), TV_OK);
    tv_gguf_writer_free(w);
}

static const split first = {"m-00001-of-00002.gguf", "a", 0, 2, 2}, second = {"m-00002-of-00002.gguf", "b", 1, 2, 2};

static void check_value(const tv_gguf *g, const char *name, float expected)
{
    const tv_gguf_tensor *t = tv_gguf_tensor_find(g, name);
    float row[4];
    assert_non_null(t);
    assert_int_equal(tv_gguf_row_f32(t, 0, row), TV_OK);
    assert_true(row[3] == expected);
}

static void test_any_file_opens_all(void **state)
{
    (void)state;
    write_split(first);
    write_split(second);
    const char *const paths[] = {first.path, second.path};
    for (unsigned i = 0; i < 2; i++) {
        tv_gguf *g = NULL;
        assert_int_equal(tv_gguf_open(paths[i], NULL, &g), TV_OK);
        assert_int_equal(tv_gguf_tensor_count(g), 2);
        assert_true(tv_sv_is(tv_gguf_string(g, "general.name", tv_sv_of("")), "whole"));
        check_value(g, "a", 4);
        check_value(g, "b", 8);
        tv_gguf_free(g);
    }
}

static void check_error(const char *path, const char *code, const char *text)
{
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_gguf *g = NULL;
    assert_int_equal(tv_gguf_open(path, &sink, &g), TV_ERR_INPUT);
    assert_null(g);
    assert_int_equal(log.count, 1);
    if (code)
        assert_string_equal(log.at[0].code, code);
    if (!strstr(log.at[0].message, text))
        fail_msg("'%s' does not have '%s'", log.at[0].message, text);
}

static void test_contradictions(void **state)
{
    (void)state;
    static const struct {
        split p;
        const char *opened, *code, *text;
    } rows[] = {
        {{"m-00002-of-00002.gguf", "b", 1, 3, 2}, "m-00001-of-00002.gguf", "TV-L015", "a model of 3 parts"},
        {{"m-00002-of-00002.gguf", "b", 0, 2, 2},
         "m-00001-of-00002.gguf",
         "TV-L015",
         "is part number 0 by its metadata"},
        {{"m-00002-of-00002.gguf", "a", 1, 2, 2}, "m-00001-of-00002.gguf", "TV-L005", "tensor 'a' is duplicated"},
        {{"m-00001-of-00002.gguf", "a", 0, 2, 5},
         "m-00002-of-00002.gguf",
         "TV-L015",
         "have 2 tensors; split.tensors.count is 5"},
        {{"other.gguf", "a", 0, 2, 2}, "other.gguf", "TV-L015", "does not end in '-00001-of-00002.gguf'"},
        {{"m-00001-of-00002.gguf", "a", 1, 2, 2},
         "m-00001-of-00002.gguf",
         "TV-L015",
         "does not end in '-00002-of-00002.gguf'"},
        {{"n-00001-of-00002.gguf", "a", 7, 2, 2},
         "n-00001-of-00002.gguf",
         "TV-L015",
         "split.no is 7 and split.count 2"},
        {{"n-00001-of-00002.gguf", "a", 0, 70000, 2}, "n-00001-of-00002.gguf", "TV-L015", "split.count 70000"},
        {{"n-00001-of-00002.gguf", "a", 0, 2, 2}, "n-00001-of-00002.gguf", NULL, "n-00002-of-00002.gguf"},
    };
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        write_split(first);
        write_split(second);
        write_split(rows[i].p);
        check_error(rows[i].opened, rows[i].code, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_file_opens_all),
        cmocka_unit_test(test_contradictions),
    };
    char folder[] = "/tmp/trivet-split-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    static const char *const names[] = {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "n-00001-of-00002.gguf",
                                        "other.gguf"};
    for (size_t i = 0; i < TV_COUNTOF(names); i++)
        unlink(names[i]);
    rmdir(folder);
    return failed;
}
