/* SPDX-License-Identifier: Apache-2.0 */
/* What panels are chosen by, and sums of activations that meet them. */
#include "kernels/panel.h"

#include "kernels/matrix.h"
#include "kernels/panel_x86.h"
#include "num/int.h"

void tv_panel_offsets(const int8_t *a, size_t m, size_t k, size_t group, unsigned bits, int32_t *out)
{
    size_t groups = tv_ceil_div(k, group);
    memset(out, 0, tv_panel_offsets_count(m, k, group) * sizeof *out);
    for (size_t i = 0; i < m; i++) {
        int32_t *of_row = out + i / TV_PANEL_TILE * TV_PANEL_TILE * groups + i % TV_PANEL_TILE;
        for (size_t g = 0; g < groups; g++)
            of_row[g * TV_PANEL_TILE] = -(TV_INT_MOST(bits) + 1) * tv_sum_s8(a + i * k + g * group, k - g * group < group ? k - g * group : group);
    }
}

const tv_panel_fns *tv_panel(tv_cpu_level level)
{
#if defined(__x86_64__)
    return level == TV_CPU_AVX512 ? &tv_panel_avx512 : NULL;
#else
    (void)level;
    return NULL;
#endif
}
