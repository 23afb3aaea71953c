/* SPDX-License-Identifier: Apache-2.0 */
/* Array files, written by hand from the published description of the format: what is read, what is rejected, and the
 * bytes that are written. tests/networks/npy.py compares with NumPy itself. */
#include "unit.h"

#include <unistd.h>

#include "graph/npy.h"

static char folder[] = "trivet-npy-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    return !mkdtemp(folder) || chdir(folder) != 0;
}

static int leave_folder(void **state)
{
    (void)state;
    unlink("a.npy");
    unlink("b.npy");
    return chdir("..") != 0 || rmdir(folder) != 0;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static size_t read_file(const char *path, uint8_t *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

/* A file of the given version, with zeros as elements, and what is read from it. */
static tv_status parse(int version, const char *header, size_t data, unit_log *log, tv_tensor *out)
{
    uint8_t bytes[1024] = "\x93NUMPY";
    size_t length = strlen(header), at = version == 1 ? 10 : 12;
    assert_true(at + length + data <= sizeof bytes);
    bytes[6] = (uint8_t)version;
    bytes[8] = (uint8_t)length;
    bytes[9] = (uint8_t)(length >> 8);
    memcpy(bytes + at, header, length);
    tv_diag_sink sink = unit_sink(log);
    return tv_npy_parse("a.npy", (tv_sv){(const char *)bytes, at + length + data}, &sink, out);
}

static void expect_error(const unit_log *log, const char *code, const char *text)
{
    assert_int_equal(log->count, 1);
    assert_string_equal(log->at[0].code, code);
    assert_string_equal(log->at[0].file, "a.npy");
    if (!strstr(log->at[0].message, text))
        fail_msg("'%s' does not contain '%s'", log->at[0].message, text);
}

/* ---- Reading ---- */

static void headers_are_read_with_any_spacing_and_order(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n",
        "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
        " \t{ \"shape\" : ( 2 , 3 , ) ,\n\"descr\":\"=f4\" , 'fortran_order' : False , }\n",
        "{'descr': 'f4', 'fortran_order': False, 'shape': (2L, 3L)}",
        "{'descr': '|f4', 'fortran_order': True, 'shape': (2, 3)}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        for (int version = 1; version <= 3; version++) {
            tv_tensor t;
            unit_log log;
            assert_int_equal(parse(version, headers[i], 24, &log, &t), TV_OK);
            assert_int_equal(t.element, TV_ELEMENT_F32);
            assert_int_equal(t.rank, 2);
            assert_int_equal(t.dims[0], 2);
            assert_int_equal(t.dims[1], 3);
            tv_tensor_fini(&t);
        }
}

static void scalars_and_empty_arrays_are_read(void **state)
{
    (void)state;
    tv_tensor t;
    unit_log log;
    assert_int_equal(parse(1, "{'descr': '|b1', 'fortran_order': False, 'shape': ()}", 1, &log, &t), TV_OK);
    assert_int_equal(t.rank, 0);
    tv_tensor_fini(&t);
    assert_int_equal(
        parse(1, "{'descr': '>u8', 'fortran_order': True, 'shape': (9223372036854775807, 9, 0)}", 0, &log, &t), TV_OK);
    assert_int_equal(tv_tensor_count(&t), 0);
    tv_tensor_fini(&t);
}

static void malformed_headers_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *header, *code, *text;
    } cases[] = {
        {"", "TV-L080", "the header ends where a dictionary in braces is expected"},
        {"(1)", "TV-L080", "byte 10 of the header is '(', expected a dictionary"},
        {"{'descr': '<f4', 'shape': (2,), }", "TV-L080", "no key 'fortran_order'"},
        {"{'descr': '<f4', 'fortran_order': False}", "TV-L080", "no key 'shape'"},
        {"{'shape': (2,), 'shape': (2,)}", "TV-L080", "the key 'shape' twice"},
        {"{'colour': 3}", "TV-L080", "the key 'colour', expected descr"},
        {"{descr: 3}", "TV-L080", "expected a key in quotes"},
        {"{'descr\n': 3}", "TV-L080", "is 0x0a, expected a single quote"},
        {"{'descr", "TV-L080", "ends where a single quote is expected"},
        {"{'descr' '<f4'}", "TV-L080", "expected a colon"},
        {"{'descr': 3}", "TV-L080", "expected an element type in quotes"},
        {"{'fortran_order': 1}", "TV-L080", "expected True or False"},
        {"{'shape': 3}", "TV-L080", "expected the shape in parentheses"},
        {"{'shape': (3)}", "TV-L080", "expected a comma after the only extent"},
        {"{'shape': (-3,)}", "TV-L080", "expected an extent of at least 0"},
        {"{'shape': (,)}", "TV-L080", "expected an extent of at least 0"},
        {"{'shape': (3, 4 5)}", "TV-L080", "is '5', expected a comma or the end of the shape"},
        {"{'shape': (3,) 'descr': '<f4'}", "TV-L080", "expected a comma or the end of the dictionary"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", "TV-L080", "is 'x', expected nothing after"},
        {"{'descr': [('a', '<f4')]}", "TV-L081", "the elements are records"},
        {"{'descr': '<c8'}", "TV-L081", "the element type '<c8' is not supported"},
        {"{'descr': '<f16'}", "TV-L081", "'<f16' is not supported"},
        {"{'descr': '|O'}", "TV-L081", "'|O' is not supported"},
        {"{'descr': '<u3'}", "TV-L081", "'<u3' is not supported"},
        {"{'descr': ''}", "TV-L081", "'' is not supported"},
        {"{'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}", "TV-L082", "more than 8 dimensions"},
        {"{'shape': (9223372036854775808,)}", "TV-L082", "extent 0 of the array exceeds 2^63 - 1"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "TV-L082",
         "no shape of a tensor"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000000)}", "TV-L083", "the file 0"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", "TV-L083",
         "float32[2 x 3] has 24 bytes, the file 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_tensor t;
        unit_log log;
        assert_int_equal(parse(1, cases[i].header, 0, &log, &t), TV_ERR_INPUT);
        expect_error(&log, cases[i].code, cases[i].text);
        assert_null(t.data);
    }
}

static void elements_after_the_last_one_are_rejected(void **state)
{
    (void)state;
    tv_tensor t;
    unit_log log;
    assert_int_equal(parse(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9, &log, &t), TV_ERR_INPUT);
    expect_error(&log, "TV-L083", "float32[2] has 8 bytes, the file 9");
}

static void damaged_prefixes_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *text;
    } cases[] = {
        {"", 0, "not a .npy file"},
        {"\x93NUMPX\1\0\0\0", 10, "not a .npy file"},
        {"\x93NUMPY", 6, "ends in the first 10 bytes"},
        {"\x93NUMPY\2\0\0\0\0", 11, "ends in the first 12 bytes"},
        {"\x93NUMPY\4\0\0\0", 10, "version is 4.0, expected 1.0, 2.0 or 3.0"},
        {"\x93NUMPY\1\1\0\0", 10, "version is 1.1"},
        {"\x93NUMPY\1\0\1\0", 10, "the header has 1 bytes, the file 0"},
        {"\x93NUMPY\3\0\xFF\xFF\xFF\xFF{}", 14, "the header has 4294967295 bytes, the file 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_tensor t;
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        assert_int_equal(tv_npy_parse("a.npy", (tv_sv){cases[i].bytes, cases[i].size}, &sink, &t), TV_ERR_INPUT);
        expect_error(&log, "TV-L080", cases[i].text);
    }
}

static void missing_files_are_reported(void **state)
{
    (void)state;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_tensor t = {.rank = 9};
    assert_int_equal(tv_npy_read("none.npy", &sink, &t), TV_ERR_INPUT);
    assert_int_equal(log.count, 1);
    assert_int_equal(t.rank, 0);
}

/* ---- Writing ---- */

static void files_have_the_bytes_of_the_format(void **state)
{
    (void)state;
    static const char expected[] = "\x93NUMPY\1\0\x76\0{'descr': '<u2', 'fortran_order': False, 'shape': (2, 1), }"
                                   "                                                          \n\x80\x3f\0\xc0";
    _Static_assert(sizeof expected - 1 == 128 + 4, "the elements begin at a multiple of 64");
    uint8_t bytes[200];
    tv_tensor t;
    assert_int_equal(tv_tensor_init(&t, TV_ELEMENT_BF16, 2, (int64_t[]){2, 1}, NULL), TV_OK);
    tv_tensor_set_real(&t, 0, 1);
    tv_tensor_set_real(&t, 1, -2);
    assert_int_equal(tv_npy_write(&t, "a.npy", NULL, NULL), TV_OK);
    assert_int_equal(read_file("a.npy", bytes, sizeof bytes), sizeof expected - 1);
    assert_memory_equal(bytes, expected, sizeof expected - 1);
    tv_tensor_fini(&t);
}

/* A tensor of random bits: of values that every element type has. */
static void init_random(tv_tensor *t, tv_element element, uint32_t rank, const int64_t *dims, unit_rng *rng)
{
    assert_int_equal(tv_tensor_init(t, element, rank, dims, NULL), TV_OK);
    for (uint64_t i = 0; i < tv_tensor_count(t); i++)
        tv_tensor_set_integer(t, i, (int64_t)unit_next(rng) >> unit_below(rng, 64));
}

static void expect_equal(const tv_tensor *a, const tv_tensor *b)
{
    assert_int_equal(a->element, b->element);
    assert_int_equal(a->rank, b->rank);
    for (uint32_t i = 0; i < a->rank; i++)
        assert_int_equal(a->dims[i], b->dims[i]);
    if (tv_tensor_bytes(a))
        assert_memory_equal(a->data, b->data, tv_tensor_bytes(a));
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    unit_rng rng = {1};
    for (unsigned element = 0; element < TV_ELEMENTS; element++)
        for (uint32_t rank = 0; rank <= TV_TENSOR_RANK_MAX; rank++) {
            int64_t dims[TV_TENSOR_RANK_MAX];
            tv_tensor t, read;
            for (uint32_t i = 0; i < rank; i++)
                dims[i] = (int64_t)unit_below(&rng, 4) + (element % 4 != 0);
            init_random(&t, (tv_element)element, rank, dims, &rng);
            assert_int_equal(tv_npy_write(&t, "a.npy", NULL, NULL), TV_OK);
            assert_int_equal(tv_npy_read("a.npy", NULL, &read), TV_OK);
            assert_true(tv_tensor_restore(&read, t.element));
            expect_equal(&t, &read);
            tv_tensor_fini(&read);
            assert_int_equal(tv_raw_write(&t, "a.npy", NULL, NULL), TV_OK);
            assert_int_equal(tv_raw_read("a.npy", t.element, rank, dims, NULL, &read), TV_OK);
            expect_equal(&t, &read);
            tv_tensor_fini(&read);
            tv_tensor_fini(&t);
        }
}

static void files_of_a_group_appear_when_it_is_committed(void **state)
{
    (void)state;
    tv_tensor t;
    tv_output_group *group;
    unlink("a.npy");
    assert_int_equal(tv_tensor_init(&t, TV_ELEMENT_F32, 0, NULL, NULL), TV_OK);
    assert_int_equal(tv_output_group_new(NULL, &group), TV_OK);
    assert_int_equal(tv_npy_write(&t, "a.npy", group, NULL), TV_OK);
    assert_int_equal(tv_raw_write(&t, "b.npy", group, NULL), TV_OK);
    assert_int_not_equal(access("a.npy", F_OK), 0);
    assert_int_equal(tv_output_group_commit(group, NULL), TV_OK);
    assert_int_equal(access("a.npy", F_OK), 0);
    assert_int_equal(access("b.npy", F_OK), 0);
    tv_tensor_fini(&t);
}

/* ---- Raw files and substitutes ---- */

static void raw_files_of_another_size_are_rejected(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, columns;
        const char *code, *text;
    } cases[] = {
        {2, 2, "TV-L083", "int16[2 x 2] has 8 bytes, the file 6"},
        {1, 2, "TV-L083", "int16[1 x 2] has 4 bytes, the file 6"},
        {-1, 3, "TV-L082", "is no shape of a tensor"},
        {INT64_MAX, INT64_MAX, "TV-L082", "is no shape of a tensor"},
    };
    write_file("a.npy", "\1\2\3\4\5\6", 6);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_tensor t;
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        int64_t dims[] = {cases[i].rows, cases[i].columns};
        assert_int_equal(tv_raw_read("a.npy", TV_ELEMENT_I16, 2, dims, &sink, &t), TV_ERR_INPUT);
        expect_error(&log, cases[i].code, cases[i].text);
    }
}

static void four_bit_elements_out_of_range_are_rejected(void **state)
{
    (void)state;
    tv_tensor t;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    write_file("a.npy", "\xF8\x07", 2);
    assert_int_equal(tv_raw_read("a.npy", TV_ELEMENT_I4, 1, (int64_t[]){2}, NULL, &t), TV_OK);
    assert_int_equal(tv_tensor_integer(&t, 0), -8);
    tv_tensor_fini(&t);
    assert_int_equal(tv_raw_read("a.npy", TV_ELEMENT_U4, 1, (int64_t[]){2}, &sink, &t), TV_ERR_INPUT);
    expect_error(&log, "TV-L083", "out of the range of uint4");
    assert_null(t.data);
}

static void only_stored_forms_are_restored(void **state)
{
    (void)state;
    tv_tensor t;
    assert_int_equal(tv_tensor_init(&t, TV_ELEMENT_U16, 0, NULL, NULL), TV_OK);
    assert_false(tv_tensor_restore(&t, TV_ELEMENT_F16));
    assert_false(tv_tensor_restore(&t, TV_ELEMENT_I16));
    assert_true(tv_tensor_restore(&t, TV_ELEMENT_BF16));
    assert_int_equal(t.element, TV_ELEMENT_BF16);
    tv_tensor_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_are_read_with_any_spacing_and_order),
        cmocka_unit_test(scalars_and_empty_arrays_are_read),
        cmocka_unit_test(malformed_headers_are_rejected),
        cmocka_unit_test(elements_after_the_last_one_are_rejected),
        cmocka_unit_test(damaged_prefixes_are_rejected),
        cmocka_unit_test(missing_files_are_reported),
        cmocka_unit_test(files_have_the_bytes_of_the_format),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(files_of_a_group_appear_when_it_is_committed),
        cmocka_unit_test(raw_files_of_another_size_are_rejected),
        cmocka_unit_test(four_bit_elements_out_of_range_are_rejected),
        cmocka_unit_test(only_stored_forms_are_restored),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
