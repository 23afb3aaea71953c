/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a scale: of many, the one with which values rounded to small integers come nearest. */
#ifndef TV_KERNELS_SCALE_SEARCH_H
#define TV_KERNELS_SCALE_SEARCH_H

#include "kernels/cpu.h"

enum { TV_SCALES_MAX = 64 };

/* The index of the scale whose tv_quantize_error over the `n` values, which are finite, is least, of equal ones the
 * first; `count` if no error is a finite number. There are 1 to TV_SCALES_MAX scales, none of them 0. `extreme` is one
 * of the values, best that of largest magnitude: a scale whose error of it alone is too large need not be tried. Every
 * version gives the same index. */
typedef unsigned tv_scale_search_fn(const float *x, size_t n, float extreme, const float *scales, unsigned count,
                                    int low, int high);
tv_scale_search_fn *tv_scale_search(tv_cpu_level level);

#endif
