/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of groups.h for hosts with AVX2 and with AVX-512. */
#ifndef TV_KERNELS_X86_GROUPS_H
#define TV_KERNELS_X86_GROUPS_H

#include "base/base.h"

#if defined(__x86_64__)
void tv_groups_s4_avx2(const void *weights, size_t k, size_t rows, const int8_t *ready, const int32_t *offsets,
                       float factor, const float *scales, float *out);
void tv_groups_s8_avx2(const void *weights, size_t k, size_t rows, const int8_t *ready, const int32_t *offsets,
                       float factor, const float *scales, float *out);
void tv_groups_s4_avx512(const void *weights, size_t k, size_t rows, const int8_t *ready, const int32_t *offsets,
                         float factor, const float *scales, float *out);
void tv_groups_s8_avx512(const void *weights, size_t k, size_t rows, const int8_t *ready, const int32_t *offsets,
                         float factor, const float *scales, float *out);
#endif

#endif
