/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of FP32 from additions, products and shifts: tables of bytes are too coarse for norms and softmax. */
#include "lower/opennpu/emit.h"

static const unsigned same[2] = {NPU_W, NPU_W};

static void between(npu *n, unsigned count, npu_op op, const unsigned rd[2], const unsigned rs1[2],
                    const unsigned rs2[2])
{
    for (unsigned v = 0; v < count; v++)
        if (op == NPU_VADD || op == NPU_VSUB || op == NPU_VSLL)
            npu_int(n, op, rd[v], rs1[v], rs2[v]);
        else
            npu_plain(n, op, rd[v], rs1[v], rs2[v]);
}

void npu_each(npu *n, unsigned count, npu_op op, const unsigned rd[2], const unsigned rs1[2], uint32_t bits)
{
    npu_set(n, NPU_W, bits);
    between(n, count, op, rd, rs1, same);
}

void npu_each_at(npu *n, unsigned count, npu_op op, const unsigned rd[2], const unsigned rs1[2], uint64_t address)
{
    npu_load(n, NPU_VR, NPU_W, NPU_X, address);
    between(n, count, op, rd, rs1, same);
}

/* x = i + r: 2^r by a polynomial on [-1/2, 1/2], i added to its exponent. Adding 1.5 * 2^23 rounds, and leaves i in the
 * low bits. */
void npu_exp2(npu *n, unsigned count)
{
    static const uint32_t terms[] = {NPU_C_EXP_3, NPU_C_EXP_2, NPU_C_EXP_1, NPU_C_F_1};
    npu_set(n, NPU_W, NPU_C_F_MAGIC);
    for (unsigned v = 0; v < count; v++)
        npu_plain(n, NPU_VFADD, npu_tmp[v], npu_arg[v], NPU_W);
    for (unsigned v = 0; v < count; v++)
        npu_plain(n, NPU_VFSUB, npu_res[v], npu_tmp[v], NPU_W);
    between(n, count, NPU_VFSUB, npu_arg, npu_arg, npu_res);
    npu_each(n, count, NPU_VFMUL, npu_res, npu_arg, NPU_C_EXP_5);
    npu_each(n, count, NPU_VFADD, npu_res, npu_res, NPU_C_EXP_4);
    for (unsigned i = 0; i < TV_COUNTOF(terms); i++) {
        npu_set(n, NPU_W, terms[i]);
        for (unsigned v = 0; v < count; v++)
            npu_fma(n, NPU_VFMA, npu_res[v], npu_res[v], npu_arg[v], NPU_W);
    }
    npu_each(n, count, NPU_VSLL, npu_tmp, npu_tmp, NPU_C_SHIFT_23);
    between(n, count, NPU_VADD, npu_res, npu_res, npu_tmp);
}

/* Newton's steps from a guess that is 12 % off at most. */
void npu_reciprocal(npu *n, unsigned count)
{
    npu_set(n, NPU_W, NPU_C_RECIPROCAL_SEED);
    for (unsigned v = 0; v < count; v++)
        npu_int(n, NPU_VSUB, npu_res[v], NPU_W, npu_arg[v]);
    npu_set(n, NPU_W, NPU_C_F_2);
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned v = 0; v < count; v++)
            npu_fma(n, NPU_VNFMA, npu_tmp[v], npu_arg[v], npu_res[v], NPU_W);
        between(n, count, NPU_VFMUL, npu_res, npu_res, npu_tmp);
    }
}

/* The sum of lanes is one of integers: all are first scaled by the power of two that brings the largest just under
 * 2^24. */
void npu_sum_lanes(npu *n)
{
    npu_sized(n, NPU_VRMAX, NPU_VR, 1, 0, 0); /* numbers that are not negative compare like their bits */
    npu_set(n, 2, NPU_C_EXPONENT);
    npu_set(n, 3, NPU_SIGN | NPU_C_SUM_UP);
    npu_int(n, NPU_VAND, 1, 1, 2);
    npu_int(n, NPU_VSUB, 3, 3, 1);
    npu_plain(n, NPU_VFMUL, 0, 0, 3);
    npu_set(n, 2, NPU_C_SUM_DOWN);
    npu_plain(n, NPU_VCVT_S32_F32, 0, 0, 0);
    npu_sized(n, NPU_VSUM, NPU_VR, 0, 0, 0);
    npu_plain(n, NPU_VCVT_F32_S32, 0, 0, 0);
    npu_int(n, NPU_VSUB, 1, 1, 2);
    npu_plain(n, NPU_VFMUL, 0, 0, 1);
}

void npu_rsqrt_mean(npu *n)
{
    npu_set(n, 1, n->inverse_dim);
    npu_set(n, 2, n->eps);
    npu_set(n, 3, NPU_C_ONE_BIT);
    npu_fma(n, NPU_VFMA, 0, 0, 1, 2);
    npu_set(n, 2, NPU_C_RSQRT_SEED);
    npu_int(n, NPU_VSRL, 1, 0, 3);
    npu_int(n, NPU_VSUB, 7, 2, 1);
    npu_set(n, 1, NPU_C_F_HALF);
    npu_set(n, 3, NPU_C_F_3_HALVES);
    npu_plain(n, NPU_VFMUL, 0, 0, 1);
    for (unsigned i = 0; i < 3; i++) {
        npu_plain(n, NPU_VFMUL, 2, 7, 7);
        npu_fma(n, NPU_VNFMA, 2, 0, 2, 3);
        npu_plain(n, NPU_VFMUL, 7, 7, 2);
    }
}
