/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a tokenizer: made by tokenizer.c, used by encode.c. */
#ifndef TV_IMPORT_VOCABULARY_H
#define TV_IMPORT_VOCABULARY_H

#include "base/arena.h"
#include "import/tokenizer.h"

#define TV_LOWER_BLOCK "\xE2\x96\x81" /* U+2581, SentencePiece's space */

typedef struct tv_piece {
    tv_sv text;   /* as the file writes it */
    tv_sv bytes;  /* gpt2: the bytes that it stands for; llama: as `text` */
    float score;  /* never NaN */
    uint8_t type; /* a tv_token_type */
    bool matches; /* may be made from text */
} tv_piece;

/* left and right, joined, are `joined`. Lower ranks come first. */
typedef struct tv_merge {
    int32_t left, right, joined;
    uint32_t rank;
} tv_merge;

struct tv_tokenizer {
    tv_arena arena;
    bool gpt2, space_prefix, adds_bos;
    tv_piece *pieces;
    int32_t count, bos, eos, unk;
    int32_t *sorted; /* ids of the pieces that match: by length, then bytes; no two are equal */
    size_t sorted_count;
    tv_merge *merges; /* by left, then right; no two are equal */
    size_t merge_count;
    int32_t byte_ids[256]; /* llama: <0xNN>; gpt2: the piece of one byte; -1: none */
};

/* The id of the piece with these bytes; -1: none. */
int32_t tv_vocabulary_find(const tv_tokenizer *tokenizer, tv_sv bytes);

/* The merge of two pieces; NULL: none. */
const tv_merge *tv_vocabulary_merge(const tv_tokenizer *tokenizer, int32_t left, int32_t right);

#endif
