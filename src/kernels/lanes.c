/* SPDX-License-Identifier: Apache-2.0 */
/* Selection of lane kernels by the level of the host and by variant. */
#include "kernels/lanes.h"

typedef enum selection { SINGLE, BY_CLASS, BY_ROUND, BY_SAT_ROUND } selection;

unsigned tv_lane_variant(tv_lane_op op, unsigned class_, bool saturate, unsigned round)
{
    static const selection selections[TV_LANE_OPS] = {
        [TV_LANE_NONE] = SINGLE,
#define TV_LANE(id, selection, avx2, avx512, neon) [TV_LANE_##id] = selection,
#include "kernels/lanes.def"
#undef TV_LANE
    };
    switch (selections[op]) {
    case SINGLE:
        return 0;
    case BY_CLASS:
        return 2 * class_ + saturate;
    case BY_ROUND:
        return round;
    case BY_SAT_ROUND:
        return 4 * (unsigned)saturate + round;
    }
    return 0;
}

tv_lanes_fn tv_lanes_find(tv_cpu_level level, tv_lane_op op, unsigned variant)
{
    const tv_lanes_set *set = tv_lanes(level);
    return set ? set->functions[op][variant] : NULL;
}
