/* SPDX-License-Identifier: Apache-2.0 */
/* Representation of a tokenizer: built by tokenizer.c, read by encode.c. */
#ifndef TV_IMPORT_VOCABULARY_H
#define TV_IMPORT_VOCABULARY_H

#include "base/arena.h"
#include "base/sv.h"

#define TV_LOWER_BLOCK "\xE2\x96\x81" /* U+2581, SentencePiece's space */

typedef struct tv_piece {
    tv_sv text;   /* as in the file */
    tv_sv bytes;  /* gpt2: the bytes it represents; llama: same as `text` */
    float score;  /* never NaN */
    uint8_t type; /* a tv_token_type */
    bool matches; /* can be made from text */
} tv_piece;

/* `left` and `right` merge to `merged`; lower ranks first. */
typedef struct tv_merge {
    int32_t left, right, merged;
    uint32_t rank;
} tv_merge;

typedef struct tv_tokenizer tv_tokenizer;

struct tv_tokenizer {
    tv_arena arena;
    bool gpt2, space_prefix, adds_bos;
    tv_piece *pieces;
    int32_t count, bos, eos, unk;
    int32_t *sorted; /* ids of matching pieces by length, then bytes; unique */
    size_t sorted_count;
    tv_merge *merges; /* by left, then right; unique */
    size_t merge_count;
    int32_t byte_ids[256]; /* llama: <0xNN>; gpt2: the one-byte piece; -1: none */
};

/* The id of the piece with these bytes, or -1. */
int32_t tv_vocabulary_find(const tv_tokenizer *tokenizer, tv_sv bytes);

/* The merge of two pieces, or NULL. */
const tv_merge *tv_vocabulary_merge(const tv_tokenizer *tokenizer, int32_t left, int32_t right);

#endif
