/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of scales.h for hosts with AVX2 and with AVX-512. */
#ifndef TV_KERNELS_SCALES_X86_H
#define TV_KERNELS_SCALES_X86_H

#include "kernels/scales.h"

#if defined(__x86_64__)
void tv_scale_errors_avx2(const float *x, size_t n, const float scales[TV_SCALES_BATCH], int low, int high, float errors[TV_SCALES_BATCH]);
void tv_scale_errors_avx512(const float *x, size_t n, const float scales[TV_SCALES_BATCH], int low, int high, float errors[TV_SCALES_BATCH]);
#endif

#endif
