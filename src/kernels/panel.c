/* SPDX-License-Identifier: Apache-2.0 */
/* What panels are chosen by. */
#include "kernels/panel.h"

#include "kernels/x86/panel.h"

const tv_panel_fns *tv_panel(tv_cpu_level level)
{
#if defined(__x86_64__)
    return level == TV_CPU_AVX512 ? &tv_panel_avx512 : NULL;
#else
    (void)level;
    return NULL;
#endif
}
