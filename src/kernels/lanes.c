/* SPDX-License-Identifier: Apache-2.0 */
/* Which version of an operation on 64 lanes a host has. */
#include "kernels/lanes.h"

#include "kernels/arm64/lanes.h"
#include "kernels/x86/lanes.h"

tv_lanes_fn tv_lanes_find(tv_cpu_level level, tv_lane_op op, unsigned variant)
{
#if defined(__x86_64__)
    if (level == TV_CPU_AVX512)
        return tv_lanes_avx512[op][variant];
    if (level == TV_CPU_AVX2)
        return tv_lanes_avx2[op][variant];
#elif defined(__aarch64__)
    if (level != TV_CPU_SCALAR)
        return tv_lanes_neon[op][variant];
#endif
    (void)level, (void)op, (void)variant;
    return NULL;
}
