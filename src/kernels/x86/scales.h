/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of scales.h for hosts with AVX2 and with AVX-512. */
#ifndef TV_KERNELS_X86_SCALES_H
#define TV_KERNELS_X86_SCALES_H

#include "base/base.h"

#if defined(__x86_64__)
unsigned tv_scale_search_avx2(const float *x, size_t n, float extreme, const float *scales, unsigned count, int low,
                              int high);
unsigned tv_scale_search_avx512(const float *x, size_t n, float extreme, const float *scales, unsigned count, int low,
                                int high);
#endif

#endif
