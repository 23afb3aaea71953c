/* SPDX-License-Identifier: Apache-2.0 */
/* The representation of a program, for the assembler, the loaders and the machines. */
#ifndef TV_PROGRAM_PROGRAM_H
#define TV_PROGRAM_PROGRAM_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/source_lines.h"
#include "base/vec.h"
#include "isa/isa.h"
#include "trivet/file.h"
#include "trivet/program.h"

enum { TV_STREAMS_MAX = 4 };

/* The source line of an instruction, as stored in files. File and column share a word, to keep large programs small. */
typedef struct tv_line_entry {
    uint32_t file_column; /* 12 bits of file below 20 bits of column; 0: unknown or larger */
    uint32_t line;
} tv_line_entry;

enum { TV_LINE_FILE_BITS = 12, TV_LINE_FILES_MAX = 1 << TV_LINE_FILE_BITS };

typedef TV_VEC(tv_line_entry) tv_line_vec;

static inline tv_line_entry tv_line_entry_of(uint32_t file, uint32_t line, uint32_t column)
{
    uint32_t max = UINT32_MAX >> TV_LINE_FILE_BITS;
    return (tv_line_entry){(column <= max ? column : 0) << TV_LINE_FILE_BITS | file, line};
}

/* The operations of a program form other than instruction words. */
typedef struct tv_program_form {
    void (*free)(void *form_data);
    void (*print)(const struct tv_program *program, uint64_t index, tv_buf *out);      /* an instruction in one line */
    uint64_t (*additions)(const struct tv_program *program, const tv_diag_sink *sink); /* of tv_program_additions */
    tv_status (*save)(const struct tv_program *program, const char *path, tv_program_format format,
                      tv_output_group *group, const tv_diag_sink *sink); /* `group` may be NULL */
} tv_program_form;

struct tv_program {
    const tv_isa *isa;
    bool proposed;        /* .option proposed: uses proposed extensions intentionally */
    bool continues;       /* the next segment of the loaded program: results in flight stay in flight (OpenNPU only) */
    bool warned_proposed; /* the assembler has warned about them; not stored in files */
    const char **requirements; /* program/requirements.h */
    uint64_t requirement_count;
    const tv_program_form *form; /* NULL: instruction words */
    void *form_data;
    tv_output_info *outputs;
    uint64_t output_count;
    unsigned word_bytes; /* 0: not instruction words */
    const uint8_t *text; /* little-endian words, in `text_buf` or in `input` */
    uint64_t instruction_count;
    tv_buf text_buf;
    tv_input input;
    tv_arena arena; /* owns names, the bytes of segments and the arrays below */
    tv_segment *segments;
    uint64_t segment_count;
    tv_descriptor *descriptors[TV_STREAMS_MAX];
    uint64_t descriptor_count[TV_STREAMS_MAX];
    tv_symbol *symbols;
    uint64_t symbol_count;
    const tv_symbol **labels; /* the symbols of instructions, sorted by index */
    uint64_t label_count;
    const char **files;
    uint64_t file_count;
    TV_VEC(const char *) inputs; /* of tv_program_input_at */
    tv_line_vec lines;           /* one entry per instruction; `data` NULL: the program has no line table */
};

/* An empty program of `isa`; freed with tv_program_free. */
tv_status tv_program_new(const tv_isa *isa, const tv_diag_sink *sink, tv_program **out);

/* Notes a file that the program was read from, besides its own. False: out of memory. */
bool tv_program_note_input(tv_program *program, const char *path);

unsigned tv_isa_stream_count(const tv_isa *isa);

/* Completes a program: sorts segments and labels, and rejects segments that overlap. */
tv_status tv_program_seal(tv_program *program, const tv_diag_sink *sink);

/* The source location of an instruction: its index, and its line if `program` (may be NULL) has a line table. */
tv_source_loc tv_program_source_loc(const tv_program *program, uint64_t index);

/* A sink that adds source lines to diagnostics about a program that was read from text, in `lines`; for other programs
 * `sink`. */
const tv_diag_sink *tv_program_source_lines(const tv_program *program, const tv_diag_sink *sink,
                                            tv_source_lines *lines);

/* ELF (elf_read.c, elf_write.c). `name` is used in messages; the target of the file is looked up in `isas`. On success
 * the program owns `input`; on error the caller does. */
bool tv_elf_recognise(const uint8_t *data, size_t size);
tv_status tv_elf_read(const char *name, tv_input *input, const tv_isa_list *isas, const tv_diag_sink *sink,
                      tv_program **out);
tv_status tv_elf_write(const tv_program *program, tv_output *output, const tv_diag_sink *sink);

/* Raw words (raw.c), with `name` and `input` as above. */
tv_status tv_raw_read_bin(const char *name, tv_input *input, const tv_isa *isa, const tv_diag_sink *sink,
                          tv_program **out);
tv_status tv_raw_read_hex(const char *name, const tv_input *input, const tv_isa *isa, const tv_diag_sink *sink,
                          tv_program **out);
tv_status tv_raw_read_memh(const char *name, const tv_input *input, const tv_isa *isa, const tv_diag_sink *sink,
                           tv_program **out);

#endif
