/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of matrix.h for hosts with AVX2 and with AVX-512. */
#ifndef TV_KERNELS_X86_MATRIX_H
#define TV_KERNELS_X86_MATRIX_H

#include "base/base.h"

#if defined(__x86_64__)
void tv_s4s8_avx2(const uint8_t *weights, size_t beats, size_t rows, const int8_t *ready, size_t stride,
                  const int32_t *sums, size_t m, int32_t *out);
void tv_s4s8_avx512(const uint8_t *weights, size_t beats, size_t rows, const int8_t *ready, size_t stride,
                    const int32_t *sums, size_t m, int32_t *out);
void tv_dots_s8_avx2(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                     int32_t *out);
void tv_dots_s8_avx512(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                       int32_t *out);
void tv_s8s8_avx2(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums, size_t m, int32_t *out);
void tv_s8s8_avx512(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums, size_t m,
                    int32_t *out);
void tv_dots_f32_s8_avx2(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                         float *out);
void tv_dots_f32_s8_avx512(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                           float *out);
#endif

#endif
