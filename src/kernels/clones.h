/* SPDX-License-Identifier: Apache-2.0 */
/* Function clones: the compiler generates a version per instruction set and the loader selects one. Results are the
 * same in all of them, because floating-point loops are neither contracted nor reordered. */
#ifndef TV_KERNELS_CLONES_H
#define TV_KERNELS_CLONES_H

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) &&                       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TV_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TV_CLONES
#endif

/* Whether Clang checks what it compiles. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TV_SANITIZED_BY_CLANG
#endif
#endif

/* Before a loop of at most 8 iterations: unrolled, so that its arrays can stay in registers. Not with Clang's
 * sanitizers, which take 20 s to compile a file of unrolled loops with their checks. */
#if defined(TV_SANITIZED_BY_CLANG)
#define TV_UNROLL
#elif defined(__clang__)
#define TV_UNROLL _Pragma("unroll")
#else
#define TV_UNROLL _Pragma("GCC unroll 8")
#endif

/* Before a loop without loop-carried dependencies, even if its arrays are the same. */
#if defined(__GNUC__) && !defined(__clang__)
#define TV_IVDEP _Pragma("GCC ivdep")
#else
#define TV_IVDEP
#endif

/* For helpers of clones, which must be inlined to be compiled for the same instruction set. */
#define TV_INLINE static inline __attribute__((always_inline))

#endif
