/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of words that other code writes, without the detour of assembly text. */
#ifndef TV_PROGRAM_BUILD_H
#define TV_PROGRAM_BUILD_H

#include "program/program.h"

/* A program under construction. Zeroed but for `isa`, it is empty; what fails for lack of memory is told by
 * tv_builder_finish. */
typedef struct tv_builder {
    const tv_isa *isa;
    tv_buf words;                   /* little endian */
    tv_buf bytes, segments;         /* data, and tv_build_segment */
    tv_buf labels;                  /* tv_build_label */
    tv_buf streams[TV_STREAMS_MAX]; /* tv_descriptor */
    tv_arena arena;                 /* empty: for the program to come */
} tv_builder;

enum { TV_BUILD_LABEL = 16 };

typedef struct tv_build_label {
    char name[TV_BUILD_LABEL];
    uint64_t index;
} tv_build_label;

void tv_builder_fini(tv_builder *builder);
void tv_builder_clear(tv_builder *builder); /* empty again */

static inline void tv_builder_word(tv_builder *builder, uint64_t word)
{
    tv_buf_le(&builder->words, word, builder->isa->word_bits / 8);
}
static inline uint64_t tv_builder_count(const tv_builder *builder)
{
    return builder->words.len / (builder->isa->word_bits / 8);
}

/* The words to come stand behind this label, of at most 15 characters, unless they do already. */
void tv_builder_label(tv_builder *builder, const char *name);

/* Bytes that come to memory with the program; copied. They overlap no others. */
void tv_builder_data(tv_builder *builder, uint64_t addr, const void *bytes, size_t size);

void tv_builder_stream(tv_builder *builder, unsigned stream, uint64_t addr, uint64_t bytes);

/* Makes a program of it and leaves the builder empty. The caller frees the program. */
tv_status tv_builder_finish(tv_builder *builder, const tv_diag_sink *sink, tv_program **out);

/* Frees a program that the builder made, or NULL; the next one gets its memory. */
void tv_builder_reuse(tv_builder *builder, tv_program *program);

#endif
