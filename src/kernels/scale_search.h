/* SPDX-License-Identifier: Apache-2.0 */
/* Search for the quantization scale with the smallest squared error. */
#ifndef TV_KERNELS_SCALE_SEARCH_H
#define TV_KERNELS_SCALE_SEARCH_H

#include "kernels/cpu.h"

enum { TV_SCALES_MAX = 64 };

/* Returns the index of the scale with the smallest tv_quantize_error over the `n` finite values, the first one on ties;
 * `count` if no error is finite. There are 1 to TV_SCALES_MAX scales, none of them 0. `absmax` is one of the values,
 * preferably that of largest magnitude: a scale whose error for it alone exceeds the best error is skipped. */
typedef unsigned tv_scale_search_fn(const float *x, size_t n, float absmax, const float *scales, unsigned count,
                                    int low, int high);
tv_scale_search_fn *tv_scale_search(tv_cpu_level level);

#endif
