/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenNPU instruction set for C code: enumerations and field accessors made from its tables.
 *
 * opennpu_R_rs1(word) reads a field; OPENNPU_F_R_rs1 is its index; OPENNPU_VADD is a row of insns.def. */
#ifndef TV_ISA_OPENNPU_OPENNPU_H
#define TV_ISA_OPENNPU_OPENNPU_H

#include "isa/isa.h"

/* Register classes, as the width field counts them: a register of class c has 8 << c bits a lane. */
typedef enum opennpu_class { OPENNPU_VX, OPENNPU_VE, OPENNPU_VR, OPENNPU_CLASSES } opennpu_class;

enum { OPENNPU_LUT_ENTRIES = 256 };

enum opennpu_format {
#define TV_FORMAT(id) OPENNPU_FORMAT_##id,
#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc)
#define TV_JOINED(format, name, high, low, kind, doc)
#include "isa/opennpu/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_JOINED
    OPENNPU_FORMATS
};

enum opennpu_field {
#define TV_FORMAT(id)
#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc) OPENNPU_F_##format##_##name,
#define TV_JOINED(format, name, high, low, kind, doc) OPENNPU_F_##format##_##name,
#include "isa/opennpu/fields.def"
#undef TV_FIELD
#undef TV_JOINED
    OPENNPU_FIELDS
};

/* Lowest bits of the fields, for code that makes words. */
enum opennpu_lo {
#define TV_FORMAT(id)
#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc) OPENNPU_LO_##format##_##name = (lo),
#define TV_JOINED(format, name, high, low, kind, doc)
#include "isa/opennpu/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_JOINED
};

#define TV_FORMAT(id)
#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc)                                                      \
    static inline uint32_t opennpu_##format##_##name(uint32_t word)                                                    \
    {                                                                                                                  \
        return word >> (lo) & (uint32_t)tv_mask((hi) - (lo) + 1);                                                      \
    }
#define TV_JOINED(format, name, high, low, kind, doc)
#include "isa/opennpu/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_JOINED

typedef enum opennpu_insn {
#define TV_INSN(id, mnemonic, format, fixed, operands, attributes, unit, meaning, source) OPENNPU_##id,
#include "isa/opennpu/insns.def"
#undef TV_INSN
    OPENNPU_INSNS
} opennpu_insn;

typedef enum opennpu_code {
#define TV_CODE_ROW(id, code, name, text) OPENNPU_CODE_##id,
#include "isa/opennpu/codes.def"
#undef TV_CODE_ROW
    OPENNPU_CODES
} opennpu_code;

extern const tv_code opennpu_codes[OPENNPU_CODES];
extern tv_isa tv_isa_opennpu; /* constant but for extensions */

#endif
