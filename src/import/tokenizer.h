/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers: text to tokens and back, as described by a model file.
 *
 * Two models, selected by `tokenizer.ggml.model`:
 * - llama: SentencePiece BPE. Spaces become U+2581, and one is prepended (`add_space_prefix`, default true). Adjacent
 *   symbols whose concatenation is a piece are merged, highest score first, leftmost on ties. Symbols that are no piece
 *   become byte tokens <0xNN>, or the unknown token.
 * - gpt2: byte-level BPE. Within each word (gpt2_split.h), adjacent symbols are merged, lowest merge rank first,
 *   leftmost on ties. Pieces are written in GPT-2's characters for bytes.
 *
 * The vocabulary is untrusted: the first of equal pieces counts, empty pieces never match, a NaN score counts as minus
 * infinity. Tokens of type control, unknown, unused and byte are never made from text; user-defined ones are ordinary
 * pieces. A tokenizer is immutable and may be used by several threads. */
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

/* Builds the tokenizer of `gguf`, which may be freed afterwards. The caller frees it with tv_tokenizer_free.
 * TV_ERR_INPUT when the file has no tokenizer, one of an unknown model, or inconsistent lists. Warns about a
 * `tokenizer.ggml.pre` other than GPT-2's, merges of unknown pieces (they never apply), and bytes without a token. */
tv_status tv_tokenizer_new(const tv_gguf *gguf, const tv_diag_sink *sink, tv_tokenizer **out);
void tv_tokenizer_free(tv_tokenizer *tokenizer); /* NULL is allowed */

/* Encodes `len` arbitrary bytes in O(len log len). `bos` prepends the BOS token if the vocabulary has one. The caller
 * frees *ids, which is not NULL even when *count is 0. A byte with neither a token nor an unknown token is omitted.
 * TV_ERR_INPUT: more than TV_TOKENIZER_TEXT_MAX bytes; TV_ERR_MEMORY. */
tv_status tv_tokenizer_encode(const tv_tokenizer *tokenizer, const char *text, size_t len, bool bos, int32_t **ids,
                              size_t *count);

/* Appends the text of token `id`. `previous` is the preceding token, or -1 at the start of a text: there, and after
 * BOS, the leading space of a llama piece is dropped. Control and unused tokens and ids outside the vocabulary produce
 * nothing; the unknown token produces U+FFFD. A character may span several tokens. */
void tv_tokenizer_decode(const tv_tokenizer *tokenizer, int32_t previous, int32_t id, tv_buf *buf);

/* Number of tokens; special tokens, or -1; whether the model expects BOS before a text. */
int32_t tv_tokenizer_size(const tv_tokenizer *tokenizer);
int32_t tv_tokenizer_bos(const tv_tokenizer *tokenizer);
int32_t tv_tokenizer_eos(const tv_tokenizer *tokenizer);
int32_t tv_tokenizer_unk(const tv_tokenizer *tokenizer);
bool tv_tokenizer_adds_bos(const tv_tokenizer *tokenizer);

/* The piece as written in the file, or an empty view outside the vocabulary; lives as long as the tokenizer. */
tv_sv tv_tokenizer_piece(const tv_tokenizer *tokenizer, int32_t id);
tv_token_type tv_tokenizer_type(const tv_tokenizer *tokenizer, int32_t id);

#endif
