/* SPDX-License-Identifier: Apache-2.0 */
/* What an instruction set is made of. One value of tv_isa per machine, all of it constant tables; encoding, decoding,
 * printing, assembling, explaining and documenting are derived from it (codec.c, print.c, and the assembler).
 *
 * A word belongs to a format; a format's fields name every bit of the word once, reserved bits too. An instruction is
 * a row: a format, the values of the fields that make it what it is, and its operands in the order of the assembly. */
#ifndef TV_ISA_ISA_H
#define TV_ISA_ISA_H

#include "base/diag.h"
#include "base/sv.h"
#include "trivet/codec.h"

enum { TV_NO_FIELD = 0xFFFF, TV_FORMAT_FIELDS = 16 };

/* How an operand is written. */
typedef enum tv_syntax {
    TV_SYNTAX_NONE,    /* never an operand */
    TV_SYNTAX_UINT,    /* an unsigned expression */
    TV_SYNTAX_BRACKET, /* name[expression], or the tag's name */
    TV_SYNTAX_ENTRY,   /* one of `names`, then [expression]: the name's index above the low `index_bits` */
    TV_SYNTAX_FLAG,    /* a bare word, present or absent */
    TV_SYNTAX_SINT,    /* a signed expression */
    TV_SYNTAX_REG,     /* a register: one of `names`, its class, then its number */
    TV_SYNTAX_ADDRESS, /* expression(register): two fields */
} tv_syntax;

/* A kind of operand: syntax, scale and special values. Fields of one meaning share one. */
typedef struct tv_operand_kind {
    const char *name; /* BRACKET: the word before the bracket */
    tv_syntax syntax;
    uint32_t scale;  /* written value = field value * scale */
    const char *tag; /* a word that stands for tag_value, or NULL */
    uint64_t tag_value;
    const char *const *names; /* ENTRY: the banks; REG, ADDRESS: the classes */
    uint32_t name_count;
    uint32_t index_bits;
    uint32_t kept_bits; /* SINT: the machine uses that many low bits, which the assembler warns about; 0: all */
    uint8_t reg_class;  /* REG, ADDRESS: the class; TV_CLASS_FIELD: what class_field says */
    uint16_t class_field;
    const char *doc;
} tv_operand_kind;

/* A register of class c is made of 2^c of the smallest, so that there are that many times fewer of them. */
enum { TV_CLASS_FIELD = 0xFF, TV_CLASSES_MAX = 3 };

typedef enum tv_field_role {
    TV_FIELD_VALUE,
    TV_FIELD_RESERVED, /* must be zero */
    TV_FIELD_JOINED,   /* no bits of its own: two fields read as one number */
} tv_field_role;

typedef struct tv_field {
    const char *name;
    uint8_t format;
    uint8_t role;
    uint8_t hi, lo;
    uint16_t high_field, low_field; /* JOINED: field indices */
    const tv_operand_kind *kind;
    uint64_t limit;         /* legal values are below it; 0: all */
    const tv_code *illegal; /* what a decoder says when no row has this field's value */
    const char *doc;
} tv_field;

typedef struct tv_fixed {
    uint16_t field;
    uint64_t value;
} tv_fixed;

typedef enum tv_operand_form {
    TV_POSITIONAL,
    TV_KEYWORD,          /* key=value, required */
    TV_KEYWORD_OPTIONAL, /* key=value, zero when absent */
    TV_FLAG_OPTIONAL,    /* the field's name as a bare word */
} tv_operand_form;

typedef struct tv_operand {
    uint8_t form;
    const char *key; /* NULL: positional; a flag's word */
    uint16_t field;
    const tv_operand_kind *kind; /* NULL: the field's; else what this instruction makes of it */
} tv_operand;

/* A suffix of the mnemonic that gives a field a value. */
typedef struct tv_attribute {
    const char *suffix;
    uint16_t field;
    uint64_t value;
} tv_attribute;

/* ---- Instruction sets that are not words: an entry of named fields ---- */

typedef enum tv_parameter_type {
    TV_PARAMETER_INTEGER,
    TV_PARAMETER_REAL,
    TV_PARAMETER_BOOLEAN,
    TV_PARAMETER_ENUM, /* one of `words` */
    TV_PARAMETER_TEXT,
    TV_PARAMETER_IDS, /* a list of entries */
    TV_PARAMETER_OBJECT,
} tv_parameter_type;

/* What a REAL may be. */
typedef enum tv_sign { TV_ANY_SIGN, TV_NOT_ZERO, TV_POSITIVE, TV_NOT_NEGATIVE } tv_sign;

typedef struct tv_parameter {
    const char *name;
    tv_parameter_type type;
    uint64_t allowed;              /* INTEGER: bit n set: n is legal; 0: all from least to most. REAL: a tv_sign */
    const char *const *enum_names; /* NULL-terminated */
    uint64_t min, max;
    const char *default_value; /* its value where it is absent, or NULL: none */
    const char *unit, *doc;
} tv_parameter;

/* MEMBER: of the entry's object; required ones where the object is given. */
typedef enum tv_presence { TV_REQUIRED, TV_OPTIONAL, TV_MEMBER, TV_MEMBER_REQUIRED } tv_presence;

typedef struct tv_parameter_use {
    uint16_t parameter;
    uint8_t presence;
} tv_parameter_use;

/* A part that an instruction decomposes into inside the machine. */
typedef struct tv_uop {
    const char *type;
    uint32_t route; /* 0: none */
    const char *route_name;
    uint16_t fields[9];  /* ends with TV_NO_FIELD */
    uint16_t skipped_by; /* the uop is not issued when this field names a FIFO, or TV_NO_FIELD */
} tv_uop;

typedef struct tv_insn {
    const char *id;       /* "CVO_EXP" */
    const char *mnemonic; /* "cvo.exp" */
    uint8_t format;
    uint8_t fixed_count, operand_count, attribute_count, uop_count;
    bool proposed; /* an extension under review: the assembler and the check say so */
    const tv_fixed *fixed;
    const tv_operand *operands;
    const tv_attribute *attributes;
    const tv_uop *uops;
    uint8_t parameter_count;
    const tv_parameter_use *parameters;   /* required ones first */
    const char *since, *deprecated_since; /* versions, or NULL */
    const char *unit;
    const char *meaning;
    const char *source; /* the document and section that defines it */
} tv_insn;

/* Why a word is no instruction: the code, the field at fault, its value. */
typedef struct tv_illegal {
    const tv_code *code;
    uint16_t field;
    uint64_t value;
} tv_illegal;

typedef struct tv_isa {
    const char *target;
    const char *title;
    unsigned word_bits;
    const char *const *formats;
    unsigned format_count;
    const tv_field *fields;
    unsigned field_count;
    const tv_parameter *parameters;
    unsigned parameter_count, common_count; /* the first `common_count` belong to every entry */
    const tv_insn *insns;
    unsigned insn_count;
    const tv_code *codes;
    unsigned code_count;
    struct {
        uint8_t lo, width; /* two groups of leading bits that lead a decoder to an instruction; width 0: none */
    } index[2];
    const tv_code *register_code;                   /* what a decoder says of a register that is not there */
    const tv_code *proposed_code;                   /* what is said of a proposed instruction */
    void (*refine)(uint64_t word, tv_illegal *why); /* a better reason where the tables know only the field; or NULL */
    uint64_t fifo_tag;                              /* the address that names a direct FIFO */
    const char *const *streams; /* names for `wstream`, NULL-terminated; NULL: the machine has none */
    bool has_nop;
    uint64_t nop; /* the word that does nothing, for padding */
} tv_isa;

/* The instruction sets, in the order of the list of targets; NULL past the end. */
/* A list of instruction sets, in which names are looked up. The composition root (src/lib) has the list of all of them.
 */
typedef struct tv_isa_list {
    const tv_isa *const *isas;
    unsigned count;
} tv_isa_list;

/* The instruction set of the target `name`, or NULL. */
const tv_isa *tv_isa_find(const tv_isa_list *list, tv_sv name);

/* The hint for a target name that is in no list: the nearest name, or where to look. */
void tv_isa_suggest(const tv_isa_list *list, tv_sv name, char hint[80]);

static inline unsigned tv_field_width(const tv_isa *isa, const tv_field *field)
{
    if (field->role == TV_FIELD_JOINED) {
        const tv_field *a = &isa->fields[field->high_field], *b = &isa->fields[field->low_field];
        return (unsigned)(a->hi - a->lo + 1 + b->hi - b->lo + 1);
    }
    return (unsigned)(field->hi - field->lo + 1);
}

static inline const tv_operand_kind *tv_operand_kind_of(const tv_isa *isa, const tv_operand *operand)
{
    return operand->kind ? operand->kind : isa->fields[operand->field].kind;
}

static inline uint64_t tv_field_mask(const tv_field *field)
{
    return tv_mask((unsigned)(field->hi - field->lo + 1)) << field->lo;
}

uint64_t tv_field_get(const tv_isa *isa, const tv_field *field, uint64_t word);

/* `value` must fit. */
uint64_t tv_field_set(const tv_isa *isa, const tv_field *field, uint64_t word, uint64_t value);

/* Whether a direct FIFO takes the uop's place in `word`. */
static inline bool tv_uop_skipped(const tv_isa *isa, const tv_uop *uop, uint64_t word)
{
    return uop->skipped_by != TV_NO_FIELD && tv_field_get(isa, &isa->fields[uop->skipped_by], word) == isa->fifo_tag;
}

/* A reader of words (trivet/codec.h): the tables of `isa` with an index over them. */
tv_status tv_codec_new_for(const tv_isa *isa, const tv_diag_sink *sink, tv_codec **out);
const tv_isa *tv_codec_isa(const tv_codec *codec);

/* Whether `word` has only zeros in the bits that row `row` does not look at. */
bool tv_codec_canonical(const tv_codec *codec, unsigned row, uint64_t word);

/* The class of a register operand in `word`. */
static inline unsigned tv_operand_class(const tv_isa *isa, const tv_operand_kind *kind, uint64_t word)
{
    return kind->reg_class != TV_CLASS_FIELD ? kind->reg_class
                                             : (unsigned)tv_field_get(isa, &isa->fields[kind->class_field], word);
}

/* The row of `word`, or -1 with *why filled in. */
int tv_codec_row(const tv_codec *codec, uint64_t word, tv_illegal *why);

/* The fields of a row's format, in word order from the top; JOINED fields are not among them. Returns their count. */
unsigned tv_isa_format_fields(const tv_isa *isa, unsigned format, uint16_t fields[TV_FORMAT_FIELDS]);

/* Writes `insn`'s assembly for `word`. */
struct tv_buf;
void tv_isa_print(const tv_isa *isa, const tv_insn *insn, uint64_t word, struct tv_buf *out);

/* "bits 47:43 'parallel_lane' = 9", for messages. */
void tv_isa_print_illegal(const tv_isa *isa, const tv_illegal *why, struct tv_buf *out);

/* "[.sat]", or "[.rtz|.floor|.ceil]" at the first of the suffixes that exclude each other, which stand together. */
void tv_isa_print_suffix(const tv_insn *insn, unsigned attribute, struct tv_buf *out);

/* The form of one operand as a manual writes it: "l2[ADDR]|fifo", "size=N". */
void tv_isa_print_form(const tv_isa *isa, const tv_operand *operand, struct tv_buf *out);

#endif
