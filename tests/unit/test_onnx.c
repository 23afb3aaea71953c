/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files, encoded by hand from the wire format of Protocol Buffers and the field numbers of onnx.proto: what is
 * read, and what is rejected before it is decoded. */
#include "unit.h"

#include <math.h>
#include <unistd.h>

#include "base/buf.h"
#include "import/onnx_file.h"
#include "import/onnx_tensor.h"
#include "import/onnx_wire.h"

/* ---- Encoding ---- */

static void put_number(tv_buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        tv_buf_le(out, (value & 0x7F) | 0x80, 1);
    tv_buf_le(out, value, 1);
}

static void put_field(tv_buf *out, unsigned field, uint64_t value)
{
    put_number(out, field << 3);
    put_number(out, value);
}

static void put_bytes(tv_buf *out, unsigned field, const void *bytes, size_t size)
{
    put_number(out, field << 3 | 2);
    put_number(out, size);
    tv_buf_append(out, bytes, size);
}

static void put_text(tv_buf *out, unsigned field, const char *text) { put_bytes(out, field, text, strlen(text)); }

/* Field numbers of onnx.proto. */
enum {
    MODEL_GRAPH = 7,
    GRAPH_NODE = 1,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_GRAPH = 6,
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_SEGMENT = 3,
    TENSOR_INT32 = 5,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14
};

static char folder[] = "trivet-onnx-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    return !mkdtemp(folder) || chdir(folder) != 0;
}

static int leave_folder(void **state)
{
    (void)state;
    unlink("a.onnx");
    unlink("weights.bin");
    return chdir("..") != 0 || rmdir(folder) != 0;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void expect_code(const unit_log *log, const char *code, const char *text)
{
    assert_int_equal(log->count, 1);
    assert_string_equal(log->at[0].code, code);
    assert_non_null(strstr(log->at[0].message, text));
}

/* ---- Tensors ---- */

/* Reads a tensor whose fields are `fields`, named w. */
static tv_status read_tensor(const tv_buf *fields, const char *of_folder, unit_log *log, tv_tensor *out)
{
    tv_buf bytes = {0};
    tv_diag_sink sink = {unit_log_emit, log};
    put_text(&bytes, TENSOR_NAME, "w");
    tv_buf_append(&bytes, fields->data, fields->len);
    *log = (unit_log){0};
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, bytes.len, bytes.data);
    assert_non_null(proto);
    tv_status status = tv_onnx_read_tensor(proto, of_folder, &sink, out);
    onnx__tensor_proto__free_unpacked(proto, NULL);
    tv_buf_fini(&bytes);
    return status;
}

static void start_tensor(tv_buf *fields, int type, int64_t rows, int64_t columns)
{
    *fields = (tv_buf){0};
    put_field(fields, TENSOR_TYPE, (uint64_t)type);
    put_field(fields, TENSOR_DIMS, (uint64_t)rows);
    put_field(fields, TENSOR_DIMS, (uint64_t)columns);
}

static void four_bit_elements_share_bytes(void **state)
{
    (void)state;
    static const uint8_t raw[] = {0x21, 0xF8, 0x07};
    static const int64_t as_signed[] = {1, 2, -8, -1, 7}, as_unsigned[] = {1, 2, 8, 15, 7};
    tv_buf fields;
    tv_tensor t;
    unit_log log;
    for (int kind = 21; kind <= 22; kind++)
        for (int listed = 0; listed < 2; listed++) {
            start_tensor(&fields, kind, 1, 5);
            for (size_t i = 0; i < sizeof raw && listed; i++)
                put_field(&fields, TENSOR_INT32, raw[i]);
            if (!listed)
                put_bytes(&fields, TENSOR_RAW, raw, sizeof raw);
            assert_int_equal(read_tensor(&fields, NULL, &log, &t), TV_OK);
            for (uint64_t i = 0; i < 5; i++)
                assert_int_equal(tv_tensor_integer(&t, i), kind == 21 ? as_unsigned[i] : as_signed[i]);
            tv_tensor_fini(&t);
            tv_buf_fini(&fields);
        }
}

static void booleans_become_zero_or_one(void **state)
{
    (void)state;
    tv_buf fields;
    tv_tensor t;
    unit_log log;
    start_tensor(&fields, 9, 1, 3);
    put_bytes(&fields, TENSOR_RAW, "\x00\x01\xFE", 3);
    assert_int_equal(read_tensor(&fields, NULL, &log, &t), TV_OK);
    assert_memory_equal(t.data, "\x00\x01\x01", 3);
    tv_tensor_fini(&t);
    tv_buf_fini(&fields);
}

static void data_that_do_not_fit_the_dimensions_are_rejected(void **state)
{
    (void)state;
    static const struct {
        int type;
        int64_t rows, columns;
        size_t bytes;
        const char *text;
    } cases[] = {
        {1, 2, 2, 15, "its data do not match its dimensions"},
        {1, 2, 2, 17, "its data do not match its dimensions"},
        {22, 1, 3, 1, "its data do not match its dimensions"},
        {1, -1, 2, 0, "a negative extent"},
        {1, INT64_MAX, INT64_MAX, 8, "more elements than fit"},
        {1, INT64_C(1) << 40, 2, 8, "its data do not match its dimensions"},
        {8, 1, 1, 1, "the element type 8 of ONNX is not supported"},
        {17, 1, 1, 1, "the element type 17 of ONNX is not supported"},
    };
    static const uint8_t raw[32] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_buf fields;
        tv_tensor t;
        unit_log log;
        start_tensor(&fields, cases[i].type, cases[i].rows, cases[i].columns);
        put_bytes(&fields, TENSOR_RAW, raw, cases[i].bytes);
        assert_int_equal(read_tensor(&fields, NULL, &log, &t), TV_ERR_INPUT);
        expect_code(&log, "TV-L062", cases[i].text);
        assert_null(t.data);
        tv_buf_fini(&fields);
    }
}

static void segments_are_rejected(void **state)
{
    (void)state;
    tv_buf fields;
    tv_tensor t;
    unit_log log;
    start_tensor(&fields, 1, 1, 1);
    put_bytes(&fields, TENSOR_SEGMENT, "", 0);
    assert_int_equal(read_tensor(&fields, NULL, &log, &t), TV_ERR_INPUT);
    expect_code(&log, "TV-L062", "segments");
    tv_buf_fini(&fields);
}

/* ---- External data ---- */

static void put_entry(tv_buf *fields, const char *key, const char *value)
{
    tv_buf entry = {0};
    put_text(&entry, 1, key);
    put_text(&entry, 2, value);
    put_bytes(fields, TENSOR_EXTERNAL, entry.data, entry.len);
    tv_buf_fini(&entry);
}

/* Reads two int16 from a file; a key that is NULL is left out. */
static tv_status read_external(const char *location, const char *offset, const char *length, unit_log *log,
                               tv_tensor *t)
{
    tv_buf fields;
    start_tensor(&fields, 5, 1, 2);
    put_field(&fields, TENSOR_LOCATION, 1);
    if (location)
        put_entry(&fields, "location", location);
    if (offset)
        put_entry(&fields, "offset", offset);
    if (length)
        put_entry(&fields, "length", length);
    tv_status status = read_tensor(&fields, "./", log, t);
    tv_buf_fini(&fields);
    return status;
}

static void external_data_are_read_from_the_folder_of_the_model(void **state)
{
    (void)state;
    tv_tensor t;
    unit_log log;
    write_file("weights.bin", "\x01\x00\x02\x00\xFF\xFF", 6);
    assert_int_equal(read_external("weights.bin", "2", "4", &log, &t), TV_OK);
    assert_int_equal(tv_tensor_integer(&t, 0), 2);
    assert_int_equal(tv_tensor_integer(&t, 1), -1);
    tv_tensor_fini(&t);
    assert_int_equal(read_external("./weights.bin", NULL, NULL, &log, &t), TV_OK);
    assert_int_equal(tv_tensor_integer(&t, 1), 2);
    tv_tensor_fini(&t);
}

static void external_data_elsewhere_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *location, *offset, *length, *code, *text;
    } cases[] = {
        {"/etc/passwd", NULL, NULL, "TV-L063", "outside of the model's folder"},
        {"../weights.bin", NULL, NULL, "TV-L063", "outside of the model's folder"},
        {"a/../../weights.bin", NULL, NULL, "TV-L063", "outside of the model's folder"},
        {"", NULL, NULL, "TV-L063", "outside of the model's folder"},
        {NULL, NULL, NULL, "TV-L063", "location"},
        {"weights.bin", "-1", NULL, "TV-L063", "offset"},
        {"weights.bin", "3", NULL, "TV-L063", "too short"},
        {"weights.bin", "18446744073709551615", NULL, "TV-L063", "too short"},
        {"weights.bin", NULL, "3", "TV-L062", "length"},
        {"missing.bin", NULL, NULL, "TV-F001", "missing.bin"},
    };
    write_file("weights.bin", "\x01\x00\x02\x00\xFF\xFF", 6);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_tensor t;
        unit_log log;
        assert_int_equal(read_external(cases[i].location, cases[i].offset, cases[i].length, &log, &t), TV_ERR_INPUT);
        expect_code(&log, cases[i].code, cases[i].text);
    }
}

static void external_data_without_a_folder_are_rejected(void **state)
{
    (void)state;
    tv_buf fields;
    tv_tensor t;
    unit_log log;
    start_tensor(&fields, 1, 1, 1);
    put_field(&fields, TENSOR_LOCATION, 1);
    put_entry(&fields, "location", "weights.bin");
    assert_int_equal(read_tensor(&fields, NULL, &log, &t), TV_ERR_INPUT);
    expect_code(&log, "TV-L063", "in another file");
    tv_buf_fini(&fields);
}

/* ---- Files ---- */

static tv_status open_bytes(const tv_buf *bytes, unit_log *log)
{
    tv_onnx onnx;
    tv_diag_sink sink = {unit_log_emit, log};
    *log = (unit_log){0};
    write_file("a.onnx", bytes->data, bytes->len);
    tv_status status = tv_onnx_open("a.onnx", &sink, &onnx);
    if (status == TV_OK)
        tv_onnx_close(&onnx);
    return status;
}

/* A model whose graph has a node with an attribute that is a graph, and so on, `depth` times. */
static void nest_graphs(tv_buf *out, unsigned depth)
{
    tv_buf graph = {0};
    for (unsigned i = 0; i < depth; i++) {
        tv_buf attribute = {0}, node = {0}, next = {0};
        put_bytes(&attribute, ATTRIBUTE_GRAPH, graph.data, graph.len);
        put_bytes(&node, NODE_ATTRIBUTE, attribute.data, attribute.len);
        put_bytes(&next, GRAPH_NODE, node.data, node.len);
        tv_buf_fini(&attribute);
        tv_buf_fini(&node);
        tv_buf_fini(&graph);
        graph = next;
    }
    put_bytes(out, MODEL_GRAPH, graph.data, graph.len);
    tv_buf_fini(&graph);
}

static void nested_graphs_have_a_limit(void **state)
{
    (void)state;
    tv_buf bytes = {0};
    unit_log log;
    nest_graphs(&bytes, 20); /* 1 + 1 + 3 * 20 messages */
    assert_int_equal(open_bytes(&bytes, &log), TV_OK);
    tv_buf_fini(&bytes);
    nest_graphs(&bytes, 21);
    assert_int_equal(open_bytes(&bytes, &log), TV_ERR_INPUT);
    expect_code(&log, "TV-L061", "nested more than 64 deep");
    tv_buf_fini(&bytes);
    nest_graphs(&bytes, 2000);
    assert_int_equal(open_bytes(&bytes, &log), TV_ERR_INPUT);
    expect_code(&log, "TV-L061", "nested more than 64 deep");
    tv_buf_fini(&bytes);
}

static void the_number_of_messages_has_a_limit(void **state)
{
    (void)state;
    tv_buf bytes = {0}, graph = {0};
    unit_log log;
    for (unsigned i = 0; i < TV_ONNX_ITEMS_MAX; i++)
        put_bytes(&graph, GRAPH_NODE, "", 0);
    put_bytes(&bytes, MODEL_GRAPH, graph.data, graph.len);
    assert_int_equal(open_bytes(&bytes, &log), TV_ERR_INPUT);
    expect_code(&log, "TV-L061", "four million");
    tv_buf_fini(&graph);
    tv_buf_fini(&bytes);
}

static void damaged_files_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *text;
    } cases[] = {
        {"", 0, "no graph"},
        {"\x08\x07", 2, "no graph"},
        {"\x3A\x05\x0A", 3, "longer than its message"},
        {"\x3A\x02\x0A\x05", 4, "longer than its message"},
        {"\x3A\x02\x0A\x80", 4, "cut off"},
        {"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 12, "more than ten bytes"},
        {"\x00\x01", 2, "no valid number"},
        {"\x0B\x01", 2, "unknown kind"},
        {"\x3D\x01\x00\x00\x00", 5, "not of the type"}, /* a graph of four bytes */
        {"GGUF\x03\x00\x00\x00", 8, "not an ONNX file"},
        {"# a program\n", 12, "not an ONNX file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_buf bytes = {0};
        unit_log log;
        tv_buf_append(&bytes, cases[i].bytes, cases[i].size);
        assert_int_equal(open_bytes(&bytes, &log), TV_ERR_INPUT);
        expect_code(&log, "TV-L060", cases[i].text);
        tv_buf_fini(&bytes);
    }
}

static void every_prefix_of_a_file_is_rejected_or_read(void **state)
{
    (void)state;
    tv_buf bytes = {0};
    nest_graphs(&bytes, 6);
    put_text(&bytes, 2, "producer");
    for (size_t size = 0; size <= bytes.len; size++) {
        tv_buf prefix = {0};
        unit_log log;
        tv_buf_append(&prefix, bytes.data, size);
        tv_status status = open_bytes(&prefix, &log);
        assert_true(status == TV_OK || (status == TV_ERR_INPUT && log.count == 1));
        tv_buf_fini(&prefix);
    }
    tv_buf_fini(&bytes);
}

/* ---- Elements ---- */

static void casts_round_and_wrap_as_in_onnx(void **state)
{
    (void)state;
    static const struct {
        tv_element element;
        double value, stored;
    } cases[] = {
        {TV_ELEMENT_F16, 1.00048828125, 1},
        {TV_ELEMENT_F16, 65520, HUGE_VAL},
        {TV_ELEMENT_BF16, 1.00390625, 1},
        {TV_ELEMENT_I32, -1.9, -1},
        {TV_ELEMENT_I32, 1e30, -1},
        {TV_ELEMENT_U8, 300.7, 44},
        {TV_ELEMENT_U64, 0x1p63, 0x1p63},
        {TV_ELEMENT_I64, -0x1p63, -0x1p63},
        {TV_ELEMENT_BOOL, 0.5, 1},
        {TV_ELEMENT_I4, 9, -7},
        {TV_ELEMENT_U4, 17, 1},
        {TV_ELEMENT_F32, 16777217, 16777216},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_tensor t;
        assert_int_equal(tv_tensor_init(&t, cases[i].element, 0, NULL, NULL), TV_OK);
        tv_tensor_set_real(&t, 0, cases[i].value);
        assert_true(tv_tensor_real(&t, 0) == cases[i].stored);
        tv_tensor_fini(&t);
    }
}

static void dimensions_are_printed(void **state)
{
    (void)state;
    char text[TV_TENSOR_TEXT_MAX];
    tv_tensor_print_shape(&(tv_tensor){.element = TV_ELEMENT_I8, .rank = 3, .dims = {1, 3, 224}}, text);
    assert_string_equal(text, "int8[1 x 3 x 224]");
    tv_tensor_print_shape(&(tv_tensor){.element = TV_ELEMENT_F32}, text);
    assert_string_equal(text, "float32[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_bit_elements_share_bytes),
        cmocka_unit_test(booleans_become_zero_or_one),
        cmocka_unit_test(data_that_do_not_fit_the_dimensions_are_rejected),
        cmocka_unit_test(segments_are_rejected),
        cmocka_unit_test(external_data_are_read_from_the_folder_of_the_model),
        cmocka_unit_test(external_data_elsewhere_are_rejected),
        cmocka_unit_test(external_data_without_a_folder_are_rejected),
        cmocka_unit_test(nested_graphs_have_a_limit),
        cmocka_unit_test(the_number_of_messages_has_a_limit),
        cmocka_unit_test(damaged_files_are_rejected),
        cmocka_unit_test(every_prefix_of_a_file_is_rejected_or_read),
        cmocka_unit_test(casts_round_and_wrap_as_in_onnx),
        cmocka_unit_test(dimensions_are_printed),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
