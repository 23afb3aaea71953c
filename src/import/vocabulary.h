/* SPDX-License-Identifier: Apache-2.0 */
/* Representation of a tokenizer: built by tokenizer.c and special.c, read by encode.c. */
#ifndef TV_IMPORT_VOCABULARY_H
#define TV_IMPORT_VOCABULARY_H

#include "base/arena.h"
#include "base/sv.h"
#include "import/pretokenizer.h"
#include "import/token_type.h"

#define TV_LOWER_BLOCK "\xE2\x96\x81" /* U+2581, SentencePiece's space */

typedef struct tv_piece {
    tv_sv text;   /* as in the file */
    tv_sv bytes;  /* gpt2: the bytes it represents; llama: same as `text` */
    float score;  /* never NaN */
    uint8_t type; /* a tv_token_type */
    bool matches; /* can be made by merging */
    bool ends;    /* ends a generation */
    bool strips;  /* removes the white space after it in the text */
} tv_piece;

/* `left` and `right` merge to `merged`; lower ranks first. */
typedef struct tv_merge {
    int32_t left, right, merged;
    uint32_t rank;
} tv_merge;

typedef struct tv_tokenizer tv_tokenizer;

struct tv_tokenizer {
    tv_arena arena;
    bool gpt2, space_prefix, adds_bos, adds_eos;
    const tv_pretokenizer *pre; /* of gpt2 */
    tv_piece *pieces;
    int32_t count, bos, eos, unk;
    int32_t *sorted; /* ids of matching pieces by length, then bytes; unique */
    size_t sorted_count;
    tv_merge *merges; /* by left, then right; unique */
    size_t merge_count;
    int32_t byte_ids[256]; /* llama: <0xNN>; gpt2: the one-byte piece; -1: none */
    int32_t *specials;     /* ids of the pieces that tv_special_split finds, by bytes; unique */
    size_t special_count;
};

enum { TV_SPECIAL_BYTES_MAX = 256 }; /* longer pieces are not found in texts */

/* The id of the piece with these bytes, or -1. */
int32_t tv_vocabulary_find(const tv_tokenizer *tokenizer, tv_sv bytes);

/* The merge of two pieces, or NULL. */
const tv_merge *tv_vocabulary_merge(const tv_tokenizer *tokenizer, int32_t left, int32_t right);

/* Sets what special.c needs of the pieces, whose types are read and whose special tokens are known: marks those that
 * end a generation as control tokens, and lists those that are found in texts. `model` is the name of the model. False:
 * out of memory. */
bool tv_special_init(tv_tokenizer *tokenizer, tv_sv model);

/* A part of a text: a piece that was found in it, or, with `id` -1, the text between two of them. */
typedef struct tv_fragment {
    size_t start, len;
    int32_t id;
} tv_fragment;

/* Finds user-defined pieces in `text`, and with `control` control and unknown ones: the longest first, then the lowest
 * id, then the leftmost. Sets *list, which the caller frees, to the parts of the text in order. False: out of
 * memory. */
bool tv_special_split(const tv_tokenizer *tokenizer, tv_sv text, bool control, tv_fragment **list, size_t *count);

#endif
