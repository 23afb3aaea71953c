/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel does an operation's work on 64 lanes, and in which forms it takes the groups of registers. */
#include "machine/opennpu/machine.h"

/* How an operation names its variant. */
typedef enum variant { NONE, SIZED, OF_ROUND, CONVERTED, ONE } variant;

static const struct {
    uint8_t variant, op;
} kernels[OPENNPU_INSNS] = {
    [OPENNPU_VADD] = {SIZED, TV_LANE_ADD},
    [OPENNPU_VSUB] = {SIZED, TV_LANE_SUB},
    [OPENNPU_VRSUB] = {SIZED, TV_LANE_RSUB},
    [OPENNPU_VMUL] = {SIZED, TV_LANE_MUL},
    [OPENNPU_VNEG] = {SIZED, TV_LANE_NEG},
    [OPENNPU_VABS] = {SIZED, TV_LANE_ABS},
    [OPENNPU_VMAX] = {SIZED, TV_LANE_MAX},
    [OPENNPU_VMIN] = {SIZED, TV_LANE_MIN},
    [OPENNPU_VSLL] = {SIZED, TV_LANE_SLL},
    [OPENNPU_VSRL] = {SIZED, TV_LANE_SRL},
    [OPENNPU_VSRA] = {SIZED, TV_LANE_SRA},
    [OPENNPU_VROL] = {SIZED, TV_LANE_ROL},
    [OPENNPU_VXOR] = {SIZED, TV_LANE_XOR},
    [OPENNPU_VNOT] = {SIZED, TV_LANE_NOT},
    [OPENNPU_VOR] = {SIZED, TV_LANE_OR},
    [OPENNPU_VAND] = {SIZED, TV_LANE_AND},
    [OPENNPU_MOV] = {SIZED, TV_LANE_MOVE},
    [OPENNPU_BCAST_REG] = {SIZED, TV_LANE_FIRST},
    [OPENNPU_BCAST_IMM] = {ONE, TV_LANE_FILL},
    [OPENNPU_VSUM] = {SIZED, TV_LANE_SUM},
    [OPENNPU_VRMAX] = {SIZED, TV_LANE_RMAX},
    [OPENNPU_VRMIN] = {SIZED, TV_LANE_RMIN},
    [OPENNPU_VRAND] = {SIZED, TV_LANE_RAND},
    [OPENNPU_VROR] = {SIZED, TV_LANE_ROR},
    [OPENNPU_VRXOR] = {SIZED, TV_LANE_RXOR},
    [OPENNPU_VFADD] = {OF_ROUND, TV_LANE_FADD},
    [OPENNPU_VFSUB] = {OF_ROUND, TV_LANE_FSUB},
    [OPENNPU_VFMUL] = {OF_ROUND, TV_LANE_FMUL},
    [OPENNPU_VFNEG] = {ONE, TV_LANE_FNEG},
    [OPENNPU_VFABS] = {ONE, TV_LANE_FABS},
    [OPENNPU_VFMAX] = {ONE, TV_LANE_FMAX},
    [OPENNPU_VFMIN] = {ONE, TV_LANE_FMIN},
    [OPENNPU_VFMA] = {OF_ROUND, TV_LANE_FMA},
    [OPENNPU_VFMS] = {OF_ROUND, TV_LANE_FMS},
    [OPENNPU_VNFMA] = {OF_ROUND, TV_LANE_NFMA},
    [OPENNPU_VNFMS] = {OF_ROUND, TV_LANE_NFMS},
    [OPENNPU_VCVT_S8_S32] = {CONVERTED, TV_LANE_S8_S32},
    [OPENNPU_VCVT_S32_S8] = {ONE, TV_LANE_S32_S8},
    [OPENNPU_VCVT_F32_S32] = {OF_ROUND, TV_LANE_F32_S32},
    [OPENNPU_VCVT_S32_F32] = {CONVERTED, TV_LANE_S32_F32},
    [OPENNPU_VCVT_F32_S8] = {ONE, TV_LANE_F32_S8},
    [OPENNPU_VCVT_S8_F32] = {CONVERTED, TV_LANE_S8_F32},
    [OPENNPU_VCVT_F32_BF16] = {ONE, TV_LANE_F32_BF16},
    [OPENNPU_VCVT_BF16_F32] = {OF_ROUND, TV_LANE_BF16_F32},
    [OPENNPU_VCVT_S16_S32] = {CONVERTED, TV_LANE_S16_S32},
    [OPENNPU_VCVT_S32_S16] = {ONE, TV_LANE_S32_S16},
};

static tv_lanes_fn kernel_of(tv_cpu_level level, const opennpu_op *op)
{
    tv_lane_op lane_op = (tv_lane_op)kernels[op->insn].op;
    switch ((variant)kernels[op->insn].variant) {
    case SIZED:
        return tv_lanes_find(level, lane_op, tv_lane_sized(op->class_, op->sat));
    case OF_ROUND:
        return tv_lanes_find(level, lane_op, op->round);
    case CONVERTED:
        return tv_lanes_find(level, lane_op, tv_lane_converted(op->sat, op->round));
    case ONE:
        return tv_lanes_find(level, lane_op, 0);
    default:
        return NULL;
    }
}

void opennpu_find_kernel(const opennpu_machine *m, opennpu_op *op)
{
    if (m->k != TV_LANE_COUNT)
        return;
    op->kernel = kernel_of(m->level, op);
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++) {
        uint8_t group = (uint8_t)(1u << op->rows[r].first / 4);
        if (!((op->reads | op->writes) >> r & 1))
            continue;
        if (op->rows[r].count < 4)
            op->planes |= group;
        else if (op->reads >> r & 1)
            op->lanes |= group;
        else
            op->widened |= group;
    }
    if (op->planes & op->lanes) /* parts of a register go into others of its group */
        op->kernel = NULL;
}
