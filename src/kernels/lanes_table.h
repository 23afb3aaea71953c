/* SPDX-License-Identifier: Apache-2.0 */
/* The table of lanes.h, for a version that has all operations: functions by their names, of which the class, the
 * rounding direction and saturation are parts. TV_LANE_MOVE is not in it. Versions with fewer write theirs themselves.
 */
#ifndef TV_KERNELS_LANES_TABLE_H
#define TV_KERNELS_LANES_TABLE_H

#include "kernels/lanes.h"

#define SIZED(f)                                                                                                       \
    {                                                                                                                  \
        k_##f##_8, k_##f##_8, k_##f##_16, k_##f##_16, k_##f##_32, k_##f##_32                                           \
    }
#define SIZED_SAT(f)                                                                                                   \
    {                                                                                                                  \
        k_##f##_8, k_##f##s_8, k_##f##_16, k_##f##s_16, k_##f##_32, k_##f##s_32                                        \
    }
#define OF_CLASS(f)                                                                                                    \
    {                                                                                                                  \
        f##_8, f##_8, f##_16, f##_16, f##_32, f##_32                                                                   \
    }
#define ROUNDED(f)                                                                                                     \
    {                                                                                                                  \
        f##_0, f##_1, f##_2, f##_3                                                                                     \
    }
#define SAT_ROUNDED(f)                                                                                                 \
    {                                                                                                                  \
        f##_0, f##_1, f##_2, f##_3, f##_sat_0, f##_sat_1, f##_sat_2, f##_sat_3                                         \
    }

#define ALL_BUT_MOVES                                                                                                  \
    [TV_LANE_ADD] = SIZED_SAT(add), [TV_LANE_SUB] = SIZED_SAT(sub), [TV_LANE_RSUB] = SIZED_SAT(rsub),                  \
    [TV_LANE_MUL] = SIZED_SAT(mul), [TV_LANE_NEG] = SIZED_SAT(neg), [TV_LANE_ABS] = SIZED_SAT(abs),                    \
    [TV_LANE_MAX] = SIZED(max), [TV_LANE_MIN] = SIZED(min), [TV_LANE_SLL] = SIZED(sll), [TV_LANE_SRL] = SIZED(srl),    \
    [TV_LANE_SRA] = SIZED(sra), [TV_LANE_ROL] = SIZED(rol), [TV_LANE_XOR] = SIZED(xor), [TV_LANE_NOT] = SIZED(not ),   \
    [TV_LANE_OR] = SIZED(or), [TV_LANE_AND] = SIZED(and), [TV_LANE_FIRST] = OF_CLASS(first),                           \
    [TV_LANE_FILL] = {fill_8}, [TV_LANE_SUM] = OF_CLASS(sum), [TV_LANE_RMAX] = OF_CLASS(rmax),                         \
    [TV_LANE_RMIN] = OF_CLASS(rmin), [TV_LANE_RAND] = OF_CLASS(rand), [TV_LANE_ROR] = OF_CLASS(ror),                   \
    [TV_LANE_RXOR] = OF_CLASS(rxor), [TV_LANE_FADD] = ROUNDED(fadd), [TV_LANE_FSUB] = ROUNDED(fsub),                   \
    [TV_LANE_FMUL] = ROUNDED(fmul), [TV_LANE_FMA] = ROUNDED(fma), [TV_LANE_FMS] = ROUNDED(fms),                        \
    [TV_LANE_NFMA] = ROUNDED(nfma), [TV_LANE_NFMS] = ROUNDED(nfms), [TV_LANE_FNEG] = {fneg}, [TV_LANE_FABS] = {fabs_}, \
    [TV_LANE_FMAX] = {fmax_}, [TV_LANE_FMIN] = {fmin_}, [TV_LANE_S8_S32] = {s8_s32, [4] = s8_s32_sat},                 \
    [TV_LANE_S16_S32] = {s16_s32, [4] = s16_s32_sat}, [TV_LANE_S32_S8] = {s32_s8}, [TV_LANE_S32_S16] = {s32_s16},      \
    [TV_LANE_F32_S8] = {f32_s8}, [TV_LANE_F32_BF16] = {f32_bf16}, [TV_LANE_F32_S32] = ROUNDED(f32_s32),                \
    [TV_LANE_S32_F32] = SAT_ROUNDED(s32_f32), [TV_LANE_S8_F32] = SAT_ROUNDED(s8_f32),                                  \
    [TV_LANE_BF16_F32] = ROUNDED(bf16_f32), [TV_LANE_SPLIT] = {split}, [TV_LANE_JOIN] = {join},                        \
    [TV_LANE_UNZIP] = {unzip}, [TV_LANE_ZIP] = {zip}, [TV_LANE_LOOKUP] = {lookup}

#endif
