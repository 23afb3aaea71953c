/* SPDX-License-Identifier: Apache-2.0 */
/* What panels meet: activations in the order of their steps, and their sums. */
#include "kernels/panel.h"

#include "kernels/matrix.h"
#include "kernels/panel_x86.h"
#include "num/int.h"

enum { STEP = 4 };

void tv_panel_ready(const int8_t *a, size_t m, size_t k, int8_t *ready)
{
    size_t steps = tv_ceil_div(k, STEP);
    for (size_t tile = 0; tile < m; tile += TV_PANEL_TILE, ready += steps * TV_PANEL_TILE * STEP)
        for (size_t i = 0; i < TV_PANEL_TILE; i++) {
            const int8_t *row = a + (tile + i) * k;
            int8_t *to = ready + i * STEP;
            size_t s = 0;
            for (; s < k / STEP && tile + i < m; s++, to += TV_PANEL_TILE * STEP)
                memcpy(to, row + s * STEP, STEP);
            for (; s < steps; s++, to += TV_PANEL_TILE * STEP) {
                memset(to, 0, STEP);
                if (tile + i < m && s == k / STEP)
                    memcpy(to, row + s * STEP, k % STEP);
            }
        }
}

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
