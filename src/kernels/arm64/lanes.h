/* SPDX-License-Identifier: Apache-2.0 */
/* The NEON variants of lanes.h; NULL where there is none. */
#ifndef TV_KERNELS_ARM64_LANES_H
#define TV_KERNELS_ARM64_LANES_H

#include "kernels/lanes.h"

#if defined(__aarch64__)
extern const tv_lanes_fn tv_lanes_neon[TV_LANE_OPS][TV_LANE_VARIANTS];
#endif

#endif
