/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: open, assemble, save, inspect. A program is a sequence of instructions, either words or the entries of a
 * command queue, with data, symbols and source locations.
 *
 * A program is read-only: threads may share it. Every pointer it returns is valid until tv_program_free. Functions that
 * enumerate take an index `i` from 0 on and return 0 past the last entry. */
#ifndef TRIVET_PROGRAM_H
#define TRIVET_PROGRAM_H

#include "trivet/diag.h"
#include "trivet/dtype.h"
#include "trivet/file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_program tv_program;

typedef struct tv_program_options {
    size_t size;                     /* sizeof(tv_program_options) */
    const char *target;              /* of a file that does not name its own; may be NULL */
    const char *const *include_dirs; /* searched by .include and .incbin after the file's own folder */
    unsigned include_count;
    const char *const *defines; /* "NAME=expression": constants defined before the first line */
    unsigned define_count;
    FILE *listing;         /* destination of the assembler listing; may be NULL */
    uint64_t line_limit;   /* lines of macros, repeats and files included again; 0: 1 million */
    uint64_t output_limit; /* bytes of words, data and unresolved references; 0: 2 GiB */
    int allow_paths;       /* not 0: .include and .incbin may read outside the source's folder and include_dirs */
} tv_program_options;

/* Opens the program at `path`: an ELF file that Trivet wrote, a command queue (.json, .jsonl), raw little-endian words
 * (.bin), one hexadecimal word a line (.hex), words for $readmemh (.memh), or assembly source (any other text). ELF and
 * JSON are recognized by content, the others by the name's ending. "-" is assembly source from standard input.
 * `options` may be NULL. The caller frees the program with tv_program_free. TV_ERR_INPUT: the file is invalid; all of
 * its errors are reported; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_program_open(const char *path, const tv_program_options *options, const tv_diag_sink *sink,
                                 tv_program **out);

/* Opens a program as tv_program_open does from the `size` bytes of a file in memory. `bytes` are copied and may be NULL
 * when `size` is 0. `name` stands for the path in messages, and its ending counts. `options` may be NULL. TV_ERR_INPUT,
 * TV_ERR_IO, TV_ERR_MEMORY as there. */
TV_API tv_status tv_program_parse(const char *name, const void *bytes, size_t size, const tv_program_options *options,
                                  const tv_diag_sink *sink, tv_program **out);

/* Assembles the `size` bytes of `text`, which are not used after the call. `name` stands for the path in messages.
 * `options` may be NULL. The caller frees the program with tv_program_free. TV_ERR_INPUT: errors in the source, all
 * reported; TV_ERR_IO: an included file; TV_ERR_MEMORY. */
TV_API tv_status tv_program_assemble(const char *name, const char *text, size_t size, const tv_program_options *options,
                                     const tv_diag_sink *sink, tv_program **out);

/* Frees `program`, which may be NULL. */
TV_API void tv_program_free(tv_program *program);

typedef enum tv_program_format {
    TV_FORMAT_ELF,
    TV_FORMAT_BIN,
    TV_FORMAT_HEX,
    TV_FORMAT_JSON,
    TV_FORMAT_JSON_LINES
} tv_program_format;

/* Writes `program` to `path` ("-": standard output), completely or not at all. BIN and HEX contain the instruction
 * words alone. JSON and JSON_LINES are the values of `format` for command queues, the others those for words.
 * TV_ERR_INPUT: the format does not suit the program; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_program_save(const tv_program *program, const char *path, tv_program_format format,
                                 const tv_diag_sink *sink);

/* Writes `program` to `path` in `format` as tv_program_save does; the file is put in place with `group`, which may be
 * NULL. TV_ERR_INPUT, TV_ERR_IO, TV_ERR_MEMORY as there. */
TV_API tv_status tv_program_save_to(const tv_program *program, const char *path, tv_program_format format,
                                    tv_output_group *group, const tv_diag_sink *sink);

/* Writes the data segments of `program` to `path`, which is put in place with `group`, which may be NULL. A name that
 * ends in ".memh" or ".hex" gives words of `word_bytes` bytes, a power of two up to 64, as $readmemh of Verilog reads
 * them: word i has the bytes from address i * word_bytes on, the first one in its lowest bits, and 0 where a segment
 * has only a part of it. Any other name gives the bytes from the first segment to the end of the last one, with 0
 * between them; `word_bytes` is then 1. TV_ERR_INPUT: a command queue, another `word_bytes`, or more than 1 GiB;
 * TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_program_save_data(const tv_program *program, const char *path, unsigned word_bytes,
                                      tv_output_group *group, const tv_diag_sink *sink);

/* Name of the target. Static string. */
TV_API const char *tv_program_target(const tv_program *program);

/* 1 when the source gave `.option proposed`, otherwise 0. */
TV_API int tv_program_uses_proposed(const tv_program *program);

/* Requirement `i` of the program as its source states it: ".require vector.k == 8" or ".profile test". A machine whose
 * configuration does not meet one does not load the program. NULL past the last; valid until the program is freed. */
TV_API const char *tv_program_requirement_at(const tv_program *program, uint64_t i);

/* The profile that the source names, or NULL. Valid until the program is freed. */
TV_API const char *tv_program_profile(const tv_program *program);

/* Reports what a command queue uses of Trivet's additions to the published format: a warning for each field and each
 * key of the metadata, at its first use; or one note in a file whose version has the additions. Returns the number of
 * warnings; 0 for other programs. `sink` may be NULL. */
TV_API uint64_t tv_program_additions(const tv_program *program, const tv_diag_sink *sink);

/* Number of instructions: words or queue entries. */
TV_API uint64_t tv_program_instruction_count(const tv_program *program);

/* Instruction word `index`, which must be below the instruction count; 0 when the program is a command queue. */
TV_API uint64_t tv_program_word(const tv_program *program, uint64_t index);

/* A heap string that tv_program_print reuses. The caller zeroes it before the first use and frees `text` with free().
 */
typedef struct tv_text_buffer {
    char *text;
} tv_text_buffer;

/* Formats entry `index` of a command queue as one line into `text`, whose former string is freed. Returns 0 when there
 * is no such entry, when the program consists of words, or when out of memory. */
TV_API int tv_program_print(const tv_program *program, uint64_t index, tv_text_buffer *text);

/* A result that the program declares. */
typedef struct tv_output_info {
    const char *name, *space;
    uint64_t addr, count; /* in units of the space; in elements */
    tv_dtype type;
} tv_output_info;

/* Writes the path of file `i` that the program's source names (.include, .incbin, spm_init, dram_init), as it was
 * opened, to `path`. Returns 0 past the last. The string is valid until tv_program_free. A stored program names none.
 */
TV_API int tv_program_input_at(const tv_program *program, uint64_t i, const char **path);

/* Declared output `i`. */
TV_API int tv_program_output_at(const tv_program *program, uint64_t i, tv_output_info *out);

typedef struct tv_source_line {
    const char *file;
    unsigned line, column;
} tv_source_line;

/* Source location of instruction `index`. Returns 0 when the program has no line table or no such instruction. */
TV_API int tv_program_line(const tv_program *program, uint64_t index, tv_source_line *out);

typedef enum tv_symbol_kind { TV_SYMBOL_TEXT, TV_SYMBOL_DATA, TV_SYMBOL_CONSTANT } tv_symbol_kind;
typedef struct tv_symbol {
    const char *name;
    uint64_t value; /* TEXT: instruction index; DATA: host byte address; CONSTANT: two's complement */
    tv_symbol_kind kind;
} tv_symbol;

/* Symbol `i`, in the order in which the source first names them. */
TV_API int tv_program_symbol_at(const tv_program *program, uint64_t i, tv_symbol *out);

/* Finds the symbol called `name`. Takes time linear in the number of symbols. */
TV_API int tv_program_symbol(const tv_program *program, const char *name, tv_symbol *out);

/* The last label at or before instruction `index`. Returns 0 when there is none. */
TV_API int tv_program_label(const tv_program *program, uint64_t index, tv_symbol *out);

/* A data segment: `size` bytes for host address `addr`. `bytes` is NULL when all are zero. */
typedef struct tv_segment {
    uint64_t addr, size;
    const uint8_t *bytes;
} tv_segment;

/* Data segment `i`, by ascending address. */
TV_API int tv_program_segment_at(const tv_program *program, uint64_t i, tv_segment *out);

/* A weight-stream descriptor: `bytes` bytes from host address `addr` on. */
typedef struct tv_descriptor {
    uint64_t addr, bytes;
} tv_descriptor;

/* Name of weight stream `stream`, in the instruction set's order. Returns NULL past the last. */
TV_API const char *tv_program_stream_name(const tv_program *program, unsigned stream);

/* Descriptor `i` of weight stream `stream`, in program order. */
TV_API int tv_program_descriptor_at(const tv_program *program, unsigned stream, uint64_t i, tv_descriptor *out);

#ifdef __cplusplus
}
#endif
#endif
