/* SPDX-License-Identifier: Apache-2.0 */
/* The representation of an instruction set: one tv_isa per machine, made of constant tables. Encoding, decoding,
 * printing, assembling, explaining and documenting are derived from them (codec.c, print.c, the assembler).
 *
 * An instruction word has a format; the fields of a format name every bit of the word exactly once, including reserved
 * bits. An instruction is a row: a format, the fixed values of the fields that identify it, and its operands in the
 * order of the assembly syntax. */
#ifndef TV_ISA_ISA_H
#define TV_ISA_ISA_H

#include "base/diag.h"
#include "base/sv.h"
#include "trivet/codec.h"

enum { TV_NO_FIELD = 0xFFFF, TV_FORMAT_FIELDS = 16, TV_EXTENSION_ROWS = 16 };

/* The syntax of an operand. */
typedef enum tv_syntax {
    TV_SYNTAX_NONE,    /* never an operand */
    TV_SYNTAX_UINT,    /* an unsigned expression */
    TV_SYNTAX_BRACKET, /* name[expression], or the tag's name */
    TV_SYNTAX_ENTRY,   /* one of `names`, then [expression]: the name's index above the low `index_bits` */
    TV_SYNTAX_FLAG,    /* a name that is present or absent */
    TV_SYNTAX_SINT,    /* a signed expression */
    TV_SYNTAX_REG,     /* a register: one of `names`, its class, then its number */
    TV_SYNTAX_ADDRESS, /* expression(register), which is two fields */
} tv_syntax;

/* A kind of operand: syntax, scale and special values. Fields of the same meaning share a kind. */
typedef struct tv_operand_kind {
    const char *name; /* BRACKET: the name before the bracket */
    tv_syntax syntax;
    uint32_t scale;  /* written value = field value * scale */
    const char *tag; /* the name of the value tag_value, or NULL */
    uint64_t tag_value;
    const char *const *names; /* ENTRY: the banks; REG, ADDRESS: the classes */
    uint32_t name_count;
    uint32_t index_bits;
    uint32_t kept_bits; /* SINT: the machine uses only this many low bits; the assembler warns when a value has more. 0:
                           all */
    uint8_t reg_class;  /* REG, ADDRESS: the class; TV_CLASS_FIELD: the value of class_field */
    uint16_t class_field;
    const char *doc;
} tv_operand_kind;

/* A register of class c consists of 2^c registers of class 0. */
enum { TV_CLASS_FIELD = 0xFF, TV_CLASSES_MAX = 3 };

typedef enum tv_field_role {
    TV_FIELD_VALUE,
    TV_FIELD_RESERVED, /* must be zero */
    TV_FIELD_JOINED,   /* two fields that form one number; has no bits of its own */
} tv_field_role;

typedef struct tv_field {
    const char *name;
    uint8_t format;
    uint8_t role;
    uint8_t hi, lo;
    uint16_t high_field, low_field; /* JOINED: indices of its two fields */
    const tv_operand_kind *kind;
    uint64_t limit;         /* legal values are below the limit; 0: all are legal */
    const tv_code *illegal; /* the decode error when no row has the value of this field */
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
    TV_FLAG_OPTIONAL,    /* the name of the field, without a value */
} tv_operand_form;

typedef struct tv_operand {
    uint8_t form;
    const char *key; /* NULL: positional */
    uint16_t field;
    const tv_operand_kind *kind; /* NULL: that of the field */
} tv_operand;

/* A suffix of the mnemonic that sets a field. */
typedef struct tv_attribute {
    const char *suffix;
    uint16_t field;
    uint64_t value;
} tv_attribute;

/* ---- Instruction sets of queue entries, which have named parameters instead of bit fields ---- */

typedef enum tv_parameter_type {
    TV_PARAMETER_INTEGER,
    TV_PARAMETER_REAL,
    TV_PARAMETER_BOOLEAN,
    TV_PARAMETER_ENUM, /* one of `enum_names` */
    TV_PARAMETER_TEXT,
    TV_PARAMETER_IDS, /* a list of entries */
    TV_PARAMETER_OBJECT,
} tv_parameter_type;

/* The range of a REAL. */
typedef enum tv_sign { TV_ANY_SIGN, TV_NOT_ZERO, TV_POSITIVE, TV_NOT_NEGATIVE } tv_sign;

typedef struct tv_parameter {
    const char *name;
    tv_parameter_type type;
    uint64_t allowed; /* INTEGER: a bit mask of the legal values; 0: all from min to max. REAL: a tv_sign */
    const char *const *enum_names; /* NULL-terminated */
    uint64_t min, max;
    const char *default_value; /* NULL: it has none */
    const char *unit, *doc;
    const char *addition; /* version in which it was added to the published set, or NULL */
} tv_parameter;

/* MEMBER: a member of the entry's object parameter; MEMBER_REQUIRED: required if the object is present. */
typedef enum tv_presence { TV_REQUIRED, TV_OPTIONAL, TV_MEMBER, TV_MEMBER_REQUIRED } tv_presence;

typedef struct tv_parameter_use {
    uint16_t parameter;
    uint8_t presence;
} tv_parameter_use;

/* A group of bits of a packed uop: a field's value, the route, or zeros. */
enum { TV_SLICE_ROUTE = 0xFFFD, TV_SLICE_ZERO = 0xFFFE };

typedef struct tv_uop_slice {
    uint8_t bits;   /* 0 ends the list */
    uint16_t field; /* of that width, TV_SLICE_ROUTE or TV_SLICE_ZERO */
} tv_uop_slice;

/* A micro-operation that the machine decodes an instruction into. */
typedef struct tv_uop {
    const char *type;
    uint32_t route; /* 0: none */
    const char *route_name;
    uint16_t fields[9];      /* ends with TV_NO_FIELD */
    uint16_t skipped_by;     /* the uop is not issued when this field names a FIFO, or TV_NO_FIELD */
    tv_uop_slice slices[10]; /* the uop as one value, from its top bits down; at most 64 bits */
} tv_uop;

typedef struct tv_insn {
    const char *id;       /* "CVO_EXP" */
    const char *mnemonic; /* "cvo.exp" */
    uint8_t format;
    uint8_t fixed_count, operand_count, attribute_count, uop_count;
    bool proposed; /* an extension under review: the assembler and `check` warn about it */
    const tv_fixed *fixed;
    const tv_operand *operands;
    const tv_attribute *attributes;
    const tv_uop *uops;
    uint8_t parameter_count;
    const tv_parameter_use *parameters;   /* required ones first */
    const char *since, *deprecated_since; /* versions, or NULL */
    const char *unit;
    const char *meaning;
    const char *source;                        /* the document and section that defines it */
    const struct tv_extension_insn *extension; /* the row of an extension (isa/extend.h), or NULL */
} tv_insn;

/* Another operand list of an instruction, which the assembler accepts. Words are printed with the instruction's own. */
typedef struct tv_alternate {
    uint16_t insn;
    uint8_t operand_count;
    const tv_operand *operands;
} tv_alternate;

/* Why a word is not an instruction: the code, the first illegal field and its value. */
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
    tv_insn *insns;                         /* written by isa/extend.c alone */
    unsigned insn_count;
    unsigned insn_room;       /* rows of `insns`, with those for extensions */
    char extensions[65];      /* SHA-256 of the files that added rows, as text; "": none */
    unsigned published_minor; /* instructions of later minor versions are additions to the published set; 0: unused */
    const tv_alternate *alternates;
    unsigned alternate_count;
    const tv_code *codes;
    unsigned code_count;
    struct {
        uint8_t lo, width; /* two groups of bits that index the decoder's table; width 0: unused */
    } index[2];
    const tv_code *register_code;                   /* the decode error for a register that does not exist */
    const tv_code *proposed_code;                   /* the warning for a proposed instruction */
    void (*refine)(uint64_t word, tv_illegal *why); /* makes an error more specific; or NULL */
    uint64_t fifo_tag;                              /* the address that names a direct FIFO */
    const char *const *streams; /* names for `wstream`, NULL-terminated; NULL: the machine has none */
    bool has_nop;
    uint64_t nop; /* the no-operation word, for padding */
} tv_isa;

/* A list of instruction sets. The composition root (src/lib) has the list of all of them. */
typedef struct tv_isa_list {
    const tv_isa *const *isas;
    unsigned count;
} tv_isa_list;

/* The version in which an instruction was added to the published set, or NULL. */
const char *tv_insn_addition(const tv_isa *isa, const tv_insn *insn);

/* The instruction set of the target `name`, or NULL. */
const tv_isa *tv_isa_find(const tv_isa_list *list, tv_sv name);

/* The hint for an unknown target name: the nearest name, or the command that lists them. */
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

/* The value of a joined field. */
uint64_t tv_joined_get(const tv_isa *isa, const tv_field *field, uint64_t word);

static inline uint64_t tv_field_get(const tv_isa *isa, const tv_field *field, uint64_t word)
{
    if (field->role == TV_FIELD_JOINED)
        return tv_joined_get(isa, field, word);
    return word >> field->lo & tv_mask((unsigned)(field->hi - field->lo + 1));
}

/* Returns `word` with the field set to `value`, which must fit. */
uint64_t tv_field_set(const tv_isa *isa, const tv_field *field, uint64_t word, uint64_t value);

/* True when `word` uses a direct FIFO, so that the uop is not issued. */
static inline bool tv_uop_skipped(const tv_isa *isa, const tv_uop *uop, uint64_t word)
{
    return uop->skipped_by != TV_NO_FIELD && tv_field_get(isa, &isa->fields[uop->skipped_by], word) == isa->fifo_tag;
}

/* A decoder of words (trivet/codec.h): the tables of `isa` with an index. Freed with tv_codec_free. */
tv_status tv_codec_new_for(const tv_isa *isa, const tv_diag_sink *sink, tv_codec **out);
const tv_isa *tv_codec_isa(const tv_codec *codec);

/* True when the instruction ignores the field, an index into isa->fields: it belongs to the instruction's format and is
 * neither reserved nor fixed, an operand, an attribute or the class of a register. Assembly text names such a field
 * when it is not zero ("rd=2"). */
bool tv_isa_ignores(const tv_isa *isa, const tv_insn *insn, uint16_t field);

/* The register class of an operand in `word`. */
static inline unsigned tv_operand_class(const tv_isa *isa, const tv_operand_kind *kind, uint64_t word)
{
    return kind->reg_class != TV_CLASS_FIELD ? kind->reg_class
                                             : (unsigned)tv_field_get(isa, &isa->fields[kind->class_field], word);
}

/* The first row before `row` whose words are partly those of `row`, too; -1: there is none. */
int tv_isa_overlap(const tv_isa *isa, unsigned row);

/* The row of `word`; -1: not an instruction, and *why, which may be NULL, is set. */
int tv_codec_row(const tv_codec *codec, uint64_t word, tv_illegal *why);

/* Lists the fields of a format from the high bits down, without JOINED fields. Returns their count. */
unsigned tv_isa_format_fields(const tv_isa *isa, unsigned format, uint16_t fields[TV_FORMAT_FIELDS]);

/* The same list of a codec of a word-encoded set, made once; its length in *count. */
const uint16_t *tv_codec_format_fields(const tv_codec *codec, unsigned format, unsigned *count);

/* Appends the assembly text of `word`, an instance of `insn`. */
struct tv_buf;
void tv_isa_print(const tv_isa *isa, const tv_insn *insn, uint64_t word, struct tv_buf *out);

/* Appends the reason and the field, such as "…: bits 47:43 'parallel_lane' = 9". */
void tv_isa_print_illegal(const tv_isa *isa, const tv_illegal *why, struct tv_buf *out);

/* Appends "[.sat]", or "[.rtz|.floor|.ceil]" at the first of several suffixes of the same field, which are adjacent. */
void tv_isa_print_suffix(const tv_insn *insn, unsigned attribute, struct tv_buf *out);

/* Appends the syntax of an operand as in the manual: "l2[ADDR]|fifo", "size=N". */
void tv_isa_print_form(const tv_isa *isa, const tv_operand *operand, struct tv_buf *out);

#endif
