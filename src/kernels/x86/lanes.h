/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of lanes.h for hosts with AVX2 and with AVX-512; NULL where there is none. */
#ifndef TV_KERNELS_X86_LANES_H
#define TV_KERNELS_X86_LANES_H

#include "kernels/lanes.h"

#if defined(__x86_64__)
extern const tv_lanes_fn tv_lanes_avx2[TV_LANE_OPS][TV_LANE_VARIANTS];
extern const tv_lanes_fn tv_lanes_avx512[TV_LANE_OPS][TV_LANE_VARIANTS];
#endif

#endif
