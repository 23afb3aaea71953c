/* SPDX-License-Identifier: Apache-2.0 */
/* The tv_isa value of OpenNPU, expanded from fields.def, insns.def and codes.def, with the compile-time checks of its
 * formats. */
#include "isa/opennpu/opennpu.h"

/* ---- Checks ---- */

#define TV_LAYOUT "isa/opennpu/fields.def"
#define TV_LAYOUT_ID(format) OPENNPU_FORMAT_##format
#define TV_LAYOUT_BITS 32
#define TV_LAYOUT_FORMAT NOP
#include "isa/layout_check.h"
#define TV_LAYOUT_FORMAT R
#include "isa/layout_check.h"
#define TV_LAYOUT_FORMAT I
#include "isa/layout_check.h"
#define TV_LAYOUT_FORMAT S
#include "isa/layout_check.h"
#define TV_LAYOUT_FORMAT CVT
#include "isa/layout_check.h"

/* ---- Operand kinds ---- */

static const char *const class_names[OPENNPU_CLASSES] = {"vx", "ve", "vr"};

#define REGISTER(class_, field, text)                                                                                  \
    {                                                                                                                  \
        .name = "register", .syntax = TV_SYNTAX_REG, .scale = 1, .names = class_names, .name_count = OPENNPU_CLASSES,  \
        .reg_class = (class_), .class_field = (field), .doc = (text)                                                   \
    }

static const tv_operand_kind kind_NONE = {.name = "none", .syntax = TV_SYNTAX_NONE, .doc = "not an operand"};
static const tv_operand_kind kind_SINT = {
    .name = "number", .syntax = TV_SYNTAX_SINT, .scale = 1, .doc = "signed number"};
static const tv_operand_kind kind_BYTE = {
    .name = "number", .syntax = TV_SYNTAX_SINT, .scale = 1, .kept_bits = 8, .doc = "signed number, cut to 8 bits"};
static const tv_operand_kind kind_VX = REGISTER(OPENNPU_VX, TV_NO_FIELD, "register of 8-bit lanes");
static const tv_operand_kind kind_VE = REGISTER(OPENNPU_VE, TV_NO_FIELD, "register of 16-bit lanes");
static const tv_operand_kind kind_VR = REGISTER(OPENNPU_VR, TV_NO_FIELD, "register of 32-bit lanes");
static const tv_operand_kind kind_SIZED =
    REGISTER(TV_CLASS_FIELD, OPENNPU_F_R_width, "register; its class is the width");
static const tv_operand_kind kind_ADDRESS = {.name = "address",
                                             .syntax = TV_SYNTAX_ADDRESS,
                                             .scale = 1,
                                             .names = class_names,
                                             .name_count = OPENNPU_CLASSES,
                                             .reg_class = OPENNPU_VR,
                                             .class_field = TV_NO_FIELD,
                                             .doc = "byte offset and the VR whose lane 0 is added"};

/* ---- Tables ---- */

const tv_code opennpu_codes[OPENNPU_CODES] = {
#define TV_CODE_ROW(id, code_, name_, text_) {.code = (code_), .name = (name_), .text = (text_)},
#include "isa/opennpu/codes.def"
#undef TV_CODE_ROW
};

static const char *const formats[] = {
#define TV_FORMAT(id) #id,
#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc)
#define TV_JOINED(format, name, high, low, kind, doc)
#include "isa/opennpu/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_JOINED
};

static const tv_field fields[OPENNPU_FIELDS] = {
#define TV_FORMAT(id)
#define TV_FIELD(format_, name_, hi_, lo_, k_, limit_, illegal_, doc_)                                                 \
    {.name = #name_,                                                                                                   \
     .format = OPENNPU_FORMAT_##format_,                                                                               \
     .role = TV_FIELD_VALUE,                                                                                           \
     .hi = (hi_),                                                                                                      \
     .lo = (lo_),                                                                                                      \
     .kind = &kind_##k_,                                                                                               \
     .limit = (limit_),                                                                                                \
     .illegal = &opennpu_codes[OPENNPU_CODE_##illegal_],                                                               \
     .doc = (doc_)},
#define TV_JOINED(format_, name_, high_, low_, k_, doc_)                                                               \
    {.name = #name_,                                                                                                   \
     .format = OPENNPU_FORMAT_##format_,                                                                               \
     .role = TV_FIELD_JOINED,                                                                                          \
     .high_field = OPENNPU_F_##format_##_##high_,                                                                      \
     .low_field = OPENNPU_F_##format_##_##low_,                                                                        \
     .kind = &kind_##k_,                                                                                               \
     .illegal = &opennpu_codes[OPENNPU_CODE_OPCODE],                                                                   \
     .doc = (doc_)},
#include "isa/opennpu/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_JOINED
};

/* C has no empty arrays: each list has an extra row that its count excludes. */
#define UNWRAP(...) __VA_ARGS__

#define FIX(format, field, value) {OPENNPU_F_##format##_##field, value},
#define TV_INSN(id, mnemonic, format, fixed, operands, attributes, unit, meaning, source)                              \
    static const tv_fixed fixed_##id[] = {UNWRAP fixed};
#include "isa/opennpu/insns.def"
#undef TV_INSN
#undef FIX

#define AS(kind, format, field) {TV_POSITIONAL, NULL, OPENNPU_F_##format##_##field, &kind_##kind},
#define TV_INSN(id, mnemonic, format, fixed, operands, attributes, unit, meaning, source)                              \
    static const tv_operand operands_##id[] = {UNWRAP operands{0}};
#include "isa/opennpu/insns.def"
#undef TV_INSN
#undef AS

#define SAT(format) {"sat", OPENNPU_F_##format##_sat, 1},
#define KEEP {"keep", OPENNPU_F_R_sat, 1},
#define ROUND(format, field)                                                                                           \
    {"rtz", OPENNPU_F_##format##_##field, 1}, {"floor", OPENNPU_F_##format##_##field, 2},                              \
        {"ceil", OPENNPU_F_##format##_##field, 3},
#define E5M2 {"e5m2", OPENNPU_F_CVT_bf8, 1},
#define TV_INSN(id, mnemonic, format, fixed, operands, attributes, unit, meaning, source)                              \
    static const tv_attribute attributes_##id[] = {UNWRAP attributes{0}};
#include "isa/opennpu/insns.def"
#undef TV_INSN
#undef SAT
#undef KEEP
#undef ROUND
#undef E5M2

#define AS(kind, format, field) {TV_POSITIONAL, NULL, OPENNPU_F_##format##_##field, &kind_##kind},
#define TV_ALTERNATE(id, operands) static const tv_operand alternate_##id[] = {UNWRAP operands};
#include "isa/opennpu/alternates.def"
#undef TV_ALTERNATE
#undef AS

static const tv_alternate alternates[] = {
#define TV_ALTERNATE(id, operands) {OPENNPU_##id, TV_COUNTOF(alternate_##id), alternate_##id},
#include "isa/opennpu/alternates.def"
#undef TV_ALTERNATE
};

static tv_insn insns[OPENNPU_INSNS + TV_EXTENSION_ROWS] = {
#define ROW(proposed_, id_, mnemonic_, format_, fix_, ops_, attrs_, unit_, meaning_, source_)                          \
    {.id = #id_,                                                                                                       \
     .mnemonic = (mnemonic_),                                                                                          \
     .format = OPENNPU_FORMAT_##format_,                                                                               \
     .fixed_count = TV_COUNTOF(fixed_##id_),                                                                           \
     .operand_count = TV_COUNTOF(operands_##id_) - 1,                                                                  \
     .attribute_count = TV_COUNTOF(attributes_##id_) - 1,                                                              \
     .proposed = (proposed_),                                                                                          \
     .fixed = fixed_##id_,                                                                                             \
     .operands = operands_##id_,                                                                                       \
     .attributes = attributes_##id_,                                                                                   \
     .unit = #unit_,                                                                                                   \
     .meaning = (meaning_),                                                                                            \
     .source = (source_)},
#define TV_INSN(...) ROW(false, __VA_ARGS__)
#define TV_PROPOSED(...) ROW(true, __VA_ARGS__)
#include "isa/opennpu/insns.def"
#undef TV_INSN
#undef ROW
};

/* Chooses the code for an illegal pair of formats of a conversion; the tables only know that it is illegal. */
static void refine_illegal_conversion(uint64_t word, tv_illegal *why)
{
    uint32_t w = (uint32_t)word;
    if (why->field != OPENNPU_F_CVT_src_fmt && why->field != OPENNPU_F_CVT_funct3)
        return;
    uint32_t to = opennpu_CVT_funct3(w), from = opennpu_CVT_src_fmt(w);
    opennpu_code code = to > 5       ? OPENNPU_CODE_FUNCT3
                        : from > 5   ? OPENNPU_CODE_CVT_FORMAT
                        : to == from ? OPENNPU_CODE_CVT_SAME
                                     : OPENNPU_CODE_CVT_PAIR;
    why->code = &opennpu_codes[code];
    why->field = to > 5 ? OPENNPU_F_CVT_funct3 : OPENNPU_F_CVT_src_fmt;
    why->value = to > 5 ? to : from;
}

tv_isa tv_isa_opennpu = {
    .target = "opennpu",
    .title = "OpenNPU vector machine: 32-bit instructions, aliased VX/VE/VR registers, K x K matrix unit",
    .word_bits = 32,
    .formats = formats,
    .format_count = OPENNPU_FORMATS,
    .fields = fields,
    .field_count = OPENNPU_FIELDS,
    .insns = insns,
    .insn_count = OPENNPU_INSNS,
    .insn_room = TV_COUNTOF(insns),
    .alternates = alternates,
    .alternate_count = TV_COUNTOF(alternates),
    .codes = opennpu_codes,
    .code_count = OPENNPU_CODES,
    .index = {{0, 7}, {12, 3}}, /* the family and its operation */
    .register_code = &opennpu_codes[OPENNPU_CODE_REGISTER],
    .proposed_code = &opennpu_codes[OPENNPU_CODE_PROPOSED],
    .refine = refine_illegal_conversion,
    .has_nop = true,
    .nop = 0,
};
