/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of matrix.h, groups.h, rows.h, outer.h, lanes.h and scales.h for arm64: with NEON, and with its sums of
 * four products of bytes. */
#ifndef TV_KERNELS_ARM64_ARM64_H
#define TV_KERNELS_ARM64_ARM64_H

#include "kernels/lanes.h"
#include "kernels/rows.h"

#if defined(__aarch64__)
void tv_s4s8_neon(const uint8_t *weights, size_t beats, size_t rows, const int8_t *ready, size_t stride,
                  const int32_t *sums, size_t m, int32_t *out);
void tv_s4s8_dotprod(const uint8_t *weights, size_t beats, size_t rows, const int8_t *ready, size_t stride,
                     const int32_t *sums, size_t m, int32_t *out);
void tv_dots_s8_neon(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                     int32_t *out);
void tv_dots_s8_dotprod(const int8_t *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                        int32_t *out);
void tv_s8s8_neon(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums, size_t m, int32_t *out);
void tv_s8s8_dotprod(const int8_t *w, size_t n, size_t rows, const int8_t *a, const int32_t *sums, size_t m,
                     int32_t *out);
void tv_dots_f32_s8_neon(const float *a, size_t a_step, const int8_t *w, size_t w_step, size_t n, size_t count,
                         float *out);
void tv_outer_s8_neon(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count);
void tv_outer_s8_dotprod(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count);
void tv_groups_s4_neon(const void *weights, size_t k, size_t rows, const int8_t *ready, const int32_t *offsets,
                       float factor, const float *scales, float *out);
void tv_groups_s8_neon(const void *weights, size_t k, size_t rows, const int8_t *ready, const int32_t *offsets,
                       float factor, const float *scales, float *out);
void tv_groups_s4_dotprod(const void *weights, size_t k, size_t rows, const int8_t *ready, const int32_t *offsets,
                          float factor, const float *scales, float *out);
void tv_groups_s8_dotprod(const void *weights, size_t k, size_t rows, const int8_t *ready, const int32_t *offsets,
                          float factor, const float *scales, float *out);
void tv_scaled_rows_neon(const tv_rows *r);
void tv_scaled_rows_dotprod(const tv_rows *r);
unsigned tv_scale_search_neon(const float *x, size_t n, float extreme, const float *scales, unsigned count, int low,
                              int high);
extern const tv_lanes_fn tv_lanes_neon[TV_LANE_OPS][TV_LANE_VARIANTS];
#endif

#endif
