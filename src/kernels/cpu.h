/* SPDX-License-Identifier: Apache-2.0 */
/* The SIMD levels of the host. variants.def has the kernels that have a variant for each of them; all variants of a
 * kernel give the same bits. */
#ifndef TV_KERNELS_CPU_H
#define TV_KERNELS_CPU_H

#include "base/base.h"

/* The levels of this host architecture, ascending: a host that has one level has all lower ones. */
typedef enum tv_cpu_level {
    TV_CPU_SCALAR,
#if defined(__x86_64__)
    TV_CPU_AVX2,   /* AVX2 and FMA */
    TV_CPU_AVX512, /* F, BW, DQ, VL and VNNI */
#elif defined(__aarch64__)
    TV_CPU_NEON,    /* every arm64 host */
    TV_CPU_DOTPROD, /* and SDOT: 4-element dot products of bytes */
#endif
    TV_CPU_LEVELS
} tv_cpu_level;

extern const char *const tv_cpu_names[TV_CPU_LEVELS]; /* "scalar", "avx2", "avx512"; or "scalar", "neon", "dotprod" */

/* The level to use: that of the host, or the lower one named by the environment variable TRIVET_KERNELS. */
tv_cpu_level tv_cpu(void);

/* The highest level of the host, regardless of TRIVET_KERNELS. */
tv_cpu_level tv_cpu_host(void);

#endif
