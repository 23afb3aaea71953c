/* SPDX-License-Identifier: Apache-2.0 */
/* FP32 functions from additions, products and shifts: byte tables are too coarse for norms and softmax. */
#include "lower/opennpu/emit.h"

static const unsigned const_reg[2] = {OPENNPU_LOWER_VR_W, OPENNPU_LOWER_VR_W};

static void emit_each(opennpu_lower_emitter *e, unsigned count, opennpu_insn op, const unsigned rd[2],
                      const unsigned rs1[2], const unsigned rs2[2])
{
    for (unsigned v = 0; v < count; v++)
        if (op == OPENNPU_VADD || op == OPENNPU_VSUB || op == OPENNPU_VSLL)
            opennpu_lower_emit_vr(e, op, rd[v], rs1[v], rs2[v]);
        else
            opennpu_lower_emit(e, op, rd[v], rs1[v], rs2[v]);
}

void opennpu_lower_each_const(opennpu_lower_emitter *e, unsigned count, opennpu_insn op, const unsigned rd[2],
                              const unsigned rs1[2], uint32_t bits)
{
    opennpu_lower_set(e, OPENNPU_LOWER_VR_W, bits);
    emit_each(e, count, op, rd, rs1, const_reg);
}

void opennpu_lower_each_vector(opennpu_lower_emitter *e, unsigned count, opennpu_insn op, const unsigned rd[2],
                               const unsigned rs1[2], uint64_t address)
{
    opennpu_lower_load(e, OPENNPU_VR, OPENNPU_LOWER_VR_W, OPENNPU_LOWER_VR_X, address);
    emit_each(e, count, op, rd, rs1, const_reg);
}

/* x = i + r: 2^r by a polynomial on [-1/2, 1/2], i added to its exponent. Adding 1.5 * 2^23 rounds x and leaves i in
 * the low bits. */
void opennpu_lower_exp2(opennpu_lower_emitter *e, unsigned count)
{
    static const uint32_t terms[] = {OPENNPU_CONST_EXP_3, OPENNPU_CONST_EXP_2, OPENNPU_CONST_EXP_1, OPENNPU_CONST_F_1};
    opennpu_lower_set(e, OPENNPU_LOWER_VR_W, OPENNPU_CONST_F_MAGIC);
    for (unsigned v = 0; v < count; v++)
        opennpu_lower_emit(e, OPENNPU_VFADD, opennpu_lower_tmp[v], opennpu_lower_arg[v], OPENNPU_LOWER_VR_W);
    for (unsigned v = 0; v < count; v++)
        opennpu_lower_emit(e, OPENNPU_VFSUB, opennpu_lower_res[v], opennpu_lower_tmp[v], OPENNPU_LOWER_VR_W);
    emit_each(e, count, OPENNPU_VFSUB, opennpu_lower_arg, opennpu_lower_arg, opennpu_lower_res);
    opennpu_lower_each_const(e, count, OPENNPU_VFMUL, opennpu_lower_res, opennpu_lower_arg, OPENNPU_CONST_EXP_5);
    opennpu_lower_each_const(e, count, OPENNPU_VFADD, opennpu_lower_res, opennpu_lower_res, OPENNPU_CONST_EXP_4);
    for (unsigned i = 0; i < TV_COUNTOF(terms); i++) {
        opennpu_lower_set(e, OPENNPU_LOWER_VR_W, terms[i]);
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, opennpu_lower_res[v], opennpu_lower_res[v], opennpu_lower_arg[v],
                                   OPENNPU_LOWER_VR_W);
    }
    opennpu_lower_each_const(e, count, OPENNPU_VSLL, opennpu_lower_tmp, opennpu_lower_tmp, OPENNPU_CONST_SHIFT_23);
    emit_each(e, count, OPENNPU_VADD, opennpu_lower_res, opennpu_lower_res, opennpu_lower_tmp);
}

/* Three Newton iterations from a seed within 12 %. */
void opennpu_lower_reciprocal(opennpu_lower_emitter *e, unsigned count)
{
    opennpu_lower_set(e, OPENNPU_LOWER_VR_W, OPENNPU_CONST_RECIPROCAL_SEED);
    for (unsigned v = 0; v < count; v++)
        opennpu_lower_emit_vr(e, OPENNPU_VSUB, opennpu_lower_res[v], OPENNPU_LOWER_VR_W, opennpu_lower_arg[v]);
    opennpu_lower_set(e, OPENNPU_LOWER_VR_W, OPENNPU_CONST_F_2);
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned v = 0; v < count; v++)
            opennpu_lower_emit_fma(e, OPENNPU_VNFMA, opennpu_lower_tmp[v], opennpu_lower_arg[v], opennpu_lower_res[v],
                                   OPENNPU_LOWER_VR_W);
        emit_each(e, count, OPENNPU_VFMUL, opennpu_lower_res, opennpu_lower_res, opennpu_lower_tmp);
    }
}

/* The reduction sums integers: the lanes are first scaled by the power of two that brings the maximum just below
 * 2^24. */
void opennpu_lower_sum_lanes(opennpu_lower_emitter *e, bool is_signed)
{
    if (is_signed)
        opennpu_lower_emit(e, OPENNPU_VFABS, 1, 0, 0);
    /* non-negative numbers compare like their bits */
    opennpu_lower_emit_sized(e, OPENNPU_VRMAX, OPENNPU_VR, 1, is_signed ? 1 : 0, 0);
    opennpu_lower_set(e, 2, OPENNPU_CONST_EXPONENT);
    opennpu_lower_set(e, 3, OPENNPU_CONST_SIGN | OPENNPU_CONST_SUM_UP);
    opennpu_lower_emit_vr(e, OPENNPU_VAND, 1, 1, 2);
    opennpu_lower_emit_vr(e, OPENNPU_VSUB, 3, 3, 1);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 3);
    opennpu_lower_set(e, 2, OPENNPU_CONST_SUM_DOWN);
    opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 0, 0, 0);
    opennpu_lower_emit_sized(e, OPENNPU_VSUM, OPENNPU_VR, 0, 0, 0);
    opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 0, 0, 0);
    opennpu_lower_emit_vr(e, OPENNPU_VSUB, 1, 1, 2);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 1);
}

void opennpu_lower_rsqrt_mean(opennpu_lower_emitter *e, uint32_t dim, float eps)
{
    opennpu_lower_set(e, 1, tv_f32_bits(1 / (float)dim));
    opennpu_lower_set(e, 2, tv_f32_bits(eps));
    opennpu_lower_set(e, 3, OPENNPU_CONST_ONE_BIT);
    opennpu_lower_emit_fma(e, OPENNPU_VFMA, 0, 0, 1, 2);
    opennpu_lower_set(e, 2, OPENNPU_CONST_RSQRT_SEED);
    opennpu_lower_emit_vr(e, OPENNPU_VSRL, 1, 0, 3);
    opennpu_lower_emit_vr(e, OPENNPU_VSUB, 7, 2, 1);
    opennpu_lower_set(e, 1, OPENNPU_CONST_F_HALF);
    opennpu_lower_set(e, 3, OPENNPU_CONST_F_3_HALVES);
    opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 1);
    for (unsigned i = 0; i < 3; i++) {
        opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 7, 7);
        opennpu_lower_emit_fma(e, OPENNPU_VNFMA, 2, 0, 2, 3);
        opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 7, 2);
    }
}
