/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar variant of the scale search. */
#include <math.h>

#include "kernels/quantize.h"
#include "kernels/variants.h"

unsigned tv_scale_search_scalar(const float *x, size_t n, float absmax, const float *scales, unsigned count, int low,
                                int high)
{
    unsigned best = count;
    float min_error = INFINITY;
    for (unsigned c = 0; c < count; c++) {
        if (!(tv_quantize_error(&absmax, 1, scales[c], low, high) < min_error))
            continue;
        float error = tv_quantize_error(x, n, scales[c], low, high);
        if (error < min_error) {
            min_error = error;
            best = c;
        }
    }
    return best;
}
