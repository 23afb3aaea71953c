/* SPDX-License-Identifier: Apache-2.0 */
/* The index of lane kernels by element width, saturation and rounding mode. */
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
