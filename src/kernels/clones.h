/* SPDX-License-Identifier: Apache-2.0 */
/* Functions compiled several times, for the vector units that the host may have; the loader picks one. The C is the
 * same, and so are the results: integer loops, and floating loops without contraction or reordering. */
#ifndef TV_KERNELS_CLONES_H
#define TV_KERNELS_CLONES_H

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) &&                       \
    !defined(__SANITIZE_ADDRESS__)
#define TV_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TV_CLONES
#endif

/* Before a loop that carries nothing from one turn to the next, though its arrays may be the same. */
#if defined(__GNUC__) && !defined(__clang__)
#define TV_NO_CARRY _Pragma("GCC ivdep")
#else
#define TV_NO_CARRY
#endif

/* For helpers of such functions: only what is inlined is compiled for the same unit. */
#define TV_INLINE static inline __attribute__((always_inline))

#endif
