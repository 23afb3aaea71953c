/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a scale, one after another. */
#include "kernels/scale_search.h"

#include <math.h>

#include "kernels/quantize.h"
#include "kernels/variants.h"

unsigned tv_scale_search_scalar(const float *x, size_t n, float extreme, const float *scales, unsigned count, int low,
                                int high)
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
