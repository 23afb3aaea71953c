/* SPDX-License-Identifier: Apache-2.0 */
/* SIMD kernels on registers of 64 lanes. Registers of 8 and of 16 bits a lane are byte planes: rows of 64 bytes, the
 * row of the low bytes first; registers of 32 bits are 64 little-endian lanes. Rows are aligned to 64 bytes. */
#ifndef TV_KERNELS_LANES_H
#define TV_KERNELS_LANES_H

#include "kernels/cpu.h"

typedef enum tv_lane_op {
    TV_LANE_NONE, /* no operation: it has no variants */
#define TV_LANE(id, selection, avx2, avx512, neon) TV_LANE_##id,
#include "kernels/lanes.def"
#undef TV_LANE
    TV_LANE_OPS
} tv_lane_op;

enum { TV_LANE_COUNT = 64, TV_LANE_VARIANTS = 8 };

/* Computes y from those of a, b, c and the immediate that the operation uses. Sources are read before y is written, so
 * registers may overlap as long as both interpret the bytes of a common row alike: as a byte plane, or as lanes. */
typedef void (*tv_lanes_fn)(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, int imm);

/* The functions of a level; NULL where it has none. */
typedef struct tv_lanes_set {
    tv_lanes_fn functions[TV_LANE_OPS][TV_LANE_VARIANTS];
} tv_lanes_set;

/* The kernels of the highest level up to `level` that has any, or NULL. */
const tv_lanes_set *tv_lanes(tv_cpu_level level);

/* Index of the function for 8 << class_ bits a lane, saturation and the rounding mode, as far as `op` depends on them.
 */
unsigned tv_lane_variant(tv_lane_op op, unsigned class_, bool saturate, unsigned round);

/* Its function of this operation and variant, or NULL. */
static inline tv_lanes_fn tv_lanes_find(tv_cpu_level level, tv_lane_op op, unsigned variant)
{
    const tv_lanes_set *set = tv_lanes(level);
    return set ? set->functions[op][variant] : NULL;
}

#endif
