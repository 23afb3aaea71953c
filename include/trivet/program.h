/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the word-encoded machines: assembling, loading, saving and looking into them.
 *
 * A program is read only once made; threads may share it. Everything it returns a pointer to lives as long as it. */
#ifndef TRIVET_PROGRAM_H
#define TRIVET_PROGRAM_H

#include "trivet/diag.h"
#include "trivet/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_program tv_program;

typedef struct tv_program_options {
    size_t size;                     /* sizeof(tv_program_options) */
    const char *target;              /* for a file that does not name its own; NULL: it must */
    const char *const *include_dirs; /* searched by .include and .incbin after the file's own folder */
    unsigned include_count;
    const char *const *defines; /* "NAME=expression" constants defined before the first line */
    unsigned define_count;
    FILE *listing;         /* the assembler writes its listing here; NULL: none */
    uint64_t line_limit;   /* statements after all expansion; 0: 100 million */
    uint64_t output_limit; /* bytes of words, data and what waits for symbols; 0: 2 GiB */
} tv_program_options;

/* Opens a program of any kind: an ELF file that Trivet wrote; a command queue (.json, .jsonl); assembly source (any
 * text that is not .hex); raw words
 * (.bin, little endian) or one hexadecimal word a line (.hex). ELF and JSON are recognised by content, the rest by the
 * file's ending. "-" is assembly source from standard input. `options` may be NULL. The caller frees it. TV_ERR_INPUT
 * after all errors of the file have been reported. */
TV_API tv_status tv_program_open(const char *path, const tv_program_options *options, const tv_diag_sink *sink,
                                 tv_program **out);

/* The same for the bytes of a file that is in memory; `name` is what messages call it, and its ending counts. Nothing
 * of `bytes` is kept. */
TV_API tv_status tv_program_parse(const char *name, const void *bytes, size_t size, const tv_program_options *options,
                                  const tv_diag_sink *sink, tv_program **out);

/* Assembles text in memory; `name` is what messages call it. Nothing of `text` is kept. */
TV_API tv_status tv_program_assemble(const char *name, const char *text, size_t size, const tv_program_options *options,
                                     const tv_diag_sink *sink, tv_program **out);

TV_API void tv_program_free(tv_program *program);

typedef enum tv_program_format {
    TV_FORMAT_ELF,
    TV_FORMAT_BIN,
    TV_FORMAT_HEX,
    TV_FORMAT_JSON,
    TV_FORMAT_JSON_LINES
} tv_program_format;

/* Writes the program whole or not at all. BIN and HEX hold the instruction words alone; JSON and JSON_LINES are for
 * programs that are not words, the others for those that are. */
TV_API tv_status tv_program_save(const tv_program *program, const char *path, tv_program_format format,
                                 const tv_diag_sink *sink);

TV_API const char *tv_program_target(const tv_program *program);
TV_API int tv_program_uses_proposed(const tv_program *program);          /* 1: `.option proposed` was given */
TV_API uint64_t tv_program_instruction_count(const tv_program *program); /* instructions, whatever they are made of */
TV_API uint64_t tv_program_word(const tv_program *program, uint64_t index); /* index below the count; 0: not words */

/* One line that says instruction `index` of a program that is not words. Returns 1, or 0 when there is none. `text` is
 * zeroed at first, may be used again, and is freed with free(text->text). */
typedef struct tv_text_buffer {
    char *text;
} tv_text_buffer;
TV_API int tv_program_print(const tv_program *program, uint64_t index, tv_text_buffer *text);

/* What the program says that it computes; returns 0 past the last. */
typedef struct tv_output_info {
    const char *name, *space;
    uint64_t addr, count; /* units of the space; elements */
    tv_dtype type;
} tv_output_info;
TV_API int tv_program_output_at(const tv_program *program, uint64_t i, tv_output_info *out);

/* Where instruction `index` was written. Returns 0 when the program has no line table. */
typedef struct tv_source_line {
    const char *file;
    unsigned line, column;
} tv_source_line;
TV_API int tv_program_line(const tv_program *program, uint64_t index, tv_source_line *out);

/* Symbols in the order in which the source first names them. Both functions return 1 when there is one, else 0. */
typedef enum tv_symbol_kind { TV_SYMBOL_TEXT, TV_SYMBOL_DATA, TV_SYMBOL_CONSTANT } tv_symbol_kind;
typedef struct tv_symbol {
    const char *name;
    uint64_t value; /* TEXT: instruction index; DATA: host byte address; CONSTANT: two's complement */
    tv_symbol_kind kind;
} tv_symbol;
TV_API int tv_program_symbol_at(const tv_program *program, uint64_t i, tv_symbol *out);
TV_API int tv_program_symbol(const tv_program *program, const char *name, tv_symbol *out);

/* The label that instruction `index` stands behind: the last one at or before it. Returns 0 when there is none. */
TV_API int tv_program_label(const tv_program *program, uint64_t index, tv_symbol *out);

/* Data segments, by ascending address; returns 0 past the end. `bytes` NULL: `size` bytes of zero. */
typedef struct tv_segment {
    uint64_t addr, size;
    const uint8_t *bytes;
} tv_segment;
TV_API int tv_program_segment_at(const tv_program *program, uint64_t i, tv_segment *out);

/* Weight-stream descriptors of stream `stream` (the instruction set's order), in order; returns 0 past the end. */
typedef struct tv_descriptor {
    uint64_t addr, bytes;
} tv_descriptor;
TV_API const char *tv_program_stream_name(const tv_program *program, unsigned stream); /* NULL past the last */
TV_API int tv_program_descriptor_at(const tv_program *program, unsigned stream, uint64_t i, tv_descriptor *out);

#ifdef __cplusplus
}
#endif
#endif
