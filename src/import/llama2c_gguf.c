/* SPDX-License-Identifier: Apache-2.0 */
/* Converts llama2.c checkpoints and vocabularies to GGUF and back. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "import/llama2c.h"
#include "import/tokenizer.h"
#include "num/float.h"

static const float EPSILON = 1e-5f, ROPE_BASE = 10000.0f; /* fixed in llama2.c */

#define LOWER_BLOCK "\xE2\x96\x81" /* U+2581, the space of SentencePiece */

enum { NAME_BYTES = 64 };

static const char *tensor_name(tv_llama2c_tensor tensor, uint32_t layer, char name[NAME_BYTES])
{
    static const char *const names[TV_LLAMA2C_TENSORS] = {
        [TV_LLAMA2C_TOKEN_EMBEDDING] = "token_embd.weight",
        [TV_LLAMA2C_RMS_ATT] = "attn_norm",
        [TV_LLAMA2C_WQ] = "attn_q",
        [TV_LLAMA2C_WK] = "attn_k",
        [TV_LLAMA2C_WV] = "attn_v",
        [TV_LLAMA2C_WO] = "attn_output",
        [TV_LLAMA2C_RMS_FFN] = "ffn_norm",
        [TV_LLAMA2C_W1] = "ffn_gate",
        [TV_LLAMA2C_W2] = "ffn_down",
        [TV_LLAMA2C_W3] = "ffn_up",
        [TV_LLAMA2C_RMS_FINAL] = "output_norm.weight",
        [TV_LLAMA2C_WCLS] = "output.weight",
    };
    bool once = tensor == TV_LLAMA2C_TOKEN_EMBEDDING || tensor == TV_LLAMA2C_RMS_FINAL || tensor == TV_LLAMA2C_WCLS;
    if (once)
        snprintf(name, NAME_BYTES, "%s", names[tensor]);
    else
        snprintf(name, NAME_BYTES, "blk.%" PRIu32 ".%s.weight", layer, names[tensor]);
    return name;
}

/* ---- tokenizer.bin ---- */

/* The vocabulary as the arrays that GGUF stores, in the arena. */
typedef struct vocabulary {
    tv_arena arena;
    tv_sv *pieces;
    float *scores;
    int32_t *types;
    uint32_t count;
} vocabulary;

/* Special tokens of llama2.c: unknown, BOS, EOS. */
enum { UNKNOWN, BEGIN, END };
static const char *const llama2c_specials[] = {[UNKNOWN] = "<unk>", [BEGIN] = "\n<s>\n", [END] = "\n</s>\n"};
static const char *const gguf_specials[] = {[UNKNOWN] = "<unk>", [BEGIN] = "<s>", [END] = "</s>"};

/* Replaces every `from` in `text` by `to`; the result lives in `scratch`. */
static tv_sv replace_all(tv_sv text, const char *from, const char *to, tv_buf *scratch)
{
    size_t n = strlen(from);
    scratch->len = 0;
    for (size_t i = 0; i < text.len;) {
        if (text.len - i >= n && memcmp(text.ptr + i, from, n) == 0) {
            tv_buf_str(scratch, to);
            i += n;
        } else {
            tv_buf_append(scratch, text.ptr + i++, 1);
        }
    }
    return (tv_sv){tv_buf_cstr(scratch), scratch->len};
}

static int32_t token_type(uint32_t id, tv_sv text)
{
    static const char digits[] = "0123456789ABCDEF";
    if (id == UNKNOWN)
        return TV_TOKEN_UNKNOWN;
    if (id == BEGIN || id == END)
        return TV_TOKEN_CONTROL;
    bool byte = text.len == 6 && memcmp(text.ptr, "<0x", 3) == 0 && memchr(digits, text.ptr[3], 16) &&
                memchr(digits, text.ptr[4], 16) && text.ptr[5] == '>';
    return byte ? TV_TOKEN_BYTE : TV_TOKEN_NORMAL;
}

static tv_status reject_tokenizer(const char *path, const tv_diag_sink *sink, const char *what)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(CHECKPOINT), "use the tokenizer.bin that belongs to the checkpoint",
                   "'%s': %s", path, what);
}

static tv_status parse_vocabulary(const char *path, const tv_input *input, vocabulary *v, const tv_diag_sink *sink)
{
    tv_buf scratch = {0};
    size_t at = 4; /* skip the length of the longest token */
    tv_status status = TV_OK;
    for (uint32_t id = 0; status == TV_OK && id < v->count; id++) {
        uint32_t length = 0;
        if (input->size < at || input->size - at < 8 ||
            (length = tv_load_le32(input->data + at + 4)) > input->size - at - 8) {
            status = reject_tokenizer(path, sink, "it has fewer tokens than the checkpoint");
            break;
        }
        tv_sv text = {(const char *)input->data + at + 8, length};
        tv_sv piece = replace_all(text, " ", LOWER_BLOCK, &scratch);
        if (id <= END && tv_sv_is(text, llama2c_specials[id]))
            piece = tv_sv_of(gguf_specials[id]);
        char *copy = scratch.failed ? NULL : tv_arena_str(&v->arena, piece);
        if (!copy) {
            status = tv_fail_memory(sink);
            break;
        }
        v->pieces[id] = (tv_sv){copy, piece.len};
        v->scores[id] = tv_f32_of_bits(tv_load_le32(input->data + at));
        v->types[id] = token_type(id, piece);
        at += 8 + (size_t)length;
    }
    tv_buf_fini(&scratch);
    if (status == TV_OK && at != input->size)
        return reject_tokenizer(path, sink, "it has more tokens than the checkpoint");
    return status;
}

static tv_status read_vocabulary(const char *path, uint32_t count, vocabulary *v, const tv_diag_sink *sink)
{
    tv_input input;
    v->count = count;
    v->pieces = tv_arena_alloc(&v->arena, (size_t)count * sizeof *v->pieces);
    v->scores = tv_arena_alloc(&v->arena, (size_t)count * sizeof *v->scores);
    v->types = tv_arena_alloc(&v->arena, (size_t)count * sizeof *v->types);
    if (!v->pieces || !v->scores || !v->types)
        return tv_fail_memory(sink);
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = parse_vocabulary(path, &input, v, sink);
    tv_input_close(&input);
    return status;
}

static void add_vocabulary(tv_gguf_writer *w, const vocabulary *v)
{
    tv_gguf_writer_string(w, "tokenizer.ggml.model", tv_sv_of("llama"));
    tv_gguf_writer_strings(w, "tokenizer.ggml.tokens", v->pieces, v->count);
    tv_gguf_writer_f32s(w, "tokenizer.ggml.scores", v->scores, v->count);
    tv_gguf_writer_i32s(w, "tokenizer.ggml.token_type", v->types, v->count);
    tv_gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", UNKNOWN);
    if (v->count > BEGIN)
        tv_gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", BEGIN);
    if (v->count > END)
        tv_gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", END);
    tv_gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
    tv_gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix", true);
}

/* ---- To GGUF ---- */

typedef struct source {
    const tv_llama2c *checkpoint;
    tv_llama2c_tensor tensor;
    uint32_t layer;
} source;

static tv_status read_checkpoint_row(void *user, uint64_t row, uint64_t length, float *out)
{
    const source *s = user;
    (void)length;
    tv_llama2c_row(s->checkpoint, s->tensor, s->layer, row, out);
    return TV_OK;
}

static void add_metadata(tv_gguf_writer *w, const tv_llama2c_header *s)
{
    tv_gguf_writer_string(w, "general.architecture", tv_sv_of("llama"));
    tv_gguf_writer_u32(w, "llama.context_length", s->seq_len);
    tv_gguf_writer_u32(w, "llama.embedding_length", s->dim);
    tv_gguf_writer_u32(w, "llama.block_count", s->layers);
    tv_gguf_writer_u32(w, "llama.feed_forward_length", s->hidden_dim);
    tv_gguf_writer_u32(w, "llama.rope.dimension_count", s->dim / s->heads);
    tv_gguf_writer_f32(w, "llama.rope.freq_base", ROPE_BASE);
    tv_gguf_writer_u32(w, "llama.attention.head_count", s->heads);
    tv_gguf_writer_u32(w, "llama.attention.head_count_kv", s->kv_heads);
    tv_gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", EPSILON);
    tv_gguf_writer_u32(w, "llama.vocab_size", s->vocab);
}

/* `sources` has one element per tensor, which must live until the writer is saved. */
static void add_tensors(tv_gguf_writer *w, const tv_llama2c *c, tv_gguf_type type, source *sources)
{
    for (unsigned tensor = 0; tensor < TV_LLAMA2C_TENSORS; tensor++) {
        uint64_t dims[2];
        uint32_t layers;
        tv_llama2c_tensor_dims(tv_llama2c_header_of(c), tensor, &dims[0], &dims[1], &layers);
        bool vector = tensor == TV_LLAMA2C_RMS_ATT || tensor == TV_LLAMA2C_RMS_FFN || tensor == TV_LLAMA2C_RMS_FINAL;
        tv_gguf_type stored = vector ? TV_GGUF_F32 : dims[0] % tv_gguf_type_block(type) == 0 ? type : TV_GGUF_F16;
        for (uint32_t layer = 0; layer < layers; layer++) {
            char name[NAME_BYTES];
            *sources = (source){c, tensor, layer};
            tv_gguf_writer_tensor(w, tensor_name(tensor, layer, name), stored, dims, vector ? 1 : 2,
                                  read_checkpoint_row, sources++);
        }
    }
}

tv_status tv_llama2c_to_gguf(const char *checkpoint, const char *tokenizer, const char *out, tv_gguf_type type,
                             const tv_diag_sink *sink)
{
    tv_llama2c *c = NULL;
    vocabulary v = {0};
    TV_TRY(tv_llama2c_open(checkpoint, sink, &c));
    const tv_llama2c_header *header = tv_llama2c_header_of(c);
    source *sources = malloc(((size_t)header->layers + 1) * TV_LLAMA2C_TENSORS * sizeof *sources);
    tv_gguf_writer *w = tv_gguf_writer_new();
    tv_status status = sources && w ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK && tokenizer)
        status = read_vocabulary(tokenizer, header->vocab, &v, sink);
    if (status == TV_OK) {
        add_metadata(w, header);
        if (tokenizer)
            add_vocabulary(w, &v);
        add_tensors(w, c, type, sources);
        status = tv_gguf_writer_save(w, out, sink);
    }
    tv_gguf_writer_free(w);
    free(sources);
    tv_arena_fini(&v.arena);
    tv_llama2c_free(c);
    return status;
}

/* ---- From GGUF ---- */

typedef struct conversion {
    const char *path;
    const tv_gguf *gguf;
    const tv_diag_sink *sink;
    tv_llama2c_header header;
    const tv_gguf_tensor **tensors; /* [tensor][layer] */
} conversion;

static tv_status reject_model(const conversion *m, const char *what)
{
    return tv_fail(m->sink, TV_ERR_INPUT, TV_LLM_CODE(CONVERT), NULL, "'%s' cannot become a llama2.c checkpoint: %s",
                   m->path, what);
}

static tv_status read_key(const conversion *m, const char *key, uint64_t fallback, uint32_t *out)
{
    uint64_t value = tv_gguf_u64(m->gguf, key, fallback);
    if (value == 0 || value > INT32_MAX)
        return tv_fail(m->sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), NULL,
                       "'%s': the key '%s' is missing, or is not a number from 1 to 2147483647", m->path, key);
    *out = (uint32_t)value;
    return TV_OK;
}

static tv_status read_header(conversion *m)
{
    tv_llama2c_header *s = &m->header;
    const tv_gguf_tensor *embedding = tv_gguf_tensor_find(m->gguf, "token_embd.weight");
    if (!tv_sv_is(tv_gguf_string(m->gguf, "general.architecture", tv_sv_of("")), "llama"))
        return reject_model(m, "its architecture is not llama");
    TV_TRY(read_key(m, "llama.embedding_length", 0, &s->dim));
    TV_TRY(read_key(m, "llama.feed_forward_length", 0, &s->hidden_dim));
    TV_TRY(read_key(m, "llama.block_count", 0, &s->layers));
    TV_TRY(read_key(m, "llama.attention.head_count", 0, &s->heads));
    TV_TRY(read_key(m, "llama.attention.head_count_kv", s->heads, &s->kv_heads));
    TV_TRY(read_key(m, "llama.context_length", 0, &s->seq_len));
    if (!embedding)
        return reject_model(m, "it has no tensor 'token_embd.weight'");
    if (embedding->dims[1] > TV_LLAMA2C_SIDE_MAX || s->layers > TV_LLAMA2C_LAYERS_MAX || s->dim % s->heads != 0)
        return reject_model(m, "it has too many tokens or layers, or heads that do not divide the embedding");
    s->vocab = (uint32_t)embedding->dims[1];
    s->tied = !tv_gguf_tensor_find(m->gguf, "output.weight");
    uint64_t head = s->dim / s->heads;
    if (tv_gguf_u64(m->gguf, "llama.rope.dimension_count", head) != head ||
        tv_gguf_u64(m->gguf, "llama.attention.key_length", head) != head ||
        tv_gguf_u64(m->gguf, "llama.attention.value_length", head) != head)
        return reject_model(m, "the size of a head is not the embedding divided by the heads");
    if (tv_gguf_f32(m->gguf, "llama.rope.freq_base", ROPE_BASE) != ROPE_BASE ||
        !tv_sv_is(tv_gguf_string(m->gguf, "llama.rope.scaling.type", tv_sv_of("none")), "none"))
        return reject_model(m, "the base of its rotation is not 10000, or the rotation is scaled");
    if (tv_gguf_f32(m->gguf, "llama.attention.layer_norm_rms_epsilon", EPSILON) != EPSILON)
        return reject_model(m, "the epsilon of its norms is not 0.00001");
    return TV_OK;
}

static tv_status find_tensors(conversion *m)
{
    uint64_t found = 0;
    for (unsigned tensor = 0; tensor < TV_LLAMA2C_TENSORS; tensor++) {
        uint64_t columns, rows;
        uint32_t layers;
        tv_llama2c_tensor_dims(&m->header, tensor, &columns, &rows, &layers);
        for (uint32_t layer = 0; layer < layers; layer++, found++) {
            char name[NAME_BYTES];
            TV_TRY(tv_gguf_tensor_require(m->gguf, tensor_name(tensor, layer, name), columns, rows, m->sink,
                                          &m->tensors[(size_t)tensor * m->header.layers + layer]));
        }
    }
    return found == tv_gguf_tensor_count(m->gguf) ? TV_OK
                                                  : reject_model(m, "it has tensors that llama2.c does not support");
}

static tv_status read_model_row(void *user, tv_llama2c_tensor tensor, uint32_t layer, uint64_t row, float *out)
{
    const conversion *m = user;
    return tv_gguf_row_f32(m->tensors[(size_t)tensor * m->header.layers + layer], row, out);
}

/* Appends everything but the first four bytes, the length of the longest token, which is returned in *longest. */
static void append_tokens(const tv_gguf_list *tokens, const tv_gguf_list *scores, tv_buf *out, uint32_t *longest)
{
    tv_buf scratch = {0};
    for (uint64_t id = 0; id < tokens->count; id++) {
        tv_sv text = tokens->strings[id];
        tv_sv token = replace_all(text, LOWER_BLOCK, " ", &scratch);
        if ((id == BEGIN || id == END) && tv_sv_is(text, gguf_specials[id]))
            token = tv_sv_of(llama2c_specials[id]);
        tv_buf_le(out, tv_f32_bits(tv_gguf_list_f32(scores, id)), 4);
        tv_buf_le(out, token.len, 4);
        tv_buf_append(out, token.ptr, token.len);
        *longest = token.len > *longest ? (uint32_t)token.len : *longest;
    }
    out->failed |= scratch.failed;
    tv_buf_fini(&scratch);
}

static tv_status write_vocabulary(const conversion *m, const char *path)
{
    tv_gguf_list tokens, scores;
    if (!tv_sv_is(tv_gguf_string(m->gguf, "tokenizer.ggml.model", tv_sv_of("")), "llama"))
        return reject_model(m, "its tokenizer is not of the kind 'llama'");
    if (!tv_gguf_array(m->gguf, "tokenizer.ggml.tokens", &tokens) ||
        !tv_gguf_array(m->gguf, "tokenizer.ggml.scores", &scores) || tokens.kind != TV_GGUF_KIND_STRING ||
        scores.kind != TV_GGUF_KIND_F32 || tokens.count != m->header.vocab || scores.count != tokens.count)
        return reject_model(m, "the number of its tokens or scores is not the number of rows of the embedding");
    tv_buf bytes = {0};
    tv_output *output = NULL;
    uint32_t longest = 0;
    tv_buf_le(&bytes, 0, 4);
    append_tokens(&tokens, &scores, &bytes, &longest);
    tv_status status = bytes.failed ? tv_fail_memory(m->sink) : tv_output_open(path, m->sink, &output);
    if (status == TV_OK) {
        tv_store_le(bytes.data, longest, 4);
        fwrite(bytes.data, 1, bytes.len, tv_output_stream(output));
        status = tv_output_commit(output, m->sink);
    }
    tv_buf_fini(&bytes);
    return status;
}

tv_status tv_llama2c_from_gguf(const char *path, const char *out, const char *tokenizer, unsigned version,
                               const tv_diag_sink *sink)
{
    tv_gguf *gguf = NULL;
    TV_TRY(tv_gguf_open(path, sink, &gguf));
    conversion m = {.path = path, .gguf = gguf, .sink = sink};
    tv_status status = read_header(&m);
    if (status == TV_OK) {
        m.tensors = calloc((size_t)m.header.layers * TV_LLAMA2C_TENSORS, sizeof(tv_gguf_tensor *));
        status = m.tensors ? find_tensors(&m) : tv_fail_memory(sink);
    }
    m.header.version = version;
    if (status == TV_OK)
        status = tv_llama2c_write(out, &m.header, read_model_row, &m, sink);
    if (status == TV_OK && tokenizer)
        status = write_vocabulary(&m, tokenizer);
    free((void *)m.tensors);
    tv_gguf_free(gguf);
    return status;
}
