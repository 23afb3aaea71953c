/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a scale: of many, the one with which values rounded to small integers come nearest. */
#ifndef TV_KERNELS_SCALES_H
#define TV_KERNELS_SCALES_H

#include "kernels/cpu.h"

enum { TV_SCALES_BATCH = 8, TV_SCALES_MAX = 64 };

/* errors[c] = tv_quantize_error(x, n, scales[c], low, high), the same bits, of a batch of scales. */
typedef void (*tv_scale_errors_fn)(const float *x, size_t n, const float scales[TV_SCALES_BATCH], int low, int high, float errors[TV_SCALES_BATCH]);
tv_scale_errors_fn tv_scale_errors(tv_cpu_level level);

/* What scales are tried on. */
typedef struct tv_scale_search {
    tv_scale_errors_fn errors;
    int low, high; /* the integers' bounds */
    unsigned first; /* scales from here on are tried first: it is a matter of speed alone */
} tv_scale_search;

/* The index of the scale whose error is least, of equal ones the first; `count` if none's is a number. `extreme` is one of x, best that
 * of largest magnitude: a scale whose error of it alone is too large need not be tried. None of 1 to TV_SCALES_MAX scales is 0. */
unsigned tv_least_scale(const tv_scale_search *search, const float *x, size_t n, float extreme, const float *scales, unsigned count);

#endif
