/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on registers of 64 lanes. Registers of 8 and of 16 bit a lane stand as byte planes, rows of 64 bytes, the
 * low byte's first; registers of 32 bit as 64 little-endian lanes. Rows begin at multiples of 64 bytes. */
#ifndef TV_KERNELS_LANES_H
#define TV_KERNELS_LANES_H

#include "kernels/cpu.h"

typedef enum tv_lane_op {
    /* Integers; variant tv_lane_sized(). Shifts take the low bits of b. */
    TV_LANE_ADD,
    TV_LANE_SUB,
    TV_LANE_RSUB,
    TV_LANE_MUL,
    TV_LANE_NEG,
    TV_LANE_ABS,
    TV_LANE_MAX,
    TV_LANE_MIN,
    TV_LANE_SLL,
    TV_LANE_SRL,
    TV_LANE_SRA,
    TV_LANE_ROL,
    TV_LANE_XOR,
    TV_LANE_NOT,
    TV_LANE_OR,
    TV_LANE_AND,
    TV_LANE_MOVE,
    TV_LANE_FIRST, /* … lane 0 in every lane */
    /* Of all lanes of `a`, in every lane of 32 bit; variant tv_lane_sized() of `a`. */
    TV_LANE_SUM,
    TV_LANE_RMAX,
    TV_LANE_RMIN,
    TV_LANE_RAND,
    TV_LANE_ROR,
    TV_LANE_RXOR,
    TV_LANE_FILL, /* the immediate in every lane of 8 bit; variant 0 */
    /* Tier 2 FP32 (num/tier2.h); variant: the tv_round, 0 where there is none. */
    TV_LANE_FADD,
    TV_LANE_FSUB,
    TV_LANE_FMUL,
    TV_LANE_FMA,
    TV_LANE_FMS,
    TV_LANE_NFMA,
    TV_LANE_NFMS,
    TV_LANE_FNEG,
    TV_LANE_FABS,
    TV_LANE_FMAX,
    TV_LANE_FMIN,
    /* Conversions, named to_from; variant tv_lane_converted(). */
    TV_LANE_S8_S32,
    TV_LANE_S16_S32,
    TV_LANE_S32_S8,
    TV_LANE_S32_S16,
    TV_LANE_F32_S32,
    TV_LANE_F32_S8,
    TV_LANE_F32_BF16,
    TV_LANE_S32_F32,
    TV_LANE_S8_F32,
    TV_LANE_BF16_F32,
    /* A group of four rows from lanes to byte planes and back, in place: y is a; variant 0. */
    TV_LANE_SPLIT,
    TV_LANE_JOIN,
    /* Lanes of 16 bit in memory, at any address, to two byte planes and back; variant 0. */
    TV_LANE_UNZIP,
    TV_LANE_ZIP,
    TV_LANE_LOOKUP, /* byte a[i] of the 256 at b; variant 0 */
    TV_LANE_OPS
} tv_lane_op;

enum { TV_LANE_COUNT = 64, TV_LANE_VARIANTS = 8 };

static inline unsigned tv_lane_sized(unsigned class_, bool saturate)
{
    return 2 * class_ + saturate;
} /* 8 << class_ bits a lane */
static inline unsigned tv_lane_converted(bool saturate, unsigned round) { return 4 * (unsigned)saturate + round; }

/* y from as many of a, b, c and the immediate as the operation takes. All sources are read before y is written, so that
 * registers may overlap, as far as a row's bytes mean the same in both. */
typedef void (*tv_lanes_fn)(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, int imm);

/* The version for a host of this level; NULL: it has none of its own, and plain loops do as well. */
tv_lanes_fn tv_lanes_find(tv_cpu_level level, tv_lane_op op, unsigned variant);

#endif
