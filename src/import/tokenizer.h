/* SPDX-License-Identifier: Apache-2.0 */
/* Text to tokens and back, as a model file describes it.
 *
 * Two kinds, by `tokenizer.ggml.model`:
 *   llama  SentencePiece BPE: spaces become U+2581, one stands before the text (`add_space_prefix`, true); of all
 * neighbours whose joined text is a piece, those with the highest score are joined, the leftmost first, until none is
 * left. What is no piece then becomes the bytes' pieces <0xNN>, or the unknown token. gpt2   byte BPE: words
 * (gpt2_split.h), in each the neighbours with the lowest rank among the merges are joined, the leftmost first. Pieces
 * are written with GPT-2's characters for bytes.
 *
 * The vocabulary may be hostile: of equal pieces the first counts, empty ones never match, a score that is not a number
 * counts as minus infinity. Tokens of the types control, unknown, unused and byte are never made from text;
 * user-defined ones are pieces like others. A tokenizer does not change; many threads may use one. */
#ifndef TV_IMPORT_TOKENIZER_H
#define TV_IMPORT_TOKENIZER_H

#include "import/gguf.h"

enum { TV_TOKENS_MAX = 1 << 24, TV_TOKENIZER_TEXT_MAX = 1 << 28 }; /* tokens of a vocabulary; bytes of a text */

typedef enum tv_token_type {
    TV_TOKEN_NORMAL = 1,
    TV_TOKEN_UNKNOWN = 2,
    TV_TOKEN_CONTROL = 3,
    TV_TOKEN_USER_DEFINED = 4,
    TV_TOKEN_UNUSED = 5,
    TV_TOKEN_BYTE = 6,
} tv_token_type;

typedef struct tv_tokenizer tv_tokenizer;

/* The tokenizer of `gguf`, which may be freed afterwards. The caller frees it with tv_tokenizer_free. TV_ERR_INPUT when
 * the file has none, one of an unknown kind, or lists that contradict each other. Warnings: a `tokenizer.ggml.pre`
 * other than GPT-2's, merges of pieces that are not in the vocabulary (they never apply), bytes that no token stands
 * for. */
tv_status tv_tokenizer_new(const tv_gguf *gguf, const tv_diag_sink *sink, tv_tokenizer **out);
void tv_tokenizer_free(tv_tokenizer *tokenizer); /* NULL: nothing */

/* The tokens of `text`, `len` bytes of any content; with `bos`, the begin token first if the vocabulary has one. Time
 * grows as len log len. `*ids`, `*count` of them, is the caller's to free; it is not NULL even when the count is 0. A
 * byte for which the vocabulary has neither piece nor unknown token is left out. TV_ERR_INPUT: more than
 * TV_TOKENIZER_TEXT_MAX bytes; TV_ERR_MEMORY. */
tv_status tv_tokenizer_encode(const tv_tokenizer *tokenizer, const char *text, size_t len, bool bos, int32_t **ids,
                              size_t *count);

/* Appends the bytes of token `id` as text. `previous` is the token before it, -1 at the start of a text: there and
 * after the begin token the space that stands before a llama text is dropped. Control and unused tokens and ids outside
 * the vocabulary have no bytes; the unknown token is U+FFFD. A character may be spread over several tokens. */
void tv_tokenizer_decode(const tv_tokenizer *tokenizer, int32_t previous, int32_t id, tv_buf *buf);

/* Number of tokens; the special ones, -1 where there is none; whether the model wants the begin token before a text. */
int32_t tv_tokenizer_size(const tv_tokenizer *tokenizer);
int32_t tv_tokenizer_bos(const tv_tokenizer *tokenizer);
int32_t tv_tokenizer_eos(const tv_tokenizer *tokenizer);
int32_t tv_tokenizer_unk(const tv_tokenizer *tokenizer);
bool tv_tokenizer_adds_bos(const tv_tokenizer *tokenizer);

/* The piece as the file writes it, or an empty view outside the vocabulary; lives as long as the tokenizer. */
tv_sv tv_tokenizer_piece(const tv_tokenizer *tokenizer, int32_t id);
tv_token_type tv_tokenizer_type(const tv_tokenizer *tokenizer, int32_t id);

#endif
