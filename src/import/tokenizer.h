/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers: text to tokens and back, as described by a model file.
 *
 * Two models, selected by `tokenizer.ggml.model`:
 * - llama: SentencePiece BPE. Spaces become U+2581, and one is prepended (`add_space_prefix`, default true). Adjacent
 *   symbols whose concatenation is a piece are merged, highest score first, leftmost on ties. Symbols that are no piece
 *   become byte tokens <0xNN>, or the unknown token.
 * - gpt2: byte-level BPE. Within each word (pretokenizer.h), adjacent symbols are merged, lowest merge rank first,
 *   leftmost on ties. Pieces are written in GPT-2's characters for bytes.
 *
 * Before either, user-defined pieces are found in the text, the longest first, and on request control and unknown ones,
 * so that a chat template can contain them. Each part between them is encoded by itself.
 *
 * The vocabulary is untrusted: the first of equal pieces counts, empty pieces never match, a NaN score counts as minus
 * infinity. Tokens of type control, unknown, unused and byte are never made by merging. A tokenizer is immutable and
 * may be used by several threads. */
#ifndef TV_IMPORT_TOKENIZER_H
#define TV_IMPORT_TOKENIZER_H

#include "import/gguf.h"
#include "import/token_type.h"

enum { TV_TOKENS_MAX = 1 << 24, TV_TOKENIZER_TEXT_MAX = 1 << 28 }; /* tokens of a vocabulary; bytes of a text */

typedef struct tv_tokenizer tv_tokenizer;

/* Builds the tokenizer of `gguf`, which may be freed afterwards. The caller frees it with tv_tokenizer_free.
 * TV_ERR_INPUT when the file has no tokenizer, one of an unknown model or pre-tokenizer, or inconsistent lists. Warns
 * about a missing `tokenizer.ggml.pre`, merges of unknown pieces (they never apply), and bytes without a token. */
tv_status tv_tokenizer_new(const tv_gguf *gguf, const tv_diag_sink *sink, tv_tokenizer **out);
void tv_tokenizer_free(tv_tokenizer *tokenizer); /* NULL is allowed */

enum {
    TV_ENCODE_BOS = 1,     /* prepend the BOS token if the vocabulary has one */
    TV_ENCODE_EOS = 2,     /* append the EOS token if the vocabulary has one */
    TV_ENCODE_SPECIAL = 4, /* find control and unknown tokens in the text */
};

/* Encodes `len` arbitrary bytes in O(len log len). `flags` is a sum of TV_ENCODE_*. The caller frees *ids, which is not
 * NULL even when *count is 0. A byte with neither a token nor an unknown token is omitted.
 * TV_ERR_INPUT: more than TV_TOKENIZER_TEXT_MAX bytes; TV_ERR_MEMORY. */
tv_status tv_tokenizer_encode(const tv_tokenizer *tokenizer, const char *text, size_t len, unsigned flags,
                              int32_t **ids, size_t *count);

/* Appends the text of token `id`. `previous` is the preceding token, or -1 at the start of a text: there, and after
 * BOS, the leading space of a llama piece is dropped. Control and unused tokens and ids outside the vocabulary produce
 * nothing; the unknown token produces U+FFFD. A character may span several tokens. */
void tv_tokenizer_decode(const tv_tokenizer *tokenizer, int32_t previous, int32_t id, tv_buf *buf);

/* Number of tokens; special tokens, or -1; whether the model expects BOS before a text, EOS after it. */
int32_t tv_tokenizer_size(const tv_tokenizer *tokenizer);
int32_t tv_tokenizer_bos(const tv_tokenizer *tokenizer);
int32_t tv_tokenizer_eos(const tv_tokenizer *tokenizer);
int32_t tv_tokenizer_unk(const tv_tokenizer *tokenizer);
bool tv_tokenizer_adds_bos(const tv_tokenizer *tokenizer);
bool tv_tokenizer_adds_eos(const tv_tokenizer *tokenizer);

/* True for a token that ends a generation: EOS, the end of a turn or of a message, and other tokens known by name. */
bool tv_tokenizer_ends(const tv_tokenizer *tokenizer, int32_t id);

/* The piece as written in the file, or an empty view outside the vocabulary; lives as long as the tokenizer. */
tv_sv tv_tokenizer_piece(const tv_tokenizer *tokenizer, int32_t id);
tv_token_type tv_tokenizer_type(const tv_tokenizer *tokenizer, int32_t id);

#endif
