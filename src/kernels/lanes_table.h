/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of lanes.def as entries of a tv_lanes_set. A level defines its functions, then
 *     #define TV_LANE(id, selection, avx2, avx512, neon) [TV_LANE_##id] = COLUMN,
 * with its own column, and includes lanes.def inside the table. The function of operation f is
 *     lanes_f_8, _16, _32, and lanes_fs_8 … when saturating   lanes_f_0 … _3, and lanes_f_sat_0 … by rounding mode
 *     lanes_f, and lanes_f_sat */
#ifndef TV_KERNELS_LANES_TABLE_H
#define TV_KERNELS_LANES_TABLE_H

#include "kernels/lanes.h"

#define NONE                                                                                                           \
    {                                                                                                                  \
        NULL                                                                                                           \
    }
#define WIDTHS(f)                                                                                                      \
    {                                                                                                                  \
        lanes_##f##_8, lanes_##f##_8, lanes_##f##_16, lanes_##f##_16, lanes_##f##_32, lanes_##f##_32                   \
    }
#define WIDTHS_SAT(f)                                                                                                  \
    {                                                                                                                  \
        lanes_##f##_8, lanes_##f##s_8, lanes_##f##_16, lanes_##f##s_16, lanes_##f##_32, lanes_##f##s_32                \
    }
#define SHORTS(f)                                                                                                      \
    {                                                                                                                  \
        [2] = lanes_##f##_16, lanes_##f##_16                                                                           \
    }
#define SHORTS_SAT(f)                                                                                                  \
    {                                                                                                                  \
        [2] = lanes_##f##_16, lanes_##f##s_16                                                                          \
    }
#define ROUNDS(f)                                                                                                      \
    {                                                                                                                  \
        lanes_##f##_0, lanes_##f##_1, lanes_##f##_2, lanes_##f##_3                                                     \
    }
#define ROUNDS_SAT(f)                                                                                                  \
    {                                                                                                                  \
        lanes_##f##_0, lanes_##f##_1, lanes_##f##_2, lanes_##f##_3, lanes_##f##_sat_0, lanes_##f##_sat_1,              \
            lanes_##f##_sat_2, lanes_##f##_sat_3                                                                       \
    }
#define ONE(f)                                                                                                         \
    {                                                                                                                  \
        lanes_##f                                                                                                      \
    }
#define ONE_SAT(f)                                                                                                     \
    {                                                                                                                  \
        lanes_##f, [4] = lanes_##f##_sat                                                                               \
    }

#endif
