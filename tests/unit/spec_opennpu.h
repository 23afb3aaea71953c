/* SPDX-License-Identifier: Apache-2.0 */
/* An independent decoder of OpenNPU instruction words, typed from section 2 of the specification for a machine of 32
 * VX: all rules that a word violates, the bits that its instruction uses, and the id of the instruction. It shares
 * nothing with the tables. */
#ifndef TV_TESTS_SPEC_OPENNPU_H
#define TV_TESTS_SPEC_OPENNPU_H

#include <stddef.h>
#include <stdint.h>

/* Bit n - 1 of a set of faults stands for code TV-N00n. */
enum {
    N_OPCODE = 1,
    N_FUNCT3 = 2,
    N_WIDTH = 4,
    N_DTYPE = 8,
    N_CVT_SAME = 16,
    N_CVT_FORMAT = 32,
    N_CVT_PAIR = 64,
    N_REGISTER = 128
};

enum {
    U_OPCODE = 0x7F,
    U_RD = 0x1F << 7,
    U_FUNCT3 = 7 << 12,
    U_RS1 = 0x1F << 15,
    U_RS2 = 0x1F << 20,
    U_WIDTH = 3 << 25
};
#define U_ROUND (UINT32_C(3) << 27)
#define U_SAT (UINT32_C(1) << 29)
#define U_IMM (UINT32_C(0xFFF) << 20)

typedef struct spec_insn {
    unsigned faults;
    uint32_t used;  /* without faults only */
    const char *id; /* without faults only */
} spec_insn;

static inline uint32_t spec_bits(uint32_t word, unsigned hi, unsigned lo)
{
    return word << (31 - hi) >> (31 - hi + lo);
}

/* Class 0 VX, 1 VE, 2 VR; class 3 is none. */
static inline unsigned spec_reg(uint32_t word, unsigned lo, unsigned reg_class)
{
    return reg_class < 3 && spec_bits(word, lo + 4, lo) >= 32u >> reg_class ? N_REGISTER : 0;
}

enum { AT_RD = 7, AT_RS1 = 15, AT_RS2 = 20, AT_RS3 = 27 };

/* Conversions by pair of formats: s8, s16, s32, f32, bf16, bf8, whose register classes class_of lists. */
static inline spec_insn spec_cvt(uint32_t word)
{
    static const unsigned char class_of[6] = {0, 1, 2, 2, 1, 0};
    static const struct {
        unsigned char to, from, sat, round, variant;
        const char *id;
    } pairs[] = {
        {0, 2, 1, 0, 0, "VCVT_S8_S32"},   {2, 0, 0, 0, 0, "VCVT_S32_S8"},   {3, 2, 0, 1, 0, "VCVT_F32_S32"},
        {2, 3, 1, 1, 0, "VCVT_S32_F32"},  {3, 0, 0, 0, 0, "VCVT_F32_S8"},   {0, 3, 1, 1, 0, "VCVT_S8_F32"},
        {3, 4, 0, 0, 0, "VCVT_F32_BF16"}, {4, 3, 0, 1, 0, "VCVT_BF16_F32"}, {3, 5, 0, 0, 1, "VCVT_F32_BF8"},
        {5, 3, 0, 1, 1, "VCVT_BF8_F32"},  {1, 2, 1, 0, 0, "VCVT_S16_S32"},  {2, 1, 0, 0, 0, "VCVT_S32_S16"},
    };
    spec_insn insn = {0, 0, NULL};
    uint32_t to = spec_bits(word, 14, 12), from = spec_bits(word, 27, 25);
    if (to > 5)
        insn.faults |= N_FUNCT3 | N_CVT_FORMAT;
    if (from > 5)
        insn.faults |= N_CVT_FORMAT;
    if (to == from)
        insn.faults |= N_CVT_SAME;
    if (to <= 5)
        insn.faults |= spec_reg(word, AT_RD, class_of[to]);
    if (from <= 5)
        insn.faults |= spec_reg(word, AT_RS1, class_of[from]);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].to == to && pairs[i].from == from) {
            insn.id = pairs[i].id;
            insn.used = U_OPCODE | U_RD | U_FUNCT3 | U_RS1 | UINT32_C(7) << 25 | (uint32_t)pairs[i].sat << 28 |
                        (uint32_t)(pairs[i].round * 3u) << 29 | (uint32_t)pairs[i].variant << 31;
            return insn;
        }
    if (!(insn.faults & (N_FUNCT3 | N_CVT_FORMAT | N_CVT_SAME)))
        insn.faults |= N_CVT_PAIR;
    return insn;
}

static inline spec_insn spec_decode(uint32_t word)
{
    static const char *const ld[] = {"LD_B", "LD_H", "LD_W", "LD_VX", "LD_VE", "LD_VR"},
                             *const st[] = {"ST_B", "ST_H", "ST_W", "ST_VX", "ST_VE", "ST_VR"},
                             *const arith[] = {"VADD", "VSUB", "VMUL", "VNEG", "VABS", "VMAX", "VMIN", "VRSUB"},
                             *const logic[] = {"VSLL", "VSRL", "VSRA", "VROL", "VXOR", "VNOT", "VOR", "VAND"},
                             *const reduce[] = {"VSUM", "VRMAX", "VRMIN", "VRAND", "VROR", "VRXOR"},
                             *const lut[] = {"VLUT_A", "VLUT_B", NULL, NULL, "VSETLUT_A", "VSETLUT_B"},
                             *const bcast[] = {"BCAST_REG", "BCAST_IMM"}, *const fp[] = {"VFADD", "VFSUB", "VFMUL",
                                                                                         "VFNEG", "VFABS", "VFMAX",
                                                                                         "VFMIN"},
                             *const fma_[] = {"VFMA", "VFMS", "VNFMA", "VNFMS"}, *const mov[] = {"MOV", "MOVI", "MOVH"};
    uint32_t op = spec_bits(word, 6, 0), f3 = spec_bits(word, 14, 12), width = spec_bits(word, 26, 25);
    unsigned attributes =
        (width == 3 ? N_WIDTH : 0u) | (spec_bits(word, 31, 30) == 3 ? N_DTYPE : 0u); /* of an R-type */
    spec_insn insn = {0, U_OPCODE | U_FUNCT3, NULL};
    switch (op) {
    case 0x00:
        return (spec_insn){0, U_OPCODE, "NOP"};
    case 0x01:
    case 0x02:
        if (f3 > 5) /* rs1 is a VR for each funct3 */
            return (spec_insn){N_FUNCT3 | spec_reg(word, AT_RS1, 2), 0, NULL};
        insn.id = op == 1 ? ld[f3] : st[f3];
        insn.faults = spec_reg(word, AT_RD, f3 % 3) | spec_reg(word, AT_RS1, 2);
        insn.used = UINT32_MAX;
        return insn;
    case 0x03: {
        uint32_t last = f3 == 1, keep = spec_bits(word, 29, 29);
        insn.faults = attributes | (f3 > 2 ? N_FUNCT3 : 0u) | (last ? spec_reg(word, AT_RD, 2) : 0);
        insn.id = f3 == 0 ? "MMA" : f3 == 2 ? "MMA_RESET" : keep ? "MMA_LAST_KEEP" : "MMA_LAST";
        insn.used |= (f3 < 2 ? U_SAT : 0) | (last ? U_RD : 0u) | (f3 == 0 || (last && keep) ? U_RS1 | U_RS2 : 0u);
        return insn;
    }
    case 0x10:
    case 0x11: {
        int unary = op == 0x10 ? f3 == 3 || f3 == 4 : f3 == 5;
        insn.id = op == 0x10 ? arith[f3] : logic[f3];
        insn.faults = attributes | spec_reg(word, AT_RD, width) | spec_reg(word, AT_RS1, width) |
                      (unary ? 0 : spec_reg(word, AT_RS2, width));
        insn.used |= U_WIDTH | U_RD | U_RS1 | (unary ? 0u : U_RS2) | (op == 0x10 && f3 != 5 && f3 != 6 ? U_SAT : 0);
        return insn;
    }
    case 0x12:
        insn.faults = attributes | (f3 > 5 ? N_FUNCT3 : 0u) | spec_reg(word, AT_RD, 2) | spec_reg(word, AT_RS1, width);
        insn.id = f3 > 5 ? NULL : reduce[f3];
        insn.used |= U_WIDTH | U_RD | U_RS1;
        return insn;
    case 0x13:
        if (f3 == 2 || f3 == 3 || f3 > 5)
            return (spec_insn){N_FUNCT3, 0, NULL};
        insn.id = lut[f3];
        insn.faults = f3 < 2 ? attributes : spec_reg(word, AT_RS1, 2);
        insn.used |= U_RS1 | (f3 < 2 ? U_RD : U_IMM);
        return insn;
    case 0x14:
        return spec_cvt(word);
    case 0x15:
    case 0x18:
        if (f3 > (op == 0x15 ? 1u : 2u))
            return (spec_insn){N_FUNCT3, 0, NULL};
        insn.id = op == 0x15 ? bcast[f3] : mov[f3];
        if (f3 == 0) {
            insn.faults = attributes | spec_reg(word, AT_RD, width) | spec_reg(word, AT_RS1, width);
            insn.used |= U_WIDTH | U_RD | U_RS1;
        } else {
            insn.faults = spec_reg(word, AT_RD, f3 == 2 ? 1 : 0);
            insn.used |= U_IMM | U_RD;
        }
        return insn;
    case 0x16: {
        int unary = f3 == 3 || f3 == 4;
        insn.faults = attributes | (f3 > 6 ? N_FUNCT3 : 0u) | spec_reg(word, AT_RD, 2) | spec_reg(word, AT_RS1, 2) |
                      (unary ? 0 : spec_reg(word, AT_RS2, 2));
        insn.id = f3 > 6 ? NULL : fp[f3];
        insn.used |= U_RD | U_RS1 | (unary ? 0u : U_RS2) | (f3 < 3 ? U_ROUND : 0);
        return insn;
    }
    case 0x17:
        insn.faults = (f3 > 3 ? N_FUNCT3 : 0u) | spec_reg(word, AT_RD, 2) | spec_reg(word, AT_RS1, 2) |
                      spec_reg(word, AT_RS2, 2) | spec_reg(word, AT_RS3, 2);
        insn.id = f3 > 3 ? NULL : fma_[f3];
        insn.used = UINT32_MAX;
        return insn;
    default:
        return (spec_insn){N_OPCODE, 0, NULL};
    }
}

#endif
