/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a kernel's versions this host runs. All of them give the same bits. */
#ifndef TV_KERNELS_CPU_H
#define TV_KERNELS_CPU_H

#include "base/base.h"

/* The levels of this kind of host. A host that has a level has those before it. */
typedef enum tv_cpu_level {
    TV_CPU_SCALAR,
#if defined(__x86_64__)
    TV_CPU_AVX2,   /* that and FMA */
    TV_CPU_AVX512, /* F, BW, DQ, VL and VNNI */
#elif defined(__aarch64__)
    TV_CPU_NEON,    /* every arm64 has it */
    TV_CPU_DOTPROD, /* sums of four products of bytes */
#endif
    TV_CPU_LEVELS
} tv_cpu_level;

extern const char *const tv_cpu_names[TV_CPU_LEVELS]; /* "scalar", "avx2", "avx512"; or "scalar", "neon", "dotprod" */

/* What the host has, or what the environment's TRIVET_KERNELS allows of it. */
tv_cpu_level tv_cpu(void);

/* What the host has, whatever is allowed. */
tv_cpu_level tv_cpu_host(void);

/* A table of versions by level begins with the plain one; those of one kind of host follow, and are nothing on others:
 * {plain, TV_X86(avx2, avx512) TV_ARM64(neon, dotprod)}. Where a level has no version of its own, that of the level
 * below serves. */
#if defined(__x86_64__)
#define TV_X86(...) __VA_ARGS__
#else
#define TV_X86(...)
#endif
#if defined(__aarch64__)
#define TV_ARM64(...) __VA_ARGS__
#else
#define TV_ARM64(...)
#endif

#define TV_VERSION(versions, level)                                                                                    \
    ((versions)[level]                      ? (versions)[level]                                                        \
     : (level) > 1 && (versions)[(level)-1] ? (versions)[(level)-1]                                                    \
                                            : (versions)[0])

#endif
