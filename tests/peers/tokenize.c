/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of texts, for comparisons with another tokenizer.
 *
 * usage: tokenize MODEL < TEXTS > TOKENS
 * TEXTS: records of flags (TV_ENCODE_*), number of bytes, bytes. TOKENS: for each, number of tokens, tokens. All
 * numbers have 32 bits, little endian. */
#include <stdio.h>
#include <stdlib.h>

#include "import/tokenizer.h"

static void print_message(void *user, const tv_diag *diag)
{
    (void)user;
    tv_diag_print(stderr, diag, 0);
}

static bool read_u32(uint32_t *out)
{
    uint8_t bytes[4];
    if (fread(bytes, 1, 4, stdin) != 4)
        return false;
    *out = tv_load_le32(bytes);
    return true;
}

static bool write_tokens(const int32_t *ids, size_t count)
{
    tv_buf out = {0};
    tv_buf_le(&out, count, 4);
    for (size_t i = 0; i < count; i++)
        tv_buf_le(&out, (uint32_t)ids[i], 4);
    bool done = !out.failed && fwrite(out.data, 1, out.len, stdout) == out.len;
    tv_buf_fini(&out);
    return done;
}

static bool tokenize_all(const tv_tokenizer *t)
{
    uint32_t flags, size;
    while (read_u32(&flags) && read_u32(&size)) {
        char *text = malloc((size_t)size + 1);
        int32_t *ids = NULL;
        size_t count = 0;
        bool done = text && fread(text, 1, size, stdin) == size &&
                    tv_tokenizer_encode(t, text, size, flags, &ids, &count) == TV_OK && write_tokens(ids, count);
        free(ids);
        free(text);
        if (!done)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    const tv_diag_sink sink = {.emit = print_message};
    tv_gguf *gguf = NULL;
    tv_tokenizer *t = NULL;
    if (argc != 2 || tv_gguf_open(argv[1], &sink, &gguf) != TV_OK)
        return 2;
    bool done = tv_tokenizer_new(gguf, &sink, &t) == TV_OK && tokenize_all(t);
    tv_tokenizer_free(t);
    tv_gguf_free(gguf);
    return done ? 0 : 1;
}
