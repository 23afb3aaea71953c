/* SPDX-License-Identifier: Apache-2.0 */
/* Detection of the host's SIMD level. */
#include "kernels/cpu.h"

#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

const char *const tv_cpu_names[TV_CPU_LEVELS] = {
    [TV_CPU_SCALAR] = "scalar",
#if defined(__x86_64__)
    [TV_CPU_AVX2] = "avx2",
    [TV_CPU_AVX512] = "avx512",
#elif defined(__aarch64__)
    [TV_CPU_NEON] = "neon",
    [TV_CPU_DOTPROD] = "dotprod",
#endif
};

tv_cpu_level tv_cpu_host(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return TV_CPU_SCALAR;
    bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
    return has_avx512 ? TV_CPU_AVX512 : TV_CPU_AVX2;
#elif defined(__aarch64__) && defined(__linux__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? TV_CPU_DOTPROD : TV_CPU_NEON;
#elif defined(__aarch64__)
    return TV_CPU_NEON;
#else
    return TV_CPU_SCALAR;
#endif
}

tv_cpu_level tv_cpu(void)
{
    tv_cpu_level level = tv_cpu_host();
    const char *name = getenv("TRIVET_KERNELS");
    for (unsigned i = 0; name && i < (unsigned)level; i++)
        if (strcmp(name, tv_cpu_names[i]) == 0)
            return (tv_cpu_level)i;
    return level;
}
