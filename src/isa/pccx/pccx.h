/* SPDX-License-Identifier: Apache-2.0 */
/* The pccx v002 instruction set for C code: enumerations and field accessors made from its tables.
 *
 * pccx_MATRIX_dest_reg(word) reads a field; PCCX_F_MATRIX_dest_reg is its index; PCCX_GEMV is a row of insns.def. */
#ifndef TV_ISA_PCCX_PCCX_H
#define TV_ISA_PCCX_PCCX_H

#include "isa/isa.h"

enum { PCCX_TAG_FIFO = 0x1FFFF, PCCX_CACHE_ENTRIES = 64, PCCX_FMAP_SHAPE = 0, PCCX_WEIGHT_SHAPE = 1 };

enum pccx_stream { PCCX_STREAM_GEMM, PCCX_STREAM_GEMV, PCCX_STREAMS };

enum pccx_format {
#define TV_FORMAT(id) PCCX_FORMAT_##id,
#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc)
#define TV_RESERVED(format, name, hi, lo)
#define TV_JOINED(format, name, high, low, kind, doc)
#include "isa/pccx/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_RESERVED
#undef TV_JOINED
    PCCX_FORMATS
};

enum pccx_field {
#define TV_FORMAT(id)
#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc) PCCX_F_##format##_##name,
#define TV_RESERVED(format, name, hi, lo) PCCX_F_##format##_##name,
#define TV_JOINED(format, name, high, low, kind, doc) PCCX_F_##format##_##name,
#include "isa/pccx/fields.def"
#undef TV_FIELD
#undef TV_RESERVED
#undef TV_JOINED
    PCCX_FIELDS
};

#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc)                                                      \
    static inline uint32_t pccx_##format##_##name(uint64_t word)                                                       \
    {                                                                                                                  \
        return (uint32_t)(word >> (lo)&tv_mask((hi) - (lo) + 1));                                                      \
    }
#define TV_RESERVED(format, name, hi, lo)
#define TV_JOINED(format, name, high, low, kind, doc)
#include "isa/pccx/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_RESERVED
#undef TV_JOINED

typedef enum pccx_insn {
#define TV_INSN(id, mnemonic, format, fixed, operands, unit, uops, meaning, source) PCCX_##id,
#include "isa/pccx/insns.def"
#undef TV_INSN
    PCCX_INSNS
} pccx_insn;

typedef enum pccx_code {
#define TV_CODE_ROW(id, code, name, text) PCCX_CODE_##id,
#include "isa/pccx/codes.def"
#undef TV_CODE_ROW
    PCCX_CODES
} pccx_code;

extern const tv_code pccx_codes[PCCX_CODES];
extern tv_isa tv_isa_pccx; /* constant but for extensions */

#endif
