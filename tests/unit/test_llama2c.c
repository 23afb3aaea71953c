/* SPDX-License-Identifier: Apache-2.0 */
/* llama2.c checkpoints and tokenizer.bin, built byte by byte in the format of llama2.c; conversion to GGUF and back;
 * damaged files. */
#include "unit.h"

#include <math.h>

#include "import/llama2c.h"
#include "import/tokenizer.h"
#include "model_files.h"
#include "num/float.h"

enum {
    DIM = 8,
    HIDDEN = 12,
    LAYERS = 2,
    HEADS = 2,
    KV_HEADS = 1,
    VOCAB = 6,
    SEQ = 5,
    HEAD = DIM / HEADS,
    KV = KV_HEADS * HEAD
};

static void append_floats(tv_buf *buf, unit_rng *rng, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tv_buf_le(buf, tv_f32_bits((float)((double)unit_next(rng) * 0x1p-63 - 1.0)), 4);
}

/* Version 0 in the order of llama2.c's run.c; returns the offset of the table of cosines. */
static size_t build_checkpoint(tv_buf *buf, bool tied)
{
    unit_rng rng = {5};
    const int header[] = {DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, tied ? VOCAB : -VOCAB, SEQ};
    for (size_t i = 0; i < TV_COUNTOF(header); i++)
        tv_buf_le(buf, (uint32_t)header[i], 4);
    append_floats(buf, &rng, VOCAB * DIM);
    append_floats(buf, &rng, LAYERS * (DIM + DIM * DIM + 2 * DIM * KV + DIM * DIM + DIM + 3 * DIM * HIDDEN));
    append_floats(buf, &rng, DIM);
    size_t tables = buf->len;
    append_floats(buf, &rng, SEQ * HEAD);
    if (!tied)
        append_floats(buf, &rng, VOCAB * DIM);
    return tables;
}

static void build_tokenizer(tv_buf *buf)
{
    static const char *const tokens[VOCAB] = {"<unk>", "\n<s>\n", "\n</s>\n", "<0x0A>", " a b", ""};
    tv_buf_le(buf, 6, 4);
    for (unsigned i = 0; i < VOCAB; i++) {
        tv_buf_le(buf, tv_f32_bits(-(float)i / 3), 4);
        tv_buf_le(buf, strlen(tokens[i]), 4);
        tv_buf_str(buf, tokens[i]);
    }
}

static void test_checkpoint_round_trip(void **state)
{
    (void)state;
    for (unsigned tied = 0; tied < 2; tied++) {
        tv_buf checkpoint = {0}, tokenizer = {0};
        size_t tables = build_checkpoint(&checkpoint, tied), n;
        build_tokenizer(&tokenizer);
        write_file("a.bin", checkpoint.data, checkpoint.len);
        write_file("a.tok", tokenizer.data, tokenizer.len);
        assert_int_equal(tv_llama2c_to_gguf("a.bin", "a.tok", "a.gguf", TV_GGUF_F32, NULL), TV_OK);
        assert_int_equal(tv_llama2c_from_gguf("a.gguf", "b.bin", "b.tok", 0, NULL), TV_OK);
        assert_same_file("a.tok", "b.tok");
        char *back = read_whole_file("b.bin", &n);
        assert_int_equal(n, checkpoint.len);
        const size_t end = tables + SEQ * HEAD * 4; /* cosines and sines are recomputed */
        assert_memory_equal(back, checkpoint.data, tables);
        assert_memory_equal(back + end, checkpoint.data + end, n - end);
        for (unsigned p = 0; p < SEQ; p++)
            for (unsigned i = 0; i < HEAD / 2; i++) {
                double angle = p / (i == 0 ? 1.0 : 100.0); /* 10000^(2 / 4) */
                float c = tv_f32_of_bits(tv_load_le32(back + tables + 4 * (p * (HEAD / 2) + i)));
                float s = tv_f32_of_bits(tv_load_le32(back + tables + 4 * ((SEQ + p) * (HEAD / 2) + i)));
                assert_true(fabs((double)c - cos(angle)) < 1e-7 && fabs((double)s - sin(angle)) < 1e-7);
            }
        free(back);
        assert_int_equal(tv_llama2c_to_gguf("b.bin", "b.tok", "b.gguf", TV_GGUF_F32, NULL), TV_OK);
        assert_same_file("a.gguf", "b.gguf");
        tv_buf_fini(&checkpoint);
        tv_buf_fini(&tokenizer);
    }
}

/* Names, dimensions, and the first value of each tensor by its offset in the checkpoint. */
static void test_checkpoint_contents(void **state)
{
    (void)state;
    tv_buf c = {0}, tokenizer = {0};
    build_checkpoint(&c, false);
    build_tokenizer(&tokenizer);
    write_file("a.bin", c.data, c.len);
    write_file("a.tok", tokenizer.data, tokenizer.len);
    assert_int_equal(tv_llama2c_to_gguf("a.bin", "a.tok", "a.gguf", TV_GGUF_F32, NULL), TV_OK);
    tv_gguf *g = NULL;
    assert_int_equal(tv_gguf_open("a.gguf", NULL, &g), TV_OK);
    enum { E = VOCAB * DIM, L = LAYERS };
    const struct {
        const char *name;
        uint64_t columns, rows;
        size_t at; /* in floats after the header; layer 1 for tensors of layers */
    } expected[] = {
        {"token_embd.weight", DIM, VOCAB, 0},
        {"blk.1.attn_norm.weight", DIM, 1, E + DIM},
        {"blk.1.attn_q.weight", DIM, DIM, E + L * DIM + DIM * DIM},
        {"blk.1.attn_k.weight", DIM, KV, E + L * (DIM + DIM * DIM) + DIM * KV},
        {"blk.1.attn_v.weight", DIM, KV, E + L * (DIM + DIM * DIM + DIM * KV) + DIM * KV},
        {"blk.1.attn_output.weight", DIM, DIM, E + L * (DIM + DIM * DIM + 2 * DIM * KV) + DIM * DIM},
        {"blk.1.ffn_norm.weight", DIM, 1, E + L * (DIM + 2 * DIM * DIM + 2 * DIM * KV) + DIM},
        {"blk.1.ffn_gate.weight", DIM, HIDDEN, E + L * (2 * DIM + 2 * DIM * DIM + 2 * DIM * KV) + DIM * HIDDEN},
        {"blk.1.ffn_down.weight", HIDDEN, DIM,
         E + L * (2 * DIM + 2 * DIM * DIM + 2 * DIM * KV + DIM * HIDDEN) + DIM * HIDDEN},
        {"blk.1.ffn_up.weight", DIM, HIDDEN,
         E + L * (2 * DIM + 2 * DIM * DIM + 2 * DIM * KV + 2 * DIM * HIDDEN) + DIM * HIDDEN},
        {"output_norm.weight", DIM, 1, E + L * (2 * DIM + 2 * DIM * DIM + 2 * DIM * KV + 3 * DIM * HIDDEN)},
        {"output.weight", DIM, VOCAB,
         E + L * (2 * DIM + 2 * DIM * DIM + 2 * DIM * KV + 3 * DIM * HIDDEN) + DIM + SEQ * HEAD},
    };
    for (size_t i = 0; i < TV_COUNTOF(expected); i++) {
        const tv_gguf_tensor *t = NULL;
        float row[HIDDEN];
        assert_int_equal(tv_gguf_tensor_require(g, expected[i].name, expected[i].columns, expected[i].rows, NULL, &t),
                         TV_OK);
        assert_int_equal(tv_gguf_row_f32(t, 0, row), TV_OK);
        if (tv_f32_bits(row[0]) != tv_load_le32(c.data + 28 + 4 * expected[i].at))
            fail_msg("%s begins elsewhere", expected[i].name);
    }
    assert_int_equal(tv_gguf_tensor_count(g), 9 * LAYERS + 3);
    assert_int_equal(tv_gguf_u64(g, "llama.attention.head_count_kv", 0), KV_HEADS);
    assert_int_equal(tv_gguf_u64(g, "llama.rope.dimension_count", 0), HEAD);
    assert_int_equal(tv_gguf_u64(g, "llama.context_length", 0), SEQ);
    assert_true(tv_gguf_f32(g, "llama.attention.layer_norm_rms_epsilon", 0) == 1e-5f);
    tv_tokenizer *t = NULL;
    assert_int_equal(tv_tokenizer_new(g, NULL, &t), TV_OK);
    assert_true(tv_sv_is(tv_tokenizer_piece(t, 1), "<s>") && tv_sv_is(tv_tokenizer_piece(t, 4), "\xE2\x96\x81"
                                                                                                "a\xE2\x96\x81"
                                                                                                "b"));
    assert_int_equal(tv_tokenizer_type(t, 3), TV_TOKEN_BYTE);
    tv_tokenizer_free(t);
    tv_gguf_free(g);
    tv_buf_fini(&c);
    tv_buf_fini(&tokenizer);
}

/* Version 2: norms, then for each matrix the integers, then the scales. */
static void build_checkpoint_2(tv_buf *buf)
{
    unit_rng rng = {6};
    const int fields[] = {DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ};
    static const struct {
        unsigned count, size;
    } matrices[] = {{1, VOCAB * DIM},       {LAYERS, DIM * DIM},    {LAYERS, DIM * KV},
                    {LAYERS, DIM * KV},     {LAYERS, DIM * DIM},    {LAYERS, DIM * HIDDEN},
                    {LAYERS, DIM * HIDDEN}, {LAYERS, DIM * HIDDEN}, {1, VOCAB * DIM}};
    tv_buf_str(buf, "24ka"); /* 0x616b3432, little endian */
    tv_buf_le(buf, 2, 4);
    for (size_t i = 0; i < TV_COUNTOF(fields); i++)
        tv_buf_le(buf, (uint32_t)fields[i], 4);
    tv_buf_le(buf, 0, 1); /* untied */
    tv_buf_le(buf, 4, 4); /* group size */
    tv_buf_fill(buf, 0, 256 - buf->len);
    append_floats(buf, &rng, 2 * LAYERS * DIM + DIM);
    for (size_t i = 0; i < TV_COUNTOF(matrices); i++)
        for (unsigned layer = 0; layer < matrices[i].count; layer++) {
            for (unsigned k = 0; k < matrices[i].size; k++) /* each group contains 127, as after quantization */
                tv_buf_le(buf, k % 4 == 0 ? 127 : unit_below(&rng, 255) - 127, 1);
            for (unsigned k = 0; k < matrices[i].size / 4; k++)
                tv_buf_le(buf, tv_f32_bits((float)(1 + unit_below(&rng, 1000)) / 1024),
                          4); /* few significant bits, so q * scale is exact */
        }
}

static void test_checkpoint_version_2(void **state)
{
    (void)state;
    tv_buf c = {0};
    build_checkpoint_2(&c);
    write_file("a.bin", c.data, c.len);
    tv_llama2c *checkpoint = NULL;
    assert_int_equal(tv_llama2c_open("a.bin", NULL, &checkpoint), TV_OK);
    const tv_llama2c_header *s = tv_llama2c_header_of(checkpoint);
    assert_true(s->version == 2 && s->group_size == 4 && !s->tied && s->vocab == VOCAB && s->seq_len == SEQ);
    float row[HIDDEN];
    const size_t embedding = 256 + 4 * (2 * LAYERS * DIM + DIM), scales = embedding + VOCAB * DIM;
    tv_llama2c_row(checkpoint, TV_LLAMA2C_TOKEN_EMBEDDING, 0, 2, row);
    for (unsigned i = 0; i < DIM; i++) {
        size_t at = 2 * DIM + i;
        assert_true(row[i] == (float)(int8_t)c.data[embedding + at] *
                                  tv_f32_of_bits(tv_load_le32(c.data + scales + 4 * (at / 4))));
    }
    tv_llama2c_row(checkpoint, TV_LLAMA2C_RMS_FFN, 1, 0, row);
    assert_int_equal(tv_f32_bits(row[0]), tv_load_le32(c.data + 256 + 4 * (3 * DIM)));
    tv_llama2c_free(checkpoint);
    /* Quantizing exact products restores them. The writer's group size is 8, which the file uses. */
    assert_int_equal(tv_llama2c_to_gguf("a.bin", NULL, "a.gguf", TV_GGUF_F32, NULL), TV_OK);
    assert_int_equal(tv_llama2c_from_gguf("a.gguf", "b.bin", NULL, 2, NULL), TV_OK);
    assert_int_equal(tv_llama2c_open("b.bin", NULL, &checkpoint), TV_OK);
    assert_int_equal(tv_llama2c_header_of(checkpoint)->group_size, 8);
    tv_llama2c *first = NULL;
    assert_int_equal(tv_llama2c_open("a.bin", NULL, &first), TV_OK);
    float other[HIDDEN];
    tv_llama2c_row(checkpoint, TV_LLAMA2C_W2, 1, DIM - 1, row);
    tv_llama2c_row(first, TV_LLAMA2C_W2, 1, DIM - 1, other);
    for (unsigned i = 0; i < HIDDEN; i++)
        assert_true(fabsf(row[i] - other[i]) <= 0.5001f); /* half a step: the maximum is 124 */
    tv_llama2c_free(first);
    tv_llama2c_free(checkpoint);
    tv_buf_fini(&c);
}

static tv_status copy_row(void *user, tv_llama2c_tensor tensor, uint32_t layer, uint64_t row, float *out)
{
    tv_llama2c_row(user, tensor, layer, row, out);
    return TV_OK;
}

/* With equal groups all bytes are restored. */
static void test_checkpoint_version_2_exact(void **state)
{
    (void)state;
    tv_buf c = {0};
    build_checkpoint_2(&c);
    write_file("a.bin", c.data, c.len);
    tv_llama2c *checkpoint = NULL;
    assert_int_equal(tv_llama2c_open("a.bin", NULL, &checkpoint), TV_OK);
    assert_int_equal(tv_llama2c_write("b.bin", tv_llama2c_header_of(checkpoint), copy_row, checkpoint, NULL), TV_OK);
    assert_same_file("a.bin", "b.bin");
    tv_llama2c_free(checkpoint);
    tv_buf_fini(&c);
}

static void test_checkpoint_damaged(void **state)
{
    (void)state;
    static const uint32_t huge[] = {0, 1, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1u << 24, 1u << 30};
    for (unsigned version = 0; version <= 2; version += 2) {
        tv_buf c = {0};
        version ? build_checkpoint_2(&c) : (void)build_checkpoint(&c, false);
        for (size_t size = 0; size < c.len + 2; size++) {
            uint8_t *copy = calloc(1, size + 1);
            memcpy(copy, c.data, size < c.len ? size : c.len);
            tv_input input = {.data = copy, .size = size};
            tv_llama2c *out = NULL;
            assert_int_equal(tv_llama2c_read("x", &input, NULL, &out), size == c.len ? TV_OK : TV_ERR_INPUT);
            tv_llama2c_free(out);
            if (input.data)
                tv_input_close(&input);
        }
        for (size_t at = 0; at < 44; at++)
            for (size_t k = 0; k < TV_COUNTOF(huge); k++) {
                uint8_t *copy = malloc(c.len);
                memcpy(copy, c.data, c.len);
                tv_store_le(copy + at, huge[k], 4);
                tv_input input = {.data = copy, .size = c.len};
                tv_llama2c *out = NULL;
                float row[4096];
                if (tv_llama2c_read("x", &input, NULL, &out) == TV_OK)
                    for (unsigned t = 0; t < TV_LLAMA2C_TENSORS; t++) {
                        uint64_t columns, rows;
                        uint32_t layers;
                        tv_llama2c_tensor_dims(tv_llama2c_header_of(out), t, &columns, &rows, &layers);
                        if (layers > 0 && columns <= 4096)
                            tv_llama2c_row(out, t, layers - 1, rows - 1, row);
                    }
                tv_llama2c_free(out);
                if (input.data)
                    tv_input_close(&input);
            }
        tv_buf_fini(&c);
    }
}

/* Implausible headers are rejected with the right problem, before any size is computed from them. */
static void test_checkpoint_headers(void **state)
{
    (void)state;
    static const struct {
        size_t at; /* offset of the 32-bit field in a version 2 header */
        uint32_t value;
        const char *code, *message;
    } rows[] = {
        {4, 1, "TV-L031", "version 1"},
        {4, 3, "TV-L031", "version 3"},
        {4, 0, "TV-L030", "header"},
        {8, 0, "TV-L030", "dim"},
        {12, 1u << 25, "TV-L030", "hidden_dim"},
        {16, 1025, "TV-L030", "layers"},
        {20, 3, "TV-L030", "heads"},
        {20, 8, "TV-L030", "even"},
        {24, 3, "TV-L030", "kv_heads"},
        {28, 0, "TV-L030", "vocab"},
        {32, UINT32_MAX, "TV-L030", "seq_len"},
        {37, 3, "TV-L030", "group"},
        {37, 0, "TV-L030", "group"},
        {28, VOCAB + 1, "TV-L030", "bytes"},
    };
    tv_buf c = {0};
    build_checkpoint_2(&c);
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        uint8_t *copy = malloc(c.len);
        assert_non_null(copy);
        memcpy(copy, c.data, c.len);
        tv_store_le(copy + rows[i].at, rows[i].value, 4);
        tv_input input = {.data = copy, .size = c.len};
        tv_llama2c *out = NULL;
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        assert_int_equal(tv_llama2c_read("x", &input, &sink, &out), TV_ERR_INPUT);
        if (strcmp(log.at[0].code, rows[i].code) != 0 || !strstr(log.at[0].message, rows[i].message))
            fail_msg("row %zu: %s %s", i, log.at[0].code, log.at[0].message);
        tv_input_close(&input);
    }
    tv_buf_fini(&c);
}

static void test_tokenizer_damaged(void **state)
{
    (void)state;
    tv_buf c = {0}, tokenizer = {0};
    build_checkpoint(&c, true);
    build_tokenizer(&tokenizer);
    write_file("a.bin", c.data, c.len);
    tv_buf_fill(&tokenizer, 0, 1);
    for (size_t size = 0; size <= tokenizer.len; size++) {
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        write_file("a.tok", tokenizer.data, size);
        tv_status status = tv_llama2c_to_gguf("a.bin", "a.tok", "c.gguf", TV_GGUF_F32, &sink);
        assert_int_equal(status, size == tokenizer.len - 1 ? TV_OK : TV_ERR_INPUT);
        if (status != TV_OK)
            assert_string_equal(log.at[0].code, "TV-L030");
    }
    tv_buf_fini(&c);
    tv_buf_fini(&tokenizer);
}

/* Models that llama2.c cannot represent. */
static void test_models_that_cannot_be_converted(void **state)
{
    (void)state;
    static const char *const keys[] = {"llama.rope.freq_base", "llama.attention.layer_norm_rms_epsilon",
                                       "llama.attention.head_count_kv", "extra"};
    static const char *const codes[] = {"TV-L032", "TV-L032", "TV-L006", "TV-L032"};
    static float zero[DIM];
    tv_buf c = {0};
    build_checkpoint(&c, true);
    write_file("a.bin", c.data, c.len);
    assert_int_equal(tv_llama2c_to_gguf("a.bin", NULL, "a.gguf", TV_GGUF_F32, NULL), TV_OK);
    for (size_t k = 0; k < TV_COUNTOF(keys); k++) {
        tv_gguf *g = NULL;
        assert_int_equal(tv_gguf_open("a.gguf", NULL, &g), TV_OK);
        tv_gguf_writer *w = tv_gguf_writer_new();
        for (uint64_t i = 0; i < tv_gguf_meta_count(g); i++) {
            const tv_gguf_meta *meta = tv_gguf_meta_at(g, i);
            if (!tv_sv_is(meta->key, keys[k]))
                tv_gguf_writer_meta(w, meta);
            else if (k < 2)
                tv_gguf_writer_f32(w, keys[k], 0.5f);
            else
                tv_gguf_writer_u32(w, keys[k], 0);
        }
        for (uint64_t i = 0; i < tv_gguf_tensor_count(g); i++)
            tv_gguf_writer_copy(w, tv_gguf_tensor_at(g, i));
        if (k == 3)
            tv_gguf_writer_tensor(w, "rope_freqs.weight", TV_GGUF_F32, (const uint64_t[]){DIM}, 1,
                                  tv_gguf_rows_of_array, zero);
        assert_int_equal(tv_gguf_writer_save(w, "b.gguf", NULL), TV_OK);
        tv_gguf_writer_free(w);
        tv_gguf_free(g);
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        assert_int_equal(tv_llama2c_from_gguf("b.gguf", "c.bin", NULL, 0, &sink), TV_ERR_INPUT);
        assert_string_equal(log.at[0].code, codes[k]);
    }
    tv_buf_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_round_trip), cmocka_unit_test(test_checkpoint_contents),
        cmocka_unit_test(test_checkpoint_version_2),  cmocka_unit_test(test_checkpoint_version_2_exact),
        cmocka_unit_test(test_checkpoint_damaged),    cmocka_unit_test(test_checkpoint_headers),
        cmocka_unit_test(test_tokenizer_damaged),     cmocka_unit_test(test_models_that_cannot_be_converted),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
