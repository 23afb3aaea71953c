/* SPDX-License-Identifier: Apache-2.0 */
/* Building programs of instruction words without assembly text, for the lowerings. */
#ifndef TV_PROGRAM_BUILD_H
#define TV_PROGRAM_BUILD_H

#include "program/program.h"

enum { TV_BUILD_LABEL = 16 };

typedef struct tv_build_label {
    char name[TV_BUILD_LABEL];
    uint64_t index;
} tv_build_label;

typedef struct tv_build_segment {
    uint64_t addr, at, size; /* `at`: offset in the builder's `bytes` */
} tv_build_segment;

/* A program under construction; zeroed except for `isa`, it is empty. When memory runs out, later calls do nothing and
 * tv_builder_finish returns TV_ERR_MEMORY. */
typedef struct tv_builder {
    const tv_isa *isa;
    tv_buf words; /* little endian */
    tv_buf bytes; /* of all segments */
    TV_VEC(tv_build_segment) segments;
    TV_VEC(tv_build_label) labels;
    TV_VEC(tv_descriptor) streams[TV_STREAMS_MAX];
    tv_arena arena; /* an empty arena for the next program */
} tv_builder;

void tv_builder_fini(tv_builder *builder);
void tv_builder_clear(tv_builder *builder); /* drops the contents and keeps the memory */

static inline void tv_builder_word(tv_builder *builder, uint64_t word)
{
    if (builder->isa->word_bits == 32) /* a constant size is one store */
        tv_buf_le(&builder->words, word, 4);
    else
        tv_buf_le(&builder->words, word, builder->isa->word_bits / 8);
}
static inline uint64_t tv_builder_count(const tv_builder *builder)
{
    return builder->words.len / (builder->isa->word_bits / 8);
}

/* Whether there is no program: no word came, and none was lost for want of memory. */
static inline bool tv_builder_is_empty(const tv_builder *builder)
{
    return builder->words.len == 0 && !builder->words.failed;
}

/* Puts a label (at most 15 characters) before the next word, unless it is already the latest label. */
void tv_builder_label(tv_builder *builder, const char *name);

/* Adds a data segment; copies the bytes. Segments must not overlap. */
void tv_builder_data(tv_builder *builder, uint64_t addr, const void *bytes, size_t size);

void tv_builder_stream(tv_builder *builder, unsigned stream, uint64_t addr, uint64_t bytes);

/* Makes the program and leaves the builder empty. The caller frees the program. */
tv_status tv_builder_finish(tv_builder *builder, const tv_diag_sink *sink, tv_program **out);

/* Frees a program that the builder made (may be NULL), and reuses its memory for the next one. */
void tv_builder_reuse(tv_builder *builder, tv_program *program);

#endif
