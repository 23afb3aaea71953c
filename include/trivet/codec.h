/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction words: decoding, encoding, disassembling, explaining; the instruction set as tables.
 *
 * A codec is read only once made; threads may share it. Strings it returns are static unless a buffer is given. */
#ifndef TRIVET_CODEC_H
#define TRIVET_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "trivet/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_codec tv_codec;

/* TV_ERR_INPUT: no such target. A target whose programs are not words (word_bits 0) has instructions with parameters,
 * and no word of it is legal. The caller frees it with tv_codec_free. */
TV_API tv_status tv_codec_new(const char *target, const tv_diag_sink *sink, tv_codec **out);
TV_API void tv_codec_free(tv_codec *codec);

TV_API const char *tv_codec_target(const tv_codec *codec);
TV_API unsigned tv_codec_word_bits(const tv_codec *codec);

/* The number of the instruction that `word` is (see tv_codec_insn_at), or -1 when it is none; then *why, if not NULL,
 * gets the code and a message of at most TV_CODEC_TEXT bytes naming the bits at fault. */
enum { TV_CODEC_TEXT = 256 };
typedef struct tv_decode_fault {
    const char *code, *name;
    unsigned hi, lo; /* the bits at fault */
    char message[TV_CODEC_TEXT];
} tv_decode_fault;
TV_API int tv_codec_decode(const tv_codec *codec, uint64_t word, tv_decode_fault *why);

/* One line of assembly that assembles back to the same word; a word that is no instruction as raw data with the reason
 * as a comment. Returns 1 when it is an instruction, else 0. */
TV_API int tv_codec_disassemble(const tv_codec *codec, uint64_t word, char text[TV_CODEC_TEXT]);

/* An instruction of the set. */
typedef struct tv_insn_info {
    const char *id, *mnemonic, *format, *unit, *meaning, *source;
    char form[TV_CODEC_TEXT];             /* the assembly form */
    int proposed;                         /* an extension under review */
    const char *since, *deprecated_since; /* versions of the set, or NULL */
} tv_insn_info;
TV_API int tv_codec_insn_at(const tv_codec *codec, unsigned i, tv_insn_info *out);

/* Field `i` of instruction `insn`'s format, from the top of the word; `word` gives the value. For words that are no
 * instruction, use the nearest. */
typedef struct tv_field_info {
    const char *name, *doc;
    unsigned hi, lo;
    int reserved;
    int ignored; /* the instruction does not look at it */
    int fixed;   /* its value is what makes the instruction: `fixed_value` */
    uint64_t fixed_value;
    uint64_t value; /* in the word given */
} tv_field_info;
TV_API int tv_codec_field_at(const tv_codec *codec, unsigned insn, unsigned i, uint64_t word, tv_field_info *out);

/* The instruction that shares most of what makes it one with `word`, its opcode at least; -1: there is none. */
TV_API int tv_codec_nearest(const tv_codec *codec, uint64_t word);

/* Parameter `i` of instruction `insn` of a target whose programs are not words: first those of every instruction, of
 * which the first alone, the instruction's name, is required. */
typedef struct tv_parameter_info {
    const char *name, *unit, *doc;
    const char *type;          /* "integer", "number", "boolean", "word", "text", "ids", "object" */
    const char *default_value; /* the value where it is absent, or NULL */
    int required, common;
    int member;                    /* of the instruction's object */
    uint64_t min, max;             /* of an integer … */
    uint64_t allowed;              /* … or bit n set: n is legal; 0: all between */
    const char *const *enum_names; /* of a word; NULL-terminated */
} tv_parameter_info;
TV_API int tv_codec_parameter_at(const tv_codec *codec, unsigned insn, unsigned i, tv_parameter_info *out);

/* The uops that `word` decomposes into, with the 8-bit route of those that move data (0: none). */
typedef struct tv_uop_info {
    const char *type, *route_name;
    unsigned route;
    int skipped;                /* the direct FIFO replaces it */
    char fields[TV_CODEC_TEXT]; /* "src_addr=0x200 async=0" */
} tv_uop_info;
TV_API int tv_codec_uop_at(const tv_codec *codec, unsigned insn, unsigned i, uint64_t word, tv_uop_info *out);

/* Encodes instruction `id` ("CVO_EXP") from named fields; those not given are zero. TV_ERR_INPUT: no such instruction
 * or field, or a value that does not fit, with a diagnostic. */
typedef struct tv_field_value {
    const char *name;
    uint64_t value;
} tv_field_value;
TV_API tv_status tv_codec_encode(const tv_codec *codec, const char *id, const tv_field_value *fields, unsigned count,
                                 const tv_diag_sink *sink, uint64_t *word);

/* The words of a target's assembly language, for editors and the like: each once, by kind. Nothing for a target without
 * one. */
typedef enum tv_keyword_kind {
    TV_KEYWORD_MNEMONIC,
    TV_KEYWORD_SUFFIX,      /* of a mnemonic: "sat", without the point */
    TV_KEYWORD_REGISTER,    /* a class, which a number below `count` follows: "vx" */
    TV_KEYWORD_BRACKET,     /* an address space or a bank, which [expression] follows: "l2" */
    TV_KEYWORD_OPERAND,     /* an operand by itself: "fifo" */
    TV_KEYWORD_OPERAND_KEY, /* in front of "=": "shape" */
    TV_KEYWORD_FLAG,        /* "async" */
    TV_KEYWORD_STREAM,      /* behind wstream */
    TV_KEYWORD_DIRECTIVE,   /* ".data" */
    TV_KEYWORD_FUNCTION,    /* of expressions: "exp" */
} tv_keyword_kind;

typedef struct tv_keyword_sink {
    void (*emit)(void *user, tv_keyword_kind kind, const char *word, unsigned count); /* `word` is static */
    void *user;
} tv_keyword_sink;
TV_API tv_status tv_assembly_keywords(const char *target, const tv_keyword_sink *keywords, const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
