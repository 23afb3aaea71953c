/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a scale, one after another. */
#include "kernels/scales.h"

#include <math.h>

#include "kernels/arm64/arm64.h"
#include "kernels/quantize.h"
#include "kernels/x86/scales.h"

static unsigned least_scale_scalar(const float *x, size_t n, float extreme, const float *scales, unsigned count,
                                   int low, int high)
{
    unsigned best = count;
    float least = INFINITY;
    for (unsigned c = 0; c < count; c++) {
        if (!(tv_quantize_error(&extreme, 1, scales[c], low, high) < least))
            continue;
        float error = tv_quantize_error(x, n, scales[c], low, high);
        if (error < least) {
            least = error;
            best = c;
        }
    }
    return best;
}

tv_scale_search_fn tv_scale_search(tv_cpu_level level)
{
    static const tv_scale_search_fn versions[TV_CPU_LEVELS] = {
        least_scale_scalar, TV_X86(tv_scale_search_avx2, tv_scale_search_avx512) TV_ARM64(tv_scale_search_neon)};
    return TV_VERSION(versions, level);
}
