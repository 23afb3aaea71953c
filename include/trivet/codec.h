/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction words: decode, encode, disassemble, explain; the instruction set as tables.
 *
 * A codec is read-only: threads may share it. Strings it returns are static unless the caller passes a buffer.
 * Functions that enumerate take an index `i` from 0 on and return 0 past the last entry. `insn` is an instruction's
 * index as tv_codec_insn_at counts; unknown ones have no fields, parameters or uops. */
#ifndef TRIVET_CODEC_H
#define TRIVET_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "trivet/diag.h"
#include "trivet/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_codec tv_codec;

/* Creates the codec of the instruction set of `target` ("pccx"). The caller frees it with tv_codec_free. Of a target
 * that is not word encoded (tv_codec_word_bits is 0) it describes instructions and parameters, and no word is legal.
 * TV_ERR_INPUT: unknown target; TV_ERR_MEMORY. */
TV_API tv_status tv_codec_new(const char *target, const tv_diag_sink *sink, tv_codec **out);

/* Frees `codec`, which may be NULL. */
TV_API void tv_codec_free(tv_codec *codec);

/* Name of the codec's target. */
TV_API const char *tv_codec_target(const tv_codec *codec);

/* Bits of an instruction word: 64, 32, or 0 when the target is not word encoded. */
TV_API unsigned tv_codec_word_bits(const tv_codec *codec);

enum { TV_CODEC_TEXT = 256 };

/* Why a word is illegal. `hi` and `lo` are the highest and lowest bit of the field at fault. */
typedef struct tv_decode_fault {
    const char *code, *name;
    unsigned hi, lo;
    char message[TV_CODEC_TEXT];
} tv_decode_fault;

/* Index of the instruction that `word` encodes, or -1 when it is illegal; then `fault`, which may be NULL, receives the
 * reason. */
TV_API int tv_codec_decode(const tv_codec *codec, uint64_t word, tv_decode_fault *fault);

/* Formats `word` as one line of assembly that assembles to the same word. An illegal word becomes raw data with the
 * reason as a comment. Returns 1 when it is an instruction, otherwise 0. `text` is empty when the target is not word
 * encoded. */
TV_API int tv_codec_disassemble(const tv_codec *codec, uint64_t word, char text[TV_CODEC_TEXT]);

/* An instruction of the set. */
typedef struct tv_insn_info {
    const char *id, *mnemonic, *format, *unit, *meaning, *source;
    char form[TV_CODEC_TEXT];             /* assembly form */
    int proposed;                         /* belongs to an extension under review */
    const char *since, *deprecated_since; /* versions of the set, or NULL */
    const char *addition;                 /* version in which it was added to the published set, or NULL */
} tv_insn_info;

/* Instruction `i` of the set. */
TV_API int tv_codec_insn_at(const tv_codec *codec, unsigned i, tv_insn_info *out);

/* A field of an instruction format. */
typedef struct tv_field_info {
    const char *name, *doc;
    unsigned hi, lo; /* bits of the word, inclusive */
    int reserved;
    int ignored; /* the instruction does not use it */
    int fixed;   /* part of the opcode: must be `fixed_value` */
    uint64_t fixed_value;
    uint64_t value; /* in the word given */
} tv_field_info;

/* Field `i`, from the top of the word, of the format of `insn`, with its value in `word`. For an illegal word pass the
 * result of tv_codec_nearest as `insn`. */
TV_API int tv_codec_field_at(const tv_codec *codec, unsigned insn, unsigned i, uint64_t word, tv_field_info *out);

/* Index of the instruction whose fixed fields match the most leading fields of `word`, at least its opcode; -1: none.
 */
TV_API int tv_codec_nearest(const tv_codec *codec, uint64_t word);

/* A parameter of an instruction of a target that is not word encoded. */
typedef struct tv_parameter_info {
    const char *name, *unit, *doc;
    const char *type;          /* "integer", "number", "boolean", "word", "text", "ids", "object" */
    const char *default_value; /* used when it is absent, or NULL */
    int required, common;
    int member;                    /* located in the instruction's nested object */
    uint64_t min, max;             /* of an integer … */
    uint64_t allowed;              /* … bit n set: n is legal; 0: every value from min to max */
    const char *const *enum_names; /* of a "word"; NULL-terminated */
    const char *addition;          /* version in which it was added to the published set, or NULL */
} tv_parameter_info;

/* Parameter `i` of `insn`. The parameters that all instructions have come first; of these only the first, the
 * instruction's name, is required. */
TV_API int tv_codec_parameter_at(const tv_codec *codec, unsigned insn, unsigned i, tv_parameter_info *out);

/* Writes the JSON Schema (draft 2020-12) of the target's program files to `writer` as one value. TV_ERR_INPUT, with
 * nothing written: the target is word encoded, and its program files are not JSON. */
TV_API tv_status tv_codec_write_schema(const tv_codec *codec, tv_json_writer *writer);

/* A micro-operation of an instruction. */
typedef struct tv_uop_info {
    const char *type, *route_name;
    unsigned route;             /* 8-bit code of the data path; 0: it moves no data */
    int skipped;                /* replaced by the direct FIFO in this word */
    char fields[TV_CODEC_TEXT]; /* "src_addr=0x200 async=0" */
    unsigned width;             /* bits of `packed` */
    uint64_t packed;            /* the uop as one value; also of a skipped uop */
} tv_uop_info;

/* Uop `i` of `insn`, with the fields of `word`. */
TV_API int tv_codec_uop_at(const tv_codec *codec, unsigned insn, unsigned i, uint64_t word, tv_uop_info *out);

/* Stores the fields of `word` in `values` as numbers, in the order of tv_codec_field_at, at most `capacity` of them.
 * Returns the number of fields of the format of `insn`. */
TV_API unsigned tv_codec_values(const tv_codec *codec, unsigned insn, uint64_t word, uint64_t *values,
                                unsigned capacity);

typedef struct tv_field_value {
    const char *name;
    uint64_t value;
} tv_field_value;

enum { TV_UOP_FIELDS = 8 };

/* A micro-operation as numbers: tv_uop_info without text. */
typedef struct tv_uop_values {
    const char *type;
    unsigned route; /* 0: it moves no data */
    int skipped;
    unsigned width; /* bits of `packed` */
    uint64_t packed;
    unsigned field_count;
    tv_field_value fields[TV_UOP_FIELDS];
} tv_uop_values;

/* Uop `i` of `insn`, with the fields of `word`. */
TV_API int tv_codec_uop_values_at(const tv_codec *codec, unsigned insn, unsigned i, uint64_t word, tv_uop_values *out);

/* Encodes the instruction with the id `id` ("CVO_EXP") from `count` named values in `fields`, which may be NULL when
 * `count` is 0. Fields that are not given are zero. The result goes to `word`. TV_ERR_INPUT: unknown instruction
 * or field, a value that does not fit, or an illegal combination. */
TV_API tv_status tv_codec_encode(const tv_codec *codec, const char *id, const tv_field_value *fields, unsigned count,
                                 const tv_diag_sink *sink, uint64_t *word);

/* Kinds of keywords of an assembly language. */
typedef enum tv_keyword_kind {
    TV_KEYWORD_MNEMONIC,
    TV_KEYWORD_SUFFIX,      /* of a mnemonic, without the dot: "sat" */
    TV_KEYWORD_REGISTER,    /* class name, followed by a number below `count`: "vx" */
    TV_KEYWORD_BRACKET,     /* address space or bank, followed by [expression]: "l2" */
    TV_KEYWORD_OPERAND,     /* an operand without a value: "fifo" */
    TV_KEYWORD_OPERAND_KEY, /* followed by "=": "shape" */
    TV_KEYWORD_FLAG,        /* "async" */
    TV_KEYWORD_STREAM,      /* follows wstream */
    TV_KEYWORD_DIRECTIVE,   /* ".data" */
    TV_KEYWORD_FUNCTION,    /* of expressions: "exp" */
} tv_keyword_kind;

/* Receiver of keywords. `word` is static; `count` is the number of registers of a class, otherwise 0. */
typedef struct tv_keyword_sink {
    void (*emit)(void *user, tv_keyword_kind kind, const char *word, unsigned count);
    void *user;
} tv_keyword_sink;

/* Emits each keyword of the assembly language of `target` once to `keywords`, grouped by kind; none for a target
 * without an assembly language. For editors. TV_ERR_INPUT: unknown target; TV_ERR_MEMORY. */
TV_API tv_status tv_assembly_keywords(const char *target, const tv_keyword_sink *keywords, const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
