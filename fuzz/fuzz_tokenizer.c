/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabularies and texts from the input: an untrusted vocabulary must be rejected, or encode any text to tokens of the
 * vocabulary that, if it has all bytes, decode to the same text.
 *
 * The input: a byte of flags; for gpt2 the number of the pre-tokenizer; lines of the vocabulary up to an empty one (a
 * score byte, then the piece; for gpt2 a line with a space is a merge); then the text. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/pretokenizer.h"
#include "import/tokenizer.h"
#include "mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIECES = 4096, LLAMA_BYTES = 1, GPT2 = 2, NO_PREFIX = 4, TYPES = 8, SPECIAL = 16 };

typedef struct lists {
    tv_sv pieces[PIECES], merges[PIECES];
    float scores[PIECES];
    int32_t types[PIECES];
    size_t piece_count, merge_count;
    char bytes[256][8];
} lists;

static void add(lists *l, tv_sv piece, float score, int32_t type)
{
    l->pieces[l->piece_count] = piece;
    l->scores[l->piece_count] = score;
    l->types[l->piece_count++] = type;
}

static tv_sv take_line(const uint8_t **p, const uint8_t *end)
{
    const uint8_t *stop = memchr(*p, '\n', (size_t)(end - *p));
    tv_sv line = {(const char *)*p, (size_t)((stop ? stop : end) - *p)};
    *p = stop ? stop + 1 : end;
    return line;
}

/* Returns the start of the text. */
static const uint8_t *parse_lists(lists *l, unsigned flags, const uint8_t *p, const uint8_t *end)
{
    add(l, tv_sv_of("<unk>"), 0, 2);
    add(l, tv_sv_of("<s>"), 0, 3);
    add(l, tv_sv_of("</s>"), 0, 3);
    for (unsigned b = 0; (flags & LLAMA_BYTES) && b < 256; b++) {
        snprintf(l->bytes[b], sizeof l->bytes[b], "<0x%02X>", b);
        add(l, tv_sv_of(l->bytes[b]), 0, 6);
    }
    if (flags & LLAMA_BYTES)
        add(l, tv_sv_of("\xE2\x96\x81"), 0, 1);
    while (p < end && l->piece_count < PIECES && l->merge_count < PIECES) {
        tv_sv line = take_line(&p, end);
        if (line.len == 0)
            break;
        if ((flags & GPT2) && line.len > 1 && memchr(line.ptr + 1, ' ', line.len - 1)) {
            l->merges[l->merge_count++] = line;
            continue;
        }
        uint8_t score = (uint8_t)line.ptr[0];
        tv_sv piece = flags & GPT2 ? line : (tv_sv){line.ptr + 1, line.len - 1};
        add(l, piece, score == 0xFF ? NAN : (float)(int8_t)score, flags & TYPES ? score % 8 : 1);
    }
    return p;
}

static void put_string(tv_buf *buf, tv_sv text)
{
    tv_buf_le(buf, text.len, 8);
    tv_buf_append(buf, text.ptr, text.len);
}

static void put_key(tv_buf *buf, const char *key, tv_gguf_kind kind)
{
    put_string(buf, tv_sv_of(key));
    tv_buf_le(buf, kind, 4);
}

static void put_array(tv_buf *buf, const char *key, tv_gguf_kind kind, size_t count)
{
    put_key(buf, key, TV_GGUF_KIND_ARRAY);
    tv_buf_le(buf, kind, 4);
    tv_buf_le(buf, count, 8);
}

/* Name `number` of the list of pre-tokenizers, counted around. */
static tv_sv pre_name(unsigned number)
{
    static tv_buf names;
    if (names.len == 0)
        tv_pretokenizer_names(&names);
    const char *p = tv_buf_cstr(&names), *end = strchr(p, ',');
    for (; number > 0; number--, end = strchr(p, ','))
        p = end ? end + 2 : tv_buf_cstr(&names);
    return (tv_sv){p, end ? (size_t)(end - p) : strlen(p)};
}

/* Builds a GGUF file without tensors. */
static tv_gguf *build_model(const lists *l, unsigned flags, unsigned pre)
{
    tv_gguf *gguf = NULL;
    tv_buf file = {0};
    tv_buf_str(&file, "GGUF");
    tv_buf_le(&file, 3, 4);
    tv_buf_le(&file, 0, 8);
    tv_buf_le(&file, 7, 8);
    put_key(&file, "tokenizer.ggml.model", TV_GGUF_KIND_STRING);
    put_string(&file, tv_sv_of(flags & GPT2 ? "gpt2" : "llama"));
    put_key(&file, "tokenizer.ggml.pre", TV_GGUF_KIND_STRING);
    put_string(&file, pre_name(pre));
    put_key(&file, "tokenizer.ggml.add_space_prefix", TV_GGUF_KIND_BOOL);
    tv_buf_le(&file, !(flags & NO_PREFIX), 1);
    put_array(&file, "tokenizer.ggml.tokens", TV_GGUF_KIND_STRING, l->piece_count);
    for (size_t i = 0; i < l->piece_count; i++)
        put_string(&file, l->pieces[i]);
    put_array(&file, "tokenizer.ggml.merges", TV_GGUF_KIND_STRING, l->merge_count);
    for (size_t i = 0; i < l->merge_count; i++)
        put_string(&file, l->merges[i]);
    put_array(&file, "tokenizer.ggml.scores", TV_GGUF_KIND_F32, l->piece_count);
    tv_buf_append(&file, l->scores, l->piece_count * sizeof l->scores[0]);
    put_array(&file, "tokenizer.ggml.token_type", TV_GGUF_KIND_I32, l->piece_count);
    tv_buf_append(&file, l->types, l->piece_count * sizeof l->types[0]);
    size_t size = file.len;
    tv_input input = {.data = (const uint8_t *)tv_buf_take(&file), .size = size};
    if (!input.data || tv_gguf_read("fuzz.gguf", &input, NULL, &gguf) != TV_OK)
        abort();
    return gguf;
}

static void check(const tv_tokenizer *t, unsigned flags, const char *text, size_t len)
{
    int32_t *ids;
    size_t count;
    tv_buf back = {0};
    if (tv_tokenizer_encode(t, text, len, TV_ENCODE_BOS | (flags & SPECIAL ? TV_ENCODE_SPECIAL : 0), &ids, &count) !=
        TV_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= tv_tokenizer_size(t))
            abort();
        tv_tokenizer_decode(t, i > 0 ? ids[i - 1] : -1, ids[i], &back);
    }
    /* Without the space prefix a leading space is kept; U+2581 in the text decodes to spaces. */
    bool restored =
        (flags & LLAMA_BYTES) && !(flags & (GPT2 | TYPES | SPECIAL)) && !memmem(text, len, "\xE2\x96\x81", 3);
    if (restored && !(back.len == len && (len == 0 || memcmp(back.data, text, len) == 0)))
        abort();
    tv_buf_fini(&back);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lists l;
    if (size == 0)
        return 0;
    memset(&l, 0, sizeof l);
    unsigned flags = data[0];
    const uint8_t *p = data + 1, *end = data + size;
    unsigned pre = (flags & GPT2) && p < end ? *p++ : 0;
    const uint8_t *text = parse_lists(&l, flags, p, end);
    tv_gguf *gguf = build_model(&l, flags, pre);
    tv_tokenizer *t = NULL;
    if (tv_tokenizer_new(gguf, NULL, &t) == TV_OK) {
        tv_gguf_free(gguf); /* the tokenizer does not need it */
        check(t, flags, (const char *)text, (size_t)(end - text));
        tv_tokenizer_free(t);
    } else {
        tv_gguf_free(gguf);
    }
    return 0;
}

/* Pieces, merges and the text are lines and words; the first byte has the flags. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const fuzz_keywords pieces = {{"\xE2\x96\x81", "\xC4\xA0", "\xC4\x8A", "\xE6\x97\xA5", "\xF0\x9F\x98\x80",
                                          "'s", "'ll", "12", " a", "a b", "\1ab", "<0x41>", "<s>", "\n\n", "\xC2\xA0",
                                          "\xCC\x81"},
                                         16};
    fuzz_random random = fuzz_random_of(seed);
    if (size < 2 || fuzz_below(&random, 16) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    return 1 + fuzz_mutate_lines(data + 1, size - 1, max_size - 1, &random, &pieces);
}
