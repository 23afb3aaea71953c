/* SPDX-License-Identifier: Apache-2.0 */
/* Selection of kernel variants: from each row of variants.def, a table indexed by tv_cpu_level and tv_NAME(level). */
#include "kernels/variants.h"

#define ENTRY_FN_Y(name, level) tv_##name##_##level
#define ENTRY_FN_N(name, level) NULL
#define ENTRY_SET_Y(name, level) &tv_##name##_##level
#define ENTRY_SET_N(name, level) NULL

/* The entries of a table in the order of tv_cpu_level. */
#if defined(__x86_64__)
#define ENTRIES(what, name, scalar_, avx2_, avx512_, neon_, dotprod_)                                                  \
    {                                                                                                                  \
        [TV_CPU_SCALAR] = (scalar_), [TV_CPU_AVX2] = ENTRY_##what##_##avx2_(name, avx2),                               \
        [TV_CPU_AVX512] = ENTRY_##what##_##avx512_(name, avx512)                                                       \
    }
#elif defined(__aarch64__)
#define ENTRIES(what, name, scalar_, avx2_, avx512_, neon_, dotprod_)                                                  \
    {                                                                                                                  \
        [TV_CPU_SCALAR] = (scalar_), [TV_CPU_NEON] = ENTRY_##what##_##neon_(name, neon),                               \
        [TV_CPU_DOTPROD] = ENTRY_##what##_##dotprod_(name, dotprod)                                                    \
    }
#else
#define ENTRIES(what, name, scalar_, avx2_, avx512_, neon_, dotprod_)                                                  \
    {                                                                                                                  \
        [TV_CPU_SCALAR] = (scalar_)                                                                                    \
    }
#endif

/* tv_NAME(level) returns the variant of the highest level up to `level` that has one. */
#define TV_KERNEL(name, avx2_, avx512_, neon_, dotprod_)                                                               \
    tv_##name##_fn *tv_##name(tv_cpu_level level)                                                                      \
    {                                                                                                                  \
        static tv_##name##_fn *const variants[TV_CPU_LEVELS] =                                                         \
            ENTRIES(FN, name, tv_##name##_scalar, avx2_, avx512_, neon_, dotprod_);                                    \
        while (level > TV_CPU_SCALAR && !variants[level])                                                              \
            level = (tv_cpu_level)(level - 1);                                                                         \
        return variants[level];                                                                                        \
    }
#define TV_KERNEL_SET(name, avx2_, avx512_, neon_, dotprod_)                                                           \
    const tv_##name##_set *tv_##name(tv_cpu_level level)                                                               \
    {                                                                                                                  \
        static const tv_##name##_set *const variants[TV_CPU_LEVELS] =                                                  \
            ENTRIES(SET, name, NULL, avx2_, avx512_, neon_, dotprod_);                                                 \
        while (level > TV_CPU_SCALAR && !variants[level])                                                              \
            level = (tv_cpu_level)(level - 1);                                                                         \
        return variants[level];                                                                                        \
    }
#include "kernels/variants.def"
