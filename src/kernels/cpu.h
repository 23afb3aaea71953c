/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a kernel's versions this host runs. All of them give the same bits. */
#ifndef TV_KERNELS_CPU_H
#define TV_KERNELS_CPU_H

#include "base/base.h"

/* A host that has a level has those before it. */
typedef enum tv_cpu_level { TV_CPU_SCALAR, TV_CPU_AVX2, TV_CPU_AVX512, TV_CPU_LEVELS } tv_cpu_level;

extern const char *const tv_cpu_names[TV_CPU_LEVELS]; /* "scalar", "avx2", "avx512" */

/* What the host has, or what the environment's TRIVET_KERNELS allows of it. AVX2 is that and FMA, AVX512 is F, BW, DQ, VL
 * and VNNI together. */
tv_cpu_level tv_cpu(void);

/* What the host has, whatever is allowed. */
tv_cpu_level tv_cpu_host(void);

#endif
