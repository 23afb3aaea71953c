/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files. Test files are built byte by byte from the description of the format; decoded numbers are compared with
 * MPFR. Every prefix of a file, and a file with any number in it replaced by a huge one, must be rejected or read
 * without a crash. */
#include "unit.h"

#include <math.h>
#include <mpfr.h>

#include "import/gguf.h"
#include "model_files.h"
#include "num/float.h"

/* ---- A file built by hand ---- */

typedef struct image {
    tv_buf bytes;
    size_t counts[64];   /* offsets of 64-bit lengths, counts, dimensions and offsets */
    size_t fields32[64]; /* offsets of 32-bit fields */
    size_t count_count, instruction_count;
} image;

static void append_u64(image *f, uint64_t value)
{
    f->counts[f->count_count++] = f->bytes.len;
    tv_buf_le(&f->bytes, value, 8);
}

static void append_u32(image *f, uint32_t value)
{
    f->fields32[f->instruction_count++] = f->bytes.len;
    tv_buf_le(&f->bytes, value, 4);
}

static void append_text(image *f, const char *text)
{
    append_u64(f, strlen(text));
    tv_buf_str(&f->bytes, text);
}

static void append_tensor(image *f, const char *name, uint32_t dims, const uint64_t *dim, uint32_t type,
                          uint64_t offset)
{
    append_text(f, name);
    append_u32(f, dims);
    for (uint32_t i = 0; i < dims; i++)
        append_u64(f, dim[i]);
    append_u32(f, type);
    append_u64(f, offset);
}

/* Metadata of every kind, tensors of five supported types and one unsupported type. */
static void build_image(image *f)
{
    *f = (image){0};
    tv_buf_str(&f->bytes, "GGUF");
    append_u32(f, 3);
    append_u64(f, 6);
    append_u64(f, 15);
    append_text(f, "text"), append_u32(f, 8), append_text(f, "some text");
    append_text(f, "u8"), append_u32(f, 0), tv_buf_le(&f->bytes, 200, 1);
    append_text(f, "i8"), append_u32(f, 1), tv_buf_le(&f->bytes, 0x80, 1);
    append_text(f, "u16"), append_u32(f, 2), tv_buf_le(&f->bytes, 65535, 2);
    append_text(f, "i16"), append_u32(f, 3), tv_buf_le(&f->bytes, 0xFFFF, 2);
    append_text(f, "u32"), append_u32(f, 4), tv_buf_le(&f->bytes, 4000000000u, 4);
    append_text(f, "i32"), append_u32(f, 5), tv_buf_le(&f->bytes, 7, 4);
    append_text(f, "f32"), append_u32(f, 6), tv_buf_le(&f->bytes, 0x3FC00000, 4); /* 1.5 */
    append_text(f, "yes"), append_u32(f, 7), tv_buf_le(&f->bytes, 1, 1);
    append_text(f, "u64"), append_u32(f, 10), tv_buf_le(&f->bytes, UINT64_MAX, 8);
    append_text(f, "i64"), append_u32(f, 11), tv_buf_le(&f->bytes, UINT64_MAX, 8);
    append_text(f, "f64"), append_u32(f, 12), tv_buf_le(&f->bytes, UINT64_C(0xC004000000000000), 8); /* -2.5 */
    append_text(f, "words"), append_u32(f, 9), append_u32(f, 8), append_u64(f, 3), append_text(f, "one"),
        append_text(f, ""), append_text(f, "three");
    append_text(f, "numbers"), append_u32(f, 9), append_u32(f, 3), append_u64(f, 2),
        tv_buf_le(&f->bytes, 0xFFFE0005, 4); /* 5, -2 */
    append_text(f, "nested"), append_u32(f, 9), append_u32(f, 9), append_u64(f, 2), append_u32(f, 0), append_u64(f, 1),
        tv_buf_le(&f->bytes, 9, 1), append_u32(f, 8), append_u64(f, 0);
    append_tensor(f, "f32", 2, (const uint64_t[]){2, 2}, 0, 0);
    append_tensor(f, "f16", 1, (const uint64_t[]){3}, 1, 32);
    append_tensor(f, "bf16", 3, (const uint64_t[]){1, 2, 1}, 30, 64);
    append_tensor(f, "q8", 2, (const uint64_t[]){32, 1}, 8, 96);
    append_tensor(f, "q4", 1, (const uint64_t[]){32}, 2, 160);
    append_tensor(f, "k", 1, (const uint64_t[]){256}, 21, 192);
    tv_buf_fill(&f->bytes, 0, (32 - f->bytes.len % 32) % 32);
    for (unsigned i = 0; i < 4; i++)
        tv_buf_le(&f->bytes, tv_f32_bits((float)i - 0.5f), 4);
    tv_buf_fill(&f->bytes, 0, 16);
    tv_buf_le(&f->bytes, 0x3C00C0007BFF, 6); /* 65504, -2, 1 */
    tv_buf_fill(&f->bytes, 0, 26);
    tv_buf_le(&f->bytes, 0xC0203F80, 4); /* 1, -2.5 */
    tv_buf_fill(&f->bytes, 0, 28);
    tv_buf_le(&f->bytes, 0x3800, 2); /* half */
    for (int i = 0; i < 32; i++)
        tv_buf_le(&f->bytes, (uint8_t)(int8_t)(i == 31 ? -128 : i * 4), 1);
    tv_buf_fill(&f->bytes, 0, 30);
    tv_buf_le(&f->bytes, 0xC000, 2); /* -2 */
    for (unsigned i = 0; i < 16; i++)
        tv_buf_le(&f->bytes, i | (15 - i) << 4, 1);
    tv_buf_fill(&f->bytes, 0, 14);
    tv_buf_fill(&f->bytes, 0, 110);
}

static tv_status read_bytes(const uint8_t *bytes, size_t size, const tv_diag_sink *sink, tv_gguf **out)
{
    uint8_t *copy = malloc(size ? size : 1); /* of the exact size, so that the sanitizer detects an overrun */
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    tv_input input = {.data = copy, .size = size};
    tv_status status = tv_gguf_read("unit.gguf", &input, sink, out);
    if (status != TV_OK)
        tv_input_close(&input);
    else
        assert_null(input.data);
    return status;
}

static tv_gguf *open_image(image *f)
{
    tv_gguf *g = NULL;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    if (read_bytes(f->bytes.data, f->bytes.len, &sink, &g) != TV_OK)
        fail_msg("%s", log.at[0].message);
    return g;
}

static void check_printed(const tv_gguf *g, const char *key, const char *expected)
{
    tv_buf text = {0};
    tv_gguf_meta_print(tv_gguf_meta_find(g, key), 6, &text);
    assert_string_equal(tv_buf_cstr(&text), expected);
    tv_buf_fini(&text);
}

static void test_metadata(void **state)
{
    (void)state;
    image f;
    build_image(&f);
    tv_gguf *g = open_image(&f);
    assert_int_equal(tv_gguf_meta_count(g), 15);
    assert_true(tv_sv_is(tv_gguf_string(g, "text", tv_sv_of("")), "some text"));
    assert_true(tv_sv_is(tv_gguf_string(g, "u8", tv_sv_of("none")), "none"));
    assert_true(tv_sv_is(tv_gguf_string(g, "nothing", tv_sv_of("none")), "none"));
    static const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"u8", 200},  {"i8", 99},    {"u16", 65535}, {"i16", 99},         {"u32", 4000000000u},
                   {"i32", 7},   {"f32", 99},   {"yes", 99},    {"u64", UINT64_MAX}, {"i64", 99},
                   {"text", 99}, {"words", 99}, {"nothing", 99}};
    for (size_t i = 0; i < TV_COUNTOF(numbers); i++)
        if (tv_gguf_u64(g, numbers[i].key, 99) != numbers[i].value)
            fail_msg("%s is %llu", numbers[i].key, (unsigned long long)tv_gguf_u64(g, numbers[i].key, 99));
    assert_true(tv_gguf_f32(g, "f32", 0) == 1.5f && tv_gguf_f32(g, "f64", 0) == -2.5f && tv_gguf_f32(g, "u8", 3) == 3);
    assert_true(tv_gguf_bool(g, "yes", false) && tv_gguf_bool(g, "u8", true) && !tv_gguf_bool(g, "nothing", false));
    tv_gguf_list list;
    assert_true(tv_gguf_array(g, "words", &list));
    assert_int_equal(list.count, 3);
    assert_true(tv_sv_is(list.strings[0], "one") && tv_sv_is(list.strings[1], "") &&
                tv_sv_is(list.strings[2], "three"));
    assert_true(tv_gguf_array(g, "numbers", &list));
    assert_int_equal(list.kind, TV_GGUF_KIND_I16);
    assert_true(tv_gguf_list_i64(&list, 0) == 5 && tv_gguf_list_i64(&list, 1) == -2);
    assert_false(tv_gguf_array(g, "text", &list));
    assert_true(tv_gguf_array(g, "nested", &list));
    check_printed(g, "text", "some t…");
    check_printed(g, "i8", "-128");
    check_printed(g, "u64", "18446744073709551615");
    check_printed(g, "f64", "-2.5");
    check_printed(g, "yes", "true");
    check_printed(g, "words", "[3 strings]");
    check_printed(g, "nested", "[2 arrays]");
    assert_null(tv_gguf_meta_at(g, 15));
    tv_gguf_free(g);
    tv_buf_fini(&f.bytes);
}

static void check_row(const tv_gguf *g, const char *name, uint64_t row, const float *expected, size_t n)
{
    float values[32];
    const tv_gguf_tensor *t = tv_gguf_tensor_find(g, name);
    assert_non_null(t);
    assert_int_equal(t->dims[0], n);
    assert_int_equal(tv_gguf_row_f32(t, row, values), TV_OK);
    for (size_t i = 0; i < n; i++)
        if (values[i] != expected[i])
            fail_msg("%s[%zu] is %g, %g expected", name, i, (double)values[i], (double)expected[i]);
    assert_int_equal(tv_gguf_row_f32(t, t->elements / n, values), TV_ERR_INPUT);
}

static void test_tensors(void **state)
{
    (void)state;
    image f;
    build_image(&f);
    tv_gguf *g = open_image(&f);
    float q8[32], q4[32], none[256];
    for (int i = 0; i < 32; i++) {
        q8[i] = i == 31 ? -64.0f : 2.0f * (float)i;
        q4[i] = -2.0f * (float)((i < 16 ? i : 31 - i) - 8);
    }
    check_row(g, "f32", 0, (const float[]){-0.5f, 0.5f}, 2);
    check_row(g, "f32", 1, (const float[]){1.5f, 2.5f}, 2);
    check_row(g, "f16", 0, (const float[]){65504, -2, 1}, 3);
    check_row(g, "bf16", 1, (const float[]){-2.5f}, 1);
    check_row(g, "q8", 0, q8, 32);
    check_row(g, "q4", 0, q4, 32);
    const tv_gguf_tensor *t = tv_gguf_tensor_find(g, "k");
    assert_int_equal(t->bytes, 110);
    assert_int_equal(tv_gguf_row_f32(t, 0, none), TV_ERR_INPUT);
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    assert_int_equal(tv_gguf_tensor_require(g, "k", 256, 1, &sink, &t), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-L009");
    assert_non_null(strstr(log.at[0].message, "'k' is stored as IQ3_S (type 21)"));
    assert_string_equal(log.at[0].hint, "use a file with F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, "
                                        "Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS");
    sink = unit_sink(&log);
    assert_int_equal(tv_gguf_tensor_require(g, "q8", 1, 32, &sink, &t), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-L008");
    sink = unit_sink(&log);
    assert_int_equal(tv_gguf_tensor_require(g, "q9", 1, 32, &sink, &t), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-L007");
    assert_int_equal(tv_gguf_tensor_require(g, "q8", 32, 1, &sink, &t), TV_OK);
    assert_ptr_equal(t, tv_gguf_tensor_at(g, 3));
    assert_null(tv_gguf_tensor_at(g, 6));
    tv_gguf_free(g);
    tv_buf_fini(&f.bytes);
}

/* ---- Damaged files ---- */

/* Reads everything that the file contains. */
static void read_everything(const tv_gguf *g)
{
    static float row[1 << 16];
    float sum = 0;
    for (uint64_t i = 0; i < tv_gguf_tensor_count(g); i++) {
        const tv_gguf_tensor *t = tv_gguf_tensor_at(g, i);
        for (uint64_t r = 0; t->dims[0] <= TV_COUNTOF(row) && r < 4; r++)
            if (tv_gguf_row_f32(t, r, row) == TV_OK)
                sum += row[t->dims[0] - 1];
        if (t->bytes > 0)
            sum += t->data[t->bytes - 1];
    }
    for (uint64_t i = 0; i < tv_gguf_meta_count(g); i++) {
        tv_buf text = {0};
        tv_gguf_meta_print(tv_gguf_meta_at(g, i), 100, &text);
        tv_buf_fini(&text);
    }
    volatile float total = sum;
    (void)total;
}

static void check_bytes(const uint8_t *bytes, size_t size, unsigned *read)
{
    tv_gguf *g = NULL;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    if (read_bytes(bytes, size, &sink, &g) == TV_OK) {
        read_everything(g);
        tv_gguf_free(g);
        ++*read;
    } else {
        assert_int_equal(log.count, 1);
        assert_null(g);
    }
}

static void test_prefixes(void **state)
{
    (void)state;
    image f;
    unsigned read = 0;
    build_image(&f);
    for (size_t size = 0; size < f.bytes.len; size++)
        check_bytes(f.bytes.data, size, &read);
    assert_int_equal(read, 0); /* the last byte belongs to a tensor */
    check_bytes(f.bytes.data, f.bytes.len, &read);
    assert_int_equal(read, 1);
    tv_buf_fini(&f.bytes);
}

static void test_huge_numbers(void **state)
{
    (void)state;
    static const uint64_t huge[] = {0,
                                    1,
                                    5,
                                    0x7FFFFFFF,
                                    0x80000000,
                                    0xFFFFFFFF,
                                    UINT64_C(1) << 32,
                                    UINT64_C(1) << 60,
                                    UINT64_C(1) << 61,
                                    UINT64_C(1) << 62,
                                    INT64_MAX,
                                    UINT64_C(1) << 63,
                                    UINT64_MAX - 31,
                                    UINT64_MAX};
    image f;
    unsigned read = 0;
    build_image(&f);
    for (size_t i = 0; i < f.count_count + f.instruction_count; i++) {
        bool word = i >= f.count_count;
        uint8_t *p = f.bytes.data + (word ? f.fields32[i - f.count_count] : f.counts[i]), saved[8];
        memcpy(saved, p, word ? 4 : 8);
        for (size_t k = 0; k < TV_COUNTOF(huge); k++) {
            tv_store_le(p, huge[k], word ? 4 : 8);
            check_bytes(f.bytes.data, f.bytes.len, &read);
        }
        memcpy(p, saved, word ? 4 : 8);
    }
    for (size_t i = 0; i < f.bytes.len; i++) /* and with every byte inverted */
        for (unsigned mask = 1; mask < 256; mask = mask * 2 + 1) {
            f.bytes.data[i] ^= (uint8_t)mask;
            check_bytes(f.bytes.data, f.bytes.len, &read);
            f.bytes.data[i] ^= (uint8_t)mask;
        }
    tv_buf_fini(&f.bytes);
}

/* A file with one U32 entry and two tensors that differs from a valid one in one field. */
typedef struct invalid_file {
    const char *code;
    uint32_t magic, version;
    const char *key;
    uint32_t value;
    const char *second_key, *second_tensor;
    uint64_t dim;
    uint32_t type;
    uint64_t offset;
} invalid_file;

static const invalid_file invalid_files[] = {
    {NULL, 0x46554747, 3, "general.alignment", 64, "b", "y", 8, 0, 64},
    {NULL, 0x46554747, 3, "general.alignment", 8, "b", "y", 8, 77, 32}, /* an unknown type is not an error yet */
    {"TV-L001", 0x46554746, 3, "a", 1, "b", "y", 8, 0, 32},
    {"TV-L002", 0x46554747, 2, "a", 1, "b", "y", 8, 0, 32},
    {"TV-L002", 0x46554747, 0x03000000, "a", 1, "b", "y", 8, 0, 32},
    {"TV-L003", 0x46554747, 3, "general.alignment", 0, "b", "y", 8, 0, 32},
    {"TV-L003", 0x46554747, 3, "general.alignment", 48, "b", "y", 8, 0, 48},
    {"TV-L003", 0x46554747, 3, "general.alignment", 1u << 21, "b", "y", 8, 0, 0},
    {"TV-L005", 0x46554747, 3, "a", 1, "a", "y", 8, 0, 32},
    {"TV-L005", 0x46554747, 3, "a", 1, "b", "x", 8, 0, 32},
    {"TV-L003", 0x46554747, 3, "a", 1, "", "y", 8, 0, 32},
    {"TV-L003", 0x46554747, 3, "a", 1, "b", "", 8, 0, 32},
    {"TV-L003", 0x46554747, 3, "a", 1, "b", "y", 8, 0, 16},
    {"TV-L003", 0x46554747, 3, "a", 1, "b", "y", 8, 0, 160},
    {"TV-L003", 0x46554747, 3, "a", 1, "b", "y", 8, 0, UINT64_MAX - 31},
    {"TV-L003", 0x46554747, 3, "a", 1, "b", "y", 0, 0, 32},
    {"TV-L003", 0x46554747, 3, "a", 1, "b", "y", 8, 8, 32}, /* a quarter of a block */
    {"TV-L003", 0x46554747, 3, "a", 1, "b", "y", UINT64_C(1) << 62, 0, 32},
};

static void test_invalid_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(invalid_files); i++) {
        const invalid_file *o = &invalid_files[i];
        image f = {0};
        append_u32(&f, o->magic), append_u32(&f, o->version), append_u64(&f, 2), append_u64(&f, 2);
        append_text(&f, o->key), append_u32(&f, 4), tv_buf_le(&f.bytes, o->value, 4);
        append_text(&f, o->second_key), append_u32(&f, 0), tv_buf_le(&f.bytes, 0, 1);
        append_tensor(&f, "x", 1, (const uint64_t[]){8}, 0, 0);
        append_tensor(&f, o->second_tensor, 1, &o->dim, o->type, o->offset);
        tv_buf_fill(&f.bytes, 0, 64 - f.bytes.len % 64 + 128);
        tv_gguf *g = NULL;
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        tv_status status = read_bytes(f.bytes.data, f.bytes.len, &sink, &g);
        if (status != (o->code ? TV_ERR_INPUT : TV_OK) || (o->code && strcmp(log.at[0].code, o->code) != 0))
            fail_msg("row %zu: status %d, %s", i, (int)status, log.at[0].message);
        tv_gguf_free(g);
        tv_buf_fini(&f.bytes);
    }
}

/* Arrays nested four levels deep, and five. */
static void test_nesting(void **state)
{
    (void)state;
    for (unsigned depth = 1; depth <= 6; depth++) {
        image f = {0};
        tv_buf_str(&f.bytes, "GGUF");
        append_u32(&f, 3), append_u64(&f, 0), append_u64(&f, 1), append_text(&f, "a"), append_u32(&f, 9);
        for (unsigned i = 1; i < depth; i++)
            append_u32(&f, 9), append_u64(&f, 1);
        append_u32(&f, 0), append_u64(&f, 0);
        tv_gguf *g = NULL;
        assert_int_equal(read_bytes(f.bytes.data, f.bytes.len, NULL, &g),
                         depth <= TV_GGUF_NESTING_MAX ? TV_OK : TV_ERR_INPUT);
        tv_gguf_free(g);
        tv_buf_fini(&f.bytes);
    }
}

/* ---- Decoded numbers, by MPFR ---- */

/* x to the nearest F32, ties to even. */
static float round_to_f32(mpfr_t x) { return mpfr_get_flt(x, MPFR_RNDN); }

/* The GGML reference, operation by operation: the scale of the block before rounding to F16, and its integers. */
static void compute_expected_block(bool q4, const float *x, float *d, int *q)
{
    mpfr_t a, b;
    mpfr_inits2(200, a, b, (mpfr_ptr)NULL);
    unsigned at = 0;
    for (unsigned i = 1; i < 32; i++)
        if (fabsf(x[i]) > fabsf(x[at]))
            at = i;
    mpfr_set_flt(a, q4 && x[at] != 0 ? x[at] : fabsf(x[at]), MPFR_RNDN); /* a positive zero for a block of zeros */
    mpfr_div_si(a, a, q4 ? -8 : 127, MPFR_RNDN);
    *d = round_to_f32(a);
    float id = 0;
    if (*d != 0) {
        mpfr_set_si(a, 1, MPFR_RNDN);
        mpfr_set_flt(b, *d, MPFR_RNDN);
        mpfr_div(a, a, b, MPFR_RNDN);
        id = round_to_f32(a);
    }
    for (unsigned i = 0; i < 32; i++) {
        mpfr_set_flt(a, x[i], MPFR_RNDN);
        mpfr_set_flt(b, id, MPFR_RNDN);
        mpfr_mul(a, a, b, MPFR_RNDN);
        mpfr_set_flt(a, round_to_f32(a), MPFR_RNDN);
        if (q4) {
            mpfr_add_d(a, a, 8.5, MPFR_RNDN);
            mpfr_set_flt(a, round_to_f32(a), MPFR_RNDN);
            mpfr_floor(a, a);
            q[i] = (int)mpfr_get_si(a, MPFR_RNDN);
            q[i] = q[i] > 15 ? 15 : q[i];
        } else {
            mpfr_round(a, a);
            q[i] = (int)mpfr_get_si(a, MPFR_RNDN);
        }
    }
    mpfr_clears(a, b, (mpfr_ptr)NULL);
}

/* The F16 nearest to d, by exhaustive search. */
static uint16_t nearest_f16(float d)
{
    uint16_t best = 0;
    double low = INFINITY;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        double value = ldexp((bits >> 10 & 31 ? 1024 : 0) + (double)(bits & 1023),
                             (int)(bits >> 10 & 31 ? (bits >> 10 & 31) : 1) - 25);
        double distance = fabs((double)d - (bits & 0x8000 ? -value : value));
        if ((bits & 0x7C00) == 0x7C00 || (bits == 0x8000 && !signbit(d)) || (bits == 0 && signbit(d)))
            continue;
        if (distance < low || (distance == low && !(bits & 1))) {
            low = distance;
            best = (uint16_t)bits;
        }
    }
    return best;
}

static void test_quantized(void **state)
{
    (void)state;
    unit_rng rng = {3};
    for (unsigned round = 0; round < 400; round++) {
        float x[32], d;
        int q[32];
        uint8_t bytes[34];
        bool q4 = round % 2;
        int scale = (int)unit_below(&rng, 30) - 20;
        for (unsigned i = 0; i < 32; i++) {
            x[i] = ldexpf((float)((double)unit_next(&rng) * 0x1p-63 - 1.0), scale);
            if (round % 5 == 0)
                x[i] = ldexpf((float)((int)unit_below(&rng, 17) - 8) / 2, scale); /* many ties */
            if (round % 7 == 0)                                                   /* q in halves: d is a power of two */
                x[i] = ldexpf(i == 0 ? 127.0f : (float)((int)unit_below(&rng, 253) - 126) / 2, scale);
            if (round < 4)
                x[i] = round < 2 ? 0.0f : -0.0f;
        }
        compute_expected_block(q4, x, &d, q);
        assert_true(tv_gguf_encode(q4 ? TV_GGUF_Q4_0 : TV_GGUF_Q8_0, x, 32, bytes));
        uint16_t half = nearest_f16(d);
        if (tv_load_le16(bytes) != half)
            fail_msg("round %u: scale 0x%04x of %g, 0x%04x expected", round, tv_load_le16(bytes), (double)d, half);
        for (unsigned i = 0; i < 32; i++) {
            int got = q4 ? bytes[2 + i % 16] >> (i < 16 ? 0 : 4) & 15 : (int8_t)bytes[2 + i];
            if (got != q[i])
                fail_msg("round %u: %g / %g is %d, %d expected", round, (double)x[i], (double)d, got, q[i]);
        }
    }
}

static void test_values_that_do_not_fit(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN, 3e38f, 0x1p24f};
    uint8_t bytes[34];
    float x[32] = {1}, back[32];
    for (size_t i = 0; i < TV_COUNTOF(bad); i++) {
        x[7] = bad[i];
        assert_false(tv_gguf_encode(TV_GGUF_Q8_0, x, 32, bytes));
        assert_false(tv_gguf_encode(TV_GGUF_Q4_0, x, 32, bytes));
    }
    x[7] = 65519; /* rounds to the largest F16; 65520 and 3.3961775e38 are halfway to the next power of two */
    assert_true(tv_gguf_encode(TV_GGUF_F16, x, 16, bytes));
    x[7] = -65520;
    assert_false(tv_gguf_encode(TV_GGUF_F16, x, 16, bytes));
    assert_true(tv_gguf_encode(TV_GGUF_BF16, x, 16, bytes));
    x[7] = 0x1.FFp127f;
    assert_false(tv_gguf_encode(TV_GGUF_BF16, x, 16, bytes));
    x[7] = -INFINITY;
    assert_true(tv_gguf_encode(TV_GGUF_F16, x, 16, bytes));
    for (int e = -149; e < -30; e++) { /* too small for a scale: zeros */
        memset(x, 0, sizeof x);
        x[3] = ldexpf(1, e);
        x[4] = -x[3];
        for (unsigned k = 0; k < 2; k++) {
            tv_gguf_type type = k ? TV_GGUF_Q8_0 : TV_GGUF_Q4_0;
            assert_true(tv_gguf_encode(type, x, 32, bytes));
            tv_gguf_decode(type, bytes, 32, back);
            for (unsigned i = 0; i < 32; i++)
                assert_true(back[i] == 0);
            for (unsigned i = 0; e < -133 && i < (k ? 32 : 16); i++) /* the scale has no finite reciprocal */
                assert_int_equal(bytes[2 + i], k ? 0 : 0x88);
        }
    }
}

/* ---- The writer ---- */

static tv_status copy_file(const char *from, const char *to)
{
    tv_gguf *g = NULL;
    TV_TRY(tv_gguf_open(from, NULL, &g));
    tv_gguf_writer *w = tv_gguf_writer_new();
    for (uint64_t i = 0; i < tv_gguf_meta_count(g); i++)
        tv_gguf_writer_meta(w, tv_gguf_meta_at(g, i));
    for (uint64_t i = 0; i < tv_gguf_tensor_count(g); i++)
        tv_gguf_writer_copy(w, tv_gguf_tensor_at(g, i));
    tv_status status = tv_gguf_writer_save(w, to, NULL);
    tv_gguf_writer_free(w);
    tv_gguf_free(g);
    return status;
}

/* The writer reproduces the file built by hand. */
static void test_writer_reproduces_the_file(void **state)
{
    (void)state;
    image f;
    build_image(&f);
    tv_buf_fill(&f.bytes, 0, 18); /* padding after the last tensor, which is optional */
    write_file("a.gguf", f.bytes.data, f.bytes.len);
    assert_int_equal(copy_file("a.gguf", "b.gguf"), TV_OK);
    assert_same_file("a.gguf", "b.gguf");
    tv_buf_fini(&f.bytes);
}

static void test_writer(void **state)
{
    (void)state;
    static const tv_gguf_type types[] = {TV_GGUF_F32, TV_GGUF_F16, TV_GGUF_BF16, TV_GGUF_Q8_0, TV_GGUF_Q4_0};
    static const double bound[] = {0, 0x1p-11, 0x1p-8, 1.0 / 250, 1.0 / 7}; /* relative to the absmax of a block */
    static float values[3 * 64], row[64];
    unit_rng rng = {4};
    for (size_t i = 0; i < TV_COUNTOF(values); i++)
        values[i] = (float)((double)unit_next(&rng) * 0x1p-63 - 1.0);
    tv_gguf_writer *w = tv_gguf_writer_new();
    tv_gguf_writer_string(w, "s", tv_sv_of("text"));
    tv_gguf_writer_u32(w, "u32", 5);
    tv_gguf_writer_u64(w, "u64", UINT64_C(1) << 40);
    tv_gguf_writer_f32(w, "f", 0.25f);
    tv_gguf_writer_bool(w, "b", true);
    tv_gguf_writer_strings(w, "ss", (const tv_sv[]){{"x", 1}, {"", 0}}, 2);
    tv_gguf_writer_f32s(w, "fs", (const float[]){1, -2}, 2);
    tv_gguf_writer_i32s(w, "is", (const int32_t[]){1, -2, 3}, 3);
    for (size_t i = 0; i < TV_COUNTOF(types); i++)
        tv_gguf_writer_tensor(w, tv_gguf_type_name((uint32_t)types[i]), types[i], (const uint64_t[]){64, 3}, 2,
                              tv_gguf_rows_of_array, values);
    assert_int_equal(tv_gguf_writer_save(w, "a.gguf", NULL), TV_OK);
    tv_gguf_writer_free(w);
    tv_gguf *g = NULL;
    assert_int_equal(tv_gguf_open("a.gguf", NULL, &g), TV_OK);
    tv_gguf_list list;
    assert_true(tv_gguf_u64(g, "u64", 0) == UINT64_C(1) << 40 && tv_gguf_u64(g, "u32", 0) == 5 &&
                tv_gguf_f32(g, "f", 0) == 0.25f);
    assert_true(tv_gguf_bool(g, "b", false) && tv_sv_is(tv_gguf_string(g, "s", tv_sv_of("")), "text"));
    assert_true(tv_gguf_array(g, "is", &list) && list.count == 3 && tv_gguf_list_i64(&list, 1) == -2);
    assert_true(tv_gguf_array(g, "fs", &list) && list.count == 2 && tv_gguf_list_f32(&list, 1) == -2);
    for (size_t i = 0; i < TV_COUNTOF(types); i++) {
        const tv_gguf_tensor *t = NULL;
        assert_int_equal(tv_gguf_tensor_require(g, tv_gguf_type_name((uint32_t)types[i]), 64, 3, NULL, &t), TV_OK);
        assert_int_equal(((uintptr_t)t->data) % 32, 0);
        for (uint64_t r = 0; r < 3; r++) {
            assert_int_equal(tv_gguf_row_f32(t, r, row), TV_OK);
            for (size_t k = 0; k < 64; k++)
                if (fabs((double)row[k] - (double)values[r * 64 + k]) > bound[i])
                    fail_msg("%s: %g became %g", tv_gguf_type_name((uint32_t)types[i]), (double)values[r * 64 + k],
                             (double)row[k]);
        }
    }
    tv_gguf_free(g);
    assert_int_equal(copy_file("a.gguf", "b.gguf"), TV_OK);
    assert_same_file("a.gguf", "b.gguf");
}

/* Resident bytes of mapped files. */
static uint64_t resident_file_bytes(void)
{
    char line[128];
    uint64_t kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    assert_non_null(status);
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "RssFile:", 8) == 0)
            kilobytes = strtoull(line + 8, NULL, 10);
    fclose(status);
    return kilobytes << 10;
}

/* 16 MB read sequentially do not stay resident; read again, backwards and forwards, they are unchanged. */
static void test_pages_are_dropped(void **state)
{
    (void)state;
    enum { ROWS = 1 << 14, COLUMNS = 256, MEGABYTE = 1 << 20 };
    float *values = malloc((size_t)ROWS * COLUMNS * sizeof *values), row[COLUMNS];
    const tv_gguf_tensor *t = NULL;
    tv_gguf *g = NULL;
    assert_non_null(values);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++)
        values[i] = (float)i;
    tv_gguf_writer *w = tv_gguf_writer_new();
    tv_gguf_writer_tensor(w, "t", TV_GGUF_F32, (const uint64_t[]){COLUMNS, ROWS}, 2, tv_gguf_rows_of_array, values);
    assert_int_equal(tv_gguf_writer_save(w, "large.gguf", NULL), TV_OK);
    tv_gguf_writer_free(w);
    assert_int_equal(tv_gguf_open("large.gguf", NULL, &g), TV_OK);
    assert_int_equal(tv_gguf_tensor_require(g, "t", COLUMNS, ROWS, NULL, &t), TV_OK);
    uint64_t before = resident_file_bytes();
    for (unsigned pass = 0; pass < 3; pass++) {
        for (uint64_t i = 0; i < ROWS; i++) {
            uint64_t r = pass == 1 ? ROWS - 1 - i : i;
            assert_int_equal(tv_gguf_row_f32(t, r, row), TV_OK);
            assert_memory_equal(row, values + r * COLUMNS, sizeof row);
        }
        if (pass == 0)
            assert_true(resident_file_bytes() < before + 4 * MEGABYTE);
    }
    tv_gguf_free(g);
    free(values);
    remove("large.gguf");
}

static void test_writer_rejects_values(void **state)
{
    (void)state;
    static float values[64] = {[40] = INFINITY};
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_gguf_writer *w = tv_gguf_writer_new();
    tv_gguf_writer_tensor(w, "x", TV_GGUF_Q8_0, (const uint64_t[]){32, 2}, 2, tv_gguf_rows_of_array, values);
    assert_int_equal(tv_gguf_writer_save(w, "c.gguf", &sink), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-L010");
    assert_non_null(strstr(log.at[0].message, "'x', row 1"));
    assert_int_equal(access("c.gguf", F_OK), -1); /* no temporary file is left */
    tv_gguf_writer_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_huge_numbers),
        cmocka_unit_test(test_invalid_files),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_quantized),
        cmocka_unit_test(test_values_that_do_not_fit),
        cmocka_unit_test(test_writer_reproduces_the_file),
        cmocka_unit_test(test_writer),
        cmocka_unit_test(test_writer_rejects_values),
        cmocka_unit_test(test_pages_are_dropped),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
