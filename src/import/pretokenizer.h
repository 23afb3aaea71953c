/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers: how a model with byte-level BPE splits a text into words, within which bytes are merged.
 *
 * A file names its pre-tokenizer in `tokenizer.ggml.pre`. Each is a list of passes (pre.def); a pass cuts every piece
 * of the previous one at the matches of a regular expression, whose first matching alternative is taken at each
 * position. Matches and what is between them are pieces. Passes are matchers in C, not an expression engine: none looks
 * behind, and all of them take time linear in the text, whatever it contains. */
#ifndef TV_IMPORT_PRETOKENIZER_H
#define TV_IMPORT_PRETOKENIZER_H

#include "base/buf.h"

typedef struct tv_split_pass tv_split_pass;

typedef struct tv_pretokenizer {
    const char *name;
    const tv_split_pass *passes;
    bool ignores_merges; /* a word that is a piece is that piece, whatever the merges produce */
    bool adds_bos;       /* BOS comes first unless the file says otherwise */
} tv_pretokenizer;

/* The pre-tokenizer `name`, a static object, or NULL. */
const tv_pretokenizer *tv_pretokenizer_find(tv_sv name);

/* Appends the names of all pre-tokenizers, separated by commas. */
void tv_pretokenizer_names(tv_buf *buf);

/* Calls `word` with each word of `text`, in order. The words are not empty, and their concatenation is the text. */
void tv_pretokenizer_split(const tv_pretokenizer *pre, tv_sv text, void (*word)(void *user, tv_sv word), void *user);

#endif
